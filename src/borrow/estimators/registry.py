"""The estimators that there are. Each declares itself once, where it is written; everything else reads it here.

`compare`, `Auto*`, the command line, the report, the store, the reference and `borrow.__init__` know an estimator by
its entry. An estimator from outside is registered in the same way and is then found in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeVar

from sklearn.base import BaseEstimator, RegressorMixin

from borrow.numerics.stored import class_of, name_of
from borrow.numerics.stored import defaults_of as defaults_of
from borrow.numerics.stored import state_names as declared_state
from borrow.numerics.stored import stored as stored

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Entry:
    """What an estimator declares of itself.

    `state` names the attributes of a fit that files hold beside the settings.

    `key` names the method that it is in comparisons, `label` says it in words, `rank` is its place in every table, and
    `about` is a line for readers who do not know it; one of the estimators of a method says it. Above `most_rows` rows
    in all, `methods="auto"` leaves it out: it would take minutes per fold. `matrix` says what rows its largest matrix
    has: those of one "task", of "all" tasks, or "few". `drops` says that it can drop a relation, so that data that do
    not help need not hurt it: "the other data hurt" is said where all such methods lose. `not_in_auto` says why
    `methods="auto"` leaves it out, and `no_new_task` why it cannot answer for a task never seen. `role` is what
    comparisons and reports ask it for: how the tasks go with the primary ("relations"), how each two go together
    ("pairs"), or what can be said of all tasks "as one". `settings` are those that make the estimator this method. An
    estimator without a key is public and stands in no comparison.
    """

    estimator: type
    key: str | None = None
    label: str = ""
    state: str = "fitted_"
    rank: int = 100
    most_rows: float = inf
    about: str = ""
    matrix: Literal["task", "all", "few"] = "task"
    drops: bool = False
    not_in_auto: str = ""
    no_new_task: str = ""
    role: Literal["", "relations", "pairs", "as one"] = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The public name of the class."""
        return self.estimator.__name__

    @property
    def kind(self) -> str:
        """What it predicts: "regression" for numbers, "classification" for labels."""
        return "regression" if issubclass(self.estimator, RegressorMixin) else "classification"

    def takes(self, argument: str) -> bool:
        """Whether the constructor has this argument, as `primary` or `workers`."""
        names: list[str] = self.estimator._get_param_names()  # type: ignore[attr-defined]
        return argument in names


_entries: dict[str, Entry] = {}


def register(key: str | None = None, label: str = "", **more: Any) -> Callable[[Class], Class]:
    """Declare an estimator, by the fields of `Entry`; used as a decorator of its class."""

    def declare(estimator: Class) -> Class:
        _entries[estimator.__name__] = Entry(estimator, key, label, **more)
        return estimator

    return declare


def entries() -> list[Entry]:
    """All entries, in the order of every table."""
    return sorted(_entries.values(), key=lambda e: (e.rank, e.name))


def name_in_files(kind: type) -> str | None:
    """What files call a class: a registered estimator by its name, another as it declares (`stored`), or None."""
    entry = _registered(kind)
    return name_of(kind) if entry is None else entry.name


def state_names(kind: type) -> list[str]:
    """What files hold of an object: what its class declares, and the settings of an estimator first."""
    entry = _registered(kind)
    own = declared_state(kind) if entry is None else entry.state.split()
    return [*kind._get_param_names(), *own] if issubclass(kind, BaseEstimator) else own  # type: ignore[attr-defined]


def _registered(kind: type) -> Entry | None:
    """The entry of this very class."""
    entry = by_name(kind.__name__)
    return entry if entry is not None and entry.estimator is kind else None


def class_in_files(name: str) -> type | None:
    """The class that files call so; None where there is none."""
    entry = by_name(name)
    return class_of(name) if entry is None else entry.estimator


def by_name(name: str) -> Entry | None:
    """The entry of the class with this name; None where there is none."""
    return _entries.get(name)


def by_key(key: str, kind: str) -> Entry | None:
    """The estimator of a method for this kind of target; None where there is none."""
    return next((e for e in entries() if e.key == key and e.kind == kind), None)


def methods() -> dict[str, str]:
    """Label by key of every method that can be compared, in the order of every table."""
    return {e.key: e.label for e in entries() if e.key is not None}


def role_of(model: Any) -> str:
    """What comparisons and reports ask the model's method for; empty where it has no role."""
    return "" if (found := entry_of(model)) is None else found.role


def entry_of(model: Any) -> Entry | None:
    """The entry of a fitted or unfitted estimator, or of the class that it derives from."""
    return next((_entries[c.__name__] for c in type(model).__mro__ if c.__name__ in _entries), None)
