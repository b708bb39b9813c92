"""Estimators that ask first whether the other data help, and fit the answer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier

from borrow.data.cells import Rows
from borrow.data.encode import encode_frame
from borrow.data.labels import sort_labels
from borrow.data.read import Schema, as_frame, lacks_task, read_training
from borrow.estimators.base import Fitted, TaskEstimator, as_labels, with_encoder
from borrow.estimators.registry import register
from borrow.models.focused.settings import primary_code
from borrow.numerics.linalg import Array
from borrow.numerics.warned import warn
from borrow.transfer.compare import compare, read_seed
from borrow.transfer.comparison import Comparison
from borrow.transfer.folds import LEAST_ROWS
from borrow.transfer.methods import build, choose
from borrow.transfer.problem import Problem, plain


@dataclass(eq=False, repr=False)
class _Auto(TaskEstimator):
    """Abstract. Compare, judge, fit the winner; no transfer where the gain is not there."""

    primary: Any = field(default=None, kw_only=False)
    methods: Any = field(default="auto", kw_only=False)
    cv: Any = field(default=None, kw_only=False)
    _: KW_ONLY
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None, tasks: Any = None) -> Self:
        """Compare on the primary's rows, then fit the method that was found best, as the comparison fitted it."""
        self.fitted_ = self._unfitted()._learn(X, y, tasks)
        return self

    def _learn(self, X: Any, y: Any, tasks: Any) -> Fitted:
        X, encoder = encode_frame(X, self.task)
        rows, schema = read_training(self, X, y, tasks, classes=is_classifier(self))
        problem, seed = as_problem(rows, schema), read_seed(self.random_state)
        keys, _ = choose(problem.kind, int(problem.seen.sum()), self.methods)
        primary = schema.labels[primary_code(self.primary, schema.labels)]
        comparison = self._compare(problem, primary, keys, seed)
        verdict = None if comparison is None else comparison.verdict()
        method = "single" if verdict is None else verdict.method
        model = build(problem.kind, method, self.task, primary, seed, alone=True, unseen=self.unseen)
        model.fit(X, y, tasks=tasks)
        model, schema = with_encoder(model, encoder), replace(schema, encoder=encoder)
        attributes = {
            **self._read_attributes(),
            "tasks_": as_labels(schema.tasks),
            "primary_": primary,
            "comparison_": comparison,
            "verdict_": verdict,
            "method_": method,
            "model_": model,
            "encoder_": encoder,
        }
        classes = {"classes_": model.classes_} if hasattr(model, "classes_") else {}
        return Fitted(schema, model, {**attributes, **classes})

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int:
        return primary_code(self.primary, labels)

    def _compare(self, problem: Problem, primary: Any, keys: list[str], seed: int) -> Comparison | None:
        """The comparison; None where there is nothing to compare with, or too little to do it on."""
        if len(problem.labels) == 1 or len(problem.classes) == 1:
            return None
        count = problem.counts()[plain(primary)]
        if count >= LEAST_ROWS:
            about = problem, problem.target, problem.task, plain(primary), keys
            return compare(*about, cv=self.cv, leave_out=False, n_jobs=self.n_jobs, random_state=seed)
        warn(
            f"primary={primary!r} has {count} row(s) with a target: too few to hold some out, so nothing "
            f"says whether the other tasks help, and they are not used; give at least {LEAST_ROWS}, or choose "
            "FocusedGPRegressor outright"
        )
        return None

    def _ask(self, method: str, X: Any, tasks: Any, *more: Any) -> Any:
        """What the winner answers; for the primary, where nothing names a task and a frame or `tasks=` would have."""
        schema = self._fit_of().schema
        if tasks is None and len(schema.labels) > 1 and schema.wide is None:
            meant = schema.task is None or (as_frame(X) is not None and lacks_task(X, schema))
            tasks = self.primary_ if meant else None
        if tasks is None and schema.wide is not None and self.method_ == "single":
            raise ValueError(
                f"nothing showed that the other tasks help {self.primary_!r}, so that it alone was fitted; give "
                f"tasks={self.primary_!r}, or fit the others by SingleTaskGPRegressor"
            )
        return getattr(self.model_, method)(X, tasks, *more)


