"""What the memory guard asks for before a fit, beside what the fit then takes.

    python benchmarks/memory_guard.py               prints, writes docs/results/memory_guard.json
    python benchmarks/memory_guard.py --only NAME   the cases whose name holds NAME; writes nothing

Every case runs in a process of its own, on one thread. Taken is the peak of resident memory less what the process had
after the fit of a few rows. A ratio of 1 is a guard that is exact; below 1 it lets through what will not fit.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import json
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import borrow
from borrow.kernels import Linear
from borrow.numerics import memory

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "docs" / "results" / "memory_guard.json"
SIZES = (1000, 2000)
BRIEF: dict[str, Any] = {"max_iter": 2}
#: Estimator, its settings, tasks, and whether all tasks have the same inputs.
CASES: dict[str, tuple[str, dict[str, Any], int, bool]] = {
    "single": ("SingleTaskGPRegressor", BRIEF, 1, False),
    "single, two tasks": ("SingleTaskGPRegressor", BRIEF, 2, False),
    "single, labels": ("SingleTaskGPClassifier", BRIEF, 1, False),
    "pooled, exact": ("PooledGPRegressor", {**BRIEF, "inducing": None}, 2, False),
    "pooled, exact, labels": ("PooledGPClassifier", {**BRIEF, "inducing": None}, 2, False),
    "multi-task, dense": ("MultiTaskGPRegressor", BRIEF, 3, False),
    "multi-task, dense, labels": ("MultiTaskGPClassifier", BRIEF, 3, False),
    "focused": ("FocusedGPRegressor", {**BRIEF, "primary": 0, "n_restarts": 0}, 2, False),
    "focused, labels": ("FocusedGPClassifier", {**BRIEF, "primary": 0, "n_restarts": 0}, 2, False),
    "hierarchical": ("HierarchicalGPRegressor", BRIEF, 10, False),
    "hierarchical, linear": ("HierarchicalGPRegressor", {**BRIEF, "base_kernel": Linear()}, 10, False),
    "hierarchical, labels": ("HierarchicalGPClassifier", BRIEF, 10, False),
    "informative vectors": ("MultiTaskIVMRegressor", {"n_active": 300, "max_iter": 2}, 2, False),
    "informative vectors, labels": ("MultiTaskIVMClassifier", {"n_active": 300, "max_iter": 2}, 2, False),
    "radial basis functions": ("MultiTaskRBFRegressor", {"candidates": "all", "n_basis": 10}, 3, False),
    "regularized": ("RegularizedMultiTaskClassifier", {}, 3, False),
    "covariance of predictions": ("PooledGPRegressor", {**BRIEF, "inducing": 20}, 2, False),
}


def table(n: int, M: int, classes: bool, columns: int) -> tuple[Any, Any, Any]:
    """Rows of M tasks."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, columns))
    f = np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=n)
    return X, (f > 0.0).astype(int) if classes else f, np.arange(n) % M


def measure(name: str, n: int) -> dict[str, float]:
    """Bytes asked for and bytes taken, in this process."""
    kind, settings, M, _ = CASES[name]
    columns = n // 2 if "linear" in name else 2
    asked, compare = [0.0], memory.compare

    def noted(n_bytes: float, *args: Any) -> None:
        asked.append(n_bytes)
        compare(n_bytes, *args)

    def fit(rows: int) -> Any:
        X, y, tasks = table(rows, M, kind.endswith("Classifier"), columns)
        model = getattr(borrow, kind)(**settings).fit(X, y, tasks)
        if name == "covariance of predictions":
            memory.compare = noted
            model.predict(X, tasks, return_cov=True)
        return model

    warnings.simplefilter("ignore")  # two iterations are too few for all of them
    fit(60)
    memory.compare = noted
    asked.clear()
    before = psutil.Process().memory_info().rss
    model = fit(n)
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0 - before
    del model
    return {"asked": max(asked, default=0.0), "taken": taken}


def main() -> None:
    """Measure all cases at both sizes."""
    if sys.argv[1:2] == ["--case"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
        return
    only = sys.argv[2] if sys.argv[1:2] == ["--only"] else ""
    found = []
    for name in (case for case in CASES if only in case):
        for n in SIZES:
            command = [sys.executable, __file__, "--case", name, str(n)]
            out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            found.append({"case": name, "rows": n, **out, "ratio": out["asked"] / out["taken"]})
            per_square = " ".join(f"{out[w] / (8.0 * n * n):6.2f}" for w in ("asked", "taken"))
            print(f"{name:30s} {n:6d} rows  n^2 numbers {per_square}  ratio {found[-1]['ratio']:.2f}", flush=True)
    if not only:
        OUTPUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
