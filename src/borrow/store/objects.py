"""An object as a page that JSON can hold, beside plain arrays; and back.

The page is a list of entries. An entry is one object, and refers only to entries before it, so that a page has no
cycles; what is held twice is written once. Single values stand where they are used: None, True, whole numbers, text
and finite floats as JSON has them (Python writes the shortest decimals that give the same float back), others marked.
Nesting is bounded, and so is what a page unfolds to where entries are referred to again and again (`checks`).

| entry                          | what                                                                       |
|--------------------------------|----------------------------------------------------------------------------|
| `{"array": k}`                 | array k, its memory in the same order                                      |
| `{"sparse": .., "parts": ..}`  | a sparse matrix                                                            |
| `{"list" | "tuple": [..]}`     | as it says; `slice` as its three numbers                                   |
| `{"dict": [[key, value], ..]}` | as it says                                                                 |
| `{"objects": [..], "shape"}`   | an array of labels of several kinds                                        |
| `{"random": .., "state": ..}`  | a random number generator given as random_state                            |
| `{"class": .., "fields": ..}`  | an instance: its fields by name, set without a call                        |
| `{"class": .., "values": ..}`  | a named tuple                                                              |
| `{"class": .., "items": ..}`   | a table                                                                    |
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator

from borrow import models
from borrow.data.labels import list_labels
from borrow.estimators import registry
from borrow.store.checks import (
    BITS,
    PageError,
    check_fields,
    check_keys,
    check_state,
    check_text,
    is_plain,
    named_dtype,
    read_sparse,
)

Arrays = list[npt.NDArray[Any]]

SPARSE: dict[str, Any] = {
    c.__name__: c for c in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix)
}
#: How deep entries may stand in each other, and how many values a page may unfold to whatever the size of its file.
DEEPEST, FEW = 100, 2**16


def encode(value: Any) -> tuple[dict[str, Any], Arrays]:
    """The page of an object, and its arrays."""
    writer = _Writer()
    root = writer.put(value)
    return {"entries": writer.entries, "root": root}, writer.arrays


def decode(page: dict[str, Any], arrays: Arrays, size: int) -> Any:
    """The object of a page in a file of this many bytes. Classes are of the closed list; no constructor is called."""
    reader = _Reader(arrays, size)
    for entry in page["entries"]:
        reader.values, reader.depth = 1, 1
        built = reader.build(entry)
        reader.built.append((built, reader.values, reader.depth))
    return reader.take(page["root"])


class _Writer:
    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.arrays: Arrays = []
        self.places: dict[int, tuple[int, Any]] = {}  # by id, with the object: it lives, and no id is used twice

    def put(self, value: Any) -> Any:
        """A value where it is used: itself, or the place of its entry."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic) and is_plain(value.dtype):
            return {"numpy": value.dtype.str, "bytes": value.tobytes().hex()}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind in (datetime.date, datetime.datetime) and getattr(value, "tzinfo", None) is None:
            return {kind.__name__: value.isoformat()}
        if registry.name_in_files(kind) == "":
            return None
        if id(value) not in self.places:
            entry = self.entry(value)  # first: those that it refers to stand before it
            self.places[id(value)] = len(self.entries), value
            self.entries.append(entry)
        return {"at": self.places[id(value)][0]}

    def all(self, values: Any) -> list[Any]:
        return [self.put(v) for v in values]

    def entry(self, value: Any) -> dict[str, Any]:
        kind = type(value)
        if kind is np.ndarray and value.dtype.kind == "O":
            return {"objects": self.all(value.ravel().tolist()), "shape": list(value.shape)}
        if kind is np.ndarray:
            if not is_plain(value.dtype):
                raise TypeError(f"an array of {value.dtype} cannot be saved; arrays hold numbers, truth, text or times")
            self.arrays.append(np.array(value, order="K"))
            return {"array": len(self.arrays) - 1}
        if kind.__name__ in SPARSE and kind is SPARSE[kind.__name__]:
            parts = self.all(np.asarray(a) for a in (value.data, value.indices, value.indptr))
            return {"sparse": kind.__name__, "parts": parts, "shape": list(value.shape)}
        if kind in (list, tuple):
            return {kind.__name__: self.all(value)}
        if kind is slice:
            return {"slice": self.all((value.start, value.stop, value.step))}
        if kind is dict:
            return {"dict": [self.all(pair) for pair in value.items()]}
        if kind is np.random.RandomState:
            return {"random": "RandomState", "state": self.put(value.get_state(legacy=False))}
        if kind is np.random.Generator:
            state = value.bit_generator.state
            return {"random": state["bit_generator"], "state": self.put(state)}
        name = declared(registry.name_in_files, kind)
        if name is None:
            why = (
                f"its kind is {kind.__module__}.{kind.__qualname__}; what can be saved is an estimator or kernel of "
                "borrow whose settings and labels are text, numbers, dates or arrays"
            )
            why = "it is a function, and a file holds no code" if callable(value) else why
            raise TypeError(f"{_shown(value)} cannot be saved: {why}")
        if isinstance(value, dict):
            return {"class": name, "items": [self.all(pair) for pair in value.items()]}
        if isinstance(value, tuple):
            return {"class": name, "values": self.all(value)}
        return {"class": name, "fields": {n: self.put(v) for n, v in state_of(value).items()}}


