"""How each secondary task is related to the primary, and how sure that is.

The relation of task t is one number, z = asinh(rho sqrt(v / u)), where v is the prior variance of the function in
common and u that of what the task does not share: the share of its variance that is shared is tanh(z)^2, and its sign
is that of z. With T = rho^2 v + u all of its variance, rho sqrt(v) = sqrt(T) tanh z and u = T / cosh(z)^2, so that

    d(rho sqrt(v), log u) / d(z, log T) = sqrt(T)

whatever z: a density of (rho, log u) is the same density of z, and exp(objective) can be integrated over z as it is.
Of the other hyper-parameters the best are taken given z (a profile). They are followed from the optimum by steps with
its curvature C = S^-1: with g the gradient, a = dz/dx and r the wanted change of z,

    step = S g + S a (r - a'S g) / (a'S a),

the maximum of the quadratic model on the tangent of z = const. A relation may be strong or none for different reasons,
with other lengthscales of the task's own part. So a second path begins at z = 0, where the task is fitted by itself (of
a relation that was dropped: at the relation), and what counts is the higher of the two. Quantiles of the density are
the 95 % interval, and the odds of a relation against none are, w = rho sqrt(v) being N(0, sd^2) beforehand,

    odds = integral of exp(objective(z) - objective(0)) dz sqrt(T) / (sd sqrt(2 pi)).

No relation has a probability of its own, 1 / (1 + odds): while that is above 10 % the interval reaches to zero. So zero
is left out for one in twenty unrelated tasks of ten rows; without it was one in ten.

The correlation is c = tanh(z) sqrt(common), common the share of the primary's function that is in common with the
others: its log odds follow the path, and what is uncertain of them given z is taken from C. The standard error of rho
is the root mean square around its estimate of the same density along a path by rho itself; a relation that was dropped
has none, and the interval says how strong it may be. Where rows are many z is taken as normal, its variance a'S a.
How often all this holds the truth is measured by `benchmarks/studies/bands.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, logit

from borrow.covariance import DensePosterior, SharedPosterior, gaussian_evidence, unit_noise
from borrow.data.labels import places_of
from borrow.data.table import HALF, Table
from borrow.inference.likelihoods import Gaussian
from borrow.kernels import Constant, Kernel, Sum
from borrow.models.focused.model import Setup, task_weights
from borrow.models.focused.scoring import FocusedAscent, observed_curvature
from borrow.models.gp.model import bounds_of, fit_single, likelihood_of
from borrow.numerics import linalg
from borrow.numerics.linalg import Array, NotPositiveDefiniteError
from borrow.numerics.optimise import Values, curvature, pack, second_differences, unpack

#: Up to this many hyper-parameters the whole matrix of second derivatives is taken; above, each task's own block.
WHOLE = 150
#: A path has steps of so many standard deviations of z, and of at most so much; it ends where the objective is so many
#: nats below its top, at this z, or after so many steps.
STEP, LONGEST, FALL, FARTHEST, STEPS = 0.75, 0.5, 6.0, 4.5, 12
#: Steps of the search for the relation that was dropped.
TRIES = 15
#: So many standard deviations from none the second path, from none, is left out.
SURE = 6.0
#: Of scaled curvatures no less than this is believed, and no hyper-parameter moves by more in a step.
LEAST_CURVATURE, LONGEST_MOVE = 0.05, 1.5
#: Paths are followed of up to so many secondaries, where these times the cube of rows are at most so much, a tenth
#: of it with labels: about ten seconds.
MOST_SECONDARIES, MOST_WORK = 10, 1.5e8
#: What an interval leaves out to each side; while no relation is more probable than this, the interval reaches to zero.
TAIL, NONE = 0.025, 0.1
#: Where z is looked at, and the nodes of what is normal given z.
FINE, NODES = 801, np.polynomial.hermite_e.hermegauss(9)


class RelationInterval(NamedTuple):
    """What is known about one relation: standard error of rho, 95 % interval of the correlation, odds against none."""

    std_error: float = np.nan
    low: float = np.nan
    high: float = np.nan
    odds: float = np.nan

    def around(self, correlation: float) -> RelationInterval:
        """The same, the interval widened to the correlation of the fit, which may be the lower of two maxima."""
        low, high = np.minimum(self.low, correlation), np.maximum(self.high, correlation)
        return self._replace(low=float(low), high=float(high))


def relatedness(
    ascent: FocusedAscent,
    values: Values,
    posterior: SharedPosterior | DensePosterior,
    labels: tuple[Hashable, ...],
) -> Table:
    """The table of `FocusedGPRegressor.relatedness`."""
    setup, M = ascent.setup, len(labels)
    rho, x = task_weights(values, setup)[:, 0], pack(values)
    share, correlation, known = np.ones(M), np.ones(M), [RelationInterval(0.0, 1.0, 1.0)] * M
    relations = [Relation(setup, values, int(t), i) for i, t in enumerate(setup.secondaries)]
    whole = setup.design is not None or x.size <= WHOLE
    profile = Profile(ascent, values) if whole and relations else None
    for t, relation in zip(setup.secondaries, relations, strict=True):
        share[t] = relation.share(x)
        correlation[t] = np.sign(rho[t]) * np.sqrt(share[t] * relation.common(x))
        if profile is not None:
            known[t] = profile.known(relation).around(correlation[t])
        elif isinstance(posterior, SharedPosterior):
            known[t] = _own_block(ascent, values, posterior, relation)
    order = [setup.primary, *(t for t in places_of(labels).tolist() if t != setup.primary)]
    columns = {
        "task": [labels[t] for t in order],
        "rows": np.diff(setup.cells.starts)[order] + setup.cells.dof[order].round().astype(int),
        "rho": rho[order],
        "std_error": np.array([known[t].std_error for t in order]),
        "correlation": correlation[order],
        "low": np.array([known[t].low for t in order]),
        "high": np.array([known[t].high for t in order]),
        "share": share[order],
        "odds": np.array([known[t].odds for t in order]),
    }
    return Table(columns)


class Relation:
    """The relation of one secondary to the primary, as a function of all hyper-parameters in one vector."""

    def __init__(self, setup: Setup, values: Values, t: int, i: int) -> None:
        X = setup.cells.X[setup.cells.of(t)]
        self.setup, self.values, self.t, self.i, self.X = setup, values, t, i, X if len(X) else setup.Z
        at = unpack(np.arange(float(pack(values).size)), values)  # where each stands in the vector
        self.at, self.rho = at, int(at["rho"][i])
        noise = at["noise"][t : t + 1] if "noise" in at else np.zeros(0)
        self.own = np.concatenate([[self.rho], at["specific"][setup.specific_parts[t]], noise]).astype(int)

    def _mean(self, kernel: Kernel | None, at: Array, levels: bool = True) -> tuple[float, Array]:
        """The mean prior variance over the task's rows, and its derivatives; `at` is where theta stands in the vector.

        Without `levels` constant offsets are left out: they are levels, not variation.
        """
        total, by = 0.0, np.zeros(pack(self.values).size)
        for part in kernel.parts if isinstance(kernel, Sum) else [kernel]:
            if part is not None:
                here, at = at[: part.n_theta], at[part.n_theta :]
                if levels or not isinstance(part, Constant):
                    diagonal, pullback = part.evaluate_diag(self.X)
                    total += float(diagonal.mean())
                    by[here.astype(int)] += pullback(np.full(len(diagonal), 1.0 / len(diagonal))).theta
        return total, by

    def _parts(self, x: Array) -> tuple[tuple[float, Array], tuple[float, Array]]:
        """v of the function in common, and u of what the task does not share, with their derivatives."""
        setup, values, at = self.setup, unpack(x, self.values), self.at
        own = at["specific"][setup.specific_parts[self.t]]
        u, by_u = self._mean(setup.specific_kernels(values)[self.t], own, levels=False)
        if setup.background is not None:
            others, weights = setup.background.with_theta(values["background"]), values["loadings"][self.i]
            mean, by = self._mean(others, at["background"])
            u += float(weights @ weights) * mean
            by_u += float(weights @ weights) * by
            by_u[at["loadings"][self.i].astype(int)] += 2.0 * mean * weights
        return self._mean(setup.kernel.with_theta(values["kernel"]), at["kernel"]), (u, by_u)

    def variances(self, x: Array) -> tuple[float, float]:
        """v of the function in common, and u of what the task does not share, averages over its rows."""
        (v, _), (u, _) = self._parts(x)
        return v, u

    def share(self, x: Array) -> float:
        """Share of the task's variance that is the primary's."""
        v, u = self.variances(x)
        shared = x[self.rho] ** 2 * v
        return float(shared / (shared + u)) if shared + u > 0 else 0.0

    def common(self, x: Array) -> float:
        """Share of the primary's prior variance that is in common with the others: all but its own part."""
        return float(expit(self.common_odds(x)[0]))

    def common_odds(self, x: Array) -> tuple[float, Array]:
        """Log odds of that share, log v - log of the variance of its own part, and their derivatives."""
        setup, values = self.setup, unpack(x, self.values)
        own = setup.specific_kernels(values)[setup.primary]
        if own is None:
            return np.inf, np.zeros_like(x)
        v, by_v = self._mean(setup.kernel.with_theta(values["kernel"]), self.at["kernel"])
        u, by_u = self._mean(own, self.at["specific"][setup.specific_parts[setup.primary]])
        return float(np.log(v / u)), by_v / v - by_u / u

    def q(self, x: Array) -> float:
        """Log of the ratio of the deviations of own part and shared part, log sqrt(u / v)."""
        v, u = self.variances(x)
        return float(0.5 * np.log(u / v))

    def z(self, x: Array) -> float:
        """asinh(rho sqrt(v / u))."""
        return float(np.arcsinh(x[self.rho] * np.exp(-self.q(x))))

    def put(self, x: Array, z: float) -> Array:
        """The hyper-parameters with the rho that makes the relation z."""
        return np.where(np.arange(x.size) == self.rho, np.sinh(z) * np.exp(self.q(x)), x)

    def slope(self, x: Array) -> Array:
        """Derivatives of z. With w = rho sqrt(v / u), dz = (dw/drho drho + w (dv/v - du/u) / 2) / sqrt(1 + w^2)."""
        (v, by_v), (u, by_u) = self._parts(x)
        w = x[self.rho] * np.sqrt(v / u)
        by = 0.5 * w * (by_v / v - by_u / u)
        by[self.rho] += np.sqrt(v / u)
        return np.asarray(by / np.sqrt(1.0 + w * w))


