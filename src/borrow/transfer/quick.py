"""The quick look: one fit a method, every row of the primary predicted without it in closed form.

Hyper-parameters were learnt with the row that is left out, and so were the relations between tasks: the figures are
optimistic, more so for methods with more to learn. `compare` refits in every fold; this does not.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from borrow.table import Table
from borrow.transfer.folds import fit_for, score_numbers
from borrow.transfer.methods import choose
from borrow.transfer.problem import plain, read_problem
from borrow.transfer.run import read_primaries, read_scoring, read_seed

#: Methods whose rows can each be left out in closed form.
WITH_LEAVE_ONE_OUT = ("single", "symmetric", "focused", "rbf", "ivm")
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

    Columns: method, error, log_density, coverage, seconds, note. Pooled rows of several tasks may share a cell and are
    not told apart, so pooling is left out, and so is the hierarchical GP.

    Parameters
    ----------
    table, target, task, primary, methods, scoring, features, random_state : as in `compare`; there must be a primary.
    """
    problem = read_problem(table, target, task, features, "regression")
    keys, _ = choose(problem, methods)
    main, error = read_primaries(problem, plain(primary))[0], read_scoring(scoring, "regression")
    seed = read_seed(random_state)
    rows = []
    for key in [k for k in keys if k in WITH_LEAVE_ONE_OUT]:
        started = time.perf_counter()
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            found = fit_for(problem, key, main, seed).leave_one_out()
        mine = np.array([t == main for t in found["task"]])
        y, mean, std = (np.asarray(found[name])[mine] for name in ("y", "mean", "std"))
        scores = score_numbers(y, mean, std, error)
        rows.append(
            {
                "method": key,
                **{k: scores[k] for k in ("error", "log_density", "coverage")},
                "seconds": time.perf_counter() - started,
                "note": OPTIMISTIC,
            }
        )
    return Table({name: [r[name] for r in rows] for name in rows[0]})
