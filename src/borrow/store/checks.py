"""What is checked of a stored model before it is built, because code in C would trust it.

Numpy, scipy and Python check most of what they are given and raise. What they take on trust is checked here: where the
indices of a sparse matrix point, where a random number generator stands in its own memory, that truth is 0 or 1 and
text is text, that nothing claims to be longer than the file is, and that no object says by its attributes where in
memory its values lie.
"""

from __future__ import annotations

import io
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from borrow.numerics import memory

#: The name of a kind of array that is plain memory: numbers, truth, text, bytes, times.
_KIND = re.compile(r"[<>|=](b1|[iu][1248]|f[248]|c(8|16)|[US][0-9]{1,9}|[mM]8(\[[0-9]{0,9}[a-zA-Zμ]{1,2}\])?)")
#: The header of an array as numpy writes it. It is matched rather than evaluated.
_HEADER = re.compile(
    r"\{'descr': '([^']{2,40})', 'fortran_order': (False|True), 'shape': \(((?:[0-9]{1,15},? ?){0,32})\), \} *\n"
)
BITS: dict[str, Any] = {
    c.__name__: c for c in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}


class PageError(ValueError):
    """A page that does not say what it should."""


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether an array of this kind is plain memory that every machine reads alike; long doubles are not."""
    return dtype.names is None and dtype.subdtype is None and _KIND.fullmatch(dtype.str) is not None


def named_dtype(name: str) -> np.dtype[Any]:
    """The kind of array with this name, where it is plain memory."""
    if not _KIND.fullmatch(name):
        raise PageError(f"it holds an array of {name[:40]}, which could carry code; borrow never writes one")
    return np.dtype(name)


def read_array(data: bytes, size: int) -> npt.NDArray[Any]:
    """An array from its .npy bytes; its stated size must be the size that there is.

    No array may have more rows and columns than the file has bytes, though it may hold nothing at all: code that makes
    one number per row of an empty array would take that much memory.
    """
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise PageError(f"it holds an array of format {version}")
    at = file.tell() + 2 + int.from_bytes(file.read(2), "little")
    header = _HEADER.fullmatch(data[file.tell() : at].decode("latin1"))
    if header is None:
        raise PageError("it holds an array of structures or objects, which could carry code; borrow never writes one")
    dtype, shape = named_dtype(header[1]), tuple(map(int, re.findall("[0-9]+", header[3])))
    if math.prod(shape) * dtype.itemsize != len(data) - at or math.prod(max(n, 1) for n in shape) > max(size, 1):
        raise PageError("an array is not as long as it says")
    flat = np.frombuffer(data, dtype, offset=at).copy() if dtype.itemsize else np.empty(math.prod(shape), dtype)
    flat = check_text(flat.astype(dtype.newbyteorder("="), copy=False))
    return flat.reshape(shape[::-1]).T if header[2] == "True" else flat.reshape(shape)


def check_text(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same array, where truth is 0 or 1 and text has characters that there are."""
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise PageError("a truth value is neither true nor false")
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = array.astype(array.dtype.newbyteorder("="), copy=False).view(np.uint32)
        if codes.max() > 0x10FFFF:
            raise PageError("text holds characters that do not exist")
    return array


def read_sparse(kind: Any, parts: list[Any], shape: tuple[int, int]) -> Any:
    """A sparse matrix whose every index has been looked at: code in C follows them without asking."""
    data, indices, indptr = parts
    arrays = all(isinstance(a, np.ndarray) and a.ndim == 1 for a in parts) and min(shape) >= 0
    if not arrays or data.dtype.kind not in "biufc" or {indices.dtype.kind, indptr.dtype.kind} != {"i"}:
        raise PageError("a sparse matrix does not consist of three rows of numbers")
    major, minor = shape if kind.__name__.startswith("csr") else shape[::-1]
    begins = len(indptr) == major + 1 and indptr[0] == 0 and bool((np.diff(indptr) >= 0).all())
    if not begins or not len(data) == len(indices) == indptr[-1]:
        raise PageError("the rows of a sparse matrix are not where it says")
    if len(indices) and not 0 <= indices.min() <= indices.max() < minor:
        raise PageError("a sparse matrix has a number outside its columns")
    memory.require(8 * max(shape), "a sparse matrix", "load it where there is more memory")
    return kind((data, indices, indptr), shape=shape)


def check_keys(keys: list[Any]) -> None:
    """Keys of a dict, or labels, which become such: single values, or tuples of them, most with hashes apart."""
    if not all(map(_is_key, keys)):
        raise PageError("a dict has a key that is neither a single value nor a tuple of some")
    if len(keys) > 1000 and len({hash(k) for k in keys}) < len(keys) // 20:
        raise PageError("the keys of a dict were chosen to have one hash")


def _is_key(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_key, value))
    return not hasattr(value, "__dict__") and value.__hash__ is not None


def check_state(state: Any) -> None:
    """A random number generator reads its own memory at a position that it does not check."""
    for held, name, last in ((state["state"], "pos", 624), (state, "buffer_pos", 4)):
        if isinstance(held, dict) and name in held and not (type(held[name]) is int and 0 <= held[name] <= last):
            raise PageError("a random number generator stands outside its own state")


def check_fields(kind: type, state: dict[str, Any], size: int) -> None:
    """Names that Python or numpy would read a meaning into are refused, and so are codes and counts beyond the file.

    An object with an attribute such as `__array_interface__` tells numpy an address in memory to read from. Whole
    numbers in the fields of a fitted model count rows, columns or tasks, or point at them, so that none of them is
    larger than the file; the settings of an estimator are its user's.
    """
    attributes = state.get("attributes")
    for name in [*state, *(attributes if isinstance(attributes, dict) else ())]:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("__"):
            raise PageError(f"{kind.__name__} has a field of the name {str(name)[:40]!r}")
    if issubclass(kind, BaseEstimator):
        return
    for name, value in state.items():
        if name in _LABELS and isinstance(value, (list, tuple)):
            check_keys(list(value))
        whole = isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size
        if whole and not -size <= value.min() <= value.max() <= size:
            raise PageError(f"{name} of {kind.__name__} points beyond the file")
        if name in _COUNTS and type(value) is int and not 0 <= value <= max(size, _COUNTS[name]):
            raise PageError(f"{name} of {kind.__name__} is more than the file can hold")
        if name == "starts" and not (whole and value.ndim == 1 and value[0] == 0 and (np.diff(value) >= 0).all()):
            raise PageError(f"the rows of {kind.__name__} are not where it says")


#: Fields that hold labels of tasks and names of columns.
_LABELS = ("labels", "names", "others")
#: Fields that say how many there are of something, and how many there may be whatever the size of the file.
_COUNTS = {"n_tasks": 0, "M": 0, "n_features": 2**31}
