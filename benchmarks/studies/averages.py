"""How far may a classifier believe its own odds of sharing? The average with no transfer, by other weights.

    python benchmarks/studies/averages.py [--draws 10] [--only 'EEG*'] [--minutes 20]

Both GP classifiers that borrow average what they found with no transfer, by the odds of the two. Here the same two fits
are averaged by these odds to a power below one (the evidence counts for less, as `compare` counts it), and by stacking:
the weight w has the density of the primary's labels (of each task's, in the symmetric model), every row predicted
without itself by either fit, given that each row is by the one with probability w; the mean of w, or the likeliest w.
And the Dirichlet process, whose bound has many maxima: one prior variance of its weights (the paper's 10) and the start
of the highest bound, beside averages over the variances 0.3, 1 and 3 and all starts, each weighted by exp(bound) to a
power (CLUSTERS; the default is "0.3 to 3, power 0.05"); mean AUC of tasks, and log loss itself.

Scenarios with labels of `scenarios.py`, as they are and with the labels of the secondaries shuffled within each task;
a default may be chosen on "EEG, 14 trials" and "landmine, 19 x 20" alone. Log loss over that of no transfer. Draws are
kept under out/, and a run goes on where it stopped.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import fnmatch
import sys
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import expit, logit
from sklearn.metrics import log_loss, roc_auc_score

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from scenarios import CHOICE, SCENARIOS, Draw

import borrow
from borrow.inference.hyper_uncertainty import OtherModel
from borrow.models.focused import search
from borrow.models.multitask import sharing
from borrow.models.reference import dirichlet_process
from results import ROOT, Records, write_result

POWERS = (1.0, 0.5, 0.35, 0.22, 0.1)
WEIGHTS = np.linspace(0.0, 1.0, 401)
MODELS = {"focused": borrow.FocusedGPClassifier, "symmetric": borrow.MultiTaskGPClassifier}
#: Scenarios and how many of their draws; the symmetric model's fits to all trials of 21 people take half a minute.
PARTS = {
    ("EEG, 14 trials", "focused", False): 10,
    ("EEG, 14 trials", "focused", True): 10,
    ("EEG, 14 trials", "symmetric", False): 10,
    ("EEG, 14 trials", "symmetric", True): 10,
    ("EEG, all trials", "focused", False): 10,
    ("EEG, all trials", "symmetric", False): 5,
    ("landmine, 19 x 20", "symmetric", False): 2,
}
#: Scenarios and draws of the Dirichlet process; the prior variances and the power by which fits are averaged.
CLUSTERED = {"EEG, 14 trials": 10, "landmine, 19 x 20": 10, "landmine, 19 x 80": 10, "EEG, all trials": 10}
LEARNT = (0.3, 1.0, 3.0)
CLUSTERS = {
    "10, best start": ((10.0,), inf),
    "10, power 0.05": ((10.0,), 0.05),
    "0.3 to 3, best start": (LEARNT, inf),
    "0.3 to 3, power 0.22": (LEARNT, 0.22),
    "0.3 to 3, power 0.05": (LEARNT, 0.05),
    "0.3 to 3, power 0.02": (LEARNT, 0.02),
    "0.3 to 3, all alike": (LEARNT, 0.0),
}


class Average:
    """A fitted binary classifier whose two fits are averaged by any weight of no transfer."""

    def __init__(self, model: Any, draw: Draw) -> None:
        self.model, self.draw, self.fitted = model, draw, model.fitted_
        (self.labels,) = self.fitted.model
        self.fit, beside = self.labels.posterior, self.labels.posterior.uncertainty
        self.other = beside if isinstance(beside, OtherModel) else None  # every task by itself, where nothing shares
        self.own = np.asarray(0.0 if self.other is None else self.other.probability)

    def by(self, weight: Any) -> Any:
        """The labels' model with this weight of no transfer, one number or one per task."""
        if self.other is None:
            return self.labels
        weight = weight if np.ndim(weight) else float(weight)
        return replace(self.labels, posterior=replace(self.fit, uncertainty=replace(self.other, probability=weight)))

    def loss(self, weight: Any) -> float:
        """Log loss of new rows."""
        self.model.fitted_ = replace(self.fitted, model=[self.by(weight)])
        p = self.model.predict_proba(self.draw.X_test, tasks=self.draw.task_test)[:, 1]
        return float(log_loss(self.draw.y_test, p))

    def stacked(self) -> tuple[Any, Any]:
        """The mean of the weight, and the likeliest, of each task; of the primary where there is one."""
        shared, alone = (self.by(w * np.ones_like(self.own)).without_each() for w in (0.0, 1.0))
        task, yes = self.fit.cells.task, shared.y > 0
        p, q = (np.where(yes, found.probability, 1.0 - found.probability) for found in (shared, alone))
        mean, best = [], []
        for t in range(len(self.fitted.schema.labels)):
            at = task == t
            value = np.log(np.multiply.outer(1.0 - WEIGHTS, p[at]) + np.multiply.outer(WEIGHTS, q[at])).sum(axis=1)
            density = np.exp(value - value.max())
            mean.append(density @ WEIGHTS / density.sum())
            best.append(WEIGHTS[value.argmax()])
        if self.own.ndim == 0:
            primary = list(self.fitted.schema.labels).index(self.draw.primary)
            return mean[primary], best[primary]
        return np.array(mean), np.array(best)


