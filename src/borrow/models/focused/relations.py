"""Which relations of the focused model are kept, and with which sign.

A relation has to earn its keep (`prune`): a secondary whose rho adds less than 1.5 nats to the objective gets rho = 0,
and the primary is exactly what it would be alone. The objective is a penalised maximum without normalisers, so this is
a price and no odds. With labels it is 1 nat, and asked of all relations together: each alone carries too little, and
of fifteen that mean nothing a few would seem to earn it.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.covariance import DensePosterior, SharedPosterior
from borrow.inference import EPInference, priors
from borrow.inference.likelihoods import Gaussian
from borrow.models.focused.alone import Alone
from borrow.models.focused.model import Setup, condition
from borrow.models.focused.scoring import FocusedAscent
from borrow.models.gp.model import bounds_of
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, Values

#: What a relation has to add to the objective, in nats, to be kept; with labels on average.
RELATION_COST = 1.5
LABEL_RELATION_COST = 1.0
#: Log variance of the primary's own part, against that of its function: where it starts, and where none is meant.
OWN_SHARE, LITTLE = -1.0, -3.0


@dataclass(frozen=True)
class Search:
    """What the steps of a search share: the model, what is maximised, within which bounds, and every task alone."""

    ascent: FocusedAscent
    bounds: dict[str, Any]
    alone: Alone
    max_iter: int

    @property
    def setup(self) -> Setup:
        """The model without its hyper-parameters."""
        return self.ascent.setup

    @property
    def objective(self) -> hyper.Objective:
        """What is maximised."""
        return self.ascent.objective

    @property
    def cost(self) -> float:
        """What a relation has to add to the objective, in nats."""
        return LABEL_RELATION_COST if isinstance(self.setup.infer, EPInference) else RELATION_COST

    def prior_of_primary(self, at: Values) -> float:
        """Log density of the priors on a kernel of the primary's, or on its noise."""
        ascent = self.ascent
        if ascent.prior is None:
            return 0.0
        of_kernel, of_noise = priors.kernel_prior(self.setup.kernel, ascent.scales), priors.independent_noise_prior(1)
        return sum((of_kernel if name == "kernel" else of_noise).log_density(v)[0] for name, v in at.items())

    def go_on(self, best: Optimum, values: Values) -> Optimum:
        """The optimum from these values on; its iterations add to those of the best so far."""
        trial = self.ascent.maximise(values, self.bounds, self.max_iter)
        return replace(trial, n_iter=best.n_iter + trial.n_iter)

    def hold(self, weak: Any) -> Search:
        """The search with the rho of weak relations held at zero."""
        low, high = self.bounds["rho"]
        rho = np.where(weak, 0.0, low), np.where(weak, 0.0, high)
        return replace(self, bounds={**self.bounds, "rho": rho})


def sharing_gains(search: Search, best: Optimum) -> Array:
    """Nats by which each secondary is better explained with the others' help than alone, priors counted on both sides.

    The objective less its value with the task by itself again: log p(y_t | the other tasks) less the task's own
    evidence, and what the priors change by. Of numbers; closed form.
    """
    setup, values = search.setup, best.values
    gains = np.full(len(setup.secondaries), np.inf)
    posterior: Any = condition(values, setup).posterior
    now = search.ascent.log_prior(values)
    for i, t in enumerate(setup.secondaries.tolist()):
        kernel, cells = setup.specific[t], setup.cells.only(t)
        if kernel is None or len(cells.y) == 0:
            continue
        without = cut_relations(values, np.arange(len(gains)) == i, search)
        likelihood = Gaussian(cells, np.exp(values["noise"][t : t + 1]))
        helped = posterior.evidence_given_others[t] + likelihood.log_normaliser(likelihood.sites()[1])
        gains[i] = helped - search.alone.evidences[t] + now - search.ascent.log_prior(without)
    return gains


def prune(search: Search, best: Optimum, gains: Array) -> tuple[Search, Optimum]:
    """Keep the relations that earn their cost: all, those that gain enough by themselves, or none.

    Returns the optimum and a search that holds the pruned rho at zero from here on.
    """
    weak = gains < search.cost
    if weak.any() and not weak.all():
        held = search.hold(weak)
        trial = held.go_on(best, cut_relations(best.values, weak, search))
        if trial.objective + search.cost * float(weak.sum()) > best.objective:
            best, search = trial, held
    return drop_all_unless_worth_it(search, best)


