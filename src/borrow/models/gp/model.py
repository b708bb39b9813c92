"""One GP on the rows of one group: exact, or sparse on learnt pseudo-inputs; Gaussian noise, or labels by EP.

It is the covariance of the focused model with one task, so that comparisons compare models and not code: an exact GP is
a task with a kernel of its own and nothing shared; a sparse one is a shared function without an own part. Its inducing
inputs are rows' inputs, chosen for the kernel and again for the kernel found; or they are learnt, moved by the gradient
of the evidence (Snelson & Ghahramani 2006; Leen, Peltonen & Kaski 2011, section 5.2). Learnt ones explain noise by
where they are: the evidence then is higher than the exact one (by 40 nats at 500 rows in three columns), new rows are
predicted worse, and hundreds of iterations go into it.

Single-task GPs of many tasks may be one batch (`fit_each`): what a device needs, where each of them is too small to
keep it busy. Nothing is shared, so the evidence is a sum over tasks and so is its gradient: every task has a search of
its own (`maximise_each`), and an evaluation of all of them is one of the covariance without shared functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from borrow.covariance import Basis, SharedCovariance, choose_inducing
from borrow.data.cells import Cells
from borrow.estimators.gp import EXACT
from borrow.inference import Gaussian, Inference, Result, exact, priors
from borrow.inference.hyper_uncertainty import (
    MOST_ROWS,
    HyperUncertainty,
    UncertaintyByTask,
    direction,
    hyper_uncertainty,
    with_unknown_level,
)
from borrow.kernels import Kernel
from borrow.kernels.compose import TaskKernels
from borrow.numerics.device import ALONE_ROWS, MATRICES
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import (
    NOISE_FLOOR,
    Objective,
    Optimum,
    QuasiNewton,
    Values,
    bounds_around,
    maximise,
    maximise_each,
    with_prior,
)
from borrow.numerics.threads import SMALL_BLOCK
from borrow.numerics.warned import log
from borrow.tasks.contracts import Shard, Tasks

SPARSE_ABOVE = 300
INDUCING_INPUTS = 100
#: Inducing inputs are chosen again for the kernel found at most so many times in all.
CHOICES = 3
#: Learnt ones creep: there, stop when ten steps together gain less than this per row, in nats.
CREEPING = {"patience": 10, "memory": 100}
CREEPING_TOL = 1e-4
#: Lengthscales are moved one at a time up to so many, and in as many groups beyond: a move is two evaluations.
MOST_SINGLES = 100
#: Steps of either start before the better of the two goes on, task by task.
WARMUP_ITERATIONS = 16
#: What stands for a search where parameters are kept as given.
KEPT = Optimum({}, np.nan, 0, 0, True, "kept as given")


def condition_single(
    tasks: Tasks[Shard],
    kernel: Kernel,
    values: Values,
    infer: Inference = EXACT,
    Z: Array | None = None,
    start: Any = None,
) -> Result:
    """GP on the rows of one task, on pseudo-inputs Z if given; `values` holds the likelihood's parameters, if any."""
    if Z is None:
        prior = SharedCovariance(tasks, [], [], np.zeros((1, 0)), [kernel])
    else:
        prior = SharedCovariance(tasks, [Basis(kernel, Z)], [0], np.ones((1, 1)), [None])
    return infer(prior, tasks, values, start)


def single_objective(
    tasks: Tasks[Shard],
    kernel: Kernel,
    infer: Inference = EXACT,
    scales: Array | float = 1.0,
    Z: Array | None = None,
) -> Objective:
    """Evidence of one GP by {kernel, the likelihood's parameters, and Z where it is learnt, in column scales}."""

    def condition(values: Values, rows: Tasks[Shard], start: Any) -> Result:
        at = values["Z"] * scales if "Z" in values else Z
        return condition_single(rows, kernel.with_theta(values["kernel"]), values, infer, at, start)

    def gradient(fit: Result, values: Values, _: Any) -> Values:
        learnt = "Z" in values
        found: Any
        found, by = fit.gradient(inducing=learnt)
        by["kernel"] = found.bases[0] if learnt or Z is not None else found.specific[0]
        if learnt:
            by["Z"] = found.inducing[0] * scales
        return {n: by[n] for n in values}

    return Evidence(tasks, tasks, condition, gradient)


