"""Data that this project generates or measured itself."""

from borrow.datasets.synthetic import FocusedProblem, focused_gap, transfer_family

__all__ = ["FocusedProblem", "focused_gap", "transfer_family"]
