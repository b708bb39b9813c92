"""A table as a question: which column is the target, which names the task, and what the rows hold.

A table is read once into a `Problem`; what is read here is what is compared, counted, digested, fitted and reported.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.base import clone

from borrow.data.cells import Codes
from borrow.data.encode import is_number, needs_encoding, read_days
from borrow.data.encoder import TableEncoder
from borrow.data.labels import did_you_mean, list_labels, sort_labels
from borrow.data.plain import is_missing, name_some, to_floats, to_json
from borrow.data.read import (
    SMALLEST,
    as_frame,
    columns_of,
    read_training,
    refuse_sizes,
    task_values,
    warn_constant_columns,
    warn_identifier_columns,
)
from borrow.data.written import units_of
from borrow.estimators.base import with_encoder
from borrow.estimators.settings import expect
from borrow.numerics.linalg import Array
from borrow.numerics.warned import warn
from borrow.transfer.methods import build

KINDS = ("regression", "classification")
#: So many whole numbers in a row may be classes.
MOST_CLASSES = 5
#: Names of the columns that a wide table gets: the targets, and which of its columns they come from.
VALUE, TASK = "value", "target"


class Fits(dict[tuple[Any, ...], tuple[Any, list[warnings.WarningMessage]]]):
    """Estimators fitted to all rows, each fitted once in this process: what is copied, sent or stored is empty."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Fits, ()

    def fitted_once(self, key: tuple[Any, ...], fit: Callable[[], Any]) -> Any:
        """What `fit` returned when this key was first asked for; what it warned of then is told each time."""
        said: list[warnings.WarningMessage] = []
        try:
            if key not in self:
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    self[key] = fit(), said
            model, said = self[key]
            return model
        finally:  # of a fit that failed, too
            for warning in said:
                warn(str(warning.message), warning.category)


