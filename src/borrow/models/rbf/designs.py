"""Four designs on the RBF network of `model.py`; sizes and ridges are chosen by exact leave-one-out.

- `best_path`, `network_of`: the paper's multi-task network. Hidden units are shared, each task has weights of its own.
- the same for one task at a time: the paper's independent networks.
- the same for all rows as one task: the paper's "one network".
- `two_levels`, ours: f_k(x) = w_0'φ(x) + w_k'ψ(x). A network for all rows, then a multi-task network on its
  residuals; then the weights of both are fitted together. With ρ_0 the ridge of the shared level, M, u and q those of
  the task level (`recursion.py`), Z = M Φ_0 and B = Φ_0'Z + ρ_0 I,

      w_0 = B^-1 Z'y,   residual My - Z w_0,   leverages Σ_j u_j²/q_j + |chol(B)^-1 z_i|²,

  so leave-one-out is exact for the joint fit, at every size of the task level. The constants of the tasks have a ridge
  of their own: without task units this is one network with a random intercept per task.

Standard deviations are those of the Bayesian linear model on the basis found: w ~ N(0, σ²/ρ), so the variance of f(x)
is σ² φ'A^-1φ = σ² Σ_j u_j(x)²/q_j. σ² is the residual sum of squares over rows less the trace of leverages.

`Problem` is what a design is fitted to, made from a table: scales, widths, candidates, settings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from borrow.covariance.contracts import rows_by_task
from borrow.data.cells import Cells, Codes, Rows, merge
from borrow.data.scaling import Scaling, scale
from borrow.models.rbf.model import Basis, Candidates, Path, absorb, activations, grow
from borrow.models.rbf.recursion import Recursion, Stack, stack_inputs, stack_rows
from borrow.numerics import memory
from borrow.numerics.linalg import Array, cholesky, log_determinant, solve, solve_lower, solve_lower_transposed
from borrow.numerics.stored import stored

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


@stored("rbf-growth")
class Growth(NamedTuple):
    """How a level grew: its ridge, errors e_0, e_1, ... and leave-one-out errors from the constant alone on."""

    ridge: float
    trace: Array
    loo: Array
    converged: bool


class Fit(NamedTuple):
    """The weights of all levels fitted together, at one size of the level that grows."""

    loo: float
    fit: Array
    leverage: Array
    L: Array  # chol B
    weights: Array  # of the shared level
    least: float  # what is left of the error, ridges included, scatter within cells not


class Sizes(NamedTuple):
    """A path and the fit at each of its sizes, on top of the shared level where there is one."""

    path: Path  # its recursion is that of the labelled rows
    ridge: float
    F: Array  # weighted functions of the shared level (N0 + 1, n); none without one
    fits: list[Fit]
    size: int  # chosen
    shared: Sizes | None = None

    @property
    def best(self) -> float:
        """Leave-one-out error at the chosen size."""
        return self.fits[self.size].loo

    @property
    def basis(self) -> Basis:
        """The units of the chosen size."""
        return self.path.basis.first(self.size)

    def report(self) -> Growth:
        """What is worth keeping after the fit."""
        return Growth(self.ridge, self.path.trace, np.array([f.loo for f in self.fits]), self.path.converged)


@stored("rbf-shared-level")
@dataclass(frozen=True)
class SharedLevel:
    """The level that all tasks share."""

    basis: Basis
    weights: Array
    L: Array  # chol B
    E: Array  # (M, N + 1, N0 + 1): u_j'φ_0/q_j of each task
    growth: Growth


@stored("rbf-network")
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

    def answer(self, X: Array, task: Codes) -> tuple[Array, Array, Array]:
        """f_k(x) of each row's task, and roots of its variance in units of σ².

        The roots are of the task level, (n, N + 1), from U(x) = R^-T φ(x), and of the shared one, (n, N0 + 1), from
        what U leaves of its functions.
        """
        U, shared = activations(X, self.basis), self.shared
        z = np.zeros((0, len(X))) if shared is None else activations(X, shared.basis)
        mean = 0.0 if shared is None else shared.weights @ z
        for k, at in rows_by_task(task):
            U[:, at] = solve_lower(np.asfortranarray(self.R[k]), np.ascontiguousarray(U[:, at]))
            if shared is not None:
                z[:, at] -= shared.E[k].T @ U[:, at]
        r = z if shared is None else solve_lower(shared.L, z)
        return np.einsum("jn,jn->n", U, self.b[:, task]) + mean, (U / np.sqrt(self.q[:, task])).T, r.T


def grow_path(
    stack: Stack,
    candidates: Candidates,
    settings: Settings,
    y: Array,
    ridge: float,
    bias_ridge: float | None = None,
) -> Path:
    """Table 1 with one ridge, on the labels or without them; the recursion is that of the labelled rows."""
    base, limit, bounds, tol = settings.structure, settings.limit, settings.bounds, settings.tol
    if base is None:
        return grow(stack, candidates, y, ridge, limit, bias_ridge=bias_ridge, bounds=bounds, tol=tol)
    path = grow(base, candidates, base.y, ridge, limit, bounds=bounds, unsupervised=True, tol=tol)
    return replace(path, recursion=absorb(stack, path.basis, ridge, bias_ridge))


def best_path(stack: Stack, candidates: Candidates, settings: Settings, shared: Sizes | None = None) -> Sizes:
    """A path for every ridge, on what the shared level leaves where there is one; that of least leave-one-out error."""
    F, ridge0, y, bias = no_functions(stack), 1.0, stack.y, None
    if shared is not None:
        F, ridge0 = activations(stack.X, shared.basis) * stack.root, shared.ridge
        joint, bias = best_constants(stack, F, ridge0)
        y = y - joint.weights @ F / stack.root

    def one(ridge: float) -> Sizes:
        path = grow_path(stack, candidates, settings, y, ridge, bias)
        fits = joint_fits(path.recursion, F, ridge0, stack.y)
        size = int(np.argmin([f.loo for f in fits])) if settings.by_leave_one_out else len(fits) - 1
        return Sizes(path, ridge, F, fits, size, shared)

    return min(map(one, settings.ridges), key=lambda sizes: sizes.best)


def two_levels(stack: Stack, candidates: Candidates, settings: Settings) -> Sizes:
    """A network for all rows, less the levels of the tasks; then task networks on its residuals."""
    structure = settings.structure
    pooled = replace(settings, structure=None if structure is None else structure.pooled())
    level, _ = best_constants(stack, no_functions(stack), 1.0)
    return best_path(stack, candidates, settings, best_path(stack.pooled().shifted(level.fit), candidates, pooled))


def network_of(stack: Stack, sizes: Sizes) -> Network:
    """The network of the chosen size of a path, of one level or of two."""
    recursion, F, N, found = sizes.path.recursion, sizes.F, sizes.size + 1, sizes.fits[sizes.size]
    shared, volume = None, 0.0
    if sizes.shared is not None:
        E = np.stack([recursion.coefficients(f)[:N] for f in F], axis=2).transpose(1, 0, 2)
        shared = SharedLevel(sizes.shared.basis, found.weights, found.L, E, sizes.shared.report())
        volume = log_determinant(found.L) - len(F) * float(np.log(sizes.shared.ridge))
    q, ridges = recursion.q[:N], np.array(recursion.ridge[:N])
    noise = noise_variance(stack, found.fit, found.leverage, found.loo)
    error = found.least + float(stack.scatter.sum())
    evidence = log_evidence(stack, volume + float(np.log(q / ridges[:, None]).sum()), error, noise)
    R = np.stack([recursion.factor(k, N) for k in range(stack.n_tasks)])
    b = recursion.coefficients(stack.root * stack.y - found.weights @ F)[:N]
    return Network(sizes.basis, R, q.copy(), b, float(ridges[0]), sizes.report(), noise, evidence, shared)


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


def joint_fits(recursion: Recursion, F: Array, ridge: float, y: Array) -> list[Fit]:
    """The joint fit for every size of the task level; F (N0 + 1, n) are weighted functions of the shared level.

    Without any such function it is the fit of the one level that there is.
    """
    n, Y, out = recursion.n, recursion.root * y, []
    U, Q = recursion.U[:n], recursion.q[:n]
    rests = Y - np.cumsum(U * recursion.at_cells(recursion.coefficients(Y)), axis=0)  # My
    leverages = np.cumsum(U**2 / recursion.at_cells(Q), axis=0)
    Z, L, w = F.copy(), np.zeros((0, 0)), np.zeros(0)
    for u, q, rest, leverage in zip(U, Q, rests, leverages, strict=True):
        if len(F):
            Z -= u * recursion.at_cells(recursion.sums(u * F) / q)
            B = F @ Z.T
            B = 0.5 * (B + B.T)
            B.flat[:: len(B) + 1] += ridge
            L = cholesky(B)
            w, r = solve(L, Z @ Y), solve_lower(L, Z)
            leverage = leverage + np.einsum("jn,jn->n", r, r)
        fit = (Y - rest + Z.T @ w) / recursion.root
        loo = recursion.stack.leave_one_out(fit, leverage)
        out.append(Fit(loo, fit, leverage, L, w, float(Y @ rest - (Z @ Y) @ w)))
    return out


def best_constants(stack: Stack, F: Array, ridge: float) -> tuple[Fit, float]:
    """The tasks' constants alone beside the shared functions F, and their ridge: that of least leave-one-out error."""
    found = [(joint_fits(absorb(stack, no_units(stack), r), F, ridge, stack.y)[0], r) for r in BIAS_RIDGES]
    return min(found, key=lambda one: one[0].loo)


