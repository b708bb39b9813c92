"""What each secondary is worth: its share of the gain, fairly divided.

"Error without task t less error with all" says nothing of t where another task is nearly a copy of it: each hides the
other. "Error with t alone" counts both in full. The Shapley value (Shapley 1953) is the only division of the gain that
adds up to it, gives tasks that are exchangeable the same, and gives nothing to a task that never changes the error:

    phi_t = mean over all orders of the secondaries of  loss(those before t) - loss(those before t, and t).

Losses are per row of the primary, each row predicted without itself, so phi_t is a mean over rows and has an interval.
With up to `EXACT_UP_TO` secondaries all 2^k sets are fitted; beyond, orders are drawn in pairs, one the reverse of the
other, and an interval counts the rows and not the orders that were left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np

from borrow.numerics.linalg import Array
from borrow.transfer.decide import Interval, holm

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
