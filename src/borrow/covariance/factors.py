"""Factors of A = I + w E w, the covariance of a task's unit-noise observations; E is its own part and the residual."""

from __future__ import annotations

from dataclasses import dataclass

from borrow.numerics import linalg
from borrow.numerics.linalg import Array, namespace


@dataclass(frozen=True)
class DenseFactor:
    """chol(A) of a task with its own kernel, or of several."""

    L: Array

    @classmethod
    def of(cls, K: Array, e: Array, w: Array) -> DenseFactor:
        """The factor where E = K + diag(e)."""
        A = K * w[..., None, :]
        A *= w[..., None]
        linalg.add_diagonal(A, w * w * e + 1.0)
        return cls(linalg.cholesky(A, overwrite=True))

    def half(self, B: Array) -> Array:
        """L^-1 B, with A = L L' the covariance of the unit-noise observations."""
        return linalg.solve_lower(self.L, B)

    def half_transposed(self, B: Array) -> Array:
        """L^-T B, so that `half_transposed(half(B))` is A^-1 B."""
        return linalg.solve_lower_transposed(self.L, B)

    def log_determinant(self) -> float:
        """log |A|: what the task's observations take from its evidence, twice."""
        return linalg.log_determinant(self.L)

    def log_determinants(self) -> Array:
        """The same of each task, where there are several."""
        return linalg.to_host(2.0 * namespace(self.L).log(linalg.diagonal(self.L)).sum(-1))

    def adjoint(self, R: Array, alpha: Array) -> Array:
        """alpha alpha' + R R' - A^-1, folded: it is summed with symmetric matrices only."""
        return linalg.gram_minus_inverse_folded(namespace(R).concatenate([R, alpha[..., None]], axis=-1), self.L)

    def only(self, i: int | None, rows: slice) -> DenseFactor:
        """The factor of one task, number i of several, without padding."""
        n = rows.stop - rows.start
        return self if i is None else DenseFactor(self.L[i, :n, :n])


@dataclass(frozen=True)
class DiagonalFactor:
    """The same for a task whose residual covariance is diagonal (the primary)."""

    root: Array

    @classmethod
    def of(cls, e: Array, w: Array) -> DiagonalFactor:
        """The factor where E = diag(e)."""
        return cls(namespace(w).sqrt(1.0 + w * w * e))

    def half(self, B: Array) -> Array:
        """L^-1 B, where L is the diagonal matrix of the roots; it is its own transpose."""
        return B / self.root if B.ndim == 1 else B / self.root[:, None]

    half_transposed = half

    def log_determinant(self) -> float:
        """log |A|, the sum of the logarithms of the squared roots."""
        return 2.0 * float(namespace(self.root).log(self.root).sum())

    def adjoint(self, R: Array, alpha: Array) -> Array:
        """The diagonal of alpha alpha' + R R' - A^-1: nothing else of it reaches a diagonal covariance."""
        return linalg.row_dots(R, R) + alpha * alpha - self.root**-2

    def only(self, i: int | None, rows: slice) -> DiagonalFactor:
        """The factor of one task, whose rows these are."""
        return DiagonalFactor(self.root[rows])
