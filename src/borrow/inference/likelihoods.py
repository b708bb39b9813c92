"""Observation models. A Gaussian likelihood is a set of fixed sites, so exact inference is one `condition`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from borrow.covariance.inducing import LOG_2PI
from borrow.data.cells import Cells
from borrow.numerics.linalg import Array, as_type_of, erfcx, log_ndtr, log_sum_exp, namespace
from borrow.numerics.stored import stored


def within_cells(dof: Any, scatter: Any, noise: Any) -> tuple[Any, Any]:
    """log density of the scatter within cells, -dof/2 log(2 pi noise) - scatter/(2 noise); by log noise."""
    ratio = scatter / noise
    return -0.5 * (dof * (LOG_2PI + np.log(noise)) + ratio), -0.5 * (dof - ratio)


@stored("noise-sites", "gaussian")
@dataclass(frozen=True)
class Gaussian:
    """y = f + noise, with one variance per task, observed as cell means with counts.

    A cell of several rows with the same input and task contributes its mean, of variance noise/count, and the scatter
    within it: -dof/2 log(2 pi noise) - scatter/(2 noise) + constant. Both together are the likelihood of the rows
    written out, to the last digit.

    It is the sites that a covariance is conditioned on, made where the rows lie: what travels is the noise.
    """

    cells: Any  # None on the way
    noise: Array  # (M,)

    def __getstate__(self) -> dict[str, Any]:
        return {"cells": self.cells, "noise": self.noise}

    @cached_property
    def tau(self) -> Array:
        """Precision of each site."""
        return self.cells.count / self.noise[self.cells.task]

    @cached_property
    def nu(self) -> Array:
        """Precision times mean of each site."""
        return self.tau * self.cells.y

    def part(self, tasks: slice, rows: slice) -> Gaussian:
        """The noise of some tasks."""
        return Gaussian(None, self.noise[tasks])

    def at(self, cells: Cells) -> Gaussian:
        """The sites of these rows."""
        return self if self.cells is not None else Gaussian(cells, self.noise)

    def on_host(self) -> Gaussian:
        """They are made there."""
        return self

    def log_normaliser(self, tau: Array) -> float:
        """What turns the evidence of unit-noise observations into the evidence of the rows as they were given."""
        return float(self.log_normalisers(tau).sum())

    def log_normalisers(self, tau: Array) -> Array:
        """The same, task by task."""
        c = self.cells
        by_rows = np.bincount(c.task, np.log(tau), minlength=len(self.noise))
        return np.asarray(0.5 * by_rows + within_cells(c.dof, c.scatter, self.noise)[0] + c.log_count)

    def by_parameters(self, by_variance: Array) -> Array:
        """Derivative by log noise of each task, from the adjoint of every cell's variance 1/tau."""
        c = self.cells
        by_cells = np.bincount(c.task, by_variance / self.tau, minlength=len(self.noise))
        return np.asarray(by_cells + within_cells(c.dof, c.scatter, self.noise)[1])


@stored("probit")
class Probit:
    """p(y | f) = Phi(y f) for y in -1, +1; a bias is added to the mean by the caller.

    With z = y m / sqrt(1 + v) and r = phi(z) / Phi(z):

        log Z = log Phi(z),   d1 = y r / sqrt(1 + v),   d2 = -r (z + r) / (1 + v).
    """

    def moments(self, y: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """log Z and its first two derivatives by the mean."""
        z, slope, curvature, _ = probit_slopes(y, mean, variance)
        return log_ndtr(z), slope, -curvature


def probit_slopes(y: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array, Array]:
    """z, d1 and -d2 of a probit, and d1 / -d2 = y sqrt(1 + v) / (z + r), which needs no division by r."""
    root = namespace(variance).sqrt(1.0 + variance)
    z = y * mean / root
    r, excess = hazard(z)
    return z, y * r / root, r * excess / (1.0 + variance), y * root / excess


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


@stored("logistic", state="n_nodes nodes log_weights grid log_grid")
class Logistic:
    """p(y | f) = s(y f) with s(t) = 1 / (1 + exp(-t)), its moments by quadrature. With M = y m and V = v:

    V < 1: Gauss-Hermite over f, which s is smooth for.
    V >= 1: s(f) is the chance that a logistic variable T is below f, so Z = E[Phi((M - T) / sqrt V)], a sum of probits
    by the trapezium rule over T. With z, r of each as in `Probit` and expectations over the shares of the nodes in Z:

        d1 = E[r] / sqrt V,   d2 = (Var[r] - E[r (z + r)]) / V > -1 / V, so that no site is negative.

    s(f) = exp(f) s(-f), hence Z(M) = exp(M + V/2) Z(-M - V): where M < -V/2 the right-hand side is taken, and the nodes
    that matter lie in -80 < T < 40.
    """

    def __init__(self, n_nodes: int = 48) -> None:
        self.n_nodes = n_nodes
        nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
        self.nodes, self.log_weights = nodes, np.log(weights / weights.sum())
        self.grid = np.arange(-80.0, 40.25, 0.5)
        self.log_grid = np.log(0.5) - self.grid - 2.0 * np.logaddexp(0.0, -self.grid)  # log of 0.5 s'(T)

    def moments(self, y: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """log Z and its first two derivatives by the mean."""
        wide = variance >= 1.0
        if bool(wide.all()):
            log_z, d1, d2 = self._wide(y * mean, variance)
        elif not bool(wide.any()):
            log_z, d1, d2 = self._narrow(y * mean, variance)
        else:
            both = self._wide(y * mean, variance.clip(min=1.0)), self._narrow(y * mean, variance.clip(max=1.0))
            log_z, d1, d2 = (namespace(mean).where(wide, a, b) for a, b in zip(*both, strict=True))
        return log_z, y * d1, d2

    def _narrow(self, M: Array, V: Array) -> tuple[Array, Array, Array]:
        """E[s'] / Z and E[s''] / Z - d1^2 over the tilted distribution on the nodes."""
        xp = namespace(M)
        f = M[:, None] + xp.sqrt(V)[:, None] * as_type_of(M, self.nodes)
        log_p = -xp.logaddexp(xp.zeros_like(f), -f)
        terms = log_p + as_type_of(M, self.log_weights)
        log_z = log_sum_exp(terms)
        share, p = xp.exp(terms - log_z[:, None]), xp.exp(log_p)
        d1 = (share * (1.0 - p)).sum(axis=1)
        variance = (share * (1.0 - p - d1[:, None]) ** 2).sum(axis=1)
        return log_z, d1, (variance - (share * p * (1.0 - p)).sum(axis=1)).clip(max=0.0)

    def _wide(self, M: Array, V: Array) -> tuple[Array, Array, Array]:
        xp = namespace(M)
        turned = M < -0.5 * V
        root = xp.sqrt(V)
        z = (xp.where(turned, -M - V, M)[:, None] - as_type_of(M, self.grid)) / root[:, None]
        terms = log_ndtr(z) + as_type_of(M, self.log_grid)
        log_z = log_sum_exp(terms)
        share = xp.exp(terms - log_z[:, None])
        r, excess = hazard(z)
        mean_r = (share * r).sum(axis=1)
        d2 = ((share * (r - mean_r[:, None]) ** 2).sum(axis=1) - (share * r * excess).sum(axis=1)) / V
        log_z, d1 = xp.where(turned, M + 0.5 * V + log_z, log_z), mean_r / root
        return log_z, xp.where(turned, 1.0 - d1, d1), d2.clip(max=0.0)
