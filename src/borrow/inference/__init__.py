"""Inference: functions around `condition` of a covariance."""

from borrow.inference.exact import Exact, exact

__all__ = ["Exact", "exact"]
