"""Speed and memory of the RBF network's selection steps, as ratios in one run, on one thread.

    python benchmarks/rbf.py            prints, and writes docs/results/bench_rbf.json

What is compared:
- one step of Table 1 on the school data, every distinct row a candidate, against one bare product u'C over the matrix
  of candidates, as a single product and task by task as the step has it;
- ten steps at 500 candidates against the literal refit: for every candidate and task, (3) from scratch;
- peak resident memory of a fit to all 15362 rows of the school data, in a process of its own.
Without the school data, rows of the same sizes are drawn.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

import borrow
from borrow.data.cells import Rows, merge
from borrow.data.scaling import Scaling
from borrow.datasets.shared_data import load_school
from borrow.models.rbf.model import Candidates, grow
from borrow.models.rbf.recursion import Stack, stack_rows
from results import write_result

STEPS = 10


def school() -> tuple[Any, Any, Any, str]:
    """Inputs, tasks and targets, and where they come from."""
    try:
        data = load_school()
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        task = np.sort(rng.integers(0, 139, 15362))
        X = np.hstack([rng.integers(0, 2, (15362, 6)), task[:, None] % [[7, 11]]]).astype(float)
        return X, task, rng.normal(size=15362), "drawn"
    return data.X, data.school - 1, data.score, "school data"


def stack_of(X: Any, task: Any, y: Any) -> Stack:
    M, one = int(task.max()) + 1, np.ones(len(y))
    cells = merge(X, task, y, one, one, M)
    rows = Rows(X, task, tuple(range(M)), y, one, one)
    return stack_rows(rows, cells, Scaling(np.zeros(M), np.ones(M), 0.0), np.ones(X.shape[1]))


def median_time(f: Any, repeats: int) -> float:
    f()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def step_time(stack: Stack, candidates: Candidates, tuned: bool) -> float:
    """One step, units 1 to 40 on average: 40 steps less what comes before the first."""
    bounds = (5.0, 80.0) if tuned else None
    long = median_time(lambda: grow(stack, candidates, stack.y, 1e-4, 40, bounds=bounds), 3)
    return (long - median_time(lambda: grow(stack, candidates, stack.y, 1e-4, 0, bounds=bounds), 3)) / 40


def literal_step(stack: Stack, candidates: Candidates, chosen: list[int]) -> int:
    """One step of the refit: (3) and (4) for every candidate and task from scratch, normal equations."""
    best, least = 0, np.inf
    blocks = [at for _, at in stack.blocks()]
    C, root, Y = candidates.values, stack.root, stack.root * stack.y
    for m in range(C.shape[1]):
        if m in chosen:
            continue
        columns = [*chosen, m]
        error = 0.0
        for at in blocks:
            Phi = np.column_stack([root[at], C[at][:, columns]])
            A = Phi.T @ Phi
            A.flat[:: len(A) + 1] += 1e-4
            error += Y[at] @ Y[at] - Y[at] @ (Phi @ np.linalg.solve(A, Phi.T @ Y[at]))
        if error < least:
            best, least = m, error
    return best


def against_refits(X: Any, task: Any, y: Any) -> dict[str, Any]:
    """Ten steps at 500 candidates, ours against refits that choose the same ones."""
    stack = stack_of(X, task, y)
    distinct = np.unique(stack.X, axis=0)
    pool = distinct[np.sort(np.random.default_rng(0).choice(len(distinct), 500, replace=False))]
    candidates = Candidates.at(pool, stack, 20.0)
    ours = median_time(lambda: grow(stack, candidates, stack.y, 1e-4, STEPS), 5)
    path = grow(stack, candidates, stack.y, 1e-4, STEPS)
    order = [int(np.flatnonzero(np.all(pool == c, axis=1))[0]) for c in path.basis.centers]
    start, chosen = time.perf_counter(), []
    for _ in range(STEPS):
        chosen.append(literal_step(stack, candidates, chosen))
    seconds = time.perf_counter() - start
    return {
        "ten steps at 500 candidates, milliseconds": round(1e3 * ours, 1),
        "ten steps of refits, seconds": round(seconds, 1),
        "refits / ours (at least 200)": round(seconds / ours, 0),
        "same choices": chosen == order,
    }


def fit_everything() -> None:
    X, task, y, _ = school()
    borrow.MultiTaskRBFRegressor(candidates="all").fit(X, y, tasks=task)


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        fit_everything()
        sys.stdout.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
        return
    X, task, y, source = school()
    stack = stack_of(X, task, y)
    candidates = Candidates.at(np.unique(stack.X, axis=0), stack, 20.0)
    C, u = candidates.values, np.random.default_rng(0).normal(size=len(stack.y))
    bare = median_time(lambda: u @ C, 15)
    blocks = [at for _, at in stack.blocks()]
    by_task = median_time(lambda: [u[at] @ C[at] for at in blocks], 15)
    step, tuned = step_time(stack, candidates, False), step_time(stack, candidates, True)
    start = time.perf_counter()
    fit_everything()
    seconds = time.perf_counter() - start
    done = subprocess.run([sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True)
    rows = {
        "data": source,
        "cells, candidates, tasks": [*C.shape, stack.n_tasks],
        "bare product u'C / the same task by task, milliseconds": [round(1e3 * bare, 2), round(1e3 * by_task, 2)],
        "one step / with tuned width, milliseconds": [round(1e3 * step, 2), round(1e3 * tuned, 2)],
        "one step / bare product (at most 4)": round(step / bare, 2),
        "one step with tuned width / bare product": round(tuned / bare, 2),
        **against_refits(X, task, y),
        "default fit to 15362 rows, every row a candidate, seconds": round(seconds, 1),
        "its peak MB (under 500)": round(float(done.stdout), 0),
    }
    write_result("bench_rbf", {"seed": 0, "figures": rows})
    for name, value in rows.items():
        sys.stdout.write(f"{name:62s} {value}\n")


if __name__ == "__main__":
    main()
