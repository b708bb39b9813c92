"""The classifier on the multi-task IVM: probit factors by assumed-density filtering. The paper is in `ivm.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from borrow.covariance import SharedCovariance
from borrow.covariance.spread import Spread
from borrow.data.cells import Cells, Codes
from borrow.data.labels import list_labels
from borrow.data.read import Schema, read_classes, read_inputs
from borrow.data.table import Table
from borrow.estimators.classifier import BinaryData, TaskClassifier
from borrow.estimators.regressor import check_settings, default_kernel, single_thread, warn_unfinished
from borrow.inference import priors
from borrow.inference.adf import LEAST_PRECISION, ProbitFactors
from borrow.inference.ep import Sites, class_bias, ep
from borrow.inference.likelihoods import Probit
from borrow.kernels import Kernel
from borrow.models.gp.classifiers import GPModel, as_task_data, publish
from borrow.models.ivm.adapt import keep_names
from borrow.models.ivm.model import Active, Selection, condition, frozen_objective, gather, select
from borrow.models.ivm.rounds import Settings, alternate
from borrow.models.ivm.settings import check_ivm, require_memory, tell_prior_tasks, warn_cycle
from borrow.models.ivm.spread import ProbitTasks, select_spread
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array, like, to_host
from borrow.numerics.optimise import Objective, Optimum, Values


@dataclass(frozen=True)
class Classification:
    """All rows of all tasks with labels -1 and +1."""

    cells: Cells
    kernel: Kernel
    bias: Array  # (M,)
    scales: Array
    prior: str | None
    max_iter: int
    ep_sweeps: int = 0
    spread: Spread | None = None  # while a fit has workers

    @property
    def n_rows(self) -> int:
        """Rows to choose from."""
        return len(self.cells.y)

    def select(self, values: Values, d: int, order: Codes | None = None, report: Any = None) -> Selection:
        """Rows that tell most at these hyper-parameters."""
        c = self.cells
        kernel = self.kernel.with_theta(values["kernel"])
        if self.spread is None:
            factors = ProbitFactors(c.y, self.bias[c.task])
            chosen = select(kernel, c.X, c.starts, factors, d, order, report, c.device)
        else:
            tasks = [ProbitTasks(self.bias[at]) for at in self.spread.bounds]
            chosen = select_spread(self.spread, kernel, tasks, d, order, report)
        return self.refine(chosen, kernel) if self.ep_sweeps else chosen

    def refine(self, selection: Selection, kernel: Kernel) -> Selection:
        """Sites by sweeps of EP over the active rows, from those of ADF."""
        c, a = self.cells, self.active(selection)
        M = len(c.starts) - 1
        prior = SharedCovariance(a.X, a.starts, [], [], np.zeros((M, 0)), [kernel] * M)
        start = Sites(like(a.X, a.tau * a.z), like(a.X, a.tau))
        y, bias = like(a.X, c.y[a.rows]), like(a.X, self.bias[a.task])
        sites = Sites(*map(to_host, ep(prior, Probit(), y, bias, start, self.ep_sweeps + 1).sites))
        tau = np.maximum(sites.tau, LEAST_PRECISION)
        back = np.argsort(a.rows)[np.searchsorted(np.sort(a.rows), selection.active)]  # from tasks to inclusion
        return replace(selection, tau=tau[back], z=(sites.nu / tau)[back])

    def active(self, selection: Selection) -> Active:
        """The rows selected, stacked by task."""
        return gather(selection, self.cells.there, self.cells.starts)

    def penalised(self, active: Active) -> Objective:
        """Evidence at frozen sites, with the prior where it is switched on (sec. 5)."""
        objective = frozen_objective(self.kernel, active)
        if self.prior is None:
            return objective
        prior = priors.independent_priors({"kernel": priors.kernel_prior(self.kernel, self.scales)})
        return hyper.with_prior(objective, prior)

    def learn(self, selection: Selection, values: Values) -> tuple[Values, Optimum]:
        """The kernel with rows and sites frozen."""
        objective = self.penalised(self.active(selection))
        optimum = hyper.maximise(objective, values, hyper.bounds_around(values), self.max_iter)
        return optimum.values, optimum


@dataclass(frozen=True)
class IVMModel(GPModel):
    """A fitted binary model, with the rows that it rests on."""

    kernel: Kernel
    active: Codes  # row numbers of X
    gain: Array
    counts: dict[Any, int]
    rounds: Table


class MultiTaskIVMClassifier(TaskClassifier):
    """Labels of many tasks under one kernel, learnt from the few rows that tell most: p(y) = Phi(y (f_t + b_t)).

    b_t is Phi^-1(share of positives in task t), the share kept in [.02, .98]. More than two classes are learnt one
    against the rest, each with its own kernel and its own rows.

    Parameters
    ----------
    n_active, kernel, n_rounds, selection, verbose, workers : as in `MultiTaskIVMRegressor`. The paper's kernel is
        `borrow.kernels.SmoothLinear` with one lengthscale a column.
    ep_sweeps : sweeps of expectation propagation over the chosen rows after they were taken in one by one; 0 is the
        paper's.
    task, prior, optimizer, max_iter, random_state, device : as in every `TaskClassifier`.

    Attributes
    ----------
    active_, entropy_gain_, active_counts_, rounds_ : as in `MultiTaskIVMRegressor`; lists, one a class, where there
        are more than two.
    log_marginal_likelihood_ : that of the chosen rows' sites.
    """

    def __init__(
        self,
        task: str | int | None = None,
        n_active: int = 200,
        *,
        kernel: Any = None,
        ep_sweeps: int = 0,
        n_rounds: int = 1,
        selection: str = "entropy",
        prior: str | None = "auto",
        optimizer: str | None = "lbfgs",
        max_iter: int = 200,
        verbose: bool | None = None,
        random_state: Any = 0,
        device: str = "cpu",
        workers: Any = None,
    ) -> None:
        self.task = task
        self.n_active = n_active
        self.kernel = kernel
        self.ep_sweeps = ep_sweeps
        self.n_rounds = n_rounds
        self.selection = selection
        self.prior = prior
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state
        self.device = device
        self.workers = workers

    def _check_settings(self) -> None:
        check_settings(self)
        check_ivm(self)

    def _fit_binary(self, data: BinaryData) -> IVMModel:
        kernel = default_kernel(data.column_scales, self.kernel, "kernel")
        learn, d = self.optimizer is not None, int(self.n_active)
        require_memory(d, data.starts, data.device)
        how = Settings(d, self.n_rounds, self.selection, learn, self.random_state, self.verbose)
        return self._model(data, kernel, how)

    def _model(self, data: BinaryData, kernel: Kernel, how: Settings) -> IVMModel:
        cells = as_task_data(data).cells
        bias = class_bias(cells)
        spread = None if data.crew is None else Spread(data.crew, cells)
        problem = Classification(
            cells, kernel, bias, data.column_scales, self.prior, self.max_iter, self.ep_sweeps, spread
        )
        found = alternate(problem, {"kernel": kernel.theta}, how)
        active = problem.active(found.selection)
        kernel = kernel.with_theta(found.values["kernel"])
        if found.optimum is not None:
            warn_unfinished(self, found.optimum, {"kernel": kernel.parameter_names()}, problem.penalised(active))
        warn_cycle(found.cycle)
        posterior, M = condition(kernel, active), len(data.labels)
        evidence = frozen_objective(kernel, active)(found.values)[0]
        n_iter, converged = (0, True) if found.optimum is None else (found.optimum.n_iter, found.optimum.converged)
        counts = dict(zip(data.labels, np.diff(active.starts).tolist(), strict=True))
        number = data.number if data.number is not None else np.arange(len(data.y))
        return IVMModel(
            [(posterior, t) for t in range(M)],
            bias,
            Probit(),
            evidence,
            n_iter,
            converged and found.cycle is None,
            kernel,
            number[found.selection.active],
            found.selection.gain,
            counts,
            found.rounds,
        )

    def _after_fit(self, models: list[Any]) -> None:
        publish(self, models)
        names = {"kernel_": "kernel", "active_": "active", "entropy_gain_": "gain", "active_counts_": "counts"}
        for ours, theirs in (names | {"rounds_": "rounds"}).items():
            values = [getattr(m, theirs) for m in models]
            setattr(self, ours, values[0] if len(values) == 1 else values)

    def _rows(self, X: Any, tasks: Any) -> tuple[Array, Codes]:
        rows, task = super()._rows(X, tasks)
        least = {k: min(m.counts[k] for m in self._models) for k in self._schema.labels}  # type: ignore[attr-defined]
        tell_prior_tasks(least, task)
        return rows, task

    def adapt(self, X: Any, y: Any) -> MultiTaskIVMClassifier:
        """A task never seen, from its rows X, y and the kernels learnt: a fitted model of that task alone.

        X has the columns of the inputs; the task column may be there too. All rows are taken in. Labels are among
        `classes_`; those that y lacks stay possible.
        """
        check_is_fitted(self, "classes_")
        features, _ = read_inputs(self, X, self._schema)
        if np.ndim(y) != 1 or len(y) != len(features):
            raise ValueError(f"X has {len(features)} rows and y the shape {np.shape(y)}; adapt takes one label a row")
        child = clone(self).set_params(task=None, optimizer=None, workers=None, n_active=max(len(features), 1))
        codes, _, seen = read_classes(y, type(self).__name__)
        if unknown := [v for v in seen.tolist() if v not in self.classes_.tolist()]:
            known = list_labels(self.classes_.tolist())
            raise ValueError(f"y holds the label {list_labels(unknown)}, which fit did not see; labels are {known}")
        keep = np.isfinite(codes)
        code = np.searchsorted(self.classes_, seen)[np.minimum(codes[keep].astype(int), len(seen) - 1)]
        how = Settings(child.n_active, 1, "entropy", False, 0, False)
        positives = range(1, 2) if len(self.classes_) <= 2 else range(len(self.classes_))
        inputs, models = features[keep], []
        with single_thread(len(inputs)):
            for k, model in zip(positives, self._models, strict=True):
                labels = np.where(code == min(k, len(self.classes_) - 1), 1.0, -1.0)
                data = BinaryData(
                    inputs,
                    labels,
                    np.array([0, len(inputs)]),
                    (0,),
                    (inputs[:0],),
                    np.ones(inputs.shape[1]),
                    np.flatnonzero(keep),
                )
                models.append(child._model(data, model.kernel, how))  # type: ignore[attr-defined]
        child._schema = Schema(None, None, None, inputs.shape[1], (0,))
        keep_names(child, X, self._schema)
        child.tasks_, child.classes_, child._models = np.array([0]), self.classes_, models
        child.n_features_in_ = inputs.shape[1]
        child._after_fit(models)
        return child
