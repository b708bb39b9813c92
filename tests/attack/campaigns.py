"""Campaigns of hostile cases. Each takes a random generator and seconds, and returns how many it tried and what failed.

A failure leaves a small reproduction under out/attack/. `python tests/attack/campaigns.py --minutes 30` runs them all;
stopped, it goes on where it was when it is called again. With `--save` what came of it is written to
docs/results/attack.json, from which `benchmarks/pages.py` makes the table of docs/reliability.md.
"""

import argparse
import contextlib
import copy
import hashlib
import io
import json
import selectors
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from functools import cache, partial
from pathlib import Path

import numpy as np
import psutil
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parent))
import files
import ledgers
import tables

import borrow
from borrow import store
from borrow.kernels import LearnedKernel, Linear, Matern, SquaredExponential
from borrow.store import container
from borrow.store.checks import read_array

ROOT = Path(__file__).parents[2]
OUT = ROOT / "out" / "attack"
PATIENCE = 10.0  # seconds of computing that one case may take; twelve times as many where it waits for a processor
SLICE = 30.0  # seconds after which a campaign is written down, and goes on with other random numbers
FINE = ("refused", "raised", "answered")
SLOW = ("AutoClassifier", "AutoRegressor")


# Real models. ---------------------------------------------------------------------------------------------------------


def estimators():
    """Names of all public estimators."""
    return [n for n in borrow.__all__ if n.endswith(("Classifier", "Regressor"))]


def corpus(names=None):
    """Stored files of fitted models of every estimator, by name: the page and the arrays of each."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (21, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=21)
    tasks = [("a", "b", "c")[i % 3] for i in range(21)]
    made = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names or estimators():
            kind = getattr(borrow, name)
            given = {"primary": "b", "optimizer": None, "cv": 2, "methods": "pooled"}
            model = kind(**{k: v for k, v in given.items() if k in kind._get_param_names()})
            made[name] = model.fit(X, np.where(y > 0.1, "yes", "no") if "Classifier" in name else y, tasks=tasks)
        wide = sparse.random_array((12, 30), density=0.2, random_state=rng, format="csr")
        own = borrow.HierarchicalGPRegressor(base_kernel=Linear(1.0), max_iter=2, random_state=np.random.RandomState(0))
        made["sparse"] = own.fit(wide, np.asarray(wide @ rng.normal(size=(30, 2)))).set_params(task="sparse")
    root = rng.normal(size=(4, 2))
    made["kernel"] = LearnedKernel(
        1.0, base=Matern(1.0) + Linear(0.1), Z=X[:4], root=root, raw_weight=0.6, base_weight=0.4
    )
    made["network"] = borrow.MultiTaskRBFRegressor(random_state=np.random.Generator(np.random.Philox(1)))
    made["product"] = SquaredExponential(1.0, (0.5, 2.0)) * Matern(0.1, 3.0, nu=1.5)
    with tempfile.TemporaryDirectory() as folder:
        return {name: unpacked(store.save(model, Path(folder) / "m")) for name, model in made.items()}


@cache
def whole_corpus():
    """Of every estimator, made once: nothing changes it."""
    return corpus()


def unpacked(path):
    """The page of a file and the bytes of its arrays."""
    with zipfile.ZipFile(path) as archive:
        page, *arrays = [archive.read(n) for n in archive.namelist()]
    return json.loads(page), arrays


def packed(page, arrays):
    """The bytes of a file with these parts, and a checksum that is right."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in [("page.json", json.dumps(page)), *((f"{k}.npy", a) for k, a in enumerate(arrays))]:
            archive.writestr(zipfile.ZipInfo(name), data)
        archive.comment = b"0" * container.DIGEST
    return signed(out.getvalue())


def signed(data):
    """The same file with a checksum that is right."""
    whole = data[: -container.DIGEST]
    return whole + hashlib.sha256(whole).hexdigest().encode()


# What is done to them. ------------------------------------------------------------------------------------------------


