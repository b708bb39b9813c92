"""Tables with numbers far out, in different units, or put together twice are told, and hurt no more than they must."""

import re
import warnings

import numpy as np
import pytest

import borrow
from borrow.data.scaling import column_scales, weighted_quartiles


def table(wild=None):
    """Two tasks of one function of two columns; one number of the second task may be far out."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(40, 2)), np.repeat(["a", "b"], [12, 28])
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.normal(size=40)
    if wild is not None:
        X[33, 1] = wild
    return X, y, task


MODELS = ["SingleTaskGPRegressor", "PooledGPRegressor", "FocusedGPRegressor", "MultiTaskGPRegressor"]


@pytest.mark.parametrize("name", MODELS)
def test_one_number_far_out_is_named_and_does_not_spoil_the_rest(name):
    new = np.random.default_rng(1).normal(size=(200, 2))
    truth, errors = np.sin(new[:, 0]) + 0.3 * new[:, 1], []
    settings = {"primary": "a"} if "Focused" in name else {}
    for wild in (None, 1000.0):
        X, y, task = table(wild)
        model = getattr(borrow, name)(**settings)
        if wild is None:
            model.fit(X, y, tasks=task)
        else:
            with pytest.warns(UserWarning, match=r"column 1 has numbers far out, such as 1000 in row 33"):
                model.fit(X, y, tasks=task)
        errors.append(np.sqrt(np.mean((model.predict(new, tasks="a") - truth) ** 2)))
    assert errors[1] < 1.3 * errors[0] + 0.05


def test_scale_of_a_column_is_that_of_its_middle_half_only_where_few_numbers_make_it():
    rng = np.random.default_rng(0)
    normal, ones = rng.normal(size=400), np.ones(400)
    far = np.where(np.arange(400) == 7, 1e4, normal)
    rare = (np.arange(400) < 3).astype(float)
    scales = column_scales(np.column_stack([normal, far, rare, np.exp(normal)]), ones)
    assert scales[0] == pytest.approx(normal.std())
    assert scales[1] == pytest.approx(1.0, abs=0.15)
    assert scales[2] == pytest.approx(rare.std())  # more than three quarters are equal: no middle half
    assert scales[3] == pytest.approx(np.exp(normal).std())


def test_a_weight_is_as_many_rows():
    rng = np.random.default_rng(3)
    x, weight = np.append(rng.normal(size=30), 5e3), rng.integers(1, 5, 31)
    many = np.repeat(x, weight)
    assert weighted_quartiles(x, weight.astype(float)) == weighted_quartiles(many, np.ones(len(many)))
    one, other = column_scales(x[:, None], weight.astype(float)), column_scales(many[:, None], np.ones(len(many)))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_units_that_differ_are_told_where_one_figure_is_taken_for_all():
    X, y, task = table()
    y = np.where(task == "b", 1e4 * y, y)
    words = "targets of task 'b' are spread [^ ]+ times as widely as those of task 'a'"
    with pytest.warns(UserWarning, match=words):
        borrow.PooledGPRegressor(normalize_y="common").fit(X, y, tasks=task)
    borrow.PooledGPRegressor().fit(X, y, tasks=task)  # each task by its own figures: no word


def test_a_table_that_was_put_together_twice_is_told():
    X, y, task = table()
    twice = [np.concatenate([v, v]) for v in (X, y, task)]
    with pytest.warns(UserWarning, match=re.escape("80 rows are 40 different ones and exact copies of them")):
        borrow.SingleTaskGPRegressor().fit(twice[0], twice[1], tasks=twice[2])
    y_again = twice[1] + np.repeat([0.0, 0.01], 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        borrow.SingleTaskGPRegressor().fit(twice[0], y_again, tasks=twice[2])  # measured twice
