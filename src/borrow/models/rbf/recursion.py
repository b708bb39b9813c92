"""The algebra under the RBF network: ridge regressions of all tasks on a basis that grows by one function a step.

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

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from borrow.data.cells import Cells, Codes, Rows, begins
from borrow.data.scaling import Scaling
from borrow.numerics.linalg import Array


@dataclass(frozen=True)
class LeaveOut:
    """Rows of a cell with equal precision, which leaving one out treats alike; mostly one entry a cell."""

    cell: Codes  # (a,)
    y: Array  # mean
    precision: Array  # of all of them, in units of one row
    one: Array  # of the one that is left out
    scatter: Array  # sum of squares around the mean, times precision of a row


@dataclass(frozen=True)
class Stack:
    """Cells of all tasks, stacked by task; without targets `y` is zero."""

    X: Array  # (n, d)
    y: Array  # (n,)
    count: Array  # (n,)
    starts: Codes  # (M + 1,)
    rows: LeaveOut
    dof: Array  # (M,): rows more than cells
    log_constant: Array  # (M,): of the density of the rows, beside that of the weighted cells

    @property
    def n_tasks(self) -> int:
        """Number of tasks, those without a row included."""
        return len(self.starts) - 1

    @property
    def root(self) -> Array:
        """Weights of the cells in the regressions."""
        return np.sqrt(self.count)

    @property
    def n_rows(self) -> float:
        """Rows, by their precision."""
        return float(self.count.sum())

    def blocks(self) -> list[tuple[int, slice]]:
        """Tasks that have cells, and where these are."""
        ends = self.starts.tolist()
        return [(k, slice(i, j)) for k, (i, j) in enumerate(pairwise(ends)) if j > i]

    def only(self, k: int) -> Stack:
        """Task k as the only one."""
        low, high = int(self.starts[k]), int(self.starts[k + 1])
        r = self.rows
        mine = (r.cell >= low) & (r.cell < high)
        part = LeaveOut(r.cell[mine] - low, *(v[mine] for v in (r.y, r.precision, r.one, r.scatter)))
        at = slice(low, high)
        constants = self.dof[k : k + 1], self.log_constant[k : k + 1]
        return Stack(self.X[at], self.y[at], self.count[at], np.array([0, high - low]), part, *constants)

    def pooled(self) -> Stack:
        """All cells as one task."""
        sums = {name: getattr(self, name).sum(keepdims=True) for name in ("dof", "log_constant")}
        return replace(self, starts=np.array([0, len(self.y)]), **sums)

    def within(self) -> float:
        """Sum of squares of the rows around the means of their cells."""
        r = self.rows
        return float((r.precision * (r.y - self.y[r.cell]) ** 2 + r.scatter).sum())


def stack_rows(rows: Rows, cells: Cells, scaling: Scaling, input_scales: Array) -> Stack:
    """The labelled rows, scaled; `cells` are the same rows merged, in the units of y as given."""
    seen = rows.in_order()
    seen = seen.take(np.isfinite(seen.y))
    y = (seen.y - scaling.center[seen.task]) / scaling.scale[seen.task]
    cell = begins(seen.X, seen.task).cumsum() - 1
    order = np.lexsort((seen.replicates, cell))
    cell, y, weight, k = cell[order], y[order], seen.weight[order], seen.replicates[order]
    new = begins(k[:, None], cell)
    group, first = new.cumsum() - 1, np.flatnonzero(new)
    precision: Array = np.bincount(group, weight * k).astype(float)
    mean = y[first] + np.bincount(group, weight * k * (y - y[first][group])) / precision
    scatter: Array = np.bincount(group, weight * k * (y - mean[group]) ** 2).astype(float)
    leave = LeaveOut(cell[first], mean, precision, np.minimum(k[first], precision), scatter)
    scaled = (cells.y - scaling.center[cells.task]) / scaling.scale[cells.task]
    # `merge` counts a cell as N(mean; f, noise/count); the regressions, as the root of its count times that.
    constant = cells.log_count + 0.5 * np.bincount(cells.task, np.log(cells.count), minlength=len(cells.dof))
    return Stack(cells.X / input_scales, scaled, cells.count, cells.starts, leave, cells.dof, constant)


def stack_inputs(X: Array, task: Codes, weight: Array, n_tasks: int) -> Stack:
    """Rows without targets."""
    order = np.lexsort((*X.T[::-1], task))
    X, task, weight = X[order], task[order], weight[order]
    new = begins(X, task)
    cell, first = new.cumsum() - 1, np.flatnonzero(new)
    count = np.bincount(cell, weight).astype(float)
    starts = np.searchsorted(task[first], np.arange(n_tasks + 1))
    zero = np.zeros(len(first))
    leave, none = LeaveOut(np.arange(len(first)), zero, count, count, zero), np.zeros(n_tasks)
    return Stack(X[first], zero, count, starts, leave, none, none)


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

    def spread(self, by_task: Array) -> Array:
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


def leave_one_out(rows: LeaveOut, count: Array, fit: Array, leverage: Array) -> float:
    """Mean squared error of every row predicted without itself (PRESS); `fit` and `leverage` are of the cells."""
    kept = 1.0 - rows.one / count[rows.cell] * np.minimum(leverage, 1.0)[rows.cell]
    error = rows.precision * (rows.y - fit[rows.cell]) ** 2 + rows.scatter
    return float((error / np.maximum(kept, 1e-12) ** 2).sum() / rows.precision.sum())
