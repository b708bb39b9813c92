"""Everything a report says, as one plain dict: texts, numbers, lists; None where a number is not known.

It goes through JSON unchanged. `page.render` turns it into HTML and computes nothing.
"""

from __future__ import annotations

import datetime
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from borrow import __version__
from borrow.data.encode import Ordered
from borrow.data.plain import to_json
from borrow.data.read import as_frame, columns_of
from borrow.data.written import scale_of
from borrow.estimators import registry
from borrow.estimators.view import Points, Predictor, relation_tables, remembered, task_correlations, through_one
from borrow.numerics.linalg import Array
from borrow.numerics.warned import capture_warnings
from borrow.report import calibration, misses
from borrow.report.format import number, text_of
from borrow.report.predictions import predictions
from borrow.transfer.attribute import of_correlation, relations_to
from borrow.transfer.compare import versions
from borrow.transfer.comparison import LEVEL, Comparison
from borrow.transfer.decide import HELPS, HURTS, PROBABLY_HELPS, PROBABLY_HURTS
from borrow.transfer.methods import NO_TRANSFER, about_of, call_of, key_of, label_of, method_for
from borrow.transfer.problem import TASK, VALUE, Problem, read_problem
from borrow.transfer.suggest import suggest
from borrow.transfer.unseen import WORDS, headline_of
from borrow.transfer.verdict import HEADLINES, against_folds, probability

#: Of the summary. A page holds the number that its summary had.
FORMAT, VERSION = "borrow.report", 1
#: Warnings listed; suggestions made, and rows that they are chosen from; tasks in the figures and in the heat map.
MOST_WARNINGS, NEXT, MOST_CANDIDATES, MOST_SECONDARIES, MOST_TASKS = 8, 5, 200, 16, 30

