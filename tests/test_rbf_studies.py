"""The studies of the school data on small stand-ins: they run, resume, and say what they promise."""

import sys
from pathlib import Path

import numpy as np
import pytest

from borrow.datasets.shared_data import School

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "studies")]

import liao2006_figure2 as figure2  # noqa: E402
import liao2006_table2 as table2  # noqa: E402
import school_splits  # noqa: E402


@pytest.fixture
def small():
    """Four schools of 60 students: a school level, a dummy and a percentage that matter."""
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(1, 5), 60)
    X = np.column_stack([rng.integers(0, 2, (240, 2)), 10.0 * school + rng.integers(0, 3, 240)])
    score = 20 + 3.0 * (school % 2) + 5.0 * X[:, 0] + rng.normal(size=240)
    codes = rng.integers(0, 3, (240, 4))
    return School(X, codes, school, school - 1, score, ("a", "b", "pct"))


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(school_splits, "ROOT", tmp_path)
    return lambda: school_splits.Store("study", False)


def test_table_has_all_networks_and_resumes(small, store, monkeypatch):
    first = table2.study(small, 2, store())
    rows = {(r["mode"], r["network"]): r for r in first["table"]}
    assert len(rows) == 3 + 6 * 3 + 4
    assert rows["ours", "two-level"]["error"] < rows["", "school mean"]["error"]
    gaps = first["facts"]["error over the best size in hindsight, mean and largest (at most 1)"]
    assert all(0 <= mean <= most for mean, most in gaps.values())
    kept = store().records
    assert all(r["commit"] == kept.commit for r in kept)
    assert {r["key"] for r in kept} >= {"references 0", "ours / two-level / 1"}
    monkeypatch.setattr(table2, "fit_and_test", lambda *a: pytest.fail("computed again"))
    assert table2.study(small, 2, store()) == first
    assert len(table2.table_figure(first).axes) == 1


def test_active_curves_cover_both_ways_to_test(small, store, monkeypatch):
    monkeypatch.setattr(
        figure2, "METHODS", {m: figure2.METHODS[m] for m in ("multi-task", "independent", "one", "ours")}
    )
    result = figure2.study(small, 2, (40, 150), store())
    assert result["sizes"] == [40, 150]
    assert len(result["curves"]) == 2 * 2 * 5
    assert all(np.all(np.isfinite(c)) for c in result["curves"].values())
    assert len(figure2.curves_figure(result).axes) == 2
