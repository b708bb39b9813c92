"""The estimators on the multi-task IVM: validate, call, store, warn. The paper is in `model.py`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from borrow.covariance.contracts import Prediction
from borrow.data.cells import Cells, Codes, Rows, begins
from borrow.data.labels import list_labels
from borrow.data.read import Schema, read_classes, read_inputs
from borrow.data.scaling import Scaling, TaskData, build, units_of_new_task
from borrow.data.table import Table
from borrow.estimators.base import warn
from borrow.estimators.classifier import BinaryData, GPClassifier, Place, positives
from borrow.estimators.gp import GPEstimator, default_kernel
from borrow.estimators.labels import LabelModel, as_task_data
from borrow.estimators.registry import register
from borrow.estimators.regressor import GPFit, GPRegressor
from borrow.inference import priors
from borrow.inference.ep import class_bias
from borrow.inference.likelihoods import Probit
from borrow.kernels import Kernel
from borrow.models.ivm.adapt import with_names
from borrow.models.ivm.model import Active, condition, frozen_objective
from borrow.models.ivm.noise import noise_from_rest, spectra
from borrow.models.ivm.problems import Classification, Regression
from borrow.models.ivm.rounds import Outcome, Settings, alternate
from borrow.models.ivm.settings import check_ivm, require_memory, tell_prior_tasks, warn_cycle
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import NOISE_FLOOR, Values
from borrow.numerics.threads import single_thread
from borrow.tasks.placed import PlacedTasks

#: A noise so many times smaller than what the rows left out say has collapsed.
COLLAPSED = 4.0


@dataclass(frozen=True)
class Chosen:
    """The rows that a model rests on."""

    kernel: Kernel
    active: Codes  # row numbers of X
    gain: Array
    counts: dict[Any, int]
    rounds: Table

    def attributes(self) -> dict[str, Any]:
        """The public attributes of both estimators."""
        return {
            "kernel_": self.kernel,
            "active_": self.active,
            "entropy_gain_": self.gain,
            "active_counts_": self.counts,
            "rounds_": self.rounds,
        }


@dataclass(eq=False, repr=False)
class MultiTaskIVM(GPEstimator):
    """What both estimators share. Abstract."""

    n_active: int = 200
    _: KW_ONLY
    n_rounds: int = 1
    selection: str = "entropy"
    verbose: bool | None = None
    workers: Any = None

    def _check_settings(self) -> None:
        super()._check_settings()
        check_ivm(self)

    def _how(self) -> Settings:
        return Settings(
            int(self.n_active),
            self.n_rounds,
            self.selection,
            self.optimizer is not None,
            self.random_state,
            self.verbose,
        )


@dataclass(frozen=True)
class IVMFit(GPFit):
    """The model of numbers, fitted; its cells are the chosen rows."""

    posterior: Any
    chosen: Chosen

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at the chosen rows: no other has a site."""
        return self.posterior.marginals()

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Functions at new rows, each from the chosen rows of its task."""
        tell_prior_tasks(self.chosen.counts, task)
        return self.posterior.predict(X, task, full)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {**super().attributes(labels), **self.chosen.attributes()}


@register("ivm", "informative vectors", rank=6)
@dataclass(eq=False, repr=False)
class MultiTaskIVMRegressor(GPRegressor, MultiTaskIVM):
    """One kernel for all tasks, learnt from the few rows of all of them that tell most.

    Tasks are independent given the kernel. Rows are chosen across tasks by how much each lowers the entropy of the
    posterior; predictions for a task come from its own chosen rows.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    n_active : how many rows to choose, of all tasks together.
    kernel : where learning starts; default squared exponential with one lengthscale per column, at the best of four
        lengths on a sample of rows; sums and products as any.
    noise : starting variance in the units of y (the variance, with `optimizer=None`); a number or a dict by label.
    share_noise : one noise variance for all tasks (of scaled targets), as in the paper, or one per task.
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

    _: KW_ONLY
    share_noise: bool = True
    noise_from: str = "rest"

    # No settings: while a task is adapted to, and of the rows being fitted.
    _known_scaling: tuple[float, float] = field(init=False)
    _numbers: Codes = field(init=False)

    def _arrange(self, rows: Rows) -> TaskData:
        self._numbers = first_rows(rows)
        known = vars(self).get("_known_scaling")
        data = build(rows, self.normalize_y and known is None)
        return data if known is None else _rescaled(data, known)

    def _fit(self, data: TaskData, tasks: PlacedTasks) -> IVMFit:
        cells, kernel = data.cells, default_kernel(data.column_scales, self.kernel, "kernel")
        require_memory(self.n_active, cells.starts, tasks.device)
        start = np.log(self._start_noise(data))
        values: Values = {"kernel": kernel.theta, "noise": start}
        if self.share_noise and (self.optimizer is not None or np.ptp(start) == 0):
            values["noise"] = start.mean(keepdims=True)  # tasks of different scales: in the middle
        n_noise = len(values["noise"])
        problem = Regression(tasks, kernel, data.column_scales, n_noise, self.prior, self.max_iter, self.noise_from)
        if self.optimizer is not None and self.kernel is None and self.noise_from == "rest":
            values = problem.best_start(values)
        found = alternate(problem, values, self._how())
        active, optimum = problem.active(found.selection), found.optimum
        chosen = chosen_rows(found, active, kernel, self._numbers, data.labels)
        if optimum is not None:
            names = {"kernel": kernel.parameter_names(), "noise": _noise_names(n_noise == 1, data.labels)}
            self._warn_unfinished(optimum, names, problem.penalised(active))
            self._warn_noise(problem, found, active, chosen.kernel)
        warn_cycle(found.cycle)
        value = problem.objective(active)(found.values)[0]
        sizes, none = np.diff(active.starts) + cells.dof, np.zeros_like(cells.dof)
        inside = float(sizes @ np.log(data.scaling.scale))  # the chosen rows' part of the change of units
        n_iter, converged = (0, True) if optimum is None else (max(optimum.n_iter, 1), optimum.converged)
        rows = active.rows
        return IVMFit(
            Cells(cells.X[rows], cells.y[rows], cells.count[rows], active.starts, none, none, none),
            value + data.scaling.log_volume - inside,
            problem.noise_of(found.values, np.arange(len(data.labels))),
            0.0,
            n_iter,
            converged and found.cycle is None,
            condition(chosen.kernel, active),
            chosen,
        )

    def _warn_noise(self, problem: Regression, found: Outcome, active: Active, kernel: Kernel) -> None:
        """A noise at its floor, or so small that the rows left out contradict it."""
        log_noise, cells = found.values["noise"], problem.cells
        if len(active.rows) == problem.n_rows:  # an exact GP: `_warn_unfinished` says what there is to say
            return
        told = self.prior is None and self.noise_from == "active"  # `_warn_unfinished` has named the floor
        if float(log_noise.min()) <= np.log(NOISE_FLOOR) + 1e-6 and np.ptp(cells.y) > 0 and not told:
            warn(
                f"the noise variance is at its floor of {NOISE_FLOOR:g} of the variance of y: the fit meets the "
                "targets exactly; if they are not exact, raise n_active, or give noise= with optimizer=None",
                ConvergenceWarning,
            )
        elif self.noise_from == "active":
            prior = None if self.prior is None else priors.noise_prior(problem.n_noise)
            rest = noise_from_rest(spectra(kernel, cells, active), log_noise, prior)
            if float(np.max(rest - log_noise)) > np.log(COLLAPSED):
                worst = int(np.argmax(rest - log_noise))
                warn(
                    f"the noise has collapsed: {np.exp(log_noise[worst]):.3g} of the variance of y, where rows that "
                    f"were not chosen say {np.exp(rest[worst]):.3g}; chosen rows do not identify it: use "
                    "noise_from='rest', or raise n_active",
                    ConvergenceWarning,
                )

    def adapt(self, X: Any, y: Any) -> Self:
        """A task never seen, from its rows X, y and the kernel and noise learnt: a fitted model of that task alone.

        X has the columns of the inputs; the task column may be there too. Its targets are centred and scaled by
        their own figures as far as the rows carry them, else by those of the other tasks.
        """
        fitted: Any = self._fit_of()
        features, _ = read_inputs(self, X, fitted.schema)
        y = np.asarray(y)
        if y.ndim != 1 or len(y) != len(features):
            raise ValueError(f"X has {len(features)} rows and y has the shape {y.shape}; adapt takes one target a row")
        scaling = units_of_new_task(y, fitted.center, fitted.scale) if self.normalize_y else (0.0, 1.0)
        noise = float(np.exp(np.mean(np.log(fitted.noise / fitted.scale**2)))) * scaling[1] ** 2
        given = {"task": None, "kernel": self.kernel_, "optimizer": None, "selection": "entropy", "workers": None}
        child = clone(self).set_params(**given, n_active=len(features), noise=noise)
        fresh = child._unfitted()
        fresh._known_scaling = scaling
        child.fitted_ = with_names(fresh._learn(features, y, None, None, None), X, fitted.schema)
        return child


