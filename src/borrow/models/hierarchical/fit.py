"""Fitting the hierarchical GP to a pool of inputs, and what the fit can answer: tasks seen, and a task never seen."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from borrow.data.cells import Cells, Codes
from borrow.estimators.gp import default_kernel
from borrow.estimators.settings import is_number
from borrow.kernels import Kernel, LearnedKernel, Linear, resolve
from borrow.models.hierarchical.basis import Basis, basis_of, is_linear
from borrow.models.hierarchical.device import basis_there, on_host
from borrow.models.hierarchical.model import (
    Moments,
    Problem,
    State,
    Strengths,
    arrange,
    coefficients,
    expect,
    extended,
    learned_kernel,
    posterior_at,
    prior_at,
    start,
)
from borrow.models.hierarchical.search import (
    NOISES,
    TAUS,
    Choice,
    Held,
    choose,
    few_of,
    fit_base,
    fit_em,
    hold_out,
    log_density,
    path,
    ranking,
)
from borrow.models.hierarchical.spread import SpreadGroups
from borrow.numerics import memory
from borrow.numerics.device import Device, check, require
from borrow.numerics.linalg import Array, cholesky, solve, solve_lower
from borrow.numerics.optimise import Optimum
from borrow.tasks.workers import Workers

#: Standard errors by which learning must beat not learning on held-out rows: in density, in ranking.
MARGIN = (1.0, 0.0)
#: Rows of new inputs answered at a time.
BLOCK = 2000


@dataclass(frozen=True)
class Settings:
    """The constructor's arguments that the fit needs."""

    base_kernel: Any
    pi: float
    tau: Any  # a number, infinite for K = kappa, or "auto"
    noise: float | None  # in units of scaled targets
    learn_noise: bool
    rank: bool  # choose by ranking (labels) or by density (numbers)
    prior: str | None
    optimizer: str | None
    max_iter: int
    tol: float
    accelerate: bool
    random_state: Any


@dataclass(frozen=True)
class Fit:
    """A fitted model, in units of scaled targets."""

    X: Any
    n_labelled: int
    problem: Problem
    state: State
    moments: Moments
    strengths: Strengths
    trace: list[float]
    converged: bool
    choice: Choice | None
    folds: list[Held]  # what the settings were chosen on
    optimum: Optimum | None

    @cached_property
    def alpha(self) -> Array:
        """alpha^l of every task in columns, the mean's in the last (17)."""
        theta = self.state.mu[:, None] + np.column_stack([self.moments.D, np.zeros(len(self.state.mu))])
        return np.asarray(coefficients(self.problem.basis, theta))

    @property
    def n_iter(self) -> int:
        """EM iterations."""
        return len(self.trace) - 1

    @cached_property
    def learned(self) -> LearnedKernel:
        """Eq. (19), on all inputs, those without a label too; made when first asked for."""
        n = self.X.shape[0]
        if n > self.n_labelled and self.problem.basis.Phi is None:
            memory.require(8.0 * 6 * n * n, f"a kernel on {n:,} inputs", "leave out inputs without a label")
        basis, state = extended(self.problem.basis, self.state, self.X, self.n_labelled)
        return learned_kernel(basis, state.K, self.problem.m, self.strengths.tau)

    def prior_moments(self) -> tuple[Array, Array]:
        """mu and K at all inputs."""
        n = self.X.shape[0]
        memory.require(8.0 * 4 * n * n, f"the covariance of {n:,} inputs", "use learned_kernel_ on some of them")
        Phi, K = prior_at(self.problem.basis, self.state.K, self.X, full=True)
        return Phi @ self.state.mu, 0.5 * (K + K.T)

    def means(self, X: Any) -> Array:
        """Posterior means of all tasks at new inputs, and the prior mean in the last column."""
        basis = self.problem.basis
        return by_blocks(X, partial(_weigh, basis, self.alpha))

    def mean_of(self, X: Any, task: Codes) -> Array:
        """Posterior mean of each row's task."""
        basis, out = self.problem.basis, np.empty(X.shape[0])
        for t in np.unique(task):
            at, a = np.flatnonzero(task == t), self.alpha[:, t]
            out[at] = by_blocks(X[at], partial(_weigh, basis, a))
        return out

    def variance_of(self, X: Any, task: Codes, full: bool) -> Array:
        """Variances of each row's task, or the covariance of all rows: tasks are independent given the prior."""
        out = np.zeros((X.shape[0], X.shape[0]) if full else X.shape[0])
        for t in np.unique(task):
            at = np.flatnonzero(task == t)
            if full:
                out[np.ix_(at, at)] = posterior_at(self.problem, self.state, int(t), X[at], True)
            else:
                out[at] = by_blocks(X[at], partial(posterior_at, self.problem, self.state, int(t), full=False))
        return out

    def leave_one_out(self) -> list[Array]:
        """Means of each group's functions at its own rows without the row itself, K and mu as they are."""
        out = []
        for g in self.problem.groups:
            A = g.within(self.state.K)
            A.flat[:: len(A) + 1] += self.state.noise / g.count
            L = cholesky(A)
            inverse = solve(L, np.eye(len(A)))
            left = solve(L, g.Y - g.of(self.state.mu)[:, None]) / np.diagonal(inverse)[:, None]
            out.append(g.Y - left)
        return out


