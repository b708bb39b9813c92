"""Figures from plain data: small functions that draw on an Axes, and the page of `borrow demo` made of them.

Object-oriented matplotlib only, no pyplot and so no global state. Equal data give equal SVG files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import norm

#: Okabe and Ito's colours, safe for colour-blind readers; one for each method, the same everywhere.
COLOURS = {"ridge": "#666666", "single": "#D55E00", "pooled": "#9B5B88", "focused": "#0072B2"}
INK, MUTED, SHADE, GRID, UNSURE = "#222222", "#6B6B6B", "#F3F1EA", "#E4E4E4", "#8A8A8A"
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


def note(
    ax: Axes, text: str, to: tuple[float, float], colour: str, avoid: Sequence[tuple[Any, Any]]
) -> tuple[Any, Any]:
    """Name the thing at `to` in its own colour, from a free spot nearby.

    `avoid` are curves (x, y) in data units; the label comes back as one, for the next label to avoid.
    """
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    unit = np.array([right - left, high - low])
    taken = np.vstack([np.column_stack([numbers(x), numbers(y)]) for x, y in avoid])
    taken = (taken[np.isfinite(taken).all(axis=1)] - [left, low]) / unit
    target = (np.array(to) - [left, low]) / unit
    half = np.array([0.012 * len(text) + 0.01, 0.03])  # of the label, as a part of the axes
    across, up = np.linspace(half[0], 1 - half[0], 30), np.linspace(0.04, 0.96, 37)
    spots = np.array([(u, v) for u in across for v in up])
    apart = np.maximum(np.abs(spots[:, None] - taken) - half, 0.0)  # from the label's box to each point
    clear = np.hypot(apart[..., 0], apart[..., 1]).min(axis=1)
    best = spots[np.argmax(np.minimum(clear, 0.03) * 30 - np.hypot(*(spots - target).T))]
    arrow = {"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 2}
    style: dict[str, Any] = {"color": colour, "fontsize": 8, "ha": "center", "va": "center", "zorder": 8}
    ax.annotate(text, to, xytext=best, textcoords="axes fraction", arrowprops=arrow, **style)
    box = np.stack([best + half * [u, v] for u in np.linspace(-1, 1, 9) for v in (-1, 0, 1)])
    x, y = (box * unit + [left, low]).T
    return x, y


def explain(ax: Axes, text: str, above: float = 8.0) -> None:
    """A line that says how to read the panel, over its upper edge."""
    ax.annotate(text, (0, 1), (0, above), "axes fraction", textcoords="offset points", fontsize=8, color=MUTED)


def signed(value: float) -> str:
    """A number with its sign, the minus as wide as the plus."""
    return f"{value:+.2f}".replace("-", "\u2212")


def short_names(tasks: Sequence[Any]) -> list[str]:
    """Task names without the words that they all begin with."""
    names = [str(t) for t in tasks]
    first, last = min(names), max(names)  # what these two share, all share
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    cut = first[:same].rfind(" ") + 1
    return [n[cut:] for n in names]


def rho_strip(ax: Axes, table: Mapping[str, Sequence[Any]], colour: str = COLOURS["focused"]) -> None:
    """rho of each task with bars of two standard errors, sorted; hollow where the bar reaches zero.

    `table` has the columns task, rho, std_error, and true_rho where it is known.
    """
    rho, se = numbers(table["rho"]), numbers(table["std_error"])
    order = np.argsort(rho, kind="stable")
    at, rho, se = np.arange(len(rho)), rho[order], se[order]
    fill = np.where(np.abs(rho) > 2 * se, colour, "white")  # an unknown error is no certainty
    ax.axhline(0.0, color=MUTED, linewidth=0.9, zorder=1)
    ax.vlines(at, rho - 2 * se, rho + 2 * se, color=colour, linewidth=1.8, alpha=0.45, zorder=3)
    ax.scatter(at, rho, s=34, facecolors=fill, edgecolors=colour, linewidths=1.3, zorder=4)
    if "true_rho" in table:
        true = numbers(table["true_rho"])[order]
        ax.scatter(at, true, s=260, marker="_", color=INK, linewidths=1.4, zorder=5)
    ax.set_xticks(at, [short_names(table["task"])[i] for i in order])
    side = max(len(rho) / 2 + 0.3, 4.0)  # a few tasks stand together, not a page apart
    ax.set_xlim((len(rho) - 1) / 2 - side, (len(rho) - 1) / 2 + side)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.grid(axis="x", visible=False)
    ax.tick_params(axis="x", length=0)


def thumbnail(ax: Axes, x: Any, f: Any, y: Any, colour: str = COLOURS["focused"]) -> None:
    """One secondary's targets over the primary's function, both to unit spread, axes without numbers."""
    f, y = numbers(f), numbers(y)
    ax.plot(x, (y - np.nanmean(y)) / np.nanstd(y), color=colour, linewidth=1.5, zorder=4)
    ax.plot(x, (f - f.mean()) / f.std(), color=INK, linewidth=0.9, linestyle=DASHES, zorder=5)
    ax.set_ylim(-3.3, 3.3)
    ax.set_xlim(min(x), max(x))
    ax.set(xticks=[], yticks=[])
    ax.spines[["left", "bottom"]].set_visible(False)


def demo_figure(result: Mapping[str, Any]) -> Figure:
    """The page of `borrow demo`: the gap by three methods, rho of each task, and a few of the tasks."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 9.2))
        grid = figure.add_gridspec(
            3, 1, height_ratios=(3.2, 2.1, 1.0), left=0.06, right=0.98, top=0.862, bottom=0.025, hspace=0.5
        )
        _page_heading(figure, result)
        panels = grid[0].subgridspec(1, 3, wspace=0.07)
        _gap_panels([figure.add_subplot(panels[0, i]) for i in range(3)], result)
        _strip_panel(figure.add_subplot(grid[1]), result)
        shown = spread_out(result["relatedness"])
        cells = grid[2].subgridspec(1, max(len(shown), 4), wspace=0.08)
        _thumbnail_row([figure.add_subplot(cells[0, i]) for i in range(len(shown))], shown, result)
        figure.align_ylabels()
    return figure


