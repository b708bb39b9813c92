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

from borrow.covariance import Basis, SharedCovariance, choose_inducing
from borrow.covariance.shared import Prediction
from borrow.data.cells import Cells, Codes, Rows
from borrow.data.scaling import TaskData, build
from borrow.estimators.regressor import Fitted, GPRegressor, default_kernel, warn_unfinished
from borrow.inference import ExactInference, Inference, Result
from borrow.inference.hyper_uncertainty import HyperUncertainty, add_half, measure
from borrow.inference.priors import independent_priors, kernel_prior, noise_prior
from borrow.kernels import Kernel
from borrow.numerics import device as devices
from borrow.numerics.device import require
from borrow.numerics.linalg import Array, solve_lower_transposed, to_host
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Optimum, Values, bounds_around, maximise, race, with_prior

EXACT = ExactInference()
SPARSE_ABOVE = 300
PSEUDO_INPUTS = 30


def condition_single(cells: Cells, kernel: Kernel, values: Values, infer: Inference = EXACT) -> Result:
    """GP on the rows of one task; `values` holds the likelihood's parameters, if it has any."""
    prior = SharedCovariance(cells.there, cells.starts, [], [], np.zeros((1, 0)), [kernel])
    return infer(prior, cells, values)


def single_objective(cells: Cells, kernel: Kernel, infer: Inference = EXACT) -> Objective:
    """Evidence of one GP by {kernel, and the likelihood's parameters}."""
    start: Any = None

    def objective(values: Values) -> tuple[float, Values]:
        nonlocal start
        prior = SharedCovariance(
            cells.there, cells.starts, [], [], np.zeros((1, 0)), [kernel.with_theta(values["kernel"])]
        )
        fit = infer(prior, cells, values, start)
        start = fit.start
        adjoints, by_likelihood = fit.gradient()
        return fit.evidence, {"kernel": adjoints.specific[0], **by_likelihood}

    return objective


def fit_single(
    cells: Cells,
    kernel: Kernel,
    noise: float | None,
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference = EXACT,
) -> tuple[Kernel, Values, Optimum]:
    """Maximise the evidence (and the priors) of one GP: kernel, the likelihood's parameters, and how it went.

    A rough function can be taken for a smooth one and noise: a second start has a fifth of the lengthscales.
    """
    start: Values = {"kernel": kernel.theta} | ({} if noise is None else {"noise": np.log([noise])})
    rough = {**start, "kernel": start["kernel"] + np.log(0.2) * kernel.marks("lengthscale")}
    objective = single_objective(cells, kernel, infer)
    if prior is not None:
        objective = with_prior(objective, single_priors(kernel, scales, noise is not None, infer.log_variance))
    optimum = race(objective, [start, rough], bounds_of(start), max_iter)
    own = {n: v for n, v in optimum.values.items() if n != "kernel"}
    return kernel.with_theta(optimum.values["kernel"]), own, optimum


def bounds_of(start: Values) -> dict[str, tuple[Array, Array]]:
    """Wide bounds, and the floor of the noise where there is one."""
    return bounds_around(start, {"noise": float(np.log(NOISE_FLOOR))} if "noise" in start else None)


def single_priors(kernel: Kernel, scales: Array, noise: bool = True, log_variance: float = 0.0) -> Objective:
    """The priors that every GP estimator puts on its kernel and noise."""
    priors = {"kernel": kernel_prior(kernel, scales, log_variance)} | ({"noise": noise_prior(1)} if noise else {})
    return independent_priors(priors)


def condition_sparse(cells: Cells, kernel: Kernel, Z: Array, values: Values, infer: Inference = EXACT) -> Result:
    """Sparse GP on the rows of one task."""
    prior = SharedCovariance(cells.there, cells.starts, [Basis(kernel, Z)], [0], np.ones((1, 1)), [None])
    return infer(prior, cells, values)


def sparse_objective(cells: Cells, kernel: Kernel, scales: Array, infer: Inference = EXACT) -> Objective:
    """Evidence of one sparse GP by {kernel, the likelihood's parameters, Z}; Z in units of the columns' scales."""
    start: Any = None

    def objective(values: Values) -> tuple[float, Values]:
        nonlocal start
        basis = Basis(kernel.with_theta(values["kernel"]), values["Z"] * scales)
        prior = SharedCovariance(cells.there, cells.starts, [basis], [0], np.ones((1, 1)), [None])
        fit = infer(prior, cells, values, start)
        start = fit.start
        adjoints, by_likelihood = fit.gradient(inducing=True)
        by_Z = adjoints.inducing[0]
        assert by_Z is not None  # asked for
        return fit.evidence, {"kernel": adjoints.bases[0], **by_likelihood, "Z": by_Z * scales}

    return objective


