"""What the focused model promises, whatever its algebra."""

import logging
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import borrow
from borrow import kernels
from borrow.datasets import focused_gap, transfer_family
from borrow.inference import priors
from borrow.models.focused import model as focused
from borrow.models.focused import relations, starts
from borrow.models.focused.scoring import FocusedAscent, blocks_of
from borrow.models.focused.search import fewer_rows
from borrow.models.focused.starts import fit_alone
from borrow.models.gp.model import condition_single
from borrow.numerics.optimise import Optimum


def found(model):
    """The setup and hyper-parameters of a fitted model."""
    return model.fitted_.model


def median_error(model, problem):
    return float(np.mean((model.predict(problem.X_test) - problem.f_test) ** 2))


def fit_both(problem, **settings):
    """The focused model on everything, and the same GP on the primary alone."""
    own = np.array(problem.tasks) == "primary"
    alone = borrow.SingleTaskGPRegressor().fit(problem.X[own], problem.y[own])
    return borrow.FocusedGPRegressor(primary="primary", **settings).fit(
        problem.X, problem.y, tasks=problem.tasks
    ), alone


@pytest.fixture(scope="module")
def gap():
    problem = focused_gap(5, random_state=11)
    return problem, *fit_both(problem)


@pytest.mark.parametrize("inducing", ["primary", "auto"])
@pytest.mark.parametrize("normalize_y", [True, False])
def test_zero_rho_is_single_task(inducing, normalize_y):
    problem = transfer_family("same", random_state=2)
    kernel, noise = kernels.SquaredExponential(1.2, 0.8), 0.03
    fixed = {"kernel": kernel, "noise": noise, "optimizer": None, "normalize_y": normalize_y}
    model = borrow.FocusedGPRegressor(primary="primary", rho=0.0, inducing=inducing, **fixed)
    model.fit(problem.X, problem.y, tasks=problem.tasks)
    alone = borrow.SingleTaskGPRegressor(**fixed).fit(problem.X[:6], problem.y[:6])
    mean, std = model.predict(problem.X_test, return_std=True)
    expected, expected_std = alone.predict(problem.X_test, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(std, expected_std, rtol=0, atol=1e-9)


@pytest.mark.parametrize("exact_rows", [1000, 0])
def test_zero_rho_is_single_task_with_many_rows(exact_rows, monkeypatch):
    """700 rows of the primary, in both algebras: none of them is left out, and no cap is silent."""
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", exact_rows)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(760, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=760)
    tasks = np.repeat(["primary", "noise"], [700, 60])
    fixed = {"kernel": kernels.SquaredExponential(1.2, (0.5, 0.9, 0.9)), "noise": 0.02, "optimizer": None}
    model = borrow.FocusedGPRegressor(primary="primary", rho=0.0, **fixed).fit(X, y, tasks=tasks)
    alone = borrow.SingleTaskGPRegressor(**fixed).fit(X[:700], y[:700])
    new = rng.normal(size=(50, 3))
    assert (model.inducing_ is None) == (exact_rows > 0)
    for a, b in zip(model.predict(new, return_std=True), alone.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_one_task_is_single_task_after_optimising():
    problem = focused_gap(0, random_state=3)
    model, alone = fit_both(problem)
    np.testing.assert_allclose(model.predict(problem.X_test), alone.predict(problem.X_test), atol=1e-4)
    assert model.log_marginal_likelihood_ == pytest.approx(alone.log_marginal_likelihood_, abs=1e-4)


def test_repeated_function_fills_the_gap():
    problem = focused_gap(1, random_state=0)
    y = problem.y.copy()
    y[100:] = problem.truth + 0.1 * np.random.default_rng(0).normal(size=100)
    model, alone = fit_both(problem._replace(y=y))
    assert median_error(alone, problem) > 0.1
    assert median_error(model, problem) < 0.02 * median_error(alone, problem)


@pytest.mark.parametrize("inducing", ["auto", "primary"])
def test_flipping_all_secondary_targets_changes_nothing(inducing):
    problem = focused_gap(3, random_state=7)
    flipped = problem.y.copy()
    flipped[100:] *= -1.0
    settings = {"inducing": inducing}
    mean, std = fit_both(problem, **settings)[0].predict(problem.X_test, return_std=True)
    other, other_std = fit_both(problem._replace(y=flipped), **settings)[0].predict(problem.X_test, return_std=True)
    np.testing.assert_allclose(other, mean, atol=1e-6)
    np.testing.assert_allclose(other_std, std, atol=1e-6)


def test_offset_of_a_secondary_changes_nothing():
    problem = focused_gap(2, random_state=8)
    moved = problem.y.copy()
    moved[100:200] += 1000.0
    mean = fit_both(problem)[0].predict(problem.X_test)
    np.testing.assert_allclose(fit_both(problem._replace(y=moved))[0].predict(problem.X_test), mean, atol=0.02)


def test_negative_transfer_is_avoided_in_the_median():
    """Small version of benchmarks/studies/leen2011_negative_transfer.py."""
    for family, most in {"same": 0.3, "negated": 0.3, "unrelated": 1.15, "noise": 1.15}.items():
        errors = []
        for seed in range(7):
            problem = transfer_family(family, random_state=300 + seed)
            errors.append([median_error(m, problem) for m in fit_both(problem)])
        ours, alone = np.median(errors, axis=0)
        assert ours <= most * alone, family


def test_without_its_prior_rho_trusts_more():
    problem = transfer_family("unrelated", random_state=1)
    strict, _ = fit_both(problem, rho_prior=0.05)
    free, _ = fit_both(problem, rho_prior=None)
    assert abs(strict.rho_["secondary"]) < abs(free.rho_["secondary"])


def test_optimum_is_stationary(gap):
    _, model, _ = gap
    _, gradient = focused.objective_of(found(model).setup, found(model).scales, "auto", 1.0)(found(model).values)
    gradient["rho"] = gradient["rho"][found(model).values["rho"] != 0]  # relations that were dropped are held at 0
    for name, g in gradient.items():
        assert np.abs(g).max() < 0.05, name


def test_evidence_never_includes_a_prior(gap):
    problem, model, _ = gap
    again = borrow.FocusedGPRegressor(
        primary="primary",
        kernel=model.kernel_,
        specific_kernel=model.specific_kernels_,
        rho=model.rho_,
        noise=model.noise_,
        inducing=model.inducing_,
        optimizer=None,
        prior=None,
        rho_prior=None,
    ).fit(problem.X, problem.y, tasks=problem.tasks)
    assert again.log_marginal_likelihood_ == pytest.approx(model.log_marginal_likelihood_, abs=1e-8)
    np.testing.assert_allclose(again.predict(problem.X_test), model.predict(problem.X_test), atol=1e-9)


def test_same_seed_same_bits(gap):
    problem, model, _ = gap
    again = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
    np.testing.assert_array_equal(again.predict(problem.X_test), model.predict(problem.X_test))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(problem.X_test), model.predict(problem.X_test))


def test_secondaries_are_predicted_too(gap):
    problem, model, _ = gap
    for m in range(5):
        at = slice(100 * (m + 1), 100 * (m + 2))
        mean, std = model.predict(problem.grid, tasks=problem.tasks[at.start], return_std=True, include_noise=True)
        z = (problem.y[at] - mean) / std
        assert np.mean(np.abs(z) < 1.645) > 0.8
        assert np.std(problem.y[at] - mean) < 0.15


@pytest.mark.parametrize("n_tasks", [1, 30])
def test_relatedness_finds_what_was_drawn(n_tasks, monkeypatch):
    """rho within three standard errors of the truth, by the whole curvature and by each task's own block."""
    rng = np.random.default_rng(n_tasks)
    x = np.linspace(0, 10, 40)[:, None]
    f = np.sin(1.7 * x[:, 0]) + np.cos(0.9 * x[:, 0])
    truth = np.concatenate([[1.0], np.linspace(-1.5, 1.5, n_tasks)]) if n_tasks > 1 else np.array([1.0, -0.8])
    pairs = {f"t{i:02d}": (x, r * f + 0.1 * rng.normal(size=40)) for i, r in enumerate(truth)}
    model = borrow.FocusedGPRegressor(primary="t00", normalize_y=False, rho_prior=None, n_restarts=0).fit(pairs)
    table = model.relatedness()
    assert table["task"] == list(pairs)
    assert table["rho"][0] == 1.0
    z = (table["rho"][1:] - truth[1:]) / table["std_error"][1:]
    assert np.mean(np.abs(z) < 3.5) >= 0.9
    assert np.all(table["std_error"][1:] < 0.2)
    assert np.all((table["share"] >= 0) & (table["share"] <= 1))
    big = np.abs(truth) > 0.7
    assert np.all(table["share"][big] > 0.8)
    if n_tasks == 1:
        monkeypatch.setattr("borrow.models.focused.relatedness.WHOLE", 0)
        assert model.relatedness()["std_error"][1] == pytest.approx(table["std_error"][1], rel=0.5)


def test_best_signs_finds_the_flip_that_the_evidence_wants(gap):
    _, model, _ = gap
    setup, values = found(model).setup, found(model).values
    wrong = {**values, "rho": values["rho"] * np.array([1, -1, 1, -1, -1])}
    posterior = focused.condition(wrong, setup).posterior
    signs = relations.best_signs(posterior, setup.primary)[setup.secondaries]
    mended = {**wrong, "rho": wrong["rho"] * signs}
    gain = focused.condition(mended, setup).evidence - focused.condition(wrong, setup).evidence
    assert gain > 0
    big = np.abs(values["rho"]) > 0.3
    np.testing.assert_array_equal(np.sign(mended["rho"])[big], np.sign(values["rho"])[big])


def test_background_takes_what_secondaries_share_among_themselves():
    """Secondaries share a strong function that the primary lacks: with a background the evidence rises clearly."""
    rng = np.random.default_rng(2)
    x = np.linspace(0, 10, 30)[:, None]
    f, h = np.sin(x[:, 0]), np.sin(2.3 * x[:, 0] + 1)
    pairs = {"p": (x, f + 0.1 * rng.normal(size=30))}
    pairs |= {f"s{i}": (x, 0.5 * f + (i - 1.5) * h + 0.1 * rng.normal(size=30)) for i in range(4)}
    plain = borrow.FocusedGPRegressor(primary="p").fit(pairs)
    more = borrow.FocusedGPRegressor(primary="p", background=1).fit(pairs)
    assert more.log_marginal_likelihood_ > plain.log_marginal_likelihood_ + 10
    assert {len(v) for v in more.background_.values()} == {1}
    loadings = np.array([more.background_[f"s{i}"][0] for i in range(4)])
    assert abs(np.corrcoef(loadings, [-1.5, -0.5, 0.5, 1.5])[0, 1]) > 0.9


def test_primary_without_rows_is_predicted_from_the_others():
    problem = focused_gap(3, random_state=4)
    y = problem.y.copy()
    y[:100] = np.nan
    y[100:200], y[200:300], y[300:] = (
        problem.truth + 0.1 * np.random.default_rng(i).normal(size=100) for i in range(3)
    )
    model = borrow.FocusedGPRegressor(primary="primary")
    with pytest.warns(UserWarning, match="no labelled row"):
        model.fit(problem.X, y, tasks=problem.tasks)
    assert np.corrcoef(model.predict(problem.grid), problem.truth)[0, 1] > 0.95


def test_what_inducing_inputs_leave_is_told(monkeypatch):
    """Twelve rough columns: 300 inputs of the others cannot carry what is shared, and the warning says so."""
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(420, 12)), np.repeat(["p", "s"], [20, 400])
    model = borrow.FocusedGPRegressor(primary="p", rho=0.5, optimizer=None, kernel=kernels.SquaredExponential(1.0, 1.0))
    with pytest.warns(UserWarning, match="320 inducing inputs, which leave up to .*% of its variance"):
        model.fit(X, np.sin(X[:, 0]), tasks=tasks)
    assert model.set_params(inducing=None).fit(X, np.sin(X[:, 0]), tasks=tasks).inducing_ is None


