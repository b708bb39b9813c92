"""The verdict: its statistics, its words, and that it does not cry wolf."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from borrow.cli.compare import methods_table
from borrow.data.table import Table
from borrow.transfer import decide as rule
from borrow.transfer.comparison import Comparison
from borrow.transfer.decide import (
    Design,
    Interval,
    Mixture,
    answer_of,
    decide,
    difference_of,
    differences,
    fit_variance,
    interval,
    ratio_of,
    related,
    stack,
)
from borrow.transfer.verdict import Verdict, judged_together, sentence_of

METHODS = ["single", "pooled", "symmetric", "focused"]
N, FOLDS, REPEATS = 20, 5, 2


def made(errors, density=None, tasks=("a", "b"), relations=(), left_out=(), failed=(), scoring="mean absolute error"):
    """A comparison with given errors of 20 rows by method, five folds twice, the same in both repeats."""
    records = []
    for method, values in errors.items():
        d = -np.asarray(values) if density is None else np.asarray(density[method])
        for repeat in range(REPEATS):
            for fold, rows in enumerate(np.array_split(np.random.default_rng(repeat).permutation(N), FOLDS)):
                r = {"primary": "a", "method": method, "repeat": repeat, "fold": fold, "left_out": None}
                bad = "ValueError: why" if (method, repeat * FOLDS + fold) in failed else None
                found = {"losses": np.asarray(values)[rows].tolist(), "log_densities": d[rows].tolist()}
                found |= {"error": float(np.mean(found["losses"])), "log_density": float(d[rows].mean())}
                found |= {"coverage": 0.9}
                r |= {k: None if bad else v for k, v in found.items()} | {"n_train": 16, "n_test": 4, "seconds": 1.0}
                records.append({**r, "rows": rows.tolist(), "y": [], "warnings": [], "failure": bad})
    records += list(left_out)
    return Comparison(
        "regression",
        "y",
        "who",
        ["x"],
        list(tasks),
        dict.fromkeys(tasks, N),
        ["a"],
        [m for m in METHODS if m in errors],
        scoring,
        {"folds": FOLDS, "repeats": REPEATS},
        0,
        "0" * 64,
        {},
        records,
        relations=list(relations),
    )


RNG = np.random.default_rng(0)
ALONE = 1.0 + 0.1 * RNG.normal(size=N)


def moved(by, sd=0.05, seed=1):
    return ALONE + by + sd * np.random.default_rng(seed).normal(size=N)


def test_interval_is_the_corrected_resampled_t_of_the_log_ratio_of_errors():
    """Nadeau & Bengio: folds whose rows do not influence each other have K times the variance of the mean of rows."""
    one = moved(-0.3)
    found = made({"single": ALONE, "focused": one}).difference("a", "focused", from_="single")
    A, B, inflation = one.mean(), ALONE.mean(), 1 / REPEATS + FOLDS * 4 / 16
    error = np.sqrt(inflation * (one / A - ALONE / B).var(ddof=1) / N + rule.REFIT**2 / N)
    reach = stats.t.ppf(0.975, N - 1) * error
    assert found.mean == pytest.approx(A - B)
    assert found.std_error == pytest.approx(A * error)
    low, high = (B * (A / B * np.exp(v) - 1) for v in (-reach, reach))
    size = np.exp(rule.SIZE * stats.t.ppf(0.975, N - 1) * np.sqrt(inflation * ALONE.var(ddof=1) / N) / B)
    assert [found.low, found.high] == pytest.approx([low * size, high / size])
    assert found.below(low) == pytest.approx(0.025)
    assert found.below(high) == pytest.approx(0.975)
    assert found.below(0.0) == pytest.approx(stats.t.cdf(np.log(B / A) / error, N - 1))
    assert found.below(-B) == 0.0  # no error is negative
    folds = made({"single": ALONE, "focused": one}).folds
    rooted = ratio_of(folds("a", "focused"), folds("a", "single"), root=True)  # of squares, say: logs are halves
    halved = np.sqrt(0.25 * (error**2 - rule.REFIT**2 / N) + rule.REFIT**2 / N)
    assert rooted.std_error == pytest.approx(np.sqrt(A) * halved)
    # the formula of the paper, on means of folds of independent rows, is the same on average
    rng, by_folds, by_rows = np.random.default_rng(3), [], []
    for _ in range(400):
        x = rng.normal(size=N)
        folds = [x[part].mean() for _ in range(REPEATS) for part in np.array_split(rng.permutation(N), FOLDS)]
        by_folds.append((1 / (FOLDS * REPEATS) + 4 / 16) * np.var(folds, ddof=1))
        by_rows.append(inflation * x.var(ddof=1) / N)
    assert np.mean(by_folds) == pytest.approx(np.mean(by_rows), rel=0.1)


def test_an_interval_of_next_to_no_clusters_is_wide_and_a_number():
    """Nineteen rows in one cluster and one in another: a twentieth of a degree of freedom."""
    records = made({"single": ALONE, "focused": moved(-0.3)})
    clusters = Design({}, {i: min(i, 1) for i in range(N)})
    found = ratio_of(records.folds("a", "focused"), records.folds("a", "single"), clusters)
    assert -np.inf < found.low < -0.99 * ALONE.mean()
    assert 1e6 < found.high < np.inf
    assert 0.0 < found.below(0.0) < 1.0


def test_errors_of_zero_have_no_ratio_and_a_plain_interval():
    """Wrong in a few rows of twenty against in none."""
    wrong = np.where(np.arange(N) < 4, 1.0, 0.0)
    found = made({"single": wrong, "focused": np.zeros(N)}).difference("a", "focused", from_="single")
    assert (found.mean, found.base) == (pytest.approx(-0.2), 0.0)
    assert found.low < -0.2 < found.high
    assert 0.5 < found.below(0.0) < 1.0


def test_probability_is_that_of_the_students_t():
    d = Interval(-0.2, 0.1, -0.4, 0.0, 7.0)
    assert d.below(0.0) == pytest.approx(stats.t.cdf(2.0, 7))
    assert d.below(-0.2) == pytest.approx(0.5)
    assert (Interval(-1.0, 0.0, -1, -1, 5).below(0.0), Interval(0.0, 0.0, 0, 0, 5).below(0.0)) == (1.0, 0.5)
    assert np.isnan(Interval().below(0.0))


def test_clusters_and_weights():
    """A row that stands there k times in one cluster tells nothing new; a weight of two is that of two clusters."""
    x = RNG.normal(size=8)
    once = interval(x, 1.0, np.ones(8), range(8))
    thrice = interval(np.repeat(x, 3), 1.0, np.ones(24), np.repeat(np.arange(8), 3))
    assert thrice == pytest.approx(once)
    assert once.std_error == pytest.approx(x.std(ddof=1) / np.sqrt(8))
    weighted = interval(np.array([1.0, 4.0]), 1.0, np.array([2.0, 1.0]), range(2))
    assert weighted.mean == pytest.approx(2.0)
    assert weighted.df == pytest.approx(9 / 5 - 1)
    assert np.isnan(interval(np.ones(4), 1.0, np.ones(4), ["one"] * 4).low)


def test_differences_that_optimisers_leave_are_none():
    assert differences(np.array([1.0, 2.0 + 1e-4]), np.array([1.0, 2.0])).tolist() == [0.0, 0.0]
    assert differences(np.array([2.0, 1.0]), np.array([2.0 + 1e-2, 1.0])) == pytest.approx([-1e-2, 0.0])


def test_the_difference_of_roots():
    """Root mean squared errors: the losses are squares, the difference is of their roots."""
    a, b = moved(-0.5) ** 2, ALONE**2
    found = made({"single": b, "focused": a}, scoring="root mean squared error")
    expected = np.sqrt(a.mean()) - np.sqrt(b.mean())
    assert found.difference("a", "focused").mean == pytest.approx(expected)
    assert found.error("a", "single").mean == pytest.approx(np.sqrt(b.mean()))
    assert found.table()["error"][1] == pytest.approx(np.sqrt(a.mean()))


def test_the_interval_covers_when_folds_overlap():
    """The mean of n numbers by repeated folds: plain t intervals of folds cover far less often than they say."""
    rng, n, hits, plain_hits = np.random.default_rng(7), 20, 0, 0
    for _ in range(300):
        x = rng.normal(size=n)
        parts = [(r, part) for r in range(6) for part in np.array_split(rng.permutation(n), 5)]
        records = [
            {"repeat": r, "fold": i, "rows": part, "losses": x[part], "failure": None, "n_test": 4, "n_train": 16}
            for i, (r, part) in enumerate(parts)
        ]
        found = difference_of(records, [{**r, "losses": 0.0 * r["losses"]} for r in records])
        hits += found.low < 0 < found.high
        folds = [x[part].mean() for _, part in parts]
        half = stats.t.ppf(0.975, 29) * np.std(folds, ddof=1) / np.sqrt(30)
        plain_hits += abs(np.mean(folds)) < half
    assert hits / 300 > 0.93
    assert plain_hits / 300 < 0.85


@pytest.mark.parametrize(
    ("mean", "se", "answer"),
    [
        (-0.3, 0.05, "helps"),
        (-0.3, 0.31, "probably helps"),
        (-0.3, 0.5, "cannot tell"),
        (-0.005, 0.005, "no practical difference"),
        (-0.019, 0.0001, "no practical difference"),  # certain, and nobody would notice
        (-0.03, 0.001, "helps"),
        (0.3, 0.31, "probably hurts"),
        (0.3, 0.05, "hurts"),
        (0.0, 0.0, "no practical difference"),  # nothing was borrowed
        (-1.0, 0.0, "cannot tell"),  # an interval of no width says nothing
        (-1.0, np.nan, "cannot tell"),
    ],
)
def test_answers_are_graded_by_their_probability(mean, se, answer):
    half = stats.t.ppf(0.975, 30) * se
    found = Interval(mean, se, mean - half, mean + half, 30.0)
    assert answer_of(found, 0.02) == answer
    if answer == "helps":
        assert found.high < 0  # the interval says the same


def test_helps_is_said_from_a_probability_of_85_percent_on():
    """The interval is of 95 % all the same, and may reach beyond zero."""
    for p, answer in ((0.86, "helps"), (0.84, "probably helps"), (0.16, "probably hurts"), (0.14, "hurts")):
        found = gap(-stats.t.ppf(p, 30) * 0.2, 0.2)
        assert found.below(0.0) == pytest.approx(p)
        assert answer_of(found, 0.02) == answer
        assert found.low < 0.0 < found.high


def test_what_is_expected_to_make_no_difference_is_no_claim():
    """The error falls for certain, by less than what makes a difference to who asks."""
    assert answer_of(gap(-0.3, 0.1), 0.02) == "helps"
    assert answer_of(gap(-0.3, 0.1), 0.31) == "cannot tell"
    assert answer_of(gap(0.3, 0.1), 0.31) == "cannot tell"
    assert answer_of(gap(-0.3, 0.1), 0.9) == "no practical difference"


def gap(mean, se=0.05):
    return Interval(mean, se, mean - 2 * se, mean + 2 * se, 30.0)


@pytest.mark.parametrize(
    ("found", "best", "droppers", "answer"),
    [
        ({"focused": gap(0.5), "pooled": gap(0.3)}, "pooled", ["focused"], "hurts"),
        ({"focused": gap(0.0, 0.2), "pooled": gap(0.3)}, "pooled", ["focused"], "cannot tell"),
        ({"focused": Interval(0, 0, 0, 0, 30.0), "pooled": gap(0.3)}, "pooled", ["focused"], "cannot tell"),
        ({"pooled": gap(0.3)}, "pooled", [], "cannot tell"),  # none that can drop a relation was asked
        ({"focused": gap(0.05), "pooled": gap(0.5)}, "pooled", ["focused"], "probably hurts"),
        ({"focused": gap(0.5), "pooled": gap(-0.3)}, "pooled", ["focused"], "helps"),
    ],
)
def test_that_it_hurts_is_said_of_data_only_where_every_method_that_can_drop_a_relation_loses(
    found, best, droppers, answer
):
    assert decide(found, best, 0.02, droppers) == answer


def test_weights_are_those_of_the_mixture_that_predicts_best():
    """Two methods, each right for a part of the rows, share the weight as these do; a useless one has none."""
    n = 400
    first = np.arange(n) < 300
    right, wrong = np.log(0.9), np.log(0.1)
    found = stack(
        {
            "single": np.where(first, right, wrong),
            "focused": np.where(first, wrong, right),
            "ivm": np.full(n, np.log(0.01)),
        },
    )
    # maximum of 3/4 log(.1 + .8 w) + 1/4 log(.9 - .8 w)
    assert found["single"] == pytest.approx(0.8125, abs=0.03)
    assert found["ivm"] < 0.01
    assert sum(found.values()) == pytest.approx(1.0)
    few = stack({"single": np.zeros(3), "focused": np.array([0.3, -0.3, 0.1])})
    assert 0.3 < few["single"] < 0.9  # three rows decide nothing
    ten = stack({"single": np.zeros(10), "focused": np.full(10, 3.0)})
    assert ten["focused"] > 0.9
    assert ten == stack({"single": np.zeros(10), "focused": np.full(10, 3.0)})


def test_weights_heed_what_is_wanted():
    density = {"single": np.array([0.0] * 10 + [-5.0] * 10), "focused": np.array([-5.0] * 10 + [0.0] * 10)}
    weights = np.array([0.05] * 10 + [1.95] * 10)
    assert stack(density)["focused"] == pytest.approx(0.5, abs=0.1)
    assert stack(density, weights=weights)["focused"] > 0.85


def test_the_best_without_the_other_data_is_what_borrowing_has_to_beat():
    """Ridge that is better than the GP alone: the difference is from ridge, in the table and in the verdict."""
    errors = {"single": ALONE, "ridge": moved(-0.4), "focused": moved(-0.5, seed=2)}
    found = made(errors)
    found = Comparison.from_dict({**found.to_dict(), "methods": list(errors), "alone": ["single", "ridge"]})
    verdict = found.verdict()
    assert verdict.alone == "ridge"
    assert verdict.difference == pytest.approx(np.mean(errors["focused"] - errors["ridge"]))
    assert found.table()["difference"][1] == 0.0
    assert "(ridge on the primary)" in verdict.sentence
    assert "ridge" not in verdict.weights  # a reference is no member of the mixture


def test_the_answer_in_words():
    helps = made({"single": ALONE, "pooled": moved(0.5), "focused": moved(-0.5)}).verdict()
    assert (helps.answer, helps.best, helps.method) == ("helps", "focused", "focused")
    assert helps.low < helps.difference < helps.high < 0
    assert helps.sentence.startswith("Borrowing helps 'a': mean absolute error 0.484")
    assert "by the focused GP against 0.982" in helps.sentence
    assert "95 % interval" in helps.sentence
    assert "10 folds" in helps.sentence
    assert helps.sentence.endswith("P(borrowing lowers the error) = above 0.99.")
    assert helps.rope == pytest.approx(0.02 * ALONE.mean())
    assert helps.advice[0] == "Use borrow.FocusedGPRegressor(task='who', primary='a')."
    assert "% focused GP" in helps.because
    hurts = made({"single": ALONE, "focused": moved(0.5)}).verdict()
    assert (hurts.answer, hurts.method) == ("hurts", "single")
    assert hurts.sentence.startswith("Borrowing hurts 'a'")
    open_ = made({"single": ALONE, "focused": moved(-0.03, sd=0.3)}).verdict()
    assert open_.answer == "cannot tell"
    assert "cautious=True" in " ".join(open_.advice)
    assert "would show with about" not in " ".join(open_.advice)
    same = made({"single": ALONE, "focused": ALONE}).verdict()
    assert (same.answer, same.difference, same.low, same.high) == ("no practical difference", 0.0, 0.0, 0.0)
    assert "borrowed nothing" in same.sentence
    for v in (helps, hurts, open_, same):
        assert str(v).splitlines()[0] == v.sentence
        assert json.loads(json.dumps(v.to_dict(), allow_nan=False))["answer"] == v.answer


def test_a_strong_correlation_beside_no_claim_is_explained():
    known = [{"task": "b", "rho": 0.9, "correlation": 0.95, "std_error": 0.05, "share": 0.9}]
    relations = [{"primary": "a", "relations": known, "failure": None}]
    open_ = made({"single": ALONE, "focused": moved(-0.03, sd=0.3)}, relations=relations).verdict()
    assert any("'b' goes with 'a' (correlation 0.95), which is no contradiction" in line for line in open_.advice)
    helps = made({"single": ALONE, "focused": moved(-0.5)}, relations=relations).verdict()
    assert not any("contradiction" in line for line in helps.advice)


def test_of_several_primaries_a_claim_has_to_hold_for_all():
    """Holm: the smallest risk is held to 15 %/3, the next to 15 %/2, and none goes on after one that fails."""

    def one(p, answer="helps"):
        return Verdict(answer, "a", "focused", -1.0, -2.0, -0.5, 0.95, 5, probability=p)

    found = judged_together({"a": one(0.98), "b": one(0.92), "c": one(0.5, "cannot tell")})
    assert [v.answer for v in found.values()] == ["helps", "probably helps", "cannot tell"]
    found = judged_together({"a": one(0.96), "b": one(0.93), "c": one(0.5, "cannot tell")})
    assert [v.answer for v in found.values()] == ["helps", "helps", "cannot tell"]
    assert judged_together({"a": one(0.86)})["a"].answer == "helps"
    found = judged_together({"a": one(0.92), "b": one(0.08, "hurts")})
    assert [v.answer for v in found.values()] == ["probably helps", "probably hurts"]


def test_a_share_of_the_gain_is_shown_at_five_percent():
    """Other than the answer, which is said from a probability of 85 % on."""
    rows = Table({"task": ["b", "c", "d"], "gain": [0.5, 0.5, -0.5], "p": [0.04, 0.07, 0.01]})
    assert Verdict("helps", "a", "focused", -1.0, -2.0, -0.5, 0.95, 5, secondaries=rows).carriers == ["b"]


def test_worse_density_is_said_beside_a_better_error():
    errors = {"single": ALONE, "focused": moved(-0.5)}
    density = {"single": np.zeros(N), "focused": moved(-3.0)}
    verdict = made(errors, density).verdict()
    assert verdict.answer == "helps"
    assert any("log density falls" in line for line in verdict.advice)
    assert verdict.log_density["high"] < 0


def test_a_method_with_a_failed_fold_is_named_and_not_judged():
    found = made({"single": ALONE, "pooled": moved(-0.5), "focused": moved(0.0)}, failed=[("pooled", 3)])
    verdict = found.verdict()
    assert verdict.best == "focused"
    assert any("The pooled failed in 1 of 10 folds (ValueError: why)" in line for line in verdict.advice)
    none = made({"single": ALONE, "focused": moved(-0.5)}, failed=[("single", 0)]).verdict()
    assert (none.answer, none.best) == ("cannot tell", None)


def left(task, values):
    whole = made({"focused": values}).folds("a", "focused")
    return [{**r, "left_out": [task]} for r in whole if r["repeat"] == 0]


def test_secondaries_show_relatedness_and_what_they_are_worth():
    focused = moved(-0.5, sd=0.01)
    known = [
        {"task": "b", "rho": 0.9, "correlation": 0.8, "std_error": 0.05, "share": 0.64},
        {"task": "c", "rho": 0.0, "correlation": 0.0, "std_error": None, "share": 0.0},
    ]
    out = [*left("b", ALONE), *left("c", focused)]
    relations = [{"primary": "a", "relations": known, "failure": None}]
    found = made({"single": ALONE, "focused": focused}, None, ("a", "b", "c"), relations, out)
    table = found.verdict().secondaries
    worth = ["alone", "without", "gain", "low", "high", "p"]
    assert list(table) == [
        "task", "rows", "correlation", "correlation_low", "correlation_high", "std_error", "share", *worth
    ]  # fmt: skip
    assert table["task"] == ["b", "c"]
    assert table["gain"][0] == pytest.approx(np.mean(ALONE - focused))
    assert table["low"][0] > 0
    assert (table["gain"][1], table["low"][1], table["high"][1]) == (0.0, 0.0, 0.0)
    assert np.isnan(table["std_error"][1])
    assert table["alone"][0] == table["without"][0] == pytest.approx(np.mean(ALONE - focused))
    assert "The gain is carried by 'b' (shares by Shapley)." in found.verdict().advice
    assert found.candidates("a") == ["focused"]  # fits without a secondary are no folds of the method


def test_the_only_secondary_is_left_out_by_no_transfer():
    found = made({"single": ALONE, "focused": moved(-0.5)})
    verdict = found.verdict()
    assert verdict.secondaries["gain"][0] == pytest.approx(-verdict.difference)


def test_what_leaving_out_does_not_show_is_not_claimed():
    focused = moved(-0.5, sd=0.01)
    out = [*left("b", moved(-0.25, sd=5.0)), *left("c", moved(-0.25, sd=5.0, seed=2))]
    advice = made({"single": ALONE, "focused": focused}, None, ("a", "b", "c"), (), out).verdict().advice
    assert any(
        line.startswith("Which of them carries the gain is not certain: the largest share of it is that of")
        for line in advice
    )


def test_rows_of_a_design_count_as_it_says():
    """Weights of wanted inputs move the mean towards the rows that count."""
    d = np.where(np.arange(N) < 10, -0.5, 0.4)
    found = made({"single": ALONE, "focused": ALONE + d})
    shifted = Comparison.from_dict({**found.to_dict(), "row_weights": [[i, 1.9 if i < 10 else 0.1] for i in range(N)]})
    assert found.difference("a", "focused").mean == pytest.approx(-0.05)
    assert shifted.difference("a", "focused").mean == pytest.approx(-0.455)
    one = found.folds("a", "focused"), found.folds("a", "single")
    grouped = difference_of(*one, design=Design({}, {i: i // 5 for i in range(N)}))
    assert grouped.df == pytest.approx(3.0)


def test_what_single_fits_add_is_told_from_what_rows_add():
    """Rows differ by 1, fits by 0.3, each prediction by 0.5: repeats tell the fits apart from the rest."""
    random = np.random.default_rng(0)

    def records(fits, repeats=6, folds=25, rows=10):
        own, found = random.normal(size=folds * rows), []
        for repeat in range(repeats):
            order = random.permutation(folds * rows).reshape(folds, rows)
            for fold, part in enumerate(order):
                values = own[part] + fits * random.normal() + 0.5 * random.normal(size=rows)
                found.append({"repeat": repeat, "fold": fold, "rows": part.tolist(), "losses": values.tolist()})
        return found

    assert fit_variance(records(0.3), "losses") == pytest.approx(0.09, rel=0.25)
    assert fit_variance(records(0.0), "losses") < 0.01
    assert fit_variance(records(0.3, repeats=1), "losses") == 0.0


def test_an_interval_is_wider_where_fits_disagree():
    """The same rows with the same means over the repeats, once with fits that move all their rows together."""
    steady = made({"single": ALONE, "focused": moved(-0.3)})
    records = [
        {**r, "losses": [v + (0.4 if r["repeat"] % 2 else -0.4) * (r["method"] == "focused") for v in r["losses"]]}
        for r in steady.records
    ]
    shaken = replace(steady, records=records)
    one, other = (found.difference("a", "focused", from_="single") for found in (steady, shaken))
    assert other.mean == pytest.approx(one.mean)
    assert other.std_error > 0.35 > 3 * one.std_error


def test_the_command_line_breaks_no_word_of_a_method():
    """At 80 columns, with figures that need their room."""
    shown = io.StringIO()
    found = made({"single": 1e-4 * ALONE, "symmetric": 1e-4 * moved(-0.3), "focused": 1e-4 * moved(-0.5)})
    found = replace(
        found,
        methods=["single", "hierarchical", "focused"],
        records=[{**r, "method": r["method"].replace("symmetric", "hierarchical")} for r in found.records],
    )
    Console(file=shown, width=80).print(methods_table(found))
    words = shown.getvalue().split()
    assert {"hierarchical", "transfer", "difference", "interval"} <= {*words}
    assert all(len(line) <= 80 for line in shown.getvalue().splitlines())


def closed(method, missed, mean, std, evidence, power=1, elsewhere=()):
    """A fit to all rows, each of them left out in closed form."""
    losses = (np.abs(missed) ** power).tolist()
    record = {"primary": "a", "method": method, "repeat": 0, "fold": 0, "left_out": [], "failure": None}
    record |= {"n_train": N - 1, "n_test": N, "rows": list(range(N)), "y": [], "seconds": 1.0, "warnings": []}
    record |= {"losses": losses, "mean": [mean] * N, "std": [std] * N, "log_densities": [0.0] * N}
    record |= {"mean elsewhere": list(elsewhere), "std elsewhere": [std] * len(elsewhere)}
    return {**record, "error": float(np.mean(losses)), "log_density": 0.0, "coverage": 0.9, "evidence": evidence}


def test_a_posterior_with_and_without_a_relation():
    """By hand: P(error falls) = P(relation) F(...) + (1 - P(relation))/2; quantiles are the inverse."""
    law = Mixture(0.9, np.arcsinh(-3.0), 0.5, 1.0)
    assert law.below(0.0) == pytest.approx(0.9 * stats.t.cdf(np.arcsinh(3.0) / 0.5, rule.DF) + 0.05)
    for p in (0.025, 0.5, 0.975):
        assert law.below(law.quantile(p)) == pytest.approx(p)
    sure = Mixture(1.0, np.arcsinh(-3.0), 0.5, 1.0)
    assert sure.quantile(0.5) == pytest.approx(-3.0 * rule.BEND)


def test_fits_to_all_rows_tell_by_evidence_and_by_what_they_expect():
    """A gain in sight counts where the evidence is for a relation, and the evidence where a gain is in sight."""
    alone, half = closed("single", ALONE, 0.0, 1.2, 0.0), closed("focused", 0.5 * ALONE, 1.0, 0.5, 0.0)
    size = Interval(1.0, 0.0, 1.0, 1.0, N - 1.0)
    shown, chance = (related(half, alone, odds, size) for odds in (12.0, -12.0))
    assert answer_of(shown, 0.02) == "helps"
    # If it is right, the other misses a row by the mean of |N(1, 0.5²)|, and it by that of |N(0, 0.5²)|.
    gain = rule.HOLDS * np.log(stats.halfnorm(scale=0.5).mean() / stats.foldnorm(2.0, scale=0.5).mean())
    assert shown.mean == pytest.approx(np.expm1(gain), rel=0.01)
    assert shown.law.middle == pytest.approx(np.arcsinh(gain / rule.BEND))
    u = -gain / rule.HOLDS / rule.BEND  # in sight, in the units of the bend: the spread falls where it is large
    assert shown.law.if_related == pytest.approx(rule.STILL + rule.WITH * np.tanh(u) / (1.0 + u) ** rule.NARROWS)
    assert shown.law.if_unrelated == pytest.approx(rule.STILL + rule.WITHOUT * np.tanh(u) / (1.0 + u) ** rule.NARROWS)
    assert chance.below(0.0) == pytest.approx(0.5, abs=1e-3)
    assert chance.low < 0.0 < chance.high < 9.0  # not as far as ten times the error
    assert chance.mean == pytest.approx(0.0, abs=1e-3)
    for odds in (-2.0, 3.0):
        assert related(half, alone, odds, size).law.real == pytest.approx(1.0 / (1.0 + np.exp(-odds)))
    slight = closed("focused", 0.98 * ALONE, 0.1, 1.0, 0.0)
    assert 0.5 < related(slight, alone, 12.0, size).below(0.0) < rule.PROBABLE
    same = related(closed("focused", ALONE * (1.0 + 1e-6), 0.0, 1.2, 0.0), alone, -0.5, size)
    assert (same.mean, same.std_error) == (0.0, 0.0)
    for odds in (-12.0, 12.0):  # predictions that hardly moved cannot have changed the error by much
        little = related(closed("focused", 1.001 * ALONE, 0.001, 1.2, 0.0), alone, odds, size)
        assert -0.03 < little.low < 0.0 < little.high < 0.03


def test_odds_are_the_mean_over_the_methods_of_tempered_ones():
    """By hand: of two methods, one held back by all rows of three tasks, the other by those of the primary."""
    gains = [(10.0, 20.0), (50.0, 4.0)]
    by_hand = np.log((np.exp(rule.TEMPER * (10.0 - 2 * rule.COST)) + np.exp(rule.TEMPER * (4.0 - rule.COST))) / 2.0)
    assert rule.log_odds(gains, 2) == pytest.approx(by_hand)
    assert rule.log_odds(gains[::-1], 2) == pytest.approx(by_hand)
    assert rule.log_odds(gains * 3, 2) == pytest.approx(by_hand)  # opinions of one table are not evidence of three
    for bad in (-50.0, -1e6):  # a method that describes the rows badly vetoes nothing: it counts as one that saw none
        assert rule.log_odds([(40.0, 40.0), (bad, bad)]) == pytest.approx(
            rule.TEMPER * (40.0 - rule.COST) - np.log(2.0), abs=1e-3
        )


def test_a_method_that_borrows_nothing_speaks_against_a_relation():
    """Whoever relates the tasks is heard, and not only the method that is judged."""
    fits = [closed("single", ALONE, 0.0, 1.2, -30.0), closed("symmetric", 0.4 * ALONE, 1.0, 0.4, -18.0)]
    errors = {"single": ALONE, "symmetric": moved(0.0), "focused": moved(0.0, seed=2)}
    one = made(errors, left_out=fits)
    both = made(errors, left_out=[*fits, closed("focused", ALONE, 0.0, 1.2, -30.0)])
    assert both.evidence("a", "symmetric") == one.evidence("a", "symmetric") == 12.0
    assert both.verdict().probability < one.verdict().probability
    assert both.difference("a", "symmetric").law.real == pytest.approx(
        1.0 / (1.0 + np.exp(-rule.log_odds([(12.0, 12.0), (0.0, 0.0)])))
    )


def test_every_other_task_has_a_price():
    """A gain that is plenty for one relation is none where three could have made it by chance."""
    fits = [closed("single", ALONE, 0.0, 1.2, -30.0), closed("symmetric", 0.4 * ALONE, 1.0, 0.4, -26.0)]
    for tasks, others in (("ab", 1), ("abcd", 3)):
        found = made({"single": ALONE, "symmetric": moved(0.0)}, tasks=tasks, left_out=fits)
        odds = rule.TEMPER * (4.0 - others * rule.COST)
        assert found.difference("a", "symmetric").law.real == pytest.approx(1.0 / (1.0 + np.exp(-odds)))


def test_what_is_in_sight_counts_rows_left_out_and_inputs_elsewhere():
    """By hand, of squares: (s² + d²)/s² on average over the rows by their weights, and over the other inputs."""
    one, other = (
        closed("focused", ALONE, 1.0, 0.5, 0.0, 2, [3.0] * N),
        closed("single", ALONE, 0.0, 9.0, 0.0, 2, [0.0] * N),
    )
    expected = 0.5 * np.log((0.25 + (1.0 + 9.0) / 2.0) / 0.25)
    assert rule.in_sight(one, other, rule.PLAIN, 2) == pytest.approx(expected)
    light = rule.Design(dict.fromkeys(range(N), 1e-12))
    assert rule.in_sight(one, other, light, 2) == pytest.approx(0.5 * np.log(9.25 / 0.25))
    older = [{k: v for k, v in r.items() if "elsewhere" not in k} for r in (one, other)]
    assert rule.in_sight(*older, rule.PLAIN, 2) == pytest.approx(0.5 * np.log(1.25 / 0.25))


def test_fits_to_all_rows_tell_the_same_of_squares_and_of_their_root():
    """The log of a mean of squares is twice that of its root."""
    size = Interval(1.0, 0.0, 1.0, 1.0, N - 1.0)
    pair = closed("focused", 0.5 * ALONE, 1.0, 0.6, 0.0, 2), closed("single", ALONE, 0.0, 1.2, 0.0, 2)
    root, square = (related(*pair, 5.0, size, power=2, root=root) for root in (True, False))
    assert [np.log1p(v) for v in square[2:4]] == pytest.approx([2.0 * np.log1p(v) for v in root[2:4]])
    assert root.below(0.0) == square.below(0.0)


def test_evidence_is_at_most_what_relations_add():
    """A method whose functions have more parts explains the rows better without any relation: that is no evidence."""
    fits = [closed("single", ALONE, 0.0, 1.2, -30.0), closed("symmetric", 0.4 * ALONE, 1.0, 0.4, -20.0)]
    errors = {"single": ALONE, "symmetric": moved(0.0)}
    for added, evidence, answer in ((12.0, 10.0, "helps"), (0.5, 0.5, "cannot tell"), (-1.0, -1.0, "cannot tell")):
        fits[1] = {**fits[1], "evidence of relations": added}
        found = made(errors, left_out=fits)
        assert found.evidence("a", "symmetric") == evidence
        assert found.verdict().answer == answer


def test_a_method_that_was_cut_short_is_shown_by_the_folds_that_it_ran():
    """The rows that it met were easy for all: less than a tenth of the error of all of them."""
    hard = np.where(np.arange(N) < N // 5, 0.05, 2.0) * np.sign(ALONE)
    found = made({"single": hard, "symmetric": 0.5 * hard})
    first = next(r for r in found.records if r["method"] == "symmetric")
    others = [r for r in found.records if r["method"] != "symmetric"]
    cut = replace(found, records=[*others, first])
    assert cut.complete("a") == ["single"]
    row = cut.table().rows()[cut.methods.index("symmetric")]
    assert row["error"] == pytest.approx(float(np.mean(first["losses"])))


def test_rows_held_out_judge_where_they_show_that_the_error_rises():
    """Fits to all rows that expect a gain, and folds in which every row is missed by more."""
    fits = [closed(m, ALONE, mean, 0.5, 10.0 * mean) for m, mean in (("single", 0.0), ("focused", 1.0))]
    found = made({"single": ALONE, "focused": moved(0.5)}, left_out=fits)
    assert found.difference("a", "focused") == made({"single": ALONE, "focused": moved(0.5)}).difference("a", "focused")
    assert found.verdict().answer == "hurts"
    errors = {"single": ALONE, "focused": moved(0.15)}  # a hint at it is not enough
    hint = made(errors).difference("a", "focused")
    assert 0.05 < hint.below(0.0) < 0.2
    fits[1] = closed("focused", 0.9 * ALONE, 1.0, 0.5, 10.0)
    assert made(errors, left_out=fits).difference("a", "focused").below(0.0) > 0.5


def test_the_verdict_is_by_fits_to_all_rows_where_there_are_any():
    """Folds in which nothing is seen, and fits to all rows that show a relation; and those of one method only."""
    errors = {"single": ALONE, "symmetric": moved(0.0), "focused": moved(0.0, seed=2)}
    fits = [closed("single", ALONE, 0.0, 1.2, -30.0), closed("symmetric", 0.4 * ALONE, 1.0, 0.4, 10.0)]
    folds, found = made(errors), made(errors, left_out=fits)
    assert folds.verdict().answer == "cannot tell"
    assert np.isnan(folds.verdict().evidence)
    verdict = found.verdict()
    assert (verdict.answer, verdict.best, verdict.evidence) == ("helps", "symmetric", 40.0)
    assert "its rows are over 1,000 times as likely with the other data as without" in verdict.sentence
    assert "its rows are 410 times as likely" in sentence_of(replace(verdict, evidence=6.02), "error", 1.0)
    large = sentence_of(replace(verdict, error=2010.4, difference=-1500.0, low=-2345.6), "error", 3510.0)
    assert "error 2010 by the" in large
    assert "difference of -1500 at new rows (95 % interval -2346 to" in large
    assert verdict.probability == pytest.approx(found.difference("a", "symmetric").below(0.0))
    assert found.difference("a", "focused") == folds.difference("a", "focused")
    assert verdict.low < verdict.difference < verdict.high < 0.0
    row = found.table().rows()[found.methods.index("symmetric")]
    assert (row["difference"], row["low"], row["high"]) == (verdict.difference, verdict.low, verdict.high)


def test_folds_that_show_the_opposite_are_named():
    """In folds the error is a tenth more, and fits to all rows expect half of it: said, without a percentage."""
    errors = {"single": ALONE, "symmetric": 1.1 * ALONE + 0.5 * RNG.normal(size=N)}
    fits = [closed("single", ALONE, 0.0, 1.2, -30.0), closed("symmetric", 0.4 * ALONE, 1.0, 0.4, -20.0)]
    found = made(errors, left_out=fits).verdict()
    assert (found.answer, found.by_all_rows) == ("helps", True)
    assert "10 folds, which do not show it: fits to all rows do; expect a difference of -" in found.sentence
    agreed = made({**errors, "symmetric": 0.5 * ALONE}, left_out=fits).verdict()
    assert "do not show it" not in agreed.sentence


def test_a_plain_method_that_did_better_is_named():
    errors = {"single": ALONE, "ridge_tasks": 0.5 * ALONE, "symmetric": 0.8 * ALONE}
    said = "On the rows held out the ridge with a slope per task had a lower error"
    for ridge, named in ((0.5, True), (0.79, False), (2.0, False)):
        found = replace(made({**errors, "ridge_tasks": ridge * ALONE}), methods=list(errors))
        assert any(said in text for text in found.verdict().advice) == named


def test_advice_for_a_table_that_was_encoded_names_the_encoder():
    found = made({"single": ALONE, "symmetric": 0.5 * ALONE})
    encoder = "put borrow.TableEncoder(task='who') before"
    assert not any(encoder in text for text in found.verdict().advice)
    assert any(encoder in text for text in replace(found, encoding=["x: two words"]).verdict().advice)
