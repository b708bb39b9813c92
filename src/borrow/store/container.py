"""The file: a zip archive that `numpy.load` can open too, never compressed, with a digest of its own at the end.

    page.json         what the object is; `about` is for people, and for `describe`
    0.npy, 1.npy, ..  its arrays
    (comment)         SHA-256 of every byte before it

The digest is compared before the archive is opened, so one changed or missing byte anywhere is found. Members are not
compressed and their sizes must be those of the file, so that a small file cannot ask for much memory: reading holds at
most four times the file, and a page that would unfold to more asks the memory guard first. Only regular files are read.
A file is written beside its place and then moved there: a reader sees the old one or the new one. The same object gives
the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from borrow import __version__
from borrow.data.labels import list_labels
from borrow.data.plain import to_json
from borrow.numerics import memory
from borrow.numerics.files import write_atomically

if TYPE_CHECKING:
    from borrow.store.objects import Arrays

VERSION = 4
#: The last commits that read files of earlier formats; `__version__` was the same.
LAST_TO_READ = {1: "418f0b6", 2: "7804319", 3: "128d980"}
PAGE = "page.json"
DIGEST = 64  # hexadecimal digits
_DESCRIBED = ("format_version", "arrays", "bytes")  # what `describe` adds
_LEARNT = ("classes_", "kernel_", "noise_", "log_marginal_likelihood_", "n_iter_", "converged_", "method_")
_START = b"PK\x03\x04"
_BORN = (1980, 1, 1, 0, 0, 0)  # of every member: the same object gives the same file
#: The least that an array takes: two headers with its name, and its own header.
_LEAST_MEMBER = 214
#: Bytes that Python holds at most for each mark of a page, and how many a small page may hold without asking.
_UNFOLDED, _SMALL = {b"{": 232, b"[": 88, b'"': 40, b",": 40, b":": 40}, 2**24


class StoreError(ValueError):
    """A file that is not one of ours, is damaged, or comes from a later version.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import borrow
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "notes.txt"
    >>> _ = place.write_text("no model")
    >>> try:
    ...     borrow.store.load(place)
    ... except borrow.store.StoreError as problem:
    ...     "is not a file that borrow wrote" in str(problem)
    True
    """


def save(value: Any, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None) -> Path:
    """Write an estimator (fitted or not) or a kernel to one file; what was there is replaced at once or not at all.

    `about` is put beside the description that `describe` gives: plain values only, under names of its own.

    Examples
    --------
    >>> import borrow
    >>> X, tasks = [[0.0], [1.0], [2.0], [3.0]] * 2, list("aaaabbbb")
    >>> y = [0.1, 0.9, 0.8, 0.2, 1.2, 2.0, 1.9, 1.1]
    >>> model = borrow.PooledGPRegressor(optimizer=None).fit(X, y, tasks=tasks)
    >>> import tempfile, pathlib
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "model.borrow"
    >>> _ = borrow.store.save(model, place)
    >>> place.stat().st_size > 0
    True
    """
    from borrow.store.objects import encode  # knows every class; what a file says of itself is read without

    place = Path(path)
    content, arrays = encode(value)
    if about is not None and not isinstance(about, Mapping):
        raise TypeError(f"about is {type(about).__name__}; expected a dict")
    described, more = _about(value), dict(about or {})
    if taken := [name for name in more if name in (*described, *_DESCRIBED)]:
        raise ValueError(f"about names {list_labels(taken)}, which the file says by itself; choose other names")
    try:
        json.dumps(more, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as odd:
        raise ValueError(f"about holds what JSON has not ({odd}); give plain texts, numbers, lists and dicts") from None
    page = {"format": "borrow", "version": VERSION, "about": {**described, **more}, **content}
    write_atomically(place, pack(json.dumps(page, allow_nan=False, ensure_ascii=True).encode(), arrays))
    return place


def load(path: str | os.PathLike[str]) -> Any:
    """What `save` wrote. Nothing in the file is executed, and only classes of a closed list are built.

    Examples
    --------
    >>> import tempfile
    >>> import borrow
    >>> kernel = borrow.kernels.Linear(2.0) + borrow.kernels.Constant(1.0)
    >>> place = borrow.store.save(kernel, f"{tempfile.mkdtemp()}/kernel.borrow")
    >>> borrow.store.load(place) == kernel
    True
    """
    from borrow.store.checks import PageError, read_array
    from borrow.store.objects import decode

    page, members, size = _read(path)
    try:
        return decode(page, [read_array(members.pop(0), size) for _ in range(len(members))], size)
    except PageError as wrong:
        raise StoreError(f"{path} cannot be read: {wrong}") from None
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as odd:
        raise StoreError(f"{path} cannot be read: its page is not one that borrow writes ({odd})") from None


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in the file, as plain values, without building it.

    Examples
    --------
    >>> import tempfile
    >>> import borrow
    >>> model = borrow.PooledGPRegressor("machine", max_iter=20)
    >>> about = borrow.store.describe(borrow.store.save(model, f"{tempfile.mkdtemp()}/model.borrow"))
    >>> about["class"], about["settings"]["task"], about["fitted"]
    ('PooledGPRegressor', 'machine', False)
    """
    page, members, size = _read(path)
    about = page.get("about")
    if not isinstance(about, dict):
        raise StoreError(f"{path} cannot be read: its page does not say what it holds")
    return {**about, "format_version": page["version"], "arrays": len(members), "bytes": size}


