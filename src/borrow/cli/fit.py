"""`borrow fit`: learn a model from a table and save it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

import borrow
from borrow.cli import options as o
from borrow.cli.columns import Table, chosen_kind, find_label, in_lines, open_table, said_of_rows
from borrow.cli.output import (
    BOLD,
    DIM,
    UNBROKEN,
    SafeTable,
    check_files,
    encoding_of,
    fail,
    library_warnings,
    number,
    percent,
    print_result,
    progress,
    tell,
)
from borrow.data.labels import counted
from borrow.data.plain import to_json

#: What the file of a model says beside the model.
STORED = ("target", "kind", "method", "primary", "rows", "seed", "encoding")
#: Rows in one matrix from which on a word is said before the wait.
MANY = 3000


def _methods() -> list[str]:
    """Keys that --method takes, for completion; nothing heavy is imported before it is asked for."""
    from borrow.transfer.methods import LABELS

    return ["auto", *LABELS]


EXAMPLE = "borrow fit scores.csv --target score --task school --primary 'St Mary' --save model.borrow"


def run(
    data: o.Data,
    target: o.Target = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Column that names the task of a row; default: one task.")
    ] = None,
    primary: Annotated[str | None, typer.Option("--primary", "-p", help="The task that matters.")] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            help="auto (weigh all that apply), single, pooled, symmetric, rank1, focused, hierarchical, rbf, ivm or "
            "clusters; default: focused with a primary, else symmetric.",
            autocompletion=lambda: _methods(),
        ),
    ] = "",
    save: Annotated[Path, typer.Option("--save", "-o", help="File for the model.")] = Path("model.borrow"),
    features: o.Features = None,
    ignore: o.Ignore = None,
    order: o.Order = None,
    targets: o.Targets = None,
    kind: o.Kind = "auto",
    labels: o.Labels = False,
    numbers: o.Numbers = False,
    delimiter: o.Delimiter = None,
    drop_missing: o.DropMissing = False,
    seed: o.Seed = 0,
    as_json: o.Json = False,
) -> None:
    """Learn a model from a table and save it to a file."""
    check_files({"DATA": data}, {"--save": save})
    table = open_table(data, delimiter, target, task, features, ignore, drop_missing, targets, order=order)
    kind = chosen_kind(table, kind, labels, numbers)
    label = find_label(primary, table.labels, "--primary")
    tell_large(table, method, label)
    start = time.perf_counter()
    with library_warnings() as warned, progress("fitting", counted=False), in_lines(table.lines):
        model, about = fit_table(table, label, method, kind, seed)
    about["seconds"] = time.perf_counter() - start
    own = "method" if method == "auto" else None  # of a model that chose, which says it by itself
    borrow.store.save(model, save, {k: about[k] for k in STORED if k != own})
    about |= {"model": str(save), "dropped": table.dropped, "without_target": table.without_target}
    about |= {"warnings": warned, "relatedness": related(model)}
    print_result(about, as_json, lambda: lines_of(about))


def tell_large(table: Table, method: str, primary: Any) -> None:
    """Say a word before the wait: exact methods take the cube of the rows of a task, or of all tasks."""
    from borrow.transfer.methods import LABELS, declared

    kinds = ("classification", "regression")
    matrix = {key: found.matrix for key in LABELS for kind in kinds if (found := declared(kind, key)) is not None}
    of_this = matrix.get(method, "task") if method or primary is not None else "all"
    joint, suited = of_this == "all", [key for key, rows in matrix.items() if rows == "few"]
    counts = [table.frame.height] if joint or table.task is None else table.frame[table.task].value_counts()["count"]
    if max(counts) > MANY and of_this != "few":
        tell(
            f"{max(counts):,} rows {'in all' if joint else 'of one task'} may take long and much memory; "
            f"--method {', '.join(suited[:-1])} or {suited[-1]} suits many rows"
        )


def fit_table(table: Table, primary: Any, method: str, kind: str, seed: int) -> tuple[Any, dict[str, Any]]:
    """The fitted model, and what there is to say of it."""
    from borrow.data.encoder import encode_frame
    from borrow.estimators import registry
    from borrow.estimators.base import with_encoder
    from borrow.transfer.methods import LABELS, NO_TRANSFER, build, method_for
    from borrow.transfer.problem import read_target

    kind, y, _ = read_target(table.frame[table.target], table.target, kind)
    labels = table.labels
    if not method:
        method = NO_TRANSFER if len(labels) < 2 else method_for("pairs" if primary is None else "relations")
    if method not in ("auto", *LABELS):
        fail(f"--method {method!r}: expected auto, {', '.join(LABELS)}")
    found = registry.by_key(method, kind)
    about_one = method == "auto" or (found is not None and found.takes("primary"))
    if about_one and primary is None and len(labels) > 1:
        fail(f"--method {method} needs --primary, the task that matters; tasks are {', '.join(map(repr, labels))}")
    task = table.task
    X = table.frame.select(table.features if task is None else [*table.features, task])
    if table.wide and kind == "regression":  # the answer then has a column per task, as the table has
        blocks = y.reshape(len(table.wide), -1)
        X, y, task = table.frame.select(table.features).head(blocks.shape[1]), pl.DataFrame(blocks.T, table.wide), None
    if method == "auto":
        automatic = borrow.AutoRegressor if kind == "regression" else borrow.AutoClassifier
        named = y if table.wide else pl.Series(table.target, y.tolist())  # what is compared is known by its name
        model = automatic(task=task, primary=primary, random_state=seed).fit(X, named)
    else:
        X, encoder = encode_frame(X, task)
        model = with_encoder(build(kind, method, task, primary, seed).fit(X, y), encoder)
    about: dict[str, Any] = {
        "class": type(model).__name__,
        "method": method,
        "kind": kind,
        "target": ", ".join(table.wide) if table.wide else table.target,
        "task": table.task,
        "primary": primary,
        "features": table.features,
        "rows": table.counts(),
        "seed": seed,
        "encoding": encoding_of(getattr(model, "encoder_", None)),
        "evidence": to_json(getattr(model, "log_marginal_likelihood_", None)),
    }
    if method == "auto":
        about |= {"chosen": model.method_, "verdict": getattr(model.verdict_, "sentence", None)}
    return model, about


def related(model: Any) -> list[dict[str, Any]]:
    """How the tasks are related, where the model says so; for more than two classes, of the first against the rest."""
    from borrow.estimators.view import relation_tables

    found = relation_tables(getattr(model, "model_", model))
    return to_json(found[0].rows()) if found else []


def lines_of(about: dict[str, Any]) -> Iterator[Any]:
    """What was fitted, in words and a table."""
    n = len(about["rows"])
    learnt = counted(sum(k for _, k in about["rows"]), "row") + (f" of {n} tasks" if n > 1 else "")
    yield (
        f"{about['class']} fitted to {learnt} in {about['seconds']:.1f} s, {counted(len(about['features']), 'input')}, "
        f"target {about['target']!r}."
    )
    yield from said_of_rows(about)
    yield from ((line, DIM) for line in about["encoding"])
    if about.get("verdict"):
        yield about["verdict"], BOLD
    if about["relatedness"] and n > 1:
        columns = ("rows", "rho", "std_error", "correlation", "low", "high")
        rows = [[str(r["task"]), *(number(r[c]) for c in columns), percent(r["share"])] for r in about["relatedness"]]
        yield SafeTable(["task"], ["rows", "rho", "std error", "correlation", "low", "high", "share"], rows)
        yield (
            "Low, high: 95 % interval of the correlation. Share: part of the task's variation that is the primary's.",
            DIM,
        )
    yield f"Saved to {about['model']}; borrow predict {about['model']} NEW.csv uses it.", UNBROKEN
