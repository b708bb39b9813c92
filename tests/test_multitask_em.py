"""EM of the symmetric model against the printed updates, its promise never to decrease, and the gradient's optimum."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import borrow
import oracles_multitask as oracle
from borrow.covariance import Design
from borrow.data.cells import merge
from borrow.data.scaling import column_scales
from borrow.inference.priors import kernel_prior, noise_prior
from borrow.kernels import Matern, SquaredExponential
from borrow.models.multitask.em import em_step, maximise_by_em, update_kernel, update_noise, update_task_covariance
from borrow.models.multitask.model import AS_PRINTED, Setup, condition, objective_of
from borrow.models.multitask.search import optimise
from borrow.models.multitask.task_covariance import FreeForm, LowRank
from borrow.tasks.placed import PlacedTasks

ROUGH = Matern(1.0, 0.7, nu=0.5, fixed=("variance",))
B = np.array([[1.0, 0.6, -0.3], [0.6, 1.4, 0.2], [-0.3, 0.2, 0.8]])
NOISE = np.array([0.1, 0.3, 0.2])
SCALES = np.array([1.1])


def observations(missing, seed=0, N=9):
    """N inputs x 3 tasks, NaN where not observed; every input is seen somewhere."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 4, N))[:, None]
    F = np.linalg.cholesky(ROUGH(X)) @ rng.normal(size=(N, 3)) @ np.linalg.cholesky(B).T
    Y = F + rng.normal(size=(N, 3)) * np.sqrt(NOISE)
    if missing:
        Y[[0, 3, 3, 5, 7], [1, 0, 2, 2, 0]] = np.nan
    return X, Y


def setup_of(X, Y, strength=None, share_noise=False, path=None, kernel=ROUGH):
    N, M = Y.shape
    seen = np.isfinite(Y.T.ravel())
    task, rows = np.repeat(np.arange(M), N)[seen], np.tile(X, (M, 1))[seen]
    ones = np.ones(len(task))
    cells = merge(rows, task, Y.T.ravel()[seen], ones, ones, M)
    design = Design.from_cells(cells)
    path = path or ("complete" if design.complete else "dense")
    return Setup(PlacedTasks(cells), design, kernel, FreeForm(M, strength), path, share_noise=share_noise)


def as_the_design_has_them(setup, X, Y):
    """Inputs and targets in the order of the design."""
    order = np.searchsorted(X[:, 0], setup.design.inputs[:, 0])
    return X[order], Y[order]


def values_of(setup, share_noise=False):
    noise = np.log([0.2]) if share_noise else np.log(NOISE)
    return {"kernel": setup.kernel.theta, "noise": noise, **setup.form.of_matrix(B)}


def ppca_setup(X, Y, strength=None, rank=1):
    setup = setup_of(X, Y, strength)
    return replace(setup, form=LowRank(3, rank, "isotropic", strength))


def nystrom_setup(X, Y, strength=None, inducing=(0, 2, 4, 6, 8), kernel=ROUGH):
    return replace(setup_of(X, Y, strength, kernel=kernel), path=AS_PRINTED, Z=X[list(inducing)])


@pytest.mark.parametrize("case", ["complete", "complete, dense", "missing"])
def test_updates_are_the_printed_ones(case):
    X, Y = observations(case == "missing")
    setup = setup_of(X, Y, path="dense" if "dense" in case else None)
    values = values_of(setup)
    adjoints, by = condition(values, setup).gradient()
    expected_B, expected_noise = oracle.em_updates(ROUGH(X), B, NOISE, Y)
    rows = np.isfinite(Y).sum(axis=0)
    np.testing.assert_allclose(update_task_covariance(B, adjoints.B, len(X), None), expected_B, rtol=0, atol=1e-8)
    np.testing.assert_allclose(update_noise(NOISE, by["noise"], rows, 1e-6, False), expected_noise, rtol=0, atol=1e-8)
    new = em_step(values, setup, SCALES, None)
    np.testing.assert_allclose(setup.form.parts(new).B, expected_B, rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.exp(new["noise"]), expected_noise, rtol=0, atol=1e-8)


