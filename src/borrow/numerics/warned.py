"""The log, one way to warn at the line of the user's program, and one to collect warnings instead of printing them."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

log = logging.getLogger("borrow")

Answer = TypeVar("Answer")


def together(work: Callable[..., Answer], *args: Any) -> Answer:
    """Call `work`, and tell its warnings when it has ended, those that differ in names and numbers alone as one.

    A hundred tasks that have the same to say are one warning, of the first, with how many more there are. Work that
    fails tells nothing: its error does. `warn` finds `waiting` in this frame of its own thread, so that nothing is left
    behind where an interrupt falls between any two steps.
    """
    waiting: list[tuple[str, type[Warning]]] | None = []
    answer = work(*args)
    found, waiting = waiting or [], None
    alike: dict[Any, list[str]] = {}
    for text, category in found:
        alike.setdefault((re.sub(r"'[^']*'|[-+.\w]*\d[-+.\w]*", "", text), category), []).append(text)
    for (_, category), texts in alike.items():
        warn(texts[0] if len(texts) == 1 else f"{texts[0]} (and {len(texts) - 1} more like this)", category)
    return answer


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's program that called this package, or when `together` has ended."""
    frame, depth, level = sys._getframe(1), 2, 2
    while frame is not None:
        if frame.f_code is together.__code__ and frame.f_locals["waiting"] is not None:
            frame.f_locals["waiting"].append((message, category))
            return
        if frame.f_globals.get("__name__", "").partition(".")[0] in ("borrow", "sklearn"):
            level = depth + 1
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
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
