"""Tables from files and from standard input, with what is wrong about them said in a sentence.

CSV is read in blocks of 4 MB, each cut at the end of a record. One pass of NumPy over the bytes of a block finds
quotation marks, line ends and separators, so that the fields of every record are counted and every record knows its
line; polars then reads the columns asked for. Memory is that of one block and of those columns, whatever else the file
holds. Everything is text at first; `columns` makes numbers of it, so that a value that is no number can be named with
its line. Parquet has its own types and columns.
"""

from __future__ import annotations

import functools
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from borrow.cli.output import fail, refuse, tell
from borrow.data.labels import counted, did_you_mean, list_labels

BLOCK = 1 << 22
#: How near a name must be to be offered, from 0 to 1.
CLOSENESS = 0.5
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "pipe": "|"}
SNIFFED_LINES = 20
UNNAMED = " "  # no name of a column: those have no blanks around them
BYTE_ORDER_MARK, GZIP, PARQUET = b"\xef\xbb\xbf", b"\x1f\x8b", b"PAR1"
#: How files begin that are no tables.
BEGINNINGS = {"model": b"PK", "comparison": b'{"format": "borrow comparison"'}
#: Names of the first part of an Excel workbook, which is a zip file as a model is.
WORKBOOK = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/")


class Records(NamedTuple):
    """Where the whole records of a text lie, and how many fields each has. Blank lines are records too."""

    quotes: NDArray[np.intp]  # positions of all quotation marks
    starts: NDArray[np.intp]
    ends: NDArray[np.intp]  # positions of the line ends that close the records
    fields: NDArray[np.intp]
    lines: NDArray[np.intp]  # line ends before each record
    blank: NDArray[np.bool_]


