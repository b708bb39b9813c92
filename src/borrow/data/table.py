"""A small table: a dict of columns that prints as one; `pandas.DataFrame(table)` works."""

from __future__ import annotations

import html
from typing import Any

import numpy as np


class Table(dict[str, Any]):
    """Columns by name, all of one length."""

    def rows(self) -> list[dict[str, Any]]:
        """One dict a row."""
        return [dict(zip(self, values, strict=True)) for values in zip(*self.values(), strict=True)]

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(len(c) for c in column) for column in cells]
        right = [self._numeric(name) for name in self]
        lines = [
            "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
            for row in zip(*cells, strict=True)
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *body = list(zip(*self._cells(), strict=True)) or [()]
        top = "".join(f"<th>{html.escape(c)}</th>" for c in head)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in body)
        return f"<table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"

    def _numeric(self, name: str) -> bool:
        return np.asarray(self[name]).dtype.kind in "iuf"

    def _cells(self) -> list[list[str]]:
        return [[name, *(format_value(v) for v in self[name])] for name in self]


def format_value(value: Any) -> str:
    """Three significant digits for floats, a dash for NaN, the rest as it is."""
    if isinstance(value, (float, np.floating)):
        return "-" if np.isnan(value) else f"{value:.3g}"
    return str(value)
