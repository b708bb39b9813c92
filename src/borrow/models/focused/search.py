"""Where the focused model's optimisation starts. The evidence has many modes; these starts lie in the ones that matter.

1. No transfer: every task fitted by itself, rho = 0.
2. The regression of each secondary on the primary's own posterior.
3. The same with the shared function as rough as the secondaries are by themselves: six primary rows suggest a
   lengthscale that is too long, and at that lengthscale the others cannot help.
4. As 3 with random signs, `n_restarts` times; and the rho that was given, if one was.

At the end a relation has to earn its keep (`prune`): a secondary whose rho adds less than 1.5 nats to the objective
(odds of 4.5 to 1) gets rho = 0, and the primary is exactly what it would be alone. Not so with labels.

Z decides which lengthscales the shared function can have, so the starts race on a Z that is fine enough for the
shortest lengthscale that any task shows by itself (`Alone.finest`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from borrow.covariance import SharedPosterior, choose_inducing
from borrow.covariance.inducing import MOST
from borrow.data.scaling import TaskData
from borrow.estimators.settings import is_matrix
from borrow.inference import EPInference, Result, priors
from borrow.inference.likelihoods import Gaussian
from borrow.models.focused.alone import Alone, fit_alone
from borrow.models.focused.model import Setup, condition, objective_of
from borrow.models.gp.model import bounds_of, condition_single
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array, solve_lower, to_host
from borrow.numerics.optimise import Optimum, Values

log = logging.getLogger("borrow")

#: What a relation has to add to the objective, in nats, to be kept: odds of 4.5 to 1. Labels carry so little that
#: hardly any relation would; there the prior on w alone holds them, and none is dropped.
RELATION_COST = 1.5
LABEL_RELATION_COST = 0.0
#: Iterations of every start before the best goes on. With labels an evaluation is a run of EP, and ten tell as much.
HEAT, LABEL_HEAT = 25, 10
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
    """Race the starts, mend signs, prune, choose Z again for the kernel found and go on from there."""
    scales = data.column_scales
    alone = fit_alone(setup, values, scales, how.prior, how.max_iter)
    setup = with_inducing(how.inducing, data, setup, {**alone.values, **alone.finest(setup)})
    given = {**alone.values, "rho": values["rho"]} if rho_given else None
    candidates = starts(setup, alone, check_random_state(how.random_state), how.n_restarts, given)
    bounds = bounds_of(candidates[0])
    objective = objective_of(setup, scales, how.prior, how.weight_sd)
    heat = LABEL_HEAT if isinstance(setup.infer, EPInference) else HEAT
    best = hyper.race(objective, candidates, bounds, how.max_iter, heat)
    best = mend_signs(objective, setup, best, bounds, how.max_iter)
    priced = relation_cost(setup) > 0 and how.weight_sd is not None
    priced = priced and len(setup.secondaries) > 0 and alone.primary is not None
    if priced:
        gains = sharing_gains(objective, setup, best, alone, scales, how)
        best, bounds = prune(objective, best, gains, setup, alone, bounds, how.max_iter)
    again = with_inducing(how.inducing, data, setup, best.values)
    if not np.array_equal(again.Z, setup.Z):
        setup, objective, before = again, objective_of(again, scales, how.prior, how.weight_sd), best.n_iter
        best = hyper.maximise(objective, best.values, bounds, how.max_iter)
        best = mend_signs(objective, setup, best, bounds, how.max_iter)
        best = replace(best, n_iter=before + best.n_iter)
        if priced and np.any(best.values["rho"]):  # on the Z that is kept the relations must still pay
            best, _ = against_none(objective, best, setup, alone, bounds)
            setup = setup if np.any(best.values["rho"]) else with_inducing(how.inducing, data, setup, best.values)
    log.info("objective %.4f, %d iterations, %d inducing inputs", best.objective, best.n_iter, len(setup.Z))
    return setup, best.values, best


def starts(
    setup: Setup, alone: Alone, random: np.random.RandomState, n_restarts: int, given: Values | None
) -> list[Values]:
    """The starts listed above."""
    if len(setup.secondaries) == 0:
        return [alone.values]
    rough = {**alone.values, **alone.typical(setup)}
    if "loadings" in rough:
        rough = background_start(rough, setup, alone)
    if alone.primary is None:
        return [regression_start(rough, setup, alone, None)] + ([given] if given else [])
    own = {n: v[setup.primary : setup.primary + 1] for n, v in alone.values.items() if n == "noise"}
    kernel = setup.kernel.with_theta(rough["kernel"])
    as_rough = condition_single(setup.tasks.only(setup.primary), kernel, own, setup.infer)
    regressed = regression_start(rough, setup, alone, as_rough)
    out = [alone.values, regression_start(alone.values, setup, alone, alone.primary), regressed]
    for _ in range(n_restarts):
        signs = random.choice([-1.0, 1.0], size=len(setup.secondaries))
        out.append({**regressed, "rho": regressed["rho"] * signs})
    return out + ([given] if given else [])


def regression_start(values: Values, setup: Setup, alone: Alone, primary: Result | None) -> Values:
    """rho_t from the regression of task t on the primary's posterior; the specific part keeps what that leaves.

    rho = sum m y / sum (m^2 + v) with m, v the primary's posterior mean and variance at the task's rows. Without a
    labelled primary row there is nothing to regress on: every task starts at w = 0.7, positively related. For labels y
    is what the task's own posterior makes of them.
    """
    start = {n: v.copy() for n, v in values.items()}
    variance = float(setup.kernel.with_theta(values["kernel"]).diag(setup.Z).mean())
    for i, (t, part) in enumerate((int(t), setup.specific_parts[t]) for t in setup.secondaries):
        at = setup.cells.of(t)
        y, count = setup.cells.y[at], setup.cells.count[at]
        if len(y) == 0:
            start["rho"][i] = 0.0
            continue
        if isinstance(setup.infer, EPInference) and t in alone.fits:
            y = to_host(alone.fits[t].posterior.marginals()[0])
        if primary is None:
            start["rho"][i], left = 0.7 / np.sqrt(variance), 0.5
        else:
            p = primary.posterior.predict(setup.cells.X[at], np.zeros(len(y), dtype=np.intp))
            energy = float(count @ (p.mean**2 + p.variance))
            start["rho"][i] = rho = float(count @ (p.mean * y)) / energy if energy > 0 else 0.0
            rest = float(count @ (y - rho * p.mean) ** 2) / max(float(count @ y**2), 1e-12)
            left = float(np.clip(rest, 0.1, 1.0))
        kernel = setup.specific[t]
        if kernel is not None:
            start["specific"][part] += np.log(left) * kernel.marks("variance")
    return start


def background_start(values: Values, setup: Setup, alone: Alone) -> Values:
    """Loadings from the leading singular vectors of what the secondaries are alone, the primary's mean removed."""
    Z = setup.background_Z
    assert Z is not None  # there are loadings
    start = {n: v.copy() for n, v in values.items()}
    at_Z = np.zeros(len(Z), dtype=np.intp)
    F = np.zeros((len(setup.secondaries), len(Z)))
    shared = alone.primary.posterior.predict(Z, at_Z).mean if alone.primary is not None else np.zeros(len(Z))
    for i, t in enumerate(int(t) for t in setup.secondaries):
        if t in alone.fits:
            f = alone.fits[t].posterior.predict(Z, at_Z).mean
            f = f - f.mean()
            F[i] = f - shared * (f @ shared) / max(float(shared @ shared), 1e-12)
    U, S, _ = np.linalg.svd(F, full_matrices=False)
    k = min(values["loadings"].shape[1], len(S))
    start["loadings"][:, :k] = U[:, :k] * S[:k] / np.sqrt(len(Z))
    explained = (start["loadings"] ** 2).sum(axis=1) / np.maximum((F**2).mean(axis=1), 1e-12)
    for i, t in enumerate(setup.secondaries):
        kernel = setup.specific[t]
        if kernel is not None:
            left = float(np.clip(1.0 - explained[i], 0.1, 1.0))
            start["specific"][setup.specific_parts[t]] += np.log(left) * kernel.marks("variance")
    return start


