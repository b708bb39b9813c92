"""Tables of every form, read and checked once, as rows; errors say what was expected, what came, what to do.

Forms: a frame (pandas, polars, Arrow) with a task column; an array with a task column by position; `tasks=` beside X;
`y` of shape (N, M) with NaN for what was not observed; a list of (X, y) pairs, or a dict of them by label. Rows are
counted from 0 in messages, as pandas, polars and NumPy count positions.

Models that live on the distinct inputs of all tasks read a `Pool`, dense or sparse (CSR, never made dense). A wide y is
the natural form there: every input once, one column per task, NaN where a task has no label. Inputs without any label
join the pool as well; they come after the labelled ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from borrow.data.cells import Codes, Rows
from borrow.data.content import content_order
from borrow.data.encode import Dates, needs_encoding
from borrow.data.labels import did_you_mean, encode, is_pairs, list_labels, nearest, sort_labels
from borrow.data.plain import TOO_LARGE, is_missing, name_some, to_floats
from borrow.data.scaling import WILD, column_scales, weighted_quartiles
from borrow.numerics import memory
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored
from borrow.numerics.warned import warn

#: Rows from which on a column of whole numbers that never repeat is named.
MANY_ROWS = 10
#: Numbers are between these in size, or zero: products of three of them neither overflow nor vanish.
SMALLEST, LARGEST = 1e-100, 1e100
#: A row counts at most so many times, and some row at least once in as many.
MOST_TIMES = 1e9


@stored("schema")
@dataclass(frozen=True)
class Schema:
    """What `fit` saw, for `predict` to be held to."""

    task: Any  # the task column inside X: its name in a frame, its position in an array, None without one
    position: int | None  # where that column stands
    names: tuple[Hashable, ...] | None  # columns of a frame without the task column
    n_features: int
    labels: tuple[Hashable, ...]  # of the tasks, in the order of their codes: by content, not by name
    wide: Codes | None = None  # the task of each column of a wide y
    classes: Any = None  # the classes in order, where y held labels
    others: tuple[Hashable, ...] = ()  # tasks of the table that the model is not of
    encoder: Any = None  # the `TableEncoder` that made numbers of the table; `names` are those that it gave

    @property
    def columns(self) -> list[Hashable]:
        """The columns of the frame that fit saw, in their order."""
        found = list(self.names or ())
        return found if self.position is None else [*found[: self.position], self.task, *found[self.position :]]

    @property
    def inputs(self) -> tuple[Hashable, ...] | None:
        """The input columns of a frame before they were encoded."""
        return self.names if self.encoder is None else self.encoder.inputs_

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        """The labels sorted, as they are shown."""
        return sort_labels(self.labels)

    def only(self, label: Hashable) -> Schema:
        """The same table for a model of one of its tasks."""
        encode([label], self.labels)
        others = self.others or tuple(v for v in self.labels if v != label)
        return replace(self, labels=(label,), wide=None, others=others)


def read_training(
    estimator: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    sample_weight: Any = None,
    replicates: Any = None,
    classes: bool = False,
) -> tuple[Rows, Schema]:
    """Everything `fit` was given, as rows; with `classes`, y holds labels, and targets are their codes."""
    inputs, rows, schema = read_table(estimator, X, y, tasks, sample_weight, replicates, classes)
    return replace(rows, X=inputs[rows.number]), schema


def read_table(
    estimator: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    sample_weight: Any = None,
    replicates: Any = None,
    classes: bool = False,
    pooled: bool = False,
) -> tuple[Any, Rows, Schema]:
    """The inputs as given, and one row per target; `number` says which input it belongs to, its own X is empty.

    Rows of weight zero are left out. With `pooled`, X may be sparse (CSR then), and an input that a wide y says nothing
    of is one row without a target, not one per task.
    """
    X, y, tasks = _unfold(estimator, X, y, tasks)
    inputs, values, schema = _split_task(estimator, X, tasks, estimator.task, True, pooled)
    name, n = type(estimator).__name__, inputs.shape[0]
    targets, heads, found = read_classes(y, name) if classes else (*read_targets(y), None)
    if len(targets) != n:
        raise ValueError(f"X has {n} rows and y has {len(targets)}; give one target per row")
    weight = _per_row(sample_weight, "sample_weight", n, zero=True)
    counts = _per_row(replicates, "replicates", n, zero=False)
    wide = targets.ndim == 2
    if wide:
        if values is not None:
            raise ValueError(
                f"y has {targets.shape[1]} columns, one per task, and X or tasks= names tasks too; give one or the "
                "other"
            )
        values = list(range(targets.shape[1]) if heads is None else heads)
    labels = (0,) if values is None else sort_labels(values)
    codes = np.zeros(n, dtype=np.intp) if values is None else encode(values, labels)  # of rows, or of columns of y
    table = targets if wide else targets[:, None]
    wanted = np.broadcast_to((weight > 0)[:, None], table.shape)
    if not np.isfinite(table[wanted]).any():
        why = "every y is NaN" if wanted.all() else "every row has a NaN y or a sample_weight of zero"
        raise ValueError(f"nothing to learn from in {n} rows: {why}; {name} needs at least one number in y")
    if np.isfinite(table[wanted]).sum() == 1:
        warn(f"{name} is fitted to a single row: its answers away from it are those of its priors; give more rows")
    stripped = Counter(label.strip() for label in labels if isinstance(label, str))
    if alike := [label for label in labels if isinstance(label, str) and stripped[label.strip()] > 1]:
        warn(f"the tasks {list_labels(alike)} differ in blanks alone and are taken for different ones; mend the labels")
    if pooled and wide:
        seen = np.isfinite(table)
        seen[~seen.any(axis=1), codes.argmin()] = True
        wanted = wanted & seen
    number, column = np.nonzero(wanted)
    task, y = codes[column if wide else number], table[number, column]
    rows = Rows(np.empty((len(number), 0)), task, labels, y, weight[number], counts[number], number)
    if not sparse.issparse(inputs):
        warn_wild_columns(schema.names or range(inputs.shape[1]), inputs)
    if schema.names is not None:
        warn_constant_columns(schema.names, inputs)
        warn_identifier_columns(dict(zip(schema.names, inputs.T, strict=True)), len(labels))
    size = inputs.nnz if sparse.issparse(inputs) else inputs.size
    memory.require(8.0 * 11 * size, f"reading {n:,} rows of {inputs.shape[1]:,} columns", "leave some of them out")
    order, columns = content_order(inputs, rows, classes)
    labels, moved = tuple(labels[t] for t in order), np.argsort(order)
    rows = replace(rows, task=moved[task], labels=labels, columns=columns)
    return inputs, rows, replace(schema, labels=labels, wide=moved[codes] if wide else None, classes=found)


def warn_constant_columns(names: Sequence[Hashable], X: Array) -> None:
    """Name each column that is the same in every row."""
    for j, name in enumerate(names):
        if len(X) > 2 and X[0, j] == X[-1, j] and np.ptp(X[:, j]) == 0.0:
            warn(f"column {name!r} is {X[0, j]:g} in every row, and says nothing")


def warn_wild_columns(names: Sequence[Hashable], X: Array) -> None:
    """Name each column of which a few numbers lie so far out that they would give its scale."""
    weight = np.ones(len(X))
    sd, used = X.std(axis=0), column_scales(X, weight)
    for j in np.flatnonzero(WILD * used < sd).tolist():
        low, high = weighted_quartiles(X[:, j], weight)
        far = np.flatnonzero(np.abs(X[:, j] - 0.5 * (low + high)) > WILD * (high - low))
        warn(
            f"column {names[j]!r} has numbers far out, such as {X[far[0], j]:g} in {name_some(far.tolist())}, where "
            f"half of it lies from {low:.3g} to {high:.3g}; its scale is that of this half: mend or drop these rows, "
            "or take the logarithm"
        )


def warn_equal_targets(rows: Rows) -> None:
    """Name the tasks of several rows whose targets are all equal, but for rounding."""
    seen = rows.take(np.isfinite(rows.y))
    low, high = np.full((2, len(rows.labels)), [[np.inf], [-np.inf]])
    np.minimum.at(low, seen.task, seen.y)
    np.maximum.at(high, seen.task, seen.y)
    several = np.bincount(seen.task, minlength=len(rows.labels)) > 1
    equal = several & (high - low <= 1e-10 * np.maximum(np.abs(low), np.abs(high)))
    if equal.any():
        named = list_labels(sort_labels(rows.labels[t] for t in np.flatnonzero(equal)), 4)
        warn(
            f"the targets of task {named} are all equal: only its level can be learnt, and its scale and noise are "
            "those of a typical task, or a guess where there is no other"
        )


def warn_identifier_columns(columns: Mapping[Any, Array], n_tasks: int) -> None:
    """Name each column of numbers that may only name the rows: whole numbers that never repeat.

    With one task that may as well be the day; with several, days come back. An encoded date is no name of a row.
    """
    for name, values in columns.items():
        whole = n_tasks > 1 and len(values) >= MANY_ROWS and not str(name).endswith(Dates.ending)
        whole = whole and bool(np.all(values == np.round(values)))
        if whole and len(np.unique(values)) == len(values):
            warn(
                f"column {name!r} has a different whole number in every row of {n_tasks} tasks; it is used: leave it "
                "out (features=, or --ignore) if it only names the rows"
            )


def read_new(
    estimator: Any,
    X: Any,
    schema: Schema,
    tasks: Any = None,
    default: int | None = None,
    accept_sparse: bool = False,
    population: bool = False,
) -> tuple[Any, Codes | None]:
    """Rows to predict for, with their task codes; None where a wide fit is asked for every task.

    `default` is the code to answer for when nothing names a task (the primary). With `population`, a task that fit
    never saw has the code -1 where the estimator's `unseen` allows it.
    """
    inputs, values = read_inputs(estimator, X, schema, tasks, accept_sparse)
    if values is not None:
        if left := [v for v in schema.others if v in values]:
            raise ValueError(
                f"task {list_labels(left)} was not fitted: this is a model of {schema.labels[0]!r} alone, without "
                "transfer; leave these rows out, or fit SingleTaskGPRegressor or SingleTaskGPClassifier to every task"
            )
        if population and estimator.unseen == "population":
            return inputs, _with_unseen(estimator, values, schema.labels)
        return inputs, encode(values, schema.labels)
    if len(schema.labels) == 1:
        default = 0
    elif schema.task is not None and as_frame(X) is None:
        default = None  # an array says nothing of its columns: a task column left out may be a mistake
    if default is not None:
        return inputs, np.full(inputs.shape[0], default, dtype=np.intp)
    if schema.wide is not None:
        return inputs, None
    put = "" if schema.task is None else f"put the task column {schema.task!r} into X, or "
    raise ValueError(
        f"fitted on {len(schema.labels)} tasks, and nothing says which task these rows belong to; {put}give "
        f"tasks=, one of {list_labels(schema.tasks)}, or one per row"
    )


def _with_unseen(estimator: Any, values: list[Any], labels: tuple[Hashable, ...]) -> Codes:
    """Codes of labels, -1 for tasks never seen, which a warning names with the nearest that were seen."""
    codes = {label: i for i, label in enumerate(labels)}
    if unknown := [v for v in dict.fromkeys(values) if v not in codes]:
        name = type(estimator).__name__
        if len(labels) == 1:
            raise ValueError(f"fit never saw the task {list_labels(unknown)}, and one task is no population")
        if not estimator.shares_tasks:
            raise ValueError(
                f"fit never saw the task {list_labels(unknown)}, and {name} learns every task by itself, so that it "
                "knows nothing of another; a method that borrows can answer"
            )
        near = {v: nearest(v, labels) for v in unknown[:6]}
        listed = ", ".join(repr(v) if n is None else f"{v!r} (not {n!r}?)" for v, n in near.items())
        more = f" and {len(unknown) - 6} more" if len(unknown) > 6 else ""
        warn(f"fit never saw the task {listed}{more}; the answer is that of the population of {len(labels)} tasks")
    return np.fromiter((codes.get(v, -1) for v in values), dtype=np.intp, count=len(values))


@dataclass(frozen=True)
class InputRows:
    """Rows that need no reading: numbers in the order of the columns that a model was fitted to, without the task."""

    values: Array


def read_inputs(
    estimator: Any, X: Any, schema: Schema, tasks: Any = None, accept_sparse: bool = False
) -> tuple[Any, list[Any] | None]:
    """The input columns of new rows, and what names their tasks; the task column may be in X or not."""
    if isinstance(X, InputRows):
        return X.values, task_values(tasks, len(X.values))
    X = _as_fitted(X, schema)
    frame = as_frame(X)
    if schema.task is None or not lacks_task(X, schema):
        if schema.task is not None and tasks is not None:
            raise ValueError(f"X has the task column {schema.task!r} and tasks= was given too; give one of them")
        column = schema.position if frame is None else schema.task
        return _split_task(estimator, X, tasks, column, False, accept_sparse)[:2]
    if frame is not None and schema.names is not None:
        if missing := [c for c in schema.names if c not in frame.columns]:
            raise ValueError(f"X lacks {list_labels(missing)}; fit saw the columns {list_labels(schema.names)}")
        if extra := [c for c in frame.columns if c not in schema.names]:
            raise ValueError(
                f"X has the column {list_labels(extra)}, which fit did not see, and no task column "
                f"{schema.task!r}{did_you_mean(schema.task, extra)}"
            )
    inputs = _numbers(estimator, X, accept_sparse)
    return inputs, None if tasks is None else task_values(tasks, inputs.shape[0])


def _as_fitted(X: Any, schema: Schema) -> Any:
    """A frame with the columns that fit saw: encoded, unless they are already, and in the order of fit.

    scikit-learn refuses a frame whose columns are in another order; here they are taken by their names.
    """
    frame = as_frame(X)
    if frame is None or schema.names is None:
        return X
    if schema.encoder is not None:
        columns = {c: frame.get_column(c) for c in frame.columns if c != schema.task}
        if {*columns} != {*schema.names} or needs_encoding(columns):  # a column may keep its name: 12 °C becomes 12
            X = schema.encoder.transform(X)
            frame = as_frame(X)
    known = [c for c in schema.columns if c in frame.columns]
    return columns_of(frame, known).to_native() if {*known} == {*frame.columns} else X


def columns_of(frame: Any, names: Iterable[Any]) -> Any:
    """Some columns of a frame in this order; a name may be a number or a tuple, as pandas has them."""
    places = {name: i for i, name in enumerate(frame.columns)}
    return frame[:, [places[name] for name in names]]


def lacks_task(X: Any, schema: Schema) -> bool:
    """Whether X comes without the task column that fit saw."""
    frame = as_frame(X)
    if frame is not None and schema.names is not None:
        return schema.task not in frame.columns
    shape = np.shape(X) if frame is None else frame.shape
    return len(shape) == 2 and shape[1] == schema.n_features


def _unfold(estimator: Any, X: Any, y: Any, tasks: Any) -> tuple[Any, Any, Any]:
    """X, y and tasks, also where X is a list or dict of (X, y) pairs, or a Dask frame."""
    if any(type(p).__module__.partition(".")[0] == "dask" and hasattr(p, "compute") for p in (X, y, tasks)):
        import dask

        X, y, tasks = dask.compute(X, y, tasks)
    if is_pairs(X):
        if y is not None or tasks is not None:
            raise ValueError("X is a list or dict of (X, y) pairs, one per task: leave out y= and tasks=")
        return _stack_pairs(X)
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None; give y, or "
            "a list or dict of (X, y) pairs, one per task"
        )
    return X, y, tasks


def _split_task(
    estimator: Any, X: Any, tasks: Any, column: Any, reset: bool, accept_sparse: bool
) -> tuple[Any, list[Any] | None, Schema]:
    """The inputs, the task labels of the rows from the column of X or from `tasks`, and where that column stood."""
    frame = as_frame(X)
    if frame is None:
        X = _array(X)
        if not reset and np.ndim(X) == 2:
            validate_data(estimator, X=X, skip_check_array=True, reset=False)  # the number of columns first
    if tasks is not None and column is not None and (frame is None or column in frame.columns):
        raise ValueError(f"task={column!r} names a column of X and tasks= was given too; give one of them")
    position, names, values, without = None, None, tasks, X
    if tasks is not None or column is None:
        column, names = None, None if frame is None else tuple(frame.columns)
    elif frame is not None:
        position = _position(column, len(frame.columns), list(frame.columns))
        column = frame.columns[position]
        values, rest = frame.get_column(column).to_list(), frame.drop(column)
        names, without = tuple(rest.columns), rest.to_native()
    elif sparse.issparse(X):
        raise ValueError(f"task={column!r} names a column of X and X is sparse; give tasks= beside it instead")
    elif isinstance(column, str):
        raise ValueError(
            f"task={column!r} is a column name and X is an array, which has none; give the position of "
            "the task column (task=0 is the first), or a data frame"
        )
    elif X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X must be rows by columns")
    else:
        column = position = _position(column, X.shape[1], None)
        values, without = X[:, column].tolist(), np.delete(X, column, axis=1)
    if position is not None and without.shape[1] == 0:
        raise ValueError(f"X has no column beside the task column {column!r}; give at least one input column")
    inputs = _numbers(estimator, without, accept_sparse, position, SMALLEST if reset else 0.0)
    validate_data(estimator, X=X, skip_check_array=True, reset=reset)
    labels = None if values is None else task_values(values, inputs.shape[0])
    return inputs, labels, Schema(column, position, names, inputs.shape[1], ())


def _position(column: Any, width: int, names: list[Any] | None) -> int:
    """Where the task column stands; a whole number that names no column of a frame is a position."""
    number = isinstance(column, (int, np.integer))
    if names is not None and column in names:
        return names.index(column)
    if names is not None and not number:
        hint = did_you_mean(column, names)
        raise ValueError(f"task={column!r} is not a column of X; columns are {list_labels(names)}{hint}")
    if isinstance(column, bool) or not number or not -width <= column < width:
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
    if hasattr(X, "toarray"):
        return X
    if hasattr(X, "dtype"):
        return _unmasked(X)
    if isinstance(X, Mapping):
        raise ValueError("X is a dict; expected a data frame, an array, or a dict of (X, y) pairs by task")
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError("the rows of X differ in their length; expected a table, rows by columns") from None
    if array.ndim == 0 and array.dtype.kind == "O":
        raise ValueError(f"Expected 2D array: X is {type(X).__name__}; give a table, rows by columns")
    return np.array(X, dtype=object) if array.dtype.kind in "US" else array


def _unmasked(values: Any) -> Any:
    """The values with None where a masked array hides an entry, which is one that was not observed."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    out = values.data.astype(object)
    out[np.ma.getmaskarray(values)] = None
    return out


