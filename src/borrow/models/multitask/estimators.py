"""The estimators on the symmetric model: validate, call, store, warn. The paper is in `model.py`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from borrow.covariance import Design
from borrow.data.cells import Rows
from borrow.data.labels import encode, list_labels, places_of, sort_labels
from borrow.data.read import Schema
from borrow.data.scaling import TaskData, build
from borrow.estimators.base import OnWorkers
from borrow.estimators.classifier import EPClassifier, at_final_tolerance, warn_ep
from borrow.estimators.gp import GPEstimator, default_kernel
from borrow.estimators.registry import register
from borrow.estimators.regressor import FittedRegression, GPFit, GPRegressor
from borrow.estimators.settings import Allowed, one_of, positive
from borrow.inference import HyperUncertainty, Inference, OtherModel, UncertaintyByTask
from borrow.kernels import Kernel
from borrow.models.gp.task_model import NoTransfer
from borrow.models.multitask.em import maximise_by_em
from borrow.models.multitask.model import (
    AS_PRINTED,
    Setup,
    choose_path,
    condition,
    model_uncertainty,
    transfer_cancels,
)
from borrow.models.multitask.search import optimise
from borrow.models.multitask.settings import (
    BY_EVIDENCE,
    descriptor_columns,
    features_of,
    inducing_inputs,
    is_by_evidence,
    parameter_names,
    prepare,
    split_descriptors,
)
from borrow.models.multitask.sharing import choose_sharing
from borrow.models.multitask.task_covariance import FreeForm, LowRank
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, Values, with_prior
from borrow.numerics.stored import stored
from borrow.numerics.threads import SMALL_BLOCK
from borrow.numerics.warned import warn
from borrow.tasks.contracts import Shard, Tasks
from borrow.tasks.placed import PlacedTasks

#: A model as a search finds it: its setup, the optimum, no transfer beside it where both may be and, of EM, the
#: objective after every iteration.
Found = tuple[Setup, Optimum, NoTransfer | None, list[float] | None]


@stored("multitask-fit")
@dataclass(frozen=True)
class MultiTaskFit(GPFit):
    """The symmetric model with the hyper-parameters found, for labels and for numbers alike."""

    setup: Setup
    values: Values
    trace: list[float] | None
    rows: Rows | None = None  # as they were given, to condition again where further tasks are asked for

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes of a regressor."""
        setup, values = self.setup, self.values
        kernel = getattr(setup.form, "kernel", None)
        return {
            **super().attributes(labels),
            "intercept_variance_": float(np.exp(values["intercept"][0])) if setup.intercept else 0.0,
            "task_kernel_": None if kernel is None else kernel.with_theta(values["task_kernel"]),
            "objective_trace_": self.trace,
        }

    def own_attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """Kernels, K^f, and how it was computed."""
        setup, values, places = self.setup, self.values, places_of(labels)
        B = setup.form.parts(values).B
        found: dict[str, Any] = {}
        if "noise" not in values:  # labels
            shares = np.count_nonzero(B, axis=1) > 1
            other = self.uncertainty.probability if isinstance(self.uncertainty, OtherModel) else 1.0 - shares
            found["shared_probability_"] = dict(zip(labels, (1.0 - np.asarray(other)).tolist(), strict=True))
        return {
            **found,
            "kernel_": setup.kernel.with_theta(values["kernel"]),
            "task_covariance_": B[np.ix_(places, places)],
            "task_correlations_": self.task_correlations()[np.ix_(places, places)],
            "specific_kernels_": dict(zip(labels, setup.specific_kernels(values), strict=False)),
            "path_": setup.path,
            "inducing_": setup.Z,
        }

    def task_correlations(self) -> Array:
        """Correlations of the tasks' functions, own functions and intercepts included: averages over the inputs."""
        setup, values, X = self.setup, self.values, self.setup.design.inputs
        C = setup.form.parts(values).B * _mean_variance(setup.kernel.with_theta(values["kernel"]), X)
        total = np.diagonal(C) + (np.exp(values["intercept"][0]) if setup.intercept else np.zeros(1))
        for t, kernel in enumerate(setup.specific_kernels(values)):
            total[t] += 0.0 if kernel is None else _mean_variance(kernel, X)
        C = C / np.sqrt(np.maximum(np.multiply.outer(total, total), np.finfo(float).tiny))  # no variance: nothing
        C.flat[:: len(C) + 1] = 1.0
        return C


