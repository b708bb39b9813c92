"""Regularised multi-task learning: support vector machines around a common mean.

T. Evgeniou, M. Pontil: Regularized multi-task learning. KDD 2004, pp. 109-117. Probabilities: J. Platt: Probabilistic
outputs for support vector machines, in Advances in Large Margin Classifiers, 1999.

Task t has the weights w_t = w_0 + v_t. With k the kernel of the inputs and hinge losses h,

    (1)  minimise  mu/2 w_0'w_0 + 1/2 sum_t v_t'v_t + C sum_it h(y_it f_t(x_it)),   f_t(x) = (w_0 + v_t)'x + b
    (2)  which is one support vector machine with the kernel  K((x, s), (x', t)) = (1/mu + delta_st) k(x, x')
    (3)  p(y = 1 given x, t) = 1 / (1 + exp(-slope f_t(x) - offset)), fitted to held-out f

The numbers are those of this page. In the paper's letters mu = T lambda_2 / lambda_1 and C = T / (2 lambda_1).

| symbol            | name here             | shape                                            |
|-------------------|-----------------------|--------------------------------------------------|
| k + 1             | `Margin.kernel`       | function of two tables                           |
| alpha_it y_it     | `Margin.coefficients` | (support vectors,)                               |
| b                 | `Margin.intercept`    | one for all tasks                                |
| mu, C             | `mu`, `C`             | large mu: tasks alone; small mu: one pooled SVM  |

| equation | function                                                                             |
|----------|--------------------------------------------------------------------------------------|
| (1)      | `solve`: the dual, by scikit-learn's SVC                                             |
| (2)      | `coupled`: the kernel between rows of tasks                                          |
| (3)      | `sigmoid`: slope and offset, on the margins of `held_out`                            |

Deviations, each with its reason:
- Offsets: 1 is added to k, so that every task has its own, drawn to b, which is SVC's and free. The paper has no b.
- "linear" and "rbf" see columns centred and scaled over all rows, as every reference method here does.
- `decision_function` is the log odds of (3), so that it agrees with `predict` and `predict_proba` and is comparable
  between classes; the paper's sign(f) differs from it by the offset.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from borrow.data.cells import Codes
from borrow.data.scaling import TaskData
from borrow.estimators.base import Place
from borrow.estimators.classifier import LeaveOneOutAnswers, LogOdds, TaskClassifier
from borrow.estimators.registry import register
from borrow.estimators.settings import Allowed, is_among, positive
from borrow.numerics import memory
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored

FOLDS = 5
#: Steps of the solver, each over all rows; a few times the number of rows is usual.
MOST_STEPS = 1_000_000
#: Slope, in spreads of the margins, of a sigmoid whose margins told nothing: it keeps their order.
HARDLY = 0.01


@stored("regularized-offset-kernel")
@dataclass(frozen=True)
class OffsetKernel:
    """k + 1 of two tables; "linear" and "rbf" on scaled columns."""

    k: str | Callable[[Array, Array], Any]
    gamma: float
    center: Array
    scales: Array

    def __call__(self, X: Array, Z: Array) -> Array:
        """Kernel matrix of rows X by rows Z."""
        if callable(self.k):
            return np.asarray(self.k(X, Z), dtype=np.float64) + 1.0
        X, Z = (X - self.center) / self.scales, (Z - self.center) / self.scales
        return (linear_kernel(X, Z) if self.k == "linear" else rbf_kernel(X, Z, self.gamma)) + 1.0


def coupled(k: Array, task: Codes, other: Codes, mu: float) -> Array:
    """The kernel between rows of tasks, from that between their inputs (2)."""
    return (1.0 / mu + (task[:, None] == other)) * k


def solve(K: Array, y: Array, C: float, tol: float) -> tuple[Array, float]:
    """Coefficients of all rows and the intercept (1); rows of one class only are answered by that class."""
    if np.all(y == y[0]):
        return np.zeros(len(y)), float(y[0])
    machine = _machine(C, tol).fit(K, y)
    coefficients = np.zeros(len(y))
    coefficients[machine.support_] = machine.dual_coef_[0]
    return coefficients, float(machine.intercept_[0])


def _machine(C: float, tol: float) -> SVC:
    """A machine that ends, with scikit-learn's warning, where its steps get nowhere."""
    return SVC(C=C, kernel="precomputed", tol=tol, max_iter=MOST_STEPS, random_state=0)  # None: NumPy's own state


def held_out(K: Array, y: Array, C: float, tol: float, random_state: Any) -> Array | None:
    """Margins of every row by a machine that did not see it; None where a class has a single row."""
    folds = min(FOLDS, int(np.sum(y > 0)), int(np.sum(y < 0)))
    if folds < 2:
        return None
    split = StratifiedKFold(folds, shuffle=True, random_state=check_random_state(random_state))
    return np.asarray(cross_val_predict(_machine(C, tol), K, y, cv=split, method="decision_function"))


