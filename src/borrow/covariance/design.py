"""Where the rows of all tasks lie: distinct inputs, which row is at which, and whether every task has every one.

Matrices over all of it are made again from a design where they are needed, and do not travel (`Rebuilt`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from borrow.data.cells import Cells, Codes
from borrow.numerics.device import Device, place
from borrow.numerics.linalg import Array, rows_first, sparse_product


@dataclass(frozen=True)
class Design:
    """Rows of all tasks, stacked by task; within a task inputs are distinct. Found once for a fit."""

    X: Array  # (n, d)
    starts: Codes  # (M + 1,)
    inputs: Array  # (N, d), distinct
    index: Codes  # (n,): row i is at inputs[index[i]]
    count: Array  # (n,)
    device: Device | None = None  # None: the host

    @classmethod
    def of(cls, cells: Cells, device: Device | None = None) -> Design:
        """The design of merged cells, whose matrices are computed on a device."""
        inputs, index = np.unique(cells.X, axis=0, return_inverse=True)
        return cls(cells.X, cells.starts, inputs, index.reshape(-1), cells.count, device)

    def put(self, array: Any) -> Any:
        """The array where matrices are computed."""
        return place(array, self.device)

    @cached_property
    def task(self) -> Codes:
        """Task code of every row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.starts) - 1

    def rows(self, t: int) -> slice:
        """Where the rows of task t stand among all rows, which are stacked by task."""
        return slice(int(self.starts[t]), int(self.starts[t + 1]))

    def gather(self, A: Any) -> Array:
        """(n, n) summed over the rows at each pair of distinct inputs, (N, N)."""
        n = len(A)
        onto = sparse.csr_array((np.ones(n), (self.index, np.arange(n))), shape=(len(self.inputs), n))
        return sparse_product(rows_first(sparse_product(A, onto).T), onto)

    @cached_property
    def complete(self) -> bool:
        """Every distinct input seen in every task, with counts that are a product of one by task and one by input."""
        M, N = self.n_tasks, len(self.inputs)
        if len(self.X) != M * N:
            return False
        count = self.count.reshape(M, N)
        return bool(np.array_equal(count * count[0, 0], np.multiply.outer(count[:, 0], count[0])))


class Rebuilt:
    """A dataclass that computes matrices from its fields in `__post_init__`. Only the fields travel.

    Closures and what lies on a device cannot travel; hyper-parameters, rows and sites can. What is missing in a copy
    is computed again when it is first asked for.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return state | {"sites": state["sites"].on_host()} if "sites" in state else state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or len(self.__dict__) > len(fields(self)):  # type: ignore[arg-type]
            raise AttributeError(name)
        self.__post_init__()
        return getattr(self, name)
