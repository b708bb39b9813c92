"""The regressor on the symmetric model: validate, call, store, warn. The paper is in `multitask.py`."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from borrow.covariance import Design
from borrow.covariance.shared import Prediction
from borrow.covariance.spread import Spread, detached
from borrow.data.cells import Cells, Codes, Rows
from borrow.data.labels import encode, list_labels, sort_labels
from borrow.data.read import Schema
from borrow.data.scaling import TaskData, build
from borrow.estimators.regressor import (
    Fitted,
    GPRegressor,
    as_labels,
    warn_unfinished,
)
from borrow.models.multitask.em import maximise_by_em
from borrow.models.multitask.model import (
    Setup,
    choose_path,
    condition,
    optimise,
    parameter_names,
    transfer_cancels,
)
from borrow.models.multitask.task_covariance import FreeForm
from borrow.models.multitask.task_settings import (
    descriptor_columns,
    features_of,
    inducing_inputs,
    prepare,
    split_descriptors,
)
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, Values, with_prior

log = logging.getLogger("borrow")


class MultiTaskGPRegressor(GPRegressor):
    """All tasks at once: cov(f_t(x), f_t'(x')) = K^f[t, t'] k(x, x'), with K^f learnt from the data.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    kernel : kernel on the inputs; its overall variance is not learnt, K^f carries the scale. Default squared
        exponential with one lengthscale a column.
    task_covariance : "free" (the default), "diagonal" (only the kernel is shared), "uniform" (a 11' + b I), or an
        (M, M) array in the order of `tasks_`, where a free-form K^f starts (with `optimizer=None`: K^f itself).
    rank, diagonal : K^f = R R' of this rank, alone ("none") or with an "isotropic" or "free" diagonal.
    intercept : a random intercept for every task.
    specific_kernel : kernel of a function of its own for every task, beside the shared ones; "auto", one kernel for
        all, or a dict by label. None (the default): no such functions.
    share_noise : one noise variance for all tasks, as in the paper, instead of one a task.
    task_prior : "auto" shrinks K^f by an inverse-Wishart penalty of strength M, a number is another strength, None is
        the paper's plain likelihood.
    task_features, task_kernel : K^f = `task_kernel` on features of the tasks: a dict label -> numbers, which may hold
        tasks that have no rows yet, or names (positions) of columns of X, every distinct row of which is then a task.
    noise : starting value in the units of y (the value, with `optimizer=None`); a number or a dict by label.
    inducing : None (exact), a number of inducing inputs, or an array of them: Nystrom's approximation of the kernel.
    solver : "gradient" or "em" (section 2.2 of the paper; free-form K^f only, many times slower).
    workers : None fits in this process; a number of processes, or "dask" for the workers of the current Dask client,
        with `rank` and `inducing`: tasks are spread over them (docs/large.md).
    normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`.

    Attributes
    ----------
    task_covariance_ : K^f, (M, M) in the order of `tasks_`, for scaled targets.
    path_ : the algebra that the data allowed: "complete", "gathered", "low rank", "blocks" or "dense".
    inducing_ : the inducing inputs, None where the kernel is exact.
    intercept_variance_ : variance of the random intercepts, 0 without them.
    specific_kernels_ : dict by label of the kernels of the tasks' own functions, empty without them.
    task_kernel_ : the kernel found on task features, None without them.
    objective_trace_ : the objective after every iteration of EM, None for gradients.
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        kernel: Any = None,
        task_covariance: Any = "free",
        rank: int | None = None,
        diagonal: str = "none",
        intercept: bool = False,
        specific_kernel: Any = None,
        share_noise: bool = False,
        task_prior: Any = "auto",
        task_features: Any = None,
        task_kernel: Any = None,
        noise: Any = None,
        inducing: Any = None,
        solver: str = "gradient",
        normalize_y: bool | str = True,
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 1000,
        random_state: Any = 0,
        device: str = "cpu",
        workers: Any = None,
    ) -> None:
        self.task = task
        self.kernel = kernel
        self.task_covariance = task_covariance
        self.rank = rank
        self.diagonal = diagonal
        self.intercept = intercept
        self.specific_kernel = specific_kernel
        self.share_noise = share_noise
        self.task_prior = task_prior
        self.task_features = task_features
        self.task_kernel = task_kernel
        self.noise = noise
        self.inducing = inducing
        self.solver = solver
        self.normalize_y = normalize_y
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.random_state = random_state
        self.device = device
        self.workers = workers

    def _read(
        self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, replicates: Any = None
    ) -> tuple[Rows, Schema]:
        if self.task_kernel is not None and self.task_features is None:
            raise ValueError("task_kernel= is a kernel on task features; give task_features= too")
        self._descriptors = descriptor_columns(self.task_features)
        if self._descriptors is not None:
            if self.task is not None or tasks is not None:
                raise ValueError(
                    f"task_features={self.task_features!r} names columns of X, and every distinct row of these is a "
                    "task: leave out task= and tasks=, or give features by label as a dict"
                )
            X, tasks = split_descriptors(X, self._descriptors)
        rows, schema = super()._read(X, y, tasks, sample_weight, replicates)
        if isinstance(self.task_features, Mapping):
            labels = sort_labels([*schema.labels, *self.task_features])
            rows, schema = _relabel(rows, labels), replace(schema, labels=labels, wide=_moved(schema, labels))
        return rows, schema

    def _arrange(self, rows: Rows) -> TaskData:
        self._rows = rows
        return build(rows, self.normalize_y)

    def _largest_block(self, data: TaskData) -> int:
        return len(data.cells.y)

    def _fit(self, data: TaskData) -> Fitted:
        spread: Spread | None = data.spread
        setup, values = self._prepare(data)
        setup = replace(setup, spread=spread)
        if spread is not None and setup.path in ("dense", "complete"):
            raise ValueError(
                f"workers={self.workers!r}: tasks are spread over workers where they share a few functions; give rank= "
                "and inducing=, or leave out workers="
            )
        optimum: Optimum | None = None
        self.objective_trace_: list[float] | None = None
        if self.optimizer is not None:
            setup, values, optimum = self._learn(setup, values, data)
            # Only its value is asked for, and only where there are no priors but that of K^f.
            value = with_prior(lambda at: (condition(at, setup).evidence, {}), setup.form.log_prior)
            warn_unfinished(self, optimum, parameter_names(data.labels, setup), value)
        elif "factor" not in values and hasattr(setup.form, "start"):
            values = {**setup.form.start(np.eye(setup.M)), **values}
        fit = condition(values, setup)
        self._posterior = detached(fit.posterior)
        self._setup, self._values = replace(setup, spread=None), values
        self._publish(data.labels)
        self._warn(data, fit.posterior)
        n_iter, converged = (0, True) if optimum is None else (max(optimum.n_iter, 1), optimum.converged)
        noise = np.broadcast_to(np.exp(values["noise"]), setup.M).copy()
        return Fitted(fit.evidence, noise, fit.posterior.prior.jitter, n_iter, converged)

    def _prepare(self, data: TaskData) -> tuple[Setup, Values]:
        if self.solver not in ("gradient", "em"):
            raise ValueError(f"solver={self.solver!r}: expected 'gradient' or 'em'")
        features = features_of(self.task_features, data.labels, self._descriptors)
        setup, values = prepare(self, data, features)
        alone = isinstance(setup.form, FreeForm) and not setup.intercept and not setup.specific and setup.Z is None
        if self.solver == "em" and not alone:
            raise ValueError(
                "solver='em' learns a free-form K^f alone: leave out rank=, diagonal=, intercept=, specific_kernel=, "
                "task_features= and inducing=, or use solver='gradient'"
            )
        noise = np.log(self._start_noise(data))
        values["noise"] = np.array([noise.mean()]) if self.share_noise else noise
        return replace(setup, share_noise=bool(self.share_noise)), values

    def _learn(self, setup: Setup, values: Values, data: TaskData) -> tuple[Setup, Values, Optimum]:
        scales = data.column_scales
        if self.solver == "em":
            optimum, self.objective_trace_ = maximise_by_em(setup, values, scales, self.prior, self.max_iter)
        else:
            optimum = optimise(setup, values, scales, self.prior, self.max_iter)
            if isinstance(self.inducing, (int, np.integer)):  # spread again by the kernel that was found
                kernel = setup.kernel.with_theta(optimum.values["kernel"])
                setup = replace(setup, Z=inducing_inputs(self.inducing, kernel, setup.design.inputs))
                optimum = optimise(setup, optimum.values, scales, self.prior, self.max_iter)
        return setup, optimum.values, optimum

    def _publish(self, labels: tuple[Hashable, ...]) -> None:
        setup, values = self._setup, self._values
        self.kernel_ = setup.kernel.with_theta(values["kernel"])
        self.task_covariance_ = setup.form.parts(values).B
        self.path_ = setup.path
        self.inducing_ = setup.Z
        self.intercept_variance_ = float(np.exp(values["intercept"][0])) if setup.intercept else 0.0
        own = zip(setup.specific, setup.specific_parts, strict=True)
        kernels = [None if k is None else k.with_theta(values["specific"][at]) for k, at in own]
        self.specific_kernels_ = dict(zip(labels, kernels, strict=False))
        kernel = getattr(setup.form, "kernel", None)
        self.task_kernel_ = None if kernel is None else kernel.with_theta(values["task_kernel"])

    def _warn(self, data: TaskData, posterior: Any) -> None:
        empty = [label for label, n in zip(data.labels, np.diff(data.cells.starts), strict=True) if n == 0]
        if empty and self.task_features is None:
            _say(
                f"task {list_labels(empty, 4)} has no observed target: nothing is known of its relation to the others "
                "and it is predicted from the prior; drop it, or give task_features="
            )
        if len(data.cells.y) > 1 and len(self._setup.design.inputs) == 1:
            _say(
                "all inputs are equal: only the level of each task can be learnt; give columns that vary, or compare "
                "the tasks' means"
            )
        if transfer_cancels(posterior):
            _say(
                "every input is seen in every task and there is almost no noise: in that case transfer cancels, and "
                "the prediction of a task depends on its own targets alone (the kernel is still learnt from all); "
                "to transfer, observe tasks at different inputs"
            )

    def predict(
        self,
        X: Any,
        tasks: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """Posterior mean of each row's task; with its standard deviation or covariance if asked.

        As in every GP estimator; with `task_features` naming columns of X, a descriptor that fit never saw is a new
        task whose relation to the others follows from the kernel on features.
        """
        check_is_fitted(self, "log_marginal_likelihood_")
        if self._descriptors is None:
            return super().predict(X, tasks, return_std, return_cov, include_noise)
        if tasks is not None:
            raise ValueError(
                f"the columns {self.task_features!r} of X say which task a row belongs to; leave out tasks="
            )
        X, labels = split_descriptors(X, self._descriptors)
        unseen = [v for v in dict.fromkeys(labels) if v not in self._schema.labels]
        model = self._with_tasks(unseen) if unseen else self
        return GPRegressor.predict(model, X, labels, return_std, return_cov, include_noise)

    def _with_tasks(self, unseen: list[Hashable]) -> MultiTaskGPRegressor:
        """The same fit, with further tasks that have no rows: one more conditioning at the learnt hyper-parameters."""
        labels = sort_labels([*self._schema.labels, *unseen])
        if self._setup.specific:
            raise ValueError("a task never seen has no kernel of its own: fit without specific_kernel= to predict it")
        model = copy.copy(self)
        data = build(_relabel(self._rows, labels), self.normalize_y)
        data = replace(data, cells=replace(data.cells, device=self._setup.cells.device))
        old_form: Any = self._setup.form
        form = replace(old_form, features=features_of(self.task_features, labels, self._descriptors))
        design = Design.of(data.cells)
        path = choose_path(design, form, self._setup.intercept, (), self.inducing is not None)
        model._setup = replace(self._setup, cells=data.cells, design=design, form=form, path=path)
        old = encode(self._schema.labels, labels)
        known = np.array([self.noise_[label] for label in self._schema.labels]) / self._scale**2
        noise = np.full(len(labels), np.exp(np.log(known).mean()))
        noise[old] = known
        values = {**self._values, "noise": self._values["noise"] if self.share_noise else np.log(noise)}
        model._posterior = condition(values, model._setup).posterior
        model._schema = replace(self._schema, labels=labels)
        model._center, model._scale = data.scaling.center, data.scaling.scale
        model.noise_ = dict(zip(labels, (noise * data.scaling.scale**2).tolist(), strict=True))
        model.tasks_ = as_labels(labels)
        return model

    def _predict(self, X: Array, task: Codes, full: bool) -> Prediction:
        return self._posterior.predict(X, task, full)

    def _marginals(self) -> tuple[Cells, Array, Array]:
        return self._setup.cells, *self._posterior.marginals()


def _relabel(rows: Rows, labels: tuple[Hashable, ...]) -> Rows:
    """The same rows among more tasks."""
    codes = encode(rows.labels, labels)
    return replace(rows, task=codes[rows.task], labels=labels)


def _moved(schema: Schema, labels: tuple[Hashable, ...]) -> Codes | None:
    return None if schema.wide is None else encode(schema.labels, labels)[schema.wide]


def _say(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=5)  # the line that called fit
