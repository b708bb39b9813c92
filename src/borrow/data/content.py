"""The order of tasks and of columns by what they hold, so that no answer depends on names, on places or on units.

Some sums, draws and ties have to be taken in some order. Here it comes from the numbers: columns enter by the ranks of
their values, which are the same in any units; targets by their ranks within their task, counted from the middle, so
that y and -y are one; labels by the rows that carry them. Every row, column, task and label gets a number that is made
of the numbers of those that it meets in the table, and the same again (colour refinement of the graph of the table;
B. Weisfeiler, A. Leman 1968). These sums are of whole numbers modulo 2^64: they are exact in any order. What still has
the same number after that differs in nothing but its name, but for tables made to be symmetric.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from borrow.data.cells import Codes, Rows
from borrow.numerics.linalg import Array

Colours = npt.NDArray[np.uint64]

#: How often every number is made again from its neighbours'.
ROUNDS = 3


def content_order(inputs: Any, rows: Rows, classes: bool) -> tuple[Codes, Codes]:
    """The order of the tasks, the most rows first, and that of the columns; with `classes`, y holds their codes.

    `rows.number` says which of the inputs a row has. Rows without a target have no say, and a row of weight k counts as
    k rows do.
    """
    n_tasks, d = len(rows.labels), inputs.shape[1]
    rows = rows.take(np.isfinite(rows.y))
    kept, number = np.unique(rows.number, return_inverse=True)
    at, column, value, zero = _entries(inputs[kept])
    whole = rows.weight == np.floor(rows.weight)
    times = np.where(whole, rows.weight, 1.0).astype(np.uint64)
    about = _mix(_bits(rows.replicates)) + np.where(whole, 0.0, rows.weight).view(np.uint64)
    fixed = about if classes else _mix(about + _bits(_ranks_within(rows.y, rows.task)))
    code = np.unique(rows.y, return_inverse=True)[1].ravel()
    colour, tasks, columns = fixed, np.zeros(n_tasks, dtype=np.uint64), np.zeros(d, dtype=np.uint64)
    for _ in range(ROUNDS):
        if classes:  # a label is known by the rows that carry it
            fixed = _mix(about + _sums(code, times * colour, len(rows.y))[code])
        tasks = _mix(_sums(rows.task, times * colour, n_tasks))
        met = _sums(number, times * _mix(colour + tasks[rows.task]), len(kept))
        # Linear in what was met: an input may come once, or once for each of its rows.
        columns = _mix(zero * met.sum() + _sums(column, (value - zero[column]) * met[at], d))
        base = _mix(zero + columns)  # of a row of zeros, where entries are of the others alone
        seen = _sums(at, _mix(value + columns[column]) - base[column], len(kept))
        colour = _mix(fixed + (base.sum() + seen)[number])
    n_rows = np.bincount(rows.task, rows.weight, minlength=n_tasks)
    return np.lexsort((tasks, -n_rows)), np.argsort(columns, kind="stable")


def _entries(X: Any) -> tuple[Codes, Codes, Colours, Colours]:
    """Row, column and rank within its column of every entry, and of a zero in each column; zeros may be left out."""
    n, d = X.shape
    if sparse.issparse(X):
        entries = X.tocoo()
        at, column, values = entries.row.astype(np.intp), entries.col.astype(np.intp), entries.data
        at, column, values = at[values != 0], column[values != 0], values[values != 0]
    else:
        at, column, values = np.tile(np.arange(n), d), np.repeat(np.arange(d), n), (X + 0.0).T.ravel()
    ranks = _ranks_within(values, column, folded=False)
    left_out = np.bincount(column, minlength=d) < n
    ranks += (values > 0) & left_out[column]
    below = np.zeros(d)
    np.maximum.at(below, column[values < 0], ranks[values < 0] + 1.0)
    return at, column, _mix(_bits(ranks)), _mix(_bits(below))


def _ranks_within(y: Array, task: Codes, folded: bool = True) -> Array:
    """Rank of each target among the distinct ones of its task, counted from the middle if folded: -y is y then."""
    order = np.lexsort((y, task))
    of, value = task[order], y[order]
    new_task, new = np.ones(len(y), dtype=bool), np.ones(len(y), dtype=bool)
    new_task[1:] = of[1:] != of[:-1]
    new[1:] = new_task[1:] | (value[1:] != value[:-1])
    count, ranks = np.cumsum(new), np.empty(len(y))
    ranks[order] = count - count[new_task][np.cumsum(new_task) - 1]
    if not folded or not len(y):
        return ranks
    most = np.zeros(int(task.max()) + 1)
    np.maximum.at(most, task, ranks)
    return np.abs(2.0 * ranks - most[task])


def _bits(values: Array) -> Colours:
    """The bits of numbers; minus zero is zero."""
    return (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def _sums(at: Codes, values: Colours, n: int) -> Colours:
    """Sums by code modulo 2^64."""
    out = np.zeros(n, dtype=np.uint64)
    np.add.at(out, at, values)
    return out


def _mix(values: Colours) -> Colours:
    """A permutation of the 64-bit numbers that spreads every bit (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = values + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))
