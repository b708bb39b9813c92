"""Who works on shards of tasks: this process, several processes, a Dask cluster. A map over shards, and their sum.

A shard is placed once and stays where it is. A pass sends each shard a function and a few small arguments and gets
something small back. Evidence with gradient is two passes with a solve between them (`borrow.covariance.two_pass`).

Sums are added in a tree whose shape depends on the number of shards alone, and shards on the data alone: the answer is
the same whichever worker was first, and however many there are. What a first pass made may be kept beside its shard
(`ShardCache`) for the second one; where it is lost, it is made again. So a lost worker costs time and nothing else.
"""

from __future__ import annotations

import operator
import os
import shutil
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import reduce
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from borrow.numerics.linalg import is_tensor, to_host
from borrow.numerics.progress import Watch
from borrow.numerics.threads import one_thread
from borrow.numerics.warned import log

#: Parts that are added at one node of the tree.
FAN = 8
#: A shard has about so many rows; there are at least so many shards where there are as many tasks, and at most so many,
#: since a scheduler hands out about a thousand pieces of work a second.
ROWS, FEWEST, MOST = 10_000, 4, 1000
#: How often a pass is tried again after workers were lost.
TRIES = 20
#: How often a worker process looks whether its parent is still there.
LOOK_SECONDS = 0.5


class LostWorkersError(RuntimeError):
    """Workers died again and again."""


