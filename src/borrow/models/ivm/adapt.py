"""The table of a new task, for a model that has learnt its kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from borrow.data.read import Schema


def keep_names(child: Any, X: Any, schema: Schema) -> None:
    """A model adapted to a frame expects the same columns of frames to come."""
    if hasattr(X, "columns") and schema.names is not None:
        child._schema = replace(child._schema, names=schema.names)
        if all(isinstance(n, str) for n in schema.names):
            child.feature_names_in_ = np.array(schema.names, dtype=object)
