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
| f^l = kappa alpha^l        | `functions`          | (p, M), posterior means                             |
| pi, tau                    | `Strengths`          | equivalent numbers of tasks                         |
| m                          | `Problem.m`          | tasks that have a label                             |
| Phi_l                      | `Group.seen`         | rows of task l; tasks with equal rows are one group |

| equation | function |
|---|---|
| (4), (10) | `log_hyper_prior` |
| (5), (6) | `expect`, with a primal basis |
| (12), (13) | `expect`, in function space: f^l = mu + G'(y - mu_l), C_l = K - K_:l G |
| (12) | `functions` |
| (7), (14) | `maximise` |
| (8), (15) | `maximise` |
| (9), (16) | `maximise` |
| (17) | `coefficients` |
| (18), (19) | `learned_kernel` |

The E-step is a sum over the tasks, wherever they lie. With A_l = Phi_l K Phi_l' + sigma^2/count and the columns
V_l = Phi_l'A_l^-1 (y^l - Phi_l mu) it needs of the tasks only S = sum_l (V_l V_l' - Phi_l'A_l^-1 Phi_l), (p, p), and
v = sum_l V_l, (p,): f^l = mu + K V_l and C_l = K - K Phi_l'A_l^-1 Phi_l K, so that

    sum_l (f^l - mu) = K v,    sum_l (C_l + (f^l - mu)(f^l - mu)') = m K + K S K.

mu, K and the noise travel to the tasks; their own columns V_l come back when EM has ended (`functions`).

Where theta is f and tasks hardly see each other's inputs, S is mostly zero. Then the tasks send what it is made of, a
`ScatterRoot`: with A_l = L_l L_l', K S K = U'U - W'W, U the rows V_l'K, W the rows L_l^-1 Phi_l K: a fifth of the work.

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

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from borrow.data.cells import Cells, Codes
from borrow.kernels import LearnedKernel
from borrow.models.hierarchical.basis import (
    Basis,
    Group,
    GroupShard,
    at_positions,
    function_basis,
    in_groups,
)
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
    namespace,
    solve,
    solve_lower,
    sparse_product,
    to_host,
    weigh_rows,
)
from borrow.numerics.optimise import NOISE_FLOOR
from borrow.numerics.stored import stored
from borrow.tasks.cache import CacheKey
from borrow.tasks.contracts import Tasks

#: A mean that nothing holds is held by so many tasks: inputs that no row tells of have one then.
LEAST_PI = 1e-8
#: Rows of all groups, in units of the inputs, up to which S is not written out.
FEW_ROWS = 1.5
#: Where it is, a matrix with fewer entries than this share is multiplied as a sparse one.
SPARSE = 0.1
#: The least pi at which the mean is found from rows: below, rows that repeat an input are as good as singular.
ROWS_PI = 1e-3


@dataclass(frozen=True)
class Problem:
    """All tasks on a basis, wherever they lie."""

    basis: Basis
    tasks: Tasks[GroupShard]

    @property
    def cells(self) -> Cells:
        """The rows; the only column of X is the position of the input, and a count of 0 is of a row held out."""
        return self.tasks.cells

    @cached_property
    def seen_tasks(self) -> Codes:
        """Codes of the tasks that have a label."""
        return np.unique(self.cells.task[self.cells.count > 0])

    @property
    def m(self) -> int:
        """Number of tasks that have a label."""
        return len(self.seen_tasks)

    @cached_property
    def n_rows(self) -> float:
        """Number of rows of all tasks."""
        return float(np.sum(self.cells.count > 0) + self.cells.dof.sum())

    @cached_property
    def held(self) -> Codes:
        """Cells that are held out."""
        return np.flatnonzero(self.cells.count == 0)

    @cached_property
    def groups(self) -> list[Group]:
        """Tasks that see the same rows, on the host, where theta is f."""
        return in_groups(self.cells).groups

    @cached_property
    def by_rows(self) -> bool:
        """Whether S is sent as what it is made of: group by group, where theta is f and few rows are of one input."""
        if self.tasks.batched or self.basis.Phi is not None:
            return False
        return sum(len(g.count) for g in self.groups) <= FEW_ROWS * len(self.basis.prior)

    def holding_out(self, mask: Any) -> Problem:
        """The same tasks without some of their cells, which are to be predicted."""
        cells = replace(self.cells, count=np.where(mask, 0.0, self.cells.count))
        return Problem(self.basis, self.tasks.with_cells(cells))


