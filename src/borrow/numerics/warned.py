"""One way to warn at the line of the user's program, and one to collect warnings instead of printing them."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import ref


class Together:
    """Tell the warnings of a block when it has ended, those that differ in names and numbers alone as one.

    A hundred tasks that have the same to say are one warning, of the first, with how many more there are. A block that
    fails tells nothing: its error does. Threads do not see each other's blocks. A block is known for as long as it is
    there: one that Ctrl-C ended before it could say so takes no warning of later calls.
    """

    _open: ContextVar[ref[Together] | None] = ContextVar("borrow_warnings", default=None)

    def __enter__(self) -> None:
        self.before = self._open.get()
        self.found: list[tuple[str, type[Warning]]] = []
        self._open.set(ref(self))

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._open.set(self.before)
        alike: dict[Any, list[str]] = {}
        for text, category in self.found if kind is None else ():
            alike.setdefault((re.sub(r"'[^']*'|[-+.\w]*\d[-+.\w]*", "", text), category), []).append(text)
        for (_, category), texts in alike.items():
            warn(texts[0] if len(texts) == 1 else f"{texts[0]} (and {len(texts) - 1} more like this)", category)

    @classmethod
    def keeps(cls, message: str, category: type[Warning]) -> bool:
        """Take the warning where a block is open."""
        known = cls._open.get()
        block = None if known is None else known()
        if block is not None:
            block.found.append((message, category))
        return block is not None


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's program that called this package."""
    if Together.keeps(message, category):
        return
    frame, depth, level = sys._getframe(1), 2, 2
    while frame is not None:
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
