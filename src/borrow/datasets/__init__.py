"""Data that this project generates or measured itself."""

from borrow.datasets.compiler import CompilerData, load_compiler
from borrow.datasets.synthetic import FocusedProblem, focused_gap, transfer_family

__all__ = ["CompilerData", "FocusedProblem", "focused_gap", "load_compiler", "transfer_family"]
