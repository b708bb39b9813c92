"""How the secondaries are related to the primary, by the focused model on all rows."""

from __future__ import annotations

from typing import Any

from threadpoolctl import threadpool_limits

from borrow.data.plain import to_json
from borrow.data.table import Table
from borrow.numerics.warned import capture_warnings
from borrow.transfer.folds import fit_for
from borrow.transfer.problem import Problem


def relations_of(problem: Problem, primary: Any, seed: int) -> dict[str, Any]:
    """One entry a secondary: rho, correlation with its standard error, share. Of several classes, the strongest."""
    out: dict[str, Any] = {"primary": primary, "relations": [], "failure": None}
    with capture_warnings() as out["warnings"], threadpool_limits(1):
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
                "rho": to_json(row["rho"]),
                "correlation": to_json(row["correlation"]),
                "std_error": to_json(correlation_error(row)),
                "share": to_json(row["share"]),
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
