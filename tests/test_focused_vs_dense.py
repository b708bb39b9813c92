"""The structured focused model against the literal dense equations (5)-(9)."""

from dataclasses import replace

import numpy as np
import pytest

import borrow
import oracles
from borrow import kernels
from borrow.covariance import Basis, Design, SharedCovariance, Sites
from borrow.data.cells import merge
from borrow.models.focused import model as focused
from borrow.models.gp.task_model import directions
from borrow.numerics import optimise as hyper
from borrow.tasks.placed import PlacedTasks, rows_as_tasks

KERNELS = {
    "se": kernels.SquaredExponential(1.3, 0.9),
    "ard": kernels.SquaredExponential(0.8, (0.7, 1.6)),
    "matern12": kernels.Matern(1.1, 0.8, nu=0.5),
    "matern32": kernels.Matern(0.9, (0.8, 1.2), nu=1.5),
    "matern52": kernels.Matern(1.2, 0.9, nu=2.5),
    "rq": kernels.RationalQuadratic(1.1, 0.8, alpha=0.7),
    "periodic": kernels.Periodic(1.0, (0.8, 0.9), (5.3, 4.1)),
    "network": kernels.NeuralNetwork(1.4, (2.0, 1.1), 0.6),
    "sum": kernels.Linear((0.4, 0.7)) + kernels.Constant(0.5) + kernels.Matern(0.9, 0.6, nu=1.5),
    "product": kernels.Linear(0.6) * kernels.SquaredExponential(1.2, 0.8) + kernels.SquaredExponential(0.5, 0.4),
}
LABELS = ["a", "b", "c", "d", "e"]  # c has one row, d has none
SIZES = [7, 9, 1, 0, 5]
PRIMARY = 1
RHO = [0.8, 1.0, -1.3, 0.4, -0.6]
NOISE = [0.1, 0.05, 0.2, 0.3, 0.02]


@pytest.fixture
def problem():
    """Unequal tasks in two columns, with repeated rows inside a task and inputs repeated across tasks."""
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(5), SIZES)
    X = rng.uniform(-2, 2, (len(task), 2))
    X[3] = X[4] = X[2]  # three replicates in task a
    X[17] = X[8]  # task e repeats an input of the primary
    return X, task, rng.normal(size=len(task)), rng.uniform(-2, 2, (6, 2))


def own_kernel(kernel):
    return kernels.Matern(0.6, 0.7, nu=2.5) if isinstance(kernel, kernels.SquaredExponential) else kernel


def fit_fixed(X, task, y, kernel, Z, **more):
    model = borrow.FocusedGPRegressor(
        primary="b",
        kernel=kernel,
        specific_kernel=own_kernel(kernel),
        rho=dict(zip(LABELS, RHO, strict=True)),
        noise=dict(zip(LABELS, NOISE, strict=True)),
        inducing=Z,
        normalize_y=False,
        optimizer=None,
        **more,
    )
    extra = np.array([[0.3, -0.7]])  # an unlabelled row brings the empty task d into being
    return model.fit(np.vstack([X, extra]), np.append(y, np.nan), tasks=[LABELS[t] for t in task] + ["d"])


