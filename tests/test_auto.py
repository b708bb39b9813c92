"""Estimators that ask first: they fit the winner, and fall back where nothing is shown."""

import numpy as np
import pandas as pd
import pytest

import borrow
from borrow.transfer.verdict import Verdict


def problem(related, seed=0, n=24, m=80):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 24, n + m)  # rows of the primary are too far apart to follow the waves
    own = np.where(np.arange(n + m) < n, np.sin(2 * x), np.sin(2 * x) if related else rng.normal(size=n + m))
    table = pd.DataFrame({"x": x, "who": ["a"] * n + ["b"] * m})
    return table, own + 0.05 * rng.normal(size=n + m)


@pytest.fixture(scope="module")
def helped():
    return borrow.AutoRegressor("who", "a", methods=["pooled"], cv=4).fit(*problem(True))


def test_the_winner_is_fitted_where_it_helps(helped):
    assert helped.method_ == "pooled"
    assert helped.verdict_.answer == "helps"
    assert isinstance(helped.verdict_, Verdict)
    table, y = problem(True)
    whole = borrow.PooledGPRegressor("who").fit(table, y)
    new = pd.DataFrame({"x": [1.0, 2.0], "who": "a"})
    for one, other in zip(helped.predict(new, return_std=True), whole.predict(new, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_primary_is_meant_where_nothing_names_a_task(helped):
    new = pd.DataFrame({"x": [1.0, 2.0]})
    np.testing.assert_array_equal(helped.predict(new), helped.predict(new.assign(who="a")))
    table, y = problem(True)
    beside = borrow.AutoRegressor(primary="a", methods=["pooled"], cv=4).fit(table[["x"]], y, tasks=table["who"])
    np.testing.assert_array_equal(beside.predict(new), helped.predict(new))
    np.testing.assert_array_equal(beside.predict(new, tasks="b"), helped.predict(new.assign(who="b")))


def test_no_transfer_where_nothing_is_shown():
    table, y = problem(False)
    model = borrow.AutoRegressor("who", "a", methods=["pooled"], cv=4).fit(table, y)
    assert model.method_ == "single"
    assert model.verdict_.answer != "helps"
    alone = borrow.SingleTaskGPRegressor("who").fit(table, y)
    mine = table[table["who"] == "a"]
    np.testing.assert_array_equal(model.predict(mine), alone.predict(mine))
    assert model.model_.tasks_.tolist() == ["a"]  # as it was judged: of the primary alone
    with pytest.raises(ValueError, match="task 'b' was not fitted: this is a model of 'a' alone"):
        model.predict(table)


def test_wide_targets():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (14, 1))
    Y = pd.DataFrame({"a": np.sin(X[:, 0]), "b": np.cos(X[:, 0])}) + 0.05 * rng.normal(size=(14, 2))
    model = borrow.AutoRegressor(primary="a", methods=["pooled"], cv=2).fit(X, Y)
    assert model.comparison_.rows == {"a": 14, "b": 14}
    assert model.method_ == "single"
    assert model.predict(X, tasks="a").shape == (14,)
    with pytest.raises(ValueError, match="it alone was fitted; give tasks='a'"):
        model.predict(X)
    table, y = problem(True)
    wide = pd.DataFrame({who: np.where(table["who"] == who, y, np.nan) for who in ("a", "b")})
    helped = borrow.AutoRegressor(primary="a", methods=["pooled"], cv=4).fit(table[["x"]], wide)
    assert helped.method_ == "pooled"
    assert helped.predict(table[["x"]][:14]).shape == (14, 2)


def test_labels():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    who = np.array(["a"] * 20 + ["b"] * 40)
    model = borrow.AutoClassifier(primary="a", methods=["pooled"], cv=2).fit(X, y, tasks=who)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.comparison_.kind == "classification"
    assert model.comparison_.classes == ["no", "yes"]
    assert model.method_ in ("single", "pooled")
    p = model.predict_proba(X[:5], tasks="a")
    np.testing.assert_array_equal(p, model.model_.predict_proba(X[:5], tasks=["a"] * 5))
    assert model.predict(X[:5]).tolist() == model.classes_[p.argmax(axis=1)].tolist()
    assert model.score(X, y) > 0.8 if model.method_ == "pooled" else True


def test_too_few_rows_of_the_primary_are_said():
    table, y = problem(True, n=2)
    with pytest.warns(UserWarning, match=r"primary='a' has 2 row\(s\) with a target: too few to hold some out"):
        model = borrow.AutoRegressor("who", "a").fit(table, y)
    assert (model.method_, model.comparison_, model.verdict_) == ("single", None, None)


def test_suggest_takes_it(helped):
    new = pd.DataFrame({"x": [1.0, 30.0], "who": "a"})
    assert borrow.suggest(helped, new, 2) == borrow.suggest(helped.model_, new, 2, primary="a")
    assert borrow.suggest(helped, new[["x"]], 2)["row"] == borrow.suggest(helped, new, 2)["row"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"primary": "q"}, "primary='q' is not a task; tasks are 'a', 'b'"),
        ({"primary": None}, "2 tasks and no primary"),
        ({"methods": ["magic"]}, "methods names 'magic'"),
        ({"cv": 99}, "cv=99: expected 2 to 24 folds"),
        ({"task": "nobody"}, "'nobody' is not a column"),
    ],
)
def test_wrong_calls_are_answered_in_a_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        borrow.AutoRegressor(**{"task": "who", "primary": "a", **settings}).fit(*problem(True))


def test_the_same_seed_gives_the_same_answer(helped):
    again = borrow.AutoRegressor("who", "a", methods=["pooled"], cv=4).fit(*problem(True))
    assert again.verdict_ == helped.verdict_
    other = borrow.AutoRegressor("who", "a", methods=["pooled"], cv=4, random_state=5).fit(*problem(True))
    assert other.verdict_.difference != helped.verdict_.difference
