"""Scoring steps of the symmetric model: the information against its definition, and where the search ends."""

from dataclasses import replace

import numpy as np
import pytest

from borrow import MultiTaskGPRegressor
from borrow.covariance import Design
from borrow.estimators.gp import EXACT
from borrow.kernels import Constant, SquaredExponential
from borrow.models.gp.model import bounds_of
from borrow.models.gp.task_model import directions
from borrow.models.multitask import model as multitask
from borrow.models.multitask import search, sharing
from borrow.models.multitask.search import ascent_of, can_score
from borrow.models.multitask.task_covariance import FormPrior, FreeForm, SharingTasks, Uniform
from borrow.numerics import optimise as hyper
from borrow.numerics.device import Device
from borrow.numerics.linalg import to_host
from borrow.tasks.placed import PlacedTasks


def by_scoring(objective, information, start, bounds, max_iter, tol=1e-6):
    return hyper.ScoringSearch(objective, information, start, bounds).go_on(max_iter, tol)


def prepared(share_noise, seed=0, M=3, n=12):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(M * n, 2)), np.repeat(np.arange(M), n)
    X[1] = X[0]  # a replicate: counts differ
    y = np.sin(X).sum(axis=1) * (1 + task) + 0.3 * rng.normal(size=M * n)
    model = MultiTaskGPRegressor(share_noise=share_noise, task_prior=None, prior=None)
    rows, _ = model._read(X, y, task)
    data = model._arrange(rows)
    setup, values = model._prepare(data, PlacedTasks(data.cells), EXACT, {"noise": np.log(model._start_noise(data))})
    return setup, search.starts_of(setup, values)[0], data


