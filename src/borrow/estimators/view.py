"""A fitted estimator seen from outside: its inputs by name, its tasks, the rows that it keeps, one way to ask it.

The report and `model.plot()` look at every estimator in this way.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from borrow.data.labels import list_labels
from borrow.data.read import InputRows, read_inputs
from borrow.data.table import Table
from borrow.estimators.settings import expect
from borrow.numerics.linalg import Array

#: Tasks that are drawn into one figure; points of a curve, and of each side of a map.
MOST_TASKS, GRID_LINE, GRID_MAP = 6, 161, 40
#: Letters of an attribute that a notebook shows.
MOST_LETTERS = 160


@dataclass(frozen=True)
class Predictor:
    """A fitted estimator, asked in one way whatever form it was fitted in."""

    model: Any
    features: tuple[str, ...]  # names of its inputs, in its own order
    labels: tuple[Any, ...]  # of its tasks
    label: str  # the model in words
    positive: Any  # classification: the class whose probability is shown
    primary: Any  # the task that the model is about, or None

    @classmethod
    def of(cls, model: Any, features: Any = None, label: str | None = None) -> Predictor:
        """Wrap a fitted estimator of this package; `features` names the columns of an array."""
        inner = getattr(model, "model_", model)  # Auto estimators hold the one that they chose
        if not hasattr(inner, "fitted_"):
            raise ValueError(
                f"model is {type(model).__name__}; expected a fitted estimator of borrow, and this one is not "
                "fitted or not of this package"
            )
        schema = inner.fitted_.schema
        names = schema.names if schema.names is not None else features
        if names is None or len(names) != schema.n_features:
            names = [f"input {j + 1}" for j in range(schema.n_features)]
        wanted, one = getattr(model, "primary", None), schema.labels[0] if len(schema.labels) == 1 else None
        return cls(
            inner,
            tuple(map(str, names)),
            schema.tasks,
            label or type(inner).__name__,
            inner.classes_[-1] if hasattr(inner, "classes_") else None,
            wanted if wanted in schema.labels else one,
        )

    @property
    def regression(self) -> bool:
        """Whether it predicts numbers."""
        return self.positive is None

    def ask(self, X: Array, task: Any, full: bool = False) -> tuple[Any, Any]:
        """Mean of the function and its standard deviation (covariance if `full`); for labels, of their probability.

        The deviation of a probability is half the width of the band that holds what one deviation on either side
        would. None in its place, and in that of the covariance, where the model has no distribution of functions.
        """
        rows, tasks = InputRows(X), [task] * len(X)
        if self.regression:
            if not self.model.tells_noise:
                return np.asarray(self.model.predict(rows, tasks=tasks), dtype=float), None
            mean, second = self.model.predict(rows, tasks=tasks, return_std=not full, return_cov=full)
            return np.asarray(mean, dtype=float), np.asarray(second, dtype=float)
        p = self.model.predict_proba(rows, tasks=tasks)[:, -1]
        if full:
            return p, self.model.probability_covariance(rows, tasks=tasks)
        edges = self.model.probability_quantiles(rows, ndtr([-1.0, 1.0]), tasks)
        return p, None if edges is None else np.diff(edges)[:, 0] / 2.0

    def band(self, X: Array, task: Any, level: float) -> tuple[Any, Any, Any]:
        """Mean of the function, or the probability, and the edges of its central band; None where there is no band."""
        if self.regression:
            mean, std = self.ask(X, task)
            if std is None:
                return mean, None, None
            half = ndtri(0.5 + level / 2.0) * std
            return mean, mean - half, mean + half
        rows, tasks = InputRows(X), [task] * len(X)
        p = self.model.predict_proba(rows, tasks=tasks)[:, -1]
        edges = self.model.probability_quantiles(rows, [0.5 - level / 2.0, 0.5 + level / 2.0], tasks)
        if edges is None:
            return p, None, None
        return p, np.minimum(edges[:, 0], p), np.maximum(edges[:, 1], p)  # a mean may be outside where few draws are


@dataclass(frozen=True)
class Points:
    """Rows that the figures stand on: inputs in the model's order, targets (NaN where there is none), task labels."""

    X: Array
    y: Array
    tasks: tuple[Any, ...]

    def of(self, task: Any) -> tuple[Array, Array]:
        """Inputs and targets of one task."""
        mine = np.array([t == task for t in self.tasks])
        return self.X[mine], self.y[mine]


