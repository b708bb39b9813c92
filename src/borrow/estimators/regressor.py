"""What every regressor shares: reading, scaling, prediction at the public edge; no formula of a paper."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np

from borrow.covariance.contracts import Prediction, Sites
from borrow.covariance.inducing import LOG_2PI
from borrow.data.cells import Cells, Codes, Rows
from borrow.data.labels import encode, places_of
from borrow.data.read import Schema, read_training, warn_equal_targets
from borrow.data.scaling import Scaling, TaskData, build
from borrow.data.table import Table
from borrow.estimators.base import Fitted, NumberEstimator, as_labels, over_tasks, shown
from borrow.estimators.gp import EXACT, GPEstimator
from borrow.estimators.settings import by_label, is_number
from borrow.inference.ep import cavity
from borrow.inference.hyper_uncertainty import HyperUncertainty, OtherModel, UncertaintyByTask
from borrow.inference.likelihoods import Gaussian
from borrow.numerics import memory
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored
from borrow.numerics.threads import single_thread
from borrow.numerics.warned import together
from borrow.tasks.placed import PlacedTasks


class RegressionModel(Protocol):
    """What a regressor's `_fit` returns: a frozen model for coded tasks, in units of scaled targets."""

    @property
    def cells(self) -> Cells:
        """The rows of the fit."""

    @property
    def evidence(self) -> float:
        """log p(scaled targets), priors not included."""

    @property
    def noise(self) -> Array:
        """One noise variance per task; a single one where tasks are pooled."""

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every cell."""

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Posterior of the functions at new rows; `hyper=False` leaves out the hyper-parameters' uncertainty."""

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, object]:
        """The public attributes of this model, by name."""


@stored("fitted-regression")
@dataclass(frozen=True)
class FittedRegression(Fitted):
    """A fitted regressor: targets of task t are center[t] + scale[t] times what the model predicts."""

    center: Array
    scale: Array
    noise: Array  # (M,), in the units of y
    expected_noise: Array  # the same, with what is not known about it: of a new observation


