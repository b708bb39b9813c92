"""Which defaults the GP classifiers get: a choice on early trials of eight of the 16 EEG subjects, nothing else scored.

    python benchmarks/studies/leen2011_classification_choice.py [--only NAME ...]

The problems are those of `leen2011_classification.py` with other seeds, and the primary's late half is left out:
14 or three quarters of its early trials to train, the rest of the early half to score; 20 or all trials a secondary,
real labels or, at full size, shuffled. Scored are subjects 0, 2, ... 14. So the direction "late trials to test" and
all of the other eight subjects are untouched by the choice.
The methods that the paper compares with are given eight settings each (`OTHERS`), and the one with the least mean log
loss over the same problems with real labels is what `leen2011_classification.py` runs as "chosen settings"
(leen2011_classification_others.json; `--only` without a name runs them alone).
Every fit goes to out/leen2011_classification_choice.jsonl, with its commit and seed, and is not repeated.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
import warnings
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from leen2011_classification import ALL, FEW, QUESTIONS, REFERENCES, Problem, ordered
from sklearn.metrics import log_loss

from borrow.data.scaling import column_scales
from borrow.datasets.shared_data import load_eeg
from borrow.estimators.classifier import EPClassifier, binary_data
from borrow.inference import priors
from borrow.kernels import SquaredExponential
from borrow.kernels.compose import Sum
from borrow.models.focused import model as focused
from borrow.models.focused import relations as focused_relations
from borrow.models.focused import starts as focused_alone
from borrow.models.focused.estimators import FocusedGPClassifier
from borrow.models.focused.starts import fit_own
from borrow.models.gp.estimators import PooledGPClassifier, SingleTaskGPClassifier
from borrow.numerics import optimise as hyper
from results import ROOT, Records, commits_of, settings_of, with_earlier, write_result

SUBJECTS = range(0, 16, 2)
SEED = 20_000
CELLS = [(True, 20, False), (True, ALL, False), (True, ALL, True), (False, ALL, False), (False, ALL, True)]

#: Centres of the log variances' priors (the function; what a secondary has of its own), log odds of relations
#: beforehand (infinite: not averaged with no transfer), sd of w's prior, one lengthscale for all columns. The last two
#: decide between two on a second draw. All but the first were tried before the primary had a part of its own, with
#: N(0, 1) on w where nothing else is said, and "averaged" weighs relations against none.
VARIANTS: dict[str, dict[str, Any]] = {
    "2, own 2, sd of w e, averaged with no transfer (the defaults)": {"sd": float(np.e), "odds": 1.0},
    "0, own 0, averaged": {"centre": 0.0, "odds": 1.0},
    "0, own 0": {"centre": 0.0},
    "2, own 2, averaged": {"odds": 1.0},
    "2, own 2 (taken)": {},
    "3, own 3": {"centre": 3.0},
    "2, own 2, sd of w 2": {"sd": 2.0},
    "2, own 2, one lengthscale": {"tied": True},
    "2, own 0": {"own": 0.0},
    "2, own 2 (taken), second draw": {"draw": 1},
    "2, own 0, second draw": {"own": 0.0, "draw": 1},
}


#: Settings of the other methods: as many for each as were tried of ours.
OTHERS: dict[str, list[dict[str, Any]]] = {
    "shared structure": [{"regularization": r} for r in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)],
    "Dirichlet process": [{"prior_variance": v} for v in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)],
    "regularized": [{"mu": mu, "C": C} for mu in (0.3, 3.0) for C in (0.001, 0.01, 0.1, 1.0)],
}


def early_problem(subject: int, draw: int, few: bool, count: int) -> Problem:
    """As `table_of`, the rest of the primary's early half to score."""
    trials = load_eeg()
    subjects = np.unique(trials.subject)
    rng = np.random.default_rng([SEED, draw, subject])
    others = rng.permutation(np.delete(subjects, subject))[: len(QUESTIONS)]
    answers = {q: trials.condition == q for q in set(QUESTIONS)}
    early = ordered(rng, np.flatnonzero((trials.subject == subjects[subject]) & trials.early), answers["S1_obj"])
    n = FEW if few else (3 * len(early)) // 4
    asked = list(zip(others, QUESTIONS, strict=True))
    rows = [early[:n]] + [ordered(rng, np.flatnonzero(trials.subject == s), answers[q])[:count] for s, q in asked]
    labels = [answers[q][r] for q, r in zip(("S1_obj", *QUESTIONS), rows, strict=True)]
    names = ["primary", *(f"{i} {q}" for i, q in enumerate(QUESTIONS))]
    return Problem(
        trials.X[np.concatenate(rows)],
        np.concatenate(labels).astype(int),
        np.repeat(names, [len(r) for r in rows]),
        trials.X[early[n:]],
        answers["S1_obj"][early[n:]].astype(int),
    )


