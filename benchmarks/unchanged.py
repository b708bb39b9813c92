"""Import time and steps of the models on one core, before and after a change, side by side in one run.

    python benchmarks/unchanged.py --before COMMIT [--name bench_unchanged]
    python benchmarks/unchanged.py --small             this source against itself, writes nothing

The source at COMMIT is taken from git into a temporary folder. Both sources run in turn, each time in a process of its
own on one thread; the figure is the least of so many CPU times, and the ratio says what the change cost those who do
not use it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from results import ROOT, write_result

TURNS, REPEATS = 3, 5

STEPS = """
import json, sys, time
clock = time.process_time
began = clock()
import borrow
found = {"import borrow": clock() - began}
began = clock()
borrow.FocusedGPRegressor
found["first estimator"] = clock() - began
import numpy as np
from borrow.data.cells import merge
from borrow.models.focused import model as focused
from borrow.models.multitask import model as multitask
from borrow.models.hierarchical.model import arrange, expect, start
from borrow.models.hierarchical.basis import basis_of
from borrow.models.ivm.model import select
from borrow.inference.adf import GaussianFactors
found["dask, distributed imported"] = float(any(m in sys.modules for m in ("dask", "distributed")))
n_tasks, repeats = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
rows, M = 100, n_tasks + 1
X = rng.uniform(-5, 5, (M * rows, 2))
task = np.repeat(np.arange(M), rows)
y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=len(task))
one = np.ones(len(y))
cells = merge(X, task, y, one, one, M)
kernel, own = borrow.kernels.SquaredExponential(1.0, (1.0, 1.0)), borrow.kernels.SquaredExponential(0.5, 1.0)
setup = focused.Setup(cells, 0, kernel, [None] + [own] * n_tasks, cells.X[:rows:2])
values = {"kernel": kernel.theta, "rho": rng.normal(size=n_tasks), "specific": np.tile(own.theta, n_tasks),
          "noise": np.full(M, np.log(0.01))}
steps = {"focused, evidence and gradient": lambda: focused.focused_objective(setup)(values)}
few = slice(0, min(M, 10) * rows)
for name, how in (("free form", {}), ("rank 2, 30 inducing", {"rank": 2, "inducing": 30})):
    at = few if not how else slice(None)
    model = borrow.MultiTaskGPRegressor(optimizer=None, **how).fit(X[at], y[at], tasks=task[at])
    steps[f"symmetric, {name}"] = lambda m=model: multitask.multitask_objective(m._setup)(m._values)
inputs = rng.uniform(-5, 5, (300, 2))
places = np.concatenate([rng.permutation(300)[:rows] for _ in range(M)]).astype(float)[:, None]
pool = merge(places, task, y, one, one, M)
problem = arrange(basis_of(borrow.kernels.SquaredExponential(1.0, 0.5), inputs), pool)
state = start(problem.basis, 0.1)
steps["hierarchical, E-step"] = lambda: expect(state, problem)
from dataclasses import replace
from borrow.inference import EPInference
from borrow.inference.likelihoods import Probit
few = slice(0, min(M, 4) * rows)
labels = merge(X[few], task[few], np.sign(y[few]), one[few], one[few], min(M, 4))
signs = replace(setup, cells=labels, specific=setup.specific[: min(M, 4)], infer=EPInference(Probit()))
at = {"kernel": kernel.theta, "rho": values["rho"][: min(M, 4) - 1], "specific": np.tile(own.theta, min(M, 4) - 1)}
steps["focused labels, EP and gradient"] = lambda: focused.condition(at, signs).gradient()
factors = GaussianFactors(cells.y, np.full(len(cells.y), 0.1))
steps["IVM, 200 rows chosen"] = lambda: select(kernel, cells.X, cells.starts, factors, 200)
for name, step in steps.items():
    step()
    times = []
    for _ in range(repeats):
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
    alone = {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", STEPS, str(n_tasks), str(repeats)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | alone)
    return json.loads(done.stdout)


def compare(before: Path, after: Path, n_tasks: int, turns: int, repeats: int) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for _ in range(turns):
        for name, source in (("before", before), ("after", after)):
            found[name].append(run(source, n_tasks, repeats))
    rows = []
    for what in found["before"][0]:
        least = {name: min(f[what] for f in several) for name, several in found.items()}
        ratio = round(least["after"] / least["before"], 3) if least["before"] else None
        rows.append({"what": what, **{n: round(1e3 * v, 2) for n, v in least.items()}, "ratio": ratio})
    return rows


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    arguments = sys.argv[1:] if argv is None else argv
    if "--small" in arguments:
        rows = compare(ROOT / "src", ROOT / "src", 3, 1, 1)
    else:
        commit = arguments[arguments.index("--before") + 1]
        name = arguments[arguments.index("--name") + 1] if "--name" in arguments else "bench_unchanged"
        with tempfile.TemporaryDirectory() as folder:
            rows = compare(source_at(commit, folder), ROOT / "src", 60, TURNS, REPEATS)
        write_result(name, {"seed": 0, "before": commit, "milliseconds, CPU": rows})
    for row in rows:
        sys.stdout.write(f"{row['what']:40s} {row['before']:10.2f} {row['after']:10.2f} {row['ratio']}\n")
    return rows


if __name__ == "__main__":
    main()