def with_own_functions(members):
    """Some tasks share, and every task has a kernel of its own."""
    setup, values, data = prepared(False)
    own = SquaredExponential(0.5, (1.0, 2.0)) + Constant(0.2)
    joint = sharing.sharing_setup(replace(setup, form=replace(setup.form, strength=1.0)), own, members)
    theta = np.concatenate([own.theta + 0.3 * t for t in range(setup.M)])
    factor = 0.4 + 0.1 * np.arange(len(members) * (len(members) + 1) // 2)
    return joint, {**values, "factor": factor, "specific": theta}, data


def alike(members):
    """Some tasks are alike, and the others have a kernel of their own."""
    setup, values, data = prepared(False)
    own = SquaredExponential(0.5, (1.0, 2.0)) + Constant(0.2)
    joint = sharing.alike_setup(replace(setup, form=replace(setup.form, strength=1.0)), own, members)
    theta = np.concatenate([own.theta + 0.3 * t for t in range(setup.M) if t not in members] or [np.zeros(0)])
    start = {"kernel": values["kernel"], "noise": values["noise"], "uniform": np.array([-0.5, -0.9])}
    return replace(joint, path="dense"), start | ({"specific": theta} if joint.specific else {}), data


CASES = {
    "noise per task": lambda: prepared(False),
    "one noise": lambda: prepared(True),
    "own functions": lambda: with_own_functions((0, 1, 2)),
    "one task shares nothing": lambda: with_own_functions((0, 2)),
    "all alike": lambda: alike((0, 1, 2)),
    "two alike": lambda: alike((0, 2)),
}


def test_information_is_that_of_the_values_asked_for_wherever_the_objective_was_before():
    setup, values, data = prepared(False)
    elsewhere = {n: v + 0.3 for n, v in values.items()}
    fresh, used = (ascent_of(setup, data.column_scales, None, values) for _ in range(2))
    used.objective(elsewhere)
    assert np.array_equal(used.information(values), fresh.information(values))
    used.objective(values)
    values["noise"] += 1.0  # the caller's array, which may change after the call
    fresh.objective(values)
    assert np.array_equal(used.information(values), fresh.information(values))


@pytest.mark.parametrize("case", CASES)
def test_information_is_that_of_the_derivatives(case):
    setup, values, _ = CASES[case]()
    cells = setup.cells

    def covariance(x):
        at = hyper.unpack(x, values)
        noise = np.broadcast_to(np.exp(at["noise"]), setup.M)[cells.task] / cells.count
        return multitask.prior_of_tasks(at, setup).K + np.diag(noise)

    x = hyper.pack(values)
    A, beta = covariance(x), np.linalg.solve(covariance(x), cells.y)
    step = 1e-6
    D = np.stack([(covariance(x + e) - covariance(x - e)) @ beta / (2 * step) for e in step * np.eye(len(x))], axis=1)
    posterior = multitask.condition(values, setup).posterior
    np.testing.assert_allclose(directions(values, posterior, setup), D, rtol=1e-5, atol=1e-5)
    found = posterior.information(directions(values, posterior, setup))
    np.testing.assert_allclose(found, 0.5 * D.T @ np.linalg.solve(A, D), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [with_own_functions, alike])
def test_what_is_climbed_is_the_objective_and_the_priors_bend_it(case, monkeypatch):
    monkeypatch.setattr(search, "LEAST_ROWS", 0)
    setup, values, data = case((0, 2))
    ascent = ascent_of(setup, data.column_scales, "auto", values)
    value, by = ascent.objective(values)
    plain, by_plain = multitask.objective_of(setup, data.column_scales, "auto")(values)
    assert value == pytest.approx(plain, rel=1e-12)
    for name in values:
        np.testing.assert_allclose(by[name], by_plain[name], rtol=1e-9, atol=1e-9)
    posterior = multitask.condition(values, setup).posterior
    of_data = posterior.information(directions(values, posterior, setup))
    of_priors = sum(prior.curvature(values) for prior in ascent.log_priors)
    np.testing.assert_allclose(ascent.information(values) - of_data, of_priors, atol=1e-9)


@pytest.mark.parametrize("form", [FreeForm(3, 2.0, 0.5), SharingTasks(4, (0, 1, 3), 2.0)])
def test_curvature_of_the_penalty_on_tasks(form):
    """That of the trace of the inverse, and of log variances: by second differences of those terms, where B is small.

    What is left out are the determinant and the second derivatives of B, which scale with the gradient.
    """
    L = np.array([[0.9, 0, 0], [0.5, 0.7, 0], [-0.3, 0.2, 0.6]])
    factor, strength = L[np.tril_indices(3)], 2.0
    found = FormPrior(form, strength, "factor").curvature(factor)

    def term(B_of):
        def traced(x):
            full = np.zeros((3, 3))
            full[np.tril_indices(3)] = x
            B = full @ full.T
            v = np.diag(B)
            if isinstance(form, FreeForm):
                return B_of(B), None
            return B_of(B / np.sqrt(np.outer(v, v))), np.log(v)

        return traced

    base, step = term(lambda B: B), 1e-5
    inverse = np.linalg.inv(base(factor)[0])
    J = [
        [(a - b) / (2 * step) for a, b in zip(base(factor + e), base(factor - e), strict=True) if a is not None]
        for e in step * np.eye(6)
    ]
    c = np.exp(form.log_variance)
    expected = np.array([[strength * c * np.trace(inverse @ p[0] @ inverse @ q[0] @ inverse) for q in J] for p in J])
    if isinstance(form, SharingTasks):
        expected += np.array([[p[1] @ q[1] / 4.0 for q in J] for p in J])  # log variances have the deviation 2
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    value, by = FormPrior(form, strength, "factor").log_density(factor)
    for i in range(6):
        e = 1e-6 * np.eye(6)[i]
        up, down = (FormPrior(form, strength, "factor").log_density(factor + s * e)[0] for s in (1, -1))
        assert by[i] == pytest.approx((up - down) / 2e-6, rel=1e-5)
    assert np.isfinite(value)


def test_variances_of_tasks_that_are_alike_have_the_curvature_of_their_prior():
    """By second differences of the log density: it is quadratic in log a and log b."""
    prior = FormPrior(Uniform(3, 1.0, 0.4, (0, 2)), 1.0, "uniform")
    at, step = np.array([0.3, -1.2]), 1e-3
    up, down = (np.stack([prior.log_density(at + s * e)[1] for e in step * np.eye(2)]) for s in (1, -1))
    np.testing.assert_allclose(prior.curvature(at), (down - up) / (2 * step), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("case", "members"), [(with_own_functions, (0, 1, 2)), (alike, (0, 1, 2)), (alike, (0, 2))])
def test_scoring_with_priors_ends_no_lower_than_lbfgs(case, members, monkeypatch):
    monkeypatch.setattr(search, "LEAST_ROWS", 0)
    setup, values, data = case(members)
    assert can_score(setup, values)
    objective = multitask.objective_of(setup, data.column_scales, "auto")
    bounds = hyper.bounds_around(values, {"noise": float(np.log(hyper.NOISE_FLOOR))})
    plain = hyper.maximise(objective, values, bounds, 500, 1e-6, 5, 100)
    steps = {"tol": 1e-6, "patience": 5, "memory": 100}
    scored = ascent_of(setup, data.column_scales, "auto", values, steps).maximise(values, bounds, 500, 1e-6)
    assert scored.objective > plain.objective - 1e-3
    assert scored.n_evaluations < 0.6 * plain.n_evaluations


def test_scoring_ends_no_lower_than_lbfgs():
    setup, values, data = prepared(True)
    assert can_score(setup, search.starts_of(setup, values)[0])
    objective = multitask.objective_of(setup, data.column_scales, None)
    starts = search.starts_of(setup, values)
    bounds = hyper.bounds_around(starts[0], {"noise": float(np.log(hyper.NOISE_FLOOR))})
    plain = hyper.QuasiNewton(objective, {"memory": 100}).maximise_from(starts, bounds, 500)
    scored = search.optimise(setup, values, data.column_scales, None, 500)
    assert scored.objective > plain.objective - 0.05
    assert objective(scored.values)[0] == pytest.approx(scored.objective, rel=1e-10)


def test_scoring_keeps_to_bounds_and_says_which():
    def objective(v):
        return float(-np.sum((v["a"] - 3.0) ** 2)), {"a": -2.0 * (v["a"] - 3.0)}

    start = {"a": np.zeros(2)}
    bounds = {"a": (np.full(2, -1.0), np.array([1.0, 9.0]))}
    end = by_scoring(objective, lambda v: 2.0 * np.eye(2), start, bounds, 50)
    np.testing.assert_allclose(end.values["a"], [1.0, 3.0], atol=1e-3)
    assert end.converged
    assert end.at_bound == [("a", 0)]


def test_scoring_learns_the_curvature_that_the_information_does_not_have(monkeypatch):
    """A quadratic whose information is its diagonal, four times too large: steps that correct it are far fewer."""
    C = 0.9 * np.ones((6, 6)) + np.diag(np.linspace(0.2, 2.0, 6))
    aim = np.linspace(-1.0, 1.0, 6)

    def objective(v):
        away = v["a"] - aim
        return float(-0.5 * away @ C @ away), {"a": -C @ away}

    start, bounds = {"a": np.zeros(6)}, {"a": (np.full(6, -9.0), np.full(6, 9.0))}
    how = objective, lambda v: 4.0 * np.diag(np.diagonal(C)), start, bounds, 500, 1e-9
    end = by_scoring(*how)
    assert end.converged
    np.testing.assert_allclose(end.values["a"], aim, atol=1e-3)
    s, y = np.arange(6.0), C @ np.arange(6.0)
    H = hyper.corrected(np.eye(6), [(aim, C @ aim), (s, y), (aim, -C @ aim)])  # the last turns up, and is not taken
    np.testing.assert_allclose(H @ s, y)
    assert np.linalg.eigvalsh(H).min() > 0.0
    monkeypatch.setattr(hyper, "corrected", lambda H, past: H)
    assert by_scoring(*how).n_iter > 2 * end.n_iter


def test_a_search_that_goes_on_takes_the_steps_of_one_that_was_not_interrupted():
    def objective(v):
        return float(-np.sum(np.cosh(v["a"] - 2.0))), {"a": -np.sinh(v["a"] - 2.0)}

    calls = []
    how = objective, lambda v: calls.append(v) or np.diag(np.cosh(v["a"] - 2.0)), {"a": np.array([0.0, 5.0])}
    bounds = {"a": (np.full(2, -9.0), np.full(2, 9.0))}
    whole = by_scoring(*how, bounds, 50, 1e-8)
    search = hyper.ScoringSearch(*how, bounds)
    first, rest = search.go_on(2, 1e-8), search.go_on(50, 1e-8)
    assert not first.converged
    assert np.array_equal(first.followed_by(rest).values["a"], whole.values["a"])
    assert first.followed_by(rest).n_iter == whole.n_iter
    assert first.followed_by(rest).n_evaluations == whole.n_evaluations


def test_steps_that_do_not_gain_ask_for_no_derivatives():
    """The information says a quarter of the curvature at the start: the first steps are too long and are cut."""
    asked, tried = [], []

    def objective(v):
        asked.append(v["a"][0])
        return float(-np.cosh(3.0 * v["a"]).sum()), {"a": -3.0 * np.sinh(3.0 * v["a"])}

    def value(v):
        tried.append(v["a"][0])
        return float(-np.cosh(3.0 * v["a"]).sum())

    start, bounds = {"a": np.array([1.0])}, {"a": (np.full(1, -9.0), np.full(1, 9.0))}
    search = hyper.ScoringSearch(objective, lambda v: np.array([[5.0]]), start, bounds, value)
    end = search.go_on(50, 1e-9)
    assert end.converged
    assert abs(end.values["a"][0]) < 1e-4
    assert len(asked) == 1 + end.n_iter  # the start, and once for each step that gained
    assert len(tried) == end.n_evaluations - 1
    assert len(tried) > end.n_iter  # some did not


def test_a_start_that_cannot_catch_up_in_the_steps_it_has_is_left_behind():
    def objective(v):
        return float(-np.sum((v["a"] - 2.0) ** 2)), {"a": -2.0 * (v["a"] - 2.0)}

    def after(rival):  # the information is ten times too large: steps are short, and gain about 0.3 each
        start, bounds = {"a": np.zeros(1)}, {"a": (np.full(1, -9.0), np.full(1, 9.0))}
        search = hyper.ScoringSearch(objective, lambda v: np.array([[40.0]]), start, bounds)
        return search.go_on(4, 1e-9, rival)

    assert after(-np.inf).n_iter == after(-3.0).n_iter == 4
    behind = after(100.0)
    assert (behind.n_iter, behind.message, behind.converged) == (1, "left behind", False)


def test_scoring_stalls_where_the_information_is_wrong():
    def objective(v):
        return float(-np.sum(1e6 * v["a"] ** 4 + v["a"] ** 2)), {"a": -4e6 * v["a"] ** 3 - 2.0 * v["a"]}

    start, bounds = {"a": np.ones(1)}, {"a": (np.full(1, -9.0), np.full(1, 9.0))}
    end = by_scoring(objective, lambda v: 1e-3 * np.eye(1), start, bounds, 50)
    assert end.message == hyper.STALLED
    assert not end.converged


def test_scoring_ends_where_a_step_hopes_for_nothing():
    """At the optimum the step has no length; where the information overstates the curvature hopes are negative."""

    def objective(v):
        return float(-np.sum(v["a"] ** 2)), {"a": -2.0 * v["a"]}

    bounds = {"a": (np.full(1, -9.0), np.full(1, 9.0))}
    at_rest = by_scoring(objective, lambda v: 2.0 * np.eye(1), {"a": np.zeros(1)}, bounds, 50)
    assert at_rest.message == hyper.STALLED
    assert at_rest.n_evaluations < 10

    def bent(v):  # the derivative says up, the value goes down: only a shorter step can help, and none does
        return float(-np.abs(v["a"]).sum()), {"a": np.full(1, 1e-3)}

    ended = by_scoring(bent, lambda v: np.zeros((1, 1)), {"a": np.zeros(1)}, bounds, 50)
    assert ended.message == hyper.STALLED
    assert ended.n_evaluations < 10


def test_blocks_that_hardly_bear_on_each_other_are_climbed_in_few_steps():
    """Forty long narrow ridges, each its own way, and a parameter that all share; one entry ends at its bound."""
    rng = np.random.default_rng(0)
    turned = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(40)]
    C = np.stack([Q @ np.diag(np.exp(rng.uniform(-4.0, 4.0, 3))) @ Q.T for Q in turned])
    aim = rng.normal(size=(40, 3))

    def objective(v):
        away = v["own"].reshape(40, 3) - aim - 0.02 * v["common"]
        pull = np.einsum("kij,kj->ki", C, away)
        value = -0.5 * float((away * pull).sum() + (v["common"] - 1.0) @ (v["common"] - 1.0))
        return value, {"common": 0.02 * pull.sum(keepdims=True)[0] - v["common"] + 1.0, "own": -pull.ravel()}

    start = {"common": np.zeros(1), "own": np.zeros(120)}
    bounds = hyper.bounds_around(start)
    bounds["own"][1][0] = aim[0, 0] - 0.3
    blocks = [np.array([[0]]), 1 + np.arange(120).reshape(40, 3)]
    end = hyper.maximise_by_blocks(objective, start, bounds, blocks, 500, 1e-8, 5)
    other = hyper.maximise(objective, start, bounds, 5000, 1e-10, 5, 20)
    assert end.converged
    assert end.at_bound == [("own", 0)]
    assert end.objective > other.objective - 1e-5
    assert end.n_evaluations < 0.7 * other.n_evaluations
    short = hyper.maximise_by_blocks(objective, start, bounds, blocks, 4, 1e-8, 5)
    assert not short.converged
    assert short.n_evaluations == 5


