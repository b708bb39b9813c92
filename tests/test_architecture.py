"""The picture of the architecture names functions that exist, each once, and is the one that the script draws."""

import sys

import pytest

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
    page = (ROOT / "docs" / "architecture.md").read_text()
    for step in (*architecture.DOWN, *architecture.UP):
        assert f"`{step.name}`" in page, f"the page does not tell of {step.name}"
