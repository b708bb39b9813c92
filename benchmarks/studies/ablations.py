"""Defaults that the papers do not have: each of them switched on and off, on data that did not choose it.

    python benchmarks/studies/ablations.py [--draws 3] [--only NAME ...] [--minutes 5] [--report]

`ABLATIONS` is the whole plan: a default, the settings with it and without it (`MODELS`), what it was chosen on, and at
least three data sets that had no part in that. Draws are those of `scenarios.py`, from seeds 0, 1, ...; both settings
see the same draws. Of numbers: root mean squared error of the asked rows, mean log density of their targets, and the
share of them in the 90 % band with noise; of labels: log loss in place of the error. "Halves" are labels made of
numbers, above or below the median of their task. Every fit is a record in out/ablations.jsonl with its commit and seed
and is not repeated; a fit that several ablations need is made once. `--minutes` begins no fit after so many, `--report`
makes none; a row rests on the draws that have both settings, and says how many. Writes docs/results/ablations.json,
where rows that were not made again stay, with the commits of their fits.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.stats import norm
from sklearn.metrics import log_loss

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from scenarios import SCENARIOS, Draw

import borrow
from borrow.data.scaling import column_scales
from borrow.estimators.classifier import EPClassifier
from borrow.inference import hyper_uncertainty
from borrow.kernels import Linear, SquaredExponential
from borrow.models.focused import model as focused_model
from borrow.models.focused import relations
from borrow.models.gp import model as gp_model
from results import ROOT, Records, commits_of, with_earlier, write_result

NINETY = float(norm.ppf(0.95))


@dataclass(frozen=True)
class Model:
    """An estimator with its settings, and constants of the source that are other than they are."""

    estimator: Any
    settings: dict[str, Any] = field(default_factory=dict)
    constants: tuple[tuple[Any, str, Any], ...] = ()

    def words(self) -> str:
        """Its settings, as the record has them."""
        changed = {f"{module.__name__.removeprefix('borrow.')}.{name}": v for module, name, v in self.constants}
        shown = {k: v.__doc__ if callable(v) else v for k, v in {**self.settings, **changed}.items()}
        return ", ".join(f"{k}={v}" for k, v in shown.items()) or "defaults"


def with_linear_part(X: Any) -> Any:
    """the default kernel plus a linear one in the same scales"""
    scales = column_scales(np.asarray(X, dtype=float), np.ones(len(X)))
    start = scales * np.sqrt(len(scales))
    return SquaredExponential(1.0, tuple(start.tolist())) + Linear(float(1.0 / np.sum(start**2)))


def centred_at_zero(estimator: EPClassifier, original: Any = EPClassifier._inference) -> Any:
    """log variances of kernels centred at 0"""
    return replace(original(estimator), log_variance=0.0)


def halves(scenario: str) -> Callable[[int], Draw]:
    """The numbers of a scenario as labels: above the median of their task, or not."""

    def draw(seed: int) -> Draw:
        d = SCENARIOS[scenario](seed)
        middle = {t: np.median(d.y[d.task == t]) for t in set(d.task.tolist())}
        above = [y > np.array([middle[t] for t in of]) for y, of in ((d.y, d.task), (d.y_test, d.task_test))]
        return replace(d, kind="classification", y=above[0].astype(int), y_test=above[1].astype(int))

    return draw


FOCUSED_LABELS = borrow.FocusedGPClassifier
FOCUSED, SYMMETRIC, ONE_KERNEL = borrow.FocusedGPRegressor, borrow.MultiTaskGPRegressor, {"specific_kernel": None}
POINT = ((gp_model, "MOST_ROWS", 0), (focused_model, "MOST_ROWS", 0))  # hyper-parameters taken as known
MODELS: dict[str, Model] = {
    "focused": Model(FOCUSED),
    "focused, no price of a relation": Model(FOCUSED, {}, ((relations, "RELATION_COST", 0.0),)),
    "focused, no prior on w": Model(FOCUSED, {"rho_prior": None}),
    "focused, known hyper-parameters": Model(FOCUSED, {}, POINT),
    "single": Model(borrow.SingleTaskGPRegressor),
    "single, known hyper-parameters": Model(borrow.SingleTaskGPRegressor, {}, POINT),
    "single, known level": Model(borrow.SingleTaskGPRegressor, {}, ((hyper_uncertainty, "LEVEL", 1e-9),)),
    "single, linear part": Model(borrow.SingleTaskGPRegressor, {"kernel": with_linear_part}),
    "single, labels": Model(borrow.SingleTaskGPClassifier),
    "single, labels, log variance around 0": Model(
        borrow.SingleTaskGPClassifier, {}, ((EPClassifier, "_inference", centred_at_zero),)
    ),
    "focused, labels": Model(FOCUSED_LABELS),
    "focused, labels, N(0, 1) on w": Model(FOCUSED_LABELS, {"rho_prior": 1.0}),
    "focused, labels, never averaged": Model(FOCUSED_LABELS, {}, ((relations, "LOG_ODDS", float("inf")),)),
    "symmetric": Model(SYMMETRIC),
    "free form": Model(SYMMETRIC, ONE_KERNEL),
    "free form, no prior on K^f": Model(SYMMETRIC, {**ONE_KERNEL, "task_prior": None}),
    "rank 1": Model(SYMMETRIC, {"rank": 1}),
    "rank 1, no prior on loadings": Model(SYMMETRIC, {"rank": 1, "task_prior": None}),
    "network": Model(borrow.MultiTaskRBFRegressor),
    "network, one level": Model(borrow.MultiTaskRBFRegressor, {"design": "multi-task"}),
    "hierarchical": Model(borrow.HierarchicalGPRegressor),
    "hierarchical, plain EM": Model(borrow.HierarchicalGPRegressor, {"covariance_strength": 1.0, "max_iter": 50}),
    "informative vectors": Model(borrow.MultiTaskIVMRegressor, {"n_active": 50}),
    "informative vectors, noise of the chosen": Model(
        borrow.MultiTaskIVMRegressor, {"n_active": 50, "noise_from": "active"}
    ),
}


@dataclass(frozen=True)
class Ablation:
    """A default, the models with it and without it, what it was chosen on, and the data on which it is judged."""

    default: str
    on: str
    off: str
    chosen_on: str
    scenarios: tuple[str, ...]


SPEAR, POLYBENCH, AIR = "SPEAR, 16 rows", "PolyBench, 16 rows", "air quality, random hours"
SCHOOL, COMPUTERS, JURA = "school, 10 students", "computers, 8 ratings", "jura, Cd at 100 places"
LANDMINE, SCHOOL_HALVES, AIR_HALVES = "landmine, 19 x 80", "school, 30 students, halves", f"{AIR}, halves"
SPEAR_HALVES, POLYBENCH_HALVES = f"{SPEAR}, halves", f"{POLYBENCH}, halves"
HALVES = {SCHOOL_HALVES: "school, 30 students", AIR_HALVES: AIR, SPEAR_HALVES: SPEAR, POLYBENCH_HALVES: POLYBENCH}
DRAWS = {**SCENARIOS, **{name: halves(scenario) for name, scenario in HALVES.items()}}
ABLATIONS = (
    Ablation(
        "labels: log variance of kernels around 2",
        "single, labels",
        "single, labels, log variance around 0",
        "EEG",
        (SCHOOL_HALVES, AIR_HALVES, LANDMINE),
    ),
    Ablation(
        "labels: N(0, e^2) on w, not N(0, 1)",
        "focused, labels",
        "focused, labels, N(0, 1) on w",
        "EEG",
        (SCHOOL_HALVES, SPEAR_HALVES, POLYBENCH_HALVES),
    ),
    Ablation(
        "labels: averaged with no transfer by the odds",
        "focused, labels",
        "focused, labels, never averaged",
        "EEG, landmine, generated functions",
        (SCHOOL_HALVES, SPEAR_HALVES, POLYBENCH_HALVES),
    ),
    Ablation(
        "a relation must add 1.5 nats",
        "focused",
        "focused, no price of a relation",
        "generated functions of one column",
        (SCHOOL, SPEAR, AIR, POLYBENCH),
    ),
    Ablation(
        "N(0, 1) on w",
        "focused",
        "focused, no prior on w",
        "generated functions, EEG",
        (SCHOOL, SPEAR, AIR, POLYBENCH),
    ),
    Ablation(
        "bands count the hyper-parameters (focused)",
        "focused",
        "focused, known hyper-parameters",
        "generated functions",
        (SCHOOL, SPEAR, AIR, POLYBENCH),
    ),
    Ablation(
        "bands count the hyper-parameters (no transfer)",
        "single",
        "single, known hyper-parameters",
        "generated functions",
        (SCHOOL, SPEAR, AIR, POLYBENCH),
    ),
    Ablation(
        "bands count the level (no transfer)",
        "single",
        "single, known level",
        "generated functions",
        (SCHOOL, SPEAR, AIR, POLYBENCH),
    ),
    Ablation(
        "no linear part in the kernel", "single", "single, linear part", "generated functions", (SCHOOL, SPEAR, AIR)
    ),
    Ablation(
        "inverse Wishart on K^f, strength M",
        "free form",
        "free form, no prior on K^f",
        "compiler data, SPEAR, schools",
        (POLYBENCH, AIR, JURA),
    ),
    Ablation(
        "which tasks share, by evidence",
        "symmetric",
        "free form",
        "generated functions, compiler data",
        (SCHOOL, SPEAR, AIR, POLYBENCH),
    ),
    Ablation("exchangeable loadings", "rank 1", "rank 1, no prior on loadings", "schools", (COMPUTERS, SPEAR, AIR)),
    Ablation("two levels of RBF units", "network", "network, one level", "schools", (COMPUTERS, SPEAR, AIR)),
    Ablation(
        "grid of tau", "hierarchical", "hierarchical, plain EM", "texts, generated functions", (SCHOOL, SPEAR, AIR)
    ),
    Ablation(
        "noise from rows that were not chosen",
        "informative vectors",
        "informative vectors, noise of the chosen",
        "generated functions",
        (SCHOOL, SPEAR, AIR),
    ),
)


def fit(model: Model, draw: Draw) -> Any:
    """The estimator fitted to the table; a GP of the primary alone sees only its rows."""
    settings = {k: v(draw.X) if callable(v) else v for k, v in model.settings.items()}
    if model.estimator in (FOCUSED, FOCUSED_LABELS):
        settings["primary"] = draw.primary
    alone = (
        model.estimator in (borrow.SingleTaskGPRegressor, borrow.SingleTaskGPClassifier) and draw.primary is not None
    )
    own = draw.task == draw.primary if alone else np.ones(len(draw.y), bool)
    with ExitStack() as stack:
        for module, name, value in model.constants:
            stack.enter_context(patch.object(module, name, value))
        return model.estimator(**settings).fit(draw.X[own], draw.y[own], tasks=draw.task[own])


def figures_of(fitted: Any, draw: Draw) -> dict[str, float]:
    """How the asked rows are answered."""
    if draw.kind == "classification":
        p = fitted.predict_proba(draw.X_test, tasks=draw.task_test)[:, 1]
        loss = float(log_loss(draw.y_test, np.clip(p, 1e-6, 1 - 1e-6), labels=[0, 1]))
        return {"error": loss, "log density": -loss}
    mean, std = fitted.predict(draw.X_test, tasks=draw.task_test, return_std=True, include_noise=True)
    miss = np.abs(draw.y_test - mean)
    return {
        "error": float(np.sqrt(np.mean(miss**2))),
        "log density": float(np.mean(norm.logpdf(draw.y_test, mean, std))),
        "covered": float(np.mean(miss < NINETY * std)),
    }


def one_fit(name: str, scenario: str, seed: int) -> dict[str, Any]:
    """One model on one draw; warnings are counted, not hidden."""
    draw, start = DRAWS[scenario](seed), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = figures_of(fit(MODELS[name], draw), draw)
    out = {"model": name, "scenario": scenario, "seed": seed, **found, "warnings": len(caught)}
    return {**out, "seconds": time.process_time() - start}


def summarise(records: dict[tuple[str, str, int], dict[str, Any]], draws: int) -> list[dict[str, Any]]:
    """A row for each default and data set of which there is a draw with both settings."""
    rows = []
    for a in ABLATIONS:
        for scenario in a.scenarios:
            pairs = [
                (records[a.on, scenario, s], records[a.off, scenario, s])
                for s in range(draws)
                if (a.on, scenario, s) in records and (a.off, scenario, s) in records
            ]
            if not pairs:
                continue
            row: dict[str, Any] = {
                "default": a.default,
                "data": scenario,
                "draws": len(pairs),
                "chosen on": a.chosen_on,
            }
            ratio = np.array([on["error"] / off["error"] for on, off in pairs])
            row["error, with / without"] = round(float(np.exp(np.mean(np.log(ratio)))), 3)
            row["draws with the lower error"] = int(np.sum(ratio < 1 - 1e-6))
            row["draws with the higher error"] = int(np.sum(ratio > 1 + 1e-6))
            row["log density, with less without"] = round(
                float(np.mean([on["log density"] - off["log density"] for on, off in pairs])), 3
            )
            if "covered" in pairs[0][0]:
                row["in the 90 % band, with and without"] = [
                    round(float(np.mean([p[i]["covered"] for p in pairs])), 3) for i in (0, 1)
                ]
            rows.append({**row, "records by commit": commits_of(r for pair in pairs for r in pair)})
    return rows


def main(argv: list[str] | None = None, run: Callable[[str, str, int], dict[str, Any]] = one_fit) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[a.default for a in ABLATIONS], help="defaults")
    parser.add_argument("--report", action="store_true", help="no new fits: what there is is written up")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no fit after so many")
    given = parser.parse_args(argv)
    until = time.monotonic() + 60.0 * given.minutes
    kept = Records(ROOT / "out" / "ablations.jsonl")
    done = {(r["model"], r["scenario"], r["seed"]): r for r in kept}
    plan = [a for a in ABLATIONS if a.default in given.only and not given.report]
    for seed in range(given.draws):  # all defaults on one draw before the next
        for a in plan:
            for job in ((m, s, seed) for s in a.scenarios for m in (a.on, a.off)):
                if job not in done and time.monotonic() < until:
                    done[job] = kept.add(run(*job))
                    sys.stderr.write(f"{job} {done[job]['seconds']:.0f} s\n")
    settings = {name: f"{m.estimator.__name__}: {m.words()}" for name, m in MODELS.items()}
    fresh, key = summarise(done, given.draws), ("default", "data")
    rows = with_earlier("ablations", "table", fresh, key, "draws", lambda _: given.draws)
    order = [(a.default, s) for a in ABLATIONS for s in a.scenarios]
    rows = [r for k in order for r in rows if (r["default"], r["data"]) == k]
    write_result("ablations", {"seeds": f"0 to {given.draws - 1}", "models": settings, "table": rows})


if __name__ == "__main__":
    main()
