"""Tasks that are independent given a few shared functions: the focused blocks (seed 000, eqs. 4-9).

Task t at its rows is  f_t = sum_q R[t, q] h_q + e_t.  Each shared function h_q ~ GP(0, k) is carried by whitened
values u_q ~ N(0, I) at inducing inputs Z:  h_q(X) = V u_q + residual,  V = k(X, Z) L^-T,  L = chol k(Z, Z). So

    f_t = G_t u + e_t,    G_t = [R[t, q] V_t]_q,    cov e_t = E_t = sum_q R[t, q]^2 diag(k(x, x) - v'v) + K_t^spec.

A site is a unit-noise observation s = w f + noise with w = sqrt(tau), s = nu / w: nothing is divided by tau, which EP
sends to 1e-13. With A_t = I + w E_t w, W_t = chol(A_t)^-1 w G_t, r_t = chol(A_t)^-1 s_t,

    B = I + sum W'W,  b = sum W'r,  u | sites ~ N(a, P),  P = B^-1,  a = P b,
    evidence = log N(s; 0, I + w K w) = -1/2 (|r - W a|^2 + |a|^2) - 1/2 sum log|A_t| - 1/2 log|B| - n/2 log 2 pi.

Adjoints (Fisher's identity, expectations over u given the sites): with H = A^-1 w G, alpha = A^-1 (s - w G a),

    bG = w (alpha a' - H P),     bE_t = w 1/2 (alpha alpha' + H P H' - A^-1) w.

V turns with the square root of k(Z, Z) that is chosen and the evidence does not, hence b k(Z, Z) =
-1/2 L^-T (sum V'bV) L^-1, and the part of V'bV that comes from G is (a a' + P - I) for each function, whatever the
number of tasks. Cost: sum_t (n_t^3 + n_t^2 m + n_t m^2) + m^3, linear in the number of tasks; no joint matrix.

All of it is written as two passes over the tasks (`two_pass`). On a device tasks of about one size are one block
(`layout`); what is returned is on the host, but marginals are where the sites came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from borrow.covariance import layout as layouts
from borrow.covariance.contracts import AnySites, Codes, Moments, rows_by_task
from borrow.covariance.inducing import LOG_2PI, Basis, CarriedRows, InducingBasis, marginal_variances, unit_noise
from borrow.covariance.layout import DenseFactor, DiagonalFactor
from borrow.covariance.two_pass import Shared, TwoPassCovariance, TwoPassPosterior, columns_of
from borrow.kernels import Kernel
from borrow.kernels.compose import TaskKernels
from borrow.numerics import linalg
from borrow.numerics.linalg import Array, as_type_of, namespace, to_host
from borrow.numerics.stored import stored
from borrow.tasks.contracts import Shard, Tasks


class ShardPrior:
    """The prior of a shard's tasks at their rows. Arrays with one row per row of X are in the order of `layout`."""

    def __init__(self, parameters: SharedParameters, shard: Shard) -> None:
        self.starts = starts = shard.cells.starts
        self.basis_of, self.weights = parameters.basis_of, parameters.weights
        self.columns = columns_of(parameters.carriers, self.basis_of)
        self.specific = parameters.specific
        forms = layouts.forms_of(self.specific, shard.batched)
        self.layout = shard.made_once(str(forms), lambda: layouts.by_size(starts, forms)).placed(shard.put)
        X = self.X = self.layout.rows_at_places(shard.X)
        self.carriers = [c.on(shard.device) for c in parameters.carriers]
        self.carried = [CarriedRows(c, X) for c in self.carriers]
        self.G = self.loadings([c.V for c in self.carried], None)
        self.residual = namespace(X).zeros_like(X[:, 0])
        for q, b in enumerate(self.basis_of):
            self.residual += self.layout.of_tasks(self.weights[:, q] ** 2) * self.carried[b].residual
        own = [self._own(b) for b in self.layout.blocks]
        self.K_specific = [None if o is None else o[0] for o in own]
        self.back_specific = [None if o is None else o[1] for o in own]

    def _own(self, block: layouts.Block) -> Any:
        """The own kernels of a block's tasks, with the way back; None where there is none, or no row."""
        X = block.of(self.X)
        if block.size is not None:
            return TaskKernels.of(self.specific).stacked(block.tasks, X).evaluate(X)
        kernel = self.specific[block.tasks[0]]
        return kernel.evaluate(X) if kernel is not None and len(X) else None

    def loadings(self, V: list[Array], task: Codes | None) -> Array:
        """R[t, q] V at rows of these tasks; None: at all rows."""
        at_rows = self.layout.of_tasks if task is None else lambda v: as_type_of(self.X, v[task])
        parts = [V[b] * at_rows(self.weights[:, q])[:, None] for q, b in enumerate(self.basis_of)]
        none = np.zeros((len(self.X) if task is None else len(task), 0))
        return namespace(self.X).concatenate([as_type_of(self.X, none), *parts], axis=1)


