"""How the rows of all tasks lie in memory, and which of them are factored together.

On the host every task is a block of its own and rows lie as they came. On a GPU many small factorisations cost mostly
their launching, so tasks whose kernels have one form and whose sizes are near each other are one block (T, n, ...):
smaller ones are padded with rows that repeat one of theirs and have no site (w = 0). Such a row leaves the factor, the
evidence and every adjoint as they are, to the bit: its part of A = I + w E w is the identity.

Factors are of A = I + w E w, the covariance of a task's unit-noise observations; E is its own part and the residual.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from borrow.data.cells import Codes
from borrow.numerics import linalg
from borrow.numerics.device import Device
from borrow.numerics.linalg import Array, is_tensor, namespace


@dataclass(frozen=True)
class DenseFactor:
    """chol(A) of a task with its own kernel, or of several."""

    L: Array

    @classmethod
    def of(cls, K: Array, e: Array, w: Array) -> DenseFactor:
        """The factor where E = K + diag(e)."""
        A = K * w[..., None, :]
        A *= w[..., None]
        linalg.add_diagonal(A, w * w * e + 1.0)
        return cls(linalg.cholesky(A, overwrite=True))

    def half(self, B: Array) -> Array:
        """L^-1 B, with A = L L' the covariance of the unit-noise observations."""
        return linalg.solve_lower(self.L, B)

    def half_transposed(self, B: Array) -> Array:
        """L^-T B, so that `half_transposed(half(B))` is A^-1 B."""
        return linalg.solve_lower_transposed(self.L, B)

    def log_determinant(self) -> float:
        """log |A|: what the task's observations take from its evidence, twice."""
        return linalg.log_determinant(self.L)

    def log_determinants(self) -> Array:
        """The same of each task, where there are several."""
        return linalg.to_host(2.0 * namespace(self.L).log(linalg.diagonal(self.L)).sum(-1))

    def adjoint(self, R: Array, alpha: Array) -> Array:
        """alpha alpha' + R R' - A^-1, folded: it is summed with symmetric matrices only."""
        return linalg.gram_minus_inverse_folded(namespace(R).concatenate([R, alpha[..., None]], axis=-1), self.L)

    def only(self, i: int | None, rows: slice) -> DenseFactor:
        """The factor of one task, number i of several, without padding."""
        n = rows.stop - rows.start
        return self if i is None else DenseFactor(self.L[i, :n, :n])


@dataclass(frozen=True)
class DiagonalFactor:
    """The same for a task whose residual covariance is diagonal (the primary)."""

    root: Array

    @classmethod
    def of(cls, e: Array, w: Array) -> DiagonalFactor:
        """The factor where E = diag(e)."""
        return cls(namespace(w).sqrt(1.0 + w * w * e))

    def half(self, B: Array) -> Array:
        """L^-1 B, where L is the diagonal matrix of the roots; it is its own transpose."""
        return B / self.root if B.ndim == 1 else B / self.root[:, None]

    half_transposed = half

    def log_determinant(self) -> float:
        """log |A|, the sum of the logarithms of the squared roots."""
        return 2.0 * float(namespace(self.root).log(self.root).sum())

    def adjoint(self, R: Array, alpha: Array) -> Array:
        """The diagonal of alpha alpha' + R R' - A^-1: nothing else of it reaches a diagonal covariance."""
        return linalg.row_dots(R, R) + alpha * alpha - self.root**-2

    def only(self, i: int | None, rows: slice) -> DiagonalFactor:
        """The factor of one task, whose rows these are."""
        return DiagonalFactor(self.root[rows])


#: Tasks up to this size are padded, to at most so many times their size, and never to less than the least size.
PADDED, STRETCH, LEAST = 1024, 1.25, 32
#: Entries of the matrices of one block, at most: 1 GiB of them.
MOST_ENTRIES = 2**27


@dataclass(frozen=True)
class Block:
    """Rows `at` of the layout; with `size`, one leading entry for each of the tasks, so many rows each."""

    tasks: tuple[int, ...]
    at: slice
    size: int | None = None

    def of(self, A: Any) -> Any:
        """The block's part of an array with one row for each row of the layout."""
        part = A[self.at]
        return part if self.size is None else part.reshape(len(self.tasks), self.size, *A.shape[1:])

    def put(self, A: Any, values: Any) -> None:
        """Put values, shaped as `of` gives them, in the place of the block's part of A."""
        A[self.at] = values if self.size is None else values.reshape(len(self.tasks) * self.size, *A.shape[1:])


