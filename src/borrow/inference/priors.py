"""Weak priors on hyper-parameters, the same in every GP estimator so that comparisons compare models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from borrow.kernels import Kernel
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values, pack, unpack

# Priors, in the units of scaled targets and column scales; see docs/notation.md.
LEVEL_SD = 1.0  # log lengthscale, common to all columns, around log sqrt(d) column scales
RELEVANCE_SD = 0.5  # log lengthscale of a column against the common one
VARIANCE_SD = 2.0  # log variance around 0, or around where the likelihood says (labels: `inference.ep.LOG_VARIANCE`)
NOISE_MEAN, NOISE_SD = float(np.log(0.1)), 2.0  # log noise
NOISE_SPREAD, NOISE_DOF = 0.5, 4.0  # log noise of a task against the common one; the spread is learnt, from here
OTHER_SD = 1.5  # alpha, period, bias: around where they start


class Prior(Protocol):
    """A prior on a parameter vector."""

    def log_density(self, value: Array) -> tuple[float, Array]:
        """Up to a constant, with its derivative."""

    def curvature(self, value: Array) -> Array:
        """Minus its second derivatives, less what of them is not positive."""


@dataclass(frozen=True)
class GaussianPrior:
    """N(mean, P^-1) on a parameter vector, with P = diag(precision) - sum_g w_g 1_g 1_g'.

    Entries of a group g have something in common: they have the covariance a I + b 11', whose inverse is, by the
    formula of Sherman and Morrison, I / a - 11' b / (a (a + n b)). So thousands of lengthscales cost no matrix.
    """

    mean: Array
    precision: Array
    groups: tuple[tuple[slice, float], ...] = ()  # where each lies, and w_g

    def pull(self, z: Array) -> Array:
        """P times z, or times each of several."""
        out = np.asarray(z * self.precision)
        for at, weight in self.groups:
            out[..., at] -= weight * z[..., at].sum(axis=-1, keepdims=True)
        return out

    def log_density(self, value: Array) -> tuple[float, Array]:
        """Up to a constant, with its derivative."""
        pull = self.pull(value - self.mean)
        return float(-0.5 * pull @ (value - self.mean)), -pull

    def curvature(self, value: Array) -> Array:
        """The precision P, whatever the value."""
        return self.pull(np.eye(len(self.mean)))


def kernel_prior(kernel: Kernel, scales: Array, log_variance: float = 0.0) -> GaussianPrior:
    """Weak prior on a kernel's theta, given the columns' scales.

    log lengthscale_j = log(sqrt(d) scale_j) + level + relevance_j with level ~ N(0, 1) and relevance_j ~ N(0, 0.5^2):
    relevance is learnt, but shrunk to a common one. log variance ~ N(log_variance, 2^2); of an offset N(0, 2^2).
    """
    d = len(scales)
    priors = []
    for leaf in kernel.leaves():
        for name, size in leaf.free:
            now = np.log(np.atleast_1d(getattr(leaf, name)))
            if name == "lengthscale":
                priors.append(_lengthscales(scales, size))
                continue
            sd = VARIANCE_SD if name in ("variance", "bias_variance") else OTHER_SD
            if sd == VARIANCE_SD:
                from_inputs, moved = type(leaf).__name__ == "Linear", name == "variance"
                now = -2.0 * np.log(scales) - np.log(d) if from_inputs else np.zeros(size)
                now = now + (log_variance if moved and type(leaf).__name__ != "Constant" else 0.0)
            elif name == "weight_variance":
                now = -2.0 * np.log(scales)
            priors.append(GaussianPrior(_entries(now, size), np.full(size, sd**-2)))
    return join_priors(priors)


def _entries(values: Array, size: int) -> Array:
    """One value per entry of a parameter: as they are, or their mean for all."""
    return values if len(values) == size else np.full(size, values.mean())


def _lengthscales(scales: Array, size: int) -> GaussianPrior:
    """So many log lengthscales of one kernel: the level they have in common, and how each differs from it."""
    column = np.log(scales) + 0.5 * np.log(len(scales))
    a, b = (RELEVANCE_SD**2, LEVEL_SD**2) if size > 1 else (LEVEL_SD**2, 0.0)
    return GaussianPrior(_entries(column, size), np.full(size, 1.0 / a), ((slice(0, size), b / (a * (a + size * b))),))


def kernel_priors(kernels: Sequence[Kernel], scales: Array, log_variance: float = 0.0) -> GaussianPrior:
    """Weak prior on the thetas of several kernels, one after the other: each has its `kernel_prior`."""
    known = {id(k): kernel_prior(k, scales, log_variance) for k in {id(k): k for k in kernels}.values()}
    return join_priors([known[id(k)] for k in kernels])


def join_priors(priors: list[GaussianPrior]) -> GaussianPrior:
    """Independent priors on vectors that stand one after the other."""
    mean = np.concatenate([np.zeros(0), *(p.mean for p in priors)])
    precision = np.concatenate([np.zeros(0), *(p.precision for p in priors)])
    starts = np.cumsum([0, *(len(p.mean) for p in priors)]).tolist()
    groups = [(slice(at.start + i, at.stop + i), w) for p, i in zip(priors, starts, strict=False) for at, w in p.groups]
    return GaussianPrior(mean, precision, tuple(groups))


@dataclass(frozen=True)
class NoisePrior:
    """Log noise, one per task: each weakly around a value known beforehand, and all around each other.

    x_t ~ N(mean, sd^2), times x_t ~ N(level, s^2) with the level free and the spread s learnt: 1/s^2 has the gamma
    prior of `dof` earlier tasks that differed by `spread`. With both gone and D the sum of squares of x_t - x.mean(),

        log p = -sum_t (x_t - mean)^2 / (2 sd^2) - (dof + n - 1)/2 log(dof spread^2 + D),
        d/dx_t = -(x_t - mean) / sd^2 - (dof + n - 1) (x_t - x.mean()) / (dof spread^2 + D).

    Where tasks agree, one that differs is drawn to them; where they do not, none is. One task is N(mean, sd^2).
    """

    mean: float
    sd: float
    spread: float
    dof: float

    def log_density(self, value: Array) -> tuple[float, Array]:
        """Up to a constant, with its derivative."""
        d, off = value - value.mean(), value - self.mean
        room, weight = self.dof * self.spread**2 + float(d @ d), self.dof + len(value) - 1.0
        density = -0.5 * float(off @ off) / self.sd**2 - 0.5 * weight * float(np.log(room))
        return density, -off / self.sd**2 - weight / room * d

    def curvature(self, value: Array) -> Array:
        """Without the part of the spread's derivative, which is negative."""
        n, d = len(value), value - value.mean()
        weight = (self.dof + n - 1.0) / (self.dof * self.spread**2 + float(d @ d))
        return np.asarray((weight + 1.0 / self.sd**2) * np.eye(n) - weight / n)

    def steepest(self, value: Array) -> float:
        """A curvature such that the parabola of it that touches the log density here lies below it everywhere.

        -log(room) lies above its tangent in D, and D is at most the sum of squares around any centre but the mean.
        """
        D = float(np.sum((value - value.mean()) ** 2))
        return (self.dof + len(value) - 1.0) / (self.dof * self.spread**2 + D) + 1.0 / self.sd**2


