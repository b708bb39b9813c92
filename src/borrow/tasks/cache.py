"""What a pass over a shard leaves there for the next, as long as whoever asked for it lives."""

from __future__ import annotations

import os
import time
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class CacheKey:
    """Stands for whoever asks. In its own process what is kept for it ends with it."""

    name: str | None = None

    def __reduce__(self) -> Any:
        self.name = self.name or f"{os.getpid()}-{time.monotonic_ns()}-{os.urandom(4).hex()}"
        return TravelledKey, (self.name,)


class TravelledKey(CacheKey):
    """The same key elsewhere, where whoever asks cannot be seen; it is told by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TravelledKey) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class ShardCache:
    """Values by key and name. They do not travel: a copy is empty.

    Of keys that have travelled the last one is held for each name; a value may be computed from those held before it.
    """

    def __init__(self) -> None:
        self.values: WeakKeyDictionary[CacheKey, dict[str, Any]] = WeakKeyDictionary()
        self.held: dict[str, CacheKey] = {}

    def __reduce__(self) -> Any:
        return ShardCache, ()

    def clear(self) -> None:
        """Keep nothing of what was kept."""
        self.values.clear()
        self.held.clear()

    def get(self, name: str, key: CacheKey) -> Any:
        """What was kept under this name and key, or None; then nothing older is held, to make room for the new."""
        if isinstance(key, TravelledKey) and self.held.get(name) != key:
            names = list(self.held)
            for old in names[names.index(name) :] if name in names else ():
                del self.held[old]
        return self.values.get(key, {}).get(name)

    def keep(self, name: str, key: CacheKey, value: T) -> T:
        """Keep a value, and return it."""
        self.values.setdefault(key, {})[name] = value
        if isinstance(key, TravelledKey):
            self.held.setdefault(name, key)
        return value
