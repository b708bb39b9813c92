"""From a table to what a design of the RBF network is fitted to: scales, widths, candidates, settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from borrow.data.cells import Cells, Codes, Rows, merge
from borrow.data.read import read_training
from borrow.data.scaling import Scaling, scale
from borrow.estimators.settings import is_number
from borrow.models.rbf.designs import RIDGES, Growth, Network, Settings, fit_tasks, fit_two_levels
from borrow.models.rbf.model import Basis, Candidates
from borrow.models.rbf.recursion import Stack, stack_inputs, stack_rows
from borrow.numerics import memory
from borrow.numerics.linalg import Array

DESIGNS = ("two-level", "multi-task", "independent", "one")
#: candidates="auto" takes every distinct input while the candidate matrix stays under so many bytes.
CANDIDATE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Problem:
    """Rows, candidate centres and settings, in scaled units."""

    stack: Stack
    base: Stack  # the rows that choose the units: `stack`, or all rows where labels are not used
    pool: Array  # inputs that may become centres
    width: float
    settings: Settings
    scaling: Scaling

    def candidates(self) -> Candidates:
        """The candidate matrix over `base`."""
        return Candidates.at(self.pool, self.base, self.width)


def check_settings(e: Any) -> None:
    """Refuse constructor arguments that no network can use."""
    if e.design not in DESIGNS:
        raise ValueError(f"design={e.design!r}: expected one of {', '.join(map(repr, DESIGNS))}")
    if e.basis not in ("supervised", "unsupervised"):
        raise ValueError(f"basis={e.basis!r}: expected 'supervised' or 'unsupervised'")
    if not is_whole(e.max_basis, 0):
        raise ValueError(f"max_basis={e.max_basis!r}: expected a whole number of at least 0")
    if not is_whole(e.n_basis, 0) and not (isinstance(e.n_basis, str) and e.n_basis in ("auto", "converged")):
        raise ValueError(f"n_basis={e.n_basis!r}: expected 'auto', 'converged' or a whole number of units")
    if not is_whole(e.candidates, 1) and not (isinstance(e.candidates, str) and e.candidates in ("auto", "all")):
        raise ValueError(f"candidates={e.candidates!r}: expected 'auto', 'all' or a number of inputs, at least 1")
    for name in ("width", "ridge"):
        value = getattr(e, name)
        if not (isinstance(value, str) and value == "auto") and not (is_number(value) and value > 0):
            raise ValueError(f"{name}={value!r}: expected 'auto' or a positive number")
    if not is_number(e.tol) or e.tol < 0:
        raise ValueError(f"tol={e.tol!r}: expected a number that is not negative")
    tuned = e.tune_width
    if not isinstance(tuned, (bool, np.bool_)):
        pair = isinstance(tuned, (tuple, list)) and len(tuned) == 2 and all(is_number(v) for v in tuned)
        if not pair or not 0 < tuned[0] <= tuned[1]:
            raise ValueError(f"tune_width={tuned!r}: expected True, False, or a pair (lowest, highest) of widths")


def is_whole(value: Any, least: int) -> bool:
    """A whole number of at least so much."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least


