"""Expectation propagation around `condition` of any covariance (Minka 2001; Leen et al. 2011, section 2.4).

A sweep takes all marginals from the structured posterior, removes each site to get its cavity, asks the likelihood for
three numbers (log Z, and its first and second derivatives by the cavity mean) and replaces all sites at once:

    cavity    v' = v / (1 - tau v),   m' = (m - v nu) / (1 - tau v)
    new site  tau = -d2 / (1 + d2 v'),   nu = (d1 - d2 m') / (1 + d2 v').

Parallel updates can overshoot: the step starts at 1, is halved when the residual grows and recovers when it falls.
With each site scaled so that it integrates the cavity to Z_i,

    log Z_EP = sum_i [log Z_i - log int N(f; m', v') exp(nu f - tau f^2/2) df]
             + log int N(f; 0, K) exp(nu'f - f'Tf/2) df.

This is stationary in the sites, so its derivative by the covariance is the covariance's own adjoint at frozen sites.
Sites can be as weak as 1e-300: nothing is divided by tau.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from borrow.covariance.contracts import Adjoints, Covariance, Posterior, Sites
from borrow.data.cells import Cells
from borrow.inference.contracts import Likelihood
from borrow.numerics.linalg import Array, as_type_of, namespace, to_host
from borrow.numerics.optimise import Values
from borrow.numerics.stored import stored
from borrow.numerics.warned import log
from borrow.tasks.contracts import Shard, Tasks

#: Shares of positives are kept this far from 0 and 1 when they become a bias.
CLIP = 0.02
#: Where the prior of a kernel's log variance is centred, in units of the probit's noise.
LOG_VARIANCE = 2.0
#: Sweeps whose sites the next ones are extrapolated from.
MEMORY = 6


@dataclass(frozen=True)
class EP:
    """Posterior, evidence, sites, and how it went."""

    posterior: Any  # of the covariance that was conditioned
    evidence: float
    sites: Sites
    n_sweeps: int
    converged: bool
    residual: float

    def gradient(self, inducing: bool = False) -> tuple[Adjoints, Values]:
        """Adjoints of the covariance at frozen sites; the likelihood has no parameters of its own."""
        return self.posterior.adjoints(inducing), {}

    @property
    def start(self) -> Sites:
        """What the next evaluation begins with; it does not keep the posterior's matrices alive."""
        return self.sites


def ep(
    prior: Covariance,
    likelihood: Likelihood,
    y: Array,
    bias: Array,
    start: Sites | None = None,
    max_sweeps: int = 100,
    tol: float = 1e-6,
) -> EP:
    """Sites at which every tilted distribution has the posterior's marginals; arrays are where the sites are."""
    xp = namespace(y)
    sites = start if start is not None else Sites(xp.zeros_like(y), xp.zeros_like(y))
    step, last, n_sweeps, past = 1.0, np.inf, 0, AndersonExtrapolation()
    while True:
        n_sweeps += 1
        posterior = prior.condition(sites)
        mean, variance = posterior.marginals()
        cavity_m, cavity_v = cavity(mean, variance, sites)
        log_z, d1, d2 = likelihood.moments(y, cavity_m + bias, cavity_v)
        shrink = 1.0 + d2 * cavity_v
        new = Sites((d1 - d2 * cavity_m) / shrink, -d2 / shrink)
        # In units of the cavity: by how much the sites would still move the marginals.
        sd = xp.sqrt(cavity_v / (1.0 + sites.tau * cavity_v))
        moves = xp.abs(new.tau - sites.tau) * sd**2, xp.abs(new.nu - sites.nu) * sd
        residual = max(float(m.max()) for m in moves) if len(sd) else 0.0  # a task may have no rows
        if residual < tol or n_sweeps >= max_sweeps:
            break
        if residual > last:
            step = max(0.5 * step, 1.0 / 16.0)
            past = AndersonExtrapolation()  # the steps do not go towards a fixed point
        else:
            step = min(1.0, 1.25 * step)
        last = residual
        sites = past.next(sites, new, step, sd)
        del posterior  # its matrices make room for those of the next sweep
    log.debug("EP: %d sweeps, residual %.1e, step %g", n_sweeps, residual, step)
    evidence = ep_evidence(posterior, mean, cavity_m, cavity_v, sites, log_z)
    return EP(posterior, evidence, sites, n_sweeps, residual < tol, residual)


