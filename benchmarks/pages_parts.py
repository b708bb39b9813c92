"""What every block of the pages is made with: a result, a table, and who made it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def load(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def commits(result: dict[str, Any]) -> str:
    """The commit of a result, or all that its records are of."""
    m = result["made by"]
    found: dict[str, int] = m.get("records by commit", {})
    if len(found) < 2:
        return f"Commit {m['commit']}"
    return "Records of several commits: " + ", ".join(f"{n} of {commit}" for commit, n in found.items())


def made_by(result: dict[str, Any], seeds: str) -> str:
    """The line under a table: commits, seeds, versions."""
    m = result["made by"]
    return f"\n\n*{commits(result)}, {seeds}; numpy {m['numpy']}, scipy {m['scipy']}.*"
