"""The algebra under the RBF network: ridge regressions of all tasks on a basis that grows by one function per step.

For task k with rows Φ (n_k, N), ridge ρ and A = Φ'Φ + ρI let M = I - Φ A^-1 Φ'. For each function keep

    u_j = M φ_j = φ_j - Σ_i u_i (u_i'φ_j)/q_i,     q_j = u_j'φ_j + ρ,     b_j = u_j'y/q_j

(M before φ_j is added). Then M ← M - u_j u_j'/q_j, so every quantity of the fit is a sum over the functions:

    fit = Σ u_j b_j,   error y'My + ... falls by q_j b_j²,   leverages Σ u_j²/q_j,   log |A| = Σ log q_j,
    A = R' diag(q) R with R_ij = u_i'φ_j/q_i (unit upper triangular),   weights R^-1 b,   U(x) = Φ(x) R^-1.

A is never formed and never inverted: the printed block inverse loses all digits by 20 units where functions are wide.
The ridge may differ from function to function; q_j ≥ ρ_j holds exactly and is enforced against rounding.

**Rows.** Identical rows of a task are one cell, weighted by the root of its count: the same A and Φ'y. Leaving one
*row* of such a cell out is exact too: with leverage h of the cell and count k, the row's is h/k, and its error without
itself is (y - f)/(1 - h/k).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from borrow.data.cells import Cells, Codes, Rows, begins, merge
from borrow.data.scaling import Scaling
from borrow.numerics.linalg import Array


@dataclass(frozen=True)
class LeaveOut:
    """Rows of a cell with equal precision, which leaving one out treats alike; mostly one entry per cell."""

    cell: Codes  # (a,)
    y: Array  # mean
    precision: Array  # of all of them, in units of one row
    one: Array  # of the one that is left out
    scatter: Array  # sum of squares around the mean, times precision of a row


@dataclass(frozen=True)
class Stack(Cells):
    """Cells of all tasks in scaled units, with what leaving a row out needs; without targets `y` is zero."""

    rows: LeaveOut = field(kw_only=True)

    @property
    def root(self) -> Array:
        """Weights of the cells in the regressions."""
        return np.sqrt(self.count)

    def blocks(self) -> list[tuple[int, slice]]:
        """Tasks that have cells, and where these are."""
        return [(k, at) for k in range(self.n_tasks) if (at := self.of(k)).stop > at.start]

    def only(self, t: int) -> Stack:
        """Task t as the only one."""
        at, r = self.of(t), self.rows
        mine = (r.cell >= at.start) & (r.cell < at.stop)
        rows = LeaveOut(r.cell[mine] - at.start, *(v[mine] for v in (r.y, r.precision, r.one, r.scatter)))
        return Stack(**vars(super().only(t)), rows=rows)

    def pooled(self) -> Stack:
        """All cells as one task."""
        sums = {name: getattr(self, name).sum(keepdims=True) for name in ("dof", "scatter", "log_count")}
        return replace(self, starts=np.array([0, len(self.y)]), **sums)

    def shifted(self, by: Array) -> Stack:
        """The same rows with `by` (n,) taken from the targets of each cell."""
        return replace(self, y=self.y - by, rows=replace(self.rows, y=self.rows.y - by[self.rows.cell]))

    def squares(self, fit: Array) -> Array:
        """Sums of squares of the rows around what is fitted to their cells, one entry per entry of `rows`."""
        r = self.rows
        return r.precision * (r.y - fit[r.cell]) ** 2 + r.scatter

    def leave_one_out(self, fit: Array, leverage: Array) -> float:
        """Mean squared error of every row predicted without itself (PRESS); `fit` and `leverage` are of the cells."""
        r = self.rows
        kept = 1.0 - r.one / self.count[r.cell] * np.minimum(leverage, 1.0)[r.cell]
        return float((self.squares(fit) / np.maximum(kept, 1e-12) ** 2).sum() / r.precision.sum())


def stack_rows(rows: Rows, cells: Cells, scaling: Scaling, input_scales: Array) -> Stack:
    """The labelled rows, scaled; `cells` are the same rows merged, in the units of y as given."""
    seen = rows.in_order()
    seen = seen.take(np.isfinite(seen.y))
    y = scaling.scaled(seen.y, seen.task)
    cell = begins(seen.X, seen.task).cumsum() - 1
    order = np.lexsort((seen.replicates, cell))
    cell, y, weight, k = cell[order], y[order], seen.weight[order], seen.replicates[order]
    new = begins(k[:, None], cell)
    group, first = new.cumsum() - 1, np.flatnonzero(new)
    precision: Array = np.bincount(group, weight * k).astype(float)
    mean = y[first] + np.bincount(group, weight * k * (y - y[first][group])) / precision
    scatter: Array = np.bincount(group, weight * k * (y - mean[group]) ** 2).astype(float)
    leave = LeaveOut(cell[first], mean, precision, np.minimum(k[first], precision), scatter)
    y, scatter = scaling.scaled(cells.y, cells.task), cells.scatter / scaling.scale**2
    scaled = replace(cells, X=cells.X / input_scales, y=y, scatter=scatter)
    return Stack(**vars(scaled), rows=leave)


def stack_inputs(X: Array, task: Codes, weight: Array, n_tasks: int, columns: Codes | None = None) -> Stack:
    """Rows without targets."""
    zero, one = np.zeros(len(X)), np.ones(len(X))
    cells, none = merge(X, task, zero, weight, one, n_tasks, columns), np.zeros(n_tasks)
    rows = Rows(X, task, tuple(range(n_tasks)), zero, weight, one, columns=columns)
    return stack_rows(rows, cells, Scaling(none, none + 1.0, 0.0), np.ones(X.shape[1]))


class Recursion:
    """u_j, q_j, R and b of the functions added so far, for all tasks of a stack."""

    def __init__(self, stack: Stack, capacity: int) -> None:
        self.stack, self.n = stack, 0
        self.root, self.blocks = stack.root, stack.blocks()
        self.U = np.empty((capacity, len(stack.y)))
        self.q = np.empty((capacity, stack.n_tasks))
        self.R: list[Array] = []  # R[j][i, k] = u_i'φ_j/q_i of task k, i < j
        self.ridge: list[float] = []

    def sums(self, values: Array) -> Array:
        """Sums over the cells of each task, along the last axis."""
        out = np.zeros((*values.shape[:-1], self.stack.n_tasks))
        filled = [k for k, _ in self.blocks]
        out[..., filled] = np.add.reduceat(values, [at.start for _, at in self.blocks], axis=-1)
        return out

    def at_cells(self, by_task: Array) -> Array:
        """A value of each task at every cell of it, along the last axis."""
        return np.repeat(by_task, np.diff(self.stack.starts), axis=-1)

    def project(self, F: Array) -> tuple[Array, Array]:
        """M φ for weighted functions F (m, n), and u_i'φ/q_i of those added before (n_units, m, M)."""
        V, T = F.copy(), np.zeros((self.n, len(F), self.stack.n_tasks))
        for k, at in self.blocks if self.n else ():
            U = self.U[: self.n, at]
            T[:, :, k] = (U @ F[:, at].T) / self.q[: self.n, k, None]
            V[:, at] -= T[:, :, k].T @ U
        return V, T

    def pivots(self, F: Array, V: Array, ridge: float) -> Array:
        """q = φ'Mφ + ρ of each task; never under ρ, whatever rounding makes of it."""
        return np.maximum(self.sums(V * F), 0.0) + ridge

    def add(self, phi: Array, ridge: float) -> None:
        """Add the function with weighted values phi (n,)."""
        V, T = self.project(phi[None])
        self.U[self.n], self.q[self.n] = V[0], self.pivots(phi[None], V, ridge)[0]
        self.R.append(T[:, 0])
        self.ridge.append(ridge)
        self.n += 1

    def coefficients(self, y: Array) -> Array:
        """b_j = u_j'y/q_j of every function and task, for weighted targets y (n,)."""
        return self.sums(self.U[: self.n] * y) / self.q[: self.n]

    def factor(self, k: int, n: int) -> Array:
        """R' of task k and the first n functions: lower triangular, ones on the diagonal."""
        L = np.zeros((n, n), order="F")
        for j in range(n):
            L[j, :j], L[j, j] = self.R[j][:, k], 1.0
        return L
