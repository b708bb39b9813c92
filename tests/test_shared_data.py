"""Loaders of public data: what they promise, checked where the data are."""

import numpy as np
import pytest

from borrow.datasets.shared_data import find_shared, load_school


def test_missing_data_say_what_and_where(monkeypatch, tmp_path):
    monkeypatch.setenv("BORROW_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"A table\. Looked for .*set BORROW_DATA"):
        find_shared("nothing/here.csv", "A table.")


def test_school_rows_agree_in_both_forms():
    try:
        data = load_school()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert data.X.shape == (15362, 27)
    assert len(data.names) == 27
    assert len(np.unique(data.school)) == 139
    assert len(np.unique(data.student, axis=0)) == 202
    assert data.descriptor.max() == 287
    assert data.descriptor.min() == 0
    assert data.names[19:21] == ("fsm_pct", "vr1_pct")
    np.testing.assert_array_equal(data.X[:, :3].argmax(axis=1) + 1, data.student[:, 0])  # year
    np.testing.assert_array_equal(data.X[:, 4], data.student[:, 1])  # female
    np.testing.assert_array_equal(data.X[:, 8:19].argmax(axis=1) + 1, data.student[:, 3])  # ethnic group
    assert np.mean(data.score) == pytest.approx(20.597, abs=5e-4)
