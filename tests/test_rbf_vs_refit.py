"""The recursion against refits from scratch: choices, gains, weights, leave-one-out, predictions, selection."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

import oracles_rbf as oracle
from borrow import MultiTaskRBFRegressor
from borrow.data.cells import Rows, merge
from borrow.data.scaling import Scaling
from borrow.datasets.shared_data import load_school
from borrow.models.rbf.designs import (
    Settings,
    Sizes,
    best_path,
    joint_fits,
    network_of,
    no_functions,
    two_levels,
)
from borrow.models.rbf.model import (
    Basis,
    Candidates,
    absorb,
    determinant_gains,
    error_reductions,
    grow,
    select_rows,
)
from borrow.models.rbf.recursion import Recursion, stack_rows

SIZES = (9, 14, 6, 11)


def tasks_of(seed, sizes=SIZES, d=2, spread=3.0):
    """Unequal tasks with functions of their own, as pairs (X, y)."""
    rng = np.random.default_rng(seed)
    out = []
    for n in sizes:
        X = rng.uniform(-spread, spread, (n, d))
        out.append((X, np.sin(X @ rng.normal(size=d)) + rng.normal() + 0.3 * rng.normal(size=n)))
    return out


def long_form(tasks):
    X, y = np.vstack([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])
    return X, y, np.repeat(np.arange(len(tasks)), [len(y) for _, y in tasks])


def stack_of(X, y, task, n_tasks, weight=None, replicates=None):
    n = len(y)
    weight, replicates = np.ones(n) if weight is None else weight, np.ones(n) if replicates is None else replicates
    rows = Rows(X, task, tuple(range(n_tasks)), y, weight, replicates)
    cells = merge(X, task, y, weight, replicates, n_tasks)
    return stack_rows(rows, cells, Scaling(np.zeros(n_tasks), np.ones(n_tasks), 0.0), np.ones(X.shape[1]))


def fits_of(recursion, y):
    """Of the one level that there is, at every size."""
    return joint_fits(recursion, no_functions(recursion.stack), 1.0, y)


def errors_of(recursion, y):
    """Leave-one-out errors at every size."""
    return [found.loo for found in fits_of(recursion, y)]


def numbers_of(path, candidates):
    return [int(np.flatnonzero(np.all(candidates == c, axis=1))[0]) for c in path.basis.centers]


@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("width", [1.0, 5.0, 20.0])
def test_ten_steps_choose_as_refits_do(width, ridge):
    tasks = tasks_of(int(width))
    X, y, task = long_form(tasks)
    stack = stack_of(X, y, task, len(tasks))
    candidates = Candidates.at(np.unique(X, axis=0), stack, width)
    path = grow(stack, candidates, stack.y, ridge, 10)
    chosen, gains = oracle.greedy(tasks, candidates.X, width, ridge, 10)
    assert numbers_of(path, candidates.X) == chosen
    assert_allclose(-np.diff(path.trace)[1:], gains, rtol=1e-8, atol=1e-8 * gains[0])
    assert_allclose(path.trace[-1], oracle.error(tasks, path.basis.centers, path.basis.widths, ridge), rtol=1e-9)
    assert_allclose(path.trace[0], sum(y @ y for _, y in tasks))
    assert np.all(path.recursion.q >= ridge)


@pytest.mark.parametrize("ridge", [1e-4, 0.1])
def test_ten_steps_without_labels_choose_as_determinants_do(ridge):
    tasks = tasks_of(3)
    X, y, task = long_form(tasks)
    stack = stack_of(X, y, task, len(tasks))
    candidates = Candidates.at(np.unique(X, axis=0), stack, 2.0)
    path = grow(stack, candidates, np.zeros(len(y)), ridge, 10, unsupervised=True)
    chosen, _ = oracle.greedy(tasks, candidates.X, 2.0, ridge, 10, unsupervised=True)
    assert numbers_of(path, candidates.X) == chosen
    # ln det of Γ = (I + ΦΦ'/ρ)²: det(ρI) has a factor for each unit, so the trace is of q/ρ.
    for n in range(11):
        log_det = oracle.log_determinants(tasks, path.basis.centers[:n], path.basis.widths[:n], ridge)
        log_gamma = 2.0 * (log_det - len(tasks) * (n + 1) * np.log(ridge))
        assert_allclose(path.trace[n + 1], -log_gamma, rtol=1e-9)


def test_theorem_1_gives_the_fall_of_the_error():
    """(5) with c, w, q of (3) and (6), against (2) minimised twice."""
    tasks, ridge, centers, widths, new = tasks_of(5), 0.02, np.array([[0.5, 0.0], [-1.0, 2.0]]), [1.5, 2.0], [1.0, -1.0]
    printed = 0.0
    for X, y in tasks:
        Phi, phi = oracle.design(X, centers, widths), oracle.gaussian(X, np.array(new), 1.2)
        A = Phi.T @ Phi + ridge * np.eye(3)
        w, c = np.linalg.solve(A, Phi.T @ y), Phi.T @ phi
        printed += (c @ w - y @ phi) ** 2 / (phi @ phi + ridge - c @ np.linalg.solve(A, c))
    before = oracle.error(tasks, centers, widths, ridge)
    after = oracle.error(tasks, [*centers, np.array(new)], [*widths, 1.2], ridge)
    assert_allclose(printed, before - after, rtol=1e-10)
    X, y, task = long_form(tasks)
    stack = stack_of(X, y, task, len(tasks))
    at = Candidates.at(np.array([new]), stack, 1.2)
    recursion = absorb(stack, Basis(centers, np.array(widths)), ridge)
    assert_allclose(fits_of(recursion, stack.y)[-1].least, before, rtol=1e-12)
    V, _ = recursion.project(at.values.T)
    G, Q = recursion.sums(V * (recursion.root * stack.y)), recursion.pivots(at.values.T, V, ridge)
    assert_allclose(error_reductions(G.T, Q.T), printed, rtol=1e-10)
    assert np.all(determinant_gains(Q.T, ridge) > 0)


@pytest.mark.parametrize("seen", [0, 4])
def test_theorem_2_and_corollary_1_bound_the_error(seen):
    """(7): Γ = (I + Φ'(ρI + Φ~Φ~')^-1 Φ)² relates the errors with and without the other rows."""
    (X, y), ridge = tasks_of(6, (11,))[0], 0.05
    Phi = oracle.design(X, X[:4], [1.5] * 4)
    few, rest = Phi[:seen], Phi[seen:]
    w_few, _ = oracle.ridge_fit(few, y[:seen], np.full(5, ridge)) if seen else (np.zeros(5), 0.0)
    w_all, _ = oracle.ridge_fit(Phi, y, np.full(5, ridge))
    inner = np.linalg.inv(ridge * np.eye(5) + few.T @ few)
    Gamma = np.linalg.matrix_power(np.eye(len(rest)) + rest @ inner @ rest.T, 2)
    values = np.linalg.eigvalsh(Gamma)
    with_rest, without = y[seen:] - rest @ w_all, y[seen:] - rest @ w_few
    ratio = (with_rest @ with_rest) / (without @ without)
    log_det = np.linalg.slogdet(Gamma)[1]
    assert 0 <= np.exp(-log_det) <= 1 / values[-1] * (1 + 1e-9) <= ratio * (1 + 1e-9)
    assert ratio <= 1 / values[0] * (1 + 1e-9) <= 1 + 1e-8
    assert_allclose(with_rest @ with_rest, without @ np.linalg.solve(Gamma, without), rtol=1e-9)


def test_corollary_2_relates_errors_before_and_after_a_label():
    (X, y), ridge = tasks_of(7, (9,))[0], 0.1
    Phi = oracle.design(X, X[:3], [1.5] * 3)
    before, _ = oracle.ridge_fit(Phi[:-1], y[:-1], np.full(4, ridge))
    after, _ = oracle.ridge_fit(Phi, y, np.full(4, ridge))
    gamma = oracle.gamma(Phi[:-1], Phi[-1], np.full(4, ridge))
    assert gamma >= 1
    assert_allclose((y[-1] - Phi[-1] @ after) ** 2, (y[-1] - Phi[-1] @ before) ** 2 / gamma, rtol=1e-9)


def test_repeated_rows_are_left_out_one_at_a_time():
    """Merged cells of 1 to 5 rows; the reference refits without each row, on the same units."""
    rng = np.random.default_rng(8)
    X = np.round(rng.uniform(-2, 2, (40, 1)), 0)
    task, y, ridge = rng.integers(0, 3, 40), rng.normal(size=40) + X[:, 0], 0.05
    stack = stack_of(X, y, task, 3)
    assert len(stack.y) < 20
    path = grow(stack, Candidates.at(np.unique(X, axis=0), stack, 1.0), stack.y, ridge, 3)
    for n, loo in enumerate(errors_of(path.recursion, stack.y)):
        basis = path.basis.first(n)

        def fit(X1, y1, t1, X2, t2, basis=basis):
            own = t1 == t2[0]
            Phi = oracle.design(X1[own], basis.centers, basis.widths)
            return (
                oracle.design(X2, basis.centers, basis.widths) @ oracle.ridge_fit(Phi, y1[own], [ridge] * len(Phi.T))[0]
            )

        assert_allclose(loo, oracle.leave_one_out(fit, X, y, task), rtol=1e-9)


def test_weights_are_repeats_and_replicates_are_precise_rows():
    rng = np.random.default_rng(9)
    X, task, y = rng.uniform(-2, 2, (12, 1)), np.repeat([0, 1], 6), rng.normal(size=12)
    weight, k = rng.integers(1, 4, 12).astype(float), rng.integers(1, 5, 12).astype(float)
    again = np.repeat(np.arange(12), weight.astype(int))
    a = stack_of(X, y, task, 2, weight, k)
    b = stack_of(X[again], y[again], task[again], 2, None, k[again])
    pool = np.unique(X, axis=0)
    one, two = (grow(s, Candidates.at(pool, s, 1.0), s.y, 0.1, 4) for s in (a, b))
    assert_array_equal(one.basis.centers, two.basis.centers)
    assert_allclose(errors_of(one.recursion, a.y), errors_of(two.recursion, b.y), rtol=1e-10)
    # A row of precision k leaves at once: against a weighted refit without it.
    basis, errors = one.basis, 0.0
    for i in range(len(again)):
        keep = np.arange(len(again)) != i
        mine = keep & (task[again] == task[again[i]])
        root = np.sqrt(k[again[mine]])
        Phi = oracle.design(X[again[mine]], basis.centers, basis.widths) * root[:, None]
        w, _ = oracle.ridge_fit(Phi, y[again[mine]] * root, np.full(5, 0.1))
        errors += (
            k[again[i]] * (y[again[i]] - oracle.design(X[again[i], None], basis.centers, basis.widths) @ w)[0] ** 2
        )
    assert_allclose(errors_of(one.recursion, a.y)[-1], errors / (weight @ k), rtol=1e-9)


def of_two_levels(seed=10):
    rng = np.random.default_rng(seed)
    X, task = np.round(rng.uniform(-2, 2, (50, 2)), 0), rng.integers(0, 4, 50)
    y = X[:, 0] + 0.5 * task * X[:, 1] + 0.3 * rng.normal(size=50)
    stack = stack_of(X, y, task, 4)
    settings = Settings(4, (0.03,), by_leave_one_out=True)
    found = two_levels(stack, Candidates.at(np.unique(X, axis=0), stack, 2.0), settings)
    return X, y, task, stack, network_of(stack, found)


def dense(network):
    """Functions of both levels and the ridge of each weight."""
    shared, own = network.shared.basis, network.basis
    levels = (shared.centers, shared.widths), (own.centers, own.widths)
    ridges = [network.shared.growth.ridge] * (len(shared.widths) + 1)
    for _ in range(len(network.R)):
        ridges += [network.bias_ridge] + [network.growth.ridge] * len(own.widths)
    return levels, np.array(ridges)


def test_both_levels_are_one_ridge_regression():
    X, y, task, _, network = of_two_levels()
    levels, ridges = dense(network)
    assert len(levels[0][1]) > 0
    assert len(levels[1][1]) > 0

    def fit(X1, y1, t1, X2, t2):
        Phi = oracle.two_level_design(X1, t1, 4, *levels)
        return oracle.two_level_design(X2, t2, 4, *levels) @ oracle.ridge_fit(Phi, y1, ridges)[0]

    new, at = np.random.default_rng(1).uniform(-3, 3, (20, 2)), np.arange(20) % 4
    assert_allclose(network.answer(new, at)[0], fit(X, y, task, new, at), rtol=0, atol=1e-8)
    assert_allclose(network.growth.loo.min(), oracle.leave_one_out(fit, X, y, task), rtol=1e-8)
    Phi, rows = oracle.two_level_design(X, task, 4, *levels), oracle.two_level_design(new, at, 4, *levels)
    covariance = rows @ np.linalg.solve(Phi.T @ Phi + np.diag(ridges), rows.T)
    _, own, shared = network.answer(new, at)
    assert_allclose((own @ own.T) * (at[:, None] == at) + shared @ shared.T, covariance, rtol=0, atol=1e-8)
    prior = network.noise * (np.eye(len(y)) + (Phi / ridges) @ Phi.T)
    assert_allclose(network.evidence, multivariate_normal(np.zeros(len(y)), prior).logpdf(y), rtol=1e-9)


def test_joint_fit_without_task_units_is_a_random_intercept():
    """The largest bias ridge leaves the shared network alone; each smaller one, a shrunk mean of residuals."""
    X, _, _, stack, _ = of_two_levels()
    path = grow(stack.pooled(), Candidates.at(np.unique(X, axis=0), stack, 2.0), stack.y, 0.1, 5)
    F = path.recursion.root * np.vstack(
        [np.ones(len(stack.y))] + [oracle.gaussian(stack.X, c, 2.0) for c in path.basis.centers]
    )
    recursion = Recursion(stack, 1)
    recursion.add(recursion.root, 1e12)
    alone = joint_fits(recursion, F, 0.1, stack.y)[0]
    pooled = fits_of(path.recursion, stack.y)[-1]
    assert_allclose(alone.fit, pooled.fit, rtol=0, atol=1e-8)
    assert_allclose(alone.loo, pooled.loo, rtol=1e-8)


def test_network_of_many_tasks_is_a_ridge_regression_of_each():
    tasks = tasks_of(11)
    X, y, task = long_form(tasks)
    stack = stack_of(X, y, task, 5)  # one task more than there are rows for
    settings = Settings(6, (0.01,), by_leave_one_out=False)
    network = network_of(stack, best_path(stack, Candidates.at(np.unique(X, axis=0), stack, 2.0), settings))
    new = np.random.default_rng(2).uniform(-4, 4, (15, 2))
    evidence, left, rows_left = 0.0, 0.0, 0.0
    for k, (X1, y1) in enumerate(tasks):
        Phi = oracle.design(X1, network.basis.centers, network.basis.widths)
        w, _ = oracle.ridge_fit(Phi, y1, np.full(7, 0.01))
        rows = oracle.design(new, network.basis.centers, network.basis.widths)
        at = np.full(15, k)
        assert_allclose(network.answer(new, at)[0], rows @ w, rtol=0, atol=1e-8)
        assert_allclose(network.weights()[k], w, rtol=1e-7, atol=1e-7)
        variance = np.einsum("ij,ji->i", rows, np.linalg.solve(Phi.T @ Phi + 0.01 * np.eye(7), rows.T))
        assert_allclose((network.answer(new, at)[1] ** 2).sum(axis=1), variance, rtol=1e-7)
        covariance = network.noise * (np.eye(len(y1)) + Phi @ Phi.T / 0.01)
        evidence += multivariate_normal(np.zeros(len(y1)), covariance).logpdf(y1)
        left += np.sum((y1 - Phi @ w) ** 2)
        rows_left += len(y1) - np.trace(Phi @ np.linalg.solve(Phi.T @ Phi + 0.01 * np.eye(7), Phi.T))
    assert_allclose(network.evidence, evidence, rtol=1e-9)
    assert_allclose(network.noise, (left + 0.01 * network.growth.loo[-1]) / (rows_left + 0.01), rtol=1e-9)
    assert_array_equal(network.answer(new, np.full(15, 4))[0], 0.0)  # nothing known of the last task


def test_tuned_width_is_the_best_within_its_bounds():
    tasks = tasks_of(12)
    X, y, task = long_form(tasks)
    stack = stack_of(X, y, task, len(tasks))
    candidates, bounds = Candidates.at(np.unique(X, axis=0), stack, 2.0), (0.7, 6.0)
    path = grow(stack, candidates, stack.y, 0.01, 3, bounds=bounds)
    plain = grow(stack, candidates, stack.y, 0.01, 1)
    assert_array_equal(path.basis.centers[0], plain.basis.centers[0])  # centres are chosen before widths
    before = oracle.error(tasks, [], [], 0.01)
    grid = np.exp(np.linspace(*np.log(bounds), 200))
    best = max(before - oracle.error(tasks, path.basis.centers[:1], [w], 0.01) for w in grid)
    gained = -np.diff(path.trace)[1]
    assert gained >= best * (1 - 1e-4)
    assert gained > -np.diff(plain.trace)[1]
    assert np.all((path.basis.widths >= bounds[0] * (1 - 1e-12)) & (path.basis.widths <= bounds[1] * (1 + 1e-12)))


def test_selection_without_labels_follows_gamma():
    """Every step against γ of all rows left, A formed and solved anew; equal rows are taken one by one."""
    rng = np.random.default_rng(13)
    X, task = np.round(rng.uniform(-2, 2, (30, 2)), 0), rng.integers(0, 3, 30)
    model = MultiTaskRBFRegressor(design="multi-task", n_basis=4, ridge=0.1, width=1.5, scale_inputs=False)
    order = model.select(X, 25, tasks=task)
    assert len(set(order.tolist())) == 25
    assert not hasattr(model, "n_features_in_")
    stack = stack_of(X, np.zeros(30), task, 3)
    centers = grow(
        stack, Candidates.at(np.unique(X, axis=0), stack, 1.5), stack.y, 0.1, 4, unsupervised=True
    ).basis.centers
    Phi = oracle.design(X, centers, [1.5] * 4)
    left = list(range(30))
    for row in order.tolist():
        seen = np.array([i for i in range(30) if i not in left], dtype=int)
        values = {i: oracle.gamma(Phi[seen[task[seen] == task[i]]], Phi[i], np.full(5, 0.1)) for i in left}
        assert values[row] >= max(values.values()) * (1 - 1e-9)
        left.remove(row)


@pytest.mark.parametrize("design", ["two-level", "multi-task", "independent", "one"])
def test_selection_goes_on_from_a_fitted_model(design):
    """γ is (1 + variance/σ²)² of the model refitted to each choice with the same units: labels change nothing."""
    rng = np.random.default_rng(14)
    X, task = rng.uniform(-2, 2, (30, 1)), np.arange(30) % 3
    y = np.sin(X[:, 0]) + task
    model = MultiTaskRBFRegressor(design=design, n_basis=2, ridge=0.05, scale_inputs=False, normalize_y=False)
    model.fit(X[:12], y[:12], tasks=task[:12])
    order = 12 + model.select(X[12:], 6, tasks=task[12:])
    bias = getattr(model, "bias_ridge_", 0.05)
    seen = list(range(12))

    def features(rows, k):
        centers, widths = (v[k] if design == "independent" else v for v in (model.centers_, model.widths_))
        own = np.zeros((len(rows), 9))
        if design == "one":
            own[:, :3] = oracle.design(X[rows], centers, widths)
        else:
            own[:, 3 * k : 3 * k + 3] = oracle.design(X[rows], centers, widths)
        ridges = np.tile([bias, 0.05, 0.05], 3)
        if design == "two-level":
            shared = oracle.design(X[rows], model.shared_centers_, model.shared_widths_)
            return np.hstack([own, shared]), np.concatenate([ridges, np.full(3, 0.05)])
        return own, ridges

    for row in order.tolist():
        Phi = np.vstack([features([i], task[i])[0] for i in seen])
        left = [i for i in range(12, 30) if i not in seen]
        values = {i: oracle.gamma(Phi, features([i], task[i])[0][0], features([i], task[i])[1]) for i in left}
        assert values[row] >= max(values.values()) * (1 - 1e-7)
        seen.append(row)


def test_gamma_of_both_levels_is_that_of_the_joint_regression():
    """γ of every choice, in value: labels of one task teach the shared level, and so the other tasks."""
    X, _, task, _, network = of_two_levels()
    levels, ridges = dense(network)
    rng = np.random.default_rng(15)
    new, at = rng.uniform(-3, 3, (12, 2)), np.sort(rng.integers(0, 4, 12))
    _, own, shared = network.answer(new, at)
    starts = np.searchsorted(at, np.arange(5))
    seen, rows = (oracle.two_level_design(a, b, 4, *levels) for a, b in ((X, task), (new, at)))
    for cell, gamma in select_rows(own, shared, starts, np.ones(12), np.full(4, 12), 12):
        assert_allclose(gamma, oracle.gamma(seen, rows[cell], ridges), rtol=1e-8)
        seen = np.vstack([seen, rows[cell]])


def test_school_predictions_agree_with_augmented_qr_at_60_units():
    try:
        data = load_school()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    train = np.random.RandomState(0).permutation(len(data.score))[:11522]
    test = np.setdiff1d(np.arange(len(data.score)), train)[::7]
    X, y, task = data.X[train], data.score[train], data.school[train] - 1
    stack = stack_of(X, y, task, 139)
    path = grow(stack, Candidates.at(np.unique(X, axis=0), stack, 20.0), stack.y, 1e-6, 60)
    assert np.all(path.recursion.q >= 1e-6)
    fits = fits_of(path.recursion, stack.y)
    network = network_of(stack, Sizes(path, 1e-6, no_functions(stack), fits, 60))
    for k in range(0, 139, 3):
        mine, new = task == k, test[data.school[test] - 1 == k]
        Phi = oracle.design(X[mine], path.basis.centers, path.basis.widths)
        w, _ = oracle.ridge_fit(Phi, y[mine], np.full(61, 1e-6))
        rows = oracle.design(data.X[new], path.basis.centers, path.basis.widths)
        assert_allclose(network.answer(data.X[new], np.full(len(new), k))[0], rows @ w, rtol=0, atol=1e-5)
