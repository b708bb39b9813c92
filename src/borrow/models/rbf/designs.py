"""Four designs on the RBF network of `rbf_network`; sizes and ridges are chosen by exact leave-one-out.

- `fit_tasks`: the paper's multi-task network. Hidden units are shared, each task has weights of its own.
- the same for one task at a time: the paper's independent networks.
- the same for all rows as one task: the paper's "one network".
- `fit_two_levels`, ours: f_k(x) = w_0'φ(x) + w_k'ψ(x). A network for all rows first, then a multi-task network on its
  residuals; then the weights of both are fitted together. With ρ_0 the ridge of the shared level, M, u and q those of
  the task level (`rbf_recursion`), Z = M Φ_0 and B = Φ_0'Z + ρ_0 I,

      w_0 = B^-1 Z'y,   residual My - Z w_0,   leverages Σ_j u_j²/q_j + |chol(B)^-1 z_i|²,

  so leave-one-out is exact for the joint fit, at every size of the task level. The constants of the tasks have a ridge
  of their own: without task units this is one network with a random intercept for each task.

Standard deviations are those of the Bayesian linear model on the basis found: w ~ N(0, σ²/ρ), so the variance of f(x)
is σ² φ'A^-1φ = σ² Σ_j u_j(x)²/q_j. σ² is the residual sum of squares over rows less the trace of leverages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from borrow.data.cells import Codes
from borrow.models.rbf.model import Basis, Candidates, Path, absorb, activations, grow
from borrow.models.rbf.recursion import Recursion, Stack, leave_one_out
from borrow.numerics.linalg import Array, cholesky, log_determinant, solve, solve_lower, solve_lower_transposed

#: Ridges tried by ridge="auto".
RIDGES = tuple(10.0**p for p in range(-6, 2))
#: Ridges of the tasks' constants tried by the two-level design.
BIAS_RIDGES = (1e-6, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
#: Weight of the prior of σ² (the leave-one-out error), in rows.
NOISE_ROWS = 0.01


@dataclass(frozen=True)
class Settings:
    """What the estimator was asked for, in units of scaled inputs."""

    n_basis: int | str  # a number, "auto" (leave-one-out) or "converged"
    limit: int
    ridges: tuple[float, ...]
    tune: bool | tuple[float, float]  # widths of chosen units: no, between a quarter and four times, or within bounds
    tol: float
    structure: Stack | None = None  # rows, labelled or not, that choose the units without labels


class Sizes(NamedTuple):
    """A path and the leave-one-out error at each of its sizes."""

    path: Path
    recursion: Recursion  # of the labelled rows
    ridge: float
    loo: Array
    size: int  # chosen

    @property
    def best(self) -> float:
        """Leave-one-out error at the chosen size."""
        return float(self.loo[self.size])

    def report(self) -> Growth:
        """What is worth keeping after the fit."""
        return Growth(self.ridge, self.path.trace, self.loo, self.path.converged)


class Growth(NamedTuple):
    """How a level grew: its ridge, errors e_0, e_1, ... and leave-one-out errors from the constant alone on."""

    ridge: float
    trace: Array
    loo: Array
    converged: bool


@dataclass(frozen=True)
class SharedLevel:
    """The level that all tasks share."""

    basis: Basis
    weights: Array
    L: Array  # chol B
    E: Array  # (M, N + 1, N0 + 1): u_j'φ_0/q_j of each task
    growth: Growth


@dataclass(frozen=True)
class Network:
    """A fitted network of one or two levels, for coded tasks, in scaled units."""

    basis: Basis
    R: Array  # (M, N + 1, N + 1): R' of each task
    q: Array  # (N + 1, M)
    b: Array  # (N + 1, M)
    bias_ridge: float
    growth: Growth
    noise: float
    evidence: float
    shared: SharedLevel | None = None

    def weights(self) -> Array:
        """w_k of (3): (M, N + 1)."""
        return np.stack([solve_lower_transposed(_fortran(L), self.b[:, k]) for k, L in enumerate(self.R)])

    def whiten(self, X: Array, task: Codes) -> tuple[Array, Array]:
        """U(x) = R^-T φ(x) of each row's task (N + 1, n), and what that leaves of the shared functions (N0 + 1, n)."""
        U = activations(X, self.basis)
        z = np.zeros((0, len(X))) if self.shared is None else activations(X, self.shared.basis)
        for k in np.unique(task):
            at = np.flatnonzero(task == k)
            U[:, at] = solve_lower(_fortran(self.R[k]), np.ascontiguousarray(U[:, at]))
            if self.shared is not None:
                z[:, at] -= self.shared.E[k].T @ U[:, at]
        return U, z

    def features(self, X: Array, task: Codes) -> tuple[Array, Array]:
        """Roots of the variance in units of σ²: of the task level (n, N + 1) and of the shared one (n, N0 + 1)."""
        U, z = self.whiten(X, task)
        r = z if self.shared is None else solve_lower(self.shared.L, z)
        return (U / np.sqrt(self.q[:, task])).T, r.T

    def mean(self, X: Array, task: Codes) -> Array:
        """f_k(x)."""
        U, _ = self.whiten(X, task)
        mean = np.einsum("jn,jn->n", U, self.b[:, task])
        return mean if self.shared is None else mean + self.shared.weights @ activations(X, self.shared.basis)


