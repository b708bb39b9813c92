"""Few functions shared by many tasks, in terms of the distinct inputs (seed 001, section 3).

Task t is  f_t = sum_p R[t, p] h_p + b_t,  K^f = R R' of rank P, b_t ~ N(0, c) a random intercept. Each h_p ~ GP(0, k)
is carried by whitened values u_p at Z:  h_p(x) = v(x)'u_p + residual, v = L^-1 k(Z, x), L = chol k(Z, Z). With Z all
distinct inputs this is exact; with fewer it is Nystrom's, the lost variance kept on the diagonal (`keeps`).

Row i of task t at the distinct input j, with precision tau (a site, see `shared`), has residual variance
e = |R_t|^2 r_j, D = 1/(1 + tau e) and weight omega = tau D. The intercept is integrated out of every task by
kappa_t = c / (1 + c sum omega), v_t = sum omega v_j. Everything about the rows then enters through sums by input,

    g_pq[j] = sum R_tp R_tq omega,   blocks of B:  I [p = q] + V' diag(g_pq) V - sum_t kappa_t R_tp R_tq v_t v_t',

so that evidence and gradient cost P^2 N m^2 + (P m)^3 and a few passes over the rows: no n x n matrix, no n x P m one.
P = B^-1, a = P b are the covariance and mean of u; H_i = D w R_t (x) (v_j - kappa_t v_t), and the adjoints are those of
`shared` with these sums put in. Vectors of one number per row are on the host, matrices where the tasks are computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from borrow.covariance.contracts import AnySites, Codes
from borrow.covariance.inducing import Basis, CarriedRows, InducingBasis, unit_noise
from borrow.covariance.layout import Design
from borrow.covariance.two_pass import Shared, TwoPassCovariance
from borrow.kernels import Kernel
from borrow.numerics.linalg import Array, as_type_of, right_solve_transposed, row_dots, sparse_product, to_host
from borrow.numerics.stored import stored
from borrow.tasks.contracts import Shard, Tasks

#: Rows whose marginals are found at a time: the joint coefficients of a block are held at once.
BLOCK = 4096


class ShardPrior:
    """The prior of a shard's tasks at their distinct inputs."""

    def __init__(self, parameters: LowRankParameters, shard: Shard) -> None:
        cells, carrier = shard.cells, parameters.carriers[0]
        self.design = shard.made_once("design", lambda: Design.from_cells(cells))
        self.R, self.intercept = parameters.R, parameters.intercept
        self.carrier = carrier.on(shard.device)
        self.carried = CarriedRows(self.carrier, shard.put(self.design.inputs))
        self.residual = to_host(self.carried.residual)


class FirstPass:
    """Sums over the rows of a shard's tasks, by input and by task."""

    def __init__(self, prior: ShardPrior, sites: AnySites) -> None:
        self.prior, self.sites = prior, sites
        d, R, V, c = prior.design, prior.R, prior.carried.V, prior.intercept
        self.pairs = [(p, q) for p in range(R.shape[1]) for q in range(p, R.shape[1])]
        nu, self.tau = to_host(sites.nu), to_host(sites.tau)
        self.w, self.s = unit_noise(nu, self.tau)
        self.residual = np.einsum("tp,tp->t", R, R)[d.task] * prior.residual[d.index]
        self.D = 1.0 / (1.0 + self.tau * self.residual)
        self.omega = self.tau * self.D
        self.weight = np.bincount(d.task, self.omega, minlength=d.n_tasks)
        self.kappa = c / (1.0 + c * self.weight)
        self.v = self.by_task(self.omega, V) if c else as_type_of(V, np.zeros((d.n_tasks, V.shape[1])))
        self.g = {(p, q): as_type_of(V, self.by_input((R[:, p] * R[:, q])[d.task] * self.omega)) for p, q in self.pairs}
        known = self.D * nu
        self.known = known - self.omega * (self.kappa * np.bincount(d.task, known, minlength=d.n_tasks))[d.task]

    def sums(self) -> tuple[Array, Array]:
        """What these tasks add to B and b: the only thing that tasks elsewhere need to know of them."""
        d, R, V = self.prior.design, self.prior.R, self.prior.carried.V
        P, m = R.shape[1], V.shape[1]
        B = as_type_of(V, np.empty((P, m, P, m)))
        for p, q in self.pairs:
            block = V.T @ (self.g[p, q][:, None] * V)
            if self.prior.intercept:
                block -= self.v.T @ (as_type_of(V, self.kappa * R[:, p] * R[:, q])[:, None] * self.v)
            B[p, :, q, :], B[q, :, p, :] = block, block
        b = as_type_of(V, np.stack([self.by_input(R[d.task, p] * self.known) for p in range(P)])) @ V
        return B.reshape(P * m, P * m), b.ravel()

    def by_task(self, values: Array, V: Array, transposed: bool = False) -> Array:
        """S V or S'V, S (M, N) with the values of the rows at their task and input."""
        d = self.prior.design
        S = sparse.csr_array((values, (d.task, d.index)), shape=(d.n_tasks, len(d.inputs)))
        S = sparse.csr_array(S.T) if transposed else S
        return sparse_product(V, S)

    def by_input(self, values: Array) -> Array:
        """Sums of the rows' values by input."""
        d = self.prior.design
        return np.bincount(d.index, values, minlength=len(d.inputs)).astype(np.float64, copy=False)


