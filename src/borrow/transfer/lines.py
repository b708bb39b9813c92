"""What the lines of a stored comparison must hold, so that whoever reads them later need not ask.

A shape is a tuple of types, a list of one shape (a list of such), a dict of shapes by key (a dict that has at least
these), or a set of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from borrow.data.labels import list_labels
from borrow.transfer.decide import ROPE
from borrow.transfer.folds import ANSWERS
from borrow.transfer.ledger import LedgerError
from borrow.transfer.methods import LABELS

HUGE = 1e250
NUMBER, LABEL = (int, float), (str, int, float, bool)
ABOUT: dict[str, Any] = {
    "kind": {*ANSWERS},
    **dict.fromkeys(("target", "task", "scoring", "digest"), (str,)),
    "features": [(str,)],
    "tasks": [LABEL],
    "primaries": [LABEL],
    "methods": [(str,)],
    "classes": [LABEL],
    "cv": {"folds": (int,), "repeats": (int,)},
    "seed": (int,),
    "skipped": {},
    "versions": {},
}
OPTIONAL: dict[str, Any] = {
    **{name: [(str,)] for name in ("alone", "own", "encoding")},
    **{name: [[LABEL]] for name in ("row_weights", "clusters", "notes")},
    "unseen": {"error", "population"},
    "rope": NUMBER,
}
#: Of those that a header may lack: what is meant where it does.
MEANT = {"unseen": "error", "rope": ROPE}
ELSEWHERE = ("mean elsewhere", "std elsewhere")  # of a fit to all rows
JOB: dict[str, Any] = {
    "primary": LABEL,
    "method": (str,),
    "left_out": (list, type(None)),
    **dict.fromkeys(("repeat", "fold", "n_train", "n_test"), (int,)),
    "rows": [(int,)],
    "y": [LABEL],
    "failure": (str, type(None)),
    "evidence": (*NUMBER, type(None)),  # of a fit to all rows
    **{name: [NUMBER] for name in ELSEWHERE},
    "seconds": NUMBER,
    "warnings": [(str,)],
}
ANSWER: dict[str, Any] = {
    **{name: [NUMBER] for name in ("mean", "std", "losses", "log_densities")},
    "probability": [[NUMBER]],
}  # the others are numbers
FIGURES = ("rho", "correlation", "std_error", "share")
FIGURE = (int, float, type(None))
RELATION: dict[str, Any] = {"task": LABEL, **dict.fromkeys(FIGURES, FIGURE)}
BOUNDS = ("correlation_low", "correlation_high")  # which older comparisons lack


def refuse_odd_lines(path: Any, about: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a ledger whose first line, or another, is not as this package writes them, whatever its checksums say."""
    try:
        check_about(about)
        held_out: dict[tuple[Any, ...], list[int]] = {}
        for line in lines:
            check_line(line, about)
            fold = tuple(line.get(k) for k in ("primary", "repeat", "fold"))
            whole = "rows" in line and line["left_out"] is None
            if whole and held_out.setdefault(fold, line["rows"]) != line["rows"]:
                raise ValueError("two lines of one fold hold out different rows")
    except ValueError as odd:
        raise LedgerError(f"{path} is not a comparison that this borrow writes: {odd}; start anew") from None


def check_about(about: Any) -> None:
    """Refuse a header that does not say what is compared."""
    _refuse_other(about, ABOUT, "its first line")
    for name, shape in OPTIONAL.items():
        _refuse_other(about.get(name, MEANT.get(name, [])), shape, f"{name} in its first line")
        if shape == [[LABEL]] and any(len(pair) != 2 for pair in about.get(name, [])):
            raise ValueError(f"{name} in its first line are no pairs")
    _refuse_unknown([m for m in about["methods"] if m not in about.get("own", ())])
    if not {*about.get("alone", ())} <= {*about["methods"]}:
        raise ValueError("its first line names methods to be beaten that are not compared")
    rows = about.get("rows")
    _refuse_other(rows, [[LABEL]], "rows in its first line")
    counted = {pair[0] for pair in rows if len(pair) == 2}
    if any(len(pair) != 2 for pair in rows) or not {*about["tasks"], *about["primaries"]} <= counted:
        raise ValueError("its first line does not say how many rows each task has")
    if not about["primaries"] or not set(about["primaries"]) <= set(about["tasks"]):
        raise ValueError("its first line compares for what is no task")


def check_line(line: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Refuse a line that is neither a finished fit nor what the focused model says of the tasks."""
    if "relations" in line:
        _refuse_other(line, {"primary": LABEL, "relations": [RELATION]}, "a line")
        _refuse_other([r.get(n) for r in line["relations"] for n in BOUNDS], [FIGURE], "a bound in a line")
    if "relations" not in line or "method" in line:
        _refuse_other({**{name: [] for name in ELSEWHERE}, "evidence": None, **line}, JOB, "a line")
        if len({len(line.get(n, [])) for n in ELSEWHERE}) > 1:
            raise ValueError("a line has not as many spreads as predictions")
        _refuse_unknown([line["method"]] if line["method"] not in about.get("own", ()) else [])
        answers = {name: ANSWER.get(name, NUMBER) for name in ANSWERS[about["kind"]]}
        if line["failure"] is None:
            _refuse_other(line, answers, "a line")
            figures = [line[n] for n in answers if n not in ANSWER]
            if about["kind"] == "regression":
                _refuse_other(line["y"], [NUMBER], "y in a line")
                figures += [v * abs(v) for n in ("y", "mean", "std") for v in map(float, line[n])]
            if not all(abs(v) < HUGE for v in figures):
                raise ValueError("a line has a figure that cannot be computed with")
            lengths = {len(line[n]) for n in ("rows", "y", *(n for n in answers if n in ANSWER))}
            if lengths != {line["n_test"]} or line["n_test"] < 1 or line["n_train"] < 1:
                raise ValueError("a line has not as many answers as rows")
        if about["kind"] == "classification" and not set(line["y"]) <= set(about["classes"]):
            raise ValueError("a line has a class that is not among those compared")
    known = {*about["tasks"]}
    left = line.get("left_out") or []
    _refuse_other(left, [LABEL], "left_out in a line")
    if not {line["primary"], *left} <= known or line["primary"] in left:
        raise ValueError("a line is of a task that is not among those compared")


def _refuse_unknown(methods: list[str]) -> None:
    """Refuse methods that nobody has registered."""
    if unknown := [m for m in methods if m not in LABELS]:
        raise ValueError(f"it names the method {list_labels(unknown)}; methods are {list_labels(list(LABELS))}")


def _refuse_other(value: Any, shape: Any, where: str) -> None:
    """Refuse a value that has not the shape."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is no object")
        for name, inner in shape.items():
            if name not in value:
                raise ValueError(f"{where} lacks {name!r}")
            _refuse_other(value[name], inner, f"{name} in {where}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise ValueError(f"{where} is no list")
        for entry in value:
            _refuse_other(entry, shape[0], where)
    elif isinstance(shape, set):
        if not isinstance(value, str) or value not in shape:
            raise ValueError(f"{where} is not one of {sorted(shape)}")
    elif not isinstance(value, shape) or (isinstance(value, bool) and bool not in shape):
        raise ValueError(f"{where} is of another kind than expected")
