"""A fit that is interrupted, wherever it is, leaves every estimator as it was before."""

import sys
import warnings
from copy import copy

import numpy as np
import pytest

import borrow
from borrow.estimators.registry import by_name

ESTIMATORS = [name for name in borrow.__all__ if name.endswith(("Regressor", "Classifier"))]
QUICK = {"optimizer": None, "methods": ["pooled"], "cv": 2, "n_basis": 3, "max_iter": 20}


class Interrupt:
    """Counts the calls of this package, and raises KeyboardInterrupt at one of them."""

    def __init__(self, at=None):
        self.at, self.calls = at, 0

    def __call__(self, frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("borrow."):
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt

    def during(self, work):
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)
        return self.calls


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(name):
    getattr(borrow, name)
    entry = by_name(name)
    settings = {n: v for n, v in QUICK.items() if entry.takes(n)}
    model = entry.estimator(**settings, **({"primary": "a"} if entry.takes("primary") else {}))
    X, y, tasks = borrow.datasets.two_tasks("numbers" if entry.kind == "regression" else "labels")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, same = dict(vars(model.fit(X, y, tasks=tasks))), copy(model)
        calls = Interrupt().during(lambda: same.fit(X[::-1], y, tasks=tasks))
        known = model.predict(X, tasks=tasks)
        for share in (0.5, 1.0) if "Auto" in name else (0.01, 0.3, 0.7, 0.95, 1.0):
            with pytest.raises(KeyboardInterrupt):
                Interrupt(max(1, int(share * calls))).during(lambda: model.fit(X[::-1], y, tasks=tasks))
            assert vars(model).keys() == before.keys()
            assert all(value is before[name] for name, value in vars(model).items())
    np.testing.assert_array_equal(model.predict(X, tasks=tasks), known)
