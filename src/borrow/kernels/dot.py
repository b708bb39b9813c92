"""Kernels of inner products: constant, linear, linear beside smooth, and that of an infinite neural network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from borrow.kernels.base import Gradient, Homogeneous, Kernel, Leaf, Pullback
from borrow.kernels.compose import Sum
from borrow.kernels.stationary import SquaredExponential
from borrow.numerics.linalg import (
    Array,
    column_dots,
    inner,
    is_tensor,
    namespace,
    weigh_rows,
)
from borrow.numerics.stored import stored


@stored("Constant")
@dataclass(frozen=True, repr=False)
class Constant(Homogeneous):
    """The same covariance everywhere: an unknown offset.

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import Constant
    >>> Constant(3.0)(np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[3., 3., 3.],
           [3., 3., 3.],
           [3., 3., 3.]])
    """

    learnable: ClassVar[tuple[str, ...]] = ("variance",)
    stackable: ClassVar[bool] = True

    def evaluate(self, X: Any, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            axes = (-2, -1) if self.stacked else None
            theta = self._gather(variance=self._scalar("variance") * bK.sum(axis=axes))
            if not inputs:
                return Gradient(theta)
            zeros = namespace(X).zeros_like
            return Gradient(theta, zeros(X), None if Z is None else zeros(Z))

        shape = (*X.shape[:-1], (X if Z is None else Z).shape[-2])  # not len: sparse tables have none
        if is_tensor(X):
            return (X.new_full((), 1.0) * self.variance).expand(shape), pullback
        return np.broadcast_to(np.float64(self.variance), shape), pullback


@stored("Linear")
@dataclass(frozen=True, repr=False)
class Linear(Leaf):
    """sum_j variance_j x_j z_j: straight lines through the origin (add a `Constant` for an offset).

    With a single variance the tables may be sparse (CSR); they are never made dense, and have no input derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import Linear
    >>> Linear()(np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[0., 0., 0.],
           [0., 1., 2.],
           [0., 2., 4.]])
    """

    variance: float | tuple[float, ...] = 1.0

    learnable: ClassVar[tuple[str, ...]] = ("variance",)
    per_column: ClassVar[tuple[str, ...]] = ("variance",)

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""
        v = self._columns("variance", X)
        C = X if Z is None else Z
        if sparse.issparse(X) or sparse.issparse(C):
            return self._sparse(X @ C.T)

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            bC = bK @ C
            theta = self._gather(variance=v * column_dots(X, bC))
            if not inputs:
                return Gradient(theta)
            if Z is None:
                return Gradient(theta, v * (bC + bK.T @ X))
            return Gradient(theta, v * bC, v * (bK.T @ X))

        return (X * v) @ C.T, pullback

    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """sum_j variance_j x_j^2."""
        v = self._columns("variance", X)
        if sparse.issparse(X):
            return self._sparse(np.asarray(X.multiply(X).sum(axis=1)).ravel())  # type: ignore[attr-defined]

        def pullback(bd: Array, inputs: bool = False) -> Gradient:
            theta = self._gather(variance=v * weigh_rows(bd, X * X))
            return Gradient(theta, 2.0 * v * bd[:, None] * X if inputs else None)

        return (X * X) @ v, pullback

    def _sparse(self, product: Any) -> tuple[Array, Pullback]:
        """The variance times a product of sparse tables, or its diagonal."""
        if np.ndim(self.variance):
            raise ValueError("Linear: sparse inputs need a single variance; rescale the columns instead")
        dense = product.toarray() if sparse.issparse(product) else np.asarray(product)
        K: Array = float(self.variance) * dense  # type: ignore[arg-type]  # a single one, as checked

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            if inputs:
                raise ValueError("Linear: there is no derivative by sparse inputs")
            return Gradient(self._gather(variance=float(np.vdot(bK, K))))

        return K, pullback


@stored("NeuralNetwork")
@dataclass(frozen=True, repr=False)
class NeuralNetwork(Leaf):
    """Arcsine kernel of a network with infinitely many sigmoid units.

    k = variance (2/pi) asin(U / sqrt(a c)), with U = 2 (bias + sum_j w_j x_j z_j),
    a = 1 + 2 (bias + sum_j w_j x_j^2) and c the same for z.
    With q = U / sqrt(a c) and bq the adjoint of q: bU = bq / sqrt(a c), ba = -bq q / (2 a).

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import NeuralNetwork
    >>> NeuralNetwork()(np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[0.46, 0.35, 0.23],
           [0.35, 0.59, 0.6 ],
           [0.23, 0.6 , 0.73]])
    """

    variance: float = 1.0
    weight_variance: float | tuple[float, ...] = 1.0
    bias_variance: float = 1.0

    learnable: ClassVar[tuple[str, ...]] = ("variance", "weight_variance", "bias_variance")
    per_column: ClassVar[tuple[str, ...]] = ("weight_variance",)

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""
        w = self._columns("weight_variance", X)
        C = X if Z is None else Z
        a = 1.0 + 2.0 * (self.bias_variance + (X * X) @ w)
        c = 1.0 + 2.0 * (self.bias_variance + (C * C) @ w)
        U = 2.0 * (self.bias_variance + (X * w) @ C.T)
        xp = namespace(X)
        root = xp.sqrt(a[:, None] * c)
        q = xp.clip(U / root, -1.0, 1.0)
        K = self.variance * (2.0 / np.pi) * xp.arcsin(q)

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            # 1 - q^2 is at least (a + c - 1) / (a c), by Cauchy and Schwarz; for large inputs q rounds to 1.
            cos2 = xp.maximum((1.0 - q) * (1.0 + q), (a[:, None] + (c - 1.0)) / (a[:, None] * c))
            bq = bK * (self.variance * 2.0 / np.pi) / xp.sqrt(cos2)
            bU, bqq = bq / root, bq * q
            ba, bc = -0.5 * bqq.sum(axis=1) / a, -0.5 * bqq.sum(axis=0) / c
            UC = bU @ C
            by_w = 2.0 * w * (column_dots(X, UC) + ba @ (X * X) + bc @ (C * C))
            by_bias = 2.0 * self.bias_variance * (bU.sum() + ba.sum() + bc.sum())
            theta = self._gather(variance=inner(bK, K), weight_variance=by_w, bias_variance=by_bias)
            if not inputs:
                return Gradient(theta)
            bX = 2.0 * w * (UC + 2.0 * ba[:, None] * X)
            bZ = 2.0 * w * (bU.T @ X + 2.0 * bc[:, None] * C)
            return Gradient(theta, bX + bZ) if Z is None else Gradient(theta, bX, bZ)

        return K, pullback

    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """On the diagonal q = (a - 1)/a, whose arcsine has the slope 1 / (a sqrt(2a - 1))."""
        w = self._columns("weight_variance", X)
        a = 1.0 + 2.0 * (self.bias_variance + (X * X) @ w)
        xp = namespace(X)
        d = self.variance * (2.0 / np.pi) * xp.arcsin((a - 1.0) / a)

        def pullback(bd: Array, inputs: bool = False) -> Gradient:
            ba = bd * (self.variance * 2.0 / np.pi) / (a * xp.sqrt(2.0 * a - 1.0))
            theta = self._gather(
                variance=bd @ d,
                weight_variance=2.0 * w * (ba @ (X * X)),
                bias_variance=2.0 * self.bias_variance * ba.sum(),
            )
            return Gradient(theta, 4.0 * w * ba[:, None] * X if inputs else None)

        return d, pullback


@stored("SmoothLinear")
@dataclass(frozen=True, repr=False)
class SmoothLinear(Leaf):
    """variance exp(-|a - c|^2 / 2) + linear_variance a'c + bias_variance; a = x / lengthscale, c = z / lengthscale.

    One vector of lengthscales serves both parts (Lawrence & Platt 2004, section 5.2): what is irrelevant is irrelevant
    to both. A sum of `SquaredExponential`, `Linear` and `Constant` would have scales of its own in each; this is such a
    sum of a and c, and with ba, bc what that sum pulls back to them,

        d/d log lengthscale_j = -sum_i ba_ij a_ij - sum_k bc_kj c_kj.

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import SmoothLinear
    >>> SmoothLinear()(np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[2.  , 1.61, 1.14],
           [1.61, 3.  , 3.61],
           [1.14, 3.61, 6.  ]])
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
        A, C = X / l, None if Z is None else Z / l
        return self._chained(self._on_scaled().evaluate(A, C), A, C, l)

    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """variance + linear_variance |a|^2 + bias_variance."""
        l = self._columns("lengthscale", X)
        return self._chained(self._on_scaled().evaluate_diag(X / l), X / l, None, l)

    def _on_scaled(self) -> Kernel:
        """The kernel of a and c."""
        smooth = SquaredExponential(self.variance, fixed=("lengthscale",))
        return Sum((smooth, Linear(self.linear_variance), Constant(self.bias_variance)))

    def _chained(
        self, of_scaled: tuple[Array, Pullback], A: Array, C: Array | None, l: Array
    ) -> tuple[Array, Pullback]:
        """Its value, and the way back through a = x / l and c = z / l."""
        value, back = of_scaled

        def pullback(b: Array, inputs: bool = False) -> Gradient:
            found = back(b, inputs=True)
            sides = [(g, side) for g, side in ((found.X, A), (found.Z, C)) if g is not None and side is not None]
            by_l = -sum(column_dots(g, side) for g, side in sides)
            variance, linear, bias = found.theta
            theta = self._gather(variance=variance, lengthscale=by_l, linear_variance=linear, bias_variance=bias)
            return Gradient(theta, *(g / l for g, _ in sides)) if inputs else Gradient(theta)

        return value, pullback
