"""The hierarchical GP against the printed equations, and what must hold whatever the data."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import borrow
from borrow.data.cells import merge
from borrow.data.read import pool_of, read_table
from borrow.data.scaling import build
from borrow.inference import em
from borrow.kernels import Constant, Linear, Matern, SquaredExponential
from borrow.models.hierarchical import basis as bases
from borrow.models.hierarchical import fit, search
from borrow.models.hierarchical import model as h
from borrow.tasks.placed import PlacedTasks
from borrow.tasks.workers import InProcess
from oracles import central_difference, gaussian_posterior
from oracles_hierarchical import alpha_iteration, penalised_likelihood, weight_iteration

PLAIN = {"optimizer": None, "prior": None, "normalize_y": False, "accelerate": False, "tol": 0.0}


def small_problem(seed=0, n=14, sizes=(5, 3, 7, 1), d=2):
    """Inputs, rows of the tasks (unequal, overlapping), targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    rows = [np.sort(rng.permutation(n)[:k]) for k in sizes]
    rows.append(np.setdiff1d(np.arange(n), np.concatenate(rows)))  # so that every input is seen
    rows = [r for r in rows if len(r)]
    y = [np.sin(X[r, 0]) + 0.3 * rng.normal(size=len(r)) + 0.5 for r in rows]
    return X, rows, y


def as_wide(n, rows, y):
    Y = np.full((n, len(rows)), np.nan)
    for l, (r, v) in enumerate(zip(rows, y, strict=True)):
        Y[r, l] = v
    return Y


def as_problem(basis, rows, y):
    position = np.concatenate(rows)[:, None].astype(float)
    task = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    ones = np.ones(len(task))
    return h.arrange(basis, PlacedTasks(merge(position, task, np.concatenate(y), ones, ones, len(rows))))


def iterate(problem, strengths, noise, n):
    state = h.start(problem.basis, noise)
    for _ in range(n):
        moments = h.expect(state, problem)
        yield state, moments
        state = h.maximise(state, moments, problem, strengths)
    yield state, h.expect(state, problem)


@pytest.mark.parametrize(("pi", "tau"), [(1.0, 1.0), (1e6, 1.0), (0.3, 7.0)])
def test_ten_iterations_are_the_printed_ones(pi, tau):
    X, rows, y = small_problem()
    kernel = Matern(1.3, 0.9, nu=1.5)
    kappa = kernel(X)
    problem = as_problem(bases.function_basis(kernel, X), rows, y)
    assert problem.basis.Phi is None
    mu, C, noise = np.zeros(len(X)), np.linalg.inv(kappa), 0.4
    for state, moments in iterate(problem, h.Strengths(pi, tau), 0.4, 10):
        assert_allclose(state.mu, kappa @ mu, atol=1e-8)
        assert_allclose(state.K, kappa @ C @ kappa, atol=1e-8)
        assert_allclose(state.noise, noise, rtol=1e-8)
        alpha, mu, C, noise = alpha_iteration(kappa, rows, y, mu, C, noise, pi, tau)
        assert_allclose(h.coefficients(problem.basis, h.functions(state, problem, moments)), alpha, atol=1e-7)


@pytest.mark.parametrize("basis", [bases.function_basis, bases.weight_basis], ids=["Model 3", "Model 1"])
def test_linear_model_1_is_model_3(basis):
    """Theorem 5.3, first half: the same functions whether weights or function values carry them."""
    X, rows, y = small_problem(d=3, n=9, sizes=(4, 3, 2))
    problem = as_problem(basis(Linear(1.0), X), rows, y)
    mu, C, noise = np.zeros(3), np.eye(3), 0.4
    for state, moments in iterate(problem, h.Strengths(0.7, 2.0), 0.4, 10):
        weights, mu_next, C_next, noise_next = weight_iteration(X, rows, y, mu, C, noise, 0.7, 2.0)
        Phi = problem.basis.Phi
        assert_allclose(Phi @ state.mu, X @ mu, atol=1e-8)
        assert_allclose(Phi @ state.K @ Phi.T, X @ C @ X.T, atol=1e-8)
        assert_allclose(Phi @ h.functions(state, problem, moments), X @ weights, atol=1e-8)
        assert_allclose(state.noise, noise, rtol=1e-8)
        mu, C, noise = mu_next, C_next, noise_next


