"""One self-contained HTML page from a summary: sections, then a Jinja2 template that escapes everything.

No number is computed here. A section is a heading, a lead and blocks, each with the name that the template knows it by:
`text`, `list` and `code`; `facts`, pairs of names and values; `table`; `figure` and `group`, one or several figures.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from borrow.data.labels import counted
from borrow.data.plain import to_json
from borrow.numerics.files import write_atomically
from borrow.report import svg
from borrow.report.content import check
from borrow.report.format import aligned, hundredths, number, percent, text_of, whole, with_decimals

Part = Mapping[str, Any]
Block = dict[str, Any]
#: Name of a column, the field of a row that it shows, and how its numbers are written (None for text).
Column = tuple[str, str, Callable[[Any], str] | None]
#: Primaries that get sections of their own; advice where every task was judged in turn; points of a curve in its table.
MOST_DETAILS, MOST_ADVICE, MOST_POINTS = 8, 6, 13
#: What stands on top for each answer; its colour.
BADGES = {
    "helps": ("Helps", "helps"),
    "probably helps": ("Probably helps", "helps"),
    "no practical difference": ("No practical difference", "cannot-tell"),
    "cannot tell": ("Cannot tell", "cannot-tell"),
    "probably hurts": ("Probably hurts", "hurts"),
    "hurts": ("Hurts", "hurts"),
}


def write(path: str | os.PathLike[str], summary: Part) -> Path:
    """Write the page; what was there before is replaced in one step, when the page is complete.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.SingleTaskGPRegressor(optimizer=None).fit(X, y, tasks=tasks)
    >>> summary = borrow.report.summary(model=model, target="level")
    >>> import tempfile, pathlib
    >>> page = borrow.report.write(pathlib.Path(tempfile.mkdtemp()) / "level.html", summary)
    >>> page.name
    'level.html'
    """
    target = Path(path)
    page = render(summary)
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder; give the name of an HTML file in it")
    try:
        write_atomically(target, page.encode())
    except OSError as error:
        raise OSError(
            f"cannot write the report to {str(target)!r} ({error.strerror or error}); give another path"
        ) from error
    return target


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The summary inside a page that `write` made.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.SingleTaskGPRegressor(optimizer=None).fit(X, y, tasks=tasks)
    >>> summary = borrow.report.summary(model=model, target="level")
    >>> import tempfile, pathlib
    >>> page = borrow.report.write(pathlib.Path(tempfile.mkdtemp()) / "level.html", summary)
    >>> borrow.report.read(page) == summary
    True
    """
    try:
        page = Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is no report of borrow: it is not text") from None
    found = re.search(r'<script type="application/json" id="summary">([^<]*)</script>', page)
    if found is None:
        raise ValueError(
            f"{str(path)!r} is no report of borrow: it holds no summary; give a page made by borrow report"
        )
    try:
        content = json.loads(found[1])
    except json.JSONDecodeError as error:
        raise ValueError(f"the summary in {str(path)!r} is damaged ({error}); make the report again") from None
    check(content)
    return dict(content)