def test_shared_noise_is_the_mean_over_all_rows():
    X, Y = observations(True)
    setup = setup_of(X, Y, share_noise=True)
    new = em_step(values_of(setup, share_noise=True), setup, SCALES, None)
    _, by_task = oracle.em_updates(ROUGH(X), B, np.full(3, 0.2), Y)
    rows = np.isfinite(Y).sum(axis=0)
    np.testing.assert_allclose(np.exp(new["noise"]), [by_task @ rows / rows.sum()], rtol=0, atol=1e-8)


def test_replicates_are_updated_as_the_rows_written_out():
    """A cell of three rows, its scatter among it, gives the noise that the three rows give: <|y - f|^2> over rows."""
    rng = np.random.default_rng(1)
    X, task = np.repeat([[0.0], [1.0], [2.5]], 3, axis=0), np.zeros(9, dtype=int)
    y, ones = rng.normal(size=9), np.ones(9)
    cells = merge(X, task, y, ones, ones, 1)
    setup = Setup(PlacedTasks(cells), Design.from_cells(cells), ROUGH, FreeForm(1, None), "dense")
    noise, variance = 0.3, 1.2
    values = {"kernel": ROUGH.theta, "noise": np.log([noise]), "factor": np.sqrt([variance])}
    K = variance * ROUGH(X)
    mean, cov = oracle.predict(K, K, K, y, np.full(9, noise))
    new = em_step(values, setup, SCALES, None)
    assert np.exp(new["noise"][0]) == pytest.approx(np.mean((y - mean) ** 2 + np.diag(cov)), abs=1e-8)
    first = np.arange(0, 9, 3)
    second = cov[np.ix_(first, first)] + np.outer(mean[first], mean[first])
    moment = np.trace(np.linalg.solve(ROUGH(X[first]), second)) / 3
    assert setup.form.parts(new).B[0, 0] == pytest.approx(moment, abs=1e-8)


def test_moment_of_the_inputs_is_the_printed_one():
    """sum_lm (B^-1)_lm <f_l f_m'> = M K + 2 K bK K, from all moments of F written out."""
    for missing in (False, True):
        X, Y = observations(missing)
        setup = setup_of(X, Y)
        X, Y = as_the_design_has_them(setup, X, Y)
        K, N = ROUGH(X), len(X)
        S = 3 * K + 2 * K @ condition(values_of(setup), setup).posterior.by_inputs() @ K
        joint, y = np.kron(B, K), Y.T.ravel()
        seen = np.isfinite(y)
        noisy = joint[np.ix_(seen, seen)] + np.diag(np.repeat(NOISE, N)[seen])
        gain = joint[:, seen] @ np.linalg.inv(noisy)
        mean = gain @ y[seen]
        second = joint - gain @ joint[seen] + np.outer(mean, mean)
        inverse, expected = np.linalg.inv(B), np.zeros((N, N))
        for l in range(3):
            for m in range(3):
                expected += inverse[l, m] * second[l * N : (l + 1) * N, m * N : (m + 1) * N]
        np.testing.assert_allclose(S, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("prior", ["auto", None])
def test_kernel_update_maximises_its_part_of_the_expected_log_posterior(prior):
    X, Y = observations(True)
    setup = setup_of(X, Y)
    X, Y = as_the_design_has_them(setup, X, Y)
    G = np.random.default_rng(0).normal(size=(9, 30))
    S = 3.0 * Matern(1.0, 1.9, nu=0.5)(X) + 0.02 * G @ G.T
    found = update_kernel(values_of(setup), setup, S, SCALES, prior, 200)

    def expected_log_posterior(log_lengthscale):
        K = Matern(1.0, float(np.exp(log_lengthscale)), nu=0.5)(X)
        value = -0.5 * (3 * np.linalg.slogdet(K)[1] + np.trace(np.linalg.solve(K, S)))
        return value + (
            0.0 if prior is None else kernel_prior(ROUGH, SCALES).log_density(np.array([log_lengthscale]))[0]
        )

    grid = np.linspace(-1.0, 2.0, 3001)
    best = grid[np.argmax([expected_log_posterior(g) for g in grid])]
    assert found[0] == pytest.approx(best, abs=2e-3)


def test_updates_with_priors_maximise_the_expected_log_posterior():
    rng = np.random.default_rng(2)
    bB, N, strength = rng.normal(size=(3, 3)), 9, 3.0
    bB = 0.1 * (bB + bB.T)
    moment = N * update_task_covariance(B, bB, N, None)
    new = update_task_covariance(B, bB, N, strength)

    def of_matrix(K):
        inverse, logdet = np.linalg.inv(K), np.linalg.slogdet(K)[1]
        return -0.5 * (N * logdet + np.trace(inverse @ moment)) - 0.5 * strength * (np.trace(inverse) + logdet)

    for _ in range(30):
        other = new + 0.01 * (lambda A: A + A.T)(rng.normal(size=(3, 3)))
        assert of_matrix(other) < of_matrix(new)
    rows, by = np.array([9.0, 5.0, 0.0]), np.array([2.0, -1.5, 0.0])
    squares = NOISE * (rows + 2 * by)
    u = np.log(update_noise(NOISE, by, rows, 1e-6, True))
    slope = -0.5 * rows + 0.5 * squares * np.exp(-u) + noise_prior().log_density(u)[1]
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)
    least = 1.5 * np.exp(u.min())
    held = update_noise(NOISE, by, rows, least, True)
    assert held.min() == pytest.approx(least)
    assert held.max() > np.exp(u.max())  # the floor of one draws the others
    assert update_noise(NOISE, by, rows, 1e-6, False)[2] == NOISE[2]  # no row and no prior: as it was


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("share_noise", [False, True])
@pytest.mark.parametrize("strength", [None, 3.0])
@pytest.mark.parametrize("prior", ["auto", None])
def test_a_step_never_decreases_the_objective(missing, share_noise, strength, prior):
    for seed in range(3):
        setup = setup_of(*observations(missing, seed), strength, share_noise)
        objective = objective_of(setup, SCALES, prior)
        values = values_of(setup, share_noise)
        before = objective(values)[0]
        for _ in range(4):  # plain steps, nothing kept back
            values = em_step(values, setup, SCALES, prior)
            after = objective(values)[0]
            assert after >= before - 1e-9
            before = after


