"""Exact inference under a Gaussian likelihood: condition once on fixed sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from borrow.covariance.shared import Adjoints, SharedCovariance, SharedPosterior
from borrow.covariance.spread import SpreadCovariance, SpreadPosterior, TaskShard
from borrow.data.cells import Cells
from borrow.inference.likelihoods import Gaussian
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values


@dataclass(frozen=True)
class Exact:
    """Posterior, evidence, and the way back to the hyper-parameters."""

    posterior: SharedPosterior
    evidence: float
    likelihood: Gaussian
    tau: Array
    start: ClassVar[None] = None  # an evaluation needs nothing of the one before

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
class NoiseSites:
    """Sites of a shard's rows, made there from the noise of its tasks; the way back ends there too."""

    noise: Array

    def of(self, shard: TaskShard) -> tuple[Array, Array]:
        """nu and tau of the shard's rows."""
        return Gaussian(shard.cells, self.noise).sites()

    def finish(self, shard: TaskShard, bvariance: Array) -> dict[str, Any]:
        """Derivative by the log noise of the shard's tasks."""
        likelihood = Gaussian(shard.cells, self.noise)
        return {"noise": likelihood.pullback(bvariance, likelihood.sites()[1])}


@dataclass(frozen=True)
class SpreadExact:
    """The same with tasks on workers; no number of a single row travels."""

    posterior: SpreadPosterior
    evidence: float
    start: ClassVar[None] = None

    def gradient(self, inducing: bool = False) -> tuple[Any, Values]:
        """Adjoints of the covariance and the derivative by log noise of each task."""
        return self.posterior.adjoints(inducing), {"noise": np.concatenate(self.posterior.own("noise"))}


def exact_spread(covariance: SpreadCovariance, likelihood: Gaussian) -> SpreadExact:
    """Posterior and evidence of all tasks, spread over workers."""
    sites = [NoiseSites(likelihood.noise[at]) for at in covariance.spread.bounds]
    posterior = covariance.condition_by(sites, likelihood.sites, "adjoints")
    return SpreadExact(posterior, posterior.evidence + likelihood.log_normaliser(likelihood.sites()[1]))


@dataclass(frozen=True)
class ExactInference:
    """Exact inference as the models call it: `values["noise"]` holds the log noise of each task."""

    log_variance: ClassVar[float] = 0.0  # where the prior of a kernel's log variance is centred, for scaled targets

    def __call__(self, prior: Any, cells: Cells, values: Values, start: Any = None) -> Any:
        """Posterior and evidence; there is nothing to warm-start."""
        likelihood = Gaussian(cells, np.exp(values["noise"]))
        return exact_spread(prior, likelihood) if isinstance(prior, SpreadCovariance) else exact(prior, likelihood)
