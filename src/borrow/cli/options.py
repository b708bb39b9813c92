"""Options that several commands take, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[str, typer.Argument(metavar="DATA", help="CSV or Parquet file (also .gz); - reads standard input.")]
Target = Annotated[str | None, typer.Option("--target", "-y", help="Column to predict.")]
Task = Annotated[str | None, typer.Option("--task", "-t", help="Column that names the task of a row.")]
Features = Annotated[
    list[str] | None, typer.Option("--features", "-x", help="Input columns, as a,b or repeated; default: all others.")
]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", help="Columns to leave out, as a,b or repeated.")]
Order = Annotated[
    list[str] | None,
    typer.Option("--order", help="Levels of a text column from least to most, as dose=low,mid,high; may be repeated."),
]
Kind = Annotated[
    str,
    typer.Option(
        "--kind",
        help="regression or classification; auto takes text and two whole numbers for labels.",
        autocompletion=lambda: ["auto", "regression", "classification"],
    ),
]
Labels = Annotated[bool, typer.Option("--labels", help="The target holds labels, as --kind classification.")]
Numbers = Annotated[bool, typer.Option("--numbers", help="The target holds numbers, as --kind regression.")]
Targets = Annotated[
    list[str] | None,
    typer.Option("--targets", help="Columns that are a task each, as a,b or repeated; instead of --target and --task."),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Between the fields of a CSV file; found out unless given.")
]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows that lack an input or a task.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of words.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="File written by `borrow fit` or `borrow compare`.")]
