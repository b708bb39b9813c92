"""What a comparison has found so far, in a file that survives being killed.

JSON, one object per line. The first line says what is compared (a digest of the data, the settings, the version); every
further line is one finished fit, on the disk before the next is begun (flush and fsync). A line that was being written
when the process died is cut off when the file is opened again, so resuming repeats at most the fits in flight.

Every line ends with a SHA-256 of the checksum of the line before it and of its own other content, so that a changed,
missing or moved line is found when the file is read. One run at a time: the file is locked while it is open, and
another run waits a little and is then refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from borrow.data.labels import list_labels

try:
    import fcntl
except ModuleNotFoundError:  # no such lock on this system: two runs on one file are not told apart
    fcntl = None  # type: ignore[assignment]

FORMAT = "borrow comparison"
VERSION = 4
PATIENCE = 10.0


class LedgerError(ValueError):
    """A file that is not the ledger of this comparison."""


@dataclass
class Ledger:
    """An open file: `done` holds the lines that it held, `write` adds one. Without a file it only remembers."""

    file: Any = None
    done: list[dict[str, Any]] = field(default_factory=list)
    checksum: str = ""  # of the last line

    def write(self, record: Mapping[str, Any]) -> None:
        """Put a line on the disk before anything else happens."""
        if self.file is not None:
            line, self.checksum = _line(record, self.checksum)
            self.file.seek(0, os.SEEK_END)
            self.file.write(line)
            self.file.flush()
            os.fsync(self.file.fileno())


@contextmanager
def open_ledger(path: str | os.PathLike[str] | None, header: Mapping[str, Any]) -> Iterator[Ledger]:
    """The ledger of the comparison that the header describes, begun or gone on with; no path, no file."""
    if path is None:
        yield Ledger()
        return
    try:
        if os.path.exists(path):
            _refuse_irregular(path)
        file = open(path, "a+b")  # noqa: SIM115  # closed below
    except OSError as problem:
        raise LedgerError(f"store={str(path)!r} cannot be written: {problem.strerror}") from None
    with file:
        _lock(file, path)
        file.seek(0)
        content, first = file.read(), {"format": FORMAT, "version": VERSION, **header}
        ledger = Ledger(file)
        if _line(first, "")[0].startswith(content):  # new, empty, or killed while the first line was written
            file.truncate(0)
            ledger.write(first)
        else:
            found, ledger.done, whole, ledger.checksum = parse(content, path)
            _refuse_other(found, json.loads(json.dumps(header)), path)
            file.truncate(whole)
        yield ledger


def _lock(file: Any, path: Any) -> None:
    until = time.monotonic() + PATIENCE
    while fcntl is not None:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                raise LedgerError(f"{path} is being written by another run; wait for it to end") from None
            time.sleep(0.1)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and records of a file, finished or not."""
    try:
        _refuse_irregular(path)
        content = Path(path).read_bytes()
    except OSError as problem:
        raise LedgerError(f"{path} cannot be read: {problem.strerror}") from None
    return parse(content, path)[:2]


def parse(content: bytes, path: Any) -> tuple[dict[str, Any], list[dict[str, Any]], int, str]:
    """Header, records, how many bytes of whole lines there are (a torn last line is not one), and the last checksum."""
    whole = content.rfind(b"\n") + 1
    lines = content[:whole].splitlines()
    header = _object(lines[0]) if lines else {}
    if header.get("format") != FORMAT:
        raise LedgerError(f"{path} is not a stored comparison; give another name with store=")
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise LedgerError(f"{path} was written by a later borrow (format {version}); update borrow")
    if version < VERSION:
        raise LedgerError(
            f"{path} was written by an earlier borrow, without what this one judges by; delete it and start anew"
        )
    found, checksum = [], ""
    for number, line in enumerate(lines, 1):
        record = _object(line)
        expected, checksum = _line(record, checksum)
        if expected != line + b"\n":
            raise LedgerError(
                f"{path} is damaged in line {number}: its checksum does not agree with it; delete that line and what "
                "follows, or start anew"
            )
        found.append(record)
    return found[0], found[1:], whole, checksum


def _refuse_irregular(path: str | os.PathLike[str]) -> None:
    """Refuse what is neither a file nor a folder: reading a pipe waits for ever. Opening a folder fails by itself."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise LedgerError(f"{path} is a device, a pipe or a socket; give the name of a file with store=")


def _object(line: bytes) -> dict[str, Any]:
    """What a line holds beside its checksum; empty where it is damaged."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return {k: v for k, v in found.items() if k != "sha256"} if isinstance(found, dict) else {}


def _line(content: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """A line with its checksum, and the checksum; `before` is that of the line before it."""
    checksum = hashlib.sha256(f"{before}{json.dumps(content)}".encode()).hexdigest()
    return json.dumps({**content, "sha256": checksum}, allow_nan=False).encode() + b"\n", checksum


def _refuse_other(found: Mapping[str, Any], expected: Mapping[str, Any], path: Any) -> None:
    """Refuse a file whose header says that other data, another version or other settings were begun with."""
    if found.get("digest") != expected["digest"]:
        raise LedgerError(f"{path} is a comparison of other data; give another name with store=, or delete it")
    there, here = found.get("borrow"), expected["borrow"]
    if there != here:
        raise LedgerError(f"{path} was begun by borrow {there} and this is {here}; finish it there, or start anew")
    was, now = dict(found.get("settings") or {}), expected["settings"]
    if other := [k for k in now if was.get(k) != now[k]]:
        raise LedgerError(
            f"{path} was begun with other settings ({list_labels(other)}: {was.get(other[0])!r} there, "
            f"{now[other[0]]!r} now); give the same, or another name with store="
        )
