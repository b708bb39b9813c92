"""What a comparison has found so far, in a file that survives being killed.

JSON, one object per line. The first line says what is compared (a digest of the data, the settings, the version); every
further line is one finished fit, on the disk before the next is begun (flush and fsync). A line that was being written
when the process died is cut off when the file is opened again, so resuming repeats at most the fits in flight.

Every line ends with a SHA-256 of the checksum of the line before it and of its own other content, so that a changed,
missing or moved line is found when the file is read. One run at a time: the file is locked while it is open, and
another run waits a little and is then refused.

What lines must hold is checked too, so that whoever reads them later need not ask. A shape is a tuple of types, a list
of one shape (a list of such), a dict of shapes by key (a dict that has at least these, and may lack those with a
question mark), or a set of values.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from borrow.data.labels import list_labels
from borrow.transfer.folds import ANSWERS
from borrow.transfer.methods import LABELS

try:
    import fcntl
except ModuleNotFoundError:  # no such lock on this system: two runs on one file are not told apart
    fcntl = None  # type: ignore[assignment]

FORMAT = "borrow comparison"
VERSION = 4
PATIENCE = 10.0
HUGE = 1e250
NUMBER, LABEL = (int, float), (str, int, float, bool)
PAIRS = ("row_weights", "clusters", "notes")
ABOUT: dict[str, Any] = {
    "kind": {*ANSWERS},
    **dict.fromkeys(("target", "task", "scoring", "digest"), (str,)),
    "features": [(str,)],
    "tasks": [LABEL],
    "primaries": [LABEL],
    "methods": [(str,)],
    "classes": [LABEL],
    "cv": {"folds": (int,), "repeats": (int,)},
    "seed": (int,),
    "skipped": {},
    "versions": {},
    **{f"{name}?": [(str,)] for name in ("alone", "own", "encoding")},
    **{f"{name}?": [[LABEL]] for name in PAIRS},
    "unseen?": {"error", "population"},
    "rope?": NUMBER,
    **{f"{name}?": (str, type(None)) for name in ("group", "time")},
    "targets?": [LABEL],
}
ELSEWHERE = ("mean elsewhere", "std elsewhere")  # of a fit to all rows
JOB: dict[str, Any] = {
    "primary": LABEL,
    "method": (str,),
    "left_out": (list, type(None)),
    **dict.fromkeys(("repeat", "fold", "n_train", "n_test"), (int,)),
    "rows": [(int,)],
    "y": [LABEL],
    "failure": (str, type(None)),
    **{f"{name}?": (*NUMBER, type(None)) for name in ("evidence", "evidence of relations")},  # of a fit to all rows
    **{f"{name}?": [NUMBER] for name in ELSEWHERE},
    "seconds": NUMBER,
    "warnings": [(str,)],
}
ANSWER: dict[str, Any] = {
    **{name: [NUMBER] for name in ("mean", "std", "losses", "log_densities")},
    "probability": [[NUMBER]],
}  # the others are numbers
FIGURE = (int, float, type(None))
RELATION: dict[str, Any] = {"task": LABEL, **dict.fromkeys(("rho", "correlation", "std_error", "share"), FIGURE)}
BOUNDS = ("correlation_low", "correlation_high")  # which older comparisons lack


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
    except OSError as error:
        raise LedgerError(f"store={str(path)!r} cannot be written: {error.strerror}") from None
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


def read(path: str | os.PathLike[str]) -> tuple[Any, list[dict[str, Any]]]:
    """What is compared, as the header says, and the records of a file, finished or not."""
    try:
        _refuse_irregular(path)
        content = Path(path).read_bytes()
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}") from None
    header, lines, _, _ = parse(content, path)
    refuse_odd_lines(path, header.get("about"), lines)
    return header["about"], lines


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
    writer, reader = found.get("borrow"), expected["borrow"]
    if writer != reader:
        raise LedgerError(f"{path} was begun by borrow {writer} and this is {reader}; finish it there, or start anew")
    was, now = dict(found.get("settings") or {}), expected["settings"]
    if other := [k for k in now if was.get(k) != now[k]]:
        raise LedgerError(
            f"{path} was begun with other settings ({list_labels(other)}: {was.get(other[0])!r} there, "
            f"{now[other[0]]!r} now); give the same, or another name with store="
        )


def refuse_odd_lines(path: Any, about: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a ledger whose first line, or another, is not as this package writes them, whatever its checksums say."""
    try:
        check_about(about)
        held_out: dict[tuple[Any, ...], list[int]] = {}
        for line in lines:
            check_line(line, about)
            fold = tuple(line.get(k) for k in ("primary", "repeat", "fold"))
            whole = "rows" in line and line["left_out"] is None
            if whole and held_out.setdefault(fold, line["rows"]) != line["rows"]:
                raise ValueError("two lines of one fold hold out different rows")
    except ValueError as odd:
        raise LedgerError(f"{path} is not a comparison that this borrow writes: {odd}; start anew") from None


