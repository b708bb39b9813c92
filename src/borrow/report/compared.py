"""What a comparison found, as plain data for the report: verdict, methods, secondaries, what to measure next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from borrow.report import calibration
from borrow.report.svg import number, text_of
from borrow.transfer.comparison import LEVEL, Comparison
from borrow.transfer.methods import LABELS

#: Tasks in the figures of relatedness.
MOST_SECONDARIES = 16


def cv_words(comparison: Comparison) -> str:
    """The folds in words."""
    folds, repeats = comparison.cv["folds"], comparison.cv["repeats"]
    return f"{folds} folds" + (f", {repeats} times" if repeats > 1 else "")


def part_of(comparison: Comparison, primary: Any) -> dict[str, Any]:
    """One primary: verdict, comparison, secondaries, calibration."""
    verdict = comparison.verdict(primary)
    rows = [{**row, "label": LABELS[row["method"]]} for row in comparison.table(primary).rows()]
    for row in rows:
        if row["method"] == "single":
            row.update(difference=0.0, low=None, high=None)
    by_method = {m: comparison.folds(primary, m) for m in comparison.methods}
    if comparison.kind == "regression":
        checked = calibration.coverage(by_method, LABELS, verdict.best)
    else:
        checked = calibration.reliability(by_method, LABELS, verdict.best, comparison.classes)
    others = len(comparison.tasks) - 1
    lead = (
        f"Each method learnt from the other {'task' if others == 1 else 'tasks'} and from a part of the rows of "
        f"{text_of(primary)}, and predicted the rest: {cv_words(comparison)}, settings found anew in each."
    )
    there = sum(map(len, by_method.values()))
    folds = comparison.cv["folds"] * comparison.cv["repeats"]  # of the first primary; others may have had fewer rows
    each = folds if len(comparison.primaries) == 1 else max(map(len, by_method.values()))
    planned = each * len(comparison.methods)
    notes = [f"Not finished: {there} of {planned} fits are there; run it again to go on."] * (there < planned)
    notes += [f"The {LABELS[m]} {why}." for m, why in comparison.failures(primary).items()]
    notes += [f"The {LABELS[m]} was left out: {why}." for m, why in comparison.skipped.items()]
    return {
        "primary": text_of(primary),
        "rows": comparison.rows[primary],
        "verdict": _verdict(comparison, verdict, rows),
        "comparison": {"score": comparison.scoring, "level": LEVEL, "lead": lead, "rows": rows, "notes": notes},
        "secondaries": _secondaries(comparison, verdict, primary),
        "calibration": checked,
    }


def _verdict(comparison: Comparison, verdict: Any, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The verdict with a headline and its interval in plain words."""
    alone = next(r["error"] for r in rows if r["method"] == "single")
    label, who = LABELS.get(verdict.best or "", "no method"), text_of(verdict.primary)
    known = all(math.isfinite(v) for v in (verdict.difference, verdict.low, verdict.high, alone)) and alone > 0
    share = f"{100 * abs(verdict.difference) / alone:.0f} %" if known else ""
    headline = {
        "helps": f"The other data help {who}: {share} less error with the {label}.",
        "hurts": f"The other data hurt {who}: {share} more error with the {label}.",
        "cannot tell": f"Cannot tell whether the other data help {who}.",
    }[verdict.answer]
    if not known:
        interval = verdict.sentence
    elif verdict.low == verdict.high == 0:
        interval = f"The {label} borrowed nothing in any of {verdict.folds} folds: it predicts as no transfer does."
    else:
        interval = (
            f"On rows that it had not seen the {label} has a {comparison.scoring} of "
            f"{number(alone + verdict.difference)}; without the other data it is {number(alone)}. {_span(verdict)}"
        )
    return {
        "answer": verdict.answer,
        "method": verdict.best,
        "label": label,
        **{k: getattr(verdict, k) for k in ("difference", "low", "high", "level", "folds")},
        "sentence": verdict.sentence,
        "headline": headline,
        "interval": interval,
        "advice": list(verdict.advice),
    }


def _span(verdict: Any) -> str:
    """An interval of a difference, in words."""
    low, high, sure = verdict.low, verdict.high, f"{100 * verdict.level:.3g} %"
    if high < 0:
        span = f"between {number(-high, 2)} and {number(-low, 2)} less"
    elif low > 0:
        span = f"between {number(low, 2)} and {number(high, 2)} more"
    else:
        span = f"anything from {number(-low, 2)} less to {number(high, 2)} more"
    tail = "" if high < 0 or low > 0 else ", so there may be none"
    return f"The true difference may be {span} ({sure} interval over {verdict.folds} folds){tail}."


