"""What a stranger does wrong with the symmetric model: messages say what came, what was expected, what to do."""

import logging

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import borrow
import borrow.numerics.optimise
from borrow.kernels import Matern, SquaredExponential
from borrow.models.multitask.settings import parameter_names

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": RNG.uniform(0, 5, 15), "subject": ["s1", "s2", "s3"] * 5, "z": RNG.normal(size=15)})
Y = np.sin(TABLE["x"].to_numpy()) + 0.1 * RNG.normal(size=15)
INPUTS = TABLE[["x", "z"]]
FEATURES = {"s1": [0.0, 1.0], "s2": [1.0, 2.0], "s3": [2.0, 0.0]}


def model(task="subject", **settings):
    return borrow.MultiTaskGPRegressor(task, **{"optimizer": None, **settings})


def one_with(label, value):
    return {**FEATURES, label: value}


NOT_PSD = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
SETTINGS = {
    r"not symmetric: entries differ by up to 1; give \(B \+ B.T\) / 2": {"task_covariance": np.eye(3) + np.eye(3, k=1)},
    r"not positive semi-definite: its smallest eigenvalue is -1; add at least 1 to its diag": {
        "task_covariance": NOT_PSD
    },
    r"shape \(2, 2\); expected \(3, 3\) finite numbers, one row and column per task": {"task_covariance": np.eye(2)},
    r"shape \(3,\); expected \(3, 3\)": {"task_covariance": np.ones(3)},
    r"shape \(3, 3\); expected \(3, 3\) finite numbers": {"task_covariance": np.full((3, 3), np.nan)},
    r"task_covariance='full': expected 'free', 'diagonal', 'uniform' or a matrix": {"task_covariance": "full"},
    r"rank=4: expected a whole number from 1 to 3, the number of tasks, or None": {"rank": 4},
    r"rank=0: expected a whole number from 1 to 3": {"rank": 0},
    r"rank=1.5: expected a whole number": {"rank": 1.5},
    r"rank=True: expected a whole number": {"rank": True},
    r"rank=1 and task_covariance='uniform' were given; give one of them": {"rank": 1, "task_covariance": "uniform"},
    r"rank=1 and task_covariance=array\(": {"rank": 1, "task_covariance": np.eye(3)},
    r"diagonal='full': expected 'none', 'isotropic' or 'free'": {"rank": 1, "diagonal": "full"},
    r"diagonal='free' goes with rank=.*; give rank=": {"diagonal": "free"},
    r"task_kernel= is a kernel on task features; give task_features= too": {"task_kernel": Matern()},
    r"task_features has no entry for task 's3'; give one for every task, or drop": {
        "task_features": {"s1": [0.0], "s2": [1.0]}
    },
    r"task_features differ in length: \{'s1': \(2,\), 's2': \(1,\).*same number of features for every task": {
        "task_features": one_with("s2", [1.0])
    },
    r"task_features of 's2' are \[1.0, nan\]; expected finite numbers": {
        "task_features": one_with("s2", [1.0, np.nan])
    },
    r"task_features of 's2' are \['low', 'high'\]; expected finite": {"task_features": one_with("s2", ["low", "high"])},
    r"task_features=5: expected a dict from task label to numbers, or a list of columns": {"task_features": 5},
    r"task_features=\[\]: expected a dict": {"task_features": []},
    r"task_features= makes K\^f from a kernel: leave out task_covariance= and rank=": {
        "task_features": FEATURES,
        "rank": 1,
    },
    r"makes K\^f from a kernel: leave out": {"task_features": FEATURES, "task_covariance": np.eye(3)},
    r"task_features=\['z'\] names columns of X.*leave out task= and tasks=, or give features by label": {
        "task_features": ["z"]
    },
    r"solver='newton': expected 'gradient' or 'em'": {"solver": "newton"},
    r"task_prior=-1.0: expected 'auto', a positive strength, or None": {"task_prior": -1.0},
    r"task_prior='weak': expected 'auto'": {"task_prior": "weak"},
    r"inducing=0: expected None, a number of inputs, or an array of 2 columns": {"inducing": 0},
    r"inducing='auto': expected None, a number": {"inducing": "auto"},
    r"inducing=True: expected None": {"inducing": True},
    r"inducing=\[\[0.0\]\]: expected .* an array of 2 columns": {"inducing": [[0.0]]},
    r"noise of task 's2' is -1; expected a positive variance": {"noise": {"s2": -1}},
    r"noise names the task 's9'; tasks are 's1', 's2', 's3'": {"noise": {"s9": 1.0}},
    r"specific_kernel names the task 's9'; tasks are": {"specific_kernel": {"s9": Matern()}},
    r"prior='weak': expected 'auto' \(weak priors\) or None": {"prior": "weak"},
    r"max_iter=0: expected a whole number of at least 1": {"max_iter": 0},
    r"'Subjekt' is not a column of X; columns are .*did you mean 'subject'\?": {"task": "Subjekt"},
    r"3 entries and the inputs have 2 columns": {"kernel": SquaredExponential(1.0, (1.0,) * 3)},
}
FOR_EM = [
    {"rank": 1},
    {"rank": 1, "diagonal": "free"},
    {"intercept": True},
    {"specific_kernel": "auto"},
    {"task_features": FEATURES},
    {"rank": 1, "inducing": 3},
    {"rank": 1, "diagonal": "isotropic", "inducing": np.zeros((1, 2))},
    {"task_covariance": "diagonal"},
]


