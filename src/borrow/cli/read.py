"""Tables from files and from standard input, with what is wrong about them said in a sentence.

CSV is read in blocks of 16 MB, each cut at the end of a record, and only the columns asked for are kept: memory is that
of one block and of those columns, whatever else the file holds. Everything is text at first; `columns` makes
numbers of it, so that a value that is no number can be named with its line. Parquet has its own types and columns.
"""

from __future__ import annotations

import csv
import difflib
import functools
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from borrow.cli.output import fail
from borrow.data.cells import list_labels

BLOCK = 1 << 24
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "pipe": "|"}
SNIFFED_LINES = 20


@dataclass
class Source:
    """An open table: what its columns are called, and the way to read some of them, once."""

    name: str
    columns: tuple[str, ...]
    separator: str  # of a text file; empty for Parquet
    opened: Callable[[], AbstractContextManager[Any]]

    @property
    def is_text(self) -> bool:
        """CSV, whose values are text until they are read as numbers."""
        return bool(self.separator)

    def read(self, wanted: Sequence[str] | None = None) -> pl.DataFrame:
        """These columns (all, if none are named), in this order."""
        return pl.concat(self.parts(wanted), rechunk=False)

    def parts(self, wanted: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The same in portions, as they are read."""
        names = list(self.columns if wanted is None else wanted)
        self.require(names)
        if not self.is_text:
            yield self._parquet(names)
            return
        at = sorted({self.columns.index(n) for n in names})
        with self.opened() as file:
            for block, line in blocks(file):
                yield self._parse(block, line, at).select(names)

    def require(self, names: Sequence[str], option: str = "") -> None:
        """Refuse names that are no columns, with the nearest one that is."""
        for name in names:
            if name not in self.columns:
                what = f"{option} {name!r}" if option else f"{name!r}"
                near = nearest(name, self.columns)
                fail(f"{what} is not a column of {self.name}; columns are {list_labels(self.columns)}{near}")
            if self.columns.count(name) > 1:
                fail(f"{self.name} has {self.columns.count(name)} columns called {name!r}; rename them")

    def _parquet(self, names: list[str]) -> pl.DataFrame:
        try:
            with self.opened() as file:
                return pl.read_parquet(file, columns=names)
        except Exception as problem:  # polars has many
            fail(f"{self.name} is a damaged Parquet file: {first_line(problem)}")

    def _parse(self, block: bytes, line: int, at: list[int]) -> pl.DataFrame:
        names = [self.columns[i] for i in at]
        if not block or block.isspace():
            return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
        if b"\n\n" in block or b"\n\r\n" in block or block.startswith((b"\n", b"\r\n")):
            outside = block.split(b'"')  # even parts are outside quotation marks
            outside[::2] = [re.sub(rb"\n(\r?\n)+", b"\n", part) for part in outside[::2]]
            block = b'"'.join(outside).lstrip(b"\r\n")
        self._check_fields(block, line)
        # A first line of names keeps the first record from deciding how many columns there are.
        head = self.separator.join(f"c{i}" for i in range(len(self.columns))).encode() + b"\n"
        try:
            frame = pl.read_csv(
                io.BytesIO(head + block),
                columns=at,
                separator=self.separator,
                infer_schema=False,
                truncate_ragged_lines=True,
            )
        except Exception as problem:  # polars has many
            fail(self._why(block, line, problem))
        frame.columns = names
        return frame

    def _check_fields(self, block: bytes, line: int) -> None:
        """Where nothing is quoted, every line must have as many fields as the header."""
        between = self.separator.encode()
        expected = len(self.columns) - 1
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        if b'"' in block or block.count(between) == lines * expected:
            return
        for i, text in enumerate(block.splitlines()):
            if (found := text.count(between)) != expected:
                fail(
                    f"{self.name} has {found + 1} field(s) in line {line + i} where the header has {expected + 1}; put "
                    f"fields that hold {SEPARATORS.get(self.separator, repr(self.separator))} into quotation marks"
                )

    def _why(self, block: bytes, line: int, problem: Exception) -> str:
        try:
            block.decode()
        except UnicodeDecodeError as odd:
            return not_utf8(self.name, line + block.count(b"\n", 0, odd.start))
        if block.count(b'"') % 2:
            return f"{self.name} has a quotation mark that is not closed, at or after line {line}"
        return f"{self.name} cannot be read as CSV at or after line {line}: {first_line(problem)}"


def blocks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Whole records below the first line, some megabytes at a time, with the number of the line that each begins at."""
    rest, line = file.read(BLOCK), 0
    while True:
        cut = last_record(rest)
        if cut and not line:  # the names
            rest, line, cut = rest[rest.index(b"\n") + 1 :], 2, 0
            continue
        if cut:
            yield rest[:cut], line
            line += rest.count(b"\n", 0, cut)
            rest = rest[cut:]
        more = file.read(BLOCK)
        if not more:
            break
        rest += more
    yield rest if line else b"", line or 2


def open_source(place: str, delimiter: str | None = None) -> Source:
    """A file, or standard input for `-`."""
    if place == "-":
        if sys.stdin.isatty():
            fail("standard input is a terminal; pipe a table into the command, or give a file")
        stream = sys.stdin.buffer
        head = stream.read(BLOCK)
        if head[:4] == b"PAR1":  # its table of contents is at the end
            whole = head + stream.read()
            return _source("standard input", whole, lambda: io.BytesIO(whole), delimiter)
        return _source("standard input", head, lambda: nullcontext(_Chained(head, stream)), delimiter)
    path = Path(place)
    refuse_absent(path)
    if path.is_dir():
        fail(f"{place!r} is a folder; give a CSV or Parquet file")
    try:
        with path.open("rb") as file:
            head = file.read(BLOCK)
    except OSError as problem:
        fail(f"{place!r} cannot be read: {problem.strerror}")
    return _source(repr(place), head, lambda: path.open("rb"), delimiter)


def refuse_absent(path: Path) -> None:
    """A file that is not there, with the nearest one that is."""
    if not path.exists():
        near = ""
        if path.parent.is_dir():
            near = nearest(path.name, [p.name for p in path.parent.iterdir()])
        fail(f"there is no file {str(path)!r}{near}")


def _source(name: str, head: bytes, opened: Callable[[], Any], delimiter: str | None) -> Source:
    """What the first bytes say of a table."""
    if head[:2] == b"\x1f\x8b":
        packed = opened
        opened = functools.partial(_unpacked, packed, name)
        head = _unpacked_head(head, name)
    if not head.strip():
        fail(f"{name} is empty; give a table with a line of column names and rows below it")
    if head[:4] == b"PAR1":
        try:
            with opened() as file:
                return Source(name, tuple(pl.read_parquet_schema(file)), "", opened)
        except Exception as problem:  # polars has many
            fail(f"{name} is a damaged Parquet file: {first_line(problem)}")
    head = _as_text(head, name)
    lines = [line.decode(errors="replace") for line in head.split(b"\n", SNIFFED_LINES + 1)[:SNIFFED_LINES]]
    separator = _separator(lines, name, delimiter)
    columns = tuple(c.strip() for c in next(csv.reader([lines[0].rstrip("\r")], delimiter=separator)))
    _check_header(columns, name)
    return Source(name, columns, separator, opened)


@contextmanager
def _unpacked(packed: Callable[[], Any], name: str) -> Iterator[Any]:
    """A gzip file, unpacked as it is read."""
    with packed() as file:
        try:
            yield gzip.GzipFile(fileobj=file)
        except (OSError, EOFError, zlib.error) as problem:
            fail(f"{name} is a damaged gzip file: {problem}")


def _unpacked_head(head: bytes, name: str) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, BLOCK)
    except zlib.error as problem:
        fail(f"{name} is a damaged gzip file: {problem}")