SYMMETRIC = "Learnt by the symmetric model: how the functions of each two tasks go together at the same input."
FOCUSED = (
    "As the focused model has it: tasks are tied through the primary's function alone, so two others correlate by the "
    "product of their correlations with it. What they share beyond that is not shown."
)


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
    table : the data that were compared (checked by their digest), or for a model alone rows to show it on. A problem
        that was read from the table already is taken as it is.
    command : the command line, for "how this was made".
    suggestions : what `borrow.suggest` returned. None asks it, where model and table allow, about rows without a
        target, or else about inputs that other tasks were measured at and the primary was not; False leaves it out.
    target : name of the target, for a model without a comparison.

    Examples
    --------
    >>> import borrow
    >>> X, y, tasks = borrow.datasets.two_tasks()
    >>> model = borrow.SingleTaskGPRegressor(optimizer=None).fit(X, y, tasks=tasks)
    >>> summary = borrow.report.summary(model=model, target="level")
    >>> summary["data"]["kind"], summary["data"]["target"]
    ('regression', 'level')
    """
    if comparison is None and model is None:
        raise ValueError("give a comparison, a fitted model, or both: there is nothing to report on")
    if comparison is not None and not isinstance(comparison, Comparison):
        raise ValueError(f"comparison is {type(comparison).__name__}; expected what borrow.compare returned")
    with capture_warnings() as said:
        if comparison is None:
            comparison = getattr(model, "comparison_", None)  # an Auto estimator brings its own
        if comparison is None:
            content, predictor = _of_model(model, table, suggestions, target)
        else:
            content, predictor = _of_comparison(comparison, model, table, suggestions)
    about = {"format": FORMAT, "version": VERSION, "borrow": __version__}
    made = {"made": _made(comparison, predictor, command, said)}
    return to_json(about | content | made, text=text_of)


def check(summary: Mapping[str, Any]) -> None:
    """Refuse what is no summary, or one of a version that this borrow does not know."""
    if not isinstance(summary, Mapping) or summary.get("format") != FORMAT:
        raise ValueError(
            f"summary is no summary of a report: expected a dict with format={FORMAT!r}, as borrow.report.summary() "
            "returns it"
        )
    version = summary.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"the summary has version {version!r}; expected a whole number, 1 to {VERSION}")
    if version > VERSION:
        raise ValueError(
            f"the summary was made by a newer borrow ({summary.get('borrow', 'a newer version')}, summary version "
            f"{version}; this is borrow {__version__}, which reads up to version {VERSION}): update borrow, or make "
            "the summary again with this one"
        )


def _of_comparison(
    comparison: Comparison, model: Any, table: Any, suggestions: Any
) -> tuple[dict[str, Any], Predictor | None]:
    """Every part but how it was made, and the model that is shown."""
    problem = None if table is None else _problem_of(comparison, table)
    verdicts, unseen = comparison.verdicts(), comparison.unseen == "population"
    parts = [part_of(comparison, verdict, problem) for verdict in verdicts.values()]
    primary = comparison.primaries[0] if len(verdicts) == 1 and not unseen else None
    if unseen:  # of a task without rows there is nothing to draw, and nothing that was measured
        model, suggestions = None, False
    encoder = None if problem is None else problem.encoder
    predictor, alone = _models(comparison, problem, model, verdicts.get(primary))
    covariance = _covariance(comparison, problem, predictor, primary)
    shown = None
    if predictor is not None and primary is not None:
        parts[0]["secondaries"] = _of_winner(parts[0], predictor, primary)
    if predictor is not None:
        problem = None if problem is None else _in_order_of(predictor, problem)
        points = remembered(predictor) if problem is None else points_of(problem)
        if primary is not None:
            shown = _predictions(predictor, points, primary, comparison.target, alone, parts)
        if suggestions is None and problem is not None and predictor.regression:
            suggestions = _ask_suggest(predictor, problem, primary)
    content = {
        "data": {
            "kind": comparison.kind,
            "target": comparison.target,
            "task": comparison.task,
            "features": comparison.features,
            "tasks": [{"task": str(t), "rows": comparison.rows[t]} for t in comparison.tasks],
            "cv": cv_words(comparison),
            "unseen": comparison.unseen,
        },
        "model": _about(predictor),
        "parts": parts,
        "covariance": covariance,
        "predictions": shown,
        "suggestions": suggested(suggestions, comparison.features if predictor is None else predictor.features),
        "use": _use(comparison, verdicts[comparison.primaries[0]], encoder) if len(verdicts) == 1 else None,
    }
    return content, predictor


def _of_model(model: Any, table: Any, suggestions: Any, target: str | None) -> tuple[dict[str, Any], Predictor | None]:
    """The same of a model without a comparison."""
    predictor = Predictor.of(model)
    task = predictor.model.fitted_.schema.task
    primary = predictor.labels[0] if predictor.primary is None else predictor.primary
    points = remembered(predictor)
    if table is not None and target is not None and task is not None:
        schema = predictor.model.fitted_.schema
        inputs = predictor.features if schema.inputs is None else map(str, schema.inputs)
        problem = read_problem(table, target, str(task), list(inputs), encoder=schema.encoder)
        points = points_of(problem)
        if suggestions is None and predictor.regression and predictor.primary is not None:
            suggestions = _ask_suggest(predictor, problem, primary)
    parts = _model_parts(predictor)
    content = {
        "data": {
            "kind": "regression" if predictor.regression else "classification",
            "target": target,
            "task": None if task is None else str(task),
            "features": predictor.features,
            "tasks": [{"task": str(t), "rows": None} for t in predictor.labels],
            "cv": None,
        },
        "model": _about(predictor),
        "parts": parts,
        "covariance": correlations(predictor, primary),
        "predictions": _predictions(predictor, points, primary, target or "target", None, parts),
        "suggestions": suggested(suggestions, predictor.features),
        "left_out": misses.left_out(predictor),
        "use": None,
    }
    return content, predictor


def _about(predictor: Predictor | None) -> dict[str, str] | None:
    return None if predictor is None else {"class": type(predictor.model).__name__, "label": predictor.label}


def _problem_of(comparison: Comparison, table: Any) -> Problem:
    """The data that were compared, from a table that is long or wide as it was then."""
    names: dict[str, Any] = {"target": comparison.target, "task": comparison.task}
    kept = {"group": comparison.group, "time": comparison.time}
    if comparison.wide and not isinstance(table, Problem):
        long = {VALUE, TASK} <= {*(table if isinstance(table, Mapping) else table.columns)}
        names = names if long else {"targets": comparison.wide}
    problem = read_problem(table, features=comparison.features, kind=comparison.kind, **names, **kept)
    if (digest := problem.digest()) != comparison.digest:
        raise ValueError(
            f"table is not the data that were compared: its digest is {digest[:12]}\u2026 and that of the "
            f"comparison {comparison.digest[:12]}\u2026; give the same table, or leave it out for a report without "
            "predictions"
        )
    return replace(problem, fits=comparison.fits)


def _models(
    comparison: Comparison, problem: Problem | None, model: Any, verdict: Any
) -> tuple[Predictor | None, Predictor | None]:
    """The model to show, and no transfer to show beside it; fitted here where only the data were given."""
    if verdict is None or (model is None and problem is None):
        return (None if model is None else Predictor.of(model)), None
    key = verdict.method if model is None else key_of(getattr(model, "model_", model)) or ""
    alone = None
    if model is None and key in comparison.own:
        return None, None  # the user's own estimator is the user's
    if problem is not None and model is None:
        model = problem.fit(key, verdict.primary, comparison.seed)
    if problem is not None and key != NO_TRANSFER:
        fitted = problem.fit(NO_TRANSFER, verdict.primary, comparison.seed)
        alone = Predictor.of(fitted, comparison.features, label_of(NO_TRANSFER))
    return Predictor.of(model, comparison.features, label_of(key)), alone


def _in_order_of(predictor: Predictor, problem: Problem) -> Problem:
    """The problem with its columns as the model has them: by name, or by place where it has names of its own."""
    names, features = problem.features, predictor.features
    if len(names) != len(features):
        raise ValueError(
            f"the model has the inputs {', '.join(features)} and the comparison {', '.join(names)}; give the model "
            "that was fitted to the same columns"
        )
    columns = [names.index(f) if sorted(names) == sorted(features) else j for j, f in enumerate(features)]
    return replace(problem, features=features, X=problem.X[:, columns])


def points_of(problem: Problem) -> Points:
    """The rows of a table; a label is 1 where it is the class whose probability is shown, and else 0."""
    y = problem.y
    if problem.kind != "regression":
        y = [np.nan if v is None else v == problem.classes[-1] for v in problem.y]
    return Points(problem.X, np.asarray(y, dtype=float), problem.tasks)


def _predictions(
    predictor: Predictor,
    points: Points | None,
    primary: Any,
    target: str,
    alone: Predictor | None,
    parts: Sequence[Mapping[str, Any]],
) -> dict[str, Any] | None:
    """What the model predicts, beside the primary for the tasks that are most related to it."""
    if points is None or not len(points.X):
        return None
    rows = [r for p in parts if p["secondaries"] for r in p["secondaries"]["rows"]]
    known = {r["task"]: abs(r["correlation"] or 0.0) for r in rows}
    others = sorted((t for t in predictor.labels if t != primary), key=lambda t: -known.get(str(t), 0.0))
    return predictions(predictor, points, primary, target, alone, others)


def cv_words(comparison: Comparison) -> str:
    """The folds in words."""
    folds, repeats = comparison.cv["folds"], comparison.repeats
    return f"{folds} folds" + (f", {repeats} times" if repeats > 1 else "")


def part_of(comparison: Comparison, verdict: Any, problem: Problem | None) -> dict[str, Any]:
    """One primary: verdict, comparison, secondaries, calibration; with the inputs of rows where there is a problem."""
    primary, others, unseen = verdict.primary, len(comparison.tasks) - 1, comparison.unseen == "population"
    rows = [{**row, "label": label_of(row["method"])} for row in comparison.table(primary).rows()]
    alone = next(row for row in rows if row["method"] == verdict.alone)
    alone.update(difference=0.0, low=None, high=None)
    by_method = {m: comparison.folds(primary, m) for m in comparison.methods}
    labels = {m: label_of(m) for m in comparison.methods}
    told = {m: words for m in comparison.methods if (words := about_of(m) or WORDS.get(m))}
    done, planned = comparison.progress(primary)
    unfinished = [f"Not finished: {done} of {planned} fits are there; run it again to go on."] if done < planned else []
    notes = [
        *unfinished,
        *(f"The {label_of(m)} {why}." for m, why in comparison.failures(primary).items()),
        *(f"Left out: {label_of(m)} ({why})." for m, why in comparison.skipped.items()),
    ]
    lead = (
        f"Each method learnt from the other {'task' if others == 1 else 'tasks'} and from a part of the rows of "
        f"{primary}, and predicted the rest: {cv_words(comparison)}, settings found anew in each."
    )
    if unseen:
        lead = (
            f"Each of the {others} tasks was held out whole in turn, and every method learnt from the others and "
            f"predicted it as one never seen: {cv_words(comparison)}, settings found anew in each."
        )
    rho = {r["task"]: r["rho"] for r in relations_to(primary, comparison.relations)}
    shown = verdict.best or comparison.alone[0]
    secondaries = [{**row, "rho": rho.get(row["task"])} for row in verdict.secondaries.rows()]
    return {
        "primary": str(primary),
        "rows": comparison.rows[primary],
        "verdict": verdict_words(verdict, alone["error"], comparison.scoring, unseen),
        "comparison": {
            "score": comparison.scoring,
            "level": LEVEL,
            "lead": lead,
            "beside": comparison.beside,
            "new": unseen,
            "rows": rows,
            "notes": notes,
            "methods": [{"label": labels[m], "words": words} for m, words in told.items()],
        },
        "misses": misses.with_inputs(
            misses.held_out(by_method[shown], label_of(shown), comparison.classes), problem, several=unseen
        ),
        "secondaries": related(secondaries, comparison.scoring, verdict.best),
        "calibration": calibration.coverage(by_method, labels, verdict.best)
        if comparison.kind == "regression"
        else calibration.reliability(by_method, labels, verdict.best, comparison.classes),
    }


def verdict_words(verdict: Any, alone: float, scoring: str, unseen: bool = False) -> dict[str, Any]:
    """The verdict with a headline and its interval in plain words; `alone` is the error of no transfer."""
    label = label_of(verdict.best) if verdict.best else "no method"
    known = all(math.isfinite(v) for v in (verdict.difference, verdict.low, verdict.high, alone)) and alone > 0
    apart = known and against_folds(verdict, alone)
    share = f"{100 * abs(verdict.difference) / alone:.0f} %" if known else ""
    more = {HELPS: "less", PROBABLY_HELPS: "less", PROBABLY_HURTS: "more", HURTS: "more"}.get(verdict.answer)
    expect, new = ("expect ", " at new rows") if verdict.by_all_rows else ("", "")
    by = f": {expect}{share} {more} error{new} with the {label}" if more and not apart else ""
    if not known or unseen:
        told = verdict.sentence.removeprefix(f"{headline_of(verdict)}: ") if unseen else verdict.sentence
        interval = f"{told[:1].upper()}{told[1:]}"
    elif verdict.low == verdict.high == 0:
        interval = f"The {label} borrowed nothing in any of {verdict.folds} folds: it predicts as no transfer does."
    else:
        interval = (
            f"On rows that were held out the {scoring} is {number(verdict.error)} with the {label}; "
            f"without the other data ({label_of(verdict.alone)}) it is {number(alone)}. "
            f"{'These few rows do not show what fits to all rows do. ' * apart}{_span(verdict)}"
        )
    return {
        "answer": verdict.answer,
        "method": verdict.best,
        "label": label,
        **{k: getattr(verdict, k) for k in ("difference", "low", "high", "level", "folds", "sentence")},
        **{k: getattr(verdict, k) for k in ("probability", "rope", "alone", "weights", "because", "by_all_rows")},
        "headline": f"{headline_of(verdict)}."
        if unseen
        else f"{HEADLINES[verdict.answer].format(verdict.primary)}{by}.",
        "interval": interval,
        "advice": [verdict.because, *verdict.advice] if verdict.because else verdict.advice,
    }


def _span(verdict: Any) -> str:
    """An interval of a difference, in words."""
    by = "by fits to all rows" if verdict.by_all_rows else f"over {verdict.folds} folds"
    low, high, sure = verdict.low, verdict.high, f"{100 * verdict.level:.3g} % interval {by}"
    lowers = f"P(borrowing lowers the error) = {probability(verdict.probability)}."
    if low <= 0 <= high:
        span = f"anything from {number(-low, 2)} less to {number(high, 2)} more"
        none = "" if verdict.answer in (HELPS, HURTS) else ", so there may be none"
        return f"The true difference may be {span} ({sure}){none}. {lowers}"
    least, most = sorted((abs(low), abs(high)))
    word = "less" if high < 0 else "more"
    return f"The true difference may be between {number(least, 2)} and {number(most, 2)} {word} ({sure}). {lowers}"


def _model_parts(predictor: Predictor) -> list[dict[str, Any]]:
    """A model without a comparison: what it knows of the relations, where it knows any."""
    rows = [
        row for table in relation_tables(predictor.model)[:1] for row in table.rows()
    ]  # of several classes the first
    own = [row["rows"] for row in rows if row["task"] == predictor.primary]
    others = [of_correlation(row) for row in rows if row["task"] != predictor.primary]
    if not own or not others:
        return []
    empty = {"verdict": None, "comparison": None, "calibration": None}
    return [{"primary": str(predictor.primary), "rows": own[0], **empty, "secondaries": related(others, "error")}]


def related(rows: Sequence[Mapping[str, Any]], scoring: str, judged: str | None = None) -> dict[str, Any] | None:
    """Relatedness with error bars, strongest first; `clear` where the 95 % interval does not reach zero.

    Relations are those of the focused model; where another method is `judged`, it is told.
    """
    told = {name: any(math.isfinite(r.get(name, math.nan)) for r in rows) for name in ("correlation", "gain")}
    if not any(told.values()):
        return None  # the focused model was not run, and nothing was left out
    entries = []
    for row in sorted(rows, key=lambda r: -abs(r["correlation"]) if math.isfinite(r["correlation"]) else 1.0):
        low, high = row["correlation_low"], row["correlation_high"]
        known = {name: row.get(name) for name in ("alone", "without", "gain", "low", "high", "rho", "share")}
        entries.append({**row, "clear": bool(low > 0.0 or high < 0.0), "task": str(row["task"]), **known})
    more = f" The {MOST_SECONDARIES} strongest of {len(rows)}." if len(rows) > MOST_SECONDARIES else ""
    worth = (
        f". In {scoring}, each row predicted without itself: alone is what is gained with the task as the only other "
        "one, without is what is lost when it alone is left out, gain is its fair share (Shapley) of what is gained "
        "with all"
    )
    worth = worth if told["gain"] else ""
    lead = (
        f"The focused model finds a relation in {sum(abs(r['correlation']) > 0 for r in rows)} of {len(rows)} tasks. "
        "Where the data do not show one, it is set to zero and nothing is borrowed."
    )
    if judged not in (None, method_for("relations")):
        lead += f" The method that is judged is another, the {label_of(judged)}; it may borrow in other ways."
    return {
        "lead": lead if told["correlation"] else "The focused model, which measures relations, was not compared.",
        "caption": "Correlation of each task's function with the primary's and its standard error; shared is the part "
        f"of the task's variation that is the primary's{worth}.",
        "correlation_caption": f"Bars: 95 % intervals. Hollow where they reach zero.{more}",
        "gain_caption": f"Share of the gain in {scoring} that the task is good for; bars are 95 % intervals.{more}",
        "shown": MOST_SECONDARIES,
        "rows": entries,
    }


def _of_winner(part: Mapping[str, Any], predictor: Predictor, primary: Any) -> dict[str, Any] | None:
    """Relations as the model that is shown has them, where it has its own: the symmetric model's correlations."""
    found, known = part["secondaries"], task_correlations(predictor.model)
    if found is None or known is None or registry.role_of(predictor.model) == "relations":
        return found
    tasks, R = known
    row = dict(zip(map(str, tasks), R[list(tasks).index(primary)].tolist(), strict=True))
    none = dict.fromkeys(("correlation_low", "correlation_high", "std_error", "rho"))
    own = [
        {**r, **none, "correlation": row[r["task"]], "share": row[r["task"]] ** 2, "clear": True} for r in found["rows"]
    ]
    return {
        **found,
        "lead": f"How each task goes with {primary} in the {predictor.label}, the model that this page shows.",
        "caption": found["caption"].replace(" and its standard error", ""),
        "correlation_caption": "Learnt with the covariance of all tasks; it comes without standard errors.",
        "rows": sorted(own, key=lambda r: -abs(r["correlation"])),
    }


