"""`borrow demo`: a table of real measurements, what `borrow compare` says of it, and the report.

Eleven C programs were built under settings of thirteen compiler flags (`borrow.datasets.load_compiler`). A new program
was measured under 16 settings, each of the others under twice as many: do these help to predict its speed-up? The new
one is the first by name; the numbers of settings and folds were set by the time that two slow cores need, not by the
answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from borrow.cli import compare
from borrow.cli import options as o
from borrow.cli.output import fail, print_lines
from borrow.numerics.files import write_atomically

EXAMPLE = "borrow demo --quick --output out/demo"
#: How many settings were measured for the new program, and for each of the others.
OWN_SETTINGS, OTHER_SETTINGS = 16, 32
#: What `borrow compare` is asked for: usually, and with --quick.
USUAL: dict[str, Any] = {"folds": 5, "repeats": 2}
QUICK: dict[str, Any] = {"folds": 4, "methods": "pooled,symmetric"}
MOST_JOBS = 4


def run(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the table and the report.")] = Path(
        "out/demo"
    ),
    seed: o.Seed = 0,
    secondaries: Annotated[
        int, typer.Option("--secondaries", min=1, max=10, help="How many of the ten other programs there are.")
    ] = 10,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer methods and folds, so a few seconds.")] = False,
    report: Annotated[bool, typer.Option(help="End with a report.")] = True,
    as_json: o.Json = False,
) -> None:
    """Show what borrowing does: write a table of real measurements, compare, and write a report.

    What is printed is what `borrow compare` says of the table, and the report tells the command that does the same.
    """
    import joblib

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot make the output folder {str(output)!r} ({error.strerror}); give another with --output")
    place, page = output / "demo.csv", output / "report.html"
    table = measurements(seed, secondaries)
    write_atomically(place, table.write_csv().encode())
    primary = table["program"][0]
    if not as_json:
        others = "another program" if secondaries == 1 else f"{secondaries} other programs"
        print_lines(
            f"Real measurements: the speed-up of C programs by thirteen compiler flags. {primary!r} was measured under "
            f"{OWN_SETTINGS} settings, {others} under {OTHER_SETTINGS} each. Do they help? The table is {place}.",
            "",
        )
    asked = QUICK if quick else {**USUAL, "jobs": min(MOST_JOBS, joblib.cpu_count())}
    columns = {"target": "speed-up", "task": "program", "primary": primary}
    compare.run(str(place), **columns, report=page if report else None, seed=seed, as_json=as_json, **asked)


def measurements(seed: int, secondaries: int) -> pl.DataFrame:
    """One row per setting that was measured of a program; the settings of each program are drawn on their own."""
    from borrow.datasets import load_compiler

    data, draw = load_compiler(), np.random.RandomState(seed)
    parts = []
    for m, program in enumerate(data.programs[: secondaries + 1]):
        at = draw.permutation(len(data.X))[: OTHER_SETTINGS if m else OWN_SETTINGS]
        settings = pl.DataFrame(data.X[at].astype(int), schema=list(data.flags))
        parts.append(
            settings.with_columns(pl.lit(program).alias("program"), pl.Series("speed-up", data.speedup[at, m]))
        )
    return pl.concat(parts)
