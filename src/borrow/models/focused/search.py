"""The search for the focused model's inducing inputs and hyper-parameters.

Z decides which lengthscales the shared function can have, so the starts race on a Z that is fine enough for the
shortest lengthscale that any task shows by itself (`Alone.finest`); at the end Z is chosen again for the kernel found.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from borrow.covariance import choose_inducing
from borrow.covariance.inducing import MOST
from borrow.data.scaling import TaskData
from borrow.estimators.settings import is_matrix
from borrow.inference import EPInference
from borrow.models.focused.alone import fit_alone
from borrow.models.focused.model import Setup, objective_of
from borrow.models.focused.relations import (
    Search,
    drop_all_unless_worth_it,
    flip_signs_that_help,
    prune,
    sharing_gains,
)
from borrow.models.focused.starts import starts
from borrow.models.gp.model import bounds_of
from borrow.numerics import optimise as hyper
from borrow.numerics.optimise import Optimum, Values

log = logging.getLogger("borrow")

#: Iterations of every start before the best goes on. With labels an evaluation is a run of EP, and ten tell as much.
WARMUP_ITERATIONS, LABEL_WARMUP_ITERATIONS = 25, 10
#: With labels inputs that this many do not cover, as in many columns, are not worth covering: slower, and no better.
LABEL_MOST = 100


def with_inducing(how: Any, data: TaskData, setup: Setup, values: Values) -> Setup:
    """Choose Z for the kernel at `values`; with labels "auto" is the primary's inputs where the others are too many."""
    kernel = setup.kernel.with_theta(values["kernel"])
    first = data.inputs(setup.primary)
    rest = np.vstack([data.cells.X[data.cells.of(int(t))] for t in setup.secondaries] or [first[:0]])
    if isinstance(how, str) and how == "auto":
        labels = isinstance(setup.infer, EPInference)
        Z = choose_inducing(kernel, first, rest, LABEL_MOST if labels else MOST)
        if labels and len(Z) == LABEL_MOST and len(first):
            Z = choose_inducing(kernel, first, rest[:0])
    elif isinstance(how, str) and how == "primary":
        if len(first) == 0:
            raise ValueError("inducing='primary' and the primary has no row, labelled or not; use 'auto'")
        Z = np.unique(first, axis=0)
    elif isinstance(how, (int, np.integer)) and not isinstance(how, bool) and how >= 1:
        Z = choose_inducing(kernel, first[:0], np.vstack([first, rest]), int(how), tolerance=1e-10)
    elif is_matrix(how, first.shape[1]):
        Z = np.array(how, dtype=float)
    else:
        raise ValueError(
            f"inducing={how!r}: expected 'auto', 'primary', a number of inputs, or an array of them with "
            f"{first.shape[1]} columns"
        )
    if setup.background is None:
        return replace(setup, Z=Z)
    shared = setup.background.with_theta(values["background"])
    return replace(setup, Z=Z, background_Z=choose_inducing(shared, rest[:0], rest, MOST))


@dataclass(frozen=True)
class Settings:
    """What the estimators' constructors say about the search."""

    inducing: Any
    prior: str | None
    weight_sd: float | None
    max_iter: int
    n_restarts: int
    random_state: Any


def optimise(
    data: TaskData, setup: Setup, values: Values, how: Settings, rho_given: bool
) -> tuple[Setup, Values, Optimum]:
    """Race the starts, flip signs, prune, choose Z again for the kernel found and go on from there."""
    scales = data.column_scales
    alone = fit_alone(setup, values, scales, how.prior, how.max_iter)
    setup = with_inducing(how.inducing, data, setup, {**alone.values, **alone.finest(setup)})
    given = {**alone.values, "rho": values["rho"]} if rho_given else None
    candidates = starts(setup, alone, check_random_state(how.random_state), how.n_restarts, given)
    objective = objective_of(setup, scales, how.prior, how.weight_sd)
    search = Search(setup, objective, bounds_of(candidates[0], setup.cells), alone, how.max_iter)
    warmup = LABEL_WARMUP_ITERATIONS if isinstance(setup.infer, EPInference) else WARMUP_ITERATIONS
    best = hyper.race(objective, candidates, search.bounds, how.max_iter, warmup)
    best = flip_signs_that_help(search, best)
    priced = search.cost > 0 and how.weight_sd is not None
    priced = priced and len(setup.secondaries) > 0 and alone.primary is not None
    if priced:
        search, best = prune(search, best, sharing_gains(search, best, scales, how.prior, how.weight_sd))
    again = with_inducing(how.inducing, data, setup, best.values)
    if not np.array_equal(again.Z, setup.Z):
        setup, objective = again, objective_of(again, scales, how.prior, how.weight_sd)
        search = replace(search, setup=setup, objective=objective)
        best = flip_signs_that_help(search, search.go_on(best, best.values))
        if priced and np.any(best.values["rho"]):  # on the Z that is kept the relations must still pay
            _, best = drop_all_unless_worth_it(search, best)
            setup = setup if np.any(best.values["rho"]) else with_inducing(how.inducing, data, setup, best.values)
    log.info("objective %.4f, %d iterations, %d inducing inputs", best.objective, best.n_iter, len(setup.Z))
    return setup, best.values, best
