"""One GP per task (no transfer), and one GP for all rows (pooling)."""

from borrow.models.gp.estimators import (
    PooledGPClassifier,
    PooledGPRegressor,
    SingleTaskGPClassifier,
    SingleTaskGPRegressor,
)

__all__ = ["PooledGPClassifier", "PooledGPRegressor", "SingleTaskGPClassifier", "SingleTaskGPRegressor"]
