"""Text, dates and gaps as numbers: each decision, that it is applied again, that it is kept with a model."""

import datetime
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import borrow
from borrow.data.encode import Dates, Dropped, Levels, Numbers, Ordered, Times, decide, needs_encoding
from borrow.transfer.problem import read_problem

RNG = np.random.default_rng(0)
N = 48
WARDS = ["a", "b", "c", None]


def hospitals():
    """Three hospitals: text, dates, gaps, an identifier."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "hospital": ["north", "south", "west"] * (N // 3),
            "sex": rng.choice(["m", "f"], N),
            "ward": [WARDS[i % 4] for i in range(N)],
            "age": np.where(np.arange(N) % 7 == 0, np.nan, rng.normal(60.0, 9.0, N).round(1)),
            "seen": pd.date_range("2021-02-01", periods=N, freq="20D"),
            "patient": [f"P{i:03d}" for i in range(N)],
        }
    )
    y = (table["sex"] == "m") + np.nan_to_num(table["age"], nan=60.0) / 30.0 + 0.05 * rng.normal(size=N)
    return table.assign(stay=y)


def quietly(f, *arguments, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*arguments, **more)


@parametrize_with_checks([borrow.TableEncoder()])
@pytest.mark.filterwarnings("ignore:column .*(left out|has a gap|has a different whole number)")
def test_scikit_learn_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its checks
    check(estimator)


def test_each_kind_of_column_becomes_what_the_table_of_the_module_says():
    encoder = quietly(borrow.TableEncoder("hospital").fit, hospitals().drop(columns="stay"))
    assert encoder.report().splitlines() == [
        "'sex': two levels, 0 for 'f' and 1 for 'm'",
        "'ward': 4 levels, one column each",
        "'age': 7 gaps have the median 59.4, and a column marks them",
        "'seen': dates, as days since 2021-02-01, and where in the week and in the year",
        "'patient': left out: it has a different text in every row, as names and identifiers have",
    ]
    table = hospitals().drop(columns="stay")
    out = encoder.transform(table)
    assert list(out.columns) == encoder.get_feature_names_out().tolist()
    assert out["hospital"].tolist() == table["hospital"].tolist()
    assert out["sex=m"].tolist() == (table["sex"] == "m").astype(float).tolist()
    one_hot = out[["ward=a", "ward=b", "ward=c", "ward=(missing)"]].to_numpy()
    np.testing.assert_array_equal(one_hot, np.tile(np.eye(4), (N // 4, 1)))
    assert out["age missing"].tolist() == table["age"].isna().astype(float).tolist()
    assert out["age"][0] == np.nanmedian(table["age"])
    np.testing.assert_array_equal(out["seen (days)"], 20.0 * np.arange(N))
    angle = 2 * np.pi * (table["seen"] - pd.Timestamp("1970-01-01")).dt.days / 365.2425
    np.testing.assert_allclose(out["seen (year, cosine)"], np.cos(angle), atol=1e-12)


def test_every_frame_library_and_form_gives_the_same_numbers():
    table = hospitals().drop(columns=["stay", "patient"])
    want = borrow.TableEncoder("hospital").fit_transform(table).drop(columns="hospital").to_numpy(dtype=float)
    for other in (pl.from_pandas(table), pl.from_pandas(table).to_arrow()):
        found = borrow.TableEncoder("hospital").fit(other)
        out = found.transform(other)
        assert type(out) is type(other)
        names = [n for n in found.get_feature_names_out() if n != "hospital"]
        rows = np.column_stack([np.asarray(out[n]) for n in names])
        np.testing.assert_allclose(rows, want, atol=1e-12)
    columns = {name: table[name].tolist() for name in table}
    found = borrow.TableEncoder("hospital").fit_transform(columns)
    np.testing.assert_allclose(np.column_stack([v for n, v in found.items() if n != "hospital"]), want, atol=1e-12)
    array = table[["sex", "ward"]].to_numpy()
    np.testing.assert_array_equal(borrow.TableEncoder().fit_transform(array), want[:, :5])


DECISIONS = {
    "numbers": ([1.5, 2.0, 3.0], Numbers("c", 2.0, 0)),
    "truth": ([True, False, True], Numbers("c", 1.0, 0)),
    "written numbers": (["1", "2.5", "", "4"], Numbers("c", 2.5, 1)),
    "levels": (["u", "v", "u", "v"], Levels("c", ("u", "v"))),
    "rare levels": ([*"aabbccde"] * 2, Levels("c", ("a", "b", "c"), ("d", "e"))),
    "one level": (["u", "u", "u"], Dropped("c", "it is 'u' in every row")),
    "nothing": ([None, None], Dropped("c", "it holds no value")),
    "months": (["2020-01", "2020-03", "2020-03"], Dates("c", 60.0, 0, 18262.0, (), zoned=False)),
    "points": (["01.02.2020", "03.02.2020", None], Dates("c", 1.0, 1, 18293.0, (), True, False)),
    "month first": (["02/01/2020", "02/13/2020"], Dates("c", 6.0, 0, 18293.0, (), False, False)),
    "time zone": (["2020-01-01T00:00+01:00", "2020-01-02T23:00Z"], Dates("c", 1.0, 0, 18261 + 23 / 24, (), zoned=True)),
    "objects": ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 3)], Dates("c", 1.0, 0, 18262.0, (), zoned=False)),
    "one date": ([datetime.date(2020, 1, 1)] * 2, Dropped("c", "it is one date in every row")),
    "spans": ([datetime.timedelta(hours=36), datetime.timedelta(0)], Numbers("c", 0.75, 0)),
    "times of day": ([datetime.time(6, 30), datetime.time(8, 30)], Times("c", 7.5, 0, False)),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_decisions(case):
    values, want = DECISIONS[case]
    assert decide("c", values, max_levels=4) == want


def test_cycles_are_taken_where_dates_go_round_them_nearly_twice():
    def cycles(start, periods, freq):
        return decide("c", pd.date_range(start, periods=periods, freq=freq)).cycles

    assert cycles("2020-01-06", 104, "7D") == ("year",)  # always a Monday
    assert cycles("2020-01-01", 13, "D") == ()
    assert cycles("2020-01-01", 15, "D") == ("week",)
    assert cycles("2020-01-01", 60, "h") == ("day",)
    assert cycles("2020-01-01", 3, "YS") == ()  # three points say nothing of a year


def test_order_comes_from_the_frame_or_from_the_call():
    levels = ["low", "mid", "high"]
    want = Ordered("dose", 1.0, 1, tuple(levels))
    values = ["mid", "low", None, "high"]
    assert decide("dose", pd.Series(pd.Categorical(values, levels, ordered=True))) == want
    assert decide("dose", pl.Series("dose", values, pl.Enum(levels))) == want
    encoder = borrow.TableEncoder(orders={"dose": levels}).fit({"dose": values})
    np.testing.assert_array_equal(encoder.transform({"dose": values})["dose (order)"], [1.0, 0.0, 1.0, 2.0])
    with pytest.warns(UserWarning, match=r"'dose' has 'none' in 1 row, which fit did not see; the median place"):
        assert encoder.transform({"dose": ["none"]})["dose (order)"].tolist() == [1.0]
    unordered = pd.Series(pd.Categorical([3, 1, 3, 2, 1]))
    assert decide("dose", unordered) == Levels("dose", ("1", "2", "3"))


REFUSED = {
    r"column 'c' holds free text \(30 different texts in 30 rows, such as 'patient 0 was.*leave the column out": [
        f"patient {i} was well on day {i}" for i in range(30)
    ],
    r"column 'c' holds text \('n/a' in row 2\) among numbers; correct it": ["1", "2", "n/a", "4"],
    r"column 'c' holds dates such as '01/02/2020', and nothing tells whether the day": ["01/02/2020", "03/04/2020"],
    r"column 'c' is infinite \(inf\) in row 1": [1.0, np.inf],
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_read_is_refused_in_a_sentence(message):
    with pytest.raises(ValueError, match=message):
        borrow.TableEncoder().fit({"c": REFUSED[message], "x": np.arange(len(REFUSED[message])) / 7.0})


def test_wrong_calls_are_answered_in_a_sentence():
    table = hospitals().drop(columns=["stay", "patient"])
    with pytest.raises(ValueError, match=r"'Hospital' is not a column.*did you mean 'hospital'"):
        borrow.TableEncoder("Hospital").fit(table)
    with pytest.raises(ValueError, match=r"drop names 'sexes'.*did you mean 'sex'"):
        borrow.TableEncoder(drop=["sexes"]).fit(table)
    with pytest.raises(ValueError, match="max_levels=1: expected a whole number"):
        borrow.TableEncoder(max_levels=1).fit(table)
    with pytest.raises(ValueError, match="name 'age missing' twice; rename"):
        borrow.TableEncoder().fit(table[["age"]].assign(**{"age missing": 0.5}))
    encoder = borrow.TableEncoder("hospital", drop="ward").fit(table)
    with pytest.raises(ValueError, match="X lacks 'sex'; fit saw"):
        encoder.transform(table.drop(columns="sex"))
    with pytest.raises(ValueError, match="X has the column 'bed', which fit did not see"):
        encoder.transform(table.assign(bed=1))
    with pytest.raises(ValueError, match=r"holds 'soon' in row 1 where dates \(without a time zone\) are"):
        encoder.transform(table.head(2).assign(seen=["2020-01-01", "soon"]))
    assert "ward" not in " ".join(encoder.get_feature_names_out())
    encoder.transform(table.drop(columns=["ward", "hospital"]))  # neither is needed


def test_columns_that_name_the_row_are_left_out_or_named():
    own = {"id": [f"n{i}" for i in range(12)], "number": list(range(12))}
    table = {**own, "task": ["a", "b"] * 6, "x": RNG.normal(size=12)}
    with pytest.warns(UserWarning, match=r"^column '(id|number)'") as told:
        encoder = borrow.TableEncoder("task").fit(table)
    texts = [str(w.message) for w in told]
    assert re.search("column 'id': left out: it has a different text in every row", texts[0])
    assert re.search("column 'number' has a different whole number in every row of 2 tasks; it is used", texts[1])
    assert encoder.inputs_ == ("number", "x")
    only = borrow.TableEncoder().fit({"id": table["id"]})  # the last input is never left out
    assert len(only.get_feature_names_out()) == 12


def test_a_level_or_a_gap_that_fit_did_not_see_is_named_in_a_warning():
    known = {"sex": ["m", "f"] * 3, "ward": ["a", "b", "c"] * 2, "x": [1.0, 2.0, 4.0] * 2}
    encoder = borrow.TableEncoder().fit(known)
    new = {"sex": ["x", "f"], "ward": ["q", "a"], "x": [None, 3.0]}
    with pytest.warns(UserWarning, match=r"which fit did not see|none in fit") as told:
        out = encoder.transform(new)
    said = [str(w.message) for w in told]
    assert said[0] == "column 'sex' has 'x' in 1 row, which fit did not see; it counts as between the two"
    assert said[1] == "column 'ward' has 'q' in 1 row, which fit did not see; all its columns are 0 there"
    assert said[2] == "column 'x' has a gap in row 0 and had none in fit; the median is taken"
    assert out["sex=m"].tolist() == [0.5, 0.0]
    assert [out[f"ward={v}"][0] for v in "abc"] == [0.0, 0.0, 0.0]
    assert out["x"].tolist() == [2.0, 3.0]


CELLS = st.one_of(st.none(), st.sampled_from(["u", "v", "w", "two words"]), st.booleans())
DATES = st.one_of(st.none(), st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)))
FLOATS = st.one_of(st.none(), st.floats(-1e6, 1e6))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(2, 25).flatmap(
        lambda n: st.fixed_dictionaries(
            {
                "level": st.lists(CELLS, min_size=n, max_size=n),
                "date": st.lists(DATES, min_size=n, max_size=n),
                "number": st.lists(FLOATS, min_size=n, max_size=n),
                "x": st.lists(st.floats(-10, 10), min_size=n, max_size=n),
            }
        )
    ),
    st.permutations(["level", "date", "number", "x"]),
)
def test_any_table_becomes_finite_numbers_row_by_row(table, order):
    encoder = quietly(borrow.TableEncoder().fit, table)
    out = quietly(encoder.transform, table)
    assert list(out) == encoder.get_feature_names_out().tolist()
    rows = np.column_stack(list(out.values()))
    assert np.isfinite(rows).all()
    # A row's numbers depend on that row alone, and on the names of columns rather than on their order.
    turned = {name: table[name][::-1] for name in order}
    again = quietly(encoder.transform, turned)
    np.testing.assert_array_equal(np.column_stack([again[n] for n in out])[::-1], rows)
    # Plain numbers stay as they are, and levels come back from their columns.
    np.testing.assert_array_equal(out["x"], table["x"])
    for name, column in out.items():
        if name.startswith("level=") and sum(n.startswith("level=") for n in out) > 1:
            marked = {
                str(v) if v is not None else "(missing)" for v, c in zip(table["level"], column, strict=True) if c
            }
            assert marked == {name.removeprefix("level=")}


def test_a_table_of_numbers_passes_through_unchanged():
    table = pd.DataFrame({"x": [1, 2, 4], "on": [True, False, True], "z": [0.1, 0.2, 0.3], "t": ["a", "b", "a"]})
    assert not needs_encoding({c: table[c] for c in ("x", "on", "z")})
    assert needs_encoding({"t": table["t"]})
    encoder = borrow.TableEncoder("t").fit(table)
    assert encoder.report() == ""
    np.testing.assert_array_equal(encoder.transform(table)[["x", "on", "z"]], table[["x", "on", "z"]].astype(float))


def test_the_encoder_is_a_transformer_that_clones_stores_and_stands_in_a_pipeline(tmp_path):
    table = hospitals().drop(columns="patient")
    X, y = table.drop(columns="stay"), table["stay"]
    encoder = borrow.TableEncoder("hospital", max_levels=5, orders={"sex": ["f", "m"]})
    assert clone(encoder).get_params() == encoder.get_params()
    borrow.store.save(encoder.fit(X), tmp_path / "e")
    loaded = borrow.store.load(tmp_path / "e")
    assert loaded.columns_ == encoder.columns_
    pd.testing.assert_frame_equal(loaded.transform(X), encoder.transform(X))
    model = borrow.PooledGPRegressor("hospital", optimizer=None)
    pipe = make_pipeline(borrow.TableEncoder("hospital"), model).fit(X[6:], y[6:])
    by_hand = borrow.TableEncoder("hospital").fit(X[6:])
    want = clone(model).fit(by_hand.transform(X[6:]), y[6:]).predict(by_hand.transform(X[:6]), return_std=True)
    np.testing.assert_array_equal(pipe.predict(X[:6], return_std=True), want)
    assert np.isfinite(cross_val_score(pipe, X, y, cv=2, error_score="raise")).all()


def test_compare_and_auto_encode_by_themselves_and_the_model_takes_raw_rows(tmp_path):
    table = hospitals().drop(columns="patient")
    X, y = table.drop(columns="stay"), table["stay"]
    found = borrow.compare(table, "stay", "hospital", "north", methods=["pooled"], cv=2)
    assert found.features == ["sex", "ward", "age", "seen"]
    assert found.encoding[:2] == ["'sex': two levels, 0 for 'f' and 1 for 'm'", "'ward': 4 levels, one column each"]
    model = borrow.AutoRegressor("hospital", "north", ["pooled"], cv=2).fit(X, y)
    assert model.comparison_.digest == found.digest  # the same table under the same names of columns
    for method in ("pooled", "single"):
        want = [r["mean"] for r in found.folds("north", method)]
        assert [r["mean"] for r in model.comparison_.folds("north", method)] == want
    assert model.encoder_.report().startswith("'sex': two levels")
    mine = X[X["hospital"] == "north"]
    mean, std = model.predict(mine, return_std=True)
    assert np.abs(mean - y[mine.index]).mean() < 0.2
    borrow.store.save(model, tmp_path / "m")
    loaded = borrow.store.load(tmp_path / "m")
    for other in (mine, mine[["seen", "age", "hospital", "ward", "sex"]], pl.from_pandas(mine)):
        again = loaded.predict(other, return_std=True)
        np.testing.assert_array_equal(again, (mean, std))
    np.testing.assert_array_equal(model.predict(mine.drop(columns="hospital")), mean)  # for the primary
    encoded = model.encoder_.transform(mine)
    np.testing.assert_array_equal(model.predict(encoded), mean)  # rows that are encoded already
    assert (model.noise_at(mine) > 0.0).all()
    chosen = borrow.suggest(model, mine, 2)
    assert set(chosen["sex"]) <= {"m", "f"}  # as the rows were given


def test_a_table_that_needs_no_encoding_has_the_answers_of_its_numbers():
    table = hospitals().assign(sex=lambda t: (t["sex"] == "m") * 1.0).drop(columns=["ward", "age", "seen", "patient"])
    model = borrow.AutoRegressor("hospital", "north", ["pooled"], cv=2)
    model.fit(table.drop(columns="stay"), table["stay"])
    assert model.encoder_ is None
    columns = {c: table[c].to_numpy() for c in table}
    as_dict = borrow.compare(columns, "stay", "hospital", "north", methods=["pooled"], cv=2)
    assert as_dict.digest == borrow.compare(table, "stay", "hospital", "north", methods=["pooled"], cv=2).digest


def test_constant_columns_are_named():
    table = pd.DataFrame({"x": np.linspace(0, 1, 6), "same": 3.0, "t": ["a", "b"] * 3})
    with pytest.warns(UserWarning, match="column 'same' is 3 in every row, and says nothing"):
        borrow.SingleTaskGPRegressor("t", optimizer=None).fit(table, table["x"])
    with pytest.warns(UserWarning, match="column 'same' is 3 in every row, and says nothing"):
        borrow.compare(table.assign(y=table["x"]), "y", "t", "a", methods=["pooled"], cv=2)


def test_a_time_is_told_to_the_nearest_minute_and_never_as_sixty_minutes():
    times = Times("at", 12.0, 0, False)
    assert [times.value(hours) for hours in (7.0, 7.5, 7.9999, 0.0, 23.75)] == [
        "07:00", "07:30", "08:00", "00:00", "23:45",
    ]  # fmt: skip


def test_a_model_takes_rows_as_they_were_also_where_every_column_keeps_its_name(tmp_path):
    """A unit changes what a column holds and not what it is called."""
    rng = np.random.default_rng(0)
    warm, size = rng.uniform(4.0, 20.0, 30).round(1), rng.normal(size=30)
    table = pd.DataFrame({"temp": [f"{v} °C" for v in warm], "size": size, "field": np.repeat(["a", "b"], 15)})
    y = 0.1 * warm + size
    model = read_problem(table.assign(y=y), "y", "field").fit("pooled", "a")  # as the command line fits it
    assert model.predict(table) == pytest.approx(y, abs=0.1)
    borrow.store.save(model, tmp_path / "m.borrow")
    np.testing.assert_array_equal(borrow.store.load(tmp_path / "m.borrow").predict(table), model.predict(table))
    np.testing.assert_array_equal(model.predict(table.assign(temp=warm)), model.predict(table))  # numbers as they are
    assert borrow.suggest(model, table[:3], 1, primary="a")["temp"][0] in set(table["temp"][:3])


def test_periods_of_pandas_are_dates():
    periods = pd.Series(pd.period_range("2024-01", periods=6, freq="M"))
    encoded, same = (borrow.TableEncoder().fit_transform({"month": v}) for v in (periods, periods.dt.start_time))
    assert list(encoded) == list(same)
    assert encoded["month (days)"].tolist() == same["month (days)"].tolist() == [0, 31, 60, 91, 121, 152]
    table = pd.DataFrame({"month": [*periods, *periods], "who": [*"aaaaaabbbbbb"], "x": np.arange(12) / 7.0})
    problem = read_problem(table.assign(y=table["x"] ** 2), "y", "who", time="month", features=["x", "month"])
    assert problem.times is not None
    assert np.diff(problem.times[:6]).tolist() == [31, 29, 31, 30, 31]
    assert problem.features[:2] == ("x", "month (days)")
