"""Table 1 and Figure 5 of Leen, Peltonen & Kaski (2011), on EEG: the paper's fMRI recordings were never published.

    python benchmarks/studies/leen2011_classification.py [--quick] [--repetitions 3] [--fresh] [--report]

Primary: "one picture (S1_obj) or not" of one subject, each of 16 in turn. Secondaries: five other subjects, three with
the same question and two with another (S2_match or not). 14 or all (about 30) primary trials of one half of the
recording, early or late, the other half to test; 4, 10, 20 or all (48 to 60) trials a secondary, with both classes.
Every repetition draws secondaries and trials anew (seeds: subject, repetition); smaller sets are parts of larger ones.
Inputs: 30 principal components, fitted without labels on all trials.

The GPs have the same priors, in units of the column scales of the same table; "single, own scales" is what a user gets
who has no table but the primary's. Log loss with probabilities kept in [1e-6, 1 - 1e-6]. Differences are paired: the
mean over repetitions and both directions for each subject, then mean and standard error over subjects. Focused: Z at
the primary's inputs, as in the paper. In the first repetition only: the paper's reference methods; "every relation
kept", the focused model without the rule that a relation has to add a nat (`focused_search.LABEL_RELATION_COST`);
and, with the early half as training half, both focused models with shuffled secondary labels: what no information
gives. These are paired with single-task on the same draws.
Every finished fit goes to out/leen2011_classification.jsonl and is not repeated; --fresh starts anew, --report
writes up the directions and repetitions that are complete, without a new fit. The tables of
docs/papers/focused_classification.md are written from here too.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

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
from borrow.models import focused_search
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


def focused() -> FocusedGPClassifier:
    return FocusedGPClassifier(primary="primary", inducing="primary")


#: In every repetition; in the first only; in the first and with the early half as training half only.
TRANSFER = {"focused": focused, "pooled": PooledGPClassifier, "pooled, same question": PooledGPClassifier}
EXTRAS = {
    "focused, every relation kept": focused,
    "shared structure": SharedStructureClassifier,
    "Dirichlet process": DirichletProcessClassifier,
    "regularized": RegularizedMultiTaskClassifier,
}
SHUFFLED = {"focused, shuffled labels": focused, "focused, every relation kept, shuffled labels": focused}
MAKE: dict[str, Any] = TRANSFER | EXTRAS | SHUFFLED
FOCUSED = [name for name, make in MAKE.items() if make is focused]
METHODS = ("single", "single, own scales", "logistic", *MAKE)


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
            Cs=np.logspace(-4, 2, 7),
            cv=folds,
            scoring="neg_log_loss",
            max_iter=1000,
            l1_ratios=(0.0,),
            use_legacy_attributes=False,
        )
    return make_pipeline(StandardScaler(), model).fit(X, y).predict_proba(X_test)[:, 1]


@dataclass(frozen=True)
class Problem:
    """A table of labelled trials of all tasks, and the primary's other half."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def own(self) -> np.ndarray:
        return self.task == "primary"

    def shuffled(self, seed: int) -> Problem:
        """Every secondary's labels in another order: the same shares, no information."""
        rng, y = np.random.default_rng(seed), self.y.copy()
        for t in np.unique(self.task[~self.own]):
            y[self.task == t] = rng.permutation(y[self.task == t])
        return replace(self, y=y)

    def same_question(self) -> Problem:
        """Without the secondaries that ask another question."""
        same = ~np.char.endswith(self.task, "S2_match")
        return replace(self, X=self.X[same], y=self.y[same], task=self.task[same])


