"""Stored comparisons, their lines changed at random, with checksums that are right: refused, or read and told."""

import copy
import functools
import json
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import borrow
from borrow.transfer import ledger

OTHERS = (None, True, -1, 0, 3, 1e300, "", "t9", [], [1], {}, {"a": 1}, [[1, 2]], "single", "regression")


@functools.cache
def parts():
    """The lines of a real comparison."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 5.0, 24)
    table = {"x": x, "y": np.sin(x) + 0.1 * rng.normal(size=24), "who": ["t0", "t1"] * 12}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        borrow.compare(table, "y", "who", "t0", ["focused", "pooled"], cv=2, store=Path(folder) / "s")
        lines = [json.loads(line) for line in (Path(folder) / "s").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "sha256"} for line in lines]


def change(rng, value):
    """One place of it as something else, or gone."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[rng.integers(len(value))]
        if rng.random() < 0.15:
            value.pop(key)
        else:
            value[key] = change(rng, value[key])
        return value
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.integers(len(value))
        value[at] = change(rng, value[at])
        return value if rng.random() < 0.8 else value[:-1]
    return copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])


def signed(lines):
    """The bytes of a ledger with these lines."""
    out, checksum = b"", ""
    for line in lines:
        text, checksum = ledger._line(line, checksum)
        out += text
    return out


@dataclass(frozen=True)
class LedgerCase:
    """One changed ledger, by a number."""

    number: int

    def failure(self):
        """What went wrong, if anything did."""
        rng = np.random.default_rng(self.number)
        lines = copy.deepcopy(parts())
        for _ in range(int(rng.geometric(0.6))):
            at = int(rng.integers(len(lines)))
            if rng.random() < 0.1 and at:
                lines.pop(at)
            else:
                lines[at] = change(rng, lines[at])
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "s"
            try:
                place.write_bytes(signed([line if isinstance(line, dict) else {} for line in lines]))
                found = borrow.Comparison.read(place)
            except ledger.LedgerError:
                return None
            except Exception as wrong:
                return f"reading raised {type(wrong).__name__}: {wrong}"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    str(found)
                    found.verdicts()
                    borrow.report.summary(found)
            except Exception as wrong:
                last = traceback.extract_tb(wrong.__traceback__)[-1]
                return f"telling raised {type(wrong).__name__}: {wrong} at {last.name}:{last.lineno}"
        return None
