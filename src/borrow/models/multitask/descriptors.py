"""Features of tasks, from which K^f is made: given by label, or in columns of X that say which task a row is of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from borrow.data.labels import list_labels, places_of
from borrow.models.multitask.settings import short
from borrow.numerics.linalg import Array


def descriptor_columns(task_features: Any) -> list[Any] | None:
    """Names or positions where `task_features` names columns of X."""
    if task_features is None or isinstance(task_features, Mapping):
        return None
    if isinstance(task_features, (list, tuple)) and task_features and all(_is_name(v) for v in task_features):
        return list(task_features)
    raise ValueError(
        f"task_features={short(task_features)}: expected a dict from task label to numbers, or a list of columns of X "
        "(names, or positions in an array)"
    )


def split_descriptors(X: Any, columns: list[Any]) -> tuple[Any, list[Hashable]]:
    """X without these columns, and what stands in them, a tuple per row."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        missing = [c for c in columns if c not in frame.columns]
        if missing:
            raise ValueError(
                f"task_features names {list_labels(missing)}, not a column of X; columns are "
                f"{list_labels(frame.columns)}"
            )
        rest = frame.drop(columns)
        _inputs_left(len(rest.columns), columns)
        return rest.to_native(), _finite(frame.select(columns).rows())
    array = np.asarray(X)
    width = array.shape[1] if array.ndim == 2 else 0
    wrong = [c for c in columns if isinstance(c, str) or not -width <= c < width]
    if wrong:
        raise ValueError(
            f"task_features names {list_labels(wrong)}; X is an array of {width} columns, 0 to {width - 1}"
        )
    at = [int(c) % width for c in columns]
    _inputs_left(width - len(set(at)), columns)
    return np.delete(array, at, axis=1), _finite(array[:, at].tolist())


def _inputs_left(n: int, columns: list[Any]) -> None:
    if n == 0:
        raise ValueError(f"X has no column beside the task features {list_labels(columns)}; give at least one input")


def _finite(rows: Iterable[Iterable[Any]]) -> list[Hashable]:
    labels: list[Hashable] = []
    for i, row in enumerate(rows):
        given = tuple(row)
        try:
            label = tuple(float(v) for v in given)
        except (TypeError, ValueError):
            label = (np.nan,)
        if not np.isfinite(label).all():
            raise ValueError(f"the task features of row {i} are {given}; expected finite numbers: fill or drop the row")
        labels.append(label)
    return labels


def features_of(task_features: Any, labels: tuple[Hashable, ...]) -> Array | None:
    """(M, p) in the order of the labels."""
    if task_features is None:
        return None
    if descriptor_columns(task_features) is not None:
        return np.array(labels, dtype=float)
    missing = [label for label in labels if label not in task_features]
    if missing:
        raise ValueError(
            f"task_features has no entry for task {list_labels(missing)}; give one for every task, or drop these tasks"
        )
    rows = [np.atleast_1d(np.asarray(task_features[label])) for label in labels]
    lengths = {labels[t]: rows[t].shape for t in places_of(labels)}
    if len(set(lengths.values())) > 1 or rows[0].ndim != 1:
        raise ValueError(f"task_features differ in length: {lengths}; give the same number of features for every task")
    for label, row in zip(labels, rows, strict=True):
        if row.dtype.kind not in "iufb" or not np.isfinite(row.astype(float)).all():
            raise ValueError(f"task_features of {label!r} are {row.tolist()}; expected finite numbers")
    return np.stack(rows).astype(float)


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)
