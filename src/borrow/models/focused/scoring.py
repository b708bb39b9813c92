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

from borrow.inference import ExactInference
from borrow.models.focused.model import Setup, focused_objective, priors_of, task_weights
from borrow.models.gp.ascent import Ascent, Bounds
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, ScoringSearch, Values, pack, unpack

#: Above this many parameters a step costs more than it saves.
MOST = 600
#: With more than so many rows L-BFGS ends where five steps together gain less than this per row, in nats.
MANY_ROWS, STILL = 5000, 2e-6
#: Scoring steps of every start before the best goes on.
HEAT = 3
#: Steps by blocks of every start before the best goes on.
BLOCK_HEAT = 8
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
        self,
        setup: Setup,
        scales: Array,
        prior: str | None,
        sd: float | None,
        curvature: Array | None = None,
        rough: bool = False,
    ) -> None:
        self.setup, self.scales, self.prior, self.sd = setup, scales, prior, sd
        n = len(setup.cells.y)
        still = {"tol": STILL * n, "patience": 5} if n > MANY_ROWS else {}
        towards = partial(directions, setup=setup) if can_score(setup) else None
        blocks = blocks_of(setup) if still and towards is None and curvature is None else []
        log_priors = priors_of(setup, scales, prior, sd)
        super().__init__(
            focused_objective(setup), log_priors, towards, curvature, still, blocks, rough and bool(blocks)
        )

    def heat(
        self, start: Values, bounds: Bounds, steps: int, tol: float | None, rival: float = -np.inf
    ) -> tuple[Optimum, ScoringSearch | None]:
        """A few steps; none where tasks share nothing, which have been fitted: all weights at zero is a saddle."""
        if start["rho"].size and not np.any(start["rho"]):
            return Optimum(start, self.objective(start)[0], 0, 1, False, ""), None
        return super().heat(start, bounds, steps, tol, rival)


def blocks_of(setup: Setup) -> list[Array]:
    """Positions of the shared kernel's parameters, and of each task's own: tasks with as many together.

    What the primary has of its own is a block too: it bears on the primary's few rows alone, and beside the shared
    kernel, which all rows bear on, it would hardly move before the search is still. None with background functions,
    whose loadings bear on each other.
    """
    if setup.background is not None:
        return []
    parts, n, M = setup.specific_parts, setup.kernel.n_theta, len(setup.specific)
    own, noise = n + M - 1, n + M - 1 + parts[-1].stop
    weight = {t: [n + i] for i, t in enumerate(setup.secondaries.tolist())}
    by_size: dict[int, list[list[int]]] = {}
    for t, part in enumerate(parts):
        block = weight.get(t, []) + list(range(own + part.start, own + part.stop))
        block += [noise + t] if isinstance(setup.infer, ExactInference) else []
        by_size.setdefault(len(block), []).append(block)
    return [np.arange(n)[None, :], *(np.array(each) for size, each in by_size.items() if size)]


def observed_curvature(ascent: FocusedAscent, values: Values) -> Array:
    """Minus the second derivatives of what is maximised, where all pairs of rows are written out.

    By differences of the gradient where the parameters are few; else the information, which has the same expectation.
    """
    x = pack(values)
    if x.size > FEW:
        posterior: Any = ascent.evidence.at(values).posterior  # of labels too, whose ascent takes no scoring steps
        known = posterior.information(directions(values, posterior, ascent.setup))
        return sum((log_prior.curvature(values) for log_prior in ascent.log_priors), known)
    here, C = pack(ascent.objective(values)[1]), np.empty((x.size, x.size))
    for i in range(x.size):
        moved = x.copy()
        step = STEP if x[i] >= 0 else -STEP  # away from zero: turning the sign of a weight turns its derivative exactly
        moved[i] += step
        C[i] = (here - pack(ascent.objective(unpack(moved, values))[1])) / step
    return 0.5 * (C + C.T)
