"""Tasks tied by a task covariance, every pair of rows written out (seed 001, eq. 1).

    cov(f_t(x), f_t'(x')) = B[t, t'] k(x, x') + [t = t'] (c + k_t(x, x'))

B is the task covariance K^f, k the kernel on inputs, c the variance of a random intercept, k_t a kernel of the task's
own. Sites are unit-noise observations s = w f + noise (see `shared`): with A = I + w K w and alpha = A^-1 s,

    evidence = -1/2 (s'alpha + log|A| + n log 2 pi),   bK = w Q w,   Q = 1/2 (alpha alpha' - A^-1),

Q is needed in sums with symmetric matrices only: it is kept folded, twice its strict upper triangle and its diagonal.
K = B[t, t'] k is linear in either factor: bB[t, t'] = sum over the block of bK k, bk = bK B[t, t'].
Where inputs repeat, k is evaluated once for each distinct input and its adjoint gathered there. On a device the own
kernels of one form are evaluated together (`layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from borrow.covariance.contracts import Adjoints, AnySites, Codes, Moments, Prediction, Sites, rows_by_task
from borrow.covariance.inducing import LOG_2PI, marginal_variances, unit_noise
from borrow.covariance.layout import Block, Design, Rebuilt
from borrow.kernels import Kernel
from borrow.kernels.compose import TaskKernels
from borrow.numerics import linalg
from borrow.numerics.linalg import Array, as_type_of, namespace, to_host
from borrow.numerics.stored import stored

#: Below this share of distinct inputs the kernel is evaluated on these alone.
REPEATED = 0.6


@stored("dense-tasks")
@dataclass(eq=False)
class DenseTasks(Rebuilt):
    """The prior over all tasks' functions as one matrix."""

    jitter: ClassVar[float] = 0.0

    design: Design
    kernel: Kernel
    B: Array
    intercept: float = 0.0
    specific: Sequence[Kernel | None] = ()  # empty: no task has a kernel of its own

    def __post_init__(self) -> None:
        design = self.design
        self.X, self.task = design.put(design.X), design.task
        repeated = len(design.inputs) < REPEATED * len(self.X)
        self.index: Any = design.put(design.index) if repeated else None
        self.inputs = design.put(design.inputs) if repeated else self.X
        self.Kx, self.back = self.kernel.evaluate(self.inputs)
        self.own_parts = [(block, *own.evaluate(self.own_inputs(block))) for block, own in self.own_kernels()]

    @cached_property
    def Kx_at_rows(self) -> Array:
        """The kernel at all pairs of rows; not to be changed."""
        return self.at_rows(self.Kx)

    @cached_property
    def K(self) -> Array:
        """The prior covariance of all rows."""
        one = namespace(self.X).ones_like(self.X[:, 0])
        return self.scaled(one, self.between(one))

    def between(self, w: Array) -> Array:
        """The task covariance between all pairs of rows in units of the sites, w_i B[t_i, t_j] w_j."""
        wBw = self.at_tasks(w[:, None] * as_type_of(w, self.B[self.task]))
        wBw *= w
        return wBw

    def scaled(self, w: Array, wBw: Array) -> Array:
        """The prior covariance of all rows in units of the sites, w K w; `wBw` is what `between` made."""
        A = wBw * self.Kx_at_rows
        if self.intercept:
            for t in range(len(self.B)):
                at = self.design.of(t)
                A[at, at] += (self.intercept * w[at])[:, None] * w[at]
        for block, K, _ in self.own_parts:
            if block.size is None:
                A[block.at, block.at] += w[block.at][:, None] * K * w[block.at]
                continue
            v = self.padded(block, w)
            for at, part in zip(map(self.design.of, block.tasks), v[..., None] * K * v[:, None], strict=True):
                A[at, at] += part[: at.stop - at.start, : at.stop - at.start]
        return A

    def at_tasks(self, A: Array) -> Array:
        """Columns of the tasks of all rows."""
        return namespace(A).take(A, self.design.put(self.task), axis=1)

    def at_rows(self, K: Array) -> Array:
        """A matrix on the distinct inputs, at all pairs of rows; not to be changed."""
        if self.index is None:
            return K
        xp = namespace(K)
        return xp.take(xp.take(K, self.index, axis=0), self.index, axis=1)

    def own_kernels(self, together: Callable[[Any], bool] = lambda _: True) -> Iterator[tuple[Block, Any]]:
        """The tasks that have a kernel of their own and rows, each by itself; on a device those of one form stacked.

        Stacked are those of which `together` holds.
        """
        alone = {t: k for t, k in enumerate(self.specific) if k is not None}
        if alone:
            self.layout = self.design.layout(self.specific).placed(self.design.put)
            for block in self.layout.blocks:
                if block.size is not None and together(alone[block.tasks[0]]):
                    yield block, TaskKernels.of(self.specific).stacked(block.tasks, self.X)
                    alone = {t: k for t, k in alone.items() if t not in block.tasks}
        for t, kernel in alone.items():
            at = self.design.of(t)
            if at.stop > at.start:
                yield Block((t,), at), kernel

    def own_inputs(self, block: Block) -> Array:
        """The inputs of a block's rows."""
        return self.X[block.at] if block.size is None else block.of(self.layout.rows_at_places(self.X))

    def padded(self, block: Block, v: Array) -> Array:
        """One number for each row of the block's tasks, a row per task; zeros where smaller tasks are padded."""
        return block.of(self.layout.at_places(v))

    def on_diagonal(self, block: Block, Q: Any, w: Array) -> Any:
        """The part of w Q w that is of a block's tasks, each with itself; zeros where smaller tasks are padded."""
        if block.size is None:
            return w[block.at][:, None] * Q[block.at, block.at] * w[block.at]
        v, out = self.padded(block, w), Q.new_zeros((len(block.tasks), block.size, block.size))
        for part, at in zip(out, map(self.design.of, block.tasks), strict=True):
            part[: at.stop - at.start, : at.stop - at.start] = Q[at, at]
        return v[..., None] * out * v[:, None]

    def condition(self, sites: AnySites) -> DensePosterior:
        """Condition on sites N(f; nu/tau, 1/tau)."""
        return DensePosterior(self, sites)