def no_functions(stack: Stack) -> Array:
    """The functions of a shared level that is not there."""
    return np.zeros((0, len(stack.y)))


def no_units(stack: Stack) -> Basis:
    """No hidden units: the constant alone."""
    return Basis(stack.X[:0], np.zeros(0))


#: candidates="auto" takes every distinct input while the candidate matrix stays under so many bytes.
CANDIDATE_BYTES = 256 * 2**20
#: Ridges of the units and of the tasks' constants for choosing rows before any label exists.
UNSEEN_RIDGE, UNSEEN_BIAS_RIDGE = 0.1, 10.0


@dataclass(frozen=True)
class Problem:
    """Rows and settings of a design, in scaled units."""

    stack: Stack
    width: float
    settings: Settings
    scaling: Scaling
    most: int | str  # candidates to draw
    random: np.random.RandomState

    def candidates(self) -> Candidates:
        """The candidate matrix over the rows that choose the units: all of them where labels are not used."""
        base = self.stack if self.settings.structure is None else self.settings.structure
        return Candidates.at(draw_pool(base, self.most, self.random), base, self.width)

    def only(self, k: int) -> Problem:
        """Task k as the only one."""
        structure = None if self.settings.structure is None else self.settings.structure.only(k)
        return replace(self, stack=self.stack.only(k), settings=replace(self.settings, structure=structure))

    def networks(self, design: str) -> list[Network]:
        """The networks of a design: one per task where they are independent, else one."""
        if design == "independent":
            return [self.only(k).networks("")[0] for k in range(self.stack.n_tasks)]
        if not len(self.stack.y):
            return [unlabelled(self.stack)]
        search = two_levels if design == "two-level" else best_path
        return [network_of(self.stack, search(self.stack, self.candidates(), self.settings))]


