"""Scoring steps for the focused model where all pairs of rows are written out.

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

from functools import partial
from typing import Any

import numpy as np

from borrow.models.focused.model import Setup, focused_objective, priors_of, task_weights
from borrow.models.gp.ascent import Ascent, Bounds
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, Values, pack, unpack

#: Above this many parameters a step costs more than it saves.
MOST = 600
#: With more than so many rows L-BFGS ends where five steps together gain less than this per row, in nats.
MANY_ROWS, STILL = 5000, 2e-6
#: Scoring steps of every start before the best goes on.
HEAT = 3
STEP = 1e-4
#: Up to this many parameters all second derivatives are taken by differences.
FEW = 60


def can_score(setup: Setup) -> bool:
    """Whether scoring steps are written for this model and worth their price."""
    M = len(setup.specific)
    return setup.design is not None and setup.kernel.n_theta + setup.specific_parts[-1].stop + 2 * M <= MOST


def directions(values: Values, posterior: Any, setup: Setup) -> Array:
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


class FocusedAscent(Ascent):
    """What is maximised of a focused model, and the way up."""

    def __init__(
        self, setup: Setup, scales: Array, prior: str | None, sd: float | None, curvature: Array | None = None
    ) -> None:
        self.setup, self.scales, self.prior, self.sd = setup, scales, prior, sd
        n = len(setup.cells.y)
        still = {"tol": STILL * n, "patience": 5} if n > MANY_ROWS else {}
        towards = partial(directions, setup=setup) if can_score(setup) else None
        super().__init__(focused_objective(setup), priors_of(setup, scales, prior, sd), towards, curvature, still)

    def heat(self, start: Values, bounds: Bounds, steps: int, tol: float | None) -> Optimum:
        """A few steps; none where tasks share nothing, which have been fitted: all weights at zero is a saddle."""
        if start["rho"].size and not np.any(start["rho"]):
            return Optimum(start, self.objective(start)[0], 0, 1, False, "")
        return self.score(start, bounds, steps, tol)


def observed_curvature(ascent: FocusedAscent, values: Values) -> Array:
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
