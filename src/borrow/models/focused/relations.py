"""Which relations of the focused model are kept, and with which sign.

A relation has to earn its keep (`prune`): a secondary whose rho adds less than 1.5 nats to the objective gets rho = 0,
and the primary is exactly what it would be alone. The objective is a penalised maximum without normalisers, so this is
a price and no odds. All that are kept have to add as much for each of them, and for having been chosen among so many:
of forty unrelated secondaries the two that agree best with three rows agree well. Any number m of K is as likely
beforehand, and so is any choice of m of them, which costs log K! / (m! (K - m)!).

With labels each relation carries too little to be asked by itself, and a choice between all and none is mostly made on
the edge: predictions are the average of the model with all relations and of no transfer, by the odds of the two
(`log_odds`, Laplace's approximation). With w_t = rho_t sqrt(v) ~ N(0, sd^2) beforehand, C the curvature of the
objective by w, and the other hyper-parameters at their best under either,

    log odds = LOG_ODDS + objective with relations - objective without - 1/2 log det(sd^2 C):

of a task without rows sd^2 C is 1, and the more its rows tell of w, the more of what was held possible is ruled out.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.covariance import DensePosterior, SharedPosterior
from borrow.inference import priors
from borrow.models.focused.model import Setup, condition
from borrow.models.focused.scoring import FocusedAscent
from borrow.models.focused.starts import OwnFits, regression_start, targets_of
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Objective, Optimum, Values

#: What a relation between numbers has to add to the objective, in nats, to be kept.
RELATION_COST = 1.5
#: With labels: log odds of relations against none beforehand.
LOG_ODDS = 1.0
#: Step of the differences of the gradient by w, in units of its prior's deviation; at most so many are taken.
STEP, MOST_STEPS = 0.02, 20


@dataclass(frozen=True)
class Search:
    """What the steps of a search share: the model, what is maximised, within which bounds, and every task alone."""

    ascent: FocusedAscent
    bounds: dict[str, Any]
    alone: OwnFits
    max_iter: int

    @property
    def setup(self) -> Setup:
        """The model without its hyper-parameters."""
        return self.ascent.setup

    @property
    def objective(self) -> Objective:
        """The evidence and the priors that are switched on, with their derivatives."""
        return self.ascent.objective

    @property
    def priced(self) -> bool:
        """Whether relations are weighed against none: there are some, with a prior, and a primary that is fitted."""
        asked = RELATION_COST > 0 or not self.setup.infer.gaussian
        relations = self.ascent.sd is not None and len(self.setup.secondaries) > 0
        return asked and relations and self.alone.primary is not None

    def on(self, setup: Setup, curvature: Array | None = None, rough: bool = False) -> Search:
        """The same search for another model: on other rows, or with other inducing inputs."""
        now = self.ascent
        return replace(self, ascent=FocusedAscent(setup, now.scales, now.prior, now.sd, curvature, rough))

    def prior_of_primary(self, at: Values) -> float:
        """Log density of the priors on a kernel of the primary's, or on its noise."""
        ascent = self.ascent
        if ascent.prior is None:
            return 0.0
        of_kernel, of_noise = priors.kernel_prior(self.setup.kernel, ascent.scales), priors.independent_noise_prior(1)
        return sum((of_kernel if name == "kernel" else of_noise).log_density(v)[0] for name, v in at.items())

    def go_on(self, best: Optimum, values: Values) -> Optimum:
        """The optimum from these values on; its iterations add to those of the best so far."""
        return best.followed_by(self.ascent.maximise(values, self.bounds, self.max_iter))

    def hold(self, weak: Any) -> Search:
        """The search with the rho of weak relations held at zero."""
        low, high = self.bounds["rho"]
        rho = np.where(weak, 0.0, low), np.where(weak, 0.0, high)
        return replace(self, bounds={**self.bounds, "rho": rho})

    def without_transfer(self, best: Optimum) -> tuple[Search, Optimum]:
        """Every task by itself, and the search that holds all rho at zero."""
        alone = self.alone.values
        return self.hold(True), replace(best, values=alone, objective=self.objective(alone)[0], at_bound=[])


def sharing_gains(search: Search, best: Optimum) -> Array:
    """Nats by which each secondary is better explained with the others' help than alone, priors counted on both sides.

    The objective less its value with the task by itself again: log p(y_t | the other tasks) less the task's own
    evidence, and what the priors change by. Of numbers; closed form.
    """
    setup, values = search.setup, best.values
    gains = np.full(len(setup.secondaries), np.inf)
    posterior: Any = condition(values, setup).posterior
    by_priors = prior_gains(search, values, cut_relations(values, np.full(len(gains), True), search))
    for i, t in enumerate(setup.secondaries.tolist()):
        rows = setup.cells.of(t)
        if setup.specific[t] is not None and rows.start < rows.stop:
            helped = posterior.evidence_given_others[t] + setup.log_normaliser(values, t)
            gains[i] = helped - search.alone.evidences[t] + by_priors[i]
    return gains


def prior_gains(search: Search, values: Values, apart: Values) -> Array:
    """By how much the log priors are higher than where a secondary is by itself, one secondary at a time.

    Priors are parabolas in which no two tasks meet: what changes with the entries of a task is their change times the
    mean of the slopes at both ends, whether the other tasks are cut off or not.
    """
    setup, change = search.setup, {n: np.zeros_like(v) for n, v in values.items()}
    for log_prior in search.ascent.log_priors:
        (_, near), (_, far) = log_prior(values), log_prior(apart)
        for n in near:
            change[n] += 0.5 * (near[n] + far[n]) * (values[n] - apart[n])
    own = [change["specific"][setup.specific_parts[t]].sum() for t in setup.secondaries]
    noise = change["noise"][setup.secondaries] if "noise" in change else 0.0
    return np.asarray(change["rho"] + np.array(own) + noise)


