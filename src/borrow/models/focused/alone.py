"""Every task of the focused model by itself: where its search starts, and what transfer has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from borrow.covariance.spread import TaskShard
from borrow.inference import Result
from borrow.kernels import Kernel
from borrow.models.focused.model import Setup
from borrow.models.gp.model import condition_single, fit_single
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values


class Fits:
    """Posteriors of tasks by themselves, by task code, each computed when it is asked for."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.found: dict[int, tuple[Kernel, Values]] = {}
        self.results: dict[int, Result] = {}

    def __contains__(self, t: int) -> bool:
        return t in self.found

    def __getitem__(self, t: int) -> Result:
        if t not in self.results:
            self.results[t] = condition_single(self.setup.cells.only(t), *self.found[t], self.setup.infer)
        return self.results[t]


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
    objectives: Array  # (M,): what each task's own fit reached, NaN where there was none
    fits: Fits  # the secondaries' own posteriors

    def finest(self, setup: Setup) -> Values:
        """The shared kernels with the shortest lengthscale that any task shows."""
        return self._stretched(setup, min(self.stretch, self.stretches.min(initial=np.inf)))

    def typical(self, setup: Setup) -> Values:
        """The shared kernels with the lengthscale that the secondaries typically show."""
        return self._stretched(setup, float(np.median(self.stretches)) if len(self.stretches) else self.stretch)

    def _stretched(self, setup: Setup, stretch: float) -> Values:
        more = stretch - self.stretch
        out = {"kernel": self.values["kernel"] + more * setup.kernel.marks("lengthscale")}
        if setup.background is not None:
            out["background"] = setup.background.theta + stretch * setup.background.marks("lengthscale")
        return out


def fit_alone(setup: Setup, values: Values, scales: Array, prior: str | None, max_iter: int) -> Alone:
    """Fit each task's own GP."""
    alone = {n: v.copy() for n, v in values.items()}
    alone["rho"][:] = 0.0
    if "loadings" in alone:
        alone["loadings"][:] = 0.0
    primary, own, stretches, objectives = None, 0.0, [], np.full(len(setup.specific), np.nan)
    fits = Fits(setup)
    how = scales, prior, max_iter, setup.infer
    templates = [setup.kernel if t == setup.primary else k for t, k in enumerate(setup.specific)]
    noises = [float(np.exp(n)) for n in values["noise"]] if "noise" in values else [None] * len(templates)
    for t, (at, found) in enumerate(zip(setup.specific_parts, _fit_each(setup, templates, noises, how), strict=True)):
        template = templates[t]
        if found is None or template is None:
            continue
        (theta, likelihood, objectives[t]), cells = found, setup.cells.only(t)
        kernel = template.with_theta(theta)
        lengths = template.marks("lengthscale").astype(bool)
        stretch = float((kernel.theta - template.theta)[lengths].mean()) if lengths.any() else 0.0
        for name, value in likelihood.items():
            alone[name][t] = value[0]
        if t == setup.primary:
            primary = condition_single(cells, kernel, likelihood, setup.infer)
            alone["kernel"], own = kernel.theta, stretch
        else:
            fits.found[t] = kernel, likelihood
            alone["specific"][at] = kernel.theta
            if kernel.diag(cells.X).mean() > np.exp(likelihood["noise"][0] if "noise" in likelihood else 0.0):
                stretches.append(stretch)
    return Alone(alone, primary, own, np.array(stretches), objectives, fits)


def _fit_each(setup: Setup, templates: list[Any], noises: list[Any], how: tuple[Any, ...]) -> list[Any]:
    """Theta, the likelihood's parameters and the objective of each task's own fit; on workers where there are any."""
    spread = setup.spread
    if spread is None:
        shard = TaskShard(setup.cells, setup.specific)
        return _fit_shard(shard, templates, noises, how, None)
    placed = spread.place(setup.specific)
    given: list[tuple[Any, ...]] = [(templates[at], noises[at], how) for at in spread.bounds]
    return [found for part in spread.crew.map(_fit_shard, placed, given) for found in part]


def _fit_shard(
    shard: TaskShard, templates: list[Any], noises: list[Any], how: tuple[Any, ...], common: None
) -> list[Any]:
    """The same for the tasks of one shard; None where there is no row, or no kernel."""
    out: list[Any] = []
    for t, (template, noise) in enumerate(zip(templates, noises, strict=True)):
        cells = shard.cells.only(t)
        if len(cells.y) == 0 or template is None:
            out.append(None)
            continue
        kernel, likelihood, optimum, _ = fit_single(cells, template, noise, *how)
        out.append((kernel.theta, likelihood, optimum.objective))
    return out
