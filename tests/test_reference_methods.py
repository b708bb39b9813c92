"""The papers' reference methods do what their papers say: a subspace, clusters, a mean shared by tasks."""

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import subspace_angles
from scipy.special import digamma, expit, gammaln, logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracles
from borrow.data.labels import encode
from borrow.kernels import SquaredExponential
from borrow.models.reference import dirichlet_process, regularized, shared_structure
from borrow.models.reference.dirichlet_process import DirichletProcessClassifier
from borrow.models.reference.regularized import RegularizedMultiTaskClassifier
from borrow.models.reference.shared_structure import SharedStructureClassifier

EVERY = [SharedStructureClassifier, DirichletProcessClassifier, RegularizedMultiTaskClassifier]
every = pytest.mark.parametrize("estimator", EVERY)


def draw(W, n, seed, b=0.0):
    """n rows of each task, labels by logistic functions of the weights."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(W)), n)
    X = rng.normal(size=(len(task), W.shape[1]))
    y = rng.uniform(size=len(task)) < expit(np.einsum("ij,ij->i", X, W[task]) + b)
    return X, y.astype(int), task


def directions(n, d, length, seed):
    W = np.random.default_rng(seed).normal(size=(n, d))
    return length * W / np.linalg.norm(W, axis=1, keepdims=True)


def error_alone(model, train, test):
    """One model a task, nothing shared."""
    (X, y, task), (Xs, ys, tasks) = train, test
    wrong = []
    for t in np.unique(task):
        own, new = task == t, tasks == t
        one_class = len(set(y[own])) == 1
        said = y[own][0] if one_class else clone(model).fit(X[own], y[own]).predict(Xs[new])
        wrong.append(np.mean(said != ys[new]))
    return np.mean(wrong)


def error(model, test):
    X, y, task = test
    return np.mean(model.predict(X, tasks=task) != y)


# What all of them owe.


@parametrize_with_checks([e() for e in EVERY])
def test_scikit_learn_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its checks
    check(estimator)


@every
def test_tasks_of_one_class_and_of_no_label_are_legal(estimator):
    X, y, task = draw(directions(4, 3, 3.0, 0), 15, 1)
    labels = y.astype(float)
    labels[task == 1] = 1.0
    labels[task == 2] = 0.0
    labels[task == 3] = np.nan
    model = estimator().fit(X, labels, tasks=task)
    chance = [model.predict_proba(X[:40], tasks=t)[:, 1].mean() for t in range(4)]
    assert chance[1] > 0.6 > 0.4 > chance[2]
    assert np.all(np.isfinite(chance))


@every
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_rows_is_enough_to_fit(estimator, n):
    X = np.arange(2.0 * n).reshape(n, 2)
    model = estimator().fit(np.vstack([X, X]), ["no", *["yes"] * (2 * n - 1)], tasks=["a"] * n + ["b"] * n)
    p = model.predict_proba(X, tasks="b")
    assert np.all((p > 0) & (p < 1))
    assert n == 1 or model.predict(X[-1:], tasks="b").tolist() == ["yes"]  # with one row a task, a no and a yes


@every
def test_repeated_rows_and_constant_columns_are_legal(estimator):
    X, y, task = draw(directions(3, 2, 3.0, 0), 20, 1)
    X = np.column_stack([X, np.full(len(X), 7.0)])
    model = estimator().fit(np.vstack([X, X]), np.append(y, y), tasks=np.append(task, task))
    assert error(model, (X, y, task)) < 0.3


@every
def test_three_classes_are_learnt_with_lists_of_attributes(estimator):
    rng = np.random.default_rng(0)
    centers = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0]])
    code, task = np.tile([0, 1, 2], 30), np.repeat(["p", "q", "r"], 30)
    X = centers[code] + rng.normal(size=(90, 2))
    y = np.array(["red", "green", "blue"])[code]
    model = estimator().fit(X, y, tasks=task)
    assert np.mean(model.predict(X, tasks=task) == y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X, tasks=task).sum(axis=1), 1.0)
    assert model.decision_function(X, tasks=task).shape == (90, 3)
    name = {EVERY[0]: "structure_", EVERY[1]: "bound_trace_", EVERY[2]: "machines_"}[estimator]
    assert isinstance(getattr(model, name), list)
    assert len(getattr(model, name)) == 3


@every
def test_order_of_rows_and_names_of_tasks_do_not_matter(estimator):
    X, y, task = draw(directions(4, 3, 3.0, 0), 12, 1)
    names = np.array(["a", "b", "c", "d"])[task]
    model = estimator().fit(X, y, tasks=task)
    order = np.random.default_rng(0).permutation(len(y))
    other = estimator().fit(X[order], y[order], tasks=names[order])
    np.testing.assert_array_equal(model.predict_proba(X, tasks=task), other.predict_proba(X, tasks=names))


@every
def test_units_of_the_columns_do_not_matter(estimator):
    X, y, task = draw(directions(4, 3, 3.0, 0), 12, 1)
    units = X * [1e-3, 1.0, 500.0] + [5.0, 0.0, -1e3]
    expected = estimator().fit(X, y, tasks=task).decision_function(X, tasks=task)
    got = estimator().fit(units, y, tasks=task).decision_function(units, tasks=task)
    np.testing.assert_allclose(got, expected, atol=0.02)


@every
def test_a_task_unseen_at_fit_is_an_error(estimator):
    X, y, task = draw(directions(2, 3, 3.0, 0), 12, 1)
    with pytest.raises(ValueError, match="unknown task 5"):
        estimator().fit(X, y, tasks=task).predict(X, tasks=5)


REFUSED = [
    (EVERY[0], {"dimension": 0}, r"dimension=0: expected 'auto' or a whole number of at least 1"),
    (EVERY[0], {"dimension": "all"}, r"dimension='all': expected 'auto' or a whole"),
    (
        EVERY[0],
        {"dimension": 2},
        r"dimension=2: expected at most 1, with 2 tasks that have labelled rows and 3 columns",
    ),
    (EVERY[0], {"n_iter": 1.5}, r"n_iter=1.5: expected a whole number of at least 1"),
    (EVERY[0], {"regularization": 0}, r"regularization of task 0 is 0.0; expected a positive number"),
    (EVERY[0], {"regularization": {7: 1.0}}, r"regularization names the task 7; tasks are 0, 1"),
    (EVERY[1], {"concentration": -1}, r"concentration=-1: expected 'auto' or a positive number"),
    (EVERY[1], {"concentration": "low"}, r"concentration='low': expected 'auto' or a positive number"),
    (EVERY[1], {"prior_variance": 0}, r"prior_variance=0: expected .auto. or a positive number"),
    (EVERY[1], {"tol": None}, r"tol=None: expected a positive number"),
    (EVERY[1], {"n_components": 0}, r"n_components=0: expected None or a whole number of at least 1"),
    (EVERY[1], {"max_iter": None}, r"max_iter=None: expected a whole number of at least 1"),
    (EVERY[2], {"mu": 0}, r"mu=0: expected a positive number"),
    (EVERY[2], {"C": np.inf}, r"C=inf: expected a positive number"),
    (EVERY[2], {"tol": -1}, r"tol=-1: expected a positive number"),
    (EVERY[2], {"kernel": "poly"}, r"kernel='poly': expected 'linear', 'rbf' or a function of two tables"),
    (EVERY[2], {"gamma": "auto"}, r"gamma='auto': expected 'scale' or a positive number"),
]


@pytest.mark.parametrize(("estimator", "settings", "message"), REFUSED)
def test_settings_are_refused_in_a_sentence(estimator, settings, message):
    X, y, task = draw(directions(2, 3, 3.0, 0), 12, 1)
    with pytest.raises(ValueError, match=message):
        estimator(**settings).fit(X, y, tasks=task)


# Ando & Zhang: a subspace is shared.


@pytest.fixture(scope="module")
def subspace():
    """Twenty tasks of 25 rows, twenty columns; the weights lie in two dimensions."""
    basis = np.linalg.qr(np.random.default_rng(3).normal(size=(20, 2)))[0]
    W = directions(20, 2, 5.0, 4) @ basis.T
    return basis, draw(W, 25, 5), draw(W, 200, 6)


def test_shared_subspace_is_found_and_lowers_the_error(subspace):
    basis, train, test = subspace
    X, y, task = train
    model = SharedStructureClassifier(dimension=2).fit(X, y, tasks=task)
    found = model.structure_ / X.std(axis=0)  # to directions in the units of X
    random = subspace_angles(directions(2, 20, 1.0, 0).T, basis).max()
    assert subspace_angles(found.T, basis).max() < np.radians(30) < np.radians(60) < random
    alone = min(error_alone(LogisticRegression(C=c), train, test) for c in (0.1, 1.0, 10.0))
    assert error(model, test) < 0.75 * alone


def test_more_rows_pin_the_subspace_down(subspace):
    basis, _, (X, y, task) = subspace
    model = SharedStructureClassifier(dimension=2).fit(X, y, tasks=task)
    assert subspace_angles((model.structure_ / X.std(axis=0)).T, basis).max() < np.radians(8)


def test_alternation_never_raises_the_objective(subspace):
    X, y, task = subspace[1]
    model = SharedStructureClassifier(dimension=2, n_iter=12).fit(X, y, tasks=task)
    trace = np.array(model.objective_trace_)
    assert len(trace) > 3
    assert np.all(np.diff(trace) <= 1e-9)
    assert trace[1] < trace[0] - 0.1
    np.testing.assert_allclose(model.structure_ @ model.structure_.T, np.eye(2), atol=1e-12)


def test_structure_minimises_what_the_specific_parts_pay():
    rng = np.random.default_rng(0)
    U, lam = rng.normal(size=(6, 5)), rng.uniform(0.1, 3.0, 6)

    def cost(Theta):
        return lam @ np.sum((U - U @ Theta.T @ Theta) ** 2, axis=1)

    least = cost(shared_structure.structure(U, lam, 2))
    assert all(cost(np.linalg.qr(rng.normal(size=(5, 2)))[0].T) > least for _ in range(200))


def test_tasks_that_pay_more_have_more_say_in_the_structure():
    Theta = shared_structure.structure(np.diag([2.0, 1.0]), np.array([1.0, 100.0]), 1)
    np.testing.assert_allclose(np.abs(Theta), [[0.0, 1.0]], atol=1e-12)


def test_gradient_of_a_task_equals_differences():
    X, y, _ = draw(directions(1, 4, 2.0, 0), 15, 1)
    Theta = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 2)))[0].T
    at = np.random.default_rng(3).normal(size=5)
    arguments = X, 2.0 * y - 1.0, Theta, 0.3
    expected = oracles.central_difference(lambda v: shared_structure.task_loss(v, *arguments)[0], at)
    np.testing.assert_allclose(shared_structure.task_loss(at, *arguments)[1], expected, rtol=1e-6, atol=1e-8)


def test_the_shared_part_of_the_weights_is_almost_free():
    """With no row that says otherwise, a weight pays lambda outside the structure and about lambda/100 inside."""
    X, y, Theta = np.zeros((1, 2)), np.ones(1), np.array([[1.0, 0.0]])
    at_zero = shared_structure.task_loss(np.zeros(3), X, y, Theta, 0.5)[0]
    inside, outside = (shared_structure.task_loss(np.append(u, 0.0), X, y, Theta, 0.5)[0] - at_zero for u in np.eye(2))
    assert outside == pytest.approx(0.5)
    assert 0 < inside < 0.02 * outside


def test_one_task_is_a_ridge_logistic_regression():
    X, y, _ = draw(directions(1, 4, 2.0, 0), 40, 1)
    X, y = np.vstack([X, -X]), np.append(y, 1 - y)  # symmetric, so that the intercept is 0
    X /= X.std(axis=0)
    model = SharedStructureClassifier(regularization=0.05).fit(X, y)
    ridge = LogisticRegression(C=1 / (2 * 0.05 * len(y)), tol=1e-10, max_iter=1000).fit(X, y)
    assert model.structure_.shape == (0, 4)
    np.testing.assert_allclose(model.coef_[0], ridge.coef_[0], rtol=1e-4)
    np.testing.assert_allclose(model.decision_function(X), ridge.decision_function(X), rtol=1e-4, atol=1e-6)


def test_automatic_dimension_explains_four_fifths_of_the_variance():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(300, 3))
    X = factors @ rng.normal(size=(3, 9)) + 0.05 * rng.normal(size=(300, 9))
    y, task = (X[:, 0] + rng.normal(size=300) > 0).astype(int), np.tile(np.arange(10), 30)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    shares = np.sort(np.linalg.eigvalsh(np.cov(scaled.T)))[::-1].cumsum()
    expected = 1 + int(np.sum(shares / shares[-1] < 0.8))
    assert expected in (2, 3)
    assert SharedStructureClassifier().fit(X, y, tasks=task).structure_.shape == (expected, 9)
    two = SharedStructureClassifier().fit(X, y, tasks=np.tile([0, 1], 150))  # smaller than the number of tasks
    assert two.structure_.shape == (1, 9)


def test_weights_are_in_the_units_given(subspace):
    X, y, task = subspace[1]
    model = SharedStructureClassifier(dimension=2).fit(3.0 * X + 1.0, y, tasks=task)
    by_hand = (3.0 * X[:25] + 1.0) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(3.0 * X[:25] + 1.0, tasks=0), by_hand, rtol=1e-10)


# Xue, Liao, Carin & Krishnapuram: tasks fall into clusters.

GROUPS = {
    "one": np.tile(directions(1, 4, 3.0, 0), (8, 1)),
    "opposite": np.repeat([[1.0], [-1.0]], [5, 3], axis=0) * directions(1, 4, 3.0, 0),
}


@pytest.mark.parametrize("groups", GROUPS)
def test_clusters_of_tasks_are_found(groups):
    W = GROUPS[groups]
    (X, y, task), test = draw(W, 20, 1), draw(W, 200, 2)
    model = DirichletProcessClassifier().fit(X, y, tasks=task)
    found = [model.clusters_[t] for t in range(8)]
    assert len(set(found)) == (1 if groups == "one" else 2)
    assert len(set(found[:5])) == len(set(found[5:])) == 1
    assert model.responsibilities_.shape == (8, 8)
    np.testing.assert_allclose(model.responsibilities_.sum(axis=1), 1.0)
    assert model.responsibilities_.max(axis=1).min() > 0.99
    assert error(model, test) < 0.85 * error_alone(LogisticRegression(), (X, y, task), test)


@pytest.mark.parametrize("concentration", ["auto", 0.3, 5.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bound_never_falls(concentration, seed):
    X, y, task = draw(directions(7, 3, 2.0, seed), 9, seed)
    model = DirichletProcessClassifier(concentration=concentration, tol=1e-9, max_iter=3000).fit(X, y, tasks=task)
    trace = np.array(model.bound_trace_)
    assert len(trace) == model.n_iter_ > 10
    assert np.all(np.diff(trace) > -1e-9)
    assert trace[-1] > trace[0]
    assert concentration == "auto" or model.concentration_ == concentration


def test_bound_is_below_the_evidence_and_near_it():
    """Two tasks, two sticks of concentration 1: the evidence by quadrature over one weight and the intercept."""
    X, y, task = draw(np.array([[2.0], [2.0]]), 6, 0)
    model = DirichletProcessClassifier(concentration=1.0, prior_variance=4.0).fit(X, y, tasks=task)
    Z = (X - X.mean()) / X.std()
    grid = np.linspace(-14.0, 14.0, 281)
    w, b = (g.ravel() for g in np.meshgrid(grid, grid))
    log_prior = -(w**2 + b**2) / 8.0 - np.log(8.0 * np.pi) + 2.0 * np.log(grid[1] - grid[0])

    def log_likelihood(t):
        own = task == t
        return -np.logaddexp(0.0, -(2.0 * y[own] - 1.0) * (np.outer(w, Z[own, 0]) + b[:, None])).sum(axis=1)

    together = logsumexp(log_prior + log_likelihood(0) + log_likelihood(1))
    apart = logsumexp(log_prior + log_likelihood(0)) + logsumexp(log_prior + log_likelihood(1))
    same = 2.0 / 3.0  # E V^2 + (1 - V)^2 for V uniform
    evidence = np.logaddexp(np.log(same) + together, np.log(1.0 - same) + apart)
    assert evidence - 1.5 < model.bound_trace_[-1] < evidence


def test_bound_is_the_sum_of_its_expectations_and_entropies():
    """E log p(y, z, w, V, alpha) and the entropies of q, one by one, those by SciPy."""
    X, y, task = draw(directions(4, 2, 2.0, 0), 6, 1)
    X, sign, starts, v = dirichlet_process.with_one(X), 2.0 * y - 1.0, np.arange(0, 25, 6), 3.0
    phi = np.random.default_rng(2).dirichlet(np.ones(3), 4)
    before = dirichlet_process.begin(X, sign, starts, phi, v, None, 2)
    after = dirichlet_process.sweep(X, sign, starts, before, v, None)
    V = stats.beta(*dirichlet_process.sticks(before.phi, before.alpha)[:2])
    log_V, log_rest = (np.array([beta.expect(np.log) for beta in map(stats.beta, *p)]) for p in (V.args, V.args[::-1]))
    rate = 0.05 - log_rest.sum()
    alpha = stats.gamma(2.05, scale=1.0 / rate)
    log_alpha = digamma(2.05) - np.log(rate)
    mean = X @ after.theta.T
    log_pi = np.append(log_V, 0.0) + np.append(0.0, np.cumsum(log_rest))
    rows = -np.logaddexp(0.0, -after.xi) + 0.5 * (sign[:, None] * mean - after.xi)
    total = np.sum(after.phi[task] * rows) + np.sum(after.phi * log_pi) + stats.entropy(after.phi, axis=1).sum()
    total += np.sum(log_alpha + (alpha.mean() - 1.0) * log_rest + V.entropy())
    total += 0.05 * np.log(0.05) - gammaln(0.05) - 0.95 * log_alpha - 0.05 * alpha.mean() + alpha.entropy()
    for theta, Gamma in zip(after.theta, after.Gamma, strict=True):
        square = theta @ theta + np.trace(Gamma)
        total += -1.5 * np.log(2.0 * np.pi * v) - square / (2.0 * v) + stats.multivariate_normal(theta, Gamma).entropy()
    assert after.alpha == pytest.approx(alpha.mean())
    assert after.trace[-1] == pytest.approx(total, abs=1e-6)


def test_logistic_bound_touches_at_xi_and_holds_elsewhere():
    z, xi = np.linspace(-8.0, 8.0, 321), np.array([0.0, 0.5, 3.0])[:, None]
    exact = -np.logaddexp(0.0, -z)
    bound = -np.logaddexp(0.0, -xi) + (z - xi) / 2 - dirichlet_process.curvature(xi) * (z**2 - xi**2)
    assert np.all(bound <= exact + 1e-12)
    np.testing.assert_allclose(np.min(exact - bound, axis=1), 0.0, atol=1e-12)


def test_probability_is_the_logistic_function_averaged_over_the_posterior():
    X, y, task = draw(GROUPS["opposite"], 8, 1)
    model = DirichletProcessClassifier(prior_variance=10.0, tol=1e-6).fit(X, y, tasks=task)
    rng, state = np.random.default_rng(0), model.fitted_.model[0].state
    new = rng.normal(size=(20, 4))
    rows = np.column_stack([(new - X.mean(axis=0)) / X.std(axis=0), np.ones(20)])
    expected = np.zeros(20)
    for phi, theta, Gamma in zip(state.phi[0], state.theta, state.Gamma, strict=True):
        expected += phi * expit(rows @ rng.multivariate_normal(theta, Gamma, 40_000).T).mean(axis=1)
    np.testing.assert_allclose(model.predict_proba(new, tasks=0)[:, 1], expected, atol=0.015)
    sure = expit(rows @ state.theta[model.clusters_[0]])
    assert np.mean(np.abs(expected - 0.5)) < np.mean(np.abs(sure - 0.5))


def test_average_weighs_every_start_and_variance_by_its_bound(monkeypatch):
    """By hand: each start and variance fitted by itself, weights by the twentieth root of exp(bound)."""
    X, y, task = draw(directions(5, 3, 2.0, 1), 12, 0)
    new = np.random.default_rng(3).normal(size=(15, 3))
    average = DirichletProcessClassifier().fit(X, y, tasks=task)
    every, p, bound = dirichlet_process.partitions, [], []
    for v in (0.3, 1.0, 3.0):
        for i in range(6):  # groups of 1 to 5 tasks, and one at random
            with monkeypatch.context() as m:
                m.setattr(dirichlet_process, "partitions", lambda *given, i=i: every(*given)[i : i + 1])
                one = DirichletProcessClassifier(prior_variance=v).fit(X, y, tasks=task)
            p.append(one.predict_proba(new, tasks=2)[:, 1])
            bound.append(one.bound_trace_[-1])
    weight = np.exp((np.array(bound) - max(bound)) / 20.0)
    np.testing.assert_allclose(average.predict_proba(new, tasks=2)[:, 1], weight @ p / weight.sum(), atol=1e-8)
    assert average.bound_trace_[-1] == max(bound)
    assert np.ptp(p, axis=0).max() > 0.02


def test_one_component_pools_the_tasks():
    X, y, task = draw(GROUPS["one"], 40, 1)
    model = DirichletProcessClassifier(n_components=1).fit(X, y, tasks=task)
    pooled = LogisticRegression(C=10.0).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    np.testing.assert_allclose(model.fitted_.model[0].state.theta[0, :4], pooled.coef_[0], atol=0.15)
    assert set(model.clusters_.values()) == {0}


def test_more_components_than_tasks_are_legal():
    X, y, task = draw(GROUPS["opposite"], 20, 1)
    model = DirichletProcessClassifier(n_components=12).fit(X, y, tasks=task)
    assert model.responsibilities_.shape == (8, 12)
    assert len(set(model.clusters_.values())) == 2


def test_large_concentration_keeps_more_clusters():
    X, y, task = draw(directions(10, 3, 2.0, 2), 12, 0)
    few, many = (
        DirichletProcessClassifier(concentration=c, prior_variance=10.0).fit(X, y, tasks=task).clusters_
        for c in (1e-3, 100.0)
    )
    assert len(set(few.values())) < len(set(many.values()))


def test_too_few_sweeps_are_told():
    X, y, task = draw(GROUPS["opposite"], 20, 1)
    with pytest.warns(ConvergenceWarning, match=r"still rises after 3 sweeps; raise max_iter \(now 3\) or tol"):
        model = DirichletProcessClassifier(max_iter=3).fit(X, y, tasks=task)
    assert not model.converged_
    assert model.n_iter_ == 3


# Evgeniou & Pontil: a mean is shared.


def test_shared_mean_lowers_the_error():
    W = directions(1, 10, 4.0, 0) + 0.3 * np.random.default_rng(1).normal(size=(12, 10))
    train, test = draw(W, 10, 2), draw(W, 200, 3)
    model = RegularizedMultiTaskClassifier(mu=0.3).fit(train[0], train[1], tasks=train[2])
    alone = min(error_alone(SVC(kernel="linear", C=c), train, test) for c in (0.1, 1.0, 10.0))
    assert error(model, test) < 0.7 * alone


def test_tasks_with_means_apart_want_a_large_mu():
    W = np.array([[4.0, 0.0, 0.0], [-4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, -4.0, 0.0]])
    (X, y, task), test = draw(W, 20, 2), draw(W, 200, 3)
    models = [RegularizedMultiTaskClassifier(mu=mu, C=min(mu, 1.0)).fit(X, y, tasks=task) for mu in (1e-4, 100.0)]
    assert error(models[1], test) < 0.5 * error(models[0], test)


def scaled(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_small_mu_is_one_machine_for_all_tasks(kernel):
    X, y, task = draw(directions(3, 4, 2.0, 0), 20, 1, b=0.5)
    model = RegularizedMultiTaskClassifier(mu=1e-9, C=5e-11, kernel=kernel, gamma=0.2, tol=1e-7).fit(X, y, tasks=task)
    pooled = SVC(kernel=kernel, C=0.05, gamma=0.2, tol=1e-7).fit(scaled(X), y)
    for t in range(3):
        margin = model.machines_.margin(X, np.full(len(X), t))
        np.testing.assert_allclose(margin, pooled.decision_function(scaled(X)), atol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_large_mu_is_one_machine_a_task(kernel):
    """On rows symmetric about the origin, where every task's own intercept is 0, as the common one is."""
    X, y, task = draw(directions(3, 4, 2.0, 0), 12, 1)
    X, y, task = np.vstack([X, -X]), np.append(y, 1 - y), np.append(task, task)
    model = RegularizedMultiTaskClassifier(mu=1e10, C=0.05, kernel=kernel, gamma=0.2, tol=1e-7).fit(X, y, tasks=task)
    for t in range(3):
        own = task == t
        alone = SVC(kernel=kernel, C=0.05, gamma=0.2, tol=1e-7).fit(scaled(X)[own], y[own])
        margin = model.machines_.margin(X, np.full(len(X), t))
        np.testing.assert_allclose(margin, alone.decision_function(scaled(X)), atol=1e-6)


