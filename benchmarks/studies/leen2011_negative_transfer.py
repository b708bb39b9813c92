"""Does a secondary task ever hurt? Six primary rows, forty secondary rows, two hundreds of draws of each family.

    python benchmarks/studies/leen2011_negative_transfer.py [--draws 100] [--minutes 5]

The secondary is the same function, its negative, a rougher unrelated function (lengthscale 0.4 against 1), a copy moved
along the input by 0.3 lengthscales (and, as a harder case without a target, by 0.5), or pure noise. Mean squared error
of the primary on [-5, 5]; medians over draws, as ratios to no transfer, of all draws together and of each hundred
(seeds from 5000 and from 6000). Every GP has the same priors and the same column scales, because all are fitted to the
same table. Every draw is a record in out/leen2011_negative_transfer.jsonl with its commit and seed and is not repeated;
--minutes begins no draw after so many, and the result says how many draws it rests on.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from sklearn.linear_model import RidgeCV

import borrow
from borrow.datasets import transfer_family
from results import ROOT, Records, settings_of, write_result

TARGETS = {"same": 0.3, "negated": 0.3, "shifted": 0.6, "unrelated": 1.05, "noise": 1.08, "shifted far": None}
FIRST = (5000, 6000)  # seed of the first draw of each hundred
METHODS = {
    "focused": lambda: borrow.FocusedGPRegressor(primary="primary"),
    "focused, no prior on rho": lambda: borrow.FocusedGPRegressor(primary="primary", rho_prior=None),
    "single": borrow.SingleTaskGPRegressor,
    "pooled": borrow.PooledGPRegressor,
}


def one_draw(family: str, seed: int) -> dict[str, Any]:
    """The squared error of every method, and whether ours dropped the relation."""
    shift = 0.5 if family == "shifted far" else 0.3
    problem = transfer_family(family.removesuffix(" far"), shift=shift, random_state=seed)
    out: dict[str, Any] = {"family": family, "seed": seed}
    for name, make in METHODS.items():
        model = make().fit(problem.X, problem.y, tasks=problem.tasks)
        out[name] = float(np.mean((model.predict(problem.X_test, tasks="primary") - problem.f_test) ** 2))
        if name == "focused":
            out["dropped"] = float(model.rho_["secondary"] == 0.0)
    ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(problem.X[:6], problem.y[:6])
    out["ridge"] = float(np.mean((ridge.predict(problem.X_test) - problem.f_test) ** 2))
    return out


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each family: medians over all draws, and of ours over each hundred."""
    table = []
    for family, target in TARGETS.items():
        draws = [r for r in records if r["family"] == family]
        hundreds = [[r for r in draws if first <= r["seed"] < first + 1000] for first in FIRST]
        median = {m: float(np.median([d[m] for d in draws])) for m in [*METHODS, "ridge"]}
        ratios = np.array([d["focused"] / d["single"] for d in draws])
        each = [np.median([d["focused"] for d in h]) / np.median([d["single"] for d in h]) for h in hundreds if h]
        row = {
            "family": family,
            "draws": len(draws),
            "median error, single": round(median["single"], 4),
            **{f"{m} / single": round(v / median["single"], 3) for m, v in median.items() if m != "single"},
            "at most": target,
            "focused / single of each hundred": [round(float(v), 3) for v in each],
            "quartiles of focused / single by draw": [
                round(float(q), 3) for q in np.quantile(ratios, [0.25, 0.5, 0.75])
            ],
            "nine tenths of draws are below": round(float(np.quantile(ratios, 0.9)), 3),
            "relation dropped, draws": int(sum(d["dropped"] for d in draws)),
        }
        table.append(row)
        sys.stdout.write(f"{row}\n")
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=100, help="of each hundred")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no draw after so many")
    given = parser.parse_args()
    kept, until = Records(ROOT / "out" / "leen2011_negative_transfer.jsonl"), time.monotonic() + 60 * given.minutes
    done = {(r["family"], r["seed"]) for r in kept}
    for k in range(given.draws):
        for job in ((family, first + k) for first in FIRST for family in TARGETS):
            if job not in done and time.monotonic() < until:
                kept.add(one_draw(*job))
    there = {(r["family"], r["seed"]) for r in kept}
    whole = [r for r in kept if all((family, r["seed"]) in there for family in TARGETS)]
    hundreds = [[r["seed"] for r in whole if first <= r["seed"] < first + 1000] for first in FIRST]
    seeds = [[min(h), max(h)] for h in hundreds if h]
    content = {"seeds": seeds, "settings": settings_of({m: make() for m, make in METHODS.items()})}
    write_result("leen2011_negative_transfer", {**content, "table": summarise(whole)}, whole)


if __name__ == "__main__":
    main()
