"""Kernels of a scaled distance: k = variance * profile(r^2), r^2 = sum_j (x_j - z_j)^2 / lengthscale_j^2."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from borrow.kernels.base import Gradient, Homogeneous, Pullback
from borrow.numerics.linalg import Array, column_dots, inner, namespace, squared_distances, to_host, weigh_rows
from borrow.numerics.stored import stored

Slope = Callable[[], Array]


def _centred(X: Array, Z: Array | None) -> tuple[Array, Array | None]:
    """Inputs around their middle: differences do not change, their rounding does."""
    middle = X.sum(axis=-2, keepdims=True) / X.shape[-2] if X.shape[-2] else 0.0
    return X - middle, None if Z is None else Z - middle


@dataclass(frozen=True, repr=False)
class Stationary(Homogeneous):
    """Shared forward and backward pass; a subclass gives the profile and its slope.

    A scalar lengthscale is isotropic; a vector one is automatic relevance determination; a vector with
    `tied=True` keeps its ratios and moves as one. Derivatives, with S_ij = bK_ij variance profile'(r_ij^2)
    the adjoint of r^2 and scaled inputs a = x/l, c = z/l:

        d/d log l_j = -2 sum_ik S_ik (a_ij - c_kj)^2,   bx = 2 (rowsum(S) a - S c) / l.

    The squares are expanded so that one matrix product S c replaces an (n, m, d) tensor.
    """

    lengthscale: float | tuple[float, ...] = 1.0
    tied: bool = field(default=False, kw_only=True)

    learnable: ClassVar[tuple[str, ...]] = ("variance", "lengthscale")
    per_column: ClassVar[tuple[str, ...]] = ("lengthscale",)
    stackable: ClassVar[bool] = True

    @abstractmethod
    def _profile(self, sq: Array) -> tuple[Array, Slope, dict[str, Slope]]:
        """profile(sq), its derivative by sq, and derivatives by the logs of further parameters, each a fresh array.

        `sq` may be overwritten. What the derivatives hold stays in memory until the pull-back, so they hold little.
        """

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""
        l = self._columns("lengthscale", X)
        X, Z = _centred(X, Z)
        A = X / l
        C = A if Z is None else Z / l
        profile, slope, extra = self._profile(squared_distances(A, C))
        K = self.variance * profile if self.stacked or self.variance != 1.0 else profile

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            by = {n: self._scalar("variance") * inner(d(), bK) for n, d in extra.items()}
            if "variance" not in self.fixed:
                by["variance"] = self._scalar("variance") * inner(bK, profile)
            S = slope()  # a fresh array
            S *= bK
            S *= self.variance
            rows, columns, SC = S.sum(axis=-1), S.sum(axis=-2), S @ C
            by_l = -2.0 * (weigh_rows(rows, A * A) + weigh_rows(columns, C * C) - 2.0 * column_dots(A, SC))
            theta = self._gather(lengthscale=by_l, **by)
            if not inputs:
                return Gradient(theta)
            bX = 2.0 * (rows[:, None] * A - SC) / l
            bZ = 2.0 * (columns[:, None] * C - S.T @ A) / l
            return Gradient(theta, bX + bZ) if Z is None else Gradient(theta, bX, bZ)

        return K, pullback

    def knows_tangents(self, columns: int) -> bool:
        """With one lengthscale per column, and no further parameter but the variance."""
        free = dict(self.free)
        return free.pop("lengthscale", 0) == columns and not free.keys() - {"variance"}

    def tangents(self, X: Array, weight: Array, v: Array) -> Array:
        """dk/d log l_j = -2 S (a_j - c_j)^2 with the square expanded: two thin matrix products for all columns."""
        if not self.knows_tangents(X.shape[-1]):
            return super().tangents(X, weight, v)
        X, _ = _centred(X, None)
        A = X / self._columns("lengthscale", X)
        parts = self._profile(squared_distances(A, A))
        profile, S = parts[0] if "variance" in dict(self.free) else None, parts[1]()
        del parts  # each is as large as all pairs of inputs
        S *= weight
        A2, v = A * A, v[..., None]
        squares = A2 * (S @ v) + S @ (v * A2)
        by_lengthscale = -2.0 * self.variance * (squares - 2.0 * A * (S @ (v * A)))
        if profile is None:
            return by_lengthscale
        by_variance = self.variance * ((weight * profile) @ v)
        return namespace(X).concatenate([by_variance, by_lengthscale], axis=-1)


@stored("SquaredExponential")
@dataclass(frozen=True, repr=False)
class SquaredExponential(Stationary):
    """variance * exp(-r^2 / 2).

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import SquaredExponential
    >>> SquaredExponential(2.0, 0.5)(np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[2.  , 0.27, 0.  ],
           [0.27, 2.  , 0.27],
           [0.  , 0.27, 2.  ]])
    """

    def _profile(self, sq: Array) -> tuple[Array, Slope, dict[str, Slope]]:
        sq *= -0.5
        e = namespace(sq).exp(sq, out=sq)
        return e, lambda: -0.5 * e, {}


@stored("Matern")
@dataclass(frozen=True, repr=False)
class Matern(Stationary):
    """Matérn kernel of smoothness nu = 1/2, 3/2 or 5/2.

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import Matern
    >>> Matern(lengthscale=2.0, nu=1.5)(np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[1.  , 0.78, 0.48],
           [0.78, 1.  , 0.78],
           [0.48, 0.78, 1.  ]])
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"Matern: nu must be 0.5, 1.5 or 2.5, got {self.nu!r}; nu=inf is SquaredExponential")

    def _profile(self, sq: Array) -> tuple[Array, Slope, dict[str, Slope]]:
        xp = namespace(sq)
        sq *= 2.0 * self.nu
        r = xp.sqrt(sq, out=sq)
        e = -r
        e = xp.exp(e, out=e)
        if self.nu == 0.5:

            def slope() -> Array:
                # At r = 0 the profile has a kink; every use multiplies the slope by differences that are 0 there.
                out = xp.where(r > 0, r, xp.inf)
                out = xp.divide(e, out, out=out)
                out *= -0.5
                return out

            return e, slope, {}
        linear = 1.0 + r
        linear *= e
        if self.nu == 1.5:
            return linear, lambda: -1.5 * e, {}
        r *= r
        r *= e
        r /= 3.0
        r += linear  # (1 + r + r^2 / 3) exp(-r)
        return r, lambda: (-5.0 / 6.0) * linear, {}


