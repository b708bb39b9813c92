"""The search for the focused model's algebra, inducing inputs and hyper-parameters.

Where all pairs of rows can be written out the model is exact and needs no inducing inputs. Otherwise the search begins
on fewer rows, all pairs of which can; Z is then chosen for the kernel found. Where there are too few rows to spare, Z
decides which lengthscales the shared function can have: it is fine enough for the shortest lengthscale that any task
shows by itself (`Alone.finest`). At the end Z is chosen again for the kernel found on all rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from borrow.covariance import Design, choose_inducing, spread_inducing
from borrow.covariance.inducing import MOST
from borrow.data.cells import Cells
from borrow.data.scaling import TaskData
from borrow.estimators.settings import is_matrix
from borrow.inference import EPInference, ExactInference
from borrow.models.focused.alone import fit_alone
from borrow.models.focused.model import Setup, task_weights
from borrow.models.focused.relations import (
    Search,
    drop_all_unless_worth_it,
    flip_signs_that_help,
    give_own_part,
    protect_primary,
    prune,
    sharing_gains,
    with_own_part,
)
from borrow.models.focused.scoring import BLOCK_HEAT, HEAT, FocusedAscent
from borrow.models.focused.starts import starts
from borrow.models.gp.ascent import on_few_rows
from borrow.models.gp.model import bounds_of, fit_single
from borrow.numerics import optimise as hyper
from borrow.numerics.optimise import Optimum, Values
from borrow.tasks.placed import PlacedTasks

log = logging.getLogger("borrow")

#: Steps of L-BFGS from every start before the best goes on. With labels one is a run of EP, and ten tell as much.
WARMUP_ITERATIONS, LABEL_WARMUP_ITERATIONS = hyper.HEAT, 10
#: With labels inputs that this many do not cover, as in many columns, are not worth covering: slower, and no better.
LABEL_MOST = 100
#: Up to so many rows of all tasks together every pair of them is written out.
EXACT_ROWS = 1000
#: Of more rows, so many begin the search.
SEARCH_ROWS = 400
#: Fewer rows of a task than this tell nothing of its relation.
LEAST_ROWS = 8


def is_exact(how: Any, cells: Cells, background: bool) -> bool:
    """Whether all pairs of rows are written out: asked for by inducing=None, or "auto" where that is affordable.

    So few rows are computed in this process, on the host. Background functions have the structured form.
    """
    if how is None and background:
        raise ValueError("inducing=None writes out all pairs of rows, which goes without background; use 'auto'")
    return how is None or (isinstance(how, str) and how == "auto" and not background and len(cells.y) <= EXACT_ROWS)


def with_inducing(how: Any, data: TaskData, setup: Setup, values: Values) -> Setup:
    """Choose Z for the kernel at `values`; with labels "auto" is the primary's inputs where the others are too many."""
    if setup.design is not None:
        return setup
    if is_exact(how, data.cells, "loadings" in values):
        inputs, tasks = data.inputs(setup.primary), PlacedTasks(data.cells)
        return replace(setup, tasks=tasks, Z=inputs if len(inputs) else data.cells.X, design=Design.of(data.cells))
    kernel = setup.kernel.with_theta(values["kernel"])
    first = data.inputs(setup.primary)
    left = 0.0  # asked for: nothing to be said
    rest = np.vstack([data.cells.X[data.cells.of(int(t))] for t in setup.secondaries] or [first[:0]])
    if isinstance(how, str) and how == "auto":
        labels = isinstance(setup.infer, EPInference)
        Z, left = spread_inducing(kernel, first, rest, LABEL_MOST if labels else len(first) + MOST)
        if labels and len(Z) == LABEL_MOST and len(first):
            Z, left = spread_inducing(kernel, first, rest, 0)
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
            f"inducing={how!r}: expected 'auto', None, 'primary', a number of inputs, or an array of them with "
            f"{first.shape[1]} columns"
        )
    if setup.background is None:
        return replace(setup, Z=Z, left=left)
    shared = setup.background.with_theta(values["background"])
    return replace(setup, Z=Z, left=left, background_Z=choose_inducing(shared, rest[:0], rest, MOST))


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
    few = fewer_rows(setup)
    if few is None:
        setup = with_inducing(how.inducing, data, setup, {**alone.values, **alone.finest(setup)})
    given = {**alone.values, "rho": values["rho"]} if rho_given else None
    candidates = starts(setup, alone, check_random_state(how.random_state), how.n_restarts, given)
    labels = isinstance(setup.infer, EPInference)
    warmup = LABEL_WARMUP_ITERATIONS if labels else WARMUP_ITERATIONS
    bounds = bounds_of(candidates[0], setup.cells)
    search = Search(FocusedAscent(setup, scales, how.prior, how.weight_sd, rough=True), bounds, alone, how.max_iter)
    priced = search.cost > 0 and how.weight_sd is not None
    priced = priced and len(setup.secondaries) > 0 and alone.primary is not None
    if few is not None:
        search = replace(search, ascent=FocusedAscent(few, scales, how.prior, how.weight_sd))
    if priced and labels and "loadings" not in values:
        search, candidates = with_own_part(search, candidates)
    heat = HEAT if search.ascent.scores else BLOCK_HEAT if search.ascent.blocks else warmup
    best = flip_signs_that_help(search, search.ascent.race(candidates, search.bounds, how.max_iter, heat))
    weighed = (
        priced and "noise" in best.values and "loadings" not in best.values
    )  # the primary's rows, given the others
    if weighed:
        search, best = give_own_part(search, best, candidates[2])
    setup = replace(setup, specific=search.setup.specific)
    if few is not None:
        curvature = search.ascent.information(best.values) * (len(data.cells.y) / len(few.cells.y))
        setup = with_inducing(how.inducing, data, setup, best.values)
        search = replace(search, ascent=FocusedAscent(setup, scales, how.prior, how.weight_sd, curvature))
        best = flip_signs_that_help(search, search.go_on(best, best.values))
    if priced and labels:
        search, best = drop_all_unless_worth_it(search, best)
    elif priced:
        search, best = prune(search, best, sharing_gains(search, best))
    if weighed:
        search, best = protect_primary(search, best)
    again = with_inducing(how.inducing, data, setup, best.values)
    if not np.array_equal(again.Z, setup.Z) or search.ascent.rough:
        setup = again
        search = replace(search, ascent=FocusedAscent(again, scales, how.prior, how.weight_sd, search.ascent.curvature))
        best = flip_signs_that_help(search, search.go_on(best, best.values))
        if priced and np.any(best.values["rho"]):  # on the Z that is kept the relations must still pay
            _, best = drop_all_unless_worth_it(search, best)
            setup = setup if np.any(best.values["rho"]) else with_inducing(how.inducing, data, setup, best.values)
    if priced and not np.any(task_weights(best.values, setup)[setup.secondaries]):
        setup, best = as_no_transfer(
            replace(search, ascent=FocusedAscent(setup, scales, how.prior, how.weight_sd)), best, values
        )
    log.info("objective %.4f, %d iterations, %d inducing inputs", best.objective, best.n_iter, len(setup.Z))
    return setup, best.values, best