def own_centred(own: float, setup: focused.Setup, scales: np.ndarray) -> hyper.Objective:
    """The priors of the focused model, what a secondary has of its own centred apart from the function."""
    kernels = [k for k in setup.specific if k is not None]
    return priors.independent_priors(
        {
            "kernel": priors.kernel_prior(setup.kernel, scales, setup.infer.log_variance),
            "specific": priors.join_priors([priors.kernel_prior(k, scales, own) for k in kernels]),
        }
    )


def fit_own_centred(own: float, tasks: Any, kernel: Any, *more: Any) -> Any:
    """The fit of a task by itself; only the kernels of secondaries are sums."""
    *rest, infer = more
    return fit_own(tasks, kernel, *rest, replace(infer, log_variance=own) if isinstance(kernel, Sum) else infer)


def losses(problem: Problem, shuffled: int | None, variant: dict[str, Any]) -> dict[str, Any]:
    """Log loss of single, focused and pooled with these settings."""
    settings = {"centre": 2.0, "own": None, "odds": float("inf"), "sd": 1.0, "tied": False} | variant
    p = problem if shuffled is None else problem.shuffled(shuffled)
    scales = column_scales(p.X, np.ones(len(p.X)))
    start = scales * np.sqrt(len(scales))
    kernel = SquaredExponential(1.0, tuple(start.tolist()), tied=True) if settings["tied"] else None
    at_primary = np.zeros(len(p.X_test), dtype=np.intp)

    def infer(estimator: EPClassifier, original: Any = EPClassifier._inference) -> Any:
        return replace(original(estimator), log_variance=settings["centre"])

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(patch.object(focused_relations, "LOG_ODDS", settings["odds"]))
        if settings["own"] is not None:
            stack.enter_context(patch.object(focused, "hyper_priors", partial(own_centred, settings["own"])))
            stack.enter_context(patch.object(focused_alone, "fit_own", partial(fit_own_centred, settings["own"])))
        stack.enter_context(patch.object(EPClassifier, "_inference", infer))
        X, y = p.X[p.own], p.y[p.own]
        data = binary_data(X, 2.0 * y - 1.0, np.array([0, len(y)]), ("primary",), (X[:0],), scales)
        alone = SingleTaskGPClassifier(kernel=kernel)._fit_binary(data).probability(p.X_test, at_primary)
        model = FocusedGPClassifier(
            primary="primary",
            inducing="primary",
            kernel=kernel,
            rho_prior=settings["sd"],
        )
        begin = time.process_time()
        model.fit(p.X, p.y, tasks=p.task)
        seconds = time.process_time() - begin
        found = {"single": alone, "focused": model.predict_proba(p.X_test)[:, 1]}
        if shuffled is None:
            pooled = PooledGPClassifier(kernel=kernel).fit(p.X, p.y, tasks=p.task)
            found["pooled"] = pooled.predict_proba(p.X_test, tasks=np.full(len(p.X_test), "primary"))[:, 1]
    out: dict[str, Any] = {m: log_loss(p.y_test, np.clip(q, 1e-6, 1 - 1e-6), labels=[0, 1]) for m, q in found.items()}
    return out | {"seconds": seconds, "rho": [model.rho_[t] for t in model.tasks_ if t != "primary"]}


