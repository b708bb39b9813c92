"""The count of statements: what it names is there, and nothing is counted twice."""

import ast
import sys

import pytest

from run_page import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import statements

LINES = "lines of functions' docstrings"


def test_parts_and_features_add_up():
    result = statements.count(statements.trees_at(None), {})
    assert sum(p["now"] for p in result["parts"]) == result["kinds"]["now"]["all"]
    assert sum(p["new"] for p in result["parts"]) == result["new"]["statements"] > 1000


def test_a_name_that_is_gone_is_told_and_nothing_counts_twice(monkeypatch):
    trees = {"data/cells.py": ast.parse("class Rows:\n    def take(self):\n        return self\n")}
    monkeypatch.setattr(statements, "FEATURES", {"1": {"it": {"data/cells.py": "Rows.take Lost"}}})
    found = statements.count(trees, {})
    assert found["absent"] == ["data/cells.py: Lost"]
    assert found["new"] == {"statements": 2, "act": 1}
    twice = {"one": {"data/cells.py": "Rows.take"}, "other": {"data/cells.py": "Rows.take"}}
    monkeypatch.setattr(statements, "FEATURES", {"1": twice})
    with pytest.raises(SystemExit, match="counted twice"):
        statements.count(trees, {})


def test_statements_are_counted_by_what_they_are_for():
    found = statements.kinds(ast.parse('"""Text."""\nimport os\n\ndef f(x):\n    """Text."""\n    return x\n'))
    told = {"docstrings": 2, "imports": 1, "definitions": 1, "functions": 1, "fields": 0, LINES: 1}
    assert dict(found) == {**told, "all": 5, "act": 1}


def test_files_of_either_time_have_a_part():
    assert statements.part_now("models/focused/model.py") == "models/focused"
    assert statements.part_now("plot.py") == "plot"
    assert statements.part_now("__init__.py") == "the rest"
    assert statements.part_then("models/baselines/gp_classifiers.py") == "models/gp"
    assert statements.part_then("models/focused_search.py") == "models/focused"
    assert statements.part_then("commands/read.py") == "cli"


def test_guards_are_single_sentences_and_stand_beside_each_other():
    one = "def f(x):\n    if x:\n        raise ValueError\n    y = 1\n    if y:\n        fail('no')\n"
    beside = "    if x > y:\n        raise\n"
    none = "def g(x):\n    if x:\n        raise ValueError\n    else:\n        x = 1\n    if x:\n        x = 2\n"
    found = statements.guards({"a": ast.parse(one + beside), "b": ast.parse(none)})
    assert found == {"guards": 3, "beside": 2, "fewer": 3}