def check_about(about: Any) -> None:
    """Refuse a header that does not say what is compared."""
    _refuse_shape(about, ABOUT, "its first line")
    for name in PAIRS:
        if any(len(pair) != 2 for pair in about.get(name, [])):
            raise ValueError(f"{name} in its first line are no pairs")
    _refuse_unknown([m for m in about["methods"] if m not in about.get("own", ())])
    if not {*about.get("alone", ())} <= {*about["methods"]}:
        raise ValueError("its first line names methods to be beaten that are not compared")
    rows = about.get("rows")
    _refuse_shape(rows, [[LABEL]], "rows in its first line")
    counted = {pair[0] for pair in rows if len(pair) == 2}
    if any(len(pair) != 2 for pair in rows) or not {*about["tasks"], *about["primaries"]} <= counted:
        raise ValueError("its first line does not say how many rows each task has")
    if not about["primaries"] or not set(about["primaries"]) <= set(about["tasks"]):
        raise ValueError("its first line compares for what is no task")


def check_line(line: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Refuse a line that is neither a finished fit nor what the focused model says of the tasks."""
    if "relations" in line:
        _refuse_shape(line, {"primary": LABEL, "relations": [RELATION]}, "a line")
        _refuse_shape([r.get(n) for r in line["relations"] for n in BOUNDS], [FIGURE], "a bound in a line")
    if "relations" not in line or "method" in line:
        _refuse_shape(line, JOB, "a line")
        if len({len(line.get(n, [])) for n in ELSEWHERE}) > 1:
            raise ValueError("a line has not as many spreads as predictions")
        _refuse_unknown([line["method"]] if line["method"] not in about.get("own", ()) else [])
        answers = {name: ANSWER.get(name, NUMBER) for name in ANSWERS[about["kind"]]}
        if line["failure"] is None:
            _refuse_shape(line, answers, "a line")
            figures = [line[n] for n in answers if n not in ANSWER]
            if about["kind"] == "regression":
                _refuse_shape(line["y"], [NUMBER], "y in a line")
                figures += [v * abs(v) for n in ("y", "mean", "std") for v in map(float, line[n])]
            if not all(abs(v) < HUGE for v in figures):
                raise ValueError("a line has a figure that cannot be computed with")
            lengths = {len(line[n]) for n in ("rows", "y", *(n for n in answers if n in ANSWER))}
            if lengths != {line["n_test"]} or line["n_test"] < 1 or line["n_train"] < 1:
                raise ValueError("a line has not as many answers as rows")
        if about["kind"] == "classification" and not set(line["y"]) <= set(about["classes"]):
            raise ValueError("a line has a class that is not among those compared")
    known = {*about["tasks"]}
    left = line.get("left_out") or []
    _refuse_shape(left, [LABEL], "left_out in a line")
    if not {line["primary"], *left} <= known or line["primary"] in left:
        raise ValueError("a line is of a task that is not among those compared")


def _refuse_unknown(methods: list[str]) -> None:
    """Refuse methods that nobody has registered."""
    if unknown := [m for m in methods if m not in LABELS]:
        raise ValueError(f"it names the method {list_labels(unknown)}; methods are {list_labels(list(LABELS))}")


def _refuse_shape(value: Any, shape: Any, where: str) -> None:
    """Refuse a value that has not the shape."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is no object")
        for key, inner in shape.items():
            name = key.removesuffix("?")
            if name in value:
                _refuse_shape(value[name], inner, f"{name} in {where}")
            elif name == key:
                raise ValueError(f"{where} lacks {name!r}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise ValueError(f"{where} is no list")
        for entry in value:
            _refuse_shape(entry, shape[0], where)
    elif isinstance(shape, set):
        if not isinstance(value, str) or value not in shape:
            raise ValueError(f"{where} is not one of {sorted(shape)}")
    elif not isinstance(value, shape) or (isinstance(value, bool) and bool not in shape):
        raise ValueError(f"{where} is of another kind than expected")
