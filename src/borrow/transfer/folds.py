"""Which rows are held out, and one fit: from a method, a training set and a test set to a record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.model_selection import GroupKFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedGroupKFold

from borrow.data.cells import Codes
from borrow.data.labels import list_labels
from borrow.data.plain import to_json
from borrow.estimators.settings import expect
from borrow.numerics.linalg import Array
from borrow.numerics.threads import one_thread
from borrow.numerics.warned import capture_warnings
from borrow.transfer.attribute import relations_in
from borrow.transfer.problem import Problem, json_label

#: Short and full names of the errors of predictions. The first of each kind is the default.
SCORINGS = {
    "regression": {"mae": "mean absolute error", "mse": "mean squared error", "rmse": "root mean squared error"},
    "classification": {"brier": "Brier score", "error": "error rate", "log": "log loss"},
}
#: What tells records, and jobs, apart.
KEY = ("primary", "method", "repeat", "fold", "left_out")
#: What a record holds beside its key; None in all of them where the fit failed.
ANSWERS = {
    "regression": ("error", "log_density", "coverage", "mean", "std", "losses", "log_densities"),
    "classification": ("error", "log_density", "calibration", "probability", "losses", "log_densities"),
}
LEAST_ROWS = 3
BAND = 0.9
#: Inputs where the primary was not measured, at which fits to all rows are compared.
MOST_ELSEWHERE = 200
#: Probabilities of exactly 0 are counted as this in the log density.
LEAST_PROBABILITY = 1e-6
#: What a row, and a fold, may have as log density, so that a sum of them is a number.
LEAST_LOG_DENSITY = -1e6


@dataclass(frozen=True)
class Split:
    """Held-out rows of the primary, as positions in the table; `later` are rows of all tasks that come after them.

    `closed`: one fit to all rows, and each is left out in closed form.
    """

    repeat: int
    fold: int
    train: Codes
    test: Codes
    later: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    closed: bool = False


@dataclass(frozen=True)
class Job:
    """One fit. `left_out`: secondaries that it does without, where what each is worth is asked, and None elsewhere."""

    primary: Any
    method: str
    split: Split
    left_out: tuple[Any, ...] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells jobs apart, in the order of `KEY`."""
        return self.primary, self.method, self.split.repeat, self.split.fold, self.left_out


def record_key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """The key of the job that a record is of."""
    return tuple(tuple(v) if isinstance(v := record[k], list) else v for k in KEY)


def read_scoring(scoring: Any, kind: str) -> str:
    """The full name of an error."""
    names = SCORINGS[kind]
    if scoring is None:
        return next(iter(names.values()))
    name = names.get(scoring, scoring)
    expect(name in names.values(), "scoring", scoring, f"{list_labels(list(names))} for {kind}")
    return name


def default_cv(n: int) -> tuple[int, int]:
    """Folds and repeats for n rows of the primary: leave-one-out below 10, 5 x 4 up to 50, 5 x 3 up to 200, then 5 x 2.

    At equal cost few folds with more repeats have the narrower interval: its square goes with 1/repeats + 5/4.
    """
    return (n, 1) if n < 10 else (5, 4 if n <= 50 else 3 if n <= 200 else 2)


def read_cv(cv: Any, n: int, groups: bool = False) -> tuple[int, int] | None:
    """(folds, repeats), or None where cv is a splitter; n are the primary's rows, or its groups."""
    if cv is None:
        return default_cv(n)
    if is_splitter(cv):
        return None
    pair = (cv, 1) if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool) else cv
    two = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(v, (int, np.integer)) for v in pair)
    expect(two, "cv", cv, "None, a number of folds, (folds, repeats), or a scikit-learn splitter")
    folds, repeats = map(int, pair)
    fits, of = 2 <= folds <= n and repeats >= 1, "groups" if groups else "rows"
    expect(fits, "cv", cv, f"2 to {n} folds (the primary has {n} {of}) and at least one repeat")
    return folds, repeats


def is_splitter(cv: Any) -> bool:
    """A scikit-learn splitter (text has a `split` too)."""
    return hasattr(cv, "split") and not isinstance(cv, str)


