"""Table 1 of Bonilla, Chai & Williams (2008): explained variance on the school data, ten 75/25 splits.

    python benchmarks/studies/bonilla2008_school.py [--splits 10] [--methods NAME ...] [--minutes 5] [--report]

Split s draws a random quarter of the 15,362 students for testing from seed s. Explained variance is
100 (1 - mean squared error / variance of the test scores), over all test students together (not the mean over schools).
Inputs are the 19 student dummies; tasks are the 139 schools, or the 288 distinct rows of school features.

Rows: no transfer as the paper ran it (raw scores, no prior, lengthscales from 1, noise from 0.01), the same started at
the scale of the scores, and with our defaults; pooled; K^f from a kernel on school features, averaged over years (139
tasks) and one task for each distinct row of features (288 tasks); ranks 1, 2, 3, 5, with our priors and as the paper
has them ("as printed": plain likelihood, one noise for all schools, raw scores; but the noise starts at 100, the
variance of the kernel on features at 400, students with equal inputs keep their scatter where the paper averages them,
and parametric fits are made in legs, below); rank 1 with a random intercept; a 11' + b I; ridge on all 27 inputs, alone
and with school intercepts. The multi-task rows but those as printed scale all scores by the same figures
(`normalize_y="common"`): scores are in the same units and a school's level carries information. The parametric rows,
too, are there with our priors and as printed. They factor 3,800 x 3,800 matrices: a fit is made in legs of at most ten
iterations, each a record that the next starts from, three on the first split and one on the others, which start where
the first ended.

Every fit is a record in out/bonilla2008_school.jsonl with its commit and seed, and is not repeated; --minutes begins no
fit after so many, --report makes none. The result is bonilla2008_school.json, every row with the splits that it rests
on; and the figure.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
import warnings
from pathlib import Path

import matplotlib
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV

import borrow
from borrow import plot as figures
from borrow.datasets.shared_data import School, load_school
from borrow.kernels import SquaredExponential
from results import FIGURES, ROOT, Records, commits_of, settings_of, with_earlier, write_result

COMMON = {"normalize_y": "common"}
PARAMETRIC = ("parametric, 139 tasks", "parametric, 288 tasks")
PARAMETRIC += tuple(f"{name}, as printed" for name in PARAMETRIC)
LEGS, LEG = 3, 10  # of a parametric fit to the first split; iterations of each
SPLITS = 10
PAPER = {  # Table 1 is missing from the text that we have: what its prose gives
    "no transfer, raw scores": 21.1,
    "parametric, 288 tasks, as printed": 33.08,
}
IN_LEGS = f"legs of {LEG} iterations, {LEGS} on split 0; on any other split one, from where split 0 ended"


def explained(y: np.ndarray, prediction: np.ndarray) -> float:
    return float(100.0 * (1.0 - np.mean((y - prediction) ** 2) / np.var(y)))


def models() -> dict:
    multi = borrow.MultiTaskGPRegressor
    plain = SquaredExponential(1.0, (1.0,) * 19)
    raw: dict = {"normalize_y": False, "prior": None, "max_iter": 100}
    return {
        "no transfer, raw scores": borrow.SingleTaskGPRegressor(kernel=plain, noise=0.01, **raw),
        "no transfer, raw scores, started at their scale": borrow.SingleTaskGPRegressor(
            kernel=SquaredExponential(400.0, (1.0,) * 19), noise=100.0, **raw
        ),
        "no transfer": borrow.SingleTaskGPRegressor(),
        "pooled": borrow.PooledGPRegressor(normalize_y="common", max_iter=100),
        **{f"rank {p}": multi(rank=p, **COMMON) for p in (1, 2, 3, 5)},
        **{
            f"rank {p}, as printed": multi(
                rank=p, kernel=plain, share_noise=True, task_prior=None, noise=100.0, **{**raw, "max_iter": 1000}
            )
            for p in (1, 2, 3, 5)
        },
        "rank 1 + intercept": multi(rank=1, intercept=True, **COMMON),
        "a 11' + b I": multi(task_covariance="uniform", **COMMON),
    }


def parametric(school: School, start: dict | None, name: str) -> borrow.MultiTaskGPRegressor:
    """The kernels and noises start where another leg ended, if one did."""
    features: object = [f"school {j}" for j in range(8)]
    if "139" in name:
        features = {int(s): school.X[school.school == s, 19:].mean(axis=0).tolist() for s in np.unique(school.school)}
    settings: dict = {"task_features": features, "max_iter": LEG}
    if name.endswith("as printed"):
        settings |= {"normalize_y": False, "prior": None, "share_noise": True, "task_prior": None, "noise": 100.0}
        settings |= {
            "kernel": SquaredExponential(1.0, (1.0,) * 19),
            "task_kernel": SquaredExponential(400.0, (1.0,) * 8),
        }
    else:
        settings |= COMMON
    for k, (variance, lengths) in (start or {}).get("kernels", {}).items():
        settings[k] = SquaredExponential(variance, tuple(lengths))
    if start and "noise" in settings:
        settings["noise"] = start["noise"]
    return borrow.MultiTaskGPRegressor(**settings)


def split_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(n)
    return order[n // 4 :], order[: n // 4]


def evaluate(school: School, seed: int, name: str, start: dict | None = None) -> dict:
    """One method on one split; warnings of the optimiser are counted, not hidden."""
    train, test = split_rows(len(school.score), seed)
    X, y, s = school.X, school.score, school.school
    out: dict = {"split": seed, "seed": seed, "method": name, "warnings": 0}
    begin = time.process_time()
    if name.startswith("ridge"):
        A = X.copy()
        A[:, 19:21] /= 100.0
        if name == "ridge with school intercepts":
            A = np.hstack([A, np.equal.outer(s, np.unique(s))])
        prediction = RidgeCV(np.logspace(-2, 3, 11)).fit(A[train], y[train]).predict(A[test])
    else:
        by_columns = "288" in name
        model = parametric(school, start, name) if name in PARAMETRIC else models()[name]
        names = [*(f"student {j}" for j in range(19)), *(f"school {j}" for j in range(8))]
        if by_columns:
            import pandas as pd

            table = pd.DataFrame(X, columns=names)
            rows, tasks = (table.iloc[train], table.iloc[test]), (None, None)
        else:
            rows, tasks = (X[train, :19], X[test, :19]), (s[train], s[test])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(rows[0], y[train], tasks=tasks[0])
            prediction = model.predict(rows[1], tasks=tasks[1])
        out["warnings"] = len(caught)
        out["path"] = getattr(model, "path_", "")
        out["iterations"] = model.n_iter_
        if name in PARAMETRIC:
            found = {"kernel": model.kernel_, "task_kernel": model.task_kernel_}
            out["kernels"] = {k: (v.variance, list(v.lengthscale)) for k, v in found.items()}
            out |= {"noise": float(np.mean(list(model.noise_.values()))), "converged": bool(model.converged_)}
    out["seconds"] = time.process_time() - begin
    out["explained"] = explained(y[test], prediction)
    out["mse"] = float(np.mean((y[test] - prediction) ** 2))
    return out


def run(splits: int, jobs: int, names: list[str], minutes: float) -> list[dict]:
    """The fits that are not yet in the file; of a parametric fit its legs, one after another."""
    school, until = load_school(), time.monotonic() + 60.0 * minutes
    done = Records(ROOT / "out" / "bonilla2008_school.jsonl")

    def work(todo: list[tuple]) -> None:
        have = {(r["split"], r["method"]) for r in done}
        left = (delayed(evaluate)(school, *t) for t in todo if t not in have and time.monotonic() < until)
        for result in Parallel(n_jobs=jobs, batch_size=1, pre_dispatch=jobs, return_as="generator_unordered")(left):
            keep(result)

    def keep(result: dict) -> None:
        done.add(result)
        sys.stderr.write(f"{result['split']} {result['method']} {result['explained']:.2f} {result['seconds']:.0f} s\n")

    wanted = [(s, n) for s in range(splits) for n in names]
    work([(s, n) for s, n in wanted if n not in PARAMETRIC])
    for s, n in ((s, n) for s, n in wanted if n in PARAMETRIC):
        for leg in range(LEGS if s == 0 else 1):
            legs = [r for r in done if (r["split"], r["method"]) == (s, n)]
            first = [r for r in done if (r["split"], r["method"]) == (0, n)]
            if len(legs) == leg and not (legs and legs[-1]["converged"]) and time.monotonic() < until:
                keep({**evaluate(school, s, n, (legs or first or [None])[-1]), "leg": leg})
    return [r for r in done if r["split"] < splits]


def summarise(results: list[dict], names: list[str]) -> list[dict]:
    by = {(r["method"], r["split"]): r for r in results}  # of a parametric fit the last leg
    splits = sorted({r["split"] for r in results})
    rows = []
    for name in names:
        part = [by[name, s] for s in splits if (name, s) in by]
        if not part:
            continue
        values = np.array([r["explained"] for r in part])
        ridge = np.array([by["ridge with school intercepts", s]["explained"] for s in splits if (name, s) in by])
        rows.append(
            {
                "method": name,
                "explained variance": round(float(values.mean()), 2),
                "sd": round(float(values.std(ddof=1)), 2) if len(values) > 1 else None,
                "mean squared error": round(float(np.mean([r["mse"] for r in part])), 2),
                "splits": len(part),
                "by split": {r["split"]: round(r["explained"], 2) for r in part},
                "splits above ridge with intercepts": int(np.sum(values > ridge)),
                "paper": PAPER.get(name),
                "path": part[0].get("path", ""),
                "median seconds": round(float(np.median([r["seconds"] for r in part])), 1),
                "optimiser warnings": int(sum(r["warnings"] for r in part)),
                "records by commit": commits_of(part),
            }
        )
    return rows


def picture(table: list[dict]) -> Figure:
    """Explained variance of every method, with what the paper prints."""
    shared = ("rank", "a 11", "parametric")
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 4.2), layout="constrained")
        ax = figure.subplots()
        for i, row in enumerate(reversed(table)):
            mean, sd = row["explained variance"], row["sd"] or 0.0
            own = figures.COLOURS["focused" if row["method"].startswith(shared) else "ridge"]
            ax.plot([mean - sd, mean + sd], [i, i], color=own, lw=2.2, alpha=0.45, solid_capstyle="round")
            ax.plot(mean, i, "o", color=own, ms=6)
            ax.annotate(
                f"{mean:.1f}", (mean + sd, i), (6, 0), textcoords="offset points", va="center", color=own, size=8
            )
            if row["method"] in PAPER:
                ax.plot(PAPER[row["method"]], i, "o", mfc="white", mec=figures.INK, ms=6)
        mean = {row["method"]: row["explained variance"] for row in table}
        ridge = mean["ridge with school intercepts"]
        gain = max(v for m, v in mean.items() if m.startswith(shared)) - ridge
        ax.axvline(ridge, color=figures.MUTED, lw=0.9, ls=figures.DASHES)
        ax.set_yticks(range(len(table)), [row["method"] for row in reversed(table)])
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("explained variance of the test scores, %: mean and standard deviation over ten splits")
        ax.set_title(f"School data: sharing gains {gain:.1f} points on ridge with a level per school", pad=22)
        figures.explain(ax, "blue: schools share; open: printed in the paper; dashed: ridge with school intercepts")
    return figure


def main() -> None:
    names = [*models(), *PARAMETRIC, "ridge", "ridge with school intercepts"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", nargs="+", default=names, choices=names)
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no fit after so many")
    parser.add_argument("--report", action="store_true", help="no new fits")
    given = parser.parse_args()
    records = run(given.splits, given.jobs, given.methods, 0.0 if given.report else given.minutes)
    fresh = summarise(records, names)
    rows = with_earlier("bonilla2008_school", "table", fresh, ("method",), "splits", lambda _: SPLITS)
    rows = sorted(rows, key=lambda r: names.index(r["method"]))
    if {r["method"] for r in rows} == set(names):
        figures.save(picture(rows), FIGURES / "bonilla2008_school")
    school = load_school()
    made_with = settings_of({**models(), **{name: parametric(school, None, name) for name in PARAMETRIC}})
    made_with |= {name: f"{made_with[name]}; {IN_LEGS}" for name in PARAMETRIC}
    write_result("bonilla2008_school", {"seeds": "split s draws from seed s", "settings": made_with, "table": rows})
    for row in rows:
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