def input_scales(X: Array, weight: Array) -> Array:
    """Range of columns with two values, two standard deviations of others, 1 where a column is constant.

    A standard deviation blows up rare dummies, so that a few rows lie far from all others; two of them put other
    columns on the footing of a balanced dummy.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    sd = np.sqrt(np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0, weights=weight))
    two_valued = np.all((low == X) | (high == X), axis=0)
    scales = np.where(two_valued, high - low, 2.0 * sd)
    return np.where(sd > 1e-12 * np.maximum(np.abs(X).max(axis=0), 1e-300), scales, 1.0)


def target_scaling(cells: Cells, normalize: bool) -> Scaling:
    """One centre for all tasks, a scale for each; the constants of the tasks carry their levels.

    A centre for each task would hide from leave-one-out that a row has a part in its own task's mean.
    """
    M = len(cells.dof)
    if not normalize:
        return Scaling(np.zeros(M), np.ones(M), 0.0)
    scaling = scale(cells, np.diff(cells.starts) + cells.dof, True, ())
    center = float(np.average(cells.y, weights=cells.count))
    return Scaling(np.full(M, center), scaling.scale, scaling.log_volume)


def typical_distance(stack: Stack) -> float:
    """Root mean squared distance of two rows; 1 where all inputs are equal."""
    mean = np.average(stack.X, axis=0, weights=stack.count)
    square = 2.0 * float(np.average((stack.X - mean) ** 2, axis=0, weights=stack.count).sum())
    return float(np.sqrt(square)) if square > 1e-20 * max(float(mean @ mean), 1e-300) else 1.0


def tuning(tune: Any) -> bool | tuple[float, float]:
    """`tune_width` as the designs take it."""
    return bool(tune) if isinstance(tune, (bool, np.bool_)) else (float(tune[0]), float(tune[1]))


def draw_pool(stack: Stack, candidates: Any, random: np.random.RandomState) -> Array:
    """Distinct inputs that may become centres: all of them, or a random part."""
    distinct = np.unique(stack.X, axis=0)
    each = 8 * (len(stack.y) + 3 * stack.n_tasks)
    most = CANDIDATE_BYTES // each if candidates == "auto" else len(distinct) if candidates == "all" else candidates
    most = min(max(int(most), 1), len(distinct))
    what = f"the matrix of {most:,} candidates on {len(stack.y):,} distinct rows"
    memory.require(float(each) * most, what, "use candidates='auto', or a smaller number")
    if most < len(distinct):
        distinct = distinct[np.sort(random.choice(len(distinct), most, replace=False))]
    return distinct


def prepare(e: Any, rows: Rows, scales: Array) -> Problem:
    """What the estimator's design is fitted to; the rows are in order."""
    if e.design == "one":
        rows = Rows(rows.X, np.zeros_like(rows.task), ("all",), rows.y, rows.weight, rows.replicates).in_order()
    M = len(rows.labels)
    seen = rows.take(np.isfinite(rows.y))
    cells = merge(seen.X, seen.task, seen.y, seen.weight, seen.replicates, M)
    scaling = target_scaling(cells, e.normalize_y)
    stack, structure = stack_rows(seen, cells, scaling, scales), None
    if e.basis == "unsupervised":
        structure = stack_inputs(rows.X / scales, rows.task, rows.weight, M)
    base = stack if structure is None else structure
    width = typical_distance(base) if e.width == "auto" else float(e.width)
    settings = Settings(
        e.n_basis if isinstance(e.n_basis, str) else int(e.n_basis),
        int(e.max_basis),
        RIDGES if e.ridge == "auto" else (float(e.ridge),),
        tuning(e.tune_width),
        float(e.tol),
        structure,
    )
    random = check_random_state(e.random_state)
    pool = base.X[:0] if e.design == "independent" else draw_pool(base, e.candidates, random)
    return Problem(stack, base, pool, width, settings, scaling)


def fit_design(e: Any, problem: Problem) -> list[Network]:
    """The networks of a design: one for each task where they are independent, else one."""
    if e.design == "two-level":
        return [fit_two_levels(problem.stack, problem.candidates(), problem.settings)]
    if e.design != "independent":
        return [fit_tasks(problem.stack, problem.candidates(), problem.settings)]
    random = check_random_state(e.random_state)
    networks = []
    for k in range(problem.stack.n_tasks):
        stack, s = problem.stack.only(k), problem.settings
        base = stack if s.structure is None else s.structure.only(k)
        if len(stack.y) == 0:
            networks.append(unlabelled(stack))
            continue
        own = s if s.structure is None else replace(s, structure=base)
        candidates = Candidates.at(draw_pool(base, e.candidates, random), base, problem.width)
        networks.append(fit_tasks(stack, candidates, own))
    return networks


def unlabelled(stack: Stack) -> Network:
    """A task without a labelled row: the overall mean, give or take the scale of the targets."""
    none = Basis(np.zeros((0, stack.X.shape[1])), np.zeros(0))
    growth = Growth(1.0, np.zeros(2), np.zeros(1), True)
    return Network(none, np.ones((1, 1, 1)), np.ones((1, 1)), np.zeros((1, 1)), 1.0, growth, 1.0, 0.0)


def read_inputs(e: Any, X: Any, tasks: Any) -> Rows:
    """A table without targets; the estimator stays as it is."""
    n = np.shape(X)[0] if np.ndim(X) else 0
    return read_training(clone(e), X, np.zeros(n), tasks)[0]


def merge_inputs(X: Array, task: Codes, n_tasks: int) -> tuple[Stack, list[list[int]]]:
    """Rows as cells, and the row numbers of each cell."""
    stack = stack_inputs(X, task, np.ones(len(X)), n_tasks)
    order = np.lexsort((*X.T[::-1], task))
    ends = np.cumsum(stack.count).astype(int)[:-1]
    return stack, [sorted(part.tolist()) for part in np.split(order, ends)]
