"""What the inputs say before anything is fitted: how like they are to those asked for, and whether rows repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.linear_model import LogisticRegression

from borrow.data.labels import list_labels
from borrow.data.plain import to_floats
from borrow.data.read import as_frame
from borrow.numerics.linalg import Array
from borrow.numerics.warned import warn
from borrow.transfer.problem import Problem

#: A row counts at most so many times as much as the average row.
MOST_WEIGHT = 10.0
#: Rows nearer to another of their task than this part of the typical distance are near-replicates.
NEAR = 1e-3


def read_wanted(wanted: Any, problem: Problem) -> Array:
    """Inputs that will be asked for, in the order of the problem's columns; encoded as its table was."""
    frame = as_frame(wanted)
    if frame is None and not isinstance(wanted, Mapping):
        X = np.asarray(wanted, dtype=float)
    else:
        columns = wanted if frame is None else {str(c): frame.get_column(c).to_numpy() for c in frame.columns}
        if missing := [c for c in problem.columns if c not in columns]:
            raise ValueError(f"wanted lacks the column {list_labels(missing)}; give the inputs that will be asked for")
        if problem.encoder is not None:
            columns = problem.encoder.transform({c: columns[c] for c in problem.columns})
        X = np.column_stack([to_floats(columns[c], f"column {c!r} of wanted") for c in problem.features])
    if X.ndim != 2 or X.shape[1] != problem.X.shape[1] or len(X) == 0:
        raise ValueError(f"wanted has the shape {X.shape}; expected rows of {problem.X.shape[1]} input(s)")
    if not np.isfinite(X).all():
        raise ValueError("wanted holds NaN or infinity; leave these rows out")
    return X


def shift_weights(problem: Problem, primary: Any, wanted: Array) -> tuple[list[list[Any]], list[str]]:
    """Weights of the primary's rows for inputs like those wanted, and what is to be said where these lie elsewhere.

    The weight is the density of the wanted inputs over that of the measured ones, by a logistic regression that tells
    the two apart (quadratic in the inputs), cut at ten times the average.
    """
    rows = problem.rows_of(primary)
    X, scale = problem.X[rows], problem.X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    low, high = X.min(axis=0), X.max(axis=0)
    outside = (wanted < low - 0.05 * (high - low)) | (wanted > high + 0.05 * (high - low))
    both = (np.vstack([X, wanted]) - X.mean(axis=0)) / scale
    both = np.hstack([both, both**2])
    label = np.repeat([0, 1], [len(X), len(wanted)])
    odds = LogisticRegression(C=1.0, max_iter=2000, class_weight="balanced").fit(both, label)
    w = np.exp(np.clip(odds.decision_function(both[: len(X)]), -20.0, 20.0))
    w = np.minimum(w / w.mean(), MOST_WEIGHT)
    w /= w.mean()
    notes = [f"Rows count by how much they are like those wanted: as good as {w.sum() ** 2 / (w @ w):.0f} of {len(w)}."]
    if (share := float(outside.any(axis=1).mean())) > 0:
        names = [problem.features[j] for j in np.flatnonzero(outside.any(axis=0))]
        notes.append(
            f"{100 * share:.0f} % of the rows wanted lie outside what was measured for {primary!r} "
            f"({list_labels(names)}): no row held out is like them, so that folds tell nothing of them, and fits to "
            "all rows only what the models expect. Borrowing may help there most of all."
        )
        warn(notes[-1])
    return [[int(row), float(v)] for row, v in zip(rows, w, strict=True)], notes


def replicates_note(problem: Problem, primary: Any) -> list[str]:
    """Whether rows of the primary repeat each other so that a fold is told the answer by another."""
    rows = problem.rows_of(primary)
    X, scale = problem.X[rows], problem.X.std(axis=0)
    if problem.groups is not None or problem.times is not None or len(rows) < 4:
        return []
    Z = X / np.where(scale > 0, scale, 1.0)
    nearest = cKDTree(Z).query(Z, k=2)[0][:, 1]
    typical = float(np.sqrt(2.0 * Z.var(axis=0).sum()))
    count = int(np.sum(nearest <= NEAR * typical))
    if count <= max(2, 0.1 * len(rows)):
        return []
    return [
        f"{count} of {len(rows)} rows of {primary!r} have a near-replicate among them: in other folds these give the "
        "answer away. If new rows will not be such, name with group= what was measured together."
    ]
