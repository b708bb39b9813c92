"""Noise that does not collapse: tasks that agree hold each other, and targets have a resolution."""

import numpy as np
import pandas as pd
import pytest

import borrow
from borrow.data.cells import Rows
from borrow.data.scaling import build, grid_width, least_noise, rounding_variance
from borrow.inference.priors import NOISE_MEAN, NOISE_SD, independent_noise_prior, noise_prior

ESTIMATORS = {
    "single": lambda: borrow.SingleTaskGPRegressor(),
    "focused": lambda: borrow.FocusedGPRegressor(primary="t0"),
    "symmetric": lambda: borrow.MultiTaskGPRegressor(rank=1, diagonal="free"),
}


def ratings(rng, tasks=6, rows=8):
    """Ratings from 0 to 10 by persons who share a taste; the last one rates everything 5."""
    X = rng.integers(0, 2, (tasks * rows, 3)).astype(float)
    task = np.repeat([f"t{k}" for k in range(tasks)], rows)
    y = np.clip(np.round(5 + 2 * X[:, 0] - 1.5 * X[:, 1] + 1.5 * rng.normal(size=len(X))), 0, 10)
    y[-rows:] = 5.0
    return X, y, task


def test_gradient_of_the_exchangeable_prior():
    prior, rng = noise_prior(), np.random.default_rng(0)
    for n in (1, 2, 7):
        x = rng.normal(size=n) * 2
        _, by = prior.log_density(x)
        for i in range(n):
            step = 1e-6 * np.eye(n)[i]
            slope = (prior.log_density(x + step)[0] - prior.log_density(x - step)[0]) / 2e-6
            assert by[i] == pytest.approx(slope, abs=1e-7)


def test_prior_of_one_noise_is_the_level_and_curvature_is_a_bound():
    prior, rng = noise_prior(), np.random.default_rng(1)
    one, other = (prior.log_density(np.array([u]))[0] for u in (0.3, -4.0))
    expected = -0.5 * ((0.3 - NOISE_MEAN) ** 2 - (-4.0 - NOISE_MEAN) ** 2) / NOISE_SD**2
    assert one - other == pytest.approx(expected)
    for _ in range(200):
        x = rng.normal(size=5) * rng.uniform(0.1, 4.0)
        value, slope = prior.log_density(x)
        step = rng.normal(size=5) * rng.uniform(0.01, 5.0)
        below = value + slope @ step - 0.5 * prior.steepest(x) * step @ step
        assert prior.log_density(x + step)[0] >= below - 1e-12


def test_agreeing_tasks_hold_one_that_differs_and_disagreeing_ones_do_not():
    together, apart = np.array([0.0, 0.1, -0.1, 0.05, -5.0]), np.array([0.0, 5.0, -5.0, 4.0, -5.0])
    alone = independent_noise_prior(5)
    pull = [(noise_prior().log_density(x)[1] - alone.log_density(x)[1])[-1] for x in (together, apart)]
    assert pull[0] > 3 * pull[1] > 0


@pytest.mark.parametrize(
    ("y", "width"),
    [
        (np.array([0, 1, 1, 2, 5, 5, 5, 2.0]), 1.0),
        (0.1 * np.array([3, 4, 4, 7, 7, 7, 3, 9.0]) + 1e4, 0.1),
        (np.array([0.0, 1.0] * 5), 0.0),  # two values are labels
        (np.arange(8.0), 0.0),  # no value twice: a function on a grid of inputs
        (np.array([0, 1, 2.5, 2.5, 1, 0, 1, 1]), 0.0),  # 1.5 is no multiple of 1
        (np.array([5.0] * 8), 0.0),
    ],
)
def test_grid_of_targets(y, width):
    assert grid_width(y) == pytest.approx(width, rel=1e-6)


