"""Nothing depends on names of tasks, the order of rows or columns, the coding of labels, or the units of y and X."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import borrow
from borrow.data.cells import Rows
from borrow.data.content import content_order
from borrow.estimators.registry import by_name, entries

ESTIMATORS = [name for name in borrow.__all__ if name.endswith(("Regressor", "Classifier")) and "Auto" not in name]
SIZES = (8, 7, 8, 9)
NAMES = {"a": "z", "b": "k", "c": "b", "d": "m"}


def table():
    """Four tasks of unequal sizes on two numbers and a switch; targets, and labels of which one is rarer."""
    rng = np.random.default_rng(3)
    code = np.repeat(np.arange(4), SIZES)
    X = rng.normal(size=(len(code), 3))
    X[:, 2] = rng.integers(0, 2, len(code))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * (1 + 0.3 * code) + 0.4 * code * X[:, 2]
    return X, f + 0.2 * rng.normal(size=len(f)), (f > 0.7).astype(int), np.array(list("abcd"))[code]


X, NUMBERS, LABELS, TASKS = table()
ASKED = np.random.default_rng(1).permutation(len(X))[:12]


def answers(entry, X, y, tasks, primary, asked_X, asked, **settings):
    """Mean and standard deviation, or the probability of the second class, of a fresh fit."""
    given = {"primary": primary} if entry.takes("primary") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = entry.estimator(**given, **settings).fit(X, y, tasks=tasks)
    if entry.kind == "regression":
        return np.array(model.predict(asked_X, tasks=asked, return_std=True))
    return model.predict_proba(asked_X, tasks=asked)[:, 1]


def test_every_estimator_is_tried():
    assert {e.name for e in entries() if "Auto" not in e.name} == set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "learnt"])
def test_only_the_numbers_count(name, kept):
    getattr(borrow, name)
    entry = by_name(name)
    if kept and not entry.takes("optimizer"):
        pytest.skip("has no parameters that could be kept")
    settings = {"optimizer": None} if kept else {}
    numbers = entry.kind == "regression"
    y, new = NUMBERS if numbers else LABELS, X[ASKED] + 0.1
    first = answers(entry, X, y, TASKS, "a", new, TASKS[ASKED], **settings)
    unit = float(first[1].mean()) if numbers else 1.0
    tolerance = (1e-10 if kept else 1e-4) * unit
    named, order, turned = np.array([NAMES[t] for t in TASKS]), np.random.default_rng(0).permutation(len(X)), [2, 0, 1]
    others = {
        "names": answers(entry, X, y, named, "z", new, named[ASKED], **settings),
        "rows": answers(entry, X[order], y[order], TASKS[order], "a", new, TASKS[ASKED], **settings),
        "columns": answers(entry, X[:, turned], y, TASKS, "a", new[:, turned], TASKS[ASKED], **settings),
    }
    if numbers:
        scaled = answers(entry, X, 1.8 * y + 32.0, TASKS, "a", new, TASKS[ASKED], **settings)
        others["units of y"] = (scaled - [[32.0], [0.0]]) / 1.8
    else:
        others["coding"] = 1.0 - answers(entry, X, 1 - y, TASKS, "a", new, TASKS[ASKED], **settings)
        text = np.array(["yes", "no"])[y]  # sorted the other way round
        others["text"] = 1.0 - answers(entry, X, text, TASKS, "a", new, TASKS[ASKED], **settings)
    if not kept:  # a kernel that is kept has lengthscales in the units of X
        low, size = np.array([3.0, -1.0, 0.5]), np.array([2.54, 0.3, 1.0])
        others["units of X"] = answers(entry, low + size * X, y, TASKS, "a", low + size * new, TASKS[ASKED])
    for what, found in others.items():
        np.testing.assert_allclose(found, first, rtol=0.0, atol=tolerance, err_msg=what)


def order_of(X, y, task, classes=False, weight=None):
    """Tasks and columns in the order of their content."""
    n, weight = len(y), np.ones(len(y)) if weight is None else weight
    labels = tuple(range(int(max(task)) + 1))
    return content_order(X, Rows(np.empty((n, 0)), task, labels, y, weight, np.ones(n), np.arange(n)), classes)


@pytest.mark.parametrize("classes", [False, True])
def test_order_comes_from_the_content_of_binary_columns_too(classes):
    """A full factorial design: every column has the same values as often, and so has every task."""
    rng = np.random.default_rng(0)
    grid = np.array([[i >> j & 1 for j in range(4)] for i in range(16)], dtype=float)
    X, task = np.tile(grid, (5, 1)), np.repeat(np.arange(5), 16)
    y = rng.normal(size=80)
    y = (y > 0).astype(float) if classes else y
    tasks, columns = order_of(X, y, task, classes)
    names, places, rows = rng.permutation(5), rng.permutation(4), rng.permutation(80)
    moved_tasks, moved_columns = order_of(X[rows][:, places], y[rows], names[task][rows], classes)
    np.testing.assert_array_equal(moved_tasks, names[tasks])
    np.testing.assert_array_equal(places[moved_columns], columns)
    if classes:
        np.testing.assert_array_equal(order_of(X, 1.0 - y, task, True)[0], tasks)


def test_order_counts_rows_by_weight_and_leaves_out_those_without_a_target():
    rng = np.random.default_rng(1)
    X, y, task = rng.normal(size=(30, 3)), rng.normal(size=30), np.repeat(np.arange(3), 10)
    k = rng.integers(1, 4, 30)
    whole = order_of(np.repeat(X, k, axis=0), np.repeat(y, k), np.repeat(task, k))
    np.testing.assert_array_equal(whole, order_of(X, y, task, weight=k.astype(float)))
    more = order_of(np.vstack([X, X + 1.0]), np.append(y, np.full(30, np.nan)), np.tile(task, 2))
    for found, expected in zip(more, order_of(X, y, task), strict=True):
        np.testing.assert_array_equal(found, expected)


GRID = np.array(np.meshgrid([0.0, 1.0, 2.5], [-1.0, 0.0, 1.0], [0.0, 1.0])).reshape(3, -1).T
SHAPES = {"grid": GRID, "continuous": np.random.default_rng(5).normal(size=(18, 3))}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "settings", [{}, {"specific_kernel": None}, {"specific_kernel": None, "optimizer": None}], ids=str
)
def test_every_input_seen_in_every_task_whatever_the_order_of_columns(shape, settings):
    """A wide table is learnt as well with its columns in any order; held hyper-parameters give the same answers."""
    inputs, rng = SHAPES[shape], np.random.default_rng(2)
    f = np.sin(1.5 * inputs[:, 0]) + inputs[:, 1]
    Y = np.column_stack([(1.0 + 0.2 * k) * f + 0.2 * rng.normal(size=len(f)) for k in range(3)])
    mixed, found = rng.permutation(len(f)), []
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        model = borrow.MultiTaskGPRegressor(**settings).fit(inputs[:, order][mixed], Y[mixed])
        found.append(model.predict(inputs[:, order]))
    if "optimizer" not in settings:
        assert np.sqrt(np.mean((found[0] - Y) ** 2)) < 0.25
    tolerance = 1e-10 if "optimizer" in settings else 1e-3
    np.testing.assert_allclose(found[1], found[0], rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(found[2], found[0], rtol=0.0, atol=tolerance)