def splits_of(problem: Problem, primary: Any, cv: Any, seed: int) -> list[Split]:
    """Folds of the primary's rows, the same for every method; of labels, stratified where each fold can have each.

    Groups are kept together. With times, each fold is a block of time that the rows before it predict.
    """
    rows = problem.rows_of(primary)
    if problem.times is not None:
        return _blocks_of_time(problem, primary, cv)
    y = problem.y[rows] if problem.kind == "regression" else problem.y[rows].astype(str)
    groups = None if problem.groups is None else np.array([str(problem.groups[i]) for i in rows])
    if groups is not None and len(np.unique(groups)) == 1:
        raise ValueError(
            f"all rows of {primary!r} are of one group, so that no fold of them can be held out; how well a task is "
            "predicted that was never seen is asked with unseen='population', without primary and group"
        )
    shape = read_cv(cv, len(rows) if groups is None else len(np.unique(groups)), groups is not None)
    if shape is None:
        parts = list(cv.split(problem.X[rows], y, groups))
        folds = len(parts)
    else:
        folds, repeats = shape
        enough = problem.kind == "classification" and np.unique(y, return_counts=True)[1].min() >= folds
        if groups is not None:
            grouped = StratifiedGroupKFold if enough else GroupKFold
            dealt = [grouped(folds, shuffle=True, random_state=seed + r) for r in range(repeats)]
        else:
            plain_folds = RepeatedStratifiedKFold if enough else RepeatedKFold
            dealt = [plain_folds(n_splits=folds, n_repeats=repeats, random_state=seed)]
        parts = [part for kind in dealt for part in kind.split(problem.X[rows], y, groups)]
    return [Split(i // folds, i % folds, rows[train], rows[test]) for i, (train, test) in enumerate(parts)]


def _blocks_of_time(problem: Problem, primary: Any, cv: Any) -> list[Split]:
    """The primary's rows in order of time, cut into blocks; each is predicted from what was there before it began.

    Rows of the other tasks from the beginning of the block on are held out too: who predicts has not seen them yet.
    """
    rows, times = problem.rows_of(primary), np.asarray(problem.times, dtype=float)
    starts = np.unique(times[rows])
    shape = (min(5, len(starts) - 1), 1) if cv is None and len(starts) > 2 else read_cv(cv, len(starts), True)
    if shape is None:
        raise ValueError("cv is a splitter and time= makes folds of its own; give a number of blocks, or leave out one")
    edges = np.unique(starts[np.linspace(0, len(starts), shape[0] + 2).astype(int)[1:-1]])
    found = []
    for fold, (begin, end) in enumerate(zip(edges, [*edges[1:], np.inf], strict=True)):
        before, inside = times[rows] < begin, (times[rows] >= begin) & (times[rows] < end)
        found.append(Split(0, fold, rows[before], rows[inside], np.flatnonzero(times >= begin)))
    return found


def evaluate(problem: Problem, job: Job, scoring: str, seed: int) -> dict[str, Any]:
    """Fit on everything but the held-out rows, predict these, and say how it went. Failure is data too."""
    held = problem.all_of(job.primary) & problem.seen
    held[job.split.train] = False  # every row of the primary with a target that is not for training
    held[job.split.later] = True
    for label in job.left_out or ():
        held |= problem.all_of(label)
    test = job.split.test
    record: dict[str, Any] = {
        **dict(zip(KEY, job.key, strict=True)),
        "left_out": None if job.left_out is None else list(job.left_out),
        "n_train": len(job.split.train) - job.split.closed,
        "n_test": len(test),
        "rows": test.tolist(),
        "y": problem.y[test].tolist(),
        "failure": None,
    }
    train = problem.take(np.flatnonzero(~held)) if held.any() else problem
    started = time.thread_time()  # a fit is one thread, and others may be busy on the machine
    with capture_warnings() as said, one_thread():
        try:
            model = train.fit(job.method, job.primary, seed, not job.split.closed)
            record |= _held_out(model, problem, job, scoring)
        except Exception as failure:  # one method that fails must not take the others with it
            record |= {**dict.fromkeys(ANSWERS[problem.kind]), "failure": f"{type(failure).__name__}: {failure}"}
    told = [text for text in said if f"never saw the task {job.primary!r}" not in text]  # it was held out whole
    return {**record, "seconds": time.thread_time() - started, "warnings": told}


def _held_out(model: Any, problem: Problem, job: Job, scoring: str) -> dict[str, Any]:
    """The held-out rows of a job predicted, and how well."""
    test, classes = job.split.test, problem.classes
    X, y, tasks = problem.X[test], problem.y[test], [job.primary] * len(test)
    if job.split.closed:
        found = score_numbers(*left_out(model, problem, job.primary), scoring)
        return found if job.left_out else {**found, **of_all_rows(model, problem, job.primary)}
    if problem.kind == "regression":
        mean, std = model.predict(X, tasks, return_std=True, include_noise=True)
        return score_numbers(y, mean, std, scoring)
    probability = np.zeros((len(test), len(classes)))
    probability[:, [classes.index(json_label(c)) for c in model.classes_]] = model.predict_proba(X, tasks)
    return score_labels(np.array([classes.index(v) for v in y]), probability, scoring)


def of_all_rows(model: Any, problem: Problem, primary: Any) -> dict[str, Any]:
    """What else the fit to all rows says: its evidence, predictions where the primary was not measured, relations."""
    evidence = {"evidence": to_json(getattr(model, "log_marginal_likelihood_", None))}
    if hasattr(model, "evidence_of_relations"):
        evidence["evidence of relations"] = model.evidence_of_relations(primary)
    X, mean, std = problem.elsewhere(primary, MOST_ELSEWHERE), np.zeros(0), np.zeros(0)
    if len(X):
        mean, std = model.predict(X, [primary] * len(X), return_std=True, include_noise=True)
    related = {"relations": relations_in(model, primary)} if hasattr(model, "relatedness") else {}
    return {**evidence, "mean elsewhere": mean.tolist(), "std elsewhere": std.tolist(), **related}


def left_out(model: Any, problem: Problem, primary: Any) -> tuple[Array, Array, Array]:
    """Targets of the primary's rows, and mean and standard deviation (of an observation) of each without its input."""
    rows = problem.rows_of(primary)
    y = problem.y[rows]
    return y, *model.left_out_at(problem.X[rows], y, primary)


def score_numbers(y: Array, mean: Array, std: Array, scoring: str) -> dict[str, Any]:
    """Error, log density per row, share inside the 90 % band; losses (squares where their root is the error) by row."""
    std = np.maximum(std, np.finfo(float).tiny)
    e = np.asarray(y, dtype=float) - mean
    z = e / std
    losses = np.abs(e) if scoring == "mean absolute error" else e**2
    density = -0.5 * z**2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)
    return {
        "error": float(np.sqrt(losses.mean()) if scoring.startswith("root") else losses.mean()),
        "log_density": max(float(density.mean()), LEAST_LOG_DENSITY),
        "coverage": float(np.mean(np.abs(z) <= ndtri(0.5 + BAND / 2))),
        "mean": mean.tolist(),
        "std": std.tolist(),
        "losses": losses.tolist(),
        "log_densities": np.maximum(density, LEAST_LOG_DENSITY).tolist(),
    }


def score_labels(code: Codes, probability: Array, scoring: str) -> dict[str, Any]:
    """Error, log probability per row, and how much surer the answers are than right; losses by row.

    The Brier score is scikit-learn's: of two classes the squared error of one probability, of more their sum.
    """
    truth = np.eye(probability.shape[1])[code]
    right = np.argmax(probability, axis=1) == code
    density = np.log(np.maximum(probability[np.arange(len(code)), code], LEAST_PROBABILITY))
    losses = {
        "Brier score": ((probability - truth) ** 2).sum(axis=1) / (2.0 if truth.shape[1] == 2 else 1.0),
        "error rate": 1.0 - right,
        "log loss": -density,
    }[scoring]
    return {
        "error": float(losses.mean()),
        "log_density": float(density.mean()),
        "calibration": float(probability.max(axis=1).mean() - right.mean()),
        "probability": probability.tolist(),
        "losses": losses.tolist(),
        "log_densities": density.tolist(),
    }