def as_no_transfer(search: Search, best: Optimum, given: Values) -> tuple[Setup, Optimum]:
    """Where nothing is shared the primary is fitted as no transfer fits it, from the values given, and as closely.

    Its function has one part then.
    """
    ascent, t = search.ascent, search.setup.primary
    setup = replace(search.setup, specific=[None if s == t else k for s, k in enumerate(search.setup.specific)])
    theta = np.delete(best.values["specific"], search.setup.specific_parts[t])
    ascent = FocusedAscent(setup, ascent.scales, ascent.prior, ascent.sd)
    noise = {"noise": given["noise"][[t]]} if "noise" in given else {}  # labels have none
    how = ascent.scales, ascent.prior, search.max_iter, setup.infer
    kernel, own, optimum, _ = fit_single(setup.tasks.only(t), setup.kernel.with_theta(given["kernel"]), noise, *how)
    values = {**best.values, "kernel": kernel.theta, "specific": theta}
    if noise:
        values["noise"] = best.values["noise"].copy()
        values["noise"][t] = own["noise"][0]
    n_iter, reached = best.n_iter + optimum.n_iter, ascent.objective(values)[0]
    return setup, replace(optimum, values=values, objective=reached, n_iter=n_iter, at_bound=[])


def fewer_rows(setup: Setup) -> Setup | None:
    """The model on so few rows that they can be written out, where it cannot on all: the search begins there.

    None where it is exact as it is, and where tasks have no rows to spare.
    """
    if setup.design is not None or setup.background is not None or not isinstance(setup.infer, ExactInference):
        return None
    rows = SEARCH_ROWS // len(setup.specific)
    if rows < LEAST_ROWS or rows * len(setup.specific) > len(setup.cells.y) // 2:
        return None
    few: Setup | None = on_few_rows(setup, rows)
    return few
