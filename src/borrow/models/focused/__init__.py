"""The focused multi-task GP of Leen, Peltonen & Kaski (2011)."""

from borrow.models.focused.estimators import FocusedGPClassifier, FocusedGPRegressor

__all__ = ["FocusedGPClassifier", "FocusedGPRegressor"]
