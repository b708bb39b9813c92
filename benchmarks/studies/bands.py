"""Do 90 % bands cover 90 %, do 95 % intervals of relations hold 95 %, and what do labels lose?

    python benchmarks/studies/bands.py [--draws 40] [--parts bands labels relations tried doubt] [--minutes 5]

bands       The primary has 6, 10, 20 or 50 rows. It is drawn from the model (a GP with a random lengthscale, in one
            column or in three, and random noise), or is a step, which no smooth kernel fits. Two secondaries of 30
            rows carry its function in part, beside one of their own ("model", "step"), are the same function ("same",
            the model of pooling), or have nothing in common but the kernel ("independent", the model of the IVM and of
            the hierarchical GP). New inputs of the primary and of a secondary are asked: whether the function lies in
            its band (mean +- 1.645 standard deviations), whether a new observation does, and its mean log density.
labels      The same functions in one column, labels by their sign with noise: log loss and share of right labels.
relations   Two functions of lengthscale 1 on [0, 6], 10 or 30 rows of each, noise 0.1, correlation 0.8 or 0: whether
            the interval of the correlation holds it, whether rho lies within 1.96 standard errors (draws in which the
            relation was kept and the primary has no part of its own), and how often zero is outside of the interval.
tried       What counts what in the band (`TRIED`): no transfer in three columns with 6 rows, on other draws (from seed
            1000 on); four draws for each of the others, as these fits cost little.
doubt       What if the band counted that a relation may not be real (`DOUBTS`)? The prediction of no transfer is mixed
            in by the odds of the relation, whole or for the width of the band alone; on draws from seed 2000 on.

Every fit is a record, with its seed and the commit that made it, in docs/results/bands.jsonl; a run goes on where it
stopped, and `--minutes` stops it. The summary is docs/results/bands.json. Public names only.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import expit
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import borrow
from borrow.inference import hyper_uncertainty
from borrow.kernels import SquaredExponential
from results import RESULTS, Records, write_result

ROWS = (6, 10, 20, 50)
FAMILIES = ("model, 1 column", "model, 3 columns", "step", "same", "independent")
REGRESSORS = {
    "no transfer": lambda: borrow.SingleTaskGPRegressor(),
    "pooled": lambda: borrow.PooledGPRegressor(),
    "focused": lambda: borrow.FocusedGPRegressor(primary="primary"),
    "symmetric": lambda: borrow.MultiTaskGPRegressor(),
    "hierarchical": lambda: borrow.HierarchicalGPRegressor(),
    "IVM": lambda: borrow.MultiTaskIVMRegressor(),
    "RBF network": lambda: borrow.MultiTaskRBFRegressor(),
}
CLASSIFIERS = {
    "no transfer": lambda: borrow.SingleTaskGPClassifier(),
    "pooled": lambda: borrow.PooledGPClassifier(),
    "focused": lambda: borrow.FocusedGPClassifier(primary="primary"),
    "symmetric": lambda: borrow.MultiTaskGPClassifier(),
}
#: Which methods are asked of which family: those whose model it is, and all of related functions in one column.
ASKED = {
    "model, 1 column": list(REGRESSORS),
    "model, 3 columns": ["no transfer", "focused", "symmetric"],
    "step": ["no transfer", "focused", "symmetric"],
    "same": ["pooled"],
    "independent": ["hierarchical", "IVM", "RBF network"],
}
#: Constants of `borrow.inference.hyper_uncertainty` that are other than they are, and settings of no transfer.
KNOWN: dict[str, float] = {"LEVEL": 1e-9}
TRIED: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "hyper-parameters alone, 16 points": (KNOWN, {}),
    "120 points": ({**KNOWN, "PAIRS": 30}, {}),
    "120 points, spread by a third more": ({**KNOWN, "PAIRS": 30, "WIDER": 2.0}, {}),
    "no direction taken to be better known than a curvature of 0.1 (now 0.3) leaves it": (
        {**KNOWN, "LEAST_CURVATURE": 0.1},
        {},
    ),
    "level integrated out, variance 0.3 of the targets'": ({"LEVEL": 0.3}, {}),
    "level integrated out, variance 1 (as it is)": ({}, {}),
    "level integrated out, variance 10": ({"LEVEL": 10.0}, {}),
    "level known to be zero, as it is in these draws (`normalize_y=False`)": ({}, {"normalize_y": False}),
}
TRIED_FROM, TRIED_DRAWS = 1000, 4  # the first seed; draws for each of the other parts
#: By name: the power that is taken of the evidence of a relation, and whether predictions are averaged as well.
DOUBTS: dict[str, tuple[float, bool]] = {
    "as it is": (np.inf, False),
    "widened by no transfer, by the odds": (1.0, False),
    "widened, by the odds to the power 0.4": (0.4, False),
    "widened, by the odds to the power 0.22": (0.22, False),
    "averaged with no transfer, by the odds to the power 0.22": (0.22, True),
}
DOUBTS_FROM, DOUBTED = 2000, ("focused", "symmetric")
NINETY, CORRELATION = float(norm.ppf(0.95)), 0.8
RELATION_ROWS, NEW = (10, 30), 60


def draw(family: str, rows: int, seed: int) -> dict[str, Any]:
    """Rows of three tasks, and new rows of the primary and of a secondary with the functions' values and noisy ones."""
    rng = np.random.default_rng([FAMILIES.index(family), rows, seed])
    d, sizes = (3 if family == "model, 3 columns" else 1), (rows, 30, 30, NEW)
    X = rng.uniform(-4.0, 4.0, (sum(sizes), d))
    ends = np.cumsum(sizes)[:-1]
    lengthscale = 0.0

    def function() -> Any:
        own = np.exp(rng.normal(0.0, 0.5)) * (1.5 if d == 1 else 3.0)
        own = lengthscale if lengthscale and family == "independent" else own
        K = SquaredExponential(1.0, own)(X) + 1e-9 * np.eye(len(X))
        return np.linalg.cholesky(K) @ rng.normal(size=len(X))

    lengthscale = np.exp(rng.normal(0.0, 0.5)) * 1.5
    f = np.where(X[:, 0] > rng.uniform(-2.0, 2.0), 1.0, -1.0) if family == "step" else function()
    noise = 0.1 if family == "step" else np.exp(rng.normal(np.log(0.2), 0.7))
    if family == "same":
        others = [f, f]
    elif family == "independent":
        others = [function(), function()]
    else:
        others = [rng.choice([-1.0, 1.0]) * f + 0.5 * function() for _ in range(2)]
    of = [f, *others]
    task = np.repeat([0, 1, 2], sizes[:3])
    truth = np.choose(task, [v[: ends[2]] for v in of])
    new = slice(ends[2], None)
    return {
        "X": X[: ends[2]],
        "y": truth + noise * rng.normal(size=len(truth)),
        "task": np.array(["primary", "a", "b"])[task],
        "new": X[new],
        "f": f[new],
        "observed": f[new] + noise * rng.normal(size=NEW),
        "f of a": others[0][new],
    }


