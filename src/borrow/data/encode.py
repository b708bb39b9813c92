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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import narwhals.stable.v1 as nw
import numpy as np

from borrow.data.labels import counted, list_labels
from borrow.data.plain import is_missing, name_some, to_floats
from borrow.data.written import (
    Units,
    are_times,
    day_first,
    has_zone,
    is_open_count,
    looks_like_dates,
    read_date,
    read_time,
    scale_of,
    units_of,
)
from borrow.numerics.stored import stored
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
#: The reasons for leaving out a column that `drop` names, and one that is empty.
AS_ASKED, NO_VALUE = "as asked", "it holds no value"

_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class Decision(ABC):
    """What a column becomes; as it is, unless a kind says otherwise. Inputs are numeric or `Levels`. Abstract."""

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


@dataclass(frozen=True)
class NumericColumn(Decision):
    """Some kind of number: gaps get the median, and a column that marks them where `fit` saw some. Abstract.

    A kind says how its entries are read, what they are in words, and which cycles they go round.
    """

    fill: float = np.nan
    gaps: int = 0

    #: What the name of a column ends with that holds something else than stood there.
    ending: ClassVar[str] = ""
    #: The word for an entry, where a column that has the same one in every row is left out.
    entry: ClassVar[str] = ""
    warns_of_gaps: ClassVar[bool] = True

    @abstractmethod
    def read(self, values: Any) -> Array:
        """The entries as numbers, NaN in gaps."""

    def words(self) -> str:
        """What the entries are; nothing for plain numbers."""
        return ""

    def periods(self) -> dict[str, tuple[float, float]]:
        """Where the numbers start in each cycle that they go round, and how long it is."""
        return {}

    def value(self, number: float) -> str:
        """A number as it may have been written."""
        return f"{number:.4g}"

    def learnt(self, known: Array) -> dict[str, Any]:
        """What a kind keeps of the numbers that it is fitted to, beside their median."""
        return {}

    def fitted(self, values: Any) -> Decision:
        """The same decision with the median of these values for gaps; a column that says nothing is left out."""
        found = self.read(values)
        known = found[~np.isnan(found)]
        if not len(known):
            return Dropped(self.name, NO_VALUE)
        if self.entry and np.ptp(known) == 0.0:
            return Dropped(self.name, f"it is one {self.entry} in every row")
        median, gaps = float(np.median(known)), len(found) - len(known)
        return replace(self, **{"fill": median, "gaps": gaps, **self.learnt(known)})

    @property
    def names(self) -> tuple[str, ...]:
        """The numbers, two columns per cycle, and the column that marks gaps."""
        turns = [f"{self.name} ({cycle}, {way})" for cycle in self.periods() for way in WAYS]
        return (f"{self.name}{self.ending}", *turns, *([f"{self.name} missing"] if self.gaps else []))

    def encode(self, values: Any) -> Array:
        """Gaps filled, sine and cosine of the cycles, and a mark for gaps; one where `fit` saw none is warned of."""
        found = self.read(values)
        gaps = np.isnan(found)
        if gaps.any() and not self.gaps and self.warns_of_gaps:
            rows = name_some(np.flatnonzero(gaps).tolist())
            warn(f"column {self.name!r} has a gap in {rows} and had none in fit; the median is taken")
        filled = np.where(gaps, self.fill, found)
        angles = [2.0 * np.pi * (filled + start) / period for start, period in self.periods().values()]
        turns = [way(angle) for angle in angles for way in WAYS.values()]
        return np.column_stack([filled, *turns, *([gaps] if self.gaps else [])])

    def written(self, numbers: Array) -> str:
        """What stood in the column, or that nothing did, from the numbers of one row that it became."""
        return MISSING if self.gaps and numbers[-1] else self.value(float(numbers[0]))

    def sentence(self) -> str:
        """What the entries are, and what became of the gaps, where there were some."""
        median = "" if self.ending else f" {self.fill:.4g}"
        has = "gaps have" if self.gaps > 1 else "gap has"
        told = f"{self.gaps:,} {has} the median{median}, and a column marks them" if self.gaps else ""
        return "; ".join(part for part in (self.words(), told) if part)