def _use(comparison: Comparison, verdict: Any, encoder: Any) -> dict[str, str] | None:
    """Code to copy: fit the method that the verdict advises, and predict; text, dates and gaps want their encoder."""
    task, target, inputs = comparison.task, comparison.target, list(comparison.features)
    unseen = comparison.unseen == "population"
    more = {"unseen": "population"} if unseen else {}
    call = call_of(comparison.kind, verdict.method, task, verdict.primary, ("primary", "only"), **more)
    if call is None:  # the user's own estimator is the user's
        return None
    asked = (
        "mean, std = model.predict(new, return_std=True, include_noise=True)"
        if comparison.kind == "regression"
        else "probability = model.predict_proba(new)"
    )
    tasks = [str(t) for t in comparison.tasks if not (unseen and t == verdict.primary)]
    wide = tasks if comparison.wide else []
    orders = {d.name: list(d.levels) for d in getattr(encoder, "columns_", ()) if isinstance(d, Ordered)}
    orders = {n: levels for n, levels in orders.items() if scale_of(levels) != tuple(levels)}
    encoding = f"borrow.TableEncoder({task!r}{f', orders={orders!r}' if orders else ''})"
    lines = [
        "import borrow",
        "import pandas as pd",
        *(["from sklearn.pipeline import make_pipeline"] if encoder is not None else []),
        "",
        'table = pd.read_csv("table.csv")',
        f"inputs = {inputs!r}",
        *([f"table = table.melt(inputs, {wide!r}, {task!r}, {target!r})"] if wide else []),
        f"model = {call}",
        *([f"model = make_pipeline({encoding}, model)"] if encoder is not None else []),
        f"model.fit(table[[*inputs, {task!r}]], table[{target!r}])",
        f'new = pd.read_csv("new.csv")[inputs].assign({task}={verdict.primary!r})'
        if wide
        else f'new = pd.read_csv("new.csv")[[*inputs, {task!r}]]',
        asked,
    ]
    asked_of = [("targets", t) for t in wide] or [("target", target), ("task", task)]
    asked_of += [("order", f"{n}={','.join(levels)}") for n, levels in orders.items()]
    columns = " ".join(f"--{option} {shlex.quote(str(value))}" for option, value in asked_of)
    primary = shlex.quote(str(verdict.primary))
    chosen = f"--method {verdict.method}" if unseen else f"--primary {primary} --method {verdict.method}"
    steps = ["borrow fit table.csv", columns, chosen, "--save model.borrow"]
    answered = f"{f' --as {primary}' if wide else ''}{' --unseen population' if unseen else ''}"
    shell = " \\\n    ".join(steps) + f"\nborrow predict model.borrow new.csv{answered}"
    return {"python": "\n".join(lines), "shell": shell}