class RelationByRho(Relation):
    """The same relation followed by rho itself."""

    def z(self, x: Array) -> float:
        """The weight of the task on the primary's function."""
        return float(x[self.rho])

    def put(self, x: Array, z: float) -> Array:
        """The hyper-parameters with this rho."""
        return np.where(np.arange(x.size) == self.rho, z, x)

    def slope(self, x: Array) -> Array:
        """Derivatives of rho by all hyper-parameters: one by itself."""
        return np.where(np.arange(x.size) == self.rho, 1.0, 0.0)


@dataclass(frozen=True)
class Path:
    """Points along which a relation changes: z in order, the objective, and the hyper-parameters."""

    z: Array
    value: Array
    x: list[Array]

    def at(self, z: Array, f: Callable[[Array], float] | None = None) -> Array:
        """The objective at these z, -inf beyond the path; or a function of the hyper-parameters along it."""
        if f is not None:
            return np.interp(z, self.z, [f(x) for x in self.x])
        inside = (z >= self.z[0]) & (z <= self.z[-1])
        if len(self.z) < 2:
            return np.where(inside, self.value[0], -np.inf)
        return np.where(inside, PchipInterpolator(self.z, self.value)(z), -np.inf)


class Profile:
    """What is maximised as a function of one relation, the other hyper-parameters at their best given it."""

    def __init__(self, ascent: FocusedAscent, values: Values) -> None:
        self.ascent, self.values, self.x = ascent, values, pack(values)
        exact = ascent.setup.design is not None
        C = observed_curvature(ascent, values) if exact else curvature(ascent.objective, values)
        self.S = _believed_inverse(C)
        M = len(ascent.setup.secondaries)
        most = MOST_WORK * (1.0 if ascent.setup.infer.gaussian else 0.1)
        self.affordable = M <= MOST_SECONDARIES and M * float(len(ascent.setup.cells.y)) ** 3 <= most
        bounds = bounds_of(values, ascent.setup.cells)
        self.low, self.high = (
            pack({n: np.broadcast_to(bounds[n][side], v.shape) for n, v in values.items()}) for side in (0, 1)
        )

    def evaluate(self, x: Array) -> tuple[float, Array]:
        """The objective and its derivatives; -inf where there is no covariance."""
        try:
            value, by = self.ascent.objective(unpack(x, self.values))
        except NotPositiveDefiniteError:
            return -np.inf, np.zeros_like(x)
        return (value, pack(by)) if np.isfinite(value) else (-np.inf, np.zeros_like(x))

    def moved(self, relation: Relation, x: Array, g: Array, z: float) -> Array:
        """The best hyper-parameters at this z, by one step from those at another."""
        a, newton = relation.slope(x), self.S @ g
        Sa = self.S @ a
        step = newton + Sa * ((z - relation.z(x)) - a @ newton) / (a @ Sa)
        return relation.put(np.clip(x + np.clip(step, -LONGEST_MOVE, LONGEST_MOVE), self.low, self.high), z)

    def settled(self, relation: Relation, x: Array, z: float, steps: int = 1) -> tuple[float, Array, Array]:
        """Value, derivatives and hyper-parameters after some more steps at the same z, where they gain."""
        value, g = self.evaluate(x)
        for _ in range(steps):
            if not np.isfinite(value):
                break
            trial = self.moved(relation, x, g, z)
            reached, by = self.evaluate(trial)
            if reached <= value:
                break
            value, g, x = reached, by, trial
        return value, g, x

    def path(self, relation: Relation, start: Array, step: float) -> Path:
        """Both ways from a start, until the objective has fallen."""
        z0 = relation.z(start)
        value, g0, start = self.settled(relation, start, z0, 0)
        found, top = [(z0, value, start)], value
        for sign in (1.0, -1.0):
            x, g, z = start, g0, z0
            for _ in range(STEPS):
                z += sign * step
                if abs(z) > FARTHEST:
                    break
                value, g, x = self.settled(relation, self.moved(relation, x, g, z), z)
                if not np.isfinite(value):
                    break
                found.append((z, value, x))
                top = max(top, value)
                if value < top - FALL:
                    break
        found.sort(key=lambda point: point[0])
        return Path(np.array([p[0] for p in found]), np.array([p[1] for p in found]), [p[2] for p in found])

    def null(self, relation: Relation) -> Array:
        """The hyper-parameters with the task by itself: its own part and noise fitted without the others."""
        setup, ascent, t = self.ascent.setup, self.ascent, relation.t
        part, values = setup.specific_parts[t], {n: v.copy() for n, v in self.values.items()}
        values["rho"][relation.i] = 0.0
        kernel = setup.specific_kernels(values)[t]  # a relation that is followed has one
        how = ascent.scales, ascent.prior, 100, setup.infer
        alone = fit_single(setup.tasks.only(t), kernel, likelihood_of(values, t), *how)
        values["specific"][part] = alone.kernel.theta
        for name, value in alone.likelihood.items():
            values[name][t] = value[0]
        return pack(values)

    def related(self, relation: Relation, path: Path) -> Array:
        """The hyper-parameters of the relation that was dropped, of the likelier sign."""
        z = np.array([-1.0, 1.0])
        best = float(z[np.argmax(np.interp(z, path.z, path.value))])
        start, bounds = unpack(relation.put(self.x, best), self.values), bounds_of(self.values, self.ascent.setup.cells)
        return pack(self.ascent.maximise(start, bounds, TRIES).values)

    def known(self, relation: Relation) -> RelationInterval:
        """Standard error, interval and odds of a relation, by the paths along it where these are affordable."""
        setup, x, t = self.ascent.setup, self.x, relation.t
        if not len(setup.cells.y[setup.cells.of(t)]):
            return RelationInterval()
        rho, normal = float(x[relation.rho]), float(np.sqrt(self.S[relation.rho, relation.rho]))
        if setup.specific[t] is None:
            return RelationInterval(self._deviation(relation) if self.affordable else normal)
        a = relation.slope(x)
        Sa = self.S @ a
        deviation, here = float(np.sqrt(a @ Sa)), relation.z(x)
        if not self.affordable:
            return _normal(relation, x, deviation, normal)
        paths = [self.path(relation, x, min(STEP * deviation, LONGEST))]
        if rho == 0.0:
            paths.append(self.path(relation, self.related(relation, paths[0]), LONGEST))
        elif abs(here) < SURE * deviation:
            paths.append(self.path(relation, self.settled(relation, self.null(relation), 0.0, 2)[2], LONGEST))
        fine = np.linspace(min(p.z[0] for p in paths), max(p.z[-1] for p in paths), FINE)
        each = np.stack([p.at(fine) for p in paths])
        best, value = each.argmax(axis=0), each.max(axis=0)
        density = np.exp(value - value.max())
        weight = np.multiply.outer(density / density.sum(), NODES[1] / NODES[1].sum())

        def along(f: Callable[[Array], float]) -> Array:
            return np.choose(best, [p.at(fine, f) for p in paths])

        std_error = np.nan if rho == 0.0 else self._deviation(relation)
        correlations = np.tanh(fine)[:, None] * np.sqrt(self._common(relation, along, Sa, deviation))
        at = np.argsort(correlations, axis=None)
        mass = np.cumsum(weight.ravel()[at])
        low, high = correlations.ravel()[at][np.searchsorted(mass, [TAIL, 1.0 - TAIL])]
        odds = self._odds(relation, fine, value)
        if odds < (1.0 - NONE) / NONE:
            low, high = min(low, 0.0), max(high, 0.0)
        return RelationInterval(std_error, float(low), float(high), odds)

    def _deviation(self, relation: Relation) -> float:
        """Root mean square of rho around its estimate, by the profile over rho."""
        by_rho = RelationByRho(relation.setup, relation.values, relation.t, relation.i)
        path = self.path(by_rho, self.x, STEP * float(np.sqrt(self.S[relation.rho, relation.rho])))
        fine = np.linspace(path.z[0], path.z[-1], FINE)
        value = path.at(fine)
        density = np.exp(value - value.max())
        return float(np.sqrt(density @ (fine - self.x[relation.rho]) ** 2 / density.sum()))

    def _common(self, relation: Relation, along: Callable[..., Array], Sa: Array, deviation: float) -> Array:
        """The share of the primary that is in common, along the paths and as uncertain as it is given z."""
        common = along(relation.common)[:, None]
        if self.ascent.setup.specific[self.ascent.setup.primary] is None:
            return np.broadcast_to(common, (len(common), len(NODES[0])))
        b = relation.common_odds(self.x)[1]
        spread = np.sqrt(max(float(b @ self.S @ b - (b @ Sa) ** 2 / deviation**2), 0.0))
        return np.asarray(expit(logit(common) + spread * NODES[0]))

    def _odds(self, relation: Relation, z: Array, value: Array) -> float:
        """Of a relation against none; where none is beyond the paths it is as likely as their end: at least so much."""
        if self.ascent.sd is None:
            return np.nan
        v, u = relation.variances(self.x)
        T = self.x[relation.rho] ** 2 * v + u
        none = float(np.interp(0.0, z, value))
        total = float(np.sum(np.exp(value - value.max()))) * float(z[1] - z[0])
        return float(total * np.exp(min(value.max() - none, 600.0)) * np.sqrt(T / (2.0 * np.pi)) / self.ascent.sd)