@stored("numbers")
@dataclass(frozen=True)
class Numbers(NumericColumn):
    """A column of numbers, taken as they are; gaps have the median, and a column of their own marks them."""

    def read(self, values: Any) -> Array:
        """The column as it is."""
        return as_floats(values, self.name)


@stored("measured")
@dataclass(frozen=True)
class WithUnits(NumericColumn):
    """Numbers that are written with a unit or with decimal commas; numbers themselves are taken to be in the unit."""

    units: Units = field(default_factory=Units)

    def read(self, values: Any) -> Array:
        """Numbers in the unit of the column."""

        def number(value: Any) -> float:
            return self.units.read(value) if isinstance(value, str) else float(value)

        return _each(values, self.name, number, self.words())

    def words(self) -> str:
        """How they are written."""
        return f"numbers with {self.units}"

    def value(self, number: float) -> str:
        """A number and the unit, as the column writes it."""
        return f"{self.units.before}{number:.4g} {self.units.after}".strip()


@stored("times")
@dataclass(frozen=True)
class Times(NumericColumn):
    """Times of day: hours since midnight, and where in the day they are where they go round it."""

    round: bool = False

    ending = " (hours)"
    entry = "time"

    def read(self, values: Any) -> Array:
        """Hours since midnight."""

        def hours(value: Any) -> float:
            if isinstance(value, str):
                return read_time(value)
            return float(value.hour + value.minute / 60.0 + (value.second + 1e-6 * value.microsecond) / 3600.0)

        return _each(values, self.name, hours, "times of day")

    def learnt(self, known: Array) -> dict[str, Any]:
        """Whether they go round the day."""
        return {"round": bool(np.ptp(known) > HALF_A_DAY)}

    def periods(self) -> dict[str, tuple[float, float]]:
        """The day, if they go round it."""
        return {"day": (0.0, 24.0)} if self.round else {}

    def words(self) -> str:
        """Whether the day is a cycle."""
        return f"times of day, as hours{', and where in the day' if self.round else ''}"

    def value(self, number: float) -> str:
        """A time of day as hours and minutes, to the nearest minute."""
        minutes = round(60.0 * number)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"


@stored("levels")
@dataclass(frozen=True)
class Levels(Decision):
    """Text of few levels. Two of them are one column; `rare` ones share the last column."""

    levels: tuple[str, ...]
    rare: tuple[str, ...] = ()

    @property
    def known(self) -> list[str]:
        """The levels that `fit` saw, gaps aside."""
        return [v for v in (*self.levels, *self.rare) if v != MISSING]

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
        found = read_levels(values)
        codes = np.array([place.get(v, -1) for v in found], dtype=np.intp)
        what = "it counts as between the two" if self._two else "all its columns are 0 there"
        _warn_unseen(self.name, found, place, what)
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


@stored("ordered")
@dataclass(frozen=True)
class Ordered(NumericColumn):
    """Levels that have an order: their place in it."""

    levels: tuple[str, ...] = ()

    ending = " (order)"
    warns_of_gaps = False

    @property
    def known(self) -> list[str]:
        """The levels of the order."""
        return list(self.levels)

    def read(self, values: Any) -> Array:
        """Every level's place in the order, from 0; NaN in gaps and for levels that are not in it, which are named."""
        place = {v: float(i) for i, v in enumerate(self.levels)}
        found = read_levels(values)
        _warn_unseen(self.name, [v for v in found if v != MISSING], place, "the median place is taken")
        return np.array([place.get(v, np.nan) for v in found])

    def words(self) -> str:
        """The ends of the order."""
        last = len(self.levels) - 1
        return f"ordered levels, from 0 for {self.levels[0]!r} to {last} for {self.levels[last]!r}"

    def value(self, number: float) -> str:
        """The level at a place."""
        return self.levels[round(number)]


