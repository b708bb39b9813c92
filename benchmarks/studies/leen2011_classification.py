"""Table 1 and Figure 5 of Leen, Peltonen & Kaski (2011), on EEG: the paper's fMRI recordings were never published.

    python benchmarks/studies/leen2011_classification.py [--quick] [--repetitions 3] [--fresh]

Primary: "one picture (S1_obj) or not" of one subject, each of 16 in turn. Secondaries: five other subjects, three with
the same question and two with another (S2_match or not). 14 or all (about 30) primary trials of one half of the
recording, early or late, the other half to test; 4, 10, 20 or all (48 to 60) trials a secondary, with both classes.
Every repetition draws secondaries and trials anew (seeds: subject, repetition); smaller sets are parts of larger ones.
Inputs: 30 principal components, fitted without labels on all trials.

The GPs have the same priors, in units of the column scales of the same table; "single, own scales" is what a user gets
who has no table but the primary's. Log loss with probabilities kept in [1e-6, 1 - 1e-6]. Differences are paired: the
mean over repetitions and both directions for each subject, then mean and standard error over subjects. Focused: Z at
the primary's inputs, as in the paper. Shuffled secondary labels: in the first repetition only.
Every finished fit goes to out/leen2011_classification.jsonl and is not repeated; --fresh starts anew.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import matplotlib
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from borrow import figures
from borrow.data import column_scales
from borrow.datasets.shared_data import load_eeg
from borrow.models.baselines.dirichlet_process import DirichletProcessClassifier
from borrow.models.baselines.gp_classifiers import PooledGPClassifier, SingleTaskGPClassifier
from borrow.models.baselines.regularized import RegularizedMultiTaskClassifier
from borrow.models.baselines.shared_structure import SharedStructureClassifier
from borrow.models.classifier import BinaryData
from borrow.models.focused_classifier import FocusedGPClassifier
from results import FIGURES, ROOT, write_result

QUESTIONS = ("S1_obj",) * 3 + ("S2_match",) * 2  # of the five secondaries
ALL = 999
FEW, COUNTS = 14, (4, 10, 20, ALL)
METRICS = ("log loss", "AUC", "error")
TRANSFER = {
    "focused": lambda: FocusedGPClassifier(primary="primary", inducing="primary"),
    "pooled": PooledGPClassifier,
    "shared structure": SharedStructureClassifier,
    "Dirichlet process": DirichletProcessClassifier,
    "regularized": RegularizedMultiTaskClassifier,
}
METHODS = ("single", "single, own scales", "logistic", *TRANSFER, "pooled, same question", "focused, shuffled labels")


def ordered(rng: np.random.Generator, rows: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Rows in random order, one of each class in front."""
    rows = rng.permutation(rows)
    front = [int(np.flatnonzero(positive[rows] == c)[0]) for c in (True, False)]
    return np.concatenate([rows[front], np.delete(rows, front)])


def scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return {
        "log loss": float(log_loss(y, p, labels=[0, 1])),
        "AUC": float(roc_auc_score(y, p)),
        "error": float(np.mean((p > 0.5) != y)),
    }


