"""The estimators on the multi-task IVM: validate, call, store, warn. The paper is in `model.py`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from borrow.covariance import Prediction, SharedPosterior, Sites
from borrow.data.cells import Cells, Codes
from borrow.data.labels import list_labels
from borrow.data.read import read_classes, read_inputs, read_targets, read_training
from borrow.data.scaling import Scaling, TaskData, units_of_new_task
from borrow.data.table import Table
from borrow.estimators.base import Fitted, OnWorkers, Place
from borrow.estimators.classifier import GPClassifier, LabelModel, LeaveOneOutAnswers, binary_data, positives
from borrow.estimators.gp import GPEstimator, default_kernel
from borrow.estimators.registry import register
from borrow.estimators.regressor import NOTHING, GPFit, GPRegressor
from borrow.estimators.settings import Allowed, one_of, whole
from borrow.inference.ep import cavity, class_bias
from borrow.inference.hyper_uncertainty import OtherModel, stretch_of_tasks, stretched
from borrow.inference.likelihoods import Probit, hazard
from borrow.kernels import Kernel
from borrow.models.gp.own import (
    FOLDS,
    averaged,
    averaged_noise,
    own_models,
    quarters,
    shared_probability,
    with_own_gp,
)
from borrow.models.ivm.model import Active, condition
from borrow.models.ivm.problems import (
    FEWEST,
    LARGEST,
    MOST,
    Alternation,
    Classification,
    Problem,
    Regression,
    alternate,
)
from borrow.numerics.linalg import Array, to_host
from borrow.numerics.optimise import Values
from borrow.numerics.stored import stored
from borrow.numerics.threads import single_thread
from borrow.numerics.warned import warn
from borrow.tasks.contracts import Shard, Tasks
from borrow.tasks.placed import PlacedTasks

F = TypeVar("F", bound=Fitted)
#: Standard deviations of log slope and shift that correct for the selection of rows.
SLOPE_SD, SHIFT_SD = 0.5, 2.0
#: A task that is so likely by itself is not said to be predicted from the prior.
LIKELY = 0.5


@stored("ivm-chosen")
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
class MultiTaskIVM(GPEstimator, OnWorkers):
    """What both estimators share. Abstract."""

    n_active: int = 200
    _: KW_ONLY
    n_rounds: int = 1
    selection: str = "entropy"
    verbose: bool | None = None

    allowed: ClassVar[Allowed] = {
        "n_active": whole(1),
        "n_rounds": whole(1),
        "ep_sweeps": whole(0),
        "selection": one_of("entropy", "random", said="'entropy' or 'random'"),
        "share_noise": one_of(True, False, said="True (one noise for all tasks) or False (one per task)"),
        "noise_from": one_of("rest", "active", said="'rest' (rows that were not chosen) or 'active' (the chosen ones)"),
    }

    def _choose(
        self, problem: Problem, values: Values, number: Codes, labels: tuple[Hashable, ...]
    ) -> tuple[Alternation, Active, Chosen]:
        """Rows chosen and hyper-parameters learnt in turn, with the warnings that this calls for."""
        require_memory(int(self.n_active), problem.tasks)
        found = alternate(self, problem, values)
        active = problem.active(found.selection)
        if found.optimum is not None:
            self._warn_unfinished(found.optimum, problem.parameter_names(labels), problem.penalised(active))
            if doubt := problem.doubt(found.values, active):
                warn(doubt, ConvergenceWarning)
        warn_cycle(found.cycle)
        counts = dict(zip(labels, np.diff(active.starts).tolist(), strict=True))
        kernel = problem.kernel.with_theta(found.values["kernel"])
        return found, active, Chosen(kernel, number[found.selection.active], found.selection.gain, counts, found.rounds)

    def _child(self, X: Any, y: Any, what: str, **given: Any) -> tuple[Self, Array]:
        """An estimator for one new task, to be fitted to all its rows, and the inputs of these."""
        features, _ = read_inputs(self, X, self._fit_of().schema)
        if np.ndim(y) != 1 or len(y) != len(features):
            raise ValueError(f"X has {len(features)} rows and y {what}")
        given |= {"task": None, "optimizer": None, "workers": None, "n_active": max(len(features), 1)}
        return clone(self).set_params(**given), features

    def _named(self, adapted: F, X: Any) -> F:
        """A model adapted to a frame expects the same columns of frames to come."""
        names = self._fit_of().schema.names
        if not hasattr(X, "columns") or names is None:
            return adapted
        attributes = dict(adapted.attributes)
        if all(isinstance(n, str) for n in names):
            attributes["feature_names_in_"] = np.array(names, dtype=object)
        return replace(adapted, schema=replace(adapted.schema, names=names), attributes=attributes)


def require_memory(n_active: int, tasks: Tasks[Shard]) -> None:
    """Refuse what would not fit: the largest of three steps that follow one another; how much each takes was measured.

    Selection keeps a row of its task for every inclusion, kernels are learnt on the rows chosen, and the noise from
    the covariance of some rows of a task. How many of the chosen rows a task will have is not known before: its share.
    """
    sizes = np.diff(tasks.cells.starts).astype(float)
    d = min(n_active, int(sizes.sum()))
    chosen = d * sizes / sizes.sum()
    left = min(sizes.sum() - d, np.clip(d, FEWEST, MOST)) * sizes / sizes.sum()
    decomposed = min(float((chosen + left).max()), LARGEST)
    learning = max(5.1 * float(chosen.max()) ** 2, 4.5 * decomposed**2)
    tasks.require(
        f"choosing {d:,} rows, where the largest task has {int(sizes.max()):,},",
        "lower n_active, or thin the rows of the largest task",
        shared=learning,
        host=max(1.95 * float(chosen @ sizes) - learning, 0.0),
    )


def warn_cycle(cycle: tuple[int, int] | None) -> None:
    """Say it where the rounds go in a circle."""
    if cycle is not None:
        warn(
            f"rounds {cycle[0]} and {cycle[1]} chose the same rows and the round between them others: selection and "
            "learning go in a circle, and stopped there; use n_rounds=1, or raise n_active",
            ConvergenceWarning,
        )


def without_quarters(posterior: SharedPosterior, cells: Cells, fold: Codes, active: Active) -> Array:
    """What the chosen rows without a quarter say of that quarter; NaN of rows that are in none.

    A site that is next to nothing is as good as not there.
    """
    answers, sites, task = np.full(len(cells.y), np.nan), posterior.sites, cells.task
    for quarter in range(FOLDS):
        out, weight = fold == quarter, np.where(fold[active.rows] == quarter, NOTHING, 1.0)
        rest = posterior.prior.condition(Sites(sites.nu * weight, sites.tau * weight))
        answers[out] = rest.predict(cells.X[out], task[out]).mean
    return answers


def warn_prior_tasks(counts: Mapping[Hashable, int], task: Codes) -> None:
    """Say it where a task that is asked for has no chosen row."""
    asked = [list(counts)[t] for t in np.unique(task).tolist()]
    if bare := [label for label in asked if counts[label] == 0]:
        plural = len(bare) > 1
        warn(
            f"task{'s' * plural} {list_labels(bare)} {'have' if plural else 'has'} no active row: predicted from the "
            "prior, which knows no target of it; raise n_active",
        )


@stored("ivm-fit")
@dataclass(frozen=True)
class IVMFit(GPFit):
    """The model of numbers, fitted; its cells are the chosen rows."""

    posterior: SharedPosterior
    chosen: Chosen
    own: OtherModel | None = field(default=None, kw_only=True)  # tasks by themselves, where they may be better off

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Functions at new rows, each from the chosen rows of its task; averaged with the task's own GP."""
        alone = np.zeros(len(self.noise)) if self.own is None else np.asarray(self.own.probability)
        warn_prior_tasks(self.chosen.counts, task[alone[task] < LIKELY])
        found = super().predict(X, task, full, hyper)
        found = stretched(found, self._stretch[task]) if hyper and self.uncertainty is not None else found
        return averaged(self.own, found, X, task, full, hyper)

    @property
    def expected_noise(self) -> Array:
        """That of a new observation, averaged alike."""
        return averaged_noise(self.own, super().expected_noise)

    @cached_property
    def _stretch(self) -> Array:
        """By how much the variance of each task's function is too small."""
        mean, variance = self.marginals()
        return stretch_of_tasks(self.cells, self.noise, (to_host(mean), to_host(variance)))

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        own = {"shared_probability_": shared_probability(self.own, labels)}
        return {**super().attributes(labels), **self.chosen.attributes(), **own}