def _page_heading(figure: Figure, result: Mapping[str, Any]) -> None:
    by, problem = {m["name"]: m for m in result["methods"]}, result["problem"]
    n = problem["n_secondaries"]
    finding = {
        "helps": "helps to fill the gap",
        "hurts": "does not help on the gap",
        "mixed": "is a mixed blessing on the gap",
        "same": "makes no difference on the gap",
    }[result["verdict"]["outcome"]]
    change = f"error {by['single']['mse']:.3g} without, {by['focused']['mse']:.3g} with"
    title = f"Borrowing from {n} other task{'s' * (n != 1)} {finding}: {change}"
    figure.text(0.06, 0.968, title, fontsize=13, fontweight="bold", va="center")
    n_seen = problem["n_inputs"] - problem["n_hidden"]
    text = (
        f"The primary task has {n_seen} labels (dots) and none in the shaded gap. Error: mean squared, of "
        f"the mean against the true function on the gap.\n{problem['source']}; seed {problem['seed']}."
    )
    figure.text(0.06, 0.953, text, fontsize=8.5, color=MUTED, va="top", linespacing=1.5)


def _gap_panels(axes: Sequence[Axes], result: Mapping[str, Any]) -> None:
    curves, by = result["curves"], {m["name"]: m for m in result["methods"]}
    low, high = result["problem"]["gap"]
    names = ("single", "pooled", "focused")
    x, f, targets = curves["x"], curves["truth"], curves["targets"]["primary"]
    limits = panel_limits(curves, names)
    for ax, name in zip(axes, names, strict=True):
        curve, method = curves["methods"][name], by[name]
        shade_gap(ax, low, high)
        band(ax, x, curve["mean"], curve["std"], COLOURS[name])
        truth(ax, x, f)
        points(ax, x, targets)
        title = f"{method['label'].capitalize()}: error {method['mse']:.3g}"
        ax.set_title(title, color=COLOURS[name], fontweight="bold")
        ax.set_xlim(min(x) - 0.1, max(x) + 0.1)
        ax.set_ylim(*limits)
        ax.set_xlabel("input")
        if ax is not axes[0]:
            ax.tick_params(axis="y", length=0, labelleft=False)
    axes[0].set_ylabel("target")
    _name_curves(axes[0], x, f, targets, curves["methods"]["single"], COLOURS["single"], (low, high))


