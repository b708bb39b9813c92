import ast
import importlib
import inspect
import json
import pkgutil
import re
import shlex
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

import borrow
from borrow import cli, report
from borrow.cli.app import COMMANDS, main
from borrow.cli.compare import secondaries_table
from borrow.data.table import Table

TINY = ["demo", "--secondaries", "1", "--quick"]


def run(*arguments, **more):
    return CliRunner().invoke(main, [str(a) for a in arguments], **more)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words") / "new" / "folder"
    answer = run(*TINY, "--output", folder)
    assert answer.exit_code == 0, answer.output
    return answer, folder


def as_json(folder, *options):
    answer = run(*TINY, "--no-report", "--output", folder, "--json", *options)
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    for row in found["table"]:
        row.pop("seconds")
    return found


def test_version():
    answer = run("--version")
    assert answer.exit_code == 0
    assert answer.stdout.strip() == f"borrow {borrow.__version__}"


def test_borrow_is_a_module_too():
    answer = subprocess.run([sys.executable, "-m", "borrow", "--help"], capture_output=True, text=True, check=False)
    assert answer.returncode == 0
    assert "Usage: borrow [OPTIONS] COMMAND" in answer.stdout


def test_demo_writes_its_table_and_says_what_compare_says_of_it(told):
    answer, folder = told
    table = pl.read_csv(folder / "demo.csv")
    found = borrow.compare(table, "speed-up", "program", "adpcm", ["pooled", "symmetric"], cv=(4, 1))
    assert found.verdict().sentence in " ".join(answer.stdout.split())
    assert found.rows == {"adpcm": 16, "edge": 32}
    assert len(table.columns) == 13 + 2
    # Where there is no terminal it says in lines how far it is, where that takes long.
    told_so = r"borrow: fit \d+ of (24|4); \d+ s(, about \d+ s to go)?"
    assert all(re.fullmatch(told_so, line) for line in answer.stderr.splitlines())


def test_demo_measures_what_was_measured(told):
    data = borrow.datasets.load_compiler()
    known = {x.tobytes(): y for x, y in zip(data.X, data.speedup, strict=True)}
    table = pl.read_csv(told[1] / "demo.csv")
    for *x, program, y in table.rows():
        assert known[pl.Series(x, dtype=pl.Float64).to_numpy().tobytes()][data.programs.index(program)] == y
    assert table.select(data.flags).filter(table["program"] == "edge").is_unique().all()


def test_demo_ends_with_a_report_that_tells_the_command(told):
    answer, folder = told
    content = report.read(folder / "report.html")
    part = content["parts"][0]
    assert part["primary"] == "adpcm"
    assert part["rows"] == 16
    assert part["verdict"]["sentence"] in " ".join(answer.stdout.split())
    assert [r["method"] for r in part["comparison"]["rows"]] == [
        "single",
        "mean",
        "ridge",
        "ridge_tasks",
        "pooled",
        "symmetric",
    ]
    assert len(content["predictions"]["switches"]) == 13
    assert len(content["suggestions"]["rows"]) == 5
    assert content["made"]["command"] == (
        f"borrow compare {folder / 'demo.csv'} --target speed-up --task program --primary adpcm "
        "--methods pooled,symmetric --folds 4 --repeats 1 --seed 0"
    )


def test_demo_is_compare_on_its_table_and_the_seed_draws_the_table(told, tmp_path):
    found = as_json(tmp_path)
    assert found["verdicts"][0]["sentence"] in " ".join(told[0].stdout.split())
    assert (tmp_path / "demo.csv").read_bytes() == (told[1] / "demo.csv").read_bytes()
    assert not (tmp_path / "report.html").exists()
    again = ["--target", "speed-up", "--task", "program", "-p", "adpcm", "-m", "pooled,symmetric", "--folds", "4"]
    compared = json.loads(run("compare", tmp_path / "demo.csv", *again, "--json").stdout)
    for row in compared["table"]:
        row.pop("seconds")
    assert compared == found
    assert as_json(tmp_path, "--seed", "3")["digest"] != found["digest"]


def test_unknown_option_is_a_usage_error():
    answer = run("demo", "--colour")
    assert answer.exit_code == 2
    assert "No such option" in answer.stderr


