"""Shares of the gain against the definition: every order of the tasks, written out."""

from itertools import permutations

import numpy as np
import pytest

from borrow.transfer import shapley

RNG = np.random.default_rng(5)
ROWS = 40


def random_loss(tasks, seed=0):
    """A loss per row for every set, with nothing special about it."""
    table = {}

    def loss(S):
        if S not in table:
            table[S] = np.random.default_rng([seed, *sorted(tasks.index(t) for t in S), 99]).uniform(1, 2, ROWS)
        return table[S]

    return loss


def additive(worth, noise=0.05):
    """Each task takes its worth from the loss of every row, more or less."""
    own = {t: w + noise * RNG.normal(size=ROWS) for t, w in worth.items()}
    return lambda S: 2.0 + 0.1 * np.sin(np.arange(ROWS)) - sum((own[t] for t in sorted(S)), np.zeros(ROWS))


def test_shares_are_the_average_over_all_orders():
    tasks = ["a", "b", "c", "d"]
    loss = random_loss(tasks)
    expected = dict.fromkeys(tasks, 0.0)
    orders = list(permutations(tasks))
    for order in orders:
        for i, t in enumerate(order):
            step = loss(frozenset(order[:i])) - loss(frozenset(order[: i + 1]))
            expected[t] = expected[t] + step / len(orders)
    found = shapley.exact_shares(tasks, loss)
    for t in tasks:
        np.testing.assert_allclose(found[t], expected[t], rtol=1e-12)


@pytest.mark.parametrize("k", [3, 8])
def test_shares_add_up_to_the_gain_exact_or_sampled(k):
    tasks = list("abcdefgh"[:k])
    found = shapley.attribute(tasks, random_loss(tasks))
    assert found.exact == (k <= shapley.EXACT_UP_TO)
    assert sum(found.table["shapley"]) == pytest.approx(found.gain, rel=1e-10)


def test_where_tasks_add_up_sampled_shares_are_the_worths_and_useless_tasks_carry_nothing():
    worth = dict(zip("abcdefg", [0.5, 0.0, 0.2, 0.0, -0.1, 0.0, 0.3], strict=True))
    found = shapley.attribute(list(worth), additive(worth))
    np.testing.assert_allclose(found.table["shapley"], list(worth.values()), atol=0.04)
    assert found.carriers() == ["a", "c", "g"]
    assert found.copies == []


def test_copies_hide_each_other_from_without_and_not_from_their_shares():
    rows = 0.05 * RNG.normal(size=ROWS)

    def loss(S):
        return 1.0 + rows - 0.4 * bool(S & {"one", "two"}) - 0.2 * ("third" in S) + 0.01 * RNG.normal(size=ROWS)

    found = shapley.attribute(["one", "two", "third", "nothing"], loss)
    by_task = {r["task"]: r for r in found.table.rows()}
    assert found.copies == [["one", "two"]]
    assert abs(by_task["one"]["without"]) < 0.02
    assert by_task["one"]["alone"] == pytest.approx(0.4, abs=0.02)
    assert by_task["one"]["shapley"] == pytest.approx(0.2, abs=0.02)
    assert by_task["third"]["shapley"] == pytest.approx(0.2, abs=0.02)
    assert set(found.carriers()) == {"one", "two", "third"}


def test_holm_by_hand():
    assert shapley.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert shapley.holm([0.5, 0.9]) == [1.0, 1.0]


def test_a_negative_share_is_never_a_carrier_and_no_width_says_nothing():
    found = shapley.attribute(["a", "b"], additive({"a": -0.5, "b": 0.0}, noise=0.0))
    assert found.carriers() == []
    assert found.table["p"] == [1.0, 1.0]
