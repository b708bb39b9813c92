"""The scikit-learn contract, and that tasks survive its tools.

Two tasks with opposite functions: a tool that loses the tasks predicts about 0 and scores about 0.
"""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import borrow

BOTH = [borrow.FocusedGPRegressor("subject", "up", n_restarts=0), borrow.SingleTaskGPRegressor("subject")]
SYMMETRIC = borrow.MultiTaskGPRegressor("subject")
FOLDS = KFold(3, shuffle=True, random_state=1)


@parametrize_with_checks(
    [
        borrow.FocusedGPRegressor(),
        borrow.SingleTaskGPRegressor(),
        borrow.PooledGPRegressor(),
        borrow.MultiTaskGPRegressor(),
        borrow.MultiTaskRBFRegressor(),
        borrow.AutoRegressor(),
        borrow.AutoClassifier(),
    ]
)
def test_scikit_learn_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its checks
    check(estimator)


@pytest.fixture(scope="module")
def opposite():
    """y = +-sin(x), the task in the middle of the columns, rows shuffled."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 6, 40), "subject": ["up", "down"] * 20, "z": rng.normal(size=40)})
    y = np.sin(table["x"]) * np.where(table["subject"] == "up", 1.0, -1.0) + 0.05 * rng.normal(size=40)
    return table, y


@pytest.mark.parametrize("model", [*BOTH, SYMMETRIC], ids=lambda m: type(m).__name__)
def test_cross_validation_keeps_the_tasks(model, opposite):
    table, y = opposite
    predicted = cross_val_predict(model, table, y, cv=FOLDS)
    for label in ("up", "down"):
        mine = (table["subject"] == label).to_numpy()
        assert np.corrcoef(predicted[mine], y[mine])[0, 1] > 0.95
    scores = cross_val_score(model, table, y, cv=FOLDS, scoring="r2")
    assert scores.min() > 0.8
    pooled = cross_val_score(borrow.PooledGPRegressor("subject"), table, y, cv=FOLDS, scoring="r2")
    assert pooled.max() < 0.3


@pytest.mark.parametrize("scoring", ["r2", "neg_root_mean_squared_error", None])
def test_grid_search_chooses_by_scores_that_know_the_tasks(opposite, scoring):
    table, y = opposite
    search = GridSearchCV(
        borrow.SingleTaskGPRegressor("subject", optimizer=None, noise=0.01),
        {"kernel": [borrow.kernels.SquaredExponential(1.0, (l, 3.0)) for l in (0.01, 1.5, 100.0)]},
        scoring=scoring,
        cv=FOLDS,
        error_score="raise",
    ).fit(table, y)
    assert search.best_index_ == 1
    assert np.corrcoef(search.predict(table), y)[0, 1] > 0.95
    assert search.best_estimator_.tasks_.tolist() == ["down", "up"]


def test_nested_parameters_are_reached_through_a_search(opposite):
    table, y = opposite
    search = GridSearchCV(BOTH[0], {"primary": ["up", "down"]}, cv=FOLDS, error_score="raise").fit(table, y)
    assert search.cv_results_["mean_test_score"].min() > 0.8
    assert search.best_estimator_.rho_[search.best_params_["primary"]] == 1.0


def pipeline(output, task):
    scale = ColumnTransformer(
        [("scaled", StandardScaler(), ["x", "z"])], remainder="passthrough", verbose_feature_names_out=False
    )
    model = borrow.FocusedGPRegressor(task, "up", optimizer=None, rho=-1.0, noise=0.01)
    return make_pipeline(scale.set_output(transform=output), model)


@pytest.mark.parametrize(
    ("output", "task"), [("default", 2), ("default", -1), ("pandas", "subject"), ("polars", "subject")]
)
def test_pipeline_passes_the_task_column_through(opposite, output, task):
    table, y = opposite
    given = pl.DataFrame(table.to_dict("list")) if output == "polars" else table
    model = pipeline(output, task)
    assert cross_val_score(model, given, y, cv=FOLDS, scoring="r2").min() > 0.8
    plain = pipeline("pandas", "subject").fit(table, y).predict(table)
    np.testing.assert_allclose(model.fit(given, y).predict(given), plain, rtol=0, atol=1e-10)


def test_pickled_focused_model_still_knows_its_relations(opposite):
    fitted = clone(BOTH[0]).fit(*opposite)
    again = pickle.loads(pickle.dumps(fitted))
    assert repr(again.relatedness()) == repr(fitted.relatedness())
    assert fitted.rho_["down"] < -0.5


def test_score_is_that_of_the_rows_own_tasks(opposite):
    table, y = opposite
    model = clone(BOTH[0]).fit(table, y)
    assert model.score(table, y) > 0.95
    swapped = table.assign(subject=table["subject"].map({"up": "down", "down": "up"}))
    assert model.score(swapped, y) < -1.0


def test_grid_search_over_forms_of_the_task_covariance(opposite):
    table, y = opposite
    search = GridSearchCV(
        SYMMETRIC,
        [
            {"rank": [1], "intercept": [True]},
            {"task_covariance": ["diagonal", "uniform"]},
            {"solver": ["em"], "max_iter": [200]},
        ],
        cv=FOLDS,
        error_score="raise",
    ).fit(table, y)
    assert search.cv_results_["mean_test_score"].min() > 0.8
    assert search.best_estimator_.tasks_.tolist() == ["down", "up"]


def test_wide_targets_score_and_cross_validate():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (30, 1))
    Y = np.column_stack([np.sin(X[:, 0]), -np.sin(X[:, 0])]) + 0.05 * rng.normal(size=(30, 2))
    assert cross_val_score(borrow.MultiTaskGPRegressor(), X, Y, cv=FOLDS, scoring="r2").min() > 0.9