def _numbers(
    estimator: Any, X: Any, accept_sparse: bool = False, skipped: int | None = None, least: float = 0.0
) -> Any:
    """A finite float matrix. `skipped` is the column that was taken out before, for counting in messages.

    `least` is what the largest number of a column must reach, if it is not zero.
    """
    if sparse.issparse(X):
        taken = "csr" if accept_sparse else False
        X = check_array(X, accept_sparse=taken, dtype=np.float64, estimator=estimator, input_name="X")
        refuse_sizes(X.data[:, None], ["X"], least)
        return X
    frame, names = as_frame(X), []
    if frame is not None:
        names = [repr(c) for c in frame.columns]
        X = _float_columns([frame.get_column(c).to_numpy() for c in frame.columns], names, "X", len(frame))
    elif np.ndim(X) == 2:
        names = [str(j + (skipped is not None and j >= skipped)) for j in range(np.shape(X)[1])]
        if getattr(X, "dtype", np.dtype(float)).kind in "OUSmMc":
            X = _float_columns(np.asarray(X).T, names, "X", len(X))
    inputs = check_array(X, dtype=np.float64, ensure_all_finite=False, estimator=estimator, input_name="X")
    if len(bad := np.argwhere(~np.isfinite(inputs))):
        rows = np.unique(bad[:, 0]).tolist()
        which = [names[j] for j in np.unique(bad[:, 1])]
        raise ValueError(
            f"X holds NaN or infinity (inf) in {name_some(rows)}, column {', '.join(which[:6])}; drop or fill "
            "these rows first (borrow.TableEncoder does; NaN is allowed in y only, for rows that were not observed)"
        )
    refuse_sizes(inputs, [f"column {name} of X" for name in names], least)
    return inputs


