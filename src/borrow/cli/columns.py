"""Text columns as numbers, labels and targets; the table that the library is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from borrow.cli.output import fail, tell
from borrow.cli.read import CLOSENESS, Source, open_source
from borrow.data.labels import counted, did_you_mean, list_labels, sort_labels
from borrow.data.written import DECIMAL, THOUSANDS, is_open_count, units_of

#: What stands for no value in a CSV file, beside nothing at all.
WORDS = ["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "#DIV/0!", "#VALUE!"]
GAPS = ["", *WORDS, "?", "-", "--", "."]
#: What does so among numbers and dates, and is a word among words: a side effect may be severe, mild or none.
NONE = ["None", "none"]
MISSING = [*GAPS, *NONE]
#: Digits in groups, between which commas, points, blanks or other signs stand.
GROUPED = r"^[-+]?\d{1,3}(?:[,.' _’\u00a0\u202f]\d{2,3})+(?:[.,]\d+)?$"

#: A date with points, which looks like a number in groups.
DATE = r"^\d{1,2}\.\d{1,2}\.\d{4}$"


@dataclass(frozen=True)
class Table:
    """Features, task labels, and the target; in a frame with columns of these names.

    Features are floats, or text and dates where they are no numbers; null where a value is missing.
    """

    name: str  # of the file
    frame: pl.DataFrame
    target: str
    task: str | None
    features: list[str]
    dropped: int
    wide: tuple[str, ...] = ()  # the columns that were a task each; the rows of each are together, in one order
    lines: NDArray[np.intp] | None = None  # of a text file, that the rows stand in

    @property
    def without_target(self) -> int:
        """How many rows have no target; of a wide table, a row per input and task."""
        return self.frame[self.target].null_count()

    @property
    def labels(self) -> tuple[Any, ...]:
        """Distinct task labels."""
        return () if self.task is None else sort_labels(self.frame[self.task].to_list())

    def counts(self) -> list[list[Any]]:
        """Each task with the number of its rows that have a target; all rows as one task where none is named."""
        seen = self.frame.drop_nulls(self.target)
        if self.task is None:
            return [[None, seen.height]]
        return [[label, int((seen[self.task] == label).sum())] for label in self.labels]


def open_table(
    data: str,
    delimiter: str | None,
    target: str | None,
    task: str | None,
    features: Sequence[str] | None,
    ignore: Sequence[str] | None = None,
    drop_missing: bool | None = False,
    targets: Sequence[str] | None = None,
    keep: Mapping[str, str] = MappingProxyType({}),
    order: Sequence[str] | None = None,
) -> Table:
    """The columns that are needed of a file, or of standard input for `-`, read and checked.

    Columns to `keep`, by name with what each says, are inputs only where `features` names them.
    `drop_missing` leaves out rows that lack an input or a task; None leaves out those that lack a task.
    """
    aside, levels = ignore or [], [text.rpartition("=")[0] for text in order or []]
    if targets:
        if target is not None or task is not None:
            fail("--targets has a column per task; leave out --target and --task")
        table = read_wide(open_source(data, delimiter), targets, features, aside, drop_missing, keep, levels)
    elif target is None:
        fail("--target is missing: the column to predict; or --targets, where every task has a column of its own")
    else:
        table = read_table(open_source(data, delimiter), target, task, features, aside, drop_missing, keep, levels)
    return replace(table, frame=table.frame.with_columns(*(in_order(text, table) for text in order or [])))


@contextmanager
def in_lines(lines: NDArray[np.intp] | None) -> Iterator[None]:
    """Name the lines of a text file where an error of the library names rows of its table."""
    try:
        yield
    except ValueError as error:
        told = str(error) if lines is None else _name_lines(str(error), lines)
        if told == str(error):
            raise
        raise ValueError(told) from error


def _name_lines(text: str, lines: NDArray[np.intp]) -> str:
    def line(found: re.Match[str]) -> str:
        rows = [int(row) for row in found[2].split(", ")]
        if max(rows) >= len(lines):  # words of the table itself, a label perhaps
            return found[0]
        return f"in line{found[1]} {', '.join(str(lines[row]) for row in rows)}"

    return re.sub(r"\bin row(s?) (\d+(?:, \d+)*)", line, text)


def in_order(text: str, table: Table) -> pl.Series:
    """A text column as levels from least to most, as `column=least,...,most` says."""
    name, sign, levels = text.rpartition("=")
    known = [level.strip() for level in levels.split(",")]
    if not sign or len(set(known)) < max(len(known), 2):
        fail(f"--order {text!r}: expected column=least,...,most, each level once")
    if name not in table.features:
        near = did_you_mean(name, table.features)
        fail(f"--order names {name!r}, which is not an input; inputs are {list_labels(table.features)}{near}")
    column = table.frame[name].cast(pl.String)
    if strange := sorted(set(column.drop_nulls()) - set(known)):
        fail(f"--order {name!r} lacks {list_labels(strange)}, which the column holds")
    return column.cast(pl.Enum(known))


def read_wide(
    source: Source,
    targets: Sequence[str],
    features: Sequence[str] | None,
    ignore: Sequence[str],
    drop_missing: bool | None,
    keep: Mapping[str, str],
    levels: Sequence[str],
) -> Table:
    """The same where every task has a column of targets: one row per input and task, the rows of a task together."""
    from borrow.transfer.problem import TASK, VALUE

    names = _split_names(targets, source, "--targets")
    if len(set(names)) < 2:
        fail(f"--targets names {list_labels(names)}; give at least two columns, one per task")
    source.require(list(keep))
    used = choose_features(source, dict.fromkeys(names, "target"), features, ignore, keep)
    frame = source.read(list(dict.fromkeys([*used, *keep, *names])))
    read = {**{name: as_labels(frame[name]) for name in keep}, **as_inputs(source, frame.select(used), levels)}
    inputs = pl.DataFrame([c.alias(n) for n, c in read.items()])
    whole = ~inputs.select(pl.any_horizontal(pl.all().is_null())).to_series() if drop_missing else None
    columns = [as_target(frame[n], source) for n in names]
    numbers = all(c.dtype.is_numeric() for c in columns)
    long = pl.concat(
        inputs.with_columns(c.cast(pl.Float64 if numbers else pl.String).alias(VALUE), pl.lit(n).alias(TASK)).filter(
            pl.lit(True) if whole is None else whole
        )
        for n, c in zip(names, columns, strict=True)
    )
    if long.height == 0:
        fail(f"every row of {source.name} lacks an input; leave a column out with --ignore")
    lines = source.lines(np.tile(whole_rows(frame.height, whole), len(names)))
    return Table(source.name, long, VALUE, TASK, used, frame.height - long.height // len(names), tuple(names), lines)


def whole_rows(n: int, whole: pl.Series | None) -> NDArray[np.intp]:
    """Positions of the rows that are whole; of all rows for None."""
    return np.arange(n) if whole is None else np.flatnonzero(whole.to_numpy())


def chosen_kind(table: Table, kind: str, labels: bool, numbers: bool) -> str:
    """What the target holds: as the call says; whole numbers that may be either are asked about."""
    from borrow.transfer.problem import like_classes

    if labels and numbers:
        fail("--labels and --numbers: the target holds one or the other")
    if labels or numbers:
        return "classification" if labels else "regression"
    if kind == "auto" and (found := like_classes(table.frame[table.target].drop_nulls().to_list())):
        fail(f"{found} looks like labels: --labels or --numbers says which it is")
    return kind


def read_table(
    source: Source,
    target: str,
    task: str | None,
    features: Sequence[str] | None,
    ignore: Sequence[str],
    drop_missing: bool | None = False,
    keep: Mapping[str, str] = MappingProxyType({}),
    levels: Sequence[str] = (),
) -> Table:
    """The columns that are needed, read and checked; those to `keep` are labels as the task is, or named inputs."""
    source.require([target], "--target")
    source.require([] if task is None else [task], "--task")
    source.require(list(keep))
    if target == task:
        fail(f"--target and --task are both {target!r}; they are two columns")
    tasks = {} if task is None else {task: "task"}
    says = {**keep, **tasks}
    used = choose_features(source, {target: "target", **tasks}, features, ignore, keep)
    needed = list(dict.fromkeys([*used, *says]))
    frame = source.read(list(dict.fromkeys([*needed, target])))
    read = {
        **{name: as_labels(frame[name]) for name in says},
        **as_inputs(source, frame.select(used), levels),
        target: as_target(frame[target], source),
    }
    if read[target].null_count() == frame.height:
        fail(f"every value of --target {target!r} is missing in {source.name}; there is nothing to learn from")
    table = pl.DataFrame([values.alias(name) for name, values in read.items()])
    lacking = {n: table[n].null_count() for n in (needed if drop_missing else says) if table[n].null_count()}
    if lacking and drop_missing is False:
        name, count = next(iter(lacking.items()))
        fail(
            f"the {says[name]} {name!r} is missing in {counted(count, 'row')} of {source.name}, the first "
            f"{source.place(table[name].is_null().arg_max())}; leave these rows out with --drop-missing"
        )
    whole = table.drop_nulls(list(lacking)) if lacking else table
    if whole.height == 0:
        names = list_labels(list(lacking))
        fail(f"every row of {source.name} lacks a value of {names}; leave a column out with --ignore")
    kept = ~table.select(pl.any_horizontal(pl.col(list(lacking)).is_null())).to_series() if lacking else None
    lines = source.lines(whole_rows(table.height, kept))
    return Table(source.name, whole, target, task, used, table.height - whole.height, lines=lines)


def choose_features(
    source: Source,
    roles: Mapping[str, str],
    features: Sequence[str] | None,
    ignore: Sequence[str],
    keep: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Input columns: those named, or all that have no role, are not kept for something else and not ignored."""
    left_out, named = (
        _split_names(given, source, option) for given, option in ((ignore, "--ignore"), (features or [], "--features"))
    )
    for name in named:
        if name in roles:
            fail(f"--features names {name!r}, which is the {roles[name]} column")
    asked = named if features else [c for c in source.columns if c not in (*roles, *keep)]
    used = list(dict.fromkeys(c for c in asked if c not in left_out))
    if not used:
        hint = f"; --features can name {list_labels(list(keep))} too" if keep and not features else ""
        fail(f"no input column is left beside {list_labels([*roles, *keep])}; a model needs at least one{hint}")
    return used