@dataclass(frozen=True)
class Problem:
    """Rows of all tasks. `y` holds floats with NaN, or class labels with None, where a row has no target.

    `frame` is the inputs and the task column as they were, where they were a data frame, so that a model fitted to all
    rows knows its columns by their names. Where the table held text, dates or gaps, `encoder` made numbers of it:
    features and X are what it gave, and a model fitted to all rows takes rows as they were before it.
    """

    kind: str
    target: str
    task: str
    features: tuple[str, ...]
    X: Array
    y: Any
    tasks: tuple[Any, ...]  # label of every row
    labels: tuple[Hashable, ...]  # distinct, sorted
    classes: tuple[Any, ...] = ()
    frame: Any = field(default=None, repr=False, compare=False)
    encoder: Any = field(default=None, repr=False, compare=False)
    groups: tuple[Any, ...] | None = None  # of every row: what is measured together, and held out together
    times: tuple[float, ...] | None = None  # of every row, as numbers
    group: str | None = None  # the columns that these were
    time: str | None = None
    wanted: Array | None = field(default=None, repr=False, compare=False)  # inputs that will be asked for
    more: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)  # estimators of the user's own
    fits: Fits | None = field(default=None, repr=False, compare=False)  # to these rows; None keeps none

    @property
    def columns(self) -> tuple[str, ...]:
        """The input columns of the table, before they were encoded."""
        return self.features if self.encoder is None else tuple(map(str, self.encoder.inputs_))

    @property
    def seen(self) -> Any:
        """Rows that have a target."""
        return np.isfinite(self.y) if self.kind == "regression" else np.array([v is not None for v in self.y])

    def all_of(self, label: Any) -> Any:
        """Which rows are of a task, as a mask."""
        return np.array([t == label for t in self.tasks])

    def rows_of(self, label: Any) -> Codes:
        """Positions of the rows of a task that have a target."""
        return np.flatnonzero(self.all_of(label) & self.seen)

    def counts(self) -> dict[Any, int]:
        """How many rows of each task have a target."""
        found = Counter(t for t, s in zip(self.tasks, self.seen, strict=True) if s)
        return {label: found[label] for label in self.labels}

    def take(self, rows: Any) -> Problem:
        """Some of the rows; labels that no row has any more are dropped."""
        some: dict[str, Any] = {
            name: None if (own := getattr(self, name)) is None else tuple(own[i] for i in rows)
            for name in ("tasks", "groups", "times")
        }
        some |= {"X": self.X[rows], "y": self.y[rows], "labels": sort_labels(some["tasks"])}
        return replace(self, **some, frame=None, fits=None)

    def fit(self, key: str, primary: Any, seed: int = 0, alone: bool = True) -> Any:
        """A method fitted to all rows; in folds no transfer fits the primary alone, else (`alone=False`) every task.

        Where there is a frame it takes rows as they were, also where it was fitted to their numbers already.
        """
        model = self.build(key, primary, seed, alone=alone, own=self.more)
        if self.fits is None:
            return self.fitted(model)
        found = self.fits.fitted_once((key, primary, getattr(model, "only", None)), lambda: self.fitted(model))
        return found if found.task == model.task else self._named(model, found.fitted_)

    def build(self, key: str, primary: Any, seed: int, **settings: Any) -> Any:
        """What `methods.build` makes, for the frame where there is one."""
        return build(self.kind, key, None if self.frame is None else self.task, primary, seed, **settings)

    def fitted(self, model: Any) -> Any:
        """An estimator fitted to all rows; where there is a frame, it takes rows as they were."""
        if self.frame is None:
            return model.fit(self.X, self.y, tasks=list(self.tasks))
        return with_encoder(model.fit(self._encoded, self.y), self.encoder)

    @property
    def _encoded(self) -> Any:
        """The frame in numbers."""
        return self.frame if self.encoder is None else self.encoder.transform(self.frame)

    def _named(self, model: Any, fitted: Any) -> Any:
        """The estimator with what a fit to the numbers of the frame found, and the names of the frame's columns."""
        reader = clone(model)
        _, schema = read_training(reader, self._encoded, self.y, classes=self.kind == "classification")
        read = {name: value for name, value in vars(reader).items() if name.endswith("_in_")}
        model.fitted_ = replace(fitted, schema=schema, attributes={**read, **fitted.attributes, **read})
        return with_encoder(model, self.encoder)

    def elsewhere(self, primary: Any, most: int) -> Array:
        """Inputs where the primary was not measured: those wanted, or those of other tasks within its range."""
        X = self.wanted
        if X is None:
            own = self.X[self.rows_of(primary)]
            inside = np.all((own.min(axis=0) <= self.X) & (own.max(axis=0) >= self.X), axis=1)
            X = self.X[inside & self.seen & self._new_to(primary)]
        return thinned(X, most)

    def candidates(self, primary: Any, most: int) -> tuple[Codes, list[Any]]:
        """Rows that could be measured next, and as what task each.

        These are the rows without a target; where there is none, the primary at the inputs of other tasks.
        """
        if len(at := thinned(np.flatnonzero(~self.seen), most)):
            return at, [self.tasks[i] for i in at]
        first = {self.X[i].tobytes(): i for i in np.flatnonzero(self._new_to(primary))[::-1]}  # one row of each input
        at = thinned(np.sort(np.array([*first.values()], dtype=np.intp)), most)
        return at, [primary] * len(at)

    def _new_to(self, primary: Any) -> Any:
        """Which rows stand where the primary was not measured."""
        known = {x.tobytes() for x in self.X[self.rows_of(primary)] + 0.0}
        return np.array([x.tobytes() not in known for x in self.X + 0.0])

    def digest(self) -> str:
        """SHA-256 of everything that was read."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        page = [self.kind, self.target, self.task, list(self.features), list(self.tasks), list(self.classes)]
        total = hashlib.sha256(json.dumps(page, sort_keys=True).encode())
        total.update(np.ascontiguousarray(self.X, dtype="<f8").tobytes())
        total.update(json.dumps(to_json(self.y)).encode())
        if self.groups is not None or self.times is not None:
            total.update(json.dumps([self.groups, self.times]).encode())
        return total.hexdigest()


def read_problem(
    table: Any,
    target: str | None = None,
    task: str | None = None,
    features: Any = None,
    kind: str = "auto",
    encoder: Any = None,
    targets: Sequence[str] | None = None,
    group: str | None = None,
    time: str | None = None,
) -> Problem:
    """A frame, or a dict of columns, as a problem; one that was read before is returned as it is.

    Text, dates and gaps are encoded: by the fitted `encoder`, or by one that is fitted here where it is needed. A table
    with one column of `targets` per task is read as one row per input and task.
    `group` and `time` name columns that say what belongs together and what came when. They are inputs only where
    `features` names them.
    """
    if isinstance(table, Problem):
        return table
    frame, columns = _columns(table)
    if targets is not None:
        if target is not None or task is not None:
            raise ValueError("targets has a column per task; leave out target and task")
        target, task = VALUE, TASK
        frame, columns = _long(frame, columns, list(targets), features, [c for c in (group, time) if c is not None])
    if target is None or task is None:
        raise ValueError("give target= and task=, or targets= where every task has a column of its own")
    _require([target], "target", columns)
    _require([task], "task", columns)
    if target == task:
        raise ValueError(f"target and task are both {target!r}; they are two columns")
    for name, role in ((group, "group"), (time, "time")):
        if name is not None:
            _require([name], role, columns)
            if name in (target, task):
                hint = "; unseen='population' holds out whole tasks" if (name, role) == (task, "group") else ""
                raise ValueError(f"{role}={name!r} is the {'target' if name == target else 'task'} column{hint}")
    names = [c for c in columns if c not in (target, task, group, time)] if features is None else features
    names = [names] if isinstance(names, str) else list(names)
    _require(names, "features", columns)
    for name in names:
        if name in (target, task):
            raise ValueError(f"features names {name!r}, which is the {'target' if name == target else 'task'} column")
    if not names:
        aside = list(dict.fromkeys(c for c in (group, time) if c is not None))
        hint = f"; features= can name {list_labels(aside)} too" if aside else ""
        beside = " and ".join(map(repr, [target, task, *aside]))
        raise ValueError(f"there is no input column beside {beside}; a model needs at least one{hint}")
    n = len(columns[target])
    if n == 0:
        raise ValueError("the table has no rows")
    values = _labels(columns, task, n, "task")
    labels = tuple(json_label(v) for v in values)
    inputs = {c: columns[c] for c in names}
    if encoder is None and needs_encoding(inputs):
        encoder = TableEncoder(task).fit({**inputs, task: columns[task]})
    inputs = inputs if encoder is None else encoder.transform(inputs)
    X = np.column_stack([_numbers(values, c) for c, values in inputs.items()])
    if encoder is None:
        warn_identifier_columns(dict(zip(inputs, X.T, strict=True)), len(set(labels)))
    warn_constant_columns(list(inputs), X)
    kind, y, classes = read_target(columns[target], target, kind)
    kept = frame is not None and list(labels) == values
    own = columns_of(frame, [*names, task]).to_native() if kept else None
    return Problem(
        kind=kind,
        target=target,
        task=task,
        features=tuple(map(str, inputs)),
        X=X,
        y=y,
        tasks=labels,
        labels=sort_labels(labels),
        classes=classes,
        frame=own,
        encoder=encoder,
        groups=None if group is None else tuple(json_label(v) for v in _labels(columns, group, n, "group")),
        times=None if time is None else read_times(columns[time], time),
        group=group,
        time=time,
    )


def thinned(values: Any, most: int) -> Any:
    """So many of the values at the most, spread evenly."""
    return values[np.linspace(0, len(values) - 1, min(len(values), most)).astype(np.intp)]


def _labels(columns: Mapping[str, Any], name: str, n: int, what: str) -> list[Any]:
    """The labels of the rows in a column, which is named where one is missing."""
    try:
        return task_values(columns[name], n, what)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def read_times(values: Any, name: str) -> tuple[float, ...]:
    """Numbers as they are, dates and times as days; text is read as dates."""
    column = values.to_list() if hasattr(values, "to_list") else list(values)
    if len(bad := [i for i, v in enumerate(column) if is_missing(v)]):
        raise ValueError(f"column {name!r} has no time in {name_some(bad)}; leave these rows out")
    if all(isinstance(v, (int, float, np.number)) or (isinstance(v, str) and is_number(v)) for v in column):
        return tuple(float(v) for v in column)
    try:
        return tuple(read_days(values, name).tolist())
    except ValueError as error:
        raise ValueError(f"column {name!r} holds neither numbers nor dates such as 2026-01-31: {error}") from None


def read_target(values: Any, name: str, kind: str) -> tuple[str, Any, tuple[Any, ...]]:
    """What kind of target it is, its values, and its classes."""
    expect(kind in ("auto", *KINDS), "kind", kind, "'auto', 'regression' or 'classification'")
    if not isinstance(values, (list, tuple)):  # which as an array would make text of numbers that stand beside text
        values = values.to_list() if hasattr(values, "to_list") else np.asarray(values).tolist()
    complex_ = (complex, np.complexfloating)  # which no target may be, and text must not hide
    entries: list[Any] = [None if is_missing(v) else v if isinstance(v, complex_) else json_label(v) for v in values]
    present = [v for v in entries if v is not None]
    if not present:
        raise ValueError(f"every value of the target {name!r} is missing; there is nothing to learn from")
    if kind == "regression" or (kind == "auto" and len(set(present)) > MOST_CLASSES):
        entries = _without_units(entries, name)
        present = [v for v in entries if v is not None]
    if kind == "auto":
        kind = _kind_of(present)
        if kind == "regression" and like_classes(present):
            warn(f"the target {name!r} is taken for numbers; kind='classification' if these whole numbers are labels")
    if kind == "regression":
        y = to_floats(np.array(entries, dtype=object), f"the target {name!r}")
        if np.isinf(y).any():
            raise ValueError(f"the target {name!r} is infinite in {name_some(np.flatnonzero(np.isinf(y)).tolist())}")
        refuse_sizes(y[:, None], [f"the target {name!r}"], SMALLEST)
        return kind, y, ()
    if all(isinstance(v, float) and v.is_integer() for v in present):  # whole numbers that a frame made floats of
        entries = [None if v is None else int(v) for v in entries]
    classes = sort_labels(v for v in entries if v is not None)
    if len(classes) < 2:
        raise ValueError(f"the target {name!r} has one class only, {classes[0]!r}; there is nothing to tell apart")
    if len(classes) > max(2, len(present) // 2):
        raise ValueError(
            f"the target {name!r} has {len(classes)} different values in {len(present)} rows, too many for classes; "
            "is it the right column? For numbers give kind='regression'"
        )
    return kind, np.array(entries, dtype=object), classes


def _without_units(entries: list[Any], name: str) -> list[Any]:
    """Numbers that are written with a unit (56.2 %, 12 kg) as numbers, as those of inputs are; others as they are."""
    texts = [v.strip() for v in entries if isinstance(v, str)]
    units = units_of(name, texts) if len(texts) == sum(v is not None for v in entries) else None
    if units is None:
        return entries
    warn(f"the target {name!r} is read as numbers with {units}")
    return [None if v is None else units.read(v.strip()) for v in entries]


def like_classes(present: Sequence[Any]) -> str:
    """Words for a target of few whole numbers that may be labels, such as 1, 2 and 3; nothing where it is none."""
    values = set(present)
    whole = all(isinstance(v, (int, float)) and not isinstance(v, bool) and v == v // 1 for v in values)
    if not whole or not 3 <= len(values) <= MOST_CLASSES or len(present) < 5 * len(values):
        return ""
    low, high = int(min(values)), int(max(values))
    return f"a target of the whole numbers {low} to {high}" if low in (0, 1) and high - low == len(values) - 1 else ""


def _kind_of(present: Sequence[Any]) -> str:
    """Text, truth values and two whole numbers are labels; text that is mostly numbers is a slip, told later."""
    text = [v for v in present if isinstance(v, str)]
    if text:
        numeric = sum(is_number(v.replace(",", ".")) for v in text) + len(present) - len(text)
        return KINDS[numeric <= len(present) / 2]
    whole = all(isinstance(v, (bool, int)) or (isinstance(v, float) and v.is_integer()) for v in present)
    few = len(set(present)) == 2 < len(present)  # of two rows nothing says what they are
    return KINDS[1] if all(isinstance(v, bool) for v in present) or (whole and few) else KINDS[0]


def json_label(value: Any) -> Any:
    """A label that JSON keeps: text, number or truth value; anything else as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _columns(table: Any) -> tuple[Any, dict[str, Any]]:
    """The table as a frame, where it is one, and its columns by name."""
    if isinstance(table, Mapping):
        lengths = {str(name): len(values) for name, values in table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of the table differ in length: {lengths}")
        return None, dict(table)
    frame = as_frame(table)
    if frame is None:
        raise ValueError(
            f"table is {type(table).__name__}; expected a data frame (pandas, polars, Arrow) or a dict of columns"
        )
    return frame, {c: frame.get_column(c) for c in frame.columns}


def _long(
    frame: Any, columns: Mapping[str, Any], targets: list[str], features: Any, aside: list[str]
) -> tuple[Any, dict[str, Any]]:
    """One row per input and task of a table that has one column of targets per task; columns `aside` are kept."""
    _require(targets, "targets", columns)
    different = len(set(targets)) >= max(len(targets), 2)
    expect(different, "targets", targets, "at least two different columns, one per task")
    names = [c for c in columns if c not in targets] if features is None else features
    names = [names] if isinstance(names, str) else list(names)
    _require(names, "features", columns)
    names = list(dict.fromkeys([*names, *(c for c in aside if c in columns and c not in targets)]))
    if clash := [n for n in names if n in (VALUE, TASK, *targets)]:
        raise ValueError(f"the input column {clash[0]!r} has the name of a target or of a column made here; rename it")
    if frame is not None:
        if all(columns[c].dtype.is_numeric() for c in targets):
            frame = frame.with_columns(nw.col(c).cast(nw.Float64) for c in targets)
        long = frame.unpivot(on=targets, index=names, variable_name=TASK, value_name=VALUE)
        return long, {c: long.get_column(c) for c in long.columns}
    return None, {
        **{c: [v for _ in targets for v in columns[c]] for c in names},
        TASK: [c for c in targets for _ in columns[c]],
        VALUE: [v for c in targets for v in columns[c]],
    }


def _require(names: Sequence[Any], role: str, columns: Mapping[str, Any]) -> None:
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise ValueError(f"{role}={name!r} is not a column; columns are {list_labels(list(columns))}{hint}")


def _numbers(values: Any, name: str) -> Array:
    values = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    try:
        column = to_floats(values, f"column {name!r}")
    except ValueError as error:
        text = str(error).split(";")[0]
        raise ValueError(f"{text}; encode it as numbers, or leave it out with features=") from None
    if len(bad := np.flatnonzero(~np.isfinite(column))):
        raise ValueError(
            f"column {name!r} has no number in {name_some(bad.tolist())}; drop or fill these rows, or leave the column "
            "out with features= (only the target may be missing)"
        )
    refuse_sizes(column[:, None], [f"column {name!r}"], SMALLEST)
    return column
