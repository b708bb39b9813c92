"""The classifier on the hierarchical model: regression on -1 and +1, as in the paper, turned into probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from borrow.data.cells import Codes
from borrow.data.pool import Pool, read_pool
from borrow.data.read import read_inputs, read_new
from borrow.data.scaling import build, units_of_new_task
from borrow.estimators.classifier import TaskClassifier
from borrow.estimators.regressor import as_labels, single_thread
from borrow.kernels import LearnedKernel
from borrow.models.hierarchical.fit import Fit, NewTask, check_arguments, learn, takes_sparse
from borrow.models.hierarchical.regressor import publish, read_new_task, settings_of
from borrow.models.hierarchical.search import spread
from borrow.models.reference.regularized import sigmoid
from borrow.numerics.device import MemoryGivenBack, resolve
from borrow.numerics.linalg import Array
from borrow.tasks.workers import Crew, hired


@dataclass(frozen=True)
class Margins:
    """One class against the rest: f_l, back in units of -1 and +1, and the sigmoid on it."""

    fit: Fit
    center: Array
    scale: Array
    slope: float
    offset: float
    shrink: float

    def log_odds(self, f: Array, center: Any, scale: Any) -> Array:
        """Of a function in units of scaled targets."""
        return self.slope * (center + scale * self.shrink * f) + self.offset

    def decision(self, X: Any, task: Codes) -> Array:
        """Log odds of +1."""
        return self.log_odds(self.fit.mean_of(X, task), self.center[task], self.scale[task])

    def decisions(self, X: Any) -> Array:
        """Log odds of +1 for every task, in columns."""
        return self.log_odds(self.fit.means(X)[:, :-1], self.center, self.scale)

    def probability(self, X: Any, task: Codes) -> Array:
        """Probability of +1."""
        return expit(self.decision(X, task))


class HierarchicalGPClassifier(TaskClassifier):
    """Learn the prior of many related labellings: the regressor on targets -1 and +1, calibrated to probabilities.

    Probabilities are a sigmoid of f, fitted to held-out rows where settings are chosen, else to leave-one-out values,
    which are too sure of themselves where tau is small. Fitted on a wide y, `decision_function` and `predict` answer
    for every task, in the columns of y, unless `tasks=` names one.

    Parameters
    ----------
    normalize_y : centres and scales the targets of each task, which stands for an intercept; the paper does without.
    noise : of the targets -1 and +1; None chooses it, with tau and the number of iterations, by the area under the ROC
        curve of held-out rows.
    learn_noise : update it by EM (eq. 16); here it is held by default.
    task, base_kernel, mean_strength, covariance_strength, prior, optimizer : as in `HierarchicalGPRegressor`.
    max_iter, tol, accelerate, random_state, workers, device : as there.

    Attributes
    ----------
    X_, mean_, covariance_, learned_kernel_, kernel_ : as in `HierarchicalGPRegressor`; of the last class against the
        rest where there are more than two.
    covariance_strength_, choices_, objective_trace_, noise_, jitter_ : as there.
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        base_kernel: Any = None,
        mean_strength: float = np.inf,
        covariance_strength: Any = "auto",
        noise: float | None = None,
        learn_noise: bool = False,
        normalize_y: bool = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-4,
        accelerate: bool = True,
        random_state: Any = 0,
        device: str = "cpu",
        workers: Any = None,
    ) -> None:
        self.task = task
        self.base_kernel = base_kernel
        self.mean_strength = mean_strength
        self.covariance_strength = covariance_strength
        self.noise = noise
        self.learn_noise = learn_noise
        self.normalize_y = normalize_y
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.random_state = random_state
        self.device = device
        self.workers = workers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.base_kernel)
        return tags

    def fit(self, X: Any, y: Any = None, tasks: Any = None) -> Self:
        """Fit to a table, X dense or sparse; y holds labels of any kind, None or NaN where a row has none."""
        check_arguments(self)
        pool, schema = read_pool(self, X, y, tasks, classes=True)
        classes, self._schema = schema.classes, schema
        self.tasks_, self.classes_ = as_labels(schema.labels), classes
        positives = range(1, 2) if len(classes) <= 2 else range(len(classes))
        device = resolve(self.device, len(pool.rows.y))
        n = pool.n_labelled
        with single_thread(n), hired(self.workers, device) as crew, MemoryGivenBack(device, n):
            self._models: Any = [self._margins(pool, k, crew) for k in positives]
        fit = self._models[-1].fit
        publish(self, fit)
        self.noise_ = dict.fromkeys(schema.labels, fit.state.noise)
        self.log_marginal_likelihood_ = float(sum(m.fit.moments.evidence for m in self._models))
        return self

    def _margins(self, pool: Pool, positive: int, crew: Crew | None) -> Margins:
        labelled = np.isfinite(pool.rows.y)
        y = np.where(labelled, np.where(pool.rows.y == positive, 1.0, -1.0), np.nan)
        data = build(replace(pool.rows, y=y), self.normalize_y)
        data = replace(data, cells=replace(data.cells, device=resolve(self.device, len(data.cells.y))))
        settings = settings_of(self, data.scaling, rank=True)
        fit = learn(pool.X, pool.n_labelled, data.cells, pool.column_scales, settings, crew)
        sigmoid_of_f = calibrate(fit, data.scaling.center, data.scaling.scale)
        return Margins(fit, data.scaling.center, data.scaling.scale, *sigmoid_of_f)

    def decision_function(self, X: Any, tasks: Any = None) -> Array:
        """Log odds of `classes_[1]`; one column a class where there are more than two; one a task for wide fits."""
        check_is_fitted(self, "classes_")
        rows, task = read_new(self, X, self._schema, tasks, accept_sparse=True)
        with single_thread(rows.shape[0]):
            if task is not None:
                values = np.column_stack([m.decision(rows, task) for m in self._models])
                return values[:, 0] if len(self.classes_) <= 2 else values
            if len(self.classes_) > 2:
                raise ValueError("fitted on a wide y with more than two classes: say which task with tasks=")
            return self._models[0].decisions(rows)[:, self._schema.wide]

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """The likeliest class of each row."""
        check_is_fitted(self, "classes_")
        if self._schema.wide is not None and tasks is None and len(self.classes_) == 2:
            return self.classes_[(self.decision_function(X) > 0).astype(int)]
        return super().predict(X, tasks)

    def _rows(self, X: Any, tasks: Any) -> tuple[Any, Codes]:
        check_is_fitted(self, "classes_")
        rows, task = read_new(self, X, self._schema, tasks, accept_sparse=True)
        if task is None:
            raise ValueError("fitted on a wide y: say which task with tasks=")
        return rows, task

    @property
    def learned_kernel_(self) -> LearnedKernel:
        """Eq. (19), for scaled targets, on `X_`; `.raw()` is eq. (18)."""
        return self._models[-1].fit.learned

    @property
    def mean_(self) -> Array:
        """The learnt mean function at `X_`, in units of scaled targets."""
        return self._models[-1].fit.prior_moments()[0]

    @property
    def covariance_(self) -> Array:
        """The learnt covariance at `X_`, in units of scaled targets."""
        return self._models[-1].fit.prior_moments()[1]

    def adapt(self, X: Any, y: Any) -> AdaptedClassifier:
        """A fitted classifier of a task never seen, on the prior learnt from the others; y has the classes of `fit`."""
        check_is_fitted(self, "classes_")
        codes = {c: i for i, c in enumerate(self.classes_.tolist())}
        values = [v.item() if isinstance(v, np.generic) else v for v in np.ravel(np.asarray(y, dtype=object)).tolist()]
        missing = [v is None or v != v for v in values]
        unknown = [v for v, gone in zip(values, missing, strict=True) if not gone and v not in codes]
        if unknown:
            raise ValueError(f"y holds {unknown[0]!r}; the classes are {', '.join(map(repr, codes))}")
        coded = np.array([np.nan if gone else codes[v] for v, gone in zip(values, missing, strict=True)])
        rows, found = read_new_task(self, X, coded)
        first = 1 if len(self.classes_) == 2 else 0
        tasks = []
        for k, m in enumerate(self._models, first):
            target = np.where(found == k, 1.0, -1.0)
            center, scale = units_of_new_task(target, m.center, m.scale) if self.normalize_y else (0.0, 1.0)
            tasks.append((m, NewTask.of(m.fit, rows, (target - center) / scale), center, scale))
        return AdaptedClassifier(self, tasks)


