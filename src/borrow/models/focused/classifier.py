"""The focused model for labels: probit likelihood with a bias a task, by EP (Leen et al. 2011, secs. 2.4, 5.2)."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from borrow.covariance import SharedPosterior
from borrow.data.table import Table
from borrow.estimators.classifier import BinaryData, TaskClassifier
from borrow.estimators.regressor import check_settings, single_thread, warn_unfinished
from borrow.inference.ep import class_bias
from borrow.models.focused.model import (
    Setup,
    check_memory,
    condition,
    objective_of,
    parameter_names,
    prepare,
    primary_code,
    weight_sd,
)
from borrow.models.focused.relatedness import relatedness
from borrow.models.focused.search import Settings, optimise, with_inducing
from borrow.models.gp.classifiers import GPModel, as_task_data, finely, inference_of, publish, warn_ep
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.placed import PlacedTasks


@dataclass(frozen=True)
class FocusedModel(GPModel):
    """A fitted binary model, with what `relatedness` needs."""

    setup: Setup
    values: Values
    scales: Array
    posterior: SharedPosterior


class FocusedGPClassifier(TaskClassifier):
    """Predict labels of the primary task with the help of others: p(y) = Phi(y (rho_t f_primary + own_t + b_t)).

    The bias b_t of task t is Phi^-1(share of positives), the share kept in [.02, .98].
    Unlike in regression no relation is dropped: the prior on rho sqrt(variance) shrinks those that do not help; and
    `inducing="auto"` is the primary's inputs alone where 100 do not cover those of all tasks.

    Parameters
    ----------
    primary, kernel, specific_kernel, rho, inducing, rho_prior, background, n_restarts : as in `FocusedGPRegressor`.
    workers : as in `FocusedGPRegressor`.
    task, likelihood, prior, optimizer, max_iter, random_state, device : as in every `TaskClassifier`.

    Attributes
    ----------
    rho_, specific_kernels_, inducing_ : as in `FocusedGPRegressor`; lists, one a class, where there are more than two.
    """

    def __init__(
        self,
        task: str | int | None = None,
        primary: Any = None,
        *,
        kernel: Any = None,
        specific_kernel: Any = None,
        rho: Any = None,
        inducing: Any = "auto",
        rho_prior: Any = "auto",
        background: int = 0,
        likelihood: str = "probit",
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 200,
        n_restarts: int = 0,
        random_state: Any = 0,
        device: str = "cpu",
        workers: Any = None,
    ) -> None:
        self.task = task
        self.primary = primary
        self.kernel = kernel
        self.specific_kernel = specific_kernel
        self.rho = rho
        self.inducing = inducing
        self.rho_prior = rho_prior
        self.background = background
        self.likelihood = likelihood
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state
        self.device = device
        self.workers = workers

    def _check_settings(self) -> None:
        check_settings(self)
        inference_of(self.likelihood)

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int:
        return primary_code(self.primary, labels)

    def _fit_binary(self, data: BinaryData) -> FocusedModel:
        table, infer, sd = as_task_data(data), inference_of(self.likelihood), weight_sd(self.rho_prior)
        primary = self._primary_code(data.labels)
        setup, values = prepare(table, primary, self.kernel, self.specific_kernel, self.rho, self.background, infer)
        setup = replace(setup, tasks=PlacedTasks(table.cells, data.workers))
        setup = with_inducing(self.inducing, table, setup, values)
        check_memory(setup)
        n_iter, converged = 0, True
        if self.optimizer is not None:
            how = Settings(self.inducing, self.prior, sd, self.max_iter, self.n_restarts, self.random_state)
            setup, values, optimum = optimise(table, setup, values, how, self.rho is not None)
            objective = objective_of(setup, data.column_scales, self.prior, sd)
            warn_unfinished(self, optimum, parameter_names(data.labels, setup, self.background), objective)
            n_iter, converged = optimum.n_iter, optimum.converged
        fit = condition(values, replace(setup, infer=finely(infer)))
        warn_ep(fit)  # type: ignore[arg-type]
        if len(setup.secondaries) and not len(setup.cells.y[setup.cells.of(primary)]):
            warnings.warn(
                f"the primary task {data.labels[primary]!r} has no labelled row: it is predicted from the other tasks "
                "alone, with even odds where they say nothing, and the sign of each relation is an assumption",
                UserWarning,
                stacklevel=4,
            )
        group = [(fit.posterior, t) for t in range(len(data.labels))]
        bias = class_bias(table.cells)
        return FocusedModel(
            group,
            bias,
            infer.likelihood,
            fit.evidence,
            n_iter,
            converged,
            setup,
            values,
            data.column_scales,
            fit.posterior,
        )

    def _after_fit(self, models: list[Any]) -> None:
        labels = self._schema.labels
        publish(self, models)
        priors = [m.posterior.prior for m in models]
        found = {
            "kernel_": [p.carriers[0].basis.kernel for p in priors],
            "inducing_": [m.setup.Z for m in models],
            "rho_": [dict(zip(labels, p.weights[:, 0].tolist(), strict=True)) for p in priors],
            "specific_kernels_": [
                {labels[t]: p.specific[t] for t in m.setup.secondaries} for m, p in zip(models, priors, strict=True)
            ],
        }
        for name, values in found.items():
            setattr(self, name, values[0] if len(values) == 1 else values)

    def relatedness(self) -> Any:
        """One row a task, as for the regressor; a list of tables where there are more than two classes."""
        check_is_fitted(self, "classes_")
        tables: list[Table] = []
        models: list[Any] = self._models
        for m in models:
            objective = objective_of(m.setup, m.scales, self.prior, weight_sd(self.rho_prior))
            with single_thread(len(m.setup.cells.y)):
                tables.append(relatedness(m.setup, m.values, m.posterior, objective, self._schema.labels))
        return tables[0] if len(tables) == 1 else tables
