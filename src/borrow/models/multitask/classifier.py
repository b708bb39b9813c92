"""The symmetric model for labels: probit likelihood with a bias a task, by EP. The paper is in `multitask.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.estimators.classifier import BinaryData, TaskClassifier
from borrow.estimators.gp import check_settings, warn_unfinished
from borrow.inference.ep import class_bias
from borrow.models.gp.classifiers import GPModel, as_task_data, finely, inference_of, publish, warn_ep
from borrow.models.multitask.model import (
    Setup,
    condition,
    objective_of,
    optimise,
    parameter_names,
)
from borrow.models.multitask.task_settings import features_of, prepare
from borrow.numerics.optimise import Values


@dataclass(frozen=True)
class MultiTaskModel(GPModel):
    """A fitted binary model, with what was learnt."""

    setup: Setup
    values: Values


class MultiTaskGPClassifier(TaskClassifier):
    """Predict labels of all tasks together: p(y) = Phi(y (f_t + b_t)), cov(f_t(x), f_t'(x')) = K^f[t, t'] k(x, x').

    The bias b_t of task t is Phi^-1(share of positives), the share kept in [.02, .98].

    Parameters
    ----------
    kernel, task_covariance, rank, diagonal, intercept, specific_kernel : as in `MultiTaskGPRegressor`.
    task_prior, task_features, task_kernel, inducing : as there; `task_features` is a dict by label.
    task, likelihood, prior, optimizer, max_iter, random_state, device : as in every `TaskClassifier`.

    Attributes
    ----------
    task_covariance_, path_, inducing_ : as in `MultiTaskGPRegressor`; lists, one a class, where there are more
        than two.
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        kernel: Any = None,
        task_covariance: Any = "free",
        rank: int | None = None,
        diagonal: str = "none",
        intercept: bool = False,
        specific_kernel: Any = None,
        task_prior: Any = "auto",
        task_features: Any = None,
        task_kernel: Any = None,
        inducing: Any = None,
        likelihood: str = "probit",
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 200,
        random_state: Any = 0,
        device: str = "cpu",
    ) -> None:
        self.task = task
        self.kernel = kernel
        self.task_covariance = task_covariance
        self.rank = rank
        self.diagonal = diagonal
        self.intercept = intercept
        self.specific_kernel = specific_kernel
        self.task_prior = task_prior
        self.task_features = task_features
        self.task_kernel = task_kernel
        self.inducing = inducing
        self.likelihood = likelihood
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device

    def _check_settings(self) -> None:
        check_settings(self)
        inference_of(self.likelihood)
        if self.task_features is not None and not isinstance(self.task_features, Mapping):
            raise ValueError("task_features: expected a dict from task label to numbers")
        if self.task_kernel is not None and self.task_features is None:
            raise ValueError("task_kernel= is a kernel on task features; give task_features= too")

    def _fit_binary(self, data: BinaryData) -> MultiTaskModel:
        table, infer, scales = as_task_data(data), inference_of(self.likelihood), data.column_scales
        setup, values = prepare(self, table, features_of(self.task_features, data.labels, None), infer, merged=False)
        n_iter, converged = 0, True
        if self.optimizer is not None:
            optimum = optimise(setup, values, scales, self.prior, self.max_iter)
            objective = objective_of(setup, scales, self.prior)
            warn_unfinished(self, optimum, parameter_names(data.labels, setup), objective)
            values, n_iter, converged = optimum.values, optimum.n_iter, optimum.converged
        else:
            values = {**setup.form.start(np.eye(setup.M)), **values}
        fit = condition(values, replace(setup, infer=finely(infer)))
        warn_ep(fit)  # type: ignore[arg-type]
        group = [(fit.posterior, t) for t in range(len(data.labels))]
        bias = class_bias(table.cells)
        return MultiTaskModel(group, bias, infer.likelihood, fit.evidence, n_iter, converged, setup, values)

    def _after_fit(self, models: list[Any]) -> None:
        publish(self, models)
        found = {
            "kernel_": [m.setup.kernel.with_theta(m.values["kernel"]) for m in models],
            "task_covariance_": [m.setup.form.parts(m.values).B for m in models],
            "path_": [m.setup.path for m in models],
            "inducing_": [m.setup.Z for m in models],
        }
        for name, values in found.items():
            setattr(self, name, values[0] if len(values) == 1 else values)
