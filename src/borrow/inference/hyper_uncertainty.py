"""What is not known about the hyper-parameters, added to the band of the function.

The posterior of a function is for the hyper-parameters that were found. Their own uncertainty is, to first order,
Gaussian with covariance C^-1, C the curvature of what was maximised; it moves the posterior mean by J = d mean/d
values, which adds J C^-1 J' to the covariance (the delta method). The mean is k(x, Z) c, so J needs the derivative
of the coefficients c, which comes with the differences that make C, and that of k by its own parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from borrow.covariance.contracts import Prediction
from borrow.kernels import Kernel
from borrow.numerics.device import Device, place
from borrow.numerics.linalg import Array, NotPositiveDefiniteError, to_host
from borrow.numerics.optimise import Values, pack, unpack

log = logging.getLogger("borrow")

#: Up to this many hyper-parameters the curvature is taken; beyond, bands are for the hyper-parameters found.
MOST = 150
STEP = 1e-4
#: No direction is taken to be less certain than this curvature, that of the widest default prior, leaves it.
LEAST_CURVATURE = 0.25
#: Hyper-parameters that are weights and not logarithms.
WEIGHTS = ("rho", "loadings")

#: Derivatives of what is maximised, and the coefficients c, at given hyper-parameters.
Evaluate = Callable[[Values], tuple[Values, Array]]


@dataclass(frozen=True)
class HyperUncertainty:
    """Curvature of the objective, and what turns inputs into the half J C^-1/2 of the added covariance."""

    curvature: Array  # (P, P)
    kernel: Kernel
    Z: Array
    coefficients: Array  # (m,)
    by_coefficients: Array  # (m, P): dc C^-1/2
    root: Array  # (p, P): rows of C^-1/2 that belong to the kernel's own parameters
    device: Device | None = None

    def half(self, X: Array) -> Array:
        """J C^-1/2 at new inputs: its rows' squares add to the variances, its Gram matrix to the covariance."""
        X, Z, c = (place(v, self.device) for v in (X, self.Z, self.coefficients))
        H = to_host(self.kernel(X, Z) @ place(self.by_coefficients, self.device))
        theta = self.kernel.theta
        for i, row in enumerate(self.root):
            step = STEP * np.eye(len(theta))[i]
            up, down = (self.kernel.with_theta(theta + s * step)(X, Z) for s in (1.0, -1.0))
            H += np.multiply.outer(to_host((up - down) @ c) / (2.0 * STEP), row)
        return H


def hyper_uncertainty(
    evaluate: Evaluate,
    values: Values,
    kernel: Kernel,
    Z: Array,
    held: npt.NDArray[np.bool_] | None = None,
    device: Device | None = None,
) -> HyperUncertainty | None:
    """Curvature and derivative of the coefficients by one-sided differences; None with too many parameters.

    The step of a weight goes away from zero, so that flipping its sign flips its derivative exactly; that of a
    logarithm, whose sign is a matter of units, goes up. `held` marks
    parameters that are known: their curvature is reported, their uncertainty is not counted. At the edge of what can be
    factored (no noise, no prior) the step goes the other way, and where neither can be taken nothing is added.
    """
    x = pack(values)
    if x.size > MOST:
        return None
    gradient, c = evaluate(values)
    g, signed = pack(gradient), pack({n: np.full(v.shape, n in WEIGHTS) for n, v in values.items()})
    C, dc = np.empty((x.size, x.size)), np.empty((len(c), x.size))
    for i in range(x.size):
        away = -STEP if signed[i] and x[i] < 0 else STEP
        for step in (away, -away):
            moved = x.copy()
            moved[i] += step
            try:
                there, c_there = evaluate(unpack(moved, values))
            except NotPositiveDefiniteError as failure:
                log.info("no covariance a step away from the hyper-parameters found: %s", failure)
                continue
            C[i], dc[:, i] = (g - pack(there)) / step, (c_there - c) / step
            break
        else:
            return None
    C = 0.5 * (C + C.T)
    free = np.ones(x.size, dtype=bool) if held is None else ~held
    e, U = np.linalg.eigh(C[np.ix_(free, free)])
    root = np.zeros((x.size, int(free.sum())))
    root[free] = U / np.sqrt(np.maximum(e, LEAST_CURVATURE))
    return HyperUncertainty(C, kernel, Z, c, dc @ root, root[: kernel.n_theta], device)


def add_hyper_variance(
    p: Prediction, X: Array, uncertainty: HyperUncertainty | None, rows: npt.NDArray[np.bool_] | slice = slice(None)
) -> Prediction:
    """A prediction with the hyper-parameters' uncertainty added, at some of its rows or at all."""
    if uncertainty is None or not len(X[rows]):
        return p
    H = np.zeros((len(X), uncertainty.by_coefficients.shape[1]))
    H[rows] = uncertainty.half(X[rows])
    variance = p.variance + np.einsum("ij,ij->i", H, H)
    return Prediction(p.mean, variance, None if p.covariance is None else p.covariance + H @ H.T)