@register(
    "ivm",
    "informative vectors",
    rank=6,
    about="one kernel for all tasks, learnt from the rows that tell most (Lawrence & Platt 2004)",
    matrix="few",
)
@dataclass(eq=False, repr=False, kw_only=True)
class MultiTaskIVMRegressor(GPRegressor, MultiTaskIVM):
    """One kernel for all tasks, learnt from the few rows of all of them that tell most.

    Tasks are independent given the kernel. Rows are chosen across tasks by how much each lowers the entropy of the
    posterior; predictions for a task come from its own chosen rows. Beside that each task of 10 to 300 distinct rows
    has a GP of its own on all of them, as without transfer, and is answered by the average of the two, by the odds that
    rows left out give (`shared_probability_`); not where such tasks have more than 2,000 rows together, nor with
    `prior=None` or `optimizer=None`, as in the paper. `adapt`,
    `kernel_`, `noise_` and `leave_one_out` are of what is shared.

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
    unseen : as in every `GPRegressor`.

    Attributes
    ----------
    active_ : numbers of the chosen rows of X, in order of inclusion.
    entropy_gain_ : by how many nats each lowered the entropy when it was chosen.
    active_counts_ : dict by label: how many rows of a task were chosen.
    rounds_ : a table of the rounds, with the overlap of successive choices.
    shared_probability_ : dict by label: how probable the shared kernel is against the task's own GP, as predictions are
        averaged; 1 where there is no own GP.
    log_marginal_likelihood_ : that of the chosen rows.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.MultiTaskIVMRegressor(n_active=6).fit(X, y, tasks=tasks)
    >>> len(model.active_), model.predict([[1.5]], tasks="a").shape
    (6, (1,))
    """

    share_noise: bool = True
    noise_from: str = "rest"

    def _fit(self, data: TaskData, tasks: Tasks[Shard]) -> IVMFit:
        cells, kernel = data.cells, default_kernel(data.column_scales, self.kernel, "kernel")
        assert data.number is not None  # read from a table
        start = np.log(self._start_noise(data))
        if self.share_noise and (self.optimizer is not None or np.ptp(start) == 0):
            start = start.mean(keepdims=True)  # tasks of different scales: in the middle
        values: Values = {"kernel": kernel.theta, "noise": start}
        how = self.prior, self.max_iter, len(start), self.noise_from
        problem = Regression(tasks, kernel, data.column_scales, *how)
        if self.optimizer is not None and self.kernel is None and self.noise_from == "rest":
            values = problem.best_start(values)
        found, active, chosen = self._choose(problem, values, data.number, data.labels)
        # The chosen rows' part of the change of units.
        inside = float((np.diff(active.starts) + cells.dof) @ np.log(data.scaling.scale))
        uncertainty = None if self.optimizer is None else problem.uncertainty(active, found.values, data.centred)
        fit = IVMFit(
            active.tasks.cells,
            problem.objective(active)(found.values)[0] + data.scaling.log_volume - inside,
            problem.noise_of(found.values),
            0.0,
            found.n_iter,
            found.converged,
            condition(chosen.kernel, active),
            chosen,
            uncertainty=uncertainty,
        )
        able = with_own_gp(cells)
        if self.optimizer is None or self.prior is None or not len(able):  # the paper's, or no task that could have one
            return fit
        fold, log_noise = quarters(cells, able), np.log(self._start_noise(data))
        answers = without_quarters(fit.posterior, cells, fold, active)
        own = kernel, log_noise, data.column_scales, data.centred, self.max_iter, fold, answers
        return replace(fit, own=own_models(tasks, *own))

    def adapt(self, X: Any, y: Any) -> Self:
        """A task never seen, from its rows X, y and the kernel and noise learnt: a fitted model of that task alone.

        X has the columns of the inputs; the task column may be there too. Its targets are centred and scaled by
        their own figures as far as the rows carry them, else by those of the other tasks.
        """
        fitted: Any = self._fit_of()
        what = f"has the shape {np.shape(y)}; adapt takes one target per row"
        child, features = self._child(X, y, what, kernel=self.kernel_, selection="entropy")
        targets = read_targets(y)[0]
        center, scale = units_of_new_task(targets, fitted.center, fitted.scale) if self.normalize_y else (0.0, 1.0)
        noise = float(np.exp(np.mean(np.log(fitted.noise / fitted.scale**2))))
        scaled = child._unfitted().set_params(noise=noise, normalize_y=False)
        found = scaled._learn(features, (targets - center) / scale, None)
        log_volume = float(np.isfinite(targets).sum() * np.log(scale))
        units = Scaling(np.array([center]), np.array([scale]), log_volume)
        child.noise = noise * scale**2
        child.fitted_ = self._named(scaled._published(found.schema, units, found.model), X)
        return child


