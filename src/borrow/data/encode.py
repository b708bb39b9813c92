"""Text, dates and gaps of a table as numbers: one decision per column, made in `fit`, said in words, applied again.

| column                         | becomes                                                                             |
|--------------------------------|-------------------------------------------------------------------------------------|
| numbers, truth values          | themselves                                                                          |
| numbers with gaps              | the median in the gaps, and a column that marks them                                |
| numbers with a unit (5 %, $3)  | the numbers; decimal commas are read where they can be nothing else                 |
| two levels of text             | one column, 0 and 1                                                                 |
| more levels                    | one column each; the rarest share one where there are more than `max_levels`        |
| ordered levels                 | their place in the order, from 0; low, medium, high and their like have one         |
| dates and times                | days since the first; sine and cosine of day, week or year where these come round   |
| times of day                   | hours; sine and cosine of the day where they are more than half a day apart         |
| a different text in every row  | nothing: it names the row                                                           |

Gaps among levels are a level. Free text is refused: nothing here reads it.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np

from borrow.data.labels import list_labels
from borrow.data.plain import is_missing, name_some, to_floats
from borrow.data.written import (
    Units,
    are_times,
    day_first,
    looks_like_dates,
    read_date,
    read_time,
    scale_of,
    units_of,
)
from borrow.numerics.warned import warn

if TYPE_CHECKING:  # which loads SciPy, and `borrow info` needs none
    from borrow.numerics.linalg import Array

#: Levels that have a column each; where there are more, the rarest share the last one.
MOST_LEVELS = 20
#: From so many characters or words a text is written for people, on average over a column.
LONG, WORDY = 40, 5
#: Cycles in days, and the part of each whose distinct values show that the dates go round it.
CYCLES = {"day": (1.0, 1.0 / 24.0), "week": (7.0, 1.0), "year": (365.2425, 30.44)}
#: A cycle is taken where the dates span nearly two of it and fall on at least so many parts of it.
SPANNED, PARTS = 1.9, 4
#: The two columns of a cycle; times of day go round it where they are so many hours apart.
WAYS = {"sine": np.sin, "cosine": np.cos}
HALF_A_DAY = 12.0
#: What stands for no value where levels are listed.
MISSING = "(missing)"
#: The reason for leaving out a column that `drop` names.
AS_ASKED = "as asked"

_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class Decision(ABC):
    """What a column becomes; as it is, unless a kind says otherwise. Abstract."""

    name: Hashable

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it becomes."""
        return (str(self.name),)

    @abstractmethod
    def encode(self, values: Any) -> Array:
        """Rows by columns of numbers."""

    def sentence(self) -> str:
        """The decision in words; nothing where the column stays as it is."""
        return ""

    def written(self, numbers: Array) -> str:
        """What stood in the column, from the numbers of one row that it became."""
        return f"{numbers[0]:.4g}"


@dataclass(frozen=True)
class Filled(Decision):
    """Some kind of number: gaps get the median, and a column that marks them where `fit` saw some. Abstract."""

    fill: float
    gaps: int

    def marked(self, *names: str) -> tuple[str, ...]:
        """These names, and that of the column which marks gaps."""
        return (*names, *([f"{self.name} missing"] if self.gaps else []))

    def filled(self, found: Array, told: bool = False) -> Array:
        """Gaps filled, beside a column that marks them; a gap where `fit` saw none is warned of."""
        gaps = np.isnan(found)
        if gaps.any() and not self.gaps and not told:
            rows = name_some(np.flatnonzero(gaps).tolist())
            warn(f"column {self.name!r} has a gap in {rows} and had none in fit; the median is taken")
        filled = np.where(gaps, self.fill, found)
        return np.column_stack([filled, gaps]) if self.gaps else filled[:, None]

    def written(self, numbers: Array) -> str:
        """What stood there, or that nothing did."""
        return MISSING if self.gaps and numbers[-1] else self.value(float(numbers[0]))

    def value(self, number: float) -> str:
        """A number as it may have been written."""
        return f"{number:.4g}"

    def told(self, before: str = "", value: str = "") -> str:
        """What became of the gaps, where there were some."""
        has = "gaps have" if self.gaps > 1 else "gap has"
        return f"{before}{self.gaps:,} {has} the median{value}, and a column marks them" if self.gaps else ""


