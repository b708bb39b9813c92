"""Text columns as numbers, labels and targets; the table that the library is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from borrow.cli.output import fail
from borrow.cli.read import Source, nearest
from borrow.data.cells import list_labels, sort_labels

#: What stands for no value in a CSV file, beside nothing at all.
MISSING = ["", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None", "none"]


@dataclass(frozen=True)
class Table:
    """Features as floats, task labels, and the target; in a frame with columns of these names."""

    frame: pl.DataFrame
    target: str
    task: str | None
    features: list[str]
    dropped: int = 0

    @property
    def labels(self) -> tuple[Any, ...]:
        """Distinct task labels."""
        return () if self.task is None else sort_labels(self.frame[self.task].to_list())

    def inputs(self) -> pl.DataFrame:
        """What an estimator gets as X: features, and the task column last."""
        return self.frame.select([*self.features, *([] if self.task is None else [self.task])])


def read_table(
    source: Source,
    target: str,
    task: str | None,
    features: Sequence[str] | None,
    ignore: Sequence[str],
    drop_missing: bool = False,
) -> Table:
    """The columns that are needed, read and checked."""
    source.require([target], "--target")
    source.require([] if task is None else [task], "--task")
    if target == task:
        fail(f"--target and --task are both {target!r}; they are two columns")
    used = choose_features(source, [target, *([] if task is None else [task])], features, ignore)
    frame = source.read([*used, *([] if task is None else [task]), target])
    if frame.height == 0:
        fail(f"{source.name} has column names and no rows")
    read = {name: frame[name] for name in frame.columns}
    read |= as_numbers(source, frame.select(used), remedy="leave it out with --ignore, or encode it as numbers")
    read[target] = as_target(read[target], source)
    if read[target].null_count() == frame.height:
        fail(f"every value of --target {target!r} is missing in {source.name}; there is nothing to learn from")
    if task is not None:
        read[task] = as_labels(read[task])
    table = pl.DataFrame([read[name].alias(name) for name in frame.columns])
    needed = [*used, *([] if task is None else [task])]
    short = {n: table[n].null_count() for n in needed if table[n].null_count()}
    if short and not drop_missing:
        listed = ", ".join(f"{n!r} ({k:,})" for n, k in short.items())
        first = next(iter(short))
        row = table[first].is_null().arg_max()
        fail(
            f"values are missing in {listed}, the first {at_line(source, row)}; leave these rows out with "
            "--drop-missing, or a column with --ignore (only the target may be missing)"
        )
    whole = table.drop_nulls(needed)
    if whole.height == 0:
        fail(
            f"every row of {source.name} lacks a value of {list_labels(list(short))}; leave a column out with --ignore"
        )
    return Table(whole, target, task, used, table.height - whole.height)


def choose_features(
    source: Source, roles: Sequence[str], features: Sequence[str] | None, ignore: Sequence[str]
) -> list[str]:
    """Input columns: those named, or all that are neither target nor task nor ignored."""
    left_out = split_names(ignore, source)
    source.require(left_out, "--ignore")
    if features:
        named = split_names(features, source)
        source.require(named, "--features")
        for name in named:
            if name in roles:
                fail(f"--features names {name!r}, which is the {'target' if name == roles[0] else 'task'} column")
    else:
        named = [c for c in source.columns if c not in roles]
    used = list(dict.fromkeys(c for c in named if c not in left_out))
    if not used:
        fail(f"no input column is left beside {list_labels(roles)}; a model needs at least one")
    return used


def split_names(given: Sequence[str], source: Source) -> list[str]:
    """Names of columns: each a name as it stands, or several between commas."""
    out: list[str] = []
    for text in given:
        out += [text] if text in source.columns else [part.strip() for part in text.split(",") if part.strip()]
    return out


def as_numbers(source: Source, frame: pl.DataFrame, remedy: str) -> dict[str, pl.Series]:
    """Columns as floats, null where missing; the columns that hold text are all named."""
    read, text = {}, {}
    for name in frame.columns:
        column, bad = to_numbers(frame[name])
        if bad is not None:
            text[name] = bad
        read[name] = column
    if text:
        name, row = next(iter(text.items()))
        value = frame[name][row]
        kind = "text" if isinstance(value, str) else type(value).__name__
        more = f" (so does {list_labels(list(text)[1:], 4)})" if len(text) > 1 else ""
        fail(
            f"column {name!r} of {source.name} holds {kind} ({short(value)} {at_line(source, row)}) where numbers are "
            f"expected{more}; {remedy}"
        )
    return read


def to_numbers(column: pl.Series) -> tuple[pl.Series, int | None]:
    """A column as floats, and the first row that is no number."""
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Float64).fill_nan(None), None
    if column.dtype.is_decimal():
        return column.cast(pl.Float64), None
    if column.dtype != pl.String:
        return column, column.is_not_null().arg_max()
    text = present(column)
    numbers = text.cast(pl.Float64, strict=False)
    odd = text.is_not_null() & numbers.is_null()
    if odd.any():  # 1,5 for 1.5
        numbers = text.str.replace(r"^([-+]?\d*),(\d+)$", "$1.$2").cast(pl.Float64, strict=False)
        odd = text.is_not_null() & numbers.is_null()
    return numbers.fill_nan(None), odd.arg_max() if odd.any() else None


def present(column: pl.Series) -> pl.Series:
    """Text without blanks around it, null where it stands for no value."""
    text = column.str.strip_chars()
    return text.set(text.is_in(MISSING).fill_null(True), None)


def as_labels(column: pl.Series) -> pl.Series:
    """Task labels: whole numbers where all are written as such, else text; null where missing."""
    if column.dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if column.dtype != pl.String:
        return column
    text = column.str.strip_chars()
    text = text.set((text == "").fill_null(True), None)
    distinct = text.drop_nulls().unique().to_list()
    if distinct and all(re.fullmatch(r"0|-?[1-9]\d{0,17}", v) for v in distinct):
        return text.cast(pl.Int64)
    return text


def as_target(column: pl.Series, source: Source) -> pl.Series:
    """A target: numbers (whole where all are), or text; the library says what is wrong with a mixture."""
    if column.dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if column.dtype != pl.String:
        return (
            column.cast(pl.Float64).fill_nan(None) if column.dtype.is_decimal() or column.dtype.is_float() else column
        )
    numbers, bad = to_numbers(column)
    text = present(column)
    if bad is None:
        seen = text.drop_nulls()
        whole = len(seen) > 0 and bool(seen.str.contains(r"^[-+]?\d{1,18}$").all())
        return text.cast(pl.Int64) if whole else numbers
    share = float(numbers.is_not_null().sum()) / max(len(text.drop_nulls()), 1)
    if share > 0.5:
        fail(
            f"--target {column.name!r} of {source.name} holds text ({short(column[bad])} {at_line(source, bad)}) among "
            f"numbers; correct it, or leave it empty where nothing was observed"
        )
    return text


def find_label(given: str, labels: Sequence[Any], option: str) -> Any:
    """The label that is written like this; the nearest one is offered where there is none."""
    for label in labels:
        if str(label) == given.strip() or label == given:
            return label
    fail(f"{option} {given!r} is not a task; tasks are {list_labels(labels)}{nearest(given, labels)}")


def at_line(source: Source, row: int | None) -> str:
    """Where a row stands: the line of a text file (the header is line 1), the row of another (the first is 0)."""
    return f"in line {(row or 0) + 2}" if source.is_text else f"in row {row or 0}"


def short(value: Any) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) < 40 else f"{text[:36]}...{text[0]}"