@pytest.mark.parametrize("settings", [{}, {"share_noise": True, "task_prior": None}, {"prior": None}], ids=str)
@pytest.mark.parametrize("missing", [False, True])
def test_em_never_decreases(settings, missing):
    for seed in range(2):
        X, Y = observations(missing, seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the optimiser stopped after", ConvergenceWarning)  # enough here
            if "prior" in settings and not missing:  # nothing holds the noise: it goes, and so does transfer
                warnings.filterwarnings("ignore", "every input is seen in every task", UserWarning)
            model = borrow.MultiTaskGPRegressor(solver="em", kernel=ROUGH, max_iter=16, **settings).fit(X, Y)
        trace = model.objective_trace_
        assert np.all(np.diff(trace) >= 0)
        assert trace[-1] > trace[0]
        assert len(trace) == model.n_iter_ // 2 + 1


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("settings", [{}, {"share_noise": True}], ids=str)
def test_em_and_gradient_reach_the_same_optimum(missing, settings):
    X, Y = observations(missing, 3, N=14)
    model = borrow.MultiTaskGPRegressor(kernel=ROUGH, specific_kernel=None, **settings)  # EM has no own functions
    em, gradient = (clone(model).set_params(solver=solver).fit(X, Y) for solver in ("em", "gradient"))
    assert em.converged_
    assert em.path_ == ("dense" if missing else "complete")
    cells = gradient.fitted_.model.setup.cells
    objective = objective_of(gradient.fitted_.model.setup, column_scales(cells.X, cells.count), "auto")
    assert em.objective_trace_[-1] == pytest.approx(objective(gradient.fitted_.model.values)[0], abs=1e-3)
    assert em.log_marginal_likelihood_ == pytest.approx(gradient.log_marginal_likelihood_, abs=5e-3)  # no priors in it
    np.testing.assert_allclose(em.task_covariance_, gradient.task_covariance_, atol=2e-2)
    grid = np.linspace(0, 4, 9)[:, None]
    np.testing.assert_allclose(em.predict(grid), gradient.predict(grid), atol=1e-2)
    assert gradient.objective_trace_ is None


@pytest.mark.parametrize("prior", ["auto", None])
def test_objectives_of_both_solvers_agree(prior):
    """The maximised objective itself, priors and all, at the model's own level."""
    X, Y = observations(True, 4, N=12)
    setup = setup_of(X, Y, strength=3.0)
    start = {"kernel": ROUGH.theta, "noise": np.log(np.full(3, 0.1))}
    found, trace = maximise_by_em(setup, start, SCALES, prior, 4000)
    gradient = optimise(setup, start, SCALES, prior, 500)
    assert found.converged
    assert found.objective == trace[-1] == pytest.approx(gradient.objective, abs=1e-3)


def test_gradient_is_zero_where_em_stands_still():
    """A fixed point of EM is a stationary point of the objective."""
    X, Y = observations(True, 5, N=10)
    setup = setup_of(X, Y, strength=3.0)
    values = values_of(setup)
    objective = objective_of(setup, SCALES, "auto")
    values = optimise(setup, values, SCALES, "auto", 1000).values
    moved = em_step(values, setup, SCALES, "auto")
    for name in ("kernel", "noise", "factor"):
        np.testing.assert_allclose(moved[name], values[name], atol=5e-3)
    assert objective(moved)[0] >= objective(values)[0] - 1e-9


def test_kernel_without_free_parameters_is_left_alone():
    X, Y = observations(False)
    fixed = replace(ROUGH, fixed=("variance", "lengthscale"))
    model = borrow.MultiTaskGPRegressor(solver="em", kernel=fixed).fit(X, Y)
    assert model.kernel_.n_theta == 0
    assert model.kernel_.lengthscale == 0.7
    assert model.converged_


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("lengthscale", [0.1, 1.0])
def test_em_reaches_the_optimum_with_a_smooth_kernel_on_close_inputs(lengthscale, missing):
    """K^x has no inverse in double precision there, and the start is far away: steps of theta must not stand still."""
    rng = np.random.default_rng(0)
    X = np.linspace(0, 1, 15)[:, None]
    Y = np.sin(6 * X + np.arange(3)) + 0.1 * rng.normal(size=(15, 3))
    if missing:
        Y[rng.random(Y.shape) < 0.2] = np.nan
    kernel = SquaredExponential(1.0, lengthscale, fixed=("variance",))
    setup = setup_of(X, Y, strength=3.0, kernel=kernel)
    start = {"kernel": kernel.theta, "noise": np.log(np.full(3, 0.1))}
    found, trace = maximise_by_em(setup, start, X.std(axis=0), "auto", 1000)
    assert found.converged
    assert np.all(np.diff(trace) >= 0)
    assert np.linalg.cond(kernel.with_theta(found.values["kernel"])(X)) > 1e12
    gradient = optimise(setup, start, X.std(axis=0), "auto", 1000)
    assert found.objective == pytest.approx(gradient.objective, abs=1e-3)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_ppca_update_is_the_printed_one(missing, rank):
    X, Y = observations(missing)
    setup = ppca_setup(X, Y, rank=rank)
    values = {"kernel": ROUGH.theta, "noise": np.log(NOISE), **setup.form.of_matrix(B)}
    K_f = setup.form.parts(values).B
    np.testing.assert_allclose(K_f, oracle.ppca(B, rank), rtol=0, atol=1e-12)
    moment, noise = oracle.em_updates(ROUGH(X), K_f, NOISE, Y)
    new = em_step(values, setup, SCALES, None)
    np.testing.assert_allclose(setup.form.parts(new).B, oracle.ppca(moment, rank), rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.exp(new["noise"]), noise, rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.triu(new["loadings"][:rank], 1), 0.0, atol=1e-12)  # an incomplete Cholesky factor


def test_ppca_in_closed_form_is_the_most_likely():
    """-log|K| - tr(K^-1 B) is largest there over all R R' + s^2 I near it."""
    form, rng = LowRank(3, 1, "isotropic", None), np.random.default_rng(0)
    best = form.of_matrix(B)

    def of(values):
        K = form.parts(values).B
        return -np.linalg.slogdet(K)[1] - np.trace(np.linalg.solve(K, B))

    for _ in range(200):
        other = {n: v + 0.02 * rng.normal(size=v.shape) for n, v in best.items()}
        assert of(other) < of(best)
    singular = form.of_matrix(np.ones((3, 3)))
    assert np.isfinite(singular["own"]).all()
    np.testing.assert_allclose(form.parts(singular).B, 1.0, atol=1e-6)


def test_low_rank_without_a_diagonal_keeps_its_range_under_the_printed_update():
    """Why solver="em" refuses it: <F'(K^x)^-1 F> has the range of the K^f that it was found at."""
    X, Y = observations(True)
    r = np.array([1.0, 0.5, -0.4])
    moment, _ = oracle.em_updates(ROUGH(X), np.outer(r, r), NOISE, Y)
    np.testing.assert_allclose(moment, np.outer(r, r) * moment[0, 0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("missing", [False, True])
def test_nystrom_update_is_that_of_the_pseudo_inverse(missing):
    """Q in place of N: with the printed N^-1 a step from the optimum would shrink K^f."""
    X, Y = observations(missing)
    setup = nystrom_setup(X, Y)
    values = values_of(setup)
    V = np.linalg.solve(np.linalg.cholesky(ROUGH(setup.Z)), ROUGH(setup.Z, X)).T
    expected_B, expected_noise = oracle.em_updates(V @ V.T, B, NOISE, Y, rank=len(setup.Z))
    joint, y = np.kron(B, V @ V.T), Y.T.ravel()
    seen = np.isfinite(y)
    evidence = oracle.evidence(joint[np.ix_(seen, seen)], y[seen], np.repeat(NOISE, len(X))[seen])
    assert objective_of(setup, SCALES, None)(values)[0] == pytest.approx(evidence, abs=1e-9)
    new = em_step(values, setup, SCALES, None)
    np.testing.assert_allclose(setup.form.parts(new).B, expected_B, rtol=0, atol=1e-8)
    np.testing.assert_allclose(np.exp(new["noise"]), expected_noise, rtol=0, atol=1e-8)


@pytest.mark.parametrize("prior", ["auto", None])
@pytest.mark.parametrize("strength", [None, 3.0])
@pytest.mark.parametrize("kind", [ppca_setup, nystrom_setup], ids=["ppca", "nystrom"])
def test_a_step_of_section_3_never_decreases_the_objective(kind, strength, prior):
    for seed in range(2):
        setup = kind(*observations(True, seed), strength)
        objective = objective_of(setup, SCALES, prior)
        values = {"kernel": ROUGH.theta, "noise": np.log(NOISE), **setup.form.of_matrix(B)}
        before = objective(values)[0]
        for _ in range(4):  # plain steps, nothing kept back
            values = em_step(values, setup, SCALES, prior)
            after = objective(values)[0]
            assert after >= before - 1e-9
            before = after


@pytest.mark.parametrize("kind", [ppca_setup, nystrom_setup], ids=["ppca", "nystrom"])
def test_em_and_gradient_agree_under_section_3(kind):
    X, Y = observations(True, 4, N=12)
    setup = kind(X, Y, 3.0)
    start = {"kernel": ROUGH.theta, "noise": np.log(np.full(3, 0.1))}
    found, trace = maximise_by_em(setup, start, SCALES, "auto", 4000)
    assert found.converged
    assert np.all(np.diff(trace) >= 0)
    assert found.objective == pytest.approx(optimise(setup, start, SCALES, "auto", 500).objective, abs=2e-3)


def test_estimator_says_on_which_path_em_ran():
    X, Y = observations(True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the optimiser stopped after", ConvergenceWarning)  # enough here
        ppca = borrow.MultiTaskGPRegressor(solver="em", kernel=ROUGH, rank=1, diagonal="isotropic", max_iter=4).fit(
            X, Y
        )
        nystrom = borrow.MultiTaskGPRegressor(solver="em", kernel=ROUGH, inducing=5, max_iter=4).fit(X, Y)
    assert (ppca.path_, nystrom.path_) == ("dense", "low rank, as printed")
    e = np.linalg.eigvalsh(ppca.task_covariance_)
    assert e[0] == pytest.approx(e[1])
    assert e[2] > e[1]
    assert np.isfinite(nystrom.predict(X)).all()
