"""What a sum over tasks owes to those who ask for one: covariances, models, and nobody needs to know where rows lie.

A pass sends every shard of tasks a function, something that is the same for all of them, and where it is needed a part
that is the shard's own. What comes back is added up (`total`), or handed over shard by shard (`each`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from borrow.data.cells import Cells
from borrow.tasks.placed import ShardCache

C = TypeVar("C")
T = TypeVar("T")
P = ParamSpec("P")
S_co = TypeVar("S_co", covariant=True)


class Shard(Protocol):
    """Some tasks that lie together: their rows, and what one pass leaves there for the next."""

    @property
    def cells(self) -> Cells:
        """The rows of these tasks."""

    @property
    def cache(self) -> ShardCache:
        """What a pass left; it does not travel, and may be lost."""


class Divisible(Protocol[S_co]):
    """Something of which a shard needs a part only, such as the hyper-parameters of its own tasks."""

    def part(self, tasks: slice) -> S_co:
        """What belongs to these tasks."""


class Tasks(Protocol[S_co]):
    """The tasks, wherever they lie. Sums are taken in an order that depends on the data alone."""

    def total(
        self,
        f: Callable[Concatenate[S_co, C, P], T],
        common: C,
        parts: Divisible[object] | None = None,
    ) -> T:
        """The sum over all shards of f(shard, common), or of f(shard, common, the shard's part of `parts`).

        f returns a tuple: numbers and arrays in it are added entry by entry, lists are put one after the other.
        """

    def each(
        self,
        f: Callable[Concatenate[S_co, C, P], T],
        common: C,
        parts: Divisible[object] | None = None,
    ) -> list[T]:
        """The same without the sum: what f returned for each shard, in the order of their tasks."""
