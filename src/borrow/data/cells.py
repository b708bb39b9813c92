"""The door: whatever form the data come in, checked once, they leave as `TaskData`.

Forms: a frame (pandas, polars, Arrow) with a task column; an array with a task column by position; `tasks=`
beside X; `y` of shape (N, M) with NaN for what was not observed; a list of (X, y) pairs or a dict of them by
label. Everything behind this door may trust what it gets: finite floats, rows stacked by task, tasks sorted
by label, one cell for each distinct input of a task, all of it the same whatever the order of the rows was.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from borrow.numerics import device as devices
from borrow.numerics.device import Device, place
from borrow.numerics.linalg import Array

Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Rows:
    """A table as read, before merging: inputs, task codes, targets (NaN: unlabelled), weights, replicates."""

    X: Array
    task: Codes
    labels: tuple[Hashable, ...]
    y: Array
    weight: Array
    replicates: Array
    number: Codes | None = None  # of the row of X that each came from

    def take(self, which: Any) -> Rows:
        """Some of the rows, or all of them in another order."""
        return replace(
            self,
            X=self.X[which],
            task=self.task[which],
            y=self.y[which],
            weight=self.weight[which],
            replicates=self.replicates[which],
            number=None if self.number is None else self.number[which],
        )

    def in_order(self) -> Rows:
        """Sorted by task, input and target, so that sums are the same to the bit for any order of rows."""
        return self.take(np.lexsort((self.replicates, self.weight, self.y, *self.X.T[::-1], self.task)))


@dataclass(frozen=True)
class Cells:
    """Labelled rows merged by input and task, stacked by task and sorted by input.

    A cell is the mean of its rows; `count` is its precision in units of one row. What the rows say beyond
    their means is kept per task: `dof` rows more than cells, `scatter` their sum of squares around the means,
    `log_count` the constant, so that the evidence equals that of the rows written out.
    """

    X: Array
    y: Array
    count: Array
    starts: Codes  # (M + 1,)
    dof: Array  # (M,)
    scatter: Array  # (M,)
    log_count: Array  # (M,)
    device: Device | None = None  # where matrices are computed; None: the host

    @cached_property
    def there(self) -> Any:
        """The inputs where matrices are computed."""
        return place(self.X, self.device)

    def __getstate__(self) -> dict[str, Any]:
        return {n: v for n, v in self.__dict__.items() if n != "there"}

    @property
    def task(self) -> Codes:
        """Task code of every cell."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def of(self, t: int) -> slice:
        """The cells of task t."""
        return slice(int(self.starts[t]), int(self.starts[t + 1]))

    def only(self, t: int) -> Cells:
        """Task t as the only one; a small one is computed on the host."""
        at = self.of(t)
        n = at.stop - at.start
        one = slice(t, t + 1)
        within = self.dof[one], self.scatter[one], self.log_count[one]
        device = self.device if n >= devices.ALONE_ROWS else None
        return Cells(self.X[at], self.y[at], self.count[at], np.array([0, n]), *within, device)

    def some(self, tasks: Sequence[int] | Codes) -> Cells:
        """These tasks alone, in this order."""
        which = [self.of(int(t)) for t in tasks]
        at = np.concatenate([np.zeros(0, np.intp), *(np.arange(w.start, w.stop) for w in which)])
        starts = np.cumsum([0, *(w.stop - w.start for w in which)])
        codes = np.asarray(tasks, dtype=np.intp)
        within = self.dof[codes], self.scatter[codes], self.log_count[codes]
        return Cells(self.X[at], self.y[at], self.count[at], starts, *within)


@dataclass(frozen=True)
class Scaling:
    """Targets of task t are (y - center[t]) / scale[t]; `log_volume` turns densities into the given units."""

    center: Array
    scale: Array
    log_volume: float


@dataclass(frozen=True)
class TaskData:
    """Everything a model needs to know of the data."""

    labels: tuple[Hashable, ...]
    cells: Cells
    unlabelled: tuple[Array, ...]  # inputs with NaN target, by task
    scaling: Scaling
    column_scales: Array
    spread: Any = None  # the tasks on workers, while a fit has any

    def inputs(self, t: int) -> Array:
        """All inputs of task t, labelled or not."""
        return np.vstack([self.cells.X[self.cells.of(t)], self.unlabelled[t]])


