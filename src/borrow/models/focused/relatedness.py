"""How sure are we of rho: standard errors from the curvature of the objective, and shares of variance."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from borrow.covariance import SharedPosterior
from borrow.data.labels import places_of
from borrow.data.table import Table
from borrow.inference import priors
from borrow.kernels import Constant, Kernel, Sum
from borrow.models.focused.model import Setup
from borrow.numerics import linalg
from borrow.numerics import optimise as hyper
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values

#: Up to this many hyper-parameters the whole matrix of second derivatives is taken; above, each task's own block.
WHOLE = 150


def relatedness(
    setup: Setup,
    values: Values,
    posterior: SharedPosterior,
    objective: hyper.Objective,
    labels: tuple[Hashable, ...],
    known: Array | None = None,
) -> Table:
    """The table of `FocusedGPRegressor.relatedness`."""
    prior = posterior.prior
    M = len(labels)
    rho, se, share = prior.weights[:, 0], np.zeros(M), np.ones(M)
    if len(setup.secondaries):
        se[setup.secondaries] = standard_errors(setup, values, posterior, objective, known)
    for t in setup.secondaries:
        X = setup.cells.X[setup.cells.of(int(t))]
        X = X if len(X) else setup.Z
        shared, background, kernel = (
            rho[t] ** 2 * prior.carriers[0].basis.kernel.diag(X).mean(),
            0.0,
            prior.specific[t],
        )
        if setup.background is not None:
            background = float((prior.weights[t, 1:] ** 2).sum() * prior.carriers[1].basis.kernel.diag(X).mean())
        own = 0.0 if kernel is None else _varying(kernel, X)
        total = shared + background + own
        share[t] = shared / total if total > 0 else 0.0
    order = [setup.primary, *(t for t in places_of(labels).tolist() if t != setup.primary)]
    columns = {
        "task": [labels[t] for t in order],
        "rows": np.diff(setup.cells.starts)[order] + setup.cells.dof[order].round().astype(int),
        "rho": rho[order],
        "std_error": se[order],
        "correlation": (np.sign(rho) * np.sqrt(share))[order],
        "share": share[order],
    }
    return Table(columns)


def _varying(kernel: Kernel, X: Array) -> float:
    """Mean prior variance of a function, its constant offset left out: an offset is a level, not variation."""
    parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
    return float(sum(k.diag(X).mean() for k in parts if not isinstance(k, Constant)))


def standard_errors(
    setup: Setup, values: Values, posterior: SharedPosterior, objective: hyper.Objective, known: Array | None = None
) -> Array:
    """Of rho, at the optimum; NaN where the curvature is not positive (the optimum is flat or was not reached)."""
    if hyper.pack(values).size <= WHOLE:
        C = hyper.curvature(objective, values) if known is None else known
        at = len(values["kernel"]) + np.arange(len(values["rho"]))
        return np.sqrt(_inverse_diagonal(C)[at])
    return np.array([_own_block(setup, values, posterior, int(t), i) for i, t in enumerate(setup.secondaries)])


def _inverse_diagonal(C: Array) -> Array:
    """Diagonal of C^-1, directions that the data leave flat set aside; NaN where C turns down."""
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(C)), 1e-12))
    e, U = np.linalg.eigh(C / np.multiply.outer(scale, scale))
    keep = np.abs(e) > 1e-7
    variance = (U[:, keep] ** 2) @ (1.0 / e[keep]) / scale**2
    return np.where(variance > 0, variance, np.nan)


def _own_block(setup: Setup, values: Values, posterior: SharedPosterior, t: int, i: int) -> float:
    """Curvature by the task's own rho, kernel and noise, the other tasks and the shared kernel held fixed.

    Given the others the shared function is N(a', P') with P'^-1 = B - W_t'W_t, so the task alone is Gaussian with mean
    G_t a' and covariance E_t + noise + G_t P' G_t': a small dense problem whatever the number of tasks.
    """
    rows, kernel, part = setup.cells.of(t), setup.specific[t], setup.specific_parts[t]
    n = rows.stop - rows.start
    if n == 0:
        return np.nan
    known, carrier = posterior.of_task(t), posterior.prior.carriers[0]
    LB, a = known.without(0)
    X, y, count = (v[rows] for v in (setup.cells.X, setup.cells.y, setup.cells.count))
    first, G = known.prior.columns[0], known.prior.G.copy()
    V, residual = known.prior.carried[0].V, known.prior.carried[0].residual
    dof, scatter = setup.cells.dof[t], setup.cells.scatter[t]

    def log_density(x: Array) -> float:
        rho, noise = x[0], np.exp(x[-1])
        G[:, first] = rho * V
        half = linalg.right_solve_transposed(G, LB)
        S = half @ half.T
        S.flat[:: n + 1] += rho**2 * residual + noise / count
        if kernel is not None:
            S += kernel.with_theta(x[1:-1])(X)
        L = linalg.cholesky(S)
        z = linalg.solve_lower(L, y - G @ a)
        return float(-0.5 * (z @ z + linalg.log_determinant(L) + dof * x[-1] + scatter / noise))

    x = np.concatenate([[values["rho"][i]], values["specific"][part], [values["noise"][t]]])
    C = -hyper.second_differences(log_density, x)
    C[0, 0] += float(carrier.basis.kernel.diag(setup.Z).mean())  # the prior on w
    C[1:, 1:] += np.eye(len(x) - 1) / priors.VARIANCE_SD**2
    return float(np.sqrt(_inverse_diagonal(C)[0]))