def one(scenario: str, method: str, shuffled: bool, seed: int) -> dict[str, Any]:
    """All averages of one draw."""
    draw = SCENARIOS[scenario](seed)
    draw = draw.shuffled(seed) if shuffled else draw
    mine = np.full(len(draw.y), True) if draw.primary is None else draw.task == draw.primary
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = borrow.SingleTaskGPClassifier().fit(draw.X[mine], draw.y[mine], tasks=draw.task[mine])
        base = log_loss(draw.y_test, alone.predict_proba(draw.X_test, tasks=draw.task_test)[:, 1])
        model = MODELS[method](**({"primary": draw.primary} if method == "focused" else {}))
        average = Average(model.fit(draw.X, draw.y, tasks=draw.task), draw)
        out = {"odds": average.loss(average.own)}  # at the default, weights below 5 % are none
        if average.other is not None:
            odds = np.where(average.own < 1.0, -logit(np.minimum(average.own, 1.0 - 1e-15)), -np.inf)
            for power in POWERS[1:]:
                out[f"odds to the power {power}"] = average.loss(expit(-power * odds))
            out["stacking, mean"], out["stacking, likeliest"] = map(average.loss, average.stacked())
    names = ["odds", *(f"odds to the power {p}" for p in POWERS[1:]), "stacking, mean", "stacking, likeliest"]
    ratios = {name: float(out.get(name, out["odds"]) / base) for name in names}
    return {**ratios, "weight of no transfer": float(average.own.mean()), "seconds": time.process_time() - started}


def ranks(draw: Draw, p: Any) -> float:
    """AUC, the mean over tasks that have both labels."""
    parts = [draw.task_test == t for t in np.unique(draw.task_test)] if draw.primary is None else [p >= 0.0]
    both = [at for at in parts if len(set(draw.y_test[at])) > 1]
    return float(np.mean([roc_auc_score(draw.y_test[at], p[at]) for at in both]))


def one_of_clusters(scenario: str, seed: int) -> dict[str, Any]:
    """AUC and log loss of the Dirichlet process by each of CLUSTERS: every start with every variance is fitted once."""
    draw, every, out = SCENARIOS[scenario](seed), dirichlet_process.partitions, {}
    started, variances, bounds, predicted = time.process_time(), [], [], []
    for variance in (*LEARNT, 10.0):
        number, count = 0, 1
        while number < count:
            starts: list[Any] = []

            def chosen(*given: Any, starts: list[Any] = starts, number: int = number) -> list[Any]:
                starts += every(*given)
                return starts[number : number + 1]

            with patch.object(dirichlet_process, "partitions", chosen):
                model = borrow.DirichletProcessClassifier(prior_variance=variance).fit(draw.X, draw.y, tasks=draw.task)
            variances.append(variance)
            bounds.append(model.bound_trace_[-1])
            predicted.append(model.predict_proba(draw.X_test, tasks=draw.task_test)[:, 1])
            number, count = number + 1, len(starts)
    for name, (among, power) in CLUSTERS.items():
        behind = np.where(np.isin(variances, among), bounds, -inf)
        behind = behind - behind.max()
        weights = (
            (behind == 0.0) * 1.0 if power == inf else np.isfinite(behind) * np.exp(power * np.maximum(behind, -1e6))
        )
        p = weights @ np.array(predicted) / weights.sum()
        out[name] = [ranks(draw, p), float(log_loss(draw.y_test, p))]
    return {"AUC and log loss": out, "seconds": time.process_time() - started}


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric mean and worst draw of every average; of the Dirichlet process means, and errors of paired changes."""
    groups = defaultdict(list)
    for r in records:
        groups[r["scenario"], r["method"], r["shuffled"]].append(r)
    rows = []
    for (scenario, method, shuffled), draws in groups.items():
        if method == "clusters":
            of = {n: np.array([d["AUC and log loss"][n] for d in draws]) for n in draws[0]["AUC and log loss"]}
            first = next(iter(of.values()))
            errors = {n: ((v - first).std(axis=0, ddof=1) / np.sqrt(len(draws))).tolist() for n, v in of.items()}
            found = {"AUC and log loss": {n: [*v.mean(axis=0).tolist(), *errors[n]] for n, v in of.items()}}
        else:
            names = [n for n in draws[0] if n.startswith(("odds", "stacking"))]
            of = {n: np.array([d[n] for d in draws]) for n in names}
            found = {"mean and worst": {n: [float(np.exp(np.log(v).mean())), float(v.max())] for n, v in of.items()}}
        head = {"scenario": scenario, "method": method, "shuffled": shuffled, "chooses": scenario in CHOICE}
        rows.append({**head, "draws": len(draws), **found})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", default="*")
    parser.add_argument("--minutes", type=float, default=np.inf)
    chosen, started = parser.parse_args(), time.monotonic()
    search.NEGLIGIBLE = sharing.NEGLIGIBLE = 1e-300  # no transfer is kept beside every fit, however improbable
    kept = Records(ROOT / "out" / "averages.jsonl")
    parts = {**{(name, "clusters", False): draws for name, draws in CLUSTERED.items()}, **PARTS}
    for (scenario, method, shuffled), most in parts.items():
        key = {"scenario": scenario, "method": method, "shuffled": shuffled}
        for seed in range(min(most, chosen.draws) if fnmatch.fnmatch(scenario, chosen.only) else 0):
            if any({**key, "seed": seed}.items() <= r.items() for r in kept):
                continue
            if time.monotonic() - started > 60.0 * chosen.minutes:
                break
            clusters = method == "clusters"
            found = one_of_clusters(scenario, seed) if clusters else one(scenario, method, shuffled, seed)
            kept.add({**key, "seed": seed, **found})
    write_result("averages", {"seeds": "the numbers of the draws", "rows": summary(list(kept))}, list(kept))


if __name__ == "__main__":
    main()
