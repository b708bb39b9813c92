"""Which of the other tasks matters: how each is related to the primary, and what it is worth.

What it is worth is its share of the gain, fairly divided. "Error without task t less error with all" says nothing of t
where another task is nearly a copy of it: each hides the other. "Error with t alone" counts both in full. The Shapley
value (Shapley 1953) is the only division of the gain that adds up to it, gives tasks that are exchangeable the same,
and gives nothing to a task that never changes the error:

    phi_t = mean over all orders of the secondaries of  loss(those before t) - loss(those before t, and t).

Losses are per row of the primary, each row predicted without itself, so phi_t is a mean over rows and has an interval.
With up to `EXACT_UP_TO` secondaries all 2^k sets are fitted; beyond, orders are drawn in pairs, one the reverse of the
other, and an interval counts the rows and not the orders that were left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np

from borrow.data.plain import to_json
from borrow.data.table import HALF, Table
from borrow.estimators.view import relation_tables
from borrow.numerics.linalg import Array
from borrow.numerics.threads import one_thread
from borrow.numerics.warned import capture_warnings
from borrow.transfer.decide import Interval, holm
from borrow.transfer.methods import method_for
from borrow.transfer.problem import Problem

#: What is told of a relation: the correlation with its 95 % interval and standard error.
RELATION = ("correlation", "correlation_low", "correlation_high", "std_error")
#: Up to so many secondaries every set of them is fitted.
EXACT_UP_TO = 5
#: Orders that are drawn beyond, half of them the reverse of the others.
ORDERS = 8
#: Two tasks are near-copies where each alone gains at least this part of what the other does, and both together at most
#: this part more than the better of them.
ALIKE, MORE = 0.75, 0.1

Set = frozenset[Any]


@dataclass(frozen=True)
class Worth:
    """What one secondary is worth to the primary.

    Attributes
    ----------
    alone : gain with it as the only one.
    without : what is lost without it, all others being there.
    gain : its share of the gain of all, by Shapley, with its interval.
    p : probability of so large a share by chance, corrected for the number of tasks (Holm 1979).
    """

    alone: float
    without: float
    gain: Interval
    p: float


#: Of a secondary that was not asked about.
UNKNOWN = Worth(math.nan, math.nan, Interval(), math.nan)


def relations_of(problem: Problem, primary: Any, seed: int) -> dict[str, Any]:
    """The focused model fitted to all rows, and what it says of the relations."""
    out: dict[str, Any] = {"primary": primary, "relations": [], "failure": None}
    with capture_warnings() as out["warnings"], one_thread():
        try:
            return {**out, "relations": relations_in(problem.fit(method_for("relations"), primary, seed), primary)}
        except Exception as failure:  # it is evidence beside the verdict, not the verdict
            return {**out, "failure": f"{type(failure).__name__}: {failure}"}


def relations_to(primary: Any, found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of what `relations_of` found for the primaries, what it found for one; nothing where it was not asked."""
    return next((r["relations"] for r in found if r["primary"] == primary), [])


def relations_in(model: Any, primary: Any) -> list[dict[str, Any]]:
    """What a focused model says of the secondaries: rho, correlation with its standard error, share.

    Of the several models of more than two classes, the strongest relation is taken.
    """
    strongest: dict[Any, dict[str, Any]] = {}
    for row in [row for table in relation_tables(model) for row in table.rows() if row["task"] != primary]:
        figures = of_correlation(row)
        entry = {name: to_json(figures[name]) for name in ("rho", *RELATION, "share")}
        old = strongest.get(row["task"])
        if old is None or abs(entry["correlation"] or 0.0) > abs(old["correlation"] or 0.0):
            strongest[row["task"]] = {"task": row["task"], **entry}
    return list(strongest.values())