class FirstPass:
    """The factors of a shard's tasks given its sites, and what these tell of the shared functions."""

    def __init__(self, prior: ShardPrior, sites: AnySites) -> None:
        self.prior, self.sites = prior, sites
        at_places, blocks = prior.layout.at_places, prior.layout.blocks
        self.w, s = unit_noise(at_places(sites.nu), at_places(sites.tau))
        w, e = self.w, prior.residual
        W, r = prior.G * w[:, None], s + 0.0
        self.factors: list[Any] = []  # of each block: dense, or diagonal
        for block, K in zip(blocks, prior.K_specific, strict=True):
            near = block.of(e), block.of(w)
            factor = DiagonalFactor.of(e[block.at], w[block.at]) if K is None else DenseFactor.of(K, *near)
            self.factors.append(factor)
            block.put(W, factor.half(block.of(W)))
            block.put(r, factor.half(block.of(r)))
        self.W, self.r = W, r

    def sums(self) -> tuple[Array, Array]:
        """What these tasks add to B and b: the only thing that tasks elsewhere need to know of them."""
        return self.W.T @ self.W, self.W.T @ self.r

    def factor_of(self, t: int) -> Any:
        """The factor of one task; None where it has no row and no block."""
        layout = self.prior.layout
        if layout.index is None:
            return self.factors[t]
        at = layout.rows(t)
        for block, factor in zip(layout.blocks, self.factors, strict=True):
            if t in block.tasks:
                i = None if block.size is None else block.tasks.index(t)
                return factor.only(i, slice(at.start - block.at.start, at.stop - block.at.start))
        return None


