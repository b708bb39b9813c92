"""Gaps in number columns: the median and a mark, a guess from the other columns, or an average over guesses?

    python benchmarks/studies/gaps.py              # goes on where it stopped; minutes

Three tables: Jura (cadmium by place and six other metals, which go together), diabetes (scikit-learn's, ten columns,
some of which go together) and stays in hospitals (simulated, tests/door; columns that have nothing to do with each
other). A fifth of every column of numbers is deleted at random, in the rows for training and in those to predict:

- median: what `TableEncoder` does, and a column that marks the gaps;
- regression: a Bayesian ridge regression on the other columns, in turns (scikit-learn's IterativeImputer), with marks;
- guesses: five draws of what may have stood there, by the same regression with its scatter, a GP for each, and their
  mixture: what integrating over the gaps comes to.

Ratios are of the mean absolute error, differences of the log predictive density per row; the draws are paired.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import logsumexp
from sklearn.datasets import load_diabetes
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

import borrow
from borrow.datasets.shared_data import find_shared
from door.drive import hospitals
from results import by_draws, write_result

SHARE, N_TRAIN, N_TEST, GUESSES = 0.2, 120, 300, 5


def cases() -> dict[str, tuple[Any, Any, Any]]:
    """Inputs, target, and which inputs are columns of numbers that may have gaps."""
    jura = pl.read_csv(find_shared("jura/jura.csv")).select("x", "y", "Co", "Cr", "Cu", "Ni", "Pb", "Zn", "Cd")
    A = jura.to_numpy()
    A = np.column_stack([A[:, :2], np.log(A[:, 2:])])
    X, y = load_diabetes(return_X_y=True)
    rng = np.random.default_rng(0)
    stays = pl.concat([hospitals(rng) for _ in range(5)]).drop_nulls()
    ward = np.column_stack([(stays["ward"] == w).to_numpy() for w in ("heart", "lung", "bone")])
    days = stays["admitted"].str.to_date().dt.epoch("d").to_numpy()
    turn = 2 * np.pi * days / 365.2425
    plain = np.column_stack([stays["age"].to_numpy(), days - days.min(), np.sin(turn), np.cos(turn)])
    B = np.column_stack([plain, ward, stays["hospital"].to_dummies().to_numpy()]).astype(float)
    return {
        "Jura": (A[:, :-1], A[:, -1], range(2, 8)),
        "diabetes": (X, y, [j for j in range(10) if j != 1]),
        "hospitals": (B, stays["days"].to_numpy(), [0]),
    }


def filled(way: str, X: Any, train: Any, gaps: Any, seed: int) -> Iterator[Any]:
    """Tables without gaps, each with the columns that mark them."""
    holes = np.where(gaps, np.nan, X)
    marks = gaps[:, gaps.any(axis=0)].astype(float)
    if way == "median":
        yield np.column_stack([np.where(gaps, np.nanmedian(holes[train], axis=0), X), marks])
        return
    for guess in range(GUESSES if way == "guesses" else 1):
        imputer = IterativeImputer(sample_posterior=way == "guesses", random_state=100 * seed + guess, max_iter=10)
        yield np.column_stack([imputer.fit(holes[train]).transform(holes), marks])


def one(name: str, seed: int) -> list[dict[str, Any]]:
    """One draw, every way."""
    X, y, may = cases()[name]
    rng = np.random.default_rng(seed)
    gaps = np.zeros(X.shape, dtype=bool)
    gaps[:, list(may)] = rng.random((len(X), len(may))) < SHARE
    at = rng.permutation(len(y))[: N_TRAIN + N_TEST]
    train, test = at[:N_TRAIN], at[N_TRAIN:]
    out = []
    for way in ("median", "regression", "guesses"):
        start, means, densities = time.process_time(), [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for A in filled(way, X, train, gaps, seed):
                model = borrow.SingleTaskGPRegressor().fit(A[train], y[train])
                mean, std = model.predict(A[test], return_std=True, include_noise=True)
                means.append(mean)
                densities.append(-0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((y[test] - mean) / std) ** 2)
        density = logsumexp(densities, axis=0) - np.log(len(densities))
        found = {"error": float(np.abs(y[test] - np.mean(means, axis=0)).mean()), "density": float(density.mean())}
        out.append({"table": name, "seed": seed, "way": way, **found, "seconds": time.process_time() - start})
    return out


def summary(done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Paired over draws, against the median: ratio of errors, difference of densities, ratio of processor time."""
    rows = []
    for name, way in dict.fromkeys((r["table"], r["way"]) for r in done if r["way"] != "median"):
        a, b = ([r for r in done if (r["table"], r["way"]) == (name, w)] for w in ("median", way))
        ratio = np.log([q["error"] / p["error"] for p, q in zip(a, b, strict=True)])
        gain = np.array([q["density"] - p["density"] for p, q in zip(a, b, strict=True)])
        found = {"error median": np.mean([p["error"] for p in a]), "ratio": np.exp(ratio.mean())}
        found |= {"ratio error": ratio.std(ddof=1) / np.sqrt(len(a)), "gain": gain.mean()}
        found |= {"gain error": gain.std(ddof=1) / np.sqrt(len(a))}
        found |= {"time": np.median([q["seconds"] / p["seconds"] for p, q in zip(a, b, strict=True)])}
        rows.append({"table": name, "way": way, "draws": len(a), **{k: float(v) for k, v in found.items()}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10)
    chosen = parser.parse_args()
    records = by_draws("gaps", cases(), chosen.draws, one)
    write_result("gaps", {"seeds": list(range(chosen.draws)), "rows": summary(records)}, records)


if __name__ == "__main__":
    main()