def _split_names(given: Sequence[str], source: Source, option: str) -> list[str]:
    """Names of columns: each a name as it stands, or several between commas."""
    parts = [[text] if text in source.columns else [part.strip() for part in text.split(",")] for text in given]
    names = [name for part in parts for name in part if name]
    source.require(names, option)
    return names


def as_inputs(source: Source, frame: pl.DataFrame, levels: Sequence[str] = ()) -> dict[str, pl.Series]:
    """Columns as floats where they are numbers, else as they are, for an encoder; null where missing.

    Those that hold `levels` stay text though most of it may be written as numbers.
    """
    read = {name: to_numbers(frame[name], source.separator) for name in frame.columns if name not in levels}
    text = {name for name, found in read.items() if found.odd is not None}
    mostly = [n for n in text if len(read[n].values.drop_nulls()) >= 0.5 * as_text(frame[n]).drop_nulls().len()]
    slips = [n for n in text if read[n].grouped or (frame[n].dtype == pl.String and n in mostly)]
    slips = [n for n in slips if not is_open_count(as_text(frame[n]).drop_nulls().unique())]
    numbers = [n for n in read if n not in text or n in slips]
    out = as_numbers(source, frame.select(numbers), "correct it, leave it empty, or leave the column out with --ignore")
    return {n: out[n] if n in out else as_text(frame[n]) for n in frame.columns}