@stored("dates")
@dataclass(frozen=True)
class Dates(NumericColumn):
    """Dates or times: days since the first, and where they stand in the cycles that they go round."""

    origin: float = 0.0  # days since 1970
    cycles: tuple[str, ...] = ()
    day_first: bool | None = None  # of text such as 31/12/2020
    zoned: bool | None = None  # whether all say their time zone; None takes those that do not for universal time

    ending = " (days)"
    entry = "date"

    def read(self, values: Any) -> Array:
        """Days since the first date of `fit`; since 1970 before it."""

        def days(value: Any) -> float:
            if isinstance(value, np.datetime64) and not self.zoned:
                return float((value - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
            if isinstance(value, str):
                value = read_date(value, self.day_first)
            if self.zoned is not None and self.zoned != (getattr(value, "tzinfo", None) is not None):
                raise ValueError(value)
            if isinstance(value, datetime.datetime):
                clock = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
                return (clock - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)
            return float((value - _EPOCH).days)

        expected = {None: "dates", True: "dates with a time zone", False: "dates (without a time zone)"}[self.zoned]
        return _each(values, self.name, days, expected) - self.origin

    def learnt(self, known: Array) -> dict[str, Any]:
        """The first day, and the cycles that the dates go round."""
        cycles = tuple(
            cycle
            for cycle, (period, part) in CYCLES.items()
            if np.ptp(known) >= SPANNED * period and len(np.unique(np.floor(known % period / part))) >= PARTS
        )
        origin = float(known.min())
        return {"fill": float(np.median(known)) - origin, "origin": origin, "cycles": cycles}

    def periods(self) -> dict[str, tuple[float, float]]:
        """The cycles, which are counted from 1970."""
        return {cycle: (self.origin, CYCLES[cycle][0]) for cycle in self.cycles}

    def words(self) -> str:
        """From when, and which cycles."""
        first = _EPOCH + datetime.timedelta(days=int(np.floor(self.origin)))
        round_them = f", and where in the {' and in the '.join(self.cycles)}" if self.cycles else ""
        return f"dates, as days since {first}{round_them}"

    def value(self, number: float) -> str:
        """The date, with its time where it has one."""
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=round((number + self.origin) * 1440.0) / 1440.0)
        return at.isoformat(" ", "minutes").removesuffix(" 00:00")


@stored("left-out")
@dataclass(frozen=True)
class Dropped(Decision):
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


@stored("task-column")
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
    return Dates(name, day_first=day_first(name, texts)).read(values)


def needs_encoding(columns: Mapping[Hashable, Any]) -> bool:
    """Whether some of these columns is more than numbers without gaps; what is no number and no level is for others."""

    def plain(values: Any) -> bool:
        found = _floats(values)
        if found is not None:
            return not np.isnan(found).any()
        return all(not is_missing(v) and (isinstance(v, int) or is_number(v)) for v in plain_list(values))

    return not all(plain(values) for values in columns.values())


def decide(name: Hashable, values: Any, order: Sequence[Any] | None = None, max_levels: int = MOST_LEVELS) -> Decision:
    """What becomes of a column, from what it holds."""
    series = _series(values)
    dtype: Any = getattr(None if series is None else series.to_native(), "dtype", None)
    if order is None and (getattr(dtype, "ordered", None) is True or type(dtype).__name__ == "Enum"):
        order = list(dtype.categories)  # of an ordered categorical of pandas, or an enumeration of polars
    if order is not None:
        return _ordered_of(name, values, tuple(map(str, order)))
    if series is not None and series.dtype in (nw.Categorical, nw.Enum):
        return decide_levels(name, values, max_levels)
    numbers = _floats(values)
    if numbers is not None and np.isfinite(numbers).any():
        return Numbers(name).fitted(values)
    entries = [v for v in plain_list(values) if not is_missing(v) and not (isinstance(v, str) and not v.strip())]
    if not entries:
        return Dropped(name, NO_VALUE)
    if not any(isinstance(v, str) for v in entries):
        if all(isinstance(v, (datetime.date, np.datetime64)) for v in entries):
            return Dates(name, zoned=getattr(entries[0], "tzinfo", None) is not None).fitted(values)
        if all(isinstance(v, datetime.time) for v in entries):
            return Times(name).fitted(values)
        return Numbers(name).fitted(values)
    return _of_text(name, values, entries, max_levels)


def _of_text(name: Hashable, values: Any, entries: list[Any], max_levels: int) -> Decision:
    """Text: numbers that were written out, dates, levels, or what only names the row."""
    numeric = [is_number(v) and not isinstance(v, bool) for v in entries]
    if all(numeric):
        return Numbers(name).fitted(values)
    texts = [str(v).strip() for v in entries]
    if sum(numeric) >= len(entries) / 2 and not is_open_count(set(texts)):
        odd = entries[numeric.index(False)]
        row = plain_list(values).index(odd)
        raise ValueError(
            f"column {name!r} holds text ({odd!r} in row {row}) among numbers; correct it, or leave it empty where "
            "nothing is known"
        )
    if looks_like_dates(texts):
        return Dates(name, day_first=day_first(name, texts), zoned=has_zone(texts[0])).fitted(values)
    if are_times(texts):
        return Times(name).fitted(values)
    if (units := units_of(name, texts)) is not None:
        return WithUnits(name, units=units).fitted(values)
    distinct = Counter(texts)
    if len(distinct) == 1:
        return Dropped(name, f"it is {texts[0]!r} in every row" + (" that has one" if len(texts) < len(values) else ""))
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
        return Dropped(name, f"it has a different text in {every}, as names and identifiers have")
    return decide_levels(name, values, max_levels)


def decide_levels(name: Hashable, values: Any, max_levels: int) -> Levels:
    """The levels in the order of their letters, gaps last."""
    counts = Counter(read_levels(values))
    kept = sorted(counts, key=lambda v: (-counts[v], v))
    rare = kept[max_levels - 1 :] if len(kept) > max_levels else []
    own = sorted(set(kept) - set(rare), key=lambda v: (v == MISSING, v))
    return Levels(name, tuple(own), tuple(sorted(rare)))


def _ordered_of(name: Hashable, values: Any, levels: tuple[str, ...]) -> Decision:
    """A column of levels as their places in the order given."""
    if unknown := sorted({*read_levels(values)}.difference(levels, [MISSING])):
        raise ValueError(
            f"column {name!r} holds {list_labels(unknown)}; its order has the levels {list_labels(levels)}"
        )
    return Ordered(name, levels=levels).fitted(values)


def _series(values: Any) -> Any:
    """A column of a frame as such; None for a list or an array."""
    found = nw.from_native(values, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def plain_list(values: Any) -> list[Any]:
    """The entries of a column; dates of NumPy stay NumPy's, and a period of pandas is the time when it begins."""
    series = _series(values)
    if series is None:
        array = np.asarray(values)
        entries = list(array) if array.dtype.kind in "mM" else array.tolist()
    else:
        entries = series.to_list()
    return [v.start_time if type(v).__name__ == "Period" else v for v in entries]


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


def is_number(value: Any) -> bool:
    """Whether a value is a number, or text that is written like one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def read_levels(values: Any) -> list[str]:
    """Entries as text, without blanks around it."""
    return [MISSING if is_missing(v) else str(v).strip() or MISSING for v in plain_list(values)]


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


def _warn_unseen(name: Hashable, found: list[str], known: Mapping[str, Any], what: str) -> None:
    if unseen := Counter(v for v in found if v not in known):
        listed, rows = list_labels(list(unseen), 6), counted(unseen.total(), "row")
        warn(f"column {name!r} has {listed} in {rows}, which fit did not see; {what}")
