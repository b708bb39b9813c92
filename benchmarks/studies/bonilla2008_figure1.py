"""Figure 1 of Bonilla, Chai & Williams (2008): error against the number of settings measured for each program.

    python benchmarks/studies/bonilla2008_figure1.py [--data compiler spear polybench] [--methods NAME ...]
                                                     [--sizes 16 ...] [--minutes 5] [--report]

The paper's programs and transformations were never published. Stand-ins: the compiler data of this project (11
programs, 13 flags, instruction counts), SPEAR (10 environments, 14 options, solving time in seconds) and PolyBench (30
programs, 7 flags, speed-up). In each replication every program gets its own random settings (16, 32, 64, 128;
PolyBench has 128 in all and stops at 64); the error is the mean absolute error on the rest (SPEAR: 1,000 of the rest,
drawn at random), per program and on average. Replication r of size n draws from seed [r, n]; there are ten of 16 and
32 settings, five of 64 and three of 128 (`REPLICATIONS`): a fit of 128 costs fifty times one of 16, and its error
scatters a tenth as much from one to the next.

Methods, each labelled by its settings (`models`): no transfer, with our priors and by maximum likelihood; pooled (one
GP, targets as they are); diagonal K^f (only the kernel is shared); parametric (kernel on task features; nothing is
known of SPEAR's environments that could be one); the paper's parametric and free form (one kernel for all tasks, shared
noise, no prior, lengthscales from 1, iterated until they converge), the latter by EM in some replications too; ours
differs in two things, each also changed alone: noise of each task, the prior on K^f; our free form (both); the defaults
(which tasks share is decided by evidence); rank 1 + diagonal; the model chosen for each program by leave-one-out
absolute error among `CHOICES`; ridge per program (main effects).

Every fit is a record in out/bonilla2008_<data>_fits.jsonl with its commit and seed, and is not repeated; --minutes
begins no fit after so many, --report makes none. The result is bonilla2008_<data>.json, every method beside no transfer
on the same replications, with their number; and the figure.
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
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV

import borrow
from borrow import plot as figures
from borrow.datasets.shared_data import Responses, load_polybench, load_spear
from borrow.kernels import SquaredExponential
from results import FIGURES, ROOT, Records, commits_of, settings_of, with_earlier, write_result

SIZES = {"compiler": (16, 32, 64, 128), "spear": (16, 32, 64, 128), "polybench": (16, 32, 64)}
REPLICATIONS = {16: 10, 32: 10, 64: 5, 128: 3}
CHOICES = ("no transfer", "diagonal", "free form", "rank 1 + diagonal")
LIKELIHOOD = "no transfer, maximum likelihood"
BY_EM = "free form, paper, by EM"
METHODS = (
    "no transfer",
    LIKELIHOOD,
    "pooled",
    "diagonal",
    "parametric",
    "parametric, paper",
    "free form, paper",
    BY_EM,
    "free form, own noise, no prior on K^f",
    "free form, shared noise, prior on K^f",
    "free form",
    "defaults",
    "rank 1 + diagonal",
    "chosen",
    "ridge",
)
#: Thirty programs of 64 rows (1,920 rows, 465 entries of K^f) take hours without a prior on K^f: left out, and so is
#: what is changed one thing at a time.
LEFT_OUT = {("polybench", 64): tuple(m for m in METHODS if m.startswith(("free form,", "parametric,")))}
EM_SIZE, EM_DRAWS = 16, 3  # EM takes many times as long as the gradient: of this size so many, none of PolyBench


def load(data: str) -> Responses:
    if data == "spear":
        return load_spear()
    if data == "polybench":
        return load_polybench()
    from borrow.datasets import load_compiler

    table = load_compiler()
    return Responses(table.X, table.speedup, table.programs, table.flags, table.features)


def models(table: Responses) -> dict[str, Any]:
    """The methods by name; "free form" is one kernel for all tasks, as in the paper."""
    M, d = len(table.tasks), table.X.shape[1]
    multi, ones = borrow.MultiTaskGPRegressor, SquaredExponential(1.0, (1.0,) * d)
    free, plain = {"specific_kernel": None}, {"share_noise": True, "task_prior": None, "prior": None, "max_iter": 2000}
    out = {
        "no transfer": borrow.SingleTaskGPRegressor(),
        LIKELIHOOD: borrow.SingleTaskGPRegressor(kernel=ones, prior=None, max_iter=2000),
        "pooled": borrow.PooledGPRegressor(normalize_y="common", max_iter=200),
        "diagonal": multi(task_covariance="diagonal"),
        "free form, paper": multi(kernel=ones, **plain, **free),
        BY_EM: multi(kernel=ones, solver="em", **plain, **free),
        "free form, own noise, no prior on K^f": multi(task_prior=None, **free),
        "free form, shared noise, prior on K^f": multi(share_noise=True, **free),
        "free form": multi(**free),
        "defaults": multi(),
        "rank 1 + diagonal": multi(rank=1, diagonal="free"),
        "ridge": RidgeCV(np.logspace(-4, 4, 17)),
    }
    if table.features is not None:
        features, alike = {t: table.features[t] for t in range(M)}, (1.0,) * table.features.shape[1]
        out["parametric"] = multi(task_features=features)
        task = {"task_features": features, "task_kernel": SquaredExponential(1.0, alike)}
        out["parametric, paper"] = multi(kernel=ones, **task, **plain)
    return out


def one_fit(data: str, table: Responses, n: int, replication: int, name: str) -> dict:
    """One method on one draw of settings; warnings of the optimiser are counted, not hidden."""
    rng = np.random.default_rng([replication, n])
    M = len(table.tasks)
    draws = [rng.permutation(len(table.X)) for _ in range(M)]
    rest = [d[n : n + 1000] if data == "spear" else d[n:] for d in draws]
    X = np.vstack([table.X[d[:n]] for d in draws])
    y = np.concatenate([table.Y[d[:n], t] for t, d in enumerate(draws)])
    tasks = np.repeat(np.arange(M), n)
    out: dict = {"n": n, "replication": replication, "seed": [replication, n], "method": name}
    model, start = models(table)[name], time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        if name == "ridge":
            alone = [clone(model).fit(X[tasks == t], y[tasks == t]) for t in range(M)]
            answers = [alone[t].predict(table.X[r]) for t, r in enumerate(rest)]
        else:
            model.fit(X, y, tasks=tasks)
            answers = [model.predict(table.X[r], tasks=t) for t, r in enumerate(rest)]
    out |= {"seconds": time.process_time() - start, "warnings": len(caught)}
    out["converged"] = bool(getattr(model, "converged_", True))
    out["error"] = [
        float(np.mean(np.abs(a - table.Y[r, t]))) for t, (a, r) in enumerate(zip(answers, rest, strict=True))
    ]
    if name.startswith("free form, paper"):
        out["log evidence"] = float(model.log_marginal_likelihood_)
    if name in CHOICES:
        loo = model.leave_one_out()
        miss, of = np.abs(np.array(loo["y"]) - np.array(loo["mean"])), np.array(loo["task"])
        out["left out"] = [float(miss[of == t].mean()) for t in range(M)]
    return out


def run(data: str, jobs: int, sizes: list[int] | None, names: list[str], minutes: float) -> list[dict]:
    """What is not in out/ yet is computed; each fit is a line there, with its commit."""
    table, until = load(data), time.monotonic() + 60.0 * minutes
    records = Records(ROOT / "out" / f"bonilla2008_{data}_fits.jsonl")
    have = {(r["n"], r["replication"], r["method"]) for r in records}
    wanted = [n for n in SIZES[data] if sizes is None or n in sizes]
    ours = [m for m in names if m in models(table)]
    todo = [(n, r, m) for n in wanted for r in range(REPLICATIONS[n]) for m in ours if (n, r, m) not in have]
    todo = [job for job in todo if job[2] not in LEFT_OUT.get((data, job[0]), ())]
    by_em = {(EM_SIZE, r, BY_EM) for r in range(EM_DRAWS) if data != "polybench"}
    todo = [job for job in todo if job[2] != BY_EM or job in by_em]
    parallel = Parallel(n_jobs=jobs, batch_size=1, pre_dispatch=jobs, return_as="generator_unordered")
    for result in parallel(delayed(one_fit)(data, table, *job) for job in todo if time.monotonic() < until):
        records.add(result)
        sys.stderr.write(f"{data} {result['n']} {result['replication']} {result['method']} {result['seconds']:.0f} s\n")
    return [r for r in records if r["replication"] < REPLICATIONS[r["n"]]]


def with_chosen(records: list[dict]) -> list[dict]:
    """By size and replication: the errors of every method, and of the one that leave-one-out chooses for each task."""
    by: dict[tuple, dict] = {}
    for r in records:
        empty: dict = {"error": {}, "seconds": {}, "warnings": {}, "left out": {}, "converged": {}, "commit": {}}
        empty["log evidence"] = {}
        one = by.setdefault((r["n"], r["replication"]), {"n": r["n"], "replication": r["replication"], **empty})
        for what in (w for w in empty if w in r):
            one[what][r["method"]] = r[what]
    for one in by.values():
        if set(CHOICES) <= set(one["left out"]):
            M = len(one["error"]["no transfer"])
            one["choice"] = [min(CHOICES, key=lambda c, t=t, one=one: one["left out"][c][t]) for t in range(M)]
            one["error"]["chosen"] = [one["error"][c][t] for t, c in enumerate(one["choice"])]
            one["commit"]["chosen"] = one["commit"]["free form"]
    return list(by.values())


def sizes_of(data: str, results: list[dict]) -> list[int]:
    """Sizes that have results."""
    return [n for n in SIZES[data] if any(r["n"] == n for r in results)]


def rows_of(data: str, results: list[dict]) -> list[dict]:
    """Every method at every size, over the replications that it has in common with no transfer."""
    rows = []
    for n in sizes_of(data, results):
        for method in METHODS:
            part = [r for r in results if r["n"] == n and {method, "no transfer"} <= set(r["error"])]
            if not part:
                continue
            base = np.array([np.mean(r["error"]["no transfer"]) for r in part])
            mean = np.array([r["error"][method] for r in part]).mean(axis=1)  # replications x programs
            nats = {r["replication"]: round(r["log evidence"][method], 2) for r in part if method in r["log evidence"]}
            rows.append(
                {
                    "settings": n,
                    "method": method,
                    "replications": len(part),
                    **({"log evidence by replication": nats} if nats else {}),
                    "error": round(float(mean.mean()), 5),
                    "sd over replications": round(float(mean.std(ddof=1)), 5) if len(part) > 1 else None,
                    "error / no transfer": round(float(mean.mean() / base.mean()), 3),
                    "better than no transfer, replications": int(np.sum(mean < base)),
                    "median seconds": round(float(np.median([r["seconds"].get(method, 0.0) for r in part])), 2),
                    "optimiser warnings": int(sum(r["warnings"].get(method, 0) for r in part)),
                    "fits that did not converge": sum(not r["converged"].get(method, True) for r in part),
                    "records by commit": commits_of({"commit": r["commit"][method]} for r in part),
                }
            )
    return rows


def summarise(data: str, results: list[dict]) -> dict:
    table = load(data)
    programs = []
    for n in sizes_of(data, results):
        for method in ("free form", "defaults", "rank 1 + diagonal", "diagonal", "chosen"):
            part = [r for r in results if r["n"] == n and {method, "no transfer"} <= set(r["error"])]
            if not part:
                continue
            own = np.array([r["error"]["no transfer"] for r in part]).mean(axis=0)
            ours = np.array([r["error"][method] for r in part]).mean(axis=0)
            lost = {table.tasks[t]: round(float(ours[t] / own[t]), 3) for t in np.flatnonzero(ours > own)}
            row = {"settings": n, "method": method, "replications": len(part), "programs where sharing loses": lost}
            programs.append({**row, "records by commit": commits_of({"commit": r["commit"][method]} for r in part)})
    return {
        "table": merged(data, "table", rows_of(data, results)),
        "losses": merged(data, "losses", programs),
        "choices": {c: sum(r.get("choice", []).count(c) for r in results) for c in CHOICES},
    }


def per_program(data: str, results: list[dict]) -> list[dict]:
    """The mean error of every task, by method and size."""
    tasks, rows = load(data).tasks, []
    for n in sizes_of(data, results):
        for m in ("no transfer", LIKELIHOOD, "free form", "defaults", "free form, paper", "chosen"):
            part = [r for r in results if r["n"] == n and m in r["error"]]
            if part:
                error = np.mean([r["error"][m] for r in part], axis=0).round(5).tolist()
                row = {
                    "settings": n,
                    "method": m,
                    "replications": len(part),
                    "error": dict(zip(tasks, error, strict=True)),
                }
                rows.append({**row, "records by commit": commits_of({"commit": r["commit"][m]} for r in part)})
    return merged(data, "per program", rows)


def merged(data: str, part: str, rows: list[dict]) -> list[dict]:
    """With the rows that were not run again, in order."""
    key = ("settings", "method")
    both = with_earlier(f"bonilla2008_{data}", part, rows, key, "replications", lambda r: REPLICATIONS[r["settings"]])
    return sorted(
        (r for r in both if r["method"] in METHODS), key=lambda r: (r["settings"], METHODS.index(r["method"]))
    )


#: How the data are called in the title, and what a task is.
NAMES = {
    "compiler": ("Compiler data", "program"),
    "polybench": ("PolyBench", "program"),
    "spear": ("SPEAR", "environment"),
}
LINES = {
    "free form": figures.COLOURS["focused"],
    "chosen": "#009E73",
    "parametric": "#E69F00",
    "free form, paper": figures.COLOURS["pooled"],
}


def message(sizes: list[int], ratio: list[float]) -> str:
    """What the learnt covariance of tasks does to the error of all tasks."""
    better = [n for n, r in zip(sizes, ratio, strict=True) if r < 1]
    if not better:
        return "sharing loses at every size"
    if len(better) == len(sizes):
        return f"sharing helps at every size, most at {sizes[int(np.argmin(ratio))]} settings"
    return f"sharing helps up to {max(better)} settings, then it loses"


def draw(data: str, found: dict) -> Figure:
    """From the record: error over that of no transfer, for all tasks by method, and for each task by the learnt K^f."""
    name, task = NAMES[data]
    by = {(r["method"], r["settings"]): r["error / no transfer"] for r in found["table"]}
    sizes = sorted({r["settings"] for r in found["table"]})
    at = {n: i for i, n in enumerate(sizes)}
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        ends = []
        for method, colour in LINES.items():
            mine = [(at[n], by[method, n]) for n in sizes if (method, n) in by]
            if mine:
                x, y = zip(*mine, strict=True)
                wide = 2.2 if method == "free form" else 1.3
                left.plot(x, y, color=colour, lw=wide, marker="o", ms=3.5, zorder=4)
                ends.append((y[-1], x[-1], method, colour))
        for place, (y, x, method, colour) in zip(apart([e[0] for e in sorted(ends)]), sorted(ends), strict=True):
            left.annotate(method, (x, y), (x + 0.12, place), color=colour, fontsize=8, va="center")
        of = {(r["method"], r["settings"]): r["error"] for r in found["per program"]}
        ratios = {
            t: [of["free form", n][t] / of["no transfer", n][t] for n in sizes] for t in of["no transfer", sizes[0]]
        }
        order = sorted(ratios, key=lambda t: ratios[t][-1])
        named = [order[0], order[-1]]
        for t, y in ratios.items():
            colour = figures.COLOURS["focused"] if t == order[0] else figures.COLOURS["single"]
            looks = {"color": colour, "lw": 1.8, "zorder": 4} if t in named else {"color": "#B9B9B9", "lw": 0.9}
            right.plot(range(len(y)), y, **looks)
            if t in named:
                right.annotate(t, (len(y) - 1 + 0.08, y[-1]), color=colour, fontsize=8, va="center")
        ratio = [by["free form", n] for n in sizes]
        left.set_title(f"{name}: {message(sizes, ratio)}")
        lost = sum(y[-1] > 1 for y in ratios.values())
        right.set_title(f"At {sizes[-1]} settings it loses for {lost} of {len(ratios)} {task}s")
        for ax in (left, right):
            ax.plot((-0.2, len(sizes) - 1), (1, 1), color=figures.INK, lw=1.0, ls=figures.DASHES, zorder=3)
            ax.set_yscale("log", base=2)
            ax.set_yticks(
                ticks := [t for t in (0.25, 0.5, 0.7, 1, 1.4, 2, 4, 8) if inside(t, ratios, by)], map(str, ticks)
            )
            ax.minorticks_off()
            ax.set_xticks(range(len(sizes)), sizes)
            ax.set_xlim(-0.2, len(sizes) - 1 + 0.95)
            ax.set_xlabel(f"settings measured of each {task}")
        left.set_ylabel("error over that of no transfer (dashed: the same)")
    return figure


def apart(values: list[float], least: float = 0.055) -> list[float]:
    """Places for labels in rising order, so that none covers the next; on a scale of logarithms."""
    out = [np.log2(v) for v in values]
    for i in range(1, len(out)):
        out[i] = max(out[i], out[i - 1] + least * 2)
    return [float(2.0**v) for v in out]


def inside(tick: float, ratios: dict, by: dict) -> bool:
    values = [v for y in ratios.values() for v in y] + [v for (m, _), v in by.items() if m in LINES]
    return min(values) / 1.05 <= tick <= max(values) * 1.05


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--sizes", type=int, nargs="+", help="only these; what is in out/ already is kept")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no fit after so many")
    parser.add_argument("--report", action="store_true", help="no new fits")
    given = parser.parse_args()
    for data in given.data:
        minutes = 0.0 if given.report else given.minutes
        records = run(data, given.jobs, given.sizes, given.methods, minutes)
        results = with_chosen(records)
        made_with = settings_of(models(load(data)))
        found = summarise(data, results)
        found["per program"] = per_program(data, results)
        write_result(f"bonilla2008_{data}", {"seeds": "[replication, settings]", "settings": made_with, **found})
        if {(r["method"], r["settings"]) for r in found["table"]} >= {("free form", n) for n in SIZES[data]}:
            figures.save(draw(data, found), FIGURES / f"bonilla2008_{data}")
        for row in found["table"]:
            sys.stdout.write(f"{data} {row}\n")


if __name__ == "__main__":
    main()
