"""The only file that names LAPACK and BLAS.

Arrays are rows-first and C-ordered; BLAS sees their transposes, which are Fortran-ordered, so nothing is
copied. `L` is always a lower Cholesky factor, Fortran-ordered, as `cholesky` returns it; its upper triangle
holds zeros.
"""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack
from scipy.spatial.distance import cdist

Array = npt.NDArray[np.float64]

log = logging.getLogger("borrow")

#: Jitter is tried at these multiples of the mean diagonal, 0 first.
JITTER_LADDER = (0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)

#: From this many columns on, distances come from one matrix product instead of differences.
GEMM_COLUMNS = 10


class NotPositiveDefiniteError(ValueError):
    """A covariance matrix that no tolerable jitter makes positive definite."""


def cholesky(A: Array, overwrite: bool = False) -> Array:
    """Lower factor of a symmetric positive definite matrix; raises where there is none."""
    if A.shape[0] == 0:
        return np.zeros((0, 0), order="F")
    L, info = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=overwrite)
    if info != 0:
        raise NotPositiveDefiniteError(f"leading minor {info} of {len(A)} is not positive definite")
    if not np.all(np.isfinite(np.diagonal(L))):  # OpenBLAS factors NaN without complaint; it ends up here
        raise NotPositiveDefiniteError("the matrix holds NaN or infinite entries")
    return L


def cholesky_jittered(A: Array, least: float = 0.0) -> tuple[Array, float]:
    """Factor of A + j mean(diag A) I, and j: `least` or, where that fails, the next rung that works."""
    mean = float(np.mean(np.diagonal(A))) if len(A) else 1.0
    for jitter in (least, *(j for j in JITTER_LADDER if j > least)):
        trial = A.copy()
        trial.flat[:: len(A) + 1] += jitter * mean
        try:
            return cholesky(trial, overwrite=True), jitter
        except NotPositiveDefiniteError:
            log.debug("Cholesky of %d x %d failed at relative jitter %g", *A.shape, jitter)
    if not np.all(np.isfinite(A)):
        raise NotPositiveDefiniteError("the covariance matrix holds NaN or infinite entries")
    raise NotPositiveDefiniteError(
        f"a {len(A)} x {len(A)} covariance matrix is not positive definite even with {jitter:g} "
        "times its mean diagonal added; remove repeated inputs or use a kernel with a shorter lengthscale"
    )


def solve_lower(L: Array, B: Array) -> Array:
    """L^-1 B."""
    if B.size == 0:
        return B.copy()
    if B.ndim == 1:
        return blas.dtrsm(1.0, L, B[None, :], side=1, lower=1, trans_a=1)[0]
    return blas.dtrsm(1.0, L, B.T, side=1, lower=1, trans_a=1).T


def solve_lower_transposed(L: Array, B: Array) -> Array:
    """L^-T B."""
    if B.size == 0:
        return B.copy()
    if B.ndim == 1:
        return blas.dtrsm(1.0, L, B[None, :], side=1, lower=1)[0]
    return blas.dtrsm(1.0, L, B.T, side=1, lower=1).T


def solve(L: Array, B: Array) -> Array:
    """(L L')^-1 B."""
    return solve_lower_transposed(L, solve_lower(L, B))


def right_solve_transposed(B: Array, L: Array) -> Array:
    """B L^-T."""
    return blas.dtrsm(1.0, L, B.T, lower=1).T if B.size else B.copy()


def right_solve(B: Array, L: Array) -> Array:
    """B L^-1."""
    return blas.dtrsm(1.0, L, B.T, lower=1, trans_a=1).T if B.size else B.copy()


def inverse_from_factor(L: Array) -> Array:
    """(L L')^-1, both triangles."""
    if len(L) == 0:
        return np.zeros((0, 0))
    P, _ = lapack.dpotri(L, lower=1)
    return symmetric_from_lower(P)


def diagonal_of_inverse(L: Array) -> Array:
    """The diagonal of (L L')^-1: column sums of squares of L^-1."""
    if len(L) == 0:
        return np.zeros(0)
    half, _ = lapack.dtrtri(L, lower=1)
    return np.einsum("ij,ij->j", half, half)


def symmetric_eigen(A: Array) -> tuple[Array, Array]:
    """Eigenvalues in rising order and eigenvectors, one a column, of a symmetric matrix."""
    if len(A) == 0:
        return np.zeros(0), np.zeros((0, 0))
    e, U, info = lapack.dsyevd(A.T, lower=1)
    if info != 0 or not np.all(np.isfinite(e)):
        raise NotPositiveDefiniteError("the eigendecomposition of a covariance matrix failed: it holds NaN or infinity")
    return e, U


def cholesky_pullback(L: Array, bL: Array) -> Array:
    """Adjoint of a symmetric A from its factor's: 1/2 L^-T (low + low') L^-1, low = tril(L'bL), half its diagonal."""
    low = np.tril(L.T @ bL)
    low.flat[:: len(L) + 1] *= 0.5
    return 0.5 * right_solve(solve_lower_transposed(L, low + low.T), L)


def symmetric_from_lower(P: Array) -> Array:
    """Copy the lower triangle of P over the upper one, which must hold zeros."""
    full = P + P.T
    full.flat[:: len(P) + 1] *= 0.5
    return full


def gram_minus_inverse(R: Array, L: Array) -> Array:
    """R R' - (L L')^-1, both triangles: the curvature part of an evidence's adjoint."""
    if len(L) == 0:
        return np.zeros((0, 0))
    P, _ = lapack.dpotri(L, lower=1)
    if R.shape[1] == 0:
        return -symmetric_from_lower(P)
    return symmetric_from_lower(blas.dsyrk(1.0, R.T, beta=-1.0, c=P, trans=1, lower=1, overwrite_c=1))


def gram_minus_inverse_folded(r: Array, L: Array) -> Array:
    """r r' - (L L')^-1 folded: twice its strict upper triangle, and its diagonal; zeros below.

    Any sum of its products with a symmetric matrix is that of the full one, without the pass that mirrors it.
    """
    if len(L) == 0:
        return np.zeros((0, 0))
    P, _ = lapack.dpotri(L, lower=1)
    Q = blas.dsyrk(2.0, r[None, :], beta=-2.0, c=P, trans=1, lower=1, overwrite_c=1).T
    Q.flat[:: len(L) + 1] *= 0.5
    return Q


def log_determinant(L: Array) -> float:
    """log |L L'|."""
    return 2.0 * float(np.log(np.diagonal(L)).sum())


def squared_distances(A: Array, C: Array) -> Array:
    """|a_i - c_j|^2. Exact differences for few columns, one matrix product for many.

    The product form rounds at eps (|a|^2 + |c|^2), times the root of the number of columns where these are
    many; what falls below that is set to zero, so that equal rows are at distance zero either way.
    """
    if A.shape[1] < GEMM_COLUMNS:
        return cdist(A, C, "sqeuclidean")
    a, c = np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", C, C)
    D = (-2.0 * A) @ C.T
    norms = a[:, None] + c  # added at once, so that D is symmetric to the last bit where A is C
    D += norms
    norms *= np.finfo(float).eps * max(8.0, A.shape[1] ** 0.5)
    D *= norms <= D
    return D