def build(rows: Rows, normalize: bool | str, keep: Sequence[int] = ()) -> TaskData:
    """Merge, scale and measure; `normalize` is True (each task), "common" (all tasks by one figure) or False."""
    rows = rows.in_order()
    labelled = np.isfinite(rows.y)
    seen = rows.take(labelled)
    cells = merge(seen.X, seen.task, seen.y, seen.weight, seen.replicates, len(rows.labels))
    n_rows = np.diff(cells.starts) + cells.dof
    scaling = scale(cells, n_rows, normalize, keep)
    y = (cells.y - scaling.center[cells.task]) / scaling.scale[cells.task]
    cells = replace(cells, y=y, scatter=cells.scatter / scaling.scale**2)
    free = tuple(rows.X[~labelled & (rows.task == t)] for t in range(len(rows.labels)))
    return TaskData(rows.labels, cells, free, scaling, column_scales(seen.X, seen.weight))


def merge(X: Array, task: Codes, y: Array, weight: Array, replicates: Array, n_tasks: int) -> Cells:
    """Rows with the same input and task become one cell.

    Rows i of a cell are y_i ~ N(f, noise/k_i), each repeated w_i times. With K = sum w k and the mean
    m = sum w k y / K, prod_i N(y_i)^w_i = N(m; f, noise/K) times exp of
    -(sum w - 1)/2 log(2 pi noise) + 1/2 sum w log k - 1/2 log K - SS/(2 noise).
    """
    order = np.lexsort((*X.T[::-1], task))
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
    starts = np.searchsorted(by_task, np.arange(n_tasks + 1))
    return Cells(X[first], mean, count, starts, dof, scatter, log_count)


def begins(X: Array, code: Codes) -> npt.NDArray[np.bool_]:
    """Where rows sorted by code and input differ from the one before."""
    new = np.ones(len(X), dtype=bool)
    new[1:] = (code[1:] != code[:-1]) | np.any(X[1:] != X[:-1], axis=1)
    return new


def _sums(at: Codes, values: Array, n: int) -> Array:
    """Sums of the values by code, 0 to n - 1."""
    return np.bincount(at, values, minlength=n).astype(np.float64, copy=False)


def scale(cells: Cells, n_rows: Array, normalize: bool | str, keep: Sequence[int]) -> Scaling:
    """Centre and scale each task's targets; small tasks shrink towards the overall figures.

    Shrinkage is empirical Bayes: a task's mean moves towards the mean of the means by (sampling variance) /
    (sampling + between-task variance), its log variance likewise; where tasks really differ, nothing shrinks.
    "common" takes the mean and standard deviation of all rows for every task, for targets in the same units.
    Tasks in `keep` keep their own figures (the mean if there is a row, the scale if there are two distinct
    targets) and do not enter the others': else flipping the sign of all secondaries would move the primary.
    """
    M = len(n_rows)
    center, spread = np.zeros(M), np.ones(M)
    if normalize == "common":
        overall = float(np.average(cells.y, weights=cells.count))
        squares = float(cells.count @ (cells.y - overall) ** 2 + cells.scatter.sum()) / float(cells.count.sum())
        center[:] = overall
        spread[:] = np.sqrt(squares) if squares > (1e-10 * overall) ** 2 else 1.0
    elif normalize:
        mean, variance = np.full(M, np.nan), np.full(M, np.nan)
        for t in np.flatnonzero(np.diff(cells.starts)).tolist():
            at = cells.of(t)
            total = cells.count[at].sum()
            mean[t] = np.average(cells.y[at], weights=cells.count[at])
            squares = cells.count[at] @ (cells.y[at] - mean[t]) ** 2 + cells.scatter[t]
            if n_rows[t] > 1 and squares / total > (1e-10 * mean[t]) ** 2:  # else constant, but for rounding
                variance[t] = squares / total
        pool = ~np.isin(np.arange(M), keep) if len(keep) < M else np.ones(M, dtype=bool)
        seen = pool & np.isfinite(variance)
        typical = float(np.exp(np.mean(np.log(variance[seen])))) if seen.any() else np.nan
        log_variance = _shrink(np.log(variance), 2.0 / np.maximum(n_rows - 1.0, 1.0), pool)
        sampling = np.where(np.isfinite(variance), variance, typical) / np.maximum(n_rows, 1.0)
        center, spread = _shrink(mean, sampling, pool), np.exp(0.5 * log_variance)
        for t in keep:
            center[t] = mean[t] if np.isfinite(mean[t]) else center[t]
            spread[t] = np.sqrt(variance[t]) if np.isfinite(variance[t]) else spread[t]
        center, spread = np.nan_to_num(center), np.where(np.isfinite(spread), spread, 1.0)
    return Scaling(center, spread, float(n_rows @ np.log(spread)))


