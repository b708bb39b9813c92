"""The verdict in words: one sentence, its evidence, and what to do. The rule that it follows is in `decide`."""

from __future__ import annotations

import html
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from borrow.data.plain import to_json
from borrow.data.table import Table, format_value
from borrow.numerics.stored import stored
from borrow.transfer.decide import (
    CANNOT_TELL,
    HELPS,
    HURTS,
    LEVEL,
    PROBABLY_HELPS,
    PROBABLY_HURTS,
    SAME,
    SURE,
    holm,
)
from borrow.transfer.methods import ALONE, NO_TRANSFER, call_of, label_of

#: The answers in few words, for a primary.
HEADLINES = {
    HELPS: "Borrowing helps {}",
    PROBABLY_HELPS: "Borrowing probably helps {}",
    SAME: "Borrowing makes no practical difference for {}",
    CANNOT_TELL: "Cannot tell whether borrowing helps {}",
    PROBABLY_HURTS: "Borrowing probably hurts {}",
    HURTS: "Borrowing hurts {}",
}
#: Weights below this are not named.
LEAST_WEIGHT = 0.03
#: Correlations from this on are named where nothing is claimed.
STRONG = 0.5


@stored("Verdict")
@dataclass(frozen=True)
class Verdict:
    """The answer for one primary; printed, it is a page. Differences are errors less those without the other data.

    Attributes
    ----------
    answer : "helps", "probably helps", "no practical difference", "cannot tell", "probably hurts" or "hurts".
    primary : label of the task that the answer is for.
    best : key of the method that was judged, that of the largest weight among those that borrow, where fits to all rows
        judge among those that relate the tasks; None where none could be.
    difference, low, high : of its error from that of `alone`, negative is better, with an interval: the one to be
        expected where fits to all rows judge (`by_all_rows`), else the one in folds.
    level, folds : level of the interval, and the number of folds.
    sentence : the answer in words.
    secondaries : a table, one row per secondary task: rows, correlation with the primary's function with its standard
        error and share, and what it is worth to `best`: alone (gain with it as the only one), without (what is lost
        without it) and gain, its share of the gain of all by Shapley, with an interval (low, high) and p, the
        probability of so large a share by chance, corrected for their number by Holm; NaN where not computed.
    copies : groups of secondaries that say the same: each hides the others from "without".
    advice : what to do, in sentences.
    log_density : difference, low and high for the log predictive density, positive is better.
    probability : posterior probability that borrowing lowers the error.
    rope : differences up to this, to both sides, are none in practice: 2 % of the error alone, unless asked otherwise.
    alone : key of the best method without the other data, which borrowing has to beat.
    weights, borrows : weight of every method in what `AutoRegressor` predicts, and the sum of those that borrow.
    because : the weights in words.
    evidence : nats by which the primary's rows are better explained by `best` than by its own GP; NaN where it is none
        that relates the tasks in closed form.
    error : of `best` on rows held out in folds.
    by_all_rows : whether the difference is read off fits to all rows.

    Examples
    --------
    >>> import borrow
    >>> x = [0.1 * i for i in range(24)]
    >>> table = {"x": x, "site": ["here"] * 8 + ["there"] * 16, "level": [v * (2 - v) for v in x]}
    >>> found = borrow.compare(table, target="level", task="site", primary="here", methods=["pooled"], cv=2)
    >>> verdict = found.verdict()
    >>> verdict.best, bool(verdict.low <= verdict.difference <= verdict.high)
    ('pooled', True)
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
    probability: float = math.nan
    rope: float = math.nan
    alone: str = NO_TRANSFER
    weights: dict[str, float] = field(default_factory=dict)
    borrows: float = 0.0
    because: str = ""
    copies: list[list[Any]] = field(default_factory=list)
    evidence: float = math.nan
    error: float = math.nan
    by_all_rows: bool = False

    @property
    def carriers(self) -> list[Any]:
        """Secondaries that are shown to carry the gain: a positive share of it that chance does not explain."""
        return [r["task"] for r in self.secondaries.rows() if r["gain"] > 0 and r["p"] < 1.0 - LEVEL]

    @property
    def method(self) -> str:
        """The one method to use: the judged one where those that borrow have more weight than the others."""
        if self.best is not None and self.borrows > 0.5:
            return self.best
        rest = {m: w for m, w in self.weights.items() if m in ALONE}
        return max(rest, key=lambda m: rest[m], default=next(iter(self.weights), NO_TRANSFER))

    @property
    def tells_of_secondaries(self) -> bool:
        """Whether anything is known of them: the focused GP was run, or they were left out in turn."""
        return any(v == v for name in ("correlation", "gain") for v in self.secondaries[name])

    def to_dict(self) -> dict[str, Any]:
        """As JSON keeps it; None where a number is not known."""
        return to_json(self.__dict__)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={getattr(self, name):.3g}" for name in ("difference", "low", "high"))
        return f"<Verdict on {self.primary!r}: {self.answer}; best={self.best!r}, {numbers}>"

    def to_html(self) -> str:
        """As a notebook shows it."""
        advice = "".join(f"<li>{html.escape(line)}</li>" for line in [self.because, *self.advice] if line)
        table = self.secondaries.to_html() if self.tells_of_secondaries else ""
        return f"<p><b>{html.escape(self.answer)}</b>. {html.escape(self.sentence)}</p>{table}<ul>{advice}</ul>"

    _repr_html_ = to_html

    def __str__(self) -> str:
        table = ["", repr(self.secondaries), ""] if self.tells_of_secondaries else []
        return "\n".join([self.sentence, *([self.because] if self.because else []), *table, *self.advice])


def judged_together(verdicts: Mapping[Hashable, Verdict]) -> dict[Hashable, Verdict]:
    """Claims of several primaries at once, so that some wrong one among them has the probability of one alone.

    Holm's rule: of M probabilities of being wrong the smallest is compared with the risk/M, the next with the
    risk/(M - 1), and so on; from the first that is too large, "helps" becomes "probably helps", and so with "hurts".
    """
    weaker = {HELPS: PROBABLY_HELPS, HURTS: PROBABLY_HURTS}
    wrong = [min(v.probability, 1.0 - v.probability) if v.answer in weaker else 1.0 for v in verdicts.values()]
    return {
        p: replace(v, answer=weaker[v.answer]) if v.answer in weaker and risk > 1.0 - SURE else v
        for (p, v), risk in zip(verdicts.items(), holm(wrong), strict=True)
    }


def weights_in_words(weights: Mapping[str, float]) -> str:
    """What a prediction is made of."""
    named = sorted(((w, m) for m, w in weights.items() if w >= LEAST_WEIGHT), reverse=True)
    parts = [f"{100 * w:.0f} % {label_of(m)}" for w, m in named]
    return f"Best prediction: {', '.join(parts)} (weights by the probability that each gave to rows held out)."


def sentence_of(v: Verdict, scoring: str, alone: float) -> str:
    """The answer in words; `alone` is the error of the best method without the other data."""
    begin = HEADLINES[v.answer].format(repr(v.primary))
    if v.best is None:
        return f"{begin}: no method that borrows could be judged."
    label = label_of(v.best)
    if v.difference == v.low == v.high == 0.0:
        where = f"in any of {v.folds} folds" if math.isnan(v.evidence) else "in the fit to all rows"
        return f"{begin}: the {label} borrowed nothing {where} and predicts as no transfer does."
    error, best_alone, difference, low, high = map(format_value, (v.error, alone, v.difference, v.low, v.high))
    between = f"{100 * v.level:.3g} % interval {low} to {high}"
    unseen = ", which do not show it: fits to all rows do" if against_folds(v, alone) else ""
    told = f" in {v.folds} folds{unseen}; expect a difference of {difference} at new rows ({between})"
    if not v.by_all_rows:
        told = f", difference {difference} ({between}, {v.folds} folds)"
    return (
        f"{begin}: {scoring} {error} by the {label} against {best_alone} without the other data "
        f"({label_of(v.alone)}){told}. P(borrowing lowers the error) = {probability(v.probability)}{odds(v)}."
    )


def against_folds(v: Verdict, alone: float) -> bool:
    """Whether the error is expected to go one way by fits to all rows, and went the other on rows held out in folds."""
    return v.by_all_rows and v.answer not in (SAME, CANNOT_TELL) and (v.error - alone) * v.difference < 0.0


def odds(v: Verdict) -> str:
    """How much likelier the primary's rows are given the others than by themselves, where that is known."""
    if math.isnan(v.evidence):
        return ""
    rounded = format_value(float(f"{math.exp(min(max(v.evidence, -7.0), 7.0)):.2g}"))
    times = "over 1,000" if v.evidence > math.log(1000.0) else rounded
    return f"; its rows are {times} times as likely with the other data as without"