def ask_again(search: Search, best: Optimum) -> Optimum:
    """Relations that do not earn their cost, begun anew from the regression on what the others say of the primary.

    A search on few rows may have left them at zero, where no sign is better than the other. What all tasks together
    say of the primary's function is more than its own rows did at the start. Kept where it gains.
    """
    weak = sharing_gains(search, best) < RELATION_COST
    if not weak.any():
        return best
    setup, without = search.setup, cut_relations(best.values, weak, search)
    given = targets_of(setup, search.alone), condition(without, setup), setup.primary
    trial = search.go_on(best, regression_start(without, setup, *given, weak))
    return trial if trial.objective > best.objective else best


def prune(search: Search, best: Optimum, gains: Array) -> tuple[Search, Optimum]:
    """Keep the relations that earn their cost: all, those that gain enough by themselves, or none.

    Returns the optimum and a search that holds the pruned rho at zero from here on.
    """
    weak = gains < RELATION_COST
    if weak.any() and not weak.all():
        held = search.hold(weak)
        trial = held.go_on(best, cut_relations(best.values, weak, search))
        if trial.objective + RELATION_COST * float(weak.sum()) > best.objective:
            best, search = trial, held
    return drop_all_unless_worth_it(search, best)


def drop_all_unless_worth_it(search: Search, best: Optimum) -> tuple[Search, Optimum]:
    """No transfer at all, unless the relations pay for themselves in the whole objective.

    The gains of single tasks are given the shared kernel found; they do not count what the primary gave up for it. What
    relations have to beat is the better of two: every task as it is alone, and the same with the primary's function
    as it was found, in two parts if it has two. Else a second part would count as a relation.
    """
    held, nothing_shared = search.without_transfer(best)
    cut = cut_relations(best.values, np.full(len(best.values["rho"]), True), search)
    to_beat = max(nothing_shared.objective, search.objective(cut)[0])
    m = int(np.count_nonzero(best.values["rho"]))
    price = RELATION_COST * m + priors.log_choices(len(best.values["rho"]), m)
    worth_it = "loadings" in best.values or best.objective - price >= to_beat
    return (search, best) if worth_it else (held, nothing_shared)


def log_odds(search: Search, best: Optimum, nothing_shared: float) -> float:
    """Of the relations found against none, whose objective is given.

    Curvatures are by differences of the gradient, one relation at a time; where they are many, some together, as if
    none of these bore on another.
    """
    setup, sd, values = search.setup, search.ascent.sd, best.values
    assert sd is not None  # else relations are not weighed
    unit = sd / np.sqrt(float(setup.kernel.with_theta(values["kernel"]).diag(setup.Z).mean()))  # rho where w = sd
    rho, (reached, by) = values["rho"], search.objective(values)
    curvature = np.empty(len(rho))
    for group in np.array_split(np.arange(len(rho)), min(len(rho), MOST_STEPS)):
        move = np.zeros(len(rho))
        move[group] = STEP * unit * np.where(rho[group] < 0, -1.0, 1.0)
        change = by["rho"] - search.objective({**values, "rho": rho + move})[1]["rho"]
        curvature[group] = unit**2 * change[group] / move[group]
    ruled_out = 0.5 * float(np.log(np.maximum(curvature, 1.0)).sum())
    return LOG_ODDS + reached - nothing_shared - ruled_out


def cut_relations(values: Values, weak: Any, search: Search) -> Values:
    """The same values with the weak tasks by themselves again."""
    cut, alone, setup = deepcopy(values), search.alone.values, search.setup
    cut["rho"][weak] = 0.0
    for t in setup.secondaries[weak]:
        part = setup.specific_parts[t]
        cut["specific"][part] = alone["specific"][part]
        if "noise" in cut:
            cut["noise"][t] = alone["noise"][t]
    return cut


def best_signs(posterior: SharedPosterior | DensePosterior, primary: int) -> Array:
    """Signs s of the secondaries' weights that raise the evidence 1/2 s'Gs, by single flips and the flip of all."""
    G = posterior.sign_products()
    signs = np.ones(len(G))
    while True:
        gain = -2.0 * signs * (G @ signs - np.diagonal(G) * signs)  # of 1/2 s'Gs, for each flip alone
        gain[primary] = -np.inf
        flip_all = -signs
        flip_all[primary] = signs[primary]
        together = 0.5 * (flip_all @ G @ flip_all - signs @ G @ signs)
        if max(together, gain.max()) <= 1e-9 * max(1.0, abs(float(signs @ G @ signs))):
            return signs
        if together > gain.max():
            signs = flip_all
        else:
            signs[int(np.argmax(gain))] *= -1.0


def flip_signs_that_help(search: Search, best: Optimum) -> Optimum:
    """Flip what raises the evidence and go on from there, until nothing does."""
    setup = search.setup
    for _ in range(5 if len(setup.secondaries) else 0):
        posterior: Any = condition(best.values, setup).posterior
        signs = best_signs(posterior, setup.primary)[setup.secondaries]
        if setup.cells.starts[setup.primary + 1] == setup.cells.starts[setup.primary]:
            signs = signs * np.sign(signs @ best.values["rho"] or 1.0)  # no primary row: the sum of rho is positive
        if np.all(signs > 0):
            break
        flipped = {**best.values, "rho": best.values["rho"] * signs}
        if "loadings" in flipped:
            flipped["loadings"] = flipped["loadings"] * signs[:, None]
        trial = search.go_on(best, flipped)
        if trial.objective <= best.objective + 1e-6:
            break
        best = trial
    return best
