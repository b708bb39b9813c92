"""`borrow compare`: does the other data help?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import borrow
from borrow import __version__
from borrow.cli import options as o
from borrow.cli.columns import Table, as_fitted, chosen_kind, find_label, in_lines, open_table, said_of_rows
from borrow.cli.output import (
    BOLD,
    DIM,
    UNBROKEN,
    SafeTable,
    check_files,
    command_line,
    encoding_of,
    fail,
    in_options,
    library_warnings,
    number,
    percent,
    print_result,
    progress,
    refuse,
    resumable,
)
from borrow.cli.read import open_source
from borrow.data.plain import to_json

EXAMPLE = (
    "borrow compare scores.csv --target score --task school --primary 'St Mary' --methods focused --folds 3 "
    "--store run.jsonl --report report.html --seed 0"
)

CALIBRATION = "the probability of the predicted class, on average, less the share that was right; above 0 is too sure."
NAMES = {"store": "Results", "save": "Model", "report": "Report"}


def run(
    data: o.Data,
    target: o.Target = None,
    task: o.Task = None,
    primary: Annotated[
        str | None, typer.Option("--primary", "-p", help="The task that matters; default: every task in turn.")
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            "-m",
            help="auto, or keys between commas: focused, symmetric, rank1, hierarchical, ivm, clusters, pooled, rbf. "
            "No transfer and simple references are always there.",
        ),
    ] = "auto",
    folds: Annotated[
        int | None, typer.Option("--folds", "--cv", min=2, help="Folds of the primary's rows; default: by its rows.")
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="How often rows are dealt into folds, with --folds.")
    ] = 1,
    scoring: Annotated[
        str | None, typer.Option("--scoring", help="mae, mse or rmse; brier, error or log for labels.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            help="Column that says which rows belong together; folds keep them together. No input unless -x names it.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            help="Column of numbers or dates: the past has to predict the future. No input unless -x names it.",
        ),
    ] = None,
    wanted: Annotated[
        Path | None, typer.Option("--wanted", help="Table of the rows that will be asked for: the answer is for these.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Begin no fit after so many minutes; answer from what is done.")
    ] = None,
    unseen: Annotated[
        str,
        typer.Option(
            "--unseen", help="population: hold out every task in turn, whole: how well is a new one predicted?"
        ),
    ] = "error",
    rope: Annotated[
        float, typer.Option("--rope", help="Part of the error without the other data that makes no difference to you.")
    ] = 0.02,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Leave-one-out in closed form, one fit per method: optimistic; labels: three folds.",
        ),
    ] = False,
    features: o.Features = None,
    ignore: o.Ignore = None,
    order: o.Order = None,
    targets: o.Targets = None,
    kind: o.Kind = "auto",
    labels: o.Labels = False,
    numbers: o.Numbers = False,
    delimiter: o.Delimiter = None,
    drop_missing: o.DropMissing = False,
    stored: Annotated[
        Path | None, typer.Option("--store", help="File for results as they come; the same call goes on from it.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Fit the method to use on all rows; save it here.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="HTML page of everything that was found.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Fits at once; -1 for one per core.")] = 1,
    seed: o.Seed = 0,
    as_json: o.Json = False,
) -> None:
    """Does the other data help? Compare methods that borrow with no transfer, on the task that matters.

    Every method is fitted anew in every fold of the primary's rows; all rows of the other tasks are there each time.
    The answer is helps, probably helps, no practical difference, cannot tell, probably hurts or hurts, with the
    probability that borrowing lowers the error.
    """
    asked = {n: v for n, v in locals().items() if n not in ("save", "report", "as_json", "jobs", "minutes")}
    from borrow.transfer.problem import read_problem

    files = {"--store": stored, "--save": save, "--report": report}
    check_files({"DATA": data, **({} if wanted is None else {"--wanted": wanted})}, files)
    without_quick = {
        **files,
        "--wanted": wanted,
        "--minutes": minutes,
        "--rope": rope if rope != 0.02 else None,
        "--unseen": unseen if unseen != "error" else None,
    }
    idle = " and ".join(name for name, value in without_quick.items() if value is not None)
    refuse(
        {
            f"--quick gives no verdict and keeps nothing: leave out {idle}": quick and bool(idle),
            "--save needs --primary: a model is fitted for the task that matters": save is not None
            and primary is None
            and unseen == "error",
            "--jobs 0: expected a number of fits at once, or -1 for one per core": jobs == 0,
            "--quick needs --primary, the task that matters": quick and primary is None,
        }
    )
    if report is not None:
        import jinja2  # noqa: F401  # asked for before the work rather than after it
    keep = {name: what for name, what in ((group, "group"), (time, "time")) if name is not None}
    table = open_table(data, delimiter, target, task, features, ignore, drop_missing, targets, keep, order)
    target, task, kind = table.target, table.task, chosen_kind(table, kind, labels, numbers)
    if task is None:
        fail("--task is missing: the column that names the task of a row; or --targets, a column per task")
    label = find_label(primary, table.labels, "--primary")
    chosen: Any = "auto" if methods == "auto" else [m.strip() for m in methods.split(",") if m.strip()]
    with library_warnings() as seen, in_lines(table.lines):
        problem = read_problem(table.frame, target, task, table.features, kind, group=group, time=time)
    if quick:
        look(problem, table, label, chosen, scoring, seed, as_json)
        return
    with (
        library_warnings() as warned,
        progress("fit") as told,
        resumable(stored, __version__, problem.digest(), asked) as kept,
    ):
        found = borrow.compare(
            problem,
            target,
            task,
            label,
            chosen,
            cv=None if folds is None else (folds, repeats),
            scoring=scoring,
            n_jobs=jobs,
            random_state=seed,
            store=kept,
            progress=told,
            wanted=None if wanted is None else rows_wanted(wanted, delimiter, problem),
            max_minutes=minutes,
            unseen=unseen,
            rope=rope,
        )
    with library_warnings() as more:
        if save is not None:
            about = {
                "target": target,
                "kind": found.kind,
                "method": found.verdict().method,
                "primary": label,
                "seed": seed,
                "rows": to_json(list(found.rows.items())),
                "encoding": encoding_of(problem.encoder),
            }
            borrow.store.save(advised(found, problem), save, about)
        if report is not None:
            call = command_line(
                "compare",
                data,
                **({"targets": targets} if table.wide else {"target": target, "task": task}),
                primary=primary,
                methods=None if methods == "auto" else methods,
                folds=folds,
                repeats=None if folds is None else repeats,
                features=features,
                ignore=ignore,
                order=order,
                seed=seed,
                group=group,
                time=time,
                unseen=None if unseen == "error" else unseen,
            )
            borrow.report.write(report, borrow.report.summary(found, table=problem, command=call))
    warned[:] = dict.fromkeys([*seen, *warned, *more])
    written = {name.removeprefix("--"): str(path) for name, path in files.items() if path is not None}
    result = {
        **described(found),
        "skipped": found.skipped,
        "table": found.table().rows(),
        "verdicts": [v.to_dict() for v in found.verdicts().values()],
        "dropped": table.dropped,
        "without_target": table.without_target,
        "aside": {} if features else keep,
        "files": written,
        "encoding": encoding_of(problem.encoder),
        "warnings": warned,
    }
    print_result(result, as_json, lambda: lines_of(found, result))


def rows_wanted(place: Path, delimiter: str | None, problem: Any) -> Any:
    """The inputs that will be asked for, as they stand in the table that is compared; other columns are passed over."""
    source = open_source(str(place), delimiter, problem.columns)
    source.require(problem.columns, "--wanted")
    return as_fitted(source, source.read(problem.columns), problem.encoder, "the table has numbers there")


def described(found: borrow.Comparison) -> dict[str, Any]:
    """What every comparison is of, and how: the beginning of the JSON of `borrow compare` and of `borrow info`."""
    names = [f.name for f in fields(found) if f.default is f.default_factory is MISSING]
    shown = {name: getattr(found, name) for name in names if name not in ("rows", "records")}
    return {**shown, "rows": list(found.rows.items())}


def advised(found: borrow.Comparison, problem: Any) -> Any:
    """The method to use for the primary, fitted to all rows."""
    from borrow.transfer.unseen import UnseenProblem

    population = found.unseen == "population"
    rows = UnseenProblem.of(problem, None) if population else replace(problem, fits=found.fits)
    return rows.fit(found.verdict().method, found.primaries[0], found.seed)


def lines_of(found: borrow.Comparison, result: dict[str, Any]) -> Iterator[Any]:
    """The verdict, what it rests on, what to do, and the files that were written."""
    yield from said_of_rows(result)
    yield from ((line, DIM) for line in result["encoding"])
    yield from every_primary(found) if len(found.primaries) > 1 else one_primary(found)
    yield from ((f"{NAMES[name]}: {place}", UNBROKEN) for name, place in result["files"].items())


def one_primary(found: borrow.Comparison) -> list[Any]:
    """The comparison for one primary, in words and tables."""
    from borrow.transfer.methods import label_of

    verdict, secondaries = found.verdict(), []
    covers = "Covers: share of rows inside their 90 % band." if found.kind == "regression" else f"Calib.: {CALIBRATION}"
    expected = "; of methods that relate the tasks, the one to expect at new rows" if verdict.by_all_rows else ""
    errors = (
        f"Error: {found.scoring} over rows held out. Difference: from the best {found.beside} "
        f"({label_of(verdict.alone)}){expected}; negative is better, with its 95 % interval; within "
        f"{number(verdict.rope)} it is none in practice. Weight: in the best prediction. Density: log predictive "
        f"density, higher is better. {covers}"
    )
    if verdict.tells_of_secondaries:
        known = {name: any(v == v for v in verdict.secondaries[name]) for name in ("correlation", "gain")}
        relations = "Correlation and share (of the task's variation): with the primary's function, by the focused GP. "
        relations *= known["correlation"]
        if known["gain"]:
            relations += (
                f"For the {label_of(verdict.best or '')}, each row predicted without itself: alone, what is gained "
                "with this task as the only other one; without, what is lost when it "
                "alone is left out; gain, its fair share (Shapley) of what all gain."
            )
        secondaries = ["", secondaries_table(verdict.secondaries), (relations, DIM)]
    skipped = [(f"Left out: {method} ({in_options(why)}).", DIM) for method, why in found.skipped.items()]
    return [
        (verdict.sentence, BOLD),
        verdict.because,
        "",
        methods_table(found),
        (errors, DIM),
        *secondaries,
        "",
        *(line if "borrow." in line else in_options(line) for line in verdict.advice),
        *skipped,
    ]


def methods_table(found: borrow.Comparison) -> SafeTable:
    """One row per method, that which the verdict speaks of in bold."""
    from borrow.transfer.methods import label_of

    last, short = ("coverage", "covers") if found.kind == "regression" else ("calibration", "calib.")
    table = SafeTable(["method"], ["error", "difference", "interval", "weight", "density", short, "time"], apart=1)
    table.columns[0].min_width = max(len(word) for m in found.methods for word in label_of(m).split())
    verdict = found.verdict()
    for r in found.table().rows():
        table.add_row(
            label_of(r["method"]),
            number(r["error"]),
            *(("", "") if r["method"] == verdict.alone else (number(r["difference"]), between(r["low"], r["high"]))),
            percent(r["weight"]) if r["weight"] else "",
            number(r["log_density"]),
            percent(r[last]) if last == "coverage" else number(r[last]),
            duration(r["seconds"]),
            **(BOLD if r["method"] == verdict.best else {}),
        )
    return table


def secondaries_table(secondaries: Any) -> SafeTable:
    """One row per secondary task, the most related first; what was measured of no task has no column."""

    def cells(r: dict[str, Any]) -> list[str]:
        related = number(r["correlation"]), percent(r["share"])
        worth = (number(r[name]) for name in ("alone", "without", "gain"))
        return [str(r["task"]), f"{r['rows']:,}", *related, *worth, between(r["low"], r["high"])]

    rows = sorted(secondaries.rows(), key=lambda r: -np.nan_to_num(abs(r["correlation"]), nan=-1))
    names = ["rows", "correlation", "share", "alone", "without", "gain", "interval"]
    columns = list(zip(*map(cells, rows), strict=True))
    kept = [i for i, name in enumerate(names, 1) if name == "rows" or any(cell != "-" for cell in columns[i])]
    lines = zip(columns[0], *(columns[i] for i in kept), strict=True)
    return SafeTable(["task"], [names[i - 1] for i in kept], lines, 1, "The other tasks")


def between(low: float, high: float) -> str:
    """An interval in few digits."""
    ends = (f"{v:.0f}" if 99.5 <= abs(v) < 1e6 else f"{v + 0.0:.2g}" for v in (low, high))
    return "-" if low != low else " to ".join(ends)


def duration(seconds: float) -> str:
    """A time in few letters."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def every_primary(found: borrow.Comparison) -> list[Any]:
    """The comparison for every task in turn: one row per primary."""
    from borrow.transfer.methods import label_of

    verdicts = found.verdicts()
    rows = [
        [
            str(primary),
            verdict.answer,
            "-" if verdict.best is None else label_of(verdict.best),
            f"{found.rows[primary]:,}",
            number(verdict.difference),
            between(verdict.low, verdict.high),
            number(verdict.probability),
        ]
        for primary, verdict in verdicts.items()
    ]
    answers = Counter(verdict.answer for verdict in verdicts.values())
    words = ", ".join(f"{answer} for {n}" for answer, n in answers.items())
    return [
        (f"Every task in turn, {len(verdicts)} of them. Borrowing: {words}.", BOLD),
        "",
        SafeTable(["task", "borrowing", "method"], ["rows", "difference", "interval", "P"], rows, 2),
        (
            f"Difference: in {found.scoring}. P: probability that borrowing lowers it. Helps and hurts hold for all "
            "tasks together (Holm). Give --primary to see more of one of them.",
            DIM,
        ),
    ]


