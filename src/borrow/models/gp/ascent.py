"""The way up of models whose rows are all written out: scoring steps, with the curvature of the priors.

A model says how it is conditioned, its gradient, and the derivatives of K + noise by its hyper-parameters times
beta = (K + noise)^-1 y (`directions`), from which `DensePosterior.information` makes the average information. A dozen
such steps do what a hundred of L-BFGS do. Where they do not gain, as near a singular matrix, L-BFGS goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from borrow.inference import Result
from borrow.inference.priors import NamedPriors
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, Values

Bounds = Mapping[str, tuple[Array, Array]]


class Ascent:
    """What is maximised, and its scoring steps."""

    def __init__(
        self,
        condition: Callable[[Values], Result],
        gradient: Callable[[Result, Values], Values],
        directions: Callable[[Values, Any], Array],
        log_prior: NamedPriors,
    ) -> None:
        self.condition, self.gradient, self.directions = condition, gradient, directions
        self.log_prior = log_prior
        self._last: Result | None = None

    def objective(self, values: Values) -> tuple[float, Values]:
        """The evidence with the priors, and its derivatives."""
        self._last = None  # the matrices of the evaluation before make room
        fit = self.condition(values)
        by = self.gradient(fit, values)
        self._last = fit
        return hyper.with_prior(lambda _: (fit.evidence, by), self.log_prior)(values)

    def information(self, values: Values) -> Array:
        """Minus the curvature, where the objective was evaluated last."""
        posterior: Any = (self._last or self.condition(values)).posterior
        return posterior.information(self.directions(values, posterior)) + self.log_prior.curvature(values)

    def score(self, start: Values, bounds: Bounds, max_iter: int, tol: float) -> Optimum:
        """Scoring steps until one gains less than `tol`, or until they do not work."""
        return hyper.maximise_by_scoring(self.objective, self.information, start, bounds, max_iter, tol)

    def maximise(self, start: Values, bounds: Bounds, max_iter: int, tol: float, other: Mapping[str, Any]) -> Optimum:
        """Scoring steps, and L-BFGS, with the options given, from where they stop short."""
        best = self.score(start, bounds, max_iter, tol)
        if best.message != hyper.STALLED or best.n_iter >= max_iter:
            return best
        return best.followed_by(hyper.maximise(self.objective, best.values, bounds, max_iter - best.n_iter, **other))
