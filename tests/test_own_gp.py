"""Models with one kernel for all tasks average what it says of a task with the task's own GP, by rows left out."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import borrow
from borrow import store
from borrow.data.cells import Cells
from borrow.models.gp.own import own_models, probabilities_of, quarters, with_own_gp
from borrow.models.hierarchical import fit as hierarchical
from borrow.models.ivm import estimators as ivm
from borrow.models.ivm.estimators import without_quarters
from borrow.tasks.placed import PlacedTasks

MODELS = [borrow.MultiTaskIVMRegressor, borrow.HierarchicalGPRegressor]
PAPERS = [{"optimizer": None}, {"prior": None}]


def of_the_first(X):
    return np.sin(2.0 * X[:, 0])


def of_all(X):
    return np.sin(X.sum(axis=1))


def of_the_last(X):
    return np.sin(1.5 * X[:, -2]) + np.cos(1.5 * X[:, -1])


def drawn(first, others=of_the_first, seed=0, tasks=4, rows=24, columns=5):
    """Tasks of one smooth function, the first of which may have another; and where its function is asked for."""
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(tasks * rows, columns)), np.repeat(np.arange(tasks), rows)
    y = np.where(task == 0, first(X), others(X)) + 0.05 * rng.normal(size=len(X))
    new = rng.normal(size=(200, columns))
    return X, y, np.array([f"t{t}" for t in task]), new, first(new)


def error(model, new, truth, task="t0"):
    return float(np.sqrt(np.mean((model.predict(new, tasks=[task] * len(new)) - truth) ** 2)))


@pytest.mark.parametrize("model", MODELS)
def test_task_unlike_the_others_is_answered_as_no_transfer_does(model):
    X, y, task, new, truth = drawn(of_the_last)
    fitted = model(random_state=0).fit(X, y, tasks=task)
    alone = borrow.SingleTaskGPRegressor().fit(X, y, tasks=task)
    assert fitted.shared_probability_["t0"] < 0.05
    assert error(fitted, new, truth) < 1.05 * error(alone, new, truth)
    noise = fitted.noise_at(new[:1], tasks=["t0"])[0]
    assert_allclose(noise, alone.noise_at(new[:1], tasks=["t0"])[0], rtol=0.2)  # of the model that answers


@pytest.mark.parametrize(
    ("model", "function", "size"),
    [
        (MODELS[0], of_the_first, {"rows": 10}),
        (MODELS[1], of_all, {"tasks": 8, "rows": 12, "columns": 2}),
    ],
)
def test_related_tasks_keep_what_they_share(model, function, size):
    X, y, task, new, truth = drawn(function, function, seed=3, **size)
    fitted = model(random_state=0).fit(X, y, tasks=task)
    assert min(fitted.shared_probability_.values()) > 0.9
    alone = borrow.SingleTaskGPRegressor().fit(X, y, tasks=task)
    assert error(fitted, new, truth) < 0.95 * error(alone, new, truth)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_settings_of_the_papers_have_no_own_gp(model, paper, monkeypatch):
    X, y, task, new, _ = drawn(of_the_last)
    asked = new, ["t0"] * len(new)
    one = model(random_state=0, **paper).fit(X, y, tasks=task)
    assert one.fitted_.model.own is None
    assert set(one.shared_probability_.values()) == {1.0}
    for place in (ivm, hierarchical):
        monkeypatch.setattr(place, "own_models", None)  # not even asked for: the same bits
    two = model(random_state=0, **paper).fit(X, y, tasks=task)
    assert_array_equal(one.predict(*asked, return_cov=True)[1], two.predict(*asked, return_cov=True)[1])
    assert_array_equal(one.predict(*asked), two.predict(*asked))


@pytest.mark.parametrize("model", MODELS)
def test_what_is_predicted_is_the_average_of_both(model):
    X, y, task, new, _ = drawn(of_the_last)
    fitted = model(random_state=0).fit(X, y, tasks=task)
    fit, t0 = fitted.fitted_.model, fitted.fitted_.schema.labels.index("t0")
    codes, p = np.full(len(new), t0), 0.3
    shared = replace(fit, own=None).predict(new, codes, full=True)
    own = fit.own.posterior.predict(new, codes, full=True)
    half = replace(fit, own=replace(fit.own, probability=np.where(np.arange(4) == t0, p, 0.0)))
    found, d = half.predict(new, codes, full=True), own.mean - shared.mean
    assert_allclose(found.mean, shared.mean + p * d, atol=1e-10)
    covariance = (1 - p) * shared.covariance + p * own.covariance + p * (1 - p) * np.outer(d, d)
    assert_allclose(found.covariance, covariance, atol=1e-10)
    assert_allclose(half.expected_noise[t0], (1 - p) * fit_noise(fit, t0) + p * fit.own.posterior.expected_noise[t0])


def fit_noise(fit, t):
    """Of a new observation, by the shared model."""
    return np.broadcast_to(replace(fit, own=None).expected_noise, len(fit.cells.starts) - 1)[t]


@pytest.mark.parametrize("model", MODELS)
def test_names_of_tasks_and_order_of_columns_and_rows_change_nothing(model):
    X, y, task, new, _ = drawn(of_the_last)
    columns, rows = [3, 0, 4, 2, 1], np.random.default_rng(1).permutation(len(y))
    names = dict(zip(["t0", "t1", "t2", "t3"], ["z", "b", "y", "a"], strict=True))
    one = model(random_state=0).fit(X, y, tasks=task)
    renamed = np.array([names[t] for t in task])
    two = model(random_state=0).fit(X[rows][:, columns], y[rows], tasks=renamed[rows])
    assert_allclose(
        [two.shared_probability_[names[t]] for t in names], [one.shared_probability_[t] for t in names], atol=1e-2
    )
    for t in names:
        a = one.predict(new, tasks=[t] * len(new), return_std=True)
        b = two.predict(new[:, columns], tasks=[names[t]] * len(new), return_std=True)
        assert_allclose(a, b, atol=1e-3)


@pytest.mark.parametrize("n_active", [96, 50])
def test_rows_left_out_of_the_informative_vectors_are_those_of_the_dense_formula(n_active):
    """K(out, rest) (K(rest, rest) + s2 I)^-1 y(rest), of the chosen rows of the task that are in other quarters."""
    X, y, task, *_ = drawn(of_the_last)
    seen = {}

    def spy(posterior, cells, fold, active):
        seen.update(cells=cells, fold=fold, rows=active.rows, found=without_quarters(posterior, cells, fold, active))
        return seen["found"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ivm, "without_quarters", spy)
        fit = borrow.MultiTaskIVMRegressor(n_active=n_active).fit(X, y, tasks=task).fitted_.model
    cells, kernel, rows, fold = seen["cells"], fit.chosen.kernel, seen["rows"], seen["fold"]
    for i in range(0, 96, 5):
        rest = rows[(cells.task[rows] == cells.task[i]) & (fold[rows] != fold[i])]
        A = kernel(cells.X[rest]) + fit.noise[cells.task[i]] * np.eye(len(rest))
        said = kernel(cells.X[i : i + 1], cells.X[rest]) @ np.linalg.solve(A, cells.y[rest])
        assert_allclose(seen["found"][i], said[0], atol=1e-8)


def rows_of(sizes, seed=0):
    rng, none = np.random.default_rng(seed), np.zeros(len(sizes))
    X = rng.normal(size=(sum(sizes), 1))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=len(X))
    return Cells(X, y, np.ones(len(X)), np.cumsum([0, *sizes]), none, none, none)


def test_quarters_are_of_every_task_that_is_neither_tiny_nor_large():
    cells = rows_of([12, 9, 301, 0, 10])
    able = with_own_gp(cells)
    assert able.tolist() == [0, 4]
    fold = quarters(cells, able)
    assert np.bincount(fold[:12]).tolist() == [3, 3, 3, 3]
    assert set(fold[12:-10]) == {-1}
    assert_array_equal(fold, quarters(cells, able))


def test_no_task_has_an_own_gp_where_it_is_the_only_one_or_rows_are_many(caplog):
    assert len(with_own_gp(rows_of([40, 0]))) == 0
    assert len(with_own_gp(rows_of([250] * 8))) == 8
    with caplog.at_level("INFO", logger="borrow"):
        assert len(with_own_gp(rows_of([250] * 8 + [10]))) == 0
    assert "9 tasks have 2010 rows together" in caplog.text


def test_who_answers_is_decided_by_the_rows_left_out():
    """A shared model that answers exactly keeps all tasks, one that says nothing has none."""
    cells, kernel = rows_of([16, 16]), borrow.kernels.SquaredExponential(1.0, 1.0)
    how = PlacedTasks(cells), kernel, np.log([0.1, 0.1]), np.ones(1), False, 100, quarters(cells, np.arange(2))
    assert own_models(*how, cells.y) is None
    assert_allclose(own_models(*how, np.zeros(32)).probability, 1.0, atol=0.01)
    assert own_models(*how, np.full(32, np.nan)) is None  # nothing was left out


def test_odds_are_those_of_squared_errors_and_of_how_many_tasks_are_by_themselves():
    S, T = np.array([40.0, 6.0, 11.0, 5.0]), np.array([10.0, 10.0, 10.0, 12.0])
    n = np.array([20.0, 12.0, 12.0, 12.0])
    found = probabilities_of(np.column_stack([S, T, n]))
    typical = 6.0 * (S + T).sum() / (2.0 * n.sum())
    odds = ((typical + S) / (typical + T)) ** ((6.0 + n) / 2.0)
    r = (1.0 + found.sum()) / 6.0
    assert r < 0.5
    assert_allclose(found, odds * r / (odds * r + 1.0 - r), rtol=1e-6)
    assert_allclose(probabilities_of(np.array([[40.0, 10.0, 20.0]] * 3)), 1.0, atol=0.01)
    assert np.isfinite(probabilities_of(np.array([[0.0, 0.0, 5.0]] * 3))).all()  # both exact


@pytest.mark.parametrize("model", MODELS)
def test_wide_answers_and_a_stored_model_are_averaged_too(model, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = np.column_stack([np.sin(2 * X[:, 0]), np.sin(2 * X[:, 0]), np.sin(2 * X[:, 1])]) + 0.05 * rng.normal(
        size=(30, 3)
    )
    fitted = model(random_state=0).fit(X, Y)
    assert min(fitted.shared_probability_.values()) < 0.5
    mean, std = fitted.predict(X[:4], return_std=True)
    for t in range(3):
        one = fitted.predict(X[:4], tasks=[t] * 4, return_std=True)
        assert_allclose((mean[:, t], std[:, t]), one, rtol=1e-9)
    path = store.save(fitted, tmp_path / "model")
    again = store.load(path)
    assert_array_equal(again.predict(X[:4], return_std=True), (mean, std))
    assert again.shared_probability_ == fitted.shared_probability_
