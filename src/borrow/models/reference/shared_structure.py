"""Predictive structure shared by linear classifiers: alternating structure optimisation.

R. K. Ando, T. Zhang: A framework for learning predictive structures from multiple tasks and unlabeled data. Journal of
Machine Learning Research 6, 1817-1853 (2005); the algorithm is their SVD-ASO. "AZ" in Leen, Peltonen & Kaski (2011).

Task t has the weights u_t = w_t + Theta'v_t, with Theta Theta' = I shared. With a loss L of y_i f_t(x_i),

    (1)  minimise  sum_t [ 1/n_t sum_i L(y_i (u_t'x_i + b_t)) + lambda_t norm(w_t)^2 ]  over w_t, v_t, b_t and Theta
    (2)  given Theta, every task on its own: u_t, of which Theta u_t is free and only the rest pays lambda_t
    (3)  given all u_t, the rows of Theta are the first h left singular vectors of [sqrt(lambda_t) u_t]

in turn, from u_t = 0. The numbers are those of this page.

| symbol    | name here        | shape                                                                  |
|-----------|------------------|------------------------------------------------------------------------|
| Theta     | `Theta`          | (h, d), rows orthonormal                                               |
| u_t       | `U`              | (M, d)                                                                 |
| b_t       | `b`              | (M,)                                                                   |
| lambda_t  | `lam`            | (M,)                                                                   |
| L         | logistic         | log(1 + exp(-y f)), which gives probabilities                          |

| equation | function                                                                                |
|----------|-----------------------------------------------------------------------------------------|
| (1)      | `alternate`: (2) and (3) in turn; `task_loss` is one task's share                       |
| (2)      | `task_loss`: what is minimised by L-BFGS                                                |
| (3)      | `structure`: Theta from the weights of all tasks                                        |

Deviations, each with its reason:
- v_t pays lambda_t / 100: rows that the shared features separate would send a free v_t to infinity under the logistic
  loss. (3) stays the exact minimiser. For the same reason b_t has a normal prior of standard deviation 5.
- (2) is solved for w_t and v_t together; the paper holds v_t while it solves for w_t. The minimum is the same.
- h is less than the number of tasks that have rows: a space spanned by all u_t shares nothing, and would leave every
  task without regularisation. One task alone is a ridge logistic regression.
- `dimension="auto"` is the rule of Leen et al.: the principal components of all rows that explain 80 % of the variance.
- Columns are centred and scaled over all rows. Theta lives there; `coef_` and `intercept_` are in the units given.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from borrow.data.cells import Codes
from borrow.data.scaling import TaskData
from borrow.estimators.base import Place
from borrow.estimators.classifier import LogOdds, TaskClassifier
from borrow.estimators.registry import register
from borrow.estimators.settings import Allowed, numbers_by_label, whole
from borrow.numerics.linalg import Array
from borrow.numerics.stored import stored

#: What v_t pays of lambda_t.
FREE = 0.01
#: Prior standard deviation of b_t.
OFFSET = 5.0
#: Share of the variance that "auto" wants explained.
EXPLAINED = 0.8


def task_loss(ub: Array, X: Array, y: Array, Theta: Array, lam: float) -> tuple[float, Array]:
    """One task's share of (1) and its gradient by (u, b), v at its best: what (2) minimises."""
    u, b = ub[:-1], ub[-1]
    margin = y * (X @ u + b)
    by_f = -y * expit(-margin) / len(y)
    # norm(u - Theta'v)^2 + FREE norm(v)^2 is least at v = Theta u / (1 + FREE)
    rest = u - Theta.T @ (Theta @ u) / (1.0 + FREE)
    prior = b / (OFFSET**2 * len(y))
    value = -log_expit(margin).mean() + lam * (u @ rest) + 0.5 * b * prior
    return float(value), np.append(X.T @ by_f + 2.0 * lam * rest, by_f.sum() + prior)


def structure(U: Array, lam: Array, h: int) -> Array:
    """Theta from the weights of all tasks (3)."""
    left, values, _ = np.linalg.svd((np.sqrt(lam)[:, None] * U).T, full_matrices=False)
    return left[:, : min(h, int(np.sum(values > 1e-10 * values.max(initial=1e-300))))].T


