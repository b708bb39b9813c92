"""The demonstration: a primary task with a gap, and secondary tasks that may fill it. Data first, then words.

`run_demo` returns a dict of plain numbers, texts and lists, so that it goes through JSON unchanged; the
command line and the figures only show it. The problem is that of Leen, Peltonen & Kaski (2011), section 5.1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import RidgeCV

from borrow.data.plain import to_json
from borrow.datasets import FocusedProblem, focused_gap
from borrow.models.focused.estimators import FocusedGPRegressor
from borrow.models.gp.estimators import PooledGPRegressor, SingleTaskGPRegressor
from borrow.numerics.linalg import Array
from borrow.numerics.warned import capture_warnings

#: Standard deviation of the measurement noise in the problem.
NOISE = 0.1
#: Coverage is reported for this central interval.
LEVEL = 0.90
#: Differences smaller than these, in log density and as a ratio of squared errors, are called none.
SAME_DENSITY, SAME_ERROR = 0.05, 1.05
#: A band that holds this much less of the curve than it should is mentioned.
TOO_SURE = 0.15

METHODS = {"ridge": "ridge", "single": "no transfer", "pooled": "pooled", "focused": "focused"}

Step = Callable[[str], None]


class Curve(NamedTuple):
    """A prediction on the grid: mean, sd of the function (None if there is none), sd of a new measurement."""

    mean: Array
    std: Array | None
    std_new: Array


def run_demo(seed: int = 0, n_secondaries: int = 24, step: Step | None = None) -> dict[str, Any]:
    """Draw the problem, fit every method, score it on the gap. `step` is told what is about to be done."""
    if n_secondaries < 1:
        raise ValueError(
            f"n_secondaries={n_secondaries}: expected at least 1, there is nothing to borrow from otherwise"
        )
    tell = step or (lambda _: None)
    problem = focused_gap(n_secondaries, noise=NOISE, random_state=seed)
    methods, curves = [], {}
    with capture_warnings(lambda w: str(w.message)) as warned:
        for name, fit in (("ridge", fit_ridge), ("single", fit_single), ("pooled", fit_pooled)):
            tell(f"fitting {METHODS[name]}")
            curve, seconds = timed(fit, problem)
            methods.append({"name": name, "label": METHODS[name], **scores(problem, curve), "seconds": seconds})
            curves[name] = curve
        tell(f"fitting focused, {n_secondaries} secondary tasks")
        (model, curve), seconds = timed(fit_focused, problem)
        methods.append({"name": "focused", "label": METHODS["focused"], **scores(problem, curve), "seconds": seconds})
        curves["focused"] = curve
        tell("standard errors of rho")
        related = relatedness(problem, model)
    return {
        "problem": describe(problem, seed, n_secondaries),
        "methods": methods,
        "relatedness": related,
        "verdict": verdict(methods),
        "warnings": sorted(warned),
        "curves": {**observed(problem), "methods": {n: plain_curve(c) for n, c in curves.items()}},
    }


def timed(fit: Callable[[FocusedProblem], Any], problem: FocusedProblem) -> tuple[Any, float]:
    """What `fit` returns, and how many seconds it took."""
    start = time.perf_counter()
    result = fit(problem)
    return result, time.perf_counter() - start


def primary_rows(problem: FocusedProblem) -> tuple[Array, Array]:
    """The primary's inputs and targets, NaN where it is unlabelled."""
    n = len(problem.grid)
    return problem.X[:n], problem.y[:n]


def fit_ridge(problem: FocusedProblem) -> Curve:
    """A line through the primary's labelled rows; its spread is that of the leave-one-out errors."""
    X, y = primary_rows(problem)
    seen = np.isfinite(y)
    model = RidgeCV(alphas=np.logspace(-3, 3, 13)).fit(X[seen], y[seen])
    return Curve(model.predict(problem.grid), None, np.full(len(problem.grid), np.sqrt(-model.best_score_)))


