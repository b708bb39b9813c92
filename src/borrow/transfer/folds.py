"""Which rows are held out, and one fit: from a method, a training set and a test set to a record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from borrow.data.cells import Codes
from borrow.data.labels import list_labels
from borrow.numerics.linalg import Array
from borrow.numerics.threads import one_thread
from borrow.numerics.warned import capture_warnings
from borrow.transfer.problem import Problem, plain

#: Short and full names of the errors of predictions. The first of each kind is the default.
SCORINGS = {
    "regression": {"mae": "mean absolute error", "mse": "mean squared error", "rmse": "root mean squared error"},
    "classification": {"brier": "Brier score", "error": "error rate", "log": "log loss"},
}
#: What tells records, and jobs, apart.
KEY = ("primary", "method", "repeat", "fold", "left_out")
#: What a record holds beside its key; None in all of them where the fit failed.
ANSWERS = {
    "regression": ("error", "log_density", "coverage", "mean", "std"),
    "classification": ("error", "log_density", "calibration", "probability"),
}
LEAST_ROWS = 3
BAND = 0.9
#: Probabilities of exactly 0 are counted as this in the log density.
LEAST_PROBABILITY = 1e-6


@dataclass(frozen=True)
class Split:
    """Held-out rows of the primary, as positions in the table."""

    repeat: int
    fold: int
    train: Codes
    test: Codes


@dataclass(frozen=True)
class Job:
    """One fit."""

    primary: Any
    method: str
    split: Split
    left_out: Any = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells jobs apart, in the order of `KEY`."""
        return self.primary, self.method, self.split.repeat, self.split.fold, self.left_out


def record_key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """The key of the job that a record is of."""
    return tuple(record[k] for k in KEY)


def read_scoring(scoring: Any, kind: str) -> str:
    """The full name of an error."""
    names = SCORINGS[kind]
    if scoring is None:
        return next(iter(names.values()))
    name = names.get(scoring, scoring)
    if name not in names.values():
        raise ValueError(f"scoring={scoring!r}: expected {list_labels(list(names))} for {kind}")
    return name


def default_cv(n: int) -> tuple[int, int]:
    """Folds and repeats for n rows of the primary: leave-one-out below 10, 5 x 3 up to 200, then 5 x 2.

    At equal cost few folds with more repeats have the narrower interval: its square goes with 1/repeats + 5/4.
    """
    return (n, 1) if n < 10 else (5, 3) if n <= 200 else (5, 2)


def read_cv(cv: Any, n: int) -> tuple[int, int] | None:
    """(folds, repeats), or None where cv is a splitter."""
    if cv is None:
        return default_cv(n)
    if is_splitter(cv):
        return None
    pair = (cv, 1) if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool) else cv
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(v, (int, np.integer)) for v in pair):
        raise ValueError(f"cv={cv!r}: expected None, a number of folds, (folds, repeats), or a scikit-learn splitter")
    folds, repeats = map(int, pair)
    if not 2 <= folds <= n or repeats < 1:
        raise ValueError(f"cv={cv!r}: expected 2 to {n} folds (the primary has {n} rows) and at least one repeat")
    return folds, repeats


def is_splitter(cv: Any) -> bool:
    """A scikit-learn splitter (text has a `split` too)."""
    return hasattr(cv, "split") and not isinstance(cv, str)


def splits_of(problem: Problem, primary: Any, cv: Any, seed: int) -> list[Split]:
    """Folds of the primary's rows, the same for every method; of labels, stratified where each fold can have each."""
    rows = problem.rows_of(primary)
    shape, y = read_cv(cv, len(rows)), problem.y[rows]
    y = y if problem.kind == "regression" else y.astype(str)
    if shape is not None:
        enough = problem.kind == "classification" and np.unique(y, return_counts=True)[1].min() >= shape[0]
        kind = RepeatedStratifiedKFold if enough else RepeatedKFold
        cv = kind(n_splits=shape[0], n_repeats=shape[1], random_state=seed)
    parts = list(cv.split(problem.X[rows], y))
    folds = len(parts) if shape is None else shape[0]
    return [Split(i // folds, i % folds, rows[train], rows[test]) for i, (train, test) in enumerate(parts)]


def evaluate(problem: Problem, job: Job, scoring: str, seed: int) -> dict[str, Any]:
    """Fit on everything but the held-out rows, predict these, and say how it went. Failure is data too."""
    held = problem.all_of(job.primary) & problem.seen
    held[job.split.train] = False  # every row of the primary with a target that is not for training
    if job.left_out is not None:
        held |= problem.all_of(job.left_out)
    test = job.split.test
    record: dict[str, Any] = {
        **dict(zip(KEY, job.key, strict=True)),
        "n_train": len(job.split.train),
        "n_test": len(test),
        "rows": test.tolist(),
        "y": problem.y[test].tolist(),
        "failure": None,
    }
    train = problem.take(np.flatnonzero(~held))
    started = time.thread_time()  # a fit is one thread, and others may be busy on the machine
    with capture_warnings() as said, one_thread():
        try:
            record |= _held_out(train.fit(job.method, job.primary, seed), problem, job, scoring)
        except Exception as failure:  # one method that fails must not take the others with it
            record |= {**dict.fromkeys(ANSWERS[problem.kind]), "failure": f"{type(failure).__name__}: {failure}"}
    return {**record, "seconds": time.thread_time() - started, "warnings": said}


def _held_out(model: Any, problem: Problem, job: Job, scoring: str) -> dict[str, Any]:
    """The held-out rows of a job predicted, and how well."""
    test, classes = job.split.test, problem.classes
    X, y, tasks = problem.X[test], problem.y[test], [job.primary] * len(test)
    if problem.kind == "regression":
        mean, std = model.predict(X, tasks, return_std=True, include_noise=True)
        return score_numbers(y, mean, std, scoring)
    probability = np.zeros((len(test), len(classes)))
    probability[:, [classes.index(plain(c)) for c in model.classes_]] = model.predict_proba(X, tasks)
    return score_labels(np.array([classes.index(v) for v in y]), probability, scoring)


def score_numbers(y: Array, mean: Array, std: Array, scoring: str) -> dict[str, Any]:
    """Error, log density per row, share inside the 90 % band."""
    std = np.maximum(std, np.finfo(float).tiny)
    e = np.asarray(y, dtype=float) - mean
    z = e / std
    error = np.abs(e).mean() if scoring == "mean absolute error" else (e**2).mean()
    return {
        "error": float(np.sqrt(error) if scoring.startswith("root") else error),
        "log_density": float(np.mean(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2.0 * np.pi))),
        "coverage": float(np.mean(np.abs(z) <= ndtri(0.5 + BAND / 2))),
        "mean": mean.tolist(),
        "std": std.tolist(),
    }


def score_labels(code: Codes, probability: Array, scoring: str) -> dict[str, Any]:
    """Error, log probability per row, and how much surer the answers are than right.

    The Brier score is scikit-learn's: of two classes the squared error of one probability, of more their sum.
    """
    truth = np.eye(probability.shape[1])[code]
    right = np.argmax(probability, axis=1) == code
    density = float(np.log(np.maximum(probability[np.arange(len(code)), code], LEAST_PROBABILITY)).mean())
    errors = {
        "Brier score": float(((probability - truth) ** 2).sum(axis=1).mean()) / (2.0 if truth.shape[1] == 2 else 1.0),
        "error rate": float(1.0 - right.mean()),
        "log loss": -density,
    }
    return {
        "error": errors[scoring],
        "log_density": density,
        "calibration": float(probability.max(axis=1).mean() - right.mean()),
        "probability": probability.tolist(),
    }