def alternate(
    rows: list[tuple[Array, Array]], lam: Array, h: int, n_iter: int
) -> tuple[Array, Array, Array, list[float]]:
    """Minimise (1): Theta, U, b, and the objective after every round."""
    d = rows[0][0].shape[1]
    Theta, ub, trace = np.zeros((0, d)), np.zeros((len(rows), d + 1)), []
    for _ in range(n_iter):
        total = 0.0
        for t, (X, y) in enumerate(rows):
            if len(y):
                options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-6}
                found = minimize(task_loss, ub[t], (X, y, Theta, lam[t]), "L-BFGS-B", jac=True, options=options)
                ub[t], total = found.x, total + found.fun
        trace.append(float(total))
        Theta = structure(ub[:, :-1], lam, h)
        if len(trace) > 2 and trace[-2] - trace[-1] <= 1e-8 * trace[-1]:
            break
    return Theta, ub[:, :-1], ub[:, -1], trace


@stored("shared-structure-linear")
@dataclass(frozen=True)
class Linear(LogOdds):
    """One linear function per task."""

    coef: Array  # (M, d)
    intercept: Array  # (M,)
    Theta: Array
    trace: list[float]

    def decision(self, X: Array, task: Codes) -> Array:
        """Log odds of +1."""
        return np.einsum("ij,ij->i", X, self.coef[task]) + self.intercept[task]

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {
            "structure_": self.Theta,
            "coef_": dict(zip(labels, self.coef, strict=True)),
            "intercept_": dict(zip(labels, self.intercept.tolist(), strict=True)),
            "objective_trace_": self.trace,
        }


@register()
@dataclass(eq=False, repr=False, kw_only=True)
class SharedStructureClassifier(TaskClassifier):
    """Linear classifiers whose weights share a low-dimensional subspace, found from all tasks.

    Parameters
    ----------
    task : as in every `TaskClassifier`.
    dimension : h of the subspace, or "auto".
    n_iter : the most rounds of the alternation.
    regularization : lambda_t of the mean loss, a number or a dict by task label.
    random_state : there for the common signature; nothing is random.
    unseen : what to do about a task that `fit` never saw: "error" refuses it, "population" answers as for a task drawn
        from those seen, with a wider band, and warns.

    Attributes
    ----------
    structure_ : (h, d), orthonormal in scaled columns; like the others a list where there are more than two classes.
    coef_, intercept_ : dicts by task label, in the units given.
    objective_trace_ : the objective after every round.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.SharedStructureClassifier().fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    dimension: str | int = "auto"
    n_iter: int = 20
    regularization: Any = 0.1

    allowed: ClassVar[Allowed] = {"dimension": whole(1, "auto"), "n_iter": whole(1)}

    def _penalties(self, labels: tuple[Hashable, ...]) -> Array:
        values = numbers_by_label(self.regularization, labels, "regularization", 0.1)
        for label, value in zip(labels, values, strict=True):
            if value <= 0:
                raise ValueError(f"regularization of task {label!r} is {value!r}; expected a positive number")
        return np.array(values)

    def _dimension(self, X: Array, n_tasks: int) -> int:
        most = min(X.shape[1], n_tasks - 1)
        if self.dimension == "auto":
            variance = np.cumsum(np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2)  # of principal components
            return min(int(np.searchsorted(variance, EXPLAINED * variance[-1])) + 1, most)
        if int(self.dimension) > most:
            text = f"dimension={self.dimension}: expected at most {most}, with {n_tasks} tasks that have labelled rows"
            raise ValueError(f"{text} and {X.shape[1]} columns (a shared space is smaller than the number of tasks)")
        return int(self.dimension)

    def _fit_binary(self, data: TaskData, place: Place) -> Linear:
        cells, center, scales = data.cells, data.cells.X.mean(axis=0), data.column_scales
        X = (cells.X - center) / scales
        rows = [(X[cells.of(t)], cells.y[cells.of(t)]) for t in range(len(data.labels))]
        h = self._dimension(X, sum(len(y) > 0 for _, y in rows))
        Theta, U, b, trace = alternate(rows, self._penalties(data.labels), h, int(self.n_iter))
        coef = U / scales
        return Linear(coef, b - coef @ center, Theta, trace)