def input_scales(X: Array, weight: Array) -> Array:
    """Range of columns with two values, two standard deviations of others, 1 where a column is constant.

    A standard deviation blows up rare dummies, so that a few rows lie far from all others; two of them put other
    columns on the footing of a balanced dummy.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    sd = np.sqrt(np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0, weights=weight))
    two_valued = np.all((low == X) | (high == X), axis=0)
    scales = np.where(two_valued, high - low, 2.0 * sd)
    return np.where(sd > 1e-12 * np.maximum(np.abs(X).max(axis=0), 1e-300), scales, 1.0)


def target_scaling(cells: Cells, normalize: bool) -> Scaling:
    """One centre for all tasks, one scale per task; the constants of the tasks carry their levels.

    A centre of its own for each task would hide from leave-one-out that a row has a part in its own task's mean.
    """
    M = len(cells.dof)
    if not normalize:
        return Scaling(np.zeros(M), np.ones(M), 0.0)
    scaling = scale(cells, np.diff(cells.starts) + cells.dof, True, ())
    return Scaling(np.full(M, np.average(cells.y, weights=cells.count)), scaling.scale, scaling.log_volume)


def typical_distance(stack: Stack) -> float:
    """Root mean squared distance of two rows; 1 where all inputs are equal."""
    mean = np.average(stack.X, axis=0, weights=stack.count)
    square = 2.0 * float(np.average((stack.X - mean) ** 2, axis=0, weights=stack.count).sum())
    return float(np.sqrt(square)) if square > 1e-20 * max(float(mean @ mean), 1e-300) else 1.0


def draw_pool(stack: Stack, candidates: Any, random: np.random.RandomState) -> Array:
    """Distinct inputs that may become centres: all of them, or a random part."""
    distinct = stack.X[np.sort(np.unique(stack.X, axis=0, return_index=True)[1])]  # in the order of the rows
    each = 8 * (len(stack.y) + 3 * stack.n_tasks)
    most = CANDIDATE_BYTES // each if candidates == "auto" else len(distinct) if candidates == "all" else candidates
    most = min(max(int(most), 1), len(distinct))
    what = f"the matrix of {most:,} candidates on {len(stack.y):,} distinct rows"
    memory.require(1.1 * each * most, what, "use candidates='auto', or a smaller number")
    if most < len(distinct):
        distinct = distinct[np.sort(random.choice(len(distinct), most, replace=False))]
    return distinct


def settings_of(e: Any, base: Stack, structure: Stack | None) -> tuple[float, Settings]:
    """The width of candidates, and how the levels of an estimator's network grow on these rows."""
    width = typical_distance(base) if e.width == "auto" else float(e.width)
    low, high = e.tune_width if isinstance(e.tune_width, (tuple, list)) else (width / 4.0, 4.0 * width)
    settings = Settings(
        int(e.max_basis if isinstance(e.n_basis, str) else e.n_basis),
        RIDGES if e.ridge == "auto" else (float(e.ridge),),
        e.n_basis == "auto",
        (float(low), float(high)) if e.tune_width else None,
        float(e.tol) if e.n_basis == "converged" else None,
        structure,
    )
    return width, settings


