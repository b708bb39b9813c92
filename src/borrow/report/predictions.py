"""What a fitted model predicts over the inputs, as plain data.

One input: curves with bands. Two: maps. More: what each input does on average (partial effects): the prediction
averaged over the primary's rows with that input set to one value, less the same at another. Both are linear in the
function, so the band of the difference comes from the joint posterior covariance, and what they share cancels.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from borrow.estimators.view import Points, Predictor
from borrow.numerics.linalg import Array
from borrow.transfer.problem import thinned

#: Bands of the report hold this much, and the normal quantile that makes them.
BAND, Z = 0.90, 1.6448536269514722
#: How many of each are shown; a page that shows everything shows nothing.
MOST_PANELS, MOST_SWITCHES, MOST_CURVES = 6, 20, 12
#: Rows over which effects are averaged, points of a curve, cells of a map's side.
BASE_SWITCH, BASE_CURVE, GRID_CURVE, GRID_LINE, GRID_MAP = 40, 12, 25, 161, 24


def predictions(
    predictor: Predictor, points: Points, primary: Any, target: str, alone: Predictor | None, others: Sequence[Any]
) -> dict[str, Any]:
    """Curves, maps or effects, as the number of inputs allows. `others` are the tasks to show beside the primary."""
    d = points.X.shape[1]
    shown = target if predictor.regression else f"probability of {predictor.positive}"
    what: dict[str, Any] = {"label": predictor.label, "target": shown, "notes": []}
    if d == 1:
        return {**what, **curves(predictor, points, primary, shown, alone, others)}
    if d == 2:
        return {**what, **surfaces(predictor, points, primary, shown)}
    return {**what, **effects(predictor, points, primary, shown, alone)}


def _edged(mean: Array, low: Array | None, high: Array | None) -> dict[str, Any]:
    """A mean and the edges of its band, None where there is none."""
    return {"mean": mean, "low": low, "high": high}


def curves(
    predictor: Predictor, points: Points, primary: Any, target: str, alone: Predictor | None, others: Sequence[Any]
) -> dict[str, Any]:
    """One input: the primary's curve large, some of the other tasks small."""
    panels = []
    for i, task in enumerate([primary, *others[:MOST_PANELS]]):
        X, y = points.of(task)
        span, seen = X if i and len(X) else points.X, np.isfinite(y)
        grid = np.linspace(span.min(), span.max(), GRID_LINE)[:, None]
        panels.append(
            {
                "task": str(task),
                "x": grid[:, 0],
                **_edged(*predictor.band(grid, task, BAND)),
                "alone": _edged(*alone.band(grid, task, BAND)) if alone is not None and i == 0 else None,
                "points": {"x": X[seen, 0], "y": y[seen]},
            }
        )
    band = f"Band: {100 * BAND:.0f} % for the {'function' if predictor.regression else 'probability'}"
    band += "; a new measurement scatters around it by the noise as well." if predictor.regression else "."
    banded = panels[0]["low"] is not None
    return {
        "form": "curve",
        "heading": "What the model says",
        "lead": f"{target[:1].upper()}{target[1:]} of {primary} over {predictor.features[0]}, the only input.",
        "feature": predictor.features[0],
        "panels": panels,
        "caption": band * banded + " Beside the primary, the tasks most related to it." * (len(panels) > 1),
    }


def surfaces(predictor: Predictor, points: Points, primary: Any, target: str) -> dict[str, Any]:
    """Two inputs: a map of the prediction, and one of how sure it is."""
    ends = [(c.min(), c.max()) if np.ptp(c) > 0 else (c[0] - 0.5, c[0] + 0.5) for c in points.X.T]
    edges = [np.linspace(*pair, GRID_MAP + 1) for pair in ends]
    x, y = ((e[1:] + e[:-1]) / 2 for e in edges)
    mean, std = predictor.ask(np.column_stack([np.tile(x, GRID_MAP), np.repeat(y, GRID_MAP)]), primary)
    mean, std = mean.reshape(GRID_MAP, -1), None if std is None else std.reshape(GRID_MAP, -1)
    X, targets = points.of(primary)
    seen = X[np.isfinite(targets)]
    at = itertools.product(np.linspace(0, GRID_MAP - 1, 4).astype(int), repeat=2)
    a, b = predictor.features
    return {
        "form": "map",
        "heading": "What the model says",
        "lead": f"{target[:1].upper()}{target[1:]} for {primary} over {a} and {b}.",
        "features": [a, b],
        "x": edges[0],
        "y": edges[1],
        "mean": mean,
        "std": std,
        "mean_heading": f"{'Prediction of' if predictor.regression else 'The'} {target}",
        "std_heading": "How unsure: standard deviation of the function"
        if predictor.regression
        else "How unsure: half the width of a 68 % band of the probability",
        "points": {"x": seen[:, 0], "y": seen[:, 1]},
        "corners": [
            {"0": x[j], "1": y[i], "mean": mean[i, j], "std": None if std is None else std[i, j]} for i, j in at
        ],
        "caption": "The deeper the colour, the larger the number. Dots: rows of the primary that were measured.",
    }


