"""Few functions shared by many tasks, in terms of the distinct inputs (seed 001, section 3).

Task t is  f_t = sum_p R[t, p] h_p + b_t,  K^f = R R' of rank P, b_t ~ N(0, c) a random intercept. Each h_p ~ GP(0, k)
is carried by whitened values u_p at Z:  h_p(x) = v(x)'u_p + residual, v = L^-1 k(Z, x), L = chol k(Z, Z). With Z all
distinct inputs this is exact; with fewer it is Nystrom's, the lost variance kept on the diagonal.

Row i of task t at the distinct input j, with precision tau (a site, see `shared`), has residual variance
e = |R_t|^2 r_j, D = 1/(1 + tau e) and weight omega = tau D. The intercept is integrated out of every task by
kappa_t = c / (1 + c sum omega), v_t = sum omega v_j. Everything about the rows then enters through sums by input,

    g_pq[j] = sum R_tp R_tq omega,   blocks of B:  I [p = q] + V' diag(g_pq) V - sum_t kappa_t R_tp R_tq v_t v_t',

so that evidence and gradient cost P^2 N m^2 + (P m)^3 and a few passes over the rows: no n x n matrix, no n x P m one.
P = B^-1, a = P b are the covariance and mean of u; H_i = D w R_t (x) (v_j - kappa_t v_t), and the adjoints are those of
`shared` with these sums put in. Vectors of one number a row are on the host, matrices where the design says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from borrow.covariance.carrier import LOG_2PI, Basis, Prediction, _Carrier, _Forgetful, unit_noise
from borrow.covariance.dense import TaskAdjoints
from borrow.covariance.design import Codes, Design
from borrow.covariance.shared import posterior_of_shared
from borrow.kernels import Kernel
from borrow.numerics import linalg
from borrow.numerics.linalg import Array, is_tensor, like, row_dots, to_host

#: Rows predicted at a time: the joint coefficients of a block are held at once.
BLOCK = 4096


class LowRankTasks(_Forgetful):
    """The prior over all tasks' functions, of rank P in the tasks and m in the inputs."""

    def __init__(self, design: Design, kernel: Kernel, Z: Array, R: Array, intercept: float = 0.0) -> None:
        self.design, self.kernel, self.R, self.intercept = design, kernel, R, intercept
        self.carrier = _Carrier(Basis(kernel, Z), design.there(design.inputs), 0.0)
        self.jitter = self.carrier.jitter
        self.residual = to_host(self.carrier.residual)

    def _again(self) -> Any:
        made = (self.design, self.kernel, self.carrier.basis.Z, self.R, self.intercept)
        return (LowRankTasks, made) if is_tensor(self.carrier.V) else None

    def condition(self, nu: Array, tau: Array) -> LowRankPosterior:
        """Condition on sites N(f; nu/tau, 1/tau)."""
        return LowRankPosterior(self, nu, tau)


