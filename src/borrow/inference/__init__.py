"""Inference: functions around `condition` of a covariance, one return shape (`contracts`)."""

from borrow.inference.contracts import Inference, Likelihood, Result
from borrow.inference.ep import EP, EPInference, ep
from borrow.inference.exact import Exact, ExactInference, exact

__all__ = ["EP", "EPInference", "Exact", "ExactInference", "Inference", "Likelihood", "Result", "ep", "exact"]
