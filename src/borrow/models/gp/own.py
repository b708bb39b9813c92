"""A way out of a kernel that all tasks share: a task may be as it is by itself, where rows left out say so.

A model with one kernel for all tasks says of a task that needs other columns, or none, what it learnt from the others.
Beside it every task has a GP of its own, that of no transfer. A quarter of the task's rows at a time is left out of
both; the hyper-parameters of the own GP are learnt again from the rest, those that are shared stay, as the other tasks
know most of them. With S and S' the sums of squared errors of the shared and the own answers for the n rows left out,
s^2 the mean of such squares over all tasks, and r the part of the tasks that are by themselves,

    log odds of the own GP = (DOF + n)/2 log((DOF s^2 + S) / (DOF s^2 + S')) + log(r / (1 - r)),
    r = (1 + sum of the tasks' probabilities) / (2 + number of tasks), at most 1/2:

the likelihood ratio of errors whose variances are not known, but like s^2; of many tasks of few rows, some of which
look better by themselves by chance, most are as the others are. What is predicted is the average of the two by these
odds (`OtherModel`). Tried and not used: log densities of the rows left out, which mostly compare the noise, as a shared
model may hold that in common; rows left out at the hyper-parameters found, which are not learnt again and say "own" of
related tasks too; the evidence of both with hyper-parameters integrated out, which says "shared" where that has one and
a half times the error of no transfer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from borrow.covariance.contracts import Prediction
from borrow.data.cells import Cells, Codes
from borrow.estimators.gp import EXACT
from borrow.inference.hyper_uncertainty import HyperUncertainty, OtherModel
from borrow.kernels import Kernel
from borrow.models.gp.estimators import SingleTaskFit
from borrow.models.gp.model import (
    KEPT,
    Learnt,
    bounds_of,
    condition_single,
    fit_single,
    single_objective,
    single_priors,
    single_uncertainty,
)
from borrow.models.gp.task_model import NEGLIGIBLE
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values, maximise, with_prior
from borrow.numerics.warned import log
from borrow.tasks.contracts import Shard, Tasks

#: Rows are left out a quarter at a time. Tasks with fewer distinct rows than `FEWEST`, which hardly tell a function, or
#: more than `MOST` have no own GP, and none has where those that could have one have more than `MOST_TOGETHER`.
FOLDS, FEWEST, MOST, MOST_TOGETHER = 4, 10, 300, 2000
#: Most steps of the own hyper-parameters without a quarter, from those with it; and what the last gains, in nats.
STEPS, STILL = 8, 0.01
#: Rows that the typical squared error is worth; turns after which the part of tasks is still.
DOF, TURNS = 6.0, 30


class Own(NamedTuple):
    """A task's own GP, and how far off what is shared and it are of rows left out."""

    theta: Array
    likelihood: Values
    errors: Array  # S, S' and n


def with_own_gp(cells: Cells) -> Codes:
    """The tasks that have a GP of their own."""
    sizes = np.diff(cells.starts)
    able = np.flatnonzero((sizes >= FEWEST) & (sizes <= MOST))
    if sizes[able].sum() <= MOST_TOGETHER:
        return able if np.count_nonzero(sizes) > 1 else able[:0]
    log.info("%d tasks have %d rows together: none is answered by a GP of its own", len(able), sizes[able].sum())
    return able[:0]


def quarters(cells: Cells, able: Codes) -> Codes:
    """Which quarter of its task's rows each cell of these tasks is in, else -1. Always the same draw."""
    fold, sizes = np.full(len(cells.y), -1), np.diff(cells.starts)
    for t in able.tolist():
        fold[cells.of(t)] = np.random.default_rng(0).permutation(sizes[t]) % FOLDS
    return fold


def own_models(
    tasks: Tasks[Shard],
    kernel: Kernel,
    log_noise: Array,
    scales: Array,
    centred: bool,
    max_iter: int,
    fold: Codes,
    answers: Array,
) -> OtherModel | None:
    """Every task by itself, and how probable it is that it is to be; None where no task is.

    `fold` says when each cell was left out (-1: never), `answers` what the shared model then said of it, NaN where
    nothing. Kernel and log noise (M,) are where a task's own GP starts.
    """
    cells = tasks.cells
    if not np.any(fold >= 0):
        return None
    rows = map(cells.of, range(cells.n_tasks))
    parts = [(log_noise[t : t + 1], fold[at], answers[at]) for t, at in enumerate(rows)]
    found = [own for part in tasks.each(_own_of_shard, (kernel, scales, max_iter), parts) for own in part]
    p, have = np.zeros(cells.n_tasks), [t for t, own in enumerate(found) if own is not None]
    if have:
        p[have] = probabilities_of(np.array([own.errors for own in found if own is not None]))
    p[p < NEGLIGIBLE] = 0.0
    log.info("each task by itself has the probabilities %s", np.round(p, 2))
    return OtherModel(_posteriors(tasks, kernel, found, p, scales, centred), p) if p.any() else None


