"""What a kernel owes: K, its diagonal, and a pull-back from an adjoint matrix to parameters and inputs.

`evaluate(X, Z)` returns `(K, pullback)`; `pullback(bK)` returns the derivative of a scalar with respect to
the logarithms of the free parameters (in the order of `theta`) and, if asked, with respect to X and Z, given
`bK = d scalar / dK`. What the forward pass computed, K among it, is kept in the closure, so nothing is
evaluated twice, no (n, n, p) tensor is built, and K must not be changed in place before the pull-back.
With `Z=None` the matrix is k(X, X) and the input derivative counts both sides.

Inputs may be NumPy arrays or PyTorch tensors, K is of their kind; derivatives by parameters are always on the host.

Parameters are positive, kept as plain numbers or tuples in natural units; only `theta` is logarithmic. A
kernel is immutable: `with_theta` returns another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from borrow.numerics.linalg import Array, is_tensor, like, namespace


class Gradient(NamedTuple):
    """What a pull-back returns. `X` and `Z` are None unless asked for; `Z` is None when K = k(X, X)."""

    theta: Array
    X: Array | None = None
    Z: Array | None = None


Pullback = Callable[..., Gradient]
#: Step of a difference quotient by an entry of `theta`.
TANGENT_STEP = 1e-6


class Kernel(ABC):
    """A covariance function of inputs. Knows nothing of tasks, targets or the optimiser."""

    @abstractmethod
    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K(X, Z) and its pull-back `(bK, inputs=False) -> Gradient`."""

    @abstractmethod
    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """The diagonal of K(X, X) and its pull-back `(bd, inputs=False) -> Gradient`."""

    @property
    @abstractmethod
    def theta(self) -> Array:
        """Logarithms of the free parameters."""

    n_theta: Any  # int: number of free parameters

    @abstractmethod
    def with_theta(self, theta: Array) -> Self:
        """The same kernel with other free parameters."""

    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """The elementary kernels, in the order of `theta`."""

    @abstractmethod
    def parameter_names(self) -> list[str]:
        """One name for each entry of `theta`."""

    def marks(self, name: str) -> Array:
        """1 where an entry of `theta` is the parameter of this name, 0 elsewhere."""
        last = (n.split(".")[-1].split("[")[0] for n in self.parameter_names())
        return np.array([float(n == name) for n in last])

    def tangents(self, X: Array, weight: Array, v: Array) -> Array:
        """(weight * dk(X, X)/dtheta_j) v, elementwise product, one column for each entry of `theta`.

        By difference quotients, which serve a preconditioner; a kernel that knows better says so.
        """
        theta, K = self.theta, self(X)
        moved = (self.with_theta(theta + TANGENT_STEP * e)(X) for e in np.eye(len(theta)))
        columns = [(weight * (other - K)) @ v / TANGENT_STEP for other in moved]
        return namespace(X).stack(columns, axis=1) if columns else K[:, :0]

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """K(X, Z)."""
        return self.evaluate(X, Z)[0]

    def diag(self, X: Array) -> Array:
        """Diagonal of K(X, X)."""
        return self.evaluate_diag(X)[0]

    def __add__(self, other: Kernel | float) -> Kernel:
        from borrow.kernels.compose import Sum

        return Sum.of(self, as_kernel(other))

    def __mul__(self, other: Kernel | float) -> Kernel:
        from borrow.kernels.compose import Product

        return Product.of(self, as_kernel(other))

    __radd__ = __add__
    __rmul__ = __mul__


def as_kernel(value: Any) -> Kernel:
    """A kernel as it is; a positive number as a constant kernel."""
    from borrow.kernels.dot import Constant

    if isinstance(value, Kernel):
        return value
    if isinstance(value, Real) and float(value) > 0:
        return Constant(float(value))
    raise TypeError(f"expected a kernel or a positive number, got {value!r}")


