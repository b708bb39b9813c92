"""Everything a report says, as one plain dict: texts, numbers, lists; None where a number is not known.

It goes through JSON unchanged. `page.render` turns it into HTML and computes nothing.
"""

from __future__ import annotations

import datetime
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from borrow import __version__
from borrow.data.plain import to_json
from borrow.data.table import Table
from borrow.numerics.warned import capture_warnings
from borrow.report import learnt
from borrow.report.compared import cv_words, part_of, related, suggested
from borrow.report.page import FORMAT, VERSION
from borrow.report.predictor import Points, Predictor, remembered
from borrow.report.svg import text_of
from borrow.transfer.attribute import correlation_error
from borrow.transfer.comparison import Comparison
from borrow.transfer.methods import LABELS, key_of
from borrow.transfer.problem import Problem, read_problem
from borrow.transfer.suggest import suggest

#: Warnings listed; suggestions made, and rows that they are chosen from.
MOST_WARNINGS, NEXT, MOST_CANDIDATES = 8, 5, 200


def summary(
    comparison: Comparison | None = None,
    model: Any = None,
    table: Any = None,
    command: str | None = None,
    suggestions: Any = None,
    target: str | None = None,
) -> dict[str, Any]:
    """Collect what there is to say.

    Parameters
    ----------
    comparison : what `borrow.compare` returned; or leave it out and give a model alone. That of an Auto estimator is
        found in the model.
    model : a fitted estimator, for predictions and relatedness. With a comparison of one primary and its table, and no
        model, the method that the verdict says to use is fitted.
    table : the data that were compared (checked by their digest), or for a model alone rows to show it on.
    command : the command line, for "how this was made".
    suggestions : what `borrow.suggest` returned. None asks it, where model and table allow, about rows without a
        target, or else about inputs that other tasks were measured at and the primary was not; False leaves it out.
    target : name of the target, for a model without a comparison.
    """
    if comparison is None and model is None:
        raise ValueError("give a comparison, a fitted model, or both: there is nothing to report on")
    if comparison is not None and not isinstance(comparison, Comparison):
        raise ValueError(f"comparison is {type(comparison).__name__}; expected what borrow.compare returned")
    if comparison is None:
        comparison = getattr(model, "comparison_", None)  # an Auto estimator brings its own
    problem = None if comparison is None or table is None else _problem_of(comparison, table)
    with capture_warnings() as said:
        content, predictor = _content(comparison, problem, model, table, suggestions, target)
    content["made"] = _made(comparison, predictor, command, said)
    found: dict[str, Any] = to_json(content, text=text_of)
    return found


def _content(
    comparison: Comparison | None, problem: Problem | None, model: Any, table: Any, suggestions: Any, target: str | None
) -> tuple[dict[str, Any], Predictor | None]:
    """Every part but how it was made, and the model that is shown."""
    predictor, alone = _models(comparison, problem, model)
    primary = _primary_of(comparison, predictor)
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "borrow": __version__,
        "data": _data(comparison, predictor, target),
        "model": None if predictor is None else {"class": type(predictor.model).__name__, "label": predictor.label},
        "parts": [] if comparison is None else [part_of(comparison, p) for p in comparison.primaries],
        "covariance": _covariance(comparison, problem, predictor, primary),
        "predictions": None,
        "suggestions": None,
    }
    if comparison is None and predictor is not None and hasattr(predictor.model, "relatedness"):
        content["parts"] = _model_part(predictor)
    if predictor is not None and primary is not None:
        points = _points(problem, predictor, table, target)
        if points is not None and len(points.X):
            others = _nearest(content["parts"], primary, predictor.labels)
            name = content["data"]["target"] or "target"
            content["predictions"] = learnt.predictions(predictor, points, primary, name, alone, others)
    if suggestions is None and problem is not None and predictor is not None and predictor.regression:
        suggestions = _ask_suggest(predictor, problem, primary)
    if suggestions is not None and suggestions is not False:
        content["suggestions"] = suggested(suggestions, _features(comparison, predictor))
    return content, predictor


