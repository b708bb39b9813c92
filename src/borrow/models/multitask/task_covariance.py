"""Forms of the task covariance K^f: parameters -> (M, M) matrix, and the way back (seed 001, sections 2 and 3).

| form         | K^f                                         | parameters                                     |
|--------------|---------------------------------------------|------------------------------------------------|
| `FreeForm`   | L L', L lower triangular                    | `factor`: M (M + 1) / 2 entries of L           |
| `LowRank`    | R R' + nothing, s^2 I, or diag(s_t^2)       | `loadings`: R (M, P); `own`: log s^2           |
|              | rank 0 with a free diagonal: only the kernel is shared                                       |
| `Uniform`    | a 11' + b I                                 | `uniform`: log a, log b                        |
| `Features`   | k^f on task features                        | `task_kernel`: theta of k^f                    |
| `SharingTasks` | L L' among the tasks that share, else zero | `factor`: entries of L                        |
| `Given`      | as given                                    | none                                           |

A form answers `parts(values)`, `pullback(values, adjoints)`, `start(C)` from an M x M correlation found in the data,
`log_prior(values)` and `names`. Entries of L and R are not logarithms: where the data want a singular K^f, as the plain
likelihood often does, the optimum is at a finite point.

Priors, in units of scaled targets. K^f of full rank: the inverse-Wishart penalty -strength/2 (tr K^-1 + log|K|), whose
mode is I, with derivative strength/2 (K^-1 K^-1 - K^-1); strength M by default. Where every task has a function of its
own beside it, that penalty is for the correlations alone, and each variance is free to vanish (`penalty_of_sharing`).
Loadings alone: exchangeable (see `exchangeable`). Variances alone: log N(0, 2^2), as every kernel variance. For labels
all of them are for K^f over exp(`log_variance`): that is where a kernel's variance is centred in units of the probit's
noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from borrow.covariance import Adjoints
from borrow.data.cells import Codes
from borrow.inference.priors import VARIANCE_SD, kernel_prior
from borrow.kernels import Kernel
from borrow.numerics import linalg
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.numerics.stored import stored

#: Prior of the spread of loadings around their means: degrees of freedom and standard deviation.
LOADINGS_DOF, LOADINGS_SD = 4.0, 0.3
#: No task starts further from the others than this share of its variance, nor nearer than the rest.
LEAST_OWN = 0.1
#: The least s^2 that is taken from a matrix, as a share of its largest eigenvalue: of a singular one it would be zero.
LEAST_ISOTROPIC = 1e-8


class Parts(NamedTuple):
    """K^f, and its factors where it has them: B = R R' + diag(own)."""

    B: Array
    R: Array | None = None
    own: Array | None = None


def inverse_wishart(B: Array, strength: float, log_variance: float = 0.0) -> tuple[float, Array]:
    """-strength/2 (c tr B^-1 + log|B|), c = exp(log_variance), and its derivative by B; the mode is c I."""
    L, c = linalg.cholesky(B), float(np.exp(log_variance))
    inverse = linalg.inverse_from_factor(L)
    value = -0.5 * strength * (c * float(np.trace(inverse)) + linalg.log_determinant(L))
    return value, 0.5 * strength * (c * (inverse @ inverse) - inverse)


def penalty_of_sharing(B: Array, strength: float, log_variance: float = 0.0) -> tuple[float, Array]:
    """The inverse-Wishart penalty on the correlations of B, log-normal variances, and the derivative by B.

    With v the diagonal of B, u = log v - log_variance and C = B / sqrt(v v') the value is

        -strength/2 (tr C^-1 + log|C| - M) - |u|^2 / (2 sd^2),

    zero for tasks of that variance that share nothing. With bC the derivative by C, that by B is bC / sqrt(v v'), less
    (sum_j bC_ij C_ij + u_i / sd^2) / v_i on the diagonal. A task that shares nothing has a small variance, which the
    inverse Wishart on B itself would forbid.
    """
    v = np.diagonal(B)
    root, u = np.sqrt(np.multiply.outer(v, v)), np.log(v) - log_variance
    C = B / root
    value, bC = inverse_wishart(C, strength)
    bB = bC / root
    bB.flat[:: len(B) + 1] -= (np.sum(bC * C, axis=1) + u / VARIANCE_SD**2) / v
    return value + 0.5 * strength * len(B) - 0.5 * float(u @ u) / VARIANCE_SD**2, bB


