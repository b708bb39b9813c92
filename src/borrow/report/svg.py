"""Drawing on inline SVG: numbers to marks, text to text.

Elements are built as a tree, never as strings, so that a task called `<script>` stays text. Across, marks stand at per
cents of the plot's width; up and down, at pixels. So a figure fills the width it is given, on a desk or a phone, while
its letters keep their size. Colours are classes: the page's style sheet says what they are by day and by night.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

Element = ElementTree.Element

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
    width, room = 0, most - 1
    for i, letter in enumerate(text):
        width += 0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        if width > room and i < len(text) - 1:
            return text[:i].rstrip() + "\u2026"
    return text


def number(value: float | None, digits: int = 3) -> str:
    """So many significant digits, a true minus, a dash where there is no number."""
    if value is None or not math.isfinite(value):
        return "\u2013"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if -4 <= size < 6:
        shown = f"{value:,.{max(digits - 1 - size, 0)}f}"
        if float(shown.replace(",", "")) == 0:
            return "0"
        return shown.replace("-", "\u2212")
    power = str(size).replace("-", "\u2212")
    return f"{value / 10**size:.{digits - 1}f}".replace("-", "\u2212") + f"e{power}"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from low to high, at most so many."""
    if not high > low:
        return [low]
    raw = (high - low) / max(most, 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 5, 10, 20) if (high - low) / (unit * k) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_labels(values: Sequence[float]) -> list[str]:
    """Labels of ticks, all with the digits that the closest two need."""
    apart = min((abs(b - a) for a, b in itertools.pairwise(values)), default=max(map(abs, values), default=1.0) or 1.0)
    largest = max(map(abs, values), default=1.0) or 1.0
    if largest >= 1e6 or largest < 1e-4:
        return [number(v, 2) for v in values]
    digits = max(0, -math.floor(math.log10(apart) + 1e-9))
    return [f"{v:,.{digits}f}".replace("-", "\u2212") for v in values]


@dataclass(frozen=True)
class Scale:
    """A range of numbers on a length; `flip` runs it backwards, as heights do."""

    low: float
    high: float
    length: float = 100.0
    flip: bool = False

    @classmethod
    def around(cls, values: Sequence[float], room: float = 0.06, **more: Any) -> Scale:
        """A scale that holds the values with some room on both sides."""
        low, high = (min(values), max(values)) if len(values) else (0.0, 1.0)
        pad = room * (high - low) or max(abs(high), 1.0) * 0.5
        return cls(low - pad, high + pad, **more)

    def __call__(self, value: float) -> float:
        """The place of a number along the length."""
        share = (value - self.low) / (self.high - self.low)
        share = min(max(share, -0.5), 1.5)  # far outside is outside
        return self.length * (1.0 - share if self.flip else share)

    def percent(self, value: float) -> str:
        """The place as a per cent of the width."""
        return f"{self(value):.3f}%" if self.length == 100.0 else f"{100.0 * self(value) / self.length:.3f}%"


def add(parent: Element, name: str, text: Any = None, **attributes: Any) -> Element:
    """One more element; `text_anchor` is written text-anchor, `class_` is class; numbers get three decimals."""
    child = ElementTree.SubElement(parent, name)
    for key, value in attributes.items():
        shown = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else text_of(value)
        child.set(key.rstrip("_").replace("_", "-"), shown)
    if text is not None:
        child.text = text_of(text)
    return child


def canvas(height: float, title: str, description: str, name: str, classes: str = "") -> Element:
    """An empty figure with its text alternative; `name` makes the ids of it and is never a label of the data."""
    root = ElementTree.Element("svg")
    for key, value in {
        "xmlns": "http://www.w3.org/2000/svg",
        "role": "img",
        "class": f"figure {classes}".strip(),
        "width": "100%",
        "height": f"{height:g}",
        "aria-labelledby": f"{name}-title {name}-text",
    }.items():
        root.set(key, value)
    add(root, "title", title, id=f"{name}-title")
    add(root, "desc", description, id=f"{name}-text")
    return root


def stretched(parent: Element, height: float) -> Element:
    """A layer for paths: 1000 units across whatever the width, pixels down; lines keep their thickness."""
    return add(
        parent, "svg", width="100%", height=float(height), viewBox=f"0 0 1000 {height:g}", preserveAspectRatio="none"
    )


def line_path(x: Sequence[float], y: Sequence[float]) -> str:
    """A path through points; it breaks where a number is missing."""
    parts, pen = [], "M"
    for u, v in zip(x, y, strict=True):
        if math.isfinite(u) and math.isfinite(v):
            parts.append(f"{pen}{u:.1f} {v:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)


def band_path(x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
    """The area between two curves."""
    return line_path([*x, *reversed(x)], [*high, *reversed(low)]) + "Z"


def label(parent: Element, x: str, y: float, text: str, most: int = 60, **more: Any) -> Element:
    """Text, shortened where it is long; the whole of it is then in its tooltip."""
    whole = text_of(text)
    short = shortened(whole, most)
    element = add(parent, "text", short, x=x, y=float(y), **more)
    if short != whole:
        element.text = None
        tip = add(element, "title", whole)
        tip.tail = short
    return element


def bottom_axis(root: Element, scale: Scale, y: float, title: str, most: int = 5, top: float = 0.0) -> None:
    """Grid lines, numbers under them and what they are."""
    values = ticks(scale.low, scale.high, most)
    for value, shown in zip(values, tick_labels(values), strict=True):
        at = scale.percent(value)
        add(root, "line", x1=at, x2=at, y1=float(top), y2=float(y), class_="grid")
        add(root, "text", shown, x=at, y=y + 16.0, text_anchor="middle", class_="tick")
    if title:
        label(root, "100%", y + 34.0, title, 50, text_anchor="end", class_="axis")  # runs back under the margin


def left_axis(root: Element, scale: Scale, title: str = "", most: int = 5, grid: bool = True) -> None:
    """Grid lines across, numbers to the left of them; the title stands over the plot."""
    values = ticks(scale.low, scale.high, most)
    for value, shown in zip(values, tick_labels(values), strict=True):
        if grid:
            add(root, "line", x1="0%", x2="100%", y1=scale(value), y2=scale(value), class_="grid")
        add(root, "text", shown, x="0", dx="-8", y=scale(value) + 4.0, text_anchor="end", class_="tick")
    if title:
        label(root, "0%", -14.0, title, 44, dx="-40", class_="axis")


def markup(root: Element) -> str:
    """The figure as it stands in the page."""
    return ElementTree.tostring(root, encoding="unicode")


def names() -> Iterator[str]:
    """figure-1, figure-2, ...: ids that owe nothing to the data."""
    return (f"figure-{i}" for i in itertools.count(1))
