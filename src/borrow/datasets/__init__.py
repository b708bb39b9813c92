"""Data that this project generates or measured itself, and loaders of public data that lie elsewhere."""

from borrow.datasets.compiler import CompilerData, load_compiler
from borrow.datasets.shared_data import (
    load_eeg,
    load_jura,
    load_polybench,
    load_rcv1,
    load_school,
    load_spear,
    load_vowel,
)
from borrow.datasets.synthetic import FocusedProblem, focused_gap, transfer_family, two_tasks

__all__ = [
    "CompilerData",
    "FocusedProblem",
    "focused_gap",
    "load_compiler",
    "load_eeg",
    "load_jura",
    "load_polybench",
    "load_rcv1",
    "load_school",
    "load_spear",
    "load_vowel",
    "transfer_family",
    "two_tasks",
]