def curvature_of_inverse_wishart(B: Array, dB: Array, strength: float, log_variance: float = 0.0) -> Array:
    """About minus the second derivatives of `inverse_wishart` along changes dB (P, M, M) of B.

    Those of the trace alone: strength c tr(B^-1 dB B^-1 dB B^-1) = strength c |L^-1 dB B^-1|^2 with B = L L'. That is
    positive, and what the determinant takes from it is less than half of it where B is below c I, as it is under data.
    """
    L = linalg.cholesky(B)
    G = (np.linalg.inv(L) @ dB @ linalg.inverse_from_factor(L)).reshape(len(dB), -1)
    return np.asarray(strength * np.exp(log_variance) * G @ G.T)


def curvature_of_sharing(B: Array, dB: Array, strength: float, log_variance: float = 0.0) -> Array:
    """The same of `penalty_of_sharing`: with u = dv / v, dC = dB / sqrt(v v') - C (u 1' + 1 u') / 2.

    It is the same wherever the variances are centred.
    """
    v, u = np.diagonal(B), np.diagonal(dB, axis1=1, axis2=2) / np.diagonal(B)
    root = np.sqrt(np.multiply.outer(v, v))
    C = B / root
    dC = dB / root - 0.5 * C * (u[:, :, None] + u[:, None, :])
    return np.asarray(curvature_of_inverse_wishart(C, dC, strength) + u @ u.T / VARIANCE_SD**2)


def log_normal(name: str, values: Values, centre: float) -> tuple[float, Values]:
    """The prior of log variances."""
    away = values[name] - centre
    return float(-0.5 * np.sum(away**2) / VARIANCE_SD**2), {name: -away / VARIANCE_SD**2}


def exchangeable(R: Array) -> tuple[float, Array]:
    """Loadings R_tp ~ N(m_p, s^2), m_p ~ N(0, 1), 1/s^2 ~ Gamma(a/2, a s0^2/2) integrated out, up to a constant.

    With D = R - m and k = (M P - P + a)/2 the log density is -k log(a s0^2 + |D|^2) - |m|^2/2, m the column means;
    derivative -2 k D/(a s0^2 + |D|^2) - m/M. Rotating the columns of R changes nothing, as it changes nothing in R R'.
    Where tasks load alike they are drawn together; where they do not, this is about N(0, s^2) with the s of the data.
    """
    m = R.mean(axis=0)
    D = R - m
    k = 0.5 * (R.size - R.shape[1] + LOADINGS_DOF)
    total = LOADINGS_DOF * LOADINGS_SD**2 + float(np.sum(D * D))
    value = -k * float(np.log(total)) - 0.5 * float(m @ m)
    return value, -2.0 * k * D / total - m / len(R)


def by_factor(adjoints: Adjoints, R: Array) -> Array:
    """Derivative by R of K^f = R R' + diagonal: 2 bB R, unless the path gives it already."""
    if adjoints.B is not None:
        return (adjoints.B + adjoints.B.T) @ R
    assert adjoints.weights is not None  # a path gives one or the other
    return adjoints.weights


def by_diagonal(adjoints: Adjoints) -> Array:
    """Derivative by what is on the diagonal of K^f alone."""
    if adjoints.B is not None:
        return np.diagonal(adjoints.B)
    assert adjoints.diagonal is not None  # a path gives one or the other
    return adjoints.diagonal


class Form(ABC):
    """What every form answers; by default there is nothing to learn. Abstract."""

    rank: int | None  # of the factor R, where it has fewer columns than tasks
    strength: float | None  # of the prior; None: there is none
    members: Any  # the tasks that share, ascending, where some may not; None: all
    of_matrix: Callable[[Array], Values]  # the parameters of a matrix given, where a form can be found for any
    scored: str = ""  # the name of its parameters where scoring steps are written for it; these need
    changes: Callable[[Values], Array]  # (P, M, M): the derivatives of K^f by the parameters, and
    curvature: Callable[[Values, float], Array]  # about minus the second derivatives of the prior of that strength

    @abstractmethod
    def parts(self, values: Values) -> Parts:
        """K^f, and its factors where it has them."""

    def pullback(self, values: Values, adjoints: Adjoints) -> Values:
        """Derivatives by the parameters."""
        return {}

    def start(self, C: Array) -> Values:
        """Where the parameters start, from an M x M correlation found in the data."""
        return {}

    def log_prior(self, values: Values) -> tuple[float, Values]:
        """The log density of the prior and its derivatives, where it is on."""
        return (0.0, {}) if self.strength is None else self.prior_of_strength(values, self.strength)

    def prior_of_strength(self, values: Values, strength: float) -> tuple[float, Values]:
        """The log density of the prior of this strength and its derivatives; there is none unless a form has one."""
        return 0.0, {}

    def growth(self, values: Values) -> Values:
        """The move of the parameters that makes all of K^f larger: d/da of exp(a) K^f."""
        halves = {n: 0.5 * values[n] for n in ("factor", "loadings") if n in values}
        return halves | {n: np.ones_like(values[n]) for n in ("own", "uniform") if n in values}

    def names(self, labels: tuple[Hashable, ...]) -> dict[str, list[str]]:
        """What to call each parameter in a warning."""
        return {}


