"""The command line. Nothing of it is imported before `main` is called."""

import sys
from typing import Any

INSTALL = "the command line needs packages that are not installed ({}): pip install 'borrow[app]'"


def main(*arguments: Any, **options: Any) -> Any:
    """The command `borrow`; also what comes before its own code, such as loading it, is ended by Ctrl-C with a word."""
    try:
        try:
            from borrow.cli.app import main as command
        except ModuleNotFoundError as absent:  # `pip install borrow` brings the library alone
            sys.stderr.write(f"borrow: {INSTALL.format(absent.name)}\n")
            raise SystemExit(2) from None
        return command(*arguments, **options)
    except KeyboardInterrupt:
        sys.stderr.write("borrow: interrupted\n")
        raise SystemExit(130) from None
