"""What every GP regressor shares: reading, scaling, prediction at the public edge; no formula of a paper."""

from __future__ import annotations

import logging
import re
import warnings
from abc import abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from borrow import kernels
from borrow.covariance.shared import Prediction
from borrow.covariance.spread import Spread
from borrow.data.cells import Cells, Codes, Rows
from borrow.data.labels import list_labels
from borrow.data.read import Schema, read_new, read_training
from borrow.data.scaling import TaskData, build
from borrow.data.table import Table
from borrow.numerics import device as devices
from borrow.numerics import memory
from borrow.numerics.linalg import Array, NotPositiveDefiniteError
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Optimum
from borrow.tasks.workers import hired

log = logging.getLogger("borrow")

#: Below this many rows in the largest block one BLAS thread is faster than several.
SMALL_BLOCK = 1500


class Fitted(NamedTuple):
    """What a model's fit hands back for the estimator to publish."""

    evidence: float  # of the scaled targets
    noise: Array  # (M,), of the scaled targets
    jitter: float
    n_iter: int
    converged: bool


class GPRegressor(RegressorMixin, BaseEstimator):
    """What every GP regressor shares. Abstract: a subclass fits a model and predicts for coded tasks in scaled units.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    kernel : one of `borrow.kernels` or of scikit-learn's, where learning starts; None is a squared exponential with
        one lengthscale a column.
    noise : variance in the units of y where learning starts; a number, a dict by label, or None.
    normalize_y : True centres and scales the targets of each task, "common" all tasks by the same figures (targets in
        the same units), False neither.
    prior : "auto" has weak priors on kernel and noise, the same in every GP estimator; None is maximum likelihood.
    optimizer : "lbfgs", or None to keep kernel, noise and the model's own parameters as given.
    max_iter : the most iterations of the optimiser; a fit that needs more warns.
    random_state : seed or generator; the only source of randomness.
    device : "cpu", "cuda" (the matrices on a GPU, through PyTorch), or "auto" for a GPU where there is one and the rows
        are many; answers agree to about 1e-8 and come back as NumPy arrays.

    Attributes
    ----------
    tasks_ : labels of the tasks, sorted.
    kernel_ : the kernel found; its variance refers to scaled targets.
    noise_ : dict by label of noise variances, in the units of y.
    log_marginal_likelihood_ : log evidence of y as given, priors not included.
    n_iter_, converged_ : iterations of the optimiser, and whether it ended by itself.
    jitter_ : what had to be added to a diagonal for it to be factored; 0 nearly always.
    n_features_in_, feature_names_in_ : columns of X in `fit`, the task column included; names only for frames.
    """

    task: str | int | None
    kernel: Any
    noise: Any
    normalize_y: bool | str
    prior: str | None
    optimizer: str | None
    max_iter: int
    random_state: Any
    device: str = "cpu"

    @abstractmethod
    def _fit(self, data: TaskData) -> Fitted:
        """Fit, set the model's own attributes, return what all models have."""

    @abstractmethod
    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        """Posterior of the functions at new rows, in scaled units."""

    def _arrange(self, rows: Rows) -> TaskData:
        """Merge and scale the rows; the primary keeps its own figures."""
        primary = self._primary_code(rows.labels)
        return build(rows, self.normalize_y, () if primary is None else (primary,))

    def _read(
        self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, replicates: Any = None
    ) -> tuple[Rows, Schema]:
        """The table as rows."""
        return read_training(self, X, y, tasks, sample_weight, replicates)

    def _largest_block(self, data: TaskData) -> int:
        """Rows of the largest matrix that is factored."""
        return int(np.diff(data.cells.starts).max())

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int | None:
        """Code of the task that matters, where the model has one."""
        return None

    def fit(self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None, replicates: Any = None) -> Self:
        """Fit to a table.

        X: frame or array, with the task column named by `task=` in the constructor, or `tasks=` beside it; or
        a list or dict of (X, y) pairs. y: targets, NaN where unlabelled; (N, M) with one column a task.
        `sample_weight=k` is the row repeated k times; `replicates=k` says that y is already a mean of k.
        """
        check_settings(self)
        rows, schema = self._read(X, y, tasks, sample_weight, replicates)
        data = self._arrange(rows)
        place = devices.resolve(self.device, len(data.cells.y))
        data = data if place is None else replace(data, cells=replace(data.cells, device=place))
        M = len(schema.labels)
        self._schema: Schema = schema
        self._center, self._scale = (np.broadcast_to(v, M) for v in (data.scaling.center, data.scaling.scale))
        self.tasks_ = as_labels(schema.labels)
        largest = self._largest_block(data)
        with (
            single_thread(largest),
            hired(getattr(self, "workers", None), place) as crew,
            devices.MemoryGivenBack(place, largest),
        ):
            fitted = self._fit(data if crew is None else replace(data, spread=Spread(crew, data.cells)))
        self.noise_ = dict(zip(schema.labels, (fitted.noise * self._scale**2).tolist(), strict=True))
        self.log_marginal_likelihood_ = fitted.evidence - data.scaling.log_volume
        self.jitter_, self.n_iter_, self.converged_ = fitted.jitter, fitted.n_iter, fitted.converged
        return self

    def predict(
        self,
        X: Any,
        tasks: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """Posterior mean of each row's task; with its standard deviation or covariance if asked.

        The standard deviation is of the function; `include_noise=True` adds the noise of a new observation.
        Fitted on wide y and asked for no task in particular, the answer has the columns of y.
        """
        check_is_fitted(self, "log_marginal_likelihood_")
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; ask for one of them")
        rows, task = read_new(self, X, self._schema, tasks, self._primary_code(self._schema.labels))
        if task is None:
            wide = self._schema.wide
            assert wide is not None  # the only fit that may be asked for no task in particular
            M = len(wide)
            if return_cov:
                raise ValueError("return_cov=True needs one task for each row; give tasks=")
            answer = self._answer(np.repeat(rows, M, axis=0), np.tile(wide, len(rows)), False, include_noise)
            mean, std = answer[0].reshape(-1, M), answer[1].reshape(-1, M)
            return (mean, std) if return_std else mean
        mean, second = self._answer(rows, task, return_cov, include_noise)
        return (mean, second) if return_std or return_cov else mean

    @abstractmethod
    def _marginals(self) -> tuple[Cells, Array, Array]:
        """The cells of the fit, with posterior mean and variance of the function at each, in scaled units."""

    def leave_one_out(self) -> Table:
        """Every distinct row predicted without it, at the hyper-parameters found: a quick look, and optimistic.

        Removing a row's own Gaussian site from its marginal is closed form: its precision falls by tau. Columns:
        task, count (rows merged into one), y, mean, std (of an observation), in the units of y.
        """
        check_is_fitted(self, "log_marginal_likelihood_")
        cells, m, v = self._marginals()
        t = cells.task
        noise = (np.array(list(self.noise_.values())) / self._scale**2)[t]
        rest = np.maximum(1.0 - v * cells.count / noise, 1e-12)
        mean, variance = (m - v * cells.count / noise * cells.y) / rest, v / rest
        labels = self._schema.labels
        if len(cells.starts) - 1 < len(labels):  # pooled: rows of several tasks may be one cell
            labels = ("all tasks",)
        center, scale = self._center[t], self._scale[t]
        return Table(
            {
                "task": [labels[i] for i in t],
                "count": cells.count.tolist(),
                "y": (center + scale * cells.y).tolist(),
                "mean": (center + scale * mean).tolist(),
                "std": (scale * np.sqrt(variance + noise / cells.count)).tolist(),
            }
        )

    def _answer(self, rows: Array, task: Codes, full: bool, include_noise: bool) -> tuple[Array, Array]:
        if full:
            memory.require(
                8.0 * 3 * len(rows) ** 2,
                f"the covariance of {len(rows):,} rows",
                "ask for return_std instead",
            )
        with single_thread(len(rows)):
            p = self._predict(rows, task, full)
        scale = self._scale[task]
        mean = self._center[task] + scale * p.mean
        noise = np.array(list(self.noise_.values()))[task] * include_noise
        if p.covariance is not None:
            return mean, p.covariance * np.multiply.outer(scale, scale) + np.diag(noise)
        return mean, np.sqrt(p.variance * scale**2 + noise)

    def _start_noise(self, data: TaskData) -> Array:
        """Noise variances of the scaled targets to start from: those given, in the units of y, or 0.1."""
        given = by_label(self.noise, data.labels, "noise", default=None)
        start = np.full(len(data.labels), 0.1)
        for t, value in enumerate(given):
            if value is not None:
                if not is_number(value) or value <= 0:
                    raise ValueError(f"noise of task {data.labels[t]!r} is {value!r}; expected a positive variance")
                start[t] = float(value) / data.scaling.scale[t] ** 2
        return start


def default_kernel(scales: Array, given: Any, name: str, tied: bool = False) -> kernels.Kernel:
    """The kernel given, or a squared exponential with lengthscales of sqrt(d) column scales."""
    if given is not None:
        return kernels.resolve(given, name)
    start = scales * np.sqrt(len(scales))
    lengthscale = float(start[0]) if len(start) == 1 else tuple(start.tolist())
    return kernels.SquaredExponential(1.0, lengthscale, tied=tied and len(start) > 1)


def check_settings(estimator: Any) -> None:
    """Refuse constructor arguments that no GP estimator can use."""
    if estimator.prior not in ("auto", None):
        raise ValueError(f"prior={estimator.prior!r}: expected 'auto' (weak priors) or None (maximum likelihood)")
    if estimator.optimizer not in ("lbfgs", None):
        raise ValueError(f"optimizer={estimator.optimizer!r}: expected 'lbfgs', or None to keep the given parameters")
    devices.check(getattr(estimator, "device", "cpu"))
    normalize = getattr(estimator, "normalize_y", True)
    if normalize not in (True, False, "common"):
        raise ValueError(
            f"normalize_y={normalize!r}: expected True (scale each task), 'common' (all tasks by the same "
            "figures, for targets in the same units) or False"
        )
    for name, least in (("max_iter", 1), ("n_restarts", 0), ("background", 0)):
        value = getattr(estimator, name, least)
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")


def as_labels(labels: tuple[Hashable, ...]) -> Any:
    """Labels as an array: numbers and text as such, mixtures and other kinds as objects."""
    if len({type(v) for v in labels}) == 1 and isinstance(labels[0], (str, int, float, np.generic)):
        return np.array(labels)
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return out


def is_number(value: Any) -> bool:
    """A single finite number, Python's or NumPy's."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))


def is_matrix(value: Any, columns: int) -> bool:
    """At least one row of finite numbers, of so many columns."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return False
    array = np.asarray(value)
    shaped = array.ndim == 2 and len(array) > 0 and array.shape[1] == columns
    return shaped and array.dtype.kind in "iuf" and bool(np.isfinite(array).all())


def by_label(value: Any, labels: tuple[Hashable, ...], name: str, default: Any) -> list[Any]:
    """One entry a task from a scalar, a dict by label, or nothing."""
    if isinstance(value, Mapping):
        unknown = [k for k in value if k not in labels]
        if unknown:
            raise ValueError(f"{name} names the task {list_labels(unknown)}; tasks are {list_labels(labels)}")
        return [value.get(label, default) for label in labels]
    return [default if value is None else value] * len(labels)


def numbers_by_label(value: Any, labels: tuple[Hashable, ...], name: str, default: float) -> list[float]:
    """The same where every entry is a number."""
    values = by_label(value, labels, name, default)
    for label, v in zip(labels, values, strict=True):
        if not is_number(v):
            raise ValueError(f"{name} of task {label!r} is {v!r}; expected a number")
    return [float(v) for v in values]


def single_thread(largest: int) -> Any:
    """One BLAS thread where matrices are small: several lose time waiting for each other."""
    return _controller().limit(limits=1 if largest < SMALL_BLOCK else None)


def _controller() -> ThreadpoolController:
    global _threads
    if _threads is None:
        _threads = ThreadpoolController()
    return _threads


_threads: ThreadpoolController | None = None


def warn_unfinished(
    estimator: GPRegressor, optimum: Optimum, names: Mapping[str, list[str]], objective: Objective
) -> None:
    """Warn where the optimiser ran out of iterations or the data do not identify a parameter, and name it.

    Where no prior holds the parameters, columns that carry no information are named too: the optimiser stops
    on a plateau long before their lengthscales meet a bound.
    """
    prior = estimator.prior is not None
    remedy = "" if prior else ", or use prior='auto'"
    if not optimum.converged:
        _warn(
            f"the optimiser stopped after {optimum.n_iter} iterations without converging "
            f"({optimum.message}); raise max_iter (now {estimator.max_iter}){remedy}"
        )
    exact = [(n, i) for n, i in optimum.at_bound if n == "noise" and optimum.values[n][i] <= np.log(NOISE_FLOOR)]
    if exact:
        which = list_labels([names[n][i] for n, i in exact], 4)
        text = f"{which} is at its floor of {NOISE_FLOOR:g} of the variance of y: the fit meets every target"
        if prior:  # the data outvoted it: there is no noise
            log.info(text)
        else:
            _warn(f"{text}, which is overfitting unless they are exact; use prior='auto'")
    loose = [at for at in optimum.at_bound if at not in exact]
    if not prior:
        loose += [at for at in plateau(objective, optimum, names["kernel"]) if at not in loose]
    if loose:
        which = list_labels([_with_column(names[n][i], estimator._schema.names) for n, i in loose], 4)
        _warn(
            f"{which} is not identified: other values explain the data as well; drop the column if it "
            f"carries no information, or fix the parameter{remedy}"
        )


def plateau(objective: Objective, optimum: Optimum, names: list[str]) -> list[tuple[str, int]]:
    """Lengthscales of the kernel that may be twenty times longer at a cost of less than a tenth of a nat."""

    def cost(i: int) -> float:
        longer = optimum.values["kernel"].copy()
        longer[i] += np.log(20.0)
        try:
            return optimum.objective - objective({**optimum.values, "kernel": longer})[0]
        except NotPositiveDefiniteError:
            return np.inf

    return [("kernel", i) for i, name in enumerate(names) if "lengthscale" in name and cost(i) < 0.1]


def _with_column(name: str, columns: tuple[Hashable, ...] | None) -> str:
    """The name of a parameter, with the column of the frame that it belongs to."""
    found = re.search(r"lengthscale\[(\d+)\]", name)
    return f"{name} (column {columns[int(found[1])]!r})" if found and columns else name


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=5)  # the line that called fit
