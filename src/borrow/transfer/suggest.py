"""`suggest`: which input of which task to measure next, so that least is left unknown about the primary per cost.

At fixed hyper-parameters the posterior covariance S of a Gaussian process does not depend on targets. Measuring
candidate c, with noise s², takes S[:, c] S[c, :]/(S[c, c] + s²) from it, so the average variance over the reference
inputs R of the primary falls by

    reduction(c) = mean_r S[r, c]² / (S[c, c] + s²),

which is what a refit at the same hyper-parameters with that row added would find. A batch is greedy: the candidate of
largest reduction per cost, then the same again on the covariance it leaves. The RBF network has its own criterion,
Corollary 2 of Liao & Carin (2006): gamma = (1 + S[c, c]/s²)² is what a row adds to the determinant; the reduction is
then log gamma, of all weights and not of the primary alone.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from borrow.covariance import choose_inducing
from borrow.data.cells import Codes
from borrow.data.labels import did_you_mean, list_labels
from borrow.data.read import as_frame, read_new
from borrow.data.table import Table
from borrow.estimators.regressor import TaskRegressor
from borrow.estimators.settings import is_number
from borrow.models.focused.estimators import FocusedGPRegressor
from borrow.models.focused.model import condition, primary_code
from borrow.models.hierarchical.estimators import HierarchicalGPRegressor
from borrow.models.rbf.estimators import MultiTaskRBFRegressor
from borrow.numerics.linalg import Array
from borrow.numerics.threads import single_thread

#: The focused model gets inducing inputs at candidates too, up to this many in all.
MOST_INDUCING = 1000


def suggest(model: Any, candidates: Any, n: int, cost: Any = None, *, tasks: Any = None, primary: Any = None) -> Table:
    """The n rows of `candidates` to measure next, best first.

    Parameters
    ----------
    model : a fitted regressor of this package, or `AutoRegressor`.
    candidates : rows as for `predict`, with the task column or `tasks=`; each may be chosen once.
    n : how many rows to choose; each is chosen knowing those before it.
    cost : None (all cost the same), a number by task label in a dict, one number a row, or a column of the candidates.
    tasks : of the candidates, where these have no task column: one label, or one a row.
    primary : the task that matters, where the model does not know it.

    Columns: rank, row (position in the candidates), task, the inputs, reduction (of the primary's average variance
    over its own inputs and the candidates', in squared units of y), cost, reduction_per_cost, remaining (the average
    variance then left). For the RBF network the reduction is log gamma and nothing is said of what remains.
    """
    model, primary = _unwrap(model, primary)
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n={n!r}: expected how many rows to choose, a whole number of at least 1")
    candidates, cost = _cost_column(candidates, cost)
    schema = model.fitted_.schema
    rows, code = read_new(model, candidates, schema, tasks, _known_primary(model, primary))
    if code is None:
        raise ValueError(f"which task each candidate is for is not known; give tasks=, {list_labels(schema.labels)}")
    prices = _prices(cost, code, schema.labels)
    noise = np.array([model.noise_[label] for label in schema.labels])[code]
    if isinstance(model, MultiTaskRBFRegressor):
        S = _covariance(model, rows, code)
        steps = greedy_gamma(S, noise, prices, int(n))
    else:
        main = _primary_of(model, primary)
        reference = _reference(model, rows, main)
        R = len(reference)
        model = _ready(model, rows)
        S = _covariance(model, np.vstack([reference, rows]), np.concatenate([np.full(R, main, dtype=np.intp), code]))
        steps = greedy_variance(S, R, noise, prices, int(n))
    return _table(steps, rows, code, prices, schema)


def greedy_variance(S: Array, R: int, noise: Array, cost: Array, n: int) -> list[tuple[int, float, float]]:
    """(candidate, reduction, remaining): rows 0..R-1 of S are the reference, the others the candidates."""
    S, out, free = S.copy(), [], np.ones(len(noise), dtype=bool)
    for _ in range(min(n, len(noise))):
        total = np.diagonal(S)[R:] + noise
        gain = np.einsum("rc,rc->c", S[:R, R:], S[:R, R:]) / total / R
        c = int(np.argmax(np.where(free, gain / cost, -np.inf)))
        s = S[:, R + c].copy()
        S -= np.multiply.outer(s, s / total[c])
        free[c] = False
        out.append((c, float(gain[c]), float(np.maximum(np.diagonal(S)[:R], 0.0).mean())))
    return out


def greedy_gamma(S: Array, noise: Array, cost: Array, n: int) -> list[tuple[int, float, float]]:
    """(candidate, log gamma, NaN)."""
    S, out, free = S.copy(), [], np.ones(len(noise), dtype=bool)
    for _ in range(min(n, len(noise))):
        gain = 2.0 * np.log1p(np.maximum(np.diagonal(S), 0.0) / noise)
        c = int(np.argmax(np.where(free, gain / cost, -np.inf)))
        s = S[:, c].copy()
        S -= np.multiply.outer(s, s / (s[c] + noise[c]))
        free[c] = False
        out.append((c, float(gain[c]), float("nan")))
    return out


def _unwrap(model: Any, primary: Any) -> tuple[Any, Any]:
    if hasattr(model, "_winner"):
        model, main = model._winner()
        primary = main if primary is None else primary
    if not isinstance(model, TaskRegressor):
        raise ValueError(
            f"{type(model).__name__} cannot say what to measure next: it has no posterior covariance in closed form; "
            "the regressors of this package can (what a label tells a classifier depends on which label it is)"
        )
    check_is_fitted(model, "log_marginal_likelihood_")
    return model, primary


def _known_primary(model: Any, primary: Any) -> int | None:
    """The code to answer for where candidates name no task."""
    if primary is not None or isinstance(model, FocusedGPRegressor):
        return _primary_of(model, primary)
    return None


def _primary_of(model: Any, primary: Any) -> int:
    labels: tuple[Hashable, ...] = model.fitted_.schema.labels
    given = model.primary if primary is None and isinstance(model, FocusedGPRegressor) else primary
    return primary_code(given, labels)


def _reference(model: Any, rows: Array, main: int) -> Array:
    """Where the primary's variance counts: its own inputs and the candidates', each once."""
    if isinstance(model, HierarchicalGPRegressor):
        X = np.asarray(model.X_.toarray() if hasattr(model.X_, "toarray") else model.X_)
    else:
        cells = model.fitted_.model.cells
        X = cells.X if len(cells.starts) - 1 < len(model.fitted_.schema.labels) else cells.X[cells.of(main)]
    return np.unique(np.vstack([X, rows]) + 0.0, axis=0)


def _ready(model: Any, rows: Array) -> Any:
    """The model as it is; a focused one made exact at the candidates."""
    if not isinstance(model, FocusedGPRegressor):
        return model
    fitted = model.fitted_
    setup, values = fitted.model.found.setup, fitted.model.found.values
    kernel = setup.kernel.with_theta(values["kernel"])
    Z = choose_inducing(kernel, setup.Z, np.unique(rows, axis=0), max(MOST_INDUCING, len(setup.Z)), 1e-8)
    with single_thread(len(Z)):
        posterior = condition(values, replace(setup, Z=Z)).posterior
    model = copy.copy(model)
    found = replace(fitted.model.found, posterior=posterior)
    model.fitted_ = replace(fitted, model=replace(fitted.model, found=found))
    return model


def _covariance(model: Any, rows: Array, code: Codes) -> Array:
    """Joint posterior covariance of the functions, in the units of y."""
    return model._answer(rows, code, True, False, hyper=False)[1]


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
            raise ValueError(f"cost has {len(values)} entries for {len(code)} candidates; give one a row")
    for i, v in enumerate(values.tolist()):
        if not is_number(v) or v <= 0:
            raise ValueError(f"cost of candidate {i} is {v!r}; expected a positive number")
    return values.astype(float)


def _table(steps: list[tuple[int, float, float]], rows: Array, code: Codes, prices: Array, schema: Any) -> Table:
    own = ("rank", "row", "task", "reduction", "cost", "reduction_per_cost", "remaining")
    names = schema.names if schema.names is not None else [f"x{j}" for j in range(rows.shape[1])]
    chosen = [c for c, _, _ in steps]
    return Table(
        {
            "rank": list(range(1, len(steps) + 1)),
            "row": chosen,
            "task": [schema.labels[code[c]] for c in chosen],
            **{f"input {v}" if v in own else str(v): rows[chosen, j].tolist() for j, v in enumerate(names)},
            "reduction": [g for _, g, _ in steps],
            "cost": prices[chosen].tolist(),
            "reduction_per_cost": [g / float(prices[c]) for c, g, _ in steps],
            "remaining": [r for _, _, r in steps],
        }
    )
