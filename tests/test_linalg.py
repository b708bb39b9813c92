"""Each matrix identity against numpy's dense result."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from borrow.numerics import linalg
from borrow.numerics.linalg import NotPositiveDefiniteError


@pytest.fixture(params=[1, 5, 70], ids="n={}".format)
def problem(request):
    """A well-posed matrix, its factor by numpy, and two unsymmetric companions."""
    n, random = request.param, np.random.default_rng(request.param)
    G = random.normal(size=(n, 2 * n))
    A = G @ G.T / n + np.eye(n)
    return A, np.linalg.cholesky(A), random.normal(size=(n, 3)), random.normal(size=(4, n))


def test_cholesky_is_the_lower_factor_and_leaves_the_matrix_alone(problem):
    A, L, _, _ = problem
    before = A.copy()
    found = linalg.cholesky(A)
    assert_allclose(found, L, rtol=1e-10, atol=1e-12)
    assert_array_equal(found, np.tril(found))
    assert_array_equal(A, before)
    assert_array_equal(linalg.cholesky(A, overwrite=True), found)


@pytest.mark.parametrize("order", ["C", "F"])
def test_left_solves(problem, order):
    A, L, B, _ = problem
    B = np.asarray(B, order=order)
    F, before = linalg.cholesky(A), B.copy()
    for right in (B, B[:, 1]):  # a matrix, and a vector that is not contiguous
        assert_allclose(linalg.solve_lower(F, right), np.linalg.solve(L, right), rtol=1e-9, atol=1e-12)
        expected = np.linalg.solve(L.T, right)
        assert_allclose(linalg.solve_lower_transposed(F, right), expected, rtol=1e-9, atol=1e-12)
        assert_allclose(linalg.solve(F, right), np.linalg.solve(A, right), rtol=1e-9, atol=1e-12)
    assert_array_equal(B, before)


def test_right_solves(problem):
    A, L, _, C = problem
    F, before = linalg.cholesky(A), C.copy()
    assert_allclose(linalg.right_solve(C, F), C @ np.linalg.inv(L), rtol=1e-9, atol=1e-12)
    assert_allclose(linalg.right_solve_transposed(C, F), C @ np.linalg.inv(L).T, rtol=1e-9, atol=1e-12)
    assert_array_equal(C, before)


def test_inverse_gram_and_determinant(problem):
    A, _, B, _ = problem
    F = linalg.cholesky(A)
    before = F.copy()
    inverse = np.linalg.inv(A)
    assert_allclose(linalg.inverse_from_factor(F), inverse, rtol=1e-9, atol=1e-12)
    assert_allclose(linalg.gram_minus_inverse(B, F), B @ B.T - inverse, rtol=1e-9, atol=1e-12)
    assert_allclose(linalg.gram_minus_inverse(B[:, :0], F), -inverse, rtol=1e-9, atol=1e-12)
    assert_array_equal(F, before)
    assert linalg.log_determinant(F) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-10)


@pytest.mark.parametrize("n", [linalg.LEAF, linalg.LEAF + 1, 2 * linalg.LEAF + 3])
def test_a_triangle_inverted_by_halves(n):
    B = np.random.default_rng(n).normal(size=(n, n))
    L = linalg.cholesky(B @ B.T + n * np.eye(n))
    assert_allclose(linalg.lower_inverse(L) @ L, np.eye(n), atol=1e-12)
    assert_array_equal(np.triu(linalg.lower_inverse(L), 1), 0.0)
    assert_allclose(linalg.inverse_from_factor(L) @ L @ L.T, np.eye(n), atol=1e-11)


def test_diagonal_of_inverse(problem):
    A, _, _, _ = problem
    F = linalg.cholesky(A)
    before = F.copy()
    assert_allclose(linalg.diagonal_of_inverse(F), np.diag(np.linalg.inv(A)), rtol=1e-9)
    assert_array_equal(F, before)
    ill = np.diag(np.geomspace(1e-12, 1e12, len(A)))
    assert_allclose(linalg.diagonal_of_inverse(linalg.cholesky(ill)), 1.0 / np.diag(ill), rtol=1e-9)


def test_symmetric_eigen(problem):
    A, _, _, _ = problem
    A = A - np.trace(A) / len(A) * np.eye(len(A))  # eigenvalues of either sign
    before = A.copy()
    e, U = linalg.symmetric_eigen(A)
    assert_allclose(e, np.linalg.eigvalsh(A), rtol=0, atol=1e-10)
    assert np.all(np.diff(e) >= 0)
    assert_allclose(U @ np.diag(e) @ U.T, A, atol=1e-10)
    assert_allclose(U.T @ U, np.eye(len(A)), atol=1e-12)
    assert_array_equal(A, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_eigendecomposition_of_nan_is_refused_with_a_sentence(bad):
    A = np.eye(4)
    A[2, 1] = A[1, 2] = bad
    with pytest.raises(NotPositiveDefiniteError, match="holds NaN or infinity"):
        linalg.symmetric_eigen(A)


def test_cholesky_pullback_is_the_derivative_by_symmetric_changes():
    """d sum(bL * chol(A)) along symmetric directions, by differences."""
    random = np.random.default_rng(0)
    G = random.normal(size=(4, 6))
    A, bL = G @ G.T + np.eye(4), np.tril(random.normal(size=(4, 4)))
    bA = linalg.cholesky_pullback(linalg.cholesky(A), bL)
    assert_allclose(bA, bA.T, atol=1e-14)
    for i in range(4):
        for j in range(i + 1):
            E = np.zeros((4, 4))
            E[i, j] = E[j, i] = 1e-6
            moved = np.sum(bL * (np.linalg.cholesky(A + E) - np.linalg.cholesky(A - E))) / 2e-6
            assert np.sum(bA * E) / 1e-6 == pytest.approx(moved, abs=1e-7)
    # What stands above the diagonal of bL has nothing to act on.
    noise = np.triu(random.normal(size=(4, 4)), 1)
    assert_allclose(linalg.cholesky_pullback(linalg.cholesky(A), bL + noise), bA, atol=1e-12)


def test_symmetric_from_lower_mirrors_and_keeps_the_diagonal():
    assert_array_equal(linalg.symmetric_from_lower(np.array([[1.0, 0.0], [5.0, 2.0]])), [[1.0, 5.0], [5.0, 2.0]])


def test_empty_matrices():
    none = np.zeros((0, 0))
    L, jitter = linalg.cholesky_jittered(none)
    assert L.shape == (0, 0)
    assert jitter == 0.0
    assert linalg.log_determinant(L) == 0.0
    assert linalg.inverse_from_factor(L).shape == (0, 0)
    assert linalg.diagonal_of_inverse(L).shape == (0,)
    assert [part.shape for part in linalg.symmetric_eigen(none)] == [(0,), (0, 0)]
    assert linalg.gram_minus_inverse(np.zeros((0, 2)), L).shape == (0, 0)
    for left in (linalg.solve_lower, linalg.solve_lower_transposed, linalg.solve):
        assert left(L, np.zeros((0, 3))).shape == (0, 3)
        assert left(np.eye(2), np.zeros((2, 0))).shape == (2, 0)
    for right in (linalg.right_solve, linalg.right_solve_transposed):
        assert right(np.zeros((3, 0)), L).shape == (3, 0)


def test_well_posed_matrix_gets_no_jitter(problem):
    A, L, _, _ = problem
    found, jitter = linalg.cholesky_jittered(A)
    assert jitter == 0.0
    assert_allclose(found, L, rtol=1e-10, atol=1e-12)


def test_singular_matrix_gets_the_reported_jitter_times_its_mean_diagonal():
    A = 50.0 * np.ones((20, 20))
    A[:3, :3] += np.eye(3)
    L, jitter = linalg.cholesky_jittered(A)
    assert jitter in linalg.JITTER_LADDER
    assert 0.0 < jitter <= 1e-10
    assert_allclose(L @ L.T - A, jitter * np.mean(np.diagonal(A)) * np.eye(20), rtol=0.0, atol=1e-12)


def test_jitter_climbs_only_as_far_as_needed():
    A = np.diag([3.0, 1.0, -1.5e-7])  # mean diagonal 4/3: 1e-7 is too little, 1e-6 is enough
    L, jitter = linalg.cholesky_jittered(A)
    assert jitter == 1e-6
    assert_allclose(L @ L.T, A + 1e-6 * np.mean(np.diagonal(A)) * np.eye(3), rtol=1e-12, atol=1e-20)


@pytest.mark.parametrize("least", [1e-6, 3e-5, 2e-3])
def test_least_jitter_is_added_even_where_none_is_needed(least):
    L, jitter = linalg.cholesky_jittered(2.0 * np.eye(3), least)
    assert jitter == least
    assert_allclose(L @ L.T, 2.0 * (1.0 + least) * np.eye(3), rtol=1e-15)


def test_indefinite_matrix_is_refused_with_a_sentence():
    A = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(NotPositiveDefiniteError, match="leading minor 2 of 2 is not positive definite"):
        linalg.cholesky(A)
    with pytest.raises(NotPositiveDefiniteError, match=r"a 2 x 2 covariance .* even with 0\.0001 times .*; remove"):
        linalg.cholesky_jittered(A)


@pytest.mark.parametrize("where", [(0, 0), (3, 1), (39, 20)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_is_refused_wherever_it_stands(where, bad):
    A = np.eye(40)
    A[where] = A[where[::-1]] = bad
    with pytest.raises(NotPositiveDefiniteError):
        linalg.cholesky(A)
    with pytest.raises(NotPositiveDefiniteError, match="holds NaN or infinite entries"):
        linalg.cholesky_jittered(A)


@pytest.mark.parametrize("d", [1, 3, linalg.GEMM_COLUMNS - 1, linalg.GEMM_COLUMNS, 40])
def test_squared_distances_are_those_of_the_differences(d):
    random = np.random.default_rng(d)
    A, C = random.normal(size=(6, d)), random.normal(size=(4, d))
    expected = ((A[:, None] - C) ** 2).sum(axis=2)
    assert_allclose(linalg.squared_distances(A, C), expected, rtol=1e-12)
    D = linalg.squared_distances(A, A)
    assert_array_equal(D, D.T)


def test_squared_distances_of_many_rows_are_made_part_by_part(monkeypatch):
    A = np.random.default_rng(0).normal(size=(23, linalg.GEMM_COLUMNS))
    whole = linalg.squared_distances(A, A[:9])
    for entries in (1, 9, 40):  # less than a row, one row, four rows and a last part of three
        monkeypatch.setattr(linalg, "AT_ONCE", entries)
        assert_array_equal(linalg.squared_distances(A, A[:9]), whole)
    assert linalg.squared_distances(A[:0], A).shape == (0, 23)
    assert linalg.squared_distances(A, A[:0]).shape == (23, 0)


@pytest.mark.parametrize("d", [2, linalg.GEMM_COLUMNS, 57, 10_000])
def test_equal_rows_are_at_distance_zero(d):
    random = np.random.default_rng(d)
    A = random.normal(size=(60, d)) * np.exp(random.normal(size=d)) + 3.0
    assert_array_equal(np.diagonal(linalg.squared_distances(A, A)), np.zeros(60))
    C = A[[4, 0, 4, 2]].copy()
    D = linalg.squared_distances(A, C)
    assert_array_equal(D[[4, 0, 4, 2], [0, 1, 2, 3]], np.zeros(4))
    assert np.count_nonzero(D == 0.0) == 4


def test_folded_gram_minus_inverse_sums_as_the_full_one():
    rng = np.random.default_rng(3)
    A, r = rng.normal(size=(7, 7)), rng.normal(size=7)
    L = linalg.cholesky(A @ A.T + np.eye(7))
    S = rng.normal(size=(7, 7))
    full, folded = linalg.gram_minus_inverse(r[:, None], L), linalg.gram_minus_inverse_folded(r, L)
    assert np.vdot(folded, S + S.T) == pytest.approx(np.vdot(full, S + S.T), rel=1e-12)
    assert np.diagonal(folded) == pytest.approx(np.diagonal(full), rel=1e-12)
    assert not np.tril(folded, -1).any()
    assert linalg.gram_minus_inverse_folded(np.zeros(0), np.zeros((0, 0))).shape == (0, 0)
