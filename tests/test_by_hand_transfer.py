"""Scores, intervals, folds, shares, references and suggestions against figures that are worked out by hand."""

from dataclasses import replace
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression

import borrow
from borrow.data.cells import Rows
from borrow.data.read import Schema
from borrow.data.table import Table
from borrow.estimators.settings import check_allowed
from borrow.transfer import attribute as shapley
from borrow.transfer import decide, folds, inputs, ledger, methods, suggest
from borrow.transfer.attribute import of_correlation, relations_of, secondary_table
from borrow.transfer.auto import as_problem
from borrow.transfer.comparison import Comparison
from borrow.transfer.problem import read_problem, read_target
from borrow.transfer.references import LogisticReference, RidgeReference, dual_ridge
from borrow.transfer.verdict import probability
from test_verdict import ALONE, made, moved

compare_module = import_module("borrow.transfer.compare")

# Scores. --------------------------------------------------------------------------------------------------------------


def test_scores_of_numbers_by_hand():
    y, mean, std = np.array([1.0, 2.0, 4.0]), np.array([1.5, 0.0, 4.0]), np.array([1.0, 2.0, 0.5])
    found = folds.score_numbers(y, mean, std, "root mean squared error")
    np.testing.assert_allclose(found["losses"], [0.25, 4.0, 0.0])
    assert found["error"] == pytest.approx(np.sqrt(4.25 / 3.0))
    densities = norm.logpdf(y, mean, std)
    np.testing.assert_allclose(found["log_densities"], densities)
    assert found["log_density"] == pytest.approx(densities.mean())
    assert found["coverage"] == 1.0
    off = folds.score_numbers(np.array([1.7, 1.6]), np.zeros(2), np.ones(2), "mean absolute error")
    assert (off["coverage"], off["error"]) == (0.5, pytest.approx(1.65))  # the band of 90 % ends at 1.645
    np.testing.assert_allclose(off["losses"], [1.7, 1.6])


@pytest.mark.parametrize(
    ("scoring", "two", "three"),
    [("Brier score", [0.09, 0.16, 0.49], [0.38, 0.14]), ("error rate", [0.0, 0.0, 1.0], [1.0, 0.0]),
     ("log loss", -np.log([0.7, 0.6, 0.3]), -np.log([0.5, 0.7]))],
)  # fmt: skip
def test_scores_of_labels_by_hand(scoring, two, three):
    found = folds.score_labels(np.array([1, 0, 1]), np.array([[0.3, 0.7], [0.6, 0.4], [0.7, 0.3]]), scoring)
    np.testing.assert_allclose(found["losses"], two)
    assert found["error"] == pytest.approx(np.mean(two))
    assert found["log_density"] == pytest.approx(np.log([0.7, 0.6, 0.3]).mean())
    assert found["calibration"] == pytest.approx((0.7 + 0.6 + 0.7) / 3.0 - 2.0 / 3.0)
    more = folds.score_labels(np.array([2, 0]), np.array([[0.5, 0.0, 0.5], [0.7, 0.1, 0.2]]), scoring)
    np.testing.assert_allclose(more["losses"], np.where(scoring == "Brier score", [0.5, 0.14], three))


def test_folds_by_hand():
    assert [folds.default_cv(n) for n in (9, 10, 50, 51, 200, 201)] == [(9, 1), (5, 4), (5, 4), (5, 3), (5, 3), (5, 2)]
    assert folds.read_cv(3, 20) == (3, 1)
    assert folds.read_cv([4, 2], 20) == (4, 2)
    assert folds.read_cv((20, 1), 20) == (20, 1)
    for wrong in ((1, 1), (21, 1), (3, 0)):
        with pytest.raises(ValueError, match=r"expected 2 to 20 folds \(the primary has 20 rows\)"):
            folds.read_cv(wrong, 20)
    with pytest.raises(ValueError, match="has 4 groups"):
        folds.read_cv(5, 4, groups=True)


