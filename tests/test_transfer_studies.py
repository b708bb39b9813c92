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


def test_small_study_of_power(monkeypatch):
    module = study("power", monkeypatch)
    few = [module.Cell("regression", 0.9, 10), module.Cell("same smoothness", 0.0, 10)]
    draws = json.loads(json.dumps([module.one_draw(c, module.SEEDS["tuning"][-1], ["symmetric"], 2) for c in few]))
    for d in draws:
        assert d["true"] == pytest.approx(d["errors"][d["best"]] - d["errors"][d["alone"]])
        assert set(d["errors"]) == {"single", "mean", "ridge", "ridge_tasks", "symmetric"}
        assert d["mixture"] < 1.5 * max(d["errors"].values())
    found = module.summary(draws)
    assert set(found["cells"]) == {c.name for c in few}
    assert found["groups"]["nulls"]["draws"] == 1


def test_small_study_of_calibration(monkeypatch):
    """The posterior that is calibrated is the one that judges: with the constants of the package they agree."""
    monkeypatch.syspath_prepend(str(STUDIES))
    module = study("calibrate", monkeypatch)
    cell, rule = module.power.Cell("regression", 0.9, 10), module.decide
    rows = [{"cell": cell.name, "seed": 0, **r} for r in module.one_draw(cell, module.power.SEEDS["tuning"][-1])]
    assert [r["method"] for r in rows] == ["symmetric", "rank1", "focused"]
    theta = np.array([rule.COST, *np.log([getattr(rule, name) for name in module.NAMES])])
    laws, losses = module.laws(theta, module.fits_of(rows)), [{"losses": [1.0]}, {"losses": [2.0]}]
    odds = rule.log_odds([(r["gain"], r["of primary"]) for r in rows])
    for r, *by_study in zip(rows, *laws, strict=True):
        monkeypatch.setattr(rule, "in_sight", lambda *given, seen=r["in sight"]: seen)
        assert tuple(rule.related(*losses, odds, rule.Interval(1.0, 0.0, 1.0, 1.0, 9.0)).law) == pytest.approx(by_study)
    assert module.calibrate(rows)["draws"] == 1


def test_answers_on_real_tables_are_counted_by_what_was_true(monkeypatch):
    """A gain is one of more than 2 % of the error of the best alone, and right is the sign, whatever the size."""
    monkeypatch.syspath_prepend(str(STUDIES))
    module = study("answers", monkeypatch)

    def made(name, answer, true, shuffled=False):
        errors = {"single": 2.0, "ridge": 1.0, "focused": 1.0 + true}
        found = {"best": "focused", "alone": "ridge", "low": -0.4, "high": 0.1, "mixture": 1.5, "true": true}
        return {"scenario": name, "shuffled": shuffled, "answer": answer, "errors": errors, **found}

    draws = [made("a", "helps", -0.5), made("a", "helps", -0.01), made("b", "helps", 0.2)]
    found = module.summary([*draws, made("b", "cannot tell", 0.01, shuffled=True)])
    every = found["as they are"]["all"]
    assert [every["answers"][k]["helps"] for k in ("gain", "neither", "loss")] == [1, 1, 1]
    assert every["right where it says helps"]["times"] == 2
    assert every["interval holds the truth"]["times"] == 1
    assert every["mixture / no transfer"]["mean"] == 0.75
    assert found["as they are"]["scenarios"]["b"]["judged / no transfer"]["mean"] == 0.6
    assert found["shuffled"]["all"]["answers"]["neither"]["cannot tell"] == 1


def test_cells_of_the_study_are_what_they_say(monkeypatch):
    """Correlations of the functions, 2,000 fresh rows, seeds of tuning and of the last run that have none in common."""
    module = study("power", monkeypatch)
    assert len(module.CELLS) == 4 * 4 + 2 * 2 + 6 * 2
    assert not set(module.SEEDS["fresh"]) & set(module.SEEDS["tuning"])
    related = []
    for seed in range(3):
        d = module.draw(module.Cell("regression", 0.9, 50), seed)
        who = np.array(d["task"])
        assert (who == "primary").sum() == 50
        assert len(d["X_test"]) == len(d["y_test"]) == 2000
        model = borrow.SingleTaskGPRegressor().fit(d["X"][who != "primary"], d["y"][who != "primary"])
        related.append(np.corrcoef(model.predict(d["X_test"]), d["y_test"])[0, 1])
    assert np.mean(related) > 0.7
    labels = module.draw(module.Cell("labels", 0.9, 20), 0)["y"]
    assert set(labels[:20]) == {"yes", "no"}


def test_a_killed_comparison_goes_on(monkeypatch, tmp_path):
    found = study("compare_kill", monkeypatch).study(1, 0, "small", tmp_path)
    assert found["same table to the last digit"]
    assert found["fits written twice"] == 0
    assert found["fits begun twice or more"] <= found["kills"]
    assert found["fits"] == 10
