"""The command line. Nothing of it is imported before `main` is asked for."""

import sys
from typing import Any

INSTALL = "the command line needs packages that are not installed ({}): pip install 'borrow[app]'"


def __getattr__(name: str) -> Any:
    if name != "main":
        raise AttributeError(f"module 'borrow.cli' has no attribute {name!r}")
    try:
        from borrow.cli.app import main
    except ModuleNotFoundError as absent:  # `pip install borrow` brings the library alone
        sys.stderr.write(f"borrow: {INSTALL.format(absent.name)}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("borrow: interrupted\n")
        raise SystemExit(130) from None
    return main
