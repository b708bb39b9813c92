"""The figures of a report: each takes a part of the summary and finds what is to be drawn, with its text alternative.

`figures.svg.j2` draws it, and escapes everything, so that a task called `<script>` stays text. Across, marks stand at
per cents of the plot's width; up and down, at pixels. So a figure fills the width it is given, on a desk or a phone,
while its letters keep their size. Colours are classes: the page's style sheet says what they are by day and by night.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from borrow.report.format import number, percent, tick_labels

#: What the template is given: the macro that draws it (`kind`), its height, title and text, and what that macro needs.
Figure = dict[str, Any]

#: Height of a row with a dot and an interval, and of one with two; of a figure of shares; of what is under a plot.
ROW, DOUBLE, SQUARE, AXIS = 30.0, 36.0, 260.0, 44.0
#: Opacity of the least and of the largest number of a map.
FAINTEST, DEEPEST = 0.06, 0.9
#: How far apart, across in a thousand and down in pixels, the names of two points must stand to be read.
APART = (90.0, 12.0)
#: Places along a curve that say their value to a pointer; round numbers along an axis.
HOVERS, MOST_TICKS = 40, 5


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, at most `MOST_TICKS`."""
    if not high > low:
        return [low]
    unit = 10.0 ** math.floor(math.log10((high - low) / MOST_TICKS))
    step = next(unit * k for k in (1, 2, 5, 10, 20) if (high - low) / (unit * k) <= MOST_TICKS)
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


class Shares(Scale):
    """From nothing to all, in per cents."""

    def ticks(self) -> list[tuple[float, str]]:
        """The quarters, in per cents."""
        return [(k / 100, f"{k} %") for k in range(0, 101, 25)]


def line_path(x: Sequence[float], y: Sequence[float]) -> str:
    """A path through points."""
    return "M" + "L".join(f"{u:.1f} {v:.1f}" for u, v in zip(x, y, strict=True))


