"""Bands that count what is not known about the hyper-parameters."""

import numpy as np
import pytest

import borrow
from borrow import kernels
from borrow.datasets import focused_gap, transfer_family
from borrow.models.focused import model as focused
from borrow.numerics import optimise as hyper


def test_band_equals_the_delta_method_written_out():
    """plug-in variance + J C^-1 J', J and C by differences of whole predictions and gradients."""
    problem = focused_gap(2, random_state=0)
    model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
    setup, values, X = model.fitted_.model.setup, model.fitted_.model.values, problem.X_test[::10]
    at = np.full(len(X), setup.primary)
    plain = focused.condition(values, setup).posterior.predict(X, at, full=True).covariance
    C = hyper.curvature(focused.objective_of(setup, model.fitted_.model.scales, "auto", 1.0), values)
    x = hyper.pack(values)
    J = np.zeros((len(X), len(x)))
    for i in range(len(x)):
        step = 1e-4 * np.eye(len(x))[i]
        up, down = (
            focused.condition(hyper.unpack(x + s * step, values), setup).posterior.predict(X, at).mean for s in (1, -1)
        )
        J[:, i] = (up - down) / 2e-4
    assert np.all(np.array(list(model.rho_.values())) != 0)
    scale = model.fitted_.scale[setup.primary] ** 2
    expected = scale * (plain + J @ np.linalg.solve(C, J.T))
    _, covariance = model.predict(X, return_cov=True)
    _, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(covariance, expected, rtol=2e-3, atol=1e-4 * expected.max())
    np.testing.assert_allclose(std**2, np.diag(covariance), rtol=1e-9)
    assert np.mean(np.diag(expected) > 1.05 * scale * np.diag(plain)) > 0.5  # it is not nothing


@pytest.mark.parametrize(
    "estimator", [borrow.SingleTaskGPRegressor, borrow.PooledGPRegressor, borrow.FocusedGPRegressor]
)
def test_given_parameters_are_known(estimator):
    """With optimizer=None nothing is added: the band of the fit is wider than that of its own parameters, given."""
    problem = transfer_family("same", random_state=1)
    X, y = problem.X[6:26], problem.y[6:26]
    learnt = estimator().fit(X, y)
    given = estimator(kernel=learnt.kernel_, noise=learnt.noise_[0], optimizer=None).fit(X, y)
    mean, std = learnt.predict(problem.X_test, return_std=True)
    same, narrow = given.predict(problem.X_test, return_std=True)
    np.testing.assert_allclose(mean, same, atol=1e-7)
    assert np.all(std >= narrow - 1e-9)
    assert std.mean() > 1.01 * narrow.mean()


def test_one_task_has_the_same_band_in_both_estimators():
    problem = focused_gap(0, random_state=3)
    own = np.isfinite(problem.y)
    one = borrow.FocusedGPRegressor(inducing="primary").fit(problem.X[own], problem.y[own])
    two = borrow.SingleTaskGPRegressor().fit(problem.X[own], problem.y[own])
    grid = problem.grid[::5]
    np.testing.assert_allclose(one.predict(grid, return_std=True)[1], two.predict(grid, return_std=True)[1], rtol=0.02)


def test_bands_of_small_samples_cover():
    """Draws from a GP, ten rows each: the 90 % band covers more of the truth than the plug-in band does."""
    rng = np.random.default_rng(0)
    kernel, grid = kernels.SquaredExponential(1.0, 1.0), np.linspace(-4, 4, 40)[:, None]
    covered, plug_in = [], []
    for _ in range(40):
        X = rng.uniform(-4, 4, (10, 1))
        K = kernel(np.vstack([X, grid])) + 1e-9 * np.eye(50)
        f = np.linalg.cholesky(K) @ rng.normal(size=50)
        model = borrow.SingleTaskGPRegressor().fit(X, f[:10] + 0.1 * rng.normal(size=10))
        fixed = borrow.SingleTaskGPRegressor(kernel=model.kernel_, noise=model.noise_[0], optimizer=None)
        fixed.fit(X, model.predict(X))
        mean, std = model.predict(grid, return_std=True)
        covered.append(np.mean(np.abs(mean - f[10:]) < 1.645 * std))
        plug_in.append(np.mean(np.abs(mean - f[10:]) < 1.645 * fixed.predict(grid, return_std=True)[1]))
    assert np.mean(covered) > np.mean(plug_in) + 0.02
    assert np.mean(covered) > 0.8


def test_at_the_edge_of_what_can_be_factored_the_step_goes_the_other_way():
    from borrow.inference.hyper_uncertainty import hyper_uncertainty
    from borrow.kernels import SquaredExponential
    from borrow.numerics.linalg import NotPositiveDefiniteError

    kernel, Z = SquaredExponential(1.0, 1.0), np.zeros((1, 1))
    at = {"kernel": kernel.theta, "noise": np.array([0.5])}

    def quadratic(low, high):
        def evaluate(values):
            noise = float(values["noise"][0])
            if not low <= noise <= high:
                raise NotPositiveDefiniteError("beyond the edge")
            return {"kernel": -2.0 * values["kernel"], "noise": np.array([-3.0 * noise])}, np.array([noise])

        return evaluate

    whole = hyper_uncertainty(quadratic(-9, 9), at, kernel, Z)
    edge = hyper_uncertainty(quadratic(-9, 0.5), at, kernel, Z)
    np.testing.assert_allclose(edge.curvature, whole.curvature, atol=1e-8)
    assert hyper_uncertainty(quadratic(0.5, 0.5), at, kernel, Z) is None
