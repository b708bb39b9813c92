"""What one pass over a shard leaves there for the next."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class ShardCache:
    """Values by name, each with the key of what it was computed for. They do not travel: a copy is empty."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Hashable, Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"values": {}}

    def recall(self, name: str, key: Hashable, make: Callable[[], T]) -> T:
        """The value of this name if it was kept under this key; else it is made, and takes the place of the old one."""
        kept = self.values.get(name)
        if kept is None or kept[0] != key:
            kept = None
            self.values.pop(name, None)  # before the new one is made: both at once would need twice the memory
            kept = self.values[name] = (key, make())
        value: T = kept[1]
        return value
