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


def made_by(result: dict[str, Any], seeds: str) -> str:
    m = result["made by"]
    return f"\n\n*Commit {m['commit']}, {seeds}; numpy {m['numpy']}, scipy {m['scipy']}.*"
