"""The second half of the demonstration: real measurements, the question asked outright, and a report.

Eleven C programs were built under settings of thirteen compiler flags (`borrow.datasets.load_compiler`). A new program
was measured under 16 settings, the ten others under twice as many: do these help to predict its speed-up? The new one
is the first by name; the numbers of settings and folds were set by the time that two slow cores need, not by the
answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from borrow.datasets import load_compiler
from borrow.report import summary, write
from borrow.transfer.compare import compare_problem
from borrow.transfer.methods import LABELS
from borrow.transfer.problem import read_problem
from borrow.transfer.suggest import suggest

TARGET, TASK = "speed-up", "program"
#: Settings measured for the new program, for each other one; settings that could be measured next.
OWN, OTHERS, CANDIDATES = 16, 32, 100
#: (methods, folds and repeats): usually, and quickly.
USUAL: tuple[Any, tuple[int, int]] = ("auto", (5, 2))
QUICK: tuple[Any, tuple[int, int]] = (["pooled", "symmetric"], (4, 1))
NEXT = 5
MOST_JOBS = 4

Told = Callable[[int, int], None]


def measurements(seed: int = 0) -> tuple[dict[str, list[Any]], Any]:
    """The table, and settings of the new program that were not measured; settings differ between programs."""
    data, draw = load_compiler(), np.random.RandomState(seed)
    columns: dict[str, list[Any]] = {name: [] for name in (*data.flags, TASK, TARGET)}
    left = None
    for m, program in enumerate(data.programs):
        order = draw.permutation(len(data.X))
        at = order[: OTHERS if m else OWN]
        left = order[OWN : OWN + CANDIDATES] if m == 0 else left
        for j, flag in enumerate(data.flags):
            columns[flag] += data.X[at, j].tolist()
        columns[TASK] += [program] * len(at)
        columns[TARGET] += data.speedup[at, m].tolist()
    return columns, data.X[left]


def run_compiler(path: Path, seed: int = 0, quick: bool = False, progress: Told | bool = False) -> dict[str, Any]:
    """Compare, decide, suggest, write the report; what comes back is plain data for the terminal."""
    table, candidates = measurements(seed)
    problem = read_problem(table, TARGET, TASK)
    primary = load_compiler().programs[0]
    methods, cv = QUICK if quick else USUAL
    jobs = 1 if quick else min(MOST_JOBS, joblib.cpu_count())
    found = compare_problem(
        problem, primary, methods, cv, n_jobs=jobs, random_state=seed, leave_out=False, progress=progress
    )
    verdict = found.verdict()
    model = problem.fit(verdict.method, primary, seed)
    own = [primary] * len(candidates)
    next_ = suggest(model, candidates, NEXT, tasks=own, primary=primary)
    call = f"borrow demo --seed {seed}" + " --quick" * quick
    content = summary(found, model, table, call, next_)
    write(path, content)
    part = content["parts"][0]
    n = sum(found.rows[t] for t in found.tasks if t != primary)
    text = (
        f"Now real measurements: the speed-up of {len(found.tasks)} C programs by thirteen compiler flags. {primary!r} "
        f"was measured under {found.rows[primary]} settings, the others under {n} in all. Do they help?"
    )
    return {
        "text": text,
        "source": "Measured by this project; docs/data/compiler.md",
        "rows": [{**row, "label": LABELS[row["method"]]} for row in part["comparison"]["rows"]],
        "scoring": found.scoring,
        "cv": content["data"]["cv"],
        "verdict": part["verdict"],
        "report": os.fspath(path),
    }
