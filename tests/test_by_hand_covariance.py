"""Every covariance of tasks against one matrix of all pairs that is written out from its formula, and what follows."""

import pickle
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from borrow.covariance import Basis, CompleteTasks, DenseTasks, Design, LowRankTasks, SharedCovariance, Sites
from borrow.covariance.dense import evidence_of_rows
from borrow.covariance.inducing import InducingBasis, choose_inducing, marginal_variances, spread_inducing, unit_noise
from borrow.covariance.layout import LEAST, MOST_ENTRIES, PADDED, STRETCH, alike
from borrow.data.cells import merge
from borrow.kernels import Constant, Matern, SquaredExponential
from borrow.tasks.placed import PlacedTasks
from borrow.tasks.workers import InProcess
from oracles import central_difference

RNG = np.random.default_rng(7)
NEW, NEW_TASK = RNG.normal(size=(5, 2)), np.array([1, 0, 2, 1, 2])


def cells_of(complete):
    """Rows of three tasks that share inputs: all of them, or a part."""
    inputs, rng = np.random.default_rng(1).normal(size=(5, 2)), np.random.default_rng(2)
    task, index = np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3)
    keep = slice(None) if complete else [0, 1, 2, 5, 6, 8, 9, 12, 13, 14]
    task, index = task[keep], index[keep]
    count = np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 2.0, 1.0, 4.0]).ravel()[keep]
    return merge(inputs[index], task, rng.normal(size=len(task)), np.ones(len(task)), count, 3)


def nystrom(kernel, Z, X):
    """Covariance through the inducing inputs, what each row has beyond it, and both together at X."""
    root = np.linalg.solve(np.linalg.cholesky(kernel(Z)), kernel(Z, X))
    return root.T @ root, kernel.diag(X) - (root**2).sum(axis=0)


@dataclass
class Form:
    """How to build a covariance of a vector of parameters, its matrix at rows, and the gradient of the evidence."""

    build: object
    matrix: object
    gradient: object
    start: np.ndarray
    complete: bool = False


KERNEL = SquaredExponential(1.3, (0.8, 1.4))
OWN = (Matern(0.5, 1.0), None, Constant(0.4))
Z = np.array([[0.3, 0.1], [-0.8, 0.5], [1.0, -1.0], [0.2, 1.1]])
Z2 = np.array([[0.0, 0.0], [1.0, 0.6]])
ROOT = np.array([[0.9, 0.0, 0.0], [0.3, 0.7, 0.0], [-0.5, 0.2, 0.6]])
LOW = np.tril_indices(3)


def task_matrix(x):
    L = np.zeros((3, 3))
    L[LOW] = x
    return L @ L.T


def by_root(bB, x):
    L = np.zeros((3, 3))
    L[LOW] = x
    return ((bB + bB.T) @ L)[LOW]


def dense_matrix(x, X, task, own):
    B, kernel = task_matrix(x[3:9]), KERNEL.with_theta(x[:3])
    K = B[np.ix_(task, task)] * kernel(X)
    if own:
        same = task[:, None] == task
        K = K + x[9] * same
        for t, k in enumerate(OWN):
            at = task == t
            if k is not None:
                K[np.ix_(at, at)] += k.with_theta(x[10:12] if t == 0 else x[12:13])(X[at])
    return K


def dense(design, x, own):
    kernels = [OWN[0].with_theta(x[10:12]), None, OWN[2].with_theta(x[12:13])] if own else []
    return DenseTasks(design, KERNEL.with_theta(x[:3]), task_matrix(x[3:9]), float(x[9]) if own else 0.0, kernels)


def dense_gradient(a, x, own):
    found = [*a.bases[0], *by_root(a.B, x[3:9])]
    return [*found, a.intercept, *a.specific[0], *a.specific[2]] if own else found


def low_rank(cells, x, place=PlacedTasks):
    return LowRankTasks(place(cells), KERNEL.with_theta(x[:3]), Z, x[3:9].reshape(3, 2), float(x[9]))


def low_rank_matrix(x, X, task):
    kernel, R = KERNEL.with_theta(x[:3]), x[3:9].reshape(3, 2)
    Q, residual = nystrom(kernel, Z, X)
    B = R @ R.T
    return B[np.ix_(task, task)] * Q + np.diag(np.diagonal(B)[task] * residual) + x[9] * (task[:, None] == task)