def _covariance(
    comparison: Comparison, problem: Problem | None, predictor: Predictor | None, primary: Any
) -> dict[str, Any] | None:
    """Of the symmetric model, which sees all pairs, fitted here where it was compared; else of what there is."""
    seen = predictor is not None and registry.role_of(predictor.model) == "pairs"
    pairs = method_for("pairs")
    if problem is not None and primary is not None and not seen and pairs in comparison.candidates(primary):
        predictor = Predictor.of(problem.fit(pairs, primary, comparison.seed), comparison.features)
    found = None if predictor is None else correlations(predictor, primary)
    if found is None and primary is not None:
        known = relations_to(primary, comparison.relations)
        c = np.array([1.0, *(r["correlation"] for r in known)], dtype=float)  # None becomes NaN
        found = shared_correlations([primary, *(r["task"] for r in known)], c, primary)
    return found


def correlations(predictor: Predictor, primary: Any) -> dict[str, Any] | None:
    """Correlations between tasks as the model has them, the primary first; None where it has none."""
    found = task_correlations(predictor.model)
    if found is None:
        return None
    tasks, R = found
    focused = registry.role_of(predictor.model) == "relations"
    return _heat(R, tasks, primary, FOCUSED if focused else SYMMETRIC)


def shared_correlations(tasks: Sequence[Any], with_primary: Array, primary: Any) -> dict[str, Any] | None:
    """Correlations through one shared function: c_i c_j, 1 on the diagonal."""
    if len(tasks) < 2 or not np.isfinite(with_primary).all():
        return None
    return _heat(through_one(with_primary), tasks, primary, FOCUSED)


