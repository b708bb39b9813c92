"""The hierarchical GP of Yu, Tresp & Schwaighofer (2005)."""

from borrow.models.hierarchical.estimators import HierarchicalGPClassifier, HierarchicalGPRegressor

__all__ = ["HierarchicalGPClassifier", "HierarchicalGPRegressor"]
