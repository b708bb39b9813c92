"""The study of bands and intervals in a tiny size."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

STUDIES = Path(__file__).resolve().parent.parent / "benchmarks" / "studies"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES.parent))
    spec = importlib.util.spec_from_file_location("study_bands", STUDIES / "bands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_small_study_of_bands(study):
    families = ("model, 1 column", "model, 3 columns", "step")
    found = [study.one_band(f, 10, "no transfer", s)["observation covered"] for f in families for s in range(12)]
    assert np.mean(found) > 0.86
    for method in study.REGRESSORS:
        assert np.all(np.isfinite(list(study.one_band("model, 1 column", 10, method, 0).values())))


def test_a_run_goes_on_where_it_stopped(study, monkeypatch, tmp_path):
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    monkeypatch.setattr(study, "ROWS", (6,))
    written = []
    monkeypatch.setattr(study, "write_result", lambda name, content, records: written.append(content))
    study.main(["--draws", "1", "--parts", "relations"])
    lines = (tmp_path / "bands.jsonl").read_text().splitlines()
    assert len(lines) == 4
    monkeypatch.setattr(study, "one_relation", lambda *cell: pytest.fail("it was measured"))
    table = study.main(["--draws", "1", "--parts", "relations"])
    assert table["relations"]["related"]["focused"]["10"]["draws"] == 1
    assert (tmp_path / "bands.jsonl").read_text().splitlines() == lines
    assert written[1] == written[0]
