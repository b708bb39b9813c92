"""Save and load without pickle: one .npz of plain arrays and a JSON page. Loading executes nothing.

The page names each object by its class, from the short list below, and its fields; arrays lie beside it under names
that the page gives. A version and a SHA-256 of the page and of every array are checked before anything is built. A file
is written beside its place and then moved there, so that a reader sees the old one or the new one.

Another kind of object is added by giving `KINDS` its class; dataclasses are stored field by field.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from borrow import kernels

VERSION = 1
PAGE = "page.json"

#: What may be stored: class by name. Nothing outside this list is ever looked up by a name in a file.
KINDS: dict[str, type] = {
    k.__name__: k
    for k in (
        kernels.Constant,
        kernels.LearnedKernel,
        kernels.Linear,
        kernels.Matern,
        kernels.NeuralNetwork,
        kernels.Periodic,
        kernels.Product,
        kernels.RationalQuadratic,
        kernels.SquaredExponential,
        kernels.Sum,
    )
}


class StoreError(ValueError):
    """A file that is not one of ours, is damaged, or comes from a later version."""


def save(value: Any, path: str | os.PathLike[str]) -> Path:
    """Write a kernel to one file; what was there before is replaced at once or not at all."""
    path = Path(path)
    arrays: dict[str, Any] = {}
    content = _encode(value, arrays)
    page = json.dumps({"format": "borrow", "version": VERSION, "content": content}, sort_keys=True).encode()
    parts = {f"{name}.npy": _bytes(a) for name, a in arrays.items()}
    digest = _digest(page, parts)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as file:
        try:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(PAGE, page)
                archive.writestr("sha256", digest)
                for name, data in parts.items():
                    archive.writestr(name, data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return path


def load(path: str | os.PathLike[str]) -> Any:
    """What `save` wrote. Nothing in the file is executed."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if not {PAGE, "sha256"} <= names:
                raise StoreError(f"{path} is not a file that borrow wrote: it has no {PAGE}")
            page = archive.read(PAGE)
            parts = {n: archive.read(n) for n in sorted(names - {PAGE, "sha256"})}
            stated = archive.read("sha256").decode("ascii", "replace")
    except zipfile.BadZipFile:
        raise StoreError(f"{path} is not a file that borrow wrote, or it is damaged") from None
    if _digest(page, parts) != stated:
        raise StoreError(f"{path} is damaged: its checksum does not agree with its content; save it again")
    found = json.loads(page)
    if found.get("format") != "borrow" or not isinstance(found.get("version"), int):
        raise StoreError(f"{path} is not a file that borrow wrote")
    if found["version"] > VERSION:
        raise StoreError(f"{path} has version {found['version']} and this borrow reads up to {VERSION}; update borrow")
    arrays = {n.removesuffix(".npy"): _array(data) for n, data in parts.items()}
    return _decode(found["content"], arrays)


def _encode(value: Any, arrays: dict[str, Any]) -> Any:
    """A value as JSON; arrays are put aside under a number."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, (float, np.floating)):
        return {"float": float(value).hex()}
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return {"array": name}
    if sparse.issparse(value):
        rows = sparse.csr_array(value)
        own = [_encode(np.asarray(a), arrays) for a in (rows.data, rows.indices, rows.indptr)]
        return {"sparse": own, "shape": list(rows.shape)}
    if isinstance(value, (tuple, list)):
        return {"tuple": [_encode(v, arrays) for v in value]}
    name = type(value).__name__
    if KINDS.get(name) is not type(value):
        raise TypeError(f"{value!r} cannot be saved; what can is {', '.join(KINDS)}")
    parts = {f.name: _encode(getattr(value, f.name), arrays) for f in fields(KINDS[name])}
    return {"object": name, "fields": parts}


def _decode(content: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(content, dict):
        return content
    if "float" in content:
        return float.fromhex(content["float"])
    if "array" in content:
        return arrays[content["array"]]
    if "sparse" in content:
        parts = tuple(_decode(c, arrays) for c in content["sparse"])
        return sparse.csr_array(parts, shape=tuple(content["shape"]))
    if "tuple" in content:
        return tuple(_decode(c, arrays) for c in content["tuple"])
    name = content.get("object")
    if name not in KINDS:
        raise StoreError(f"the file names {name!r}, which this borrow does not know; update borrow")
    return KINDS[name](**{n: _decode(c, arrays) for n, c in content["fields"].items()})


def _bytes(array: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()


def _array(data: bytes) -> Any:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _digest(page: bytes, parts: dict[str, bytes]) -> str:
    total = hashlib.sha256(page)
    for name in sorted(parts):
        total.update(name.encode())
        total.update(hashlib.sha256(parts[name]).digest())
    return total.hexdigest()
