"""Does a secondary task ever hurt? Six primary rows, forty secondary rows, twenty draws of each family.

    python benchmarks/studies/leen2011_negative_transfer.py [--draws 20] [--first 0]

The secondary is the same function, its negative, a rougher unrelated function (lengthscale 0.4 against 1), a copy moved
along the input by 0.3 lengthscales (and, as a harder case without a target, by 0.5), or pure noise. Mean squared error
of the primary on [-5, 5]; medians over draws, as ratios to no transfer. Every GP has the same priors and the same
column scales, because all are fitted to the same table.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from joblib import Parallel, delayed
from sklearn.linear_model import RidgeCV

import borrow
from borrow.datasets import transfer_family
from results import write_result

TARGETS = {"same": 0.3, "negated": 0.3, "shifted": 0.6, "unrelated": 1.05, "noise": 1.08, "shifted far": None}
METHODS = {
    "focused": lambda: borrow.FocusedGPRegressor(primary="primary"),
    "focused, no prior on rho": lambda: borrow.FocusedGPRegressor(primary="primary", rho_prior=None),
    "single": borrow.SingleTaskGPRegressor,
    "pooled": borrow.PooledGPRegressor,
}


def one_draw(family: str, seed: int) -> dict:
    shift = 0.5 if family == "shifted far" else 0.3
    problem = transfer_family(family.removesuffix(" far"), shift=shift, random_state=seed)
    errors = {}
    for name, make in METHODS.items():
        model = make().fit(problem.X, problem.y, tasks=problem.tasks)
        errors[name] = float(np.mean((model.predict(problem.X_test, tasks="primary") - problem.f_test) ** 2))
        if name == "focused":
            errors["dropped"] = float(model.rho_["secondary"] == 0.0)
    ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(problem.X[:6], problem.y[:6])
    errors["ridge"] = float(np.mean((ridge.predict(problem.X_test) - problem.f_test) ** 2))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.draws)
    table = []
    for family, target in TARGETS.items():
        draws = Parallel(n_jobs=2)(delayed(one_draw)(family, s) for s in seeds)
        median = {m: float(np.median([d[m] for d in draws])) for m in [*METHODS, "ridge"]}
        ratios = np.array([d["focused"] / d["single"] for d in draws])
        row = {
            "family": family,
            "median error, single": round(median["single"], 4),
            **{f"{m} / single": round(v / median["single"], 3) for m, v in median.items() if m != "single"},
            "at most": target,
            "quartiles of focused / single by draw": [
                round(float(q), 3) for q in np.quantile(ratios, [0.25, 0.5, 0.75])
            ],
            "relation dropped, draws": int(sum(d["dropped"] for d in draws)),
        }
        table.append(row)
        sys.stdout.write(f"{row}\n")
    name = "leen2011_negative_transfer" + (f"_{arguments.first}" if arguments.first else "")
    write_result(name, {"seeds": [seeds.start, seeds.stop - 1], "table": table})


if __name__ == "__main__":
    main()
