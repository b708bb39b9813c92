"""`borrow predict`: what a saved model says of new rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from borrow.cli import options as o
from borrow.cli.output import check_files, fail, noted, say, tell_warnings

if TYPE_CHECKING:
    import polars as pl

    from borrow.cli.read import Source

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
    from borrow.cli.read import open_source

    if not 0 < level < 1:
        fail(f"--level {level:g}: expected a share between 0 and 1, such as 0.9")
    check_files({"MODEL": model_file, "DATA": data}, {"--output": output})
    model = load_model(model_file)
    source = open_source(data, delimiter)
    wanted = inputs_of(model, source, task, task_is)
    frame = source.read(wanted if only else None)
    if frame.height == 0:
        fail(f"{source.name} has column names and no rows")
    X, tasks, whole = rows_for(model, source, frame, wanted, task, task_is)
    with noted() as warned:
        found = {prefix + n: v for n, v in predictions(model, X, tasks, whole, level, not function).items()}
    missing = int((~whole).sum())
    if missing:
        warned.append(f"{missing:,} of {len(whole):,} rows lack an input: their predictions are empty")
    tell_warnings(warned)
    if as_json:
        say({"rows": len(whole), "columns": {n: list(v) for n, v in found.items()}, "warnings": warned})
        return
    if clash := [] if only else [n for n in found if n in frame.columns]:
        fail(f"{source.name} has a column {clash[0]!r} already; give --prefix, or --only")
    write(frame, found, output, only)


def load_model(path: Path) -> Any:
    """A fitted estimator from its file."""
    from borrow import store
    from borrow.cli.read import refuse_absent

    refuse_absent(path)
    model = store.load(path)
    if not hasattr(model, "fitted_"):
        fail(f"{str(path)!r} holds {type(model).__name__}, which was not fitted to data; `borrow fit` makes models")
    return model


def inputs_of(model: Any, source: Source, task: str | None, task_is: str | None) -> list[str]:
    """Columns that the model needs of the file: its inputs, then the task column where it is used."""
    from borrow.data.labels import list_labels

    schema = model.fitted_.schema
    if task is not None:
        source.require([task], "--task")
    column = task if task is not None else schema.task if isinstance(schema.task, str) else None
    if schema.names is not None:
        names = [str(n) for n in schema.names]
    else:
        names = [c for c in source.columns if c != column]
        if len(names) != schema.n_features:
            fail(
                f"the model was fitted to {schema.n_features} inputs without names and {source.name} has {len(names)}: "
                f"{list_labels(names)}"
            )
    source.require(names)
    used = column is not None and column in source.columns and task_is is None
    return [*names, *([column] if used and column is not None else [])]


def rows_for(
    model: Any, source: Source, frame: pl.DataFrame, wanted: list[str], task: str | None, task_is: str | None
) -> tuple[Any, list[Any] | None, Any]:
    """Features of all rows, task labels if any are given, and which rows have every input."""
    from borrow.cli.columns import as_numbers, find_label

    schema = model.fitted_.schema
    names = wanted[: schema.n_features]
    columns = as_numbers(source, frame.select(names), "the model expects a number there")
    X = np.column_stack([columns[n].to_numpy() for n in names]).astype(float)
    whole = np.isfinite(X).all(axis=1)
    if task_is is not None:
        return X, [find_label(task_is, schema.labels, "--as")] * len(X), whole
    if len(wanted) == len(names):
        return X, None, whole
    return X, labels_of(frame[wanted[-1]], schema.labels, source), whole


def labels_of(column: pl.Series, labels: Sequence[Any], source: Source) -> list[Any]:
    """The model's labels, found by how they are written."""
    from borrow.cli.columns import as_labels
    from borrow.data.labels import did_you_mean, list_labels

    by_text, by_value = {str(v): v for v in labels}, {v: v for v in labels}
    raw, read = column.to_list(), as_labels(column).to_list()
    found: dict[Any, Any] = {}
    for row, (text, value) in enumerate(zip(raw, read, strict=True)):
        if text in found:
            continue
        label = by_text.get("" if text is None else str(text).strip(), by_value.get(value))
        if label is None:
            what = "is missing" if value is None else f"is {value!r}, which the model does not know"
            near = "" if value is None else did_you_mean(value, labels, 0.5)
            fail(f"the task {what}, {source.place(row)} of {source.name}; tasks are {list_labels(labels)}{near}")
        found[text] = label
    return [found[text] for text in raw]


