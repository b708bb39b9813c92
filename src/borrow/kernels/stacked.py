"""Kernels of one form with parameters of their own, evaluated at as many blocks of inputs at once.

`stack(kernel, theta, X)` is the kernel with row t of theta (T, p) for block t of X (T, n, d): its `evaluate` gives
(T, n, n), its pull-back derivatives (T, p). Only for tensors; on the host one block after the other is as fast.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np

from borrow.kernels.base import Kernel, Leaf
from borrow.kernels.compose import Composite
from borrow.kernels.dot import Constant
from borrow.kernels.stationary import Matern, RationalQuadratic, SquaredExponential
from borrow.numerics.linalg import Array, like

STACKABLE = (Constant, Matern, RationalQuadratic, SquaredExponential)


def form(kernel: Kernel) -> Hashable | None:
    """What two kernels must have in common to be stacked; None for a kernel that cannot be."""
    if isinstance(kernel, Composite):
        parts = [form(k) for k in kernel.parts]
        return None if None in parts else (type(kernel).__name__, *parts)
    if not isinstance(kernel, STACKABLE):
        return None
    held = {n: getattr(kernel, n) for n in kernel.fixed}
    sizes = tuple(np.size(getattr(kernel, n)) for n in kernel.learnable)
    ratios = kernel.lengthscale if kernel._is_tied("lengthscale") else None  # type: ignore[union-attr]
    return type(kernel).__name__, sizes, tuple(sorted(held.items())), getattr(kernel, "nu", None), _relative(ratios)


def _relative(lengthscale: Any) -> Any:
    """Tied lengthscales keep their ratios, whatever their size."""
    if lengthscale is None or np.ndim(lengthscale) == 0:
        return None
    logs = np.log(lengthscale)
    return tuple(np.round(logs - logs.mean(), 12).tolist())


def stack(kernel: Kernel, theta: Array, X: Any) -> Any:
    """The kernel with parameters of its own for each block of X."""
    if isinstance(kernel, Composite):
        cuts = np.cumsum([k.n_theta for k in kernel.parts])[:-1]
        parts = np.split(theta, cuts, axis=1)
        return type(kernel)(tuple(stack(k, t, X) for k, t in zip(kernel.parts, parts, strict=True)))
    assert isinstance(kernel, Leaf)  # a kernel is one or the other
    new, at = copy(kernel), 0
    for name, size in kernel.free():
        step = theta[:, at : at + size]
        old = np.atleast_1d(getattr(kernel, name))
        if kernel._is_tied(name):
            logs = np.log(old)
            step = logs - logs.mean() + step
        object.__setattr__(new, name, like(X, np.exp(step)[:, None, :]))
        at += size
    object.__setattr__(new, "stacked", True)
    return new


class TaskKernels(Sequence[Kernel | None]):
    """One kernel a task, each made when it is asked for: `templates[t]` with its part of theta."""

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

    def __iter__(self) -> Iterator[Kernel | None]:
        return (self[t] for t in range(len(self)))

    @classmethod
    def of(cls, kernels: Sequence[Kernel | None]) -> TaskKernels:
        """Kernels that are there already."""
        if isinstance(kernels, TaskKernels):
            return kernels
        thetas = [np.zeros(0) if k is None else k.theta for k in kernels]
        ends = np.cumsum([0, *map(len, thetas)])
        parts = [slice(int(i), int(j)) for i, j in pairwise(ends)]
        return cls(kernels, np.concatenate(thetas) if thetas else np.zeros(0), parts)

    def forms(self) -> list[Hashable]:
        """The form of each task's kernel: "none" without one; a number where it cannot be stacked with any other."""
        known: dict[int, Hashable] = {}
        out: list[Hashable] = []
        for t, k in enumerate(self.templates):
            if k is None:
                out.append("none")
                continue
            if id(k) not in known:
                known[id(k)] = form(k)
            out.append(t if known[id(k)] is None else known[id(k)])
        return out

    def stacked(self, tasks: Sequence[int], X: Any) -> Any:
        """The kernels of these tasks, which have one form, for blocks of X."""
        template = self.templates[tasks[0]]
        assert template is not None
        theta = np.stack([self.theta[self.parts[t]] for t in tasks])
        return stack(template, theta, X)
