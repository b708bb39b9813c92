"""Block of docs/defaults.md, from docs/results/ablations.json: see pages.py."""

from __future__ import annotations

from collections.abc import Callable

from pages_parts import load, made_by, table


def ablations() -> str:
    """Every default with and without, by data set; the default's name on its first row alone."""
    result, before, rows = load("ablations"), None, []
    for r in result["table"]:
        first = r["default"] != before
        before = r["default"]
        rows.append(
            [
                r["default"] if first else "",
                r["chosen on"] if first else "",
                r["data"],
                f"{r['error, with / without']:.3f}",
                f"{r['draws with the lower error']} / {r['draws with the higher error']} of {r['draws']}",
                f"{r['log density, with less without']:+.3f}",
                ", ".join(f"{v:.2f}" for v in r.get("in the 90 % band, with and without", ())),
            ]
        )
    head = ["default", "chosen on", "judged on", "error, with / without", "draws lower / higher"]
    head += ["log density, gain", "in the 90 % band, with, without"]
    return table(head, rows) + made_by(result, f"seeds {result['seeds']}")


BLOCKS: dict[str, Callable[[], str]] = {"ablations": ablations}
