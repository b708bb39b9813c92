"""Table 1 and Figure 5 of Leen, Peltonen & Kaski (2011), on EEG: the paper's fMRI recordings were never published.

    python benchmarks/studies/leen2011_classification.py [--repetitions 3] [--methods NAME ...] [--minutes 5]
                                                         [--fresh] [--report] [--small]

Primary: "one picture (S1_obj) or not" of one subject, each of 16 in turn. Secondaries: five other subjects, three with
the same question and two with another (S2_match or not). 14 or all (about 30) primary trials of one half of the
recording, early or late, the other half to test; 4, 10, 20 or all (48 to 60) trials a secondary, with both classes.
Every repetition draws secondaries and trials anew (seeds: repetition, subject); smaller sets are parts of larger ones.
Inputs: 30 principal components, fitted without labels on all trials.

The GPs have the same priors, in units of the column scales of the same table; "single, own scales" is what a user gets
who has no table but the primary's. Log loss with probabilities kept in [1e-6, 1 - 1e-6]. Differences are paired: the
mean over repetitions and both directions for each subject, then mean and standard error over subjects. Focused: our
defaults; "shuffled labels" is the same with every secondary's labels in another order; "maximum likelihood" is the
paper's own model: Z at the primary's inputs, no priors, squared exponentials with variances and lengthscales from 1.
Our defaults were chosen by `leen2011_classification_choice.py`, which scores early trials of the even subjects only;
"chosen settings" of the methods that the paper compares with are chosen there by the same rule from as many settings.

Every finished job (a primary, a direction, a repetition, a size) goes to out/leen2011_classification.jsonl, with its
seed and the commit of every method, and is not repeated; --methods fits these alone beside single-task, --minutes
begins no job after so many, --fresh starts anew, --report writes up what there is, without a new fit. A method is in
the table by the directions and repetitions in which it has been run on all subjects; the record says how many problems
these are. With --methods the others stay as the last record has them, if single-task is the same in both. --small is
two subjects and one secondary size, and writes nothing.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import matplotlib
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from borrow import plot as figures
from borrow.data.scaling import column_scales
from borrow.datasets.shared_data import load_eeg
from borrow.estimators.classifier import binary_data
from borrow.kernels import SquaredExponential
from borrow.models.focused.estimators import FocusedGPClassifier
from borrow.models.gp.estimators import PooledGPClassifier, SingleTaskGPClassifier
from borrow.models.multitask.estimators import MultiTaskGPClassifier
from borrow.models.reference.dirichlet_process import DirichletProcessClassifier
from borrow.models.reference.regularized import RegularizedMultiTaskClassifier
from borrow.models.reference.shared_structure import SharedStructureClassifier
from results import FIGURES, RESULTS, ROOT, Records, commits_of, write_result

QUESTIONS = ("S1_obj",) * 3 + ("S2_match",) * 2  # of the five secondaries
ALL = 999
FEW, COUNTS = 14, (4, 10, 20, ALL)
METRICS = ("log loss", "AUC", "error")


def focused() -> FocusedGPClassifier:
    return FocusedGPClassifier(primary="primary")


def literal() -> FocusedGPClassifier:
    """The paper's: squared exponentials with one lengthscale per column from 1, no priors; no relation is dropped."""
    ones = SquaredExponential(1.0, (1.0,) * 30)
    return FocusedGPClassifier(
        primary="primary", inducing="primary", kernel=ones, specific_kernel=ones, prior=None, rho_prior=None
    )


def literal_single() -> SingleTaskGPClassifier:
    """The paper's single-task GP by the same settings."""
    return SingleTaskGPClassifier(kernel=SquaredExponential(1.0, (1.0,) * 30), prior=None)


#: Methods that the paper compares with, whose settings are chosen as ours were.
REFERENCES: dict[str, Any] = {
    "shared structure": SharedStructureClassifier,
    "Dirichlet process": partial(DirichletProcessClassifier, prior_variance=10.0, tol=1e-6),  # the paper's variance
    "regularized": RegularizedMultiTaskClassifier,
}


def chosen_settings() -> dict[str, dict[str, Any]]:
    """By method, what `leen2011_classification_choice.py` found; empty before it was run."""
    path = RESULTS / "leen2011_classification_others.json"
    others = json.loads(path.read_text())["others"] if path.exists() else {}
    return {method: found["chosen"] for method, found in others.items()}


