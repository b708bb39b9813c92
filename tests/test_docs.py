"""Pages show what the results say, their code runs and prints what they say, and the navigation has all of them."""

import importlib
import importlib.util
import json
import re
import subprocess
import sys

import pytest

from run_page import ROOT, blocks

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_pages_show_what_the_results_say():
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "pages.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def agree(expected, printed):
    """The same words; a number may differ by one in its last digit.

    An ellipsis stands for the rest of a line; alone in a line, for any number of lines.
    """
    return agree_in_lines(expected.strip().splitlines(), printed.strip().splitlines())


def agree_in_lines(lines, found):
    if lines and lines[0].strip() == "…":
        return any(agree_in_lines(lines[1:], found[i:]) for i in range(len(found) + 1))
    if not lines or not found:
        return not lines and not found
    return agree_in_a_line(lines[0], found[0]) and agree_in_lines(lines[1:], found[1:])


def agree_in_a_line(line, found):
    before, dots, _ = line.partition("…")
    words, others = split_numbers(before), split_numbers(found)
    if dots:
        others = others[: len(words)]
    return len(words) == len(others) and all(map(same_word, words, others))


def split_numbers(line):
    return re.findall(r"[-−+]?\d+(?:\.\d+)?|[^\s\d]+?(?=[-−+]?\d|\s|$)", line)


def same_word(word, other):
    if word == other:
        return True
    digits = len(word.partition(".")[2])
    try:
        return "." in word and abs(float(word) - float(other)) <= 1.01 * 10.0**-digits
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a 1.25 b", "a  1.26 b", True),
        ("a 1.25 b", "a 1.27 b", False),
        ("a 3 b", "a 4 b", False),
        ("a 1.25", "a 1.25 b", False),
        ("a …", "a 7.1 b", True),
        ("b …", "a 7.1 b", False),
        ("[0.50 -1.00]", "[0.51 -1.00]", True),
        ("x\ny", "x", False),
        ("0.5", "-0.5", False),
        ("x\n…\nz", "x\n1\n2\nz", True),
        ("x\n…\nz", "x\n1\n2", False),
    ],
)
def test_what_is_printed_is_compared(expected, printed, same):
    assert agree(expected, printed) == same


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path):
    command = [sys.executable, "-W", "error", ROOT / "tests" / "run_page.py", page]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for _, code, expected, printed in json.loads(done.stdout):
        assert not expected or agree(expected, printed), f"{code}\nprints\n{printed}\nwhere the page has\n{expected}"


def test_links_of_the_pages_lead_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "papers").glob("*.md")), ids=lambda p: p.stem)
def test_functions_beside_the_equations_are_where_the_page_says(page):
    """Names with a dot in the tables of a paper's page, in the words of the package: module, class, function."""
    rows = "\n".join(line for line in page.read_text().splitlines() if line.startswith("|"))
    named = re.findall(r"`((?:covariance|datasets|estimators|inference|kernels|models|numerics|tasks)\.[\w.]+)`", rows)
    assert named
    for name in named:
        found, left = importlib.import_module("borrow"), name.split(".")
        while left:
            here = importlib.util.find_spec(f"{found.__name__}.{left[0]}") if hasattr(found, "__path__") else None
            found = importlib.import_module(here.name) if here else getattr(found, left[0], None)
            assert found is not None, f"{page.name}: there is no {name}"
            left = left[1:]


def test_readme_begins_with_the_two_commands():
    first = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert [line.split("#")[0].strip() for line in first.strip().splitlines()] == ["make demo", "make test"]


