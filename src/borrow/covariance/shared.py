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

Inputs that are a tensor put all of it on its device, with tasks of about one size as one block (`layout`); what is
returned is on the host, but marginals are where the sites came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from borrow.covariance import layout as layouts
from borrow.covariance.carrier import (
    LOG_2PI,
    Basis,
    Prediction,
    _Carrier,
    _Forgetful,
    build_there,
    marginal_variances,
    unit_noise,
)
from borrow.covariance.factors import DenseFactor, DiagonalFactor
from borrow.kernels import Kernel
from borrow.kernels.compose import TaskKernels
from borrow.numerics import linalg
from borrow.numerics.device import Device
from borrow.numerics.linalg import Array, is_tensor, like, namespace, to_host


class Adjoints(NamedTuple):
    """Derivatives of the evidence. `noise` is by 1/tau of each row; `specific[t]` is None where there is no kernel."""

    weights: Array
    bases: list[Array]
    inducing: list[Array | None]
    specific: list[Array | None]
    noise: Array


class SharedCovariance(_Forgetful):
    """The prior over all tasks' functions, evaluated once for a set of hyper-parameters.

    X: rows of all tasks, stacked by task; `starts[t]:starts[t+1]` are the rows of task t. `bases[basis_of[q]]` carries
    the shared function q, `weights[t, q]` is R. `specific[t]` is a kernel or None. `jitter` is the least relative
    jitter of k(Z, Z); what was needed is in `jitter` afterwards. Arrays with one row for each row of X are in the
    order of `layout`, which on the host is that of X.
    """

    def __init__(
        self,
        X: Array,
        starts: npt.NDArray[np.intp],
        bases: list[Basis],
        basis_of: list[int],
        weights: Array,
        specific: Sequence[Kernel | None],
        jitter: float = 0.0,
    ) -> None:
        self.starts, self.basis_of, self.weights = starts, basis_of, weights
        self._given, self._least = X, jitter
        self.specific: Sequence[Kernel | None] = TaskKernels.of(specific) if is_tensor(X) else specific
        if isinstance(self.specific, TaskKernels):
            self.layout = layouts.by_size(starts, self.specific.forms(), X)
        else:
            self.layout = layouts.by_task(starts)
        self.X: Any = X if self.layout.index is None else X[self.layout.index]
        X = self.X
        self.task = self.layout.task
        self.carriers = [_Carrier(b, X, jitter) for b in bases]
        self.jitter = max([c.jitter for c in self.carriers], default=jitter)
        widths = [self.carriers[b].V.shape[1] for b in basis_of]
        ends = np.cumsum([0, *widths])
        self.columns = [slice(int(i), int(j)) for i, j in pairwise(ends)]
        self.G = self._loadings([c.V for c in self.carriers], None)
        self.residual = X[:, 0] * 0.0 if is_tensor(X) else np.zeros(len(X))
        for q, b in enumerate(basis_of):
            self.residual += self.layout.of_tasks(weights[:, q] ** 2, X) * self.carriers[b].residual
        own = [self._own(b) for b in self.layout.blocks]
        self.K_specific = [None if o is None else o[0] for o in own]
        self._back_specific = [None if o is None else o[1] for o in own]

    def rows(self, t: int) -> slice:
        """Rows of task t."""
        return self.layout.rows(t)

    def _own(self, block: layouts.Block) -> Any:
        """The own kernels of a block's tasks, with the way back; None where there is none, or no row."""
        X = block.of(self.X)
        if block.size is not None:
            assert isinstance(self.specific, TaskKernels)  # on a device
            return self.specific.stacked(block.tasks, X).evaluate(X)
        kernel = self.specific[block.tasks[0]]
        return kernel.evaluate(X) if kernel is not None and len(X) else None

    def _loadings(self, V: list[Array], task: npt.NDArray[np.intp] | None) -> Array:
        """R[t, q] V at rows of these tasks; None: at all rows."""
        m = self.columns[-1].stop if self.columns else 0
        if is_tensor(self.X):
            at_rows = partial(self.layout.of_tasks, X=self.X) if task is None else lambda v: like(self.X, v[task])
            parts = [V[b] * at_rows(self.weights[:, q])[:, None] for q, b in enumerate(self.basis_of)]
            n = len(self.X) if task is None else len(task)
            return namespace(self.X).concatenate(parts, axis=1) if parts else self.X.new_zeros((n, 0))
        task = self.task if task is None else task
        G = np.empty((len(task), m))
        for q, b in enumerate(self.basis_of):
            np.multiply(V[b], self.weights[task, q][:, None], out=G[:, self.columns[q]])
        return G

    def condition(self, nu: Array, tau: Array) -> SharedPosterior:
        """Condition on sites N(f; nu/tau, 1/tau)."""
        return SharedPosterior(self, nu, tau)

    def _again(self) -> Any:
        if not is_tensor(self.X):
            return None
        bases = [c.basis for c in self.carriers]
        made = (self.starts, bases, self.basis_of, self.weights, list(self.specific), self._least)
        return build_there, (SharedCovariance, Device(str(self.X.device)), to_host(self._given), *made)


