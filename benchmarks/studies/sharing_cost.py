"""What must a free K^f gain over nothing shared, for each further task? Chosen on drawn tables of switches.

    python benchmarks/studies/sharing_cost.py [--draws 8]

Seven switches, 16 settings of a primary and 32 or 64 of ten other tasks, targets of main effects and a few pairs: what
all have in common is a share of the variance, or nothing, or targets of the others are shuffled. Error of the symmetric
GP over that of no transfer on settings that the primary was not measured at, for each price (`sharing.COST`).
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import borrow
from borrow.models.multitask import sharing
from results import ROOT, Records, write_result

COSTS = (0.25, 0.4, 0.5, 0.8)
#: Name: the share of the variance that all tasks have in common, whether targets are shuffled, rows of the others.
TABLES = {
    "shuffled, 64 rows": (0.8, True, 64),
    "shuffled, 32 rows": (0.8, True, 32),
    "unrelated, 64 rows": (0.0, False, 64),
    "0.3 in common, 64 rows": (0.3, False, 64),
    "0.6 in common, 32 rows": (0.6, False, 32),
    "0.8 in common, 32 rows": (0.8, False, 32),
}
SWITCHES, PRIMARY_ROWS, OTHERS = 7, 16, 10


def draw(seed: int, share: float, shuffled: bool, rows: int) -> tuple[Any, ...]:
    """Rows of all tasks, and the settings of the primary that were not measured."""
    rng, d = np.random.default_rng([seed, 41]), SWITCHES
    grid = np.array(np.meshgrid(*[[0.0, 1.0]] * d)).reshape(d, -1).T

    def function() -> Any:
        main = rng.normal(size=d) * np.exp(rng.normal(size=d))
        pairs = rng.normal(size=(d, d)) * 0.5 * (rng.random((d, d)) < 0.2)
        v = grid @ main + np.einsum("ni,ij,nj->n", grid, pairs, grid)
        return (v - v.mean()) / v.std()

    common = function()
    Y = [np.sqrt(share) * common + np.sqrt(1.0 - share) * function() for _ in range(OTHERS + 1)]
    Y = [v * np.exp(0.5 * rng.normal()) + rng.normal() for v in Y]
    at = [rng.choice(len(grid), n, replace=False) for n in (PRIMARY_ROWS, *[rows] * OTHERS)]
    y = np.concatenate([Y[k][a] + 0.1 * rng.normal(size=len(a)) for k, a in enumerate(at)])
    task = np.repeat(np.arange(OTHERS + 1), [len(a) for a in at])
    for k in range(1, OTHERS + 1) if shuffled else ():
        mine = np.flatnonzero(task == k)
        y[mine] = y[rng.permutation(mine)]
    new = np.setdiff1d(np.arange(len(grid)), at[0])
    return np.vstack([grid[a] for a in at]), y, task, grid[new], Y[0][new]


def one(name: str, seed: int) -> dict[str, float]:
    """Error over no transfer's, by the price."""
    X, y, task, new, truth = draw(seed, *TABLES[name])
    own, zeros, found = task == 0, np.zeros(len(new), dtype=int), {}
    alone = borrow.SingleTaskGPRegressor().fit(X[own], y[own]).predict(new)
    for cost in COSTS:
        with patch.object(sharing, "COST", cost):
            mean = borrow.MultiTaskGPRegressor().fit(X, y, tasks=task).predict(new, tasks=zeros)
        found[str(cost)] = float(np.sqrt(np.mean((mean - truth) ** 2) / np.mean((alone - truth) ** 2)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=8)
    draws = range(parser.parse_args().draws)
    kept = Records(ROOT / "out" / "sharing_cost.jsonl")
    done = {(r["table"], r["seed"]) for r in kept}
    for name in TABLES:
        for seed in draws:
            if (name, seed) not in done:
                kept.add({"table": name, "seed": seed, "over no transfer": one(name, seed)})
    rows = []
    for name in TABLES:
        part = [r["over no transfer"] for r in kept if r["table"] == name]
        of = {c: np.array([r[c] for r in part]) for c in map(str, COSTS)}
        summary = {c: [float(np.median(v)), float(np.exp(np.log(v).mean())), float(v.max())] for c, v in of.items()}
        rows.append({"table": name, "draws": len(part), "median, geometric mean and worst": summary})
        sys.stdout.write(f"{rows[-1]}\n")
    write_result("sharing_cost", {"seeds": "0 to draws - 1", "rows": rows}, list(kept))


if __name__ == "__main__":
    main()