def _heat(R: Array, labels: Sequence[Any], primary: Any, lead: str) -> dict[str, Any]:
    """The matrix in an order that shows it: the primary, then by correlation with it."""
    first = list(labels).index(primary) if primary in labels else 0
    strongest = sorted(range(len(R)), key=lambda i: (i != first, -abs(R[first, i])))[:MOST_TASKS]
    order = sorted(sorted(strongest), key=lambda i: (i != first, -R[first, i]))
    more = f" The {MOST_TASKS} tasks of strongest correlation with the first, of {len(R)}." * (len(R) > MOST_TASKS)
    return {
        "tasks": [str(labels[i]) for i in order],
        "values": np.clip(R[np.ix_(order, order)], -1, 1).round(4).tolist(),
        "lead": lead,
        "caption": "In hundredths: 100 is the same function up to scale, 0 nothing in common; orange where one falls "
        f"as the other rises.{more}",
    }


def _ask_suggest(predictor: Predictor, problem: Problem, primary: Any) -> Any:
    """What to measure next among rows of the table; None where the model cannot say or nothing is left to measure."""
    at, tasks = problem.candidates(primary, MOST_CANDIDATES)
    rows: Any = problem.X[at]
    if problem.frame is not None and {*(predictor.model.fitted_.schema.inputs or ())} == {*problem.columns}:
        rows = columns_of(as_frame(problem.frame), problem.columns)[at].to_native()  # text as it was
    try:
        return suggest(predictor.model, rows, NEXT, tasks=tasks, primary=primary) if tasks else None
    except ValueError:  # it says which models can; the report only leaves the part out
        return None


