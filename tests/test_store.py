"""A stored model answers as the model that was stored, to the last bit; a file that is not right is refused."""

import ast
import contextlib
import copy
import datetime
import gzip
import hashlib
import io
import json
import os
import socket
import stat
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk

import borrow
from borrow import kernels, store
from borrow.covariance.inducing import Basis
from borrow.data.cells import Cells
from borrow.data.encode import Numbers
from borrow.estimators import registry
from borrow.kernels import Constant, Linear, Matern, SquaredExponential
from borrow.numerics import stored
from borrow.store import container, objects

NAMES = [n for n in borrow.__all__ if n.endswith(("Classifier", "Regressor")) and not n.startswith("Auto")]
CLASSIFIERS = [n for n in NAMES if n.endswith("Classifier")]
REGRESSORS = [n for n in NAMES if n.endswith("Regressor")]
NOISY = {"RegularizedMultiTaskClassifier", "SharedStructureClassifier", "DirichletProcessClassifier"}


def problem(n=21, labels=("a", "b", "c")):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(0, 6, n), "group": [labels[i % 3] for i in range(n)], "z": rng.normal(size=n)})
    y = np.sin(X["x"]) + 0.1 * rng.normal(size=n)
    return X, y.to_numpy(), np.where(y > 0.1, "yes", "no")


def make(name, primary="b", **more):
    kind = getattr(borrow, name)
    names = kind._get_param_names()
    given = {"primary": primary} if "primary" in names else {}
    given |= {"max_iter": 8} if "max_iter" in names and name not in NOISY else {}
    return kind(**given, **more)


def fit(model, *arguments, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*arguments, **more)


def again(model, tmp_path):
    return store.load(store.save(model, tmp_path / "model.borrow"))


def assert_same(one, other):
    """The same kind of answer with the same bits."""
    assert type(one) is type(other)
    if isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif sparse.issparse(one):
        assert_array_equal(one.toarray(), other.toarray())
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert_array_equal(one, other)
    elif isinstance(one, (float, np.floating)):
        assert one == other or (np.isnan(one) and np.isnan(other))
    elif hasattr(one, "predict"):
        pass  # compared by its answers
    else:
        assert repr(one) == repr(other)


def answers(model, X, tasks=None):
    """Everything that a fitted model can be asked."""
    public = {n: v for n, v in vars(model).items() if n.endswith("_") and n != "fitted_"}
    said = {"about": public | dict(model.fitted_.attributes)}
    more = {} if tasks is None else {"tasks": tasks}
    if hasattr(model, "predict_proba"):
        said["proba"] = model.predict_proba(X, **more)
        said["decision"] = model.decision_function(X, **more)
        said["predict"] = model.predict(X, **more)
    else:
        said["std"] = model.predict(X, return_std=True, **more)
        said["noisy"] = model.predict(X, return_std=True, include_noise=True, **more)
        if model.fitted_.schema.wide is None:
            said["cov"] = model.predict(X, return_cov=True, **more)
    if hasattr(model, "relatedness"):
        said["relatedness"] = model.relatedness()
    if hasattr(model, "leave_one_out"):
        said["leave_one_out"] = model.leave_one_out()
    for name in ("learned_kernel_", "mean_", "covariance_"):
        if hasattr(type(model), name):
            said[name] = getattr(model, name)
    return said


@pytest.mark.parametrize("name", REGRESSORS + CLASSIFIERS)
def test_answers_of_a_stored_model_are_the_same_bits(name, tmp_path):
    X, y, labels = problem()
    model = fit(make(name, task="group"), X, labels if name in CLASSIFIERS else y)
    loaded = again(model, tmp_path)
    assert type(loaded) is type(model)
    assert repr(loaded) == repr(model)
    new = X.iloc[:9].assign(x=lambda t: t["x"] + 0.3)
    assert_same(answers(loaded, new), answers(model, new))
    again_loaded = again(loaded, tmp_path)  # after it was asked
    assert_same(answers(again_loaded, new), answers(model, new))
    if hasattr(model, "adapt"):
        few = X[["x", "z"]].iloc[:5]
        target = labels[:5] if name in CLASSIFIERS else y[:5]
        other, own = fit_adapt(loaded, few, target), fit_adapt(model, few, target)
        saved = again(own, tmp_path)
        for ask in ("predict", "predict_proba"):
            if hasattr(own, ask):
                assert_same(getattr(other, ask)(few), getattr(own, ask)(few))
                assert_same(getattr(saved, ask)(few), getattr(own, ask)(few))


@pytest.mark.parametrize("name", ["AutoRegressor", "AutoClassifier"])
def test_models_that_choose_keep_their_comparison(name, tmp_path):
    X, y, labels = problem(30)
    model = getattr(borrow, name)("group", "b", "pooled", cv=2)
    model.fit(X, labels if name in ("AutoClassifier",) else y)
    loaded = again(model, tmp_path)
    assert loaded.method_ == model.method_
    assert str(loaded.verdict_) == str(model.verdict_)
    assert loaded.comparison_.to_dict() == model.comparison_.to_dict()
    assert_same(loaded.comparison_.table(), model.comparison_.table())
    ask = "predict_proba" if name == "AutoClassifier" else "predict"
    mine = X[X["group"] == "b"]  # with no transfer there is a model of the primary alone
    assert_same(getattr(loaded, ask)(mine), getattr(model, ask)(mine))
    assert store.describe(tmp_path / "model.borrow")["method"] == model.method_