def refuse_sizes(table: Array, names: Sequence[str], least: float = 0.0) -> None:
    """Refuse columns with numbers whose products overflow, and those whose largest is below `least`, if not zero."""
    size = np.where(np.isfinite(table), np.abs(table), 0.0)
    largest = size.max(axis=0, initial=0.0)
    for j in np.flatnonzero(largest > LARGEST)[:1]:
        rows = np.flatnonzero(size[:, j] > LARGEST).tolist()
        raise ValueError(f"{names[j]} holds {largest[j]:.3g}, {TOO_LARGE}, in {name_some(rows)}; choose other units")
    for j in np.flatnonzero((largest > 0.0) & (largest < least))[:1]:
        raise ValueError(
            f"{names[j]} holds no number larger than {largest[j]:.3g}, too small to be computed with; choose other "
            "units"
        )


def _float_columns(columns: Any, names: list[str], table: str, n: int) -> Array:
    """Columns of any kind as one matrix of floats."""
    parts = [to_floats(c, f"column {name} of {table}") for c, name in zip(columns, names, strict=True)]
    return np.column_stack(parts) if parts else np.zeros((n, 0))


def read_targets(y: Any) -> tuple[Array, tuple[Hashable, ...] | None]:
    """Floats of shape (n,) or (N, M) with NaN, and the names of the columns of a wide frame."""
    frame = as_frame(y)
    if frame is not None:
        names = [repr(c) for c in frame.columns]
        array = _float_columns([frame.get_column(c).to_numpy() for c in frame.columns], names, "y", len(frame))
    else:
        array = np.asarray(_unmasked(y))
        if array.ndim == 2 and array.shape[1] > 1:
            array = _float_columns(array.T, [str(j) for j in range(array.shape[1])], "y", len(array))
        else:
            array = to_floats(array.ravel(), "y").reshape(array.shape)
    if np.isinf(array).any():
        rows = np.unique(np.argwhere(np.isinf(array))[:, 0]).tolist()
        raise ValueError(
            f"Input y contains infinity or a value too large for dtype('float64') in {name_some(rows)}; use NaN "
            "for what was not observed"
        )
    refuse_sizes(array.reshape(-1, 1), ["y"], SMALLEST)
    if array.ndim == 2 and array.shape[1] > 1:
        return array, None if frame is None else tuple(frame.columns)
    return column_or_1d(array, warn=True), None