def test_function_space_and_weights_agree_where_kappa_is_regular():
    X, rows, y = small_problem(d=12, n=8, sizes=(4, 3, 5))
    ends = []
    for basis in (bases.function_basis(Linear(0.5), X), bases.weight_basis(Linear(0.5), X)):
        problem = as_problem(basis, rows, y)
        *_, (state, moments) = iterate(problem, h.Strengths(2.0, 3.0), 0.4, 10)
        Phi = np.eye(8) if basis.Phi is None else basis.Phi
        ends.append((Phi @ h.functions(state, problem, moments), Phi @ state.K @ Phi.T, state.noise))
    for one, other in zip(*ends, strict=True):
        assert_allclose(one, other, atol=1e-8)


@pytest.mark.parametrize("kernel", [Matern(1.0, 1.0, nu=1.5), Linear(1.0) + Constant(0.5)], ids=str)
def test_unlabelled_inputs_change_no_function(kernel):
    """Theorem 5.3, second half, both as we add them and as the printed iterations on the larger set have it."""
    X, rows, y = small_problem(d=2)
    more = np.random.default_rng(9).normal(size=(4, 2))
    Y = as_wide(len(X), rows, y)
    settings = dict(PLAIN, base_kernel=kernel, covariance_strength=3.0, noise=0.3, max_iter=8)
    with pytest.warns(ConvergenceWarning, match="8 iterations"):
        alone = borrow.HierarchicalGPRegressor(**settings).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="8 iterations"):
        joint = borrow.HierarchicalGPRegressor(**settings).fit(
            np.vstack([X, more]), np.vstack([Y, np.full((4, len(rows)), np.nan)])
        )
    new = np.random.default_rng(3).normal(size=(6, 2))
    for one, other in zip(alone.predict(new, return_std=True), joint.predict(new, return_std=True), strict=True):
        assert_allclose(one, other, atol=1e-9)
    assert len(joint.X_) == len(X) + 4
    assert_array_equal(np.sort(joint.X_[-4:], axis=0), np.sort(more, axis=0))
    if isinstance(kernel, Matern):  # the printed iterations need a regular kappa
        everything = np.vstack([X, more])
        kappa = kernel(everything)
        mu, C, noise = np.zeros(len(kappa)), np.linalg.inv(kappa), 0.3
        for _ in range(8):
            _, mu, C, noise = alpha_iteration(kappa, rows, y, mu, C, noise, 1.0, 3.0)
        order = [int(np.flatnonzero((everything == x).all(axis=1))[0]) for x in joint.X_]
        assert_allclose(joint.covariance_, (kappa @ C @ kappa)[np.ix_(order, order)], atol=1e-8)
        assert_allclose(joint.mean_, (kappa @ mu)[order], atol=1e-8)
        raw = joint.learned_kernel_.raw()
        assert_allclose(raw(new), kernel(new, everything) @ C @ kernel(everything, new), atol=1e-7)  # (18)


def test_kernel_is_equation_19_and_mean_is_equation_17():
    X, rows, y = small_problem()
    kernel = Matern(0.8, 1.1, nu=2.5)
    kappa = kernel(X)
    with pytest.warns(ConvergenceWarning):
        model = borrow.HierarchicalGPRegressor(
            base_kernel=kernel, covariance_strength=2.0, noise=0.2, max_iter=5, **PLAIN
        ).fit(X, as_wide(len(X), rows, y))
    mu, C, noise = np.zeros(len(X)), np.linalg.inv(kappa), 0.2
    for _ in range(5):
        _, mu, C, noise = alpha_iteration(kappa, rows, y, mu, C, noise, 1.0, 2.0)
    alpha, *_ = alpha_iteration(kappa, rows, y, mu, C, noise, 1.0, 2.0)
    new = np.random.default_rng(3).normal(size=(6, 2))
    k, m = kernel(new, X), len(rows)
    assert_allclose(model.learned_kernel_(new), (m * k @ C @ k.T + 2.0 * kernel(new)) / (m + 2.0), atol=1e-8)
    assert_allclose(model.learned_kernel_.diag(new), np.diagonal(model.learned_kernel_(new)), rtol=1e-10)
    assert_allclose(model.predict(new), k @ alpha, atol=1e-8)
    assert model.noise_[0] == pytest.approx(noise)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("basis", ["points", "weights", "eigen"])
