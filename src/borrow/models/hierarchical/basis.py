"""What theta is in the hierarchical model: f at the inputs, f on the eigenvectors of kappa, or weights of columns.

Rows are in groups: tasks that see the same inputs are one group, and one factor serves them all.
A row of count 0 is held out: it is predicted and not seen. On a device several groups of as many tasks and about as
many rows are one, with a leading axis, padded to the rows of the largest. A padded row has no target, a unit site, and
a phi of zero: where phi are unit vectors its position is -1, the last, and the E-step adds a last entry of zero to
mu, and a last row and column to K. So its part of a matrix that is factored is the identity, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from borrow.covariance.layout import MOST_ENTRIES, alike
from borrow.data.cells import Cells, Codes
from borrow.inference.likelihoods import within_cells
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
from borrow.numerics.stored import stored
from borrow.tasks.placed import TaskShard

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
        """The product of the basis functions at these rows with a vector."""
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


@stored("hierarchical-basis")
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

    @property
    def n_inputs(self) -> int:
        """Number of labelled inputs."""
        return len(self.prior if self.Phi is None else self.Phi)

    @cached_property
    def gram(self) -> Array | None:
        """Phi'Phi; None for the identity."""
        return None if self.Phi is None else self.Phi.T @ self.Phi

    def placed(self, put: Callable[[Any], Any]) -> Basis:
        """The same with its matrices put where others are; inputs stay on the host."""
        Phi, W = (None if v is None else put(v) for v in (self.Phi, self.W))
        return replace(self, prior=put(self.prior), factor=put(self.factor), Phi=Phi, W=W)


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


@dataclass(frozen=True)
class Group:
    """Tasks that see the same rows; those of several groups on a device."""

    tasks: Codes  # (..., tasks)
    seen: Features  # Phi_l of n_l rows
    held: Features  # phi of rows that are held out
    held_cells: Codes  # (..., held rows, tasks): their cells, -1 for padding; on the host
    count: Array  # (..., n_l), 0 for padding
    Y: Array  # (..., n_l, tasks)
    n_cells: int

    def sites(self, noise: float) -> Array:
        """The noise variance of every row."""
        return namespace(self.count).where(self.count > 0, noise / self.count.clip(1e-300), 1.0)


@dataclass(frozen=True)
class GroupShard(TaskShard):
    """Some tasks in groups. dof, scatter and log_constant are what rows say about the noise alone."""

    on_host: list[Group] = field(default_factory=list)
    dof: float = 0.0
    scatter: float = 0.0
    log_constant: float = 0.0

    @cached_property
    def groups(self) -> list[Group]:
        """The groups where they are computed: a shard travels with those on the host, and its worker batches them."""
        return _batches(self.on_host, self.put) if self.batched else self.on_host

    def log_noise_density(self, noise: float) -> tuple[float, float]:
        """The log density of what rows say about the noise alone; by log noise."""
        value, by_noise = within_cells(self.dof, self.scatter, noise)
        return self.log_constant + float(value), float(by_noise)


def tasks_of_equal_rows(cells: Cells) -> list[list[int]]:
    """Tasks with the same inputs and counts together; tasks without a row are left out."""
    keys: dict[bytes, list[int]] = {}
    for t in range(cells.n_tasks):
        at = cells.of(t)
        if at.start < at.stop:
            keys.setdefault(cells.X[at].tobytes() + cells.count[at].tobytes(), []).append(t)
    return list(keys.values())


def in_groups(cells: Cells, device: Device | None = None, Phi: Array | None = None) -> GroupShard:
    """The groups of these tasks, where they are computed; tasks of which no row is seen are left out.

    The only column of `cells.X` is the position of the input. Phi holds phi of all labelled inputs; None where these
    are unit vectors.
    """
    position, groups = cells.X[:, 0].astype(np.intp), []
    dof, scatter, log_constant = float(cells.dof.sum()), float(cells.scatter.sum()), float(cells.log_count.sum())
    for tasks in map(np.array, tasks_of_equal_rows(cells)):
        rows = np.arange(cells.starts[tasks[0]], cells.starts[tasks[0] + 1])
        is_seen = cells.count[rows] > 0
        seen, held = rows[is_seen], rows[~is_seen]
        if not len(seen):
            continue
        further = cells.starts[tasks] - cells.starts[tasks[0]]  # from a row of the first task to that of another
        Y, count = cells.y[seen[:, None] + further], cells.count[seen]
        features, new = (at_positions(position[at], Phi) for at in (seen, held))
        if Phi is not None:  # rows of unit noise; where they outnumber theta, the rest of their space is noise alone
            root = np.sqrt(count)[:, None]
            weighted, Y = root * features.at, root * Y
            log_constant += 0.5 * float(np.log(count).sum()) * len(tasks)
            if len(weighted) > weighted.shape[1]:
                Q, R = np.linalg.qr(weighted)
                inside = Q.T @ Y
                dof += (len(weighted) - len(R)) * len(tasks)
                scatter += float(np.sum((Y - Q @ inside) ** 2))
                weighted, Y = R, inside
            features, count = Features(weighted, False), np.ones(len(weighted))
        groups.append(Group(tasks, features, new, held[:, None] + further, count, Y, Y.size))
    return GroupShard(cells, device, on_host=groups, dof=dof, scatter=scatter, log_constant=log_constant)


def _batches(groups: list[Group], put: Callable[[Any], Any]) -> list[Group]:
    """Groups of as many tasks and about as many rows as one, put where they are computed."""
    by_tasks: dict[int, list[int]] = {}
    sizes = np.array([len(g.Y) for g in groups], dtype=np.intp)
    for i in np.argsort(-sizes, kind="stable").tolist():
        by_tasks.setdefault(len(groups[i].tasks), []).append(i)
    out = []
    for near in (near for members in by_tasks.values() for near in alike(members, sizes)):
        first = groups[near[0]].seen
        most = len(near) if first.unit else max(1, MOST_ENTRIES // max(first.at.size, 1))
        out += [_as_one([groups[i] for i in near[k : k + most]], put) for k in range(0, len(near), most)]
    return out


def _as_one(groups: list[Group], put: Callable[[Any], Any]) -> Group:
    """Groups of as many tasks, padded to the rows of the largest, along a leading axis."""
    unit = groups[0].seen.unit
    seen, held = (
        Features(put(_stacked([f.at for f in parts], -1 if unit else 0)), unit)
        for parts in ([g.seen for g in groups], [g.held for g in groups])
    )
    count, Y = (put(_stacked(parts, 0)) for parts in ([g.count for g in groups], [g.Y for g in groups]))
    held_cells = _stacked([g.held_cells for g in groups], -1)
    tasks = put(np.stack([g.tasks for g in groups]))
    return Group(tasks, seen, held, held_cells, count, Y, sum(g.n_cells for g in groups))


def _stacked(parts: Sequence[Any], fill: int) -> Any:
    """Arrays along a new leading axis, each with as many rows of `fill` after its own as the longest needs."""
    out = np.full((len(parts), max(len(v) for v in parts), *parts[0].shape[1:]), fill, dtype=parts[0].dtype)
    for whole, part in zip(out, parts, strict=True):
        whole[: len(part)] = part
    return out
