"""The study that switches defaults off: its plan, and what it makes of records."""

import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).resolve().parent.parent / "benchmarks" / "studies"


@pytest.fixture(scope="module")
def study():
    sys.path.insert(0, str(STUDIES))
    import ablations

    return ablations


def test_every_default_is_judged_on_three_data_sets_that_did_not_choose_it(study):
    used = set()
    for a in study.ABLATIONS:
        assert len({s.split(",")[0] for s in a.scenarios}) >= 3
        assert set(a.scenarios) <= set(study.DRAWS)
        assert not any(s.split(",")[0].rstrip("s").lower() in a.chosen_on.lower() for s in a.scenarios)
        on, off = study.MODELS[a.on], study.MODELS[a.off]
        assert on.estimator is off.estimator
        assert on.words() != off.words()
        used |= {a.on, a.off}
    assert used == set(study.MODELS)


def test_constants_that_are_switched_are_there_and_put_back(study):
    for model in study.MODELS.values():
        for module, name, value in model.constants:
            assert getattr(module, name) != value


def test_figures_compare_the_same_draws_only(study):
    a = study.ABLATIONS[0]
    data = a.scenarios[0]
    good, poor = (
        {"error": 1.0, "log density": -1.0, "covered": 0.9, "commit": "a"},
        {"error": 2.0, "log density": -2.0, "covered": 0.7, "commit": "b"},
    )
    records = {(a.on, data, 0): good, (a.off, data, 0): poor, (a.on, data, 1): good}
    (row,) = [r for r in study.summarise(records, 3) if r["default"] == a.default]
    assert (row["draws"], row["error, with / without"], row["log density, with less without"]) == (1, 0.5, 1.0)
    assert (row["draws with the lower error"], row["draws with the higher error"]) == (1, 0)
    assert row["in the 90 % band, with and without"] == [0.9, 0.7]
    assert row["records by commit"] == {"a": 1, "b": 1}


def test_a_fit_has_figures_of_the_asked_rows(study):
    draw = study.SCENARIOS["hijack, mix 0"](0)
    few = [*range(30), *range(30, 45)]
    small = type(draw)(
        "regression",
        draw.X[few],
        draw.y[few],
        draw.task[few],
        "primary",
        draw.X_test[:50],
        draw.y_test[:50],
        draw.task_test[:50],
    )
    with_, without = (
        study.figures_of(study.fit(study.MODELS[m], small), small) for m in ("single", "single, known hyper-parameters")
    )
    assert with_["error"] == pytest.approx(without["error"])
    assert with_["covered"] >= without["covered"]
    assert with_["log density"] != without["log density"]
