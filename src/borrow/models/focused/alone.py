"""Every task of the focused model by itself: where its search starts, and what transfer has to beat."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from borrow.covariance import Design
from borrow.data.cells import thin
from borrow.estimators.gp import EXACT
from borrow.inference import Inference, Result
from borrow.kernels import Kernel
from borrow.models.focused.model import Setup
from borrow.models.focused.scoring import HEAT, FocusedAscent
from borrow.models.gp.model import bounds_of, condition_single, fit_single
from borrow.models.gp.together import fit_batches
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.placed import PlacedTasks, TaskShard

#: At most so many rows of a task race its starts.
RACE_ROWS = 150
#: An own fit is where a search starts and what a relation is weighed against, at 1.5 nats: this close is close enough.
OWN_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Alone:
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
        shared = setup.kernel.marks("lengthscale").astype(bool)
        clear = [k for k in self.clear if k.marks("lengthscale").sum() == shared.sum() > 1]
        if clear:
            lengths = [k.theta[k.marks("lengthscale").astype(bool)] for k in clear]
            out["kernel"] = out["kernel"].copy()
            out["kernel"][shared] = np.median(lengths, axis=0)
        return out

    def _stretched(self, setup: Setup, stretch: float) -> Values:
        more = stretch - self.stretch
        out = {"kernel": self.values["kernel"] + more * setup.kernel.marks("lengthscale")}
        if setup.background is not None:
            out["background"] = setup.background.theta + stretch * setup.background.marks("lengthscale")
        return out


def fit_alone(setup: Setup, values: Values, scales: Array, prior: str | None, max_iter: int) -> Alone:
    """Fit each task's own GP."""
    alone = deepcopy(values)
    for name in ("rho", "loadings"):
        if name in alone:
            alone[name][:] = 0.0
    templates = [setup.kernel if t == setup.primary else k for t, k in enumerate(setup.specific)]
    starts = [(k, {n: values[n][[t]] for n in ("noise",) if n in values}) for t, k in enumerate(templates)]
    how = scales, prior, max_iter, setup.infer
    each = [found for part in setup.tasks.each(_fit_shard, how, starts) for found in part]
    evidences = np.full(len(templates), np.nan)
    secondaries: dict[int, tuple[Kernel, Values]] = {}
    primary, own, stretches, clear = None, 0.0, [], []
    for t, (template, found) in enumerate(zip(templates, each, strict=True)):
        if found is None or template is None:
            continue
        theta, likelihood, evidences[t] = found
        kernel, lengths = template.with_theta(theta), template.marks("lengthscale").astype(bool)
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
    return Alone(alone, primary, own, np.array(stretches), clear, evidences, secondaries)


def _fit_shard(shard: TaskShard, how: tuple[Any, ...], starts: list[tuple[Kernel | None, Values]]) -> list[Any]:
    """Theta, the likelihood's parameters and the evidence of each task's own fit; None without a row or a kernel."""
    tasks = PlacedTasks(shard.cells, device=shard.device)
    scales, prior, max_iter, infer = how
    found = fit_batches(tasks, starts, scales, prior, max_iter, infer, OWN_TOLERANCE)
    for t, (template, likelihood) in enumerate(starts):
        own = tasks.only(t)
        if t in found or template is None or not len(own.cells.y):
            continue
        if own.device is None:
            found[t] = fit_own(own, template, likelihood, *how)
        else:
            kernel, likelihood, _, _ = fit_single(own, template, likelihood, *how)
            found[t] = kernel.theta, likelihood, condition_single(own, kernel, likelihood, how[-1]).evidence
    return [found.get(t) for t in range(len(starts))]


def fit_own(
    tasks: PlacedTasks,
    template: Kernel,
    likelihood: Values,
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference = EXACT,
) -> tuple[Array, Values, float]:
    """The GP of one task, which is the focused model with a primary alone: theta, log noise and evidence.

    As in `fit_single` a second start has a fifth of the lengthscales. Many rows are thinned for the race of the two.
    """
    start: Values = {"kernel": template.theta, "rho": np.zeros(0), "specific": np.zeros(0), **likelihood}
    rough = {**start, "kernel": template.theta + np.log(0.2) * template.marks("lengthscale")}
    few = thin(tasks.cells, RACE_ROWS)
    ascents = [_ascent_of(PlacedTasks(cells), template, scales, prior, infer) for cells in (few, tasks.cells)]
    bounds = bounds_of(start, tasks.cells)
    best = ascents[0].race([start, rough], bounds, max_iter, HEAT, OWN_TOLERANCE)
    if few is not tasks.cells:
        best = ascents[1].maximise(best.values, bounds, max_iter, OWN_TOLERANCE)
    found = {n: best.values[n] for n in likelihood}
    return best.values["kernel"], found, best.objective - ascents[1].log_prior(best.values)


def _ascent_of(tasks: PlacedTasks, kernel: Kernel, scales: Array, prior: str | None, infer: Inference) -> FocusedAscent:
    setup = Setup(tasks, 0, kernel, [None], tasks.cells.X, infer=infer, design=Design.of(tasks.cells))
    return FocusedAscent(setup, scales, prior, None)
