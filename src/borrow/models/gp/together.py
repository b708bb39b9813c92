"""Single-task GPs of many tasks as one batch: what a device needs, where each of them is too small to keep it busy.

Nothing is shared, so the evidence is a sum over tasks and so is its gradient: every task has a search of its own
(`maximise_each`), and an evaluation of all of them is one of the covariance without shared functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from borrow.covariance import SharedCovariance
from borrow.inference import ExactInference, Inference
from borrow.inference.exact import exact
from borrow.inference.likelihoods import Gaussian
from borrow.inference.priors import GaussianPrior, independent_noise_prior, kernel_prior
from borrow.kernels import Kernel
from borrow.kernels.compose import TaskKernels
from borrow.models.gp.model import bounds_of
from borrow.numerics.device import ALONE_ROWS
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values, maximise_each
from borrow.tasks.placed import PlacedTasks

#: Steps of either start before the better of the two goes on, task by task.
HEAT = 16


def fit_batches(
    tasks: PlacedTasks,
    starts: Sequence[tuple[Kernel | None, Values]],
    scales: Array,
    prior: str | None,
    max_iter: int,
    infer: Inference,
    tol: float,
) -> dict[int, tuple[Array, Values, float]]:
    """Theta, noise and evidence of the tasks that are too small to be on the device by themselves, by task.

    Those whose kernels have one form are one batch. None without a device, nor of labels.
    """
    groups: dict[Any, list[int]] = {}
    for t, (template, _) in enumerate(starts):
        rows = tasks.cells.starts[t + 1] - tasks.cells.starts[t]
        form = None if template is None or not 0 < rows < ALONE_ROWS else template.form()
        if form is not None:
            groups.setdefault(form, []).append(t)
    found: dict[int, tuple[Array, Values, float]] = {}
    if tasks.device is None or not isinstance(infer, ExactInference):
        return found
    for members in groups.values():
        batch, template = PlacedTasks(tasks.cells.some(members), device=tasks.device), starts[members[0]][0]
        assert template is not None  # it has a form
        noise = np.concatenate([starts[t][1]["noise"] for t in members])
        theta, noise, evidence = fit_together(batch, template, noise, scales, prior, max_iter, tol)
        for i, t in enumerate(members):
            found[t] = theta[i], {"noise": noise[i : i + 1]}, float(evidence[i])
    return found


def fit_together(
    tasks: PlacedTasks, template: Kernel, noise: Array, scales: Array, prior: str | None, max_iter: int, tol: float
) -> tuple[Array, Array, Array]:
    """Theta (T, P), log noise (T,) and evidence (T,) of the tasks' own GPs, all with kernels like the template.

    As in `fit_single` a second start has a fifth of the lengthscales. No task is without rows.
    """
    T, n = len(tasks.cells.starts) - 1, template.n_theta
    smooth = np.column_stack([np.tile(template.theta, (T, 1)), noise])
    rough = smooth + np.log(0.2) * np.append(template.marks("lengthscale"), 0.0)
    both = bounds_of({"kernel": smooth[:, :n], "noise": noise}, tasks.cells)
    low, high = (np.column_stack([both["kernel"][side], both["noise"][side]]) for side in (0, 1))
    batch = Batch(tasks, template, scales, prior)
    bounds = low, high
    heats = [maximise_each(batch.objective, start, bounds, min(HEAT, max_iter), tol) for start in (smooth, rough)]
    values = [batch.objective(x)[0] for x in heats]
    start = np.where((values[0] >= values[1])[:, None], *heats)
    x = maximise_each(batch.objective, start, bounds, max(max_iter - HEAT, 1), tol)
    return x[:, :n], x[:, n], batch.evidence(x)[0]


class Batch:
    """The evidence of every task, with the priors that all GP estimators share."""

    def __init__(self, tasks: PlacedTasks, template: Kernel, scales: Array, prior: str | None) -> None:
        self.tasks, self.template = tasks, template
        self.T, n = len(tasks.cells.starts) - 1, template.n_theta
        self.parts = [slice(t * n, (t + 1) * n) for t in range(self.T)]
        self.priors: list[tuple[slice, GaussianPrior]] = []
        if prior is not None:
            self.priors = [(slice(0, n), kernel_prior(template, scales)), (slice(n, n + 1), independent_noise_prior(1))]

    def evidence(self, x: Array) -> tuple[Array, Any]:
        """Of every task, and the way to its derivatives."""
        kernels = TaskKernels([self.template] * self.T, x[:, :-1].ravel(), self.parts)
        nothing = SharedCovariance(self.tasks, [], [], np.zeros((self.T, 0)), kernels)
        fit = exact(nothing, Gaussian(self.tasks.cells, np.exp(x[:, -1])))
        posterior: Any = fit.posterior
        return posterior.evidence_alone + fit.likelihood.log_normalisers(posterior.sites.tau), fit

    def objective(self, x: Array) -> tuple[Array, Array]:
        """What is maximised of every task, and its derivatives."""
        value, fit = self.evidence(x)
        found, by_noise = fit.gradient()
        by = np.column_stack([np.stack(found.specific), by_noise["noise"]])
        for at, prior in self.priors:
            away = x[:, at] - prior.mean
            pull = prior.pull(away)
            value, by[:, at] = value - 0.5 * (away * pull).sum(axis=1), by[:, at] - pull
        return value, by
