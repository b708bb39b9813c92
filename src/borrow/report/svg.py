"""The figures of a report: each takes a part of the summary and returns inline SVG with its text alternative.

Elements are built as a tree, never as strings, so that a task called `<script>` stays text. Across, marks stand at per
cents of the plot's width; up and down, at pixels. So a figure fills the width it is given, on a desk or a phone, while
its letters keep their size. Colours are classes: the page's style sheet says what they are by day and by night.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any
from xml.etree import ElementTree

from borrow.report.format import number, percent, shortened, tick_labels

Element = ElementTree.Element

#: Height of a row with a dot and an interval, and of one with two; of a figure of shares; of what is under a plot.
ROW, DOUBLE, SQUARE, AXIS = 30.0, 36.0, 260.0, 44.0
#: Letters that fit into the margin to the left of a plot (the classes of the style sheet).
LETTERS, NARROW = 28, 17
#: Opacity of the largest number of a map.
DEEPEST = 0.9
#: Places along a curve that say their value to a pointer.
HOVERS = 40


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from low to high, at most so many."""
    if not high > low:
        return [low]
    unit = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(unit * k for k in (1, 2, 5, 10, 20) if (high - low) / (unit * k) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


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
        low, high = min(values), max(values)
        pad = room * (high - low) or max(abs(high), 1.0) * 0.5
        return cls(low - pad, high + pad, **more)

    def __call__(self, value: float) -> float:
        """The place of a number along the length."""
        share = min(max((value - self.low) / (self.high - self.low), -0.5), 1.5)  # far outside is outside
        return self.length * (1.0 - share if self.flip else share)

    def percent(self, value: float) -> str:
        """The place as a per cent of the width."""
        return f"{100.0 * self(value) / self.length:.3f}%"

    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers on the scale, and how they are written."""
        values = ticks(self.low, self.high)
        return list(zip(values, tick_labels(values), strict=True))


def add(parent: Element, name: str, text: Any = None, **attributes: Any) -> Element:
    """One more element; `text_anchor` is written text-anchor, `class_` is class; numbers get three decimals."""
    shown = {
        key.rstrip("_").replace("_", "-"): f"{v:.3f}".rstrip("0").rstrip(".") if isinstance(v, float) else str(v)
        for key, v in attributes.items()
    }
    child = ElementTree.SubElement(parent, name, shown)
    child.text = None if text is None else str(text)
    return child


def canvas(height: float, title: str, description: str, classes: str = "") -> Element:
    """An empty figure with its text alternative."""
    looks = {"role": "img", "class": f"figure {classes}".strip(), "width": "100%", "height": f"{height:g}"}
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **looks})
    add(root, "title", title)
    add(root, "desc", description)
    return root


def markup(root: Element, name: str) -> str:
    """The figure as it stands in the page; `name` makes the ids that tie it to its text alternative."""
    root.set("aria-labelledby", f"{name}-title {name}-text")
    for child, kind in zip(root, ("title", "text"), strict=False):
        child.set("id", f"{name}-{kind}")
    return ElementTree.tostring(root, encoding="unicode")


def stretched(parent: Element, width: int, height: float, deep: float | None = None) -> Element:
    """A layer of `width` units across whatever the width of the plot, and `deep` (else pixels) down."""
    box = f"0 0 {width} {height if deep is None else deep:g}"
    return add(parent, "svg", width="100%", height=float(height), viewBox=box, preserveAspectRatio="none")


def line_path(x: Sequence[float], y: Sequence[float]) -> str:
    """A path through points."""
    return "M" + "L".join(f"{u:.1f} {v:.1f}" for u, v in zip(x, y, strict=True))


def band_path(x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
    """The area between two curves."""
    return line_path([*x, *reversed(x)], [*high, *reversed(low)]) + "Z"


def label(parent: Element, x: str, y: float, text: str, most: int, **more: Any) -> None:
    """Text, shortened where it is long; the whole of it is then in its tooltip."""
    short = shortened(text, most)
    element = add(parent, "text", text if short == text else None, x=x, y=y, **more)
    if short != text:
        add(element, "title", text).tail = short


def bottom_axis(root: Element, scale: Scale, y: float, title: str, top: float = 0.0) -> None:
    """Grid lines, numbers under them and what they are."""
    for value, shown in scale.ticks():
        at = scale.percent(value)
        add(root, "line", x1=at, x2=at, y1=top, y2=y, class_="grid")
        add(root, "text", shown, x=at, y=y + 16.0, text_anchor="middle", class_="tick")
    label(root, "100%", y + 34.0, title, 50, text_anchor="end", class_="axis")  # runs back under the margin


def left_axis(root: Element, scale: Scale, title: str, grid: bool = True) -> None:
    """Grid lines across, numbers to the left of them; the title stands over the plot."""
    for value, shown in scale.ticks():
        y = scale(value)
        if grid:
            add(root, "line", x1="0%", x2="100%", y1=y, y2=y, class_="grid")
        add(root, "text", shown, x="0", dx="-8", y=y + 4.0, text_anchor="end", class_="tick")
    label(root, "0%", -14.0, title, 44, dx="-40", class_="axis")


def name_row(root: Element, y: float, text: str, role: str) -> None:
    """A label in the margin: what fits on a desk, and where that is too long for a phone a shorter one."""
    place = {"dx": "-12", "text_anchor": "end"}
    both = shortened(text, NARROW) != shortened(text, LETTERS)
    label(root, "0", y, text, LETTERS, class_=f"name {role}{' wide' * both}", **place)
    if both:
        label(root, "0", y, text, NARROW, class_=f"name {role} narrow", aria_hidden="true", **place)


def intervals(
    rows: Sequence[Mapping[str, Any]],
    title: str,
    axis: str,
    ends: tuple[str, str] | None = None,
    limits: tuple[float, float] | None = None,
) -> Element:
    """Dots with intervals, one row each, around zero.

    A row has `label`, `value`, `low`, `high` (None where unknown), `role` (a class of the style sheet) and may have
    `alone`: what no transfer says, a second, hollow interval under the first. `ends` says what lies left and right of
    zero. Where no limits are given, an interval much longer than most ends in an arrow.
    """
    alone = [row["alone"] for row in rows if row.get("alone")]
    most = math.inf if limits else longest([*rows, *alone])
    shown = [v for row in [*rows, *alone] if row["value"] is not None for v in (row["value"], *_drawn(row, most)[0])]
    scale = Scale(*limits) if limits else Scale.around([*shown, 0.0])
    top, step = 22.0 if ends else 4.0, DOUBLE if alone else ROW
    height = top + step * len(rows)
    said = "; ".join(f"{row['label']}: {_said(row)}" for row in rows)
    root = canvas(height + AXIS, title, f"{axis}. {said}.")
    bottom_axis(root, scale, height, axis, top)
    zero = scale.percent(0.0)
    add(root, "line", x1=zero, x2=zero, y1=top - 4.0, y2=height, class_="zero")
    if ends and scale(0.0) > 16:
        add(root, "text", f"\u2190 {ends[0]}", x=zero, dx="-8", y=11.0, text_anchor="end", class_="tick")
    if ends and scale(0.0) < 84:
        add(root, "text", f"{ends[1]} \u2192", x=zero, dx="8", y=11.0, class_="tick")
    for i, row in enumerate(rows):
        y = top + step * (i + 0.5)
        name_row(root, y + 4.0, row["label"], row["role"])
        if row.get("alone"):
            _interval(root, scale, y + 6.0, {**row["alone"], "label": "no transfer", "role": "alone"}, 3.5, most)
            y -= 4.0
        _interval(root, scale, y, row, 5.0, most)
    return root


def longest(rows: Sequence[Mapping[str, Any]]) -> float:
    """How far from its dot an interval is drawn: four times the median over all rows and both ends."""
    known = [row for row in rows if None not in (row["value"], row["low"], row["high"])]
    far = [abs(row[end] - row["value"]) for row in known for end in ("low", "high")]
    return 4.0 * median(far) if far and median(far) > 0.0 else math.inf


def _drawn(row: Mapping[str, Any], most: float) -> tuple[list[float], list[bool]]:
    """The ends of an interval as drawn, none where they are unknown, and which of them are cut."""
    if None in (row["low"], row["high"]):
        return [], []
    reach = [row[end] - row["value"] for end in ("low", "high")]
    drawn = [row["value"] + min(max(v, -most), most) for v in reach]
    return drawn, [abs(v) > most for v in reach]


def is_cut(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `intervals` draws an interval of these rows with an arrow."""
    most = longest(rows)
    return any(cut for row in rows if row["value"] is not None for cut in _drawn(row, most)[1])


def _interval(root: Element, scale: Scale, y: float, row: Mapping[str, Any], size: float, most: float) -> None:
    if row["value"] is None:
        add(root, "text", "not known", x=scale.percent(0.0), dx="8", y=y + 4.0, class_="tick")
        return
    group = add(root, "g", class_=f"mark {row['role']}")
    add(group, "title", f"{row['label']}: {_said(row)}")
    ends, cut = _drawn(row, most)
    if ends:
        places = [scale.percent(end) for end in ends]
        add(group, "line", x1=places[0], x2=places[1], y1=y, y2=y, class_="bar")
        for at, arrow, sign in zip(places, cut, ("\u2039", "\u203a"), strict=True):
            if arrow:
                add(group, "text", sign, x=at, y=y + 4.5, text_anchor="middle", class_="tick")
            else:
                add(group, "line", x1=at, x2=at, y1=y - size + 1.0, y2=y + size - 1.0, class_="cap")
    add(group, "circle", cx=scale.percent(row["value"]), cy=y, r=size, class_="dot")


def _said(row: Mapping[str, Any]) -> str:
    """A value and its interval in words."""
    if row["value"] is None:
        return "not known"
    known = None not in (row["low"], row["high"])
    return number(row["value"]) + f" ({number(row['low'])} to {number(row['high'])})" * known


def heat_map(tasks: Sequence[str], values: Sequence[Sequence[float]], title: str) -> Element:
    """Correlations between tasks: blue where they rise together, orange where one falls as the other rises."""
    M, top = len(tasks), 74.0
    cell, width = 30.0 if M <= 14 else 22.0 if M <= 24 else 15.0, 100.0 / M
    pairs = sorted(((abs(values[i][j]), i, j) for i in range(M) for j in range(i)), reverse=True)
    said = "; ".join(f"{tasks[i]} and {tasks[j]} {number(values[i][j], 2)}" for _, i, j in pairs[:3])
    root = canvas(top + cell * M + 6.0, title, f"Correlations between {M} tasks. Strongest: {said}.")
    for j, task in enumerate(tasks):
        at = add(root, "svg", x=f"{width * (j + 0.5):.3f}%", y=top - 8.0, overflow="visible", width="1", height="1")
        label(at, "0", 0.0, task, 11, transform="rotate(-50)", class_="tick")
    for i, task in enumerate(tasks):
        y = top + cell * i
        name_row(root, y + cell / 2 + 4.0, task, "plain")
        for j, value in enumerate(values[i]):
            group, strength = add(root, "g"), min(abs(value), 1.0)
            add(group, "title", f"{task}, {tasks[j]}: {number(value, 2)}")
            box = {"x": f"{width * j:.3f}%", "y": y, "width": f"{width:.3f}%", "height": cell}
            add(group, "rect", class_="cell", **box)
            sign = "plus" if value >= 0 else "minus"
            add(group, "rect", class_=f"heat {sign}", fill_opacity=round(DEEPEST * strength, 3), **box)
            if M <= 14 and i != j:
                strong = " full" if strength > 0.85 else " strong" if strength > 0.7 else ""
                shown = f"{100 * value:.0f}".replace("-", "\u2212").replace("\u22120", "0")
                place = {"x": f"{width * (j + 0.5):.3f}%", "y": y + cell / 2 + 4.0}
                add(group, "text", shown, text_anchor="middle", class_=f"value{strong}", **place)
    return root


def curve(panel: Mapping[str, Any], title: str, feature: str, target: str, height: float = 240.0) -> Element:
    """A prediction with its band over one input, and the measurements; beside it what no transfer says."""
    points, alone = panel["points"] or {"x": [], "y": []}, panel.get("alone")
    series = {"alone": alone, "borrowed": panel} if alone else {"borrowed": panel}
    core = [*points["y"], *(v for s in series.values() for v in s["mean"])]
    bands = [v for s in series.values() for edge in ("low", "high") for v in s[edge] or ()]
    low, high = min(core), max(core)
    room = 0.8 * (high - low) or max(abs(high), 1.0)  # bands may be far wider than what they are about
    ends = max(min([*core, *bands]), low - room), min(max([*core, *bands]), high + room)
    x = Scale.around([*panel["x"], *points["x"]], 0.02, length=1000.0)
    y = Scale.around(ends, 0.07, length=height, flip=True)
    mean, at = panel["mean"], panel["x"]
    top, bottom = mean.index(max(mean)), mean.index(min(mean))
    text = (
        f"{target} as predicted over {feature} from {number(at[0])} to {number(at[-1])}: largest "
        f"{number(mean[top])} at {number(at[top])}, least {number(mean[bottom])} at {number(at[bottom])}; "
        f"{len(points['x'])} measurements."
    )
    root = canvas(height + AXIS, title, text, "tall")
    bottom_axis(root, x, height, feature)
    left_axis(root, y, target)
    layer, across = stretched(root, 1000, height), [x(v) for v in at]
    for role, one in series.items():
        if one["low"] is not None:
            edges = [[y(v) for v in one[edge]] for edge in ("low", "high")]
            add(layer, "path", d=band_path(across, *edges), class_=f"band {role}")
            for edge in edges:
                add(layer, "path", d=line_path(across, edge), class_=f"edge {role}")
        add(layer, "path", d=line_path(across, [y(v) for v in one["mean"]]), class_=f"curve {role}")
    step = max(1, len(at) // HOVERS)
    for i in range(0, len(at), step):  # what the curve says where the pointer is, under the points, which say more
        left, right = across[max(i - step // 2, 0)], across[min(i + step - step // 2, len(at) - 1)]
        place = {"x": f"{left / 10:.3f}%", "y": 0.0, "height": height, "width": f"{(right - left) / 10:.3f}%"}
        here = add(root, "rect", class_="hover", **place)
        said = {k: panel[k][i] if panel[k] is not None else None for k in ("low", "high")}
        add(here, "title", f"{feature} {number(at[i])}: {target} {_said({'value': mean[i], **said})}")
    for u, v in zip(points["x"], points["y"], strict=True):
        dot = add(root, "circle", cx=x.percent(u), cy=y(v), r=3.2, class_="point")
        add(dot, "title", f"{feature} {number(u)}, {target} {number(v)}")
    return root


def scatter(points: Sequence[Mapping[str, Any]], named: Sequence[Any], title: str) -> Element:
    """Observed over predicted, with the band of each prediction; the rows that are `named` stand out."""
    values = [v for p in points for v in (p["observed"], p["predicted"])] or [0.0]
    x = Scale.around(values, 0.08, length=1000.0)
    y = Scale.around(values, 0.08, length=SQUARE, flip=True)
    told = "; ".join(f"row {p['row']}: {_pair(p)}" for p in points if p["row"] in named)
    root = canvas(SQUARE + AXIS, title, f"{len(points)} rows. {told}.", "square")
    bottom_axis(root, x, SQUARE, "predicted")
    left_axis(root, y, "observed")
    ends = x.low, x.high
    layer = stretched(root, 1000, SQUARE)
    add(layer, "path", d=line_path([x(v) for v in ends], [y(v) for v in ends]), class_="ideal")
    for p in sorted(points, key=lambda p: p["row"] in named):
        known, at = p["row"] in named, y(p["observed"])
        group = add(root, "g", class_="mark judged" if known else "mark plain")
        add(group, "title", f"row {p['row']}: {_pair(p)}")
        low, high = (x.percent(min(max(p[k], x.low), x.high)) for k in ("low", "high"))
        add(group, "line", x1=low, x2=high, y1=at, y2=at, class_="reach")
        add(group, "circle", cx=x.percent(p["predicted"]), cy=at, r=3.4, class_="dot")
        if known:
            add(root, "text", p["row"], x=x.percent(p["predicted"]), dx="7", y=at - 5.0, class_="tick")
    return root


def _pair(point: Mapping[str, Any]) -> str:
    """What was observed, and what was predicted."""
    words = f"observed {number(point['observed'])}, predicted {number(point['predicted'])}"
    return f"{words} ({number(point['low'])} to {number(point['high'])})"


def surface(part: Mapping[str, Any], field: str, title: str) -> Element:
    """A number over two inputs: the deeper the colour, the larger; dots where the primary was measured."""
    height, values, (first, second) = 280.0, part[field], part["features"]
    x, y = Scale(part["x"][0], part["x"][-1]), Scale(part["y"][0], part["y"][-1], height, flip=True)
    low, high = _range(values)
    text = f"{title} over {first} and {second}: from {number(low)} to {number(high)}."
    root = canvas(height + AXIS, title, text, "tall")
    rows, columns = len(values), len(values[0])  # evenly spaced: one unit per cell, so that neighbours share their edge
    layer = stretched(root, columns, height, rows)
    for i, row in enumerate(values):  # row i lies between y[i] and y[i + 1], the first at the bottom
        for j, value in enumerate(row):
            share = 0.5 if high == low else (value - low) / (high - low)
            cell = _shade(layer, field, j, rows - 1 - i, DEEPEST * share)
            add(
                cell,
                "title",
                f"{first} {number(middle(part['x'], j))}, {second} {number(middle(part['y'], i))}: {number(value)}",
            )
    bottom_axis(root, x, height, first, height)
    left_axis(root, y, second, grid=False)
    for u, v in zip(part["points"]["x"], part["points"]["y"], strict=True):
        add(root, "circle", cx=x.percent(u), cy=y(v), r=3.2, class_="point ringed")
    return root


def colour_bar(part: Mapping[str, Any], field: str) -> Element:
    """What the depths of colour of a surface mean."""
    low, high = _range(part[field])
    root = canvas(34.0, "Scale of the colours", f"From {number(low)} to {number(high)}.")
    layer = stretched(root, 20, 12, 1)
    for k in range(20):
        _shade(layer, field, k, 0, DEEPEST * (k + 0.5) / 20)
    add(root, "text", number(low), x="0%", y=28.0, class_="tick")
    add(root, "text", number((low + high) / 2), x="50%", y=28.0, text_anchor="middle", class_="tick")
    add(root, "text", number(high), x="100%", y=28.0, text_anchor="end", class_="tick")
    return root


def _range(values: Sequence[Sequence[float]]) -> tuple[float, float]:
    return min(map(min, values)), max(map(max, values))


def middle(edges: Sequence[float], i: int) -> float:
    """Of the cell between two edges."""
    return (edges[i] + edges[i + 1]) / 2


def _shade(layer: Element, field: str, x: int, y: int, depth: float) -> Element:
    """One cell of a surface."""
    place = {"x": x, "y": y, "width": 1, "height": 1}
    return add(layer, "rect", class_=f"surface {field}", fill_opacity=round(0.06 + depth, 3), **place)


def coverage(part: Mapping[str, Any], title: str) -> Element:
    """Share of held-out measurements inside the band, against what the band promised; the grey lens is chance."""
    levels, methods = part["levels"], part["methods"]
    ninety = min(range(len(levels)), key=lambda i: abs(levels[i] - 0.9))
    said = "; ".join(f"{m['label']}: {percent(m['share'][ninety])} inside the 90 % band" for m in methods)
    root, layer, x, y = _shares(title, said, "promised by the band", "found inside it")
    grid = [k / 40 for k in range(41)]
    edges = [[y(min(max(p + z * math.sqrt(p * (1 - p) / part["n"]), 0.0), 1.0)) for p in grid] for z in (-1.96, 1.96)]
    add(layer, "path", d=band_path([1000 * p for p in grid], *edges), class_="chance")
    add(layer, "path", d=line_path([0.0, 1000.0], [SQUARE, 0.0]), class_="ideal")
    for method in methods:
        path = line_path([1000 * p for p in levels], [y(v) for v in method["share"]])
        add(layer, "path", d=path, class_=f"curve {method['role']}")
        for level, share in zip(levels, method["share"], strict=True):
            dot = add(root, "circle", cx=x.percent(level), cy=y(share), r=3.0, class_=f"spot {method['role']}")
            add(dot, "title", f"{method['label']}: {percent(share)} inside the {percent(level)} band")
    return root


def reliability(part: Mapping[str, Any], title: str) -> Element:
    """How often what was given a probability came true; bars are 95 % intervals of the share in each bin."""
    said = "; ".join(
        f"{m['label']}: "
        + ", ".join(f"{percent(b['predicted'])} came true in {percent(b['observed'])}" for b in m["bins"])
        for m in part["methods"]
    )
    root, layer, x, y = _shares(title, said, "predicted probability", "share that came true")
    add(layer, "path", d=line_path([0.0, 1000.0], [SQUARE, 0.0]), class_="ideal")
    for k, method in enumerate(part["methods"]):
        for b in method["bins"]:
            at = x.percent(min(max(b["predicted"] + 0.006 * (2 * k - 1), 0.0), 1.0))
            group = add(root, "g", class_=f"mark {method['role']}")
            add(group, "title", f"{method['label']}: {b['n']} rows at {percent(b['predicted'])}")
            add(group, "line", x1=at, x2=at, y1=y(b["low"]), y2=y(b["high"]), class_="bar")
            add(group, "circle", cx=at, cy=y(b["observed"]), r=4.0, class_="dot")
    return root


def _shares(title: str, said: str, across: str, up: str) -> tuple[Element, Element, Scale, Scale]:
    """An empty plot of shares over shares, a layer for its paths, and its two scales."""
    x, y = Scale(0.0, 1.0), Scale(0.0, 1.0, SQUARE, flip=True)
    root = canvas(SQUARE + AXIS, title, f"{said}.", "square")
    for k in range(0, 101, 25):
        at, v = x.percent(k / 100), y(k / 100)
        add(root, "line", x1=at, x2=at, y1=0.0, y2=SQUARE, class_="grid")
        add(root, "line", x1="0%", x2="100%", y1=v, y2=v, class_="grid")
        add(root, "text", f"{k} %", x=at, y=SQUARE + 16.0, text_anchor="middle", class_="tick")
        add(root, "text", f"{k} %", x="0", dx="-8", y=v + 4.0, text_anchor="end", class_="tick")
    add(root, "text", across, x="100%", y=SQUARE + 34.0, text_anchor="end", class_="axis")
    add(root, "text", up, x="0", dx="-40", y=-14.0, class_="axis")
    return root, stretched(root, 1000, SQUARE), x, y
