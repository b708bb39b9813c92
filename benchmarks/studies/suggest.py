"""How many compiler settings must be tried on a new program before one within 1 % of the best is found?

    python benchmarks/studies/suggest.py [--programs 11] [--draws 3] [--only focused,...] [--most 60] [--minutes 5]

Each of the eleven programs in turn is the new one: 640 settings can be measured on it, 3 random ones have been. Of the
other programs 32 random settings each are known. A method fits its model, names the next settings by expected
improvement, two at a time, and so on until a setting within 1 % of the best speedup of all 640 has been measured, or
`--most` have. Methods with transfer: the focused and the symmetric GP, the symmetric GP that takes all tasks for alike,
and BoTorch's MultiTaskGP with its LogEI. Without: a single-task GP of this library, one of scikit-learn with a Matern
kernel (as scikit-optimize has it), random search. A search that needs more than `--limit` seconds of the processor is
ended, and counts as one that found nothing.

The first setting that a method names is the fourth that is measured: no median below 4 is possible unless half of the
draws begin with a setting that is good enough, so the mean and the share of searches that need no more are shown too.

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


def alike() -> Any:
    """All tasks are alike, K^f = a 11' + b I: every two are positively related, as much as the others."""
    return borrow.MultiTaskGPRegressor(task_covariance="uniform")


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


def by_botorch(first: int = 75, later: int = 25) -> Choose:
    """BoTorch's MultiTaskGP with its LogEI at every setting not yet measured; in a batch the first is believed.

    Targets have mean 0 and variance 1 in each task. The first fit of a search takes so many steps of L-BFGS at most,
    later ones go on from what the one before found.
    """
    import torch
    from botorch.acquisition.analytic import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import MultiTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    known: dict[str, Any] = {}

    def choose(X: Any, at: list[int], y: Any, others: tuple[Any, Any, Any]) -> list[int]:
        labels = sorted(set(others[2]))
        task = np.append(np.zeros(len(at)), [1 + labels.index(t) for t in others[2]])
        level = {0: (np.mean(y), max(np.std(y), 1e-9))}
        for k, label in enumerate(labels):
            own = others[1][others[2] == label]
            level[k + 1] = own.mean(), own.std()
        own_level, scale = np.array([level[int(t)] for t in task]).T
        target = torch.tensor((np.append(y, others[1]) - own_level) / scale)[:, None]
        rows = torch.tensor(np.column_stack([np.vstack([X[at], others[0]]), task]))
        model = MultiTaskGP(rows, target, task_feature=-1, output_tasks=[0], outcome_transform=None)
        if known:
            model.load_state_dict(known)
        options = {"maxiter": later if known else first}
        fit_gpytorch_mll(
            ExactMarginalLogLikelihood(model.likelihood, model),
            optimizer_kwargs={"options": options},
            max_attempts=1,
            warning_handler=lambda w: True,  # that the steps were used up is meant
        )
        known.update(model.state_dict())
        chosen: list[int] = []
        for _ in range(BATCH):
            free = np.setdiff1d(np.arange(len(X)), [*at, *chosen])
            candidates = torch.tensor(X[free])
            gain = LogExpectedImprovement(model, best_f=target[rows[:, -1] == 0].max())
            with torch.no_grad():
                best = int(gain(candidates[:, None, :]).argmax())
                mean = model.posterior(candidates[best : best + 1]).mean
            chosen.append(int(free[best]))
            rows = torch.cat([rows, torch.tensor([[*X[chosen[-1]], 0.0]])])
            target = torch.cat([target, mean])
            model.set_train_data(rows, target[:, 0], strict=False)
        return chosen

    return choose


def methods(seed: int) -> dict[str, Callable[[], Choose]]:
    """By name, each made anew for a search; all are asked in the same way."""
    return {
        "random": lambda: at_random(seed),
        "scikit-learn + EI": lambda: by_scikit_learn,
        "single-task GP + EI": lambda: by_borrow(borrow.SingleTaskGPRegressor, False),
        "focused GP + EI": lambda: by_borrow(lambda: borrow.FocusedGPRegressor(primary="new"), True),
        "symmetric GP + EI": lambda: by_borrow(borrow.MultiTaskGPRegressor, True),
        "tasks alike + EI": lambda: by_borrow(alike, True),
        "BoTorch MultiTaskGP + LogEI": by_botorch,
    }


def search(
    choose: Choose, program: int, seed: int, most: int, data: Any, limit: float = float("inf")
) -> dict[str, Any]:
    """Measure until a setting is within 1 % of the best; after `limit` seconds of the processor none is named anew."""
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
    while max(y[at]) < CLOSE * y.max() and len(at) < most and time.process_time() - started < limit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            at += choose(X, at, y[at], others)
        trace.append(float(max(y[at]) / y.max()))
    found = bool(max(y[at]) >= CLOSE * y.max())
    first = int(np.argmax(y[at] >= CLOSE * y.max())) + 1 if found else most
    return {
        "measurements": first,
        "found": found,
        "made": len(at),
        "trace": trace,
        "seconds": time.process_time() - started,
    }


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
            "mean measurements": float(count.mean()),
            "found by the first setting named": float(np.mean(count <= FIRST + 1)),
            "not found": sum(not r["found"] for r in own),
            "ended by the limit": sum(not r["found"] and r["made"] < r["most"] for r in own),
            "by program": {
                p: float(np.median([r["measurements"] for r in own if r["program"] == p]))
                for p in sorted({r["program"] for r in own})
            },
            "processor seconds per measurement": float(
                sum(r["seconds"] for r in own) / max(1, sum(r["made"] - FIRST for r in own))
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
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no search after so many")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of the processor that a search may take")
    given = parser.parse_args(arguments)
    data, commit, until = load_compiler(), provenance()["commit"], time.monotonic() + 60.0 * given.minutes
    STORE.parent.mkdir(exist_ok=True)
    records = [json.loads(line) for line in STORE.read_text().splitlines()] if STORE.exists() else []
    done = {(r["program"], r["seed"], r["method"], r["most"]) for r in records}
    with STORE.open("a") as file:
        for seed in range(given.draws):
            for p in range(given.programs):
                for name, make in methods(seed).items():
                    about = (str(data.programs[p]), seed, name, given.most)
                    left_out = given.only and name not in given.only.split(",")
                    if about in done or left_out or time.monotonic() > until:
                        continue
                    found = search(make(), p, seed, given.most, data, given.limit)
                    record = {**dict(zip(("program", "seed", "method", "most"), about, strict=True)), "commit": commit}
                    records.append({**record, **found})
                    file.write(json.dumps(records[-1]) + "\n")
                    file.flush()
                    sys.stdout.write(f"{about}: {found['measurements']}, {found['seconds']:.0f} s\n")
                    sys.stdout.flush()
    summary = summarise([r for r in records if r["most"] == given.most])
    for name, row in summary.items():
        quartiles = "-".join(f"{v:g}" for v in row["quartiles"])
        middle = f"{row['median measurements']:5.1f} ({quartiles}), mean {row['mean measurements']:.1f}"
        sys.stdout.write(f"{name:32s} {middle}, none in {row['not found']}\n")
    asked = {name: getattr(given, name) for name in ("programs", "draws", "most", "limit")}
    about = {"settings": asked, "seeds": f"0 to {given.draws - 1}"}
    write_result("suggest", {**about, "methods": summary}, records)
    return summary


if __name__ == "__main__":
    main()
