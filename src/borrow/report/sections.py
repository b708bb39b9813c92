"""From the summary to what the page shows: words, tables and figures, in order. No number is computed here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from borrow.report import figures
from borrow.report.svg import number, text_of

Block = dict[str, Any]
#: Primaries that get sections of their own.
MOST_DETAILS = 8
BADGES = {"helps": "Helps", "hurts": "Hurts", "cannot tell": "Cannot tell"}


def percent(share: float | None) -> str:
    """A share in whole per cents."""
    return "\u2013" if share is None else f"{100 * share:.0f} %"


def count(n: int, one: str, many: str | None = None) -> str:
    """A number and its noun."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def whole(value: float | None) -> str:
    """A count."""
    return "\u2013" if value is None else f"{value:,.0f}"


def hundredths(value: float | None) -> str:
    """Two decimals."""
    return aligned([{"v": 0.1}], "v")(value)


def aligned(rows: Sequence[Mapping[str, Any]], *fields: str, least: int = 0) -> Callable[[float | None], str]:
    """How to write the numbers of these columns so that points stand under points and most have two digits."""
    sizes = sorted(abs(v) for row in rows for f in fields if (v := row.get(f)))
    if not sizes or sizes[-1] >= 1e6 or sizes[-1] < 1e-4:
        return number
    decimals = min(max(1 - math.floor(math.log10(sizes[len(sizes) // 4])), least), 6)

    def write(value: float | None) -> str:
        shown = "\u2013" if value is None else f"{value:,.{decimals}f}".replace("-", "\u2212")
        return shown.removeprefix("\u2212") if not shown.strip("\u22120.") else shown  # no minus before nothing

    return write


def cell(text: Any, label: str, sort: float | str | None = "text", classes: str = "", code: bool = False) -> Block:
    """One cell; `sort` is the number to sort by (None: missing, last), or "text" to sort by what it shows."""
    key = None if sort == "text" else "" if sort is None else sort
    return {"text": text_of(text), "label": label, "sort": key, "classes": classes, "code": code}


def table(
    caption: str, columns: Sequence[tuple[str, str, Callable[[Any], str] | None]], rows: Any, **more: Any
) -> Block:
    """A table that sorts. A column is (its name, the field of a row, how its numbers are written or None for text).

    `judged` is called with a row and says whether it stands out; `note` gives a word beside the first cell.
    """
    judged, note = more.get("judged") or (lambda row: False), more.get("note") or (lambda row: "")
    lines = []
    for row in rows:
        cells = []
        for name, field, write in columns:
            value = row.get(field)
            if write is None:
                shown = "\u2013" if value is None else str(value)
                cells.append(cell(shown, name, classes="words" if len(shown) > 24 else ""))
            else:
                cells.append(cell(write(value), name, value, "number"))
        lines.append({"cells": cells, "classes": "judged" if judged(row) else "", "note": note(row)})
    heads = [{"label": name, "numeric": i > 0 and write is not None} for i, (name, _, write) in enumerate(columns)]
    return {"kind": "table", "caption": caption, "columns": heads, "rows": lines, "sortable": True}


def facts(caption: str, pairs: Sequence[tuple[str, Any]], code: Sequence[str] = ()) -> Block:
    """A table of names and values that does not sort."""
    rows = [
        {"cells": [cell(name, ""), cell(value, name, code=name in code)], "classes": "", "note": ""}
        for name, value in pairs
    ]
    return {"kind": "table", "caption": caption, "columns": [], "rows": rows, "sortable": False}


def figure(svg: str, caption: str = "", margin: str = "", **more: Any) -> Block:
    """A figure with what stands around it."""
    empty: Block = {"heading": "", "legend": [], "table": None, "bar": "", "classes": ""}
    return {"kind": "figure", "svg": svg, "caption": caption, "margin": margin, **empty, **more}


def section(id_: str, heading: str, lead: str, blocks: Sequence[Block]) -> Block:
    """A part of the page."""
    return {"id": id_, "heading": heading, "lead": lead, "blocks": list(blocks)}


def verdicts(summary: Mapping[str, Any]) -> list[Block]:
    """What stands on top: one verdict, or how many of each where every task was judged in turn."""
    judged = [part for part in summary["parts"] if part.get("verdict")]
    if not judged:
        model = summary["model"] or {}
        return [
            {
                "role": "",
                "question": f"{model.get('class', 'A model')} of {summary['data']['target'] or 'a target'}",
                "badge": "Not compared",
                "sentence": "This page shows what the model learnt; whether the other data helped was not measured.",
                "interval": "",
                "advice": ["Run borrow compare on the data to find out whether borrowing helps the task that matters."],
            }
        ]
    if len(judged) == 1:
        verdict, primary = judged[0]["verdict"], judged[0]["primary"]
        return [
            {
                "role": verdict["answer"].replace(" ", "-"),
                "question": "Does the data of the other tasks help to predict "
                f"\u201c{summary['data']['target']}\u201d for \u201c{primary}\u201d?",
                "badge": BADGES[verdict["answer"]],
                "sentence": verdict["headline"],
                "interval": verdict["interval"],
                "advice": verdict["advice"],
            }
        ]
    tally = {answer: [p["primary"] for p in judged if p["verdict"]["answer"] == answer] for answer in BADGES}
    said = f"Borrowing helps {len(tally['helps'])} of {count(len(judged), 'task')}"
    said += f", hurts {len(tally['hurts'])}, and for {len(tally['cannot tell'])} the data cannot tell."
    role = (
        "helps" if tally["helps"] and not tally["hurts"] else "hurts" if tally["hurts"] and not tally["helps"] else ""
    )
    advice = [
        f"{name}: {p['verdict']['advice'][0]}" for p in judged if p["verdict"]["advice"] for name in [p["primary"]]
    ]
    return [
        {
            "role": role,
            "question": f"Does the data of the other tasks help to predict \u201c{summary['data']['target']}\u201d? "
            "Every task in turn.",
            "badge": "Every task",
            "sentence": said,
            "interval": "",
            "advice": advice[:6],
        }
    ]


def headline_facts(summary: Mapping[str, Any]) -> list[Block]:
    """A line of figures under the verdict."""
    data = summary["data"]
    pairs: list[tuple[str, Any]] = []
    if len(summary["parts"]) == 1:
        pairs.append((f"rows of {summary['parts'][0]['primary']}", f"{summary['parts'][0]['rows']:,}"))
    if data["tasks"]:
        rows = sum(t["rows"] or 0 for t in data["tasks"])
        names = {p["primary"] for p in summary["parts"]} if len(summary["parts"]) == 1 else set()
        others = [t for t in data["tasks"] if t["task"] not in names]
        if names:
            n = sum(t["rows"] or 0 for t in others)
            pairs.append(("other tasks", count(len(others), "task") + (f", {n:,} rows" if n else "")))
        else:
            pairs.append(("tasks", f"{len(others):,}" + (f", {rows:,} rows" if rows else "")))
    if data["features"]:
        pairs.append(("inputs", count(len(data["features"]), "column")))
    if data["cv"]:
        pairs.append(("cross-validation", data["cv"]))
    return [{"label": text_of(a), "text": text_of(b)} for a, b in pairs]


def comparison_section(part: Mapping[str, Any], kind: str, name: Iterator[str], many: bool) -> Block:
    """The methods against no transfer: dots with intervals, then the table."""
    comparison = part["comparison"]
    level, score = percent(comparison["level"]), comparison["score"]
    chosen = (part["verdict"] or {}).get("method")
    rows = [
        {
            "label": r["label"],
            "value": r["difference"],
            "low": r["low"],
            "high": r["high"],
            "role": "judged" if r["method"] == chosen else "plain",
        }
        for r in comparison["rows"]
        if r["method"] != "single"
    ]
    blocks: list[Block] = []
    if rows:
        axis = "difference in error from no transfer"
        title = f"Difference of each method from no transfer, {part['primary']}"
        drawn = figures.intervals(rows, next(name), title, axis, ("less error", "more error"))
        caption = (
            f"Dots: {score} less that of no transfer, averaged over the folds. Bars: intervals that hold together "
            f"with {level} and account for folds that share rows. Where a bar crosses the line, the folds do not "
            "show a difference."
        )
        blocks.append(figure(drawn, caption, "named"))
    errors = aligned(comparison["rows"], "error", "std_error", "difference", "low", "high")
    columns: list[tuple[str, str, Any]] = [
        ("method", "label", None),
        ("error", "error", errors),
        ("\u00b1", "std_error", errors),
        ("difference", "difference", errors),
        ("low", "low", errors),
        ("high", "high", errors),
        ("log density", "log_density", aligned(comparison["rows"], "log_density")),
    ]
    if kind == "regression":
        columns.append(("in 90 % band", "coverage", percent))
    else:
        columns.append(("too sure by", "calibration", aligned(comparison["rows"], "calibration")))
    columns.append(("seconds", "seconds", aligned(comparison["rows"], "seconds")))
    sure = "" if kind == "regression" else " too sure by is mean confidence less share of right answers;"
    caption = (
        f"Error: {score}, on rows that the method had not seen; \u00b1 is its standard error. Difference: from no "
        f"transfer, with an interval; all intervals of the table hold together with {level}. Log density: per row, "
        f"higher is better;{sure} seconds: processor time of all fits."
    )
    mark = {"judged": lambda r: r["method"] == chosen, "note": lambda r: "judged" if r["method"] == chosen else ""}
    blocks.append(table(caption, columns, comparison["rows"], **mark))
    if comparison["notes"]:
        blocks.append({"kind": "list", "entries": comparison["notes"]})
    heading = f"Comparison for {part['primary']}" if many else "Comparison"
    return section(next(name).replace("figure", "part"), heading, comparison["lead"], blocks)


def secondaries_section(part: Mapping[str, Any], name: Iterator[str], many: bool) -> Block:
    """Which of the other tasks carry the gain."""
    rows = part["secondaries"]
    drawn: list[Block] = []
    related = [
        {
            "label": r["task"],
            "value": r["correlation"],
            "low": r["correlation_low"],
            "high": r["correlation_high"],
            "role": "judged" if r["clear"] else "unsure",
        }
        for r in rows["rows"]
        if r["correlation"] is not None
    ][: rows["shown"]]
    if related:
        caption = rows["correlation_caption"]
        title = f"Correlation of each task with {part['primary']}"
        limits = (-1.05, 1.05)
        svg = figures.intervals(related, next(name), title, "correlation with the primary", None, limits)
        drawn.append(figure(svg, caption, "named", heading="How related"))
    gains = [
        {
            "label": r["task"],
            "value": r["gain"],
            "low": r["low"],
            "high": r["high"],
            "role": "judged" if r["low"] is not None and r["low"] > 0 else "unsure",
        }
        for r in rows["rows"]
        if r["gain"] is not None
    ][: rows["shown"]]
    if gains:
        title = f"Loss of accuracy for {part['primary']} when a task is left out"
        svg = figures.intervals(gains, next(name), title, "more error without it", ("no use", "of use"))
        drawn.append(figure(svg, rows["gain_caption"], "named", heading="What is lost without it"))
    columns: list[tuple[str, str, Any]] = [("task", "task", None), ("rows", "rows", whole)]
    gain = aligned(rows["rows"], "gain", "low", "high")
    optional = [
        ("rho", "rho", aligned(rows["rows"], "rho", least=2)),
        ("correlation", "correlation", hundredths),
        ("\u00b1", "std_error", aligned(rows["rows"], "std_error", least=2)),
        ("shared", "share", percent),
        ("lost without it", "gain", gain),
        ("low", "low", gain),
        ("high", "high", gain),
    ]
    columns += [c for c in optional if any(r.get(c[1]) is not None for r in rows["rows"])]
    blocks: list[Block] = []
    if drawn:
        blocks.append({"kind": "group", "classes": "two" if len(drawn) > 1 else "", "figures": drawn})
    blocks.append(table(rows["caption"], columns, rows["rows"]))
    heading = f"Who is related to {part['primary']}" if many else "Which of the other tasks carry it"
    return section(next(name).replace("figure", "part"), heading, rows["lead"], blocks)


def covariance_section(covariance: Mapping[str, Any], name: Iterator[str]) -> Block:
    """The heat map of correlations between tasks."""
    tasks, values = covariance["tasks"], covariance["values"]
    rows = [{"task": t, **{str(j): values[i][j] for j in range(len(tasks))}} for i, t in enumerate(tasks)]
    columns: list[tuple[str, str, Any]] = [("task", "task", None)]
    columns += [(t, str(j), hundredths) for j, t in enumerate(tasks)]
    numbers = table("Correlations between tasks.", columns, rows) if len(tasks) <= 14 else None
    drawn = figures.heat_map(tasks, values, next(name), "Correlations between tasks")
    block = figure(drawn, covariance["caption"], "named heat", table=numbers)
    return section(next(name).replace("figure", "part"), "How the tasks hang together", covariance["lead"], [block])


def detailed(parts: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The primaries whose sections are shown, in the order given: all, or of many those with the clearest answers."""

    def clear(part: Mapping[str, Any]) -> float:
        low, high = ((part["verdict"] or {}).get(k) for k in ("low", "high"))
        if low is None or high is None or high <= low:
            return 0.0
        return abs(low + high) / (high - low)  # the distance from zero in half widths

    first = sorted(range(len(parts)), key=lambda i: -clear(parts[i]))[:MOST_DETAILS]
    return [parts[i] for i in sorted(first)]


def overview_section(parts: Sequence[Mapping[str, Any]], name: Iterator[str]) -> Block:
    """One line a task, where every task was judged in turn."""
    rows = [
        {
            "primary": p["primary"],
            "rows": p["rows"],
            "answer": BADGES[p["verdict"]["answer"]].lower(),
            "method": p["verdict"]["label"],
            **{k: p["verdict"][k] for k in ("difference", "low", "high")},
        }
        for p in parts
        if p["verdict"]
    ]
    drawn = [
        {
            "label": r["primary"],
            "value": r["difference"],
            "low": r["low"],
            "high": r["high"],
            "role": _role(r["answer"]),
        }
        for r in rows
    ]
    errors = aligned(rows, "difference", "low", "high")
    axis = "difference in error from no transfer"
    svg = figures.intervals(drawn, next(name), "Difference from no transfer, every task", axis, ("less", "more error"))
    columns: list[tuple[str, str, Any]] = [
        ("task", "primary", None),
        ("rows", "rows", whole),
        ("borrowing", "answer", None),
        ("method", "method", None),
        ("difference", "difference", errors),
        ("low", "low", errors),
        ("high", "high", errors),
    ]
    caption = "Filled dots: borrowing helps or hurts. Hollow dots: the folds cannot tell."
    blocks = [figure(svg, caption, "named"), table("Every task as the one that matters.", columns, rows)]
    lead = ""
    if len(parts) > MOST_DETAILS:
        lead = f"Details follow for {MOST_DETAILS} of {len(parts)} tasks, those with the clearest answers."
    return section(next(name).replace("figure", "part"), "Every task in turn", lead, blocks)


def _role(answer: str) -> str:
    return "unsure" if answer == "cannot tell" else "judged"
