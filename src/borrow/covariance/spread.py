"""The covariances of `shared` and `lowrank` with their tasks spread over workers.

Given the shared functions' posterior, which is (LB, a), tasks are independent; and that posterior needs of a task only
what it adds to B and b. So an evaluation is two passes over shards of tasks (`borrow.tasks.workers`):

    first:  sums of W'W and W'r over the shard's tasks, (m, m) and (m,);     then B = I + sum, LB = chol B, a = B^-1 b
    second: with LB and a, the shard's share of the evidence, of its adjoints, or the marginals of its rows.

Hyper-parameters travel to the shards and derivatives back: those of shared parameters as sums, a task's own as they
are. The prior of the shared functions counts once, in the first shard (`lead`).

A `Recipe` is what a covariance is built from besides the rows. `Spread` holds the shards for the time of a fit. A
`SpreadPosterior` answers without workers too, when the fit is over: for tasks that are asked for it computes their
factors again from their rows, so that what it holds grows with the rows and not with their squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from borrow.covariance.carrier import Basis, Prediction
from borrow.covariance.dense import TaskAdjoints
from borrow.covariance.design import Codes, Design
from borrow.covariance.lowrank import LowRankPosterior, LowRankTasks
from borrow.covariance.shared import Adjoints, SharedCovariance, SharedPosterior, posterior_of_shared
from borrow.data.cells import Cells
from borrow.kernels import Kernel
from borrow.numerics import linalg
from borrow.numerics.linalg import Array
from borrow.tasks.workers import Crew, Kept, bounds_of_shards, stamp

#: Tasks whose factors are computed at a time where there are no workers.
AT_A_TIME = 50


@dataclass(frozen=True)
class TaskShard:
    """Rows of some tasks, and the kernels that are theirs alone (as templates: their parameters travel)."""

    cells: Cells
    specific: list[Kernel | None]
    prior: Kept = field(default_factory=Kept)  # between sweeps of EP
    posterior: Kept = field(default_factory=Kept)  # between two passes

    @cached_property
    def design(self) -> Design:
        """Distinct inputs of these tasks."""
        return Design.of(self.cells)


@dataclass(frozen=True)
class SharedRecipe:
    """What `SharedCovariance` is built from besides the rows.

    `templates` are the tasks' own kernels at any parameters (None where there is none); those of task t are
    `theta[ends[t]:ends[t + 1]]`. On its way to a shard a recipe has no templates: the shard has them.
    """

    bases: list[Basis]
    basis_of: list[int]
    weights: Array
    templates: list[Kernel | None]
    theta: Array
    ends: Codes
    jitter: float = 0.0

    @classmethod
    def with_kernels(cls, bases: list[Basis], basis_of: list[int], weights: Array, own: list[Any]) -> SharedRecipe:
        """From the tasks' own kernels as they are."""
        theta = [np.zeros(0) if k is None else k.theta for k in own]
        ends = np.cumsum([0, *map(len, theta)])
        return cls(bases, basis_of, weights, own, np.concatenate([np.zeros(0), *theta]), ends)

    def shard(self, at: slice) -> SharedRecipe:
        """For the tasks of a shard, without templates."""
        first, last = self.ends[at.start], self.ends[at.stop]
        theta, ends = self.theta[first:last], self.ends[at.start : at.stop + 1] - first
        return replace(self, weights=self.weights[at], templates=[], theta=theta, ends=ends)

    def of(self, tasks: Codes) -> SharedRecipe:
        """For these tasks alone."""
        own = self.kernels(self.templates, tasks)
        return replace(self.with_kernels(self.bases, self.basis_of, self.weights[tasks], own), jitter=self.jitter)

    def kernels(self, templates: Sequence[Kernel | None], tasks: Any = None) -> list[Kernel | None]:
        """The tasks' own kernels."""
        out: list[Kernel | None] = []
        for t in range(len(templates)) if tasks is None else tasks:
            k = templates[t]
            out.append(None if k is None else k.with_theta(self.theta[self.ends[t] : self.ends[t + 1]]))
        return out

    def prior(self, shard: TaskShard) -> SharedCovariance:
        """The covariance of a shard's tasks."""
        c, specific = shard.cells, self.kernels(self.templates or shard.specific)
        return SharedCovariance(c.X, c.starts, self.bases, self.basis_of, self.weights, specific, self.jitter)

    def posterior(self, prior: Any, nu: Array, tau: Array) -> SharedPosterior:
        """The posterior of a shard's tasks, up to what others know of the shared functions."""
        return SharedPosterior(prior, nu, tau, alone=False)


