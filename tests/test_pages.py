"""What the pages of the papers say in words is read from the records, whichever way they speak."""

import importlib
import json

import pytest

from run_page import ROOT


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    names = ("ages", "bands", "claims", "focused", "multitask", "parts", "records", "settings")
    return {name: importlib.import_module(f"pages_{name}") for name in names}


def row(method, secondaries, error, below=None):
    found = {
        "gap": "contiguous",
        "secondaries": secondaries,
        "method": method,
        "draws": 10,
        "error": error,
        "sd": 0.1,
        "median": error / 2,
        "better than no transfer": 7,
        "optimiser warnings": 0,
        "records by commit": {"1234567": 10},
        "covered by 90 % band": 0.8,
        "draws with a part of the primary's own": secondaries,
    }
    both = {"over the paper's model, geometric mean": 1.1, "draws below the paper's model": below}
    return found | (both if below is not None else {})


def record(*rows):
    made = {"commit": "1234567", "numpy": "2", "scipy": "1"}
    return {"made by": made, "seeds": list(range(100, 110)), "table": list(rows)}


def test_who_is_ahead_in_the_gap_is_what_the_record_says(pages, monkeypatch):
    focused = pages["focused"]
    ours = [row("focused", n, e, below) for n, e, below in ((0, 0.5, 5), (1, 0.3, 4), (2, 0.2, 7))]
    literal = [row("paper, literal", n, e, 0) for n, e in ((0, 0.45), (1, 0.25), (2, 0.3))]
    monkeypatch.setattr(focused, "load", lambda name: record(*ours, *literal))
    monkeypatch.setattr(focused, "there_is", lambda name: True)
    said = focused.tried()
    assert "falls in 1 of 2 steps in the mean" in said
    assert "ahead of our defaults at 1 of 2 counts in the mean and at 1 in the median, draw by draw in 9 of 20" in said
    assert "| our defaults | 1.11 (1.10; 5 of 10) | 1.20 (1.10; 6 of 10) | 0.67 (1.10; 3 of 10) |" in said
    assert "0 with 0, 1 with 1, 2 with 2" in said
    monkeypatch.setattr(
        focused, "load", lambda name: record(*(row(r["method"], r["secondaries"], 1.0) for r in ours + literal))
    )
    older = focused.literally()
    assert "draw by draw" not in older  # a record that does not have it
    monkeypatch.setattr(focused, "there_is", lambda name: False)
    assert focused.tried().startswith("Not run yet")


def test_source_that_was_not_committed_is_found_anywhere(pages):
    records = pages["records"]
    right = {"made by": {"commit": "1234567"}, "seeds": [0]}
    assert records.of_record("r", right) == []
    for part in ({"written at": "1234567+changes"}, {"records by commit": {"1234567+changes": 3}}):
        (found,) = records.of_record("r", {**right, "made by": {**right["made by"], **part}})
        assert "never committed (1234567+changes)" in found
    assert records.of_record("r", {**right, "rows": [{"commit": "7654321+changes"}]})
    written = {
        **right,
        "made by": {"commit": "1234567", "written at": "1234567+changes"},
        "rows": [{"commit": "1234567"}],
    }
    assert records.of_record("outside", written) == []  # with a reason
    assert all(records.CHANGED.values())


def test_rows_without_an_estimator_have_their_settings_in_words(pages):
    records, settings = pages["records"], pages["settings"]
    table = [{"mean": {"single": 0, "logistic": 0, "other": 0}}]
    given = {"made by": {"commit": "1234567"}, "seeds": [0], "settings": {"focused": "defaults"}, "table": table}
    assert records.of_record("leen2011_classification", given) == ["leen2011_classification: no settings of 'other'"]
    for name, words in settings.WORDS.items():
        said = json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())
        assert all(row in json.dumps(said) for row in words), name


def test_a_part_of_bands_has_its_own_seeds_and_commits(pages):
    bands = pages["bands"]
    lines = [json.loads(x) for x in (ROOT / "docs" / "results" / "bands.jsonl").read_text().splitlines()]
    for part in ("bands", "labels", "relations"):
        own = [r for r in lines if r["part"] == part]
        said = bands.caption(part)
        assert f"seeds {min(r['seed'] for r in own)} to {max(r['seed'] for r in own)}" in said
        assert all((c in said) == (c in {r["commit"] for r in own}) for c in {r["commit"] for r in lines})


def test_ages_count_changes_of_a_models_source(pages, monkeypatch):
    ages = pages["ages"]
    monkeypatch.setattr(ages, "changes_since", lambda commit, folders: {"1234567": 0}.get(commit))
    made = {"made by": {"records by commit": {"1234567": 2, "7654321": 1}}}
    assert ages.ages({"bands": made, "ordinary": made, "yu2005_toy": made})[1:] == [
        "yu2005_toy: changes of hierarchical since 1234567 0, 7654321 unknown"
    ]
    folders = {folder for each in ages.FOLDERS.values() for folder in each}
    assert all((ROOT / "src" / "borrow" / "models" / folder).is_dir() for folder in folders)


def test_a_text_record_with_other_grids_is_made_again(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "studies"))
    text = importlib.import_module("yu2005_text")
    file = tmp_path / "core.json"
    assert not text.is_kept(file, text.GRIDS)
    for stored, kept in (({}, False), ({"grids": {**text.GRIDS, "C": [1.0]}}, False), ({"grids": text.GRIDS}, True)):
        file.write_text(json.dumps(stored))
        assert text.is_kept(file, text.GRIDS) == kept
