"""The primary's own part: whether it has one, and what it is given what the other tasks say of its function.

What bears on the other tasks' rows is w_t = rho_t sqrt(v), not v. With all w and the other tasks' own parameters held,
the others say that f^p / sqrt(v) is N(m, C) at the primary's rows, whatever v is. So with s^2 = v over what it was,

    y ~ N(s m, s^2 C + K_own + noise / count),

and s, the part of its own and the noise are found on the primary's few rows alone, from several starts
(`settle_given_others`). Beside thousands of other rows they would hardly move before a search is still: there, a change
of s is one of v and of every rho.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.covariance.dense import gaussian_evidence
from borrow.data.cells import Cells, thin
from borrow.inference import priors, within_cells
from borrow.kernels import Kernel
from borrow.models.focused.model import Setup, condition
from borrow.models.focused.relations import Search, drop_all_unless_worth_it
from borrow.models.gp.model import bounds_of, smooth_and_rough
from borrow.numerics import linalg
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Objective, Optimum, Values, bounds_around, maximise

#: Log variance of the primary's own part, against that of its function: where it starts, and where none is meant.
OWN_SHARE, LITTLE = -1.0, -3.0
#: Log noise of rows that say nothing, in units of the scaled targets.
UNINFORMATIVE = float(np.log(1e9))
#: Steps from every start, on at most so many of the primary's rows.
MOST_STEPS, MOST_ROWS = 100, 200


@dataclass(frozen=True)
class PrimaryConditional:
    """The log density of the primary's rows given the others, and of the priors, by {scale, kernel, noise}."""

    cells: Cells  # the primary's
    kernel: Kernel | None  # of the part of its own
    mean: Array  # m
    covariance: Array  # C
    log_prior: Objective | None

    def __call__(self, values: Values) -> tuple[float, Values]:
        """The value with its derivatives; with G = 1/2 (a a' - A^-1) these are <G, dA> and a' dmean."""
        cells, s, noise = self.cells, np.exp(values["scale"][0]), np.exp(values["noise"][0])
        shared, of_noise = s**2 * self.covariance, noise / cells.count
        A, pullback = shared + np.diag(of_noise), None
        if self.kernel is not None:
            own, pullback = self.kernel.with_theta(values["kernel"]).evaluate(cells.X)
            A += own
        value, a, L = gaussian_evidence(A, cells.y - s * self.mean)
        scatter, by_scatter = within_cells(cells.dof, cells.scatter, noise)
        G = 0.5 * linalg.gram_minus_inverse(a, L)
        by = {
            "scale": np.array([s * (a @ self.mean) + 2.0 * np.sum(G * shared)]),
            "kernel": values["kernel"] if pullback is None else pullback(G).theta,
            "noise": np.array([np.diagonal(G) @ of_noise + by_scatter.sum()]),
        }
        more, by_prior = (0.0, {}) if self.log_prior is None else self.log_prior(values)
        return value + float(scatter.sum()) + more, {n: by[n] + by_prior.get(n, 0.0) for n in by}


def primary_conditional(search: Search, values: Values) -> PrimaryConditional:
    """What the others say of the primary's function at its rows: the posterior without the primary's targets."""
    setup, t = search.setup, search.setup.primary
    noise, specific, own = values["noise"].copy(), values["specific"].copy(), setup.specific[t]
    noise[t] = UNINFORMATIVE
    if own is not None:  # of f^p alone
        specific[setup.specific_parts[t]] -= UNINFORMATIVE * own.mask_of("variance")
    cells = thin(setup.cells.only(t), MOST_ROWS)
    silent = condition({**values, "noise": noise, "specific": specific}, setup).posterior
    told = silent.predict(cells.X, np.full(len(cells.X), t), full=True)
    assert told.covariance is not None  # it was asked for
    ascent, chosen = search.ascent, {"noise": priors.independent_noise_prior(1)}
    chosen |= {} if own is None else {"kernel": priors.kernel_prior(own, ascent.scales)}
    if has_scale(setup, values):
        chosen["scale"] = prior_of_scale(setup.kernel, values["kernel"], ascent.scales)
    log_prior = priors.independent_priors(chosen)
    return PrimaryConditional(cells, own, told.mean, told.covariance, None if ascent.prior is None else log_prior)


def has_scale(setup: Setup, values: Values) -> bool:
    """Whether the variances of the kernel of f^p together are its scale; those of a product are more than that."""
    kernel = setup.kernel.with_theta(values["kernel"])
    grown = kernel.with_theta(kernel.theta + kernel.mask_of("variance"))
    return np.allclose(grown.diag(setup.Z), np.exp(1.0) * kernel.diag(setup.Z))


def prior_of_scale(kernel: Kernel, theta: Array, scales: Array) -> priors.GaussianPrior:
    """That of the kernel of f^p on the logarithm of the scale by which its standard deviation is multiplied.

    With d how theta moves with it and theta ~ N(mu, P^-1) it is N(-d'P (theta - mu) / d'Pd, 1 / d'Pd).
    """
    prior, d = priors.kernel_prior(kernel, scales), 2.0 * kernel.mask_of("variance")
    pull = prior.pull(d)
    return priors.GaussianPrior(np.array([-pull @ (theta - prior.mean) / (pull @ d)]), np.array([pull @ d]))