class Evidence:
    """Log evidence of a model and its gradient by `values`: an objective. EP starts from the sites of the call before.

    The result of a call stays where it is small, since else the system takes back its pages and gives them again; and
    where `keep` asks for it, until the next call makes room.
    """

    keep = False

    def __init__(
        self,
        model: Any,
        tasks: Tasks[Shard],
        condition: Callable[[Values, Any, Any], Result],
        gradient: Callable[[Result, Values, Any], Values],
        report: Callable[[float], None] | None = None,
    ) -> None:
        self._model, self._condition, self._gradient, self._report = model, condition, gradient, report
        self._small = tasks.small
        self._last: Result | None = None
        self._where: Values = {}
        self._start: Any = None

    def __call__(self, values: Values) -> tuple[float, Values]:
        """The evidence and its derivatives."""
        fit = self._made(values)
        by = self._gradient(fit, values, self._model)
        if self._report is not None:
            self._report(fit.evidence)
        return fit.evidence, by

    def value(self, values: Values) -> float:
        """The evidence alone; where the result is kept, the derivatives at the same values go on from it."""
        return self._made(values).evidence

    def at(self, values: Values) -> Result:
        """The result at these values: that of the last call where it was for them and is kept, else made anew."""
        return self._kept(values) or self._condition(values, self._model, self._start)

    def _kept(self, values: Values) -> Result | None:
        same = self._last is not None and all(np.array_equal(self._where[n], v) for n, v in values.items())
        return self._last if same else None

    def _made(self, values: Values) -> Result:
        """The result at these values; the next one starts from it."""
        fit = self._kept(values)
        if fit is None:
            self._last = self._last if self._small else None
            fit = self._condition(values, self._model, self._start)
            self._start, self._last = fit.start, fit if self._small or self.keep else None
            self._where = {n: v.copy() for n, v in values.items()}
        return fit


class Learnt(NamedTuple):
    """What a fit of one GP found, and how it went."""

    kernel: Kernel
    likelihood: Values
    optimum: Optimum
    Z: Array | None = None

    @property
    def noise(self) -> Array:
        """The noise variance; 1 for labels, which have none."""
        return np.exp(self.likelihood.get("noise", np.zeros(1)))


def likelihood_of(values: Values, t: int) -> Values:
    """The likelihood's own parameters of one task: its log noise; labels have none."""
    return {n: values[n][t : t + 1] for n in ("noise",) if n in values}


def smooth_and_rough(kernel: Kernel, start: Values) -> list[Values]:
    """The start, and one with a fifth of the kernel's lengthscales: a rough function can be taken for a smooth one."""
    return [start, {**start, "kernel": start["kernel"] + np.log(0.2) * kernel.mask_of("lengthscale")}]


def fit_single(
    tasks: Tasks[Shard],
    kernel: Kernel,
    likelihood: Values,
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference = EXACT,
    Z: Array | None = None,
    learn_Z: bool = False,
) -> Learnt:
    """Maximise the evidence (and the priors) of one GP; inducing inputs, where there are any, are held or learnt.

    A rough function can be taken for a smooth one and noise: there are two starts (`smooth_and_rough`).
    """
    start = {"kernel": kernel.theta, **likelihood} | ({} if Z is None or not learn_Z else {"Z": Z / scales})
    objective, bounds = single_objective(tasks, kernel, infer, scales, Z), bounds_of(start, tasks.cells)
    if prior is not None:
        objective = with_prior(objective, single_priors(kernel, scales, bool(likelihood), infer.log_variance))
    if "Z" not in start:
        optimum = QuasiNewton(objective).maximise_from(smooth_and_rough(kernel, start), bounds, max_iter)
    else:
        reach = 2.0 + np.ptp(tasks.cells.X, axis=0) / scales  # pseudo-inputs may leave the data, but not by far
        bounds["Z"] = (start["Z"] - reach, start["Z"] + reach)
        optimum = maximise(objective, start, bounds, max_iter, CREEPING_TOL * len(tasks.cells.y), **CREEPING)
        Z = optimum.values["Z"] * scales
    own = {n: optimum.values[n] for n in likelihood}
    return Learnt(kernel.with_theta(optimum.values["kernel"]), own, optimum, Z)