def band_path(x: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
    """The area between two curves."""
    return line_path([*x, *reversed(x)], [*high, *reversed(low)]) + "Z"


def intervals(
    rows: Sequence[Mapping[str, Any]],
    title: str,
    axis: str,
    ends: tuple[str, str] | None = None,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Dots with intervals, one row each, around zero.

    A row has `label`, `value`, `low`, `high` (None where unknown), `role` (a class of the style sheet) and may have
    `alone`: what no transfer says, a second, hollow interval under the first. `ends` says what lies left and right of
    zero. Where no limits are given, an interval much longer than most ends in an arrow.
    """
    alone = [row["alone"] for row in rows if row.get("alone")]
    most = math.inf if limits else longest([*rows, *alone])
    known = [row for row in [*rows, *alone] if row["value"] is not None]
    shown = [v for row in known for v in (row["value"], *(end for end, _ in drawn(row, most)))]
    top, step = 22.0 if ends else 4.0, DOUBLE if alone else ROW
    bottom, said = top + step * len(rows), "; ".join(f"{row['label']}: {spoken(row)}" for row in rows)
    return {
        "kind": "intervals",
        "height": bottom + AXIS,
        "title": title,
        "text": f"{axis}. {said}.",
        "scale": Scale(*limits) if limits else Scale.around([*shown, 0.0]),
        **{"rows": rows, "axis": axis, "ends": ends, "most": most, "top": top, "step": step, "bottom": bottom},
    }


def longest(rows: Sequence[Mapping[str, Any]]) -> float:
    """How far from its dot an interval is drawn: four times the median over all rows and both ends."""
    known = [row for row in rows if None not in (row["value"], row["low"], row["high"])]
    far = [abs(row[end] - row["value"]) for row in known for end in ("low", "high")]
    return 4.0 * median(far) if far and median(far) > 0.0 else math.inf


def drawn(row: Mapping[str, Any], most: float) -> list[tuple[float, bool]]:
    """The ends of an interval as drawn, and whether each is cut; none where they are unknown."""
    if None in (row["low"], row["high"]):
        return []
    reach = [row[end] - row["value"] for end in ("low", "high")]
    return [(row["value"] + min(max(v, -most), most), abs(v) > most) for v in reach]


def is_cut(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `intervals` draws an interval of these rows with an arrow."""
    most = longest(rows)
    return any(cut for row in rows if row["value"] is not None for _, cut in drawn(row, most))


def spoken(row: Mapping[str, Any]) -> str:
    """A value and its interval in words."""
    if row["value"] is None:
        return "not known"
    known = None not in (row["low"], row["high"])
    return number(row["value"]) + f" ({number(row['low'])} to {number(row['high'])})" * known


def heat_map(tasks: Sequence[str], values: Sequence[Sequence[float]], title: str) -> Figure:
    """Correlations between tasks: blue where they rise together, orange where one falls as the other rises."""
    M, top = len(tasks), 74.0
    cell = 30.0 if M <= 14 else 22.0 if M <= 24 else 15.0
    pairs = sorted(((abs(values[i][j]), i, j) for i in range(M) for j in range(i)), reverse=True)
    said = "; ".join(f"{tasks[i]} and {tasks[j]} {number(values[i][j], 2)}" for _, i, j in pairs[:3])
    return {
        "kind": "heat_map",
        "height": top + cell * M + 6.0,
        "title": title,
        "text": f"Correlations between {M} tasks. Strongest: {said}.",
        **{"tasks": tasks, "matrix": values, "top": top, "cell": cell, "width": 100.0 / M, "deepest": DEEPEST},
    }


def _plot(
    title: str, text: str, x: Scale, y: Scale, across: str, up: str, classes: str = "square", **marks: Any
) -> Figure:
    """What lies between two axes, from the lowest layer to the highest.

    `cells` (column, row, depth and words) and `paths` (a class and the path) are stretched over the plot, `box` units
    wide and deep. `hovers` are strips that say something to a pointer, `spans` dots with a bar, and `dots` points.
    """
    return {
        "kind": "plot",
        "height": y.length + AXIS,
        **{"title": title, "text": text, "classes": classes},
        **{"x": x, "y": y, "across": across, "up": up, "bottom": y.length, "grid": True, "box": (1000, y.length)},
        **{"cells": [], "paths": [], "hovers": [], "spans": [], "dots": [], **marks},
    }


def curve(panel: Mapping[str, Any], title: str, feature: str, target: str, height: float = 240.0) -> Figure:
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
    across, paths, hovers = [x(v) for v in at], [], []
    for role, one in series.items():
        edges = [] if one["low"] is None else [[y(v) for v in one[edge]] for edge in ("low", "high")]
        paths += [(f"band {role}", band_path(across, *edges))] if edges else []
        paths += [(f"edge {role}", line_path(across, edge)) for edge in edges]
        paths.append((f"curve {role}", line_path(across, [y(v) for v in one["mean"]])))
    step = max(1, len(at) // HOVERS)
    for i in range(0, len(at), step):  # what the curve says where the pointer is, under the points, which say more
        left, right = across[max(i - step // 2, 0)], across[min(i + step - step // 2, len(at) - 1)]
        known = {k: panel[k][i] if panel[k] is not None else None for k in ("low", "high")}
        words = f"{feature} {number(at[i])}: {target} {spoken({'value': mean[i], **known})}"
        hovers.append((f"{left / 10:.3f}%", f"{(right - left) / 10:.3f}%", words))
    dots = [
        ("point", x.percent(u), y(v), 3.2, f"{feature} {number(u)}, {target} {number(v)}")
        for u, v in zip(points["x"], points["y"], strict=True)
    ]
    return _plot(title, text, x, y, feature, target, "tall", paths=paths, hovers=hovers, dots=dots)


def scatter(points: Sequence[Mapping[str, Any]], named: Sequence[Any], title: str) -> Figure:
    """Observed over predicted, with the band of each prediction; the rows that are `named` stand out."""
    values = [v for p in points for v in (p["observed"], p["predicted"])] or [0.0]
    x = Scale.around(values, 0.08, length=1000.0)
    y = Scale.around(values, 0.08, length=SQUARE, flip=True)
    words = {
        p[
            "row"
        ]: f"row {p['row']}: observed {number(p['observed'])}, predicted {spoken({**p, 'value': p['predicted']})}"
        for p in points
    }
    spans, taken = [], list[tuple[float, float]]()
    for p in sorted(points, key=lambda p: named.index(p["row"]) if p["row"] in named else -1):
        role, name = ("judged", p["row"]) if p["row"] in named else ("plain", None)
        low, high, middle = (x.percent(min(max(p[k], x.low), x.high)) for k in ("low", "high", "predicted"))
        across, at = x(p["predicted"]), y(p["observed"])
        if name is not None and any(abs(across - u) < APART[0] and abs(at - v) < APART[1] for u, v in taken):
            name = None  # it would stand on another; the table has it
        elif name is not None:
            taken.append((across, at))
        spans.append((role, words[p["row"]], ("reach", low, high, at, at), (middle, at, 3.4), name))
    told = "; ".join(words[p["row"]] for p in points if p["row"] in named)
    ideal = line_path([x(v) for v in (x.low, x.high)], [y(v) for v in (x.low, x.high)])
    text = f"{len(points)} rows. {told}."
    return _plot(title, text, x, y, "predicted", "observed", paths=[("ideal", ideal)], spans=spans)


def surface(part: Mapping[str, Any], field: str, title: str) -> Figure:
    """A number over two inputs: the deeper the colour, the larger; dots where the primary was measured."""
    height, values, (first, second) = 280.0, part[field], part["features"]
    x, y = Scale(part["x"][0], part["x"][-1]), Scale(part["y"][0], part["y"][-1], height, flip=True)
    low, high = _range(values)
    text = f"{title} over {first} and {second}: from {number(low)} to {number(high)}."
    rows, columns = len(values), len(values[0])  # evenly spaced: one unit per cell, so that neighbours share their edge
    names = [[number((a + b) / 2) for a, b in itertools.pairwise(part[side])] for side in "xy"]
    cells = []
    for i, row in enumerate(values):  # row i lies between y[i] and y[i + 1], the first at the bottom
        for j, value in enumerate(row):
            share = 0.5 if high == low else (value - low) / (high - low)
            words = f"{first} {names[0][j]}, {second} {names[1][i]}: {number(value)}"
            cells.append((j, rows - 1 - i, round(FAINTEST + DEEPEST * share, 3), words))
    at = zip(part["points"]["x"], part["points"]["y"], strict=True)
    dots = [("point ringed", x.percent(u), y(v), 3.2, "") for u, v in at]
    more = {"field": field, "cells": cells, "box": (columns, rows), "dots": dots, "grid": False}
    return _plot(title, text, x, y, first, second, "tall", **more)


def colour_bar(part: Mapping[str, Any], field: str) -> Figure:
    """What the depths of colour of a surface mean."""
    low, high = _range(part[field])
    return {
        "kind": "colour_bar",
        "height": 34.0,
        "title": "Scale of the colours",
        "text": f"From {number(low)} to {number(high)}.",
        "field": field,
        "cells": [(k, 0, round(FAINTEST + DEEPEST * (k + 0.5) / 20, 3), "") for k in range(20)],
        "numbers": [number(low), number((low + high) / 2), number(high)],
    }


def _range(values: Sequence[Sequence[float]]) -> tuple[float, float]:
    return min(map(min, values)), max(map(max, values))


#: The line of figures of shares on which what was promised was found.
IDEAL = ("ideal", line_path([0.0, 1000.0], [SQUARE, 0.0]))


def coverage(part: Mapping[str, Any], title: str) -> Figure:
    """Share of held-out measurements inside the band, against what the band promised; the grey lens is chance."""
    levels, methods, x, y = part["levels"], part["methods"], Shares(0.0, 1.0), Shares(0.0, 1.0, SQUARE, flip=True)
    ninety = min(range(len(levels)), key=lambda i: abs(levels[i] - 0.9))
    said = "; ".join(f"{m['label']}: {percent(m['share'][ninety])} inside the 90 % band" for m in methods)
    grid = [k / 40 for k in range(41)]
    edges = [[y(min(max(p + z * math.sqrt(p * (1 - p) / part["n"]), 0.0), 1.0)) for p in grid] for z in (-1.96, 1.96)]
    paths = [("chance", band_path([1000 * p for p in grid], *edges)), IDEAL]
    across = [1000 * p for p in levels]
    paths += [(f"curve {m['role']}", line_path(across, [y(v) for v in m["share"]])) for m in methods]
    dots = [
        (
            f"spot {m['role']}",
            x.percent(level),
            y(v),
            3.0,
            f"{m['label']}: {percent(v)} inside the {percent(level)} band",
        )
        for m in methods
        for level, v in zip(levels, m["share"], strict=True)
    ]
    return _plot(title, f"{said}.", x, y, "promised by the band", "found inside it", paths=paths, dots=dots)


def reliability(part: Mapping[str, Any], title: str) -> Figure:
    """How often what was given a probability came true; bars are 95 % intervals of the share in each bin."""
    x, y = Shares(0.0, 1.0), Shares(0.0, 1.0, SQUARE, flip=True)
    said = "; ".join(
        f"{m['label']}: "
        + ", ".join(f"{percent(b['predicted'])} came true in {percent(b['observed'])}" for b in m["bins"])
        for m in part["methods"]
    )
    spans = []
    for k, method in enumerate(part["methods"]):
        for b in method["bins"]:
            at = x.percent(min(max(b["predicted"] + 0.006 * (2 * k - 1), 0.0), 1.0))
            words = f"{method['label']}: {b['n']} rows at {percent(b['predicted'])}"
            bar = ("bar", at, at, y(b["low"]), y(b["high"]))
            spans.append((method["role"], words, bar, (at, y(b["observed"]), 4.0), None))
    axes = "predicted probability", "share that came true"
    return _plot(title, f"{said}.", x, y, *axes, paths=[IDEAL], spans=spans)
