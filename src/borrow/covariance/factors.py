"""Factors of A = I + w E w, the covariance of a task's unit-noise observations; E is its own part and the residual."""

from __future__ import annotations

from borrow.numerics import linalg
from borrow.numerics.linalg import Array, namespace


class DenseFactor:
    """chol(A) of a task with its own kernel, or of several."""

    def __init__(self, K: Array, e: Array, w: Array) -> None:
        A = K * w[..., None, :]
        A *= w[..., None]
        linalg.add_diagonal(A, w * w * e + 1.0)
        self.L = linalg.cholesky(A, overwrite=True)

    def half(self, B: Array) -> Array:
        """L^-1 B."""
        return linalg.solve_lower(self.L, B)

    def half_transposed(self, B: Array) -> Array:
        """L^-T B."""
        return linalg.solve_lower_transposed(self.L, B)

    def log_determinant(self) -> float:
        """log |A|."""
        return linalg.log_determinant(self.L)

    def adjoint(self, R: Array, alpha: Array) -> Array:
        """alpha alpha' + R R' - A^-1, folded: it is summed with symmetric matrices only."""
        return linalg.gram_minus_inverse_folded(namespace(R).concatenate([R, alpha[..., None]], axis=-1), self.L)

    def only(self, i: int | None, n: int) -> DenseFactor:
        """The factor of one task of several, without padding."""
        if i is None:
            return self
        one = object.__new__(DenseFactor)
        one.L = self.L[i, :n, :n]
        return one


class DiagonalFactor:
    """The same for a task whose residual covariance is diagonal (the primary)."""

    def __init__(self, e: Array, w: Array) -> None:
        self.root = namespace(w).sqrt(1.0 + w * w * e)

    def half(self, B: Array) -> Array:
        """L^-1 B."""
        return B / self.root if B.ndim == 1 else B / self.root[:, None]

    half_transposed = half

    def log_determinant(self) -> float:
        """log |A|."""
        return 2.0 * float(namespace(self.root).log(self.root).sum())

    def adjoint(self, R: Array, alpha: Array) -> Array:
        """The diagonal of the same."""
        return linalg.row_dots(R, R) + alpha * alpha - self.root**-2