def look(problem: Any, table: Table, primary: Any, methods: Any, scoring: str | None, seed: int, as_json: bool) -> None:
    """Print the quick look: a table, said to be optimistic for numbers and coarse for labels."""
    from borrow.transfer.methods import label_of

    with library_warnings() as warned:
        found = borrow.quick_look(
            problem, problem.target, problem.task, primary, methods, scoring=scoring, random_state=seed
        )
    rows = found.rows()
    last = "coverage" if "coverage" in found else "calibration"
    cells = [
        [
            label_of(r["method"]),
            number(r["error"]),
            number(r["log_density"]),
            percent(r[last]) if last == "coverage" else number(r[last]),
            f"{r['seconds']:.1f}",
        ]
        for r in rows
    ]
    why = (
        "optimistic: what is left out was there when hyper-parameters were learnt. Without --quick every fold is "
        "fitted anew, and there is a verdict."
    )
    if last == "calibration":
        why = (
            "coarse: three folds, dealt once. Without --quick there are more of them, and a verdict. "
            f"Calibration: {CALIBRATION}"
        )
    result = {"quick": True, "table": rows, "dropped": table.dropped, "without_target": table.without_target}
    shown = [
        *said_of_rows(result),
        SafeTable(["method"], ["error", "log density", last, "seconds"], cells),
        (f"A quick look, and {why}", DIM),
    ]
    print_result({**result, "warnings": warned}, as_json, lambda: shown)
