"""Blocks of docs/command_line.md."""

from __future__ import annotations

from collections.abc import Callable

from pages_parts import load, made_by, table


def reading() -> str:
    """Large files of which little is used."""
    result = load("cli_csv")
    rows = []
    for f in result["files"]:
        every, predicted = f.get("all, peak megabytes"), f.get("predict, peak megabytes")
        rows.append(
            [
                f"{f['megabytes']:.0f} MB, {f['rows']:,} rows",
                f"{f['used, seconds']:.1f} s, {f['used, peak megabytes']:.0f} MB",
                f"{f['used, wall']:.1f} s",
                "-" if every is None else f"{f['all, seconds']:.1f} s, {every:.0f} MB",
                "-" if predicted is None else f"{f['predict, seconds']:.1f} s, {predicted:.0f} MB",
            ]
        )
    head = [
        "file",
        "read 3 of 44 columns",
        "by the clock, busy machine",
        "polars, all columns",
        "borrow predict --only",
    ]
    return table(head, rows) + made_by(result, f"seed {result['seed']}")


BLOCKS: dict[str, Callable[[], str]] = {"cli csv": reading}