def fit_single(problem: FocusedProblem) -> Curve:
    """A GP on the primary's labelled rows alone."""
    model = SingleTaskGPRegressor().fit(*primary_rows(problem))
    return predicted(model, problem.grid)


def fit_pooled(problem: FocusedProblem) -> Curve:
    """A GP on the rows of all tasks as if they were one."""
    model = PooledGPRegressor().fit(problem.X, problem.y, tasks=problem.tasks)
    return predicted(model, problem.grid, tasks=["primary"] * len(problem.grid))


def fit_focused(problem: FocusedProblem) -> tuple[FocusedGPRegressor, Curve]:
    """The focused GP, which learns how much of the primary is in each secondary."""
    model = FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
    return model, predicted(model, problem.grid, tasks=["primary"] * len(problem.grid))


def predicted(model: Any, grid: Array, **tasks: Any) -> Curve:
    """Mean and both standard deviations of a GP estimator."""
    mean, std = model.predict(grid, return_std=True, **tasks)
    _, std_new = model.predict(grid, return_std=True, include_noise=True, **tasks)
    return Curve(mean, std, std_new)


def scores(problem: FocusedProblem, curve: Curve) -> dict[str, float | None]:
    """Scores on the gap.

    `mse`: squared error of the mean against the true function. `log_density`: of a new measurement, which is
    the true function plus noise; its expectation over that noise, so that nothing depends on a draw.
    `covered_curve`: share of the gap where the true function lies in the 90 % band of the function.
    `covered_new`: share of new measurements in the 90 % band with noise, expected over the noise too.
    """
    mean, std_new = curve.mean[problem.hidden], curve.std_new[problem.hidden]
    error, z = problem.f_test - mean, norm.ppf(0.5 + LEVEL / 2)
    density = -0.5 * np.log(2 * np.pi * std_new**2) - 0.5 * (error**2 + NOISE**2) / std_new**2
    inside = norm.cdf((z * std_new - error) / NOISE) - norm.cdf((-z * std_new - error) / NOISE)
    std = None if curve.std is None else curve.std[problem.hidden]
    return {
        "mse": float(np.mean(error**2)),
        "log_density": float(density.mean()),
        "covered_curve": None if std is None else float(np.mean(np.abs(error) <= z * std)),
        "covered_new": float(inside.mean()),
    }


def relatedness(problem: FocusedProblem, model: FocusedGPRegressor) -> list[dict[str, Any]]:
    """One dict a secondary, most related first: the model's table beside what the generator knows.

    `related`: rho is more than two standard errors away from zero.
    """
    table = model.relatedness()
    # rho refers to scaled targets, the generator's alpha to targets as they are.
    scale = dict(zip(model.tasks_.tolist(), model._scale.tolist(), strict=True))
    secondaries = dict.fromkeys(problem.tasks[len(problem.grid) :])
    made = zip(problem.weights, problem.shares, strict=True)
    true = dict(zip(secondaries, made, strict=True))
    rows = []
    for row in table.rows():
        if row["task"] == "primary":
            continue
        alpha, beta = true[row["task"]]
        rows.append(
            {
                "task": row["task"],
                **{name: to_json(row[name]) for name in ("rho", "std_error", "correlation", "share")},
                "related": bool(abs(row["rho"]) > 2 * row["std_error"]),
                "true_rho": float(alpha * scale["primary"] / scale[row["task"]]),
                "true_correlation": float(alpha / np.hypot(alpha, np.sqrt(beta))),
            }
        )
    return sorted(rows, key=lambda r: -abs(r["correlation"]))