def _mean_variance(kernel: Kernel, X: Array) -> float:
    return float(np.mean(kernel.diag(X))) if len(X) else 0.0


@dataclass(eq=False, repr=False, kw_only=True)
class MultiTaskGP(GPEstimator):
    """What both symmetric estimators share. Abstract."""

    task_covariance: Any = "free"
    rank: int | None = None
    diagonal: str = "none"
    intercept: bool = False
    specific_kernel: Any = BY_EVIDENCE
    task_prior: Any = "auto"
    task_features: Any = None
    task_kernel: Any = None
    inducing: Any = None

    allowed: ClassVar[Allowed] = {
        "diagonal": one_of("none", "isotropic", "free", said="'none', 'isotropic' or 'free'"),
        "task_prior": (positive("auto", None)[0], "'auto', a positive strength, or None"),
        "solver": one_of("gradient", "em", said="'gradient' or 'em'"),
    }

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.task_kernel is not None and self.task_features is None:
            raise ValueError("task_kernel= is a kernel on task features; give task_features= too")

    def _fit_gp(self, data: TaskData, tasks: Tasks[Shard], infer: Inference, likelihood: Values) -> MultiTaskFit:
        setup, values = self._prepare(data, tasks, infer, likelihood)
        n_iter, converged, trace = 0, True, None
        uncertainty: HyperUncertainty | UncertaintyByTask | OtherModel | None = None
        if self.optimizer is not None:
            setup, optimum, beside, trace = self._search(setup, values, data.column_scales)
            values, n_iter, converged = optimum.values, max(optimum.n_iter, 1), optimum.converged
            # Only its value is asked for, and only where there are no priors but that of K^f.
            value = with_prior(lambda at: (condition(at, setup).evidence, {}), setup.form.log_prior)
            self._warn_unfinished(optimum, parameter_names(data.labels, setup), value)
            if beside is None:
                uncertainty = model_uncertainty(setup, values, data.column_scales, self.prior, data.centred)
            else:  # of labels
                uncertainty = beside.weighed(condition, at_final_tolerance(infer))
        else:
            values = {**setup.form.start(np.eye(setup.M)), **values}
        fit = condition(values, replace(setup, infer=at_final_tolerance(infer)))
        warn_ep(fit)
        noise = np.broadcast_to(np.exp(values.get("noise", np.zeros(1))), setup.M).copy()
        common = data.cells, fit.evidence, noise, fit.posterior.prior.jitter, n_iter, converged, fit.posterior
        return MultiTaskFit(*common, setup, values, trace, uncertainty=uncertainty)

    def _prepare(
        self, data: TaskData, tasks: Tasks[Shard], infer: Inference, likelihood: Values
    ) -> tuple[Setup, Values]:
        """The model and where its search starts."""
        setup, values = prepare(self, data, tasks, infer)
        return setup, {**values, **likelihood}

    def _search(self, setup: Setup, values: Values, scales: Array) -> Found:
        """The hyper-parameters, and which tasks share where that is left to the evidence."""
        plain = isinstance(setup.form, FreeForm) and "factor" not in values and setup.Z is None
        alone = setup.M == 1 or setup.intercept or setup.share_noise
        under_priors = self.prior is not None and self.task_prior is not None
        if is_by_evidence(self.specific_kernel) and under_priors and plain and not alone:
            kernel = default_kernel(scales, self.kernel, "kernel")
            return *choose_sharing(setup, values, scales, kernel, self.max_iter), None
        return setup, optimise(setup, values, scales, self.prior, self.max_iter), None, None


