"""Text columns: a column per level with a lengthscale each, or a kernel on categories?

    python benchmarks/studies/categories.py              # goes on where it stopped; minutes

A squared exponential over the 0/1 columns of one text column that share a lengthscale is the exchangeable kernel on
categories: exp(-1/l^2) between any two levels, 1 within one. So the two differ in how many lengthscales are learnt: one
per level (what `TableEncoder` and the default kernel give) or one per text column. Everything else is equal.

Four tables: Jura (cadmium by place, rock and land use), vowels (the first log area ratio of speakers by word and
frame), school scores (pupils of twelve schools by VR band, ethnic group, gender, year), and stays in hospitals
(simulated, tests/door). Each draw takes some rows for training; the rest is predicted, by a pooled and a focused GP.
Ratios are of the mean absolute error, differences of the log predictive density per row; the draws are paired.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

import borrow
from borrow.datasets.shared_data import find_shared
from borrow.kernels.stationary import SquaredExponential
from door.drive import hospitals
from results import by_draws, write_result


@dataclass(frozen=True, repr=False)
class Grouped(SquaredExponential):
    """A squared exponential whose columns share lengthscales by groups: `groups[j]` is the group of column j."""

    groups: tuple[int, ...] = field(default=(), kw_only=True)
    stackable: ClassVar[bool] = False

    def _columns(self, name: str, X: Any) -> Any:
        return np.asarray(self.lengthscale, dtype=float)[list(self.groups)]

    def _gather(self, **by_log: Any) -> Any:
        if len(by_log.get("lengthscale", ())) == len(self.groups):
            by_log["lengthscale"] = np.bincount(self.groups, by_log["lengthscale"])
        return super()._gather(**by_log)


class Case(NamedTuple):
    """A table, what is predicted, and how many of its rows are for training."""

    table: pl.DataFrame
    target: str
    task: str | None
    primary: str | None
    n_train: int


def cases() -> dict[str, Case]:
    jura = pl.read_csv(find_shared("jura/jura.csv")).select("x", "y", "rock", "landuse", "Cd")
    jura = jura.with_columns(rock="r" + pl.col("rock").cast(str), landuse="l" + pl.col("landuse").cast(str))
    vowel = pl.read_csv(find_shared("vowel/vowel.csv")).filter(pl.col("speaker") < 4)
    vowel = vowel.select("speaker", "frame", "vowel_word", "x0").with_columns(speaker="s" + pl.col("speaker").cast(str))
    school = pl.read_csv(find_shared("school/school_raw.csv.gz").read_bytes()).filter(pl.col("school") <= 12)
    texts = {n: n[0] + pl.col(n).cast(str) for n in ("vr_band", "ethnic", "year", "school")}
    school = school.select("school", "year", "gender", "vr_band", "ethnic", "score").with_columns(**texts)
    stays = hospitals(np.random.default_rng(0)).drop("patient")
    return {
        "Jura": Case(jura, "Cd", None, None, 150),
        "vowels": Case(vowel, "x0", "speaker", "s0", 90),
        "school": Case(school, "score", "school", "s1", 240),
        "hospitals": Case(stays, "days", "hospital", "North", 60),
    }


def encoded(case: Case) -> tuple[Any, Grouped]:
    """Inputs in numbers, plain ones scaled, and the kernel with one lengthscale per text column."""
    encoder = borrow.TableEncoder(case.task)
    X = encoder.fit_transform(case.table.drop(case.target))
    made = [(d, name) for d in encoder.columns_ for name in d.names if d.name != case.task]
    level = np.array([type(d).__name__ == "Levels" for d, _ in made])
    owner = [d.name if yes else name for (d, name), yes in zip(made, level, strict=True)]
    A = X.select([name for _, name in made]).to_numpy().astype(float)
    A /= np.where(level, 1.0, np.maximum(A.std(axis=0), 1e-12))
    groups = tuple(list(dict.fromkeys(owner)).index(name) for name in owner)
    start = np.sqrt(len(made)) * np.bincount(groups, A.std(axis=0)) / np.bincount(groups)
    return A, Grouped(1.0, tuple(start.tolist()), groups=groups)


def one(name: str, seed: int) -> list[dict[str, Any]]:
    """One draw: both ways, both models; a pooled model is also asked about the second school."""
    case = cases()[name]
    A, category = encoded(case)
    y = case.table[case.target].to_numpy().astype(float)
    tasks = np.array(["all"] * len(y) if case.task is None else case.table[case.task].to_list())
    at = np.random.default_rng(seed).permutation(len(y))[: case.n_train + 400]
    train, test = at[: case.n_train], at[case.n_train :]
    out = []
    for model_name in ("pooled", "focused") if case.task is not None else ("pooled",):
        asked = {"all", case.primary, *(["s2"] if (name, model_name) == ("school", "pooled") else [])}
        keep = test[np.isin(tasks[test], [t for t in asked if t is not None])]
        for way, kernel in (("per level", None), ("per column", category)):
            model = (
                borrow.PooledGPRegressor(kernel=kernel)
                if model_name == "pooled"
                else borrow.FocusedGPRegressor(primary=case.primary, kernel=kernel, n_restarts=0)
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(A[train], y[train], tasks=tasks[train])
                mean, std = model.predict(A[keep], tasks=tasks[keep], return_std=True, include_noise=True)
            e = y[keep] - mean
            density = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * (e / std) ** 2
            found = {"error": float(np.abs(e).mean()), "density": float(density.mean()), "rows": len(keep)}
            out.append({"table": name, "seed": seed, "model": model_name, "way": way, **found})
    return out


def summary(done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Paired over draws: the ratio of errors and the difference of densities, with their standard errors."""
    rows = []
    for name, model in dict.fromkeys((r["table"], r["model"]) for r in done):
        mine = [r for r in done if (r["table"], r["model"]) == (name, model)]
        level, column = ([r for r in mine if r["way"] == way] for way in ("per level", "per column"))
        pairs = list(zip(level, column, strict=True))
        ratio = np.log([b["error"] / a["error"] for a, b in pairs])
        gain = np.array([b["density"] - a["density"] for a, b in pairs])
        found = {"error per level": np.mean([a["error"] for a in level]), "ratio": np.exp(ratio.mean())}
        found |= {"ratio error": ratio.std(ddof=1) / np.sqrt(len(pairs)), "gain": gain.mean()}
        found |= {"gain error": gain.std(ddof=1) / np.sqrt(len(pairs))}
        rows.append({"table": name, "model": model, "draws": len(pairs), **{k: float(v) for k, v in found.items()}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10)
    chosen = parser.parse_args()
    records = by_draws("categories", cases(), chosen.draws, one)
    write_result("categories", {"seeds": list(range(chosen.draws)), "rows": summary(records)}, records)


if __name__ == "__main__":
    main()
