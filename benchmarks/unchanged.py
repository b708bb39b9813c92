"""Import time and calls of the models on one core, before and after a change, side by side in one run.

    python benchmarks/unchanged.py --base COMMIT [--name bench_unchanged]
    python benchmarks/unchanged.py --small             this source against itself, writes nothing

The source at COMMIT is taken from git into a temporary folder. Both sources run in turn, nine times each, every time in
a process of its own on one thread, which measures the least CPU time of some repetitions of each call. The figure is
the median of the nine, and the ratio of the two medians says what the change cost; exit 1 where one is above 1.1.
Public names only, so that both sources run the same calls whatever moved between them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

from results import ROOT, write_result

TURNS, REPEATS, TASKS, MOST = 9, 3, 30, 1.1

STEPS = """
import json, sys, time
clock = time.process_time
began = clock()
import borrow
found = {"import borrow": clock() - began}
began = clock()
borrow.FocusedGPRegressor
found["first estimator"] = clock() - began
found["dask, distributed imported"] = float(any(m in sys.modules for m in ("dask", "distributed")))
import numpy as np
n_tasks, repeats = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
rows, M = 60, n_tasks + 1
X = rng.uniform(-5, 5, (M * rows, 2))
task = np.repeat(np.arange(M), rows)
y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=len(task))
kernel, own = borrow.kernels.SquaredExponential(1.0, (1.0, 1.0)), borrow.kernels.SquaredExponential(0.5, 1.0)
few = slice(0, min(M, 8) * rows)
three = slice(0, min(M, 3) * rows)
places = rng.uniform(-5, 5, (150, 2))
pool = np.concatenate([places[rng.permutation(150)[:rows]] for _ in range(M)])
focused = {"primary": 0, "kernel": kernel, "specific_kernel": own, "inducing": X[:rows:2]}
em = {"base_kernel": borrow.kernels.SquaredExponential(1.0, 0.5), "covariance_strength": 1.0, "noise": 0.1}
held = {"optimizer": None}

def fit(name, at=slice(None), inputs=X, target=y, **settings):
    return lambda: getattr(borrow, name)(**settings).fit(inputs[at], target[at], tasks=task[at])

signs = np.where(y > 0, "yes", "no")
fitted = fit("FocusedGPRegressor", **focused, **held)()
steps = {
    "focused, held": fit("FocusedGPRegressor", **focused, **held),
    "focused, 3 iterations": fit("FocusedGPRegressor", few, **focused, max_iter=3, n_restarts=0),
    "focused, predictions": lambda: fitted.predict(X, tasks=task, return_std=True),
    "focused, labels, 2 iterations": fit("FocusedGPClassifier", three, target=signs, primary=0, max_iter=2),
    "symmetric, held": fit("MultiTaskGPRegressor", few, **held),
    "symmetric, free form, 3 iterations": fit("MultiTaskGPRegressor", few, max_iter=3),
    "symmetric, rank 2, 30 inducing, 3 iterations": fit("MultiTaskGPRegressor", rank=2, inducing=30, max_iter=3),
    "symmetric, labels, held": fit("MultiTaskGPClassifier", three, target=signs, **held),
    "hierarchical, 5 iterations of EM": fit("HierarchicalGPRegressor", inputs=pool, max_iter=5, **em, **held),
    "IVM, 200 rows chosen": fit("MultiTaskIVMRegressor", n_active=200, kernel=kernel, **held),
    "IVM, labels, 100 rows chosen": fit("MultiTaskIVMClassifier", target=signs, n_active=100, **held),
    "RBF network, 10 functions": fit("MultiTaskRBFRegressor", few, n_basis=10),
    "single, 3 iterations": fit("SingleTaskGPRegressor", few, max_iter=3),
    "pooled, held": fit("PooledGPRegressor", few, **held),
}
for name, step in steps.items():
    step()
    times = []
    while len(times) < repeats or (repeats > 1 and len(times) < 20 and sum(times) < 0.15):
        began = clock()
        step()
        times.append(clock() - began)
    found[name] = min(times)
print(json.dumps(found))
"""


def source_at(commit: str, folder: str) -> Path:
    """src/ as it was."""
    done = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Path(folder) / "src"


def run(source: Path, n_tasks: int, repeats: int) -> dict[str, float]:
    """CPU seconds of every call, in a process of its own."""
    alone = {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", STEPS, str(n_tasks), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | alone)
    if done.returncode:
        raise SystemExit(f"unchanged: the calls failed with the source in {source}:\n{done.stderr}")
    return json.loads(done.stdout)


def compare(before: Path, after: Path, n_tasks: int, turns: int, repeats: int) -> list[dict[str, Any]]:
    """Medians over the turns, in milliseconds, and their ratio."""
    found: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for turn in range(turns):
        both = [("before", before), ("after", after)]
        for name, source in both if turn % 2 == 0 else both[::-1]:
            found[name].append(run(source, n_tasks, repeats))
    rows = []
    for what in found["before"][0]:
        middle = {name: median(f[what] for f in several) for name, several in found.items()}
        ratio = round(middle["after"] / middle["before"], 3) if middle["before"] else None
        rows.append({"what": what, **{n: round(1e3 * v, 2) for n, v in middle.items()}, "ratio": ratio})
    return rows


def slower(rows: list[dict[str, Any]]) -> list[str]:
    """Calls that the change made slower by more than a tenth."""
    return [row["what"] for row in rows if row["ratio"] is not None and row["ratio"] > MOST]


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--base", metavar="COMMIT")
    which.add_argument("--small", action="store_true")
    parser.add_argument("--name", default="bench_unchanged")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    given = parser.parse_args(argv)
    if given.small:
        rows = compare(ROOT / "src", ROOT / "src", 3, 1, 1)
    else:
        with tempfile.TemporaryDirectory() as folder:
            rows = compare(source_at(given.base, folder), ROOT / "src", TASKS, TURNS, REPEATS)
        if not given.dry:
            write_result(given.name, {"seed": 0, "before": given.base, "milliseconds, CPU": rows})
    for row in rows:
        sys.stdout.write(f"{row['what']:46s} {row['before']:10.2f} {row['after']:10.2f} {row['ratio']}\n")
    return rows


if __name__ == "__main__":
    if (slow := slower(main())) and "--small" not in sys.argv:
        raise SystemExit(f"slower than before by more than a tenth: {', '.join(slow)}")