@pytest.mark.parametrize("pi", [1.0, np.inf])
def test_em_never_decreases(accelerate, basis, pi):
    X, rows, y = small_problem(3, n=20, sizes=(5, 9, 7, 2))
    if basis == "eigen":
        X = X[:, :1]
    kernels = {"points": Matern(1.0, 0.7, nu=0.5), "weights": Linear(2.0) + Constant(1.0)}
    kernel = kernels.get(basis, SquaredExponential(1.0, 3.0))
    problem = as_problem(bases.basis_of(kernel, X), rows, y)
    assert (problem.basis.Phi is None) == (basis == "points")
    strengths = h.Strengths(pi, 1.5, noise_rows=4.0, noise_level=0.2)
    done = search.fit_em(problem, strengths, 0.5, 60, 0.0, accelerate)
    assert np.diff(done.trace).min() > -1e-9
    assert done.trace[-1] > done.trace[0] + 1.0
    assert len(done.trace) > 8


def test_objective_is_the_penalised_likelihood():
    X, rows, y = small_problem()
    kernel = Matern(1.0, 1.0, nu=1.5)
    problem = as_problem(bases.function_basis(kernel, X), rows, y)
    strengths = h.Strengths(0.6, 2.5)
    done = search.fit_em(problem, strengths, 0.5, 3, 0.0)
    s = done.state
    expected = penalised_likelihood(kernel(X), rows, y, s.mu, s.K, s.noise, 0.6, 2.5)
    assert done.trace[-1] == pytest.approx(expected, rel=1e-10)
    assert search.fit_em(problem, strengths, 0.5, 0, 0.0).trace == pytest.approx(
        [penalised_likelihood(kernel(X), rows, y, 0 * s.mu, kernel(X), 0.5, 0.6, 2.5)]
    )


def test_acceleration_reaches_the_same_optimum_in_fewer_iterations():
    X, rows, y = small_problem(4, n=20, sizes=(9, 9, 7, 5, 8, 6))
    problem = as_problem(bases.function_basis(Matern(1.0, 1.0, nu=1.5), X), rows, y)
    strengths = h.Strengths(1.0, 1.0)
    plain = search.fit_em(problem, strengths, 0.5, 3000, 1e-5)
    fast = search.fit_em(problem, strengths, 0.5, 3000, 1e-5, accelerate=True)
    assert fast.n_evaluations < 0.6 * plain.n_evaluations
    assert fast.trace[-1] > plain.trace[-1] - 0.01


def test_a_step_that_would_lower_the_objective_is_taken_back():
    """Maximise -|x| by halving: steps beyond twice the own one overshoot."""
    done = em.run(
        8.0, lambda x: (None, -abs(x)), lambda x, _: 0.5 * x, 40, 1e-9, lambda old, new, f: old + f * (new - old)
    )
    assert np.diff(done.trace).min() >= 0
    assert abs(done.state) < 1e-6
    assert done.n_evaluations > len(done.trace)
    assert max(done.steps) > 1.0


def test_tasks_with_equal_rows_share_one_factor():
    X, _, _ = small_problem()
    rng = np.random.default_rng(1)
    Y = rng.normal(size=(len(X), 6))
    basis = bases.function_basis(Matern(), X)
    rows = [np.arange(len(X))] * 6
    together = as_problem(basis, rows, list(Y.T))
    assert bases.tasks_of_equal_rows(together.cells) == [list(range(6))]
    assert [len(s.groups) for s in together.tasks.cut(False)[1]] == [1]
    closed = InProcess()
    closed.close()
    apart = h.arrange(basis, PlacedTasks(together.cells, closed))  # each task by itself
    assert [len(s.groups) for s in apart.tasks.cut(False)[1]] == [1] * 6
    for one, other in zip(
        iterate(together, h.Strengths(1.0, 2.0), 0.3, 4), iterate(apart, h.Strengths(1.0, 2.0), 0.3, 4), strict=True
    ):
        assert_allclose(one[0].K, other[0].K, atol=1e-11)
        assert_allclose(one[0].mu, other[0].mu, atol=1e-11)
        assert one[0].noise == pytest.approx(other[0].noise, rel=1e-11)
        assert one[1].evidence == pytest.approx(other[1].evidence, rel=1e-11)


