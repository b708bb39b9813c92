"""From the errors of folds to an answer: intervals that account for overlapping folds, and the rule that reads them.

C. Nadeau, Y. Bengio: Inference for the generalization error. Machine Learning 52, 2003. Training sets of folds and
repeats share rows, so the differences d_1..d_J are correlated and s²/J is too small a variance for their mean. The
corrected resampled t has (1/J + n_test/n_train) s² and J - 1 degrees of freedom.

Every transfer method is a candidate and has an interval for its paired difference from no transfer. The levels of the
intervals (`Comparison.levels`) allow for how many there are: trying more methods does not make "helps" more likely by
chance (5 % at most), and the best of those that help may be picked by its error.

helps        some candidate's interval lies below zero; the one of lowest error is named
hurts        none helps, and that of the focused GP (of the best candidate where it was not run) lies above zero
cannot tell  everything else; also where a method equals no transfer in every fold: an interval of no width says nothing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

HELPS, HURTS, CANNOT_TELL = "helps", "hurts", "cannot tell"
LEVEL = 0.95
#: The candidate that the question was built for.
DESIGNATED = "focused"
#: Differences below this part of the errors are none: one model, found by two optimisers. A focused GP that drops all
#: relations was seen up to 1.5e-5 away from no transfer.
TIE = 1e-4


class Interval(NamedTuple):
    """A mean with its corrected standard error and interval; all NaN where nothing is known."""

    mean: float = np.nan
    std_error: float = np.nan
    low: float = np.nan
    high: float = np.nan


def interval(values: Sequence[float], ratio: float, level: float) -> Interval:
    """Mean of fold values; `ratio` is n_test/n_train. One fold has no interval: NaN."""
    d = np.asarray(values, dtype=float)
    J = len(d)
    if J < 2:
        return Interval(*d.tolist())
    mean, se = float(d.mean()), float(np.sqrt((1.0 / J + ratio) * d.var(ddof=1)))
    half = float(student.ppf(0.5 + level / 2.0, J - 1)) * se
    return Interval(mean, se, mean - half, mean + half)


def differences(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """one - other, fold by fold; 0 where they differ by what optimisers leave only."""
    a, b = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    none = np.abs(a - b) <= TIE * np.maximum(np.abs(a), np.abs(b))
    return [float(v) for v in np.where(none, 0.0, a - b)]


def mean_of(records: Sequence[Mapping[str, Any]], level: float = LEVEL) -> Interval:
    """Mean error over the folds of one method that were fitted."""
    fitted = [r for r in records if r["failure"] is None]
    return interval([r["error"] for r in fitted], _test_to_train(fitted), level)


def difference_of(
    one: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    what: str = "error",
    level: float = LEVEL,
) -> Interval:
    """Paired difference one - other over the folds that both were fitted in."""
    by_fold = {(r["repeat"], r["fold"]): r for r in other if r["failure"] is None}
    pairs = [(r, by_fold.get((r["repeat"], r["fold"]))) for r in one if r["failure"] is None]
    a, b = [a for a, b in pairs if b is not None], [b for _, b in pairs if b is not None]
    return interval(differences([r[what] for r in a], [r[what] for r in b]), _test_to_train(a), level)


def _test_to_train(records: Sequence[Mapping[str, Any]]) -> float:
    """n_test/n_train, averaged over folds."""
    return float(np.mean([r["n_test"] / r["n_train"] for r in records])) if records else float("nan")


def decide(found: Mapping[str, Interval]) -> tuple[str, str | None]:
    """The answer, and the method that it is about, from the candidates' simultaneous intervals."""
    if not found:
        return CANNOT_TELL, None
    helping = [m for m, d in found.items() if d.low < d.high < 0]
    if helping:
        return HELPS, min(helping, key=lambda m: found[m].mean)
    judged = DESIGNATED if DESIGNATED in found else min(found, key=lambda m: found[m].mean)
    d = found[judged]
    return (HURTS if 0 < d.low < d.high else CANNOT_TELL), judged