def loss_of(problem: Problem, method: str, settings: dict[str, Any]) -> float:
    """Log loss of another method with these settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = REFERENCES[method](**settings).fit(problem.X, problem.y, tasks=problem.task)
        p = model.predict_proba(problem.X_test, tasks=np.full(len(problem.X_test), "primary"))[:, 1]
    return float(log_loss(problem.y_test, np.clip(p, 1e-6, 1 - 1e-6), labels=[0, 1]))


def choose_others(kept: Records) -> dict[str, Any]:
    """For each of the other methods the setting with the least mean log loss, and all means, over the same problems."""
    done = {(r["method"], r["setting"], r["subject"], *r["cell"]): r["loss"] for r in kept if "method" in r}
    out: dict[str, Any] = {}
    for method, tried in OTHERS.items():
        means = []
        for i, settings in enumerate(tried):
            found = []
            for subject in SUBJECTS:
                for few, count, _ in (c for c in CELLS if not c[2]):
                    key = (method, i, subject, few, count)
                    if key not in done:
                        done[key] = loss_of(early_problem(subject, 0, few, count), method, settings)
                        record = {"method": method, "setting": i, "subject": subject, "cell": [few, count]}
                        kept.add({**record, "loss": done[key], "seed": [SEED, 0, subject]})
                    found.append(done[key])
            means.append(round(float(np.mean(found)), 4))
        shown = {", ".join(f"{k}={v:g}" for k, v in s.items()): m for s, m in zip(tried, means, strict=True)}
        out[method] = {"chosen": tried[int(np.argmin(means))], "mean log loss": shown}
    return {"others": out}


def summary(records: list[dict], name: str) -> dict[str, Any]:
    """Means over the subjects, by cell."""
    out: dict[str, Any] = {"variant": name}
    for few, count, shuffled in CELLS:
        part = [r for r in records if r["variant"] == name and r["cell"] == [few, count, shuffled]]
        label = f"{FEW if few else '3/4'} / {'all' if count == ALL else count}" + (", shuffled" if shuffled else "")
        of = {
            m: np.array([np.mean([r[m] for r in part if r["subject"] == s]) for s in SUBJECTS])
            for m in (("single", "focused") if shuffled else ("single", "focused", "pooled"))
        }
        d = of["focused"] - of["single"]
        out[label] = {m: round(float(v.mean()), 4) for m, v in of.items()} | {
            "focused less single": round(float(d.mean()), 4),
            "standard error": round(float(d.std(ddof=1) / np.sqrt(len(d))), 4),
            "better": int((d < -1e-4).sum()),
            "seconds": round(float(np.median([r["seconds"] for r in part])), 2),
        }
    mine = [r for r in records if r["variant"] == name]
    return out | {"fits": len(mine), "records by commit": commits_of(mine)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), help="of our settings; none: the other methods")
    arguments = parser.parse_args()
    kept = Records(ROOT / "out" / "leen2011_classification_choice.jsonl")
    records = [r for r in kept if "variant" in r]
    done = {(r["variant"], r["subject"], r["draw"], *r["cell"]) for r in records}
    for name in arguments.only:
        draw = VARIANTS[name].get("draw", 0)
        for subject in SUBJECTS:
            for cell in CELLS:
                if (name, subject, draw, *cell) in done:
                    continue
                few, count, shuffled = cell
                problem = early_problem(subject, draw, few, count)
                found = losses(problem, subject if shuffled else None, VARIANTS[name])
                record = {"variant": name, "subject": subject, "draw": draw, "cell": list(cell), **found}
                records.append(kept.add({**record, "seed": [SEED, draw, subject]}))
        sys.stdout.write(json.dumps(summary(records, name), indent=1) + "\n")
        sys.stdout.flush()
    content: dict[str, Any] = {"seeds": f"[{SEED}, draw, number of the subject]", "subjects": list(SUBJECTS)}
    if arguments.only:
        rows = [summary(records, name) for name in arguments.only]
        name = "leen2011_classification_choice"
        table = with_earlier(name, "table", rows, ("variant",), "fits", lambda _: len(SUBJECTS) * len(CELLS))
        order = [*VARIANTS, *(r["variant"] for r in table)]  # rows of rules that are gone come last
        table.sort(key=lambda r: order.index(r["variant"]))
        gone = {r["variant"]: "a rule of an earlier commit" for r in table}
        write_result(name, {**content, "settings": {**gone, **settings_of(VARIANTS)}, "table": table})
    if arguments.only in ([], list(VARIANTS)):
        others = choose_others(kept)
        write_result("leen2011_classification_others", {**content, **others}, [r for r in kept if "method" in r])


if __name__ == "__main__":
    main()
