"""Weak priors on hyper-parameters, the same in every GP estimator so that comparisons compare models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
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
                column = np.log(scales) + 0.5 * np.log(d)
                mean = column if size == d else np.full(size, column.mean())
                cov = np.full((size, size), LEVEL_SD**2) + (size > 1) * RELEVANCE_SD**2 * np.eye(size)
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


def join_priors(priors: list[GaussianPrior]) -> GaussianPrior:
    """Independent priors on vectors that stand one after the other."""
    if not priors:
        return GaussianPrior(np.zeros(0), np.zeros((0, 0)))
    precision = sparse.block_diag([sparse.coo_array(p.precision) for p in priors], format="csr")
    return GaussianPrior(np.concatenate([p.mean for p in priors]), precision)


def noise_prior(n: int) -> GaussianPrior:
    """log noise ~ N(log 0.1, 2^2), independently for each of n tasks, in units of the scaled targets."""
    return GaussianPrior(np.full(n, NOISE_MEAN), sparse.eye_array(n, format="csr") / NOISE_SD**2)


def independent_priors(priors: Mapping[str, GaussianPrior]) -> Objective:
    """The sum of priors on named parameters."""

    def log_prior(values: Values) -> tuple[float, Values]:
        parts = {n: p.log_density(values[n]) for n, p in priors.items()}
        return sum(v for v, _ in parts.values()), {n: g for n, (_, g) in parts.items()}

    return log_prior
