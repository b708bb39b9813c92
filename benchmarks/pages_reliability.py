"""Blocks of docs/reliability.md: see pages.py."""

from __future__ import annotations

from collections.abc import Callable

from pages_parts import commits, load, made_by, table


def attack() -> str:
    result = load("attack")
    rows = [
        [c["campaign"], f"{c['tried']:,}", c["failed"], f"{c['seconds'] / 60:.1f}"]
        for c in [*result["campaigns"], _all(result["campaigns"])]
    ]
    return table(["campaign", "cases tried", "failed", "minutes"], rows) + made_by(
        result, f"{result['minutes']:g} minutes, seed {result['seed']}"
    )


def _all(campaigns: list[dict]) -> dict:
    return {"campaign": "all", **{k: sum(c[k] for c in campaigns) for k in ("tried", "failed", "seconds")}}


def mutants() -> str:
    result = load("mutants")
    tried, killed, same, sample = (result[k] for k in ("tried", "killed", "equivalent", "sample"))
    left = sample - tried - same
    words = (
        f"Of {sample} mutants {same} are called equivalent ({100 * same / sample:.1f} %). Of the others {tried} were "
        f"tried{f', {left} not yet,' if left else ''} and {killed} killed ({100 * killed / max(tried, 1):.1f} %). "
        f"{commits(result)}, seed {result['seed']}."
    )
    rows = [[f"`{s['place']}`", f"`{s['change']}`", f"`{s['line']}`"] for s in result["survivors"]]
    return words + "\n\n" + table(["survivor", "change", "line"], [[c.replace("|", "\\|") for c in r] for r in rows])


def memory() -> str:
    result = load("memory_guard")
    by_case: dict[str, list[dict]] = {}
    for c in result["cases"]:
        by_case.setdefault(c["case"], []).append(c)
    rows = [
        [
            name,
            ", ".join(f"{c['rows']:,}" for c in cases),
            ", ".join(f"{c['taken'] / 2**20:.0f}" for c in cases),
            ", ".join(f"{c['ratio']:.2f}" for c in cases),
        ]
        for name, cases in by_case.items()
    ]
    head = ["model and path", "rows", "MiB taken", "asked / taken"]
    return table(head, rows) + made_by(result, f"seed {result['seed']}")


BLOCKS: dict[str, Callable[[], str]] = {"attack": attack, "mutants": mutants, "memory guard": memory}