def chosen_rows(found: Outcome, active: Active, kernel: Kernel, number: Codes, labels: tuple[Hashable, ...]) -> Chosen:
    """What both estimators publish of the rows chosen."""
    counts = dict(zip(labels, np.diff(active.starts).tolist(), strict=True))
    kernel = kernel.with_theta(found.values["kernel"])
    return Chosen(kernel, number[found.selection.active], found.selection.gain, counts, found.rounds)


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


@dataclass(frozen=True)
class IVMLabels(LabelModel):
    """The model of labels, fitted to one class against the rest."""

    chosen: Chosen

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {**super().attributes(labels), **self.chosen.attributes()}


@register("ivm", "informative vectors", rank=6)
@dataclass(eq=False, repr=False)
class MultiTaskIVMClassifier(GPClassifier, MultiTaskIVM):
    """Labels of many tasks under one kernel, learnt from the few rows that tell most: p(y) = Phi(y (f_t + b_t)).

    b_t is Phi^-1(share of positives in task t), the share kept in [.02, .98]. More than two classes are learnt one
    against the rest, each with its own kernel and its own rows.

    Parameters
    ----------
    n_active, kernel, n_rounds, selection, verbose, workers : as in `MultiTaskIVMRegressor`. The paper's kernel is
        `borrow.kernels.SmoothLinear` with one lengthscale per column.
    ep_sweeps : sweeps of expectation propagation over the chosen rows after they were taken in one by one; 0 is the
        paper's.
    task, prior, optimizer, max_iter, random_state, device : as in every `GPClassifier`.

    Attributes
    ----------
    active_, entropy_gain_, active_counts_, rounds_ : as in `MultiTaskIVMRegressor`; lists, one per class, where there
        are more than two.
    log_marginal_likelihood_ : that of the chosen rows' sites.
    """

    _: KW_ONLY
    ep_sweeps: int = 0

    def _fit_binary(self, data: BinaryData, place: Place = PlacedTasks) -> IVMLabels:
        tasks = place(as_task_data(data).cells)
        require_memory(self.n_active, data.starts, tasks.device)
        return self._model(data, tasks, default_kernel(data.column_scales, self.kernel, "kernel"), self._how())

    def _model(self, data: BinaryData, tasks: PlacedTasks, kernel: Kernel, how: Settings) -> IVMLabels:
        bias = class_bias(tasks.cells)
        problem = Classification(tasks, kernel, bias, data.column_scales, self.prior, self.max_iter, self.ep_sweeps)
        found = alternate(problem, {"kernel": kernel.theta}, how)
        active, optimum = problem.active(found.selection), found.optimum
        number = data.number if data.number is not None else np.arange(len(data.y))
        chosen = chosen_rows(found, active, kernel, number, data.labels)
        if optimum is not None:
            self._warn_unfinished(optimum, {"kernel": kernel.parameter_names()}, problem.penalised(active))
        warn_cycle(found.cycle)
        posterior = condition(chosen.kernel, active)
        n_iter, converged = (0, True) if optimum is None else (optimum.n_iter, optimum.converged)
        return IVMLabels(
            [(posterior, t) for t in range(len(data.labels))],
            bias,
            Probit(),
            frozen_objective(chosen.kernel, active)(found.values)[0],
            n_iter,
            converged and found.cycle is None,
            chosen,
        )

    def _rows(self, X: Any, tasks: Any) -> tuple[Array, Codes]:
        rows, task = super()._rows(X, tasks)
        fitted = self._fit_of()
        least = {k: min(m.chosen.counts[k] for m in fitted.model) for k in fitted.schema.labels}
        tell_prior_tasks(least, task)
        return rows, task

    def adapt(self, X: Any, y: Any) -> Self:
        """A task never seen, from its rows X, y and the kernels learnt: a fitted model of that task alone.

        X has the columns of the inputs; the task column may be there too. All rows are taken in. Labels are among
        `classes_`; those that y lacks stay possible.
        """
        fitted = self._fit_of()
        features, _ = read_inputs(self, X, fitted.schema)
        if np.ndim(y) != 1 or len(y) != len(features):
            raise ValueError(f"X has {len(features)} rows and y the shape {np.shape(y)}; adapt takes one label a row")
        given = {"task": None, "optimizer": None, "workers": None, "n_active": max(len(features), 1)}
        child = clone(self).set_params(**given)
        fresh = child._unfitted()
        codes, _, seen = read_classes(y, type(self).__name__)
        if unknown := [v for v in seen.tolist() if v not in self.classes_.tolist()]:
            known = list_labels(self.classes_.tolist())
            raise ValueError(f"y holds the label {list_labels(unknown)}, which fit did not see; labels are {known}")
        keep = np.isfinite(codes)
        code = np.searchsorted(self.classes_, seen)[np.minimum(codes[keep].astype(int), len(seen) - 1)]
        how = Settings(child.n_active, 1, "entropy", False, 0, False)
        inputs, models = features[keep], []
        fresh._schema = Schema(None, None, None, inputs.shape[1], (0,))
        with single_thread(len(inputs)):
            for k, model in zip(positives(self.classes_), fitted.model, strict=True):
                labels = np.where(code == min(k, len(self.classes_) - 1), 1.0, -1.0)
                starts, ones = np.array([0, len(inputs)]), np.ones(inputs.shape[1])
                data = BinaryData(inputs, labels, starts, (0,), (inputs[:0],), ones, np.flatnonzero(keep))
                tasks = PlacedTasks(as_task_data(data).cells)
                models.append(fresh._model(data, tasks, model.chosen.kernel, how))
        published = fresh._published(fresh._schema, self.classes_, models)
        attributes = {**published.attributes, "n_features_in_": inputs.shape[1]}
        child.fitted_ = with_names(replace(published, attributes=attributes), X, fitted.schema)
        return child
