"""The twin of `linalg` for PyTorch tensors: the same names, matrices along leading axes at once.

PyTorch's own inverse from a factor solves with the identity, 2 n^3 operations on a GPU. Here L^-1 comes from a
recursion over halves and (L L')^-1 = L^-T L^-1 from another, with products of blocks that skip the zero triangles,

    L^-1 = [[X, 0], [Y, Z]],  X = L11^-1,  Z = L22^-1,  Y = -Z L21 X;    L^-T L^-1 = [[X'X + Y'Y, .], [Z'Y, Z'Z]],

a third of that for large matrices, and all of it in matrix products.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch

from borrow.numerics.linalg import GEMM_COLUMNS, NotPositiveDefiniteError, diagonal

Tensor: TypeAlias = Any  # torch.Tensor; types are checked without PyTorch

#: Triangles up to this size are inverted by substitution: one matrix, and each of several.
BASE, BASE_OF_MANY = 512, 64
#: Triangles up to this size are multiplied as if they were full.
LEAF = 1024
#: Up to this many columns distances are sums of squared differences; each costs a pass over the matrix.
FEW_COLUMNS = 4


def cholesky(A: Tensor, overwrite: bool = False) -> Tensor:
    """Lower factors; raises where there is none."""
    L, info = torch.linalg.cholesky_ex(A)
    failed, finite = (info != 0).any(), torch.isfinite(diagonal(L)).all()
    if bool(failed | ~finite):  # one question to the device where all is well
        if not bool(failed):
            raise NotPositiveDefiniteError("the matrix holds NaN or infinite entries")
        raise NotPositiveDefiniteError(f"leading minor {int(info.max())} of {A.shape[-1]} is not positive definite")
    return L


def solve_lower(L: Tensor, B: Tensor) -> Tensor:
    """L^-1 B; B may be a vector for each matrix."""
    if B.ndim < L.ndim:
        return torch.linalg.solve_triangular(L, B[..., None], upper=False)[..., 0]
    return torch.linalg.solve_triangular(L, B, upper=False)


def solve_lower_transposed(L: Tensor, B: Tensor) -> Tensor:
    """The solution L^-T B of a triangular system."""
    if B.ndim < L.ndim:
        return torch.linalg.solve_triangular(L.mT, B[..., None], upper=True)[..., 0]
    return torch.linalg.solve_triangular(L.mT, B, upper=True)


def right_solve_transposed(B: Tensor, L: Tensor) -> Tensor:
    """B L^-T. B is tall: the small factor is inverted, the rest is one product."""
    return B @ lower_inverse(L).mT


def right_solve(B: Tensor, L: Tensor) -> Tensor:
    """The solution B L^-1 of a triangular system from the right."""
    return B @ lower_inverse(L)


def lower_inverse(L: Tensor) -> Tensor:
    """L^-1, by the recursion above."""
    X = torch.zeros(L.shape, dtype=L.dtype, device=L.device)
    base = BASE if L.ndim == 2 else BASE_OF_MANY
    _fill_inverse(L, X, torch.eye(min(base, L.shape[-1]), dtype=L.dtype, device=L.device))
    return X


def _fill_inverse(L: Tensor, X: Tensor, unit: Tensor) -> None:
    """L^-1 into the zeros of X. Triangles up to the size of the identity `unit` are inverted by substitution.

    Not a function within `lower_inverse` that calls itself: such a function refers to itself, so that the tensors it
    sees would be freed by the garbage collector only, which knows nothing of the memory of a GPU.
    """
    n = L.shape[-1]
    if n <= unit.shape[-1]:
        one = unit[:n, :n].expand(*L.shape[:-2], n, n)
        X[...] = torch.linalg.solve_triangular(L, one, upper=False)
        return
    h = n // 2
    _fill_inverse(L[..., :h, :h], X[..., :h, :h], unit)
    _fill_inverse(L[..., h:, h:], X[..., h:, h:], unit)
    below = _triangle_times(X[..., :h, :h], L[..., h:, :h].mT, turned=True).mT  # L21 X11
    X[..., h:, :h] = _triangle_times(X[..., h:, h:], below).neg_()


def _add_product(out: Tensor, A: Tensor, B: Tensor) -> None:
    """out += A B."""
    if out.ndim == 2:
        out.addmm_(A, B)
    else:
        out += A @ B


def _triangle_times(X: Tensor, M: Tensor, turned: bool = False) -> Tensor:
    """X M with X lower triangular; X'M where it is turned."""
    n = X.shape[-1]
    if n <= LEAF:
        return (X.mT if turned else X) @ M
    h, out = n // 2, torch.empty(M.shape, dtype=M.dtype, device=M.device)
    above, below = M[..., :h, :], M[..., h:, :]
    out[..., :h, :] = _triangle_times(X[..., :h, :h], above, turned)
    out[..., h:, :] = _triangle_times(X[..., h:, h:], below, turned)
    if turned:
        _add_product(out[..., :h, :], X[..., h:, :h].mT, below)
    else:
        _add_product(out[..., h:, :], X[..., h:, :h], above)
    return out