MAKE: dict[str, Any] = {
    "focused": focused,
    "focused, maximum likelihood": literal,
    "single, maximum likelihood": literal_single,
    "pooled": PooledGPClassifier,
    "pooled, same question": PooledGPClassifier,
    "multi-task": MultiTaskGPClassifier,
    **REFERENCES,
    **{f"{m}, chosen settings": partial(REFERENCES[m], **given) for m, given in chosen_settings().items()},
    "focused, shuffled labels": focused,
}
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
    data = binary_data(X, 2.0 * y - 1.0, np.array([0, len(y)]), ("primary",), (X[:0],), scales)
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


def shares_of(model: FocusedGPClassifier, at: np.ndarray) -> list[float]:
    """Of each secondary's prior variance, what comes from the primary's function, with the sign of the relation."""
    shares = []
    for t in (t for t in model.tasks_ if t != "primary"):
        shared, own = (float(k.diag(at)[0]) for k in (model.kernel_, model.specific_kernels_[t]))
        shared *= model.rho_[t] ** 2
        shares.append(float(np.sign(model.rho_[t])) * shared / (shared + own))
    return shares


def one_job(
    subject: int,
    early: bool,
    repetition: int,
    few: bool,
    counts: tuple[int, ...] = COUNTS,
    known: Any = None,
    names: tuple[str, ...] = tuple(MAKE),
) -> list[dict]:
    """All methods, or some, beside single-task on the problems of one primary: one record a size of the secondaries.

    `known` are such records of an earlier run; only the methods that they lack are fitted.
    """
    records = known or [
        {"subject": subject, "early": early, "repetition": repetition, "few": few, "count": count}
        | {"seed": [repetition, subject]}
        | {"seconds": {}, "warnings": {}, "scores": {}}
        for count in counts
    ]
    alone: dict[str, Any] = {}  # whatever the secondaries are
    for record in records:
        missing = [m for m in names if m not in record["seconds"]]
        found = record["scores"]
        if found and not missing:
            continue
        problem = table_of(subject, early, repetition, few, record["count"])
        X_own, y_own, X_test, y_test = problem.X[problem.own], problem.y[problem.own], problem.X_test, problem.y_test
        if not found:
            if not alone:
                p_own = SingleTaskGPClassifier().fit(X_own, y_own).predict_proba(X_test)[:, 1]
                alone = {"single, own scales": scores(y_test, p_own)}
                alone["logistic"] = scores(y_test, logistic(X_own, y_own, X_test))
            scales = column_scales(problem.X, np.ones(len(problem.X)))
            found |= {"single": scores(y_test, single(X_own, y_own, scales, X_test)), **alone}
        for name in missing:
            p = problem.same_question() if "same question" in name else problem
            p = p.shuffled(subject) if "shuffled" in name else p
            p = Problem(X_own, y_own, p.task[p.own], X_test, y_test) if name.startswith("single") else p
            start = time.process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = MAKE[name]().fit(p.X, p.y, tasks=p.task)
                probability = model.predict_proba(X_test, tasks=np.full(len(X_test), "primary"))[:, 1]
            record["seconds"][name] = time.process_time() - start
            record["warnings"][name] = len(caught)
            found[name] = scores(y_test, probability)
            if name == "focused":
                record["rho"] = [model.rho_[t] for t in model.tasks_ if t != "primary"]
                record["share"] = shares_of(model, p.X[:1])
    return records


def collect(
    repetitions: int,
    small: bool,
    fresh: bool,
    path: Path,
    names: tuple[str, ...] = tuple(MAKE),
    minutes: float = np.inf,
) -> list[dict]:
    """Run what is not yet in the file, append each job as it comes; what stays is of whole directions by method."""
    kept, until = Records(path, fresh), time.monotonic() + 60.0 * minutes
    done = {tuple(r["job"]): r["records"] for r in kept}
    jobs = [
        (subject, early, r, few)
        for r in range(1 if small else repetitions)
        for early in ((True,) if small else (True, False))
        for subject in (range(2) if small else range(16))
        for few in (True, False)
    ]
    for job in jobs:
        known = done.get(job)
        if time.monotonic() >= until or (known and all(set(names) <= set(r["seconds"]) for r in known)):
            continue
        found = one_job(*job, counts=(4,) if small else COUNTS, known=known, names=names)
        for record in found:
            record["commits"] = {m: record.get("commits", {}).get(m, kept.commit) for m in record["scores"]}
        done[job] = kept.add({"job": job, "records": found})["records"]
    return [record for job in jobs for record in whole(job, done, jobs)]