@pytest.mark.parametrize("kernel", [Matern(1.0, 1.0, nu=1.5), Linear(1.0) + Constant(1.0)], ids=str)
def test_repeated_rows_and_weights_are_rows_written_out(kernel):
    """Merged and written out: same objective, same functions, also where rows outnumber the weights."""
    rng = np.random.default_rng(5)
    X = np.repeat(rng.normal(size=(5, 1)), 3, axis=0)
    y, task = rng.normal(size=15), np.tile([0, 1], 8)[:15]
    settings = dict(PLAIN, base_kernel=kernel, covariance_strength=2.0, noise=0.3, max_iter=6)
    nudged = X + 1e-7 * rng.normal(size=X.shape)  # written out: no two inputs are the same
    with pytest.warns(ConvergenceWarning):
        merged = borrow.HierarchicalGPRegressor(**settings).fit(X, y, tasks=task)
    with pytest.warns(ConvergenceWarning):
        apart = borrow.HierarchicalGPRegressor(**settings).fit(nudged, y, tasks=task)
    assert len(merged.X_) == 5
    assert_allclose(merged.objective_trace_, apart.objective_trace_, atol=1e-4)
    assert_allclose(merged.noise_[0], apart.noise_[0], atol=1e-5)
    grid = np.linspace(-2, 2, 7)[:, None]
    assert_allclose(merged.predict(grid, tasks=1), apart.predict(grid, tasks=1), atol=1e-4)
    weight = rng.integers(1, 4, 15)
    with pytest.warns(ConvergenceWarning):
        weighted = borrow.HierarchicalGPRegressor(**settings).fit(X, y, tasks=task, sample_weight=weight)
    with pytest.warns(ConvergenceWarning):
        written = borrow.HierarchicalGPRegressor(**settings).fit(
            np.repeat(X, weight, axis=0), np.repeat(y, weight), tasks=np.repeat(task, weight)
        )
    assert_allclose(weighted.objective_trace_, written.objective_trace_, rtol=1e-9)
    assert_allclose(weighted.predict(grid, tasks=1), written.predict(grid, tasks=1), atol=1e-8)


def test_no_learning_is_one_gp_a_task_with_the_base_kernel():
    X, rows, y = small_problem()
    kernel = SquaredExponential(1.2, 0.8)
    model = borrow.HierarchicalGPRegressor(base_kernel=kernel, covariance_strength=np.inf, noise=0.3, **PLAIN).fit(
        X, as_wide(len(X), rows, y)
    )
    new = np.random.default_rng(3).normal(size=(6, 2))
    everything = kernel(np.vstack([X, new]))
    test = np.arange(len(X), len(X) + 6)
    for t, (own, target) in enumerate(zip(rows, y, strict=True)):
        mean, cov = gaussian_posterior(everything, own, test, target, np.full(len(own), 0.3))
        got, got_cov = model.predict(new, tasks=t, return_cov=True)
        assert_allclose(got, mean, atol=1e-9)
        assert_allclose(got_cov, cov, atol=1e-9)
    assert_allclose(model.learned_kernel_(new), kernel(new), atol=1e-12)


