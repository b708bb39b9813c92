"""A fit that fails, or that is interrupted at any moment, changes nothing: the old answers bit by bit, or none."""

import inspect
import random
import signal
import sys
import time
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.linalg import lapack
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_info

import borrow
from borrow.estimators import registry
from borrow.estimators.base import Fitted
from borrow.kernels import SquaredExponential
from borrow.numerics import warned

PACKAGE = str(Path(borrow.__file__).parent)
NAMES = [name for name in borrow.__all__ if name.endswith(("Regressor", "Classifier"))]
AUTO = {"primary": "b", "methods": ["pooled"], "cv": 2}
SETTINGS = {name: AUTO if name.startswith("Auto") else {"primary": "b"} for name in NAMES if name[0] in "AF"}
FEATURES = {"a": [0.0], "b": [1.0], "c": [2.0]}
CASES = {
    **{name: (name, SETTINGS.get(name, {})) for name in NAMES},
    "task features": ("MultiTaskGPRegressor", {"task_features": FEATURES}),
    "a given kernel": ("SingleTaskGPRegressor", {"kernel": SquaredExponential()}),
}


class UnforeseenError(Exception):
    """An error that nothing in the package can have prepared for."""


ERRORS = (UnforeseenError, KeyboardInterrupt, MemoryError)


@dataclass
class Case:
    """An estimator, fitted once to one table; how many calls and how long its fit to another takes."""

    make: Any
    classes: bool

    def __post_init__(self):
        self.fitted = self.make().fit(*table(0, self.classes))
        self.before = answers(self.fitted, self.classes)
        self.threads = threads()
        self.other = table(1, self.classes)
        model = self.make()
        start = time.perf_counter()
        with traced() as calls:
            model.fit(*self.other)
        self.seconds, self.calls = time.perf_counter() - start, calls[0]

    def assert_unchanged(self, model):
        """It answers as it did, bit by bit; settings and fitted state are the very same objects."""
        assert_array_equal(answers(model, self.classes), self.before)
        assert vars(model).keys() == vars(self.fitted).keys()
        assert all(vars(model)[name] is value for name, value in vars(self.fitted).items())
        assert threads() == self.threads

    def assert_not_fitted(self, model):
        with pytest.raises(NotFittedError):
            answers(model, self.classes)
        assert not [name for name in vars(model) if name.endswith("_")]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    name, settings = CASES[request.param]
    return Case(partial(getattr(borrow, name), **settings), name.endswith("Classifier"))


def table(seed, classes, n=6):
    """Three related tasks in two columns; with an odd seed the targets are near 1e6, and the classes turned."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (3 * n, 2))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=3 * n)
    y = np.where(f > np.median(f), *(("no", "yes") if seed % 2 else ("yes", "no"))) if classes else f
    return X, y if classes or seed % 2 == 0 else 1e6 + 1e3 * f, np.repeat(["a", "b", "c"], n)


def answers(model, classes):
    """What it says of a few rows of a task, deviations or probabilities included."""
    X = table(4, classes, n=2)[0]
    tasks = np.repeat("b", len(X))
    if not classes:
        return np.stack(model.predict(X, tasks, return_std=True))
    return getattr(model, "predict_proba", model.decision_function)(X, tasks)


@contextmanager
def traced(at=None, error=None, line=1, within=PACKAGE):
    """Counts calls of functions of the package, or of one file; `error` is raised in the `at`-th, at its `line`-th.

    Generators do not count: one that goes on does so within a line, and no line of it need follow.
    """
    calls, lines = [0], [0]

    def in_function(_frame, event, _arg):
        if event == "line":
            lines[0] += 1
            if lines[0] == line:
                raise error("an error of the test")
        return in_function

    def count(frame, _event, _arg):
        if not frame.f_code.co_filename.startswith(within) or frame.f_code.co_flags & inspect.CO_GENERATOR:
            return None
        calls[0] += 1
        return in_function if calls[0] == at else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield calls
    finally:
        sys.settrace(before)


def threads():
    return [pool["num_threads"] for pool in threadpool_info()]


def test_refused_data(case):
    model, fresh = copy(case.fitted), case.make()
    X, y, tasks = case.other
    infinite = X.copy()
    infinite[3, 1] = np.inf
    for bad in ((infinite, y, tasks), (X[:5], y, tasks), (X, y, tasks[:4])):
        for estimator in (model, fresh):
            with pytest.raises(ValueError, match=r"\w"):
                estimator.fit(*bad)
    case.assert_unchanged(model)
    case.assert_not_fitted(fresh)


def test_error_at_any_moment(case, request):
    draw = random.Random(request.node.name)
    model, fresh = copy(case.fitted), case.make()
    last = case.calls - draw.randint(0, min(30, case.calls // 2))  # a fit publishes last: the likely place for a fault
    # A comparison lives through an error of one fold, and says so; an interruption ends it as well.
    errors = ERRORS if "cv" not in model.get_params() else (KeyboardInterrupt,) * 3
    for at, error in zip((draw.randint(1, case.calls), last, draw.randint(1, case.calls // 2)), errors, strict=True):
        with pytest.raises(error), traced(at, error):
            model.fit(*case.other)
        case.assert_unchanged(model)
    with pytest.raises(KeyboardInterrupt), traced(draw.randint(1, case.calls), KeyboardInterrupt):
        fresh.fit(*case.other)
    case.assert_not_fitted(fresh)


@pytest.mark.parametrize("error", ERRORS[1:])
def test_error_between_the_last_step_and_the_assignment(case, monkeypatch, error):
    """Everything is found and put together; it is not the estimator's before the one assignment."""
    model, fresh, learn = copy(case.fitted), case.make(), type(case.fitted)._learn

    def learn_and_fail(self, *args, **kwargs):
        assert learn(self, *args, **kwargs) is not None
        raise error("an error of the test")

    monkeypatch.setattr(type(model), "_learn", learn_and_fail)
    for estimator in (model, fresh):
        with pytest.raises(error):
            estimator.fit(*case.other)
    monkeypatch.undo()
    case.assert_unchanged(model)
    case.assert_not_fitted(fresh)


