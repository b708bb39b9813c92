"""How far a long computation is, on standard error, only when asked or on a terminal."""

from __future__ import annotations

import sys
import time


class _Teller:
    """Writes a line now and then. `shown=None` writes on a terminal only, and only after the first two seconds."""

    def __init__(self, what: str, shown: bool | None, every: float) -> None:
        self.what, self.every = what, every
        self.shown = sys.stderr.isatty() if shown is None else shown
        self.started = time.monotonic()
        self.next = self.started + (0.0 if shown else 2.0)

    def tell(self, now: float, text: str) -> None:
        """Write the line; the next one is due after a while."""
        self.next = now + self.every
        sys.stderr.write(f"borrow: {self.what} {text}\n")


class Progress(_Teller):
    """Call it with the number of steps done, and of all if that changes: a line now and then, and a last one."""

    def __init__(self, total: int, what: str, shown: bool | None = None, every: float = 1.0) -> None:
        super().__init__(what, shown, every)
        self.total, self.wrote = total, False

    def __call__(self, done: int, total: int | None = None) -> None:
        """`done` of `total` steps are done."""
        self.total = self.total if total is None else total
        now, last = time.monotonic(), done >= self.total
        if self.shown and (now >= self.next or (last and self.wrote)):
            self.wrote, spent = True, now - self.started
            left = spent / max(done, 1) * (self.total - done)
            tail = f"{spent:.0f} s" if last else f"{spent:.0f} s, about {left:.0f} s to go"
            self.tell(now, f"{done:,} of {self.total:,}; {tail}")


class Watch(_Teller):
    """Call it with the value after each evaluation of a long search; it writes a line now and then."""

    def __init__(self, what: str = "evidence", shown: bool | None = None, every: float = 1.0) -> None:
        super().__init__(what, shown, every)
        self.last, self.best, self.done, self.pace = self.started, -float("inf"), 0, 0.0

    def __call__(self, value: float) -> None:
        """One more evaluation, of this value."""
        now = time.monotonic()
        self.done, self.best = self.done + 1, max(self.best, value)
        self.pace, self.last = now - self.last if self.done == 1 else 0.8 * self.pace + 0.2 * (now - self.last), now
        if self.shown and now >= self.next:
            self.tell(now, f"{self.best:.6g} after {self.done:,} evaluations, {self.pace:.3g} s each")
