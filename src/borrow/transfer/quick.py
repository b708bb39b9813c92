"""The quick look: one fit a method, every row of the primary predicted without it in closed form.

Hyper-parameters were learnt with the row that is left out, and so were the relations between tasks: the figures are
optimistic, more so for methods with more to learn. `compare` refits in every fold; this does not.

Where tasks are told apart the estimators' own `leave_one_out` answers. Two methods need a word more. A pooled GP merges
rows of several tasks at one input into a cell: with the function N(m, v) there, removing one row y takes the site
1/noise away, so that the rest is N((m - v y/noise)/(1 - v/noise), v/(1 - v/noise)). The hierarchical GP is, at its
learnt mean mu and covariance K, a GP for each task: with A = K + noise/count, the mean without row i is
y_i - [A^-1 (y - mu)]_i/[A^-1]_ii and its variance 1/[A^-1]_ii.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from borrow.data.table import Table
from borrow.models.gp.estimators import PooledGPRegressor
from borrow.models.hierarchical.estimators import HierarchicalGPRegressor
from borrow.numerics import linalg
from borrow.numerics.linalg import Array
from borrow.numerics.warned import capture_warnings
from borrow.transfer.compare import read_primaries, read_scoring, read_seed
from borrow.transfer.folds import fit_for, score_numbers
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
    problem = read_problem(table, target, task, features, "regression")
    keys, _ = choose(problem, methods)
    main, error = read_primaries(problem, plain(primary))[0], read_scoring(scoring, "regression")
    seed = read_seed(random_state)
    rows = []
    for key in keys:
        started = time.perf_counter()
        with capture_warnings() as said, threadpool_limits(1):
            y, mean, std = left_out(fit_for(problem, key, main, seed), problem, main)
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
    if isinstance(model, PooledGPRegressor):
        return _pooled(model, problem, primary)
    if isinstance(model, HierarchicalGPRegressor):
        return _hierarchical(model, primary)
    found = model.leave_one_out()
    mine = np.array([t == primary for t in found["task"]])
    y, mean, std = (np.asarray(found[name])[mine] for name in ("y", "mean", "std"))
    return y, mean, std


def _pooled(model: PooledGPRegressor, problem: Problem, primary: Any) -> tuple[Array, Array, Array]:
    cells, (m, v) = model.fitted_.model.cells, model.fitted_.model.marginals()
    place = {x.tobytes(): i for i, x in enumerate(cells.X + 0.0)}
    rows = problem.rows_of(primary)
    at = np.array([place[x.tobytes()] for x in problem.X[rows] + 0.0], dtype=np.intp)
    t = list(model.noise_).index(primary)
    center, scale = float(model.fitted_.center[t]), float(model.fitted_.scale[t])
    noise = model.noise_[primary] / scale**2
    y = (problem.y[rows] - center) / scale
    rest = np.maximum(1.0 - v[at] / noise, 1e-12)
    mean, variance = (m[at] - v[at] / noise * y) / rest, v[at] / rest
    return problem.y[rows], center + scale * mean, scale * np.sqrt(variance + noise)


def _hierarchical(model: HierarchicalGPRegressor, primary: Any) -> tuple[Array, Array, Array]:
    t, fit = model.fitted_.schema.labels.index(primary), model.fitted_.model.fit
    group = next(g for g in fit.problem.groups if t in g.tasks)
    y = group.Y[:, int(np.flatnonzero(group.tasks == t)[0])]
    A = group.within(fit.state.K)
    A.flat[:: len(A) + 1] += fit.state.noise / group.count
    L = linalg.cholesky(A)
    precision = linalg.diagonal_of_inverse(L)
    mean = y - linalg.solve(L, y - group.of(fit.state.mu)) / precision
    center, scale = float(model.fitted_.center[t]), float(model.fitted_.scale[t])
    return center + scale * y, center + scale * mean, scale / np.sqrt(precision)
