"""Figure 4 of Lawrence & Platt (2004): how fast the hidden parameters of a GP come back, by rows and by time.

    python benchmarks/studies/lawrence2004_regression.py [--runs 10]

Four tasks of 2,000 rows, four inputs, half of them around +1 and half around -1 with variance 0.125; targets from a GP
with theta = (1, 1, 100, 0): inverse width, variance, noise precision, bias. Learning starts from (10, 10, 10, 10).
Quality is the KL divergence from the true to the learnt Gaussian of the targets of a task of 500 fresh rows, one a run.

Methods
- "ours": the estimator's defaults with that kernel (prior, one round, noise from rows not chosen);
- "ours, random": the same with random sub-sampling;
- "paper": five rounds of at most 50 iterations, maximum likelihood, noise from the chosen rows;
- "paper, random": maximum likelihood on random rows, at most 200 iterations.
Targets are not rescaled (normalize_y=False): the truth is in their units.

Seconds are processor time. Every finished (method, d, run) is a line in out/lawrence2004_regression.jsonl; a run that
was stopped goes on. The authors' stored file was made with noise variance 100, not 0.01, and is no reference.
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
from matplotlib.figure import Figure
from scipy.linalg import cholesky, solve_triangular

import borrow
from borrow import plot as figures
from borrow.kernels import Constant, SquaredExponential
from results import FIGURES, ROOT, Records, settings_of, write_result

SIZES = tuple(range(100, 1001, 100))
NOISE = 0.01
START: dict = {"kernel": SquaredExponential(10.0, 10.0**-0.5) + Constant(10.0), "noise": 0.1, "normalize_y": False}
PAPER = {"prior": None, "noise_from": "active"}
METHODS: dict[str, dict] = {
    "ours": {},
    "ours, random": {"selection": "random"},
    "paper": {**PAPER, "n_rounds": 5, "max_iter": 50},
    "paper, random": {**PAPER, "selection": "random", "max_iter": 200},
}


def inputs(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.sqrt(0.125) * rng.normal(size=(n, 4)) + np.repeat([1.0, -1.0], [n - n // 2, n // 2])[:, None]


def draw(run: int, n: int = 2000, tasks: int = 4, n_test: int = 500):
    """Inputs, targets and tasks, and the inputs of a fresh task."""
    rng = np.random.default_rng(run)
    X, y = [], []
    for _ in range(tasks):
        X.append(inputs(rng, n))
        K = SquaredExponential(1.0, 1.0)(X[-1])
        K.flat[:: n + 1] += NOISE
        y.append(cholesky(K, lower=True) @ rng.normal(size=n))
    return np.vstack(X), np.concatenate(y), np.repeat(np.arange(tasks), n), inputs(rng, n_test)


def divergence(truth: np.ndarray, learnt: np.ndarray) -> float:
    """KL(N(0, truth) || N(0, learnt))."""
    L0, L1 = cholesky(truth, lower=True), cholesky(learnt, lower=True)
    A = solve_triangular(L1, L0, lower=True)
    return float(0.5 * (np.sum(A * A) - len(A)) + np.log(np.diagonal(L1) / np.diagonal(L0)).sum())


def one_fit(problem, method: str, d: int, run: int) -> dict:
    X, y, tasks, X_test = problem
    model = borrow.MultiTaskIVMRegressor(n_active=d, random_state=run, **START, **METHODS[method])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model.fit(X, y, tasks=tasks)
        seconds = time.process_time() - start
    smooth, bias = model.kernel_.parts
    noise = model.noise_[0]
    eye = np.eye(len(X_test))
    kl = divergence(SquaredExponential(1.0, 1.0)(X_test) + NOISE * eye, model.kernel_(X_test) + noise * eye)
    said = " ".join(str(w.message) for w in caught)
    return {
        "method": method,
        "d": d,
        "run": run,
        "kl": kl,
        "lengthscale": smooth.lengthscale,
        "variance": smooth.variance,
        "bias": bias.variance,
        "noise": noise,
        "seconds": seconds,
        "noise warning": "noise has collapsed" in said or "floor" in said,
        "overlap": [round(v, 3) for v in model.rounds_["overlap"][1:]],
        "cycle": "circle" in said,
    }


def run_all(runs: int, sizes=SIZES, store: Path | None = None, n: int = 2000) -> list[dict]:
    records = Records(store) if store is not None else None
    done: dict[tuple, dict] = {(r["method"], r["d"], r["run"]): r for r in records or ()}
    for run in range(runs):
        jobs = [(m, d, run) for m in METHODS for d in sizes]
        problem = draw(run, n) if any(job not in done for job in jobs) else None
        for job in jobs:
            if job not in done:
                found = one_fit(problem, *job)
                done[job] = found if records is None else records.add({**found, "seed": run})
    return [done[m, d, r] for m in METHODS for d in sizes for r in range(runs)]


def summarise(fits: list[dict]) -> list[dict]:
    rows = []
    for method in METHODS:
        for d in sorted({f["d"] for f in fits}):
            part = [f for f in fits if f["method"] == method and f["d"] == d]
            kl = np.array([f["kl"] for f in part])
            overlaps = [f["overlap"][-1] for f in part if f["overlap"]]
            rows.append(
                {
                    "method": method,
                    "d": d,
                    "median KL": round(float(np.median(kl)), 3),
                    "quartiles": np.quantile(kl, [0.25, 0.75]).round(3).tolist(),
                    "largest KL": round(float(kl.max()), 2),
                    **{
                        f"median {n}": round(float(np.median([f[n] for f in part])), 5)
                        for n in ("lengthscale", "variance", "noise", "bias")
                    },
                    "seconds": round(float(np.mean([f["seconds"] for f in part])), 2),
                    "noise collapsed": int(sum(f["noise"] < 0.1 * NOISE for f in part)),
                    "noise warnings": int(sum(f["noise warning"] for f in part)),
                    "last overlap": round(float(np.median(overlaps)), 2) if overlaps else None,
                    "circles": int(sum(f["cycle"] for f in part)),
                }
            )
    return rows


def facts_of(rows: list[dict], fits: list[dict]) -> dict:
    at = next(r for r in rows if r["method"] == "ours" and r["d"] == 500)
    runs = [f for f in fits if f["method"] == "ours" and f["d"] == 500]
    collapsed = [f for f in fits if f["noise"] < 0.1 * NOISE]

    def within(name: str, truth: float, part: float) -> str:
        return f"{sum(abs(f[name] / truth - 1) <= part for f in runs)} of {len(runs)}"

    return {
        "ours, d = 500: median KL of a 500-row task (at most 2)": at["median KL"],
        "ours, d = 500: median length-scale, variance, noise (truth 1, 1, 0.01)": [
            at["median lengthscale"],
            at["median variance"],
            at["median noise"],
        ],
        "ours, d = 500: runs with the length-scale within 15 %": within("lengthscale", 1.0, 0.15),
        "ours, d = 500: runs with the variance within 15 %": within("variance", 1.0, 0.15),
        "ours, d = 500: runs with the noise within 20 %": within("noise", NOISE, 0.2),
        "noise below a tenth of the truth, all methods and d": len(collapsed),
        "of these with a warning": sum(f["noise warning"] for f in collapsed),
    }


COLOURS = {"ours": "#0072B2", "ours, random": "#56B4E9", "paper": "#009E73", "paper, random": "#D55E00"}


def picture(rows: list[dict]) -> Figure:
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 3.8), layout="constrained")
        for ax, by in zip(figure.subplots(1, 2, sharey=True), ("d", "seconds"), strict=True):
            for method, colour in COLOURS.items():
                part = [r for r in rows if r["method"] == method]
                x, y = [r[by] for r in part], [r["median KL"] for r in part]
                dashed = figures.DASHES if "random" in method else "-"
                ax.plot(x, y, color=colour, marker="o", ms=3.5, lw=1.5, ls=dashed, label=method)
                if by == "d":
                    low, high = np.array([r["quartiles"] for r in part]).T
                    ax.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)
            ax.axhline(2.0, color=figures.MUTED, lw=0.8, ls=":")
            ax.set(yscale="log", xlabel="active rows d" if by == "d" else "processor seconds of a fit")
            if by == "seconds":
                ax.set_xscale("log")
        figure.axes[0].set_ylabel("KL to the truth, 500 fresh rows, median of runs")
        figure.axes[0].set_title("By rows")
        figure.axes[1].set_title("By time")
        figure.axes[1].legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    fits = run_all(runs, store=ROOT / "out" / "lawrence2004_regression.jsonl")
    rows = summarise(fits)
    facts = facts_of(rows, fits)
    for entry in [*rows, *facts.items()]:
        sys.stdout.write(f"{entry}\n")
    made_with = settings_of({m: {**START, **given} for m, given in METHODS.items()})
    content = {"seeds": [0, runs - 1], "settings": made_with, "facts": facts, "table": rows}
    write_result("lawrence2004_regression", content, fits)
    figures.save(picture(rows), FIGURES / "lawrence2004_regression")


if __name__ == "__main__":
    main()
