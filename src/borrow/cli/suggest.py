"""`borrow suggest`: what to measure next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

import borrow
from borrow.cli import options as o
from borrow.cli.columns import as_numbers, find_label, in_lines
from borrow.cli.output import BOLD, DIM, SafeTable, check_files, fail, in_full, library_warnings, number, print_result
from borrow.cli.predict import RowReader, load_model, stored_primary, write_table
from borrow.data.labels import counted, did_you_mean

EXAMPLE = "borrow suggest model.borrow candidates.csv --n 3"
#: What a row is chosen for.
MEANT = {
    "reduction": "of the primary's variance",
    "improvement": "what the best value is expected to gain",
    "log_odds": "of borrowing against not, by how much they are expected to move towards the truth; borrowing and "
    "alone: what is predicted there with the other data and without",
}
#: Inputs shown; --json has them all.
MOST_INPUTS = 6


def run(
    model_file: o.ModelFile,
    candidates: Annotated[
        str, typer.Argument(metavar="CANDIDATES", help="Rows that could be measured: CSV, Parquet, or -.")
    ],
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many to choose.")] = 5,
    cost: Annotated[
        list[str] | None,
        typer.Option("--cost", help="A column of costs; or task=cost, repeated for every task."),
    ] = None,
    goal: Annotated[
        str, typer.Option("--goal", help="learn the primary everywhere, minimise or maximise it, or decide.")
    ] = "learn",
    primary: Annotated[
        str | None, typer.Option("--primary", "-p", help="The task that matters; default: the one of the model.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Column that names the task; default: the one of the model.")
    ] = None,
    task_is: Annotated[str | None, typer.Option("--as", help="Take every candidate for one of this task.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the rows chosen, as CSV or Parquet.")
    ] = None,
    delimiter: o.Delimiter = None,
    as_json: o.Json = False,
) -> None:
    """Choose what to measure next: the rows that tell most about the primary for their cost, best first.

    Each row is the best given that those above it are measured too. A reduction is of the primary's variance, averaged
    over its own inputs and the candidates'. With --goal minimise or maximise an improvement is what the best value
    is expected to gain. With --goal decide, for a model of `borrow fit --method auto`, it is what would settle whether
    borrowing helps.
    """
    from borrow.transfer.suggest import GOALS

    check_files({"MODEL": model_file, "CANDIDATES": candidates}, {"--output": output})
    model = load_model(model_file)
    known = stored_primary(model, model_file)
    reader = RowReader(model, candidates, delimiter, task, task_is, cost or [], known)
    rows = reader.rows(reader.source.read(reader.needed))
    if reader.lacking:
        fail(
            f"{reader.lacking:,} of {reader.n_rows:,} candidates lack an input, the first of them "
            f"{reader.source.place(int(np.argmin(rows.whole)))}"
        )
    main = known if primary is None else find_label(primary, reader.schema.tasks, "--primary")
    price = prices(cost or [], reader, rows.frame)
    if goal not in GOALS:
        fail(f"--goal {goal!r}: expected one of {', '.join(GOALS)}{did_you_mean(goal, GOALS)}")
    with library_warnings() as warned, in_lines(rows.lines):
        found = borrow.suggest(model, rows.X, n, price, tasks=rows.tasks, primary=main, goal=goal)
    if output is not None:
        write_table([pl.DataFrame(dict(found), strict=False)], output)
    result = {"rows": found.rows(), "candidates": reader.n_rows, "warnings": warned}
    print_result(result, as_json, lambda: lines_of(found, reader.n_rows, price is not None))


def prices(cost: list[str], reader: RowReader, rows: pl.DataFrame) -> Any:
    """Costs by row or by task, or None."""
    if reader.costs:
        (values,) = as_numbers(reader.source, rows.select(reader.costs), "a cost is a number").values()
        return values.to_numpy()
    out = {}
    for text in cost:
        label, sign, value = text.rpartition("=")
        try:
            price = float(value)
        except ValueError:
            price = float("nan")
        if not sign or not price > 0:
            fail(f"--cost {text!r}: expected a column, or task=cost with a positive number")
        out[find_label(label, reader.schema.tasks, "--cost")] = price
    return out or None


def lines_of(found: Any, n_candidates: int, priced: bool) -> list[Any]:
    """The rows chosen, best first."""
    gain = next(name for name in MEANT if name in found)
    after = {"reduction": ["remaining"], "improvement": ["mean", "std"], "log_odds": ["borrowing", "alone"]}[gain]
    numbers = {
        gain: gain.replace("_", " "),
        "cost": "cost",
        f"{gain}_per_cost": "per cost",
        **{name: name for name in after},
    }
    inputs = [c for c in found if c not in ("rank", "row", "task", *numbers)]
    gains = {c: n for c, n in numbers.items() if priced or "cost" not in c}

    def of(shown: list[str]) -> SafeTable:
        ways = {**dict.fromkeys(shown, in_full), **dict.fromkeys(gains, number)}
        first = ("rank", "row", "task")
        rows = [[*(str(r[c]) for c in first), *(f(r[c]) for c, f in ways.items())] for r in found.rows()]
        return SafeTable(first, [*shown, *gains.values()], rows, 2)

    n = next((n for n in range(min(len(inputs), MOST_INPUTS), 0, -1) if of(inputs[:n]).fits()), min(len(inputs), 1))
    left = counted(len(inputs) - n, "more input")
    more = f" {left} {'is' if len(inputs) - n == 1 else 'are'} not shown (--json)." if len(inputs) > n else ""
    meant = f"{numbers[gain].capitalize()}: {MEANT[gain]}."
    explained = f"Row: position among the candidates, the first is 0. {meant}{more}"
    return [(f"What to measure next, of {n_candidates:,} candidates:", BOLD), of(inputs[:n]), (explained, DIM)]