@stored("ivm-labels")
@dataclass(frozen=True)
class IVMLabels(LabelModel):
    """The model of labels, fitted to one class against the rest.

    Rows that tell most are of the rarer label more often than rows in general, and what is learnt from them expects it
    too often. So P(+1) = Phi(slope d + shift), d = (mean + bias) / sqrt(1 + variance): at slope and shift the labels of
    all rows, those that were not chosen and each of those that were without itself, are likeliest.
    """

    chosen: Chosen
    slope: float = 1.0
    shift: float = 0.0

    def decision(self, X: Array, task: Codes) -> Array:
        """Phi^-1 of the probability."""
        return self.slope * super().decision(X, task) + self.shift

    def probability_of(self, mean: Array, variance: Array) -> Array:
        """P(+1) of a latent function of this mean, bias included, and variance."""
        return np.asarray(ndtr(self.slope * mean / np.sqrt(1.0 + variance) + self.shift))

    def corrected(self, cells: Cells, active: Active) -> IVMLabels:
        """The same with slope and shift, for rows of which only some were chosen."""
        posterior: SharedPosterior = self.posterior
        mean, variance = self.moments(cells.X, cells.task)
        sites = Sites(to_host(posterior.sites.nu), to_host(posterior.sites.tau))
        own, own_variance = posterior.marginals()
        own, own_variance = cavity(to_host(own), to_host(own_variance), sites)
        mean[active.rows], variance[active.rows] = own + self.bias[active.task], own_variance
        d, y = mean / np.sqrt(1.0 + variance), cells.y

        def cost(x: Array) -> tuple[float, Array]:
            """Minus the log likelihood and weak priors; with z = y (slope d + shift), d log Phi(z)/dz = hazard(z)."""
            slope = float(np.exp(x[0]))
            z = y * (slope * d + x[1])
            by_z = -y * hazard(z)[0]
            value = -float(log_ndtr(z).sum()) + 0.5 * (x[0] / SLOPE_SD) ** 2 + 0.5 * (x[1] / SHIFT_SD) ** 2
            return value, np.array([slope * (by_z @ d) + x[0] / SLOPE_SD**2, by_z.sum() + x[1] / SHIFT_SD**2])

        found = minimize(cost, [0.0, 0.0], jac=True, method="L-BFGS-B", options={"gtol": 1e-8, "ftol": 1e-14}).x
        slope, shift = float(np.exp(found[0])), float(found[1])
        left_out = LeaveOneOutAnswers(np.asarray(ndtr(slope * d + shift)), y)
        return replace(self, slope=slope, shift=shift, left_out=left_out)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {**super().attributes(labels), **self.chosen.attributes()}