@pytest.mark.parametrize("error", ERRORS[1:])
def test_error_where_the_search_is_done(case, monkeypatch, error):
    """Nothing is put together yet; of a model that chooses among others it is the last of all fits."""
    model, fresh, built = copy(case.fitted), case.make(), [0, None]
    for kind in (Fitted, *Fitted.__subclasses__()):

        def init(self, *args, _init=kind.__init__, **kwargs):
            built[0] += 1
            if built[0] == built[1]:
                raise error("an error of the test")
            _init(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", init)
    case.make().fit(*case.other)
    last = built[0]
    assert last > 0
    for estimator in (model, fresh):
        built[:] = [0, last]
        with pytest.raises(error):
            estimator.fit(*case.other)
    monkeypatch.undo()
    case.assert_unchanged(model)
    case.assert_not_fitted(fresh)


def test_every_registered_estimator_is_interrupted():
    declared = {e.name for e in registry.entries() if e.estimator.__module__.startswith("borrow.")}
    assert {name for name, _ in CASES.values()} == declared


def test_factorisation_that_fails(case, monkeypatch):
    """The fit either gets over it and is whole, or it fails and leaves what was there."""
    factor = lapack.dpotrf
    for fails_from in (1, 2, 20):
        model, count = copy(case.fitted), [0]

        def failing(*args, _from=fails_from, _count=count, **kwargs):
            _count[0] += 1
            L, info = factor(*args, **kwargs)
            return L, 1 if _count[0] >= _from else info

        monkeypatch.setattr(lapack, "dpotrf", failing)
        try:
            model.fit(*case.other)
        except (np.linalg.LinAlgError, ValueError, RuntimeError, Warning):
            monkeypatch.undo()
            case.assert_unchanged(model)
        else:
            monkeypatch.undo()
            found = np.atleast_2d(answers(model, case.classes))[0]
            assert np.isfinite(found).all()
            assert case.classes or (abs(found - 1e6) < 1e4).all()


# Within a callback of Python's own (a weak reference that dies), or between opening a file and its `with`, an interrupt
# cannot be raised, only told of: that is no fault of the fit.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signal_at_any_moment(case, request):
    draw = random.Random(request.node.name)

    def interrupt(_signal, _frame):
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(2):
            model = copy(case.fitted)
            try:
                signal.setitimer(signal.ITIMER_REAL, max(case.seconds * draw.uniform(0.02, 0.4), 1e-4))
                model.fit(*case.other)
            except KeyboardInterrupt:
                case.assert_unchanged(model)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.signal(signal.SIGALRM, handler)


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(getattr(borrow, name), "adapt")])
def test_interrupted_adaptation(name):
    case = Case(getattr(borrow, name), name.endswith("Classifier"))
    model = case.fitted
    X, y, _ = case.other
    first = deepcopy(model)  # the first time it computes what it keeps for the next
    with traced() as calls:
        adapted = deepcopy(model).adapt(X, y)
    with pytest.raises(KeyboardInterrupt), traced(calls[0] // 2, KeyboardInterrupt):
        first.adapt(X, y)
    assert_array_equal(answers(first, case.classes), case.before)
    model.adapt(X, y)
    before = (adapted.predict_proba if case.classes else adapted.predict)(X)
    with traced() as calls:
        model.adapt(X, y)
    for at in np.linspace(1, calls[0], 12).astype(int):
        with pytest.raises(KeyboardInterrupt), traced(at, KeyboardInterrupt):
            model.adapt(X, y)
    case.assert_unchanged(model)
    assert_array_equal((adapted.predict_proba if case.classes else adapted.predict)(X), before)


def test_interrupted_prediction_for_unseen_task():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-2.0, 2.0, 24), np.repeat([0.0, 1.0, 2.0], 8)])
    model = borrow.MultiTaskGPRegressor(task_features=[1]).fit(X, np.sin(X[:, 0]) + X[:, 1])
    new = np.array([[0.3, 0.0], [0.3, 1.5]])
    with traced() as calls:
        before = model.predict(new, return_std=True)
    state = dict(vars(model))
    for at in np.linspace(1, calls[0], 12).astype(int):
        with pytest.raises(KeyboardInterrupt), traced(at, KeyboardInterrupt):
            model.predict(new, return_std=True)
        assert vars(model) == state
    assert_array_equal(model.predict(new, return_std=True), before)


@pytest.mark.parametrize("name", ["SingleTaskGPRegressor", "SingleTaskGPClassifier"])
def test_interrupted_fit_does_not_silence_later_warnings(name):
    """Interrupted while it collects them; the error is kept with its frames, as Python's prompt keeps the last."""
    X, y, tasks = table(0, name.endswith("Classifier"))
    model = getattr(borrow, name)(max_iter=1)
    with pytest.warns(ConvergenceWarning), traced(within=warned.__file__) as calls:
        model.fit(X, y, tasks)
    assert calls[0] > 1
    for at in range(1, calls[0] + 1):
        with pytest.raises(KeyboardInterrupt) as kept, traced(at, KeyboardInterrupt, within=warned.__file__):
            model.fit(X, y, tasks)
        with pytest.warns(ConvergenceWarning, match="iterations"):
            model.fit(X, y, tasks)
        assert kept.tb is not None
