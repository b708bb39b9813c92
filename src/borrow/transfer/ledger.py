"""What a comparison has found so far, in a file that survives being killed.

JSON, one object a line. The first line says what is compared (a digest of the data, the settings, the version); every
further line is one finished fit, on the disk before the next is begun (flush and fsync). A line that was being written
when the process died is cut off when the file is opened again, so resuming repeats at most the fits in flight.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from borrow.data.labels import list_labels

try:
    import fcntl
except ModuleNotFoundError:  # no such lock on this system: two runs on one file are not told apart
    fcntl = None  # type: ignore[assignment]

FORMAT = "borrow comparison"
VERSION = 1
#: Parts of the header that must be the same for a run to go on.
IDENTITY = ("digest", "borrow", "settings")
PATIENCE = 10.0


class LedgerError(ValueError):
    """A file that is not the ledger of this comparison."""


class Ledger:
    """An open file: `done` holds what it held, `write` adds a line. Without a path it only remembers."""

    def __init__(self, path: str | os.PathLike[str] | None, header: Mapping[str, Any]) -> None:
        self.done: list[dict[str, Any]] = []
        self._file: Any = None
        if path is None:
            return
        self.path = Path(path)
        line = _line({"format": FORMAT, "version": VERSION, **header})
        try:
            self._file = open(self.path, "a+b")  # noqa: SIM115  # closed by close()
        except OSError as problem:
            raise LedgerError(f"store={str(path)!r} cannot be written: {problem.strerror}") from None
        try:
            self._lock()
            self._begin(line, header)
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        if fcntl is None:
            return
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > until:
                    raise LedgerError(f"{self.path} is being written by another run; wait for it to end") from None
                time.sleep(0.1)

    def _begin(self, line: bytes, header: Mapping[str, Any]) -> None:
        self._file.seek(0)
        content = self._file.read()
        if line.startswith(content):  # new, empty, or killed while the first line was written
            self._file.truncate(0)
            self._append(line)
            return
        found, self.done, whole = parse(content, self.path)
        for part in IDENTITY:
            _refuse_other(part, found.get(part), header[part], self.path)
        self._file.truncate(whole)

    def write(self, record: Mapping[str, Any]) -> None:
        """Put a line on the disk before anything else happens."""
        if self._file is not None:
            self._append(_line(record))

    def _append(self, line: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and records of a file, finished or not."""
    try:
        content = Path(path).read_bytes()
    except OSError as problem:
        raise LedgerError(f"{path} cannot be read: {problem.strerror}") from None
    header, records, _ = parse(content, path)
    return header, records


def parse(content: bytes, path: Any) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
    """Header, records, and how many bytes of whole lines there are; a torn last line is not one."""
    whole = content.rfind(b"\n") + 1
    lines = content[:whole].split(b"\n")[:-1]
    header = _object(lines[0]) if lines else None
    if header is None or header.get("format") != FORMAT:
        raise LedgerError(f"{path} is not a stored comparison; give another name with store=")
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise LedgerError(f"{path} was written by a later borrow (format {version}); update borrow")
    records = []
    for i, line in enumerate(lines[1:], 2):
        record = _object(line)
        if record is None:
            raise LedgerError(f"{path} is damaged in line {i}; delete that line and what follows, or start anew")
        records.append(record)
    return header, records, whole


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, allow_nan=False).encode() + b"\n"


def _refuse_other(part: str, found: Any, expected: Any, path: Any) -> None:
    expected = json.loads(json.dumps(expected))
    if found == expected:
        return
    if part == "digest":
        raise LedgerError(f"{path} is a comparison of other data; give another name with store=, or delete it")
    if part == "borrow":
        raise LedgerError(f"{path} was begun by borrow {found} and this is {expected}; finish it there, or start anew")
    other = [k for k in expected if not isinstance(found, dict) or found.get(k) != expected[k]]
    was = found.get(other[0]) if isinstance(found, dict) else None
    raise LedgerError(
        f"{path} was begun with other settings ({list_labels(other)}: {was!r} there, {expected[other[0]]!r} now); "
        "give the same, or another name with store="
    )
