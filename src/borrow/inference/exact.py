"""Exact inference under a Gaussian likelihood: condition once on fixed sites."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from borrow.covariance.contracts import Adjoints, Covariance, Posterior, Sites
from borrow.data.cells import Cells
from borrow.inference.likelihoods import Gaussian
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.placed import PlacedTasks


@dataclass(frozen=True)
class NoiseSites:
    """The sites of a Gaussian likelihood, made where the rows lie: what travels is the noise of each task."""

    noise: Array  # (M,)
    cells: Cells | None  # None on the way

    @cached_property
    def _made(self) -> Sites:
        assert self.cells is not None  # has arrived
        return Sites(*Gaussian(self.cells, self.noise).sites())

    def __getstate__(self) -> dict[str, Any]:
        return {"noise": self.noise, "cells": self.cells}

    @property
    def nu(self) -> Array:
        """Precision times mean of each site."""
        return self._made.nu

    @property
    def tau(self) -> Array:
        """Precision of each site."""
        return self._made.tau

    def part(self, tasks: slice, rows: slice) -> NoiseSites:
        """The noise of some tasks."""
        return NoiseSites(self.noise[tasks], None)

    def at(self, cells: Cells) -> NoiseSites:
        """The sites of these rows."""
        return self if self.cells is not None else NoiseSites(self.noise, cells)

    def by_parameters(self, by_variance: Array) -> Array:
        """Derivative by the log noise of each task."""
        assert self.cells is not None  # has arrived
        return Gaussian(self.cells, self.noise).pullback(by_variance, self.tau)

    def on_host(self) -> NoiseSites:
        """They are made there."""
        return self


@dataclass(frozen=True)
class Exact:
    """Posterior, evidence, and the way back to the hyper-parameters."""

    posterior: Any  # of the covariance that was conditioned
    likelihood: Gaussian
    start: ClassVar[None] = None  # an evaluation needs nothing of the one before

    @cached_property
    def evidence(self) -> float:
        """Of the rows as they were given. Ask for the gradient first where both are wanted: one pass gives both."""
        posterior: Posterior = self.posterior
        return posterior.evidence + self.likelihood.log_normaliser(self.posterior.sites.tau)

    def gradient(self, inducing: bool = False) -> tuple[Adjoints, Values]:
        """Adjoints of the covariance and the derivative by log noise of each task."""
        adjoints: Adjoints = self.posterior.adjoints(inducing)
        return adjoints, {"noise": adjoints.noise}


def exact(covariance: Covariance, likelihood: Gaussian) -> Exact:
    """Posterior and evidence of all tasks."""
    return Exact(covariance.condition(NoiseSites(likelihood.noise, likelihood.cells)), likelihood)


@dataclass(frozen=True)
class ExactInference:
    """Exact inference as the models call it: `values["noise"]` holds the log noise of each task."""

    log_variance: ClassVar[float] = 0.0  # where the prior of a kernel's log variance is centred, for scaled targets

    def __call__(self, prior: Covariance, tasks: PlacedTasks, values: Values, start: Sites | None = None) -> Exact:
        """Posterior and evidence; there is nothing to warm-start."""
        return exact(prior, Gaussian(tasks.cells, np.exp(values["noise"])))