@pytest.mark.parametrize("name", KERNELS)
def test_evidence_and_predictions_equal_the_dense_formula(name, problem):
    X, task, y, Z = problem
    kernel = KERNELS[name]
    model = fit_fixed(X, task, y, kernel, Z)
    specific = [own_kernel(kernel) if t != PRIMARY else None for t in range(5)]
    new_X = np.random.default_rng(4).uniform(-2.5, 2.5, (8, 2))
    new_task = np.array([0, 1, 1, 2, 3, 4, 1, 0])
    K = oracles.focused_prior(np.vstack([X, new_X]), np.append(task, new_task), RHO, kernel, specific, Z)
    n = len(y)
    noise = np.array(NOISE)[task]
    evidence = oracles.gaussian_log_density(y, K[:n, :n] + np.diag(noise))
    mean, cov = oracles.gaussian_posterior(K, np.arange(n), np.arange(n, n + 8), y, noise)
    assert model.log_marginal_likelihood_ == pytest.approx(evidence, rel=1e-8)
    labels = [LABELS[t] for t in new_task]
    got, got_cov = model.predict(new_X, tasks=labels, return_cov=True)
    np.testing.assert_allclose(got, mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(got_cov, cov, rtol=1e-8, atol=1e-9)
    _, std = model.predict(new_X, tasks=labels, return_std=True)
    np.testing.assert_allclose(std, np.sqrt(np.diag(cov)), rtol=1e-8)
    _, noisy = model.predict(new_X, tasks=labels, return_std=True, include_noise=True)
    np.testing.assert_allclose(noisy**2, np.diag(cov) + np.array(NOISE)[new_task], rtol=1e-8)


def test_float32_inputs_equal_their_float64_copies(problem):
    X, task, y, Z = problem
    X32 = X.astype(np.float32)
    single = fit_fixed(X32, task, y.astype(np.float32), KERNELS["se"], Z)
    double = fit_fixed(X32.astype(float), task, y.astype(np.float32).astype(float), KERNELS["se"], Z)
    assert single.log_marginal_likelihood_ == double.log_marginal_likelihood_


def setup_of(problem, kernel, background=None):
    X, task, y, Z = problem
    cells = merge(X, task, y, np.ones(len(y)), np.ones(len(y)), 5)
    specific = [own_kernel(kernel) if t != PRIMARY else None for t in range(5)]
    setup = focused.Setup(PlacedTasks(cells), PRIMARY, kernel, specific, Z)
    values = {
        "kernel": kernel.theta,
        "rho": np.delete(RHO, PRIMARY),
        "specific": np.concatenate([k.theta for k in specific if k is not None]),
        "noise": np.log(NOISE),
    }
    if background is not None:
        draws = np.random.default_rng(5).normal(size=(4, 2))
        setup = focused.Setup(PlacedTasks(cells), PRIMARY, kernel, specific, Z, background, Z[:4] + 0.1)
        values |= {"background": background.theta, "loadings": draws}
    return setup, values


def dense_evidence(problem, setup, values):
    """log N of the rows written out, from the literal joint covariance."""
    X, task, y, Z = problem
    parts = setup.specific_parts
    specific = [
        None if k is None else k.with_theta(values["specific"][p]) for k, p in zip(setup.specific, parts, strict=True)
    ]
    rho = np.insert(values["rho"], PRIMARY, 1.0)
    more = {}
    if "loadings" in values:
        more = {
            "loadings": np.insert(values["loadings"], PRIMARY, 0.0, axis=0),
            "background": setup.background.with_theta(values["background"]),
            "background_Z": setup.background_Z,
        }
    kernel = setup.kernel.with_theta(values["kernel"])
    if setup.design is None:
        K = oracles.focused_prior(X, task, rho, kernel, specific, Z, **more)
    else:
        K = oracles.focused_exact_prior(X, task, rho, kernel, specific)
    return oracles.gaussian_log_density(y, K + np.diag(np.exp(values["noise"])[task]))


def check_gradients(problem, setup, values):
    value, gradient = focused.focused_objective(setup)(values)
    assert value == pytest.approx(dense_evidence(problem, setup, values), rel=1e-8)
    for part in values:
        expected = oracles.central_difference(
            lambda v, part=part: dense_evidence(problem, setup, {**values, part: v}), values[part]
        )
        np.testing.assert_allclose(gradient[part], expected, rtol=1e-6, atol=1e-6, err_msg=part)


@pytest.mark.parametrize("name", KERNELS)
def test_every_gradient_equals_differences_of_the_dense_evidence(name, problem):
    check_gradients(problem, *setup_of(problem, KERNELS[name]))


@pytest.mark.parametrize("name", ["ard", "matern32", "sum"])
def test_every_gradient_of_the_exact_form_equals_differences_of_the_dense_evidence(name, problem):
    setup, values = setup_of(problem, KERNELS[name])
    check_gradients(problem, replace(setup, design=Design.from_cells(setup.cells)), values)


def test_inducing_inputs_at_every_row_are_the_exact_form(problem):
    """Both algebras on one model: predictions, gains of single tasks, and which signs the evidence wants."""
    setup, values = setup_of(problem, KERNELS["matern32"])
    exact = replace(setup, design=Design.from_cells(setup.cells))
    structured = replace(setup, Z=np.unique(setup.cells.X, axis=0))
    new, task = np.random.default_rng(1).uniform(-2, 2, (6, 2)), np.array([0, 1, 2, 3, 4, 1])
    a, b = (focused.condition(values, s).posterior for s in (exact, structured))
    at_rows = setup.cells.X[[0, 8, 12]], np.array([1, 1, 0])
    np.testing.assert_allclose(a.predict(*at_rows).mean, b.predict(*at_rows).mean, atol=1e-8)
    assert a.predict(new, task).mean.shape == (6,)
    np.testing.assert_allclose(a.evidence_given_others, b.evidence_given_others, rtol=1e-7)
    G, H = a.sign_products(), b.sign_products()
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(G[off], H[off], rtol=1e-6, atol=1e-9)


def test_directions_are_derivatives_of_the_covariance_times_the_coefficients(problem):
    """(K + noise)^-1 and its derivatives by differences of the literal matrix, for scoring steps and the band."""
    X, task, y, Z = problem
    keep = np.sort([i for i in range(len(y)) if i not in (3, 4)])
    problem = X[keep], task[keep], y[keep], Z
    setup, values = setup_of(problem, KERNELS["ard"])
    setup = replace(setup, design=Design.from_cells(setup.cells))
    cells = setup.cells

    def covariance(values):
        own = [
            None if k is None else k.with_theta(values["specific"][p])
            for k, p in zip(setup.specific, setup.specific_parts, strict=True)
        ]
        rho, kernel = np.insert(values["rho"], PRIMARY, 1.0), setup.kernel.with_theta(values["kernel"])
        K = oracles.focused_exact_prior(cells.X, cells.task, rho, kernel, own)
        return K + np.diag(np.exp(values["noise"])[cells.task])

    posterior = focused.condition(values, setup).posterior
    beta = np.linalg.solve(covariance(values), cells.y)
    D = directions(values, posterior, setup)
    x = hyper.pack(values)
    for i in range(x.size):
        up, down = (covariance(hyper.unpack(x + s * 1e-5 * np.eye(x.size)[i], values)) for s in (1, -1))
        np.testing.assert_allclose(D[:, i], (up - down) @ beta / 2e-5, rtol=1e-4, atol=1e-6)


def test_background_functions_equal_the_dense_formula(problem):
    check_gradients(problem, *setup_of(problem, KERNELS["ard"], background=kernels.SquaredExponential(0.7, 1.1)))


def test_prior_on_weights_has_the_gradient_it_claims(problem):
    setup, values = setup_of(problem, KERNELS["sum"], background=kernels.SquaredExponential(0.7, 1.1))
    log_prior = focused.WeightPrior(setup, sd=0.8)
    value, gradient = log_prior(values)
    v = KERNELS["sum"].diag(setup.Z).mean()
    w = values["rho"] * np.sqrt(v)
    b = values["loadings"] * np.sqrt(0.7)
    assert value == pytest.approx(-0.5 * ((w @ w) + (b**2).sum()) / 0.64)
    for part in gradient:
        expected = oracles.central_difference(lambda x, part=part: log_prior({**values, part: x})[0], values[part])
        np.testing.assert_allclose(gradient[part], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("tau_range", [(-1, 1), (-13, 3)])
def test_condition_on_any_sites_equals_dense(problem, tau_range):
    """Evidence, marginals and adjoints for sites as EP makes them: precisions from 1e-13 up, nothing divided by tau."""
    X, task, _, Z = problem
    rng = np.random.default_rng(6)
    order = np.argsort(task, kind="stable")
    keep = order[np.array([i not in (3, 4) for i in order])]  # one row for each function value
    X, task = X[keep], task[keep]
    n = len(X)
    tau = 10.0 ** rng.uniform(*tau_range, n)
    nu = tau * rng.normal(size=n)
    kernel, own = KERNELS["se"], KERNELS["matern32"]
    specific = [own if t != PRIMARY else None for t in range(5)]
    starts = np.searchsorted(task, np.arange(6))
    prior = SharedCovariance(rows_as_tasks(X, starts), [Basis(kernel, Z)], [0], np.array(RHO)[:, None], specific)
    posterior = prior.condition(Sites(nu, tau))
    K = oracles.focused_prior(X, task, RHO, kernel, specific, Z)
    w = np.sqrt(tau)
    evidence = oracles.gaussian_log_density(nu / w, np.eye(n) + w[:, None] * K * w)
    cov = K - K * w @ np.linalg.solve(np.eye(n) + w[:, None] * K * w, w[:, None] * K)
    mean, variance = posterior.marginals()
    assert posterior.evidence == pytest.approx(evidence, rel=1e-10)
    np.testing.assert_allclose(mean, cov @ nu, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(variance, np.diag(cov), rtol=1e-8)


def test_inducing_inputs_have_the_gradient_they_claim(problem):
    X, task, y, Z = problem
    cells = merge(X, task, y, np.ones(len(y)), np.ones(len(y)), 5)
    kernel, specific = KERNELS["ard"], [KERNELS["se"] if t != PRIMARY else None for t in range(5)]

    def posterior(Z):
        prior = SharedCovariance(PlacedTasks(cells), [Basis(kernel, Z)], [0], np.array(RHO)[:, None], specific)
        return prior.condition(Sites(cells.y * 10.0, np.full(len(cells.y), 10.0)))

    expected = oracles.central_difference(lambda z: posterior(z).evidence, Z)
    got = posterior(Z).adjoints(inducing=True).inducing[0]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("left_out", [0, 2, 4])
def test_evidence_given_others_is_what_leaving_the_task_out_costs(problem, left_out):
    setup, values = setup_of(problem, KERNELS["se"])
    prior = focused.prior_of_tasks(values, setup)
    cells = setup.cells
    tau = cells.count / np.exp(values["noise"])[cells.task]
    whole = prior.condition(Sites(tau * cells.y, tau))
    rest = cells.task != left_out
    starts = np.searchsorted(cells.task[rest], np.arange(6))
    without = SharedCovariance(
        rows_as_tasks(cells.X[rest], starts),
        [Basis(KERNELS["se"], setup.Z)],
        [0],
        prior.parameters.weights,
        prior.parameters.specific,
    ).condition(Sites((tau * cells.y)[rest], tau[rest]))
    cost = whole.evidence - without.evidence
    assert whole.evidence_given_others[left_out] == pytest.approx(cost, rel=1e-9)
    assert whole.evidence_given(left_out) == pytest.approx(cost, rel=1e-9)
    np.testing.assert_allclose(whole.of_task(left_out).without(0)[1], without.shared.a, rtol=1e-7, atol=1e-10)