def probability(p: float) -> str:
    """A probability in two digits, never as certain."""
    return "not known" if p != p else "above 0.99" if p > 0.99 else "below 0.01" if p < 0.01 else f"{p:.2f}"


def advice_of(v: Verdict, kind: str, task: str, rope: float) -> list[str]:
    """What to do; `rope` is the part of the error that makes no difference."""
    auto = f"borrow.Auto{'Regressor' if kind == 'regression' else 'Classifier'}(task={task!r}, primary={v.primary!r}"
    call = None if v.best is None else call_of(kind, v.best, task, v.primary)
    alone = call_of(kind, v.alone, task, v.primary) or f"the {label_of(v.alone)}"
    if v.answer in (HURTS, PROBABLY_HURTS):
        return [f"Leave the other data out: {alone}."]
    if v.answer in (HELPS, PROBABLY_HELPS) and v.best is not None:
        worse = ["Its error is lower, but its uncertainty is worse: its log density falls; check its coverage."]
        use = f"Use {call}." if call is not None else f"Use the {label_of(v.best)}."
        return [use, *worse * (v.log_density["high"] < 0), *_carriers(v), f"{auto}) weighs all methods."]
    if v.answer == SAME:
        near = f"within {100 * rope:.3g} % of the error ({v.rope:.2g})" if v.rope > 0 else "none"
        return [f"Take what is simplest, {alone}: the difference is {near}.", *_strong(v)]
    said = (
        f"The error is higher with the {label_of(v.best or '')}, which is said of it and not of the data: whether it "
        "is so with every method that can drop a relation (focused, symmetric, rank1) is not shown."
    )
    return [
        *([said] if v.low > 0 else []),
        f"To predict all the same, {auto}) weighs what may help by how well it did; with cautious=True it does without "
        "the other data until they are shown to help.",
        *_strong(v),
    ]