@pytest.mark.parametrize(("inducing", "size"), [(7, 7), ("primary", 100), (np.array([[0.0], [1.0]]), 2)])
def test_inducing_is_taken_as_said(inducing, size):
    problem = focused_gap(1, random_state=4)
    model = borrow.FocusedGPRegressor(primary="primary", inducing=inducing, max_iter=5, optimizer=None)
    model.fit(problem.X, problem.y, tasks=problem.tasks)
    assert len(model.inducing_) == size


def test_auto_inducing_reaches_into_the_gap_of_a_primary_that_lists_no_rows_there(monkeypatch):
    problem = focused_gap(2, random_state=4)
    labelled = np.isfinite(problem.y)
    tasks = np.array(problem.tasks)[labelled]
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)
    model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X[labelled], problem.y[labelled], tasks=tasks)
    assert np.any(np.abs(model.inducing_) < 2.4)
    K, Kz = model.kernel_(problem.grid, model.inducing_), model.kernel_(model.inducing_)
    left = model.kernel_.diag(problem.grid) - np.einsum("ij,ij->i", K, np.linalg.solve(Kz, K.T).T)
    assert left.max() <= 0.0101 * model.kernel_.diag(problem.grid).max()  # 1 % of the prior variance, in the gap too


def test_jitter_is_stored_and_announced(caplog):
    problem = focused_gap(1, random_state=4)
    smooth = kernels.SquaredExponential(1.0, 5.0)  # 100 inputs, a dozen of them independent
    model = borrow.FocusedGPRegressor(primary="primary", kernel=smooth, rho=0.5, inducing="primary", optimizer=None)
    with caplog.at_level(logging.INFO, "borrow"):
        model.fit(problem.X, problem.y, tasks=problem.tasks)
    assert 0 < model.jitter_ <= 1e-8
    assert f"{model.jitter_:g}" in caplog.text
    assert np.isfinite(model.log_marginal_likelihood_)