@stored("dense-posterior")
@dataclass(eq=False)
class DensePosterior(Rebuilt):
    """The posterior of all functions given the sites, with evidence, prediction and adjoints."""

    prior: DenseTasks
    sites: AnySites

    def __post_init__(self) -> None:
        prior = self.prior
        self.w, s = unit_noise(as_type_of(prior.X, self.sites.nu), as_type_of(prior.X, self.sites.tau))
        if isinstance(self.sites, Sites):  # those of EP, every sweep of which asks for K
            A = prior.K * self.w
            A *= self.w[:, None]
        else:
            A = prior.scaled(self.w, self.wBw)
        linalg.add_diagonal(A, 1.0)
        self.evidence, self.alpha, self.L = gaussian_evidence(A, s)
        self.log_determinant = linalg.log_determinant(self.L)

    @cached_property
    def wBw(self) -> Array:
        """The task covariance between rows, in the units of the sites."""
        return self.prior.between(self.w)

    @cached_property
    def coefficients(self) -> Array:
        """What a covariance with the rows is multiplied with: the posterior mean is k(x, X) w alpha."""
        return self.w * self.alpha

    def adjoints(self, inducing: bool = False) -> Adjoints:
        """Derivatives of the evidence by theta, B, intercept, specific kernels, and the noise of each row."""
        prior, w = self.prior, self.w
        Q: Any = linalg.gram_minus_inverse_folded(self.alpha, self.L)
        Q *= 0.5
        noise = to_host(w * w * linalg.diagonal(Q))
        each = [Block((t,), prior.design.of(t)) for t in range(len(prior.B)) if prior.intercept or prior.specific]
        own_kernels = prior.specific or [None] * len(each)
        specific = [None if kernel is None else np.zeros(kernel.n_theta) for kernel in own_kernels]
        for block, _, back in prior.own_parts:
            theta = back(prior.on_diagonal(block, Q, w)).theta
            for t, own in zip(block.tasks, theta[None] if block.size is None else theta, strict=True):
                specific[t] = own
        intercept = float(sum(prior.on_diagonal(block, Q, w).sum() for block in each))
        onto = as_type_of(Q, _membership(prior.task, to_host(w), len(prior.B)))
        bB = to_host(onto @ ((prior.Kx_at_rows * Q) @ onto.T))
        Q *= self.wBw
        Q = Q if prior.index is None else prior.design.gather(Q)  # the adjoint of `at_rows`
        theta, by_sites = prior.back(Q).theta, self.sites.by_parameters(noise)
        return Adjoints(by_sites, [theta], B=0.5 * (bB + bB.T), intercept=intercept, specific=specific)

    @cached_property
    def evidence_given_others(self) -> list[float]:
        """log N of every task's unit-noise observations given all the others: what leaving the task out costs.

        Given the others, the observations of task t are Gaussian with precision P_tt, the block of A^-1, and s_t less
        their mean is P_tt^-1 alpha_t.
        """
        P, blocks = linalg.inverse_from_factor(self.L), map(self.prior.design.of, range(len(self.prior.B)))
        return [self._given_others(at, linalg.copy(P[at, at])) for at in blocks]

    def evidence_given(self, t: int) -> float:
        """The same of one task: P_tt from the columns of L^-1 that are the task's, without the rest of A^-1."""
        at, n = self.prior.design.of(t), len(self.prior.task)
        W = linalg.solve_lower(self.L, as_type_of(self.L, np.eye(n, at.stop - at.start, -at.start)))
        return self._given_others(at, W.T @ W)

    def _given_others(self, at: slice, precision: Any) -> float:
        L = linalg.cholesky(precision, overwrite=True)
        half = linalg.solve_lower(L, self.alpha[at])
        return -0.5 * (float(half @ half) - linalg.log_determinant(L) + (at.stop - at.start) * LOG_2PI)

    def sign_products(self) -> Array:
        """(M, M) G such that the evidence is 1/2 e'Ge and a constant where the signs e of tasks' functions are chosen.

        Turning the sign of task t turns the blocks of A that it shares with others: A becomes e A e.
        """
        _, s = unit_noise(as_type_of(self.prior.X, self.sites.nu), as_type_of(self.prior.X, self.sites.tau))
        apart = as_type_of(s, _membership(self.prior.task, to_host(s), len(self.prior.B)))
        half = linalg.solve_lower(self.L, linalg.rows_first(apart.T))
        return to_host(-(half.T @ half))

    def information(self, directions: Array) -> Array:
        """1/2 D'(K + noise)^-1 D, D (n, p) the derivatives of K + noise by p parameters times the coefficients.

        That is the mean of the observed and the expected information where K is linear in the parameters ("average
        information": Gilmour, Thompson & Cullis, Biometrics 1995), for the price of p solutions.
        """
        half = linalg.solve_lower(self.L, self.w[:, None] * directions)
        return to_host(0.5 * (half.T @ half))

    def by_inputs(self) -> Array:
        """The adjoint of k on the distinct inputs, for EM."""
        prior, w = self.prior, self.w
        Q = linalg.gram_minus_inverse(self.alpha[:, None], self.L)
        Q *= 0.5 * w
        Q *= w[:, None]
        Q *= prior.at_tasks(as_type_of(Q, prior.B[prior.task]))
        return prior.design.gather(Q)

    def marginals(self) -> Moments:
        """Posterior mean and variance of the function at every row, where the sites are."""
        K = self.prior.K
        return Moments.beside(self.sites, K @ self.coefficients, marginal_variances(K, self.L, self.w))

    def predict(self, X: Array, task: Codes, full: bool = False) -> Prediction:
        """Functions at new rows (eq. 2)."""
        prior = self.prior
        X = as_type_of(prior.X, X)
        old = prior.kernel(X, prior.inputs)
        cross = (old if prior.index is None else old[:, prior.index]) * prior.at_tasks(as_type_of(X, prior.B[task]))
        B = as_type_of(X, prior.B[task][:, task] if full else np.diagonal(prior.B)[task])
        K = (prior.kernel(X) if full else prior.kernel.diag(X)) * B  # covariance or variances of the new rows
        for t, here in rows_by_task(task) if prior.intercept or prior.specific else ():
            at, own = prior.design.of(t), prior.specific[t] if prior.specific else None
            both: Any = np.ix_(here, here) if full else here
            cross[here, at] += prior.intercept
            K[both] += prior.intercept
            if own is not None:
                cross[here, at] += own(X[here], prior.X[at])
                K[both] += own(X[here]) if full else own.diag(X[here])
        mean = cross @ self.coefficients  # eq. 2
        half = linalg.solve_lower(self.L, linalg.rows_first((cross * self.w).T))
        if full:
            K -= half.T @ half
            return Prediction(to_host(mean), to_host(linalg.diagonal(K).clip(0.0)), to_host(K))
        return Prediction(to_host(mean), to_host((K - linalg.column_dots(half, half)).clip(0.0)))


