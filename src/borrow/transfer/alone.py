"""No transfer, as the comparison needs it: only the primary is fitted, on the column scales of the whole table.

The priors of every GP refer to the scales of the columns. Were these taken from the primary's few rows alone, no
transfer would differ from a focused model that borrows nothing, and a comparison would compare priors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from borrow.data.cells import Rows
from borrow.data.scaling import TaskData
from borrow.estimators.classifier import BinaryData, BinaryModel
from borrow.models.gp.classifiers import SingleTaskGPClassifier
from borrow.models.gp.regressors import SingleTaskGPRegressor


class AloneRegressor(SingleTaskGPRegressor):
    """`SingleTaskGPRegressor` of which only one task is fitted."""

    def __init__(self, primary: Any, random_state: Any = 0) -> None:
        super().__init__(random_state=random_state)
        self.primary = primary

    def _arrange(self, rows: Rows) -> TaskData:
        whole = super()._arrange(rows)
        alone = super()._arrange(rows.take(rows.task == rows.labels.index(self.primary)))
        return replace(alone, column_scales=whole.column_scales)


class AloneClassifier(SingleTaskGPClassifier):
    """`SingleTaskGPClassifier` of which only one task is fitted."""

    def __init__(self, primary: Any, random_state: Any = 0) -> None:
        super().__init__(random_state=random_state)
        self.primary = primary

    def _fit_binary(self, data: BinaryData) -> BinaryModel:
        t, M = data.labels.index(self.primary), len(data.labels)
        at = data.of(t)
        starts = np.array([0, at.stop - at.start])
        alone = replace(
            data, X=data.X[at], y=data.y[at], starts=starts, labels=(self.primary,), unlabelled=(data.unlabelled[t],)
        )
        fit: Any = super()._fit_binary(alone)
        return replace(fit, group=fit.group * M, bias=np.repeat(fit.bias, M))  # no other task is ever asked for
