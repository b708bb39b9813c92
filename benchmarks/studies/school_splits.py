"""What the studies of the school data share: splits, the paper's mode, reference methods, results that resume."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from results import ROOT, Records

#: The paper's settings: raw inputs and targets, width 20 and tuned, ridge 1e-6. It names no bounds of widths; these are
#: wide enough not to matter at the top, and a width of 0.5 is a spike on one kind of student.
PAPER: dict[str, Any] = {
    "width": 20.0,
    "ridge": 1e-6,
    "tune_width": (0.5, 200.0),
    "scale_inputs": False,
    "normalize_y": False,
    "candidates": "all",
}


def split(n: int, seed: int) -> tuple[Any, Any]:
    """Row numbers: 75 % to train on, 25 % to test on."""
    order = np.random.RandomState(seed).permutation(n)
    return order[: round(0.75 * n)], order[round(0.75 * n) :]


def mean_squared(y: Any, prediction: Any) -> float:
    return float(np.mean((y - prediction) ** 2))


def with_intercepts(X: Any, school: Any, labels: Any) -> Any:
    return np.hstack([X, (school[:, None] == labels).astype(float)])


def ridge_error(X: Any, y: Any, train: Any, test: Any) -> float:
    """Ridge with its penalty by leave-one-out, on the columns given."""
    model = RidgeCV(np.logspace(-2, 3, 11)).fit(X[train], y[train])
    return mean_squared(y[test], model.predict(X[test]))


class Store:
    """Results by key, each a record under out/ with its commit, so that a study goes on where it stopped."""

    def __init__(self, name: str, fresh: bool) -> None:
        self.records = Records(ROOT / "out" / f"{name}.jsonl", fresh)
        self.found: dict[str, Any] = {r["key"]: r["value"] for r in self.records}

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        if key not in self.found:
            self.found[key] = self.records.add({"key": key, "value": compute()})["value"]
            sys.stderr.write(f"{key}: {self.found[key]}\n")
        return self.found[key]
