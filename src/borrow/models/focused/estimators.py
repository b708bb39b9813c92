"""The estimators on the focused model: validate, call, store, warn. The paper is in `model.py`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from borrow.covariance import choose_inducing
from borrow.covariance.inducing import TOLERANCE
from borrow.data.scaling import TaskData
from borrow.data.table import Table
from borrow.estimators.base import OnWorkers, one_or_list
from borrow.estimators.classifier import EPClassifier, at_final_tolerance, warn_ep
from borrow.estimators.gp import GPEstimator
from borrow.estimators.registry import register
from borrow.estimators.regressor import GPFit, GPRegressor
from borrow.inference import HyperUncertainty, Inference, OtherModel, UncertaintyByTask
from borrow.models.focused.model import Setup, condition, model_uncertainty, objective_of, task_weights
from borrow.models.focused.relatedness import relatedness
from borrow.models.focused.scoring import FocusedAscent
from borrow.models.focused.search import optimise, with_inducing
from borrow.models.focused.settings import check_memory, parameter_names, prepare, primary_code, weight_sd
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.numerics.stored import stored
from borrow.numerics.threads import single_thread
from borrow.numerics.warned import log, warn
from borrow.tasks.contracts import Shard, Tasks

#: Why it cannot answer for a task never seen.
NO_NEW_TASK = "it is for one task that has rows"
#: A posterior covariance has inducing inputs at its rows too, up to this many in all.
MOST_INDUCING = 1000


@stored("focused-fit")
@dataclass(frozen=True)
class FocusedFit(GPFit):
    """The focused model with the hyper-parameters found, for labels and for numbers alike."""

    setup: Setup
    values: Values
    scales: Array

    def own_attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """Kernels, inducing inputs and weights."""
        setup, values = self.setup, self.values
        own = setup.specific_kernels(values)
        found: dict[str, Any] = {
            "kernel_": setup.kernel.with_theta(values["kernel"]),
            "inducing_": setup.Z if setup.design is None else None,
            "rho_": dict(zip(labels, task_weights(values, setup)[:, 0].tolist(), strict=True)),
            "specific_kernels_": {
                labels[t]: own[t] for t, k in enumerate(setup.specific) if k is not None or t != setup.primary
            },
        }
        if "noise" not in values:  # labels
            nothing = not np.any(task_weights(values, setup)[setup.secondaries])
            other = self.uncertainty.probability if isinstance(self.uncertainty, OtherModel) else float(nothing)
            found["shared_probability_"] = 1.0 - other
        return found

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes of a regressor."""
        weights = task_weights(self.values, self.setup)
        loadings = {labels[t]: weights[t, 1:].tolist() for t in self.setup.secondaries}
        return {**super().attributes(labels), "background_": loadings}


