"""Objects that travel as what they were made from."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


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