def arrange(basis: Basis, tasks: Tasks[Any]) -> Problem:
    """The tasks on a basis, in groups, wherever they lie."""
    return Problem(basis.placed(tasks.put), tasks.with_cells(tasks.cells, partial(in_groups, Phi=basis.Phi)))


@stored("hierarchical-strengths")
@dataclass(frozen=True)
class Strengths:
    """Of the priors: pi and tau in tasks (infinite: no mean, K = kappa), the noise's in rows around a level (0: no)."""

    pi: float = 1.0
    tau: float = 1.0
    noise_rows: float = 0.0
    noise_level: float = 0.1
    learn_noise: bool = True
    exact_mean: bool = False  # the mean maximises the objective given K and the noise, instead of one step of EM's


@stored("hierarchical-state")
@dataclass(frozen=True)
class State:
    """What EM learns: the common mean, the covariance and the noise."""

    mu: Array
    K: Array
    noise: float


@dataclass(frozen=True)
class Moments:
    """What EM needs of the posteriors, summed over the tasks, and what they say of rows that are held out."""

    S: Any  # sum_l (V_l V_l' - Phi_l'A_l^-1 Phi_l), or a list of `ScatterRoot`; 0 where it was not asked for
    v: Any  # sum_l V_l
    residual: float  # sum of squares of (9), (16)
    evidence: float
    mean: Array  # of every cell that is held out, NaN where its task has no other
    variance: Array
    mean_square: float  # of the functions over tasks and labelled inputs, where rows are held out
    key: CacheKey  # under which the tasks keep their columns V_l


def start(basis: Basis, noise: float) -> State:
    """Where EM starts: K is the base kernel, and the mean is zero."""
    return State(0.0 * diagonal(basis.prior), copy(basis.prior), noise)


class ScatterRoot(NamedTuple):
    """What a group of tasks adds to S: at the inputs `at`, a a' - root'root."""

    at: Codes
    a: Array  # (n_l, tasks): A_l^-1 (y^l - Phi_l mu)
    root: Array  # L_l^-1, times the root of the number of tasks


def with_exact_mean(state: State, problem: Problem, strengths: Strengths) -> State:
    """The mean that maximises the objective given K and the noise, where `exact_mean` asks for it.

    With B = sum_l Phi_l'A_l^-1 Phi_l and v of the E-step at the mean mu, sum_l log N(y^l; Phi_l mu, A_l) - pi/2
    mu'K^-1 mu is largest where (B + pi K^-1) mu' = v + B mu, that is at mu' = K (pi I + B K)^-1 (v + B mu). A step of
    EM's own (7), (14) goes a part of the way, the smaller the less a task says of itself: with noisy labels it takes
    hundreds of steps for what this does at once (a conditional maximisation of the objective itself; C. Liu, D. Rubin:
    Biometrika 81, 633-648, 1994). Where rows are few, E their inputs, A their A_l side by side (of g tasks that see
    the same: A_l / g and the mean of their targets), it is K E'(E K E' + pi A)^-1 y.
    """
    if not (strengths.exact_mean and np.isfinite(strengths.pi)):
        return state
    K, pi = state.K, max(strengths.pi, LEAST_PI)
    if problem.by_rows and pi >= ROWS_PI:
        rows = [(g.seen.at, g.Y.mean(axis=1), g.count * len(g.tasks)) for g in problem.groups]
        at, y, weight = (np.concatenate(part) for part in zip(*rows, strict=True))
        A, ends = K[np.ix_(at, at)], np.cumsum([0, *(len(g.count) for g in problem.groups)])
        for g, i, j in zip(problem.groups, ends, ends[1:], strict=False):
            A[i:j, i:j] *= 1.0 + pi / len(g.tasks)
        add_diagonal(A, pi * state.noise / weight)
        return replace(state, mu=K[:, at] @ solve(cholesky(A, overwrite=True), y))
    moments = expect(state, problem, scatter=False)
    B = -moments.S
    few = not is_tensor(B) and np.count_nonzero(B) < SPARSE * B.size
    A = sparse_product(K, sparse.csr_array(B)) if few else B @ K
    add_diagonal(A, pi)
    return replace(state, mu=K @ namespace(A).linalg.solve(A, moments.v + B @ state.mu))