def remembered(predictor: Predictor) -> Points | None:
    """The rows that a regressor keeps of its training, at least their inputs; None where it keeps none."""
    fitted, X = predictor.model.fitted_, getattr(predictor.model, "X_", None)
    if not predictor.regression or not hasattr(fitted.model, "cells"):
        return None
    labels = fitted.schema.labels
    if X is not None:  # of the hierarchical model: its cells hold positions in it, which need not be numbers
        owner = predictor.labels[0] if predictor.primary is None else predictor.primary
        return Points(X, np.full(len(X), np.nan), (owner,) * len(X)) if isinstance(X, np.ndarray) else None
    cells = fitted.model.cells
    y = fitted.center[cells.task] + fitted.scale[cells.task] * cells.y
    pooled = cells.n_tasks != len(labels)
    return Points(np.asarray(cells.X), y, tuple(predictor.primary if pooled else labels[t] for t in cells.task))


def task_correlations(model: Any) -> tuple[list[Any], Array] | None:
    """Labels of tasks and correlations between their functions, as the model has them; None where it has none."""
    labels = list(model.fitted_.schema.tasks)
    found = getattr(model, "task_correlations_", None)
    if isinstance(found, np.ndarray) and len(labels) > 1:  # a list: one per class
        return labels, found
    related = relation_tables(model)
    c = np.asarray(related[0]["correlation"] if len(related) == 1 else (), dtype=float)
    return (list(related[0]["task"]), through_one(c)) if len(c) > 1 and np.isfinite(c).all() else None


def relation_tables(model: Any) -> list[Table]:
    """What a model says of how the tasks go with its primary: a table per class of several; none where it is silent."""
    found = model.relatedness() if hasattr(model, "relatedness") else []
    return found if isinstance(found, list) else [found]


def through_one(with_primary: Array) -> Array:
    """Correlations of tasks that are tied through one function alone: c_i c_j, 1 on the diagonal."""
    R: Array = np.multiply.outer(with_primary, with_primary)
    np.fill_diagonal(R, 1.0)
    return R


def draw_tasks(model: Any, ax: Any) -> Any:
    """What `TaskEstimator.plot_tasks` does."""
    from borrow import plot

    found = task_correlations(getattr(model, "model_", model))
    if found is None:
        raise ValueError(
            f"{type(model).__name__} learns no correlations between tasks; the symmetric models (task_covariance_) and "
            "the focused ones (rho_) do"
        )
    tasks, R = found
    size = 1.5 + 0.45 * len(tasks)
    return plot.heat_map(plot.new_axes(ax, size + 0.5, size), [str(t) for t in tasks], R, "Correlations between tasks")


def draw(model: Any, inputs: Any, tasks: Any, X: Any, ax: Any) -> Any:
    """What `TaskEstimator.plot` does."""
    from borrow import plot

    predictor = Predictor.of(model)
    points = _points(predictor, X)
    at = _chosen(predictor, inputs)
    shown, left = _tasks(predictor, tasks, 1 if len(at) == 2 else MOST_TASKS)
    words = f"probability of {predictor.positive!r}" if not predictor.regression else "prediction"
    ax = plot.new_axes(ax)
    middle = np.median(points.X, axis=0)
    n = GRID_MAP if len(at) == 2 else GRID_LINE
    axes = [np.linspace(points.X[:, j].min(), points.X[:, j].max(), n) for j in at]
    rows = np.tile(middle, (n ** len(at), 1))
    rows[:, at] = np.column_stack([v.ravel() for v in np.meshgrid(*axes)])
    if len(at) == 2:
        mean, std = (None if v is None else v.reshape(n, n) for v in predictor.ask(rows, shown[0]))
        plot.surface(ax, axes[0], axes[1], mean, std)
        X_own, _ = points.of(shown[0])
        plot.points(ax, *X_own[:, at].T)
        ax.set_ylabel(predictor.features[at[1]])
        ax.set_title(f"{words} for {shown[0]}")
    else:
        for task, colour in zip(shown, plot.CYCLE, strict=False):
            plot.between(ax, axes[0], *predictor.band(rows, task, plot.BAND), colour)
            X_own, y_own = points.of(task)
            plot.points(ax, X_own[:, at[0]], y_own, colour)
            ax.lines[-1].set_label(str(task))
        title = f"the first {len(shown)} of {len(shown) + left} tasks" if left else None
        if len(predictor.labels) > 1:
            ax.legend(title=title, frameon=False, fontsize=8)
        ax.set_ylabel(words)
    ax.set_xlabel(predictor.features[at[0]])
    if held := [f"{n} {v:.3g}" for i, (n, v) in enumerate(zip(predictor.features, middle, strict=True)) if i not in at]:
        plot.explain(ax, f"held at the median: {', '.join(held[:4])}" + " and more" * (len(held) > 4))
    return ax


