"""How many compiler settings must be tried on a new program before one within 1 % of the best is found?

    python benchmarks/studies/suggest.py [--programs 11] [--draws 3] [--only focused,...] [--most 60]

Each of the eleven programs in turn is the new one: 640 settings can be measured on it, 3 random ones have been. Of the
other programs 32 random settings each are known. A method fits its model, names the next settings by expected
improvement, two at a time, and so on until a setting within 1 % of the best speedup of all 640 has been measured, or
`--most` have. Methods with transfer: the focused and the symmetric GP and BoTorch's MultiTaskGP with its LogEI.
Without: a single-task GP of this library, one of scikit-learn with a Matern kernel (as scikit-optimize has it), random
search.

A record per program, draw and method is kept under out/, so that a run goes on where it stopped; figures go to
docs/results/suggest.json.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import borrow
from borrow.datasets import load_compiler
from results import ROOT, provenance, write_result

STORE = ROOT / "out" / "suggest.jsonl"
FIRST, KNOWN, BATCH, CLOSE = 3, 32, 2, 0.99

Choose = Callable[[Any, Any, Any, Any], list[int]]  # X of candidates, rows measured, y there, (X, y, task) of others


def by_borrow(build: Callable[[], Any], others_too: bool) -> Choose:
    """The next settings by `borrow.suggest` for one of our models."""

    def choose(X: Any, at: list[int], y: Any, others: tuple[Any, Any, Any]) -> list[int]:
        known, targets, task = X[at], y, np.array(["new"] * len(at))
        if others_too:
            known, targets = np.vstack([known, others[0]]), np.append(targets, others[1])
            task = np.append(task, others[2])
        free = np.setdiff1d(np.arange(len(X)), at)
        model = build().fit(known, targets, tasks=task)
        found = borrow.suggest(model, X[free], BATCH, tasks="new", primary="new", goal="maximise")
        return [int(free[i]) for i in found["row"]]

    return choose


def at_random(seed: int) -> Choose:
    rng = np.random.default_rng([seed, 640])
    return lambda X, at, y, others: [int(i) for i in rng.permutation(np.setdiff1d(np.arange(len(X)), at))[:BATCH]]


def by_scikit_learn(X: Any, at: list[int], y: Any, others: Any) -> list[int]:
    """Expected improvement on a GP of scikit-learn, Matern 5/2 with one lengthscale per column, believer in a batch."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    d, at, y = X.shape[1], list(at), np.asarray(y)
    kernel = ConstantKernel() * Matern(np.ones(d), (0.05, 50.0), nu=2.5) + WhiteKernel(0.1, (1e-6, 10.0))
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0).fit(X[at], y)
    chosen = []
    for _ in range(BATCH):
        free = np.setdiff1d(np.arange(len(X)), at)
        mean, std = model.predict(X[free], return_std=True)
        z = (mean - max(y)) / std
        best = int(free[np.argmax((mean - max(y)) * norm.cdf(z) + std * norm.pdf(z))])
        chosen.append(best)
        at, y = [*at, best], np.append(y, model.predict(X[[best]]))
        fixed = GaussianProcessRegressor(model.kernel_, normalize_y=True, optimizer=None)
        model = fixed.fit(X[at], y)
    return chosen


def by_botorch(X: Any, at: list[int], y: Any, others: tuple[Any, Any, Any]) -> list[int]:
    """BoTorch's MultiTaskGP with LogEI, greedy in a batch with pending points."""
    import torch
    from botorch.acquisition.logei import qLogNoisyExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import MultiTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(0)
    labels = sorted(set(others[2]))
    task = np.append(np.zeros(len(at)), [1 + labels.index(t) for t in others[2]])
    scaled = np.append((y - np.mean(y)) / max(np.std(y), 1e-9), np.zeros(len(others[1])))
    for k in range(len(labels)):
        rows = np.flatnonzero(task == k + 1)
        own = others[1][rows - len(at)]
        scaled[rows] = (own - own.mean()) / own.std()
    rows = np.column_stack([np.vstack([X[at], others[0]]), task])
    model = MultiTaskGP(torch.tensor(rows), torch.tensor(scaled)[:, None], task_feature=-1, output_tasks=[0])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    chosen: list[int] = []
    for _ in range(BATCH):
        free = np.setdiff1d(np.arange(len(X)), [*at, *chosen])
        pending = torch.tensor(X[chosen]) if chosen else None
        gain = qLogNoisyExpectedImprovement(model, torch.tensor(X[at]), X_pending=pending, prune_baseline=True)
        with torch.no_grad():
            value = torch.cat([gain(part[:, None, :]) for part in torch.tensor(X[free]).split(64)])
        chosen.append(int(free[int(value.argmax())]))
    return chosen