class LowRankPosterior(_Forgetful):
    """The posterior of all functions given the sites, with evidence, prediction and adjoints."""

    def __init__(self, prior: LowRankTasks, nu: Array, tau: Array, alone: bool = True) -> None:
        self.prior = prior
        d, R, V, c = prior.design, prior.R, prior.carrier.V, prior.intercept
        self.pairs = [(p, q) for p in range(R.shape[1]) for q in range(p, R.shape[1])]
        self.tau, nu = to_host(tau), to_host(nu)
        self.sites, tau = (nu, self.tau), self.tau
        self.w, self.s = unit_noise(nu, tau)
        self.residual = np.einsum("tp,tp->t", R, R)[d.task] * prior.residual[d.index]
        self.D = 1.0 / (1.0 + tau * self.residual)
        self.omega = tau * self.D
        self.weight = np.bincount(d.task, self.omega, minlength=d.n_tasks)
        self.kappa = c / (1.0 + c * self.weight)
        self.v = self._by_task(self.omega, V) if c else like(V, np.zeros((d.n_tasks, V.shape[1])))
        self.g = {(p, q): like(V, self._by_input((R[:, p] * R[:, q])[d.task] * self.omega)) for p, q in self.pairs}
        known = self.D * nu
        self.known = known - self.omega * (self.kappa * np.bincount(d.task, known, minlength=d.n_tasks))[d.task]
        if alone:
            self.given(*posterior_of_shared(self.sums()))

    def sums(self) -> tuple[Array, Array]:
        """What these tasks add to B and b: the only thing that tasks elsewhere need to know of them."""
        d, R, V = self.prior.design, self.prior.R, self.prior.carrier.V
        b = like(V, np.stack([self._by_input(R[d.task, p] * self.known) for p in range(R.shape[1])])) @ V
        return self._precision(), b.ravel()

    def given(self, LB: Array, a: Array, lead: bool = True) -> None:
        """Go on with B and b of all tasks, these and others. What is shared counts once, where `lead` is."""
        d, R, V, c, s = self.prior.design, self.prior.R, self.prior.carrier.V, self.prior.intercept, self.s
        self.LB, self.a, self.lead = LB, a.reshape(R.shape[1], -1), lead
        misfit = s - self.w * self._shared_mean(R[d.task], V, d.index)
        by_task = np.bincount(d.task, self.w * self.D * misfit, minlength=d.n_tasks)
        self.alpha = self.D * (misfit - self.w * (self.kappa * by_task)[d.task])
        quadratic = float(misfit @ self.alpha) + lead * float(linalg.inner(self.a, self.a))
        self.log_determinant = (
            lead * linalg.log_determinant(LB) - float(np.log(self.D).sum()) + float(np.log1p(c * self.weight).sum())
        )
        self.evidence = -0.5 * (quadratic + self.log_determinant + len(s) * LOG_2PI)

    def _again(self) -> Any:
        return (LowRankPosterior, (self.prior, *self.sites)) if is_tensor(self.a) else None

    def _by_task(self, values: Array, V: Array, transposed: bool = False) -> Array:
        """S V or S'V, S (M, N) with the values of the rows at their task and input."""
        d = self.prior.design
        S = sparse.csr_array((values, (d.task, d.index)), shape=(d.n_tasks, len(d.inputs)))
        S = sparse.csr_array(S.T) if transposed else S
        return linalg.sparse_product(V, S)

    def _by_input(self, values: Array) -> Array:
        """Sums of the rows' values by input."""
        d = self.prior.design
        return np.bincount(d.index, values, minlength=len(d.inputs)).astype(np.float64, copy=False)

    def _shared_mean(self, R: Array, V: Array, index: Codes) -> Array:
        return np.einsum("ip,ip->i", R, to_host(V @ self.a.T)[index])

    def _precision(self) -> Array:
        """B - I: what the sites add to the precision of u."""
        R, V = self.prior.R, self.prior.carrier.V
        P, m = R.shape[1], V.shape[1]
        B = like(V, np.empty((P, m, P, m)))
        for p, q in self.pairs:
            block = V.T @ (self.g[p, q][:, None] * V)
            if self.prior.intercept:
                block -= self.v.T @ (like(V, self.kappa * R[:, p] * R[:, q])[:, None] * self.v)
            B[p, :, q, :], B[q, :, p, :] = block, block
        return B.reshape(P * m, P * m)

    def adjoints(self, inducing: bool = False) -> TaskAdjoints:
        """Derivatives of the evidence by theta, R, the intercept's variance, and the noise of each row."""
        prior = self.prior
        d, R, V, c = prior.design, prior.R, prior.carrier.V, prior.intercept
        n_functions, m = R.shape[1], V.shape[1]
        P = linalg.inverse_from_factor(self.LB).reshape(n_functions, m, n_functions, m)
        beta = self.w * self.alpha
        bV = like(V, np.stack([self._by_input(R[d.task, p] * beta) for p in range(n_functions)])).T @ self.a
        bR: Array = np.stack(
            [np.bincount(d.task, beta * f[d.index], minlength=d.n_tasks) for f in to_host(V @ self.a.T).T], axis=1
        )
        spread = np.zeros(len(beta))  # (v_j - kappa v_t)' P_t (v_j - kappa v_t), P_t = sum_pq R_tp R_tq P_pq
        at_task = np.zeros(d.n_tasks)  # v_t' P_t v_t
        for p, q in self.pairs:
            both = 1.0 + (p != q)
            block = 0.5 * (P[p, :, q, :] + P[p, :, q, :].T)
            VP, RR = V @ block, R[:, p] * R[:, q]
            Y = to_host(row_dots(VP, V))
            bV -= both * (self.g[p, q][:, None] * VP)
            y = Y[d.index]
            moved = np.bincount(d.task, self.omega * y, minlength=d.n_tasks)
            if c:
                vP = self.v @ block
                vPv = to_host(row_dots(vP, self.v))
                bV += both * self._by_task(RR[d.task] * self.omega * self.kappa[d.task], vP, transposed=True)
                cross = to_host((V @ vP.T)[d.index, d.task])
                y = y - self.kappa[d.task] * (2.0 * cross - (self.kappa * vPv)[d.task])
                moved -= self.kappa * vPv
                at_task += both * RR * vPv
            spread += both * RR[d.task] * y
            bR[:, p] -= moved * R[:, q]
            if p != q:
                bR[:, q] -= moved * R[:, p]
        noise = 0.5 * self.tau * (self.alpha**2 + self.tau * self.D**2 * spread - self._inverse_diagonal())
        bR += 2.0 * R * np.bincount(d.task, noise * prior.residual[d.index], minlength=d.n_tasks)[:, None]
        bresidual = self._by_input(np.einsum("tp,tp->t", R, R)[d.task] * noise)
        S = self.a.T @ self.a
        linalg.add_diagonal(S, -float(n_functions))
        for p in range(n_functions):
            S += P[p, :, p, :]
        S *= float(self.lead)
        theta, _ = prior.carrier.pullback(bV, like(V, bresidual), S, False)
        left = 1.0 - self.kappa * self.weight
        by_task = np.bincount(d.task, beta, minlength=d.n_tasks)
        by_intercept = np.sum(by_task**2 + left**2 * at_task - self.weight * left)
        intercept = 0.5 * float(by_intercept) if c else 0.0
        return TaskAdjoints(theta, noise, weights=bR, intercept=intercept)

    def _inverse_diagonal(self) -> Array:
        """The diagonal of every task's A^-1 given the shared functions."""
        return self.D - self.kappa[self.prior.design.task] * self.tau * self.D**2

    def _coefficients(self, R: Array, V: Array, task: Codes) -> Array:
        """R (x) (v - kappa v_t) of rows, through LB: their squares sum to the variance that u leaves."""
        V = V - like(V, self.kappa[task])[:, None] * self.v[task]
        J = (like(V, R)[:, :, None] * V[:, None, :]).reshape(len(V), -1)
        return linalg.right_solve_transposed(J, self.LB)

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every row: tau v = 1 - diag A^-1, for sites not too weak."""
        d, prior = self.prior.design, self.prior
        by_task = np.bincount(d.task, self.w * self.alpha, minlength=d.n_tasks)
        mean = self._shared_mean(prior.R[d.task], prior.carrier.V, d.index)
        mean += self.residual * self.w * self.alpha + prior.intercept * by_task[d.task]
        spread = np.empty(len(mean))
        for at in _blocks(len(mean)):
            J = self._coefficients(prior.R[d.task[at]], prior.carrier.V[d.index[at]], d.task[at])
            spread[at] = to_host(row_dots(J, J))
        return mean, (1.0 - self._inverse_diagonal() + self.tau * self.D**2 * spread) / self.tau

    def predict(self, X: Array, task: Codes, full: bool = False) -> Prediction:
        """Functions at new rows; the residual of a shared function at a new input is independent of the rest."""
        prior, c = self.prior, self.prior.intercept
        by_task = np.bincount(prior.design.task, self.w * self.alpha, minlength=prior.design.n_tasks)
        own = np.einsum("tp,tp->t", prior.R, prior.R)
        if full:
            V, residual = prior.carrier.at(like(prior.carrier.V, X))
            mean = self._shared_mean(prior.R[task], V, np.arange(len(V))) + c * by_task[task]
            J = self._coefficients(prior.R[task], V, task)
            K = to_host(J @ J.T) + np.where(task[:, None] == task, self.kappa[task], 0.0)
            K.flat[:: len(K) + 1] += own[task] * to_host(residual)
            return Prediction(mean, np.diagonal(K).copy(), K)
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for at in _blocks(len(X)):
            V, residual = prior.carrier.at(like(prior.carrier.V, X[at]))
            mean[at] = self._shared_mean(prior.R[task[at]], V, np.arange(len(V))) + c * by_task[task[at]]
            J = self._coefficients(prior.R[task[at]], V, task[at])
            variance[at] = own[task[at]] * to_host(residual) + self.kappa[task[at]] + to_host(row_dots(J, J))
        return Prediction(mean, variance)


def _blocks(n: int) -> list[slice]:
    return [slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK)]
