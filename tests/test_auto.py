"""Estimators that ask first: they fit the winner, and fall back where nothing is shown."""

import numpy as np
import pandas as pd
import pytest

import borrow
from borrow.transfer.verdict import Verdict


def problem(related, seed=0, n=16, m=80):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 24, n + m)  # rows of the primary are too far apart to follow the waves
    own = np.where(np.arange(n + m) < n, np.sin(2 * x), np.sin(2 * x) if related else rng.normal(size=n + m))
    table = pd.DataFrame({"x": x, "who": ["a"] * n + ["b"] * m})
    return table, own + 0.05 * rng.normal(size=n + m)


@pytest.fixture(scope="module")
def helped():
    return borrow.AutoRegressor("who", "a", methods=["pooled"], cv=4).fit(*problem(True))


def test_what_helps_has_most_weight(helped):
    assert (helped.chosen_, helped.method_) == ("pooled", "pooled")
    assert helped.verdict_.answer == "helps"
    assert isinstance(helped.verdict_, Verdict)
    assert helped.weights_["pooled"] > 0.8
    assert sum(helped.weights_.values()) == pytest.approx(1.0)
    assert helped.because_.startswith("Best prediction: ")
    assert helped.model_ is helped.members_["pooled"]


@pytest.fixture(scope="module")
def mixed():
    """A primary that is half related: both methods have weight."""
    table, y = problem(True)
    y = np.where(table["who"] == "a", 0.5 * y + 0.5 * np.cos(table["x"] / 4), y)
    return borrow.AutoRegressor("who", "a", methods=["pooled"], cv=4).fit(table, y)


def test_predictions_are_those_of_the_mixture(mixed):
    """Mean, variance, covariance and quantiles against draws from the members."""
    assert set(mixed.weights_) == {"single", "pooled"}
    new = pd.DataFrame({"x": [1.0, 9.0], "who": "a"})
    rng, draws = np.random.default_rng(0), []
    for key, w in mixed.weights_.items():
        mean, cov = mixed.members_[key].predict(new, return_cov=True)
        draws.append(rng.multivariate_normal(mean, cov, size=round(200_000 * w)))
    draws = np.vstack(draws)
    mean, std = mixed.predict(new, return_std=True)
    np.testing.assert_allclose(mixed.predict(new), mean, rtol=1e-12)
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(std, draws.std(axis=0), rtol=0.01)
    _, cov = mixed.predict(new, return_cov=True)
    np.testing.assert_allclose(cov, np.cov(draws.T), atol=0.02 * cov.max())
    noisy = []
    for key, w in mixed.weights_.items():
        m, s = mixed.members_[key].predict(new, return_std=True, include_noise=True)
        noisy.append(m + s * rng.normal(size=(round(200_000 * w), 2)))
    expected = np.quantile(np.vstack(noisy), [0.1, 0.5, 0.9], axis=0).T
    np.testing.assert_allclose(mixed.predict_quantiles(new, [0.1, 0.5, 0.9]), expected, atol=0.02)
    with pytest.raises(ValueError, match="ask for one of them"):
        mixed.predict(new, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="expected numbers between 0 and 1"):
        mixed.predict_quantiles(new, [5, 95])


def test_every_task_is_answered_for(mixed):
    new = pd.DataFrame({"x": [1.0, 9.0], "who": "b"})
    expected = sum(w * mixed.members_[key].predict(new) for key, w in mixed.weights_.items())
    np.testing.assert_allclose(mixed.predict(new), expected)


def test_the_primary_is_meant_where_nothing_names_a_task(helped):
    new = pd.DataFrame({"x": [1.0, 2.0]})
    np.testing.assert_array_equal(helped.predict(new), helped.predict(new.assign(who="a")))
    table, y = problem(True)
    beside = borrow.AutoRegressor(primary="a", methods=["pooled"], cv=4).fit(table[["x"]], y, tasks=table["who"])
    np.testing.assert_array_equal(beside.predict(new), helped.predict(new))
    np.testing.assert_array_equal(beside.predict(new, tasks="b"), helped.predict(new.assign(who="b")))


