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

Tasks lie in shards: one in this process, or several on workers (`select_among`). An inclusion touches one task only, so
the order in which a shard would include its own rows does not depend on other shards. Each shard makes that list, with
the score that every row had when its turn came; the list of all tasks is their merge, the next row always being the one
whose score is highest among the heads. It is the list that one shard of all tasks makes, row by row. A shard that runs
out before the merge is done is asked for twice as many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from borrow.covariance import SharedCovariance, SharedPosterior, Sites, evidence_of_rows
from borrow.data.cells import Cells, Codes, Stacked
from borrow.inference.adf import Factors, GaussianFactors, ProbitFactors, TaskPosterior
from borrow.inference.hyper_uncertainty import with_unknown_level
from borrow.kernels import Kernel
from borrow.numerics.linalg import Array, to_host
from borrow.numerics.optimise import Objective, Values
from borrow.tasks.contracts import Shard, Tasks

#: Small tasks share a matrix of at most so many rows.
BLOCK = 64
#: Tasks of at most so many rows have their covariance computed at once, where all of these have few entries.
SMALL, MOST_SMALL = 128, 4e6

#: A shard is first asked for its even share of the rows, and this part more.
MORE = 0.3
#: What a selection says of every row chosen.
BY_INCLUSION = ("active", "gain", "tau", "z", "score")

Report = Callable[[int], None]
ALL = slice(None)
#: Active rows of one task, or of several small ones and then 1 where two of them are of the same task.
Block = tuple[slice, Array | None]
#: The factors of all rows, from a parameter of each task.
Likelihood = Callable[[Cells, Array], Factors]


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
    tasks: Tasks[Shard]  # of this process
    tau: Array  # (d,)
    z: Array  # (d,)

    @property
    def starts(self) -> Codes:  # type: ignore[override]
        """(M + 1,): where the rows of each task begin."""
        return self.tasks.cells.starts

    @cached_property
    def X(self) -> Array:
        """(d, p), where matrices are computed."""
        return self.tasks.put(self.tasks.cells.X)


def select(
    kernel: Kernel,
    X: Array,
    starts: Codes,
    factors: Factors,
    d: int,
    order: Codes | None = None,
    report: Report | None = None,
    put: Callable[[Any], Any] = lambda rows: rows,
) -> Selection:
    """Algorithm 2: include the row, of any task, that lowers the entropy most; ties by row number.

    The best candidate of each task is kept, so an inclusion, with the slopes (2) and (3), computes one column of one
    task's K and s (eqs. (11), (12)), updates that task's means and variances (eqs. (4), (5), (15), (16)) and scores its
    rows again (eq. (10)). O(sum_m d_m^2 N_m), memory sum_m d_m N_m.
    `order` gives the rows to include instead (random sub-sampling, or all of them). `put` puts rows of a task where it
    is computed.
    """
    spans = [slice(i, j) for i, j in pairwise(starts.tolist())]
    sizes = np.diff(starts)
    small = sizes <= SMALL if float(np.sum(sizes[sizes <= SMALL] ** 2.0)) <= MOST_SMALL else sizes < 0
    near = [factors.part(at, put) for at in spans]
    tasks = [_start(kernel, put(X[at]), bool(w)) for at, w in zip(spans, small, strict=True)]
    inside = [put(np.zeros(n, dtype=bool)) for n in sizes]
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


def gaussian(cells: Cells, noise: Array) -> Factors:
    """Numbers, with one noise variance per task."""
    return GaussianFactors(cells.y, noise[cells.task] / cells.count)


def probit(cells: Cells, bias: Array) -> Factors:
    """Labels -1 and +1, with one bias per task."""
    return ProbitFactors(cells.y, bias[cells.task])


@dataclass(frozen=True)
class RowsWanted:
    """What is wanted of all tasks, or of those of a shard: so many rows, or those of an order."""

    parameter: Array  # (M,), of the likelihood
    starts: Codes  # (M + 1,)
    d: Codes  # (M,), how many rows are wanted of the shard that a task is in
    order: Codes | None
    report: Report | None = None  # where all tasks are in one shard

    def part(self, tasks: slice) -> RowsWanted:
        """What is wanted of these tasks."""
        starts, order = self.starts[tasks.start : tasks.stop + 1], self.order
        if order is not None:
            order = order[(order >= starts[0]) & (order < starts[-1])] - starts[0]
        return RowsWanted(self.parameter[tasks], starts - starts[0], self.d[tasks], order)


