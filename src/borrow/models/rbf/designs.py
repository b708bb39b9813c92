"""Four designs on the RBF network of `model.py`; sizes and ridges are chosen by exact leave-one-out.

- `fit_tasks`: the paper's multi-task network. Hidden units are shared, each task has weights of its own.
- the same for one task at a time: the paper's independent networks.
- the same for all rows as one task: the paper's "one network".
- `fit_two_levels`, ours: f_k(x) = w_0'φ(x) + w_k'ψ(x). A network for all rows first, then a multi-task network on its
  residuals; then the weights of both are fitted together. With ρ_0 the ridge of the shared level, M, u and q those of
  the task level (`recursion.py`), Z = M Φ_0 and B = Φ_0'Z + ρ_0 I,

      w_0 = B^-1 Z'y,   residual My - Z w_0,   leverages Σ_j u_j²/q_j + |chol(B)^-1 z_i|²,

  so leave-one-out is exact for the joint fit, at every size of the task level. The constants of the tasks have a ridge
  of their own: without task units this is one network with a random intercept per task.

Standard deviations are those of the Bayesian linear model on the basis found: w ~ N(0, σ²/ρ), so the variance of f(x)
is σ² φ'A^-1φ = σ² Σ_j u_j(x)²/q_j. σ² is the residual sum of squares over rows less the trace of leverages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from borrow.data.cells import Codes
from borrow.models.rbf.model import Basis, Candidates, Path, absorb, activations, fitted_error, grow
from borrow.models.rbf.recursion import Recursion, Stack
from borrow.numerics.linalg import Array, cholesky, log_determinant, solve, solve_lower, solve_lower_transposed

#: Ridges tried by ridge="auto".
RIDGES = tuple(10.0**p for p in range(-6, 2))
#: Ridges of the tasks' constants tried by the two-level design.
BIAS_RIDGES = (1e-6, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
#: Weight of the prior of σ² (the leave-one-out error), in rows.
NOISE_ROWS = 0.01


@dataclass(frozen=True)
class Settings:
    """How a level grows, in units of scaled inputs."""

    limit: int  # the most units
    ridges: tuple[float, ...]  # to choose from by leave-one-out
    by_leave_one_out: bool  # the size too; else the largest
    bounds: tuple[float, float] | None = None  # of tuned widths; None: not tuned
    tol: float | None = None  # the rule of convergence, where it is asked for
    structure: Stack | None = None  # rows, labelled or not, that choose the units without labels

    def size(self, loo: Array) -> int:
        """The size of least leave-one-out error, or the largest."""
        return int(np.argmin(loo)) if self.by_leave_one_out else len(loo) - 1


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
        return np.stack(
            [solve_lower_transposed(np.asfortranarray(L), b) for L, b in zip(self.R, self.b.T, strict=True)]
        )

    def whiten(self, X: Array, task: Codes) -> tuple[Array, Array]:
        """U(x) = R^-T φ(x) of each row's task (N + 1, n), and what that leaves of the shared functions (N0 + 1, n)."""
        U = activations(X, self.basis)
        z = np.zeros((0, len(X))) if self.shared is None else activations(X, self.shared.basis)
        for k in np.unique(task):
            at = np.flatnonzero(task == k)
            U[:, at] = solve_lower(np.asfortranarray(self.R[k]), np.ascontiguousarray(U[:, at]))
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
        mean = np.einsum("jn,jn->n", self.whiten(X, task)[0], self.b[:, task])
        return mean if self.shared is None else mean + self.shared.weights @ activations(X, self.shared.basis)


def sized(recursion: Recursion, y: Array) -> tuple[Array, Array, Array]:
    """Fit and leverage of the cells, and leave-one-out error, at every size from the constant alone."""
    stack, n = recursion.stack, recursion.n
    b = recursion.coefficients(recursion.root * y)
    fit = np.cumsum(recursion.U[:n] * recursion.spread(b), axis=0) / recursion.root
    leverage = np.cumsum(recursion.U[:n] ** 2 / recursion.spread(recursion.q[:n]), axis=0)
    return fit, leverage, np.array([stack.leave_one_out(f, h) for f, h in zip(fit, leverage, strict=True)])


def grow_path(
    stack: Stack,
    candidates: Candidates,
    settings: Settings,
    y: Array,
    ridge: float,
    bias_ridge: float | None = None,
) -> tuple[Path, Recursion]:
    """Table 1 with one ridge, on the labels or without them; the recursion is that of the labelled rows."""
    base, limit, bounds, tol = settings.structure, settings.limit, settings.bounds, settings.tol
    if base is None:
        path = grow(stack, candidates, y, ridge, limit, bias_ridge=bias_ridge, bounds=bounds, tol=tol)
        return path, path.recursion
    path = grow(base, candidates, base.y, ridge, limit, bounds=bounds, unsupervised=True, tol=tol)
    return path, absorb(stack, path.basis, ridge, bias_ridge)


def best_path(stack: Stack, candidates: Candidates, settings: Settings) -> Sizes:
    """A path for every ridge; the one of least leave-one-out error at its chosen size."""

    def one(ridge: float) -> Sizes:
        path, recursion = grow_path(stack, candidates, settings, stack.y, ridge)
        loo = sized(recursion, stack.y)[2]
        return Sizes(path, recursion, ridge, loo, settings.size(loo))

    return min((one(r) for r in settings.ridges), key=lambda s: s.best)