def inside(model, task):
    """Codes of tasks as the model has them."""
    return encode(task.tolist(), model.fitted_.schema.labels)


def test_kernel_machine_solves_the_paper_s_problem():
    """The dual's weights, written out, cannot be bettered in mu/2 w_0'w_0 + 1/2 sum v_t'v_t + C sum hinge."""
    X, y, task = draw(directions(3, 4, 2.0, 0), 15, 1, b=0.5)
    mu, C, rng = 0.4, 0.8, np.random.default_rng(2)
    model = RegularizedMultiTaskClassifier(mu=mu, C=C, tol=1e-6).fit(X, y, tasks=task)
    machine, task = model.machines_, inside(model, task)
    rows, sign = np.column_stack([scaled(X), np.ones(len(X))]), 2.0 * y - 1.0
    support = np.column_stack([(machine.X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(machine.X))])
    terms = machine.coefficients[:, None] * support
    w0, v = terms.sum(axis=0) / mu, np.array([terms[machine.task == t].sum(axis=0) for t in range(3)])

    def objective(w0, v, b):
        f = np.einsum("ij,ij->i", rows, w0 + v[task]) + b
        return mu / 2 * w0 @ w0 + 0.5 * np.sum(v**2) + C * np.maximum(0.0, 1.0 - sign * f).sum()

    best = objective(w0, v, machine.intercept)
    for step in (1e-1, 1e-2, 1e-3) * 30:
        moved = w0 + step * rng.normal(size=5), v + step * rng.normal(size=(3, 5))
        assert objective(*moved, machine.intercept + step * rng.normal()) > best - 1e-6
    margin = np.einsum("ij,ij->i", rows, w0 + v[task]) + machine.intercept
    np.testing.assert_allclose(machine.margin(X, task), margin, atol=1e-9)


