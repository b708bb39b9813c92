"""Which tasks share functions, decided by evidence in one model where every task also has a function of its own.

    cov(f_t(x), f_t'(x')) = K^f[t, t'] k^x(x, x') + [t = t'] k_t(x, x'),   K^f[t, :] = 0 for a task that shares nothing.

One input kernel for all tasks is the cause of negative transfer: tasks that need other columns, or none, decide over
k^x for all. Here a task that differs can say so through k_t, which has lengthscales of its own; those that share
nothing at all are single-task GPs exactly, so that a table without anything in common is answered as by a
`SingleTaskGP*`. The steps:

1. every task by itself: this is the model in which nothing is shared;
2. all tasks are alike: K^f = a 11' + b I, one kernel, nothing else. Of many tasks with few rows each no more can be
   learnt, and this is learnt from all of them;
3. all tasks share, from nearly all of every task's variance in a free K^f with the correlations of their own fits, and
   each has a kernel of its own; not tried where K^f has more entries than there are rows;
4. in 2 and 3 tasks that would be better off alone leave, and the rest goes on;
5. the best of the three, where 2 pays for who shares, and 3 `price_of_sharing`: the freedom of K^f and k^x gained up to
   0.6 nats for each of ten unrelated tasks of 16 rows, 0.9 of 60 rows, and to choose who shares is a freedom too;
6. labels tell little of a single task, and what it gains from sharing is often a fraction of a nat: what is predicted
   is the average of the model found and of no transfer, for each task by its own odds (`no_transfer_beside`).

With many rows this is decided on a few of every task, evenly spaced, and the search ends on all of them. A complete
design has cheap algebra without functions of the tasks' own: there it is tried first, and kept where it passes step 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from borrow.inference import Inference
from borrow.inference.priors import log_choices
from borrow.kernels import Constant, Kernel, Product
from borrow.models.gp.model import (
    OwnFit,
    bounds_of,
    fit_each,
    fit_single,
    likelihood_of,
    single_priors,
    smooth_and_rough,
)
from borrow.models.gp.task_model import NEGLIGIBLE, NoTransfer
from borrow.models.multitask.model import Setup, choose_path, condition, priors_of
from borrow.models.multitask.search import (
    MEMORY,
    ascent_of,
    fewer_rows,
    go_on,
    optimise,
    start_correlation,
)
from borrow.models.multitask.task_covariance import SharingTasks, Uniform
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, Values
from borrow.numerics.warned import log
from borrow.tasks.contracts import Shard, Tasks

#: What a free K^f has to gain for each task beyond the first that shares, times the log of the rows of a task, in nats.
COST = 0.4
#: The penalty on the correlations is so much weaker than without own functions, which shrink them already.
STRENGTH = 0.1
#: A task's own fit in a batch ends where two steps in a row gain less than this each.
TOGETHER = 1e-4
#: Share of every task's variance that starts in K^f.
SHARED = 0.9
#: The search is still where this many steps together, or a scoring step, gain less than this for each row.
PATIENCE, STILL = 5, 5e-6
#: Above this many rows a complete design keeps its algebra: tasks share everything or nothing.
MOST_DENSE = 1500


@dataclass(frozen=True)
class OwnFits:
    """What every task's fit by itself reached: hyper-parameters, objective and evidence."""

    theta: list[Array]
    noise: list[Array]  # empty arrays for labels
    objective: Array  # (M,): evidence and priors
    evidence: Array  # (M,)
    n_iter: int
    converged: bool

    def values(self, kernel: Array) -> Values:
        """As values of the joint model, in which they share nothing yet."""
        own = {"noise": np.concatenate(self.noise)} if len(self.noise[0]) else {}
        return {"kernel": kernel, **own, "factor": np.zeros(0), "specific": np.concatenate(self.theta)}


