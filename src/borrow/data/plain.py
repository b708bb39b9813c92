"""Values made plain: columns of any kind as floats, what is missing, and one way to values that JSON has."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from borrow.numerics.linalg import Array

TOO_LARGE = "too large to be computed with"
_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def to_json(
    value: Any,
    nonfinite: Literal["text"] | None = None,
    text: Callable[[Any], str] = str,
    longest: float = math.inf,
) -> Any:
    """The value as None, truth values, numbers, texts, lists and dicts with texts as keys.

    Parameters
    ----------
    value : anything. NumPy's scalars and arrays become numbers and lists, tuples and sets become lists.
    nonfinite : what NaN and infinities become, which JSON does not have: None, or the text `nan`, `inf` or `-inf`.
    text : turns texts, keys, and whatever JSON lacks into text.
    longest : an array of more entries than this is given as text.
    """
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size <= longest):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if nonfinite is None else repr(value)
    if isinstance(value, Mapping):
        keys = [text(k.item() if isinstance(k, np.generic) else k) for k in value]
        return dict(zip(keys, (to_json(v, nonfinite, text, longest) for v in value.values()), strict=True))
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(v, nonfinite, text, longest) for v in value]
    return text(value)


def to_floats(values: Any, where: str) -> Array:
    """A column as floats, NaN where missing; what is no number is refused, with its row."""
    values = np.asarray(values)
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {where} holds complex numbers")
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    found = list(values) if values.dtype.kind in "mM" else values.tolist()  # dates of NumPy stay NumPy's
    entries = [np.nan if is_missing(v) else v for v in found]
    for i, v in enumerate(entries):
        if isinstance(v, (complex, np.complexfloating)):
            raise ValueError(f"Complex data not supported: {where} holds the complex number {v} in row {i}")
        if isinstance(v, _DATES):
            raise ValueError(
                f"{where} holds dates or times ({v!s} in row {i}) where numbers are expected; turn them into "
                "numbers, for instance days since the first (borrow.TableEncoder does)"
            )
        try:
            float(v)
        except ValueError:
            remedy = "encode it as numbers"
            if where.endswith("of X"):
                remedy += (
                    " (borrow.TableEncoder does), drop it, or name it with task= if it says which task a row belongs to"
                )
            raise ValueError(f"{where} holds text ({v!r} in row {i}) where numbers are expected; {remedy}") from None
        except OverflowError:
            raise ValueError(f"{where} holds a number {TOO_LARGE} in row {i}; choose other units") from None
        except TypeError as problem:
            raise TypeError(f"{where} holds {v!r} in row {i} where numbers are expected: {problem}") from None
    return np.array(entries, dtype=np.float64)


def is_missing(value: Any) -> bool:
    """None, NaN, or the missing value of a frame library (pandas is not imported for it)."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def name_some(rows: list[int], most: int = 8) -> str:
    """`row 3`, or `rows 3, 5, 8, ... (12 in all)`."""
    more = f", ... ({len(rows):,} in all)" if len(rows) > most else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:most]))}{more}"
