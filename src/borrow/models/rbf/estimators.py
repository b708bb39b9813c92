"""The regressor on the RBF network: validate, call, store, warn. The paper is in `model.py`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from borrow.covariance.contracts import Prediction, rows_by_task
from borrow.data.cells import Cells, Codes, Rows
from borrow.data.labels import is_pairs, list_labels, places_of, sort_labels
from borrow.data.read import read_training, warn_equal_targets
from borrow.estimators.registry import register
from borrow.estimators.regressor import FittedRegression, TaskRegressor
from borrow.estimators.settings import Allowed, by_label, is_number, is_whole, one_of, positive, whole
from borrow.inference.hyper_uncertainty import stretch_of_tasks, stretched
from borrow.models.rbf.designs import Network, input_scales, merge_inputs, prepare, unseen_features
from borrow.models.rbf.model import select_rows
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored
from borrow.numerics.threads import single_thread
from borrow.numerics.warned import warn

DESIGNS = ("two-level", "multi-task", "independent", "one")


def _widths(value: Any) -> bool:
    pair = isinstance(value, (tuple, list)) and len(value) == 2 and all(is_number(v) for v in value)
    return isinstance(value, (bool, np.bool_)) or (pair and 0 < value[0] <= value[1])


@stored("rbf-fit")
@dataclass(frozen=True)
class RBFFit:
    """The networks, fitted; one for all tasks, or one per task where the design is "independent"."""

    cells: Cells
    design: str
    networks: list[Network]
    input_scales: Array
    n_tasks: int

    @property
    def evidence(self) -> float:
        """log p(scaled targets)."""
        return sum(n.evidence for n in self.networks)

    @property
    def noise(self) -> Array:
        """Noise variance of every task."""
        noise = np.array([n.noise for n in self.networks])
        return noise if len(noise) == self.n_tasks else np.repeat(noise, self.n_tasks)

    @property
    def converged(self) -> bool:
        """Whether every network stopped growing by itself."""
        return all(n.growth.converged and (n.shared is None or n.shared.growth.converged) for n in self.networks)

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every cell."""
        p = self.predict(self.cells.X, self.cells.task, hyper=False)
        return p.mean, p.variance

    @cached_property
    def stretch(self) -> Array:
        """By how much the variance of each task's function is too small, its units being chosen by the data."""
        return np.broadcast_to(stretch_of_tasks(self.cells, self.noise, self.marginals()), self.n_tasks)

    def predict(self, X: Array, task: Codes, full: bool = False, hyper: bool = True) -> Prediction:
        """Functions at new rows."""
        noise, (mean, own, shared) = self.noise[task], self.answer(X / self.input_scales, task)
        variance = noise * ((own**2).sum(axis=1) + (shared**2).sum(axis=1))
        found = Prediction(mean, variance)
        if full:
            same = (task[:, None] == task) | (self.design == "one")
            found = Prediction(mean, variance, noise * ((own @ own.T) * same + shared @ shared.T))
        return stretched(found, self.stretch[task]) if hyper else found

    def answer(self, X: Array, task: Codes) -> tuple[Array, Array, Array]:
        """What the networks answer for scaled rows: means, and roots of variances with the columns of the largest."""
        widest = max(len(n.basis.widths) for n in self.networks) + 1
        mean, own, shared = np.empty(len(task)), np.zeros((len(task), widest)), np.zeros((len(task), 0))
        which = task if self.design == "independent" else np.zeros_like(task)
        within = np.zeros_like(task) if self.design in ("independent", "one") else task
        for k, at in rows_by_task(which):
            mean[at], part, level = self.networks[k].answer(X[at], within[at])
            own[at, : part.shape[1]] = part
            shared = level if level.shape[1] else shared
        return mean, own, shared

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        scales = self.input_scales
        common = {
            "input_scales_": scales,
            "jitter_": 0.0,
            "n_iter_": max(len(n.growth.loo) for n in self.networks),
            "converged_": self.converged,
        }
        found: list[dict[str, Any]] = [
            {
                "centers_": n.basis.centers * scales,
                "widths_": n.basis.widths,
                "weights_": n.weights(),
                "error_trace_": n.growth.trace,
                "loo_trace_": n.growth.loo,
                "n_basis_": len(n.basis.widths),
                "ridge_": n.growth.ridge,
            }
            for n in self.networks
        ]
        if self.design == "independent":
            for p in found:
                p["weights_"] = p["weights_"][0]
            return common | {n: {k: p[n] for k, p in zip(labels, found, strict=True)} for n in found[0]}
        weights, one = found[0]["weights_"], self.design == "one"
        found[0]["weights_"] = np.repeat(weights, len(labels), axis=0) if one else weights[places_of(labels)]
        first = self.networks[0]
        if first.shared is None:
            return common | found[0]
        return {
            **common,
            **found[0],
            "shared_centers_": first.shared.basis.centers * scales,
            "shared_widths_": first.shared.basis.widths,
            "shared_weights_": first.shared.weights,
            "shared_ridge_": first.shared.growth.ridge,
            "shared_error_trace_": first.shared.growth.trace,
            "shared_loo_trace_": first.shared.growth.loo,
            "bias_ridge_": first.bias_ridge,
        }


