"""Selection and learning in turn (Lawrence & Platt 2004, section 5): the rounds, and how far they agree.

Objectives of different rounds are about different rows and cannot be compared. What can be said is how many rows two
successive rounds share. Where a round returns to the rows of the last but one, the rounds go in a circle.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from borrow.data.cells import Codes
from borrow.data.table import Table
from borrow.models.ivm.model import Selection
from borrow.models.ivm.problems import Problem
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, Values
from borrow.numerics.progress import Progress

log = logging.getLogger("borrow")

#: Two sets that share this part of their rows are the same.
SAME = 0.99


@dataclass(frozen=True)
class Settings:
    """How rows are chosen and how often."""

    n_active: int
    n_rounds: int
    selection: str
    learn: bool
    random_state: Any
    verbose: bool | None


@dataclass(frozen=True)
class Outcome:
    """Hyper-parameters, the rows selected with them, and the story of the rounds."""

    values: Values
    selection: Selection
    optimum: Optimum | None
    rounds: Table
    cycle: tuple[int, int] | None  # rounds that chose the same rows, with another choice between them

    @property
    def n_iter(self) -> int:
        """Iterations of the optimiser in the last round; 0 where nothing was learnt."""
        return 0 if self.optimum is None else max(self.optimum.n_iter, 1)

    @property
    def converged(self) -> bool:
        """Whether the optimiser ended by itself, and the rounds went in no circle."""
        return self.cycle is None and (self.optimum is None or self.optimum.converged)


def alternate(problem: Problem, values: Values, how: Settings) -> Outcome:
    """`n_rounds` times select and learn, then select with what was learnt."""
    d = min(how.n_active, problem.n_rows)
    order, entropy = None, how.selection == "entropy"
    if not entropy:
        order = check_random_state(how.random_state).permutation(problem.n_rows)[:d]
    optimum, cycle = None, None
    sets: list[Codes] = []
    story: dict[str, list[Any]] = {n: [] for n in ("round", "overlap", "overlap_before", "objective", "step")}

    def choose(where: str) -> Selection:
        report = Progress(d, f"{where} rows chosen".strip(), how.verbose)
        return problem.select(values, d, order, report if report.shown else None)

    for number in range(1, how.n_rounds + 1) if how.learn else ():
        selection = choose(f"round {number}:")
        last, before = ([overlap(selection.active, s) for s in sets[-1:-3:-1]] + [np.nan, np.nan])[:2]
        if entropy and before >= SAME > last:
            cycle = number - 2, number
            break
        if entropy and last == 1.0:
            log.info("round %d chose the rows of round %d again", number, number - 1)
            break
        learnt, optimum = problem.learn(selection, values)
        step = max(float(np.max(np.abs(learnt[n] - v), initial=0.0)) for n, v in values.items())
        for name, entry in zip(story, (number, last, before, optimum.objective, step), strict=True):
            story[name].append(entry)
        log.debug("round %d: overlap %.3g, objective %.6g, step %.3g", number, last, optimum.objective, step)
        sets.append(selection.active)
        values = learnt
    return Outcome(values, choose("at the end:" if how.learn else ""), optimum, Table(story), cycle)


def overlap(one: Array | Codes, other: Array | Codes) -> float:
    """The part of the rows that two sets of one size share."""
    return len(np.intersect1d(one, other)) / max(len(one), 1)
