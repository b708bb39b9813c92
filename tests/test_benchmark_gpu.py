"""The benchmark of the GPU in tiny sizes on the CPU, without a word on time."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'borrow[gpu]'")
BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("bench_gpu", BENCHMARKS / "gpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_small_benchmark_runs_agrees_and_writes_nothing(bench, monkeypatch):
    monkeypatch.setattr(bench, "write_result", lambda *a: pytest.fail("--small must not write"))
    monkeypatch.setattr(bench, "gpytorch_evaluation", lambda *a: None)
    result = bench.main(["--small"])
    assert result["dense"][0]["n"] == 96
    for part in ("dense against the host", "focused", "ep"):
        assert result[part]["largest relative difference"] < 1e-8
    assert result["em"]["largest relative difference after two steps"] < 1e-8


def test_without_a_gpu_it_says_so_and_measures_nothing(bench, monkeypatch):
    monkeypatch.setattr(bench, "missing", lambda: "no card here")
    monkeypatch.setattr(bench, "write_result", lambda *a: pytest.fail("nothing was measured"))
    with pytest.raises(SystemExit, match="no GPU, so nothing is measured: no card here"):
        bench.main([])


def test_commit_comes_from_the_environment_where_there_is_no_git(bench, monkeypatch):
    import results

    monkeypatch.setenv("BORROW_COMMIT", "abc1234")
    assert results.provenance()["commit"] == "abc1234"
    monkeypatch.delenv("BORROW_COMMIT")
    assert results.provenance()["commit"].split("+")[0].isalnum()
