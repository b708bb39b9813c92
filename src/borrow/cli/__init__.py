"""The command line. Nothing of it is imported before `main` is called."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INSTALL = "the command line needs packages that are not installed ({}): pip install 'borrow[app]'"


def main(*arguments: Any, **options: Any) -> Any:
    """The command `borrow`; also what comes before its own code, such as loading it, is ended by Ctrl-C with a word."""
    try:
        return undisturbed(import_module, "borrow.cli.app").main(*arguments, **options)
    except KeyboardInterrupt:
        raise _interrupted() from None


def _interrupted() -> SystemExit:
    sys.stderr.write("borrow: interrupted\n")
    return SystemExit(130)


def undisturbed(load: Any, *arguments: Any) -> Any:
    """Import something; Ctrl-C waits until it is there: packages of other languages panic when they are stopped."""
    import signal
    import threading

    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    waits = callable(before) and threading.current_thread() is threading.main_thread()
    if waits:
        signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        found = load(*arguments)
    except ModuleNotFoundError as absent:  # `pip install borrow` brings the library alone
        sys.stderr.write(f"borrow: {INSTALL.format(absent.name)}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise _interrupted() from None
    finally:
        if waits:
            signal.signal(signal.SIGINT, before)
    if pressed:
        raise _interrupted()
    return found