def table(n=12, **more):
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=n), "y": rng.normal(size=n), "who": np.array(["a", "b"] * (n // 2)), **more}


def test_blocks_of_time_by_hand():
    """Six times of the primary in two blocks: each begins a third further on, and what is later is not seen."""
    when = np.repeat(np.arange(6.0), 2)
    problem = read_problem(table(when=when), "y", "who", features=["x"], time="when")
    first, second = folds.splits_of(problem, "a", 2, 0)
    times = lambda rows: when[rows].tolist()  # noqa: E731
    assert (times(first.train), times(first.test)) == ([0.0, 1.0], [2.0, 3.0])
    assert (times(second.train), times(second.test)) == ([0.0, 1.0, 2.0, 3.0], [4.0, 5.0])
    assert (min(times(first.later)), min(times(second.later))) == (2.0, 4.0)
    assert len(first.later) == 8
    assert [(s.repeat, s.fold) for s in (first, second)] == [(0, 0), (0, 1)]


# Intervals and answers. -----------------------------------------------------------------------------------------------


def test_interval_by_hand():
    """Values 1, 2, 6 of weights 1, 1, 2: mean 15/4; clusters are rows; 1 / sum of squared shares of them count."""
    found = decide.interval(np.array([1.0, 2.0, 6.0]), 1.5, np.array([1.0, 1.0, 2.0]), [0, 1, 2])
    share, values = np.array([0.25, 0.25, 0.5]), np.array([1.0, 2.0, 6.0])
    n = 1.0 / (0.0625 + 0.0625 + 0.25)
    se = np.sqrt(1.5 * n / (n - 1.0) * (((share * (values - 3.75)) ** 2).sum()))
    half = student.ppf(0.975, n - 1.0) * se
    np.testing.assert_allclose(found[:6], [3.75, se, 3.75 - half, 3.75 + half, n - 1.0, 0.0])
    together = decide.interval(np.array([1.0, 2.0, 6.0]), 1.0, np.ones(3), ["u", "u", "v"])
    assert together.mean == pytest.approx(3.0)
    assert together.df == pytest.approx(1.0 / (4.0 / 9.0 + 1.0 / 9.0) - 1.0)
    alone = decide.interval(np.array([5.0, 7.0]), 1.0, np.ones(2), ["u", "u"])
    assert alone.mean == 6.0
    assert np.isnan(alone.std_error)


def test_probability_of_a_known_mean_is_all_or_nothing():
    known = decide.Interval(2.0, 0.0, 2.0, 2.0, 5.0)
    assert [known.below(v) for v in (1.0, 2.0, 3.0)] == [0.0, 0.5, 1.0]
    assert np.isnan(decide.Interval(2.0).below(3.0))


def records(losses, repeat=0, failure=None):
    n = len(losses[0])
    return [
        {"repeat": repeat, "fold": k, "failure": failure, "rows": list(range(k * n, k * n + n)),
         "losses": list(part), "n_test": n, "n_train": 2 * n, "log_densities": [0.5 * v for v in part]}
        for k, part in enumerate(losses)
    ]  # fmt: skip


def test_difference_of_two_methods_by_hand():
    one, other = records([[1.0, 4.0], [2.0, 2.0], [9.0, 1.0]]), records([[1.0, 1.0], [1.0, 3.0], [4.0, 4.0]])
    found = decide.difference_of(one, other)
    gaps = np.array([0.0, 3.0, 0.0, 0.0, 5.0, -3.0])  # in the second fold the means agree: nothing was borrowed there
    inflation = 3.0 / 3.0 + 3.0 * 0.5
    se = np.sqrt(inflation * gaps.var(ddof=1) / 6.0)
    assert found.mean == pytest.approx(gaps.mean())
    assert found.std_error == pytest.approx(se)
    assert found.df == pytest.approx(5.0)
    by_root = decide.difference_of(one, other, root=True)
    roots = np.sqrt(19.0 / 6.0) + np.sqrt(14.0 / 6.0)
    assert by_root.mean == pytest.approx(gaps.mean() / roots)
    assert by_root.std_error == pytest.approx(se / roots)
    density = decide.difference_of(one, other, "log_densities", root=True)  # a density has no root
    assert density.mean == pytest.approx(0.5 * gaps.mean())
    # Folds in which one of them failed are left out, and so are those that only one has.
    broken = [{**other[0], "failure": "it", "losses": None}, *other[1:]]
    assert decide.difference_of(one, broken).mean == pytest.approx(np.mean([0.0, 0.0, 5.0, -3.0]))
    assert decide.difference_of(one, other[2:]).mean == pytest.approx(1.0)
    assert np.isnan(decide.difference_of(one, records([[1.0, 1.0]], failure="all")).mean)


def test_difference_of_fold_means():
    np.testing.assert_array_equal(decide.differences(np.array([1.0, 3.0]), np.array([2.0, 2.0])), [0.0, 0.0])
    np.testing.assert_array_equal(decide.differences(np.array([1.0, 3.0]), np.array([2.0, 1.0])), [-1.0, 2.0])


def test_error_of_a_method_by_hand():
    found = decide.error_of(records([[1.0, 4.0], [2.0, 2.0]]) + records([[3.0, 4.0], [2.0, 0.0]], repeat=1))
    values = np.array([2.0, 4.0, 2.0, 1.0])  # means over the repeats
    assert found.mean == pytest.approx(2.25)
    assert found.std_error == pytest.approx(np.sqrt((2.0 / 4.0 + 2.0 * 0.5) * values.var(ddof=1) / 4.0))
    root = decide.error_of(records([[1.0, 4.0], [2.0, 2.0]]), root=True)
    assert root.mean == pytest.approx(1.5)
    plain = decide.error_of(records([[1.0, 4.0], [2.0, 2.0]]))
    assert root.std_error == pytest.approx(plain.std_error / 3.0)
    assert root.high - root.mean == pytest.approx((plain.high - plain.mean) / 3.0)
    assert decide.error_of(records([[0.0, 0.0]]), root=True).mean == 0.0
    assert np.isnan(decide.error_of([{"failure": "it"}]).mean)


def test_weights_of_methods_by_hand():
    """Log densities apart by a constant: one method has all the data's weight, the others what the prior gives them."""
    n, d = 40, np.random.default_rng(1).normal(size=40)
    found = decide.stack({"single": d - 9.0, "pooled": d, "focused": d - 9.0})
    total = n + 3.0 * decide.PRIOR
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["pooled"] == pytest.approx((n + decide.PRIOR) / total, abs=2e-3)
    assert found["single"] == pytest.approx(found["focused"]) == pytest.approx(decide.PRIOR / total, abs=2e-3)
    assert decide.stack({"single": d, "pooled": d})["single"] == pytest.approx(0.5)  # they say the same of every row
    # Rows that count more decide more: the first half is for one method, the second for the other.
    halves = np.repeat([5.0, -5.0], 20)
    for heavy, which in ((slice(0, 20), "a"), (slice(20, 40), "b")):
        weights = np.ones(40)
        weights[heavy] = 9.0
        found = decide.stack({"a": halves, "b": -halves}, weights=weights)
        assert found[which] == pytest.approx(0.9, abs=0.03)
    # Weights count by their proportions: seven for every row are one for each.
    flat = decide.stack({"a": halves, "b": -halves - 0.5}, weights=np.full(40, 7.0))
    assert flat == pytest.approx(decide.stack({"a": halves, "b": -halves - 0.5}), rel=1e-9)
    assert decide.stack({"a": np.array([0.0]), "b": np.array([-700.0])})["a"] == pytest.approx(1.5 / 2.0)


# Which task carried how much. -----------------------------------------------------------------------------------------


def test_corrected_probabilities_never_fall_and_never_pass_one():
    np.testing.assert_allclose(shapley.holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(shapley.holm([0.6, 0.5]), [1.0, 1.0])
    assert shapley.holm([]) == []


def losses_of(tasks, gain, rows=(10.0, 12.0)):
    """The losses of two rows with every set of tasks."""
    sets = [frozenset(S) for size in range(len(tasks) + 1) for S in combinations(tasks, size)]
    return {S: np.array(rows) - gain(S) for S in sets}


def test_copies_are_found_among_tasks_that_gain():
    """Losses by hand: a and b are copies, c adds its own, d gains a tenth of the best and is not looked at."""
    worth = {"a": 4.0, "b": 4.0, "c": 3.5, "d": 0.4}

    def gain(S):
        return max((worth[t] for t in S if t in "ab"), default=0.0) + sum(worth[t] for t in S if t in "cd")

    assert shapley.near_copies("abcd", losses_of("abcd", gain)) == [["a", "b"]]
    the_best = losses_of("abc", lambda S: max((worth[t] for t in S), default=0.0))
    assert shapley.near_copies("abc", the_best) == [["a", "b", "c"]]
    assert {*map(frozenset, ("ab", "ac", "bc"))} == {*shapley.pairs("abc", the_best)}
    for each, groups in ((0.21, []), (0.23, [["a", "b"]])):  # less than a fiftieth of the loss, 0.22, is no gain
        few = losses_of("ab", lambda S, each=each: each * bool(S))
        assert shapley.near_copies("ab", few) == groups
    unequal = losses_of("ab", lambda S: max(({"a": 4.0, "b": 2.9}[t] for t in S), default=0.0))
    assert shapley.near_copies("ab", unequal) == []  # b by itself gains less than three quarters of what a does
    assert shapley.near_copies("ab", losses_of("ab", lambda S: 4.0 * bool(S) + 0.5 * (len(S) == 2))) == []


def test_worth_of_tasks_by_hand():
    """loss(S) = 10 - 2 [a] - 3 [b] - 1 [a and b], in two rows that differ by a level: shares are 2.5 and 3.5."""

    def gain(S):
        return (2.0 * ("a" in S) + 3.0 * ("b" in S) + 1.0 * (len(S) == 2)) * np.array([1.0, 1.5])

    def judge(values):
        se = values.std(ddof=1) / np.sqrt(2.0)
        return decide.Interval(values.mean(), se, values.mean() - se, values.mean() + se, 1.0)

    found = shapley.attribute("ab", losses_of("ab", gain), judge)
    assert [found[t].alone for t in "ab"] == pytest.approx([2.5, 3.75])
    assert [found[t].without for t in "ab"] == pytest.approx([3.75, 5.0])
    assert [found[t].gain.mean for t in "ab"] == pytest.approx([3.125, 4.375])
    assert [found[t].p for t in "ab"] == pytest.approx([2.0 * student.sf(5.0, 1)] * 2)
    assert len(shapley.coalitions("abc", 0)) == 8
    assert len(shapley.coalitions(range(shapley.EXACT_UP_TO), 0)) == 2**shapley.EXACT_UP_TO  # all sets, up to there


def test_orders_of_many_tasks_go_forth_and_back():
    tasks = list(range(shapley.EXACT_UP_TO + 3))
    chains = shapley.chains(tasks, 0)
    assert len(chains) == shapley.ORDERS
    for chain in chains:
        assert [len(S) for S in chain] == list(range(len(tasks) + 1))
    first, back = chains[:2]
    assert [{*tasks} - S for S in reversed(first)] == back
    sets = shapley.coalitions(tasks, 0)
    assert {frozenset(), frozenset(tasks), *(frozenset([t]) for t in tasks)} <= {*sets}
    adding = {S: np.array([100.0, 50.0]) - sum((t + 1.0) * np.array([1.0, 0.5]) for t in S) for S in sets}
    shares = shapley.shares_of(tasks, adding, 0)
    for t in tasks:  # where tasks add up, every order gives each its own
        np.testing.assert_allclose(shares[t], [t + 1.0, 0.5 * (t + 1.0)])


def test_error_of_the_correlation_and_table_of_secondaries_by_hand():
    found = of_correlation({"rho": 2.0, "correlation": 0.3, "std_error": 0.5, "low": -0.2, "high": 0.7})
    assert found["std_error"] == pytest.approx(0.9 / 3.919928)  # of the correlation, not of rho
    assert (found["correlation_low"], found["correlation_high"], found["rho"]) == (-0.2, 0.7, 2.0)
    relations = [{"task": "b", "correlation": 0.8, "std_error": 0.1, "share": None}]
    worth = shapley.Worth(0.6, 0.2, decide.Interval(0.5, 0.1, 0.3, 0.7, 4.0), 0.01)
    found = secondary_table({"b": 7, "c": 3}, relations, {"b": worth})
    first, second = found.rows()
    names = ("task", "rows", "correlation", "std_error", "alone", "without", "gain", "low", "high", "p")
    assert [first[k] for k in names] == ["b", 7, 0.8, 0.1, 0.6, 0.2, 0.5, 0.3, 0.7, 0.01]
    assert np.isnan(first["share"])
    assert second["rows"] == 3
    assert all(np.isnan(second[k]) for k in ("correlation", "gain", "low"))


# Rows like those wanted. ----------------------------------------------------------------------------------------------


def odds_by_hand(problem, wanted):
    """Odds of a logistic regression on the input and its square, penalty one; cut at ten times their mean, mean one."""
    x = problem.X[problem.rows_of("a"), 0]
    both = (np.concatenate([x, wanted[:, 0]]) - x.mean()) / problem.X.std()
    label = np.repeat([0, 1], [len(x), len(wanted)])
    model = LogisticRegression(C=1.0, class_weight="balanced").fit(np.column_stack([both, both**2]), label)
    odds = np.exp(model.decision_function(np.column_stack([both, both**2])[: len(x)]))
    cut = np.minimum(odds / odds.mean(), 10.0)
    return cut / cut.mean()


def test_fits_to_all_rows_are_compared_where_the_primary_was_not_measured():
    """Of the others' inputs 1.5 and 2 lie within the primary's range, and at 2 it was measured; or those wanted."""
    x = [0.0, 2.0, 3.0, -1.0, 1.5, 2.0, 9.0, 2.5]
    table = {"x": x, "y": [1.0] * 7 + [np.nan], "who": ["a"] * 3 + ["b"] * 4 + ["b"]}
    problem = read_problem(table, "y", "who")
    assert problem.elsewhere("a", 5).tolist() == [[1.5]]
    assert problem.elsewhere("b", 5).tolist() == [[0.0], [3.0]]
    wanted = replace(problem, wanted=np.arange(9.0)[:, None])
    assert wanted.elsewhere("a", 5).tolist() == [[0.0], [2.0], [4.0], [6.0], [8.0]]
    assert wanted.elsewhere("a", 20).tolist() == wanted.wanted.tolist()


def test_rows_wanted_weigh_by_the_odds_and_what_lies_outside_is_a_share():
    problem = read_problem(table(40), "y", "who", features=["x"])
    rows = problem.rows_of("a")
    x = problem.X[rows, 0]
    same, notes = inputs.shift_weights(problem, "a", problem.X[rows])
    np.testing.assert_allclose([w for _, w in same], 1.0, atol=1e-6)
    assert len(notes) == 1
    assert "as good as 20 of 20" in notes[0]
    assert [r for r, _ in same] == rows.tolist()
    right = np.sort(x)[-8:, None]
    weights, _ = inputs.shift_weights(problem, "a", right)
    w = np.array([v for _, v in weights])
    assert w.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(w, odds_by_hand(problem, right), rtol=1e-2)
    one = {"x": np.r_[9.0, np.zeros(119)], "y": np.zeros(120), "who": ["a", "b"] * 60}
    far, six = read_problem(one, "y", "who", kind="regression"), np.full((30, 1), 6.0)
    cut = np.array([v for _, v in inputs.shift_weights(far, "a", six)[0]])
    np.testing.assert_allclose(cut, odds_by_hand(far, six), rtol=0.05)
    assert w[np.argmax(x)] > 1.5
    assert w[np.argmin(x)] < 0.5
    width = x.max() - x.min()
    for beyond, told in ((0.04, 1), (0.06, 2)):
        high = np.array([[x.max() + beyond * width], [x.mean()]])
        if told == 1:
            assert len(inputs.shift_weights(problem, "a", high)[1]) == 1
        else:
            with pytest.warns(UserWarning, match="50 % of the rows wanted lie outside"):
                inputs.shift_weights(problem, "a", high)
    with pytest.warns(UserWarning, match="50 % of the rows wanted lie outside"):
        inputs.shift_weights(problem, "a", np.array([[x.min() - 0.06 * width], [x.mean()]]))
    assert len(inputs.shift_weights(problem, "a", np.array([[x.min() - 0.04 * width], [x.mean()]]))[1]) == 1
    for wrong in (np.zeros((0, 1)), np.zeros((3, 2)), np.zeros(3)):
        with pytest.raises(ValueError, match="wanted has the shape"):
            inputs.read_wanted(wrong, problem)


# References. ----------------------------------------------------------------------------------------------------------


def test_ridge_without_the_rows_themselves_by_hand():
    """The least error of rows left out is that of refits, at the penalty that has it."""
    rng = np.random.default_rng(2)
    Z, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    K = Z @ Z.T + 1.0
    least, c, missed = dual_ridge(K, y, [np.arange(4), np.arange(4, 6)])
    from borrow.transfer.references import PENALTIES

    def left_out(a):
        out = []
        for i in range(6):
            rest = np.delete(np.arange(6), i)
            out.append(y[i] - K[i, rest] @ np.linalg.solve(K[np.ix_(rest, rest)] + a * np.eye(5), y[rest]))
        return np.array(out)

    errors = [np.mean(left_out(a)[:4] ** 2) + np.mean(left_out(a)[4:] ** 2) for a in PENALTIES]
    best = PENALTIES[int(np.argmin(errors))]
    assert least == pytest.approx(min(errors))
    np.testing.assert_allclose(missed, left_out(best), rtol=1e-7)
    np.testing.assert_allclose(c, np.linalg.solve(K + best * np.eye(6), y), rtol=1e-7)
    assert dual_ridge(np.zeros((0, 0)), np.zeros(0), [])[0] == 0.0


def test_mean_reference_is_drawn_little_and_its_spread_counts_one_row_of_all():
    X, y = np.arange(6.0)[:, None], np.array([1.0, 3.0, 5.0, 10.0, 10.0, 13.0])
    model = RidgeReference(form="mean").fit(X, y, tasks=["a"] * 3 + ["b"] * 3)
    mean, std = model.predict([[0.0], [99.0]], tasks=["a", "b"], return_std=True)
    np.testing.assert_allclose(mean, [3.0, 11.0], atol=1e-6)  # a line without slope, at the mean
    assert mean.shape == std.shape == (2,)
    spread = (8.0 + 6.0) / 4.0
    # Rows left out miss by 3/2 times their deviation where the level is free; the penalty leaves it nearly so.
    np.testing.assert_allclose(std**2, [(2.25 * 8.0 + spread) / 4.0, (2.25 * 6.0 + spread) / 4.0], rtol=0.2)


@pytest.mark.parametrize("form", ["mean", "ridge"])
def test_a_task_without_a_target_has_the_mean_of_all(form):
    y = np.array([1001.0, 1003.0, 1006.0, 1006.0, np.nan, np.nan])
    model = RidgeReference(form=form).fit(np.zeros((6, 1)), y, tasks=["a", "a", "b", "b", "c", "c"])
    np.testing.assert_allclose(model.predict([[0.0]], tasks=["c"]), 1004.0)


def test_references_of_wide_targets_have_a_column_per_task():
    X, Y = np.linspace(-1.0, 1.0, 12)[:, None], np.column_stack([np.linspace(0.0, 2.0, 12), np.linspace(5.0, 5.5, 12)])
    model = RidgeReference(form="ridge").fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y, atol=0.05)
    mean, std = model.predict(X[:3], return_std=True)
    assert mean.shape == std.shape == (3, 2)
    labels = LogisticReference(form="mean").fit(X, (Y > [0.4, 9.0]).astype(int))
    assert labels.predict_proba(X[:4]).shape == (4, 2, 2)


def test_shares_of_classes_count_half_a_row_more_of_each():
    X = np.zeros((5, 1))
    model = LogisticReference(form="mean").fit(X, np.array(["u", "u", "v", "u", "u"]), tasks=list("aaabb"))
    p = model.predict_proba([[0.0], [0.0]], tasks=["a", "b"])
    np.testing.assert_allclose(p, [[2.5 / 4.0, 1.5 / 4.0], [2.5 / 3.0, 0.5 / 3.0]])
    np.testing.assert_allclose(model.decision_function([[0.0]], tasks=["a"]), np.log(1.5 / 2.5))


@pytest.mark.parametrize("form", ["ridge", "tasks"])
def test_logistic_references_have_the_level_and_slopes_of_scikit_learn(form):
    rng = np.random.default_rng(3)
    X = rng.normal(2.0, 3.0, size=(40, 1))
    y = (X[:, 0] + rng.normal(size=40) > 2.0).astype(int)
    Z = (X - X.mean()) / X.std()
    design = Z if form == "ridge" else np.hstack([Z, 3.0 * np.ones((40, 1)), Z])
    expected = LogisticRegression(C=1.0, max_iter=2000).fit(design, y).predict_proba(design)
    found = LogisticReference(form=form).fit(X, y, tasks=["a"] * 40).predict_proba(X, tasks=["a"] * 40)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    one = LogisticReference(form=form).fit(X[:4], np.zeros(4), tasks=["a"] * 4)
    assert one.predict_proba(X[:1], tasks=["a"]).shape[1] == len(one.classes_)


# Suggestions. ---------------------------------------------------------------------------------------------------------


def test_greedy_choice_by_hand():
    """A reference and three candidates: the first choice is worth C^2 / (v + noise), the next given it."""
    S = np.array([[1.0, 0.6, 0.5, 0.4], [0.6, 1.0, 0.8, 0.0], [0.5, 0.8, 1.0, 0.0], [0.4, 0.0, 0.0, 2.0]])
    noise, cost = np.array([0.2, 0.2, 0.5]), np.array([1.0, 1.0, 1.0])
    steps = suggest.greedy(S, 1, noise, cost, 9, suggest.variance_reduction)
    assert [c for c, _, _ in steps] == [0, 2, 1]
    assert steps[0][1] == pytest.approx(0.36 / 1.2)
    assert steps[0][2] == pytest.approx(0.7)
    after = S - np.outer(S[:, 1], S[:, 1]) / 1.2
    assert steps[1][1] == pytest.approx(after[0, 3] ** 2 / (after[3, 3] + 0.5))
    assert steps[1][2] == pytest.approx(0.7 - steps[1][1])
    cheap = suggest.greedy(S, 1, noise, np.array([10.0, 1.0, 1.0]), 1, suggest.variance_reduction)
    assert cheap[0][0] == 1
    assert cheap[0][1] == pytest.approx(0.25 / 1.2)  # the gain itself, not that per cost
    assert len(suggest.greedy(S, 1, noise, cost, 2, suggest.variance_reduction)) == 2
    np.testing.assert_allclose(suggest.log_gamma(S[:1, 1:], np.ones(3), noise), 2.0 * np.log1p(1.0 / noise))
    two = suggest.variance_reduction(np.array([[1.0], [2.0]]), np.array([3.0]), np.array([1.0]))
    np.testing.assert_allclose(two, [5.0 / 4.0 / 2.0])


def test_expected_improvement_by_hand():
    gain = suggest.expected_improvement(np.array([1.0, 0.0, 3.0, 1.5]), 2.0)
    found = gain(np.zeros((0, 4)), np.array([4.0, 0.0, 0.0, 0.25]), np.ones(4))
    f = np.linspace(-30.0, 30.0, 200001)
    by_sum = [(np.maximum(2.0 - f, 0.0) * norm.pdf(f, m, s)).sum() * (f[1] - f[0]) for m, s in ((1.0, 2.0), (1.5, 0.5))]
    np.testing.assert_allclose(found, [by_sum[0], 2.0, 0.0, by_sum[1]], rtol=1e-6)


@pytest.mark.parametrize("cost", [0.0, -1.0, "x", None, float("nan")])
def test_costs_that_are_none_are_refused(cost):
    with pytest.raises(ValueError, match=r"cost of candidate 1 is .*expected a positive number"):
        suggest._prices([1.0, cost], np.array([0, 0]), ("a",))
    np.testing.assert_array_equal(suggest._prices([2.0], np.array([0, 0]), ("a",)), [2.0, 2.0])
    np.testing.assert_array_equal(suggest._prices({"a": 3.0, "b": 4}, np.array([1, 0]), ("a", "b")), [4.0, 3.0])


# Comparisons. ---------------------------------------------------------------------------------------------------------


def test_table_and_progress_of_a_comparison_by_hand():
    """Twenty rows, five folds twice; `pooled` left the race after the first five."""
    errors = {"single": ALONE, "pooled": ALONE + 0.3, "focused": moved(-0.5)}
    found = made(errors)
    kept = [r for r in found.records if r["method"] != "pooled" or r["repeat"] == 0]
    found = Comparison.from_dict({**found.to_dict(), "records": kept})
    rows = {r["method"]: r for r in found.table().rows()}
    single = rows["single"]
    assert (single["difference"], single["low"], single["high"]) == (0.0, 0.0, 0.0)
    assert [rows[m]["seconds"] for m in ("single", "pooled", "focused")] == [10.0, 5.0, 10.0]
    assert rows["pooled"]["error"] == pytest.approx(np.mean(ALONE) + 0.3)
    assert rows["focused"]["error"] == pytest.approx(np.mean(errors["focused"]))
    assert rows["focused"]["difference"] == pytest.approx(np.mean(errors["focused"] - ALONE))
    assert rows["pooled"]["coverage"] == pytest.approx(0.9)
    assert found.progress("a") == (25, 25)
    whole = made(errors)
    assert whole.progress("a") == (30, 30)
    part = Comparison.from_dict({**whole.to_dict(), "records": whole.records[:12]})
    assert part.progress("a") == (12, 20)  # single twice; the others have one round of folds planned so far
    begun = Comparison.from_dict({**whole.to_dict(), "records": whole.records[:3]})
    assert begun.progress("a") == (3, 15)  # whether there is a further round is seen after the first
    # Another primary may have had other folds than the header says, which are those of the first.
    several = Comparison.from_dict({**whole.to_dict(), "primaries": ["a", "b"], "cv": {"folds": 9, "repeats": 7}})
    assert several.progress("a") == (30, 30)
    assert several.progress("b")[0] == 0
    assert "methods for 2 tasks in turn on 63 folds" in repr(several)
    assert "methods for 'a' on 10 folds" in repr(whole)
    assert whole.best_alone("a") == "single"


def test_losses_of_a_set_are_told_where_every_fold_was_fitted():
    found = made({"single": ALONE, "focused": moved(-0.5)})
    alone, every = frozenset(), frozenset(found.others("a"))
    assert set(found.losses("a", "focused")) == {alone, every}
    failed = next(r for r in found.records if r["method"] == "focused" and r["repeat"] == 0)
    records = [{**r, "failure": "it did not converge"} if r is failed else r for r in found.records]
    part = Comparison.from_dict({**found.to_dict(), "records": records})
    assert set(part.losses("a", "focused")) == {alone}


def test_the_best_that_borrows_has_the_most_weight():
    """It is the density that weighs: the method of the lower error has the worse one here."""
    density = {"single": -ALONE - 3.0, "pooled": -ALONE, "focused": -ALONE - 2.0}
    found = made({"single": ALONE, "pooled": moved(-0.1), "focused": moved(-0.3, seed=2)}, density)
    verdict = found.verdict()
    assert verdict.best == "pooled"
    assert verdict.rope == pytest.approx(0.02 * np.mean(ALONE))
    assert verdict.weights["pooled"] > 0.9


def test_what_makes_no_difference_is_for_the_user_to_say():
    """A quarter less error, shown by every row: it helps; who does not mind a half is told that it is within that."""
    found = made({"single": ALONE, "focused": 0.75 * ALONE})
    assert found.verdict().answer == "helps"
    wide = Comparison.from_dict({**found.to_dict(), "rope": 0.5}).verdict()
    assert (wide.answer, wide.rope) == ("no practical difference", pytest.approx(0.5 * np.mean(ALONE)))
    assert "within 50 % of the error" in wide.advice[0]
    for odd in (-0.1, 1.0, "a", np.nan):
        with pytest.raises(ValueError, match="rope="):
            borrow.compare({"x": [1.0, 2.0] * 3, "t": ["a", "b"] * 3, "y": [1.0, 2.5] * 3}, "y", "t", "a", rope=odd)


class Related:
    """A problem whose focused model of several classes has several tables of relations."""

    def __init__(self, *tables):
        self.tables = [Table(t) for t in tables]

    def fit(self, method, primary, seed):
        return self

    def relatedness(self):
        return self.tables


def test_the_strongest_relation_of_several_classes_is_told():
    def relation(rho, correlation):
        return {"task": ["a", "b"], "rho": [1.0, rho], "correlation": [1.0, correlation], "std_error": [0.0, 0.1],
                "low": [1.0, correlation - 0.1], "high": [1.0, correlation + 0.2],
                "share": [1.0, correlation**2]}  # fmt: skip

    for order in ([(0.3, 0.3), (-1.0, -0.8), (0.0, 0.0)], [(-1.0, -0.8), (0.0, 0.0), (0.3, 0.3)]):
        found = relations_of(Related(*(relation(*r) for r in order)), "a", 0)
        (only,) = found["relations"]
        assert (only["task"], only["rho"], only["correlation"]) == ("b", -1.0, -0.8)
        assert (only["correlation_low"], only["correlation_high"]) == pytest.approx((-0.9, -0.6))
        assert found["failure"] is None


def test_quick_look_at_labels_is_three_folds_and_leaves_nothing_out(monkeypatch):
    asked = {}

    class Found:
        def table(self):
            return Table({n: [0.0] for n in ("method", "error", "log_density", "calibration", "seconds")})

    monkeypatch.setattr(compare_module, "compare", lambda *given, **how: asked.update(how) or Found())
    labels = {"x": np.arange(12.0) ** 1.5, "y": ["u", "v"] * 6, "who": ["a"] * 6 + ["b"] * 6}
    compare_module.quick_look(labels, "y", "who", "a")
    assert (asked["cv"], asked["leave_out"]) == ((3, 1), False)
    chosen = []

    def choose(kind, n, methods):
        chosen.append((kind, n))
        raise ValueError("enough")

    monkeypatch.setattr(compare_module, "choose", choose)
    with pytest.raises(ValueError, match="enough"):
        compare_module.quick_look(table(), "y", "who", "a", features=["x"])
    assert chosen == [("regression", 12)]


def test_probabilities_in_words():
    said = [probability(p) for p in (np.nan, 0.991, 0.99, 0.5, 0.01, 0.009)]
    assert said == ["not known", "above 0.99", "0.99", "0.50", "0.01", "below 0.01"]


def test_calls_that_are_no_calls():
    problem = read_problem(table(), "y", "who", features=["x"])
    assert compare_module.read_primaries(problem, "a") == ["a"]
    assert compare_module.read_primaries(problem, None) == ["a", "b"]
    with pytest.raises(ValueError, match="primary='c' is not a task; tasks are 'a', 'b'"):
        compare_module.read_primaries(problem, "c")
    for jobs in (None, 1, 3, -1):
        check_allowed({"n_jobs": jobs}, compare_module.ALLOWED)
    for jobs in (0, 1.5, "two", True):
        with pytest.raises(ValueError, match="expected the number of fits at once"):
            check_allowed({"n_jobs": jobs}, compare_module.ALLOWED)
    for minutes in (0, -1.0, True, "2", float("nan")):
        with pytest.raises(ValueError, match="expected a positive number"):
            check_allowed({"max_minutes": minutes}, compare_module.ALLOWED)


# Mixtures. ------------------------------------------------------------------------------------------------------------


class Member:
    """A model that answers the same everywhere."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def predict(self, X, tasks=None, return_std=False, return_cov=False, include_noise=False):
        mean, n = np.full(len(X), self.mean), len(X)
        return (mean, np.eye(n) * self.std**2) if return_cov else (mean, np.full(n, self.std)) if return_std else mean


@pytest.fixture
def mixture(monkeypatch):
    """An AutoRegressor of two members, N(1, 1) with the weight 1/4 and N(3, 4) with 3/4."""
    members = [(0.25, Member(1.0, 1.0)), (0.75, Member(3.0, 2.0))]
    model = borrow.AutoRegressor(primary="a")
    ask = lambda self, what, X, tasks, *more: [(w, getattr(m, what)(X, tasks, *more)) for w, m in members]  # noqa: E731
    monkeypatch.setattr(borrow.AutoRegressor, "_ask", ask)
    return model


def test_moments_of_a_mixture_by_hand(mixture):
    X = np.zeros((2, 1))
    np.testing.assert_allclose(mixture.predict(X), 2.5)
    mean, std = mixture.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 2.5)
    np.testing.assert_allclose(std**2, 0.25 * (1.0 + 2.25) + 0.75 * (4.0 + 0.25))
    mean, cov = mixture.predict(X, return_cov=True)
    np.testing.assert_allclose(np.diagonal(cov), std**2)
    np.testing.assert_allclose(cov[0, 1], 0.25 * 2.25 + 0.75 * 0.25)


def test_quantiles_of_a_mixture_by_hand(mixture):
    found = mixture.predict_quantiles(np.zeros((2, 1)), levels=[0.1, 0.5, 0.9])
    assert found.shape == (2, 3)
    for q, p in zip(found[0], (0.1, 0.5, 0.9), strict=True):
        assert 0.25 * norm.cdf(q, 1.0, 1.0) + 0.75 * norm.cdf(q, 3.0, 2.0) == pytest.approx(p, abs=1e-12)


def test_weights_of_members_are_those_kept_over_their_sum():
    verdict = made({"single": ALONE, "focused": moved(-0.5)}).verdict()
    weighed = replace(verdict, weights={"single": 0.3, "focused": 0.6, "pooled": 0.01})
    weights, _ = borrow.AutoRegressor(primary="a")._weigh(weighed)
    assert list(weights) == ["focused", "single"]
    assert weights["focused"] == pytest.approx(2.0 / 3.0)
    assert borrow.AutoRegressor(primary="a", cautious=True)._weigh(replace(weighed, answer="cannot tell"))[0] == {
        "single": 1.0
    }
    assert borrow.AutoRegressor(primary="a")._weigh(None)[0] == {"single": 1.0}


def test_labels_of_a_fit_as_a_problem():
    rows = Rows(np.zeros((3, 1)), np.array([0, 1, 0]), ("a", "b"), np.array([0.0, 1.0, np.nan]), np.ones(3), np.ones(3))
    two = as_problem(rows, Schema(None, None, None, 1, ("a", "b"), classes=np.array(["u", "v"])))
    assert (two.y.tolist(), two.classes, two.kind) == (["u", "v", None], ("u", "v"), "classification")
    one = as_problem(
        replace(rows, y=np.array([1.0, np.nan, 1.0])), Schema(None, None, None, 1, ("a", "b"), classes=np.array(["u"]))
    )
    assert one.y.tolist() == ["u", None, "u"]
    assert one.labels == ("a", "b")
    assert one.features == ("column 0",)


# Ledgers. -------------------------------------------------------------------------------------------------------------

HEADER = {"digest": "0" * 64, "borrow": "1.0", "settings": {"cv": [2, 1], "seed": 0}}


def test_a_ledger_that_was_killed_in_its_first_line_begins_anew(tmp_path):
    place = tmp_path / "s"
    with ledger.open_ledger(place, HEADER) as opened:
        opened.write({"fit": 1})
    whole = place.read_bytes()
    first = whole.splitlines(keepends=True)[0]
    for left in (b"", first[:1], first[:40], first[:-1]):
        place.write_bytes(left)
        with ledger.open_ledger(place, HEADER) as opened:
            assert opened.done == []
            opened.write({"fit": 1})
        assert place.read_bytes() == whole
    place.write_bytes(whole + whole[-20:-5])  # and in a later one: what is torn is cut off
    with ledger.open_ledger(place, HEADER) as opened:
        assert opened.done == [{"fit": 1}]
    assert place.read_bytes() == whole
    with ledger.open_ledger(None, HEADER) as opened:
        opened.write({"fit": 1})  # nowhere


@pytest.mark.parametrize(
    ("change", "said"),
    [({"digest": "1" * 64}, "a comparison of other data"), ({"borrow": "2.0"}, "begun by borrow 1.0 and this is 2.0"),
     ({"settings": {"cv": [3, 1], "seed": 0}}, "'cv'|cv")],
)  # fmt: skip
def test_a_ledger_of_something_else_is_refused(change, said, tmp_path):
    place = tmp_path / "s"
    with ledger.open_ledger(place, HEADER):
        pass
    whole = place.read_bytes()
    with pytest.raises(ledger.LedgerError, match=said), ledger.open_ledger(place, {**HEADER, **change}):
        pass
    assert place.read_bytes() == whole
    with ledger.open_ledger(place, HEADER) as opened:
        assert opened.done == []


LATER, EARLIER = "a later borrow", "an earlier borrow"


@pytest.mark.parametrize(
    ("version", "said"), [(ledger.VERSION + 1, LATER), ("3", LATER), (None, LATER), (ledger.VERSION - 1, EARLIER)]
)
def test_versions_of_ledgers(version, said):
    line, _ = ledger._line({"format": ledger.FORMAT, "version": version}, "")
    with pytest.raises(ledger.LedgerError, match=said):
        ledger.parse(line, "it")


ABOUT = {"kind": "regression", "target": "y", "task": "t", "scoring": "mean absolute error", "digest": "",
         "features": ["x"], "tasks": ["a", "b"], "primaries": ["a"], "methods": ["single"], "classes": [],
         "cv": {"folds": 2, "repeats": 1}, "seed": 0, "skipped": {}, "versions": {},
         "rows": [["a", 4], ["b", 4]]}  # fmt: skip
LINE = {"primary": "a", "method": "single", "left_out": None, "repeat": 0, "fold": 0, "n_train": 1, "n_test": 1,
        "rows": [0], "y": [1.0], "failure": None, "seconds": 0.5, "warnings": [], "error": 1.0, "log_density": 0.0,
        "coverage": 1.0, "mean": [0.0], "std": [1.0], "losses": [1.0], "log_densities": [0.0]}  # fmt: skip


def test_lines_that_are_right_and_those_that_are_not():
    ledger.check_about(ABOUT)
    ledger.check_line(LINE, ABOUT)
    ledger.check_line({**LINE, "failure": "it", **dict.fromkeys(("error", "mean", "losses"))}, ABOUT)
    relation = {"task": "b", "rho": None, "correlation": 1, "std_error": 0.1, "share": 0.5}
    ledger.check_line({"primary": "a", "relations": [relation]}, ABOUT)
    with pytest.raises(ValueError, match="a bound in a line is of another kind"):
        ledger.check_line({"primary": "a", "relations": [{**relation, "correlation_low": "none"}]}, ABOUT)
    no_rows = {"n_test": 0, **{n: [] for n in ("rows", "y", "mean", "std", "losses", "log_densities")}}
    for change in (
        {"n_test": 2}, {"n_train": 0}, {"rows": []}, {"losses": [1.0, 2.0]}, no_rows, {"rows": [True]},
        {"seconds": "1"}, {"warnings": "none"},
        {"error": True}, {"error": 1e300}, {"y": [1e200]}, {"primary": "c"}, {"primary": None}, {"left_out": "c"},
        {"method": "no such"}, {"repeat": 0.5}, {"failure": 3}, {"mean": None},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"a line|it names the method"):
            ledger.check_line({**LINE, **change}, ABOUT)
    for change in ({"kind": "other"}, {"kind": 1}, {"tasks": "ab"}, {"cv": []}, {"cv": {"folds": 2}}, {"seed": True},
                   {"rows": [["a", 4]]}, {"rows": [["a", 4, 1], ["b", 4]]}, {"primaries": []}, {"primaries": ["c"]},
                   {"methods": ["no such"]}, {"features": [1]}, {"alone": 0.5}, {"own": 1.0}, {"notes": [["a"]]},
                   {"clusters": [1, 2]}, {"row_weights": 2.0}):  # fmt: skip
        with pytest.raises(ValueError, match=r"first line|it names the method"):
            ledger.check_about({**ABOUT, **change})
    with pytest.raises(ValueError, match="its first line lacks 'seed'"):
        ledger.check_about({k: v for k, v in ABOUT.items() if k != "seed"})
    other = {**LINE, "method": "pooled"}
    ledger.refuse_odd_lines("it", ABOUT, [LINE, other, {**LINE, "fold": 1, "rows": [1]}])
    with pytest.raises(ledger.LedgerError, match="two lines of one fold hold out different rows"):
        ledger.refuse_odd_lines("it", ABOUT, [LINE, {**other, "rows": [1]}])
    labels = {**ABOUT, "kind": "classification", "classes": ["u", "v"]}
    own = {"calibration": 0.0, "probability": [[0.5, 0.5]], "y": ["u"]}
    ledger.check_line({**LINE, **own}, labels)
    with pytest.raises(ValueError, match="a class that is not among those compared"):
        ledger.check_line({**LINE, **own, "y": ["w"]}, labels)


def test_methods_by_their_keys_and_what_is_left_out_of_auto():
    keys, skipped, own = methods.choose("regression", 50, "auto")
    assert {"single", "focused"} <= {*keys}
    assert {*skipped} & {*keys} == set()
    assert {k: v.partition("; name it in methods= to run it all the same")[0] for k, v in skipped.items()} == {
        "pooled": "it takes all tasks for one",
        "rbf": "it did not win in the draws that were tried",
        "clusters": "for classification only",
    }
    assert own == {}
    named = methods.choose("regression", 50, ["pooled"])[0]
    assert "pooled" in named
    assert "focused" not in named
    for wrong in (("x",), ("x", 1, 2, 3), (1, 2), 7, ["x", 2]):
        with pytest.raises(ValueError, match="methods holds"):
            methods.choose("regression", 50, [wrong])
    with pytest.raises(ValueError, match="methods names 'poled'"):
        methods.choose("regression", 50, "poled")


def test_two_whole_numbers_are_labels_where_one_of_them_repeats():
    kinds = {(3, 17): 0, (3.0, None, 17.0): 0, (3, 17, 3): 1, (0.0, None, 1.0, 1.0): 1, (True, False): 1, ("a", "b"): 1}
    for values, labels in kinds.items():
        assert read_target(values, "y", "auto")[0] == ["regression", "classification"][labels]
