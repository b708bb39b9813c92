"""Predicted against observed: held-out rows of a comparison, rows left out of a model, and which surprise most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from borrow.estimators.view import Predictor
from borrow.numerics.linalg import Array
from borrow.report.format import number
from borrow.report.predictions import BAND, Z
from borrow.transfer.problem import thinned

#: Rows that are named, points that are drawn, and inputs of a row that are told.
MOST_NAMED, MOST_POINTS, MOST_INPUTS = 6, 400, 5
OPTIMISTIC = (
    "Each row is predicted without it, at hyper-parameters that were learnt with it: a quick look, and optimistic. "
    "borrow compare fits anew for rows that are held out."
)


def held_out(records: Sequence[Mapping[str, Any]], label: str, classes: Sequence[Any]) -> dict[str, Any] | None:
    """Of one method: every held-out row with its prediction, averaged where it was held out more than once."""
    done = [r for r in records if r["failure"] is None]
    if not done:
        return None
    rows = np.concatenate([r["rows"] for r in done])
    unique, at = np.unique(rows, return_inverse=True)
    times = np.bincount(at)

    def average(values: Any) -> Array:
        return np.bincount(at, np.asarray(values, dtype=float)) / times

    first = {int(row): v for r in done for row, v in zip(r["rows"], r["y"], strict=True)}
    observed = [first[int(row)] for row in unique]
    if classes:
        p = [line[list(classes).index(v)] for r in done for line, v in zip(r["probability"], r["y"], strict=True)]
        return surprises(unique.tolist(), observed, average(p), label)
    mean = average([v for r in done for v in r["mean"]])
    std = np.sqrt(average([v**2 for r in done for v in r["std"]]))
    return numbers(unique.tolist(), np.array(observed, dtype=float), mean, std, label)


def numbers(rows: Sequence[Any], y: Array, mean: Array, std: Array, label: str) -> dict[str, Any]:
    """Numbers: points to draw, and the rows that lie farthest from their prediction in standard deviations."""
    z = np.abs(y - mean) / np.maximum(std, np.finfo(float).tiny)
    worst = np.argsort(-z, kind="stable")[:MOST_NAMED]
    drawn = np.unique(np.concatenate([worst, thinned(np.arange(len(y)), MOST_POINTS)]))

    def entry(i: int) -> dict[str, Any]:
        place = {"row": rows[i], "observed": float(y[i]), "predicted": float(mean[i])}
        return {**place, "low": float(mean[i] - Z * std[i]), "high": float(mean[i] + Z * std[i]), "away": float(z[i])}

    left = f" {len(drawn):,} of {len(y):,} rows are drawn." if len(drawn) < len(y) else ""
    return {
        "form": "numbers",
        "label": label,
        "lead": f"Every row by the {label} without having seen it. On the line the prediction was right; the rows "
        "farthest from it, in standard deviations of a measurement, are named. A typing error in the table often shows "
        "here.",
        "caption": f"Horizontal bars: {100 * BAND:.0f} % of measurements. Rows are counted from 0, in the order of the "
        f"table.{left}",
        "points": [entry(int(i)) for i in drawn],
        "worst": [entry(int(i)) for i in worst],
    }


def surprises(rows: Sequence[Any], observed: Sequence[Any], p: Array, label: str) -> dict[str, Any]:
    """Labels: the rows whose label was given the least probability."""
    worst = np.argsort(p, kind="stable")[:MOST_NAMED]
    return {
        "form": "labels",
        "label": label,
        "lead": f"The rows whose label surprised the {label} most, not having seen it. A wrong label is often among "
        "them.",
        "caption": "Rows are counted from 0, in the order of the table.",
        "points": [],
        "worst": [{"row": rows[i], "observed": str(observed[i]), "probability": float(p[i])} for i in worst],
    }


def with_inputs(found: dict[str, Any] | None, problem: Any, several: bool = False) -> dict[str, Any] | None:
    """The same with the inputs of the rows that are named, as they were before they were encoded.

    Where they are of several tasks, with their task. Without a problem they are not known.
    """
    if found is None or problem is None:
        return found

    def words(row: int) -> str:
        X, encoder = problem.X[row], problem.encoder
        held = dict(zip(problem.features, (f"{v:.4g}" for v in X), strict=True)) if encoder is None else {}
        held = ({problem.task: problem.tasks[row]} if several else {}) | (held or encoder.written(X))
        more = " \u2026" if len(held) > MOST_INPUTS else ""
        return ", ".join(f"{name} {v}" for name, v in list(held.items())[:MOST_INPUTS]) + more

    return {**found, "worst": [{**line, "inputs": words(line["row"])} for line in found["worst"]]}


def left_out(predictor: Predictor) -> dict[str, Any] | None:
    """Of a model alone: its rows left out one at a time, those of the primary where there is one; None for labels."""
    if not predictor.regression:
        return None
    found = predictor.model.leave_one_out()
    mine = [t == predictor.primary for t in found["task"]]
    keep = np.array(mine) if any(mine) else np.ones(len(mine), dtype=bool)
    y, mean, std = (np.asarray(found[name], dtype=float)[keep] for name in ("y", "mean", "std"))
    if not len(y):
        return None
    whose = f"rows of {predictor.primary}" if any(mine) else "rows"
    miss = float(np.abs(y - mean).mean())
    inside = float(np.mean(np.abs(y - mean) <= Z * std))
    drawn = numbers(list(range(len(y))), y, mean, std, predictor.label)
    return {
        **drawn,
        "lead": OPTIMISTIC,
        "caption": f"Horizontal bars: {100 * BAND:.0f} % of measurements. Points are distinct rows of the fit.",
        "worst": [],
        "sentence": f"Left out one at a time, {len(y):,} {whose} are missed by {number(miss)} on average; the "
        f"{100 * BAND:.0f} % bands hold {100 * inside:.0f} % of them.",
    }
