"""What a fitted model learnt, as plain data: correlations between tasks, and its predictions over the inputs.

One input: curves with bands. Two: maps. More: what each input does on average (partial effects): the prediction
averaged over the primary's rows with that input set to one value, less the same at another. Both are linear in the
function, so the band of the difference comes from the joint posterior covariance, and what they share cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from borrow.numerics.linalg import Array
from borrow.report.predictor import BAND, Points, Predictor, Z
from borrow.report.svg import text_of

#: How many of each are shown; a page that shows everything shows nothing.
MOST_TASKS, MOST_PANELS, MOST_SWITCHES, MOST_CURVES = 30, 6, 20, 12
#: Rows over which effects are averaged, points of a curve, cells of a map's side.
BASE_SWITCH, BASE_CURVE, GRID_CURVE, GRID_LINE, GRID_MAP = 40, 12, 25, 161, 24


def correlations(predictor: Predictor, primary: Any) -> dict[str, Any] | None:
    """Correlations between tasks as the model has them, the primary first; None where it has none."""
    model = predictor.model
    covariance = getattr(model, "task_covariance_", None)
    if covariance is not None:
        B = np.asarray(covariance, dtype=float)
        if B.shape != (len(predictor.labels),) * 2 or len(B) < 2:
            return None
        scale = np.sqrt(np.maximum(np.diag(B), np.finfo(float).tiny))
        return _heat(B / np.multiply.outer(scale, scale), predictor.labels, primary, SYMMETRIC)
    if hasattr(model, "rho_") and hasattr(model, "relatedness") and predictor.regression:
        found = model.relatedness()
        return shared_correlations(list(found["task"]), np.asarray(found["correlation"], dtype=float), primary)
    return None


SYMMETRIC = "Learnt by the symmetric model: how the functions of each two tasks go together at the same input."
FOCUSED = (
    "As the focused model has it: tasks are tied through the primary's function alone, so two others correlate by the "
    "product of their correlations with it. What they share beyond that is not shown."
)


def shared_correlations(tasks: Sequence[Any], with_primary: Array, primary: Any) -> dict[str, Any] | None:
    """Correlations through one shared function: c_i c_j, 1 on the diagonal."""
    if len(tasks) < 2 or not np.isfinite(with_primary).all():
        return None
    R = np.multiply.outer(with_primary, with_primary)
    np.fill_diagonal(R, 1.0)
    return _heat(R, tasks, primary, FOCUSED)


def _heat(R: Array, labels: Sequence[Any], primary: Any, lead: str) -> dict[str, Any]:
    """The matrix in an order that shows it: the primary, then by correlation with it."""
    first = list(labels).index(primary) if primary in labels else 0
    order = sorted(range(len(R)), key=lambda i: (i != first, -R[first, i]))
    caption = "In hundredths: 100 is the same function up to scale, 0 nothing in common; orange where one falls as the "
    caption += "other rises."
    if len(order) > MOST_TASKS:
        strong = sorted(range(len(R)), key=lambda i: (i != first, -abs(R[first, i])))[:MOST_TASKS]
        order = [i for i in order if i in set(strong)]
        caption += f" The {MOST_TASKS} tasks of strongest correlation with the first, of {len(R)}."
    return {
        "tasks": [text_of(labels[i]) for i in order],
        "values": [[round(float(np.clip(R[i, j], -1, 1)), 4) for j in order] for i in order],
        "lead": lead,
        "caption": caption,
    }


def predictions(
    predictor: Predictor, points: Points, primary: Any, target: str, alone: Predictor | None, others: Sequence[Any]
) -> dict[str, Any]:
    """Curves, maps or effects, as the number of inputs allows. `others` are the tasks to show beside the primary."""
    d = points.X.shape[1]
    shown = text_of(target) if predictor.regression else f"probability of {text_of(predictor.positive)}"
    what = {"label": predictor.label, "target": shown, "notes": []}
    if not predictor.regression:
        what["notes"] = ["Probabilities are drawn without bands: what is not known is inside them."]
    if d == 1:
        return {**what, **curves(predictor, points, primary, shown, alone, others)}
    if d == 2:
        return {**what, **surfaces(predictor, points, primary, shown)}
    return {**what, **effects(predictor, points, primary, shown, alone)}


def _series(predictor: Predictor, X: Array, task: Any) -> dict[str, Any]:
    mean, std = predictor.ask(X, task)
    if std is None:
        return {"mean": mean.tolist(), "low": None, "high": None}
    return {"mean": mean.tolist(), "low": (mean - Z * std).tolist(), "high": (mean + Z * std).tolist()}


def curves(
    predictor: Predictor, points: Points, primary: Any, target: str, alone: Predictor | None, others: Sequence[Any]
) -> dict[str, Any]:
    """One input: the primary's curve large, some of the other tasks small."""
    feature, all_x = text_of(predictor.features[0]), points.X[:, 0]
    panels = []
    for i, task in enumerate([primary, *list(others)[:MOST_PANELS]]):
        mine = points.of(task)
        span = all_x if i == 0 or not len(mine.X) else mine.X[:, 0]
        grid = np.linspace(span.min(), span.max(), GRID_LINE)[:, None]
        seen = np.isfinite(mine.y)
        panels.append(
            {
                "task": text_of(task),
                "x": grid[:, 0].tolist(),
                **_series(predictor, grid, task),
                "alone": _series(alone, grid, task) if alone is not None and i == 0 else None,
                "points": {"x": mine.X[seen, 0].tolist(), "y": mine.y[seen].tolist()},
            }
        )
    band = f"Band: {100 * BAND:.0f} % for the function; a new measurement scatters around it by the noise as well."
    beside = " Beside the primary, the tasks most related to it." if len(panels) > 1 else ""
    return {
        "form": "curve",
        "heading": "What the model says",
        "lead": f"{target} of {text_of(primary)} over {feature}, the only input.",
        "feature": feature,
        "panels": panels,
        "caption": (band if panels[0]["low"] is not None else "") + beside,
    }


