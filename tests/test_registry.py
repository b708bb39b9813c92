"""An estimator that somebody else registers is found by everything that reads the registry."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import borrow
from borrow.estimators import registry
from borrow.estimators.registry import register
from borrow.transfer import methods


class MeanOfTask(RegressorMixin, BaseEstimator):
    """The mean of each task, with the deviation of its rows."""

    def __init__(self, task=None, random_state=0):
        self.task = task
        self.random_state = random_state

    def fit(self, X, y, tasks):
        tasks = np.asarray(tasks)
        self.mean_ = {t: float(np.mean(np.asarray(y, dtype=float)[tasks == t])) for t in np.unique(tasks).tolist()}
        self.std_ = float(np.std(np.asarray(y, dtype=float))) or 1.0
        return self

    def predict(self, X, tasks, return_std=False, return_cov=False, include_noise=False):
        mean = np.array([self.mean_[t] for t in tasks])
        return (mean, np.full(len(mean), self.std_)) if return_std else mean


@pytest.fixture
def toy(monkeypatch):
    assert "AutoRegressor" in borrow.__all__  # those of this package are there
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    return register("average", "the task's mean", rank=50)(MeanOfTask)


def test_public_name_and_tables_have_it(toy):
    assert borrow.MeanOfTask is toy
    assert "MeanOfTask" in borrow.__all__
    assert methods.LABELS["average"] == "the task's mean"
    assert list(methods.LABELS)[-1] == "average"
    assert methods.key_of(toy()) == "average"
    assert methods.choose("classification", 10, "auto")[1]["average"] == "for regression only"


def test_comparison_runs_it_and_report_names_it(toy):
    rng = np.random.default_rng(0)
    x, who = rng.uniform(-1, 1, 24), np.repeat(["a", "b"], 12)
    table = {"x": x, "y": np.sin(3 * x) + 0.1 * rng.normal(size=24), "who": who}
    found = borrow.compare(table, target="y", task="who", primary="a", methods=["average"], cv=2)
    assert found.methods == ["single", "mean", "ridge", "ridge_tasks", "average"]
    assert np.isfinite(found.table()["error"]).all()
    assert "the task's mean" in json.dumps(borrow.report.summary(found, table=table)["parts"])


def test_the_registry_is_what_this_package_declares():
    code = "import borrow, json; print(json.dumps(borrow.__all__))"
    names = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert set(names) <= set(borrow.__all__)
    declared = {e.name for e in registry.entries() if e.estimator.__module__.startswith("borrow.")}
    assert {n for n in names if n.endswith(("Regressor", "Classifier"))} == declared
    assert len(declared) == 18


def test_entries_say_what_their_classes_take():
    methods.LABELS["single"]
    spreads = {e.name for e in registry.entries() if e.takes("workers")}
    assert spreads == {
        "FocusedGPClassifier",
        "FocusedGPRegressor",
        "HierarchicalGPClassifier",
        "HierarchicalGPRegressor",
        "MultiTaskGPRegressor",
        "MultiTaskIVMClassifier",
        "MultiTaskIVMRegressor",
    }
    assert {e.name for e in registry.entries() if e.takes("primary") and e.key} == {
        "FocusedGPClassifier",
        "FocusedGPRegressor",
    }
