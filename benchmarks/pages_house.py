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
    counts = [[p["then"], p["now"], p["new"], p["now"] - p["new"]] for p in result["parts"]]
    names = [p["part"] for p in result["parts"]]
    counts.append([sum(column) for column in zip(*counts, strict=True)])
    rows = [[name, *(f"{n:,}" for n in row)] for name, row in zip([*names, "**all**"], counts, strict=True)]
    head = ["part", "at b0d6f37", "now", "of features that it did not have", "the rest"]
    return table(head, rows) + _by(result)


def by_feature() -> str:
    rows = [[f["what"], f["statements"]] for f in load("statements")["features"]]
    return table(["what was not there", "statements"], rows)


def by_kind() -> str:
    result = load("statements")
    then, now = (result["kinds"][side] for side in ("then", "now"))
    named = {"act": "act", "docstrings": "docstrings", "imports": "imports", "definitions": "`def`, `class`"}
    rows = [
        [label, f"{then[k]:,}", f"{now[k]:,}"] for k, label in {**named, "fields": "fields without a value"}.items()
    ]
    told = "lines of functions' docstrings"
    lines = (f"{side[told] / side['functions']:.2f}" for side in (then, now))
    rows += [
        ["functions", f"{then['functions']:,}", f"{now['functions']:,}"],
        ["lines of docstring per function", *lines],
    ]
    return table(["statements that", "at b0d6f37", "now"], rows)


def tried() -> str:
    result = load("statements")
    spread, once = result["spread"], result["called once"]
    told = f"{result['guards']} guards raise one sentence each"
    rows = [
        ["passes over tasks, and where rows lie: at b0d6f37, in files of each model", f"{spread['then']:,}"],
        ["the same now, in `tasks`, `two_pass` and `layout`", f"{spread['now']:,}"],
        [f"{told}; fewer if the {result['beside']} that stand together were tables", result["fewer"]],
        [f"{once} functions are called in one place alone; fewer if each stood there", 3 * once],
    ]
    return table(["what", "statements"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "statements parts": by_part,
    "statements features": by_feature,
    "statements kinds": by_kind,
    "statements tried": tried,
}
