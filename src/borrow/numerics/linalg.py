"""The only file that names LAPACK and BLAS; its twin for PyTorch tensors is `linalg_torch`.

Arrays are rows-first and C-ordered; BLAS sees their transposes, which are Fortran-ordered, so nothing is
copied. `L` is always a lower Cholesky factor, Fortran-ordered, as `cholesky` returns it; its upper triangle
holds zeros.

A function marked `@also_in_torch` takes tensors as well, and then several matrices at once, along leading axes. What
the array-API standard has is taken from the `namespace` of the arrays, so that the same line serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.linalg import blas, lapack
from scipy.spatial.distance import cdist

from borrow.numerics.warned import log

Array = npt.NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])

#: Jitter is tried at these multiples of the mean diagonal, 0 first.
JITTER_LADDER = (0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)

#: Up to this many rows a triangle is inverted by LAPACK.
LEAF = 64

#: From this many columns on, distances come from one matrix product instead of differences; what is added to it is made
#: for so many entries at a time, which stay in the processor's cache.
GEMM_COLUMNS, AT_ONCE = 10, 2**15


class NotPositiveDefiniteError(ValueError):
    """A covariance matrix that no tolerable jitter makes positive definite."""


def namespace(array: Any) -> Any:
    """The array-API namespace of an array: NumPy's, or that of PyTorch for a tensor."""
    if type(array) is np.ndarray:
        return np
    return import_module("array_api_compat.torch") if is_tensor(array) else np


def is_tensor(array: Any) -> bool:
    """A PyTorch tensor, told without importing PyTorch."""
    return type(array).__module__ == "torch"


def to_host(array: Any) -> Any:
    """The array as NumPy's."""
    return array.detach().cpu().numpy() if is_tensor(array) else array


def also_in_torch(f: F) -> F:
    """For tensors, the function of the same name in `linalg_torch`; its first argument decides."""

    ndarray = np.ndarray

    @wraps(f)
    def either(A: Any, *rest: Any, **named: Any) -> Any:
        if type(A) is ndarray or not is_tensor(A):
            return f(A, *rest, **named)
        return getattr(import_module("borrow.numerics.linalg_torch"), f.__name__)(A, *rest, **named)

    return cast(F, either)


@also_in_torch
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
    mean = float(diagonal(A).mean()) if len(A) else 1.0
    for jitter in (least, *(j for j in JITTER_LADDER if j > least)):
        trial = copy(A)
        add_diagonal(trial, jitter * mean)
        try:
            return cholesky(trial, overwrite=True), jitter
        except NotPositiveDefiniteError:
            log.debug("Cholesky of %d x %d failed at relative jitter %g", *A.shape, jitter)
    if not bool(namespace(A).isfinite(A).all()):
        raise NotPositiveDefiniteError("the covariance matrix holds NaN or infinite entries")
    raise NotPositiveDefiniteError(
        f"a {len(A)} x {len(A)} covariance matrix is not positive definite even with {jitter:g} "
        "times its mean diagonal added; remove repeated inputs or use a kernel with a shorter lengthscale"
    )


@also_in_torch
def solve_lower(L: Array, B: Array) -> Array:
    """The solution L^-1 B of a triangular system."""
    return _triangular(L, B, side=1, trans_a=1)


@also_in_torch
def solve_lower_transposed(L: Array, B: Array) -> Array:
    """The solution L^-T B of a triangular system."""
    return _triangular(L, B, side=1)


def solve(L: Array, B: Array) -> Array:
    """The solution (L L')^-1 B of a system whose matrix has this factor."""
    return solve_lower_transposed(L, solve_lower(L, B))


@also_in_torch
def right_solve_transposed(B: Array, L: Array) -> Array:
    """The solution B L^-T of a triangular system from the right."""
    return _triangular(L, B)


@also_in_torch
def right_solve(B: Array, L: Array) -> Array:
    """The solution B L^-1 of a triangular system from the right."""
    return _triangular(L, B, trans_a=1)