def test_finest_inducing_inputs_serve_the_roughest_task():
    """Six primary rows suggest a long lengthscale; Z must still carry what the secondary shows."""
    problem = transfer_family("same", random_state=1011)
    model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
    alone = fit_alone(found(model).setup, found(model).values, found(model).scales, "auto", 100)
    assert np.exp(alone.finest(found(model).setup)["kernel"][1]) <= np.exp(alone.values["kernel"][1])
    assert median_error(model, problem) < 0.3 * median_error(fit_both(problem)[1], problem)


def test_sharing_gain_is_what_the_objective_loses_without_the_relation():
    """The closed form equals the objective less its value with the task fitted by itself again, all else unchanged."""
    problem = focused_gap(3, random_state=2)
    model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
    setup, scales = found(model).setup, found(model).scales
    alone = fit_alone(setup, found(model).values, scales, "auto", 500)
    objective = focused.objective_of(setup, scales, "auto", 1.0)
    search = relations.Search(FocusedAscent(setup, scales, "auto", 1.0), {}, alone, 500)
    best = Optimum(found(model).values, objective(found(model).values)[0], 0, 0, True, "")
    gains = relations.sharing_gains(search, best)
    for i in range(3):
        cut = relations.cut_relations(found(model).values, np.arange(3) == i, search)
        assert gains[i] == pytest.approx(best.objective - objective(cut)[0], abs=1e-5)


