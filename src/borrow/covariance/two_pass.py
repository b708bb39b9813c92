"""Covariances whose tasks are independent given a few shared functions: a sum over tasks, a solve, a second pass.

The shared functions' posterior, which is (LB, a), needs of a task only what it adds to B and b; and given that
posterior a task needs nothing of the others. So an evaluation is two passes over the tasks (`borrow.tasks`):

    first:  sums of W'W and W'r over the tasks, (m, m) and (m,);     then B = I + sum, LB = chol B, a = B^-1 b
    second: with LB and a, each task's share of the evidence, of its adjoints, or the marginals of its rows.

Hyper-parameters travel to the tasks and derivatives back: those of shared parameters as sums, a task's own as they are.
What a posterior knows of single tasks lies with their rows; it holds the sites, LB and a, and asks for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np

from borrow.covariance.contracts import Adjoints, AnySites, Codes, Moments, Prediction
from borrow.covariance.inducing import LOG_2PI, InducingBasis
from borrow.numerics import linalg
from borrow.numerics.linalg import Array, as_type_of, is_tensor, namespace, to_host
from borrow.numerics.stored import stored
from borrow.tasks.cache import CacheKey
from borrow.tasks.contracts import Shard, Tasks


@stored("shared")
@dataclass(frozen=True)
class Shared:
    """The posterior of the shared functions, whitened: the factor of their precision, and their mean."""

    LB: Array
    a: Array

    def __getstate__(self) -> dict[str, Any]:
        return {"LB": to_host(self.LB), "a": to_host(self.a)}

    @cached_property
    def covariance(self) -> Array:
        """The posterior covariance, computed where it is first needed."""
        return linalg.inverse_from_factor(self.LB)

    def beside(self, X: Array) -> Shared:
        """The same posterior where X lies, on a device or on the host."""
        return Shared(as_type_of(X, self.LB), as_type_of(X, self.a)) if is_tensor(X) != is_tensor(self.LB) else self


class Parameters(Protocol):
    """What a covariance is built from besides the rows: it travels, in parts, and builds there what it needs.

    `prior(parameters, shard)` is the prior of a shard's tasks; `first(prior, sites)` the first pass, whose `sums()` are
    what these add to B and b; `second(first, shared)` answers for them given the shared functions. The shared function
    q is carried by `carriers[basis_of[q]]`.
    """

    prior: ClassVar[Callable[..., object]]
    first: ClassVar[Callable[..., object]]
    second: ClassVar[Callable[..., object]]

    def part(self, tasks: slice) -> Parameters:
        """Those of some tasks."""


def columns_of(carriers: Sequence[InducingBasis], basis_of: Sequence[int]) -> list[slice]:
    """Where each shared function lies among the columns of G."""
    ends = np.cumsum([0, *(len(carriers[b].basis.Z) for b in basis_of)])
    return [slice(int(i), int(j)) for i, j in pairwise(ends)]


def rows_of(task: Codes, tasks: slice) -> Codes:
    """Which rows, of which the task codes are given, are of these tasks."""
    return np.flatnonzero((task >= tasks.start) & (task < tasks.stop))


@dataclass(frozen=True)
class ShardRequest:
    """What a shard is told: its part of the parameters and sites, and where it keeps what it made of them."""

    parameters: Parameters
    sites: AnySites
    starts: Codes
    keys: tuple[CacheKey, CacheKey]  # of the prior, and of what follows from the sites
    new: tuple[Array, Codes] | None = None  # inputs and task codes of rows that are asked about

    def part(self, tasks: slice) -> ShardRequest:
        """What the shard of these tasks is told."""
        rows, new = slice(int(self.starts[tasks.start]), int(self.starts[tasks.stop])), self.new
        if new is not None:
            X, task = new
            at = rows_of(task, tasks)
            new = X[at], task[at] - tasks.start
            if not len(at):  # this shard is not asked
                return replace(self, new=new)
        return ShardRequest(self.parameters.part(tasks), self.sites.part(tasks, rows), self.starts[:0], self.keys, new)


def _first(shard: Shard, ask: ShardRequest) -> Any:
    """The first pass of a shard, as it was kept or made again."""
    cache, (for_prior, key) = shard.cache, ask.keys
    if (first := cache.get("first", key)) is not None:
        return first
    if (prior := cache.get("prior", for_prior)) is None:
        prior = cache.keep("prior", for_prior, ask.parameters.prior(ask.parameters, shard))
    return cache.keep("first", key, ask.parameters.first(prior, ask.sites.at(shard.cells)))


def _second(shard: Shard, shared: Shared, ask: ShardRequest) -> Any:
    """The second pass of a shard, as it was kept or made again."""
    if (second := shard.cache.get("second", ask.keys[1])) is not None:
        return second
    return shard.cache.keep("second", ask.keys[1], ask.parameters.second(_first(shard, ask), shared))


def _sums(shard: Shard, common: None, request: ShardRequest) -> Any:
    return _first(shard, request).sums()


def _answer(shard: Shard, common: tuple[Shared, str, tuple[Any, ...]], request: ShardRequest) -> Any:
    """A shard's terms of the evidence, and its answer; nothing where it is asked about no row of its own."""
    shared, what, arguments = common
    if request.new is not None:
        if not len(request.new[1]):
            return None
        arguments = (*request.new, *arguments)
    second = _second(shard, shared, request)
    return *second.terms, *(getattr(second, what)(*arguments) if what else ())


