"""Multi-task radial basis function network.

X. Liao, L. Carin: Radial basis function network for multi-task learning. NIPS 18, 2006.

| symbol           | name here                          | shape                                                |
|------------------|------------------------------------|------------------------------------------------------|
| K, J_k           | `stack.n_tasks`, rows of a task    |                                                      |
| x_ik, y_ik       | `stack.X`, `stack.y`, cells        | (n, d), (n,), identical rows merged with their count |
| φ^n(x), c_n, σ_n | `Basis`: `centers`, `widths`       | (N, d), (N,); φ^0 = 1 is not listed                  |
| φ̂^nm             | `Candidates.values`                | (n, m), every distinct input a candidate             |
| w_k              | R^-1 b, see `recursion.py`          | (N + 1,) for each task                               |
| A_k, c_k, d_k    | never formed: A = R' diag(q) R     |                                                      |
| q_k, g_k         | `Q`, `G` of all candidates         | (M, m)                                               |
| ρ                | `ridge` (that of φ^0: `bias_ridge`)|                                                      |
| e_n              | `Path.trace`                       | (N + 2,), without any unit first                     |

| equation | function                                                              |
|----------|-----------------------------------------------------------------------|
| (1)      | `activations`                                                         |
| (2)-(4)  | `grow`: what is left of the error, weights at their best, `Path.trace` |
| (5), (6) | `error_reductions`: all candidates at once, no refit                  |
| (5), T 1 | `grow`: Table 1, steps 2 to 10                                        |
| (5), T 1 | `tuned_width`: Table 1, step 6                                        |
| sec. 4   | `determinant_gains`: the unsupervised criterion                       |
| sec. 4   | `select_rows`: the next rows to label, by Corollary 2                 |

Deviations, each with its reason:
- Table 1 updates A^-1 by the printed block inverse (A-2). With wide functions that loses every digit by 20 units; here
  u_j = M φ_j and its pivot q_j are kept instead (`recursion.py`): one read-only pass over the candidates per step.
- "If q_k = 0, delete": q_k ≥ ρ > 0 always. It is clamped there; nothing is deleted but what was chosen.
- The paper drops det(ρI) from the unsupervised criterion as a constant. It depends on N: the trace would jump by
  2K ln ρ per unit. Choices at a step are the same; the trace here adds -2 Σ_k ln(q_k/ρ), falling from 0 for any ρ.
- Corollary 2 prints A_k = Σ_i [ρI + φφ']; ρI stands outside the sum, as in (3).
- "Converged" (step 9) is not defined: here, a decrease under `tol` of the error at hand. It is the paper's rule, not
  our default, since it overfits: every unit gives each task a weight more, and the training error goes on falling.
- Tuned widths have a floor and a ceiling. Without a floor a unit can become a spike on one row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from borrow.data.cells import Codes
from borrow.models.rbf.recursion import Recursion, Stack
from borrow.numerics.linalg import Array, squared_distances
from borrow.numerics.stored import stored

#: Rows of the candidate matrix that are filled at a time.
CHUNK = 256
#: A step that lowers the error by less than this part of what it was at first is rounding.
NOTHING = 1e-13


@stored("rbf-basis")
@dataclass(frozen=True)
class Basis:
    """Hidden units beside the constant."""

    centers: Array  # (N, d)
    widths: Array  # (N,)

    def first(self, n: int) -> Basis:
        """The first n units."""
        return Basis(self.centers[:n], self.widths[:n])


def gaussian_unit(square: Array, width: float | Array) -> Array:
    """A unit of (1) at these squared distances from its centre: exp(-|x - c|²/2σ²)."""
    return np.exp(-0.5 * square / width**2)  # eq. 1


def activations(X: Array, basis: Basis) -> Array:
    """φ(x) of (1): (N + 1, n), the constant first, then the units."""
    out = np.ones((len(basis.widths) + 1, len(X)))
    out[1:] = gaussian_unit(squared_distances(basis.centers, X), basis.widths[:, None])
    return out


@dataclass(frozen=True)
class Candidates:
    """Units that may be chosen, all of one width, as weighted columns over the cells of a stack."""

    X: Array  # (m, d)
    width: float
    values: Array  # (n, m)

    @classmethod
    def at(cls, X: Array, stack: Stack, width: float) -> Candidates:
        """Evaluate the candidates in chunks of rows, so that nothing beside the matrix itself is large."""
        values, root = np.empty((len(stack.y), len(X))), stack.root
        for i in range(0, len(values), CHUNK):
            part = values[i : i + CHUNK]
            np.exp(squared_distances(stack.X[i : i + CHUNK], X) * (-0.5 / width**2), out=part)
            part *= root[i : i + CHUNK, None]
        return cls(X, width, values)


@dataclass(frozen=True)
class Path:
    """Networks of every size up to the largest: each is the first units of the next."""

    recursion: Recursion
    basis: Basis
    trace: Array  # e_0, e_1, ...
    converged: bool


def error_reductions(G: Array, Q: Array) -> Array:
    """δe of (5) for every candidate: Σ_k g_k²/q_k, with q_k of (6); arrays (M, m)."""
    return np.einsum("km,km->m", G, G / Q)  # eq. 5


def determinant_gains(Q: Array, ridge: float) -> Array:
    """2 Σ_k ln(q_k/ρ) for every candidate: what it adds to ln det of Corollary 1's Γ (sec. 4)."""
    return 2.0 * np.log(Q / ridge).sum(axis=0)  # Corollary 1


