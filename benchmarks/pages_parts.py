"""What every block of the pages is made with: a result, a table, and who made it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def load(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())


def there_is(name: str) -> bool:
    """Whether the study has a record."""
    return (ROOT / "docs" / "results" / f"{name}.json").exists()


def table(head: list[str], rows: list[list[Any]]) -> str:
    """A table of a page; what a record calls `seconds a fit` is seconds per fit."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, *rows)]
    text = "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
    return re.sub(r"\b(seconds|ms|nats|rows) an? (?=\w)", r"\1 per ", text)


def all_commits(result: Any) -> dict[str, int]:
    """The commits that a result names anywhere, with how many records or parts are of each."""
    found: Counter[str] = Counter()
    if isinstance(result, dict):
        own = result.get("made by", {})
        for stamped in (own, result):
            if "records by commit" in stamped:
                return dict(stamped["records by commit"])
        parts = [v for k, v in result.items() if k not in ("made by", "commit")]
        for part in parts:
            found.update(all_commits(part))
        if isinstance(result.get("commit"), str):
            found[result["commit"]] += 1
        if not found and "commit" in own:
            found[own["commit"]] = 1
    elif isinstance(result, list):
        for part in result:
            found.update(all_commits(part))
    return dict(found.most_common())


def commits(result: dict[str, Any]) -> str:
    """The commit of a result, or all that its records or parts are of."""
    found = all_commits(result)
    if len(found) == 1:
        return f"Commit {next(iter(found))}"
    return "Records of several commits: " + ", ".join(f"{n} of {commit}" for commit, n in found.items())


def made_by(result: dict[str, Any], seeds: str) -> str:
    """The line under a table: commits, seeds, versions."""
    m = result["made by"]
    return f"\n\n*{commits(result)}, {seeds}; numpy {m['numpy']}, scipy {m['scipy']}.*"