@dataclass(eq=False, repr=False, kw_only=True)
class FocusedGP(GPEstimator, OnWorkers):
    """What both focused estimators share. Abstract."""

    primary: Any = field(default=None, kw_only=False)
    specific_kernel: Any = None
    rho: Any = None
    inducing: Any = "auto"
    rho_prior: Any = "auto"
    background: int = 0
    n_restarts: int = 1

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int:
        return primary_code(self.primary, labels)

    def _fit_gp(self, data: TaskData, tasks: Tasks[Shard], infer: Inference, likelihood: Values) -> FocusedFit:
        primary, scales, sd = self._primary_code(data.labels), data.column_scales, weight_sd(self.rho_prior, infer)
        how = self.kernel, self.specific_kernel, self.rho, self.background, infer
        setup, values = prepare(data, tasks, primary, *how)
        values |= likelihood
        setup = with_inducing(self.inducing, data, setup, values)
        check_memory(setup)
        n_iter, converged = 0, True
        uncertainty: HyperUncertainty | UncertaintyByTask | OtherModel | None = None
        if self.optimizer is not None:
            setup, optimum, beside = optimise(self, data, setup, values, sd)
            values = optimum.values
            names = parameter_names(data.labels, setup, self.background)
            self._warn_unfinished(optimum, names, objective_of(setup, scales, self.prior, sd))
            n_iter, converged = max(optimum.n_iter, 1), optimum.converged
            if beside is None:
                uncertainty = model_uncertainty(setup, values, scales, self.prior, sd, data.centred)
            else:  # of labels
                uncertainty = beside.weighed(condition, at_final_tolerance(infer))
        fit = condition(values, replace(setup, infer=at_final_tolerance(infer)))  # last: its matrices are kept
        warn_ep(fit)
        self._warn(setup, data.labels)
        jitter = fit.posterior.prior.jitter
        if jitter > 0:
            log.info("relative jitter %g was added to the covariance of the inducing inputs", jitter)
        noise = np.exp(values.get("noise", np.zeros(len(data.labels))))
        common = data.cells, fit.evidence, noise, jitter, n_iter, converged, fit.posterior
        return FocusedFit(*common, setup, values, scales, uncertainty=uncertainty)

    def _warn(self, setup: Setup, labels: tuple[Hashable, ...]) -> None:
        """Say where the primary has no row, and where what is borrowed is approximate."""
        if len(setup.secondaries) and not len(setup.cells.y[setup.cells.of(setup.primary)]):
            how = "in their average units" if setup.infer.gaussian else "with even odds where they say nothing"
            warn(
                f"the primary task {labels[setup.primary]!r} has no labelled row: it is predicted from the other tasks "
                f"alone, {how}, and the sign of each relation is an assumption"
            )
        if setup.design is None and setup.left > 1.01 * TOLERANCE:
            warn(
                f"the function that tasks share is carried by {len(setup.Z):,} inducing inputs, which leave up to "
                f"{setup.left:.0%} of its variance at some rows: what is borrowed there is approximate; inducing=None "
                "is exact, a number of inputs is as close as you wish, or thin the rows of the secondaries"
            )

    def _relatedness(self, fit: FocusedFit) -> Table:
        setup = replace(fit.setup, infer=at_final_tolerance(fit.setup.infer))  # its gradient is differenced
        ascent = FocusedAscent(setup, fit.scales, self.prior, weight_sd(self.rho_prior, setup.infer))
        with single_thread(int(np.diff(fit.cells.starts).max())):
            return relatedness(ascent, fit.values, fit.posterior, self._fit_of().schema.labels)


