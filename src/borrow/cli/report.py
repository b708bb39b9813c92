"""`borrow report`: one HTML page from a stored comparison or a saved model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from borrow.cli import options as o
from borrow.cli.output import check_files, fail, noted, paper, say, tell_warnings

EXAMPLE = "borrow report run.jsonl --data scores.csv --output report.html"


def run(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="File of `borrow compare --store`, or a saved model.")],
    data: Annotated[
        str | None, typer.Option("--data", help="The table that was compared or fitted, for figures of predictions.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    delimiter: o.Delimiter = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the page shows as JSON as well.")] = False,
) -> None:
    """Write one HTML page: the verdict, what it rests on, the tasks' relations, predictions, and how it was made."""
    from borrow.cli.read import refuse_absent

    refuse_absent(source)
    check_files({"FILE": source, "--data": data}, {"--output": output})
    call = shlex.join(["borrow", "report", str(source), *([] if data is None else ["--data", data])])
    with noted() as warned:
        read = of_model if starts_as_model(source) else of_comparison
        parts = read(source, data, delimiter)
        from borrow.report import summary, write

        content = summary(**parts, command=call)
        write(output, content)
    tell_warnings(warned)
    if as_json:
        say(content)
    else:
        paper().print(f"Report: {output}", soft_wrap=True)


def starts_as_model(path: Path) -> bool:
    """Whether the file begins as a saved model does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def of_comparison(path: Path, data: str | None, delimiter: str | None) -> dict[str, Any]:
    """A stored comparison; with its table also the method to use, fitted to all rows, and what to measure next."""
    from borrow.cli.columns import read_table
    from borrow.cli.compare import fit_winner
    from borrow.cli.read import open_source
    from borrow.cli.suggest import unmeasured
    from borrow.transfer.comparison import Comparison
    from borrow.transfer.problem import read_problem

    if path.is_dir():
        fail(f"{str(path)!r} is a folder; give a file of `borrow compare --store`, or a saved model")
    found = Comparison.read(path)
    if not found.records:
        fail(f"{str(path)!r} holds no result yet; run the comparison again, it goes on from there")
    if data is None:
        return {"comparison": found}
    source = open_source(data, delimiter)
    table = read_table(source, found.target, found.task, found.features, [], drop_missing=True)
    if read_problem(table.frame, found.target, found.task, found.features, found.kind).digest() != found.digest:
        fail(f"{source.name} is not the table that {str(path)!r} compared; give that one, or leave out --data")
    if len(found.primaries) > 1:
        return {"comparison": found, "table": table.frame}
    model = fit_winner(found, table, found.primaries[0])
    next_rows = unmeasured(model, table, found.primaries[0])
    return {"comparison": found, "model": model, "table": table.frame, "suggestions": next_rows}


def of_model(path: Path, data: str | None, delimiter: str | None) -> dict[str, Any]:
    """A saved model, with its comparison where it has one; or with the table that it was fitted to."""
    from borrow import store
    from borrow.cli.columns import read_table
    from borrow.cli.predict import load_model
    from borrow.cli.read import open_source
    from borrow.cli.suggest import unmeasured

    model, about = load_model(path), store.describe(path)
    parts: dict[str, Any] = {"model": model, "target": about.get("target")}
    if data is None:
        return {**parts, "comparison": getattr(model, "comparison_", None)}
    if "target" not in about or model.fitted_.schema.names is None:
        fail(f"{str(path)!r} does not say which columns it was fitted to; leave out --data")
    task = model.fitted_.schema.task if isinstance(model.fitted_.schema.task, str) else None
    features = [str(n) for n in model.fitted_.schema.names]
    table = read_table(open_source(data, delimiter), about["target"], task, features, [], drop_missing=True)
    primary = model.get_params().get("primary")
    next_rows = None if primary is None else unmeasured(getattr(model, "model_", model), table, primary)
    return {**parts, "table": table.frame, "suggestions": next_rows}