class SecondPass:
    """The posterior of a shard's tasks given the shared functions."""

    def __init__(self, first: FirstPass, shared: Shared) -> None:
        self.first, self.prior = first, first.prior
        shared = shared.beside(self.prior.X)
        self.LB, self.a = shared.LB, shared.a
        misfit = first.r - first.W @ self.a
        self.terms = float(misfit @ misfit), sum(f.log_determinant() for f in first.factors)
        self.alpha = namespace(first.r).empty_like(first.r)  # A^-1 (s - w G a)
        for block, factor in zip(self.prior.layout.blocks, first.factors, strict=True):
            block.put(self.alpha, factor.half_transposed(block.of(misfit)))

    @cached_property
    def H(self) -> Array:
        """A^-1 w G: how the rows of every task answer to the shared functions, for adjoints and predictions."""
        W = self.first.W
        H = namespace(W).empty_like(W)
        for block, factor in zip(self.prior.layout.blocks, self.first.factors, strict=True):
            block.put(H, factor.half_transposed(block.of(W)))
        return H

    def coefficients(self) -> tuple[Array]:
        """w alpha of every row, on the host."""
        return (to_host(self.prior.layout.collect(self.first.w * self.alpha)),)

    def task_terms(self) -> tuple[Array]:
        """b_t of every task, one per row."""
        W, r = self.first.W, self.first.r
        each = [W[at].T @ r[at] for at in map(self.prior.layout.rows, range(len(self.prior.starts) - 1))]
        return (to_host(namespace(W).stack(each)),)

    def without(self, t: int) -> tuple[Array, Array]:
        """The shared functions' posterior given the other tasks: the factor of B - W_t'W_t and the mean of u."""
        at = self.prior.layout.rows(t)
        W, r = self.first.W[at], self.first.r[at]
        L = linalg.cholesky(self.LB @ self.LB.T - W.T @ W, overwrite=True)
        return L, linalg.solve(L, self.LB @ (self.LB.T @ self.a) - W.T @ r)

    def evidence_given_others(self, only: int | None = None) -> tuple[list[float]]:
        """log N of each task's unit-noise observations given all the others; or of one task's.

        With a', B' of the others: r_t given them is N(W a', I + W B'^-1 W'), and |I + W B'^-1 W'| = |B| / |B'|.
        """
        found = []
        for t in range(len(self.prior.starts) - 1) if only is None else (only,):
            at, factor = self.prior.layout.rows(t), self.first.factor_of(t)
            W, r = self.first.W[at], self.first.r[at]
            L, a = self.without(t)
            misfit = r - W @ a
            half = linalg.solve_lower(self.LB, W.T @ misfit)
            own = 0.0 if factor is None else factor.log_determinant()
            logdet = linalg.log_determinant(self.LB) - linalg.log_determinant(L) + own
            found.append(-0.5 * float(misfit @ misfit - half @ half + logdet + len(r) * LOG_2PI))
        return (found,)

    def evidence_alone(self) -> tuple[Array]:
        """log N of each task's unit-noise observations, where no function is shared and every task has a kernel."""
        starts, r = self.prior.starts, to_host(self.prior.layout.collect(self.first.r))
        found = np.diff(starts) * LOG_2PI + np.add.reduceat(r * r, starts[:-1])
        for block, factor in zip(self.prior.layout.blocks, self.first.factors, strict=True):
            found[list(block.tasks)] += factor.log_determinants()
        return (-0.5 * found,)

    def adjoints(self, inducing: bool) -> tuple[Any, ...]:
        """By sites, weights, own kernels and no intercept; then theta, V'bV, Z of every basis, less the shared part."""
        prior, w, xp = self.prior, self.first.w, namespace(self.first.w)
        R = linalg.right_solve_transposed(self.H, self.LB)
        noise = xp.empty_like(w)
        specific: list[Array | None] = [None] * len(prior.specific)
        for t in np.flatnonzero(np.diff(prior.starts) == 0).tolist():
            kernel = prior.specific[t]
            specific[t] = None if kernel is None else np.zeros(kernel.n_theta)
        for block, factor, back in zip(prior.layout.blocks, self.first.factors, prior.back_specific, strict=True):
            wb = block.of(w)
            M = factor.adjoint(block.of(R), block.of(self.alpha))
            M *= 0.5
            if back is None:
                block.put(noise, M * wb**2)
                continue
            M *= wb[..., None, :]
            M *= wb[..., None]
            block.put(noise, linalg.diagonal(M))
            theta = back(M).theta
            for t, own in zip(block.tasks, [theta] if block.size is None else theta, strict=True):
                specific[t] = own
        bG = linalg.right_solve(R, self.LB)  # H P
        del R
        bG = xp.subtract(self.alpha[:, None] * self.a, bG, out=bG)
        bG *= w[:, None]
        by_sites = self.first.sites.by_parameters(to_host(prior.layout.collect(noise)))
        weights, bases = self._adjoints_of_functions(bG, noise, inducing)
        return [by_sites], [weights], specific, 0.0, *(v for basis in bases for v in basis)

    def _adjoints_of_functions(self, bG: Array, noise: Array, inducing: bool) -> tuple[Array, list[Any]]:
        """To the weights, and to each basis through all functions that it carries; overwrites bG."""
        prior = self.prior
        weights = np.zeros_like(prior.weights)
        filled = np.flatnonzero(np.diff(prior.starts))  # reduceat would repeat a row for an empty task
        starts = prior.starts[:-1][filled]
        pulled = []
        for b, c in enumerate(prior.carried):
            bV: Array | None = None
            bresidual = noise * 0.0
            for q in (q for q, other in enumerate(prior.basis_of) if other == b):
                part, at_row = bG[:, prior.columns[q]], prior.layout.of_tasks(prior.weights[:, q])
                by_row = linalg.row_dots(part, c.V) + 2.0 * at_row * c.residual * noise
                on_host = to_host(prior.layout.collect(by_row))
                weights[filled, q] = np.add.reduceat(on_host, starts) if len(filled) else 0.0
                part *= at_row[:, None]
                bV = part if bV is None else bV + part
                bresidual += at_row**2 * noise
            if bV is None:  # a basis that carries no function
                bV = c.V * 0.0
            pulled.append(c.pullback(bV, bresidual, inducing))
        return weights, pulled

    def marginals(self) -> Moments:
        """Posterior mean and variance of the function at every row."""
        prior, w, e = self.prior, self.first.w, self.prior.residual
        mean, variance = prior.G @ self.a, namespace(w).empty_like(w)
        J = linalg.copy(prior.G)
        for block, factor, K in zip(prior.layout.blocks, self.first.factors, prior.K_specific, strict=True):
            at, wb = block.at, block.of(w)
            if K is None:
                gain = e[at] * w[at]
                mean[at] += gain * self.alpha[at]
                variance[at] = e[at] / factor.root**2
                J[at] -= gain[:, None] * self.H[at]
                continue
            eb, known = block.of(e), wb * block.of(self.alpha)
            mean[at] += ((K @ known[..., None])[..., 0] + eb * known).reshape(-1)
            block.put(variance, marginal_variances(K, factor.L, wb, eb))
            if J.shape[1]:
                wH = wb[..., None] * block.of(self.H)
                block.put(J, block.of(J) - K @ wH - eb[..., None] * wH)
        J = linalg.right_solve_transposed(J, self.LB)
        variance += linalg.row_dots(J, J)
        return Moments.beside(self.first.sites, *map(prior.layout.collect, (mean, variance)))

    def at_new(self, X: Array, task: Codes, full: bool) -> tuple[Array, ...]:
        """Mean and variance of the functions at new rows (eq. 7).

        If `full`: the mean; J, whose J J' is the covariance that the shared functions leave; that of the tasks' own
        parts.
        """
        prior, w = self.prior, self.first.w
        X = as_type_of(prior.X, X)
        carried = [CarriedRows(c, X) for c in prior.carriers]
        J = prior.loadings([c.V for c in carried], task)
        mean = J @ self.a
        own = mean * 0.0
        for q, b in enumerate(prior.basis_of):
            own += as_type_of(X, prior.weights[task, q] ** 2) * carried[b].residual
        own = namespace(X).diag(own) if full else own
        for t, new in rows_by_task(task):
            kernel = prior.specific[t]
            if kernel is None:
                continue
            old, factor = prior.layout.rows(t), self.first.factor_of(t)
            left = kernel(X[new]) if full else kernel.diag(X[new])
            if factor is not None:
                cross = kernel(X[new], prior.X[old]) * w[old]
                mean[new] += cross @ self.alpha[old]
                J[new] -= cross @ self.H[old]
                half = factor.half(linalg.rows_first(cross.T))
                left = left - (half.T @ half if full else linalg.column_dots(half, half))
            own[np.ix_(new, new) if full else new] += left
        J = linalg.right_solve_transposed(J, self.LB)
        return (mean, J, own) if full else (mean, (own + linalg.row_dots(J, J)).clip(0.0))