def _weigh(basis: Basis, alpha: Array, X: Any) -> Array:
    return np.asarray(basis.kernel(X, basis.Z)) @ alpha


def by_blocks(X: Any, f: Callable[[Any], Array]) -> Array:
    """f of the rows of X, so many at a time."""
    return np.concatenate([f(X[i : i + BLOCK]) for i in range(0, max(X.shape[0], 1), BLOCK)])


def takes_sparse(given: Any) -> bool:
    """Whether a base kernel, or the default, is one for sparse tables."""
    return given is None or isinstance(given, LearnedKernel) or (isinstance(given, Kernel) and is_linear(given))


def base_kernel_of(given: Any, X: Any, scales: Array) -> Kernel:
    """The kernel given; without one a squared exponential, or a linear one for sparse inputs."""
    if sparse.issparse(X):
        if given is None:
            return Linear(1.0 / max(float(X.multiply(X).sum()) / X.shape[0], 1e-300))
        kernel = deepcopy(resolve(given, "base_kernel"))
        if not takes_sparse(kernel):
            raise ValueError(
                f"base_kernel={kernel!r} needs dense inputs and X is sparse; give borrow.kernels.Linear(), with a "
                "Constant added for an offset, or X.toarray()"
            )
        return kernel
    return default_kernel(scales, deepcopy(given), "base_kernel", tied=True)  # a copy: kernels remember sizes


def learn(
    X: Any,
    n_labelled: int,
    cells: Cells,
    scales: Array,
    settings: Settings,
    workers: Workers | None = None,
    device: Device | None = None,
) -> Fit:
    """Base kernel, then tau, noise and the number of iterations, then EM on all rows."""
    Z = X[:n_labelled]
    kernel = base_kernel_of(settings.base_kernel, X, scales)
    noise, optimum = 0.1 if settings.noise is None else settings.noise, None
    chosen_noise = settings.noise is None and not settings.learn_noise
    free = [n for n in kernel.parameter_names() if not chosen_noise or n.split(".")[-1] != "variance"]
    if settings.optimizer is not None and free:
        kernel, noise, optimum = fit_base(kernel, noise, Z, cells, scales, settings.prior, 200, workers, device)
    _check_memory(kernel, Z, cells, device)
    basis = basis_of(kernel, Z)
    problem = arrange(basis if device is None else basis_there(basis, device), cells)
    if workers is not None:
        problem = replace(problem, spread=SpreadGroups(workers))
    mean_variance = float(np.mean(kernel.diag(Z)))
    rows = problem.n_rows if settings.prior is not None and settings.learn_noise else 0.0
    strengths = Strengths(settings.pi, np.inf, rows, noise, settings.learn_noise)
    choice, n_iter, tol = None, settings.max_iter, settings.tol
    folds: list[Held] = []
    if settings.tau == "auto" or chosen_noise:
        folds = hold_out(cells, problem, check_random_state(settings.random_state))
        noises = tuple(r * mean_variance for r in NOISES) if chosen_noise else (noise,)
        alone = problem.m < 2
        if folds and not (alone and len(noises) == 1):
            taus = tuple(t * problem.m for t in TAUS) if settings.tau == "auto" else (float(settings.tau),)
            alone = alone or not np.isfinite(taus[0])
            score, margin = (_ranking_or_density, MARGIN[1]) if settings.rank else (log_density, MARGIN[0])
            some = () if alone else taus
            few = few_of(folds, problem)
            choice = choose(folds, few, strengths, some, noises, score, margin, settings.max_iter)
            folds = few
            noise, n_iter = choice.noise, choice.n_iter
            if settings.tau == "auto":
                strengths, tol = replace(strengths, tau=choice.tau), -np.inf
        elif chosen_noise:
            noise = 0.3 * mean_variance
    if settings.tau != "auto":
        strengths, n_iter = replace(strengths, tau=float(settings.tau)), settings.max_iter
    if not np.isfinite(strengths.tau) or n_iter == 0:
        state = start(problem.basis, noise)
        moments = expect(state, problem, moments=False)
        parts: Any = (state, moments, [moments.evidence], True)
    else:
        if settings.rank and choice is None and problem.basis.Phi is not None:
            folds = few_of(hold_out(cells, problem, check_random_state(settings.random_state)), problem)
            choice = _held_out_run(folds, strengths, noise, n_iter) if folds else None
        accelerate = settings.accelerate and settings.tau != "auto"
        done = fit_em(problem, strengths, noise, n_iter, tol, accelerate)
        parts = (done.state, done.statistics, done.trace, done.converged or settings.tau == "auto")
    problem = replace(problem, spread=None)
    folds = [replace(f, rest=replace(f.rest, spread=None)) for f in folds]
    if device is not None:  # what was learnt answers from the host
        problem, state, moments = on_host(problem, basis, parts[0], parts[1])
        parts, folds = (
            (state, moments, *parts[2:]),
            [replace(f, rest=replace(f.rest, basis=basis, bundles=None)) for f in folds],
        )
    return Fit(X, n_labelled, problem, parts[0], parts[1], strengths, parts[2], parts[3], choice, folds, optimum)