def test_a_function_as_kernel_sees_the_rows_as_they_are():
    X, y, task = draw(directions(3, 2, 2.0, 0), 20, 1)
    X = X * [10.0, 0.1] + 3.0
    ours = SquaredExponential(1.0, tuple(X.std(axis=0)))  # gamma = 1/2 in scaled columns
    by_function = RegularizedMultiTaskClassifier(kernel=ours, tol=1e-8).fit(X, y, tasks=task)
    by_name = RegularizedMultiTaskClassifier(kernel="rbf", gamma=0.5, tol=1e-8).fit(X, y, tasks=task)
    expected = by_name.decision_function(X, tasks=task)
    np.testing.assert_allclose(by_function.decision_function(X, tasks=task), expected, atol=1e-5)
    scale = RegularizedMultiTaskClassifier(kernel="rbf", tol=1e-8).fit(X, y, tasks=task)  # 1 / (two columns)
    np.testing.assert_allclose(scale.decision_function(X, tasks=task), expected, atol=1e-9)


def test_probabilities_are_calibrated_by_rows_held_out():
    W = directions(1, 10, 3.0, 0) + 0.2 * np.random.default_rng(1).normal(size=(8, 10))
    (X, y, task), (Xs, ys, tasks) = draw(W, 15, 2, b=-1.0), draw(W, 500, 3, b=-1.0)
    model = RegularizedMultiTaskClassifier().fit(X, y, tasks=task)
    p = model.predict_proba(Xs, tasks=tasks)[:, 1]
    margin = model.machines_.margin(X, inside(model, task))
    seen = regularized.sigmoid(margin, 2.0 * y - 1.0)
    overconfident = expit(seen[0] * model.machines_.margin(Xs, inside(model, tasks)) + seen[1])

    def loss(q):
        return -np.mean(np.where(ys == 1, np.log(q), np.log(1.0 - q)))

    assert loss(p) < loss(np.full(len(ys), ys.mean())) < loss(overconfident)
    for low in (0.0, 0.25, 0.5):
        bin_ = (p >= low) & (p < low + 0.25)
        assert bin_.sum() > 100
        assert abs(p[bin_].mean() - ys[bin_].mean()) < 0.12


