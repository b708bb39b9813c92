"""The picture of the architecture names functions that exist, each once, and is the one that the script draws."""

import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from borrow.cli.app import main
from run_page import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import architecture


@pytest.mark.parametrize("step", [*architecture.DOWN, *architecture.UP], ids=lambda s: f"{s.module}.{s.name}")
def test_every_step_is_a_function_of_its_layer(step):
    found = architecture.find(step)
    assert found.__module__ == step.module
    assert step.module.split(".")[1] == step.layer


def test_each_function_stands_once():
    steps = [(s.module, s.name) for s in (*architecture.DOWN, *architecture.UP)]
    assert len(set(steps)) == len(steps)


def test_the_picture_is_the_one_that_is_drawn():
    assert (ROOT / "docs" / "figures" / "architecture.svg").read_text() == architecture.draw()


def test_the_page_tells_of_every_step_once_in_order_and_of_nothing_else():
    page = (ROOT / "docs" / "architecture.md").read_text()
    told = page.partition("## One row")[2].partition("\n## ")[0].partition("\n")[2]
    names = [
        name for name in re.findall(r"`([^`]+)`", told) if not name.startswith("borrow compare") and name != "Problem"
    ]
    assert names == [s.name for s in (*architecture.DOWN, *architecture.UP)]


def test_a_comparison_takes_every_step(tmp_path, monkeypatch):
    """The commands of the page, on a small table: a function that the row no longer passes is found."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, 20).round(3)
    y = (np.sin(3.0 * x) + 0.1 * rng.normal(size=20)).round(4)
    rows = [f"{a},{b},{'ab'[i // 10]}" for i, (a, b) in enumerate(zip(x, y, strict=True))]
    (tmp_path / "scores.csv").write_text("\n".join(["x,score,school", *rows]))
    monkeypatch.chdir(tmp_path)
    steps = {(s.module, s.name) for s in (*architecture.DOWN, *architecture.UP)}
    called_as = {
        "__init__" if s.name == "Fitted" else s.name.split(".")[-1] for s in (*architecture.DOWN, *architecture.UP)
    }
    taken = set()

    def note(frame, event, _):
        name = frame.f_code.co_name
        if event == "call" and name in called_as:
            taken.add((frame.f_globals["__name__"], name))
            for kind in type(
                frame.f_locals.get("self")
            ).__mro__:  # a method of the class that is named, or of one below
                own = kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"
                taken.add((kind.__module__, own))

    command = (
        "compare scores.csv --target score --task school --primary a --methods focused --folds 2 --report page.html"
    )
    sys.setprofile(note)
    try:
        done = CliRunner().invoke(main, command.split())
    finally:
        sys.setprofile(None)
    assert done.exit_code == 0, done.output
    assert not steps - taken
