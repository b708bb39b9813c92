"""Loaders of public data that are not part of this package: a folder beside the checkout, or `$BORROW_DATA`."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from borrow.linalg import Array

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