def methods(seed: int) -> dict[str, Choose]:
    """By name; all are asked in the same way."""
    return {
        "random": at_random(seed),
        "scikit-learn + EI": by_scikit_learn,
        "single-task GP + EI": by_borrow(borrow.SingleTaskGPRegressor, False),
        "focused GP + EI": by_borrow(lambda: borrow.FocusedGPRegressor(primary="new"), True),
        "symmetric GP + EI": by_borrow(borrow.MultiTaskGPRegressor, True),
        "BoTorch MultiTaskGP + LogEI": by_botorch,
    }


def search(choose: Choose, program: int, seed: int, most: int, data: Any) -> dict[str, Any]:
    """Measure until a setting is within 1 % of the best."""
    rng = np.random.default_rng([seed, program])
    X, Y = np.asarray(data.X, dtype=float), np.asarray(data.speedup, dtype=float)
    at = [int(i) for i in rng.choice(len(X), FIRST, replace=False)]
    rest = [p for p in range(Y.shape[1]) if p != program]
    settings = {p: rng.choice(len(X), KNOWN, replace=False) for p in rest}
    others = (
        np.vstack([X[settings[p]] for p in rest]),
        np.concatenate([Y[settings[p], p] for p in rest]),
        np.repeat([data.programs[p] for p in rest], KNOWN),
    )
    y, started, trace = Y[:, program], time.process_time(), []
    while max(y[at]) < CLOSE * y.max() and len(at) < most:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            at += choose(X, at, y[at], others)
        trace.append(float(max(y[at]) / y.max()))
    found = bool(max(y[at]) >= CLOSE * y.max())
    first = int(np.argmax(y[at] >= CLOSE * y.max())) + 1 if found else most
    return {"measurements": first, "found": found, "trace": trace, "seconds": time.process_time() - started}


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Measurements per method: median over programs and draws, quartiles, how often none was found, by program."""
    out = {}
    for name in dict.fromkeys(r["method"] for r in records):
        own = [r for r in records if r["method"] == name]
        count = np.array([r["measurements"] for r in own])
        out[name] = {
            "runs": len(own),
            "median measurements": float(np.median(count)),
            "quartiles": np.percentile(count, [25, 75]).tolist(),
            "not found": sum(not r["found"] for r in own),
            "by program": {
                p: float(np.median([r["measurements"] for r in own if r["program"] == p]))
                for p in sorted({r["program"] for r in own})
            },
            "processor seconds per measurement": float(
                sum(r["seconds"] for r in own) / max(1, sum(r["measurements"] - FIRST for r in own))
            ),
            "commits": sorted({r["commit"] for r in own}),
        }
    return out


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=11)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--most", type=int, default=60)
    parser.add_argument("--only", help="methods, with commas")
    given = parser.parse_args(arguments)
    data, commit = load_compiler(), provenance()["commit"]
    STORE.parent.mkdir(exist_ok=True)
    records = [json.loads(line) for line in STORE.read_text().splitlines()] if STORE.exists() else []
    done = {(r["program"], r["seed"], r["method"], r["most"]) for r in records}
    with STORE.open("a") as file:
        for seed in range(given.draws):
            for p in range(given.programs):
                for name, choose in methods(seed).items():
                    about = (str(data.programs[p]), seed, name, given.most)
                    if about in done or (given.only and name not in given.only.split(",")):
                        continue
                    found = search(choose, p, seed, given.most, data)
                    record = {**dict(zip(("program", "seed", "method", "most"), about, strict=True)), "commit": commit}
                    records.append({**record, **found})
                    file.write(json.dumps(records[-1]) + "\n")
                    file.flush()
                    sys.stdout.write(f"{about}: {found['measurements']}, {found['seconds']:.0f} s\n")
                    sys.stdout.flush()
    summary = summarise([r for r in records if r["most"] == given.most])
    for name, row in summary.items():
        quartiles = "-".join(f"{v:g}" for v in row["quartiles"])
        sys.stdout.write(f"{name:28s} {row['median measurements']:5.1f} ({quartiles}), none in {row['not found']}\n")
    about = {"settings": vars(given), "seeds": f"0 to {given.draws - 1}"}
    write_result("suggest", {**about, "methods": summary}, records)
    return summary


if __name__ == "__main__":
    main()
