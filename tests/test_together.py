"""Single-task GPs as one batch: where each search ends, against searches one by one; tensors on the CPU."""

import numpy as np
import pytest

from borrow.data.cells import Cells
from borrow.inference import ExactInference
from borrow.kernels import SquaredExponential
from borrow.models.focused.starts import fit_own
from borrow.models.gp.model import Batch, condition_single, fit_each, fit_together, single_priors
from borrow.numerics.device import Device
from borrow.numerics.linalg import NotPositiveDefiniteError
from borrow.numerics.optimise import maximise, maximise_each
from borrow.tasks.placed import PlacedTasks

SIZES = (9, 30, 14, 25, 11, 40)
SCALES = np.array([1.0, 0.5])
TEMPLATE = SquaredExponential(1.0, (1.5, 0.8))


def cells(seed=0):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(SIZES)])
    X, task = rng.normal(size=(starts[-1], 2)) * SCALES, np.repeat(np.arange(len(SIZES)), SIZES)
    count = rng.integers(1, 4, len(X)).astype(float)
    y = np.sin((1 + task) * X[:, 0]) + 0.3 * rng.normal(size=len(X)) / np.sqrt(count)
    within = (
        np.bincount(task, count - 1.0),
        np.bincount(task, 0.05 * (count - 1.0)),
        -0.5 * np.bincount(task, np.log(count)),
    )
    return Cells(X, y, count, starts, *within)


def placed():
    pytest.importorskip("torch")
    return PlacedTasks(cells(), device=Device("cpu"))


def test_the_batch_is_every_task_by_itself_and_its_gradient_is_that_of_differences():
    tasks, T = placed(), len(SIZES)
    x = np.random.default_rng(1).normal(size=(T, 4)) * 0.3 + np.append(TEMPLATE.theta, -2.0)
    batch = Batch(tasks, TEMPLATE, SCALES, "auto")
    value, by = batch.objective(x)
    log_prior = single_priors(TEMPLATE, SCALES)
    for t in range(T):
        at = {"kernel": x[t, :3], "noise": x[t, 3:]}
        own = condition_single(PlacedTasks(tasks.cells.only(t)), TEMPLATE.with_theta(x[t, :3]), at)
        assert value[t] == pytest.approx(own.evidence + log_prior(at)[0], rel=1e-10)
        assert batch.evidence(x)[0][t] == pytest.approx(own.evidence, rel=1e-10)
    for i in range(4):
        e = 1e-5 * np.eye(4)[i]
        numeric = (batch.objective(x + e)[0] - batch.objective(x - e)[0]) / 2e-5
        np.testing.assert_allclose(by[:, i], numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("prior", ["auto", None])
def test_own_fits_in_a_batch_end_where_those_one_by_one_do(prior):
    tasks, noise = placed(), np.full(len(SIZES), np.log(0.1))
    theta, log_noise, evidence = fit_together(tasks, TEMPLATE, noise, SCALES, prior, 200, 1e-4)
    log_prior = single_priors(TEMPLATE, SCALES)
    for t in range(len(SIZES)):
        host = PlacedTasks(tasks.cells.only(t))
        own, likelihood, reached, *_ = fit_own(host, TEMPLATE, {"noise": noise[t : t + 1]}, SCALES, prior, 200)
        ends = {"kernel": own, **likelihood}, {"kernel": theta[t], "noise": log_noise[t : t + 1]}
        expected, found = (0.0 if prior is None else log_prior(at)[0] for at in ends)
        assert evidence[t] + found > reached + expected - 0.02


def test_the_focused_model_takes_its_own_fits_from_batches_where_there_is_a_device():
    pytest.importorskip("torch")
    starts = [(TEMPLATE, {"noise": np.array([-2.0])})] * 5 + [(None, {})]
    how = SCALES, "auto", 100, ExactInference(), 1e-2
    device, host = (fit_each(PlacedTasks(cells(), device=d), fit_own, starts, *how) for d in (Device("cpu"), None))
    assert device[5] is None
    assert host[5] is None
    for a, b in zip(device[:5], host[:5], strict=True):
        assert a[2] == pytest.approx(b[2], abs=0.1)
        np.testing.assert_allclose(a[0], b[0], atol=0.1)


def bowls(x):
    """Four concave functions of three variables, each with its own scale and centre."""
    scale, centre = 10.0 ** np.arange(4)[:, None], np.array([[1.0, -2.0, 0.5]]) * np.arange(1, 5)[:, None]
    bent = np.array([1.0, 4.0, 0.25])
    away = x - centre
    value = -(scale[:, 0]) * np.sum(bent * away**2 + 0.1 * away**4, axis=1)
    return value, -scale * (2 * bent * away + 0.4 * away**3)


def test_many_searches_each_end_at_their_own_maximum_within_bounds():
    low, high = np.full((4, 3), -3.0), np.full((4, 3), 2.5)
    found = maximise_each(bowls, np.zeros((4, 3)), (low, high), 200, 1e-10)
    for t in range(4):

        def one(v, t=t):
            x = np.zeros((4, 3))
            x[t] = v["x"]
            value, by = bowls(x)
            return float(value[t]), {"x": by[t]}

        start = {"x": np.zeros(3)}
        expected = maximise(one, start, {"x": (low[t], high[t])}, 500, 1e-12)
        np.testing.assert_allclose(found[t], expected.values["x"], atol=1e-3)


def test_a_failed_factorisation_shortens_the_steps():
    calls = []

    def fragile(x):
        calls.append(x)
        if np.any(np.abs(x) > 1.5):
            raise NotPositiveDefiniteError("too far")
        return -np.sum((x - 1.4) ** 2, axis=1), -2.0 * (x - 1.4)

    start = np.full((2, 1), -1.4)
    found = maximise_each(fragile, start, (start - 9, start + 9), 100, 1e-12)
    np.testing.assert_allclose(found, 1.4, atol=0.05)