def fit_sparse(
    cells: Cells,
    kernel: Kernel,
    noise: float | None,
    Z: Array,
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference = EXACT,
) -> tuple[Kernel, Values, Array, Optimum]:
    """Maximise the evidence of one sparse GP, its pseudo-inputs included."""
    start: Values = {"kernel": kernel.theta} | ({} if noise is None else {"noise": np.log([noise])}) | {"Z": Z / scales}
    objective = sparse_objective(cells, kernel, scales, infer)
    if prior is not None:
        objective = with_prior(objective, single_priors(kernel, scales, noise is not None, infer.log_variance))
    bounds = bounds_of(start)
    reach = 2.0 + np.ptp(cells.X, axis=0) / scales  # pseudo-inputs may leave the data, but not by far
    bounds["Z"] = (start["Z"] - reach, start["Z"] + reach)
    optimum = maximise(objective, start, bounds, max_iter)
    own = {n: v for n, v in optimum.values.items() if n not in ("kernel", "Z")}
    return kernel.with_theta(optimum.values["kernel"]), own, optimum.values["Z"] * scales, optimum


def measure_single(
    cells: Cells, kernel: Kernel, own: Values, scales: Array, prior: str | None, Z: Array | None = None
) -> HyperUncertainty | None:
    """How uncertain kernel and noise leave the function of one GP, exact or sparse with Z where it is."""
    log_prior = None if prior is None else single_priors(kernel, scales)

    def evaluate(values: Values) -> tuple[Values, Array]:
        at = kernel.with_theta(values["kernel"])
        fit = condition_single(cells, at, values) if Z is None else condition_sparse(cells, at, Z, values)
        adjoints, by_likelihood = fit.gradient()
        by_kernel = adjoints.specific[0] if Z is None else adjoints.bases[0]
        gradient: Values = {"kernel": by_kernel, **by_likelihood}  # type: ignore[dict-item]
        if log_prior is not None:
            gradient = {n: g + log_prior(values)[1][n] for n, g in gradient.items()}
        p = fit.posterior
        c = p.coefficients if Z is None else to_host(solve_lower_transposed(p.prior.carriers[0].L, p.a))
        return gradient, c

    return measure(evaluate, {"kernel": kernel.theta, **own}, kernel, cells.X if Z is None else Z, device=cells.device)


