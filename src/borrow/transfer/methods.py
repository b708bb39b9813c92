"""The one table of the methods that are compared: which estimator each is, and where it applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import borrow
from borrow.data.labels import list_labels


@dataclass(frozen=True)
class Method:
    """One method: its name in words for people, its estimators, and its limits.

    Above `most_rows` rows in all, "auto" leaves out what would take minutes per fold: one joint matrix of all rows.
    """

    label: str
    regressor: str
    classifier: str | None
    most_rows: float = inf
    takes_primary: bool = False


#: By key, in the order of every table.
METHODS = {
    "single": Method("no transfer", "SingleTaskGPRegressor", "SingleTaskGPClassifier"),
    "pooled": Method("pooled", "PooledGPRegressor", "PooledGPClassifier"),
    "symmetric": Method("symmetric GP", "MultiTaskGPRegressor", "MultiTaskGPClassifier", most_rows=800),
    "focused": Method("focused GP", "FocusedGPRegressor", "FocusedGPClassifier", takes_primary=True),
    "hierarchical": Method("hierarchical GP", "HierarchicalGPRegressor", "HierarchicalGPClassifier", most_rows=1500),
    "rbf": Method("RBF network", "MultiTaskRBFRegressor", None),
    "ivm": Method("informative vectors", "MultiTaskIVMRegressor", "MultiTaskIVMClassifier"),
}
LABELS = {key: method.label for key, method in METHODS.items()}


def estimator_name(kind: str, key: str) -> str:
    """Name of the estimator behind a method."""
    method = METHODS[key]
    name = method.regressor if kind == "regression" else method.classifier
    if name is None:
        raise ValueError(f"method {key!r} ({method.label}) is for regression only")
    return name


def build(
    kind: str, key: str, task: Any = None, primary: Any = None, random_state: Any = 0, alone: bool = False
) -> Any:
    """An estimator, not yet fitted; with `alone=True` that of no transfer fits the primary and no other task."""
    settings = {"primary": primary} if METHODS[key].takes_primary else {}
    if alone and key == "single":
        settings = {"only": primary}
    return getattr(borrow, estimator_name(kind, key))(task=task, random_state=random_state, **settings)


def key_of(model: Any) -> str | None:
    """The method that an estimator is; None where it is none of these."""
    names = {c.__name__ for c in type(model).__mro__}
    return next((key for key, m in METHODS.items() if names & {m.regressor, m.classifier}), None)


def choose(kind: str, rows: int, methods: Any) -> tuple[list[str], dict[str, str]]:
    """Methods to run, in order, and why others are left out; `rows` are those of all tasks with a target."""
    if not (isinstance(methods, str) and methods == "auto"):
        asked = check(kind, methods)
        return [key for key in METHODS if key in {"single", *asked}], {}
    skipped = {}
    for key, method in METHODS.items():
        if kind == "classification" and method.classifier is None:
            skipped[key] = "for regression only"
        elif rows > method.most_rows:
            skipped[key] = f"{rows:,} rows are many for one joint matrix; name it in methods= to run it all the same"
    return [key for key in METHODS if key not in skipped], skipped


def check(kind: str, methods: Any) -> Sequence[str]:
    """The keys asked for; names that are no methods, and methods that do not apply, are refused."""
    asked = [methods] if isinstance(methods, str) else list(methods)
    if unknown := [key for key in asked if key not in METHODS]:
        raise ValueError(f"methods names {list_labels(unknown)}; methods are {list_labels(list(METHODS))}, or 'auto'")
    for key in asked:
        estimator_name(kind, key)
    return asked