@register(
    "rbf",
    "RBF network",
    rank=5,
    about="a network of radial basis functions that tasks share, weights of their own (Liao & Carin 2006)",
    matrix="few",
    not_in_auto="it did not win in the draws that were tried",
)
@dataclass(eq=False, repr=False, kw_only=True)
class MultiTaskRBFRegressor(TaskRegressor):
    """Radial basis function networks for many tasks: hidden units chosen by what they explain in all of them.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    design : "two-level" (a network for all rows, task networks on what it leaves, fitted together), "multi-task" (the
        paper's: shared units, weights for each task), "independent" (one network per task), "one" (tasks ignored).
    n_basis : hidden units; "auto" chooses by leave-one-out among 0 to `max_basis`, "converged" is the paper's rule with
        `tol`, which overfits. A number is for each level of the two-level design.
    max_basis : the most hidden units that "auto" and "converged" may take.
    width : of the units before tuning, in units of the scaled inputs; "auto" is the root mean squared distance of
        rows (leave-one-out is no judge of widths: narrow units fit the rows that chose them).
    ridge : ρ; "auto" chooses by leave-one-out. The two-level design chooses that of the tasks' constants always so.
    tune_width : True tunes each chosen unit's width between a quarter and four times `width`; a pair gives the bounds.
    basis : "supervised", or "unsupervised" (units chosen by the inputs alone, rows with NaN target included).
    tol : with `n_basis="converged"`, the share of the error that a unit must explain to be added.
    scale_inputs : divide columns of two values by their range, others by two standard deviations; False for none.
    candidates : inputs that may become centres: "auto" (all while their matrix is under 256 MiB, else a random part),
        "all", or a number.
    normalize_y : subtract the mean of all targets, divide by each task's scale (small tasks shrink to the overall one).
    random_state : for drawing candidates, where not all are taken.
    unseen : what to do about a task that `fit` never saw: "error" refuses it, "population" answers as for a task drawn
        from those seen, with a wider band, and warns.

    Attributes
    ----------
    centers_ : centres of the units, in the units of X. Of a two-level fit this and what follows are the task level; of
        independent networks they are dicts by label.
    widths_ : widths of the units, of the scaled inputs.
    weights_ : for the scaled targets; one row per task in the order of `tasks_`, the constant first.
    error_trace_, loo_trace_ : squared error, and leave-one-out error, after each unit.
    n_basis_, ridge_ : units and ridge that were chosen.
    input_scales_ : what the columns were divided by.
    shared_centers_, shared_widths_, shared_weights_ : the level of all rows, of a two-level fit.
    shared_error_trace_, shared_loo_trace_, shared_ridge_ : the same of how it was chosen.
    bias_ridge_ : ridge of the tasks' constants, of a two-level fit.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.MultiTaskRBFRegressor(n_basis=3).fit(X, y, tasks=tasks)
    >>> model.predict([[1.5]], tasks="a").shape
    (1,)
    >>> sorted(model.select([[0.5], [5.0]], 1, tasks="a"))  # which of two rows to label next
    [np.int64(1)]
    """

    design: str = "two-level"
    n_basis: int | str = "auto"
    max_basis: int = 40
    width: float | str = "auto"
    ridge: float | str = "auto"
    tune_width: bool | tuple[float, float] = False
    basis: str = "supervised"
    tol: float = 1e-3
    scale_inputs: bool = True
    candidates: int | str = "auto"

    allowed: ClassVar[Allowed] = {
        "design": one_of(*DESIGNS, said=f"one of {', '.join(map(repr, DESIGNS))}"),
        "basis": one_of("supervised", "unsupervised", said="'supervised' or 'unsupervised'"),
        "max_basis": whole(0),
        "n_basis": (whole(0, "auto", "converged")[0], "'auto', 'converged' or a whole number of units"),
        "candidates": (whole(1, "auto", "all")[0], "'auto', 'all' or a number of inputs, at least 1"),
        "width": positive("auto"),
        "ridge": positive("auto"),
        "tol": (lambda v: is_number(v) and v >= 0, "a number that is not negative"),
        "tune_width": (_widths, "True, False, or a pair (lowest, highest) of widths"),
    }

    def _learn(self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, replicates: Any = None) -> FittedRegression:
        rows, self._schema = read_training(self, X, y, tasks, sample_weight, replicates)
        warn_equal_targets(rows)
        rows = rows.in_order()  # sums are then the same for any order of rows
        scales = self._input_scales(rows)
        problem = prepare(self, rows, scales)
        stack, none = problem.stack, np.zeros(problem.stack.n_tasks)
        with single_thread(len(stack.y)):
            networks = problem.networks(self.design)
        cells = Cells(stack.X * scales, stack.y, stack.count, stack.starts, none, none, none)
        model = RBFFit(cells, self.design, networks, scales, len(self._schema.labels))
        if not model.converged:
            warn(
                f"the network did not converge within max_basis={self.max_basis} units; raise max_basis or tol, or let "
                "n_basis='auto' choose the size by leave-one-out",
                ConvergenceWarning,
            )
        return self._published(self._schema, problem.scaling, model)

    def _input_scales(self, rows: Rows) -> Array:
        return input_scales(rows.X, rows.weight) if self.scale_inputs else np.ones(rows.X.shape[1])

    def select(self, X: Any, n: int, tasks: Any = None, per_task: Any = None) -> Any:
        """Row numbers of X to label next, in order: each has the largest γ (Corollary 2) given those before it.

        `per_task` is the largest number of rows from a task: a number, or a dict by label. A fitted model goes on from
        the rows that it was fitted to; before `fit`, units are chosen from X alone. γ does not depend on targets. Where
        rows or budgets end before n, so does the answer.
        """
        self._check_settings()
        if not is_whole(n, 1):
            raise ValueError(f"n={n!r}: expected how many rows to choose, a whole number of at least 1")
        if is_pairs(X):
            raise ValueError("X is a list or dict of (X, y) pairs; select takes one table, with its tasks")
        if self.design == "one" and per_task is not None:
            raise ValueError("per_task was given and design='one' knows no tasks; leave it out")
        model: RBFFit | None = None
        if self.__sklearn_is_fitted__():
            model, labels = self._fit_of().model, self._fit_of().schema.labels
            features, task = self._read_new(X, tasks)
            if task is None:
                raise ValueError(
                    f"select needs the task of each row; give tasks=, one of {list_labels(sort_labels(labels))}"
                )
            scales = model.input_scales
        else:
            rows, _ = read_training(self._unfitted(), X, np.zeros(np.shape(X)[0] if np.ndim(X) else 0), tasks)
            features, task, labels, scales = rows.X, rows.task, rows.labels, self._input_scales(rows)
        room = by_label(per_task, labels, "per_task", default=len(features))
        for t in places_of(labels):
            if not is_whole(room[t], 0):
                raise ValueError(f"per_task of task {labels[t]!r} is {room[t]!r}; expected a whole number of rows")
        if self.design == "one":
            task, room = np.zeros_like(task), [len(features)]
        stack, members = merge_inputs(features / scales, task, len(room))
        with single_thread(len(features)):
            own, shared = unseen_features(self, stack) if model is None else model.answer(stack.X, stack.task)[1:]
            chosen = select_rows(own, shared, stack.starts, stack.count, np.array(room), int(n))
        return np.array([members[i].pop(0) for i, _ in chosen], dtype=np.intp)
