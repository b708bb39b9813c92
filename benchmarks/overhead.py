"""What code for GPUs costs those who have none: import time and evaluations on the host, before and after, in turn.

    git worktree add ../before <commit>
    python benchmarks/overhead.py --before ../before    prints, and writes docs/results/bench_overhead.json

Every figure is the least of several fresh processes of each checkout, taken in turn, on one thread, in processor time.
Evaluations are of evidence with gradient (focused: 50 tasks of 100 rows; 2,000 tasks of one small row count; dense: ten
tasks, 1,000 rows; one EM iteration of the hierarchical model: 500 inputs, 30 tasks of 100; EP: 400 labels).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

IMPORTS = {
    "import borrow": "import borrow",
    "import borrow; borrow.FocusedGPRegressor": "import borrow; borrow.FocusedGPRegressor",
}

EVALUATIONS = """
import json, sys, time
import numpy as np
from dataclasses import replace
from borrow import kernels
from borrow.covariance import Design, choose_inducing
from borrow.data import merge
from borrow.inference import EPInference
from borrow.likelihoods import Probit
from borrow.models import focused, hierarchical as h, hierarchical_basis as bases, multitask
from borrow.models.task_covariance import FreeForm

def cells_of(sizes, d, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.uniform(-5, 5, (len(task), d))
    ones = np.ones(len(task))
    return merge(X, task, np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=len(task)), ones, ones, len(sizes))

def focused_problem(sizes, infer=None):
    cells, M = cells_of(sizes, 2), len(sizes)
    kernel, own = kernels.SquaredExponential(1.0, (1.0, 1.0)), kernels.SquaredExponential(0.5, 1.0)
    Z = choose_inducing(kernel, cells.X[: sizes[0]], cells.X[sizes[0] :][:3000], 60)
    setup = focused.Setup(cells, 0, kernel, [None] + [own] * (M - 1), Z)
    values = {"kernel": kernel.theta, "rho": np.ones(M - 1), "specific": np.tile(own.theta, M - 1)}
    if infer is None:
        return focused.focused_objective(setup), {**values, "noise": np.full(M, np.log(0.01))}
    signs = replace(cells, y=np.sign(cells.y))
    return lambda v: focused.condition(v, replace(setup, cells=signs, infer=infer)).gradient(), values

def dense_problem(n, M):
    cells = cells_of([n // M] * M, 5)
    kernel = kernels.SquaredExponential(1.0, (2.0,) * 5, fixed=("variance",))
    form = FreeForm(M, None)
    setup = multitask.Setup(cells, Design.of(cells), kernel, form, "dense")
    values = {"kernel": kernel.theta, **form.of_matrix(np.eye(M) + 0.5), "noise": np.full(M, np.log(0.1))}
    return multitask.multitask_objective(setup), values

def em_problem(n, tasks, labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    rows = [np.sort(rng.permutation(n)[:labels]) for _ in range(tasks)]
    ones = np.ones(tasks * labels)
    at = np.concatenate(rows)[:, None].astype(float)
    cells = merge(at, np.repeat(np.arange(tasks), labels), rng.normal(size=len(ones)), ones, ones, tasks)
    p = h.arrange(bases.function_basis(kernels.Matern(1.0, 3.0, nu=1.5), X), cells)
    s = h.start(p.basis, 0.1)
    return lambda _: h.maximise(s, h.expect(s, p), p, h.Strengths(np.inf, 1.0)), None

out = {}
for name, (f, v), repeats in (
    ("focused, 50 tasks of 100 rows", focused_problem([100] * 51), 9),
    ("focused, 1,000 tasks of 8 rows", focused_problem([8] * 1001), 7),
    ("dense, 10 tasks, 1,000 rows", dense_problem(1000, 10), 9),
    ("EM iteration, 500 inputs, 30 tasks of 100", em_problem(500, 30, 100), 9),
    ("EP, 4 tasks of 100 labels", focused_problem([100] * 4, EPInference(Probit())), 5),
):
    f(v)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        f(v)
        times.append(time.process_time() - start)
    out[name] = 1e3 * min(times)
print(json.dumps(out))
"""


def run(tree: Path, code: str) -> str:
    threads = {f"{n}_NUM_THREADS": "1" for n in ("OPENBLAS", "OMP", "MKL")}
    env = {**os.environ, **threads, "PYTHONPATH": str(tree / "src")}
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env).stdout


def import_time(tree: Path, code: str) -> float:
    timed = f"import time; t = time.process_time(); {code}; print(time.process_time() - t)"
    return 1e3 * float(run(tree, timed))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path, required=True, help="a checkout of what to compare with")
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from results import write_result

    found: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(given.turns):
        for side, tree in enumerate((given.before, ROOT)):
            for name, code in IMPORTS.items():
                found.setdefault(name, ([], []))[side].append(import_time(tree, code))
            for name, ms in json.loads(run(tree, EVALUATIONS)).items():
                found.setdefault(name, ([], []))[side].append(ms)
    rows = []
    for name, (before, after) in found.items():
        a, b = min(before), min(after)
        rows.append({"what": name, "before, ms": round(a, 1), "after, ms": round(b, 1), "ratio": round(b / a, 3)})
        print(f"{name:48s} {a:9.1f} ms before {b:9.1f} ms after, ratio {b / a:.3f}")
    write_result("bench_overhead", {"seed": 0, "turns": given.turns, "rows": rows})


if __name__ == "__main__":
    main()
