"""Exact inference under a Gaussian likelihood: condition once on fixed sites."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from borrow.covariance.contracts import Adjoints, Covariance, Sites
from borrow.inference.likelihoods import Gaussian
from borrow.numerics.optimise import Values
from borrow.numerics.stored import stored
from borrow.tasks.contracts import Shard, Tasks


@dataclass(frozen=True)
class Exact:
    """Posterior, evidence, and the way back to the hyper-parameters."""

    posterior: Any  # of the covariance that was conditioned
    likelihood: Gaussian
    start: ClassVar[None] = None  # an evaluation needs nothing of the one before

    @cached_property
    def evidence(self) -> float:
        """Of the rows as they were given. Ask for the gradient first where both are wanted: one pass gives both."""
        return float(self.posterior.evidence + self.likelihood.log_normaliser(self.posterior.sites.tau))

    def gradient(self, inducing: bool = False) -> tuple[Adjoints, Values]:
        """Adjoints of the covariance and the derivative by log noise of each task."""
        adjoints: Adjoints = self.posterior.adjoints(inducing)
        return adjoints, {"noise": adjoints.noise}


def exact(covariance: Covariance, likelihood: Gaussian) -> Exact:
    """Posterior and evidence of all tasks."""
    return Exact(covariance.condition(likelihood), likelihood)


@stored("exact-inference")
@dataclass(frozen=True)
class ExactInference:
    """Exact inference as the models call it: `values["noise"]` holds the log noise of each task."""

    log_variance: ClassVar[float] = 0.0  # where the prior of a kernel's log variance is centred, for scaled targets
    gaussian: ClassVar[bool] = True

    def __call__(self, prior: Covariance, tasks: Tasks[Shard], values: Values, start: Sites | None = None) -> Exact:
        """Posterior and evidence; there is nothing to warm-start."""
        return exact(prior, Gaussian(tasks.cells, np.exp(values["noise"])))