class AndersonExtrapolation:
    """Anderson's extrapolation of a fixed-point iteration from its last few steps (D. Anderson: J. ACM 12, 1965).

    With g(x) the new sites and r = g(x) - x, the step is taken from the mixture of the last few x whose r is
    smallest: weights are those of a least-squares problem in the differences, in units of the cavities. EP's error
    falls by about the same factor in every sweep; after this it falls several times as fast. Where a mixture has a
    negative precision the plain step is taken.
    """

    def __init__(self) -> None:
        self._sites: list[Array] = []  # (2, n) each: nu and tau
        self._moves: list[Array] = []

    def next(self, sites: Sites, new: Sites, step: float, sd: Array) -> Sites:
        """The sites of the next sweep."""
        stack = namespace(sd).stack
        at = stack([sites.nu, sites.tau])
        move = stack([new.nu, new.tau]) - at
        self._sites, self._moves = [*self._sites, at][-MEMORY:], [*self._moves, move][-MEMORY:]
        end = at + step * move
        if len(self._moves) > 1:
            X, R = (stack([b - a for a, b in pairwise(each)]) for each in (self._sites, self._moves))
            scale = stack([sd, sd**2])
            scaled, k = (R * scale).reshape(len(R), -1), len(R)
            G, h = to_host(scaled @ scaled.T), to_host(scaled @ (move * scale).reshape(-1))
            weights = as_type_of(sd, np.linalg.lstsq(G, h, rcond=1e-10)[0])
            mixed = end - (weights @ (X + step * R).reshape(k, -1)).reshape(end.shape)
            if bool((mixed[1] >= 0.0).all()):
                end = mixed
        return Sites(end[0], end[1])


def cavity(mean: Array, variance: Array, sites: Sites) -> tuple[Array, Array]:
    """Mean and variance of each marginal with its own site taken out."""
    rest = (1.0 - sites.tau * variance).clip(1e-12)
    return (mean - variance * sites.nu) / rest, variance / rest


def ep_evidence(
    posterior: Posterior, mean: Array, cavity_m: Array, cavity_v: Array, sites: Sites, log_z: Array
) -> float:
    """log Z_EP of the formula above; log int N(f; 0, K) exp(nu'f - f'Tf/2) df = -1/2 log|I + wKw| + 1/2 nu'mean."""
    nu, tau = sites
    wide = 1.0 + tau * cavity_v
    log_wide = namespace(wide).log(wide)
    overlap = -0.5 * log_wide + (cavity_m * nu + 0.5 * cavity_v * nu**2 - 0.5 * tau * cavity_m**2) / wide
    return float((log_z - overlap).sum() - 0.5 * posterior.log_determinant + 0.5 * (nu @ mean))


def class_bias(cells: Cells) -> Array:
    """b_t = Phi^-1(share of positives in task t), the share kept in [.02, .98]; 0 for a task without rows.

    The paper says the ratio of positives to negatives, which is infinite at 1 : 1.
    """
    n = np.diff(cells.starts)
    positive = np.bincount(cells.task, cells.y > 0, minlength=len(n))
    share = np.divide(positive, n, out=np.full(len(n), 0.5), where=n > 0)
    return ndtri(np.clip(share, CLIP, 1.0 - CLIP))


@stored("ep-inference")
@dataclass(frozen=True)
class EPInference:
    """EP with a likelihood, as the models call it: no hyper-parameters beyond the covariance's."""

    likelihood: Any
    max_sweeps: int = 100
    tol: float = 1e-6
    log_variance: float = LOG_VARIANCE  # where the prior of a kernel's log variance is centred
    gaussian: ClassVar[bool] = False

    def __call__(self, prior: Covariance, tasks: Tasks[Shard], values: Values, start: Sites | None = None) -> EP:
        """Posterior and evidence; `start` of an earlier result, to warm-start from."""
        cells = tasks.cells
        y, bias = map(tasks.put, (cells.y, class_bias(cells)[cells.task]))
        return ep(prior, self.likelihood, y, bias, start, self.max_sweeps, self.tol)
