"""What a kernel owes: K, its diagonal, and a pull-back from an adjoint matrix to parameters and inputs.

`evaluate(X, Z)` returns `(K, pullback)`; `pullback(bK)` returns the derivative of a scalar with respect to the
logarithms of the free parameters (in the order of `theta`) and, if asked, with respect to X and Z, given
`bK = d scalar / dK`. What the forward pass computed is kept in the closure, so nothing is evaluated twice and no
(n, n, p) tensor is built. With `Z=None` the matrix is k(X, X) and the input derivative counts both sides.

Parameters are positive, kept as plain numbers or tuples in natural units; only `theta` is logarithmic. A kernel is
immutable: `with_theta` returns another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from borrow.linalg import Array


class Gradient(NamedTuple):
    """What a pull-back returns. `X` and `Z` are None unless asked for; `Z` is None when K = k(X, X)."""

    theta: Array
    X: Array | None = None
    Z: Array | None = None


Pullback = Callable[..., Gradient]


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

    @abstractmethod
    def with_theta(self, theta: Array) -> Self:
        """The same kernel with other free parameters."""

    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """The elementary kernels, in the order of `theta`."""

    @abstractmethod
    def parameter_names(self) -> list[str]:
        """One name for each entry of `theta`."""

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
    if isinstance(value, (int, float)) and value > 0:
        return Constant(float(value))
    raise TypeError(f"expected a kernel or a positive number, got {value!r}")


@dataclass(frozen=True)
class Leaf(Kernel):
    """An elementary kernel: a frozen dataclass whose learnable fields are named in `learnable`."""

    learnable: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.learnable:
            value = np.asarray(getattr(self, name), dtype=float)
            if value.ndim > 1 or value.size == 0 or not np.all(np.isfinite(value)) or np.any(value <= 0):
                raise ValueError(
                    f"{type(self).__name__}: {name} must be a positive number or a sequence of them, "
                    f"got {getattr(self, name)!r}"
                )
            plain = float(value) if value.ndim == 0 else tuple(value.tolist())
            object.__setattr__(self, name, plain)
        fixed = getattr(self, "fixed", ())
        unknown = set(fixed) - set(self.learnable)
        if unknown:
            raise ValueError(
                f"{type(self).__name__}: fixed={tuple(fixed)!r} names {sorted(unknown)}; "
                f"parameters are {', '.join(self.learnable)}"
            )

    def free(self) -> list[tuple[str, int]]:
        """Names and numbers of entries in `theta` of the parameters that are not fixed."""
        return [(n, self._entries(n)) for n in self.learnable if n not in self.fixed]  # type: ignore[attr-defined]

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
            np.mean(v, keepdims=True) if self._is_tied(n) else v
            for (n, _), v in zip(self.free(), logs, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def with_theta(self, theta: Array) -> Self:
        """The same kernel with other free parameters."""
        changes: dict[str, Any] = {}
        at = 0
        for name, size in self.free():
            old = getattr(self, name)
            step = np.asarray(theta[at : at + size], dtype=float)
            if self._is_tied(name):
                logs = np.log(np.atleast_1d(old))
                step = logs - logs.mean() + step[0]
            new = np.exp(step)
            changes[name] = float(new[0]) if np.ndim(old) == 0 else tuple(new.tolist())
            at += size
        return replace(self, **changes)

    def _gather(self, **by_log: Array | float) -> Array:
        """Stack derivatives by the log of each parameter in the order of `theta`."""
        parts = []
        for name, _ in self.free():
            g = np.atleast_1d(by_log[name])
            scalar = np.ndim(getattr(self, name)) == 0 or self._is_tied(name)
            parts.append(np.atleast_1d(g.sum()) if scalar else g)
        return np.concatenate(parts) if parts else np.zeros(0)

    def __repr__(self) -> str:
        shown = []
        for f in fields(self):
            value = getattr(self, f.name)
            if value == f.default and f.name not in self.learnable:
                continue
            shown.append(f"{f.name}={_number(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return "(" + ", ".join(f"{v:.4g}" for v in value) + (",)" if len(value) == 1 else ")")
    return repr(value)
