"""Scoring steps for the focused model where all pairs of rows are written out and the noise is Gaussian.

With beta = (K + noise)^-1 y the average information is 1/2 D'(K + noise)^-1 D, the columns of D being derivatives of
K + noise times beta (`DensePosterior.information`). K = r_t r_s k^p + [t = s] K_t^spec, r the weights of tasks, gives

    rho_t:               [t_i = t] (k^p (r beta))_i + r_i (k^p (beta [t]))_i,
    theta of k^p:        (r_t r_s dk^p/dtheta) beta,   `tangents` of the kernel,
    theta of K_t^spec:   (dK_t^spec/dtheta) beta, at the rows of t,
    log noise of task t: sigma_t^2 beta / count, at the rows of t.

The curvature of the priors is added. A dozen such steps do what a hundred of L-BFGS do, and the information at the end
is the curvature that standard errors need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from borrow.inference import ExactInference
from borrow.models.focused.model import (
    Setup,
    condition,
    evidence_gradient,
    hyper_priors,
    objective_of,
    priors_of,
    task_weights,
)
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, Values, pack, unpack

#: A step that gains less than this per parameter is the last.
TOLERANCE = 1e-6
#: Above this many parameters a step costs more than it saves.
MOST = 600
#: With more than so many rows L-BFGS ends where five steps together gain less than this per row, in nats.
MANY_ROWS, STILL = 5000, 2e-6
#: Scoring steps of every start before the best goes on.
SCORING_WARMUP = 3
STEP = 1e-4
#: Up to this many parameters all second derivatives are taken by differences.
FEW = 60
NOTHING = Optimum({}, -np.inf, 0, 0, False, "")

Bounds = Mapping[str, tuple[Array, Array]]


def can_score(setup: Setup, values: Values) -> bool:
    """Whether scoring steps are written for this model and worth their price."""
    exact = setup.design is not None and isinstance(setup.infer, ExactInference)
    return exact and sum(v.size for v in values.values()) <= MOST


def directions(values: Values, setup: Setup, posterior: Any) -> Array:
    """(n, P): derivatives of K + noise by all of `values`, in their order, times beta; the posterior is that of these.

    Under EP, at its sites.
    """
    prior, beta, cells = posterior.prior, posterior.coefficients, setup.cells
    n, M, task = len(beta), len(setup.specific), prior.task
    r, own = task_weights(values, setup)[:, 0], setup.specific_kernels(values)
    mine = task[:, None] == np.arange(M)
    V = prior.Kx_at_rows @ (mine * beta[:, None])
    # The posterior has w r r' w, and beta = w alpha: no further matrix of all pairs of rows is made.
    by_kernel = prior.kernel.tangents(prior.X, posterior.wBw, posterior.alpha) / posterior.w[:, None]
    by_rho = mine * (V @ r)[:, None] + r[task][:, None] * V
    by_own = np.zeros((n, values["specific"].size))
    for t, part in enumerate(setup.specific_parts):
        at = cells.of(t)
        if part.stop > part.start and at.stop > at.start:
            by_own[at, part] = own[t].tangents(prior.X[at], 1.0, beta[at])
    columns = {"kernel": by_kernel, "rho": by_rho[:, setup.secondaries], "specific": by_own}
    if "noise" in values:
        columns["noise"] = (np.exp(values["noise"])[task] * beta / cells.count)[:, None] * mine
    return np.hstack([columns[name] for name in values])


class Ascent:
    """What is maximised, and the way up: scoring steps where they are written, else L-BFGS.

    `curvature` is that of the same model on fewer rows, raised to these: steps are then taken with it.
    """

    def __init__(
        self, setup: Setup, scales: Array, prior: str | None, sd: float | None, curvature: Array | None = None
    ) -> None:
        self.setup, self.scales, self.prior, self.sd, self.curvature = setup, scales, prior, sd, curvature
        self.log_priors = priors_of(setup, scales, prior, sd)
        self._on_kernels = None if prior is None else hyper_priors(setup, scales)
        self._plain = objective_of(setup, scales, prior, sd)
        self._last: Any = None

    def objective(self, values: Values) -> tuple[float, Values]:
        """The evidence with the priors, and its derivatives."""
        if not can_score(self.setup, values):
            return self._plain(values)
        self._last = None  # the matrices of the evaluation before make room
        self._last = fit = condition(values, self.setup)
        gradient = evidence_gradient(fit, values, self.setup)
        return reduce(hyper.with_prior, self.log_priors, lambda _: (fit.evidence, gradient))(values)

    def log_prior(self, values: Values) -> float:
        """What the priors add to the evidence."""
        return sum(log_prior(values)[0] for log_prior in self.log_priors)

    def information(self, values: Values) -> Array:
        """Minus the curvature, where the objective was evaluated last."""
        if self.curvature is not None:
            return self.curvature
        posterior: Any = (self._last or condition(values, self.setup)).posterior
        H = posterior.information(directions(values, self.setup, posterior))
        if self._on_kernels is not None:
            H += self._on_kernels.curvature(values)
        if self.sd is not None and values["rho"].size:
            v = float(self.setup.kernel.with_theta(values["kernel"]).diag(self.setup.Z).mean())
            at = len(values["kernel"]) + np.arange(len(values["rho"]))
            H[at, at] += v / self.sd**2
        return H

    def _still(self) -> dict[str, Any]:
        """Where L-BFGS ends: with many rows, where a few steps together gain next to nothing per row."""
        n = len(self.setup.cells.y)
        return {"tol": STILL * n, "patience": 5} if n > MANY_ROWS else {}

    def by_scoring(self, values: Values) -> bool:
        """Whether the way up is by scoring steps."""
        return self.curvature is not None or can_score(self.setup, values)

    def maximise(self, start: Values, bounds: Bounds, max_iter: int, tol: float | None = None) -> Optimum:
        """The optimum from these values on, by L-BFGS where scoring steps stop short."""
        if not self.by_scoring(start):
            return hyper.maximise(self.objective, start, bounds, max_iter, **self._still())
        tol = TOLERANCE * pack(start).size if tol is None else tol
        best = hyper.maximise_by_scoring(self.objective, self.information, start, bounds, max_iter, tol)
        if best.message != hyper.STALLED or best.n_iter >= max_iter:
            return best
        end = hyper.maximise(self.objective, best.values, bounds, max_iter - best.n_iter, tol)
        return replace(end, n_iter=end.n_iter + best.n_iter, n_evaluations=end.n_evaluations + best.n_evaluations)

    def race(
        self, starts: list[Values], bounds: Bounds, max_iter: int, warmup: int, tol: float | None = None
    ) -> Optimum:
        """A few steps from every start, then the best of them to the end."""
        if not self.by_scoring(starts[0]):
            return hyper.race(self.objective, starts, bounds, max_iter, warmup, **self._still())
        if len(starts) > 1:
            steps = min(SCORING_WARMUP, max_iter)
            heats = [self._heat(s, bounds, steps, tol) for s in starts]
            best = max(heats, key=lambda o: o.objective)
            if best.converged or max_iter <= steps:
                return best
        else:
            best = replace(NOTHING, values=starts[0])
        end = self.maximise(best.values, bounds, max_iter - best.n_iter, tol)
        return replace(end, n_iter=end.n_iter + best.n_iter)

    def _heat(self, start: Values, bounds: Bounds, steps: int, tol: float | None) -> Optimum:
        """A few steps; none where tasks share nothing, which have been fitted: all weights at zero is a saddle."""
        if start["rho"].size and not np.any(start["rho"]):
            return replace(NOTHING, values=start, objective=self.objective(start)[0], n_evaluations=1)
        return self.maximise(start, bounds, steps, tol)


def observed_curvature(ascent: Ascent, values: Values) -> Array:
    """Minus the second derivatives of what is maximised, where all pairs of rows are written out.

    By differences of the gradient where the parameters are few; else the information, which has the same expectation.
    """
    x = pack(values)
    if x.size > FEW:
        return ascent.information(values)
    here, C = pack(ascent.objective(values)[1]), np.empty((x.size, x.size))
    for i in range(x.size):
        moved = x.copy()
        step = STEP if x[i] >= 0 else -STEP  # away from zero: turning the sign of a weight turns its derivative exactly
        moved[i] += step
        C[i] = (here - pack(ascent.objective(unpack(moved, values))[1])) / step
    return 0.5 * (C + C.T)
