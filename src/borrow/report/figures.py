"""The figures of a report: each takes a part of the summary and returns inline SVG with its text alternative."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from borrow.report import svg
from borrow.report.svg import Element, Scale, add, number

#: Height of a row with a dot and an interval, and of one with two.
ROW, DOUBLE = 30.0, 36.0
#: Letters that fit into the margin to the left of a plot (the classes of the style sheet).
LETTERS, NARROW = 22, 17


def _known(*values: float | None) -> list[float]:
    return [v for v in values if v is not None and math.isfinite(v)]


def intervals(
    rows: Sequence[Mapping[str, Any]],
    name: str,
    title: str,
    axis: str,
    ends: tuple[str, str] | None = None,
    limits: tuple[float, float] | None = None,
) -> str:
    """Dots with intervals, one row each, around zero.

    A row has `label`, `value`, `low`, `high` (None where unknown), `role` (a class of the style sheet) and may have
    `other`: a second, hollow interval under the first. `ends` says what lies left and right of zero.
    """
    others = [row["other"] for row in rows if row.get("other")]
    shown = [v for row in [*rows, *others] for v in _known(row["value"], row["low"], row["high"])]
    scale = Scale(*limits) if limits else Scale.around([*shown, 0.0])
    top = 22.0 if ends else 4.0
    step = DOUBLE if others else ROW
    height = top + step * len(rows)
    said = "; ".join(f"{row['label']}: {_said(row)}" for row in rows)
    root = svg.canvas(height + 44.0, title, f"{axis}. {said}.", name)
    svg.bottom_axis(root, scale, height, axis, top=top)
    zero = scale.percent(0.0)
    add(root, "line", x1=zero, x2=zero, y1=top - 4.0, y2=height, class_="zero")
    if ends:
        room = scale(0.0), 100.0 - scale(0.0)
        if room[0] > 16:
            add(root, "text", f"\u2190 {ends[0]}", x=zero, dx="-8", y=11.0, text_anchor="end", class_="tick")
        if room[1] > 16:
            add(root, "text", f"{ends[1]} \u2192", x=zero, dx="8", y=11.0, class_="tick")
    for i, row in enumerate(rows):
        y = top + step * (i + 0.5)
        _name(root, y + 4.0, row["label"], row["role"])
        if row.get("other"):
            _interval(root, scale, y + 6.0, row["other"], 3.5)
            y -= 4.0
        _interval(root, scale, y, row, 5.0)
    return svg.markup(root)


def _name(root: Element, y: float, text: str, role: str) -> None:
    """A label in the margin: what fits on a desk, and where that is too long for a phone a shorter one."""
    place = {"dx": "-12", "text_anchor": "end"}
    short = svg.shortened(svg.text_of(text), NARROW)
    both = short != svg.shortened(svg.text_of(text), LETTERS)
    svg.label(root, "0", y, text, LETTERS, class_=f"name {role}{' wide' * both}", **place)
    if both:
        svg.label(root, "0", y, text, NARROW, class_=f"name {role} narrow", aria_hidden="true", **place)


def _interval(root: Element, scale: Scale, y: float, row: Mapping[str, Any], size: float) -> None:
    if not _known(row["value"]):
        add(root, "text", "not known", x=scale.percent(0.0), dx="8", y=y + 4.0, class_="tick")
        return
    group = add(root, "g", class_=f"mark {row['role']}")
    add(group, "title", f"{row['label']}: {_said(row)}")
    if len(_known(row["low"], row["high"])) == 2:
        low, high = scale.percent(row["low"]), scale.percent(row["high"])
        add(group, "line", x1=low, x2=high, y1=y, y2=y, class_="bar")
        for at in (low, high):
            add(group, "line", x1=at, x2=at, y1=y - size + 1.0, y2=y + size - 1.0, class_="cap")
    add(group, "circle", cx=scale.percent(row["value"]), cy=y, r=size, class_="dot")


def _said(row: Mapping[str, Any]) -> str:
    if not _known(row["value"]):
        return "not known"
    if len(_known(row["low"], row["high"])) < 2:
        return number(row["value"])
    return f"{number(row['value'])} ({number(row['low'])} to {number(row['high'])})"


def heat_map(tasks: Sequence[str], values: Sequence[Sequence[float | None]], name: str, title: str) -> str:
    """Correlations between tasks: blue where they rise together, orange where one falls as the other rises."""
    M = len(tasks)
    cell = 30.0 if M <= 14 else 22.0 if M <= 24 else 15.0
    top = 74.0
    pairs = [(abs(values[i][j] or 0.0), i, j) for i in range(M) for j in range(i)]
    text = f"Correlations between {M} tasks."
    if pairs:
        strongest = sorted(pairs, reverse=True)[:3]
        said = (f"{tasks[i]} and {tasks[j]} {number(values[i][j], 2)}" for _, i, j in strongest)
        text += f" Strongest: {'; '.join(said)}."
    root = svg.canvas(top + cell * M + 6.0, title, text, name)
    width = 100.0 / M
    for j, task in enumerate(tasks):
        at = add(root, "svg", x=f"{width * (j + 0.5):.3f}%", y=top - 8.0, overflow="visible", width="1", height="1")
        svg.label(at, "0", 0.0, task, 11, transform="rotate(-50)", class_="tick")
    for i, task in enumerate(tasks):
        y = top + cell * i
        _name(root, y + cell / 2 + 4.0, task, "plain")
        for j, value in enumerate(values[i]):
            group = add(root, "g")
            tip = f"{task}, {tasks[j]}: {'not known' if value is None else number(value, 2)}"
            add(group, "title", tip)
            box = {"x": f"{width * j:.3f}%", "y": y, "width": f"{width:.3f}%", "height": cell}
            add(group, "rect", class_="cell", **box)
            if value is not None:
                strength = min(abs(value), 1.0)
                sign = "plus" if value >= 0 else "minus"
                add(group, "rect", class_=f"heat {sign}", fill_opacity=round(0.9 * strength, 3), **box)
                if M <= 14 and i != j:
                    strong = " full" if strength > 0.85 else " strong" if strength > 0.7 else ""
                    shown = f"{100 * value:.0f}".replace("-", "\u2212").replace("\u22120", "0")
                    place = {"x": f"{width * (j + 0.5):.3f}%", "y": y + cell / 2 + 4.0}
                    add(group, "text", shown, text_anchor="middle", class_=f"value{strong}", **place)
    return svg.markup(root)


def curve(panel: Mapping[str, Any], name: str, title: str, feature: str, target: str, height: float = 240.0) -> str:
    """A prediction with its band over one input, and the measurements; beside it what no transfer says."""
    points, alone = panel.get("points") or {"x": [], "y": []}, panel.get("alone")
    drawn = [*panel["mean"], *points["y"], *(panel["low"] or []), *(panel["high"] or [])]
    core = [*panel["mean"], *points["y"]]
    if alone:
        core += alone["mean"]
        drawn += [*alone["mean"], *(alone["low"] or []), *(alone["high"] or [])]
    y = _capped(drawn, core, height)
    x = Scale.around([*panel["x"], *points["x"]], 0.02, length=1000.0)
    root = svg.canvas(height + 44.0, title, _curve_text(panel, feature, target), name, "tall")
    svg.bottom_axis(root, Scale(x.low, x.high), height, feature)
    svg.left_axis(root, y, target)
    layer = svg.stretched(root, height)
    across = [x(v) for v in panel["x"]]
    if alone:
        _band(layer, across, alone, y, "alone")
    _band(layer, across, panel, y, "borrowed")
    for u, v in zip(points["x"], points["y"], strict=True):
        dot = add(root, "circle", cx=x.percent(u), cy=y(v), r=3.2, class_="point")
        add(dot, "title", f"{feature} {number(u)}, {target} {number(v)}")
    return svg.markup(root)


def _capped(drawn: Sequence[float], core: Sequence[float], height: float) -> Scale:
    """The heights of a curve: everything, unless bands are far wider than what they are about."""
    low, high = min(core), max(core)
    room = 0.8 * (high - low) or max(abs(high), 1.0)
    low, high = max(min(drawn), low - room), min(max(drawn), high + room)
    return Scale.around([low, high], 0.07, length=height, flip=True)


def _band(layer: Element, across: list[float], series: Mapping[str, Any], y: Scale, role: str) -> None:
    if series["low"] is not None:
        edges = [[y(v) for v in series[edge]] for edge in ("low", "high")]
        add(layer, "path", d=svg.band_path(across, *edges), class_=f"band {role}")
        for edge in edges:
            add(layer, "path", d=svg.line_path(across, edge), class_=f"edge {role}")
    add(layer, "path", d=svg.line_path(across, [y(v) for v in series["mean"]]), class_=f"curve {role}")


def _curve_text(panel: Mapping[str, Any], feature: str, target: str) -> str:
    mean, x = panel["mean"], panel["x"]
    top, bottom = max(range(len(mean)), key=mean.__getitem__), min(range(len(mean)), key=mean.__getitem__)
    n = len((panel.get("points") or {"x": []})["x"])
    return (
        f"{target} as predicted over {feature} from {number(x[0])} to {number(x[-1])}: largest "
        f"{number(mean[top])} at {number(x[top])}, least {number(mean[bottom])} at {number(x[bottom])}; {n} "
        "measurements."
    )


def surface(part: Mapping[str, Any], field: str, name: str, title: str) -> str:
    """A number over two inputs: the deeper the colour, the larger; dots where the primary was measured."""
    height = 280.0
    values, (first, second) = part[field], part["features"]
    x, y = Scale(part["x"][0], part["x"][-1]), Scale(part["y"][0], part["y"][-1], height, flip=True)
    known = _known(*(v for row in values for v in row))
    low, high = min(known), max(known)
    text = f"{title} over {first} and {second}: from {number(low)} to {number(high)}."
    root = svg.canvas(height + 44.0, title, text, name, "tall")
    rows, columns = len(values), len(values[0])  # evenly spaced: one unit a cell, so that neighbours share their edge
    box = f"0 0 {columns} {rows}"
    layer = add(root, "svg", width="100%", height=height, viewBox=box, preserveAspectRatio="none")
    for i, row in enumerate(values):  # row i lies between y[i] and y[i + 1], the first at the bottom
        for j, value in enumerate(row):
            share = 0.5 if high == low else (value - low) / (high - low)
            place = {"x": j, "y": rows - 1 - i, "width": 1, "height": 1}
            add(layer, "rect", class_=f"surface {field}", fill_opacity=round(0.06 + 0.9 * share, 3), **place)
    svg.bottom_axis(root, x, height, first, top=height)
    svg.left_axis(root, y, second, grid=False)
    for u, v in zip(part["points"]["x"], part["points"]["y"], strict=True):
        add(root, "circle", cx=x.percent(u), cy=y(v), r=3.2, class_="point ringed")
    return svg.markup(root)


def colour_bar(low: float, high: float, field: str, name: str) -> str:
    """What the depths of colour of a surface mean."""
    root = svg.canvas(34.0, "Scale of the colours", f"From {number(low)} to {number(high)}.", name)
    layer = add(root, "svg", width="100%", height="12", viewBox="0 0 20 1", preserveAspectRatio="none")
    for k in range(20):
        place = {"x": k, "width": 1, "y": 0, "height": 1}
        add(layer, "rect", class_=f"surface {field}", fill_opacity=round(0.06 + 0.9 * (k + 0.5) / 20, 3), **place)
    add(root, "text", number(low), x="0%", y=28.0, class_="tick")
    add(root, "text", number((low + high) / 2), x="50%", y=28.0, text_anchor="middle", class_="tick")
    add(root, "text", number(high), x="100%", y=28.0, text_anchor="end", class_="tick")
    return svg.markup(root)


def coverage(part: Mapping[str, Any], name: str, title: str) -> str:
    """Share of held-out measurements inside the band, against what the band promised; the grey lens is chance."""
    height = 260.0
    x, y = Scale(0.0, 1.0), Scale(0.0, 1.0, height, flip=True)
    said = "; ".join(
        f"{m['label']}: {_percent(_at(part['levels'], m['share'], 0.9))} inside the 90 % band" for m in part["methods"]
    )
    root = svg.canvas(height + 44.0, title, f"{said}.", name, "square")
    _percent_axes(root, x, y, height, "promised by the band", "found inside it")
    layer = svg.stretched(root, height)
    grid = [k / 40 for k in range(41)]
    lens = [1.96 * math.sqrt(p * (1 - p) / part["n"]) for p in grid]
    edges = [[y(min(max(p + s * e, 0.0), 1.0)) for p, e in zip(grid, lens, strict=True)] for s in (-1, 1)]
    add(layer, "path", d=svg.band_path([1000 * p for p in grid], *edges), class_="chance")
    add(layer, "path", d=svg.line_path([0.0, 1000.0], [height, 0.0]), class_="ideal")
    for method in part["methods"]:
        across = [1000 * p for p in part["levels"]]
        add(layer, "path", d=svg.line_path(across, [y(v) for v in method["share"]]), class_=f"curve {method['role']}")
        for level, share in zip(part["levels"], method["share"], strict=True):
            tip = f"{method['label']}: {_percent(share)} inside the {_percent(level)} band"
            dot = add(root, "circle", cx=x.percent(level), cy=y(share), r=3.0, class_=f"spot {method['role']}")
            add(dot, "title", tip)
    return svg.markup(root)


def reliability(part: Mapping[str, Any], name: str, title: str) -> str:
    """How often what was given a probability came true; bars are 95 % intervals of the share in each bin."""
    height = 260.0
    x, y = Scale(0.0, 1.0), Scale(0.0, 1.0, height, flip=True)
    said = "; ".join(
        f"{m['label']}: "
        + ", ".join(f"{_percent(b['predicted'])} came true in {_percent(b['observed'])}" for b in m["bins"])
        for m in part["methods"]
    )
    root = svg.canvas(height + 44.0, title, f"{said}.", name, "square")
    _percent_axes(root, x, y, height, "predicted probability", "share that came true")
    layer = svg.stretched(root, height)
    add(layer, "path", d=svg.line_path([0.0, 1000.0], [height, 0.0]), class_="ideal")
    for k, method in enumerate(part["methods"]):
        for b in method["bins"]:
            at = x.percent(min(max(b["predicted"] + 0.006 * (2 * k - 1), 0.0), 1.0))
            group = add(root, "g", class_=f"mark {method['role']}")
            add(group, "title", f"{method['label']}: {b['n']} rows at {_percent(b['predicted'])}")
            add(group, "line", x1=at, x2=at, y1=y(b["low"]), y2=y(b["high"]), class_="bar")
            add(group, "circle", cx=at, cy=y(b["observed"]), r=4.0, class_="dot")
    return svg.markup(root)


def _percent_axes(root: Element, x: Scale, y: Scale, height: float, across: str, up: str) -> None:
    for k in range(0, 101, 25):
        at, v = x.percent(k / 100), y(k / 100)
        add(root, "line", x1=at, x2=at, y1=0.0, y2=height, class_="grid")
        add(root, "line", x1="0%", x2="100%", y1=v, y2=v, class_="grid")
        add(root, "text", f"{k} %", x=at, y=height + 16.0, text_anchor="middle", class_="tick")
        add(root, "text", f"{k} %", x="0", dx="-8", y=v + 4.0, text_anchor="end", class_="tick")
    add(root, "text", across, x="100%", y=height + 34.0, text_anchor="end", class_="axis")
    add(root, "text", up, x="0", dx="-40", y=-14.0, class_="axis")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _at(levels: Sequence[float], shares: Sequence[float], level: float) -> float:
    return shares[min(range(len(levels)), key=lambda i: abs(levels[i] - level))]
