"""`borrow predict`: what a saved model says of new rows."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import polars as pl
import typer

import borrow
from borrow.cli import options as o
from borrow.cli.columns import as_fitted, as_labels, find_label, in_lines, match_label
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
    unseen: Annotated[
        str | None,
        typer.Option("--unseen", help="population: answer for tasks that the model never saw; default: error."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Share of new measurements between low and high.")] = 0.9,
    function: Annotated[
        bool, typer.Option("--function", help="Low and high of the function, without the noise of a measurement.")
    ] = False,
    only: Annotated[
        bool, typer.Option("--only", help="Write the predictions alone; other columns of the data are not even read.")
    ] = False,
    prefix: Annotated[str, typer.Option("--prefix", help="Before the names of the new columns.")] = "",
    delimiter: o.Delimiter = None,
    as_json: o.Json = False,
) -> None:
    """Predict new rows with a saved model: mean, deviations, low and high, or the class and its probabilities.

    The columns of the data are kept, the predictions come after them. A row that lacks an input gets no prediction,
    unless the model learnt what to do about gaps. Rows are read, predicted and written in portions.
    """
    from scipy.special import ndtri

    if not 0 < level < 1:
        fail(f"--level {level:g}: expected a share between 0 and 1, such as 0.9")
    check_files({"MODEL": model_file, "DATA": data}, {"--output": output})
    model = load_model(model_file)
    if unseen is not None:
        if unseen not in ("error", "population"):
            fail(f"--unseen {unseen!r}: expected error or population")
        for part in (model, getattr(model, "model_", model)):  # an automatic one answers by the one that it chose
            part.set_params(unseen=unseen)
    if function and not getattr(model, "tells_noise", True):
        fail(f"--function: {type(model).__name__} does not tell the function from the noise; leave out --function")
    reader = RowReader(model, data, delimiter, task, task_is, primary=stored_primary(model, model_file))
    answers = Answers(model, float(ndtri(0.5 + level / 2.0)), not function, prefix)
    with library_warnings() as warned:
        parts = answers.portions(reader, reader.needed if only or as_json else None)
        if as_json:
            found = pl.concat([answer for _, answer in parts])
        else:
            write_table((answer if only else joined(rows.frame, answer, reader) for rows, answer in parts), output)
    if reader.lacking:
        warned.append(f"{reader.lacking:,} of {reader.n_rows:,} rows lack an input: their predictions are empty")
    tell_warnings(warned)
    if as_json:
        print_json({"rows": reader.n_rows, "columns": found.to_dict(as_series=False), "warnings": warned})


def joined(frame: pl.DataFrame, answer: pl.DataFrame, reader: RowReader) -> pl.DataFrame:
    """The columns of the data and the new ones."""
    if clash := [name for name in answer.columns if name in frame.columns]:
        fail(f"{reader.source.name} has a column {clash[0]!r} already; give --prefix, or --only")
    return pl.concat([frame, answer], how="horizontal")


def load_model(path: Path) -> Any:
    """A fitted estimator from its file."""
    refuse_absent(path)
    model = borrow.store.load(path)
    if not hasattr(model, "fitted_"):
        fail(f"{str(path)!r} holds {type(model).__name__}, which was not fitted to data; `borrow fit` makes models")
    return model


def stored_primary(model: Any, path: Path) -> Any:
    """The task that mattered when a model was fitted, where its file says so; None where it says none of its tasks."""
    return match_label(borrow.store.describe(path).get("primary"), model.fitted_.schema.tasks)


class Rows(NamedTuple):
    """Rows of a file as a model needs them."""

    frame: pl.DataFrame  # the columns that were read
    X: Any  # those that the model needs, as numbers unless it encodes them itself: a frame where it was fitted to one
    tasks: Any  # the model's labels, where the file or the call names tasks, else None
    whole: Any  # which rows the model can answer for
    lines: Any  # of a text file that the rows stand in


class RowReader:
    """What a model needs of a file: its inputs and tasks, and a column of costs beside these.

    Where neither the file nor the call names tasks, rows are of the `primary`, if one is given.
    Rows are read in their order; `n_rows` have been, of which so many are `lacking` an input.
    """

    def __init__(
        self,
        model: Any,
        data: str,
        delimiter: str | None,
        task: str | None,
        task_is: str | None,
        cost: Sequence[str] = (),
        primary: Any = None,
    ) -> None:
        self.model, self.schema = model, model.fitted_.schema
        self.source = source = open_source(data, delimiter, [str(n) for n in self.schema.inputs or ()])
        source.require([] if task is None else [task], "--task")
        column = task if task is not None else self.schema.task if isinstance(self.schema.task, str) else None
        self.names = [str(n) for n in self.schema.inputs or ()]
        if self.schema.names is None:
            self.names = [c for c in source.columns if c != column]
        if self.schema.encoder is None and len(self.names) != self.schema.n_features:
            fail(
                f"the model was fitted to {self.schema.n_features} inputs without names and {source.name} has "
                f"{len(self.names)}: {list_labels(self.names)}"
            )
        source.require(self.names)
        self.named = [c for c in source.columns if c == column and task_is is None]
        self.costs = [c for c in cost if len(cost) == 1 and ("=" not in c or c in source.columns)]
        source.require(self.costs, "--cost")
        self.label = find_label(task_is, self.schema.tasks, "--as")
        if not self.named and self.label is None and self.schema.wide is None:
            self.label = primary
        self.needed = list(dict.fromkeys([*self.names, *self.named, *self.costs]))
        self.n_rows = self.lacking = 0

    def rows(self, frame: pl.DataFrame) -> Rows:
        """The next rows of the file, as they were read."""
        encoder, remedy = self.schema.encoder, "the model expects a number there"
        columns = as_fitted(self.source, frame.select(self.names), encoder, remedy, self.n_rows)
        inputs = pl.DataFrame([c.alias(n) for n, c in columns.items()])
        tasks, whole = None, np.ones(len(frame), dtype=bool)
        if encoder is None:
            inputs = inputs.cast(pl.Float64).fill_null(float("nan"))
            whole = np.isfinite(inputs.to_numpy()).all(axis=1)
        if self.label is not None:
            tasks = np.full(len(frame), self.label, dtype=object)
        elif self.named:
            others = self.model.get_params()["unseen"] == "population"
            labels = labels_of(frame[self.named[0]], self.schema.tasks, self.source, self.n_rows, others)
            tasks = np.array(labels, dtype=object)
        lines = self.source.lines(np.arange(self.n_rows, self.n_rows + len(frame)))
        self.n_rows += len(frame)
        self.lacking += int((~whole).sum())
        return Rows(frame, inputs.to_numpy() if self.schema.names is None else inputs, tasks, whole, lines)


def labels_of(
    column: pl.Series, labels: Sequence[Any], source: Source, before: int = 0, others: bool = False
) -> list[Any]:
    """The model's labels, found by how they are written; with `others`, what is not among them stays as it is."""
    values, found = as_labels(column), {}
    for row in values.is_first_distinct().arg_true():
        value = values[row]
        found[value] = None if value is None else match_label(value, labels)
        if others and found[value] is None:
            found[value] = value
        if found[value] is None:
            what = "is missing" if value is None else f"is {value!r}, which the model does not know"
            near = "" if value is None else did_you_mean(value, labels, CLOSENESS)
            fail(
                f"the task {what}, {source.place(before + row)} of {source.name}; tasks are {list_labels(labels)}{near}"
            )
    return [found[value] for value in values.to_list()]


