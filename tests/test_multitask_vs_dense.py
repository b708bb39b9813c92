"""Every path of the symmetric multi-task GP against the matrix written out: evidence, predictions, derivatives."""

import numpy as np
import pytest

import oracles_multitask as oracle
from borrow.covariance import CompleteTasks, DenseTasks, Design, LowRankTasks, Sites
from borrow.data.cells import merge
from borrow.kernels import Constant, Matern, SquaredExponential
from borrow.tasks.placed import PlacedTasks


def problem(seed, sizes, pool=None, d=2, counts=True):
    """Tasks of unequal size; inputs drawn from a pool where they are to repeat."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, d)) if pool is None else rng.permutation(pool)[:n] for n in sizes]
    task = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.normal(size=len(task))
    weight = rng.integers(1, 4, len(task)).astype(float) if counts else np.ones(len(task))
    cells = merge(np.vstack(X), task, y, np.ones(len(task)), weight, len(sizes))
    return rng, cells


def sites(cells, noise):
    tau = cells.count / noise[cells.task]
    return tau * cells.y, tau


def full_evidence(posterior, tau):
    return posterior.evidence + 0.5 * np.log(tau).sum()


def differences(f, x, step=1e-6):
    x = np.asarray(x, dtype=float)
    out = np.empty_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        out[i] = (f(up) - f(down)) / (2 * step)
    return out


POOL = np.random.default_rng(7).normal(size=(12, 2))
DESIGNS = {"distinct": ((5, 0, 1, 7), None), "repeated": ((9, 12, 1, 11), POOL)}
KERNEL = SquaredExponential(1.0, (0.9, 1.4), fixed=("variance",))


def spd(rng, M):
    A = rng.normal(size=(M, M))
    return A @ A.T / M + 0.3 * np.eye(M)


@pytest.mark.parametrize("turned", [[0, 1], [1, 0]])
def test_a_design_says_at_which_input_each_row_is(turned):
    """In the order that merged cells have, which need not be that of the first column."""
    rng = np.random.default_rng(4)
    grid = np.array(np.meshgrid([0.0, 1.0, 2.0], [5.0, -1.0])).reshape(2, -1).T[:, turned]
    X, task = np.tile(grid, (3, 1)), np.repeat(np.arange(3), 6)
    cells = merge(X, task, rng.normal(size=18), np.ones(18), np.ones(18), 3, columns=np.array([1, 0]))
    design = Design.from_cells(cells)
    np.testing.assert_array_equal(design.inputs[design.index], cells.X)
    np.testing.assert_array_equal(design.index, np.tile(np.arange(6), 3))
    assert design.complete


@pytest.mark.parametrize("which", DESIGNS)
@pytest.mark.parametrize("own", [False, True])
def test_dense_path(which, own):
    sizes, pool = DESIGNS[which]
    rng, cells = problem(1, sizes, pool)
    M = len(sizes)
    B, noise = spd(rng, M), rng.uniform(0.1, 0.5, M)
    c = 0.4 if own else 0.0
    specific = [SquaredExponential(0.5, 0.7), None, Matern(0.3, 1.1), None] if own else [None] * M
    nu, tau = sites(cells, noise)
    posterior = DenseTasks(Design.from_cells(cells), KERNEL, B, c, specific).condition(Sites(nu, tau))
    K = oracle.prior_covariance(cells.X, cells.task, cells.X, cells.task, KERNEL, B, c, specific)
    assert full_evidence(posterior, tau) == pytest.approx(oracle.evidence(K, cells.y, 1 / tau), abs=1e-8)
    X, task = rng.normal(size=(9, 2)), rng.integers(0, M, 9)
    X[:3] = cells.X[:3]
    cross = oracle.prior_covariance(X, task, cells.X, cells.task, KERNEL, B, c, specific)
    new = oracle.prior_covariance(X, task, X, task, KERNEL, B, c, specific)
    mean, cov = oracle.predict(K, cross, new, cells.y, 1 / tau)
    p, full = posterior.predict(X, task), posterior.predict(X, task, full=True)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(full.covariance, cov, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(cov), atol=1e-8)

    def value(kernel=KERNEL, B=B, c=c, specific=specific, tau=tau):
        K = oracle.prior_covariance(cells.X, cells.task, cells.X, cells.task, kernel, B, c, specific)
        return oracle.evidence(K, cells.y, 1 / tau)

    g = posterior.adjoints()
    np.testing.assert_allclose(
        g.bases[0], differences(lambda t: value(kernel=KERNEL.with_theta(t)), KERNEL.theta), atol=1e-6
    )
    np.testing.assert_allclose(g.B + g.B.T, 2 * differences(lambda b: value(B=0.5 * (b + b.T)), B), atol=1e-6)
    assert g.intercept == pytest.approx(differences(lambda v: value(c=float(v)), np.array(c)), abs=1e-6)
    for t in (0, 2) if own else ():

        def moved(theta, t=t):
            return value(specific=[k.with_theta(theta) if i == t else k for i, k in enumerate(specific)])

        np.testing.assert_allclose(g.specific[t], differences(moved, specific[t].theta), atol=1e-6)
    by_variance = differences(lambda v: oracle.evidence(K, cells.y, v), 1 / tau)
    np.testing.assert_allclose(g.noise, by_variance, atol=1e-5)


def test_complete_path():
    rng, cells = problem(2, (6, 6, 6), POOL[:6], counts=False)
    per_input, per_task = rng.integers(1, 4, 6), np.array([1, 2, 1])
    count = np.multiply.outer(per_task, per_input).ravel().astype(float)
    cells = merge(cells.X, cells.task, cells.y, np.ones(18), count, 3)
    B, noise = spd(rng, 3), rng.uniform(0.1, 0.5, 3)
    nu, tau = sites(cells, noise)
    design = Design.from_cells(cells)
    assert design.complete
    posterior = CompleteTasks(design, KERNEL, B).condition(Sites(nu, tau))
    dense = DenseTasks(design, KERNEL, B).condition(Sites(nu, tau))
    K = oracle.prior_covariance(cells.X, cells.task, cells.X, cells.task, KERNEL, B)
    assert full_evidence(posterior, tau) == pytest.approx(oracle.evidence(K, cells.y, 1 / tau), abs=1e-8)
    X, task = rng.normal(size=(7, 2)), rng.integers(0, 3, 7)
    cross = oracle.prior_covariance(X, task, cells.X, cells.task, KERNEL, B)
    mean, cov = oracle.predict(K, cross, oracle.prior_covariance(X, task, X, task, KERNEL, B), cells.y, 1 / tau)
    p, full = posterior.predict(X, task), posterior.predict(X, task, full=True)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(cov), atol=1e-8)
    np.testing.assert_allclose(full.covariance, cov, atol=1e-8)
    for name in ("bases", "B", "noise"):  # the dense path's are checked against differences above
        np.testing.assert_allclose(getattr(posterior.adjoints(), name), getattr(dense.adjoints(), name), atol=1e-8)
    for one, other in zip(posterior.marginals(), dense.marginals(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    np.testing.assert_allclose(posterior.by_inputs(), dense.by_inputs(), atol=1e-8)


@pytest.mark.parametrize("c", [0.0, 0.7])
@pytest.mark.parametrize("which", ["repeated", "distinct"])
@pytest.mark.parametrize("m", [4, None])
def test_low_rank_path(which, c, m):
    sizes, pool = DESIGNS[which]
    rng, cells = problem(3, sizes, pool)
    M, P = len(sizes), 2
    R, noise = rng.normal(size=(M, P)), rng.uniform(0.1, 0.5, M)
    nu, tau = sites(cells, noise)
    design = Design.from_cells(cells)
    Z = design.inputs if m is None else rng.normal(size=(m, 2))
    posterior = LowRankTasks(PlacedTasks(cells), KERNEL, Z, R, c).condition(Sites(nu, tau))

    def value(kernel=KERNEL, R=R, c=c, variance=1 / tau):
        K = oracle.nystrom_covariance(cells.X, cells.task, cells.X, cells.task, kernel, Z, R, c, same=True)
        return oracle.evidence(K, cells.y, variance)

    assert full_evidence(posterior, tau) == pytest.approx(value(), abs=1e-8)
    if m is None:  # all distinct inputs: nothing is lost
        K = oracle.prior_covariance(cells.X, cells.task, cells.X, cells.task, KERNEL, R @ R.T, c)
        assert value() == pytest.approx(oracle.evidence(K, cells.y, 1 / tau), abs=1e-8)
    g = posterior.adjoints()
    np.testing.assert_allclose(
        g.bases[0], differences(lambda t: value(kernel=KERNEL.with_theta(t)), KERNEL.theta), atol=1e-6
    )
    np.testing.assert_allclose(g.weights, differences(lambda r: value(R=r), R), atol=1e-6)
    if c:
        assert g.intercept == pytest.approx(differences(lambda v: value(c=float(v)), np.array(c)), abs=1e-6)
    np.testing.assert_allclose(g.noise, differences(lambda v: value(variance=v), 1 / tau), atol=1e-5)
    X, task = rng.normal(size=(8, 2)), rng.integers(0, M, 8)
    K = oracle.nystrom_covariance(cells.X, cells.task, cells.X, cells.task, KERNEL, Z, R, c, same=True)
    cross = oracle.nystrom_covariance(X, task, cells.X, cells.task, KERNEL, Z, R, c)
    new = oracle.nystrom_covariance(X, task, X, task, KERNEL, Z, R, c, same=True)
    mean, cov = oracle.predict(K, cross, new, cells.y, 1 / tau)
    p, full = posterior.predict(X, task), posterior.predict(X, task, full=True)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(cov), atol=1e-8)
    np.testing.assert_allclose(full.covariance, cov, atol=1e-8)
    mean, cov = oracle.predict(K, K, K, cells.y, 1 / tau)
    for one, other in zip(posterior.marginals(), (mean, np.diag(cov)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    np.testing.assert_allclose(p.variance >= 0, True)


def test_dense_marginals_with_weak_sites():
    rng, cells = problem(4, (5, 6, 3), None)
    B = spd(rng, 3)
    tau = np.array([1e-13, 1e-7, 1.0, 1e3, 0.0] * 3)[: len(cells.y)]
    nu = tau * cells.y
    prior = DenseTasks(Design.from_cells(cells), KERNEL, B)
    mean, variance = prior.condition(Sites(nu, tau)).marginals()
    seen = tau > 0
    gain = prior.K[:, seen] @ np.linalg.inv(prior.K[np.ix_(seen, seen)] + np.diag(1 / tau[seen]))
    np.testing.assert_allclose(mean, gain @ cells.y[seen], atol=1e-9)
    np.testing.assert_allclose(variance, np.diag(prior.K - gain @ prior.K[seen]), atol=1e-9)


def test_constant_kernel_and_intercept_are_the_same_thing():
    """An intercept of variance c equals a constant kernel of the task's own."""
    rng, cells = problem(5, (4, 6), None)
    B, noise = spd(rng, 2), np.array([0.2, 0.3])
    one = DenseTasks(Design.from_cells(cells), KERNEL, B, 0.6).condition(Sites(*sites(cells, noise)))
    other = DenseTasks(Design.from_cells(cells), KERNEL, B, 0.0, [Constant(0.6)] * 2).condition(
        Sites(*sites(cells, noise))
    )
    assert one.evidence == pytest.approx(other.evidence, abs=1e-10)
    X, task = rng.normal(size=(5, 2)), np.array([0, 1, 1, 0, 1])
    np.testing.assert_allclose(one.predict(X, task, full=True).covariance, other.predict(X, task, full=True).covariance)
