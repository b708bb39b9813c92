"""Stored models changed at random and signed again are refused, raise or answer: no crash, no hang, bounded memory."""

import copy
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from borrow import store

sys.path.insert(0, str(Path(__file__).parent))
import campaigns

SECONDS = 60 * float(os.environ.get("BORROW_ATTACK_MINUTES", "0"))


@pytest.fixture(scope="module")
def parts():
    return campaigns.corpus([n for n in campaigns.estimators() if n not in campaigns.SLOW])


def test_unchanged_files_of_the_campaign_answer(parts, tmp_path):
    path = tmp_path / "m"
    with campaigns.Asker() as asker:
        for name in parts:
            path.write_bytes(campaigns.mutated(parts[name], []))
            expected = "raised" if name == "network" else "answered"  # the network is not fitted
            assert asker.ask(path)[0] == expected, name


def test_the_campaign_sees_a_process_that_dies(tmp_path):
    with campaigns.Asker() as asker:
        asker.start()
        asker.process.kill()
        assert asker.ask(tmp_path / "m")[0] == "died"
        assert asker.ask(tmp_path / "m")[0] == "load raised"  # there is no such file; it was started again


def test_changed_files_are_refused_or_answer(parts):
    tried, failures = campaigns.hostile_stores(np.random.default_rng(0), SECONDS, parts, least=600)
    assert failures == []
    assert tried >= 600


def test_labels_of_one_hash_are_refused(parts, tmp_path):
    """Each label looked up among n of one hash is compared with all: a small file could hold up `predict` for hours."""
    page, arrays = copy.deepcopy(parts["FocusedGPRegressor"])
    schema = next(e for e in page["entries"] if isinstance(e, dict) and e.get("class") == "schema")
    labels = page["entries"][schema["fields"]["labels"]["at"]]
    labels["tuple"] = [k * (2**61 - 1) for k in range(1, 3000)]
    (tmp_path / "m").write_bytes(campaigns.packed(page, arrays))
    with pytest.raises(store.StoreError, match="chosen to have one hash"):
        store.load(tmp_path / "m")


def test_every_kind_of_change_changes_some_file(parts, tmp_path):
    whole = campaigns.mutated(parts["FocusedGPRegressor"], [])
    (tmp_path / "m").write_bytes(whole)
    store.load(tmp_path / "m")
    for change in campaigns.CHANGES:
        assert any(campaigns.mutated(parts["FocusedGPRegressor"], [(change, s)]) != whole for s in range(9)), change