def choose_sharing(
    setup: Setup, values: Values, scales: Array, kernel: Kernel, max_iter: int
) -> tuple[Setup, Optimum, NoTransfer | None]:
    """The setup with the tasks that share, and its hyper-parameters; `kernel` is that of a task by itself.

    With labels no transfer comes with it, where it may be as well.
    """
    own = kernel if np.any(kernel.mask_of("variance")) else Product.of(Constant(1.0), kernel)
    few = fewer_rows(setup)
    if few is not None:
        return _from_few_rows(setup, few, values, scales, own, max_iter)
    alone = fit_alone(setup, values, scales, own, max_iter)
    nothing = sharing_setup(setup, own, ())
    separate = Optimum(
        alone.values(values["kernel"]), float(alone.objective.sum()), alone.n_iter, 0, alone.converged, ""
    )
    n = len(setup.cells.y)
    cost = COST * float(np.log(max(n / setup.M, 1.0)))
    if setup.path == "complete":
        shared = optimise(setup, values, scales, "auto", max_iter)
        gain = shared.objective - setup.form.log_prior(setup.form.start(np.eye(setup.M)))[0] - separate.objective
        log.info("all tasks share one kernel: %.2f nats over nothing shared", gain)
        if gain > price_of_sharing(setup.M, setup.M, cost):
            return setup, shared, None
        if n > MOST_DENSE:
            return nothing, separate, None
    found = [(0.0, nothing, separate)]
    candidates = [("alike", 0.0, _all_alike), ("a free K^f", cost, _with_own_functions)]
    for name, each, sharing in candidates if 2 * n >= setup.M * (setup.M + 1) else candidates[:1]:
        joint, best = sharing(setup, values, scales, own, alone, max_iter)
        m, gain = len(_members(joint)), best.objective - separate.objective
        log.info("%s: %d of %d tasks share, %.2f nats over nothing shared", name, m, setup.M, gain)
        if m:
            found.append((gain - price_of_sharing(setup.M, m, each), joint, best))
    _, chosen, best = max(found, key=lambda one: one[0])
    return chosen, best, no_transfer_beside(chosen, best, scales, own, alone)


def no_transfer_beside(chosen: Setup, best: Optimum, scales: Array, own: Kernel, alone: OwnFits) -> NoTransfer | None:
    """Of labels: every task by itself, and how probable that is of each; None where it is certain who shares.

    Beforehand it is as likely that a task shares as that it does not. Given what the others share it is

        p(t by itself | labels) = 1 / (1 + exp(gain_t)),   gain_t of `gains_of_sharing`,

    1 of a task that left, and 0 where it is less than `NEGLIGIBLE`.
    """
    members = list(_members(chosen))
    if chosen.infer.gaussian or not members:
        return None
    probability = np.ones(chosen.M)
    probability[members] = expit(-gains_of_sharing(chosen, best, scales, own, alone)[members])
    probability[probability < NEGLIGIBLE] = 0.0
    log.info("each task by itself has the probabilities %s", np.round(probability, 2))
    if not np.any(probability[members]):
        return None
    return NoTransfer(sharing_setup(chosen, own, ()), alone.values(best.values["kernel"]), probability)


def price_of_sharing(M: int, m: int, cost: float) -> float:
    """What m sharing tasks of M must gain over nothing shared, in nats; any m is as likely as another beforehand.

    `cost` for each further task, and the log of how many choices of m tasks there are, which are all alike beforehand.
    """
    return cost * (m - 1) + log_choices(M, m)


def _from_few_rows(
    setup: Setup, few: Setup, values: Values, scales: Array, own: Kernel, max_iter: int
) -> tuple[Setup, Optimum, NoTransfer | None]:
    """What shares, and where the search on all rows starts, found on some rows of every task."""
    chosen, best, beside = choose_sharing(few, values, scales, own, max_iter)
    nothing = sharing_setup(setup, own, ())
    if not _members(chosen) or beside is not None:
        alone = fit_alone(setup, values, scales, own, max_iter)
        at = alone.values(values["kernel"])
    if not _members(chosen):
        found = Optimum(at, float(alone.objective.sum()), alone.n_iter, 0, alone.converged, "every task by itself")
        return nothing, found, None
    joint = replace(chosen, tasks=setup.tasks, design=setup.design)
    if isinstance(joint.form, Uniform):
        joint = alike_setup(joint, own, _members(joint))  # the algebra that is cheapest for all rows
    beside = None if beside is None else NoTransfer(nothing, at, beside.probability)
    return joint, go_on(joint, best, scales, "auto", max_iter), beside


