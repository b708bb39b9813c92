"""Where the focused model's search starts, and every task by itself, which is what transfer has to beat.

The evidence has many modes; these starts lie in the ones that matter.

1. No transfer: every task fitted by itself, rho = 0.
2. The regression of each secondary on the primary's own posterior.
3. The same with the shared function as rough as the secondaries are by themselves: six primary rows suggest a
   lengthscale that is too long, and at that lengthscale the others cannot help.
4. Where the kernel has several parts, as a season and a trend: the same with the kernel as it was given. Few primary
   rows are explained by one part as well as by another, and the secondaries' own kernels do not tell which it was.
5. As 3 with random signs, `n_restarts` times; and the rho that was given, if one was.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from borrow.covariance import Design
from borrow.data.cells import Codes, spaced, thin
from borrow.estimators.gp import EXACT
from borrow.inference import Inference, Result
from borrow.kernels import Kernel
from borrow.models.focused.model import Setup
from borrow.models.focused.scoring import SCORING_WARMUP, FocusedAscent
from borrow.models.gp.model import OwnFit, bounds_of, condition_single, fit_each, likelihood_of, smooth_and_rough
from borrow.numerics.linalg import Array, to_host
from borrow.numerics.optimise import Values
from borrow.tasks.contracts import Shard, Tasks

#: At most so many rows of a task race its starts.
RACE_ROWS = 150
#: An own fit is where a search starts and what a relation is weighed against, at 1.5 nats: this close is close enough.
OWN_TOLERANCE = 1e-2
#: So many rows of a task tell at most how it is related at the start; so many rows of all tasks are
#: predicted at once.
START_ROWS, ROWS_AT_ONCE = 100, 10_000


@dataclass(frozen=True)
class OwnFits:
    """Every task by itself: hyper-parameters at rho = 0, the primary's posterior, and how rough the tasks are.

    A stretch is the mean log lengthscale of a fit less that of its template; `stretches` are those of the secondaries
    that show more signal than noise.
    """

    values: Values
    primary: Result | None
    stretch: float
    stretches: Array
    clear: list[Kernel]  # their kernels
    evidences: Array  # (M,): what each task's own fit reached, NaN where there was none
    found: dict[int, tuple[Kernel, Values]]  # the secondaries' own kernels and noises, by task code

    def secondary(self, setup: Setup, t: int) -> Any:
        """The own posterior of a secondary that has a kernel and rows."""
        return condition_single(setup.tasks.only(t), *self.found[t], setup.infer).posterior

    def finest(self, setup: Setup) -> Values:
        """The shared kernels with the shortest lengthscale that any task shows."""
        return self._stretched(setup, min(self.stretch, self.stretches.min(initial=np.inf)))

    def typical(self, setup: Setup) -> Values:
        """The shared kernels with the lengthscales that the secondaries typically show, one per column if they have."""
        out = self._stretched(setup, float(np.median(self.stretches)) if len(self.stretches) else self.stretch)
        shared = setup.kernel.mask_of("lengthscale").astype(bool)
        clear = [k for k in self.clear if k.mask_of("lengthscale").sum() == shared.sum() > 1]
        if clear:
            lengths = [k.theta[k.mask_of("lengthscale").astype(bool)] for k in clear]
            out["kernel"][shared] = np.median(lengths, axis=0)
        return out

    def _stretched(self, setup: Setup, stretch: float) -> Values:
        out = {"kernel": self.values["kernel"] + (stretch - self.stretch) * setup.kernel.mask_of("lengthscale")}
        if setup.background is not None:
            out["background"] = setup.background.theta + stretch * setup.background.mask_of("lengthscale")
        return out


def fit_alone(setup: Setup, values: Values, scales: Array, prior: str | None, max_iter: int) -> OwnFits:
    """Fit each task's own GP."""
    alone = deepcopy(values) | {n: np.zeros_like(values[n]) for n in ("rho", "loadings") if n in values}
    templates = [setup.kernel if t == setup.primary else k for t, k in enumerate(setup.specific)]
    starts = [(k, likelihood_of(values, t)) for t, k in enumerate(templates)]
    each = fit_each(setup.tasks, fit_own, starts, scales, prior, max_iter, setup.infer, OWN_TOLERANCE)
    evidences = np.full(len(templates), np.nan)
    secondaries: dict[int, tuple[Kernel, Values]] = {}
    primary, own, stretches, clear = None, 0.0, [], []
    for t, (template, found) in enumerate(zip(templates, each, strict=True)):
        if found is None or template is None:
            continue
        theta, likelihood, evidences[t], *_ = found
        kernel, lengths = template.with_theta(theta), template.mask_of("lengthscale").astype(bool)
        stretch = float((kernel.theta - template.theta)[lengths].mean()) if lengths.any() else 0.0
        for name, value in likelihood.items():
            alone[name][t] = value[0]
        if t == setup.primary:
            primary = condition_single(setup.tasks.only(t), kernel, likelihood, setup.infer)
            alone["kernel"], own = kernel.theta, stretch
        else:
            secondaries[t] = kernel, likelihood
            alone["specific"][setup.specific_parts[t]] = kernel.theta
            noise = np.exp(likelihood["noise"][0]) if likelihood else 1.0
            if kernel.diag(setup.cells.X[setup.cells.of(t)]).mean() > noise:
                stretches.append(stretch)
                clear.append(kernel)
    return OwnFits(alone, primary, own, np.array(stretches), clear, evidences, secondaries)