def gaussian_evidence(A: Array, S: Array, log_tau: float = 0.0) -> tuple[float, Array, Array]:
    """log N of every column of S, or of S alone, at 0 and A, summed; A^-1 S; and the factor of A, which is lost.

    `log_tau` is the log determinant of precisions that the columns were multiplied with the roots of.
    """
    L = linalg.cholesky(A, overwrite=True)
    solved = linalg.solve(L, S)
    each = log_tau - linalg.log_determinant(L) - len(S) * LOG_2PI
    return 0.5 * ((S.shape[1] if S.ndim > 1 else 1) * each - float(linalg.inner(S, solved))), solved, L


def evidence_of_rows(
    kernel: Kernel, X: Array, tau: Array, Y: Array, own: Array | None = None
) -> tuple[float, Array, Array]:
    """log N(Y; 0, K + 1/tau) of every column of Y, summed; by the kernel's theta; and by 1/tau of each row.

    C = K + 1/tau is never formed: with w = sqrt(tau), A = I + w K w and beta = A^-1 w y,
    log N = -1/2 (w y)'beta - 1/2 log|A| + 1/2 sum log tau - n/2 log 2 pi, C^-1 y = w beta, C^-1 = w A^-1 w. So the
    adjoint of K, and on its diagonal that of 1/tau, is 1/2 w (beta beta' - A^-1) w for each column. `own` is multiplied
    with K: 1 where two rows are of one task, 0 elsewhere; None for 1 everywhere.
    """
    K, pullback = kernel.evaluate(X)
    w, k = namespace(K).sqrt(as_type_of(K, tau)), Y.shape[1]
    scale = w * w[:, None] if own is None else as_type_of(K, own) * w * w[:, None]
    A = K * scale
    linalg.add_diagonal(A, 1.0)
    value, beta, L = gaussian_evidence(A, w[:, None] * as_type_of(K, Y), float(np.log(tau).sum()))
    bK = 0.5 * k * linalg.gram_minus_inverse(beta / k**0.5, L) * scale
    return value, pullback(bK).theta, to_host(linalg.diagonal(bK))


def _membership(task: Codes, w: Array, M: int) -> Array:
    """(M, n), the weight of a row at its task."""
    E = np.zeros((M, len(task)))
    E[task, np.arange(len(task))] = w
    return E
