"""scikit-learn kernels as ours, where the two agree; a refusal by name where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from borrow.kernels.base import Kernel
from borrow.kernels.compose import Product, Sum
from borrow.kernels.dot import Constant, Linear
from borrow.kernels.stationary import Matern, Periodic, RationalQuadratic, SquaredExponential


def from_sklearn(kernel: Any) -> Kernel:
    """The same covariance function as one of ours. Hyper-parameters with bounds "fixed" stay fixed."""
    match kernel:
        case sk.Sum():
            return Sum.of(from_sklearn(kernel.k1), from_sklearn(kernel.k2))
        case sk.Product():
            return Product.of(from_sklearn(kernel.k1), from_sklearn(kernel.k2))
        case sk.ConstantKernel():
            return Constant(kernel.constant_value, fixed=_fixed(kernel, constant_value="variance"))
        case sk.Matern():  # before RBF, which it inherits from
            fixed = ("variance", *_fixed(kernel, length_scale="lengthscale"))
            if np.isinf(kernel.nu):
                return SquaredExponential(1.0, _plain(kernel.length_scale), fixed=fixed)
            if kernel.nu in (0.5, 1.5, 2.5):
                return Matern(1.0, _plain(kernel.length_scale), nu=kernel.nu, fixed=fixed)
            raise ValueError(f"scikit-learn's Matern with nu={kernel.nu} has no counterpart; use nu = 0.5, 1.5 or 2.5")
        case sk.RBF():
            fixed = ("variance", *_fixed(kernel, length_scale="lengthscale"))
            return SquaredExponential(1.0, _plain(kernel.length_scale), fixed=fixed)
        case sk.RationalQuadratic():
            fixed = ("variance", *_fixed(kernel, length_scale="lengthscale", alpha="alpha"))
            return RationalQuadratic(1.0, kernel.length_scale, alpha=kernel.alpha, fixed=fixed)
        case sk.ExpSineSquared():
            fixed = ("variance", *_fixed(kernel, length_scale="lengthscale", periodicity="period"))
            return _OneColumn(1.0, kernel.length_scale, kernel.periodicity, fixed=fixed)
        case sk.DotProduct():
            slope = Linear(1.0, fixed=("variance",))
            if kernel.sigma_0 == 0:
                return slope
            return Sum.of(Constant(kernel.sigma_0**2, fixed=_fixed(kernel, sigma_0="variance")), slope)
        case sk.WhiteKernel():
            raise ValueError(
                "scikit-learn's WhiteKernel is observation noise; leave it out and give noise= to the estimator"
            )
    raise ValueError(
        f"scikit-learn's {type(kernel).__name__} cannot be translated; use a kernel of borrow.kernels: "
        "SquaredExponential, Matern, RationalQuadratic, Periodic, Linear, Constant, NeuralNetwork, "
        "sums and products"
    )


class _OneColumn(Periodic):
    """scikit-learn's ExpSineSquared is the sine of a Euclidean distance: ours in one column only."""

    def evaluate(self, X: Any, Z: Any = None) -> Any:
        """K and its pull-back; refuses more than one column."""
        if X.shape[1] != 1:
            raise ValueError(
                "scikit-learn's ExpSineSquared on several columns is the sine of a Euclidean distance, which "
                "we do not have; use borrow.kernels.Periodic, which is periodic in every column"
            )
        return super().evaluate(X, Z)


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else tuple(np.asarray(value, dtype=float).tolist())


def _fixed(kernel: Any, **names: str) -> tuple[str, ...]:
    by_name = {h.name: h.fixed for h in kernel.hyperparameters}
    return tuple(ours for theirs, ours in names.items() if by_name.get(theirs, False))
