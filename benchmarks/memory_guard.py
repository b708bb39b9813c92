"""What the memory guard asks for before a fit or an answer, beside what that then takes.

    python benchmarks/memory_guard.py                  prints, writes docs/results/memory_guard.json
    python benchmarks/memory_guard.py --on             those that are not written yet for the present source
    python benchmarks/memory_guard.py --only NAME      the cases whose name holds NAME, anew
    python benchmarks/memory_guard.py --case NAME N    one case in this process

Every case runs in a process of its own, on one thread. Taken is the peak of resident memory less what the process had
after the same with a few rows. A ratio of 1 is a guard that is exact; below 1 it lets through what will not fit.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import ctypes
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

import borrow
from borrow.kernels import Linear
from borrow.numerics import memory
from results import RESULTS, provenance, write_result

SIZES = (1100, 1700)
FEW = 60
BRIEF: dict[str, Any] = {"max_iter": 2}
FOCUSED: dict[str, Any] = {**BRIEF, "primary": 0, "n_restarts": 0}


class Case(NamedTuple):
    """An estimator, what it is asked, and the tasks that the rows are of."""

    kind: str
    settings: dict[str, Any] = BRIEF
    tasks: int = 1
    #: None: the fit is measured. Otherwise a fit of a few rows is asked for this at many.
    asked: str | None = None
    #: The share of the rows that the first task has; None: tasks have the same number of them.
    first: float | None = None
    #: How many times the rows of the others, where a few rows take little.
    times: int = 1


CASES: dict[str, Case] = {
    "single": Case("SingleTaskGPRegressor"),
    "single, two tasks": Case("SingleTaskGPRegressor", tasks=2),
    "single, four tasks": Case("SingleTaskGPRegressor", tasks=4, times=2),
    "single, labels, two tasks": Case("SingleTaskGPClassifier", tasks=2),
    "single, labels": Case("SingleTaskGPClassifier"),
    "single, many columns": Case("SingleTaskGPRegressor", {"optimizer": None}),
    "pooled, exact": Case("PooledGPRegressor", {**BRIEF, "inducing": None}, 2),
    "pooled, exact, labels": Case("PooledGPClassifier", {**BRIEF, "inducing": None}, 2),
    "pooled, inducing inputs": Case("PooledGPRegressor", {**BRIEF, "inducing": 600}, 2),
    "multi-task, dense": Case("MultiTaskGPRegressor", tasks=3),
    "multi-task, dense, labels": Case("MultiTaskGPClassifier", tasks=3),
    "multi-task, scoring": Case(
        "MultiTaskGPRegressor", {**BRIEF, "prior": None, "task_prior": None, "share_noise": True}, 3
    ),
    "multi-task, EM": Case("MultiTaskGPRegressor", {**BRIEF, "solver": "em"}, 3),
    "multi-task, inducing inputs": Case("MultiTaskGPRegressor", {**BRIEF, "rank": 1, "inducing": 300}, 3),
    "focused, exact": Case("FocusedGPRegressor", {**FOCUSED, "inducing": None}, 2),
    "focused": Case("FocusedGPRegressor", FOCUSED, 2),
    "focused, inducing inputs": Case("FocusedGPRegressor", {**FOCUSED, "inducing": 300}, 2),
    "focused, small primary": Case("FocusedGPRegressor", FOCUSED, 2, first=0.1),
    "focused, large primary": Case("FocusedGPRegressor", FOCUSED, 2, first=0.9),
    "focused, five tasks": Case("FocusedGPRegressor", FOCUSED, 5, times=2),
    "focused, labels, small primary": Case("FocusedGPClassifier", FOCUSED, 2, first=0.1),
    "focused, labels": Case("FocusedGPClassifier", FOCUSED, 2),
    "hierarchical": Case("HierarchicalGPRegressor", tasks=10),
    "hierarchical, linear": Case("HierarchicalGPRegressor", {**BRIEF, "base_kernel": Linear()}, 10),
    "hierarchical, labels": Case("HierarchicalGPClassifier", tasks=10),
    "informative vectors": Case("MultiTaskIVMRegressor", {"n_active": 200, "max_iter": 2}, 2, times=12),
    "informative vectors, labels": Case("MultiTaskIVMClassifier", {"n_active": 200, "max_iter": 2}, 2, times=12),
    "informative vectors, nearly all": Case("MultiTaskIVMRegressor", {"n_active": 0.9, "max_iter": 2}, 2),
    "radial basis functions": Case("MultiTaskRBFRegressor", {"candidates": "all", "n_basis": 10}, 3),
    "regularized": Case("RegularizedMultiTaskClassifier", {}, 3),
    "single, covariance": Case("SingleTaskGPRegressor", asked="covariance"),
    "pooled, covariance": Case("PooledGPRegressor", tasks=2, asked="covariance"),
    "pooled, inducing inputs, covariance": Case(
        "PooledGPRegressor", {**BRIEF, "inducing": 20}, tasks=2, asked="covariance"
    ),
    "multi-task, covariance": Case("MultiTaskGPRegressor", tasks=3, asked="covariance"),
    "focused, covariance": Case("FocusedGPRegressor", FOCUSED, 2, asked="covariance"),
    "focused, inducing inputs, covariance": Case(
        "FocusedGPRegressor", {**FOCUSED, "inducing": 20}, 2, asked="covariance"
    ),
    "hierarchical, covariance": Case("HierarchicalGPRegressor", tasks=10, asked="covariance"),
    "informative vectors, covariance": Case(
        "MultiTaskIVMRegressor", {"n_active": 30, "max_iter": 2}, 2, asked="covariance"
    ),
    "radial basis functions, covariance": Case("MultiTaskRBFRegressor", {"n_basis": 10}, 3, asked="covariance"),
}


def table(n: int, M: int, classes: bool, columns: int, first: float | None) -> tuple[Any, Any, Any]:
    """Rows of M tasks."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, columns))
    f = np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=n)
    own = int(n * first) if first is not None else 0
    tasks = np.arange(n) % M if first is None else np.where(np.arange(n) < own, 0, 1 + np.arange(n) % (M - 1))
    return X, (f > 0.0).astype(int) if classes else f, rng.permutation(tasks)


