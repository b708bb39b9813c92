"""The noise of a regression from the rows that were not chosen, beside those that were.

Chosen rows lie far from each other, so that a function through all of them with no noise at all is about as likely as
any other: they do not identify the noise. Rows that were left out have neighbours, and do. So with the kernel held, the
noise s2 maximises the evidence of the chosen rows and of about as many of the others, U:

    log N(y_U; 0, K_U + s2 S^-2),    S = diag(sqrt k), k_n the number of rows that a cell stands for.

With S K_U S = V diag(l) V' and t = V'S y this is -1/2 sum [t^2 / (l + s2) + log(l + s2)] and a constant, so one
decomposition serves every s2. The scatter within cells is added, as everywhere. (Scoring each row left out by its
own prediction from the chosen ones, which is cheaper, does not do: with few chosen rows the predictions' own variance
hides the noise, and small errors of the kernel make it several times too small or too large.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from borrow.covariance.carrier import LOG_2PI
from borrow.data.cells import Cells, Codes
from borrow.inference.priors import Prior
from borrow.kernels import Kernel
from borrow.models.ivm.model import Active
from borrow.numerics.linalg import Array, symmetric_eigen
from borrow.numerics.optimise import NOISE_FLOOR

#: As many rows left out as chosen ones are looked at, but at least and at most so many, of all tasks together.
FEWEST, MOST = 500, 2000
#: Rows of one task that are decomposed at once, at most.
LARGEST = 1200
#: log noise is searched for on this grid first, then around the best of it; in units of the scaled targets.
GRID = np.linspace(np.log(NOISE_FLOOR), np.log(30.0), 36)


@dataclass(frozen=True)
class Spectrum:
    """Rows of one task in the basis of their covariance."""

    l: Array
    targets: Array
    dof: float
    scatter: float

    def log_density(self, noise: float) -> float:
        """Of the rows and of the scatter within cells, up to a constant."""
        shifted = self.l + noise
        rows = -0.5 * float(np.sum(self.targets**2 / shifted) + np.log(shifted).sum())
        return rows - 0.5 * (self.dof * (LOG_2PI + np.log(noise)) + self.scatter / noise)


def rows_left_out(n: int, rows: Codes) -> Codes:
    """Rows that were not chosen, thinned evenly (they are sorted by task and input) to a number that is enough."""
    rest = np.setdiff1d(np.arange(n), rows)
    enough = int(np.clip(len(rows), FEWEST, MOST))
    return rest if len(rest) <= enough else rest[np.linspace(0, len(rest) - 1, enough).astype(int)]


def spectra(kernel: Kernel, cells: Cells, active: Active) -> dict[int, Spectrum]:
    """Of the chosen rows and of those left out, by task code; tasks without rows say nothing and are left out."""
    rest, out = rows_left_out(len(cells.y), active.rows), {}
    of_rest, of_active = cells.task[rest], active.task
    for t in np.unique(np.concatenate([of_rest, of_active])).tolist():
        left = rest[of_rest == t][:LARGEST]
        chosen = active.rows[of_active == t][: max(LARGEST - len(left), 0)]
        rows = np.concatenate([chosen, left])
        root = np.sqrt(cells.count[rows])
        l, V = symmetric_eigen(kernel(cells.X[rows]) * root * root[:, None])
        out[t] = Spectrum(
            np.maximum(l, 0.0), V.T @ (root * cells.y[rows]), float(cells.dof[t]), float(cells.scatter[t])
        )
    return out


def noise_from_rest(parts: dict[int, Spectrum], log_noise: Array, prior: Prior | None) -> Array:
    """log noise at which these rows are likeliest: one for all tasks, or one for each, as `log_noise` has it.

    The prior of a task's noise is given that of the others as they are in `log_noise`.
    """

    def best(which: list[Spectrum], entry: int) -> float:
        def cost(log_s2: float) -> float:
            value = sum(s.log_density(float(np.exp(log_s2))) for s in which)
            if prior is not None:
                value += prior.log_density(np.where(np.arange(len(log_noise)) == entry, log_s2, log_noise))[0]
            return -value

        costs = [cost(g) for g in GRID]
        i = int(np.argmin(costs))
        around = float(GRID[max(i - 1, 0)]), float(GRID[min(i + 1, len(GRID) - 1)])
        found = minimize_scalar(cost, bounds=around, method="bounded", options={"xatol": 1e-4})
        return float(GRID[i]) if costs[i] <= found.fun else float(found.x)

    if len(log_noise) == 1:
        return np.array([best(list(parts.values()), 0)])
    return np.array([best([parts[t]], t) if t in parts else now for t, now in enumerate(log_noise.tolist())])
