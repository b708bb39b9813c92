"""Shares of the gain against the definition: every order of the tasks, written out."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from borrow.transfer import attribute as shapley
from borrow.transfer import decide

RNG = np.random.default_rng(5)
ROWS = 40


def all_sets(tasks):
    return [frozenset(S) for size in range(len(tasks) + 1) for S in combinations(tasks, size)]


def random_losses(tasks, seed=0):
    """A loss per row for every set, with nothing special about it."""
    return {S: np.random.default_rng([seed, i]).uniform(1, 2, ROWS) for i, S in enumerate(all_sets(tasks))}


def additive(worth, noise=0.05):
    """Each task takes its worth from the loss of every row, more or less."""
    own = {t: w + noise * RNG.normal(size=ROWS) for t, w in worth.items()}
    rest = 2.0 + 0.1 * np.sin(np.arange(ROWS))
    return {S: rest - sum((own[t] for t in sorted(S)), np.zeros(ROWS)) for S in all_sets(worth)}


def judge(values):
    return decide.interval(values, 1.0, np.ones(len(values)), range(len(values)))


def carriers(found):
    return [t for t, w in found.items() if w.gain.mean > 0 and w.p < 0.05]


@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_shares_are_those_of_the_definition_by_sets(k):
    """Shapley's own formula: sets S of the others, weighed by |S|! (k - 1 - |S|)! / k!."""
    tasks = list("abcde"[:k])
    losses = random_losses(tasks)
    found = shapley.shares_of(tasks, losses, seed=0)
    for t in tasks:
        expected = sum(
            factorial(len(S)) * factorial(k - 1 - len(S)) / factorial(k) * (losses[S] - losses[S | {t}])
            for S in all_sets(tasks)
            if t not in S
        )
        np.testing.assert_allclose(found[t], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k", [3, 8])
def test_shares_add_up_to_the_gain_exact_or_sampled(k):
    tasks = list("abcdefgh"[:k])
    every, losses = frozenset(tasks), random_losses(tasks)
    asked = shapley.coalitions(tasks, seed=3)
    assert len(asked) == len(set(asked))
    assert len(asked) == 2**k if k <= shapley.EXACT_UP_TO else len(asked) <= 2 * k + 8 * (k - 3) + 2
    found = shapley.attribute(tasks, {S: losses[S] for S in asked}, judge, seed=3)
    total = np.mean(losses[frozenset()] - losses[every])
    assert sum(w.gain.mean for w in found.values()) == pytest.approx(total, rel=1e-10)
    for t in tasks:
        assert found[t].alone == pytest.approx(np.mean(losses[frozenset()] - losses[frozenset([t])]))
        assert found[t].without == pytest.approx(np.mean(losses[every - {t}] - losses[every]))


def test_where_tasks_add_up_sampled_shares_are_the_worths_and_useless_tasks_carry_nothing():
    worth = dict(zip("abcdefg", [0.5, 0.0, 0.2, 0.0, -0.1, 0.0, 0.3], strict=True))
    losses = additive(worth)
    found = shapley.attribute(list(worth), losses, judge)
    np.testing.assert_allclose([w.gain.mean for w in found.values()], list(worth.values()), atol=0.04)
    assert carriers(found) == ["a", "c", "g"]
    assert shapley.near_copies(list(worth), losses) == []


def test_copies_hide_each_other_from_without_and_not_from_their_shares():
    tasks = ["one", "two", "third", "nothing"]
    rows = 0.05 * RNG.normal(size=ROWS)
    losses = {
        S: 1.0 + rows - 0.4 * bool(S & {"one", "two"}) - 0.2 * ("third" in S) + 0.01 * RNG.normal(size=ROWS)
        for S in all_sets(tasks)
    }
    found = shapley.attribute(tasks, losses, judge)
    assert shapley.near_copies(tasks, losses) == [["one", "two"]]
    assert abs(found["one"].without) < 0.02
    assert found["one"].alone == pytest.approx(0.4, abs=0.02)
    assert found["one"].gain.mean == pytest.approx(0.2, abs=0.02)
    assert found["third"].gain.mean == pytest.approx(0.2, abs=0.02)
    assert set(carriers(found)) == {"one", "two", "third"}


def test_a_task_that_another_holds_within_is_no_copy_of_it():
    """The better one makes the other superfluous, and is itself not to be replaced."""
    gain = {frozenset("a"): 0.5, frozenset("b"): 0.2, frozenset("ab"): 0.5}
    losses = {S: 1.0 - gain.get(S, 0.0) + np.zeros(ROWS) for S in all_sets("ab")}
    assert shapley.near_copies("ab", losses) == []
    losses[frozenset("b")] -= 0.25
    assert shapley.near_copies("ab", losses) == [["a", "b"]]


def test_holm_by_hand():
    assert decide.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert decide.holm([0.5, 0.9]) == [1.0, 1.0]


def test_a_negative_share_is_never_a_carrier_and_no_width_says_nothing():
    found = shapley.attribute(["a", "b"], additive({"a": -0.5, "b": 0.0}, noise=0.0), judge)
    assert carriers(found) == []
    assert [w.p for w in found.values()] == [1.0, 1.0]
