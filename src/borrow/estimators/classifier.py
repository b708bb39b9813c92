"""What every classifier shares: reading labels, one against the rest, probabilities at the public edge. No formula.

A concrete classifier answers `_fit_binary`: given rows of all tasks with targets -1 and +1, return something that has
`decision(X, task)` (a real number, positive for +1) and `probability(X, task)` (of +1).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from borrow.data.cells import Codes, Rows, Stacked
from borrow.data.read import read_new, read_training
from borrow.data.scaling import column_scales
from borrow.estimators.regressor import as_labels, single_thread
from borrow.numerics.device import Device, MemoryGivenBack, resolve
from borrow.numerics.linalg import Array
from borrow.tasks.workers import Crew, hired


@dataclass(frozen=True)
class BinaryData(Stacked):
    """Labelled rows of all tasks, stacked by task, with targets -1 and +1; nothing is merged."""

    X: Array
    y: Array
    starts: Codes  # (M + 1,)
    labels: tuple[Hashable, ...]
    unlabelled: tuple[Array, ...]  # inputs without a label, by task
    column_scales: Array
    number: Codes | None = None  # of the row of X that each came from
    device: Device | None = None  # where matrices are computed; None: the host
    crew: Crew | None = None  # while a fit has workers


class BinaryModel(Protocol):
    """What `_fit_binary` returns."""

    def decision(self, X: Array, task: Codes) -> Array:
        """A real number a row, positive where +1 is the likelier label."""

    def probability(self, X: Array, task: Codes) -> Array:
        """Probability of +1."""


class TaskClassifier(ClassifierMixin, BaseEstimator):
    """What every classifier shares. Abstract: binary problems as they are, more classes by one against the rest.

    Parameters
    ----------
    task : column of X that names the task (name or position); None with `tasks=` in `fit`, wide y, or a single task.
    kernel : one of `borrow.kernels` or of scikit-learn's, where learning starts; None is a squared exponential with
        one lengthscale a column.
    likelihood : "probit", or "logistic", which is a little slower and has heavier tails.
    prior : "auto" has weak priors on the kernel, the same in every GP classifier; None is maximum likelihood.
    optimizer : "lbfgs", or None to keep the kernel and the model's own parameters as given.
    max_iter : the most iterations of the optimiser; a fit that needs more warns.
    random_state : seed or generator; the only source of randomness.
    device : "cpu", "cuda" (the matrices on a GPU, through PyTorch), or "auto" for a GPU where there is one and the rows
        are many; answers agree to about 1e-8 and come back as NumPy arrays.

    Attributes
    ----------
    tasks_ : labels of the tasks, sorted.
    classes_ : the classes, sorted.
    kernel_ : the kernel found; a list, one a class, where there are more than two classes.
    bias_ : dict by label of Phi^-1(share of positives in the task), the share kept in [.02, .98]; a list as above.
    log_marginal_likelihood_ : log evidence, priors not included; summed over one against the rest.
    n_iter_, converged_ : iterations of the optimiser, and whether it ended by itself.
    n_features_in_, feature_names_in_ : columns of X in `fit`, the task column included; names only for frames.
    """

    task: Any
    device: str = "cpu"

    @abstractmethod
    def _fit_binary(self, data: BinaryData) -> BinaryModel:
        """Fit to targets -1 and +1."""

    def _primary_code(self, labels: tuple[Hashable, ...]) -> int | None:
        """Code of the task that matters, where the model has one."""
        return None

    def _check_settings(self) -> None:
        """Raise where a constructor argument is not usable."""

    def _after_fit(self, models: list[BinaryModel]) -> None:
        """Publish the model's own attributes."""

    def fit(self, X: Any, y: Any = None, tasks: Any = None) -> Self:
        """Fit to a table, as a regressor; y holds labels of any kind, None or NaN where a row has none."""
        self._check_settings()
        rows, schema = read_training(self, X, y, tasks, classes=True)
        classes, self._schema = schema.classes, schema
        self.tasks_ = as_labels(schema.labels)
        self.classes_ = classes
        self._primary_code(schema.labels)  # refuse an unknown primary before any work
        rows = rows.in_order()
        positives = range(1, 2) if len(classes) <= 2 else range(len(classes))
        device = resolve(self.device, len(rows.y))
        with (
            single_thread(int(np.bincount(rows.task).max())),
            hired(getattr(self, "workers", None), device) as crew,
            MemoryGivenBack(device, len(rows.y)),
        ):
            self._models = [self._fit_binary(replace(_binary(rows, k, device), crew=crew)) for k in positives]
        self._after_fit(self._models)
        return self

    def decision_function(self, X: Any, tasks: Any = None) -> Array:
        """A real number a row, positive for `classes_[1]`; one column a class where there are more than two."""
        rows, task = self._rows(X, tasks)
        values = np.column_stack([m.decision(rows, task) for m in self._models])
        return values[:, 0] if len(self.classes_) <= 2 else values

    def predict_proba(self, X: Any, tasks: Any = None) -> Array:
        """Probability of each class; one against the rest is scaled to sum to one."""
        rows, task = self._rows(X, tasks)
        with single_thread(rows.shape[0]):
            p = np.column_stack([m.probability(rows, task) for m in self._models])
        if len(self.classes_) == 1:
            return np.ones((rows.shape[0], 1))
        if len(self.classes_) == 2:
            return np.column_stack([1.0 - p[:, 0], p[:, 0]])
        return p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """The likeliest class of each row."""
        probabilities = self.predict_proba(X, tasks)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def _rows(self, X: Any, tasks: Any) -> tuple[Array, Codes]:
        check_is_fitted(self, "classes_")
        rows, task = read_new(self, X, self._schema, tasks, self._primary_code(self._schema.labels))
        if task is None:
            raise ValueError("fitted on a wide y: say which task with tasks=")
        return rows, task


def _binary(rows: Rows, positive: int, device: Device | None = None) -> BinaryData:
    """One class against the rest."""
    seen, free = rows.labelled()
    y = np.where(seen.y == positive, 1.0, -1.0)
    starts = np.searchsorted(seen.task, np.arange(len(rows.labels) + 1))
    return BinaryData(seen.X, y, starts, rows.labels, free, column_scales(seen.X, seen.weight), seen.number, device)
