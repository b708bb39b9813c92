"""The data as a model sees them: merged, stacked by task, scaled, the same whatever the order of the rows was."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from borrow.data.cells import Cells, Codes, Rows, begins, merge
from borrow.data.scaling import Scaling, column_scales, scale
from borrow.numerics.linalg import Array


@dataclass(frozen=True)
class TaskData:
    """Everything a model needs to know of the data."""

    labels: tuple[Hashable, ...]
    cells: Cells
    unlabelled: tuple[Array, ...]  # inputs with NaN target, by task
    scaling: Scaling
    column_scales: Array
    number: Codes | None = None  # of the first row of X that went into each cell

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
    number = seen.number
    if number is not None:
        number = np.minimum.reduceat(number, np.flatnonzero(begins(seen.X, seen.task)))
    return TaskData(rows.labels, cells, free, scaling, column_scales(seen.X, seen.weight), number)
