"""Every form of the same data gives the same fit; labels come back as given; tasks are never guessed."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import borrow
from absent import without

N = 8  # rows a task


def focused(task=None, primary="b", **settings):
    return borrow.FocusedGPRegressor(task, primary, n_restarts=0, max_iter=60, **settings)


def shared_inputs():
    """Three tasks on shared inputs, so that it can be written wide; 'b' lacks some rows."""
    rng = np.random.default_rng(4)
    x, z = rng.uniform(0, 5, N), rng.normal(size=N)
    wide = np.sin(x)[:, None] * [1.0, -0.8, 0.5] + 0.3 * z[:, None] + 0.05 * rng.normal(size=(N, 3))
    wide[3:6, 1] = np.nan
    return np.column_stack([x, z]), wide


INPUTS, WIDE = shared_inputs()
NEW = np.random.default_rng(5).uniform(-1, 5, (6, 2))
LABELS = np.repeat(["a", "b", "c"], N)
LONG = np.vstack([INPUTS] * 3)
TARGET = WIDE.T.ravel()
FRAME = pd.DataFrame({"x": LONG[:, 0], "site": LABELS, "z": LONG[:, 1]})
OBJECTS = np.column_stack([LONG[:, :1].astype(object), LABELS.astype(object), LONG[:, 1:].astype(object)])
CODES = np.column_stack([LONG[:, 0], np.repeat([1.0, 2.0, 3.0], N), LONG[:, 1]])
PAIRS = {label: (INPUTS, WIDE[:, i]) for i, label in enumerate("abc")}


FORMS = {
    "pandas": lambda: focused("site").fit(FRAME, pd.Series(TARGET)),
    "pandas by position": lambda: focused(1).fit(FRAME, TARGET),
    "pandas numbered columns": lambda: focused(1).fit(FRAME.set_axis([0, 1, 2], axis=1), TARGET),
    "pandas odd numbers": lambda: focused(5).fit(FRAME.set_axis([7, 5, 9], axis=1), TARGET),
    "polars": lambda: focused("site").fit(pl.DataFrame(FRAME.to_dict("list")), pl.Series(TARGET)),
    "array": lambda: focused(1, 2.0).fit(CODES, TARGET),
    "array from the end": lambda: focused(-2, 2).fit(CODES, TARGET),
    "objects": lambda: focused(1).fit(OBJECTS, TARGET),
    "text": lambda: focused(1).fit(OBJECTS.astype(str), TARGET),
    "lists": lambda: focused(1).fit(OBJECTS.tolist(), TARGET.tolist()),
    "tasks": lambda: focused().fit(LONG, TARGET, tasks=LABELS),
    "tasks beside frame": lambda: focused("site").fit(FRAME[["x", "z"]], TARGET, tasks=FRAME["site"]),
    "tasks as column": lambda: focused().fit(LONG, TARGET, tasks=LABELS[:, None]),
    "wide": lambda: focused(primary=1).fit(INPUTS, WIDE),
    "wide frame": lambda: focused().fit(INPUTS, pd.DataFrame(WIDE, columns=list("abc"))),
    "wide frame, other order": lambda: focused().fit(INPUTS, pl.DataFrame(WIDE[:, [2, 0, 1]], schema=["c", "a", "b"])),
    "pairs": lambda: focused(primary=1).fit(list(PAIRS.values())),
    "pairs by label": lambda: focused().fit(PAIRS),
    "pairs by label, other order": lambda: focused().fit({k: PAIRS[k] for k in "cab"}),
    "rows in other order": lambda: focused("site").fit(FRAME[::-1], TARGET[::-1]),
}


@pytest.fixture(scope="module")
def reference():
    return focused().fit(LONG, TARGET, tasks=LABELS).predict(NEW, tasks=["a", "b", "c"] * 2, return_std=True)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_fit(form, reference):
    model = FORMS[form]()
    labels = list(model.tasks_) * 2
    if isinstance(model.task, str | int) and form != "tasks beside frame":
        X, tasks = np.insert(NEW.astype(object), 1, labels, axis=1), None
    else:
        X, tasks = NEW, labels
    if hasattr(model, "feature_names_in_"):
        X = pd.DataFrame(X, columns=model.feature_names_in_)
    got = model.predict(X, tasks=tasks, return_std=True)
    np.testing.assert_allclose(got, reference, rtol=0, atol=1e-10)


def test_single_precision_is_read_as_the_numbers_it_holds():
    X, y = LONG.astype(np.float32), TARGET.astype(np.float32)
    single = borrow.SingleTaskGPRegressor().fit(X, y, tasks=LABELS)
    double = borrow.SingleTaskGPRegressor().fit(X.astype(float), y.astype(float), tasks=LABELS)
    got = single.predict(NEW.astype(np.float32), tasks="b")
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, double.predict(NEW.astype(np.float32).astype(float), tasks="b"))


def fixed(task=None, primary=None):
    """No optimiser: these tests are about labels."""
    return borrow.FocusedGPRegressor(task, primary, optimizer=None, rho=0.5)


@pytest.mark.parametrize(
    ("given", "back"),
    [
        (["b", "a", "b", "a"], ["a", "b"]),
        ([10, 9, 10, 9], [9, 10]),
        ([np.int64(10), np.int64(9)] * 2, [9, 10]),
        (np.array([10, 9, 10, 9], dtype=np.int8), [9, 10]),
        (np.array(["b", "a"] * 2), ["a", "b"]),
        (np.array([True, False] * 2), [False, True]),
        (pd.Categorical(["b", "a", "b", "a"], categories=["b", "a", "unused"]), ["a", "b"]),
        (pd.Series(["b", "a"] * 2, index=[7, 7, 8, 8]), ["a", "b"]),
        (pl.Series(["b", "a"] * 2, dtype=pl.Enum(["b", "a"])), ["a", "b"]),
        (["b", 1, "b", 1], [1, "b"]),
        ([("s", 2), ("s", 1)] * 2, [("s", 1), ("s", 2)]),
        ([pd.Timestamp(2020, 1, 2), pd.Timestamp(2020, 1, 1)] * 2, [*pd.date_range("2020-01-01", periods=2)]),
    ],
    ids=str,
)
def test_labels_come_back_as_given(given, back):
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), [5.0, -5.0, 5.1, -5.1]  # the first label is near 5
    model = fixed(primary=back[0]).fit(X, y, tasks=given)
    assert model.tasks_.tolist() == list(model.noise_) == list(model.rho_) == back
    assert [type(v) for v in model.rho_] == [type(v) for v in back] or isinstance(given[0], np.generic)
    assert list(model.specific_kernels_) == back[1:]
    np.testing.assert_allclose(model.predict(X, tasks=given), y, atol=0.3)
    frame = pd.DataFrame({"x": X[:, 0], "task": list(given)})
    np.testing.assert_array_equal(fixed("task", back[0]).fit(frame, y).predict(frame), model.predict(X, tasks=given))


def test_lists_keep_numbers_and_text_apart():
    model = fixed(1, "b").fit([[0.0, "b"], [1.0, 1], [0.5, "b"]], [1.0, 2.0, 3.0])
    assert model.tasks_.tolist() == [1, "b"]


def test_one_label_stands_for_all_rows():
    model = fixed(primary="b").fit(LONG, TARGET, tasks=LABELS)
    for label in ("a", np.str_("a"), np.array("a")[()]):
        np.testing.assert_array_equal(model.predict(NEW, tasks=label), model.predict(NEW, tasks=["a"] * len(NEW)))
    assert np.abs(model.predict(NEW, tasks="a") - model.predict(NEW, tasks="b")).min() > 0.01


def test_focused_model_answers_for_the_primary_where_the_frame_lacks_the_column():
    model = fixed("site", "b").fit(FRAME, TARGET)
    new = pd.DataFrame(NEW, columns=["x", "z"])
    want = model.predict(new.assign(site="b")[["x", "site", "z"]])
    np.testing.assert_array_equal(model.predict(new), want)
    np.testing.assert_array_equal(model.predict(new[["z", "x"]]), want)  # by name, not by position
    np.testing.assert_array_equal(model.predict(new[["z", "x"]], tasks="b"), want)
    np.testing.assert_array_equal(fixed(primary="b").fit(LONG, TARGET, tasks=LABELS).predict(NEW), want)


def test_columns_of_a_frame_may_stand_in_any_order_at_fit():
    settings = {"optimizer": None, "rho": 0.5, "kernel": borrow.kernels.SquaredExponential(1.0, 2.0)}
    one = borrow.FocusedGPRegressor("site", "b", **settings).fit(FRAME, TARGET).predict(FRAME)
    turned = FRAME[["site", "z", "x"]]
    other = borrow.FocusedGPRegressor("site", "b", **settings).fit(turned, TARGET)
    np.testing.assert_allclose(other.predict(turned), one, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(other.predict(FRAME), other.predict(turned))  # scikit-learn refuses this


def test_wide_answer_has_the_columns_of_y():
    y = pd.DataFrame(WIDE, columns=["c", "a", "b"])
    model = borrow.SingleTaskGPRegressor(optimizer=None).fit(INPUTS, y)
    assert model.tasks_.tolist() == ["a", "b", "c"]
    mean, std = model.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (len(NEW), 3)
    for j, label in enumerate(y.columns):
        np.testing.assert_allclose(model.predict(NEW, tasks=label), mean[:, j], rtol=0, atol=1e-12)
        seen = y[label].notna()
        assert np.corrcoef(model.predict(INPUTS)[seen, j], y[label][seen])[0, 1] > 0.9


def test_wide_model_of_a_primary_answers_for_it():
    model = fixed(primary=1).fit(INPUTS, WIDE)
    np.testing.assert_array_equal(model.predict(NEW), model.predict(NEW, tasks=1))


def test_order_of_tasks_does_not_matter():
    """Other names, so that the tasks are sorted otherwise: the same predictions."""
    settings = {"optimizer": None, "rho": {"b": 0.4, "c": -0.6}, "noise": {"a": 0.1, "b": 0.2, "c": 0.3}}
    names = {"a": "y", "b": "x", "c": "b"}
    renamed = {k: {names[t]: v for t, v in d.items()} if isinstance(d, dict) else d for k, d in settings.items()}
    one = borrow.FocusedGPRegressor(primary="a", inducing=INPUTS, **settings).fit(LONG, TARGET, tasks=LABELS)
    labels = [names[t] for t in LABELS]
    other = borrow.FocusedGPRegressor(primary="y", inducing=INPUTS, **renamed).fit(LONG, TARGET, tasks=labels)
    for t in "abc":
        got, want = other.predict(NEW, tasks=names[t]), one.predict(NEW, tasks=t)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)
    assert other.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_, abs=1e-9)


def test_nullable_and_categorical_columns_are_read():
    frame = FRAME.astype({"x": "Float64", "z": "Float64", "site": "category"})
    y = pd.Series(TARGET, dtype="Float64")
    assert y.isna().sum() == 3
    one, other = fixed("site", "b").fit(frame, y), fixed("site", "b").fit(FRAME, TARGET)
    np.testing.assert_array_equal(one.predict(frame), other.predict(FRAME))
    objects = frame.astype(object).where(frame.notna(), pd.NA).to_numpy()
    np.testing.assert_array_equal(fixed(1, "b").fit(objects, y.astype(object)).predict(objects), one.predict(frame))


def test_pairs_of_frames_are_matched_by_column_name():
    frames = {k: (pd.DataFrame(X, columns=["x", "z"]), y) for k, (X, y) in PAIRS.items()}
    frames["c"] = (frames["c"][0][["z", "x"]], frames["c"][1])
    model = fixed(primary="b").fit(frames)
    assert model.feature_names_in_.tolist() == ["x", "z"]
    new = pd.DataFrame(NEW, columns=["x", "z"])
    np.testing.assert_array_equal(model.predict(new), fixed(primary="b").fit(PAIRS).predict(NEW))


def test_one_task_in_the_column_needs_no_column_later():
    model = borrow.SingleTaskGPRegressor("site", optimizer=None).fit(FRAME[LABELS == "a"], TARGET[LABELS == "a"])
    new = pd.DataFrame(NEW, columns=["x", "z"])
    np.testing.assert_array_equal(model.predict(new), model.predict(new, tasks="a"))


def test_parameters_changed_after_the_fit_do_not_change_what_was_learnt():
    model = fixed("site", "b").fit(FRAME, TARGET)
    before = model.predict(FRAME)
    np.testing.assert_array_equal(model.set_params(task="x").predict(FRAME), before)


def test_neither_pandas_nor_polars_is_needed():
    code = without("pandas", "polars", "pyarrow") + (
        "import numpy as np, borrow\n"
        "X = np.arange(6.0)[:, None]\n"
        "model = borrow.FocusedGPRegressor(primary='a', optimizer=None)\n"
        "model.fit(X, X[:, 0], tasks=['a', 'b'] * 3)\n"
        "assert model.predict(X, tasks='b').shape == (6,)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