def _held_out_run(folds: list[Held], strengths: Strengths, noise: float, n_iter: int) -> Choice:
    """Answers for held-out rows at settings that were given, for probabilities."""
    *_, (_, by_task, answers, size) = path(folds, strengths, noise, log_density, n_iter)
    return Choice(strengths.tau, noise, n_iter, float(by_task.mean()), answers, size, [])


def _ranking_or_density(answers: list[tuple[Array, Array]], targets: list[Array], noise: float) -> Array:
    areas = ranking(answers, targets, noise)
    return areas if np.isfinite(areas).any() else log_density(answers, targets, noise)


def _check_memory(kernel: Kernel, Z: Any, cells: Cells, device: Device | None) -> None:
    n = Z.shape[1] if is_linear(kernel) and Z.shape[1] < Z.shape[0] else Z.shape[0]
    blocks = 0.0 if device is None else 12.0 * float((np.diff(cells.starts) ** 2.0).sum())
    require(
        device,
        8.0 * (6.0 * n * n + blocks),
        f"a hierarchical GP on {n:,} distinct inputs",
        "thin the rows, or use a linear base kernel with fewer columns than rows",
    )


@dataclass(frozen=True)
class NewTask:
    """A task never seen, on the prior learnt from the others: mean mu(x), covariance eq. (19)."""

    fit: Fit
    X: Any
    factor: Array
    weights: Array  # A^-1 (y - mu)

    @classmethod
    def of(cls, fit: Fit, X: Any, y: Array) -> NewTask:
        """From its labelled rows, of which there may be none."""
        A = np.array(fit.learned(X)) if len(y) else np.zeros((0, 0))
        A.flat[:: len(y) + 1] += fit.state.noise
        L = cholesky(A)
        prior = fit.means(X)[:, -1] if len(y) else np.zeros(0)
        return cls(fit, X, L, solve(L, y - prior))

    def mean(self, X: Any) -> Array:
        """Posterior mean."""
        prior = self.fit.means(X)[:, -1]
        if not len(self.weights):
            return prior
        return prior + by_blocks(X, lambda part: self.fit.learned(part, self.X) @ self.weights)

    def variance(self, X: Any, full: bool) -> Array:
        """Posterior variances or covariance."""
        k = self.fit.learned
        prior = k(X) if full else k.diag(X)
        if not len(self.weights):
            return prior
        part = solve_lower(self.factor, k(self.X, X))
        return prior - part.T @ part if full else np.maximum(prior - np.einsum("ij,ij->j", part, part), 0.0)


def check_arguments(estimator: Any) -> None:
    """Refuse constructor arguments that no hierarchical model can use."""
    if estimator.prior not in ("auto", None):
        raise ValueError(f"prior={estimator.prior!r}: expected 'auto' (weak priors) or None (as in the paper)")
    if estimator.optimizer not in ("lbfgs", None):
        raise ValueError(f"optimizer={estimator.optimizer!r}: expected 'lbfgs', or None to keep the base kernel given")
    pi, tau = estimator.mean_strength, estimator.covariance_strength
    if not (is_number(pi) or pi == np.inf) or isinstance(pi, str) or pi < 0:
        raise ValueError(f"mean_strength={pi!r}: expected a number from 0 up; infinite for a mean of zero")
    auto = isinstance(tau, str) and tau == "auto"
    if not auto and (isinstance(tau, str) or not (is_number(tau) or tau == np.inf) or tau <= 0):
        raise ValueError(f"covariance_strength={tau!r}: expected 'auto' or a positive number")
    check(estimator.device)
    if estimator.noise is not None and (not is_number(estimator.noise) or estimator.noise <= 0):
        raise ValueError(
            f"noise={estimator.noise!r}: expected one positive variance for all tasks, or None to learn it"
        )
    if not isinstance(estimator.max_iter, (int, np.integer)) or estimator.max_iter < 0:
        raise ValueError(f"max_iter={estimator.max_iter!r}: expected a whole number of at least 0")
    if not is_number(estimator.tol) or estimator.tol < 0:
        raise ValueError(f"tol={estimator.tol!r}: expected a number from 0 up, in nats per row")
