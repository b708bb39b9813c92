"""Facts that single changes of the source (`make mutants`) showed to be unguarded: literal figures for each."""

import numpy as np
import pytest
from scipy.special import erfcx

import borrow
from borrow.data.labels import is_pairs
from borrow.inference import EPInference, ExactInference
from borrow.inference.likelihoods import Probit, hazard
from borrow.kernels import SquaredExponential
from borrow.models.focused.model import WeightPrior
from borrow.transfer.folds import read_cv, score_numbers

RNG = np.random.default_rng(0)


def test_errors_are_what_their_names_say():
    y, mean, std = np.array([1.0, 2.0, 4.0]), np.array([1.5, 0.0, 4.0]), np.ones(3)
    errors = {
        "mean squared error": 4.25 / 3,
        "root mean squared error": np.sqrt(4.25 / 3),
        "mean absolute error": 2.5 / 3,
    }
    for name, expected in errors.items():
        assert score_numbers(y, mean, std, name)["error"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("cv", [(2, 3, 4), ("a", "b"), (2, 1.5), "25", 2.5, {2, 3}, [3]])
def test_folds_that_are_none_are_refused(cv):
    with pytest.raises(ValueError, match="expected None, a number of folds"):
        read_cv(cv, 20)


def test_tuples_with_text_are_no_pairs():
    assert is_pairs([([[1.0]], [1.0])])
    assert not is_pairs([("ab", [1.0])])
    assert not is_pairs([([[1.0]], "a")])


def test_hazard_far_below_zero_is_its_asymptotic_series():
    """z + r against r from erfcx, which has eight digits left there."""
    z = np.array([-51.0, -60.0, -100.0, -300.0])
    r = np.sqrt(2.0 / np.pi) / erfcx(-z / np.sqrt(2.0))
    np.testing.assert_allclose(hazard(z)[1], z + r, rtol=1e-7)


def test_missing_targets_do_not_hide_that_the_others_are_tiny():
    y = np.array([1e-200, np.nan, 2e-200])
    with pytest.raises(ValueError, match="y holds no number larger than 2e-200"):
        borrow.SingleTaskGPRegressor().fit(np.arange(3.0)[:, None], y)


@pytest.mark.parametrize("name", ["HierarchicalGPRegressor", "MultiTaskGPRegressor", "FocusedGPRegressor"])
def test_covariances_for_suggestions_are_in_the_units_of_each_task(name):
    """What `suggest` weighs: its diagonal is the square of the deviation, and it scales as the targets do."""
    X = RNG.uniform(0.0, 5.0, (24, 1))
    tasks = np.array(["a", "b"] * 12)
    y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=24)
    kind = getattr(borrow, name)
    settings = {k: v for k, v in {"primary": "a", "optimizer": None}.items() if k in kind._get_param_names()}
    new, names = np.array([[0.3], [2.2], [2.2]]), ["a", "b", "a"]
    found = []
    for size in (1.0, 1e3):
        model = kind(**settings).fit(X, size * y, tasks=tasks)
        code = np.array([model.fitted_.schema.labels.index(v) for v in names])
        found.append(model.covariance_at(new, code) / size**2)
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-9)
    std = model.predict(new, tasks=names, return_std=True)[1] / size
    deviation = np.sqrt(np.diagonal(found[1]))
    assert (deviation <= std * (1.0 + 1e-6)).all()
    assert (deviation > 0.3 * std).all()


def test_prior_of_a_weight_takes_the_mean_variance_over_the_inducing_inputs():
    """w = rho sqrt(v): twice as many inducing inputs change nothing; with labels a primary with an own part counts."""

    class Setup:
        kernel = SquaredExponential(2.0, 1.0)
        background = None
        primary = 0

        def __init__(self, m, own, infer):
            self.Z, self.specific, self.infer = np.linspace(0.0, 1.0, m)[:, None], [own, None, None], infer

    values = {"kernel": Setup.kernel.theta, "rho": np.array([0.5, -1.0])}
    labels, numbers = EPInference(Probit()), ExactInference()
    for m, own, infer, squares in (
        (3, None, labels, 1.25),
        (6, None, numbers, 1.25),
        (3, Setup.kernel, numbers, 1.25),
        (3, Setup.kernel, labels, 2.25),
    ):
        value, by = WeightPrior(Setup(m, own, infer), 0.7)(values)
        assert value == pytest.approx(-squares * 2.0 / (2.0 * 0.49), rel=1e-12)
        np.testing.assert_allclose(by["rho"], -values["rho"] * 2.0 / 0.49)
        assert by["kernel"][0] == pytest.approx(value)


def test_joint_covariances_say_what_one_more_measurement_would_tell():
    """Var[f_i | y_j] = C_ii - C_ij^2 / (C_jj + noise): the fit to one more row has just that variance left."""
    X, noise = np.linspace(0.0, 5.0, 9)[:, None], 0.1
    new, names = np.array([[0.4], [1.1], [1.2], [3.3]]), ["a", "b", "a", "b"]
    tasks, y = ["a", "b", "a"] * 3, np.sin(X[:, 0])
    settings = {"primary": "a", "optimizer": None, "normalize_y": False, "noise": noise, "rho": 0.8,
                "inducing": np.vstack([X, new]), "kernel": SquaredExponential(1.0, 1.0),
                "specific_kernel": SquaredExponential(0.5, 0.8)}  # fmt: skip
    before = borrow.FocusedGPRegressor(**settings).fit(X, y, tasks=tasks)
    C = before.predict(new, tasks=names, return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diagonal(C)), before.predict(new, tasks=names, return_std=True)[1], rtol=1e-8)
    assert np.abs(C - np.diag(np.diagonal(C))).max() > 0.005
    for j in range(4):
        more = np.vstack([X, new[j]]), np.append(y, 0.3)
        after = borrow.FocusedGPRegressor(**settings).fit(*more, tasks=[*tasks, names[j]])
        left = after.predict(new, tasks=names, return_std=True)[1] ** 2
        np.testing.assert_allclose(left, np.diagonal(C) - C[:, j] ** 2 / (C[j, j] + noise), rtol=1e-5, atol=1e-8)