def _fortran(L: Array) -> Array:
    return np.asfortranarray(L)


def sized(recursion: Recursion, y: Array) -> tuple[Array, Array, Array]:
    """Fit and leverage of the cells, and leave-one-out error, at every size from the constant alone."""
    stack, n = recursion.stack, recursion.n
    b = recursion.coefficients(recursion.root * y)
    fit = np.cumsum(recursion.U[:n] * recursion.spread(b), axis=0) / recursion.root
    leverage = np.cumsum(recursion.U[:n] ** 2 / recursion.spread(recursion.q[:n]), axis=0)
    loo = [leave_one_out(stack.rows, stack.count, f, h) for f, h in zip(fit, leverage, strict=True)]
    return fit, leverage, np.array(loo)


def choose_size(settings: Settings, loo: Array) -> int:
    """The size of least leave-one-out error, or the largest where a number was asked for or the path converged."""
    return int(np.argmin(loo)) if settings.n_basis == "auto" else len(loo) - 1


def width_bounds(tune: bool | tuple[float, float], width: float) -> tuple[float, float] | None:
    """Bounds of tuned widths; None where they are not tuned."""
    if isinstance(tune, tuple):
        return tune
    return (width / 4.0, 4.0 * width) if tune else None


def grow_path(
    stack: Stack,
    candidates: Candidates,
    settings: Settings,
    y: Array,
    ridge: float,
    bias_ridge: float | None = None,
) -> tuple[Path, Recursion]:
    """Table 1 with one ridge, on the labels or without them; the recursion is that of the labelled rows."""
    tol = settings.tol if settings.n_basis == "converged" else None
    limit = settings.n_basis if isinstance(settings.n_basis, int) else settings.limit
    structure, bounds = settings.structure, width_bounds(settings.tune, candidates.width)
    if structure is None:
        path = grow(stack, candidates, y, ridge, limit, bias_ridge=bias_ridge, bounds=bounds, tol=tol)
        return path, path.recursion
    path = grow(structure, candidates, structure.y, ridge, limit, bounds=bounds, tol=tol, unsupervised=True)
    return path, absorb(stack, path.basis, ridge, bias_ridge)


def best_path(stack: Stack, candidates: Candidates, settings: Settings) -> Sizes:
    """A path for every ridge; the one of least leave-one-out error at its chosen size."""

    def one(ridge: float) -> Sizes:
        path, recursion = grow_path(stack, candidates, settings, stack.y, ridge)
        loo = sized(recursion, stack.y)[2]
        return Sizes(path, recursion, ridge, loo, choose_size(settings, loo))

    return min((one(r) for r in settings.ridges), key=lambda s: s.best)


def fit_tasks(stack: Stack, candidates: Candidates, settings: Settings) -> Network:
    """One network for the tasks of a stack, each with weights of its own."""
    return network_of(stack, best_path(stack, candidates, settings))


def network_of(stack: Stack, sizes: Sizes) -> Network:
    """The network of the chosen size of a path."""
    recursion, N = sizes.recursion, sizes.size + 1
    fit, leverage, _ = sized(recursion, stack.y)
    Y = recursion.root * stack.y
    b, q = recursion.coefficients(Y)[:N], recursion.q[:N]
    noise = noise_variance(stack, fit[N - 1], leverage[N - 1], sizes.best)
    ridges = np.array(recursion.ridge[:N])
    volume = float(np.log(q / ridges[:, None]).sum())
    evidence = log_evidence(stack, volume, float(Y @ Y - (q * b**2).sum()), noise)
    R = np.stack([recursion.factor(k, N) for k in range(stack.n_tasks)])
    basis = sizes.path.basis.first(sizes.size)
    return Network(basis, R, q.copy(), b, float(ridges[0]), sizes.report(), noise, evidence)


def log_evidence(stack: Stack, volume: float, least: float, noise: float) -> float:
    """log density of the rows under w ~ N(0, σ²/ρ): `volume` is log |I + ΦΦ'/ρ|, `least` y'(I + ΦΦ'/ρ)^-1 y."""
    n = len(stack.y) + float(stack.dof.sum())
    quadratic = (max(least, 0.0) + stack.within()) / noise
    return float(stack.log_constant.sum()) - 0.5 * (n * np.log(2.0 * np.pi * noise) + volume + quadratic)


def noise_variance(stack: Stack, fit: Array, leverage: Array, loo: float) -> float:
    """σ²: residual sum of squares over what the leverages leave of the rows, with a hundredth of a row of prior."""
    r = stack.rows
    rss = float((r.precision * (r.y - fit[r.cell]) ** 2 + r.scatter).sum())
    size = float(r.precision @ r.y**2) / stack.n_rows
    prior = loo if loo > 1e-20 * size else 1.0  # nothing but zeros tells nothing of the noise
    return (rss + NOISE_ROWS * prior) / (max(stack.n_rows - float(leverage.sum()), 0.0) + NOISE_ROWS)


