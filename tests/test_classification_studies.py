"""The studies of classification and their benchmark at tiny sizes: they run, resume, and keep test trials apart."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "studies")]

matplotlib = pytest.importorskip("matplotlib")
import leen2011_classification as study  # noqa: E402
import leen2011_classification_choice as choice  # noqa: E402

from borrow.datasets.shared_data import load_eeg  # noqa: E402


@pytest.fixture(scope="module")
def trials():
    try:
        return load_eeg()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_classification", ROOT / "benchmarks" / "classification.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(trials, X):
    return [int(np.flatnonzero((x == trials.X).all(axis=1))[0]) for x in X]


@pytest.mark.parametrize("early", [True, False])
def test_problem_trains_on_one_half_and_tests_on_the_other(trials, early):
    subjects = np.unique(trials.subject)
    problem = study.table_of(5, early, 1, True, 10)
    own, test = rows_of(trials, problem.X[problem.own]), rows_of(trials, problem.X_test)
    assert len(own) == study.FEW
    assert set(trials.subject[own + test]) == {subjects[5]}
    assert np.all(trials.early[own] == early)
    assert np.all(trials.early[test] != early)
    others = rows_of(trials, problem.X[~problem.own])
    assert subjects[5] not in trials.subject[others]
    for name in np.unique(problem.task):
        assert set(problem.y[problem.task == name]) == {0, 1}, name
        question = name.split()[-1] if name != "primary" else "S1_obj"
        here = np.array(rows_of(trials, problem.X[problem.task == name]))
        np.testing.assert_array_equal(problem.y[problem.task == name], trials.condition[here] == question)
    larger = study.table_of(5, early, 1, False, study.ALL)
    assert set(own) <= set(rows_of(trials, larger.X[larger.own]))
    np.testing.assert_array_equal(larger.X_test, problem.X_test)


def test_shuffled_labels_keep_their_shares_and_the_primary(trials):
    problem = study.table_of(2, True, 0, True, 20)
    shuffled = problem.shuffled(3)
    np.testing.assert_array_equal(shuffled.y[problem.own], problem.y[problem.own])
    assert np.any(shuffled.y != problem.y)
    for name in np.unique(problem.task):
        assert shuffled.y[problem.task == name].sum() == problem.y[problem.task == name].sum()


def test_choice_never_scores_a_late_trial_nor_an_odd_subject(trials):
    assert all(s % 2 == 0 for s in choice.SUBJECTS)
    for few in (True, False):
        problem = choice.early_problem(4, 0, few, 20)
        own, test = rows_of(trials, problem.X[problem.own]), rows_of(trials, problem.X_test)
        assert np.all(trials.early[own + test])
        assert not set(own) & set(test)


def test_choice_settings_reach_the_models(trials):
    problem = choice.early_problem(0, 0, True, 4)
    plain = choice.losses(problem, None, {})
    for variant in ({"centre": 0.0}, {"own": -2.0}, {"sd": 0.1}, {"tied": True}):
        other = choice.losses(problem, None, variant)
        assert other["focused"] != pytest.approx(plain["focused"], abs=1e-6), variant
        assert (other["single"] == pytest.approx(plain["single"], abs=1e-9)) == bool({"sd", "own"} & set(variant)), (
            variant
        )
    assert not np.any(choice.losses(problem, 0, {"odds": -1e6})["rho"])


def test_small_study_runs_resumes_and_writes_nothing(trials, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "write_result", lambda *a: pytest.fail("--small must not write"))
    arguments = ["--small", "--store", str(tmp_path / "small.jsonl")]
    content = study.main(arguments)
    monkeypatch.setattr(study, "one_job", lambda *a, **k: pytest.fail("these jobs were done"))
    assert study.main(arguments) == content
    assert "focused, shuffled labels" in capsys.readouterr().out
    few, every = content["table"]
    assert [few["primary trials"], every["primary trials"]] == [study.FEW, "all"]
    assert set(few["problems"].values()) == {2}
    assert set(few["mean"]) == set(study.METHODS)
    for method in study.METHODS:
        assert 0.2 < few["mean"][method]["log loss"] < 1.5, method
    assert {t["target"] for t in content["targets"]} >= {"log loss, focused less single"}
    assert len(study.figure_5(content["table"]).axes) == 6


def test_a_method_counts_where_it_was_run_on_every_subject():
    def record(*methods):
        return [{"scores": dict.fromkeys(methods, 0.0)}]

    jobs = [(s, early, 0, True) for early in (True, False) for s in range(2)]
    done = {jobs[0]: record("single", "a", "b"), jobs[1]: record("single", "a"), jobs[2]: record("single", "a")}
    assert [set(r["scores"]) for r in study.whole(jobs[0], done, jobs)] == [{"single", "a"}]
    assert study.whole(jobs[2], done, jobs) == []  # the other subject of this direction has not been run


def test_a_method_that_was_run_again_takes_its_place_beside_the_others_of_the_last_record():
    def cell(single, **others):
        names = {"single": single, **others}
        each = {m: dict.fromkeys(study.METRICS, v) for m, v in names.items()}
        parts = {"problems": dict.fromkeys(names, 32), "mean": each, "median seconds": {}, "fits with a warning": {}}
        return {
            **parts,
            "against single": {m: v for m, v in each.items() if m != "single"},
            "focused against pooled": 7,
        }

    last = [cell(0.5, focused=0.4, pooled=0.6)]
    (row,) = study.with_last([cell(0.5, **{"multi-task": 0.3})], last, {"multi-task"})
    assert list(row["mean"]) == list(row["problems"]) == ["single", "focused", "pooled", "multi-task"]
    assert row["against single"]["multi-task"]["error"] == 0.3
    assert row["focused against pooled"] == 7
    (row,) = study.with_last([cell(0.5, focused=0.3, pooled=0.9)], last, {"focused"})
    assert (row["mean"]["focused"]["AUC"], row["mean"]["pooled"]["AUC"]) == (0.3, 0.6)
    with pytest.raises(ValueError, match="single-task has another log loss"):
        study.with_last([cell(0.6, focused=0.3)], last, {"focused"})


def test_paired_differences_are_means_of_subjects_first():
    records = [
        {"subject": s, "scores": {"a": {"log loss": a}, "b": {"log loss": b}}}
        for s, a, b in [(0, 0.5, 0.7), (0, 0.7, 0.7), (1, 0.9, 0.6)]
    ]
    found = study.paired(records, "a", "log loss", "b")
    assert found["difference"] == pytest.approx((-0.1 + 0.3) / 2)
    assert found["standard error"] == pytest.approx(0.2)
    assert (found["subjects better"], found["subjects worse"]) == (1, 1)


def test_sweeps_at_500_rows(bench):
    """At most 15 cold and 8 warm, after all hyper-parameters moved by 5 %."""
    X, y = bench.binary_problem()
    cold = bench.our_ep(X, y)
    assert cold.n_sweeps <= 15
    assert max(bench.our_ep(X, y, moved, cold.sites).n_sweeps for moved in (1.05, 0.95)) <= 8


def test_benchmark_without_gpy_says_so(bench):
    assert bench.gpy_ep("no-such-python", *bench.binary_problem(), 1) is None
    setup, values = bench.focused_problem(3, rows=10)
    evidence, gradient = bench.focused_objective(setup)(values)
    assert np.isfinite(evidence)
    assert gradient["rho"].shape == (3,)