@dataclass(frozen=True)
class Numbers(Filled):
    """A column of numbers, taken as they are; gaps have the median, and a column of their own marks them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The column itself, and the one that marks its gaps."""
        return self.marked(str(self.name))

    def encode(self, values: Any) -> Array:
        """The column as numbers, gaps filled."""
        return self.filled(as_floats(values, self.name))

    def sentence(self) -> str:
        """How many gaps there were."""
        return self.told(value=f" {self.fill:.4g}")


@dataclass(frozen=True)
class Measured(Filled):
    """Numbers that are written with a unit or with decimal commas; numbers themselves are taken to be in the unit."""

    units: Units

    @property
    def names(self) -> tuple[str, ...]:
        """The column itself, and the one that marks its gaps."""
        return self.marked(str(self.name))

    def encode(self, values: Any) -> Array:
        """The column as numbers in its unit, gaps filled."""
        return self.filled(_measures(values, self.name, self.units))

    def value(self, number: float) -> str:
        """A number and the unit, as the column writes it."""
        return f"{self.units.before}{number:.4g} {self.units.after}".strip()

    def sentence(self) -> str:
        """How they are written, and how many gaps there were."""
        return f"numbers with {self.units}{self.told('; ', f' {self.fill:.4g}')}"


@dataclass(frozen=True)
class Times(Filled):
    """Times of day: hours since midnight, and where in the day they are where they go round it."""

    round: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Hours, the cycle, and the column that marks gaps."""
        turns = [f"{self.name} (day, {way})" for way in WAYS if self.round]
        return self.marked(f"{self.name} (hours)", *turns)

    def encode(self, values: Any) -> Array:
        """Hours, and sine and cosine of the day."""
        filled = self.filled(_hours(values, self.name))
        turns = [way(2.0 * np.pi * filled[:, 0] / 24.0) for way in WAYS.values() if self.round]
        return np.column_stack([filled[:, 0], *turns, *filled.T[1:]])

    def value(self, number: float) -> str:
        """A time of day as hours and minutes, to the nearest minute."""
        minutes = round(60.0 * number)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"

    def sentence(self) -> str:
        """Whether the day is a cycle."""
        return f"times of day, as hours{', and where in the day' if self.round else ''}{self.told('; ')}"


@dataclass(frozen=True)
class Levels(Decision):
    """Text of few levels. Two of them are one column; `rare` ones share the last column."""

    levels: tuple[str, ...]
    rare: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """One column per level."""
        shown = [f"{self.name}={v}" for v in self.levels]
        if self._two:
            return (shown[1],)
        return (*shown, f"{self.name}=(other)") if self.rare else tuple(shown)

    @property
    def _two(self) -> bool:
        return len(self.levels) == 2 and not self.rare

    def encode(self, values: Any) -> Array:
        """0 and 1; a level that `fit` did not see is 0 in every column, and between the two where there is one."""
        place = {v: i for i, v in enumerate(self.levels)} | dict.fromkeys(self.rare, len(self.levels))
        codes = np.array([place.get(v, -1) for v in read_levels(values)], dtype=np.intp)
        _warn_unseen(
            self.name,
            read_levels(values),
            place,
            "it counts as between the two" if self._two else "all its columns are 0 there",
        )
        if self._two:
            return np.where(codes < 0, 0.5, codes)[:, None]
        return (codes[:, None] == np.arange(len(self.names))).astype(float)

    def written(self, numbers: Array) -> str:
        """The level that a row has, or that it is one of the others."""
        at = round(float(numbers[0])) if self._two else int(np.argmax(numbers))
        return self.levels[at] if at < len(self.levels) else "(other)"

    def sentence(self) -> str:
        """How many levels, and what becomes of them."""
        if self._two:
            return f"two levels, 0 for {self.levels[0]!r} and 1 for {self.levels[1]!r}"
        if not self.rare:
            return f"{len(self.levels)} levels, one column each"
        some = f"{len(self.levels) + len(self.rare)} levels, one column each for the {len(self.levels)} most frequent"
        return f"{some}, one for the other {len(self.rare)}"


@dataclass(frozen=True)
class Ordered(Filled):
    """Levels that have an order: their place in it."""

    levels: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The place, and the column that marks gaps."""
        return self.marked(f"{self.name} (order)")

    def encode(self, values: Any) -> Array:
        """Every level's place in the order, from 0; gaps and levels never seen have the median place."""
        place = {v: float(i) for i, v in enumerate(self.levels)}
        found = read_levels(values)
        _warn_unseen(self.name, [v for v in found if v != MISSING], place, "the median place is taken")
        return self.filled(np.array([place.get(v, np.nan) for v in found]), told=True)

    def value(self, number: float) -> str:
        """The level at a place."""
        return self.levels[round(number)]

    def sentence(self) -> str:
        """The ends of the order."""
        last = len(self.levels) - 1
        ends = f"from 0 for {self.levels[0]!r} to {last} for {self.levels[last]!r}"
        return f"ordered levels, {ends}{self.told('; ')}"


