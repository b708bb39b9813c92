"""What the paper leaves to its user: tau, the noise, when to stop.

Plain EM is not safe: its noise estimate collapses and the learnt covariance overfits (docs/papers/hierarchical.md). So
a quarter of each task's rows is held out, EM runs on the rest for a few settings, and its answers for the held-out
rows are scored after every iteration. The best setting, with its number of iterations, is then run on all rows;
learning nothing (tau infinite, K = kappa) is always among them. EM's own objective cannot choose: it sees the rows that
K was fitted to, and so do leave-one-out residuals, from the second iteration on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata

from borrow.data.cells import Codes
from borrow.inference import em
from borrow.models.hierarchical.basis import tasks_of_equal_rows
from borrow.models.hierarchical.model import (
    Moments,
    Problem,
    State,
    Strengths,
    expect,
    log_hyper_prior,
    maximise,
    start,
    stretch,
    with_exact_mean,
)
from borrow.numerics.linalg import Array

#: Rows are held out a quarter at a time; EM sees one quarter only where an iteration needs more than `CHEAP` products.
FOLDS = 4
CHEAP = 2e9
#: Settings stop when the held-out score has not risen for this many iterations.
PATIENCE = 2
#: pi, where it is chosen: no common mean, or one that is worth a task.
MEANS = (np.inf, 1.0)
#: tau in units of the number of tasks; the next is tried while it pays.
TAUS = (1.0, 0.25, 0.05, 0.01, 0.002)
#: Noise in units of the base kernel's mean variance, where it is chosen and not learnt.
NOISES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class HeldOutPredictions:
    """What was predicted for the rows held out, and what they are; NaN where a task has no other row."""

    mean: Array
    variance: Array
    y: Array
    task: Codes
    n_tasks: int


#: One score per task, NaN for tasks that have none.
Score = Callable[[HeldOutPredictions, float], Array]


def fit_em(
    problem: Problem,
    strengths: Strengths,
    noise: float,
    max_iter: int,
    tol: float,
    accelerate: bool = False,
) -> em.Run[State, Moments]:
    """EM from K = kappa, mu = 0; `tol` is of the objective per row."""

    def e_step(state: State) -> tuple[Moments, float]:
        prior = log_hyper_prior(state, problem.basis, strengths)  # first: it says where K left its domain
        moments = expect(state, problem)
        problem.tasks.report(moments.evidence + prior)
        return moments, moments.evidence + prior

    return em.run(
        with_exact_mean(start(problem.basis, noise), problem, strengths),
        e_step,
        lambda state, moments: maximise(state, moments, problem, strengths),
        max_iter,
        tol * problem.n_rows,
        stretch if accelerate else None,
    )


def hold_out(problem: Problem, random: np.random.RandomState) -> list[Problem]:
    """The problem without each quarter of the cells of each group of tasks in turn.

    A task with two values of y, alone in its group, gives a quarter of each: rare labels are held out too.
    """
    cells = problem.cells
    fold = np.full(len(cells.y), -1)
    for tasks in tasks_of_equal_rows(cells):
        first = cells.of(tasks[0])
        n = first.stop - first.start
        kinds = np.unique(cells.y[first]) if len(tasks) == 1 else np.zeros(1)
        parts = [np.flatnonzero(cells.y[first] == k) for k in kinds] if len(kinds) == 2 else [np.arange(n)]
        parts.sort(key=lambda part: (len(part), part[0]))  # the rarer label first, whichever it is
        for part in parts:
            if n > 1:
                quarter = (np.arange(len(part)) + random.randint(FOLDS)) % FOLDS
                fold[cells.starts[tasks][:, None] + random.permutation(part)] = quarter
    masks = [fold == k for k in range(FOLDS)]
    return [problem.holding_out(mask) for mask in masks if mask.any() and not mask.all()]


def few_of(folds: list[Problem], problem: Problem) -> list[Problem]:
    """The folds that EM is run on: all where an iteration is cheap, else one."""
    sizes, p = np.diff(problem.cells.starts), len(problem.basis.prior)
    rows = sum(min(int(sizes[tasks[0]]), p) for tasks in tasks_of_equal_rows(problem.cells))
    return folds if rows * float(p) ** 2 < CHEAP else folds[:1]


def log_density(answers: HeldOutPredictions, noise: float) -> Array:
    """Mean log density of the held-out rows of each task."""
    v = answers.variance + noise
    density = -0.5 * ((answers.y - answers.mean) ** 2 / v + np.log(2 * np.pi * v))
    total, n = (np.bincount(answers.task, weights, answers.n_tasks) for weights in (density, None))
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def ranking(answers: HeldOutPredictions, noise: float) -> Array:
    """Area under the ROC curve of each task; NaN where its held-out rows have one label only."""
    areas = np.full(answers.n_tasks, np.nan)
    for t in np.unique(answers.task):
        own = answers.task == t
        y = answers.y[own]
        above = y > y.mean()
        n, k = len(y), int(above.sum())
        if 0 < k < n:
            areas[t] = (rankdata(answers.mean[own])[above].sum() - 0.5 * k * (k + 1)) / (k * (n - k))
    return areas


def ranking_or_density(answers: HeldOutPredictions, noise: float) -> Array:
    """Ranking, or the density where no task can be ranked."""
    areas = ranking(answers, noise)
    return areas if np.isfinite(areas).any() else log_density(answers, noise)


@dataclass(frozen=True)
class Step:
    """What EM on the rest of every fold has come to after some iterations."""

    n_iter: int
    scores: Array  # of the tasks that have one, the mean over folds
    answers: list[HeldOutPredictions]  # of each fold
    size: float  # root mean square of the functions over all labelled inputs
    held: list[Codes]  # cells that each fold holds out

    @property
    def score(self) -> float:
        """The mean over tasks."""
        return float(self.scores.mean())


@dataclass(frozen=True)
class Choice:
    """A setting, where EM had come to when it scored best, and the scores of all settings."""

    pi: float
    tau: float
    noise: float
    step: Step
    tried: list[dict[str, float]]


def path(folds: list[Problem], strengths: Strengths, noise: float, score: Score, n_iter: int) -> Iterator[Step]:
    """EM on the rest of every fold, in step."""
    states = [with_exact_mean(start(f.basis, noise), f, strengths) for f in folds]
    for i in range(n_iter + 1):
        found = [expect(s, f, i < n_iter) for s, f in zip(states, folds, strict=True)]
        answers = [
            HeldOutPredictions(m.mean, m.variance, f.cells.y[f.held], f.cells.task[f.held], f.cells.n_tasks)
            for m, f in zip(found, folds, strict=True)
        ]
        by_task = np.array([score(a, s.noise) for a, s in zip(answers, states, strict=True)])
        seen = np.isfinite(by_task).any(axis=0)
        size = float(np.mean([np.sqrt(m.mean_square) for m in found]))
        yield Step(i, np.nanmean(by_task[:, seen], axis=0), answers, size, [f.held for f in folds])
        if i < n_iter:
            parts = zip(states, found, folds, strict=True)
            states = [maximise(s, moments, f, strengths) for s, moments, f in parts]


def choose(
    folds: list[Problem],
    few: list[Problem],
    strengths: Strengths,
    means: tuple[float, ...],
    taus: tuple[float, ...],
    noises: tuple[float, ...],
    score: Score,
    margin: float,
    max_iter: int,
) -> Choice:
    """The setting whose answers for held-out rows score best.

    Every pi and noise is tried with K = kappa on all folds, which is cheap; then, on few of them, the best pi, its best
    noise and the next smaller one with tau after tau until one is worse than the one before. Learning must beat not
    learning by `margin` standard errors of the gain over tasks.
    """
    tried: list[dict[str, float]] = []
    for pi in means:
        for noise in noises:
            value = next(path(folds, replace(strengths, pi=pi), noise, score, 0)).score
            tried.append({"pi": pi, "tau": np.inf, "noise": noise, "n_iter": 0, "score": value})
    at = int(np.argmax([t["score"] for t in tried]))
    strengths, at = replace(strengths, pi=means[at // len(noises)]), at % len(noises)
    base = next(path(few, strengths, noises[at], score, 0))
    best = Choice(strengths.pi, np.inf, noises[at], base, tried)
    for noise in noises[max(at - 1, 0) : at + 1]:
        before = -np.inf
        for tau in taus:
            peak, when = -np.inf, 0
            for step in path(few, replace(strengths, tau=tau), noise, score, max_iter):
                i, value, gain = step.n_iter, step.score, step.scores - base.scores
                tried.append({"pi": strengths.pi, "tau": tau, "noise": noise, "n_iter": i, "score": value})
                sure = gain.mean() >= margin * gain.std() / np.sqrt(max(len(gain) - 1, 1))
                if i > 0 and sure and value > best.step.score:
                    best = Choice(strengths.pi, tau, noise, step, tried)
                if value > peak:
                    peak, when = value, i
                if i - when >= PATIENCE:
                    break
            if peak < before:
                break
            before = peak
    return best
