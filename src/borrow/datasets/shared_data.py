"""Loaders of public data that are not part of this package: a folder beside the checkout, or `$BORROW_DATA`."""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from borrow.numerics.linalg import Array

Text = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Trials:
    """One row a trial: inputs, who, which stimulus, and whether it comes from the early half of the recording."""

    X: Array
    subject: Text
    group: Text  # 'a' alcoholic, 'c' control
    condition: Text  # 'S1_obj', 'S2_match', 'S2_nomatch'
    early: npt.NDArray[np.bool_]
    names: tuple[str, ...]  # of the columns of X


@dataclass(frozen=True)
class School:
    """One row a student: inputs, raw codes, which school, which distinct row of school features, and the exam score."""

    X: Array  # (15362, 27): 19 dummies of the student, then 8 features of the school (two of them percentages)
    student: npt.NDArray[np.intp]  # (15362, 4): codes of year, gender, vr_band, ethnic
    school: npt.NDArray[np.intp]  # 1 to 139
    descriptor: npt.NDArray[np.intp]  # 0 to 287: which distinct row of school features
    score: Array
    names: tuple[str, ...]  # of the columns of X


def find_shared(name: str, what: str) -> Path:
    """Path of `name` under `$BORROW_DATA`, or under ../shared/data beside the checkout."""
    places = [Path(os.environ["BORROW_DATA"])] if os.environ.get("BORROW_DATA") else []
    places += [parent / "shared" / "data" for parent in Path(__file__).resolve().parents[3:5]]
    for place in places:
        if (place / name).is_file():
            return place / name
    looked = ", ".join(str(p / name) for p in places)
    raise FileNotFoundError(f"{what} Looked for {looked}; set BORROW_DATA to the folder that holds {name}.")


def load_eeg() -> Trials:
    """EEG of 16 subjects looking at pictures, 924 trials, as 30 principal components (fitted without labels).

    A stand-in for the fMRI recordings of Leen et al. (2011), which were never published. The data are the SMNI_CMI part
    of the UCI EEG Database (H. Begleiter; CC BY 4.0): mean voltages of 61 electrodes in five time windows, reduced by
    PCA on all trials of all subjects.
    """
    path = find_shared(
        "eeg_smni/eeg_smni_pc30.csv",
        "The EEG trials are not here. The file is a table of 924 trials (subject, condition, uci_split, 30 principal "
        "components) made from the SMNI_CMI part of the UCI EEG Database, described at "
        "https://archive.ics.uci.edu/dataset/121/eeg+database.",
    )
    with path.open(newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    names = tuple(n for n in rows[0] if n.startswith("pc"))
    return Trials(
        np.array([[float(r[n]) for n in names] for r in rows]),
        np.array([r["subject"] for r in rows]),
        np.array([r["group"] for r in rows]),
        np.array([r["condition"] for r in rows]),
        np.array([r["uci_split"] == "train" for r in rows]),
        names,
    )


def load_school() -> School:
    """Exam scores of 15362 students of 139 London schools, 1985 to 1987, with 27 inputs as in Bakker & Heskes (2003).

    Public teaching data of the Inner London Education Authority ("School effectiveness", Centre for Multilevel
    Modelling, Bristol). Categories are dummies; the two percentages (free school meals, students in VR band 1) are
    columns 19 and 20. The 15 students whose VR band was not recorded have zeros in its three dummies.
    """
    what = (
        "The school data are not here. The two files are tables of 15362 students, as integer codes and as 27 inputs, "
        "made from the 'School effectiveness' data of the Centre for Multilevel Modelling, described at "
        "https://www.bristol.ac.uk/cmm/."
    )
    _, raw = _read_numbers(find_shared("school/school_raw.csv.gz", what))
    names, table = _read_numbers(find_shared("school/school_dummy27.csv.gz", what))
    X, codes = table[:, 1:28], raw.astype(np.intp)
    descriptor = np.unique(X[:, 19:], axis=0, return_inverse=True)[1].reshape(-1)
    return School(X, codes[:, 1:5], codes[:, 0], descriptor, table[:, 28], names[1:28])


def _read_numbers(path: Path) -> tuple[tuple[str, ...], Array]:
    """Column names and values of a compressed table of numbers."""
    with gzip.open(path, "rt", newline="") as file:
        head, *rows = csv.reader(file)
    return tuple(head), np.array(rows, dtype=float)