class SecondPass:
    """The posterior of a shard's tasks given the shared functions."""

    def __init__(self, first: FirstPass, shared: Shared) -> None:
        self.first, self.prior = first, first.prior
        d, R, V, c = self.prior.design, self.prior.R, self.prior.carried.V, self.prior.intercept
        self.shared = shared.beside(V)
        self.LB, self.a = self.shared.LB, self.shared.a.reshape(R.shape[1], -1)
        misfit = first.s - first.w * self._shared_mean(R[d.task], V, d.index)
        by_task = np.bincount(d.task, first.w * first.D * misfit, minlength=d.n_tasks)
        self.alpha = first.D * (misfit - first.w * (first.kappa * by_task)[d.task])
        log_determinant = float(np.log1p(c * first.weight).sum()) - float(np.log(first.D).sum())
        self.terms = float(misfit @ self.alpha), log_determinant

    def _shared_mean(self, R: Array, V: Array, index: Codes) -> Array:
        return np.einsum("ip,ip->i", R, to_host(V @ self.a.T)[index])

    def adjoints(self, inducing: bool) -> tuple[Any, ...]:
        """By sites, R, no own kernels and the intercepts' variance; then theta, V'bV, Z, less the shared part."""
        prior, first = self.prior, self.first
        d, R, V, c = prior.design, prior.R, prior.carried.V, prior.intercept
        n_functions, m = R.shape[1], V.shape[1]
        P = self.shared.covariance.reshape(n_functions, m, n_functions, m)
        beta = first.w * self.alpha
        bV = as_type_of(V, np.stack([first.by_input(R[d.task, p] * beta) for p in range(n_functions)])).T @ self.a
        bR: Array = np.stack(
            [np.bincount(d.task, beta * f[d.index], minlength=d.n_tasks) for f in to_host(V @ self.a.T).T], axis=1
        )
        quadratic = np.zeros(len(beta))  # (v_j - kappa v_t)' P_t (v_j - kappa v_t), P_t = sum_pq R_tp R_tq P_pq
        at_task = np.zeros(d.n_tasks)  # v_t' P_t v_t
        for p, q in first.pairs:
            both = 1.0 + (p != q)
            block = 0.5 * (P[p, :, q, :] + P[p, :, q, :].T)
            VP, RR = V @ block, R[:, p] * R[:, q]
            Y = to_host(row_dots(VP, V))
            bV -= both * (first.g[p, q][:, None] * VP)
            y = Y[d.index]
            moved = np.bincount(d.task, first.omega * y, minlength=d.n_tasks)
            if c:
                vP = first.v @ block
                vPv = to_host(row_dots(vP, first.v))
                bV += both * first.by_task(RR[d.task] * first.omega * first.kappa[d.task], vP, transposed=True)
                cross = to_host((V @ vP.T)[d.index, d.task])
                y = y - first.kappa[d.task] * (2.0 * cross - (first.kappa * vPv)[d.task])
                moved -= first.kappa * vPv
                at_task += both * RR * vPv
            quadratic += both * RR[d.task] * y
            bR[:, p] -= moved * R[:, q]
            if p != q:
                bR[:, q] -= moved * R[:, p]
        noise = 0.5 * first.tau * (self.alpha**2 + first.tau * first.D**2 * quadratic - self._inverse_diagonal())
        bR += 2.0 * R * np.bincount(d.task, noise * prior.residual[d.index], minlength=d.n_tasks)[:, None]
        bresidual = first.by_input(np.einsum("tp,tp->t", R, R)[d.task] * noise)
        left = 1.0 - first.kappa * first.weight
        by_task = np.bincount(d.task, beta, minlength=d.n_tasks)
        intercept = 0.5 * float(np.sum(by_task**2 + left**2 * at_task - first.weight * left)) if c else 0.0
        by_basis = prior.carried.pullback(bV, as_type_of(V, bresidual), inducing)
        return [first.sites.by_parameters(noise)], [bR], [], intercept, *by_basis

    def _inverse_diagonal(self) -> Array:
        """The diagonal of every task's A^-1 given the shared functions."""
        first = self.first
        return first.D - first.kappa[self.prior.design.task] * first.tau * first.D**2

    def _coefficients(self, R: Array, V: Array, task: Codes) -> Array:
        """R (x) (v - kappa v_t) of rows, through LB: their squares sum to the variance that u leaves."""
        V = V - as_type_of(V, self.first.kappa[task])[:, None] * self.first.v[task]
        J = (as_type_of(V, R)[:, :, None] * V[:, None, :]).reshape(len(V), -1)
        return right_solve_transposed(J, self.LB)

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every row: tau v = 1 - diag A^-1, for sites not too weak."""
        d, prior, first = self.prior.design, self.prior, self.first
        by_task = np.bincount(d.task, first.w * self.alpha, minlength=d.n_tasks)
        mean = self._shared_mean(prior.R[d.task], prior.carried.V, d.index)
        mean += first.residual * first.w * self.alpha + prior.intercept * by_task[d.task]
        quadratic = np.empty(len(mean))
        for at in (slice(i, i + BLOCK) for i in range(0, len(mean), BLOCK)):
            J = self._coefficients(prior.R[d.task[at]], prior.carried.V[d.index[at]], d.task[at])
            quadratic[at] = to_host(row_dots(J, J))
        return mean, (1.0 - self._inverse_diagonal() + first.tau * first.D**2 * quadratic) / first.tau

    def at_new(self, X: Array, task: Codes, full: bool) -> tuple[Array, ...]:
        """Mean and variance of the functions at new rows; if `full`, mean, J and own parts as of `shared`."""
        prior, first = self.prior, self.first
        new = CarriedRows(prior.carrier, as_type_of(prior.carried.V, X))
        by_task = np.bincount(prior.design.task, first.w * self.alpha, minlength=prior.design.n_tasks)
        mean = self._shared_mean(prior.R[task], new.V, np.arange(len(X))) + prior.intercept * by_task[task]
        J = self._coefficients(prior.R[task], new.V, task)
        residual = np.einsum("tp,tp->t", prior.R, prior.R)[task] * to_host(new.residual)
        if not full:
            return mean, residual + first.kappa[task] + to_host(row_dots(J, J))
        own = np.where(task[:, None] == task, first.kappa[task], 0.0)
        own.flat[:: len(own) + 1] += residual
        return mean, to_host(J), own


@stored("low-rank-parameters")
@dataclass(frozen=True)
class LowRankParameters:
    """What the prior is built from besides the rows: one basis, R with one row per task, the intercepts' variance."""

    prior: ClassVar = ShardPrior
    first: ClassVar = FirstPass
    second: ClassVar = SecondPass

    carriers: list[InducingBasis]
    R: Array
    intercept: float

    @property
    def basis_of(self) -> list[int]:
        """One basis carries all functions."""
        return [0] * self.R.shape[1]

    def part(self, tasks: slice) -> LowRankParameters:
        """Those of some tasks."""
        return replace(self, R=self.R[tasks])


@stored("low-rank-tasks", state="tasks parameters jitter")
class LowRankTasks(TwoPassCovariance):
    """The prior over all tasks' functions, of rank P in the tasks and m in the inputs."""

    parameters: LowRankParameters

    def __init__(
        self, tasks: Tasks[Shard], kernel: Kernel, Z: Array, R: Array, intercept: float = 0.0, keeps: bool = True
    ) -> None:
        super().__init__(tasks, LowRankParameters([InducingBasis(Basis(kernel, Z, keeps), tasks.device)], R, intercept))