def _gram_of_lower(X: Tensor, out: Tensor) -> None:
    """The lower triangle of X'X with X lower triangular; what is above is anything."""
    n = X.shape[-1]
    if n <= LEAF:
        out[...] = X.mT @ X
        return
    h = n // 2
    _gram_of_lower(X[..., :h, :h], out[..., :h, :h])
    _add_gram(X[..., h:, :h], out[..., :h, :h])
    out[..., h:, :h] = _triangle_times(X[..., h:, h:], X[..., h:, :h], turned=True)
    _gram_of_lower(X[..., h:, h:], out[..., h:, h:])


def _add_gram(M: Tensor, out: Tensor) -> None:
    """out += M'M, the lower triangle."""
    n = M.shape[-1]
    if n <= LEAF:
        _add_product(out, M.mT, M)
        return
    h = n // 2
    _add_gram(M[..., :h], out[..., :h, :h])
    _add_product(out[..., h:, :h], M[..., h:].mT, M[..., :h])
    _add_gram(M[..., h:], out[..., h:, h:])


def _lower_of_inverse(L: Tensor) -> Tensor:
    """The lower triangle of (L L')^-1; what is above is anything."""
    X = lower_inverse(L)
    P = torch.empty_like(X)
    _gram_of_lower(X, P)
    return P


def inverse_from_factor(L: Tensor) -> Tensor:
    """(L L')^-1, both triangles: the lower one is mirrored in place."""
    P = _lower_of_inverse(L).tril_()
    P += P.tril(-1).mT
    return P


def diagonal_of_inverse(L: Tensor) -> Tensor:
    """The diagonal of (L L')^-1: column sums of squares of L^-1."""
    return lower_inverse(L).square_().sum(dim=-2)


def gram_minus_inverse_folded(R: Tensor, L: Tensor) -> Tensor:
    """R R' - (L L')^-1 folded: twice its strict lower triangle, and its diagonal; zeros above. R may be a vector."""
    P = _lower_of_inverse(L)
    if R.ndim == 1:
        P.addr_(R, R, beta=-2.0, alpha=2.0)
    elif P.ndim == 2:
        P.addmm_(R, R.mT, beta=-2.0, alpha=2.0)
    else:
        P.baddbmm_(R, R.mT, beta=-2.0, alpha=2.0)
    P.tril_()
    diagonal(P).mul_(0.5)
    return P


def symmetric_eigen(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues in rising order and eigenvectors, one per column."""
    try:
        e, U = torch.linalg.eigh(A)
    except torch.linalg.LinAlgError:
        e, U = A.new_full((1,), torch.nan), A
    if not bool(torch.isfinite(e).all()):
        raise NotPositiveDefiniteError("the eigendecomposition of a covariance matrix failed: it holds NaN or infinity")
    return e, U


def squared_distances(A: Tensor, C: Tensor) -> Tensor:
    """|a_i - c_j|^2: sums of squared differences for few columns, one matrix product for many, as in `linalg`."""
    d = A.shape[-1]
    if d <= FEW_COLUMNS:
        out = (A[..., :, None, 0] - C[..., None, :, 0]).square_() if d else A.new_zeros((*A.shape[:-1], C.shape[-2]))
        for j in range(1, d):
            difference = A[..., :, None, j] - C[..., None, :, j]
            out.addcmul_(difference, difference)
        return out
    a, c = A.square().sum(dim=-1), C.square().sum(dim=-1)
    norms = a[..., :, None] + c[..., None, :]
    D = (-2.0 * A) @ C.mT
    D += norms
    least = torch.finfo(A.dtype).eps * max(8.0, max(d, GEMM_COLUMNS) ** 0.5)
    return D.masked_fill_(norms.mul_(least) > D, 0.0)


def copy(A: Tensor) -> Tensor:
    """A tensor of its own."""
    return A.clone(memory_format=torch.contiguous_format)


def sparse_product(V: Tensor, S: Any) -> Tensor:
    """S V with S a sparse matrix of the host, in CSR form."""
    at = np.stack([np.repeat(np.arange(S.shape[0]), np.diff(S.indptr)), S.indices])
    values = torch.tensor(S.data, dtype=V.dtype, device=V.device)
    checked = {"check_invariants": False, "is_coalesced": True}  # rows are in order, and SciPy has checked
    return torch.sparse_coo_tensor(torch.tensor(at, device=V.device), values, S.shape, **checked) @ V