def read_classes(y: Any, name: str) -> tuple[Array, tuple[Hashable, ...] | None, Any]:
    """Codes of class labels of any kind, NaN where there is none; names of the columns of a wide frame; the classes.

    The columns of a wide y share their classes. `name` is that of the estimator, for messages.
    """
    frame = nw.from_native(y, eager_only=True, allow_series=True, pass_through=True)
    values = np.asarray(frame.to_numpy() if isinstance(frame, (nw.DataFrame, nw.Series)) else _unmasked(y))
    if values.dtype.kind in "US" and isinstance(y, (list, tuple)):
        values = np.asarray(y, dtype=object)  # NumPy makes text of all entries of a list that holds some
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers")
    wide = values.ndim == 2 and values.shape[1] > 1
    values = values if wide else column_or_1d(values, warn=True)
    missing = np.array([v is None or v != v for v in values.ravel().tolist()], dtype=bool).reshape(values.shape)
    seen = values[~missing]
    if seen.size == 0:
        raise ValueError(f"every label in y is missing; {name} needs at least one")
    if seen.dtype.kind == "f" and np.isinf(seen).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64'); use NaN for no label")
    if seen.dtype.kind == "f":
        seen = seen.astype(int) if np.all(seen == np.round(seen)) and missing.any() else seen
    elif seen.dtype.kind == "O" and len({type(v) for v in seen.tolist()}) == 1:
        seen = np.array(seen.tolist())
    elif seen.dtype.kind == "O":
        first = next(v for v in seen.tolist() if type(v) is not type(seen[0]))
        raise ValueError(f"y holds labels of several kinds ({seen[0]!r}, {first!r}); give numbers or texts alone")
    if seen.dtype.kind in "Oc" or seen.ndim > 1:  # numbers of hundreds of digits, pairs
        largest = f"{max(map(str, seen.tolist()), key=len):.40}"
        raise ValueError(f"y holds the label {largest}; a class label is text, a whole number or a truth value")
    check_classification_targets(seen)
    classes, found = np.unique(seen, return_inverse=True)
    codes = np.full(values.shape, np.nan)
    codes[~missing] = found if len(classes) > 1 else 1.0  # one class only: it is the positive one, and the answer
    return codes, tuple(frame.columns) if wide and isinstance(frame, nw.DataFrame) else None, classes


