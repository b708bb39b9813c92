"""Hyper-parameters: named arrays <-> the optimiser's vector, maximisation, curvature.

A model keeps its hyper-parameters as a dict of arrays in the coordinates of the optimiser (logarithms of positive
ones, signed ones as they are); its objective takes such a dict and returns the evidence with a dict of derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from borrow.numerics.linalg import Array, NotPositiveDefiniteError, cholesky, solve
from borrow.numerics.warned import log

Values = dict[str, Array]
Objective = Callable[[Values], tuple[float, Values]]

#: Bounds in the optimiser's coordinates: wide, to keep exp() and factorisations away from overflow.
LOG_BOUND = 14.0
#: Noise variances of scaled targets stay above this.
NOISE_FLOOR = 1e-6


def pack(values: Mapping[str, Array]) -> Array:
    """One vector of all arrays, in the order of the dict."""
    return np.concatenate([np.ravel(v) for v in values.values()]) if values else np.zeros(0)


def unpack(vector: Array, like: Mapping[str, Array]) -> Values:
    """The vector cut up again into arrays of the shapes of `like`."""
    ends = accumulate(v.size for v in like.values())
    return {n: vector[end - v.size : end].reshape(v.shape) for (n, v), end in zip(like.items(), ends, strict=True)}


@dataclass(frozen=True)
class Optimum:
    """Where a maximisation ended. `at_bound` names entries that stopped at a bound, as (name, index)."""

    values: Values
    objective: float
    n_iter: int
    n_evaluations: int
    converged: bool
    message: str
    at_bound: list[tuple[str, int]] = field(default_factory=list)

    def followed_by(self, end: Optimum) -> Optimum:
        """Where a search ended that went on from here, with the steps of both."""
        n_iter, n_evaluations = self.n_iter + end.n_iter, self.n_evaluations + end.n_evaluations
        return replace(end, n_iter=n_iter, n_evaluations=n_evaluations)


def bounds_around(start: Values, floors: Mapping[str, float | Array] | None = None) -> dict[str, tuple[Array, Array]]:
    """Bounds so wide that only what the data cannot identify meets them; `floors` are least values by name."""
    low = {n: v - LOG_BOUND for n, v in start.items()}
    for n, floor in (floors or {}).items():
        low[n] = np.minimum(np.broadcast_to(floor, start[n].shape), start[n])
    return {n: (low[n], v + LOG_BOUND) for n, v in start.items()}


def within(bounds: Mapping[str, tuple[Array, Array]], start: Values) -> tuple[Array, Array, Array]:
    """Bounds by name as two vectors, and the start as a third, cut to them."""
    low, high = (pack({n: bounds[n][side] for n in start}) for side in (0, 1))
    return low, high, np.clip(pack(start), low, high)


def free_entries(x: Array, g: Array, low: Array, high: Array) -> Any:
    """Entries that may move along the gradient: all but those that press against a bound."""
    return ~(((x <= low) & (g < 0)) | ((x >= high) & (g > 0)))


def with_prior(objective: Objective, *log_priors: Objective) -> Objective:
    """Evidence plus log priors."""

    def total(values: Values) -> tuple[float, Values]:
        value, by = objective(values)
        for log_prior in log_priors:
            more, by_prior = log_prior(values)
            value, by = value + more, {n: g + by_prior[n] if n in by_prior else g for n, g in by.items()}
        return value, by

    return total


def maximise(
    objective: Objective,
    start: Values,
    bounds: Mapping[str, tuple[Array, Array]],
    max_iter: int,
    tol: float = 1e-6,
    patience: int = 1,
    memory: int = 20,
) -> Optimum:
    """L-BFGS on the objective, with bounds by name, until `patience` steps together gain less than `tol`.

    Where a factorisation fails the step is shortened. `memory` is the number of steps that L-BFGS remembers.
    """
    low, high, x0 = within(bounds, start)
    worst = [np.inf]

    def descend(x: Array) -> tuple[float, Array]:
        try:
            value, gradient = objective(unpack(x, start))
        except NotPositiveDefiniteError as failure:
            if not np.isfinite(worst[0]):
                raise
            log.debug("step rejected: %s", failure)
            return worst[0] + 1e3, np.zeros_like(x)  # a wall: the line search turns back
        worst[0] = -value if not np.isfinite(worst[0]) else max(worst[0], -value)
        return -value, -pack(gradient)

    trace = [np.inf] * patience

    def stop_when_still(intermediate_result: OptimizeResult) -> None:
        if trace[-patience] - intermediate_result.fun < tol:
            raise StopIteration
        trace.append(intermediate_result.fun)

    result = minimize(
        descend,
        x0,
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([low, high]),
        callback=stop_when_still,
        options={"maxiter": max_iter, "maxfun": 4 * max_iter, "ftol": 0.0, "gtol": 1e-6, "maxcor": memory},
    )
    message = str(result.message)
    # 'ABNORMAL' is a line search that found nothing better within rounding: the end of what there is to gain.
    outcome = -float(result.fun), int(result.nit), int(result.nfev), "LIMIT" not in message.upper(), message
    return _optimum(result.x, low, high, start, outcome)


def _optimum(x: Array, low: Array, high: Array, like: Values, outcome: tuple[float, int, int, bool, str]) -> Optimum:
    """Where a search ended, with the entries that lie on a bound, but for those that may not move."""
    names = [(n, i) for n, v in like.items() for i in range(v.size)]
    stuck = [names[i] for i in np.flatnonzero(((x <= low) | (x >= high)) & (low < high))]
    return Optimum(unpack(x, like), *outcome, stuck)


#: Damping of a scoring step: where it starts, and where the steps are left to L-BFGS.
DAMPING, MOST_DAMPING = 0.1, 30.0
STALLED = "scoring steps do not gain"
#: The last so many steps correct the information.
CORRECTIONS = 5
#: A start is left behind where this many times its last gain in every step to come would not do.
HOPE = 3.0


class ScoringSearch:
    """Newton steps with an information matrix instead of second derivatives, damped as Levenberg and Marquardt do.

    x + (H + damping max(diag H, 1))^-1 g, cut to the bounds; entries that press against a bound stay. Converged is
    where a step that is hardly damped gains less than `tol`. The message is `STALLED` where such steps do not work
    (the information is far from the curvature, as near a singular matrix): go on with `maximise`. A search goes on with
    the damping and the corrections it had. `value` is the objective without its derivatives, where that is cheaper:
    a step that does not gain needs none.
    """

    def __init__(
        self,
        objective: Objective,
        information: Callable[[Values], Array],
        start: Values,
        bounds: Mapping[str, tuple[Array, Array]],
        value: Callable[[Values], float] | None = None,
    ) -> None:
        self.objective, self.information, self.like = objective, information, start
        self.value_at = value or (lambda at: objective(at)[0])
        self.low, self.high, self.x = within(bounds, start)
        self.value, by = objective(unpack(self.x, start))
        self.g, self.damping, self.n_evaluations = pack(by), DAMPING, 1
        self.past: list[tuple[Array, Array]] = []

    def go_on(self, max_iter: int, tol: float, rival: float = -np.inf) -> Optimum:
        """So many steps more, or until one gains less than `tol`; the steps and evaluations told are these alone.

        It ends sooner where the steps that are left would not reach what a rival has, though each gained `HOPE` times
        as much as the last.
        """
        message, n_iter = "", 0
        while not message and n_iter < max_iter:
            n_iter += 1
            gain = self._step()
            if gain <= 0.0:
                message = STALLED
            elif gain < tol and self.damping <= 1.0:
                message = "converged"
            elif self.value + HOPE * (max_iter - n_iter) * gain < rival:
                message = "left behind"
        outcome = self.value, n_iter, self.n_evaluations, message == "converged", message or "iteration limit"
        self.n_evaluations = 0
        return _optimum(self.x, self.low, self.high, self.like, outcome)

    def _step(self) -> float:
        """One step, as short as it has to be to gain; what it gained, not above zero where none does."""
        x, g, low, high = self.x, self.g, self.low, self.high
        H = corrected(self.information(unpack(x, self.like)), self.past)
        free = free_entries(x, g, low, high)
        gain, among = -np.inf, H[np.ix_(free, free)]
        while gain <= 0.0 and self.damping <= MOST_DAMPING:
            new = x.copy()
            new[free] += solve(cholesky(among + np.diag(self.damping * np.maximum(np.diagonal(among), 1.0))), g[free])
            new = np.clip(new, low, high)
            step = new - x
            hoped = float(g @ step - 0.5 * step @ H @ step)
            self.n_evaluations += 1
            try:
                trial = self.value_at(unpack(new, self.like))
                gain = trial - self.value
            except NotPositiveDefiniteError as failure:
                log.debug("step rejected: %s", failure)
            if gain <= 0.0 or gain < 0.25 * hoped:  # also where a step of no length hopes for nothing
                self.damping *= 4.0
            elif gain > 0.7 * hoped:
                self.damping /= 5.0
        if gain > 0.0:
            by = pack(self.objective(unpack(new, self.like))[1])
            self.past = [*self.past[1 - CORRECTIONS :], (step, g - by)]
            self.x, self.value, self.g = new, trial, by
        return gain


def corrected(H: Array, past: list[tuple[Array, Array]]) -> Array:
    """An information matrix that is right along the last steps s, by which the gradient fell by y: BFGS's update of it.

    Where the information is far from the curvature, as under EP, steps then converge as those of BFGS do.
    """
    for s, y in past:
        Hs, sy = H @ s, float(s @ y)
        if sy > 0.01 * float(s @ Hs) > 0.0:
            H = H - np.multiply.outer(Hs, Hs) / (s @ Hs) + np.multiply.outer(y, y) / sy
    return H


#: A step of one of many searches is cut by this where it does not gain, and the search ends where it is this short.
CUT, SHORTEST = 0.25, 1e-4


def maximise_each(
    objective: Callable[[Array], tuple[Array, Array]],
    start: Array,
    bounds: tuple[Array, Array],
    max_iter: int,
    tol: float,
) -> Array:
    """Many small problems at once, one per row: BFGS of each, with bounds; every evaluation is of all of them.

    A row ends where two steps in a row gain less than `tol` each. `objective` gives values (T,) and derivatives (T, P).
    With s the step and y minus the change of the derivatives, the inverse curvature H becomes, by row,
    (I - s y'/y's) H (I - y s'/y's) + s s'/y's; before the first step it is 1 / max(1, |g|).
    """
    low, high = bounds
    x = np.clip(start, low, high)
    value, g = objective(x)
    H = np.eye(x.shape[1]) / np.maximum(1.0, np.linalg.norm(g, axis=1))[:, None, None]
    length, small = np.ones(len(x)), np.zeros(len(x), dtype=int)
    for _ in range(max_iter):
        free = free_entries(x, g, low, high)
        step = np.einsum("tij,tj->ti", H, g * free) * free
        uphill = (step * g).sum(axis=1) > 0
        step = np.where(uphill[:, None], step, g * free / np.maximum(1.0, np.linalg.norm(g, axis=1))[:, None])
        going = (small < 2) & (length > SHORTEST)
        if not going.any():
            break
        new = np.where(going[:, None], np.clip(x + length[:, None] * step, low, high), x)
        try:
            trial, g_new = objective(new)
        except NotPositiveDefiniteError as failure:
            log.debug("steps rejected: %s", failure)
            length *= CUT
            continue
        s, y = new - x, g - g_new
        better = going & (trial >= value + 1e-4 * (g * s).sum(axis=1)) & np.isfinite(trial)
        small = np.where(better & (trial - value < tol), small + 1, np.where(better, 0, small))
        length = np.where(better, 1.0, length * CUT)
        H = _updated(H, s, y, better & ((s * y).sum(axis=1) > 1e-10 * np.abs(s).sum(axis=1) * np.abs(y).sum(axis=1)))
        x, g = np.where(better[:, None], new, x), np.where(better[:, None], g_new, g)
        value = np.where(better, trial, value)
    return x


def _updated(H: Array, s: Array, y: Array, which: Any) -> Array:
    """The inverse curvatures of some rows after a step."""
    H, s, y = H.copy(), s[which], y[which]
    sy = (s * y).sum(axis=1)[:, None, None]
    left = np.eye(s.shape[1]) - s[:, :, None] * y[:, None, :] / sy
    H[which] = left @ H[which] @ left.transpose(0, 2, 1) + s[:, :, None] * s[:, None, :] / sy
    return H


#: The longest step of a block, in the optimiser's coordinates.
LONGEST = 2.0


def maximise_by_blocks(
    objective: Objective,
    start: Values,
    bounds: Mapping[str, tuple[Array, Array]],
    blocks: list[Any],
    max_iter: int,
    tol: float,
    patience: int,
) -> Optimum:
    """BFGS of each block of parameters, all blocks stepping at once (A. Griewank, Ph. Toint 1982), until still.

    `blocks` are arrays (k, b) of positions in the packed vector, one block per row, which together hold each once. For
    thousands of tasks whose parameters hardly bear on each other's: what L-BFGS has to learn of all of them from one
    step after the other, each block learns of its own few. It ends where `patience` steps together gain less than
    `tol`, and where a step does not gain.
    """
    low, high, x = within(bounds, start)
    value, by = objective(unpack(x, start))
    g, length, trace, evaluations = pack(by), 1.0, [value], 1
    H = [np.eye(b.shape[1]) / np.maximum(1.0, np.linalg.norm(g[b], axis=1))[:, None, None] for b in blocks]
    while length > SHORTEST and evaluations <= max_iter:
        free = free_entries(x, g, low, high)
        step = np.zeros_like(x)
        for b, h in zip(blocks, H, strict=True):
            own = np.einsum("kij,kj->ki", h, (g * free)[b])
            step[b] = own * np.minimum(1.0, LONGEST / np.maximum(np.linalg.norm(own, axis=1), 1e-300))[:, None]
        new = np.clip(x + length * step * free, low, high)
        evaluations += 1
        try:
            trial, by = objective(unpack(new, start))
        except NotPositiveDefiniteError as failure:
            log.debug("step rejected: %s", failure)
            length *= CUT
            continue
        s, y = new - x, g - pack(by)
        bends = [(s * y)[b].sum(axis=1) > 1e-10 * np.abs(s[b]).sum(axis=1) * np.abs(y[b]).sum(axis=1) for b in blocks]
        H = [_updated(h, s[b], y[b], which) for b, h, which in zip(blocks, H, bends, strict=True)]
        if trial < value + 1e-4 * float(g @ s) or not np.isfinite(trial):
            length *= CUT
            continue
        x, value, g, length = new, trial, pack(by), min(1.0, 2.0 * length)
        trace.append(value)
        if len(trace) > patience and value - trace[-1 - patience] < tol:
            break
    ended = evaluations <= max_iter
    message = "blocks are still" if ended else "iteration limit"
    return _optimum(x, low, high, start, (value, len(trace) - 1, evaluations, ended, message))


#: Steps of L-BFGS from every start before the best goes on.
WARMUP = 25


class QuasiNewton:
    """The way up of a search, from one start or from the best of several: L-BFGS, with options of `maximise`.

    A search with better steps has others; `tol` is theirs.
    """

    def __init__(self, objective: Objective, options: Mapping[str, Any] | None = None) -> None:
        self.objective, self.options = objective, options or {}

    def maximise(
        self,
        start: Values,
        bounds: Mapping[str, tuple[Array, Array]],
        max_iter: int,
        tol: float | None = None,
        begun: ScoringSearch | None = None,
    ) -> Optimum:
        """The optimum from these values on, or from where a search that has begun there is."""
        return maximise(self.objective, start, bounds, max_iter, **self.options)

    def warm_up(
        self,
        start: Values,
        bounds: Mapping[str, tuple[Array, Array]],
        steps: int,
        tol: float | None,
        rival: float = -np.inf,
    ) -> tuple[Optimum, ScoringSearch | None]:
        """A few steps, and the search that took them where it can go on; a rival is what another start has reached."""
        return maximise(self.objective, start, bounds, steps, **self.options), None

    def maximise_from(
        self,
        starts: list[Values],
        bounds: Mapping[str, tuple[Array, Array]],
        max_iter: int,
        warmup: int = WARMUP,
        tol: float | None = None,
    ) -> Optimum:
        """`warmup` steps from every start, then the best of them to the end."""
        if len(starts) == 1:
            return self.maximise(starts[0], bounds, max_iter, tol)
        warmed: list[tuple[Optimum, ScoringSearch | None]] = []
        for start in starts:
            rival = max((o.objective for o, _ in warmed), default=-np.inf)
            warmed.append(self.warm_up(start, bounds, min(warmup, max_iter), tol, rival))
        best, begun = max(warmed, key=lambda one: one[0].objective)
        log.debug("starts reached %s", [round(o.objective, 3) for o, _ in warmed])
        if best.converged or max_iter <= warmup:
            return best
        return best.followed_by(self.maximise(best.values, bounds, max_iter - best.n_iter, tol, begun))


def second_differences(f: Callable[[Array], float], x: Array, step: float = 1e-3) -> Array:
    """Matrix of second derivatives by central differences of values."""
    steps = step * np.eye(len(x))
    H = np.empty((len(x), len(x)))
    for i, e in enumerate(steps):
        for j, g in enumerate(steps[: i + 1]):
            corners = f(x + e + g) - f(x + e - g) - f(x - e + g) + f(x - e - g)
            H[i, j] = H[j, i] = corners / (4.0 * step * step)
    return H


def curvature(objective: Objective, at: Values, step: float = 1e-4) -> Array:
    """Minus the second derivatives of the objective, by central differences of its analytic gradient."""
    x = pack(at)
    pairs = [[pack(objective(unpack(x + s * e, at))[1]) for s in (step, -step)] for e in np.eye(x.size)]
    C = np.stack([(down - up) / (2.0 * step) for up, down in pairs])
    return 0.5 * (C + C.T)
