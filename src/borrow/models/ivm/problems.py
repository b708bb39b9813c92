"""The two problems that rows are chosen for: numbers with Gaussian noise, labels with a probit.

**Noise.** Chosen rows lie far from each other, so that a function through all of them with no noise at all is about as
likely as any other: they do not identify the noise. Rows that were left out have neighbours, and do. So with the
kernel held, the noise s2 maximises the evidence of the chosen rows and of about as many of the others, U:

    log N(y_U; 0, K_U + s2 S^-2),    S = diag(sqrt k), k_n the number of rows that a cell stands for.

With S K_U S = V diag(l) V' and t = V'S y this is -1/2 sum [t^2 / (l + s2) + log(l + s2)] and a constant, so one
decomposition serves every s2. The scatter within cells is added, as everywhere. (Scoring each row left out by its
own prediction from the chosen ones, which is cheaper, does not do: with few chosen rows the predictions' own variance
hides the noise, and small errors of the kernel make it several times too small or too large.)

**Rounds.** Selection and learning are taken in turn (Lawrence & Platt 2004, section 5). Objectives of different rounds
are about different rows and cannot be compared. What can be said is how many rows two successive rounds share. Where a
round returns to the rows of the last but one, the rounds go in a circle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.utils import check_random_state

from borrow.covariance import Sites
from borrow.data.cells import Cells, Codes
from borrow.data.table import Table
from borrow.inference import priors
from borrow.inference.adf import LEAST_PRECISION
from borrow.inference.ep import LOG_VARIANCE, ep
from borrow.inference.hyper_uncertainty import (
    MOST_ROWS,
    HyperUncertainty,
    direction,
    hyper_uncertainty,
    with_unknown_level,
)
from borrow.inference.likelihoods import Probit, within_cells
from borrow.inference.priors import Prior
from borrow.kernels import Kernel
from borrow.models.gp.model import single_lengthscales
from borrow.models.ivm.model import (
    Active,
    Likelihood,
    Report,
    Selection,
    blocks_of,
    condition,
    frozen_objective,
    gather,
    gaussian,
    log_evidence,
    prior_of,
    probit,
    select_among,
)
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array, symmetric_eigen
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Optimum, Values
from borrow.numerics.progress import Progress
from borrow.numerics.warned import log
from borrow.tasks.contracts import Shard, Tasks

#: As many rows left out as chosen ones are looked at, but at least and at most so many, of all tasks together.
FEWEST, MOST = 500, 2000
#: Rows of one task that are decomposed at once, at most.
LARGEST = 1200
#: log noise is searched for on this grid first, then around the best of it; in units of the scaled targets.
GRID = np.linspace(np.log(NOISE_FLOOR), np.log(30.0), 36)


@dataclass(frozen=True)
class Spectrum:
    """Rows of one task in the basis of their covariance."""

    l: Array
    targets: Array
    dof: float
    scatter: float

    def log_density(self, noise: float) -> float:
        """Of the rows and of the scatter within cells, up to a constant."""
        shifted = self.l + noise
        rows = -0.5 * float(np.sum(self.targets**2 / shifted) + np.log(shifted).sum())
        return rows + float(within_cells(self.dof, self.scatter, noise)[0])


def rows_left_out(n: int, rows: Codes) -> Codes:
    """Rows that were not chosen, thinned evenly (they are sorted by task and input) to a number that is enough."""
    rest = np.setdiff1d(np.arange(n), rows)
    enough = int(np.clip(len(rows), FEWEST, MOST))
    return rest if len(rest) <= enough else rest[np.linspace(0, len(rest) - 1, enough).astype(int)]


def spectra(kernel: Kernel, cells: Cells, active: Active) -> dict[int, Spectrum]:
    """Of the chosen rows and of those left out, by task code; tasks without rows say nothing and are left out."""
    rest, out = rows_left_out(len(cells.y), active.rows), {}
    of_rest, of_active = cells.task[rest], active.task
    for t in np.unique(np.concatenate([of_rest, of_active])).tolist():
        left = rest[of_rest == t][:LARGEST]
        chosen = active.rows[of_active == t][: max(LARGEST - len(left), 0)]
        rows = np.concatenate([chosen, left])
        root = np.sqrt(cells.count[rows])
        l, V = symmetric_eigen(kernel(cells.X[rows]) * root * root[:, None])
        out[t] = Spectrum(
            np.maximum(l, 0.0), V.T @ (root * cells.y[rows]), float(cells.dof[t]), float(cells.scatter[t])
        )
    return out


def noise_from_rest(parts: dict[int, Spectrum], log_noise: Array, prior: Prior | None) -> Array:
    """log noise at which these rows are likeliest: one for all tasks, or one for each, as `log_noise` has it.

    The prior of a task's noise is given that of the others as they are in `log_noise`.
    """

    def best(which: list[Spectrum], entry: int) -> float:
        def cost(log_s2: float) -> float:
            value = sum(s.log_density(float(np.exp(log_s2))) for s in which)
            if prior is not None:
                value += prior.log_density(np.where(np.arange(len(log_noise)) == entry, log_s2, log_noise))[0]
            return -value

        costs = [cost(g) for g in GRID]
        i = int(np.argmin(costs))
        around = float(GRID[max(i - 1, 0)]), float(GRID[min(i + 1, len(GRID) - 1)])
        found = minimize_scalar(cost, bounds=around, method="bounded", options={"xatol": 1e-4})
        return float(GRID[i]) if costs[i] <= found.fun else float(found.x)

    if len(log_noise) == 1:
        return np.array([best(list(parts.values()), 0)])
    return np.array([best([parts[t]], t) if t in parts else now for t, now in enumerate(log_noise.tolist())])


#: Kernel and noise are learnt in turn until the noise moves by less than this, or so many times.
STILL, TURNS = 0.01, 8
#: Lengthscales to start from, in units of the default ones.
SHORTER = (1.0, 0.5, 0.25, 0.1)
#: A noise so many times smaller than what the rows left out say has collapsed.
COLLAPSED = 4.0


@dataclass(frozen=True)
class Problem(ABC):
    """Rows of all tasks to choose from, and a kernel to learn. Abstract: what the targets are is added."""

    log_variance: ClassVar[float] = 0.0  # where the prior of the kernel's log variance is centred

    tasks: Tasks[Shard]
    kernel: Kernel
    scales: Array  # of the columns
    prior: str | None
    max_iter: int

    @property
    def cells(self) -> Cells:
        """The rows of all tasks."""
        return self.tasks.cells

    @property
    def n_rows(self) -> int:
        """Rows to choose from."""
        return len(self.cells.y)

    @abstractmethod
    def factors(self, values: Values) -> tuple[Likelihood, Array]:
        """The likelihood, and its parameter of each task."""

    @abstractmethod
    def objective(self, active: Active) -> Objective:
        """Evidence of the chosen rows (sec. 5)."""

    def parameter_names(self, labels: tuple[Hashable, ...]) -> dict[str, list[str]]:
        """What the user calls the hyper-parameters."""
        return {"kernel": self.kernel.parameter_names()}

    def weak_priors(self) -> dict[str, Prior]:
        """Those that are switched on, by name of the hyper-parameter."""
        return (
            {} if self.prior is None else {"kernel": priors.kernel_prior(self.kernel, self.scales, self.log_variance)}
        )

    def doubt(self, values: Values, active: Active) -> str:
        """What there is to say against the hyper-parameters learnt; empty where there is nothing."""
        return ""

    def select(self, values: Values, d: int, order: Codes | None = None, report: Report | None = None) -> Selection:
        """Rows that tell most at these hyper-parameters."""
        kernel = self.kernel.with_theta(values["kernel"])
        return select_among(self.tasks, kernel, *self.factors(values), d, order, report)

    def active(self, selection: Selection) -> Active:
        """The rows selected, stacked by task."""
        return gather(selection, self.tasks)

    def penalised(self, active: Active) -> Objective:
        """The objective with the priors that are switched on."""
        return hyper.with_prior(self.objective(active), priors.independent_priors(self.weak_priors()))

    def learn(self, selection: Selection, values: Values) -> Optimum:
        """The hyper-parameters with rows and sites frozen."""
        bounds = hyper.bounds_around(values, {"noise": float(np.log(NOISE_FLOOR))} if "noise" in values else {})
        return hyper.maximise(self.penalised(self.active(selection)), values, bounds, self.max_iter)


@dataclass(frozen=True)
class Regression(Problem):
    """Numbers with Gaussian noise, one variance for all tasks or one per task."""

    n_noise: int = 1  # 1, or the number of tasks
    noise_from: str = "rest"

    def noise_of(self, values: Values) -> Array:
        """Noise variance of each task."""
        return np.exp(values["noise"]) * np.ones(len(self.cells.dof))

    def factors(self, values: Values) -> tuple[Likelihood, Array]:
        """Gaussian, with the noise of each task."""
        return gaussian, self.noise_of(values)

    def parameter_names(self, labels: tuple[Hashable, ...]) -> dict[str, list[str]]:
        """Those of the kernel, and the noise."""
        noise = ["noise"] if self.n_noise == 1 else [f"noise of task {label!r}" for label in labels]
        return {**super().parameter_names(labels), "noise": noise}

    def weak_priors(self) -> dict[str, Prior]:
        """On the kernel and on the noise."""
        kernel = super().weak_priors()
        return {**kernel, "noise": priors.noise_prior()} if kernel else {}

    def objective(self, active: Active) -> Objective:
        """Evidence of the chosen rows and of the scatter within cells, by kernel and noise (sec. 5).

        With 1/tau = s2/k of row i and b_i its adjoint, d/d log s2 = sum_i b_i s2/k_i - dof/2 + scatter/(2 s2).
        """
        c, task, blocks = self.cells, active.task, blocks_of(active.starts)

        def objective(values: Values) -> tuple[float, Values]:
            noise, kernel = self.noise_of(values), self.kernel.with_theta(values["kernel"])
            tau = c.count[active.rows] / noise[task]
            value, by_theta, by_variance = log_evidence(kernel, active.X, blocks, tau, c.y[active.rows])
            scatter, by_scatter = within_cells(c.dof, c.scatter, noise)
            by = np.bincount(task, by_variance / tau, minlength=len(noise)) + by_scatter
            by_noise = np.array([by.sum()]) if len(values["noise"]) == 1 else by
            return value + float((scatter + c.log_count).sum()), {"kernel": by_theta, "noise": by_noise}

        return objective

    def noise_beside(self, theta: Array, active: Active, log_noise: Array) -> tuple[Array, float]:
        """log noise by the rows that were not chosen, with this kernel; and how likely these rows then are."""
        parts = spectra(self.kernel.with_theta(theta), self.cells, active)
        noise = noise_from_rest(parts, log_noise, self.weak_priors().get("noise"))
        of_task = self.noise_of({"noise": noise})
        return noise, float(sum(s.log_density(float(of_task[t])) for t, s in parts.items()))

    def best_start(self, values: Values) -> Values:
        """Shorter lengthscales to start from, and a noise, where a sample of the rows likes them better.

        A rough function can be taken for a smooth one and noise, and few chosen rows cannot tell the two apart.
        """
        none = self.active(Selection(np.zeros(0, dtype=np.intp), *[np.zeros(0)] * 4))
        on_kernel = self.weak_priors().get("kernel")
        best, found = -np.inf, values
        for factor in SHORTER:
            theta = values["kernel"] + np.log(factor) * self.kernel.mask_of("lengthscale")
            noise, value = self.noise_beside(theta, none, values["noise"])
            value += 0.0 if on_kernel is None else on_kernel.log_density(theta)[0]
            if value > best:
                best, found = value, {"kernel": theta, "noise": noise}
        return found

    def learn(self, selection: Selection, values: Values) -> Optimum:
        """Kernel from the chosen rows; noise from the others, where there are any, else from the chosen ones too."""
        active = self.active(selection)
        if self.noise_from == "active" or not len(rows_left_out(self.n_rows, active.rows)):
            return super().learn(selection, values)
        objective, bounds, n_iter = self.penalised(active), hyper.bounds_around(values), 0
        for _ in range(TURNS):
            noise, _ = self.noise_beside(values["kernel"], active, values["noise"])
            moved = float(np.max(np.abs(noise - values["noise"])))
            held = {**bounds, "noise": (noise, noise)}
            optimum = hyper.maximise(objective, {**values, "noise": noise}, held, self.max_iter)
            values, n_iter = optimum.values, n_iter + optimum.n_iter
            if moved < STILL:
                break
        return replace(optimum, n_iter=n_iter)

    def uncertainty(self, active: Active, values: Values, centred: bool) -> HyperUncertainty | None:
        """How uncertain kernel and noise leave the functions, the chosen rows held; None where these are many.

        Where rows were left out the noise is theirs to tell, and taken as known. Levels of centred targets are
        integrated out.
        """
        if len(active.rows) > MOST_ROWS:
            return None
        levelled: Any = with_unknown_level(self.kernel, centred)
        objective, count = replace(self, kernel=levelled).penalised(active), self.cells.count[active.rows]

        def evaluate(at: Values) -> tuple[float, Any]:
            moved = replace(active, tau=count / self.noise_of(at)[active.task])
            return objective(at)[0], condition(self.kernel.with_theta(at["kernel"]), moved, centred)

        moves = [direction(values, kernel=self.kernel.mask_of(name)) for name in ("lengthscale", "variance")]
        whole = len(active.rows) == self.n_rows
        singles, low = single_lengthscales(values, self.kernel), {"noise": np.log(NOISE_FLOOR)}
        return hyper_uncertainty(evaluate, values, [*moves, direction(values, noise=float(whole))], singles, low)

    def doubt(self, values: Values, active: Active) -> str:
        """A noise at its floor, or so small that the rows left out contradict it."""
        log_noise = values["noise"]
        if len(active.rows) == self.n_rows:  # an exact GP, of which the optimiser says what there is to say
            return ""
        told = self.prior is None and self.noise_from == "active"  # the optimiser has named the floor
        if float(log_noise.min()) <= np.log(NOISE_FLOOR) + 1e-6 and np.ptp(self.cells.y) > 0 and not told:
            return (
                f"the noise variance is at its floor of {NOISE_FLOOR:g} of the variance of y: the fit meets the "
                "targets exactly; if they are not exact, raise n_active, or give noise= with optimizer=None"
            )
        rest = self.noise_beside(values["kernel"], active, log_noise)[0] if self.noise_from == "active" else log_noise
        worst = int(np.argmax(rest - log_noise))
        if rest[worst] - log_noise[worst] <= np.log(COLLAPSED):
            return ""
        return (
            f"the noise has collapsed: {np.exp(log_noise[worst]):.3g} of the variance of y, where rows that "
            f"were not chosen say {np.exp(rest[worst]):.3g}; chosen rows do not identify it: use "
            "noise_from='rest', or raise n_active"
        )


@dataclass(frozen=True, kw_only=True)
class Classification(Problem):
    """Rows to be chosen and kernels to be learnt from labels, which are -1 and +1."""

    log_variance: ClassVar[float] = LOG_VARIANCE  # in units of the probit's noise, as in every classifier

    bias: Array  # (M,)
    ep_sweeps: int = 0

    def factors(self, values: Values) -> tuple[Likelihood, Array]:
        """Probit, with the bias of each task."""
        return probit, self.bias

    def objective(self, active: Active) -> Objective:
        """Evidence at frozen sites."""
        return frozen_objective(self.kernel, active)

    def select(self, values: Values, d: int, order: Codes | None = None, report: Report | None = None) -> Selection:
        """Rows that tell most at these hyper-parameters; their sites by `ep_sweeps` of EP, from those of ADF."""
        selection = super().select(values, d, order, report)
        if not self.ep_sweeps:
            return selection
        a = self.active(selection)
        nu, tau, y, bias = map(a.tasks.put, (a.tau * a.z, a.tau, a.tasks.cells.y, self.bias[a.task]))
        prior = prior_of(self.kernel.with_theta(values["kernel"]), a)
        sites = ep(prior, Probit(), y, bias, Sites(nu, tau), self.ep_sweeps + 1).sites.on_host()
        tau = np.maximum(sites.tau, LEAST_PRECISION)
        back = np.argsort(a.rows)[np.searchsorted(np.sort(a.rows), selection.active)]  # from tasks to inclusion
        return replace(selection, tau=tau[back], z=(sites.nu / tau)[back])


#: Two sets that share this part of their rows are the same.
SAME = 0.99


@dataclass(frozen=True)
class Alternation:
    """Hyper-parameters, the rows selected with them, and the story of the rounds."""

    values: Values
    selection: Selection
    optimum: Optimum | None
    rounds: Table
    cycle: tuple[int, int] | None  # rounds that chose the same rows, with another choice between them

    @property
    def n_iter(self) -> int:
        """Iterations of the optimiser in the last round; 0 where nothing was learnt."""
        return 0 if self.optimum is None else max(self.optimum.n_iter, 1)

    @property
    def converged(self) -> bool:
        """Whether the optimiser ended by itself, and the rounds went in no circle."""
        return self.cycle is None and (self.optimum is None or self.optimum.converged)


def alternate(e: Any, problem: Problem, values: Values) -> Alternation:
    """`n_rounds` times select and learn, then select with what was learnt; `e` is the estimator."""
    d, learns, entropy = min(int(e.n_active), problem.n_rows), e.optimizer is not None, e.selection == "entropy"
    order = None if entropy else check_random_state(e.random_state).permutation(problem.n_rows)[:d]
    optimum, cycle = None, None
    sets: list[Codes] = []
    story: dict[str, list[Any]] = {n: [] for n in ("round", "overlap", "overlap_before", "objective", "step")}

    def choose(where: str) -> Selection:
        report = Progress(d, f"{where} rows chosen".strip(), e.verbose)
        return problem.select(values, d, order, report if report.shown else None)

    for number in range(1, e.n_rounds + 1) if learns else ():
        selection = choose(f"round {number}:")
        last, before = ([overlap(selection.active, s) for s in sets[-1:-3:-1]] + [np.nan, np.nan])[:2]
        if entropy and before >= SAME > last:
            cycle = number - 2, number
            break
        if entropy and last == 1.0:
            log.info("round %d chose the rows of round %d again", number, number - 1)
            break
        optimum = problem.learn(selection, values)
        step = max(float(np.max(np.abs(optimum.values[n] - v), initial=0.0)) for n, v in values.items())
        for name, entry in zip(story, (number, last, before, optimum.objective, step), strict=True):
            story[name].append(entry)
        log.debug("round %d: overlap %.3g, objective %.6g, step %.3g", number, last, optimum.objective, step)
        sets.append(selection.active)
        values = optimum.values
    return Alternation(values, choose("at the end:" if learns else ""), optimum, Table(story), cycle)


def overlap(one: Array | Codes, other: Array | Codes) -> float:
    """The part of the rows that two sets of one size share."""
    return len(np.intersect1d(one, other)) / max(len(one), 1)
