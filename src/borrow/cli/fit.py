"""`borrow fit`: learn a model from a table and save it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from borrow.cli import options as o
from borrow.cli.output import check_files, fail, noted, number, paper, percent, plain_table, say, steps, tell_warnings
from borrow.data.plain import to_json

METHODS = ["auto", "single", "pooled", "symmetric", "focused", "hierarchical", "rbf", "ivm"]
#: Rows in one matrix from which on a word is said before the wait.
MANY = 3000
EXAMPLE = "borrow fit scores.csv --target score --task school --primary 'St Mary' --save model.borrow"


def run(
    data: o.Data,
    target: o.Target,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Column that names the task of a row; default: one task.")
    ] = None,
    primary: Annotated[str | None, typer.Option("--primary", "-p", help="The task that matters.")] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            help="auto (compare first, fit the winner), single, pooled, symmetric, focused, hierarchical, rbf or ivm; "
            "default: focused with a primary, else symmetric.",
            autocompletion=lambda: METHODS,
        ),
    ] = "",
    save: Annotated[Path, typer.Option("--save", "-o", help="File for the model.")] = Path("model.borrow"),
    features: o.Features = None,
    ignore: o.Ignore = None,
    kind: o.Kind = "auto",
    delimiter: o.Delimiter = None,
    drop_missing: o.DropMissing = False,
    seed: o.Seed = 0,
    as_json: o.Json = False,
) -> None:
    """Learn a model from a table and save it to a file."""
    from borrow import store
    from borrow.cli.columns import find_label, read_table
    from borrow.cli.read import open_source

    check_files({"DATA": data}, {"--save": save})
    table = read_table(open_source(data, delimiter), target, task, features, ignore or [], drop_missing)
    label = None if primary is None else find_label(primary, table.labels, "--primary")
    tell_large(table, method, label)
    start = time.perf_counter()
    with noted() as warned, steps(1) as step:
        if step:
            step("fitting")
        model, about = fit_table(table, label, method, kind, seed)
    about["seconds"] = time.perf_counter() - start
    store.save(model, save, {k: about[k] for k in ("target", "kind", "method", "rows", "seed")})
    about |= {"model": str(save), "dropped": table.dropped, "warnings": warned}
    about["relatedness"] = related(model)
    if as_json:
        say(about)
        return
    tell_warnings(warned)
    show(about)


def tell_large(table: Any, method: str, primary: Any) -> None:
    """A word before the wait: exact methods take the cube of the rows of a task, or of all tasks."""
    joint = method in ("symmetric", "hierarchical") or (not method and primary is None)
    counts = [table.frame.height] if joint or table.task is None else table.frame[table.task].value_counts()["count"]
    if max(counts) > MANY and method not in ("pooled", "rbf", "ivm"):
        typer.echo(
            f"borrow: {max(counts):,} rows {'in all' if joint else 'of one task'} may take long and much memory; "
            "--method pooled, rbf or ivm suits many rows",
            err=True,
        )


def fit_table(table: Any, primary: Any, method: str, kind: str, seed: int) -> tuple[Any, dict[str, Any]]:
    """The fitted model, and what there is to say of it."""
    from borrow.transfer.methods import LABELS
    from borrow.transfer.problem import read_target

    kind, y, _ = read_target(table.frame[table.target], table.target, kind)
    if not method:
        method = "single" if len(table.labels) < 2 else "focused" if primary is not None else "symmetric"
    if method not in ("auto", *LABELS):
        fail(f"--method {method!r}: expected auto, {', '.join(LABELS)}")
    if method in ("auto", "focused") and primary is None and len(table.labels) > 1:
        fail(
            f"--method {method} needs --primary, the task that matters; tasks are {', '.join(map(repr, table.labels))}"
        )
    model = estimator(kind, method, table.task, primary, seed).fit(table.inputs(), y)
    counts = table.frame.drop_nulls(table.target)
    rows = {None: counts.height}
    if table.task is not None:
        rows = {t: counts.filter(counts[table.task] == t).height for t in table.labels}
    about: dict[str, Any] = {
        "class": type(model).__name__,
        "method": method,
        "kind": kind,
        "target": table.target,
        "task": table.task,
        "primary": primary,
        "features": table.features,
        "rows": [[to_json(t), n] for t, n in rows.items()],
        "seed": seed,
        "evidence": to_json(getattr(model, "log_marginal_likelihood_", None)),
    }
    if method == "auto":
        about["chosen"], about["verdict"] = model.method_, getattr(model.verdict_, "sentence", None)
    return model, about


def estimator(kind: str, method: str, task: Any, primary: Any, seed: int) -> Any:
    """The estimator of a method, not yet fitted."""
    import borrow
    from borrow.transfer.methods import build

    if method == "auto":
        name = "AutoRegressor" if kind == "regression" else "AutoClassifier"
        return getattr(borrow, name)(task=task, primary=primary, random_state=seed)
    return build(kind, method, task, primary, seed)


def related(model: Any) -> list[dict[str, Any]]:
    """How the tasks are related, where the model says so; for more than two classes, of the first against the rest."""
    inner = getattr(model, "model_", model)
    if not hasattr(inner, "relatedness"):
        return []
    found = inner.relatedness()
    rows: list[dict[str, Any]] = (found[0] if isinstance(found, list) else found).rows()
    return [to_json(row) for row in rows]


def show(about: dict[str, Any]) -> None:
    """What was fitted, in words and a table."""
    page = paper()
    rows = about["rows"]
    total, n = sum(k for _, k in rows), len(rows)
    words = f"{about['class']} fitted to {total:,} rows" + (f" of {n} tasks" if n > 1 else "")
    page.print(f"{words} in {about['seconds']:.1f} s, {len(about['features'])} input(s), target {about['target']!r}.")
    if about["dropped"]:
        page.print(f"{about['dropped']:,} rows were left out: they lack an input or a task.")
    if about.get("verdict"):
        page.print(about["verdict"], style="bold")
    if about["relatedness"] and n > 1:
        table = plain_table("", ["task"], ["rows", "rho", "std error", "correlation", "share"])
        for row in about["relatedness"]:
            cells = [number(row[c]) for c in ("rows", "rho", "std_error", "correlation")]
            table.add_row(str(row["task"]), *cells, percent(row["share"]))
        page.print(table)
        page.print("Share: part of the task's variation that is the primary's function.", style="dim")
    page.print(f"Saved to {about['model']}; borrow predict {about['model']} NEW.csv uses it.", soft_wrap=True)