@pytest.mark.parametrize("n", [0, 11])
def test_secondaries_that_are_not_there_are_a_usage_error(n):
    assert run("demo", "--secondaries", n).exit_code == 2


def test_output_that_cannot_be_a_folder_is_refused_before_the_work(tmp_path):
    (tmp_path / "taken").write_text("a file")
    answer = run("demo", "--output", tmp_path / "taken" / "figures")
    assert answer.exit_code == 2
    assert "cannot make the output folder" in answer.stderr
    assert "--output" in answer.stderr


@pytest.mark.parametrize("absent", ["typer", "rich", "polars", "jinja2"])
def test_missing_package_names_the_extra(absent, tmp_path):
    call = ["demo", "--quick", "--output", str(tmp_path)]
    code = f"import sys; sys.modules[{absent!r}] = None; from borrow.cli import main; main({call!r})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "pip install 'borrow[app]'" in answer.stderr
    assert absent in answer.stderr
    assert "Traceback" not in answer.stderr


HEAVY = ("numpy", "polars", "pandas", "scipy", "sklearn", "narwhals", "joblib")


def imported(*call):
    """Heavy packages that a call of the command line has loaded, what it printed, and its exit code."""
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: sys.stderr.write(repr([n for n in {HEAVY!r} if n in sys.modules])))\n"
        f"from borrow.cli import main; main({list(map(str, call))!r})"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return ast.literal_eval(answer.stderr.splitlines()[-1]), answer


def test_commands_load_what_they_need_and_no_more(tmp_path):
    """Help is asked for more often than anything else, and `info` before everything else."""
    for call in (["--help"], ["--version"], ["comapre"]):
        assert imported(*call)[0] == []
    (tmp_path / "t.csv").write_text("day,ward,site,y\n" + "2026-01-01,east,a,1\n2026-01-02,west,b,2\n" * 3)
    found, answer = imported("info", tmp_path / "t.csv")
    assert answer.returncode == 0, answer.stderr
    assert set(found) <= {"numpy", "polars", "narwhals"}
    X, y, tasks = borrow.datasets.two_tasks()
    borrow.store.save(borrow.PooledGPRegressor(optimizer=None).fit(X, y, tasks=tasks), tmp_path / "m.borrow")
    found, answer = imported("info", tmp_path / "m.borrow")
    assert answer.returncode == 0, answer.stderr
    assert set(found) <= {"numpy", "polars"}


def test_the_list_of_commands_says_what_their_own_help_begins_with():
    for name, line in COMMANDS.items():
        said = inspect.getdoc(importlib.import_module(f"borrow.cli.{name}").run)
        assert " ".join(said.split("\n\n")[0].split()) == line
    listed = {n for _, n, _ in pkgutil.iter_modules(cli.__path__)}
    assert {n for n in listed if hasattr(importlib.import_module(f"borrow.cli.{n}"), "EXAMPLE")} == COMMANDS.keys()


def test_an_interrupt_while_packages_are_imported_is_no_traceback():
    code = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'polars': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from borrow.cli import main; main(['info', 'x.csv'])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (130, "borrow: interrupted\n")


def test_closed_standard_input_is_a_sentence():
    call = [sys.executable, "-m", "borrow", "info", "-"]
    answer = subprocess.run(f"{shlex.join(call)} <&-", shell=True, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr == "borrow: standard input is closed; pipe a table into the command, or give a file\n"


def test_what_was_measured_of_no_task_has_no_column():
    """Without attribution there are no columns of dashes; with it of one task, the others have dashes."""
    nan = float("nan")
    rows = {
        "task": ["a", "b"],
        "rows": [3, 4],
        "correlation": [0.5, nan],
        "share": [0.25, nan],
        **{name: [nan, nan] for name in ("alone", "without", "gain", "low", "high")},
    }
    assert headers(rows) == ["task", "rows", "correlation", "share"]
    assert headers({**rows, "gain": [nan, 0.1]}) == ["task", "rows", "correlation", "share", "gain"]


def headers(columns):
    table = secondaries_table(Table(columns))
    assert [len(c._cells) for c in table.columns] == [2] * len(table.columns)
    return [c.header for c in table.columns]
