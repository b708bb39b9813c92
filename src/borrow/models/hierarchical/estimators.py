"""The estimators on the hierarchical model: validate, call, store, warn. The paper is in `model.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from borrow.covariance.contracts import Sites
from borrow.data.cells import Codes, Rows
from borrow.data.read import Pool, pool_of, read_inputs, read_new, read_table, read_targets, warn_equal_targets
from borrow.data.scaling import Scaling, build, units_of_new_task
from borrow.estimators.base import Fitted, OnWorkers, Place
from borrow.estimators.classifier import LogOdds, TaskClassifier, positives, probabilities
from borrow.estimators.gp import LearntEstimator
from borrow.estimators.registry import register
from borrow.estimators.regressor import FittedRegression, TaskRegressor
from borrow.estimators.settings import Allowed, is_among, is_number, one_of, positive, whole
from borrow.inference.ep import cavity
from borrow.kernels import LearnedKernel
from borrow.models.hierarchical.fit import Fit, UnseenProblem, learn, takes_sparse
from borrow.models.hierarchical.search import Step
from borrow.models.reference.regularized import sigmoid
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored
from borrow.numerics.threads import single_thread
from borrow.numerics.warned import warn


@dataclass(eq=False, repr=False, kw_only=True)
class HierarchicalGP(LearntEstimator, OnWorkers):
    """What both hierarchical estimators share. Abstract."""

    base_kernel: Any = None
    mean_strength: Any = 1.0
    covariance_strength: Any = "auto"
    noise: float | None = None
    learn_noise: bool = True
    normalize_y: bool | str = True
    max_iter: int = 100
    tol: float = 1e-4
    accelerate: bool = True

    allowed: ClassVar[Allowed] = {
        "prior": one_of("auto", None, said="'auto' (weak priors) or None (as in the paper)"),
        "optimizer": one_of("lbfgs", None, said="'lbfgs', or None to keep the base kernel given"),
        "mean_strength": (
            lambda v: is_among(v, ("auto", np.inf)) or (is_number(v) and v >= 0),
            "a number from 0 up, infinite for a mean of zero, or 'auto'",
        ),
        "covariance_strength": (
            lambda v: is_among(v, ("auto", np.inf)) or (is_number(v) and v > 0),
            "'auto' or a positive number",
        ),
        "noise": (positive(None)[0], "one positive variance for all tasks, or None to learn it"),
        "max_iter": whole(0),
        "tol": (lambda v: is_number(v) and v >= 0, "a number from 0 up, in nats per row"),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.base_kernel)
        return tags

    def _learn_rows(self, pool: Pool, rows: Rows, place: Place, rank: bool) -> tuple[Fit, Step | None, Scaling]:
        """The model of these targets at the inputs of the pool."""
        data = build(rows, self.normalize_y)
        return *learn(self, pool, data, rank, place(data.cells)), data.scaling

    def _new_task(self, fit: Fit, rows: Any, target: Array, centers: Array, scales: Array) -> UnseenProblem:
        """A task never seen; its level and scale are drawn to those of the tasks seen."""
        units = units_of_new_task(target, centers, scales) if self.normalize_y else (0.0, 1.0)
        return UnseenProblem.of(fit, rows, target, units)

    def _last_fit(self) -> Fit:
        """The fit that the attributes speak of: that of the last class against the rest, where there are several."""
        model = self._fit_of().model
        return model[-1].fit if isinstance(model, list) else model

    @property
    def learned_kernel_(self) -> LearnedKernel:
        """Eq. (19), for scaled targets, on `X_`; `.raw()` is eq. (18)."""
        return self._last_fit().learned

    @property
    def mean_(self) -> Array:
        """The learnt mean function at `X_`, in units of scaled targets."""
        return self._last_fit().prior_moments()[0]

    @property
    def covariance_(self) -> Array:
        """The learnt covariance at `X_`, in units of scaled targets."""
        return self._last_fit().prior_moments()[1]

    def _read_new(self, X: Any, tasks: Any, population: bool = False) -> tuple[Any, Codes | None]:
        return read_new(self, X, self._fit_of().schema, tasks, accept_sparse=True, population=population)

    def _warn_unfinished(self, fit: Fit) -> None:
        if not fit.converged:
            warn(
                f"EM stopped after {fit.n_iter} iterations while the objective still rose by more than tol="
                f"{self.tol:g} per row; raise max_iter or tol, or let covariance_strength='auto' choose when to stop",
                ConvergenceWarning,
            )


@register(
    "hierarchical",
    "hierarchical GP",
    rank=4,
    most_rows=1500,
    about="mean and covariance of functions learnt from all tasks (Yu, Tresp & Schwaighofer 2005)",
    matrix="all",
)
@dataclass(eq=False, repr=False)
class HierarchicalGPRegressor(HierarchicalGP, TaskRegressor):
    """Learn the prior itself, mean and covariance function, from many tasks of few rows each.

    Where settings are chosen on held-out rows, each task has a GP of its own beside it, as without transfer, and is
    answered by the average of the two, by the odds that these rows give (`shared_probability_`); not of sparse tables,
    and not with `prior=None` or `optimizer=None`. `adapt`, `learned_kernel_`, `mean_`, `covariance_`, `noise_` and
    `leave_one_out` are of what is shared.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    base_kernel : kernel that the learnt covariance is shrunk to; default squared exponential, linear for sparse X. A
        linear kernel takes sparse (CSR) tables, and with fewer columns than inputs it is fitted by its weights.
    mean_strength : pi, how many tasks the prior mean of zero is worth; infinite fixes it at zero; "auto" chooses
        between that and 1 on held-out rows.
    covariance_strength : tau, how many tasks the base kernel is worth; "auto" chooses tau and the number of EM
        iterations on held-out rows, no learning (an infinite tau) among the choices.
    noise : variance in the units of y, one for all scaled tasks, to start from; None starts from the base kernel's.
    learn_noise : update it by EM (eq. 16).
    prior : "auto" has weak priors on the base kernel and holds the noise near that of the base kernel, as if by as many
        rows again as there are; None is the paper's.
    optimizer : "lbfgs" learns the base kernel's parameters from the tasks as independent functions first; None keeps
        them as given.
    max_iter, tol : EM iterations, and the gain of the objective per row that ends them.
    accelerate : steps longer than EM's own where they pay; with a tau that is given.
    normalize_y : True centres and scales the targets of each task, False does not.
    random_state : seed or generator for drawing the held-out rows.
    unseen : what to do about a task that `fit` never saw: "error" refuses it, "population" answers as for a task drawn
        from those seen, with a wider band, and warns.
    workers : None fits in this process; a number of processes, or "dask" for the workers of the current Dask client:
        tasks are spread over them, the answer is the same (docs/large.md).
    device : as in every `GPRegressor`.

    Attributes
    ----------
    X_ : distinct inputs, those without a label last.
    mean_, covariance_ : the learnt mean and covariance on `X_`, in units of scaled targets.
    learned_kernel_ : eq. 19, a kernel like any other; `.raw()` is eq. 18.
    kernel_ : the base kernel found.
    mean_strength_, covariance_strength_ : pi and tau, as given or chosen.
    choices_ : a table of the settings tried on held-out rows.
    shared_probability_ : dict by label: how probable the learnt prior is against a GP of the task's own, as predictions
        are averaged; 1 where there is no own GP.
    objective_trace_ : the objective after every EM iteration.
    n_iter_, converged_ : iterations of EM, and whether it ended by itself.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.HierarchicalGPRegressor().fit(X, y, tasks=tasks)
    >>> model.predict([[1.5]], tasks="b").shape
    (1,)
    >>> new = model.adapt([[0.0], [1.0]], [3.0, 3.8])  # a task never seen, with two rows
    >>> new.predict([[2.0]]).shape
    (1,)
    """

    def _learn(self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, replicates: Any = None) -> FittedRegression:
        inputs, rows, self._schema = read_table(self, X, y, tasks, sample_weight, replicates, pooled=True)
        warn_equal_targets(rows)
        pool = pool_of(inputs, rows)
        with self._places(len(pool.rows.y), pool.n_labelled, pool.n_labelled) as place:
            fit, _, scaling = self._learn_rows(pool, pool.rows, place, rank=False)
        self._warn_unfinished(fit)
        return self._published(self._schema, scaling, fit)

    def _mean(self, rows: Any, task: Codes) -> Array:
        fitted: Any = self._fit_of()
        if fitted.model.own is not None:
            return super()._mean(rows, task)
        with single_thread(fitted.model.n_labelled):
            return fitted.center[task] + fitted.scale[task] * fitted.model.mean_of(rows, task)

    def _answer_wide(self, rows: Any, return_std: bool, include_noise: bool) -> Any:
        fitted: Any = self._fit_of()
        fit, columns = fitted.model, fitted.schema.wide
        if fit.own is not None:
            return super()._answer_wide(rows, return_std, include_noise)
        center, scale = fitted.center[columns], fitted.scale[columns]
        with single_thread(fit.n_labelled):
            mean = center + scale * fit.means(rows)[:, columns]
            if not return_std:
                return mean
            variance = np.column_stack([fit.of_task(int(t), rows).variance for t in columns])
            variance *= fit.stretch[columns]
        return mean, np.sqrt((variance + include_noise * fit.state.noise) * scale**2)

    def _cell_inputs(self) -> Array:
        """The inputs that the cells hold the numbers of."""
        return np.asarray(self.X_[super()._cell_inputs()[:, 0].astype(np.intp)])

    def inputs_of(self, t: int) -> Array:
        """The inputs of all tasks, which the learnt prior has in common."""
        return np.asarray(self.X_.toarray() if sparse.issparse(self.X_) else self.X_)

    def adapt(self, X: Any, y: Any) -> AdaptedRegressor:
        """A fitted model of a task never seen, on the prior learnt from the others; one row of it is enough.

        X has the input columns, without or with the task column, which is ignored. Level and scale of the new task are
        drawn to those of the tasks seen, the more the fewer rows it has.
        """
        fitted: Any = self._fit_of()
        rows, target = read_new_task(self, X, y)
        return AdaptedRegressor(self, self._new_task(fitted.model, rows, target, fitted.center, fitted.scale))


@stored("adapted-regressor")
@dataclass(frozen=True)
class AdaptedRegressor:
    """What `adapt` returns."""

    source: HierarchicalGPRegressor
    task: UnseenProblem

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = False) -> Any:
        """Posterior mean, with standard deviation or covariance if asked."""
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; ask for one of them")
        rows, _ = read_inputs(self.source, X, self.source.fitted_.schema, accept_sparse=True)
        task = self.task
        mean = task.center + task.scale * task.mean(rows)
        if not (return_std or return_cov):
            return mean
        second, noise = task.variance(rows, return_cov), include_noise * task.fit.state.noise
        if return_cov:
            return mean, task.scale**2 * (second + noise * np.eye(len(mean)))
        return mean, task.scale * np.sqrt(second + noise)


@stored("hierarchical-margins")
@dataclass(frozen=True)
class Margins(LogOdds):
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
        """The logarithm of the odds of class +1 at new rows."""
        return self.log_odds(self.fit.mean_of(X, task), self.center[task], self.scale[task])

    def decisions(self, X: Any) -> Array:
        """Log odds of +1, one column per task."""
        return self.log_odds(self.fit.means(X), self.center, self.scale)


@register("hierarchical", "hierarchical GP", rank=4, most_rows=1500, matrix="all")
@dataclass(eq=False, repr=False, kw_only=True)
class HierarchicalGPClassifier(HierarchicalGP, TaskClassifier):
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
    mean_strength : as in `HierarchicalGPRegressor`; here chosen by default.
    task, base_kernel, covariance_strength, prior, optimizer : as there.
    max_iter, tol, accelerate, random_state, unseen, workers, device : as there.

    Attributes
    ----------
    X_, mean_, covariance_, learned_kernel_, kernel_ : as in `HierarchicalGPRegressor`; of the last class against the
        rest where there are more than two.
    mean_strength_, covariance_strength_, choices_, objective_trace_, noise_, jitter_, n_iter_, converged_ : as there.
    log_marginal_likelihood_ : log evidence of the targets -1 and +1, summed over one against the rest.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.HierarchicalGPClassifier().fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    mean_strength: Any = "auto"
    learn_noise: bool = False

    def _learn(self, X: Any, y: Any, tasks: Any) -> Fitted:
        inputs, rows, self._schema = read_table(self, X, y, tasks, classes=True, pooled=True)
        pool = pool_of(inputs, rows)
        classes = self._schema.classes
        with self._places(len(pool.rows.y), pool.n_labelled, pool.n_labelled) as place:
            models = [self._margins(pool, k, place) for k in positives(classes)]
        self._warn_unfinished(models[-1].fit)
        return self._published(self._schema, classes, models)

    def _attributes(self, models: list[Any]) -> dict[str, Any]:
        fit = models[-1].fit
        found = fit.attributes(self._schema.labels)
        del found["shared_probability_"]  # labels are answered by the shared model alone
        return {
            **found,
            "noise_": dict.fromkeys(self._schema.labels, fit.state.noise),
            "log_marginal_likelihood_": float(sum(m.fit.evidence for m in models)),
        }

    def _margins(self, pool: Pool, positive: int, place: Place) -> Margins:
        y = pool.rows.y
        signs = np.where(np.isfinite(y), np.where(y == positive, 1.0, -1.0), np.nan)
        fit, held_out, scaling = self._learn_rows(pool, replace(pool.rows, y=signs), place, rank=True)
        center, scale = scaling.center, scaling.scale
        return Margins(fit, center, scale, *calibrate(fit, held_out, center, scale))

    def decision_function(self, X: Any, tasks: Any = None) -> Array:
        """Log odds of `classes_[1]`; one column per class where there are more than two; one per task for wide fits."""
        fitted = self._fit_of()
        if tasks is not None or fitted.schema.wide is None:
            return super().decision_function(X, tasks)
        if len(self.classes_) > 2:
            raise ValueError("fitted on a wide y with more than two classes: say which task with tasks=")
        rows, _ = self._read_new(X, tasks)
        with single_thread(rows.shape[0]):
            return fitted.model[0].decisions(rows)[:, fitted.schema.wide]

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """The likeliest class of each row."""
        if self._fit_of().schema.wide is not None and tasks is None and len(self.classes_) == 2:
            return self.classes_[(self.decision_function(X) > 0).astype(int)]
        return super().predict(X, tasks)

    def adapt(self, X: Any, y: Any) -> AdaptedClassifier:
        """A fitted classifier of a task never seen, on the prior learnt from the others; y has the classes of `fit`."""
        models = self._fit_of().model
        codes = {c: i for i, c in enumerate(self.classes_.tolist())}
        values = [v.item() if isinstance(v, np.generic) else v for v in np.ravel(np.asarray(y, dtype=object)).tolist()]
        if unknown := [v for v in values if v is not None and v == v and v not in codes]:
            raise ValueError(f"y holds {unknown[0]!r}; the classes are {', '.join(map(repr, codes))}")
        rows, found = read_new_task(self, X, np.array([codes.get(v, np.nan) for v in values]))
        tasks = []
        for k, m in zip(positives(self.classes_), models, strict=True):
            target = np.where(found == min(k, len(self.classes_) - 1), 1.0, -1.0)
            tasks.append((m, self._new_task(m.fit, rows, target, m.center, m.scale)))
        return AdaptedClassifier(self, tasks)


@stored("adapted-classifier")
@dataclass(frozen=True)
class AdaptedClassifier:
    """What `adapt` returns."""

    source: HierarchicalGPClassifier
    tasks: list[tuple[Margins, UnseenProblem]]

    def decision_function(self, X: Any) -> Array:
        """Log odds of `classes_[1]`; one column per class where there are more than two."""
        rows, _ = read_inputs(self.source, X, self.source.fitted_.schema, accept_sparse=True)
        values = np.column_stack([m.log_odds(t.mean(rows), t.center, t.scale) for m, t in self.tasks])
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class."""
        p = expit(self.decision_function(X))
        return probabilities(p if p.ndim == 2 else p[:, None], self.source)

    def predict(self, X: Any) -> Any:
        """The likeliest class of each row."""
        return self.source.classes_[np.argmax(self.predict_proba(X), axis=1)]