class FactorForm(Form):
    """K^f = L L' among the tasks that share, `members`; zero for the others. Abstract: a form says what L costs."""

    M: int
    members: Sequence[int]  # ascending
    log_variance: float
    #: The penalty on K^f among the members with its derivative, and about minus its second derivatives.
    penalty: ClassVar[tuple[Callable[..., tuple[float, Array]], Callable[..., Array]]]

    rank = None
    scored = "factor"

    @property
    def entries(self) -> tuple[Codes, Codes]:
        """Where the parameters stand in the factor R, which has a row for every task and a column for every member."""
        row, column = np.tril_indices(len(self.members))
        return np.asarray(self.members, dtype=np.intp)[row], column

    def factor(self, values: Values) -> Array:
        """R, whose rows are those of L; zero where a task shares nothing."""
        R = np.zeros((self.M, len(self.members)))
        R[self.entries] = values["factor"]
        return R

    def parts(self, values: Values) -> Parts:
        """R is also a factor of full rank, for the low-rank path."""
        R = self.factor(values)
        return Parts(R @ R.T, R=R)

    def pullback(self, values: Values, adjoints: Adjoints) -> Values:
        """2 bB L, lower triangle."""
        return {"factor": by_factor(adjoints, self.factor(values))[self.entries]}

    def start(self, C: Array) -> Values:
        """The factor of the correlation found, pulled towards independence."""
        return self.of_matrix(np.exp(self.log_variance) * ((1.0 - LEAST_OWN) * C + LEAST_OWN * np.eye(self.M)))

    def of_matrix(self, B: Array) -> Values:
        """The factor of a matrix given for all tasks."""
        if not self.members:
            return {"factor": np.zeros(0)}
        L = linalg.cholesky_jittered(B[np.ix_(self.members, self.members)])[0]
        return {"factor": np.array(L)[np.tril_indices(len(self.members))]}

    def prior_of_strength(self, values: Values, strength: float) -> tuple[float, Values]:
        """The penalty on K^f among the tasks that share."""
        if not self.members:
            return 0.0, {"factor": np.zeros(0)}
        among, whole = np.ix_(self.members, self.members), np.zeros((self.M, self.M))
        value, whole[among] = self.penalty[0](self.parts(values).B[among], strength, self.log_variance)
        return value, self.pullback(values, Adjoints(whole, [whole], B=whole))

    def changes(self, values: Values) -> Array:
        """By the entries of L: an entry of R changes one row and one column of R R'."""
        R, (row, column) = self.factor(values), self.entries
        out = np.zeros((len(row), self.M, self.M))
        out[np.arange(len(row)), row] = R[:, column].T
        return out + out.transpose(0, 2, 1)

    def curvature(self, values: Values, strength: float) -> Array:
        """Of the penalty on K^f among the tasks that share."""
        row, column = np.ix_(self.members, self.members)
        B, dB = self.parts(values).B[row, column], self.changes(values)[:, row, column]
        return self.penalty[1](B, dB, strength, self.log_variance)

    def names(self, labels: tuple[Hashable, ...]) -> dict[str, list[str]]:
        """The entries of L, by the tasks that they tie."""
        sharing = [labels[t] for t in self.members]
        at = zip(*np.tril_indices(len(sharing)), strict=True)
        return {"factor": [f"entry ({sharing[i]!r}, {sharing[j]!r}) of the factor of K^f" for i, j in at]}


@stored("multitask-free-form")
@dataclass(frozen=True)
class FreeForm(FactorForm):
    """K^f = L L' of all tasks."""

    M: int
    strength: float | None
    log_variance: float = 0.0

    penalty = inverse_wishart, curvature_of_inverse_wishart

    @property
    def members(self) -> Sequence[int]:  # type: ignore[override]
        """The tasks that share: all of them."""
        return range(self.M)


@stored("sharing-tasks")
@dataclass(frozen=True)
class SharingTasks(FactorForm):
    """K^f = L L' among the tasks that share; the others have functions of their own alone."""

    M: int
    members: tuple[int, ...]
    strength: float | None
    log_variance: float = 0.0

    penalty = penalty_of_sharing, curvature_of_sharing


