"""The way up for the focused model: by scoring steps, by blocks or by L-BFGS; and the curvature at the end."""

from __future__ import annotations

import numpy as np

from borrow.models.focused.model import Setup, focused_objective, priors_of
from borrow.models.gp.task_model import Ascent, Bounds
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Optimum, ScoringSearch, Values, pack, unpack

#: Above this many parameters a step costs more than it saves.
MOST = 600
#: With more than so many rows L-BFGS ends where five steps together gain less than this per row, in nats.
MANY_ROWS, STILL = 5000, 2e-6
#: Scoring steps of every start before the best goes on.
SCORING_WARMUP = 3
#: Steps by blocks of every start before the best goes on.
BLOCK_WARMUP = 8
STEP = 1e-4
#: Up to this many parameters all second derivatives are taken by differences.
FEW = 60


def can_score(setup: Setup) -> bool:
    """Whether scoring steps are written for this model and worth their price."""
    M = len(setup.specific)
    return setup.design is not None and setup.kernel.n_theta + setup.specific_parts[-1].stop + 2 * M <= MOST


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
        scores = can_score(setup)
        blocks = blocks_of(setup) if still and not scores and curvature is None else []
        of_model = setup, focused_objective(setup), priors_of(setup, scales, prior, sd), scales
        super().__init__(*of_model, scores, still, curvature, blocks, rough and bool(blocks))

    def warm_up(
        self, start: Values, bounds: Bounds, steps: int, tol: float | None, rival: float = -np.inf
    ) -> tuple[Optimum, ScoringSearch | None]:
        """A few steps; none where tasks share nothing, which have been fitted: all weights at zero is a saddle."""
        if start["rho"].size and not np.any(start["rho"]):
            return Optimum(start, self.objective(start)[0], 0, 1, False, ""), None
        return super().warm_up(start, bounds, steps, tol, rival)


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
        block += [noise + t] if setup.infer.gaussian else []
        by_size.setdefault(len(block), []).append(block)
    return [np.arange(n)[None, :], *(np.array(each) for size, each in by_size.items() if size)]


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
