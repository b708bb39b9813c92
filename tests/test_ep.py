"""EP against a literal sequential dense EP, and the likelihoods it asks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtri
from scipy.stats import norm

import oracles
from borrow import kernels
from borrow.covariance import Basis, SharedCovariance
from borrow.covariance.contracts import Sites
from borrow.data.cells import Cells
from borrow.estimators.classifier import ROUGH
from borrow.inference import EPInference, ep
from borrow.inference.ep import cavity, class_bias
from borrow.inference.likelihoods import Logistic, Probit
from borrow.models.focused import model as focused
from borrow.tasks.placed import PlacedTasks, rows_as_tasks


def dense_prior(X, kernel):
    return SharedCovariance(rows_as_tasks(X, np.array([0, len(X)])), [], [], np.zeros((1, 0)), [kernel])


@pytest.mark.parametrize("seed", range(200))
def test_parallel_ep_equals_sequential_ep(seed):
    """Random problems of 5 to 60 rows, weak and informative kernels, with a bias."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 61)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    kernel = kernels.SquaredExponential(10.0 ** rng.uniform(-1, 1.5), 10.0 ** rng.uniform(-0.7, 0.7))
    y = np.where(rng.normal(size=n) + X[:, 0] > 0, 1.0, -1.0)
    bias = np.full(n, rng.normal())
    fit = ep(dense_prior(X, kernel), Probit(), y, bias, tol=1e-11, max_sweeps=500)
    assert fit.converged
    evidence, mean, cov = oracles.sequential_ep(kernel(X), y, bias)
    got_mean, got_variance = fit.posterior.marginals()
    assert fit.evidence == pytest.approx(evidence, rel=1e-8)
    np.testing.assert_allclose(got_mean, mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(got_variance, np.diag(cov), rtol=1e-7)


def focused_problem():
    rng = np.random.default_rng(1)
    starts = np.array([0, 8, 15, 15, 16])
    X = rng.normal(size=(16, 2))
    X[9] = X[10]  # repeated rows of one task, with opposite labels
    y = np.where(rng.normal(size=16) + X[:, 0] > 0, 1.0, -1.0)
    y[9], y[10] = 1.0, -1.0
    zero = np.zeros(4)
    cells = Cells(X, y, np.ones(16), starts, zero, zero, zero)
    kernel, own = kernels.SquaredExponential(2.0, (0.9, 1.4)), kernels.Matern(0.7, 0.8, nu=1.5)
    setup = focused.Setup(
        PlacedTasks(cells), 0, kernel, [None, own, own, own], X[:8], infer=EPInference(Probit(), tol=1e-12)
    )
    values = {"kernel": kernel.theta, "rho": np.array([0.8, 0.3, -1.2]), "specific": np.tile(own.theta, 3)}
    return setup, values, kernel, own


def test_focused_ep_equals_sequential_ep_on_the_dense_prior():
    setup, values, kernel, own = focused_problem()
    task = setup.cells.task
    K = oracles.focused_prior(setup.cells.X, task, [1.0, 0.8, 0.3, -1.2], kernel, [None, own, own, own], setup.Z)
    i, j = 9, 10  # two rows of one input: the algebra has two values that differ by Lambda only; so here
    lam = 0.64 * (
        kernel.diag(setup.cells.X[[i]])[0]
        - kernel(setup.cells.X[[i]], setup.Z) @ np.linalg.solve(kernel(setup.Z), kernel(setup.Z, setup.cells.X[[i]]))
    )
    K[i, j] -= float(np.squeeze(lam))
    K[j, i] -= float(np.squeeze(lam))
    evidence, mean, cov = oracles.sequential_ep(K, setup.cells.y, class_bias(setup.cells)[task])
    fit = focused.condition(values, setup)
    got_mean, got_variance = fit.posterior.marginals()
    assert fit.evidence == pytest.approx(evidence, rel=1e-8)
    np.testing.assert_allclose(got_mean, mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(got_variance, np.diag(cov), rtol=1e-7)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
def test_gradient_at_frozen_sites_equals_differences_of_the_evidence(likelihood):
    setup, values, _, _ = focused_problem()
    setup = replace(setup, infer=EPInference(likelihood, tol=1e-12))
    _, gradient = focused.focused_objective(setup)(values)
    for part in values:
        expected = oracles.central_difference(
            lambda v, part=part: focused.condition({**values, part: v}, setup).evidence, values[part]
        )
        np.testing.assert_allclose(gradient[part], expected, rtol=1e-6, atol=1e-7, err_msg=part)


def test_low_rank_prior_equals_sequential_ep():
    """One task without a kernel of its own: the sparse GP."""
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(30, 1)), np.linspace(-2, 2, 6)[:, None]
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=30))
    kernel = kernels.SquaredExponential(3.0, 0.8)
    prior = SharedCovariance(rows_as_tasks(X, np.array([0, 30])), [Basis(kernel, Z)], [0], np.ones((1, 1)), [None])
    fit = ep(prior, Probit(), y, np.zeros(30), tol=1e-11)
    Q = kernel(X, Z) @ np.linalg.solve(kernel(Z), kernel(Z, X))
    K = Q + np.diag(kernel.diag(X) - np.diag(Q))
    evidence, mean, _ = oracles.sequential_ep(K, y, np.zeros(30))
    assert fit.evidence == pytest.approx(evidence, rel=1e-8)
    np.testing.assert_allclose(fit.posterior.marginals()[0], mean, atol=1e-7)