def places(value, path=()):
    """Every place in a page, as the keys that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield (*path, key)
        yield from places(held, (*path, key))


def at(page, path):
    for key in path:
        page = page[key]
    return page


def pick(rng, values):
    values = list(values)
    return values[rng.integers(len(values))] if values else None


def choose(rng, page, fits):
    """A random place of the object itself whose value fits, as what holds it and its key there."""
    path = pick(rng, (p for p in places(page["entries"]) if fits(at(page["entries"], p))))
    return (None, None) if path is None else (at(page["entries"], path[:-1]), path[-1])


NUMBERS = (0, -1, 1, 2, 7, 255, 10**6, 2**31, 2**31 - 1, -(2**31), 2**63, -(2**63), 10**12, 10**30, 0.5, 1e-300, 1e300,
           -1.0, {"float": "nan"}, {"float": "inf"}, True, None, "auto", "")  # fmt: skip


def change_number(rng, page, arrays):
    holder, key = choose(rng, page, lambda v: isinstance(v, (int, float)))
    if holder is not None:
        holder[key] = NUMBERS[rng.integers(len(NUMBERS))]


def change_list(rng, page, arrays):
    holder, key = choose(rng, page, lambda v: isinstance(v, list) and v)
    if holder is not None:
        values = holder[key]
        ways = [values[:-1], values[1:], values + values, values[::-1], [], [values[0]] * len(values)]
        holder[key] = copy.deepcopy(pick(rng, ways))


def change_reference(rng, page, arrays):
    holder, key = choose(rng, page, lambda v: isinstance(v, dict) and "at" in v)
    if holder is not None:
        holder[key] = {"at": int(rng.integers(-1, len(page["entries"])))}


def swap_references(rng, page, arrays):
    one, other = (choose(rng, page, lambda v: isinstance(v, dict) and "at" in v) for _ in range(2))
    if one[0] is not None:
        one[0][one[1]], other[0][other[1]] = other[0][other[1]], one[0][one[1]]


def change_class(rng, page, arrays):
    named = [e for e in page["entries"] if isinstance(e, dict) and "class" in e]
    if named:
        pick(rng, named)["class"] = pick(rng, named)["class"]


def change_value(rng, page, arrays):
    holder, key = choose(rng, page, lambda v: True)
    if holder is not None:
        holder[key] = pick(rng, [None, True, "x", 3, {"at": 0}, [], {}, {"numpy": "<i8", "bytes": "ff" * 8}])


def change_name(rng, page, arrays):
    named = [e["fields"] for e in page["entries"] if isinstance(e, dict) and isinstance(e.get("fields"), dict)]
    own = pick(rng, [f for f in named if f])
    if own is not None:
        name = pick(rng, own)
        value = own.pop(name)
        if rng.random() < 0.7:
            own[pick(rng, ["__array_interface__", "__array__", "predict", "fitted_", "x_", *own])] = value


def flip_bytes(rng, page, arrays):
    k = rng.integers(len(arrays)) if arrays else 0
    if arrays and arrays[k]:
        data = bytearray(arrays[k])
        for _ in range(rng.integers(1, 9)):
            data[rng.integers(0 if rng.random() < 0.3 else min(128, len(data) - 1), len(data))] ^= 1 << rng.integers(8)
        arrays[k] = bytes(data)


def swap_arrays(rng, page, arrays):
    if arrays:
        i, j = rng.integers(len(arrays), size=2)
        arrays[i], arrays[j] = arrays[j], arrays[i]


def read_npy(data):
    try:
        return read_array(data, len(data))
    except ValueError:
        return None  # an earlier change broke it


def change_array(rng, page, arrays):
    k = rng.integers(len(arrays)) if arrays else 0
    array = read_npy(arrays[k]) if arrays else None
    if array is None:
        return
    ways = [
        lambda: array.astype(pick(rng, ["<f4", "<i8", "<i4", "<u8", "|b1", "<c16", "<U3", "|S2", "<M8[D]", ">f8"])),
        lambda: array.view(pick(rng, ["<f8", "<i8", "<i4", "|u1", "<f4", "<M8[s]"])),
        lambda: array[:-1],
        lambda: array[:0],
        lambda: np.concatenate([array, array]),
        lambda: array.T,
        lambda: array.ravel(),
        lambda: array[None],
        lambda: array[..., None],
        lambda: np.asfortranarray(array),
        lambda: np.zeros((0, *array.shape[1:])),
        lambda: np.full_like(array, pick(rng, [0, -1, 1, np.nan, np.inf, 1e308])),
        lambda: np.full(array.shape, pick(rng, [-1, 5, 10**6, 2**31, 2**40, 2**62, -(2**62)])),
    ]
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays[k] = container._bytes(np.ascontiguousarray(pick(rng, ways)()))


def change_indices(rng, page, arrays):
    """One whole number of an array of them; these are what points somewhere."""
    found = [(k, a) for k, a in enumerate(map(read_npy, arrays)) if a is not None and a.dtype.kind in "iu" and a.size]
    if found:
        k, array = found[rng.integers(len(found))]
        array = array.astype(np.int64)
        near = int(array.flat[0]) + int(rng.integers(-3, 4))
        array.flat[rng.integers(array.size)] = pick(rng, [near, array.size, 10**4, 2**20, 2**31 - 1, -1, -(2**31)])
        arrays[k] = container._bytes(array)


CHANGES = (change_number, change_list, change_reference, swap_references, change_class, change_value, change_name,
           flip_bytes, swap_arrays, change_array, change_indices)  # fmt: skip


def mutated(parts, changes):
    """The file after these changes, each a function and the seed of its choices."""
    page, arrays = copy.deepcopy(parts[0]), list(parts[1])
    for change, seed in changes:
        change(np.random.default_rng(seed), page, arrays)
    return packed(page, arrays)


# Loading them. --------------------------------------------------------------------------------------------------------


class Asker:
    """A process that loads files and asks what they hold; started again when it dies or takes too long."""

    def __init__(self):
        self.process = None
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed on leaving

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.errors.close()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def start(self):
        call = [sys.executable, str(Path(__file__).with_name("ask_stored.py"))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(call, text=True, **pipes)
        self.wait(100.0, "/nowhere")  # it has imported everything when it says that there is no such file

    def wait(self, seconds, path):
        """What it says of a file; None where it says nothing in time."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{path}\n")
            self.process.stdin.flush()
        process, until = psutil.Process(self.process.pid), time.monotonic() + 12.0 * seconds
        used = sum(process.cpu_times()[:2])
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not (heard := selector.select(1.0)) and time.monotonic() < until:
                if sum(process.cpu_times()[:2]) - used > seconds:
                    break
            return self.process.stdout.readline() if heard else None

    def ask(self, path):
        """What came of loading a file and asking it: a kind, and a sentence."""
        if self.process is None:
            self.start()
        said = self.wait(PATIENCE, path)
        if said:
            return tuple(json.loads(said))
        if said is None:
            self.stop()
            return "hang", f"more than {PATIENCE} seconds"
        code = self.process.wait()
        self.errors.seek(0)
        told = self.errors.read().decode(errors="replace")[-2000:]
        self.stop()
        return "died", f"exit code {code}\n{told}"


