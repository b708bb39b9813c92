"""Which of the other tasks matters: how each is related to the primary, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from borrow.data.plain import to_json
from borrow.data.table import HALF, Table
from borrow.numerics.threads import one_thread
from borrow.numerics.warned import capture_warnings
from borrow.transfer.decide import Interval
from borrow.transfer.problem import Problem
from borrow.transfer.shapley import Worth

#: What is told of a relation: the correlation with its 95 % interval and standard error.
RELATION = ("correlation", "correlation_low", "correlation_high", "std_error")
#: Of a secondary that was not asked about.
UNKNOWN = Worth(math.nan, math.nan, Interval(), math.nan)


def relations_of(problem: Problem, primary: Any, seed: int) -> dict[str, Any]:
    """The focused model fitted to all rows, and what it says of the relations."""
    out: dict[str, Any] = {"primary": primary, "relations": [], "failure": None}
    with capture_warnings() as out["warnings"], one_thread():
        try:
            return {**out, "relations": relations_in(problem.fit("focused", primary, seed), primary)}
        except Exception as failure:  # it is evidence beside the verdict, not the verdict
            return {**out, "failure": f"{type(failure).__name__}: {failure}"}


def relations_in(model: Any, primary: Any) -> list[dict[str, Any]]:
    """What a focused model says of the secondaries: rho, correlation with its standard error, share.

    Of the several models of more than two classes, the strongest relation is taken.
    """
    found = model.relatedness()
    tables: list[Table] = found if isinstance(found, list) else [found]
    strongest: dict[Any, dict[str, Any]] = {}
    for row in [row for table in tables for row in table.rows() if row["task"] != primary]:
        figures = of_correlation(row)
        entry = {name: to_json(figures[name]) for name in ("rho", *RELATION, "share")}
        old = strongest.get(row["task"])
        if old is None or abs(entry["correlation"] or 0.0) > abs(old["correlation"] or 0.0):
            strongest[row["task"]] = {"task": row["task"], **entry}
    return list(strongest.values())


def of_correlation(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `relatedness()` whose interval and standard error are named as the correlation's.

    The standard error is that of a normal estimate with an interval as wide.
    """
    low, high = float(row["low"]), float(row["high"])
    return {**row, "correlation_low": low, "correlation_high": high, "std_error": (high - low) / (2.0 * HALF)}


def secondary_table(
    rows: Mapping[Any, int], relations: Sequence[Mapping[str, Any]], worths: Mapping[Any, Worth]
) -> Table:
    """One row per secondary: its rows, how it is related, and what it is worth."""
    known = {r["task"]: r for r in relations}

    def figure(task: Any, name: str) -> float:
        value = known.get(task, {}).get(name)
        return math.nan if value is None else float(value)

    worth = [worths.get(t, UNKNOWN) for t in rows]
    return Table(
        {
            "task": list(rows),
            "rows": list(rows.values()),
            **{name: [figure(t, name) for t in rows] for name in (*RELATION, "share")},
            "alone": [w.alone for w in worth],
            "without": [w.without for w in worth],
            "gain": [w.gain.mean for w in worth],
            "low": [w.gain.low for w in worth],
            "high": [w.gain.high for w in worth],
            "p": [w.p for w in worth],
        }
    )
