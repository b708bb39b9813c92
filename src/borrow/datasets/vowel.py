"""Deterding's vowels: fifteen people saying eleven words, six frames of each."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any

import numpy as np

from borrow.data.cells import Codes
from borrow.datasets.shared_data import Text, find_shared
from borrow.numerics.linalg import Array


@dataclass(frozen=True)
class Vowels:
    """One row a frame: ten log area ratios, who spoke, which of the six frames, which vowel."""

    X: Array  # (990, 10)
    speaker: Codes  # 0 to 14
    frame: Codes  # 0 to 5 within a speaker and a vowel
    vowel: Codes  # 0 to 10
    word: Text  # 'hid', ...


def load_vowel() -> Vowels:
    """The rows of the study of Lawrence & Platt (2004), section 5.2: 15 speakers, 11 vowels, 6 frames of each."""
    path = find_shared(
        "vowel/vowel.csv",
        "The vowel frames are not here. The file is a table of 990 rows (speaker, frame, vowel, vowel_word, x0 to x9) "
        "made from vowel-context.data of the UCI set 'Connectionist Bench (Vowel Recognition - Deterding Data)', "
        "described at https://archive.ics.uci.edu/dataset/152/connectionist+bench+vowel+recognition+deterding+data.",
    )
    with path.open(newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    numbers = {n: np.array([int(r[n]) for r in rows]) for n in ("speaker", "frame", "vowel")}
    X = np.array([[float(r[f"x{j}"]) for j in range(10)] for r in rows])
    return Vowels(X, numbers["speaker"], numbers["frame"], numbers["vowel"], np.array([r["vowel_word"] for r in rows]))
