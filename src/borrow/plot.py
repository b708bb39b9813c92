"""Figures from plain data: small functions that draw on an Axes.

Object-oriented matplotlib only, no pyplot and so no global state. Equal data give equal SVG files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

#: Okabe and Ito's colours, safe for colour-blind readers; one for each method, the same everywhere.
COLOURS = {"ridge": "#666666", "single": "#D55E00", "pooled": "#9B5B88", "focused": "#0072B2"}
INK, MUTED, SHADE, GRID = "#222222", "#6B6B6B", "#F3F1EA", "#E4E4E4"
DASHES = (0, (4, 2))
#: Bands are drawn for this central interval.
BAND = 0.95

STYLE: Any = {
    "font.family": ["DejaVu Sans"],  # ships with matplotlib: the same letters on every machine
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": "#AAAAAA",
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titlepad": 8.0,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    **{f"{axis}tick.color": "#AAAAAA" for axis in "xy"},
    **{f"{axis}tick.labelcolor": MUTED for axis in "xy"},
    **{f"{axis}tick.labelsize": 8.0 for axis in "xy"},
    "svg.hashsalt": "borrow",
    "svg.fonttype": "path",
}


def save(figure: Figure, stem: Path, dpi: int = 150) -> list[Path]:
    """Write `stem`.svg and `stem`.png; no date inside, so that equal figures are equal files."""
    paths = [stem.with_name(stem.name + ending) for ending in (".svg", ".png")]
    with matplotlib.rc_context(STYLE):
        figure.savefig(paths[0], metadata={"Date": None, "Creator": "borrow"})
        figure.savefig(paths[1], dpi=dpi, metadata={"Software": "borrow"})
    return paths


def numbers(values: Sequence[float | None]) -> Any:
    """A list as an array, None as NaN."""
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def edges(mean: Any, std: Any, level: float = BAND) -> tuple[Any, Any]:
    """Lower and upper edge of the central band of a normal distribution."""
    half = norm.ppf(0.5 + level / 2) * numbers(std)
    return numbers(mean) - half, numbers(mean) + half


def band(ax: Axes, x: Any, mean: Any, std: Any, colour: str, level: float = BAND) -> None:
    """A mean and the central band around it."""
    lower, upper = edges(mean, std, level)
    ax.fill_between(x, lower, upper, color=colour, alpha=0.20, linewidth=0, zorder=2)
    for edge in (lower, upper):
        ax.plot(x, edge, color=colour, linewidth=0.5, alpha=0.5, zorder=2)
    ax.plot(x, numbers(mean), color=colour, linewidth=2.0, zorder=4, solid_capstyle="round")


def truth(ax: Axes, x: Any, f: Any) -> None:
    """The true function."""
    ax.plot(numbers(x), numbers(f), color=INK, linewidth=1.2, linestyle=DASHES, zorder=5)


def points(ax: Axes, x: Any, y: Any, colour: str = INK, size: float = 9.0) -> None:
    """Measured targets; rows without one are left out."""
    x, y = numbers(x), numbers(y)
    seen = np.isfinite(y)
    ax.scatter(x[seen], y[seen], s=size, color=colour, linewidths=0.4, edgecolors="white", zorder=6)


def shade_gap(ax: Axes, low: float, high: float) -> None:
    """Where there are no labels."""
    ax.axvspan(low, high, color=SHADE, linewidth=0, zorder=0)


def explain(ax: Axes, text: str, above: float = 8.0) -> None:
    """A line that says how to read the panel, over its upper edge."""
    ax.annotate(text, (0, 1), (0, above), "axes fraction", textcoords="offset points", fontsize=8, color=MUTED)


def signed(value: float) -> str:
    """A number with its sign, the minus as wide as the plus."""
    return f"{value:+.2f}".replace("-", "\u2212")