def fit_on_rows(
    tasks: Tasks[Shard],
    kernel: Kernel,
    likelihood: Values,
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference,
    Z: Array,
) -> Learnt:
    """One GP on inducing inputs among the rows', which are chosen again for the kernel found while that gains."""
    best = fit_single(tasks, kernel, likelihood, scales, prior, max_iter, infer, Z)
    n_iter = best.optimum.n_iter
    for _ in range(CHOICES - 1):
        again = choose_inducing(best.kernel, tasks.cells.X[:0], tasks.cells.X, len(Z), tolerance=0.0)
        trial = fit_single(tasks, best.kernel, best.likelihood, scales, prior, max_iter, infer, again)
        n_iter += trial.optimum.n_iter
        if trial.optimum.objective <= best.optimum.objective + 1e-3:
            break
        best = trial
    return best._replace(optimum=replace(best.optimum, n_iter=n_iter))


def bounds_of(start: Values, cells: Cells) -> dict[str, tuple[Array, Array]]:
    """Wide bounds, and the floor of the noise where there is one: what the targets' resolution leaves."""
    if "noise" not in start:
        return bounds_around(start)
    least = np.full(len(cells.starts) - 1, NOISE_FLOOR)
    if cells.least_noise is not None:
        least = np.maximum(least, cells.least_noise)
    return bounds_around(start, {"noise": np.log(least if start["noise"].size == least.size else least.min())})


def single_priors(kernel: Kernel, scales: Array, noise: bool = True, log_variance: float = 0.0) -> Objective:
    """The priors that every GP estimator puts on its kernel and noise."""
    chosen: dict[str, priors.Prior] = {"kernel": priors.kernel_prior(kernel, scales, log_variance)}
    return priors.independent_priors({**chosen, "noise": priors.noise_prior()} if noise else chosen)


def single_uncertainty(
    tasks: Tasks[Shard], found: Learnt, scales: Array, prior: str | None, infer: Inference, centred: bool
) -> HyperUncertainty | None:
    """How uncertain kernel, noise and, of centred targets, level leave the function of one GP; sparse with a Z."""
    kernel, own, _, Z = found
    values = {"kernel": kernel.theta, **own}
    log_priors = [] if prior is None else [single_priors(kernel, scales, bool(own), infer.log_variance)]
    moves = [direction(values, kernel=kernel.mask_of(name)) for name in ("lengthscale", "variance")]
    levelled: Any = with_unknown_level(kernel, centred)
    return explore(
        tasks,
        lambda at: condition_single(tasks, levelled.with_theta(at["kernel"]), at, infer, Z),
        log_priors,
        values,
        [*moves, direction(values, noise=1.0)],
        single_lengthscales(values, kernel),
    )


def uncertainty_by_task(
    tasks: Tasks[Shard],
    kernels: Sequence[Kernel | None],
    values: Values,
    scales: Array,
    prior: str | None,
    infer: Inference,
    centred: bool,
) -> UncertaintyByTask:
    """That of tasks that share nothing, each as of a single-task GP; none of a task without a kernel or a row."""
    parts: list[HyperUncertainty | None] = [None] * len(kernels)
    for t, kernel in enumerate(kernels):
        own, alone = likelihood_of(values, t), tasks.only(t)
        if kernel is not None and len(alone.cells.y):
            parts[t] = single_uncertainty(alone, Learnt(kernel, own, KEPT), scales, prior, infer, centred)
    return UncertaintyByTask(parts, np.exp(values["noise"]) if "noise" in values else None)