def as_fitted(source: Source, frame: pl.DataFrame, encoder: Any, remedy: str, before: int = 0) -> dict[str, pl.Series]:
    """Columns as a fitted encoder expects them: numbers where it has numbers, else text; without one, numbers.

    `before` are the rows of the file before these.
    """
    from borrow.data.encode import Levels, Ordered
    from borrow.data.encode import Numbers as NumberColumn  # a column of numbers that needs no more

    plain, words = frame.columns, {}
    if encoder is not None:
        plain = [str(c.name) for c in encoder.columns_ if isinstance(c, NumberColumn)]
        kept = {str(c.name): c.known for c in encoder.columns_ if isinstance(c, (Levels, Ordered))}
        words = {name: has_words(pl.Series(known, dtype=pl.String)) for name, known in kept.items()}
    numbers = as_numbers(source, frame.select(plain), remedy, before)
    return {n: numbers[n] if n in numbers else as_text(frame[n], words.get(n, False)) for n in frame.columns}


def as_numbers(source: Source, frame: pl.DataFrame, remedy: str, before: int = 0) -> dict[str, pl.Series]:
    """Columns as floats, null where missing; the columns that hold text are all named.

    `before` are the rows of the file before these.
    """
    read = {name: to_numbers(frame[name], source.separator) for name in frame.columns}
    for name, found in read.items():
        refuse_separators(source, frame[name], found, before)
    if text := {name: found.odd for name, found in read.items() if found.odd is not None}:
        name, row = next(iter(text.items()))
        value = frame[name][row]
        kind = "text" if isinstance(value, str) else type(value).__name__
        more = f" (so does {list_labels(list(text)[1:], 4)})" if len(text) > 1 else ""
        fail(
            f"column {name!r} of {source.name} holds {kind} ({short(value)} {source.place(before + row)}) where "
            f"numbers are expected{more}; {remedy}"
        )
    return {name: found.values for name, found in read.items()}