def select_shard(shard: Shard, common: tuple[Kernel, Likelihood], wanted: RowsWanted) -> Selection:
    """The shard's own list; what is known of its rows stays there."""
    (kernel, likelihood), cells = common, shard.cells
    args = int(wanted.d[0]), wanted.order, wanted.report, shard.put_alone
    chosen = select(kernel, cells.X, cells.starts, likelihood(cells, wanted.parameter), *args)
    return replace(chosen, mean=None, variance=None)


def select_among(
    tasks: Tasks[Shard],
    kernel: Kernel,
    likelihood: Likelihood,
    parameter: Array,
    d: int,
    order: Codes | None = None,
    report: Report | None = None,
) -> Selection:
    """As `select`, with one parameter of the likelihood per task."""
    starts, bounds = tasks.cells.starts, tasks.bounds
    first = starts[[at.start for at in bounds]]  # row of each shard
    sizes, n_tasks = np.diff(first, append=starts[-1]), [at.stop - at.start for at in bounds]

    def ask(how_many: Codes) -> list[Selection]:
        wanted = RowsWanted(parameter, starts, np.repeat(how_many, n_tasks), order, report)
        return tasks.each(select_shard, (kernel, likelihood), wanted)

    if order is not None:
        lists = ask(0 * sizes)
        turn = np.argsort(np.argsort(np.searchsorted(first, order, side="right"), kind="stable"))
    else:
        d = min(d, int(starts[-1]))
        most = np.minimum(sizes, d)
        asked = np.minimum(most, int((1.0 + MORE) * d / len(bounds)) + 5)
        while (merged := _merge(lists := ask(asked), asked < most, d)) is None:
            asked = np.minimum(most, 2 * asked)
        turn = merged
    if report is not None and len(lists) > 1:
        report(len(turn))
    lists = [replace(s, active=s.active + n) for s, n in zip(lists, first, strict=True)]
    return Selection(*(np.concatenate([getattr(s, name) for s in lists])[turn] for name in BY_INCLUSION))


def _merge(lists: list[Selection], cut_short: Any, d: int) -> Codes | None:
    """The first d rows of all lists, one after the other, in turn; None where a list that was cut short ends too early.

    The highest of the heads is next, and ties go to the first shard. A row waits for those before it in its list, so
    its turn comes when the least score up to it does.
    """
    turn = np.argsort(-np.concatenate([np.minimum.accumulate(s.score) for s in lists]), kind="stable")[:d]
    ends = np.cumsum([len(s.score) for s in lists]) - 1
    return None if np.isin(ends[cut_short], turn[:-1]).any() else turn


def gather(selection: Selection, tasks: Tasks[Shard]) -> Active:
    """The active rows of the tasks, stacked by task."""
    cells, none = tasks.cells, np.zeros(tasks.cells.n_tasks)
    task = np.searchsorted(cells.starts, selection.active, side="right") - 1
    order = np.argsort(task, kind="stable")
    rows, starts = selection.active[order], np.cumsum([0, *np.bincount(task, minlength=cells.n_tasks)])
    chosen = Cells(cells.X[rows], cells.y[rows], cells.count[rows], starts, none, none, none)
    return Active(rows, tasks.here(chosen), selection.tau[order], selection.z[order])


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
        out.append((slice(int(starts[group[0]]), int(starts[group[-1] + 1])), own))
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


def condition(kernel: Kernel, active: Active, centred: bool = False) -> SharedPosterior:
    """The posterior of all tasks given the sites (eq. (16)); a task without an active row keeps its prior."""
    return prior_of(kernel, active, centred).condition(Sites(active.tau * active.z, active.tau))  # eq. 16


def prior_of(kernel: Kernel, active: Active, centred: bool = False) -> SharedCovariance:
    """The prior at the active rows: block diagonal, one kernel for all tasks; `centred` tasks have a level too."""
    own = [with_unknown_level(kernel, centred and n > 0) for n in np.diff(active.starts)]
    return SharedCovariance(active.tasks, [], [], np.zeros((len(own), 0)), own)
