"""The regressor on the hierarchical model: validate, call, store, warn. The paper is in `hierarchical.py`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from borrow.data.pool import read_pool
from borrow.data.read import Schema, read_inputs, read_new, read_targets
from borrow.data.scaling import Scaling, build, units_of_new_task
from borrow.data.table import Table
from borrow.estimators.regressor import as_labels, single_thread
from borrow.kernels import LearnedKernel
from borrow.models.hierarchical.fit import Fit, NewTask, Settings, check_arguments, learn, takes_sparse
from borrow.numerics.device import MemoryGivenBack, resolve
from borrow.numerics.linalg import Array
from borrow.tasks.workers import hired


class HierarchicalGPRegressor(RegressorMixin, BaseEstimator):
    """Learn the prior itself, mean and covariance function, from many tasks of few rows each.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    base_kernel : kernel that the learnt covariance is shrunk to; default squared exponential, linear for sparse X. A
        linear kernel takes sparse (CSR) tables, and with fewer columns than inputs it is fitted by its weights.
    mean_strength : pi, how many tasks the prior mean of zero is worth; infinite fixes it at zero.
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
    workers : None fits in this process; a number of processes, or "dask" for the workers of the current Dask client:
        tasks are spread over them, the answer is the same (docs/large.md).
    device : as in every `GPRegressor`.

    Attributes
    ----------
    X_ : distinct inputs, those without a label last.
    mean_, covariance_ : the learnt mean and covariance on `X_`, in units of scaled targets.
    learned_kernel_ : eq. 19, a kernel like any other; `.raw()` is eq. 18.
    kernel_ : the base kernel found.
    covariance_strength_ : tau, as given or chosen.
    choices_ : a table of the settings tried on held-out rows.
    objective_trace_ : the objective after every EM iteration.
    tasks_, noise_, log_marginal_likelihood_, n_iter_, converged_, jitter_, n_features_in_, feature_names_in_ : as in
        every `GPRegressor`; iterations are those of EM.
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        base_kernel: Any = None,
        mean_strength: float = 1.0,
        covariance_strength: Any = "auto",
        noise: float | None = None,
        learn_noise: bool = True,
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

    def fit(self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None, replicates: Any = None) -> Self:
        """Fit to a table; X dense or sparse, y long or wide, NaN where an input is unlabelled (Model 2)."""
        check_arguments(self)
        pool, schema = read_pool(self, X, y, tasks, sample_weight, replicates)
        data = build(pool.rows, self.normalize_y)
        data = replace(data, cells=replace(data.cells, device=resolve(self.device, len(data.cells.y))))
        settings = settings_of(self, data.scaling, rank=False)
        device, n = data.cells.device, pool.n_labelled
        with single_thread(n), hired(self.workers, device) as crew, MemoryGivenBack(device, n):
            self._fit = learn(pool.X, n, data.cells, pool.column_scales, settings, crew)
        self._schema: Schema = schema
        self._center, self._scale = data.scaling.center, data.scaling.scale
        self.tasks_ = as_labels(schema.labels)
        publish(self, self._fit)
        self.noise_ = dict(zip(schema.labels, (self._fit.state.noise * self._scale**2).tolist(), strict=True))
        self.log_marginal_likelihood_ = self._fit.moments.evidence - data.scaling.log_volume
        return self

    @property
    def learned_kernel_(self) -> LearnedKernel:
        """Eq. (19), for scaled targets, on `X_`; `.raw()` is eq. (18)."""
        return self._fit.learned

    @property
    def mean_(self) -> Array:
        """The learnt mean function at `X_`, in units of scaled targets."""
        return self._fit.prior_moments()[0]

    @property
    def covariance_(self) -> Array:
        """The learnt covariance at `X_`, in units of scaled targets."""
        return self._fit.prior_moments()[1]

    def predict(
        self,
        X: Any,
        tasks: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """Posterior mean of each row's task (eq. 17); with standard deviation or covariance if asked."""
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; ask for one of them")
        rows, task = read_new(self, X, self._schema, tasks, accept_sparse=True)
        with single_thread(self._fit.n_labelled):
            if task is None:
                return self._wide(rows, return_std, return_cov, include_noise)
            mean = self._center[task] + self._scale[task] * self._fit.mean_of(rows, task)
            if not (return_std or return_cov):
                return mean
            second, scale = self._fit.variance_of(rows, task, return_cov), self._scale[task]
        noise = include_noise * self._fit.state.noise * scale**2
        if return_cov:
            return mean, second * np.multiply.outer(scale, scale) + np.diag(noise)
        return mean, np.sqrt(second * scale**2 + noise)

    def _wide(self, rows: Any, return_std: bool, return_cov: bool, include_noise: bool) -> Any:
        columns = self._schema.wide
        assert columns is not None  # the only fit that may be asked for no task in particular
        if return_cov:
            raise ValueError("return_cov=True needs one task for each row; give tasks=")
        mean = self._center[columns] + self._scale[columns] * self._fit.means(rows)[:, columns]
        if not return_std:
            return mean
        n = rows.shape[0]
        variance = np.column_stack([self._fit.variance_of(rows, np.full(n, t), False) for t in columns])
        return mean, np.sqrt((variance + include_noise * self._fit.state.noise) * self._scale[columns] ** 2)

    def adapt(self, X: Any, y: Any) -> AdaptedRegressor:
        """A fitted model of a task never seen, on the prior learnt from the others; one row of it is enough.

        X has the input columns, without or with the task column, which is ignored. Level and scale of the new task are
        drawn to those of the tasks seen, the more the fewer rows it has.
        """
        check_is_fitted(self)
        rows, target = read_new_task(self, X, y)
        center, scale = units_of_new_task(target, self._center, self._scale) if self.normalize_y else (0.0, 1.0)
        return AdaptedRegressor(self, NewTask.of(self._fit, rows, (target - center) / scale), center, scale)


@dataclass(frozen=True)
class AdaptedRegressor:
    """What `adapt` returns."""

    source: HierarchicalGPRegressor
    task: NewTask
    center: float
    scale: float

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = False) -> Any:
        """Posterior mean, with standard deviation or covariance if asked."""
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; ask for one of them")
        rows, _ = read_inputs(self.source, X, self.source._schema, accept_sparse=True)
        mean = self.center + self.scale * self.task.mean(rows)
        if not (return_std or return_cov):
            return mean
        second, noise = self.task.variance(rows, return_cov), include_noise * self.task.fit.state.noise
        if return_cov:
            return mean, self.scale**2 * (second + noise * np.eye(len(mean)))
        return mean, self.scale * np.sqrt(second + noise)


