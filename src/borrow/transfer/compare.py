"""`compare`: every method on the same folds of the task that matters, hyper-parameters refitted in every fold."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from borrow import __version__
from borrow.data.labels import did_you_mean, list_labels
from borrow.numerics.progress import Progress
from borrow.transfer.comparison import Comparison, record_key
from borrow.transfer.folds import LEAST_ROWS, SCORINGS, SHORT, Job, evaluate, is_splitter, read_cv, splits_of
from borrow.transfer.ledger import Ledger
from borrow.transfer.methods import choose
from borrow.transfer.problem import Problem, plain, read_problem
from borrow.transfer.relations import relations_of

#: Up to so many secondaries `leave_out="auto"` leaves each out in turn, on all folds or on those of the first repeat.
ALL_FOLDS_UP_TO, LEAVE_OUT_UP_TO = 3, 8


def compare(
    table: Any,
    target: str,
    task: str,
    primary: Any = None,
    methods: Any = "auto",
    *,
    cv: Any = None,
    scoring: str | None = None,
    features: Any = None,
    kind: str = "auto",
    leave_out: Any = "auto",
    n_jobs: int | None = None,
    random_state: Any = 0,
    store: str | os.PathLike[str] | None = None,
    progress: Any = None,
) -> Comparison:
    """Does the other data help? Compare methods that borrow with no transfer, on the task that matters.

    Parameters
    ----------
    table : a data frame, or a dict of columns; one row an observation. The target may be missing, nothing else may.
    target, task : columns that hold the target and the name of the task. Text, truth values and two whole numbers are
        labels (classification), other numbers are for regression; `kind` says it outright.
    primary : the task that matters; None compares for every task in turn.
    methods : "auto" for all that apply, or keys of `borrow.transfer.methods.LABELS`; no transfer is always there.
    cv : None (repeated folds that suit the primary's rows), folds, (folds, repeats), or a scikit-learn splitter. Only
        the primary's rows are split; all rows of the other tasks are there in every fold.
    scoring : "mae", "mse", "rmse"; for labels "brier", "error", "log".
    features : input columns; None takes every other column.
    kind : "auto" (by the target, as above), "regression" or "classification".
    leave_out : whether to fit again without each secondary: "auto" does so where borrowing helps, on all folds with up
        to three of them and on those of the first repeat with up to eight; True on all folds in any case, False never.
    n_jobs : fits at once, through joblib: `joblib.parallel_config(backend=...)` works as elsewhere.
    random_state : seeds the folds and the methods.
    store : a file that results are appended to as they come; a run that was killed goes on from it.
    progress : True or False shows or hides how far it is; None shows it on a terminal; or a function of (done, total).
    """
    problem = read_problem(table, target, task, features, kind)
    return compare_problem(problem, primary, methods, cv, scoring, leave_out, n_jobs, random_state, store, progress)


def compare_problem(
    problem: Problem,
    primary: Any = None,
    methods: Any = "auto",
    cv: Any = None,
    scoring: str | None = None,
    leave_out: Any = "auto",
    n_jobs: int | None = None,
    random_state: Any = 0,
    store: str | os.PathLike[str] | None = None,
    progress: Any = None,
) -> Comparison:
    """`compare` for a table that was read."""
    keys, skipped = choose(problem, methods)
    primaries = read_primaries(problem, primary)
    error = read_scoring(scoring, problem.kind)
    if leave_out not in ("auto", True, False):
        raise ValueError(f"leave_out={leave_out!r}: expected 'auto', True or False")
    seed = read_seed(random_state)
    folds = {p: splits_of(problem, p, cv, seed) for p in primaries}
    first = folds[primaries[0]]
    shape = read_cv(cv, len(problem.rows_of(primaries[0]))) or (len(first), 1)
    about = {
        "kind": problem.kind,
        "target": problem.target,
        "task": problem.task,
        "features": list(problem.features),
        "tasks": list(problem.labels),
        "rows": [[k, v] for k, v in problem.counts().items()],
        "primaries": primaries,
        "methods": keys,
        "scoring": error,
        "cv": {"folds": shape[0], "repeats": shape[1]},
        "seed": seed,
        "digest": problem.digest(),
        "versions": versions(),
        "classes": list(problem.classes),
        "skipped": skipped,
    }
    settings = {k: about[k] for k in ("primaries", "methods", "scoring", "cv", "seed")}
    settings |= {"leave_out": leave_out, "splitter": repr(cv) if is_splitter(cv) else None}
    header = {"borrow": __version__, "digest": about["digest"], "settings": settings, "about": about}
    with Ledger(store, header) as ledger, warnings.catch_warnings():
        lines = list(ledger.done)
        jobs = [Job(p, m, split) for p in primaries for split in folds[p] for m in keys]
        _work(problem, jobs, error, seed, n_jobs, lines, ledger, progress, "fits")
        if "focused" in keys:
            _relate(problem, primaries, seed, n_jobs, lines, ledger)
        more = _leaving_out(Comparison.of_lines(about, lines), folds, leave_out)
        _work(problem, more, error, seed, n_jobs, lines, ledger, progress, "fits without one secondary")
    return Comparison.of_lines(about, lines)


def _leaving_out(so_far: Comparison, folds: dict[Any, list[Any]], leave_out: Any) -> list[Job]:
    """Fits without one secondary, for the method that the verdict is about."""
    jobs = []
    for p in so_far.primaries:
        others = [t for t in so_far.tasks if t != p]
        verdict = so_far.verdict(p)
        if leave_out is False or verdict.best is None or (len(others) == 1):  # without the only one is no transfer
            continue
        if leave_out == "auto" and (verdict.answer != "helps" or len(others) > LEAVE_OUT_UP_TO):
            continue
        every = leave_out is True or len(others) <= ALL_FOLDS_UP_TO
        chosen = [s for s in folds[p] if every or s.repeat == 0]
        jobs += [Job(p, verdict.best, split, t) for t in others for split in chosen]
    return jobs


def _work(
    problem: Problem,
    jobs: Sequence[Job],
    error: str,
    seed: int,
    n_jobs: int | None,
    lines: list[dict[str, Any]],
    ledger: Ledger,
    progress: Any,
    what: str,
) -> None:
    """Do what is not done yet; every result is on the disk as soon as it is there."""
    done = {record_key(r) for r in lines if "method" in r}
    left = [job for job in jobs if job.key not in done]
    if not left:
        return
    tell = _teller(progress, len(left), what)
    calls = [joblib.delayed(evaluate)(problem, job, error, seed) for job in left]
    for i, record in enumerate(_results(calls, n_jobs), 1):
        ledger.write(record)
        lines.append(record)
        tell(i)


def _relate(
    problem: Problem, primaries: list[Any], seed: int, n_jobs: int | None, lines: list[dict[str, Any]], ledger: Ledger
) -> None:
    """How the secondaries are related, from the focused model on all rows."""
    done = {r["primary"] for r in lines if "relations" in r}
    calls = [joblib.delayed(relations_of)(problem, p, seed) for p in primaries if p not in done]
    for found in _results(calls, n_jobs):
        ledger.write(found)
        lines.append(found)


def _results(calls: list[Any], n_jobs: int | None) -> Iterator[Any]:
    """Results as they come; from a backend that cannot hand them over one by one, in portions."""
    if not calls:
        return
    try:
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    except ValueError:
        portion = 4 * max(joblib.effective_n_jobs(n_jobs), 1)
        for i in range(0, len(calls), portion):
            yield from joblib.Parallel(n_jobs=n_jobs)(calls[i : i + portion])
        return
    yield from parallel(calls)


def _teller(progress: Any, total: int, what: str) -> Callable[[int], None]:
    if callable(progress):
        return lambda done: progress(done, total)
    return Progress(total, what, progress)


def read_primaries(problem: Problem, primary: Any) -> list[Any]:
    """The task that matters, or every task that has rows enough."""
    counts = problem.counts()
    if len(counts) < 2:
        only = problem.labels[0]
        raise ValueError(f"column {problem.task!r} names one task only, {only!r}; there is nothing to borrow from")
    if primary is not None:
        primary = plain(primary)
        if primary not in counts:
            hint = did_you_mean(primary, problem.labels)
            raise ValueError(f"primary={primary!r} is not a task; tasks are {list_labels(problem.labels)}{hint}")
        if counts[primary] < LEAST_ROWS:
            raise ValueError(
                f"primary={primary!r} has {counts[primary]} row(s) with a target; a comparison needs at least "
                f"{LEAST_ROWS}, to hold some out"
            )
        return [primary]
    enough = [t for t in problem.labels if counts[t] >= LEAST_ROWS]
    if not enough:
        raise ValueError(f"no task has {LEAST_ROWS} rows with a target; a comparison holds some rows out")
    if few := [t for t in problem.labels if counts[t] < LEAST_ROWS]:
        warnings.warn(
            f"task {list_labels(few, 4)} has fewer than {LEAST_ROWS} rows with a target and cannot be compared for; "
            "it stays as a secondary",
            UserWarning,
            stacklevel=3,
        )
    return enough


def read_scoring(scoring: Any, kind: str) -> str:
    """The full name of an error."""
    known = SCORINGS[kind]
    if scoring is None:
        return known[0]
    name = SHORT.get(scoring, scoring)
    if name not in known:
        short = [k for k, v in SHORT.items() if v in known]
        raise ValueError(f"scoring={scoring!r}: expected {list_labels(short)} for {kind}")
    return name


def read_seed(random_state: Any) -> int:
    """A whole number that can be written down."""
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def versions() -> dict[str, str]:
    """Of what the figures depend on."""
    names = ("numpy", "scipy", "scikit-learn")
    found = {name: importlib.metadata.version(name) for name in names}
    return {"borrow": __version__, "python": platform.python_version(), **found}
