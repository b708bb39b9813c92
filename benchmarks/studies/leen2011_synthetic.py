"""Figure 4 of Leen, Peltonen & Kaski (2011): error on the primary's gap against the number of secondary tasks.

    python benchmarks/studies/leen2011_synthetic.py [--draws 10] [--gaps contiguous random] [--counts 0 1 2 ...]
                                                    [--methods NAME ...] [--minutes 5] [--report] [--first 20] [--tried]

Section 5.1: 100 inputs on [-5, 5], 50 of the primary's targets removed (the middle 50, and also any 50), up to 24
secondary tasks. Every draw draws the primary, the secondaries, their weights and the noise (sd 0.1; the paper does not
give its own) anew from seed 0, 1, ... Mean squared error against the true function on the removed inputs.

Columns, by their settings (`SETTINGS`): our defaults; our defaults without centring and scaling; both with a constant
in the shared kernel, so that the level is a parameter with a prior and integrated out, in the prediction too; the
paper's model (Z at the primary's inputs, no priors, lengthscales from 1, no relation dropped), literally, and on
targets that are centred and scaled by task, as our defaults have them; no transfer; pooling; ridge on x, x^2, x^3 with
the primary's rows. No transfer and ridge see no secondary, and are fitted once for all numbers of them.

`--tried` fits what was tried to keep up with the literal model (`TRIED`) beside it and the defaults: the primary's
level integrated out with a prior that is not learnt, one level for all tasks, and a part of its own for the primary
only where the evidence of all tasks is for it.

Every fit is a record in out/leen2011_synthetic.jsonl and is not repeated; --minutes begins no fit after so many,
--report makes none. The result is leen2011_synthetic.json, every column at every count with the draws that it rests on;
and the figures.
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
from unittest.mock import patch

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
from borrow.kernels import Constant, SquaredExponential
from borrow.models.focused import search as focused_search
from borrow.models.focused.primary import give_own_part
from borrow.models.focused.relations import Search
from borrow.numerics.optimise import Optimum, Values
from results import FIGURES, ROOT, Records, commits_of, settings_of, with_earlier, write_result

COUNTS = (0, 1, 2, 4, 8, 16, 24)
GAPS = ("contiguous", "random")
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
LEVEL = {"kernel": SquaredExponential() + Constant(1.0)}
LEVEL_OF_ITS_OWN = Constant(1.0, fixed=("variance",))
ALONE = ("single", "ridge")  # see no secondary
#: What each column is fitted with; the figure and the pages call it by these names.
SETTINGS: dict[str, dict[str, Any]] = {
    "focused": {},
    "focused, not centred": {"normalize_y": False},
    "focused, level": LEVEL,
    "focused, level, not centred": {**LEVEL, "normalize_y": False},
    "paper, literal": {**PAPER, "normalize_y": False},
    "paper, centred": {**PAPER, "normalize_y": True},
    "single": {},
    "pooled": {"normalize_y": "common"},
    "ridge": {},
    "focused, level of its own": {"specific_kernel": {"primary": LEVEL_OF_ITS_OWN}},
    "focused, one level": {"normalize_y": False},
    "focused, own part by all evidence": {},
}
#: What is not in the settings of an estimator.
BESIDE = {
    "focused, one level": "targets less the mean of all tasks' means, over each task's deviation",
    "focused, own part by all evidence": "a part of the primary's own has to raise what is maximised, of all tasks",
    "ridge": "x, x^2, x^3 of the primary's rows, standardised; RidgeCV(alphas=logspace(-4, 4, 17))",
}
WAYS = ("focused, level of its own", "focused, one level", "focused, own part by all evidence")
TRIED = ("single", "focused", "focused, not centred", "paper, literal", *WAYS)


def of_one_level(problem: FocusedProblem) -> tuple[np.ndarray, float, float]:
    """Targets with one level for all tasks and a scale for each; the primary's level and scale."""
    tasks = np.array(problem.tasks)
    names = list(dict.fromkeys(problem.tasks))
    means, scales = ({t: float(f(problem.y[tasks == t])) for t in names} for f in (np.nanmean, np.nanstd))
    level = float(np.mean(list(means.values())))
    scale = np.array([scales[t] for t in problem.tasks])
    return (problem.y - level) / scale, level, scales["primary"]


