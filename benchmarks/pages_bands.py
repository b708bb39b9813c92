"""The tables of bands and of relations in docs/papers/focused.md: see pages.py."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

from pages_parts import ROOT, load, made_by, table

ROWS = ("6", "10", "20", "50")
OWN, AIM, MOST = ("model, 1 column", "model, 3 columns"), 0.87, 0.93


def caption(part: str) -> str:
    """The line under the table of one part: its own seeds and commits, from the records themselves."""
    lines = (ROOT / "docs" / "results" / "bands.jsonl").read_text().splitlines()
    records = [r for r in map(json.loads, lines) if r["part"] == part]
    commits = dict(Counter(r["commit"] for r in records).most_common())
    seeds = [r["seed"] for r in records]
    return made_by({"made by": {**load("bands")["made by"], "records by commit": commits}}, spread(seeds))


def spread(seeds: list[int]) -> str:
    return f"seeds {min(seeds)} to {max(seeds)}" if seeds else "no seed"


def bands() -> str:
    result = load("bands")
    rows = []
    for family, methods in result["table"].get("bands", {}).items():
        for method, lines in methods.items():
            shown = (lines.get(n) for n in ROWS)
            each = ["" if v is None else f"{v['function covered']:.2f} ({v['observation covered']:.2f})" for v in shown]
            other = [
                v["function of a secondary covered"] for v in lines.values() if "function of a secondary covered" in v
            ]
            density = [v["log density"] for v in lines.values()]
            draws = min(v["draws"] for v in lines.values())
            mean = f"{sum(density) / len(density):.2f}"
            rows.append([family, method, *each, f"{sum(other) / len(other):.2f}" if other else "", mean, draws])
    head = ["functions", "method", *(f"{n} rows" for n in ROWS), "of a secondary", "mean log density", "draws"]
    return table(head, rows) + caption("bands")


def own_models() -> str:
    """How often three GPs hold the function where their model is the truth, over rows and numbers of columns."""
    found, lines = load("bands")["table"].get("bands", {}), []
    for method in ("no transfer", "symmetric", "focused"):
        cells = [v["function covered"] for f in OWN for v in found.get(f, {}).get(method, {}).values()]
        short = sum(c < AIM for c in cells)
        lines.append(
            f"{method}: {min(cells):.2f} to {max(cells):.2f}, {sum(cells) / len(cells):.2f} in the mean; below the "
            f"{AIM} that was aimed at in {short} of {len(cells)} cells."
        )
    return "\n".join(f"- {line}" for line in lines)


def relations() -> str:
    result = load("bands")
    rows = []
    for family, methods in result["table"].get("relations", {}).items():
        for n, v in methods["focused"].items():
            rho = f"{v['rho held']:.2f}" if "rho held" in v else ""
            rows.append(
                [family, n, f"{v['correlation held']:.2f}", rho, v["clear"], v["dropped"], v["width"], v["draws"]]
            )
    head = ["functions", "rows", "interval holds the correlation", "ρ within 1.96 standard errors", "zero outside"]
    return table([*head, "dropped", "width", "draws"], rows) + caption("relations")


def labels() -> str:
    """Log loss with labels of the same functions, by the rows of the primary."""
    rows = []
    for family, methods in load("bands")["table"].get("labels", {}).items():
        for method, lines in methods.items():
            draws = min(v["draws"] for v in lines.values())
            rows.append([family, method, *(f"{lines[n]['log loss']:.2f}" for n in ROWS[1:]), draws])
    return table(["labels of functions", "log loss", *(f"{n} rows" for n in ROWS[1:]), "draws"], rows) + caption(
        "labels"
    )


def tried() -> str:
    """What counts what in the band of no transfer."""
    found = load("bands")["table"].get("tried", {})
    if not found:
        return "No record yet: `benchmarks/studies/bands.py --parts tried`."
    rows = [
        [name, f"{v['function covered']:.2f}", f"{v['log density']:.2f}", v["draws"]]
        for methods in found.values()
        for name, lines in methods.items()
        for v in lines.values()
    ]
    return table(["no transfer, three columns, 6 rows", "holds", "log density", "draws"], rows) + caption("tried")


def doubt() -> str:
    """What bands would hold that count that a relation may not be real, over rows and families of the models."""
    found = load("bands")["table"].get("doubt", {})
    if not found:
        return "No record yet: `benchmarks/studies/bands.py --parts doubt`."
    rows = []
    for method, way in (n.split(": ") for n in next(iter(found.values()))):
        cells = {f: found[f][f"{method}: {way}"] for f in found}
        own = [v for f in OWN for v in cells[f].values()]
        held, steps = [v["function covered"] for v in own], [v["function covered"] for v in cells["step"].values()]
        mean = [sum(v[k] for v in own) / len(own) for k in ("log density", "error")]
        draws = min(v["draws"] for lines in cells.values() for v in lines.values())
        rows.append(
            [
                method,
                way,
                f"{min(held):.2f} to {max(held):.2f}",
                f"{sum(held) / len(held):.2f}",
                f"{sum(AIM <= c <= MOST for c in held)} of {len(held)}",
                f"{min(steps):.2f}",
                f"{mean[0]:.3f}",
                f"{mean[1]:.3f}",
                draws,
            ]
        )
    head = ["method", "band", "holds, over rows and columns", "mean", f"{AIM} to {MOST}", "of a step, least"]
    return table([*head, "log density", "error", "draws"], rows) + caption("doubt")


BLOCKS: dict[str, Callable[[], str]] = {
    "bands doubt": doubt,
    "bands": bands,
    "bands own models": own_models,
    "bands labels": labels,
    "bands tried": tried,
}
BLOCKS["relations"] = relations
