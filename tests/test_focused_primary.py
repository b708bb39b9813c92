"""The part of the primary's own, and what is found of it given what the other tasks say."""

from dataclasses import replace

import numpy as np
import pytest

import borrow
from borrow import kernels
from borrow.models.focused import primary
from borrow.models.focused.model import condition, objective_of
from borrow.models.focused.relations import Search
from borrow.models.focused.scoring import FocusedAscent
from borrow.models.focused.starts import fit_alone
from borrow.models.gp.model import bounds_of
from borrow.numerics.optimise import Optimum

OWN = kernels.SquaredExponential(0.4, (0.8, 0.8))


def searched(inducing, kernel=None, prior="auto"):
    """A search and an optimum that it may have reached: the primary has a part of its own and repeated rows."""
    rng = np.random.default_rng(4)
    X, task = rng.uniform(-2, 2, (90, 2)), np.repeat(["p", "a", "b"], 30)
    X[5:9] = X[4]  # replicates
    shared, own = np.sin(2 * X[:, 0]), 0.6 * np.cos(3 * X[:, 1])
    y = np.select([task == "p", task == "a"], [shared + own, -1.5 * shared], 0.8 * shared) + 0.1 * rng.normal(size=90)
    settings = {"specific_kernel": {"p": OWN, "a": OWN, "b": OWN}, "rho": {"p": 1.0, "a": -1.2, "b": 0.7}}
    model = borrow.FocusedGPRegressor(
        primary="p", kernel=kernel, inducing=inducing, optimizer=None, noise={"p": 0.2, "a": 0.1, "b": 0.1}, **settings
    ).fit(X, y, tasks=task)
    fit = model.fitted_.model
    ascent = FocusedAscent(fit.setup, fit.scales, prior, 1.0)
    alone = fit_alone(fit.setup, fit.values, fit.scales, prior, 100)
    search = Search(ascent, bounds_of(fit.values, fit.setup.cells), alone, 100)
    return search, Optimum(fit.values, search.objective(fit.values)[0], 0, 0, True, "")


def present(search, values):
    """What `PrimaryConditional` is asked for at the values themselves."""
    t = search.setup.primary
    own = values["specific"][search.setup.specific_parts[t]]
    return {"scale": np.zeros(1), "kernel": own, "noise": values["noise"][t : t + 1]}


@pytest.mark.parametrize("inducing", [None, 25])
def test_given_the_others_the_primary_has_the_density_that_leaving_it_out_costs(inducing):
    search, best = searched(inducing, prior=None)
    setup, t = search.setup, search.setup.primary
    cells = setup.cells.only(t)
    assert cells.dof.sum() == 4
    value, _ = primary.primary_conditional(search, best.values)(present(search, best.values))
    left_out = condition(best.values, setup).posterior.evidence_given(t) + setup.log_normaliser(best.values, t)
    constant = cells.log_count.sum()  # of no hyper-parameter a function
    assert value + constant == pytest.approx(left_out, abs=1e-6)


@pytest.mark.parametrize("prior", [None, "auto"])
def test_its_derivatives_are_those_of_differences(prior):
    search, best = searched(None, prior=prior)
    objective, at = primary.primary_conditional(search, best.values), present(search, best.values)
    _, by = objective(at)
    for name, value in at.items():
        for i in range(value.size):
            step = {name: value + 1e-5 * (np.arange(value.size) == i)}
            back = {name: value - 1e-5 * (np.arange(value.size) == i)}
            difference = (objective({**at, **step})[0] - objective({**at, **back})[0]) / 2e-5
            assert by[name][i] == pytest.approx(difference, rel=1e-5, abs=1e-6)


def test_a_change_of_the_scale_leaves_the_other_tasks_as_they_are():
    """What it adds to the whole objective is what it adds to the primary's rows given the others."""
    search, best = searched(None)
    moved = primary.settle_given_others(search, best.values)
    v = search.setup.kernel.mask_of("variance").astype(bool)
    w, now = (x["rho"] * np.exp(0.5 * x["kernel"][v]) for x in (best.values, moved))
    assert not np.allclose(moved["kernel"][v], best.values["kernel"][v])
    assert now == pytest.approx(w)
    objective, t = primary.primary_conditional(search, best.values), search.setup.primary
    scale = 0.5 * (moved["kernel"][v] - best.values["kernel"][v])
    part = search.setup.specific_parts[t]
    after = {"scale": scale, "kernel": moved["specific"][part], "noise": moved["noise"][t : t + 1]}
    gained = objective(after)[0] - objective(present(search, best.values))[0]
    assert gained > 0.5
    assert search.objective(moved)[0] - best.objective == pytest.approx(gained, abs=1e-6)


def test_settling_finds_what_a_search_over_all_parameters_leaves():
    search, best = searched(25)
    settled = primary.settle_primary(search, best)
    assert settled.objective > best.objective + 0.5
    again = primary.settle_primary(search, settled)
    assert again.objective == pytest.approx(settled.objective, abs=1e-3)


def test_a_product_of_kernels_has_no_scale():
    kernel = kernels.SquaredExponential(1.0, (1.0, 1.0)) * kernels.SquaredExponential(1.0, (3.0, 3.0))
    search, best = searched(None, kernel=kernel)
    moved = primary.settle_given_others(search, best.values)
    np.testing.assert_array_equal(moved["kernel"], best.values["kernel"])
    np.testing.assert_array_equal(moved["rho"], best.values["rho"])
    assert search.objective(moved)[0] > best.objective


def test_prior_of_the_scale_is_that_of_the_kernel_along_it():
    search, best = searched(None)
    setup, scales = search.setup, search.ascent.scales
    of_scale = primary.prior_of_scale(setup.kernel, best.values["kernel"], scales)
    of_all = objective_of(setup, scales, "auto", None)
    none = objective_of(setup, scales, None, None)

    def log_prior(s):
        at = {**best.values, "kernel": best.values["kernel"] + 2.0 * s * setup.kernel.mask_of("variance")}
        return of_all(at)[0] - none(at)[0]

    for s in (-0.7, 0.4, 1.3):
        expected = log_prior(s) - log_prior(0.0)
        found = of_scale.log_density(np.array([s]))[0] - of_scale.log_density(np.zeros(1))[0]
        assert found == pytest.approx(expected, abs=1e-9)


def test_no_part_is_given_to_a_primary_whose_rows_gain_nothing_by_it(monkeypatch):
    """It is seen as the others stand, and no search is begun."""
    search, best = searched(None)
    setup, values = primary.without_own_part(search.setup, best.values)
    alone = fit_alone(setup, values, search.ascent.scales, "auto", 100)
    bare = replace(search.on(setup), bounds=bounds_of(values, setup.cells), alone=alone)
    best = Optimum(values, bare.objective(values)[0], 0, 0, True, "")
    wider, found = primary.give_own_part(bare, best, values)
    assert wider.setup.specific[wider.setup.primary] is not None
    assert primary.primary_gain(wider, found.values) > primary.primary_gain(bare, best.values)
    monkeypatch.setattr(primary, "primary_gain", lambda search, values: 0.0)
    monkeypatch.setattr(Search, "go_on", lambda *_: pytest.fail("a search was begun"))
    assert primary.give_own_part(bare, best, values) == (bare, best)