def by_all_evidence(search: Search, best: Optimum, regressed: Values) -> tuple[Search, Optimum]:
    """A part of the primary's own only where all tasks together are better explained, priors counted."""
    other, trial = give_own_part(search, best, regressed)
    return (other, trial) if other is search or trial.objective > best.objective else (search, best)


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
    y, level, scale = of_one_level(problem) if method == "focused, one level" else (problem.y, 0.0, 1.0)
    rule = by_all_evidence if method == "focused, own part by all evidence" else give_own_part
    with patch.object(focused_search, "give_own_part", rule):
        model.fit(problem.X, y, tasks=problem.tasks)
    mean, std = model.predict(problem.X_test, tasks="primary", return_std=True)
    return level + scale * mean, scale * std, model


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
    if isinstance(model, borrow.FocusedGPRegressor):
        out["own part"] = "primary" in model.specific_kernels_
    if method == "focused" and gap == "contiguous" and draw == 0 and count in SHOWN:
        mean, std = model.predict(problem.grid, return_std=True)
        out["band"] = {"mean": mean.tolist(), "std": std.tolist()}
    return out


def summarise(records: list[dict]) -> list[dict]:
    """A row for each gap, number of secondaries and method; beside no transfer on the same draws."""
    by: dict[tuple, dict[int, dict]] = {}
    for r in records:
        by.setdefault((r["gap"], r["count"], r["method"]), {})[r["draw"]] = r
    rows = []
    for gap in GAPS:
        alone = by.get((gap, 0, "single"), {})
        literal = {count: by.get((gap, count, "paper, literal"), {}) for count in COUNTS}
        for count in COUNTS:
            for m in SETTINGS:
                part = by.get((gap, 0 if m in ALONE else count, m), {})
                if not part:
                    continue
                values = np.array([r["error"] for r in part.values()])
                row: dict[str, Any] = {
                    "gap": gap,
                    "secondaries": count,
                    "method": m,
                    "draws": len(part),
                    "error": round(float(values.mean()), 5),
                    "sd": round(float(values.std(ddof=1)), 5) if len(part) > 1 else None,
                    "median": round(float(np.median(values)), 5),
                    "better than no transfer": int(
                        sum(r["error"] < alone[d]["error"] for d, r in part.items() if d in alone)
                    ),
                    "seconds": round(float(np.median([r["seconds"] for r in part.values()])), 2),
                    "optimiser warnings": int(sum(r["warnings"] for r in part.values())),
                    "records by commit": commits_of(part.values()),
                }
                both = [(r["error"], literal[count][d]["error"]) for d, r in part.items() if d in literal[count]]
                if both and m not in ALONE:
                    ratio = [a / b for a, b in both]
                    row["over the paper's model, geometric mean"] = round(float(np.exp(np.mean(np.log(ratio)))), 3)
                    row["draws below the paper's model"] = sum(v < 1 for v in ratio)
                if all("own part" in r for r in part.values()):
                    row["draws with a part of the primary's own"] = sum(r["own part"] for r in part.values())
                if m != "ridge":
                    row["covered by 90 % band"] = round(float(np.mean([r["covered"] for r in part.values()])), 3)
                rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw; other draws have a result apart")
    parser.add_argument("--gaps", nargs="+", default=list(GAPS))
    parser.add_argument("--counts", type=int, nargs="+", default=list(COUNTS))
    parser.add_argument("--methods", nargs="+", default=[m for m in SETTINGS if m not in WAYS], choices=list(SETTINGS))
    parser.add_argument("--tried", action="store_true", help="what was tried, in place of --methods")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tasks", action="store_true", help="only the figure of the tasks, which needs no fit")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no fit after so many")
    parser.add_argument("--report", action="store_true", help="no new fits")
    given = parser.parse_args()
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(tasks_figure(), FIGURES / "leen2011_tasks")
    if given.tasks:
        return
    until = time.monotonic() + 60.0 * (0.0 if given.report else given.minutes)
    records = Records(ROOT / "out" / "leen2011_synthetic.jsonl")
    have = {(r["gap"], r["draw"], r["count"], r["method"]) for r in records}
    draws = range(given.first, given.first + given.draws)
    methods = TRIED if given.tried else given.methods
    jobs = [(g, d, c, m) for g in given.gaps for d in draws for c in given.counts for m in methods]
    jobs = [job for job in jobs if job not in have and not (job[2] and job[3] in ALONE)]
    todo = (delayed(one_fit)(*job) for job in jobs if time.monotonic() < until)
    parallel = Parallel(n_jobs=given.jobs, batch_size=1, pre_dispatch=given.jobs, return_as="generator_unordered")
    for record in parallel(todo):
        records.add(record)
    key = ("gap", "secondaries", "method")
    name = "leen2011_synthetic" + (f"_{given.first}" if given.first else "")
    found = summarise([r for r in records if given.first <= r["draw"] < given.first + max(given.draws, 10)])
    table = with_earlier(name, "table", found, key, "draws", lambda _: 10)
    table.sort(key=lambda r: (r["gap"], r["secondaries"], list(SETTINGS).index(r["method"])))
    for row in table:
        sys.stdout.write(f"{row}\n")
    fitted = [m for m in SETTINGS if any(r["method"] == m for r in table)]
    settings = settings_of({m: SETTINGS[m] for m in fitted})
    settings |= {m: "; ".join(s for s in (settings[m], BESIDE[m]) if s != "defaults") for m in fitted if m in BESIDE}
    write_result(name, {"seeds": list(draws), "settings": settings, "table": table})
    if given.first:
        return
    figures.save(error_figure(table), FIGURES / "leen2011_error")
    bands = {r["count"]: r["band"] for r in records if "band" in r}
    if set(bands) == set(SHOWN):
        figures.save(band_figure(bands), FIGURES / "leen2011_bands")