@dataclass(frozen=True)
class ExpectRequest:
    """What the tasks are asked given mu, K and the noise."""

    state: State
    key: CacheKey
    moments: bool  # S and v
    scatter: bool  # the V_l V_l' in S
    by_rows: bool  # S as a list of `ScatterRoot`
    held: bool  # predictions of the rows that are held out
    gram: Array | None  # Phi'Phi of all labelled inputs; None for the identity


def _posteriors(shard: GroupShard, question: ExpectRequest) -> tuple[Array, tuple[Any, ...]]:
    """The posteriors of a shard's tasks, as they were kept or made: their columns V_l, and what is summed over tasks.

    Equations (5), (6) with a primal basis, (12), (13) in function space.
    """
    if (kept := shard.cache.get("posteriors", question.key)) is not None:
        return kept
    M, known, noise = shard.cells.n_tasks, question.state, question.state.noise
    mu, K = map(shard.put, (known.mu, known.K))  # workers are told on the host
    p, state = len(mu), State(mu, K, noise)
    if is_tensor(K) and any(g.seen.unit for g in shard.groups):  # for padded rows
        mu, K = as_type_of(K, np.zeros(p + 1)), as_type_of(K, np.zeros((p + 1, p + 1)))
        mu[:p], K[:p, :p] = state.mu, state.K
    V = as_type_of(K, np.zeros((len(K), M)))
    dense, roots = question.moments and not question.by_rows, []
    S: Any = as_type_of(K, np.zeros((len(K), len(K)))) if dense else 0.0
    residual, evidence, variances = shard.scatter, shard.log_noise_density(noise)[0], []
    for g in shard.groups:
        tasks, sites, target = g.Y.shape[-1], g.sites(noise), g.Y - g.seen.times(mu)[..., None]
        A = g.seen.between(K, g.seen)
        add_diagonal(A, sites)
        L = cholesky(A, overwrite=True)
        inverse = inverse_from_factor(L)
        a = inverse @ target
        g.seen.add(V, g.tasks, a)  # eqs. 5, 12: f^l = mu + K V_l
        if question.by_rows and question.moments:
            roots.append(ScatterRoot(g.seen.at, a, np.sqrt(tasks) * solve_lower(L, np.eye(len(L)))))
        elif question.moments:
            g.seen.add_square(S, -tasks * inverse)  # eqs. 6, 13: C_l = K - K Phi_l'A_l^-1 Phi_l K
        # eqs. 9, 16: y - f^l = sites a, and the variance of f^l there is sites - sites^2 diag A^-1
        variance = sites - sites**2 * diagonal(inverse)
        weighted = weigh_rows(g.count, (sites[..., None] * a) ** 2)
        residual += float(weighted.sum()) + tasks * float((g.count * variance).sum())
        evidence -= 0.5 * (float((a * target).sum()) + tasks * log_determinant(L) + g.n_cells * np.log(2 * np.pi))
        if question.held:
            part = solve_lower(L, g.seen.between(K, g.held))
            variances.append((g.held.variances(K) - column_dots(part, part)).clip(0.0))
    if dense:
        if question.scatter:
            S += V @ V.T
        S = S[:p, :p]
    squares, predictions = 0.0, np.full((2, len(shard.cells.y)), np.nan)
    if question.held:
        gram, theta = None if question.gram is None else shard.put(question.gram), mu[:, None] + K @ V
        squares = sum_of_squares(gram, theta[:, np.unique(shard.cells.task[shard.cells.count > 0])])
        for g, variance in zip(shard.groups, variances, strict=True):
            real = g.held_cells >= 0
            at = g.held_cells[real]
            predictions[0, at] = to_host(g.held.of_tasks(theta, g.tasks))[real]
            predictions[1, at] = np.broadcast_to(to_host(variance)[..., None], real.shape)[real]
    V, S = V[:p], S if dense or not question.moments else roots
    sums = S, V.sum(axis=1), residual, float(evidence), [predictions], squares
    return shard.cache.keep("posteriors", question.key, (V, sums))


