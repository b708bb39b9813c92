"""One way to give warnings, and one to collect them instead of printing them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Packages whose lines are passed over when a warning looks for the line of the user's program.
_PACKAGES = ("borrow", "sklearn")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's program that called this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def with_category(warning: warnings.WarningMessage) -> str:
    """A warning as text, such as `ConvergenceWarning: the search stopped early`."""
    return f"{warning.category.__name__}: {warning.message}"


@contextmanager
def capture_warnings(form: Callable[[warnings.WarningMessage], str] = with_category) -> Iterator[list[str]]:
    """A list that holds the warnings given within the block, each text once and in order, when the block is over.

    `form` turns a warning into text. The list is filled where the block fails, too.
    """
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield found
        finally:
            found += dict.fromkeys(map(form, caught))