@pytest.mark.parametrize("seed", [1003, 1036, 1074])
def test_a_relation_that_is_kept_earns_its_price_in_the_whole_objective(seed):
    """Against every task by itself, the primary's own kernel included, and not only given the shared kernel found."""
    problem = transfer_family("unrelated", random_state=seed)
    model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
    objective = focused.objective_of(found(model).setup, found(model).scales, "auto", 1.0)
    neutral = {
        **found(model).values,
        "noise": np.full(2, np.log(0.1)),
    }  # where the fit's own search begins
    alone = fit_alone(found(model).setup, neutral, found(model).scales, "auto", 500)
    gain = objective(found(model).values)[0] - objective(alone.values)[0]
    assert (gain > relations.RELATION_COST - 1e-6) == (model.rho_["secondary"] != 0.0)
    assert (model.rho_["secondary"] != 0.0) == (seed == 1003)


@pytest.mark.parametrize("seed", [1, 3])
def test_the_primary_may_depend_on_a_column_that_the_others_do_not(seed):
    """Three tasks have sin(2 x0) in common; to the primary cos(2 x1) is added, which no other task knows of."""
    rng, task = np.random.default_rng(seed), np.repeat(["p", "a", "b", "c"], [16, 40, 40, 40])
    X, new = rng.uniform(-2, 2, (136, 2)), rng.uniform(-2, 2, (200, 2))
    y = np.repeat([1.0, 1.0, -0.8, 0.7], [16, 40, 40, 40]) * np.sin(2 * X[:, 0]) + 0.05 * rng.normal(size=136)
    y[:16] += np.cos(2 * X[:16, 1])
    model = borrow.FocusedGPRegressor(primary="p").fit(X, y, tasks=task)
    alone = borrow.SingleTaskGPRegressor().fit(X[:16], y[:16])
    truth = np.sin(2 * new[:, 0]) + np.cos(2 * new[:, 1])
    own, single = (np.mean((m - truth) ** 2) for m in (model.predict(new, tasks="p"), alone.predict(new)))
    assert own < 0.25 * single
    shared, apart = model.kernel_.lengthscale, model.specific_kernels_["p"].lengthscale
    assert shared[0] < 0.3 * shared[1]
    assert apart[1] < 0.6 * apart[0]
    # half of the primary's variance is in common, nearly all of the others': correlations of sqrt(1/2), not 1
    assert np.all(np.abs(np.abs(model.relatedness()["correlation"][1:]) - np.sqrt(0.5)) < 0.15)
    held = {n: getattr(model, f"{n}_") for n in ("kernel", "rho", "noise")}
    held["specific_kernel"] = model.specific_kernels_
    again = borrow.FocusedGPRegressor(primary="p", optimizer=None, **held).fit(X, y, tasks=task)
    assert np.allclose(again.predict(new, tasks="p"), model.predict(new, tasks="p"), rtol=0, atol=1e-9)
    assert "p" not in borrow.FocusedGPRegressor(primary="p", rho_prior=None).fit(X, y, tasks=task).specific_kernels_