def _per_row(values: Any, name: str, n: int, zero: bool) -> Array:
    """One positive number per row (a number stands for all rows; None for 1)."""
    if values is None:
        return np.ones(n)
    array = np.asarray(_unmasked(values))
    array = to_floats(array.ravel(), name).reshape(array.shape)
    array = np.full(n, float(array)) if array.ndim == 0 else array
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1D array or a number, got an array of {array.ndim} dimensions")
    if len(array) != n:
        raise ValueError(f"{name}.shape == {array.shape}, expected {(n,)}! Give one per row, or one number for all")
    bad = ~(array <= MOST_TIMES) | ((array < SMALLEST) & (array != 0 if zero else True))
    if bad.any():
        rows = np.flatnonzero(bad).tolist()
        kind = "finite and not negative" if zero else "finite and positive"
        most = f", from {SMALLEST:g} to {MOST_TIMES:g}" if np.isfinite(array[rows[0]]) and array[rows[0]] > 0 else ""
        raise ValueError(f"{name} must be {kind}{most}; it is {array[rows[0]]:g} in {name_some(rows)}")
    refuse_sizes(array[:, None], [name], 1.0 / MOST_TIMES)
    return array


def task_values(values: Any, n: int, what: str = "task") -> list[Any]:
    """Labels of the rows, checked; a single label stands for all rows. `what` they name is said in messages."""
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
        raise ValueError(f"there are {len(values)} {what} labels for {n} rows; give one per row, or one for all")
    doubtful = {*map(type, values)} - {int, str}
    if doubtful and (missing := [i for i, v in enumerate(values) if is_missing(v)]):
        raise ValueError(
            f"the {what} is missing (NaN) in {name_some(missing)}; every row needs one: name it, or drop these rows"
        )
    if doubtful and (odd := [i for i, v in enumerate(values) if not isinstance(v, Hashable)]):
        raise ValueError(
            f"the {what} of row {odd[0]} is {values[odd[0]]!r}; a {what} label is text, a number, or another single "
            "value"
        )
    return values


