"""Estimators that ask first whether the other data help, and fit the answer."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from borrow.data.cells import Rows
from borrow.data.classes import read_classes
from borrow.data.labels import sort_labels
from borrow.data.read import Schema, as_frame, lacks_task, read_training
from borrow.estimators.base import Fitted, as_labels
from borrow.models.focused.model import primary_code
from borrow.numerics.linalg import Array
from borrow.transfer.compare import compare_problem, read_seed
from borrow.transfer.comparison import Comparison
from borrow.transfer.folds import LEAST_ROWS
from borrow.transfer.methods import build, check, choose
from borrow.transfer.problem import Problem, plain
from borrow.transfer.verdict import Verdict


class _Auto(BaseEstimator):
    """Abstract. Compare, judge, fit the winner; no transfer where the gain is not there."""

    _kind: str

    def __init__(
        self,
        task: str | int | None = None,
        primary: Any = None,
        methods: Any = "auto",
        cv: Any = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.task = task
        self.primary = primary
        self.methods = methods
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _choose(self, rows: Rows, schema: Schema, classes: Any) -> tuple[str, int]:
        """The method, and the seed of everything; sets what was found on the way."""
        if not (isinstance(self.methods, str) and self.methods == "auto"):
            check(self._kind, [self.methods] if isinstance(self.methods, str) else list(self.methods))
        seed = read_seed(self.random_state)
        self._schema: Schema = schema
        self.tasks_ = as_labels(schema.labels)
        self._primary = schema.labels[primary_code(self.primary, schema.labels)]
        self.comparison_: Comparison | None = None
        self.verdict_: Verdict | None = None
        problem = as_problem(self._kind, rows, schema, classes)
        count = problem.counts()[plain(self._primary)]
        if len(schema.labels) == 1 or len(problem.classes) == 1:
            return "single", seed
        if count < LEAST_ROWS:
            warnings.warn(
                f"primary={self._primary!r} has {count} row(s) with a target: too few to hold some out, so nothing "
                f"says whether the other tasks help, and they are not used; give at least {LEAST_ROWS}, or choose "
                "FocusedGPRegressor outright",
                UserWarning,
                stacklevel=3,
            )
            return "single", seed
        keys, _ = choose(problem, self.methods)
        self.comparison_ = compare_problem(
            problem, plain(self._primary), keys, self.cv, leave_out=False, n_jobs=self.n_jobs, random_state=seed
        )
        verdict: Verdict = self.comparison_.verdict()
        self.verdict_ = verdict
        return verdict.method, seed

    def _tasks(self, X: Any, tasks: Any) -> Any:
        """The primary, where nothing names a task and a frame or `tasks=` of fit would have."""
        schema = self._schema
        if tasks is not None or len(schema.labels) == 1 or schema.wide is not None:
            return tasks
        if schema.task is None or (as_frame(X) is not None and lacks_task(X, schema)):
            return self._primary
        return None

    def _winner(self) -> tuple[Any, Hashable]:
        """The fitted model and the primary, for `borrow.suggest`."""
        check_is_fitted(self, "method_")
        return self.model_, self._primary


class AutoRegressor(RegressorMixin, _Auto):
    """Fit the method that a comparison found to help the primary; no transfer where none is shown to.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    primary : label of the task that matters; may be left out only when there is a single task.
    methods, cv, n_jobs : as in `borrow.compare`.
    random_state : seeds the folds and the methods.

    Attributes
    ----------
    comparison_, verdict_ : a `Comparison` and its `Verdict`; None with a single task, or too few rows of the primary.
    method_ : key of the method that was fitted; "single" is no transfer.
    model_ : the fitted estimator.
    tasks_ : labels of the tasks, sorted.
    fitted_ : everything that the fit found, in one frozen object.
    n_features_in_, feature_names_in_ : columns of X in `fit`, the task column included; names only for frames.
    """

    _kind = "regression"

    def fit(self, X: Any, y: Any = None, tasks: Any = None) -> Self:
        """Compare on the primary's rows, then fit the winner to everything."""
        rows, schema = read_training(self, X, y, tasks)
        method, seed = self._choose(rows, schema, None)
        self.model_ = build(self._kind, method, self.task, self._primary, seed).fit(X, y, tasks=tasks)
        self.method_ = method
        self.fitted_ = Fitted(self._schema, self.model_, {})
        return self

    def predict(
        self,
        X: Any,
        tasks: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """As the winner predicts; for the primary where a frame lacks the task column."""
        check_is_fitted(self, "method_")
        return self.model_.predict(X, self._tasks(X, tasks), return_std, return_cov, include_noise)


class AutoClassifier(ClassifierMixin, _Auto):
    """`AutoRegressor` for labels.

    Parameters
    ----------
    task, primary, methods, cv, n_jobs, random_state : as in `AutoRegressor`.

    Attributes
    ----------
    classes_ : the classes, sorted.
    comparison_, verdict_, method_, model_, tasks_, fitted_ : as in `AutoRegressor`.
    n_features_in_, feature_names_in_ : as there.
    """

    _kind = "classification"

    def fit(self, X: Any, y: Any = None, tasks: Any = None) -> Self:
        """Compare on the primary's rows, then fit the winner to everything."""
        table, codes, classes, named = read_classes(self, X, y, tasks)
        rows, schema = read_training(self, table, codes, named)
        method, seed = self._choose(rows, schema, classes)
        self.model_ = build(self._kind, method, self.task, self._primary, seed).fit(X, y, tasks=tasks)
        self.classes_ = self.model_.classes_
        self.method_ = method
        self.fitted_ = Fitted(self._schema, self.model_, {})
        return self

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """The likeliest class of each row."""
        check_is_fitted(self, "method_")
        return self.model_.predict(X, self._tasks(X, tasks))

    def predict_proba(self, X: Any, tasks: Any = None) -> Array:
        """Probability of each class."""
        check_is_fitted(self, "method_")
        return self.model_.predict_proba(X, self._tasks(X, tasks))

    def decision_function(self, X: Any, tasks: Any = None) -> Array:
        """A real number a row, positive for `classes_[1]`; one column a class where there are more than two."""
        check_is_fitted(self, "method_")
        return self.model_.decision_function(X, self._tasks(X, tasks))


def as_problem(kind: str, rows: Rows, schema: Schema, classes: Any) -> Problem:
    """Rows that were read for `fit`, as a problem to compare on."""
    names = schema.names if schema.names is not None else [f"column {j}" for j in range(rows.X.shape[1])]
    labels = [plain(v) for v in rows.labels]
    tasks = tuple(labels[t] for t in rows.task)
    y: Any = rows.y
    known: tuple[Any, ...] = ()
    if kind == "classification":
        known = tuple(plain(c) for c in classes)
        y = np.empty(len(rows.y), dtype=object)
        y[:] = [None if not np.isfinite(v) else known[int(v) % len(known)] for v in rows.y]
    about = "y", "task" if schema.task is None else str(schema.task)
    return Problem(kind, *about, tuple(map(str, names)), rows.X, y, tasks, sort_labels(labels), known)
