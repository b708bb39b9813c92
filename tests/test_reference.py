"""The reference has every public name, and docstrings describe every argument and every fitted attribute."""

import dataclasses
import inspect
import re
import warnings

import numpy as np
import pytest

import borrow
from borrow.estimators.base import OnWorkers, TaskEstimator
from borrow.estimators.classifier import EPClassifier, GPClassifier, TaskClassifier
from borrow.estimators.gp import GPEstimator, LearntEstimator
from borrow.estimators.regressor import GPRegressor, TaskRegressor
from run_page import ROOT

ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.+)$")
SHARED = (TaskEstimator, OnWorkers, LearntEstimator, GPEstimator)
BASES = {c.__name__: c for c in (*SHARED, EPClassifier, GPClassifier, GPRegressor, TaskClassifier, TaskRegressor)}
VERBS = {"compare", "quick_look", "suggest"}
ESTIMATORS = [n for n in borrow.__all__ if n.endswith(("Regressor", "Classifier"))]


def entries(cls, head):
    """Names that the list under this heading describes, with the words of each."""
    lines = inspect.cleandoc(cls.__doc__).splitlines()
    found = {}
    if head in lines:
        for line in lines[lines.index(head) + 2 :]:
            if not line:
                break
            if match := ENTRY.match(line):
                found |= dict.fromkeys(match[1].split(", "), match[2])
            else:
                assert line.startswith("    "), f"{cls.__name__}: {line!r} is no entry of {head}"
    return found


def described(cls, head):
    """The same, those of its base classes included."""
    return {k: v for c in reversed(cls.__mro__) if c.__doc__ for k, v in entries(c, head).items()}


def arguments(cls):
    return list(inspect.signature(cls).parameters)


def test_every_public_name_is_in_the_reference():
    pages = "\n".join(p.read_text() for p in (ROOT / "docs").rglob("*.md"))
    homes = {name: getattr(borrow, name).__module__ for name in borrow.__all__ if name[0].isupper() or name in VERBS}
    for name, home in homes.items():
        assert f"::: {home}.{name}\n" in pages, f"{name} has no entry in the reference"
    for module in ("kernels", "datasets", "report"):
        for name in getattr(borrow, module).__all__:
            found = getattr(getattr(borrow, module), name)
            assert f"::: {found.__module__}.{name}\n" in pages, f"{module}.{name} has no entry in the reference"
    for module in set(borrow.__all__) - set(homes):
        assert f"`borrow.{module}`" in pages


def test_reference_describes_every_parameter_of_a_kernel():
    page = (ROOT / "docs" / "reference" / "kernels.md").read_text()
    listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", page, re.M))))
    for name in set(borrow.kernels.__all__) - {"LearnedKernel"}:  # nobody writes that one down
        kernel = getattr(borrow.kernels, name)
        if inspect.isclass(kernel) and issubclass(kernel, borrow.kernels.Leaf):
            assert {f.name for f in dataclasses.fields(kernel)} <= listed, name


def test_everything_public_can_be_had():
    for name in borrow.__all__:
        assert getattr(borrow, name) is not None
        assert name in dir(borrow)


@pytest.mark.parametrize("name", [*ESTIMATORS, "compare", "quick_look", "suggest"])
def test_docstring_describes_every_argument(name):
    cls = getattr(borrow, name)
    listed = entries(cls, "Parameters")
    assert sorted(listed) == sorted(arguments(cls))
    for argument, words in listed.items():
        for other in re.findall(r"as in (?:every )?`(\w+)`", words):  # where another class describes it, it does
            base = BASES.get(other) or getattr(borrow, other)
            assert argument in entries(base, "Parameters"), f"{name} sends to {other} for {argument}"


@pytest.mark.parametrize("name", BASES)
def test_docstring_of_a_base_sends_to_where_an_argument_is_described(name):
    cls = BASES[name]
    listed = entries(cls, "Parameters")
    assert set(listed) <= set(arguments(cls))
    for argument, words in listed.items():
        for other in re.findall(r"as in every `(\w+)`", words):
            assert argument in entries(BASES[other], "Parameters"), f"{name} sends to {other} for {argument}"


@pytest.mark.parametrize("name", ["Comparison", "Verdict"])
def test_docstring_describes_every_field(name):
    cls = getattr(borrow, name)
    assert sorted(entries(cls, "Attributes")) == sorted(f.name for f in dataclasses.fields(cls))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_docstring_describes_every_fitted_attribute(name):
    cls = getattr(borrow, name)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (16, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=16)
    given = {"primary": "a", "max_iter": 3, "n_active": 6, "n_restarts": 0, "n_iter": 2, "methods": ["pooled"], "cv": 2}
    model = cls(**{k: v for k, v in given.items() if k in arguments(cls)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three iterations
        model.fit(X, y > 0 if name.endswith("Classifier") else y, tasks=np.repeat(["a", "b"], 8))
    public = {n for n in (*vars(model), *dir(cls)) if n.endswith("_") and not n.startswith("_")}
    listed = described(cls, "Attributes")
    public |= set(model.fitted_.attributes)
    assert public <= set(listed), f"{name} does not describe {sorted(public - set(listed))}"
    own = set(entries(cls, "Attributes"))
    assert own <= public | {"feature_names_in_"}, f"{name} describes {sorted(own - public)}, which a fit does not set"