def test_variance_is_that_of_model_2_with_the_new_inputs_in_it():
    X, rows, y = small_problem()
    kernel = Matern(1.0, 1.0, nu=1.5)
    with pytest.warns(ConvergenceWarning):
        model = borrow.HierarchicalGPRegressor(
            base_kernel=kernel, covariance_strength=2.0, noise=0.2, max_iter=6, **PLAIN
        ).fit(X, as_wide(len(X), rows, y))
    new = np.random.default_rng(3).normal(size=(5, 2))
    everything = np.vstack([X, new])
    kappa = kernel(everything)
    mu, C, noise = np.zeros(len(kappa)), np.linalg.inv(kappa), 0.2
    for _ in range(6):
        _, mu, C, noise = alpha_iteration(kappa, rows, y, mu, C, noise, 1.0, 2.0)
    K, mu_f = kappa @ C @ kappa, kappa @ mu
    test = np.arange(len(X), len(everything))
    mean, cov = gaussian_posterior(K, rows[1], test, y[1] - mu_f[rows[1]], np.full(len(rows[1]), noise))
    got, got_cov = model.predict(new, tasks=1, return_cov=True)
    assert_allclose(got, mean + mu_f[test], atol=1e-8)
    assert_allclose(got_cov, cov, atol=1e-8)
    _, std = model.predict(new, tasks=1, return_std=True, include_noise=True)
    assert_allclose(std, np.sqrt(np.diagonal(cov) + noise), atol=1e-8)


@pytest.mark.parametrize("kernel", [SquaredExponential(0.9, 1.3), Linear(0.7) + Constant(0.4)], ids=str)
def test_gradient_of_the_base_evidence(kernel):
    X, rows, y = small_problem()
    twice = np.vstack([X, X[:6]]), np.vstack([as_wide(len(X), rows, y), as_wide(len(X), rows, y)[:6] + 0.4])
    pool = pool_of(*read_table(borrow.HierarchicalGPRegressor(), *twice, pooled=True)[:2])
    cells = build(pool.rows, False).cells
    objective = fit.base_objective(kernel, pool.X, PlacedTasks(cells))
    theta = kernel.theta

    def value(v):
        return objective({"kernel": v[:-1], "noise": v[-1:]})[0]

    at = np.append(theta, np.log(0.3))
    gradient = objective({"kernel": theta, "noise": at[-1:]})[1]
    assert_allclose(np.append(gradient["kernel"], gradient["noise"]), central_difference(value, at), rtol=1e-6)
    model = borrow.HierarchicalGPRegressor(base_kernel=kernel, covariance_strength=np.inf, noise=0.3, **PLAIN)
    model.fit(*twice)
    assert value(at) == pytest.approx(model.log_marginal_likelihood_, rel=1e-9)


