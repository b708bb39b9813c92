"""Reading tables of every form into `data.Rows`, with errors that say what was expected, what came, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from borrow.data import Codes, Rows, encode, is_pairs, list_labels, sort_labels
from borrow.linalg import Array


@dataclass(frozen=True)
class Schema:
    """What `fit` saw, for `predict` to be held to."""

    task: str | int | None  # the task column inside X, if there is one
    names: tuple[str, ...] | None  # feature names without the task column
    n_features: int
    labels: tuple[Hashable, ...]
    wide: bool = False


def read_training(
    estimator: Any, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, replicates: Any = None
) -> tuple[Rows, Schema]:
    """Everything `fit` was given, as rows."""
    name = type(estimator).__name__
    if is_pairs(X):
        if y is not None or tasks is not None:
            raise ValueError("X is a list or dict of (X, y) pairs, so y= and tasks= must be left out")
        X, y, tasks = _stack_pairs(X)
    if y is None:
        raise ValueError(
            f"This {name} estimator requires y to be passed, but the target y is None. A list of (X, y) pairs, one a "
            "task, may be given instead."
        )
    features, names, column, values = _split(estimator, X, tasks, reset=True)
    targets, columns = _targets(y)
    n = len(features)
    check_consistent_length(features, targets)
    weight = _per_row(sample_weight, "sample_weight", n, least=0.0)
    counts = _per_row(replicates, "replicates", n, least=None)
    if targets.ndim == 2:
        if values is not None:
            raise ValueError(
                f"y has {targets.shape[1]} columns, one a task, and X names tasks too; give one or the other"
            )
        labels: tuple[Hashable, ...] = columns if columns is not None else tuple(range(targets.shape[1]))
        M = len(labels)
        features, weight, counts = np.repeat(features, M, axis=0), np.repeat(weight, M), np.repeat(counts, M)
        codes, flat = np.tile(np.arange(M), n), targets.ravel()
    else:
        labels = sort_labels(values) if values is not None else (0,)
        codes = encode(values, labels) if values is not None else np.zeros(n, dtype=np.intp)
        flat = targets
    keep = weight > 0
    if not np.isfinite(flat[keep]).any():
        raise ValueError(f"no row of y has a number in it ({n} rows, all NaN or of weight 0); {name} needs at least one")
    schema = Schema(column, names, features.shape[1], labels, targets.ndim == 2)
    return Rows(features[keep], codes[keep], labels, flat[keep], weight[keep], counts[keep]), schema


def read_new(
    estimator: Any, X: Any, schema: Schema, tasks: Any = None, default: int | None = None
) -> tuple[Array, Codes | None]:
    """Rows to predict for, with their task codes; None where a wide fit is asked for every task.

    `default` is the code to answer for when nothing names a task (the primary).
    """
    if schema.task is not None and tasks is None and default is not None and _lacks(X, schema):
        columns = list(nw.from_native(X, eager_only=True).columns)
        if missing := [n for n in schema.names or () if n not in columns]:
            raise ValueError(f"X lacks the columns {missing}; fit saw {list(schema.names or ())}")
        X = nw.from_native(X, eager_only=True).select(list(schema.names or ())).to_native()
        features, _ = _numbers(estimator, X)
        return features, np.full(len(features), default, dtype=np.intp)
    if schema.task is None or tasks is None:
        features, _, _, values = _split(estimator, X, tasks, reset=False)
    else:
        if not _lacks(X, schema):
            raise ValueError(f"tasks= was given and X has the task column {schema.task!r} too; give one or the other")
        features, _ = _numbers(estimator, X)
        if features.shape[1] != schema.n_features:
            raise ValueError(f"X has {features.shape[1]} columns beside the task; fit saw {schema.n_features}")
        values = _task_values(tasks, len(features))
    if values is not None:
        return features, encode(values, schema.labels)
    if default is not None or len(schema.labels) == 1:
        return features, np.full(len(features), default or 0, dtype=np.intp)
    if schema.wide:
        return features, None
    raise ValueError(
        f"fitted on {len(schema.labels)} tasks, and nothing says which task these rows belong to; give tasks=, one of "
        f"{list_labels(schema.labels)}"
    )


def _lacks(X: Any, schema: Schema) -> bool:
    """Whether X comes without the task column that fit saw."""
    frame = _frame(X)
    if isinstance(schema.task, str):
        return frame is not None and schema.task not in frame.columns
    return schema.task is not None and np.ndim(X) == 2 and np.shape(X)[1] == schema.n_features


def _split(
    estimator: Any, X: Any, tasks: Any, reset: bool
) -> tuple[Array, tuple[str, ...] | None, str | int | None, list[Any] | None]:
    """Features, their names, the task column inside X and the task labels of the rows."""
    column = estimator.task
    if tasks is not None and column is not None and _has_column(X, column):
        raise ValueError(f"task={column!r} names a column of X and tasks= was given too; give one or the other")
    if tasks is not None or column is None:
        validate_data(estimator, X=_shaped(estimator, X), skip_check_array=True, reset=reset)
        features, names = _numbers(estimator, X)
        return features, names, None, None if tasks is None else _task_values(tasks, len(features))
    frame = _frame(X)
    if frame is not None:
        columns = list(frame.columns)
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and column not in columns:
            column = columns[_position(column, len(columns))]
        if column not in columns:
            near = difflib.get_close_matches(str(column), [str(c) for c in columns], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"task={column!r} is not a column of X; columns are {list_labels(columns)}{hint}")
        values = frame[column].to_list()
        validate_data(estimator, X=X, skip_check_array=True, reset=reset)
        features, names = _numbers(estimator, frame.drop(column).to_native())
    else:
        if isinstance(column, str):
            raise ValueError(
                f"task={column!r} is a column name and X is an array without names; give the position of the task "
                "column, or a data frame"
            )
        array = np.asarray(X)
        if array.ndim != 2:
            raise ValueError(f"Expected 2D array, got {array.ndim}D array instead: X must be rows by columns")
        column = _position(column, array.shape[1])
        values = array[:, column].tolist()
        validate_data(estimator, X=array, skip_check_array=True, reset=reset)
        features, names = _numbers(estimator, np.delete(array, column, axis=1))
    return features, names, column, _task_values(values, len(features))


def _shaped(estimator: Any, X: Any) -> Any:
    """X, or the array it is (lists of lists have no shape)."""
    return X if hasattr(X, "shape") else np.asarray(X)


def _has_column(X: Any, column: Any) -> bool:
    frame = _frame(X)
    return column in frame.columns if frame is not None else not isinstance(column, str)


def _position(column: Any, width: int) -> int:
    if isinstance(column, bool) or not isinstance(column, (int, np.integer)) or not -width <= column < width:
        raise ValueError(f"task={column!r} is not a position among the {width} columns of X")
    return int(column) % width


def _frame(X: Any) -> Any:
    """X as a narwhals frame, or None where it is none."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _numbers(estimator: Any, X: Any) -> tuple[Array, tuple[str, ...] | None]:
    """A finite float matrix and its column names."""
    frame = _frame(X)
    names = None
    if frame is not None:
        names = tuple(str(c) for c in frame.columns)
        columns = [_column(frame[c].to_numpy(), c) for c in frame.columns]
        X = np.column_stack(columns) if columns else np.zeros((len(frame), 0))
    elif getattr(X, "dtype", None) == object and np.ndim(X) == 2:
        X = np.column_stack([_column(c, i) for i, c in enumerate(np.asarray(X).T)])
    features = check_array(X, dtype=np.float64, ensure_all_finite=False, estimator=estimator, input_name="X")
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        rows = list(dict.fromkeys(bad[:, 0].tolist()))
        which = sorted({names[j] if names else f"column {j}" for j in bad[:, 1].tolist()})
        raise ValueError(
            f"X holds NaN or infinity (inf) in {len(rows)} row(s): {_some(rows)}, in {', '.join(which[:6])}; drop or fill "
            "these rows first (NaN is allowed in y only)"
        )
    return features, names