def tasks_figure() -> Figure:
    """Figure 3: the primary with its gap, and fifteen secondaries of one draw, each with its weights as title."""
    problem = focused_gap(15, random_state=0)
    x, tasks = problem.grid[:, 0], np.array(problem.tasks)
    weights = zip(problem.weights, np.sqrt(problem.shares), strict=True)
    # alpha_m of the primary's function and the square root of beta_m of the secondary's own
    titles = ["primary", *(f"{a:.2f} $f^p$ + {b:.2f} own".replace("-", "\u2212") for a, b in weights)]
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 7.0), layout="constrained")
        axes = figure.subplots(4, 4, sharex=True)
        for ax, name, title in zip(axes.flat, dict.fromkeys(problem.tasks), titles, strict=True):
            mine = tasks == name
            if name == "primary":
                figures.shade_gap(ax, x[problem.hidden][0], x[problem.hidden][-1])
                figures.truth(ax, x, problem.truth)
            figures.points(ax, problem.X[mine, 0], problem.y[mine], size=4)
            ax.set_title(title)
    return figure


def error_figure(table: list[dict]) -> Figure:
    """Figure 4 (a), for both gaps: every column over the counts that it has."""
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 3.8), layout="constrained")
        for ax, gap in zip(figure.subplots(1, 2), GAPS, strict=True):
            for m, colour in {**figures.COLOURS, "paper, literal": "#009E73"}.items():
                rows = sorted((r for r in table if (r["gap"], r["method"]) == (gap, m)), key=lambda r: r["secondaries"])
                if not rows:
                    continue
                x, y = [r["secondaries"] for r in rows], np.array([r["error"] for r in rows])
                ax.plot(x, y, marker="o", ms=3.5, lw=1.6 if m == "focused" else 1.1, color=colour)
                if m == "focused":
                    sd = np.array([r["sd"] or 0.0 for r in rows])
                    ax.fill_between(x, np.maximum(y - sd, 0.3 * y), y + sd, color=colour, alpha=0.15, lw=0)
                    ratio = y[0] / y[-1]
                place = (5, -8 * (m == "paper, literal"))
                ax.annotate(m, (x[-1], y[-1]), place, textcoords="offset points", color=colour, va="center", fontsize=8)
            ax.set(yscale="log", xlabel="number of secondary tasks", xlim=(-0.5, 28))
            ax.set_title(f"{gap.capitalize()} gap: 24 tasks cut the error {ratio:.3g} times")
        figure.axes[0].set_ylabel("mean squared error, mean of the draws")
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
