"""A new task for a model that has learnt its kernel: its table, and the units of its targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from borrow.data import _shrink
from borrow.linalg import Array
from borrow.reading import Schema, _lacks, _split, _without_task


def inputs_alone(estimator: Any, X: Any, schema: Schema) -> Array:
    """The input columns of X; the task column, where fit had one, may be there or not."""
    if schema.task is not None and _lacks(X, schema):
        return _without_task(estimator, X, schema)
    column = schema.task if hasattr(X, "columns") and schema.names is not None else schema.position
    return _split(estimator, X, None, column, reset=False).features


def keep_names(child: Any, X: Any, schema: Schema) -> None:
    """A model adapted to a frame expects the same columns of frames to come."""
    if hasattr(X, "columns") and schema.names is not None:
        child._schema = replace(child._schema, names=schema.names)
        if all(isinstance(n, str) for n in schema.names):
            child.feature_names_in_ = np.array(schema.names, dtype=object)


def scaling_of_new_task(y: Array, centers: Array, scales: Array) -> tuple[float, float]:
    """Centre and scale of a task of few rows: its own figures, shrunk to those of the tasks seen (as `data.scale`)."""
    y = np.asarray(y, dtype=float)
    y = y[np.isfinite(y)]
    n = len(y)
    pool = np.ones(len(centers) + 1, dtype=bool)
    varies = n > 1 and float(y.var()) > (1e-10 * abs(float(y.mean()))) ** 2
    variance = float(y.var()) if varies else np.nan
    log_variance = np.append(2.0 * np.log(scales), np.log(variance))
    sampling = np.append(np.zeros(len(scales)), 2.0 / max(n - 1.0, 1.0))
    pool[-1] = False
    scale = float(np.exp(0.5 * _shrink(log_variance, sampling, pool)[-1]))
    mean = float(y.mean()) if n else np.nan
    sampling[-1] = scale**2 / max(n, 1)
    return float(_shrink(np.append(centers, mean), sampling, pool)[-1]), scale
