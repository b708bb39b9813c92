"""Figures from plain data: small functions that draw on an Axes, for `model.plot()` and its like, and for the studies.

pyplot is asked for one thing only: an Axes where none was given, so that a notebook shows it. Equal data give equal SVG
files. Nothing of the package is imported here, so that everything in it may draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
except ModuleNotFoundError as absent:
    message = f"figures need {absent.name}, which is not installed: pip install 'borrow[plot]'"
    raise ModuleNotFoundError(message, name=absent.name) from None

#: Okabe and Ito's colours, safe for colour-blind readers; one for each method, the same everywhere.
COLOURS = {"ridge": "#666666", "single": "#D55E00", "pooled": "#9B5B88", "focused": "#0072B2"}
INK, MUTED, SHADE, GRID = "#222222", "#6B6B6B", "#F3F1EA", "#E4E4E4"
#: The same palette in an order, for tasks: the first is the one that matters.
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#9B5B88", "#E69F00", "#56B4E9", "#666666")
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


def new_axes(ax: Axes | None, width: float = 6.4, height: float = 4.0) -> Axes:
    """The Axes that was given, or a new one of pyplot, which a notebook shows."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    with matplotlib.rc_context(STYLE):
        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


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
    between(ax, x, mean, *edges(mean, std, level), colour)


def between(ax: Axes, x: Any, mean: Any, lower: Any, upper: Any, colour: str) -> None:
    """A mean between the edges of its band, or alone where they are None."""
    if lower is not None:
        ax.fill_between(x, lower, upper, color=colour, alpha=0.20, linewidth=0, zorder=2)
        for edge in (lower, upper):
            ax.plot(x, edge, color=colour, linewidth=0.5, alpha=0.5, zorder=2)
    ax.plot(x, numbers(mean), color=colour, linewidth=2.0, zorder=4, solid_capstyle="round")


def intervals(
    ax: Axes, labels: Sequence[str], value: Any, low: Any, high: Any, title: str, colour: str = COLOURS["focused"]
) -> Axes:
    """Dots with intervals around zero, one row per label, the first on top; hollow where the interval reaches zero.

    A value that is not known has a row without a dot.
    """
    value, low, high = numbers(value), numbers(low), numbers(high)
    at = np.arange(len(labels))
    ax.axvline(0.0, color=MUTED, linewidth=1.0, zorder=1)
    ax.hlines(at, low, high, color=colour, linewidth=2.0, alpha=0.6, zorder=2)
    sure = (low > 0) | (high < 0)
    fill = [colour if s else "white" for s in sure]
    ax.scatter(value, at, s=32.0, color=fill, edgecolors=colour, linewidths=1.4, zorder=3)
    ax.set_yticks(at, [str(v) for v in labels], color=INK)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(title)
    return ax


def heat_map(ax: Axes, labels: Sequence[str], values: Any, title: str) -> Axes:
    """A square table of correlations, blue where two go together and orange where one falls as the other rises."""
    values, n = np.asarray(values, dtype=float), len(labels)
    colours = LinearSegmentedColormap.from_list("borrow", [COLOURS["single"], "white", COLOURS["focused"]])
    ax.imshow(values, cmap=colours, vmin=-1.0, vmax=1.0)
    ax.set_xticks(range(n), [str(v) for v in labels], rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(n), [str(v) for v in labels])
    ax.grid(visible=False)
    if n <= 16:
        for i, j in np.ndindex(n, n):
            colour = "white" if abs(values[i, j]) > 0.6 else INK
            ax.text(j, i, signed(values[i, j]), ha="center", va="center", fontsize=7.5, color=colour)
    ax.set_title(title)
    return ax


def surface(ax: Axes, x: Any, y: Any, mean: Any, std: Any | None) -> Axes:
    """A number over two inputs: colour for the mean, lines where the standard deviation is the same."""
    drawn = ax.contourf(x, y, mean, levels=12, cmap="viridis")
    ax.figure.colorbar(drawn, ax=ax)
    if std is not None and np.ptp(std) > 0:
        lines = ax.contour(x, y, std, levels=4, colors="white", linewidths=0.8)
        ax.clabel(lines, fmt="\u00b1%.2g", fontsize=7.5)
    ax.grid(visible=False)
    return ax


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