def drop_all_unless_worth_it(search: Search, best: Optimum) -> tuple[Search, Optimum]:
    """No transfer at all, unless the relations pay for themselves in the whole objective.

    The gains of single tasks are given the shared kernel found; they do not count what the primary gave up for it.
    """
    alone, price = search.alone.values, search.cost * np.count_nonzero(best.values["rho"])
    nothing_shared = search.objective(alone)[0]
    if "loadings" in best.values or best.objective - price >= nothing_shared:
        return search, best
    return search.hold(True), replace(best, values=alone, objective=nothing_shared, at_bound=[])


def primary_gain(search: Search, values: Values) -> float:
    """Nats by which the primary's rows are better explained given the others than by its own fit, priors counted.

    The kernel of the shared function is the others' to explain too: its prior counts for the own fit alone.
    """
    setup, alone, t = search.setup, search.alone, search.setup.primary
    likelihood = Gaussian(setup.cells.only(t), np.exp(values["noise"][t : t + 1]))
    posterior: Any = condition(values, setup).posterior
    helped = posterior.evidence_given(t)
    helped += likelihood.log_normaliser(likelihood.sites()[1])
    noise, part = {"noise": values["noise"][t : t + 1]}, values["specific"][setup.specific_parts[t]]
    by_prior = search.prior_of_primary(noise | ({"kernel": part} if part.size else {}))
    own_fit = {"kernel": alone.values["kernel"], "noise": alone.values["noise"][t : t + 1]}
    return float(helped + by_prior - alone.evidences[t] - search.prior_of_primary(own_fit))


def give_own_part(search: Search, best: Optimum, regressed: Values) -> tuple[Search, Optimum]:
    """A part of its own for the primary, where its rows are then better explained given the others.

    Where the best so far shares nothing that is worth it, it stands beside relations from the regression. What all
    tasks together gain is not asked: the secondaries would gain by a shared function that is hardly the primary's.
    """
    _, worth = drop_all_unless_worth_it(search, best)
    other, starts = with_own_part(search, [best.values if np.any(worth.values["rho"]) else regressed])
    if other is search:
        return search, best
    trial = other.go_on(best, starts[0])
    return (other, trial) if primary_gain(other, trial.values) > primary_gain(search, best.values) else (search, best)


def with_own_part(search: Search, starts: list[Values]) -> tuple[Search, list[Values]]:
    """The search with a part of its own for the primary, and values with it; as they are where there can be none.

    The part starts as a third of the primary's variance, with the lengthscales that the primary shows by itself.
    """
    setup, alone, t, now = search.setup, search.alone, search.setup.primary, search.ascent
    kernel, at = setup.kernel, setup.specific_parts[t].start
    variance = kernel.marks("variance")
    if setup.specific[t] is not None or not variance.any():
        return search, starts

    def inserted(values: Values, theta: Array) -> Values:
        return {**values, "specific": np.insert(values["specific"], at, theta)}

    wider = replace(setup, specific=[kernel if s == t else k for s, k in enumerate(setup.specific)])
    out = [inserted(values, alone.values["kernel"] + OWN_SHARE * variance) for values in starts]
    bounds = {**search.bounds, "specific": bounds_of(out[0], setup.cells)["specific"]}
    ascent = FocusedAscent(wider, now.scales, now.prior, now.sd, rough=now.rough)
    none = inserted(alone.values, kernel.theta + (LITTLE + setup.infer.log_variance) * variance)
    return replace(search, ascent=ascent, bounds=bounds, alone=replace(alone, values=none)), out


def protect_primary(search: Search, best: Optimum) -> tuple[Search, Optimum]:
    """Relations under which the primary's own rows are worse explained than alone are not relations to the primary."""
    if not np.any(best.values["rho"]) or primary_gain(search, best.values) >= 0.0:
        return search, best
    alone = search.alone.values
    return search.hold(True), replace(best, values=alone, objective=search.objective(alone)[0], at_bound=[])


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
