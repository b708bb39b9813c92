"""The data as a model sees them: rows merged, stacked by task, targets centred and scaled, columns of X measured.

Nothing depends on the order in which the rows came.

How finely targets were measured leaves noise in them. Ratings from 0 to 10, counts and figures written with one decimal
lie on a grid. A value on a grid of width g stands for any number within g/2 of it, which is noise of variance g^2/12
whatever the function is. Without that floor a task whose few targets happen to be equal, or nearly, is taken to be
without noise.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from borrow.data.cells import Cells, Codes, Rows, begins, merge
from borrow.numerics.linalg import Array
from borrow.numerics.warned import warn

#: A grid is believed where the targets have at most this many distinct values per row: rounding shows in ties.
MOST_DISTINCT = 0.5
#: And at least this many distinct values: two values are labels, and no grid.
FEWEST_VALUES = 3
#: Variance of the noise in a task of equal targets, in units of a typical task's variance, if it had no row.
UNSEEN_NOISE = 0.1


def grid_width(y: Array) -> float:
    """The smallest gap between distinct values if all others are multiples of it and values repeat; 0: no grid."""
    values = np.unique(y)
    if len(values) < FEWEST_VALUES or len(values) > MOST_DISTINCT * len(y):
        return 0.0
    gaps = np.diff(values)
    width = float(gaps.min())
    if width <= 1e-9 * float(np.abs(values).max()):  # rounding of the arithmetic, and not of the targets
        return 0.0
    steps = gaps / width
    return width if bool(np.all(np.abs(steps - np.round(steps)) < 1e-4)) else 0.0


def rounding_variance(rows: Rows, n_tasks: int) -> Array:
    """Variance that rounding leaves in the targets of each task, 0 where they lie on no grid.

    The grid is that of all tasks together if there is one, so that a task of three ratings has it too; else each
    task's own. Means of replicates are on a finer grid, and it is not looked for.
    """
    widths = np.zeros(n_tasks)
    if np.all(rows.replicates == 1.0):
        common = grid_width(rows.y)
        for t in range(n_tasks):
            widths[t] = common or grid_width(rows.y[rows.task == t])
    return widths**2 / 12.0


def least_noise(rounding: Array, variance: Array, n_rows: Array) -> Array:
    """The least noise variance that each task's targets allow: that of rounding and, where all are equal, more.

    n equal targets show that there is little noise, not that there is none: they count as n rows without noise beside
    one with a tenth of the variance that tasks typically have. `variance` is NaN for these tasks.
    """
    known = variance[np.isfinite(variance)]
    typical = float(np.exp(np.mean(np.log(known)))) if len(known) else 1.0
    equal = np.isnan(variance) & (n_rows > 1)
    return np.where(equal, np.maximum(rounding, UNSEEN_NOISE * typical / (1.0 + n_rows)), rounding)


#: A column's middle half gives its scale where its standard deviation is so many times as large, which takes numbers
#: that lie so many standard deviations from the mean.
WILD, FAR = 10.0, 2.0
#: Scales of tasks that differ by more are named where one figure is taken for all.
UNLIKE = 100.0
#: From so many different targets on, copies of every row are told.
MANY_COPIES = 10


@dataclass(frozen=True)
class Scaling:
    """Targets of task t are (y - center[t]) / scale[t]; `log_volume` turns densities into the given units."""

    center: Array
    scale: Array
    log_volume: float

    def scaled(self, y: Array, task: Codes) -> Array:
        """Targets of rows of these tasks in scaled units."""
        return np.asarray((y - self.center[task]) / self.scale[task])

    def typical(self) -> Scaling:
        """The units of a typical task, where rows of several are one."""
        scale = np.exp(np.log(self.scale).mean(keepdims=True))
        return Scaling(self.center.mean(keepdims=True), scale, self.log_volume)


@dataclass(frozen=True)
class TaskData:
    """Everything a model needs to know of the data."""

    labels: tuple[Hashable, ...]
    cells: Cells
    unlabelled: tuple[Array, ...]  # inputs with NaN target, by task
    scaling: Scaling
    column_scales: Array
    number: Codes | None = None  # of the first row of X that went into each cell
    centred: bool = False  # by the rows' own figures

    def inputs(self, t: int) -> Array:
        """All inputs of task t, labelled or not."""
        return np.vstack([self.cells.X[self.cells.of(t)], self.unlabelled[t]])

    def only(self, t: int) -> TaskData:
        """Task t alone, in the units that it has among all."""
        cells, scale = self.cells.only(t), self.scaling.scale[[t]]
        n_rows = len(cells.y) + float(cells.dof[0])
        return replace(
            self,
            labels=(self.labels[t],),
            cells=cells,
            unlabelled=(self.unlabelled[t],),
            scaling=Scaling(self.scaling.center[[t]], scale, n_rows * float(np.log(scale[0]))),
            number=None if self.number is None else self.number[self.cells.of(t)],
        )


def build(rows: Rows, normalize: bool | str, keep: Sequence[int] = ()) -> TaskData:
    """Merge, scale and measure; `normalize` is True (each task), "common" (all tasks by one figure) or False."""
    seen, free = rows.in_order().labelled()
    cells = merge(seen.X, seen.task, seen.y, seen.weight, seen.replicates, len(rows.labels), rows.columns)
    n_rows = np.diff(cells.starts) + cells.dof
    mean, variance = task_moments(cells, n_rows)
    rounding = rounding_variance(seen, len(rows.labels))
    variance = np.maximum(variance, rounding)  # NaN stays
    scaling = scale(cells, n_rows, normalize, keep, (mean, variance))
    if normalize == "common":
        warn_unlike_scales(rows.labels, np.sqrt(variance))
    warn_exact_copies(cells, seen.weight, seen.replicates)
    least = least_noise(rounding, variance, n_rows)
    y = scaling.scaled(cells.y, cells.task)
    cells = replace(cells, y=y, scatter=cells.scatter / scaling.scale**2, least_noise=least / scaling.scale**2)
    number = seen.number
    if number is not None:
        number = np.minimum.reduceat(number, np.flatnonzero(begins(seen.X, seen.task)))
    return TaskData(rows.labels, cells, free, scaling, column_scales(seen.X, seen.weight), number, bool(normalize))


def warn_unlike_scales(labels: Sequence[Hashable], sd: Array) -> None:
    """Name the tasks whose targets are spread most and least, where both are taken by one figure."""
    known = np.flatnonzero(np.isfinite(sd) & (sd > 0.0))
    if len(known) and sd[known].max() > UNLIKE * sd[known].min():
        most, least = (known[f(sd[known])] for f in (np.argmax, np.argmin))
        warn(
            f"targets of task {labels[most]!r} are spread {sd[most] / sd[least]:.3g} times as widely as those of task "
            f"{labels[least]!r}, and normalize_y='common' takes them in the same units: use normalize_y=True, or give "
            "targets in the same units"
        )


def warn_exact_copies(cells: Cells, weight: Array, replicates: Array) -> None:
    """Say that all rows of a table stand in it several times, as if it had been put together twice."""
    copied = len(weight) >= 2 * len(cells.y) and not cells.scatter.any() and len(np.unique(cells.y)) >= MANY_COPIES
    if copied and np.all(weight == 1.0) and np.all(replicates == 1.0):
        warn(
            f"{len(weight)} rows are {len(cells.y)} different ones and exact copies of them, and each counts as a "
            "measurement of its own: if the table was put together twice, drop the copies"
        )


def task_moments(cells: Cells, n_rows: Array) -> tuple[Array, Array]:
    """Mean and variance of every task's targets; NaN without a row, and the variance NaN where all are equal."""
    M = len(n_rows)
    mean, variance = np.full(M, np.nan), np.full(M, np.nan)
    for t in np.flatnonzero(np.diff(cells.starts)).tolist():
        at = cells.of(t)
        y, count = cells.y[at], cells.count[at]
        total = count.sum()
        mean[t] = (y * count).sum() / total
        squares = count @ (y - mean[t]) ** 2 + cells.scatter[t]
        if n_rows[t] > 1 and squares / total > (1e-10 * mean[t]) ** 2:  # else constant, but for rounding
            variance[t] = squares / total
    return mean, variance