class Numbers(NamedTuple):
    """A column as floats, null where missing, and the first rows with something else than a plain number."""

    values: pl.Series
    odd: int | None  # no number
    grouped: bool = False  # all that is odd is written like a number with separators of thousands or a decimal comma
    doubtful: int | None = None  # 1,000, which may be 1000 or 1.0
    decimal: bool = False  # some comma can only be a decimal one


def to_numbers(column: pl.Series, separator: str = "") -> Numbers:
    """Read a column as numbers, with decimal commas where commas do not separate the fields of its file."""
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        return Numbers(column.cast(pl.Float64).fill_nan(None), None)
    if column.dtype != pl.String:
        return Numbers(column, column.is_not_null().arg_max())
    text = present(column)
    values, doubtful, decimal = text.cast(pl.Float64, strict=False), None, False
    odd = text.is_not_null() & values.is_null()
    if separator != "," and odd.any() and text.str.contains(DECIMAL).any():
        could_be = {sign: text.str.contains(pattern) for sign, pattern in THOUSANDS.items()}
        decimal = bool((text.str.contains(DECIMAL) & ~could_be[","]).any())
        doubtful = first_of(could_be["." if decimal else ","])
        values = text.str.replace(DECIMAL, "$1.$2").cast(pl.Float64, strict=False)
        odd = text.is_not_null() & values.is_null()
    strange = text.filter(odd)
    grouped = bool(strange.str.contains(f"{GROUPED}|{DECIMAL}").all()) and not strange.str.contains(DATE).all()
    return Numbers(values.fill_nan(None), first_of(odd), grouped, doubtful, decimal)


def first_of(rows: pl.Series) -> int | None:
    """The first row that is true, if any is."""
    return rows.arg_max() if rows.any() else None


def refuse_separators(source: Source, column: pl.Series, found: Numbers, before: int = 0) -> None:
    """Refuse separators of thousands, and commas or points that may be such."""
    if why := not_read(source, column, found, before):
        fail(why)


def not_read(source: Source, column: pl.Series, found: Numbers, before: int = 0) -> str:
    """Why its numbers are not read: separators of thousands, or commas or points that may be such; else nothing."""
    row = found.odd if found.grouped and found.odd is not None else found.doubtful
    if row is None:
        return ""
    value = column[row].strip()
    what = f"column {column.name!r} of {source.name} holds {short(value)} {source.place(before + row)}"
    if row == found.odd:
        comma = ", nor is a decimal comma where commas separate the fields" if source.separator == "," else ""
        return f"{what}: a separator of thousands is not read{comma}; write plain numbers such as 1234.5"
    sign, other, mark = ("comma", "point", ".") if "," in value else ("point", "comma", ",")
    plain, changed = re.sub("[,.]", "", value), re.sub("[,.]", mark, value)
    return (
        f"{what}, which is {plain} if the {sign} separates thousands and {value.replace(',', '.')} if it is decimal, "
        f"and the other values of the column do not tell; write {plain}, or {changed} with a {other}"
    )


def present(column: pl.Series, missing: Sequence[str] = MISSING) -> pl.Series:
    """Text without blanks around it, null where it stands for no value."""
    text = column.str.strip_chars()
    return text.set(text.is_in(missing).fill_null(True), None)