def contrast(predictor: Predictor, rows: Array, task: Any, weights: Array) -> dict[str, Any]:
    """Linear combinations of the function at some rows, one per line of `weights`, with their bands."""
    mean, covariance = predictor.ask(rows, task, full=True)
    if covariance is None:
        return _edged(weights @ mean, None, None)
    variance = np.einsum("ij,jk,ik->i", weights, covariance, weights, optimize=True)
    half = Z * np.sqrt(np.maximum(variance, 0.0))
    return _edged(weights @ mean, weights @ mean - half, weights @ mean + half)


def effects(predictor: Predictor, points: Points, primary: Any, target: str, alone: Predictor | None) -> dict[str, Any]:
    """Many inputs: the average effect of each, largest first; inputs of two values as switches, others as curves."""
    mine, _ = points.of(primary)
    base = mine if len(mine) else points.X
    values = [np.unique(column) for column in points.X.T]

    def size(j: int) -> float:
        """How far the average prediction moves over the range of an input."""
        few = thinned(base, BASE_CURVE)
        mean, _ = predictor.ask(_set(few, j, np.quantile(values[j], [0.0, 0.5, 1.0])), primary)
        return float(np.ptp(mean.reshape(3, -1).mean(axis=1)))

    order = sorted((j for j, v in enumerate(values) if len(v) > 1), key=size, reverse=True)
    pair, wide = [j for j in order if len(values[j]) == 2], [j for j in order if len(values[j]) > 2]
    switches = [_switch(predictor, base, j, values[j], primary, alone) for j in pair[:MOST_SWITCHES]]
    left = len(pair[MOST_SWITCHES:]) + len(wide[MOST_CURVES:])
    still = [predictor.features[j] for j, v in enumerate(values) if len(v) < 2]
    more = " and more" if len(still) > 8 else ""
    notes = [f"{left} inputs of smaller effect are not shown."] if left else []
    notes += [f"Inputs that never vary: {', '.join(still[:8])}{more}."] if still else []
    curves = [_effect_curve(predictor, base, j, primary, points) for j in wide[:MOST_CURVES]]
    banded = any(part["low"] is not None for part in (*switches, *curves))
    band = f"Bars: {100 * BAND:.0f} % bands of the effect; hollow dots where they reach zero." * banded
    moved = "average prediction" if predictor.regression else f"average {target}"
    return {
        "form": "effects",
        "heading": "What the inputs do",
        "lead": f"What each input does to the {target} of {primary}, all else as it was measured: an average over "
        "its rows. Effects that depend on other inputs are averaged out.",
        "switches": switches,
        "curves": curves,
        "switch_caption": f"Change of the {moved} from the lower value to the upper. {band}"
        + " Below each, what the primary's own rows say without the others."
        * (alone is not None and len(switches) > 0),
        "curve_caption": f"Change of the {moved} from its mean over the range."
        + f" Bands: {100 * BAND:.0f} %." * banded,
        "notes": notes,
    }


def _set(base: Array, j: int, grid: Array) -> Array:
    """Every row of the base with input j at every value of the grid; stacked by value."""
    rows = np.tile(base, (len(grid), 1))
    rows[:, j] = np.repeat(grid, len(base))
    return rows


def _switch(
    predictor: Predictor, base: Array, j: int, values: Array, task: Any, alone: Predictor | None
) -> dict[str, Any]:
    base = thinned(base, BASE_SWITCH)
    rows, weights = _set(base, j, values), np.repeat([-1.0, 1.0], len(base))[None] / len(base)

    def effect(asked: Predictor) -> dict[str, float | None]:
        found = contrast(asked, rows, task, weights)
        return {"value" if k == "mean" else k: None if v is None else float(v[0]) for k, v in found.items()}

    ends = {"feature": predictor.features[j], "from": f"{values[0]:g}", "to": f"{values[1]:g}"}
    return {**ends, **effect(predictor), "alone": None if alone is None else effect(alone)}


def _effect_curve(predictor: Predictor, base: Array, j: int, task: Any, points: Points) -> dict[str, Any]:
    column = base[:, j] if np.ptp(base[:, j]) > 0 else points.X[:, j]
    grid = np.linspace(column.min(), column.max(), GRID_CURVE)
    base = thinned(base, BASE_CURVE)
    average = np.kron(np.eye(len(grid)), np.full(len(base), 1.0 / len(base)))
    found = contrast(predictor, _set(base, j, grid), task, average - average.mean(axis=0))
    return {"feature": predictor.features[j], "x": grid, **found, "points": None}
