"""The search for the focused model's algebra, inducing inputs and hyper-parameters.

Where all pairs of rows can be written out the model is exact and needs no inducing inputs. Otherwise the search begins
on fewer rows, all pairs of which can; Z is then chosen for the kernel found, and on all rows a relation that looks weak
begins once more, from the regression on what all tasks say of the primary by then. Where there are too few rows to
spare, Z decides which lengthscales the shared function can have: it is fine enough for the shortest lengthscale that
any task shows by itself (`OwnFits.finest`). At the end Z is chosen again for the kernel found on all rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

from borrow.covariance import Design, choose_inducing, spread_inducing
from borrow.covariance.inducing import MOST
from borrow.data.scaling import TaskData
from borrow.estimators.settings import is_matrix, is_whole
from borrow.models.focused.model import Setup, condition, task_weights
from borrow.models.focused.primary import (
    give_own_part,
    protect_primary,
    settle_primary,
    with_own_part,
    without_own_part,
)
from borrow.models.focused.relations import (
    Search,
    ask_again,
    drop_all_unless_worth_it,
    flip_signs_that_help,
    log_odds,
    prune,
    sharing_gains,
)
from borrow.models.focused.scoring import BLOCK_WARMUP, SCORING_WARMUP, FocusedAscent
from borrow.models.focused.starts import START_ROWS, fit_alone, starts
from borrow.models.gp.model import bounds_of, fit_single, likelihood_of
from borrow.models.gp.task_model import NEGLIGIBLE, NoTransfer, on_few_rows
from borrow.numerics.optimise import WARMUP, Optimum, Values
from borrow.numerics.warned import log

#: Steps of L-BFGS from every start before the best goes on. With labels one is a run of EP, and ten tell as much.
WARMUP_ITERATIONS, LABEL_WARMUP_ITERATIONS = WARMUP, 10
#: With labels inputs that this many do not cover, as in many columns, are not worth covering: slower, and no better.
LABEL_MOST = 100
#: Up to so many rows of all tasks together every pair of them is written out.
EXACT_ROWS = 1000
#: Of more rows about so many begin the search, and no fewer of a task than tell its lengthscales and its relation
#: apart, while all of them can be written out; where this many would have to do for so many tasks, all rows begin it.
SEARCH_ROWS, TELLING_ROWS, LEAST_ROWS = 400, 24, 8


def with_inducing(how: Any, data: TaskData, setup: Setup, values: Values) -> Setup:
    """Choose Z for the kernel at `values`; with labels "auto" is the primary's inputs where the others are too many.

    All pairs of rows are written out, in this process and on the host, where it is asked for by inducing=None, or
    "auto" where that is affordable; background functions have the structured form.
    """
    if setup.design is not None:
        return setup
    background, auto = "loadings" in values, isinstance(how, str) and how == "auto"
    if how is None and background:
        raise ValueError("inducing=None writes out all pairs of rows, which goes without background; use 'auto'")
    if how is None or (auto and not background and len(data.cells.y) <= EXACT_ROWS):
        inputs, design = data.inputs(setup.primary), Design.from_cells(data.cells)
        return replace(setup, tasks=setup.tasks.on_host(), Z=inputs if len(inputs) else data.cells.X, design=design)
    kernel = setup.kernel.with_theta(values["kernel"])
    first = data.inputs(setup.primary)
    left = 0.0  # asked for: nothing to be said
    rest = np.vstack([data.cells.X[data.cells.of(int(t))] for t in setup.secondaries] or [first[:0]])
    if auto:
        labels = not setup.infer.gaussian
        Z, left = spread_inducing(kernel, first, rest, LABEL_MOST if labels else len(first) + MOST)
        if labels and len(Z) == LABEL_MOST and len(first):
            Z, left = spread_inducing(kernel, first, rest, 0)
    elif isinstance(how, str) and how == "primary":
        if len(first) == 0:
            raise ValueError("inducing='primary' and the primary has no row, labelled or not; use 'auto'")
        Z = np.unique(first, axis=0)
    elif is_whole(how, 1):
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


def optimise(
    estimator: Any, data: TaskData, setup: Setup, values: Values, sd: float | None
) -> tuple[Setup, Optimum, NoTransfer | None]:
    """Race the starts, flip signs, prune, choose Z again for the kernel found and go on from there.

    The settings of the search are the estimator's; sd is that of the prior on weights. With labels no transfer comes
    with it, where both may be.
    """
    scales, inducing, max_iter = data.column_scales, estimator.inducing, estimator.max_iter
    alone = fit_alone(setup, values, scales, estimator.prior, max_iter)
    few = fewer_rows(setup) if estimator.prior is not None else None  # a likelihood of few rows has no bound
    if few is None:
        setup = with_inducing(inducing, data, setup, {**alone.values, **alone.finest(setup)})
    given = {**alone.values, "rho": values["rho"]} if estimator.rho is not None else None
    candidates = starts(setup, alone, check_random_state(estimator.random_state), estimator.n_restarts, given)
    labels = not setup.infer.gaussian
    warmup = LABEL_WARMUP_ITERATIONS if labels else WARMUP_ITERATIONS
    bounds = bounds_of(candidates[0], setup.cells)
    search = Search(FocusedAscent(setup, scales, estimator.prior, sd, rough=True), bounds, alone, max_iter)
    priced = search.priced
    averaged = priced and labels and "loadings" not in values
    if few is not None:
        search = search.on(few)
    if averaged:
        search, candidates = with_own_part(search, candidates)
    warmup = SCORING_WARMUP if search.ascent.scores else BLOCK_WARMUP if search.ascent.blocks else warmup
    best = flip_signs_that_help(search, search.ascent.maximise_from(candidates, search.bounds, max_iter, warmup))
    weighed = priced and not labels and "loadings" not in values  # the primary's rows, given the others
    if weighed:
        search, best = give_own_part(search, best, candidates[2])
    setup = replace(setup, specific=search.setup.specific)
    if few is not None:
        curvature = search.ascent.information(best.values) * (len(data.cells.y) / len(few.cells.y))
        setup = with_inducing(inducing, data, setup, best.values)
        search = search.on(setup, curvature)
        best = flip_signs_that_help(search, search.go_on(best, best.values))
        if priced:
            best = ask_again(search, best)
        if weighed:  # fewer rows may not have told the primary's own part from what it shares
            search, best = give_own_part(search, best, best.values)
            setup = replace(setup, specific=search.setup.specific)
    if priced and not labels:
        search, best = prune(search, best, sharing_gains(search, best))
    if weighed:
        search, best = protect_primary(search, best)
    again = with_inducing(inducing, data, setup, best.values)
    if not np.array_equal(again.Z, setup.Z) or search.ascent.rough:
        setup, search = again, search.on(again, search.ascent.curvature)
        best = settle_primary(search, best) if weighed else best
        best = flip_signs_that_help(search, search.go_on(best, best.values))
        if priced and not labels and np.any(best.values["rho"]):  # on the Z that is kept the relations must still pay
            _, best = drop_all_unless_worth_it(search, best)
            setup = setup if np.any(best.values["rho"]) else with_inducing(inducing, data, setup, best.values)
    beside = None
    if averaged:
        setup, best, beside = average(search, best, with_inducing(inducing, data, setup, alone.values), values)
    elif priced and not np.any(task_weights(best.values, setup)[setup.secondaries]):
        setup, best = as_no_transfer(search.on(setup), best, values)
    log.info("objective %.4f, %d iterations, %d inducing inputs", best.objective, best.n_iter, len(setup.Z))
    return setup, best, beside


def average(search: Search, best: Optimum, nothing: Setup, given: Values) -> tuple[Setup, Optimum, NoTransfer | None]:
    """The model with relations and no transfer beside it, as probable as it is; or the one that is certain enough."""
    alone = search.alone
    alone_setup, at = without_own_part(nothing, alone.values)
    evidence = float(alone.evidences[np.diff(nothing.cells.starts) > 0].sum())
    if np.isnan(evidence):  # a task has no function of its own, and was not fitted by itself
        evidence = condition(at, alone_setup).evidence
    objective = evidence + search.on(alone_setup).ascent.log_prior(at)
    probability = float(expit(-log_odds(search, best, objective))) if np.any(best.values["rho"]) else 1.0
    log.info("no transfer has the probability %.3f", probability)
    if probability < NEGLIGIBLE:
        return search.setup, best, None
    setup, none = as_no_transfer(search.on(nothing), replace(best, values=alone.values), given)
    if probability > 1.0 - NEGLIGIBLE:
        return setup, none, None
    return search.setup, best, NoTransfer(setup, none.values, probability)


def as_no_transfer(search: Search, best: Optimum, given: Values) -> tuple[Setup, Optimum]:
    """Where nothing is shared the primary is fitted as no transfer fits it, from the values given, and as closely.

    Its function has one part then.
    """
    setup, values = without_own_part(search.setup, best.values)
    ascent, t = search.on(setup).ascent, setup.primary
    noise = likelihood_of(given, t)
    how = ascent.scales, ascent.prior, search.max_iter, setup.infer
    kernel, own, optimum, _ = fit_single(setup.tasks.only(t), setup.kernel.with_theta(given["kernel"]), noise, *how)
    values["kernel"] = kernel.theta
    if noise:
        values["noise"] = best.values["noise"].copy()
        values["noise"][t] = own["noise"][0]
    reached = ascent.objective(values)[0]
    return setup, replace(best.followed_by(optimum), values=values, objective=reached, at_bound=[])


def fewer_rows(setup: Setup) -> Setup | None:
    """The model on so few rows that they can be written out, where it cannot on all: the search begins there.

    The primary has as many as the starts look at: every relation is to it, and so is the part of its own. None where
    the model is exact as it is, and where tasks have no rows to spare.
    """
    if setup.design is not None or setup.background is not None or not setup.infer.gaussian:
        return None
    M, half = len(setup.specific), len(setup.cells.y) // 2
    rows = np.full(M, SEARCH_ROWS // M)
    if rows[0] < LEAST_ROWS or rows.sum() > half:
        return None
    rows = np.maximum(rows, min(TELLING_ROWS, min(EXACT_ROWS, half) // M))
    rows[setup.primary] = max(rows[0], START_ROWS)
    return on_few_rows(setup, setup.tasks.on_host(), rows)
