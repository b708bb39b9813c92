"""How sure a relation of the focused model is: the path of a relation, its interval and its odds."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import borrow
from borrow.kernels import Constant, Linear, RationalQuadratic, SquaredExponential
from borrow.models.focused.relatedness import Profile, Relation, RelationByRho
from borrow.models.focused.scoring import FocusedAscent
from borrow.numerics.optimise import pack


def related_draw(n, seed, correlation):
    """Two functions of lengthscale 1 on [0, 6] with this correlation, n rows of each."""
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(0.0, 6.0, (2 * n, 1))
    L = np.linalg.cholesky(np.exp(-0.5 * (X - X.T) ** 2) + 1e-8 * np.eye(2 * n))
    f, g = (L @ rng.normal(size=2 * n) for _ in range(2))
    task = np.repeat(["p", "s"], n)
    y = np.where(task == "p", f, correlation * f + np.sqrt(1.0 - correlation**2) * g)
    return X, y + 0.1 * rng.normal(size=2 * n), task


def fitted(n, seed, correlation):
    X, y, task = related_draw(n, seed, correlation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows are said to be few
        return borrow.FocusedGPRegressor(primary="p", normalize_y=False).fit(X, y, tasks=task)


def profile_of(model):
    fit = model.fitted_.model
    ascent = FocusedAscent(fit.setup, fit.scales, model.prior, 1.0)
    relation = Relation(fit.setup, fit.values, int(fit.setup.secondaries[0]), 0)
    return Profile(ascent, fit.values), relation


@pytest.fixture(scope="module")
def strong():
    return fitted(12, 3, 0.9)


def test_a_relation_by_hand(strong):
    profile, relation = profile_of(strong)
    v, u = strong.kernel_.variance, strong.specific_kernels_["s"].parts[0].variance
    rho = strong.rho_["s"]
    assert rho != 0.0
    assert relation.z(profile.x) == pytest.approx(np.arcsinh(rho * np.sqrt(v / u)))
    assert relation.share(profile.x) == pytest.approx(rho**2 * v / (rho**2 * v + u))
    assert np.tanh(relation.z(profile.x)) ** 2 == pytest.approx(relation.share(profile.x))
    assert relation.z(relation.put(profile.x, -0.7)) == pytest.approx(-0.7)
    table = strong.relatedness().rows()[1]
    assert table["low"] < table["correlation"] < table["high"] <= 1.0
    # d(rho sqrt v, log u) / d(z, log T) is sqrt(T), whatever z: rho sqrt v = sqrt(T) tanh z, u = T / cosh^2 z
    for z, T in ((0.0, 2.0), (1.3, 0.5)):
        J = [[np.sqrt(T) / np.cosh(z) ** 2, 0.5 * np.sqrt(T) * np.tanh(z)], [-2.0 * np.tanh(z), 1.0]]
        assert np.linalg.det(J) == pytest.approx(np.sqrt(T))


def test_the_path_is_the_profile(strong):
    """At every relation on the path no other hyper-parameters do much better, by a search of their own."""
    profile, relation = profile_of(strong)
    path = profile.path(relation, profile.x, 0.4)
    at = np.flatnonzero(path.value > path.value.max() - 3.0)
    assert len(at) >= 4
    others = np.delete(np.arange(len(profile.x)), relation.rho)
    for k in (at[0], at[len(at) // 2], at[-1]):

        def cost(free, z=path.z[k], x=path.x[k]):
            moved = x.copy()
            moved[others] = free
            return -profile.evaluate(relation.put(moved, z))[0]

        best = -minimize(cost, path.x[k][others], method="Nelder-Mead", options={"maxfev": 400}).fun
        assert path.value[k] > best - 0.35


def test_odds_are_the_ratio_of_integrals():
    """All but rho held: the odds by a sum over rho, with the prior of w = rho sqrt(v) written out."""
    X, y, task = related_draw(12, 5, 0.6)
    model = borrow.FocusedGPRegressor(primary="p", normalize_y=False).fit(X, y, tasks=task)
    row = model.relatedness().rows()[1]
    profile, relation = profile_of(model)
    path = profile.path(relation, profile.null(relation), 0.5)
    fine = np.linspace(path.z[0], path.z[-1], 2001)
    v, u = relation.variances(profile.x)
    T = profile.x[relation.rho] ** 2 * v + u
    none = path.at(np.zeros(1))[0]
    by_hand = np.sum(np.exp(path.at(fine) - none)) * (fine[1] - fine[0]) * np.sqrt(T) / np.sqrt(2.0 * np.pi)
    assert row["odds"] >= 0.5 * by_hand  # the other path can only add
    assert row["odds"] < 400.0


def test_intervals_hold_the_truth_and_unrelated_tasks_are_seldom_clear():
    """Ten rows each: ten draws of correlation 0.8, and ten of none."""
    inside, clear = [], []
    for seed in range(10):
        row = fitted(10, seed, 0.8).relatedness().rows()[1]
        inside.append(row["low"] <= 0.8 <= row["high"])
        assert np.isnan(row["std_error"]) == (row["rho"] == 0.0)
        row = fitted(10, 100 + seed, 0.0).relatedness().rows()[1]
        clear.append(row["low"] > 0.0 or row["high"] < 0.0)
        assert row["high"] - row["low"] > 0.5  # ten rows do not say that there is none
    assert np.mean(inside) >= 0.9
    assert sum(clear) <= 1


def test_many_rows_of_a_copy_are_sure():
    row = fitted(40, 0, 1.0).relatedness().rows()[1]
    assert row["low"] > 0.6
    assert row["odds"] > 100.0


@pytest.mark.parametrize("inducing", ["auto", "primary"])
def test_more_than_150_hyper_parameters(inducing):
    """Forty tasks, of numbers and of labels: whole where all pairs of rows are written out, else task by task."""
    rng = np.random.default_rng(0)
    X, task = rng.uniform(0.0, 6.0, (160, 1)), np.repeat(np.arange(40), 4)
    f = np.sin(X[:, 0])
    how = {"primary": 0, "optimizer": None, "rho": 0.8, "inducing": inducing}
    numbers = borrow.FocusedGPRegressor(noise=0.1, **how).fit(X, f + 0.1 * rng.normal(size=160), tasks=task)
    labels = np.where((f > 0) ^ (rng.uniform(size=160) < 0.05), "yes", "no")
    both = [numbers, borrow.FocusedGPClassifier(**how).fit(X, labels, tasks=task)]
    for model in both:
        fit = model.fitted_.model
        fit = fit[0].posterior if isinstance(fit, list) else fit
        assert pack(fit.values).size > 150
        table = model.relatedness()
        for name in ("std_error", "low", "high"):
            assert np.all(np.isfinite(table[name]))
        assert np.all(table["low"][1:] < table["correlation"][1:])
        assert np.all(table["correlation"][1:] < table["high"][1:])


def test_a_prior_that_is_switched_off_is_not_in_the_curvature(monkeypatch):
    """Task by task, as for thousands of tasks: what rho_prior=None leaves is flatter than what N(0, 0.1^2) leaves."""
    monkeypatch.setattr("borrow.models.focused.relatedness.WHOLE", 0)
    X, y, task = related_draw(12, 3, 0.9)
    how = {"primary": "p", "normalize_y": False, "optimizer": None, "rho": 0.5, "inducing": "primary"}
    free, held = (
        borrow.FocusedGPRegressor(rho_prior=prior, **how).fit(X, y, tasks=task).relatedness()["std_error"][1]
        for prior in (None, 0.1)
    )
    assert free > 1.2 * held
    assert held < 0.1 / np.sqrt(borrow.kernels.SquaredExponential(1.0, 1.0).variance) * 1.05


@pytest.mark.parametrize("seed", [16, 29, 50])
def test_the_interval_holds_the_correlation_of_the_fit(seed):
    """A relation that the fit has dropped may have odds for it, and a maximum of its own far from none."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.uniform(-3, 3, (30, 1)), np.repeat(list("abcdef"), 5)
    y = np.sin(1.5 * X[:, 0]) + 0.3 * rng.normal(size=30)
    y[tasks >= "d"] = rng.normal(size=15)
    found = borrow.FocusedGPRegressor(primary="a").fit(X, y, tasks=tasks).relatedness()
    dropped = found["rho"] == 0.0
    assert dropped.any()
    assert (found["odds"][dropped] > 9.0).any()
    assert np.all((found["low"] <= found["correlation"]) & (found["correlation"] <= found["high"]))
    assert np.all(found["low"][dropped] < found["high"][dropped])


