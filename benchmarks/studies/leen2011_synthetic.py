"""Figure 4 of Leen, Peltonen & Kaski (2011): error on the primary's gap against the number of secondary tasks.

    python benchmarks/studies/leen2011_synthetic.py [--draws 10] [--gaps contiguous random] [--counts 0 1 2 ...]

Section 5.1: 100 inputs on [-5, 5], 50 of the primary's targets removed (the middle 50, and also any 50), up to 24
secondary tasks. Every draw draws the primary, the secondaries, their weights and the noise (sd 0.1; the paper does not
give its own) anew from seed 0, 1, ... Mean squared error against the true function on the removed inputs.

Columns, by their settings (`SETTINGS`): our defaults; our defaults without centring and scaling; the paper's model (Z
at the primary's inputs, no priors, lengthscales from 1, no relation dropped), literally, iterated to its end or 150
times, and on targets that are centred and scaled by task, as our defaults have them; no transfer; pooling; ridge on x,
x^2, x^3 with the primary's rows.

Every fit is a record in out/leen2011_synthetic.jsonl and is not repeated. With all of them the result is
leen2011_synthetic.json and the figures; with some, leen2011_synthetic_part.json has the columns that are complete.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import matplotlib
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import borrow
from borrow import plot as figures
from borrow.datasets import FocusedProblem, focused_gap
from borrow.kernels import SquaredExponential
from results import FIGURES, ROOT, Records, write_result

COUNTS = (0, 1, 2, 4, 8, 12, 16, 20, 24)
SHOWN = (0, 2, 4, 8, 16, 24)


def error(prediction, problem) -> float:
    return float(np.mean((prediction - problem.f_test) ** 2))


PAPER = {
    "kernel": SquaredExponential(),
    "specific_kernel": SquaredExponential(),
    "inducing": "primary",
    "prior": None,
    "rho_prior": None,
    "n_restarts": 0,
    "max_iter": 1000,
}
#: What each column is fitted with; the figure and the pages call it by these names.
SETTINGS: dict[str, dict[str, Any]] = {
    "focused": {},
    "focused, not centred": {"normalize_y": False},
    "paper, literal": {**PAPER, "normalize_y": False},
    "paper, literal, 150 iterations": {**PAPER, "normalize_y": False, "max_iter": 150},
    "paper, centred": {**PAPER, "normalize_y": True},
    "single": {},
    "pooled": {"normalize_y": "common"},
    "ridge": {},
}


def fit(method: str, problem: FocusedProblem) -> tuple[np.ndarray, np.ndarray | None, Any]:
    """Mean and deviation at the removed inputs, and the model."""
    own, settings = np.array(problem.tasks) == "primary", SETTINGS[method]
    if method == "ridge":
        labelled = own & np.isfinite(problem.y)
        ridge = make_pipeline(PolynomialFeatures(3), StandardScaler(), RidgeCV(np.logspace(-4, 4, 17)))
        return ridge.fit(problem.X[labelled], problem.y[labelled]).predict(problem.X_test), None, None
    if method == "single":
        model: Any = borrow.SingleTaskGPRegressor(**settings).fit(problem.X[own], problem.y[own])
        return *model.predict(problem.X_test, return_std=True), model
    if method == "pooled":
        model = borrow.PooledGPRegressor(**settings)
    else:
        model = borrow.FocusedGPRegressor(primary="primary", **settings)
    model.fit(problem.X, problem.y, tasks=problem.tasks)
    return *model.predict(problem.X_test, tasks="primary", return_std=True), model


def one_fit(gap: str, draw: int, count: int, method: str) -> dict:
    """One method on one problem; warnings of the optimiser are counted, not hidden."""
    problem = focused_gap(count, gap=gap, random_state=draw)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        mean, std, model = fit(method, problem)
    out = {"gap": gap, "draw": draw, "count": count, "method": method, "seed": draw, "error": error(mean, problem)}
    out |= {"seconds": time.process_time() - start, "warnings": len(caught)}
    if std is not None:
        out["covered"] = float(np.mean(np.abs(mean - problem.f_test) < 1.645 * std))
    if method == "focused" and gap == "contiguous" and draw == 0 and count in SHOWN:
        mean, std = model.predict(problem.grid, return_std=True)
        out["band"] = {"mean": mean.tolist(), "std": std.tolist()}
    return out


def summarise(records: list[dict], draws: int) -> list[dict]:
    """A row for each gap and count: every method whose draws are all there."""
    table = []
    for gap in ("contiguous", "random"):
        for count in COUNTS:
            part = [r for r in records if r["gap"] == gap and r["count"] == count and r["draw"] < draws]
            by = {m: {r["draw"]: r for r in part if r["method"] == m} for m in SETTINGS}
            row: dict[str, Any] = {"gap": gap, "secondaries": count}
            for m in (m for m in SETTINGS if len(by[m]) == draws):
                values = np.array([r["error"] for r in by[m].values()])
                row[m] = round(float(values.mean()), 5)
                row[f"{m} sd"] = round(float(values.std(ddof=1)) if draws > 1 else 0.0, 5)
            if len(row) > 2:
                table.append(row)
            if "focused" not in row or "single" not in row:
                continue
            better = [by["focused"][d]["error"] < by["single"][d]["error"] for d in range(draws)]
            row["focused better than single, draws"] = int(sum(better))
            row["covered by 90 % band"] = round(float(np.mean([r["covered"] for r in by["focused"].values()])), 3)
            row["seconds"] = round(float(np.median([r["seconds"] for r in by["focused"].values()])), 2)
            row["optimiser warnings"] = int(sum(r["warnings"] for r in part))
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--gaps", nargs="+", default=["contiguous", "random"])
    parser.add_argument("--counts", type=int, nargs="+", default=list(COUNTS))
    parser.add_argument("--methods", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tasks", action="store_true", help="only the figure of the tasks, which needs no fit")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no fit after so many")
    given = parser.parse_args()
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(tasks_figure(), FIGURES / "leen2011_tasks")
    if given.tasks:
        return
    draws, until = given.draws, time.monotonic() + 60 * given.minutes
    records = Records(ROOT / "out" / "leen2011_synthetic.jsonl")
    have = {(r["gap"], r["draw"], r["count"], r["method"]) for r in records}
    jobs = [(g, d, c, m) for g in given.gaps for c in given.counts for d in range(draws) for m in given.methods]
    todo = (delayed(one_fit)(*job) for job in jobs if job not in have and time.monotonic() < until)
    for record in Parallel(n_jobs=given.jobs, batch_size=1, return_as="generator_unordered")(todo):
        records.add(record)
    table = summarise(list(records), draws)
    for row in table:
        sys.stdout.write(f"{row}\n")
    by = {(r["gap"], r["secondaries"]): r for r in table}
    content: dict[str, Any] = {"seeds": list(range(draws)), "settings": shown_settings(), "table": table}
    if len(by) < 2 * len(COUNTS) or not all(set(SETTINGS) <= set(r) for r in table):
        if table:
            write_result("leen2011_synthetic_part", content, records)
        return
    largest = {
        gap: round(max(r["focused"] / r["single"] for r in table if r["gap"] == gap and r["secondaries"]), 3)
        for gap in ("contiguous", "random")
    }
    facts = {
        "contiguous: none / 24 (at least 20)": round(
            by["contiguous", 0]["focused"] / by["contiguous", 24]["focused"], 1
        ),
        **{f"{gap}: largest mean over single's at any count": v for gap, v in largest.items()},
    }
    write_result("leen2011_synthetic", {**content, "facts": facts}, records)
    sys.stdout.write(f"{facts}\n")
    figures.save(error_figure(table, draws), FIGURES / "leen2011_error")
    bands = {r["count"]: r["band"] for r in records if "band" in r}
    figures.save(band_figure(bands), FIGURES / "leen2011_bands")


def shown_settings() -> dict[str, str]:
    """The settings of each column, in words of the constructors."""
    return {m: ", ".join(f"{k}={v!r}" for k, v in s.items()) or "defaults" for m, s in SETTINGS.items()}


def tasks_figure() -> Figure:
    """Figure 3: the primary with its gap, and eight secondaries of one draw."""
    problem = focused_gap(8, random_state=0)
    x, tasks = problem.grid[:, 0], np.array(problem.tasks)
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 4.6), layout="constrained")
        axes = figure.subplots(3, 3, sharex=True)
        for ax, name in zip(axes.flat, dict.fromkeys(problem.tasks), strict=True):
            mine = tasks == name
            if name == "primary":
                figures.shade_gap(ax, x[problem.hidden][0], x[problem.hidden][-1])
                figures.truth(ax, x, problem.truth)
            figures.points(ax, problem.X[mine, 0], problem.y[mine], size=5)
            ax.set_title(name)
    return figure


def error_figure(table: list[dict], draws: int) -> Figure:
    """Figure 4 (a), for both gaps."""
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 3.8), layout="constrained")
        for ax, gap in zip(figure.subplots(1, 2), ("contiguous", "random"), strict=True):
            rows = [r for r in table if r["gap"] == gap]
            x = [r["secondaries"] for r in rows]
            for m, colour in {**figures.COLOURS, "paper, literal": "#009E73"}.items():
                y = np.array([r[m] for r in rows])
                ax.plot(x, y, marker="o", ms=3.5, lw=1.6 if m == "focused" else 1.1, color=colour)
                if m == "focused":
                    low = np.maximum(y - [r["focused sd"] for r in rows], 0.3 * y)
                    ax.fill_between(x, low, y + [r["focused sd"] for r in rows], color=colour, alpha=0.15, lw=0)
                ax.annotate(
                    m,
                    (x[-1], y[-1]),
                    xytext=(5, -8 * (m == "paper, literal")),
                    textcoords="offset points",
                    color=colour,
                    va="center",
                    fontsize=8,
                )
            ax.set(yscale="log", xlabel="number of secondary tasks", xlim=(-0.5, 28))
            ratio = rows[0]["focused"] / rows[-1]["focused"]
            ax.set_title(f"{gap.capitalize()} gap: 24 tasks cut the error {ratio:.3g} times")
        figure.axes[0].set_ylabel(f"mean squared error, mean of {draws} draws")
    return figure


def band_figure(bands: dict) -> Figure:
    """Figure 4 (b): one draw, more and more secondary tasks."""
    problem = focused_gap(0, random_state=0)
    x = problem.grid[:, 0]
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 4.6), layout="constrained")
        for ax, count in zip(figure.subplots(2, 3, sharex=True, sharey=True).flat, SHOWN, strict=True):
            figures.shade_gap(ax, x[problem.hidden][0], x[problem.hidden][-1])
            figures.band(
                ax,
                x,
                np.array(bands[count]["mean"]),
                np.array(bands[count]["std"]),
                figures.COLOURS["focused"],
            )
            figures.truth(ax, x, problem.truth)
            figures.points(ax, x[~problem.hidden], problem.y[:100][~problem.hidden], size=5)
            ax.set_title(f"{count} secondary task{'s' * (count != 1)}" if count else "no secondary task")
            ax.set_ylim(-2.6, 3.2)
    return figure


if __name__ == "__main__":
    main()
