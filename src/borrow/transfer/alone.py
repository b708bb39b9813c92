"""No transfer, as the comparison needs it: only the primary is fitted, on the column scales of the whole table.

The priors of every GP refer to the scales of the columns. Were these taken from the primary's few rows alone, no
transfer would differ from a focused model that borrows nothing, and a comparison would compare priors.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from borrow.data.cells import Rows
from borrow.data.scaling import TaskData
from borrow.estimators.classifier import BinaryData, Place
from borrow.models.gp.estimators import SingleTaskGPClassifier, SingleTaskGPRegressor, SingleTaskLabels
from borrow.tasks.placed import PlacedTasks


@dataclass(eq=False, repr=False)
class AloneRegressor(SingleTaskGPRegressor):
    """`SingleTaskGPRegressor` of which only one task is fitted."""

    _: KW_ONLY
    primary: Any = None

    def _arrange(self, rows: Rows) -> TaskData:
        whole = super()._arrange(rows)
        alone = super()._arrange(rows.take(rows.task == rows.labels.index(self.primary)))
        return replace(alone, column_scales=whole.column_scales)


@dataclass(eq=False, repr=False)
class AloneClassifier(SingleTaskGPClassifier):
    """`SingleTaskGPClassifier` of which only one task is fitted."""

    _: KW_ONLY
    primary: Any = None

    def _fit_binary(self, data: BinaryData, place: Place = PlacedTasks) -> SingleTaskLabels:
        t, M = data.labels.index(self.primary), len(data.labels)
        at = data.of(t)
        starts = np.array([0, at.stop - at.start])
        alone = replace(
            data, X=data.X[at], y=data.y[at], starts=starts, labels=(self.primary,), unlabelled=(data.unlabelled[t],)
        )
        fit: Any = super()._fit_binary(alone, place)
        return replace(fit, group=fit.group * M, bias=np.repeat(fit.bias, M), kernels=fit.kernels * M)
