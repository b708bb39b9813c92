"""What theta is in the hierarchical model: f at the inputs, f on the eigenvectors of kappa, or weights of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from borrow.data.cells import Codes
from borrow.kernels import Constant, Kernel, Linear, Sum
from borrow.numerics.linalg import Array, NotPositiveDefiniteError, cholesky, solve, symmetric_eigen

#: Eigenvalues of kappa below this share of the largest are rounding.
RANK_TOLERANCE = 1e-12
#: Pivots of kappa's factor below this share of the largest: its inverse would be rounding.
PIVOT_TOLERANCE = 1e-9


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
        """phi(x) of new inputs, one a row."""
        k = np.asarray(self.kernel(X, self.Z))
        return solve(self.factor, k.T).T if self.W is None else k @ self.W

    def at(self, positions: Codes) -> Array:
        """phi of labelled inputs."""
        return np.eye(len(self.prior))[positions] if self.Phi is None else self.Phi[positions]


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
