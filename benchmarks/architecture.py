"""Draws docs/figures/architecture.svg: the way of one CSV row from `borrow compare` to the report.

The steps are names of functions; a name that is no longer there stops the script and `tests/test_architecture.py`.

    python benchmarks/architecture.py
"""

from __future__ import annotations

from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Step(NamedTuple):
    """One function on the way, and what a row is after it."""

    layer: str
    module: str
    name: str
    after: str


DOWN = [
    Step("cli", "borrow.cli.compare", "run", "an argument of a command"),
    Step("cli", "borrow.cli.read", "Source.parts", "a record whose fields are counted"),
    Step("cli", "borrow.cli.columns", "read_table", "numbers, a task label, a target"),
    Step("transfer", "borrow.transfer.problem", "read_problem", "a row of the one Problem"),
    Step("transfer", "borrow.transfer.folds", "splits_of", "in the training part of some folds"),
    Step("transfer", "borrow.transfer.folds", "evaluate", "handed to one method"),
    Step("estimators", "borrow.estimators.regressor", "TaskRegressor.fit", "an argument of an estimator"),
    Step("data", "borrow.data.read", "read_training", "a row with a task code"),
    Step("data", "borrow.data.cells", "merge", "part of a cell: one distinct input of a task"),
    Step("data", "borrow.data.scaling", "build", "scaled by its task"),
    Step("models", "borrow.models.focused.search", "optimise", "one term of the evidence"),
    Step("models", "borrow.models.focused.model", "prior_of_tasks", "a row of the joint prior (eq. 9)"),
    Step("kernels", "borrow.kernels.base", "Kernel.evaluate", "a row of a kernel matrix"),
    Step("inference", "borrow.inference.exact", "exact", "a site: precision and precision times mean"),
    Step("covariance", "borrow.covariance.shared", "SharedCovariance.condition", "summed with the other tasks"),
    Step("numerics", "borrow.numerics.optimise", "maximise", "weighed by the hyper-parameters found"),
]
UP = [
    Step("estimators", "borrow.estimators.base", "Fitted", "remembered by one frozen object"),
    Step("estimators", "borrow.estimators.regressor", "TaskRegressor.predict", "predicted, when it was held out"),
    Step("transfer", "borrow.transfer.folds", "score_numbers", "an error and a log density"),
    Step("transfer", "borrow.transfer.ledger", "Ledger.write", "a line that survives a kill"),
    Step("transfer", "borrow.transfer.comparison", "Comparison.verdict", "part of the answer"),
    Step("report", "borrow.report.content", "summary", "plain data"),
    Step("report", "borrow.report.page", "render", "a dot in a figure"),
    Step("report", "borrow.report.page", "write", "in a file that is there whole or not at all"),
]
COLOURS = {
    "cli": "#7a5195",
    "transfer": "#2f6f9f",
    "report": "#b0562f",
    "estimators": "#3d7d57",
    "models": "#8a6d1d",
    "data": "#5b6770",
    "kernels": "#5b6770",
    "covariance": "#5b6770",
    "inference": "#5b6770",
    "numerics": "#5b6770",
}
WIDTH, ROW, TOP = 940, 34, 60


def find(step: Step) -> Any:
    """The function that a step names; AttributeError where there is none."""
    found: Any = import_module(step.module)
    for part in step.name.split("."):
        found = getattr(found, part)
    return found


def column(steps: list[Step], x: int, title: str) -> list[str]:
    """One column of the picture, from top to bottom."""
    out = [f'<text x="{x}" y="34" class="head">{escape(title)}</text>']
    for i, step in enumerate(steps):
        y = TOP + i * ROW
        colour = COLOURS[step.layer]
        place = step.module.removeprefix("borrow.")
        out += [
            f'<rect x="{x}" y="{y}" width="6" height="{ROW - 8}" fill="{colour}"/>',
            f'<text x="{x + 16}" y="{y + 11}" class="name">{escape(place)}.'
            f'<tspan class="own">{escape(step.name)}</tspan></text>',
            f'<text x="{x + 16}" y="{y + 24}" class="after">{escape(step.after)}</text>',
        ]
    return out


def draw() -> str:
    """The picture."""
    height = TOP + ROW * max(len(DOWN), len(UP)) + 20
    body = [*column(DOWN, 24, "down: from the file to the evidence"), *column(UP, 500, "up: from the fit to the page")]
    style = (
        "text{font-family:Inter,Helvetica,Arial,sans-serif;fill:#22303a}.head{font-size:15px;font-weight:600}"
        ".name{font-size:11px;fill:#5b6770}.own{font-weight:600;fill:#22303a}.after{font-size:11px;font-style:italic}"
    )
    title = "The way of one row from borrow compare to the report"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">'
        f'<title>{title}</title><style>{style}</style><rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        + "".join(body)
        + "</svg>\n"
    )


def main() -> None:
    """Check every name, then draw."""
    for step in (*DOWN, *UP):
        find(step)
    (ROOT / "docs" / "figures" / "architecture.svg").write_text(draw())


if __name__ == "__main__":
    main()
