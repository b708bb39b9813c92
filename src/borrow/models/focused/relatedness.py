"""How sure are we of rho: standard errors from the curvature of the objective, and shares of variance."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from borrow.covariance import DensePosterior, SharedPosterior
from borrow.covariance.inducing import unit_noise
from borrow.data.labels import places_of
from borrow.data.table import Table
from borrow.inference.likelihoods import Gaussian
from borrow.kernels import Constant, Kernel, Sum
from borrow.models.focused.model import Setup, task_weights
from borrow.models.focused.scoring import FocusedAscent, observed_curvature
from borrow.numerics import linalg
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values

#: Up to this many hyper-parameters the whole matrix of second derivatives is taken; above, each task's own block.
WHOLE = 150


def relatedness(
    ascent: FocusedAscent,
    values: Values,
    posterior: SharedPosterior | DensePosterior,
    labels: tuple[Hashable, ...],
) -> Table:
    """The table of `FocusedGPRegressor.relatedness`."""
    setup = ascent.setup
    M, weights, own_kernels = len(labels), task_weights(values, setup), setup.specific_kernels(values)
    rho, se, share, common = weights[:, 0], np.zeros(M), np.ones(M), np.ones(M)
    if len(setup.secondaries):
        se[setup.secondaries] = standard_errors(ascent, values, posterior)
    for t in setup.secondaries:
        X = setup.cells.X[setup.cells.of(int(t))]
        X = X if len(X) else setup.Z
        shared = rho[t] ** 2 * setup.kernel.with_theta(values["kernel"]).diag(X).mean()
        background, kernel = 0.0, own_kernels[t]
        if setup.background is not None:
            others = setup.background.with_theta(values["background"])
            background = float((weights[t, 1:] ** 2).sum() * others.diag(X).mean())
        own = 0.0 if kernel is None else _varying(kernel, X)
        total = shared + background + own
        share[t] = shared / total if total > 0 else 0.0
        common[t] = in_common(setup, values, X)
    order = [setup.primary, *(t for t in places_of(labels).tolist() if t != setup.primary)]
    columns = {
        "task": [labels[t] for t in order],
        "rows": np.diff(setup.cells.starts)[order] + setup.cells.dof[order].round().astype(int),
        "rho": rho[order],
        "std_error": se[order],
        "correlation": (np.sign(rho) * np.sqrt(share * common))[order],
        "share": share[order],
    }
    return Table(columns)


def in_common(setup: Setup, values: Values, X: Array) -> float:
    """Share of the primary's prior variance that comes from the function in common with the others: 1 - own part."""
    kernel, own = setup.kernel.with_theta(values["kernel"]), setup.specific_kernels(values)[setup.primary]
    if own is None:
        return 1.0
    shared = float(kernel.diag(X).mean())
    return shared / (shared + float(own.diag(X).mean()))


def _varying(kernel: Kernel, X: Array) -> float:
    """Mean prior variance of a function, its constant offset left out: an offset is a level, not variation."""
    parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
    return float(sum(k.diag(X).mean() for k in parts if not isinstance(k, Constant)))


def standard_errors(ascent: FocusedAscent, values: Values, posterior: SharedPosterior | DensePosterior) -> Array:
    """Of rho, at the optimum; NaN where the curvature is not positive (the optimum is flat or was not reached)."""
    setup = ascent.setup
    if setup.design is not None or hyper.pack(values).size <= WHOLE:
        exact = setup.design is not None
        known = observed_curvature(ascent, values) if exact else hyper.curvature(ascent.objective, values)
        at = len(values["kernel"]) + np.arange(len(values["rho"]))
        return np.sqrt(_inverse_diagonal(known)[at])
    assert isinstance(posterior, SharedPosterior)
    return np.array([_own_block(ascent, values, posterior, int(t), i) for i, t in enumerate(setup.secondaries)])


def _inverse_diagonal(C: Array) -> Array:
    """Diagonal of C^-1, directions that the data leave flat set aside; NaN where C turns down."""
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(C)), 1e-12))
    e, U = np.linalg.eigh(C / np.multiply.outer(scale, scale))
    keep = np.abs(e) > 1e-7
    variance = (U[:, keep] ** 2) @ (1.0 / e[keep]) / scale**2
    return np.where(variance > 0, variance, np.nan)


def _own_block(ascent: FocusedAscent, values: Values, posterior: SharedPosterior, t: int, i: int) -> float:
    """Curvature by the task's own rho, kernel and noise, the other tasks and the shared kernel held fixed.

    Given the others the shared function is N(a', P') with P'^-1 = B - W_t'W_t, so the task alone is Gaussian with mean
    G_t a' and covariance E_t + G_t P' G_t': a small dense problem whatever the number of tasks. Labels are the sites
    that EP made of them.
    """
    setup = ascent.setup
    rows, kernel, part = setup.cells.of(t), setup.specific[t], setup.specific_parts[t]
    n = rows.stop - rows.start
    if n == 0:
        return np.nan
    known = posterior.of_task(t)
    LB, a = known.without(0)
    cells = setup.cells.only(t)
    first, G = known.prior.columns[0], known.prior.G.copy()
    V, residual = known.prior.carried[0].V, known.prior.carried[0].residual
    sites, numbers = posterior.sites.on_host(), "noise" in values

    def log_density(x: Array) -> float:
        rho, own = x[0], x[1 : 1 + part.stop - part.start]
        nu, tau, constant = sites.nu[rows], sites.tau[rows], 0.0
        if numbers:
            likelihood = Gaussian(cells, np.exp(x[-1:]))
            nu, tau = likelihood.sites()
            constant = likelihood.log_normaliser(tau)
        w, s = unit_noise(nu, tau)
        G[:, first] = rho * V
        half = linalg.right_solve_transposed(w[:, None] * G, LB)
        A = half @ half.T
        if kernel is not None:
            A += w[:, None] * kernel.with_theta(own)(cells.X) * w
        linalg.add_diagonal(A, 1.0 + w * w * rho**2 * residual)
        L = linalg.cholesky(A)
        z = linalg.solve_lower(L, s - w * (G @ a))
        moved = {**values, "rho": values["rho"].copy(), "specific": values["specific"].copy()}
        moved["rho"][i], moved["specific"][part] = rho, own
        if numbers:
            moved["noise"] = values["noise"].copy()
            moved["noise"][t] = x[-1]
        return float(-0.5 * (z @ z + linalg.log_determinant(L))) + constant + ascent.log_prior(moved)

    noise = values["noise"][t : t + 1] if numbers else np.zeros(0)
    own = np.concatenate([values["rho"][i : i + 1], values["specific"][part], noise])
    return float(np.sqrt(_inverse_diagonal(-hyper.second_differences(log_density, own))[0]))