@dataclass(frozen=True)
class Layout:
    """Blocks, and the places of rows. `index` holds the row of every place; None where nothing moves."""

    starts: Codes
    first: Codes  # (M,): place of each task's first row
    blocks: list[Block]
    index: Any = None  # (places,) beside the inputs
    position: Any = None  # (n,): place of every row
    real: Any = None  # (places,): 0 for padding, else 1
    task: Any = None  # (places,) codes, on the host
    codes: Any = None  # the same beside the inputs

    def beside(self, X: Any) -> Layout:
        """The same with its indices beside the tensor X."""
        put = Device(str(X.device)).put
        index, position, codes = put(self.index), put(self.position), put(self.task)
        real = X.new_zeros(len(index)).index_fill_(0, position, 1.0)
        return replace(self, index=index, position=position, real=real, codes=codes)

    def rows(self, t: int) -> slice:
        """Places of the rows of task t."""
        n = int(self.starts[t + 1] - self.starts[t])
        return slice(int(self.first[t]), int(self.first[t]) + n)

    def at_places(self, v: Any, X: Any) -> Any:
        """One number per row, at its place; 0 for padding."""
        if self.index is None:
            return v
        v = v if is_tensor(v) else X.new_tensor(v)
        return v[self.index] * self.real

    def of_tasks(self, v: Any, X: Any) -> Any:
        """One number per task, at the places of its rows."""
        return v[self.task] if self.index is None else X.new_tensor(np.ascontiguousarray(v))[self.codes]

    def collect(self, v: Any) -> Any:
        """One entry per row, in the order that rows came in, of an array with one per place: `at_places` undone."""
        return v if self.index is None else v[self.position]

    def place_of(self, t: int) -> tuple[int, int | None]:
        """Number of the block of task t, and of its part there."""
        b, block = next((b, block) for b, block in enumerate(self.blocks) if t in block.tasks)
        return b, block.tasks.index(t) if block.size is not None else None


def by_task(starts: Codes) -> Layout:
    """Every task a block, rows as they are."""
    blocks = [Block((t,), slice(i, j)) for t, (i, j) in enumerate(pairwise(starts.tolist()))]
    return Layout(starts, starts[:-1], blocks, task=np.repeat(np.arange(len(blocks)), np.diff(starts)))


def by_size(starts: Codes, forms: Sequence[Hashable]) -> Layout:
    """Tasks of one form and about one size together; tasks without rows are in no block. Still on the host.

    Tasks of the form "none" have diagonal factors and are one block whatever their sizes.
    """
    sizes = np.diff(starts)
    groups: dict[Hashable, list[int]] = {}
    for t in np.argsort(-sizes, kind="stable").tolist():
        if sizes[t]:
            groups.setdefault(forms[t], []).append(t)
    blocks: list[Block] = []
    first, places, real, task = np.zeros(len(sizes), dtype=np.intp), [], [], []
    end = 0
    for form, members in groups.items():
        for tasks in [members] if form == "none" else alike(members, sizes):
            size = None if form == "none" or len(tasks) == 1 else int(sizes[tasks[0]])
            begin = end
            for t in tasks:
                n, width = int(sizes[t]), int(sizes[t] if size is None else size)
                places.append(np.minimum(np.arange(width), n - 1) + starts[t])
                real.append(np.arange(width) < n)
                task.append(np.full(width, t))
                first[t], end = end, end + width
            blocks.append(Block(tuple(tasks), slice(begin, end), size))
    index = np.concatenate(places) if places else np.zeros(0, dtype=np.intp)
    kept = np.flatnonzero(np.concatenate(real)) if real else np.zeros(0, dtype=np.intp)
    position = np.empty(int(starts[-1]), dtype=np.intp)
    position[index[kept]] = kept
    codes = np.concatenate(task) if task else np.zeros(0, dtype=np.intp)
    return Layout(starts, first, blocks, index, position, task=codes)


def alike(members: list[int], sizes: Codes) -> list[list[int]]:
    """Members, largest first, cut where the next would be padded too much, or a block would grow too large."""
    out: list[list[int]] = []
    for t in members:
        largest = int(sizes[out[-1][0]]) if out else 0
        near = largest == sizes[t] or (largest <= PADDED and largest <= max(STRETCH * sizes[t], LEAST))
        if out and near and (len(out[-1]) + 1) * largest**2 <= MOST_ENTRIES:
            out[-1].append(t)
        else:
            out.append([t])
    return out
