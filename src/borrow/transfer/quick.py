"""The quick look: one fit per method, every row of the primary predicted without it in closed form.

Hyper-parameters were learnt with the row that is left out, and so were the relations between tasks: the figures are
optimistic, more so for methods with more to learn. `compare` refits in every fold; this does not.

Where tasks are told apart the estimators' own `leave_one_out` answers. A pooled GP merges rows of several tasks at one
input: with the function N(m, v) there, removing one row y takes the site 1/noise away, so that the rest is
N((m - v y/noise)/(1 - v/noise), v/(1 - v/noise)).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from borrow.data.table import Table
from borrow.numerics.linalg import Array
from borrow.numerics.warned import capture_warnings
from borrow.transfer.compare import read_primaries, read_seed
from borrow.transfer.folds import read_scoring, score_numbers
from borrow.transfer.methods import choose
from borrow.transfer.problem import Problem, plain, read_problem

OPTIMISTIC = "optimistic: hyper-parameters were learnt with the rows that are left out"


def quick_look(
    table: Any,
    target: str,
    task: str,
    primary: Any,
    methods: Any = "auto",
    *,
    scoring: str | None = None,
    features: Any = None,
    random_state: Any = 0,
) -> Table:
    """Leave-one-out on the primary at hyper-parameters fitted once: fast, and optimistic. Regression only.

    Columns: method, error, log_density, coverage, seconds, note.

    Parameters
    ----------
    table, target, task, primary, methods, scoring, features, random_state : as in `compare`; there must be a primary.
    """
    problem = replace(read_problem(table, target, task, features, "regression"), frame=None)
    keys, _ = choose("regression", int(problem.seen.sum()), methods)
    main, error = read_primaries(problem, plain(primary))[0], read_scoring(scoring, "regression")
    seed = read_seed(random_state)
    rows = []
    for key in keys:
        started = time.perf_counter()
        with capture_warnings() as said, threadpool_limits(1):
            y, mean, std = left_out(problem.fit(key, main, seed), problem, main)
        scores = score_numbers(y, mean, std, error)
        rows.append(
            {
                "method": key,
                **{k: scores[k] for k in ("error", "log_density", "coverage")},
                "seconds": time.perf_counter() - started,
                "note": "; ".join([OPTIMISTIC, *said]),
            }
        )
    return Table({name: [r[name] for r in rows] for name in rows[0]})


def left_out(model: Any, problem: Problem, primary: Any) -> tuple[Array, Array, Array]:
    """Targets of the primary, and mean and standard deviation (of an observation) of each without it."""
    found = model.leave_one_out()
    mine = np.array([t == primary for t in found["task"]])
    if mine.any():
        y, mean, std = (np.asarray(found[name])[mine] for name in ("y", "mean", "std"))
        return y, mean, std
    rows = problem.rows_of(primary)  # tasks are not told apart: the primary's rows are taken out one by one
    y, noise, code = problem.y[rows], model.noise_[primary], problem.labels.index(primary)
    m = model.predict(problem.X[rows], tasks=primary)
    v = np.diagonal(model.covariance_at(problem.X[rows], np.full(len(rows), code)))
    rest = np.maximum(1.0 - v / noise, 1e-12)
    return y, (m - v / noise * y) / rest, np.sqrt(v / rest + noise)
