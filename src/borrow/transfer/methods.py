"""The one place that says which estimator a method is, and where each applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import borrow
from borrow.data.labels import list_labels
from borrow.transfer.problem import Problem

#: Methods in the order of every table, in words for people.
LABELS = {
    "single": "no transfer",
    "pooled": "pooled",
    "symmetric": "symmetric GP",
    "focused": "focused GP",
    "hierarchical": "hierarchical GP",
    "rbf": "RBF network",
    "ivm": "informative vectors",
}

#: (regression, classification); None where there is no such estimator.
ESTIMATORS: dict[str, tuple[str, str | None]] = {
    "single": ("SingleTaskGPRegressor", "SingleTaskGPClassifier"),
    "pooled": ("PooledGPRegressor", "PooledGPClassifier"),
    "symmetric": ("MultiTaskGPRegressor", "MultiTaskGPClassifier"),
    "focused": ("FocusedGPRegressor", "FocusedGPClassifier"),
    "hierarchical": ("HierarchicalGPRegressor", "HierarchicalGPClassifier"),
    "rbf": ("MultiTaskRBFRegressor", None),
    "ivm": ("MultiTaskIVMRegressor", "MultiTaskIVMClassifier"),
}

#: Above so many rows in all, "auto" leaves out what would take minutes a fold: one joint matrix of all rows.
MANY = {"symmetric": 800, "hierarchical": 1500}


def estimator_name(kind: str, key: str) -> str:
    """Name of the estimator behind a method."""
    name = ESTIMATORS[key][kind == "classification"]
    if name is None:
        raise ValueError(f"method {key!r} ({LABELS[key]}) is for regression only")
    return name


def build(kind: str, key: str, task: Any = None, primary: Any = None, random_state: Any = 0) -> Any:
    """An estimator, not yet fitted."""
    settings = {"primary": primary} if key == "focused" else {}
    return getattr(borrow, estimator_name(kind, key))(task=task, random_state=random_state, **settings)


def choose(problem: Problem, methods: Any) -> tuple[list[str], dict[str, str]]:
    """Methods to run, in order, and why others are left out."""
    if isinstance(methods, str) and methods == "auto":
        skipped = {}
        n = int(problem.seen.sum())
        for key in LABELS:
            if ESTIMATORS[key][problem.kind == "classification"] is None:
                skipped[key] = "for regression only"
            elif n > MANY.get(key, n):
                skipped[key] = f"{n:,} rows are many for one joint matrix; name it in methods= to run it all the same"
        return [key for key in LABELS if key not in skipped], skipped
    asked = [methods] if isinstance(methods, str) else list(methods)
    check(problem.kind, asked)
    return [key for key in LABELS if key in {"single", *asked}], {}


def check(kind: str, asked: Sequence[str]) -> None:
    """Refuse names that are no methods, and methods that do not apply."""
    if unknown := [key for key in asked if key not in LABELS]:
        raise ValueError(f"methods names {list_labels(unknown)}; methods are {list_labels(list(LABELS))}, or 'auto'")
    for key in asked:
        estimator_name(kind, key)