def whole(job: tuple, done: dict[tuple, list[dict]], jobs: list[tuple]) -> list[dict]:
    """The records of a job, less the methods that were not run on every subject of its direction and repetition."""
    beside = [done.get(j, []) for j in jobs if j[1:3] == job[1:3]]
    there = set.intersection(*(set(r["scores"]) for records in beside for r in records or [{"scores": ()}]))
    if "single" not in there:
        return []
    return [{**r, "scores": {m: v for m, v in r["scores"].items() if m in there}} for r in done[job]]


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
        "standard error": round(float(d.std(ddof=1) / np.sqrt(len(d))), 4) if len(d) > 1 else None,
        "subjects better": int(better.sum()),
        "subjects worse": int((d != 0).sum() - better.sum()),
    }


def cell_table(records: list[dict]) -> list[dict]:
    """By size of primary and secondaries: every method over the problems on which it was run."""
    table, methods = [], [m for m in METHODS if any(m in r["scores"] for r in records)]
    for few in (True, False):
        for count in sorted({r["count"] for r in records}):
            part = [r for r in records if r["few"] == few and r["count"] == count]
            table.append(
                {
                    "primary trials": FEW if few else "all",
                    "trials a secondary": "all" if count == ALL else count,
                    "problems": {m: sum(m in r["scores"] for r in part) for m in methods},
                    "mean": {m: {k: round(float(by_subject(part, m, k).mean()), 4) for k in METRICS} for m in methods},
                    "against single": {
                        m: {k: paired(part, m, k, "single") for k in METRICS} for m in methods if m != "single"
                    },
                    "median seconds": {
                        m: round(float(np.median([r["seconds"][m] for r in part if m in r["scores"]])), 3)
                        for m in methods
                        if m in MAKE
                    },
                    "fits with a warning": {
                        m: int(sum(r["warnings"][m] > 0 for r in part if m in r["scores"]))
                        for m in methods
                        if m in MAKE
                    },
                    **(about_focused(part) if "focused" in methods else {}),
                }
            )
    return table


def about_focused(part: list[dict]) -> dict[str, Any]:
    """What is said of the focused model alone, in one cell."""
    shares = np.array([r["share"] for r in part if "focused" in r["scores"]])
    untouched = {
        "late trials": [r for r in part if r["early"]],
        "odd subjects": [r for r in part if r["subject"] % 2],
    }
    return {
        "focused against pooled": paired(part, "focused", "log loss", "pooled"),
        "focused against single, untouched by the choice": {
            name: paired(some, "focused", "log loss", "single") for name, some in untouched.items()
        },
        "share of a secondary's function that is the primary's, signed, same and other question": [
            round(float(shares[:, :3].mean()), 3),
            round(float(shares[:, 3:].mean()), 3),
        ],
    }


def with_last(table: list[dict], last: list[dict], again: set[str]) -> list[dict]:
    """The cells of the last record with the methods that were run again in place of what it had of them."""
    merged = []
    for now, before in zip(table, last, strict=True):
        for k in METRICS:
            if abs(now["mean"]["single"][k] - before["mean"]["single"][k]) > 1e-3:
                raise ValueError(f"single-task has another {k} than in the last record: run all methods again")
        row = {**before, **{k: v for k, v in now.items() if k.startswith("focused") and "focused" in again}}
        for k in ("problems", "mean", "against single", "median seconds", "fits with a warning"):
            both = {**before[k], **{m: v for m, v in now[k].items() if m in again}}
            row[k] = {m: both[m] for m in METHODS if m in both}
        merged.append(row)
    return merged


def targets(table: list[dict]) -> list[dict[str, Any]]:
    """What was wanted, and what came out."""
    rows: list[dict[str, Any]] = []

    def check(row: dict, what: str, value: float, limit: float) -> None:
        cell = f"{row['primary trials']} / {row['trials a secondary']}"
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
        if row["primary trials"] == "all" and row["trials a secondary"] == "all":
            check(row, "log loss, focused less pooled", row["focused against pooled"]["difference"], -0.03)
    return rows


#: Lines that the message is about, and the others, in grey.
LINES = {
    "single": (figures.COLOURS["single"], "no transfer"),
    "focused": (figures.COLOURS["focused"], "focused"),
    "pooled": (figures.COLOURS["pooled"], "pooled"),
    "multi-task": ("#009E73", "symmetric"),
}
OTHERS = ("pooled, same question", "focused, shuffled labels", "logistic", "shared structure", "regularized")
OTHERS += tuple(f"{m}, chosen settings" for m in REFERENCES)
#: Titles of the two columns; the figure of the record stands behind them.
TITLES = ("{few} trials of the one: others' trials help", "All its trials: little is left to borrow")


