"""Loaders of public tables of responses: the same settings measured for several programs, environments or metals."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass

import numpy as np

from borrow.datasets.shared_data import find_shared
from borrow.numerics.linalg import Array


@dataclass(frozen=True)
class Responses:
    """Settings by tasks: `Y[i, t]` is the response of task t at `X[i]`."""

    X: Array
    Y: Array
    tasks: tuple[str, ...]
    columns: tuple[str, ...]
    features: Array | None = None  # (M, p), what describes a task


def load_spear() -> Responses:
    """Solving time in seconds of the SPEAR SAT solver in ten environments, all 2^14 settings of 14 options.

    Jamshidi et al., Transfer learning for performance modeling of configurable systems, ASE 2017. Times are cut at
    about 5 s.
    """
    path = find_shared(
        "config_perf/spear.csv.gz",
        "The SPEAR times are not here. The file is a table of 16384 settings, 14 options and 10 times, described in "
        "Jamshidi et al., ASE 2017 (repository pooyanjamshidi/ase17).",
    )
    with gzip.open(path, "rt", newline="") as file:
        head, *rows = csv.reader(file)
    table = np.array(rows, dtype=float)
    tasks = tuple(name.removeprefix("solving_time_") for name in head[14:])
    return Responses(table[:, :14], table[:, 14:], tasks, tuple(head[:14]))


def load_polybench() -> Responses:
    """Speed-up of 30 PolyBench programs under all 128 settings of seven gcc flags, against no flag given.

    Times of the standard input size, Cereda et al., arXiv 2005.04092. Features: the first eight principal components of
    the logarithms of 99 counters of the running program (MICA), standardised.
    """
    what = (
        "The PolyBench times are not here. The files are tables of 30 programs by 128 settings and of 99 counters, "
        "described in Cereda et al., arXiv 2005.04092 (repository stefanocereda/polybench_data)."
    )
    with gzip.open(find_shared("compiler/polybench_gcc_30prog.csv.gz", what), "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    other = ("program", "path", "code_size")
    flags = tuple(c for c in rows[0] if c not in other and not c.startswith("time_"))
    settings = sorted({tuple(float(r[f]) for f in flags) for r in rows})
    programs = tuple(sorted({r["program"] for r in rows}))
    at = {s: i for i, s in enumerate(settings)}
    seconds = np.empty((len(settings), len(programs)))
    for r in rows:
        seconds[at[tuple(float(r[f]) for f in flags)], programs.index(r["program"])] = float(r["time_standard"])
    with find_shared("compiler/polybench_mica_features.csv", what).open(newline="") as file:
        counters = {r["program"]: r for r in csv.DictReader(file) if r["dataset"] == "dataset3"}
    raw = np.array([[float(v) for k, v in counters[p].items() if k not in ("program", "dataset")] for p in programs])
    logs = np.log1p(np.maximum(raw, 0.0))
    sd = logs.std(axis=0)
    Z = (logs[:, sd > 0] - logs[:, sd > 0].mean(axis=0)) / sd[sd > 0]
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    speedup = seconds[at[(0.0,) * len(flags)]] / seconds
    return Responses(np.array(settings), speedup, programs, flags, U[:, :8] * s[:8])


@dataclass(frozen=True)
class Jura:
    """Metals in the soil at 359 places; `validation` marks the 100 places that the literature keeps for testing."""

    X: Array  # (359, 2), kilometres
    metals: dict[str, Array]
    validation: Array  # bool


def load_jura() -> Jura:
    """Concentrations (ppm) of seven heavy metals in the Swiss Jura (Goovaerts 1997)."""
    path = find_shared(
        "jura/jura.csv",
        "The Jura data are not here. The file is a table of 359 places and 7 metals (Goovaerts 1997), as in the R "
        "package gstat.",
    )
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn")
    return Jura(
        np.array([[float(r["x"]), float(r["y"])] for r in rows]),
        {m: np.array([float(r[m]) for r in rows]) for m in names},
        np.array([r["set"] == "validation" for r in rows]),
    )
