"""`borrow predict`: what a saved model says of new rows."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import polars as pl
import typer

import borrow
from borrow.cli import options as o
from borrow.cli.columns import as_labels, as_numbers, find_label, match_label
from borrow.cli.output import check_files, fail, library_warnings, print_json, tell_warnings
from borrow.cli.read import CLOSENESS, Source, open_source, refuse_absent
from borrow.data.labels import did_you_mean, list_labels

EXAMPLE = "borrow predict model.borrow new.csv --output predicted.csv"
#: Rows predicted at once.
PORTION = 5000


def run(
    model_file: o.ModelFile,
    data: o.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="CSV, .tsv or .parquet file; - is standard output.")
    ] = Path("-"),
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Column that names the task; default: the one of the model.")
    ] = None,
    task_is: Annotated[str | None, typer.Option("--as", help="Predict every row as one of this task.")] = None,
    level: Annotated[float, typer.Option("--level", help="Share of new measurements between low and high.")] = 0.9,
    function: Annotated[
        bool, typer.Option("--function", help="Uncertainty of the function alone, without the noise of a measurement.")
    ] = False,
    only: Annotated[
        bool, typer.Option("--only", help="Write the predictions alone; other columns of the data are not even read.")
    ] = False,
    prefix: Annotated[str, typer.Option("--prefix", help="Before the names of the new columns.")] = "",
    delimiter: o.Delimiter = None,
    as_json: o.Json = False,
) -> None:
    """Predict new rows with a saved model: mean, std, low and high, or the class and its probabilities.

    The columns of the data are kept, the predictions come after them. A row that lacks an input gets no prediction.
    """
    if not 0 < level < 1:
        fail(f"--level {level:g}: expected a share between 0 and 1, such as 0.9")
    check_files({"MODEL": model_file, "DATA": data}, {"--output": output})
    model = load_model(model_file)
    rows = open_rows(model, data, delimiter, task, task_is, everything=not only)
    with library_warnings() as warned:
        found = predictions(model, rows, level, not function).rename(lambda name: prefix + name)
    n, missing = len(rows.whole), int((~rows.whole).sum())
    if missing:
        warned.append(f"{missing:,} of {n:,} rows lack an input: their predictions are empty")
    tell_warnings(warned)
    if as_json:
        print_json({"rows": n, "columns": found.to_dict(as_series=False), "warnings": warned})
        return
    if clash := [] if only else [name for name in found.columns if name in rows.frame.columns]:
        fail(f"{rows.source.name} has a column {clash[0]!r} already; give --prefix, or --only")
    write_table(found if only else pl.concat([rows.frame, found], how="horizontal"), output)


def load_model(path: Path) -> Any:
    """A fitted estimator from its file."""
    refuse_absent(path)
    model = borrow.store.load(path)
    if not hasattr(model, "fitted_"):
        fail(f"{str(path)!r} holds {type(model).__name__}, which was not fitted to data; `borrow fit` makes models")
    return model


class Rows(NamedTuple):
    """Rows of a file as a model needs them."""

    source: Source
    frame: pl.DataFrame  # the columns that were read
    X: Any  # the model's inputs; NaN where one is missing
    tasks: Any  # the model's labels, where the file or the call names tasks, else None
    whole: Any  # which rows have every input
    cost: str | None  # the column of costs, where one is asked for

    def given(self, model: Any, at: Any = slice(None)) -> tuple[Any, ...]:
        """X and tasks of some rows; X is a frame where the model was fitted to one."""
        names = model.fitted_.schema.names
        X = self.X[at] if names is None else pl.DataFrame(self.X[at], schema=[str(n) for n in names], orient="row")
        return X, None if self.tasks is None else self.tasks[at]


def open_rows(
    model: Any,
    data: str,
    delimiter: str | None,
    task: str | None,
    task_is: str | None,
    everything: bool = False,
    cost: Sequence[str] = (),
) -> Rows:
    """Read what the model needs of a file: its inputs and tasks; beside these a column of costs, or every column."""
    source, schema = open_source(data, delimiter), model.fitted_.schema
    source.require([] if task is None else [task], "--task")
    column = task if task is not None else schema.task if isinstance(schema.task, str) else None
    names = [c for c in source.columns if c != column] if schema.names is None else [str(n) for n in schema.names]
    if len(names) != schema.n_features:
        fail(
            f"the model was fitted to {schema.n_features} inputs without names and {source.name} has {len(names)}: "
            f"{list_labels(names)}"
        )
    source.require(names)
    named = [c for c in source.columns if c == column and task_is is None]
    costs = [c for c in cost if len(cost) == 1 and ("=" not in c or c in source.columns)]
    source.require(costs, "--cost")
    frame = source.read(None if everything else list(dict.fromkeys([*names, *named, *costs])))
    columns = as_numbers(source, frame.select(names), "the model expects a number there")
    X = np.column_stack([columns[n].to_numpy() for n in names]).astype(float)
    tasks = None
    if task_is is not None:
        tasks = np.full(len(X), find_label(task_is, schema.tasks, "--as"), dtype=object)
    elif named:
        tasks = np.array(labels_of(frame[named[0]], schema.tasks, source), dtype=object)
    return Rows(source, frame, X, tasks, np.isfinite(X).all(axis=1), costs[0] if costs else None)


def labels_of(column: pl.Series, labels: Sequence[Any], source: Source) -> list[Any]:
    """The model's labels, found by how they are written."""
    values, found = as_labels(column), {}
    for row in values.is_first_distinct().arg_true():
        value = values[row]
        found[value] = None if value is None else match_label(value, labels)
        if found[value] is None:
            what = "is missing" if value is None else f"is {value!r}, which the model does not know"
            near = "" if value is None else did_you_mean(value, labels, CLOSENESS)
            fail(f"the task {what}, {source.place(row)} of {source.name}; tasks are {list_labels(labels)}{near}")
    return [found[value] for value in values.to_list()]


