"""The E-step of the hierarchical model with groups of tasks on workers.

An E-step of a shard is that of its groups alone. What it adds to EM's statistics are sums of (p, p) and (p,),

    B = sum_l Phi_l'A^-1 Phi_l,    V V' and V 1 with V the columns Phi_l'A^-1 (y - mu_l),

from which sum_l (K - C_l) = K B K, sum_l D_l D_l' = K V V' K and sum_l D_l = K V 1: no column of a task travels before
EM has ended. mu, K and the noise go the other way. Held-out rows are answered where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from borrow.data.cells import Codes
from borrow.kernels import Kernel
from borrow.models.hierarchical.model import Group, Moments, Problem, State, group_sums, probe
from borrow.numerics.linalg import (
    Array,
    cholesky,
    gram_minus_inverse,
    log_determinant,
    solve_lower,
    solve_lower_transposed,
)
from borrow.tasks.placed import PlacedShards
from borrow.tasks.workers import Workers, bounds_of_shards


@dataclass(frozen=True)
class GroupShard:
    """Some groups of a problem, their tasks counted from 0, and what is held out of each."""

    problem: Problem
    held: list[Codes] | None


class SpreadGroups(PlacedShards[GroupShard]):
    """The groups of a problem on workers, placed when they are first needed."""

    def __init__(self, workers: Workers) -> None:
        self.workers = self._workers = workers
        self.source: tuple[Problem, list[Codes] | None] | None = None

    def of(self, problem: Problem, held: list[Codes] | None) -> SpreadGroups:
        """The groups of this problem, and what is held out of each: those that were asked for first."""
        self.source = self.source or (problem, held)
        return self

    def cut(self, spread: bool) -> tuple[list[slice], list[GroupShard]]:
        """What merged rows add to the evidence counts in the first shard."""
        assert self.source is not None  # asked for by `expect_spread`
        problem, held = self.source
        bounds = _bounds(problem)
        self.tasks = [np.concatenate([g.tasks for g in problem.groups[at]]) for at in bounds]
        slim = replace(problem.basis, prior=np.zeros((0, 0)), factor=np.zeros((0, 0)), W=None)
        shards = []
        for i, (at, tasks) in enumerate(zip(bounds, self.tasks, strict=True)):
            groups, first = [], 0
            for g in problem.groups[at]:
                groups.append(replace(g, tasks=np.arange(first, first + len(g.tasks))))
                first += len(g.tasks)
            own = (problem.dof, problem.scatter, problem.log_constant) if i == 0 else (0.0, 0.0, 0.0)
            shards.append(GroupShard(Problem(slim, groups, len(tasks), *own), None if held is None else held[at]))
        return bounds, shards


def _bounds(problem: Problem) -> list[slice]:
    return bounds_of_shards([len(g.Y) * g.Y.shape[1] for g in problem.groups])


def expect_spread(state: State, problem: Problem, moments: bool, held: list[Codes] | None) -> Moments:
    """The posterior of every task, as `hierarchical.expect` has it."""
    spread: SpreadGroups = problem.spread.of(problem, held)
    columns, K = held is None and not moments, state.K
    residual, evidence, B, VV, V1, answers, V = spread.total(_expect_shard, (state, columns, moments))
    gain = K @ B @ K if moments else np.zeros_like(K)
    if not columns:
        return Moments(np.zeros((len(K), 0)), gain, residual, evidence, answers, (K @ VV @ K, K @ V1))
    D = np.zeros((len(K), problem.n_tasks))
    D[:, np.concatenate(spread.tasks)] = K @ np.concatenate(V, axis=1)
    return Moments(D, gain, residual, evidence)


def _expect_shard(shard: GroupShard, common: tuple[State, bool, bool]) -> tuple[Any, ...]:
    """The shard's part of the E-step: residual, evidence, B, V V', V 1, answers for held-out rows, V; 0 for no need."""
    (state, columns, moments), problem = common, shard.problem
    keep = shard.held is not None
    B, V, residual, evidence, factors = group_sums(state, problem, moments, keep)
    if columns:
        return residual, evidence, 0.0, 0.0, 0.0, [], [V]
    answers: list[Any] = []
    if shard.held is not None:
        D = state.K @ V
        for i, (g, positions) in enumerate(zip(problem.groups, shard.held, strict=True)):
            answers.append(probe(problem.basis, state, g, factors[i], D[:, g.tasks], positions))
    return residual, evidence, B if moments else 0.0, V @ V.T, V.sum(axis=1), answers, []


def with_columns(state: State, problem: Problem, moments: Moments) -> Moments:
    """The statistics with the posterior mean of every task, for when EM has ended."""
    if moments.sums is None:
        return moments
    columns = expect_spread(state, problem, False, None)
    return replace(moments, D=columns.D, sums=None)


@dataclass(frozen=True)
class BaseShard:
    """Groups with their inputs, for the base kernel's own fit."""

    inputs: list[Any]
    groups: list[Group]


class SpreadBase(PlacedShards[BaseShard]):
    """The groups with their inputs, on workers where there are any."""

    def __init__(self, workers: Workers | None, X: Any, problem: Problem) -> None:
        self._workers, self.X, self.problem = workers, X, problem

    def cut(self, spread: bool) -> tuple[list[slice], list[BaseShard]]:
        """Groups next to each other, with about the same number of rows."""
        groups = self.problem.groups
        bounds = _bounds(self.problem) if spread else [slice(0, len(groups))]
        return bounds, [BaseShard([self.X[g.rows] for g in groups[at]], groups[at]) for at in bounds]


def group_evidence(kernel: Kernel, noise: float, X: Any, g: Group) -> tuple[float, Array, float]:
    """The evidence of one group's tasks, by the kernel's theta and by log noise."""
    K, pullback = kernel.evaluate(X)
    A = np.array(K)
    A.flat[:: len(A) + 1] += noise / g.count
    L = cholesky(A, overwrite=True)
    w, tasks = solve_lower(L, g.Y), g.Y.shape[1]
    value = -0.5 * (float(np.vdot(w, w)) + tasks * (log_determinant(L) + len(A) * np.log(2 * np.pi)))
    bK = 0.5 * tasks * gram_minus_inverse(solve_lower_transposed(L, w) / np.sqrt(tasks), L)
    return value, pullback(bK).theta, float(np.diagonal(bK) @ (noise / g.count))


def base_shard(shard: BaseShard, common: tuple[Kernel, float]) -> tuple[float, Array, float]:
    """The shard's part of the evidence of independent functions, and of its derivatives."""
    kernel, noise = common
    total, by_theta, by_noise = 0.0, np.zeros(kernel.n_theta), 0.0
    for X, g in zip(shard.inputs, shard.groups, strict=True):
        value, theta, own = group_evidence(kernel, noise, X, g)
        total, by_theta, by_noise = total + value, by_theta + theta, by_noise + own
    return total, by_theta, by_noise
