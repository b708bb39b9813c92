"""The command `borrow`: its commands, each imported when it is asked for, and what they have in common."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from borrow import __version__
from borrow.cli import undisturbed

OF_HELP = {"help_option_names": ["-h", "--help"]}
EXIT_CODES = "Exit code: 0 when it worked, 2 for a wrong call or wrong data, 1 for anything else, 130 when interrupted."
#: Every command, and what it does: the beginning of its own help, told without importing it.
COMMANDS = {
    "demo": "Show what borrowing does: write a table of real measurements, compare, and write a report.",
    "compare": "Does the other data help? Compare methods that borrow with no transfer, on the task that matters.",
    "fit": "Learn a model from a table and save it to a file.",
    "predict": "Predict new rows with a saved model: mean, deviations, low and high, or the class and its "
    "probabilities.",
    "suggest": "Choose what to measure next: the rows that tell most about the primary for their cost, best first.",
    "report": "Write one HTML page: the verdict, what it rests on, the tasks' relations, predictions, and how it was "
    "made.",
    "info": "Say what is in a file: a saved model, a stored comparison, or a table and its columns.",
}


class Commands(TyperGroup):
    """The commands by name: their first line for the list of them, and all of one that is run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, first_line in COMMANDS.items():
            self.add_command(TyperCommand(name, help=first_line))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put the command that is asked for in the place of its first line."""
        if args[0] in COMMANDS:
            self.add_command(undisturbed(load, args[0]), args[0])
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """A command, with all that it needs."""
    guarded, module = import_module("borrow.cli.output").guarded, import_module(f"borrow.cli.{name}")
    one = typer.Typer(add_completion=False, context_settings=OF_HELP)
    one.command(name, epilog=f"Example: {module.EXAMPLE}")(guarded(module.run))
    return typer.main.get_command(one)


main = typer.Typer(
    name="borrow",
    cls=Commands,
    help="Learn one task by borrowing strength from its relatives, and know when not to.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=OF_HELP,
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
