"""What files of `borrow.store` may hold: each class declares its name there, and its state, where it is written.

    @stored("cells")                                a dataclass or a named tuple: its fields
    @stored("placed-tasks", state="cells device")   another class: these attributes; an estimator: beside its settings
    @stored()                                       stays out of files: None stands in its place

The state is arrays, plain values and objects that are declared too, by name, and all that the class needs: what it
computes of them when asked is not stored, and no constructor is called when a file is read. A name is a word of the
format, never of the code, so that classes can be moved and renamed. One that was written once is read for ever: of
several names the first is written. A field that a class gets later has a default, which is what files without it mean.
A class that is not declared is never looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)

_names: dict[type, str] = {}
_classes: dict[str, type] = {}
_states: dict[type, str] = {}


def stored(*names: str, state: str = "") -> Callable[[Class], Class]:
    """Declare a class whose objects a kernel or a fitted estimator holds; used as its decorator."""

    def declare(kind: Class) -> Class:
        for name in names:
            known = _classes.setdefault(name, kind)
            if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
                raise ValueError(f"{name!r} is what files call {known.__module__}.{known.__qualname__}; choose another")
            _classes[name] = kind
        _names[kind], _states[kind] = names[0] if names else "", state
        return kind

    return declare


def name_of(kind: type) -> str | None:
    """The name that files give the class; empty for one that stays out of them, None for one that is not declared."""
    return _names.get(kind)


def class_of(name: str) -> type | None:
    """The class that declared this name."""
    return _classes.get(name)


def state_names(kind: type) -> list[str]:
    """The names of the state of a class that is declared."""
    if own := _states[kind].split():
        return own
    if is_dataclass(kind):
        return [f.name for f in fields(kind)]
    return list(kind._fields) if issubclass(kind, tuple) else []  # type: ignore[attr-defined]


def defaults_of(kind: type) -> dict[str, Any]:
    """What stands for fields that are newer than a file."""
    if is_dataclass(kind):
        made = {f.name: f.default_factory() for f in fields(kind) if f.default_factory is not MISSING}
        return {f.name: f.default for f in fields(kind) if f.default is not MISSING} | made
    return dict(getattr(kind, "_field_defaults", {}))