def _columns(shard: GroupShard, question: ExpectRequest) -> Array:
    return _posteriors(shard, question)[0]


def _sums(shard: GroupShard, question: ExpectRequest) -> tuple[Any, ...]:
    return _posteriors(shard, question)[1]


def sum_of_squares(gram: Array | None, theta: Array) -> float:
    """Of the functions over all labelled inputs: theta'Phi'Phi theta."""
    return float((theta * (theta if gram is None else gram @ theta)).sum())


def expect(state: State, problem: Problem, moments: bool = True, scatter: bool = True) -> Moments:
    """The posterior of every task: (5), (6) with a primal basis, (12), (13) in function space.

    Of each group of tasks only A^-1 is needed: the sums S and v serve all tasks together (see above). Rows that are
    held out are predicted where they lie.
    """
    held = problem.held if scatter else problem.held[:0]
    gram = problem.basis.gram if len(held) else None
    by_rows = problem.by_rows and scatter
    question = ExpectRequest(state, CacheKey(), moments, scatter, by_rows, len(held) > 0, gram)
    S, v, residual, evidence, predictions, squares = problem.tasks.total(_sums, question)
    mean, variance = np.concatenate(predictions, axis=1)[:, held]
    mean_square = squares / max(problem.m * problem.basis.n_inputs, 1)
    return Moments(S, v, residual, evidence, mean, variance, mean_square, question.key)


def functions(state: State, problem: Problem, moments: Moments) -> Array:
    """f^l of every task in columns (12), by what the tasks kept of the E-step."""
    V = problem.tasks.each(_columns, ExpectRequest(state, moments.key, False, False, False, False, None))
    return state.mu[:, None] + state.K @ namespace(V[0]).concatenate(V, axis=1)


def around(K: Array, S: Any) -> Array:
    """The product K S K, which is symmetric; S may be a list of what it is made of."""
    if isinstance(S, list):
        U, W = (
            np.concatenate([part @ K[at] for at, part in parts])
            for parts in ([(r.at, r.a.T) for r in S], [(r.at, r.root) for r in S])
        )
        return U.T @ U - W.T @ W
    product = K @ S @ K
    return 0.5 * (product + product.T)


def maximise(state: State, moments: Moments, problem: Problem, strengths: Strengths) -> State:
    """mu (7), (14); K (8), (15); the noise (9), (16), with its prior where it has one."""
    m, pi, tau = problem.m, strengths.pi, strengths.tau
    total = state.K @ moments.v  # sum_l (f^l - mu)
    mu = (m * state.mu + total) / (pi + m) if np.isfinite(pi) else 0.0 * state.mu  # eqs. 7, 14
    shift = state.mu - mu
    K = around(state.K, moments.S)  # eqs. 8, 15: sum_l (C_l + (f^l - mu)(f^l - mu)') around the new mu
    crossed = total[:, None] * shift
    K += crossed + crossed.T + m * shift[:, None] * shift
    K += m * state.K
    K += tau * problem.basis.prior
    if np.isfinite(pi):
        K += pi * mu[:, None] * mu
    K /= tau + m
    noise = state.noise
    if strengths.learn_noise:
        rows = strengths.noise_rows
        noise = (moments.residual + rows * strengths.noise_level) / (problem.n_rows + rows)  # eqs. 9, 16
    return with_exact_mean(State(mu, K, max(float(noise), NOISE_FLOOR)), problem, strengths)


