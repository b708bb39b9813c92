"""Instruction counts of eleven C programs under 640 settings of thirteen gcc flags, measured by this project.

How the table was made, and what it is not: docs/data/compiler.md. `data/compiler/measure.py` measures it anew.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from borrow.numerics.linalg import Array

Counts = npt.NDArray[np.int64]
#: Columns of the file: kind of setting, then the flags, then the programs.
N_FLAGS = 13
CANONICAL = "canonical: "


@dataclass(frozen=True)
class CompilerData:
    """A complete table: every setting was measured for every program, without noise.

    | field             | shape     | meaning                                                                       |
    |-------------------|-----------|-------------------------------------------------------------------------------|
    | `X`               | (640, 13) | settings: 1 where the flag is on, 0 where it is off; no row occurs twice      |
    | `speedup`         | (640, 11) | count of the build without flags / count of this build, of the same program   |
    | `counts`          | (640, 11) | instructions executed                                                         |
    | `kinds`           | 640       | 'none', 'single', 'all', 'all but one' or 'random'; row 0 is 'none'           |
    | `flags`           | 13        | names of the columns of X, without the leading -f                             |
    | `programs`        | 11        | names of the tasks, sorted                                                    |
    | `canonical`       | (8, 13)   | settings that are no rows of X, for describing a program                      |
    | `canonical_names` | 8         | what their flags are for                                                      |
    | `features`        | (11, 8)   | task features: speed-up of each program on the canonical settings             |
    | `canonical_counts`| (8, 11)   | the counts behind them                                                        |

    Examples
    --------
    >>> import borrow
    >>> data = borrow.datasets.load_compiler()
    >>> data.X.shape, data.speedup.shape, data.programs[0]
    ((640, 13), (640, 11), 'adpcm')
    """

    X: Array
    speedup: Array
    counts: Counts
    kinds: tuple[str, ...]
    flags: tuple[str, ...]
    programs: tuple[str, ...]
    canonical: Array
    canonical_names: tuple[str, ...]
    canonical_counts: Counts
    features: Array

    def long(self, rows: Any = None) -> tuple[npt.NDArray[np.object_], Array]:
        """(X, y) of all programs one below the other; the last column of X is the program: `task=-1`.

        `rows` are the settings to take, by number: None for all, a sequence for every program the same, or an array of
        shape (11, N) for N settings of each program. What comes back is stacked by program, in the order given.
        """
        chosen = np.arange(len(self.X)) if rows is None else np.asarray(rows)
        if chosen.ndim not in (1, 2) or (chosen.ndim == 2 and len(chosen) != len(self.programs)):
            expected = f"a sequence of row numbers, or an array of shape ({len(self.programs)}, N)"
            raise ValueError(f"rows has shape {chosen.shape}; expected {expected}, one line for each program")
        if not np.issubdtype(chosen.dtype, np.integer):
            raise ValueError(f"rows has dtype {chosen.dtype}; expected row numbers; use np.flatnonzero on a mask")
        chosen = np.broadcast_to(chosen, (len(self.programs), chosen.shape[-1]))
        X = np.empty((chosen.size, N_FLAGS + 1), dtype=object)
        X[:, :N_FLAGS] = self.X[chosen.ravel()]
        X[:, N_FLAGS] = np.repeat(np.array(self.programs, dtype=object), chosen.shape[1])
        return X, np.concatenate([self.speedup[at, m] for m, at in enumerate(chosen)])


def load_compiler() -> CompilerData:
    """Speed-up of eleven C programs by thirteen gcc flags: 640 settings, the same for every program.

    After the compiler data of Bonilla, Chai & Williams (2008), which were not published: other programs, flags instead
    of source transformations, and instructions instead of seconds.

    Examples
    --------
    >>> import borrow
    >>> float(borrow.datasets.load_compiler().speedup.max().round(2)) > 1.0
    True
    """
    path = resources.files("borrow.datasets").joinpath("compiler.csv.gz")
    head, *lines = csv.reader(gzip.decompress(path.read_bytes()).decode().splitlines())
    flags, programs = tuple(head[1 : 1 + N_FLAGS]), tuple(head[1 + N_FLAGS :])
    kinds = [line[0] for line in lines]
    settings = np.array([line[1 : 1 + N_FLAGS] for line in lines], dtype=float)
    counts = np.array([line[1 + N_FLAGS :] for line in lines], dtype=np.int64)
    apart = np.array([kind.startswith(CANONICAL) for kind in kinds])
    speedup = counts[kinds.index("none")] / counts
    return CompilerData(
        X=settings[~apart],
        speedup=speedup[~apart],
        counts=counts[~apart],
        kinds=tuple(kind for kind in kinds if not kind.startswith(CANONICAL)),
        flags=flags,
        programs=programs,
        canonical=settings[apart],
        canonical_names=tuple(kind.removeprefix(CANONICAL) for kind in kinds if kind.startswith(CANONICAL)),
        canonical_counts=counts[apart],
        features=speedup[apart].T,
    )
