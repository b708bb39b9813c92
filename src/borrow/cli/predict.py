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
from borrow.cli.columns import as_labels, as_numbers, as_text, find_label, match_label
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
    if not 0 < level < 1:
        fail(f"--level {level:g}: expected a share between 0 and 1, such as 0.9")
    check_files({"MODEL": model_file, "DATA": data}, {"--output": output})
    model = load_model(model_file)
    if unseen is not None:
        if unseen not in ("error", "population"):
            fail(f"--unseen {unseen!r}: expected error or population")
        for part in (model, getattr(model, "model_", model)):  # an automatic one answers by the one that it chose
            part.set_params(unseen=unseen)
    reader = open_rows(model, data, delimiter, task, task_is)
    wanted = reader.needed if only or as_json else None
    with library_warnings() as warned:
        parts = Portions(model, reader, wanted, level, not function, prefix)
        if as_json:
            found = pl.concat([answer for _, answer in parts])
        else:
            write_table((_beside(rows, answer, only) for rows, answer in parts), output)
    if parts.lacking:
        warned.append(f"{parts.lacking:,} of {parts.n_rows:,} rows lack an input: their predictions are empty")
    tell_warnings(warned)
    if as_json:
        print_json({"rows": parts.n_rows, "columns": found.to_dict(as_series=False), "warnings": warned})


def _beside(rows: Rows, answer: pl.DataFrame, only: bool) -> pl.DataFrame:
    """The columns of the data and the new ones."""
    if only:
        return answer
    if clash := [name for name in answer.columns if name in rows.frame.columns]:
        fail(f"{rows.source.name} has a column {clash[0]!r} already; give --prefix, or --only")
    return pl.concat([rows.frame, answer], how="horizontal")


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
    inputs: pl.DataFrame  # those that the model needs, as numbers unless it encodes them itself
    tasks: Any  # the model's labels, where the file or the call names tasks, else None
    whole: Any  # which rows the model can answer for
    cost: str | None  # the column of costs, where one is asked for

    def given(self, model: Any, at: Any = slice(None)) -> tuple[Any, ...]:
        """X and tasks of some rows; X is a frame where the model was fitted to one."""
        X = self.inputs[at]
        tasks = None if self.tasks is None else self.tasks[at]
        return X.to_numpy() if model.fitted_.schema.names is None else X, tasks


@dataclass(frozen=True)
class RowReader:
    """What a model needs of a file, and how it is read."""

    source: Source
    schema: Any
    names: list[str]  # of the input columns
    named: list[str]  # the task column, where it is read
    label: Any  # the task of every row, where the call says it
    costs: list[str]
    open: bool  # whether the model answers for tasks that it never saw

    @property
    def needed(self) -> list[str]:
        """The columns that are needed, each once."""
        return list(dict.fromkeys([*self.names, *self.named, *self.costs]))

    def rows(self, frame: pl.DataFrame, before: int = 0) -> Rows:
        """Rows that were read, which stand behind so many others."""
        from borrow.data.encode import Numbers

        source, encoder, remedy = self.source, self.schema.encoder, "the model expects a number there"
        plain = self.names if encoder is None else [str(d.name) for d in encoder.columns_ if isinstance(d, Numbers)]
        numbers = as_numbers(source, frame.select(plain), remedy, before)
        columns = {n: numbers[n] if n in numbers else as_text(frame[n]) for n in self.names}
        inputs = pl.DataFrame([c.alias(n) for n, c in columns.items()])
        tasks, whole = None, np.ones(len(frame), dtype=bool)
        if encoder is None:
            inputs = inputs.cast(pl.Float64).fill_null(float("nan"))
            whole = np.isfinite(inputs.to_numpy()).all(axis=1)
        if self.label is not None:
            tasks = np.full(len(frame), self.label, dtype=object)
        elif self.named:
            labels = labels_of(frame[self.named[0]], self.schema.tasks, source, before, self.open)
            tasks = np.array(labels, dtype=object)
        return Rows(source, frame, inputs, tasks, whole, self.costs[0] if self.costs else None)


def open_rows(
    model: Any, data: str, delimiter: str | None, task: str | None, task_is: str | None, cost: Sequence[str] = ()
) -> RowReader:
    """What the model needs of a file: its inputs and tasks, and a column of costs beside these."""
    schema = model.fitted_.schema
    source = open_source(data, delimiter, [str(n) for n in schema.inputs or ()])
    source.require([] if task is None else [task], "--task")
    column = task if task is not None else schema.task if isinstance(schema.task, str) else None
    names = [c for c in source.columns if c != column] if schema.names is None else [str(n) for n in schema.inputs]
    if schema.encoder is None and len(names) != schema.n_features:
        fail(
            f"the model was fitted to {schema.n_features} inputs without names and {source.name} has {len(names)}: "
            f"{list_labels(names)}"
        )
    source.require(names)
    named = [c for c in source.columns if c == column and task_is is None]
    costs = [c for c in cost if len(cost) == 1 and ("=" not in c or c in source.columns)]
    source.require(costs, "--cost")
    label = None if task_is is None else find_label(task_is, schema.tasks, "--as")
    return RowReader(source, schema, names, named, label, costs, model.get_params()["unseen"] == "population")


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