@pytest.mark.parametrize("message", SETTINGS)
def test_fit_refuses_settings(message):
    with pytest.raises(ValueError, match=message):
        model(**SETTINGS[message]).fit(TABLE, Y)


@pytest.mark.parametrize("settings", FOR_EM, ids=list)
def test_em_learns_a_free_form_alone(settings):
    with pytest.raises(ValueError, match=r"solver='em' learns a free-form K\^f alone: leave out .*solver='gradient'"):
        model(solver="em", optimizer="lbfgs", **settings).fit(TABLE, Y)


def test_kernels_of_the_wrong_kind_are_refused():
    for name, more in (("kernel", {}), ("specific_kernel", {}), ("task_kernel", {"task_features": FEATURES})):
        with pytest.raises((TypeError, ValueError), match=name):
            model(**{name: "rbf"}, **more).fit(TABLE, Y)


BY_COLUMN = {
    r"task_features names 'size', not a column of X; columns are 'x', 'z'": (["size"], INPUTS),
    r"task_features names 'z'; X is an array of 2 columns, 0 to 1": (["z"], INPUTS.to_numpy()),
    r"task_features names 2; X is an array of 2 columns, 0 to 1": ([2], INPUTS.to_numpy()),
    r"features of row 3 are \(nan,\); expected finite numbers: fill or drop": (
        ["z"],
        INPUTS.assign(z=np.where(np.arange(15) == 3, np.nan, 1.0)),
    ),
    r"features of row 0 are \('low',\); expected finite numbers": (["z"], INPUTS.assign(z="low")),
    r"features of row 0 are \(None,\); expected finite": (["z"], pl.DataFrame({"x": [1.0] * 15, "z": [None] * 15})),
    r"no column beside the task features 'x', 'z'; give at least one input": (["x", "z"], INPUTS),
    r"no column beside the task features 0, 1": ([0, 1], INPUTS.to_numpy()),
}


@pytest.mark.parametrize("message", BY_COLUMN)
def test_columns_of_features_are_checked(message):
    columns, X = BY_COLUMN[message]
    with pytest.raises(ValueError, match=message):
        model(None, task_features=columns).fit(X, Y)


def test_columns_of_features_are_checked_again_by_predict():
    groups = INPUTS.assign(z=np.tile([0.0, 1.0, 2.0], 5))
    fitted = model(None, task_features=["z"]).fit(groups, Y)
    with pytest.raises(ValueError, match=r"columns \['z'\] of X say which task a row belongs to; leave out tasks="):
        fitted.predict(groups, tasks="s1")
    with pytest.raises(ValueError, match=r"task_features names 'z', not a column of X; columns are 'x'"):
        fitted.predict(groups[["x"]])
    with pytest.raises(ValueError, match=r"leave out task= and tasks="):
        model(None, task_features=["z"]).fit(groups, Y, tasks=TABLE["subject"])
    own = model(None, task_features=["z"], specific_kernel="auto").fit(groups, Y)
    with pytest.raises(ValueError, match=r"never seen has no kernel of its own: fit without specific_kernel="):
        own.predict(groups.assign(z=9.0))


