"""The command line. Nothing of it is imported before `main` is asked for."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "main":
        from borrow.cli.app import main

        return main
    raise AttributeError(f"module 'borrow.cli' has no attribute {name!r}")
