"""What a sum over tasks owes to those who ask for one: covariances, models, and nobody needs to know where rows lie.

A pass sends every shard of tasks a function, something that is the same for all of them, and where it is needed a part
that is the shard's own. What comes back is added up (`total`), or handed over shard by shard (`each`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from borrow.data.cells import Cells
from borrow.numerics.device import Device
from borrow.numerics.linalg import Array
from borrow.tasks.cache import ShardCache

C = TypeVar("C")
T = TypeVar("T")
P = ParamSpec("P")
S_co = TypeVar("S_co", covariant=True)


class Placed(Protocol):
    """Rows, and where their matrices are computed."""

    @property
    def cells(self) -> Cells:
        """The rows of these tasks."""

    @property
    def device(self) -> Device | None:
        """Where `put` puts arrays: to be passed on, not to be asked."""

    @property
    def batched(self) -> bool:
        """Whether tasks of about one size are worked on at once."""

    def put(self, array: T) -> T:
        """The array where matrices are computed."""


class Shard(Placed, Protocol):
    """Some tasks that lie together: their rows, and what one pass leaves there for the next."""

    @property
    def cache(self) -> ShardCache:
        """What a pass left; it does not travel, and may be lost."""

    @property
    def X(self) -> Array:
        """The inputs where matrices are computed."""

    def made_once(self, name: str, make: Callable[[], T]) -> T:
        """What depends on the rows alone, made when it is first asked for."""

    def put_alone(self, array: T) -> T:
        """The rows of one task that is worked on by itself, where that is done."""

    def tasks(self) -> Tasks[Shard]:
        """These tasks as those of the process that they are in."""


class Divisible(Protocol[S_co]):
    """Something of which a shard needs a part only, such as the hyper-parameters of its own tasks."""

    def part(self, tasks: slice) -> S_co:
        """What belongs to these tasks."""


#: One entry per task, or something that has a part for some of them.
Parts = Divisible[object] | Sequence[object] | Array


class Tasks(Placed, Protocol[S_co]):
    """The tasks, wherever they lie. Sums are taken in an order that depends on the data alone."""

    @property
    def bounds(self) -> list[slice]:
        """The tasks of each shard."""

    @property
    def small(self) -> bool:
        """Whether the memory of one evaluation is kept for the next."""

    def total(self, f: Callable[Concatenate[S_co, C, P], T], common: C, parts: Parts | None = None) -> T:
        """The sum over all shards of f(shard, common), or of f(shard, common, the shard's part of `parts`).

        f returns a tuple: numbers and arrays in it are added entry by entry, lists are put one after the other.
        """

    def each(self, f: Callable[Concatenate[S_co, C, P], T], common: C, parts: Parts | None = None) -> list[T]:
        """The same without the sum: what f returned for each shard, in the order of their tasks."""

    def only(self, t: int) -> Tasks[S_co]:
        """Task t by itself, in this process."""

    def here(self, cells: Cells) -> Tasks[S_co]:
        """Other rows in this process, where it computes."""

    def on_host(self) -> Tasks[S_co]:
        """The same rows in this process, on the host."""

    def with_cells(self, cells: Cells, make: Callable[[Cells, Device | None], object] | None = None) -> Tasks[S_co]:
        """Other rows at the same place, in shards that are made as these, or as `make` says."""

    def report(self, value: float) -> None:
        """Tell who waits for a long search how far it is."""

    def require(
        self, what: str, remedy: str, shared: float = 0.0, host: float = 0.0, device: float | None = None
    ) -> None:
        """A MemoryError where so many numbers would not fit: `shared` here, the others where the tasks lie."""
