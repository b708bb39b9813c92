"""How far one machine goes with each model: CPU seconds of a step and peak memory, at sizes that double.

    python benchmarks/how_far.py            prints, writes docs/results/how_far.json; about 6 CPU minutes
    python benchmarks/how_far.py --small    tiny sizes, writes nothing

A step is what a fit repeats: evidence with gradient, an E-step, the choice of rows. Every size runs in a process of its
own, on one thread; memory is the peak of that process less what it had before the step. Between the two largest sizes
the growth of both is taken for a power of the rows, at least the first, and carried on to `MEMORY` and to `MINUTE`.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import psutil

import borrow
from borrow.data.read import read_training
from borrow.data.scaling import build
from borrow.estimators.classifier import ROUGH
from borrow.estimators.gp import EXACT
from borrow.inference import EPInference
from borrow.inference.likelihoods import Probit
from borrow.models.focused import model as focused
from borrow.models.focused.settings import prepare as prepare_focused
from borrow.models.gp import model as gp
from borrow.models.hierarchical.basis import basis_of
from borrow.models.hierarchical.model import Strengths, arrange, expect, maximise, start
from borrow.models.ivm.model import gaussian, select
from borrow.models.multitask import model as multitask
from borrow.tasks.placed import PlacedTasks
from pages_large import MEMORY, MINUTE, carried_on
from results import write_result

ROWS = 100  # of a task


def table(n_tasks: int, rows: int = ROWS, d: int = 2, grid: int | None = None) -> Any:
    rng = np.random.default_rng(0)
    task, X = np.repeat(np.arange(n_tasks), rows), rng.uniform(-4, 4, (n_tasks * rows, d))
    if grid is not None:
        X = rng.uniform(-4, 4, (grid, d))[np.concatenate([rng.permutation(grid)[:rows] for _ in range(n_tasks)])]
    y = np.cos(task) * np.sin(X[:, 0]) + 0.3 * np.sin(X[:, 1] + task) + 0.1 * rng.normal(size=len(X))
    model = borrow.SingleTaskGPRegressor()
    return build(read_training(model, X, y, task)[0], True)


def focused_step(n_tasks: int) -> Callable[[], Any]:
    data = table(n_tasks)
    setup, values = prepare_focused(data, PlacedTasks(data.cells), 0, None, None, 0.5)
    setup = replace(setup, Z=data.cells.X[:ROWS])
    values["noise"] = np.full(n_tasks, np.log(0.1))
    return lambda: focused.focused_objective(setup)(values)


def ep_step(n_tasks: int) -> Callable[[], Any]:
    data = table(n_tasks)
    cells = replace(data.cells, y=np.where(data.cells.y > 0, 1.0, -1.0))
    data = replace(data, cells=cells)
    setup, values = prepare_focused(
        data, PlacedTasks(data.cells), 0, None, None, 0.5, infer=EPInference(Probit(), tol=ROUGH)
    )
    setup = replace(setup, Z=data.cells.X[:ROWS])
    return lambda: focused.focused_objective(setup)(values)


def dense_step(n_tasks: int) -> Callable[[], Any]:
    return _symmetric(n_tasks, borrow.MultiTaskGPRegressor(optimizer=None, max_iter=1))


def low_rank_step(n_tasks: int) -> Callable[[], Any]:
    return _symmetric(n_tasks, borrow.MultiTaskGPRegressor(optimizer=None, rank=2, inducing=50))


def _symmetric(n_tasks: int, model: Any) -> Callable[[], Any]:
    data = table(n_tasks)
    noise = {"noise": np.log(np.full(n_tasks, 0.1))}
    setup, values = model._prepare(data, PlacedTasks(data.cells), EXACT, noise)
    values = {**setup.form.start(np.eye(n_tasks)), **values}
    return lambda: multitask.multitask_objective(setup)(values)


def single_step(n_tasks: int) -> Callable[[], Any]:
    """One task of so many hundred rows."""
    data = table(1, n_tasks * ROWS)
    kernel = borrow.kernels.SquaredExponential(1.0, (1.0, 1.0))
    values = {"kernel": kernel.theta, "noise": np.log([0.1])}
    return lambda: gp.single_objective(PlacedTasks(data.cells), kernel)(values)


def em_step(n_tasks: int) -> Callable[[], Any]:
    """Tasks on 1,000 common inputs."""
    data = table(n_tasks, grid=1000)
    inputs, code = np.unique(data.cells.X, axis=0, return_inverse=True)
    cells = replace(data.cells, X=code.reshape(-1, 1).astype(float))
    problem = arrange(basis_of(borrow.kernels.SquaredExponential(1.0, 0.3), inputs), PlacedTasks(cells))
    state, strengths = start(problem.basis, 0.1), Strengths(tau=10.0)
    return lambda: maximise(state, expect(state, problem), problem, strengths)


def ivm_step(n_tasks: int) -> Callable[[], Any]:
    """2,000 rows chosen."""
    cells = table(n_tasks).cells
    kernel, factors = borrow.kernels.SquaredExponential(1.0, 1.0), gaussian(cells, np.full(n_tasks, 0.1))
    return lambda: select(kernel, cells.X, cells.starts, factors, min(2000, len(cells.y)))


STEPS: dict[str, tuple[Callable[[int], Callable[[], Any]], tuple[int, ...], str]] = {
    "FocusedGPRegressor": (focused_step, (250, 500, 1000), "evidence and gradient, 100 inducing inputs"),
    "FocusedGPClassifier": (ep_step, (50, 100, 200), "EP to convergence, and gradient"),
    "MultiTaskGPRegressor, free form": (dense_step, (10, 20, 30), "evidence and gradient, dense"),
    "MultiTaskGPRegressor(rank=2, inducing=50)": (low_rank_step, (500, 1000, 2000), "evidence and gradient"),
    "SingleTaskGPRegressor, one task": (single_step, (10, 20, 30), "evidence and gradient"),
    "HierarchicalGPRegressor": (em_step, (250, 500, 1000), "an iteration of EM, 1,000 distinct inputs"),
    "MultiTaskIVMRegressor(n_active=2000)": (ivm_step, (500, 1000, 2000), "the choice of rows"),
}


def one(name: str, n_tasks: int) -> dict[str, float]:
    """Runs in a process of its own."""
    step = STEPS[name][0](n_tasks)
    before = psutil.Process().memory_info().rss / 1024
    began = time.process_time()
    step()
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"tasks": n_tasks, "rows": n_tasks * ROWS, "CPU seconds": seconds, "MB": (peak - before) / 1024}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["--one"]:
        sys.stdout.write(json.dumps(one(arguments[1], int(arguments[2]))))
        return {}
    small, found = "--small" in arguments, {}
    for name, (_, sizes, what) in STEPS.items():
        rows = []
        for n in (2, 4) if small else sizes:
            if small:
                rows.append(one(name, n))
                continue
            command = [sys.executable, __file__, "--one", name, str(n)]
            rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        found[name] = {"step": what, "sizes": rows, "carried on": carried_on(rows)}
        sys.stdout.write(f"{name}: {json.dumps(found[name])}\n")
    content = {"seed": 0, "memory MB": MEMORY, "seconds": MINUTE, "rows of a task": ROWS, "models": found}
    if not small:
        write_result("how_far", content)
    return content


if __name__ == "__main__":
    main()
