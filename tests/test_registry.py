"""An estimator that somebody else registers is found by everything that reads the registry."""

import importlib
import json
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from typer.testing import CliRunner

import borrow
from borrow.cli.app import main
from borrow.cli.columns import Table
from borrow.cli.fit import tell_large
from borrow.estimators import registry
from borrow.estimators.registry import register
from borrow.transfer import methods
from borrow.transfer.unseen import choose_unseen
from run_page import ROOT


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


def test_pages_of_the_reference_know_its_name(toy, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "theme"))
    docstrings = importlib.import_module("docstrings")
    assert "MeanOfTask" in docstrings.entries_of_names()


@pytest.fixture
def outside(toy, tmp_path):
    """A whole estimator of somebody else's, and a table in a file."""

    class OutsideGPRegressor(borrow.PooledGPRegressor):
        """As the pooled one, under a name of its own."""

    declare = register(
        "outside",
        "GP from outside",
        rank=51,
        about="what somebody else wrote",
        matrix="few",
        drops=True,
        not_in_auto="it is a toy",
        no_new_task="it was not taught",
    )
    declare(OutsideGPRegressor)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 24).round(3)
    y = (np.sin(3 * x) + 0.1 * rng.normal(size=24)).round(4)
    lines = [f"{a},{b},{'ab'[i // 12]}" for i, (a, b) in enumerate(zip(x, y, strict=True))]
    (tmp_path / "table.csv").write_text("\n".join(["x,y,who", *lines]))
    return OutsideGPRegressor, tmp_path


def command(*arguments):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_command_line_fits_stores_and_predicts_with_it(outside):
    kind, folder = outside
    table, saved = folder / "table.csv", folder / "model.borrow"
    about = ["--target", "y", "--task", "who"]
    told = json.loads(command("fit", table, *about, "--method", "outside", "--save", saved, "--json"))
    assert (told["class"], told["method"]) == ("OutsideGPRegressor", "outside")
    assert type(borrow.store.load(saved)) is kind
    assert json.loads(command("info", saved, "--json"))["class"] == "OutsideGPRegressor"
    assert len(json.loads(command("predict", saved, table, "--json"))["columns"]["mean"]) == 24
    page = json.loads(command("report", saved, "--output", folder / "page.html", "--json"))
    assert page["model"]["class"] == "OutsideGPRegressor"


def test_comparison_of_the_command_line_has_it_and_its_report_says_what_it_is(outside):
    _, folder = outside
    about = ["--target", "y", "--task", "who", "--primary", "a", "--methods", "outside", "--folds", "2"]
    told = json.loads(command("compare", folder / "table.csv", *about, "--report", folder / "page.html", "--json"))
    assert "outside" in [row["method"] for row in told["table"]]
    (part,) = borrow.report.read(folder / "page.html")["parts"]
    assert {"label": "GP from outside", "words": "what somebody else wrote"} in part["comparison"]["methods"]


@pytest.mark.parametrize("name", ["compare", "fit"])
def test_help_names_every_method_that_this_package_declares(name):
    """It is written out, since loading the methods would make people wait for help."""
    told = " ".join(CliRunner().invoke(main, [name, "--help"], env={"COLUMNS": "400"}).stdout.split())
    keys = set(methods.LABELS) - set(methods.REFERENCES) - {"single"}
    assert not [key for key in keys if not re.search(rf"\b{key}\b", told)]


def test_a_large_table_is_told_which_methods_suit_it_by_what_they_declare(outside, capsys):
    many = pl.DataFrame({"x": np.arange(3001.0), "y": np.arange(3001.0), "who": ["a"] * 3001})
    table = Table("table", many, "y", "who", ["x"], 0)
    tell_large(table, "outside", None)
    assert capsys.readouterr().err == ""
    tell_large(table, "hierarchical", None)
    tell_large(table, "focused", "a")
    tell_large(table, "rank1", None)
    joint, own, variant = capsys.readouterr().err.splitlines()
    assert variant == joint
    assert joint.endswith(
        "3,001 rows in all may take long and much memory; --method pooled, rbf, ivm or outside suits many rows"
    )
    assert "3,001 rows of one task" in own


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


def test_every_role_has_one_method():
    """What comparisons, reports and `borrow fit` ask for by role, of numbers and of labels alike."""
    found = {role: methods.method_for(role) for role in ("relations", "pairs", "as one")}
    assert found == {"relations": "focused", "pairs": "symmetric", "as one": "pooled"}
    for role, key in found.items():
        assert {e.key for e in registry.entries() if e.role == role} == {key}
        assert registry.by_key(key, "regression").role == registry.by_key(key, "classification").role == role


def test_comparisons_heed_what_it_declares(outside):
    assert methods.drops("regression", "outside")
    assert not methods.drops("classification", "outside")
    assert not methods.drops("regression", "ridge")
    assert methods.drops("regression", "rank1")
    _, skipped, _ = methods.choose("regression", 24, "auto")
    assert skipped["outside"].startswith("it is a toy;")
    with pytest.raises(ValueError, match="'outside' cannot answer for a task never seen: it was not taught"):
        choose_unseen("regression", 24, ["outside"])
