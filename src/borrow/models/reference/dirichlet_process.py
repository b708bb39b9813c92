"""Clusters of tasks: logistic regressions with a Dirichlet-process prior over their weights.

Y. Xue, X. Liao, L. Carin, B. Krishnapuram: Multi-task learning for classification with Dirichlet process priors.
Journal of Machine Learning Research 8, 35-63 (2007), the symmetric method; "DP-MT" in Leen, Peltonen & Kaski (2011).
Bound of the logistic function s: T. Jaakkola, M. Jordan: Statistics and Computing 10, 25-37 (2000).

Task m is in cluster k with probability pi_k, where p(y given x) = s(y w_k'x), x with a 1 for the intercept:

    (1)  pi_k = V_k prod_{j<k} (1 - V_j),  V_k ~ Beta(1, alpha),  alpha ~ Gamma(0.05, rate 0.05),  w_k ~ N(0, v I)
    (2)  log s(z) >= log s(xi) + (z - xi)/2 - r(xi) (z^2 - xi^2),  r(xi) = tanh(xi/2) / (4 xi)
    (3)  q(w_k) = N(theta_k, Gamma_k),  1/Gamma_k = I/v + 2 sum phi_mk r(xi_k) x x',  theta_k = Gamma_k sum phi_mk y x/2
    (4)  xi_k^2 = E (w_k'x)^2 = (theta_k'x)^2 + x'Gamma_k x
    (5)  q(V_k) = Beta(1 + sum_m phi_mk, E alpha + sum_m sum_{j>k} phi_mj),  V_K = 1
    (6)  q(alpha) = Gamma(0.05 + K - 1, 0.05 - sum_k E log(1 - V_k))
    (7)  phi_mk prop. to exp(E log pi_k + sum_i [log s(xi_k) + (y theta_k'x - xi_k)/2])
    (8)  p(y = 1 given x, m) = sum_k phi_mk s(theta_k'x / sqrt(1 + pi/8 x'Gamma_k x))

The numbers are those of this page. M tasks, K clusters, n rows, D = 1 + number of columns.

| symbol         | name here                | shape                                             |
|----------------|--------------------------|---------------------------------------------------|
| phi            | `State.phi`              | (M, K): how likely task m is in cluster k         |
| xi             | `State.xi`               | (n, K)                                            |
| theta, Gamma   | `State.theta`, `.Gamma`  | (K, D), (K, D, D)                                 |
| E alpha, v     | `State.alpha`, `v`       | numbers                                           |

| equation | function                                                                    |
|----------|-----------------------------------------------------------------------------|
| (2)      | `curvature`                                                                 |
| (3)      | `weights`                                                                   |
| (4)      | `moments`                                                                   |
| (5)      | `sticks`                                                                    |
| (6)      | `concentration`                                                             |
| (7)      | `sweep`: all updates in turn, and the lower bound of the evidence           |
| (8)      | `decision`                                                                  |

Deviations, each with its reason:
- xi is free for every row and cluster, the paper's for every row: a tighter bound.
- K is the number of tasks, as in the paper, but at most 20 unless `n_components` says so.
- The bound has many maxima, and tasks seldom leave a cluster for an empty one. The fit starts from the tasks' own
  weights grouped (Ward) into 1, 2, ..., K clusters and once at random, and goes on from the best after ten sweeps.
- Columns are centred and scaled over all rows, which gives the paper's v = 10 its meaning.
- v is one of three, and starts end in many maxima: p(y = 1) is the average over all, weighted by exp(bound / 20), as
  bounds differ by tens of nats between maxima that predict as well. `prior_variance=10` is the paper's model, from
  its best start.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import betaln, digamma, gammaln, log_expit, logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from borrow.data.cells import Codes
from borrow.data.labels import places_of
from borrow.data.scaling import TaskData
from borrow.estimators.base import Place
from borrow.estimators.classifier import LogOdds, TaskClassifier
from borrow.estimators.registry import register
from borrow.estimators.settings import Allowed, positive, whole
from borrow.numerics.linalg import Array, cholesky, inverse_from_factor, log_determinant
from borrow.numerics.stored import stored
from borrow.numerics.warned import warn

#: What v may be where all are averaged, and the power of exp(bound) that weighs them: chosen on EEG with 14 trials and
#: landmine with 20 rows per field (`benchmarks/studies/averages.py`).
VARIANCES, POWER = (0.3, 1.0, 3.0), 0.05
#: Clusters to which no task belongs with more than this probability are not kept in an average.
NEGLIGIBLE = 1e-9
TAU = 0.05  # shape and rate of the prior of alpha
TRIAL = 10  # sweeps before the best start is chosen
LARGEST_K = 20


@stored("dirichlet-process-state")
class State(NamedTuple):
    """What a sweep carries on."""

    phi: Array
    xi: Array
    alpha: float
    theta: Array = np.zeros((0, 0))
    Gamma: Array = np.zeros((0, 0, 0))
    trace: tuple[float, ...] = ()  # the bound after every sweep


def curvature(xi: Array) -> Array:
    """r of (2), 1/8 at 0."""
    safe = np.maximum(xi, 1e-6)
    return np.tanh(0.5 * safe) / (4.0 * safe)


def weights(X: Array, y: Array, share: Array, xi: Array, v: float) -> tuple[Array, Array, float]:
    """theta and Gamma of every cluster (3), and the divergence of q(w) from its prior; `share` is phi by rows."""
    D, K = X.shape[1], share.shape[1]
    theta, Gamma, divergence = np.empty((K, D)), np.empty((K, D, D)), 0.0
    slope, rate = 0.5 * X.T @ (y[:, None] * share), 2.0 * share * curvature(xi)
    for k in range(K):
        L = cholesky(np.eye(D) / v + (X * rate[:, k : k + 1]).T @ X)
        Gamma[k] = inverse_from_factor(L)
        theta[k] = Gamma[k] @ slope[:, k]
        size = (np.trace(Gamma[k]) + theta[k] @ theta[k]) / v
        divergence += 0.5 * (size - D + log_determinant(L) + D * np.log(v))
    return theta, Gamma, divergence


def moments(X: Array, theta: Array, Gamma: Array) -> tuple[Array, Array]:
    """Mean and variance of w_k'x, rows by clusters: the parts of (4)."""
    return X @ theta.T, np.column_stack([np.einsum("ij,ij->i", X @ G, X) for G in Gamma])