def grow(
    stack: Stack,
    candidates: Candidates,
    y: Array,
    ridge: float,
    limit: int,
    *,
    bias_ridge: float | None = None,
    bounds: tuple[float, float] | None = None,
    unsupervised: bool = False,
    tol: float | None = None,
) -> Path:
    """Table 1: add the candidate of largest δe of (5) (of `determinant_gains`, unsupervised) until `limit` units.

    The trace is e(φ) of (4), the minimum of (2) over the weights of (3), at every size.
    `y` are the targets of the cells, `bounds` those of tuned widths (None: not tuned), `tol` the convergence rule.
    """
    recursion = Recursion(stack, limit + 1)
    C, Y = candidates.values, recursion.root * y
    by_task = [(k, at, C[at]) for k, at in recursion.blocks]
    Q, G = np.full((stack.n_tasks, C.shape[1]), ridge), np.zeros((stack.n_tasks, C.shape[1]))
    for k, at, block in by_task:
        Q[k] += np.einsum("im,im->m", block, block)
        G[k] = Y[at] @ block
    trace = [0.0 if unsupervised else float(Y @ Y) + float(stack.scatter.sum())]
    residual, open_, converged = Y.copy(), np.ones(C.shape[1], dtype=bool), tol is None
    chosen: list[int] = []
    widths: list[float] = []
    phi, rho = recursion.root, ridge if bias_ridge is None else bias_ridge
    while True:
        recursion.add(phi, rho)
        u, q = recursion.U[recursion.n - 1], recursion.q[recursion.n - 1]
        b = recursion.sums(u * Y) / q
        residual -= u * recursion.at_cells(b)
        fall = determinant_gains(q[:, None], rho)[0] if unsupervised else float(q @ b**2)
        if tol is not None and chosen and fall <= tol * abs(trace[-1]):
            converged = True
        trace.append(trace[-1] - fall)  # eqs. 2, 3, 4: with weights at their best, Σ y² - Σ_j q_j b_j²
        converged |= not open_.any()  # step 4: no candidate is left
        if len(chosen) == limit or (converged and tol is not None) or not open_.any():
            break
        for k, at, block in by_task:
            T = u[at] @ block
            G[k] -= T * b[k]
            T *= T
            T /= q[k]
            Q[k] -= T  # eq. 6
        np.maximum(Q, ridge, out=Q)
        gains = determinant_gains(Q, ridge) if unsupervised else error_reductions(G, Q)
        gains[~open_] = -np.inf
        best = int(np.argmax(gains))  # Table 1, step 5
        if gains[best] <= NOTHING * (1.0 if unsupervised else trace[0]):
            converged = True
            break
        open_[best] = False
        square = squared_distances(candidates.X[best : best + 1], stack.X)[0]
        width, rho = candidates.width, ridge
        if bounds is not None:
            width = tuned_width(recursion, square, residual, ridge, width, bounds, unsupervised)  # step 6
        phi = recursion.root * gaussian_unit(square, width)
        chosen.append(best)
        widths.append(width)
    return Path(recursion, Basis(candidates.X[chosen], np.array(widths)), np.array(trace), converged)