def test_a_primary_that_borrows_nothing_has_one_function(gap):
    problem = gap[0]
    rng, own = np.random.default_rng(0), np.array(problem.tasks) == "primary"
    y = np.where(own, problem.y, rng.normal(size=len(problem.y)))
    model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, y, tasks=problem.tasks)
    assert not np.any(found(model).values["rho"])
    assert "primary" not in model.specific_kernels_
    alone = borrow.SingleTaskGPRegressor().fit(problem.X, y, tasks=problem.tasks)
    one, other = (m.predict(problem.X_test, tasks="primary", return_std=True) for m in (model, alone))
    assert np.allclose(one, other, rtol=0, atol=1e-4)


def test_a_season_is_found_though_a_trend_would_explain_few_rows():
    """Of the new shop less than a season is known; the others have two, and only the periodic part goes on."""
    random, week = np.random.default_rng(0), np.tile(np.arange(60.0), 3)
    shop, season = np.repeat(["new", "old A", "old B"], 60), np.sin(2 * np.pi * week / 26)
    sales = 10 + np.select([shop == "new", shop == "old A"], [2 * season, 3 * season], 2 * season + 0.03 * week)
    sales += 0.5 * random.normal(size=180)
    seen = (shop != "new") | (week >= 35)
    kernel = kernels.Periodic(period=26.0, lengthscale=1.0) + kernels.SquaredExponential(lengthscale=30.0)
    model = borrow.FocusedGPRegressor(primary="new", kernel=kernel, n_restarts=0)
    model.fit(week[seen, None], sales[seen], tasks=shop[seen])
    ahead = np.arange(60.0, 86.0)
    error = model.predict(ahead[:, None], tasks="new") - 10 - 2 * np.sin(2 * np.pi * ahead / 26)
    assert np.sqrt(np.mean(error**2)) < 0.5


