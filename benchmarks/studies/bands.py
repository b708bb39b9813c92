"""Do bands of 90 % cover 90 %? Coverage and log density by method, number of rows and kind of function.

The primary task has 6, 10, 20 or 50 rows and is drawn from the model (a GP with a random lengthscale, in one column or
in three, and random noise), or is a step, which no smooth kernel fits. Two secondaries of 30 rows carry the primary's
function in part, beside one of their own. All is asked of new inputs of the primary: whether the function lies in
its band (mean +- 1.645 standard deviations), whether a new observation does, and the mean log density of observations.

`--as NAME` puts the figures beside those that are there, under that name; with `PYTHONPATH` at the source of another
commit these are that commit's. Public names only.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

import numpy as np
from scipy.stats import norm

import borrow
from borrow.kernels import SquaredExponential
from results import RESULTS, provenance, write_result

ROWS = (6, 10, 20, 50)
FAMILIES = ("model, 1 column", "model, 3 columns", "step")
METHODS = {
    "no transfer": lambda: borrow.SingleTaskGPRegressor(),
    "pooled": lambda: borrow.PooledGPRegressor(),
    "focused": lambda: borrow.FocusedGPRegressor(primary="primary"),
    "symmetric": lambda: borrow.MultiTaskGPRegressor(),
}
NINETY = float(norm.ppf(0.95))
#: What is measured of each fit.
FIGURES = ("function covered", "observation covered", "log density", "error", "deviation of the function")


def draw(family: str, rows: int, seed: int) -> dict[str, Any]:
    """Rows of three tasks, and new rows of the primary with the function's values and noisy ones."""
    rng = np.random.default_rng([FAMILIES.index(family), rows, seed])
    d, sizes = (3 if family == "model, 3 columns" else 1), (rows, 30, 30, 60)
    X = [rng.uniform(-4.0, 4.0, (n, d)) for n in sizes]
    A = np.vstack(X)
    ends = np.cumsum(sizes)[:-1]

    def function() -> Any:
        lengthscale = np.exp(rng.normal(0.0, 0.5)) * (1.5 if d == 1 else 3.0)
        K = SquaredExponential(1.0, lengthscale)(A) + 1e-9 * np.eye(len(A))
        return np.split(np.linalg.cholesky(K) @ rng.normal(size=len(A)), ends)

    step = np.where(A[:, 0] > rng.uniform(-2.0, 2.0), 1.0, -1.0)
    f = np.split(step, ends) if family == "step" else function()
    noise = 0.1 if family == "step" else np.exp(rng.normal(np.log(0.2), 0.7))
    y = [f[0], *(rng.choice([-1.0, 1.0]) * f[t] + 0.5 * function()[t] for t in (1, 2)), f[3]]
    y = [v + noise * rng.normal(size=len(v)) for v in y]
    task = np.repeat(["primary", "a", "b"], sizes[:3])
    return {"X": np.vstack(X[:3]), "y": np.concatenate(y[:3]), "task": task, "new": X[3], "f": f[3], "observed": y[3]}


def one_fit(name: str, problem: dict[str, Any]) -> list[float]:
    """`FIGURES` of one method on one draw."""
    mine = problem["task"] == "primary" if name == "no transfer" else np.ones(len(problem["y"]), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same noise of few rows, many times
        model = METHODS[name]().fit(problem["X"][mine], problem["y"][mine], tasks=problem["task"][mine])
    asked = {"tasks": np.full(len(problem["new"]), "primary"), "return_std": True}
    mean, std = model.predict(problem["new"], **asked)
    wide = model.predict(problem["new"], **asked, include_noise=True)[1]
    return [
        float(np.mean(np.abs(problem["f"] - mean) < NINETY * std)),
        float(np.mean(np.abs(problem["observed"] - mean) < NINETY * wide)),
        float(np.mean(norm.logpdf(problem["observed"], mean, wide))),
        float(np.sqrt(np.mean((problem["f"] - mean) ** 2))),
        float(np.mean(std)),
    ]


def measure(methods: list[str], rows: tuple[int, ...], seeds: range) -> dict[str, Any]:
    """Means of `FIGURES` over the draws, by family, method and rows."""
    table: dict[str, Any] = {}
    for family in FAMILIES:
        for n in rows:
            problems = [draw(family, n, s) for s in seeds]
            for name in methods:
                found = np.mean([one_fit(name, p) for p in problems], axis=0)
                line = {figure: round(float(v), 3) for figure, v in zip(FIGURES, found, strict=True)}
                table.setdefault(family, {}).setdefault(name, {})[str(n)] = line
                sys.stdout.write(f"{family}, {n} rows, {name}: {line}\n")
                sys.stdout.flush()
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--as", dest="name", default="now")
    parser.add_argument("--commit", default=None, help="of the source that PYTHONPATH names")
    arguments = parser.parse_args()
    table = measure(list(METHODS), ROWS, range(arguments.draws))
    path = RESULTS / "bands.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    runs = before.get("runs", {})
    runs[arguments.name] = {
        "commit": arguments.commit or provenance()["commit"],
        "draws": arguments.draws,
        "table": table,
    }
    write_result("bands", {"seeds": "0 to draws - 1", "runs": runs})


if __name__ == "__main__":
    main()
