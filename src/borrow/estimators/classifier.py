"""What every classifier shares: reading labels, one against the rest, probabilities at the public edge. No formula.

Classifiers by expectation propagation have a likelihood, and a model that turns posteriors into odds (`EPClassifier`).

A concrete classifier answers `_fit_binary`: given rows of all tasks with targets -1 and +1, return something that has
`decision(X, task)` (a real number, positive for +1) and `probability(X, task)` (of +1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, ndtri
from sklearn.exceptions import ConvergenceWarning

from borrow.covariance.contracts import Prediction
from borrow.data.cells import Cells, Codes, Rows
from borrow.data.read import Schema, read_training
from borrow.data.scaling import Scaling, TaskData, column_scales
from borrow.estimators.base import Fitted, LabelEstimator, Place, as_labels, one_or_list, over_tasks, shown
from borrow.estimators.gp import GPEstimator
from borrow.estimators.settings import Allowed, one_of
from borrow.inference import EP, EPInference, Inference, Result
from borrow.inference.ep import cavity, class_bias
from borrow.inference.likelihoods import Logistic, Probit
from borrow.numerics import memory
from borrow.numerics.linalg import Array, to_host
from borrow.numerics.stored import stored
from borrow.numerics.threads import single_thread
from borrow.numerics.warned import together, warn
from borrow.tasks.placed import PlacedTasks

#: Standard deviations of the priors of a link's parameters; probabilities are kept so far from 0 and 1.
SHARPNESS_SD, REST_SD, TINY = 0.5, 0.5, 1e-9
#: Draws of latent functions that the covariance and the quantiles of probabilities are made of.
DRAWS = 400


class BinaryModel(Protocol):
    """What `_fit_binary` returns."""

    def decision(self, X: Array, task: Codes) -> Array:
        """One real number per row, positive where +1 is the likelier label."""

    def probability(self, X: Array, task: Codes) -> Array:
        """The probability of the label +1 in each row."""

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, object]:
        """The public attributes of this model, by name."""


class LogOdds(ABC):
    """A model whose decision is the log odds of +1. Abstract."""

    @abstractmethod
    def decision(self, X: Array, task: Codes) -> Array:
        """The log odds of the label +1 in each row."""

    def probability(self, X: Array, task: Codes) -> Array:
        """The probability of the label +1 in each row."""
        return expit(self.decision(X, task))


@dataclass(frozen=True)
class ClassLink:
    """Probabilities of more than two classes from those of each against the rest.

    Classes have shares proportional to (p_k / (1 - p_k)^b)^s. s = 1, b = 0 scales the p_k to sum to one: right where
    each is right by itself, and too flat where each is cautious for want of rows, as what is known of one class is
    known of the others too; b = 1 is the softmax of the log odds. s and b are those at which the rows that a model was
    fitted to, each left out in turn, are likeliest, with weak priors around s = 1 and b = 1/2.
    """

    sharpness: float = 1.0
    rest: float = 0.0

    def log_shares(self, p: Array) -> Array:
        """log probability of each class, from one column per class."""
        p = np.clip(p, TINY, 1.0 - TINY)
        return np.asarray(log_softmax(self.sharpness * (np.log(p) - self.rest * np.log1p(-p)), axis=1))

    @classmethod
    def of(cls, models: list[Any]) -> ClassLink | None:
        """The link of models that say what they answer for rows left out; None for others, and for two classes."""
        told = [v for m in models if (v := getattr(m, "left_out", None)) is not None]
        if len(models) < 2 or len(told) < len(models):
            return None
        p = np.column_stack([v.probability for v in told])
        own = np.arange(len(p)), np.column_stack([v.y for v in told]).argmax(axis=1)

        def cost(x: Array) -> float:
            link = cls(float(np.exp(x[0])), float(x[1]))
            prior = 0.5 * (x[0] / SHARPNESS_SD) ** 2 + 0.5 * ((x[1] - 0.5) / REST_SD) ** 2
            return float(prior - link.log_shares(p)[own].sum())

        bounds = [(-3.0, 3.0), (0.0, 1.0)]
        found = minimize(cost, [0.0, 0.5], method="L-BFGS-B", bounds=bounds, options={"gtol": 1e-8, "ftol": 1e-14})
        return cls(float(np.exp(found.x[0])), float(found.x[1]))


@dataclass(frozen=True)
class LeaveOneOutAnswers:
    """What a model answers for the rows that it was fitted to, each left out: the probability of +1; and their y."""

    probability: Array
    y: Array


@dataclass(eq=False, repr=False)
class TaskClassifier(LabelEstimator):
    """What every classifier shares. Abstract: binary problems as they are, more classes by one against the rest.

    Parameters
    ----------
    task, random_state, unseen : as in every `TaskEstimator`.

    Attributes
    ----------
    classes_ : the classes, sorted.
    class_link_ : of more than two classes, how the probabilities of each against the rest are put together: `sharpness`
        s and `rest` b of p_k proportional to (p / (1 - p)^b)^s; (1, 0) scales them to sum to one.
    """

    @abstractmethod
    def _fit_binary(self, data: TaskData, place: Place) -> BinaryModel:
        """Fit to targets -1 and +1; `place` puts rows where they are computed."""

    def _attributes(self, models: list[Any]) -> dict[str, Any]:
        """The public attributes of the models, one per class against the rest."""
        each = [m.attributes(self._schema.labels) for m in models]
        return {name: one_or_list([found[name] for found in each]) for name in each[0]}

    def _learn(self, X: Any, y: Any, tasks: Any) -> Fitted:
        rows, self._schema = read_training(self, X, y, tasks, classes=True)
        self._primary_code(self._schema.labels)  # refuse an unknown primary before any work
        rows = rows.in_order()
        with self._places(len(rows.y), int(np.bincount(rows.task).max()), len(rows.y)) as place:
            models = together(self._fit_classes, rows, place)
        return self._published(self._schema, self._schema.classes, models, ClassLink.of(models))

    def _fit_classes(self, rows: Rows, place: Place) -> list[BinaryModel]:
        """One model where there are two classes, else one per class against the rest."""
        models: list[Any] = [self._fit_binary(_against_rest(rows, k), place) for k in positives(self._schema.classes)]
        if len(models) > 1:  # what a model says about rows left out, from which classes are put together
            models = [replace(m, left_out=m.without_each()) if hasattr(m, "without_each") else m for m in models]
        return models

    def _published(self, schema: Schema, classes: Any, models: list[Any], link: ClassLink | None = None) -> Fitted:
        """Everything that is published of the models."""
        known = {**self._read_attributes(), "tasks_": as_labels(schema.tasks), "classes_": classes}
        link = ClassLink() if link is None else link
        known |= {"class_link_": {"sharpness": link.sharpness, "rest": link.rest}} if len(models) > 1 else {}
        models = [replace(m, left_out=None) if getattr(m, "left_out", None) is not None else m for m in models]
        return Fitted(schema, models, shown({**known, **self._attributes(models)}, schema.labels))

    def decision_function(self, X: Any, tasks: Any = None) -> Array:
        """One real number per row, positive for `classes_[1]`; one column per class where there are more than two."""
        rows, task = self._rows(X, tasks)

        def decisions(rows: Any, task: Codes) -> Array:
            return np.column_stack([m.decision(rows, task) for m in self._fit_of().model])

        values = over_tasks(decisions, rows, task, len(self.tasks_))
        return values[:, 0] if len(self.classes_) <= 2 else values

    def predict_proba(self, X: Any, tasks: Any = None) -> Array:
        """Probability of each class; of more than two, one against the rest is put together by `class_link_`."""
        rows, task = self._rows(X, tasks)

        def answer(rows: Any, task: Codes) -> Array:
            p = np.column_stack([m.probability(rows, task) for m in self._fit_of().model])
            return probabilities(p, self)

        with single_thread(rows.shape[0]):
            return over_tasks(answer, rows, task, len(self.tasks_))

    def probability_covariance(self, X: Any, tasks: Any = None) -> Array | None:
        """Covariance between rows of the probability of `classes_[-1]`, as the latent functions are not known.

        From draws of the latent functions, always the same ones; None where a model has no distribution of them.
        """
        models = self._fit_of().model
        rows, task = self._read_new(X, tasks)
        if task is None or not all(hasattr(m, "probability_draws") for m in models):
            return None
        n = rows.shape[0]
        memory.require(8.0 * 3 * n * (n + DRAWS), f"the covariance of {n:,} probabilities", "ask for fewer rows")
        z = np.random.default_rng(0).normal(size=(len(models), n, DRAWS))
        drawn = np.stack([m.probability_draws(rows, task, e) for m, e in zip(models, z, strict=True)], axis=-1)
        return np.cov(probabilities(drawn.reshape(-1, len(models)), self)[:, -1].reshape(-1, DRAWS))

    def probability_quantiles(self, X: Any, quantiles: Any = (0.05, 0.95), tasks: Any = None) -> Array | None:
        """Quantiles of the probability of `classes_[-1]`, as the latent functions are not known; one column for each.

        Two classes: those of the latent function, put through the likelihood. More: by draws, always the same ones.
        None where a model has no distribution of latent functions.
        """
        models = self._fit_of().model
        rows, task = self._read_new(X, tasks)
        if task is None or not all(hasattr(m, "probability_of") for m in models):
            return None
        rng, even = np.random.default_rng(0), ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
        drawn = []
        for m in models:
            mean, variance = m.moments(rows, task)
            f = mean[:, None] + np.sqrt(variance)[:, None] * rng.permutation(even)
            drawn.append(m.probability_of(f.ravel(), np.zeros(f.size)))
        last = probabilities(np.column_stack(drawn), self)[:, -1].reshape(-1, DRAWS)
        return np.quantile(last, quantiles, axis=1).T

    def _rows(self, X: Any, tasks: Any) -> tuple[Any, Codes]:
        rows, task = self._read_new(X, tasks, population=True)
        if task is None:
            raise ValueError("fitted on a wide y: say which task with tasks=")
        return rows, task


@dataclass(eq=False, repr=False, kw_only=True)
class GPClassifier(TaskClassifier, GPEstimator):
    """What every GP classifier by EP or ADF shares. Abstract.

    Parameters
    ----------
    kernel : as in every `GPEstimator`.
    prior, optimizer, max_iter, device : as in every `LearntEstimator`.
    task, random_state, unseen : as in every `TaskEstimator`.

    Attributes
    ----------
    kernel_ : the kernel found; a list, one per class, where there are more than two classes.
    bias_ : dict by label of Phi^-1(share of positives in the task), the share kept in [.02, .98]; a list as above.
    log_marginal_likelihood_ : log evidence, priors not included; summed over one against the rest.
    n_iter_, converged_ : iterations of the optimiser, and whether it ended by itself.
    """

    max_iter: int = 200

    def _attributes(self, models: list[Any]) -> dict[str, Any]:
        return {
            "log_marginal_likelihood_": float(sum(m.evidence for m in models)),
            "n_iter_": max(max(m.n_iter for m in models), 1),
            "converged_": all(m.converged for m in models),
            **super()._attributes(models),
        }


def positives(classes: Any) -> range:
    """Codes of the classes that are set against the rest: the second of two, each of more."""
    return range(1, 2) if len(classes) <= 2 else range(len(classes))


def probabilities(p: Array, fitted: Any) -> Array:
    """Probabilities of all classes of a fitted classifier from those of each against the rest, one column per class."""
    if len(fitted.classes_) == 1:
        return np.ones((len(p), 1))
    if len(fitted.classes_) == 2:
        return np.column_stack([1.0 - p[:, 0], p[:, 0]])
    return np.exp(ClassLink(**fitted.class_link_).log_shares(p))


def binary_data(
    X: Array,
    y: Array,
    starts: Codes,
    labels: tuple[Hashable, ...],
    unlabelled: tuple[Array, ...],
    scales: Array,
    number: Codes | None = None,
) -> TaskData:
    """Rows stacked by task with targets -1 and +1: every one is a cell of its own, and there are no units to scale."""
    zero = np.zeros(len(labels))
    cells = Cells(X, y, np.ones(len(y)), starts, zero, zero, zero)
    return TaskData(labels, cells, unlabelled, Scaling(zero, zero + 1.0, 0.0), scales, number)


def _against_rest(rows: Rows, positive: int) -> TaskData:
    """One class against the rest."""
    seen, free = rows.labelled()
    y = np.where(seen.y == positive, 1.0, -1.0)
    starts = np.searchsorted(seen.task, np.arange(len(rows.labels) + 1))
    return binary_data(seen.X, y, starts, rows.labels, free, column_scales(seen.X, seen.weight), seen.number)


#: EP stops at this residual while hyper-parameters are learnt, and at the smaller one for the fit that is kept.
#: The evidence is stationary in the sites, so its error is of the order of the residual squared; that of its gradient
#: at frozen sites is of the order of the residual, times how much sites answer to hyper-parameters: up to a thousand.
ROUGH, FINE = 2e-6, 1e-9
LIKELIHOODS = {"probit": Probit, "logistic": Logistic}


@dataclass(eq=False, repr=False, kw_only=True)
class EPClassifier(GPClassifier):
    """What every GP classifier by EP shares. Abstract.

    Parameters
    ----------
    likelihood : "probit", or "logistic", which is a little slower and has heavier tails.
    task, kernel, prior, optimizer, max_iter, random_state, device : as in every `GPClassifier`.
    unseen : as in every `GPClassifier`.
    """

    likelihood: str = "probit"

    allowed: ClassVar[Allowed] = {"likelihood": one_of(*LIKELIHOODS, said="'probit' or 'logistic'")}

    def _arrange(self, data: TaskData) -> TaskData:
        """The rows as the model groups them."""
        return data

    def _inference(self) -> EPInference:
        """EP with the likelihood that the constructor names; studies put other priors in its place."""
        return EPInference(LIKELIHOODS[self.likelihood](), tol=ROUGH)

    def _fit_binary(self, data: TaskData, place: Place = PlacedTasks) -> EPLabels:
        table, infer = self._arrange(data), self._inference()
        fit = self._fit_gp(table, place(table.cells), infer, {})
        bias = np.broadcast_to(class_bias(table.cells), len(data.labels))
        return EPLabels(fit, bias, infer.likelihood, fit.evidence, fit.n_iter, fit.converged)


@dataclass(frozen=True)
class LabelModel:
    """A posterior, and what turns it into probabilities."""

    posterior: Any  # its `predict(X, task)` is of the latent functions
    bias: Array  # (M,)
    likelihood: Any
    evidence: float
    n_iter: int
    converged: bool
    left_out: LeaveOneOutAnswers | None = field(default=None, kw_only=True)  # until classes are put together

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


@stored("ep-labels")
@dataclass(frozen=True)
class EPLabels(LabelModel):
    """A GP model fitted to labels by EP: its posterior is the fit of the model."""

    def without_each(self) -> LeaveOneOutAnswers:
        """Every row from all others: its cavity, which EP has at hand."""
        fit, cells = self.posterior, self.posterior.cells
        found = _cavities(fit.posterior)
        if fit.uncertainty is not None:
            found = fit.uncertainty.left_out(found, _cavities, cells.task)
        return LeaveOneOutAnswers(self.probability_of(found.mean + self.bias[cells.task], found.variance), cells.y)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {**super().attributes(labels), **self.posterior.own_attributes(labels)}


def _cavities(posterior: Any) -> Prediction:
    """Mean and variance of the latent function at each row, from all others; a posterior may be one of each task."""
    parts = posterior if isinstance(posterior, list) else [posterior]
    each = []
    for p in parts:
        mean, variance = p.marginals()
        each.append(cavity(to_host(mean), to_host(variance), p.sites.on_host()))
    return Prediction(*(np.concatenate(v) for v in zip(*each, strict=True)))


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