def fit_tasks(stack: Stack, candidates: Candidates, settings: Settings) -> Network:
    """One network for the tasks of a stack, each with weights of its own."""
    return network_of(stack, best_path(stack, candidates, settings))


def network_of(stack: Stack, sizes: Sizes) -> Network:
    """The network of the chosen size of a path."""
    fit, leverage, _ = (values[sizes.size] for values in sized(sizes.recursion, stack.y))
    error = float(fitted_error(sizes.recursion, stack.y)[sizes.size])
    return _network(stack, sizes, stack.root * stack.y, fit, leverage, error)


def _network(
    stack: Stack,
    sizes: Sizes,
    Y: Array,
    fit: Array,
    leverage: Array,
    error: float,
    volume: float = 0.0,
    shared: SharedLevel | None = None,
) -> Network:
    """The network whose task level is fitted to the weighted targets Y; `error` and `volume` as in `log_evidence`."""
    recursion, N = sizes.recursion, sizes.size + 1
    q, ridges = recursion.q[:N], np.array(recursion.ridge[:N])
    noise = noise_variance(stack, fit, leverage, sizes.best)
    evidence = log_evidence(stack, volume + float(np.log(q / ridges[:, None]).sum()), error, noise)
    R = np.stack([recursion.factor(k, N) for k in range(stack.n_tasks)])
    basis, b = sizes.path.basis.first(sizes.size), recursion.coefficients(Y)[:N]
    return Network(basis, R, q.copy(), b, float(ridges[0]), sizes.report(), noise, evidence, shared)


def log_evidence(stack: Stack, volume: float, error: float, noise: float) -> float:
    """log density of the rows under w ~ N(0, σ²/ρ).

    `volume` is log |I + ΦΦ'/ρ|, `error` is y'(I + ΦΦ'/ρ)^-1 y and the scatter within cells. `log_count` is for cells
    that are N(mean; f, noise/count); the regressions have the root of the count times that.
    """
    n = len(stack.y) + float(stack.dof.sum())
    quadratic = max(error, float(stack.scatter.sum())) / noise
    constant = float(stack.log_count.sum()) + 0.5 * float(np.log(stack.count).sum())
    return constant - 0.5 * (n * np.log(2.0 * np.pi * noise) + volume + quadratic)


def noise_variance(stack: Stack, fit: Array, leverage: Array, loo: float) -> float:
    """σ²: residual sum of squares over what the leverages leave of the rows, with a hundredth of a row of prior."""
    rows, n = stack.rows, float(stack.count.sum())
    size = float(rows.precision @ rows.y**2) / n
    prior = loo if loo > 1e-20 * size else 1.0  # nothing but zeros tells nothing of the noise
    rss = float(stack.squares(fit).sum())
    return (rss + NOISE_ROWS * prior) / (max(n - float(leverage.sum()), 0.0) + NOISE_ROWS)


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
        loo = stack.leave_one_out(fit, leverage)
        out.append(Joint(loo, fit, leverage, L, w, float(Y @ rest - (Z @ Y) @ w)))
    return out


def constants(stack: Stack, ridge: float) -> Recursion:
    """The tasks' constants alone."""
    recursion = Recursion(stack, 1)
    recursion.add(recursion.root, ridge)
    return recursion


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
    first = best_path(stack.pooled().shifted(level), candidates, pooled)
    basis0 = first.path.basis.first(first.size)
    F = activations(stack.X, basis0) * stack.root
    fits0 = [(joint_fits(constants(stack, ridge), F, first.ridge, stack.y)[0], ridge) for ridge in BIAS_RIDGES]
    joint, bias = min(fits0, key=lambda found: found[0].loo)
    residual = stack.y - joint.weights @ F / stack.root

    def one(ridge: float) -> tuple[Sizes, list[Joint]]:
        path, recursion = grow_path(stack, candidates, settings, residual, ridge, bias)
        fits = joint_fits(recursion, F, first.ridge, stack.y)
        loo = np.array([j.loo for j in fits])
        return Sizes(path, recursion, ridge, loo, settings.size(loo)), fits

    return TwoLevels(first, F, *min((one(r) for r in settings.ridges), key=lambda found: found[0].best))


def fit_two_levels(stack: Stack, candidates: Candidates, settings: Settings) -> Network:
    """The network of both levels, their weights fitted together, at the sizes of least leave-one-out error."""
    return two_level_network(stack, search_two_levels(stack, candidates, settings))


def two_level_network(stack: Stack, found: TwoLevels) -> Network:
    """The network of both levels at the chosen sizes."""
    first, F, sizes, fits = found
    joint = fits[sizes.size]
    E = np.stack([sizes.recursion.coefficients(f)[: sizes.size + 1] for f in F], axis=2).transpose(1, 0, 2)
    shared = SharedLevel(first.path.basis.first(first.size), joint.weights, joint.L, E, first.report())
    volume = log_determinant(joint.L) - len(F) * float(np.log(first.ridge))
    Y, error = stack.root * stack.y - joint.weights @ F, joint.least + float(stack.scatter.sum())
    return _network(stack, sizes, Y, joint.fit, joint.leverage, error, volume, shared)
