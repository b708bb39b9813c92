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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from borrow import linalg
from borrow.kernels import Kernel
from borrow.linalg import Array

LOG_2PI = float(np.log(2.0 * np.pi))


class Basis(NamedTuple):
    """A kernel and the inducing inputs that carry functions drawn from it."""

    kernel: Kernel
    Z: Array


class Adjoints(NamedTuple):
    """Derivatives of the evidence. `noise` is by 1/tau of each row; `specific[t]` is None where there is no kernel."""

    weights: Array
    bases: list[Array]
    inducing: list[Array | None]
    specific: list[Array | None]
    noise: Array


class _Forgetful:
    """Pull-backs are closures: they serve the fit and stay behind when the object is pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_back")}


class _Carrier(_Forgetful):
    """A basis evaluated at all rows: V, the residual variances, and the way back to its parameters."""

    def __init__(self, basis: Basis, X: Array, jitter: float) -> None:
        self.basis = basis
        Kzz, self._back_zz = basis.kernel.evaluate(basis.Z)
        self.L, self.jitter = linalg.cholesky_jittered(Kzz, jitter)
        self.V, self.residual, self._back_xz, self._back_diag = self._at(X)

    def _at(self, X: Array) -> tuple:
        Kxz, back_xz = self.basis.kernel.evaluate(X, self.basis.Z)
        V = linalg.right_solve_transposed(Kxz, self.L)
        kxx, back_diag = self.basis.kernel.evaluate_diag(X)
        return V, np.maximum(kxx - np.einsum("ij,ij->i", V, V), 0.0), back_xz, back_diag

    def at(self, X: Array) -> tuple[Array, Array]:
        """V and residual variances at other inputs."""
        return self._at(X)[:2]

    def pullback(self, bG: Array, bresidual: Array, S: Array, inputs: bool) -> tuple[Array, Array | None]:
        """To the kernel's parameters (and Z). bG is the adjoint of V through G, S its product V'bG in closed form."""
        S = S - 2.0 * (self.V.T @ (bresidual[:, None] * self.V))
        bV = bG
        bV -= (2.0 * bresidual)[:, None] * self.V
        bKzz = -0.5 * linalg.right_solve(linalg.solve_lower_transposed(self.L, S), self.L)
        xz = self._back_xz(linalg.right_solve(bV, self.L), inputs)
        zz = self._back_zz(0.5 * (bKzz + bKzz.T), inputs)
        theta = xz.theta + zz.theta + self._back_diag(bresidual).theta
        return theta, xz.Z + zz.X if inputs else None


class _Dense:
    """chol(A) of a task with its own kernel."""

    def __init__(self, E: Array, w: Array) -> None:
        A = E * w
        A *= w[:, None]
        A.flat[:: len(A) + 1] += 1.0
        self.L = linalg.cholesky(A, overwrite=True)

    def half(self, B: Array) -> Array:
        return linalg.solve_lower(self.L, B)

    def half_transposed(self, B: Array) -> Array:
        return linalg.solve_lower_transposed(self.L, B)

    def log_determinant(self) -> float:
        return linalg.log_determinant(self.L)

    def adjoint(self, R: Array, alpha: Array) -> Array:
        """alpha alpha' + R R' - A^-1."""
        return linalg.gram_minus_inverse(np.hstack([R, alpha[:, None]]), self.L)


class _Diagonal:
    """The same for a task whose residual covariance is diagonal (the primary)."""

    def __init__(self, e: Array, w: Array) -> None:
        self.root = np.sqrt(1.0 + w * w * e)

    def half(self, B: Array) -> Array:
        return (B.T / self.root).T

    half_transposed = half

    def log_determinant(self) -> float:
        return 2.0 * float(np.log(self.root).sum())

    def adjoint(self, R: Array, alpha: Array) -> Array:
        return np.einsum("ij,ij->i", R, R) + alpha * alpha - self.root**-2


class SharedCovariance(_Forgetful):
    """The prior over all tasks' functions, evaluated once for a set of hyper-parameters.

    X: rows of all tasks, stacked by task; `starts[t]:starts[t+1]` are the rows of task t. `bases[basis_of[q]]` carries
    the shared function q, `weights[t, q]` is R. `specific[t]` is a kernel or None. `jitter` is the least relative
    jitter of k(Z, Z); what was needed is in `jitter` afterwards.
    """

    def __init__(
        self,
        X: Array,
        starts: npt.NDArray[np.intp],
        bases: list[Basis],
        basis_of: list[int],
        weights: Array,
        specific: list[Kernel | None],
        jitter: float = 0.0,
    ) -> None:
        self.X, self.starts, self.basis_of, self.weights = X, starts, basis_of, weights
        self.specific = specific
        self.task = np.repeat(np.arange(len(specific)), np.diff(starts))
        self.carriers = [_Carrier(b, X, jitter) for b in bases]
        self.jitter = max([c.jitter for c in self.carriers], default=jitter)
        widths = [self.carriers[b].V.shape[1] for b in basis_of]
        ends = np.cumsum([0, *widths])
        self.columns = [slice(int(i), int(j)) for i, j in pairwise(ends)]
        self.G = self._loadings([c.V for c in self.carriers], self.task)
        self.residual = np.zeros(len(X))
        for q, b in enumerate(basis_of):
            self.residual += weights[self.task, q] ** 2 * self.carriers[b].residual
        own = [
            k.evaluate(X[self.rows(t)]) if k is not None and starts[t + 1] > starts[t] else None
            for t, k in enumerate(specific)
        ]
        self.K_specific = [None if o is None else o[0] for o in own]
        self._back_specific = [None if o is None else o[1] for o in own]

    def rows(self, t: int) -> slice:
        """Rows of task t."""
        return slice(int(self.starts[t]), int(self.starts[t + 1]))

    def _loadings(self, V: list[Array], task: npt.NDArray[np.intp]) -> Array:
        G = np.empty((len(task), self.columns[-1].stop if self.columns else 0))
        for q, b in enumerate(self.basis_of):
            np.multiply(V[b], self.weights[task, q][:, None], out=G[:, self.columns[q]])
        return G

    def _residual_block(self, t: int) -> Array:
        """E_t: a vector where it is diagonal."""
        K, e = self.K_specific[t], self.residual[self.rows(t)]
        if K is None:
            return e
        E = K.copy()
        E.flat[:: len(E) + 1] += e
        return E

    def condition(self, nu: Array, tau: Array) -> SharedPosterior:
        """Condition on sites N(f; nu/tau, 1/tau)."""
        return SharedPosterior(self, nu, tau)


@dataclass(frozen=True)
class Prediction:
    """Posterior of the functions at new rows: mean, marginal variances and, if asked, the joint covariance."""

    mean: Array
    variance: Array
    covariance: Array | None = None


def marginal_variances(K: Array, L: Array, w: Array) -> Array:
    """diag(K - K w A^-1 w K), A = I + w K w = L L'.

    w K w = A - I, so tau v = 1 - diag A^-1, a third of the flops of a solve. Sites too weak for that difference take
    their columns of K instead.
    """
    rest = 1.0 - linalg.diagonal_of_inverse(L)
    weak = rest < 1e-4
    variance = np.divide(rest, w * w, out=np.zeros_like(w), where=~weak)
    if weak.any():
        half = linalg.solve_lower(L, w[:, None] * K[:, weak])
        variance[weak] = np.diagonal(K)[weak] - np.einsum("ij,ij->j", half, half)
    return variance


def posterior_of_shared(sums: tuple[Array, Array]) -> tuple[Array, Array]:
    """The factor of B = I + sum W'W, and a = B^-1 b, from the sums over all tasks."""
    B, b = sums[0].copy(), sums[1]
    B.flat[:: len(B) + 1] += 1.0
    LB = linalg.cholesky(B, overwrite=True)
    return LB, linalg.solve(LB, b)


