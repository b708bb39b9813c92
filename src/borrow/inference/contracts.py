"""What a likelihood and an inference owe, and what an inference returns. None of them knows a paper or an estimator."""

from __future__ import annotations

from typing import Protocol

from borrow.covariance.contracts import Adjoints, Covariance, Posterior, Sites
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.contracts import Shard, Tasks


class Likelihood(Protocol):
    """How a target comes from the function's value, by what expectation propagation asks of it."""

    def moments(self, y: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """log Z = log int p(y | f) N(f; mean, variance) df, and its first and second derivatives by the mean."""


class Result(Protocol):
    """One evaluation. Nobody keeps it for the next one: it holds all matrices, and `start` is enough for that."""

    @property
    def posterior(self) -> Posterior:
        """Of the covariance that was conditioned."""

    @property
    def evidence(self) -> float:
        """log p(targets), or its approximation; priors not included."""

    @property
    def start(self) -> Sites | None:
        """What the next evaluation can begin with; None where it needs nothing."""

    def gradient(self, inducing: bool = False) -> tuple[Adjoints, Values]:
        """Adjoints of the covariance, and the derivatives by the likelihood's own parameters."""


class Inference(Protocol):
    """From a prior and targets to posterior and evidence."""

    @property
    def log_variance(self) -> float:
        """Where the prior of a kernel's log variance is centred, in the units of this likelihood."""

    @property
    def gaussian(self) -> bool:
        """Whether targets are numbers with Gaussian noise, whose variances are hyper-parameters; labels if not."""

    def __call__(self, prior: Covariance, tasks: Tasks[Shard], values: Values, start: Sites | None = None) -> Result:
        """The result at these hyper-parameters, `values` by the name of each block."""
