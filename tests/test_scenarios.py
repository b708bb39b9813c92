"""Every scenario draws a table that can be learnt from, the same for the same seed, with test rows apart."""

import sys

import numpy as np
import pytest

from run_page import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "studies"))
import scenarios


def drawn(name, seed):
    try:
        return scenarios.SCENARIOS[name](seed)
    except FileNotFoundError as absent:
        pytest.skip(str(absent).split(".")[0])


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_a_draw_is_a_table_with_rows_apart(name):
    d = drawn(name, 3)
    assert d.X.shape[0] == len(d.y) == len(d.task)
    assert d.X_test.shape[0] == len(d.y_test) == len(d.task_test) > 20
    assert d.X.shape[1] == d.X_test.shape[1]
    assert np.isfinite(d.X).all()
    assert np.isfinite(d.y).all()
    assert np.isfinite(d.y_test).all()
    assert set(d.task_test) <= set(d.task)
    again = scenarios.SCENARIOS[name](3)
    assert np.array_equal(d.X, again.X)
    assert not np.array_equal(d.y, scenarios.SCENARIOS[name](4).y)


@pytest.mark.parametrize("name", ["compiler, 16 rows", "hijack, mix 0"])
def test_shuffling_leaves_the_primary_and_every_tasks_targets(name):
    d = drawn(name, 1)
    other = d.shuffled(1)
    mine = d.task == d.primary
    assert np.array_equal(d.y[mine], other.y[mine])
    assert not np.array_equal(d.y, other.y)
    for t in np.unique(d.task):
        assert np.array_equal(np.sort(d.y[d.task == t]), np.sort(other.y[d.task == t]))


def test_primary_of_the_focused_scenarios_has_the_rows_that_the_name_says():
    d = drawn("compiler, 16 rows", 0)
    assert np.sum(d.task == d.primary) == 16
    assert len(np.unique(d.task)) == 11
    seen = {x.tobytes() for x in d.X[d.task == d.primary]}
    assert not seen & {x.tobytes() for x in d.X_test}
    d = drawn("hijack, mix 0", 0)
    assert [int(np.sum(d.task == t)) for t in np.unique(d.task)] == [30, 80, 80, 80, 80]


def test_those_that_may_choose_are_few():
    assert set(scenarios.SCENARIOS) > scenarios.CHOICE
    assert len(scenarios.CHOICE) <= len(scenarios.SCENARIOS) / 2