def surfaces(predictor: Predictor, points: Points, primary: Any, target: str) -> dict[str, Any]:
    """Two inputs: a map of the prediction, and one of how sure it is."""
    edges = [np.linspace(points.X[:, j].min(), points.X[:, j].max(), GRID_MAP + 1) for j in range(2)]
    edges = [e if e[-1] > e[0] else np.linspace(e[0] - 0.5, e[0] + 0.5, GRID_MAP + 1) for e in edges]
    x, y = ((e[1:] + e[:-1]) / 2 for e in edges)
    rows = np.column_stack([np.tile(x, GRID_MAP), np.repeat(y, GRID_MAP)])
    mean, std = predictor.ask(rows, primary)
    seen = points.of(primary)
    seen = seen.take(np.flatnonzero(np.isfinite(seen.y)))
    at = np.linspace(0, GRID_MAP - 1, 4).astype(int)
    corners = [
        {
            "0": float(x[j]),
            "1": float(y[i]),
            "mean": float(mean[i * GRID_MAP + j]),
            "std": None if std is None else float(std[i * GRID_MAP + j]),
        }
        for i in at
        for j in at
    ]
    a, b = map(text_of, predictor.features)
    return {
        "form": "map",
        "heading": "What the model says",
        "lead": f"{target} for {text_of(primary)} over {a} and {b}.",
        "features": [a, b],
        "x": edges[0].tolist(),
        "y": edges[1].tolist(),
        "mean": mean.reshape(GRID_MAP, GRID_MAP).tolist(),
        "std": None if std is None else std.reshape(GRID_MAP, GRID_MAP).tolist(),
        "mean_heading": f"Prediction of {target}",
        "std_heading": "How unsure: standard deviation of the function",
        "points": {"x": seen.X[:, 0].tolist(), "y": seen.X[:, 1].tolist()},
        "corners": corners,
        "caption": "The deeper the colour, the larger the number. Dots: rows of the primary that were measured.",
    }


def contrast(predictor: Predictor, rows: Array, task: Any, weights: Array) -> dict[str, Any]:
    """Linear combinations of the function at some rows, one a line of `weights`, with their bands."""
    if not predictor.regression:
        mean, _ = predictor.ask(rows, task)
        return {"mean": weights @ mean, "low": None, "high": None}
    mean, covariance = predictor.ask(rows, task, full=True)
    assert covariance is not None
    half = Z * np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", weights, covariance, weights, optimize=True), 0.0))
    middle = weights @ mean
    return {"mean": middle, "low": middle - half, "high": middle + half}


