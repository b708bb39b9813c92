"""Benchmarks of large problems in tiny sizes, without a word on time."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    def load(name):
        spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCHMARKS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setattr(module, "write_result", lambda *a: pytest.fail("--small must not write"))
        return module

    return load


def test_how_far_measures_every_model(load, capsys):
    bench = load("how_far")
    found = bench.main(["--small"])["models"]
    assert set(found) == set(bench.STEPS)
    assert [r["rows"] for r in found["HierarchicalGPRegressor"]["sizes"]] == [200, 400]
    assert "carried on" in capsys.readouterr().out


def test_growth_is_carried_on_as_a_power(load):
    carried_on = load("how_far").carried_on
    sizes = [{"rows": n, "MB": 1e-3 * n**2, "CPU seconds": 1e-3 * n} for n in (1000, 2000)]
    found = carried_on(sizes)
    assert found["MB"] == pytest.approx((16 * 1024 / 1e-3) ** 0.5)
    assert found["CPU seconds"] == pytest.approx(60_000)
    assert found["power, MB"] == pytest.approx(2.0)


def test_before_and_after_are_the_same_source_here(load):
    rows = load("unchanged").main(["--small"])
    assert {"import borrow", "focused, held"} <= {r["what"] for r in rows}
    assert all(r["after"] == 0 for r in rows if r["what"].startswith("dask"))


def test_a_call_is_slower_when_its_ratio_is_above_a_tenth_more(load):
    rows = [{"what": w, "ratio": r} for w, r in (("a", 1.1), ("b", 1.101), ("c", None), ("d", 0.5))]
    assert load("unchanged").slower(rows) == ["b"]


def test_figures_are_medians_of_turns_taken_alternately(load, monkeypatch):
    bench, order = load("unchanged"), []
    times = {"old": iter([1.0, 9.0, 2.0]), "new": iter([4.0, 1.0, 3.0])}

    def run(source, n_tasks, repeats):
        order.append(source.name)
        return {"step": next(times[source.name]), "nothing": 0.0}

    monkeypatch.setattr(bench, "run", run)
    rows = bench.compare(Path("old"), Path("new"), 3, 3, 1)
    assert order == ["old", "new", "new", "old", "old", "new"]
    assert rows[0] == {"what": "step", "before": 2000.0, "after": 3000.0, "ratio": 1.5}
    assert rows[1]["ratio"] is None


def test_cost_model_divides_the_shards_by_cores_and_workers(monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'borrow[dask]'")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("bench_dask_scale", BENCHMARKS / "dask_scale.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    pieces = {"CPU seconds in shards": 6.0, "CPU seconds in the client": 0.5, "stretch": 2.0, "cores": 3, "shards": 9}
    assert [bench.predicted(pieces, n, 0.1) for n in (1, 2, 3, 8)] == pytest.approx([13.1, 7.1, 5.1, 5.1])
    one = {"at the start": -10.0, "at the end": 5.0, "x": [0.0, 1.0]}
    other = {"at the start": -11.0, "at the end": 5.0, "x": [0.0, 0.5]}
    assert list(bench.same(one, other).values()) == [0.1, 0.0, 0.5]
    assert "distributed" in sys.modules
