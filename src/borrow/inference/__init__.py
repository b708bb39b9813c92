"""Inference: functions around `condition` of a covariance, one return shape (`contracts`)."""

from borrow.inference.contracts import Inference, Likelihood, Result
from borrow.inference.ep import EP, EPInference, ep
from borrow.inference.exact import Exact, ExactInference, exact
from borrow.inference.hyper_uncertainty import (
    HyperUncertainty,
    OtherModel,
    UncertaintyByTask,
    direction,
    with_unknown_level,
)
from borrow.inference.likelihoods import Gaussian, within_cells

__all__ = [
    "EP",
    "EPInference",
    "Exact",
    "ExactInference",
    "Gaussian",
    "HyperUncertainty",
    "Inference",
    "Likelihood",
    "OtherModel",
    "Result",
    "UncertaintyByTask",
    "direction",
    "ep",
    "exact",
    "with_unknown_level",
    "within_cells",
]