def pack(page: bytes, arrays: Arrays) -> bytes:
    """The bytes of a file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in [(PAGE, page), *((f"{k}.npy", _bytes(a)) for k, a in enumerate(arrays))]:
            archive.writestr(zipfile.ZipInfo(name, _BORN), data)
        archive.comment = b"0" * DIGEST
    whole = out.getvalue()[:-DIGEST]
    return whole + hashlib.sha256(whole).hexdigest().encode()


def _regular(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file that looks like one of ours and fits into memory; anything else is not opened."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a device, a pipe or a socket"
        raise StoreError(f"{path} is {what}, not a file that borrow wrote")
    with open(path, "rb") as file:
        start = file.read(30 + len(PAGE))
        if start[:4] != _START or start[30:] != PAGE.encode():
            raise StoreError(f"{path} is not a file that borrow wrote, or it is damaged")
        _ask(4 * found.st_size, path)
        return start + file.read(max(found.st_size - len(start), 0))


def _ask(n_bytes: int, path: str | os.PathLike[str]) -> None:
    """Refuse what does not fit into memory."""
    try:
        memory.require(n_bytes, f"reading {path}", "load it where there is more memory")
    except MemoryError as wrong:
        raise StoreError(str(wrong)) from None


def _page(text: bytes, whole: int, path: str | os.PathLike[str]) -> Any:
    """The page, once there is memory for all that it can unfold to."""
    unfolded = sum(n_bytes * text.count(mark) for mark, n_bytes in _UNFOLDED.items())
    if unfolded > max(whole, _SMALL):
        _ask(2 * whole + 2 * unfolded, path)
    return json.loads(text)


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[bytes], int]:
    """The page, the arrays' bytes and how many the file has, checked."""
    data = _regular(path)
    if hashlib.sha256(memoryview(data)[:-DIGEST]).hexdigest().encode() != data[-DIGEST:]:
        raise StoreError(f"{path} is damaged or cut short: its checksum does not agree with its content; save it again")
    if (data.count(b"PK\x01\x02") - 1) * _LEAST_MEMBER > len(data):
        raise StoreError(f"{path} is not a file that borrow wrote: its members are not those of one")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            expected = [PAGE, *(f"{k}.npy" for k in range(len(members) - 1))]
            stored = all(m.compress_type == zipfile.ZIP_STORED and m.file_size == m.compress_size for m in members)
            if [m.filename for m in members] != expected or not stored or sum(m.file_size for m in members) > len(data):
                raise StoreError(f"{path} is not a file that borrow wrote: its members are not those of one")
            page = _page(archive.read(PAGE), len(data), path)
            arrays = [archive.read(name) for name in expected[1:]]
    except StoreError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, ValueError, RecursionError, EOFError, RuntimeError) as wrong:
        raise StoreError(f"{path} is not a file that borrow wrote, or it is damaged ({wrong})") from None
    if not isinstance(page, dict) or page.get("format") != "borrow" or type(page.get("version")) is not int:
        raise StoreError(f"{path} is not a file that borrow wrote")
    if page["version"] != VERSION:
        raise StoreError(f"{path} has version {page['version']}{_advice(page)}")
    return page, arrays, len(data)


def _advice(page: dict[str, Any]) -> str:
    """What reads a page of another version, and what to do about it."""
    if page["version"] > VERSION:
        about = page.get("about")
        by = about.get("borrow") if isinstance(about, dict) else None
        writer = f" (written by borrow {by})" if by else ""
        return f"{writer} and this borrow, {__version__}, reads version {VERSION}; update borrow"
    last = LAST_TO_READ.get(page["version"])
    reader = f"the last to read it is commit {last} of borrow" if last else "an earlier borrow wrote it"
    return f", which this borrow (version {VERSION}) reads no longer; {reader}: load it there, or fit and save again"


def _bytes(array: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def _about(value: Any) -> dict[str, Any]:
    """What people want to know of an object before they load it."""
    about: dict[str, Any] = {
        "class": type(value).__name__,
        "borrow": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    if not hasattr(value, "get_params"):
        return {**about, "is": repr(value)}
    schema = getattr(getattr(value, "fitted_", None), "schema", None)
    settings = {n: _shown(v) for n, v in value.get_params(deep=False).items()}
    about |= {"settings": settings, "fitted": schema is not None}
    if schema is not None:
        names = schema.names if schema.names is not None else range(schema.n_features)
        about["features"] = [_shown(n) for n in names]
        about |= {"task": _shown(schema.task), "tasks": [_shown(v) for v in schema.tasks]}
    return about | {n.rstrip("_"): _shown(getattr(value, n)) for n in _LEARNT if hasattr(value, n)}


def _shown(value: Any) -> Any:
    """A value as JSON, for people to read: long arrays and other objects by their `repr`."""
    return to_json(value, nonfinite="text", text=lambda v: v if isinstance(v, str) else repr(v), longest=1000)
