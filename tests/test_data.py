"""Merging and scaling leave the model what it is: checked against rows written out, by dense formulas."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import borrow
from borrow.data.cells import Rows
from borrow.data.labels import list_labels, sort_labels
from borrow.data.scaling import build, units_of_new_task
from borrow.kernels import SquaredExponential

VARIANCE, LENGTH, NOISE = 1.3, 0.8, 0.2


def se(a, b):
    return VARIANCE * np.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2) / LENGTH**2)


def dense(X, y, noise, new):
    """Evidence, and mean and variance of the function, with one noise variance a row."""
    K = se(X, X) + np.diag(np.broadcast_to(noise, len(y)))
    cross = se(new, X)
    mean, covariance = cross @ np.linalg.solve(K, y), se(new, new) - cross @ np.linalg.solve(K, cross.T)
    return multivariate_normal(np.zeros(len(y)), K).logpdf(y), mean, np.diagonal(covariance)


def exact(normalize_y=False):
    kernel = SquaredExponential(VARIANCE, LENGTH)
    return borrow.SingleTaskGPRegressor(kernel=kernel, noise=NOISE, normalize_y=normalize_y, optimizer=None)


def assert_same(model, evidence, mean, variance, new):
    got, std = model.predict(new, return_std=True)
    assert model.log_marginal_likelihood_ == pytest.approx(evidence, abs=1e-10)
    np.testing.assert_allclose(got, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(std**2, variance, rtol=0, atol=1e-10)


@pytest.fixture
def repeated():
    """Nine inputs seen 1 to 5 times each, in no order."""
    rng = np.random.default_rng(3)
    X = np.repeat(rng.uniform(-2, 2, (9, 2)), [1, 5, 2, 1, 3, 1, 1, 4, 2], axis=0)
    y = np.sin(X[:, 0]) + 0.4 * rng.normal(size=len(X))
    order = rng.permutation(len(X))
    return X[order], y[order], rng.uniform(-2, 2, (5, 2))


def test_merged_rows_have_the_evidence_of_rows_written_out(repeated):
    X, y, new = repeated
    model = exact().fit(X, y)
    assert len(model.fitted_.model.posterior[0].prior.tasks.cells.X) == 9  # it did merge
    assert_same(model, *dense(X, y, NOISE, new), new)


def test_weight_is_the_row_repeated(repeated):
    X, y, new = repeated
    k = np.random.default_rng(0).integers(0, 4, len(y))
    model = exact().fit(X, y, sample_weight=k)
    assert_same(model, *dense(np.repeat(X, k, axis=0), np.repeat(y, k), NOISE, new), new)


def test_replicates_say_that_y_is_a_mean(repeated):
    X, y, new = repeated
    k = np.random.default_rng(0).integers(1, 6, len(y))
    assert_same(exact().fit(X, y, replicates=k), *dense(X, y, NOISE / k, new), new)


def test_weights_and_replicates_together(repeated):
    X, y, new = repeated
    rng = np.random.default_rng(5)
    w, k = rng.integers(0, 4, len(y)), rng.integers(1, 6, len(y))
    written_out = dense(np.repeat(X, w, axis=0), np.repeat(y, w), NOISE / np.repeat(k, w), new)
    assert_same(exact().fit(X, y, sample_weight=w, replicates=k), *written_out, new)


def test_one_number_is_a_weight_for_all_rows(repeated):
    X, y, new = repeated
    assert_same(exact().fit(X, y, replicates=4), *dense(X, y, NOISE / 4, new), new)


@pytest.mark.parametrize("optimizer", [None, "lbfgs"])
def test_weight_is_the_row_repeated_for_scaled_targets_of_several_tasks(repeated, optimizer):
    X, y, new = repeated
    tasks, k = np.arange(len(y)) % 3, np.random.default_rng(0).integers(1, 4, len(y))
    model = borrow.FocusedGPRegressor(primary=1, rho=0.7, optimizer=optimizer, n_restarts=0, max_iter=200)
    weighted = model.fit(X, y, tasks=tasks, sample_weight=k).predict(new), model.log_marginal_likelihood_
    model.fit(np.repeat(X, k, axis=0), np.repeat(y, k), tasks=np.repeat(tasks, k))
    tolerance = 1e-10 if optimizer is None else 1e-3  # the path of an optimiser depends on the last digit
    np.testing.assert_allclose(weighted[0], model.predict(new), rtol=0, atol=tolerance)
    assert weighted[1] == pytest.approx(model.log_marginal_likelihood_, abs=tolerance)


def test_minus_zero_is_zero():
    X, y = np.array([[0.0], [-0.0], [1.0]]), np.array([1.0, 2.0, 0.0])
    model = exact().fit(X, y)
    assert len(model.fitted_.model.posterior[0].prior.tasks.cells.X) == 2
    assert_same(model, *dense(X, y, NOISE, X), X)


def test_inputs_that_differ_in_the_last_digit_are_not_merged():
    X = np.array([[1.0], [1.0 + 2**-52], [2.0]])
    assert len(exact().fit(X, [1.0, 2.0, 0.0]).fitted_.model.posterior[0].prior.tasks.cells.X) == 3


def test_noise_and_evidence_are_in_the_units_of_y(repeated):
    """y ~ N(m, s^2 K + noise) with m, s the mean and standard deviation: noise= is not in units of s."""
    X, y, new = repeated
    y = 50.0 + 3.0 * y
    m, s = y.mean(), y.std()
    evidence, mean, variance = dense(X, (y - m) / s, NOISE / s**2, new)
    model = exact(normalize_y=True).fit(X, y)
    assert_same(model, evidence - len(y) * np.log(s), m + s * mean, s**2 * variance, new)
    noisy = model.predict(new, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy**2, s**2 * variance + NOISE, rtol=0, atol=1e-10)
    assert model.noise_ == {0: pytest.approx(NOISE)}


@pytest.mark.parametrize("factor", [10.0, 1e-12])
@pytest.mark.parametrize(
    "estimator", [borrow.FocusedGPRegressor, borrow.SingleTaskGPRegressor, borrow.PooledGPRegressor]
)
def test_units_of_y_do_not_matter(repeated, estimator, factor):
    """... but for the density: every row's is smaller by the factor."""
    X, y, new = repeated
    y = y + 0.3
    tasks = np.arange(len(y)) % 2
    model = estimator(**({"primary": 0, "n_restarts": 0} if estimator is borrow.FocusedGPRegressor else {}))
    before = model.fit(X, y, tasks=tasks).predict(new, tasks=1), model.log_marginal_likelihood_
    after = model.fit(X, factor * y, tasks=tasks).predict(new, tasks=1), model.log_marginal_likelihood_
    np.testing.assert_allclose(after[0] / factor, before[0], rtol=0, atol=1e-4)
    assert after[1] - before[1] == pytest.approx(-len(y) * np.log(factor), abs=1e-4)


