"""Blocks of docs/transfer.md: see pages.py."""

from __future__ import annotations

from collections.abc import Callable

from pages_parts import load, made_by, table

NAMES = {"single": "no transfer", "pooled": "pooled", "symmetric": "symmetric", "focused": "focused"}


def verdict() -> str:
    result = load("verdict")
    rows = []
    for family, f in result["families"].items():
        n, answers = f["draws"], f["answers"]
        rows.append(
            [
                family,
                f"**{answers['helps']}** of {n}",
                answers["cannot tell"],
                answers["hurts"],
                f["AutoRegressor / no transfer, medians"],
                f["worst draw, AutoRegressor / no transfer"],
                f["plain t interval of the focused GP below zero, draws"],
            ]
        )
    head = [
        "secondaries",
        "helps",
        "cannot tell",
        "hurts",
        "`AutoRegressor` / no transfer",
        "worst draw",
        "focused below zero by a plain t",
    ]
    first, last = result["seeds"]
    return table(head, rows) + made_by(result, f"seeds {first} to {last}")


def errors() -> str:
    result = load("verdict")
    rows = [
        [family, *(f["median error"][m] for m in NAMES), f["median error, AutoRegressor"]]
        for family, f in result["families"].items()
    ]
    return table(["median error", *NAMES.values(), "`AutoRegressor`"], rows)


def killed() -> str:
    result = load("compare_kill")
    same = "yes" if result["same table to the last digit"] else "**no**"
    names = ("kills", "fits", "fits begun", "fits begun twice or more", "fits written twice", "files torn by a kill")
    rows = [[name, result[name]] for name in names]
    rows.append(["same table to the last digit", same])
    return table(["figure", "measured"], rows) + made_by(result, f"seed {result['seed']}")


def headline() -> str:
    result, kills = load("verdict"), load("compare_kill")
    f = result["families"]
    told = " / ".join(f"{f[k]['answers']['helps']} of {f[k]['draws']}" for k in ("shared", "unrelated"))
    ratio = " / ".join(str(f[k]["AutoRegressor / no transfer, medians"]) for k in ("shared", "unrelated"))
    same = "the same to the last digit" if kills["same table to the last digit"] else "not the same"
    rows = [
        ["The verdict says “helps”; secondaries share the function / are unrelated", told, "`…/verdict.py`"],
        ["`AutoRegressor`, median error to no transfer; shared / unrelated", ratio, "`…/verdict.py`"],
        [f"A comparison killed {kills['kills']} times and resumed: its table", same, "`…/compare_kill.py`"],
    ]
    rows = [[a, b, c.replace("…", "benchmarks/studies")] for a, b, c in rows]
    return table(["what", "figure", "command"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "verdict": verdict,
    "verdict errors": errors,
    "compare kill": killed,
    "headline transfer": headline,
}
