"""How finely targets were measured, and the noise that this leaves in them.

Ratings from 0 to 10, counts and figures written with one decimal lie on a grid. A value on a grid of width g stands for
any number within g/2 of it, which is noise of variance g^2/12 whatever the function is. Without that floor a task
whose few targets happen to be equal, or nearly, is taken to be without noise.
"""

from __future__ import annotations

import numpy as np

from borrow.data.cells import Rows
from borrow.numerics.linalg import Array

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
