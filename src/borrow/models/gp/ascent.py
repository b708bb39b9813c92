"""The way up of every search: scoring steps where all rows are written out, with the curvature of the priors; L-BFGS.

A model gives its evidence, its priors, and the derivatives of K + noise by its hyper-parameters times
beta = (K + noise)^-1 y (`directions`), from which `DensePosterior.information` makes the average information. A dozen
such steps do what a hundred of L-BFGS do. Where they do not gain, as near a singular matrix, L-BFGS goes on. Under EP
the information is that of its sites, as if these were targets: it says less of the curvature, and still most of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from borrow.covariance import Design
from borrow.data.cells import thin
from borrow.models.gp.model import Evidence
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, QuasiNewton, ScoringSearch, Values
from borrow.tasks.placed import PlacedTasks

#: A scoring step that gains less than this per parameter is the last, unless it is said otherwise.
TOLERANCE = 1e-5
#: How much sooner a search by blocks ends that another follows.
ROUGHLY = 10.0

Bounds = Mapping[str, tuple[Array, Array]]


class Ascent(QuasiNewton):
    """What is maximised, and the way up: scoring steps where `directions` are given, else L-BFGS with its options.

    Priors give their log density with its derivatives when called, and for scoring steps their `curvature`, like
    `NamedPriors`.
    `blocks` are those of `maximise_by_blocks`, which then come before L-BFGS; `rough` is a search that another follows:
    it ends sooner, with the blocks. `curvature` is that of the same model on fewer rows, raised to these: scoring steps
    are then taken with it.
    """

    def __init__(
        self,
        evidence: Evidence,
        log_priors: Sequence[Any],
        directions: Callable[[Values, Any], Array] | None,
        curvature: Array | None = None,
        options: Mapping[str, Any] | None = None,
        blocks: Sequence[Any] = (),
        rough: bool = False,
    ) -> None:
        plain: hyper.Objective = evidence
        super().__init__(reduce(hyper.with_prior, log_priors, plain), options)
        self.evidence, self.log_priors, self.directions = evidence, log_priors, directions
        self.curvature, self.blocks, self.rough = curvature, list(blocks), rough
        evidence.keep = self.scores

    @property
    def scores(self) -> bool:
        """Whether the way up is by scoring steps."""
        return self.curvature is not None or self.directions is not None

    def log_prior(self, values: Values) -> float:
        """What the priors add to the evidence."""
        return sum(log_prior(values)[0] for log_prior in self.log_priors)

    def information(self, values: Values) -> Array:
        """Minus the curvature, where the objective was evaluated last."""
        if self.curvature is not None:
            return self.curvature
        assert self.directions is not None  # asked for where scoring steps are taken
        posterior: Any = self.evidence.at(values).posterior
        return sum(
            (log_prior.curvature(values) for log_prior in self.log_priors),
            posterior.information(self.directions(values, posterior)),
        )

    def maximise(
        self,
        start: Values,
        bounds: Bounds,
        max_iter: int,
        tol: float | None = None,
        begun: ScoringSearch | None = None,
    ) -> Optimum:
        """The optimum from these values on; L-BFGS goes on where scoring steps stop short."""
        if not self.scores:
            best = self._by_blocks(start, bounds, max_iter, self.options) if self.blocks else None
            if best is not None and (self.rough or best.n_iter >= max_iter):
                return best
            at, left = (start, max_iter) if best is None else (best.values, max_iter - best.n_iter)
            end = super().maximise(at, bounds, left)
            return end if best is None else best.followed_by(end)
        best = (begun or self._scoring(start, bounds)).go_on(max_iter, self._tolerance(start, tol))
        if best.message != hyper.STALLED or best.n_iter >= max_iter:
            return best
        options = ({} if tol is None else {"tol": tol}) | dict(self.options)
        return best.followed_by(hyper.maximise(self.objective, best.values, bounds, max_iter - best.n_iter, **options))

    def heat(
        self, start: Values, bounds: Bounds, steps: int, tol: float | None, rival: float = -np.inf
    ) -> tuple[Optimum, ScoringSearch | None]:
        """A few steps."""
        if self.scores:
            search = self._scoring(start, bounds)
            return search.go_on(steps, self._tolerance(start, tol), rival), search
        if self.blocks:
            found = self._by_blocks(start, bounds, steps, {**self.options, "tol": 0.0})
            return replace(found, converged=False), None
        return super().heat(start, bounds, steps, tol)

    def value(self, values: Values) -> float:
        """What is maximised, without its derivatives."""
        return self.evidence.value(values) + self.log_prior(values)

    def _scoring(self, start: Values, bounds: Bounds) -> ScoringSearch:
        return ScoringSearch(self.objective, self.information, start, bounds, self.value)

    def _tolerance(self, start: Values, tol: float | None) -> float:
        return TOLERANCE * hyper.pack(start).size if tol is None else tol

    def _by_blocks(self, start: Values, bounds: Bounds, steps: int, options: Mapping[str, Any]) -> Optimum:
        tol = options["tol"] * (ROUGHLY if self.rough else 1.0)
        return hyper.maximise_by_blocks(self.objective, start, bounds, self.blocks, steps, tol, options["patience"])


def on_few_rows(setup: Any, per_task: int, device: Any = None) -> Any:
    """A model on at most so many rows of every task, evenly spaced, with all pairs written out: where a search begins.

    None where that leaves out no row.
    """
    few = thin(setup.cells, max(per_task, 1))
    if len(few.y) >= len(setup.cells.y):
        return None
    return replace(setup, tasks=PlacedTasks(few, device=device), design=Design.of(few, device))
