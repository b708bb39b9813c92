"""Reference methods of the papers: AZ, DP-MT and regularised multi-task learning."""

from borrow.models.reference.dirichlet_process import DirichletProcessClassifier
from borrow.models.reference.regularized import RegularizedMultiTaskClassifier
from borrow.models.reference.shared_structure import SharedStructureClassifier

__all__ = ["DirichletProcessClassifier", "RegularizedMultiTaskClassifier", "SharedStructureClassifier"]
