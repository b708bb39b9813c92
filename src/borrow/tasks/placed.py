"""The tasks of a fit, cut into shards that lie with workers; without workers, one shard in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from borrow.data.cells import Cells, Codes
from borrow.numerics import device as devices
from borrow.numerics.device import Device, place, require
from borrow.numerics.linalg import is_tensor
from borrow.numerics.stored import stored
from borrow.numerics.threads import SMALL_BLOCK
from borrow.tasks.cache import CacheKey, ShardCache
from borrow.tasks.workers import InProcess, Workers, bounds_of_shards

T = TypeVar("T")


def _own(parts: Any, bounds: list[slice]) -> list[tuple[Any, ...]]:
    """What each shard is sent beside the function and what is common."""
    if parts is None:
        return [()] * len(bounds)
    if len(bounds) == 1:
        return [(parts,)]
    return [(parts[at] if isinstance(parts, (list, np.ndarray)) else parts.part(at),) for at in bounds]


class AtPlace:
    """What lies where its matrices are computed: on a device, or on the host (None)."""

    device: Device | None

    @property
    def batched(self) -> bool:
        """Whether tasks of about one size are worked on at once: one small matrix would not keep a device busy."""
        return self.device is not None

    def put(self, array: Any) -> Any:
        """The array where matrices are computed."""
        return array if is_tensor(array) else place(array, self.device)

    def put_alone(self, array: Any) -> Any:
        """The same for rows of a task that is worked on by itself: those of a small one stay on the host."""
        return self.put(array) if len(array) >= devices.ALONE_ROWS else array


@dataclass(frozen=True)
class TaskShard(AtPlace):
    """Rows of some tasks, where they are computed (None: on the host), and what a pass leaves for the next."""

    cells: Cells
    device: Device | None = None
    cache: ShardCache = field(default_factory=ShardCache)
    always: CacheKey = field(default_factory=CacheKey)

    def made_once(self, name: str, make: Callable[[], T]) -> T:
        """What depends on the rows alone, whatever the hyper-parameters, made when it is first asked for."""
        found: T | None = self.cache.get(name, self.always)
        return self.cache.keep(name, self.always, make()) if found is None else found

    def tasks(self) -> PlacedTasks:
        """These tasks as those of the process that they are in."""
        return PlacedTasks(self.cells, device=self.device)

    @cached_property
    def X(self) -> Any:
        """The inputs where matrices are computed."""
        return self.put(self.cells.X)


#: How a shard is made of its rows and its device.
MakeShard = Callable[[Cells, Device | None], Any]


@stored("placed-tasks", state="cells kept device")
class PlacedTasks(AtPlace):
    """The tasks whose rows are `cells`: one shard in this process, or several on workers while these are open.

    Shards are sent to their workers when the first pass needs them, and once. Tasks that were on workers are afterwards
    computed here when they are asked for, one at a time, and not kept: what is held grows with the rows and not with
    their squares. With workers the device is theirs: each puts its shards on the one that it finds, if any, and what
    they answer is put together here on the host.
    """

    workers_device: Device | None = None
    _workers: Workers | None = None
    _ready: tuple[Workers, list[slice], Any] | None = None
    _make: MakeShard = staticmethod(TaskShard)

    def __init__(
        self, cells: Cells, workers: Workers | None = None, device: Device | None = None, make: MakeShard = TaskShard
    ) -> None:
        self.cells, self.kept = cells, workers is None
        self.device = device if workers is None else None
        self.workers_device = None if workers is None else device
        self._workers, self._make = workers, make

    def __getstate__(self) -> dict[str, Any]:
        return {"cells": self.cells, "kept": self.kept, "device": self.device}

    @property
    def batched(self) -> bool:
        """Whether tasks of about one size are worked on at once, here or by workers that may have a device."""
        return (self.workers_device or self.device) is not None

    @property
    def small(self) -> bool:
        """Whether their matrices are so small that the process keeps the memory of one evaluation for the next."""
        return self.device is None and len(self.cells.y) < SMALL_BLOCK

    def with_cells(self, cells: Cells, make: MakeShard | None = None) -> PlacedTasks:
        """Other rows at the same place, in shards that are made as these, or as `make` says."""
        return PlacedTasks(cells, self._workers, self.workers_device or self.device, make or self._make)

    def here(self, cells: Cells) -> PlacedTasks:
        """Other rows in this process, where it computes."""
        return PlacedTasks(cells, device=self.device)

    def on_host(self) -> PlacedTasks:
        """The same rows in this process, on the host."""
        return PlacedTasks(self.cells)

    def only(self, t: int) -> PlacedTasks:
        """Task t by itself, in this process; a small one is computed on the host."""
        alone = self.here(self.cells.only(t))
        return alone if len(alone.cells.y) >= devices.ALONE_ROWS else alone.on_host()

    def place(self) -> tuple[Workers, list[slice], Any]:
        """Send the shards to who works on them, once: the workers, the shards' tasks, what stands for the shards."""
        if self._workers is not None and self._workers.closed:
            self._workers = self._ready = None
        if self._ready is None:
            workers = self._workers or InProcess(shown=False, keep=self.kept)
            bounds, shards = self.cut(self._workers is not None)
            self._ready = workers, bounds, workers.place(shards)
        return self._ready

    @property
    def bounds(self) -> list[slice]:
        """The tasks of each shard."""
        return self.place()[1]

    def total(self, f: Callable[..., Any], common: Any, parts: Any = None) -> Any:
        """The sum over all shards of f(shard, common), or of f(shard, common, the shard's part of `parts`)."""
        workers, bounds, placed = self.place()
        return workers.total(f, placed, common, _own(parts, bounds))

    def each(self, f: Callable[..., Any], common: Any, parts: Any = None) -> list[Any]:
        """The same without the sum: what f returned for each shard, in the order of their tasks."""
        workers, bounds, placed = self.place()
        return workers.map(f, placed, common, _own(parts, bounds))

    def report(self, value: float) -> None:
        """Tell who waits for a long search how far it is."""
        self.place()[0].watch(value)

    def require(
        self, what: str, remedy: str, shared: float = 0.0, host: float = 0.0, device: float | None = None
    ) -> None:
        """A MemoryError where so many numbers would not fit, before they are allocated.

        `shared` are in this process, the others where the tasks lie: on the host, or as many as a device needs.
        Workers look after themselves.
        """
        of_tasks = (host if self.device is None or device is None else device) if self.kept else 0.0
        if shared + of_tasks > 0.0:
            require(self.device, 8.0 * (shared + of_tasks), what, remedy)

    def cut(self, on_workers: bool) -> tuple[list[slice], list[TaskShard]]:
        """All tasks as one shard, some in each, or each by itself."""
        M = len(self.cells.starts) - 1
        if self.kept:
            return [slice(0, M)], [self._make(self.cells, self.device)]
        bounds = bounds_of_shards(np.diff(self.cells.starts)) if on_workers else [slice(t, t + 1) for t in range(M)]
        device = self.workers_device if on_workers else None
        return bounds, [self._make(self.cells.some(range(at.start, at.stop)), device) for at in bounds]


def rows_as_tasks(X: Any, starts: Codes, device: Device | None = None) -> PlacedTasks:
    """Inputs stacked by task, without targets, as tasks of this process."""
    n, none = len(X), np.zeros(len(starts) - 1)
    return PlacedTasks(Cells(X, np.zeros(n), np.ones(n), starts, none, none, none), device=device)