@dataclass(frozen=True)
class Dates(Filled):
    """Dates or times: days since the first, and where they stand in the cycles that they go round."""

    origin: float  # days since 1970
    cycles: tuple[str, ...]
    day_first: bool | None = None  # of text such as 31/12/2020

    @property
    def names(self) -> tuple[str, ...]:
        """Days, two columns per cycle, and the column that marks gaps."""
        turns = [f"{self.name} ({cycle}, {way})" for cycle in self.cycles for way in WAYS]
        return self.marked(f"{self.name} (days)", *turns)

    def encode(self, values: Any) -> Array:
        """Days since the first date of `fit`, and the cycles."""
        filled = self.filled(_days(values, self.name, self.day_first) - self.origin)
        angles = [2.0 * np.pi * (filled[:, 0] + self.origin) / CYCLES[cycle][0] for cycle in self.cycles]
        turns = [way(angle) for angle in angles for way in WAYS.values()]
        return np.column_stack([filled[:, 0], *turns, *filled.T[1:]])

    def value(self, number: float) -> str:
        """The date, with its time where it has one."""
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=round((number + self.origin) * 1440.0) / 1440.0)
        return at.isoformat(" ", "minutes").removesuffix(" 00:00")

    def sentence(self) -> str:
        """From when, and which cycles."""
        first = _EPOCH + datetime.timedelta(days=int(np.floor(self.origin)))
        round_them = f", and where in the {' and in the '.join(self.cycles)}" if self.cycles else ""
        return f"dates, as days since {first}{round_them}{self.told('; ')}"


@dataclass(frozen=True)
class LeftOut(Decision):
    """A column that is not used."""

    why: str

    @property
    def names(self) -> tuple[str, ...]:
        """A column that is left out becomes no column."""
        return ()

    def encode(self, values: Any) -> Array:
        """As many rows, and no columns."""
        return np.empty((len(values), 0))

    def sentence(self) -> str:
        """The reason why it is left out."""
        return f"left out: {self.why}"


@dataclass(frozen=True)
class TaskColumn(Decision):
    """The column that names the task: it stays as it is."""

    def encode(self, values: Any) -> Any:
        """The labels as they are."""
        out = np.empty((len(values), 1), dtype=object)
        out[:, 0] = plain_list(values)
        return out


def read_days(values: Any, name: Hashable) -> Array:
    """A column of dates as days since 1970, NaN in gaps, however they are written."""
    texts = [v.strip() for v in plain_list(values) if isinstance(v, str) and v.strip()]
    return _days(values, name, day_first(name, texts))


def said(decision: Decision) -> str:
    """A column and what becomes of it."""
    return f"{decision.name!r}: {decision.sentence()}"


def needs_encoding(columns: Mapping[Hashable, Any]) -> bool:
    """Whether some of these columns is more than numbers without gaps; what is no number and no level is for others."""

    def plain(values: Any) -> bool:
        found = _floats(values)
        if found is not None:
            return not np.isnan(found).any()
        return all(not is_missing(v) and (isinstance(v, int) or _is_number(v)) for v in plain_list(values))

    return not all(plain(values) for values in columns.values())


def decide(name: Hashable, values: Any, order: Sequence[Any] | None = None, max_levels: int = MOST_LEVELS) -> Decision:
    """What becomes of a column, from what it holds."""
    order = _own_order(values) if order is None else order
    if order is not None:
        return _ordered_of(name, values, tuple(map(str, order)))
    series = _series(values)
    if series is not None and series.dtype in (nw.Categorical, nw.Enum):
        return decide_levels(name, values, max_levels)
    stored = _floats(values)
    if stored is not None and np.isfinite(stored).any():
        return _numbers_of(name, values)
    entries = [v for v in plain_list(values) if not is_missing(v) and not (isinstance(v, str) and not v.strip())]
    if not entries:
        return LeftOut(name, "it holds no value")
    text = [v for v in entries if isinstance(v, str)]
    if not text:
        if all(isinstance(v, (datetime.date, np.datetime64)) for v in entries):
            return _dates_of(name, values, None)
        if all(isinstance(v, datetime.time) for v in entries):
            return _times_of(name, values)
        return _numbers_of(name, values)
    return _of_text(name, values, entries, max_levels)


