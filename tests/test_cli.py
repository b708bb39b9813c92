import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import borrow
from borrow import plot as figures
from borrow import report
from borrow.cli import demo
from borrow.cli.app import main, methods_table

TINY = ["demo", "--secondaries", "2", "--seed", "3", "--no-report"]


def run(*arguments, **more):
    return CliRunner().invoke(main, [str(a) for a in arguments], **more)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words") / "new" / "folder"
    return run(*TINY, "--output", folder), folder


@pytest.fixture(scope="module")
def as_json(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    return run(*TINY, "--output", folder, "--json"), folder


@pytest.fixture(scope="module")
def result(as_json):
    return json.loads(as_json[0].stdout)


def test_version():
    answer = run("--version")
    assert answer.exit_code == 0
    assert answer.stdout.strip() == f"borrow {borrow.__version__}"


def test_demo_saves_valid_figures(told):
    answer, folder = told
    assert answer.exit_code == 0, answer.output
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ElementTree.parse(folder / "demo.svg").getroot().tag.endswith("svg")
    assert "demo.svg" in answer.stdout
    assert answer.stderr == ""  # no progress where there is no terminal


def test_demo_ends_with_a_report(tmp_path):
    answer = run("demo", "--secondaries", "1", "--quick", "--output", tmp_path)
    assert answer.exit_code == 0, answer.output
    told = " ".join(answer.stdout.split())
    content = report.read(tmp_path / "report.html")
    part = content["parts"][0]
    assert part["primary"] == "adpcm"
    assert part["rows"] == 16
    assert part["verdict"]["headline"] in told
    assert [r["method"] for r in part["comparison"]["rows"]] == ["single", "pooled", "symmetric"]
    assert len(content["predictions"]["switches"]) == 13
    assert len(content["suggestions"]["rows"]) == 5
    assert content["made"]["command"] == "borrow demo --seed 0 --quick"


def test_json_has_the_fields(result, as_json):
    assert as_json[0].exit_code == 0
    assert [m["name"] for m in result["methods"]] == ["ridge", "single", "pooled", "focused"]
    for method in result["methods"]:
        assert {"label", "mse", "log_density", "covered_curve", "covered_new", "seconds"} < set(method)
        assert method["mse"] > 0
        assert 0 <= method["covered_new"] <= 1
    assert [len(result["curves"]["methods"][m["name"]]["mean"]) for m in result["methods"]] == [100] * 4
    assert result["problem"]["n_hidden"] == 50
    assert {r["task"] for r in result["relatedness"]} == {"secondary 01", "secondary 02"}
    assert result["verdict"]["outcome"] in ("helps", "hurts", "mixed", "same")


def test_table_shows_the_numbers_of_the_dict(told, result):
    lines = told[0].stdout.splitlines()
    for method in result["methods"]:
        line = next(s for s in lines if s.startswith(method["label"] + " "))
        cells = re.split(r"\s{2,}", line.strip())
        covered = "-" if method["covered_curve"] is None else f"{100 * method['covered_curve']:.0f} %"
        assert cells[1:4] == [f"{method['mse']:.3g}", f"{method['log_density']:.2f}", covered]
    for row in result["relatedness"]:
        line = next(s for s in lines if s.startswith(row["task"] + " "))
        assert f"{row['rho']:+.2f}" in line
        assert f"{row['true_correlation']:+.2f}" in line
    assert result["verdict"]["words"] in " ".join(told[0].stdout.split())


def test_same_seed_same_answer(told, result, as_json, tmp_path):
    again = json.loads(run(*TINY, "--output", tmp_path, "--json").stdout)
    for answer in (result, again):
        answer.pop("figures")
        for method in answer["methods"]:
            method.pop("seconds")
    assert again == result
    assert (tmp_path / "demo.svg").read_bytes() == (as_json[1] / "demo.svg").read_bytes()
    assert (told[1] / "demo.svg").read_bytes() == (as_json[1] / "demo.svg").read_bytes()


def test_unknown_option_is_a_usage_error():
    answer = run("demo", "--colour")
    assert answer.exit_code == 2
    assert "No such option" in answer.stderr


def test_no_secondary_is_a_usage_error():
    assert run("demo", "--secondaries", "0").exit_code == 2


def test_output_that_cannot_be_a_folder_is_refused_before_the_work(tmp_path):
    (tmp_path / "taken").write_text("a file")
    answer = run("demo", "--output", tmp_path / "taken" / "figures")
    assert answer.exit_code == 2
    assert "cannot make the output folder" in answer.stderr
    assert "--output" in answer.stderr


@pytest.mark.parametrize("absent", ["typer", "rich", "matplotlib", "jinja2"])
def test_missing_package_names_the_extra(absent):
    code = f"import sys; sys.modules[{absent!r}] = None; from borrow.cli import main; main(['demo', '--quick'])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "pip install 'borrow[app]'" in answer.stderr
    assert absent in answer.stderr
    assert "Traceback" not in answer.stderr


def scored(**mse_and_density):
    names = {"ridge": (2.0, -3.0), "single": (1.0, -1.0), "pooled": (1.5, -2.0), **mse_and_density}
    return [
        {"name": n, "label": demo.METHODS[n], "mse": e, "log_density": d, "covered_curve": 0.9}
        for n, (e, d) in names.items()
    ]


@pytest.mark.parametrize(
    ("focused", "outcome", "word"),
    [
        ((0.01, 0.5), "helps", "100 times smaller"),
        ((2.0, -2.0), "hurts", "2.0 times larger"),
        ((0.5, -2.0), "mixed", "too sure"),
        ((2.0, 0.0), "mixed", "not the accuracy"),
        ((0.5, -1.0), "helps", "a little"),
        ((1.0, -1.0), "same", "no difference"),
    ],
)
def test_verdict_follows_the_numbers(focused, outcome, word):
    verdict = demo.verdict(scored(focused=focused))
    assert verdict["outcome"] == outcome
    assert word in verdict["words"]


def test_verdict_admits_a_better_rival_and_a_narrow_band():
    methods = scored(focused=(0.5, 0.0), pooled=(0.1, 0.5))
    methods[-1]["covered_curve"] = 0.3
    words = demo.verdict(methods)["words"]
    assert "but pooled has the smallest error, 0.1" in words
    assert "holds only 30 % of the curve" in words


def test_figures_take_unknown_standard_errors(result):
    rows = [{**row, "std_error": None, "related": False} for row in result["relatedness"]]
    assert len(figures.demo_figure({**result, "relatedness": rows}).axes) == 3 + 1 + 2


def test_short_names_drop_the_common_words():
    assert figures.short_names(["secondary 01", "secondary 02"]) == ["01", "02"]
    assert figures.short_names(["north", "northwest"]) == ["north", "northwest"]
    assert figures.short_names(["alone"]) == ["alone"]


def test_methods_table_has_a_row_a_method(result):
    result = {**result, "methods": [{"seconds": 0.0, **m} for m in result["methods"]]}
    assert methods_table(result).row_count == 4