@dataclass(frozen=True)
class LowRankRecipe:
    """What `LowRankTasks` is built from besides the rows."""

    kernel: Kernel
    Z: Array
    R: Array
    intercept: float = 0.0

    @property
    def templates(self) -> list[Kernel | None]:
        """No task has a kernel of its own."""
        return [None] * len(self.R)

    def of(self, tasks: Any) -> LowRankRecipe:
        """For these tasks alone."""
        return replace(self, R=self.R[tasks])

    shard = of

    def prior(self, shard: TaskShard) -> LowRankTasks:
        """The covariance of a shard's tasks."""
        return LowRankTasks(shard.design, self.kernel, self.Z, self.R, self.intercept)

    def posterior(self, prior: Any, nu: Array, tau: Array) -> LowRankPosterior:
        """The posterior of a shard's tasks, up to what others know of the shared functions."""
        return LowRankPosterior(prior, nu, tau, alone=False)


Recipe = SharedRecipe | LowRankRecipe


class Spread:
    """Shards of tasks, placed once for a fit."""

    def __init__(self, crew: Crew, cells: Cells) -> None:
        self.crew, self.cells = crew, cells
        self.bounds = bounds_of_shards(np.diff(cells.starts))
        self.placed: Any = None

    def place(self, specific: list[Kernel | None]) -> Any:
        """Send the shards, with the kernels that are their tasks' own; once."""
        if self.placed is None:
            codes = np.arange(len(self.cells.starts) - 1)
            shards = [TaskShard(self.cells.some(codes[at]), specific[at]) for at in self.bounds]
            self.placed = self.crew.place(shards)
        return self.placed

    def rows(self, at: slice) -> slice:
        """Rows of a shard's tasks."""
        return slice(int(self.cells.starts[at.start]), int(self.cells.starts[at.stop]))


@dataclass(frozen=True)
class _Ask:
    """What a shard is told: its part of the recipe, where its sites come from, and what is wanted in the end."""

    recipe: Recipe
    sites: Any  # (nu, tau) of its rows, or something that makes them there
    keys: tuple[str, str]  # of prior and posterior, where they are kept
    lead: bool
    wanted: str


def _posterior(shard: TaskShard, ask: _Ask) -> Any:
    """The shard's posterior, as it was kept or made again."""
    posterior = shard.posterior.get(ask.keys[1])
    if posterior is None:
        prior = shard.prior.get(ask.keys[0])
        if prior is None:
            prior = ask.recipe.prior(shard)
            shard.prior.put(ask.keys[0], prior)
        sites = ask.sites if isinstance(ask.sites, tuple) else ask.sites.of(shard)
        posterior = ask.recipe.posterior(prior, *sites)
        shard.posterior.put(ask.keys[1], posterior)
    return posterior


def _first(shard: TaskShard, ask: _Ask, common: Any) -> tuple[Array, Array]:
    """Sums over the shard's tasks."""
    return _posterior(shard, ask).sums()


