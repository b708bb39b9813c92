"""Fitting the hierarchical GP to a pool of inputs, and what the fit can answer: tasks seen, and a task never seen.

The parameters of the base kernel are learnt first, from the tasks as independent functions of one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from borrow.covariance import Prediction, SharedCovariance, evidence_of_rows
from borrow.covariance.contracts import rows_by_task
from borrow.data.cells import Cells, Codes, thin
from borrow.data.read import Pool
from borrow.data.scaling import TaskData
from borrow.data.table import Table
from borrow.estimators.gp import default_kernel
from borrow.inference import priors
from borrow.inference.exact import exact
from borrow.inference.hyper_uncertainty import OtherModel, stretch_of_tasks, stretched
from borrow.inference.likelihoods import Gaussian
from borrow.kernels import Kernel, LearnedKernel, Linear, resolve
from borrow.models.gp.own import averaged, averaged_noise, own_models, shared_probability, with_own_gp
from borrow.models.hierarchical.basis import Basis, GroupShard, basis_of, in_groups, is_linear
from borrow.models.hierarchical.model import (
    Problem,
    State,
    Strengths,
    arrange,
    coefficients,
    expect,
    extended,
    functions,
    learned_kernel,
    marginals,
    posterior_at,
    prior_at,
    start,
    sum_of_squares,
    with_exact_mean,
)
from borrow.models.hierarchical.search import (
    MEANS,
    NOISES,
    TAUS,
    Choice,
    Step,
    choose,
    few_of,
    fit_em,
    hold_out,
    log_density,
    path,
    ranking_or_density,
)
from borrow.numerics import memory
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import (
    Array,
    add_diagonal,
    cholesky,
    column_dots,
    solve,
    solve_lower,
    to_host,
)
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Values
from borrow.numerics.stored import stored
from borrow.tasks.contracts import Shard, Tasks
from borrow.tasks.placed import TaskShard

#: The most rows of each task that the base kernel's parameters are learnt from.
ROWS_FOR_KERNEL = 500
#: The most iterations of the optimiser.
MAX_ITER = 200


def takes_sparse(given: Any) -> bool:
    """Whether a base kernel, or the default, is one for sparse tables."""
    return given is None or isinstance(given, LearnedKernel) or (isinstance(given, Kernel) and is_linear(given))


def base_kernel_of(given: Any, X: Any, scales: Array) -> Kernel:
    """The kernel given; without one a squared exponential, or a linear one for sparse inputs."""
    if not sparse.issparse(X):
        return default_kernel(scales, deepcopy(given), "base_kernel", tied=True)  # a copy: kernels remember sizes
    if given is None:
        return Linear(1.0 / max(float(X.multiply(X).sum()) / X.shape[0], 1e-300))
    kernel = deepcopy(resolve(given, "base_kernel"))
    if not takes_sparse(kernel):
        raise ValueError(
            f"base_kernel={kernel!r} needs dense inputs and X is sparse; give borrow.kernels.Linear(), with a "
            "Constant added for an offset, or X.toarray()"
        )
    return kernel


def base_objective(kernel: Kernel, X: Any, tasks: Tasks[Any]) -> Objective:
    """log evidence of all tasks as independent functions of one kernel and noise: K = kappa, mu = 0."""
    cells, in_blocks = thin(tasks.cells, ROWS_FOR_KERNEL), tasks.batched and not sparse.issparse(X)
    if in_blocks:
        tasks = tasks.with_cells(replace(cells, X=X[cells.X[:, 0].astype(np.intp)]))
    else:
        tasks = tasks.with_cells(cells, lambda own, _: in_groups(own))

    def objective(values: Values) -> tuple[float, Values]:
        at, noise = kernel.with_theta(values["kernel"]), float(np.exp(values["noise"][0]))
        found = _by_blocks(tasks, at, noise) if in_blocks else tasks.total(_independent, (at, noise, X))
        total, by_theta, by_noise = found
        return total, {"kernel": by_theta, "noise": np.array([by_noise])}

    return objective


def _independent(shard: GroupShard, common: tuple[Kernel, float, Any]) -> tuple[float, Array, float]:
    """The evidence of a shard's tasks, by the kernel's theta and by log noise; tasks of equal rows at once."""
    kernel, noise, X = common
    (total, by_noise), by_theta = shard.log_noise_density(noise), np.zeros(kernel.n_theta)
    for g in shard.groups:
        value, own, by_variance = evidence_of_rows(kernel, X[g.seen.at], g.count / noise, g.Y)
        total, by_theta = total + value, by_theta + own
        by_noise += float(by_variance @ g.sites(noise))
    return total, by_theta, by_noise


def _by_blocks(tasks: Tasks[Shard], kernel: Kernel, noise: float) -> tuple[float, Array, float]:
    """The same of all tasks, those of about one size in one block."""
    M = tasks.cells.n_tasks
    prior = SharedCovariance(tasks, [], [], np.zeros((M, 0)), [kernel] * M)
    fit = exact(prior, Gaussian(tasks.cells, np.full(M, noise)))
    adjoints, by = fit.gradient()
    theta = sum((g for g in adjoints.specific if g is not None), np.zeros(kernel.n_theta))
    return fit.evidence, theta, float(by["noise"].sum())


def fit_base(
    kernel: Kernel, noise: float, scales: Array, prior: str | None, objective: Objective
) -> tuple[Kernel, float]:
    """Kernel parameters and noise that explain the tasks as independent functions."""
    begin: Values = {"kernel": kernel.theta, "noise": np.log([noise])}
    lengthscales = kernel.mask_of("lengthscale")
    rough = {**begin, "kernel": begin["kernel"] + np.log(0.2) * lengthscales}
    if prior is not None:
        on: dict[str, priors.Prior] = {"kernel": priors.kernel_prior(kernel, scales), "noise": priors.noise_prior()}
        objective = hyper.with_prior(objective, priors.independent_priors(on))
    bounds = hyper.bounds_around(begin, {"noise": float(np.log(NOISE_FLOOR))})
    starts = [begin, rough] if lengthscales.any() else [begin]
    optimum = hyper.QuasiNewton(objective).maximise_from(starts, bounds, MAX_ITER)
    return kernel.with_theta(optimum.values["kernel"]), float(np.exp(optimum.values["noise"][0]))


#: Standard errors by which learning must beat not learning on held-out rows: in density, in ranking.
MARGIN = (1.0, 0.0)
#: Rows of new inputs answered at a time.
BLOCK = 2000


@stored("hierarchical-fit")
@dataclass(frozen=True)
class Fit:
    """A fitted model, in units of scaled targets. The only input column of a cell is its position in X."""

    X: Any
    n_labelled: int
    basis: Basis
    cells: Cells
    state: State
    theta: Array  # (p, M): f^l of every task
    evidence: float
    strengths: Strengths
    trace: list[float]
    converged: bool
    tried: list[dict[str, float]]  # settings and their scores on held-out rows
    own: OtherModel | None = None  # tasks by themselves, where they may be better off

    @cached_property
    def alpha(self) -> Array:
        """alpha^l of every task in columns, the mean's in the last (17)."""
        return np.asarray(coefficients(self.basis, np.column_stack([self.theta, self.state.mu])))

    @property
    def n_iter(self) -> int:
        """How many iterations of EM were taken."""
        return len(self.trace) - 1

    @property
    def m(self) -> int:
        """Number of tasks that have a label."""
        return len(np.unique(self.cells.task))

    @property
    def size(self) -> float:
        """Root mean square of the functions over all labelled inputs."""
        squares = sum_of_squares(self.basis.gram, self.theta[:, np.unique(self.cells.task)])
        return float(np.sqrt(squares / (self.m * self.basis.n_inputs)))

    @property
    def noise(self) -> Array:
        """One noise variance for all scaled tasks."""
        return np.array([self.state.noise])

    @cached_property
    def learned(self) -> LearnedKernel:
        """Eq. (19), on all inputs, those without a label too; made when first asked for."""
        n = self.X.shape[0]
        if n > self.n_labelled and self.basis.Phi is None:
            memory.require(8.0 * 6 * n * n, f"a kernel on {n:,} inputs", "leave out inputs without a label")
        basis, state = extended(self.basis, self.state, self.X, self.n_labelled)
        return learned_kernel(basis, state.K, self.m, self.strengths.tau)

    def prior_moments(self) -> tuple[Array, Array]:
        """mu and K at all inputs."""
        n = self.X.shape[0]
        memory.require(8.0 * 4 * n * n, f"the covariance of {n:,} inputs", "use learned_kernel_ on some of them")
        Phi, K = prior_at(self.basis, self.state.K, self.X, full=True)
        return Phi @ self.state.mu, 0.5 * (K + K.T)

    def means(self, X: Any) -> Array:
        """Posterior means of all tasks at new inputs, one column per task."""
        return self._weighted(self.alpha[:, :-1], X)

    def mean_of(self, X: Any, task: Codes) -> Array:
        """Posterior mean of each row's task."""
        out = np.empty(X.shape[0])
        for t, at in rows_by_task(task):
            out[at] = self._weighted(self.alpha[:, t], X[at])
        return out

    def prior_mean(self, X: Any) -> Array:
        """mu(x), the mean of a task never seen."""
        return self._weighted(self.alpha[:, -1], X)

    def _weighted(self, alpha: Array, X: Any) -> Array:
        return by_blocks(X, lambda part: np.asarray(self.basis.kernel(part, self.basis.Z)) @ alpha)

    def of_task(self, t: int, X: Any, full: bool = False) -> Prediction:
        """One task at these rows."""
        mean = self._weighted(self.alpha[:, t], X)
        own = partial(posterior_at, self.basis, self.cells, self.state, t, full=full)
        if not full:
            return Prediction(mean, by_blocks(X, own))
        covariance = own(X)
        return Prediction(mean, np.diagonal(covariance), covariance)

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every cell."""
        return marginals(self.basis, self.cells, self.state, self.theta)

    def predict(self, X: Any, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Functions at new rows (eq. 17): tasks are independent given the prior."""
        found = Prediction.by_task(task, full, lambda t, at: self.of_task(t, X[at], full))
        found = stretched(found, self.stretch[task]) if hyper else found
        return averaged(self.own, found, X, task, full, hyper)

    @property
    def expected_noise(self) -> Array:
        """That of a new observation, with the tasks that may be better off by themselves."""
        return averaged_noise(self.own, self.noise)

    @cached_property
    def stretch(self) -> Array:
        """By how much the variance of each task's function is too small; 1 where no setting was chosen by the data."""
        M = self.cells.n_tasks
        if not self.tried or self.basis.Phi is not None:
            return np.ones(M)
        return stretch_of_tasks(self.cells, np.full(M, self.state.noise), self.marginals())

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes of the model, for labels and for numbers alike."""
        return {
            "X_": self.X,
            "kernel_": self.basis.kernel,
            "objective_trace_": self.trace,
            "mean_strength_": self.strengths.pi,
            "covariance_strength_": self.strengths.tau,
            "choices_": Table(
                {name: [t[name] for t in self.tried] for name in ("pi", "tau", "noise", "n_iter", "score")}
            ),
            "n_iter_": max(self.n_iter, 1),
            "converged_": self.converged,
            "jitter_": 0.0,
            "shared_probability_": shared_probability(self.own, labels),
        }


def by_blocks(X: Any, f: Callable[[Any], Array]) -> Array:
    """f of the rows of X, so many at a time."""
    return np.concatenate([f(X[i : i + BLOCK]) for i in range(0, max(X.shape[0], 1), BLOCK)])


def learn(e: Any, pool: Pool, data: TaskData, rank: bool, tasks: Tasks[Any]) -> tuple[Fit, Step | None]:
    """Base kernel, then tau, noise and the number of iterations, then EM on all rows; `e` is the estimator.

    `rank` chooses by ranking, for labels, instead of density. Beside the fit, for probabilities: what EM without some
    rows said of these, where it was run.
    """
    cells, Z, scales = data.cells, pool.X[: pool.n_labelled], pool.column_scales
    pi, tau = (None if isinstance(v, str) else float(v) for v in (e.mean_strength, e.covariance_strength))
    kernel, n_iter = base_kernel_of(e.base_kernel, pool.X, scales), int(e.max_iter)
    choice, tried, step = None, [], None
    chooses_tau, chooses_noise = tau is None, e.noise is None and not e.learn_noise
    noise = 0.1 if e.noise is None else float(e.noise) / float(np.mean(data.scaling.scale**2))
    free = [n for n in kernel.parameter_names() if not chooses_noise or n.split(".")[-1] != "variance"]
    if e.optimizer is not None and free:
        objective = base_objective(kernel, Z, tasks)
        kernel, noise = fit_base(kernel, noise, scales, e.prior, objective)
    _check_memory(kernel, Z, tasks)
    basis = basis_of(kernel, Z)
    problem = arrange(basis, tasks)
    rows = problem.n_rows if e.prior is not None and e.learn_noise else 0.0
    strengths = Strengths(np.inf if pi is None else pi, np.inf, rows, noise, e.learn_noise, e.accelerate)
    if chooses_tau or pi is None or chooses_noise:
        mean_variance = float(np.mean(kernel.diag(Z)))
        noises = tuple(r * mean_variance for r in NOISES) if chooses_noise else (noise,)
        choice = _choose(problem, strengths, pi, tau, noises, rank, n_iter, e.random_state)
        if choice is not None:
            tried, step = choice.tried, choice.step
            noise, strengths = choice.noise, replace(strengths, pi=choice.pi)
        elif chooses_noise:
            noise = 0.3 * mean_variance
    if tau is None:
        tau, n_iter = (np.inf, 0) if choice is None else (choice.tau, choice.step.n_iter)
    strengths = replace(strengths, tau=tau)
    if np.isfinite(tau) and n_iter > 0:
        if rank and choice is None and basis.Phi is not None:
            folds = few_of(hold_out(problem, check_random_state(e.random_state)), problem)
            if folds:
                *_, step = path(folds, strengths, noise, log_density, n_iter)
        tol = -np.inf if chooses_tau else float(e.tol)
        done = fit_em(problem, strengths, noise, n_iter, tol, e.accelerate and not chooses_tau)
        state, moments, trace, converged = done.state, done.statistics, done.trace, done.converged or chooses_tau
    else:
        state = with_exact_mean(start(problem.basis, noise), problem, strengths)
        moments = expect(state, problem, moments=False)
        trace, converged = [moments.evidence], True
    theta = to_host(functions(state, problem, moments))
    state = State(to_host(state.mu), to_host(state.K), state.noise)  # what was learnt answers from the host
    evidence, X, n = moments.evidence, pool.X, pool.n_labelled
    own = None
    if choice is not None and not (rank or e.optimizer is None or e.prior is None or sparse.issparse(X)):
        own = _own_models(default_kernel(scales, e.base_kernel, "base_kernel"), Z, data, scales, tasks, choice.step)
    return Fit(X, n, basis, cells, state, theta, evidence, strengths, trace, converged, tried, own), step


def _own_models(
    kernel: Kernel, Z: Array, data: TaskData, scales: Array, tasks: Tasks[Any], step: Step
) -> OtherModel | None:
    """Every task by itself beside what EM on the rest of every fold said of the rows held out."""
    cells = data.cells
    fold, answers = np.full(len(cells.y), -1), np.full(len(cells.y), np.nan)
    for k, (held, said) in enumerate(zip(step.held, step.answers, strict=True)):
        fold[held], answers[held] = k, said.mean
    fold[~np.isin(cells.task, with_own_gp(cells))] = -1
    placed = tasks.with_cells(replace(cells, X=Z[cells.X[:, 0].astype(np.intp)]), TaskShard)
    least = 0.1 if cells.least_noise is None else np.maximum(0.1, cells.least_noise)
    log_noise = np.log(np.broadcast_to(least, cells.n_tasks))
    return own_models(placed, kernel, log_noise, scales, data.centred, MAX_ITER, fold, answers)


def _choose(
    problem: Problem,
    strengths: Strengths,
    pi: float | None,
    tau: float | None,
    noises: tuple[float, ...],
    rank: bool,
    max_iter: int,
    random_state: Any,
) -> Choice | None:
    """pi, tau, noise and number of iterations by held-out rows; None where there are none, or nothing to choose."""
    folds = hold_out(problem, check_random_state(random_state))
    taus = tuple(t * problem.m for t in TAUS) if tau is None else (tau,)
    if problem.m < 2 or not np.isfinite(taus[0]):
        taus = ()
    means = (pi,) if pi is not None else MEANS if problem.m > 1 else MEANS[:1]
    if not folds or (problem.m < 2 and len(noises) == 1):
        return None
    score, margin = (ranking_or_density, MARGIN[1]) if rank else (log_density, MARGIN[0])
    return choose(folds, few_of(folds, problem), strengths, means, taus, noises, score, margin, max_iter)


def _check_memory(kernel: Kernel, Z: Any, tasks: Tasks[Any]) -> None:
    n, weights = Z.shape[0], is_linear(kernel) and Z.shape[1] < Z.shape[0]
    own = 4.0 * n * n  # at all pairs of inputs; or of columns, where weights of them are learnt
    if weights:
        n = Z.shape[1]
        own = 23.0 * n * n + 5.5 * n * Z.shape[0]
    tasks.require(
        f"a hierarchical GP on {n:,} distinct inputs",
        "thin the rows, or use a linear base kernel with fewer columns than rows",
        shared=own,
        device=12.0 * float((np.diff(tasks.cells.starts) ** 2.0).sum()) + 2.0 * n * n,
    )


@stored("hierarchical-new-task")
@dataclass(frozen=True)
class UnseenProblem:
    """A task never seen, on the prior learnt from the others: mean mu(x), covariance eq. (19)."""

    fit: Fit
    X: Any
    center: float  # targets are center + scale times the function
    scale: float
    factor: Array
    weights: Array  # A^-1 (y - mu)

    @classmethod
    def of(cls, fit: Fit, X: Any, target: Array, units: tuple[float, float]) -> UnseenProblem:
        """From its labelled rows."""
        y = (target - units[0]) / units[1]
        A = np.array(fit.learned(X))
        add_diagonal(A, fit.state.noise)
        L = cholesky(A, overwrite=True)
        return cls(fit, X, *units, L, solve(L, y - fit.prior_mean(X)))

    def mean(self, X: Any) -> Array:
        """Posterior mean of the function, in units of scaled targets."""
        return self.fit.prior_mean(X) + by_blocks(X, lambda part: self.fit.learned(part, self.X) @ self.weights)

    def variance(self, X: Any, full: bool) -> Array:
        """Posterior variances or covariance."""
        k = self.fit.learned
        part = solve_lower(self.factor, k(self.X, X))
        return k(X) - part.T @ part if full else np.maximum(k.diag(X) - column_dots(part, part), 0.0)
