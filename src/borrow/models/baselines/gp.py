"""No transfer and pooling, on the machinery of the focused model, so that comparisons compare models and not code.

`SingleTaskGPRegressor`: one exact GP a task, nothing shared, not even hyper-parameters.
`PooledGPRegressor`: one GP for all rows, whatever their task; above 300 rows sparse with 30 learnt pseudo-inputs, as
in Leen, Peltonen & Kaski (2011), section 5.2. That sparse GP is the shared covariance with one task and no specific
kernel, its inducing inputs moved by the gradient of the evidence (Snelson & Ghahramani 2006).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from borrow import memory
from borrow.covariance import Basis, SharedCovariance, choose_inducing
from borrow.covariance.shared import Prediction
from borrow.data import Cells, Codes, Rows, TaskData, build
from borrow.hyper import (
    NOISE_FLOOR,
    Objective,
    Optimum,
    Values,
    bounds_around,
    independent_priors,
    kernel_prior,
    maximise,
    noise_prior,
    race,
    with_prior,
)
from borrow.inference import Exact, exact
from borrow.kernels import Kernel
from borrow.likelihoods import Gaussian
from borrow.linalg import Array
from borrow.models.estimator import Fitted, GPRegressor, warn_unfinished

SPARSE_ABOVE = 300
PSEUDO_INPUTS = 30


def condition_single(cells: Cells, kernel: Kernel, noise: Array) -> Exact:
    """Exact GP on the rows of one task."""
    prior = SharedCovariance(cells.X, cells.starts, [], [], np.zeros((1, 0)), [kernel])
    return exact(prior, Gaussian(cells, noise))


def single_objective(cells: Cells, kernel: Kernel) -> Objective:
    """Evidence of one GP by {kernel, noise}."""

    def objective(values: Values) -> tuple[float, Values]:
        fit = condition_single(cells, kernel.with_theta(values["kernel"]), np.exp(values["noise"]))
        adjoints, by_noise = fit.gradient()
        return fit.evidence, {"kernel": adjoints.specific[0], "noise": by_noise}  # type: ignore[dict-item]

    return objective


def fit_single(
    cells: Cells, kernel: Kernel, noise: float, scales: Array, prior: str | None, max_iter: int
) -> tuple[Kernel, float, Optimum]:
    """Maximise the evidence (and the priors) of one GP: kernel, noise variance, and how it went.

    A rough function can be taken for a smooth one and noise: a second start has a fifth of the lengthscales.
    """
    start: Values = {"kernel": kernel.theta, "noise": np.log([noise])}
    rough = {**start, "kernel": start["kernel"] + np.log(0.2) * kernel.marks("lengthscale")}
    objective = with_prior(single_objective(cells, kernel), single_priors(kernel, scales) if prior else None)
    bounds = bounds_around(start, {"noise": np.log(NOISE_FLOOR)})
    optimum = race(objective, [start, rough], bounds, max_iter)
    return kernel.with_theta(optimum.values["kernel"]), float(np.exp(optimum.values["noise"][0])), optimum


def single_priors(kernel: Kernel, scales: Array) -> Objective:
    """The priors that every GP estimator puts on its kernel and noise."""
    return independent_priors({"kernel": kernel_prior(kernel, scales), "noise": noise_prior(1)})


def condition_sparse(cells: Cells, kernel: Kernel, Z: Array, noise: Array) -> Exact:
    """Sparse GP on the rows of one task."""
    prior = SharedCovariance(cells.X, cells.starts, [Basis(kernel, Z)], [0], np.ones((1, 1)), [None])
    return exact(prior, Gaussian(cells, noise))


def sparse_objective(cells: Cells, kernel: Kernel, scales: Array) -> Objective:
    """Evidence of one sparse GP by {kernel, noise, Z}; Z in units of the columns' scales."""

    def objective(values: Values) -> tuple[float, Values]:
        fit = condition_sparse(
            cells, kernel.with_theta(values["kernel"]), values["Z"] * scales, np.exp(values["noise"])
        )
        adjoints, by_noise = fit.gradient(inducing=True)
        by_Z = adjoints.inducing[0]
        assert by_Z is not None  # asked for
        return fit.evidence, {"kernel": adjoints.bases[0], "noise": by_noise, "Z": by_Z * scales}

    return objective