def _problem_of(comparison: Comparison, table: Any) -> Problem:
    problem = read_problem(table, comparison.target, comparison.task, comparison.features, comparison.kind)
    if problem.digest() != comparison.digest:
        raise ValueError(
            f"table is not the data that were compared: its digest is {problem.digest()[:12]}\u2026 and that of the "
            f"comparison {comparison.digest[:12]}\u2026; give the same table, or leave it out for a report without "
            "predictions"
        )
    return problem


def _models(
    comparison: Comparison | None, problem: Problem | None, model: Any
) -> tuple[Predictor | None, Predictor | None]:
    """The model to show, and no transfer to show beside it; fitted here where only the data were given."""
    if comparison is None or len(comparison.primaries) != 1:
        return (None if model is None else Predictor.of(model)), None
    primary = comparison.primaries[0]
    key = comparison.verdict().method if model is None else key_of(getattr(model, "model_", model))
    alone = None
    if model is None:
        if problem is None:
            return None, None
        model = problem.fit(key or "single", primary, comparison.seed)
    if problem is not None and key != "single":
        alone = Predictor.of(problem.fit("single", primary, comparison.seed), comparison.features, "no transfer")
    return Predictor.of(model, comparison.features, LABELS.get(key or "")), alone


def _primary_of(comparison: Comparison | None, predictor: Predictor | None) -> Any:
    if comparison is not None and len(comparison.primaries) == 1:
        return comparison.primaries[0]
    if predictor is None or comparison is not None:
        return None
    return predictor.primary() if predictor.primary() is not None else predictor.labels[0]


def _points(problem: Problem | None, predictor: Predictor, table: Any, target: str | None) -> Points | None:
    """Rows to draw on: of the table, or those that the model remembers."""
    if problem is not None:
        if sorted(predictor.features) == sorted(problem.features):
            columns = [problem.features.index(f) for f in predictor.features]
        elif len(predictor.features) == len(problem.features):
            columns = list(range(len(problem.features)))
        else:
            raise ValueError(
                f"the model has the inputs {', '.join(predictor.features)} and the comparison "
                f"{', '.join(problem.features)}; give the model that was fitted to the same columns"
            )
        y = problem.y if problem.kind == "regression" else np.full(len(problem.y), np.nan)
        return Points(problem.X[:, columns], np.asarray(y, dtype=float), problem.tasks)
    if table is not None and target is not None and predictor.model.fitted_.schema.task is not None:
        task = str(predictor.model.fitted_.schema.task)
        read = read_problem(table, target, task, list(predictor.features))
        y = read.y if read.kind == "regression" else np.full(len(read.y), np.nan)
        return Points(read.X, np.asarray(y, dtype=float), read.tasks)
    return remembered(predictor) if predictor.regression else None


def _nearest(parts: Sequence[Mapping[str, Any]], primary: Any, labels: Sequence[Any]) -> list[Any]:
    """The other tasks, most related first where that is known."""
    known = {
        r["task"]: abs(r["correlation"] or 0.0) for p in parts if p["secondaries"] for r in p["secondaries"]["rows"]
    }
    return sorted((t for t in labels if t != primary), key=lambda t: -known.get(text_of(t), 0.0))


def _data(comparison: Comparison | None, predictor: Predictor | None, target: str | None) -> dict[str, Any]:
    if comparison is not None:
        return {
            "kind": comparison.kind,
            "target": text_of(comparison.target),
            "task": text_of(comparison.task),
            "features": list(comparison.features),
            "tasks": [{"task": text_of(t), "rows": comparison.rows[t]} for t in comparison.tasks],
            "cv": cv_words(comparison),
        }
    assert predictor is not None
    return {
        "kind": "regression" if predictor.regression else "classification",
        "target": target,
        "task": None if predictor.model.fitted_.schema.task is None else text_of(predictor.model.fitted_.schema.task),
        "features": list(predictor.features),
        "tasks": [{"task": text_of(t), "rows": None} for t in predictor.labels],
        "cv": None,
    }