class SharedPosterior:
    """The posterior of all functions given the sites, with evidence, prediction and adjoints."""

    def __init__(self, prior: SharedCovariance, nu: Array, tau: Array, alone: bool = True) -> None:
        self.prior = prior
        self.w = w = np.sqrt(tau)
        s = np.divide(nu, w, out=np.zeros_like(nu), where=w > 0)
        W, r = prior.G * w[:, None], s.copy()
        self.factors: list[_Dense | _Diagonal] = []
        for t, K in enumerate(prior.K_specific):
            at, E = prior.rows(t), prior._residual_block(t)
            factor = _Diagonal(E, w[at]) if K is None else _Dense(E, w[at])
            self.factors.append(factor)
            W[at], r[at] = factor.half(W[at]), factor.half(r[at])
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
        prior, r, misfit = self.prior, self.r, self.r - self.W @ a
        self.log_determinant = sum(f.log_determinant() for f in self.factors) + lead * linalg.log_determinant(LB)
        quadratic = float(misfit @ misfit + lead * (a @ a))
        self.evidence = -0.5 * (quadratic + self.log_determinant + len(r) * LOG_2PI)
        self.alpha = np.empty_like(r)  # A^-1 (s - w G a)
        for t, factor in enumerate(self.factors):
            at = prior.rows(t)
            self.alpha[at] = factor.half_transposed(misfit[at])

    @cached_property
    def H(self) -> Array:
        """A^-1 w G."""
        H = np.empty_like(self.W)
        for t, factor in enumerate(self.factors):
            at = self.prior.rows(t)
            H[at] = factor.half_transposed(self.W[at])
        return H

    def task_terms(self) -> Array:
        """b_t of every task, one a row: flipping the sign of task t's weights flips its row and leaves B alone."""
        return np.stack([self.W[at].T @ self.r[at] for at in map(self.prior.rows, range(len(self.factors)))])

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
        W, r = self.W[self.prior.rows(t)], self.r[self.prior.rows(t)]
        L, a = self.without(t)
        misfit = r - W @ a
        half = linalg.solve_lower(self.LB, W.T @ misfit)
        logdet = linalg.log_determinant(self.LB) - linalg.log_determinant(L) + self.factors[t].log_determinant()
        return -0.5 * float(misfit @ misfit - half @ half + logdet + len(r) * LOG_2PI)

    def adjoints(self, inducing: bool = False) -> Adjoints:
        """Derivatives of the evidence by everything that the prior was built from, and by the noise of each row."""
        prior, w = self.prior, self.w
        R = linalg.right_solve_transposed(self.H, self.LB)
        noise = np.empty(len(w))
        specific: list[Array | None] = []
        for t, (factor, back) in enumerate(zip(self.factors, prior._back_specific, strict=True)):
            at = prior.rows(t)
            M = factor.adjoint(R[at], self.alpha[at])
            M *= 0.5
            if back is None:
                noise[at] = M * w[at] ** 2
                kernel = prior.specific[t]
                specific.append(None if kernel is None else np.zeros(kernel.n_theta))
            else:
                M *= w[at]
                M *= w[at][:, None]
                noise[at] = np.diagonal(M)
                specific.append(back(M).theta)
        bG = linalg.right_solve(R, self.LB)  # H P
        del R
        np.subtract(np.multiply.outer(self.alpha, self.a), bG, out=bG)
        bG *= w[:, None]
        weights, bases, by_Z = self._adjoints_of_functions(bG, noise, inducing)
        return Adjoints(weights, bases, by_Z, specific, noise)

    def _adjoints_of_functions(
        self, bG: Array, noise: Array, inducing: bool
    ) -> tuple[Array, list[Array], list[Array | None]]:
        """To the weights, and to each basis through all functions that it carries; overwrites bG."""
        prior = self.prior
        aaP = np.multiply.outer(self.a, self.a) + linalg.inverse_from_factor(self.LB)
        aaP.flat[:: len(aaP) + 1] -= 1.0
        aaP *= self.lead
        weights = np.zeros_like(prior.weights)
        filled = np.flatnonzero(np.diff(prior.starts))  # reduceat would repeat a row for an empty task
        starts = prior.starts[:-1][filled]
        pulled = []
        for b, c in enumerate(prior.carriers):
            bV: Array | None = None
            bresidual, S = np.zeros(len(noise)), np.zeros((c.V.shape[1],) * 2)
            for q in (q for q, other in enumerate(prior.basis_of) if other == b):
                part, at_row = bG[:, prior.columns[q]], prior.weights[prior.task, q]
                by_row = np.einsum("ij,ij->i", part, c.V) + 2.0 * at_row * c.residual * noise
                weights[filled, q] = np.add.reduceat(by_row, starts) if len(filled) else 0.0
                part *= at_row[:, None]
                bV = part if bV is None else bV + part
                bresidual += at_row**2 * noise
                S += aaP[prior.columns[q], prior.columns[q]]
            if bV is None:  # a basis that carries no function
                bV = np.zeros_like(c.V)
            pulled.append(c.pullback(bV, bresidual, S, inducing))
        return weights, [g for g, _ in pulled], [z for _, z in pulled]

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every row."""
        prior, w = self.prior, self.w
        mean, variance = prior.G @ self.a, np.empty(len(w))
        J = prior.G.copy()
        for t, factor in enumerate(self.factors):
            at, E = prior.rows(t), prior._residual_block(t)
            if E.ndim == 1:
                gain = E * w[at]
                mean[at] += gain * self.alpha[at]
                variance[at] = E / factor.root**2  # type: ignore[union-attr]
                J[at] -= gain[:, None] * self.H[at]
            else:
                mean[at] += E @ (w[at] * self.alpha[at])
                variance[at] = marginal_variances(E, factor.L, w[at])  # type: ignore[union-attr]
                if J.shape[1]:
                    J[at] -= E @ (w[at][:, None] * self.H[at])
        J = linalg.right_solve_transposed(J, self.LB)
        return mean, variance + np.einsum("ij,ij->i", J, J)

    def predict(self, X: Array, task: npt.NDArray[np.intp], full: bool = False) -> Prediction:
        """Functions at new rows. A shared function's residual at a new input is independent of the rest (eq. 7)."""
        prior = self.prior
        at_new = [c.at(X) for c in prior.carriers]
        J = prior._loadings([V for V, _ in at_new], task)
        mean = J @ self.a
        variance = np.zeros(len(X))
        for q, b in enumerate(prior.basis_of):
            variance += prior.weights[task, q] ** 2 * at_new[b][1]
        blocks = np.diag(variance) if full else None
        for t in np.unique(task):
            kernel = prior.specific[t]
            if kernel is None:
                continue
            new, old = np.flatnonzero(task == t), prior.rows(int(t))
            cross = kernel(X[new], prior.X[old]) * self.w[old]
            mean[new] += cross @ self.alpha[old]
            J[new] -= cross @ self.H[old]
            half = self.factors[t].half(np.ascontiguousarray(cross.T))
            if blocks is None:
                variance[new] += kernel.diag(X[new]) - np.einsum("ij,ij->j", half, half)
            else:
                blocks[np.ix_(new, new)] += kernel(X[new]) - half.T @ half
        J = linalg.right_solve_transposed(J, self.LB)
        if blocks is None:
            return Prediction(mean, np.maximum(variance + np.einsum("ij,ij->i", J, J), 0.0))
        blocks += J @ J.T
        return Prediction(mean, np.maximum(np.diagonal(blocks), 0.0), blocks)
