"""How a report writes numbers, counts and texts."""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: What stands where a number is not known.
UNKNOWN = "\u2013"
#: Characters that a page must not hold: control characters, those that turn the direction of what follows, halves of
#: surrogate pairs, non-characters.
_FOREIGN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def text_of(value: Any) -> str:
    """Any label as text that a page may hold; what it may not becomes the replacement character."""
    return _FOREIGN.sub("\ufffd", str(value))


def shortened(text: str, most: int) -> str:
    """The text, cut to so many letters; wide letters count double."""
    width = 0
    for i, letter in enumerate(text):
        width += 0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        if width > most - 1 and i < len(text) - 1:
            return text[:i].rstrip() + "\u2026"
    return text


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals, commas between the thousands, and a true minus."""
    return f"{value:,.{decimals}f}".replace("-", "\u2212")


def three_decimals(value: Any) -> Any:
    """A number as an attribute of a figure; anything else as it is."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def number(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = math.floor(math.log10(abs(value))) if value else 0
    if not -4 <= size < 6:
        return fixed(value / 10**size, digits - 1) + f"e{fixed(size, 0)}"
    shown = fixed(value, max(digits - 1 - size, 0))
    return shown if shown.strip("\u22120.") else "0"


def percent(share: float | None) -> str:
    """A share in whole per cents."""
    return UNKNOWN if share is None else f"{100 * share:.0f} %"


def whole(value: float | None) -> str:
    """A count, with commas between the thousands; a dash where it is not known."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def with_decimals(decimals: int) -> Callable[[float | None], str]:
    """A way to write numbers with so many decimals, and no minus before nothing."""

    def write(value: float | None) -> str:
        shown = UNKNOWN if value is None else fixed(value, decimals)
        return shown if shown.strip("\u22120.") else shown.removeprefix("\u2212")

    return write


hundredths = with_decimals(2)


def aligned(rows: Sequence[Mapping[str, Any]], *fields: str, least: int = 0) -> Callable[[float | None], str]:
    """How to write the numbers of these columns so that points stand under points and most have two digits."""
    sizes = sorted(abs(v) for row in rows for f in fields if (v := row.get(f)))
    if not sizes or sizes[-1] >= 1e6 or sizes[-1] < 1e-4:
        return number
    return with_decimals(min(max(1 - math.floor(math.log10(sizes[len(sizes) // 4])), least), 6))


def tick_labels(values: Sequence[float]) -> list[str]:
    """Labels of ticks, all with the digits that the closest two need."""
    largest = max(map(abs, values)) or 1.0
    if largest >= 1e6 or largest < 1e-4:
        return [number(v, 2) for v in values]
    apart = min((b - a for a, b in itertools.pairwise(values)), default=largest)
    return [fixed(v, max(0, -math.floor(math.log10(apart) + 1e-9))) for v in values]