def sticks(phi: Array, alpha: float) -> tuple[Array, Array, Array, Array]:
    """q(V) (5): both parameters, E log V and E log(1 - V)."""
    size = phi.sum(axis=0)
    a, b = 1.0 + size[:-1], alpha + np.cumsum(size[::-1])[::-1][1:]
    return a, b, digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)


def concentration(log_rest: Array, alpha: float | None) -> tuple[float, float, float]:
    """E alpha, E log alpha and the divergence of q(alpha) from its prior (6); a given alpha stays."""
    if alpha is not None:
        return alpha, float(np.log(alpha)), 0.0
    shape, rate = TAU + len(log_rest), TAU - float(log_rest.sum())
    divergence = (shape - TAU) * digamma(shape) - gammaln(shape) + gammaln(TAU)
    divergence += TAU * np.log(rate / TAU) + shape * (TAU - rate) / rate
    return shape / rate, float(digamma(shape) - np.log(rate)), float(divergence)


def sweep(X: Array, y: Array, starts: Codes, state: State, v: float, alpha: float | None) -> State:
    """(3) to (7) in turn; the trace grows by the lower bound of the evidence after (7)."""
    theta, Gamma, divergence = weights(X, y, np.repeat(state.phi, np.diff(starts), axis=0), state.xi, v)
    mean, variance = moments(X, theta, Gamma)
    xi = np.sqrt(mean**2 + variance)
    a, b, log_stick, log_rest = sticks(state.phi, state.alpha)
    alpha_mean, log_alpha, alpha_divergence = concentration(log_rest, alpha)
    log_pi = np.append(log_stick, 0.0) + np.append(0.0, np.cumsum(log_rest))
    rows = log_expit(xi) + 0.5 * (y[:, None] * mean - xi)
    sums = np.vstack([np.zeros(xi.shape[1]), np.cumsum(rows, axis=0)])
    score = log_pi + sums[starts[1:]] - sums[starts[:-1]]
    stick = log_alpha + (alpha_mean - b) * log_rest + betaln(a, b) - (a - 1.0) * log_stick  # E log p(V)/q(V)
    bound = logsumexp(score, axis=1).sum() + stick.sum() - alpha_divergence - divergence
    return State(softmax(score, axis=1), xi, alpha_mean, theta, Gamma, (*state.trace, float(bound)))