class SingleTaskGPRegressor(GPRegressor):
    """One GP a task, nothing shared: what transfer has to beat.

    Parameters
    ----------
    task, kernel, noise, normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`.

    Attributes
    ----------
    kernels_ : dict by label of the kernels found.
    kernel_ : that of a single task, else the same dict.
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        kernel: Any = None,
        noise: Any = None,
        normalize_y: bool | str = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 500,
        random_state: Any = 0,
        device: str = "cpu",
    ) -> None:
        self.task = task
        self.kernel = kernel
        self.noise = noise
        self.normalize_y = normalize_y
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device

    def _arrange(self, rows: Rows) -> TaskData:
        return build(rows, self.normalize_y, range(len(rows.labels)))

    def _fit(self, data: TaskData) -> Fitted:
        check_exact_memory(data.cells)
        template = default_kernel(data.column_scales, self.kernel, "kernel")
        noise = self._start_noise(data)
        kernels, n_iter, converged, evidence = [], 0, True, 0.0
        posteriors, uncertainties = [], []  # the estimator keeps none of a fit that fails
        for t, label in enumerate(data.labels):
            cells, kernel = data.cells.only(t), template
            if self.optimizer is not None and len(cells.y):
                kernel, own, optimum = fit_single(
                    cells, template, float(noise[t]), data.column_scales, self.prior, self.max_iter
                )
                noise[t] = np.exp(own["noise"][0])
                names = {"kernel": template.parameter_names(), "noise": ["noise"]}
                where = f" of task {label!r}" if len(data.labels) > 1 else ""
                names = {n: [v + where for v in vs] for n, vs in names.items()}
                warn_unfinished(self, optimum, names, single_objective(cells, kernel))
                n_iter, converged = max(n_iter, optimum.n_iter), converged and optimum.converged
            own = {"noise": np.log(noise[t : t + 1])}
            learnt = self.optimizer is not None and len(cells.y) > 0
            uncertainties.append(measure_single(cells, kernel, own, data.column_scales, self.prior) if learnt else None)
            fit = condition_single(cells, kernel, own)  # last: its matrices are kept
            kernels.append(kernel)
            posteriors.append(fit.posterior)
            evidence += fit.evidence
        self._cells, self._posteriors, self._uncertainties = data.cells, posteriors, uncertainties
        self.kernels_ = dict(zip(data.labels, kernels, strict=True))
        self.kernel_ = kernels[0] if len(kernels) == 1 else self.kernels_
        return Fitted(evidence, noise, 0.0, n_iter, converged)

    def _marginals(self) -> tuple[Cells, Array, Array]:
        mean, variance = zip(*(p.marginals() for p in self._posteriors), strict=True)
        return self._cells, np.concatenate(mean), np.concatenate(variance)

    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        covariance = np.zeros((len(X), len(X))) if full else None
        for t in np.unique(task):
            at = np.flatnonzero(task == t)
            p = self._posteriors[t].predict(X[at], np.zeros(len(at), dtype=np.intp), full)
            p = add_half(p, X[at], np.ones(len(at), dtype=bool), self._uncertainties[t])
            mean[at], variance[at] = p.mean, p.variance
            if covariance is not None:
                covariance[np.ix_(at, at)] = p.covariance
        return Prediction(mean, variance, covariance)


class PooledGPRegressor(GPRegressor):
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

    def __init__(
        self,
        task: str | int | None = None,
        *,
        kernel: Any = None,
        noise: Any = None,
        inducing: str | int | None = "auto",
        normalize_y: bool | str = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 500,
        random_state: Any = 0,
        device: str = "cpu",
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
        self.device = device

    def _arrange(self, rows: Rows) -> TaskData:
        if isinstance(self.noise, Mapping):
            raise ValueError("noise is a dict by task; a pooled GP has one noise for all rows: give a number")
        pooled = replace(rows, task=np.zeros_like(rows.task), labels=("all tasks",))
        return build(pooled, self.normalize_y)

    def _fit(self, data: TaskData) -> Fitted:
        cells, kernel = data.cells, default_kernel(data.column_scales, self.kernel, "kernel")
        noise = float(self._start_noise(data)[0])
        m = number_of_inducing(self.inducing, len(cells.y))
        names = {"kernel": kernel.parameter_names(), "noise": ["noise"]}
        own: Values = {"noise": np.log([noise])}
        optimum = self.inducing_ = None
        if m is None:
            check_exact_memory(cells)
            if self.optimizer is not None:
                kernel, own, optimum = fit_single(cells, kernel, noise, data.column_scales, self.prior, self.max_iter)
                warn_unfinished(self, optimum, names, single_objective(cells, kernel))
        else:
            Z = choose_inducing(kernel, cells.X[:0], cells.X, m, tolerance=0.0)
            if self.optimizer is not None:
                kernel, own, Z, optimum = fit_sparse(
                    cells, kernel, noise, Z, data.column_scales, self.prior, self.max_iter
                )
                names["Z"] = [f"pseudo-input {i // Z.shape[1]}" for i in range(Z.size)]
                warn_unfinished(self, optimum, names, sparse_objective(cells, kernel, data.column_scales))
            self.inducing_ = Z
        self.kernel_, self._uncertainty, self._cells = kernel, None, cells
        if optimum is not None:
            self._uncertainty = measure_single(cells, kernel, own, data.column_scales, self.prior, self.inducing_)
        # Conditioned last: those matrices are kept.
        fit = condition_single(cells, kernel, own) if m is None else condition_sparse(cells, kernel, Z, own)
        self._posterior = fit.posterior
        n_iter, converged = (0, True) if optimum is None else (optimum.n_iter, optimum.converged)
        return Fitted(fit.evidence, np.exp(own["noise"]), fit.posterior.prior.jitter, n_iter, converged)

    def _marginals(self) -> tuple[Cells, Array, Array]:
        return self._cells, *self._posterior.marginals()

    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        p = self._posterior.predict(X, np.zeros(len(X), dtype=np.intp), full)
        return add_half(p, X, np.ones(len(X), dtype=bool), self._uncertainty)


def number_of_inducing(inducing: Any, n: int) -> int | None:
    """Pseudo-inputs of a pooled GP on n rows; None is exact."""
    if isinstance(inducing, str) and inducing == "auto":
        return PSEUDO_INPUTS if n > SPARSE_ABOVE else None
    if inducing is None:
        return None
    if isinstance(inducing, (int, np.integer)) and not isinstance(inducing, bool) and inducing >= 1:
        return int(inducing)
    raise ValueError(f"inducing={inducing!r}: expected 'auto', None or a number of pseudo-inputs")


def check_exact_memory(cells: Cells) -> None:
    """Four matrices of the largest task at once: covariance, factor, adjoint and one to work in; more on a GPU."""
    n = int(np.diff(cells.starts).max())
    place = cells.device if n >= devices.ALONE_ROWS or len(cells.starts) == 2 else None
    require(
        place,
        8.0 * (4 if place is None else devices.MATRICES) * n * n,
        f"an exact GP on a task of {n:,} distinct rows",
        "thin the rows, average replicates, or use PooledGPRegressor, which is sparse",
    )
