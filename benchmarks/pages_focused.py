"""Blocks of docs/papers/focused.md but for the tables of bands: see pages.py."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from pages_parts import all_commits, load, made_by, table, there_is
from pages_settings import FIGURE_4

LITERAL = "paper, literal"
ALONE = ("single", "ridge", "pooled")
BELOW = "draws below the paper's model"


def in_the_gap(gap: str = "contiguous", name: str = "leen2011_synthetic") -> dict[tuple[str, int], dict[str, Any]]:
    """Rows of Figure 4, by method and number of secondaries."""
    rows = load(name)["table"]
    return {(r["method"], r["secondaries"]): r for r in rows if r["gap"] == gap}


def divided() -> float:
    """By how much 24 secondaries divide the error in the gap."""
    by = in_the_gap()
    return round(by["focused", 0]["error"] / by["focused", 24]["error"], 1)


def synthetic(gap: str, name: str = "leen2011_synthetic") -> str:
    result, by = load(name), in_the_gap(gap, name)
    shown = [m for m in FIGURE_4 if any(m == method for method, _ in by)]

    def cell(m: str, n: int) -> str:
        r = by.get((m, n))
        if r is None:
            return "–"
        fewer = "" if r["draws"] == by["focused", n]["draws"] else f" ({r['draws']} draws)"
        return f"{r['error']:.3g} ± {r['sd']:.2g}{fewer}"

    rows = [
        [
            n,
            *(cell(m, n) for m in shown),
            f"{by['focused', n]['better than no transfer']} of {by['focused', n]['draws']}",
            f"{100 * by['focused', n]['covered by 90 % band']:.0f} %",
        ]
        for n in sorted({n for m, n in by if m == "focused"})
    ]
    head = ["secondaries", *(FIGURE_4[m] for m in shown), "ours better than no transfer", "truth in 90 % band"]
    made = {m: all_commits([by[k] for k in by if k[0] == m]) for m in shown}
    named = "; ".join(f"{FIGURE_4[m]} {', '.join(c)}" for m, c in made.items())
    seeds = f"seeds {result['seeds'][0]} to {result['seeds'][-1]}"
    return table(head, rows) + made_by(result, seeds)[:-1] + f" Commits by column: {named}.*"


def negative_transfer() -> str:
    result = load("leen2011_negative_transfer")
    rows = [
        [
            r["family"],
            r["median error, single"],
            f"**{r['focused / single']}**",
            " / ".join(map(str, r["focused / single of each hundred"])),
            "" if r["at most"] is None else r["at most"],
            r["nine tenths of draws are below"],
            r["focused, no prior on rho / single"],
            r["pooled / single"],
            r["ridge / single"],
            f"{r['relation dropped, draws']} of {r['draws']}",
        ]
        for r in result["table"]
    ]
    head = ["secondary", "error alone", "ours", "of each hundred", "at most", "nine tenths of draws below"]
    head += ["no prior on ρ", "pooled", "ridge", "relation dropped"]
    seeds = " and ".join(f"{first} to {last}" for first, last in result["seeds"])
    return table(head, rows) + made_by(result, f"seeds {seeds}")


def variance() -> str:
    result = load("leen2011_variance")
    rows = [
        [
            f"{r['rho2']:g}",
            r["mean symmetric"],
            r["mean asymmetric"],
            r["symmetric at 1/5, 1/2, 4/5"][1],
            r["asymmetric at 1/5, 1/2, 4/5"][1],
            r["largest excess of asymmetric"],
        ]
        for r in result["rows"]
    ]
    head = ["ρ²", "mean, symmetric", "mean, asymmetric", "at 1/2, symmetric", "at 1/2, asymmetric", "largest excess"]
    return table(head, rows) + made_by(result, "no randomness")


def bench() -> str:
    result = load("bench_focused")
    rows = [[k, v] for k, v in result["figures"].items()]
    return table(["figure", "measured"], rows) + made_by(result, "seed 0")


def literally(name: str = "leen2011_synthetic") -> str:
    """The paper's model, literally, by its own claim and beside our defaults, in words."""
    by = in_the_gap("contiguous", name)
    counts = sorted(n for m, n in by if m == LITERAL and ("focused", n) in by)
    beside = [n for n in counts if n]
    ahead = {k: sum(by[LITERAL, n][k] < by["focused", n][k] for n in beside) for k in ("error", "median")}
    falls = {k: sum(by[LITERAL, n][k] < by[LITERAL, m][k] for m, n in pairwise(counts)) for k in ("error", "median")}
    below = [by["focused", n].get(BELOW) for n in beside]
    fits = sum(by[LITERAL, n]["draws"] for n in beside)
    single = f", draw by draw in {fits - sum(below)} of {fits}" if None not in below else ""
    own = {n: by["focused", n].get("draws with a part of the primary's own") for n in counts}
    said = [((m, n), r["optimiser warnings"]) for (m, n), r in by.items() if m not in ALONE and r["optimiser warnings"]]
    warned = "; ".join(f"{FIGURE_4[m]}, {n} secondaries: {count}" for (m, n), count in said)
    at = " / ".join(map(str, beside))
    lines = [
        f"The error of the paper's model, literally, falls in {falls['error']} of {len(counts) - 1} steps in the mean "
        f"of the draws and in {falls['median']} in their median.",
        f"With {at} secondaries it is ahead of our defaults at {ahead['error']} of {len(beside)} counts in the mean "
        f"and at {ahead['median']} in the median{single}.",
        f"Warnings of the optimiser: {warned or 'none'}.",
    ]
    if None not in own.values():
        lines.append(
            "Draws in which our defaults give the primary a part of its own, which in truth it has not: "
            + ", ".join(f"{d} with {n}" for n, d in own.items())
            + "."
        )
    return "\n".join(f"- {line}" for line in lines)