def settle_given_others(search: Search, values: Values) -> Values:
    """The values with the primary's own part, its noise and the variance of f^p at their best given the others."""
    setup, t = search.setup, search.setup.primary
    kernel, own, part = setup.kernel, setup.specific[t], setup.specific_parts[t]
    objective = primary_conditional(search, values)
    found = {"scale": np.zeros(1), "kernel": values["specific"][part], "noise": values["noise"][t : t + 1]}
    starts = [found]
    if own is not None:
        starts += smooth_and_rough(own, {**found, "kernel": own.theta + OWN_SHARE * own.mask_of("variance")})
    bounds = {**bounds_around(found), "noise": tuple(b[t : t + 1] for b in search.bounds["noise"])}
    if not has_scale(setup, values):
        bounds["scale"] = np.zeros(1), np.zeros(1)
    at = max((maximise(objective, s, bounds, MOST_STEPS) for s in starts), key=lambda o: o.objective).values
    scale, specific, noise = at["scale"][0], values["specific"].copy(), values["noise"].copy()
    specific[part], noise[t] = at["kernel"], at["noise"][0]
    shared = values["kernel"] + 2.0 * scale * kernel.mask_of("variance")
    return {**values, "kernel": shared, "rho": values["rho"] * np.exp(-scale), "specific": specific, "noise": noise}


def settle_primary(search: Search, best: Optimum) -> Optimum:
    """The best with what is the primary's alone settled given the others, where that is better."""
    rows = search.setup.cells.of(search.setup.primary)
    if rows.start == rows.stop or not np.any(best.values["rho"]):
        return best
    values = settle_given_others(search, best.values)
    reached = search.objective(values)[0]
    return replace(best, values=values, objective=reached) if reached > best.objective else best


def primary_gain(search: Search, values: Values) -> float:
    """Nats by which the primary's rows are better explained given the others than by its own fit, priors counted.

    The kernel of the shared function is the others' to explain too: its prior counts for the own fit alone.
    """
    setup, alone, t = search.setup, search.alone, search.setup.primary
    posterior: Any = condition(values, setup).posterior
    helped = posterior.evidence_given(t) + setup.log_normaliser(values, t)
    noise, part = {"noise": values["noise"][t : t + 1]}, values["specific"][setup.specific_parts[t]]
    by_prior = search.prior_of_primary(noise | ({"kernel": part} if part.size else {}))
    own_fit = {"kernel": alone.values["kernel"], "noise": alone.values["noise"][t : t + 1]}
    return float(helped + by_prior - alone.evidences[t] - search.prior_of_primary(own_fit))


def give_own_part(search: Search, best: Optimum, regressed: Values) -> tuple[Search, Optimum]:
    """A part of its own for the primary, where its rows are then better explained given the others.

    Where the best so far shares nothing that is worth it, it stands beside relations from the regression. What all
    tasks together gain is not asked: the secondaries would gain by a shared function that is hardly the primary's. That
    is seen as the others stand; the search goes on with the part where it gains.
    """
    _, worth = drop_all_unless_worth_it(search, best)
    other, starts = with_own_part(search, [best.values if np.any(worth.values["rho"]) else regressed])
    if other is search:
        return search, best
    gain, start = primary_gain(search, best.values), settle_given_others(other, starts[0])
    if primary_gain(other, start) <= gain:
        return search, best
    trial = other.go_on(best, start)
    return (other, trial) if primary_gain(other, trial.values) > gain else (search, best)


def with_own_part(search: Search, starts: list[Values]) -> tuple[Search, list[Values]]:
    """The search with a part of its own for the primary, and values with it; as they are where there can be none.

    The part starts as a third of the primary's variance, with the lengthscales that the primary shows by itself.
    """
    setup, alone, t = search.setup, search.alone, search.setup.primary
    kernel, at = setup.kernel, setup.specific_parts[t].start
    variance = kernel.mask_of("variance")
    if setup.specific[t] is not None or not variance.any():
        return search, starts

    def inserted(values: Values, theta: Array) -> Values:
        return {**values, "specific": np.insert(values["specific"], at, theta)}

    wider = replace(setup, specific=[kernel if s == t else k for s, k in enumerate(setup.specific)])
    out = [inserted(values, alone.values["kernel"] + OWN_SHARE * variance) for values in starts]
    bounds = {**search.bounds, "specific": bounds_of(out[0], setup.cells)["specific"]}
    none = inserted(alone.values, kernel.theta + (LITTLE + setup.infer.log_variance) * variance)
    wider_search = search.on(wider, rough=search.ascent.rough)
    return replace(wider_search, bounds=bounds, alone=replace(alone, values=none)), out


def without_own_part(setup: Setup, values: Values) -> tuple[Setup, Values]:
    """The model whose primary has no part of its own, and values without it."""
    t = setup.primary
    specific = np.delete(values["specific"], setup.specific_parts[t])
    setup = replace(setup, specific=[None if s == t else k for s, k in enumerate(setup.specific)])
    return setup, {**values, "specific": specific}


def protect_primary(search: Search, best: Optimum) -> tuple[Search, Optimum]:
    """Relations under which the primary's own rows are worse explained than alone are not relations to the primary."""
    if not np.any(best.values["rho"]) or primary_gain(search, best.values) >= 0.0:
        return search, best
    return search.without_transfer(best)
