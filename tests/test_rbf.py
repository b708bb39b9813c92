"""The RBF regressor as people use it: forms of data, labels, sizes, errors that say what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold, cross_val_score

from borrow import MultiTaskRBFRegressor

DESIGNS = ["two-level", "multi-task", "independent", "one"]


def problem(n=120, seed=0, noise=0.1):
    """Three tasks: a shared wave, a level and a slope of their own."""
    rng = np.random.default_rng(seed)
    X, task = rng.uniform(-3, 3, (n, 2)), np.array(["b", "a", "c"])[np.arange(n) % 3]
    level = pd.Series({"a": 0.0, "b": 1.0, "c": -0.5})
    truth = np.sin(X[:, 0]) + level[task].to_numpy() * (1 + 0.4 * X[:, 1])
    return X, truth + noise * rng.normal(size=n), task, truth


X, Y, TASK, TRUTH = problem()
NEW, _, NEW_TASK, NEW_TRUTH = problem(seed=1, noise=0.0)
TABLE = pd.DataFrame({"x": X[:, 0], "site": TASK, "z": X[:, 1]})


@pytest.mark.parametrize("design", DESIGNS)
def test_designs_learn_what_they_can(design):
    model = MultiTaskRBFRegressor(design=design).fit(X, Y, tasks=TASK)
    mean, std = model.predict(NEW, tasks=NEW_TASK, return_std=True)
    error = np.sqrt(np.mean((mean - NEW_TRUTH) ** 2))
    assert (error > 0.5) if design == "one" else (error < 0.2)
    assert np.all(std > 0)
    assert model.tasks_.tolist() == ["a", "b", "c"]
    assert set(model.noise_) == {"a", "b", "c"}
    assert model.converged_
    assert model.jitter_ == 0.0


@pytest.mark.parametrize("design", DESIGNS)
def test_attributes_have_the_shapes_they_promise(design):
    model = MultiTaskRBFRegressor(design=design, n_basis=5, ridge=0.01).fit(X, Y, tasks=TASK)
    if design == "independent":
        assert model.weights_["a"].shape == (6,)
        assert model.centers_["b"].shape == (5, 2)
        assert model.n_basis_ == {"a": 5, "b": 5, "c": 5}
        return
    assert model.weights_.shape == (3, 6)
    assert model.centers_.shape == (5, 2)
    assert model.error_trace_.shape == (7,)
    assert model.loo_trace_.shape == (6,)
    rows = {tuple(r) for r in np.round(X, 9).tolist()}
    assert all(tuple(c) in rows for c in np.round(model.centers_, 9).tolist())
    if design == "two-level":
        assert model.shared_weights_.shape == (6,)
        assert model.bias_ridge_ > 0


def test_error_falls_and_size_is_that_of_least_leave_one_out_error():
    model = MultiTaskRBFRegressor(design="multi-task", max_basis=25).fit(X, Y, tasks=TASK)
    assert np.all(np.diff(model.error_trace_) < 0)
    assert model.n_basis_ == np.argmin(model.loo_trace_) == len(model.widths_)
    assert len(model.loo_trace_) == 26
    fixed = [
        MultiTaskRBFRegressor(design="multi-task", max_basis=25, ridge=r).fit(X, Y, tasks=TASK)
        for r in (1e-6, 0.1, 10.0)
    ]
    assert model.loo_trace_.min() <= min(m.loo_trace_.min() for m in fixed) * (1 + 1e-12)


def test_first_centre_is_the_same_whatever_comes_after():
    few = MultiTaskRBFRegressor(design="multi-task", n_basis=3, ridge=0.01).fit(X, Y, tasks=TASK)
    many = MultiTaskRBFRegressor(design="multi-task", n_basis=9, ridge=0.01).fit(X, Y, tasks=TASK)
    assert_array_equal(few.centers_, many.centers_[:3])
    assert_array_equal(few.error_trace_, many.error_trace_[:5])


def test_convergence_rule_stops_where_steps_are_small_or_says_that_it_did_not():
    model = MultiTaskRBFRegressor(design="multi-task", n_basis="converged", ridge=1e-3, tol=0.05).fit(X, Y, tasks=TASK)
    falls = -np.diff(model.error_trace_)[1:] / model.error_trace_[1:-1]
    assert np.all(falls[:-1] > 0.05)
    assert falls[-1] <= 0.05
    with pytest.warns(ConvergenceWarning, match=r"did not converge within max_basis=3 units; raise max_basis or tol"):
        model = MultiTaskRBFRegressor(n_basis="converged", tol=1e-9, max_basis=3).fit(X, Y, tasks=TASK)
    assert not model.converged_


def forms():
    frame = TABLE.assign(site=TASK)
    yield "frame", MultiTaskRBFRegressor("site").fit(frame, Y).predict(frame)
    yield "polars", MultiTaskRBFRegressor("site").fit(pl.DataFrame(frame.to_dict("list")), Y).predict(frame)
    yield "pairs", MultiTaskRBFRegressor().fit({k: (X[k == TASK], Y[k == TASK]) for k in "cab"}).predict(X, tasks=TASK)
    array = frame.to_numpy()
    yield "array", MultiTaskRBFRegressor(1).fit(array, Y).predict(array)


def test_forms_of_the_data_give_the_same_answer():
    expected = MultiTaskRBFRegressor().fit(X, Y, tasks=TASK).predict(X, tasks=TASK)
    for name, got in forms():
        assert_allclose(got, expected, rtol=0, atol=1e-9, err_msg=name)


def test_wide_targets_are_tasks():
    wide = np.column_stack([np.where(k == TASK, Y, np.nan) for k in "abc"])
    model = MultiTaskRBFRegressor().fit(X, wide)
    long = MultiTaskRBFRegressor().fit(X, Y, tasks=TASK)
    mean, std = model.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (120, 3)
    assert_allclose(mean[:, 1], long.predict(NEW, tasks="b"), rtol=0, atol=1e-9)


@pytest.mark.parametrize("design", DESIGNS)
def test_order_of_rows_and_names_of_tasks_change_nothing(design):
    order = np.random.default_rng(3).permutation(len(Y))
    renamed = np.array([{"a": 3, "b": 1, "c": 2}[t] for t in TASK])
    model = MultiTaskRBFRegressor(design=design, max_basis=12)
    expected = model.fit(X, Y, tasks=TASK).predict(NEW, tasks=NEW_TASK, return_std=True)
    moved = model.fit(X[order], Y[order], tasks=TASK[order]).predict(NEW, tasks=NEW_TASK, return_std=True)
    for one, other in zip(expected, moved, strict=True):
        assert_array_equal(one, other)
    model.fit(X, Y, tasks=renamed)
    new = np.array([{"a": 3, "b": 1, "c": 2}[t] for t in NEW_TASK])
    assert_allclose(model.predict(NEW, tasks=new), expected[0], rtol=0, atol=1e-6)


def test_units_of_targets_and_inputs_are_free():
    model = MultiTaskRBFRegressor(max_basis=12)
    mean, std = model.fit(X, Y, tasks=TASK).predict(NEW, tasks=NEW_TASK, return_std=True)
    other, scaled = model.fit(X * [1e3, 1e-2], 50.0 + 7.0 * Y, tasks=TASK).predict(
        NEW * [1e3, 1e-2], tasks=NEW_TASK, return_std=True
    )
    assert_allclose(other, 50.0 + 7.0 * mean, rtol=0, atol=1e-6)
    assert_allclose(scaled, 7.0 * std, rtol=1e-5)


def test_covariance_belongs_to_the_standard_deviation():
    for design in DESIGNS:
        model = MultiTaskRBFRegressor(design=design, n_basis=4, ridge=0.1).fit(X, Y, tasks=TASK)
        _, std = model.predict(NEW, tasks=NEW_TASK, return_std=True, include_noise=True)
        _, covariance = model.predict(NEW, tasks=NEW_TASK, return_cov=True, include_noise=True)
        assert_allclose(np.sqrt(np.diagonal(covariance)), std, rtol=1e-10)
        assert np.linalg.eigvalsh(covariance)[0] > 0
        apart = covariance[NEW_TASK[:, None] != NEW_TASK]
        assert np.all(apart == 0) == (design in ("multi-task", "independent"))


def test_bands_hold_the_truth_about_as_often_as_they_say():
    held = []
    for seed in range(4):
        X1, y1, t1, _ = problem(seed=10 + seed, noise=0.3)
        mean, std = (
            MultiTaskRBFRegressor(max_basis=15)
            .fit(X1, y1, tasks=t1)
            .predict(NEW, tasks=NEW_TASK, return_std=True, include_noise=True)
        )
        y2 = NEW_TRUTH + 0.3 * np.random.default_rng(seed).normal(size=len(NEW))
        held.append(np.mean(np.abs(mean - y2) < 1.645 * std))
    assert 0.8 < np.mean(held) < 0.97


def test_rows_without_labels_place_units_without_labels():
    """In a region without labels the unsupervised basis has centres, the supervised none."""
    y = np.where(X[:, 0] > 0, np.nan, Y)
    free = MultiTaskRBFRegressor(design="multi-task", basis="unsupervised", n_basis=8).fit(X, y, tasks=TASK)
    tied = MultiTaskRBFRegressor(design="multi-task", n_basis=8).fit(X, y, tasks=TASK)
    assert (free.centers_[:, 0] > 0).sum() >= 3
    assert np.all(tied.centers_[:, 0] <= 0)
    again = MultiTaskRBFRegressor(design="multi-task", basis="unsupervised", n_basis=8).fit(
        X, np.where(np.isnan(y), np.nan, -3.0 * y + 1.0), tasks=TASK
    )
    if again.ridge_ == free.ridge_:
        assert_array_equal(again.centers_, free.centers_)


def test_task_without_a_label_is_answered_for():
    y = np.where(TASK == "c", np.nan, Y)
    for design in DESIGNS:
        model = MultiTaskRBFRegressor(design=design, max_basis=8).fit(X, y, tasks=TASK)
        mean, std = model.predict(NEW, tasks="c", return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(std > 0)
        if design in ("multi-task", "independent"):
            assert_allclose(mean, np.nanmean(y))
        if design != "one":
            assert std.mean() > model.predict(NEW, tasks="a", return_std=True)[1].mean()


def test_candidates_may_be_few_and_are_drawn_by_the_seed():
    model = MultiTaskRBFRegressor(design="multi-task", candidates=10, n_basis=6, ridge=0.01, random_state=5)
    centers = model.fit(X, Y, tasks=TASK).centers_
    assert_array_equal(model.fit(X, Y, tasks=TASK).centers_, centers)
    assert not np.array_equal(model.set_params(random_state=6).fit(X, Y, tasks=TASK).centers_, centers)
    assert model.set_params(n_basis=99).fit(X, Y, tasks=TASK).n_basis_ == 10  # no more units than candidates


def test_cross_validation_keeps_the_tasks():
    folds = KFold(3, shuffle=True, random_state=1)
    scores = cross_val_score(MultiTaskRBFRegressor("site", max_basis=20), TABLE, Y, cv=folds, error_score="raise")
    pooled = cross_val_score(MultiTaskRBFRegressor("site", design="one"), TABLE, Y, cv=folds, error_score="raise")
    assert scores.min() > 0.9
    assert pooled.max() < 0.8


def test_selection_keeps_within_budgets_and_stops_where_rows_end():
    model = MultiTaskRBFRegressor(max_basis=6)
    for fitted in (model, MultiTaskRBFRegressor(max_basis=6).fit(X, Y, tasks=TASK)):
        chosen = fitted.select(NEW, 30, tasks=NEW_TASK, per_task={"a": 4, "b": 20})
        assert (NEW_TASK[chosen] == "a").sum() <= 4
        chosen = fitted.select(NEW, 500, tasks=NEW_TASK, per_task=7)
        assert sorted(NEW_TASK[chosen].tolist()) == ["a"] * 7 + ["b"] * 7 + ["c"] * 7
        assert sorted(fitted.select(NEW, 500, tasks=NEW_TASK).tolist()) == list(range(120))
    frame = TABLE.assign(site=TASK)
    assert len(MultiTaskRBFRegressor("site", max_basis=6).select(frame, 5)) == 5


def test_selection_prefers_what_the_fit_has_not_seen():
    near = X[:, 0] < 0
    model = MultiTaskRBFRegressor(basis="unsupervised", max_basis=12)
    model.fit(X, np.where(near, Y, np.nan), tasks=TASK)
    assert (NEW[model.select(NEW, 12, tasks=NEW_TASK), 0] > 0).mean() > 0.8


SETTINGS = {
    r"design='shared': expected one of 'two-level', 'multi-task'": {"design": "shared"},
    r"basis='none': expected 'supervised' or 'unsupervised'": {"basis": "none"},
    r"n_basis='all': expected 'auto', 'converged' or a whole number": {"n_basis": "all"},
    r"n_basis=-1: expected": {"n_basis": -1},
    r"n_basis=2.5: expected": {"n_basis": 2.5},
    r"max_basis=None: expected a whole number": {"max_basis": None},
    r"width=0: expected 'auto' or a positive number": {"width": 0},
    r"width='wide': expected 'auto' or a positive number": {"width": "wide"},
    r"ridge=-0.1: expected 'auto' or a positive number": {"ridge": -0.1},
    r"ridge=nan: expected": {"ridge": np.nan},
    r"tol=-1: expected a number that is not negative": {"tol": -1},
    r"tune_width=\(3, 1\): expected True, False, or a pair": {"tune_width": (3, 1)},
    r"tune_width=2.0: expected True, False, or a pair": {"tune_width": 2.0},
    r"candidates=0: expected 'auto', 'all' or a number": {"candidates": 0},
    r"'place' is not a column of X; columns are 'x', 'site'": {"task": "place"},
}


@pytest.mark.parametrize("message", SETTINGS)
def test_fit_refuses_settings(message):
    with pytest.raises(ValueError, match=message):
        MultiTaskRBFRegressor(**{"task": "site", **SETTINGS[message]}).fit(TABLE, Y)


FITTED = MultiTaskRBFRegressor("site", max_basis=4).fit(TABLE, Y)
SELECT = {
    r"n=0: expected how many rows": (FITTED, {"n": 0}),
    r"n=True: expected how many rows": (FITTED, {"n": True}),
    r"n=2.5: expected how many rows": (FITTED, {"n": 2.5}),
    r"per_task of task 'a' is -1; expected a whole number of rows": (FITTED, {"n": 3, "per_task": -1}),
    r"per_task names the task 'q'; tasks are 'a', 'b', 'c'": (FITTED, {"n": 3, "per_task": {"q": 1}}),
    r"unknown task 'd'": (FITTED, {"n": 3, "X": TABLE.assign(site="d")}),
    r"design='one' knows no tasks": (MultiTaskRBFRegressor("site", design="one"), {"n": 3, "per_task": 2}),
    r"pairs; select takes one table, with its tasks": (FITTED, {"n": 3, "X": [(X, Y)]}),
    r"'place' is not a column": (MultiTaskRBFRegressor("place"), {"n": 3}),
    r"NaN or infinity \(inf\) in row 0, column 'x'": (
        MultiTaskRBFRegressor("site"),
        {"n": 3, "X": TABLE.assign(x=np.inf)[:1]},
    ),
    r"select needs the task of each row; give tasks=, one of 0, 1": (
        MultiTaskRBFRegressor(max_basis=2).fit(X, np.column_stack([Y, -Y])),
        {"n": 3, "X": X},
    ),
}


@pytest.mark.parametrize("message", SELECT)
def test_select_refuses(message):
    model, arguments = SELECT[message]
    with pytest.raises(ValueError, match=message):
        model.select(**{"X": TABLE, **arguments})


def test_predict_before_fit_and_for_tasks_never_seen():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        MultiTaskRBFRegressor().predict(X)
    with pytest.raises(ValueError, match=r"unknown task 'd'.*tasks are 'a', 'b', 'c'"):
        FITTED.predict(TABLE.assign(site="d"))
    with pytest.raises(ValueError, match=r"fitted on 3 tasks, and nothing says which"):
        FITTED.predict(TABLE[["x", "z"]])


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
def test_constant_targets_are_predicted(design, value):
    with pytest.warns(UserWarning, match=r"the targets of task .* are all equal"):
        model = MultiTaskRBFRegressor("site", design=design).fit(TABLE, np.full(120, value))
    mean, std = model.predict(TABLE, return_std=True)
    assert_allclose(mean, value, rtol=1e-12)
    assert np.all(np.isfinite(std))


@pytest.mark.parametrize("design", DESIGNS)
def test_one_row_and_equal_rows_are_enough(design):
    model = MultiTaskRBFRegressor(design=design)
    with pytest.warns(UserWarning, match="fitted to a single row"):
        model.fit([[1.0]], [2.0])
    mean, std = model.predict([[1.0], [9.0]], return_std=True)
    assert_allclose(mean, 2.0)
    assert np.all(np.isfinite(std))
    assert std[0] > 0
    same = np.full((30, 2), 4.0)
    mean = model.fit(same, Y[:30], tasks=TASK[:30]).predict(same[:1], tasks="a")
    assert np.isfinite(mean[0])


def test_levels_far_apart_do_not_hide_what_is_shared():
    level = np.where(TASK == "a", 1e4, np.where(TASK == "b", -1e4, 0.0))
    model = MultiTaskRBFRegressor(max_basis=20).fit(X, Y + level, tasks=TASK)
    assert model.shared_loo_trace_.min() < 1.0  # of scaled targets, the levels taken out
    new = np.where(NEW_TASK == "a", 1e4, np.where(NEW_TASK == "b", -1e4, 0.0))
    assert np.sqrt(np.mean((model.predict(NEW, tasks=NEW_TASK) - NEW_TRUTH - new) ** 2)) < 0.4


def test_too_many_candidates_are_refused_before_memory_is_taken():
    many = np.arange(2e5)[:, None]
    with pytest.raises(MemoryError, match=r"200,000 candidates on 200,000 distinct rows needs about"):
        MultiTaskRBFRegressor(candidates="all").fit(many, np.sin(many[:, 0]))


@pytest.mark.parametrize("design", ["multi-task", "two-level", "one"])
def test_leave_one_out_table_has_the_error_that_chose_the_size(design):
    rng = np.random.default_rng(3)
    X, tasks = rng.uniform(0, 3, (40, 1)), np.repeat(["a", "b"], 20)
    y = np.sin(2 * X[:, 0]) * np.where(tasks == "a", 1.0, 2.0) + 0.1 * rng.normal(size=40)
    model = MultiTaskRBFRegressor(design=design, ridge=0.1).fit(X, y, tasks=tasks)
    table = model.leave_one_out()
    order = np.lexsort((X[:, 0],)) if design == "one" else np.lexsort((X[:, 0], tasks))
    np.testing.assert_allclose(table["y"], y[order])
    scale = model.fitted_.scale[[model.fitted_.schema.labels.index(t) for t in tasks[order]]]
    error = np.mean(((np.array(table["y"]) - np.array(table["mean"])) / scale) ** 2)
    assert error == pytest.approx(model.loo_trace_[model.n_basis_], rel=1e-6)
