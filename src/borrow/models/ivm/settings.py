"""What both IVM estimators check and say."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from borrow.data.cells import Codes
from borrow.data.labels import list_labels
from borrow.estimators.base import warn
from borrow.numerics.device import Device, require


def check_ivm(estimator: Any) -> None:
    """Refuse constructor arguments that no IVM can use."""
    for name, least in (("n_active", 1), ("n_rounds", 1), ("ep_sweeps", 0)):
        value = getattr(estimator, name, least)
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")
    if not isinstance(estimator.selection, str) or estimator.selection not in ("entropy", "random"):
        raise ValueError(f"selection={estimator.selection!r}: expected 'entropy' or 'random'")
    shared = getattr(estimator, "share_noise", True)
    if not isinstance(shared, (bool, np.bool_)):
        raise ValueError(f"share_noise={shared!r}: expected True (one noise for all tasks) or False (one a task)")
    source = getattr(estimator, "noise_from", "rest")
    if not isinstance(source, str) or source not in ("rest", "active"):
        raise ValueError(
            f"noise_from={source!r}: expected 'rest' (rows that were not chosen) or 'active' (the chosen ones)"
        )


def require_memory(n_active: int, starts: Codes, device: Device | None = None) -> None:
    """Selection keeps a row of each task for every inclusion; at worst all are in the largest task, which doubles."""
    largest, d = int(np.diff(starts).max()), min(int(n_active), int(starts[-1]))
    require(
        device,
        8.0 * (3.0 * min(d, largest) * largest + 4.0 * min(d, largest) ** 2),
        f"choosing {d:,} rows, where the largest task has {largest:,},",
        "lower n_active, or thin the rows of the largest task",
    )


def tell_prior_tasks(counts: Mapping[Hashable, int], task: Codes) -> None:
    """Say it where a task that is asked for has no chosen row."""
    asked = [list(counts)[t] for t in np.unique(task).tolist()]
    if bare := [label for label in asked if counts[label] == 0]:
        plural = len(bare) > 1
        warn(
            f"task{'s' * plural} {list_labels(bare)} {'have' if plural else 'has'} no active row: predicted from the "
            "prior, which knows no target of it; raise n_active",
        )


def warn_cycle(cycle: tuple[int, int] | None) -> None:
    """Say it where the rounds go in a circle."""
    if cycle is not None:
        warn(
            f"rounds {cycle[0]} and {cycle[1]} chose the same rows and the round between them others: selection and "
            "learning go in a circle, and stopped there; use n_rounds=1, or raise n_active",
            ConvergenceWarning,
        )
