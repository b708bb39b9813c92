"""Covariances over all tasks. Each conditions on diagonal Gaussian sites and owns the algebra that makes it cheap."""

from borrow.covariance.inducing import choose_inducing
from borrow.covariance.shared import Adjoints, Basis, SharedCovariance, SharedPosterior

__all__ = ["Adjoints", "Basis", "SharedCovariance", "SharedPosterior", "choose_inducing"]