@pytest.mark.parametrize("labels", ["equal", "opposite", "separable"])
@pytest.mark.parametrize("variance", [1e-3, 1.0, 1e6])
def test_no_nan_at_the_extremes(labels, variance):
    X = np.repeat(np.linspace(-1, 1, 10), 2)[:, None]
    y = {"equal": np.ones(20), "opposite": np.tile([1.0, -1.0], 10), "separable": np.sign(X[:, 0])}[labels]
    fit = ep(dense_prior(X, kernels.SquaredExponential(variance, 0.5)), Probit(), y, np.full(20, ndtri(0.98)))
    mean, var = fit.posterior.marginals()
    assert np.isfinite(fit.evidence)
    assert fit.evidence < 0
    assert np.all(np.isfinite(mean))
    assert np.all(var > 0)
    assert np.all(fit.sites.tau >= 0)
    bK = fit.posterior.adjoints().specific[0]
    assert np.all(np.isfinite(bK))


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
@pytest.mark.parametrize("margin", [-1e5, -1e3, -40.0, -5.0, 0.0, 5.0, 40.0])
@pytest.mark.parametrize("variance", [1e-6, 0.9, 1.0, 30.0, 1e3, 1e6])
def test_moments_are_finite_and_log_concave(likelihood, margin, variance):
    log_z, d1, d2 = likelihood.moments(np.ones(1), np.array([margin]), np.array([variance]))
    assert np.isfinite(log_z[0])
    assert log_z[0] <= 1e-12
    assert d1[0] >= 0
    # so that the new site has a precision that is not negative
    least = -1.0 / (variance + isinstance(likelihood, Probit))
    assert least <= d2[0] * (1 - 1e-9) <= 0


@pytest.mark.parametrize("m", [-60.0, -8.0, -1.0, 0.0, 3.0, 40.0])
@pytest.mark.parametrize("v", [0.98, 1.0, 6.0, 400.0, 1e5])
def test_logistic_moments_equal_integration_far_out(m, v):
    """Substituting f = m + sqrt(v) x on a fine grid, in logs."""
    x = np.linspace(-38.0, 38.0, 400_001)
    f = m + np.sqrt(v) * x
    log_w = -0.5 * x**2 - 0.5 * np.log(2 * np.pi) + np.log(x[1] - x[0])
    log_p = -np.logaddexp(0.0, -f)
    log_z = np.logaddexp.reduce(log_w + log_p)
    share = np.exp(log_w + log_p - log_z)
    tilted = share @ f
    d1, d2 = (tilted - m) / v, (share @ (f - tilted) ** 2 / v - 1.0) / v
    got = [float(g[0]) for g in Logistic().moments(np.array([-1.0]), np.array([-m]), np.array([v]))]
    np.testing.assert_allclose(got, [log_z, -d1, d2], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
@pytest.mark.parametrize(("y", "m", "v"), [(1.0, 0.3, 0.5), (-1.0, 1.2, 2.0), (1.0, -2.0, 0.1), (-1.0, -1.0, 4.0)])
def test_moments_equal_integration(likelihood, y, m, v):
    p = (lambda f: norm.cdf(y * f)) if isinstance(likelihood, Probit) else (lambda f: expit(y * f))

    def log_z(m):
        return np.log(
            quad(lambda f: p(f) * norm.pdf(f, m, np.sqrt(v)), m - 12 * np.sqrt(v), m + 12 * np.sqrt(v), epsabs=1e-13)[0]
        )

    h = 1e-3
    got = [float(g[0]) for g in likelihood.moments(np.array([y]), np.array([m]), np.array([v]))]
    assert got[0] == pytest.approx(log_z(m), abs=1e-9)
    assert got[1] == pytest.approx((log_z(m + h) - log_z(m - h)) / (2 * h), abs=1e-6)
    assert got[2] == pytest.approx((log_z(m + h) - 2 * log_z(m) + log_z(m - h)) / h**2, abs=1e-5)


def test_warm_start_needs_fewer_sweeps_and_ends_in_the_same_place():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 2))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=80))
    kernel = kernels.SquaredExponential(4.0, 1.0)
    before = ep(dense_prior(X, kernel), Probit(), y, np.zeros(80))
    moved = dense_prior(X, kernel.with_theta(kernel.theta + 0.02))
    cold, warm = ep(moved, Probit(), y, np.zeros(80)), ep(moved, Probit(), y, np.zeros(80), before.sites)
    assert warm.n_sweeps < cold.n_sweeps
    assert warm.evidence == pytest.approx(cold.evidence, abs=1e-8)