def sharing_gains(
    objective: hyper.Objective, setup: Setup, best: Optimum, alone: Alone, scales: Array, how: Settings
) -> Array:
    """Nats by which each secondary is better explained with the others' help than alone, priors counted on both sides.

    In regression log p(y_t | the other tasks) + log prior of the task's own parameters and of w_t, less what the task
    reached alone: closed form. Under EP the objective less its value with the task by itself again.
    """
    gains, values = np.full(len(setup.secondaries), np.inf), best.values
    variance = float(setup.kernel.with_theta(values["kernel"]).diag(setup.Z).mean())
    posterior = condition(values, setup).posterior
    for i, t in enumerate(int(t) for t in setup.secondaries):
        kernel, cells = setup.specific[t], setup.cells.only(t)
        if kernel is None or len(cells.y) == 0:
            continue
        if isinstance(setup.infer, EPInference):
            only = np.arange(len(gains)) == i
            gains[i] = best.objective - objective(_cut(values, only, setup, alone))[0]
            continue
        own, noise = values["specific"][setup.specific_parts[t]], values["noise"][t : t + 1]
        likelihood = Gaussian(cells, np.exp(noise))
        gains[i] = posterior.evidence_given_others[t] + likelihood.log_normaliser(likelihood.sites()[1])
        gains[i] -= alone.objectives[t]
        if how.prior is not None:
            gains[i] += (
                priors.kernel_prior(kernel, scales).log_density(own)[0] + priors.noise_prior(1).log_density(noise)[0]
            )
        if how.weight_sd is not None:
            gains[i] -= 0.5 * values["rho"][i] ** 2 * variance / how.weight_sd**2
    return gains


