"""Bands that count what is not known about the hyper-parameters."""

import logging
from dataclasses import dataclass, replace

import numpy as np
import pytest

import borrow
from borrow import kernels
from borrow.covariance import Design
from borrow.covariance.contracts import Prediction
from borrow.data.cells import Cells
from borrow.datasets import focused_gap, transfer_family
from borrow.inference.hyper_uncertainty import (
    HyperUncertainty,
    UncertaintyByTask,
    curvature_of_values,
    direction,
    hyper_uncertainty,
    stretch_of_tasks,
    stretched,
    student_points,
)
from borrow.inference.priors import kernel_prior, noise_prior
from borrow.models.focused.model import condition, model_uncertainty
from borrow.numerics.linalg import NotPositiveDefiniteError
from borrow.numerics.optimise import pack


def log_joint_and_prediction(X, y, grid, theta, noise, scales):
    """Evidence, priors and prediction of one GP, written out; its level has the variance 1."""
    kernel = kernels.SquaredExponential(*np.exp(theta))
    S = kernel(X) + 1.0 + noise * np.eye(len(X))
    alpha, K = np.linalg.solve(S, y), kernel(grid, X) + 1.0
    value = -0.5 * y @ alpha - 0.5 * np.linalg.slogdet(S)[1]
    value += kernel_prior(kernel, scales).log_density(theta)[0]
    value += noise_prior().log_density(np.log([noise]))[0]
    return value, K @ alpha, kernel.diag(grid) + 1.0 - np.einsum("ij,ji->i", K, np.linalg.solve(S, K.T))


@pytest.mark.parametrize("seed", [0, 3])
def test_band_is_that_of_an_integral_over_the_hyper_parameters(seed):
    """The second moment around the mean at the optimum, by a grid of all hyper-parameters, the level integrated out."""
    rng = np.random.default_rng(seed)
    X, grid = rng.uniform(-3, 3, (12, 1)), np.linspace(-3, 3, 25)[:, None]
    y = np.sin(1.3 * X[:, 0]) + 0.2 * rng.normal(size=12)
    model = borrow.SingleTaskGPRegressor().fit(X, y)
    mean, std = model.predict(grid, return_std=True)
    fitted = model.fitted_
    m, s = float(fitted.center[0]), float(fitted.scale[0])
    centre = np.append(model.kernel_.theta, np.log(model.noise_[0] / s**2))
    steps = np.linspace(-3.0, 3.0, 13)
    points = centre + np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), -1).reshape(-1, 3)
    found = [log_joint_and_prediction(X, (y - m) / s, grid, p[:2], np.exp(p[2]), X.std(axis=0)) for p in points]
    w = np.exp([f[0] for f in found] - np.max([f[0] for f in found]))
    w /= w.sum()
    away = np.stack([f[1] for f in found]) - (mean - m) / s
    whole = s * np.sqrt(w @ (np.stack([f[2] for f in found]) + away**2))
    fixed = borrow.SingleTaskGPRegressor(kernel=model.kernel_, noise=model.noise_[0], optimizer=None).fit(X, y)
    plain = fixed.predict(grid, return_std=True)[1]
    assert np.mean(whole) > 1.15 * np.mean(plain)  # it is not nothing
    assert np.mean(np.abs(std - whole)) < 0.5 * np.mean(whole - plain)
    expected = fitted.expected_noise[0] / (s**2 * (w @ np.exp(points[:, 2])))
    assert 0.75 < expected < 1.25


def test_covariance_and_deviation_agree_and_secondaries_count():
    problem = focused_gap(2, random_state=0)
    model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
    X = problem.X_test[::10]
    for task in model.tasks_:
        _, covariance = model.predict(X, tasks=task, return_cov=True)
        _, std = model.predict(X, tasks=task, return_std=True)
        np.testing.assert_allclose(std**2, np.diag(covariance), rtol=1e-9)
        assert np.linalg.eigvalsh(covariance)[0] > -1e-9 * np.trace(covariance)
        plain = np.sqrt(np.diag(model.posterior_covariance(X, tasks=task)))
        assert np.all(std >= plain - 1e-6)
        assert std.mean() > (1.02 if task == "primary" else 1.005) * plain.mean()


def test_quadratic_objective_gives_its_own_covariance():
    """With a Gaussian posterior of the parameters and a mean that is linear in them, the band is the delta method's."""
    C, slope = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([0.5, -1.0])
    found = {"a": np.array([0.3]), "noise": np.array([-1.0])}

    def evaluate(values):
        z = pack(values) - pack(found)
        return float(-0.5 * z @ C @ z), Line(slope @ z)

    moves = [direction(found, a=1.0), direction(found, noise=1.0)]
    uncertainty = hyper_uncertainty(evaluate, found, moves)
    wide = uncertainty.widen(Prediction(np.zeros(1), np.ones(1)), np.zeros((1, 1)), None)
    assert wide.variance[0] - 1.0 == pytest.approx(slope @ np.linalg.solve(C, slope), rel=0.3)  # by 16 points
    np.testing.assert_allclose(curvature_of_values(lambda z: float(-0.5 * z @ C @ z), 2), C, atol=1e-9)
    alone = hyper_uncertainty(evaluate, found, moves[:1], moves[1:])
    assert alone.of_variance[-1] == 0.0
    assert alone.of_mean[-1] == pytest.approx(1.0 / (0.25 * C[1, 1]))


