"""How far a long computation is, on standard error, only when asked or on a terminal."""

from __future__ import annotations

import sys
import time


class Progress:
    """Call it with the number of steps done; it writes a line now and then, and a last one at the end.

    `shown=None` writes on a terminal only, and only after the first two seconds.
    """

    def __init__(self, total: int, what: str, shown: bool | None = None, every: float = 1.0) -> None:
        self.total, self.what, self.every = total, what, every
        self.shown = sys.stderr.isatty() if shown is None else shown
        self.started = time.monotonic()
        self.next = self.started + (0.0 if shown else 2.0)
        self.wrote = False

    def __call__(self, done: int) -> None:
        """`done` of `total` steps are done."""
        if not self.shown:
            return
        now = time.monotonic()
        last = done >= self.total
        if now < self.next and not (last and self.wrote):
            return
        self.next, self.wrote = now + self.every, True
        spent = now - self.started
        left = spent / max(done, 1) * (self.total - done)
        tail = f"{spent:.0f} s" if last else f"{spent:.0f} s, about {left:.0f} s to go"
        sys.stderr.write(f"borrow: {self.what} {done:,} of {self.total:,}; {tail}\n")


class Watch:
    """Call it with the value after each evaluation of a long search; it writes a line now and then.

    `shown=None` writes on a terminal only, and only after the first two seconds.
    """

    def __init__(self, what: str = "evidence", shown: bool | None = None, every: float = 1.0) -> None:
        self.what, self.every = what, every
        self.shown = sys.stderr.isatty() if shown is None else shown
        self.started = self.last = time.monotonic()
        self.next = self.started + (0.0 if shown else 2.0)
        self.best, self.done, self.pace = -float("inf"), 0, 0.0

    def __call__(self, value: float) -> None:
        """One more evaluation, of this value."""
        now = time.monotonic()
        self.done, self.best = self.done + 1, max(self.best, value)
        self.pace, self.last = now - self.last if self.done == 1 else 0.8 * self.pace + 0.2 * (now - self.last), now
        if self.shown and now >= self.next:
            self.next = now + self.every
            sys.stderr.write(
                f"borrow: {self.what} {self.best:.6g} after {self.done:,} evaluations, {self.pace:.3g} s each\n"
            )
