"""No transfer and pooling."""

import numpy as np
import pytest

import borrow
import oracles
from borrow import kernels
from borrow.data.cells import merge
from borrow.models.gp.model import fit_single, single_objective
from borrow.tasks.placed import PlacedTasks


def data(n, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, d))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def test_single_task_equals_the_textbook_formula():
    X, y = data(25)
    kernel, noise = kernels.Matern(1.3, 0.7, nu=1.5), 0.02
    model = borrow.SingleTaskGPRegressor(kernel=kernel, noise=noise, optimizer=None, normalize_y=False).fit(
        X[:20], y[:20]
    )
    K = kernel(X)
    mean, cov = oracles.gaussian_posterior(K, np.arange(20), np.arange(20, 25), y[:20], np.full(20, noise))
    got, got_cov = model.predict(X[20:], return_cov=True)
    np.testing.assert_allclose(got, mean, rtol=1e-9)
    np.testing.assert_allclose(got_cov, cov, atol=1e-10)
    expected = oracles.gaussian_log_density(y[:20], K[:20, :20] + noise * np.eye(20))
    assert model.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-10)


def test_tasks_do_not_touch_each_other():
    X, y = data(30)
    both = borrow.SingleTaskGPRegressor().fit(
        np.vstack([X, X]), np.concatenate([y, 50 - 3 * y]), tasks=["a"] * 30 + ["b"] * 30
    )
    alone = borrow.SingleTaskGPRegressor(normalize_y=True).fit(X, y)
    np.testing.assert_allclose(both.predict(X, tasks="a"), alone.predict(X), atol=1e-3)
    cov = both.predict(np.vstack([X[:2], X[:2]]), tasks=["a", "a", "b", "b"], return_cov=True)[1]
    assert np.all(cov[:2, 2:] == 0)
    assert cov[0, 1] != 0


@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
def test_one_task_fitted_alone_answers_as_in_a_fit_of_all(kind):
    """On the column scales of the whole table, to the bit; of the other tasks it knows nothing."""
    (X, y), (Z, z) = data(20, d=2), data(25, d=2, seed=1)
    tasks, rows = ["a"] * 20 + ["b"] * 25, np.vstack([X, 10 * Z])
    target = np.concatenate([y, 3 * z])
    if kind == "Classifier":
        target = np.where(target > 0, "up", "down")
    estimator = getattr(borrow, f"SingleTaskGP{kind}")
    whole, alone = (estimator(only=only).fit(rows, target, tasks=tasks) for only in (None, "b"))
    ask = "predict" if kind == "Regressor" else "predict_proba"
    np.testing.assert_array_equal(getattr(alone, ask)(Z[:5]), getattr(whole, ask)(Z[:5], tasks="b"))
    assert (alone.tasks_.tolist(), list(alone.kernels_)) == (["b"], ["b"])
    assert alone.kernels_["b"] == whole.kernels_["b"]
    with pytest.raises(ValueError, match="task 'a' was not fitted: this is a model of 'b' alone"):
        alone.predict(X, tasks="a")
    with pytest.raises(ValueError, match=r"unknown task 'c'.*tasks are 'a', 'b'"):
        estimator(only="c").fit(rows, target, tasks=tasks)


@pytest.mark.parametrize("objective_name", ["single", "sparse"])
def test_gradients_equal_differences(objective_name):
    X, y = data(30, d=2)
    X[1] = X[0]  # a replicate, so that the scatter enters
    cells = merge(X, np.zeros(30, dtype=int), y, np.ones(30), np.ones(30), 1)
    kernel = kernels.SquaredExponential(0.9, (0.8, 1.4))
    values = {"kernel": kernel.theta, "noise": np.log([0.05])}
    scales = np.array([2.0, 0.5])
    objective = single_objective(PlacedTasks(cells), kernel)
    if objective_name == "sparse":
        objective = single_objective(PlacedTasks(cells), kernel, scales=scales)
        values["Z"] = X[3:9] / scales
    _, gradient = objective(values)
    for part in values:
        expected = oracles.central_difference(lambda v, part=part: objective({**values, part: v})[0], values[part])
        np.testing.assert_allclose(gradient[part], expected, rtol=1e-6, atol=1e-6, err_msg=part)