@dataclass(frozen=True)
class Line:
    """A prediction that is the same everywhere."""

    mean: float

    def predict(self, X, task):
        return Prediction(np.full(len(X), self.mean), np.ones(len(X)))


def test_points_are_spread_as_students_t():
    for K in (1, 2, 3, 4):
        T = student_points(K)
        np.testing.assert_allclose(T.mean(axis=0), 0.0, atol=1e-12)
        assert np.all((T**2).mean(axis=0) > 0.5)
        assert np.all((T**2).mean(axis=0) < 3.5)
        assert len(np.unique(T[:, 0])) == len(T)


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
    print(np.mean(covered), np.mean(plug_in))
    assert np.mean(covered) > np.mean(plug_in) + 0.05
    assert np.mean(covered) > 0.86


def test_what_cannot_be_factored_has_no_weight():
    found = {"noise": np.array([0.5])}

    def evaluate(low, high):
        def inner(values):
            noise = float(values["noise"][0])
            if not low <= noise <= high:
                raise NotPositiveDefiniteError("beyond the edge")
            return -1.5 * (noise - 0.5) ** 2, Line(noise)

        return inner

    moves = [direction(found, noise=1.0)]
    edge = hyper_uncertainty(evaluate(-9, 0.5), found, moves)
    assert all(p.mean <= 0.5 for p in edge.posteriors)
    assert edge.of_mean.sum() == pytest.approx(1.0)
    assert hyper_uncertainty(evaluate(0.5, 0.5), found, moves) is None
    assert hyper_uncertainty(evaluate(-9, 9), found, [direction(found)]) is None  # nothing moves
    held = hyper_uncertainty(evaluate(-9, 9), found, moves, low={"noise": np.array([0.5])})
    assert min(p.mean for p in held.posteriors) == 0.5


def test_many_rows_are_taken_as_known():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1001, 1))
    model = borrow.PooledGPRegressor().fit(X, X[:, 0] + 0.1 * rng.normal(size=1001))
    assert model.fitted_.model.uncertainty is None


def test_what_counts_is_what_an_evaluation_costs_and_both_algebras_say_the_same(monkeypatch, caplog):
    """Eight tasks of 20 rows on 20 inducing inputs cost as much as (8 (40^3 - 20^3))^(1/3) = 76.5 rows written out."""
    grid, rng = np.linspace(0.0, 6.0, 20)[:, None], np.random.default_rng(0)
    X, task = np.vstack([grid] * 8), np.repeat(np.arange(8), 20)
    y = np.cos(task) * np.sin(1.5 * X[:, 0]) + 0.3 * np.sin(X[:, 0] + task) + 0.1 * rng.normal(size=160)
    monkeypatch.setattr("borrow.models.gp.model.MOST_ROWS", 76)
    with caplog.at_level(logging.INFO, logger="borrow"):
        fit = borrow.FocusedGPRegressor(primary=0, inducing=grid, n_restarts=0).fit(X, y, tasks=task).fitted_.model
    assert fit.uncertainty is None
    assert "as much as 76 rows" in caplog.text
    at, how = (grid, np.zeros(20, dtype=np.intp)), (fit.values, fit.scales, "auto", 1.0, True)
    bands = []
    for most, setup in ((77, fit.setup), (160, replace(fit.setup, design=Design.from_cells(fit.setup.cells)))):
        monkeypatch.setattr("borrow.models.gp.model.MOST_ROWS", most)
        known = condition(fit.values, setup).posterior.predict(*at)
        bands.append(model_uncertainty(setup, *how).widen(known, *at).variance)
        assert np.all(bands[-1] > known.variance)
    np.testing.assert_allclose(*bands, rtol=1e-5)


@pytest.mark.parametrize("name", ["SingleTaskGPRegressor", "FocusedGPRegressor", "MultiTaskGPRegressor"])
def test_the_mean_alone_asks_no_other_hyper_parameters(name, monkeypatch):
    """They widen bands and move no mean: who asks for the mean does not wait for them, and gets the same numbers."""
    X, task = np.linspace(0.0, 6.0, 24)[:, None], ["a", "b"] * 12
    kind = getattr(borrow, name)
    model = kind(**({"primary": "a"} if name.startswith("Focused") else {})).fit(X, np.sin(X[:, 0]), tasks=task)
    expected = model.predict(X + 0.1, tasks=task, return_std=True)[0]
    asked = []
    for kind in (HyperUncertainty, UncertaintyByTask):
        monkeypatch.setattr(kind, "widen", lambda self, found, X, task: asked.append(1) or found)
    np.testing.assert_array_equal(model.predict(X + 0.1, tasks=task), expected)
    assert not asked
    model.predict(X, tasks=task, return_std=True)
    assert asked


