"""The tasks of a fit, cut into shards that lie with workers; without workers, one shard in this process.

What one pass over a shard leaves there for the next lives in its `ShardCache`, as long as whoever asked for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from borrow.data.cells import Cells, Codes
from borrow.numerics import device as devices
from borrow.numerics.device import Device, place, require
from borrow.numerics.stored import stored
from borrow.tasks.workers import InProcess, Workers, bounds_of_shards

T = TypeVar("T")


class CacheKey:
    """Stands for whoever asks. In its own process what is kept for it ends with it."""

    name: str | None = None

    def __reduce__(self) -> Any:
        self.name = self.name or f"{os.getpid()}-{time.monotonic_ns()}-{os.urandom(4).hex()}"
        return TravelledKey, (self.name,)


class TravelledKey(CacheKey):
    """The same key elsewhere, where whoever asks cannot be seen; it is told by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TravelledKey) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class ShardCache:
    """Values by key and name. They do not travel: a copy is empty.

    Of keys that have travelled the last one is held for each name; a value may be computed from those held before it.
    """

    def __init__(self) -> None:
        self.values: WeakKeyDictionary[CacheKey, dict[str, Any]] = WeakKeyDictionary()
        self.held: dict[str, CacheKey] = {}

    def __reduce__(self) -> Any:
        return ShardCache, ()

    def clear(self) -> None:
        """Keep nothing of what was kept."""
        self.values.clear()
        self.held.clear()

    def get(self, name: str, key: CacheKey) -> Any:
        """What was kept under this name and key, or None; then nothing older is held, to make room for the new."""
        if isinstance(key, TravelledKey) and self.held.get(name) != key:
            names = list(self.held)
            for old in names[names.index(name) :] if name in names else ():
                del self.held[old]
        return self.values.get(key, {}).get(name)

    def keep(self, name: str, key: CacheKey, value: T) -> T:
        """Keep a value, and return it."""
        self.values.setdefault(key, {})[name] = value
        if isinstance(key, TravelledKey):
            self.held.setdefault(name, key)
        return value


def _own(parts: Any, bounds: list[slice]) -> list[tuple[Any, ...]]:
    """What each shard is sent beside the function and what is common."""
    if parts is None:
        return [()] * len(bounds)
    if len(bounds) == 1:
        return [(parts,)]
    return [(parts[at] if isinstance(parts, (list, np.ndarray)) else parts.part(at),) for at in bounds]


@dataclass(frozen=True)
class TaskShard:
    """Rows of some tasks, where they are computed (None: on the host), and what a pass leaves for the next."""

    cells: Cells
    device: Device | None = None
    cache: ShardCache = field(default_factory=ShardCache)
    always: CacheKey = field(default_factory=CacheKey)

    def kept(self, name: str) -> Any:
        """What was kept of the rows alone, whatever the hyper-parameters; None where nothing was."""
        return self.cache.get(name, self.always)

    def keep(self, name: str, value: T) -> T:
        """Keep something that depends on the rows alone."""
        return self.cache.keep(name, self.always, value)

    @cached_property
    def X(self) -> Any:
        """The inputs where matrices are computed."""
        return place(self.cells.X, self.device)


@stored("placed-tasks", state="cells kept device")
class PlacedTasks:
    """The tasks whose rows are `cells`: one shard in this process, or several on workers while these are open.

    Shards are sent to their workers when the first pass needs them, and once. Tasks that were on workers are afterwards
    computed here when they are asked for, one at a time, and not kept: what is held grows with the rows and not with
    their squares. With workers the device is theirs: each puts its shards on the one that it finds, if any, and what
    they answer is put together here on the host.
    """

    of_workers: Device | None = None
    _workers: Workers | None = None
    _ready: tuple[Workers, list[slice], Any] | None = None

    def __init__(self, cells: Cells, workers: Workers | None = None, device: Device | None = None) -> None:
        self.cells, self.kept = cells, workers is None
        self.device = device if workers is None else None
        self.of_workers = None if workers is None else device
        self._workers = workers

    def __getstate__(self) -> dict[str, Any]:
        return {"cells": self.cells, "kept": self.kept, "device": self.device}

    def only(self, t: int) -> PlacedTasks:
        """Task t by itself, in this process; a small one is computed on the host."""
        cells = self.cells.only(t)
        return PlacedTasks(cells, device=self.device if len(cells.y) >= devices.ALONE_ROWS else None)

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
        """The sum over all shards of f(shard, common), or of f(shard, common, the shard's part of `parts`).

        Parts are a list or an array of one entry per task, or something that has `part(tasks)`.
        """
        workers, bounds, placed = self.place()
        return workers.total(f, placed, common, _own(parts, bounds))

    def each(self, f: Callable[..., Any], common: Any, parts: Any = None) -> list[Any]:
        """The same without the sum: what f returned for each shard, in the order of their tasks."""
        workers, bounds, placed = self.place()
        return workers.map(f, placed, common, _own(parts, bounds))

    def report(self, value: float) -> None:
        """Tell who waits for a long search how far it is."""
        self.place()[0].watch(value)

    def require(self, n_bytes: float, what: str, remedy: str) -> None:
        """A MemoryError where the matrices of all tasks would not fit here; workers look after themselves."""
        if self.kept:
            require(self.device, n_bytes, what, remedy)

    def cut(self, on_workers: bool) -> tuple[list[slice], list[TaskShard]]:
        """All tasks as one shard, some in each, or each by itself."""
        M = len(self.cells.starts) - 1
        if self.kept:
            return [slice(0, M)], [TaskShard(self.cells, self.device)]
        sizes = np.diff(self.cells.starts)
        bounds = bounds_of_shards(sizes) if on_workers else [slice(t, t + 1) for t in range(M)]
        device = self.of_workers if on_workers else None
        return bounds, [TaskShard(self.cells.some(range(at.start, at.stop)), device) for at in bounds]


def rows_as_tasks(X: Any, starts: Codes, device: Device | None = None) -> PlacedTasks:
    """Inputs stacked by task, without targets, as tasks of this process."""
    n, none = len(X), np.zeros(len(starts) - 1)
    return PlacedTasks(Cells(X, np.zeros(n), np.ones(n), starts, none, none, none), device=device)
