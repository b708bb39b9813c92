"""One sentence and its evidence: does borrowing help the task that matters?

Every transfer method is a candidate and has an interval for its paired difference from no transfer (`resampled`). The
levels of the intervals (`Comparison.levels`) allow for how many there are: trying more methods does not make "helps"
more likely by chance (5 % at most), and the best of those that help may be picked by its error.

helps        some candidate's interval lies below zero; the one of lowest error is named
hurts        none helps, and that of the focused GP (of the best candidate where it was not run) lies above zero
cannot tell  everything else; also where a method equals no transfer in every fold: an interval of no width says nothing
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from borrow.data.plain import to_json
from borrow.data.table import Table
from borrow.transfer.comparison import DESIGNATED, LEVEL, Comparison, paired, test_to_train
from borrow.transfer.methods import LABELS, estimator_name
from borrow.transfer.resampled import Interval, differences, interval

HELPS, HURTS, CANNOT_TELL = "helps", "hurts", "cannot tell"


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
    secondaries : a table, one row a secondary task: rows, correlation with the primary's function with its standard
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
    sentence: str
    secondaries: Table
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

    def __str__(self) -> str:
        parts = [self.sentence]
        if self.tells_of_secondaries:
            parts += ["", repr(self.secondaries), ""]
        return "\n".join([*parts, *self.advice])


def judge(comparison: Comparison, primary: Any) -> Verdict:
    """The verdict for one primary."""
    found = {m: comparison.difference(primary, m) for m in comparison.candidates(primary)}
    answer, best = decide(found)
    levels = comparison.levels(primary)
    gap = found[best] if best is not None else Interval(math.nan, math.nan, math.nan, math.nan)
    density = comparison.difference(primary, best, "log_density") if best is not None else gap
    folds = len(comparison.folds(primary, "single"))
    level = levels[best] if best is not None else LEVEL
    secondaries = secondary_table(comparison, primary)
    return Verdict(
        answer,
        primary,
        best,
        gap.mean,
        gap.low,
        gap.high,
        level,
        folds,
        _sentence(comparison, primary, answer, best, gap, level, folds),
        secondaries,
        _advice(comparison, primary, answer, best, gap, density, secondaries),
        {"difference": density.mean, "low": density.low, "high": density.high},
    )


def decide(found: dict[str, Interval]) -> tuple[str, str | None]:
    """The answer, and the method that it is about, from the candidates' simultaneous intervals."""
    if not found:
        return CANNOT_TELL, None
    helping = [m for m, d in found.items() if d.low < d.high < 0]
    if helping:
        return HELPS, min(helping, key=lambda m: found[m].mean)
    judged = DESIGNATED if DESIGNATED in found else min(found, key=lambda m: found[m].mean)
    d = found[judged]
    return (HURTS if 0 < d.low < d.high else CANNOT_TELL), judged


def secondary_table(comparison: Comparison, primary: Any) -> Table:
    """How each secondary is related, and what is lost without it."""
    others = [t for t in comparison.tasks if t != primary]
    known: list[dict[str, Any]] = next((r["relations"] for r in comparison.relations if r["primary"] == primary), [])
    by_task = {r["task"]: r for r in known}
    gains = [leave_out_gain(comparison, primary, t, len(others)) for t in others]

    def number(t: Any, name: str) -> float:
        value = by_task.get(t, {}).get(name)
        return math.nan if value is None else float(value)

    return Table(
        {
            "task": others,
            "rows": [comparison.rows[t] for t in others],
            **{name: [number(t, name) for t in others] for name in ("correlation", "std_error", "share")},
            "gain": [g.mean for g in gains],
            "low": [g.low for g in gains],
            "high": [g.high for g in gains],
        }
    )


def leave_out_gain(comparison: Comparison, primary: Any, secondary: Any, n_secondaries: int) -> Interval:
    """Error without a secondary less error with it; the only secondary is left out by no transfer."""
    without = [r for r in comparison.records if r["primary"] == primary and r["left_out"] == secondary]
    if not without and n_secondaries == 1:
        method = decide({m: comparison.difference(primary, m) for m in comparison.candidates(primary)})[1]
        without = comparison.folds(primary, "single") if method is not None else []
    else:
        method = without[0]["method"] if without else None
    if method is None:
        return Interval(math.nan, math.nan, math.nan, math.nan)
    pairs = [
        (a, b) for a, b in paired(without, comparison.folds(primary, method)) if not (a["failure"] or b["failure"])
    ]
    d = differences([a["error"] for a, _ in pairs], [b["error"] for _, b in pairs])
    return interval(d, test_to_train([a for a, _ in pairs]), LEVEL)


def _sentence(
    c: Comparison, primary: Any, answer: str, best: str | None, gap: Interval, level: float, folds: int
) -> str:
    who = repr(primary)
    if best is None:
        return f"Cannot tell whether the other data help {who}: no method that borrows could be judged."
    if gap.mean == gap.low == gap.high == 0.0:
        return (
            f"Cannot tell whether the other data help {who}: the {LABELS[best]} borrowed nothing in any of {folds} "
            "folds and predicts as no transfer does."
        )
    alone = interval([r["error"] for r in c.folds(primary, "single")], 0.0, LEVEL).mean
    numbers = (
        f"{c.scoring} {alone + gap.mean:.3g} by the {LABELS[best]} against {alone:.3g} without them, difference "
        f"{gap.mean:.3g} ({100 * level:.3g} % interval {gap.low:.3g} to {gap.high:.3g}, {folds} folds)"
    )
    begin = {
        HELPS: f"The other data help {who}",
        HURTS: f"The other data hurt {who}",
        CANNOT_TELL: f"Cannot tell whether the other data help {who}",
    }
    return f"{begin[answer]}: {numbers}."


def _advice(
    c: Comparison,
    primary: Any,
    answer: str,
    best: str | None,
    gap: Interval,
    density: Interval,
    secondaries: Table,
) -> list[str]:
    out = []
    if answer == HELPS and best is not None:
        settings = f"task={c.task!r}" + (f", primary={primary!r}" if best == DESIGNATED else "")
        out.append(f"Use borrow.{estimator_name(c.kind, best)}({settings}).")
        if density.high < 0:
            out.append("Its error is lower, but its uncertainty is worse: its log density falls; check its coverage.")
        out += _carriers(secondaries)
    elif answer == HURTS:
        out.append(f"Leave the other data out: borrow.{estimator_name(c.kind, 'single')}.")
    else:
        out.append(f"Stay without transfer (borrow.{estimator_name(c.kind, 'single')}) until more is known.")
        half, n = (gap.high - gap.low) / 2.0, c.rows[primary]
        if best is not None and gap.mean < 0 and half > 0:
            need = math.ceil(n * (half / abs(gap.mean)) ** 2)
            if need <= 20 * n:
                out.append(
                    f"A difference of this size would show with about {need:,} rows of {primary!r}; there are {n:,}."
                )
    for method, why in c.failures(primary).items():
        out.append(f"The {LABELS[method]} {why} and was not judged.")
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
