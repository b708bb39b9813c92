"""The hierarchical model's groups on a device: several as one, with leading axes, padded to the rows of the largest.

A padded row has a unit site, no target and no covariance with the others: its part of A is the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.covariance import SharedCovariance
from borrow.covariance.layout import MOST_ENTRIES, alike
from borrow.data.cells import Cells
from borrow.inference.exact import exact
from borrow.inference.likelihoods import Gaussian
from borrow.kernels import Kernel
from borrow.models.hierarchical.basis import Basis
from borrow.numerics.device import Device
from borrow.numerics.linalg import Array, namespace, to_host
from borrow.numerics.optimise import Objective, Values
from borrow.tasks.placed import PlacedTasks


@dataclass(frozen=True)
class Bundle:
    """Groups of one number of tasks each, T of them, n rows; the interface of `Group`."""

    tasks: Any  # (T, tasks)
    rows: Any  # (T, n) positions where theta is f, else None
    Phi: Any  # (T, n, p), where it is not
    count: Any  # (T, n), 0 for padding
    real: Any  # (T, n)
    Y: Any  # (T, n, tasks)
    sizes: tuple[int, ...]
    members: tuple[int, ...]  # numbers of the groups

    @property
    def n_cells(self) -> int:
        """Cells of all tasks."""
        return sum(self.sizes) * int(self.Y.shape[-1])

    def sites(self, noise: float) -> Any:
        """Noise variance of every row."""
        return namespace(self.count).where(self.real > 0, noise / self.count.clip(1e-300), 1.0)

    def targets(self, mu: Any) -> Any:
        """y - mu_l, one column a task."""
        of = mu[self.rows] if self.Phi is None else self.Phi @ mu
        return self.Y - (self.real * of)[..., None]

    def within(self, K: Any) -> Any:
        """Phi_l K Phi_l', zero where there is padding."""
        if self.Phi is not None:
            S = self.Phi @ K @ self.Phi.swapaxes(-1, -2)
            return 0.5 * (S + S.swapaxes(-1, -2))
        A = K[self.rows[:, :, None], self.rows[:, None, :]]
        A *= self.real[:, :, None]
        A *= self.real[:, None, :]
        return A

    def add(self, V: Any, a: Any) -> None:
        """Phi_l'a into the columns of the tasks; padding adds nothing."""
        if self.Phi is None:
            V.index_put_((self.rows[:, :, None], self.tasks[:, None, :]), a, accumulate=True)
        else:
            V[:, self.tasks.reshape(-1)] = (self.Phi.swapaxes(-1, -2) @ a).swapaxes(0, 1).reshape(len(V), -1)

    def add_square(self, B: Any, S: Any) -> None:
        """B + sum_l Phi_l'S Phi_l, in place; entries are summed in a fixed order."""
        if self.Phi is None:
            S = S * self.real[:, :, None] * self.real[:, None, :]
            B.index_put_((self.rows[:, :, None], self.rows[:, None, :]), S, accumulate=True)
        else:
            half = (S @ self.Phi).reshape(-1, len(B))
            B += self.Phi.reshape(-1, len(B)).T @ half

    def each(self, L: Any) -> dict[int, Any]:
        """The factors of the groups by their number, without padding."""
        return {g: L[i, :n, :n] for i, (g, n) in enumerate(zip(self.members, self.sizes, strict=True))}


def bundle(groups: list[Any], like: Any) -> list[Bundle]:
    """The groups beside the tensor `like`: those of as many tasks and about as many rows together."""
    by_tasks: dict[int, list[int]] = {}
    sizes = np.array([len(g.Y) for g in groups], dtype=np.intp)
    for i in np.argsort(-sizes, kind="stable").tolist():
        by_tasks.setdefault(len(groups[i].tasks), []).append(i)
    out = []
    for members in by_tasks.values():
        for near in alike(members, sizes):
            wide = 0 if groups[near[0]].Phi is None else int(sizes[near[0]]) * groups[near[0]].Phi.shape[1]
            most = max(1, MOST_ENTRIES // wide) if wide else len(near)
            parts = [near[k : k + most] for k in range(0, len(near), most)]
            out += [_together(groups, part, Device(str(like.device))) for part in parts]
    return out


def _together(all_groups: list[Any], members: list[int], device: Device) -> Bundle:
    groups = [all_groups[i] for i in members]
    n, T, tasks = max(len(g.Y) for g in groups), len(groups), len(groups[0].tasks)
    count, real, Y = np.zeros((T, n)), np.zeros((T, n)), np.zeros((T, n, tasks))
    rows = np.zeros((T, n), dtype=np.intp)
    Phi = None if groups[0].Phi is None else np.zeros((T, n, groups[0].Phi.shape[1]))
    for i, g in enumerate(groups):
        k = len(g.Y)
        count[i, :k], real[i, :k], Y[i, :k] = g.count, 1.0, g.Y
        if Phi is None:
            rows[i, :k] = g.rows
        else:
            Phi[i, :k] = g.Phi
    codes = np.stack([g.tasks for g in groups])
    place = None if Phi is not None else device.put(rows)
    there = None if Phi is None else device.put(Phi)
    sizes = tuple(len(g.Y) for g in groups)
    put = device.put
    return Bundle(put(codes), place, there, put(count), put(real), put(Y), sizes, tuple(members))


def basis_there(basis: Basis, device: Device) -> Basis:
    """The matrices of a basis on the device; inputs stay on the host."""
    put = device.put
    Phi, W = (None if v is None else put(v) for v in (basis.Phi, basis.W))
    return replace(basis, prior=put(basis.prior), factor=put(basis.factor), Phi=Phi, W=W)


def on_host(problem: Any, basis: Basis, state: Any, moments: Any) -> tuple[Any, Any, Any]:
    """What a fit keeps, as NumPy arrays: problem, state and moments."""
    state = replace(state, mu=to_host(state.mu), K=to_host(state.K))
    moments = replace(moments, D=to_host(moments.D), gain=to_host(moments.gain))
    return replace(problem, basis=basis, bundles=None), state, moments


def base_objective_there(kernel: Kernel, X: Array, cells: Cells, device: Device) -> Objective:
    """The objective of `hierarchical_search.base_objective` by the blocks of `SharedCovariance`."""
    M = len(cells.starts) - 1
    tasks = PlacedTasks(replace(cells, X=X[cells.X[:, 0].astype(np.intp)]), device=device)

    def objective(values: Values) -> tuple[float, Values]:
        at, noise = kernel.with_theta(values["kernel"]), np.full(M, float(np.exp(values["noise"][0])))
        fit = exact(SharedCovariance(tasks, [], [], np.zeros((M, 0)), [at] * M), Gaussian(tasks.cells, noise))
        adjoints, by = fit.gradient()
        theta = sum((g for g in adjoints.specific if g is not None), np.zeros(kernel.n_theta))
        return fit.evidence, {"kernel": theta, "noise": np.array([by["noise"].sum()])}

    return objective
