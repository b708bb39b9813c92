"""The table of a new task, for a model that has learnt its kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from borrow.data.read import Schema
from borrow.estimators.base import Fitted


def with_names(fitted: Fitted, X: Any, schema: Schema) -> Fitted:
    """A model adapted to a frame expects the same columns of frames to come."""
    if not hasattr(X, "columns") or schema.names is None:
        return fitted
    named = replace(fitted, schema=replace(fitted.schema, names=schema.names))
    if not all(isinstance(n, str) for n in schema.names):
        return named
    return replace(named, attributes={**fitted.attributes, "feature_names_in_": np.array(schema.names, dtype=object)})