def test_predict_refuses_what_fit_did_not_see():
    fitted = model().fit(TABLE, Y)
    with pytest.raises(ValueError, match=r"unknown task 's9'.*tasks are 's1', 's2', 's3'"):
        fitted.predict(TABLE.assign(subject="s9"))
    with pytest.raises(ValueError, match=r"on 3 tasks, and nothing says.*'subject' into X"):
        fitted.predict(INPUTS)
    with pytest.raises(NotFittedError):
        model().predict(TABLE)
    with pytest.raises(NotFittedError):
        model().leave_one_out()
    wide = model(None).fit(INPUTS, np.column_stack([Y, -Y + 0.3 * RNG.normal(size=15)]))
    with pytest.raises(ValueError, match=r"return_cov=True needs one task for each row; give tasks="):
        wide.predict(INPUTS, return_cov=True)


def test_a_fit_that_failed_is_no_fit():
    failed = model(rank=9)
    with pytest.raises(ValueError, match="rank=9"):
        failed.fit(TABLE, Y)
    with pytest.raises(NotFittedError):
        failed.predict(TABLE)


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"task_covariance": "uniform", "intercept": True}], ids=str)
@pytest.mark.parametrize("optimizer", ["lbfgs", None])
def test_empty_task_is_told_and_predicted_from_the_prior(settings, optimizer):
    y = np.column_stack([Y, np.full(15, np.nan), -Y])
    with pytest.warns(UserWarning, match=r"task 1 has no observed target.*drop it, or give task_features=") as caught:
        fitted = model(None, optimizer=optimizer, **settings).fit(INPUTS, y)
    assert [w.filename for w in caught] == [__file__]
    mean, std = fitted.predict(INPUTS, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    if "rank" not in settings:  # a task without rows has no loading on the shared functions: certain of its mean
        assert np.all(std > 0)
        assert std[:, 1].min() > std[:, [0, 2]].max()


def test_empty_task_with_features_is_no_reason_to_warn():
    y = np.column_stack([Y, np.full(15, np.nan), -Y])
    assert model(None, task_features={0: 0.0, 1: 1.0, 2: 5.0}).fit(INPUTS, y).predict(INPUTS).shape == (15, 3)


@pytest.mark.parametrize("settings", [{}, {"intercept": True}, {"rank": 1, "diagonal": "free"}, {"solver": "em"}])
def test_inputs_that_are_all_equal_are_told(settings):
    with pytest.warns(UserWarning, match=r"all inputs are equal: only the level.*give columns that vary") as caught:
        fitted = model(None, optimizer="lbfgs", **settings).fit(np.ones((15, 2)), Y, tasks=TABLE["subject"])
    assert [w.filename for w in caught] == [__file__]
    assert np.isfinite(fitted.predict(np.ones((1, 2)), "s1")).all()


@pytest.mark.parametrize("solver", ["gradient", "em"])
def test_iteration_limit_is_told(solver):
    with pytest.warns(ConvergenceWarning, match=r"stopped after 2 iterations.*raise max_iter \(now 2\)") as caught:
        fitted = model(optimizer="lbfgs", max_iter=2, solver=solver).fit(TABLE, Y)
    assert [w.filename for w in caught] == [__file__]
    assert not fitted.converged_
    assert fitted.n_iter_ == 2


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"intercept": True}], ids=str)
@pytest.mark.filterwarnings("ignore:column 'moon' is 4 in every row")
def test_lengthscale_that_the_data_do_not_identify_is_named(settings):
    rng = np.random.default_rng(1)
    x, tasks = rng.uniform(0, 5, 60), np.tile(["a", "b"], 30)
    table, y = pd.DataFrame({"depth": x, "moon": 4.0}), np.sin(2 * x) + 0.2 * rng.normal(size=60)
    with pytest.warns(ConvergenceWarning, match=r"lengthscale\[1\] \(column 'moon'\).*prior='auto'") as caught:
        model(None, optimizer="lbfgs", prior=None, **settings).fit(table, y, tasks=tasks)
    assert {w.filename for w in caught} == {__file__}
    assert not any("depth" in str(w.message) for w in caught)
    model(None, optimizer="lbfgs", **settings).fit(table, y, tasks=tasks)  # the prior settles it


def test_noise_at_its_floor_is_named():
    X = np.linspace(0, 3, 8)[:, None]
    tasks = np.tile(["a", "b"], 4)
    with pytest.warns(ConvergenceWarning, match=r"noise of task 'a'.*at its floor.*overfitting unless they are exact"):
        model(None, optimizer="lbfgs", prior=None).fit(X, np.sin(X[:, 0]), tasks=tasks)
    with pytest.warns(ConvergenceWarning, match=r"'the noise' is at its floor"):
        model(None, optimizer="lbfgs", prior=None, share_noise=True).fit(X, np.sin(X[:, 0]), tasks=tasks)