def _column(values: Any, name: Any) -> Any:
    """One column as numbers; text is refused with the first row that holds it."""
    values = np.asarray(values)
    if values.dtype.kind in "biufc":
        return values
    for i, v in enumerate(values):
        if isinstance(v, str):
            try:
                float(v)
            except ValueError:
                raise ValueError(
                    f"column {name!r} of X holds text ({v!r} in row {i}) where numbers are expected; encode it as numbers, "
                    "drop it, or name it with task= if it says which task a row belongs to"
                ) from None
    if values.dtype.kind in "mM":
        raise ValueError(f"column {name!r} of X holds dates; turn them into numbers, for instance days since the first")
    return values


def _targets(y: Any) -> tuple[Array, tuple[Hashable, ...] | None]:
    """(n,) or (N, M) floats with NaN, and the names of the columns of a frame."""
    frame = _frame(y)
    names = tuple(frame.columns) if frame is not None else None
    array = np.column_stack([frame[c].to_numpy() for c in frame.columns]) if frame is not None else np.asarray(y)
    if array.dtype.kind in "OUS" and any(isinstance(v, str) for v in array.flat):
        row, value = next((i, v) for i, v in enumerate(array.reshape(len(array), -1).tolist()) if any_text(v))
        raise ValueError(
            f"y holds text ({next(v for v in value if isinstance(v, str))!r} in row {row}) where numbers are expected; "
            "for labels use a classifier"
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers")
    array = array.astype(np.float64)
    if np.isinf(array).any():
        rows = np.unique(np.argwhere(np.isinf(array))[:, 0]).tolist()
        raise ValueError(
            f"Input y contains infinity or a value too large for dtype('float64'). Rows: {_some(rows)}; "
            "use NaN for what was not observed"
        )
    if array.ndim == 2 and array.shape[1] > 1:
        return array, names
    return column_or_1d(array, warn=True), None


def any_text(row: list[Any]) -> bool:
    """Whether a row holds text."""
    return any(isinstance(v, str) for v in row)


def _per_row(values: Any, name: str, n: int, least: float | None) -> Array:
    """One positive number a row (a number stands for all rows; None for 1)."""
    if values is None:
        return np.ones(n)
    array = np.asarray(values, dtype=np.float64)
    array = np.full(n, float(array)) if array.ndim == 0 else array
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1D array or a number, got an array of {array.ndim} dimensions")
    if len(array) != n:
        raise ValueError(f"{name}.shape == {array.shape}, expected {(n,)}!")
    low = array < 0 if least is not None else array <= 0
    if not np.isfinite(array).all() or low.any():
        raise ValueError(f"{name} must be finite and {'not negative' if least is not None else 'positive'} in every row")
    return array


def _task_values(values: Any, n: int) -> list[Any]:
    """Labels of the rows, checked; a single label stands for all rows."""
    if isinstance(values, (str, int, float, np.generic)):
        return [values.item() if isinstance(values, np.generic) else values] * n
    series = nw.from_native(values, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        values = series.to_list()
    elif isinstance(values, np.ndarray):
        values = values.tolist()
    values = list(values)
    if len(values) != n:
        raise ValueError(f"there are {len(values)} task labels for {n} rows; give one a row")
    missing = [i for i, v in enumerate(values) if v is None or v != v]
    if missing:
        raise ValueError(f"the task is missing (NaN) in {len(missing)} row(s): {_some(missing)}; every row needs one")
    return values


def _stack_pairs(pairs: Any) -> tuple[Array, Array, list[Any]]:
    """A list of (X, y), or a dict of them by label, as one table."""
    items = list(pairs.items()) if isinstance(pairs, Mapping) else list(enumerate(pairs))
    widths = {label: np.shape(X)[1] for label, (X, _) in items}
    if len(set(widths.values())) > 1:
        raise ValueError(f"the tasks' X differ in their number of columns: {widths}; all tasks share one input space")
    lengths = [(label, len(X), len(y)) for label, (X, y) in items if len(X) != len(y)]
    if lengths:
        label, nx, ny = lengths[0]
        raise ValueError(f"task {label!r} has {nx} rows of X and {ny} of y")
    X = np.vstack([np.asarray(X, dtype=np.float64) for _, (X, _) in items])
    y = np.concatenate([np.asarray(y, dtype=np.float64).ravel() for _, (_, y) in items])
    return X, y, [label for label, (X, _) in items for _ in range(len(X))]


def _some(rows: list[int], most: int = 8) -> str:
    return ", ".join(map(str, rows[:most])) + (f", ... ({len(rows)} in all)" if len(rows) > most else "")