def begin(X: Array, y: Array, starts: Codes, phi: Array, v: float, alpha: float | None, n: int) -> State:
    """So many sweeps from given responsibilities."""
    state = State(phi, np.ones((len(y), phi.shape[1])), alpha or 1.0)
    for _ in range(n):
        state = sweep(X, y, starts, state, v, alpha)
    return state


def partitions(X: Array, y: Array, starts: Codes, K: int, v: float, random_state: Any) -> list[Array]:
    """phi to start from: tasks grouped by the weights that each has on its own, and at random."""
    M, groups = len(starts) - 1, [np.zeros(len(starts) - 1, dtype=np.intp)]
    if min(M, K) > 1:
        parts = [(X[i:j], y[i:j], np.array([0, j - i])) for i, j in pairwise(starts.tolist())]
        tree = linkage([begin(*part, np.ones((1, 1)), v, 1.0, TRIAL).theta[0] for part in parts], "ward")
        groups += [fcluster(tree, c, "maxclust") for c in range(2, min(M, K) + 1)]
        groups.append(check_random_state(random_state).randint(K, size=M))
    coded = [np.unique(g, return_inverse=True, return_counts=True)[1:] for g in groups]
    return [np.eye(K)[np.argsort(np.argsort(-size, kind="stable"))[code]] for code, size in coded]  # the largest first


