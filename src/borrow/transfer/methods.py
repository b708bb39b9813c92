"""The methods that are compared, as the registry has them: which to run, which to leave out, and what to build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from borrow import models
from borrow.data.labels import list_labels
from borrow.estimators import registry
from borrow.estimators.registry import Entry


class MethodLabels(Mapping[str, str]):
    """What every method is called for people, by its key, in the order of every table; read when it is asked for."""

    def _now(self) -> dict[str, str]:
        models.load()
        return registry.methods()

    def __getitem__(self, key: str) -> str:
        return self._now()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


LABELS = MethodLabels()


def entry(kind: str, key: str) -> Entry:
    """The estimator behind a method, for targets of this kind."""
    label = LABELS[key]
    found = registry.by_key(key, kind)
    if found is None:
        raise ValueError(f"method {key!r} ({label}) is for {_other(kind)} only")
    return found


def _other(kind: str) -> str:
    return "regression" if kind == "classification" else "classification"


def estimator_name(kind: str, key: str) -> str:
    """Name of the estimator behind a method."""
    return entry(kind, key).name


def build(
    kind: str,
    key: str,
    task: Any = None,
    primary: Any = None,
    random_state: Any = 0,
    alone: bool = False,
    unseen: str = "error",
) -> Any:
    """An estimator, not yet fitted; with `alone=True` one that can fit the primary and no other task does so."""
    found = entry(kind, key)
    settings = {"primary": primary} if found.takes("primary") else {}
    if alone and found.takes("only"):
        settings = {"only": primary}
    if unseen != "error":
        settings["unseen"] = unseen
    return found.estimator(task=task, random_state=random_state, **settings)


def key_of(model: Any) -> str | None:
    """The method that an estimator is; None where it is none."""
    found = registry.entry_of(model)
    return None if found is None else found.key


def choose(kind: str, rows: int, methods: Any) -> tuple[list[str], dict[str, str]]:
    """Methods to run, in order, and why others are left out; `rows` are those of all tasks with a target.

    Names that are no methods, and methods that do not apply, are refused.
    """
    if not (isinstance(methods, str) and methods == "auto"):
        asked = [methods] if isinstance(methods, str) else list(methods)
        if unknown := [key for key in asked if key not in LABELS]:
            known = list_labels(list(LABELS))
            raise ValueError(f"methods names {list_labels(unknown)}; methods are {known}, or 'auto'")
        chosen = {"single", *(entry(kind, key).key for key in asked)}
        return [key for key in LABELS if key in chosen], {}
    skipped = {}
    for key in LABELS:
        found = registry.by_key(key, kind)
        if found is None:
            skipped[key] = f"for {_other(kind)} only"
        elif rows > found.most_rows:
            skipped[key] = f"{rows:,} rows are many for one joint matrix; name it in methods= to run it all the same"
    return [key for key in LABELS if key not in skipped], skipped
