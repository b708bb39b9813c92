"""Figure 4 of Leen, Peltonen & Kaski (2011): error on the primary's gap against the number of secondary tasks.

    python benchmarks/studies/leen2011_synthetic.py [--draws 10]

Section 5.1: 100 inputs on [-5, 5], 50 of the primary's targets removed (the middle 50, and also any 50), up to 24
secondary tasks. Every draw draws the primary, the secondaries, their weights and the noise (sd 0.1; the paper does not
give its own) anew from seed 0, 1, ... Mean squared error against the true function on the removed inputs.

Methods: our defaults; "paper": the paper's model as it stands (Z at the primary's inputs, no priors, lengthscales from
1); no transfer; pooling; ridge on x, x^2, x^3 with the primary's rows.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
import warnings
from pathlib import Path

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
from borrow.datasets import focused_gap
from borrow.kernels import SquaredExponential
from results import FIGURES, write_result

COUNTS = (0, 1, 2, 4, 8, 12, 16, 20, 24)
SHOWN = (0, 2, 4, 8, 16, 24)


def error(prediction, problem) -> float:
    return float(np.mean((prediction - problem.f_test) ** 2))


def one_fit(gap: str, draw: int, count: int) -> dict:
    """All methods on one problem; warnings of the optimiser are counted, not hidden."""
    problem = focused_gap(count, gap=gap, random_state=draw)
    own = np.array(problem.tasks) == "primary"
    labelled = own & np.isfinite(problem.y)
    out = {"gap": gap, "draw": draw, "count": count}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        start = time.perf_counter()
        model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
        out["seconds"] = time.perf_counter() - start
        mean, std = model.predict(problem.X_test, return_std=True)
        out["focused"] = error(mean, problem)
        out["covered"] = float(np.mean(np.abs(mean - problem.f_test) < 1.645 * std))
        literal = borrow.FocusedGPRegressor(
            primary="primary",
            kernel=SquaredExponential(),
            specific_kernel=SquaredExponential(),
            inducing="primary",
            prior=None,
            rho_prior=None,
            n_restarts=0,
            max_iter=150,
        ).fit(problem.X, problem.y, tasks=problem.tasks)
        out["paper"] = error(literal.predict(problem.X_test), problem)
        alone = borrow.SingleTaskGPRegressor().fit(problem.X[own], problem.y[own])
        out["single"] = error(alone.predict(problem.X_test), problem)
        pooled = borrow.PooledGPRegressor(normalize_y="common").fit(problem.X, problem.y, tasks=problem.tasks)
        out["pooled"] = error(pooled.predict(problem.X_test, tasks="primary"), problem)
    ridge = make_pipeline(PolynomialFeatures(3), StandardScaler(), RidgeCV(np.logspace(-4, 4, 17)))
    out["ridge"] = error(ridge.fit(problem.X[labelled], problem.y[labelled]).predict(problem.X_test), problem)
    out["warnings"] = len(caught)
    if gap == "contiguous" and draw == 0 and count in SHOWN:
        mean, std = model.predict(problem.grid, return_std=True)
        out["band"] = {"mean": mean.tolist(), "std": std.tolist()}
    return out


METHODS = ("focused", "paper", "single", "pooled", "ridge")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    draws = parser.parse_args().draws
    jobs = [(g, d, c) for g in ("contiguous", "random") for c in COUNTS[::-1] for d in range(draws)]
    fits = Parallel(n_jobs=2, batch_size=1)(delayed(one_fit)(*job) for job in jobs)
    table = []
    for gap in ("contiguous", "random"):
        for count in COUNTS:
            part = [f for f in fits if f["gap"] == gap and f["count"] == count]
            row = {"gap": gap, "secondaries": count}
            for m in METHODS:
                values = np.array([f[m] for f in part])
                row[m] = round(float(values.mean()), 5)
                row[f"{m} sd"] = round(float(values.std(ddof=1)) if draws > 1 else 0.0, 5)
            row["focused better than single, draws"] = int(sum(f["focused"] < f["single"] for f in part))
            row["covered by 90 % band"] = round(float(np.mean([f["covered"] for f in part])), 3)
            row["seconds"] = round(float(np.median([f["seconds"] for f in part])), 2)
            row["optimiser warnings"] = int(sum(f["warnings"] for f in part))
            table.append(row)
            sys.stdout.write(f"{row}\n")
    by = {(r["gap"], r["secondaries"]): r for r in table}
    facts = {
        "contiguous: none / 24 (at least 20)": round(
            by["contiguous", 0]["focused"] / by["contiguous", 24]["focused"], 1
        ),
        "contiguous: largest mean over single's at any count": round(
            max(r["focused"] / r["single"] for r in table if r["gap"] == "contiguous" and r["secondaries"]), 3
        ),
        "random: largest mean over single's at any count": round(
            max(r["focused"] / r["single"] for r in table if r["gap"] == "random" and r["secondaries"]), 3
        ),
    }
    write_result("leen2011_synthetic", {"seeds": list(range(draws)), "facts": facts, "table": table})
    sys.stdout.write(f"{facts}\n")
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(error_figure(table, draws), FIGURES / "leen2011_error")
    bands = {f["count"]: f["band"] for f in fits if "band" in f}
    figures.save(band_figure(bands), FIGURES / "leen2011_bands")


def error_figure(table: list[dict], draws: int) -> Figure:
    """Figure 4 (a), for both gaps."""
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 3.8), layout="constrained")
        for ax, gap in zip(figure.subplots(1, 2), ("contiguous", "random"), strict=True):
            rows = [r for r in table if r["gap"] == gap]
            x = [r["secondaries"] for r in rows]
            for m, colour in {**figures.COLOURS, "paper": "#009E73"}.items():
                y = np.array([r[m] for r in rows])
                ax.plot(x, y, marker="o", ms=3.5, lw=1.6 if m == "focused" else 1.1, color=colour)
                if m == "focused":
                    low = np.maximum(y - [r["focused sd"] for r in rows], 0.3 * y)
                    ax.fill_between(x, low, y + [r["focused sd"] for r in rows], color=colour, alpha=0.15, lw=0)
                ax.annotate(
                    m,
                    (x[-1], y[-1]),
                    xytext=(5, -8 * (m == "paper")),
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
