"""A fitted estimator, asked in one way whatever form it was fitted in."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from borrow.numerics.linalg import Array

#: Bands of the report hold this much, and the normal quantile that makes them.
BAND, Z = 0.90, 1.6448536269514722


@dataclass(frozen=True)
class Predictor:
    """The model inside, the names of its inputs in its own order, its task labels, and the class it is asked for."""

    model: Any
    features: tuple[str, ...]
    labels: tuple[Any, ...]
    label: str  # the model in words
    positive: Any = None  # classification: the class whose probability is shown
    wanted: Any = None  # the task that the estimator was told to care for

    @classmethod
    def of(cls, model: Any, features: Any = None, label: str | None = None) -> Predictor:
        """Wrap a fitted estimator of this package; `features` names the columns of an array."""
        inner = getattr(model, "model_", model)  # Auto estimators hold the one that they chose
        fitted = getattr(inner, "fitted_", None)
        if fitted is None:
            raise ValueError(
                f"model is {type(model).__name__}; expected a fitted estimator of borrow, and this one is not "
                "fitted or not of this package"
            )
        schema = fitted.schema
        names = schema.names if schema.names is not None else features
        if names is None or len(names) != schema.n_features:
            names = [f"input {j + 1}" for j in range(schema.n_features)]
        classes = getattr(inner, "classes_", None)
        positive = None if classes is None else classes[-1]
        words = label or type(inner).__name__
        wanted = getattr(model, "primary", None)
        return cls(inner, tuple(map(str, names)), tuple(schema.labels), words, positive, wanted)

    @property
    def regression(self) -> bool:
        """Whether it predicts numbers."""
        return self.positive is None

    def primary(self) -> Any:
        """The task that the model is about, or None."""
        if self.wanted in self.labels:
            return self.wanted
        return self.labels[0] if len(self.labels) == 1 else None

    def ask(self, X: Array, task: Any, full: bool = False) -> tuple[Array, Array | None]:
        """Mean of the function and its standard deviation (covariance if `full`), or a probability and None."""
        given, tasks = self.form(X, [task] * len(X))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)  # we know them
            if not self.regression:
                return self.model.predict_proba(given, **tasks)[:, -1], None
            want = {"return_cov": True} if full else {"return_std": True}
            mean, second = self.model.predict(given, **tasks, **want)
        return np.asarray(mean, dtype=float), np.asarray(second, dtype=float)

    def form(self, X: Array, tasks: list[Any]) -> tuple[Any, dict[str, Any]]:
        """Rows and their tasks as this model takes them."""
        schema = self.model.fitted_.schema
        if schema.task is None:
            return X, {"tasks": tasks} if len(self.labels) > 1 else {}
        out = np.empty((len(X), X.shape[1] + 1), dtype=object)
        out[:, [j for j in range(out.shape[1]) if j != schema.position]] = X
        out[:, schema.position] = np.array([*tasks, None], dtype=object)[:-1]
        return out, {}


@dataclass(frozen=True)
class Points:
    """Rows that the figures stand on: inputs in the model's order, targets (NaN where there is none), task labels."""

    X: Array
    y: Array
    tasks: tuple[Any, ...]

    def of(self, task: Any) -> Points:
        """The rows of one task."""
        return self.take(np.flatnonzero([t == task for t in self.tasks]))

    def take(self, at: Any) -> Points:
        """Some of the rows."""
        return Points(self.X[at], self.y[at], tuple(self.tasks[i] for i in at))


def remembered(predictor: Predictor) -> Points | None:
    """The rows that a regressor keeps of its training, at least their inputs; None where it keeps none."""
    if hasattr(predictor.model, "X_"):  # of the hierarchical model: its cells hold positions in X_
        X = predictor.model.X_
        if not isinstance(X, np.ndarray):
            return None
        owner = predictor.primary() if predictor.primary() is not None else predictor.labels[0]
        return Points(X, np.full(len(X), np.nan), (owner,) * len(X))
    cells = predictor.model.fitted_.model.cells
    M = len(cells.starts) - 1
    center, scale = predictor.model.fitted_.center, predictor.model.fitted_.scale
    labels = predictor.labels if len(predictor.labels) == M else (predictor.primary(),) * M
    y = center[cells.task] + scale[cells.task] * cells.y
    return Points(np.asarray(cells.X), y, tuple(labels[t] for t in cells.task))