class _Chained(io.RawIOBase):
    """Bytes that were read, then the rest of the file."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self.parts: list[Any] = [io.BytesIO(head), file]

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes."""
        while self.parts:
            if found := self.parts[0].read(size):
                return bytes(found)
            self.parts.pop(0)
        return b""

    def readinto(self, buffer: Any) -> int:
        """The same into a buffer."""
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def readable(self) -> bool:
        """Yes."""
        return True


def _as_text(head: bytes, name: str) -> bytes:
    """Text without a mark of byte order; what is no text is named by what it is."""
    if head[:2] == b"PK":
        kind = "a model saved by borrow (see `borrow info`)" if head[30:39] == b"page.json" else "a zip or Excel file"
        fail(f"{name} is {kind}, not a table; give CSV or Parquet")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        fail(f"{name} is UTF-16 text; save it as UTF-8")
    if b"\0" in head:
        fail(f"{name} is not a table: it holds bytes that are no text; give CSV or Parquet")
    head = head.removeprefix(b"\xef\xbb\xbf")
    if b"\n" not in head and b"\r" in head:
        fail(f"{name} has line ends of an old kind (CR alone); save it with usual ones")
    try:
        head[: head.rfind(b"\n") + 1].decode()
    except UnicodeDecodeError as odd:
        fail(not_utf8(name, 1 + head.count(b"\n", 0, odd.start)))
    return head