@register()
class AutoRegressor(RegressorMixin, _Auto):
    """Fit the method that a comparison found to help the primary; no transfer where none is shown to.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    primary : label of the task that matters; may be left out only when there is a single task.
    methods, cv, n_jobs : as in `borrow.compare`.
    random_state : seeds the folds and the methods.
    unseen : what to do about a task that `fit` never saw: "error" refuses it, "population" answers as for a task drawn
        from those seen, with a wider band, and warns.

    Attributes
    ----------
    comparison_, verdict_ : a `Comparison` and its `Verdict`; None with a single task, or too few rows of the primary.
    method_ : key of the method that was fitted; "single" is no transfer.
    encoder_ : the `TableEncoder` that made numbers of text, dates and gaps; None where X had none.
    model_ : the fitted estimator; with no transfer it is of the primary alone.
    primary_ : label of the task that matters.
    tasks_ : labels of the tasks, sorted.
    fitted_ : everything that the fit found, in one frozen object.
    n_features_in_, feature_names_in_ : columns of X in `fit`, the task column included; names only for frames.

    Examples
    --------
    >>> import borrow
    >>> x = [0.1 * i for i in range(24)]
    >>> table = {"x": x, "site": ["here"] * 8 + ["there"] * 16, "level": [v * (2 - v) for v in x]}
    >>> X = [[v] for v in x]
    >>> model = borrow.AutoRegressor(primary="here", methods=["pooled"], cv=2)
    >>> model.fit(X, table["level"], tasks=table["site"]).comparison_.verdict().primary
    'here'
    """

    def predict(
        self,
        X: Any,
        tasks: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """As the winner predicts; for the primary where a frame lacks the task column."""
        return self._ask("predict", X, tasks, return_std, return_cov, include_noise)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions of the primary's rows."""
        return float(super().score(*self._scored(X, y, sample_weight)))

    def noise_at(self, X: Any, tasks: Any = None) -> Array:
        """Noise variance of a new observation at each row, in squared units of y."""
        return self._ask("noise_at", X, tasks)


@register()
class AutoClassifier(ClassifierMixin, _Auto):
    """`AutoRegressor` for labels.

    Parameters
    ----------
    task, primary, methods, cv, n_jobs, random_state, unseen : as in `AutoRegressor`.

    Attributes
    ----------
    classes_ : the classes, sorted.
    comparison_, verdict_, method_, model_, primary_, tasks_, encoder_, fitted_ : as in `AutoRegressor`.
    n_features_in_, feature_names_in_ : as there.

    Examples
    --------
    >>> import borrow
    >>> X = [[0.1 * i] for i in range(24)]
    >>> y = ["low" if i % 8 < 4 else "high" for i in range(24)]
    >>> tasks = ["here"] * 8 + ["there"] * 16
    >>> model = borrow.AutoClassifier(primary="here", methods=["pooled"], cv=2).fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.1]], tasks=["here"]).shape
    (1, 2)
    """

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """The likeliest class of each row."""
        return self._ask("predict", X, tasks)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the primary's rows whose class is right."""
        return float(super().score(*self._scored(X, y, sample_weight)))

    def predict_proba(self, X: Any, tasks: Any = None) -> Array:
        """Probability of each class."""
        return self._ask("predict_proba", X, tasks)

    def decision_function(self, X: Any, tasks: Any = None) -> Array:
        """A real number per row, positive for `classes_[1]`; one column per class where there are more than two."""
        return self._ask("decision_function", X, tasks)


def as_problem(rows: Rows, schema: Schema) -> Problem:
    """Rows that were read for `fit`, as a problem to compare on; they hold labels where the schema has classes."""
    names = schema.names if schema.names is not None else [f"column {j}" for j in range(rows.X.shape[1])]
    kind, y, classes, labels = "regression", rows.y, (), [plain(v) for v in rows.labels]
    if schema.classes is not None:
        kind, classes = "classification", tuple(plain(c) for c in schema.classes)
        y = np.array([classes[int(v) % len(classes)] if np.isfinite(v) else None for v in rows.y], dtype=object)
    about = kind, "y", "task" if schema.task is None else str(schema.task), tuple(map(str, names))
    return Problem(*about, rows.X, y, tuple(labels[t] for t in rows.task), sort_labels(labels), classes)