def figure_5(table: list[dict]) -> Figure:
    """Log loss, AUC and error on the test half against the trials a secondary, for few and all primary trials."""
    lines = {m: looks for m, looks in LINES.items() if m in table[0]["mean"]}
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 7.6), layout="constrained")
        axes = figure.subplots(3, 2, sharex=True, sharey="row")
        for column, size in enumerate((FEW, "all")):
            rows = [r for r in table if r["primary trials"] == size]
            x = np.arange(len(rows))
            for ax, metric in zip(axes[:, column], METRICS, strict=True):
                for m in (m for m in OTHERS if all(m in r["mean"] for r in rows)):
                    ax.plot(x, [r["mean"][m][metric] for r in rows], color="#C4C4C4", lw=0.9, zorder=2)
                for m, (colour, label) in lines.items():
                    y = np.array([r["mean"][m][metric] for r in rows])
                    ax.plot(x, y, color=colour, lw=2.0, marker="o", ms=3.5, label=label, zorder=4)
                    if m == "focused":
                        se = np.array([r["against single"][m][metric]["standard error"] for r in rows])
                        ax.fill_between(x, y - se, y + se, color=colour, alpha=0.18, lw=0, zorder=3)
                ax.set_xticks(x, [str(r["trials a secondary"]) for r in rows])
                if column == 0:
                    ax.set_ylabel(metric)
            gain = rows[-1]["mean"]["single"]["log loss"] - rows[-1]["mean"]["focused"]["log loss"]
            axes[0, column].set_title(
                f"{TITLES[column].format(few=FEW)} (log loss {-gain:+.3f})".replace("-", "\u2212")
            )
            axes[2, column].set_xlabel("trials of each of the other people")
        shown = [[r["mean"][m]["log loss"] for m in lines] for r in table]
        axes[0, 0].set_ylim(np.min(shown) - 0.02, np.max(shown) + 0.02)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        handles.append(axes[0, 0].lines[0])
        labels.append("others of the table")
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return figure


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="forget earlier fits")
    parser.add_argument("--report", action="store_true", help="no new fits")
    parser.add_argument("--small", action="store_true", help="two subjects, four trials a secondary; writes nothing")
    parser.add_argument("--store", type=Path, default=ROOT / "out" / "leen2011_classification.jsonl")
    parser.add_argument("--methods", nargs="+", choices=list(MAKE), default=list(MAKE), help="these alone")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no job after so many")
    chosen = parser.parse_args(arguments)
    made_with = {m: repr(make()) for m, make in MAKE.items()}
    minutes = 0.0 if chosen.report else chosen.minutes
    records = collect(chosen.repetitions, chosen.small, chosen.fresh, chosen.store, tuple(chosen.methods), minutes)
    path, again = RESULTS / "leen2011_classification.json", set(chosen.methods)
    last = json.loads(path.read_text()) if path.exists() and again < set(MAKE) and not chosen.small else {}
    table = cell_table(records)
    needed = again if last else {"focused"}
    if not table or not all(needed <= set(row["mean"]) for row in table):
        sys.stdout.write("nothing to write up yet\n")
        return {}
    if last:
        table = with_last(table, last["table"], again)
    for row in table:
        sys.stdout.write(f"\n{row['primary trials']} primary trials, {row['trials a secondary']} a secondary\n")
        for m in row["mean"]:
            means = "  ".join(f"{k} {row['mean'][m][k]:.3f}" for k in METRICS)
            d = row["against single"].get(m, {}).get("log loss")
            tail = "" if d is None else f"  log loss {d['difference']:+.4f} ({d['standard error']:.4f})"
            tail += "" if d is None else f", better {d['subjects better']}, worse {d['subjects worse']}"
            sys.stdout.write(f"  {m:26s} {means}{tail}\n")
    checked = targets(table)
    for row in checked:
        sys.stdout.write(f"{row}\n")
    mine = {m: commits_of({"commit": r["commits"][m]} for r in records if m in r["scores"]) for m in METHODS}
    made = {**last.get("commits by method", {}), **{m: c for m, c in mine.items() if c and (m in again or not last)}}
    content = {
        "data": "UCI EEG Database, SMNI_CMI part: 16 subjects, 924 trials, 30 principal components",
        "repetitions": len({r["repetition"] for r in records}),
        "directions": len({r["early"] for r in records}),
        "seeds": "[repetition, number of the subject]",
        "settings": made_with,
        "commits by method": made,
        "targets": checked,
        "table": table,
    }
    if not chosen.small:
        counts = Counter(last["made by"]["records by commit"] if last else {})
        for m in (m for m in made if m in again or not last):
            counts.subtract(last.get("commits by method", {}).get(m, {}))
            counts.update(made[m])
        write_result("leen2011_classification", content, [{"commit": c} for c in counts.elements()])
        FIGURES.mkdir(parents=True, exist_ok=True)
        figures.save(figure_5(table), FIGURES / "leen2011_classification")
    return content


if __name__ == "__main__":
    main()