def declared(find: Callable[[Any], Any], what: Any) -> Any:
    """What the registry finds; where it finds nothing, all of this package is asked to declare itself first."""
    if find(what) is None:
        models.load()
        import_module("borrow.transfer.auto")
        import_module("borrow.kernels.translate")
    return find(what)


def state_of(value: Any) -> dict[str, Any]:
    """The state that a class declares by name; of an estimator its settings and what it learnt, if it is fitted."""
    names = registry.state_names(type(value))
    if not isinstance(value, BaseEstimator):
        state = value.__getstate__() or {}
        return {n: state[n] for n in names}
    if surplus := sorted(vars(value).keys() - set(names)):
        raise TypeError(
            f"{type(value).__name__} cannot be saved: it has {list_labels(surplus)} beside its settings and what it "
            "declares to have learnt; remove that, or name it in state= where the class is registered"
        )
    return vars(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class _Reader:
    def __init__(self, arrays: Arrays, size: int) -> None:
        self.arrays, self.size = arrays, size
        self.built: list[tuple[Any, int, int]] = []  # each object, how many values it unfolds to, how deep it is
        self.values, self.depth = 1, 1  # of the entry that is being built

    def count(self, values: int, depth: int) -> None:
        """Take note of what the entry holds; refuse one that would take for ever to walk through."""
        self.values += values
        self.depth = max(self.depth, 1 + depth)
        if self.values > max(self.size, FEW) or self.depth > DEEPEST:
            raise PageError("its objects are nested deeper, or repeated more often, than borrow writes them")

    def take(self, value: Any) -> Any:
        """A value from where it is used."""
        self.count(1, 0)
        match value:
            case None | bool() | int() | float() | str():
                return value
            case list():
                raise PageError("a list stands where a value should")
            case {"at": int(at)} if 0 <= at < len(self.built):
                found, values, depth = self.built[at]
                self.count(values, depth)
                return found
            case {"float": "nan" | "inf" | "-inf" as text}:
                return float(text)
            case {"numpy": str(kind), "bytes": str(data)}:
                dtype, raw = named_dtype(kind), bytes.fromhex(data)
                if len(raw) != dtype.itemsize:
                    raise PageError("a number is not as long as its kind")
                return check_text(np.frombuffer(raw, dtype))[0] if raw else dtype.type()
            case {"bytes": str(data)}:
                return bytes.fromhex(data)
            case {"date": str(text)}:
                return datetime.date.fromisoformat(text)
            case {"datetime": str(text)}:
                return datetime.datetime.fromisoformat(text)
        raise PageError(f"it has {_shown(value)} where a value is expected")

    def all(self, values: list[Any]) -> list[Any]:
        if not isinstance(values, list):
            raise PageError("a list is expected")
        return [self.take(v) for v in values]

    def pairs(self, values: list[Any]) -> list[tuple[Any, Any]]:
        found = [(key, value) for key, value in map(self.all, values)]
        check_keys([key for key, _ in found])
        return found

    def build(self, entry: dict[str, Any]) -> Any:
        """The object of an entry."""
        match entry:
            case {"array": int(k)} if 0 <= k < len(self.arrays):
                return self.arrays[k]
            case {"sparse": str(name), "parts": list(parts), "shape": [int(n), int(d)]} if name in SPARSE:
                return read_sparse(SPARSE[name], self.all(parts), (n, d))
            case {"objects": list(values), "shape": list(shape)}:
                out = np.empty(len(values), dtype=object)
                for i, v in enumerate(values):
                    out[i] = self.take(v)
                return out.reshape([int(n) for n in shape])
            case {"list": list(values)}:
                return self.all(values)
            case {"tuple": list(values)}:
                return tuple(self.all(values))
            case {"slice": [int() | None, int() | None, int() | None] as values}:
                return slice(*values)
            case {"dict": list(values)}:
                return dict(self.pairs(values))
            case {"random": str(name), "state": state}:
                return _generator(name, self.take(state))
            case {"class": str(name)}:
                return self.instance(name, entry)
        raise PageError(f"it has {_shown(entry)} where an object is expected")

    def instance(self, name: str, entry: dict[str, Any]) -> Any:
        kind = declared(registry.class_in_files, name)
        if kind is None:
            raise PageError(f"it names {name!r}, which this borrow does not know; update borrow")
        match entry:
            case {"items": list(items)} if issubclass(kind, dict):
                return kind(self.pairs(items))
            case {"values": list(values)} if issubclass(kind, tuple):
                fields, later = kind._fields, registry.defaults_of(kind)
                own = [*self.all(values), *(later[n] for n in fields[len(values) :] if n in later)]
                if len(own) != len(fields):
                    raise PageError(f"it has {len(values)} values for {name}; {_REMEDY}")
                check_fields(kind, dict(zip(fields, own, strict=True)), self.size)
                return tuple.__new__(kind, own)
            case {"fields": dict(own)} if not issubclass(kind, (dict, tuple)):
                return _instance(kind, {n: self.take(v) for n, v in own.items()}, self.size)
        raise PageError(f"it has {name} in a form that does not fit; {_REMEDY}")


_REMEDY = "it comes from another version of borrow: load it with that one, or fit again"


def _instance(kind: type, state: dict[str, Any], size: int) -> Any:
    """An instance with these fields, and the defaults of newer ones; nothing of its class is called."""
    check_fields(kind, state, size)
    names = registry.state_names(kind)
    state = {n: v for n, v in registry.defaults_of(kind).items() if n in names} | state
    wrong = set(names) ^ set(state)
    if issubclass(kind, BaseEstimator):  # one that is not fitted has learnt nothing
        wrong -= set(names) - set(kind._get_param_names())  # type: ignore[attr-defined]
    if wrong:
        raise PageError(f"the fields {sorted(wrong)} of {kind.__name__} do not agree; {_REMEDY}")
    value: Any = object.__new__(kind)
    value.__dict__.update(state)
    return value


def _generator(name: str, state: Any) -> Any:
    check_state(state)
    if name == "RandomState":
        generator = np.random.RandomState()
        generator.set_state(state)
        return generator
    if name not in BITS:
        raise PageError(f"it names the random numbers {name!r}, which this borrow does not know")
    bits = BITS[name]()
    bits.state = state
    return np.random.Generator(bits)