def test_blocks_of_parameters_are_each_task_s_own_and_hold_every_one_once():
    X, y, tasks = borrow.datasets.two_tasks()
    model = borrow.FocusedGPRegressor(primary="b", optimizer=None).fit(
        np.vstack([X, np.add(X, 0.1)]), np.append(y, y), tasks=[*tasks, *("c" for _ in tasks)]
    )
    fit = found(model)

    numbers = {n: np.full(v.size, -1.0) for n, v in fit.values.items()}
    for i, t in enumerate(fit.setup.secondaries.tolist()):
        numbers["rho"][i] = t
    for t, part in enumerate(fit.setup.specific_parts):
        numbers["specific"][part] = numbers["noise"][t] = t
    labels = np.concatenate(list(numbers.values()))
    shared, *own = [labels[blocks] for blocks in blocks_of(fit.setup)]
    np.testing.assert_array_equal(shared, np.full((1, fit.setup.kernel.n_theta), -1.0))
    assert all(np.ptp(block) == 0 for blocks in own for block in blocks)
    assert sorted(block[0] for blocks in own for block in blocks) == [0.0, 1.0, 2.0]
    positions = np.sort(np.concatenate([blocks.ravel() for blocks in blocks_of(fit.setup)]))
    np.testing.assert_array_equal(positions, np.arange(len(labels)))


def test_weights_start_at_the_regression_on_the_primary_s_posterior_of_at_most_so_many_rows(monkeypatch):
    """rho = sum m y / sum (m^2 + v), with m and v the primary's own mean and variance at the rows looked at."""
    X, y, tasks = borrow.datasets.two_tasks()
    fit = found(borrow.FocusedGPRegressor(primary="b", optimizer=None).fit(X, y, tasks=tasks))
    setup, t = fit.setup, int(fit.setup.secondaries[0])
    noise = {"noise": fit.values["noise"][[setup.primary]]}
    kernel = setup.kernel.with_theta(fit.values["kernel"])
    primary = condition_single(setup.tasks.only(setup.primary), kernel, noise, setup.infer)
    at = setup.cells.of(t)
    p = primary.posterior.predict(setup.cells.X[at], np.zeros(at.stop - at.start, dtype=np.intp))
    y_t, count = setup.cells.y[at], setup.cells.count[at]
    for most, which in ((100, np.arange(len(y_t))), (2, np.array([0, len(y_t) - 1]))):
        monkeypatch.setattr(starts, "START_ROWS", most)
        start = starts.regression_start(fit.values, setup, [y_t], primary)
        m, v, c = p.mean[which], p.variance[which], count[which]
        assert start["rho"] == pytest.approx([np.sum(c * m * y_t[which]) / np.sum(c * (m**2 + v))])


@pytest.mark.parametrize(
    ("tasks", "primary", "others", "expected"),
    [
        (25, 50, 100, (50, 24)),  # 16 of 100 rows of each would not tell a lengthscale of 1 on [-5, 5]
        (4, 500, 500, (100, 100)),
        (10, 300, 200, (100, 40)),
        (45, 60, 200, (60, 22)),  # 1,000 in all
        (40, 60, 30, (60, 15)),  # half of all
        (60, 60, 200, None),
        (4, 100, 220, None),
    ],
)
def test_a_search_on_few_rows_has_those_that_tell_a_relation_and_spares_the_primary(tasks, primary, others, expected):
    sizes = [primary, *[others] * (tasks - 1)]
    X, task = np.concatenate([np.linspace(0.0, 1.0, n) for n in sizes])[:, None], np.repeat(np.arange(tasks), sizes)
    y, known = np.sin(9.0 * X[:, 0] + task), {"primary": 0, "optimizer": None, "inducing": 5}
    few = fewer_rows(found(borrow.FocusedGPRegressor(**known).fit(X, y, tasks=task)).setup)
    assert (few is None) == (expected is None)
    if few is not None:
        left = np.diff(few.cells.starts)
        assert left[few.primary] == expected[0]
        assert set(left[few.secondaries]) == {expected[1]}