def _points(predictor: Predictor, X: Any) -> Points:
    """The rows that the figure stands on: those given, else those that the model keeps."""
    if X is None:
        kept = remembered(predictor)
        if kept is None or not len(kept.X):
            raise ValueError(f"{type(predictor.model).__name__} keeps no rows to draw over; give X=, the inputs")
        return kept
    inputs, values = read_inputs(predictor.model, X, predictor.model.fitted_.schema)
    return Points(np.asarray(inputs), np.full(len(inputs), np.nan), tuple(values or [None] * len(inputs)))


def _chosen(predictor: Predictor, inputs: Any) -> list[int]:
    """Positions of the one or two inputs to draw over."""
    names = predictor.features
    if inputs is None:
        if len(names) > 2:
            raise ValueError(f"the model has {len(names)} inputs; give inputs=, one or two of {list_labels(names)}")
        return list(range(len(names)))
    wanted = [inputs] if isinstance(inputs, (str, int, np.integer)) else list(inputs)
    known = all(v in (names if isinstance(v, str) else range(len(names))) for v in wanted)
    fits = known and 1 <= len(set(wanted)) == len(wanted) <= 2
    expect(fits, "inputs", inputs, f"one or two of {list_labels(names)}, or their positions")
    return [names.index(v) if isinstance(v, str) else int(v) for v in wanted]


def _tasks(predictor: Predictor, tasks: Any, most: int) -> tuple[list[Any], int]:
    """The tasks to draw, the one that matters first, and how many are left out."""
    labels = list(predictor.labels)
    if tasks is None:
        labels.sort(key=lambda t: t != predictor.primary)  # the others stay in their order
        return labels[:most], max(len(labels) - most, 0)
    wanted = [tasks] if tasks in labels else list(tasks)
    known = bool(wanted) and all(t in labels for t in wanted)
    expect(known, "tasks", tasks, f"tasks of the model, which are {list_labels(labels)}")
    if len(wanted) > most:
        raise ValueError(f"tasks={tasks!r}: at most {most} can be told apart in this figure; give fewer")
    return wanted, 0


def learnt(attributes: Mapping[str, Any]) -> str:
    """What a fit found, as HTML: one line per public attribute, large ones by their shape."""
    said = {name: _short(value) for name, value in attributes.items() if not name.endswith("_in_")}
    rows = "".join(
        f'<tr><td><code>{html.escape(name)}</code></td><td style="text-align: left">{html.escape(words)}</td></tr>'
        for name, words in said.items()
        if words
    )
    return f"<details open><summary>learnt by the fit</summary><table><tbody>{rows}</tbody></table></details>"


def _short(value: Any) -> str:
    """A value as text that fits in a line: long arrays by their shape, numbers to four digits."""
    if isinstance(value, np.ndarray) and value.size > 12:
        return f"array of shape {value.shape}"
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return _cut(", ".join(f"{k}: {words}" for k, v in value.items() if (words := _short(v))))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _cut(", ".join(_short(v) for v in value))
    return _cut(" ".join(str(value).split()))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS].rstrip() + " \u2026"