def render(summary: Part) -> str:
    """The whole page as text. Needs Jinja2, which `borrow[app]` brings.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.SingleTaskGPRegressor(optimizer=None).fit(X, y, tasks=tasks)
    >>> summary = borrow.report.summary(model=model, target="level")
    >>> borrow.report.render(summary)[:15]
    '<!doctype html>'
    """
    try:
        import jinja2
        from markupsafe import Markup
    except ModuleNotFoundError as absent:
        raise ModuleNotFoundError(
            f"a report needs {absent.name}, which is not installed: pip install 'borrow[app]'", name=absent.name
        ) from None
    check(summary)
    summary = to_json(summary, text=text_of)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    shown, ids = _sections(summary), itertools.count(1)
    for part in shown:  # ids owe nothing to the data
        drawn = [f for kind, content in part["blocks"] if kind.startswith(("figure", "group")) for f in content]
        for f, name in itertools.product(drawn, ("bar", "svg")):
            if f[name] is not None:  # built as a tree: text is text
                f[name] = Markup(svg.markup(f[name], f"figure-{next(ids)}"))
        part["id"] = f"part-{next(ids)}"
    style, script = _file("report.css"), _file("report.js")
    # JSON that no text inside can end: no <, > or & is left in it.
    data = json.dumps(summary, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    data = data.translate({ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"})
    return environment.from_string(_file("report.html.j2")).render(
        version=summary["borrow"],
        verdict={
            k: [_coded(a) for a in v] if k == "advice" else v.replace(" %", "\u00a0%")
            for k, v in verdict(summary).items()
        },
        numbers=numbers_of(summary),
        sections=shown,
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
        data=Markup(data),
    )


def _coded(text: str) -> list[tuple[bool, list[str]]]:
    """A sentence in parts, each with whether it is a call to copy, and in pieces after which a line may end."""
    parts = re.split(r"(borrow\.\w+\([^()]*\)|\b\w+=True\b)", text)
    return [(i % 2 == 1, re.split(r"(?<=[(,])", part) if i % 2 else [part]) for i, part in enumerate(parts) if part]


def _file(name: str) -> str:
    return resources.files("borrow.report").joinpath("template", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def verdict(summary: Part) -> Block:
    """What stands on top, and the title: one verdict, or how many of each where every task was judged in turn."""
    judged, target = [p for p in summary["parts"] if p["verdict"]], summary["data"]["target"]
    question = f"Does the data of the other tasks help to predict \u201c{target}\u201d"
    if not judged:
        unsaid = "This page shows what the model learnt; whether the other data helped was not measured."
        left = summary.get("left_out")
        return {
            "title": target or "Report",
            "role": "",
            "question": f"{(summary['model'] or {}).get('class', 'A model')} of {target or 'a target'}",
            "badge": "Not compared",
            "sentence": left["sentence"] if left else unsaid,
            "interval": unsaid if left else "",
            "advice": ["Run borrow compare on the data to find out whether borrowing helps the task that matters."],
        }
    if len(judged) == 1:
        found, primary = judged[0]["verdict"], judged[0]["primary"]
        unseen = summary["data"].get("unseen") == "population"
        return {
            "title": f"{primary}: {found['answer']}",
            "role": BADGES[found["answer"]][1],
            "question": f"How well is \u201c{target}\u201d predicted for {primary}, one that was never seen?"
            if unseen
            else f"{question} for \u201c{primary}\u201d?",
            "badge": BADGES[found["answer"]][0],
            "sentence": found["headline"],
            "interval": found["interval"],
            "advice": found["advice"],
        }
    roles = [BADGES[p["verdict"]["answer"]][1] for p in judged]
    helps, hurts, open_ = (roles.count(role) for role in ("helps", "hurts", "cannot-tell"))
    return {
        "title": target or "Report",
        "role": "helps" if helps and not hurts else "hurts" if hurts and not helps else "",
        "question": f"{question}? Every task in turn.",
        "badge": "Every task",
        "sentence": f"Borrowing helps or probably helps {helps} of {counted(len(judged), 'task')}, hurts or probably "
        f"hurts {hurts}, and for {open_} the data cannot tell or there is no practical difference.",
        "interval": "",
        "advice": [f"{p['primary']}: {a}" for p in judged for a in p["verdict"]["advice"][:1]][:MOST_ADVICE],
    }


def numbers_of(summary: Part) -> list[tuple[str, str]]:
    """A line of figures under the verdict."""
    data, parts = summary["data"], summary["parts"]
    mine = parts[0]["primary"] if len(parts) == 1 else None
    others = [t["rows"] or 0 for t in data["tasks"] if t["task"] != mine]
    rows = f", {sum(others):,} rows" if any(others) else ""
    unseen = data.get("unseen") == "population"
    known = [
        ("tasks", f"{len(others):,}{rows}" if mine is None else None),
        (f"rows of {mine}", None if mine is None or unseen else whole(parts[0]["rows"])),
        (
            "tasks held out in turn" if unseen else "other tasks",
            None if mine is None else counted(len(others), "task") + rows,
        ),
        ("inputs", counted(len(data["features"]), "column")),
        ("cross-validation", data["cv"]),
    ]
    return [(name, value) for name, value in known if value is not None]


def _sections(summary: Part) -> list[Block]:
    """The sections of what the summary has, in order."""
    parts, details = summary["parts"], detailed(summary["parts"])
    many = len(parts) > 1
    shown = [overview_section(parts)] if many else []
    for part in details:
        shown += [comparison_section(part, many)] if part["comparison"] else []
        shown += [misses_section(part["misses"], part["primary"] if many else "")] if part.get("misses") else []
        shown += [secondaries_section(part, many)] if part["secondaries"] else []
    shown += [misses_section(summary["left_out"], "")] if summary.get("left_out") else []
    shown += [covariance_section(summary["covariance"])] if summary["covariance"] else []
    shown += [predictions_section(summary["predictions"])] if summary["predictions"] else []
    shown += [calibration_section(part, many) for part in details if part["calibration"]]
    shown += [suggestions_section(summary["suggestions"])] if summary["suggestions"] else []
    shown += [use_section(summary["use"])] if summary.get("use") else []
    return [*shown, made_section(summary["made"])]


def section(heading: str, lead: str, *blocks: tuple[str, Any]) -> Block:
    """A part of the page; a block without content is left out."""
    return {"heading": heading, "lead": lead, "blocks": [(kind, content) for kind, content in blocks if content]}


def figure(drawn: svg.Element, caption: str = "", margin: str = "", **more: Any) -> Block:
    """A figure with what stands around it."""
    empty: Block = {"heading": "", "legend": [], "table": None, "bar": None, "classes": ""}
    return {"svg": drawn, "caption": caption, "margin": margin, **empty, **more}


def table(caption: str, columns: Sequence[Column], rows: Sequence[Part], judged: str | None = None) -> Block:
    """A table that sorts; the row of the method `judged` stands out."""
    return {"caption": caption, "columns": columns, "rows": rows, "judged": judged, "csv": as_csv(columns, rows)}


def as_csv(columns: Sequence[Column], rows: Sequence[Part]) -> str:
    """The table with all digits as a CSV file, in an address that holds it. Text stays text in a spreadsheet."""

    def cell(value: Any) -> str:
        text = "" if value is None else str(value)
        formula = isinstance(value, str) and text.lstrip()[:1] in tuple("=+-@")
        return '"' + ("'" * formula + text).replace('"', '""') + '"' if isinstance(value, str) else text

    lines: list[list[Any]] = [
        [name for name, _, _ in columns],
        *([row.get(field) for _, field, _ in columns] for row in rows),
    ]
    text = "".join(",".join(map(cell, line)) + "\r\n" for line in lines)
    return "data:text/csv;base64," + base64.b64encode(text.encode()).decode()


def columns_of(write: Callable[[Any], str] | None, *fields: str) -> list[Column]:
    """Columns that are called as their fields are, written in one way."""
    return [(field.replace("_", " "), field, write) for field in fields]


def intervals(
    rows: Sequence[Part],
    fields: tuple[str, str, str, str],
    sure: Callable[[Part], Any],
    title: str,
    axis: str,
    caption: str,
    sides: tuple[str, str] | None = None,
    limits: tuple[float, float] | None = None,
    otherwise: str = "unsure",
    **more: Any,
) -> list[Block]:
    """A figure of dots with intervals, where there are any rows; those that are `sure` stand out, others are hollow.

    `fields` are the label, value, low and high of a row.
    """
    names = dict(zip(("label", "value", "low", "high"), fields, strict=True))
    dots = [
        {**row, **{name: row[field] for name, field in names.items()}, "role": "judged" if sure(row) else otherwise}
        for row in rows
    ]
    if limits is None and svg.is_cut(dots):
        caption += " An interval that ends in an arrow goes on; its numbers are in the table."
    return [figure(svg.intervals(dots, title, axis, sides, limits), caption, "named", **more)] if dots else []


def detailed(parts: Sequence[Part]) -> list[Part]:
    """The primaries whose sections are shown, in the order given: all, or of many those with the clearest answers."""

    def clear(i: int) -> float:
        low, high = ((parts[i]["verdict"] or {}).get(k) for k in ("low", "high"))
        if low is None or high is None or high <= low:
            return 0.0
        return abs(low + high) / (high - low)  # the distance from zero in half widths

    return [parts[i] for i in sorted(sorted(range(len(parts)), key=clear, reverse=True)[:MOST_DETAILS])]


def overview_section(parts: Sequence[Part]) -> Block:
    """One line per task, where every task was judged in turn."""
    rows = [
        {
            "task": p["primary"],
            "rows": p["rows"],
            "borrowing": p["verdict"]["answer"],
            "method": p["verdict"]["label"],
            **{k: p["verdict"][k] for k in ("difference", "low", "high")},
        }
        for p in parts
        if p["verdict"]
    ]
    drawn = intervals(
        rows,
        ("task", "difference", "low", "high"),
        lambda r: r["borrowing"] in ("helps", "hurts"),
        "Difference from the best without the other data, every task",
        "difference in error from the best alone",
        "Filled dots: borrowing helps or hurts, which holds for all tasks together. Hollow dots: less is known.",
        ("less", "more error"),
    )
    columns = [*columns_of(None, "task"), ("rows", "rows", whole), *columns_of(None, "borrowing", "method")]
    columns += columns_of(aligned(rows, "difference", "low", "high"), "difference", "low", "high")
    lead = f"Details follow for {MOST_DETAILS} of {len(parts)} tasks, those with the clearest answers."
    return section(
        "Every task in turn",
        lead if len(parts) > MOST_DETAILS else "",
        ("figure", drawn),
        ("table", table("Every task as the one that matters.", columns, rows)),
    )


def comparison_section(part: Part, many: bool) -> Block:
    """The methods against the best without the other data: dots with intervals, then the table."""
    found, chosen = part["comparison"], (part["verdict"] or {}).get("method")
    alone, beside = (part["verdict"] or {}).get("alone", "single"), found.get("beside", "without the other data")
    rows, level, score = found["rows"], percent(found["level"]), found["score"]
    new = found.get("new", False)
    judged = "Each task that was held out counts as one."
    if not new:
        judged = (
            "Methods that relate the tasks are judged by fits to all rows where these tell, others by the rows held "
            "out, with allowance for folds that share rows."
        )
    drawn = intervals(
        [r for r in rows if r["method"] != alone],
        ("label", "difference", "low", "high"),
        lambda r: r["method"] == chosen,
        f"Difference of each method from the best {beside}, {part['primary']}",
        "difference in error from one for all" if new else "difference in error from the best alone",
        f"Dots: {score} less that of the best method {beside}. Bars: {level} intervals. {judged} "
        "Where a bar crosses the line, either sign is possible.",
        ("less error", "more error"),
        otherwise="plain",
    )
    numbers = "coverage" in rows[0]
    errors = aligned(rows, "error", "std_error", "difference", "low", "high")
    columns = [("method", "label", None), ("error", "error", errors), ("\u00b1", "std_error", errors)]
    columns += columns_of(errors, "difference", "low", "high") + [("weight", "weight", percent)] * ("weight" in rows[0])
    columns += columns_of(aligned(rows, "log_density"), "log_density")
    sure = ("in 90 % band", "coverage", percent), ("too sure by", "calibration", aligned(rows, "calibration"))
    columns += [sure[0] if numbers else sure[1], *columns_of(aligned(rows, "seconds"), "seconds")]
    explained = "" if numbers else " too sure by is mean confidence less share of right answers;"
    caption = (
        f"Error: {score}, on rows that the method had not seen; \u00b1 is its standard error. Difference: from the "
        f"best {beside}, with its {level} interval. Weight: part in the best prediction. Log density: "
        f"per row, higher is better;{explained} seconds: processor time of all fits."
    )
    return section(
        f"Comparison for {part['primary']}" if many else "Comparison",
        found["lead"],
        ("figure", drawn),
        ("table", table(caption, columns, rows, chosen)),
        ("list", found["notes"]),
        ("facts", [(m["label"], m["words"]) for m in found.get("methods", ())]),
    )


def misses_section(found: Part, primary: str) -> Block:
    """Predicted against observed, and the rows that surprise most."""
    worst, points, numeric = found["worst"], found["points"], found["form"] == "numbers"
    fields = ("observed", "predicted", "low", "high")
    columns: list[Column] = [("row", "row", whole)]
    if numeric:
        bands = [{"width": p["high"] - p["low"]} for p in (*worst, *points)]
        columns += columns_of(aligned(bands, "width"), *fields)  # digits enough to see how far a row is away
        columns += [("standard deviations away", "away", with_decimals(1))]
    else:
        columns += [*columns_of(None, "observed"), ("probability given to it", "probability", percent)]
    columns += columns_of(None, "inputs") if any("inputs" in row for row in worst) else []
    drawn = figure(svg.scatter(points, [w["row"] for w in worst], "Predicted and observed"), found["caption"], "square")
    heading = "Predicted and observed" if numeric else "The most surprising labels"
    caption = "The rows that surprise most." if numeric else found["caption"]
    return section(
        f"{heading}, {primary}" if primary else heading,
        found["lead"],
        ("figure", [drawn] if points else []),
        ("table", table(caption, columns, worst) if worst else None),
    )


def use_section(use: Part) -> Block:
    """Code to copy."""
    return section(
        "Use it",
        "The model that is advised, fitted to all rows, and its predictions for new ones; in Python, or on the command "
        "line. Put in the names of your files.",
        ("code", use["python"]),
        ("code", use["shell"]),
    )


def secondaries_section(part: Part, many: bool) -> Block:
    """Which of the other tasks carry the gain."""
    found, primary = part["secondaries"], part["primary"]
    rows, most = found["rows"], found["shown"]
    dots = [{**r, "alone": None} for r in rows]  # one interval each
    related = intervals(
        [r for r in dots if r["correlation"] is not None][:most],
        ("task", "correlation", "correlation_low", "correlation_high"),
        lambda r: r["clear"],
        f"Correlation of each task with {primary}",
        "correlation with the primary",
        found["correlation_caption"],
        limits=(-1.05, 1.05),
        heading="How related",
    )
    lost = intervals(
        [r for r in dots if r["gain"] is not None][:most],
        ("task", "gain", "low", "high"),
        lambda r: r["low"] is not None and r["low"] > 0,
        f"Share of the gain for {primary} that a task is good for",
        "share of the gain",
        found["gain_caption"],
        ("no use", "of use"),
        heading="What each is worth",
    )
    gain = aligned(rows, "alone", "without", "gain", "low", "high")
    optional = [
        *columns_of(aligned(rows, "rho", least=2), "rho"),
        *columns_of(hundredths, "correlation"),
        ("\u00b1", "std_error", aligned(rows, "std_error", least=2)),
        ("shared", "share", percent),
        *columns_of(gain, "alone", "without", "gain", "low", "high"),
    ]
    columns = [*columns_of(None, "task"), *columns_of(whole, "rows")]
    columns += [c for c in optional if any(r.get(c[1]) is not None for r in rows)]
    return section(
        f"Who is related to {primary}" if many else "Which of the other tasks carry it",
        found["lead"],
        ("group two" if related and lost else "group ", [*related, *lost]),
        ("table", table(found["caption"], columns, rows)),
    )


def covariance_section(covariance: Part) -> Block:
    """The heat map of correlations between tasks."""
    tasks, values = covariance["tasks"], covariance["values"]
    rows = [{"task": t, **{str(j): v for j, v in enumerate(line)}} for t, line in zip(tasks, values, strict=True)]
    columns = [*columns_of(None, "task"), *((t, str(j), hundredths) for j, t in enumerate(tasks))]
    numbers = table("Correlations between tasks.", columns, rows) if len(tasks) <= 14 else None
    drawn = svg.heat_map(tasks, values, "Correlations between tasks")
    heat = figure(drawn, covariance["caption"], "named heat", table=numbers)
    return section("How the tasks hang together", covariance["lead"], ("figure", [heat]))


def predictions_section(part: Part) -> Block:
    """What the model says: curves, maps or effects, as the number of inputs allows."""
    blocks = {"curve": _curves, "map": _maps, "effects": _effects}[part["form"]](part)
    return section(part["heading"], part["lead"], *blocks, ("list", part["notes"]))


def _legend(part: Part, alone: Any, points: Any) -> list[tuple[str, str]]:
    """Roles and names of what a figure shows."""
    known = [("borrowed", part["label"], True), ("alone", "no transfer", alone), ("point", "measured", points)]
    return [(role, words) for role, words, there in known if there]


def _curves(part: Part) -> list[tuple[str, Any]]:
    feature, target, first = part["feature"], part["target"], part["panels"][0]
    titles = [f"Prediction of {target} for {panel['task']}" for panel in part["panels"]]
    large = figure(
        svg.curve(first, titles[0], feature, target),
        part["caption"],
        "tall",
        legend=_legend(part, first["alone"], first["points"]["x"]),
        table=_curve_table(first, feature),
    )
    small = [
        figure(svg.curve(panel, title, feature, target, 130.0), "", "tall", heading=panel["task"])
        for panel, title in zip(part["panels"][1:], titles[1:], strict=True)
    ]
    return [("figure", [large]), ("group many", small)]


def _curve_table(panel: Part, feature: str) -> Block:
    step = max(1, (len(panel["x"]) - 1) // (MOST_POINTS - 1))
    fields = ("x", "mean", "low", "high") if panel["low"] is not None else ("x", "mean")
    rows = [{f: panel[f][i] for f in fields} for i in range(0, len(panel["x"]), step)]
    write = aligned(rows, "mean", "low", "high")
    columns = [(feature, "x", aligned(rows, "x")), ("prediction", "mean", write), *columns_of(write, *fields[2:])]
    return table("Some points of the curve.", columns, rows)


def _maps(part: Part) -> list[tuple[str, Any]]:
    fields = ["mean"] if part["std"] is None else ["mean", "std"]
    drawn = [
        figure(
            svg.surface(part, field, part[f"{field}_heading"]),
            margin="tall",
            heading=part[f"{field}_heading"],
            bar=svg.colour_bar(part, field),
            classes="map",
        )
        for field in fields
    ]
    columns = [(f, str(i), number) for i, f in enumerate(part["features"])]
    columns += [("prediction", "mean", number), ("\u00b1", "std", number)][: len(fields)]
    drawn[-1]["table"] = table("Some points of the map.", columns, part["corners"])
    return [("group two", drawn), ("text", part["caption"])]


def _effects(part: Part) -> list[tuple[str, Any]]:
    switches, target = part["switches"], part["target"]
    write = aligned(switches, "value", "low", "high")
    columns = [("input", "feature", None), *columns_of(None, "from", "to"), ("effect", "value", write)]
    columns += columns_of(write, "low", "high")
    drawn = intervals(
        switches,
        ("feature", "value", "low", "high"),
        lambda r: r["low"] is not None and (r["low"] > 0 or r["high"] < 0),
        "Effect of each input with two values",
        f"change of {target}",
        part["switch_caption"],
        legend=_legend(part, any(r["alone"] for r in switches), False),
        table=table("Average change between the two values of an input.", columns, switches),
    )
    small = [
        figure(
            svg.curve(panel, f"Change of the average {target} over {name}", name, f"change of {target}", 150.0),
            margin="tall",
            heading=name,
            table=_curve_table(panel, name),
        )
        for panel in part["curves"]
        for name in [panel["feature"]]
    ]
    return [("figure", drawn), ("group many", small), ("text", part["curve_caption"] if small else "")]


def calibration_section(part: Part, many: bool) -> Block:
    """Do bands and probabilities mean what they say?"""
    found, title = part["calibration"], "Promised and found"
    if found["form"] == "coverage":
        drawn, what = svg.coverage(found, title), "bands"
        rows = [
            {"level": level, **{m["method"]: m["share"][i] for m in found["all"]}}
            for i, level in enumerate(found["levels"])
        ]
        columns: list[Column] = [("band", "level", percent)]
        columns += [(m["label"], m["method"], percent) for m in found["all"]]
        numbers = table("Share of held-out rows inside each band.", columns, rows)
    else:
        drawn, what = svg.reliability(found, title), "probabilities"
        rows = [{"method": m["label"], **b} for m in found["all"] for b in m["bins"]]
        columns = [*columns_of(None, "method"), *columns_of(percent, "predicted"), ("came true", "observed", percent)]
        columns += [*columns_of(percent, "low", "high"), ("rows", "n", whole)]
        numbers = table("Predictions by probability, and how often they came true.", columns, rows)
    legend = [(m["role"], m["label"]) for m in found["methods"]]
    return section(
        f"Can the {what} be trusted" + (f" for {part['primary']}?" if many else "?"),
        found["lead"],
        ("figure", [figure(drawn, found["caption"], "square", legend=legend, table=numbers)]),
    )


def suggestions_section(part: Part) -> Block:
    """What to measure next."""
    rows = [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]
    columns: list[Column] = []
    for name, numeric in zip(part["columns"], part["numeric"], strict=True):
        counts = numeric and all(float(row[name] or 0).is_integer() for row in rows)
        columns += columns_of(whole if counts else aligned(rows, name) if numeric else None, name)
    return section("What to measure next", part["lead"], ("table", table(part["caption"], columns, rows)))


def made_section(made: Part) -> Block:
    """How the page was made."""
    seconds = None if made["seconds"] is None else f"{number(made['seconds'], 3)} s, summed over the fits"
    pairs = [
        ("data", made["digest"]),
        ("seed", made["seed"]),
        ("cross-validation", made["cv"]),
        ("model", made["model"]),
        ("processor time", seconds),
        ("versions", ", ".join(f"{name} {version}" for name, version in made["versions"].items())),
        ("written", made["written"]),
    ]
    return section(
        "How this was made",
        "What is needed to make these numbers again. The digest is of the data as they were read.",
        ("code", made["command"]),
        ("facts", [pair for pair in pairs if pair[1] is not None]),
        ("text", "Warnings along the way:" if made["warnings"] else ""),
        ("list", [f"{w['text']} ({w['times']}\u00d7)" for w in made["warnings"]]),
    )