class TwoPassCovariance:
    """The prior over all tasks' functions, evaluated once for a set of hyper-parameters. Abstract."""

    def __init__(self, tasks: Tasks[Shard], parameters: Any) -> None:
        self.tasks, self.parameters = tasks, parameters
        self.jitter = max([c.jitter for c in parameters.carriers], default=0.0)  # the largest that a k(Z, Z) needed

    def __getstate__(self) -> dict[str, Any]:
        return {"tasks": self.tasks, "parameters": self.parameters, "jitter": self.jitter}

    @cached_property
    def key(self) -> CacheKey:
        """Under which shards keep what they make of this prior; a copy has another."""
        return CacheKey()

    def condition(self, sites: AnySites) -> TwoPassPosterior:
        """Condition on sites N(f; nu/tau, 1/tau)."""
        return TwoPassPosterior(self, sites)


@stored("low-rank-posterior", state="prior sites shared")
class TwoPassPosterior:
    """The posterior of all functions given the sites, with evidence, prediction and adjoints."""

    _key: CacheKey | None = None

    def __init__(self, prior: Any, sites: AnySites) -> None:
        self.prior, self.sites = prior, sites
        B, b = prior.tasks.total(_sums, None, self._request())
        B = B + 0.0
        linalg.add_diagonal(B, 1.0)  # B = I + sum W'W
        LB = linalg.cholesky(B, overwrite=True)
        self.shared = Shared(LB, linalg.solve(LB, b))

    def __getstate__(self) -> dict[str, Any]:
        # A copy of the prior has no key: shards let go of what they made of it.
        return {"prior": copy(self.prior), "sites": self.sites.on_host(), "shared": self.shared}

    def _request(self, new: tuple[Array, Codes] | None = None) -> ShardRequest:
        prior, self._key = self.prior, self._key or CacheKey()
        return ShardRequest(prior.parameters, self.sites, prior.tasks.cells.starts, (prior.key, self._key), new)

    def _ask(self, what: str, *arguments: Any, new: tuple[Array, Codes] | None = None) -> list[Any]:
        """The answers of all shards, one after the other; None of those that were not asked."""
        found = self.prior.tasks.each(_answer, (self.shared, what, arguments), self._request(new))
        if new is None:
            self._terms = sum(f[0] for f in found), sum(f[1] for f in found)
        return [None if f is None else f[2:] for f in found]

    def _total(self, what: str, *arguments: Any) -> Any:
        """The sum of the shards' answers."""
        found = self.prior.tasks.total(_answer, (self.shared, what, arguments), self._request())
        self._terms = found[:2]
        return found[2:]

    @cached_property
    def _terms(self) -> Any:
        """What the tasks add to evidence and log determinant; every other answer comes with it."""
        return self.prior.tasks.total(_answer, (self.shared, "", ()), self._request())

    @property
    def log_determinant(self) -> float:
        """log |I + w K w| of all rows: the tasks' own factors, and that of the shared functions' precision."""
        return self._terms[1] + linalg.log_determinant(self.shared.LB)

    @property
    def evidence(self) -> float:
        """log N(s; 0, I + w K w) of the sites as unit-noise observations."""
        quadratic = float(self._terms[0] + self.shared.a @ self.shared.a)
        return -0.5 * (quadratic + self.log_determinant + len(self.prior.tasks.cells.y) * LOG_2PI)

    def adjoints(self, inducing: bool = False) -> Adjoints:
        """Derivatives of the evidence by everything that the prior was built from, and by what the sites are."""
        noise, weights, specific, intercept, *by_basis = self._total("adjoints", inducing)
        parameters, a, P = self.prior.parameters, self.shared.a, self.shared.covariance
        columns, bases, by_Z = columns_of(parameters.carriers, parameters.basis_of), [], []
        for b, carrier in enumerate(parameters.carriers):
            theta, by_diagonal, S, own_Z = by_basis[4 * b : 4 * b + 4]
            for at in (at for at, other in zip(columns, parameters.basis_of, strict=True) if other == b):
                S = S + (a[at][:, None] * a[at] + P[at, at])
                linalg.add_diagonal(S, -1.0)
            more, shared_Z = carrier.pullback(S, inducing)
            bases.append(theta + more + by_diagonal)
            by_Z.append(None if shared_Z is None else own_Z + shared_Z)
        weights, noise = np.concatenate(weights), np.concatenate(noise)
        return Adjoints(noise, bases, weights, intercept=intercept, specific=specific, inducing=by_Z)

    def marginals(self) -> Moments:
        """Posterior mean and variance of the function at every row."""
        parts = zip(*self._ask("marginals"), strict=True)
        return Moments(*(namespace(part[0]).concatenate(part) for part in parts))

    def of_task(self, t: int) -> Any:
        """What the second pass knows of one task, computed here on the host from its rows."""
        shared, own = Shared(to_host(self.shared.LB), to_host(self.shared.a)), self._request().part(slice(t, t + 1))
        (known,) = self.prior.tasks.on_host().only(t).each(_second, shared, own)
        return known

    def predict(self, X: Array, task: Codes, full: bool = False) -> Prediction:
        """Functions at new rows. A shared function's residual at a new input is independent of the rest."""
        asked = zip(self.prior.tasks.bounds, self._ask("at_new", full, new=(X, task)), strict=True)
        parts = [(rows_of(task, at), p) for at, p in asked if p is not None]
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for at, p in parts:
            mean[at], variance[at] = to_host(p[0]), 0.0 if full else to_host(p[1])
        if not full or not parts:
            return Prediction(mean, variance, np.zeros((0, 0)) if full else None)
        J = namespace(parts[0][1][1]).concatenate([p[1] for _, p in parts])  # where it is known, to the end
        order = np.argsort(np.concatenate([at for at, _ in parts]))
        covariance = to_host(J @ J.T)[np.ix_(order, order)]
        for at, p in parts:
            covariance[np.ix_(at, at)] += to_host(p[2])
        return Prediction(mean, np.diagonal(covariance).clip(0.0), covariance)
