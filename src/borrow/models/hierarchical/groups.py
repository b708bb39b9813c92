"""The rows of the tasks, in groups: tasks that see the same inputs are one group, and one factor serves them all.

A row of count 0 is held out: it is predicted and not seen. On a device several groups of as many tasks and about as
many rows are one, with a leading axis, padded to the rows of the largest. A padded row has no target, a unit site, and
a phi of zero: where phi are unit vectors its position is -1, the last, and the E-step adds a last entry of zero to
mu, and a last row and column to K. So its part of a matrix that is factored is the identity, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from borrow.covariance.layout import MOST_ENTRIES, alike
from borrow.data.cells import Cells, Codes
from borrow.models.hierarchical.basis import Features, at_positions
from borrow.numerics.device import Device
from borrow.numerics.linalg import Array, namespace
from borrow.tasks.placed import PlacedTasks, TaskShard
from borrow.tasks.workers import Workers


@dataclass(frozen=True)
class Group:
    """Tasks that see the same rows; those of several groups on a device."""

    tasks: Codes  # (..., tasks)
    seen: Features  # Phi_l of n_l rows
    held: Features  # phi of rows that are held out
    held_cells: Codes  # (..., held rows, tasks): their cells, -1 for padding; on the host
    count: Array  # (..., n_l), 0 for padding
    Y: Array  # (..., n_l, tasks)
    n_cells: int

    def sites(self, noise: float) -> Array:
        """The noise variance of every row."""
        return namespace(self.count).where(self.count > 0, noise / self.count.clip(1e-300), 1.0)


@dataclass(frozen=True)
class GroupShard(TaskShard):
    """Some tasks in groups. dof, scatter and log_constant are what rows say about the noise alone."""

    on_host: list[Group] = field(default_factory=list)
    dof: float = 0.0
    scatter: float = 0.0
    log_constant: float = 0.0

    @cached_property
    def groups(self) -> list[Group]:
        """The groups where they are computed: a shard travels with those on the host, and its worker batches them."""
        return self.on_host if self.device is None else _batches(self.on_host, self.device)

    def log_noise_density(self, noise: float) -> float:
        """The log density of what rows say about the noise alone."""
        return self.log_constant - 0.5 * (self.dof * float(np.log(2 * np.pi * noise)) + self.scatter / noise)


class PlacedGroups(PlacedTasks):
    """The tasks in groups, in this process or on workers. The only column of `cells.X` is the position of the input.

    Phi holds phi of all labelled inputs; None where these are unit vectors.
    """

    def __init__(
        self, cells: Cells, Phi: Array | None = None, workers: Workers | None = None, device: Device | None = None
    ) -> None:
        super().__init__(cells, workers, device)
        self.Phi = Phi

    def cut(self, spread: bool) -> tuple[list[slice], list[TaskShard]]:
        """Shards of tasks, each with its groups."""
        bounds, shards = super().cut(spread)
        return bounds, [in_groups(s.cells, self.Phi, s.device) for s in shards]

    def holding_out(self, mask: Any) -> PlacedGroups:
        """The same tasks at the same place, some of whose cells are held out."""
        cells = replace(self.cells, count=np.where(mask, 0.0, self.cells.count))
        return PlacedGroups(cells, self.Phi, self._workers, self.of_workers or self.device)


def tasks_of_equal_rows(cells: Cells) -> list[list[int]]:
    """Tasks with the same inputs and counts together; tasks without a row are left out."""
    keys: dict[bytes, list[int]] = {}
    for t in range(len(cells.starts) - 1):
        at = cells.of(t)
        if at.start < at.stop:
            keys.setdefault(cells.X[at].tobytes() + cells.count[at].tobytes(), []).append(t)
    return list(keys.values())


def in_groups(cells: Cells, Phi: Array | None, device: Device | None = None) -> GroupShard:
    """The groups of these tasks, where they are computed; tasks of which no row is seen are left out."""
    position, groups = cells.X[:, 0].astype(np.intp), []
    dof, scatter, log_constant = float(cells.dof.sum()), float(cells.scatter.sum()), float(cells.log_count.sum())
    for tasks in map(np.array, tasks_of_equal_rows(cells)):
        rows = np.arange(cells.starts[tasks[0]], cells.starts[tasks[0] + 1])
        is_seen = cells.count[rows] > 0
        seen, held = rows[is_seen], rows[~is_seen]
        if not len(seen):
            continue
        further = cells.starts[tasks] - cells.starts[tasks[0]]  # from a row of the first task to that of another
        Y, count = cells.y[seen[:, None] + further], cells.count[seen]
        features, new = (at_positions(position[at], Phi) for at in (seen, held))
        if Phi is not None:  # rows of unit noise; where they outnumber theta, the rest of their space is noise alone
            root = np.sqrt(count)[:, None]
            weighted, Y = root * features.at, root * Y
            log_constant += 0.5 * float(np.log(count).sum()) * len(tasks)
            if len(weighted) > weighted.shape[1]:
                Q, R = np.linalg.qr(weighted)
                inside = Q.T @ Y
                dof += (len(weighted) - len(R)) * len(tasks)
                scatter += float(np.sum((Y - Q @ inside) ** 2))
                weighted, Y = R, inside
            features, count = Features(weighted, False), np.ones(len(weighted))
        groups.append(Group(tasks, features, new, held[:, None] + further, count, Y, Y.size))
    return GroupShard(cells, device, on_host=groups, dof=dof, scatter=scatter, log_constant=log_constant)


def _batches(groups: list[Group], device: Device) -> list[Group]:
    """Groups of as many tasks and about as many rows as one, on the device."""
    by_tasks: dict[int, list[int]] = {}
    sizes = np.array([len(g.Y) for g in groups], dtype=np.intp)
    for i in np.argsort(-sizes, kind="stable").tolist():
        by_tasks.setdefault(len(groups[i].tasks), []).append(i)
    out = []
    for near in (near for members in by_tasks.values() for near in alike(members, sizes)):
        first = groups[near[0]].seen
        most = len(near) if first.unit else max(1, MOST_ENTRIES // max(first.at.size, 1))
        out += [_as_one([groups[i] for i in near[k : k + most]], device) for k in range(0, len(near), most)]
    return out


def _as_one(groups: list[Group], device: Device) -> Group:
    """Groups of as many tasks, padded to the rows of the largest, along a leading axis."""
    unit = groups[0].seen.unit
    seen, held = (
        Features(device.put(_stacked([f.at for f in parts], -1 if unit else 0)), unit)
        for parts in ([g.seen for g in groups], [g.held for g in groups])
    )
    count, Y = (device.put(_stacked(parts, 0)) for parts in ([g.count for g in groups], [g.Y for g in groups]))
    held_cells = _stacked([g.held_cells for g in groups], -1)
    tasks = device.put(np.stack([g.tasks for g in groups]))
    return Group(tasks, seen, held, held_cells, count, Y, sum(g.n_cells for g in groups))


def _stacked(parts: Sequence[Any], fill: int) -> Any:
    """Arrays along a new leading axis, each with as many rows of `fill` after its own as the longest needs."""
    out = np.full((len(parts), max(len(v) for v in parts), *parts[0].shape[1:]), fill, dtype=parts[0].dtype)
    for whole, part in zip(out, parts, strict=True):
        whole[: len(part)] = part
    return out