def test_what_is_of_no_use_has_little_weight():
    """The other task is noise, by a method that cannot drop it."""
    table, y = problem(False)
    model = borrow.AutoRegressor("who", "a", methods=["pooled"], cv=4).fit(table, y)
    assert model.chosen_ == "single"
    assert model.weights_["single"] > 0.5
    assert model.verdict_.answer not in ("helps", "probably helps")


def test_who_is_cautious_wants_proof():
    table, y = problem(True, n=5)
    bold, cautious = (
        borrow.AutoRegressor("who", "a", methods=["pooled"], cautious=c).fit(table, y) for c in (False, True)
    )
    assert bold.verdict_.answer != "helps"
    assert "pooled" in bold.weights_
    assert cautious.weights_ == {"single": 1.0}
    assert "cautious" in cautious.because_
    alone = borrow.SingleTaskGPRegressor("who").fit(table, y)
    np.testing.assert_array_equal(cautious.predict(table), alone.predict(table))


def test_wide_targets():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (14, 1))
    Y = pd.DataFrame({"a": np.sin(X[:, 0]), "b": np.cos(X[:, 0])}) + 0.05 * rng.normal(size=(14, 2))
    model = borrow.AutoRegressor(primary="a", methods=["pooled"], cv=2).fit(X, Y)
    assert model.comparison_.rows == {"a": 14, "b": 14}
    assert model.predict(X, tasks="a").shape == (14,)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (14, 2)
    np.testing.assert_allclose(mean[:, 0], model.predict(X, tasks="a"))


def test_labels():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    who = np.array(["a"] * 20 + ["b"] * 40)
    model = borrow.AutoClassifier(primary="a", methods=["pooled"], cv=2).fit(X, y, tasks=who)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.comparison_.kind == "classification"
    assert model.comparison_.classes == ["no", "yes"]
    p = model.predict_proba(X[:5], tasks="a")
    expected = sum(w * model.members_[key].predict_proba(X[:5], tasks=["a"] * 5) for key, w in model.weights_.items())
    np.testing.assert_allclose(p, expected)
    assert model.predict(X[:5]).tolist() == model.classes_[p.argmax(axis=1)].tolist()
    np.testing.assert_allclose(model.decision_function(X[:5]), np.log(p[:, 1] / p[:, 0]))
    assert model.score(X, y) > 0.8


def test_too_few_rows_of_the_primary_are_said():
    table, y = problem(True, n=2)
    with pytest.warns(UserWarning, match=r"primary='a' has 2 row\(s\) with a target: too few to hold some out"):
        model = borrow.AutoRegressor("who", "a").fit(table, y)
    assert (model.method_, model.comparison_, model.verdict_) == ("single", None, None)


def test_a_primary_with_one_target_is_not_judged():
    table, y = problem(True)
    own = table["who"] == "a"
    said = r"primary='a' has a constant target, 2.5 in all its 16 rows with a target, so nothing says whether"
    with pytest.warns(UserWarning, match="all equal"), pytest.warns(UserWarning, match=said):
        model = borrow.AutoRegressor("who", "a").fit(table, np.where(own, 2.5, y))
    assert (model.method_, model.comparison_) == ("single", None)
    np.testing.assert_allclose(model.predict(table[:5]), 2.5)
    said = "primary='a' has one class only, 'no' in all its 16 rows with a target, so nothing says whether"
    with pytest.warns(UserWarning, match=said):
        labels = borrow.AutoClassifier("who", "a").fit(table, np.where(own | (y < 0), "no", "yes"))
    assert set(labels.predict(table[:5])) == {"no"}


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
        ({"cv": 99}, "cv=99: expected 2 to 16 folds"),
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