@dataclass(frozen=True)
class Leaf(Kernel):
    """An elementary kernel: a frozen dataclass whose learnable fields are named in `learnable`.

    Those also named in `per_column` may be one number or one for each column of the inputs.
    """

    fixed: tuple[str, ...] = field(default=(), kw_only=True)

    learnable: ClassVar[tuple[str, ...]] = ()
    per_column: ClassVar[tuple[str, ...]] = ()
    #: Several kernels at once, for blocks of inputs (T, n, d): free parameters are tensors (T, 1, 1) or (T, 1, d).
    stacked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in self.learnable:
            value = np.asarray(getattr(self, name), dtype=float)
            vector = name in self.per_column
            if value.ndim > vector or value.size == 0 or not np.all(np.isfinite(value)) or np.any(value <= 0):
                raise ValueError(
                    f"{type(self).__name__}: {name} must be a positive number"
                    f"{' or a sequence of them' * vector}, got {getattr(self, name)!r}"
                )
            plain = float(value) if value.ndim == 0 else tuple(value.tolist())
            object.__setattr__(self, name, plain)
        fixed = (self.fixed,) if isinstance(self.fixed, str) else tuple(self.fixed)
        object.__setattr__(self, "fixed", fixed)
        unknown = sorted(set(fixed) - set(self.learnable))
        if unknown:
            raise ValueError(
                f"{type(self).__name__}: fixed={fixed!r} names {unknown}; parameters are {', '.join(self.learnable)}"
            )

    @cached_property
    def _free(self) -> tuple[tuple[str, int], ...]:
        return tuple((n, self._entries(n)) for n in self.learnable if n not in self.fixed)

    def free(self) -> tuple[tuple[str, int], ...]:
        """Names and numbers of entries in `theta` of the parameters that are not fixed."""
        return self._free

    @cached_property
    def n_theta(self) -> int:
        """Number of free parameters."""
        return sum(size for _, size in self._free)

    def _entries(self, name: str) -> int:
        return 1 if self._is_tied(name) else np.size(getattr(self, name))

    def _is_tied(self, name: str) -> bool:
        return name == "lengthscale" and getattr(self, "tied", False)

    def leaves(self) -> Iterator[Leaf]:
        """Itself."""
        yield self

    def parameter_names(self) -> list[str]:
        """`lengthscale[0]`, `lengthscale[1]`, ... for vectors."""
        return [n if size == 1 else f"{n}[{i}]" for n, size in self.free() for i in range(size)]

    @property
    def theta(self) -> Array:
        """Logarithms of the free parameters; a tied vector is represented by its geometric mean."""
        logs = [np.log(np.atleast_1d(getattr(self, n))) for n, _ in self.free()]
        parts = [
            np.mean(v, keepdims=True) if self._is_tied(n) else v for (n, _), v in zip(self.free(), logs, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def with_theta(self, theta: Array) -> Self:
        """The same kernel with other free parameters."""
        if len(theta) != self.n_theta:
            raise ValueError(f"{type(self).__name__}: theta has {len(theta)} entries for {self.parameter_names()}")
        new, at = copy(self), 0  # exponentials are positive: no need to check them as the constructor does
        for name, size in self.free():
            old = getattr(self, name)
            step = np.asarray(theta[at : at + size], dtype=float)
            if self._is_tied(name):
                logs = np.log(np.atleast_1d(old))
                step = logs - logs.mean() + step[0]
            value = np.exp(step).tolist()
            object.__setattr__(new, name, tuple(value) if isinstance(old, tuple) else value[0])
            at += size
        return new

    def _columns(self, name: str, X: Array) -> Array:
        """A parameter as one number for each column of X."""
        given, d = getattr(self, name), X.shape[-1]
        if is_tensor(given):
            return given
        value = np.asarray(given, dtype=float)
        if value.ndim == 1 and value.size != d:
            raise ValueError(
                f"{type(self).__name__}: {name} has {value.size} entries and the inputs have {d} columns; "
                "give one number or one for each column"
            )
        return like(X, value if value.ndim else np.full(d, value))

    def _once(self, name: str) -> Any:
        """A parameter that is one number; for several kernels one for each."""
        value = getattr(self, name)
        return value.reshape(-1) if is_tensor(value) else value

    def _gather(self, **by_log: Any) -> Array:
        """Stack derivatives by the log of each parameter in the order of `theta`; one row for each of several kernels.

        Those that come as tensors are brought to the host, all at once.
        """
        parts = []
        for name, _ in self.free():
            g, value = by_log[name], getattr(self, name)
            if is_tensor(g):
                g = g[..., None] if g.ndim == int(self.stacked) else g
                scalar = value.shape[-1] == 1 if self.stacked else np.ndim(value) == 0
                parts.append(g.sum(dim=-1, keepdim=True) if scalar or self._is_tied(name) else g)
                continue
            g = np.atleast_1d(g)
            scalar = np.ndim(value) == 0 or self._is_tied(name)
            parts.append(np.atleast_1d(g.sum()) if scalar else g)
        if parts and is_tensor(parts[0]):
            return namespace(parts[0]).concatenate(parts, axis=-1).cpu().numpy()
        return np.concatenate(parts) if parts else np.zeros(0)

    def __repr__(self) -> str:
        shown = []
        for f in sorted(fields(self), key=lambda f: bool(f.kw_only)):
            value = getattr(self, f.name)
            if value == f.default and f.name not in self.learnable:
                continue
            shown.append(f"{f.name}={_number(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Homogeneous(Leaf):
    """An elementary kernel whose variance is the same at every input."""

    variance: float = 1.0

    def evaluate_diag(self, X: Any) -> tuple[Array, Pullback]:
        """The variance, at every input."""

        def pullback(bd: Array, inputs: bool = False) -> Gradient:
            by_variance = self.variance * float(bd.sum())
            theta = np.array([by_variance if n == "variance" else 0.0 for n in self.parameter_names()])
            return Gradient(theta, namespace(X).zeros_like(X) if inputs else None)

        if is_tensor(X):
            return X.new_full((X.shape[0],), self.variance), pullback
        return np.full(X.shape[0], self.variance), pullback


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return "(" + ", ".join(f"{v:.4g}" for v in value) + (",)" if len(value) == 1 else ")")
    return repr(value)
