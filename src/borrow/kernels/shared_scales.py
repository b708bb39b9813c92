"""Smooth and linear parts that agree on which inputs matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from borrow.kernels.base import Gradient, Kernel, Leaf, Pullback
from borrow.kernels.compose import Sum
from borrow.kernels.dot import Constant, Linear
from borrow.kernels.stationary import SquaredExponential
from borrow.linalg import Array


@dataclass(frozen=True, repr=False)
class SmoothLinear(Leaf):
    """variance exp(-|a - c|^2 / 2) + linear_variance a'c + bias_variance; a = x / lengthscale, c = z / lengthscale.

    One vector of lengthscales serves both parts (Lawrence & Platt 2004, section 5.2): what is irrelevant is irrelevant
    to both. A sum of `SquaredExponential`, `Linear` and `Constant` would have scales of its own in each. With ba the
    adjoint of a, d/d log lengthscale_j = -sum_i ba_ij a_ij, and the same for c.
    """

    variance: float = 1.0
    lengthscale: float | tuple[float, ...] = 1.0
    linear_variance: float = 1.0
    bias_variance: float = 1.0

    learnable: ClassVar[tuple[str, ...]] = ("variance", "lengthscale", "linear_variance", "bias_variance")
    per_column: ClassVar[tuple[str, ...]] = ("lengthscale",)

    @property
    def _inner(self) -> Kernel:
        """The kernel of scaled inputs; theta is (variance, linear_variance, bias_variance)."""
        smooth = SquaredExponential(self.variance, 1.0, fixed=("lengthscale",))
        return Sum((smooth, Linear(self.linear_variance), Constant(self.bias_variance)))

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""
        l = self._columns("lengthscale", X)
        A, C = X / l, None if Z is None else Z / l
        K, back = self._inner.evaluate(A, C)

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            g = back(bK, inputs=True)
            assert g.X is not None  # asked for
            by_l = -np.einsum("ij,ij->j", g.X, A)
            if C is not None and g.Z is not None:
                by_l -= np.einsum("ij,ij->j", g.Z, C)
            theta = self._theta(g.theta, by_l)
            return Gradient(theta, g.X / l, None if g.Z is None else g.Z / l) if inputs else Gradient(theta)

        return K, pullback

    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """variance + linear_variance |a|^2 + bias_variance."""
        l = self._columns("lengthscale", X)
        A = X / l
        d, back = self._inner.evaluate_diag(A)

        def pullback(bd: Array, inputs: bool = False) -> Gradient:
            g = back(bd, inputs=True)
            assert g.X is not None  # asked for
            theta = self._theta(g.theta, -np.einsum("ij,ij->j", g.X, A))
            return Gradient(theta, g.X / l if inputs else None)

        return d, pullback

    def _theta(self, inner: Array, by_l: Array) -> Array:
        return self._gather(variance=inner[0], lengthscale=by_l, linear_variance=inner[1], bias_variance=inner[2])