BOUNDS = {
    r"lengthscale\[1\] \(column 'z'\)": {},
    r"entry \('s\d', 's\d'\) of the factor of K\^f": {"kernel": SquaredExponential(1.0, 1.0, fixed="lengthscale")},
    r"loading 0 of task 's\d'": {"rank": 1, "kernel": SquaredExponential(1.0, 1.0, fixed="lengthscale")},
    r"own variance of task 's\d'": {"task_covariance": "diagonal", "kernel": Matern(1.0, 1.0, fixed="lengthscale")},
    r"lengthscale\[\d\] of the task kernel": {
        "task_features": FEATURES,
        "kernel": SquaredExponential(1.0, 1.0, fixed="lengthscale"),
        "share_noise": True,
    },
    r"variance of the intercepts": {
        "intercept": True,
        "task_covariance": "diagonal",
        "kernel": Matern(1.0, 1.0, fixed="lengthscale"),
        "share_noise": True,
    },
}


@pytest.mark.parametrize("message", BOUNDS)
def test_parameter_at_a_bound_is_named(message, monkeypatch):
    monkeypatch.setattr(borrow.numerics.optimise, "LOG_BOUND", 0.1)  # so near that the data want to go further
    with pytest.warns(ConvergenceWarning, match=rf"{message}.* is not identified: other values explain"):
        model(optimizer="lbfgs", task_prior=None, **BOUNDS[message]).fit(TABLE, 3.0 * Y)


def test_every_parameter_has_a_name():
    names = parameter_names(("a", "b"), _setup_of_everything())
    assert names["kernel"] == ["lengthscale"]
    assert names["noise"] == ["noise of task 'a'", "noise of task 'b'"]
    assert names["intercept"] == ["variance of the intercepts"]
    assert names["specific"] == ["variance of task 'b'", "lengthscale of task 'b'"]
    assert names["factor"][1] == "entry ('b', 'a') of the factor of K^f"


def _setup_of_everything():
    fitted = borrow.MultiTaskGPRegressor(
        optimizer=None, intercept=True, specific_kernel={"b": SquaredExponential(1.0, 1.0)}
    )
    return fitted.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], tasks=["a", "a", "b"]).fitted_.model.setup


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"task_covariance": "diagonal"}, {"solver": "em"}], ids=str)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
def test_constant_targets_are_predicted(settings, value):
    with pytest.warns(UserWarning, match=r"targets of task .* are all equal: only its level can be learnt"):
        fitted = model(optimizer="lbfgs", **settings).fit(TABLE, np.full(15, value))
    mean, std = fitted.predict(TABLE, return_std=True)
    np.testing.assert_allclose(mean, value, rtol=1e-12)
    assert np.isfinite(std).all()


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"intercept": True}, {"inducing": 3}], ids=str)
def test_one_row_is_enough(settings):
    with pytest.warns(UserWarning, match="fitted to a single row"):
        fitted = borrow.MultiTaskGPRegressor(**settings).fit([[1.0]], [2.0])
    mean, std = fitted.predict([[1.0], [9.0]], return_std=True)
    np.testing.assert_allclose(mean, 2.0)
    assert 0 < std[0] < std[1]


def test_one_row_a_task_is_enough():
    fitted = borrow.MultiTaskGPRegressor().fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0], tasks=["a", "b", "c"])
    assert np.isfinite(fitted.predict([[0.5]], "c")).all()


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"inducing": 4}], ids=str)
def test_inputs_that_are_nearly_the_same_are_no_trouble(settings, caplog):
    X = np.repeat(np.linspace(0, 1, 5), 4)[:, None]
    X[::4] += 1e-13
    y = np.sin(3 * X[:, 0]) + 0.1 * np.tile([1, -1, 1, -1], 5)
    fitted = borrow.MultiTaskGPRegressor(kernel=SquaredExponential(1.0, 2.0), **settings)
    with caplog.at_level(logging.INFO, logger="borrow"):
        mean = fitted.fit(X, y, tasks=np.tile([0, 0, 1, 1], 5)).predict(X, np.tile([0, 0, 1, 1], 5))
    np.testing.assert_allclose(mean, np.sin(3 * X[:, 0]), atol=0.2)


def test_too_many_rows_are_refused_before_memory_is_taken():
    X = np.arange(2e5)[:, None]
    with pytest.raises(MemoryError, match=r"dense multi-task GP on 200,000 .*give rank=.*inducing="):
        borrow.MultiTaskGPRegressor().fit(X, np.sin(X[:, 0]), tasks=np.arange(2e5) % 2)
