"""Reports on disk: written whole or not at all, and read back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from borrow.numerics.files import write_atomically
from borrow.report.page import check, render


def write(path: str | os.PathLike[str], summary: Mapping[str, Any]) -> Path:
    """Write the page; what was there before is replaced in one step, when the page is complete."""
    target = Path(path)
    page = render(summary)
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder; give the name of an HTML file in it")
    try:
        write_atomically(target, page.encode())
    except OSError as error:
        raise OSError(
            f"cannot write the report to {str(target)!r} ({error.strerror or error}); give another path"
        ) from error
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
