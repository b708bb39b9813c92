"""A small table: a dict of columns that prints as one, becomes a frame, and draws its estimates."""

from __future__ import annotations

import html
import itertools
from typing import Any

import numpy as np

from borrow.numerics.stored import stored

#: Half the width of a 95 % interval, in standard errors.
HALF = 1.959963984540054


@stored("table")
class Table(dict[str, Any]):
    """Columns by name, all of one length. It prints as a table, in a notebook too.

    >>> found = Table({"task": ["a", "b"], "rows": [12, 7], "gain": [0.31, float("nan")]})
    >>> found
    task  rows  gain
    a       12  0.31
    b        7     -
    >>> found["rows"], found.rows()[0]["task"]
    ([12, 7], 'a')
    """

    def to_pandas(self) -> Any:
        """The same as a pandas frame."""
        import pandas

        return pandas.DataFrame(dict(self))

    def to_polars(self) -> Any:
        """The same as a polars frame."""
        import polars

        return polars.DataFrame(dict(self), strict=False)

    def plot(self, column: str | None = None, ax: Any = None) -> Any:
        """Draw an estimate as dots with 95 % intervals, one line per row; returns the Axes. Needs `borrow[plot]`.

        Parameters
        ----------
        column : what to draw: a column that `std_error`, or `low` and `high`, follow. None takes the first.
        ax : the matplotlib Axes to draw on; None makes one.
        """
        from borrow.plot import intervals, new_axes

        names = list(self)
        can = [a for a, b in itertools.pairwise(names) if b in ("std_error", "low")]
        if not can or column not in (None, *can):
            known = f"columns with one are {', '.join(can)}" if can else "no column of this table has one"
            raise ValueError(f"column={column!r} has no interval to draw: {known}")
        column = can[0] if column is None else column
        value = np.asarray(self[column], dtype=float)
        if names[names.index(column) + 1] == "std_error":
            half = HALF * np.asarray(self["std_error"], dtype=float)
            low, high = value - half, value + half
        else:
            low, high = (np.asarray(self[side], dtype=float) for side in ("low", "high"))
        ax = new_axes(ax, height=1.0 + 0.3 * len(value))
        return intervals(ax, [str(v) for v in self[names[0]]], value, low, high, column.replace("_", " "))

    def rows(self) -> list[dict[str, Any]]:
        """The rows, each as a dict from column to value."""
        return [dict(zip(self, values, strict=True)) for values in zip(*self.values(), strict=True)]

    def __repr__(self) -> str:
        cells = self._cells()
        widths = [max(len(c) for c in column) for column in cells]
        right = [np.asarray(column).dtype.kind in "iuf" for column in self.values()]
        return "\n".join(
            "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
            for row in zip(*cells, strict=True)
        )

    def to_html(self) -> str:
        """The table as HTML; everything in it is escaped."""
        head, *body = list(zip(*self._cells(), strict=True)) or [()]
        top = "".join(f"<th>{html.escape(c)}</th>" for c in head)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in body)
        return f"<table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"

    _repr_html_ = to_html

    def _cells(self) -> list[list[str]]:
        return [[name, *(format_value(v) for v in self[name])] for name in self]


def format_value(value: Any) -> str:
    """Three significant digits for floats, all before the point up to a million, a dash for NaN, the rest as it is."""
    if isinstance(value, (float, np.floating)):
        v = float(value) + 0.0  # no minus before nothing
        return "-" if np.isnan(v) else f"{v:.0f}" if 999.5 <= abs(v) < 1e6 else f"{v:.3g}"
    return str(value)
