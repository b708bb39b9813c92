"""`compare`: every method on the same folds of the task that matters, hyper-parameters refitted in every fold.

`quick_look` fits each method once and leaves rows out in closed form.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time as clock
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from borrow import __version__
from borrow.data.labels import did_you_mean, list_labels
from borrow.data.table import Table
from borrow.estimators.settings import Allowed, check_allowed, check_seed, is_number, is_whole, one_of
from borrow.numerics.progress import Progress
from borrow.numerics.threads import one_thread
from borrow.numerics.warned import capture_warnings, warn
from borrow.tasks.workers import end_with
from borrow.transfer.attribute import EXACT_UP_TO, coalitions, pairs, relations_of
from borrow.transfer.comparison import Comparison
from borrow.transfer.decide import HELPS, PROBABLY_HELPS, ROPE
from borrow.transfer.folds import (
    LEAST_ROWS,
    Job,
    Split,
    evaluate,
    is_splitter,
    left_out,
    read_scoring,
    record_key,
    score_numbers,
    splits_of,
)
from borrow.transfer.inputs import read_wanted, replicates_note, shift_weights
from borrow.transfer.ledger import Ledger, open_ledger, refuse_odd_lines
from borrow.transfer.methods import (
    ALONE,
    MOST_ROWS_ALONE,
    NO_TRANSFER,
    REFERENCES,
    choose,
    declared,
    drops,
    method_for,
)
from borrow.transfer.problem import TASK, VALUE, Fits, Problem, json_label, read_problem
from borrow.transfer.unseen import UnseenProblem, choose_unseen

#: Up to so many secondaries `leave_out="auto"` says what each is worth, where rows are left out in closed form; in
#: folds, where a set of them costs as many fits as there are folds, up to `EXACT_UP_TO`.
LEAVE_OUT_UP_TO = 8
#: What arguments of `compare` may be.
ALLOWED: Allowed = {
    "unseen": one_of("error", "population", said="'error', or 'population' to hold out whole tasks"),
    "leave_out": one_of("auto", True, False, said="'auto', True or False"),
    "rope": (
        lambda v: is_number(v) and 0.0 <= v < 1.0,
        "a part of the error, from 0 to less than 1, that makes no difference",
    ),
    "max_minutes": (
        lambda v: v is None or (isinstance(v, (int, float, np.number)) and not isinstance(v, bool) and bool(v > 0)),
        "a positive number, or None for as long as it takes",
    ),
    "n_jobs": (
        lambda v: v is None or is_whole(abs(v) if is_number(v) else v, 1),
        "the number of fits at once, -1 for one per core, or None",
    ),
}
COARSE = "coarse: three folds, dealt once"
OPTIMISTIC = "optimistic: hyper-parameters were learnt with the rows that are left out"


def compare(
    table: Any,
    target: str | None = None,
    task: str | None = None,
    primary: Any = None,
    methods: Any = "auto",
    *,
    targets: Any = None,
    cv: Any = None,
    scoring: str | None = None,
    features: Any = None,
    kind: str = "auto",
    leave_out: Any = "auto",
    n_jobs: int | None = None,
    random_state: Any = 0,
    store: str | os.PathLike[str] | None = None,
    progress: Any = None,
    group: str | None = None,
    time: str | None = None,
    wanted: Any = None,
    max_minutes: float | None = None,
    unseen: str = "error",
    rope: float = ROPE,
) -> Comparison:
    """Does the other data help? Compare methods that borrow with no transfer, on the task that matters.

    Parameters
    ----------
    table : a data frame, or a dict of columns; one row per observation. The target may be missing; text, dates and gaps
        in the inputs are encoded (`borrow.TableEncoder`). Or a `borrow.transfer.problem.Problem`, which was read from
        one already.
    target, task : columns that hold the target and the name of the task. Text, truth values and two whole numbers are
        labels (classification), other numbers are for regression; `kind` says it outright.
    targets : columns that are a task each, instead of target and task: a wide table.
    primary : the task that matters; None compares for every task in turn.
    methods : "auto" for all that apply, or keys of `borrow.transfer.methods.LABELS`, and estimators of scikit-learn as
        (name, estimator), given the task as columns of zeros and ones, or (name, estimator, "primary"), given the
        primary's rows only. No transfer and the references (mean and ridge of the primary, ridge with a slope per task)
        are always there.
    cv : None (repeated folds that suit the primary's rows), folds, (folds, repeats), or a scikit-learn splitter. Only
        the primary's rows are split; all rows of the other tasks are there in every fold.
    scoring : "mae", "mse", "rmse"; for labels "brier", "error", "log".
    features : input columns; None takes every column that is no target, task, group or time.
    kind : "auto" (by the target, as above), "regression" or "classification".
    leave_out : whether to fit the method that won to sets of the secondaries, to say what each is worth: "auto" does so
        where borrowing helps or probably helps and there are two to eight of them (five where rows cannot be left out
        in closed form: labels, groups, times); True in any case, False never.
    n_jobs : fits at once, through joblib: `joblib.parallel_config(backend=...)` works as elsewhere.
    random_state : seeds the folds and the methods.
    store : a file that results are appended to as they come; a run that was killed goes on from it.
    progress : True or False shows or hides how far it is; None shows it on a terminal; or a function of (done, total).
    group : column that says which rows belong together (a patient, a batch): folds keep them together, and each group
        counts as one in the interval. It is no input unless `features` names it.
    time : column of numbers or dates: the past predicts the future. Each fold is a block of time; rows of every task
        from its beginning on are held out. It is no input unless `features` names it.
    wanted : rows (a frame or array of inputs) that will be asked for: rows of the primary count by how much they are
        like them, and it is said where the wanted ones lie outside what was measured.
    max_minutes : after so many minutes no further fit is begun; the answer is from those that are done.
    unseen : "population" asks how well a task is predicted that was never seen: every task in turn is held out whole
        (`cv` makes folds of tasks), methods that tell tasks apart answer for the population of the others, and have to
        beat those that take all tasks for one; each task counts as one in the interval. There is no primary then.
    rope : half the width of the region of practical equivalence, as a part of the error without the other data:
        differences that are smaller make no difference to you.

    Examples
    --------
    >>> import borrow
    >>> x = [0.1 * i for i in range(24)]
    >>> table = {"x": x, "site": ["here"] * 8 + ["there"] * 16, "level": [v * (2 - v) for v in x]}
    >>> found = borrow.compare(table, target="level", task="site", primary="here", methods=["pooled"], cv=2)
    >>> found.table()["method"]
    ['single', 'mean', 'ridge', 'ridge_tasks', 'pooled']
    >>> found.verdict().primary
    'here'
    """
    problem = read_problem(table, target, task, features, kind, targets=targets, group=group, time=time)
    if odd := [name for name in (problem.target, problem.task) if not isinstance(name, str)]:
        raise ValueError(f"the column {odd[0]!r} has no text for a name, by which a comparison is kept; rename it")
    how = {"unseen": unseen, "leave_out": leave_out, "rope": rope, "max_minutes": max_minutes, "n_jobs": n_jobs}
    check_allowed(how, ALLOWED)
    digest, rows = problem.digest(), int(problem.seen.sum())
    if unseen == "population":
        problem = UnseenProblem.of(problem, primary)
        keys, skipped, own, alone = choose_unseen(problem.kind, rows, methods)
        primaries, cv, leave_out = [problem.new], problem.folds(cv), False
    else:
        keys, skipped, own = choose(problem.kind, rows, methods)
        alone = [m for m in keys if m in ALONE or (m in own and own[m][1] == "primary")]
        primaries = read_primaries(problem, primary)
    error = read_scoring(scoring, problem.kind)
    seed, until = read_seed(random_state), clock.monotonic() + 60.0 * float(max_minutes or inf)
    folds = {p: splits_of(problem, p, cv, seed) for p in primaries}
    first = folds[primaries[0]]
    notes, weights = [[p, text] for p in primaries for text in replicates_note(problem, p)], []
    asked = None if wanted is None else read_wanted(wanted, problem)
    if asked is not None:
        for p in primaries:
            mine, said = shift_weights(problem, p, asked)
            weights += mine
            notes += [[p, text] for text in said]
    planned = Comparison(
        kind=problem.kind,
        target=problem.target,
        task=problem.task,
        features=list(problem.columns),
        tasks=list(problem.counts()),
        rows=problem.counts(),
        primaries=primaries,
        methods=keys,
        scoring=error,
        cv={"folds": sum(s.repeat == 0 for s in first), "repeats": first[-1].repeat + 1},
        seed=seed,
        digest=digest,
        versions=versions(),
        records=[],
        classes=list(problem.classes),
        skipped=skipped,
        encoding=[] if problem.encoder is None else problem.encoder.report().splitlines(),
        alone=alone,
        own=list(own),
        row_weights=weights,
        clusters=clusters_of(problem, folds),
        notes=notes,
        unseen=unseen,
        rope=float(rope),
        group=problem.group,
        time=problem.time,
        targets=list(dict.fromkeys(problem.tasks)) if (problem.target, problem.task) == (VALUE, TASK) else [],
    )
    about = planned.about()
    settings = {
        **{k: about[k] for k in ("primaries", "methods", "scoring", "cv", "seed", "row_weights", "rope")},
        "leave_out": leave_out,
        "splitter": repr(cv) if is_splitter(cv) else None,
        "own": {name: repr(found) for name, found in own.items()},
    }
    header = {"borrow": __version__, "digest": about["digest"], "settings": settings, "about": about}
    fits = Fits() if len(primaries) == 1 else None  # of very many tasks they would fill the memory
    bare = replace(problem, frame=None, more=own, wanted=asked, fits=fits)  # what travels to other processes
    with open_ledger(store, header) as ledger, warnings.catch_warnings():
        refuse_odd_lines(store, about, ledger.done)
        work = _Work(about, ledger, n_jobs, progress, until)
        order = sorted(keys, key=lambda m: m not in alone)  # a method is finished before the next is begun
        jobs = [Job(p, m, s) for m in order for p in primaries for s in folds[p] if s.repeat == 0]
        work.fit(bare, jobs, error, seed, "fits")
        whole = [Job(p, m, left_out_of(bare, p), ()) for p in primaries for m in in_closed_form(bare, order)]
        work.fit(bare, whole, error, seed, "fits to all rows")
        going_on = {p: methods_to_repeat(work.so_far(), p, cv is None) for p in primaries}
        jobs = [Job(p, m, s) for p in primaries for m in going_on[p] for s in folds[p]]
        work.fit(bare, jobs, error, seed, "fits of further repeats")
        if method_for("relations") in keys:
            related = {r["primary"] for r in work.lines if "relations" in r}
            work.do([joblib.delayed(relations_of)(bare, p, seed) for p in primaries if p not in related])
        if leave_out is not False:
            for what in ("fits to some of the secondaries", "fits to pairs of them"):
                if jobs := _worth(work.so_far(), bare, folds, leave_out):
                    work.fit(bare, jobs, error, seed, what)
    if work.stopped:
        late = f"The {max_minutes:g} minutes were over before everything was fitted: {work.stopped} fits were left out."
        work.about, work.found = {**about, "notes": [*notes, *([p, late] for p in primaries)]}, None
    found = work.so_far()
    found.fits.update({key: fit for key, fit in (fits or {}).items() if key[0] not in ALONE})
    return found


def methods_to_repeat(so_far: Comparison, primary: Any, by_default: bool) -> list[str]:
    """Methods that go on to further repeats: those without the other data, and of the others the one that is judged.

    Weights are those of the first repeat, so that further ones change neither them nor which method is judged. By
    default none goes on where the one that is judged has fits to all rows to be judged by.
    """
    judged = so_far.verdict(primary).best
    if by_default and judged is not None and not np.isnan(so_far.evidence(primary, judged)):
        return []
    return [m for m in so_far.complete(primary) if m in (*so_far.alone, judged)]


def clusters_of(problem: Problem, folds: Mapping[Any, list[Split]]) -> list[list[Any]]:
    """What counts as one: rows of a group, or those of a block of time."""
    if problem.times is not None:
        return [[int(i), f"block {s.fold}"] for splits in folds.values() for s in splits for i in s.test]
    if problem.groups is None:
        return []
    return [[int(i), problem.groups[i]] for p in folds for i in problem.rows_of(p)]


def _worth(so_far: Comparison, problem: Problem, folds: Mapping[Any, list[Split]], leave_out: Any) -> list[Job]:
    """Fits of the method that a verdict is about to sets of the secondaries, as far as they are known to be needed."""
    jobs = []
    for p, v in so_far.verdicts().items():
        others = so_far.others(p)
        if v.best is None or len(others) == 1:  # with the only one and without it has been fitted
            continue
        closed = has_closed_form(problem, v.best)
        few = len(others) <= (LEAVE_OUT_UP_TO if closed else EXACT_UP_TO)
        if leave_out == "auto" and not (few and v.answer in (HELPS, PROBABLY_HELPS)):
            continue
        known, sets = so_far.losses(p, v.best), coalitions(others, so_far.seed)
        splits = [left_out_of(problem, p)] if closed else [s for s in folds[p] if s.repeat == 0]
        for S in [*sets, *(pairs(others, known) if known.keys() >= {*sets} else [])]:
            method, left = so_far.fit_of(p, v.best, S, closed)
            jobs += [Job(p, method, split, left) for split in splits]
    return jobs


def left_out_of(problem: Problem, primary: Any) -> Split:
    """One fit to all rows, in which each row of the primary is left out in closed form."""
    rows = problem.rows_of(primary)
    return Split(0, 0, rows, rows, closed=True)


def in_closed_form(problem: Problem, keys: list[str]) -> list[str]:
    """Methods that are fitted to all rows, to see a relation: those that relate the tasks, and those they have to beat.

    No transfer is fitted to every task for it, which is not done for tasks of very many rows.
    """
    relating = [m for m in keys if drops(problem.kind, m)]
    found = [m for m in keys if m in (*ALONE, *relating)] if has_closed_form(problem, NO_TRANSFER) else []
    few = max(problem.counts().values()) <= MOST_ROWS_ALONE
    return found if few and relating else []


def has_closed_form(problem: Problem, method: str) -> bool:
    """Whether one fit predicts each row without it, and nothing else has to be held out with it."""
    return problem.groups is problem.times is None and leaves_out(problem.kind, method)


def leaves_out(kind: str, method: str) -> bool:
    """Whether the fits of a method say what they would predict for each row without it."""
    return (found := declared(kind, method)) is not None and hasattr(found.estimator, "left_out_at")


class _Work:
    """Calls made at once, each result on the disk as soon as it is there; `lines` holds all there are."""

    def __init__(
        self, about: Mapping[str, Any], ledger: Ledger, n_jobs: int | None, progress: Any, until: float
    ) -> None:
        self.about, self.ledger, self.n_jobs, self.progress, self.until = about, ledger, n_jobs, progress, until
        self.lines, self.stopped = list(ledger.done), 0
        self.found: Comparison | None = None  # what these lines say, once it was asked for

    def so_far(self) -> Comparison:
        """What the lines say, which is judged once until there are more of them."""
        self.found = self.found or Comparison.of_lines(self.about, self.lines)
        return self.found

    def fit(self, problem: Problem, jobs: list[Job], error: str, seed: int, what: str) -> None:
        """Do the jobs that are not done yet."""
        done = {record_key(r) for r in self.lines if "method" in r}
        left = [job for job in jobs if job.key not in done]
        told = self.progress
        tell = (lambda i: told(i, len(left))) if callable(told) else Progress(len(left), what, told)
        self.do([joblib.delayed(evaluate)(problem, job, error, seed) for job in left], tell)

    def do(self, calls: list[Any], tell: Callable[[int], None] = lambda done: None) -> None:
        """Make the calls and keep what they return."""
        done = 0
        for found in _results(calls, self.n_jobs, self.until):
            self.ledger.write(found)
            self.lines.append(found)
            self.found = None
            done += 1
            tell(done)
        self.stopped += len(calls) - done


def _results(calls: list[Any], n_jobs: int | None, until: float) -> Iterator[Any]:
    """Results as they come, none begun after `until`; in portions from a backend that cannot hand them over singly."""
    if not calls:
        return
    calls = [(_in_worker, (os.getpid(), *call), {}) for call in calls]
    portion = max(joblib.effective_n_jobs(n_jobs), 1)
    if until == inf:
        try:
            parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        except ValueError:
            portion *= 4
        else:
            yield from parallel(calls)
            return
    for i in range(0, len(calls), portion):
        if clock.monotonic() >= until:
            return
        yield from joblib.Parallel(n_jobs=n_jobs)(calls[i : i + portion])


def _in_worker(parent: int, f: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """One call, in this process or in one that ends when this one is gone."""
    end_with(parent)
    return f(*args, **options)


def read_primaries(problem: Problem, primary: Any) -> list[Any]:
    """The task that matters, or every task that has rows enough."""
    counts = problem.counts()
    if len(counts) < 2:
        only = problem.labels[0]
        raise ValueError(f"column {problem.task!r} names one task only, {only!r}; there is nothing to borrow from")
    if primary is not None:
        primary = json_label(primary)
        if primary not in counts:
            hint = did_you_mean(primary, problem.labels)
            raise ValueError(f"primary={primary!r} is not a task; tasks are {list_labels(problem.labels)}{hint}")
        if counts[primary] < LEAST_ROWS:
            raise ValueError(
                f"primary={primary!r} has {counts[primary]} row(s) with a target; a comparison needs at least "
                f"{LEAST_ROWS}, to hold some out"
            )
        if constant := only_target(problem, primary):
            raise ValueError(f"primary={primary!r} has {constant}: nothing can be judged on it; choose another primary")
        return [primary]
    few = [t for t in problem.labels if counts[t] < LEAST_ROWS]
    alike = [t for t in problem.labels if t not in few and only_target(problem, t)]
    enough = [t for t in problem.labels if t not in (*few, *alike)]
    if not enough:
        differ = " that differ" if alike else ""
        raise ValueError(f"no task has {LEAST_ROWS} rows with a target{differ}; a comparison holds some rows out")
    reasons = {f"fewer than {LEAST_ROWS} rows with a target": few, "the same target in all its rows": alike}
    for why, tasks in reasons.items():
        if tasks:
            warn(f"task {list_labels(tasks, 4)} has {why} and cannot be compared for; it stays as a secondary")
    return enough


def only_target(problem: Problem, label: Any) -> str:
    """Words for a task whose rows all have one target, on which no method can be told from another; else nothing."""
    found = set(problem.y[problem.rows_of(label)].tolist())
    if len(found) != 1:
        return ""
    what = "a constant target" if problem.kind == "regression" else "one class only"
    return f"{what}, {found.pop()!r} in all its {problem.counts()[label]} rows with a target"


def read_seed(random_state: Any) -> int:
    """A whole number that can be written down."""
    check_seed(random_state)
    return int(random_state if is_whole(random_state, 0) else check_random_state(random_state).randint(2**31 - 1))


def versions() -> dict[str, str]:
    """Of what the figures depend on."""
    found = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"borrow": __version__, "python": platform.python_version(), **found}


def quick_look(
    table: Any,
    target: str,
    task: str,
    primary: Any,
    methods: Any = "auto",
    *,
    scoring: str | None = None,
    features: Any = None,
    kind: str = "auto",
    random_state: Any = 0,
) -> Table:
    """Leave-one-out on the primary at hyper-parameters fitted once: fast, and optimistic. Labels: three folds.

    One fit per method, and every row of the primary predicted without it in closed form. Hyper-parameters were learnt
    with the row that is left out, and so were the relations between tasks: the figures are optimistic, more so for
    methods with more to learn. `compare` refits in every fold; this does not. Without a row its label is in closed form
    for no classifier alike: labels get three folds, each fitted anew, which is coarse rather than optimistic.

    Columns: method, error, log_density, coverage (calibration for labels), seconds, note.

    Parameters
    ----------
    table, target, task, primary, methods, scoring, features, kind, random_state : as in `compare`; there must be a
        primary.

    Examples
    --------
    >>> import borrow
    >>> x = [0.1 * i for i in range(24)]
    >>> table = {"x": x, "site": ["here"] * 8 + ["there"] * 16, "level": [v * (2 - v) for v in x]}
    >>> borrow.quick_look(table, "level", "site", "here", methods=["pooled"])["method"]
    ['single', 'pooled']
    """
    problem = replace(read_problem(table, target, task, features, kind), frame=None)
    if problem.kind == "classification":
        more: dict[str, Any] = {"cv": (3, 1), "scoring": scoring, "leave_out": False, "random_state": random_state}
        rough = compare(problem, target, task, primary, methods, **more).table()
        names = ("method", "error", "log_density", "calibration", "seconds")
        return Table({**{n: rough[n] for n in names}, "note": [COARSE] * len(rough["method"])})
    keys, _, _ = choose("regression", int(problem.seen.sum()), methods)
    keys = [key for key in keys if key not in REFERENCES]
    if odd := [key for key in keys if not leaves_out("regression", key)]:
        raise ValueError(f"methods names {list_labels(odd)}, which has no closed form for a row left out; use compare")
    main, error = read_primaries(problem, json_label(primary))[0], read_scoring(scoring, "regression")
    seed = read_seed(random_state)
    rows = []
    for key in keys:
        started = clock.perf_counter()
        with capture_warnings() as said, one_thread():
            scores = score_numbers(*left_out(problem.fit(key, main, seed), problem, main), error)
        about = {"method": key, "seconds": clock.perf_counter() - started, "note": "; ".join([OPTIMISTIC, *said])}
        rows.append({**scores, **about})
    columns = ("method", "error", "log_density", "coverage", "seconds", "note")
    return Table({name: [row[name] for row in rows] for name in columns})