@dataclass(frozen=True)
class Answers:
    """What a model says of rows, as new columns; null where a row has no prediction."""

    model: Any
    z: float  # low and high are so many deviations away
    noise: bool  # of a measurement, else of the function
    prefix: str  # of the names of the columns

    def portions(self, reader: RowReader, wanted: list[str] | None) -> Iterator[tuple[Rows, pl.DataFrame]]:
        """The rows of a file with the new columns, portion by portion."""
        waiting: list[Rows] = []  # for a portion that has predictions, whose columns are then known
        nothing: pl.DataFrame | None = None
        for part in reader.source.parts(wanted):
            rows = reader.rows(part)
            waiting.append(rows)
            found = self.of(rows) if rows.whole.any() else None
            nothing = found if nothing is None else nothing
            if nothing is not None:
                for held in waiting:
                    yield held, nothing.clear(len(held.whole)) if held is not rows or found is None else found
                waiting = []
        if not reader.n_rows:
            fail(f"{reader.source.name} has column names and no rows")
        if nothing is None:
            fail("every row lacks an input; there is nothing to predict")

    def of(self, rows: Rows) -> pl.DataFrame:
        """The new columns of some rows."""
        at = np.flatnonzero(rows.whole)
        parts = []
        for some in (at[i : i + PORTION] for i in range(0, len(at), PORTION)):
            with in_lines(None if rows.lines is None else rows.lines[some]):
                parts.append(self._some(rows.X[some], None if rows.tasks is None else rows.tasks[some]))
        found = {self.prefix + n: np.concatenate([p[n] for p in parts]).tolist() for n in parts[0]}
        order = pl.Series(np.cumsum(rows.whole) - 1).set(pl.Series(~rows.whole), None)
        return pl.DataFrame(found, strict=False).select(pl.all().gather(order)).fill_nan(None)

    def _some(self, *arguments: Any) -> dict[str, Any]:
        """Columns for some rows, by X and tasks: of a function and of a measurement where these are numbers."""
        model = self.model
        if hasattr(model, "predict_proba"):
            share = model.predict_proba(*arguments)
            best = model.classes_[np.argmax(share, axis=1)]
            return {"class": best, **{f"p_{c}": share[:, k] for k, c in enumerate(model.classes_.tolist())}}
        mean, function = model.predict(*arguments, return_std=True)
        measurement = np.sqrt(function**2 + model.noise_at(*arguments))
        half = self.z * (measurement if self.noise else function)
        function = function if model.tells_noise else np.full_like(mean, np.nan)
        found = {
            "mean": mean,
            "std_function": function,
            "std_measurement": measurement,
            "low": mean - half,
            "high": mean + half,
        }
        if np.ndim(mean) == 1:
            return found
        schema = model.fitted_.schema
        labels = enumerate(schema.labels[t] for t in schema.wide)  # one column of each per task
        return {f"{label}_{name}": values[:, j] for j, label in labels for name, values in found.items()}


def write_table(parts: Iterable[pl.DataFrame], output: Path) -> None:
    """CSV, TSV or Parquet by the ending of the name, written whole or not at all; CSV on standard output for `-`.

    Text is written as the portions come; Parquet when all are there.
    """
    from borrow.numerics.files import write_atomically

    separator = "\t" if output.suffix.lower() == ".tsv" else ","
    lines = (part.write_csv(include_header=i == 0, separator=separator) for i, part in enumerate(parts))
    if str(output) == "-":
        if sys.stdout is None:
            fail("standard output is closed; give --output with the name of a file")
        sys.stdout.writelines(lines)
    elif output.suffix.lower() in (".parquet", ".pq"):
        out = io.BytesIO()
        pl.concat(parts).write_parquet(out)
        write_atomically(output, out.getvalue())
    else:
        write_atomically(output, (line.encode() for line in lines))
