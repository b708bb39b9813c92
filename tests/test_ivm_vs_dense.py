"""Selection, sites, evidence and gradients of the IVM against dense, literal versions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import oracles_ivm as oracle
from borrow.data.cells import Cells
from borrow.inference.adf import GaussianFactors, ProbitFactors
from borrow.inference.likelihoods import hazard
from borrow.kernels import Constant, Linear, Matern, SmoothLinear, SquaredExponential
from borrow.models.ivm.model import blocks_of, condition, frozen_objective, gather, log_evidence, select
from borrow.models.ivm.problems import Regression
from borrow.numerics.optimise import pack, unpack
from borrow.tasks.placed import PlacedTasks, rows_as_tasks
from borrow.testing import assert_same_gradient
from oracles import central_difference

KERNELS = [
    SquaredExponential(1.3, (0.8, 1.7)),
    SquaredExponential(0.7, 1.2) + Constant(0.4),
    Matern(1.0, 0.9, nu=1.5) + Linear(0.3),
    SmoothLinear(0.9, (1.1, 2.0), 0.5, 0.3),
]


def problem(seed):
    """Four tasks of unequal size, one of them empty, two inputs."""
    rng = np.random.default_rng(seed)
    sizes = rng.permutation([0, 5, 9, 14])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(starts[-1], 2)) * 1.5
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    task = np.repeat(np.arange(4), sizes)
    return rng, X, starts, task, f, KERNELS[seed % len(KERNELS)]


def gaussian(seed):
    rng, X, starts, task, f, kernel = problem(seed)
    y, noise = f + 0.3 * rng.normal(size=len(f)), rng.uniform(0.02, 0.3, len(f))
    return kernel, X, starts, task, y, noise, GaussianFactors(y, noise), oracle.gaussian_slopes


def probit(seed):
    rng, X, starts, task, f, kernel = problem(seed)
    y, bias = np.where(f + rng.normal(size=len(f)) > 0.3, 1.0, -1.0), rng.normal(size=4)[task]
    return kernel, X, starts, task, y, bias, ProbitFactors(y, bias), oracle.probit_slopes


BOTH = pytest.mark.parametrize("make", [gaussian, probit])


@BOTH
@pytest.mark.parametrize("seed", range(50))
def test_selection_is_the_dense_greedy_one(make, seed):
    kernel, X, starts, task, y, extra, factors, slopes = make(seed)
    rows, gains, tau, z, mean, cov = oracle.greedy(kernel, X, task, y, extra, 12, slopes)
    s = select(kernel, X, starts, factors, 12)
    assert_array_equal(s.active, rows)
    assert_allclose(s.gain, gains, rtol=0, atol=1e-10)
    assert_allclose(s.mean, mean, rtol=0, atol=1e-10)
    assert_allclose(s.variance, np.diagonal(cov), rtol=0, atol=1e-10)
    assert_allclose(s.tau, tau, rtol=1e-8)
    assert_allclose(s.z, z, rtol=1e-8, atol=1e-8)
    a = gather(s, rows_as_tasks(X, starts))
    value, _, _ = log_evidence(kernel, a.X, blocks_of(a.starts), a.tau, a.z)
    assert_allclose(value, oracle.evidence(kernel, X[rows], task[rows], tau, z), rtol=0, atol=1e-8)
    p = condition(kernel, a).predict(X, task)
    assert_allclose(p.mean, mean, rtol=0, atol=1e-8)
    assert_allclose(p.variance, np.diagonal(cov), rtol=0, atol=1e-8)


def test_slopes_are_derivatives_of_log_z():
    rng = np.random.default_rng(0)
    for _ in range(20):
        y, m, v, e = rng.choice([-1.0, 1.0]), rng.normal(), rng.uniform(0.1, 3.0), rng.uniform(0.1, 1.0)
        for slopes, log_z in (
            (oracle.gaussian_slopes, oracle.gaussian_log_z),
            (oracle.probit_slopes, oracle.probit_log_z),
        ):
            by = central_difference(lambda x, f=log_z, y=y, e=e: f(y, x[0], x[1], e), np.array([m, v]))
            assert_allclose(slopes(y, m, v, e), [by[0], by[0] ** 2 - 2 * by[1]], rtol=1e-5)


def test_ties_go_to_the_first_row():
    """All first scores of a stationary kernel tie; far apart, so do the next ones."""
    X = 100.0 * np.arange(6.0)[:, None]
    s = select(SquaredExponential(), X, np.array([0, 3, 6]), GaussianFactors(np.zeros(6), np.full(6, 0.1)), 6)
    assert_array_equal(s.active, np.arange(6))


def test_given_order_is_kept_and_a_posterior_of_all_rows_is_exact():
    kernel, X, starts, task, y, noise, factors, _ = gaussian(3)
    order = np.random.default_rng(0).permutation(len(y))
    s = select(kernel, X, starts, factors, 0, order)
    assert_array_equal(s.active, order)
    K = np.where(task[:, None] == task, kernel(X), 0.0)
    gain = np.linalg.solve(K + np.diag(noise), K).T
    assert_allclose(s.mean, gain @ y, atol=1e-10)
    assert_allclose(s.variance, np.diagonal(K - gain @ K), atol=1e-10)
    total = 0.5 * np.linalg.slogdet(np.eye(len(y)) + K / noise)[1]  # entropy falls by as much in any order
    assert_allclose(s.gain.sum(), total, rtol=1e-10)


@pytest.mark.parametrize("most", [1, 8, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_evidence_does_not_depend_on_how_tasks_share_a_matrix(seed, most):
    kernel, X, starts, _, _, _, factors, _ = probit(seed)
    a = gather(select(kernel, X, starts, factors, 15), rows_as_tasks(X, starts))
    alone = log_evidence(kernel, a.X, blocks_of(a.starts, 0), a.tau, a.z)
    together = log_evidence(kernel, a.X, blocks_of(a.starts, most), a.tau, a.z)
    for one, other in zip(alone, together, strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(8))
def test_gradient_at_frozen_sites(seed):
    kernel, X, starts, _, _, _, factors, _ = probit(seed)
    a = gather(select(kernel, X, starts, factors, 14), rows_as_tasks(X, starts))
    objective = frozen_objective(kernel, a)
    theta = kernel.theta + 0.2
    numerical = central_difference(lambda t: objective({"kernel": t})[0], theta)
    assert_same_gradient(objective({"kernel": theta})[1]["kernel"], numerical)


@pytest.mark.parametrize("prior", ["auto", None])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_of_the_regression_by_kernel_and_noise(seed, shared, prior):
    kernel, X, starts, task, y, _, _, _ = gaussian(seed)
    rng, M = np.random.default_rng(seed), len(starts) - 1
    full = np.diff(starts) > 0
    cells = Cells(X, y, rng.integers(1, 4, len(y)).astype(float), starts, 3.0 * full, 0.4 * full, -0.7 * full)
    n_noise = 1 if shared else M
    r = Regression(PlacedTasks(cells), kernel, np.ones(2), prior, 10, n_noise)
    values = {"kernel": kernel.theta, "noise": np.log(rng.uniform(0.05, 0.3, n_noise))}
    active = r.active(r.select(values, 13))
    objective = r.penalised(active)
    numerical = central_difference(lambda x: objective(unpack(x, values))[0], pack(values))
    assert_same_gradient(pack(objective(values)[1]), numerical)
    expected = oracle.evidence(
        kernel, active.X, task[active.rows], cells.count[active.rows] / r.noise_of(values)[active.task], y[active.rows]
    )
    noise = r.noise_of(values)
    scatter = -0.5 * (cells.dof * np.log(2 * np.pi * noise) + cells.scatter / noise) + cells.log_count
    assert_allclose(r.objective(active)(values)[0], expected + scatter.sum(), rtol=1e-10)


def test_probit_sites_far_out_are_finite_and_positive():
    margin = np.concatenate([-np.logspace(5, -3, 200), np.linspace(0.0, 40.0, 401)])
    for variance in (1e-6, 0.5, 30.0, 1e6):
        for y in (1.0, -1.0):
            mean, v = y * margin * np.sqrt(1.0 + variance), np.full(len(margin), variance)
            factors = ProbitFactors(np.full(len(margin), y), np.zeros(len(margin)))
            tau, z = factors.sites(slice(None), mean, v)
            g, nu = factors.slopes(slice(None), mean, v)
            assert np.all(np.isfinite(tau))
            assert np.all(tau > 0)
            assert np.all(np.isfinite(z))
            assert np.all(nu >= 0)
            assert np.all(nu * v < 1)
            assert np.all(y * g >= 0)
            assert np.all(factors.gain(slice(None), nu, v) >= 0)


def test_hazard_in_the_tail_is_the_continued_fraction():
    t = np.array([10.0, 30.0, 49.9, 50.1, 80.0, 1e3, 1e5])
    expected = np.array([oracle.mills_excess(v) for v in t])
    r, excess = hazard(-t)
    assert_allclose(excess, expected, rtol=2e-12)
    assert_allclose(r, t + expected, rtol=1e-13)
