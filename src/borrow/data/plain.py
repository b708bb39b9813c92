"""One way from Python and NumPy values to values that JSON has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np


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