def single_lengthscales(values: Values, kernel: Kernel) -> list[Values]:
    """Moves of one lengthscale each, where a kernel has several; of groups of them where they are very many."""
    at = np.flatnonzero(kernel.mask_of("lengthscale"))
    groups = np.array_split(at, min(len(at), MOST_SINGLES)) if len(at) > 1 else []
    return [direction(values, kernel=np.isin(np.arange(kernel.n_theta), g)) for g in groups]


def explore(
    tasks: Tasks[Shard],
    condition: Callable[[Values], Result],
    log_priors: Sequence[Objective],
    values: Values,
    directions: Sequence[Values],
    singles: Sequence[Values] = (),
    rows: float | None = None,
) -> HyperUncertainty | None:
    """How uncertain the hyper-parameters of a model leave its functions; None where the rows are many, or labels.

    `rows` is how many, all pairs written out, an evaluation costs as much as; all there are unless it is said.
    With labels the scale of the function is its certainty: on EEG trials probabilities averaged over the points had a
    log loss of .555 where those of the optimum have .519 without transfer, though .524 against .553 with it.
    """
    if "noise" not in values:
        return None
    if (as_many := len(tasks.cells.y) if rows is None else rows) > MOST_ROWS:
        log.info("hyper-parameters are taken as known: an evaluation costs as much as %d rows written out", as_many)
        return None

    def evaluate(at: Values) -> tuple[float, Any]:
        fit = condition(at)
        return fit.evidence + sum(log_prior(at)[0] for log_prior in log_priors), fit.posterior

    low = {n: bounds_of(values, tasks.cells)[n][0] for n in ("noise",) if n in values}
    return hyper_uncertainty(evaluate, values, directions, singles, low)


def check_memory(tasks: Tasks[Shard], infer: Inference, m: int | None, kept: float) -> None:
    """Refuse a GP that would not fit; m are inducing inputs, None without; `kept` are squares of rows that are kept.

    Four matrices of every task are kept, and one more is worked in, or two by EP; small ones stay until the next are
    there. More on a GPU.
    """
    n = len(tasks.cells.y)
    if m is not None:
        what, numbers = f"a GP of {m:,} inducing inputs on {n:,} distinct rows", 2.7 * n * m
        return tasks.require(what, "give fewer inducing inputs, or thin the rows", host=numbers, device=numbers)
    worked = (1.0 if infer.gaussian else 2.0) + 2.7 * (n < SMALL_BLOCK)
    tasks.require(
        f"an exact GP on a task of {n:,} distinct rows",
        "thin the rows, average replicates, or use PooledGPRegressor, which is sparse",
        host=4.0 * kept + worked * n * n,
        device=MATRICES * n * n,
    )


class OwnFit(NamedTuple):
    """What a task's own GP reached, and how; of one that was fitted among others no more is told."""

    theta: Array
    likelihood: Values
    evidence: float
    n_iter: int = 0
    converged: bool = True


#: One task's own fit from (tasks, kernel, likelihood, scales, prior, max_iter, infer), as of `fit_single`.
FitOne = Callable[..., OwnFit]


def fit_each(
    tasks: Tasks[Shard],
    fit_one: FitOne,
    starts: Sequence[tuple[Kernel | None, Values]],
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference,
    tol: float,
) -> list[OwnFit | None]:
    """Every task's own GP, where the task lies: small ones in batches where these pay; None without a kernel or row.

    `starts` are the kernel of each and its likelihood's parameters. A batch ends where a step gains less than `tol`.
    """
    how = fit_one, scales, prior, max_iter, infer, tol
    return [found for part in tasks.each(_fit_shard, how, starts) for found in part]


