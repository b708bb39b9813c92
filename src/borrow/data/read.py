"""Tables of every form as `data.Rows`, with errors that say what was expected, what came, what to do.

Rows are counted from 0 in messages, as pandas, polars and NumPy count positions.
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from borrow.data.cells import Codes, Rows
from borrow.data.labels import did_you_mean, encode, is_pairs, list_labels, sort_labels
from borrow.numerics.linalg import Array


@dataclass(frozen=True)
class Schema:
    """What `fit` saw, for `predict` to be held to."""

    task: Any  # the task column inside X: its name in a frame, its position in an array, None without one
    position: int | None  # where that column stands
    names: tuple[Hashable, ...] | None  # columns of a frame without the task column
    n_features: int
    labels: tuple[Hashable, ...]
    wide: Codes | None = None  # the task of each column of a wide y
    others: tuple[Hashable, ...] = ()  # tasks of the table that the model is not of

    def only(self, label: Hashable) -> Schema:
        """The same table for a model of one of its tasks."""
        encode([label], self.labels)
        others = self.others or tuple(v for v in self.labels if v != label)
        return replace(self, labels=(label,), wide=None, others=others)


def read_training(
    estimator: Any, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, replicates: Any = None
) -> tuple[Rows, Schema]:
    """Everything `fit` was given, as rows."""
    name = type(estimator).__name__
    X, y, tasks = unfold(estimator, X, y, tasks)
    table = split_task(estimator, X, tasks, estimator.task, reset=True)
    targets, columns = read_targets(y)
    n, values = len(table.features), table.tasks
    if len(targets) != n:
        raise ValueError(f"X has {n} rows and y has {len(targets)}; give one target a row")
    features, weight = table.features, per_row(sample_weight, "sample_weight", n, zero=True)
    counts, wide = per_row(replicates, "replicates", n, zero=False), None
    if targets.ndim == 2:
        if values is not None:
            text = f"y has {targets.shape[1]} columns, one a task, and X or tasks= names tasks too"
            raise ValueError(f"{text}; give one or the other")
        heads: Sequence[Any] = columns if columns is not None else range(targets.shape[1])
        labels, M = sort_labels(heads), len(heads)
        wide = encode(heads, labels)
        features, weight, counts = np.repeat(features, M, axis=0), np.repeat(weight, M), np.repeat(counts, M)
        codes, flat = np.tile(wide, n), targets.ravel()
    else:
        labels = sort_labels(values) if values is not None else (0,)
        codes = encode(values, labels) if values is not None else np.zeros(n, dtype=np.intp)
        flat = targets
    keep, number = weight > 0, np.repeat(np.arange(n), len(flat) // n if n else 1)
    if not np.isfinite(flat[keep]).any():
        why = "every y is NaN" if keep.all() else "every row has a NaN y or a sample_weight of zero"
        raise ValueError(f"nothing to learn from in {n} rows: {why}; {name} needs at least one number in y")
    schema = Schema(table.column, table.position, table.names, features.shape[1], labels, wide)
    return Rows(features[keep], codes[keep], labels, flat[keep], weight[keep], counts[keep], number[keep]), schema


def unfold(estimator: Any, X: Any, y: Any, tasks: Any) -> tuple[Any, Any, Any]:
    """X, y and tasks, also where X is a list or dict of (X, y) pairs, or a Dask frame."""
    X, y, tasks = gathered(X, y, tasks)
    if is_pairs(X):
        if y is not None or tasks is not None:
            raise ValueError("X is a list or dict of (X, y) pairs, one a task: leave out y= and tasks=")
        return _stack_pairs(X)
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None; give y, or "
            "a list or dict of (X, y) pairs, one a task"
        )
    return X, y, tasks


def read_new(
    estimator: Any, X: Any, schema: Schema, tasks: Any = None, default: int | None = None
) -> tuple[Array, Codes | None]:
    """Rows to predict for, with their task codes; None where a wide fit is asked for every task.

    `default` is the code to answer for when nothing names a task (the primary).
    """
    if default is None and len(schema.labels) == 1:
        default = 0
    if schema.task is not None and lacks_task(X, schema):
        features = without_task(estimator, X, schema)
        values = None if tasks is None else task_values(tasks, len(features))
        if values is None and as_frame(X) is None and len(schema.labels) > 1:
            default = None  # an array says nothing of its columns: a task column left out may be a mistake
    elif schema.task is not None and tasks is not None:
        raise ValueError(f"X has the task column {schema.task!r} and tasks= was given too; give one of them")
    else:
        column = schema.position if as_frame(X) is None else schema.task
        table = split_task(estimator, X, tasks, column, reset=False)
        features, values = table.features, table.tasks
    if values is not None:
        if left := [v for v in schema.others if v in values]:
            raise ValueError(
                f"task {list_labels(left)} was not fitted: this is a model of {schema.labels[0]!r} alone, without "
                "transfer; leave these rows out, or fit SingleTaskGPRegressor or SingleTaskGPClassifier to every task"
            )
        return features, encode(values, schema.labels)
    if default is not None:
        return features, np.full(len(features), default, dtype=np.intp)
    if schema.wide is not None:
        return features, None
    put = "" if schema.task is None else f"put the task column {schema.task!r} into X, or "
    raise ValueError(
        f"fitted on {len(schema.labels)} tasks, and nothing says which task these rows belong to; {put}give "
        f"tasks=, one of {list_labels(schema.labels)}, or one a row"
    )


@dataclass(frozen=True)
class _Table:
    """X taken apart."""

    features: Array
    names: tuple[Hashable, ...] | None = None
    column: Any = None
    position: int | None = None
    tasks: list[Any] | None = None


def split_task(estimator: Any, X: Any, tasks: Any, column: Any, reset: bool) -> _Table:
    """Features and the task labels of the rows, from the column of X or from `tasks`."""
    frame = as_frame(X)
    if frame is None:
        X = _array(X)
        if not reset and np.ndim(X) == 2:
            validate_data(estimator, X=X, skip_check_array=True, reset=False)  # the number of columns first
    if tasks is not None and column is not None and (frame is None or column in frame.columns):
        raise ValueError(f"task={column!r} names a column of X and tasks= was given too; give one of them")
    if tasks is not None or column is None:
        features = _numbers(estimator, X)
        validate_data(estimator, X=X, skip_check_array=True, reset=reset)
        labels = None if tasks is None else task_values(tasks, len(features))
        return _Table(features, None if frame is None else tuple(frame.columns), tasks=labels)
    if frame is not None:
        column, position = _find_column(column, list(frame.columns))
        values, rest = frame.get_column(column).to_list(), frame.drop(column)
        names, without = tuple(rest.columns), rest.to_native()
    else:
        if isinstance(column, str):
            raise ValueError(
                f"task={column!r} is a column name and X is an array, which has none; give the position of "
                "the task column (task=0 is the first), or a data frame"
            )
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must be rows by columns")
        column = position = _position(column, X.shape[1])
        values, names, without = X[:, column].tolist(), None, np.delete(X, column, axis=1)
    if without.shape[1] == 0:
        raise ValueError(f"X has no column beside the task column {column!r}; give at least one input column")
    features = _numbers(estimator, without, skipped=position)
    validate_data(estimator, X=X, skip_check_array=True, reset=reset)
    return _Table(features, names, column, position, task_values(values, len(features)))


def lacks_task(X: Any, schema: Schema) -> bool:
    """Whether X comes without the task column that fit saw."""
    frame = as_frame(X)
    if frame is not None and schema.names is not None:
        return schema.task not in frame.columns
    shape = np.shape(X) if frame is None else frame.shape
    return len(shape) == 2 and shape[1] == schema.n_features


def without_task(estimator: Any, X: Any, schema: Schema) -> Array:
    """Features of a table without the task column that fit saw; a frame must have just the others."""
    frame = as_frame(X)
    if frame is not None and schema.names is not None:
        columns = list(frame.columns)
        if missing := [c for c in schema.names if c not in columns]:
            raise ValueError(f"X lacks {list_labels(missing)}; fit saw the columns {list_labels(schema.names)}")
        if extra := [c for c in columns if c not in schema.names]:
            raise ValueError(
                f"X has the column {list_labels(extra)}, which fit did not see, and no task column "
                f"{schema.task!r}{did_you_mean(schema.task, extra)}"
            )
        X = frame.select(list(schema.names)).to_native()
    return _numbers(estimator, X)


def _find_column(column: Any, columns: list[Any]) -> tuple[Any, int]:
    """Name and position of the task column of a frame; a whole number that is no name is a position."""
    if column not in columns and isinstance(column, (int, np.integer)):
        column = columns[_position(column, len(columns))]
    if column not in columns:
        hint = did_you_mean(column, columns)
        raise ValueError(f"task={column!r} is not a column of X; columns are {list_labels(columns)}{hint}")
    return column, columns.index(column)


def _position(column: Any, width: int) -> int:
    if isinstance(column, bool) or not isinstance(column, (int, np.integer)) or not -width <= column < width:
        raise ValueError(f"task={column!r} is not among the {width} columns of X, 0 to {width - 1}")
    return int(column) % width


def as_frame(X: Any) -> Any:
    """X as a narwhals frame, or None where it is none."""
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except DuplicateError as repeated:
        raise ValueError(f"the frame has columns of the same name; rename them. {repeated}") from None
    if isinstance(frame, nw.DataFrame):
        return frame
    if isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise ValueError("the frame is lazy; call .collect() first (.compute() for Dask)")
    return None


def _array(X: Any) -> Any:
    """X with a dtype and a shape; lists keep numbers and text apart."""
    if hasattr(X, "dtype") or hasattr(X, "toarray"):
        return X
    if isinstance(X, Mapping):
        raise ValueError("X is a dict; expected a data frame, an array, or a dict of (X, y) pairs by task")
    array = np.asarray(X)
    return np.array(X, dtype=object) if array.dtype.kind in "US" else array


def _numbers(estimator: Any, X: Any, skipped: int | None = None) -> Array:
    """A finite float matrix. `skipped` is the column that was taken out before, for counting in messages."""
    frame, names = as_frame(X), []
    if frame is not None:
        names = [repr(c) for c in frame.columns]
        columns = [to_floats(frame.get_column(c).to_numpy(), f"column {c!r} of X") for c in frame.columns]
        X = np.column_stack(columns) if columns else np.zeros((len(frame), 0))
    elif np.ndim(X) == 2 and not hasattr(X, "toarray"):
        names = [str(j + (skipped is not None and j >= skipped)) for j in range(np.shape(X)[1])]
        if getattr(X, "dtype", np.dtype(float)).kind in "OUSmM":
            parts = [to_floats(c, f"column {j} of X") for j, c in zip(names, np.asarray(X).T, strict=True)]
            X = np.column_stack(parts) if parts else X
    features = check_array(X, dtype=np.float64, ensure_all_finite=False, estimator=estimator, input_name="X")
    if len(bad := np.argwhere(~np.isfinite(features))):
        rows = np.unique(bad[:, 0]).tolist()
        which = [names[j] for j in np.unique(bad[:, 1])]
        raise ValueError(
            f"X holds NaN or infinity (inf) in {name_some(rows)}, column {', '.join(which[:6])}; drop or fill "
            "these rows first (NaN is allowed in y only, for rows that were not observed)"
        )
    return features


def to_floats(values: Any, where: str) -> Array:
    """A column as floats, NaN where missing; what is no number is refused, with its row."""
    values = np.asarray(values)
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {where} holds complex numbers")
    dates = values.dtype.kind in "mM"
    if not dates:
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            pass  # to be explained, or to be read without its missing values
    entries = [np.nan if is_missing(v) else v for v in (list(values) if dates else values.tolist())]
    for i, v in enumerate(entries):
        if isinstance(v, (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)):
            raise ValueError(
                f"{where} holds dates or times ({v!s} in row {i}) where numbers are expected; turn them into "
                "numbers, for instance days since the first"
            )
        try:
            float(v)
        except ValueError:
            remedy = "encode it as numbers"
            if where.endswith("of X"):
                remedy += ", drop it, or name it with task= if it says which task a row belongs to"
            raise ValueError(f"{where} holds text ({v!r} in row {i}) where numbers are expected; {remedy}") from None
        except TypeError as problem:
            raise TypeError(f"{where} holds {v!r} in row {i} where numbers are expected: {problem}") from None
    return np.array(entries, dtype=np.float64)


def is_missing(value: Any) -> bool:
    """None, NaN, or the missing value of a frame library (pandas is not imported for it)."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def read_targets(y: Any) -> tuple[Array, tuple[Hashable, ...] | None]:
    """(n,) or (N, M) floats with NaN, and the names of the columns of a frame."""
    frame = as_frame(y)
    if frame is not None:
        columns = [to_floats(frame.get_column(c).to_numpy(), f"column {c!r} of y") for c in frame.columns]
        array = np.column_stack(columns)
    else:
        array = np.asarray(y)
        if array.ndim == 2 and array.shape[1] > 1:
            array = np.column_stack([to_floats(c, f"column {j} of y") for j, c in enumerate(array.T)])
        else:
            array = to_floats(array.ravel(), "y").reshape(array.shape)
    if np.isinf(array).any():
        rows = np.unique(np.argwhere(np.isinf(array))[:, 0]).tolist()
        raise ValueError(
            f"Input y contains infinity or a value too large for dtype('float64') in {name_some(rows)}; use NaN "
            "for what was not observed"
        )
    if array.ndim == 2 and array.shape[1] > 1:
        return array, None if frame is None else tuple(frame.columns)
    return column_or_1d(array, warn=True), None


