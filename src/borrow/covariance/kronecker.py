"""Complete designs: every input seen in every task (seed 001, sections 2.2 and 2.3).

Rows are stacked by task, so the prior is B (x) k(X, X) with B the task covariance, and sites have precisions
tau = a_t c_j. With B~ = sqrt(a) B sqrt(a) = V diag(g) V' and K~ = sqrt(c) K sqrt(c) = U diag(l) U',

    A = I + B~ (x) K~,   log|A| = sum_mi log(1 + g_m l_i),   alpha = V [(V'S U) / (1 + g l')] U',

S (M, N) being the sites as unit-noise observations. Two eigendecompositions, O(N^3 + M^3), instead of O(M^3 N^3).

Adjoints:  bK~ = 1/2 (alpha'B~ alpha - U diag(sum_m g_m / (1 + g_m l)) U'),  bB~ alike with the parts exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from borrow.covariance.contracts import Adjoints, AnySites, Codes, Moments, Prediction
from borrow.covariance.inducing import LOG_2PI
from borrow.covariance.layout import Design, Rebuilt
from borrow.kernels import Kernel
from borrow.numerics import linalg
from borrow.numerics.linalg import Array, as_type_of, namespace, to_host
from borrow.numerics.stored import stored


@stored("complete-tasks")
@dataclass(eq=False)
class CompleteTasks(Rebuilt):
    """The prior over all tasks' functions on a complete design."""

    jitter: ClassVar[float] = 0.0

    design: Design
    kernel: Kernel
    B: Array

    def __post_init__(self) -> None:
        self.inputs = self.design.put(self.design.inputs)
        self.B_beside = as_type_of(self.inputs, self.B)
        self.Kx, self.back = self.kernel.evaluate(self.inputs)

    def condition(self, sites: AnySites) -> CompletePosterior:
        """Condition on sites N(f; nu/tau, 1/tau) whose precisions are a product of one by task and one by input."""
        return CompletePosterior(self, sites)


@stored("complete-posterior")
@dataclass(eq=False)
class CompletePosterior(Rebuilt):
    """The posterior of all functions given the sites, in the eigenvectors of both factors."""

    prior: CompleteTasks
    sites: AnySites

    def __post_init__(self) -> None:
        prior = self.prior
        M, N, xp = len(prior.B), len(prior.Kx), namespace(prior.Kx)
        nu, tau = as_type_of(prior.Kx, self.sites.nu), as_type_of(prior.Kx, self.sites.tau)
        T = tau.reshape(M, N)
        self.w = xp.sqrt(tau)
        self.by_task, self.by_input = xp.sqrt(T[:, 0]), xp.sqrt(T[0] / T[0, 0])
        self.g, self.V = self._eigen(prior.B_beside, self.by_task)
        self.l, self.U = self._eigen(prior.Kx, self.by_input)
        self.shrink = 1.0 / (1.0 + self.g[:, None] * self.l)
        rotated = self.V.T @ (nu / self.w).reshape(M, N) @ self.U
        shrunk = rotated * self.shrink
        self.alpha = self.V @ shrunk @ self.U.T  # (M, N)
        self.log_determinant = -float(xp.log(self.shrink).sum())
        self.evidence = -0.5 * (float(linalg.inner(rotated, shrunk)) + self.log_determinant + M * N * LOG_2PI)

    @staticmethod
    def _eigen(K: Array, w: Array) -> tuple[Array, Array]:
        e, U = linalg.symmetric_eigen(K * w * w[:, None])
        return e.clip(0.0), U

    @cached_property
    def inverse_diagonal(self) -> Array:
        """The diagonal of A^-1, by row."""
        return (self.V**2 @ self.shrink @ (self.U**2).T).ravel()

    @cached_property
    def coefficients(self) -> Array:
        """w alpha, (M, N): what a covariance with the rows is multiplied with."""
        return self.by_task[:, None] * self.alpha * self.by_input

    def by_inputs(self) -> Array:
        """The adjoint of k on the inputs."""
        d = self.g @ self.shrink
        half = self.by_input[:, None] * self.U * namespace(d).sqrt(d)
        return 0.5 * (self.coefficients.T @ self.prior.B_beside @ self.coefficients - half @ half.T)

    def adjoints(self, inducing: bool = False) -> Adjoints:
        """Derivatives of the evidence by theta, B, and the noise of each row."""
        half = self.by_task[:, None] * self.V * namespace(self.l).sqrt(self.shrink @ self.l)
        bB = 0.5 * (self.coefficients @ self.prior.Kx @ self.coefficients.T - half @ half.T)
        noise = 0.5 * self.w**2 * (self.alpha.ravel() ** 2 - self.inverse_diagonal)
        by_sites = self.sites.by_parameters(to_host(noise))
        return Adjoints(by_sites, [self.prior.back(self.by_inputs()).theta], B=to_host(bB))

    def marginals(self) -> Moments:
        """Posterior mean and variance of the function at every row: w K w = A - I."""
        mean = (self.prior.B_beside @ self.coefficients @ self.prior.Kx).ravel()
        return Moments.beside(self.sites, mean, (1.0 - self.inverse_diagonal) / self.w**2)

    def predict(self, X: Array, task: Codes, full: bool = False) -> Prediction:
        """Functions at new rows (eq. 2)."""
        prior = self.prior
        X = as_type_of(prior.Kx, X)
        cross = prior.kernel(X, prior.inputs)
        mean = linalg.row_dots(cross, (prior.B_beside @ self.coefficients)[task])  # eq. 2
        p = (prior.B_beside * self.by_task) @ self.V
        q = (cross * self.by_input) @ self.U
        if full:
            K = prior.kernel(X) * as_type_of(X, prior.B[task][:, task])
            for m in range(len(self.g)):
                half = p[task, m][:, None] * q * namespace(q).sqrt(self.shrink[m])
                K -= half @ half.T
            return Prediction(to_host(mean), to_host(linalg.diagonal(K).clip(0.0)), to_host(K))
        known = linalg.row_dots(q**2, ((p**2) @ self.shrink)[task])
        own = prior.kernel.diag(X) * as_type_of(X, np.diagonal(prior.B)[task])
        return Prediction(to_host(mean), to_host((own - known).clip(0.0)))

    @property
    def related(self) -> bool:
        """Whether the prior ties any two tasks."""
        return bool(np.any(np.diag(np.diagonal(self.prior.B)) != self.prior.B))

    def share_of_noise(self) -> float:
        """What the fit leaves of the targets, as a share of their mean square: tr (I-S) C (I-S) / tr C, as below."""
        return float(self.shrink.sum() / (1.0 / self.shrink).sum())

    def share_of_transfer(self) -> float:
        """How much of the fitted values comes from other tasks' targets, as a share of their mean square.

        For the eigenvalue l of the inputs, the fit of all tasks is S = V diag(g l / (1 + g l)) V' times targets of
        covariance I + l B~. Without noise S is the identity: nothing crosses (section 2.3).
        """
        crossing = total = 0.0
        V, g = to_host(self.V), to_host(self.g)
        for shrink, l in zip(to_host(self.shrink).T, to_host(self.l), strict=True):
            S = (V * (1.0 - shrink)) @ V.T
            C = (V * (1.0 + g * l)) @ V.T
            off = S - np.diag(np.diagonal(S))
            crossing += float(np.einsum("ij,jk,ik->", off, C, off))
            total += float(np.einsum("ij,jk,ik->", S, C, S))
        return crossing / max(total, np.finfo(float).tiny)
