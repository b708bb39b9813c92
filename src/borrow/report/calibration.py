"""Do bands and probabilities mean what they say? From the records of a comparison, all on rows not seen in the fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from borrow.data.table import HALF

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
#: Rows a bin must have, and how many bins there are at most.
LEAST, BINS = 8, 6

Records = Sequence[Mapping[str, Any]]
Methods = Mapping[str, Records]


def coverage(by_method: Methods, labels: Mapping[str, str], judged: str | None) -> dict[str, Any] | None:
    """Share of held-out rows inside the central band, for several bands; the lens of chance counts distinct rows."""

    def shares(done: Records) -> list[float]:
        z = np.concatenate([np.abs(np.subtract(r["y"], r["mean"])) / np.asarray(r["std"]) for r in done])
        return [float(np.mean(z <= ndtri(0.5 + level / 2))) for level in LEVELS]

    found = _measured(by_method, labels, judged, "share", shares)
    n = max(len({row for r in records if r["failure"] is None for row in r["rows"]}) for records in by_method.values())
    return found and {
        "form": "coverage",
        "n": n,
        "levels": list(LEVELS),
        **found,
        "lead": "A 90 % band should hold nine of ten new measurements, a 50 % band half of them. Below the dotted "
        "line a method is too sure of itself, above it is more careful than it need be.",
        "caption": f"Held-out rows over all folds. The grey lens is what chance allows a perfect method with {n} rows.",
    }


def reliability(
    by_method: Methods, labels: Mapping[str, str], judged: str | None, classes: Sequence[Any]
) -> dict[str, Any] | None:
    """Predicted probabilities in bins of equal counts, and how often they came true.

    Two classes: the probability of the second. More: that of the class predicted, which is true when it was right.
    """
    two = len(classes) == 2

    def bins(done: Records) -> list[dict[str, Any]]:
        p = np.concatenate([np.asarray(r["probability"], dtype=float) for r in done])
        code = np.array([list(classes).index(v) for r in done for v in r["y"]])
        shown, true = (p[:, 1], code == 1) if two else (p.max(axis=1), p.argmax(axis=1) == code)
        return bins_of(shown, true, 1 + max(r["repeat"] for r in done))

    found = _measured(by_method, labels, judged, "bins", bins)
    what = f"of \u201c{classes[1]}\u201d" if two else "of the class predicted"
    return found and {
        "form": "reliability",
        **found,
        "lead": f"Predictions sorted by their probability {what}: what gets 80 % should come true in eight of ten.",
        "caption": "Held-out rows over all folds, in bins of equal counts. Bars: 95 % intervals of the share, which "
        "count a row once however often the folds were drawn.",
    }


def _measured(
    by_method: Methods, labels: Mapping[str, str], judged: str | None, name: str, measure: Callable[[Records], Any]
) -> dict[str, Any] | None:
    """What was measured of every method with a finished fold; None where there is none.

    Drawn are the first and the method judged; the table has all.
    """
    alone = next(iter(by_method), None)  # no transfer, or where whole tasks are held out all tasks as one
    methods = [
        {
            "method": key,
            "label": labels[key],
            "role": "alone" if key == alone else "judged" if key == judged else "plain",
            name: measure(done),
        }
        for key, records in by_method.items()
        if (done := [r for r in records if r["failure"] is None])
    ]
    drawn = [m for m in methods if m["method"] in (alone, judged)] or methods[:2]
    return {"methods": drawn, "all": methods} if methods else None


def bins_of(probability: Any, true: Any, repeats: int) -> list[dict[str, Any]]:
    """Mean probability and share of true in bins of equal counts, with Wilson's interval."""
    order = np.argsort(probability, kind="stable")
    bins = []
    for at in np.array_split(order, int(np.clip(len(order) / repeats // LEAST, 1, BINS))):
        share, n = float(true[at].mean()), len(at) / repeats
        low, high = wilson(share, n)
        place = {"predicted": float(probability[at].mean()), "observed": share}
        bins.append({**place, "low": low, "high": high, "n": round(n)})
    return bins


def wilson(share: float, n: float) -> tuple[float, float]:
    """95 % interval of a share of n (Wilson 1927)."""
    middle = (share + HALF * HALF / (2 * n)) / (1 + HALF * HALF / n)
    half = HALF / (1 + HALF * HALF / n) * np.sqrt(share * (1 - share) / n + HALF * HALF / (4 * n * n))
    return float(max(middle - half, 0.0)), float(min(middle + half, 1.0))
