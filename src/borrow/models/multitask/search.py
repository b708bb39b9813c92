"""The search for the symmetric model's hyper-parameters: where K^f starts, and how the evidence is maximised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from borrow.data.cells import Cells
from borrow.inference.priors import independent_priors
from borrow.kernels import Kernel
from borrow.models.gp.model import bounds_of, smooth_and_rough
from borrow.models.gp.task_model import Ascent, on_few_rows
from borrow.models.multitask.model import Setup, multitask_objective, priors_of
from borrow.models.multitask.task_covariance import FormPrior, Given, LowRank
from borrow.numerics import linalg
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import WARMUP, Optimum, Values
from borrow.tasks.contracts import Shard

#: Steps that L-BFGS remembers: an evaluation costs far more than its memory, and the entries of K^f are correlated.
MEMORY = 100
#: With so few rows an evaluation costs less than a long memory does.
SMALL, SMALL_MEMORY = 400, 30
#: Scoring steps from every start before the best goes on.
WARMUP_ITERATIONS = 4
#: The last scoring step gains less than this, in nats, without priors and with them.
SCORED = 1e-3, 1e-4
#: Above `MANY` rows the search begins on about `FEW` of them. On all rows it ends where a scoring step, or `LAST` steps
#: of L-BFGS together, gain less than `NEAR` nats per row.
MANY, FEW, LAST, NEAR = 2000, 1000, 3, 1e-4
#: The same of labels, each of whose evaluations is a run of EP.
MANY_LABELS, FEW_LABELS = 1000, 600
#: Above this many parameters a scoring step costs more than it saves; below so many rows, where there are priors, too.
MOST, LEAST_ROWS = 300, 500
#: At most so many rows of a task are used to find where K^f starts.
START_ROWS = 300
#: With more tasks than this, their own fits are compared through the inducing inputs where there are any.
START_PAIRS = 200


def can_score(setup: Setup, values: Values) -> bool:
    """Scoring is written for the dense path, Gaussian noise and some forms of K^f; priors cost their curvature."""
    worth = setup.form.strength is None or len(setup.cells.y) >= LEAST_ROWS
    small = sum(v.size for v in values.values()) <= min(MOST, len(setup.cells.y))
    written = bool(setup.form.scored) and not setup.intercept
    return setup.path == "dense" and written and small and worth and "noise" in values


def ascent_of(
    setup: Setup, scales: Array, prior: str | None, start: Values, options: Mapping[str, Any] | None = None
) -> Ascent:
    """What is maximised, and the way up from a start: by scoring steps where they can be taken; options of L-BFGS."""
    form, scores, log_priors = setup.form, can_score(setup, start), priors_of(setup, scales, prior)
    if scores:  # with its curvature
        of_form = {} if form.strength is None else {form.scored: FormPrior(form, form.strength, form.scored)}
        log_priors[0] = independent_priors(of_form)
    return Ascent(setup, multitask_objective(setup), log_priors, scales, scores, options)


def start_correlation(setup: Setup, kernel: Kernel, noise: Array) -> Array:
    """Correlations of the tasks' own fits, as functions: beta_t'k beta_t' of their coefficients, scaled to 1.

    Each task alone has beta_t = w (I + w k w)^-1 w y, w^2 = count / noise. A task without rows correlates with none.
    """
    design, M = setup.design, setup.M
    if setup.Z is not None and M > START_PAIRS:
        # k(X, X') = k(X, Z) k(Z, Z)^-1 k(Z, X'): one vector per task, from its rows
        F = np.concatenate(setup.tasks.each(_fits_at_Z, (kernel, setup.Z), noise))
        half = linalg.solve_lower(linalg.cholesky_jittered(kernel(setup.Z))[0], np.ascontiguousarray(F.T))
        C = half.T @ half
    else:
        chosen, beta = zip(*(own_fit(setup.cells, t, kernel, noise[t]) for t in range(M)), strict=True)
        C = np.eye(M)
        for t in range(M):
            for s in range(t + 1):
                C[t, s] = C[s, t] = beta[t] @ kernel(design.X[chosen[t]], design.X[chosen[s]]) @ beta[s]
    size = np.sqrt(np.diagonal(C))
    C = C / np.multiply.outer(*[np.where(size > 0, size, np.inf)] * 2)
    C.flat[:: M + 1] = 1.0
    return C


def own_fit(cells: Cells, t: int, kernel: Kernel, noise: float) -> tuple[Any, Array]:
    """Rows of a task, thinned, and the coefficients of its own fit."""
    rows = np.arange(cells.starts[t], cells.starts[t + 1])
    rows = rows[:: max(1, -(-len(rows) // START_ROWS))]
    w = np.sqrt(cells.count[rows] / noise)
    A = w[:, None] * kernel(cells.X[rows]) * w
    A.flat[:: len(A) + 1] += 1.0
    return rows, w * linalg.solve(linalg.cholesky(A, overwrite=True), w * cells.y[rows])


def _fits_at_Z(shard: Shard, common: tuple[Kernel, Array], noise: Array) -> Array:
    """k(Z, X_t) beta_t of the shard's tasks, one per row."""
    kernel, Z = common
    fits = (own_fit(shard.cells, t, kernel, sigma2) for t, sigma2 in enumerate(noise))
    return np.stack([kernel(Z, shard.cells.X[rows]) @ beta for rows, beta in fits])