def _model_part(predictor: Predictor) -> list[dict[str, Any]]:
    """A model without a comparison: what it knows of the relations."""
    found = predictor.model.relatedness()
    tables: list[Table] = found if isinstance(found, list) else [found]
    primary = predictor.primary()
    rows = [dict(r) for r in tables[0].rows() if r["task"] != primary]
    if primary is None or not rows or "correlation" not in rows[0]:
        return []
    for row in rows:
        row["std_error"] = correlation_error(row)  # the table's is that of rho
    mine = next((r["rows"] for r in tables[0].rows() if r["task"] == primary), 0)
    empty = {"verdict": None, "comparison": None, "calibration": None}
    return [{"primary": text_of(primary), "rows": mine, **empty, "secondaries": related(rows, "error")}]


def _covariance(
    comparison: Comparison | None, problem: Problem | None, predictor: Predictor | None, primary: Any
) -> dict[str, Any] | None:
    """Of the symmetric model, which sees all pairs, fitted here where it was compared; else of what there is."""
    shown = predictor
    if comparison is not None and problem is not None and primary is not None:
        seen = predictor is not None and hasattr(predictor.model, "task_covariance_")
        if not seen and "symmetric" in comparison.candidates(primary):
            shown = Predictor.of(problem.fit("symmetric", primary, comparison.seed), comparison.features)
    found = None if shown is None else learnt.correlations(shown, primary)
    if found is None and comparison is not None and primary is not None:
        known: list[Any] = next((r["relations"] for r in comparison.relations if r["primary"] == primary), [])
        c = [1.0, *(float("nan") if r["correlation"] is None else r["correlation"] for r in known)]
        found = learnt.shared_correlations([primary, *(r["task"] for r in known)], np.array(c, dtype=float), primary)
    return found


def _ask_suggest(predictor: Predictor, problem: Problem, primary: Any) -> Table | None:
    """What to measure next among rows of the table; None where the model cannot say or nothing is left to measure."""
    columns = [problem.features.index(f) if f in problem.features else j for j, f in enumerate(predictor.features)]
    X, tasks = problem.X[:, columns], list(problem.tasks)
    at = np.flatnonzero(~problem.seen)
    if len(at):
        at = at[np.unique(np.linspace(0, len(at) - 1, MOST_CANDIDATES).astype(int))]
        rows, own = X[at], [tasks[i] for i in at]
    else:
        known = {row.tobytes() for row in X[problem.rows_of(primary)]}
        free = {row.tobytes(): row for row in X if row.tobytes() not in known}
        rows = np.array(list(free.values()))[:: max(1, len(free) // MOST_CANDIDATES)]
        own = [primary] * len(rows)
    if not len(rows):
        return None
    given, more = predictor.form(rows, own)
    try:
        return suggest(predictor.model, given, min(NEXT, len(rows)), primary=primary, **more)
    except ValueError:  # it says which models can; the report only leaves the part out
        return None


def _features(comparison: Comparison | None, predictor: Predictor | None) -> Sequence[str]:
    return predictor.features if predictor is not None else comparison.features if comparison is not None else ()


def _made(
    comparison: Comparison | None, predictor: Predictor | None, command: str | None, caught: Sequence[str]
) -> dict[str, Any]:
    records = [] if comparison is None else comparison.records
    told = Counter(w for r in records for w in r["warnings"])
    told.update(caught)
    if comparison is not None:
        versions = dict(comparison.versions)
    else:
        names = ("numpy", "scipy", "scikit-learn")
        versions = {
            "borrow": __version__,
            "python": platform.python_version(),
            **{n: metadata.version(n) for n in names},
        }
    return {
        "command": command,
        "digest": None if comparison is None else f"sha256 {comparison.digest}",
        "seed": None if comparison is None else comparison.seed,
        "cv": None if comparison is None else cv_words(comparison),
        "model": None if predictor is None else " ".join(repr(predictor.model).split()),
        "seconds": sum(r["seconds"] for r in records) if records else None,
        "versions": versions,
        "written": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "warnings": [{"text": text, "times": n} for text, n in told.most_common(MOST_WARNINGS)],
    }
