"""scikit-learn kernels as ours, where the two agree; a refusal by name where they do not."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from borrow.kernels.base import Homogeneous, Kernel
from borrow.kernels.compose import Product, Sum
from borrow.kernels.dot import Constant, Linear
from borrow.kernels.stationary import Matern, Periodic, RationalQuadratic, SquaredExponential
from borrow.numerics.stored import stored

for _kind in (
    sk.ConstantKernel,
    sk.DotProduct,
    sk.ExpSineSquared,
    sk.Matern,
    sk.RBF,
    sk.RationalQuadratic,
    sk.Product,
    sk.Sum,
):
    stored(f"sklearn.{_kind.__name__}", state=" ".join(signature(_kind).parameters))(_kind)


def from_sklearn(kernel: Any) -> Kernel:
    """The same covariance function as one of ours. Hyper-parameters with bounds "fixed" stay fixed."""
    match kernel:
        case sk.Sum() | sk.Product():
            kind = Sum if isinstance(kernel, sk.Sum) else Product
            return kind.of(from_sklearn(kernel.k1), from_sklearn(kernel.k2))
        case sk.ConstantKernel():
            return Constant(kernel.constant_value, fixed=_fixed(kernel, {"constant_value": "variance"}))
        case sk.Matern(nu=nu):  # before RBF, which it inherits from
            if nu not in (0.5, 1.5, 2.5, np.inf):
                raise ValueError(f"scikit-learn's Matern with nu={nu} has no counterpart; use nu = 0.5, 1.5 or 2.5")
            if nu < np.inf:
                return _unit(Matern, kernel, {"length_scale": "lengthscale"}, nu=nu)
            return _unit(SquaredExponential, kernel, {"length_scale": "lengthscale"})
        case sk.RBF():
            return _unit(SquaredExponential, kernel, {"length_scale": "lengthscale"})
        case sk.RationalQuadratic():
            return _unit(RationalQuadratic, kernel, {"length_scale": "lengthscale", "alpha": "alpha"})
        case sk.ExpSineSquared():
            return _unit(PeriodicInOneColumn, kernel, {"length_scale": "lengthscale", "periodicity": "period"})
        case sk.DotProduct():
            slope = Linear(1.0, fixed=("variance",))
            if kernel.sigma_0 == 0:
                return slope
            return Sum.of(Constant(kernel.sigma_0**2, fixed=_fixed(kernel, {"sigma_0": "variance"})), slope)
        case sk.WhiteKernel():
            raise ValueError(
                "scikit-learn's WhiteKernel is observation noise; leave it out and give noise= to the estimator"
            )
    raise ValueError(
        f"scikit-learn's {type(kernel).__name__} cannot be translated; use a kernel of borrow.kernels: "
        "SquaredExponential, Matern, RationalQuadratic, Periodic, Linear, Constant, NeuralNetwork, "
        "sums and products"
    )


@stored("PeriodicInOneColumn")
class PeriodicInOneColumn(Periodic):
    """scikit-learn's ExpSineSquared is the sine of a Euclidean distance: ours in one column only."""

    def evaluate(self, X: Any, Z: Any = None) -> Any:
        """K and its pull-back; refuses more than one column."""
        if X.shape[1] != 1:
            raise ValueError(
                "scikit-learn's ExpSineSquared on several columns is the sine of a Euclidean distance, which "
                "we do not have; use borrow.kernels.Periodic, which is periodic in every column"
            )
        return super().evaluate(X, Z)


def _unit(kind: type[Homogeneous], kernel: Any, names: dict[str, str], **more: Any) -> Kernel:
    """One of our kernels of variance 1, with its parameters from scikit-learn's, whose names differ."""
    values = {ours: getattr(kernel, theirs) for theirs, ours in names.items()}
    return kind(1.0, fixed=("variance", *_fixed(kernel, names)), **values, **more)


def _fixed(kernel: Any, names: dict[str, str]) -> tuple[str, ...]:
    by_name = {h.name: h.fixed for h in kernel.hyperparameters}
    return tuple(ours for theirs, ours in names.items() if by_name.get(theirs, False))
