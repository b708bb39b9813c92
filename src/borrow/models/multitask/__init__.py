"""The symmetric multi-task GP of Bonilla, Chai & Williams (2008)."""

from borrow.models.multitask.estimators import MultiTaskGPClassifier, MultiTaskGPRegressor

__all__ = ["MultiTaskGPClassifier", "MultiTaskGPRegressor"]