def predictions(model: Any, X: Any, tasks: list[Any] | None, whole: Any, level: float, noise: bool) -> dict[str, Any]:
    """New columns by name; NaN or None where a row has no prediction."""
    from scipy.special import ndtri

    if not whole.any():
        fail("every row lacks an input; there is nothing to predict")
    at = np.flatnonzero(whole)
    parts = [_portion(model, X, tasks, at[i : i + PORTION], noise) for i in range(0, len(at), PORTION)]
    found = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
    if "mean" in found:
        z = float(ndtri(0.5 + level / 2.0))
        found["low"], found["high"] = found["mean"] - z * found["std"], found["mean"] + z * found["std"]
    return {name: _spread(values, at, len(whole)) for name, values in found.items()}


def _spread(values: Any, at: Any, n: int) -> Any:
    """Values at these rows; NaN, or None for what is no number, at the others."""
    if values.dtype.kind == "f":
        out: Any = np.full(n, np.nan)
        out[at] = values
        return out
    column: list[Any] = [None] * n
    for i, v in zip(at.tolist(), values.tolist(), strict=True):
        column[i] = v
    return column


def _portion(model: Any, X: Any, tasks: list[Any] | None, at: Any, noise: bool) -> dict[str, Any]:
    """Columns for some of the rows."""
    rows = given(model, X[at], None if tasks is None else [tasks[i] for i in at])
    if hasattr(model, "predict_proba"):
        share = model.predict_proba(*rows)
        best = model.classes_[np.argmax(share, axis=1)]
        return {"class": best, **{f"p_{c}": share[:, k] for k, c in enumerate(model.classes_.tolist())}}
    mean, std = model.predict(*rows, return_std=True, include_noise=noise)
    if np.ndim(mean) == 2:
        fail("the model was fitted to several targets side by side; say which with --as, the name of its column")
    return {"mean": mean, "std": std}


def given(model: Any, X: Any, tasks: list[Any] | None) -> tuple[Any, ...]:
    """X (and tasks) in the form that the model was fitted to."""
    import polars as pl

    schema = model.fitted_.schema
    if schema.names is None:
        if schema.task is None or tasks is None:
            return (X, tasks)
        return (np.insert(X.astype(object), schema.position, np.array(tasks, dtype=object), axis=1), None)
    frame = pl.DataFrame({str(n): X[:, j] for j, n in enumerate(schema.names)})
    if schema.task is None or tasks is None:
        return (frame, tasks)
    return (frame.insert_column(schema.position, pl.Series(str(schema.task), tasks)), None)


def write(frame: pl.DataFrame, found: dict[str, Any], output: Path, only: bool) -> None:
    """The table with its new columns, to a file at once or to standard output."""
    import polars as pl

    from borrow.numerics.files import write_atomically

    new = pl.DataFrame([pl.Series(n, v, strict=False) for n, v in found.items()]).fill_nan(None)
    first, table = True, new if only else pl.concat([frame, new], how="horizontal")
    if str(output) == "-":
        for part in table.iter_slices(PORTION * 4):
            sys.stdout.write(part.write_csv(include_header=first))
            first = False
        return
    write_atomically(output, as_bytes(table, output))


def as_bytes(table: pl.DataFrame, output: Path) -> bytes:
    """CSV, TSV or Parquet, by the ending of the name."""
    import io

    out = io.BytesIO()
    if output.suffix.lower() in (".parquet", ".pq"):
        table.write_parquet(out)
    else:
        table.write_csv(out, separator="\t" if output.suffix.lower() == ".tsv" else ",")
    return out.getvalue()
