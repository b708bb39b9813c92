"""The tables of bands and of relations in docs/papers/focused.md: see pages.py."""

from __future__ import annotations

from collections.abc import Callable

from pages_parts import load, made_by, table

ROWS = ("6", "10", "20", "50")


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
    return table(head, rows) + made_by(result, f"seeds {result['seeds']}")


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
    return table([*head, "dropped", "width", "draws"], rows) + made_by(result, f"seeds {result['seeds']}")


BLOCKS: dict[str, Callable[[], str]] = {"bands": bands, "relations": relations}
