"""What the paper leaves to its user: the base kernel's parameters, tau, the noise, when to stop.

Plain EM is not safe: its noise estimate collapses and the learnt covariance overfits (docs/papers/hierarchical.md). So
a quarter of each task's rows is held out, EM runs on the rest for a few settings, and its answers for the held-out
rows are scored after every iteration. The best setting, with its number of iterations, is then run on all rows;
learning nothing (tau infinite, K = kappa) is always among them. EM's own objective cannot choose: it sees the rows that
K was fitted to, and so do leave-one-out residuals, from the second iteration on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import rankdata

from borrow.data.cells import Cells, Codes
from borrow.inference import em, priors
from borrow.kernels import Kernel
from borrow.models.hierarchical.basis import Basis
from borrow.models.hierarchical.device import base_objective_there
from borrow.models.hierarchical.model import (
    Answer,
    Moments,
    Problem,
    State,
    Strengths,
    arrange,
    expect,
    log_hyper_prior,
    maximise,
    start,
    stretch,
)
from borrow.models.hierarchical.spread import SpreadBase, SpreadGroups, base_shard, with_columns
from borrow.numerics import optimise as hyper
from borrow.numerics.device import Device
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Optimum, Values
from borrow.tasks.workers import Workers

#: Rows are held out a quarter at a time; EM sees one quarter only where an iteration needs more than `CHEAP` products.
FOLDS = 4
CHEAP = 2e9
#: Settings stop when the held-out score has not risen for this many iterations.
PATIENCE = 2
#: tau in units of the number of tasks; the next is tried while it pays.
TAUS = (1.0, 0.25, 0.05)
#: Noise in units of the base kernel's mean variance, where it is chosen and not learnt.
NOISES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: Rows of a task that the base kernel's parameters are learnt from, at most.
ROWS_FOR_KERNEL = 500

#: One score a task, NaN for tasks that have none.
Score = Callable[[list[Answer], list[Array], float], Array]


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
        if problem.spread is not None:
            problem.spread.report(moments.evidence + prior)
        return moments, moments.evidence + prior

    done = em.run(
        start(problem.basis, noise),
        e_step,
        lambda state, moments: maximise(state, moments, problem, strengths),
        max_iter,
        tol * problem.n_rows,
        stretch if accelerate else None,
    )
    return replace(done, statistics=with_columns(done.state, problem, done.statistics))


def base_objective(kernel: Kernel, X: Any, cells: Cells, workers: Workers | None = None) -> Objective:
    """log evidence of all tasks as independent functions of one kernel and noise: K = kappa, mu = 0.

    bK_l = 1/2 (a a' - A^-1) with A = k(X_l, X_l) + noise/count, a = A^-1 y, summed over the tasks of equal rows.
    """
    problem = arrange(Basis(kernel, X, np.eye(0), np.eye(0)), _thinned(cells))
    groups = SpreadBase(workers, X, problem)

    def objective(values: Values) -> tuple[float, Values]:
        at, noise = kernel.with_theta(values["kernel"]), float(np.exp(values["noise"][0]))
        total, by_theta, by_noise = groups.total(base_shard, (at, noise))
        total += problem.log_constant - 0.5 * (problem.dof * np.log(2 * np.pi * noise) + problem.scatter / noise)
        by_noise += 0.5 * (problem.scatter / noise - problem.dof)
        return total, {"kernel": by_theta, "noise": np.array([by_noise])}

    return objective


def fit_base(
    kernel: Kernel,
    noise: float,
    X: Any,
    cells: Cells,
    scales: Array,
    prior: str | None,
    max_iter: int,
    workers: Workers | None = None,
    device: Device | None = None,
) -> tuple[Kernel, float, Optimum]:
    """Kernel parameters and noise that explain the tasks as independent functions."""
    begin: Values = {"kernel": kernel.theta, "noise": np.log([noise])}
    rough = {**begin, "kernel": begin["kernel"] + np.log(0.2) * kernel.marks("lengthscale")}
    if device is None or sparse.issparse(X):
        objective = base_objective(kernel, X, cells, workers)
    else:
        objective = base_objective_there(kernel, X, _thinned(cells), device)
    if prior is not None:
        on = {"kernel": priors.kernel_prior(kernel, scales), "noise": priors.noise_prior(1)}
        objective = hyper.with_prior(objective, priors.independent_priors(on))
    bounds = hyper.bounds_around(begin, {"noise": float(np.log(NOISE_FLOOR))})
    starts = [begin, rough] if kernel.marks("lengthscale").any() else [begin]
    optimum = hyper.race(objective, starts, bounds, max_iter)
    return kernel.with_theta(optimum.values["kernel"]), float(np.exp(optimum.values["noise"][0])), optimum


def _thinned(cells: Cells) -> Cells:
    """At most so many cells a task, evenly taken."""
    sizes = np.diff(cells.starts)
    if sizes.max(initial=0) <= ROWS_FOR_KERNEL:
        return cells
    at = [
        cells.starts[t] + np.unique(np.linspace(0, n - 1, min(n, ROWS_FOR_KERNEL)).astype(np.intp))
        for t, n in enumerate(sizes)
        if n
    ]
    kept = np.concatenate(at)
    starts = np.searchsorted(kept, cells.starts)
    return replace(cells, X=cells.X[kept], y=cells.y[kept], count=cells.count[kept], starts=starts)


@dataclass(frozen=True)
class Held:
    """Rows put aside, and the problem without them; for each of its groups tasks, positions and targets."""

    rest: Problem
    tasks: list[Codes]
    positions: list[Codes]
    targets: list[Array]


def hold_out(cells: Cells, problem: Problem, random: np.random.RandomState) -> list[Held]:
    """Each quarter of the cells of each group of tasks in turn.

    A task with two values of y, alone in its group, gives a quarter of each: rare labels are held out too.
    """
    fold = np.full(len(cells.y), -1)
    for tasks in (g.tasks for g in problem.groups):
        first = cells.of(int(tasks[0]))
        n = first.stop - first.start
        kinds = np.unique(cells.y[first]) if len(tasks) == 1 else np.zeros(1)
        parts = [np.flatnonzero(cells.y[first] == k) for k in kinds] if len(kinds) == 2 else [np.arange(n)]
        for part in parts:
            if n > 1:
                quarter = (np.arange(len(part)) + random.randint(FOLDS)) % FOLDS
                mixed = random.permutation(part)
                for t in tasks:
                    fold[cells.starts[t] + mixed] = quarter
    folds = [fold == k for k in range(FOLDS)]
    held = [_put_aside(cells, problem.basis, mask) for mask in folds if mask.any() and not mask.all()]
    if problem.spread is None:
        return held
    return [replace(h, rest=replace(h.rest, spread=SpreadGroups(problem.spread.workers))) for h in held]


def few_of(folds: list[Held], problem: Problem) -> list[Held]:
    """The folds that EM is run on: all where an iteration is cheap, else one."""
    flops = sum(len(g.Y) for g in problem.groups) * float(len(problem.basis.prior)) ** 2
    return folds if flops < CHEAP else folds[:1]


def _put_aside(cells: Cells, basis: Basis, mask: Any) -> Held:
    rest = arrange(basis, cells, ~mask)
    position = cells.X[:, 0].astype(np.intp)
    positions, targets = [], []
    for g in rest.groups:
        at = [np.flatnonzero(mask[cells.of(int(t))]) + cells.starts[t] for t in g.tasks]
        positions.append(position[at[0]])
        targets.append(np.column_stack([cells.y[a] for a in at]))
    return Held(rest, [g.tasks for g in rest.groups], positions, targets)


def log_density(answers: list[Answer], targets: list[Array], noise: float) -> Array:
    """Mean log density of the held-out rows of each task."""
    out = []
    for (mean, variance), y in zip(answers, targets, strict=True):
        v = (variance + noise)[:, None]
        density = -0.5 * ((y - mean) ** 2 / v + np.log(2 * np.pi * v))
        out.append(density.mean(axis=0) if len(y) else np.full(y.shape[1], np.nan))
    return np.concatenate(out)


def ranking(answers: list[Answer], targets: list[Array], noise: float) -> Array:
    """Area under the ROC curve of each task; NaN where its held-out rows have one label only."""
    areas = []
    for (mean, _), y in zip(answers, targets, strict=True):
        for f, own in zip(mean.T, y.T, strict=True):
            above = own > own.mean() if len(own) else np.zeros(0, dtype=bool)
            n, k = len(own), int(above.sum())
            ranks = rankdata(f)[above].sum() - 0.5 * k * (k + 1)
            areas.append(ranks / (k * (n - k)) if 0 < k < n else np.nan)
    return np.array(areas)


@dataclass(frozen=True)
class Choice:
    """A setting, its number of iterations, its held-out score and answers, and the scores of all settings."""

    tau: float
    noise: float
    n_iter: int
    score: float
    answers: list[list[Answer]]  # of each fold
    spread: float  # root mean square of the functions over all labelled inputs
    tried: list[dict[str, float]]


def spread(problem: Problem, state: State, moments: Moments) -> float:
    """Root mean square of the tasks' functions over all labelled inputs."""
    Phi, m = problem.basis.Phi, problem.m
    if moments.sums is not None:
        crossed = np.multiply.outer(state.mu, moments.sums[1])
        S = moments.sums[0] + crossed + crossed.T + m * np.multiply.outer(state.mu, state.mu)
        squares = np.trace(S) if Phi is None else np.einsum("ij,ij->", Phi @ S, Phi)
        return float(np.sqrt(squares / (m * len(S if Phi is None else Phi))))
    theta = state.mu[:, None] + moments.D[:, np.concatenate([g.tasks for g in problem.groups])]
    f = theta if problem.basis.Phi is None else problem.basis.Phi @ theta
    return float((f**2).mean()) ** 0.5


def path(folds: list[Held], strengths: Strengths, noise: float, score: Score, n_iter: int) -> Iterator[Any]:
    """EM on the rest of every fold, in step: after each iteration the scores by task, the answers, the spread."""
    states = [start(f.rest.basis, noise) for f in folds]
    for i in range(n_iter + 1):
        all_moments = [expect(s, f.rest, i < n_iter, f.positions) for s, f in zip(states, folds, strict=True)]
        by_task = np.full((len(folds), folds[0].rest.n_tasks), np.nan)
        for k, (s, f, moments) in enumerate(zip(states, folds, all_moments, strict=True)):
            by_task[k, np.concatenate(f.tasks)] = score(moments.held, f.targets, s.noise)
        seen = np.isfinite(by_task).any(axis=0)
        size = float(np.mean([spread(f.rest, s, m) for f, s, m in zip(folds, states, all_moments, strict=True)]))
        yield i, np.nanmean(by_task[:, seen], axis=0), [m.held for m in all_moments], size
        if i < n_iter:
            parts = zip(states, all_moments, folds, strict=True)
            states = [maximise(s, moments, f.rest, strengths) for s, moments, f in parts]


def choose(
    folds: list[Held],
    few: list[Held],
    strengths: Strengths,
    taus: tuple[float, ...],
    noises: tuple[float, ...],
    score: Score,
    margin: float,
    max_iter: int,
) -> Choice:
    """The setting whose answers for held-out rows score best.

    Every noise is tried with K = kappa on all folds, which is cheap; then, on few of them, the best noise and the next
    smaller one with tau after tau until one is worse than the one before. Learning must beat not learning by `margin`
    standard errors of the gain over tasks.
    """
    tried: list[dict[str, float]] = []
    for noise in noises:
        value = float(next(path(folds, strengths, noise, score, 0))[1].mean())
        tried.append({"tau": np.inf, "noise": noise, "n_iter": 0, "score": value})
    at = int(np.argmax([t["score"] for t in tried]))
    _, base, answers, size = next(path(few, strengths, noises[at], score, 0))
    best = Choice(np.inf, noises[at], 0, float(base.mean()), answers, size, tried)
    for noise in noises[max(at - 1, 0) : at + 1]:
        before = -np.inf
        for tau in taus:
            peak, when = -np.inf, 0
            for i, by_task, answers, size in path(few, replace(strengths, tau=tau), noise, score, max_iter):
                value, gain = float(by_task.mean()), by_task - base
                tried.append({"tau": tau, "noise": noise, "n_iter": i, "score": value})
                sure = gain.mean() >= margin * gain.std() / np.sqrt(max(len(gain) - 1, 1))
                if i > 0 and sure and value > best.score:
                    best = Choice(tau, noise, i, value, answers, size, tried)
                if value > peak:
                    peak, when = value, i
                if i - when >= PATIENCE:
                    break
            if peak < before:
                break
            before = peak
    return best