def bounds_of_shards(sizes: Any) -> list[slice]:
    """Tasks of every shard: next to each other, with about the same number of rows."""
    n, M = int(np.sum(sizes)), len(sizes)
    n_shards = min(M, max(FEWEST, -(-n // ROWS)), MOST)
    middle = np.cumsum(sizes) - 0.5 * np.asarray(sizes)
    number = np.minimum((middle * n_shards / max(n, 1)).astype(int), n_shards - 1)
    edges = np.flatnonzero(np.diff(number, prepend=-1))
    return [slice(int(i), int(j)) for i, j in zip(edges, [*edges[1:], M], strict=True)]


def add(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Tuples added entry by entry, in their order; lists are put one after the other."""
    return tuple(reduce(operator.add, entries) for entries in zip(*parts, strict=True))


def add_in_tree(parts: Sequence[Any], node: Callable[[Sequence[Any]], Any] = add) -> Any:
    """The sum of all parts; the shape of the tree depends on their number alone."""
    level = list(parts)
    while len(level) > 1:
        level = [node(level[i : i + FAN]) for i in range(0, len(level), FAN)]
    return level[0]


class Workers(ABC):
    """Those who work on shards. Abstract."""

    def __init__(self, shown: bool | None = None) -> None:
        self.watch = Watch(shown=shown)
        self.closed = False

    @abstractmethod
    def place(self, shards: list[Any]) -> Any:
        """Put the shards where they will be worked on; what comes back stands for them in `map` and `total`."""

    @abstractmethod
    def map(self, f: Callable[..., Any], placed: Any, common: Any, own: list[tuple[Any, ...]]) -> list[Any]:
        """f(shard, common, *own[i]) of every shard, in their order."""

    def total(self, f: Callable[..., Any], placed: Any, common: Any, own: list[tuple[Any, ...]]) -> Any:
        """The sum of f(shard, common, *own[i]), tuples of numbers, arrays or lists, over all shards."""
        return add_in_tree(self.map(f, placed, common, own))

    def close(self) -> None:
        """Give back what was taken; tasks that lie there are computed in this process from here on."""
        self.closed = True


class InProcess(Workers):
    """This process, one shard after the other. With `keep=False` no pass leaves anything for the next.

    With `host=True` answers come back on the host, as those of other workers do, wherever a shard is computed.
    """

    def __init__(self, shown: bool | None = None, keep: bool = True, host: bool = False) -> None:
        super().__init__(shown)
        self.keep, self.host = keep, host

    def place(self, shards: list[Any]) -> Any:
        """They stay where they are."""
        return shards

    def map(self, f: Callable[..., Any], placed: Any, common: Any, own: list[tuple[Any, ...]]) -> list[Any]:
        """One after the other."""
        found = []
        for shard, more in zip(placed, own, strict=True):
            answer = f(shard, common, *more)
            found.append(on_host(answer) if self.host else answer)
            if not self.keep:
                shard.cache.clear()
        return found


class Processes(Workers):
    """Processes of this machine, by joblib's loky. Shards lie in files that are mapped into memory.

    Every process has shards of its own, so that what a first pass keeps is there in the second.
    """

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        self.pools: list[Any] = [None] * n
        sweep_folders()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_folder_prefix()}{os.getpid()}-"))

    def place(self, shards: list[Any]) -> Any:
        """Each shard is written to a file, once."""
        import joblib

        number = len(list(self.folder.iterdir()))
        paths = [self.folder / f"shard-{number + i}" for i in range(len(shards))]
        for path, shard in zip(paths, shards, strict=True):
            joblib.dump(shard, path)
        return [str(p) for p in paths]

    def map(self, f: Callable[..., Any], placed: Any, common: Any, own: list[tuple[Any, ...]]) -> list[Any]:
        """All at once; a process that died is started again and asked again."""
        from joblib.externals.loky.process_executor import BrokenProcessPool  # the mother of all its failures

        results: list[Any] = [None] * len(placed)
        left = list(range(min(self.n, len(placed))))  # process k has the shards k, k + n, ...
        for _ in range(TRIES):
            asked, lost = [], []
            for k in left:
                jobs = list(zip(placed[k :: self.n], own[k :: self.n], strict=True))
                try:
                    asked.append((k, self._pool(k).submit(_in_process, f, jobs, common)))
                except BrokenProcessPool:
                    lost.append(k)
            for k, future in asked:
                try:
                    results[k :: self.n] = future.result()
                except BrokenProcessPool:
                    lost.append(k)
            if not lost:
                return results
            log.info("%d worker processes were lost; what they had is done again", len(lost))
            for k in lost:
                self._dismiss(k)
            left = sorted(lost)
        raise LostWorkersError(f"worker processes died {TRIES} times; is there enough memory for {self.n} of them?")

    def _pool(self, k: int) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        if self.pools[k] is None:
            threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            self.pools[k] = ProcessPoolExecutor(1, initializer=end_with, initargs=(os.getpid(),), env=threads)
        return self.pools[k]

    def _dismiss(self, k: int) -> None:
        if self.pools[k] is not None:
            self.pools[k].shutdown(wait=True, kill_workers=True)
        self.pools[k] = None

    def close(self) -> None:
        """End the processes and remove the files."""
        super().close()
        for k in range(self.n):
            self._dismiss(k)
        shutil.rmtree(self.folder, ignore_errors=True)


def _folder_prefix() -> str:
    """How the folders of shards are called, before the number of their process, which counts in its namespace."""
    try:
        return f"borrow-{os.stat('/proc/self/ns/pid').st_ino}-"
    except OSError:  # not on Linux, where there is one
        return "borrow-0-"


def sweep_folders() -> None:
    """Delete the folders of shards that processes left which were killed."""
    prefix = _folder_prefix()
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*-*"):
        owner = left.name.removeprefix(prefix).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)  # another's are left to them


def end_with(parent: int) -> None:
    """End this process as soon as its parent is gone, killed say; where another process started it, do nothing.

    What a dead parent leaves is then cleaned up by the tracker that lives as long as one of its processes.
    """
    if os.getppid() != parent or _watched:
        started_by_it = current_process().name.startswith("LokyProcess") and not _watched
        if started_by_it and not psutil.pid_exists(parent):  # it was killed while this process was loading
            os._exit(1)
        return
    _watched.append(parent)

    def watch() -> None:
        while os.getppid() == parent and psutil.pid_exists(parent):  # on Windows the number stays
            time.sleep(LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="borrow-parent", daemon=True).start()


_watched: list[int] = []
_shards: dict[str, Any] = {}


def _in_process(f: Callable[..., Any], jobs: list[tuple[str, tuple[Any, ...]]], common: Any) -> list[Any]:
    """Runs in a worker process, which holds its shards until it ends."""
    import joblib

    for path, _ in jobs:
        if path not in _shards:
            _shards[path] = joblib.load(path, mmap_mode="r")
    return [on_one_thread(f, _shards[path], common, *own) for path, own in jobs]


def on_one_thread(f: Callable[..., Any], *args: Any) -> Any:
    """A worker is one of many: its BLAS takes one thread, and what it answers travels as host arrays."""
    with one_thread():
        return on_host(f(*args))


def on_host(answer: Any) -> Any:
    """The answer of a shard with its tensors, which may stand in tuples and lists, as host arrays."""
    if type(answer) in (tuple, list):
        return type(answer)(on_host(part) for part in answer)
    return to_host(answer) if is_tensor(answer) else answer


def check_workers(workers: Any) -> None:
    """Refuse what names no workers."""
    whole = isinstance(workers, (int, np.integer)) and not isinstance(workers, bool)
    named = workers is None or (isinstance(workers, str) and workers == "dask")
    if named or (whole and (workers >= 1 or workers == -1)):
        return
    if type(workers).__module__.partition(".")[0] == "distributed":
        raise ValueError(
            "workers= is a Dask client; a client cannot be copied, and scikit-learn copies arguments: give "
            "workers='dask', which takes the current client (`with client.as_current():` where there are several)"
        )
    raise ValueError(
        f"workers={workers!r}: expected None (this process), a number of processes, -1 for one per core, or 'dask'"
    )


@contextmanager
def open_workers(workers: Any) -> Iterator[Workers | None]:
    """Those whom the constructor's `workers` asks for, until the fit is over; None for None."""
    check_workers(workers)
    if workers is None:
        yield None
        return
    found: Workers
    if isinstance(workers, str):
        from borrow.tasks.dask import DaskWorkers

        found = DaskWorkers.current()
    else:
        n = int(workers) if workers > 0 else (os.cpu_count() or 1)
        found = InProcess(host=True) if n == 1 else Processes(n)
    with closing(found):
        yield found