def of_correlation(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `relatedness()` whose interval and standard error are named as the correlation's.

    The standard error is that of a normal estimate with an interval as wide.
    """
    low, high = float(row["low"]), float(row["high"])
    return {**row, "correlation_low": low, "correlation_high": high, "std_error": (high - low) / (2.0 * HALF)}


def secondary_table(
    rows: Mapping[Any, int], relations: Sequence[Mapping[str, Any]], worths: Mapping[Any, Worth]
) -> Table:
    """One row per secondary: its rows, how it is related, and what it is worth."""
    known = {r["task"]: r for r in relations}

    def figure(task: Any, name: str) -> float:
        value = known.get(task, {}).get(name)
        return math.nan if value is None else float(value)

    worth = [worths.get(t, UNKNOWN) for t in rows]
    return Table(
        {
            "task": list(rows),
            "rows": list(rows.values()),
            **{name: [figure(t, name) for t in rows] for name in (*RELATION, "share")},
            "alone": [w.alone for w in worth],
            "without": [w.without for w in worth],
            "gain": [w.gain.mean for w in worth],
            "low": [w.gain.low for w in worth],
            "high": [w.gain.high for w in worth],
            "p": [w.p for w in worth],
        }
    )


def coalitions(tasks: Sequence[Any], seed: int) -> list[Set]:
    """The sets of secondaries that have to be fitted, the empty one and that of all among them."""
    singles, others = [frozenset([t]) for t in tasks], [frozenset(tasks) - {t} for t in tasks]
    return list(dict.fromkeys(S for part in (*chains(tasks, seed), singles, others) for S in part))


def chains(tasks: Sequence[Any], seed: int) -> list[list[Set]]:
    """Orders of the tasks, each as sets that grow by one at a time: all orders, or some drawn and their reverses."""
    orders: list[Sequence[Any]] = list(permutations(tasks)) if len(tasks) <= EXACT_UP_TO else []
    if not orders:
        rng = np.random.default_rng(seed)
        drawn = [[tasks[i] for i in rng.permutation(len(tasks))] for _ in range(ORDERS // 2)]
        orders = [order for first in drawn for order in (first, first[::-1])]
    return [[frozenset(order[:size]) for size in range(len(tasks) + 1)] for order in orders]


def attribute(
    tasks: Sequence[Any], losses: Mapping[Set, Array], judge: Callable[[Array], Interval], seed: int = 0
) -> dict[Any, Worth]:
    """The worth of each task from the losses of all `coalitions`; `judge` makes an interval of values of the rows."""
    shares = shares_of(tasks, losses, seed)
    none, every = frozenset[Any](), frozenset(tasks)
    gains = {t: judge(shares[t]) for t in tasks}
    chance = [1.0 if not g.std_error > 0 else g.below(0.0) for g in gains.values()]
    return {
        t: Worth(
            judge(losses[none] - losses[frozenset([t])]).mean,
            judge(losses[every - {t}] - losses[every]).mean,
            gains[t],
            p,
        )
        for t, p in zip(tasks, holm(chance), strict=True)
    }


def shares_of(tasks: Sequence[Any], losses: Mapping[Set, Array], seed: int) -> dict[Any, Array]:
    """phi_t per row: what each task takes from the loss when it is added, averaged over the orders."""
    out, orders = {t: np.zeros_like(losses[frozenset()]) for t in tasks}, chains(tasks, seed)
    for chain in orders:
        for before, after in pairwise(chain):
            (t,) = after - before
            out[t] += (losses[before] - losses[after]) / len(orders)
    return out


def pairs(tasks: Sequence[Any], losses: Mapping[Set, Array]) -> list[Set]:
    """Pairs that may be near-copies: of the tasks that gain at least a fifth of what the best does, each by itself."""
    none = float(losses[frozenset()].mean())
    alone = {t: none - float(losses[frozenset([t])].mean()) for t in tasks}
    best = max(alone.values(), default=0.0)
    useful = [t for t in sorted(tasks, key=lambda t: -alone[t]) if alone[t] > max(0.2 * best, 0.02 * none)]
    return [frozenset(pair) for pair in combinations(useful[: EXACT_UP_TO + 1], 2)]


def near_copies(tasks: Sequence[Any], losses: Mapping[Set, Array]) -> list[list[Any]]:
    """Groups of tasks of which each gains about as much by itself, and two together hardly more than one."""
    none = float(losses[frozenset()].mean())
    gain = {S: none - float(v.mean()) for S, v in losses.items()}
    groups: list[set[Any]] = []
    for pair in pairs(tasks, losses):
        less, more = sorted(gain[frozenset([t])] for t in pair)
        if pair not in gain or less < ALIKE * more or gain[pair] > (1.0 + MORE) * more:
            continue
        touched = [g for g in groups if g & pair]
        groups = [g for g in groups if not g & pair] + [set(pair).union(*touched)]
    return [[t for t in tasks if t in g] for g in groups]
