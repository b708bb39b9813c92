"""The base kernel: which one, and its parameters, learnt from the tasks as independent functions of one kernel."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from borrow.covariance import SharedCovariance
from borrow.data.cells import Cells
from borrow.estimators.gp import default_kernel
from borrow.inference import priors
from borrow.inference.exact import exact
from borrow.inference.likelihoods import Gaussian
from borrow.kernels import Kernel, LearnedKernel, Linear, resolve
from borrow.models.hierarchical.basis import is_linear
from borrow.models.hierarchical.groups import GroupShard, PlacedGroups
from borrow.numerics import optimise as hyper
from borrow.numerics.device import Device
from borrow.numerics.linalg import (
    Array,
    add_diagonal,
    cholesky,
    gram_minus_inverse,
    log_determinant,
    solve_lower,
    solve_lower_transposed,
)
from borrow.numerics.optimise import NOISE_FLOOR, Objective, Values
from borrow.tasks.placed import PlacedTasks
from borrow.tasks.workers import Workers

#: The most rows of each task that the base kernel's parameters are learnt from.
ROWS_FOR_KERNEL = 500
#: The most iterations of the optimiser.
MAX_ITER = 200


def takes_sparse(given: Any) -> bool:
    """Whether a base kernel, or the default, is one for sparse tables."""
    return given is None or isinstance(given, LearnedKernel) or (isinstance(given, Kernel) and is_linear(given))


def base_kernel_of(given: Any, X: Any, scales: Array) -> Kernel:
    """The kernel given; without one a squared exponential, or a linear one for sparse inputs."""
    if not sparse.issparse(X):
        return default_kernel(scales, deepcopy(given), "base_kernel", tied=True)  # a copy: kernels remember sizes
    if given is None:
        return Linear(1.0 / max(float(X.multiply(X).sum()) / X.shape[0], 1e-300))
    kernel = deepcopy(resolve(given, "base_kernel"))
    if not takes_sparse(kernel):
        raise ValueError(
            f"base_kernel={kernel!r} needs dense inputs and X is sparse; give borrow.kernels.Linear(), with a "
            "Constant added for an offset, or X.toarray()"
        )
    return kernel


def base_objective(
    kernel: Kernel, X: Any, cells: Cells, workers: Workers | None = None, device: Device | None = None
) -> Objective:
    """log evidence of all tasks as independent functions of one kernel and noise: K = kappa, mu = 0."""
    cells = _thinned(cells)
    if device is not None and workers is None and not sparse.issparse(X):
        return _objective_by_blocks(
            kernel, PlacedTasks(replace(cells, X=X[cells.X[:, 0].astype(np.intp)]), None, device)
        )
    tasks = PlacedGroups(cells, None, workers)

    def objective(values: Values) -> tuple[float, Values]:
        at, noise = kernel.with_theta(values["kernel"]), float(np.exp(values["noise"][0]))
        total, by_theta, by_noise = tasks.total(_independent, (at, noise, X))
        return total, {"kernel": by_theta, "noise": np.array([by_noise])}

    return objective


def _independent(shard: GroupShard, common: tuple[Kernel, float, Any]) -> tuple[float, Array, float]:
    """The evidence of a shard's tasks, by the kernel's theta and by log noise.

    bK_l = 1/2 (a a' - A^-1) with A = k(X_l, X_l) + noise/count, a = A^-1 y, summed over the tasks of equal rows.
    """
    kernel, noise, X = common
    total, by_theta = shard.log_noise_density(noise), np.zeros(kernel.n_theta)
    by_noise = 0.5 * (shard.scatter / noise - shard.dof)
    for g in shard.groups:
        K, pullback = kernel.evaluate(X[g.seen.at])
        A, sites, tasks = np.array(K), g.sites(noise), g.Y.shape[1]
        add_diagonal(A, sites)
        L = cholesky(A, overwrite=True)
        w = solve_lower(L, g.Y)
        total -= 0.5 * (float(np.vdot(w, w)) + tasks * (log_determinant(L) + len(A) * np.log(2 * np.pi)))
        bK = 0.5 * tasks * gram_minus_inverse(solve_lower_transposed(L, w) / np.sqrt(tasks), L)
        by_theta += pullback(bK).theta
        by_noise += float(np.diagonal(bK) @ sites)
    return total, by_theta, by_noise


def _objective_by_blocks(kernel: Kernel, tasks: PlacedTasks) -> Objective:
    """The same objective on a device, where tasks of about one size are one block."""
    M = len(tasks.cells.starts) - 1

    def objective(values: Values) -> tuple[float, Values]:
        at, noise = kernel.with_theta(values["kernel"]), np.full(M, float(np.exp(values["noise"][0])))
        fit = exact(SharedCovariance(tasks, [], [], np.zeros((M, 0)), [at] * M), Gaussian(tasks.cells, noise))
        adjoints, by = fit.gradient()
        theta = sum((g for g in adjoints.specific if g is not None), np.zeros(kernel.n_theta))
        return fit.evidence, {"kernel": theta, "noise": np.array([by["noise"].sum()])}

    return objective


def fit_base(
    kernel: Kernel, noise: float, scales: Array, prior: str | None, objective: Objective
) -> tuple[Kernel, float]:
    """Kernel parameters and noise that explain the tasks as independent functions."""
    begin: Values = {"kernel": kernel.theta, "noise": np.log([noise])}
    lengthscales = kernel.marks("lengthscale")
    rough = {**begin, "kernel": begin["kernel"] + np.log(0.2) * lengthscales}
    if prior is not None:
        on: dict[str, priors.Prior] = {"kernel": priors.kernel_prior(kernel, scales), "noise": priors.noise_prior()}
        objective = hyper.with_prior(objective, priors.independent_priors(on))
    bounds = hyper.bounds_around(begin, {"noise": float(np.log(NOISE_FLOOR))})
    optimum = hyper.race(objective, [begin, rough] if lengthscales.any() else [begin], bounds, MAX_ITER)
    return kernel.with_theta(optimum.values["kernel"]), float(np.exp(optimum.values["noise"][0]))


def _thinned(cells: Cells) -> Cells:
    """At most so many cells of each task, evenly taken."""
    sizes = np.diff(cells.starts)
    if sizes.max(initial=0) <= ROWS_FOR_KERNEL:
        return cells
    even = [np.unique(np.linspace(0, n - 1, min(n, ROWS_FOR_KERNEL)).astype(np.intp)) for n in sizes]
    kept = np.concatenate([begin + at for begin, at in zip(cells.starts[:-1], even, strict=True)])
    starts = np.searchsorted(kept, cells.starts)
    return replace(cells, X=cells.X[kept], y=cells.y[kept], count=cells.count[kept], starts=starts)
