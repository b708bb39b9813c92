"""The IVM's selection among tasks that lie in shards: one in this process, or several on workers.

An inclusion touches one task only, so the order in which a shard would include its own rows does not depend on other
shards. Each shard makes that list, with the score that every row had when its turn came; the list of all tasks is
their merge, the next row always being the one whose score is highest among the heads. It is the list that one shard of
all tasks makes, row by row. A shard that runs out before the merge is done is asked for twice as many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.data.cells import Cells, Codes
from borrow.inference.adf import Factors, GaussianFactors, ProbitFactors
from borrow.kernels import Kernel
from borrow.models.ivm.model import Report, Selection, select
from borrow.numerics.linalg import Array
from borrow.tasks.placed import PlacedTasks, TaskShard

#: A shard is first asked for its even share of the rows, and this part more.
MORE = 0.3
#: What a selection says of every row chosen.
BY_INCLUSION = ("active", "gain", "tau", "z", "score")

#: The factors of all rows, from a parameter of each task.
Likelihood = Callable[[Cells, Array], Factors]


def gaussian(cells: Cells, noise: Array) -> Factors:
    """Numbers, with one noise variance per task."""
    return GaussianFactors(cells.y, noise[cells.task] / cells.count)


def probit(cells: Cells, bias: Array) -> Factors:
    """Labels -1 and +1, with one bias per task."""
    return ProbitFactors(cells.y, bias[cells.task])


@dataclass(frozen=True)
class Wanted:
    """What is wanted of all tasks, or of those of a shard: so many rows, or those of an order."""

    parameter: Array  # (M,), of the likelihood
    starts: Codes  # (M + 1,)
    d: Codes  # (M,), how many rows are wanted of the shard that a task is in
    order: Codes | None
    report: Report | None = None  # where all tasks are in one shard

    def part(self, tasks: slice) -> Wanted:
        """What is wanted of these tasks."""
        starts, order = self.starts[tasks.start : tasks.stop + 1], self.order
        if order is not None:
            order = order[(order >= starts[0]) & (order < starts[-1])] - starts[0]
        return Wanted(self.parameter[tasks], starts - starts[0], self.d[tasks], order)


def select_shard(shard: TaskShard, common: tuple[Kernel, Likelihood], wanted: Wanted) -> Selection:
    """The shard's own list; what is known of its rows stays there."""
    (kernel, likelihood), cells = common, shard.cells
    args = int(wanted.d[0]), wanted.order, wanted.report, shard.device
    chosen = select(kernel, cells.X, cells.starts, likelihood(cells, wanted.parameter), *args)
    return replace(chosen, mean=None, variance=None)


def select_among(
    tasks: PlacedTasks,
    kernel: Kernel,
    likelihood: Likelihood,
    parameter: Array,
    d: int,
    order: Codes | None = None,
    report: Report | None = None,
) -> Selection:
    """As `select`, with one parameter of the likelihood per task."""
    starts, bounds = tasks.cells.starts, tasks.bounds
    first = starts[[at.start for at in bounds]]  # row of each shard
    sizes, n_tasks = np.diff(first, append=starts[-1]), [at.stop - at.start for at in bounds]

    def ask(how_many: Codes) -> list[Selection]:
        wanted = Wanted(parameter, starts, np.repeat(how_many, n_tasks), order, report)
        return tasks.each(select_shard, (kernel, likelihood), wanted)

    if order is not None:
        lists = ask(0 * sizes)
        turn = np.argsort(np.argsort(np.searchsorted(first, order, side="right"), kind="stable"))
    else:
        d = min(d, int(starts[-1]))
        most = np.minimum(sizes, d)
        asked = np.minimum(most, int((1.0 + MORE) * d / len(bounds)) + 5)
        while (merged := _merge(lists := ask(asked), asked < most, d)) is None:
            asked = np.minimum(most, 2 * asked)
        turn = merged
    if report is not None and len(lists) > 1:
        report(len(turn))
    lists = [replace(s, active=s.active + n) for s, n in zip(lists, first, strict=True)]
    return Selection(*(np.concatenate([getattr(s, name) for s in lists])[turn] for name in BY_INCLUSION))


def _merge(lists: list[Selection], cut_short: Any, d: int) -> Codes | None:
    """The first d rows of all lists, one after the other, in turn; None where a list that was cut short ends too early.

    The highest of the heads is next, and ties go to the first shard. A row waits for those before it in its list, so
    its turn comes when the least score up to it does.
    """
    turn = np.argsort(-np.concatenate([np.minimum.accumulate(s.score) for s in lists]), kind="stable")[:d]
    ends = np.cumsum([len(s.score) for s in lists]) - 1
    return None if np.isin(ends[cut_short], turn[:-1]).any() else turn
