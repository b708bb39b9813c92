"""`borrow info`: what is in a file, whether a model, a table or a stored comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import borrow
from borrow.cli import options as o
from borrow.cli.columns import NONE, as_text, has_words, in_lines, not_read, to_numbers
from borrow.cli.compare import described
from borrow.cli.output import BOLD, SafeTable, in_full, number, print_result
from borrow.cli.read import Source, file_kind, open_source
from borrow.data.labels import counted
from borrow.data.plain import to_json

EXAMPLE = "borrow info model.borrow"
#: Labels that are listed; more are counted.
LISTED = 12
#: Distinct values are counted up to here; so many rows say what a column would become.
COUNTED = 10_000


def run(file: o.Data, delimiter: o.Delimiter = None, as_json: o.Json = False) -> None:
    """Say what is in a file: a saved model, a stored comparison, or a table and its columns."""
    kind = "table" if file == "-" else file_kind(Path(file))
    about: dict[str, Any] = {"file": file, "is": kind}
    if kind == "model":
        about |= borrow.store.describe(Path(file))
    elif kind == "comparison":
        found = borrow.Comparison.read(Path(file))
        about |= {**described(found), "fits": sum(r["left_out"] is None for r in found.records)}
    else:
        about |= table_info(file, delimiter)
    lines = {"model": model_lines, "comparison": comparison_lines, "table": table_lines}[kind]
    print_result(about, as_json, lambda: lines(about))


def model_lines(about: dict[str, Any]) -> Iterator[Any]:
    """What a saved model says of itself; nothing of it is built."""
    yield f"{about['class']}, saved by borrow {about['borrow']}, {about['bytes']:,} bytes", BOLD
    if about.get("fitted") is False:
        yield "It is not fitted."
    yield facts(
        {
            "target": about.get("target"),
            "inputs": listed(about.get("features")),
            "task": about.get("task"),
            "primary": about.get("primary", about.get("settings", {}).get("primary")),
            "tasks": listed(about.get("tasks")),
            "classes": listed(about.get("classes")),
            "rows": sum(n for _, n in about["rows"]) if "rows" in about else None,
            "method": about.get("method"),
            "kernel": about.get("kernel") or (about["is"] if "settings" not in about else None),
            "evidence": number(about["log_marginal_likelihood"]) if "log_marginal_likelihood" in about else None,
            "seed": about.get("seed"),
        }
    )
    yield from about.get("encoding", [])
    if about.get("converged") is False:
        yield "The optimiser did not converge.", {"style": "yellow"}


def comparison_lines(about: dict[str, Any]) -> Iterator[Any]:
    """How far a stored comparison is."""
    yield f"A comparison of {counted(len(about['methods']), 'method')}, {counted(about['fits'], 'fit')} done", BOLD
    yield facts(
        {
            "target": about["target"],
            "inputs": listed(about["features"]),
            "task": about["task"],
            "primary": listed(about["primaries"]),
            "tasks": listed([f"{t} ({n})" for t, n in about["rows"]]),
            "methods": listed(about["methods"]),
            "folds": f"{about['cv'].get('folds')} x {about['cv'].get('repeats')}",
            "error": about["scoring"],
            "seed": about["seed"],
        }
    )


def listed(values: Any) -> str | None:
    """A few names, and how many there are."""
    if not isinstance(values, list):
        return None
    text = ", ".join(map(str, values[:LISTED]))
    return text if len(values) <= LISTED else f"{text}, ... ({len(values)} in all)"


def facts(lines: dict[str, Any]) -> SafeTable:
    """Names and values, those that are known."""
    known = {n: listed(list(v.items())) if isinstance(v, dict) else str(v) for n, v in lines.items() if v is not None}
    table = SafeTable(["", " "], [], known.items())
    table.show_header = False
    return table


def table_info(place: str, delimiter: str | None) -> dict[str, Any]:
    """Columns of a table: what they hold, how much is missing. Read in portions; the first rows are kept."""
    source, rows = open_source(place, delimiter), 0
    columns, first = {name: Column(name) for name in source.columns}, []
    for part in source.parts():
        first.append(part.head(max(COUNTED - rows, 0)))
        rows += part.height
        for values in part:
            columns[values.name].take(values, source.separator)
    becomes = {values.name: as_input(values, source) for values in pl.concat(first)}
    about = [{**column.about(rows), **becomes[name]} for name, column in columns.items()]
    return {"rows": rows, "delimiter": source.separator or None, "columns": about}


def as_input(column: pl.Series, source: Source) -> dict[str, str]:
    """What a model would make of a column, by its first rows, or why it cannot be read; and what the text in it is."""
    from borrow.data.encode import Dates, Times, WithUnits, decide

    found = to_numbers(column, source.separator)
    if found.odd is None and (why := not_read(source, column, found)):
        return {"becomes": why}
    try:
        with in_lines(source.lines(np.arange(len(column)))):
            decision = decide(column.name, found.values if found.odd is None else as_text(column))
    except ValueError as error:
        return {"becomes": str(error)}
    kinds = {Dates: "dates", Times: "times", WithUnits: "numbers"}
    kind = {"kind": kinds[type(decision)]} if column.dtype == pl.String and type(decision) in kinds else {}
    return {"becomes": decision.sentence() or "as it is", **kind}


@dataclass
class Column:
    """What is known of a column after some of its portions."""

    name: str
    dtype: Any = None
    portions: list[tuple[Any, ...]] = field(default_factory=list)
    values: dict[Any, None] = field(default_factory=dict)  # distinct ones in order, up to COUNTED
    words: bool = False  # whether there are any, among which "none" is one
    nones: int = 0

    def take(self, column: pl.Series, separator: str) -> None:
        """Take note of the next portion."""
        found, self.dtype = to_numbers(column, separator), column.dtype
        values = as_text(column, words=True)
        self.words |= column.dtype == pl.String and has_words(column)
        self.nones += int(values.is_in(NONE).sum()) if column.dtype == pl.String else 0
        flags = found.odd is None, found.doubtful is not None, found.decimal
        finite = found.values.filter(found.values.is_finite()) if found.values.dtype.is_float() else found.values
        infinite = len(found.values.drop_nulls()) - len(finite.drop_nulls())
        self.portions.append((*flags, values.null_count(), infinite, finite.min(), finite.max()))
        if len(self.values) < COUNTED:
            distinct = values.drop_nulls().unique(maintain_order=True)
            self.values |= dict.fromkeys(distinct.head(COUNTED).to_list())

    def about(self, rows: int) -> dict[str, Any]:
        """The column: numbers or text, missing, distinct (COUNTED stands for that many or more), range or values."""
        numbers, doubtful, decimal, nulls, infinite, least, most = zip(*self.portions, strict=True)
        missing = sum(nulls) + (0 if self.words else self.nones)
        values = [v for v in self.values if self.words or v not in NONE]
        about = {"name": self.name, "missing": missing, "distinct": min(len(values), COUNTED)}
        if all(numbers) and missing < rows and (any(decimal) or not any(doubtful)):
            low = min((v for v in least if v is not None), default=None)
            high = max((v for v in most if v is not None), default=None)
            return {**about, "kind": "numbers", "infinite": sum(infinite), "least": low, "most": high}
        kind = "text" if all(numbers) or self.dtype == pl.String else str(self.dtype)
        return {**about, "kind": kind, "values": to_json(values[:LISTED])}


def table_lines(about: dict[str, Any]) -> Iterator[Any]:
    """One line per column of a table."""
    yield f"{about['file']}: {counted(about['rows'], 'row')}, {counted(len(about['columns']), 'column')}", BOLD
    table = SafeTable(["column", "kind"], ["missing", "distinct"])
    table.add_column("values", overflow="ellipsis", no_wrap=True, max_width=36)
    for c in about["columns"]:
        shown = f"{in_full(c['least'])} to {in_full(c['most'])}" if "least" in c else ", ".join(map(str, c["values"]))
        shown += f", {c['infinite']:,} infinite" if c.get("infinite") else ""
        distinct = f"{c['distinct']:,}" + "+" * (c["distinct"] == COUNTED)
        table.add_row(c["name"], c["kind"], f"{c['missing']:,}", distinct, shown)
    yield table
    yield "As an input of a model, each column would be", BOLD
    lines: dict[str, list[str]] = {}
    for c in about["columns"]:
        lines.setdefault(c["becomes"], []).append(c["name"])
    yield facts({f"{listed(names)}": words for words, names in lines.items()})
    tasks = [c["name"] for c in about["columns"] if c["kind"] == "text" and 1 < c["distinct"] <= about["rows"] / 3]
    if tasks:
        yield f"Text that could name the task: {listed(tasks)}. A column of whole numbers can name it too."
