"""The multi-task RBF network of Liao & Carin (2006)."""

from borrow.models.rbf.estimators import MultiTaskRBFRegressor

__all__ = ["MultiTaskRBFRegressor"]
