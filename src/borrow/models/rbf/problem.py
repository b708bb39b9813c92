"""From a table to what a design of the RBF network is fitted to: scales, widths, candidates, settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from borrow.data.cells import Cells, Codes, Rows, merge
from borrow.data.scaling import Scaling, scale
from borrow.models.rbf.designs import RIDGES, Growth, Network, Settings, fit_tasks, fit_two_levels
from borrow.models.rbf.model import Basis, Candidates, activations, grow
from borrow.models.rbf.recursion import Stack, stack_inputs, stack_rows
from borrow.numerics import memory
from borrow.numerics.linalg import Array

#: candidates="auto" takes every distinct input while the candidate matrix stays under so many bytes.
CANDIDATE_BYTES = 256 * 2**20
#: Ridges of the units and of the tasks' constants for choosing rows before any label exists.
UNSEEN_RIDGE, UNSEEN_BIAS_RIDGE = 0.1, 10.0


@dataclass(frozen=True)
class Problem:
    """Rows and settings of a design, in scaled units."""

    stack: Stack
    base: Stack  # the rows that choose the units: `stack`, or all rows where labels are not used
    width: float
    settings: Settings
    scaling: Scaling
    most: int | str  # candidates to draw
    random: np.random.RandomState

    def candidates(self) -> Candidates:
        """The candidate matrix over `base`."""
        return Candidates.at(draw_pool(self.base, self.most, self.random), self.base, self.width)

    def only(self, k: int) -> Problem:
        """Task k as the only one."""
        structure = None if self.settings.structure is None else self.base.only(k)
        stack, settings = self.stack.only(k), replace(self.settings, structure=structure)
        return replace(self, stack=stack, base=stack if structure is None else structure, settings=settings)

    def networks(self, design: str) -> list[Network]:
        """The networks of a design: one per task where they are independent, else one."""
        if design == "independent":
            return [self.only(k).networks("")[0] for k in range(self.stack.n_tasks)]
        if not len(self.stack.y):
            return [unlabelled(self.stack)]
        fit = fit_two_levels if design == "two-level" else fit_tasks
        return [fit(self.stack, self.candidates(), self.settings)]


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
    """One centre for all tasks, one scale per task; the constants of the tasks carry their levels.

    A centre of its own for each task would hide from leave-one-out that a row has a part in its own task's mean.
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


def draw_pool(stack: Stack, candidates: Any, random: np.random.RandomState) -> Array:
    """Distinct inputs that may become centres: all of them, or a random part."""
    distinct = stack.X[np.sort(np.unique(stack.X, axis=0, return_index=True)[1])]  # in the order of the rows
    each = 8 * (len(stack.y) + 3 * stack.n_tasks)
    most = CANDIDATE_BYTES // each if candidates == "auto" else len(distinct) if candidates == "all" else candidates
    most = min(max(int(most), 1), len(distinct))
    what = f"the matrix of {most:,} candidates on {len(stack.y):,} distinct rows"
    memory.require(1.1 * each * most, what, "use candidates='auto', or a smaller number")
    if most < len(distinct):
        distinct = distinct[np.sort(random.choice(len(distinct), most, replace=False))]
    return distinct


def settings_of(e: Any, base: Stack, structure: Stack | None) -> tuple[float, Settings]:
    """The width of candidates, and how the levels of an estimator's network grow on these rows."""
    width = typical_distance(base) if e.width == "auto" else float(e.width)
    low, high = e.tune_width if isinstance(e.tune_width, (tuple, list)) else (width / 4.0, 4.0 * width)
    settings = Settings(
        int(e.max_basis if isinstance(e.n_basis, str) else e.n_basis),
        RIDGES if e.ridge == "auto" else (float(e.ridge),),
        e.n_basis == "auto",
        (float(low), float(high)) if e.tune_width else None,
        float(e.tol) if e.n_basis == "converged" else None,
        structure,
    )
    return width, settings


def prepare(e: Any, rows: Rows, scales: Array) -> Problem:
    """What the estimator's design is fitted to; the rows are in order."""
    if e.design == "one":
        rows = replace(rows, task=np.zeros_like(rows.task), labels=("all",)).in_order()
    M, seen = len(rows.labels), rows.labelled()[0]
    cells = merge(seen.X, seen.task, seen.y, seen.weight, seen.replicates, M, seen.columns)
    scaling = target_scaling(cells, e.normalize_y)
    base = stack = stack_rows(seen, cells, scaling, scales)
    structure = None
    if e.basis == "unsupervised":
        base = structure = stack_inputs(rows.X / scales, rows.task, rows.weight, M, rows.columns)
    width, settings = settings_of(e, base, structure)
    return Problem(stack, base, width, settings, scaling, e.candidates, check_random_state(e.random_state))


def unlabelled(stack: Stack) -> Network:
    """A task without a labelled row: the overall mean, give or take the scale of the targets."""
    none = Basis(np.zeros((0, stack.X.shape[1])), np.zeros(0))
    growth = Growth(1.0, np.zeros(2), np.zeros(1), True)
    return Network(none, np.ones((1, 1, 1)), np.ones((1, 1)), np.zeros((1, 1)), 1.0, growth, 1.0, 0.0)


def unseen_features(e: Any, stack: Stack) -> tuple[Array, Array]:
    """Features of rows before any label exists: units chosen from the inputs, weights at their prior."""
    width, how = settings_of(e, stack, None)
    ridge = UNSEEN_RIDGE if e.ridge == "auto" else float(e.ridge)
    candidates = Candidates.at(draw_pool(stack, e.candidates, check_random_state(e.random_state)), stack, width)
    base = stack.pooled() if e.design == "two-level" else stack
    path = grow(base, candidates, stack.y, ridge, how.limit, bounds=how.bounds, unsupervised=True, tol=how.tol)
    features = activations(stack.X, path.basis).T / np.sqrt(ridge)
    if e.design == "two-level":
        return np.full((len(features), 1), UNSEEN_BIAS_RIDGE**-0.5), features
    return features, np.zeros((len(features), 0))


def merge_inputs(X: Array, task: Codes, n_tasks: int) -> tuple[Stack, list[list[int]]]:
    """Rows as cells, and the row numbers of each cell."""
    stack = stack_inputs(X, task, np.ones(len(X)), n_tasks)
    order = np.lexsort((*X.T[::-1], task))
    ends = np.cumsum(stack.count).astype(int)[:-1]
    return stack, [sorted(part.tolist()) for part in np.split(order, ends)]
