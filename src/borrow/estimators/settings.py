"""Constructor arguments: numbers, entries by task label, and what is refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from borrow.data.labels import list_labels, places_of, sort_labels

#: What settings may be, by name: whether a value fits, and what is expected in words.
Allowed = Mapping[str, tuple[Callable[[Any], bool], str]]


def check_allowed(estimator: Any, allowed: Allowed) -> None:
    """Refuse a setting that is not allowed; names that the estimator does not have are passed over."""
    for name, (fits, expected) in allowed.items():
        if hasattr(estimator, name) and not fits(value := getattr(estimator, name)):
            raise ValueError(f"{name}={value!r}: expected {expected}")


def whole(least: int) -> tuple[Callable[[Any], bool], str]:
    """An entry of `Allowed`: a whole number of at least so much."""
    return lambda value: is_whole(value, least), f"a whole number of at least {least}"


def is_whole(value: Any, least: int) -> bool:
    """Whether a value is a whole number of at least so much, Python's or NumPy's."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least


def is_among(value: Any, words: tuple[str, ...]) -> bool:
    """Whether a value is one of these words; an array is none of them."""
    return isinstance(value, str) and value in words


def is_number(value: Any) -> bool:
    """A single finite number, Python's or NumPy's."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))


def is_matrix(value: Any, columns: int) -> bool:
    """At least one row of finite numbers, of so many columns."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return False
    array = np.asarray(value)
    shaped = array.ndim == 2 and len(array) > 0 and array.shape[1] == columns
    return shaped and array.dtype.kind in "iuf" and bool(np.isfinite(array).all())


def by_label(value: Any, labels: tuple[Hashable, ...], name: str, default: Any) -> list[Any]:
    """One entry per task from a scalar, a dict by label, or nothing."""
    if isinstance(value, Mapping):
        unknown = [k for k in value if k not in labels]
        if unknown:
            raise ValueError(
                f"{name} names the task {list_labels(unknown)}; tasks are {list_labels(sort_labels(labels))}"
            )
        return [value.get(label, default) for label in labels]
    return [default if value is None else value] * len(labels)


def numbers_by_label(value: Any, labels: tuple[Hashable, ...], name: str, default: float) -> list[float]:
    """The same where every entry is a number."""
    values = by_label(value, labels, name, default)
    for t in places_of(labels):
        if not is_number(values[t]):
            raise ValueError(f"{name} of task {labels[t]!r} is {values[t]!r}; expected a number")
    return [float(v) for v in values]


def check_seed(value: Any, name: str = "random_state") -> None:
    """Refuse what no random numbers can start from."""
    try:
        check_random_state(value)
    except ValueError:
        raise ValueError(
            f"{name}={value!r}: expected a whole number from 0 to {2**32 - 1}, a numpy.random.RandomState, or None"
        ) from None


def check_numbers(estimator: Any, *names: str, also: tuple[Any, ...] = (), whole: bool = False) -> None:
    """Refuse arguments that are neither a positive number, a whole one if it must be, nor among `also`."""
    for name in names:
        value = getattr(estimator, name)
        fits = isinstance(value, (int, np.integer)) and value >= 1 if whole else is_number(value) and value > 0
        if not fits and not any(type(value) is type(v) and value == v for v in also):
            other = "".join(f"{v!r} or " for v in also)
            kind = "a whole number of at least 1" if whole else "a positive number"
            raise ValueError(f"{name}={value!r}: expected {other}{kind}")
