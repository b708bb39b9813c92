"""What is not known about the hyper-parameters, counted in the band of the function.

The posterior of a function is for the hyper-parameters that were found. How far others would do as well is explored
along a few directions that matter most: all lengthscales together, the variance of the function, the noise, how much is
shared. Points are spread around the optimum by the curvature of what was maximised (as INLA does; Rue, Martino and
Chopin 2009, section 3.2), each is one evaluation without a gradient, and its weight says how likely it is:

    weight_k = exp(objective at point k) / density of the spread at point k       (importance sampling)

Single parameters that matter less, one lengthscale beside the others, are moved one at a time by a step h; with c_j the
curvature along the move, they add (m_j - m)^2 / (h^2 c_j), the delta method by differences. With m, v the prediction at
the optimum, m_k, v_k those at the points, the band is

    variance = v max(1, sum_k w_k v_k / v) + sum_k w_k (m_k - m)^2 + sum_j (m_j - m)^2 / (h^2 c_j),

the second moment around the mean at the optimum, which stays the prediction, and never less than v. A covariance is
stretched alike.

Where targets were centred by the mean of their own rows, the level of the function is one more thing that is not known:
at the points it is integrated out, a constant of the targets' variance being part of the covariance
(`with_unknown_level`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from borrow.covariance.contracts import Prediction, Sites
from borrow.data.cells import Cells, Codes
from borrow.inference.ep import cavity
from borrow.kernels import Constant, Kernel, Sum
from borrow.numerics.linalg import Array, NotPositiveDefiniteError
from borrow.numerics.optimise import Values, pack, unpack
from borrow.numerics.stored import stored
from borrow.numerics.warned import log

#: Where one evaluation costs more than that of so many rows with all pairs written out, hyper-parameters are taken as
#: known: they nearly are, and every prediction makes the posteriors at the points again.
MOST_ROWS = 1000
#: Pairs of points for each direction beyond the first; degrees of freedom of their spread, a heavy-tailed Student's t.
PAIRS, DOF = 4, 5.0
#: By how much wider than the curvature says: beyond it the objective often falls more slowly.
WIDER = 1.5
#: The step of the differences that give the curvature: as wide as what is explored, in logarithms.
STEP, SINGLE_STEP = 0.25, 0.5
#: No direction is taken to be less certain than this curvature, about that of the widest default prior, leaves it.
LEAST_CURVATURE = 0.3
#: Points that are less likely than this are left out.
LEAST_WEIGHT = 1e-3
#: Variance of a task's level beside the mean of its rows, in units of its targets' variance.
LEVEL = 1.0

#: Rows by which the scale of a task's function is held at what the model says, where rows left out correct it.
SCALE_ROWS = 6.0

#: What was maximised, and the posterior that belongs to it, at given hyper-parameters.
Evaluate = Callable[[Values], tuple[float, Any]]


@stored("hyper-uncertainty")
@dataclass(frozen=True)
class HyperUncertainty:
    """Posteriors at other hyper-parameters that explain the data nearly as well, and how much each counts."""

    posteriors: list[Any]
    of_variance: Array  # weights of their variances; they sum to 1
    of_mean: Array  # weights of the squares by which their means differ from that of the optimum
    noise: Array  # (M,): expected noise variance, at least that of the optimum

    def widen(self, found: Prediction, X: Array, task: Any) -> Prediction:
        """The prediction at the optimum with the hyper-parameters' uncertainty added."""
        others = [copy(p).predict(X, task) for p in self.posteriors]  # matrices of one at a time
        expected = self.of_variance @ np.stack([p.variance for p in others])
        stretch = np.sqrt(np.maximum(1.0, expected / np.maximum(found.variance, 1e-300)))
        moved = np.sqrt(self.of_mean)[:, None] * np.stack([p.mean - found.mean for p in others])
        variance = found.variance * stretch**2 + np.einsum("kn,kn->n", moved, moved)
        if found.covariance is None:
            return Prediction(found.mean, variance)
        covariance = found.covariance * np.multiply.outer(stretch, stretch) + moved.T @ moved
        return Prediction(found.mean, variance, covariance)

    def left_out(self, found: Prediction, without_each: Callable[[Any], Prediction], task: Any) -> Prediction:
        """Labels that are left out are predicted at the optimum, as they were found."""
        return found