def scaling_of(groups, keep=(), normalize=True):
    """Scaling of tasks given by their targets, at distinct inputs."""
    y, task = np.concatenate(groups), np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    X, ones = np.arange(len(y), dtype=float)[:, None], np.ones(len(y))
    return build(Rows(X, task, tuple(range(len(groups))), y, ones, ones), normalize, keep).scaling


def test_large_tasks_keep_their_own_figures_and_small_ones_shrink():
    rng = np.random.default_rng(0)
    large = [m + s * rng.normal(size=500) for m, s in [(0.0, 1.0), (1.0, 1.2), (0.5, 0.8), (0.2, 1.1)]]
    small = np.array([3.0, 3.1, 2.9])  # of the same family, to judge by the others: mean and spread are luck
    scaling = scaling_of([*large, small])
    np.testing.assert_allclose(scaling.center[:4], [g.mean() for g in large], atol=0.02)
    np.testing.assert_allclose(scaling.scale[:4], [g.std() for g in large], rtol=0.03)
    overall = np.mean([g.mean() for g in [*large, small]])
    assert overall < scaling.center[4] < small.mean()
    assert 0.1 < scaling.scale[4] < 1.0  # its own is 0.08


def test_shrinkage_is_by_sampling_error():
    """Tasks that are draws of one population shrink to its mean; the fewer the rows, the further."""
    rng = np.random.default_rng(1)
    groups = [rng.normal(size=4) for _ in range(40)] + [2.0 + rng.normal(size=n) for n in (2, 8, 200)]
    own = np.array([g.mean() for g in groups])
    kept = (scaling_of(groups).center - own.mean()) / (own - own.mean())
    assert 0 < kept[40] < kept[41] < kept[42] < 1
    assert kept[42] > 0.9


def test_tasks_that_differ_do_not_shrink():
    rng = np.random.default_rng(2)
    groups = [m + s * rng.normal(size=6) for m, s in [(0.0, 0.01), (1e3, 1.0), (-1e3, 1e2)]]
    scaling = scaling_of(groups)
    np.testing.assert_allclose(scaling.center, [g.mean() for g in groups], rtol=0.02, atol=0.02)
    np.testing.assert_allclose(np.log(scaling.scale), np.log([g.std() for g in groups]), atol=0.1)


