"""The command `borrow`. It reads options and shows results; the work is done elsewhere."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

from borrow import __version__

INSTALL = "the command line needs packages that are not installed ({}): pip install 'borrow[app]'"

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError as absent:  # `pip install borrow` brings the library alone
    sys.stderr.write(f"borrow: {INSTALL.format(absent.name)}\n")
    raise SystemExit(2) from None

main = typer.Typer(
    name="borrow",
    help="Learn one task by borrowing strength from its relatives, and know when not to.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

QUICK, USUAL = 6, 24
SHOWN = 8


def fail(sentence: str) -> NoReturn:
    """Say what is wrong and leave with code 2."""
    typer.echo(f"borrow: {sentence}", err=True)
    raise typer.Exit(2)


@contextmanager
def progress(steps: int) -> Iterator[Any]:
    """A bar on standard error, only on a terminal; yields a function that is told each step as it begins."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    parts = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn()
    with Progress(*parts, console=console, transient=True) as bar:
        job = bar.add_task("starting", total=steps)

        def step(text: str) -> None:
            started = bar.tasks[0].description != "starting"
            bar.update(job, description=text, advance=1 if started else 0)

        yield step


def writable(folder: Path) -> Path:
    """The folder, made if need be; an answer before the work rather than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot make the output folder {str(folder)!r} ({error.strerror}); give another with --output")
    if not os.access(folder, os.W_OK | os.X_OK):
        fail(f"cannot write to the output folder {str(folder)!r}; give another with --output")
    return folder


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"borrow {__version__}")
        raise typer.Exit


@main.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Learn one task by borrowing strength from its relatives, and know when not to."""


@main.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the figures.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the random draw of the problem.")] = 0,
    secondaries: Annotated[
        int | None, typer.Option(min=1, help=f"Number of secondary tasks; {USUAL}, or {QUICK} with --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer secondary tasks, so a few seconds.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every secondary task.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of words.")] = False,
) -> None:
    """Show on a synthetic problem what borrowing does: one task with a gap, others that may fill it."""
    from borrow.demo import METHODS, run_demo

    try:
        from borrow import figures
    except ModuleNotFoundError as absent:
        fail(INSTALL.format(absent.name))
    folder = writable(output)
    n = secondaries or (QUICK if quick else USUAL)
    with progress(len(METHODS) + 2) as step:
        result = run_demo(seed, n, step)
        if step:
            step("drawing")
        try:
            paths = figures.save(figures.demo_figure(result), folder / "demo")
        except OSError as error:
            fail(f"cannot write the figures to {str(folder)!r} ({error.strerror}); give another --output")
    result["figures"] = [str(path) for path in paths]
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
    else:
        show_demo(Console(highlight=False), result, everything)


def show_demo(console: Console, result: dict[str, Any], everything: bool) -> None:
    """The demonstration in words and two tables."""
    problem = result["problem"]
    console.print(problem["text"])
    console.print(f"{problem['source']}; seed {problem['seed']}.", style="dim")
    console.print()
    console.print(methods_table(result))
    console.print(
        "Squared error: of the mean against the true function. Log density: of a new measurement (true "
        f"function plus noise, sd {problem['noise_std']:g}), expected over the noise; higher is better. "
        "Curve, new: share of the true function, and of new measurements, inside the "
        f"{percent(problem['level'])} band; ridge has no band for the function.",
        style="dim",
    )
    console.print()
    console.print(relatedness_table(result["relatedness"], everything))
    if not everything and len(result["relatedness"]) > SHOWN:
        console.print(rest_of(result["relatedness"][SHOWN:]))
    console.print(
        "Rho: weight of the primary's function in the task, targets scaled. Share: part of the task's "
        "variation that is the primary's. True: the correlation that made the data.",
        style="dim",
    )
    console.print()
    console.print(Text(result["verdict"]["words"], style="bold"))
    for warning in result["warnings"]:
        console.print(Text(f"Warning: {warning}", style="yellow"))
    console.print()
    console.print("Figures: " + ", ".join(result["figures"]), soft_wrap=True, markup=False)


def methods_table(result: dict[str, Any]) -> Table:
    """One row a method, in the order of the result; the best of each score in bold."""
    table = plain_table("On the gap", ["method"], ["squared error", "log density", "curve", "new", "seconds"])
    methods = result["methods"]
    least, most = min(m["mse"] for m in methods), max(m["log_density"] for m in methods)
    for m in methods:
        table.add_row(
            m["label"],
            Text(f"{m['mse']:.3g}", "bold" if m["mse"] == least else ""),
            Text(f"{m['log_density']:.2f}", "bold" if m["log_density"] == most else ""),
            percent(m["covered_curve"]),
            percent(m["covered_new"]),
            f"{m['seconds']:.1f}",
        )
    return table


def relatedness_table(rows: list[dict[str, Any]], everything: bool) -> Table:
    """The tasks most related to the primary, beside the truth."""
    names = ["rho", "std error", "correlation", "true", "share"]
    table = plain_table("Who is related to the primary", ["task"], names)
    for row in rows if everything else rows[:SHOWN]:
        table.add_row(
            row["task"],
            f"{row['rho']:+.2f}",
            "-" if row["std_error"] is None else f"{row['std_error']:.2f}",
            f"{row['correlation']:+.2f}",
            f"{row['true_correlation']:+.2f}",
            percent(row["share"]),
        )
    return table


def rest_of(rows: list[dict[str, Any]]) -> str:
    """The tasks that the table leaves out, in a line."""
    size = [abs(row["correlation"]) for row in rows]
    near = sum(not row["related"] for row in rows)
    return (
        f"and {len(rows)} more with |correlation| {min(size):.2f} to {max(size):.2f}; {near} of them are "
        "within two standard errors of rho = 0 (--all shows them)"
    )


def plain_table(title: str, left: list[str], right: list[str]) -> Table:
    """A table without a box: words to the left, numbers to the right."""
    look: dict[str, Any] = {"box": None, "padding": (0, 3, 0, 0), "pad_edge": False, "header_style": "dim"}
    table = Table(title=title, title_justify="left", title_style="bold", **look)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def percent(share: float | None) -> str:
    """A share in whole percents; a dash where there is none."""
    return "-" if share is None else f"{100 * share:.0f} %"
