"""Hierarchical GP: mean and covariance function of all tasks learnt by EM.

K. Yu, V. Tresp, A. Schwaighofer: Learning Gaussian processes from multiple tasks. ICML 2005.

Every function is carried by a vector theta, f(x) = phi(x)'theta, and theta_l ~ N(mu, K) for task l. K and mu have a
normal-inverse-Wishart prior around the base kernel k. What theta is, is the `Basis`:

- Models 2 and 3 in function space: theta = f on the labelled inputs Z, phi(x) = k(x, Z) kappa^-1, kappa = k(Z, Z);
- the same where kappa is singular to rounding: its eigenvectors, theta ~ N(0, I);
- Model 1, primal: theta = weights of the columns, for a linear kernel with fewer columns than inputs.

| symbol                     | name here            | shape                                               |
|----------------------------|----------------------|-----------------------------------------------------|
| kappa                      | `Basis.prior`        | (p, p); I where theta are weights                   |
| mu_f = kappa mu_alpha      | `State.mu`           | (p,)                                                |
| K = kappa C_alpha kappa    | `State.K`            | (p, p)                                              |
| sigma^2                    | `State.noise`        | one for all tasks, in units of scaled targets       |
| f^l = kappa alpha^l        | `mu + Moments.D`     | (p, M), posterior means                             |
| pi, tau                    | `Strengths`          | equivalent numbers of tasks                         |
| m                          | `Problem.m`          | tasks that have a label                             |
| Phi_l                      | `Group`              | rows of task l; tasks with equal rows are one group |

| equation | function |
|---|---|
| (4), (10) | `log_hyper_prior` |
| (5), (6) | `expect`, with a primal basis |
| (12), (13) | `expect`, in function space: f^l = mu + G'(y - mu_l), C_l = K - K_:l G |
| (7), (14) | `maximise` |
| (8), (15) | `maximise` |
| (9), (16) | `maximise` |
| (17) | `coefficients` |
| (18) | `learned_root` |
| (19) | `learned_kernel` |

Deviations, each with its reason:
- (12)-(16) are printed for alpha = kappa^-1 f. In f the same iterates need no inverse of kappa and n_l x n_l systems
  instead of n x n ones: kappa C_alpha kappa = K (Theorem 5.2). An iteration costs sum_l n_l^3 + n^3.
- Unlabelled inputs (Model 2) do not enter the iterations: started from kappa, what they add to theta keeps its base
  distribution given f on the labelled ones (Theorem 5.3). They are added when K is asked for (`extended`).
- Away from Z the variance of f is that of Model 2 with x added: (18) plus k(x, x) - phi(x)'kappa phi(x). (19) is kept
  for the kernel that is exported; it is the paper's own, "rather empirical".
- Rows that repeat an input are one with noise sigma^2 / count, their scatter kept in the evidence.
- The noise may have a prior of `noise_rows` rows at `noise_level` (16): without it the estimate collapses, 0.1 to 0.006
  in twenty iterations on the paper's text data, and the learnt covariance overfits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from borrow.data.cells import Cells, Codes
from borrow.kernels import LearnedKernel
from borrow.models.hierarchical.basis import Basis, function_basis
from borrow.models.hierarchical.device import bundle
from borrow.numerics.linalg import (
    Array,
    add_diagonal,
    as_type_of,
    cholesky,
    column_dots,
    copy,
    diagonal,
    inner,
    inverse_from_factor,
    is_tensor,
    log_determinant,
    solve,
    solve_lower,
    to_host,
    weigh_rows,
)
from borrow.numerics.optimise import NOISE_FLOOR

Answer = tuple[Array, Array]  # means and variances


@dataclass(frozen=True)
class Group:
    """Tasks that see the same rows: one factor serves them all."""

    tasks: Codes
    rows: Any  # positions in Z where theta is f, else None
    Phi: Array | None  # (n_l, p), where it is not
    count: Array
    Y: Array  # (n_l, tasks)

    @property
    def n_cells(self) -> int:
        """Cells of all the group's tasks."""
        return self.Y.size

    def sites(self, noise: float) -> Array:
        """Noise variance of every row."""
        return noise / self.count

    def targets(self, mu: Array) -> Array:
        """y - mu_l, one column a task."""
        return self.Y - self.of(mu)[:, None]

    def of(self, v: Array) -> Array:
        """Phi_l v for a vector or the columns of a matrix."""
        return v[self.rows] if self.Phi is None else self.Phi @ v

    def within(self, K: Array) -> Array:
        """Phi_l K Phi_l', a fresh array."""
        if self.Phi is None:
            return K[np.ix_(self.rows, self.rows)]
        S = self.Phi @ K @ self.Phi.T
        return 0.5 * (S + S.T)

    def add(self, V: Array, a: Array) -> None:
        """Phi_l'a into the columns of the group's tasks."""
        if self.Phi is None:
            V[np.ix_(self.rows, self.tasks)] = a
        else:
            V[:, self.tasks] = self.Phi.T @ a

    def add_square(self, B: Array, S: Array) -> None:
        """B + Phi_l'S Phi_l, in place."""
        if self.Phi is None:
            B[np.ix_(self.rows, self.rows)] += S
        else:
            B += self.Phi.T @ S @ self.Phi


