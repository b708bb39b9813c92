"""The regressor on the multi-task IVM: validate, call, store, warn. The paper is in `ivm.py`."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from borrow.covariance.shared import LOG_2PI, Prediction
from borrow.covariance.spread import Spread
from borrow.data.cells import Cells, Codes, Rows, begins
from borrow.data.read import read_inputs
from borrow.data.scaling import Scaling, TaskData, build, units_of_new_task
from borrow.estimators.regressor import Fitted, GPRegressor, default_kernel, warn_unfinished
from borrow.inference import priors
from borrow.inference.adf import GaussianFactors
from borrow.kernels import Kernel
from borrow.models.ivm.adapt import keep_names
from borrow.models.ivm.model import Active, Selection, blocks_of, condition, gather, log_evidence, select
from borrow.models.ivm.noise import noise_from_rest, rows_left_out, spectra
from borrow.models.ivm.rounds import Outcome, Settings, alternate
from borrow.models.ivm.settings import check_ivm, require_memory, tell_prior_tasks, warn_cycle
from borrow.models.ivm.spread import GaussianTasks, select_spread
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Optimum, Values

#: Kernel and noise are learnt in turn until the noise moves by less than this, or so many times.
STILL, TURNS = 0.01, 8
#: Lengthscales to start from, in units of the default ones.
SHORTER = (1.0, 0.5, 0.25, 0.1)
#: A noise so many times smaller than what the rows left out say has collapsed.
COLLAPSED = 4.0


@dataclass(frozen=True)
class Regression:
    """All rows of all tasks with Gaussian noise, one variance or one a task."""

    cells: Cells
    kernel: Kernel
    scales: Array
    n_noise: int  # 1, or the number of tasks
    prior: str | None
    max_iter: int
    noise_from: str = "rest"
    spread: Spread | None = None  # while a fit has workers

    @property
    def n_rows(self) -> int:
        """Rows to choose from."""
        return len(self.cells.y)

    def noise_of(self, values: Values, task: Codes) -> Array:
        """Noise variance of rows of these tasks."""
        noise = np.exp(values["noise"])
        return np.full(len(task), noise[0]) if len(noise) == 1 else noise[task]

    def select(self, values: Values, d: int, order: Codes | None = None, report: Any = None) -> Selection:
        """Rows that tell most at these hyper-parameters."""
        c = self.cells
        if self.spread is not None:
            noise = self.noise_of(values, np.arange(len(c.dof)))
            tasks = [GaussianTasks(noise[at]) for at in self.spread.bounds]
            return select_spread(self.spread, self.kernel.with_theta(values["kernel"]), tasks, d, order, report)
        factors = GaussianFactors(c.y, self.noise_of(values, c.task) / c.count)
        return select(self.kernel.with_theta(values["kernel"]), c.X, c.starts, factors, d, order, report, c.device)

    def active(self, selection: Selection) -> Active:
        """The rows selected, stacked by task."""
        return gather(selection, self.cells.there, self.cells.starts)

    def objective(self, active: Active) -> Objective:
        """Evidence of the chosen rows and of the scatter within cells, by kernel and noise (sec. 5).

        With 1/tau = s2/k of row i and b_i its adjoint, d/d log s2 = sum_i b_i s2/k_i - dof/2 + scatter/(2 s2).
        """
        c, blocks = self.cells, blocks_of(active.starts)
        task, every = active.task, np.arange(len(c.dof))

        def objective(values: Values) -> tuple[float, Values]:
            tau = c.count[active.rows] / self.noise_of(values, task)
            kernel = self.kernel.with_theta(values["kernel"])
            value, by_theta, by_variance = log_evidence(kernel, active.X, blocks, tau, c.y[active.rows])
            noise = self.noise_of(values, every)
            value -= 0.5 * float(np.sum(c.dof * (LOG_2PI + np.log(noise)) + c.scatter / noise))
            by = np.bincount(task, by_variance / tau, minlength=len(noise)) - 0.5 * (c.dof - c.scatter / noise)
            by_noise = np.array([by.sum()]) if len(values["noise"]) == 1 else by
            return value + float(c.log_count.sum()), {"kernel": by_theta, "noise": by_noise}

        return objective

    def penalised(self, active: Active) -> Objective:
        """The same with the priors that are switched on."""
        objective = self.objective(active)
        if self.prior is None:
            return objective
        chosen = {"kernel": priors.kernel_prior(self.kernel, self.scales), "noise": priors.noise_prior(self.n_noise)}
        return hyper.with_prior(objective, priors.independent_priors(chosen))

    def best_start(self, values: Values) -> Values:
        """Shorter lengthscales to start from, and a noise, where a sample of the rows likes them better.

        A rough function can be taken for a smooth one and noise, and few chosen rows cannot tell the two apart.
        """
        zero, M = np.zeros(0), len(self.cells.dof)
        none = Active(np.zeros(0, dtype=np.intp), self.cells.X[:0], np.zeros(M + 1, dtype=np.intp), zero, zero)
        prior = None if self.prior is None else priors.noise_prior(self.n_noise)
        on_kernel = None if self.prior is None else priors.kernel_prior(self.kernel, self.scales)
        best, found = -np.inf, values
        for factor in SHORTER:
            theta = values["kernel"] + np.log(factor) * self.kernel.marks("lengthscale")
            parts = spectra(self.kernel.with_theta(theta), self.cells, none)
            noise = noise_from_rest(parts, values["noise"], prior)
            of_task = np.broadcast_to(np.exp(noise), M)
            value = sum(s.log_density(float(of_task[t])) for t, s in parts.items())
            value += 0.0 if on_kernel is None else on_kernel.log_density(theta)[0]
            if value > best:
                best, found = value, {"kernel": theta, "noise": noise}
        return found

    def learn(self, selection: Selection, values: Values) -> tuple[Values, Optimum]:
        """Kernel from the chosen rows; noise from the others, where there are any, else from the chosen ones too."""
        active = self.active(selection)
        low = float(np.log(NOISE_FLOOR))
        bounds = hyper.bounds_around(values, {"noise": low})
        objective = self.penalised(active)
        if self.noise_from == "active" or not len(rows_left_out(self.n_rows, active.rows)):
            optimum = hyper.maximise(objective, values, bounds, self.max_iter)
            return optimum.values, optimum
        n_iter = 0
        prior = None if self.prior is None else priors.noise_prior(self.n_noise)
        for _ in range(TURNS):
            parts = spectra(self.kernel.with_theta(values["kernel"]), self.cells, active)
            noise = noise_from_rest(parts, values["noise"], prior)
            moved = float(np.max(np.abs(noise - values["noise"])))
            held = {**bounds, "noise": (noise, noise)}
            optimum = hyper.maximise(objective, {**values, "noise": noise}, held, self.max_iter)
            values, n_iter = optimum.values, n_iter + optimum.n_iter
            if moved < STILL:
                break
        return values, replace(optimum, n_iter=n_iter)


class MultiTaskIVMRegressor(GPRegressor):
    """One kernel for all tasks, learnt from the few rows of all of them that tell most.

    Tasks are independent given the kernel. Rows are chosen across tasks by how much each lowers the entropy of the
    posterior; predictions for a task come from its own chosen rows.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    n_active : how many rows to choose, of all tasks together.
    kernel : where learning starts; default squared exponential with one lengthscale a column, at the best of four
        lengths on a sample of rows; sums and products as any.
    noise : starting variance in the units of y (the variance, with `optimizer=None`); a number or a dict by label.
    share_noise : one noise variance for all tasks (of scaled targets), as in the paper, or one a task.
    noise_from : "rest" learns the noise from the rows that were not chosen, "active" from the chosen ones (the paper).
    n_rounds : how often rows are chosen and the kernel learnt; the paper has 5.
    selection : "entropy", or "random" sub-sampling.
    verbose : True reports on standard error how many rows are chosen; None does so on a terminal.
    workers : None chooses rows in this process; a number of processes, or "dask" for the workers of the current Dask
        client: the same rows in the same order (docs/large.md).
    normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`.

    Attributes
    ----------
    active_ : numbers of the chosen rows of X, in order of inclusion.
    entropy_gain_ : by how many nats each lowered the entropy when it was chosen.
    active_counts_ : dict by label: how many rows of a task were chosen.
    rounds_ : a table of the rounds, with the overlap of successive choices.
    log_marginal_likelihood_ : that of the chosen rows.

    Standard deviations do not count the uncertainty of the hyper-parameters.
    """

    def __init__(
        self,
        task: str | int | None = None,
        n_active: int = 200,
        *,
        kernel: Any = None,
        noise: Any = None,
        share_noise: bool = True,
        noise_from: str = "rest",
        n_rounds: int = 1,
        selection: str = "entropy",
        normalize_y: bool = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 500,
        verbose: bool | None = None,
        random_state: Any = 0,
        device: str = "cpu",
        workers: Any = None,
    ) -> None:
        self.task = task
        self.n_active = n_active
        self.kernel = kernel
        self.noise = noise
        self.share_noise = share_noise
        self.noise_from = noise_from
        self.n_rounds = n_rounds
        self.selection = selection
        self.normalize_y = normalize_y
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state
        self.device = device
        self.workers = workers

    def _arrange(self, rows: Rows) -> TaskData:
        check_ivm(self)
        self._numbers = first_rows(rows)
        known = getattr(self, "_known_scaling", None)
        data = build(rows, self.normalize_y and known is None)
        return data if known is None else _rescaled(data, known)

    def _fit(self, data: TaskData) -> Fitted:
        spread: Spread | None = data.spread
        cells, kernel = data.cells, default_kernel(data.column_scales, self.kernel, "kernel")
        require_memory(self.n_active, cells.starts, cells.device)
        start = np.log(self._start_noise(data))
        values: Values = {"kernel": kernel.theta, "noise": start}
        if self.share_noise and (self.optimizer is not None or np.ptp(start) == 0):
            values["noise"] = start.mean(keepdims=True)  # tasks of different scales: in the middle
        n_noise = len(values["noise"])
        problem = Regression(
            cells, kernel, data.column_scales, n_noise, self.prior, self.max_iter, self.noise_from, spread
        )
        learn, d = self.optimizer is not None, int(self.n_active)
        if learn and self.kernel is None and self.noise_from == "rest":
            values = problem.best_start(values)
        how = Settings(d, self.n_rounds, self.selection, learn, self.random_state, self.verbose)
        found = alternate(problem, values, how)
        active = problem.active(found.selection)
        self.kernel_ = kernel.with_theta(found.values["kernel"])
        self._posterior = condition(self.kernel_, active)
        none = np.zeros_like(cells.dof)
        self._cells = Cells(
            cells.X[active.rows], cells.y[active.rows], cells.count[active.rows], active.starts, none, none, none
        )
        self._publish(found, active, data.labels)
        noise = problem.noise_of(found.values, np.arange(len(data.labels)))
        optimum = found.optimum
        if optimum is not None:
            names = {"kernel": kernel.parameter_names(), "noise": _noise_names(n_noise == 1, data.labels)}
            warn_unfinished(self, optimum, names, problem.penalised(active))
            self._warn_noise(problem, found, active, cells)
        warn_cycle(found.cycle)
        value = problem.objective(active)(found.values)[0]
        sizes = np.diff(active.starts) + cells.dof
        inside = float(sizes @ np.log(data.scaling.scale))  # the chosen rows' part of the change of units
        n_iter, converged = (0, True) if optimum is None else (max(optimum.n_iter, 1), optimum.converged)
        return Fitted(value + data.scaling.log_volume - inside, noise, 0.0, n_iter, converged and found.cycle is None)

    def _publish(self, found: Outcome, active: Active, labels: tuple[Hashable, ...]) -> None:
        self.active_ = self._numbers[found.selection.active]
        self.entropy_gain_ = found.selection.gain
        self.active_counts_ = dict(zip(labels, np.diff(active.starts).tolist(), strict=True))
        self.rounds_ = found.rounds

    def _warn_noise(self, problem: Regression, found: Outcome, active: Active, cells: Cells) -> None:
        """A noise at its floor, or so small that the rows left out contradict it."""
        log_noise = found.values["noise"]
        if len(active.rows) == problem.n_rows:  # an exact GP: warn_unfinished says what there is to say
            return
        told = self.prior is None and self.noise_from == "active"  # warn_unfinished has named the floor
        if float(log_noise.min()) <= np.log(NOISE_FLOOR) + 1e-6 and np.ptp(cells.y) > 0 and not told:
            warnings.warn(
                f"the noise variance is at its floor of {NOISE_FLOOR:g} of the variance of y: the fit meets the "
                "targets exactly; if they are not exact, raise n_active, or give noise= with optimizer=None",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif self.noise_from == "active":
            prior = None if self.prior is None else priors.noise_prior(problem.n_noise)
            rest = noise_from_rest(spectra(self.kernel_, cells, active), log_noise, prior)
            if float(np.max(rest - log_noise)) > np.log(COLLAPSED):
                worst = int(np.argmax(rest - log_noise))
                warnings.warn(
                    f"the noise has collapsed: {np.exp(log_noise[worst]):.3g} of the variance of y, where rows that "
                    f"were not chosen say {np.exp(rest[worst]):.3g}; chosen rows do not identify it: use "
                    "noise_from='rest', or raise n_active",
                    ConvergenceWarning,
                    stacklevel=4,
                )

    def _marginals(self) -> tuple[Cells, Array, Array]:
        return self._cells, *self._posterior.marginals()  # of the chosen rows: no other has a site

    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        tell_prior_tasks(self.active_counts_, task)
        return self._posterior.predict(X, task, full)

    def adapt(self, X: Any, y: Any) -> MultiTaskIVMRegressor:
        """A task never seen, from its rows X, y and the kernel and noise learnt: a fitted model of that task alone.

        X has the columns of the inputs; the task column may be there too. Its targets are centred and scaled by
        their own figures as far as the rows carry them, else by those of the other tasks.
        """
        check_is_fitted(self, "log_marginal_likelihood_")
        child = clone(self).set_params(
            task=None, kernel=self.kernel_, optimizer=None, selection="entropy", workers=None
        )
        features, _ = read_inputs(self, X, self._schema)
        y = np.asarray(y)
        if y.ndim != 1 or len(y) != len(features):
            raise ValueError(f"X has {len(features)} rows and y has the shape {y.shape}; adapt takes one target a row")
        scale = self._scale if self.normalize_y else np.ones(1)
        child._known_scaling = units_of_new_task(y, self._center, scale) if self.normalize_y else (0.0, 1.0)
        noise = np.array(list(self.noise_.values())) / self._scale**2
        scaled = float(np.exp(np.mean(np.log(noise))))
        child.set_params(n_active=len(features), noise=scaled * child._known_scaling[1] ** 2)
        child.fit(features, y)
        del child._known_scaling  # a later fit has its own
        keep_names(child, X, self._schema)
        return child


def _noise_names(shared: bool, labels: tuple[Hashable, ...]) -> list[str]:
    return ["noise"] if shared else [f"noise of task {label!r}" for label in labels]


def _rescaled(data: TaskData, known: tuple[float, float]) -> TaskData:
    """Targets in the units of the model that was adapted."""
    center, scale = known
    c = data.cells
    cells = replace(c, y=(c.y - center) / scale, scatter=c.scatter / scale**2)
    rows = float(len(c.y) + c.dof.sum())
    return replace(
        data, cells=cells, scaling=Scaling(np.array([center]), np.array([scale]), rows * float(np.log(scale)))
    )


def first_rows(rows: Rows) -> Codes:
    """Number of the first row of X that went into each cell."""
    rows = rows.in_order()
    seen = rows.take(np.isfinite(rows.y))
    assert seen.number is not None  # read from a table
    return np.minimum.reduceat(seen.number, np.flatnonzero(begins(seen.X, seen.task)))
