"""The regressor on the focused model: validate, call, store, warn. The paper is in `focused.py`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from borrow.covariance.shared import Prediction
from borrow.covariance.spread import Spread, detached
from borrow.data.cells import Cells, Codes
from borrow.data.scaling import TaskData
from borrow.data.table import Table
from borrow.estimators.regressor import Fitted, GPRegressor, single_thread, warn_unfinished
from borrow.inference.hyper_uncertainty import add_half
from borrow.models.focused.model import (
    check_memory,
    condition,
    measure_uncertainty,
    objective_of,
    parameter_names,
    prepare,
    primary_code,
    weight_sd,
)
from borrow.models.focused.relatedness import relatedness
from borrow.models.focused.search import Settings, optimise, with_inducing
from borrow.numerics.linalg import Array

log = logging.getLogger("borrow")


class FocusedGPRegressor(GPRegressor):
    """Learn a primary task with the help of secondary ones: y_t = rho_t f_primary + a function of its own + noise.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    primary : label of the task that matters; may be left out only when there is a single task.
    kernel : kernel of the primary's function; default squared exponential with one lengthscale a column.
    specific_kernel : kernel of what a secondary does not share; one for all or a dict by label (None: no such part);
        default squared exponential plus a constant.
    rho, noise : starting values (the values, with `optimizer=None`); a number or a dict by label. Noise variances are
        in the units of y; rho and kernel variances refer to scaled targets.
    inducing : "auto", "primary" (the paper's), a number of inputs, or an array of them.
    rho_prior : "auto" is N(0, 1) on rho sqrt(variance), a number is another standard deviation, None is no prior.
    background : number of functions shared among the secondaries but not with the primary.
    workers : None fits in this process; a number of processes, or "dask" for the workers of the current Dask client:
        tasks are spread over them, the answer is the same (docs/large.md).
    n_restarts : further starts, with the signs of rho flipped at random.
    normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`.

    Attributes
    ----------
    rho_ : dict by label: how much of the primary's function a task carries, for scaled targets; 1 for the primary.
    specific_kernels_ : dict by label of the kernels of what a secondary does not share.
    inducing_ : inputs on which the shared function is carried.
    background_ : dict by label of loadings on the background functions.
    """

    def __init__(
        self,
        task: str | int | None = None,
        primary: Any = None,
        *,
        kernel: Any = None,
        specific_kernel: Any = None,
        rho: Any = None,
        noise: Any = None,
        inducing: Any = "auto",
        rho_prior: Any = "auto",
        background: int = 0,
        normalize_y: bool | str = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 500,
        n_restarts: int = 1,
        random_state: Any = 0,
        device: str = "cpu",
        workers: Any = None,
    ) -> None:
        self.task = task
        self.primary = primary
        self.kernel = kernel
        self.specific_kernel = specific_kernel
        self.rho = rho
        self.noise = noise
        self.inducing = inducing
        self.rho_prior = rho_prior
        self.background = background
        self.normalize_y = normalize_y
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.random_state = random_state
        self.device = device
        self.workers = workers

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int:
        return primary_code(self.primary, labels)

    def _fit(self, data: TaskData) -> Fitted:
        spread: Spread | None = data.spread
        primary = self._primary_code(data.labels)
        setup, values = prepare(data, primary, self.kernel, self.specific_kernel, self.rho, self.background)
        values["noise"] = np.log(self._start_noise(data))
        setup = with_inducing(self.inducing, data, replace(setup, spread=spread), values)
        check_memory(setup)
        optimum, scales = None, data.column_scales
        if self.optimizer is not None:
            setup, values, optimum = optimise(data, setup, values, self._settings(), self.rho is not None)
            objective = objective_of(setup, scales, self.prior, weight_sd(self.rho_prior))
            warn_unfinished(self, optimum, parameter_names(data.labels, setup, self.background), objective)
        fit = condition(values, setup)
        self._uncertainty = None
        if optimum is not None:
            self._uncertainty = measure_uncertainty(setup, values, scales, self.prior, weight_sd(self.rho_prior))
        self._posterior = detached(fit.posterior)
        setup = replace(setup, spread=None)
        self._setup, self._values, self._scales = setup, values, scales
        self._publish(data.labels)
        if len(setup.secondaries) and not len(setup.cells.y[setup.cells.of(setup.primary)]):
            warnings.warn(
                f"the primary task {data.labels[setup.primary]!r} has no labelled row: it is predicted from the other "
                "tasks alone, in their average units, and the sign of each relation is an assumption",
                UserWarning,
                stacklevel=3,
            )
        jitter = fit.posterior.prior.jitter
        if jitter > 0:
            log.info("relative jitter %g was added to the covariance of the inducing inputs", jitter)
        n_iter, converged = (0, True) if optimum is None else (max(optimum.n_iter, 1), optimum.converged)
        return Fitted(fit.evidence, np.exp(values["noise"]), jitter, n_iter, converged)

    def _settings(self) -> Settings:
        sd = weight_sd(self.rho_prior)
        return Settings(self.inducing, self.prior, sd, self.max_iter, self.n_restarts, self.random_state)

    def _publish(self, labels: tuple[Hashable, ...]) -> None:
        prior, setup = self._posterior.prior, self._setup
        self.kernel_ = prior.carriers[0].basis.kernel
        self.inducing_ = setup.Z
        self.rho_ = dict(zip(labels, prior.weights[:, 0].tolist(), strict=True))
        self.specific_kernels_ = {labels[t]: prior.specific[t] for t in setup.secondaries}
        self.background_ = {labels[t]: prior.weights[t, 1:].tolist() for t in setup.secondaries}

    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        return add_half(self._posterior.predict(X, task, full), X, task == self._setup.primary, self._uncertainty)

    def _marginals(self) -> tuple[Cells, Array, Array]:
        return self._setup.cells, *self._posterior.marginals()

    def relatedness(self) -> Table:
        """One row a task: rho, its standard error, correlation with the primary, share of its variance that is shared.

        The standard error comes from the curvature of what was maximised, at the optimum. `share` is the part of the
        function's prior variance that comes from the primary's function (noise left out); `correlation` is the prior
        correlation of the two functions at the same input.
        """
        check_is_fitted(self)
        known = None if self._uncertainty is None else self._uncertainty.curvature
        objective = objective_of(self._setup, self._scales, self.prior, weight_sd(self.rho_prior))
        with single_thread(int(np.diff(self._setup.cells.starts).max())):
            return relatedness(self._setup, self._values, self._posterior, objective, self._schema.labels, known)
