"""The verdict in words: one sentence, its evidence, and what to do. The rule that it follows is in `decide`."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field
from typing import Any

from borrow.data.plain import to_json
from borrow.data.table import Table
from borrow.transfer.decide import CANNOT_TELL, DESIGNATED, HELPS, HURTS
from borrow.transfer.methods import LABELS, estimator_name


@dataclass(frozen=True)
class Verdict:
    """The answer for one primary; printed, it is a page. Differences are errors less those of no transfer.

    Attributes
    ----------
    answer : "helps", "hurts" or "cannot tell".
    primary : label of the task that the answer is for.
    best : key of the method that was judged, None where none could be.
    difference, low, high : of its error from that of no transfer, negative is better, with an interval.
    level, folds : level of the interval, and from how many folds.
    sentence : the answer in words.
    secondaries : a table, one row per secondary task: rows, correlation with the primary's function with its standard
        error and share, and gain: error without the task less error with it, with an interval; NaN where not computed.
    advice : what to do, in sentences.
    log_density : difference, low and high for the log predictive density, positive is better.
    """

    answer: str
    primary: Any
    best: str | None
    difference: float
    low: float
    high: float
    level: float
    folds: int
    sentence: str = ""
    secondaries: Table = field(default_factory=Table)
    advice: list[str] = field(default_factory=list)
    log_density: dict[str, float] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The method to use."""
        return self.best if self.answer == HELPS and self.best is not None else "single"

    @property
    def tells_of_secondaries(self) -> bool:
        """Whether anything is known of them: the focused GP was run, or they were left out in turn."""
        return any(v == v for name in ("correlation", "gain") for v in self.secondaries[name])

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it; None where a number is not known."""
        found: dict[str, Any] = to_json(self.__dict__)
        return found

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={getattr(self, name):.3g}" for name in ("difference", "low", "high"))
        return f"<Verdict on {self.primary!r}: {self.answer}; best={self.best!r}, {numbers}>"

    def to_html(self) -> str:
        """As a notebook shows it."""
        advice = "".join(f"<li>{html.escape(line)}</li>" for line in self.advice)
        table = self.secondaries.to_html() if self.tells_of_secondaries else ""
        return f"<p><b>{html.escape(self.answer)}</b>. {html.escape(self.sentence)}</p>{table}<ul>{advice}</ul>"

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        table = ["", repr(self.secondaries), ""] if self.tells_of_secondaries else []
        return "\n".join([self.sentence, *table, *self.advice])


def sentence_of(v: Verdict, scoring: str, alone: float) -> str:
    """The answer in words; `alone` is the error of no transfer."""
    begin = {
        HELPS: f"The other data help {v.primary!r}",
        HURTS: f"The other data hurt {v.primary!r}",
        CANNOT_TELL: f"Cannot tell whether the other data help {v.primary!r}",
    }[v.answer]
    if v.best is None:
        return f"{begin}: no method that borrows could be judged."
    label = LABELS[v.best]
    if v.difference == v.low == v.high == 0.0:
        return f"{begin}: the {label} borrowed nothing in any of {v.folds} folds and predicts as no transfer does."
    return (
        f"{begin}: {scoring} {alone + v.difference:.3g} by the {label} against {alone:.3g} without them, difference "
        f"{v.difference:.3g} ({100 * v.level:.3g} % interval {v.low:.3g} to {v.high:.3g}, {v.folds} folds)."
    )


def advice_of(v: Verdict, kind: str, task: str, rows: int) -> list[str]:
    """What to do; `rows` are those of the primary with a target."""
    alone = f"borrow.{estimator_name(kind, 'single')}"
    if v.answer == HURTS:
        return [f"Leave the other data out: {alone}."]
    if v.answer == HELPS and v.best is not None:
        settings = f"task={task!r}" + (f", primary={v.primary!r}" if v.best == DESIGNATED else "")
        worse = ["Its error is lower, but its uncertainty is worse: its log density falls; check its coverage."]
        use = f"Use borrow.{estimator_name(kind, v.best)}({settings})."
        return [use, *worse * (v.log_density["high"] < 0), *_carriers(v.secondaries)]
    out = [f"Stay without transfer ({alone}) until more is known."]
    half = (v.high - v.low) / 2.0
    need = math.ceil(rows * (half / v.difference) ** 2) if v.difference < 0 and half > 0 else math.inf
    if need <= 20 * rows:
        out.append(
            f"A difference of this size would show with about {need:,} rows of {v.primary!r}; there are {rows:,}."
        )
    return out


def _carriers(secondaries: Table) -> list[str]:
    """Which of several secondaries carries the gain, as far as leaving each out has shown it."""
    rows = [r for r in secondaries.rows() if not math.isnan(r["gain"])]
    if len(rows) < 2:
        return []
    carrying = [repr(r["task"]) for r in rows if r["low"] > 0]
    if carrying:
        return [f"The gain is carried by {' and '.join(carrying)}: without it the error rises."]
    most = max(rows, key=lambda r: r["gain"])
    return [
        f"Which of them carries the gain is not certain: most is lost without {most['task']!r}, {most['gain']:.3g} "
        f"(interval {most['low']:.3g} to {most['high']:.3g})."
    ]
