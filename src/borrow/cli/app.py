"""The command `borrow`: its commands, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from borrow import __version__
from borrow.cli import compare, demo, fit, info, predict, report, suggest
from borrow.cli.output import EXIT_CODES, guarded

main = typer.Typer(
    name="borrow",
    help="Learn one task by borrowing strength from its relatives, and know when not to.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


for module in (demo, compare, fit, predict, suggest, report, info):
    main.command(module.__name__.split(".")[-1], epilog=f"Example: {module.EXAMPLE}")(guarded(module.run))
