"""How old the records of the papers' studies are: `pages.py --check --ages` prints it, and nothing fails.

A test that failed where a model's source was changed after its record would fail at every change of a word in it; what
a change means to a figure is for whoever made it to say, and `benchmarks/golden.py` holds the predictions themselves.
"""

from __future__ import annotations

import subprocess
from typing import Any

from pages_parts import ROOT, all_commits
from pages_records import holders

#: Folders below src/borrow/models whose fits a record has, by how its name begins; the first that fits counts.
FOLDERS = {
    "leen2011_variance": ("focused",),
    "leen2011_classification": ("focused", "gp", "multitask", "reference"),
    "leen2011": ("focused", "gp"),
    "bonilla2008": ("multitask", "gp"),
    "lawrence2004": ("ivm",),
    "liao2006": ("rbf",),
    "yu2005": ("hierarchical",),
    "bands": ("focused", "gp", "hierarchical", "ivm", "multitask", "rbf"),
}


def changes_since(commit: str, folders: tuple[str, ...]) -> int | None:
    """How many commits changed the folders after this one; None where the history does not have it."""
    paths = [f"src/borrow/models/{folder}" for folder in folders]
    command = ["git", "-C", str(ROOT), "rev-list", "--count", f"{holders().get(commit, commit)}..HEAD", "--", *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else None


def ages(records: dict[str, dict[str, Any]]) -> list[str]:
    """A line for each record of a paper: its commits, and how often its models' source was changed after each."""
    lines = []
    for name, record in records.items():
        folders = next((f for start, f in FOLDERS.items() if name.startswith(start)), None)
        if folders is not None:
            since = {c: changes_since(c, folders) for c in all_commits(record)}
            said = ", ".join(f"{c} {'unknown' if n is None else n}" for c, n in since.items())
            lines.append(f"{name}: changes of {', '.join(folders)} since {said}")
    return lines
