"""The benchmark of the symmetric model in tiny sizes, without peers and without a word on time."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    spec = importlib.util.spec_from_file_location("bench_multitask", BENCHMARKS / "multitask.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_small_benchmark_runs_and_writes_nothing(bench, monkeypatch, capsys):
    monkeypatch.setattr(bench, "write_result", lambda *a: pytest.fail("--small must not write"))
    result = bench.main(["--small"])
    assert [r["n"] for r in result["evidence"]] == [60, 120]
    assert result["complete"]["tasks"] == 3
    assert "ratio" in capsys.readouterr().out


def test_problem_gives_every_program_its_own_settings(bench):
    problem = bench.compiler_problem(16, 3)
    X, task = problem["X"], problem["task"]
    assert X.shape == (176, 13)
    assert len({X[task == t].tobytes() for t in range(11)}) == 11
    for t in range(11):
        assert problem["y"][task == t].std() == pytest.approx(1.0)
        assert problem["y"][task == t].mean() == pytest.approx(0.0, abs=1e-12)


def test_evidence_of_any_program_is_the_gaussian_density(bench):
    problem = bench.compiler_problem(4, 3)
    rng = np.random.default_rng(0)
    X, y, task = problem["X"], problem["y"], problem["task"]
    A = rng.normal(size=(11, 11))
    found = {
        "lengthscale": rng.uniform(1, 3, 13).tolist(),
        "B": (A @ A.T / 11).tolist(),
        "noise": rng.uniform(0.05, 0.2, 11).tolist(),
        "mean": (0.1 * task).tolist(),
    }
    a = X / np.array(found["lengthscale"])
    K = np.exp(-0.5 * ((a[:, None] - a) ** 2).sum(axis=2)) * np.array(found["B"])[task][:, task]
    C = K + np.diag(np.array(found["noise"])[task])
    r = y - np.array(found["mean"])
    by_hand = -0.5 * (r @ np.linalg.solve(C, r) + np.linalg.slogdet(C)[1] + len(y) * np.log(2 * np.pi))
    assert bench.evidence_at(problem, found) == pytest.approx(by_hand, abs=1e-7)


def test_a_peer_that_is_not_there_is_named_with_the_remedy(bench):
    problem = bench.compiler_problem(4, 3)
    found = bench.fit_elsewhere(sys.executable, "fit_gpflow.py", problem, 0, 60)
    if isinstance(found, dict):
        pytest.skip("GPflow is installed here")
    assert "No module named" in found
