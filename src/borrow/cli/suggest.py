"""`borrow suggest`: what to measure next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from borrow.cli import options as o
from borrow.cli.output import check_files, fail, noted, number, paper, plain_table, say, tell_warnings
from borrow.cli.predict import given, inputs_of, load_model, rows_for

EXAMPLE = "borrow suggest model.borrow candidates.csv --n 3"
#: Inputs looked at where no candidates are given.
MOST_CANDIDATES = 500


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
    primary: Annotated[
        str | None, typer.Option("--primary", "-p", help="The task that matters, where the model does not know it.")
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
    over its own inputs and the candidates'.
    """
    import borrow
    from borrow.cli.columns import find_label
    from borrow.cli.read import open_source

    check_files({"MODEL": model_file, "CANDIDATES": candidates}, {"--output": output})
    model = load_model(model_file)
    source = open_source(candidates, delimiter)
    wanted = inputs_of(model, source, task, task_is)
    column = cost[0] if cost and len(cost) == 1 and ("=" not in cost[0] or cost[0] in source.columns) else None
    if column is not None:
        source.require([column], "--cost")
    frame = source.read(list(dict.fromkeys([*wanted, *([] if column is None else [column])])))
    if frame.height == 0:
        fail(f"{source.name} has column names and no rows")
    X, tasks, whole = rows_for(model, source, frame, wanted, task, task_is)
    if not whole.all():
        fail(
            f"{int((~whole).sum()):,} of {len(whole):,} candidates lack an input, the first of them row "
            f"{int(np.argmin(whole))}"
        )
    main = None if primary is None else find_label(primary, model.fitted_.schema.labels, "--primary")
    price = prices(cost, column, frame, source, model.fitted_.schema.labels)
    rows = given(model, X, tasks)
    with noted() as warned:
        found = borrow.suggest(model, rows[0], n, price, tasks=rows[1], primary=main)
    if output is not None:
        import polars as pl

        from borrow.cli.predict import as_bytes
        from borrow.numerics.files import write_atomically

        write_atomically(output, as_bytes(pl.DataFrame(dict(found), strict=False), output))
    if as_json:
        say({"rows": found.rows(), "candidates": len(X), "warnings": warned})
        return
    tell_warnings(warned)
    show(found, len(X), price is not None)


def unmeasured(model: Any, table: Any, primary: Any, n: int = 5) -> Any:
    """What to measure next of the primary, among inputs seen in other tasks only; None where nothing can say."""
    import polars as pl

    import borrow
    from borrow.estimators.regressor import GPRegressor
    from borrow.models.hierarchical.estimators import HierarchicalGPRegressor

    if not isinstance(model, (GPRegressor, HierarchicalGPRegressor)) or table.task is None:
        return None
    inputs = table.frame.select(table.features)
    mine = inputs.filter(table.frame[table.task] == primary)
    rest = inputs.unique(maintain_order=True).join(mine, on=table.features, how="anti").head(MOST_CANDIDATES)
    if rest.height == 0:
        return None
    rows = rest.with_columns(pl.lit(primary).alias(table.task))
    return borrow.suggest(model, rows.select(table.inputs().columns), n, primary=primary)


def prices(cost: list[str] | None, column: str | None, frame: Any, source: Any, labels: Any) -> Any:
    """Costs by row or by task, or None."""
    from borrow.cli.columns import as_numbers, find_label

    if column is not None:
        return as_numbers(source, frame.select([column]), "a cost is a number")[column].to_numpy()
    out = {}
    for text in cost or []:
        label, sign, value = text.rpartition("=")
        try:
            price = float(value)
        except ValueError:
            price = float("nan")
        if not sign or not price > 0:
            fail(f"--cost {text!r}: expected a column, or task=cost with a positive number")
        out[find_label(label, labels, "--cost")] = price
    return out or None


def show(found: Any, n_candidates: int, priced: bool) -> None:
    """The rows chosen, best first."""
    page = paper()
    page.print(f"What to measure next, of {n_candidates:,} candidates:", style="bold")
    own = ("rank", "row", "task", "reduction", "cost", "reduction_per_cost", "remaining")
    inputs = [c for c in found if c not in own]
    shown = inputs[:6]
    numbers = ["reduction", *(["cost", "per cost"] if priced else []), "remaining"]
    table = plain_table("", ["rank", "row", "task"], [*shown, *numbers], 2)
    for r in found.rows():
        costs = [number(r["cost"]), number(r["reduction_per_cost"])] if priced else []
        cells = [number(r[c]) for c in shown], [number(r["reduction"])], costs, [number(r["remaining"])]
        table.add_row(str(r["rank"]), str(r["row"]), str(r["task"]), *(c for part in cells for c in part))
    page.print(table)
    more = f" {len(inputs) - len(shown)} more inputs are not shown (--json)." if len(inputs) > len(shown) else ""
    page.print(
        f"Row: position among the candidates, the first is 0. Reduction: of the primary's variance.{more}", style="dim"
    )
