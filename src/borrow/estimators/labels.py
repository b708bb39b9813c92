"""What classifiers by expectation propagation share: the likelihood, and a model that turns posteriors into odds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from borrow.covariance.contracts import Sites
from borrow.data.cells import Cells, Codes
from borrow.data.scaling import Scaling, TaskData
from borrow.estimators.base import Place
from borrow.estimators.classifier import BinaryData, GPClassifier, LeftOut
from borrow.inference import EP, EPInference, Inference, Result
from borrow.inference.ep import cavity, class_bias
from borrow.inference.likelihoods import Logistic, Probit
from borrow.numerics.linalg import Array, to_host
from borrow.numerics.warned import warn
from borrow.tasks.placed import PlacedTasks

#: EP stops at this residual while hyper-parameters are learnt, and at the smaller one for the fit that is kept.
#: The evidence is stationary in the sites, so its error is of the order of the residual squared; that of its gradient
#: at frozen sites is of the order of the residual, times how much sites answer to hyper-parameters: up to a thousand.
ROUGH, FINE = 1e-5, 1e-9
LIKELIHOODS = {"probit": Probit, "logistic": Logistic}


@dataclass(eq=False, repr=False)
class EPClassifier(GPClassifier):
    """What every GP classifier by EP shares. Abstract.

    Parameters
    ----------
    likelihood : "probit", or "logistic", which is a little slower and has heavier tails.
    task, kernel, prior, optimizer, max_iter, random_state, device : as in every `GPClassifier`.
    unseen : as in every `GPClassifier`.
    """

    _: KW_ONLY
    likelihood: str = "probit"

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood={self.likelihood!r}: expected 'probit' or 'logistic'")

    def _inference(self) -> EPInference:
        """EP with the likelihood that the constructor names."""
        return EPInference(LIKELIHOODS[self.likelihood](), tol=ROUGH)

    def _arrange(self, data: BinaryData) -> TaskData:
        """Labels as rows of tasks."""
        return as_task_data(data)

    def _fit_binary(self, data: BinaryData, place: Place = PlacedTasks) -> EPLabels:
        table, infer = self._arrange(data), self._inference()
        fit = self._fit_gp(table, place(table.cells), infer, {})
        bias = np.broadcast_to(class_bias(table.cells), len(data.labels))
        return EPLabels(fit, bias, infer.likelihood, fit.evidence, fit.n_iter, fit.converged)

    def _with_left_out(self, model: Any) -> Any:
        return replace(model, left_out=model.without_each())


@dataclass(frozen=True)
class LabelModel:
    """A posterior, and what turns it into probabilities."""

    posterior: Any  # its `predict(X, task)` is of the latent functions
    bias: Array  # (M,)
    likelihood: Any
    evidence: float
    n_iter: int
    converged: bool
    left_out: LeftOut | None = field(default=None, kw_only=True)  # until classes are put together

    def moments(self, X: Array, task: Codes) -> tuple[Array, Array]:
        """Mean (bias included) and variance of the latent function."""
        p = self.posterior.predict(X, task)
        return p.mean + self.bias[task], p.variance

    def decision(self, X: Array, task: Codes) -> Array:
        """(mean + bias) / sqrt(1 + variance): for the probit, Phi^-1 of the probability."""
        mean, variance = self.moments(X, task)
        return mean / np.sqrt(1.0 + variance)

    def probability(self, X: Array, task: Codes) -> Array:
        """P(+1), the latent function integrated out."""
        mean, variance = self.moments(X, task)
        return self.probability_of(mean, variance)

    def probability_of(self, mean: Array, variance: Array) -> Array:
        """P(+1) of a latent function of this mean, bias included, and variance."""
        return np.exp(self.likelihood.moments(np.ones(len(mean)), mean, variance)[0])

    def probability_draws(self, X: Array, task: Codes, z: Array) -> Array:
        """P(+1) at each row for draws of the latent function, one per column of the standard normal numbers z."""
        p = self.posterior.predict(X, task, True)
        e, U = np.linalg.eigh(p.covariance)
        f = (p.mean + self.bias[task])[:, None] + (U * np.sqrt(np.maximum(e, 0.0))) @ z
        return self.probability_of(f.ravel(), np.zeros(f.size)).reshape(f.shape)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes that all GP classifiers have."""
        return {"bias_": dict(zip(labels, self.bias.tolist(), strict=True))}


@dataclass(frozen=True)
class EPLabels(LabelModel):
    """A GP model fitted to labels by EP: its posterior is the fit of the model."""

    def without_each(self) -> LeftOut:
        """Every row from all others: its cavity, which EP has at hand."""
        cells, posterior = self.posterior.cells, self.posterior.posterior
        parts = [p.sites.on_host() for p in (posterior if isinstance(posterior, list) else [posterior])]
        sites = Sites(*(np.concatenate([getattr(s, name) for s in parts]) for name in ("nu", "tau")))
        mean, variance = self.posterior.marginals()
        mean, variance = cavity(to_host(mean), to_host(variance), sites)
        return LeftOut(self.probability_of(mean + self.bias[cells.task], variance), cells.y)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {**super().attributes(labels), **self.posterior.own_attributes(labels)}


def as_task_data(data: BinaryData, starts: Codes | None = None) -> TaskData:
    """Labels as cells of one row each; with `starts` the rows are regrouped (one group for pooling)."""
    starts = data.starts if starts is None else starts
    M, n = len(starts) - 1, len(data.y)
    zero = np.zeros(M)
    cells = Cells(data.X, data.y, np.ones(n), starts, zero, zero, zero)
    free = data.unlabelled if len(data.labels) == M else (data.X[:0],) * M
    labels = data.labels if len(data.labels) == M else tuple(range(M))
    return TaskData(labels, cells, free, Scaling(zero, np.ones(M), 0.0), data.column_scales)


def at_final_tolerance(infer: Inference) -> Inference:
    """The same inference for the fit that is kept."""
    return replace(infer, tol=FINE, max_sweeps=300) if isinstance(infer, EPInference) else infer


def warn_ep(fit: Result, where: str = "") -> None:
    """Warn where EP did not reach its fixed point; exact inference has nothing to say."""
    if isinstance(fit, EP) and not fit.converged:
        warn(
            f"EP{where} stopped after {fit.n_sweeps} sweeps with a residual of {fit.residual:.1e}; probabilities may "
            "be off by about that much: scale the inputs, or give a kernel with a smaller variance",
            ConvergenceWarning,
        )