@stored("shared-parameters")
@dataclass(frozen=True)
class SharedParameters:
    """What the prior is built from besides the rows.

    `carriers[basis_of[q]]` carries the shared function q, `weights[t, q]` is R. `specific[t]` is a kernel or None.
    """

    prior: ClassVar = ShardPrior
    first: ClassVar = FirstPass
    second: ClassVar = SecondPass

    carriers: list[InducingBasis]
    basis_of: list[int]
    weights: Array
    specific: Sequence[Kernel | None]

    def part(self, tasks: slice) -> SharedParameters:
        """Those of some tasks."""
        return replace(self, weights=self.weights[tasks], specific=self.specific[tasks])


@stored("shared-covariance", state="tasks parameters jitter")
class SharedCovariance(TwoPassCovariance):
    """The prior over all tasks' functions, evaluated once for a set of hyper-parameters.

    `bases[basis_of[q]]` carries the shared function q, `weights[t, q]` is R. `specific[t]` is a kernel or None.
    """

    parameters: SharedParameters

    def __init__(
        self,
        tasks: Tasks[Shard],
        bases: Sequence[Basis],
        basis_of: list[int],
        weights: Array,
        specific: Sequence[Kernel | None],
    ) -> None:
        carriers = [InducingBasis(b, tasks.device) for b in bases]
        super().__init__(tasks, SharedParameters(carriers, basis_of, weights, specific))

    def condition(self, sites: AnySites) -> SharedPosterior:
        """Condition on sites N(f; nu/tau, 1/tau)."""
        return SharedPosterior(self, sites)


@stored("shared-posterior", state="prior sites shared")
class SharedPosterior(TwoPassPosterior):
    """The posterior of all functions given the sites, with evidence, prediction and adjoints."""

    prior: SharedCovariance

    @property
    def coefficients(self) -> Array:
        """w alpha of every row, on the host: what a covariance with the rows is multiplied with."""
        return np.concatenate([part for (part,) in self._ask("coefficients")])

    def sign_products(self) -> Array:
        """(M, M) G such that the evidence is 1/2 e'Ge and a constant where the signs e of tasks' weights are chosen.

        Flipping the sign of task t flips b_t and leaves B alone: G[t, t'] = b_t' B^-1 b_t'.
        """
        terms = np.concatenate([part for (part,) in self._ask("task_terms")])
        half = linalg.solve_lower(to_host(self.shared.LB), np.ascontiguousarray(terms.T))
        return half.T @ half

    @cached_property
    def evidence_given_others(self) -> list[float]:
        """log N of every task's unit-noise observations given all the others: what leaving the task out costs."""
        return [value for (part,) in self._ask("evidence_given_others") for value in part]

    def evidence_given(self, t: int) -> float:
        """That of one task, alone where all tasks are in one place."""
        if len(self.prior.tasks.bounds) > 1:
            return self.evidence_given_others[t]
        (((value,),),) = self._ask("evidence_given_others", t)
        return float(value)

    @cached_property
    def evidence_alone(self) -> Array:
        """The evidence of each task's unit-noise observations, where nothing is shared and no task is without rows."""
        return np.concatenate([part for (part,) in self._ask("evidence_alone")])