def _second(shard: TaskShard, ask: _Ask, solved: tuple[Array, Array]) -> dict[str, Any]:
    """The shard's part of what is wanted, given the shared functions."""
    posterior = _posterior(shard, ask)
    posterior.given(*solved, ask.lead)
    out: dict[str, Any] = {"evidence": posterior.evidence, "log_determinant": posterior.log_determinant}
    if ask.wanted == "marginals":
        out["marginals"] = posterior.marginals()
    elif ask.wanted == "adjoints":
        found = posterior.adjoints()
        if not isinstance(ask.sites, tuple):  # derivatives by the rows' noise stay here
            out |= ask.sites.finish(shard, found.noise)
        if isinstance(found, Adjoints):
            own = [g for g in found.specific if g is not None]
            packed: Any = np.concatenate(own) if own else np.zeros(0)
            found = found._replace(specific=packed)
        out["adjoints"] = found._replace(noise=np.zeros(0))
    elif ask.wanted == "terms":
        out["terms"] = posterior.task_terms()
    elif ask.wanted == "others":
        out["others"] = [posterior.evidence_given_others(t) for t in range(len(shard.specific))]
    return out


class SpreadCovariance:
    """The prior over all tasks' functions, of a recipe, with the tasks on workers."""

    def __init__(self, recipe: Recipe, spread: Spread) -> None:
        self.spread, self.cells, self.key = spread, spread.cells, stamp()
        if isinstance(recipe, SharedRecipe):
            factors = (linalg.cholesky_jittered(b.kernel(b.Z), recipe.jitter) for b in recipe.bases)
            recipe = replace(recipe, jitter=max([jitter for _, jitter in factors], default=recipe.jitter))
        self.recipe: Recipe = recipe

    def condition(self, nu: Array, tau: Array) -> SpreadPosterior:
        """Condition on sites N(f; nu/tau, 1/tau), which travel; the marginals are computed with it."""
        sites = [(nu[at], tau[at]) for at in map(self.spread.rows, self.spread.bounds)]
        return self.condition_by(sites, (nu, tau), "marginals")

    def condition_by(self, sites: list[Any], everywhere: Any, wanted: str) -> SpreadPosterior:
        """The same, from sites that each shard may make by itself; `everywhere` is those of all rows."""
        spread, keys = self.spread, (self.key, stamp())
        placed = spread.place(self.recipe.templates)
        asks = [
            _Ask(self.recipe.shard(at), own, keys, i == 0, wanted)
            for i, (at, own) in enumerate(zip(spread.bounds, sites, strict=True))
        ]
        given: list[tuple[Any, ...]] = [(a,) for a in asks]
        parts, solved = spread.crew.two_passes(placed, _first, posterior_of_shared, _second, given)
        return SpreadPosterior(self, everywhere, asks, parts, solved)


def _no_rows(cells: Cells) -> Cells:
    """The same tasks, without rows."""
    none = np.zeros(len(cells.dof))
    return Cells(cells.X[:0], cells.y[:0], cells.count[:0], np.zeros(len(none) + 1, np.intp), none, none, none)


