"""How the secondaries are related to the primary, by the focused model on all rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from borrow.data.table import Table
from borrow.transfer.folds import fit_for, heard
from borrow.transfer.problem import Problem


def relations_of(problem: Problem, primary: Any, seed: int) -> dict[str, Any]:
    """One entry a secondary: rho, correlation with its standard error, share. Of several classes, the strongest."""
    out: dict[str, Any] = {"primary": primary, "relations": [], "failure": None}
    with heard() as out["warnings"], threadpool_limits(1):
        try:
            found = fit_for(problem, "focused", primary, seed).relatedness()
        except Exception as failure:  # it is evidence beside the verdict, not the verdict
            return {**out, "failure": f"{type(failure).__name__}: {failure}"}
    tables: list[Table] = found if isinstance(found, list) else [found]
    strongest: dict[Any, dict[str, Any]] = {}
    for table in tables:
        for row in table.rows():
            if row["task"] == primary:
                continue
            entry = {
                "task": row["task"],
                "rho": _known(row["rho"]),
                "correlation": _known(row["correlation"]),
                "std_error": _known(correlation_error(row)),
                "share": _known(row["share"]),
            }
            old = strongest.get(row["task"])
            if old is None or abs(entry["correlation"] or 0.0) > abs(old["correlation"] or 0.0):
                strongest[row["task"]] = entry
    return {**out, "relations": list(strongest.values())}


def correlation_error(row: dict[str, Any]) -> float:
    """Standard error of the correlation c = rho a / sqrt(rho² a² + v) from that of rho: dc/d rho = (c / rho)(1 - c²).

    A relation that was dropped (rho = 0) keeps the standard error of rho: with scaled targets a and v are about 1.
    """
    rho, c, se = float(row["rho"]), float(row["correlation"]), float(row["std_error"])
    return se if rho == 0.0 else abs(c / rho) * (1.0 - c * c) * se


def _known(value: Any) -> float | None:
    number = float(np.asarray(value))
    return number if math.isfinite(number) else None
