"""Every task of the focused model by itself: where its search starts, and what transfer has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from borrow.inference import Result
from borrow.kernels import Kernel
from borrow.models.focused.model import Setup
from borrow.models.gp.model import condition_single, fit_single
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.placed import PlacedTasks, TaskShard


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
            self.results[t] = condition_single(self.setup.tasks.only(t), *self.found[t], self.setup.infer)
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
    each = [found for part in setup.tasks.each(_fit_shard, how, Start(templates, noises)) for found in part]
    for t, (at, found) in enumerate(zip(setup.specific_parts, each, strict=True)):
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
            primary = condition_single(setup.tasks.only(t), kernel, likelihood, setup.infer)
            alone["kernel"], own = kernel.theta, stretch
        else:
            fits.found[t] = kernel, likelihood
            alone["specific"][at] = kernel.theta
            if kernel.diag(cells.X).mean() > np.exp(likelihood["noise"][0] if "noise" in likelihood else 0.0):
                stretches.append(stretch)
    return Alone(alone, primary, own, np.array(stretches), objectives, fits)


@dataclass(frozen=True)
class Start:
    """Where each task's own fit starts."""

    templates: list[Any]
    noises: list[Any]

    def part(self, tasks: slice) -> Start:
        """Those of some tasks."""
        return Start(self.templates[tasks], self.noises[tasks])


def _fit_shard(shard: TaskShard, how: tuple[Any, ...], start: Start) -> list[Any]:
    """Theta, the likelihood's parameters and the objective of each task's own fit; None without a row or a kernel."""
    tasks, out = PlacedTasks(shard.cells, device=shard.device), list[Any]()
    for t, (template, noise) in enumerate(zip(start.templates, start.noises, strict=True)):
        own = tasks.only(t)
        if len(own.cells.y) == 0 or template is None:
            out.append(None)
            continue
        kernel, likelihood, optimum, _ = fit_single(own, template, noise, *how)
        out.append((kernel.theta, likelihood, optimum.objective))
    return out
