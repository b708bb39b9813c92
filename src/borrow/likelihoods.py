"""Observation models. A Gaussian likelihood is a set of fixed sites, so exact inference is one `condition`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from borrow.covariance.carrier import LOG_2PI
from borrow.data import Cells
from borrow.linalg import Array, erfcx, like, log_ndtr, log_sum_exp, namespace


@dataclass(frozen=True)
class Gaussian:
    """y = f + noise, with one variance a task, observed as cell means with counts.

    A cell of several rows with the same input and task contributes its mean, of variance noise/count, and the scatter
    within it: -dof/2 log(2 pi noise) - scatter/(2 noise) + constant. Both together are the likelihood of the rows
    written out, to the last digit.
    """

    cells: Cells
    noise: Array  # (M,)

    def sites(self) -> tuple[Array, Array]:
        """nu and tau of every cell."""
        tau = self.cells.count / self.noise[self.cells.task]
        return tau * self.cells.y, tau

    def log_normaliser(self, tau: Array) -> float:
        """What turns the evidence of unit-noise observations into the evidence of the rows as they were given."""
        c = self.cells
        scatter = -0.5 * (c.dof * (LOG_2PI + np.log(self.noise)) + c.scatter / self.noise)
        return float(0.5 * np.log(tau).sum() + scatter.sum() + c.log_count.sum())

    def pullback(self, bvariance: Array, tau: Array) -> Array:
        """Derivative by log noise of each task, from the adjoint of every cell's variance 1/tau."""
        c = self.cells
        by_cells = np.bincount(c.task, bvariance / tau, minlength=len(self.noise))
        return by_cells - 0.5 * (c.dof - c.scatter / self.noise)


class Probit:
    """p(y | f) = Phi(y f) for y in -1, +1; a bias is added to the mean by the caller.

    With z = y m / sqrt(1 + v) and r = phi(z) / Phi(z):

        log Z = log Phi(z),   d1 = y r / sqrt(1 + v),   d2 = -r (z + r) / (1 + v).
    """

    def moments(self, y: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """log Z and its first two derivatives by the mean."""
        root = namespace(variance).sqrt(1.0 + variance)
        z = y * mean / root
        r, excess = hazard(z)
        return log_ndtr(z), y * r / root, -r * excess / (1.0 + variance)


def hazard(z: Array) -> tuple[Array, Array]:
    """r = phi(z) / Phi(z) and z + r, both positive.

    r = sqrt(2/pi) / erfcx(-z / sqrt 2), exact far into both tails; z + r, which cancels in the lower one, from the
    asymptotic series of Mills' ratio below -50.
    """
    r = np.sqrt(2.0 / np.pi) / erfcx(z * -np.sqrt(0.5))
    far = z < -50.0
    if not bool(far.any()):
        return r, z + r
    q = 1.0 / z.clip(max=-50.0)
    p = q * q
    series = -q * (1.0 + p * (-2.0 + p * (10.0 + p * (-74.0 + 706.0 * p))))
    return r, namespace(z).where(far, series, z + r)


class Logistic:
    """p(y | f) = 1 / (1 + exp(-y f)), its moments by Gauss-Hermite quadrature."""

    def __init__(self, n_nodes: int = 96) -> None:
        self.n_nodes = n_nodes
        nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
        self.nodes, self.log_weights = nodes, np.log(weights / weights.sum())

    def moments(self, y: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """log Z and its first two derivatives by the mean: E[p'] / Z and E[p''] / Z - d1^2."""
        xp = namespace(mean)
        f = mean[:, None] + xp.sqrt(variance)[:, None] * like(mean, self.nodes)
        log_p = -xp.logaddexp(xp.zeros_like(f), -y[:, None] * f)
        terms = log_p + like(mean, self.log_weights)
        log_z = log_sum_exp(terms)
        share = xp.exp(terms - log_z[:, None])  # the tilted distribution on the nodes
        p = xp.exp(log_p)
        slope = y[:, None] * (1.0 - p)
        d1 = (share * slope).sum(axis=1)
        d2 = (share * (slope**2 - p * (1.0 - p))).sum(axis=1) - d1**2
        return log_z, d1, d2.clip(max=0.0)
