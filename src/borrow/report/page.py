"""One self-contained HTML page from a summary: sections, then a Jinja2 template that escapes everything."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from borrow import __version__
from borrow.data.plain import to_json
from borrow.report import sections, sections_model, svg

#: Of the summary. A page holds the number that its summary had.
FORMAT, VERSION = "borrow.report", 1


def render(summary: Mapping[str, Any]) -> str:
    """The whole page as text. Needs Jinja2, which `borrow[app]` brings."""
    try:
        import jinja2
        from markupsafe import Markup
    except ModuleNotFoundError as absent:
        raise ModuleNotFoundError(
            f"a report needs {absent.name}, which is not installed: pip install 'borrow[app]'", name=absent.name
        ) from None
    check(summary)
    summary = to_json(summary, text=svg.text_of)
    names = svg.names()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(_file("report.html.j2"))
    style, script = _file("report.css"), _file("report.js")
    shown = _sections(summary, names)
    for block in _figures(shown):
        block["svg"], block["bar"] = Markup(block["svg"]), Markup(block["bar"])  # built as trees: text is text
    return template.render(
        title=_title(summary),
        brand="does the other data help?",
        version=summary["borrow"],
        verdicts=sections.verdicts(summary),
        facts=sections.headline_facts(summary),
        sections=shown,
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
        data=Markup(_script_safe(summary)),
    )


def check(summary: Mapping[str, Any]) -> None:
    """Refuse what is no summary, or one of a version that this borrow does not know."""
    if not isinstance(summary, Mapping) or summary.get("format") != FORMAT:
        raise ValueError(
            f"summary is no summary of a report: expected a dict with format={FORMAT!r}, as borrow.report.summary() "
            "returns it"
        )
    version = summary.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"the summary has version {version!r}; expected a whole number, 1 to {VERSION}")
    if version > VERSION:
        made = summary.get("borrow", "a newer version")
        raise ValueError(
            f"the summary was made by a newer borrow ({made}, summary version {version}; this is borrow {__version__}, "
            f"which reads up to version {VERSION}): update borrow, or make the summary again with this one"
        )


def _sections(summary: Mapping[str, Any], names: Any) -> list[dict[str, Any]]:
    shown = []
    many = len(summary["parts"]) > 1
    kind = summary["data"]["kind"]
    if many:
        shown.append(sections.overview_section(summary["parts"], names))
    details = sections.detailed(summary["parts"])
    for part in details:
        if part["comparison"]:
            shown.append(sections.comparison_section(part, kind, names, many))
        if part["secondaries"]:
            shown.append(sections.secondaries_section(part, names, many))
    if summary["covariance"]:
        shown.append(sections.covariance_section(summary["covariance"], names))
    if summary["predictions"]:
        shown.append(sections_model.predictions_section(summary["predictions"], names))
    for part in details:
        if part["calibration"]:
            primary = part["primary"] if many else None
            shown.append(sections_model.calibration_section(part["calibration"], names, primary))
    if summary["suggestions"]:
        shown.append(sections_model.suggestions_section(summary["suggestions"], names))
    shown.append(sections_model.made_section(summary["made"], names))
    return shown


def _figures(shown: list[dict[str, Any]]) -> Any:
    blocks = itertools.chain.from_iterable(s["blocks"] for s in shown)
    for block in blocks:
        if block["kind"] == "figure":
            yield block
        elif block["kind"] == "group":
            yield from block["figures"]


def _title(summary: Mapping[str, Any]) -> str:
    judged = [p for p in summary["parts"] if p.get("verdict")]
    if len(judged) == 1:
        return f"{judged[0]['primary']}: {sections.BADGES[judged[0]['verdict']['answer']].lower()} \u00b7 borrow"
    return f"{summary['data']['target'] or 'Report'} \u00b7 borrow"


def _file(name: str) -> str:
    return resources.files("borrow.report").joinpath("template", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _script_safe(summary: Mapping[str, Any]) -> str:
    """JSON that no text inside can end: no <, > or & is left in it."""
    text = json.dumps(summary, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