def beside_the_literal(name: str = "leen2011_synthetic") -> str:
    """Errors of our columns over that of the paper's model, literally, by the number of secondaries."""
    by = in_the_gap("contiguous", name)
    counts = sorted(n for m, n in by if m == LITERAL)
    ours = [m for m in FIGURE_4 if m != LITERAL and m not in ALONE and any(k[0] == m for k in by)]

    def cell(m: str, n: int) -> str:
        if (m, n) not in by:
            return "–"
        r = by[m, n]
        ratio = f"{r['error'] / by[LITERAL, n]['error']:.2f}"
        if BELOW not in r:
            return ratio
        mean = r["over the paper's model, geometric mean"]
        return f"{ratio} ({mean:.2f}; {r['draws'] - r[BELOW]} of {r['draws']})"

    head = "error over the literal model's, of the means (geometric mean of draws; draws above), by secondaries"
    rows, result = [[FIGURE_4[m], *(cell(m, n) for n in counts)] for m in ours], load(name)
    seeds = f"seeds {result['seeds'][0]} to {result['seeds'][-1]}"
    return table([head, *map(str, counts)], rows) + made_by(result, seeds)


def tried() -> str:
    """What was tried to keep up with the literal model, on draws of its own."""
    name = "leen2011_synthetic_100"
    if not there_is(name):
        return (
            "Not run yet: `benchmarks/studies/leen2011_synthetic.py --first 100 --draws 20 --gaps contiguous --tried`."
        )
    return "\n\n".join((beside_the_literal(name), synthetic("contiguous", name), literally(name)))


BLOCKS: dict[str, Callable[[], str]] = {
    "synthetic contiguous": lambda: synthetic("contiguous"),
    "synthetic random": lambda: synthetic("random"),
    "synthetic other draws": lambda: synthetic("contiguous", "leen2011_synthetic_20"),
    "synthetic literally": literally,
    "synthetic beside the literal": beside_the_literal,
    "synthetic other draws literally": lambda: literally("leen2011_synthetic_20"),
    "synthetic tried": tried,
    "negative transfer": negative_transfer,
    "variance": variance,
    "bench focused": bench,
}