def table_of(subject: int, early: bool, repetition: int, few: bool, count: int) -> Problem:
    """The problem of one primary; the draw depends on subject and repetition alone."""
    trials = load_eeg()
    subjects = np.unique(trials.subject)
    rng = np.random.default_rng([repetition, subject])
    others = rng.permutation(np.delete(subjects, subject))[: len(QUESTIONS)]
    answers = {q: trials.condition == q for q in set(QUESTIONS)}
    halves = {
        h: ordered(rng, np.flatnonzero((trials.subject == subjects[subject]) & (trials.early == h)), answers["S1_obj"])
        for h in (True, False)
    }
    train, test = halves[early][: FEW if few else None], halves[not early]
    asked = list(zip(others, QUESTIONS, strict=True))
    rows = [train] + [ordered(rng, np.flatnonzero(trials.subject == s), answers[q])[:count] for s, q in asked]
    labels = [answers[q][r] for q, r in zip(("S1_obj", *QUESTIONS), rows, strict=True)]
    names = ["primary", *(f"{i} {q}" for i, q in enumerate(QUESTIONS))]
    return Problem(
        trials.X[np.concatenate(rows)],
        np.concatenate(labels).astype(int),
        np.repeat(names, [len(r) for r in rows]),
        trials.X[test],
        answers["S1_obj"][test].astype(int),
    )


def one_job(subject: int, early: bool, repetition: int, few: bool, count: int) -> dict:
    """All methods on one problem."""
    problem = table_of(subject, early, repetition, few, count)
    X_own, y_own = problem.X[problem.own], problem.y[problem.own]
    X_test, y_test = problem.X_test, problem.y_test
    alone = SingleTaskGPClassifier().fit(X_own, y_own)
    found = {
        "single": scores(y_test, single(X_own, y_own, column_scales(problem.X, np.ones(len(problem.X))), X_test)),
        "single, own scales": scores(y_test, alone.predict_proba(X_test)[:, 1]),
        "logistic": scores(y_test, logistic(X_own, y_own, X_test)),
    }
    problems = dict.fromkeys(TRANSFER, problem) | {"pooled, same question": problem.same_question()}
    if repetition == 0:
        problems |= dict.fromkeys(EXTRAS, problem)
        if early:
            problems |= dict.fromkeys(SHUFFLED, problem.shuffled(subject))
    record: dict[str, Any] = {
        "subject": subject,
        "early": early,
        "repetition": repetition,
        "few": few,
        "count": count,
        "scores": found,
        "seconds": {},
        "rho": {},
        "warnings": {},
    }
    for name, p in problems.items():
        cost = 0.0 if "every relation" in name else focused_search.LABEL_RELATION_COST
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught, patch.object(focused_search, "LABEL_RELATION_COST", cost):
            warnings.simplefilter("always")
            model = MAKE[name]().fit(p.X, p.y, tasks=p.task)
            probability = model.predict_proba(X_test, tasks=np.full(len(X_test), "primary"))[:, 1]
        record["seconds"][name] = time.perf_counter() - start
        record["warnings"][name] = len(caught)
        found[name] = scores(y_test, probability)
        if name in FOCUSED:
            record["rho"][name] = [model.rho_[t] for t in model.tasks_ if t != "primary"]
    return record


def key(record: dict) -> tuple:
    return tuple(record[k] for k in ("subject", "early", "repetition", "few", "count"))


