"""Dates, times of day, numbers with a unit and scales, as people write them in text.

Nothing is guessed: what may be read in two ways is an error in a sentence that says how to write it.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from borrow.numerics.stored import stored

#: A decimal comma; and numbers whose comma or point could as well separate thousands.
DECIMAL = r"^([-+]?\d*),(\d+(?:[eE][-+]?\d+)?)$"
THOUSANDS = {",": r"^[-+]?[1-9]\d{0,2},\d{3}$", ".": r"^[-+]?[1-9]\d{0,2}\.\d{3}$"}

_ISO = re.compile(
    r"\d{4}-(W\d{2}(-[1-7])?|\d{2}(-\d{2}([T ]\d{2}(:\d{2}(:\d{2}(\.\d{1,6})?)?)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?)?)"
)
_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?(?: ?([AaPp])\.?[Mm]\.?)?"
_TIME = re.compile(_CLOCK)
_TIMED = re.compile(rf"(.+?)(?:(?:[T ]|, ?){_CLOCK})?")
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})(?:\2(\d{1,2}))?")
_LOCAL = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|(?<=/)\d{2})")
_NAMED = (
    re.compile(r"(?P<d>\d{1,2})(?:st|nd|rd|th)?[. -]*(?P<m>[A-Za-zä]{3,9})\.?,?[ -]+(?P<y>\d{4})"),
    re.compile(r"(?P<m>[A-Za-zä]{3,9})\.? +(?:(?P<d>\d{1,2})(?:st|nd|rd|th)?,? +)?(?P<y>\d{4})"),
)
_MONTHS = {
    name[:length]: number
    for names in (
        "january february march april may june july august september october november december",
        "januar februar märz april mai juni juli august september oktober november dezember",
    )
    for number, name in enumerate(names.split(), 1)
    for length in (3, len(name))
}
_NUMBER = re.compile(r"([-+]?)([^\d\s.,+-]{1,3})? ?([-+]?(?:\d[\d.,]*|[.,]\d+)) ?([^\d\s.,+-][^\d+-]{0,11})?")
_RANGE = re.compile(r"([<>≤≥]?) ?(\d+(?:\.\d+)?)(?: ?(?:-|–|to) ?\d+(?:\.\d+)?| ?\+)?( [a-z]+)?")
_MIDDLE = "medium|mid|middle|moderate|normal|average"
#: Scales from least to most; words of one place are separated by bars.
SCALES = [
    ["none", "very low", "low", _MIDDLE, "high", "very high"],
    ["tiny", "small", _MIDDLE, "large|big", "huge"],
    ["xxs", "xs", "s", "m", "l", "xl", "xxl", "xxxl"],
    ["none|absent", "minimal", "mild|slight|light", "moderate|medium", "severe|strong|heavy", "very severe|critical"],
    ["never", "rarely|seldom", "sometimes|occasionally", "often|frequently", "very often|usually", "always"],
    ["very poor|very bad", "poor|bad", "fair|average|ok|okay", "good", "very good", "excellent"],
    ["strongly disagree", "disagree", "neutral|undecided|neither agree nor disagree", "agree", "strongly agree"],
    ["very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"],
    ["beginner", "intermediate", "advanced", "expert"],
]


def looks_like_dates(texts: Iterable[str]) -> bool:
    """Whether every text is written like a date, with or without a time: 2020-12-31, 31.12.2020, 31 Dec 2020."""
    return all(_date_part(v) is not None for v in texts)


def day_first(name: Any, texts: Sequence[str]) -> bool | None:
    """Whether the day stands before the month: always between points, else where some first number is above 12.

    None where all texts say it themselves, by the year in front or the month as a word.
    """
    parts = [m for v in texts if (m := _LOCAL.fullmatch(_date_part(v) or ""))]
    if not parts:
        return None
    if short := next((m[0] for m in parts if len(m[4]) == 2), ""):
        raise ValueError(f"column {name!r} holds dates such as {short!r}, whose year has two digits; write 2020-12-31")
    first, second = (max(int(m[k]) for m in parts) for k in (1, 3))
    if parts[0][2] == "." or first > 12:
        return True
    if second > 12:
        return False
    raise ValueError(
        f"column {name!r} holds dates such as {texts[0]!r}, and nothing tells whether the day or the month comes "
        "first; write them as 2020-12-31"
    )


def has_zone(text: str) -> bool:
    """Whether a date says its time zone, as 2020-12-31T14:30Z does."""
    found = _ISO.fullmatch(text)
    return found is not None and found["zone"] is not None


def read_date(text: str, day_first: bool | None) -> datetime.datetime:
    """A date, and the time where it has one; a ValueError where it is none."""
    if _ISO.fullmatch(text):
        return datetime.datetime.fromisoformat(f"{text}-01" if re.fullmatch(r"\d{4}-\d{2}", text) else text)
    found = _TIMED.fullmatch(text)
    date = None if found is None else _numbers_of_date(found[1], day_first)
    if found is None or date is None:
        raise ValueError(text)
    hours = 0.0 if found[2] is None else _hours(*found.groups()[1:])
    return datetime.datetime(*date) + datetime.timedelta(hours=hours)


def _numbers_of_date(text: str, day_first: bool | None) -> tuple[int, int, int] | None:
    """Year, month and day, the first of a month that has none; the month may be a word, in English or German."""
    if found := _YEAR_FIRST.fullmatch(text):
        return int(found[1]), int(found[3]), int(found[4] or 1)
    if (found := _LOCAL.fullmatch(text)) and day_first is not None:
        day, month = (int(found[k]) for k in ((1, 3) if day_first else (3, 1)))
        return int(found[4]), month, day
    for pattern in _NAMED:
        if (found := pattern.fullmatch(text)) and (word := _MONTHS.get(found["m"].lower())):
            return int(found["y"]), word, int(found["d"] or 1)
    return None


def _date_part(text: str) -> str | None:
    """The date of a text, without its time; None where it is none."""
    if _ISO.fullmatch(text):
        return text
    found = _TIMED.fullmatch(text)
    date = "" if found is None else found[1]
    return date if _ISO.fullmatch(date) or _numbers_of_date(date, True) else None


def are_times(texts: Iterable[str]) -> bool:
    """Whether every text is a time of day, such as 14:30 or 2:30 PM."""
    return all((m := _TIME.fullmatch(v)) and int(m[1]) <= 24 and int(m[2]) < 60 for v in texts)


def read_time(text: str) -> float:
    """A time of day in hours since midnight; a ValueError where it is none."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return _hours(*found.groups())