def per_row(values: Any, name: str, n: int, zero: bool) -> Array:
    """One positive number a row (a number stands for all rows; None for 1)."""
    if values is None:
        return np.ones(n)
    array = np.asarray(values)
    array = to_floats(array.ravel(), name).reshape(array.shape)
    array = np.full(n, float(array)) if array.ndim == 0 else array
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1D array or a number, got an array of {array.ndim} dimensions")
    if len(array) != n:
        raise ValueError(f"{name}.shape == {array.shape}, expected {(n,)}! Give one a row, or one number for all")
    bad = ~np.isfinite(array) | (array < 0 if zero else array <= 0)
    if bad.any():
        rows = np.flatnonzero(bad).tolist()
        kind = "finite and not negative" if zero else "finite and positive"
        raise ValueError(f"{name} must be {kind}; it is {array[rows[0]]:g} in {name_some(rows)}")
    return array


def task_values(values: Any, n: int) -> list[Any]:
    """Labels of the rows, checked; a single label stands for all rows."""
    if isinstance(values, (str, int, float, np.generic)):
        values = [values.item() if isinstance(values, np.generic) else values] * n
    series = nw.from_native(values, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(series, nw.DataFrame) and len(series.columns) == 1:
        series = series.get_column(series.columns[0])
    if isinstance(series, nw.Series):
        values = series.to_list()
    elif isinstance(values, np.ndarray):
        values = (values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values).tolist()
    values = list(values)
    if len(values) != n:
        raise ValueError(f"there are {len(values)} task labels for {n} rows; give one a row, or one for all")
    if missing := [i for i, v in enumerate(values) if is_missing(v)]:
        raise ValueError(
            f"the task is missing (NaN) in {name_some(missing)}; every row needs one: name it, or drop these rows"
        )
    if odd := [i for i, v in enumerate(values) if not isinstance(v, Hashable)]:
        raise ValueError(
            f"the task of row {odd[0]} is {values[odd[0]]!r}; a task label is text, a number, or another single value"
        )
    return values


def _stack_pairs(pairs: Any) -> tuple[Any, Array, list[Any]]:
    """A list of (X, y), or a dict of them by label, as one table."""
    items = list(pairs.items()) if isinstance(pairs, Mapping) else list(enumerate(pairs))
    for label, (X, y) in items:
        if np.ndim(X) != 2:
            raise ValueError(f"X of task {label!r} has {np.ndim(X)} dimension(s); expected a table, rows by columns")
        if len(X) != len(y):
            raise ValueError(f"task {label!r} has {len(X)} rows of X and {len(y)} of y; give one y a row")
    widths = {label: np.shape(X)[1] for label, (X, _) in items}
    if len(set(widths.values())) > 1:
        raise ValueError(f"X of the tasks differ in their number of columns: {widths}; all tasks share one input space")
    frames = [as_frame(X) for _, (X, _) in items]
    if all(f is not None for f in frames):
        columns = frames[0].columns
        for (label, _), f in zip(items, frames, strict=True):
            if set(f.columns) != set(columns):
                raise ValueError(
                    f"X of task {label!r} has the columns {f.columns}, that of {items[0][0]!r} {columns}; "
                    "all tasks share one input space"
                )
        table = nw.concat([f.select(columns) for f in frames]).to_native()
    else:
        table = np.vstack([_array(X) for _, (X, _) in items])
    y = np.concatenate([np.ravel(y) for _, (_, y) in items])
    return table, y, [label for label, (X, _) in items for _ in range(len(X))]


def name_some(rows: list[int], most: int = 8) -> str:
    """`row 3`, or `rows 3, 5, 8, ... (12 in all)`."""
    more = f", ... ({len(rows):,} in all)" if len(rows) > most else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:most]))}{more}"


def gathered(*parts: Any) -> tuple[Any, ...]:
    """Dask collections among these as frames and arrays, computed together; the others as they are."""
    lazy = [type(p).__module__.partition(".")[0] == "dask" and hasattr(p, "compute") for p in parts]
    if not any(lazy):
        return parts
    import dask

    return tuple(dask.compute(*parts))
