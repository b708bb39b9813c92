"""What is checked of the records and of what stands on the pages beside the blocks: commits, seeds, settings, claims.

A block is made from its record, so that the two cannot disagree in a figure (`pages.py --check` compares them). Here:
every record says of which commits and seeds it is; a commit is one that was committed; a record of the study of a
paper has the settings of each of its rows, and the page shows them; a commit that the text names is that of a record;
every page of a paper ends with the claims.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from typing import Any

from pages_parts import ROOT, all_commits
from pages_settings import WORDS

#: Records that were written from source with changes that are not committed, and why that may stay.
CHANGED = {
    "lawrence2004_vowels": "only the summary was; every fit has its own commit",
    "outside": "only the summary was; every fit has its own commit",
    "yu2005_new_topics": "only the summary was; every draw has its own commit",
}
#: Rows of a table that are no single model and have no settings of their own.
NO_MODEL = {"", "chosen"}
#: Records of studies of papers; of one each row is a setting.
OF_PAPERS = ("bonilla2008", "lawrence2004", "leen2011", "liao2006", "yu2005")
OF_SETTINGS = "leen2011_classification_others"
_BLOCK = re.compile(r"<!-- begin ([\w ]+) -->.*?<!-- end \1 -->", re.S)
_COMMIT = re.compile(r"\bcommits? `?([0-9a-f]{7,40})`?\b", re.I)


def changed_source(part: Any) -> set[str]:
    """The commits that a record names anywhere, at whose source something was not committed."""
    if isinstance(part, dict):
        return set().union(*(changed_source(x) for pair in part.items() for x in pair))
    if isinstance(part, list):
        return set().union(*map(changed_source, part))
    return {part} if isinstance(part, str) and part.endswith("+changes") else set()


def of_record(name: str, record: dict[str, Any], missing: Iterable[str] = ()) -> list[str]:
    """What is wrong with a record; `missing` are commits that the repository does not have."""
    commits = all_commits(record)
    wrong = [] if commits else [f"{name}: no commit"]
    allowed = changed_source(record.get("made by", {})) - set(commits) if name in CHANGED else set()
    changed = sorted(changed_source(record) - allowed)
    wrong += [f"{name}: made from source that was never committed ({c})" for c in changed]
    wrong += [f"{name}: commit {c} does not exist" for c in commits if c in set(missing)]
    if not any("seed" in key for key in record):
        wrong.append(f"{name}: no seed")
    if name.startswith(OF_PAPERS) and name != OF_SETTINGS:
        kinds, table = ("mode", "variant", "method"), record.get("table")
        labels = [next((r[k] for k in kinds if k in r), "") for r in table] if isinstance(table, list) else []
        labels += [m for r in table[:1] for m in r.get("mean", ())] if isinstance(table, list) else []
        given = {**record.get("settings", {}), **WORDS.get(name, {})}
        wrong += [f"{name}: no settings"] if not record.get("settings") else []
        wrong += [f"{name}: no settings of {m!r}" for m in sorted(set(labels) - NO_MODEL - set(given)) if given]
    return wrong


def of_page(name: str, text: str, known: set[str]) -> list[str]:
    """What is wrong with the text of a page: commits that no record has; the page of a paper without its claims."""
    prose = _BLOCK.sub("", text)
    strange = [c for c in _COMMIT.findall(prose) if not any(k.startswith(c) or c.startswith(k) for k in known)]
    wrong = [f"{name}: names commit {c}, of which there is no record" for c in strange]
    if name.startswith("docs/papers/") and not re.search(r"<!-- end claims \w+ -->\s*\Z", text):
        wrong.append(f"{name}: does not end with the table of the paper's claims")
    if name.startswith("docs/papers/") and "<!-- begin settings " not in text:
        wrong.append(f"{name}: does not show the settings of its rows")
    return wrong


def holders() -> dict[str, str]:
    """The commit in which the work of another came into the history, by that other."""
    held = json.loads((ROOT / "benchmarks" / "squashed.json").read_text())
    return {part: whole for whole, parts in held.items() for part in parts}


def missing_commits(commits: Iterable[str]) -> set[str]:
    """Those that the repository does not have; none where there is no whole history to look at.

    For a commit whose work came into the history as part of another, that other one has to be there.
    """
    holder = holders()
    wanted = sorted({holder.get(c, c) for c in commits if re.fullmatch("[0-9a-f]{7,40}", c)})
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        return set()
    asked = "\n".join(f"{c}^{{commit}}" for c in wanted)
    said = subprocess.run([*git, "cat-file", "--batch-check"], input=asked, capture_output=True, text=True, check=True)
    return {c for c, line in zip(wanted, said.stdout.splitlines(), strict=True) if line.endswith("missing")}
