"""The command `borrow`. It reads options and shows results; the work is done elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from borrow import __version__

INSTALL = "the command line needs packages that are not installed ({}): pip install 'borrow[app]'"

try:
    import typer
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from borrow.cli import compare, fit, info, predict, report, suggest
    from borrow.cli.output import CODES, counting, fail, guarded, percent, plain_table, steps, writable
except ModuleNotFoundError as absent:  # `pip install borrow` brings the library alone
    sys.stderr.write(f"borrow: {INSTALL.format(absent.name)}\n")
    raise SystemExit(2) from None

main = typer.Typer(
    name="borrow",
    help="Learn one task by borrowing strength from its relatives, and know when not to.",
    epilog=CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

QUICK, USUAL = 6, 24
SHOWN = 8


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


@main.command(epilog="Example: borrow demo --quick --output out/demo")
@guarded
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the figures.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the random draw of the problem.")] = 0,
    secondaries: Annotated[
        int | None, typer.Option(min=1, help=f"Number of secondary tasks; {USUAL}, or {QUICK} with --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer secondary tasks, so a few seconds.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every secondary task.")] = False,
    report: Annotated[bool, typer.Option(help="End with a comparison on real measurements, and its report.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of words.")] = False,
) -> None:
    """Show what borrowing does: on a synthetic task with a gap, then on real measurements, with a report."""
    from borrow.cli.demo import METHODS, run_demo

    try:
        import jinja2  # noqa: F401, asked for before the work rather than after it

        from borrow import plot as figures
    except ModuleNotFoundError as absent:
        fail(INSTALL.format(absent.name))
    folder = writable(output)
    n = secondaries or (QUICK if quick else USUAL)
    with steps(len(METHODS) + 2) as step:
        result = run_demo(seed, n, step)
        if step:
            step("drawing")
        try:
            paths = figures.save(figures.demo_figure(result), folder / "demo")
        except OSError as error:
            fail(f"cannot write the figures to {str(folder)!r} ({error.strerror}); give another --output")
    result["figures"] = [str(path) for path in paths]
    console = Console(highlight=False)
    if not as_json:
        show_demo(console, result, everything)
    if report:
        from borrow.cli.demo_compiler import run_compiler

        with counting("compiler data, fit") as told:
            result["compiler"] = run_compiler(folder / "report.html", seed, quick, told)
        if not as_json:
            show_compiler(console, result["compiler"])
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))


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


def show_compiler(console: Console, found: dict[str, Any]) -> None:
    """The comparison on real measurements in a table and its verdict."""
    console.print()
    console.print(found["text"])
    console.print(f"{found['source']}; {found['cv']}.", style="dim")
    console.print()
    names = ["error", "difference", "low", "high", "log density", "in band"]
    table = plain_table("On rows held out", ["method"], names)
    for row in found["rows"]:
        chosen = row["method"] == found["verdict"]["method"]
        numbers = (row["error"], *(row[k] for k in ("difference", "low", "high")))
        cells = [f"{v:.3f}" if v is not None else "-" for v in numbers]
        more = [f"{row['log_density']:.2f}", percent(row["coverage"])]
        table.add_row(*(Text(c, "bold" if chosen else "") for c in [row["label"], *cells, *more]))
    console.print(table)
    console.print(
        f"Error: {found['scoring']}. Difference: from no transfer, with intervals that hold together with 95 %. "
        "In band: share of rows inside the 90 % band.",
        style="dim",
    )
    console.print()
    console.print(Text(f"{found['verdict']['headline']} {found['verdict']['interval']}", style="bold"))
    console.print()
    console.print(f"Report: {found['report']}", soft_wrap=True, markup=False)


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


for name, module in {
    "compare": compare,
    "fit": fit,
    "predict": predict,
    "suggest": suggest,
    "report": report,
    "info": info,
}.items():
    main.command(name, epilog=f"Example: {module.EXAMPLE}")(guarded(module.run))