def noise_prior() -> NoisePrior:
    """log noise of every task, in units of the scaled targets: log 0.1 give or take 2, and alike."""
    return NoisePrior(NOISE_MEAN, NOISE_SD, NOISE_SPREAD, NOISE_DOF)


def independent_noise_prior(n: int) -> GaussianPrior:
    """log noise ~ N(log 0.1, 2^2), of each of n tasks for itself."""
    return GaussianPrior(np.full(n, NOISE_MEAN), np.full(n, NOISE_SD**-2))


@dataclass(frozen=True)
class NamedPriors:
    """The sum of priors on named parameters; a prior on several names is on their entries one after the other."""

    parts: tuple[tuple[tuple[str, ...], Prior], ...]

    def __call__(self, values: Values) -> tuple[float, Values]:
        """The log density, and its derivatives by name."""
        total, by = 0.0, Values()
        for names, prior in self.parts:
            own = {n: values[n] for n in names}
            value, gradient = prior.log_density(pack(own))
            total += value
            by |= unpack(gradient, own)
        return total, by

    def curvature(self, values: Values) -> Array:
        """Minus the second derivatives by all of `values`, in their order, less what of them is not positive."""
        ends = np.cumsum([0, *(v.size for v in values.values())])
        at = {n: np.arange(i, j) for n, i, j in zip(values, ends, ends[1:], strict=False)}
        C = np.zeros((ends[-1], ends[-1]))
        for names, prior in self.parts:
            where = np.concatenate([at[n] for n in names])
            C[np.ix_(where, where)] += prior.curvature(np.concatenate([values[n] for n in names]))
        return C


def independent_priors(priors: Mapping[str | tuple[str, ...], Prior] | Mapping[str, Prior]) -> NamedPriors:
    """The sum of priors on named parameters."""
    return NamedPriors(tuple(((name,) if isinstance(name, str) else name, prior) for name, prior in priors.items()))


def log_choices(n: int, m: int) -> float:
    """The log of how many ways there are to choose m of n tasks: what it costs to have chosen these, and not others."""
    return float(gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1))
