"""How many threads BLAS takes: small matrices lose time where several wait for each other.

The number of threads of OpenBLAS is one for the whole process. So the first who asks for a single one sets it and the
last who leaves puts back what was there, whichever threads of the program they are in. Libraries that keep a number per
thread (OpenMP, MKL) are limited in the thread that asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from threading import Lock
from typing import Any
from weakref import WeakSet

from threadpoolctl import ThreadpoolController

from borrow.numerics.memory import keep_pages

#: Below this many rows in the largest block one BLAS thread is faster than several.
SMALL_BLOCK = 1500


def single_thread(largest: int) -> AbstractContextManager[None]:
    """One BLAS thread where matrices are small: several lose time waiting for each other. Their memory is kept."""
    if largest >= SMALL_BLOCK:
        return nullcontext()
    keep_pages()
    return one_thread()


@contextmanager
def one_thread() -> Iterator[None]:
    """One BLAS thread for this process, until all who asked for it have left."""
    holder = _Holder()
    with _limit.of_threads.limit(limits=1):
        try:
            _limit.enter(holder)
            yield
        finally:
            _limit.leave(holder)


class _Holder:
    """Somebody who needs the limit."""


class _Limit:
    """The limit of the process, and who holds it. Libraries are looked for once, since that takes a while.

    An interrupt may fall into `leave` itself. Holders are remembered weakly, so that one that is gone counts no longer,
    and what was there before stays known until it is put back: the next who leaves does it.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.holders: WeakSet[_Holder] = WeakSet()
        self.before: list[int] | None = None

    @cached_property
    def of_threads(self) -> Any:
        """The libraries that keep a number per thread."""
        return ThreadpoolController().select(internal_api=["openmp", "mkl"], threading_layer="openmp")

    @cached_property
    def of_process(self) -> list[Any]:
        """The libraries that keep one number."""
        own = {library.filepath for library in self.of_threads.lib_controllers}
        return [library for library in ThreadpoolController().lib_controllers if library.filepath not in own]

    def enter(self, holder: _Holder) -> None:
        """Set the limit where nobody has."""
        with self.lock:
            if not self.holders:
                now = [library.num_threads for library in self.of_process]
                if self.before is None or max(now, default=1) > 1:  # else an interrupted `leave` did not put it back
                    self.before = now
                self._set([1] * len(now))
            self.holders.add(holder)

    def leave(self, holder: _Holder) -> None:
        """Put back what was there where nobody else needs the limit; again, or before `enter`, it does nothing."""
        with self.lock:
            if holder in self.holders:
                self.holders.discard(holder)
                if not self.holders and self.before is not None:
                    self._set(self.before)
                    self.before = None

    def _set(self, numbers: list[int]) -> None:
        for library, number in zip(self.of_process, numbers, strict=True):
            # Newer versions of threadpoolctl let one thread of the program alone set OpenBLAS, until it lets go, and
            # ignore others without a word; here the lock and the count of holders keep them from disturbing each other.
            let_go = getattr(library, "clear_controlling_thread", None)
            if let_go is not None:
                let_go(force=True)
            library.set_num_threads(number)
            if let_go is not None:
                let_go(force=True)


_limit = _Limit()