def test_grid_is_that_of_all_tasks_or_else_of_each():
    def rounding(ys, replicates=1.0):
        y, task = np.concatenate(ys), np.repeat(np.arange(len(ys)), [len(v) for v in ys])
        n = len(y)
        rows = Rows(np.arange(n)[:, None] * 1.0, task, ("a", "b"), y, np.ones(n), np.full(n, replicates))
        return rounding_variance(rows, 2)

    whole, fine = np.array([1, 2, 2, 3, 3, 3.0]), np.random.default_rng(0).normal(size=6)
    np.testing.assert_allclose(rounding([whole, np.array([4.0, 4.0])]), [1 / 12, 1 / 12])
    np.testing.assert_allclose(rounding([whole, fine]), [1 / 12, 0.0])
    np.testing.assert_allclose(rounding([whole, fine], 2.0), 0.0)


def test_equal_targets_have_the_scale_of_the_others_and_some_noise():
    least = least_noise(np.zeros(3), np.array([4.0, np.nan, np.nan]), np.array([8.0, 9.0, 1.0]))
    np.testing.assert_allclose(least, [0.0, 0.1 * 4.0 / 10.0, 0.0])  # a single row is not constant
    X, y, task = ratings(np.random.default_rng(0))
    codes = np.unique(task, return_inverse=True)[1]
    rows = Rows(X, codes, tuple(np.unique(task)), y * 3.0, np.ones(len(y)), np.ones(len(y)))
    data = build(rows, True)
    assert 3.0 < data.scaling.scale[5] < 9.0
    np.testing.assert_allclose(data.cells.least_noise[:5] * data.scaling.scale[:5] ** 2, 9 / 12)


@pytest.mark.parametrize("name", [n for n in borrow.__all__ if n.endswith("Regressor")])
def test_every_regressor_names_equal_targets_and_identifiers(name):
    X, y, task = ratings(np.random.default_rng(3))
    frame = pd.DataFrame(X, columns=list("abc")).assign(number=np.arange(len(X)), person=task)
    model = getattr(borrow, name)(task="person")
    if "primary" in model.get_params():
        model.set_params(primary="t0")
    with pytest.warns(UserWarning, match="are all equal|different whole number") as caught:
        model.fit(frame, y)
    said = [str(w.message) for w in caught]
    assert any(m.startswith("the targets of task 't5' are all equal: only its level can be learnt") for m in said)
    assert any(m.startswith("column 'number' has a different whole number in every row of 6 tasks") for m in said)
    for m in said:
        assert "column 'a'" not in m
        assert "'t4'" not in m


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_task_of_equal_targets_is_named_and_not_taken_to_be_exact(name):
    X, y, task = ratings(np.random.default_rng(3))
    with pytest.warns(UserWarning, match=r"targets of task 't5' are all equal"):
        model = ESTIMATORS[name]().fit(X, y, tasks=task)
    assert min(model.noise_.values()) >= 1 / 12 - 1e-9
    mean, std = model.predict(X[-8:], tasks=task[-8:], return_std=True, include_noise=True)
    assert np.all(std > 0.28)
    assert np.all(np.abs(mean - 5.0) < 1.5)
    if name == "symmetric":  # held by what the others show: noise of 1.5^2
        assert model.noise_["t5"] > 0.3


@pytest.mark.parametrize("name", ["single", "symmetric"])
def test_units_of_the_targets_do_not_matter(name):
    X, y, task = ratings(np.random.default_rng(4), tasks=3)
    new, at = X[:5], ["t0", "t1", "t2", "t0", "t1"]
    answers = []
    for factor, shift in ((1.0, 0.0), (1000.0, -7.0)):
        with pytest.warns(UserWarning, match="all equal"):
            model = ESTIMATORS[name]().fit(X, factor * y + shift, tasks=task)
        mean, std = model.predict(new, tasks=at, return_std=True, include_noise=True)
        answers.append(((mean - shift) / factor, std / factor))
    np.testing.assert_allclose(answers[0], answers[1], rtol=2e-3, atol=1e-3)


def test_equal_targets_of_the_only_task_are_not_exact():
    with pytest.warns(UserWarning, match="all equal"):
        model = borrow.SingleTaskGPRegressor().fit(np.arange(8.0)[:, None], np.full(8, 3.0))
    assert model.noise_[0] == pytest.approx(0.1 / 9)