def prune(
    objective: hyper.Objective,
    best: Optimum,
    gains: Array,
    setup: Setup,
    alone: Alone,
    bounds: dict[str, Any],
    max_iter: int,
) -> tuple[Optimum, dict[str, Any]]:
    """Keep the relations that earn their cost: all, those that gain enough by themselves, or none.

    Returns the optimum and bounds that hold the pruned rho at zero from here on.
    """
    cost = relation_cost(setup)
    weak = gains < cost
    if weak.any() and not weak.all():
        held = _hold(bounds, weak)
        trial = hyper.maximise(objective, _cut(best.values, weak, setup, alone), held, max_iter)
        if trial.objective + cost * float(weak.sum()) > best.objective:
            best, bounds = replace(trial, n_iter=best.n_iter + trial.n_iter), held
    return against_none(objective, best, setup, alone, bounds)


def against_none(
    objective: hyper.Objective, best: Optimum, setup: Setup, alone: Alone, bounds: dict[str, Any]
) -> tuple[Optimum, dict[str, Any]]:
    """No transfer at all, unless the relations pay for themselves in the whole objective.

    The gains of single tasks are given the shared kernel found; they do not count what the primary gave up for it.
    """
    price = relation_cost(setup) * np.count_nonzero(best.values["rho"])
    nothing_shared = objective(alone.values)[0]
    if "loadings" in best.values or best.objective - price >= nothing_shared:
        return best, bounds
    none = replace(best, values=alone.values, objective=nothing_shared, at_bound=[])
    return none, _hold(bounds, np.ones(len(setup.secondaries), dtype=bool))


def relation_cost(setup: Setup) -> float:
    """What a relation has to add to the objective, in nats."""
    return LABEL_RELATION_COST if isinstance(setup.infer, EPInference) else RELATION_COST


def _cut(values: Values, weak: Any, setup: Setup, alone: Alone) -> Values:
    """The same values with the weak tasks by themselves again."""
    cut = {n: v.copy() for n, v in values.items()}
    cut["rho"][weak] = 0.0
    for t in setup.secondaries[weak]:
        part = setup.specific_parts[t]
        cut["specific"][part] = alone.values["specific"][part]
        if "noise" in cut:
            cut["noise"][t] = alone.values["noise"][t]
    return cut


def _hold(bounds: dict[str, Any], weak: Any) -> dict[str, Any]:
    low, high = bounds["rho"]
    return {**bounds, "rho": (np.where(weak, 0.0, low), np.where(weak, 0.0, high))}


def best_signs(posterior: SharedPosterior, primary: int) -> Array:
    """Signs of the secondaries' weights that raise the evidence, by single flips and the flip of all.

    With B fixed the evidence depends on the signs s through 1/2 s'Gs, G[t, t'] = b_t' B^-1 b_t'.
    """
    half = solve_lower(to_host(posterior.LB), np.ascontiguousarray(posterior.task_terms().T))
    G = half.T @ half
    M = len(G)
    signs = np.ones(M)
    others = np.delete(np.arange(M), primary)
    while True:
        field = G @ signs - np.diagonal(G) * signs
        gain = -2.0 * signs * field  # of 1/2 s'Gs, for each flip alone
        gain[primary] = -np.inf
        flip_all = signs.copy()
        flip_all[others] *= -1.0
        together = 0.5 * (flip_all @ G @ flip_all - signs @ G @ signs)
        if max(together, gain.max()) <= 1e-9 * max(1.0, abs(float(signs @ G @ signs))):
            return signs
        if together > gain.max():
            signs = flip_all
        else:
            signs[int(np.argmax(gain))] *= -1.0


def mend_signs(
    objective: hyper.Objective, setup: Setup, best: Optimum, bounds: Mapping[str, Any], max_iter: int
) -> Optimum:
    """Flip what raises the evidence and go on from there, until nothing does."""
    for _ in range(5 if len(setup.secondaries) else 0):
        signs = best_signs(condition(best.values, setup).posterior, setup.primary)[setup.secondaries]
        if setup.cells.starts[setup.primary + 1] == setup.cells.starts[setup.primary]:
            signs = signs * np.sign(signs @ best.values["rho"] or 1.0)  # no primary row: the sum of rho is positive
        if np.all(signs > 0):
            break
        flipped = {**best.values, "rho": best.values["rho"] * signs}
        if "loadings" in flipped:
            flipped["loadings"] = flipped["loadings"] * signs[:, None]
        trial = hyper.maximise(objective, flipped, bounds, max_iter)
        if trial.objective <= best.objective + 1e-6:
            break
        best = replace(trial, n_iter=best.n_iter + trial.n_iter)
    return best