@stored("uncertainty-by-task")
@dataclass(frozen=True)
class UncertaintyByTask:
    """That of tasks that share nothing: each has its own."""

    parts: list[HyperUncertainty | None]
    found: Array | None  # (M,): noise variances at the optimum; None for labels

    @property
    def noise(self) -> Array | None:
        """Expected noise variance of each task."""
        if self.found is None:
            return None
        known = zip(self.parts, self.found, strict=True)
        return np.array([v if p is None or p.noise is None else float(p.noise[0]) for p, v in known])

    def widen(self, found: Prediction, X: Array, task: Any) -> Prediction:
        """The prediction at the optimum, each row widened by its own task's uncertainty."""

        def one(t: int, at: Codes) -> Prediction:
            block = None if found.covariance is None else found.covariance[np.ix_(at, at)]
            own, part = Prediction(found.mean[at], found.variance[at], block), self.parts[t]
            return own if part is None else part.widen(own, X[at], 0 * at)

        covariance = found.covariance
        return Prediction.by_task(task, covariance is not None, one, 0.0 if covariance is None else covariance)

    left_out = HyperUncertainty.left_out


@stored("other-model")
@dataclass(frozen=True)
class OtherModel:
    """Another model that may hold instead, and how probable it is: what is predicted is the average of both.

    Functions have the mean and variance of the mixture, with p the probability and d the difference of the means

        mean = m + p d,   variance = (1 - p) v + p v' + p (1 - p) d^2.

    Where the probability is one number per task, one draw decides for all of them: of two tasks the likelier one is in
    the other model whenever the less likely one is. Of rows i and j, with p and q the smaller and larger of p_i and
    p_j, the other model then holds of both in p of the cases, of neither in 1 - q:

        cov_ij = (1 - q) C_ij + p C'_ij + p (1 - q) d_i d_j.
    """

    posterior: Any
    probability: float | Array  # (M,) where tasks differ
    noise: None = None  # of labels, which have none

    def widen(self, found: Prediction, X: Array, task: Any) -> Prediction:
        """The average of a prediction of the model itself and of the other's."""
        return self.mix(found, self.posterior.predict(X, task, found.covariance is not None), task)

    def left_out(self, found: Prediction, without_each: Callable[[Any], Prediction], task: Any) -> Prediction:
        """The average, each row predicted without itself by either model."""
        return self.mix(found, without_each(self.posterior), task)

    def mix(self, found: Prediction, other: Prediction, task: Any) -> Prediction:
        """The average of two predictions of the same rows, of these tasks."""
        p, d = np.asarray(self.probability), other.mean - found.mean
        p = p[task] if p.ndim else p
        mean = found.mean + p * d
        variance = found.variance + p * (other.variance - found.variance) + p * (1.0 - p) * d**2
        if found.covariance is None or other.covariance is None:
            return Prediction(mean, variance)
        low, high = np.minimum.outer(p, p), np.maximum.outer(p, p)
        covariance = (1.0 - high) * found.covariance + low * other.covariance
        return Prediction(mean, variance, covariance + low * (1.0 - high) * np.multiply.outer(d, d))


def stretch_of_tasks(cells: Cells, noise: Array, moments: tuple[Array, Array]) -> Array:
    """By how much the variance of each task's function is too small, one factor per task and at least 1.

    Models with one kernel for all tasks, on targets scaled task by task, take a task's scale as known, which it is not
    of few rows. Each row is predicted without itself, which is closed form: with z^2 its squared error over its
    predicted variance, the factor is (s + sum z^2) / (s + n), n the task's rows and s rows of a prior at 1.
    `moments` are posterior mean and variance of the function at every cell, `noise` that of each task.
    """
    own, t, M = noise[cells.task] / cells.count, cells.task, len(cells.starts) - 1
    mean, variance = cavity(*moments, Sites(cells.y / own, 1.0 / own))
    total = np.bincount(t, (cells.y - mean) ** 2 / (variance + own), minlength=M)
    return np.maximum(1.0, (SCALE_ROWS + total) / (SCALE_ROWS + np.bincount(t, minlength=M)))


def stretched(found: Prediction, factor: Array) -> Prediction:
    """A prediction whose variances are so many times as large, by row."""
    root = np.sqrt(factor)
    covariance = None if found.covariance is None else found.covariance * np.multiply.outer(root, root)
    return Prediction(found.mean, found.variance * factor, covariance)


def with_unknown_level(kernel: Kernel | None, centred: bool) -> Kernel | None:
    """The kernel of a task whose level is not known; as it was where nothing was centred by the task's rows."""
    if not centred:
        return kernel
    level = Constant(LEVEL, fixed=("variance",))
    return level if kernel is None else Sum.of(kernel, level)