def _secondaries(comparison: Comparison, verdict: Any, primary: Any) -> dict[str, Any] | None:
    found = next((r for r in comparison.relations if r["primary"] == primary), None)
    rho = {r["task"]: r["rho"] for r in found["relations"]} if found else {}
    rows = [{**row, "rho": rho.get(row["task"])} for row in verdict.secondaries.rows()]
    return related(rows, comparison.scoring)


def related(rows: list[dict[str, Any]], scoring: str) -> dict[str, Any] | None:
    """Relatedness with error bars, strongest first; `clear` where two standard errors do not reach zero."""
    told = {name: any(_finite(r.get(name)) for r in rows) for name in ("correlation", "gain")}
    if not any(told.values()):
        return None  # the focused model was not run, and nothing was left out
    for row in rows:
        c, se = (float("nan") if row.get(k) is None else float(row[k]) for k in ("correlation", "std_error"))
        row["correlation_low"], row["correlation_high"] = max(c - 2 * se, -1.0), min(c + 2 * se, 1.0)
        row["clear"] = bool(abs(c) > 2 * se)
        row["task"] = text_of(row["task"])
        for name in ("gain", "low", "high", "rho", "share"):
            row.setdefault(name, None)

    def key(row: dict[str, Any]) -> tuple[bool, float]:
        c = float(row["correlation"])
        return not math.isfinite(c), -abs(c) if math.isfinite(c) else 0.0

    rows = sorted(rows, key=key)
    more = f" The {MOST_SECONDARIES} strongest of {len(rows)}." if len(rows) > MOST_SECONDARIES else ""
    borrowed = sum(abs(float(r["correlation"])) > 0 for r in rows if math.isfinite(float(r["correlation"])))
    lost = f"; lost without it is the rise in {scoring} when the task is left out" if told["gain"] else ""
    lead = (
        f"The focused model finds a relation in {borrowed} of {len(rows)} tasks. Where the data do not show one, it is "
        "set to zero and nothing is borrowed."
    )
    return {
        "lead": lead if told["correlation"] else "The focused model, which measures relations, was not compared.",
        "caption": "Correlation of each task's function with the primary's and its standard error; shared is the part "
        f"of the task's variation that is the primary's{lost}.",
        "correlation_caption": f"Bars: two standard errors to each side. Hollow where they reach zero.{more}",
        "gain_caption": f"Rise in {scoring} when the task alone is left out; bars are 95 % intervals.{more}",
        "shown": MOST_SECONDARIES,
        "rows": rows,
    }


def _finite(value: Any) -> bool:
    return value is not None and math.isfinite(float(value))


def suggested(suggestions: Any, features: Sequence[str]) -> dict[str, Any]:
    """What to measure next, as columns and rows; many inputs become one column of words."""
    table = {str(name): list(values) for name, values in dict(suggestions).items()}
    bare = [f"x{j}" for j in range(len(features))]  # a model that was fitted to an array knows no names
    if set(bare) <= set(table) and not set(features) & set(table):
        table = {dict(zip(bare, features, strict=True)).get(name, name): values for name, values in table.items()}
    inputs = [f for f in features if f in table]
    n = len(next(iter(table.values()), []))
    if len(inputs) > 4:
        switches = all(v in (0, 1) for f in inputs for v in table[f])
        words = []
        for i in range(n):
            if switches:
                words.append(", ".join(f for f in inputs if table[f][i]) or "none")
            else:
                words.append(", ".join(f"{f} {number(table[f][i])}" for f in inputs))
        at = list(table).index(inputs[0])
        kept = [(k, v) for k, v in table.items() if k not in inputs]
        table = dict([*kept[:at], ("switched on" if switches else "inputs", words), *kept[at:]])
    columns = [
        k for k in table if k != "row" and not (k in ("cost", "reduction_per_cost") and len({*table["cost"]}) == 1)
    ]
    numeric = [all(isinstance(v, (int, float, np.number)) for v in table[k]) for k in columns]
    return {
        "lead": "Measurements that would lower the uncertainty about the primary most, each given those before it.",
        "caption": "Reduction: by how much the average predictive variance of the primary falls. It does not "
        "depend on what will be measured, so it is known before.",
        "columns": columns,
        "numeric": numeric,
        "rows": [[table[k][i] for k in columns] for i in range(n)],
    }