@dataclass(frozen=True)
class Problem:
    """All tasks on a basis; dof, scatter and log_constant are what merged rows add to the evidence."""

    basis: Basis
    groups: list[Group]
    n_tasks: int
    dof: float
    scatter: float
    log_constant: float
    bundles: list[Any] | None = None  # the groups on a device, several as one (`hierarchical_device`)
    spread: Any = None  # the groups on workers, while a fit has any

    @property
    def m(self) -> int:
        """Tasks that have a label."""
        return sum(len(g.tasks) for g in self.groups)

    @property
    def n_rows(self) -> float:
        """Rows of all tasks."""
        return sum(g.Y.size for g in self.groups) + self.dof


def arrange(basis: Basis, cells: Cells, kept: Any = None) -> Problem:
    """Group the tasks by rows; with `kept`, a mask, only of those cells."""
    keys: dict[bytes, list[int]] = {}
    position, kept = cells.X[:, 0].astype(np.intp), np.ones(len(cells.y), bool) if kept is None else kept
    own = {}
    for t in range(len(cells.starts) - 1):
        at = np.arange(cells.starts[t], cells.starts[t + 1])
        at = at[kept[at]]
        if len(at):
            own[t] = at
            keys.setdefault(position[at].tobytes() + cells.count[at].tobytes(), []).append(t)
    dof, scatter, log_constant = float(cells.dof.sum()), float(cells.scatter.sum()), float(cells.log_count.sum())
    groups = []
    for tasks in keys.values():
        at = own[tasks[0]]
        Y, count = np.column_stack([cells.y[own[t]] for t in tasks]), cells.count[at]
        if basis.Phi is None:
            groups.append(Group(np.array(tasks), position[at], None, count, Y))
            continue
        # Rows of unit noise; where they outnumber theta, their orthogonal complement is noise alone.
        root = np.sqrt(count)[:, None]
        Phi, Y = root * to_host(basis.Phi[position[at]]), root * Y
        log_constant += 0.5 * float(np.log(count).sum()) * len(tasks)
        if len(Phi) > Phi.shape[1]:
            Q, R = np.linalg.qr(Phi)
            inside = Q.T @ Y
            dof += (len(Phi) - len(R)) * len(tasks)
            scatter += float(np.sum((Y - Q @ inside) ** 2))
            Phi, Y = R, inside
        groups.append(Group(np.array(tasks), None, Phi, np.ones(len(Phi)), Y))
    bundles = bundle(groups, basis.prior) if is_tensor(basis.prior) else None
    return Problem(basis, groups, len(cells.starts) - 1, dof, scatter, log_constant, bundles)


@dataclass(frozen=True)
class Strengths:
    """Of the priors: pi and tau in tasks, the noise's in rows around a level (0 rows: none)."""

    pi: float = 1.0
    tau: float = 1.0
    noise_rows: float = 0.0
    noise_level: float = 0.1
    learn_noise: bool = True


@dataclass(frozen=True)
class State:
    """What EM learns."""

    mu: Array
    K: Array
    noise: float


@dataclass(frozen=True)
class Moments:
    """What EM needs of the posteriors."""

    D: Array  # (p, M): posterior means less mu
    gain: Array  # sum_l (K - C_l)
    residual: float  # sum of squares of (9), (16)
    evidence: float
    held: list[Answer] = field(default_factory=list)  # at held-out inputs
    sums: tuple[Array, Array] | None = None  # D D' and D 1, where D itself stayed with workers


def start(basis: Basis, noise: float) -> State:
    """K = kappa, mu = 0."""
    return State(0.0 * diagonal(basis.prior), copy(basis.prior), noise)