def fit_adapt(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.adapt(X, y)


def test_rbf_network_selects_alike(tmp_path):
    X, y, _ = problem()
    model = fit(make("MultiTaskRBFRegressor", task="group"), X, y)
    assert_same(again(model, tmp_path).select(X, 4), model.select(X, 4))


FORMS = [
    (name, form)
    for name in REGRESSORS + CLASSIFIERS
    for form in ("tasks", "wide", "list")
    if form != "wide" or name in REGRESSORS or name.startswith("Hierarchical")  # other classifiers take long tables
]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_other_forms_of_data(name, form, tmp_path):
    X, y, labels = problem(labels=(1, 2, 30))
    F, target = X[["x", "z"]].to_numpy(), labels if name in CLASSIFIERS else y
    if form == "tasks":
        model = fit(make(name, primary=2), F, target, tasks=X["group"].tolist())
        ask = X["group"].tolist()[:9]
    elif form == "wide":
        wide = np.column_stack([y, -y, y**2])
        model = fit(make(name, primary=1), F, (wide > 0.1).astype(float) if name in CLASSIFIERS else wide)
        ask = [1] * 9
    else:
        pairs = [(F[t::3], target[t::3]) for t in range(3)]
        model = fit(make(name, primary=1), pairs)
        ask = [0, 1, 2] * 3
    loaded = again(model, tmp_path)
    assert_same(answers(loaded, F[:9], ask), answers(model, F[:9], ask))
    if form == "wide" and "primary" not in model.get_params() and name in REGRESSORS:
        assert_same(loaded.predict(F, return_std=True), model.predict(F, return_std=True))


PATHS = {
    "complete": ({}, True),
    "low rank": ({"rank": 1, "inducing": 5}, False),
    "blocks": ({"task_covariance": "diagonal"}, False),
    "uniform": ({"task_covariance": "uniform", "intercept": True}, False),
    "isotropic": ({"rank": 1, "diagonal": "isotropic"}, False),
    "own": ({"specific_kernel": "auto"}, False),
    "features": ({"task_features": {"a": [0.0], "b": [1.0], "c": [2.0]}}, False),
    "em": ({"solver": "em"}, True),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_path_of_the_symmetric_model(path, tmp_path):
    X, y, _ = problem()
    more, complete = PATHS[path]
    if complete:
        F = np.linspace(0, 6, 7)
        X = pd.DataFrame({"x": np.tile(F, 3), "group": np.repeat(["a", "b", "c"], 7)})
        y = np.sin(X["x"]) * np.repeat([1.0, 0.5, -1.0], 7) + 0.1 * np.random.default_rng(0).normal(size=21)
    model = fit(borrow.MultiTaskGPRegressor("group", max_iter=8, **more), X, y)
    assert_same(answers(again(model, tmp_path), X), answers(model, X))


def test_further_paths(tmp_path):
    X, y, labels = problem(n=30)
    rng = np.random.default_rng(1)
    three = np.array(["p", "q", "r"])[rng.integers(0, 3, 30)]
    models = [
        fit(borrow.FocusedGPRegressor("group", "b", background=1, max_iter=5), X, y),
        fit(borrow.PooledGPRegressor("group", inducing=4, max_iter=5), X, y),
        fit(borrow.MultiTaskRBFRegressor("group", design="multi-task"), X, y),
        fit(borrow.MultiTaskRBFRegressor("group", design="independent"), X, y),
        fit(borrow.FocusedGPClassifier("group", "b", optimizer=None, likelihood="logistic"), X, labels),
        fit(borrow.MultiTaskIVMClassifier("group", max_iter=3), X, three),
        fit(borrow.PooledGPClassifier("group", inducing=4, max_iter=3), X, labels == "yes"),
    ]
    for model in models:
        assert_same(answers(again(model, tmp_path), X), answers(model, X))


def test_sparse_tables_and_linear_kernels(tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.random_array((20, 30), density=0.2, random_state=rng, format="csr")
    y = np.asarray(X @ rng.normal(size=(30, 2)))
    model = fit(borrow.HierarchicalGPRegressor(base_kernel=Linear(1.0), max_iter=3), X, y)
    loaded = again(model, tmp_path)
    assert_same(loaded.predict(X, return_std=True), model.predict(X, return_std=True))
    assert_same(loaded.X_, model.X_)
    kernel = again(model.learned_kernel_, tmp_path)
    assert_array_equal(kernel(X), model.learned_kernel_(X))


def learnt_kernel(base, Z):
    root = np.random.default_rng(1).normal(size=(len(Z), 2))
    return kernels.LearnedKernel(1.7, base=base, Z=Z, root=root, raw_weight=0.6, base_weight=0.4)


KERNELS = [
    SquaredExponential(1.3, (0.5, 2.0), tied=True, fixed="variance"),
    Matern(0.1, 3.0, nu=1.5) * (Linear((1.0, 2.0)) + Constant(0.1)),
    kernels.Periodic(1.0, 0.3, (1.0, 2.0)) + kernels.RationalQuadratic(2.0, 1.0, 0.7) + kernels.NeuralNetwork(),
    kernels.SmoothLinear(),
    learnt_kernel(SquaredExponential(1.0, 0.9), np.arange(8.0).reshape(4, 2)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: repr(k)[:30])
def test_a_kernel_comes_back_from_its_file(kernel, tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 2))
    loaded = again(kernel, tmp_path)
    assert type(loaded) is type(kernel)
    assert_array_equal(loaded(X), kernel(X))
    assert_array_equal(loaded.theta, kernel.theta)
    assert repr(loaded) == repr(kernel)
    assert os.listdir(tmp_path) == ["model.borrow"]


THEIRS = sk.ConstantKernel(2.0, "fixed") * sk.Matern([1.0, 2.0], nu=1.5) + sk.RBF(3.0) * sk.DotProduct(0.5)


def test_composed_and_foreign_kernels_as_settings(tmp_path):
    X, y, _ = problem()
    kernel = Matern(1.0, 1.0, nu=2.5) + Linear(0.1) * Constant(1.0)
    for each in (kernel, THEIRS, sk.RationalQuadratic(1.0, 2.0)):
        model = fit(borrow.SingleTaskGPRegressor("group", kernel=each, max_iter=3), X, y)
        loaded = again(model, tmp_path)
        assert repr(loaded.get_params()) == repr(model.get_params())
        assert_same(answers(loaded, X), answers(model, X))
        assert_same(answers(fit(loaded, X, y), X), answers(fit(model, X, y), X))
    periodic = fit(borrow.SingleTaskGPRegressor(kernel=sk.ExpSineSquared(1.0, 2.0), max_iter=3), X[["x"]], y)
    assert_same(again(periodic, tmp_path).predict(X[["x"]]), periodic.predict(X[["x"]]))


LABELS = {
    "text": ["a", "é\u0000", "<script>"],
    "numbers": [1, -2, 3],
    "floats": [0.1, np.inf, -0.0],
    "mixed": [1, "1", ("a", 2)],
    "dates": [datetime.date(2024, 1, d) for d in (1, 2, 3)],
    "times": [datetime.datetime(2024, 1, d, 12) for d in (1, 2, 3)],
    "truth and numpy": [True, np.str_("x"), np.int8(5)],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back_as_given(kind, tmp_path):
    labels = LABELS[kind]
    X = np.arange(9.0)[:, None]
    y = np.sin(X[:, 0])
    model = borrow.SingleTaskGPRegressor(optimizer=None).fit(X, y, tasks=[labels[i % 3] for i in range(9)])
    loaded = again(model, tmp_path)
    assert [type(v) for v in loaded.noise_] == [type(v) for v in model.noise_]
    assert list(loaded.noise_) == list(model.noise_)
    assert_same(loaded.tasks_, model.tasks_)
    for label in labels:
        assert_same(loaded.predict(X, tasks=[label] * 9), model.predict(X, tasks=[label] * 9))


@pytest.mark.parametrize("library", ["pandas categorical", "polars"])
def test_categorical_labels_and_other_frames(library, tmp_path):
    X, y, _ = problem()
    X = X.assign(group=X["group"].astype("category")) if library != "polars" else pl.DataFrame(X.to_dict("list"))
    model = borrow.FocusedGPRegressor("group", "b", optimizer=None).fit(X, y)
    loaded = again(model, tmp_path)
    assert_same(loaded.predict(X, return_std=True), model.predict(X, return_std=True))
    with pytest.raises(ValueError, match="unknown task 'd'"):
        loaded.predict(X.assign(group="d") if library != "polars" else X.with_columns(group=pl.lit("d")))


def test_an_unfitted_model_and_its_random_numbers(tmp_path):
    for state in (
        None,
        3,
        np.random.RandomState(1),
        np.random.default_rng(2),
        np.random.Generator(np.random.Philox(1)),
    ):
        loaded = again(borrow.FocusedGPRegressor("t", 3, noise={"a": 0.1, 2: 1.0}, random_state=state), tmp_path)
        assert loaded.get_params()["noise"] == {"a": 0.1, 2: 1.0}
        assert not hasattr(loaded, "tasks_")
        if hasattr(state, "normal"):
            assert_array_equal(loaded.random_state.normal(size=3), copy.deepcopy(state).normal(size=3))
        else:
            assert loaded.random_state == state
    about = store.describe(tmp_path / "model.borrow")
    assert about["fitted"] is False


def test_describe_says_what_is_in_the_file_and_builds_nothing(tmp_path, monkeypatch):
    X, _, labels = problem()
    model = fit(make("FocusedGPClassifier", task="group"), X, labels)
    path = store.save(model, tmp_path / "m", about={"target": "y"})
    monkeypatch.setattr(objects, "decode", None)
    about = store.describe(path)
    assert about["class"] == "FocusedGPClassifier"
    assert about["features"] == ["x", "z"]
    assert (about["task"], about["tasks"], about["classes"]) == ("group", ["a", "b", "c"], ["no", "yes"])
    assert about["settings"]["primary"] == "b"
    assert about["target"] == "y"
    assert about["borrow"] == borrow.__version__
    json.dumps(about, allow_nan=False)
    assert store.describe(store.save(KERNELS[0], path))["is"].startswith("SquaredExponential")


def test_numpy_opens_the_arrays_and_the_same_model_gives_the_same_bytes(tmp_path):
    X, y, _ = problem()
    model = fit(make("FocusedGPRegressor", task="group"), X, y)
    before = store.save(model, tmp_path / "m").read_bytes()
    with np.load(tmp_path / "m", allow_pickle=False) as arrays:
        assert any(arrays[n].ndim == 2 for n in arrays.files if n != "page.json")
    model.predict(X, return_std=True)
    model.relatedness()
    assert store.save(model, tmp_path / "m").read_bytes() == before


def test_what_is_held_twice_is_written_once(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    pair = kernels.Sum((learnt_kernel(Linear(1.0), X),) * 2)
    one = store.save(pair.parts[0], tmp_path / "one").stat().st_size
    assert store.save(pair, tmp_path / "two").stat().st_size < one + 500


STORED = Path(__file__).parent / "stored"
#: Every name that a file of this format may hold. A name that was written once stays; a new one is added there.
WORDS = (STORED / "names.txt").read_text().split()


def test_the_closed_list_is_what_classes_of_this_package_declare():
    """In a process of its own: what a test declares is no part of it, and whoever reads a file loads what it needs."""
    code = (
        "import json, sys\n"
        "from borrow.estimators import registry\n"
        "from borrow.numerics import stored\n"
        "from borrow.store import objects\n"
        "names = json.loads(sys.argv[1])\n"
        "found = {n: objects.declared(registry.class_in_files, n) for n in names}\n"
        "assert all(found.values()), found\n"
        "objects.declared(registry.class_in_files, 'no such name')\n"
        "print(json.dumps([sorted(stored._classes), sorted({c.__module__.split('.')[0] for c in found.values()})]))"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(WORDS)], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [sorted(WORDS), ["borrow", "sklearn"]]


def test_the_store_names_no_class_that_it_stores():
    """It reads the registry: none of its files imports a class that declares itself or an estimator."""
    declared = {k.__name__ for k in stored._names} | {e.name for e in registry.entries()}
    for path in Path(store.__file__).parent.glob("*.py"):
        nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        taken = {a.name for n in nodes if (n.module or "").startswith("borrow") for a in n.names}
        assert not taken & declared, path.name


@registry.stored("values-of-somebody", state="values")
class Spread:
    """A class of somebody else's, which declares what is stored of it; what it makes of that is made again."""

    def __init__(self, values):
        self.values = list(values)
        self.largest = max(values)


class MeanOfTask(RegressorMixin, BaseEstimator):
    """An estimator of somebody else's, whose fit holds an object that this package does not know."""

    def __init__(self, task=None):
        self.task = task

    def fit(self, X, y, tasks):
        self.mean_, self.spread_ = {t: float(np.mean(np.asarray(y)[np.asarray(tasks) == t])) for t in tasks}, Spread(y)
        return self


def test_a_registered_estimator_from_outside_is_stored_by_what_it_declares_alone(tmp_path, monkeypatch):
    model = MeanOfTask("who").fit([[0.0]] * 4, [1.0, 2.0, 3.0, 5.0], ["a", "a", "b", "b"])
    with pytest.raises(TypeError, match=r"its kind is test_store\.MeanOfTask"):
        store.save(model, tmp_path / "m")
    assert borrow.__all__  # those of this package are there
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    registry.register()(MeanOfTask)
    with pytest.raises(TypeError, match=r"it has 'mean_', 'spread_' beside its settings .*; remove that"):
        store.save(model, tmp_path / "m")
    registry.register(state="mean_ spread_")(MeanOfTask)
    loaded = again(model, tmp_path)
    assert (loaded.task, loaded.mean_) == ("who", {"a": 1.5, "b": 4.0})
    assert vars(loaded.spread_) == {"values": [1.0, 2.0, 3.0, 5.0]}
    monkeypatch.undo()
    with pytest.raises(store.StoreError, match="names 'MeanOfTask', which this borrow does not know"):
        store.load(tmp_path / "model.borrow")


def test_no_two_classes_have_one_name_in_files():
    with pytest.raises(ValueError, match=r"'cells' is what files call borrow\.data\.cells\.Cells; choose another"):
        registry.stored("cells")(MeanOfTask)
    assert registry.class_in_files("cells") is Cells


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_of_a_model_is_settings_and_declared_state(name):
    """Every class in the file declared its fields, and the file has those and no others."""
    X, y, labels = problem()
    page, _ = objects.encode(fit(make(name, task="group"), X, labels if name in CLASSIFIERS else y))
    *parts, last = [e for e in page["entries"] if "fields" in e]
    assert set(last["fields"]) == {*getattr(borrow, name)._get_param_names(), "fitted_"}
    for entry in parts:
        assert list(entry["fields"]) == registry.state_names(registry.class_in_files(entry["class"]))


#: What the first files of the format are asked, and what they answered then (`tests/stored/write.py`).
FIRST = json.loads((STORED / "answers.json").read_text())
#: Words that files of before had in place of another; they are read, and no longer written.
OLD_WORDS = {"gaussian"}


def first_file(name, folder):
    """A first file, unpacked."""
    path = folder / f"{name}.borrow"
    path.write_bytes(gzip.decompress((STORED / f"{name}.borrow.gz").read_bytes()))
    return path


@pytest.mark.parametrize("name", FIRST)
def test_the_first_files_of_the_format_answer_as_when_they_were_written(name, tmp_path):
    """Files and answers of 2026-11, kept for ever: a later format reads them or says why."""
    said = FIRST[name]
    rows = pd.DataFrame(said["rows"]) if isinstance(said["rows"], dict) else np.array(said["rows"])
    answer = getattr(store.load(first_file(name, tmp_path)), said["ask"])(rows, **said["with"])
    np.testing.assert_allclose(answer, said["answer"], rtol=1e-10, atol=1e-10)


def test_every_word_and_every_estimator_is_in_one_of_the_first_files(tmp_path):
    """One that is new is added there (`python tests/stored/write.py`), so that every later version is held to it."""
    pages = [json.loads(dict(members(first_file(name, tmp_path)))["page.json"]) for name in FIRST]
    found = {entry["class"] for page in pages for entry in page["entries"] if "class" in entry}
    assert sorted(p.name.removesuffix(".borrow.gz") for p in STORED.glob("*.gz")) == sorted(FIRST)
    assert found == {*WORDS, *NAMES, "AutoRegressor", "AutoClassifier"} - OLD_WORDS
    kinds = {"array", "sparse", "list", "tuple", "slice", "dict", "objects", "random", "class"}  # of an entry
    assert {next(iter(entry)) for page in pages for entry in page["entries"]} == kinds


def test_the_page_of_what_a_file_holds_is_that_of_the_code():
    """In a process of its own: what a test declares is no part of it."""
    code = "import page; text = page.PAGE.read_text(); assert text == page.filled(text), 'run tests/stored/page.py'"
    done = subprocess.run([sys.executable, "-c", code], cwd=STORED, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_field_that_is_newer_than_the_file_has_its_default(tmp_path):
    """A setting of an estimator, a field of a dataclass, the last value of a named tuple; one without a default not."""
    decision = {"class": "numbers", "fields": {"name": "x"}}
    for entry, expected in (
        ({"class": "PooledGPRegressor", "fields": {"max_iter": 7}}, borrow.PooledGPRegressor(max_iter=7)),
        (decision, Numbers("x")),
        ({"class": "carrier-basis", "values": [1, 2]}, Basis(1, 2)),
    ):
        path = rewritten(tmp_path, lambda page, _, entry=entry: page.update(entries=[entry], root={"at": 0}))
        assert repr(store.load(path)) == repr(expected)
    decision["fields"] = {"fill": 0.0}
    with pytest.raises(store.StoreError, match=r"the fields \['name'\] of Numbers do not agree"):
        store.load(rewritten(tmp_path, lambda page, _: page.update(entries=[decision], root={"at": 0})))


def test_an_attribute_that_is_no_setting_is_not_saved(tmp_path):
    model = borrow.PooledGPRegressor(optimizer=None)
    model.note = "of Tuesday"
    with pytest.raises(TypeError, match="PooledGPRegressor cannot be saved: it has 'note' beside its settings"):
        store.save(model, tmp_path / "m")


def test_an_encoder_keeps_the_form_of_its_tables(tmp_path):
    encoder = borrow.TableEncoder().fit({"x": np.array([1.0, np.nan])}).set_output(transform="pandas")
    assert again(encoder, tmp_path)._sklearn_output_config == {"transform": "pandas"}


def test_the_commits_that_read_earlier_formats_do():
    root = Path(__file__).parents[1]
    assert list(container.LAST_TO_READ) == list(range(1, store.VERSION))
    for version, commit in container.LAST_TO_READ.items():
        find = ["git", "grep", "-h", "^VERSION = ", commit, "--", "src/borrow/store*"]
        done = subprocess.run(find, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode == 128:
            pytest.skip("a checkout without its history")
        assert done.stdout.split() == ["VERSION", "=", str(version)]


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "borrow.data.cells.np", "borrow.data.cells", "Cells", "", "."]
)
def test_only_the_list_is_looked_up(name, tmp_path):
    path = rewritten(tmp_path, lambda page, _: page.update(entries=[{"class": name, "fields": {}}], root={"at": 0}))
    with pytest.raises(store.StoreError, match="which this borrow does not know; update borrow"):
        store.load(path)


# Damage. --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    X, y, _ = problem()
    model = fit(make("SingleTaskGPRegressor", task="group"), X, y)
    return store.save(model, tmp_path_factory.mktemp("whole") / "m").read_bytes()


def refused(data, folder, match="not a file that borrow wrote|damaged"):
    path = folder / "damaged"
    path.write_bytes(data)
    for read in (store.load, store.describe):
        with pytest.raises(store.StoreError, match=match):
            read(path)


def test_a_file_cut_short_anywhere_is_refused(whole, tmp_path):
    for length in sorted({*range(0, 200), *range(0, len(whole), 997), *range(len(whole) - 150, len(whole))}):
        refused(whole[:length], tmp_path)
    refused(whole + b"\0", tmp_path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_changed_byte_anywhere_is_found(data, whole, tmp_path_factory):
    at = data.draw(st.integers(0, len(whole) - 1))
    bits = data.draw(st.integers(1, 255))
    changed = bytearray(whole)
    changed[at] ^= bits
    refused(bytes(changed), tmp_path_factory.getbasetemp())


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused_in_a_sentence(data, tmp_path_factory):
    refused(data, tmp_path_factory.getbasetemp())
    refused(container._START + b"\0" * 26 + b"page.json" + data, tmp_path_factory.getbasetemp())


def foreign_files():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("hello.txt", "hello")
    yield "zip", out.getvalue()
    out = io.BytesIO()
    np.savez(out, a=np.ones(3))
    yield "npz", out.getvalue()
    yield "text", b"x,y\n1,2\n"
    yield "empty", b""
    yield "pickle", b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94\x8c\x06system\x94\x93\x94."


@pytest.mark.parametrize(("kind", "data"), list(foreign_files()))
def test_foreign_files_are_refused(kind, data, tmp_path):
    refused(data, tmp_path, match="is not a file that borrow wrote, or it is damaged$")


def signed(members, method=zipfile.ZIP_STORED):
    """A file whose checksum is right, whatever is in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile says that a name comes twice
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
        archive.comment = b"0" * container.DIGEST
    data = out.getvalue()[: -container.DIGEST]
    return data + hashlib.sha256(data).hexdigest().encode()


def members(path):
    with zipfile.ZipFile(path) as archive:
        return [(n, archive.read(n)) for n in archive.namelist()]


def rewritten(tmp_path, change):
    """A kernel's file with another page and other arrays, and a checksum that is right."""
    path = store.save(KERNELS[-1], tmp_path / "k")
    (_, page), *arrays = members(path)
    page, parts = json.loads(page), dict(arrays)
    change(page, parts)
    path.write_bytes(signed([("page.json", json.dumps(page)), *parts.items()]))
    return path


def npy(array, **more):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **more)
    return out.getvalue()


def huge():
    """An array that says that it is far longer than its bytes."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**3)})
    return out.getvalue() + b"\0" * 64


def later(page, name, **more):
    """An estimator that is not fitted, and has these fields too."""
    fields = dict.fromkeys(getattr(borrow, name)._get_param_names())
    page.update(entries=[{"class": name, "fields": fields | more}], root={"at": 0})


deep = {"root": {"at": 0}, "entries": [{"list": [[]]}]}
CHANGES = {
    "newer": (
        lambda page, _: page.update(version=99),
        "version 99 .written by borrow 0.1.0. and this borrow.*; update",
    ),
    "older": (
        lambda page, _: page.update(version=3),
        "version 3, which .* reads no longer; the last to read it is commit 128d980 of borrow: load it there, or fit",
    ),
    "older than all": (lambda page, _: page.update(version=0), "no longer; an earlier borrow wrote it: load it there"),
    "other format": (lambda page, _: page.update(format="other"), "is not a file that borrow wrote$"),
    "version is text": (lambda page, _: page.update(version="2"), "is not a file that borrow wrote$"),
    "no entries": (lambda page, _: page.pop("entries"), "not one that borrow writes"),
    "entries are a number": (lambda page, _: page.update(entries=3), "not one that borrow writes"),
    "refers ahead": (
        lambda page, _: page.update(entries=[{"list": [{"at": 1}]}, {"list": []}]),
        "where a value is expected",
    ),
    "refers to itself": (lambda page, _: page.update(entries=[{"list": [{"at": 0}]}]), "where a value is expected"),
    "no such array": (lambda page, _: page.update(entries=[{"array": 7}]), "where an object is expected"),
    "unknown entry": (lambda page, _: page.update(entries=[{"call": "x"}]), "where an object is expected"),
    "a list inside": (lambda page, _: page.update(deep), "a list stands where"),
    "fields of another": (
        lambda page, _: page.update(entries=[{"class": "shared", "fields": {"a": 1}}], root={"at": 0}),
        "do not agree; it comes from another version",
    ),
    "settings of a later borrow": (
        lambda page, _: later(page, "PooledGPRegressor", depth=3),
        r"the fields \['depth'\] of PooledGPRegressor do not agree; it comes from another version of borrow: load",
    ),
    "attributes that are none": (
        lambda page, _: later(page, "TableEncoder", transform=3),
        r"the fields \['transform'\] of TableEncoder do not agree",
    ),
    "tuple too short": (
        lambda page, _: page.update(entries=[{"class": "carrier-basis", "values": [1]}], root={"at": 0}),
        "1 values for",
    ),
    "a class as a table": (
        lambda page, _: page.update(entries=[{"class": "shared", "items": []}], root={"at": 0}),
        "in a form that does not fit",
    ),
    "long integer": (
        lambda page, _: page.update(entries=[{"bytes": 1, "numpy": "<i8"}]),
        "where an object is expected",
    ),
    "odd number": (
        lambda page, _: page.update(entries=[], root={"numpy": "<f8", "bytes": "00"}),
        "not as long as its kind",
    ),
    "pickled number": (lambda page, _: page.update(entries=[], root={"numpy": "|O", "bytes": "00" * 8}), "carry code"),
    "generator": (
        lambda page, _: page.update(entries=[{"random": "os.urandom", "state": {"at": 0}}, {"list": []}]),
        "cannot be read",
    ),
    "object array": (
        lambda _, parts: parts.update({"0.npy": npy(np.array([{}], dtype=object), allow_pickle=True)}),
        "could carry code",
    ),
    "records": (lambda _, parts: parts.update({"0.npy": npy(np.zeros(2, "f8,i4"))}), "could carry code"),
    "array too long": (lambda _, parts: parts.update({"0.npy": huge()}), "not as long as it says"),
    "array cut": (lambda _, parts: parts.update({"0.npy": npy(np.ones(4))[:-8]}), "not as long as it says"),
    "not an array": (lambda _, parts: parts.update({"0.npy": b"hello"}), "not one that borrow writes"),
    "name outside": (lambda _, parts: parts.update({"../../etc/passwd": b""}), "its members are not those of one"),
    "absolute name": (lambda _, parts: parts.update({"/etc/passwd": b""}), "its members are not those of one"),
    "another member": (lambda _, parts: parts.update({"setup.py": b"x"}), "its members are not those of one"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_pages_that_are_not_right_are_refused_though_the_checksum_is(change, tmp_path):
    apply, match = CHANGES[change]
    path = rewritten(tmp_path, apply)
    with pytest.raises(store.StoreError, match=match):
        store.load(path)


def test_packed_members_repeated_names_and_deep_pages_are_refused(tmp_path):
    path = store.save(KERNELS[-1], tmp_path / "k")
    own = members(path)
    cases = {
        "its members are not those of one": signed(own, zipfile.ZIP_DEFLATED),  # a bomb must be packed
        "its members are": signed([*own, own[-1]]),
        "is not a file that borrow wrote, or it is damaged": signed([("page.json", b"[" * 100_000)]),
        "is not a file that borrow wrote$": signed([("page.json", b"[]")]),
        "or it is damaged": signed([("page.json", b"9" * 5000)]),
    }
    for match, data in cases.items():
        path.write_bytes(data)
        with pytest.raises(store.StoreError, match=match):
            store.load(path)


def entries(*more, root=None):
    """A change that puts these entries in the place of all others."""
    return lambda page, _: page.update(entries=list(more), root={"at": len(more) - 1} if root is None else root)


def towers(kind):
    """Forty entries, each of which holds the one before it twice: 2 ** 40 values to walk through."""
    return [{kind: []}, *({kind: [{"at": k}, {"at": k}]} for k in range(40))]


def arrays(*values):
    return lambda page, parts: parts.update({f"{k}.npy": npy(np.asarray(v)) for k, v in enumerate(values)})


def csr(data, indices, indptr, shape=(2, 3), kind="csr_array"):
    """A change that makes the file that of a sparse matrix."""

    def change(page, parts):
        parts.clear()
        arrays(data, indices, indptr)(page, parts)
        matrix = {"sparse": kind, "parts": [{"at": 0}, {"at": 1}, {"at": 2}], "shape": list(shape)}
        entries({"array": 0}, {"array": 1}, {"array": 2}, matrix)(page, parts)

    return change


DECLARED = "{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}"


def header(text, data=b""):
    """An array with this header."""
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def state(**more):
    key = {"objects": [1] * 624, "shape": [624]}
    own = [["key", {"at": 0}], *more.pop("own", {}).items()]
    outer = [["bit_generator", more.pop("name", "MT19937")], ["state", {"at": 1}], *more.items()]
    return key, {"dict": [list(p) for p in own]}, {"dict": [list(p) for p in outer]}


HOSTILE = {
    "index beyond the columns": (csr([1.0, 1.0], [0, 10**9], [0, 1, 2]), "outside its columns"),
    "index before the columns": (csr([1.0, 1.0], [0, -5], [0, 1, 2]), "outside its columns"),
    "column beyond the rows": (csr([1.0, 1.0], [0, 2], [0, 1, 2, 2], kind="csc_array"), "outside its columns"),
    "rows run backwards": (csr([1.0, 1.0], [0, 1], [0, 2, 1]), "not where it says"),
    "rows run out": (csr([1.0, 1.0], [0, 1], [0, 1, 9]), "not where it says"),
    "rows begin late": (csr([1.0, 1.0], [0, 1], [1, 1, 2]), "not where it says"),
    "too few rows": (csr([1.0, 1.0], [0, 1], [0, 2]), "not where it says"),
    "fewer numbers than indices": (csr([1.0], [0, 1], [0, 1, 2]), "not where it says"),
    "no rows at all": (csr([1.0], [0], np.zeros(0, int)), "not where it says"),
    "less than no rows": (csr([1.0], [0], [0], shape=(-1, 3)), "three rows of numbers"),
    "indices are fractions": (csr([1.0, 1.0], [0.0, 1.0], [0, 1, 2]), "three rows of numbers"),
    "numbers are text": (csr(["a", "b"], [0, 1], [0, 1, 2]), "three rows of numbers"),
    "a matrix of a matrix": (csr([[1.0, 1.0]], [0, 1], [0, 1, 2]), "three rows of numbers"),
    "more columns than memory": (csr([1.0, 1.0], [0, 1], [0, 1, 2], shape=(2, 2**60)), "there is more memory"),
    "a tower as a key": (entries(*towers("tuple"), {"dict": [[{"at": 40}, 1]]}), "repeated more often"),
    "a tower of lists": (entries(*towers("list")), "repeated more often"),
    "a deep list": (entries({"list": []}, *({"list": [{"at": k}]} for k in range(200))), "nested deeper"),
    "a list as a key": (entries({"list": []}, {"tuple": [{"at": 0}]}, {"dict": [[{"at": 1}, 1]]}), "neither a single"),
    "an array as a key": (entries({"array": 0}, {"dict": [[{"at": 0}, 1]]}), "neither a single"),
    "keys of one hash": (entries({"dict": [[k * (2**61 - 1), 0] for k in range(1, 3000)]}), "to have one hash"),
    "nothing, very often": (
        lambda _, parts: parts.update({"0.npy": header(DECLARED.format("<U0", 10**12))}),
        "not as long as it says",
    ),
    "rows of nothing": (
        lambda _, parts: parts.update({"0.npy": npy(np.zeros((10**12, 0)))}), "not as long as it says",
    ),
    "a header of brackets": (lambda _, parts: parts.update({"0.npy": header("(" * 9000)}), "could carry code"),
    "a header that calls": (lambda _, parts: parts.update({"0.npy": header("__import__('os')")}), "could carry code"),
    "half true": (
        lambda _, parts: parts.update({"0.npy": header(DECLARED.format("|b1", 1), b"\2")}),
        "neither true nor false",
    ),
    "no such character": (
        lambda _, parts: parts.update({"0.npy": npy(np.array([2**31], np.uint32)).replace(b"'<u4'", b"'<U1'")}),
        "characters that do not exist",
    ),
    "a number of no such character": (
        entries({"list": []}, root={"numpy": "<U1", "bytes": "ffffffff"}), "characters that do not exist",
    ),
    "generator beyond its key": (
        entries(*state(own={"pos": 10**6}), {"random": "RandomState", "state": {"at": 2}}), "outside its own state",
    ),
    "generator before its buffer": (
        entries(*state(name="Philox", buffer_pos=-9), {"random": "Philox", "state": {"at": 2}}),
        "outside its own state",
    ),
    "an address as a setting": (
        entries({"class": "Constant", "fields": {"__array_interface__": 1}}), "__array_interface__",
    ),
    "an address as an attribute": (
        entries(
            {"dict": [["__array_interface__", 1]]},
            {
                "class": "fitted",
                "fields": {"schema": None, "model": None, "attributes": {"at": 0}},
            },
        ),
        "__array_interface__",
    ),
    "a slice of slices": (entries({"list": []}, {"slice": [{"at": 0}, 1, 1]}), "where an object is expected"),
}  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE)
def test_what_code_in_c_would_trust_is_refused(change, tmp_path):
    apply, match = HOSTILE[change]
    path = rewritten(tmp_path, apply)
    with pytest.raises(store.StoreError, match=match):
        store.load(path)


def test_task_starts_and_codes_stay_within_the_file(whole, tmp_path):
    (tmp_path / "m").write_bytes(whole)
    (_, text), *rest = members(tmp_path / "m")
    own = dict(rest)
    wrong = 0
    for name, data in rest:
        array = np.lib.format.read_array(io.BytesIO(data))
        if array.dtype.kind == "i" and array.ndim == 1 and array.size and array[0] == 0:
            changed = array.copy()
            changed[-1] = 10**11
            (tmp_path / "m").write_bytes(signed([("page.json", text), *{**own, name: npy(changed)}.items()]))
            with pytest.raises(store.StoreError, match="points beyond the file"):
                store.load(tmp_path / "m")
            wrong += 1
    assert wrong > 0


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(tmp_path / "socket"))
        for path, what in (
            (tmp_path / "pipe", "a pipe or a socket"),
            (tmp_path / "socket", "a pipe or a socket"),
            ("/dev/zero", "a device"),
            (tmp_path, "is a folder"),
        ):
            for read in (store.load, store.describe):
                with pytest.raises(store.StoreError, match=what):
                    read(path)
    with pytest.raises(FileNotFoundError):
        store.load(tmp_path / "none")


def test_a_file_larger_than_memory_is_refused_unread(tmp_path, whole):
    path = tmp_path / "holes"
    path.write_bytes(whole[:100])
    with open(path, "r+b") as file:
        file.truncate(2**42)
    with pytest.raises(store.StoreError, match=r"reading .* needs about 16 TiB"):
        store.load(path)


def test_reading_takes_at_most_four_times_the_file(tmp_path):
    big = learnt_kernel(Linear(1.0), np.random.default_rng(0).normal(size=(500_000, 2)))
    path = store.save(big, tmp_path / "k")
    tracemalloc.start()
    try:
        store.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * path.stat().st_size


def test_a_page_that_unfolds_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "k"
    page = {"format": "borrow", "version": store.VERSION, "about": {}, "entries": [[[]] * 500_000], "root": None}
    path.write_bytes(container.pack(json.dumps(page).encode(), []))
    monkeypatch.setattr(container.memory, "available", lambda: 6.0 * path.stat().st_size)
    with pytest.raises(store.StoreError, match=r"needs about .* load it where there is more memory"):
        store.load(path)
    tiny = path.with_name("many")
    tiny.write_bytes(signed([("page.json", "{}"), *((f"{k}.npy", b"") for k in range(500))]))
    with pytest.raises(store.StoreError, match="its members are not those of one"):
        store.load(tiny)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 5) | st.text(max_size=4) | st.floats(-2, 2),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["at", "array", "list", "tuple", "dict", "class", "fields", "values", "items", "numpy", "bytes",
                         "sparse", "parts", "shape", "objects", "slice", "float", "date", "random", "state"]),
        inner
        | st.sampled_from(
            ["cells", "table", "carrier-basis", "<f8"]
        ),
        max_size=3,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(entries=st.lists(json_values, max_size=4), root=json_values)
def test_any_page_is_read_or_refused_by_name(entries, root, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any"
    page = {"format": "borrow", "version": store.VERSION, "about": {}, "entries": entries, "root": root}
    path.write_bytes(container.pack(json.dumps(page).encode(), [np.ones(2)]))
    with contextlib.suppress(store.StoreError):  # anything else is a failure
        store.load(path)


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4)
    | st.dates() | st.datetimes().map(lambda t: t.replace(fold=0)),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(value=plain_values)
def test_plain_values_come_back_as_they_were(value):
    page, arrays = objects.encode(value)
    assert_same(objects.decode(json.loads(json.dumps(page, allow_nan=False)), arrays, 100), value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24.0).reshape(4, 6)[::2, 1:4],
        np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0),
        np.broadcast_to(3.0, 4),
        np.zeros((0, 3)),
        np.array(5),
        np.array(["a", "bcd"]),
        np.array([], dtype="U1"),
        np.array([True, False]),
        np.array(["2024-01-01"], dtype="datetime64[D]"),
        np.array([1, "a", None, (1, 2)], dtype=object),
        np.arange(3, dtype=">f4"),
    ],
    ids=lambda a: f"{a.dtype} {a.shape}",
)
def test_arrays_keep_their_kind_their_shape_and_the_order_of_their_memory(array, tmp_path):
    table = borrow.SingleTaskGPRegressor(kernel=None, noise=None, random_state=array)
    loaded = again(table, tmp_path).random_state
    assert loaded.dtype == array.dtype.newbyteorder("=")
    assert_array_equal(loaded, array)
    if array.flags.c_contiguous or array.flags.f_contiguous:
        assert loaded.flags.f_contiguous == array.flags.f_contiguous
        assert loaded.flags.c_contiguous == array.flags.c_contiguous
    assert loaded.flags.aligned


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (lambda: 0, "it is a function, and a file holds no code"),
        (object(), "its kind is builtins.object; what can be saved is"),
        (pd.Timestamp("2024-01-01"), "Timestamp"),
        (np.zeros(2, "f8,i4"), "arrays hold numbers"),
        (np.longdouble(1.0), "longdouble"),
    ],
)
def test_what_cannot_be_saved_leaves_the_old_file(value, match, tmp_path):
    path = store.save(Linear(1.0), tmp_path / "k")
    before = path.read_bytes()
    with pytest.raises(TypeError, match=match):
        store.save(borrow.SingleTaskGPRegressor(kernel=value), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["k"]


def test_writing_leaves_no_parts_and_the_usual_rights(tmp_path, monkeypatch):
    old = os.umask(0o022)
    try:
        path = store.save(Linear(1.0), tmp_path / "k")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    before = path.read_bytes()

    def broken(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="no space left"):
        store.save(Linear(2.0), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["k"]
    with pytest.raises(FileNotFoundError):
        store.save(Linear(1.0), tmp_path / "absent" / "k")
