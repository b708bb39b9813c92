"""The golden record: the quickest cases agree with it, and the check sees a difference where there is one."""

import copy
import importlib.util
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

#: One case or more of every estimator and of what is around them.
PATTERNS = ("*/unequal/fixed", "*/two classes/fixed", "*/wide/fixed", "kernels/*", "suggest/*", "store/*", "refusals")


@pytest.fixture
def golden(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    spec = importlib.util.spec_from_file_location("golden", BENCHMARKS / "golden.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def record(golden):
    return json.loads(golden.RECORD.read_text())["cases"]


def changes(golden):
    return json.loads(golden.CHANGES.read_text()) if golden.CHANGES.exists() else {}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_answers_are_those_of_the_record(golden, record, pattern):
    cases = [c for c in golden.all_cases() if c.quick and golden.fnmatchcase(c.name, pattern)]
    assert cases
    differ, lines = golden.check(cases, record, changes(golden))
    assert differ == 0, "\n".join(lines)


def test_every_case_is_in_the_record_and_none_failed(golden, record):
    assert {c.name for c in golden.all_cases()} == set(record)
    assert not [name for name, answer in record.items() if "failed" in answer]


def changed(golden, record, name, where, by):
    """Lines of the check against a record in which one number of a case was moved."""
    case = next(c for c in golden.all_cases() if c.name == name)
    other = copy.deepcopy(record[name])
    place = other
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] += by
    return golden.check([case], {name: other}, {}), case


def test_a_small_change_of_a_held_answer_is_found_and_named(golden, record):
    name = "SingleTaskGPRegressor/unequal/fixed"
    (differ, lines), case = changed(golden, record, name, ("mean", 1), 3e-10 * max(3.0, record[name]["mean"][1]))
    assert differ == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"{name}: mean.1: ")
    (differ, lines), _ = changed(golden, record, name, ("mean", 1), 1e-12 * case.scale["sd"])
    assert (differ, lines) == (0, [])


def test_a_fit_may_move_by_what_an_optimiser_leaves_and_no_more(golden):
    name = "SingleTaskGPRegressor/unequal/learnt"
    record = {name: golden.run(next(c for c in golden.all_cases() if c.name == name))}  # bands moved on purpose since
    rows = 22
    for by, expected in ((0.9e-3 * rows, 0), (1.1e-3 * rows, 1)):
        assert changed(golden, record, name, ("log_marginal_likelihood_",), by)[0][0] == expected
    assert changed(golden, record, name, ("mean", 0), 1e-2)[0][0] == 1


def test_text_keys_and_lengths_are_compared_exactly(golden):
    case = golden.all_cases()[0]
    then = {"said": ["a", "b"], "tasks_": [0, 1], "ok": True, "gone": 1}
    now = {"said": ["a", "c"], "tasks_": [0, 1, 2], "ok": 1, "new": 1}
    found = dict(golden.differences(then, now, case))
    assert set(found) == {"said.1", "tasks_", "ok", "gone", "new"}
    assert "is gone" in found["gone"]
    assert "is new" in found["new"]


def test_not_a_number_differs_from_a_number(golden):
    case = golden.all_cases()[0]
    assert list(golden.differences({"mean": [1.0]}, {"mean": ["nan"]}, case))
    assert list(golden.differences({"mean": [1.0]}, {"mean": [float("nan")]}, case))


def test_a_change_that_is_meant_is_shown_with_its_reason_and_does_not_count(golden, record):
    name = "SingleTaskGPRegressor/unequal/fixed"
    case = next(c for c in golden.all_cases() if c.name == name)
    other = copy.deepcopy(record[name])
    other["mean"][0] += 1.0
    other["std"][0] += 1.0
    differ, lines = golden.check([case], {name: other}, {"SingleTask*: mean*": "a better mean"})
    assert differ == 1
    assert sum("[accepted: a better mean]" in line for line in lines) == 1
    assert golden.check([case], {name: other}, {"SingleTask*": "all of it"})[0] == 0


def test_a_case_that_fails_is_reported_and_the_others_go_on(golden):
    def broken():
        raise RuntimeError("no luck")

    cases = [golden.Case("broken", broken), golden.Case("sound", lambda: {"a": 1})]
    differ, lines = golden.check(cases, {"broken": {"a": 1}, "sound": {"a": 1}}, {})
    assert differ == 1
    assert lines == ["broken: failed: RuntimeError: no luck"]