def sigmoid(margins: Array | None, y: Array) -> tuple[float, float]:
    """Slope and offset of (3), with Platt's targets (n + 1)/(n + 2) in place of 1 and 1/(n + 2) in place of 0.

    (1, 0) where there are no held-out margins. Where they say that the machine is wrong more often than right it is
    not turned round, but hardly listened to: probabilities are those of the labels as a whole.
    """
    if margins is None:
        return 1.0, 0.0
    above, below = np.sum(y > 0), np.sum(y < 0)
    target = np.where(y > 0, (above + 1.0) / (above + 2.0), 1.0 / (below + 2.0))
    sd = max(float(np.std(margins)), 1e-12)
    twice, soft = np.tile(margins / sd, 2)[:, None], np.append(target, 1.0 - target)
    fit = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(twice, np.repeat([1, 0], len(y)), soft)
    slope = float(fit.coef_[0, 0]) / sd
    if slope > 0:
        return slope, float(fit.intercept_[0])
    slope, share = HARDLY / sd, float(target.mean())
    return slope, float(np.log(share / (1.0 - share)) - slope * margins.mean())


@stored("regularized-margin")
@dataclass(frozen=True)
class Margin(LogOdds):
    """The functions f_t of (1), and the sigmoid that turns them into probabilities."""

    kernel: OffsetKernel
    X: Array
    task: Codes
    coefficients: Array
    intercept: float
    mu: float
    slope: float
    offset: float
    left_out: LeaveOneOutAnswers | None = None  # until classes are put together

    def margin(self, X: Array, task: Codes) -> Array:
        """The function f_t(x) of each row's task."""
        if len(self.X) == 0:
            return np.full(len(X), self.intercept)
        return coupled(self.kernel(X, self.X), task, self.task, self.mu) @ self.coefficients + self.intercept

    def decision(self, X: Array, task: Codes) -> Array:
        """Log odds of +1."""
        return self.slope * self.margin(X, task) + self.offset  # eq. 3

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The machine itself."""
        return {"machines_": self}


@register()
@dataclass(eq=False, repr=False, kw_only=True)
class RegularizedMultiTaskClassifier(TaskClassifier):
    """Support vector machines whose weights are a common mean and a deviation per task.

    Parameters
    ----------
    task : as in every `TaskClassifier`.
    mu : how much dearer the common mean is than a deviation (large: every task alone, small: all tasks as one).
    C : the price of errors.
    kernel : "linear", "rbf" or a function of two tables, as they are and not scaled, that returns their kernel matrix.
    gamma : of "rbf"; "scale" is one over the number of columns.
    tol : of the solver, which keeps kernels in single precision and may not end below 1e-7.
    random_state : draws the folds for the probabilities.
    unseen : what to do about a task that `fit` never saw: "error" refuses it, "population" answers as for a task drawn
        from those seen, with a wider band, and warns.

    Attributes
    ----------
    machines_ : a `Margin`; a list of them where there are more than two classes, one against the rest.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.RegularizedMultiTaskClassifier().fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    mu: float = 1.0
    C: float = 1.0
    kernel: Any = "linear"
    gamma: Any = "scale"
    tol: float = 1e-4

    allowed: ClassVar[Allowed] = {
        "mu": positive(),
        "C": positive(),
        "tol": positive(),
        "kernel": (
            lambda v: is_among(v, ("linear", "rbf")) or callable(v),
            "'linear', 'rbf' or a function of two tables",
        ),
        "gamma": positive("scale"),
    }

    def _fit_binary(self, data: TaskData, place: Place) -> Margin:
        X, y, task, n = data.cells.X, data.cells.y, data.cells.task, len(data.cells.y)
        memory.require(8.0 * 2.1 * n * n, f"the kernel matrix of {n:,} rows", "thin the rows")
        gamma = 1.0 / X.shape[1] if self.gamma == "scale" else float(self.gamma)
        kernel = OffsetKernel(self.kernel, gamma, X.mean(axis=0), data.column_scales)
        K = coupled(kernel(X, X), task, task, self.mu)
        coefficients, intercept = solve(K, y, self.C, self.tol)
        margins = held_out(K, y, self.C, self.tol, self.random_state)
        slope, offset = sigmoid(margins, y)
        s = np.flatnonzero(coefficients)
        found = Margin(kernel, X[s], task[s], coefficients[s], intercept, self.mu, slope, offset)
        if margins is not None:
            found = replace(found, left_out=LeaveOneOutAnswers(expit(slope * margins + offset), y))
        return found