def _stack_pairs(pairs: Any) -> tuple[Any, Array, list[Any]]:
    """A list of (X, y), or a dict of them by label, as one table."""
    items = pairs.items() if isinstance(pairs, Mapping) else enumerate(pairs)
    labels, tables, targets = zip(*((label, X, y) for label, (X, y) in items), strict=True)
    for label, X, y in zip(labels, tables, targets, strict=True):
        if np.ndim(X) != 2:
            raise ValueError(f"X of task {label!r} has {np.ndim(X)} dimension(s); expected a table, rows by columns")
        if np.shape(X)[0] != len(y):
            raise ValueError(f"task {label!r} has {np.shape(X)[0]} rows of X and {len(y)} of y; give one y per row")
    widths = {label: np.shape(X)[1] for label, X in zip(labels, tables, strict=True)}
    if len(set(widths.values())) > 1:
        raise ValueError(f"X of the tasks differ in their number of columns: {widths}; all tasks share one input space")
    frames = [as_frame(X) for X in tables]
    if all(f is not None for f in frames):
        columns = frames[0].columns
        for label, f in zip(labels, frames, strict=True):
            if set(f.columns) != set(columns):
                raise ValueError(
                    f"X of task {label!r} has the columns {f.columns}, that of {labels[0]!r} {columns}; "
                    "all tasks share one input space"
                )
        table = nw.concat([columns_of(f, columns) for f in frames]).to_native()
    elif all(sparse.issparse(X) for X in tables):
        table = sparse.vstack(tables, format="csr")
    else:
        table = np.vstack([_array(X) for X in tables])
    tasks = [label for label, y in zip(labels, targets, strict=True) for _ in range(len(y))]
    return table, np.concatenate([np.ravel(y) for y in targets]), tasks


