"""Where studies and benchmarks put what they found: docs/results/<name>.json, with the commit that made it.

A study that goes on where it stopped keeps its finished jobs as `Records`: every record carries the commit that
computed it, and a result that is made of records says how many are of which commit.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy
import scipy
import sklearn

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
FIGURES = ROOT / "docs" / "figures"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def provenance() -> dict[str, Any]:
    """Commit (with a mark if the source was changed since), and versions.

    On a machine that has the files and no git, `BORROW_COMMIT` names the commit.
    """
    return {
        "commit": os.environ.get("BORROW_COMMIT") or _commit(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _commit() -> str:
    changed = bool(_git("status", "--porcelain", "--", "src", "benchmarks"))
    return _git("rev-parse", "--short", "HEAD") + ("+changes" if changed else "")


#: The commit of a record that was kept before records were stamped.
UNKNOWN = "not recorded"


class Records:
    """The finished jobs of a study, one line of JSON each, every one with the commit that computed it."""

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path, self.commit = path, provenance()["commit"]
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self._records: list[dict[str, Any]] = [{"commit": UNKNOWN, **json.loads(line)} for line in lines]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._records)

    def add(self, record: dict[str, Any]) -> dict[str, Any]:
        """Stamp and keep a record; it is on the disk when this returns."""
        stamped = {**record, "commit": self.commit}
        self._records.append(stamped)
        with self.path.open("a") as file:
            file.write(json.dumps(stamped) + "\n")
        return stamped


def by_draws(
    name: str, tables: Iterable[str], draws: int, one: Callable[[str, int], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Records of every table and draw: `one(table, seed)` of those that are not in out/ yet."""
    kept, tables = Records(ROOT / "out" / f"{name}.jsonl"), list(tables)
    for seed in range(draws):
        for table in tables:
            if not any((r["table"], r["seed"]) == (table, seed) for r in kept):
                for record in one(table, seed):
                    kept.add(record)
    return [r for r in kept if r["seed"] < draws]


def commits_of(records: Iterable[dict[str, Any]]) -> dict[str, int]:
    """How many records are of which commit."""
    return dict(Counter(r["commit"] for r in records).most_common())


def settings_of(models: dict[str, Any]) -> dict[str, str]:
    """The settings of every row in words on one line, of estimators, of their arguments or as they are told."""
    out = {}
    for name, model in models.items():
        if isinstance(model, dict):
            words = ", ".join(f"{k}={v!r}" for k, v in model.items())
        else:
            words = model if isinstance(model, str) else " ".join(repr(model).split())
        out[name] = re.sub(r"task_features=\{.*?\}", "task_features={…}", words) or "defaults"
    return out


def with_earlier(
    name: str,
    part: str,
    rows: list[dict[str, Any]],
    key: Iterable[str],
    count: str,
    enough: Callable[[dict[str, Any]], int],
) -> list[dict[str, Any]]:
    """Rows of a result, and those of its last version that have no new fits, or have more where these are not enough.

    A study of hours is run again row by row, as a model changes; each row says how many draws it rests on (`count`) and
    of which commits its fits are, under "records by commit".
    """
    path, key = RESULTS / f"{name}.json", tuple(key)
    last = json.loads(path.read_text()) if path.exists() else {}
    kept = {tuple(r[k] for k in key): r for r in last.get(part, [])}
    for r in kept.values():
        r.setdefault("records by commit", {last["made by"]["commit"]: r[count]})
    fresh = {tuple(r[k] for k in key): r for r in rows}
    for k, r in fresh.items():
        if k not in kept or r[count] >= min(kept[k][count], enough(r)):
            kept[k] = r
    return list(kept.values())


def write_result(name: str, content: dict[str, Any], records: Iterable[dict[str, Any]] | None = None) -> Path:
    """Write the result beside what made it: the commits of its records where it has some, else the present one."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path, made_by = RESULTS / f"{name}.json", provenance()
    if records is not None:
        made_by = {**made_by, "written at": made_by["commit"], "records by commit": commits_of(records)}
        made_by["commit"] = next(iter(made_by["records by commit"]))
    path.write_text(json.dumps({"made by": made_by, **content}, indent=1) + "\n")
    return path