@dataclass(frozen=True)
class AdaptedClassifier:
    """What `adapt` returns."""

    source: HierarchicalGPClassifier
    tasks: list[tuple[Margins, NewTask, float, float]]

    def decision_function(self, X: Any) -> Array:
        """Log odds of `classes_[1]`; one column a class where there are more than two."""
        rows, _ = read_inputs(self.source, X, self.source._schema, accept_sparse=True)
        values = np.column_stack([m.log_odds(t.mean(rows), c, s) for m, t, c, s in self.tasks])
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class."""
        p = expit(self.decision_function(X))
        if p.ndim == 1:
            return np.column_stack([1.0 - p, p]) if len(self.source.classes_) == 2 else np.ones((len(p), 1))
        return p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def predict(self, X: Any) -> Any:
        """The likeliest class of each row."""
        return self.source.classes_[np.argmax(self.predict_proba(X), axis=1)]


def calibrate(fit: Fit, center: Array, scale: Array) -> tuple[float, float, float]:
    """Slope and offset of the sigmoid: on held-out rows where there are any, else on leave-one-out values.

    With all rows f is larger than with three quarters of them; the third number brings it back to that size.
    """
    groups, shrink = fit.problem.groups, 1.0
    if fit.choice is not None:
        tasks, targets = ([v for f in fit.folds for v in part(f)] for part in (lambda f: f.tasks, lambda f: f.targets))
        means = [mean for fold in fit.choice.answers for mean, _ in fold]
        shrink = min(fit.choice.spread / max(spread(fit.problem, fit.state, fit.moments), 1e-12), 1.0)
    elif fit.problem.basis.Phi is None:
        tasks, means, targets = [g.tasks for g in groups], fit.leave_one_out(), [g.Y for g in groups]
    else:
        return 2.0, 0.0, 1.0  # f estimates P(+1) - P(-1): log odds have about this slope around zero
    margin = np.concatenate([(center[t] + scale[t] * f).ravel() for t, f in zip(tasks, means, strict=True)])
    y = np.concatenate([(center[t] + scale[t] * v).ravel() for t, v in zip(tasks, targets, strict=True)])
    y = np.where(y > 0, 1.0, -1.0)
    if len(np.unique(y)) < 2:
        return 2.0, 0.0, 1.0
    return (*sigmoid(margin, y), shrink)