def tuned_width(
    recursion: Recursion,
    square: Array,
    residual: Array,
    ridge: float,
    start: float,
    bounds: tuple[float, float],
    unsupervised: bool,
) -> float:
    """Step 6 of Table 1: the width of largest δe (5), uphill from `start` as the paper has it, then by finer grids.

    Uphill means to the nearest maximum over the logarithm of the width, in steps of a quarter: the highest of all is
    often a spike. `square` are squared distances to the centre, `residual` the weighted residuals My, so that g = φ'My.
    """

    def gains(widths: Array) -> Array:
        F = recursion.root * gaussian_unit(square, widths[:, None])
        Q = recursion.pivots(F, recursion.project(F)[0], ridge).T
        return determinant_gains(Q, ridge) if unsupervised else error_reductions(recursion.sums(F * residual).T, Q)

    low, high, step = np.log(bounds[0]), np.log(bounds[1]), np.log(1.25)
    at = float(np.clip(np.log(start), low, high))
    down, up = int(np.ceil((at - low) / step)), int(np.ceil((high - at) / step))
    grid = np.clip(at + step * np.arange(-down, up + 1), low, high)
    values = gains(np.exp(grid))
    i, padded = down, np.concatenate([[-np.inf], values, [-np.inf]])
    way = 1 if padded[i + 2] >= padded[i] else -1  # values[i + 1] against values[i - 1]
    while padded[i + 1 + way] > padded[i + 1]:
        i += way
    best, most = grid[i], values[i]
    for _ in range(2):
        grid = np.clip(np.linspace(best - step, best + step, 9), low, high)
        values, step = gains(np.exp(grid)), step / 4.0
        if values.max() > most:
            best, most = grid[np.argmax(values)], values.max()
    return float(np.exp(best))


def absorb(stack: Stack, basis: Basis, ridge: float, bias_ridge: float | None = None) -> Recursion:
    """The recursion of labelled rows on units that were chosen without labels."""
    recursion = Recursion(stack, len(basis.widths) + 1)
    ridges = [ridge if bias_ridge is None else bias_ridge] + [ridge] * len(basis.widths)
    for phi, rho in zip(activations(stack.X, basis) * recursion.root, ridges, strict=True):
        recursion.add(phi, rho)
    return recursion


def select_rows(own: Array, shared: Array, starts: Codes, left: Array, room: Array, n: int) -> list[tuple[int, float]]:
    """The next n (cell, γ) to label, each the one of largest γ given those before (Corollary 2, sec. 4).

    `own` (n, N + 1) are the features L^-1 φ of each cell in its task, A = LL', so φ'A^-1φ is the sum of their squares.
    Labelling a cell makes A + φφ' = L (I + zz') L' of it, z = L^-1 φ, and L^-1 becomes (I - c zz') L^-1 but for a turn,
    c = (1 - 1/√(1 + z'z))/z'z: a product that shrinks, so A is neither formed nor inverted. `shared` (n, N0 + 1) is the
    same for a level that all tasks share, given the task's own (zero columns without one): labelling cell i takes
    z_i (own_j'own_i)/(1 + own_i'own_i) from the shared part of every cell j of its task, and what is left of i there,
    over √(1 + own_i'own_i), is a row that the shared level has seen.
    `left` is how many rows a cell has, `room` how many may come from each task.
    """
    own, shared, left, room = own.copy(), shared.copy(), left.copy(), room.copy()
    task = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    s, t = np.einsum("ij,ij->i", own, own), np.einsum("ij,ij->i", shared, shared)
    closed = (left < 1) | (room[task] < 1)
    out: list[tuple[int, float]] = []
    while len(out) < n and not closed.all():
        i = int(np.argmax(np.where(closed, -1.0, s + t)))  # Corollary 2
        k, z, d = int(task[i]), own[i].copy(), 1.0 + float(s[i])
        at = slice(int(starts[k]), int(starts[k + 1]))
        out.append((i, (d + float(t[i])) ** 2))
        along = own[at] @ z
        if shared.shape[1]:
            seen = shared[i] / np.sqrt(d)
            shared[at] -= np.outer(along / d, shared[i].copy())
            _contract(shared, seen)
            t = np.einsum("ij,ij->i", shared, shared)
        _contract(own[at], z)
        s[at] = np.einsum("ij,ij->i", own[at], own[at])
        left[i] -= 1
        room[k] -= 1
        closed[i] |= left[i] < 1
        if room[k] < 1:
            closed[at] = True
    return out


def _contract(B: Array, z: Array) -> None:
    """B ← B (I - c zz') in place, with (I - c zz')² = (I + zz')^-1."""
    square = float(z @ z)
    if square > 0.0:
        root = np.sqrt(1.0 + square)
        B -= np.outer(B @ z, z / (root * (1.0 + root)))
