"""`borrow compare`: does the other data help?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from borrow.cli import options as o
from borrow.cli.output import (
    INTERRUPTED,
    check_files,
    counting,
    fail,
    noted,
    number,
    paper,
    percent,
    plain_table,
    say,
    tell_warnings,
)
from borrow.data.plain import to_json

EXAMPLE = (
    "borrow compare scores.csv --target score --task school --primary 'St Mary' --methods focused --folds 3 "
    "--store run.jsonl --report report.html --seed 0"
)

LAST = {"coverage": "covers", "calibration": "calib."}
NAMES = {"store": "Results", "save": "Model", "report": "Report"}


def run(
    data: o.Data,
    target: o.Target,
    task: o.Task,
    primary: Annotated[
        str | None, typer.Option("--primary", "-p", help="The task that matters; default: every task in turn.")
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            "-m",
            help="auto, or keys between commas: " + "pooled, symmetric, focused, "
            "hierarchical, rbf, ivm. No transfer is always there.",
        ),
    ] = "auto",
    folds: Annotated[
        int | None, typer.Option("--folds", min=2, help="Folds of the primary's rows; default: by its rows.")
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="How often rows are dealt into folds, with --folds.")
    ] = 1,
    scoring: Annotated[
        str | None, typer.Option("--scoring", help="mae, mse or rmse; brier, error or log for labels.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One fit a method and leave-one-out in closed form: fast, and optimistic.")
    ] = False,
    features: o.Features = None,
    ignore: o.Ignore = None,
    kind: o.Kind = "auto",
    delimiter: o.Delimiter = None,
    drop_missing: o.DropMissing = False,
    stored: Annotated[
        Path | None, typer.Option("--store", help="File for results as they come; the same call goes on from it.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Fit the method to use on all rows; save it here.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="HTML page of everything that was found.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Fits at once; -1 for one a core.")] = 1,
    seed: o.Seed = 0,
    as_json: o.Json = False,
) -> None:
    """Does the other data help? Compare methods that borrow with no transfer, on the task that matters.

    Every method is fitted anew in every fold of the primary's rows; all rows of the other tasks are there each time.
    The answer is helps, hurts or cannot tell, with an interval that holds for all methods together.
    """
    import borrow
    from borrow.cli.columns import find_label, read_table
    from borrow.cli.read import open_source

    check_files({"DATA": data}, {"--store": stored, "--save": save, "--report": report})
    if save is not None and primary is None:
        fail("--save needs --primary: a model is fitted for the task that matters")
    if jobs == 0:
        fail("--jobs 0: expected a number of fits at once, or -1 for one a core")
    table = read_table(open_source(data, delimiter), target, task, features, ignore or [], drop_missing)
    label = None if primary is None else find_label(primary, table.labels, "--primary")
    chosen: Any = "auto" if methods == "auto" else [m.strip() for m in methods.split(",") if m.strip()]
    if quick:
        look(table, label, chosen, scoring, seed, as_json)
        return
    with noted() as warned, counting("fit") as progress:
        try:
            found = borrow.compare(
                table.frame,
                target,
                task,
                label,
                chosen,
                cv=None if folds is None else (folds, repeats),
                scoring=scoring,
                features=table.features,
                kind=kind,
                n_jobs=jobs,
                random_state=seed,
                store=stored,
                progress=progress,
            )
        except KeyboardInterrupt:
            again = f"; the same command goes on from {str(stored)!r}" if stored is not None else ""
            fail(f"interrupted{again}", INTERRUPTED)
    files = {"store": stored, "save": save, "report": report}
    if save is not None or report is not None:
        call = command_line(data, target, task, primary, methods, folds, repeats, features, ignore, seed)
        with noted() as more:
            finish(found, table, label, save, report, call)
        warned += [w for w in more if w not in warned]
    written = {k: str(v) for k, v in files.items() if v is not None}
    if as_json:
        say({**as_dict(found), "dropped": table.dropped, "files": written, "warnings": warned})
        return
    tell_warnings(warned)
    show(found, table.dropped)
    for name, place in written.items():
        paper().print(f"{NAMES[name]}: {place}", soft_wrap=True)


def finish(found: Any, table: Any, primary: Any, save: Path | None, report: Path | None, call: str) -> None:
    """Fit the method to use to all rows; save it, and write the report."""
    from borrow import store
    from borrow.cli.suggest import unmeasured

    model = None
    if primary is not None:
        model = fit_winner(found, table, primary)
        if save is not None:
            method = found.verdict(primary).method
            rows = [[to_json(t), n] for t, n in found.rows.items()]
            about = {"target": found.target, "kind": found.kind, "method": method, "rows": rows, "seed": found.seed}
            store.save(model, save, about)
    if report is not None:
        from borrow.report import summary, write

        next_rows = None if model is None else unmeasured(model, table, primary)
        write(report, summary(found, model, table.frame, command=call, suggestions=next_rows))


def fit_winner(found: Any, table: Any, primary: Any) -> Any:
    """The method to use, fitted to all rows."""
    from borrow.transfer.problem import read_problem

    problem = read_problem(table.frame, found.target, found.task, found.features, found.kind)
    return problem.fit(found.verdict(primary).method, primary, found.seed)


def as_dict(found: Any) -> dict[str, Any]:
    """The comparison as JSON: tables and verdicts, not the single rows."""
    about = {n: getattr(found, n) for n in ("kind", "target", "task", "features", "tasks", "primaries", "methods")}
    verdicts = [v.to_dict() for v in found.verdicts().values()]
    return {
        **about,
        "rows": [[t, n] for t, n in found.rows.items()],
        "scoring": found.scoring,
        "cv": found.cv,
        "seed": found.seed,
        "digest": found.digest,
        "versions": found.versions,
        "skipped": found.skipped,
        "table": found.table().rows(),
        "verdicts": verdicts,
    }


def show(found: Any, dropped: int = 0) -> None:
    """The verdict, what it rests on, and what to do."""
    page = paper()
    if dropped:
        page.print(f"{dropped:,} rows were left out: they lack an input or a task.")
    if len(found.primaries) > 1:
        show_all(found)
        return
    primary = found.primaries[0]
    verdict = found.verdict(primary)
    page.print(verdict.sentence, style="bold")
    page.print()
    page.print(methods_table(found, primary))
    page.print(
        f"Error: {found.scoring}, mean over folds. Difference: from no transfer, negative is better; intervals hold "
        "for all methods together with 95 %. Density: log predictive density, higher is better. "
        + ("Covers: share of rows inside their 90 % band." if found.kind == "regression" else ""),
        style="dim",
    )
    if verdict.tells_of_secondaries:
        page.print()
        page.print(secondaries_table(verdict.secondaries))
        page.print(
            "Correlation and share (of the task's variation): with the primary's function, by the focused GP. Gain: "
            "error without the task less error with it.",
            style="dim",
        )
    page.print()
    for line in verdict.advice:
        page.print(line)
    for method, why in found.skipped.items():
        page.print(f"Left out: {method} ({why}).", style="dim")


def methods_table(found: Any, primary: Any) -> Any:
    """One row a method."""
    from borrow.transfer.methods import LABELS

    last = "coverage" if found.kind == "regression" else "calibration"
    table = plain_table("", ["method"], ["error", "difference", "interval", "density", LAST[last], "time"], 2)
    rows = found.table(primary).rows()
    least = min((r["error"] for r in rows if r["error"] == r["error"]), default=None)
    for r in rows:
        alone = r["method"] == "single"
        table.add_row(
            LABELS[r["method"]],
            number(r["error"]),
            "" if alone else number(r["difference"]),
            "" if alone else between(r),
            number(r["log_density"]),
            percent(r[last]) if last == "coverage" else number(r[last]),
            seconds(r["seconds"]),
            style="bold" if r["error"] == least else "",
        )
    return table


def secondaries_table(secondaries: Any) -> Any:
    """One row a secondary task, the most related first."""
    table = plain_table("The other tasks", ["task"], ["rows", "correlation", "share", "gain", "interval"], 2)
    rows = sorted(
        secondaries.rows(), key=lambda r: -abs(r["correlation"]) if r["correlation"] == r["correlation"] else 1
    )
    for r in rows:
        table.add_row(
            str(r["task"]),
            f"{r['rows']:,}",
            number(r["correlation"]),
            percent(r["share"]),
            number(r["gain"]),
            between(r),
        )
    return table


def between(row: dict[str, Any]) -> str:
    """An interval in few digits."""
    return "-" if row["low"] != row["low"] else f"{row['low']:.2g} to {row['high']:.2g}"


def seconds(value: float) -> str:
    """A time in few letters."""
    return f"{value:.1f} s" if value < 100 else f"{value / 60:.0f} min" if value < 6000 else f"{value / 3600:.1f} h"


def show_all(found: Any) -> None:
    """One row a primary."""
    from borrow.transfer.methods import LABELS

    page = paper()
    table = plain_table("", ["task", "the other data", "method"], ["rows", "error alone", "difference", "interval"], 2)
    count: dict[str, int] = {}
    for primary, verdict in found.verdicts().items():
        alone = found.table(primary).rows()[0]["error"]
        count[verdict.answer] = count.get(verdict.answer, 0) + 1
        table.add_row(
            str(primary),
            verdict.answer,
            "-" if verdict.best is None else LABELS[verdict.best],
            f"{found.rows[primary]:,}",
            number(alone),
            number(verdict.difference),
            between({"low": verdict.low, "high": verdict.high}),
        )
    words = ", ".join(f"{answer} for {n}" for answer, n in count.items())
    page.print(f"Every task in turn, {len(found.primaries)} of them. The other data: {words}.", style="bold")
    page.print()
    page.print(table)
    page.print(f"Error: {found.scoring}. Give --primary to see more of one of them.", style="dim")


def look(table: Any, primary: Any, methods: Any, scoring: str | None, seed: int, as_json: bool) -> None:
    """The quick look: a table, said to be optimistic."""
    from borrow.transfer.compare import quick_look
    from borrow.transfer.methods import LABELS

    if primary is None:
        fail("--quick needs --primary, the task that matters")
    with noted() as warned:
        found = quick_look(
            table.frame, table.target, table.task, primary, methods, scoring=scoring, features=table.features,
            random_state=seed,
        )  # fmt: skip
    if as_json:
        say({"quick": True, "table": found.rows(), "warnings": warned})
        return
    tell_warnings(warned)
    page = paper()
    shown = plain_table("", ["method"], ["error", "log density", "coverage", "seconds"])
    for r in found.rows():
        cells = number(r["error"]), number(r["log_density"]), percent(r["coverage"]), f"{r['seconds']:.1f}"
        shown.add_row(LABELS[r["method"]], *cells)
    page.print(shown)
    page.print(
        "A quick look, and optimistic: what is left out was there when hyper-parameters were learnt. Without --quick "
        "every fold is fitted anew, and there is a verdict.",
        style="dim",
    )


def command_line(
    data: str,
    target: str,
    task: str,
    primary: str | None,
    methods: str,
    folds: int | None,
    repeats: int,
    features: list[str] | None,
    ignore: list[str] | None,
    seed: int,
) -> str:
    """The call, for the page that says how it was made."""
    words = ["borrow", "compare", data, "--target", target, "--task", task]
    words += [] if primary is None else ["--primary", primary]
    words += [] if methods == "auto" else ["--methods", methods]
    words += [] if folds is None else ["--folds", str(folds), "--repeats", str(repeats)]
    words += [w for name in features or [] for w in ("--features", name)]
    words += [w for name in ignore or [] for w in ("--ignore", name)]
    return shlex.join([*words, "--seed", str(seed)])
