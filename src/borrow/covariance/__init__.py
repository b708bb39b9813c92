"""Covariances over all tasks. Each conditions on diagonal Gaussian sites and owns the algebra that makes it cheap."""

from borrow.covariance.contracts import Adjoints, Covariance, Moments, Posterior, Prediction, Sites
from borrow.covariance.dense import DensePosterior, DenseTasks, evidence_of_rows, gaussian_evidence
from borrow.covariance.inducing import LOG_2PI, Basis, choose_inducing, spread_inducing, unit_noise
from borrow.covariance.kronecker import CompletePosterior, CompleteTasks
from borrow.covariance.layout import Design
from borrow.covariance.lowrank import LowRankTasks
from borrow.covariance.shared import SharedCovariance, SharedPosterior

__all__ = [
    "LOG_2PI",
    "Adjoints",
    "Basis",
    "CompletePosterior",
    "CompleteTasks",
    "Covariance",
    "DensePosterior",
    "DenseTasks",
    "Design",
    "LowRankTasks",
    "Moments",
    "Posterior",
    "Prediction",
    "SharedCovariance",
    "SharedPosterior",
    "Sites",
    "choose_inducing",
    "evidence_of_rows",
    "gaussian_evidence",
    "spread_inducing",
    "unit_noise",
]
