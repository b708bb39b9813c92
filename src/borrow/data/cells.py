"""Rows of several tasks in one container: as they were read (`Rows`), and merged by input and task (`Cells`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored

Codes = npt.NDArray[np.intp]


@stored("rows")
@dataclass(frozen=True)
class Rows:
    """A table as read, before merging: inputs, task codes, targets (NaN: unlabelled), weights, replicates."""

    X: Array
    task: Codes
    labels: tuple[Hashable, ...]
    y: Array
    weight: Array
    replicates: Array
    number: Any = None  # of the row of X that each came from, where they were read from a table
    columns: Codes | None = None  # in which order columns of X are compared; as they are without one

    def take(self, which: Any) -> Rows:
        """Some of the rows, or all of them in another order."""
        own = {n: v[which] for n, v in self.__dict__.items() if isinstance(v, np.ndarray) and n != "columns"}
        return replace(self, **own)

    def only(self, label: Hashable) -> Rows:
        """The rows of one task, as the only one."""
        mine = self.take(self.task == self.labels.index(label))
        return replace(mine, task=np.zeros_like(mine.task), labels=(label,))

    def in_order(self) -> Rows:
        """Sorted by task, input and target, so that sums are the same to the bit for any order of rows."""
        inputs = compared(self.X, self.columns)
        return self.take(np.lexsort((self.replicates, self.weight, self.y, *inputs, self.task)))

    def labelled(self) -> tuple[Rows, tuple[Array, ...]]:
        """The rows that have a target, and the inputs of those that have none, by task."""
        seen = np.isfinite(self.y)
        X, task = self.X[~seen], self.task[~seen]
        return self.take(seen), tuple(X[task == t] for t in range(len(self.labels)))


class Stacked:
    """Rows stacked by task: those of task t are `starts[t]` to `starts[t + 1]`."""

    starts: Codes  # (M + 1,)

    @property
    def n_tasks(self) -> int:
        """How many tasks there are, those without a row included."""
        return len(self.starts) - 1

    @cached_property
    def task(self) -> Codes:
        """Task code of every row, found once."""
        return np.repeat(np.arange(self.n_tasks), np.diff(self.starts))

    def of(self, t: int) -> slice:
        """Where the rows of task t stand among all rows, which are stacked by task."""
        return slice(int(self.starts[t]), int(self.starts[t + 1]))


@stored("cells")
@dataclass(frozen=True)
class Cells(Stacked):
    """Labelled rows merged by input and task, stacked by task and sorted by input.

    A cell is the mean of its rows; `count` is its precision in units of one row. What the rows say beyond
    their means is kept per task: `dof` rows more than cells, `scatter` their sum of squares around the means,
    `log_count` the constant, so that the evidence equals that of the rows written out. `least_noise` is the variance
    that the resolution of the targets leaves in each row (`data.scaling`); None where nothing is known of it.
    """

    X: Array
    y: Array
    count: Array
    starts: Codes  # (M + 1,)
    dof: Array  # (M,)
    scatter: Array  # (M,)
    log_count: Array  # (M,)
    least_noise: Array | None = None  # (M,)

    def only(self, t: int) -> Cells:
        """Task t as the only one."""
        return self.some([t])

    def some(self, tasks: Sequence[int] | Codes) -> Cells:
        """These tasks alone, in this order."""
        codes = np.asarray(tasks, dtype=np.intp)
        lengths = np.diff(self.starts)[codes]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        at = np.arange(starts[-1]) + np.repeat(self.starts[codes] - starts[:-1], lengths)
        within = self.dof[codes], self.scatter[codes], self.log_count[codes]
        least = None if self.least_noise is None else self.least_noise[codes]
        return Cells(self.X[at], self.y[at], self.count[at], starts, *within, least)


def spaced(at: slice, most: int) -> Codes:
    """At most so many rows of these, evenly spaced."""
    n = at.stop - at.start
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp) + at.start


def thin(cells: Cells, most: int | Codes) -> Cells:
    """At most `most` cells of every task, evenly spaced in their order; what is kept of their rows shrinks alike.

    One number for all tasks, or one for each.
    """
    sizes = np.diff(cells.starts)
    if np.all(sizes <= most):
        return cells
    kept = [spaced(cells.of(t), int(n)) for t, n in enumerate(np.broadcast_to(most, sizes.shape))]
    at, lengths = np.concatenate(kept), np.array([len(k) for k in kept])
    share = lengths / np.maximum(sizes, 1)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    within = cells.dof * share, cells.scatter * share, cells.log_count * share
    return Cells(cells.X[at], cells.y[at], cells.count[at], starts, *within, cells.least_noise)


def compared(X: Array, columns: Codes | None) -> list[Array]:
    """The columns as keys for `np.lexsort`, which takes the last one first."""
    return list(X.T[::-1] if columns is None else X.T[columns[::-1]])


def merge(
    X: Array, task: Codes, y: Array, weight: Array, replicates: Array, n_tasks: int, columns: Codes | None = None
) -> Cells:
    """Rows with the same input and task become one cell; inputs are sorted by the columns in the order given.

    Rows i of a cell are y_i ~ N(f, noise/k_i), each repeated w_i times. With K = sum w k and the mean
    m = sum w k y / K, prod_i N(y_i)^w_i = N(m; f, noise/K) times exp of
    -(sum w - 1)/2 log(2 pi noise) + 1/2 sum w log k - 1/2 log K - SS/(2 noise).
    """
    order = np.lexsort((*compared(X, columns), task))
    X, task, y, weight, replicates = X[order], task[order], y[order], weight[order], replicates[order]
    new = begins(X, task)
    cell = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    precision = weight * replicates
    count = _sums(cell, precision, len(first))
    # Sums around the first row of the cell, so that a cell of one row keeps its target to the bit.
    mean = y[first] + _sums(cell, precision * (y - y[first][cell]), len(first)) / count
    by_task = task[first]
    scatter = _sums(task, precision * (y - mean[cell]) ** 2, n_tasks)
    dof = _sums(task, weight, n_tasks) - _sums(by_task, np.ones(len(first)), n_tasks)
    log_count = 0.5 * (_sums(task, weight * np.log(replicates), n_tasks) - _sums(by_task, np.log(count), n_tasks))
    return Cells(X[first], mean, count, np.searchsorted(by_task, np.arange(n_tasks + 1)), dof, scatter, log_count)


def begins(X: Array, code: Codes) -> npt.NDArray[np.bool_]:
    """Where rows sorted by code and input differ from the one before."""
    new = np.ones(len(X), dtype=bool)
    new[1:] = (code[1:] != code[:-1]) | np.any(X[1:] != X[:-1], axis=1)
    return new


def _sums(at: Codes, values: Array, n: int) -> Array:
    """Sums of the values by code, 0 to n - 1."""
    return np.bincount(at, values, minlength=n).astype(np.float64, copy=False)