def shared_matrix(x, X, task):
    first, second, W = KERNEL.with_theta(x[:3]), Matern(0.7, 0.9).with_theta(x[3:5]), x[5:14].reshape(3, 3)
    own = [OWN[0].with_theta(x[14:16]), None, OWN[2].with_theta(x[16:17])]
    K = np.zeros((len(X), len(X)))
    for q, (kernel, inducing) in enumerate([(first, Z), (second, Z2), (second, Z2)]):
        Q, residual = nystrom(kernel, inducing, X)
        w = W[task, q]
        K += np.outer(w, w) * Q + np.diag(w**2 * residual)
    for t, k in enumerate(own):
        at = task == t
        if k is not None:
            K[np.ix_(at, at)] += k(X[at])
    return K


def apart(cells):
    """The tasks as they are after a fit on workers: each by itself."""
    return pickle.loads(pickle.dumps(PlacedTasks(cells, InProcess())))


def shared(cells, x, place=PlacedTasks):
    bases = [Basis(KERNEL.with_theta(x[:3]), Z), Basis(Matern(0.7, 0.9).with_theta(x[3:5]), Z2)]
    own = [OWN[0].with_theta(x[14:16]), None, OWN[2].with_theta(x[16:17])]
    return SharedCovariance(place(cells), bases, [0, 1, 1], x[5:14].reshape(3, 3), own)


FORMS = {
    "dense": Form(
        lambda cells, x: dense(Design.from_cells(cells), x, False),
        lambda x, X, task: dense_matrix(x, X, task, False),
        lambda a, x: dense_gradient(a, x, False),
        np.array([*KERNEL.theta, *ROOT[LOW]]),
    ),
    "dense, own parts": Form(
        lambda cells, x: dense(Design.from_cells(cells), x, True),
        lambda x, X, task: dense_matrix(x, X, task, True),
        lambda a, x: dense_gradient(a, x, True),
        np.array([*KERNEL.theta, *ROOT[LOW], 0.3, *OWN[0].theta, *OWN[2].theta]),
    ),
    "complete": Form(
        lambda cells, x: CompleteTasks(Design.from_cells(cells), KERNEL.with_theta(x[:3]), task_matrix(x[3:9])),
        lambda x, X, task: dense_matrix(x, X, task, False),
        lambda a, x: dense_gradient(a, x, False),
        np.array([*KERNEL.theta, *ROOT[LOW]]),
        complete=True,
    ),
    "low rank": Form(
        low_rank,
        low_rank_matrix,
        lambda a, x: [*a.bases[0], *a.weights.ravel(), a.intercept],
        np.array([*KERNEL.theta, 0.9, 0.1, -0.4, 0.7, 0.5, -1.1, 0.3]),
    ),
    "shared": Form(
        shared,
        shared_matrix,
        lambda a, x: [*a.bases[0], *a.bases[1], *a.weights.ravel(), *a.specific[0], *a.specific[2]],
        np.array([*KERNEL.theta, *Matern(0.7, 0.9).theta, 0.9, 0.1, -0.4, 0.7, 0.5, -1.1, 0.3, 0.2, 0.6,
                  *OWN[0].theta, *OWN[2].theta]),
    ),
}  # fmt: skip


for name, build in (("low rank", low_rank), ("shared", shared)):
    FORMS[f"{name}, tasks apart"] = replace(FORMS[name], build=partial(build, place=apart))


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


@pytest.fixture
def at(form):
    """The rows, their precisions, the posterior, and the matrix of all rows and new ones."""
    cells = cells_of(form.complete)
    noise = np.array([0.3, 0.7, 0.2])
    tau = cells.count / noise[cells.task]
    K = form.matrix(form.start, np.vstack([cells.X, NEW]), np.concatenate([cells.task, NEW_TASK]))
    return cells, tau, form.build(cells, form.start).condition(Sites(tau * cells.y, tau)), K


def evidence(K, s, w):
    return float(multivariate_normal(np.zeros(len(s)), np.eye(len(s)) + w[:, None] * K * w).logpdf(s))


def test_evidence_and_determinant_are_those_of_the_matrix(at):
    cells, tau, posterior, K = at
    n, w = len(tau), np.sqrt(tau)
    assert posterior.evidence == pytest.approx(evidence(K[:n, :n], w * cells.y, w), rel=1e-10)
    A = np.eye(n) + w[:, None] * K[:n, :n] * w
    assert posterior.log_determinant == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-10)