def starts_of(setup: Setup, values: Values) -> list[Values]:
    """Where the search begins: K^f as it is in `values`, or from the data, at the kernel given and at a rougher one."""
    starts, form = smooth_and_rough(setup.kernel, values), setup.form
    if form.start(np.eye(setup.M)).keys() <= values.keys():
        return starts
    noise = np.exp(np.broadcast_to(values.get("noise", np.zeros(1)), setup.M))
    kernels = [setup.kernel.with_theta(start["kernel"]) for start in starts]
    return [s | form.start(start_correlation(setup, k, noise)) for s, k in zip(starts, kernels, strict=True)]


def fewer_rows(setup: Setup) -> Setup | None:
    """The model on some rows of every task, where there are many and all pairs are written out."""
    many, enough = (MANY, FEW) if setup.infer.gaussian else (MANY_LABELS, FEW_LABELS)
    if setup.path != "dense" or len(setup.cells.y) <= many:
        return None
    return on_few_rows(setup, setup.tasks, -(-enough // setup.M))


def optimise(setup: Setup, values: Values, scales: Array, prior: str | None, max_iter: int) -> Optimum:
    """Maximise the evidence, and the priors, from the better of the starts; of many rows on a few of them first."""
    few = fewer_rows(setup)
    if few is not None:
        return go_on(setup, optimise(few, values, scales, prior, max_iter), scales, prior, max_iter)
    starts = starts_of(setup, values) if not isinstance(setup.form, Given) else [values]
    bounds = bounds_of(starts[0], setup.cells)
    # The plain likelihood creeps for hundreds of steps towards a singular K^f, and so do loadings of many tasks
    # towards each other: there, stop when ten steps together gain next to nothing.
    loadings = isinstance(setup.form, LowRank) and setup.form.diagonal == "none"
    slow: dict[str, Any] = {"tol": 1e-2 if loadings else 1e-3, "patience": 10} if loadings or prior is None else {}
    warmup, tol = WARMUP, SCORED[prior is not None]
    options = {"memory": MEMORY, **slow}
    if can_score(setup, starts[0]):
        memory = MEMORY if len(setup.cells.y) > SMALL else SMALL_MEMORY
        warmup, options = WARMUP_ITERATIONS, {"tol": 10.0 * tol, "patience": 10, "memory": memory}
    return ascent_of(setup, scales, prior, starts[0], options).maximise_from(starts, bounds, max_iter, warmup, tol)


def go_on(setup: Setup, best: Optimum, scales: Array, prior: str | None, max_iter: int) -> Optimum:
    """The search on all rows, from where it ended on a few of them."""
    bounds = bounds_of(best.values, setup.cells)
    start = {n: np.clip(v, *bounds[n]) for n, v in best.values.items()}
    tol = NEAR * len(setup.cells.y)
    options = {"tol": tol, "patience": LAST, "memory": MEMORY}
    return best.followed_by(ascent_of(setup, scales, prior, start, options).maximise(start, bounds, max_iter, tol))
