"""What the compiler data look like: figures and picture of docs/data/compiler.md, from the table of the package.

    python benchmarks/compiler_data.py

Takes seconds. Effects are of the logarithm of speed-up; "+10" is ten per cent more speed-up with the flag than without,
on average over the random settings of the other flags.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from borrow import plot as figures
from borrow.datasets import CompilerData, load_compiler
from results import FIGURES, ROOT, write_result

SHORT = {"inline-functions-called-once": "inline-called-once", "inline-small-functions": "inline-small"}


def design(X: np.ndarray, pairs: bool) -> np.ndarray:
    """Columns -1/2, +1/2 for each flag, their products where asked, and a constant."""
    Z = X - 0.5
    products = [2.0 * Z[:, i] * Z[:, j] for i, j in itertools.combinations(range(Z.shape[1]), 2)]
    return np.column_stack([np.ones(len(Z)), Z, *(products if pairs else [])])


def main_effects(data: CompilerData) -> np.ndarray:
    """Effect of each flag on log speed-up, programs by flags, least squares over the random settings."""
    random = np.array(data.kinds) == "random"
    return np.linalg.lstsq(design(data.X[random], False), np.log(data.speedup[random]), rcond=None)[0][1:].T


def predicted_share(data: CompilerData, pairs: bool, folds: int = 10, seed: int = 0) -> np.ndarray:
    """Share of the variance of log speed-up that least squares predicts for settings held out, one figure a program."""
    Z, Y = design(data.X, pairs), np.log(data.speedup)
    fold = np.random.RandomState(seed).permutation(len(Z)) % folds
    guess = np.empty_like(Y)
    for k in range(folds):
        guess[fold == k] = Z[fold == k] @ np.linalg.lstsq(Z[fold != k], Y[fold != k], rcond=None)[0]
    return 1.0 - ((Y - guess) ** 2).sum(0) / ((Y - Y.mean(0)) ** 2).sum(0)


def summary(data: CompilerData, notes: dict[str, Any]) -> dict[str, Any]:
    """Everything that the page says in figures."""
    log = np.log(data.speedup)
    effects, main, pairs = main_effects(data), predicted_share(data, False), predicted_share(data, True)
    single = np.array(data.kinds) == "single"
    R = np.corrcoef(log.T)
    between = R[np.triu_indices(len(R), 1)]
    nearest = np.argmax(R - 2 * np.eye(len(R)), axis=1)
    spectrum = np.linalg.eigvalsh(R)[::-1] / len(R)
    rows = []
    for m, program in enumerate(data.programs):
        best = int(np.argmax(data.speedup[single, m]))
        rows.append(
            {
                "program": program,
                "instructions without flags": int(data.counts[0, m]),
                "speed-up, least": round(float(data.speedup[:, m].min()), 3),
                "median": round(float(np.median(data.speedup[:, m])), 3),
                "all flags": round(float(data.speedup[data.kinds.index("all"), m]), 3),
                "most": round(float(data.speedup[:, m].max()), 3),
                "best flag alone": data.flags[int(np.flatnonzero(data.X[single][best])[0])],
                "its speed-up": round(float(data.speedup[single, m][best]), 3),
                "largest mean effect": data.flags[int(np.argmax(np.abs(effects[m])))],
                "per cent": round(100 * float(np.expm1(effects[m][np.argmax(np.abs(effects[m]))])), 1),
                "distinct counts, share": round(len(np.unique(data.counts[:, m])) / len(data.X), 3),
                "distinct builds": notes["distinct_builds"][program],
                "predicted by main effects": round(float(main[m]), 3),
                "with pairs": round(float(pairs[m]), 3),
                "nearest program": data.programs[int(nearest[m])],
                "correlation": round(float(R[m, nearest[m]]), 3),
            }
        )
    return {
        "seed": 0,
        "settings": len(data.X),
        "measured": notes,
        "rows": rows,
        "flags where the sign differs between programs": [
            flag for flag, e in zip(data.flags, effects.T, strict=True) if e.min() < -0.01 and e.max() > 0.01
        ],
        "correlation of log speed-up between programs: least, median, most": [
            round(float(q), 3) for q in np.quantile(between, [0.0, 0.5, 1.0])
        ],
        "share of standardised variance in 1, 2, 3, 5 components": [
            round(float(spectrum[:k].sum()), 3) for k in (1, 2, 3, 5)
        ],
        "cells slower than without flags, share": round(float(np.mean(data.speedup < 1.0)), 3),
    }


def draw(data: CompilerData) -> Figure:
    """Effects of flags on programs; below, the spread of speed-up and the correlation of programs."""
    effects, log = main_effects(data), np.log(data.speedup)
    R = np.corrcoef(log.T)
    order = leaves_list(linkage(squareform(1.0 - R, checks=False), "average", optimal_ordering=True))
    columns = np.argsort(-np.abs(effects).mean(0))
    names = [data.programs[i] for i in order]
    with matplotlib.rc_context({**figures.STYLE, "axes.titleweight": "bold"}):
        figure = Figure(figsize=(10.0, 9.2), layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=[1.0, 0.95], width_ratios=[1.15, 1.0])
        top = figure.add_subplot(grid[0, :])
        flags = [SHORT.get(data.flags[j], data.flags[j]) for j in columns]
        shown = effects[order][:, columns]
        per_cent = np.where(
            np.abs(np.expm1(shown)) < 0.005,
            "",
            [[f"{v:+.0f}".replace("-", "\u2212") for v in r] for r in 100 * np.expm1(shown)],
        )
        _cells(top, shown, per_cent, flags, names, 0.45, "RdBu")
        both = [name for name, e in zip(flags, shown.T, strict=True) if e.min() < -0.01 and e.max() > 0.01]
        top.set_title(f"What a flag brings: {len(both)} of {len(flags)} help one program and hurt another", pad=22)
        reading = (
            "Per cent more speed-up with the flag than without, on average over the random settings of the others; "
        )
        figures.explain(top, reading + "blank: less than half a per cent.")
        left = figure.add_subplot(grid[1, 0])
        blue, jitter = figures.COLOURS["focused"], np.random.RandomState(0).uniform(-0.32, 0.32, len(data.X))
        for row, m in enumerate(order):
            dots = left.scatter(data.speedup[:, m], row + jitter, s=2, color=blue, alpha=0.45, lw=0)
            dots.set_rasterized(True)  # 7,040 dots as paths would be a megabyte
            everything = data.speedup[data.kinds.index("all"), m]
            left.plot([everything] * 2, [row - 0.42, row + 0.42], color=figures.INK, lw=1.4)
        ticks = [0.8, 1, 1.5, 2, 3, 4, 6, 8]
        left.set(xscale="log", yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
        left.set_xticks(ticks, [f"{t:g}" for t in ticks])
        left.minorticks_off()
        left.grid(axis="y", visible=False)
        left.axvline(1.0, color=figures.MUTED, lw=0.8, ls="--")
        beaten = int(np.sum(data.speedup[data.kinds.index("all")] < data.speedup.max(0)))
        left.set_title(f"All flags on is not the best for {beaten} of {len(names)} programs", pad=22)
        figures.explain(left, "A dot for each setting; bar: all flags on.")
        left.set_xlabel("instructions without flags / instructions")
        right = figure.add_subplot(grid[1, 1])
        R = R[np.ix_(order, order)]
        text = np.where(np.eye(len(R)) == 1, "", [[f"{100 * v:.0f}" for v in r] for r in R])
        _cells(right, R, text, names, names, 1.0, "RdBu")
        low, high = (R[np.triu_indices(len(R), 1)].min(), R[np.triu_indices(len(R), 1)].max())
        right.set_title(f"Programs correlate from {figures.signed(low)} to {figures.signed(high)}", pad=22)
        figures.explain(right, "Correlation of log speed-up over the settings, per cent.")
    return figure


def _cells(
    ax: Any, values: np.ndarray, text: np.ndarray, across: list[str], down: list[str], most: float, colours: str
) -> None:
    ax.imshow(values, cmap=colours, vmin=-most, vmax=most, aspect="auto")
    for i, j in np.ndindex(values.shape):
        dark = abs(values[i, j]) > 0.62 * most
        ax.text(j, i, text[i, j], ha="center", va="center", fontsize=7.5, color="white" if dark else figures.INK)
    ax.set_xticks(range(len(across)), across, rotation=35, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(down)), down)
    ax.grid(visible=False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def main() -> None:
    data = load_compiler()
    notes = json.loads((ROOT / "data" / "compiler" / "measured.json").read_text())
    result = summary(data, notes)
    write_result("compiler_data", result)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(draw(data), FIGURES / "compiler_data")
    for row in result["rows"]:
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
