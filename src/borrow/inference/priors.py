"""Weak priors on hyper-parameters, the same in every GP estimator so that comparisons compare models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from borrow.kernels import Kernel
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Objective, Values

# Priors, in the units of scaled targets and column scales; see docs/notation.md.
LEVEL_SD = 1.0  # log lengthscale, common to all columns, around log sqrt(d) column scales
RELEVANCE_SD = 0.5  # log lengthscale of a column against the common one
VARIANCE_SD = 2.0  # log variance around 0, or around where the likelihood says (labels: `inference.ep.LOG_VARIANCE`)
NOISE_MEAN, NOISE_SD = float(np.log(0.1)), 2.0
OTHER_SD = 1.5  # alpha, period, bias: around where they start
ALIKE = 0.5  # correlation of two tasks' log lengthscales of the same column


class Prior(Protocol):
    """A prior on a parameter vector."""

    def log_density(self, value: Array) -> tuple[float, Array]:
        """Up to a constant, with its derivative."""


@dataclass(frozen=True)
class GaussianPrior:
    """N(mean, precision^-1) on a parameter vector."""

    mean: Array
    precision: Any  # dense or sparse

    def log_density(self, value: Array) -> tuple[float, Array]:
        """Up to a constant, with its derivative."""
        pull = self.precision @ (value - self.mean)
        return float(-0.5 * pull @ (value - self.mean)), -pull


def kernel_prior(kernel: Kernel, scales: Array, log_variance: float = 0.0) -> GaussianPrior:
    """Weak prior on a kernel's theta, given the columns' scales.

    log lengthscale_j = log(sqrt(d) scale_j) + level + relevance_j with level ~ N(0, 1) and relevance_j ~ N(0, 0.5^2):
    relevance is learnt, but shrunk to a common one. log variance ~ N(log_variance, 2^2); of an offset N(0, 2^2).
    """
    d = len(scales)
    priors = []
    for leaf in kernel.leaves():
        for name, size in leaf.free():
            now = np.log(np.atleast_1d(getattr(leaf, name)))
            if name == "lengthscale":
                mean, cov = _lengthscales(scales, size)
            elif name in ("variance", "bias_variance"):
                from_inputs = type(leaf).__name__ == "Linear"
                centre = -2.0 * np.log(scales) - np.log(d) if from_inputs else np.zeros(size)
                if name == "variance" and type(leaf).__name__ != "Constant":
                    centre = centre + log_variance
                mean = centre if len(centre) == size else np.full(size, centre.mean())
                cov = VARIANCE_SD**2 * np.eye(size)
            elif name == "weight_variance":
                column = -2.0 * np.log(scales)
                mean = column if size == d else np.full(size, column.mean())
                cov = OTHER_SD**2 * np.eye(size)
            else:
                mean = now if len(now) == size else np.full(size, now.mean())
                cov = OTHER_SD**2 * np.eye(size)
            priors.append(GaussianPrior(mean, np.linalg.inv(cov)))
    return join_priors(priors)


def _lengthscales(scales: Array, size: int) -> tuple[Array, Array]:
    """Mean and covariance of so many log lengthscales of one kernel."""
    column = np.log(scales) + 0.5 * np.log(len(scales))
    mean = column if size == len(scales) else np.full(size, column.mean())
    return mean, np.full((size, size), LEVEL_SD**2) + (size > 1) * RELEVANCE_SD**2 * np.eye(size)


@dataclass(frozen=True)
class ExchangeablePrior:
    """N(mean, A) on each of T parts of a vector, any two of them correlated alike; the other entries have `rest`.

    Part t is mean + common + own_t with common ~ N(0, r A) and own_t ~ N(0, (1 - r) A). The common one integrated out,
    the parts have the covariance R (x) A, R = (1 - r) I + r 11'. With z_t the part less its mean, and their average z,

        log p = -1/2 sum_t z_t'g_t,   g_t = A^-1 (z_t - r T / (1 - r + r T) z) / (1 - r),   d log p / d z_t = -g_t.

    One part has the prior N(mean, A), whatever r; with r = 0 they are independent.
    """

    rest: GaussianPrior
    index: npt.NDArray[np.intp]  # (T, d): where the parts lie
    mean: Array  # (d,)
    precision: Array  # (d, d), A^-1
    correlation: float  # r, below 1

    def log_density(self, value: Array) -> tuple[float, Array]:
        """Up to a constant, with its derivative."""
        total, by = self.rest.log_density(value)
        Z, r, T = value[self.index] - self.mean, self.correlation, len(self.index)
        pull = (Z - r * T / (1.0 - r + r * T) * Z.mean(axis=0)) @ self.precision / (1.0 - r)
        by[self.index] -= pull
        return total - 0.5 * float((Z * pull).sum()), by


def exchangeable_lengthscales(
    kernels: Sequence[Kernel], scales: Array, log_variance: float = 0.0, correlation: float = ALIKE
) -> Prior:
    """Weak prior on the thetas of several tasks' kernels, one after the other: the relevance of columns is in common.

    Each kernel by itself has `kernel_prior`. The log lengthscales of kernels with one per column are correlated from
    task to task: which columns matter is learnt from all tasks, and a task with rows enough may say otherwise. Where
    fewer than two kernels have one lengthscale per column this is the product of their own priors.
    """
    d, at = len(scales), 0
    parts, own = [], []
    for kernel in kernels:
        prior, first = kernel_prior(kernel, scales, log_variance), True
        for leaf in kernel.leaves():
            for name, size in leaf.free():
                if name == "lengthscale" and size == d and first:
                    parts.append(np.arange(at, at + size))
                    first = False
                at += size
        own.append(prior)
    joined = join_priors(own)
    if len(parts) < 2:
        return joined
    index = np.stack(parts)
    held = np.ones(len(joined.mean))
    held[index] = 0.0
    keep = sparse.diags_array(held)
    mean, A = _lengthscales(scales, d)
    rest = GaussianPrior(joined.mean, (keep @ joined.precision @ keep).tocsr())
    return ExchangeablePrior(rest, index, mean, np.asarray(np.linalg.inv(A)), correlation)


def join_priors(priors: list[GaussianPrior]) -> GaussianPrior:
    """Independent priors on vectors that stand one after the other."""
    if not priors:
        return GaussianPrior(np.zeros(0), np.zeros((0, 0)))
    precision = sparse.block_diag([sparse.coo_array(p.precision) for p in priors], format="csr")
    return GaussianPrior(np.concatenate([p.mean for p in priors]), precision)


def noise_prior(n: int) -> GaussianPrior:
    """log noise ~ N(log 0.1, 2^2), independently for each of n tasks, in units of the scaled targets."""
    return GaussianPrior(np.full(n, NOISE_MEAN), sparse.eye_array(n, format="csr") / NOISE_SD**2)


def independent_priors(priors: Mapping[str | tuple[str, ...], Prior] | Mapping[str, GaussianPrior]) -> Objective:
    """The sum of priors on named parameters; a prior on several names is on their entries one after the other."""
    named = [((name,) if isinstance(name, str) else name, prior) for name, prior in priors.items()]

    def log_prior(values: Values) -> tuple[float, Values]:
        total, by = 0.0, Values()
        for names, prior in named:
            value, gradient = prior.log_density(np.concatenate([values[n] for n in names]))
            total += value
            ends = np.cumsum([values[n].size for n in names])[:-1]
            by |= dict(zip(names, np.split(gradient, ends), strict=True))
        return total, by

    return log_prior