class SingleTaskGPRegressor(GPRegressor):
    """One GP a task, nothing shared: what transfer has to beat.

    Parameters are those common to all GP estimators: `task` (column of X), `kernel`, `noise` (variance in the units of
    y, a number or a dict by label), `normalize_y`, `prior` ("auto" or None), `optimizer` ("lbfgs" or None), `max_iter`,
    `random_state`. Fitted: `kernels_` (dict by label), `kernel_` (that of a single task, else the same dict).
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        kernel: Any = None,
        noise: Any = None,
        normalize_y: bool = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 500,
        random_state: Any = 0,
    ) -> None:
        self.task = task
        self.kernel = kernel
        self.noise = noise
        self.normalize_y = normalize_y
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.random_state = random_state

    def _arrange(self, rows: Rows) -> TaskData:
        return build(rows, self.normalize_y, range(len(rows.labels)))

    def _fit(self, data: TaskData) -> Fitted:
        check_exact_memory(data.cells)
        template = self._default_kernel(data, self.kernel, "kernel")
        noise = self._start_noise(data)
        kernels, n_iter, converged, evidence = [], 0, True, 0.0
        self._posteriors = []
        for t, label in enumerate(data.labels):
            cells, kernel = data.cells.only(t), template
            if self.optimizer is not None and len(cells.y):
                kernel, noise[t], optimum = fit_single(
                    cells, template, float(noise[t]), data.column_scales, self.prior, self.max_iter
                )
                names = {"kernel": template.parameter_names(), "noise": ["noise"]}
                where = f" of task {label!r}" if len(data.labels) > 1 else ""
                names = {n: [v + where for v in vs] for n, vs in names.items()}
                warn_unfinished(self, optimum, names, single_objective(cells, kernel))
                n_iter, converged = max(n_iter, optimum.n_iter), converged and optimum.converged
            fit = condition_single(cells, kernel, noise[t : t + 1])
            kernels.append(kernel)
            self._posteriors.append(fit.posterior)
            evidence += fit.evidence
        self.kernels_ = dict(zip(data.labels, kernels, strict=True))
        self.kernel_ = kernels[0] if len(kernels) == 1 else self.kernels_
        return Fitted(evidence, noise, 0.0, n_iter, converged)

    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        covariance = np.zeros((len(X), len(X))) if full else None
        for t in np.unique(task):
            at = np.flatnonzero(task == t)
            p = self._posteriors[t].predict(X[at], np.zeros(len(at), dtype=np.intp), full)
            mean[at], variance[at] = p.mean, p.variance
            if covariance is not None:
                covariance[np.ix_(at, at)] = p.covariance
        return Prediction(mean, variance, covariance)


class PooledGPRegressor(GPRegressor):
    """One GP for the rows of all tasks as if they were one; sparse with 30 learnt pseudo-inputs above 300 rows.

    Targets are centred and scaled once for all rows. Parameters as in `SingleTaskGPRegressor`, plus `inducing`:
    "auto" (as above), None (exact always) or a number of pseudo-inputs. Fitted: `kernel_`, `inducing_` (None if exact).
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        kernel: Any = None,
        noise: Any = None,
        inducing: str | int | None = "auto",
        normalize_y: bool = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 500,
        random_state: Any = 0,
    ) -> None:
        self.task = task
        self.kernel = kernel
        self.noise = noise
        self.inducing = inducing
        self.normalize_y = normalize_y
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.random_state = random_state

    def _arrange(self, rows: Rows) -> TaskData:
        if isinstance(self.noise, Mapping):
            raise ValueError("noise is a dict by task; a pooled GP has one noise for all rows: give a number")
        pooled = replace(rows, task=np.zeros_like(rows.task), labels=("all tasks",))
        return build(pooled, self.normalize_y)

    def _fit(self, data: TaskData) -> Fitted:
        cells, kernel = data.cells, self._default_kernel(data, self.kernel, "kernel")
        noise = float(self._start_noise(data)[0])
        m = self._number_of_inducing(len(cells.y))
        names = {"kernel": kernel.parameter_names(), "noise": ["noise"]}
        n_iter, converged = 0, True
        if m is None:
            check_exact_memory(cells)
            if self.optimizer is not None:
                kernel, noise, optimum = fit_single(cells, kernel, noise, data.column_scales, self.prior, self.max_iter)
                warn_unfinished(self, optimum, names, single_objective(cells, kernel))
                n_iter, converged = optimum.n_iter, optimum.converged
            self.inducing_ = None
            fit = condition_single(cells, kernel, np.array([noise]))
        else:
            Z = choose_inducing(kernel, cells.X[:0], cells.X, m, tolerance=0.0)
            if self.optimizer is not None:
                kernel, noise, Z, optimum = self._fit_sparse(data, kernel, noise, Z)
                names["Z"] = [f"pseudo-input {i // Z.shape[1]}" for i in range(Z.size)]
                warn_unfinished(self, optimum, names, sparse_objective(cells, kernel, data.column_scales))
                n_iter, converged = optimum.n_iter, optimum.converged
            self.inducing_ = Z
            fit = condition_sparse(cells, kernel, Z, np.array([noise]))
        self.kernel_, self._posterior = kernel, fit.posterior
        return Fitted(fit.evidence, np.array([noise]), fit.posterior.prior.jitter, n_iter, converged)

    def _fit_sparse(
        self, data: TaskData, kernel: Kernel, noise: float, Z: Array
    ) -> tuple[Kernel, float, Array, Optimum]:
        scales, cells = data.column_scales, data.cells
        start: Values = {"kernel": kernel.theta, "noise": np.log([noise]), "Z": Z / scales}
        objective = with_prior(
            sparse_objective(cells, kernel, scales), single_priors(kernel, scales) if self.prior else None
        )
        bounds = bounds_around(start, {"noise": np.log(NOISE_FLOOR)})
        reach = 2.0 + np.ptp(cells.X, axis=0) / scales  # pseudo-inputs may leave the data, but not by far
        bounds["Z"] = (start["Z"] - reach, start["Z"] + reach)
        optimum = maximise(objective, start, bounds, self.max_iter)
        v = optimum.values
        return kernel.with_theta(v["kernel"]), float(np.exp(v["noise"][0])), v["Z"] * scales, optimum

    def _number_of_inducing(self, n: int) -> int | None:
        if self.inducing == "auto":
            return PSEUDO_INPUTS if n > SPARSE_ABOVE else None
        if self.inducing is None:
            return None
        if isinstance(self.inducing, (int, np.integer)) and self.inducing >= 1:
            return int(self.inducing)
        raise ValueError(f"inducing={self.inducing!r}: expected 'auto', None or a number of pseudo-inputs")

    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        return self._posterior.predict(X, np.zeros(len(X), dtype=np.intp), full)


def check_exact_memory(cells: Cells) -> None:
    """Four matrices of the largest task at once: covariance, factor, adjoint and one to work in."""
    n = int(np.diff(cells.starts).max())
    memory.require(
        8.0 * 4 * n * n,
        f"an exact GP on a task of {n:,} distinct rows",
        "thin the rows, average replicates, or use PooledGPRegressor, which is sparse",
    )
