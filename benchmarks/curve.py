"""The curve of docs/large.md: rows against seconds and against the log density of new rows, from the records.

python benchmarks/curve.py        writes docs/figures/approximations.svg and .png; fits nothing
"""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.figure import Figure

from borrow import plot as figures
from pages_gpu import on_the_curve
from results import FIGURES


def draw(found: dict[tuple[str, int], dict[str, Any]]) -> Figure:
    """Two panels, a line for each way to fit; what was run at one size is a dot."""
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(8.2, 3.6), layout="constrained")
        for ax, name in zip(figure.subplots(1, 2), ("seconds", "log density of new rows"), strict=True):
            for line, colour in zip(dict.fromkeys(line for line, _ in found), figures.CYCLE, strict=False):
                at = [(n, r[name]) for (of, n), r in found.items() if of == line]
                ax.plot(*zip(*at, strict=True), marker="o", ms=4, lw=1.4, color=colour, label=line)
            ax.set(xscale="log", xlabel="rows", title=name)
            ax.set_xticks(sizes := sorted({n for _, n in found}), [f"{n:,}" for n in sizes])
            ax.minorticks_off()
        figure.axes[0].set_yscale("log")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    return figure


if __name__ == "__main__":
    figures.save(draw(on_the_curve()), FIGURES / "approximations")