class Joint(NamedTuple):
    """Both levels fitted together, at one size of the task level."""

    loo: float
    fit: Array
    leverage: Array
    L: Array  # chol B
    weights: Array  # of the shared level
    least: float  # what is left of the error, ridges included, scatter within cells not


def joint_fits(recursion: Recursion, F: Array, ridge: float, y: Array) -> list[Joint]:
    """The joint fit for every size of the task level; F (N0 + 1, n) are weighted functions of the shared level."""
    stack, Y = recursion.stack, recursion.root * y
    Z, rest, h, out = F.copy(), Y.copy(), np.zeros(len(Y)), []
    for u, q in zip(recursion.U[: recursion.n], recursion.q[: recursion.n], strict=True):
        Z -= u * recursion.spread(recursion.sums(u * F) / q)
        rest -= u * recursion.spread(recursion.sums(u * Y) / q)
        h += u**2 / recursion.spread(q)
        B = F @ Z.T
        B = 0.5 * (B + B.T)
        B.flat[:: len(B) + 1] += ridge
        L = cholesky(B)
        w, r = solve(L, Z @ Y), solve_lower(L, Z)
        leverage = h + np.einsum("jn,jn->n", r, r)
        fit = (Y - rest + Z.T @ w) / recursion.root
        loo = leave_one_out(stack.rows, stack.count, fit, leverage)
        out.append(Joint(loo, fit, leverage, L, w, float(Y @ rest - (Z @ Y) @ w)))
    return out


def constants(stack: Stack, ridge: float) -> Recursion:
    """The tasks' constants alone."""
    recursion = Recursion(stack, 1)
    recursion.add(recursion.root, ridge)
    return recursion


def shifted(stack: Stack, by: Array) -> Stack:
    """The same rows with `by` (n,) taken from the targets of each cell."""
    rows = replace(stack.rows, y=stack.rows.y - by[stack.rows.cell])
    return replace(stack, y=stack.y - by, rows=rows)


class TwoLevels(NamedTuple):
    """Paths of both levels, and the joint fit at every size of the task level."""

    first: Sizes
    F: Array  # weighted functions of the shared level (N0 + 1, n)
    sizes: Sizes
    fits: list[Joint]


def search_two_levels(stack: Stack, candidates: Candidates, settings: Settings) -> TwoLevels:
    """A network for all rows, less the levels of the tasks; then task networks on its residuals."""
    structure = settings.structure
    pooled = replace(settings, structure=None if structure is None else structure.pooled())
    levels = [sized(constants(stack, ridge), stack.y) for ridge in BIAS_RIDGES]
    level = min(levels, key=lambda s: s[2][0])[0][0]
    first = best_path(shifted(stack.pooled(), level), candidates, pooled)
    basis0 = first.path.basis.first(first.size)
    F = activations(stack.X, basis0) * stack.root
    fits0 = [(joint_fits(constants(stack, ridge), F, first.ridge, stack.y)[0], ridge) for ridge in BIAS_RIDGES]
    joint, bias = min(fits0, key=lambda found: found[0].loo)
    residual = stack.y - joint.weights @ F / stack.root

    def one(ridge: float) -> tuple[Sizes, list[Joint]]:
        path, recursion = grow_path(stack, candidates, settings, residual, ridge, bias)
        fits = joint_fits(recursion, F, first.ridge, stack.y)
        loo = np.array([j.loo for j in fits])
        return Sizes(path, recursion, ridge, loo, choose_size(settings, loo)), fits

    return TwoLevels(first, F, *min((one(r) for r in settings.ridges), key=lambda found: found[0].best))


def fit_two_levels(stack: Stack, candidates: Candidates, settings: Settings) -> Network:
    """The network of both levels, their weights fitted together, at the sizes of least leave-one-out error."""
    return two_level_network(stack, search_two_levels(stack, candidates, settings))


def two_level_network(stack: Stack, found: TwoLevels) -> Network:
    """The network of both levels at the chosen sizes."""
    first, F, sizes, fits = found
    recursion, N, joint = sizes.recursion, sizes.size + 1, fits[sizes.size]
    q, Y = recursion.q[:N], recursion.root * stack.y
    b = recursion.coefficients(Y - joint.weights @ F)[:N]
    E = np.stack([recursion.coefficients(f)[:N] for f in F], axis=2).transpose(1, 0, 2)
    noise = noise_variance(stack, joint.fit, joint.leverage, joint.loo)
    ridges = np.array(recursion.ridge[:N])
    volume = float(np.log(q / ridges[:, None]).sum()) + log_determinant(joint.L) - len(F) * np.log(first.ridge)
    evidence = log_evidence(stack, volume, joint.least, noise)
    R = np.stack([recursion.factor(k, N) for k in range(stack.n_tasks)])
    shared = SharedLevel(first.path.basis.first(first.size), joint.weights, joint.L, E, first.report())
    basis = sizes.path.basis.first(sizes.size)
    return Network(basis, R, q.copy(), b, float(ridges[0]), sizes.report(), noise, evidence, shared)
