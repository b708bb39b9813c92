"""Smooth and linear parts that agree on which inputs matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from borrow.kernels.base import Gradient, Leaf, Pullback
from borrow.numerics.linalg import Array, column_dots, inner, namespace, row_dots, squared_distances


@dataclass(frozen=True, repr=False)
class SmoothLinear(Leaf):
    """variance exp(-|a - c|^2 / 2) + linear_variance a'c + bias_variance; a = x / lengthscale, c = z / lengthscale.

    One vector of lengthscales serves both parts (Lawrence & Platt 2004, section 5.2): what is irrelevant is irrelevant
    to both. A sum of `SquaredExponential`, `Linear` and `Constant` would have scales of its own in each. With
    S = -1/2 bK variance exp(.) the adjoint of |a - c|^2, T = linear_variance bK that of a'c, and W = T - 2 S,

        ba = 2 rowsum(S) a + W c,    bc = 2 colsum(S) c + W'a,
        d/d log lengthscale_j = -sum_i ba_ij a_ij - sum_k bc_kj c_kj.
    """

    variance: float = 1.0
    lengthscale: float | tuple[float, ...] = 1.0
    linear_variance: float = 1.0
    bias_variance: float = 1.0

    learnable: ClassVar[tuple[str, ...]] = ("variance", "lengthscale", "linear_variance", "bias_variance")
    per_column: ClassVar[tuple[str, ...]] = ("lengthscale",)

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""
        l = self._columns("lengthscale", X)
        A = X / l
        C = A if Z is None else Z / l
        E = squared_distances(A, C)
        E *= -0.5
        namespace(E).exp(E, out=E)
        products = A @ C.T
        K = self.variance * E
        K += self.linear_variance * products
        K += self.bias_variance

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            W = bK * E
            by_variance = self.variance * W.sum()
            W *= -0.5 * self.variance  # S
            rows, columns = 2.0 * W.sum(axis=1), 2.0 * W.sum(axis=0)
            W *= -2.0
            W += self.linear_variance * bK
            WC = W @ C
            by_l = -(rows @ (A * A) + columns @ (C * C) + 2.0 * column_dots(A, WC))
            theta = self._gather(
                variance=by_variance,
                lengthscale=by_l,
                linear_variance=self.linear_variance * inner(bK, products),
                bias_variance=self.bias_variance * bK.sum(),
            )
            if not inputs:
                return Gradient(theta)
            bX = (rows[:, None] * A + WC) / l
            bZ = (columns[:, None] * C + W.T @ A) / l
            return Gradient(theta, bX + bZ) if Z is None else Gradient(theta, bX, bZ)

        return K, pullback

    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """variance + linear_variance |a|^2 + bias_variance."""
        l = self._columns("lengthscale", X)
        A = X / l
        square = row_dots(A, A)

        def pullback(bd: Array, inputs: bool = False) -> Gradient:
            bA = 2.0 * self.linear_variance * bd[:, None] * A
            total = bd.sum()
            theta = self._gather(
                variance=self.variance * total,
                lengthscale=-column_dots(bA, A),
                linear_variance=self.linear_variance * (bd @ square),
                bias_variance=self.bias_variance * total,
            )
            return Gradient(theta, bA / l if inputs else None)

        return self.variance + self.linear_variance * square + self.bias_variance, pullback
