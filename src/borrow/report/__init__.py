"""The report: a summary (a plain dict), figures (inline SVG), one self-contained HTML page.

`summary(comparison, model, table)` collects what there is to say as plain numbers, texts and lists that go through
JSON unchanged; `write(path, summary)` makes the page; `read(path)` takes the summary out of a page again.
"""

from borrow.report.content import summary
from borrow.report.page import read, render, write

__all__ = ["read", "render", "summary", "write"]