def test_sigmoid_recovers_its_own_parameters_and_never_turns_margins_round():
    rng = np.random.default_rng(0)
    margins = rng.normal(size=20_000)
    y = np.where(rng.uniform(size=20_000) < expit(3.0 * margins - 1.0), 1.0, -1.0)
    np.testing.assert_allclose(regularized.sigmoid(margins, y), (3.0, -1.0), atol=0.12)
    np.testing.assert_allclose(regularized.sigmoid(1e3 * margins, y), (3e-3, -1.0), rtol=0.05)
    apart = np.array([1.0, 1.0, -1.0, -1.0, -1.0])  # Platt's targets: (2 + 1)/(2 + 2) and 1/(3 + 2)
    np.testing.assert_allclose(regularized.sigmoid(apart, apart), (np.log(12) / 2, np.log(0.75) / 2), rtol=1e-3)
    slope, offset = regularized.sigmoid(-margins, y)
    assert 0.0 < slope < 0.02
    assert expit(offset - slope * margins).mean() == pytest.approx(np.mean(y > 0), abs=1e-3)
    slope, offset = regularized.sigmoid(np.zeros(4), np.array([1.0, -1.0, 1.0, -1.0]))
    assert slope > 0.0
    assert offset == pytest.approx(0.0, abs=1e-9)
    assert regularized.sigmoid(None, y) == (1.0, 0.0)


def test_held_out_margins_come_from_machines_that_did_not_see_the_row():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.tile([1.0, -1.0], 10)
    K = X @ X.T + 100.0 * np.eye(20)  # every row is separable from the rest by itself
    coefficients, intercept = regularized.solve(K, y, 1.0, 1e-6)
    assert np.all(y * (K @ coefficients + intercept) > 0)
    assert np.mean(y * regularized.held_out(K, y, 1.0, 1e-6, 0) > 0) < 0.9
    assert regularized.held_out(K[:4, :4], np.array([1.0, -1.0, -1.0, -1.0]), 1.0, 1e-6, 0) is None


def test_global_random_state_is_left_alone():
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(40, 2)), rng.integers(0, 2, 40), np.repeat([0, 1], 20)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - this is the state in question
    RegularizedMultiTaskClassifier().fit(X, y, tasks=task)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
