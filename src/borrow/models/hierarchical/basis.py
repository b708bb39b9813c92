"""What theta is in the hierarchical model: f at the inputs, f on the eigenvectors of kappa, or weights of columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from borrow.data.cells import Codes
from borrow.kernels import Constant, Kernel, Linear, Sum
from borrow.numerics.device import Device
from borrow.numerics.linalg import (
    Array,
    NotPositiveDefiniteError,
    add_at,
    cholesky,
    diagonal,
    namespace,
    row_dots,
    solve,
    symmetric_eigen,
)

#: Eigenvalues of kappa below this share of the largest are rounding.
RANK_TOLERANCE = 1e-12
#: Pivots of kappa's factor below this share of the largest: its inverse would be rounding.
PIVOT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Features:
    """Phi, one row phi(x) per labelled input. Where theta is f these are unit vectors, known by their positions.

    Leading axes stand for several such matrices at once, on a device.
    """

    at: Any  # (..., n) positions of the ones, or (..., n, p) the rows themselves
    unit: bool

    def times(self, v: Array) -> Array:
        """Phi v."""
        return v[self.at] if self.unit else self.at @ v

    def between(self, K: Array, other: Features) -> Array:
        """Phi K Phi_other', a fresh array."""
        if self.unit:
            return K[self.at[..., :, None], other.at[..., None, :]]
        return self.at @ K @ other.at.swapaxes(-1, -2)

    def variances(self, K: Array) -> Array:
        """The diagonal of Phi K Phi'."""
        return diagonal(K)[self.at] if self.unit else row_dots(self.at @ K, self.at)

    def of_tasks(self, theta: Array, tasks: Codes) -> Array:
        """The functions of these tasks, Phi theta[:, tasks], one column per task."""
        if self.unit:
            return theta[self.at[..., :, None], tasks[..., None, :]]
        return self.at @ namespace(theta).moveaxis(theta[:, tasks], 0, -2)

    def add(self, V: Array, tasks: Codes, a: Array) -> None:
        """Phi'a into the columns of these tasks, in place."""
        if self.unit:
            add_at(V, (self.at[..., :, None], tasks[..., None, :]), a)
        else:
            columns = namespace(a).moveaxis(self.at.swapaxes(-1, -2) @ a, -2, 0)
            V[:, tasks.reshape(-1)] = columns.reshape(len(V), -1)

    def add_square(self, S: Array, inner: Array) -> None:
        """S + Phi'inner Phi, in place; entries are summed in a fixed order."""
        if self.unit:
            add_at(S, (self.at[..., :, None], self.at[..., None, :]), inner)
        else:
            S += self.at.reshape(-1, len(S)).T @ (inner @ self.at).reshape(-1, len(S))


def at_positions(positions: Codes, Phi: Array | None) -> Features:
    """phi of some labelled inputs; Phi is that of all, None where phi are unit vectors."""
    return Features(positions, True) if Phi is None else Features(Phi[positions], False)


@dataclass(frozen=True)
class Basis:
    """What theta is. `Phi` holds phi of the labelled inputs, None where theta is f at those inputs."""

    kernel: Kernel
    Z: Any
    prior: Array
    factor: Array  # of `prior`
    Phi: Array | None = None
    W: Array | None = None  # phi(x) = k(x, Z) W; None stands for kappa^-1

    def phi(self, X: Any) -> Array:
        """phi(x) of new inputs, one per row."""
        k = np.asarray(self.kernel(X, self.Z))
        return solve(self.factor, k.T).T if self.W is None else k @ self.W

    @cached_property
    def gram(self) -> Array | None:
        """Phi'Phi; None for the identity."""
        return None if self.Phi is None else self.Phi.T @ self.Phi

    def on(self, device: Device | None) -> Basis:
        """The same with its matrices on the device; inputs stay on the host."""
        if device is None:
            return self
        Phi, W = (None if v is None else device.put(v) for v in (self.Phi, self.W))
        return replace(self, prior=device.put(self.prior), factor=device.put(self.factor), Phi=Phi, W=W)


def function_basis(kernel: Kernel, X: Any) -> Basis:
    """Theta is f at the inputs (Models 2 and 3), or on the eigenvectors of kappa where that is singular."""
    kappa = np.array(kernel(X))
    try:
        L = cholesky(kappa)
        pivots = np.diagonal(L) ** 2
        if pivots.min(initial=np.inf) > PIVOT_TOLERANCE * pivots.max(initial=0.0):
            return Basis(kernel, X, kappa, L)
    except NotPositiveDefiniteError:
        pass
    values, vectors = symmetric_eigen(kappa)
    kept = values > RANK_TOLERANCE * max(float(values[-1]), np.finfo(float).tiny)
    roots, V = np.sqrt(values[kept]), vectors[:, kept]
    unit = np.eye(len(roots), order="F")
    return Basis(kernel, X, unit, unit, V * roots, V / roots)


def weight_basis(kernel: Kernel, X: Any) -> Basis:
    """Theta are the weights of the columns (Model 1): Z the unit vectors, and zero where there is an offset."""
    parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
    d = X.shape[1]
    v = np.sum([np.broadcast_to(k.variance, d) for k in parts if isinstance(k, Linear)], axis=0)
    c = float(sum(k.variance for k in parts if isinstance(k, Constant)))
    dense = X.toarray() if sparse.issparse(X) else X
    Phi, W, Z = dense * np.sqrt(v), np.diag(1.0 / np.sqrt(v)), np.eye(d)
    if c > 0:
        Phi = np.column_stack([Phi, np.full(len(Phi), np.sqrt(c))])
        W = np.vstack([W, -1.0 / np.sqrt(v)])
        W = np.column_stack([W, np.append(np.zeros(d), 1.0 / np.sqrt(c))])
        Z = np.vstack([Z, np.zeros(d)])
    unit = np.eye(Phi.shape[1], order="F")
    return Basis(kernel, sparse.csr_array(Z) if sparse.issparse(X) else Z, unit, unit, Phi, W)


def is_linear(kernel: Kernel) -> bool:
    """A linear kernel, with or without an offset."""
    parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
    plain = all(isinstance(k, Linear | Constant) for k in parts)
    return plain and any(isinstance(k, Linear) for k in parts)


def basis_of(kernel: Kernel, X: Any) -> Basis:
    """Model 1 for a linear kernel with fewer columns than inputs, else function space."""
    return weight_basis(kernel, X) if is_linear(kernel) and X.shape[1] < X.shape[0] else function_basis(kernel, X)