def calibrate(fit: Fit, held_out: Step | None, center: Array, scale: Array) -> tuple[float, float, float]:
    """Slope and offset of the sigmoid: on held-out rows where there are any, else on leave-one-out values.

    With all rows f is larger than with three quarters of them; the third number brings it back to that size.
    """
    shrink = 1.0
    if held_out is not None:
        f, targets, task = (np.concatenate([getattr(a, n) for a in held_out.answers]) for n in ("mean", "y", "task"))
        shrink = min(held_out.size / max(fit.size, 1e-12), 1.0)
    elif fit.basis.Phi is None:
        targets, task, tau = fit.cells.y, fit.cells.task, fit.cells.count / fit.noise
        f, _ = cavity(*fit.marginals(), Sites(tau * targets, tau))
    else:
        return 2.0, 0.0, 1.0  # f estimates P(+1) - P(-1): log odds have about this slope around zero
    answered = np.isfinite(f)
    f, targets, center, scale = f[answered], targets[answered], center[task[answered]], scale[task[answered]]
    y = np.where(center + scale * targets > 0, 1.0, -1.0)
    if len(np.unique(y)) < 2:
        return 2.0, 0.0, 1.0
    return (*sigmoid(center + scale * f, y), shrink)


def read_new_task(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Labelled rows of a task never seen."""
    rows, _ = read_inputs(estimator, X, estimator.fitted_.schema, accept_sparse=True)
    target, _ = read_targets(y)
    if target.ndim != 1 or len(target) != rows.shape[0]:
        raise ValueError(f"X has {rows.shape[0]} rows and y has the shape {target.shape}; give one target per row")
    seen = np.isfinite(target)
    if not seen.any():
        raise ValueError("every y is NaN; a new task needs at least one row with a target")
    return rows[np.flatnonzero(seen)], target[seen]