def _strong(v: Verdict) -> list[str]:
    """Why tasks that go together may yet not lower the error."""
    rows = [r for r in v.secondaries.rows() if abs(r["correlation"]) >= STRONG]
    if not rows:
        return []
    most = max(rows, key=lambda r: abs(r["correlation"]))
    return [
        f"{most['task']!r} goes with {v.primary!r} (correlation {most['correlation']:.2f}), which is no contradiction: "
        "the correlation is about the functions, the answer about the error, and either the primary's own rows say "
        "nearly as much already, or too few rows were held out to show the difference."
    ]


def _carriers(v: Verdict) -> list[str]:
    """Which of several secondaries carries the gain, as far as fits to some of them have shown it."""
    rows = [r for r in v.secondaries.rows() if not math.isnan(r["gain"])]
    if len(rows) < 2:
        return []
    same = [f"{' and '.join(map(repr, g))} say the same to the primary: one of them would do." for g in v.copies]
    if v.carriers:
        return [f"The gain is carried by {' and '.join(map(repr, v.carriers))} (shares by Shapley).", *same]
    most = max(rows, key=lambda r: r["gain"])
    if most["gain"] <= 0:
        return ["None of them by itself is seen to carry the gain.", *same]
    return [
        f"Which of them carries the gain is not certain: the largest share of it is that of {most['task']!r}, "
        f"{most['gain']:.3g} (interval {most['low']:.3g} to {most['high']:.3g}).",
        *same,
    ]