def probabilities_of(errors: Array) -> Array:
    """How probable each own GP is, from rows (S, S', n) of the tasks that have one."""
    shared, own, n = errors.T
    typical = max(DOF * float((shared + own).sum() / (2.0 * n.sum())), np.finfo(float).tiny)
    ratio, r = 0.5 * (DOF + n) * np.log((typical + shared) / (typical + own)), 0.5
    for _ in range(TURNS):
        r = min(0.5, (1.0 + float(expit(ratio + logit(r)).sum())) / (2.0 + len(n)))
    return np.asarray(expit(ratio + logit(r)))


def _own_of_shard(shard: Shard, how: tuple[Any, ...], parts: Sequence[Any]) -> list[Own | None]:
    """The own GPs of the tasks of a shard; None of one that was never left out."""
    tasks = shard.tasks()
    return [_own(tasks.only(t), *how, *part) if np.any(part[1] >= 0) else None for t, part in enumerate(parts)]


def _own(
    task: Tasks[Shard], kernel: Kernel, scales: Array, max_iter: int, log_noise: Array, fold: Codes, answers: Array
) -> Own | None:
    c = task.cells
    found = fit_single(task, kernel, {"noise": log_noise}, scales, "auto", max_iter)
    start, said = {"kernel": found.kernel.theta, **found.likelihood}, np.full(len(c.y), np.nan)
    for quarter in range(FOLDS):
        out = (fold == quarter) & np.isfinite(answers)
        if out.any() and not out.all():
            rest = replace(c, X=c.X[~out], y=c.y[~out], count=c.count[~out], starts=np.array([0, (~out).sum()]))
            said[out] = _answer(task.here(rest), found.kernel, start, scales, c.X[out])
    seen = np.isfinite(said)
    if not seen.any():
        return None
    w = c.count[seen]
    shared, own = (float(w @ (c.y[seen] - a[seen]) ** 2) for a in (answers, said))
    return Own(found.kernel.theta, found.likelihood, np.array([shared, own, seen.sum()]))


def _answer(rest: Tasks[Shard], kernel: Kernel, start: Values, scales: Array, X: Array) -> Array:
    """What a GP learnt again from the rest says of other rows."""
    objective = with_prior(single_objective(rest, kernel), single_priors(kernel, scales))
    at = maximise(objective, start, bounds_of(start, rest.cells), STEPS, STILL).values
    posterior: Any = condition_single(rest, kernel.with_theta(at["kernel"]), at).posterior
    return np.asarray(posterior.predict(X, np.zeros(len(X), dtype=np.intp)).mean)


def _posteriors(
    tasks: Tasks[Shard], kernel: Kernel, found: list[Own | None], p: Array, scales: Array, centred: bool
) -> SingleTaskFit:
    """The own GPs that count; in the place of each other one a GP that was told nothing."""
    c, nowhere = tasks.cells, np.zeros(2, dtype=np.intp)
    nothing = tasks.here(replace(c.only(0), X=c.X[:0], y=c.y[:0], count=c.count[:0], starts=nowhere))
    kernels, noise, each = [kernel] * len(p), np.ones(len(p)), []
    uncertainties: list[HyperUncertainty | None] = [None] * len(p)
    for t, own in enumerate(found):
        task = nothing
        if own is not None and p[t] > 0.0:
            task, kernels[t], noise[t] = tasks.only(t), kernel.with_theta(own.theta), np.exp(own.likelihood["noise"][0])
            learnt = Learnt(kernels[t], own.likelihood, KEPT)
            uncertainties[t] = single_uncertainty(task, learnt, scales, "auto", EXACT, centred)
        each.append(condition_single(task, kernels[t], {"noise": np.log(noise[t : t + 1])}).posterior)
    return SingleTaskFit(c, 0.0, noise, 0.0, 0, True, each, kernels, uncertainties)


def averaged(own: OtherModel | None, found: Prediction, X: Array, task: Codes, full: bool, hyper: bool) -> Prediction:
    """A prediction of the shared model averaged with that of the tasks' own GPs."""
    return found if own is None else own.mix(found, own.posterior.predict(X, task, full, hyper), task)


def averaged_noise(own: OtherModel | None, noise: Array) -> Array:
    """The noise of a new observation, averaged alike."""
    return noise if own is None else noise + own.probability * (own.posterior.expected_noise - noise)


def shared_probability(own: OtherModel | None, labels: tuple[Hashable, ...]) -> dict[Hashable, float]:
    """How probable the shared model is of each task, as predictions are averaged."""
    p = np.zeros(len(labels)) if own is None else np.asarray(own.probability)
    return dict(zip(labels, (1.0 - p).tolist(), strict=True))