class Portions:
    """The rows of a file with what the model says of them, portion by portion; null where a row has no prediction."""

    def __init__(
        self, model: Any, reader: RowReader, wanted: list[str] | None, level: float, noise: bool, prefix: str
    ) -> None:
        from scipy.special import ndtri

        self.model, self.reader, self.wanted, self.prefix = model, reader, wanted, prefix
        self.z, self.noise = float(ndtri(0.5 + level / 2.0)), noise
        self.n_rows, self.lacking = 0, 0

    def __iter__(self) -> Iterator[tuple[Rows, pl.DataFrame]]:
        waiting: list[Rows] = []  # for a portion that has predictions, whose columns are then known
        nothing: pl.DataFrame | None = None
        for part in self.reader.source.parts(self.wanted):
            rows = self.reader.rows(part, self.n_rows)
            self.n_rows += len(part)
            self.lacking += int((~rows.whole).sum())
            waiting.append(rows)
            found = self._answer(rows) if rows.whole.any() else None
            nothing = found if nothing is None else nothing
            if nothing is not None:
                for held in waiting:
                    yield held, nothing.clear(len(held.whole)) if held is not rows or found is None else found
                waiting = []
        if not self.n_rows:
            fail(f"{self.reader.source.name} has column names and no rows")
        if nothing is None:
            fail("every row lacks an input; there is nothing to predict")

    def _answer(self, rows: Rows) -> pl.DataFrame:
        """The new columns of some rows."""
        at = np.flatnonzero(rows.whole)
        parts = [self._some(rows.given(self.model, at[i : i + PORTION])) for i in range(0, len(at), PORTION)]
        found = {self.prefix + n: np.concatenate([p[n] for p in parts]).tolist() for n in parts[0]}
        order = pl.Series(np.cumsum(rows.whole) - 1).set(pl.Series(~rows.whole), None)
        return pl.DataFrame(found, strict=False).select(pl.all().gather(order)).fill_nan(None)

    def _some(self, given: tuple[Any, ...]) -> dict[str, Any]:
        """Columns for some of the rows: of a function and of a measurement where these are numbers."""
        model = self.model
        if hasattr(model, "predict_proba"):
            share = model.predict_proba(*given)
            best = model.classes_[np.argmax(share, axis=1)]
            return {"class": best, **{f"p_{c}": share[:, k] for k, c in enumerate(model.classes_.tolist())}}
        mean, function = model.predict(*given, return_std=True)
        measurement = np.sqrt(function**2 + model.noise_at(*given))
        if np.ndim(mean) == 1:
            return self._columns(mean, function, measurement)
        columns: dict[str, Any] = {}
        for j, label in enumerate(model.fitted_.schema.labels[t] for t in model.fitted_.schema.wide):
            found = self._columns(mean[:, j], function[:, j], measurement[:, j])
            columns |= {f"{label}_{name}": values for name, values in found.items()}
        return columns

    def _columns(self, mean: Any, function: Any, measurement: Any) -> dict[str, Any]:
        """One task: low and high are of a measurement, or of the function where that is asked for."""
        z, std = self.z, measurement if self.noise else function
        low_high = {"low": mean - z * std, "high": mean + z * std}
        return {"mean": mean, "std_function": function, "std_measurement": measurement, **low_high}


def write_table(parts: Iterable[pl.DataFrame], output: Path) -> None:
    """CSV, TSV or Parquet by the ending of the name, written whole or not at all; CSV on standard output for `-`.

    Text is written as the portions come; Parquet when all are there.
    """
    from borrow.numerics.files import write_atomically

    if str(output) == "-":
        if sys.stdout is None:
            fail("standard output is closed; give --output with the name of a file")
        for i, part in enumerate(parts):
            sys.stdout.write(part.write_csv(include_header=i == 0))
        return
    if output.suffix.lower() in (".parquet", ".pq"):
        out = io.BytesIO()
        pl.concat(parts).write_parquet(out)
        write_atomically(output, out.getvalue())
        return
    separator = "\t" if output.suffix.lower() == ".tsv" else ","
    lines = (part.write_csv(include_header=i == 0, separator=separator).encode() for i, part in enumerate(parts))
    write_atomically(output, lines)