@dataclass(eq=False, repr=False, kw_only=True)
class TaskRegressor(NumberEstimator):
    """What every regressor shares: reading, scaling, prediction at the public edge. Abstract.

    Parameters
    ----------
    normalize_y : True centres and scales the targets of each task, "common" all tasks by the same figures (targets in
        the same units), False neither.
    task, random_state, unseen : as in every `TaskEstimator`.

    Attributes
    ----------
    noise_ : dict by label of noise variances, in the units of y.
    log_marginal_likelihood_ : log evidence of y as given, priors not included.
    n_iter_, converged_ : iterations of the optimiser, and whether it ended by itself.
    jitter_ : what had to be added to a diagonal for it to be factored; 0 nearly always.
    """

    normalize_y: bool | str = True

    @abstractmethod
    def _learn(self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, replicates: Any = None) -> FittedRegression:
        """The same, with weights of rows, and of how many measurements each is the mean."""

    def fit(self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None, replicates: Any = None) -> Self:
        """Fit to a table.

        X: frame or array, with the task column named by `task=` in the constructor, or `tasks=` beside it; or
        a list or dict of (X, y) pairs. y: targets, NaN where unlabelled; (N, M) with one column per task.
        `sample_weight=k` is the row repeated k times; `replicates=k` says that y is already a mean of k.
        """
        self.fitted_ = self._unfitted()._learn(X, y, tasks, sample_weight, replicates)
        return self

    def _published(self, schema: Schema, scaling: Scaling, model: RegressionModel) -> FittedRegression:
        """Everything that is published of a model."""
        M = len(schema.labels)
        center, scale = (np.broadcast_to(v, M) for v in (scaling.center, scaling.scale))
        noise = np.broadcast_to(model.noise, M) * scale**2
        expected = np.broadcast_to(getattr(model, "expected_noise", model.noise), M) * scale**2
        attributes = {
            **self._read_attributes(),
            "tasks_": as_labels(schema.tasks),
            "noise_": dict(zip(schema.labels, noise.tolist(), strict=True)),
            "log_marginal_likelihood_": model.evidence - scaling.log_volume,
            **model.attributes(schema.labels),
        }
        return FittedRegression(schema, model, shown(attributes, schema.labels), center, scale, noise, expected)

    def predict(
        self,
        X: Any,
        tasks: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """Posterior mean of each row's task; with its standard deviation or covariance if asked.

        The standard deviation is of the function; `include_noise=True` adds the noise of a new observation. It counts
        that hyper-parameters were learnt; where an evaluation of the model costs more than that of 1,000 rows with all
        pairs written out they are taken as known, which the log ("borrow", level INFO) says, and bands are narrower.
        Fitted on wide y and asked for no task in particular, the answer has the columns of y.
        """
        self._fit_of()
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; ask for one of them")
        rows, task = self._read_new(X, tasks, population=True)
        if task is None:
            if return_cov:
                raise ValueError("return_cov=True needs one task for each row; give tasks=")
            return self._answer_wide(rows, return_std, include_noise)
        unseen = bool((task < 0).any())
        if return_cov:
            if unseen:
                raise ValueError("return_cov=True needs tasks that fit saw; ask for return_std instead")
            return self._answer(rows, task, True, include_noise)
        if not (return_std or unseen):
            return self._mean(rows, task)
        found = self._moments(rows, task, include_noise)
        return found if return_std else found[0]

    def _mean(self, rows: Any, task: Codes) -> Array:
        """The posterior mean alone, which other hyper-parameters do not move; some models have it cheaper."""
        return self._moments(rows, task, hyper=False)[0]

    def _moments(self, rows: Any, task: Codes, include_noise: bool = False, hyper: bool = True) -> tuple[Array, Array]:
        """Mean and standard deviation; a task never seen (code -1) is one drawn from the population of those seen.

        With means m_t and variances v_t of the M tasks seen, its mean is that of the m_t and its variance the mean of
        the v_t plus (1 + 1/M) times the variance between the m_t: the law of total variance, and the uncertainty of a
        mean of M.
        """

        def answer(rows: Any, task: Codes) -> Array:
            return np.column_stack(self._answer(rows, task, False, include_noise, hyper))

        def drawn(each: Array) -> Array:
            mean, variance = each[..., 0], each[..., 1] ** 2
            total = variance.mean(axis=0) + (1.0 + 1.0 / len(each)) * mean.var(axis=0, ddof=1)
            return np.column_stack([mean.mean(axis=0), np.sqrt(total)])

        mean, std = over_tasks(answer, rows, task, len(self._fit_of().schema.labels), drawn).T
        return mean, std

    def _answer_wide(self, rows: Any, return_std: bool, include_noise: bool) -> Any:
        """Every row for every task, in the columns of the wide y of `fit`."""
        wide: Any = self._fit_of().schema.wide  # the only fit that may be asked for no task in particular
        M, n = len(wide), rows.shape[0]
        mean, std = self._moments(np.repeat(rows, M, axis=0), np.tile(wide, n), include_noise)
        return (mean.reshape(-1, M), std.reshape(-1, M)) if return_std else mean.reshape(-1, M)

    def _answer(
        self, rows: Array, task: Codes, full: bool, include_noise: bool, hyper: bool = True, exact: bool = False
    ) -> tuple[Array, Array]:
        """Mean and standard deviation, or covariance, in the units of y.

        `hyper` counts what is not known about the hyper-parameters; `exact` makes a model so that is at some inputs.
        """
        fitted: Any = self._fit_of()
        if full:
            memory.require(
                8.0 * 3.5 * rows.shape[0] ** 2,
                f"the covariance of {rows.shape[0]:,} rows",
                "ask for return_std instead",
            )
        model = self._exact_at(rows) if exact else fitted.model
        with single_thread(rows.shape[0]):
            p = model.predict(rows, task, full, hyper)
        scale = fitted.scale[task]
        mean = fitted.center[task] + scale * p.mean
        noise = fitted.expected_noise[task] * include_noise
        if p.covariance is not None:
            return mean, p.covariance * np.multiply.outer(scale, scale) + np.diag(noise)
        return mean, np.sqrt(p.variance * scale**2 + noise)

    def _exact_at(self, rows: Array) -> RegressionModel:
        """The fitted model; one that is exact at some inputs only is made so at these."""
        model: RegressionModel = self._fit_of().model
        return model

    def noise_at(self, X: Any, tasks: Any = None) -> Array:
        """Noise variance of a new observation at each row, in squared units of y; the shape is that of `predict`."""
        rows, task = self._read_new(X, tasks, population=True)
        noise: Array = self._fit_of().expected_noise  # type: ignore[attr-defined]
        if task is None:
            return np.broadcast_to(noise[self._fit_of().schema.wide], (rows.shape[0], len(noise)))
        return np.where(task < 0, noise.mean(), noise[task])

    def posterior_covariance(self, X: Any, tasks: Any = None) -> Array:
        """Joint posterior covariance of the functions at these rows, at the hyper-parameters found."""
        rows, task = self._read_new(X, tasks)
        if task is None:
            raise ValueError("the posterior covariance needs one task for each row; give tasks=")
        return self.covariance_at(rows, task)

    def covariance_at(self, rows: Array, task: Codes) -> Array:
        """`posterior_covariance` for rows that were read, with codes of their tasks."""
        return self.moments_at(rows, task)[1]

    def moments_at(self, rows: Array, task: Codes) -> tuple[Array, Array]:
        """Posterior mean and covariance of the functions at rows that were read, at the hyper-parameters found."""
        return self._answer(rows, task, True, False, hyper=False, exact=True)

    def inputs_of(self, t: int) -> Array:
        """Distinct labelled inputs of task t; of all tasks where rows of several may be one cell."""
        fitted: Any = self._fit_of()
        cells = fitted.model.cells
        own: Array = cells.X if cells.n_tasks < len(fitted.schema.labels) else cells.X[cells.of(t)]
        return own

    def leave_one_out(self) -> Table:
        """Every distinct row predicted without it, at the hyper-parameters found: a quick look, and optimistic.

        Removing a row's own Gaussian site from its marginal is closed form: its precision falls by tau. Columns:
        task, count (rows merged into one), y, mean, std (of an observation), in the units of y; of a typical task
        where rows of several are one.
        """
        fitted: Any = self._fit_of()
        cells = fitted.model.cells
        t = cells.task
        noise = (fitted.noise / fitted.scale**2)[t]
        tau = cells.count / noise
        m, v = fitted.model.marginals()
        mean, variance = cavity(m, v, Sites(tau * cells.y, tau))
        labels, units = fitted.schema.labels, Scaling(fitted.center, fitted.scale, 0.0)
        if cells.n_tasks < len(labels):  # pooled: rows of several tasks may be one cell
            labels, units = ("all tasks",), units.typical()
        center, scale = units.center[t], units.scale[t]
        columns = {
            "count": cells.count,
            "y": center + scale * cells.y,
            "mean": center + scale * mean,
            "std": scale * np.sqrt(variance + noise / cells.count),
        }
        at = np.argsort(np.argsort(places_of(labels))[t], kind="stable")  # tasks as they are shown
        return Table({"task": [labels[i] for i in t[at]], **{n: v[at].tolist() for n, v in columns.items()}})

    def left_out_at(self, X: Array, y: Array, label: Hashable) -> tuple[Array, Array]:
        """Mean and standard deviation (of an observation) at rows of one task of the fit, each without its input.

        Rows of one input go together, as in `leave_one_out`. Where rows of several tasks are merged, one row y is taken
        away: with the function N(m, v) there, removing the site 1/noise leaves
        N((m - v y/noise)/(1 - v/noise), v/(1 - v/noise)).
        """
        fitted: Any = self._fit_of()
        cells, code = fitted.model.cells, fitted.schema.labels.index(label)
        if cells.n_tasks < len(fitted.schema.labels):
            noise, m = self.noise_[label], self.predict(X, tasks=label)
            v = np.diagonal(self.covariance_at(X, np.full(len(X), code)))
            rest = np.maximum(1.0 - v / noise, 1e-12)
            return (m - v / noise * y) / rest, np.sqrt(v / rest + noise)
        found = self.leave_one_out()
        mine = np.flatnonzero([t == label for t in found["task"]])
        place = {x.tobytes(): i for i, x in zip(mine, self._cell_inputs()[cells.task == code] + 0.0, strict=True)}
        at = [place[x.tobytes()] for x in X + 0.0]
        return np.asarray(found["mean"])[at], np.asarray(found["std"])[at]

    def _cell_inputs(self) -> Array:
        """The inputs of every distinct row of the fit."""
        return np.asarray(self._fit_of().model.cells.X)


#: Precision of a row that is as good as not there.
NOTHING = 1e-300


@dataclass(frozen=True)
class GPFit:
    """What the fit of every GP model holds, in units of scaled targets. A model adds its own."""

    cells: Cells
    evidence: float
    noise: Array
    jitter: float
    n_iter: int
    converged: bool
    posterior: Any
    uncertainty: HyperUncertainty | UncertaintyByTask | OtherModel | None = field(default=None, kw_only=True)

    @property
    def expected_noise(self) -> Array:
        """The noise of a new observation: what is not known about it makes it more."""
        expected = None if self.uncertainty is None else self.uncertainty.noise
        return self.noise if expected is None else np.broadcast_to(expected, self.noise.shape)

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every cell."""
        mean, variance = self.posterior.marginals()
        return mean, variance

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Functions at new rows; what is not known about the hyper-parameters widens the bands."""
        found: Prediction = self.posterior.predict(X, task, full)
        return found if self.uncertainty is None or not hyper else self.uncertainty.widen(found, X, task)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes: those that all GP regressors have, and the model's own."""
        return {
            "jitter_": self.jitter,
            "n_iter_": self.n_iter,
            "converged_": self.converged,
            **self.own_attributes(labels),
        }

    def evidence_of_relations(self, t: int) -> float:
        """log p(y_t | the other tasks) - log p(y_t), at the hyper-parameters found.

        With p and o the rows of task t and of the others, it is log p(y) - log p(y_o) - log p(y_p). Rows whose sites
        are next to nothing are as good as not there: each is an observation of zero with unit noise.
        """
        own = self.cells.task == t
        likelihood = Gaussian(self.cells, self.noise)
        nu, tau, prior = likelihood.nu, likelihood.tau, self.posterior.prior
        parts = [prior.condition(Sites(nu * at, np.where(at, tau, NOTHING))).evidence for at in (own, ~own)]
        return float(self.posterior.evidence - sum(parts) - 0.5 * len(own) * LOG_2PI)

    def own_attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes that this model has for numbers and for labels alike."""
        return {}


@dataclass(eq=False, repr=False, kw_only=True)
class GPRegressor(TaskRegressor, GPEstimator):
    """What every GP regressor shares. Abstract: a subclass fits a model to merged and scaled rows.

    Parameters
    ----------
    noise : variance in the units of y where learning starts; a number, a dict by label, or None.
    kernel : as in every `GPEstimator`.
    prior, optimizer, max_iter, device : as in every `LearntEstimator`.
    normalize_y : as in every `TaskRegressor`.
    task, random_state, unseen : as in every `TaskEstimator`.

    Attributes
    ----------
    kernel_ : the kernel found; its variance refers to scaled targets.
    """

    noise: Any = None

    def evidence_of_relations(self, task: Hashable) -> float:
        """Nats by which the rows of a task are likelier given those of the others than by themselves.

        At the hyper-parameters found, and with the same prior of the task's function on both sides: what the relations
        add, and nothing else.
        """
        fitted: Any = self._fit_of()
        (t,) = encode([task], fitted.schema.labels)
        return 0.0 if fitted.model.cells.n_tasks == 1 else fitted.model.evidence_of_relations(int(t))

    def _fit(self, data: TaskData, tasks: PlacedTasks) -> RegressionModel:
        """Fit the model to merged and scaled rows."""
        model: RegressionModel = self._fit_gp(data, tasks, EXACT, {"noise": np.log(self._start_noise(data))})
        return model

    def _read(
        self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, replicates: Any = None
    ) -> tuple[Rows, Schema]:
        """The table as rows, and what is known of its tasks and columns."""
        return read_training(self, X, y, tasks, sample_weight, replicates)

    def _arrange(self, rows: Rows) -> TaskData:
        """Merge and scale the rows; the primary keeps its own figures."""
        primary = self._primary_code(rows.labels)
        return build(rows, self.normalize_y, () if primary is None else (primary,))

    def _largest_block(self, data: TaskData) -> int:
        """Rows of the largest matrix that is factored."""
        return int(np.diff(data.cells.starts).max())

    def _learn(self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, replicates: Any = None) -> FittedRegression:
        rows, self._schema = self._read(X, y, tasks, sample_weight, replicates)
        warn_equal_targets(rows)
        data = self._arrange(rows)
        largest = self._largest_block(data)
        with self._places(len(data.cells.y), largest, largest) as place:
            model = together(self._fit, data, place(data.cells))
        return self._published(self._schema, data.scaling, model)

    def _start_noise(self, data: TaskData) -> Array:
        """Noise variances of the scaled targets to start from: those given, in the units of y, or 0.1 at least."""
        given = by_label(self.noise, data.labels, "noise", default=None)
        start = np.full(len(data.labels), 0.1)
        if data.cells.least_noise is not None:
            start = np.maximum(start, data.cells.least_noise)
        for t in places_of(data.labels):
            if (value := given[t]) is not None:
                if not is_number(value) or value <= 0:
                    raise ValueError(f"noise of task {data.labels[t]!r} is {value!r}; expected a positive variance")
                start[t] = float(value) / data.scaling.scale[t] ** 2
        return start