def log_hyper_prior(state: State, basis: Basis, strengths: Strengths) -> float:
    """Of (4), (10), up to a constant; zero at K = kappa, mu = 0, so that inputs without labels change nothing.

    -tau/2 (log |K| - log |kappa| + tr kappa K^-1 - p) - pi/2 mu'K^-1 mu: the degrees of freedom are counted so that
    its maximum given the functions is (8) and (15) as printed.
    """
    L = cholesky(state.K)
    value = -0.5 * strengths.noise_rows * (np.log(state.noise) + strengths.noise_level / state.noise)
    ratio = solve_lower(L, basis.factor)  # tr kappa K^-1 is the sum of its squares
    drift = log_determinant(L) - log_determinant(basis.factor) + float(inner(ratio, ratio)) - len(L)
    value -= 0.5 * strengths.tau * drift  # eqs. 4, 10
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
    return solve(basis.factor, theta) if basis.W is None else basis.W @ theta  # eq. 17


def learned_kernel(basis: Basis, K: Array, m: int, tau: float) -> LearnedKernel:
    """(19): what was learnt and the base kernel, weighted by their equivalent sample sizes m and tau.

    With R R' = C_alpha, what was learnt, (18), is k(x, Z) R R' k(Z, x').
    """
    R = np.asarray(coefficients(basis, cholesky(K)))  # eq. 18
    learnt = m / (tau + m) if np.isfinite(tau) else 0.0  # eq. 19
    return LearnedKernel(base=basis.kernel, Z=basis.Z, root=R, raw_weight=learnt, base_weight=1.0 - learnt)


def prior_at(basis: Basis, K: Array, X: Any, full: bool) -> tuple[Array, Array]:
    """phi(x), and the variances (or covariance) of f there before its task is seen."""
    Phi = basis.phi(X)
    if full:
        return Phi, Phi @ (K - basis.prior) @ Phi.T + basis.kernel(X)
    return Phi, np.einsum("ij,ij->i", Phi @ (K - basis.prior), Phi) + basis.kernel.diag(X)


def explained(basis: Basis, cells: Cells, state: State, task: int, cross: Array) -> Array:
    """J, whose J'J is what the rows of a task take from the covariance of f where K phi' is `cross`, (p, k)."""
    groups = in_groups(cells.some([task]), Phi=basis.Phi).groups
    if not groups:  # the task has no row
        return np.zeros((0, cross.shape[1]))
    g = groups[0]
    A = g.seen.between(state.K, g.seen)
    add_diagonal(A, g.sites(state.noise))
    return solve_lower(cholesky(A, overwrite=True), g.seen.times(cross))


def posterior_at(basis: Basis, cells: Cells, state: State, task: int, X: Any, full: bool) -> Array:
    """Variances (or covariance) of a task's function at new inputs."""
    Phi, prior = prior_at(basis, state.K, X, full)
    J = explained(basis, cells, state, task, state.K @ Phi.T)
    return prior - J.T @ J if full else np.maximum(prior - column_dots(J, J), 0.0)


def marginals(basis: Basis, cells: Cells, state: State, theta: Array) -> tuple[Array, Array]:
    """Posterior mean and variance of f at every cell."""
    mean, variance = np.empty(len(cells.y)), np.empty(len(cells.y))
    for t in np.unique(cells.task):
        at = cells.of(int(t))
        phi = at_positions(cells.X[at, 0].astype(np.intp), basis.Phi)
        J = explained(basis, cells, state, int(t), phi.times(state.K).T)
        mean[at] = phi.times(theta[:, t])
        variance[at] = np.maximum(phi.variances(state.K) - column_dots(J, J), 0.0)
    return mean, variance


def extended(basis: Basis, state: State, X: Any, n_labelled: int) -> tuple[Basis, State]:
    """Model 2: theta is f at the unlabelled inputs as well (Theorem 5.3); nothing changes at the others."""
    if X.shape[0] == n_labelled or basis.Phi is not None:
        return basis, state
    wider = function_basis(basis.kernel, X)
    if wider.Phi is not None:
        return basis, state  # the new inputs add nothing that the labelled ones do not determine
    Phi, K = prior_at(basis, state.K, X, full=True)
    return wider, replace(state, mu=Phi @ state.mu, K=0.5 * (K + K.T))