def test_too_few_sweeps_is_said():
    X = np.linspace(-1, 1, 30)[:, None]
    fit = ep(
        dense_prior(X, kernels.SquaredExponential(9.0, 0.5)), Probit(), np.sign(X[:, 0]), np.zeros(30), max_sweeps=2
    )
    assert not fit.converged
    assert fit.residual > 1e-6


def test_no_rows_leave_the_prior():
    fit = ep(dense_prior(np.zeros((0, 1)), kernels.SquaredExponential(9.0, 0.5)), Probit(), np.zeros(0), np.zeros(0))
    assert fit.converged
    assert fit.evidence == 0.0
    assert fit.posterior.predict(np.ones((1, 1)), np.zeros(1, dtype=int)).variance == pytest.approx(9.0)


def test_bias_is_the_share_of_positives():
    y = np.array([1, 1, 1, -1, 1, 1, -1.0])
    cells = Cells(np.zeros((7, 1)), y, np.ones(7), np.array([0, 4, 6, 6, 7]), *[np.zeros(4)] * 3)
    np.testing.assert_allclose(norm.cdf(class_bias(cells)), [0.75, 0.98, 0.5, 0.02])


def test_gradient_of_the_search_is_that_of_the_converged_evidence():
    """At the tolerance that hyper-parameters are learnt with: nearly separable rows, long and short lengthscales."""
    worst = 0.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(5, 41)), int(rng.integers(1, 4))
        X = rng.normal(size=(n, d))
        lengthscale = 10.0 ** rng.uniform(-0.7, 1.0, size=d)
        kernel = kernels.SquaredExponential(10.0 ** rng.uniform(-1, 3), tuple(lengthscale) if d > 1 else lengthscale[0])
        y = np.where(10.0 ** rng.uniform(-1.5, 0.5) * rng.normal(size=n) + X[:, 0] > 0, 1.0, -1.0)
        bias = np.full(n, rng.normal())

        def fit(theta, tol, kernel=kernel, X=X, y=y, bias=bias):
            return ep(dense_prior(X, kernel.with_theta(theta)), Probit(), y, bias, tol=tol, max_sweeps=500)

        expected = oracles.central_difference(lambda theta, f=fit: f(theta, 1e-12).evidence, kernel.theta, 1e-4)
        found = fit(kernel.theta, ROUGH)
        assert found.converged
        worst = max(worst, float(np.abs(found.gradient()[0].specific[0] - expected).max()))
    assert worst < 1e-5


def test_extrapolated_sweeps_reach_the_fixed_point_of_plain_ones_in_fewer():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    prior, y = dense_prior(X, kernels.SquaredExponential(100.0, 1.5)), np.where(X[:, 0] > 0, 1.0, -1.0)
    fit = ep(prior, Probit(), y, np.zeros(60), tol=1e-10)
    plain, sweeps = ep(prior, Probit(), y, np.zeros(60), max_sweeps=1), 1
    while plain.residual > 1e-10:  # one sweep at a time has nothing to extrapolate from
        cavity_m, cavity_v = cavity(*plain.posterior.marginals(), plain.sites)
        _, d1, d2 = Probit().moments(y, cavity_m, cavity_v)
        new = Sites((d1 - d2 * cavity_m) / (1.0 + d2 * cavity_v), -d2 / (1.0 + d2 * cavity_v))
        plain, sweeps = ep(prior, Probit(), y, np.zeros(60), new, max_sweeps=1), sweeps + 1
    np.testing.assert_allclose(fit.sites.tau, plain.sites.tau, rtol=1e-7)
    assert fit.evidence == pytest.approx(plain.evidence, rel=1e-10)
    assert fit.n_sweeps < 0.75 * sweeps