def test_a_relation_that_looks_weak_begins_again_at_the_regression_on_what_all_tasks_say(monkeypatch):
    """The primary's rows end where the last task begins: only the tasks between say that the two are related."""
    rng, sizes = np.random.default_rng(5), [30, 60, 60, 30]
    x = np.concatenate([rng.uniform(0, 3, 30), rng.uniform(0, 8, 120), rng.uniform(4, 8, 30)])
    task = np.repeat(["p", "a", "b", "late"], sizes)
    y = np.repeat([1.0, 0.9, 1.1, -1.0], sizes) * (np.sin(2.0 * x) + np.cos(3.1 * x)) + 0.05 * rng.normal(size=180)
    model = borrow.FocusedGPRegressor(primary="p").fit(x[:, None], y, tasks=task)
    setup, values, scales = found(model).setup, found(model).values, found(model).scales
    t = model.fitted_.schema.labels.index("late")
    weak = setup.secondaries == t
    alone = fit_alone(setup, {**values, "noise": np.full(4, np.log(0.1))}, scales, "auto", 500)
    search = relations.Search(FocusedAscent(setup, scales, "auto", 1.0), {}, alone, 500)
    cut = relations.cut_relations(values, weak, search)
    monkeypatch.setattr(relations.Search, "go_on", lambda self, best, at: replace(best, values=at, objective=1e9))
    stuck, kept = (Optimum(v, search.objective(v)[0], 0, 0, True, "") for v in (cut, values))
    begun = relations.ask_again(search, stuck).values
    at = setup.cells.of(t)
    rows = setup.cells.X[at], np.full(at.stop - at.start, setup.primary)
    told = focused.condition(cut, setup).posterior.predict(*rows)
    rho = np.sum(told.mean * setup.cells.y[at]) / np.sum(told.mean**2 + told.variance)
    assert begun["rho"][weak] == pytest.approx([rho])
    assert rho == pytest.approx(values["rho"][weak], rel=0.1)
    assert rho < 0.0
    np.testing.assert_array_equal(begun["rho"][~weak], values["rho"][~weak])
    assert relations.ask_again(search, kept) is kept


def test_a_search_that_begins_on_few_rows_does_not_end_in_a_lesser_mode():
    """25 tasks of 100 rows: the log evidence is 1,425.7 on all rows; begun on 16 rows of each it was 1,410.2."""
    problem = focused_gap(24, random_state=3)
    model = borrow.FocusedGPRegressor(primary="primary").fit(problem.X, problem.y, tasks=problem.tasks)
    assert model.log_marginal_likelihood_ > 1423.0


def test_without_priors_the_search_begins_on_all_rows():
    """A task's noise vanishes on 24 of its 100 rows where no prior holds it; the log evidence ended at 222 so."""
    plain, problem = kernels.SquaredExponential(), focused_gap(16, gap="contiguous", random_state=7)
    model = borrow.FocusedGPRegressor(
        primary="primary", kernel=plain, specific_kernel=plain, inducing="primary", prior=None, rho_prior=None,
        n_restarts=0, normalize_y=False, max_iter=1000,
    ).fit(problem.X, problem.y, tasks=problem.tasks)  # fmt: skip
    assert model.log_marginal_likelihood_ > 1000.0


def two_parts(n, seed):
    """Rows of a function of two parts, which one kernel describes badly, and sixty of pure noise."""
    rng = np.random.default_rng([seed, n])
    X, task = rng.uniform(-2, 2, (n + 60, 3)), np.repeat(["primary", "noise"], [n, 60])
    f = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + X[:, 2] ** 2 * np.sin(2 * X[:, 2])
    return X, np.where(task == "primary", f, rng.normal(size=n + 60)) + 0.1 * rng.normal(size=n + 60), task


def test_a_second_part_of_the_primary_is_no_relation():
    """With noise as the only secondary a relation brought a second kernel, and was kept for that."""
    X, y, task = two_parts(120, 0)
    model = borrow.FocusedGPRegressor(primary="primary").fit(X, y, tasks=task)
    assert model.rho_["noise"] == 0.0
    assert abs(model.evidence_of_relations("primary")) < 1e-9


@pytest.mark.parametrize("method", ["focused", "symmetric"])
def test_noise_beside_a_function_of_two_parts_is_not_said_to_help(method):
    X, y, task = two_parts(120, 0)
    table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "task": task, "y": y}
    verdict = borrow.compare(table, "y", "task", "primary", [method], leave_out=False).verdict()
    assert verdict.evidence < 1.5
    assert verdict.answer in ("cannot tell", "no practical difference")


