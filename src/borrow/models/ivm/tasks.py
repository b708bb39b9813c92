"""The IVM's selection over tasks wherever they lie.

An inclusion touches one task only, so the order in which a shard would include its own rows does not depend on other
shards. Each shard makes that list, with the score that every row had when its turn came; the list of all tasks is
their merge, the next row always being the one whose score is highest among the heads. It is the list that one process
makes, row by row. A shard that runs out before the merge is done is asked for twice as many.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class GaussianTasks:
    """Noise variance of each task."""

    noise: Array

    def part(self, tasks: slice) -> GaussianTasks:
        """Those of some tasks."""
        return GaussianTasks(self.noise[tasks])

    def factors(self, cells: Cells) -> Factors:
        """One per row."""
        return GaussianFactors(cells.y, self.noise[cells.task] / cells.count)


@dataclass(frozen=True)
class ProbitTasks:
    """Bias of each task."""

    bias: Array

    def part(self, tasks: slice) -> ProbitTasks:
        """Those of some tasks."""
        return ProbitTasks(self.bias[tasks])

    def factors(self, cells: Cells) -> Factors:
        """One per row."""
        return ProbitFactors(cells.y, self.bias[cells.task])


@dataclass(frozen=True)
class _Wanted:
    """What is wanted of every shard, whose first tasks are `firsts`: so many rows, or those of an order."""

    likelihood: GaussianTasks | ProbitTasks
    firsts: list[int]
    how_many: Any
    orders: list[Any]

    def part(self, tasks: slice) -> tuple[Any, int, Any]:
        i = self.firsts.index(tasks.start)
        return self.likelihood.part(tasks), int(self.how_many[i]), self.orders[i]


def select_tasks(
    tasks: PlacedTasks,
    kernel: Kernel,
    likelihood: GaussianTasks | ProbitTasks,
    d: int,
    order: Codes | None = None,
    report: Report | None = None,
) -> Selection:
    """As `select`, over tasks wherever they lie; what is then known of the other rows stays with them."""
    starts, firsts = tasks.cells.starts, [at.start for at in tasks.bounds]
    rows = [slice(int(starts[at.start]), int(starts[at.stop])) for at in tasks.bounds]
    sizes = np.array([at.stop - at.start for at in rows])

    def ask(how_many: Any, orders: list[Any]) -> list[Any]:
        wanted = _Wanted(likelihood, firsts, how_many, orders)
        return tasks.each(_select_shard, (kernel, report if len(rows) == 1 else None), wanted)

    if order is not None:
        which = [np.flatnonzero((order >= at.start) & (order < at.stop)) for at in rows]
        lists = ask([0] * len(rows), [order[w] - at.start for w, at in zip(which, rows, strict=True)])
        turn = np.argsort(np.concatenate(which), kind="stable")
    else:
        d = min(d, int(sizes.sum()))
        asked = np.minimum(sizes, d if len(rows) == 1 else int((1.0 + MORE) * d / len(rows)) + 5)
        lists = ask(asked, [None] * len(rows))
        while (taken := _merge([s.score for s in lists], asked >= sizes, d)) is None:
            asked = np.minimum(sizes, 2 * asked)
            lists = ask(asked, [None] * len(rows))
        lists = [_first(s, n) for s, n in zip(lists, np.bincount(taken, minlength=len(rows)), strict=True)]
        turn = np.argsort(np.argsort(taken, kind="stable"), kind="stable")
    active = np.concatenate([s.active + at.start for s, at in zip(lists, rows, strict=True)])
    gain, tau, z = (np.concatenate([getattr(s, name) for s in lists]) for name in ("gain", "tau", "z"))
    if report is not None and len(rows) > 1:
        report(len(active))
    return Selection(active[turn], gain[turn], tau[turn], z[turn], np.zeros(0), np.zeros(0))


def _merge(scores: list[Array], whole: Any, d: int) -> Codes | None:
    """The shard of each of the first d rows; None where a shard's list ends too early. Ties go to the first shard."""
    at = np.zeros(len(scores), dtype=int)
    heads = np.array([s[0] if len(s) else -np.inf for s in scores])
    taken = np.empty(d, dtype=np.intp)
    for k in range(d):
        i = int(heads.argmax())
        taken[k] = i
        at[i] += 1
        if at[i] < len(scores[i]):
            heads[i] = scores[i][at[i]]
        elif whole[i] or k == d - 1:
            heads[i] = -np.inf
        else:
            return None
    return taken


def _first(s: Any, n: int) -> Any:
    return Selection(s.active[:n], s.gain[:n], s.tau[:n], s.z[:n], s.mean, s.variance, s.score[:n])


def _select_shard(shard: TaskShard, common: tuple[Kernel, Report | None], wanted: Any) -> Selection:
    """The shard's own list."""
    (kernel, report), cells = common, shard.cells
    likelihood, d, order = wanted if isinstance(wanted, tuple) else wanted.part(slice(0, len(cells.dof)))
    s = select(kernel, cells.X, cells.starts, likelihood.factors(cells), d, order, report, shard.device)
    return Selection(s.active, s.gain, s.tau, s.z, np.zeros(0), np.zeros(0), s.score)
