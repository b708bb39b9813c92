"""Assumed-density filtering: one observation at a time, and what a candidate would tell before it is included.

A Gaussian q(f) with means mu and variances v takes in the factor p(y_n | f_n) by matching moments. All it takes is
log Z = log int p(y_n | f_n) N(f_n; mu_n, v_n) df_n and its slopes

    g = d log Z / d mu_n,    nu = g^2 - 2 d log Z / d v_n,

after which the entropy of q has fallen by -1/2 log(1 - nu v_n) and the factor is worth a site N(f_n; m, 1/tau) with

    tau = nu / (1 - nu v_n),    m = mu_n + g / nu.

For a Gaussian, nu = 1 / (v + s2), g = nu (y - mu): the site is the observation itself. For the probit with
z = y (mu + b) / sqrt(1 + v), r = phi(z) / Phi(z):  g = y r / sqrt(1 + v),  nu = r (z + r) / (1 + v). The ratio g / nu
is y sqrt(1 + v) / (z + r), which needs no division by r, so sites exist where r has underflowed; z + r is positive for
every z, so tau is too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from borrow.data.cells import Codes
from borrow.inference.likelihoods import probit_slopes
from borrow.numerics.linalg import Array, as_type_of, copy, namespace

#: Site precisions stay above this: the probit's underflow at margins above 38.
LEAST_PRECISION = 1e-300
#: Which rows are meant.
Where = slice | Codes


class Factors(ABC):
    """p(y_n | f_n) of all rows. `at` selects rows; means and variances are theirs. Abstract.

    A factor is a dataclass whose fields have one entry per row.
    """

    @abstractmethod
    def slopes(self, at: Where, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Slope g of log Z by the mean, and nu = g² - 2 dlog Z/dvariance, of each row."""

    @abstractmethod
    def score(self, at: Where, nu: Array, variance: Array) -> Array:
        """Something that grows with the entropy gain and needs no logarithm."""

    @abstractmethod
    def gain(self, at: Where, nu: Array, variance: Array) -> Array:
        """By how much the entropy would fall, up to rounding -1/2 log(1 - nu variance)."""

    @abstractmethod
    def sites(self, at: Where, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Precision tau and mean m of the Gaussian site that stands for each row."""

    def part(self, at: slice, put: Callable[[Any], Any]) -> Self:
        """Those of some rows, put where their task is computed."""
        return type(self)(*(put(values[at]) for values in vars(self).values()))


@dataclass(frozen=True)
class GaussianFactors(Factors):
    """y_n = f_n + noise of the given variance."""

    y: Array
    noise: Array

    def slopes(self, at: Where, mean: Array, variance: Array) -> tuple[Array, Array]:
        """g = nu (y - mean), nu = 1 / (variance + noise)."""
        nu = 1.0 / (variance + self.noise[at])
        return nu * (self.y[at] - mean), nu

    def score(self, at: Where, nu: Array, variance: Array) -> Array:
        """The variance of the function over that of the noise: the gain grows with it."""
        return variance / self.noise[at]

    def gain(self, at: Where, nu: Array, variance: Array) -> Array:
        """1/2 log(1 + variance / noise): 1 - nu variance would cancel where the noise is small."""
        return 0.5 * np.log1p(variance / self.noise[at])

    def sites(self, at: Where, mean: Array, variance: Array) -> tuple[Array, Array]:
        """The observation itself, whatever was known before."""
        return 1.0 / self.noise[at], self.y[at]


@dataclass(frozen=True)
class ProbitFactors(Factors):
    """p(y_n | f_n) = Phi(y_n (f_n + bias_n)), y_n = -1 or +1."""

    y: Array
    bias: Array

    def slopes(self, at: Where, mean: Array, variance: Array) -> tuple[Array, Array]:
        """g = y r / sqrt(1 + variance), nu = r (z + r) / (1 + variance)."""
        return probit_slopes(self.y[at], mean + self.bias[at], variance)[1:3]

    def score(self, at: Where, nu: Array, variance: Array) -> Array:
        """nu variance, which is below 1."""
        return nu * variance

    def gain(self, at: Where, nu: Array, variance: Array) -> Array:
        """-1/2 log(1 - nu variance)."""
        return -0.5 * np.log1p(-nu * variance)

    def sites(self, at: Where, mean: Array, variance: Array) -> tuple[Array, Array]:
        """tau = nu / (1 - nu variance), m = mean + y sqrt(1 + variance) / (z + r)."""
        _, _, nu, ratio = probit_slopes(self.y[at], mean + self.bias[at], variance)
        return np.maximum(nu / (1.0 - nu * variance), LEAST_PRECISION), mean + ratio


class TaskPosterior:
    """q(f) at the rows of one task: means, variances, and the rows sqrt(nu) s of M in Sigma = K - M'M.

    `column(n)` is k(X, x_n). Memory is (inclusions) x (rows): the N x N matrix is never formed.
    """

    def __init__(self, column: Callable[[int], Array], variance: Array) -> None:
        self.column = column
        self.mean = 0.0 * variance
        self.variance = copy(variance)
        self.size = 0
        self.M = as_type_of(variance, np.empty((0, len(variance))))

    def at(self, n: int) -> tuple[Array, Array]:
        """Mean and variance of row n, as arrays of one."""
        return self.mean[n : n + 1], self.variance[n : n + 1]

    def include(self, n: int, g: float, nu: float) -> None:
        """Take in row n: s = k_n - M'a with a the n-th column of M; then mean += g s, variance -= nu s^2."""
        if self.size == len(self.M):
            grown = as_type_of(self.mean, np.empty((max(8, 2 * self.size), len(self.mean))))
            grown[: self.size] = self.M
            self.M = grown
        s = self.column(n)
        if self.size:
            M = self.M[: self.size]
            s = s - M[:, n] @ M
        self.mean += g * s
        row = namespace(s).multiply(s, nu**0.5, out=self.M[self.size])
        self.variance -= row * row
        self.size += 1
