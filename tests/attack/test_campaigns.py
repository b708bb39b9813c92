"""The campaigns, a little of each; `make attack MINUTES=30` runs them at length."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import campaigns
import files
import tables

SECONDS = 60 * float(os.environ.get("BORROW_ATTACK_MINUTES", "0"))
#: Cases of each campaign in a test; signals are sent to whole commands, which take seconds each.
FEW = {"random tables": 54, "the same call again": 16, "tables told otherwise": 16, "labels alike": 18,
       "malformed files": 60, "signals": 3, "hostile ledgers": 100}  # fmt: skip
#: What failed in longer runs.
FOUND = {"hostile ledgers": [2845184857]}


@pytest.mark.parametrize("name", FEW)
def test_nothing_fails(name):
    make = campaigns.CAMPAIGNS[name].args[0]
    assert [failed for k in [*range(FEW[name]), *FOUND.get(name, [])] if (failed := make(k).failure())] == []
    if SECONDS:
        assert campaigns.CAMPAIGNS[name](np.random.default_rng(1), SECONDS)[1] == []


def test_every_estimator_and_column_is_drawn():
    drawn = [tables.Case("answers", k).drawn() for k in range(200)]
    assert {name for name, _, _ in drawn} == set(tables.names())
    assert min(len(t.y) for _, t, _ in drawn) == 1
    assert any(np.isnan(t.y).any() for _, t, _ in drawn)
    assert any(t.weight is not None for _, t, _ in drawn)


def test_a_failure_is_made_small_and_left_behind(monkeypatch, tmp_path):
    """A wrong answer for tables with a row beyond 1e6 is found, with that row alone in the program left behind."""

    def wrong(name, table, rng):
        assert not (np.abs(table.X) > 1e6).any(), "wrong"

    monkeypatch.setitem(tables.QUESTIONS, "answers", wrong)
    monkeypatch.setattr(campaigns, "OUT", tmp_path)
    tried, failures = campaigns.numbered(lambda k: tables.Case("answers", k), np.random.default_rng(0), 20.0, most=1)
    assert tried >= 1
    assert len(failures) == 1
    program = next(tmp_path.glob("case-*.py")).read_text()
    case = eval(program.rpartition("print(")[2].rpartition(".failure")[0], {"Case": tables.Case})
    assert len(case.rows) == 1
    assert "wrong" in case.failure()


def test_files_that_are_read_wrongly_are_seen(tmp_path):
    good = b"school,hours,score\na,1,2\nb,3,4\n"
    files.check_file(good, tmp_path)
    columns = [{"kind": "numbers", "name": "hours", "least": 1.0, "most": 5.0}]
    with pytest.raises(AssertionError, match="hours"):
        files.check_columns(columns, files.reference(good, ","))
    assert files.FileCase(5).data() == files.FileCase(5).data() != files.FileCase(6).data()