def _believed_inverse(C: Array) -> Array:
    """C^-1, no direction taken for less certain than a little of its scaled curvature leaves it."""
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(C)), 1e-12))
    e, U = np.linalg.eigh(C / np.multiply.outer(scale, scale))
    return np.asarray((U / np.maximum(np.abs(e), LEAST_CURVATURE)) @ U.T / np.multiply.outer(scale, scale))


def _own_block(
    ascent: FocusedAscent, values: Values, posterior: SharedPosterior, relation: Relation
) -> RelationInterval:
    """By the curvature of the task's own rho, kernel and noise, the other tasks and the shared kernel held fixed.

    Given the others the shared function is N(a', P') with P'^-1 = B - W_t'W_t, so the task alone is Gaussian with mean
    G_t a' and covariance E_t + G_t P' G_t': a small dense problem whatever the number of tasks. Labels are the sites
    that EP made of them. The interval is that of a normal z.
    """
    setup, t, x = ascent.setup, relation.t, pack(values)
    cells, rows, kernel = setup.cells.only(t), setup.cells.of(t), setup.specific[t]
    if not len(cells.y):
        return RelationInterval()
    known = posterior.of_task(t)
    LB, a = known.without(0)
    first, G = known.prior.columns[0], known.prior.G.copy()
    V, residual = known.prior.carried[0].V, known.prior.carried[0].residual
    sites = posterior.sites.on_host()

    def log_density(own: Array) -> float:
        moved, rho = x.copy(), own[0]
        moved[relation.own] = own
        at = unpack(moved, values)
        nu, tau, constant = sites.nu[rows], sites.tau[rows], 0.0
        if "noise" in at:
            likelihood = Gaussian(cells, np.exp(at["noise"][t : t + 1]))
            nu, tau = likelihood.nu, likelihood.tau
            constant = likelihood.log_normaliser(tau)
        w, s = unit_noise(nu, tau)
        G[:, first] = rho * V
        half = linalg.right_solve_transposed(w[:, None] * G, LB)
        A = half @ half.T
        if kernel is not None:
            A += w[:, None] * kernel.with_theta(at["specific"][setup.specific_parts[t]])(cells.X) * w
        linalg.add_diagonal(A, 1.0 + w * w * rho**2 * residual)
        return gaussian_evidence(A, s - w * (G @ a))[0] + constant + ascent.log_prior(at)

    S = _believed_inverse(-second_differences(log_density, x[relation.own]))
    std_error = float(np.sqrt(S[0, 0]))
    if kernel is None:
        return RelationInterval(std_error)
    slope = relation.slope(x)[relation.own]
    return _normal(relation, x, float(np.sqrt(slope @ S @ slope)), std_error)


def _normal(relation: Relation, x: Array, deviation: float, std_error: float) -> RelationInterval:
    """What is known where z is taken as normal."""
    z = relation.z(x)
    low, high = np.tanh([z - HALF * deviation, z + HALF * deviation]) * np.sqrt(relation.common(x))
    return RelationInterval(std_error if z != 0.0 else np.nan, float(low), float(high))
