"""How many threads BLAS takes: small matrices lose time where several wait for each other."""

from __future__ import annotations

from typing import Any

from threadpoolctl import ThreadpoolController

#: Below this many rows in the largest block one BLAS thread is faster than several.
SMALL_BLOCK = 1500


def single_thread(largest: int) -> Any:
    """One BLAS thread where matrices are small: several lose time waiting for each other."""
    return _controller().limit(limits=1 if largest < SMALL_BLOCK else None)


def _controller() -> ThreadpoolController:
    global _threads
    if _threads is None:
        _threads = ThreadpoolController()
    return _threads


_threads: ThreadpoolController | None = None
