"""A file is written whole or not at all: one way for stored models, tables and reports."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no such lock; there a file that is open cannot be deleted anyway
    fcntl = None  # type: ignore[assignment]

#: Temporary files are called `.borrow-<eight hexadecimal digits>.part`, however long the name of the target is.
PART = ".borrow-{}.part"
#: Seconds after which a temporary file that nobody holds open is taken for one that a killed process left behind.
STALE = 60.0


def write_atomically(path: str | os.PathLike[str], data: bytes | Iterable[bytes]) -> None:
    """Put the bytes, or portions as they come, in the file; what was there is replaced once all are on the disk.

    Whoever opens the path meanwhile, or after a power cut, finds the old file or the new one and never a part. A
    symbolic link stays one: the file that it points to is replaced. A file that is replaced keeps its permissions.
    Temporary files that killed processes left in the folder are deleted. Folders, devices and pipes are refused.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(path, target)
    _sweep(target.parent)
    part = target.with_name(PART.format(secrets.token_hex(4)))
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as problem:
        raise type(problem)(problem.errno, problem.strerror, str(path)) from None
    try:
        with open(handle, "wb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)  # tells that this process is at work on it
            for portion in [data] if isinstance(data, bytes) else data:
                file.write(portion)
            file.flush()
            if mode is not None:
                os.chmod(part, mode)
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _mode(path: str | os.PathLike[str], target: Path) -> int | None:
    """The permissions of the file that will be replaced; None where there is none yet."""
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(f"{str(path)!r} is a folder; give the name of a file in it")
    if not stat.S_ISREG(found):
        raise OSError(f"{str(path)!r} is a device or a pipe, which cannot be replaced; give the name of a file")
    return stat.S_IMODE(found)


def _sweep(folder: Path) -> None:
    """Delete the temporary files of writers that are gone; the lock of a living one is held until it is done."""
    for left in folder.glob(PART.format("[0-9a-f]" * 8)):
        with contextlib.suppress(OSError):  # held by its writer, someone else's, or already swept
            if time.time() - left.lstat().st_mtime < STALE or not stat.S_ISREG(left.lstat().st_mode):
                continue
            with open(left, "rb") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _sync_folder(folder: Path) -> None:
    """Have the new name on the disk too, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse it; the file itself is written
            os.fsync(handle)
    finally:
        os.close(handle)
