"""Class labels of any kind as codes, so that everything else of a table is read as for regression."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from borrow.data.read import unfold
from borrow.numerics.linalg import Array


def read_classes(estimator: Any, X: Any, y: Any, tasks: Any) -> tuple[Any, Array, Any, Any]:
    """X, class codes (NaN where a row has no label), the classes in order, and tasks.

    y may be wide, one column a task; the columns then share their classes.
    """
    X, y, tasks = unfold(estimator, X, y, tasks)
    frame = nw.from_native(y, eager_only=True, allow_series=True, pass_through=True)
    values = np.asarray(frame.to_numpy() if isinstance(frame, (nw.DataFrame, nw.Series)) else y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = column_or_1d(values, warn=True)
    missing = np.array([v is None or v != v for v in values.ravel().tolist()], dtype=bool).reshape(values.shape)
    seen = values[~missing]
    if seen.size == 0:
        raise ValueError(f"every label in y is missing; {type(estimator).__name__} needs at least one")
    if seen.dtype.kind == "f" and np.isinf(seen).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64'); use NaN for no label")
    if seen.dtype.kind == "f":
        seen = seen.astype(int) if np.all(seen == np.round(seen)) and missing.any() else seen
    elif seen.dtype.kind == "O" and len({type(v) for v in seen.tolist()}) == 1:
        seen = np.array(seen.tolist())
    check_classification_targets(seen)
    classes, found = np.unique(seen, return_inverse=True)
    codes = np.full(values.shape, np.nan)
    codes[~missing] = found
    if len(classes) == 1:
        codes[~missing] = 1.0  # one class only: it is the positive one, and the answer
    names = frame.columns if isinstance(frame, nw.DataFrame) and values.ndim == 2 else None
    if names is not None:
        codes = nw.from_dict({n: codes[:, j] for j, n in enumerate(names)}, backend=frame.implementation).to_native()
    return X, codes, classes, tasks
