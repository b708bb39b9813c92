"""What a covariance over all tasks owes, and what its posterior answers. Everything else follows from `condition`.

A Gaussian likelihood is a set of fixed sites, so exact inference is one `condition`; EP is a loop around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from borrow.data.cells import Cells, Codes
from borrow.numerics.linalg import Array, is_tensor, to_host
from borrow.numerics.stored import stored


class AnySites(Protocol):
    """Gaussian factors N(f; nu/tau, 1/tau), one per row, or something small that they are made from where rows lie."""

    @property
    def nu(self) -> Array:
        """Precision times mean of each site."""

    @property
    def tau(self) -> Array:
        """Precision of each site."""

    def part(self, tasks: slice, rows: slice) -> AnySites:
        """What travels to the place where these tasks lie."""

    def at(self, cells: Cells) -> AnySites:
        """The sites of these rows, made from what has travelled."""

    def by_parameters(self, by_variance: Array) -> Array:
        """Derivatives by what the sites were made from, given those by the variance 1/tau of each site."""

    def on_host(self) -> AnySites:
        """The same as NumPy arrays."""


@stored("sites")
class Sites(NamedTuple):
    """The sites written out: natural parameters, one of each per row."""

    nu: Array
    tau: Array

    def part(self, tasks: slice, rows: slice) -> Sites:
        """The sites of these rows alone."""
        return Sites(self.nu[rows], self.tau[rows])

    def at(self, cells: Cells) -> Sites:
        """They are made already."""
        return self

    def by_parameters(self, by_variance: Array) -> Array:
        """They have no parameters but themselves."""
        return by_variance

    def on_host(self) -> Sites:
        """The same as NumPy arrays."""
        return Sites(to_host(self.nu), to_host(self.tau))


class Moments(NamedTuple):
    """Posterior mean and variance of the function at every row."""

    mean: Array
    variance: Array

    @classmethod
    def beside(cls, sites: AnySites, mean: Array, variance: Array) -> Moments:
        """The same where the sites are: on the host, unless these are not."""
        return cls(mean, variance) if is_tensor(sites.nu) else cls(to_host(mean), to_host(variance))


@dataclass(frozen=True)
class Prediction:
    """Posterior of the functions at new rows: mean, marginal variances and, if asked, the joint covariance."""

    mean: Array
    variance: Array
    covariance: Array | None = None

    @classmethod
    def by_task(
        cls, task: Codes, full: bool, one: Callable[[int, Codes], Prediction], between: Array | float = 0.0
    ) -> Prediction:
        """Each task by `one(t, at)`, the rows `at` being those of task t; `between` two tasks is their covariance."""
        n = len(task)
        mean, variance, covariance = np.empty(n), np.empty(n), np.zeros((n, n)) + between if full else None
        for t, at in rows_by_task(task):
            own = one(t, at)
            mean[at], variance[at] = own.mean, own.variance
            if covariance is not None:
                covariance[np.ix_(at, at)] = own.covariance
        return cls(mean, variance, covariance)


def rows_by_task(task: Codes) -> Iterator[tuple[int, Codes]]:
    """Each task that is asked about, and its rows."""
    return ((t, np.flatnonzero(task == t)) for t in np.unique(task).tolist())


class Adjoints(NamedTuple):
    """Derivatives of the evidence by what a prior was built from; what a prior does not have stays empty.

    `noise` is by the variance of each site, or by what the sites were made from; `bases` by the parameters of each
    kernel that functions are shared through, `inducing` by its inducing inputs. A task covariance is either `B`, or
    `weights` and `diagonal` of B = weights weights' + diag(diagonal). `specific[t]` is None where there is no kernel.
    """

    noise: Array
    bases: Sequence[Array]
    weights: Array | None = None
    B: Array | None = None
    diagonal: Array | None = None
    intercept: float = 0.0
    specific: Sequence[Array | None] = ()
    inducing: Sequence[Array | None] = ()


class Posterior(Protocol):
    """The functions of all tasks given the sites."""

    @property
    def prior(self) -> Covariance:
        """The covariance that was conditioned."""

    @property
    def evidence(self) -> float:
        """The log density of the sites as unit-noise observations."""

    @property
    def log_determinant(self) -> float:
        """log |I + w K w|, w the roots of the sites' precisions."""

    def marginals(self) -> Moments:
        """Posterior mean and variance of the function at every row."""

    def predict(self, X: Array, task: Codes, full: bool = False) -> Prediction:
        """The functions at new rows, with their joint covariance if asked."""

    def adjoints(self, inducing: bool = False) -> Adjoints:
        """Derivatives of the evidence by everything that the prior was built from, inducing inputs if asked."""


class Covariance(Protocol):
    """A prior over the functions of all tasks at one set of hyper-parameters. Knows no likelihood and no optimiser."""

    @property
    def jitter(self) -> float:
        """What had to be added to a diagonal for it to be factored, relative to its mean; 0 nearly always."""

    def condition(self, sites: AnySites) -> Posterior:
        """The posterior given Gaussian sites."""
