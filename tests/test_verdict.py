"""The verdict: its statistics, its words, and that it does not cry wolf."""

import json

import numpy as np
import pytest
from scipy import stats

from borrow.transfer.comparison import Comparison
from borrow.transfer.decide import Interval, decide, differences, interval

METHODS = ["single", "pooled", "symmetric", "focused"]


def made(errors, density=None, tasks=("a", "b"), relations=(), left_out=(), failed=()):
    """A comparison with given fold errors by method, five folds a repeat, 20 rows of the primary 'a'."""
    records = []
    for method, values in errors.items():
        for i, e in enumerate(values):
            r = {"primary": "a", "method": method, "repeat": i // 5, "fold": i % 5, "left_out": None}
            d = -e if density is None else density[method][i]
            bad = "ValueError: why" if (method, i) in failed else None
            r |= {"error": None if bad else e, "log_density": None if bad else d, "coverage": None if bad else 0.9}
            r |= {
                "n_train": 16,
                "n_test": 4,
                "rows": [],
                "y": [],
                "mean": [],
                "std": [],
                "seconds": 1.0,
                "warnings": [],
            }
            records.append({**r, "failure": bad})
    records += list(left_out)
    return Comparison(
        "regression",
        "y",
        "who",
        ["x"],
        list(tasks),
        dict.fromkeys(tasks, 20),
        ["a"],
        [m for m in METHODS if m in errors],
        "mean absolute error",
        {"folds": 5, "repeats": 2},
        0,
        "0" * 64,
        {},
        records,
        relations=list(relations),
    )


RNG = np.random.default_rng(0)
ALONE = (1.0 + 0.1 * RNG.normal(size=10)).tolist()


def moved(by, sd=0.05, seed=1):
    return (np.array(ALONE) + by + sd * np.random.default_rng(seed).normal(size=10)).tolist()


def test_interval_is_the_corrected_resampled_t():
    """Nadeau & Bengio (2003): t = mean / sqrt((1/J + n2/n1) s²) with J - 1 degrees of freedom."""
    d = RNG.normal(size=15)
    found = interval(d, 0.25, 0.95)
    error = np.sqrt((1 / 15 + 0.25) * np.sum((d - d.mean()) ** 2) / 14)
    assert found.std_error == pytest.approx(error)
    assert found.high - d.mean() == pytest.approx(stats.t.ppf(0.975, 14) * error)
    assert d.mean() - found.low == pytest.approx(stats.t.ppf(0.975, 14) * error)
    plain = stats.ttest_1samp(d, 0.0).confidence_interval(0.95)
    assert found.high - found.low > 2.0 * (plain.high - plain.low)


def test_one_fold_or_none_has_no_interval():
    assert np.isnan(interval([0.3], 0.25, 0.95)[1:]).all()
    assert np.isnan(interval([], np.nan, 0.95)).all()


def test_differences_that_optimisers_leave_are_none():
    found = differences([1.0, 2.0 + 1e-4, 3.0, 1e-9], [1.0, 2.0, 3.1, 2e-9])
    assert found == [0.0, 0.0, pytest.approx(-0.1), pytest.approx(-1e-9)]
    assert differences([2.0], [2.0 + 1e-3]) == [pytest.approx(-1e-3)]


def test_the_interval_covers_when_folds_overlap():
    """The mean of n numbers by repeated folds: plain t intervals of folds cover far less often than they say."""
    rng, n, hits, plain_hits = np.random.default_rng(7), 20, 0, 0
    for _ in range(300):
        x = rng.normal(size=n)
        folds = [x[part].mean() for _ in range(6) for part in np.array_split(rng.permutation(n), 5)]
        found = interval(folds, 0.25, 0.95)
        hits += found.low < 0 < found.high
        half = stats.t.ppf(0.975, 29) * np.std(folds, ddof=1) / np.sqrt(30)
        plain_hits += abs(np.mean(folds)) < half
    assert hits / 300 > 0.93
    assert plain_hits / 300 < 0.85


HELP, HURT, OPEN, TIE = (
    Interval(-1, 0.1, -2, -0.5),
    Interval(1, 0.1, 0.5, 2),
    Interval(-1, 1, -3, 1),
    Interval(0, 0, 0, 0),
)


@pytest.mark.parametrize(
    ("found", "answer", "best"),
    [
        ({"focused": HELP, "pooled": HURT}, "helps", "focused"),
        ({"focused": OPEN, "pooled": HELP}, "helps", "pooled"),
        ({"focused": HELP, "pooled": Interval(-3, 0.1, -4, -2)}, "helps", "pooled"),
        ({"focused": HURT, "pooled": HURT}, "hurts", "focused"),
        ({"focused": TIE, "pooled": HURT}, "cannot tell", "focused"),
        ({"focused": OPEN, "pooled": HURT}, "cannot tell", "focused"),
        ({"focused": Interval(1, 1, -1, 3)}, "cannot tell", "focused"),
        ({"pooled": HURT, "ivm": OPEN}, "cannot tell", "ivm"),
        ({"pooled": HURT, "ivm": Interval(2, 0.1, 1, 3)}, "hurts", "pooled"),
        ({"focused": Interval(-1, 0, -1, -1)}, "cannot tell", "focused"),  # an interval of no width says nothing
        ({"focused": Interval(-1, np.nan, np.nan, np.nan)}, "cannot tell", "focused"),
        ({}, "cannot tell", None),
    ],
)
def test_decision(found, answer, best):
    assert decide(found) == (answer, best)


def test_more_methods_do_not_make_help_more_likely_by_chance():
    """Six candidates that differ from no transfer by noise; each at 95 % would say "helps" in about one of eight."""
    rng, draws = np.random.default_rng(2), 400
    helps = naive = 0
    names = ["focused", "pooled", "symmetric", "hierarchical", "rbf", "ivm"]
    for _ in range(draws):
        found, each = {}, {}
        for name in names:
            d = rng.normal(size=15)
            found[name] = interval(d, 0.0, 0.95 if name == "focused" else 0.99)
            each[name] = interval(d, 0.0, 0.95)
        helps += decide(found)[0] == "helps"
        naive += decide(each)[0] == "helps"
    assert helps / draws <= 0.05
    assert naive / draws > 0.08


def test_levels_share_the_error_among_the_others():
    found = made({"single": ALONE, **{m: moved(0.0, seed=i) for i, m in enumerate(METHODS[1:], 1)}})
    assert found.levels("a") == {"pooled": 0.975, "symmetric": 0.975, "focused": 0.95}
    assert made({"single": ALONE, "focused": moved(0.0)}).levels("a") == {"focused": 0.95}
    table = found.table()
    widths = dict(zip(table["method"], np.subtract(table["high"], table["low"]), strict=True))
    d = np.subtract(moved(0.0, seed=1), ALONE)
    expected = 2 * stats.t.ppf(1 - 0.0125, 9) * np.sqrt((0.1 + 0.25) * d.var(ddof=1))
    assert widths["pooled"] == pytest.approx(expected)


def test_helps_hurts_cannot_tell_in_words():
    helps = made({"single": ALONE, "pooled": moved(0.5), "focused": moved(-0.5)}).verdict()
    assert (helps.answer, helps.best, helps.method) == ("helps", "focused", "focused")
    assert helps.low < helps.difference < helps.high < 0
    assert helps.sentence.startswith("The other data help 'a': mean absolute error 0.5")
    assert "by the focused GP against 1.0" in helps.sentence
    assert "95 % interval" in helps.sentence
    assert "10 folds" in helps.sentence
    assert helps.advice[0] == "Use borrow.FocusedGPRegressor(task='who', primary='a')."
    hurts = made({"single": ALONE, "focused": moved(0.5)}).verdict()
    assert (hurts.answer, hurts.method) == ("hurts", "single")
    assert hurts.sentence.startswith("The other data hurt 'a'")
    open_ = made({"single": ALONE, "focused": moved(-0.1, sd=0.2)}).verdict()
    assert (open_.answer, open_.method) == ("cannot tell", "single")
    assert "would show with about" in " ".join(open_.advice)
    same = made({"single": ALONE, "focused": ALONE}).verdict()
    assert (same.answer, same.difference, same.low, same.high) == ("cannot tell", 0.0, 0.0, 0.0)
    assert "borrowed nothing" in same.sentence
    for v in (helps, hurts, open_, same):
        assert str(v).splitlines()[0] == v.sentence
        assert json.loads(json.dumps(v.to_dict(), allow_nan=False))["answer"] == v.answer


def test_worse_density_is_said_beside_a_better_error():
    errors = {"single": ALONE, "focused": moved(-0.5)}
    density = {"single": [0.0] * 10, "focused": moved(-3.0)}
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
    base = {"primary": "a", "method": "focused", "repeat": 0, "left_out": task, "n_train": 16, "n_test": 4}
    return [{**base, "fold": i, "error": e, "failure": None, "seconds": 1.0} for i, e in enumerate(values)]


def test_secondaries_show_relatedness_and_what_is_lost_without_them():
    focused = moved(-0.5, sd=0.01)
    known = [
        {"task": "b", "rho": 0.9, "correlation": 0.8, "std_error": 0.05, "share": 0.64},
        {"task": "c", "rho": 0.0, "correlation": 0.0, "std_error": None, "share": 0.0},
    ]
    out = [*left("b", ALONE[:5]), *left("c", focused[:5])]
    relations = [{"primary": "a", "relations": known, "failure": None}]
    found = made({"single": ALONE, "focused": focused}, None, ("a", "b", "c"), relations, out)
    table = found.verdict().secondaries
    assert list(table) == ["task", "rows", "correlation", "std_error", "share", "gain", "low", "high"]
    assert table["task"] == ["b", "c"]
    assert table["gain"][0] == pytest.approx(np.mean(np.subtract(ALONE[:5], focused[:5])))
    assert table["low"][0] > 0
    assert (table["gain"][1], table["low"][1], table["high"][1]) == (0.0, 0.0, 0.0)
    assert np.isnan(table["std_error"][1])
    assert "The gain is carried by 'b': without it the error rises." in found.verdict().advice
    assert found.candidates("a") == ["focused"]  # fits without a secondary are no folds of the method


def test_the_only_secondary_is_left_out_by_no_transfer():
    found = made({"single": ALONE, "focused": moved(-0.5)})
    verdict = found.verdict()
    assert verdict.secondaries["gain"][0] == pytest.approx(-verdict.difference)
    assert verdict.secondaries["low"][0] == pytest.approx(-verdict.high)


def test_what_leaving_out_does_not_show_is_not_claimed():
    focused = moved(-0.5, sd=0.01)
    out = [*left("b", moved(-0.3, sd=0.5)[:5]), *left("c", focused[:5])]
    advice = made({"single": ALONE, "focused": focused}, None, ("a", "b", "c"), (), out).verdict().advice
    assert any(
        line.startswith("Which of them carries the gain is not certain: most is lost without 'b'") for line in advice
    )