def suggested(suggestions: Any, features: Sequence[str]) -> dict[str, Any] | None:
    """What to measure next, as columns and rows; many inputs become one column of words. None where nothing is said."""
    if suggestions is None or suggestions is False:
        return None
    table = {str(name): list(values) for name, values in dict(suggestions).items()}
    bare = {f"x{j}": feature for j, feature in enumerate(features)}
    if set(bare) <= set(table) and not set(features) & set(table):  # a model fitted to an array knows no names
        table = {bare.get(name, name): values for name, values in table.items()}
    inputs = [f for f in features if f in table]
    if len(inputs) > 4:
        rows = [dict(zip(inputs, values, strict=True)) for values in zip(*(table[f] for f in inputs), strict=True)]
        if all(v in (0, 1) for row in rows for v in row.values()):
            name, words = "switched on", [", ".join(f for f in inputs if row[f]) or "none" for row in rows]
        else:
            name, words = "inputs", [", ".join(f"{f} {_entry(v)}" for f, v in row.items()) for row in rows]
        one = {inputs[0]: (name, words)}  # stands where the first of them stood
        table = dict(one.get(k, (k, v)) for k, v in table.items() if k not in inputs[1:])
    same = ("cost", "reduction_per_cost") if len({*table.get("cost", ())}) == 1 else ()
    table = {k: v for k, v in table.items() if k not in ("row", *same)}
    return {
        "lead": "Measurements that would lower the uncertainty about the primary most, each given those before it.",
        "caption": "Reduction: by how much the average predictive variance of the primary falls. It does not "
        "depend on what will be measured, so it is known before.",
        "columns": list(table),
        "numeric": [all(isinstance(v, (int, float, np.number)) for v in values) for values in table.values()],
        "rows": [list(row) for row in zip(*table.values(), strict=True)],
    }


def _entry(value: Any) -> str:
    """A number in few digits, a whole one in full; text, dates and what else an encoder reads as they are."""
    if value is None or (isinstance(value, float) and value % 1.0):
        return number(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _made(
    comparison: Comparison | None, predictor: Predictor | None, command: str | None, caught: Sequence[str]
) -> dict[str, Any]:
    """How the report was made."""
    records = [] if comparison is None else comparison.records
    told = Counter([*(w for r in records for w in r["warnings"]), *caught])
    return {
        "command": command,
        "digest": None if comparison is None else f"sha256 {comparison.digest}",
        "seed": None if comparison is None else comparison.seed,
        "cv": None if comparison is None else cv_words(comparison),
        "model": None if predictor is None else " ".join(repr(predictor.model).split()),
        "seconds": sum(r["seconds"] for r in records) if records else None,
        "versions": versions() if comparison is None else comparison.versions,
        "written": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "warnings": [{"text": text, "times": n} for text, n in told.most_common(MOST_WARNINGS)],
    }