def prepare(e: Any, rows: Rows, scales: Array) -> Problem:
    """What the estimator's design is fitted to; the rows are in order."""
    if e.design == "one":
        rows = replace(rows, task=np.zeros_like(rows.task), labels=("all",)).in_order()
    M, seen = len(rows.labels), rows.labelled()[0]
    cells = merge(seen.X, seen.task, seen.y, seen.weight, seen.replicates, M, seen.columns)
    scaling = target_scaling(cells, e.normalize_y)
    stack, structure = stack_rows(seen, cells, scaling, scales), None
    if e.basis == "unsupervised":
        structure = stack_inputs(rows.X / scales, rows.task, rows.weight, M, rows.columns)
    width, settings = settings_of(e, stack if structure is None else structure, structure)
    return Problem(stack, width, settings, scaling, e.candidates, check_random_state(e.random_state))


def unlabelled(stack: Stack) -> Network:
    """A task without a labelled row: the overall mean, give or take the scale of the targets."""
    growth = Growth(1.0, np.zeros(2), np.zeros(1), True)
    return Network(no_units(stack), np.ones((1, 1, 1)), np.ones((1, 1)), np.zeros((1, 1)), 1.0, growth, 1.0, 0.0)


def unseen_features(e: Any, stack: Stack) -> tuple[Array, Array]:
    """Features of rows before any label exists: units chosen from the inputs, weights at their prior."""
    width, how = settings_of(e, stack, None)
    ridge = UNSEEN_RIDGE if e.ridge == "auto" else float(e.ridge)
    candidates = Candidates.at(draw_pool(stack, e.candidates, check_random_state(e.random_state)), stack, width)
    base = stack.pooled() if e.design == "two-level" else stack
    path = grow(base, candidates, stack.y, ridge, how.limit, bounds=how.bounds, unsupervised=True, tol=how.tol)
    features = activations(stack.X, path.basis).T / np.sqrt(ridge)
    if e.design == "two-level":
        return np.full((len(features), 1), UNSEEN_BIAS_RIDGE**-0.5), features
    return features, np.zeros((len(features), 0))


def merge_inputs(X: Array, task: Codes, n_tasks: int) -> tuple[Stack, list[list[int]]]:
    """Rows as cells, and the row numbers of each cell."""
    stack = stack_inputs(X, task, np.ones(len(X)), n_tasks)
    order = np.lexsort((*X.T[::-1], task))
    ends = np.cumsum(stack.count).astype(int)[:-1]
    return stack, [sorted(part.tolist()) for part in np.split(order, ends)]