def _shrink(value: Array, sampling: Array, pool: npt.NDArray[np.bool_]) -> Array:
    """Empirical-Bayes means: towards the pool's average, by how little tasks differ beyond sampling error."""
    seen = pool & np.isfinite(value)
    if not seen.any():
        return value
    if seen.sum() == 1:
        return np.where(np.isfinite(value), value, value[seen][0])
    known = np.where(np.isfinite(sampling[seen]), sampling[seen], 0.0)
    between = max(float(np.var(value[seen], ddof=1) - known.mean()), 0.0)
    overall = float(value[seen].mean())
    with np.errstate(invalid="ignore"):
        keep = np.where(between > 0, between / (between + sampling), 0.0)
    keep = np.where(np.isfinite(sampling), keep, 1.0)
    return np.where(np.isfinite(value), overall + keep * (value - overall), overall)


def units_of_new_task(y: Array, centers: Array, scales: Array) -> tuple[float, float]:
    """Centre and scale of a task of few rows: its own figures, shrunk to those of the tasks seen (as in `scale`)."""
    y = np.asarray(y, dtype=float)
    y = y[np.isfinite(y)]
    n = len(y)
    pool = np.ones(len(centers) + 1, dtype=bool)
    varies = n > 1 and float(y.var()) > (1e-10 * abs(float(y.mean()))) ** 2
    variance = float(y.var()) if varies else np.nan
    log_variance = np.append(2.0 * np.log(scales), np.log(variance))
    sampling = np.append(np.zeros(len(scales)), 2.0 / max(n - 1.0, 1.0))
    pool[-1] = False
    scale = float(np.exp(0.5 * _shrink(log_variance, sampling, pool)[-1]))
    mean = float(y.mean()) if n else np.nan
    sampling[-1] = scale**2 / max(n, 1)
    return float(_shrink(np.append(centers, mean), sampling, pool)[-1]), scale


def column_scales(X: Array, weight: Array) -> Array:
    """Standard deviation of every column, 1 where it is constant."""
    if len(X) == 0:
        return np.ones(X.shape[1])
    mean = np.average(X, axis=0, weights=weight)
    sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    return np.where(sd > 1e-12 * np.maximum(np.abs(mean), 1e-300), sd, 1.0)


def sort_labels(values: Iterable[Any]) -> tuple[Hashable, ...]:
    """Distinct labels in order: numbers by size, then text by letters, then other kinds."""
    distinct = list(dict.fromkeys(values))

    def kind(v: Any) -> tuple[int, str]:
        return (
            (0, "")
            if isinstance(v, (int, float, np.number, np.bool_))
            else (1 + (not isinstance(v, str)), type(v).__name__)
        )

    try:
        return tuple(sorted(distinct, key=lambda v: (kind(v), v)))
    except TypeError:  # labels that have no order among themselves
        return tuple(sorted(distinct, key=lambda v: (kind(v), repr(v))))


def encode(values: Sequence[Any], labels: tuple[Hashable, ...]) -> Codes:
    """Codes of labels; a label that is not among them is an error that lists those that are."""
    codes = {label: i for i, label in enumerate(labels)}
    unknown = [v for v in dict.fromkeys(values) if v not in codes]
    if unknown:
        raise ValueError(
            f"unknown task {list_labels(unknown)}: fit saw no row of it; tasks are {list_labels(labels)} "
            "(in cross-validation, shuffle or stratify by task, so that every fold trains on all of them)"
        )
    return np.fromiter((codes[v] for v in values), dtype=np.intp, count=len(values))


def list_labels(labels: Sequence[Any], most: int = 12) -> str:
    """`'s1', 's2', 's3', ... (40 in all)`."""
    shown = ", ".join(repr(v) for v in labels[:most])
    return shown if len(labels) <= most else f"{shown}, ... ({len(labels)} in all)"


def is_pairs(X: Any) -> bool:
    """A list of (X, y) pairs, or a dict of them by label; a list of tuples of numbers is a table."""
    items = list(X.values()) if isinstance(X, Mapping) else X
    return (
        isinstance(items, list)
        and len(items) > 0
        and all(isinstance(p, tuple) and len(p) == 2 and hasattr(p[0], "__len__") for p in items)
        and not any(isinstance(v, str) for p in items for v in p)
    )