def direction(values: Values, **parts: Any) -> Values:
    """A move of some of the hyper-parameters; the others stay."""
    return {n: np.broadcast_to(parts.get(n, 0.0), v.shape).astype(float) for n, v in values.items()}


def hyper_uncertainty(
    evaluate: Evaluate,
    found: Values,
    directions: Sequence[Values],
    singles: Sequence[Values] = (),
    low: Values | None = None,
) -> HyperUncertainty | None:
    """Explore the hyper-parameters around those found; None where there is nothing to move, or nothing else explains.

    `directions` are moved together, `singles` one at a time. `low` are least values by name: points beyond them are put
    there.
    """
    x, moves = pack(found), [u for u in map(pack, directions) if np.any(u)]
    if not moves:
        return None
    U, least = np.column_stack(moves), {} if low is None else low

    def at(z: Array) -> Values:
        moved = unpack(x + U @ z, found)
        return {n: np.maximum(v, least[n]) if n in least else v for n, v in moved.items()}

    e, V = np.linalg.eigh(curvature_of_values(lambda z: _evaluate(evaluate, at(z))[0], len(moves)))
    # C = L L', spread = L^-T: unlike eigenvectors it has no signs to choose.
    L = np.linalg.cholesky((V * np.maximum(e, LEAST_CURVATURE)) @ V.T)
    spread = WIDER * np.linalg.inv(L).T
    T = student_points(len(moves))
    reached = [_evaluate(evaluate, at(spread @ t)) for t in T]
    likely = np.array([v for v, _ in reached]) + 0.5 * (DOF + 1.0) * np.log1p(T**2 / DOF).sum(axis=1)
    if not np.isfinite(likely).any():
        return None
    weights = np.exp(likely - likely.max())
    weights = np.minimum(weights, weights.mean() * np.sqrt(len(T)))  # no single point decides (Ionides 2008)
    keep = np.flatnonzero(weights > LEAST_WEIGHT * weights.sum())
    weights = weights[keep] / weights[keep].sum()
    other = np.stack([np.exp(at(spread @ T[k])["noise"]) for k in keep])
    noise = np.maximum(weights @ other, np.exp(found["noise"]))
    top, alone = evaluate(found)[0], []
    for u in map(pack, singles):
        (up, posterior), (down, _) = (_evaluate(evaluate, unpack(x + s * SINGLE_STEP * u, found)) for s in (1.0, -1.0))
        c = (2.0 * top - up - down) / SINGLE_STEP**2
        if np.isfinite(c):
            alone.append((posterior, 1.0 / (SINGLE_STEP**2 * max(c, LEAST_CURVATURE))))
    posteriors = [*(reached[k][1] for k in keep), *(p for p, _ in alone)]
    of_mean = np.concatenate([weights, [w for _, w in alone]])
    return HyperUncertainty(posteriors, np.concatenate([weights, np.zeros(len(alone))]), of_mean, noise)


def _evaluate(evaluate: Evaluate, at: Values) -> tuple[float, Any]:
    """The value, and a copy of the posterior, which holds what it is made from: matrices are made when it is asked."""
    try:
        value, posterior = evaluate(at)
        return value, copy(posterior)
    except NotPositiveDefiniteError as failure:
        log.info("no covariance beside the hyper-parameters found: %s", failure)
        return -np.inf, None


def curvature_of_values(f: Callable[[Array], float], K: int) -> Array:
    """Minus the second derivatives of f at 0 by differences of values; one-sided where f is not finite."""
    steps, top = STEP * np.eye(K), f(np.zeros(K))
    up, down = (np.array([f(sign * s) for s in steps]) for sign in (1.0, -1.0))
    up, down = np.where(np.isfinite(up), up, down), np.where(np.isfinite(down), down, up)
    C = np.diag((2.0 * top - up - down) / STEP**2)
    for i in range(K):
        for j in range(i):
            mixed = (f(steps[i] + steps[j]) - up[i] - up[j] + top) / STEP**2
            C[i, j] = C[j, i] = -mixed
    return np.where(np.isfinite(C), C, 0.0)


def student_points(K: int) -> Array:
    """Points that are spread as Student's t in K dimensions, each with its opposite: Roberts' additive recurrence."""
    ratio = 2.0
    for _ in range(40):  # the root of ratio^(K + 1) = ratio + 1
        ratio = (1.0 + ratio) ** (1.0 / (K + 1.0))
    n = PAIRS * max(2, K - 1)
    points = stdtrit(DOF, (0.5 + np.multiply.outer(np.arange(1, n + 1), ratio ** -np.arange(1.0, K + 1.0))) % 1.0)
    return np.concatenate([points, -points])
