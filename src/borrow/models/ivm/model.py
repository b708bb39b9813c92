"""Multi-task informative vector machine.

N. D. Lawrence, J. C. Platt: Learning to learn with the informative vector machine. ICML 2004.

| symbol             | name here                              | shape                                             |
|--------------------|----------------------------------------|---------------------------------------------------|
| y, X^(m)           | `y`, `X[starts[m]:starts[m + 1]]`      | rows of all tasks stacked; (N,), (N, p)           |
| K^(m)              | `kernel(X^(m))`                        | only columns of it are ever computed              |
| mu, varsigma       | `TaskPosterior.mean`, `.variance`      | (N_m,) each                                       |
| M^(m)              | `TaskPosterior.M`                      | (d_m, N_m), rows sqrt(nu) s                       |
| g, nu              | `Factors.slopes`                       | per candidate                                     |
| I, d               | `Selection.active`                     | (d,), row numbers in order of inclusion           |
| beta, z            | `Selection.tau`, `.z`                  | (d,), precision and mean of the sites             |
| theta              | `values["kernel"]`, `values["noise"]`  | logarithms                                        |

| equation | function                                                                       |
|----------|--------------------------------------------------------------------------------|
| (2), (3) | `select`: slopes of log Z, by `borrow.inference.adf`                           |
| (4), (5) | `select`: updates of mean and variance, by `adf.TaskPosterior.include`         |
| (10)     | `select`: entropy gain of every candidate                                      |
| (11), (12) | `select`: Sigma = K - M'M, s = k - M'a, by `adf.TaskPosterior.include`         |
| (15)     | `select`: algorithm 2, one inclusion touches one task                          |
| (16)     | `condition`: the posterior of each task                                        |
| (13), (14) | `log_evidence`: log N(z; 0, K_I + B^-1) summed over tasks, and its derivatives |
| sec. 5   | `frozen_objective`: what is maximised between two selections                   |

The stored text of the paper lost its displayed equations; numbers are those that its sentences refer to.

Deviations, each with its reason:
- A Gaussian's active rows do not identify the noise: selection looks for rows far from each other. So the noise of a
  regression comes from the rows that were not chosen (`problems.py`), given the chosen ones; `noise_from="active"` is
  the paper's.
- Maximum likelihood on an active set overfits (15 parameters, few rows); by default the weak priors that every
  estimator of this package has are added, `prior=None` is the paper's.
- One round of selection and learning by default; the objectives of different rounds are not comparable and the rounds
  need not settle (`problems.py`). After the last round rows are selected again with the kernel learnt.
- No white-noise term in the probit's kernel: Phi(y (f + e)) with e ~ N(0, w) integrated out is Phi(y f / sqrt(1 + w)),
  so it only rescales the other variances.
- Small tasks are put into one matrix whose entries between tasks are zero (`blocks_of`): the same sum, fewer calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from borrow.covariance import SharedCovariance, SharedPosterior, Sites, evidence_of_rows
from borrow.data.cells import Codes, Stacked
from borrow.inference.adf import Factors, TaskPosterior
from borrow.kernels import Kernel
from borrow.numerics import device as devices
from borrow.numerics.device import Device, place
from borrow.numerics.linalg import Array, is_tensor, to_host
from borrow.numerics.optimise import Objective, Values
from borrow.tasks.placed import PlacedTasks, rows_as_tasks

#: Small tasks share a matrix of at most so many rows.
BLOCK = 64
#: Tasks of at most so many rows have their covariance computed at once, where all of these have few entries.
SMALL, MOST_SMALL = 128, 4e6

Report = Callable[[int], None]
ALL = slice(None)


@dataclass(frozen=True)
class Selection:
    """Chosen rows in order of inclusion, what each told, their sites, and what is then known at every row."""

    active: Codes  # (d,)
    gain: Array  # (d,)
    tau: Array  # (d,)
    z: Array  # (d,)
    score: Array  # (d,), by which each was chosen; NaN where an order was given
    mean: Array | None = None  # (N,); None where shards have chosen, which keep what is known of their rows
    variance: Array | None = None  # (N,)


@dataclass(frozen=True)
class Active(Stacked):
    """The chosen rows stacked by task, in order of inclusion within a task, with their sites."""

    rows: Codes  # (d,), row numbers
    X: Array  # (d, p)
    starts: Codes  # (M + 1,)
    tau: Array  # (d,)
    z: Array  # (d,)

    def tasks(self) -> PlacedTasks:
        """The chosen rows as tasks of this process."""
        device = Device(str(self.X.device)) if is_tensor(self.X) else None
        return rows_as_tasks(to_host(self.X), self.starts, device)


def select(
    kernel: Kernel,
    X: Array,
    starts: Codes,
    factors: Factors,
    d: int,
    order: Codes | None = None,
    report: Report | None = None,
    device: Device | None = None,
) -> Selection:
    """Algorithm 2: include the row, of any task, that lowers the entropy most; ties by row number.

    The best candidate of each task is kept, so an inclusion, with the slopes (2) and (3), computes one column of one
    task's K and s (eqs. (11), (12)), updates that task's means and variances (eqs. (4), (5), (15), (16)) and scores its
    rows again (eq. (10)). O(sum_m d_m^2 N_m), memory sum_m d_m N_m.
    `order` gives the rows to include instead (random sub-sampling, or all of them). Large tasks are on the device.
    """
    spans = [slice(i, j) for i, j in pairwise(starts.tolist())]
    sizes = np.diff(starts)
    small = sizes <= SMALL if float(np.sum(sizes[sizes <= SMALL] ** 2.0)) <= MOST_SMALL else sizes < 0
    places = [device if n >= devices.ALONE_ROWS else None for n in sizes]
    near = [factors.part(at, p) for at, p in zip(spans, places, strict=True)]
    tasks = [_start(kernel, place(X[at], p), bool(w)) for at, p, w in zip(spans, places, small, strict=True)]
    inside = [place(np.zeros(at.stop - at.start, dtype=bool), p) for at, p in zip(spans, places, strict=True)]
    best, row, slopes = np.full(len(spans), -np.inf), [0] * len(spans), [(0.0, 0.0)] * len(spans)

    def score(m: int) -> None:
        """The best candidate of task m."""
        q, own = tasks[m], near[m]
        g, nu = own.slopes(ALL, q.mean, q.variance)  # eqs. 2, 3
        worth = own.score(ALL, nu, q.variance)  # the order of eq. 10
        worth[inside[m]] = -np.inf
        n = int(worth.argmax())
        best[m], row[m], slopes[m] = worth[n], n, (float(g[n]), float(nu[n]))

    if order is None:
        for m in range(len(spans)):
            if len(inside[m]):
                score(m)
    d = min(d, len(X)) if order is None else len(order)
    active, before, scores = np.empty(d, dtype=np.intp), np.empty((2, d)), np.full(d, np.nan)
    task_of = np.repeat(np.arange(len(spans)), np.diff(starts))
    for k in range(d):
        if order is None:
            m = int(best.argmax())  # of all tasks: algorithm 2
            n, (g, nu), scores[k] = row[m], slopes[m], best[m]
        else:
            m = int(task_of[order[k]])
            n = int(order[k]) - spans[m].start
            g, nu = (float(v[0]) for v in near[m].slopes(slice(n, n + 1), *tasks[m].at(n)))
        q = tasks[m]
        active[k], before[0, k], before[1, k] = spans[m].start + n, float(q.mean[n]), float(q.variance[n])
        q.include(n, g, nu)  # eqs. 4, 5, 11, 12, for the one task m as in eqs. 15 to 17
        inside[m][n] = True
        if order is None:
            score(m)
        if report is not None:
            report(k + 1)
    np.maximum(before[1], 0.0, out=before[1])  # rounding
    gains = factors.gain(active, factors.slopes(active, *before)[1], before[1])  # eq. 10
    tau, z = factors.sites(active, *before)
    mean, variance = (np.concatenate([to_host(getattr(q, name)) for q in tasks]) for name in ("mean", "variance"))
    return Selection(active, gains, tau, z, scores, mean, np.maximum(variance, 0.0))


def _start(kernel: Kernel, X: Array, whole: bool) -> TaskPosterior:
    """q(f) of a task before any inclusion: the prior. `whole`: k(X, X) at once when its first column is asked for."""
    K = cache(lambda: kernel(X))
    return TaskPosterior(lambda n: K()[n] if whole else kernel(X, X[n : n + 1])[:, 0], kernel.diag(X))


def gather(selection: Selection, X: Array, starts: Codes) -> Active:
    """The active rows stacked by task."""
    task = np.searchsorted(starts, selection.active, side="right") - 1
    order = np.argsort(task, kind="stable")
    rows = selection.active[order]
    sizes = np.bincount(task, minlength=len(starts) - 1)
    return Active(rows, X[rows], np.concatenate([[0], np.cumsum(sizes)]), selection.tau[order], selection.z[order])


class Block(NamedTuple):
    """Active rows of one task, or of several small ones; `own` is 1 where two rows are of the same task."""

    at: slice
    own: Array | None


def blocks_of(starts: npt.NDArray[np.intp], most: int = BLOCK) -> list[Block]:
    """Tasks next to each other put together while they have at most `most` rows; tasks without rows left out."""
    groups: list[list[int]] = []
    for m in np.flatnonzero(np.diff(starts)).tolist():
        if groups and starts[m + 1] - starts[groups[-1][0]] <= most:
            groups[-1].append(m)
        else:
            groups.append([m])
    out = []
    for group in groups:
        code = np.repeat(np.arange(len(group)), np.diff(starts)[group])
        own = None if len(group) == 1 else (code[:, None] == code).astype(float)
        out.append(Block(slice(int(starts[group[0]]), int(starts[group[-1] + 1])), own))
    return out


def log_evidence(kernel: Kernel, X: Array, blocks: list[Block], tau: Array, z: Array) -> tuple[float, Array, Array]:
    """log N(z; 0, K_I + B^-1), B = diag(tau), summed over tasks (eqs. (13), (14)); by the kernel's theta; by 1/tau."""
    value, by_theta, by_variance = 0.0, np.zeros(kernel.n_theta), np.empty(len(z))
    for at, own in blocks:
        own_value, own_theta, by_variance[at] = evidence_of_rows(kernel, X[at], tau[at], z[at, None], own)
        value, by_theta = value + own_value, by_theta + own_theta  # eqs. 13, 14
    return value, by_theta, by_variance


def frozen_objective(kernel: Kernel, active: Active) -> Objective:
    """Evidence by the kernel's parameters with active rows and sites frozen (sec. 5): what a round maximises."""
    blocks = blocks_of(active.starts)

    def objective(values: Values) -> tuple[float, Values]:
        at = kernel.with_theta(values["kernel"])
        value, by_theta, _ = log_evidence(at, active.X, blocks, active.tau, active.z)  # sec. 5
        return value, {"kernel": by_theta}

    return objective


def condition(kernel: Kernel, active: Active) -> SharedPosterior:
    """The posterior of all tasks given the sites (eq. (16)); a task without an active row keeps its prior."""
    return prior_of(kernel, active).condition(Sites(active.tau * active.z, active.tau))  # eq. 16


def prior_of(kernel: Kernel, active: Active) -> SharedCovariance:
    """The prior at the active rows: block diagonal, one kernel for all tasks."""
    M = len(active.starts) - 1
    return SharedCovariance(active.tasks(), [], [], np.zeros((M, 0)), [kernel] * M)
