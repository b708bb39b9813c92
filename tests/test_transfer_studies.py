"""The studies of docs/transfer.md in tiny sizes."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import borrow

STUDIES = Path(__file__).resolve().parent.parent / "benchmarks" / "studies"


def study(name, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(borrow.__file__).parent.parent))  # for processes that it starts
    monkeypatch.syspath_prepend(str(STUDIES.parent))
    spec = importlib.util.spec_from_file_location(f"study_{name}", STUDIES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "write_result", lambda *a: pytest.fail("--small must not write"))
    return module


def test_small_study_of_the_verdict(monkeypatch, tmp_path):
    module = study("verdict", monkeypatch)
    draws = {f: [module.one_draw(f, 0, 2, primary=8, secondary=8)] for f in module.FAMILIES}
    for family, found in draws.items():
        figures = module.summarise(json.loads(json.dumps(found)))
        assert sum(figures["answers"].values()) == 1
        assert figures["median error, AutoRegressor"] in figures["median error"].values()
        assert len(found[0]["comparison"]["records"]) == 4 * 2, family
    module.figure(draws, tmp_path / "verdict.png")
    assert (tmp_path / "verdict.png").stat().st_size > 5000


def test_families_of_the_study_are_what_they_say(monkeypatch):
    module = study("verdict", monkeypatch)
    problem = module.draw("shared", 3)
    assert problem["X"].shape == (150, 2)
    assert len(problem["f_test"]) == 400
    who = np.array(problem["who"])
    first = module.draw("shared", 4)
    assert not np.array_equal(first["y"], problem["y"])
    model = borrow.SingleTaskGPRegressor().fit(problem["X"][who == "secondary 1"], problem["y"][who == "secondary 1"])
    other = module.draw("unrelated", 3)
    rough = borrow.SingleTaskGPRegressor().fit(other["X"][who == "secondary 1"], other["y"][who == "secondary 1"])
    for m, p, least, most in ((model, problem, 0.6, 1.0), (rough, other, -0.5, 0.5)):
        assert least < np.corrcoef(m.predict(p["X_test"]), p["f_test"])[0, 1] < most


def test_a_killed_comparison_goes_on(monkeypatch, tmp_path):
    found = study("compare_kill", monkeypatch).study(1, 0, "small", tmp_path)
    assert found["same table to the last digit"]
    assert found["fits written twice"] == 0
    assert found["fits begun twice or more"] <= found["kills"]
    assert found["fits"] == 4
