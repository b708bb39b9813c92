"""What each secondary is worth: its share of the gain, fairly divided.

"Error without task t less error with all" says nothing of t where another task is nearly a copy of it: each hides the
other. "Error with t alone" counts both in full. The Shapley value (Shapley 1953) is the only division of the gain that
adds up to it, gives tasks that are exchangeable the same, and gives nothing to a task that never changes the error:

    phi_t = mean over all orders of the secondaries of  loss(those before t) - loss(those before t, and t).

Losses are per row of the primary, each row predicted without itself, so phi_t is a mean over rows and has a standard
error. With up to `EXACT_UP_TO` secondaries all 2^k sets are fitted; beyond, orders are drawn in pairs, one the reverse
of the other, and a standard error counts the rows and not the orders that were left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from scipy.stats import t as student

from borrow.data.table import Table
from borrow.numerics.linalg import Array

#: Up to so many secondaries every set of them is fitted.
EXACT_UP_TO = 5
#: Orders that are drawn beyond, half of them the reverse of the others.
ORDERS = 12
#: Two tasks are near-copies where both together gain at most this part more than the better of them alone.
COPY = 0.1

Loss = Callable[[frozenset[Any]], Array]


@dataclass(frozen=True)
class Attribution:
    """What the secondaries are worth to the primary.

    Attributes
    ----------
    table : one row per secondary: alone (gain with it as the only one), without (what is lost without it), shapley
        (its share of the gain) with std_error, low, high, and p, the probability of so large a share by chance,
        corrected for the number of tasks (Holm 1979).
    copies : groups of tasks that say the same: each hides the others from "without".
    gain : error with none of them less error with all.
    exact : whether all sets of secondaries were fitted.
    """

    table: Table
    copies: list[list[Any]]
    gain: float
    exact: bool

    def carriers(self, level: float = 0.95) -> list[Any]:
        """Tasks that are shown to carry the gain: a positive share that chance does not explain."""
        return [r["task"] for r in self.table.rows() if r["shapley"] > 0 and r["p"] < 1.0 - level]


def attribute(tasks: Sequence[Any], loss: Loss, seed: int = 0, level: float = 0.95) -> Attribution:
    """The shares of the tasks, where `loss(S)` has one entry per row of the primary with the secondaries S."""
    known: dict[frozenset[Any], Array] = {}

    def remembered(S: frozenset[Any]) -> Array:
        if S not in known:
            known[S] = np.asarray(loss(S), dtype=float)
        return known[S]

    exact = len(tasks) <= EXACT_UP_TO
    shares = exact_shares(tasks, remembered) if exact else sampled_shares(tasks, remembered, seed)
    none, everything = remembered(frozenset()), frozenset(tasks)
    alone = {t: float((none - remembered(frozenset([t]))).mean()) for t in tasks}
    without = {t: float((remembered(everything - {t}) - remembered(everything)).mean()) for t in tasks}
    found = {t: interval_of(shares[t], level) for t in tasks}
    p = dict(zip(tasks, holm([found[t][4] for t in tasks]), strict=True))
    names = ("shapley", "std_error", "low", "high")
    table = Table(
        {
            "task": list(tasks),
            "alone": [alone[t] for t in tasks],
            "without": [without[t] for t in tasks],
            **{name: [found[t][i] for t in tasks] for i, name in enumerate(names)},
            "p": [p[t] for t in tasks],
        }
    )
    return Attribution(table, near_copies(tasks, remembered), float((none - remembered(everything)).mean()), exact)


def exact_shares(tasks: Sequence[Any], loss: Loss) -> dict[Any, Array]:
    """phi_t = sum over sets S without t of |S|! (k - 1 - |S|)! / k! (loss(S) - loss(S and t)), per row."""
    k, out = len(tasks), {}
    for t in tasks:
        others = [s for s in tasks if s != t]
        sets = [frozenset(S) for size in range(k) for S in combinations(others, size)]
        out[t] = np.sum([(loss(S) - loss(S | {t})) / (k * comb(k - 1, len(S))) for S in sets], axis=0)
    return out


def sampled_shares(tasks: Sequence[Any], loss: Loss, seed: int) -> dict[Any, Array]:
    """The same, averaged over orders drawn at random and their reverses."""
    rng, out = np.random.default_rng(seed), {t: np.zeros_like(loss(frozenset())) for t in tasks}
    drawn = [rng.permutation(len(tasks)) for _ in range(ORDERS // 2)]
    for order in [o for first in drawn for o in (first, first[::-1])]:
        before: frozenset[Any] = frozenset()
        for i in order:
            out[tasks[i]] += (loss(before) - loss(before | {tasks[i]})) / ORDERS
            before = before | {tasks[i]}
    return out


def interval_of(values: Array, level: float) -> tuple[float, float, float, float, float]:
    """Mean of the rows, its standard error, interval, and the probability of a mean so far above zero by chance."""
    n, mean = len(values), float(values.mean())
    error = float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    if not error > 0:
        return mean, error, mean, mean, 1.0
    half = float(student.ppf(0.5 + level / 2.0, n - 1)) * error
    return mean, error, mean - half, mean + half, float(student.sf(mean / error, n - 1))


def holm(p: Sequence[float]) -> list[float]:
    """Probabilities corrected for their number, step by step from the smallest (Holm 1979)."""
    order, out, largest = np.argsort(p), [1.0] * len(p), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        out[i] = largest
    return out


def near_copies(tasks: Sequence[Any], loss: Loss) -> list[list[Any]]:
    """Groups of tasks of which each gains by itself, and two together hardly more than one.

    Only tasks that gain at least a fifth of what the best does are looked at.
    """
    none = float(loss(frozenset()).mean())
    alone = {t: none - float(loss(frozenset([t])).mean()) for t in tasks}
    best = max(alone.values(), default=0.0)
    useful = [t for t in tasks if alone[t] > max(0.2 * best, 0.02 * none)]
    groups: list[list[Any]] = []
    for s, t in combinations(useful[: EXACT_UP_TO + 1], 2):
        both = none - float(loss(frozenset([s, t])).mean())
        if both > (1.0 + COPY) * max(alone[s], alone[t]):
            continue
        joined = next((g for g in groups if s in g or t in g), None)
        if joined is None:
            groups.append([s, t])
        else:
            joined += [v for v in (s, t) if v not in joined]
    return groups
