"""What docs/architecture.md says of the size of the package, from the count of its statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pages_parts import load, made_by, table


def _by(result: dict[str, Any]) -> str:
    return made_by(
        result, f"counted by `benchmarks/statements.py`, against commit {result['before']}; nothing is drawn"
    )


def by_part() -> str:
    result = load("statements")
    rows = [[p["part"], p["then"], p["now"], p["new"], p["now"] - p["new"]] for p in result["parts"]]
    rows.append(["**all**", *(sum(row[k] for row in rows) for k in range(1, 5))])
    head = ["part", "at b0d6f37", "now", "of features that it did not have", "the rest"]
    return table(head, rows) + _by(result)


def by_feature() -> str:
    rows = [[f"{f['issue']}", f["what"], f["statements"]] for f in load("statements")["features"]]
    return table(["issue", "what was not there", "statements"], rows)


def by_kind() -> str:
    result = load("statements")
    then, now = (result["kinds"][side] for side in ("then", "now"))
    named = {"act": "act", "docstrings": "docstrings", "imports": "imports", "definitions": "`def`, `class`"}
    rows = [[label, then[k], now[k]] for k, label in {**named, "fields": "fields without a value"}.items()]
    told = "lines of functions' docstrings"
    lines = (f"{side[told] / side['functions']:.2f}" for side in (then, now))
    rows += [["functions", then["functions"], now["functions"]], ["lines of docstring per function", *lines]]
    return table(["statements that", "at b0d6f37", "now"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "statements parts": by_part,
    "statements features": by_feature,
    "statements kinds": by_kind,
}
