"""The parts of the page that show a fitted model and how the page was made; see `sections` for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from borrow.report import figures
from borrow.report.sections import Block, aligned, facts, figure, percent, section, table, whole
from borrow.report.svg import number, text_of

ALONE = {"role": "alone", "label": "no transfer"}


def predictions_section(part: Mapping[str, Any], name: Iterator[str]) -> Block:
    """What the model says: curves, maps or effects, as the number of inputs allows."""
    blocks = {"curve": _curves, "map": _maps, "effects": _effects}[part["form"]](part, name)
    if part["notes"]:
        blocks.append({"kind": "list", "entries": part["notes"]})
    return section(next(name).replace("figure", "part"), part["heading"], part["lead"], blocks)


def _legend(part: Mapping[str, Any], alone: bool, points: bool) -> list[Block]:
    shown: list[Block] = [{"role": "borrowed", "label": part["label"]}]
    if alone:
        shown.append(ALONE)
    if points:
        shown.append({"role": "point", "label": "measured"})
    return shown


def _curves(part: Mapping[str, Any], name: Iterator[str]) -> list[Block]:
    first, *rest = part["panels"]
    feature, target = part["feature"], part["target"]
    title = f"Prediction of {target} for {first['task']}"
    legend = _legend(part, bool(first.get("alone")), bool(first["points"]["x"]))
    drawn = figures.curve(first, next(name), title, feature, target)
    blocks = [figure(drawn, part["caption"], "tall", legend=legend, table=_curve_table(first, feature))]
    small = []
    for panel in rest:
        title = f"Prediction of {target} for {panel['task']}"
        drawn = figures.curve(panel, next(name), title, feature, target, 130.0)
        small.append(figure(drawn, "", "tall", heading=panel["task"]))
    if small:
        blocks.append({"kind": "group", "classes": "many", "figures": small})
    return blocks


def _curve_table(panel: Mapping[str, Any], feature: str, most: int = 13) -> Block:
    step = max(1, (len(panel["x"]) - 1) // (most - 1))
    names = ("low", "high") if panel["low"] is not None else ()
    rows = [
        {"x": panel["x"][i], "mean": panel["mean"][i], **{n: panel[n][i] for n in names}}
        for i in range(0, len(panel["x"]), step)
    ]
    write = aligned(rows, "mean", "low", "high")
    columns: list[tuple[str, str, Any]] = [(feature, "x", aligned(rows, "x")), ("prediction", "mean", write)]
    columns += [(n, n, write) for n in names]
    return table("Some points of the curve.", columns, rows)


def _maps(part: Mapping[str, Any], name: Iterator[str]) -> list[Block]:
    drawn = []
    for field, heading in (("mean", part["mean_heading"]), ("std", part["std_heading"])):
        if part.get(field) is None:
            continue
        flat = [v for row in part[field] for v in row]
        bar = figures.colour_bar(min(flat), max(flat), field, next(name))
        drawing = figures.surface(part, field, next(name), heading)
        drawn.append(figure(drawing, "", "tall", heading=heading, bar=bar, classes="map"))
    rows = part["corners"]
    columns: list[tuple[str, str, Any]] = [(f, str(i), number) for i, f in enumerate(part["features"])]
    columns += [(w, f, number) for w, f in (("prediction", "mean"), ("\u00b1", "std")) if rows[0].get(f) is not None]
    numbers = table("Some points of the map.", columns, rows)
    drawn[-1]["table"] = numbers
    return [{"kind": "group", "classes": "two", "figures": drawn}, {"kind": "text", "text": part["caption"]}]


def _effects(part: Mapping[str, Any], name: Iterator[str]) -> list[Block]:
    blocks: list[Block] = []
    if part["switches"]:
        rows = []
        for r in part["switches"]:
            clear = r["low"] is not None and (r["low"] > 0 or r["high"] < 0)
            alone = r.get("alone")
            other = alone and {**alone, "label": "no transfer", "role": "alone"}
            role = "judged" if clear else "unsure"
            rows.append({**r, "label": r["feature"], "role": role, "other": other})
        axis = f"change in {part['target']}"
        drawn = figures.intervals(rows, next(name), "Effect of each input with two values", axis)
        columns: list[tuple[str, str, Any]] = [("input", "feature", None), ("from", "from", None), ("to", "to", None)]
        write = aligned(part["switches"], "value", "low", "high")
        columns += [("effect", "value", write), ("low", "low", write), ("high", "high", write)]
        numbers = table("Average change between the two values of an input.", columns, part["switches"])
        legend = _legend(part, any(r["other"] for r in rows), False)
        blocks.append(figure(drawn, part["switch_caption"], "named", legend=legend, table=numbers))
    small = []
    for panel in part["curves"]:
        title = f"Average {part['target']} over {panel['feature']}"
        drawn = figures.curve(panel, next(name), title, panel["feature"], part["target"], 150.0)
        small.append(figure(drawn, "", "tall", heading=panel["feature"], table=_curve_table(panel, panel["feature"])))
    if small:
        blocks.append({"kind": "group", "classes": "many", "figures": small})
        blocks.append({"kind": "text", "text": part["curve_caption"]})
    return blocks


def calibration_section(part: Mapping[str, Any], name: Iterator[str], primary: str | None) -> Block:
    """Do bands and probabilities mean what they say?"""
    title = "Promised and found"
    blocks: list[Block] = []
    legend = [{"role": m["role"], "label": m["label"]} for m in part["methods"]]
    if part["form"] == "coverage":
        drawn = figures.coverage(part, next(name), title)
        names = [m["method"] for m in part["all"]]
        rows = [
            {"level": level, **{n: m["share"][i] for n, m in zip(names, part["all"], strict=True)}}
            for i, level in enumerate(part["levels"])
        ]
        columns: list[tuple[str, str, Any]] = [("band", "level", percent)]
        columns += [(m["label"], m["method"], percent) for m in part["all"]]
        numbers = table("Share of held-out rows inside each band.", columns, rows)
    else:
        drawn = figures.reliability(part, next(name), title)
        rows = [{"label": m["label"], **b} for m in part["all"] for b in m["bins"]]
        columns = [("method", "label", None), ("predicted", "predicted", percent), ("came true", "observed", percent)]
        columns += [("low", "low", percent), ("high", "high", percent), ("rows", "n", whole)]
        numbers = table("Predictions by probability, and how often they came true.", columns, rows)
    blocks.append(figure(drawn, part["caption"], "square", legend=legend, table=numbers))
    heading = "Can the bands be trusted" if part["form"] == "coverage" else "Can the probabilities be trusted"
    heading += f" for {primary}?" if primary else "?"
    return section(next(name).replace("figure", "part"), heading, part["lead"], blocks)


def suggestions_section(part: Mapping[str, Any], name: Iterator[str]) -> Block:
    """What to measure next."""
    rows = [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]
    writes = {
        c: _writer(rows, c) if numeric else None for c, numeric in zip(part["columns"], part["numeric"], strict=True)
    }
    columns: list[tuple[str, str, Any]] = [(c.replace("_", " "), c, writes[c]) for c in part["columns"]]
    block = table(part["caption"], columns, rows)
    return section(next(name).replace("figure", "part"), "What to measure next", part["lead"], [block])


def _writer(rows: list[dict[str, Any]], column: str) -> Any:
    return whole if all(float(row[column] or 0).is_integer() for row in rows) else aligned(rows, column)


def made_section(made: Mapping[str, Any], name: Iterator[str]) -> Block:
    """How the page was made."""
    blocks: list[Block] = []
    if made["command"]:
        blocks.append({"kind": "code", "text": text_of(made["command"])})
    pairs: list[tuple[str, Any]] = []
    for title, key in (("data", "digest"), ("seed", "seed"), ("cross-validation", "cv"), ("model", "model")):
        if made[key] is not None:
            pairs.append((title, made[key]))
    if made["seconds"] is not None:
        pairs.append(("processor time", f"{number(made['seconds'], 3)} s, summed over the fits"))
    pairs.append(("versions", ", ".join(f"{k} {v}" for k, v in made["versions"].items())))
    pairs.append(("written", made["written"]))
    blocks.append(facts("", pairs, code=("data", "model")))
    if made["warnings"]:
        blocks.append({"kind": "text", "text": "Warnings along the way:"})
        blocks.append({"kind": "list", "entries": [f"{w['text']} ({w['times']}\u00d7)" for w in made["warnings"]]})
    lead = "What is needed to make these numbers again. The digest is of the data as they were read."
    return section(next(name).replace("figure", "part"), "How this was made", lead, blocks)