def family(seed=0, m=30, rows=6, kind="shared"):
    """Tasks of a few rows: combinations of three functions, or functions that share nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (m * rows, 1))
    task = np.repeat(np.arange(m), rows)
    grid = np.linspace(-1, 1, 30)[:, None]
    both = np.vstack([X, grid])
    if kind == "shared":
        B = np.column_stack([np.sin(4 * both[:, 0]), np.sign(both[:, 0] - 0.2), both[:, 0] ** 2])
    else:
        B = np.linalg.cholesky(SquaredExponential(1.0, 0.5)(both) + 1e-8 * np.eye(len(both)))
    F = B @ rng.normal(size=(B.shape[1], m))
    return X, F[np.arange(m * rows), task] + 0.2 * rng.normal(size=m * rows), task, grid, F[m * rows :]


def error_of(model, grid, F):
    return np.mean([(model.predict(grid, tasks=t) - F[:, t]) ** 2 for t in range(F.shape[1])])


def test_defaults_gain_where_tasks_share_and_lose_nothing_where_they_do_not():
    for kind, low, high in (("shared", 0.0, 0.75), ("nothing", 0.9, 1.03)):
        ratios = []
        for seed in range(2):
            X, y, task, grid, F = family(seed, kind=kind)
            learnt = borrow.HierarchicalGPRegressor(normalize_y=False).fit(X, y, tasks=task)
            base = borrow.HierarchicalGPRegressor(normalize_y=False, covariance_strength=np.inf).fit(X, y, tasks=task)
            ratios.append(error_of(learnt, grid, F) / error_of(base, grid, F))
        assert low <= np.mean(ratios) < high


def test_settings_are_chosen_on_rows_that_em_did_not_see():
    X, y, task, _, _ = family()
    pool = pool_of(*read_table(borrow.HierarchicalGPRegressor(), X, y, task, pooled=True)[:2])
    cells = build(pool.rows, True).cells
    problem = h.arrange(bases.basis_of(SquaredExponential(1.0, 0.5), pool.X), PlacedTasks(cells))
    folds = search.hold_out(problem, np.random.RandomState(0))
    assert len(folds) == 4
    seen = np.zeros(len(cells.y), dtype=int)
    for fold in folds:
        assert_array_equal(fold.cells.y, cells.y)
        assert_array_equal(np.delete(fold.cells.count, fold.held), np.delete(cells.count, fold.held))
        (shard,) = fold.tasks.cut(False)[1]
        for g in shard.groups:
            own = np.flatnonzero(cells.task == g.tasks[0])
            away = np.intersect1d(own, fold.held)
            assert_array_equal(g.held_cells[:, 0], away)
            assert len(g.Y) == len(own) - len(away)
        seen[fold.held] += 1
    assert_array_equal(seen, 1)  # every row is held out once


@pytest.mark.parametrize("kernel", [Matern(1.0, 0.7, nu=0.5), Linear(2.0) + Constant(1.0)], ids=["points", "weights"])
def test_rows_held_out_are_predicted_from_the_others(kernel):
    X, rows, y = small_problem(3, n=20, sizes=(5, 9, 7, 2))
    whole = as_problem(bases.basis_of(kernel, X), rows, y)
    mask = np.arange(len(whole.cells.y)) % 3 == 0
    mask[whole.cells.of(3)] = True  # a task of which nothing is seen
    problem = whole.holding_out(mask)
    *_, (state, moments) = iterate(problem, h.Strengths(1.0, 2.0), 0.4, 3)
    Phi = np.eye(20) if problem.basis.Phi is None else problem.basis.Phi
    K, mu, position = Phi @ state.K @ Phi.T, Phi @ state.mu, problem.cells.X[:, 0].astype(int)
    assert_array_equal(problem.held, np.flatnonzero(mask))
    assert problem.m == len(rows) - 1
    for t in range(len(rows)):
        own = np.arange(len(mask))[problem.cells.of(t)]
        asked = np.isin(problem.held, own)
        if t == 3:
            assert np.isnan(moments.mean[asked]).all()
            continue
        seen, new = own[~mask[own]], own[mask[own]]
        target = problem.cells.y[seen] - mu[position[seen]]
        mean, cov = gaussian_posterior(K, position[seen], position[new], target, np.full(len(seen), state.noise))
        assert_allclose(moments.mean[asked], mean + mu[position[new]], atol=1e-10)
        assert_allclose(moments.variance[asked], np.diagonal(cov), atol=1e-10)
    f = Phi @ h.functions(state, problem, moments)[:, problem.seen_tasks]
    assert moments.mean_square == pytest.approx(float((f**2).mean()))


@pytest.mark.parametrize("kernel", [Matern(1.0, 1.0, nu=1.5), Linear(1.0) + Constant(1.0)], ids=["points", "weights"])
def test_leave_one_out_is_the_posterior_without_the_row(kernel):
    X, rows, y = small_problem()
    settings = dict(PLAIN, base_kernel=kernel, covariance_strength=2.0, noise=0.2, max_iter=4)
    with pytest.warns(ConvergenceWarning):
        model = borrow.HierarchicalGPRegressor(**settings).fit(X, as_wide(len(X), rows, y))
    table, noise = model.leave_one_out(), model.noise_[0]
    K, mu = model.covariance_, model.mean_
    cells, labels = model.fitted_.model.cells, np.array(model.fitted_.schema.labels)
    position = cells.X[np.argsort(labels[cells.task], kind="stable"), 0].astype(int)
    for i in range(len(position)):
        rest = [j for j in range(len(position)) if table["task"][j] == table["task"][i] and j != i]
        target = np.array(table["y"])[rest] - mu[position[rest]]
        mean, cov = gaussian_posterior(K, position[rest], position[[i]], target, np.full(len(rest), noise))
        assert table["mean"][i] == pytest.approx(mean[0] + mu[position[i]], abs=1e-8)
        assert table["std"][i] == pytest.approx(np.sqrt(cov[0, 0] + noise), abs=1e-8)


def test_ranking_is_the_area_under_the_curve():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    sizes = (5, 9, 4, 3)
    task = np.repeat([0, 1, 3, 4], sizes)  # the third task has no row
    y = np.concatenate([np.where(np.arange(n) % 3 == 0, 1.4, -0.6) for n in sizes])
    y[-3:] = 1.0  # one label only: left out
    f = np.round(rng.normal(size=len(y)), 1)
    got = search.ranking(search.HeldOutPredictions(f, np.ones(len(y)), y, task, 5), 0.1)
    assert_allclose(got[[0, 1, 3]], [roc_auc_score(y[task == t] > 0, f[task == t]) for t in (0, 1, 3)])
    assert np.isnan(got[[2, 4]]).all()


def test_order_of_rows_does_not_matter():
    X, y, task, grid, _ = family(m=8)
    order = np.random.default_rng(1).permutation(len(y))
    one = borrow.HierarchicalGPRegressor(covariance_strength=4.0).fit(X, y, tasks=task)
    other = borrow.HierarchicalGPRegressor(covariance_strength=4.0).fit(X[order], y[order], tasks=task[order])
    assert_array_equal(one.predict(grid, tasks=3), other.predict(grid, tasks=3))
    S = sparse.random_array((60, 200), density=0.05, format="csr", rng=np.random.default_rng(0))
    target, group, mixed = np.arange(60.0) % 7, np.arange(60) % 3, np.random.default_rng(2).permutation(60)
    one = borrow.HierarchicalGPRegressor(covariance_strength=4.0, tol=0.01).fit(S, target, tasks=group)
    model = borrow.HierarchicalGPRegressor(covariance_strength=4.0, tol=0.01)
    other = model.fit(S[mixed], target[mixed], tasks=group[mixed])
    assert_array_equal(one.predict(S, tasks=1), other.predict(S, tasks=1))


def test_long_wide_and_pairs_are_the_same_fit():
    X, rows, y = small_problem(n=10)
    long = np.vstack([X[r] for r in rows])
    task = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    settings = {"covariance_strength": 2.0, "tol": 1e-2}
    wide = borrow.HierarchicalGPRegressor(**settings).fit(X, as_wide(len(X), rows, y))
    fits = [
        borrow.HierarchicalGPRegressor(**settings).fit(long, np.concatenate(y), tasks=task),
        borrow.HierarchicalGPRegressor(0, **settings).fit(np.column_stack([task, long]), np.concatenate(y)),
        borrow.HierarchicalGPRegressor(**settings).fit([(X[r], v) for r, v in zip(rows, y, strict=True)]),
    ]
    for other in fits:
        new = np.column_stack([np.full(len(X), 1), X]) if other.task == 0 else X
        tasks = None if other.task == 0 else 1
        assert_array_equal(other.predict(new, tasks=tasks), wide.predict(X, tasks=1))
    mean, std = wide.predict(X, return_std=True)
    assert mean.shape == std.shape == (len(X), len(rows))
    assert_allclose(mean[:, 1], wide.predict(X, tasks=1), atol=1e-12)
    assert_allclose(std[:, 1], wide.predict(X, tasks=1, return_std=True)[1], atol=1e-12)


def test_adapting_to_a_new_task_uses_the_learnt_prior():
    X, y, task, grid, F = family(3, m=40)
    seen = task < 35
    model = borrow.HierarchicalGPRegressor(normalize_y=False, covariance_strength=2.0)
    model.fit(X[seen], y[seen], tasks=task[seen])
    k, noise = model.learned_kernel_, next(iter(model.noise_.values()))
    learnt, alone = [], []
    for t in range(35, 40):
        own, target = X[task == t], y[task == t]
        mean, std = model.adapt(own, target).predict(grid, return_std=True)
        mu_own, mu_grid = (
            np.asarray(model.kernel_(P, model.X_)) @ model.fitted_.model.alpha[:, -1] for P in (own, grid)
        )
        gain = np.linalg.solve(k(own) + noise * np.eye(len(own)), k(own, grid)).T
        assert_allclose(mean, mu_grid + gain @ (target - mu_own), atol=1e-8)
        assert_allclose(std**2, k.diag(grid) - np.einsum("ij,ij->i", gain, k(grid, own)), atol=1e-8)
        learnt.append(np.mean((mean - F[:, t]) ** 2))
        single = borrow.SingleTaskGPRegressor().fit(own, target)
        alone.append(np.mean((single.predict(grid) - F[:, t]) ** 2))
    assert np.mean(learnt) < 0.6 * np.mean(alone)
    one = model.adapt(grid[:1], [2.0]).predict(grid, return_std=True)
    assert np.all(np.isfinite(one))
    assert one[1][0] < one[1][-1]


def test_learnt_kernel_serves_other_estimators():
    X, y, task, grid, F = family(3, m=40)
    seen = task < 39
    model = borrow.HierarchicalGPRegressor(normalize_y=False).fit(X[seen], y[seen], tasks=task[seen])
    own, target = X[~seen], y[~seen]
    for estimator in (borrow.SingleTaskGPRegressor, borrow.PooledGPRegressor):
        fitted = estimator(kernel=model.learned_kernel_, normalize_y=False).fit(own, target)
        assert fitted.kernel_.base is model.kernel_
        assert np.mean((fitted.predict(grid) - F[:, 39]) ** 2) < np.var(F[:, 39])
    labels = target > np.median(target)
    classifier = borrow.SingleTaskGPClassifier(kernel=model.learned_kernel_).fit(own, labels)
    assert classifier.predict_proba(grid).shape == (30, 2)
    focused = borrow.FocusedGPRegressor(primary=38, kernel=model.learned_kernel_.raw() + Constant(0.1))
    late = task >= 37
    assert np.isfinite(focused.fit(X[late], y[late], tasks=task[late]).predict(grid)).all()


def test_exact_mean_is_where_steps_of_em_end():
    """With K and the noise held, EM's own steps for the mean converge to what the exact step finds at once."""
    X, rows, y = small_problem()
    problem = as_problem(h.function_basis(Matern(1.0, 1.0, nu=1.5), X), rows, y)
    start = h.start(problem.basis, 0.5)
    slow, own = start, h.Strengths(pi=0.7, tau=1.0)
    for _ in range(3000):
        moments = h.expect(slow, problem)
        slow = replace(slow, mu=h.maximise(slow, moments, problem, own).mu)
    fast = h.with_exact_mean(start, problem, replace(own, exact_mean=True))
    assert_allclose(fast.mu, slow.mu, atol=1e-8)
    assert h.with_exact_mean(start, problem, own) is start