@register("ivm", "informative vectors", rank=6, matrix="few")
@dataclass(eq=False, repr=False, kw_only=True)
class MultiTaskIVMClassifier(GPClassifier, MultiTaskIVM):
    """Labels of many tasks under one kernel, learnt from the few rows that tell most: p(y) = Phi(y (f_t + b_t)).

    b_t is Phi^-1(share of positives in task t), the share kept in [.02, .98]. Where rows are left out, probabilities
    are corrected for the selection, which prefers the rarer label, by the labels of all rows. More than two classes are
    learnt one against the rest, each with its own kernel and its own rows.

    Parameters
    ----------
    n_active, kernel, n_rounds, selection, verbose, workers : as in `MultiTaskIVMRegressor`. The paper's kernel is
        `borrow.kernels.SmoothLinear` with one lengthscale per column.
    ep_sweeps : sweeps of expectation propagation over the chosen rows after they were taken in one by one; 0 is the
        paper's.
    task, prior, optimizer, max_iter, random_state, device : as in every `GPClassifier`.
    unseen : as in every `GPClassifier`.

    Attributes
    ----------
    active_, entropy_gain_, active_counts_, rounds_ : as in `MultiTaskIVMRegressor`; lists, one per class, where there
        are more than two.
    log_marginal_likelihood_ : that of the chosen rows' sites.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.MultiTaskIVMClassifier(n_active=6).fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    ep_sweeps: int = 0

    def _fit_binary(self, data: TaskData, place: Place = PlacedTasks) -> IVMLabels:
        assert data.number is not None  # read from a table
        tasks, kernel = place(data.cells), default_kernel(data.column_scales, self.kernel, "kernel")
        how, bias = (self.prior, self.max_iter), class_bias(tasks.cells)
        problem = Classification(tasks, kernel, data.column_scales, *how, bias=bias, ep_sweeps=self.ep_sweeps)
        found, active, chosen = self._choose(problem, {"kernel": kernel.theta}, data.number, data.labels)
        posterior = condition(chosen.kernel, active)
        model = IVMLabels(
            posterior,
            bias,
            Probit(),
            problem.objective(active)(found.values)[0],
            found.n_iter,
            found.converged,
            chosen,
        )
        some = 0 < len(active.rows) < len(tasks.cells.y) and self.optimizer is not None
        return model.corrected(tasks.cells, active) if some else model

    def _rows(self, X: Any, tasks: Any) -> tuple[Array, Codes]:
        rows, task = super()._rows(X, tasks)
        fitted = self._fit_of()
        least = {k: min(m.chosen.counts[k] for m in fitted.model) for k in fitted.schema.labels}
        warn_prior_tasks(least, task)
        return rows, task

    def adapt(self, X: Any, y: Any) -> Self:
        """A task never seen, from its rows X, y and the kernels learnt: a fitted model of that task alone.

        X has the columns of the inputs; the task column may be there too. All rows are taken in. Labels are among
        `classes_`; those that y lacks stay possible.
        """
        child, features = self._child(X, y, f"the shape {np.shape(y)}; adapt takes one label per row")
        fresh, classes = child._unfitted().set_params(selection="entropy", verbose=False), self.classes_
        codes, _, seen = read_classes(y, type(self).__name__)
        if unknown := [v for v in seen.tolist() if v not in classes.tolist()]:
            known = list_labels(classes.tolist())
            raise ValueError(f"y holds the label {list_labels(unknown)}, which fit did not see; labels are {known}")
        rows, fresh._schema = read_training(fresh, features, codes)
        rows, models = rows.take(np.isfinite(rows.y)), []
        code = np.searchsorted(classes, seen)[np.minimum(rows.y.astype(int), len(seen) - 1)]
        starts, ones = np.array([0, len(code)]), np.ones(features.shape[1])
        with single_thread(len(code)):
            for k, model in zip(positives(classes), self._fit_of().model, strict=True):
                labels = np.where(code == min(k, len(classes) - 1), 1.0, -1.0)
                data = binary_data(rows.X, labels, starts, rows.labels, (rows.X[:0],), ones, rows.number)
                models.append(fresh.set_params(kernel=model.chosen.kernel)._fit_binary(data))
        child.fitted_ = self._named(fresh._published(fresh._schema, classes, models), X)
        return child
