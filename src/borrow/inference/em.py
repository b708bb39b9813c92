"""Expectation maximisation: the loop, its trace, and steps longer than EM's own where they pay.

A model gives `expect(state) -> (statistics, objective)`, the objective being that of the state, and
`maximise(state, statistics) -> state`. EM never lowers the objective; `accelerate=True` goes further along EM's step
(R. Salakhutdinov, S. Roweis: Adaptive overrelaxed bound optimization methods. ICML 2003) by a factor that grows while
it pays, and returns to EM's own step where the objective would fall or the state would leave its domain. One
evaluation of `expect` per iteration either way, one more for a step that was taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from borrow.numerics.linalg import NotPositiveDefiniteError
from borrow.numerics.warned import log

State = TypeVar("State")
Statistics = TypeVar("Statistics")

#: Growth of the step while it pays.
GROWTH = 1.3
#: Steps no longer than this many of EM's.
LONGEST = 30.0


@dataclass(frozen=True)
class Run(Generic[State, Statistics]):
    """Where EM ended: the state, its statistics, and the objective before each step and at the end."""

    state: State
    statistics: Statistics
    trace: list[float]
    n_evaluations: int
    converged: bool
    steps: list[float] = field(default_factory=list)  # length of each step in units of EM's own


def run(
    state: State,
    expect: Callable[[State], tuple[Statistics, float]],
    maximise: Callable[[State, Statistics], State],
    max_iter: int,
    tol: float,
    stretch: Callable[[State, State, float], State] | None = None,
) -> Run[State, Statistics]:
    """EM until a step gains less than `tol`.

    `stretch(old, new, factor)` is the state `factor` steps along from old to new; without it plain EM.
    """
    statistics, value = expect(state)
    trace, evaluations, factor, converged = [float(value)], 1, 1.0, False
    steps: list[float] = []
    while not converged and len(steps) < max_iter:
        proposal, taken = maximise(state, statistics), None
        if stretch is not None and factor > 1.0:
            with suppress(NotPositiveDefiniteError):
                longer = stretch(state, proposal, factor)
                taken = (longer, *expect(longer))
                evaluations += 1
            if taken is None or taken[2] < trace[-1]:
                log.debug("EM step of %.2f taken back", factor)
                taken, factor = None, 1.0
        steps.append(1.0 if taken is None else factor)
        if taken is None:
            taken = (proposal, *expect(proposal))
            evaluations += 1
        state, statistics, value = taken
        converged = value - trace[-1] < tol
        trace.append(float(value))
        factor = min(factor * GROWTH, LONGEST)
    return Run(state, statistics, trace, evaluations, converged, steps)