def test_navigation_lists_every_page():
    listed = re.findall(r"^ +- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    there = [p.relative_to(ROOT / "docs").as_posix() for p in PAGES if p.is_relative_to(ROOT / "docs")]
    assert sorted(listed) == sorted([*there, "index.md", "contributing.md", "changelog.md"])


# The records behind the pages. ----------------------------------------------------------------------------------------


@pytest.fixture
def records(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("pages_records"), importlib.import_module("pages_parts")


def test_a_record_says_its_commits_seeds_and_settings(records):
    check, _ = records
    right = {"made by": {"commit": "1234567"}, "seeds": [0], "settings": {"a": ""}, "table": [{"method": "a"}]}
    assert check.of_record("yu2005_r", right) == []
    wrong = {
        "no commit": {**right, "made by": {}},
        "no seed": {k: v for k, v in right.items() if k != "seeds"},
        "never committed": {**right, "made by": {"commit": "1234567+changes"}},
        "no settings of 'b'": {**right, "table": [{"method": "b"}]},
        "no settings of 'c'": {**right, "table": [{"mode": "c", "method": "a"}]},
        "no settings": {k: v for k, v in right.items() if k != "settings"},
    }
    for words, record in wrong.items():
        (found,) = check.of_record("yu2005_r", record)
        assert words in found
    assert check.of_record("r", wrong["no settings"]) == []  # of no paper
    assert check.of_record("r", right, missing=["1234567"]) == ["r: commit 1234567 does not exist"]
    assert check.missing_commits(["0" * 40]) <= {"0" * 40}


def test_a_page_names_commits_of_records_and_ends_with_claims(records):
    check, _ = records
    claims = "<!-- begin settings x --><!-- end settings x -->\n<!-- begin claims x -->\n<!-- end claims x -->\n"
    assert check.of_page("docs/papers/x.md", f"as in commit 1234567\n{claims}", {"1234567"}) == []
    assert "names commit 7654321" in check.of_page("docs/a.md", "as in commit 7654321", {"1234567"})[0]
    assert check.of_page("docs/a.md", "<!-- begin a -->commit 7654321<!-- end a -->", set()) == []
    assert "does not end with" in check.of_page("docs/papers/x.md", f"{claims}and more", set())[0]
    without = claims.replace("settings", "other")
    assert "does not show the settings" in check.of_page("docs/papers/x.md", without, set())[0]


def test_a_claim_about_cells_is_confirmed_in_all_in_part_or_not(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    claims, settings = (importlib.import_module(f"pages_{name}") for name in ("claims", "settings"))
    cases = {claims.YES: [True, True], "in part (1 of 3)": [False, True, False], claims.NO: [False], "not run yet": []}
    for verdict, held in cases.items():
        assert claims.claim("words", held, "figure")[1] == verdict
    assert [claims.claim("words", one, "figure")[1] for one in (True, False, "why")] == [claims.YES, claims.NO, "why"]
    assert settings.shortened("A(k=(1, 1, 1),\n b=(1, 2), task_features={0: [1]}, c=2)") == (
        "A(k=(1, …), b=(1, 2), task_features=…, c=2)"
    )


def test_every_study_of_the_papers_is_in_the_plan_and_none_that_ended_is_run_again(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "studies"))
    plan = importlib.import_module("run_all")
    named = {n for p in (ROOT / "docs" / "papers").glob("*.md") for n in re.findall(r"studies/\w+\.py", p.read_text())}
    assert named <= {s.command.split()[0] for s in plan.PLAN}
    assert sum(s.minutes for s in plan.PLAN) <= 2 * 6 * 60  # six hours on two cores
    assert {s.after for s in plan.PLAN} - {""} <= {s.command for s in plan.PLAN}

    asked: list[str] = []
    fails = {"b"}

    def run(study):
        asked.append(study.command)
        return int(study.command in fails), 0.0

    monkeypatch.setattr(plan, "ROOT", tmp_path)
    monkeypatch.setattr(plan, "PLAN", (plan.Study("a", 2), plan.Study("b", 1), plan.Study("c", 1, "a")))
    monkeypatch.setattr(plan, "run", run)
    monkeypatch.setattr(sys, "argv", ["run_all.py", "--jobs", "1"])
    assert plan.main() == 1
    assert asked == ["a", "b", "c"]
    fails.clear()
    assert plan.main() == 0
    assert asked == ["a", "b", "c", "b"]


def test_a_figure_of_several_commits_says_so(records, tmp_path, monkeypatch):
    _, parts = records
    results = importlib.import_module("results")
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setenv("BORROW_COMMIT", "aaaaaaa")
    kept = results.Records(tmp_path / "out" / "study.jsonl")
    kept.add({"x": 1})
    monkeypatch.setenv("BORROW_COMMIT", "bbbbbbb")
    kept = results.Records(tmp_path / "out" / "study.jsonl")
    kept.add({"x": 2})
    kept.add({"x": 3})
    results.write_result("study", {"seeds": [0]}, kept)
    result = json.loads((tmp_path / "study.json").read_text())
    assert [r["commit"][0] for r in kept] == ["a", "b", "b"]
    assert parts.commits(result) == "Records of several commits: 2 of bbbbbbb, 1 of aaaaaaa"
    assert parts.commits({"made by": {"commit": "ccccccc"}}) == "Commit ccccccc"
    assert "1 of ddddddd" in parts.commits(
        {"made by": {"commit": "c"}, "a": {"commit": "ddddddd"}, "b": {"commit": "e"}}
    )


def test_a_row_that_was_run_again_takes_the_place_of_the_earlier_one(records, tmp_path, monkeypatch):
    results = importlib.import_module("results")
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setenv("BORROW_COMMIT", "aaaaaaa")
    results.write_result("study", {"table": [{"m": "a", "n": 10, "x": 1}, {"m": "b", "n": 10, "x": 1}]})
    fresh = [{"m": m, "n": n, "x": 2, "records by commit": {"bbbbbbb": n}} for m, n in (("a", 5), ("b", 4), ("c", 1))]
    rows = results.with_earlier("study", "table", fresh, ("m",), "n", lambda _: 5)
    assert [(r["m"], r["n"], r["x"]) for r in rows] == [("a", 5, 2), ("b", 10, 1), ("c", 1, 2)]
    assert rows[1]["records by commit"] == {"aaaaaaa": 10}
    assert records[1].all_commits({"made by": {"commit": "ccccccc"}, "table": rows}) == {"aaaaaaa": 10, "bbbbbbb": 6}
