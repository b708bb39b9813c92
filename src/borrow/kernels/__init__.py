"""Covariance functions with pull-backs. Add with `+`, multiply with `*`."""

from typing import Any

from borrow.kernels.base import Gradient, Kernel, Leaf
from borrow.kernels.compose import Product, Sum
from borrow.kernels.dot import Constant, Linear, NeuralNetwork, SmoothLinear
from borrow.kernels.learned import LearnedKernel
from borrow.kernels.stationary import Matern, Periodic, RationalQuadratic, SquaredExponential

__all__ = [
    "Constant",
    "Gradient",
    "Kernel",
    "Leaf",
    "LearnedKernel",
    "Linear",
    "Matern",
    "NeuralNetwork",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "SmoothLinear",
    "SquaredExponential",
    "Sum",
    "resolve",
]


def resolve(kernel: Any, name: str = "kernel") -> Kernel:
    """A kernel of ours, or one of scikit-learn's translated; anything else is an error that says so.

    Examples
    --------
    >>> import borrow
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> borrow.kernels.resolve(RBF(2.0))
    SquaredExponential(variance=1, lengthscale=2, fixed=('variance',))
    """
    if isinstance(kernel, Kernel):
        return kernel
    if type(kernel).__module__.startswith("sklearn.gaussian_process"):
        from borrow.kernels.translate import from_sklearn

        return from_sklearn(kernel)
    raise TypeError(
        f"{name}={kernel!r} is not a kernel; expected one of borrow.kernels, for instance "
        "SquaredExponential(), or a scikit-learn kernel"
    )
