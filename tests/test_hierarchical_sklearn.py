"""The scikit-learn contract of the hierarchical estimators, and that their studies run."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

import borrow
from borrow.datasets.shared_data import Topics, load_rcv1
from borrow.kernels import Constant, Linear

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "studies")]


@parametrize_with_checks(
    [
        borrow.HierarchicalGPRegressor(),
        borrow.HierarchicalGPRegressor(base_kernel=Linear(1.0) + Constant(1.0)),
        borrow.HierarchicalGPClassifier(),
        borrow.HierarchicalGPClassifier(base_kernel=Linear(1.0) + Constant(1.0)),
    ]
)
def test_scikit_learn_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its checks
    check(estimator)


@pytest.fixture(scope="module")
def opposite():
    """y = +-sin(x), the task in the middle of the columns."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 6, 40), "subject": ["up", "down"] * 20, "z": rng.normal(size=40)})
    y = np.sin(table["x"]) * np.where(table["subject"] == "up", 1.0, -1.0) + 0.05 * rng.normal(size=40)
    return table, y


def test_tasks_survive_the_tools(opposite):
    table, y = opposite
    model = borrow.HierarchicalGPRegressor("subject")
    predicted = cross_val_predict(model, table, y, cv=KFold(3, shuffle=True, random_state=1))
    assert np.corrcoef(predicted, y)[0, 1] > 0.95
    grid = GridSearchCV(model, {"covariance_strength": [1.0, np.inf]}, cv=3, error_score="raise").fit(table, y)
    assert grid.best_estimator_.tasks_.tolist() == ["down", "up"]
    fitted = clone(model).fit(table, y)
    again = pickle.loads(pickle.dumps(fitted))
    for one, other in zip(fitted.predict(table, return_std=True), again.predict(table, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    labels = borrow.HierarchicalGPClassifier("subject")
    assert np.mean(cross_val_predict(labels, table, y > 0, cv=KFold(3, shuffle=True, random_state=1)) == (y > 0)) > 0.75


def few_topics(n=260, d=120, topics=9):
    rng = np.random.default_rng(0)
    member = rng.random((n, topics)) < 0.25
    themes = rng.random((topics, d)) < 0.08
    rate = 0.03 + 0.3 * (member[:, :, None] * themes[None]).max(axis=1)
    X = (rng.random((n, d)) < rate) + 1e-3
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return Topics(sparse.csr_array(X), member, tuple(f"T{i}" for i in range(topics)))


def test_studies_of_the_text_data_run_small(tmp_path):
    import yu2005_new_topics as new
    import yu2005_text as text

    data, sizes = few_topics(), {"topics": 5, "pool": 90, "labelled": 40}
    core = text.one_draw(data, 0, iterations=3, keep=tmp_path, **sizes)
    result = text.merged(core, text.the_others(data, 0, iterations=3, **sizes))
    facts = text.summary([result, text.merged(text.one_draw(data, 1, iterations=3, **sizes), None)])
    assert facts["fair"]["multi-task GP, defaults"]["draws"] == 2
    assert facts["fair"]["SVM"]["draws"] == 1
    for run in ("as the paper", "fair"):
        assert all(0 <= v["AUC all"] <= 1 for v in result[run].values())
        assert result[run]["ridge"]["AUC all"] > 0.6
        assert result[run]["multi-task GP, plain EM"]["objective rises"]
    spaces = {n: new.Space(borrow.store.load(tmp_path / f), data.X) for n, f in (("learnt, ours", "ours.borrow"),)}
    spaces["ridge"] = new.Space(None, data.X)
    kernel = borrow.store.load(tmp_path / "ours.borrow")
    rows = np.arange(12)
    np.testing.assert_allclose(spaces["learnt, ours"].gram(rows), kernel(data.X[rows]), atol=1e-10)
    a = np.arange(12.0)
    expected = kernel(data.X, data.X[rows]) @ a
    np.testing.assert_allclose(spaces["learnt, ours"].scores([rows], [a])[:, 0], expected, atol=1e-9)
    draw = new.one_draw(data, text.Draw(data, 0, **sizes), spaces, 0, sizes=(10, 30))
    table = new.summary([{**draw, "commit": "one"}, {**draw, "commit": "another"}])
    assert len(table) == 2 * 2 * 3  # runs, sizes, and AUC with the two means of F
    assert table[0]["records by commit"] == {"one": 1, "another": 1}
    assert 0.4 < table[0]["ridge"] <= 1.0


def test_what_is_left_out_in_closed_form_is_what_refits_say():
    from yu2005_text import Ridge

    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 4))
    K, label = X @ X.T, np.arange(9) % 3 == 0
    y = np.where(label, 1.0, -1.0) - np.where(label, 1.0, -1.0).mean()
    ridge = Ridge(K, y)

    def refit(left, l):
        kept = np.setdiff1d(np.arange(9), left)
        return K[np.ix_(left, kept)] @ np.linalg.solve(K[np.ix_(kept, kept)] + l * np.eye(len(kept)), y[kept])

    for l in (0.1, 3.0):
        wins = [np.subtract(*refit([i, j], l)) > 0 for i in np.flatnonzero(label) for j in np.flatnonzero(~label)]
        assert ridge.left_out_area(l, label) == pytest.approx(np.mean(wins))
        wrong = [(refit([i], l)[0] > 0) != (y[i] > 0) for i in range(9)]
        assert ridge.left_out_error(l) == pytest.approx(np.mean(wrong))


def test_toy_study_runs_small():
    import yu2005_toy as toy

    result = toy.one_toy(0, tasks=8, rows=12)
    assert result["distance"]["true"] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert result["distance"]["learnt, ours"][1] < 0.5 * result["distance"]["base"][1]
    assert toy.picture(result) is not None
    family = toy.one_family("common mean", 0, tasks=8, rows=5)
    assert family["ours"] < family["no learning"]


def test_text_data_are_as_described():
    try:
        data = load_rcv1()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    assert data.X.shape == (10000, 47236)
    assert data.member.shape == (10000, 81)
    assert data.member.sum(axis=0).min() > 50
    np.testing.assert_allclose(data.X.multiply(data.X).sum(axis=1), 1.0, atol=1e-4)