def fit_own(
    tasks: Tasks[Shard],
    template: Kernel,
    likelihood: Values,
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference = EXACT,
) -> OwnFit:
    """The GP of one task, which is the focused model with a primary alone.

    There are two starts as in `fit_single`. Many rows are thinned for the race of the two.
    """
    start: Values = {"kernel": template.theta, "rho": np.zeros(0), "specific": np.zeros(0), **likelihood}
    few = thin(tasks.cells, RACE_ROWS)
    setups = [
        Setup(own, 0, template, [None], own.cells.X, infer=infer, design=Design.from_cells(own.cells, own.device))
        for own in map(tasks.here, (few, tasks.cells))
    ]
    ascents = [FocusedAscent(setup, scales, prior, None) for setup in setups]
    bounds = bounds_of(start, tasks.cells)
    best = ascents[0].maximise_from(smooth_and_rough(template, start), bounds, max_iter, SCORING_WARMUP, OWN_TOLERANCE)
    if few is not tasks.cells:
        best = ascents[1].maximise(best.values, bounds, max_iter, OWN_TOLERANCE)
    found, evidence = {n: best.values[n] for n in likelihood}, best.objective - ascents[1].log_prior(best.values)
    return OwnFit(best.values["kernel"], found, evidence, best.n_iter, best.converged)


def starts(
    setup: Setup, alone: OwnFits, random: np.random.RandomState, n_restarts: int, given: Values | None
) -> list[Values]:
    """The starts that the head of this file lists."""
    if len(setup.secondaries) == 0:
        return [alone.values]
    rough, targets = {**alone.values, **alone.typical(setup)}, targets_of(setup, alone)
    if "loadings" in rough:
        rough = background_start(rough, setup, alone)
    if alone.primary is None:
        return [regression_start(rough, setup, targets, None)] + ([given] if given else [])
    own = likelihood_of(alone.values, setup.primary)

    def regressed_at(values: Values) -> Values:
        kernel = setup.kernel.with_theta(values["kernel"])
        primary = condition_single(setup.tasks.only(setup.primary), kernel, own, setup.infer)
        return regression_start(values, setup, targets, primary)

    regressed = regressed_at(rough)
    out = [alone.values, regression_start(alone.values, setup, targets, alone.primary), regressed]
    if len(list(setup.kernel.leaves())) > 1:
        out.append(regressed_at({**rough, "kernel": setup.kernel.theta}))
    for _ in range(n_restarts):
        out.append({**regressed, "rho": regressed["rho"] * random.choice([-1.0, 1.0], size=len(setup.secondaries))})
    return out + ([given] if given else [])