def _of_text(name: Hashable, values: Any, entries: list[Any], max_levels: int) -> Decision:
    """Text: numbers that were written out, dates, levels, or what only names the row."""
    numeric = [_is_number(v) and not isinstance(v, bool) for v in entries]
    if all(numeric):
        return _numbers_of(name, values)
    if sum(numeric) >= len(entries) / 2:
        odd = entries[numeric.index(False)]
        row = plain_list(values).index(odd)
        raise ValueError(
            f"column {name!r} holds text ({odd!r} in row {row}) among numbers; correct it, or leave it empty where "
            "nothing is known"
        )
    texts = [str(v).strip() for v in entries]
    if looks_like_dates(texts):
        return _dates_of(name, values, day_first(name, texts))
    if are_times(texts):
        return _times_of(name, values)
    if (units := units_of(name, texts)) is not None:
        return _measured_of(name, values, units)
    distinct = Counter(texts)
    if len(distinct) == 1:
        return LeftOut(name, f"it is {texts[0]!r} in every row" + (" that has one" if len(texts) < len(values) else ""))
    if (scale := scale_of(distinct)) is not None:
        return _ordered_of(name, values, scale)
    if len(distinct) > max(max_levels, len(texts) / 2) or len(distinct) == len(texts):
        length, words = (sum(map(f, texts)) / len(texts) for f in (len, lambda v: len(v.split())))
        if length >= LONG or words >= WORDY:
            example = texts[0] if len(texts[0]) < LONG else f"{texts[0][: LONG - 4]}..."
            raise ValueError(
                f"column {name!r} holds free text ({len(distinct):,} different texts in {len(texts):,} rows, such as "
                f"{example!r}), which is not read; leave the column out, or make numbers or levels of it first"
            )
        every = "every row" if len(distinct) == len(texts) else "most rows"
        return LeftOut(name, f"it has a different text in {every}, as names and identifiers have")
    return decide_levels(name, values, max_levels)


def _numbers_of(name: Hashable, values: Any) -> Numbers:
    """Numbers, their median, and how many are missing."""
    found = as_floats(values, name)
    return Numbers(name, float(np.nanmedian(found)), int(np.isnan(found).sum()))


def _measured_of(name: Hashable, values: Any, units: Units) -> Measured:
    """Numbers with a unit, their median, and how many are missing."""
    found = _measures(values, name, units)
    return Measured(name, float(np.nanmedian(found)), int(np.isnan(found).sum()), units)


def _times_of(name: Hashable, values: Any) -> Decision:
    """Hours, and whether they go round the day."""
    found = _hours(values, name)
    known = found[np.isfinite(found)]
    if np.ptp(known) == 0.0:
        return LeftOut(name, "it is one time in every row")
    median, gaps = float(np.median(known)), len(found) - len(known)
    return Times(name, median, gaps, bool(np.ptp(known) > HALF_A_DAY))


def decide_levels(name: Hashable, values: Any, max_levels: int) -> Levels:
    """The levels in the order of their letters, gaps last."""
    counts = Counter(read_levels(values))
    kept = sorted(counts, key=lambda v: (-counts[v], v))
    rare = kept[max_levels - 1 :] if len(kept) > max_levels else []
    kept = [v for v in kept if v not in rare]
    own = sorted(v for v in kept if v != MISSING)
    return Levels(name, (*own, *([MISSING] if MISSING in kept else [])), tuple(sorted(rare)))


def _ordered_of(name: Hashable, values: Any, levels: tuple[str, ...]) -> Decision:
    """A column of levels as their places in the order given."""
    place = {v: i for i, v in enumerate(levels)}
    found = [v for v in read_levels(values) if v != MISSING]
    if unknown := sorted({v for v in found if v not in place}):
        raise ValueError(
            f"column {name!r} holds {list_labels(unknown)}; its order has the levels {list_labels(levels)}"
        )
    if not found:
        return LeftOut(name, "it holds no value")
    return Ordered(name, float(np.median([place[v] for v in found])), len(values) - len(found), levels)