def fit_alone(setup: Setup, values: Values, scales: Array, kernel: Kernel, max_iter: int) -> OwnFits:
    """Fit every task by itself; one without rows keeps the kernel."""
    starts = [(kernel, likelihood_of(values, t)) for t in range(setup.M)]
    found = fit_each(setup.tasks, _fit_one, starts, scales, "auto", max_iter, setup.infer, TOGETHER)
    log_prior = single_priors(kernel, scales, "noise" in values, setup.infer.log_variance)
    each, by_prior = [], np.zeros(setup.M)
    for t, (fit, (_, likelihood)) in enumerate(zip(found, starts, strict=True)):
        each.append(fit or OwnFit(kernel.theta, likelihood, 0.0))
        by_prior[t] = 0.0 if fit is None else log_prior({"kernel": fit.theta, **fit.likelihood})[0]
    evidence, noises = np.array([f.evidence for f in each]), [f.likelihood.get("noise", np.zeros(0)) for f in each]
    n_iter, converged = max(f.n_iter for f in each), all(f.converged for f in each)
    return OwnFits([f.theta for f in each], noises, evidence + by_prior, evidence, n_iter, converged)


def _fit_one(
    tasks: Tasks[Shard], kernel: Kernel, likelihood: Values, scales: Array, prior: str, max_iter: int, infer: Inference
) -> OwnFit:
    """The GP of one task that shares nothing, as `fit_each` asks for it."""
    _, own, optimum, _ = fit_single(tasks, kernel, likelihood, scales, prior, max_iter, infer)
    by_prior = single_priors(kernel, scales, bool(likelihood), infer.log_variance)(optimum.values)[0]
    return OwnFit(optimum.values["kernel"], own, optimum.objective - by_prior, optimum.n_iter, optimum.converged)


def sharing_setup(setup: Setup, own: Kernel, members: Sequence[int], strength: float | None = None) -> Setup:
    """The model in which these tasks share and every task has a kernel of its own; `strength` is for each task."""
    strength = strength if strength is not None else _strength(setup)
    form = SharingTasks(setup.M, tuple(members), strength * len(members), setup.infer.log_variance)
    return replace(setup, form=form, specific=[own] * setup.M, path="dense" if len(members) else "blocks")


def _strength(setup: Setup) -> float:
    """Of the penalty on K^f, for each task in it."""
    assert setup.form.strength is not None  # nothing is chosen by evidence without priors
    return setup.form.strength / max(len(_members(setup)), 1)


def _members(setup: Setup) -> tuple[int, ...]:
    return tuple(range(setup.M) if setup.form.members is None else setup.form.members)


def alike_setup(setup: Setup, own: Kernel, members: Sequence[int]) -> Setup:
    """The model in which these tasks are alike, and the others by themselves."""
    everyone = len(members) == setup.M
    form = Uniform(setup.M, setup.form.strength, setup.infer.log_variance, None if everyone else tuple(members))
    specific = [] if everyone else [None if t in members else own for t in range(setup.M)]
    path = choose_path(setup.design, form, False, specific, False, setup.infer.gaussian)
    return replace(setup, form=form, specific=specific, path=path)


def _all_alike(
    setup: Setup, values: Values, scales: Array, own: Kernel, alone: OwnFits, max_iter: int
) -> tuple[Setup, Optimum]:
    """All tasks alike but those that would rather be alone."""
    joint = alike_setup(setup, own, range(setup.M))
    return _let_leave(joint, optimise(joint, values, scales, "auto", max_iter), scales, own, alone, max_iter)


def _with_own_functions(
    setup: Setup, values: Values, scales: Array, own: Kernel, alone: OwnFits, max_iter: int
) -> tuple[Setup, Optimum]:
    """The best model found in which tasks share and each has a kernel of its own, but those that leave."""
    joint = sharing_setup(setup, own, range(setup.M), STRENGTH * _strength(setup))
    starts = [_start(joint, start, own, alone) for start in smooth_and_rough(setup.kernel, values)]
    start = max(starts, key=lambda at: _value(joint, at, scales))
    return _let_leave(joint, _maximise(joint, start, scales, max_iter), scales, own, alone, max_iter)


