"""No transfer and pooling: one GP per task with nothing shared, and one GP for the rows of all tasks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from borrow.covariance import Prediction, choose_inducing
from borrow.data.cells import Codes, Rows
from borrow.data.read import Schema
from borrow.data.scaling import TaskData, build
from borrow.estimators.base import Place
from borrow.estimators.classifier import EPClassifier, EPLabels, at_final_tolerance, binary_data, warn_ep
from borrow.estimators.gp import GPEstimator, default_kernel
from borrow.estimators.registry import register
from borrow.estimators.regressor import GPFit, GPRegressor
from borrow.estimators.settings import Allowed, whole
from borrow.inference import HyperUncertainty, Inference, Result, UncertaintyByTask
from borrow.kernels import Kernel
from borrow.models.gp.model import (
    INDUCING_INPUTS,
    KEPT,
    SPARSE_ABOVE,
    Learnt,
    check_memory,
    condition_single,
    fit_on_rows,
    fit_single,
    likelihood_of,
    single_objective,
    single_uncertainty,
)
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.numerics.stored import stored
from borrow.tasks.contracts import Shard, Tasks
from borrow.tasks.placed import PlacedTasks

#: Why no transfer cannot answer for a task never seen, and why "auto" leaves pooling out.
NO_NEW_TASK, ALL_ONE = "it learns every task by itself and knows nothing of another", "it takes all tasks for one"


@dataclass(eq=False, repr=False)
class PlainGP(GPEstimator):
    """What the estimators without transfer share: one GP on the rows of one group. Abstract."""

    def _fit_rows(
        self,
        tasks: Tasks[Shard],
        kernel: Kernel,
        likelihood: Values,
        scales: Array,
        infer: Inference,
        centred: bool,
        Z: Array | None = None,
        learn_Z: bool = False,
        where: str = "",
    ) -> tuple[Learnt, Result, HyperUncertainty | None]:
        """Learn kernel, likelihood and pseudo-inputs unless they are to be kept; `where` ends names in warnings.

        Returns what was learnt, the posterior with its evidence, and how uncertain the hyper-parameters leave it.
        """
        found, uncertainty = Learnt(kernel, likelihood, KEPT, Z), None
        if self.optimizer is not None and len(tasks.cells.y):
            how = tasks, kernel, likelihood, scales, self.prior, self.max_iter, infer
            found = fit_single(*how, Z, learn_Z) if Z is None or learn_Z else fit_on_rows(*how, Z)
            names = {"kernel": kernel.parameter_names(), "noise": ["noise"]}
            names = {n: [v + where for v in vs] for n, vs in names.items()}
            # Where a pseudo-input lies may well not matter, and is nothing that a user could do something about.
            told = replace(found.optimum, at_bound=[at for at in found.optimum.at_bound if at[0] != "Z"])
            self._warn_unfinished(told, names, single_objective(tasks, found.kernel, infer, scales, found.Z))
            uncertainty = single_uncertainty(tasks, found, scales, self.prior, infer, centred)
        # Last, as its matrices are kept.
        fit = condition_single(tasks, found.kernel, found.likelihood, at_final_tolerance(infer), found.Z)
        warn_ep(fit, where)
        return found, fit, uncertainty


@stored("single-task-fit")
@dataclass(frozen=True)
class SingleTaskFit(GPFit):
    """One GP per task: its posterior is a list of theirs."""

    kernels: list[Kernel]
    uncertainties: list[HyperUncertainty | None]

    @property
    def expected_noise(self) -> Any:
        """The noise of a new observation of each task, as its own GP expects it."""
        return UncertaintyByTask(self.uncertainties, self.noise).noise

    def evidence_of_relations(self, t: int) -> float:
        """No task says anything of another."""
        return 0.0

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every cell."""
        mean, variance = zip(*(p.marginals() for p in self.posterior), strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Each row by the GP of its task."""
        found = Prediction.by_task(task, full, lambda t, at: self.posterior[t].predict(X[at], 0 * at, full))
        return UncertaintyByTask(self.uncertainties, self.noise).widen(found, X, task) if hyper else found

    def own_attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The kernel that each task has by itself, by label."""
        return {"kernels_": dict(zip(labels, self.kernels, strict=True))}

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes of a regressor."""
        found = super().attributes(labels)
        return {**found, "kernel_": self.kernels[0] if len(labels) == 1 else found["kernels_"]}


@dataclass(eq=False, repr=False, kw_only=True)
class SingleTaskGP(PlainGP):
    """What both estimators of tasks by themselves share. Abstract."""

    only: Any = None

    shares_tasks: ClassVar[bool] = False

    def _fit_gp(self, data: TaskData, tasks: Tasks[Shard], infer: Inference, likelihood: Values) -> SingleTaskFit:
        sizes = np.diff(tasks.cells.starts).astype(float)
        check_memory(tasks.only(int(sizes.argmax())), infer, None, float(sizes @ sizes))
        kernel = default_kernel(data.column_scales, self.kernel, "kernel")
        unnamed = infer.gaussian and len(data.labels) == 1 and self.only is None
        each = []
        for t, label in enumerate(data.labels):
            where = "" if unnamed else f" of task {label!r}"
            more = data.column_scales, infer, data.centred
            each.append(self._fit_rows(tasks.only(t), kernel, likelihood_of(likelihood, t), *more, where=where))
        return SingleTaskFit(
            data.cells,
            float(sum(fit.evidence for _, fit, _ in each)),
            np.concatenate([found.noise for found, _, _ in each]),
            0.0,
            max(found.optimum.n_iter for found, _, _ in each),
            all(found.optimum.converged for found, _, _ in each),
            [fit.posterior for _, fit, _ in each],
            [found.kernel for found, _, _ in each],
            [uncertainty for _, _, uncertainty in each],
        )


@register(
    "single",
    "no transfer",
    rank=0,
    about="a Gaussian process on the rows of the primary alone",
    no_new_task=NO_NEW_TASK,
)
@dataclass(eq=False, repr=False)
class SingleTaskGPRegressor(GPRegressor, SingleTaskGP):
    """One GP per task, nothing shared: what transfer has to beat.

    Parameters
    ----------
    only : label of the only task to fit, on the column scales of the whole table (the priors refer to them, so that
        this is a focused model that borrows nothing); None fits every task.
    task, kernel, noise, normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`.
    unseen : as in every `GPRegressor`.

    Attributes
    ----------
    kernels_ : dict by label of the kernels found.
    kernel_ : that of a single task, else the same dict.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.SingleTaskGPRegressor().fit(X, y, tasks=tasks)
    >>> model.predict([[1.5], [1.5]], tasks=["a", "b"]).shape
    (2,)
    >>> alone = borrow.SingleTaskGPRegressor(only="a").fit(X, y, tasks=tasks)
    >>> alone.tasks_.tolist()
    ['a']
    """

    def _read(self, *given: Any) -> tuple[Rows, Schema]:
        rows, schema = super()._read(*given)
        return rows, schema if self.only is None else schema.only(self.only)

    def _arrange(self, rows: Rows) -> TaskData:
        whole = build(rows, self.normalize_y, range(len(rows.labels)))
        return whole if self.only is None else whole.only(rows.labels.index(self.only))


@stored("pooled-fit")
@dataclass(frozen=True)
class PooledFit(GPFit):
    """One GP for all rows."""

    kernel: Kernel
    Z: Array | None

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Every row, whatever its task."""
        return super().predict(X, np.zeros(len(X), dtype=np.intp), full, hyper)

    def own_attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The kernel and the pseudo-inputs."""
        return {"kernel_": self.kernel, "inducing_": self.Z}


@dataclass(eq=False, repr=False, kw_only=True)
class PooledGP(PlainGP):
    """What both pooled estimators share. Abstract."""

    inducing: str | int | None = "auto"

    allowed: ClassVar[Allowed] = {
        "inducing": (whole(1, "auto", None)[0], "'auto', None or a number of pseudo-inputs"),
    }

    def _fit_gp(self, data: TaskData, tasks: Tasks[Shard], infer: Inference, likelihood: Values) -> PooledFit:
        scales, X = data.column_scales, data.cells.X
        m: Any = self.inducing
        if m == "auto":
            m = INDUCING_INPUTS if len(X) > SPARSE_ABOVE else None
        kernel = default_kernel(scales, self.kernel, "kernel")
        check_memory(tasks, infer, m, float(len(X)) ** 2)
        Z = None if m is None else choose_inducing(kernel, X[:0], X, m, tolerance=0.0)
        how = scales, infer, data.centred, Z, self.inducing != "auto"
        found, fit, uncertainty = self._fit_rows(tasks, kernel, likelihood, *how)
        search = found.optimum.n_iter, found.optimum.converged
        common = data.cells, fit.evidence, found.noise, fit.posterior.prior.jitter, *search, fit.posterior
        return PooledFit(*common, found.kernel, found.Z, uncertainty=uncertainty)


@register(
    "pooled",
    "pooled",
    rank=1,
    about="one Gaussian process for all rows, as if the tasks were one",
    matrix="few",
    not_in_auto=ALL_ONE,
    role="as one",
)
@dataclass(eq=False, repr=False)
class PooledGPRegressor(GPRegressor, PooledGP):
    """One GP for the rows of all tasks as if they were one, each task with its own level and scale.

    Above 300 rows it is an approximation on 100 of their inputs.

    Parameters
    ----------
    inducing : "auto" (as above), None (exact always), or a number of pseudo-inputs that are learnt too.
    normalize_y : True (the default) puts tasks in common units, by the level and scale of each; "common" takes all rows
        as they are, centred and scaled by one figure; False neither.
    task, kernel, noise, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`; one noise for all
        tasks, in common units.
    unseen : as in every `GPRegressor`.

    Attributes
    ----------
    inducing_ : the pseudo-inputs, None if exact.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.PooledGPRegressor().fit(X, y, tasks=tasks)
    >>> of_a, of_b = model.predict([[1.5], [1.5]], tasks=["a", "b"])
    >>> round(float(of_b - of_a), 1)  # one function for all tasks, at the level and scale of each
    1.0
    >>> model = borrow.PooledGPRegressor(normalize_y="common").fit(X, y, tasks=tasks)
    >>> of_a, of_b = model.predict([[1.5], [1.5]], tasks=["a", "b"])
    >>> bool(of_a == of_b)
    True
    """

    def _arrange(self, rows: Rows) -> TaskData:
        if isinstance(self.noise, Mapping):
            raise ValueError("noise is a dict by task; a pooled GP has one noise for all rows: give a number")
        each = build(rows, self.normalize_y)
        y, task = each.scaling.scaled(rows.y, rows.task), np.zeros_like(rows.task)
        data = build(replace(rows, y=y, task=task, labels=("all tasks",)), False)
        least = None if each.cells.least_noise is None else each.cells.least_noise.min(keepdims=True)
        cells = replace(data.cells, least_noise=least)
        return replace(data, cells=cells, scaling=each.scaling, centred=each.centred)

    def _start_noise(self, data: TaskData) -> Array:
        """In the units of a typical task."""
        return super()._start_noise(replace(data, scaling=data.scaling.typical()))


@register("single", "no transfer", rank=0, no_new_task=NO_NEW_TASK)
@dataclass(eq=False, repr=False)
class SingleTaskGPClassifier(EPClassifier, SingleTaskGP):
    """One GP per task by EP, nothing shared: what transfer has to beat.

    Parameters
    ----------
    only : label of the only task to fit, as in `SingleTaskGPRegressor`; None fits every task.
    task, kernel, likelihood, prior, optimizer, max_iter, random_state, device : as in every `EPClassifier`.
    unseen : as in every `EPClassifier`.

    Attributes
    ----------
    kernels_ : dict by label of the kernels found; a list, one per class, where there are more than two.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.SingleTaskGPClassifier().fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    def _fit_binary(self, data: TaskData, place: Place = PlacedTasks) -> EPLabels:
        if self.only is not None:
            self._schema, data = self._schema.only(self.only), data.only(data.labels.index(self.only))
        return super()._fit_binary(data, place)


@register("pooled", "pooled", rank=1, matrix="few", not_in_auto=ALL_ONE, role="as one")
@dataclass(eq=False, repr=False)
class PooledGPClassifier(EPClassifier, PooledGP):
    """One GP for all rows as if they were one task's, by EP; above 300 rows an approximation on 100 of their inputs.

    Parameters
    ----------
    inducing : "auto" (as above), None (exact always), or a number of pseudo-inputs that are learnt too.
    task, kernel, likelihood, prior, optimizer, max_iter, random_state, device : as in every `EPClassifier`.
    unseen : as in every `EPClassifier`.

    Attributes
    ----------
    inducing_ : the pseudo-inputs, None if exact; a list, one per class, where there are more than two.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.PooledGPClassifier().fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    def _arrange(self, data: TaskData) -> TaskData:
        X, y = data.cells.X, data.cells.y
        return binary_data(X, y, np.array([0, len(y)]), (0,), (X[:0],), data.column_scales)