def effects(predictor: Predictor, points: Points, primary: Any, target: str, alone: Predictor | None) -> dict[str, Any]:
    """Many inputs: the average effect of each, largest first; inputs of two values as switches, others as curves."""
    mine = points.of(primary)
    base = mine.X if len(mine.X) else points.X
    values = [np.unique(points.X[:, j]) for j in range(points.X.shape[1])]
    pair = [j for j, v in enumerate(values) if len(v) == 2]
    range_ = [j for j, v in enumerate(values) if len(v) > 2]
    size = {j: _size(predictor, base, j, values[j], primary) for j in [*pair, *range_]}
    pair, range_ = (sorted(js, key=lambda j: -size[j]) for js in (pair, range_))
    switches = [_switch(predictor, base, j, values[j], primary, alone) for j in pair[:MOST_SWITCHES]]
    panels = [_effect_curve(predictor, base, j, primary, points) for j in range_[:MOST_CURVES]]
    notes = []
    left = [*pair[MOST_SWITCHES:], *range_[MOST_CURVES:]]
    if left:
        notes.append(f"{len(left)} inputs of smaller effect are not shown.")
    if still := [text_of(predictor.features[j]) for j, v in enumerate(values) if len(v) < 2]:
        notes.append(f"Inputs that never vary: {', '.join(still[:8])}{' and more' if len(still) > 8 else ''}.")
    lead = (
        f"What each input does to the {target} of {text_of(primary)}, all else as it was measured: an average over "
        "its rows. Effects that depend on other inputs are averaged out."
    )
    band = f"Bars: {100 * BAND:.0f} % bands of the effect; hollow dots where they reach zero." * predictor.regression
    known = alone is not None and bool(switches)
    return {
        "form": "effects",
        "heading": "What the inputs do",
        "lead": lead,
        "switches": switches,
        "curves": panels,
        "switch_caption": f"Change of the average prediction from the lower value to the upper. {band}"
        + (" Below each, what the primary's own rows say without the others." if known else ""),
        "curve_caption": "Change of the average prediction from its mean over the range."
        + f" Bands: {100 * BAND:.0f} %." * predictor.regression,
        "notes": notes,
    }


def _set(base: Array, j: int, grid: Array) -> Array:
    """Every row of the base with input j at every value of the grid; stacked by value."""
    rows = np.tile(base, (len(grid), 1))
    rows[:, j] = np.repeat(grid, len(base))
    return rows


def _thinned(base: Array, most: int) -> Array:
    return base[np.unique(np.linspace(0, len(base) - 1, min(most, len(base))).astype(int))]


def _size(predictor: Predictor, base: Array, j: int, values: Array, task: Any) -> float:
    base = _thinned(base, BASE_CURVE)
    mean, _ = predictor.ask(_set(base, j, np.quantile(values, [0.0, 0.5, 1.0])), task)
    return float(np.ptp(mean.reshape(3, -1).mean(axis=1)))


def _switch(
    predictor: Predictor, base: Array, j: int, values: Array, task: Any, alone: Predictor | None
) -> dict[str, Any]:
    base = _thinned(base, BASE_SWITCH)
    rows = _set(base, j, values)
    weights = np.repeat([-1.0, 1.0], len(base))[None] / len(base)

    def effect(asked: Predictor) -> dict[str, float | None]:
        found = contrast(asked, rows, task, weights)
        names = {"value": "mean", "low": "low", "high": "high"}
        return {k: None if found[n] is None else float(found[n][0]) for k, n in names.items()}

    ends = {"feature": text_of(predictor.features[j]), "from": f"{values[0]:g}", "to": f"{values[1]:g}"}
    return {**ends, **effect(predictor), "alone": None if alone is None else effect(alone)}


def _effect_curve(predictor: Predictor, base: Array, j: int, task: Any, points: Points) -> dict[str, Any]:
    column = base[:, j] if np.ptp(base[:, j]) > 0 else points.X[:, j]
    grid = np.linspace(column.min(), column.max(), GRID_CURVE)
    base = _thinned(base, BASE_CURVE)
    average = np.kron(np.eye(len(grid)), np.full(len(base), 1.0 / len(base)))
    found = contrast(predictor, _set(base, j, grid), task, average - average.mean(axis=0))
    lists = {k: None if v is None else v.tolist() for k, v in found.items()}
    return {"feature": text_of(predictor.features[j]), "x": grid.tolist(), **lists, "points": None}