def _hours(hour: str, minute: str, second: str | None, half: str | None) -> float:
    """Hours since midnight, of 24 or of twice 12."""
    hours = int(hour) if half is None else int(hour) % 12 + 12 * (half.lower() == "p")
    return hours + int(minute) / 60.0 + float(second or 0.0) / 3600.0


@stored("units")
@dataclass(frozen=True)
class Units:
    """How the numbers of a column are written: what stands before and after each, and whether commas are decimal."""

    before: str = ""
    after: str = ""
    comma: bool = False

    def read(self, text: str) -> float:
        """The number; a ValueError where it is not written like this."""
        found = _split_number(text)
        if found is None or found[:2] != (self.before, self.after):
            raise ValueError(text)
        return float(found[2].replace(",", ".") if self.comma else found[2])

    def __str__(self) -> str:
        return " and ".join(repr(mark) for mark in (self.before, self.after) if mark) or "decimal commas"


def units_of(name: Any, texts: Sequence[str]) -> Units | None:
    """What all numbers of a column have around them (%, kg, $), and whether their commas are decimal; None for others.

    A currency may stand before a number, anything that is not a number after it; numbers alone must have commas.
    """
    found = [_split_number(v) for v in texts]
    known = [f for f in found if f is not None]
    if not known or len(known) < len(found) / 2 or len({f[:2] for f in known}) > 1:
        return None
    before, after, _ = known[0]
    if not (before or after or any("," in number for *_, number in known)):
        return None
    if len(known) < len(found):
        odd = texts[found.index(None)]
        raise ValueError(
            f"column {name!r} holds {odd!r} among numbers with {Units(before, after)}; correct it, or leave it empty"
        )
    commas = [(text, number) for text, (*_, number) in zip(texts, known, strict=True) if "," in number]
    for text, (*_, number) in zip(texts, known, strict=True):
        if re.sub("[,.]", "", number, count=1).strip("+-").isdigit() and (not commas or "." not in number):
            continue
        raise ValueError(
            f"column {name!r} holds {text!r}: a separator of thousands is not read; write plain numbers such as 1234.5"
        )
    if commas and all(re.match(THOUSANDS[","], number) for _, number in commas):
        raise ValueError(
            f"column {name!r} holds {commas[0][0]!r}, whose comma may separate thousands or be decimal, and the other "
            "values do not tell; write plain numbers such as 1234.5"
        )
    return Units(before, after, bool(commas))


def _split_number(text: str) -> tuple[str, str, str] | None:
    """What stands before and after a number, and the number."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    sign, before, number, after = (part or "" for part in found.groups())
    money = unicodedata.category(before[-1:] or "$") == "Sc" or before in ("USD", "EUR", "GBP", "CHF", "JPY")
    if (before and not money) or (sign and number[0] in "+-"):
        return None
    return before, after.strip(), sign + number


def scale_of(levels: Iterable[str]) -> tuple[str, ...] | None:
    """Three levels or more from least to most, where they are of a scale that people use, or ranges of numbers."""
    known = list(levels)
    if len(known) < 3:
        return None
    for places in SCALES:
        place = {word: i for i, words in enumerate(places) for word in words.split("|")}
        found = {v: place[v.lower()] for v in known if v.lower() in place}
        if len(found) == len(known) == len(set(found.values())):
            return tuple(sorted(found, key=found.__getitem__))
    ranges = [_RANGE.fullmatch(v) for v in known]
    if any(m is None for m in ranges) or len({m[3] for m in ranges if m}) > 1:
        return None
    start = {v: (float(m[2]), "<≤".find(m[1] or " ") < 0) for v, m in zip(known, ranges, strict=True) if m}
    return tuple(sorted(start, key=start.__getitem__)) if len(set(start.values())) == len(known) else None


def is_open_count(levels: Iterable[str]) -> bool:
    """Whether these are whole numbers one after the other of which the last has a plus: 0, 1, 2, 3+."""
    order = scale_of(levels) or ("",)
    if not order[0].isdecimal():
        return False
    counts = [str(int(order[0]) + i) for i in range(len(order))]
    return list(order) == [*counts[:-1], f"{counts[-1]}+"]