KERNELS = {
    "kernel": RationalQuadratic(1.3, (1.0, 2.0, 0.7)) * Linear((1.0, 0.4, 0.2)),
    "specific_kernel": SquaredExponential(0.8, 1.2) + Constant(0.5) + Linear(0.3),
}


@pytest.mark.parametrize("settings", [{}, {"background": 2, "inducing": 9}, KERNELS])
def test_slopes_of_a_relation_are_those_of_differences(settings):
    """Of z, of the log odds of what is in common, and of the weight, by every hyper-parameter."""
    rng = np.random.default_rng(4)
    X, tasks = rng.normal(size=(36, 3)), np.repeat(list("abc"), 12)
    y = X[:, 0] + np.where(tasks == "a", 0.5, -0.3) * X[:, 1] ** 2 + 0.2 * rng.normal(size=36)
    model = borrow.FocusedGPRegressor(primary="a", rho=0.6, optimizer=None, **settings).fit(X, y, tasks=tasks)
    fit = model.fitted_.model
    x = pack(fit.values) + 0.1 * rng.normal(size=pack(fit.values).size)
    for i, t in enumerate(fit.setup.secondaries):
        relation, weight = (cls(fit.setup, fit.values, int(t), i) for cls in (Relation, RelationByRho))
        for value, slope in (
            (relation.z, relation.slope(x)),
            (lambda at, relation=relation: relation.common_odds(at)[0], relation.common_odds(x)[1]),
            (weight.z, weight.slope(x)),
        ):
            if not np.isfinite(value(x)):
                continue
            steps = 1e-5 * np.eye(len(x))
            np.testing.assert_allclose(slope, [(value(x + h) - value(x - h)) / 2e-5 for h in steps], atol=1e-8)
        assert np.count_nonzero(relation.slope(x)) >= 3