def test_maximum_likelihood_beats_the_start_and_the_prior_holds_it_back():
    X, y = data(40)
    cells = merge(X, np.zeros(40, dtype=int), y, np.ones(40), np.ones(40), 1)
    start = kernels.SquaredExponential(1.0, 3.0)
    evidence = single_objective(PlacedTasks(cells), start)
    noise = {"noise": np.log([0.1])}
    free = fit_single(PlacedTasks(cells), start, noise, np.ones(1), None, 200)[2].values
    held = fit_single(PlacedTasks(cells), start, noise, np.ones(1), "auto", 200)[2].values
    before = evidence({"kernel": start.theta, "noise": np.log([0.1])})[0]
    assert evidence(free)[0] >= evidence(held)[0] > before


def test_pooled_is_exact_to_300_rows_and_sparse_above():
    X, y = data(300)
    few = borrow.PooledGPRegressor().fit(X, y, tasks=["a", "b"] * 150)
    assert few.inducing_ is None
    X, y = data(301)
    many = borrow.PooledGPRegressor(normalize_y="common").fit(X, y, tasks=["a", *["b"] * 300])
    assert many.inducing_.shape[0] <= 100
    grid = np.linspace(-3, 3, 50)[:, None]
    exact = borrow.PooledGPRegressor(inducing=None, normalize_y="common").fit(X, y, tasks=["a", *["b"] * 300])
    np.testing.assert_allclose(many.predict(grid, tasks="a"), exact.predict(grid, tasks="b"), atol=0.03)
    assert many.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, abs=3.0)


def test_pooled_tasks_have_their_own_level_and_scale():
    """A task in other units answers in these, as if its rows were in the units of the others."""
    X, y = data(80)
    tasks = np.array(["a", "b"] * 40)
    other = np.where(tasks == "b", 1000.0 * y + 5e4, y)
    grid = np.linspace(-2.5, 2.5, 20)[:, None]
    model = borrow.PooledGPRegressor().fit(X, other, tasks=tasks)
    a, b = (model.predict(grid, tasks=t, return_std=True) for t in "ab")
    truth = borrow.PooledGPRegressor(normalize_y="common").fit(X, y, tasks=tasks).predict(grid, tasks="a")
    np.testing.assert_allclose(a[0], truth, atol=0.25 * y.std())
    np.testing.assert_allclose((b[0] - 5e4) / 1000.0, truth, atol=0.25 * y.std())
    assert model.noise_["b"] > 1e5 * model.noise_["a"]
    with pytest.warns(UserWarning, match="targets of task 'b' are spread .* times as widely as those of task 'a'"):
        raw = borrow.PooledGPRegressor(normalize_y="common").fit(X, other, tasks=tasks).predict(grid, tasks="a")
    assert np.abs(raw - truth).max() > 1e4  # by choice, rows are taken as they are
    out = model.leave_one_out()
    assert len(out["y"]) == 80
    assert np.corrcoef(out["y"], out["mean"])[0, 1] > 0.9


@pytest.mark.parametrize("columns", [1, 3])
def test_sparse_pooled_fits_converge(columns):
    rng = np.random.default_rng(columns)
    X = rng.normal(size=(400, columns))
    y = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, -1] ** 2 + 0.2 * rng.normal(size=400)
    model = borrow.PooledGPRegressor().fit(X, y)
    assert model.converged_
    assert model.n_iter_ < 100
    exact = borrow.PooledGPRegressor(inducing=None).fit(X, y)
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, abs=0.001 * 400)
    assert {tuple(z) for z in model.inducing_.tolist()} <= {tuple(x) for x in X.tolist()}


def test_pseudo_inputs_are_learnt():
    X, y = data(320)
    y = y + np.sin(9 * X[:, 0])
    start = borrow.PooledGPRegressor(inducing=12, kernel=kernels.SquaredExponential(1.0, 0.3), optimizer=None).fit(X, y)
    moved = borrow.PooledGPRegressor(inducing=12, kernel=kernels.SquaredExponential(1.0, 0.3)).fit(X, y)
    assert moved.log_marginal_likelihood_ > start.log_marginal_likelihood_ + 10
    assert np.abs(np.sort(moved.inducing_, axis=0) - np.sort(start.inducing_, axis=0)).max() > 0.05


def test_pooled_mixes_opposite_tasks_to_nothing():
    X, y = data(60)
    model = borrow.PooledGPRegressor().fit(np.vstack([X, X]), np.concatenate([y, -y]), tasks=["a"] * 60 + ["b"] * 60)
    assert np.abs(model.predict(X, tasks="a")).max() < 0.2
    assert model.noise_["a"] == model.noise_["b"] > 0.3