def peak() -> float:
    """The most bytes that were resident since this program began; `getrusage` counts what its parent had too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(float(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure(name: str, n: int) -> dict[str, float]:
    """Bytes asked for and bytes taken, in this process."""
    kind, settings, M, what, first, times = CASES[name]
    columns = n // 2 if "linear" in name else 600 if "columns" in name else 2
    n *= times
    if isinstance(settings.get("n_active"), float):
        settings = {**settings, "n_active": int(settings["n_active"] * n)}
    asked, required = [0.0], memory.require

    def noted(n_bytes: float, *args: Any) -> None:
        asked.append(n_bytes)
        required(n_bytes, *args)

    def do(rows: int) -> Any:
        X, y, tasks = table(rows, M, kind.endswith("Classifier"), columns, first)
        model = getattr(borrow, kind)(**settings)
        if what is None:
            return model.fit(X, y, tasks)
        return model.fit(X[:FEW], y[:FEW], tasks[:FEW]).predict(X, tasks, return_cov=True)

    warnings.simplefilter("ignore")  # two iterations are too few for all of them
    do(FEW)
    memory.require = noted
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)  # what the C library keeps of the first fit would serve the next one
    before = psutil.Process().memory_info().rss
    answer = do(n)
    taken = peak() - before
    del answer
    return {"asked": max(asked), "taken": taken}


def main() -> None:
    """Measure the cases at both sizes."""
    if sys.argv[1:2] == ["--case"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
        return
    how, only = sys.argv[1] if sys.argv[1:] else "", sys.argv[2] if sys.argv[2:] else ""
    place = RESULTS / "memory_guard.json"
    known = json.loads(place.read_text())["cases"] if how and place.exists() else []
    commit = provenance()["commit"]
    for name in (case for case in CASES if only in case):
        for n in SIZES:
            which = {"case": name, "rows": n * CASES[name].times}
            if how == "--on" and any({**which, "commit": commit}.items() <= k.items() for k in known):
                continue
            command = [sys.executable, __file__, "--case", name, str(n)]
            out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            ratio = round(out["asked"] / out["taken"], 3)
            known = [k for k in known if not which.items() <= k.items()]
            known.append({**which, **out, "ratio": ratio, "commit": commit})
            known.sort(key=lambda k: (list(CASES).index(k["case"]), k["rows"]))
            write_result("memory_guard", {"seed": 0, "settings": {"sizes": SIZES, "few": FEW}, "cases": known}, known)
            per_square = " ".join(f"{out[w] / (8.0 * n * n):6.2f}" for w in ("asked", "taken"))
            print(f"{name:38s} {n:6d} rows  n^2 numbers {per_square}  ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
