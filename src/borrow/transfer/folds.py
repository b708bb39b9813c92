"""Which rows are held out, and one fit: from a method, a training set and a test set to a record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from threadpoolctl import threadpool_limits

from borrow.data.cells import Codes
from borrow.numerics.linalg import Array
from borrow.numerics.warned import capture_warnings
from borrow.transfer.alone import AloneClassifier, AloneRegressor
from borrow.transfer.methods import build
from borrow.transfer.problem import Problem, plain

#: Name of an error -> what it is of predictions. The first of each kind is the default.
SCORINGS = {
    "regression": ("mean absolute error", "mean squared error", "root mean squared error"),
    "classification": ("Brier score", "error rate", "log loss"),
}
SHORT = {
    "mae": "mean absolute error",
    "mse": "mean squared error",
    "rmse": "root mean squared error",
    "brier": "Brier score",
    "error": "error rate",
    "log": "log loss",
}
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
        """What tells jobs apart."""
        return self.primary, self.method, self.split.repeat, self.split.fold, self.left_out


def default_cv(n: int) -> tuple[int, int]:
    """Folds and repeats for n rows of the primary: leave-one-out below 10, 5 x 3 up to 200, then 5 x 2.

    At equal cost few folds with more repeats have the narrower interval: its square goes with 1/repeats + 5/4.
    """
    if n < 10:
        return n, 1
    return (5, 3) if n <= 200 else (5, 2)


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
    """Folds of the primary's rows; the same for every method."""
    rows = problem.rows_of(primary)
    n = len(rows)
    shape = read_cv(cv, n)
    y = problem.y[rows]
    if shape is None:
        parts = list(cv.split(problem.X[rows], y if problem.kind == "regression" else y.astype(str)))
        shape = (len(parts), 1)
    else:
        parts = list(_parts(problem.kind, y, *shape, seed))
    folds = shape[0]
    return [Split(i // folds, i % folds, rows[train], rows[test]) for i, (train, test) in enumerate(parts)]


def _parts(kind: str, y: Any, folds: int, repeats: int, seed: int) -> Iterator[tuple[Codes, Codes]]:
    """Shuffled folds; stratified for labels where every fold can have one of each class."""
    if kind == "classification":
        names = y.astype(str)
        if np.unique(names, return_counts=True)[1].min() >= folds:
            yield from RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed).split(y, names)
            return
    yield from RepeatedKFold(n_splits=folds, n_repeats=repeats, random_state=seed).split(y)


def evaluate(problem: Problem, job: Job, scoring: str, seed: int) -> dict[str, Any]:
    """Fit on everything but the held-out rows, predict these, and say how it went. Failure is data too."""
    held = np.zeros(len(problem.tasks), dtype=bool)
    held[problem.rows_of(job.primary)] = True
    held[job.split.train] = False  # every row of the primary with a target that is not for training
    if job.left_out is not None:
        held |= np.array([t == job.left_out for t in problem.tasks])
    train = problem.take(np.flatnonzero(~held))
    test = job.split.test
    record: dict[str, Any] = {
        "primary": job.primary,
        "method": job.method,
        "repeat": job.split.repeat,
        "fold": job.split.fold,
        "left_out": job.left_out,
        "n_train": len(job.split.train),
        "n_test": len(test),
        "rows": test.tolist(),
        "y": problem.y[test].tolist(),
    }
    started = time.thread_time()  # a fit is one thread, and others may be busy on the machine
    with capture_warnings() as said, threadpool_limits(1):
        try:
            answer = _answer(train, problem, job, scoring, seed)
        except Exception as failure:  # one method that fails must not take the others with it
            answer = {**dict.fromkeys(ANSWERS[problem.kind]), "failure": f"{type(failure).__name__}: {failure}"}
    return {**record, "failure": None, **answer, "seconds": time.thread_time() - started, "warnings": said}


def fit_for(train: Problem, key: str, primary: Any, seed: int) -> Any:
    """The method, fitted to the rows of `train`; no transfer fits the primary alone."""
    if key == "single":
        alone = AloneRegressor if train.kind == "regression" else AloneClassifier
        model: Any = alone(primary=primary, random_state=seed)
    else:
        model = build(train.kind, key, None, primary, seed)
    return model.fit(train.X, train.y, tasks=list(train.tasks))


def _answer(train: Problem, problem: Problem, job: Job, scoring: str, seed: int) -> dict[str, Any]:
    test = job.split.test
    model = fit_for(train, job.method, job.primary, seed)
    X, tasks = problem.X[test], [job.primary] * len(test)
    if problem.kind == "regression":
        mean, std = model.predict(X, tasks=tasks, return_std=True, include_noise=True)
        return score_numbers(problem.y[test], mean, std, scoring)
    found = model.predict_proba(X, tasks=tasks)
    probability = np.zeros((len(test), len(problem.classes)))
    probability[:, [problem.classes.index(plain(c)) for c in model.classes_]] = found
    code = np.array([problem.classes.index(v) for v in problem.y[test]])
    return score_labels(code, probability, scoring)


def score_numbers(y: Array, mean: Array, std: Array, scoring: str) -> dict[str, Any]:
    """Error, log density a row, share inside the 90 % band."""
    y = np.asarray(y, dtype=float)
    e = y - mean
    error = np.abs(e).mean() if scoring == "mean absolute error" else (e**2).mean()
    std = np.maximum(std, np.finfo(float).tiny)
    z = e / std
    return {
        "error": float(np.sqrt(error) if scoring.startswith("root") else error),
        "log_density": float(np.mean(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2.0 * np.pi))),
        "coverage": float(np.mean(np.abs(z) <= ndtri(0.5 + BAND / 2))),
        "mean": mean.tolist(),
        "std": std.tolist(),
    }


def score_labels(code: Codes, probability: Array, scoring: str) -> dict[str, Any]:
    """Error, log probability a row, and how much surer the answers are than right."""
    truth = np.eye(probability.shape[1])[code]
    right = np.argmax(probability, axis=1) == code
    density = float(np.log(np.maximum(probability[np.arange(len(code)), code], LEAST_PROBABILITY)).mean())
    errors = {
        "Brier score": float(((probability - truth) ** 2).sum(axis=1).mean()),
        "error rate": float(1.0 - right.mean()),
        "log loss": -density,
    }
    return {
        "error": errors[scoring],
        "log_density": density,
        "calibration": float(probability.max(axis=1).mean() - right.mean()),
        "probability": probability.tolist(),
    }
