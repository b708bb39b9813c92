"""Inference: functions around `condition` of a covariance, one return shape.

A result has `posterior`, `evidence`, `gradient()` -> (adjoints, derivatives by the likelihood's own parameters), and
`start`: what the next evaluation can begin with, None for exact inference. Nobody keeps a result for that purpose, as
it holds all matrices of its evaluation.
An inference is called as `infer(prior, tasks, values, start=None)`.
"""

from borrow.inference.ep import EP, EPInference, ep
from borrow.inference.exact import Exact, ExactInference, exact

Result = Exact | EP
Inference = ExactInference | EPInference

__all__ = ["EP", "EPInference", "Exact", "ExactInference", "Inference", "Result", "ep", "exact"]
