"""What people compare with: the primary's mean, ridge (logistic) regression, and any estimator of scikit-learn.

Ridge regression in its dual form: with kernel matrix K of the rows and penalty a, the coefficients are
c = (K + a I)^-1 y, and row i left out is missed by c_i / [(K + a I)^-1]_ii. The penalty is the one whose rows left out
are missed least, and what they are missed by is the spread of a prediction. Three kernels, x in units of the columns'
spread and b large (a level that is not penalised):

    mean     K = b                                        of each task by itself
    ridge    K = b + x x'                                 of each task by itself
    tasks    K = x x' + [same task] (b + v x x')          slopes in common, and deviations of each task from them

The last is what a mixed model calls random intercepts and slopes. For labels the same three as logistic regressions.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression

from borrow.data.cells import Codes, Rows
from borrow.data.read import Schema, read_training
from borrow.data.table import Table
from borrow.estimators.base import Fitted, LabelEstimator, NumberEstimator, TaskEstimator, as_labels
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored

PENALTIES = np.geomspace(1e-3, 1e3, 13)
LEVEL = 1e6
#: Variance of a task's own slopes, as a part of that of the slopes in common; the data choose.
DEVIATIONS = (1.0, 0.1, 0.01)


@stored("linear-fit")
@dataclass(frozen=True)
class LinearFit:
    """One line per task and output: level[t] + slopes[t] (x - center)/scales; `std` is the spread about it."""

    center: Array
    scales: Array
    level: Array  # (M, C)
    slopes: Array  # (M, C, d)
    std: Array  # (M,), of numbers
    left_out: tuple[tuple[Array, Array], ...] = ()  # targets of each task's rows, and each predicted without itself

    def __call__(self, X: Array, task: Codes) -> Array:
        """Values at new rows, one column per output."""
        Z = (X - self.center) / self.scales
        return self.level[task] + np.einsum("ncd,nd->nc", self.slopes[task], Z)


class _Simple(TaskEstimator):
    """Abstract. Read any table, or the rows of one of its tasks."""

    def _read(self, X: Any, y: Any, tasks: Any, only: Any) -> tuple[Rows, Schema, dict[str, Any]]:
        """Rows with a target, of all tasks or the only one; the schema; and the public attributes that these tell."""
        rows, schema = read_training(self, X, y, tasks, classes=is_classifier(self))
        if only is not None:
            schema, rows = schema.only(only), rows.only(only)
        attributes = {**self._read_attributes(), "tasks_": as_labels(schema.labels)}
        return rows.labelled()[0], schema, attributes | ({"classes_": schema.classes} if is_classifier(self) else {})


class _Numbers(NumberEstimator):
    """Abstract. Know how far observations are from what is predicted, and do not tell the function from the noise."""

    tells_noise = False

    def noise_at(self, X: Any, tasks: Any = None) -> Array:
        """Zero at each row: the deviation that `predict` gives has the noise in it."""
        return np.zeros(np.shape(self.predict(X, tasks)))


class _Labels(LabelEstimator):
    """Abstract. Give probabilities, and have no distribution of them."""

    def probability_quantiles(self, X: Any, levels: Any = (), tasks: Any = None) -> None:
        """None: the probabilities have no bands."""

    def probability_covariance(self, X: Any, tasks: Any = None) -> None:
        """None: as above."""


@dataclass(eq=False, repr=False, kw_only=True)
class _Reference(_Simple):
    """Abstract. Fit lines, answer for every task."""

    form: str = "ridge"
    only: Any = None

    def _learn(self, X: Any, y: Any, tasks: Any) -> Fitted:
        rows, schema, attributes = self._read(X, y, tasks, self.only)
        scales = rows.X.std(axis=0)
        center, scales = rows.X.mean(axis=0), np.where(scales > 0, scales, 1.0)
        level, slopes, std, *left_out = self._lines((rows.X - center) / scales, rows, schema)
        if not is_classifier(self):
            attributes["noise_"] = dict(zip(schema.labels, std**2, strict=True))
        return Fitted(schema, LinearFit(center, scales, level, slopes, std, tuple(left_out)), attributes)

    @abstractmethod
    def _lines(self, Z: Array, rows: Rows, schema: Schema) -> tuple[Any, ...]:
        """Level, slopes and spread of every task's line, for standardised Z; of numbers, `LinearFit.left_out`."""

    def _values(self, X: Any, tasks: Any) -> tuple[Array, Array]:
        """Values at new rows, and the spread about each; those of every task where y was wide and none is asked for."""
        rows, task = self._read_new(X, tasks)
        model: LinearFit = self._fit_of().model
        if task is None:
            wide: Any = self._fit_of().schema.wide
            found = model(np.repeat(rows, len(wide), axis=0), np.tile(wide, len(rows)))
            return found.reshape(len(rows), len(wide), -1), np.broadcast_to(model.std[wide], (len(rows), len(wide)))
        return model(rows, task), model.std[task]