def settings_of(estimator: Any, scaling: Scaling, rank: bool) -> Settings:
    """The constructor's arguments; a noise in the units of y becomes one for scaled targets."""
    noise = estimator.noise
    return Settings(
        estimator.base_kernel,
        float(estimator.mean_strength),
        estimator.covariance_strength,
        None if noise is None else float(noise) / float(np.mean(scaling.scale**2)),
        estimator.learn_noise,
        rank,
        estimator.prior,
        estimator.optimizer,
        int(estimator.max_iter),
        float(estimator.tol),
        estimator.accelerate,
        estimator.random_state,
    )


def publish(estimator: Any, fit: Fit) -> None:
    """What regressor and classifier have in common; warns where EM ran out of iterations."""
    estimator.X_ = fit.X
    estimator.kernel_ = fit.problem.basis.kernel
    estimator.objective_trace_ = fit.trace
    estimator.covariance_strength_ = fit.strengths.tau
    estimator.choices_ = tried_table(fit)
    estimator.n_iter_, estimator.converged_, estimator.jitter_ = max(fit.n_iter, 1), fit.converged, 0.0
    if not fit.converged:
        warnings.warn(
            f"EM stopped after {fit.n_iter} iterations while the objective still rose by more than tol="
            f"{estimator.tol:g} per row; raise max_iter or tol, or let covariance_strength='auto' choose when to stop",
            ConvergenceWarning,
            stacklevel=3,
        )


def tried_table(fit: Fit) -> Table:
    """One row for each setting and iteration that was scored on held-out rows."""
    tried = [] if fit.choice is None else fit.choice.tried
    return Table({name: [t[name] for t in tried] for name in ("tau", "noise", "n_iter", "score")})


def read_new_task(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Labelled rows of a task never seen."""
    rows, _ = read_inputs(estimator, X, estimator._schema, accept_sparse=True)
    target, _ = read_targets(y)
    if target.ndim != 1 or len(target) != rows.shape[0]:
        raise ValueError(f"X has {rows.shape[0]} rows and y has the shape {target.shape}; give one target a row")
    seen = np.isfinite(target)
    if not seen.any():
        raise ValueError("every y is NaN; a new task needs at least one row with a target")
    return rows[np.flatnonzero(seen)], target[seen]