def expect(state: State, problem: Problem, moments: bool = True, held: list[Codes] | None = None) -> Moments:
    """The posterior of every task: (5), (6) with a primal basis, (12), (13) in function space.

    Per group A = Phi_l K Phi_l' + sigma^2/count; f^l - mu = K Phi_l'A^-1(y - mu_l), C_l = K - K Phi_l'A^-1 Phi_l K. Of
    each group only A^-1 is needed: with B = sum_l Phi_l'A^-1 Phi_l the sum of C_l is m K - K B K, two products for all
    tasks together. `held` are positions, one array a group, where means and variances are wanted.
    """
    if problem.spread is not None:
        from borrow.models.hierarchical.spread import expect_spread

        return expect_spread(state, problem, moments, held)
    B, V, residual, evidence, factors = group_sums(state, problem, moments, held is not None)
    D = state.K @ V
    total = state.K @ B @ state.K if moments else B
    probes = []
    if held is not None:
        for i, (g, positions) in enumerate(zip(problem.groups, held, strict=True)):
            probes.append(probe(problem.basis, state, g, factors[i], D[:, g.tasks], positions))
    return Moments(D, total, residual, evidence, probes)


def group_sums(
    state: State, problem: Problem, moments: bool, keep: bool
) -> tuple[Array, Array, float, float, dict[int, Array]]:
    """B and V of `expect`, whose columns are Phi_l'A^-1 (y - mu_l); residual, evidence; the factors if asked to."""
    mu, K, noise = state.mu, state.K, state.noise
    p = len(mu)
    B, V = as_type_of(K, np.zeros((p, p))), as_type_of(K, np.zeros((p, problem.n_tasks)))
    residual, evidence, factors = problem.scatter, 0.0, dict[int, Array]()
    parts: list[Any] = problem.groups if problem.bundles is None else problem.bundles
    for g in parts:
        tasks = g.Y.shape[-1]
        sites = g.sites(noise)
        A = g.within(K)
        add_diagonal(A, sites)
        L = cholesky(A, overwrite=True)
        inverse = inverse_from_factor(L)
        target = g.targets(mu)
        a = inverse @ target
        # y - f^l = sites a, and the variance of f^l there is sites - sites^2 diag A^-1
        variance = sites - sites**2 * diagonal(inverse)
        weighted = weigh_rows(g.count, (sites[..., None] * a) ** 2)
        residual += float(weighted.sum()) + tasks * float((g.count * variance).sum())
        evidence -= 0.5 * (float((a * target).sum()) + tasks * log_determinant(L) + g.n_cells * np.log(2 * np.pi))
        g.add(V, a)
        if moments:
            g.add_square(B, tasks * inverse)
        if keep:
            factors |= g.each(L) if problem.bundles is not None else {len(factors): L}
    evidence += problem.log_constant - 0.5 * (problem.dof * np.log(2 * np.pi * noise) + problem.scatter / noise)
    return B, V, residual, float(evidence), factors


def probe(basis: Basis, state: State, g: Group, L: Array, D: Array, positions: Codes) -> Answer:
    """Posterior means and variances of a group's functions at labelled inputs that it did not see."""
    if basis.Phi is None:
        mean, part = (state.mu[:, None] + D)[positions], state.K[np.ix_(g.rows, positions)]
        total = diagonal(state.K)[positions]
    else:
        Phi = basis.Phi[positions]
        mean, KPhi = Phi @ (state.mu[:, None] + D), state.K @ Phi.T
        part, total = as_type_of(KPhi, g.Phi) @ KPhi, column_dots(Phi.T, KPhi)
    part = solve_lower(L, part)
    return to_host(mean), to_host((total - column_dots(part, part)).clip(0.0))


def maximise(state: State, moments: Moments, problem: Problem, strengths: Strengths) -> State:
    """mu (7), (14); K (8), (15); the noise (9), (16), with its prior where it has one."""
    m, pi, tau, prior = problem.m, strengths.pi, strengths.tau, problem.basis.prior
    D = moments.D[:, np.concatenate([g.tasks for g in problem.groups])] if moments.sums is None else moments.D
    sum_of_D = D.sum(axis=1) if moments.sums is None else moments.sums[1]
    mu = (m * state.mu + sum_of_D) / (pi + m) if np.isfinite(pi) else 0.0 * state.mu
    shift = state.mu - mu
    if moments.sums is None:
        deviation = D + shift[:, None]
        K = deviation @ deviation.T
    else:
        crossed = np.multiply.outer(sum_of_D, shift)
        K = moments.sums[0] + crossed + crossed.T + m * np.multiply.outer(shift, shift)
    K -= 0.5 * (moments.gain + moments.gain.T)
    K += m * state.K
    K += tau * prior
    if np.isfinite(pi):
        K += pi * mu[:, None] * mu
    K /= tau + m
    noise = state.noise
    if strengths.learn_noise:
        rows = strengths.noise_rows
        noise = (moments.residual + rows * strengths.noise_level) / (problem.n_rows + rows)
    return State(mu, K, max(float(noise), NOISE_FLOOR))