@stored("multitask-low-rank")
@dataclass(frozen=True)
class LowRank(Form):
    """K^f = R R', alone or with what each task has of its own."""

    M: int
    rank: int
    diagonal: str  # "none", "isotropic", "free"
    strength: float | None
    log_variance: float = 0.0

    def parts(self, values: Values) -> Parts:
        """The matrix R R' + diag(own) that tasks share and have of their own."""
        R = values["loadings"] if self.rank else np.zeros((self.M, 0))
        B = R @ R.T
        if self.diagonal == "none":
            return Parts(B, R)
        own = np.broadcast_to(np.exp(values["own"]), self.M)
        B.flat[:: self.M + 1] += own
        return Parts(B, R, own)

    def pullback(self, values: Values, adjoints: Adjoints) -> Values:
        """bR = 2 bB R, b log s^2 = s^2 bB_tt."""
        out: Values = {"loadings": by_factor(adjoints, values["loadings"])} if self.rank else {}
        if self.diagonal != "none":
            by_log = by_diagonal(adjoints) * np.exp(values["own"])
            out["own"] = by_log if self.diagonal == "free" else np.array([by_log.sum()])
        return out

    def start(self, C: Array) -> Values:
        """Leading eigenvectors of the correlation found; they differ from each other, so the rank develops."""
        e, U = linalg.symmetric_eigen(C)
        e, U = e[::-1][: self.rank], U[:, ::-1][:, : self.rank]
        floor = LEAST_OWN * max(float(e[0]), LEAST_OWN) if self.rank else 0.0
        R = U * np.sqrt(np.maximum(e, floor))
        own = np.maximum(1.0 - np.einsum("tp,tp->t", R, R), LEAST_OWN)
        out: Values = {"loadings": np.exp(0.5 * self.log_variance) * R} if self.rank else {}
        if self.diagonal != "none":
            out["own"] = self.log_variance + (np.log(own) if self.diagonal == "free" else np.log([own.mean()]))
        return out

    def of_matrix(self, B: Array) -> Values:
        """The R and s^2 nearest to a matrix given, for one s^2 in all tasks (sec. 3; Tipping & Bishop 1999).

        With e, U the eigenvalues and eigenvectors of B, the largest P of them in e_P, U_P: s^2 is the mean of the
        other M - P eigenvalues and R R' = U_P (e_P - s^2) U_P', which together maximise -log|K| - tr(K^-1 B) over
        K = R R' + s^2 I. R is turned to be as of an incomplete Cholesky decomposition, zero above its diagonal.
        """
        e, U = linalg.symmetric_eigen(B)
        s2 = max(float(np.sum(e[: self.M - self.rank])) / max(self.M - self.rank, 1), LEAST_ISOTROPIC * float(e[-1]))
        R = U[:, -self.rank :] * np.sqrt(np.maximum(e[-self.rank :] - s2, 0.0))
        Q, top = np.linalg.qr(R[: self.rank].T)
        return {"loadings": R @ (Q * np.where(np.diagonal(top) < 0, -1.0, 1.0)), "own": np.log([s2])}

    def prior_of_strength(self, values: Values, strength: float) -> tuple[float, Values]:
        """Inverse Wishart where K^f has full rank; loadings alone exchangeable; variances alone log-normal."""
        if self.diagonal == "none":
            root = float(np.exp(0.5 * self.log_variance))
            value, by = exchangeable(values["loadings"] / root)
            return value, {"loadings": by / root}
        if not self.rank:
            return log_normal("own", values, self.log_variance)
        value, bB = inverse_wishart(self.parts(values).B, strength, self.log_variance)
        return value, self.pullback(values, Adjoints(bB, [bB], B=bB))

    def names(self, labels: tuple[Hashable, ...]) -> dict[str, list[str]]:
        """The loadings by task and function, the variances by task."""
        own = [f"own variance of task {t!r}" for t in labels] if self.diagonal == "free" else ["own variance of tasks"]
        return {"loadings": [f"loading {p} of task {t!r}" for t in labels for p in range(self.rank)], "own": own}


