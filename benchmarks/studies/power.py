"""Does the verdict see what is there, does it cry wolf, and how good is what `Auto*` predicts? Simulated comparisons.

    python benchmarks/studies/power.py [--draws 100] [--seeds fresh] [--cells NAME ...] [--small]

A cell is a family of tables and a number of rows of the primary.

regression      one input over 12 to 20 lengthscales, noise 0.1, one secondary of 40 rows at its own level and scale, whose
                function has correlation 0, 0.3, 0.6 or 0.9 with the primary's; 6, 10, 20 or 50 rows of the primary
labels          two inputs over four lengthscales, labels by the sign of the function with noise; one secondary of 80 rows,
                correlation 0 or 0.9; 20 or 50 rows
stress          nothing in common, 10 or 30 rows, each with one thing that makes intervals too narrow or a null no null:
                heavy tails (noise of Student's t with two degrees of freedom), heteroscedastic (noise that grows
                along the input tenfold), clustered (rows in clusters of about four, with a deviation of their own for
                each cluster), same trend (the functions differ, and share a linear trend), same smoothness (two inputs and
                three secondaries: functions differ, and a shared kernel learns the smoothness)

For this training set, the truth is the error at all n rows on 2,000 fresh rows of the primary. "Right" is an answer of the
sign of the difference there between what `Auto*` predicts and no transfer.

Seeds: those of tuning and those of the final run are disjoint, `SEEDS`. The generator was committed before any rule was
tuned. Results of every draw are kept under out/ with the commit that fitted them, and a run goes on where it stopped.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from results import ROOT

SEEDS = {"fresh": range(10_000), "tuning": range(10_000, 20_000)}
N_TEST, NOISE, SECONDARY = 2000, 0.1, 40
CORRELATIONS, ROWS = (0.0, 0.3, 0.6, 0.9), (6, 10, 20, 50)
STRESS = ("heavy tails", "heteroscedastic", "clustered", "same trend", "same smoothness")
STORE = ROOT / "out" / "power.jsonl"


@dataclass(frozen=True)
class Cell:
    """A family of tables, and how many rows the primary has."""

    family: str
    correlation: float
    rows: int

    @property
    def name(self) -> str:
        """How results and the command line name it."""
        return f"{self.family}, {self.correlation:g}, {self.rows} rows"

    @property
    def kind(self) -> str:
        """What is predicted."""
        return "classification" if self.family == "labels" else "regression"

    @property
    def null(self) -> bool:
        """Whether the tasks have no function in common."""
        return self.correlation == 0.0


CELLS = [
    *(Cell("regression", c, n) for c in CORRELATIONS for n in ROWS),
    *(Cell("labels", c, n) for c in (0.0, 0.9) for n in (20, 50)),
    *(Cell(family, 0.0, n) for family in STRESS for n in (10, 30)),
]


def draw(cell: Cell, seed: int) -> dict[str, Any]:
    """A table to learn from, X, y and the task of every row, and 2,000 fresh rows of the primary."""
    rng = np.random.default_rng([CELLS.index(cell), seed])
    two = cell.family in ("labels", "same smoothness")
    width, secondaries = (4.0 if two else rng.uniform(12.0, 20.0)), 3 if cell.family == "same smoothness" else 1
    m = 80 if cell.family == "labels" else SECONDARY
    n = cell.rows
    X = rng.uniform(0.0, width, (n + secondaries * m + N_TEST, 2 if two else 1))
    if cell.family == "clustered":
        centre = rng.uniform(0.0, width, (max(n // 4, 2), 1))
        group = rng.integers(len(centre), size=n)
        X[:n] = centre[group] + 0.1 * rng.normal(size=(n, 1))
    f, *others = (smooth(rng, X.shape[1])(X) for _ in range(1 + secondaries))
    g = [cell.correlation * f + np.sqrt(1.0 - cell.correlation**2) * h for h in others]
    if cell.family == "same trend":
        slope = 2.0 * (X[:, 0] / width - 0.5) * np.sqrt(3.0)  # of variance one
        f, g = (f + slope) / np.sqrt(2.0), [(h + slope) / np.sqrt(2.0) for h in g]
    new = slice(n + secondaries * m, None)
    y, task = [f[:n] + noise(cell, rng, X[:n], width)], ["primary"] * n
    if cell.family == "clustered":
        y[0] = y[0] + 0.5 * rng.normal(size=len(centre))[group]
    for k, h in enumerate(g):
        at = slice(n + k * m, n + (k + 1) * m)
        own = h[at] + noise(cell, rng, X[at], width)
        y.append(own if cell.family == "labels" else rng.normal() + rng.uniform(0.5, 2.0) * own)
        task += [f"secondary {k + 1}"] * m
    target, fresh = np.concatenate(y), f[new] + noise(cell, rng, X[new], width)
    if cell.family == "labels":
        middle = np.median(f[:n])  # so that no class is missing
        target, fresh = (np.where(v > middle, "yes", "no") for v in (target, fresh))
    return {"X": X[: new.start], "y": target, "task": task, "X_test": X[new], "y_test": fresh}


def noise(cell: Cell, rng: np.random.Generator, X: Any, width: float) -> Any:
    """What is added to the function, of about the standard deviation 0.1."""
    if cell.family == "heavy tails":
        return NOISE * rng.standard_t(2, size=len(X))
    if cell.family == "heteroscedastic":
        return NOISE * 0.3 * 10.0 ** (X[:, 0] / width) * rng.normal(size=len(X))
    return (0.5 if cell.family == "labels" else NOISE) * rng.normal(size=len(X))


def smooth(rng: np.random.Generator, inputs: int, waves: int = 400) -> Any:
    """A draw from a Gaussian process of variance one and lengthscale one, by random Fourier features."""
    W, phase = rng.normal(size=(inputs, waves)), rng.uniform(0.0, 2.0 * np.pi, waves)
    size = rng.normal(size=waves) * np.sqrt(2.0 / waves)
    return lambda X: np.cos(X @ W + phase) @ size


def load(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Draws that are there already, by cell and seed."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            d = json.loads(line)
        except ValueError:
            continue  # torn when the run was stopped
        found[d["cell"], d["seed"]] = d
    return found
