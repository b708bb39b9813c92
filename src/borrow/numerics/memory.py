"""How much memory a fit will need, said before it is allocated."""

from __future__ import annotations

import psutil


def available() -> float:
    """Bytes of memory that are free."""
    return float(psutil.virtual_memory().available)


def require(n_bytes: float, what: str, remedy: str) -> None:
    """Raise a MemoryError with both figures and a remedy where `n_bytes` is more than there is."""
    compare(n_bytes, available(), what, remedy)


def compare(n_bytes: float, free: float, what: str, remedy: str, where: str = "") -> None:
    """The same for the memory of any place."""
    if n_bytes > free:
        raise MemoryError(f"{what} needs about {_gib(n_bytes)} and {_gib(free)} are free{where}; {remedy}")


def _gib(n_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.3g} TiB" if n_bytes < 1024 else f"{n_bytes / 1024:.3g} PiB"