@register(
    "focused",
    "focused GP",
    rank=3,
    about="the primary's function, of which each other task carries a part (Leen, Peltonen & Kaski 2011)",
    drops=True,
    no_new_task=NO_NEW_TASK,
    role="relations",
)
@dataclass(eq=False, repr=False)
class FocusedGPRegressor(GPRegressor, FocusedGP):
    """Learn a primary task with the help of secondary ones: y_t = rho_t f + a function of its own + noise.

    f is what the tasks have in common with the primary, whose rho is 1. The primary has a function of its own where its
    rows are then better explained. With `rho_prior=None` (the paper's model), with `background` and where nothing is
    borrowed it has none, unless `specific_kernel` names one: f is all of it.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    primary : label of the task that matters; may be left out only when there is a single task.
    kernel : kernel of the primary's function; default squared exponential with one lengthscale per column.
    specific_kernel : kernel of what a secondary does not share; one for all or a dict by label (None: no such part);
        default squared exponential plus a constant. One for all is that of the secondaries.
    rho, noise : starting values (the values, with `optimizer=None`); a number or a dict by label. Noise variances are
        in the units of y; rho and kernel variances refer to scaled targets.
    inducing : inputs that carry the shared function. "auto" needs none where all pairs of rows can be written out (up
        to 1,000 rows: exact), else takes those of the primary and as many of the others as it takes; None is exact at
        any size; "primary" (the paper's), a number of inputs, or an array of them.
    rho_prior : "auto" is N(0, 1) on rho sqrt(variance), for labels N(0, e^2); a number is another standard deviation,
        None is no prior.
    background : number of functions shared among the secondaries but not with the primary.
    workers : None fits in this process; a number of processes, or "dask" for the workers of the current Dask client:
        tasks are spread over them, the answer is the same (docs/large.md).
    n_restarts : further starts, with the signs of rho flipped at random.
    normalize_y, prior, optimizer, max_iter, random_state, device : as in every `GPRegressor`.
    unseen : as in every `GPRegressor`.

    Attributes
    ----------
    rho_ : dict by label: how much a task carries of the function in common with the primary, for scaled targets; 1 for
        the primary.
    specific_kernels_ : dict by label of the kernels of what a task does not share; the primary is in it where something
        is borrowed: part of its function may be its own.
    inducing_ : inputs on which the shared function is carried; None where nothing is approximated.
    background_ : dict by label of loadings on the background functions.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.FocusedGPRegressor(primary="a", n_restarts=0).fit(X, y, tasks=tasks)
    >>> mean, std = model.predict([[1.5], [2.5]], tasks="a", return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((2,), True)
    >>> model.relatedness()["task"]
    ['a', 'b']
    """

    def _exact_at(self, rows: Array) -> FocusedFit:
        """The model conditioned again with inducing inputs at the rows too, up to MOST_INDUCING in all."""
        model: FocusedFit = self._fit_of().model
        setup, values = model.setup, model.values
        if setup.design is not None:
            return model
        kernel, most = setup.kernel.with_theta(values["kernel"]), max(MOST_INDUCING, len(setup.Z))
        Z = choose_inducing(kernel, setup.Z, np.unique(rows, axis=0), most, 1e-8)
        with single_thread(len(Z)):
            posterior = condition(values, replace(setup, Z=Z)).posterior
        return replace(model, posterior=posterior)

    def relatedness(self) -> Table:
        """One row per task: rho, its standard error, correlation with the primary, share of its variance shared, odds.

        `correlation` is the prior correlation of the two functions at the same input, `low` and `high` its 95 %
        interval; `share` is the part of the function's prior variance that comes from the primary's function, noise
        left out; `odds` are those of a relation against none, even beforehand, above 400 at least so large. They come
        from what was maximised, followed along the relation with all else at its best. A relation that was dropped has
        rho = 0 and no standard error: its interval says how strong it may be. What is shown as "-" (NaN) is not known:
        the task has no rows or no part of its own, and odds need a prior on rho and not too many rows.
        """
        return self._relatedness(self._fit_of().model)


@register("focused", "focused GP", rank=3, drops=True, no_new_task=NO_NEW_TASK, role="relations")
@dataclass(eq=False, repr=False, kw_only=True)
class FocusedGPClassifier(EPClassifier, FocusedGP):
    """Predict labels of the primary task with the help of others: p(y) = Phi(y (rho_t f_primary + own_t + b_t)).

    The bias b_t of task t is Phi^-1(share of positives), the share kept in [.02, .98].
    The primary's function has a part of its own beside what it shares. Unlike in regression no relation is dropped by
    itself: what is predicted is the average of the model with all relations and of no transfer, by how probable they
    are (`shared_probability_`); one that is less probable than 5 % is left out. And `inducing="auto"` is the primary's
    inputs alone where 100 do not cover those of all tasks.

    Parameters
    ----------
    primary, kernel, specific_kernel, rho, inducing, rho_prior, background, n_restarts : as in `FocusedGPRegressor`.
    workers : as in `FocusedGPRegressor`.
    task, likelihood, prior, optimizer, max_iter, random_state, device : as in every `EPClassifier`.
    unseen : as in every `EPClassifier`.

    Attributes
    ----------
    rho_, specific_kernels_, inducing_ : as in `FocusedGPRegressor`, of the model with relations; lists, one per class,
        where there are more than two.
    shared_probability_ : how probable the relations are against none, as predictions are averaged; 0 where nothing is
        shared; a list as above.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.FocusedGPClassifier(primary="a").fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    n_restarts: int = 0

    def relatedness(self) -> Any:
        """One row per task, as for the regressor; a list of tables where there are more than two classes.

        It is that of the model with relations, however probable; `shared_probability_` says how much that is.
        """
        return one_or_list([self._relatedness(m.posterior) for m in self._fit_of().model])