def scale(
    cells: Cells,
    n_rows: Array,
    normalize: bool | str,
    keep: Sequence[int],
    moments: tuple[Array, Array] | None = None,
) -> Scaling:
    """Centre and scale each task's targets; small tasks shrink towards the overall figures.

    Shrinkage is empirical Bayes: a task's mean moves towards the mean of the means by (sampling variance) /
    (sampling + between-task variance), its log variance likewise; where tasks really differ, nothing shrinks.
    "common" takes the mean and standard deviation of all rows for every task, for targets in the same units.
    Tasks in `keep` keep their own figures (the mean if there is a row, the scale if there are two distinct
    targets) and do not enter the others': else flipping the sign of all secondaries would move the primary.
    A task whose targets are all equal says nothing of its scale and has that of the others. `moments` are those of the
    tasks where they are at hand.
    """
    M = len(n_rows)
    center, sd = np.zeros(M), np.ones(M)
    if normalize == "common":
        overall = float(np.average(cells.y, weights=cells.count))
        squares = float(cells.count @ (cells.y - overall) ** 2 + cells.scatter.sum()) / float(cells.count.sum())
        center[:] = overall
        sd[:] = np.sqrt(squares) if squares > (1e-10 * overall) ** 2 else 1.0
    elif normalize:
        mean, variance = task_moments(cells, n_rows) if moments is None else moments
        pool = ~np.isin(np.arange(M), keep) if len(keep) < M else np.ones(M, dtype=bool)
        seen = pool & np.isfinite(variance)
        typical = float(np.exp(np.mean(np.log(variance[seen])))) if seen.any() else np.nan
        log_variance = _shrink(np.log(variance), 2.0 / np.maximum(n_rows - 1.0, 1.0), pool)
        sampling = np.where(np.isfinite(variance), variance, typical) / np.maximum(n_rows, 1.0)
        center, sd = _shrink(mean, sampling, pool), np.exp(0.5 * log_variance)
        for t in keep:
            center[t] = mean[t] if np.isfinite(mean[t]) else center[t]
            sd[t] = np.sqrt(variance[t]) if np.isfinite(variance[t]) else sd[t]
        center, sd = np.nan_to_num(center), np.where(np.isfinite(sd), sd, 1.0)
    return Scaling(center, sd, float(n_rows @ np.log(sd)))


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
    """Deviation of every column, that of its middle half where a few numbers make it; 1 where it is constant."""
    if len(X) == 0:
        return np.ones(X.shape[1])
    mean = np.average(X, axis=0, weights=weight)
    sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    scales = np.where(sd > 1e-12 * np.maximum(np.abs(mean), 1e-300), sd, 1.0)
    for j in np.flatnonzero(np.abs(X - mean).max(axis=0) > FAR * sd):
        low, high = weighted_quartiles(X[:, j], weight)
        middle = (high - low) / 1.349  # of a normal distribution its standard deviation
        if 0.0 < WILD * middle < sd[j]:
            scales[j] = middle
    return scales


def weighted_quartiles(x: Array, weight: Array) -> tuple[float, float]:
    """The numbers at a quarter and at three quarters of the weight."""
    order = np.argsort(x, kind="stable")
    at = np.searchsorted(np.cumsum(weight[order]), [0.25 * weight.sum(), 0.75 * weight.sum()])
    low, high = x[order][np.minimum(at, len(x) - 1)].tolist()
    return low, high