@dataclass(frozen=True)
class Pool:
    """Distinct inputs, and rows whose only input column is the position among them."""

    X: Any  # (n, d), dense or CSR; inputs that some task labels come first
    n_labelled: int
    rows: Rows
    column_scales: Array


def pool_of(X: Any, rows: Rows) -> Pool:
    """Inputs and rows that `read_table` read with `pooled`, as a pool."""
    kept, number = np.unique(rows.number, return_inverse=True)
    distinct, code = _distinct(X[kept], rows.columns)
    code = code[number]
    labelled = np.zeros(distinct.shape[0], dtype=bool)
    labelled[code[np.isfinite(rows.y)]] = True
    order = np.argsort(~labelled, kind="stable")
    place = np.argsort(order)
    distinct, n = distinct[order], int(labelled.sum())
    seen = distinct[:n]
    if sparse.issparse(seen):  # one scale for all columns, so that their squares add up to a row's mean square
        size = max(float(seen.multiply(seen).sum()) / n, 1e-300)
        scales = np.full(seen.shape[1], np.sqrt(size / seen.shape[1]))
    else:
        scales = column_scales(seen, np.ones(n))
    return Pool(distinct, n, replace(rows, X=place[code][:, None].astype(np.float64), columns=None), scales)


def _distinct(X: Any, columns: Any) -> tuple[Any, Codes]:
    """Distinct rows in an order that does not depend on that of the rows, and which of them each row is."""
    back, X = np.argsort(columns), X[:, columns]
    if not sparse.issparse(X):
        values, code = np.unique(X + 0.0, axis=0, return_inverse=True)  # + 0: minus zero is zero
        return values[:, back], code.ravel()
    X.sum_duplicates()
    X.eliminate_zeros()
    keys = [X.indices[i:j].tobytes() + X.data[i:j].tobytes() for i, j in pairwise(X.indptr)]
    places = {key: i for i, key in reversed(list(enumerate(keys)))}
    order = {key: i for i, key in enumerate(sorted(places))}
    return X[[places[key] for key in order]][:, back], np.array([order[key] for key in keys], dtype=np.intp)
