"""Shards on a Dask cluster. Everything is a future: no engine, and no state that a lost worker would take with it.

Shards are scattered once from the client, which keeps them too. Where a worker is lost, Dask runs its tasks again
elsewhere; where the shards themselves went with it, those that are missing are scattered again and the pass is
repeated. A sum is a tree of tasks on the workers: only its last result comes to the client.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

from borrow.numerics.warned import log
from borrow.tasks.workers import TRIES, LostWorkersError, Workers, add, add_in_tree, on_one_thread

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

    def lost_shards(self) -> list[int]:
        """Shards that are not there, or whose worker is not."""
        alive = self.client.nthreads()
        parts = enumerate(zip(self.futures, self.homes, strict=True))
        return [i for i, (f, home) in parts if f is None or f.status != "finished" or home not in alive]

    def put(self) -> None:
        """Scatter what is lost, in turn over the workers."""
        lost = self.lost_shards()
        if not lost:
            return
        if not self.client.nthreads():
            log.warning("the Dask client has no worker; waiting for one, %s seconds at most", PATIENCE)
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise LostWorkersError(NOBODY) from None
        workers = sorted(self.client.nthreads())
        for k, home in enumerate(workers):
            mine = lost[k :: len(workers)]
            if mine:
                found = self.client.scatter([self.shards[i] for i in mine], workers=[home], hash=False)
                for i, future in zip(mine, found, strict=True):
                    self.futures[i], self.homes[i] = future, home


class DaskWorkers(Workers):
    """The workers of a Dask client."""

    def __init__(self, client: Any) -> None:
        super().__init__()
        self.client = client
        self.placed: list[Placed] = []
        self.lost = 0  # passes that were repeated

    @classmethod
    def current(cls) -> DaskWorkers:
        """The workers of the current client."""
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
        self.placed.append(Placed(self.client, shards))
        return self.placed[-1]

    def map(self, f: Callable[..., Any], placed: Any, common: Any, own: list[tuple[Any, ...]]) -> list[Any]:
        """One piece of work per shard."""
        return self._persist(placed, lambda: self._each(f, placed, common, own))

    def total(self, f: Callable[..., Any], placed: Any, common: Any, own: list[tuple[Any, ...]]) -> Any:
        """One piece of work per shard, and the tree."""
        node = partial(self._submit, add)
        return self._persist(placed, lambda: [add_in_tree(self._each(f, placed, common, own), node)])[0]

    def close(self) -> None:
        """Let the shards on the workers go; the client is the caller's."""
        super().close()
        for placed in self.placed:
            placed.futures = [None] * len(placed.futures)

    def _each(self, f: Callable[..., Any], placed: Any, common: Any, own: list[tuple[Any, ...]]) -> list[Any]:
        shared = None if common is None else self.client.scatter([common], hash=False)[0]
        return [
            self._submit(on_one_thread, f, shard, shared, *more, workers=[home])
            for shard, home, more in zip(placed.futures, placed.homes, own, strict=True)
        ]

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
                if placed.lost_shards():
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
