"""What an impatient stranger with a CSV does wrong: messages say what came, what was expected, what to do."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import borrow
from borrow.kernels import Linear, SquaredExponential

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": RNG.uniform(0, 5, 12), "subject": ["s1", "s2", "s3"] * 4, "z": RNG.normal(size=12)})
Y = np.sin(TABLE["x"].to_numpy())
INPUTS = TABLE[["x", "z"]]
ARRAY = TABLE.to_numpy()
DATE = datetime.date(2020, 1, 2)
EVERY = [borrow.FocusedGPRegressor, borrow.SingleTaskGPRegressor, borrow.PooledGPRegressor]


def focused(task="subject", primary="s1", **settings):
    return borrow.FocusedGPRegressor(task, primary, **{"optimizer": None, **settings})


def put(column, row, value):
    """The table with something else in a column."""
    table = TABLE.astype({column: object})
    table.loc[row, column] = value
    return table


SETTINGS = {
    r"primary='s9' is not a task; tasks are 's1', 's2', 's3'": {"primary": "s9"},
    r"primary=1 is not a task; tasks are 's1'": {"primary": 1},
    r"3 tasks and no primary; give primary=, one of 's1', 's2', 's3'": {"primary": None},
    r"'Subjekt' is not a column of X; columns are 'x', 'subj.* mean 'subject'\?": {"task": "Subjekt"},
    r"column 'subject' of X holds text \('s1' in row 0\).*task=": {"task": None, "primary": None},
    r"noise of task 's1' is -1; expected a positive variance": {"noise": -1},
    r"noise of task 's2' is 'low'; expected a positive variance": {"noise": {"s2": "low"}},
    r"noise names the task 's9'; tasks are 's1', 's2', 's3'": {"noise": {"s9": 1.0}},
    r"rho names the task 's9'; tasks are 's1', 's2', 's3'": {"rho": {"s9": 1.0}},
    r"rho of task 's1' is 'high'; expected a number": {"rho": "high"},
    r"rho_prior=-1.0: expected 'auto', a positive": {"rho_prior": -1.0, "optimizer": "lbfgs"},
    r"inducing='all': expected 'auto', None, 'primary', a number .* with 2 columns": {"inducing": "all"},
    r"inducing=\[\[0, 0, 0\]\]: expected .* with 2 columns": {"inducing": [[0, 0, 0]]},
    r"inducing=\[\[nan, 0.0\]\]: expected 'auto'": {"inducing": [[np.nan, 0.0]]},
    r"prior='weak': expected 'auto' \(weak priors\) or None": {"prior": "weak"},
    r"optimizer='adam': expected 'lbfgs', or None": {"optimizer": "adam"},
    r"max_iter=0: expected a whole number of at least 1": {"max_iter": 0},
    r"n_restarts=-1: expected a whole number of at least 0": {"n_restarts": -1},
    r"3 entries and the inputs have 2 columns": {"kernel": SquaredExponential(1.0, (1.0,) * 3)},
}
ARGUMENTS = {
    r"no column beside the task column 'subject'": {"X": TABLE[["subject"]]},
    r"'subject' is a column name and X is an array.*give the position": {"X": ARRAY},
    r"'subject' names a column of X and tasks= was given too": {"tasks": TABLE["subject"]},
    r"y has 2 columns, one per task, and X.* names tasks too": {"y": np.column_stack([Y, Y])},
    r"task is missing \(NaN\) in rows 1, 3; every row": {"X": put("subject", [1, 3], None)},
    r"missing \(NaN\) in row 2;": {"X": put("subject", 2, pd.NA).astype({"subject": "string"})},
    r"\(inf\) in rows 2, 5, column 'x'; drop or fill": {"X": put("x", [2, 5], None)},
    r"rows 0, 1, 2, 3, 4, 5, 6, 7, \.\.\. \(9 in all\)": {"X": put("x", list(range(9)), None)},
    r"column 'z' of X holds text \('high' in row 4\) where numbers": {"X": put("z", 4, "high")},
    r"column 'z' of X holds dates.*days since": {"X": TABLE.assign(z=pd.Timestamp(DATE))},
    r"column 'z' of X holds dates or times \(2020-01-02 in row 3": {"X": put("z", 3, DATE)},
    r"'day' of X holds dates": {"X": pl.DataFrame({"subject": ["s1"], "day": [DATE]}), "y": [1.0]},
    r"y holds dates.*turn them into numbers": {"y": pd.date_range("2020-01-01", periods=12)},
    r"y holds text \('n/a' in row 11\) where numbers are expected": {"y": ["1.5"] * 11 + ["n/a"]},
    r"y contains infinity.*in row 0; use NaN for what was not": {"y": np.r_[np.inf, Y[1:]]},
    r"nothing to learn from in 12 rows: every y is NaN": {"y": np.full(12, np.nan)},
    r"target y is None; give y, or a list or dict of \(X, y\) pairs": {"y": None},
    r"X has 12 rows and y has 5; give one target per row": {"y": Y[:5]},
    r"0 sample\(s\) .*minimum of 1 is required": {"X": TABLE[:0], "y": Y[:0]},
    r"same name; rename them.*\s.*'x' 2": {"X": TABLE.set_axis(["x", "subject", "x"], axis=1)},
    r"lazy; call \.collect\(\) first": {"X": pl.LazyFrame({"x": [1.0]})},
    r"X is a dict; expected a data frame, an array, or": {"X": {"x": [1.0]}, "y": [1.0]},
    r"sample_weight must be finite and not negative; it is -1 in rows 0": {"sample_weight": -1},
    r"not negative; it is nan in row 1$": {"sample_weight": np.r_[1, np.nan, Y[2:] ** 2]},
    r"sample_weight holds text \('one' in row 0\)": {"sample_weight": ["one"] * 12},
    r"weight.shape == \(2,\), expected \(12,\)! Give one per row": {"sample_weight": [1, 2]},
    r"every row has a NaN y or a sample_weight of zero": {"sample_weight": 0},
    r"replicates must be finite and positive; it is 0 in rows 0": {"replicates": 0},
}
OF_ARRAYS = {
    r"task=3 is not among the 3 columns of X, 0 to 2": (3, {"X": ARRAY}),
    r"task is missing \(NaN\) in row 5": (1, {"X": put("subject", 5, np.nan).to_numpy()}),
    r"\(inf\) in row 7, column 2; drop": (1, {"X": put("z", 7, np.inf).to_numpy()}),
    r"column 2 of X holds text \('high' in row 4": (1, {"X": put("z", 4, "high").to_numpy()}),
    r"1 task labels for 12 rows; give one per row": (None, {"X": INPUTS, "tasks": ["s1"]}),
    r"task of row 0 is \[0.0, 0.0\]; a task label is": (None, {"X": INPUTS, "tasks": np.zeros((12, 2))}),
}


@pytest.mark.parametrize("message", SETTINGS)
def test_fit_refuses_settings(message):
    with pytest.raises(ValueError, match=message):
        focused(**SETTINGS[message]).fit(TABLE, Y)


@pytest.mark.parametrize("message", ARGUMENTS)
def test_fit_refuses_tables(message):
    with pytest.raises(ValueError, match=message):
        focused().fit(**{"X": TABLE, "y": Y, **ARGUMENTS[message]})


@pytest.mark.parametrize("message", OF_ARRAYS)
def test_fit_refuses_arrays(message):
    task, arguments = OF_ARRAYS[message]
    with pytest.raises(ValueError, match=message):
        focused(task).fit(y=Y, **arguments)


def test_what_is_no_number_at_all_is_named():
    with pytest.raises(TypeError, match=r"column 'z' of X holds \{\} in row 0 where numbers are expected"):
        focused().fit(TABLE.assign(z=[{}] * 12), Y)


ROW = np.ones((1, 1))
PAIRS = {
    r"X of task 'a' has 1 dimension\(s\); expected a table": {"a": ([1, 2], [1, 2])},
    r"differ in their number of columns: \{'a': 1, 'b': 2\}": {"a": (ROW, [1]), "b": (np.ones((1, 2)), [1])},
    r"task 'a' has 1 rows of X and 2 of y": {"a": (ROW, [1, 2])},
    r"task 'b' has the columns \['z'\], that of": {"a": (INPUTS[["x"]], Y), "b": (INPUTS[["z"]], Y)},
}


@pytest.mark.parametrize("message", PAIRS)
def test_pairs_that_do_not_fit_together(message):
    with pytest.raises(ValueError, match=message):
        focused(None, "a").fit(PAIRS[message])


def test_pairs_leave_no_room_for_y():
    with pytest.raises(ValueError, match=r"pairs, one per task: leave out y= and tasks="):
        focused(None, "a").fit({"a": (INPUTS, Y)}, Y)


FRAMED, ARRAYED = focused().fit(TABLE, Y), focused(1).fit(ARRAY, Y)
SINGLE = borrow.SingleTaskGPRegressor("subject", optimizer=None).fit(TABLE, Y)
BESIDE = borrow.PooledGPRegressor(optimizer=None).fit(INPUTS, Y, tasks=TABLE["subject"])
WIDE = borrow.SingleTaskGPRegressor(optimizer=None).fit(INPUTS, np.column_stack([Y, -Y]))
PREDICT = {
    r"unknown task 's9'.*tasks are 's1', 's2', 's3'.*stratify": (FRAMED, {"X": TABLE.assign(subject="s9")}),
    r"unknown task 's8'.*tasks are 's1', 's2', 's3'": (BESIDE, {"X": INPUTS, "tasks": "s8"}),
    r"unseen at fit time:\n- w": (FRAMED, {"X": TABLE.assign(w=1)}),
    r"now missing:\n- z": (FRAMED, {"X": TABLE[["x", "subject"]]}),
    r"X lacks 'z'; fit saw the columns 'x', 'z'": (FRAMED, {"X": TABLE[["x"]]}),
    r"'Subject', which fit did not see, and no task column 'subject'; did you mean 'Subject'\?": (
        FRAMED,
        {"X": TABLE.rename(columns={"subject": "Subject"})},
    ),
    r"X has 1 features, but .* is expecting 3": (ARRAYED, {"X": ARRAY[:, :1]}),
    r"task column 1 into X, or give tasks=, one of 's1'": (ARRAYED, {"X": INPUTS.to_numpy()}),
    r"on 3 tasks, and nothing says.*'subject' into X.*'s1', 's2', 's3'": (SINGLE, {"X": INPUTS}),
    r"nothing says which task.*; give tasks=, one of 's1', 's2', 's3', or": (BESIDE, {"X": INPUTS}),
    r"X has the task column 'subject' and tasks= was": (FRAMED, {"X": TABLE, "tasks": "s1"}),
    r"task is missing \(NaN\) in row 4": (FRAMED, {"X": put("subject", 4, None)}),
    r"both True; ask for one of them": (FRAMED, {"X": TABLE, "return_std": True, "return_cov": True}),
    r"return_cov=True needs one task for each row; give tasks=": (WIDE, {"X": INPUTS, "return_cov": True}),
}


@pytest.mark.parametrize("message", PREDICT)
def test_predict_refuses(message):
    model, arguments = PREDICT[message]
    with pytest.raises(ValueError, match=message):
        model.predict(**arguments)


def test_a_fit_that_failed_is_no_fit():
    model = focused(noise=-1.0)
    with pytest.raises(ValueError, match="positive variance"):
        model.fit(TABLE, Y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(TABLE)


def test_primary_without_a_label_is_predicted_from_the_others():
    y = np.where(TABLE["subject"] == "s1", np.nan, Y)
    with pytest.warns(UserWarning, match=r"primary task 's1' has no labelled row.*sign .* is an assumption") as caught:
        model = focused(optimizer="lbfgs", n_restarts=0).fit(TABLE, y)
    assert caught[0].filename == __file__
    mean, std = model.predict(INPUTS, return_std=True)
    assert np.corrcoef(mean, Y)[0, 1] > 0.9
    assert np.all(std > 0)


@pytest.mark.parametrize("estimator", EVERY)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
def test_constant_targets_are_predicted(estimator, value):
    model = estimator("subject", **({"primary": "s1"} if estimator is EVERY[0] else {}))
    with pytest.warns(UserWarning, match=r"targets of task .* are all equal: only its level can be learnt"):
        model.fit(TABLE, np.full(12, value))
    mean, std = model.predict(TABLE, return_std=True)
    np.testing.assert_allclose(mean, value, rtol=1e-12)
    assert np.all(np.isfinite(std))


@pytest.mark.parametrize("estimator", EVERY)
def test_one_row_is_enough(estimator):
    with pytest.warns(UserWarning, match="fitted to a single row"):
        model = estimator().fit([[1.0]], [2.0])
    mean, std = model.predict([[1.0], [9.0]], return_std=True)
    np.testing.assert_allclose(mean, 2.0)
    assert 0 < std[0] < std[1]


def test_rank_deficient_kernel_is_factored_with_jitter_that_is_told(caplog):
    X = np.linspace(-1, 1, 9)[:, None]
    model = focused(None, None, kernel=Linear(1.0), inducing="primary", noise=1e-4, normalize_y=False)
    with caplog.at_level("INFO", logger="borrow"):
        model.fit(X, 2 * X[:, 0])
    assert 0 < model.jitter_ <= 1e-8
    assert f"jitter {model.jitter_:g}" in caplog.text
    np.testing.assert_allclose(model.predict([[3.0]]), 6.0, rtol=1e-3)


@pytest.mark.parametrize("estimator", EVERY)
def test_duplicated_inputs_are_no_trouble(estimator):
    """As they are and nearly so: the covariance of the inputs is singular to rounding."""
    X = np.repeat(np.linspace(0, 1, 5), 4)[:, None]
    X[::4] += 1e-13
    y = np.sin(3 * X[:, 0]) + 0.1 * np.tile([1, -1, 1, -1], 5)
    mean = estimator(kernel=SquaredExponential(1.0, 2.0)).fit(X, y).predict(X)
    np.testing.assert_allclose(mean, np.sin(3 * X[:, 0]), atol=0.15)


@pytest.mark.parametrize("estimator", EVERY)
@pytest.mark.parametrize("column", ["irrelevant", "constant"])
@pytest.mark.filterwarnings("ignore:column 'moon' is 4 in every row")
def test_lengthscale_that_the_data_do_not_identify_is_named(estimator, column):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (40, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)
    if column == "constant":
        X[:, 1] = 4.0
    table = pd.DataFrame(X, columns=["depth", "moon"])
    with pytest.warns(ConvergenceWarning, match=r"lengthscale\[1\].*column 'moon'.*prior='auto'") as caught:
        estimator(prior=None).fit(table, y)
    assert {w.filename for w in caught} == {__file__}
    assert not any("depth" in str(w.message) for w in caught)
    estimator().fit(table, y)  # the prior settles it


def test_noise_at_its_floor_is_told_where_no_prior_speaks():
    X = np.linspace(0, 3, 8)[:, None]
    with pytest.warns(ConvergenceWarning, match=r"'noise' is at its floor.*overfitting unless they are exact"):
        borrow.SingleTaskGPRegressor(prior=None).fit(X, np.sin(X[:, 0]))


def test_too_few_iterations_are_told():
    with pytest.warns(ConvergenceWarning, match=r"stopped after 2 iterations.*raise max_iter \(now 2\)"):
        model = borrow.SingleTaskGPRegressor(max_iter=2).fit(INPUTS, Y)
    assert not model.converged_


@pytest.mark.parametrize("estimator", [*EVERY[:2], lambda: borrow.PooledGPRegressor(inducing=None)])
def test_a_million_rows_are_refused_before_memory_is_taken(estimator):
    X = np.arange(1e6)[:, None]
    with pytest.raises(MemoryError, match=r"1,000,000 .*needs about [\d.]+ TiB and [\d.]+ .iB are free; thin"):
        estimator().fit(X, np.sin(X[:, 0]))
