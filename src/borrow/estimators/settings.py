"""Constructor arguments: numbers, entries by task label, and what is refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from borrow.data.labels import list_labels, places_of, sort_labels

#: Whether a value fits, and what is expected in words.
Check = tuple[Callable[[Any], bool], str]
#: What settings may be, by name.
Allowed = Mapping[str, Check]


def expect(fits: bool, name: str, value: Any, expected: str) -> None:
    """Refuse an argument that does not fit: its name, what came, and what was expected."""
    if not fits:
        raise ValueError(f"{name}={value!r}: expected {expected}")


def check_allowed(settings: Mapping[str, Any], allowed: Allowed) -> None:
    """Refuse a setting that is not allowed; names that are not among the settings are passed over."""
    for name, (fits, expected) in allowed.items():
        if name in settings:
            expect(fits(settings[name]), name, settings[name], expected)


def whole(least: int, *also: Any) -> Check:
    """An entry of `Allowed`: a whole number of at least so much, or one of these values."""
    return (
        lambda value: is_whole(value, least) or is_among(value, also),
        f"{_or(also)}a whole number of at least {least}",
    )


def positive(*also: Any) -> Check:
    """An entry of `Allowed`: a positive number, or one of these values."""
    return lambda v: (is_number(v) and v > 0) or is_among(v, also), f"{_or(also)}a positive number"


def one_of(*values: Any, said: str) -> Check:
    """An entry of `Allowed`: one of these values, said in words."""
    return lambda value: is_among(value, values), said


def _or(values: tuple[Any, ...]) -> str:
    return "".join(f"{value!r} or " for value in values)


def is_whole(value: Any, least: int) -> bool:
    """Whether a value is a whole number of at least so much, Python's or NumPy's."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least


def is_among(value: Any, values: tuple[Any, ...]) -> bool:
    """Whether a value is one of these; an array is none of them."""
    return np.ndim(value) == 0 and value in values


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
        if unknown := [k for k in value if k not in labels]:
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


def check_seed(value: Any) -> None:
    """Refuse what no random numbers can start from."""
    if is_whole(value, 0) and value < 2**32:  # a generator need not be made to know that
        return
    try:
        check_random_state(value)
    except ValueError:
        raise ValueError(
            f"random_state={value!r}: expected a whole number from 0 to {2**32 - 1}, a numpy.random.RandomState, "
            "or None"
        ) from None