def test_primary_keeps_its_own_figures_and_does_not_enter_the_others():
    rng = np.random.default_rng(3)
    others = [rng.normal(size=5) for _ in range(6)]
    primary = np.array([7.0, 8.0])
    scaling, elsewhere = scaling_of([primary, *others], [0]), scaling_of([-100.0 * primary, *others], [0])
    assert (scaling.center[0], scaling.scale[0]) == (7.5, 0.5)
    np.testing.assert_array_equal(scaling.center[1:], elsewhere.center[1:])
    np.testing.assert_array_equal(scaling.scale[1:], elsewhere.scale[1:])


def test_primary_with_one_row_or_none_takes_what_it_lacks_from_the_others():
    others = [np.array([9.0, 11.0] * 50), np.array([19.0, 21.0] * 50)]
    one, none = scaling_of([np.array([5.0]), *others], [0]), scaling_of([np.zeros(0), *others], [0])
    assert (one.center[0], one.scale[0]) == (5.0, pytest.approx(1.0))
    assert (none.center[0], none.scale[0]) == (pytest.approx(15.0), pytest.approx(1.0))


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e-300])
def test_constant_targets_have_scale_one(value):
    scaling = scaling_of([np.full(7, value)])
    assert (scaling.center[0], scaling.scale[0], scaling.log_volume) == (pytest.approx(value), 1.0, 0.0)


def test_without_normalisation_targets_stay():
    scaling = scaling_of([np.array([3.0, 4.0]), np.array([50.0])], normalize=False)
    assert scaling.center.tolist() == [0.0, 0.0]
    assert scaling.scale.tolist() == [1.0, 1.0]


def test_data_are_the_same_to_the_bit_for_any_order_of_rows(repeated):
    X, y, _ = repeated
    y *= 10.0 ** np.random.default_rng(0).uniform(-3, 3, len(y))  # so that sums do round
    task, ones = np.digitize(X[:, 0], [-0.6, 0.6]), np.ones(len(y))
    y[[np.flatnonzero(task == t)[0] for t in range(3)]] = np.nan
    rows = Rows(X, task, ("a", "b", "c"), y, ones, ones)
    one, other = build(rows, True), build(rows.take(np.arange(len(y))[::-1]), True)
    for name in ("X", "y", "count", "starts", "dof", "scatter", "log_count"):
        np.testing.assert_array_equal(getattr(one.cells, name), getattr(other.cells, name))
    np.testing.assert_array_equal(one.column_scales, other.column_scales)
    for t in range(3):
        np.testing.assert_array_equal(one.inputs(t), other.inputs(t))
        assert len(one.unlabelled[t]) == 1


def test_column_scales_count_weights_and_spare_constant_columns():
    X = np.array([[0.0, 5.0, 1e9], [4.0, 5.0, 1e9 + 1]])
    rows = Rows(X, np.zeros(2, dtype=int), ("a",), np.array([1.0, 2.0]), np.array([3.0, 1.0]), np.ones(2))
    np.testing.assert_allclose(build(rows, True).column_scales, [np.std([0, 0, 0, 4]), 1.0, np.sqrt(3) / 4])


def test_labels_are_sorted_by_kind_and_size():
    assert sort_labels([10, 9, 2.5, np.int64(3), 9]) == (2.5, 3, 9, 10)
    assert sort_labels(["s10", "s9", 1]) == (1, "s10", "s9")
    assert sort_labels([("b", 1), "a", ("a", 2)]) == ("a", ("a", 2), ("b", 1))
    assert sort_labels([1j, 2j, "a"]) == ("a", 1j, 2j)


def test_long_lists_of_labels_are_cut():
    assert list_labels(("a", 1)) == "'a', 1"
    assert list_labels(tuple(range(40))).endswith("10, 11, ... (40 in all)")


def test_units_of_a_new_task_are_its_own_only_as_far_as_its_rows_carry_them():
    centers, scales = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.5, 1.0, 1.0, 2.0])
    overall, between = 2.0, np.var(centers, ddof=1)
    center, scale = units_of_new_task(np.array([8.0]), centers, scales)
    typical = np.exp(np.mean(np.log(scales)))
    assert scale == pytest.approx(typical)  # one row has no spread
    assert center == pytest.approx(overall + between / (between + typical**2) * (8.0 - overall))
    rng = np.random.default_rng(0)
    many = rng.normal(8.0, 3.0, 4000)
    center, scale = units_of_new_task(many, centers, scales)
    assert (center, scale) == (pytest.approx(many.mean(), abs=0.01), pytest.approx(many.std(), rel=0.01))
    assert units_of_new_task(many[:5], np.full(4, 1.0), np.ones(4)) == (1.0, 1.0)  # tasks that do not differ