def _triangular(L: Array, B: Array, **how: int) -> Array:
    """L^-1 or L^-T times B from a side of B', as BLAS says it; B may be a vector."""
    if B.size == 0:
        return B.copy()
    solved = blas.dtrsm(1.0, L, B[None, :] if B.ndim == 1 else B.T, lower=1, **how)
    return solved[0] if B.ndim == 1 else solved.T


def lower_inverse(L: Array) -> Array:
    """L^-1, by halves in matrix products: LAPACK's own takes twice the time for some hundred rows."""
    if len(L) <= LEAF:
        return np.zeros((0, 0)) if len(L) == 0 else lapack.dtrtri(L, lower=1)[0]
    m, out = len(L) // 2, np.zeros(L.shape, order="F")
    top = out[:m, :m] = lower_inverse(L[:m, :m])
    bottom = out[m:, m:] = lower_inverse(L[m:, m:])
    out[m:, :m] = blas.dtrmm(-1.0, bottom, blas.dtrmm(1.0, top, L[m:, :m], side=1, lower=1), lower=1)
    return out


@also_in_torch
def inverse_from_factor(L: Array) -> Array:
    """(L L')^-1, both triangles."""
    return symmetric_from_lower(lapack.dlauum(lower_inverse(L), lower=1, overwrite_c=1)[0]) if len(L) else L.copy()


@also_in_torch
def diagonal_of_inverse(L: Array) -> Array:
    """The diagonal of (L L')^-1: column sums of squares of L^-1."""
    half = lower_inverse(L)
    return np.einsum("ij,ij->j", half, half)


@also_in_torch
def symmetric_eigen(A: Array) -> tuple[Array, Array]:
    """Eigenvalues in rising order and eigenvectors, one per column, of a symmetric matrix."""
    if len(A) == 0:
        return np.zeros(0), np.zeros((0, 0))
    e, U, info = lapack.dsyevd(A.T, lower=1)
    if info != 0 or not np.all(np.isfinite(e)):
        raise NotPositiveDefiniteError("the eigendecomposition of a covariance matrix failed: it holds NaN or infinity")
    return e, U


def cholesky_pullback(L: Array, bL: Array) -> Array:
    """Adjoint of a symmetric A from its factor's: 1/2 L^-T (low + low') L^-1, low = tril(L'bL), half its diagonal."""
    return 0.5 * right_solve(solve_lower_transposed(L, symmetric_from_lower(np.tril(L.T @ bL))), L)


def symmetric_from_lower(P: Array) -> Array:
    """Copy the lower triangle of P over the upper one, which must hold zeros."""
    full = P + P.T
    full.flat[:: len(P) + 1] *= 0.5
    return full


def gram_minus_inverse(R: Array, L: Array) -> Array:
    """R R' - (L L')^-1, both triangles: the curvature part of an evidence's adjoint."""
    folded: Any = gram_minus_inverse_folded(R, L)
    full = folded + namespace(folded).swapaxes(folded, -1, -2)
    full *= 0.5
    return full


@also_in_torch
def gram_minus_inverse_folded(R: Array, L: Array) -> Array:
    """R R' - (L L')^-1 folded: twice its strict upper triangle, and its diagonal; zeros below. R may be a vector.

    Any sum of its products with a symmetric matrix is that of the full one, without the pass that mirrors it.
    """
    if len(L) == 0:
        return np.zeros((0, 0))
    P, _ = lapack.dlauum(lower_inverse(L), lower=1, overwrite_c=1)
    rows = R[None, :] if R.ndim == 1 else R.T if R.size else np.zeros((1, len(L)))
    Q = blas.dsyrk(2.0, rows, beta=-2.0, c=P, trans=1, lower=1, overwrite_c=1).T
    Q.flat[:: len(L) + 1] *= 0.5
    return Q


def log_determinant(L: Array) -> float:
    """log |L L'|, summed where there are several."""
    return 2.0 * float(namespace(L).log(diagonal(L)).sum())