def fitted(build: Any, d: dict[str, Any], y: Any, alone: bool) -> Any:
    """A fit to all rows, or to the primary's; few rows call for the same warnings many times."""
    mine = d["task"] == "primary" if alone else np.full(len(y), True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build().fit(d["X"][mine], y[mine], tasks=d["task"][mine])


def band_of(model: Any, d: dict[str, Any]) -> dict[str, float]:
    """Coverage, density and error at the primary's new inputs."""
    asked = {"tasks": np.full(NEW, "primary"), "return_std": True}
    mean, std = model.predict(d["new"], **asked)
    wide = model.predict(d["new"], **asked, include_noise=True)[1]
    return {
        "function covered": float(np.mean(np.abs(d["f"] - mean) < NINETY * std)),
        "observation covered": float(np.mean(np.abs(d["observed"] - mean) < NINETY * wide)),
        "log density": float(np.mean(norm.logpdf(d["observed"], mean, wide))),
        "error": float(np.sqrt(np.mean((d["f"] - mean) ** 2))),
        "deviation of the function": float(np.mean(std)),
    }


def one_band(family: str, rows: int, method: str, seed: int) -> dict[str, float]:
    """Coverage and density of one method on one draw."""
    d = draw(family, rows, seed)
    model = fitted(REGRESSORS[method], d, d["y"], method == "no transfer")
    found = band_of(model, d)
    if method != "no transfer":
        mean, std = model.predict(d["new"], tasks=np.full(NEW, "a"), return_std=True)
        found["function of a secondary covered"] = float(np.mean(np.abs(d["f of a"] - mean) < NINETY * std))
    return found


def one_tried(family: str, rows: int, name: str, seed: int) -> dict[str, float]:
    """The band of no transfer with other constants."""
    constants, settings = TRIED[name]
    d = draw(family, rows, seed)
    with ExitStack() as stack:
        for constant, value in constants.items():
            stack.enter_context(patch.object(hyper_uncertainty, constant, value))
        model = fitted(lambda: borrow.SingleTaskGPRegressor(**settings), d, d["y"], alone=True)
        return band_of(model, d)


@lru_cache(maxsize=1)
def with_and_without(family: str, rows: int, method: str, seed: int) -> tuple[Any, ...]:
    """A draw, the evidence of the primary's relations, noise, and what is predicted with the others and without."""
    d = draw(family, rows, seed)
    model = fitted(REGRESSORS[method], d, d["y"], False)
    alone = fitted(REGRESSORS["no transfer"], d, d["y"], True)
    each = [m.predict(d["new"], tasks=np.full(NEW, "primary"), return_std=True) for m in (model, alone)]
    return d, float(model.evidence_of_relations("primary")), float(model.noise_["primary"]), *each


def one_doubt(family: str, rows: int, name: str, seed: int) -> dict[str, float]:
    """The band of a method that relates tasks, by how probable it is that nothing is related."""
    method, way = name.split(": ")
    power, mean_too = DOUBTS[way]
    d, evidence, noise, (mean, sd), (other, other_sd) = with_and_without(family, rows, method, seed)
    p = 0.0 if evidence <= 0.0 else float(expit(-power * evidence))  # without evidence it is no transfer already
    center = (1.0 - p) * mean + p * other if mean_too else mean
    second = (1.0 - p) * (sd**2 + (mean - center) ** 2) + p * (other_sd**2 + (other - center) ** 2)
    wide = np.sqrt(second + noise)
    return {
        "function covered": float(np.mean(np.abs(d["f"] - center) < NINETY * np.sqrt(second))),
        "log density": float(np.mean(norm.logpdf(d["observed"], center, wide))),
        "error": float(np.sqrt(np.mean((d["f"] - center) ** 2))),
    }


def one_labelling(family: str, rows: int, method: str, seed: int) -> dict[str, float]:
    """Log loss of one method on one draw."""
    d = draw(family, rows, seed)
    middle = float(np.median(d["y"][d["task"] == "primary"]))  # so that no class is missing
    model = fitted(CLASSIFIERS[method], d, np.where(d["y"] > middle, 1, 0), method == "no transfer")
    p = model.predict_proba(d["new"], tasks=np.full(NEW, "primary"))[:, 1]
    yes = d["observed"] > middle
    loss = -np.mean(np.log(np.clip(np.where(yes, p, 1.0 - p), 1e-9, 1.0)))
    return {"log loss": float(loss), "right": float(np.mean((p > 0.5) == yes))}


def one_relation(family: str, rows: int, method: str, seed: int) -> dict[str, float]:
    """The interval of one relation."""
    c = CORRELATION if family == "related" else 0.0
    rng = np.random.default_rng([seed, rows, int(10 * c)])
    X = rng.uniform(0.0, 6.0, (2 * rows, 1))
    L = np.linalg.cholesky(SquaredExponential(1.0, 1.0)(X) + 1e-8 * np.eye(2 * rows))
    f, g = (L @ rng.normal(size=2 * rows) for _ in range(2))
    task = np.repeat(["primary", "a"], rows)
    y = np.where(task == "primary", f, c * f + np.sqrt(1.0 - c * c) * g) + 0.1 * rng.normal(size=2 * rows)
    build = lambda: borrow.FocusedGPRegressor(primary="primary", normalize_y=False)  # noqa: E731
    model = fitted(build, {"X": X, "task": task}, y, False)
    row = model.relatedness().rows()[1]
    found = {
        "correlation held": float(row["low"] <= c <= row["high"]),
        "clear": float(row["low"] > 0.0 or row["high"] < 0.0),
        "dropped": float(row["rho"] == 0.0),
        "width": float(row["high"] - row["low"]),
    }
    if row["rho"] != 0.0 and "primary" not in model.specific_kernels_ and c:
        found["rho held"] = float(abs(row["rho"] - c) <= 1.96 * row["std_error"])
    return found


def jobs(parts: list[str], draws: int) -> list[tuple[Any, ...]]:
    """What is to be measured, draw by draw, so that a run that is stopped has a few draws of everything."""
    ways = [f"{method}: {way}" for method in DOUBTED for way in DOUBTS]
    kinds: dict[str, tuple[Any, list[tuple[str, int, str]]]] = {
        "bands": (one_band, [(f, n, m) for f in FAMILIES for n in ROWS for m in ASKED[f]]),
        "labels": (one_labelling, [("model, 1 column", n, m) for n in (10, 20, 50) for m in CLASSIFIERS]),
        "relations": (one_relation, [(f, n, "focused") for f in ("related", "unrelated") for n in RELATION_ROWS]),
        "tried": (one_tried, [("model, 3 columns", 6, name) for name in TRIED]),
        "doubt": (one_doubt, [(f, n, w) for f in FAMILIES[:3] for n in ROWS for w in ways]),
    }
    seeds = {p: [[s] for s in range(draws)] for p in kinds}
    seeds["tried"] = [[TRIED_FROM + TRIED_DRAWS * s + i for i in range(TRIED_DRAWS)] for s in range(draws)]
    seeds["doubt"] = [[DOUBTS_FROM + s] for s in range(draws)]
    return [(p, kinds[p][0], *c, s) for i in range(draws) for p in parts for c in kinds[p][1] for s in seeds[p][i]]


def summary(records: Any) -> dict[str, Any]:
    """Means over draws, by part, family, method and rows."""
    cells: dict[tuple[Any, ...], list[dict[str, float]]] = defaultdict(list)
    for r in records:
        cells[r["part"], r["family"], r["method"], str(r["rows"])].append(r["figures"])
    table: dict[str, Any] = {}
    for (part, family, method, rows), each in sorted(cells.items()):
        line: dict[str, Any] = {"draws": len(each)}
        for name in dict.fromkeys(n for e in each for n in e):
            line[name] = round(float(np.mean([e[name] for e in each if name in e])), 3)
        table.setdefault(part, {}).setdefault(family, {}).setdefault(method, {})[rows] = line
    return table


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--parts", nargs="+", default=["bands", "labels", "relations", "tried", "doubt"])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--fresh", action="store_true", help="forget the records that are there")
    given = parser.parse_args(arguments)
    records, started = Records(RESULTS / "bands.jsonl", given.fresh), time.monotonic()
    done = {(r["part"], r["family"], r["rows"], r["method"], r["seed"]) for r in records}
    for part, measure, family, rows, method, seed in jobs(given.parts, given.draws):
        if (part, family, rows, method, seed) in done:
            continue
        if time.monotonic() - started > 60.0 * given.minutes:
            break
        figures = {n: round(v, 4) for n, v in measure(family, rows, method, seed).items()}
        records.add({"part": part, "family": family, "rows": rows, "method": method, "seed": seed, "figures": figures})
    table = summary(records)
    seeds: dict[str, list[int]] = defaultdict(list)
    for r in records:
        seeds[r["part"] if r["part"] in ("tried", "doubt") else "the others"].append(r["seed"])
    spans = [f"{part} {min(found)} to {max(found)}" for part, found in sorted(seeds.items(), reverse=True)]
    write_result("bands", {"seeds": "; ".join(spans), "table": table}, records)
    return table


if __name__ == "__main__":
    main()