@stored("RationalQuadratic")
@dataclass(frozen=True, repr=False)
class RationalQuadratic(Stationary):
    """variance * (1 + r^2 / (2 alpha))^-alpha: a mixture of lengthscales.

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=0.5)(np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[1.  , 0.71, 0.45],
           [0.71, 1.  , 0.71],
           [0.45, 0.71, 1.  ]])
    """

    alpha: float = 1.0

    learnable: ClassVar[tuple[str, ...]] = ("variance", "lengthscale", "alpha")

    def _profile(self, sq: Array) -> tuple[Array, Slope, dict[str, Slope]]:
        a, xp = self.alpha, namespace(sq)
        base = sq
        base /= 2.0 * a
        base += 1.0
        k = base**-a
        # base log(base) - base + 1 is 0 at base = 1
        return k, lambda: k / base * -0.5, {"alpha": lambda: (xp.log(base) * base - base + 1.0) / base * k * -a}


@stored("Periodic")
@dataclass(frozen=True, repr=False)
class Periodic(Homogeneous):
    """variance * exp(-2 sum_j sin^2(pi (x_j - z_j) / period_j) / lengthscale_j^2).

    This is a squared exponential on the circle w(x) = (cos 2 pi x/period, sin 2 pi x/period), so both passes
    go through that kernel and the chain rule of w.

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import Periodic
    >>> Periodic(period=7.0)(np.array([[0.0], [1.0], [2.0]])).round(2)
    array([[1.  , 0.69, 0.29],
           [0.69, 1.  , 0.69],
           [0.29, 0.69, 1.  ]])
    """

    lengthscale: float | tuple[float, ...] = 1.0
    period: float | tuple[float, ...] = 1.0
    tied: bool = field(default=False, kw_only=True)

    learnable: ClassVar[tuple[str, ...]] = ("variance", "lengthscale", "period")
    per_column: ClassVar[tuple[str, ...]] = ("lengthscale", "period")

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""
        d, l, p = X.shape[1], to_host(self._columns("lengthscale", X)), self._columns("period", X)
        X, Z = _centred(X, Z)
        on_circle = SquaredExponential(self.variance, tuple(np.tile(l, 2).tolist()))
        K, back = on_circle.evaluate(self._warp(X, p), None if Z is None else self._warp(Z, p))

        def pullback(bK: Array, inputs: bool = False) -> Gradient:
            g = back(bK, inputs=True)
            by_l = g.theta[1 : 1 + d] + g.theta[1 + d :]
            bX, bZ = self._unwarp(X, p, g.X), None if Z is None else self._unwarp(Z, p, g.Z)
            # x and period enter as x / period only
            by_p = -column_dots(bX, X) - (0.0 if Z is None or bZ is None else column_dots(bZ, Z))
            theta = self._gather(variance=g.theta[0], lengthscale=by_l, period=to_host(by_p))
            return Gradient(theta, bX, bZ) if inputs else Gradient(theta)

        return K, pullback

    @staticmethod
    def _warp(X: Array, p: Array) -> Array:
        xp, angle = namespace(X), 2.0 * np.pi * X / p
        return xp.concatenate([xp.cos(angle), xp.sin(angle)], axis=1)

    @staticmethod
    def _unwarp(X: Array, p: Array, bW: Any) -> Array:
        xp, d, angle = namespace(X), X.shape[1], 2.0 * np.pi * X / p
        return (2.0 * np.pi / p) * (xp.cos(angle) * bW[:, d:] - xp.sin(angle) * bW[:, :d])