def find_records(text: bytes, separator: str) -> Records:
    """Count the fields of every record; separators and line ends inside quotation marks do not count.

    A byte is inside quotation marks where an odd number of them stand before it. Marks doubled inside a field leave
    that parity as it is.
    """
    data = np.frombuffer(text, np.uint8)
    quotes, breaks, between = (np.flatnonzero(data == ord(c)) for c in ('"', "\n", separator))
    ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
    starts = np.append(0, ends + 1)[:-1]
    pairs = np.searchsorted(between, quotes[: len(quotes) // 2 * 2].reshape(-1, 2))
    quoted = np.append(0, np.cumsum(pairs[:, 1] - pairs[:, 0]))  # separators inside the first pairs of marks
    outside = np.searchsorted(between, ends) - quoted[np.searchsorted(quotes, ends) // 2]
    blank = (ends == starts) | ((ends == starts + 1) & (data[starts] == ord("\r")))
    return Records(quotes, starts, ends, np.diff(outside, prepend=0) + 1, np.searchsorted(breaks, starts), blank)


def check_quotes(name: str, text: bytes, quotes: NDArray[np.intp], separator: str, line: int, whole: bool) -> None:
    """Refuse a quotation mark that neither begins nor ends a field and is not doubled, or is open where all is read."""
    data, closes = np.frombuffer(text, np.uint8), np.arange(len(quotes)) % 2 == 1
    near, next_but_one = (data.take(quotes + np.where(closes, k, -1), mode="clip") for k in (1, 2))
    edge = np.isin(near, [ord(c) for c in (separator, "\n", '"')])
    edge |= closes & (near == ord("\r")) & (next_but_one == ord("\n"))
    inside = np.flatnonzero(~edge & (quotes + 2 < len(data)))  # the last two bytes are seen again with what follows
    if len(inside):
        first = inside[0]
        here, begin = (line + text.count(b"\n", 0, at) for at in (quotes[first], quotes[first - first % 2]))
        begun = f" (the field begins with one in line {begin}: is that one closed?)" if first % 2 else ""
        fail(
            f"{name} has a quotation mark inside a field in line {here}{begun}; put the whole field into quotation "
            "marks and double each of those inside"
        )
    if whole and len(quotes) % 2:
        fail(f"{name} has a quotation mark that is not closed, in line {line + text[: quotes[-1]].count(10)}")


@dataclass
class Source:
    """An open table: what its columns are called, and the way to read some of them, once."""

    name: str
    columns: tuple[str, ...]
    separator: str  # of a text file, whose values are text until they are read as numbers; empty for Parquet
    opened: Callable[[], AbstractContextManager[Any]]
    width: int = 0  # fields of every record: one more than columns where every line ends with a separator
    first: int = 0  # the field of the first column: 1 where a column without a name stands before it
    #: Rows from which on lines run ahead of rows by another number (blank lines, line ends inside quotation marks), and
    #: that number, for each block that was read.
    ahead: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = field(
        default_factory=lambda: [(np.array([0]), np.array([2]))]
    )

    @property
    def separated_by(self) -> str:
        """The separator in words."""
        return SEPARATORS.get(self.separator, repr(self.separator))

    def place(self, row: int | None) -> str:
        """Where a row stands: the line of a text file (the header is line 1), the row of another (the first is 0)."""
        at = row or 0
        lines = self.lines(np.array([at]))
        return f"in row {at}" if lines is None else f"in line {lines[0]}"

    def lines(self, at: NDArray[np.intp]) -> NDArray[np.intp] | None:
        """The lines of a text file that rows stand in, after these were read; None for a file without lines."""
        if not self.separator:
            return None
        rows, gaps = (np.concatenate(parts) for parts in zip(*self.ahead, strict=True))
        return at + gaps[np.searchsorted(rows, at, "right") - 1]

    def read(self, wanted: Sequence[str] | None = None) -> pl.DataFrame:
        """These columns (all, if none are named), in this order; there must be rows."""
        frame = pl.concat(self.parts(wanted), rechunk=False)
        if frame.height == 0:
            fail(f"{self.name} has column names and no rows")
        return frame

    def parts(self, wanted: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """The same in portions, as they are read."""
        names = list(self.columns if wanted is None else wanted)
        self.require(names)
        if not self.separator:
            yield _parquet(self.name, self.opened, pl.read_parquet, columns=names)
            return
        fields = enumerate([*self.columns, UNNAMED][: self.width - self.first], self.first)
        used = {i: n for i, n in fields if n in {*names, UNNAMED}}
        rows, gap = -1, 2  # the first record is the header
        with self.opened() as file:
            for block, lines in self._blocks(file):
                frame = pl.read_csv(
                    block, has_header=False, columns=list(used), separator=self.separator, infer_schema=False
                )
                if frame.height != len(lines):
                    fail(f"{self.name} cannot be read as CSV at or after line {lines[0]}")
                frame.columns = list(used.values())
                gaps = lines - np.arange(rows, rows + len(lines))
                changed, gap = np.flatnonzero(np.diff(gaps, prepend=gap)), gaps[-1]
                self.ahead.append((rows + changed, gaps[changed]))
                frame, first, rows = frame.slice(max(-rows, 0)), max(rows, 0), rows + len(lines)
                if UNNAMED in used.values() and (held := frame[UNNAMED].str.strip_chars().fill_null("") != "").any():
                    row = held.arg_max() or 0
                    fail(
                        f"the last column of {self.name} has no name and holds {frame[UNNAMED][row]!r} "
                        f"{self.place(first + row)}; name it in the first line"
                    )
                yield frame.select(names)

    def require(self, names: Sequence[str], option: str = "") -> None:
        """Refuse names that are no columns, with the nearest one that is."""
        for name in names:
            if name not in self.columns:
                what = f"{option} {name!r}" if option else f"{name!r}"
                near = did_you_mean(name, self.columns, CLOSENESS)
                fail(f"{what} is not a column of {self.name}; columns are {list_labels(self.columns)}{near}")
            if self.columns.count(name) > 1:
                fail(f"{self.name} has {self.columns.count(name)} columns called {name!r}; rename them")

    def _blocks(self, file: BinaryIO) -> Iterator[tuple[bytes, NDArray[np.intp]]]:
        """Checked records without blank lines, some megabytes at a time, with the lines that they begin in."""
        rest, line, more = file.read(len(BYTE_ORDER_MARK)).removeprefix(BYTE_ORDER_MARK), 1, b"more"
        while more:
            more = file.read(max(BLOCK, len(rest)))  # what is read doubles while one record goes on
            rest += more or b"\n"  # behind the last line, which may lack its end; one too many is a blank line
            records = find_records(rest, self.separator)
            check_quotes(self.name, rest, records.quotes, self.separator, line, not more)
            if not len(records.ends):
                continue
            cut = int(records.ends[-1]) + 1
            block, rest = rest[:cut], rest[cut:]
            check_utf8(self.name, block, line)
            self._check_fields(block, records, line)
            lines, blank = records.lines + line, records.blank
            line += block.count(b"\n")
            if blank.any():
                keep = np.ones(len(block), bool)
                keep[records.starts[blank]] = keep[records.ends[blank]] = False
                block = np.frombuffer(block, np.uint8)[keep].tobytes()
            if block:
                yield block, lines[~blank]

    def _check_fields(self, block: bytes, records: Records, line: int) -> None:
        """Refuse a record that has not as many fields as the header."""
        wrong = np.flatnonzero((records.fields != self.width) & ~records.blank)
        if not len(wrong):
            return
        found, here, end = records.fields[wrong[0]], records.lines[wrong[0]] + line, records.ends[wrong[0]]
        if found == self.width + 1 and block[:end].rstrip(b"\r").endswith(self.separator.encode()):
            fail(
                f"{self.name} has {self.separated_by} at the end of line {here} and none at the end of the header; "
                "take it off all lines, or put one at the end of the header too"
            )
        fail(
            f"{self.name} has {counted(found, 'field')} in line {here} where the header has {self.width}; put fields "
            f"that hold {self.separated_by} into quotation marks"
        )


def _parquet(name: str, opened: Callable[[], Any], read: Callable[..., Any], **options: Any) -> Any:
    """What polars reads of a Parquet file."""
    try:
        with opened() as file:
            return read(file, **options)
    except Exception as error:  # polars has many
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        fail(f"{name} is a damaged Parquet file: {first}")


def open_source(place: str, delimiter: str | None = None, known: Sequence[str] = ()) -> Source:
    """A file, or standard input for `-`; a file of one column must have one that is known."""
    if place == "-":
        if sys.stdin is None or sys.stdin.isatty():
            what = "closed" if sys.stdin is None else "a terminal"
            fail(f"standard input is {what}; pipe a table into the command, or give a file")
        return _streamed("standard input", sys.stdin.buffer, delimiter, known)
    path = Path(place)
    refuse_absent(path)
    if path.is_dir():
        fail(f"{place!r} is a folder; give a CSV or Parquet file")
    try:
        if not path.is_file():  # a pipe, such as that of <(zcat table.csv.gz)
            return _streamed(repr(place), path.open("rb"), delimiter, known)
        return _source(repr(place), lambda: path.open("rb"), delimiter, known)
    except OSError as error:
        fail(f"{place!r} cannot be read: {error.strerror}")


def _streamed(name: str, stream: BinaryIO, delimiter: str | None, known: Sequence[str]) -> Source:
    """A table that can be read once."""
    head = stream.read(BLOCK)
    if head[:4] == PARQUET:  # its table of contents is at the end
        head += stream.read()
        return _source(name, lambda: io.BytesIO(head), delimiter, known)
    return _source(name, lambda: nullcontext(_Chained(head, stream)), delimiter, known)


def refuse_absent(path: Path) -> None:
    """A file that is not there, with the nearest one that is."""
    if not path.exists():
        files = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        fail(f"there is no file {str(path)!r}{did_you_mean(path.name, files, CLOSENESS)}")


def file_kind(path: Path) -> str:
    """What a file begins as: "model", "comparison" (of `borrow compare --store`), or else "table"."""
    refuse_absent(path)
    head = b""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(64)
    found = next((kind for kind, begin in BEGINNINGS.items() if head.startswith(begin)), "table")
    return "table" if head[30:].startswith(WORKBOOK) else found


def _source(name: str, opened: Callable[[], Any], delimiter: str | None, known: Sequence[str]) -> Source:
    """What the first bytes say of a table. They are looked at before anything is read."""
    head = _head(opened)
    if head[:2] == GZIP:
        opened = functools.partial(_unpacked, opened, name)
        head = _head(opened)
    if not head.removeprefix(BYTE_ORDER_MARK).strip():
        fail(f"{name} is empty; give a table with a line of column names and rows below it")
    if head[:4] == PARQUET:
        return Source(name, tuple(_parquet(name, opened, pl.read_parquet_schema)), "", opened)
    text = _as_text(head, name)
    body = text.lstrip(b"\r\n")
    line = 1 + text.count(b"\n", 0, len(text) - len(body))
    sample = b"\n".join(body.split(b"\n", SNIFFED_LINES)[:SNIFFED_LINES]) + b"\n"
    check_utf8(name, sample, line)
    separator = _separator(sample, name, delimiter)
    records = find_records(sample, separator)
    check_quotes(name, sample, records.quotes, separator, line, not len(records.ends))
    header = pl.read_csv(sample[: records.ends[0]], has_header=False, separator=separator, infer_schema=False)
    columns = tuple((c or "").strip() for c in header.row(0))
    first, last = int(not columns[0]), len(columns) - (not columns[-1])
    _check_header(columns, name, known)
    if "" in columns[first:last]:
        fail(f"column {columns.index('', first) + 1} of {name} has no name; name it in the first line")
    if first:
        tell(f"the first column of {name} has no name, as the numbers of rows have, and is left out")
    source = Source(name, columns[first:last], separator, opened, len(columns), first)
    if not columns[-1]:
        ends = f"the first line of {name} ends with {source.separated_by}"
        tell(f"{ends}: the last column has no name and is left out")
    return source


def _head(opened: Callable[[], Any]) -> bytes:
    """The first bytes. Half a block of what gzip unpacks takes less than the block of standard input that is kept."""
    with opened() as file:
        return file.read(BLOCK // 2)


@contextmanager
def _unpacked(packed: Callable[[], Any], name: str) -> Iterator[Any]:
    """A gzip file, unpacked as it is read."""
    with packed() as file:
        try:
            yield gzip.GzipFile(fileobj=file)
        except (OSError, EOFError, zlib.error) as error:
            fail(f"{name} is a damaged gzip file: {error}")


class _Chained:
    """Bytes that were read, then the rest of the file."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self.parts: list[BinaryIO] = [io.BytesIO(head), file]

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes."""
        return next((found for part in self.parts if (found := part.read(size))), b"")


def _as_text(head: bytes, name: str) -> bytes:
    """Text without a mark of byte order; what is no text is named by what it is."""
    model, excel = head[30:39] == b"page.json", "save the sheet as CSV and give that"
    sheets = head[:2] == b"PK" and head[30:].startswith(WORKBOOK)
    kind = "a model saved by borrow (see `borrow info`)" if model else "a zip file"
    refuse(
        {
            f"{name} is an Excel workbook (.xlsx); {excel}": sheets,
            f"{name} is an old Excel workbook (.xls); {excel}": head[:4] == b"\xd0\xcf\x11\xe0",
            f"{name} is {kind}, not a table; give CSV or Parquet": head[:2] == b"PK",
            f"{name} is UTF-16 text; save it as UTF-8": head[:2] in (b"\xff\xfe", b"\xfe\xff"),
            f"{name} is not a table: it holds bytes that are no text; give CSV or Parquet": b"\0" in head,
            f"{name} has line ends of an old kind (CR alone); save it with usual ones": b"\r" in head
            and b"\n" not in head,
        }
    )
    return head.removeprefix(BYTE_ORDER_MARK)


def _separator(sample: bytes, name: str, given: str | None) -> str:
    """The character between fields: the one that splits the first lines into as many fields each, most of them."""
    records = {s: find_records(sample, s) for s in SEPARATORS}
    widths = {s: found.fields[~found.blank] for s, found in records.items()}
    fit = {s: int(w[0]) for s, w in widths.items() if len(w) and w[0] > 1}
    even = {s: n for s, n in fit.items() if (widths[s] == n).sum() >= 0.9 * len(widths[s]) - 1}
    found = max(even or fit, key=lambda s: fit[s], default=None)
    if given is None:
        return found or ","
    asked = NAMES.get(given, given)
    if len(asked) != 1 or not asked.isascii() or asked in '"\r\n':
        fail(f"--delimiter {given!r}: expected one character, or one of {', '.join(NAMES)}")
    if found is not None and found != asked and asked.encode() not in sample.partition(b"\n")[0]:
        fail(f"--delimiter {given!r} is not in the first line of {name}; {SEPARATORS[found]} is: leave the option out")
    return asked


def _check_header(columns: tuple[str, ...], name: str, known: Sequence[str]) -> None:
    numbers = sum(bool(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", c, re.I)) for c in columns)
    first = f"the first line of {name}"
    refuse(
        {
            f"{name} has one column only, {columns[0]!r}: none of {', '.join(SEPARATORS.values())} separates its first "
            "line; if something else does, say so with --delimiter": len(columns) == 1 and columns[0] not in known,
            f"{first} holds numbers ({list_labels(columns, 4)}); it must name the columns": numbers > len(columns) / 2,
            f"{first} names no columns": not any(columns),
        }
    )


def check_utf8(name: str, text: bytes, line: int) -> None:
    """Refuse bytes that are no UTF-8; the first of them is in this line."""
    try:
        text.decode()
    except UnicodeDecodeError as odd:
        here = line + text.count(b"\n", 0, odd.start)
        fail(f"{name} is not UTF-8 text in line {here}; save it as UTF-8")
