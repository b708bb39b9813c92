"""Several kernels as one: sums, products, and one kernel per task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise, repeat
from operator import add, mul
from typing import Any, ClassVar, Self

import numpy as np

from borrow.kernels.base import Gradient, Kernel, Leaf, Pullback
from borrow.numerics.linalg import Array, namespace
from borrow.numerics.stored import stored


@dataclass(frozen=True)
class Composite(Kernel):
    """Several kernels as one; `theta` is theirs, one after the other."""

    parts: tuple[Kernel, ...]

    @classmethod
    def of(cls, *kernels: Kernel) -> Self:
        """Composite of the kernels, with nested ones of the same kind opened up."""
        flat: list[Kernel] = []
        for k in kernels:
            flat.extend(k.parts if isinstance(k, cls) else [k])
        return cls(tuple(flat))

    #: What makes the matrix (or diagonal) of the composite from those of two parts.
    _combine: ClassVar[staticmethod[[Any, Any], Any]]

    @staticmethod
    @abstractmethod
    def _adjoints_of(values: list[Array]) -> Callable[[Array], Iterator[Array]]:
        """From the adjoint of the composite to that of each part, one after the other; keeps only what it needs."""

    @property
    def theta(self) -> Array:
        """The parts' parameters, one after the other."""
        return np.concatenate([k.theta for k in self.parts])

    @cached_property
    def n_theta(self) -> int:
        """Number of free parameters."""
        return sum(k.n_theta for k in self.parts)

    def with_theta(self, theta: Array) -> Self:
        """The same composite with other free parameters."""
        return type(self)(tuple(k.with_theta(t) for k, t in self._split(theta)))

    def form(self) -> Hashable | None:
        """The kind, and the forms of the parts."""
        forms = [k.form() for k in self.parts]
        return None if None in forms else (type(self).__name__, *forms)

    def stack(self, theta: Array, X: Array) -> Self:
        """The composite of the stacked parts."""
        return type(self)(tuple(k.stack(t, X) for k, t in self._split(theta)))

    def _split(self, theta: Array) -> Iterator[tuple[Kernel, Array]]:
        at = 0
        for k in self.parts[:-1]:
            yield k, theta[..., at : at + k.n_theta]
            at += k.n_theta
        yield self.parts[-1], theta[..., at:]

    def leaves(self) -> Iterator[Leaf]:
        """The elementary kernels, in the order of `theta`."""
        for k in self.parts:
            yield from k.leaves()

    def parameter_names(self) -> list[str]:
        """`0.variance`, `0.lengthscale`, `1.variance`, ..."""
        return [f"{i}.{n}" for i, k in enumerate(self.parts) for n in k.parameter_names()]

    def evaluate(self, X: Array, Z: Array | None = None) -> tuple[Array, Pullback]:
        """K and its pull-back."""
        return self._gather([k.evaluate(X, Z) for k in self.parts])

    def evaluate_diag(self, X: Array) -> tuple[Array, Pullback]:
        """Diagonal and its pull-back."""
        return self._gather([k.evaluate_diag(X) for k in self.parts])

    def _gather(self, evaluated: list[tuple[Array, Pullback]]) -> tuple[Array, Pullback]:
        values, ways_back = [v for v, _ in evaluated], [back for _, back in evaluated]
        del evaluated
        adjoints = self._adjoints_of(values)

        def pullback(b: Array, inputs: bool = False) -> Gradient:
            pulled = [back(a, inputs) for back, a in zip(ways_back, adjoints(b), strict=True)]
            theta = np.concatenate([g.theta for g in pulled], axis=-1)
            if not inputs:
                return Gradient(theta)
            return Gradient(theta, _total([g.X for g in pulled]), _total([g.Z for g in pulled]))

        return reduce(self._combine, values), pullback


def _total(gradients: list[Any]) -> Array | None:
    return None if gradients[0] is None else reduce(add, gradients)


@stored("Sum")
@dataclass(frozen=True)
class Sum(Composite):
    """k_1 + k_2 + ...

    Examples
    --------
    >>> from borrow.kernels import Linear, Matern
    >>> Linear() + Matern()
    Linear(variance=1) + Matern(variance=1, lengthscale=1)
    """

    _combine = staticmethod(add)

    @staticmethod
    def _adjoints_of(values: list[Array]) -> Callable[[Array], Iterator[Array]]:
        n = len(values)
        return lambda b: repeat(b, n)

    def tangents(self, X: Array, weight: Array, v: Array) -> Array:
        """Those of the parts, one after the other."""
        return namespace(X).concatenate([k.tangents(X, weight, v) for k in self.parts], axis=-1)

    def knows_tangents(self, columns: int) -> bool:
        """Whether all parts know theirs."""
        return all(k.knows_tangents(columns) for k in self.parts)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@stored("Product")
@dataclass(frozen=True)
class Product(Composite):
    """k_1 k_2 ...

    Examples
    --------
    >>> from borrow.kernels import Linear, Periodic
    >>> Linear() * Periodic(period=7.0)
    Linear(variance=1) * Periodic(variance=1, lengthscale=1, period=7)
    """

    _combine = staticmethod(mul)

    @staticmethod
    def _adjoints_of(values: list[Array]) -> Callable[[Array], Iterator[Array]]:
        # Products of all the others, not the whole divided by one: a kernel may be zero somewhere.
        return lambda b: (reduce(mul, values[:i] + values[i + 1 :], b) for i in range(len(values)))

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in self.parts)


@stored("TaskKernels", state="templates theta parts")
class TaskKernels(Sequence[Kernel | None]):
    """One kernel per task, each made when it is asked for: `templates[t]` with its part of theta."""

    def __init__(self, templates: Sequence[Kernel | None], theta: Array, parts: Sequence[slice]) -> None:
        self.templates, self.theta, self.parts = list(templates), theta, parts

    def __len__(self) -> int:
        return len(self.templates)

    def __getitem__(self, t: Any) -> Any:
        if isinstance(t, slice):
            parts = self.parts[t]
            first, last = (parts[0].start, parts[-1].stop) if parts else (0, 0)
            moved = [slice(at.start - first, at.stop - first) for at in parts]
            return TaskKernels(self.templates[t], self.theta[first:last], moved)
        kernel = self.templates[t]
        return None if kernel is None else kernel.with_theta(self.theta[self.parts[t]])

    @classmethod
    def of(cls, kernels: Sequence[Kernel | None]) -> TaskKernels:
        """Kernels that are there already."""
        if isinstance(kernels, TaskKernels):
            return kernels
        thetas = [np.zeros(0) if k is None else k.theta for k in kernels]
        parts = [slice(int(i), int(j)) for i, j in pairwise(np.cumsum([0, *map(len, thetas)]))]
        return cls(kernels, np.concatenate(thetas) if thetas else np.zeros(0), parts)

    def forms(self) -> list[Hashable]:
        """The form of each task's kernel: "none" without one; a number where it cannot be stacked with any other."""
        known = {id(k): k.form() for k in {id(k): k for k in self.templates if k is not None}.values()}
        forms = ("none" if k is None else known[id(k)] for k in self.templates)
        return [t if form is None else form for t, form in enumerate(forms)]

    def stacked(self, tasks: Sequence[int], X: Any) -> Any:
        """The kernels of these tasks, which have one form, for blocks of X."""
        template: Any = self.templates[tasks[0]]
        return template.stack(np.stack([self.theta[self.parts[t]] for t in tasks]), X)
