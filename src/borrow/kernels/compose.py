"""Sums and products of kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add, mul
from typing import Any, Self

import numpy as np

from borrow.kernels.base import Gradient, Kernel, Leaf, Pullback
from borrow.numerics.linalg import Array


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

    @staticmethod
    @abstractmethod
    def _combine(values: list[Array]) -> Array:
        """The matrix (or diagonal) of the composite."""

    @staticmethod
    @abstractmethod
    def _adjoints(values: list[Array], b: Array) -> list[Array]:
        """The adjoint of each part's matrix."""

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
        cuts = np.cumsum([k.n_theta for k in self.parts])[:-1]
        new = tuple(k.with_theta(t) for k, t in zip(self.parts, np.split(theta, cuts), strict=True))
        return type(self)(new)

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
        values = [v for v, _ in evaluated]

        def pullback(b: Array, inputs: bool = False) -> Gradient:
            pulled = [back(a, inputs) for (_, back), a in zip(evaluated, self._adjoints(values, b), strict=True)]
            theta = np.concatenate([g.theta for g in pulled], axis=-1)
            if not inputs:
                return Gradient(theta)
            return Gradient(theta, _total([g.X for g in pulled]), _total([g.Z for g in pulled]))

        return self._combine(values), pullback


def _total(gradients: list[Any]) -> Array | None:
    return None if gradients[0] is None else reduce(add, gradients)


@dataclass(frozen=True)
class Sum(Composite):
    """k_1 + k_2 + ..."""

    @staticmethod
    def _combine(values: list[Array]) -> Array:
        return reduce(add, values)

    @staticmethod
    def _adjoints(values: list[Array], b: Array) -> list[Array]:
        return [b] * len(values)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@dataclass(frozen=True)
class Product(Composite):
    """k_1 k_2 ..."""

    @staticmethod
    def _combine(values: list[Array]) -> Array:
        return reduce(mul, values)

    @staticmethod
    def _adjoints(values: list[Array], b: Array) -> list[Array]:
        # Products of all the others, not the whole divided by one: a kernel may be zero somewhere.
        return [reduce(mul, [v for j, v in enumerate(values) if j != i], b) for i in range(len(values))]

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in self.parts)