@stored("dirichlet-process-mixture")
@dataclass(frozen=True)
class Mixture(LogOdds):
    """Every task a mixture of the clusters' classifiers."""

    state: State
    center: Array
    scales: Array
    converged: bool

    def decision(self, X: Array, task: Codes) -> Array:
        """Log odds of +1 (8)."""
        mean, variance = moments(with_one((X - self.center) / self.scales), self.state.theta, self.state.Gamma)
        z, phi = mean / np.sqrt(1.0 + np.pi / 8.0 * variance), self.state.phi[task]
        return logsumexp(log_expit(z), axis=1, b=phi) - logsumexp(log_expit(-z), axis=1, b=phi)

    def occupied(self) -> Mixture:
        """The same without empty clusters, and without what only further sweeps need."""
        of, at = self.state, self.state.phi.max(axis=0) > NEGLIGIBLE
        state = State(of.phi[:, at], np.zeros((0, int(at.sum()))), of.alpha, of.theta[at], of.Gamma[at])
        return replace(self, state=state)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes."""
        return {
            "clusters_": dict(zip(labels, self.state.phi.argmax(axis=1).tolist(), strict=True)),
            "responsibilities_": self.state.phi[places_of(labels)],
            "bound_trace_": list(self.state.trace),
            "concentration_": self.state.alpha,
        }


@stored("dirichlet-process-average")
@dataclass(frozen=True)
class Average(LogOdds):
    """What several fits predict, each weighted by its bound; what is told of clusters is that of the likeliest."""

    likeliest: Mixture
    parts: tuple[Mixture, ...]  # with the clusters that have tasks
    shares: Array
    converged: bool

    @classmethod
    def of(cls, fits: list[Mixture]) -> Average:
        """The average of these fits."""
        bounds = np.array([m.state.trace[-1] for m in fits])
        parts = tuple(m.occupied() for m in fits)
        return cls(fits[bounds.argmax()], parts, softmax(POWER * bounds), all(m.converged for m in fits))

    @property
    def state(self) -> State:
        """What the last sweep of the likeliest fit left."""
        return self.likeliest.state

    def decision(self, X: Array, task: Codes) -> Array:
        """Log odds of +1 of the average."""
        each, shares = np.stack([part.decision(X, task) for part in self.parts]), self.shares[:, None]
        return logsumexp(log_expit(each), axis=0, b=shares) - logsumexp(log_expit(-each), axis=0, b=shares)

    def attributes(self, labels: tuple[Hashable, ...]) -> dict[str, Any]:
        """The public attributes, of the likeliest."""
        return self.likeliest.attributes(labels)


def with_one(X: Array) -> Array:
    """X and a column for the intercept."""
    return np.column_stack([X, np.ones(len(X))])


@register(
    "clusters",
    "clusters of logistic regressions",
    rank=7,
    about="logistic regressions of tasks that fall into clusters (Xue, Liao, Carin & Krishnapuram 2007)",
)
@dataclass(eq=False, repr=False, kw_only=True)
class DirichletProcessClassifier(TaskClassifier):
    """Logistic regressions of tasks that fall into clusters; how many, the data say.

    Parameters
    ----------
    task : as in every `TaskClassifier`.
    concentration : of the Dirichlet process; a number, or "auto" for a vague Gamma prior.
    n_components : the most clusters; None is one per task, at most 20.
    prior_variance : of the weights, in scaled columns; "auto" averages over 0.3, 1 and 3 and over all starts, by their
        bounds; attributes are those of the likeliest. A number is fitted from its best start.
    max_iter : the most sweeps.
    tol : the rise of the bound, in nats per row, below which a fit has converged.
    random_state : draws one of the starts.
    unseen : what to do about a task that `fit` never saw: "error" refuses it, "population" answers as for a task drawn
        from those seen, with a wider band, and warns.

    Attributes
    ----------
    clusters_ : dict by task label of the likeliest cluster; like the others a list where there are more than two
        classes, one entry for each against the rest.
    responsibilities_ : how likely each task (in the order of `tasks_`) is in each cluster.
    bound_trace_ : the lower bound of the evidence after every sweep.
    concentration_ : that of the Dirichlet process, as given or found.
    n_iter_, converged_ : sweeps, and whether the bound has stopped rising.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks("labels")
    >>> model = borrow.DirichletProcessClassifier().fit(X, y, tasks=tasks)
    >>> model.predict_proba([[0.5], [2.5]], tasks=["a", "a"]).shape
    (2, 2)
    >>> model.predict([[-1.0], [4.0]], tasks=["a", "a"]).tolist()
    ['no', 'yes']
    """

    concentration: Any = "auto"
    n_components: int | None = None
    prior_variance: Any = "auto"
    max_iter: int = 500
    tol: float = 1e-4

    allowed: ClassVar[Allowed] = {
        "concentration": positive("auto"),
        "prior_variance": positive("auto"),
        "tol": positive(),
        "n_components": whole(1, None),
        "max_iter": whole(1),
    }

    def _fit_binary(self, data: TaskData, place: Place) -> Mixture | Average:
        if self.prior_variance == "auto":
            return Average.of([fit for v in VARIANCES for fit in self._fits(data, v, best=False)])
        return self._fits(data, float(self.prior_variance), best=True)[0]

    def _fits(self, data: TaskData, v: float, best: bool) -> list[Mixture]:
        """Mixtures whose weights have this variance, from every start or from the best."""
        y, starts, center = data.cells.y, data.cells.starts, data.cells.X.mean(axis=0)
        X = with_one((data.cells.X - center) / data.column_scales)
        alpha = None if self.concentration == "auto" else float(self.concentration)
        K = min(len(data.labels), LARGEST_K) if self.n_components is None else int(self.n_components)
        trials = partitions(X, y, starts, K, v, self.random_state)
        tried = [begin(X, y, starts, phi, v, alpha, min(TRIAL, self.max_iter)) for phi in trials]
        fits = []
        for state in [max(tried, key=lambda s: s.trace[-1])] if best else tried:
            converged = False
            while not converged and len(state.trace) < self.max_iter:
                state = sweep(X, y, starts, state, v, alpha)
                converged = state.trace[-1] - state.trace[-2] < self.tol * len(y)
            fits.append(Mixture(state, center, data.column_scales, converged))
        return fits

    def _attributes(self, models: list[Any]) -> dict[str, Any]:
        n_iter, converged = max(len(m.state.trace) for m in models), all(m.converged for m in models)
        if not converged:
            text = f"the bound still rises after {n_iter} sweeps; raise max_iter (now {self.max_iter}) or tol"
            warn(text, ConvergenceWarning)
        return {**super()._attributes(models), "converged_": converged, "n_iter_": n_iter}
