"""Dates, times, units and scales as people write them: what is read, what is asked about, what is left alone."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import borrow
from borrow.data.encode import Dropped, Levels, Ordered, Times, WithUnits, decide
from borrow.data.written import Units, are_times, day_first, looks_like_dates, read_date, read_time, scale_of

AT = datetime.datetime

DATES = {
    "2024-12-31": AT(2024, 12, 31),
    "2024-1-5": AT(2024, 1, 5),
    "2024/01/05": AT(2024, 1, 5),
    "2024-W05": AT(2024, 1, 29),
    "2024-W05-3": AT(2024, 1, 31),
    "31.12.2024 14:30": AT(2024, 12, 31, 14, 30),
    "31/12/2024, 2:30 PM": AT(2024, 12, 31, 14, 30),
    "31.12.2024 12:05:30 a.m.": AT(2024, 12, 31, 0, 5, 30),
    "5 May 2023": AT(2023, 5, 5),
    "12-Mar-2021": AT(2021, 3, 12),
    "3. März 2021": AT(2021, 3, 3),
    "March 12th, 2021": AT(2021, 3, 12),
    "Dez 2020": AT(2020, 12, 1),
}


@pytest.mark.parametrize("text", DATES)
def test_dates_as_people_write_them(text):
    assert looks_like_dates([text])
    assert read_date(text, day_first("c", [text])) == DATES[text]


def test_what_is_no_date_is_none():
    for text in ("1.0.12", "12:30", "Room 2024", "May", "31.12.24", "Marble 2020", "2024", "31.12.2024 noon"):
        assert not looks_like_dates([text]), text
    assert day_first("c", ["12/31/2024 1:00 PM"]) is False
    with pytest.raises(ValueError, match="nothing tells whether the day or the month"):
        day_first("c", ["01/02/2020 10:00", "03/04/2020 11:00"])
    with pytest.raises(ValueError, match="such as '12/31/24', whose year has two digits; write 2020-12-31"):
        decide("c", ["12/31/24", "12/30/24"])
    with pytest.raises(ValueError, match="'31 Feb 2020' in row 1 where dates "):
        decide("c", ["1 Feb 2020", "31 Feb 2020"])


def test_dates_with_a_time_zone_and_without_are_not_mixed():
    aware, naive = ["2020-01-01T10:00+01:00", "2020-01-02T10:00Z"], ["2020-01-01T10:00", "2020-01-02"]
    utc = datetime.datetime(2020, 1, 1, 9, tzinfo=datetime.UTC)
    for fitted, good, bad in (
        (decide("c", aware), utc, naive[0]),
        (decide("c", naive), utc.replace(tzinfo=None), aware[0]),
        (decide("c", [utc, utc + datetime.timedelta(days=1)]), aware[0], np.datetime64("2020-01-01")),
    ):
        assert fitted.read([good])[0] == 0.0 if fitted.zoned else -1 / 24
        with pytest.raises(ValueError, match="dates with a time zone are" if fitted.zoned else "without a time zone"):
            fitted.read([good, bad])
    with pytest.raises(ValueError, match="holds '2020-01-01T10:00' in row 1 where dates with a time zone are expected"):
        decide("c", [aware[0], naive[0]])


def test_times_of_day_are_hours_and_a_cycle_where_they_go_round_it():
    assert [read_time(v) for v in ("08:15", "12:00 AM", "12:30 pm", "1:00:36 PM", "24:00")] == [
        8.25, 0.0, 12.5, 13.01, 24.0,
    ]  # fmt: skip
    assert not are_times(["25:00"])
    assert not are_times(["8:75"])
    assert decide("t", ["08:00", "", "10:00"]) == Times("t", 9.0, 1, False)
    night = decide("t", ["23:30", "00:30", "12:00"])
    assert night.names == ("t (hours)", "t (day, sine)", "t (day, cosine)")
    late, early, noon = night.encode(["23:30", "00:30", "12:00"])
    assert np.hypot(*(late - early)[1:]) < 0.3 < np.hypot(*(late - noon)[1:])
    assert decide("t", ["08:00", "08:00"]) == Dropped("t", "it is one time in every row")
    with pytest.raises(ValueError, match="holds 'noon' in row 1 where times of day are expected"):
        night.encode(["08:00", "noon"])


UNITS = {
    "per cent": (["43.5%", "7 %", "0%"], Units("", "%"), [43.5, 7.0, 0.0]),
    "money": (["$6.25", "-$4", "$-3"], Units("$", ""), [6.25, -4.0, -3.0]),
    "commas": (["841,37 €", "9,5 €", "10 €"], Units("", "€", True), [841.37, 9.5, 10.0]),
    "words": (["5 kg", "6kg", "7.5 kg"], Units("", "kg"), [5.0, 6.0, 7.5]),
    "commas alone": (["1,5", "2,25", "3"], Units("", "", True), [1.5, 2.25, 3.0]),
    "one of them no thousand": (["1,500", "2,5", "3"], Units("", "", True), [1.5, 2.5, 3.0]),
}


@pytest.mark.parametrize("case", UNITS)
def test_numbers_with_a_unit_are_numbers(case):
    texts, units, want = UNITS[case]
    decision = decide("c", texts)
    assert isinstance(decision, WithUnits)
    assert decision.units == units
    np.testing.assert_array_equal(decision.encode(texts)[:, 0], want)
    np.testing.assert_array_equal(decision.encode([1.5, 2.0])[:, 0], [1.5, 2.0])  # numbers: in the unit


def test_what_only_looks_like_a_unit_stays_text():
    assert decide("c", ["P1", "P2", "P3"]) == Dropped(
        "c", "it has a different text in every row, as names and identifiers have"
    )
    assert decide("c", ["12A", "13B", "12A", "13B"]) == Levels("c", ("12A", "13B"))
    assert decide("c", ["shop 1", "shop 2", "shop 1"]) == Levels("c", ("shop 1", "shop 2"))
    assert decide("c", ["5 kg", "300 g"] * 2) == Levels("c", ("300 g", "5 kg"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["$1,234.50", "$2.00"], r"'\$1,234.50': a separator of thousands is not read; write plain numbers"),
        (["1,234 €", "10 €"], "'1,234 €', whose comma may separate thousands or be decimal"),
        (["5 %", "6 %", "few"], "holds 'few' among numbers with '%'; correct it, or leave it empty"),
    ],
)
def test_numbers_that_may_be_read_in_two_ways_are_asked_about(texts, message):
    with pytest.raises(ValueError, match=message):
        decide("c", texts)


def test_a_unit_that_is_missing_in_new_rows_is_an_error():
    with pytest.raises(ValueError, match="holds '7' in row 1 where numbers with '%' are expected"):
        decide("c", ["5 %", "6 %"]).encode(["5 %", "7"])


def test_scales_have_their_order():
    assert decide("c", ["High", "Low", "medium", None]) == Ordered("c", 1.0, 1, ("Low", "medium", "High"))
    assert scale_of(["agree", "strongly agree", "neutral"]) == ("neutral", "agree", "strongly agree")
    assert scale_of(["60+", "18-29", "<18", "30-44"]) == ("<18", "18-29", "30-44", "60+")
    assert scale_of(["L", "S", "XL"]) == ("S", "L", "XL")
    assert scale_of(["low", "high"]) is None  # two levels are one column anyway
    assert scale_of(["low", "mid", "medium"]) is None  # two words for one place


def test_counts_whose_last_is_open_are_an_order_and_other_text_among_numbers_a_slip():
    found = decide("children", ["1", "0", "3+", "2", "0", None])
    assert found == Ordered("children", 1.0, 1, ("0", "1", "2", "3+"))
    assert found.encode(["3+", "0"])[:, 0].tolist() == [3.0, 0.0]
    assert decide("children", [0, 1, 2, "3+"]).levels == ("0", "1", "2", "3+")
    for other in (["1", "5", "8", "9+"], ["0.5", "1", "2+"], ["0", "1", "2", "x+"], ["1", "2+", "3"]):
        with pytest.raises(ValueError, match="holds text"):
            decide("c", other)
    assert scale_of(["a", "b", "c"]) is None
    assert scale_of(["low", "high", "blue"]) is None


def test_every_kind_goes_through_a_model_and_its_file(tmp_path):
    rng = np.random.default_rng(0)
    n = 24
    table = pd.DataFrame(
        {
            "site": ["a", "b"] * (n // 2),
            "share": [f"{v:.1f} %" for v in rng.uniform(0, 100, n)],
            "start": [f"{h:02d}:30" for h in rng.integers(0, 24, n)],
            "pain": rng.choice(["mild", "moderate", "severe"], n),
        }
    )
    y = np.array([float(v[:-2]) for v in table["share"]]) / 50 + rng.normal(0, 0.05, n)
    model = borrow.AutoRegressor("site", "a", ["pooled"], cv=2).fit(table, y)
    assert model.encoder_.report().splitlines() == [
        "'share': numbers with '%'",
        "'start': times of day, as hours, and where in the day",
        "'pain': ordered levels, from 0 for 'mild' to 2 for 'severe'",
    ]
    borrow.store.save(model, tmp_path / "m")
    np.testing.assert_array_equal(
        borrow.store.load(tmp_path / "m").predict(pl.from_pandas(table)), model.predict(table)
    )


def test_a_row_in_words_is_what_stood_in_the_table():
    table = {
        "when": ["2024-03-01 16:30", "2024-03-02", "2024-03-07"],
        "start": ["08:05", "", "23:59"],
        "pain": ["mild", "severe", "moderate"],
        "ward": ["a", "b", "a"],
        "dose": ["5 mg", "7.5 mg", "6 mg"],
        "x": [1.25, 3.0, 2.0],
    }
    encoder = borrow.TableEncoder().fit(table)
    numbers = np.column_stack(list(encoder.transform(table).values()))
    for i, row in enumerate(numbers):
        want = {name: str(values[i] or "(missing)") for name, values in table.items()}
        assert encoder.written(row) == want | {"x": f"{table['x'][i]:.4g}"}
