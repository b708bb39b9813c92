"""Shards on a Dask cluster. Everything is a future: no engine, and no state that a lost worker would take with it.

Shards are scattered once from the client, which keeps them too. Where a worker is lost, Dask runs its tasks again
elsewhere; where the shards themselves went with it, those that are missing are scattered again and the pass is
repeated. The sum of two passes is a tree of tasks on the workers, the solve one more task: an evaluation is one graph,
and only its last results come to the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from borrow.tasks.workers import TRIES, Workers, LostWorkersError, add, add_in_tree, on_one_thread

log = logging.getLogger("borrow")

#: Seconds to wait for a worker where none is left: a busy cluster takes minutes to bring one up.
PATIENCE = 300
#: So often, in seconds, it is looked whether those who have the shards are still there.
LOOK = 10
NOBODY = "the Dask client has no worker, and none came; start workers, or give a number of processes"


class Placed:
    """Shards at the client, and the futures that stand for them on the workers; each is worked on where it lies."""

    def __init__(self, client: Any, shards: list[Any]) -> None:
        self.client, self.shards = client, shards
        self.futures: list[Any] = [None] * len(shards)
        self.homes: list[str] = [""] * len(shards)

    def gone(self) -> list[int]:
        """Shards that are not there, or whose worker is not."""
        alive = self.client.nthreads()
        parts = enumerate(zip(self.futures, self.homes, strict=True))
        return [i for i, (f, home) in parts if f is None or f.status != "finished" or home not in alive]

    def put(self) -> None:
        """Scatter what is gone, in turn over the workers."""
        gone = self.gone()
        if not gone:
            return
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise LostWorkersError(NOBODY) from None
        workers = sorted(self.client.nthreads())
        for k, home in enumerate(workers):
            mine = gone[k :: len(workers)]
            if mine:
                found = self.client.scatter([self.shards[i] for i in mine], workers=[home], hash=False)
                for i, future in zip(mine, found, strict=True):
                    self.futures[i], self.homes[i] = future, home


class DaskWorkers(Workers):
    """The workers of a Dask client."""

    def __init__(self, client: Any) -> None:
        super().__init__()
        self.client = client
        self.lost = 0  # passes that were repeated

    @classmethod
    def current(cls) -> DaskWorkers:
        """Of the current client."""
        try:
            from distributed import get_client
        except ImportError:
            raise ImportError("workers='dask' needs Dask: pip install 'borrow[dask]', or give a number") from None
        try:
            return cls(get_client())
        except ValueError:
            raise ValueError(
                "workers='dask' and there is no Dask client; make one first, `client = distributed.Client()`, or give "
                "a number of processes"
            ) from None

    def place(self, shards: list[Any]) -> Any:
        """Scattered once, when the first pass needs them."""
        return Placed(self.client, shards)

    def map(self, f: Callable[..., Any], placed: Any, given: list[tuple[Any, ...]], common: Any = None) -> list[Any]:
        """One task a shard."""

        def ask() -> list[Any]:
            shared = None if common is None else self.client.scatter([common], hash=False)[0]
            return self._each(f, placed, given, shared)

        return self._persist(placed, ask)

    def total(self, f: Callable[..., Any], placed: Any, given: list[tuple[Any, ...]], common: Any = None) -> Any:
        """One task a shard, and the tree."""

        def ask() -> list[Any]:
            shared = None if common is None else self.client.scatter([common], hash=False)[0]
            return [self._tree(self._each(f, placed, given, shared))]

        return self._persist(placed, ask)[0]

    def two_passes(
        self,
        placed: Any,
        first: Callable[..., Any],
        solve: Callable[[tuple[Any, ...]], Any],
        second: Callable[..., Any],
        given: list[tuple[Any, ...]],
    ) -> tuple[list[Any], Any]:
        """Both passes, the tree and the solve as one graph."""

        def ask() -> list[Any]:
            sums = self._each(first, placed, given, None)
            solved = self._submit(on_one_thread, solve, self._tree(sums))
            return [*self._each(second, placed, given, solved), solved]

        *results, solved = self._persist(placed, ask)
        return results, solved

    def _each(self, f: Callable[..., Any], placed: Any, given: list[tuple[Any, ...]], common: Any) -> list[Any]:
        return [
            self._submit(on_one_thread, f, shard, *args, common, workers=[home])
            for shard, home, args in zip(placed.futures, placed.homes, given, strict=True)
        ]

    def _tree(self, parts: list[Any]) -> Any:
        return add_in_tree(parts, lambda some: self._submit(add, some))

    def _submit(self, f: Callable[..., Any], *args: Any, **where: Any) -> Any:
        return self.client.submit(f, *args, pure=False, **where)

    def _gather(self, placed: Placed, futures: list[Any]) -> list[Any]:
        """The results, unless those who should make them are gone: Dask itself would wait for ever."""
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=LOOK)
                return self.client.gather(futures)
            except TimeoutError:
                if placed.gone():
                    raise CancelledError("a worker is gone") from None

    def _persist(self, placed: Placed, ask: Callable[[], list[Any]]) -> list[Any]:
        """The results of what was asked, again where workers were lost on the way."""
        from distributed import KilledWorker

        last: Exception | None = None
        for _ in range(TRIES):
            try:
                placed.put()
                return self._gather(placed, ask())
            except (CancelledError, KilledWorker, TimeoutError, OSError) as loss:
                self.lost, last = self.lost + 1, loss
                log.info("workers were lost (%s); the pass is repeated", type(loss).__name__)
        raise LostWorkersError(
            f"workers died in {TRIES} passes one after the other; is there enough memory on each? {last}"
        ) from last
