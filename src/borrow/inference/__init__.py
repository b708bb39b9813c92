"""Inference: functions around `condition` of a covariance, one return shape.

A result has `posterior`, `evidence` and `gradient()` -> (adjoints, derivatives by the likelihood's own parameters).
An inference is called as `infer(prior, cells, values, start=None)`.
"""

from borrow.inference.ep import EP, EPInference, ep
from borrow.inference.exact import Exact, ExactInference, exact

Result = Exact | EP
Inference = ExactInference | EPInference

__all__ = ["EP", "EPInference", "Exact", "ExactInference", "Inference", "Result", "ep", "exact"]