def test_rows_left_out_stretch_the_variance_of_their_task():
    """By refits of one task without each of its rows, the other as its model says; the factor is never below 1."""
    kernel, rng = kernels.SquaredExponential(1.0, 1.0), np.random.default_rng(2)
    X = rng.uniform(0.0, 6.0, (16, 1))
    task, noise = np.repeat([0, 1], 8), np.array([0.1, 0.2])
    y = np.where(task == 0, 3.0, 0.1) * rng.normal(size=16)
    cells = Cells(X, y, np.ones(16), np.array([0, 8, 16]), np.zeros(2), np.zeros(2), np.zeros(2))
    mean, variance, errors = np.empty(16), np.empty(16), np.empty(16)
    for t in (0, 1):
        at = np.flatnonzero(task == t)
        K = kernel(X[at])
        S = K + noise[t] * np.eye(8)
        mean[at], variance[at] = K @ np.linalg.solve(S, y[at]), np.diag(K - K @ np.linalg.solve(S, K))
        for i in at:
            rest = at[at != i]
            k = kernel(X[[i]], X[rest])[0]
            w = np.linalg.solve(kernel(X[rest]) + noise[t] * np.eye(7), k)
            errors[i] = (y[i] - w @ y[rest]) ** 2 / (1.0 - w @ k + noise[t])
    factor = stretch_of_tasks(cells, noise, (mean, variance))
    assert factor[0] == pytest.approx((6.0 + errors[:8].sum()) / 14.0)
    assert factor[0] > 2.0
    assert errors[8:].sum() < 8.0
    assert factor[1] == 1.0
    found = stretched(Prediction(np.zeros(2), np.ones(2), np.array([[1.0, 0.5], [0.5, 1.0]])), np.array([4.0, 1.0]))
    np.testing.assert_allclose(found.variance, [4.0, 1.0])
    np.testing.assert_allclose(found.covariance, [[4.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize("kind", [borrow.MultiTaskIVMRegressor, borrow.HierarchicalGPRegressor])
def test_learnt_models_of_one_kernel_count_more_than_their_posterior(kind):
    """Deviation and covariance agree, and both are at least those at the hyper-parameters found."""
    rng = np.random.default_rng(0)
    X, task = rng.uniform(-4.0, 4.0, (48, 1)), np.repeat(["a", "b", "c"], 16)
    y = np.sin(2.0 * X[:, 0]) * np.where(task == "a", 1.0, 0.3) + 0.1 * rng.normal(size=48)
    model, new = kind().fit(X, y, tasks=task), np.linspace(-4.0, 4.0, 9)[:, None]
    std, covariance = (
        model.predict(new, tasks="a", return_std=True)[1],
        model.predict(new, tasks="a", return_cov=True)[1],
    )
    np.testing.assert_allclose(std**2, np.diag(covariance), rtol=1e-9)
    plain = np.sqrt(np.diag(model.posterior_covariance(new, tasks="a")))
    assert np.all(std >= plain - 1e-9)


@pytest.mark.parametrize("kind", ["SingleTaskGP", "PooledGP", "FocusedGP", "MultiTaskGP", "MultiTaskIVM"])
def test_level_of_centred_targets_is_not_known(kind):
    """Of targets that are standardised already both settings learn the same, but one does not know the level."""
    rng = np.random.default_rng(5)
    X, tasks = rng.uniform(-3, 3, (30, 1)), np.repeat(["a", "b"], 15)
    y = np.sin(1.3 * X[:, 0]) + 0.2 * rng.normal(size=30)
    for t in "ab":
        y[tasks == t] = (y[tasks == t] - y[tasks == t].mean()) / y[tasks == t].std()
    estimator, more = getattr(borrow, f"{kind}Regressor"), {"primary": "a"} if kind == "FocusedGP" else {}
    unknown, known = (estimator(normalize_y=own, **more).fit(X, y, tasks=tasks) for own in (True, False))
    for task in "ab":
        (mean, std), (same, narrow) = (m.predict([[40.0]], tasks=task, return_std=True) for m in (unknown, known))
        np.testing.assert_allclose(mean, same, atol=1e-5)
        assert 1.01 * narrow[0] < std[0] < 1.5 * narrow[0]  # the mean of so many rows, and not any level


def test_level_of_a_task_without_rows_is_that_of_the_others():
    rng = np.random.default_rng(2)
    X, y, tasks = rng.normal(size=(14, 1)), rng.normal(size=14), np.repeat(["a", "b"], 7)
    y[:7] = np.nan
    with pytest.warns(UserWarning, match="no labelled row"):
        model = borrow.FocusedGPRegressor(primary="a").fit(X, y, tasks=tasks)
    assert model.predict([[0.0]], tasks="a", return_std=True)[1] < 3.0 * np.nanstd(y)