@pytest.mark.parametrize(
    "own", [SquaredExponential(0.5, (1.0, 2.0)), SquaredExponential(0.5, (1.0, 2.0)) + Constant(0.2)]
)
def test_directions_of_stacked_kernels_are_those_of_each_task(own):
    """Of an exact form at once, of the other, whose derivatives are differences, one after the other."""
    pytest.importorskip("torch")
    setup, values, _ = prepared(False)
    joint = sharing.sharing_setup(replace(setup, form=replace(setup.form, strength=1.0)), own, (0, 1, 2))
    at = {
        **values,
        "factor": 0.4 + 0.1 * np.arange(6),
        "specific": np.concatenate([own.theta + 0.3 * t for t in range(3)]),
    }
    there = replace(
        joint,
        tasks=PlacedTasks(setup.cells, device=Device("cpu")),
        design=Design.from_cells(setup.cells, Device("cpu")),
    )
    host, stacked = (directions(at, multitask.condition(at, s).posterior, s) for s in (joint, there))
    np.testing.assert_allclose(to_host(stacked), host, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("matters", [True, False])
def test_a_lengthscale_that_ran_away_is_put_back_where_its_column_matters(matters):
    """So far out the logarithm has no slope: the search would end there."""
    rng = np.random.default_rng(1)
    X, task = rng.normal(size=(60, 2)), np.repeat(np.arange(3), 20)
    y = np.sin(2.0 * X[:, 0]) + (0.5 * X[:, 1] if matters else 0.0) + 0.1 * rng.normal(size=60)
    model = MultiTaskGPRegressor(share_noise=True, task_prior=None, prior=None, specific_kernel=None)
    data = model._arrange(model._read(X, y, task)[0])
    setup, values = model._prepare(data, PlacedTasks(data.cells), EXACT, {"noise": np.log(model._start_noise(data))})
    start = search.starts_of(setup, values)[0]
    away = {**start, "kernel": start["kernel"] + np.array([0.0, np.log(1e5)])}
    bounds = bounds_of(start, setup.cells)
    ascent = ascent_of(setup, data.column_scales, None, start, {"tol": 1e-3, "patience": 10})
    best = ascent.maximise(away, bounds, 100, 1e-6)
    assert best.values["kernel"][1] - start["kernel"][1] > np.log(1e4)  # it stays there
    nearer = ascent.put_back(best.values)
    if not matters:
        assert nearer is None
        return
    np.testing.assert_array_equal(nearer["kernel"][0], best.values["kernel"][0])
    end = ascent.maximise(nearer, bounds, 100, 1e-6)
    assert end.objective > best.objective + 10.0
    assert ascent.maximise_from([away], bounds, 200, tol=1e-6).objective == pytest.approx(end.objective, abs=1e-3)
    assert ascent.put_back(end.values) is None
