"""The two problems that rows are chosen for: numbers with Gaussian noise, labels with a probit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.covariance import SharedCovariance, Sites
from borrow.covariance.carrier import LOG_2PI
from borrow.data.cells import Cells, Codes
from borrow.inference import priors
from borrow.inference.adf import LEAST_PRECISION
from borrow.inference.ep import ep
from borrow.inference.likelihoods import Probit
from borrow.kernels import Kernel
from borrow.models.ivm.model import Active, Selection, blocks_of, frozen_objective, gather, log_evidence
from borrow.models.ivm.noise import noise_from_rest, rows_left_out, spectra
from borrow.models.ivm.tasks import GaussianTasks, ProbitTasks, select_tasks
from borrow.numerics import optimise as hyper
from borrow.numerics.device import place
from borrow.numerics.linalg import Array, like, to_host
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Optimum, Values
from borrow.tasks.placed import PlacedTasks

#: Kernel and noise are learnt in turn until the noise moves by less than this, or so many times.
STILL, TURNS = 0.01, 8
#: Lengthscales to start from, in units of the default ones.
SHORTER = (1.0, 0.5, 0.25, 0.1)


@dataclass(frozen=True)
class Regression:
    """All rows of all tasks with Gaussian noise, one variance or one a task."""

    tasks: PlacedTasks
    kernel: Kernel
    scales: Array
    n_noise: int  # 1, or the number of tasks
    prior: str | None
    max_iter: int
    noise_from: str = "rest"

    @property
    def cells(self) -> Cells:
        """The rows of all tasks."""
        return self.tasks.cells

    @property
    def n_rows(self) -> int:
        """Rows to choose from."""
        return len(self.cells.y)

    def noise_of(self, values: Values, task: Codes) -> Array:
        """Noise variance of rows of these tasks."""
        noise = np.exp(values["noise"])
        return np.full(len(task), noise[0]) if len(noise) == 1 else noise[task]

    def select(self, values: Values, d: int, order: Codes | None = None, report: Any = None) -> Selection:
        """Rows that tell most at these hyper-parameters."""
        kernel = self.kernel.with_theta(values["kernel"])
        noise = self.noise_of(values, np.arange(len(self.cells.dof)))
        return select_tasks(self.tasks, kernel, GaussianTasks(noise), d, order, report)

    def active(self, selection: Selection) -> Active:
        """The rows selected, stacked by task."""
        return gather(selection, place(self.cells.X, self.tasks.device), self.cells.starts)

    def objective(self, active: Active) -> Objective:
        """Evidence of the chosen rows and of the scatter within cells, by kernel and noise (sec. 5).

        With 1/tau = s2/k of row i and b_i its adjoint, d/d log s2 = sum_i b_i s2/k_i - dof/2 + scatter/(2 s2).
        """
        c, blocks = self.cells, blocks_of(active.starts)
        task, every = active.task, np.arange(len(c.dof))

        def objective(values: Values) -> tuple[float, Values]:
            tau = c.count[active.rows] / self.noise_of(values, task)
            kernel = self.kernel.with_theta(values["kernel"])
            value, by_theta, by_variance = log_evidence(kernel, active.X, blocks, tau, c.y[active.rows])
            noise = self.noise_of(values, every)
            value -= 0.5 * float(np.sum(c.dof * (LOG_2PI + np.log(noise)) + c.scatter / noise))
            by = np.bincount(task, by_variance / tau, minlength=len(noise)) - 0.5 * (c.dof - c.scatter / noise)
            by_noise = np.array([by.sum()]) if len(values["noise"]) == 1 else by
            return value + float(c.log_count.sum()), {"kernel": by_theta, "noise": by_noise}

        return objective

    def penalised(self, active: Active) -> Objective:
        """The same with the priors that are switched on."""
        objective = self.objective(active)
        if self.prior is None:
            return objective
        chosen = {"kernel": priors.kernel_prior(self.kernel, self.scales), "noise": priors.noise_prior(self.n_noise)}
        return hyper.with_prior(objective, priors.independent_priors(chosen))

    def best_start(self, values: Values) -> Values:
        """Shorter lengthscales to start from, and a noise, where a sample of the rows likes them better.

        A rough function can be taken for a smooth one and noise, and few chosen rows cannot tell the two apart.
        """
        zero, M = np.zeros(0), len(self.cells.dof)
        none = Active(np.zeros(0, dtype=np.intp), self.cells.X[:0], np.zeros(M + 1, dtype=np.intp), zero, zero)
        prior = None if self.prior is None else priors.noise_prior(self.n_noise)
        on_kernel = None if self.prior is None else priors.kernel_prior(self.kernel, self.scales)
        best, found = -np.inf, values
        for factor in SHORTER:
            theta = values["kernel"] + np.log(factor) * self.kernel.marks("lengthscale")
            parts = spectra(self.kernel.with_theta(theta), self.cells, none)
            noise = noise_from_rest(parts, values["noise"], prior)
            of_task = np.broadcast_to(np.exp(noise), M)
            value = sum(s.log_density(float(of_task[t])) for t, s in parts.items())
            value += 0.0 if on_kernel is None else on_kernel.log_density(theta)[0]
            if value > best:
                best, found = value, {"kernel": theta, "noise": noise}
        return found

    def learn(self, selection: Selection, values: Values) -> tuple[Values, Optimum]:
        """Kernel from the chosen rows; noise from the others, where there are any, else from the chosen ones too."""
        active = self.active(selection)
        low = float(np.log(NOISE_FLOOR))
        bounds = hyper.bounds_around(values, {"noise": low})
        objective = self.penalised(active)
        if self.noise_from == "active" or not len(rows_left_out(self.n_rows, active.rows)):
            optimum = hyper.maximise(objective, values, bounds, self.max_iter)
            return optimum.values, optimum
        n_iter = 0
        prior = None if self.prior is None else priors.noise_prior(self.n_noise)
        for _ in range(TURNS):
            parts = spectra(self.kernel.with_theta(values["kernel"]), self.cells, active)
            noise = noise_from_rest(parts, values["noise"], prior)
            moved = float(np.max(np.abs(noise - values["noise"])))
            held = {**bounds, "noise": (noise, noise)}
            optimum = hyper.maximise(objective, {**values, "noise": noise}, held, self.max_iter)
            values, n_iter = optimum.values, n_iter + optimum.n_iter
            if moved < STILL:
                break
        return values, replace(optimum, n_iter=n_iter)


@dataclass(frozen=True)
class Classification:
    """All rows of all tasks with labels -1 and +1."""

    tasks: PlacedTasks
    kernel: Kernel
    bias: Array  # (M,)
    scales: Array
    prior: str | None
    max_iter: int
    ep_sweeps: int = 0

    @property
    def cells(self) -> Cells:
        """The rows of all tasks."""
        return self.tasks.cells

    @property
    def n_rows(self) -> int:
        """Rows to choose from."""
        return len(self.cells.y)

    def select(self, values: Values, d: int, order: Codes | None = None, report: Any = None) -> Selection:
        """Rows that tell most at these hyper-parameters."""
        kernel = self.kernel.with_theta(values["kernel"])
        chosen = select_tasks(self.tasks, kernel, ProbitTasks(self.bias), d, order, report)
        return self.refine(chosen, kernel) if self.ep_sweeps else chosen

    def refine(self, selection: Selection, kernel: Kernel) -> Selection:
        """Sites by sweeps of EP over the active rows, from those of ADF."""
        c, a = self.cells, self.active(selection)
        M = len(c.starts) - 1
        prior = SharedCovariance(a.tasks(), [], [], np.zeros((M, 0)), [kernel] * M)
        start = Sites(like(a.X, a.tau * a.z), like(a.X, a.tau))
        y, bias = like(a.X, c.y[a.rows]), like(a.X, self.bias[a.task])
        sites = Sites(*map(to_host, ep(prior, Probit(), y, bias, start, self.ep_sweeps + 1).sites))
        tau = np.maximum(sites.tau, LEAST_PRECISION)
        back = np.argsort(a.rows)[np.searchsorted(np.sort(a.rows), selection.active)]  # from tasks to inclusion
        return replace(selection, tau=tau[back], z=(sites.nu / tau)[back])

    def active(self, selection: Selection) -> Active:
        """The rows selected, stacked by task."""
        return gather(selection, place(self.cells.X, self.tasks.device), self.cells.starts)

    def penalised(self, active: Active) -> Objective:
        """Evidence at frozen sites, with the prior where it is switched on (sec. 5)."""
        objective = frozen_objective(self.kernel, active)
        if self.prior is None:
            return objective
        prior = priors.independent_priors({"kernel": priors.kernel_prior(self.kernel, self.scales)})
        return hyper.with_prior(objective, prior)

    def learn(self, selection: Selection, values: Values) -> tuple[Values, Optimum]:
        """The kernel with rows and sites frozen."""
        objective = self.penalised(self.active(selection))
        optimum = hyper.maximise(objective, values, hyper.bounds_around(values), self.max_iter)
        return optimum.values, optimum