def _dates_of(name: Hashable, values: Any, day_first: bool | None) -> Decision:
    """Days since the first, and the cycles that the dates go round."""
    days = _days(values, name, day_first)
    known = days[np.isfinite(days)]
    if np.ptp(known) == 0.0:
        return LeftOut(name, "it is one date in every row")
    cycles = tuple(
        cycle
        for cycle, (period, part) in CYCLES.items()
        if np.ptp(known) >= SPANNED * period and len(np.unique(np.floor(known % period / part))) >= PARTS
    )
    origin = float(known.min())
    return Dates(name, float(np.median(known)) - origin, len(days) - len(known), origin, cycles, day_first)


def _series(values: Any) -> Any:
    """A column of a frame as such; None for a list or an array."""
    found = nw.from_native(values, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def plain_list(values: Any) -> list[Any]:
    """The entries of a column; dates of NumPy stay NumPy's."""
    series = _series(values)
    if series is not None:
        return list(series.to_list())
    array = np.asarray(values)
    return list(array) if array.dtype.kind in "mM" else list(array.tolist())


def as_floats(values: Any, name: Hashable) -> Array:
    """A column as floats, NaN in gaps; spans of time in days."""
    found = _floats(values)
    if found is None:
        found = to_floats(np.array([_as_number(v) for v in plain_list(values)], dtype=object), f"column {name!r}")
    if np.isinf(found).any():
        raise ValueError(f"column {name!r} is infinite (inf) in {name_some(np.flatnonzero(np.isinf(found)).tolist())}")
    return found


def _floats(values: Any) -> Array | None:
    """A column that is stored as numbers, as floats; None where it is stored otherwise."""
    series = _series(values)
    if series is not None and not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        return None
    array = np.asarray(series.to_numpy() if series is not None else values)
    return array.astype(float) if array.dtype.kind in "iubf" else None


def _as_number(value: Any) -> Any:
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(days=1)
    if isinstance(value, np.timedelta64):
        return value / np.timedelta64(1, "D")
    return value


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def read_levels(values: Any) -> list[str]:
    """Entries as text, without blanks around it."""
    out = [MISSING if is_missing(v) else str(v).strip() for v in plain_list(values)]
    return [v or MISSING for v in out]


def _own_order(values: Any) -> Sequence[Any] | None:
    """The levels of an ordered categorical of pandas, or of an enumeration of polars, in their order."""
    series = _series(values)
    dtype: Any = getattr(None if series is None else series.to_native(), "dtype", None)
    if getattr(dtype, "ordered", None) is True or type(dtype).__name__ == "Enum":
        return list(dtype.categories)
    return None


def _each(values: Any, name: Hashable, read: Callable[[Any], float], expected: str) -> Array:
    """The entries of a column as numbers, NaN in gaps; each distinct one is read once."""
    entries = plain_list(values)
    found: dict[Any, float] = {}
    for i, value in enumerate(entries):
        if isinstance(value, Hashable) and value not in found:
            text = value.strip() if isinstance(value, str) else value
            try:
                found[value] = float("nan") if is_missing(text) or text == "" else read(text)
            except (ValueError, TypeError, AttributeError):
                raise ValueError(f"column {name!r} holds {value!r} in row {i} where {expected} are expected") from None
    return np.array([found[v] for v in entries], dtype=float)


def _measures(values: Any, name: Hashable, units: Units) -> Array:
    """Numbers with a unit as floats."""
    return _each(values, name, lambda v: units.read(v) if isinstance(v, str) else float(v), f"numbers with {units}")


def _hours(values: Any, name: Hashable) -> Array:
    """Times of day as hours since midnight."""

    def hours(value: Any) -> float:
        if isinstance(value, str):
            return read_time(value)
        return float(value.hour + value.minute / 60.0 + (value.second + 1e-6 * value.microsecond) / 3600.0)

    return _each(values, name, hours, "times of day")


def _days(values: Any, name: Hashable, day_first: bool | None) -> Array:
    """Dates as days since 1970."""

    def days(value: Any) -> float:
        if isinstance(value, np.datetime64):
            return float((value - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
        if isinstance(value, str):
            value = read_date(value, day_first)
        if isinstance(value, datetime.datetime):
            clock = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
            return (clock - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)
        return float((value - _EPOCH).days)

    return _each(values, name, days, "dates")


def _warn_unseen(name: Hashable, found: list[str], known: Mapping[str, Any], what: str) -> None:
    unseen = Counter(v for v in found if v not in known)
    if unseen:
        listed = list_labels(list(unseen), 6)
        rows = f"{sum(unseen.values()):,} row{'s' if sum(unseen.values()) > 1 else ''}"
        warn(f"column {name!r} has {listed} in {rows}, which fit did not see; {what}")
