"""`borrow info`: what is in a file, whether a model, a table or a stored comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from borrow.cli import options as o
from borrow.cli.output import number, paper, plain_table, say
from borrow.data.plain import to_json

EXAMPLE = "borrow info model.borrow"
#: Labels that are listed; more are counted.
LISTED = 12
#: Distinct values are counted up to here.
COUNTED = 10_000


def run(file: o.Data, delimiter: o.Delimiter = None, as_json: o.Json = False) -> None:
    """Say what is in a file: a saved model, a stored comparison, or a table and its columns."""
    from borrow.cli.read import refuse_absent

    head = b""
    if file != "-":
        refuse_absent(Path(file))
        if Path(file).is_file():
            with Path(file).open("rb") as opened:
                head = opened.read(64)
    if head[:2] == b"PK":
        about, show = model_info(Path(file)), show_model
    elif head.startswith(b'{"format": "borrow comparison"'):
        about, show = comparison_info(Path(file)), show_comparison
    else:
        about, show = table_info(file, delimiter), show_table
    if as_json:
        say(about)
    else:
        show(about)


def model_info(path: Path) -> dict[str, Any]:
    """What a saved model says of itself; nothing is built."""
    from borrow import store

    return {"file": str(path), "is": "model", **store.describe(path)}


def show_model(about: dict[str, Any]) -> None:
    """A model in words."""
    page = paper()
    page.print(f"{about['class']}, saved by borrow {about['borrow']}, {about['bytes']:,} bytes", style="bold")
    if about.get("fitted") is False:
        page.print("It is not fitted.")
    lines = {
        "target": about.get("target"),
        "inputs": listed(about.get("features")),
        "task": about.get("task"),
        "primary": about.get("settings", {}).get("primary"),
        "tasks": listed(about.get("tasks")),
        "classes": listed(about.get("classes")),
        "rows": sum(n for _, n in about["rows"]) if "rows" in about else None,
        "method": about.get("method"),
        "kernel": about.get("kernel") or (about["is"] if "settings" not in about else None),
        "evidence": number(about["log_marginal_likelihood"]) if "log_marginal_likelihood" in about else None,
        "seed": about.get("seed"),
    }
    show_lines(lines)
    if about.get("converged") is False:
        page.print("The optimiser did not converge.", style="yellow")


def listed(values: Any) -> str | None:
    """A few names, and how many there are."""
    if not isinstance(values, list):
        return None
    text = ", ".join(map(str, values[:LISTED]))
    return text if len(values) <= LISTED else f"{text}, ... ({len(values)} in all)"


def show_lines(lines: dict[str, Any]) -> None:
    """Names and values, those that are known."""
    table = plain_table("", ["", " "], [])
    for name, value in lines.items():
        if value is not None:
            table.add_row(name, str(value) if not isinstance(value, dict) else listed(list(value.items())))
    table.show_header = False
    paper().print(table)


def comparison_info(path: Path) -> dict[str, Any]:
    """How far a stored comparison is."""
    from borrow.transfer.comparison import Comparison

    c = Comparison.read(path)
    fits = sum(r["left_out"] is None for r in c.records)
    return {
        "file": str(path),
        "is": "comparison",
        **{n: to_json(getattr(c, n)) for n in ("kind", "target", "task", "features", "tasks", "primaries", "methods")},
        "rows": [[to_json(k), v] for k, v in c.rows.items()],
        "scoring": c.scoring,
        "cv": c.cv,
        "seed": c.seed,
        "fits": fits,
        "digest": c.digest,
        "versions": c.versions,
    }


def show_comparison(about: dict[str, Any]) -> None:
    """A stored comparison in words."""
    page = paper()
    page.print(f"A comparison of {len(about['methods'])} methods, {about['fits']:,} fits done", style="bold")
    cv = about["cv"]
    show_lines(
        {
            "target": about["target"],
            "inputs": listed(about["features"]),
            "task": about["task"],
            "primary": listed(about["primaries"]),
            "tasks": listed([f"{t} ({n})" for t, n in about["rows"]]),
            "methods": listed(about["methods"]),
            "folds": f"{cv.get('folds')} x {cv.get('repeats')}",
            "error": about["scoring"],
            "seed": about["seed"],
        }
    )


def table_info(place: str, delimiter: str | None) -> dict[str, Any]:
    """Columns of a table: what they hold, how much is missing. Read in portions, none of which is kept."""
    from borrow.cli.read import open_source

    source = open_source(place, delimiter)
    columns = [Column(name) for name in source.columns]
    rows = 0
    for part in source.parts():
        rows += part.height
        for column in columns:
            column.take(part[column.name], source.separator)
    return {
        "file": place,
        "is": "table",
        "rows": rows,
        "delimiter": source.separator or None,
        "columns": [c.about(rows) for c in columns],
    }


class Column:
    """What is known of a column so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.missing = 0
        self.type = ""  # of what is neither numbers nor text
        self.numbers = True
        self.doubtful = self.decimal = False  # commas that may separate thousands, commas that can only be decimal
        self.least, self.most = float("inf"), float("-inf")
        self.values: dict[Any, None] = {}  # distinct ones in order, up to COUNTED

    def take(self, column: Any, separator: str) -> None:
        """Some more of it."""
        import polars as pl

        from borrow.cli.columns import present, to_numbers

        found = to_numbers(column, separator)
        text = present(column) if column.dtype == pl.String else column
        if column.dtype != pl.String and found.odd is not None:
            self.type = str(column.dtype)
        self.missing += text.null_count()
        self.numbers &= found.odd is None
        self.doubtful |= found.doubtful is not None
        self.decimal |= found.decimal
        if self.numbers and found.values.null_count() < len(column):
            least, most = to_json(found.values.min()), to_json(found.values.max())
            self.least, self.most = min(self.least, least), max(self.most, most)
        if len(self.values) < COUNTED:
            distinct = text.drop_nulls().unique(maintain_order=True)
            self.values |= dict.fromkeys(distinct.head(COUNTED).to_list())

    def about(self, rows: int) -> dict[str, Any]:
        """One column: numbers or text, missing, distinct (COUNTED stands for that many or more), range or values."""
        about: dict[str, Any] = {"name": self.name, "missing": self.missing, "distinct": min(len(self.values), COUNTED)}
        if self.numbers and self.missing < rows and (self.decimal or not self.doubtful):
            return {**about, "kind": "numbers", "least": self.least, "most": self.most}
        return {**about, "kind": self.type or "text", "values": to_json(list(self.values)[:LISTED])}


def show_table(about: dict[str, Any]) -> None:
    """A table in words: one line a column."""
    page = paper()
    page.print(f"{about['file']}: {about['rows']:,} rows, {len(about['columns'])} columns", style="bold")
    table = plain_table("", ["column", "kind"], ["missing", "distinct"])
    table.add_column("values", overflow="ellipsis", no_wrap=True, max_width=36)
    for c in about["columns"]:
        what = (
            f"{number(c['least'])} to {number(c['most'])}"
            if c["kind"] == "numbers"
            else ", ".join(map(str, c["values"]))
        )
        table.add_row(
            c["name"], c["kind"], f"{c['missing']:,}", f"{c['distinct']:,}" + "+" * (c["distinct"] == COUNTED), what
        )
    page.print(table)
    tasks = [c["name"] for c in about["columns"] if c["kind"] == "text" and 1 < c["distinct"] <= about["rows"] / 3]
    if tasks:
        page.print(f"Columns that could name the task: {listed(tasks)}.")