@stored("ridge-reference", state="fitted_")
@dataclass(eq=False, repr=False)
class RidgeReference(_Numbers, _Reference):
    """The mean or a line of each task by itself, or lines that tasks share; see the top of this page.

    Parameters
    ----------
    task, random_state : as in every estimator.
    form : "mean", "ridge" or "tasks".
    only : label of the only task to fit; None fits every task.
    """

    def _lines(self, Z: Array, rows: Rows, schema: Schema) -> tuple[Any, ...]:
        M, d = len(schema.labels), Z.shape[1]
        level, slopes, std = np.zeros((M, 1)), np.zeros((M, 1, d)), np.zeros(M)
        where = [np.flatnonzero(rows.task == t) for t in range(M)]
        means = np.array([rows.y[at if len(at) else slice(None)].mean() for at in where])  # without rows, that of all
        y = rows.y - means[rows.task]
        spread = float(y @ y) / max(len(y) - M, 1)
        if self.form == "tasks":
            lines, same = Z @ Z.T, np.equal.outer(rows.task, rows.task)
            tried = [(dual_ridge(lines + same * (LEVEL + v * lines), y, where), v) for v in DEVIATIONS]
            (_, c, missed), own = min(tried, key=lambda found: found[0][0])
            common = Z.T @ c
        else:
            c, missed, common, own = np.zeros(len(y)), np.zeros(len(y)), np.zeros(d), float(self.form == "ridge")
            for at in where:
                K = np.full((len(at), len(at)), LEVEL) + (Z[at] @ Z[at].T if self.form == "ridge" else 0.0)
                _, c[at], missed[at] = dual_ridge(K, y[at], [np.arange(len(at))])
        for t, at in enumerate(where):
            level[t] = means[t] + LEVEL * c[at].sum()
            slopes[t] = common + own * Z[at].T @ c[at]
            std[t] = np.sqrt((missed[at] @ missed[at] + spread) / (len(at) + 1))
        return level, slopes, std, *((rows.y[at], rows.y[at] - missed[at]) for at in where)

    def leave_one_out(self) -> Table:
        """Every row predicted without it, in closed form: task, count, y, mean and std, as of the other estimators."""
        model, labels = self._fit_of().model, self._fit_of().schema.labels
        parts = [
            {"task": [label] * len(y), "count": [1] * len(y), "y": y, "mean": mean, "std": [std] * len(y)}
            for label, std, (y, mean) in zip(labels, model.std.tolist(), model.left_out, strict=True)
        ]
        return Table({name: [v for part in parts for v in part[name]] for name in parts[0]})

    def left_out_at(self, X: Array, y: Array, label: Any) -> tuple[Array, Array]:
        """Mean and spread for all rows of one task in the order of the fit, each predicted without it."""
        t, model = self._fit_of().schema.labels.index(label), self._fit_of().model
        return model.left_out[t][1], np.full(len(y), model.std[t])

    def predict(
        self, X: Any, tasks: Any = None, return_std: bool = False, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """The line, and the spread of observations about it."""
        values, std = self._values(X, tasks)
        if not (return_std or return_cov):
            return values[..., 0]
        return values[..., 0], np.diag(std**2) if return_cov else std


def dual_ridge(K: Array, y: Array, tasks: list[Codes]) -> tuple[float, Array, Array]:
    """The least error of rows left out, the coefficients, and by how much each row is missed; tasks count alike."""
    if len(y) == 0:
        return 0.0, y, y
    e, U = np.linalg.eigh(K)
    found = []
    for a in PENALTIES:
        G = (U / (np.maximum(e, 0.0) + a)) @ U.T
        c = G @ y
        missed = c / np.diagonal(G)
        found.append((sum(float(np.mean(missed[at] ** 2)) for at in tasks if len(at)), c, missed))
    return min(found, key=lambda f: f[0])


@stored("logistic-reference", state="fitted_")
@dataclass(eq=False, repr=False)
class LogisticReference(_Labels, _Reference):
    """Shares of the classes or a logistic regression of each task by itself, or slopes that tasks share.

    Parameters
    ----------
    task, random_state, form, only : as in `RidgeReference`.
    """

    def _lines(self, Z: Array, rows: Rows, schema: Schema) -> tuple[Any, ...]:
        M, C, d = len(schema.labels), len(schema.classes), Z.shape[1]
        code = rows.y.astype(int) % C  # of one class only the code is 1
        level, slopes = np.zeros((M, C)), np.zeros((M, C, d))
        where = [np.flatnonzero(rows.task == t) for t in range(M)]
        for t, at in enumerate(where):
            level[t] = np.log(np.bincount(code[at], minlength=C) + 0.5)
        if self.form == "tasks" and len(set(code.tolist())) > 1:
            own = np.eye(M)[rows.task]
            deviations = (own[:, :, None] * Z[:, None, :]).reshape(len(Z), M * d)
            b, w = logistic(np.hstack([Z, 3.0 * own, deviations]), code, C)
            for t in range(M):
                level[t] = b + 3.0 * w[:, d + t]
                slopes[t] = w[:, :d] + w[:, d + M + t * d : d + M + (t + 1) * d]
        elif self.form == "ridge":
            for t, at in enumerate(where):
                if len(set(code[at].tolist())) > 1:
                    level[t], slopes[t] = logistic(Z[at], code[at], C)
        return level, slopes, np.zeros(M)

    def predict_proba(self, X: Any, tasks: Any = None) -> Array:
        """Probability of each class."""
        return softmax(self._values(X, tasks)[0], axis=-1)

    def decision_function(self, X: Any, tasks: Any = None) -> Array:
        """Log odds of the second class; log probabilities of all where there are more than two."""
        v: Array = log_softmax(self._values(X, tasks)[0], axis=-1)
        return v[..., 1] - v[..., 0] if v.shape[-1] == 2 else v


def logistic(Z: Array, code: Codes, C: int) -> tuple[Array, Array]:
    """Level and slopes of each class; one that is not there has a level that makes it rare."""
    model = LogisticRegression(C=1.0, max_iter=2000).fit(Z, code)
    level, slopes = np.full(C, np.log(0.5 / len(code))), np.zeros((C, Z.shape[1]))
    b, w = model.intercept_, model.coef_
    if len(b) == 1:  # two classes: the odds of the second
        b, w = np.array([-b[0], b[0]]) / 2.0, np.vstack([-w, w]) / 2.0
    level[model.classes_], slopes[model.classes_] = b, w
    return level, slopes


@dataclass(eq=False, repr=False, kw_only=True)
class _Wrapped(_Simple):
    """Abstract. An estimator of scikit-learn, with the task as columns of zeros and ones, or one task's rows only."""

    estimator: Any = None
    primary: Any = None
    rows: str = "all"

    def _learn(self, X: Any, y: Any, tasks: Any) -> Fitted:
        """Fit; the spread of predictions is what rows of the primary are missed by that are held out."""
        rows, schema, attributes = self._read(X, y, tasks, self.primary if self.rows == "primary" else None)
        Z, std = self._columns(rows.X, rows.task, schema), 0.0
        target = rows.y.astype(int) % len(schema.classes) if is_classifier(self) else rows.y
        model = clone(self.estimator).fit(Z, target)
        if not is_classifier(self) and "return_std" not in inspect.signature(model.predict).parameters:
            std = self._spread(Z, target, np.flatnonzero(rows.task == list(schema.labels).index(self.primary)))
        return Fitted(schema, (model, std), attributes)

    def _columns(self, X: Array, task: Codes, schema: Schema) -> Array:
        return X if self.rows == "primary" else np.hstack([X, np.eye(len(schema.labels))[task]])

    def _spread(self, Z: Array, y: Array, mine: Codes) -> float:
        """Root mean square of what rows of the primary are missed by, in at most five folds of them."""
        if len(mine) < 2:
            return float(np.std(y)) or 1.0
        missed = np.zeros(len(mine))
        for part in np.array_split(np.random.default_rng(0).permutation(len(mine)), min(5, len(mine))):
            train = np.setdiff1d(np.arange(len(y)), mine[part])
            missed[part] = y[mine[part]] - clone(self.estimator).fit(Z[train], y[train]).predict(Z[mine[part]])
        return float(np.sqrt((missed @ missed + np.var(y[mine])) / (len(mine) + 1)))

    def _new(self, X: Any, tasks: Any) -> Array:
        rows, task = self._read_new(X, tasks)
        if task is None:
            raise ValueError("an estimator that was wrapped for a comparison answers for one task per row; give tasks=")
        return self._columns(rows, task, self._fit_of().schema)


@dataclass(eq=False, repr=False)
class WrappedRegressor(_Numbers, _Wrapped):
    """A regressor of scikit-learn as a method of a comparison.

    Parameters
    ----------
    task, random_state : as in every estimator.
    estimator : what is fitted; it is cloned first.
    primary : label of the task that matters.
    rows : "all", with the task as columns of zeros and ones, or "primary", the rows of that task only.
    """

    def predict(
        self, X: Any, tasks: Any = None, return_std: bool = False, return_cov: bool = False, include_noise: bool = False
    ) -> Any:
        """Its predictions, and the spread of observations about them."""
        Z, (model, std) = self._new(X, tasks), self._fit_of().model
        if not (return_std or return_cov):
            return model.predict(Z)
        mean, std = model.predict(Z, return_std=True) if std == 0.0 else (model.predict(Z), np.full(len(Z), std))
        return mean, np.diag(std**2) if return_cov else std


@dataclass(eq=False, repr=False)
class WrappedClassifier(_Labels, _Wrapped):
    """A classifier of scikit-learn as a method of a comparison.

    Parameters
    ----------
    task, random_state, estimator, primary, rows : as in `WrappedRegressor`.
    """

    def predict_proba(self, X: Any, tasks: Any = None) -> Array:
        """Probability of each class; none for a class that it has not seen."""
        Z, (model, _), classes = self._new(X, tasks), self._fit_of().model, self._fit_of().schema.classes
        p = np.zeros((len(Z), len(classes)))
        p[:, model.classes_] = model.predict_proba(Z)
        return p