def _let_leave(
    joint: Setup, best: Optimum, scales: Array, own: Kernel, alone: OwnFits, max_iter: int
) -> tuple[Setup, Optimum]:
    """The model without the tasks that would be better off alone, and its optimum."""
    gains = gains_of_sharing(joint, best, scales, own, alone)
    leaving = set(np.flatnonzero(gains < 0.0).tolist())
    log.debug("gains of sharing, by task: %s", np.round(gains, 2))
    if not leaving:
        return joint, best
    if joint.M - len(leaving) < 2:
        return sharing_setup(joint, own, ()), best
    fewer, start = without(joint, best.values, leaving, own, alone)
    return fewer, best.followed_by(_maximise(fewer, start, scales, max(max_iter - best.n_iter, 1)))


def _start(joint: Setup, values: Values, own: Kernel, alone: OwnFits) -> Values:
    """Most of every task's variance in K^f, with the correlations of the tasks' own fits, the rest in their kernels."""
    found = alone.values(values["kernel"])
    noise = np.exp(found.get("noise", np.zeros(joint.M)))
    C = start_correlation(joint, joint.kernel.with_theta(values["kernel"]), noise)
    variance = np.tile(own.mask_of("variance"), joint.M)
    B = SHARED * joint.form.parts(joint.form.start(C)).B
    return {**found, **joint.form.of_matrix(B), "specific": found["specific"] + np.log(1.0 - SHARED) * variance}


def _maximise(setup: Setup, start: Values, scales: Array, max_iter: int) -> Optimum:
    bounds, tol = bounds_of(start, setup.cells), STILL * len(setup.cells.y)
    options = {"tol": tol, "patience": PATIENCE, "memory": MEMORY}
    return ascent_of(setup, scales, "auto", start, options).maximise(start, bounds, max_iter, tol)


def gains_of_sharing(setup: Setup, best: Optimum, scales: Array, own: Kernel, alone: OwnFits) -> Array:
    """What each task's sharing adds to the objective at these hyper-parameters, over the task by itself.

    The objective less its value without the task's sharing. In regression that is log p(y_t | the other tasks) less the
    task's own evidence, and what the priors change by: closed form.
    """
    left = [without(setup, best.values, {t}, own, alone) for t in range(setup.M)]
    if not setup.infer.gaussian or setup.path == "complete":
        return np.array([best.objective - _value(*fewer, scales) for fewer in left])
    given_others: Any = condition(best.values, setup).posterior
    gains, now = np.zeros(setup.M), _log_prior(setup, best.values, scales)
    for t, fewer in enumerate(left):
        helped = given_others.evidence_given_others[t] + setup.log_normaliser(best.values, t)
        gains[t] = helped - alone.evidence[t] + now - _log_prior(*fewer, scales)
    return gains


def without(setup: Setup, values: Values, leaving: set[int], own: Kernel, alone: OwnFits) -> tuple[Setup, Values]:
    """The model in which some tasks share no more and are as they are alone."""
    stay = [t for t in _members(setup) if t not in leaving]
    moved = dict(values)
    theta = [values["specific"][part] for part in setup.specific_parts] or [np.zeros(0)] * setup.M
    if isinstance(setup.form, Uniform):
        fewer = alike_setup(setup, own, stay)
    else:
        fewer = sharing_setup(setup, own, stay)
        moved |= fewer.form.of_matrix(setup.form.parts(values).B)
    moved["specific"] = np.concatenate([alone.theta[t] if t in leaving else now for t, now in enumerate(theta)])
    if "noise" in values:
        noise = np.split(values["noise"], setup.M)
        moved["noise"] = np.concatenate([alone.noise[t] if t in leaving else now for t, now in enumerate(noise)])
    return fewer, moved


def _value(setup: Setup, values: Values, scales: Array) -> float:
    """Evidence and priors, without derivatives."""
    return condition(values, setup).evidence + _log_prior(setup, values, scales)


def _log_prior(setup: Setup, values: Values, scales: Array) -> float:
    return sum(log_prior(values)[0] for log_prior in priors_of(setup, scales, "auto"))
