"""Tables for models that live on the distinct inputs of all tasks, dense or sparse (CSR, never made dense).

A wide y is the natural form here: every input once, one column a task, NaN where a task has no label. Inputs without
any label join the pool as well; they come after the labelled ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from borrow.data.cells import Codes, Rows
from borrow.data.labels import encode, is_pairs, sort_labels
from borrow.data.read import Schema, per_row, read_new, read_targets, read_training, task_values, unfold
from borrow.data.scaling import column_scales as dense_scales
from borrow.numerics.linalg import Array


@dataclass(frozen=True)
class Pool:
    """Distinct inputs, and rows whose only input column is the position among them."""

    X: Any  # (n, d), dense or CSR; inputs that some task labels come first
    n_labelled: int
    rows: Rows
    column_scales: Array


def read_pool(
    estimator: Any, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, replicates: Any = None
) -> tuple[Pool, Schema]:
    """Everything `fit` was given, as a pool."""
    X, y, tasks = unfold_sparse(estimator, X, y, tasks)
    targets, columns = read_targets(y)
    wide = targets.ndim == 2
    if wide and (tasks is not None or estimator.task is not None) and not sparse.issparse(X):
        read_training(estimator, X, y, tasks)  # which refuses it, and says why
    reader = _read_sparse if sparse.issparse(X) else read_training
    # The place of a row as its target: rows of weight zero are dropped on the way.
    table, schema = reader(estimator, X, np.arange(len(targets), dtype=float), tasks, sample_weight, replicates)
    place = table.y.astype(np.intp)
    if not np.isfinite(targets[place]).any():
        raise ValueError(
            f"nothing to learn from in {len(targets)} rows: every row has a NaN y or a sample_weight of zero; "
            f"{type(estimator).__name__} needs at least one number in y"
        )
    if wide and (schema.task is not None or tasks is not None):
        raise ValueError(f"y has {targets.shape[1]} columns, one a task, and tasks= names tasks too; give one of them")
    distinct, code = _distinct(table.X)
    column: Array = code[:, None].astype(np.float64)
    rows = replace(table, X=column, y=targets[place] if not wide else table.y)
    if wide:
        heads: Sequence[Any] = columns if columns is not None else range(targets.shape[1])
        labels = sort_labels(heads)
        by_head = encode(heads, labels)
        schema = replace(schema, labels=labels, wide=by_head)
        rows = _lengthen(replace(rows, labels=labels), targets[place], by_head)
    return _arrange(distinct, rows), schema


def read_points(
    estimator: Any, X: Any, schema: Schema, tasks: Any, default: int | None = None
) -> tuple[Any, Codes | None]:
    """Rows to predict for, dense or sparse, with their task codes; None where a wide fit is asked for every task."""
    if not sparse.issparse(X):
        return read_new(estimator, X, schema, tasks, default)
    X = _check_sparse(estimator, X, reset=False)
    if tasks is not None:
        return X, encode(task_values(tasks, X.shape[0]), schema.labels)
    if len(schema.labels) == 1:
        return X, np.zeros(X.shape[0], dtype=np.intp)
    if schema.wide is not None:
        return X, None
    return read_new(estimator, np.zeros((1, schema.n_features)), schema)  # which says that a task is missing


def unfold_sparse(estimator: Any, X: Any, y: Any, tasks: Any) -> tuple[Any, Any, Any]:
    """X, y and tasks, also where X is a list or dict of (X, y) pairs of sparse tables."""
    if is_pairs(X) and y is None and tasks is None:
        items = list(X.items()) if isinstance(X, Mapping) else list(enumerate(X))
        if all(sparse.issparse(part) for _, (part, _) in items):
            for label, (part, own) in items:
                if part.shape[0] != len(own):
                    raise ValueError(f"task {label!r} has {part.shape[0]} rows of X and {len(own)} of y; give one each")
            table = sparse.vstack([part for _, (part, _) in items], format="csr")
            target = np.concatenate([np.ravel(own) for _, (_, own) in items])
            return table, target, [label for label, (part, _) in items for _ in range(part.shape[0])]
    return unfold(estimator, X, y, tasks)


def _check_sparse(estimator: Any, X: Any, reset: bool) -> Any:
    validate_data(estimator, X=X, skip_check_array=True, reset=reset)
    return check_array(X, accept_sparse="csr", dtype=np.float64, estimator=estimator, input_name="X")


def _read_sparse(
    estimator: Any, X: Any, y: Array, tasks: Any, sample_weight: Any, replicates: Any
) -> tuple[Rows, Schema]:
    if estimator.task is not None:
        raise ValueError(f"task={estimator.task!r} names a column of X and X is sparse; give tasks= beside it instead")
    X = _check_sparse(estimator, X, reset=True)
    n = X.shape[0]
    if len(y) != n:
        raise ValueError(f"X has {n} rows and y has {len(y)}; give one target a row")
    values = None if tasks is None else task_values(tasks, n)
    labels = (0,) if values is None else sort_labels(values)
    task = np.zeros(n, dtype=np.intp) if values is None else encode(values, labels)
    weight = per_row(sample_weight, "sample_weight", n, zero=True)
    rows = Rows(X, task, labels, y, weight, per_row(replicates, "replicates", n, zero=False))
    return rows.take(weight > 0), Schema(None, None, None, X.shape[1], labels)


def _distinct(X: Any) -> tuple[Any, Codes]:
    """Distinct rows in an order that does not depend on that of the rows, and which of them each row is."""
    if not sparse.issparse(X):
        values, code = np.unique(X + 0.0, axis=0, return_inverse=True)  # + 0: minus zero is zero
        return values, code.ravel()
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    ends = X.indptr
    keys = [X.indices[i:j].tobytes() + X.data[i:j].tobytes() for i, j in pairwise(ends)]
    places = {key: i for i, key in reversed(list(enumerate(keys)))}
    order = {key: i for i, key in enumerate(sorted(places))}
    return X[[places[key] for key in order]], np.array([order[key] for key in keys], dtype=np.intp)


def _lengthen(rows: Rows, targets: Array, by_head: Codes) -> Rows:
    """One row for each label of a wide y, and one without a label for inputs that have none."""
    i, j = np.nonzero(np.isfinite(targets))
    bare = np.flatnonzero(~np.isfinite(targets).any(axis=1))
    at = np.concatenate([i, bare])
    y = np.concatenate([targets[i, j], np.full(len(bare), np.nan)])
    return replace(rows.take(at), task=np.concatenate([by_head[j], np.zeros(len(bare), dtype=np.intp)]), y=y)


def _arrange(distinct: Any, rows: Rows) -> Pool:
    """Labelled inputs first."""
    code = rows.X[:, 0].astype(np.intp)
    labelled = np.zeros(distinct.shape[0], dtype=bool)
    labelled[code[np.isfinite(rows.y)]] = True
    order = np.argsort(~labelled, kind="stable")
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    X, n = distinct[order], int(labelled.sum())
    seen = X[:n]
    if sparse.issparse(X):  # one scale for all columns, so that their squares add up to a row's mean square
        size = max(float(seen.multiply(seen).sum()) / n, 1e-300)
        scales = np.full(X.shape[1], np.sqrt(size / X.shape[1]))
    else:
        scales = dense_scales(seen, np.ones(n))
    return Pool(X, n, replace(rows, X=place[code][:, None].astype(np.float64)), scales)
