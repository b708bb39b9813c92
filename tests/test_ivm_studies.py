"""The IVM studies at tiny sizes: they run, and say what their pages say."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "studies")]

matplotlib = pytest.importorskip("matplotlib")
import lawrence2004_regression as regression  # noqa: E402
import lawrence2004_sines as sines  # noqa: E402
import lawrence2004_vowels as vowels  # noqa: E402

from borrow.datasets.shared_data import load_vowel  # noqa: E402


def vowel_data():
    try:
        return load_vowel()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("seed", range(20))
def test_third_sine_task_gets_most_rows(seed):
    assert 8 <= sines.choose(seed).active_counts_["uniform"] <= 10


def test_divergence_is_zero_at_the_truth_only():
    K = regression.SquaredExponential(1.0, 1.0)(np.arange(5.0)[:, None]) + 0.1 * np.eye(5)
    assert regression.divergence(K, K) == pytest.approx(0.0, abs=1e-12)
    scaled = regression.divergence(K, 2.0 * K)
    assert scaled == pytest.approx(0.5 * (5 * 0.5 - 5 + 5 * np.log(2.0)))


def test_regression_study_of_small_tasks(tmp_path):
    store = tmp_path / "small.jsonl"
    fits = regression.run_all(1, sizes=(40, 500), store=store, n=250)
    assert len(fits) == 2 * len(regression.METHODS)
    again = regression.run_all(1, sizes=(40, 500), store=store, n=250)  # read back, not run
    assert again == fits
    rows = regression.summarise(fits)
    ours = next(r for r in rows if r["method"] == "ours" and r["d"] == 500)
    assert ours["median KL"] < 10
    assert 0.005 < ours["median noise"] < 0.02
    facts = regression.facts_of(rows, fits)
    assert facts["of these with a warning"] == facts["noise below a tenth of the truth, all methods and d"]
    assert len(regression.picture(rows).axes) == 2


def test_vowels_are_those_of_the_paper():
    data = vowel_data()
    assert data.X.shape == (990, 10)
    counts = np.zeros((15, 11, 6), dtype=int)
    np.add.at(counts, (data.speaker, data.vowel, data.frame), 1)
    assert np.all(counts == 1)


def test_vowel_study_of_one_speaker(tmp_path):
    data = vowel_data()
    jobs = [
        ("ours", "MT-IVM", 40, 0),
        ("ours", "not learnt", 0, 0),
        ("", "nearest row", 0, 0),
        ("paper", "random", 30, 0),
    ]
    fits = vowels.run(data, jobs, tmp_path / "small.jsonl")
    assert vowels.run(data, jobs, tmp_path / "small.jsonl") == fits
    assert [len(f["right"]) for f in fits] == [6] * 4
    assert np.mean(fits[1]["right"]) > 85
    assert np.mean(fits[2]["right"]) > 85