def log_hyper_prior(state: State, basis: Basis, strengths: Strengths) -> float:
    """Of (4), (10), up to a constant; zero at K = kappa, mu = 0, so that inputs without labels change nothing.

    -tau/2 (log |K| - log |kappa| + tr kappa K^-1 - p) - pi/2 mu'K^-1 mu: the degrees of freedom are counted so that
    its maximum given the functions is (8) and (15) as printed.
    """
    L = cholesky(state.K)
    value = -0.5 * strengths.noise_rows * (np.log(state.noise) + strengths.noise_level / state.noise)
    spread = solve_lower(L, basis.factor)
    drift = log_determinant(L) - log_determinant(basis.factor) + float(inner(spread, spread)) - len(L)
    value -= 0.5 * strengths.tau * drift
    if np.isfinite(strengths.pi):
        whitened = solve_lower(L, state.mu)
        value -= 0.5 * strengths.pi * float(whitened @ whitened)
    return float(value)


def stretch(old: State, new: State, factor: float) -> State:
    """`factor` steps along from old to new; the noise on its logarithm."""
    noise = old.noise * (new.noise / old.noise) ** factor
    return State(old.mu + factor * (new.mu - old.mu), old.K + factor * (new.K - old.K), max(noise, NOISE_FLOOR))


def coefficients(basis: Basis, theta: Array) -> Array:
    """alpha of f(x) = sum_i alpha_i k(z_i, x) (17)."""
    return solve(basis.factor, theta) if basis.W is None else basis.W @ theta


def learned_root(basis: Basis, K: Array) -> Array:
    """R with R R' = C_alpha, so that (18) is k(x, Z) R R' k(Z, x')."""
    return np.asarray(coefficients(basis, cholesky(K)))


def learned_kernel(basis: Basis, K: Array, m: int, tau: float) -> LearnedKernel:
    """(19): what was learnt and the base kernel, weighted by their equivalent sample sizes m and tau."""
    learnt = m / (tau + m) if np.isfinite(tau) else 0.0
    return LearnedKernel(
        base=basis.kernel, Z=basis.Z, root=learned_root(basis, K), raw_weight=learnt, base_weight=1.0 - learnt
    )


def prior_at(basis: Basis, K: Array, X: Any, full: bool) -> tuple[Array, Array]:
    """phi(x), and the variances (or covariance) of f there before its task is seen."""
    Phi = basis.phi(X)
    if full:
        return Phi, Phi @ (K - basis.prior) @ Phi.T + basis.kernel(X)
    return Phi, np.einsum("ij,ij->i", Phi @ (K - basis.prior), Phi) + basis.kernel.diag(X)


def posterior_at(problem: Problem, state: State, task: int, X: Any, full: bool) -> Array:
    """Variances (or covariance) of a task's function at new inputs."""
    Phi, prior = prior_at(problem.basis, state.K, X, full)
    for g in problem.groups:
        if task in g.tasks:
            A = g.within(state.K)
            A.flat[:: len(A) + 1] += state.noise / g.count
            part = solve_lower(cholesky(A), g.of(state.K @ Phi.T))
            prior = prior - (part.T @ part if full else np.einsum("ij,ij->j", part, part))
    return prior if full else np.maximum(prior, 0.0)


def extended(basis: Basis, state: State, X: Any, n_labelled: int) -> tuple[Basis, State]:
    """Model 2: theta is f at the unlabelled inputs as well (Theorem 5.3); nothing changes at the others."""
    if X.shape[0] == n_labelled or basis.Phi is not None:
        return basis, state
    wider = function_basis(basis.kernel, X)
    if wider.Phi is not None:
        return basis, state  # the new inputs add nothing that the labelled ones do not determine
    Phi, K = prior_at(basis, state.K, X, full=True)
    return wider, replace(state, mu=Phi @ state.mu, K=0.5 * (K + K.T))
