"""Where studies and benchmarks put what they found: docs/results/<name>.json, with the commit that made it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
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


def write_result(name: str, content: dict[str, Any]) -> Path:
    """Write the result beside what made it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"made by": provenance(), **content}, indent=1) + "\n")
    return path
