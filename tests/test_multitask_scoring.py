"""Scoring steps of the symmetric model: the information against its definition, and where the search ends."""

import numpy as np
import pytest

from borrow import MultiTaskGPRegressor
from borrow.estimators.gp import EXACT
from borrow.models.multitask import model as multitask
from borrow.models.multitask import search
from borrow.models.multitask.scoring import average_information, can_score
from borrow.numerics import optimise as hyper
from borrow.tasks.placed import PlacedTasks


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


@pytest.mark.parametrize("share_noise", [False, True])
def test_information_is_that_of_the_derivatives(share_noise):
    setup, values, _ = prepared(share_noise)
    cells = setup.cells

    def covariance(x):
        at = hyper.unpack(x, values)
        noise = np.broadcast_to(np.exp(at["noise"]), setup.M)[cells.task] / cells.count
        return multitask.prior_of_tasks(at, setup).K + np.diag(noise)

    x = hyper.pack(values)
    A, beta = covariance(x), np.linalg.solve(covariance(x), cells.y)
    step = 1e-6
    D = np.stack([(covariance(x + e) - covariance(x - e)) @ beta / (2 * step) for e in step * np.eye(len(x))], axis=1)
    found = average_information(values, setup, multitask.condition(values, setup).posterior)
    np.testing.assert_allclose(found, 0.5 * D.T @ np.linalg.solve(A, D), rtol=1e-5, atol=1e-5)


def test_scoring_ends_no_lower_than_lbfgs():
    setup, values, data = prepared(True)
    assert can_score(setup, search.starts_of(setup, values)[0])
    objective = multitask.objective_of(setup, data.column_scales, None)
    starts = search.starts_of(setup, values)
    bounds = hyper.bounds_around(starts[0], {"noise": float(np.log(hyper.NOISE_FLOOR))})
    plain = hyper.race(objective, starts, bounds, 500, memory=100)
    scored = search.optimise(setup, values, data.column_scales, None, 500)
    assert scored.objective > plain.objective - 0.05
    assert objective(scored.values)[0] == pytest.approx(scored.objective, rel=1e-10)


def test_scoring_keeps_to_bounds_and_says_which():
    def objective(v):
        return float(-np.sum((v["a"] - 3.0) ** 2)), {"a": -2.0 * (v["a"] - 3.0)}

    start = {"a": np.zeros(2)}
    bounds = {"a": (np.full(2, -1.0), np.array([1.0, 9.0]))}
    end = hyper.maximise_by_scoring(objective, lambda v: 2.0 * np.eye(2), start, bounds, 50)
    np.testing.assert_allclose(end.values["a"], [1.0, 3.0], atol=1e-3)
    assert end.converged
    assert end.at_bound == [("a", 0)]


def test_scoring_stalls_where_the_information_is_wrong():
    def objective(v):
        return float(-np.sum(1e6 * v["a"] ** 4 + v["a"] ** 2)), {"a": -4e6 * v["a"] ** 3 - 2.0 * v["a"]}

    start, bounds = {"a": np.ones(1)}, {"a": (np.full(1, -9.0), np.full(1, 9.0))}
    end = hyper.maximise_by_scoring(objective, lambda v: 1e-3 * np.eye(1), start, bounds, 50)
    assert end.message == hyper.STALLED
    assert not end.converged


def test_scoring_ends_where_a_step_hopes_for_nothing():
    """At the optimum the step has no length; where the information overstates the curvature hopes are negative."""

    def objective(v):
        return float(-np.sum(v["a"] ** 2)), {"a": -2.0 * v["a"]}

    bounds = {"a": (np.full(1, -9.0), np.full(1, 9.0))}
    at_rest = hyper.maximise_by_scoring(objective, lambda v: 2.0 * np.eye(1), {"a": np.zeros(1)}, bounds, 50)
    assert at_rest.message == hyper.STALLED
    assert at_rest.n_evaluations < 10

    def bent(v):  # the derivative says up, the value goes down: only a shorter step can help, and none does
        return float(-np.abs(v["a"]).sum()), {"a": np.full(1, 1e-3)}

    ended = hyper.maximise_by_scoring(bent, lambda v: np.zeros((1, 1)), {"a": np.zeros(1)}, bounds, 50)
    assert ended.message == hyper.STALLED
    assert ended.n_evaluations < 10