@pytest.mark.parametrize(
    "model",
    [
        borrow.FocusedGPRegressor(primary="a", rho={"b": 0.8, "c": -0.3}, optimizer=None),
        borrow.MultiTaskGPRegressor(
            task_covariance=[[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]], optimizer=None
        ),
        borrow.MultiTaskGPRegressor(rank=1, diagonal="free", intercept=True, optimizer=None),
    ],
)
def test_what_relations_add_is_what_a_task_gains_given_the_others(model):
    """By the joint covariance of all rows, written out from public attributes."""
    rng = np.random.default_rng(3)
    X, task = rng.uniform(0, 4, (18, 1)), np.repeat(["a", "b", "c"], [5, 6, 7])
    y = rng.normal(size=18)
    fitted = clone(model).set_params(normalize_y=False).fit(X, y, tasks=task)
    K = joint_covariance(fitted, X, task)

    def log_density(at):
        return stats.multivariate_normal(np.zeros(at.sum()), K[np.ix_(at, at)]).logpdf(y[at])

    assert log_density(task != "") == pytest.approx(fitted.log_marginal_likelihood_)
    for name in "abc":
        gain = fitted.log_marginal_likelihood_ - log_density(task == name) - log_density(task != name)
        assert fitted.evidence_of_relations(name) == pytest.approx(gain, abs=1e-8)


def joint_covariance(fitted, X, task):
    same = task[:, None] == task
    if isinstance(fitted, borrow.MultiTaskGPRegressor):
        t = np.searchsorted(fitted.tasks_, task)
        K = fitted.task_covariance_[np.ix_(t, t)] * fitted.kernel_(X, X) + fitted.intercept_variance_ * same
    else:
        rho = np.array([fitted.rho_[name] for name in task])
        K = np.multiply.outer(rho, rho) * fitted.kernel_(X, X)
        for name, kernel in fitted.specific_kernels_.items():
            K += 0.0 if kernel is None else np.multiply.outer(task == name, task == name) * kernel(X, X)
    return K + np.diag([fitted.noise_[name] for name in task])


@pytest.mark.parametrize("method", ["focused", "symmetric"])
def test_what_secondaries_have_in_common_is_no_evidence_for_the_primary(method):
    """Three secondaries are one function, and the primary is another."""
    rng = np.random.default_rng(5)
    x, task = rng.uniform(0, 12, 102), np.repeat(["p", "s", "t", "u"], [12, 30, 30, 30])
    y = np.where(task == "p", np.cos(0.7 * x + 1.0), np.sin(1.3 * x)) + 0.1 * rng.normal(size=102)
    found = borrow.compare({"x": x, "task": task, "y": y}, "y", "task", "p", [method], leave_out=False)
    assert found.verdict().evidence < 3.0
    assert found.verdict().answer not in ("helps", "probably helps")


@pytest.mark.parametrize("seed", [7, 10])
def test_the_best_of_many_unrelated_secondaries_is_not_taken_for_a_relation(seed):
    """Among ten some agree with ten rows by chance (1.5 and 1.6 x no transfer); that pays for having been chosen."""
    rng, task = np.random.default_rng([seed, 5]), np.repeat(np.arange(11), [10, *[30] * 10])
    W, b = 1.5 * rng.normal(size=(11, 2)), rng.uniform(0.0, 6.0, 11)
    X = rng.normal(size=(len(task), 2))
    y = np.sin(np.sum(X * W[task], axis=1) + b[task]) + 0.1 * rng.normal(size=len(X))
    new, own = rng.normal(size=(300, 2)), task == 0
    model = borrow.FocusedGPRegressor(primary=0).fit(X, y, tasks=task)
    alone = borrow.SingleTaskGPRegressor().fit(X[own], y[own])
    truth = np.sin(new @ W[0] + b[0])
    error = [np.sqrt(np.mean((m - truth) ** 2)) for m in (model.predict(new, tasks=0), alone.predict(new))]
    assert error[0] < 1.1 * error[1]


def test_choices_are_priced_by_their_number():
    assert priors.log_choices(7, 3) == pytest.approx(np.log(35.0))
    assert priors.log_choices(7, 7) == pytest.approx(0.0)
    assert priors.log_choices(7, 0) == pytest.approx(0.0)
