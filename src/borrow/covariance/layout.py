"""Where the rows of all tasks lie: distinct inputs, which row is at which, and which rows are factored together.

Matrices over all rows are made again from a `Design` where they are needed, and do not travel (`Rebuilt`).

On the host every task is a block of its own and rows lie as they came. On a GPU many small factorisations cost mostly
their launching, so tasks whose kernels have one form and whose sizes are near each other are one block (T, n, ...):
smaller ones are padded with rows that repeat one of theirs and have no site (w = 0). Such a row leaves the factor, the
evidence and every adjoint as they are, to the bit: its part of A = I + w E w is the identity.

Factors are of A = I + w E w, the covariance of a task's unit-noise observations; E is its own part and the residual.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from borrow.data.cells import Cells, Codes, Stacked
from borrow.kernels import Kernel
from borrow.kernels.compose import TaskKernels
from borrow.numerics import linalg
from borrow.numerics.device import Device, place
from borrow.numerics.linalg import Array, as_type_of, namespace, rows_first, sparse_product
from borrow.numerics.stored import stored


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

    def placed(self, put: Callable[[Any], Any]) -> Layout:
        """The same with its indices put where matrices are computed."""
        if self.index is None:
            return self
        index, position, real, codes = map(put, (self.index, self.position, self.real, self.task))
        return replace(self, index=index, position=position, real=real, codes=codes)

    def rows(self, t: int) -> slice:
        """Places of the rows of task t."""
        n = int(self.starts[t + 1] - self.starts[t])
        return slice(int(self.first[t]), int(self.first[t]) + n)

    def rows_at_places(self, X: Any) -> Any:
        """The rows of X at their places; padding repeats one of its task."""
        return X if self.index is None else X[self.index]

    def at_places(self, v: Any) -> Any:
        """One number per row, at its place; 0 for padding."""
        return v if self.index is None else as_type_of(self.real, v)[self.index] * self.real

    def of_tasks(self, v: Any) -> Any:
        """One number per task, at the places of its rows."""
        return as_type_of(self.real, v)[self.codes]

    def collect(self, v: Any) -> Any:
        """One entry per row, in the order that rows came in, of an array with one per place: `at_places` undone."""
        return v if self.index is None else v[self.position]


def forms_of(specific: Sequence[Kernel | None], batched: bool) -> tuple[Hashable, ...] | None:
    """The forms of the tasks' own kernels, by which tasks are put together; None where each is a block of its own."""
    return tuple(TaskKernels.of(specific).forms()) if batched else None


def by_task(starts: Codes) -> Layout:
    """Every task a block, rows as they are."""
    blocks = [Block((t,), slice(i, j)) for t, (i, j) in enumerate(pairwise(starts.tolist()))]
    task = np.repeat(np.arange(len(blocks)), np.diff(starts))
    return Layout(starts, starts[:-1], blocks, task=task, codes=task)


def by_size(starts: Codes, forms: Sequence[Hashable] | None) -> Layout:
    """Tasks of one form and about one size together; tasks without rows are in no block. Still on the host.

    Tasks of the form "none" have diagonal factors and are one block whatever their sizes. Without forms every task is
    a block.
    """
    if forms is None:
        return by_task(starts)
    sizes = np.diff(starts)
    groups: dict[Hashable, list[int]] = {}
    for t in np.argsort(-sizes, kind="stable").tolist():
        if sizes[t]:
            groups.setdefault(forms[t], []).append(t)
    blocks: list[Block] = []
    order: list[int] = []
    widths: list[int] = []
    for form, members in groups.items():
        for tasks in [members] if form == "none" else alike(members, sizes):
            size = None if form == "none" or len(tasks) == 1 else int(sizes[tasks[0]])
            begin = blocks[-1].at.stop if blocks else 0
            wide = sizes[tasks].tolist() if size is None else [size] * len(tasks)
            blocks.append(Block(tuple(tasks), slice(begin, begin + sum(wide)), size))
            order += tasks
            widths += wide
    first = np.zeros(len(sizes), dtype=np.intp)
    first[order] = np.cumsum([0, *widths])[:-1]
    task = np.repeat(np.array(order, dtype=np.intp), np.array(widths, dtype=np.intp))
    row = np.arange(len(task)) - first[task]  # of its task; beyond the last one it is padding
    index = starts[task] + np.minimum(row, sizes[task] - 1)
    real = row < sizes[task]
    position = np.empty(int(starts[-1]), dtype=np.intp)
    position[index[real]] = np.flatnonzero(real)
    return Layout(starts, first, blocks, index, position, real.astype(float), task)


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


@stored("design")
@dataclass(frozen=True)
class Design(Stacked):
    """Rows of all tasks, stacked by task; within a task inputs are distinct. Found once for a fit."""

    X: Array  # (n, d)
    starts: Codes  # (M + 1,)
    inputs: Array  # (N, d), distinct
    index: Codes  # (n,): row i is at inputs[index[i]]
    count: Array  # (n,)
    device: Device | None = None  # None: the host

    @classmethod
    def from_cells(cls, cells: Cells, device: Device | None = None) -> Design:
        """The design of merged cells, whose matrices are computed on a device; inputs as they come first."""
        _, first, index = np.unique(cells.X, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return cls(
            cells.X, cells.starts, cells.X[first[order]], np.argsort(order)[index.reshape(-1)], cells.count, device
        )

    def put(self, array: Any) -> Any:
        """The array where matrices are computed."""
        return place(array, self.device)

    @cached_property
    def _layouts(self) -> dict[tuple[Hashable, ...] | None, Layout]:
        return {}

    def layout(self, specific: Sequence[Kernel | None]) -> Layout:
        """How tasks with these own kernels are put together; still on the host."""
        forms = forms_of(specific, self.device is not None)
        if forms not in self._layouts:
            self._layouts[forms] = by_size(self.starts, forms)
        return self._layouts[forms]

    def gather(self, A: Any) -> Array:
        """(n, n) summed over the rows at each pair of distinct inputs, (N, N)."""
        n = len(A)
        onto = sparse.csr_array((np.ones(n), (self.index, np.arange(n))), shape=(len(self.inputs), n))
        return sparse_product(rows_first(sparse_product(A, onto).T), onto)

    @cached_property
    def complete(self) -> bool:
        """Every distinct input seen in every task, with counts that are a product of one by task and one by input."""
        M, N = self.n_tasks, len(self.inputs)
        if len(self.X) != M * N or not np.array_equal(self.index, np.tile(np.arange(N), M)):
            return False
        count = self.count.reshape(M, N)
        return bool(np.array_equal(count * count[0, 0], np.multiply.outer(count[:, 0], count[0])))


class Rebuilt:
    """A dataclass that computes matrices from its fields in `__post_init__`. Only the fields travel.

    Closures and what lies on a device cannot travel; hyper-parameters, rows and sites can. What is missing in a copy
    is computed again when it is first asked for.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return state | {"sites": state["sites"].on_host()} if "sites" in state else state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or len(self.__dict__) > len(fields(self)):  # type: ignore[arg-type]
            raise AttributeError(name)
        self.__post_init__()
        return getattr(self, name)