def has_words(column: pl.Series) -> bool:
    """Whether some text is a word, which has no digit, rather than a number or a date."""
    return bool(present(column).str.contains(r"^\D+$").any())


def as_text(column: pl.Series, words: bool | None = None) -> pl.Series:
    """Text without what stands for no value; another column as it is.

    `words` says whether "none" is a word of the column; None looks for other words in it.
    """
    if column.dtype != pl.String:
        return column
    words = has_words(column) if words is None else words
    return present(column, GAPS if words else MISSING)


def whole_or_text(text: pl.Series, pattern: str) -> pl.Series:
    """Whole numbers where every value that is there is written like one, else the text as it is."""
    seen = text.drop_nulls()
    return text.cast(pl.Int64) if len(seen) and seen.str.contains(pattern).all() else text


def as_labels(column: pl.Series) -> pl.Series:
    """Task labels: whole numbers where all are written as such, else text; null where missing."""
    if column.dtype != pl.String:
        return column.cast(pl.String) if column.dtype in (pl.Categorical, pl.Enum) else column
    text = present(column, [""])
    if column.n_unique() > text.n_unique():
        padded = column.filter((column != text).fill_null(False))
        tell(f"labels of {column.name!r} differ in blanks alone, such as {padded[0]!r}, and are taken for the same")
    distinct = text.drop_nulls().unique(maintain_order=True)
    alike = distinct.filter(distinct.str.to_lowercase().is_duplicated())
    if len(alike):
        pair = alike.filter(alike.str.to_lowercase() == alike[0].lower())
        tell(
            f"labels of {column.name!r} differ in upper and lower case alone, such as {list_labels(pair.to_list())}, "
            "and are taken for different ones; write them alike where they are one"
        )
    return whole_or_text(text, r"^(0|-?[1-9]\d{0,17})$")


def measured(text: pl.Series) -> bool:
    """Whether a column holds numbers with a unit and nothing else."""
    try:
        return units_of(text.name, text.drop_nulls().to_list()) is not None
    except ValueError:  # the library says what is wrong with them, where they are to be numbers
        return False


def as_target(column: pl.Series, source: Source) -> pl.Series:
    """A target: numbers (whole where all are), or text; the library says what is wrong with a mixture."""
    if column.dtype.is_decimal() or column.dtype.is_float():
        return column.cast(pl.Float64).fill_nan(None)
    if column.dtype != pl.String:
        return as_labels(column)
    found, text = to_numbers(column, source.separator), present(column)
    refuse_separators(source, column, found)
    if found.odd is None:
        whole = whole_or_text(text, r"^[-+]?\d{1,18}$")
        return found.values if whole.dtype == pl.String else whole
    if len(found.values.drop_nulls()) > 0.5 * len(text.drop_nulls()):
        fail(
            f"--target {column.name!r} of {source.name} holds text ({short(column[found.odd])} "
            f"{source.place(found.odd)}) among numbers; correct it, or leave it empty where nothing was observed"
        )
    return as_text(column, words=not measured(text))


def match_label(given: Any, labels: Sequence[Any]) -> Any:
    """The label that is written like this, or None."""
    text = str(given).strip()
    return next((label for label in labels if str(label) == text or label == given), None)


def find_label(given: str | None, labels: Sequence[Any], option: str) -> Any:
    """The label that is written like this, None for None; the nearest one is offered where there is no such label."""
    label = None if given is None else match_label(given, labels)
    if given is not None and label is None:
        near = did_you_mean(given, labels, CLOSENESS)
        fail(f"{option} {given!r} is not a task; tasks are {list_labels(labels)}{near}")
    return label


def said_of_rows(result: dict[str, Any]) -> Iterator[str]:
    """What --drop-missing did, which columns are no inputs, and how many of the rows that are left have no target."""
    if n := result["dropped"]:
        were = "row was left out: it lacks" if n == 1 else "rows were left out: they lack"
        yield f"{n:,} {were} an input or a task."
    for name, what in result.get("aside", {}).items():
        yield f"Column {name!r} says the {what} and is no input; --features can name it as one."
    if n := result["without_target"]:
        yield f"{counted(n, 'row')} {'has' if n == 1 else 'have'} no target."


def short(value: Any) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) < 40 else f"{text[:36]}...{text[0]}"
