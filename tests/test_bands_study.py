"""The study of bands in a tiny size."""

import importlib.util
from pathlib import Path

import numpy as np

STUDIES = Path(__file__).resolve().parent.parent / "benchmarks" / "studies"


def test_small_study_of_bands(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES.parent))
    spec = importlib.util.spec_from_file_location("study_bands", STUDIES / "bands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table = module.measure(["no transfer"], (10,), range(12))
    covered = [table[family]["no transfer"]["10"]["observation covered"] for family in module.FAMILIES]
    assert np.all(np.array(covered) > 0.8)
    assert np.mean(covered) > 0.86
    line = module.one_fit("focused", module.draw("model, 1 column", 10, 0))
    assert np.all(np.isfinite(line))
