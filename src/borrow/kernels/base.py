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
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from borrow.numerics.linalg import Array, as_type_of, is_tensor, namespace, to_host


class Gradient(NamedTuple):
    """What a pull-back returns. `X` and `Z` are None unless asked for; `Z` is None when K = k(X, X).

    Examples
    --------
    >>> import numpy as np
    >>> from borrow.kernels import SquaredExponential
    >>> K, pullback = SquaredExponential(2.0, 0.5).evaluate(np.array([[0.0], [1.0]]))
    >>> pullback(np.ones((2, 2))).theta.round(2)  # of the sum of K, by the logs of variance and lengthscale
    array([4.54, 2.17])
    """

    theta: Array
    X: Array | None = None
    Z: Array | None = None


class Pullback(Protocol):
    """The way back from the adjoint of a matrix, or of its diagonal, to what it was made of."""

    def __call__(self, b: Array, /, inputs: bool = False) -> Gradient:
        """Derivatives by `theta`, and by the inputs if asked; b stays as it is."""


#: Step of a difference quotient by an entry of `theta`.
TANGENT_STEP = 1e-6


class Kernel(ABC):
    """A covariance function of inputs. Knows nothing of tasks, targets or the optimiser.

    The contract of every kernel: K and its diagonal, each with a pull-back; free parameters as logarithms in `theta`,
    with a name for each; another kernel for other parameters. `borrow.testing.check_kernel` holds a kernel to it.

    Examples
    --------
    >>> from borrow.kernels import Constant, Matern
    >>> kernel = Matern(2.0, 3.0) + Constant(0.5)
    >>> kernel.parameter_names()
    ['0.variance', '0.lengthscale', '1.variance']
    >>> kernel.with_theta(kernel.theta - kernel.theta)
    Matern(variance=1, lengthscale=1) + Constant(variance=1)
    """

    @abstractmethod
    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K(X, Z) and its pull-back."""

    @abstractmethod
    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """The diagonal of K(X, X) and its pull-back."""

    @property
    @abstractmethod
    def theta(self) -> Array:
        """Logarithms of the free parameters."""

    @property
    @abstractmethod
    def n_theta(self) -> int:
        """Number of free parameters."""

    @abstractmethod
    def with_theta(self, theta: Array) -> Self:
        """The same kernel with other free parameters."""

    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """The elementary kernels, in the order of `theta`."""

    @abstractmethod
    def parameter_names(self) -> list[str]:
        """One name for each entry of `theta`."""

    @abstractmethod
    def form(self) -> Hashable | None:
        """What two kernels must have in common to be stacked; None for a kernel that cannot be."""

    @abstractmethod
    def stack(self, theta: Array, X: Array) -> Self:
        """The kernel with row t of theta (T, p) for block t of X (T, n, d): K is (T, n, n), derivatives are (T, p).

        Only for tensors, and kernels that have a form; on the host one block after the other is as fast.
        """

    def mask_of(self, name: str) -> Array:
        """1 where an entry of `theta` is the parameter of this name, 0 elsewhere."""
        last = (n.split(".")[-1].split("[")[0] for n in self.parameter_names())
        return np.array([float(n == name) for n in last])

    def tangents(self, X: Array, weight: Array, v: Array) -> Array:
        """(weight * dk(X, X)/dtheta_j) v, elementwise product, one column for each entry of `theta`.

        By difference quotients, which serve a preconditioner; a kernel that `knows_tangents` has them exactly, stacked
        for blocks of X and v.
        """
        theta, K = self.theta, self(X)
        moved = (self.with_theta(theta + TANGENT_STEP * e)(X) for e in np.eye(len(theta)))
        columns = [(weight * (other - K)) @ v / TANGENT_STEP for other in moved]
        return namespace(X).stack(columns, axis=1) if columns else K[:, :0]

    def knows_tangents(self, columns: int) -> bool:
        """Whether `tangents` are exact, of stacked kernels too, for inputs of so many columns."""
        return False

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """The matrix K(X, Z) alone."""
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

    Examples
    --------
    >>> from borrow.kernels import Matern
    >>> Matern(2.0, (0.5, 3.0), fixed=("variance",)).parameter_names()
    ['lengthscale[0]', 'lengthscale[1]']
    """

    fixed: tuple[str, ...] = field(default=(), kw_only=True)

    learnable: ClassVar[tuple[str, ...]] = ()
    per_column: ClassVar[tuple[str, ...]] = ()
    #: Whether several of the kind can be evaluated at once (`stack`).
    stackable: ClassVar[bool] = False
    #: Several kernels at once, for blocks of inputs (T, n, d): free parameters are tensors (T, 1, 1) or (T, 1, d).
    stacked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        own: dict[str, Any] = {"fixed": (self.fixed,) if isinstance(self.fixed, str) else tuple(self.fixed)}
        for name in self.learnable:
            value = np.asarray(getattr(self, name), dtype=float)
            vector = name in self.per_column
            if value.ndim > vector or value.size == 0 or not np.all(np.isfinite(value)) or np.any(value <= 0):
                raise ValueError(
                    f"{type(self).__name__}: {name} must be a positive number"
                    f"{' or a sequence of them' * vector}, got {getattr(self, name)!r}"
                )
            own[name] = float(value) if value.ndim == 0 else tuple(value.tolist())
        if unknown := sorted(set(own["fixed"]) - set(self.learnable)):
            names = ", ".join(self.learnable)
            raise ValueError(f"{type(self).__name__}: fixed={own['fixed']!r} names {unknown}; parameters are {names}")
        vars(self).update(own)  # the constructor's arguments as plain numbers and tuples

    def _with(self, **values: Any) -> Self:
        """Another kernel with these values, which are known to be right; the constructor would check them again."""
        new = object.__new__(type(self))
        vars(new).update(vars(self) | values)
        return new

    @cached_property
    def free(self) -> tuple[tuple[str, int], ...]:
        """Names and numbers of entries in `theta` of the parameters that are not fixed."""
        sizes = {n: 1 if self._is_tied(n) else np.size(getattr(self, n)) for n in self.learnable}
        return tuple((n, size) for n, size in sizes.items() if n not in self.fixed)

    @cached_property
    def n_theta(self) -> int:
        """Number of free parameters."""
        return sum(size for _, size in self.free)

    def _is_tied(self, name: str) -> bool:
        return name == "lengthscale" and getattr(self, "tied", False)

    def leaves(self) -> Iterator[Leaf]:
        """The kernel itself is its only elementary part."""
        yield self

    def parameter_names(self) -> list[str]:
        """`lengthscale[0]`, `lengthscale[1]`, ... for vectors."""
        return [n if size == 1 else f"{n}[{i}]" for n, size in self.free for i in range(size)]

    @property
    def theta(self) -> Array:
        """Logarithms of the free parameters; a tied vector is represented by its geometric mean."""
        logs = {name: np.log(np.atleast_1d(getattr(self, name))) for name, _ in self.free}
        parts = [v.mean(keepdims=True) if self._is_tied(name) else v for name, v in logs.items()]
        return np.concatenate(parts) if parts else np.zeros(0)

    def with_theta(self, theta: Array) -> Self:
        """The same kernel with other free parameters."""
        if len(theta) != self.n_theta:
            raise ValueError(f"{type(self).__name__}: theta has {len(theta)} entries for {self.parameter_names()}")
        values = {name: value.tolist() for name, value in self._values(np.asarray(theta, dtype=float))}
        return self._with(**{n: tuple(v) if isinstance(getattr(self, n), tuple) else v[0] for n, v in values.items()})

    def _values(self, theta: Array) -> Iterator[tuple[str, Array]]:
        """The free parameters, from the last axis of theta; a tied vector keeps its ratios."""
        at = 0
        for name, size in self.free:
            step = theta[..., at : at + size]
            if self._is_tied(name):
                logs = np.log(np.atleast_1d(getattr(self, name)))
                step = logs - logs.mean() + step
            yield name, np.exp(step)
            at += size

    def form(self) -> Hashable | None:
        """Kind, sizes, what is fixed, and the ratios of tied lengthscales, which stay whatever their size."""
        if not self.stackable:
            return None
        held = tuple(getattr(self, f.name) for f in fields(self) if f.name not in dict(self.free))
        ratios = None
        if self._is_tied("lengthscale"):
            logs = np.log(getattr(self, "lengthscale"))  # noqa: B009  # a kernel without one is not tied
            ratios = tuple(np.atleast_1d(np.round(logs - logs.mean(), 12)).tolist())
        return type(self).__name__, self.free, held, ratios

    def stack(self, theta: Array, X: Array) -> Self:
        """One kernel of this form for each row of theta."""
        tensors = {name: as_type_of(X, value[:, None, :]) for name, value in self._values(theta)}
        return self._with(stacked=True, **tensors)

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
        return as_type_of(X, value if value.ndim else np.full(d, value))

    def _scalar(self, name: str) -> Any:
        """A parameter that is one number; for several kernels one for each."""
        value = getattr(self, name)
        return value.reshape(-1) if is_tensor(value) else value

    def _gather(self, **by_log: Any) -> Array:
        """Stack derivatives by the log of each parameter in the order of `theta`; one row for each of several kernels.

        Those that come as tensors are brought to the host, all at once.
        """
        parts = []
        for name, size in self.free:
            g = by_log[name] if is_tensor(by_log[name]) else np.asarray(by_log[name], dtype=float)
            g = g[..., None] if g.ndim == int(self.stacked) else g
            parts.append(g.sum(axis=-1, keepdims=True) if size == 1 else g)
        return to_host(namespace(parts[0]).concatenate(parts, axis=-1)) if parts else np.zeros(0)

    def __repr__(self) -> str:
        values = [(f, getattr(self, f.name)) for f in sorted(fields(self), key=lambda f: bool(f.kw_only))]
        shown = [f"{f.name}={_number(v)}" for f, v in values if v != f.default or f.name in self.learnable]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Homogeneous(Leaf):
    """An elementary kernel whose variance is the same at every input."""

    variance: float = 1.0

    def evaluate_diag(self, X: Any) -> tuple[Array, Pullback]:
        """The variance, at every input."""

        def pullback(bd: Array, inputs: bool = False) -> Gradient:
            theta = self.variance * float(bd.sum()) * self.mask_of("variance")
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
