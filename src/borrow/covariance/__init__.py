"""Covariances over all tasks. Each conditions on diagonal Gaussian sites and owns the algebra that makes it cheap."""

from borrow.covariance.carrier import Basis
from borrow.covariance.dense import DenseTasks, TaskAdjoints
from borrow.covariance.design import Design
from borrow.covariance.inducing import choose_inducing
from borrow.covariance.kronecker import CompleteTasks
from borrow.covariance.lowrank import LowRankTasks
from borrow.covariance.shared import Adjoints, SharedCovariance, SharedPosterior

__all__ = [
    "Adjoints",
    "Basis",
    "CompleteTasks",
    "DenseTasks",
    "Design",
    "LowRankTasks",
    "SharedCovariance",
    "SharedPosterior",
    "TaskAdjoints",
    "choose_inducing",
]
