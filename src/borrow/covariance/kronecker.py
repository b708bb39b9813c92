"""Complete designs: every input seen in every task (seed 001, sections 2.2 and 2.3).

Rows are stacked by task, so the prior is B (x) k(X, X) with B the task covariance, and sites have precisions
tau = a_t c_j. With B~ = sqrt(a) B sqrt(a) = V diag(g) V' and K~ = sqrt(c) K sqrt(c) = U diag(l) U',

    A = I + B~ (x) K~,   log|A| = sum_mi log(1 + g_m l_i),   alpha = V [(V'S U) / (1 + g l')] U',

S (M, N) being the sites as unit-noise observations. Two eigendecompositions, O(N^3 + M^3), instead of O(M^3 N^3).

Adjoints:  bK~ = 1/2 (alpha'B~ alpha - U diag(sum_m g_m / (1 + g_m l)) U'),  bB~ alike with the parts exchanged.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from borrow import linalg
from borrow.covariance.dense import TaskAdjoints
from borrow.covariance.design import Codes, Design
from borrow.covariance.shared import LOG_2PI, Prediction, _Forgetful
from borrow.kernels import Kernel
from borrow.linalg import Array


class CompleteTasks(_Forgetful):
    """The prior over all tasks' functions on a complete design."""

    jitter = 0.0

    def __init__(self, design: Design, kernel: Kernel, B: Array) -> None:
        self.design, self.kernel, self.B = design, kernel, B
        self.Kx, self._back_x = kernel.evaluate(design.inputs)

    def condition(self, nu: Array, tau: Array) -> CompletePosterior:
        """Condition on sites N(f; nu/tau, 1/tau) whose precisions are a product of one by task and one by input."""
        return CompletePosterior(self, nu, tau)


class CompletePosterior(_Forgetful):
    """The posterior of all functions given the sites, in the eigenvectors of both factors."""

    def __init__(self, prior: CompleteTasks, nu: Array, tau: Array) -> None:
        self.prior = prior
        M, N = len(prior.B), len(prior.Kx)
        T = tau.reshape(M, N)
        self.w = np.sqrt(tau)
        self.by_task, self.by_input = np.sqrt(T[:, 0]), np.sqrt(T[0] / T[0, 0])
        self.g, self.V = self._eigen(prior.B, self.by_task)
        self.l, self.U = self._eigen(prior.Kx, self.by_input)
        self.shrink = 1.0 / (1.0 + np.multiply.outer(self.g, self.l))
        S = (nu / self.w).reshape(M, N)
        rotated = self.V.T @ S @ self.U
        shrunk = rotated * self.shrink
        self.alpha = self.V @ shrunk @ self.U.T  # (M, N)
        self.log_determinant = -float(np.log(self.shrink).sum())
        self.evidence = -0.5 * (float(np.vdot(rotated, shrunk)) + self.log_determinant + M * N * LOG_2PI)

    @staticmethod
    def _eigen(K: Array, w: Array) -> tuple[Array, Array]:
        e, U = linalg.symmetric_eigen(K * w * w[:, None])
        return np.maximum(e, 0.0), U

    @cached_property
    def inverse_diagonal(self) -> Array:
        """The diagonal of A^-1, by row."""
        return (self.V**2 @ self.shrink @ (self.U**2).T).ravel()

    def by_inputs(self) -> Array:
        """The adjoint of k on the inputs."""
        d = self.g @ self.shrink
        left = self.by_task[:, None] * self.alpha * self.by_input
        bK = left.T @ self.prior.B @ left
        half = self.by_input[:, None] * self.U * np.sqrt(d)
        bK -= half @ half.T
        bK *= 0.5
        return bK

    def adjoints(self, inducing: bool = False) -> TaskAdjoints:
        """Derivatives of the evidence by theta, B, and the noise of each row."""
        left = self.by_task[:, None] * self.alpha * self.by_input
        half = self.by_task[:, None] * self.V * np.sqrt(self.shrink @ self.l)
        bB = 0.5 * (left @ self.prior.Kx @ left.T - half @ half.T)
        noise = 0.5 * self.w**2 * (self.alpha.ravel() ** 2 - self.inverse_diagonal)
        return TaskAdjoints(self.prior._back_x(self.by_inputs()).theta, noise, B=bB)

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every row: w K w = A - I."""
        left = self.by_task[:, None] * self.alpha * self.by_input
        return (self.prior.B @ left @ self.prior.Kx).ravel(), (1.0 - self.inverse_diagonal) / self.w**2

    def predict(self, X: Array, task: Codes, full: bool = False) -> Prediction:
        """Functions at new rows (eq. 2)."""
        prior = self.prior
        cross = prior.kernel(X, prior.design.inputs)
        left = self.by_task[:, None] * self.alpha * self.by_input
        mean = np.einsum("ij,ij->i", cross, (prior.B @ left)[task])
        p = (prior.B * self.by_task) @ self.V
        q = (cross * self.by_input) @ self.U
        if full:
            K = prior.kernel(X) * prior.B[task][:, task]
            for m in range(len(self.g)):
                half = p[task, m][:, None] * q * np.sqrt(self.shrink[m])
                K -= half @ half.T
            return Prediction(mean, np.maximum(np.diagonal(K), 0.0), K)
        known = np.einsum("ij,ij->i", q**2, ((p**2) @ self.shrink)[task])
        return Prediction(mean, np.maximum(prior.kernel.diag(X) * np.diagonal(prior.B)[task] - known, 0.0))

    @property
    def related(self) -> bool:
        """Whether the prior ties any two tasks."""
        return bool(np.any(np.diag(np.diagonal(self.prior.B)) != self.prior.B))

    def share_of_noise(self) -> float:
        """What the fit leaves of the targets, as a share of their mean square: tr (I-S) C (I-S) / tr C, as below."""
        return float(self.shrink.sum() / np.sum(1.0 / self.shrink))

    def share_of_transfer(self) -> float:
        """How much of the fitted values comes from other tasks' targets, as a share of their mean square.

        For the eigenvalue l of the inputs, the fit of all tasks is S = V diag(g l / (1 + g l)) V' times targets of
        covariance I + l B~. Without noise S is the identity: nothing crosses (section 2.3).
        """
        crossing = total = 0.0
        for shrink, l in zip(self.shrink.T, self.l, strict=True):
            S = (self.V * (1.0 - shrink)) @ self.V.T
            C = (self.V * (1.0 + self.g * l)) @ self.V.T
            off = S - np.diag(np.diagonal(S))
            crossing += float(np.einsum("ij,jk,ik->", off, C, off))
            total += float(np.einsum("ij,jk,ik->", S, C, S))
        return crossing / max(total, np.finfo(float).tiny)