def test_predictions_and_marginals_are_those_of_the_matrix(at):
    cells, tau, posterior, K = at
    n = len(tau)
    gain = K[:, :n] @ np.linalg.inv(K[:n, :n] + np.diag(1.0 / tau))
    mean, cov = gain @ cells.y, K - gain @ K[:n]
    found = posterior.predict(NEW, NEW_TASK, full=True)
    np.testing.assert_allclose(found.mean, mean[n:], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.covariance, cov[n:, n:], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.variance, np.diagonal(cov)[n:], rtol=1e-9)
    plain = posterior.predict(NEW, NEW_TASK)
    np.testing.assert_allclose(plain.mean, mean[n:], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plain.variance, np.diagonal(cov)[n:], rtol=1e-9)
    assert plain.covariance is None
    one = posterior.predict(NEW[2:3], NEW_TASK[2:3])
    np.testing.assert_allclose([one.mean[0], one.variance[0]], [mean[n + 2], cov[n + 2, n + 2]], rtol=1e-9)
    m = posterior.marginals()
    np.testing.assert_allclose(m.mean, mean[:n], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(m.variance, np.diagonal(cov)[:n], rtol=1e-8)


def test_adjoints_are_differences_of_the_evidence_of_the_matrix(form, at):
    cells, tau, posterior, _ = at
    w = np.sqrt(tau)

    def f(x):
        return evidence(form.matrix(x, cells.X, cells.task), w * cells.y, w)

    adjoints = posterior.adjoints()
    np.testing.assert_allclose(
        form.gradient(adjoints, form.start), central_difference(f, form.start), rtol=2e-5, atol=1e-6
    )
    K = form.matrix(form.start, cells.X, cells.task)

    def by_variance(v):
        """log N(y; 0, K + v), whose Jacobian is that of unit noise: s = y / sqrt v."""
        return float(multivariate_normal(np.zeros(len(v)), K + np.diag(v)).logpdf(cells.y))

    v = 1.0 / tau
    expected = central_difference(by_variance, v, 1e-6)
    np.testing.assert_allclose(adjoints.noise, expected, rtol=1e-4, atol=1e-5)


def test_a_task_given_the_others_is_the_evidence_of_all_less_theirs(at):
    cells, tau, posterior, K = at
    if not hasattr(posterior, "evidence_given_others"):
        pytest.skip("not asked of this form")
    n, w = len(tau), np.sqrt(tau)
    K = K[:n, :n]
    whole = evidence(K, w * cells.y, w)
    for t in range(3):
        rest = np.flatnonzero(cells.task != t)
        without = evidence(K[np.ix_(rest, rest)], (w * cells.y)[rest], w[rest])
        assert posterior.evidence_given_others[t] == pytest.approx(whole - without, rel=1e-8)
        assert posterior.evidence_given(t) == pytest.approx(whole - without, rel=1e-8)


def test_signs_of_tasks_change_the_evidence_as_the_products_say(at):
    cells, tau, posterior, K = at
    if not hasattr(posterior, "sign_products"):
        pytest.skip("not asked of this form")
    n, w = len(tau), np.sqrt(tau)
    K, G = K[:n, :n], posterior.sign_products()
    for signs in ([1, 1, -1], [1, -1, -1]):
        e = np.array(signs, dtype=float)
        turned = K * np.where(cells.task[:, None] == cells.task, 1.0, np.outer(e[cells.task], e[cells.task]))
        change = evidence(turned, w * cells.y, w) - posterior.evidence
        assert 0.5 * (e @ G @ e - G.sum()) == pytest.approx(change, rel=1e-8)


def test_average_information_and_adjoint_of_the_kernel(at):
    cells, tau, posterior, K = at
    if hasattr(posterior, "information"):
        n = len(tau)
        D = np.random.default_rng(3).normal(size=(n, 2))
        expected = 0.5 * D.T @ np.linalg.solve(K[:n, :n] + np.diag(1.0 / tau), D)
        np.testing.assert_allclose(posterior.information(D), expected, rtol=1e-9)
    if hasattr(posterior, "by_inputs"):
        prior, n, w = posterior.prior, len(tau), np.sqrt(tau)
        design = prior.design
        B, base = prior.B[np.ix_(cells.task, cells.task)], KERNEL(design.inputs)
        rest = K[:n, :n] - B * base[np.ix_(design.index, design.index)]
        found = posterior.by_inputs()

        def f(k):
            k = k.reshape(base.shape)
            return evidence(rest + B * k[np.ix_(design.index, design.index)], w * cells.y, w)

        by = central_difference(f, base.ravel()).reshape(base.shape)
        np.testing.assert_allclose(found + found.T, by + by.T, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("intercept", "own"), [(0.0, OWN), (0.6, ())])
def test_intercepts_without_own_kernels_and_own_kernels_without_intercepts(intercept, own):
    cells, B = cells_of(False), ROOT @ ROOT.T
    tau = cells.count / 0.4
    both, task = np.vstack([cells.X, NEW]), np.concatenate([cells.task, NEW_TASK])
    K = B[np.ix_(task, task)] * KERNEL(both) + intercept * (task[:, None] == task)
    for t, kernel in enumerate(own):
        if kernel is not None:
            K[np.ix_(task == t, task == t)] += kernel(both[task == t])
    posterior = DenseTasks(Design.from_cells(cells), KERNEL, B, intercept, list(own)).condition(
        Sites(tau * cells.y, tau)
    )
    n = len(tau)
    gain = K[n:, :n] @ np.linalg.inv(K[:n, :n] + np.diag(1.0 / tau))
    np.testing.assert_allclose(posterior.predict(NEW, NEW_TASK).mean, gain @ cells.y, rtol=1e-9)
    np.testing.assert_allclose(
        posterior.predict(NEW, NEW_TASK, True).covariance, K[n:, n:] - gain @ K[:n, n:], atol=1e-12
    )
    found = posterior.adjoints()
    assert (found.intercept != 0.0) == bool(intercept or own)
    assert len(found.specific) == (3 if intercept or own else 0)


def test_inducing_inputs_have_the_gradient_of_the_matrix():
    global Z
    cells, x = cells_of(False), FORMS["shared"].start
    tau = cells.count / 0.4
    w = np.sqrt(tau)
    found = shared(cells, x).condition(Sites(tau * cells.y, tau)).adjoints(True).inducing
    low = FORMS["low rank"]
    by_low = low.build(cells, low.start).condition(Sites(tau * cells.y, tau)).adjoints(True).inducing
    before = Z

    def at_inputs(matrix, x):
        def f(z):
            global Z
            Z = z.reshape(before.shape)
            try:
                return evidence(matrix(x, cells.X, cells.task), w * cells.y, w)
            finally:
                Z = before

        return central_difference(f, before.ravel()).reshape(before.shape)

    np.testing.assert_allclose(found[0], at_inputs(shared_matrix, x), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(by_low[0], at_inputs(low_rank_matrix, low.start), rtol=1e-4, atol=1e-6)


def test_a_task_by_itself_and_shards_know_the_same():
    """What is asked of one task alone, and of tasks in several places, is what all together know."""
    cells, x = cells_of(False), FORMS["shared"].start
    tau = cells.count / 0.4
    posterior = shared(cells, x).condition(Sites(tau * cells.y, tau))
    whole = posterior.predict(NEW, NEW_TASK, full=True)
    for t in range(3):
        here = np.flatnonzero(t == NEW_TASK)
        mean, J, own = posterior.of_task(t).at_new(NEW[here], np.zeros(len(here), dtype=int), full=True)
        np.testing.assert_allclose(mean, whole.mean[here])
        np.testing.assert_allclose(own + J @ J.T, whole.covariance[np.ix_(here, here)], atol=1e-12)


# Parts. ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["arrays", "tensors"])
def test_marginal_variances_where_sites_say_next_to_nothing(kind):
    """diag(E - E w A^-1 w E): by a difference, or by columns where that would cancel, with and without a diagonal."""
    put = np.asarray if kind == "arrays" else pytest.importorskip("torch").from_numpy
    G = np.random.default_rng(4).normal(size=(5, 5))
    K, e = G @ G.T + np.eye(5), np.array([0.1, 0.0, 0.5, 0.2, 0.3])
    for w in (np.array([1.0, 2.0, 0.5, 1.5, 3.0]), np.array([1.0, 1e-7, 0.0, 1.5, 1e-5]), np.full(5, 1e-9)):
        for more in (None, e):
            E = K if more is None else K + np.diag(more)
            L = np.linalg.cholesky(np.eye(5) + w[:, None] * E * w)
            expected = np.diagonal(E - E @ (w[:, None] * np.linalg.inv(L @ L.T) * w) @ E)
            given = [None if a is None else put(a.copy()) for a in (K, L, w, more)]
            np.testing.assert_allclose(np.asarray(marginal_variances(*given)), expected, rtol=1e-9)


@pytest.mark.parametrize("apart", [False, True])
def test_evidence_of_rows_is_that_of_its_columns_and_so_are_its_derivatives(apart):
    """log N(y; 0, K + 1/tau) by SciPy, for three columns of targets, with rows of two tasks apart or not."""
    rng = np.random.default_rng(6)
    X, Y, tau = rng.uniform(0.0, 3.0, (6, 1)), rng.normal(size=(6, 3)), rng.uniform(0.5, 4.0, 6)
    own = np.kron(np.eye(2), np.ones((3, 3))) if apart else None
    kernel = SquaredExponential(0.7, 1.2)

    def expected(theta, tau):
        K = kernel.with_theta(theta)(X) * (1.0 if own is None else own)
        return multivariate_normal(np.zeros(6), K + np.diag(1.0 / tau)).logpdf(Y.T).sum()

    value, by_theta, by_variance = evidence_of_rows(kernel, X, tau, Y, own)
    assert value == pytest.approx(expected(kernel.theta, tau), rel=1e-12)
    step = 1e-5 * np.eye(len(kernel.theta))
    slopes = [(expected(kernel.theta + h, tau) - expected(kernel.theta - h, tau)) / 2e-5 for h in step]
    np.testing.assert_allclose(by_theta, slopes, rtol=1e-6)
    noise = 1.0 / tau
    slopes = [
        (expected(kernel.theta, 1.0 / (noise + h)) - expected(kernel.theta, 1.0 / (noise - h))) / 2e-5
        for h in 1e-5 * np.eye(6)
    ]
    np.testing.assert_allclose(by_variance, slopes, rtol=1e-6)


def test_evidence_of_tasks_that_share_nothing_is_that_of_each():
    cells, rng = cells_of(False), np.random.default_rng(7)
    M = len(cells.starts) - 1
    kernels = [SquaredExponential(0.5 + t, 1.0 + 0.3 * t) for t in range(M)]
    tau = rng.uniform(0.5, 3.0, len(cells.y))
    prior = SharedCovariance(PlacedTasks(cells), [], [], np.zeros((M, 0)), kernels)
    found = prior.condition(Sites(tau * cells.y, tau)).evidence_alone
    for t, kernel in enumerate(kernels):
        at = cells.task == t
        w = np.sqrt(tau[at])
        law = multivariate_normal(np.zeros(at.sum()), np.eye(at.sum()) + w[:, None] * kernel(cells.X[at]) * w)
        assert found[t] == pytest.approx(law.logpdf(w * cells.y[at]), rel=1e-9)


def test_sites_as_observations():
    w, s = unit_noise(np.array([2.0, 0.0, 3.0]), np.array([4.0, 0.0, 0.25]))
    np.testing.assert_array_equal(w, [2.0, 0.0, 0.5])
    np.testing.assert_array_equal(s, [1.0, 0.0, 6.0])


def test_jitter_of_inducing_inputs_that_repeat_is_known_and_travels():
    basis = InducingBasis(Basis(SquaredExponential(1.0, 1.0), np.array([[0.0], [0.0], [1.0]])))
    assert 0.0 < basis.jitter < 1e-6
    again = pickle.loads(pickle.dumps(basis))
    assert again.least == basis.jitter
    np.testing.assert_array_equal(again.L, basis.L)
    assert InducingBasis(Basis(SquaredExponential(1.0, 1.0), np.array([[0.0], [1.0]]))).jitter == 0.0


def test_rows_and_inputs_of_a_design_by_hand():
    cells = cells_of(False)
    design = Design.from_cells(cells)
    assert design.n_tasks == 3
    np.testing.assert_array_equal(design.task, cells.task)
    np.testing.assert_array_equal(design.inputs[design.index], cells.X)
    assert not design.complete
    assert Design.from_cells(cells_of(True)).complete
    A = np.random.default_rng(5).normal(size=(len(cells.y), len(cells.y)))
    A += A.T
    onto = (design.index[:, None] == np.arange(len(design.inputs))).astype(float)
    np.testing.assert_allclose(design.gather(A), onto.T @ A @ onto)
    odd = cells_of(True)
    odd.count[0] += 1.0  # counts that are no product
    assert not Design.from_cells(odd).complete


def test_how_much_of_a_complete_fit_comes_from_other_tasks():
    """Two tasks and one input: smoother S of the targets, covariance C of the targets; its part off the diagonal."""
    cells = merge(np.zeros((2, 1)), np.array([0, 1]), np.array([1.0, -1.0]), np.ones(2), np.ones(2), 2)
    B, k, tau = np.array([[1.0, 0.6], [0.6, 2.0]]), SquaredExponential(1.0, 1.0), np.array([4.0, 1.0])
    posterior = CompleteTasks(Design.from_cells(cells), k, B).condition(Sites(tau * cells.y, tau))
    A = np.eye(2) + np.sqrt(tau)[:, None] * B * np.sqrt(tau)
    S = np.eye(2) - np.linalg.inv(A)
    off = S - np.diag(np.diagonal(S))
    assert posterior.share_of_transfer() == pytest.approx(np.trace(off @ A @ off.T) / np.trace(S @ A @ S.T))
    rest = np.eye(2) - S
    assert posterior.share_of_noise() == pytest.approx(np.trace(rest @ A @ rest.T) / np.trace(A))
    assert posterior.related
    alone = CompleteTasks(Design.from_cells(cells), k, np.diag([1.0, 2.0])).condition(Sites(tau * cells.y, tau))
    assert not alone.related
    assert alone.share_of_transfer() == pytest.approx(0.0, abs=1e-15)


def test_inducing_inputs_are_chosen_by_what_is_left():
    """The farthest point first, then what is least explained; all of the first stage before the second begins."""
    kernel = SquaredExponential(2.0, 1.0)
    first, others = np.array([[0.0], [0.1], [5.0]]), np.array([[2.0], [2.1], [9.0]])
    chosen, left = spread_inducing(kernel, first, others, most=5, tolerance=0.05)
    assert chosen[:3, 0].tolist() == [0.0, 5.0, 0.1]
    assert sorted(chosen[3:, 0].tolist()) == [2.1, 9.0] or sorted(chosen[3:, 0].tolist()) == [2.0, 9.0]
    both = np.vstack([first, others])
    K = kernel(chosen)
    unexplained = kernel.diag(both) - (kernel(both, chosen) @ np.linalg.inv(K) * kernel(both, chosen)).sum(axis=1)
    assert left == pytest.approx((unexplained / 2.0).max(), abs=1e-9)
    assert left < 0.05
    few, more_left = spread_inducing(kernel, first[:1], others, most=2)
    assert len(few) == 2
    assert few[0, 0] == 0.0
    assert few[1, 0] == 9.0
    assert more_left == pytest.approx(1.0 - np.exp(-(2.1**2)), rel=1e-9)
    assert choose_inducing(kernel, first[:0], others[:0]).shape == (0, 1)
    many = np.linspace(0.0, 200.0, 150)[:, None]  # more than the first 64 columns that are held
    all_of_them = spread_inducing(kernel, many[:0], many, most=150, tolerance=0.0)
    assert len(all_of_them.Z) >= 100
    assert all_of_them.left < 1e-6


def test_tasks_are_put_together_where_padding_costs_little():
    """Equal sizes always, near ones up to the stretch where they are small, and never too large a block."""
    sizes = np.array([10**4, 10**4, PADDED, 20, LEAST, LEAST // 2])
    assert alike([0, 1], sizes) == ([[0, 1]] if MOST_ENTRIES >= 2 * 10**8 else [[0], [1]])
    assert alike([4, 5], sizes) == [[4, 5]]
    assert alike([2, 3], sizes) == [[2], [3]]
    near = np.array([PADDED, int(np.ceil(PADDED / STRETCH)), int(PADDED / STRETCH) - 1])
    assert alike([0, 1], near) == [[0, 1]]
    assert alike([0, 2], near) == [[0], [2]]
    count = MOST_ENTRIES // PADDED**2
    full = alike(list(range(count + 1)), np.full(count + 1, PADDED))
    assert [len(block) for block in full] == [count, 1]
