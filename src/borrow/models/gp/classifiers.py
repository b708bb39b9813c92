"""No transfer and pooling for labels: one GP a task, or one for all rows, by EP, on the focused model's machinery."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from borrow.covariance import choose_inducing
from borrow.data.cells import Cells, Codes
from borrow.data.scaling import Scaling, TaskData
from borrow.estimators.classifier import BinaryData, BinaryModel, TaskClassifier
from borrow.estimators.regressor import check_settings, default_kernel, warn_unfinished
from borrow.inference import EP, EPInference
from borrow.inference.ep import class_bias
from borrow.inference.likelihoods import Logistic, Probit
from borrow.models.gp.regressors import (
    check_exact_memory,
    condition_single,
    condition_sparse,
    fit_single,
    fit_sparse,
    number_of_inducing,
    single_objective,
    sparse_objective,
)
from borrow.numerics.linalg import Array

#: EP stops at this residual while hyper-parameters are learnt, and at the smaller one for the fit that is kept.
#: The evidence is stationary in the sites: its error is of the order of the residual squared.
ROUGH, FINE = 1e-4, 1e-9


@dataclass(frozen=True)
class GPModel:
    """A posterior for each group of tasks, and what turns it into probabilities. `group[t]` is (posterior, code)."""

    group: list[tuple[Any, int]]
    bias: Array  # (M,)
    likelihood: Any
    evidence: float
    n_iter: int
    converged: bool

    def moments(self, X: Array, task: Codes) -> tuple[Array, Array]:
        """Mean (bias included) and variance of the latent function."""
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for t in np.unique(task):
            at = np.flatnonzero(task == t)
            posterior, code = self.group[t]
            p = posterior.predict(X[at], np.full(len(at), code, dtype=np.intp))
            mean[at], variance[at] = p.mean + self.bias[t], p.variance
        return mean, variance

    def decision(self, X: Array, task: Codes) -> Array:
        """(mean + bias) / sqrt(1 + variance): for the probit, Phi^-1 of the probability."""
        mean, variance = self.moments(X, task)
        return mean / np.sqrt(1.0 + variance)

    def probability(self, X: Array, task: Codes) -> Array:
        """P(+1), the latent function integrated out."""
        mean, variance = self.moments(X, task)
        return np.exp(self.likelihood.moments(np.ones(len(X)), mean, variance)[0])


def as_task_data(data: BinaryData, starts: Codes | None = None) -> TaskData:
    """Labels as cells of one row each; with `starts` the rows are regrouped (one group for pooling)."""
    starts = data.starts if starts is None else starts
    M, n = len(starts) - 1, len(data.y)
    zero = np.zeros(M)
    cells = Cells(data.X, data.y, np.ones(n), starts, zero, zero, zero, data.device)
    free = data.unlabelled if len(data.labels) == M else (data.X[:0],) * M
    labels = data.labels if len(data.labels) == M else tuple(range(M))
    return TaskData(labels, cells, free, Scaling(zero, np.ones(M), 0.0), data.column_scales)


def inference_of(name: Any) -> EPInference:
    """EP with the likelihood that the constructor names."""
    likelihoods = {"probit": Probit, "logistic": Logistic}
    if name not in likelihoods:
        raise ValueError(f"likelihood={name!r}: expected 'probit' or 'logistic'")
    return EPInference(likelihoods[name](), tol=ROUGH)


def finely(infer: EPInference) -> EPInference:
    """The same, for the fit that is kept."""
    return replace(infer, tol=FINE, max_sweeps=300)


def warn_ep(fit: EP, where: str = "") -> None:
    """Say it where EP did not reach its fixed point."""
    if not fit.converged:
        warnings.warn(
            f"EP{where} stopped after {fit.n_sweeps} sweeps with a residual of {fit.residual:.1e}; probabilities may "
            "be off by about that much: scale the inputs, or give a kernel with a smaller variance",
            ConvergenceWarning,
            stacklevel=5,
        )


class SingleTaskGPClassifier(TaskClassifier):
    """One GP a task by EP, nothing shared: what transfer has to beat.

    Parameters
    ----------
    task, kernel, likelihood, prior, optimizer, max_iter, random_state, device : as in every `TaskClassifier`.

    Attributes
    ----------
    kernels_ : dict by label of the kernels found; a list, one a class, where there are more than two.
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        kernel: Any = None,
        likelihood: str = "probit",
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 200,
        random_state: Any = 0,
        device: str = "cpu",
    ) -> None:
        self.task = task
        self.kernel = kernel
        self.likelihood = likelihood
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device

    def _check_settings(self) -> None:
        check_settings(self)
        inference_of(self.likelihood)

    def _fit_binary(self, data: BinaryData) -> BinaryModel:
        table, infer = as_task_data(data), inference_of(self.likelihood)
        check_exact_memory(table.cells)
        template = default_kernel(data.column_scales, self.kernel, "kernel")
        group, evidence, n_iter, converged = [], 0.0, 0, True
        for t, label in enumerate(data.labels):
            cells, kernel = table.cells.only(t), template
            if self.optimizer is not None and len(cells.y):
                kernel, _, optimum = fit_single(
                    cells, template, None, data.column_scales, self.prior, self.max_iter, infer
                )
                names = {"kernel": [f"{n} of task {label!r}" for n in template.parameter_names()]}
                warn_unfinished(self, optimum, names, single_objective(cells, kernel, infer))
                n_iter, converged = max(n_iter, optimum.n_iter), converged and optimum.converged
            fit = condition_single(cells, kernel, {}, finely(infer))
            warn_ep(fit, f" of task {label!r}")  # type: ignore[arg-type]
            group.append((fit.posterior, 0))
            evidence += fit.evidence
        return GPModel(group, class_bias(table.cells), infer.likelihood, evidence, n_iter, converged)

    def _after_fit(self, models: list[Any]) -> None:
        labels = self._schema.labels
        publish(self, models)
        kernels = [{k: p.prior.specific[c] for k, (p, c) in zip(labels, m.group, strict=True)} for m in models]
        self.kernels_ = kernels[0] if len(kernels) == 1 else kernels


