"""Several threads that fit at once: BLAS has its threads back, and every answer is the same, bit by bit."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

import borrow
import borrow.numerics.linalg  # loads the BLAS of SciPy, before anything is counted
from borrow.numerics import threads
from borrow.numerics.threads import SMALL_BLOCK, one_thread, single_thread
from borrow.tasks.workers import on_one_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        yield


def test_first_in_sets_and_last_out_restores():
    outer, inner = one_thread(), single_thread(SMALL_BLOCK - 1)
    outer.__enter__()
    inner.__enter__()
    assert blas_threads() == {1}
    outer.__exit__(None, None, None)  # not in the order of a stack, as two threads may
    assert blas_threads() == {1}
    inner.__exit__(None, None, None)
    assert blas_threads() == {2}
    with single_thread(SMALL_BLOCK):
        assert blas_threads() == {2}


def test_error_inside_restores():
    with pytest.raises(ZeroDivisionError):
        on_one_thread(lambda: 1 / 0)
    assert blas_threads() == {2}


def test_an_interrupt_while_leaving_is_made_good_by_the_next(monkeypatch):
    def interrupted(self, holder):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threads._Limit, "leave", interrupted)
        with pytest.raises(KeyboardInterrupt), one_thread():
            pass
    assert blas_threads() == {1}
    with one_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_many_threads_in_and_out():
    barrier = Barrier(8)

    def work(_):
        barrier.wait()
        seen = set()
        for _ in range(30):
            with one_thread():
                seen |= blas_threads()
        return seen

    with ThreadPoolExecutor(8) as pool:
        assert set().union(*pool.map(work, range(8))) == {1}
    assert blas_threads() == {2}


def test_threads_that_fit_at_once_find_the_same_bits():
    rng = np.random.default_rng(3)
    tasks = np.repeat(["a", "b"], 40)
    X = rng.uniform(-2.0, 2.0, (80, 3))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=80)

    def fit(name):
        settings = {"n_basis": 8} if name == "MultiTaskRBFRegressor" else {}
        return np.stack(getattr(borrow, name)(**settings).fit(X, y, tasks).predict(X, tasks, return_std=True))

    names = ["PooledGPRegressor", "MultiTaskRBFRegressor"]
    alone = {name: fit(name) for name in names}
    with ThreadPoolExecutor(2) as pool:
        for name, found in zip(names * 6, pool.map(fit, names * 6), strict=True):
            assert_array_equal(found, alone[name])
    assert blas_threads() == {2}
