"""How much memory a fit will need, said before it is allocated; and small matrices that stay with the process."""

from __future__ import annotations

from math import inf
from pathlib import Path, PurePosixPath

import numpy as np
import psutil

#: Freed blocks of up to so many bytes stay with the process: below the most that the C library of Linux allows.
KEPT = 31 * 2**20
#: Of control groups, version 2 and 1: where they are mounted, and the files of limit, use, and what use can give back.
GROUPS = {
    True: ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    False: ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}

#: Version 1 says that there is no limit by a number of bytes beyond any memory.
NO_LIMIT = 2.0**62


def keep_pages() -> None:
    """Let the C library keep what small matrices free for the next ones, instead of giving it back to the system.

    Getting thousands of matrices of some hundred rows from the system page by page takes an eighth of a short fit.
    glibc keeps blocks up to the largest that was ever freed (mallopt(3), M_MMAP_THRESHOLD); one that is never written
    to takes no memory. With other C libraries nothing changes.
    """
    np.empty(KEPT, dtype=np.uint8)


def available() -> float:
    """Bytes of memory that are free, in the machine and in the container that this process may be in."""
    return min(float(psutil.virtual_memory().available), container_free())


def container_free(root: Path = Path("/")) -> float:
    """Bytes that are left under the limits of the process's control groups; infinite where there is no limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # no Linux
        return inf
    free = inf
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers and "memory" not in controllers.split(","):
            continue
        mount, *files = GROUPS[controllers == ""]
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):  # a limit holds for all that is below it
            free = min(free, _left(f"{root}/{mount}{group}/", *files))
    return free


def _left(folder: str, limit: str, use: str, cache: str) -> float:
    """What one group leaves; infinite where it sets no limit, or is not to be seen from inside a container."""
    try:
        if (allowed := float(Path(folder + limit).read_text().replace("max", "inf"))) >= NO_LIMIT:
            return inf
        used = float(Path(folder + use).read_text())
        stat = dict(line.split() for line in Path(folder + "memory.stat").read_text().splitlines())
    except OSError:
        return inf
    return max(allowed - used + float(stat.get(cache, 0)), 0.0)


def require(n_bytes: float, what: str, remedy: str, free: float | None = None, where: str = "") -> None:
    """Raise a MemoryError with both figures and a remedy where `n_bytes` is more than there is, here or elsewhere."""
    free = available() if free is None else free
    if n_bytes > free:
        raise MemoryError(f"{what} needs about {_gib(n_bytes)} and {_gib(free)} are free{where}; {remedy}")


def _gib(n_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.3g} TiB" if n_bytes < 1024 else f"{n_bytes / 1024:.3g} PiB"