def targets_of(setup: Setup, alone: OwnFits) -> list[Array]:
    """What each secondary is regressed by: its targets; for labels, what its own posterior makes of them."""
    labels = not setup.infer.gaussian
    return [
        to_host(alone.secondary(setup, int(t)).marginals()[0])
        if labels and t in alone.found
        else setup.cells.y[setup.cells.of(int(t))]
        for t in setup.secondaries
    ]


def regression_start(
    values: Values, setup: Setup, targets: list[Array], primary: Result | None, code: int = 0, among: Any = None
) -> Values:
    """rho_t from the regression of task t on the primary's posterior; the specific part keeps what that leaves.

    rho = sum m y / sum (m^2 + v) with m, v the primary's posterior mean and variance at the task's rows. Without a
    labelled primary row there is nothing to regress on: every task starts at w = 0.7, positively related. `code` is
    that of the primary in its posterior, `among` the secondaries that are regressed, all by default.
    """
    start = deepcopy(values)
    variance = float(setup.kernel.with_theta(values["kernel"]).diag(setup.Z).mean())
    which = range(len(setup.secondaries)) if among is None else np.flatnonzero(among).tolist()
    rows = [spaced(setup.cells.of(int(setup.secondaries[i])), START_ROWS) for i in which]
    told = [None] * len(rows) if primary is None else primary_at(primary, setup.cells.X, rows, code)
    for i, at, p in zip(which, rows, told, strict=True):
        t = int(setup.secondaries[i])
        y, count = targets[i][at - setup.cells.starts[t]], setup.cells.count[at]
        if len(y) == 0:
            start["rho"][i] = 0.0
            continue
        if p is None:
            start["rho"][i], left = 0.7 / np.sqrt(variance), 0.5
        else:
            energy = float(count @ (p[0] ** 2 + p[1]))
            start["rho"][i] = rho = float(count @ (p[0] * y)) / energy if energy > 0 else 0.0
            left = float(count @ (y - rho * p[0]) ** 2) / max(float(count @ y**2), 1e-12)
        keep_own_share(start, setup, t, left)
    return start


def primary_at(primary: Result, X: Array, rows: list[Codes], code: int) -> list[Array]:
    """Mean and variance (2, k) of the primary's posterior at these rows of each task, many predicted at once."""
    at = np.concatenate(rows)
    told = [primary.posterior.predict(X[at[b]], np.full_like(at[b], code)) for b in gen_batches(len(at), ROWS_AT_ONCE)]
    moments = np.hstack([np.zeros((2, 0)), *([p.mean, p.variance] for p in told)])
    return np.split(moments, np.cumsum([len(r) for r in rows])[:-1], axis=1)


def keep_own_share(start: Values, setup: Setup, t: int, share: float) -> None:
    """A task's own kernel keeps this share of its variance, no less than a tenth."""
    kernel = setup.specific[t]
    if kernel is not None:
        start["specific"][setup.specific_parts[t]] += np.log(np.clip(share, 0.1, 1.0)) * kernel.mask_of("variance")


def background_start(values: Values, setup: Setup, alone: OwnFits) -> Values:
    """Loadings from the leading singular vectors of what the secondaries are alone, the primary's mean removed."""
    Z = setup.background_Z
    assert Z is not None  # there are loadings
    start, at_Z = deepcopy(values), np.zeros(len(Z), dtype=np.intp)
    F = np.zeros((len(setup.secondaries), len(Z)))
    shared = alone.primary.posterior.predict(Z, at_Z).mean if alone.primary is not None else np.zeros(len(Z))
    for i, t in enumerate(setup.secondaries.tolist()):
        if t in alone.found:
            f = alone.secondary(setup, t).predict(Z, at_Z).mean
            f = f - f.mean()
            F[i] = f - shared * (f @ shared) / max(float(shared @ shared), 1e-12)
    U, S, _ = np.linalg.svd(F, full_matrices=False)
    k = min(values["loadings"].shape[1], len(S))
    start["loadings"][:, :k] = U[:, :k] * S[:k] / np.sqrt(len(Z))
    explained = (start["loadings"] ** 2).sum(axis=1) / np.maximum((F**2).mean(axis=1), 1e-12)
    for t, share in zip(setup.secondaries.tolist(), explained, strict=True):
        keep_own_share(start, setup, t, 1.0 - share)
    return start