def verdict(methods: list[dict[str, Any]]) -> dict[str, Any]:
    """Does borrowing help on the gap? Against no transfer and the rest, by squared error and log density."""
    by = {m["name"]: m for m in methods}
    focused, alone = by["focused"], by["single"]
    ratio = alone["mse"] / focused["mse"]
    nats = focused["log_density"] - alone["log_density"]
    closer, farther = ratio > SAME_ERROR, ratio < 1 / SAME_ERROR
    surer, worse = nats > SAME_DENSITY, nats < -SAME_DENSITY
    errors = (
        f"on the gap the focused GP's squared error is {focused['mse']:.3g}, against {alone['mse']:.3g} "
        f"without transfer ({times(ratio)}) and {by['pooled']['mse']:.3g} pooled, its log density "
        f"{focused['log_density']:.2f} against {alone['log_density']:.2f}"
    )
    if closer and surer:
        outcome, words = "helps", f"Borrowing helps here: {errors}"
    elif farther and worse:
        outcome, words = "hurts", f"Borrowing hurts here: {errors}"
    elif closer and worse:
        outcome, words = (
            "mixed",
            f"Borrowing brings the mean closer here but makes the model too sure: {errors}",
        )
    elif farther and surer:
        outcome, words = "mixed", f"Borrowing raises the log density here but not the accuracy: {errors}"
    elif closer or surer:
        outcome, words = "helps", f"Borrowing helps a little here: {errors}"
    elif farther or worse:
        outcome, words = "hurts", f"Borrowing hurts a little here: {errors}"
    else:
        outcome, words = "same", f"Borrowing makes no difference here: {errors}"
    best = min(methods, key=lambda m: m["mse"])
    if best["name"] in ("ridge", "pooled"):
        words += f"; but {best['label']} has the smallest error, {best['mse']:.3g}"
    covered = focused["covered_curve"]
    if covered < LEVEL - TOO_SURE:
        share = f"its {100 * LEVEL:.0f} % band holds only {100 * covered:.0f} % of the curve"
        words += f"; {share}, so it is too sure of itself"
    return {"outcome": outcome, "error_ratio": ratio, "log_density_gain": nats, "words": words + "."}


def times(ratio: float) -> str:
    """A ratio of errors in words."""
    more, word = (ratio, "smaller") if ratio >= 1 else (1 / ratio, "larger")
    return f"{more:.0f} times {word}" if more >= 10 else f"{more:.1f} times {word}"


def describe(problem: FocusedProblem, seed: int, n_secondaries: int) -> dict[str, Any]:
    """What the problem is, in numbers and in words."""
    n, n_hidden, low, high = len(problem.grid), int(problem.hidden.sum()), *gap_edges(problem)
    others = "1 secondary task was" if n_secondaries == 1 else f"{n_secondaries} secondary tasks were"
    text = (
        f"One task matters, and it has a gap: it was measured at {n - n_hidden} of {n} inputs, none of them "
        f"between {low:.1f} and {high:.1f}. {others} measured at all {n}. Each is a multiple of the "
        "primary's function, of either sign and any size, plus a function of its own and noise. Can they "
        "fill the gap, and does the model see which of them can?"
    )
    return {
        "text": text,
        "source": "Synthetic; Leen, Peltonen & Kaski (2011), section 5.1",
        "seed": seed,
        "n_secondaries": n_secondaries,
        "n_inputs": n,
        "n_hidden": n_hidden,
        "gap": [low, high],
        "noise_std": NOISE,
        "level": LEVEL,
    }


def gap_edges(problem: FocusedProblem) -> tuple[float, float]:
    """Halfway between the gap's outermost inputs and their labelled neighbours."""
    x, at = problem.grid[:, 0], np.flatnonzero(problem.hidden)
    first, last = at[0], at[-1]
    return float((x[first - 1] + x[first]) / 2), float((x[last] + x[last + 1]) / 2)


def observed(problem: FocusedProblem) -> dict[str, Any]:
    """Inputs, the primary's true function, and the targets of all tasks (None where unlabelled)."""
    wide = problem.y.reshape(-1, len(problem.grid))
    names = list(dict.fromkeys(problem.tasks))
    return {
        "x": problem.grid[:, 0].tolist(),
        "truth": problem.truth.tolist(),
        "targets": {name: to_json(row) for name, row in zip(names, wide, strict=True)},
    }


def plain_curve(curve: Curve) -> dict[str, list[float] | None]:
    """A curve as lists."""
    return {name: None if v is None else v.tolist() for name, v in curve._asdict().items()}
