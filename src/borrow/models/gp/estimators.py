"""No transfer and pooling: one GP per task with nothing shared, and one GP for the rows of all tasks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from borrow.covariance import choose_inducing
from borrow.covariance.contracts import Prediction
from borrow.data.cells import Codes, Rows
from borrow.data.read import Schema
from borrow.data.scaling import TaskData, build
from borrow.estimators.classifier import BinaryData, Place
from borrow.estimators.gp import GPEstimator, default_kernel
from borrow.estimators.labels import EPClassifier, LabelModel, as_task_data, at_final_tolerance, warn_ep
from borrow.estimators.registry import register
from borrow.estimators.regressor import GPFit, GPRegressor
from borrow.inference import Inference
from borrow.inference.ep import class_bias
from borrow.inference.hyper_uncertainty import HyperUncertainty, add_half
from borrow.kernels import Kernel
from borrow.models.gp.model import (
    EXACT,
    Learnt,
    check_exact_memory,
    condition_single,
    fit_single,
    measure_single,
    number_of_inducing,
    single_objective,
)
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum
from borrow.tasks.placed import PlacedTasks


@dataclass(frozen=True)
class SingleTaskFit(GPFit):
    """One GP per task."""

    kernels: list[Kernel]
    posteriors: list[Any]
    uncertainties: list[HyperUncertainty | None]

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every cell."""
        mean, variance = zip(*(p.marginals() for p in self.posteriors), strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Each row by the GP of its task."""
        mean, variance = np.empty(len(X)), np.empty(len(X))
        covariance = np.zeros((len(X), len(X))) if full else None
        for t in np.unique(task):
            at = np.flatnonzero(task == t)
            p = self.posteriors[t].predict(X[at], np.zeros(len(at), dtype=np.intp), full)
            p = add_half(p, X[at], np.ones(len(at), dtype=bool), self.uncertainties[t] if hyper else None)
            mean[at], variance[at] = p.mean, p.variance
            if covariance is not None:
                covariance[np.ix_(at, at)] = p.covariance
        return Prediction(mean, variance, covariance)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        kernels = dict(zip(labels, self.kernels, strict=True))
        alone = self.kernels[0] if len(labels) == 1 else kernels
        return {**super().attributes(labels), "kernels_": kernels, "kernel_": alone}


@register("single", "no transfer", rank=0)
@dataclass(eq=False, repr=False)
class SingleTaskGPRegressor(GPRegressor):
    """One GP per task, nothing shared: what transfer has to beat.

    Parameters
    ----------
    only : label of the only task to fit, on the column scales of the whole table (the priors refer to them, so that
        this is a focused model that borrows nothing); None fits every task.
    task, kernel, noise, normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`.

    Attributes
    ----------
    kernels_ : dict by label of the kernels found.
    kernel_ : that of a single task, else the same dict.
    """

    _: KW_ONLY
    only: Any = None

    def _read(self, *given: Any) -> tuple[Rows, Schema]:
        rows, schema = super()._read(*given)
        return rows, schema if self.only is None else schema.only(self.only)

    def _arrange(self, rows: Rows) -> TaskData:
        whole = build(rows, self.normalize_y, range(len(rows.labels)))
        if self.only is None:
            return whole
        return replace(build(rows.only(self.only), self.normalize_y, (0,)), column_scales=whole.column_scales)

    def _fit(self, data: TaskData, tasks: PlacedTasks) -> SingleTaskFit:
        check_exact_memory(tasks)
        template, scales = default_kernel(data.column_scales, self.kernel, "kernel"), data.column_scales
        noise = self._start_noise(data)
        kernels, n_iter, converged, evidence = [], 0, True, 0.0
        posteriors, uncertainties = [], []
        for t, label in enumerate(data.labels):
            own_rows, kernel = tasks.only(t), template
            learn = self.optimizer is not None and len(own_rows.cells.y) > 0
            if learn:
                kernel, own, optimum, _ = fit_single(
                    own_rows, template, float(noise[t]), scales, self.prior, self.max_iter
                )
                noise[t] = np.exp(own["noise"][0])
                names = {"kernel": template.parameter_names(), "noise": ["noise"]}
                where = f" of task {label!r}" if len(data.labels) > 1 or self.only is not None else ""
                names = {n: [v + where for v in vs] for n, vs in names.items()}
                self._warn_unfinished(optimum, names, single_objective(own_rows, kernel))
                n_iter, converged = max(n_iter, optimum.n_iter), converged and optimum.converged
            own = {"noise": np.log(noise[t : t + 1])}
            uncertainties.append(measure_single(own_rows, kernel, own, scales, self.prior) if learn else None)
            fit = condition_single(own_rows, kernel, own)  # last: its matrices are kept
            kernels.append(kernel)
            posteriors.append(fit.posterior)
            evidence += fit.evidence
        return SingleTaskFit(data.cells, evidence, noise, 0.0, n_iter, converged, kernels, posteriors, uncertainties)


@dataclass(frozen=True)
class PooledFit(GPFit):
    """One GP for all rows."""

    kernel: Kernel
    Z: Array | None
    posterior: Any
    uncertainty: HyperUncertainty | None

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every cell."""
        return self.posterior.marginals()

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Every row, whatever its task."""
        p = self.posterior.predict(X, np.zeros(len(X), dtype=np.intp), full)
        return add_half(p, X, np.ones(len(X), dtype=bool), self.uncertainty if hyper else None)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {**super().attributes(labels), "kernel_": self.kernel, "inducing_": self.Z}


@dataclass(eq=False, repr=False)
class PooledGP(GPEstimator):
    """What both pooled estimators share. Abstract."""

    _: KW_ONLY
    inducing: str | int | None = "auto"

    def _learn_pooled(self, tasks: PlacedTasks, scales: Array, noise: float | None, infer: Inference = EXACT) -> Learnt:
        """Kernel, likelihood and pseudo-inputs of one GP for all rows."""
        kernel = default_kernel(scales, self.kernel, "kernel")
        X = tasks.cells.X
        m = number_of_inducing(self.inducing, len(X))
        if m is None:
            check_exact_memory(tasks)
        Z = None if m is None else choose_inducing(kernel, X[:0], X, m, tolerance=0.0)
        if self.optimizer is None:
            kept = Optimum({}, np.nan, 0, 0, True, "kept as given")
            return Learnt(kernel, {} if noise is None else {"noise": np.log([noise])}, kept, Z)
        found = fit_single(tasks, kernel, noise, scales, self.prior, self.max_iter, infer, Z)
        names = {"kernel": kernel.parameter_names(), "noise": ["noise"]}
        if found.Z is not None:
            names["Z"] = [f"pseudo-input {i // found.Z.shape[1]}" for i in range(found.Z.size)]
        self._warn_unfinished(found.optimum, names, single_objective(tasks, found.kernel, infer, scales))
        return found


@register("pooled", "pooled", rank=1)
@dataclass(eq=False, repr=False)
class PooledGPRegressor(GPRegressor, PooledGP):
    """One GP for the rows of all tasks as if they were one; sparse with 30 learnt pseudo-inputs above 300 rows.

    Targets are centred and scaled once for all rows.

    Parameters
    ----------
    inducing : "auto" (as above), None (exact always) or a number of pseudo-inputs.
    task, kernel, noise, normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`;
        one noise for all tasks.

    Attributes
    ----------
    inducing_ : the pseudo-inputs, None if exact.
    """

    def _arrange(self, rows: Rows) -> TaskData:
        if isinstance(self.noise, Mapping):
            raise ValueError("noise is a dict by task; a pooled GP has one noise for all rows: give a number")
        pooled = replace(rows, task=np.zeros_like(rows.task), labels=("all tasks",))
        return build(pooled, self.normalize_y)

    def _fit(self, data: TaskData, tasks: PlacedTasks) -> PooledFit:
        scales = data.column_scales
        kernel, own, optimum, Z = self._learn_pooled(tasks, scales, float(self._start_noise(data)[0]))
        learnt = self.optimizer is not None
        uncertainty = measure_single(tasks, kernel, own, scales, self.prior, Z) if learnt else None
        fit = condition_single(tasks, kernel, own, Z=Z)  # last: its matrices are kept
        n_iter, converged = optimum.n_iter, optimum.converged
        jitter, noise = fit.posterior.prior.jitter, np.exp(own["noise"])
        common = data.cells, fit.evidence, noise, jitter, n_iter, converged
        return PooledFit(*common, kernel, Z, fit.posterior, uncertainty)


@dataclass(frozen=True)
class SingleTaskLabels(LabelModel):
    """One GP per task, for labels."""

    kernels: list[Kernel]

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {**super().attributes(labels), "kernels_": dict(zip(labels, self.kernels, strict=True))}


@register("single", "no transfer", rank=0)
@dataclass(eq=False, repr=False)
class SingleTaskGPClassifier(EPClassifier):
    """One GP per task by EP, nothing shared: what transfer has to beat.

    Parameters
    ----------
    only : label of the only task to fit, as in `SingleTaskGPRegressor`; None fits every task.
    task, kernel, likelihood, prior, optimizer, max_iter, random_state, device : as in every `EPClassifier`.

    Attributes
    ----------
    kernels_ : dict by label of the kernels found; a list, one per class, where there are more than two.
    """

    _: KW_ONLY
    only: Any = None

    def _fit_binary(self, data: BinaryData, place: Place = PlacedTasks) -> SingleTaskLabels:
        if self.only is not None:
            self._schema, data = self._schema.only(self.only), data.only(self.only)
        table, infer = as_task_data(data), self._inference()
        tasks = place(table.cells)
        check_exact_memory(tasks)
        template = default_kernel(data.column_scales, self.kernel, "kernel")
        group, kernels, evidence, n_iter, converged = [], [], 0.0, 0, True
        for t, label in enumerate(data.labels):
            own_rows, kernel = tasks.only(t), template
            if self.optimizer is not None and len(own_rows.cells.y):
                kernel, _, optimum, _ = fit_single(
                    own_rows, template, None, data.column_scales, self.prior, self.max_iter, infer
                )
                names = {"kernel": [f"{n} of task {label!r}" for n in template.parameter_names()]}
                self._warn_unfinished(optimum, names, single_objective(own_rows, kernel, infer))
                n_iter, converged = max(n_iter, optimum.n_iter), converged and optimum.converged
            fit = condition_single(own_rows, kernel, {}, at_final_tolerance(infer))
            warn_ep(fit, f" of task {label!r}")  # type: ignore[arg-type]
            group.append((fit.posterior, 0))
            kernels.append(kernel)
            evidence += fit.evidence
        bias = class_bias(table.cells)
        return SingleTaskLabels(group, bias, infer.likelihood, evidence, n_iter, converged, kernels)


@dataclass(frozen=True)
class PooledLabels(LabelModel):
    """One GP for all rows, for labels."""

    kernel: Kernel
    Z: Array | None

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {**super().attributes(labels), "kernel_": self.kernel, "inducing_": self.Z}


@register("pooled", "pooled", rank=1)
@dataclass(eq=False, repr=False)
class PooledGPClassifier(EPClassifier, PooledGP):
    """One GP for all rows as if they were one task's, by EP; sparse with 30 learnt pseudo-inputs above 300 rows.

    Parameters
    ----------
    inducing : "auto" (as above), None (exact always) or a number of pseudo-inputs.
    task, kernel, likelihood, prior, optimizer, max_iter, random_state, device : as in every `EPClassifier`.

    Attributes
    ----------
    inducing_ : the pseudo-inputs, None if exact; a list, one per class, where there are more than two.
    """

    def _fit_binary(self, data: BinaryData, place: Place = PlacedTasks) -> PooledLabels:
        table, infer = as_task_data(data, np.array([0, len(data.y)])), self._inference()
        tasks, M = place(table.cells), len(data.labels)
        kernel, _, optimum, Z = self._learn_pooled(tasks, data.column_scales, None, infer)
        fit = condition_single(tasks, kernel, {}, at_final_tolerance(infer), Z)
        warn_ep(fit)  # type: ignore[arg-type]
        n_iter, converged = optimum.n_iter, optimum.converged
        bias, group = np.repeat(class_bias(table.cells), M), [(fit.posterior, 0)] * M
        return PooledLabels(group, bias, infer.likelihood, fit.evidence, n_iter, converged, kernel, Z)