def hostile_stores(rng, seconds, parts=None, most=10, least=1):
    """Stored models of every estimator, changed at random, with checksums that are right: loaded and asked.

    A file is refused, or its model raises an exception or answers. It never ends the process, takes it more than ten
    seconds or a gigabyte, and what `load` raises is a StoreError. `most` failures end the campaign, and the time does
    after `least` cases.
    """
    parts = whole_corpus() if parts is None else parts
    names = sorted(parts)
    tried, failures, until = 0, [], time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, Asker() as asker:
        path = Path(folder) / "case"

        def ask(name, changes):
            path.write_bytes(mutated(parts[name], changes))
            return asker.ask(path)

        while (time.monotonic() < until or tried < least) and len(failures) < most:
            name = names[tried % len(names)]
            picked = rng.integers(len(CHANGES), size=1 + rng.geometric(0.6))
            changes = [(CHANGES[i], int(rng.integers(2**32))) for i in picked]
            kind, said = ask(name, changes)
            tried += 1
            if kind not in FINE:
                for each in list(changes):  # fewer changes that fail in the same way
                    fewer = [c for c in changes if c is not each]
                    if ask(name, fewer)[0] == kind:
                        changes = fewer
                failures.append(reproduction(name, kind, said, changes, mutated(parts[name], changes)))
    return tried, failures


def reproduction(name, kind, said, changes, data):
    """Leave the file of a failure and a sentence beside it; the sentence."""
    OUT.mkdir(parents=True, exist_ok=True)
    place = OUT / f"store-{hashlib.sha256(data).hexdigest()[:12]}.borrow"
    place.write_bytes(data)
    done = ", ".join(f"{change.__name__}({seed})" for change, seed in changes)
    told = f"{kind}: {place.name}, made from {name} by {done}: {said}"
    place.with_suffix(".txt").write_text(told + "\n")
    return told