@stored("multitask-uniform")
@dataclass(frozen=True)
class Uniform(Form):
    """K^f = a 11' + b I: all tasks equally related (Evgeniou et al.'s); zero for one that shares nothing."""

    M: int
    strength: float | None
    log_variance: float = 0.0
    members: tuple[int, ...] | None = None  # the tasks that share, ascending; None: all

    rank = 1
    scored = "uniform"

    def parts(self, values: Values) -> Parts:
        """sqrt(a) on one function, b of its own."""
        a, b = np.exp(values["uniform"])
        here = self._here()
        R, own = np.sqrt(a) * here[:, None], b * here
        return Parts(R @ R.T + np.diag(own), R, own)

    def pullback(self, values: Values, adjoints: Adjoints) -> Values:
        """Derivatives of the evidence by log a and log b."""
        a, b = np.exp(values["uniform"])
        here = self._here()
        bR = by_factor(adjoints, np.sqrt(a) * here[:, None])
        return {"uniform": np.array([0.5 * np.sqrt(a) * (here @ bR[:, 0]), b * (here @ by_diagonal(adjoints))])}

    def changes(self, values: Values) -> Array:
        """Derivatives of K^f by log a and log b."""
        a, b = np.exp(values["uniform"])
        here = self._here()
        return np.stack([a * np.multiply.outer(here, here), np.diag(b * here)])

    def curvature(self, values: Values, strength: float) -> Array:
        """Minus the second derivatives of the prior: those of log-normal variances."""
        return np.eye(2) / VARIANCE_SD**2

    def _here(self) -> Array:
        """1 for a task that shares, 0 for another."""
        return np.ones(self.M) if self.members is None else np.isin(np.arange(self.M), self.members).astype(float)

    def start(self, C: Array) -> Values:
        """The mean correlation, and the rest."""
        a = (C.sum() - np.trace(C)) / max(self.M * (self.M - 1), 1)
        a = float(np.clip(a, LEAST_OWN, 1.0 - LEAST_OWN))
        return {"uniform": self.log_variance + np.log([a, 1.0 - a])}

    def prior_of_strength(self, values: Values, strength: float) -> tuple[float, Values]:
        """The prior of a and b: log-normal variances."""
        return log_normal("uniform", values, self.log_variance)

    def names(self, labels: tuple[Hashable, ...]) -> dict[str, list[str]]:
        """What a and b are called."""
        return {"uniform": ["variance a that all tasks share", "variance b of each task's own"]}


@stored("multitask-features")
@dataclass(frozen=True)
class Features(Form):
    """K^f[t, t'] = k^f(features of t, features of t')."""

    features: Array  # (M, p)
    kernel: Kernel
    scales: Array
    strength: float | None
    log_variance: float = 0.0

    rank = None

    def parts(self, values: Values) -> Parts:
        """k^f at the features."""
        return Parts(self.kernel.with_theta(values["task_kernel"])(self.features))

    def pullback(self, values: Values, adjoints: Adjoints) -> Values:
        """Through the kernel; the low-rank path hands back the adjoint of the factor of K^f."""
        K, back = self.kernel.with_theta(values["task_kernel"]).evaluate(self.features)
        bB = adjoints.B
        if bB is None:
            assert adjoints.weights is not None  # a path gives one or the other
            bB = linalg.cholesky_pullback(linalg.cholesky_jittered(K)[0], adjoints.weights)
        return {"task_kernel": back(0.5 * (bB + bB.T)).theta}

    def growth(self, values: Values) -> Values:
        """The variance of the kernel on features."""
        return {"task_kernel": self.kernel.mask_of("variance")}

    def start(self, C: Array) -> Values:
        """The kernel as it was given."""
        return {"task_kernel": self.kernel.theta}

    def prior_of_strength(self, values: Values, strength: float) -> tuple[float, Values]:
        """The weak prior of every kernel, on column scales of the features."""
        value, by = kernel_prior(self.kernel, self.scales, self.log_variance).log_density(values["task_kernel"])
        return value, {"task_kernel": by}

    def names(self, labels: tuple[Hashable, ...]) -> dict[str, list[str]]:
        """Parameters of the kernel on features."""
        return {"task_kernel": [f"{n} of the task kernel" for n in self.kernel.parameter_names()]}


@dataclass(frozen=True)
class FormPrior:
    """The prior of the parameters of a form that has scoring steps, as a prior on a parameter vector."""

    form: Form
    strength: float
    name: str

    def log_density(self, value: Array) -> tuple[float, Array]:
        """Up to a constant, with its derivative."""
        total, by = self.form.prior_of_strength({self.name: value}, self.strength)
        return total, by[self.name]

    def curvature(self, value: Array) -> Array:
        """About minus its second derivatives."""
        return self.form.curvature({self.name: value}, self.strength)


@stored("multitask-given")
@dataclass(frozen=True)
class Given(Form):
    """K^f as it was given, not learnt."""

    B: Array

    rank = strength = None

    def parts(self, values: Values) -> Parts:
        """The matrix, and its root for the low-rank path."""
        e, U = linalg.symmetric_eigen(self.B)
        keep = e > 1e-12 * max(float(e[-1]), 0.0)
        return Parts(self.B, R=U[:, keep] * np.sqrt(e[keep]))