def predictions(model: Any, rows: Rows, level: float, noise: bool) -> pl.DataFrame:
    """New columns; null where a row has no prediction."""
    from scipy.special import ndtri

    at, z = np.flatnonzero(rows.whole), float(ndtri(0.5 + level / 2.0))
    if not len(at):
        fail("every row lacks an input; there is nothing to predict")
    parts = [_portion(model, rows.given(model, at[i : i + PORTION]), z, noise) for i in range(0, len(at), PORTION)]
    found = {n: np.concatenate([p[n] for p in parts]).tolist() for n in parts[0]}
    order = pl.Series(np.cumsum(rows.whole) - 1).set(pl.Series(~rows.whole), None)
    return pl.DataFrame(found, strict=False).select(pl.all().gather(order)).fill_nan(None)


def _portion(model: Any, given: tuple[Any, ...], z: float, noise: bool) -> dict[str, Any]:
    """Columns for some of the rows."""
    if hasattr(model, "predict_proba"):
        share = model.predict_proba(*given)
        best = model.classes_[np.argmax(share, axis=1)]
        return {"class": best, **{f"p_{c}": share[:, k] for k, c in enumerate(model.classes_.tolist())}}
    mean, std = model.predict(*given, return_std=True, include_noise=noise)
    if np.ndim(mean) == 2:
        fail("the model was fitted to several targets side by side; say which with --as, the name of its column")
    return {"mean": mean, "std": std, "low": mean - z * std, "high": mean + z * std}


def write_table(table: pl.DataFrame, output: Path) -> None:
    """CSV, TSV or Parquet by the ending of the name, written whole or not at all; CSV on standard output for `-`."""
    from borrow.numerics.files import write_atomically

    if str(output) == "-":
        for i, part in enumerate(table.iter_slices(PORTION * 4)):
            sys.stdout.write(part.write_csv(include_header=i == 0))
        return
    out = io.BytesIO()
    if output.suffix.lower() in (".parquet", ".pq"):
        table.write_parquet(out)
    else:
        table.write_csv(out, separator="\t" if output.suffix.lower() == ".tsv" else ",")
    write_atomically(output, out.getvalue())
