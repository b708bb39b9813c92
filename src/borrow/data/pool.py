"""Tables for models that live on the distinct inputs of all tasks, dense or sparse (CSR, never made dense).

A wide y is the natural form here: every input once, one column per task, NaN where a task has no label. Inputs without
any label join the pool as well; they come after the labelled ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from borrow.data.cells import Codes, Rows
from borrow.data.read import Schema, read_table
from borrow.data.scaling import column_scales
from borrow.numerics.linalg import Array


@dataclass(frozen=True)
class Pool:
    """Distinct inputs, and rows whose only input column is the position among them."""

    X: Any  # (n, d), dense or CSR; inputs that some task labels come first
    n_labelled: int
    rows: Rows
    column_scales: Array


def read_pool(
    estimator: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    sample_weight: Any = None,
    replicates: Any = None,
    classes: bool = False,
) -> tuple[Pool, Schema]:
    """Everything `fit` was given, as a pool; with `classes`, y holds labels, and targets are their codes."""
    X, rows, schema = read_table(estimator, X, y, tasks, sample_weight, replicates, classes, pooled=True)
    assert rows.number is not None  # of a table that was read
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
    return Pool(distinct, n, replace(rows, X=place[code][:, None].astype(np.float64), columns=None), scales), schema


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