@also_in_torch
def squared_distances(A: Array, C: Array) -> Array:
    """|a_i - c_j|^2. Exact differences for few columns, one matrix product for many.

    The product form rounds at eps (|a|^2 + |c|^2), times the root of the number of columns where these are
    many; what falls below that is set to zero, so that equal rows are at distance zero either way.
    """
    if A.shape[1] < GEMM_COLUMNS:
        return cdist(A, C, "sqeuclidean")
    a, c = np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", C, C)
    D = (-2.0 * A) @ C.T
    tiny, rows = np.finfo(float).eps * max(8.0, A.shape[1] ** 0.5), max(AT_ONCE // max(len(c), 1), 1)
    for i in range(0, len(a), rows):
        part, norms = D[i : i + rows], a[i : i + rows, None] + c  # added at once: D is symmetric where A is C
        part += norms
        norms *= tiny
        part *= norms <= part
    return D


def as_type_of(array: Any, value: Any) -> Any:
    """Numbers of the host where `array` is: as they are, or as a tensor beside it."""
    if isinstance(array, np.ndarray) or not is_tensor(array) or is_tensor(value):
        return value
    return array.new_tensor(np.ascontiguousarray(value)) if np.ndim(value) else value


def row_dots(A: Array, B: Array) -> Array:
    """Inner product of each row of A with that of B."""
    return (A * B).sum(axis=-1) if is_tensor(A) else np.einsum("ij,ij->i", A, B)


def column_dots(A: Array, B: Array) -> Array:
    """Inner product of each column of A with that of B."""
    return (A * B).sum(axis=-2) if is_tensor(A) else np.einsum("ij,ij->j", A, B)


def weigh_rows(w: Array, A: Array) -> Array:
    """The sum w'A of the rows of A, weighted."""
    return (w[..., None, :] @ A)[..., 0, :] if is_tensor(A) else w @ A


def inner(A: Any, B: Array) -> Any:
    """Sum of all products of entries, for each pair of matrices."""
    return (A * B).sum(axis=(-2, -1) if A.ndim > 1 else -1) if is_tensor(A) else float(np.vdot(A, B))


def diagonal(A: Any) -> Any:
    """The diagonal of each matrix, not to be changed where it is NumPy's."""
    return A.diagonal(dim1=-2, dim2=-1) if is_tensor(A) else np.diagonal(A)


def add_diagonal(A: Any, value: Any) -> None:
    """Add to the diagonal of each matrix, in place."""
    if is_tensor(A):
        A.diagonal(dim1=-2, dim2=-1).add_(value)
    else:
        A.flat[:: len(A) + 1] += value


def add_at(A: Any, index: tuple[Any, ...], values: Array) -> None:
    """Add to the entries that the arrays of `index` name, in place; where a tensor's is named twice, in a fixed order.

    In a NumPy array no entry may be named twice.
    """
    if is_tensor(A):
        A.index_put_(index, values, accumulate=True)
    else:
        A[index] += values


def log_ndtr(z: Array) -> Array:
    """log of the normal distribution function."""
    return _special(z).log_ndtr(z)


def erfcx(z: Array) -> Array:
    """The scaled complementary error function exp(z^2) erfc(z)."""
    return _special(z).erfcx(z)


def _special(z: Any) -> Any:
    """The special functions that take z: SciPy's, or those of PyTorch for a tensor."""
    return namespace(z).special if is_tensor(z) else special


def log_sum_exp(A: Any) -> Array:
    """log of the sum of exponentials along each row."""
    return A.logsumexp(dim=-1) if is_tensor(A) else np.logaddexp.reduce(A, axis=1)


@also_in_torch
def copy(A: Array) -> Array:
    """An array of its own."""
    return A.copy()


def rows_first(A: Any) -> Array:
    """The same entries, rows one after the other in memory."""
    return A.contiguous() if is_tensor(A) else np.ascontiguousarray(A)


@also_in_torch
def sparse_product(V: Array, S: Any) -> Array:
    """S V with S a sparse matrix of the host."""
    return S @ V