@register(
    "symmetric",
    "symmetric GP",
    rank=2,
    most_rows=800,
    about="all tasks at once; how each two go together is learnt (Bonilla, Chai & Williams 2008)",
    matrix="all",
    drops=True,
    role="pairs",
)
@dataclass(eq=False, repr=False, kw_only=True)
class MultiTaskGPRegressor(GPRegressor, MultiTaskGP, OnWorkers):
    """All tasks at once: cov(f_t(x), f_t'(x')) = K^f[t, t'] k(x, x'), with K^f learnt from the data.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    kernel : kernel on the inputs; its overall variance is not learnt, K^f carries the scale. Default squared
        exponential with one lengthscale per column.
    task_covariance : "free" (the default), "diagonal" (only the kernel is shared), "uniform" (a 11' + b I), or an
        (M, M) array in the order of `tasks_`, where a free-form K^f starts (with `optimizer=None`: K^f itself).
    rank, diagonal : K^f = R R' of this rank, alone ("none") or with an "isotropic" or "free" diagonal.
    intercept : a random intercept for every task.
    specific_kernel : kernel of a function of its own for every task, beside the shared ones. "evidence" (the default):
        with a free-form K^f under the priors, the best by evidence of three: all tasks are alike (K^f = a 11' + b I);
        K^f is free and every task has a function of its own with a kernel like `kernel`; nothing is shared. A task that
        is better off alone shares nothing in any case. In all other settings there are no such functions.
        None: all tasks share one kernel, as in the paper. "auto", one kernel for all, or a dict by label.
    share_noise : one noise variance for all tasks, as in the paper, instead of one per task.
    task_prior : "auto" shrinks K^f by an inverse-Wishart penalty of strength M, a number is another strength, None is
        the paper's plain likelihood.
    task_features, task_kernel : K^f = `task_kernel` on features of the tasks: a dict label -> numbers, which may hold
        tasks that have no rows yet, or names (positions) of columns of X, every distinct row of which is then a task.
    noise : starting value in the units of y (the value, with `optimizer=None`); a number or a dict by label.
    inducing : None (exact), a number of inducing inputs, or an array of them: Nystrom's approximation of the kernel.
    solver : "gradient" or "em" (section 2.2 of the paper; free-form K^f, or rank= with diagonal="isotropic"; many times
        slower). With inducing= EM drops the variance that these lose, as the paper does: bands are too narrow.
    workers : None fits in this process; a number of processes, or "dask" for the workers of the current Dask client,
        with `rank` and `inducing`: tasks are spread over them (docs/large.md).
    normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`.
    unseen : as in every `GPRegressor`.

    Attributes
    ----------
    task_covariance_ : K^f, (M, M) in the order of `tasks_`, for scaled targets.
    path_ : the algebra that the data allowed: "complete", "gathered", "low rank", "blocks" or "dense"; of EM with
        inducing= "low rank, as printed".
    inducing_ : the inducing inputs, None where the kernel is exact.
    intercept_variance_ : variance of the random intercepts, 0 without them.
    specific_kernels_ : dict by label of the kernels of the tasks' own functions, None for a task without; empty where
        no task has one.
    task_correlations_ : (M, M) correlations of the tasks' functions at the same inputs, own functions included.
    task_kernel_ : the kernel found on task features, None without them.
    objective_trace_ : the objective after every iteration of EM, None for gradients.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.MultiTaskGPRegressor(rank=1, diagonal="isotropic").fit(X, y, tasks=tasks)
    >>> model.predict([[1.5], [1.5]], tasks=["a", "b"]).shape
    (2,)
    >>> model.task_covariance_.shape  # in the order of model.tasks_
    (2, 2)
    """

    max_iter: int = 1000
    share_noise: bool = False
    solver: str = "gradient"

    def _read(
        self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, replicates: Any = None
    ) -> tuple[Rows, Schema]:
        descriptors = descriptor_columns(self.task_features)
        if descriptors is not None:
            if self.task is not None or tasks is not None:
                raise ValueError(
                    f"task_features={self.task_features!r} names columns of X, and every distinct row of these is a "
                    "task: leave out task= and tasks=, or give features by label as a dict"
                )
            X, tasks = split_descriptors(X, descriptors)
        rows, schema = super()._read(X, y, tasks, sample_weight, replicates)
        if isinstance(self.task_features, Mapping):
            labels = (*schema.labels, *sort_labels(v for v in self.task_features if v not in schema.labels))
            wide = None if schema.wide is None else encode(schema.labels, labels)[schema.wide]
            rows, schema = _relabel(rows, labels), replace(schema, labels=labels, wide=wide)
        return rows, schema

    def _arrange(self, rows: Rows) -> TaskData:
        self._rows = rows
        return build(rows, self.normalize_y)

    def _largest_block(self, data: TaskData) -> int:
        return len(data.cells.y)

    def _fit(self, data: TaskData, tasks: PlacedTasks) -> MultiTaskFit:
        fit: Any = super()._fit(data, tasks)
        self._warn(data, fit)
        return replace(fit, rows=self._rows)

    def _prepare(
        self, data: TaskData, tasks: Tasks[Shard], infer: Inference, likelihood: Values
    ) -> tuple[Setup, Values]:
        if self.share_noise:
            likelihood = {"noise": np.array([likelihood["noise"].mean()])}
        setup, values = super()._prepare(data, tasks, infer, likelihood)
        if self.solver == "em":
            setup = self._for_em(setup)
        if self.workers is not None and setup.path in ("dense", "complete"):
            raise ValueError(
                f"workers={self.workers!r}: tasks are spread over workers where they share a few functions; give rank= "
                "and inducing=, or leave out workers="
            )
        return replace(setup, share_noise=bool(self.share_noise)), values

    def _for_em(self, setup: Setup) -> Setup:
        """The algebra that has the moments of EM; other models are refused."""
        free, form = isinstance(setup.form, FreeForm), setup.form
        isotropic = isinstance(form, LowRank) and form.diagonal == "isotropic" and setup.Z is None
        if setup.intercept or setup.specific or not (free or isotropic):
            raise ValueError(
                "solver='em' learns a free-form K^f alone: leave out rank=, diagonal=, intercept=, specific_kernel= "
                "and task_features=, or use solver='gradient'; rank= goes with diagonal='isotropic' and without "
                "inducing= (the range of a K^f of low rank alone never moves under EM)"
            )
        if setup.Z is not None:
            return replace(setup, path=AS_PRINTED)
        if setup.path in ("blocks", "dense"):
            n = len(setup.cells.y)
            numbers = (6.6 + 3.0 * (n < SMALL_BLOCK)) * n * n
            setup.tasks.require(f"EM on {n:,} distinct rows", "use solver='gradient'", host=numbers)
            return replace(setup, path="dense")
        return setup

    def _search(self, setup: Setup, values: Values, scales: Array) -> Found:
        """The hyper-parameters, by EM or by gradients; inducing inputs are spread again by the kernel found."""
        if self.solver == "em":
            optimum, trace = maximise_by_em(setup, values, scales, self.prior, self.max_iter)
            return setup, optimum, None, trace
        found = super()._search(setup, values, scales)
        if isinstance(self.inducing, (int, np.integer)):
            values = found[1].values
            kernel = setup.kernel.with_theta(values["kernel"])
            setup = replace(setup, Z=inducing_inputs(self.inducing, kernel, setup.design.inputs))
            found = super()._search(setup, values, scales)
        return found

    def _warn(self, data: TaskData, fit: MultiTaskFit) -> None:
        empty = [label for label, n in zip(data.labels, np.diff(data.cells.starts), strict=True) if n == 0]
        if empty and self.task_features is None:
            warn(
                f"task {list_labels(empty, 4)} has no observed target: nothing is known of its relation to the others "
                "and it is predicted from the prior; drop it, or give task_features="
            )
        if len(data.cells.y) > 1 and len(fit.setup.design.inputs) == 1:
            warn(
                "all inputs are equal: only the level of each task can be learnt; give columns that vary, or compare "
                "the tasks' means"
            )
        if transfer_cancels(fit.posterior):
            warn(
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
        fitted: Any = self._fit_of()
        descriptors = descriptor_columns(self.task_features)
        if descriptors is None:
            return super().predict(X, tasks, return_std, return_cov, include_noise)
        if tasks is not None:
            raise ValueError(
                f"the columns {self.task_features!r} of X say which task a row belongs to; leave out tasks="
            )
        X, labels = split_descriptors(X, descriptors)
        unseen = [v for v in dict.fromkeys(labels) if v not in fitted.schema.labels]
        model = self
        if unseen:
            model = self._unfitted()
            model.fitted_ = self._with_tasks(fitted, unseen)
        return GPRegressor.predict(model, X, labels, return_std, return_cov, include_noise)

    def _with_tasks(self, fitted: FittedRegression, unseen: list[Hashable]) -> FittedRegression:
        """The same fit, with further tasks that have no rows: one more conditioning at the learnt hyper-parameters."""
        old: MultiTaskFit = fitted.model
        known, labels = fitted.schema.labels, (*fitted.schema.labels, *sort_labels(unseen))
        if old.setup.specific:
            raise ValueError("a task never seen has no kernel of its own: fit without specific_kernel= to predict it")
        assert old.rows is not None  # fitted to numbers
        rows = _relabel(old.rows, labels)
        data = build(rows, self.normalize_y)
        tasks = old.setup.tasks.here(data.cells)
        form: Any = old.setup.form
        form = replace(form, features=features_of(self.task_features, labels))
        design = Design.from_cells(tasks.cells, tasks.device)
        path = choose_path(design, form, old.setup.intercept, (), self.inducing is not None)
        setup = replace(old.setup, tasks=tasks, design=design, form=form, path=path)
        noise = np.full(len(labels), np.exp(np.log(old.noise).mean()))
        noise[encode(known, labels)] = old.noise
        values = {**old.values, "noise": old.values["noise"] if self.share_noise else np.log(noise)}
        fit = condition(values, setup)
        found: dict[str, Any] = {"setup": setup, "values": values, "posterior": fit.posterior, "uncertainty": None}
        model = replace(old, cells=data.cells, noise=noise, rows=rows, **found)
        published = self._published(replace(fitted.schema, labels=labels), data.scaling, model)
        return replace(published, attributes={**fitted.attributes, **published.attributes})


@register("symmetric", "symmetric GP", rank=2, most_rows=800, matrix="all", drops=True, role="pairs")
@dataclass(eq=False, repr=False)
class MultiTaskGPClassifier(EPClassifier, MultiTaskGP):
    """Predict labels of all tasks together: p(y) = Phi(y (f_t + b_t)), cov(f_t(x), f_t'(x')) = K^f[t, t'] k(x, x').

    The bias b_t of task t is Phi^-1(share of positives), the share kept in [.02, .98].
    Where `specific_kernel` leaves it to the evidence who shares, what is predicted for a task is the average of the
    model found and of no transfer, by how probable it is that the task shares (`shared_probability_`); one of the two
    that is less probable than 5 % is left out.

    Parameters
    ----------
    kernel, task_covariance, rank, diagonal, intercept, specific_kernel : as in `MultiTaskGPRegressor`.
    task_prior, task_features, task_kernel, inducing : as there; `task_features` is a dict by label.
    task, likelihood, prior, optimizer, max_iter, random_state, device : as in every `EPClassifier`.
    unseen : as in every `EPClassifier`.

    Attributes
    ----------
    task_covariance_, task_correlations_, specific_kernels_, path_, inducing_ : as in `MultiTaskGPRegressor`, of the
        model in which tasks share; lists, one per class, where there are more than two.
    shared_probability_ : dict by label: how probable it is that the task shares something, as predictions are averaged;
        a list as above.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.MultiTaskGPClassifier().fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.task_features is not None and not isinstance(self.task_features, Mapping):
            raise ValueError("task_features: expected a dict from task label to numbers")


def _relabel(rows: Rows, labels: tuple[Hashable, ...]) -> Rows:
    """The same rows among more tasks."""
    return replace(rows, task=encode(rows.labels, labels)[rows.task], labels=labels)
