"""Reports on disk: written whole or not at all, and read back."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from borrow.report.page import check, render


def write(path: str | os.PathLike[str], summary: Mapping[str, Any]) -> Path:
    """Write the page; what was there before is replaced in one step, when the page is complete."""
    target = Path(path)
    page = render(summary)
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder; give the name of an HTML file in it")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise OSError(f"cannot write the report to {str(target)!r} ({error.strerror}); give another path") from error
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(page)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return target


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The summary inside a page that `write` made."""
    try:
        page = Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is no report of borrow: it is not text") from None
    found = re.search(r'<script type="application/json" id="summary">([^<]*)</script>', page)
    if found is None:
        raise ValueError(
            f"{str(path)!r} is no report of borrow: it holds no summary; give a page made by borrow report"
        )
    try:
        content = json.loads(found[1])
    except json.JSONDecodeError as error:
        raise ValueError(f"the summary in {str(path)!r} is damaged ({error}); make the report again") from None
    check(content)
    return dict(content)