def _fit_shard(shard: Shard, how: tuple[Any, ...], starts: list[tuple[Kernel | None, Values]]) -> list[OwnFit | None]:
    """The tasks of one shard; those whose kernels have one form are one batch, labels never."""
    fit_one, scales, prior, max_iter, infer, tol = how
    tasks, sizes = shard.tasks(), np.diff(shard.cells.starts)
    found: list[OwnFit | None] = [None] * len(starts)
    groups: dict[Any, list[int]] = {}
    for t, (template, likelihood) in enumerate(starts):
        if template is None or not sizes[t]:
            continue
        form = template.form() if shard.batched and infer.gaussian and sizes[t] < ALONE_ROWS else None
        if form is None:
            found[t] = fit_one(tasks.only(t), template, likelihood, scales, prior, max_iter, infer)
        else:
            groups.setdefault(form, []).append(t)
    for members in groups.values():
        batch, template = tasks.here(tasks.cells.some(members)), starts[members[0]][0]
        assert template is not None  # it has a form
        noise = np.concatenate([starts[t][1]["noise"] for t in members])
        theta, noise, evidence = fit_together(batch, template, noise, scales, prior, max_iter, tol)
        for i, t in enumerate(members):
            found[t] = OwnFit(theta[i], {"noise": noise[i : i + 1]}, float(evidence[i]))
    return found


def fit_together(
    tasks: Tasks[Shard], template: Kernel, noise: Array, scales: Array, prior: str | None, max_iter: int, tol: float
) -> tuple[Array, Array, Array]:
    """Theta (T, P), log noise (T,) and evidence (T,) of the tasks' own GPs, all with kernels like the template.

    As in `fit_single` a second start has a fifth of the lengthscales. No task is without rows.
    """
    T, n = len(tasks.cells.starts) - 1, template.n_theta
    smooth = np.column_stack([np.tile(template.theta, (T, 1)), noise])
    rough = smooth + np.log(0.2) * np.append(template.mask_of("lengthscale"), 0.0)
    both = bounds_of({"kernel": smooth[:, :n], "noise": noise}, tasks.cells)
    low, high = (np.column_stack([both["kernel"][side], both["noise"][side]]) for side in (0, 1))
    batch, bounds = Batch(tasks, template, scales, prior), (low, high)
    doubled = Batch(tasks.here(tasks.cells.some([*range(T)] * 2)), template, scales, prior)  # both starts at once
    warm, around = np.vstack([smooth, rough]), (np.vstack([low] * 2), np.vstack([high] * 2))
    warm = maximise_each(doubled.objective, warm, around, min(WARMUP_ITERATIONS, max_iter), tol)
    values = doubled.objective(warm)[0]
    start = np.where((values[:T] >= values[T:])[:, None], warm[:T], warm[T:])
    x = maximise_each(batch.objective, start, bounds, max(max_iter - WARMUP_ITERATIONS, 1), tol)
    return x[:, :n], x[:, n], batch.evidence(x)[0]


class Batch:
    """The evidence of every task, with the priors that all GP estimators share."""

    def __init__(self, tasks: Tasks[Shard], template: Kernel, scales: Array, prior: str | None) -> None:
        self.tasks, self.template = tasks, template
        self.T, n = len(tasks.cells.starts) - 1, template.n_theta
        self.parts = [slice(t * n, (t + 1) * n) for t in range(self.T)]
        self.priors: list[tuple[slice, priors.GaussianPrior]] = []
        if prior is not None:
            self.priors = [
                (slice(0, n), priors.kernel_prior(template, scales)),
                (slice(n, n + 1), priors.independent_noise_prior(1)),
            ]

    def evidence(self, x: Array) -> tuple[Array, Any]:
        """Of every task, and the way to its derivatives."""
        kernels = TaskKernels([self.template] * self.T, x[:, :-1].ravel(), self.parts)
        nothing = SharedCovariance(self.tasks, [], [], np.zeros((self.T, 0)), kernels)
        fit = exact(nothing, Gaussian(self.tasks.cells, np.exp(x[:, -1])))
        posterior: Any = fit.posterior
        return posterior.evidence_alone + fit.likelihood.log_normalisers(posterior.sites.tau), fit

    def objective(self, x: Array) -> tuple[Array, Array]:
        """What is maximised of every task, and its derivatives."""
        value, fit = self.evidence(x)
        found, by_noise = fit.gradient()
        by = np.column_stack([np.stack(found.specific), by_noise["noise"]])
        for at, prior in self.priors:
            away = x[:, at] - prior.mean
            pull = prior.pull(away)
            value, by[:, at] = value - 0.5 * (away * pull).sum(axis=1), by[:, at] - pull
        return value, by