def posterior_of_shared(sums: tuple[Array, Array]) -> tuple[Array, Array]:
    """The factor of B = I + sum W'W, and a = B^-1 b, from the sums over all tasks."""
    B, b = sums[0] + 0.0, sums[1]
    linalg.add_diagonal(B, 1.0)
    LB = linalg.cholesky(B, overwrite=True)
    return LB, linalg.solve(LB, b)


class SharedPosterior(_Forgetful):
    """The posterior of all functions given the sites, with evidence, prediction and adjoints."""

    def __init__(self, prior: SharedCovariance, nu: Array, tau: Array, alone: bool = True) -> None:
        self.prior, self.sites = prior, (nu, tau)
        spread, blocks = prior.layout.spread, prior.layout.blocks
        self.w, s = unit_noise(spread(nu, prior.X), spread(tau, prior.X))
        w, e = self.w, prior.residual
        W, r = prior.G * w[:, None], s + 0.0
        self.factors: list[DenseFactor | DiagonalFactor] = []
        for block, K in zip(blocks, prior.K_specific, strict=True):
            factor = DiagonalFactor(e[block.at], w[block.at]) if K is None else DenseFactor(K, block.of(e), block.of(w))
            self.factors.append(factor)
            block.put(W, factor.half(block.of(W)))
            block.put(r, factor.half(block.of(r)))
        self.W, self.r = W, r
        if alone:
            self.given(*posterior_of_shared(self.sums()))

    def sums(self) -> tuple[Array, Array]:
        """What these tasks add to B and b: the only thing that tasks elsewhere need to know of them."""
        return self.W.T @ self.W, self.W.T @ self.r

    def given(self, LB: Array, a: Array, lead: bool = True) -> None:
        """Go on with B and b of all tasks, these and others. What is shared counts once, where `lead` is."""
        self.LB, self.a, self.lead = LB, a, lead
        self.__dict__.pop("H", None)
        r, misfit = self.r, self.r - self.W @ a
        self.log_determinant = sum(f.log_determinant() for f in self.factors) + lead * linalg.log_determinant(LB)
        quadratic = float(misfit @ misfit + float(lead) * (a @ a))
        self.evidence = -0.5 * (quadratic + self.log_determinant + len(self.sites[0]) * LOG_2PI)
        self.alpha = namespace(r).empty_like(r)  # A^-1 (s - w G a)
        for block, factor in zip(self.prior.layout.blocks, self.factors, strict=True):
            block.put(self.alpha, factor.half_transposed(block.of(misfit)))

    def _again(self) -> Any:
        made = (self.prior, *map(to_host, self.sites))
        return (SharedPosterior, made) if is_tensor(self.prior.X) else None

    @cached_property
    def H(self) -> Array:
        """A^-1 w G."""
        H = namespace(self.W).empty_like(self.W)
        for block, factor in zip(self.prior.layout.blocks, self.factors, strict=True):
            block.put(H, factor.half_transposed(block.of(self.W)))
        return H

    @cached_property
    def coefficients(self) -> Array:
        """w alpha, in the order of the rows, on the host: what a covariance with the rows is multiplied with."""
        return to_host(self.prior.layout.collect(self.w * self.alpha))

    def factor_of(self, t: int) -> Any:
        """The factor of one task; None where it has no row and no block."""
        at = self.prior.rows(t)
        if at.start == at.stop or self.prior.layout.index is None:
            return self.factors[t] if self.prior.layout.index is None else None
        b, i = self.prior.layout.place_of(t)
        factor = self.factors[b]
        if isinstance(factor, DenseFactor):
            return factor.only(i, at.stop - at.start)
        begin = at.start - self.prior.layout.blocks[b].at.start
        one = object.__new__(DiagonalFactor)
        one.root = factor.root[begin : begin + at.stop - at.start]
        return one

    def task_terms(self) -> Array:
        """b_t of every task, one a row: flipping the sign of task t's weights flips its row and leaves B alone."""
        each = [self.W[at].T @ self.r[at] for at in map(self.prior.rows, range(len(self.prior.specific)))]
        return to_host(namespace(self.W).stack(each))

    def at(self, t: int) -> tuple[SharedPosterior, int]:
        """Who knows task t, and its code there."""
        return self, t

    def without(self, t: int) -> tuple[Array, Array]:
        """The shared functions' posterior given the other tasks: the factor of B - W_t'W_t and the mean of u."""
        W, r = self.W[self.prior.rows(t)], self.r[self.prior.rows(t)]
        L = linalg.cholesky(self.LB @ self.LB.T - W.T @ W, overwrite=True)
        return L, linalg.solve(L, self.LB @ (self.LB.T @ self.a) - W.T @ r)

    def evidence_given_others(self, t: int) -> float:
        """log N of task t's unit-noise observations given all the others: what leaving the task out costs.

        With a', B' of the others: r_t given them is N(W a', I + W B'^-1 W'), and |I + W B'^-1 W'| = |B| / |B'|.
        """
        W, r, factor = self.W[self.prior.rows(t)], self.r[self.prior.rows(t)], self.factor_of(t)
        L, a = self.without(t)
        misfit = r - W @ a
        half = linalg.solve_lower(self.LB, W.T @ misfit)
        own = 0.0 if factor is None else factor.log_determinant()
        logdet = linalg.log_determinant(self.LB) - linalg.log_determinant(L) + own
        return -0.5 * float(misfit @ misfit - half @ half + logdet + len(r) * LOG_2PI)

    def adjoints(self, inducing: bool = False) -> Adjoints:
        """Derivatives of the evidence by everything that the prior was built from, and by the noise of each row."""
        prior, w, xp = self.prior, self.w, namespace(self.w)
        R = linalg.right_solve_transposed(self.H, self.LB)
        noise = xp.empty_like(w)
        specific: list[Array | None] = [None] * len(prior.specific)
        for t in np.flatnonzero(np.diff(prior.starts) == 0).tolist():
            kernel = prior.specific[t]
            specific[t] = None if kernel is None else np.zeros(kernel.n_theta)
        for block, factor, back in zip(prior.layout.blocks, self.factors, prior._back_specific, strict=True):
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
        outer = self.alpha[:, None] * self.a
        bG = xp.subtract(outer, bG, out=bG)
        bG *= w[:, None]
        weights, bases, by_Z = self._adjoints_of_functions(bG, noise, inducing)
        return Adjoints(weights, bases, by_Z, specific, to_host(prior.layout.collect(noise)))

    def _adjoints_of_functions(
        self, bG: Array, noise: Array, inducing: bool
    ) -> tuple[Array, list[Array], list[Array | None]]:
        """To the weights, and to each basis through all functions that it carries; overwrites bG."""
        prior = self.prior
        aaP = self.a[:, None] * self.a + linalg.inverse_from_factor(self.LB)
        linalg.add_diagonal(aaP, -1.0)
        aaP *= float(self.lead)
        weights = np.zeros_like(prior.weights)
        filled = np.flatnonzero(np.diff(prior.starts))  # reduceat would repeat a row for an empty task
        starts = prior.starts[:-1][filled]
        pulled = []
        for b, c in enumerate(prior.carriers):
            bV: Array | None = None
            bresidual, S = noise * 0.0, c.L * 0.0
            for q in (q for q, other in enumerate(prior.basis_of) if other == b):
                part, at_row = bG[:, prior.columns[q]], prior.layout.of_tasks(prior.weights[:, q], bG)
                by_row = linalg.row_dots(part, c.V) + 2.0 * at_row * c.residual * noise
                on_host = to_host(prior.layout.collect(by_row))
                weights[filled, q] = np.add.reduceat(on_host, starts) if len(filled) else 0.0
                part *= at_row[:, None]
                bV = part if bV is None else bV + part
                bresidual += at_row**2 * noise
                S += aaP[prior.columns[q], prior.columns[q]]
            if bV is None:  # a basis that carries no function
                bV = c.V * 0.0
            pulled.append(c.pullback(bV, bresidual, S, inducing))
        return weights, [g for g, _ in pulled], [z for _, z in pulled]

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every row."""
        prior, w, e = self.prior, self.w, self.prior.residual
        mean, variance = prior.G @ self.a, namespace(w).empty_like(w)
        J = linalg.copy(prior.G)
        for block, factor, K in zip(prior.layout.blocks, self.factors, prior.K_specific, strict=True):
            at, wb = block.at, block.of(w)
            if K is None:
                gain = e[at] * w[at]
                mean[at] += gain * self.alpha[at]
                variance[at] = e[at] / factor.root**2  # type: ignore[union-attr]
                J[at] -= gain[:, None] * self.H[at]
                continue
            eb, known = block.of(e), wb * block.of(self.alpha)
            mean[at] += ((K @ known[..., None])[..., 0] + eb * known).reshape(-1)
            block.put(variance, marginal_variances(K, factor.L, wb, eb))  # type: ignore[union-attr]
            if J.shape[1]:
                wH = wb[..., None] * block.of(self.H)
                block.put(J, block.of(J) - K @ wH - eb[..., None] * wH)
        J = linalg.right_solve_transposed(J, self.LB)
        collect = prior.layout.collect
        found = collect(mean), collect(variance + linalg.row_dots(J, J))
        return found if is_tensor(self.sites[0]) else (to_host(found[0]), to_host(found[1]))

    def predict(self, X: Array, task: npt.NDArray[np.intp], full: bool = False) -> Prediction:
        """Functions at new rows. A shared function's residual at a new input is independent of the rest (eq. 7)."""
        prior = self.prior
        X = like(prior.X, X)
        at_new = [c.at(X) for c in prior.carriers]
        J = prior._loadings([V for V, _ in at_new], task)
        mean = J @ self.a
        variance = mean * 0.0
        for q, b in enumerate(prior.basis_of):
            variance += like(X, prior.weights[task, q] ** 2) * at_new[b][1]
        blocks = namespace(X).diag(variance) if full else None
        for t in np.unique(task):
            kernel = prior.specific[t]
            if kernel is None:
                continue
            new, old, factor = np.flatnonzero(task == t), prior.rows(int(t)), self.factor_of(int(t))
            half = None
            if factor is not None:
                cross = kernel(X[new], prior.X[old]) * self.w[old]
                mean[new] += cross @ self.alpha[old]
                J[new] -= cross @ self.H[old]
                half = factor.half(linalg.rows_first(cross.T))
            if blocks is None:
                variance[new] += kernel.diag(X[new]) - (0.0 if half is None else linalg.column_dots(half, half))
            else:
                blocks[np.ix_(new, new)] += kernel(X[new]) - (0.0 if half is None else half.T @ half)
        J = linalg.right_solve_transposed(J, self.LB)
        if blocks is None:
            return Prediction(to_host(mean), to_host((variance + linalg.row_dots(J, J)).clip(0.0)))
        blocks += J @ J.T
        return Prediction(to_host(mean), to_host(linalg.diagonal(blocks).clip(0.0)), to_host(blocks))