def _separator(lines: list[str], name: str, given: str | None) -> str:
    """The character between fields: the one that splits the first lines into as many fields each, most of them."""
    widths = {s: [len(row) for row in csv.reader(lines, delimiter=s) if row] for s in SEPARATORS}
    fit = {s: w[0] for s, w in widths.items() if w and w[0] > 1}
    even = {s: n for s, n in fit.items() if sum(v == n for v in widths[s]) >= 0.9 * len(widths[s]) - 1}
    found = max(even or fit, key=lambda s: fit[s], default=None)
    if given is None:
        return found or ","
    asked = NAMES.get(given, given)
    if len(asked) != 1 or not asked.isascii():
        fail(f"--delimiter {given!r}: expected one character, or one of {', '.join(NAMES)}")
    if found is not None and found != asked and asked not in lines[0]:
        fail(f"--delimiter {given!r} is not in the first line of {name}; {SEPARATORS[found]} is: leave the option out")
    return asked


def _check_header(columns: tuple[str, ...], name: str) -> None:
    if len(columns) == 1:
        known = ", ".join(SEPARATORS.values())
        fail(
            f"{name} has one column only, {columns[0]!r}: none of {known} separates its first line; if something else "
            "does, say so with --delimiter"
        )
    numbers = sum(bool(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", c, re.I)) for c in columns)
    if numbers > len(columns) / 2:
        fail(f"the first line of {name} holds numbers ({list_labels(columns, 4)}); it must name the columns")
    if all(not c for c in columns):
        fail(f"the first line of {name} names no columns")


def last_record(block: bytes) -> int:
    """Where the last whole record ends; a line end inside quotation marks is none. 0 where no record is whole."""
    cut = block.rfind(b"\n") + 1
    odd = block.count(b'"', 0, cut) % 2
    while cut and odd:
        before = block.rfind(b"\n", 0, cut - 1) + 1
        odd ^= block.count(b'"', before, cut) % 2
        cut = before
    return cut


def nearest(name: Any, among: Sequence[Any]) -> str:
    """`; did you mean 'score'?`, or nothing."""
    by_lower = {str(c).lower(): c for c in among}
    near = difflib.get_close_matches(str(name).lower(), list(by_lower), 1, 0.5)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""


def not_utf8(name: str, line: int) -> str:
    """What to say of bytes that are no UTF-8."""
    return f"{name} is not UTF-8 text in line {line}; save it as UTF-8"


def first_line(problem: Exception) -> str:
    """The first line of another library's message."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
