"""The multi-task informative vector machine of Lawrence & Platt (2004)."""

from borrow.models.ivm.estimators import MultiTaskIVMClassifier, MultiTaskIVMRegressor

__all__ = ["MultiTaskIVMClassifier", "MultiTaskIVMRegressor"]
