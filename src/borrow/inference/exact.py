"""Exact inference under a Gaussian likelihood: condition once on fixed sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from borrow.covariance.shared import Adjoints, SharedCovariance, SharedPosterior
from borrow.data import Cells
from borrow.hyper import Values
from borrow.likelihoods import Gaussian
from borrow.linalg import Array


@dataclass(frozen=True)
class Exact:
    """Posterior, evidence, and the way back to the hyper-parameters."""

    posterior: SharedPosterior
    evidence: float
    likelihood: Gaussian
    tau: Array

    def gradient(self, inducing: bool = False) -> tuple[Adjoints, Values]:
        """Adjoints of the covariance and the derivative by log noise of each task."""
        adjoints = self.posterior.adjoints(inducing)
        return adjoints, {"noise": self.likelihood.pullback(adjoints.noise, self.tau)}


def exact(covariance: SharedCovariance, likelihood: Gaussian) -> Exact:
    """Posterior and evidence of all tasks."""
    nu, tau = likelihood.sites()
    posterior = covariance.condition(nu, tau)
    return Exact(posterior, posterior.evidence + likelihood.log_normaliser(tau), likelihood, tau)


@dataclass(frozen=True)
class ExactInference:
    """Exact inference as the models call it: `values["noise"]` holds the log noise of each task."""

    log_variance: ClassVar[float] = 0.0  # where the prior of a kernel's log variance is centred, for scaled targets

    def __call__(self, prior: SharedCovariance, cells: Cells, values: Values, start: Any = None) -> Exact:
        """Posterior and evidence; there is nothing to warm-start."""
        return exact(prior, Gaussian(cells, np.exp(values["noise"])))