class PooledGPClassifier(TaskClassifier):
    """One GP for all rows as if they were one task's, by EP; sparse with 30 learnt pseudo-inputs above 300 rows.

    Parameters
    ----------
    inducing : "auto" (as above), None (exact always) or a number of pseudo-inputs.
    task, kernel, likelihood, prior, optimizer, max_iter, random_state, device : as in every `TaskClassifier`.

    Attributes
    ----------
    inducing_ : the pseudo-inputs, None if exact; a list, one a class, where there are more than two.
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        kernel: Any = None,
        likelihood: str = "probit",
        inducing: str | int | None = "auto",
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 200,
        random_state: Any = 0,
        device: str = "cpu",
    ) -> None:
        self.task = task
        self.kernel = kernel
        self.likelihood = likelihood
        self.inducing = inducing
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device

    def _check_settings(self) -> None:
        check_settings(self)
        inference_of(self.likelihood)

    def _fit_binary(self, data: BinaryData) -> BinaryModel:
        table, infer = as_task_data(data, np.array([0, len(data.y)])), inference_of(self.likelihood)
        cells, scales = table.cells, data.column_scales
        kernel = default_kernel(scales, self.kernel, "kernel")
        m = number_of_inducing(self.inducing, len(cells.y))
        names = {"kernel": kernel.parameter_names()}
        optimum = None
        if m is None:
            check_exact_memory(cells)
            if self.optimizer is not None:
                kernel, _, optimum = fit_single(cells, kernel, None, scales, self.prior, self.max_iter, infer)
                warn_unfinished(self, optimum, names, single_objective(cells, kernel, infer))
            fit = condition_single(cells, kernel, {}, finely(infer))
        else:
            Z = choose_inducing(kernel, cells.X[:0], cells.X, m, tolerance=0.0)
            if self.optimizer is not None:
                kernel, _, Z, optimum = fit_sparse(cells, kernel, None, Z, scales, self.prior, self.max_iter, infer)
                names["Z"] = [f"pseudo-input {i // Z.shape[1]}" for i in range(Z.size)]
                warn_unfinished(self, optimum, names, sparse_objective(cells, kernel, scales, infer))
            fit = condition_sparse(cells, kernel, Z, {}, finely(infer))
        warn_ep(fit)  # type: ignore[arg-type]
        M = len(data.labels)
        n_iter, converged = (0, True) if optimum is None else (optimum.n_iter, optimum.converged)
        bias = np.repeat(class_bias(cells), M)
        return GPModel([(fit.posterior, 0)] * M, bias, infer.likelihood, fit.evidence, n_iter, converged)

    def _after_fit(self, models: list[Any]) -> None:
        publish(self, models)
        kernels, inducing = [], []
        for m in models:
            prior = m.group[0][0].prior
            kernels.append(prior.carriers[0].basis.kernel if prior.carriers else prior.specific[0])
            inducing.append(prior.carriers[0].basis.Z if prior.carriers else None)
        self.kernel_ = kernels[0] if len(kernels) == 1 else kernels
        self.inducing_ = inducing[0] if len(inducing) == 1 else inducing


def publish(estimator: Any, models: list[Any]) -> None:
    """What all GP classifiers publish; lists where there are more than two classes."""
    labels = estimator._schema.labels
    bias = [dict(zip(labels, m.bias.tolist(), strict=True)) for m in models]
    estimator.bias_ = bias[0] if len(bias) == 1 else bias
    estimator.log_marginal_likelihood_ = float(sum(m.evidence for m in models))
    estimator.n_iter_ = max(max(m.n_iter for m in models), 1)
    estimator.converged_ = all(m.converged for m in models)
