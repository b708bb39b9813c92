"""`borrow report`: one HTML page from a stored comparison or a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import borrow
from borrow.cli import options as o
from borrow.cli.columns import open_table
from borrow.cli.output import (
    UNBROKEN,
    check_files,
    command_line,
    fail,
    library_warnings,
    print_json,
    print_lines,
    tell_warnings,
)
from borrow.cli.predict import load_model
from borrow.cli.read import file_kind, open_source

EXAMPLE = "borrow report run.jsonl --data scores.csv --output report.html"


def run(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="File of `borrow compare --store`, or a saved model.")],
    data: Annotated[
        str | None, typer.Option("--data", help="The table that was compared or fitted, for figures of predictions.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    order: o.Order = None,
    delimiter: o.Delimiter = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the page shows as JSON as well.")] = False,
) -> None:
    """Write one HTML page: the verdict, what it rests on, the tasks' relations, predictions, and how it was made."""
    read = of_model if file_kind(source) == "model" else of_comparison
    check_files({"FILE": source, "--data": data}, {"--output": output})
    with library_warnings() as warned:
        content = borrow.report.summary(
            **read(source, data, delimiter, order),
            command=command_line("report", str(source), data=data, order=order),
        )
        borrow.report.write(output, content)
    tell_warnings(warned)
    if as_json:
        print_json(content)
    else:
        print_lines((f"Report: {output}", UNBROKEN))


def of_comparison(path: Path, data: str | None, delimiter: str | None, order: list[str] | None) -> dict[str, Any]:
    """A stored comparison, and its table where that is given."""
    if path.is_dir():
        fail(f"{str(path)!r} is a folder; give a file of `borrow compare --store`, or a saved model")
    found = borrow.Comparison.read(path)
    if not found.records:
        fail(f"{str(path)!r} holds no result yet; run the comparison again, it goes on from there")
    if data is None:
        return {"comparison": found}
    return {"comparison": found, "table": as_compared(found, path, data, delimiter, order)}


def as_compared(found: borrow.Comparison, path: Path, data: str, delimiter: str | None, order: list[str] | None) -> Any:
    """The table that was compared, read as it was then."""
    from borrow.transfer.problem import TASK, VALUE, read_problem

    wide = found.wide and not {VALUE, TASK} <= set(open_source(data).columns)
    target, task, targets = (None, None, found.wide) if wide else (found.target, found.task, None)
    keep = {name: what for name, what in ((found.group, "group"), (found.time, "time")) if name is not None}
    table = open_table(
        data, delimiter, target, task, found.features, drop_missing=None, targets=targets, keep=keep, order=order
    )
    for rows in (table.frame, table.frame.drop_nulls(found.features)):  # all, or without those of --drop-missing
        problem = read_problem(
            rows, found.target, found.task, found.features, found.kind, group=found.group, time=found.time
        )
        if problem.digest() == found.digest:
            return problem
    fail(f"{table.name} is not the table that {str(path)!r} compared; give that one, or leave out --data")


def of_model(path: Path, data: str | None, delimiter: str | None, order: list[str] | None) -> dict[str, Any]:
    """A saved model, with its comparison where it has one; or with the table that it was fitted to."""
    model, about = load_model(path), borrow.store.describe(path)
    parts: dict[str, Any] = {"model": model, "target": about.get("target")}
    found = getattr(model, "comparison_", None)  # of a model that chose
    if data is None:
        return {**parts, "comparison": found}
    schema = model.fitted_.schema
    named = "target" in about and schema.names is not None and schema.wide is None
    if not named or (found is not None and found.target != about["target"]):
        fail(f"{str(path)!r} does not say which columns it was fitted to; leave out --data")
    if found is not None:
        return {**parts, "comparison": found, "table": as_compared(found, path, data, delimiter, order)}
    task = schema.task if isinstance(schema.task, str) else None
    inputs = [str(n) for n in schema.inputs]
    table = open_table(data, delimiter, about["target"], task, inputs, drop_missing=None, order=order)
    return {**parts, "table": table.frame}
