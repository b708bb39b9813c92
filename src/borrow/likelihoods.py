"""Observation models. A Gaussian likelihood is a set of fixed sites, so exact inference is one `condition`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from borrow.covariance.shared import LOG_2PI
from borrow.data import Cells
from borrow.linalg import Array


@dataclass(frozen=True)
class Gaussian:
    """y = f + noise, with one variance a task, observed as cell means with counts.

    A cell of several rows with the same input and task contributes its mean, of variance noise/count, and the scatter
    within it: -dof/2 log(2 pi noise) - scatter/(2 noise) + constant. Both together are the likelihood of the rows
    written out, to the last digit.
    """

    cells: Cells
    noise: Array  # (M,)

    def sites(self) -> tuple[Array, Array]:
        """nu and tau of every cell."""
        tau = self.cells.count / self.noise[self.cells.task]
        return tau * self.cells.y, tau

    def log_normaliser(self, tau: Array) -> float:
        """What turns the evidence of unit-noise observations into the evidence of the rows as they were given."""
        c = self.cells
        scatter = -0.5 * (c.dof * (LOG_2PI + np.log(self.noise)) + c.scatter / self.noise)
        return float(0.5 * np.log(tau).sum() + scatter.sum() + c.log_count.sum())

    def pullback(self, bvariance: Array, tau: Array) -> Array:
        """Derivative by log noise of each task, from the adjoint of every cell's variance 1/tau."""
        c = self.cells
        by_cells = np.bincount(c.task, bvariance / tau, minlength=len(self.noise))
        return by_cells - 0.5 * (c.dof - c.scatter / self.noise)