def _name_curves(
    ax: Axes, x: Any, f: Any, targets: Any, curve: Mapping[str, Any], colour: str, gap: tuple[float, float]
) -> None:
    """Direct labels, in the first panel only: the others repeat its language."""
    x, f, y, mean = numbers(x), numbers(f), numbers(targets), numbers(curve["mean"])
    lower, upper = edges(mean, curve["std"])
    avoid = [(x, v) for v in (f, y, mean, lower, upper)]
    inside = np.flatnonzero((x > gap[0]) & (x < gap[1]))
    apart = inside[np.argmax(np.abs(f - mean)[inside])]  # where truth and mean are easiest to tell apart
    label = note(ax, "true function", (x[apart], f[apart]), INK, avoid)
    edge = np.clip(upper if mean[apart] > f[apart] else lower, *ax.get_ylim())  # the one away from the truth
    at = inside[np.argmax(np.abs(edge - mean)[inside])]
    note(ax, f"mean and {100 * BAND:.0f} % band", (x[at], edge[at]), colour, [*avoid, label])


def panel_limits(curves: Mapping[str, Any], names: Sequence[str]) -> tuple[float, float]:
    """One range for all panels: every curve and target, and the bands where they are not much wider."""
    shown = [curves["methods"][name] for name in names]
    core = np.concatenate([curves["truth"], numbers(curves["targets"]["primary"]), *(c["mean"] for c in shown)])
    bands = np.array([edges(c["mean"], c["std"]) for c in shown])
    low, high = float(np.nanmin(core)), float(np.nanmax(core))
    room = 0.6 * (high - low)
    low, high = max(low - room, min(low, bands.min())), min(high + room, max(high, bands.max()))
    pad = 0.13 * (high - low)
    return low - pad, high + pad


def _strip_panel(ax: Axes, result: Mapping[str, Any]) -> None:
    rows = result["relatedness"]
    rho_strip(ax, {name: [row[name] for row in rows] for name in rows[0]})
    sure = sum(row["related"] for row in rows)
    title = f"Who is related: {sure} of {len(rows)} weights \u03c1 are more than two standard errors from zero"
    ax.set_title(title, fontweight="bold", pad=22)
    reading = "Dots: estimated \u03c1, with two standard errors to each side; hollow where these reach zero. "
    explain(ax, reading + "Black ticks: the \u03c1 that made the data.")
    ax.set_ylabel("\u03c1, for scaled targets")
    ax.set_xlabel("secondary task, from most negative to most positive")


def spread_out(rows: Sequence[Mapping[str, Any]], most: int = 6) -> list[Mapping[str, Any]]:
    """The tasks to show: the most related, some between, the least."""
    return [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, most).round().astype(int))]


def _thumbnail_row(axes: Sequence[Axes], rows: Sequence[Any], result: Mapping[str, Any]) -> None:
    curves = result["curves"]
    for ax, row, name in zip(axes, rows, short_names([row["task"] for row in rows]), strict=True):
        shade_gap(ax, *result["problem"]["gap"])
        colour = COLOURS["focused"] if row["related"] else UNSURE
        thumbnail(ax, curves["x"], curves["truth"], curves["targets"][row["task"]], colour)
        found, true = signed(row["correlation"]), signed(row["true_correlation"])
        ax.set_title(f"{name}:  {found}  (true {true})", fontsize=8, color=colour, pad=3)
    text = (
        "From the most related to the least: targets (solid) and the primary's function (dashed), both "
        "to unit spread.\nAbove each, its correlation with the primary: estimated, and true."
    )
    explain(axes[0], text, 17.0)