def test_a_step_from_rows_is_that_of_the_sums_written_out(monkeypatch):
    """Tasks of equal rows, inputs seen twice and rows held out: S and the mean as rows make them, and in full."""
    X, rows, y = small_problem(sizes=(5, 3, 2))
    rows, y = [*rows, rows[0]], [*y, y[0][::-1]]
    own = h.Strengths(pi=0.7, tau=2.0, exact_mean=True)
    found = {}
    for few in (0.0, 1.5):
        monkeypatch.setattr(h, "FEW_ROWS", few)
        whole = as_problem(h.function_basis(Matern(1.0, 1.0, nu=1.5), X), rows, y)
        problem = whole.holding_out(np.isin(whole.cells.X[:, 0], [rows[0][1], rows[1][0]]))
        assert problem.by_rows is (few > 0.0)
        *_, (state, moments) = iterate(problem, own, 0.5, 4)
        found[few] = state.mu, state.K, state.noise, moments.mean, moments.evidence
    for dense, by_rows in zip(found[0.0], found[1.5], strict=True):
        assert_allclose(by_rows, dense, rtol=1e-9, atol=1e-11)


def test_properties_before_a_fit_say_so():
    for name in ("mean_", "covariance_", "learned_kernel_"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(borrow.HierarchicalGPRegressor(), name)
        assert not hasattr(borrow.HierarchicalGPClassifier(), name)