class SpreadPosterior:
    """The posterior of all functions given the sites; with workers while the fit lasts."""

    def __init__(self, source: SpreadCovariance, sites: Any, asks: list[_Ask], parts: list[Any], solved: Any) -> None:
        self.cells, self.recipe, self.sites = source.cells, source.recipe, sites
        self.LB, self.a = solved
        self.evidence = float(sum(p["evidence"] for p in parts))
        self.log_determinant = float(sum(p["log_determinant"] for p in parts))
        self._spread: Spread | None = source.spread
        self._asks, self._parts = asks, parts

    def __getstate__(self) -> dict[str, Any]:
        """Workers, and what came from them, stay behind."""
        return self.__dict__ | {"_spread": None, "_asks": [], "_parts": []}

    @cached_property
    def prior(self) -> Any:
        """The prior of all tasks, without their rows."""
        return self.recipe.prior(TaskShard(_no_rows(self.cells), []))

    def detach(self) -> None:
        """The fit is over: no workers from here on."""
        self.__dict__.update(self.__getstate__())

    def _get(self, wanted: str) -> list[Any]:
        """What is wanted of every shard, from what came already, from workers, or computed here."""
        if self._parts and wanted in self._parts[0]:
            return [p[wanted] for p in self._parts]
        if self._spread is None:
            return [self._here(wanted, at) for at in _some(len(self.cells.dof))]
        given: list[tuple[Any, ...]] = [(replace(a, wanted=wanted),) for a in self._asks]
        found = self._spread.crew.map(_second, self._spread.placed, given, (self.LB, self.a))
        self._parts = [p | f for p, f in zip(self._parts, found, strict=True)]
        return [p[wanted] for p in self._parts]

    def _here(self, wanted: str, tasks: Codes) -> Any:
        local = self.local(tasks)
        if wanted == "marginals":
            return local.marginals()
        if wanted == "terms":
            return local.task_terms()
        return [local.evidence_given_others(t) for t in range(len(tasks))]

    def local(self, tasks: Any) -> Any:
        """The posterior of these tasks computed here, from their rows and what all know of the shared functions."""
        tasks = np.asarray(tasks, dtype=np.intp)
        cells = self.cells.some(tasks)
        at = np.concatenate([np.zeros(0, np.intp), *(np.arange(*self.cells.starts[t : t + 2]) for t in tasks)])
        nu, tau = self.sites if isinstance(self.sites, tuple) else self.sites()
        recipe = self.recipe.of(tasks)
        posterior = recipe.posterior(recipe.prior(TaskShard(cells, [])), nu[at], tau[at])
        posterior.given(self.LB, self.a, False)
        return posterior

    def at(self, t: int) -> tuple[Any, int]:
        """Who knows task t, and its code there."""
        return self.local([t]), 0

    def task_terms(self) -> Array:
        """b_t of every task, one a row."""
        return np.concatenate(self._get("terms"))

    @cached_property
    def _others(self) -> list[float]:
        return [value for part in self._get("others") for value in part]

    def evidence_given_others(self, t: int) -> float:
        """log N of task t's unit-noise observations given all the others."""
        return self._others[t]

    def marginals(self) -> tuple[Array, Array]:
        """Posterior mean and variance of the function at every row."""
        parts = self._get("marginals")
        return np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts])

    def adjoints(self, inducing: bool = False) -> Any:
        """Derivatives of the evidence by what the prior was built from; those by the noise of rows stay with them."""
        if inducing:
            raise NotImplementedError("inducing inputs are chosen, not learnt, where tasks are spread over workers")
        found = self._get("adjoints")
        weights = np.concatenate([f.weights for f in found])
        if isinstance(self.recipe, LowRankRecipe):
            theta, c = sum(f.theta for f in found), float(sum(f.intercept for f in found))
            return TaskAdjoints(np.asarray(theta), np.zeros(0), weights=weights, intercept=c)
        bases = [np.asarray(sum(f.bases[b] for f in found)) for b in range(len(self.recipe.bases))]
        packed, ends = np.concatenate([f.specific for f in found]), self.recipe.ends.tolist()
        specific = [
            None if k is None else packed[i:j] for k, (i, j) in zip(self.recipe.templates, pairwise(ends), strict=True)
        ]
        return Adjoints(weights, bases, [None] * len(bases), specific, np.zeros(0))

    def own(self, name: str) -> list[Any]:
        """What the shards' sites made of the derivatives by noise, part by part."""
        self._get("adjoints")
        return [p[name] for p in self._parts]

    def predict(self, X: Array, task: Codes, full: bool = False) -> Prediction:
        """Functions at new rows, each task's factors computed for it."""
        asked, code = np.unique(task, return_inverse=True)
        if full or len(asked) <= AT_A_TIME:
            return self.local(asked).predict(X, code, full)
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for some in _some(len(asked)):
            here = np.flatnonzero(np.isin(code, some))
            p = self.local(asked[some]).predict(X[here], code[here] - some[0])
            mean[here], variance[here] = p.mean, p.variance
        return Prediction(mean, variance)


def detached(posterior: Any) -> Any:
    """A posterior that needs no workers."""
    if isinstance(posterior, SpreadPosterior):
        posterior.detach()
    return posterior


def _some(n: int) -> list[Codes]:
    return [np.arange(i, min(i + AT_A_TIME, n)) for i in range(0, n, AT_A_TIME)]
