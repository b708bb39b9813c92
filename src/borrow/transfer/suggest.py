"""`suggest`: which input of which task to measure next, so that most is gained for the primary per cost.

At fixed hyper-parameters the posterior covariance S of a Gaussian process does not depend on targets. Measuring
candidate c, with noise s², takes S[:, c] S[c, :]/(S[c, c] + s²) from it.

goal="learn". The average variance over the reference inputs R of the primary falls by

    reduction(c) = mean_r S[r, c]² / (S[c, c] + s²),

which is what a refit at the same hyper-parameters with that row added would find. The RBF network has its own
criterion, Corollary 2 of Liao & Carin (2006): gamma = (1 + S[c, c]/s²)² is what a row adds to the determinant; the
reduction is then log gamma, of all weights and not of the primary alone.

goal="minimise" or "maximise" (Mockus 1978; Jones, Schonlau & Welch 1998). Where the primary's function at c has the
posterior N(m, v), and b is the lowest posterior mean among the inputs measured so far, a measurement at c is expected
to lower it by

    EI(c) = E max(b - f(c), 0) = (b - m) Phi(z) + sqrt(v) phi(z),    z = (b - m)/sqrt(v);

means instead of targets, so that a lucky error of measurement is no record. To maximise, both are negated.

goal="decide": what would settle whether borrowing helps. Where a model that borrows says N(m, S) of a batch of
measurements and one that does not says N(m', S'), a measurement moves the log odds of the two towards the truth by
KL(1||2) where the first is right and by KL(2||1) where the second is (Box & Hill 1967); half the sum of the two,

    J = 1/4 [tr(S'^-1 S + S^-1 S' - 2 I) + (m - m')' (S^-1 + S'^-1) (m - m')],

averaged over the pairs of an `AutoRegressor`'s members by their weights, is what is expected. A batch is greedy in J.

A batch is greedy: the candidate of largest gain per cost, then the same again on the covariance it leaves. When a
record is sought the measurement is believed to come out at its mean (Ginsbourger, Le Riche & Carraro 2010), so that
means stay and deviations shrink: a batch spreads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from borrow.data.cells import Codes
from borrow.data.labels import did_you_mean, list_labels
from borrow.data.read import as_frame, read_new
from borrow.data.table import Table
from borrow.estimators.settings import expect, is_number, is_whole
from borrow.models.focused.settings import primary_code
from borrow.numerics.linalg import Array

#: What the next measurement is for.
GOALS = ("learn", "minimise", "maximise", "decide")


def suggest(
    model: Any,
    candidates: Any,
    n: int,
    cost: Any = None,
    *,
    tasks: Any = None,
    primary: Any = None,
    goal: str = "learn",
) -> Table:
    """The n rows of `candidates` to measure next, best first.

    Parameters
    ----------
    model : a fitted regressor of this package, or `AutoRegressor`.
    candidates : rows as for `predict`, with the task column or `tasks=`; each may be chosen once.
    n : how many rows to choose; each is chosen knowing those before it.
    cost : None (all cost the same), a number by task label in a dict, one number per row, or the name of a column of
        the candidates.
    tasks : of the candidates, where these have no task column: one label, or one per row.
    primary : the task that matters, where the model does not know it.
    goal : "learn" the primary's function everywhere; "minimise" or "maximise" it, that is find the input with its
        lowest or highest value in few measurements; "decide" whether borrowing helps, by what models of an
        `AutoRegressor` that borrow and those that do not disagree about most. For these the candidates are the
        primary's.

    Columns: rank, row (position in the candidates), task, the inputs, reduction (of the primary's average variance
    over its own inputs and the candidates', in squared units of y), cost, reduction_per_cost, remaining (the average
    variance then left). For the RBF network the reduction is log gamma and nothing is said of what remains. With
    "minimise" and "maximise": improvement (by how much the best value is expected to be beaten), cost,
    improvement_per_cost, mean and std (of the function there, before the batch). With "decide": log_odds (by how much
    the log odds of borrowing against not are expected to move towards the truth), cost, log_odds_per_cost, borrowing
    and alone (what is predicted there with and without the other data).

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.FocusedGPRegressor(primary="a", n_restarts=0).fit(X, y, tasks=tasks)
    >>> list(borrow.suggest(model, [[1.0], [9.0]], n=1, tasks=["a", "a"])["row"])
    [1]
    """
    expect(goal in GOALS, "goal", goal, f"one of {list_labels(GOALS)}{did_you_mean(goal, GOALS)}")
    sides = _sides(model) if goal == "decide" else []
    if hasattr(model, "comparison_"):  # an Auto estimator: the method that it fitted, for its primary
        model, primary = model.model_, model.primary_ if primary is None else primary
    if not hasattr(model, "covariance_at"):
        raise ValueError(
            f"{type(model).__name__} cannot say what to measure next: it has no posterior covariance in closed form; "
            "the regressors of this package can (what a label tells a classifier depends on which label it is)"
        )
    check_is_fitted(model)
    expect(is_whole(n, 1), "n", n, "how many rows to choose, a whole number of at least 1")
    candidates, cost = _cost_column(candidates, cost)
    schema = model.fitted_.schema
    primary = getattr(model, "primary", None) if primary is None else primary
    known = None if primary is None else primary_code(primary, schema.labels)
    rows, code = read_new(model, candidates, schema, tasks, known)
    if code is None:
        raise ValueError(f"which task each candidate is for is not known; give tasks=, {list_labels(schema.tasks)}")
    prices = _prices(cost, code, schema.labels)
    noise = np.array([model.noise_[label] for label in schema.labels])[code]
    shown = _shown(candidates, rows, schema)
    if goal == "learn":
        if hasattr(model, "select"):  # it has a criterion of its own, for which no task is the primary
            reference, main, gain = rows[:0], 0, log_gamma
        else:
            main, gain = primary_code(primary, schema.labels), variance_reduction
            reference = np.unique(np.vstack([model.inputs_of(main), rows]) + 0.0, axis=0)
        R = len(reference)
        S = model.covariance_at(np.vstack([reference, rows]), np.append(np.full(R, main, dtype=np.intp), code))
        steps = greedy(S, R, noise, prices, int(n), gain)
        return _table("reduction", steps, {"remaining": [r for _, _, r in steps]}, shown, code, prices, schema)
    main = primary_code(primary, schema.labels)
    said = {"decide": "is about"}.get(goal, "looks for the best value of")
    if other := sorted({str(schema.labels[t]) for t in code.tolist() if t != main}):
        raise ValueError(
            f"goal={goal!r} {said} {schema.labels[main]!r}, and a measurement of "
            f"{list_labels(other)} is none of it; give candidates of {schema.labels[main]!r}, or goal='learn'"
        )
    if goal == "decide":
        views = [(w, borrows, *_said(member, candidates, tasks, primary)) for w, borrows, member in sides]
        steps = discriminating(views, prices, int(n))
        chosen = [c for c, _, _ in steps]
        means = {
            name: np.average(
                [v[2] for v in views if v[1] == side], axis=0, weights=[v[0] for v in views if v[1] == side]
            )
            for name, side in (("borrowing", True), ("alone", False))
        }
        return _table("log_odds", steps, {k: m[chosen].tolist() for k, m in means.items()}, shown, code, prices, schema)
    sign = 1.0 if goal == "minimise" else -1.0
    mean, S = model.moments_at(rows, code)
    known = model.inputs_of(main)
    best = sign * (model.moments_at(known, np.full(len(known), main, dtype=np.intp))[0] if len(known) else mean)
    deviation = np.sqrt(np.maximum(np.diagonal(S), 0.0))
    steps = greedy(S, 0, noise, prices, int(n), expected_improvement(sign * mean, float(best.min())))
    chosen = [c for c, _, _ in steps]
    more = {"mean": mean[chosen].tolist(), "std": deviation[chosen].tolist()}
    return _table("improvement", steps, more, shown, code, prices, schema)


def _sides(model: Any) -> list[tuple[float, bool, Any]]:
    """Weight, whether it borrows, and estimator of every member that can say what it expects of a batch."""
    if not hasattr(model, "members_") or model.comparison_ is None:
        raise ValueError(
            f"goal='decide' asks what models that borrow and models that do not disagree about, and "
            f"{type(model).__name__} is one model; give a fitted AutoRegressor that has compared them"
        )
    alone, members = model.comparison_.alone, model.members_.items()
    found = [(model.weights_[key], key not in alone, m) for key, m in members if hasattr(m, "moments_at")]
    if {borrows for _, borrows, _ in found} != {True, False}:
        raise ValueError(
            f"goal='decide' has nothing to decide: of methods that borrow and those that do not one side alone has "
            f"weight in this AutoRegressor ({model.because_})"
        )
    return found


def _said(member: Any, candidates: Any, tasks: Any, primary: Any) -> tuple[Array, Array]:
    """What a member expects of measurements of the primary at the candidates: their mean and covariance."""
    schema = member.fitted_.schema
    main = primary_code(primary, schema.labels)
    rows, code = read_new(member, candidates, schema, tasks, main)
    mean, S = member.moments_at(rows, np.full(len(rows), main, dtype=np.intp) if code is None else code)
    return mean, S + member.noise_[schema.labels[main]] * np.eye(len(rows))


def discriminating(
    views: Sequence[tuple[float, bool, Array, Array]], cost: Array, n: int
) -> list[tuple[int, float, float]]:
    """(candidate, what it adds to J, J so far), the largest per cost first, each given those before it.

    A view is a weight, whether it borrows, and mean and covariance of measurements at the candidates.
    """
    borrowing, alone = ([v for v in views if v[1] == side] for side in (True, False))
    total = sum(v[0] for v in borrowing) * sum(v[0] for v in alone)
    pairs = [(v[0] * u[0] / total, v[2:], u[2:]) for v in borrowing for u in alone]
    batch: list[int] = []
    out: list[tuple[int, float, float]] = []
    reached = 0.0
    for _ in range(min(n, len(cost))):
        free = [c for c in range(len(cost)) if c not in batch]
        found = [sum(w * divergence(a, b, [*batch, c]) for w, a, b in pairs) for c in free]
        at = int(np.argmax((np.array(found) - reached) / cost[free]))
        out.append((free[at], found[at] - reached, found[at]))
        batch, reached = [*batch, free[at]], found[at]
    return out


def divergence(one: tuple[Array, Array], other: tuple[Array, Array], at: list[int]) -> float:
    """Half the sum of KL(1||2) and KL(2||1) for the measurements `at` these places."""
    (m, S), (u, T) = ((mean[at], C[np.ix_(at, at)]) for mean, C in (one, other))
    P, Q = np.linalg.inv(S), np.linalg.inv(T)
    d = m - u
    return float(np.sum(Q * S) + np.sum(P * T) - 2.0 * len(at) + d @ (P + Q) @ d) / 4.0


def greedy(
    S: Array, R: int, noise: Array, cost: Array, n: int, gain: Callable[[Array, Array, Array], Array]
) -> list[tuple[int, float, float]]:
    """(candidate, gain, remaining), the largest gain per cost first, each given those before it.

    Rows 0..R-1 of S are the reference, the others the candidates; `remaining` is the average variance of the reference.
    """
    S, out, free = S.copy(), [], np.ones(len(noise), dtype=bool)
    for _ in range(min(n, len(noise))):
        own = np.diagonal(S)[R:].copy()
        worth = gain(S[:R, R:], own, noise)
        c = int(np.argmax(np.where(free, worth / cost, -np.inf)))
        s = S[:, R + c].copy()
        S -= np.multiply.outer(s, s / (own[c] + noise[c]))
        free[c] = False
        left = float(np.maximum(np.diagonal(S)[:R], 0.0).mean()) if R else float("nan")
        out.append((c, float(worth[c]), left))
    return out


def variance_reduction(cross: Array, own: Array, noise: Array) -> Array:
    """By how much each candidate lowers the average variance of the reference."""
    return np.asarray(np.einsum("rc,rc->c", cross, cross) / (own + noise) / len(cross))


def log_gamma(cross: Array, own: Array, noise: Array) -> Array:
    """log gamma of each candidate (Corollary 2 of Liao & Carin)."""
    return np.asarray(2.0 * np.log1p(np.maximum(own, 0.0) / noise))


def expected_improvement(mean: Array, best: float) -> Callable[[Array, Array, Array], Array]:
    """E max(best - f, 0) of each candidate, for a function to be minimised with these posterior means."""

    def gain(cross: Array, own: Array, noise: Array) -> Array:
        deviation = np.sqrt(np.maximum(own, 0.0))
        lower = best - mean
        z = lower / np.where(deviation > 0, deviation, 1.0)
        density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
        return np.where(deviation > 0, lower * ndtr(z) + deviation * density, np.maximum(lower, 0.0))

    return gain


def _cost_column(candidates: Any, cost: Any) -> tuple[Any, Any]:
    """Costs that are a column of the candidates are taken out of it."""
    if not isinstance(cost, str):
        return candidates, cost
    frame = as_frame(candidates)
    if frame is None or cost not in frame.columns:
        columns = [] if frame is None else frame.columns
        raise ValueError(
            f"cost={cost!r} is not a column of the candidates; columns are {list_labels(columns)}"
            f"{did_you_mean(cost, columns)}"
        )
    return frame.drop(cost).to_native(), frame.get_column(cost).to_numpy()


def _prices(cost: Any, code: Codes, labels: tuple[Hashable, ...]) -> Array:
    if cost is None:
        return np.ones(len(code))
    if isinstance(cost, Mapping):
        if missing := [labels[t] for t in np.unique(code) if labels[t] not in cost]:
            raise ValueError(f"cost has no entry for the task {list_labels(missing)}; give one for each")
        values = np.array([cost[labels[t]] for t in code], dtype=object)
    else:
        values = np.asarray(cost, dtype=object).ravel()
        values = np.repeat(values, len(code)) if len(values) == 1 else values
        if len(values) != len(code):
            raise ValueError(f"cost has {len(values)} entries for {len(code)} candidates; give one per row")
    for i, v in enumerate(values.tolist()):
        if not is_number(v) or v <= 0:
            raise ValueError(f"cost of candidate {i} is {v!r}; expected a positive number")
    return values.astype(float)


def _shown(candidates: Any, rows: Array, schema: Any) -> dict[Any, list[Any]]:
    """The inputs of the candidates by name, as they were before they were encoded."""
    frame = as_frame(candidates)
    if schema.encoder is not None and frame is not None and {*schema.inputs} <= {*frame.columns}:
        return {name: frame.get_column(name).to_list() for name in schema.inputs}
    names = schema.names if schema.names is not None else [f"x{j}" for j in range(rows.shape[1])]
    return {name: rows[:, j].tolist() for j, name in enumerate(names)}


def _table(
    what: str,
    steps: list[tuple[int, float, float]],
    more: Mapping[str, list[float]],
    inputs: Mapping[Any, list[Any]],
    code: Codes,
    prices: Array,
    schema: Any,
) -> Table:
    """The rows chosen; `what` is the name of the gain, `more` are the columns after the costs."""
    own = ("rank", "row", "task", what, "cost", f"{what}_per_cost", *more)
    chosen = [c for c, _, _ in steps]
    return Table(
        {
            "rank": list(range(1, len(steps) + 1)),
            "row": chosen,
            "task": [schema.labels[code[c]] for c in chosen],
            **{f"input {v}" if v in own else str(v): [values[c] for c in chosen] for v, values in inputs.items()},
            what: [g for _, g, _ in steps],
            "cost": prices[chosen].tolist(),
            f"{what}_per_cost": [g / float(prices[c]) for c, g, _ in steps],
            **more,
        }
    )
