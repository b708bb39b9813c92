"""One self-contained HTML page from a summary, by Jinja2 templates that escape everything.

No number is computed here. `sections.html.j2` has the sections with their texts, tables and figures, `figures.svg.j2`
draws the figures; here are the rows and columns that these ask for.
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
from borrow.report.format import (
    aligned,
    hundredths,
    number,
    percent,
    shortened,
    text_of,
    three_decimals,
    whole,
    with_decimals,
)

Part = Mapping[str, Any]
Block = dict[str, Any]
#: How a column is written: a function, None for text, or the name of a group of columns that are written alike.
Writer = Callable[[Any], str] | str | None
#: Name of a column, the field of a row that it shows, and how it is written.
Column = tuple[str, str, Writer]
#: Primaries that get sections of their own; points of a curve in its table.
MOST_DETAILS, MOST_POINTS = 8, 13


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
    page, figures = templates()
    check(summary)
    summary = to_json(summary, text=text_of)
    ids = itertools.count(1)  # which owe nothing to the data
    style, script = _file("report.css"), _file("report.js")
    # JSON that no text inside can end: no <, > or & is left in it.
    data = json.dumps(summary, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    data = data.translate({ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"})
    return page.render(
        version=summary["borrow"],
        summary=summary,
        details=detailed(summary["parts"]),
        draw=lambda figure: figures.draw(figure, f"figure-{next(ids)}"),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=data,
    )


def templates() -> tuple[Any, Any]:
    """The template of the page, and the macros of the figures, which write numbers with three decimals."""
    try:
        import jinja2
    except ModuleNotFoundError as absent:
        raise ModuleNotFoundError(
            f"a report needs {absent.name}, which is not installed: pip install 'borrow[app]'", name=absent.name
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.globals |= {
        **{"number": number, "percent": percent, "whole": whole, "hundredths": hundredths, "tenths": with_decimals(1)},
        **{
            "aligned": aligned,
            "aligned_to_bands": aligned_to_bands,
            "written": written,
            "csv": as_csv,
            "counted": counted,
        },
        **{"columns": columns_of, "those_known": those_known, "dots": dots, "zip": zip},
        **{"judged_rows": judged_rows, "matrix_table": matrix_table, "some_points": some_points, "bin_rows": bin_rows},
        **{"coverage_table": coverage_table, "suggested_table": suggested_table, "svg": svg},
    }
    environment.filters["coded"] = coded
    drawing = environment.overlay(undefined=jinja2.Undefined, finalize=three_decimals)
    drawing.filters |= {"number": number, "shortened": shortened, "spoken": svg.spoken, "drawn": svg.drawn}
    lines = _file("figures.svg.j2").splitlines()
    figures = drawing.from_string("".join(line.strip() for line in lines)).module
    return environment.get_template("report.html.j2"), figures


def coded(text: str) -> list[tuple[bool, list[str]]]:
    """A sentence in parts, each with whether it is a call to copy, and in pieces after which a line may end."""
    parts = re.split(r"(borrow\.\w+\([^()]*\)|\b\w+=True\b)", text)
    return [(i % 2 == 1, re.split(r"(?<=[(,])", part) if i % 2 else [part]) for i, part in enumerate(parts) if part]


def _file(name: str) -> str:
    return resources.files("borrow.report").joinpath("template", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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


def columns_of(write: Writer, *fields: str) -> list[Column]:
    """Columns that are called as their fields are, written in one way."""
    return [(field.replace("_", " "), field, write) for field in fields]


def written(columns: Sequence[Column], rows: Sequence[Part]) -> list[Column]:
    """The columns, those of a group with one way to write their numbers, so that points stand under points."""
    named = {how for _, _, how in columns if isinstance(how, str)}
    groups = {group: aligned(rows, *(field for _, field, how in columns if how == group)) for group in named}
    return [(name, field, groups[how] if isinstance(how, str) else how) for name, field, how in columns]


def those_known(rows: Sequence[Part], columns: Sequence[Column]) -> list[Column]:
    """The columns that some row has a value of."""
    return [column for column in columns if any(row.get(column[1]) is not None for row in rows)]


def dots(rows: Sequence[Part], fields: Sequence[str], sure: Sequence[Part], otherwise: str) -> list[Block]:
    """Rows for `svg.intervals`: `fields` are the label, value, low and high of a row; the `sure` ones stand out."""
    names = dict(zip(("label", "value", "low", "high"), fields, strict=True))
    return [
        {
            **{name: row[field] for name, field in names.items()},
            "role": "judged" if row in sure else otherwise,
            "alone": row["alone"] if isinstance(row.get("alone"), Mapping) else None,  # else a number of its own
        }
        for row in rows
    ]


def judged_rows(parts: Sequence[Part]) -> list[Block]:
    """One row per task that was judged."""
    return [
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


def aligned_to_bands(points: Sequence[Part]) -> Callable[[Any], str]:
    """How to write numbers with digits enough to see how far a row is away, measured by the widths of the bands."""
    return aligned([{"width": p["high"] - p["low"]} for p in points], "width")


def matrix_table(tasks: Sequence[str], values: Sequence[Sequence[float]]) -> tuple[list[Column], list[Block]]:
    """A square matrix as columns and rows."""
    rows = [{"task": t, **{str(j): v for j, v in enumerate(line)}} for t, line in zip(tasks, values, strict=True)]
    return [*columns_of(None, "task"), *((t, str(j), hundredths) for j, t in enumerate(tasks))], rows


def some_points(panel: Part, fields: Sequence[str]) -> list[Block]:
    """Some points of a curve, with the same distance between them."""
    step = max(1, (len(panel["x"]) - 1) // (MOST_POINTS - 1))
    return [{f: panel[f][i] for f in fields} for i in range(0, len(panel["x"]), step)]


def coverage_table(found: Part) -> tuple[list[Column], list[Block]]:
    """Columns and rows: the share that each band held, of every method."""
    methods: list[Column] = [("band", "level", percent), *((m["label"], m["method"], percent) for m in found["all"])]
    shares = [{m["method"]: m["share"][i] for m in found["all"]} for i in range(len(found["levels"]))]
    return methods, [{"level": level, **row} for level, row in zip(found["levels"], shares, strict=True)]


def bin_rows(found: Part) -> list[Block]:
    """One row per method and bin of probabilities."""
    return [{"method": m["label"], **b} for m in found["all"] for b in m["bins"]]


def suggested_table(part: Part) -> tuple[list[Column], list[Block]]:
    """Columns and rows of what to measure next; counts are whole numbers."""
    rows, columns = [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]], []
    for name, numeric in zip(part["columns"], part["numeric"], strict=True):
        counts = numeric and all(float(row[name] or 0).is_integer() for row in rows)
        columns += columns_of(whole if counts else name if numeric else None, name)
    return columns, rows


def detailed(parts: Sequence[Part]) -> list[Part]:
    """The primaries whose sections are shown, in the order given: all, or of many those with the clearest answers."""

    def clear(i: int) -> float:
        low, high = ((parts[i]["verdict"] or {}).get(k) for k in ("low", "high"))
        if low is None or high is None or high <= low:
            return 0.0
        return abs(low + high) / (high - low)  # the distance from zero in half widths

    return [parts[i] for i in sorted(sorted(range(len(parts)), key=clear, reverse=True)[:MOST_DETAILS])]
