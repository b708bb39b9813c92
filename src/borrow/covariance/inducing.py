"""Inducing inputs by greedy conditional variance (a pivoted Cholesky factorisation that stops early).

Functions are carried at such inputs (`InducingBasis`). Sites are observations of unit noise (`unit_noise`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from borrow.data.cells import spaced
from borrow.kernels import Kernel
from borrow.numerics import linalg
from borrow.numerics.device import Device, place
from borrow.numerics.linalg import Array, is_tensor, namespace, to_host
from borrow.numerics.stored import stored

LOG_2PI = float(np.log(2.0 * np.pi))


@stored("carrier-basis")
class Basis(NamedTuple):
    """A kernel and the inducing inputs that carry functions drawn from it.

    What these leave of a row's variance is kept as its own; without `keeps` it is dropped (Nystrom's formula alone).
    """

    kernel: Kernel
    Z: Array
    keeps: bool = True


@stored("inducing-basis")
@dataclass(frozen=True)
class InducingBasis:
    """A basis with the factor of its k(Z, Z), which is computed when it is first needed and never travels.

    `least` is the relative jitter that is tried first. A basis that travels takes the jitter that was found with it.
    """

    basis: Basis
    device: Device | None = None
    least: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {"basis": self.basis, "device": self.device, "least": self.jitter}

    @cached_property
    def Z(self) -> Any:
        """The inducing inputs where matrices are computed."""
        return place(self.basis.Z, self.device)

    @cached_property
    def _factored(self) -> tuple[Any, float, Any]:
        K, back = self.basis.kernel.evaluate(self.Z)
        return *linalg.cholesky_jittered(K, self.least), back

    @property
    def L(self) -> Array:
        """The factor of k(Z, Z)."""
        return self._factored[0]

    @property
    def jitter(self) -> float:
        """The relative jitter that the factor needed."""
        return self._factored[1]

    def on(self, device: Device | None) -> InducingBasis:
        """The same where some rows are computed."""
        return self if self.device == device else replace(self, device=device)

    def pullback(self, S: Array, inputs: bool) -> tuple[Array, Array | None]:
        """To the kernel's parameters (and Z) through k(Z, Z); S is V'bV over all rows."""
        L = self.L
        bKzz = -0.5 * linalg.right_solve(linalg.solve_lower_transposed(L, S), L)
        found = self._factored[2](0.5 * (bKzz + bKzz.T), inputs)
        return found.theta, to_host(found.X) if inputs else None


class CarriedRows:
    """A basis evaluated at rows: V, the residual variances, and the way back to its parameters."""

    def __init__(self, basis: InducingBasis, X: Array) -> None:
        self.L = basis.L
        Kxz, self._back_xz = basis.basis.kernel.evaluate(X, basis.Z)
        self.V = linalg.right_solve_transposed(Kxz, self.L)
        kxx, self._back_diagonal = basis.basis.kernel.evaluate_diag(X)
        self._keeps = float(basis.basis.keeps)
        self.residual = self._keeps * (kxx - linalg.row_dots(self.V, self.V)).clip(0.0)

    def pullback(self, bG: Array, bresidual: Array, inputs: bool) -> tuple[Array, Array, Array, Any]:
        """To the kernel's parameters by k(X, Z) and by k(x, x); what the residual adds to V'bV; to Z. Overwrites bG."""
        bresidual = self._keeps * bresidual
        S = -2.0 * (self.V.T @ (bresidual[:, None] * self.V))
        bG -= (2.0 * bresidual)[:, None] * self.V
        xz = self._back_xz(linalg.right_solve(bG, self.L), inputs)
        return xz.theta, self._back_diagonal(bresidual).theta, S, to_host(xz.Z) if inputs else 0.0


def marginal_variances(K: Array, L: Array, w: Array, e: Array | None = None) -> Array:
    """diag(E - E w A^-1 w E), A = I + w E w = L L', E = K + diag(e).

    w E w = A - I, so tau v = 1 - diag A^-1, a third of the flops of a solve. Sites too weak for that difference take
    their columns of E instead; it is not formed otherwise.
    """
    rest = 1.0 - linalg.diagonal_of_inverse(L)
    weak = rest < 1e-4
    if is_tensor(K):
        xp = namespace(K)
        variance = rest / xp.where(weak, 1.0, w * w)
        if bool(weak.any()):
            E = linalg.copy(K)
            if e is not None:
                linalg.add_diagonal(E, e)
            own = linalg.copy(linalg.diagonal(E))
            E *= w[..., None]
            half = linalg.solve_lower(L, E)
            del E  # three matrices at once would be more than a fit has elsewhere
            variance = xp.where(weak, own - linalg.column_dots(half, half), variance)
        return variance
    variance = np.divide(rest, w * w, out=np.zeros_like(w), where=~weak)
    if weak.any():
        rows = np.flatnonzero(weak)
        columns = K[:, rows]
        if e is not None:
            columns[rows, np.arange(len(rows))] += e[rows]
        half = linalg.solve_lower(L, w[:, None] * columns)
        variance[rows] = columns[rows, np.arange(len(rows))] - np.einsum("ij,ij->j", half, half)
    return variance


def unit_noise(nu: Array, tau: Array) -> tuple[Array, Array]:
    """Sites as observations s = w f + noise: w = sqrt(tau), s = nu / w; 0 where there is no site."""
    xp = namespace(tau)
    w = xp.sqrt(tau)
    return w, xp.where(w > 0, nu, 0.0) / xp.where(w > 0, w, 1.0)


#: A primary input whose variance given those already chosen is below this share adds nothing but rounding error.
REDUNDANT = 1e-10
#: The other tasks' inputs are added until this share of the prior variance is left at most.
TOLERANCE = 0.01
#: So many of the other tasks' inputs at most, and of the primary's; `Inducing.left` says what these leave unexplained.
MOST, MOST_FIRST = 300, 2000
#: At most so many rows, evenly spaced, are candidates: the greedy rule needs a cover, not all of a very long table.
CANDIDATES = 20_000


class Inducing(NamedTuple):
    """Inducing inputs, and the largest share of the prior variance that they leave at any candidate."""

    Z: Array
    left: float


def choose_inducing(
    kernel: Kernel, first: Array, others: Array, most: int = MOST, tolerance: float = TOLERANCE
) -> Array:
    """The inducing inputs of `spread_inducing`."""
    return spread_inducing(kernel, first, others, most, tolerance).Z


def spread_inducing(
    kernel: Kernel, first: Array, others: Array, most: int = MOST, tolerance: float = TOLERANCE
) -> Inducing:
    """Rows of `first` until they are explained to rounding; rows of `others` to `tolerance`, or up to `most` in all.

    `first` are the primary's inputs, labelled or not. Dropping those that the others determine to 1e-10 of the prior
    variance keeps k(Z, Z) factorisable without jitter and changes nothing else.
    """
    first, others = (X[spaced(slice(0, len(X)), CANDIDATES)] for X in (first, others))
    candidates = np.vstack([first, others])
    left = kernel.diag(candidates)
    prior = np.maximum(left, np.finfo(float).tiny)
    F = np.empty((len(candidates), min(64, len(candidates))), order="F")
    chosen: list[int] = []
    stages = (slice(0, len(first)), REDUNDANT, MOST_FIRST), (slice(len(first), None), tolerance, most)
    for stage, share, limit in stages:
        while len(chosen) < limit:
            ratio = left[stage] / prior[stage]
            if ratio.max(initial=0.0) <= share:
                break
            i = int(np.argmax(ratio)) + (stage.start or 0)
            k = len(chosen)
            if k == F.shape[1]:
                F = np.asfortranarray(np.hstack([F, np.empty_like(F)]))
            column = (kernel(candidates, candidates[i : i + 1])[:, 0] - F[:, :k] @ F[i, :k]) / np.sqrt(left[i])
            F[:, k] = column
            left = np.maximum(left - column * column, 0.0)
            left[i] = 0.0
            chosen.append(i)
    return Inducing(candidates[chosen], float((left / prior).max(initial=0.0)))