def single(X: np.ndarray, y: np.ndarray, scales: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """The primary alone, with the priors in the units of the whole table."""
    data = BinaryData(X, 2.0 * y - 1.0, np.array([0, len(y)]), ("primary",), (X[:0],), scales)
    return SingleTaskGPClassifier()._fit_binary(data).probability(X_test, np.zeros(len(X_test), dtype=np.intp))


def logistic(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    folds = min(5, int(np.bincount(y, minlength=2).min()))
    if folds < 2:  # one trial of a class: nothing to cross-validate with
        model: Any = LogisticRegression(C=0.1)
    else:
        model = LogisticRegressionCV(
            Cs=np.logspace(-4, 2, 7), cv=folds, scoring="neg_log_loss", max_iter=1000, use_legacy_attributes=False
        )
    return make_pipeline(StandardScaler(), model).fit(X, y).predict_proba(X_test)[:, 1]


def one_job(subject: str, early: bool, repetition: int, few: bool, counts: tuple[int, ...]) -> list[dict]:
    """All methods and numbers of secondary trials for one primary."""
    trials = load_eeg()
    subjects = np.unique(trials.subject)
    rng = np.random.default_rng([repetition, int(np.flatnonzero(subjects == subject)[0])])
    others = rng.permutation(subjects[subjects != subject])[: len(QUESTIONS)]
    answers = {q: trials.condition == q for q in set(QUESTIONS)}
    at = {
        h: ordered(rng, np.flatnonzero((trials.subject == subject) & (trials.early == h)), answers["S1_obj"])
        for h in (True, False)
    }
    secondary = [
        ordered(rng, np.flatnonzero(trials.subject == s), answers[q]) for s, q in zip(others, QUESTIONS, strict=True)
    ]
    train, test = at[early][: FEW if few else None], at[not early]
    X_test, y_test = trials.X[test], answers["S1_obj"][test].astype(int)
    X_own, y_own = trials.X[train], answers["S1_obj"][train].astype(int)
    base = {
        "logistic": scores(y_test, logistic(X_own, y_own, X_test)),
        "single, own scales": scores(y_test, SingleTaskGPClassifier().fit(X_own, y_own).predict_proba(X_test)[:, 1]),
    }
    records = []
    for count in counts:
        rows = [train] + [r[:count] for r in secondary]
        X = trials.X[np.concatenate(rows)]
        task = np.repeat(["primary", *(f"{i} {q}" for i, q in enumerate(QUESTIONS))], [len(r) for r in rows])
        y = np.concatenate([answers[q][r] for q, r in zip(("S1_obj", *QUESTIONS), rows, strict=True)]).astype(int)
        scales = column_scales(X, np.ones(len(X)))
        found, seconds = dict(base), {}
        found["single"] = scores(y_test, single(X_own, y_own, scales, X_test))
        rho: list[float] = []
        problems = {name: (make, X, y, task) for name, make in TRANSFER.items()}
        same = ~np.char.endswith(task, "S2_match")
        problems["pooled, same question"] = (PooledGPClassifier, X[same], y[same], task[same])
        if repetition == 0:
            shuffled = y.copy()
            for t in np.unique(task[task != "primary"]):
                shuffled[task == t] = rng.permutation(y[task == t])
            problems["focused, shuffled labels"] = (TRANSFER["focused"], X, shuffled, task)
        n_warnings = 0
        for name, (make, X_fit, y_fit, task_fit) in problems.items():
            start = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = make().fit(X_fit, y_fit, tasks=task_fit)
                p = model.predict_proba(X_test, tasks=np.full(len(X_test), "primary"))[:, 1]
            found[name], seconds[name] = scores(y_test, p), time.perf_counter() - start
            if name == "focused":
                rho, n_warnings = [model.rho_[t] for t in model.tasks_ if t != "primary"], len(caught)
        records.append(
            {
                "subject": subject,
                "early": early,
                "repetition": repetition,
                "few": few,
                "count": count,
                "scores": found,
                "seconds": seconds,
                "rho": rho,
                "warnings": n_warnings,
            }
        )
    return records


def key(record: dict) -> tuple:
    return tuple(record[k] for k in ("subject", "early", "repetition", "few", "count"))


def collect(repetitions: int, quick: bool, fresh: bool) -> list[dict]:
    """Run what is not yet in the file, append each job as it comes."""
    path = ROOT / "out" / "leen2011_classification.jsonl"
    path.parent.mkdir(exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)
    done = {key(r): r for r in map(json.loads, path.read_text().splitlines())} if path.exists() else {}
    subjects = np.unique(load_eeg().subject).tolist()[:: 4 if quick else 1]
    counts = (4, 20) if quick else COUNTS
    jobs = [
        (s, early, r, few, counts)
        for r in range(1 if quick else repetitions)
        for early in (True, False)
        for few in (True, False)
        for s in subjects
    ]
    wanted = [(*job[:4], c) for job in jobs for c in counts]
    open_jobs = [job for job in jobs if any((*job[:4], c) not in done for c in counts)]
    with path.open("a") as file:
        for records in Parallel(n_jobs=2, return_as="generator_unordered")(delayed(one_job)(*j) for j in open_jobs):
            for record in records:
                done[key(record)] = record
                file.write(json.dumps(record) + "\n")
            file.flush()
    return [done[w] for w in wanted]


def by_subject(records: list[dict], method: str, metric: str, against: str | None = None) -> np.ndarray:
    """One number a subject: the mean score, or its mean paired difference."""
    values = defaultdict(list)
    for r in records:
        if method in r["scores"]:
            reference = 0.0 if against is None else r["scores"][against][metric]
            values[r["subject"]].append(r["scores"][method][metric] - reference)
    return np.array([np.mean(values[s]) for s in sorted(values)])


def paired(records: list[dict], method: str, metric: str, against: str) -> dict[str, Any]:
    d = by_subject(records, method, metric, against)
    better = d > 0 if metric == "AUC" else d < 0
    return {
        "difference": round(float(d.mean()), 4),
        "standard error": round(float(d.std(ddof=1) / np.sqrt(len(d))), 4),
        "subjects better": int(better.sum()),
        "subjects worse": int((d != 0).sum() - better.sum()),
    }


def cell_table(records: list[dict]) -> list[dict]:
    table = []
    for few in (True, False):
        for count in sorted({r["count"] for r in records}):
            part = [r for r in records if r["few"] == few and r["count"] == count]
            rho = np.array([r["rho"] for r in part])
            table.append(
                {
                    "primary trials": FEW if few else "all",
                    "trials a secondary": "all" if count == ALL else count,
                    "mean": {m: {k: round(float(by_subject(part, m, k).mean()), 4) for k in METRICS} for m in METHODS},
                    "against single": {
                        m: {k: paired(part, m, k, "single") for k in METRICS} for m in METHODS if m != "single"
                    },
                    "focused against pooled": paired(part, "focused", "log loss", "pooled"),
                    "relations kept, same question": round(float(np.mean(rho[:, :3] != 0)), 3),
                    "relations kept, other question": round(float(np.mean(rho[:, 3:] != 0)), 3),
                    "mean rho of those kept, same and other question": [
                        round(float(part_rho[part_rho != 0].mean()), 3) if np.any(part_rho != 0) else None
                        for part_rho in (rho[:, :3], rho[:, 3:])
                    ],
                    "median seconds": {
                        m: round(float(np.median([r["seconds"][m] for r in part])), 3)
                        for m in (*TRANSFER, "pooled, same question")
                    },
                    "optimiser warnings, focused": int(sum(r["warnings"] for r in part)),
                }
            )
    return table


def targets(table: list[dict]) -> list[dict[str, Any]]:
    """What issue 4 asks for, and what came out."""
    rows: list[dict[str, Any]] = []

    def check(row: dict, what: str, value: float, limit: float) -> None:
        cell = f"{row['primary trials']} primary, {row['trials a secondary']} a secondary"
        rows.append({"cell": cell, "target": what, "value": value, "limit": limit, "met": bool(value <= limit)})

    for row in table:
        focused = row["against single"]["focused"]
        gain = focused["log loss"]["difference"]
        check(row, "log loss, focused less single", gain, 0.005)
        check(row, "AUC, single less focused", -focused["AUC"]["difference"], 0.03)
        shuffled = row["against single"]["focused, shuffled labels"]["log loss"]["difference"]
        check(row, "log loss, focused with shuffled labels less single", shuffled, 0.01)
        if row["primary trials"] == FEW and row["trials a secondary"] not in (4, 10):
            check(row, "log loss, focused less single: a gain", gain, -0.015)
            check(row, "subjects of 16 not better", 16 - focused["log loss"]["subjects better"], 6)
        if row["trials a secondary"] == "all":
            check(row, "log loss, focused less pooled", row["focused against pooled"]["difference"], -0.03)
    return rows


LINES = {
    "single": (figures.COLOURS["single"], "-"),
    "focused": (figures.COLOURS["focused"], "-"),
    "pooled": (figures.COLOURS["pooled"], "-"),
    "pooled, same question": (figures.COLOURS["pooled"], figures.DASHES),
    "focused, shuffled labels": (figures.COLOURS["focused"], figures.DASHES),
    "logistic": (figures.COLOURS["ridge"], "-"),
    "shared structure": ("#009E73", "-"),
    "Dirichlet process": ("#B8860B", "-"),
    "regularized": ("#56B4E9", "-"),
}


def figure_5(table: list[dict]) -> Figure:
    """Log loss, error and AUC on the test half against the trials a secondary, for few and all primary trials."""
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 8.0), layout="constrained")
        axes = figure.subplots(3, 2, sharex=True, sharey="row")
        for column, size in enumerate((FEW, "all")):
            rows = [r for r in table if r["primary trials"] == size]
            x = np.arange(len(rows))
            for ax, metric in zip(axes[:, column], METRICS, strict=True):
                for m, (colour, dash) in LINES.items():
                    y = np.array([r["mean"][m][metric] for r in rows])
                    wide = 2.0 if m in ("focused", "single") else 1.0
                    ax.plot(x, y, color=colour, linestyle=dash, linewidth=wide, marker="o", ms=3, label=m)
                    if m == "focused":
                        se = np.array([r["against single"][m][metric]["standard error"] for r in rows])
                        ax.fill_between(x, y - se, y + se, color=colour, alpha=0.15, lw=0)
                ax.set_xticks(x, [str(r["trials a secondary"]) for r in rows])
                if column == 0:
                    ax.set_ylabel(metric)
            axes[0, column].set_title(f"{size} primary trials")
            axes[2, column].set_xlabel("trials of each secondary task")
        top = np.max([[r["mean"][m]["log loss"] for m in ("single", "focused", "pooled")] for r in table])
        low = np.min([[r["mean"][m]["log loss"] for m in LINES] for r in table])
        axes[0, 0].set_ylim(low - 0.02, top + 0.12)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="four subjects, two cells, one repetition; writes nothing")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="forget earlier fits")
    arguments = parser.parse_args()
    records = collect(arguments.repetitions, arguments.quick, arguments.fresh)
    table = cell_table(records)
    for row in table:
        sys.stdout.write(f"\n{row['primary trials']} primary trials, {row['trials a secondary']} a secondary\n")
        for m in METHODS:
            means = "  ".join(f"{k} {row['mean'][m][k]:.3f}" for k in METRICS)
            d = row["against single"].get(m, {}).get("log loss")
            tail = "" if d is None else f"  log loss {d['difference']:+.4f} ({d['standard error']:.4f})"
            tail += "" if d is None else f", better {d['subjects better']}, worse {d['subjects worse']}"
            sys.stdout.write(f"  {m:26s} {means}{tail}\n")
    if arguments.quick:
        return
    checked = targets(table)
    for row in checked:
        sys.stdout.write(f"{row}\n")
    content = {
        "data": "UCI EEG Database, SMNI_CMI part: 16 subjects, 924 trials, 30 principal components",
        "repetitions": arguments.repetitions,
        "seeds": "[repetition, number of the subject]",
        "targets": checked,
        "table": table,
    }
    write_result("leen2011_classification", content)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(figure_5(table), FIGURES / "leen2011_classification")


if __name__ == "__main__":
    main()