# Cases by number. -----------------------------------------------------------------------------------------------------


def numbered(make, rng, seconds, most=10):
    """Cases of one kind, each drawn from a number, until the time is over or so many failed."""
    tried, failures, until = 0, [], time.monotonic() + seconds
    while time.monotonic() < until and len(failures) < most:
        case = make(int(rng.integers(2**32)))
        tried += 1
        if failed := case.failure():
            failures.append(left_behind(case, failed))
    return tried, failures


def left_behind(case, failed):
    """Leave the smallest case that fails, as a program that shows it; the sentence."""
    OUT.mkdir(parents=True, exist_ok=True)
    small = case.shrunk() if hasattr(case, "shrunk") else case
    kind = type(case).__name__
    place = OUT / f"{kind.lower()}-{case.number}.py"
    lines = ["import sys", f"sys.path.insert(0, {str(Path(__file__).parent)!r})"]
    lines.append(f"from {type(case).__module__} import {kind}")
    if isinstance(small, bytes):
        lines.append(f"print({case!r}.failure({small!r}))")
    else:
        lines.append(f"print({small!r}.drawn())" if hasattr(small, "drawn") else "")
        lines.append(f"print({small!r}.failure())")
    place.write_text("\n".join(lines) + "\n")
    told = f"{place.name}: {failed}"
    place.with_suffix(".txt").write_text(told + "\n")
    return told


CAMPAIGNS = {
    "hostile stores": hostile_stores,
    "hostile ledgers": partial(numbered, ledgers.LedgerCase),
    "random tables": partial(numbered, partial(tables.Case, "answers")),
    "the same call again": partial(numbered, partial(tables.Case, "again")),
    "tables told otherwise": partial(numbered, partial(tables.Case, "retold")),
    "labels alike": partial(numbered, partial(tables.Case, "alike")),
    "malformed files": partial(numbered, files.FileCase),
    "signals": partial(numbered, files.SignalCase),
}


def slices(name, seconds, seed):
    """A campaign until it has had so many seconds, in slices: how many cases were tried, and what failed.

    What was tried is written down with the state of the source after each slice. Called again, it goes on from there.
    """
    place = OUT / f"{name.replace(' ', '-')}-{seed}.json"
    source = subprocess.run(["git", "rev-parse", "HEAD:src"], cwd=ROOT, capture_output=True, text=True).stdout
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    begun = json.loads(place.read_text()) if place.exists() else {}
    if begun.get("source") != source:
        begun = {"source": source, "commit": commit.strip(), "seconds": 0.0, "slices": 0, "tried": 0, "failures": []}
    while begun["seconds"] < seconds:
        start = time.monotonic()
        random = np.random.default_rng([seed, begun["slices"]])
        tried, failures = CAMPAIGNS[name](random, min(SLICE, seconds - begun["seconds"]))
        begun["tried"] += tried
        begun["failures"] += failures
        begun["slices"] += 1
        begun["seconds"] += time.monotonic() - start
        OUT.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(begun))
    return begun


def save(found, seed, minutes):
    """What came of all campaigns as a result of the project, for the pages."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from results import write_result

    told = {name: {k: f[k] for k in ("tried", "commit")} for name, f in found.items()}
    cases = [
        {"campaign": name, **told[name], "failed": len(f["failures"]), "seconds": round(f["seconds"])}
        for name, f in found.items()
    ]
    write_result("attack", {"seed": seed, "minutes": minutes, "campaigns": cases}, cases)


def main():
    """Every campaign for its share of the minutes; how many cases were tried, and what failed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="campaigns whose name holds this")
    parser.add_argument("--save", action="store_true", help="write docs/results/attack.json")
    given = parser.parse_args()
    found = {}
    for name in (name for name in CAMPAIGNS if given.only in name):
        found[name] = slices(name, 60 * given.minutes / len(CAMPAIGNS), given.seed)
        tried, failures = found[name]["tried"], found[name]["failures"]
        sys.stdout.write(f"{name}: tried {tried:,}, failed {len(failures)}\n" + "".join(f"  {f}\n" for f in failures))
        sys.stdout.flush()
    if given.save and len(found) == len(CAMPAIGNS):
        save(found, given.seed, given.minutes)
    sys.exit(any(f["failures"] for f in found.values()))


if __name__ == "__main__":
    main()