def collect(repetitions: int, quick: bool, fresh: bool, report: bool) -> list[dict]:
    """Run what is not yet in the file, append each job as it comes."""
    path = ROOT / "out" / "leen2011_classification.jsonl"
    path.parent.mkdir(exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)
    done = {key(r): r for r in map(json.loads, path.read_text().splitlines())} if path.exists() else {}
    subjects = range(0, 16, 4 if quick else 1)
    counts = (4, 20) if quick else COUNTS
    jobs = [
        (s, early, r, few, count)
        for r in range(1 if quick else repetitions)
        for early in (True, False)
        for s in subjects
        for few in (True, False)
        for count in counts
    ]
    open_jobs = [job for job in jobs if job not in done and not report]
    with path.open("a") as file:
        for record in Parallel(n_jobs=2, return_as="generator_unordered")(delayed(one_job)(*j) for j in open_jobs):
            done[key(record)] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
    whole = {(j[1], j[2]) for j in jobs} - {(j[1], j[2]) for j in jobs if j not in done}
    return [done[job] for job in jobs if (job[1], job[2]) in whole]


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
    d = np.where(np.abs(d) < 1e-4, 0.0, d)  # the same fit but for rounding
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
            rho = np.array([r["rho"]["focused"] for r in part])
            table.append(
                {
                    "primary trials": FEW if few else "all",
                    "trials a secondary": "all" if count == ALL else count,
                    "problems": len(part),
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
                        m: round(float(np.median([r["seconds"][m] for r in part if m in r["seconds"]])), 3)
                        for m in MAKE
                    },
                    "optimiser warnings, focused": int(sum(r["warnings"]["focused"] for r in part)),
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
    "focused, every relation kept": (figures.COLOURS["focused"], figures.DASHES),
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


PAGE = ROOT / "docs" / "papers" / "focused_classification.md"
BEGIN, END = "<!-- written by the study: begin -->\n", "<!-- written by the study: end -->\n"


def markdown(content: dict) -> str:
    """The tables of the page."""
    table = content["table"]
    sizes = [f"{r['primary trials']} / {r['trials a secondary']}" for r in table]
    lines = [
        f"{content['repetitions']} repetition(s), {content['directions']} direction(s), "
        f"{min(r['problems'] for r in table)} problems a cell or more. Columns: primary trials / trials a secondary.",
        "",
    ]
    for metric in METRICS:
        lines += [f"| {metric} | " + " | ".join(sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
        for m in METHODS:
            lines.append(f"| {m} | " + " | ".join(f"{r['mean'][m][metric]:.3f}" for r in table) + " |")
        lines.append("")
    lines += ["| log loss less single-task's (standard error; subjects better of 16) | " + " | ".join(sizes) + " |"]
    lines.append("|---" * (len(sizes) + 1) + "|")
    for m in METHODS[1:]:
        ds = [r["against single"][m]["log loss"] for r in table]
        cells = [f"{d['difference']:+.3f} ({d['standard error']:.3f}; {d['subjects better']})" for d in ds]
        lines.append(f"| {m} | " + " | ".join(cells) + " |")
    ds = [r["focused against pooled"] for r in table]
    cells = [f"{d['difference']:+.3f} ({d['standard error']:.3f}; {d['subjects better']})" for d in ds]
    lines += ["| focused, less pooled | " + " | ".join(cells) + " |", "", "| | " + " | ".join(sizes) + " |"]
    lines.append("|---" * (len(sizes) + 1) + "|")
    for name in ("relations kept, same question", "relations kept, other question"):
        lines.append(f"| {name} | " + " | ".join(f"{r[name]:.2f}" for r in table) + " |")
    lines += ["", "| target missed | cell | value | limit |", "|---|---|---|---|"]
    for t in content["targets"]:
        if not t["met"]:
            lines.append(f"| {t['target']} | {t['cell']} | {t['value']:+.4g} | {t['limit']:+.4g} |")
    met = sum(t["met"] for t in content["targets"])
    lines += ["", f"{met} of {len(content['targets'])} targets met.", ""]
    return "\n".join(lines)


def update_page(content: dict) -> None:
    """Put the tables between the marks of the page, if it is there."""
    if PAGE.exists():
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + markdown(content) + END + rest.split(END)[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="four subjects, two cells, one repetition; writes nothing")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="forget earlier fits")
    parser.add_argument("--report", action="store_true", help="no new fits")
    arguments = parser.parse_args()
    records = collect(arguments.repetitions, arguments.quick, arguments.fresh, arguments.report)
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
        "problems a cell, of 16 subjects x 2 directions x repetitions": [row["problems"] for row in table],
        "repetitions": len({r["repetition"] for r in records}),
        "directions": len({r["early"] for r in records}),
        "seeds": "[repetition, number of the subject]",
        "targets": checked,
        "table": table,
    }
    write_result("leen2011_classification", content)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(figure_5(table), FIGURES / "leen2011_classification")
    update_page(content)


if __name__ == "__main__":
    main()
