"""The twin of `linalg` for tensors: blocked inverses at sizes where the recursion bites, errors, distances."""

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose

from borrow.numerics import linalg
from borrow.numerics.device import Device
from borrow.numerics.linalg import NotPositiveDefiniteError, to_host

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'borrow[gpu]'")
put = Device(os.environ.get("BORROW_TEST_DEVICE", "cpu")).put


@pytest.fixture(params=["as it is", "small blocks"])
def blocks(request, monkeypatch):
    """Sizes of blocks so small that every branch of the recursions runs on small matrices."""
    if request.param == "small blocks":
        from borrow.numerics import linalg_torch

        for name, size in (("BASE", 3), ("BASE_OF_MANY", 2), ("LEAF", 4)):
            monkeypatch.setattr(linalg_torch, name, size)


def positive(*shape, seed=0):
    A = np.random.default_rng(seed).normal(size=(*shape, shape[-1]))
    return A @ A.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])


@pytest.mark.parametrize("shape", [(1,), (23,), (40,), (3, 17), (2, 1)])
def test_inverses_and_solutions(shape, blocks):
    A, n = positive(*shape), shape[-1]
    L = linalg.cholesky(put(A))
    inverse = np.linalg.inv(A)
    R = np.random.default_rng(1).normal(size=(*shape, 2))
    RR = R @ R.swapaxes(-1, -2)
    assert_allclose(to_host(L @ L.mT), A, rtol=1e-12)
    assert_allclose(to_host(linalg.inverse_from_factor(L)), inverse, rtol=1e-9, atol=1e-12)
    assert_allclose(to_host(linalg.diagonal_of_inverse(L)), np.diagonal(inverse, axis1=-2, axis2=-1), rtol=1e-9)
    assert_allclose(to_host(linalg.gram_minus_inverse(put(R), L)), RR - inverse, rtol=1e-9, atol=1e-12)
    folded = to_host(linalg.gram_minus_inverse_folded(put(R), L))
    S = positive(n, seed=2)
    assert_allclose((folded * S).sum(axis=(-2, -1)), ((RR - inverse) * S).sum(axis=(-2, -1)), rtol=1e-9)
    assert_allclose(to_host(linalg.solve(L, put(R))), np.linalg.solve(A, R), rtol=1e-9, atol=1e-12)
    assert_allclose(to_host(linalg.solve(L, put(R[..., 0]))), np.linalg.solve(A, R)[..., 0], rtol=1e-9, atol=1e-12)
    B = R.swapaxes(-1, -2)
    lower = np.linalg.cholesky(A)
    assert_allclose(to_host(linalg.right_solve(put(B), L)), B @ np.linalg.inv(lower), rtol=1e-9, atol=1e-12)
    across = B @ np.linalg.inv(lower).swapaxes(-1, -2)
    assert_allclose(to_host(linalg.right_solve_transposed(put(B), L)), across, rtol=1e-9, atol=1e-12)
    assert linalg.log_determinant(L) == pytest.approx(np.linalg.slogdet(A)[1].sum(), rel=1e-12)


def test_folded_with_a_vector():
    A, r = positive(9), np.arange(9.0)
    S = positive(9, seed=3)
    folded = linalg.gram_minus_inverse_folded(put(r), linalg.cholesky(put(A)))
    assert_allclose((to_host(folded) * S).sum(), ((np.outer(r, r) - np.linalg.inv(A)) * S).sum(), rtol=1e-9)


def test_what_has_no_factor_is_refused_in_words():
    A = positive(4)
    with pytest.raises(NotPositiveDefiniteError, match="leading minor"):
        linalg.cholesky(put(-A))
    A[1, 1] = np.nan
    with pytest.raises(NotPositiveDefiniteError):
        linalg.cholesky(put(A))
    with pytest.raises(NotPositiveDefiniteError, match="NaN or infinite"):
        linalg.cholesky_jittered(put(A))
    with pytest.raises(NotPositiveDefiniteError, match="shorter lengthscale"):
        linalg.cholesky_jittered(put(np.diag([1.0, -1.0])))
    with pytest.raises(NotPositiveDefiniteError, match="eigendecomposition"):
        linalg.symmetric_eigen(put(A))


def test_jitter_is_the_hosts():
    """Of a matrix that is singular by more than rounding, so that it does not depend on who factors it."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 12)))
    A = (Q * np.linspace(-3e-11, 2.0, 12)) @ Q.T
    A = (A + A.T) / 2.0
    (L, jitter), (host, other) = linalg.cholesky_jittered(put(A)), linalg.cholesky_jittered(A)
    assert jitter == other > 0
    assert_allclose(to_host(L @ L.mT), host @ host.T, atol=1e-14)


@pytest.mark.parametrize("d", [1, 4, 5, 12])
def test_squared_distances(d):
    rng = np.random.default_rng(d)
    A, C = rng.normal(size=(6, d)), rng.normal(size=(4, d))
    by_hand = ((A[:, None] - C) ** 2).sum(axis=2)
    assert_allclose(to_host(linalg.squared_distances(put(A), put(C))), by_hand, rtol=1e-12)
    equal = to_host(linalg.squared_distances(put(A), put(A)))
    assert np.all(np.diagonal(equal) == 0.0)
    assert np.all(equal >= 0.0)
