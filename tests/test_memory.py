"""The memory that is free counts what a container allows, by either version of control groups."""

import json
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from borrow.numerics import memory

ROOT = Path(__file__).parents[1]
FILES = {
    2: ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    1: ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def group(root, version, path, limit, used, cache=0):
    mount, of_limit, of_use, of_cache = FILES[version]
    folder = root / mount / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / of_limit).write_text(f"{limit}\n")
    (folder / of_use).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{of_cache} {cache}\n")


def process_in(root, version, path):
    (root / "proc/self").mkdir(parents=True)
    line = f"0::/{path}" if version == 2 else f"3:cpu,cpuacct:/other\n5:memory:/{path}"
    (root / "proc/self/cgroup").write_text(line + "\n")


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_group_above_counts_and_its_cache_is_free(tmp_path, version):
    process_in(tmp_path, version, "box/inner")
    group(tmp_path, version, "box", 4000, 1000, cache=200)
    group(tmp_path, version, "box/inner", 9000, 500)
    assert memory.container_free(tmp_path) == 3200.0
    group(tmp_path, version, "box/inner", 1000, 2000)
    assert memory.container_free(tmp_path) == 0.0


def test_no_limit_is_none(tmp_path):
    assert memory.container_free(tmp_path) == inf  # no control groups at all
    process_in(tmp_path, 2, "box")
    group(tmp_path, 2, "box", "max", 1000)
    assert memory.container_free(tmp_path) == inf


def test_a_fit_is_refused_by_what_the_container_allows(monkeypatch):
    monkeypatch.setattr(memory, "container_free", lambda: 1000.0)
    assert memory.available() == 1000.0
    with pytest.raises(MemoryError, match=r"a thing needs about 1.95 KiB and 1e\+03 bytes are free; thin it"):
        memory.require(2000.0, "a thing", "thin it")


def test_every_model_and_path_is_within_a_quarter(monkeypatch):
    """By the record of `benchmarks/memory_guard.py`, which measures each in a process of its own, at two sizes."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # as the benchmark sets them, and as they were behind this test
    import memory_guard

    record = json.loads((ROOT / "docs" / "results" / "memory_guard.json").read_text())
    found = {(c["case"], c["rows"]): c["asked"] / c["taken"] for c in record["cases"]}
    cases = memory_guard.CASES.items()
    assert set(found) == {(name, n * case.times) for name, case in cases for n in memory_guard.SIZES}
    assert {case: ratio for case, ratio in found.items() if not 0.75 <= ratio <= 1.25} == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is measured as Linux tells it")
@pytest.mark.parametrize(("name", "rows"), [("single", 700), ("hierarchical", 900), ("focused, covariance", 1100)])
def test_what_is_asked_for_is_what_a_fit_takes(name, rows):
    """Within a quarter of the peak of a process; `benchmarks/memory_guard.py` measures all models and paths."""
    program = [sys.executable, str(ROOT / "benchmarks" / "memory_guard.py"), "--case", name, str(rows)]
    found = json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    assert 0.75 < found["asked"] / found["taken"] < 1.25, found
