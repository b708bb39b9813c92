"""Labels of tasks and names of columns: their order, their codes, how messages list them."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # messages need no linear algebra
    from borrow.data.cells import Codes


def sort_labels(values: Iterable[Any]) -> tuple[Hashable, ...]:
    """Distinct labels in order: numbers by size, then text by letters, then other kinds."""
    distinct = list(dict.fromkeys(values))

    def kind(v: Any) -> tuple[int, str]:
        return (
            (0, "")
            if isinstance(v, (int, float, np.number, np.bool_))
            else (1 + (not isinstance(v, str)), type(v).__name__)
        )

    try:
        return tuple(sorted(distinct, key=lambda v: (kind(v), v)))
    except TypeError:  # labels that have no order among themselves
        return tuple(sorted(distinct, key=lambda v: (kind(v), repr(v))))


def encode(values: Sequence[Any], labels: tuple[Hashable, ...]) -> Codes:
    """Codes of labels; a label that is not among them is an error that lists those that are."""
    codes = {label: i for i, label in enumerate(labels)}
    if unknown := [v for v in dict.fromkeys(values) if v not in codes]:
        raise ValueError(
            f"unknown task {list_labels(unknown)}: fit saw no row of it; tasks are {list_labels(sort_labels(labels))} "
            "(in cross-validation, shuffle or stratify by task, so that every fold trains on all of them; where new "
            "tasks are meant, unseen='population' in the constructor answers for them)"
        )
    return np.fromiter((codes[v] for v in values), dtype=np.intp, count=len(values))


def places_of(labels: tuple[Hashable, ...]) -> Codes:
    """Where the sorted labels stand: takes what is in the order of codes into the order that is shown."""
    return encode(sort_labels(labels), labels)


def list_labels(labels: Sequence[Any], most: int = 12) -> str:
    """`'s1', 's2', 's3', ... (40 in all)`."""
    shown = ", ".join(repr(v) for v in labels[:most])
    return shown if len(labels) <= most else f"{shown}, ... ({len(labels)} in all)"


def counted(n: int, noun: str) -> str:
    """A number and what it counts: `1 row`, `1,200 rows`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def is_pairs(X: Any) -> bool:
    """A list of (X, y) pairs, or a dict of them by label; a list of tuples of numbers is a table."""
    items = list(X.values()) if isinstance(X, Mapping) else X
    return (
        isinstance(items, list)
        and len(items) > 0
        and all(isinstance(p, tuple) and len(p) == 2 and hasattr(p[0], "__len__") for p in items)
        and not any(isinstance(v, str) for p in items for v in p)
    )


def nearest(name: Any, among: Iterable[Any], closeness: float = 0.6) -> Any:
    """The name that is written most alike, or None."""
    by_lower = {str(c).lower(): c for c in among}
    near = difflib.get_close_matches(str(name).lower(), list(by_lower), 1, closeness)
    return by_lower[near[0]] if near else None


def did_you_mean(name: Any, among: Iterable[Any], closeness: float = 0.6) -> str:
    """A question with the nearest name, such as `; did you mean 'score'?`, or nothing."""
    near = nearest(name, among, closeness)
    return "" if near is None else f"; did you mean {near!r}?"
