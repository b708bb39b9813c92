"""Wrong calls: one sentence on standard error, no traceback, exit code 2; nothing is written."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import borrow
from borrow.cli import output as console
from borrow.cli.app import main
from borrow.store import container

TABLE = "school,hours,score,passed,note\n" + "".join(
    f"{'ab'[i % 2]}{'' if i % 2 else 'y'},{i / 3:.3f},{np.sin(i):.4f},{'yes' if i % 3 else 'no'},n{i}\n"
    for i in range(16)
)
USUAL = ["--target", "score", "--task", "school", "-x", "hours"]


def run(*arguments, **more):
    return CliRunner().invoke(main, [str(a) for a in arguments], **more)


def refused(answer, *words, code=2):
    assert answer.exit_code == code, answer.output
    lines = answer.stderr.strip().splitlines()
    said = " ".join(lines)
    assert said.startswith("borrow: ")
    assert len(lines) == 1, said
    assert answer.stdout == ""
    assert "Traceback" not in said
    for word in words:
        assert word in said, said


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text(TABLE)
    return tmp_path


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    (folder / "data.csv").write_text(TABLE)
    answer = run("fit", folder / "data.csv", *USUAL, "-m", "single", "--save", folder / "m.borrow")
    assert answer.exit_code == 0, answer.output
    return folder / "m.borrow"


def edited(change):
    """The table with other lines."""
    lines = [line.split(",") for line in TABLE.strip().split("\n")]
    return "\n".join(",".join(row) for row in change(lines)) + "\n"


def with_target(value):
    return edited(lambda rows: [rows[0], *([*r[:2], value(i, r[2]), *r[3:]] for i, r in enumerate(rows[1:]))])


DATA = {
    "missing file": (None, USUAL, ["there is no file 'datum.csv'", "did you mean 'data.csv'?"]),
    "target not there": ("", ["--target", "scores", "--task", "school"], ["--target 'scores' is not", "mean 'score'?"]),
    "task not there": ("", ["--target", "score", "--task", "School"], ["--task 'School' is not", "mean 'school'?"]),
    "feature not there": ("", [*USUAL[:4], "-x", "hour"], ["--features 'hour' is not", "did you mean 'hours'?"]),
    "ignored not there": ("", [*USUAL[:4], "--ignore", "nothing"], ["--ignore 'nothing' is not"]),
    "primary not there": ("", [*USUAL, "--primary", "A"], ["--primary 'A' is not a task", "tasks are 'ay', 'b'"]),
    "primary nearly there": ("", [*USUAL, "--primary", "AY"], ["did you mean 'ay'?"]),
    "target is task": ("", ["--target", "score", "--task", "score"], ["they are two columns"]),
    "feature is target": ("", [*USUAL[:4], "-x", "score"], ["--features names 'score', which is the target"]),
    "text among inputs": (
        edited(lambda rows: [[r[0], "x" if i == 4 else r[1], *r[2:]] for i, r in enumerate(rows)]),
        ["--target", "score", "--task", "school"],
        ["column 'hours' of 'data.csv' holds text ('x' in line 5) where numbers", "--ignore"],
    ),
    "free text": (
        edited(lambda rows: [[*r[:4], f"the pupil of row {i} said this" if i else "note"] for i, r in enumerate(rows)]),
        ["--target", "score", "--task", "school"],
        ["column 'note' holds free text (16 different texts in 16 rows, such as 'the pupil of row 1"],
    ),
    "text among targets": (with_target(lambda i, v: "oops" if i == 4 else v), USUAL, ["'oops' in line 6", "--target"]),
    "text where numbers are needed": ("", ["--target", "note", *USUAL[2:], "--kind", "regression"], ["'note'", "text"]),
    "too many classes": (
        "school,hours,score\n" + "".join(f"a,{i},n{i}\nb,{i},m{i}\n" for i in range(15)),
        USUAL,
        ["30 different values in 30 rows", "give --kind 'regression'"],
    ),
    "all targets missing": (with_target(lambda i, v: "NA"), USUAL, ["every value of --target 'score' is missing"]),
    "one class": (with_target(lambda i, v: "yes"), USUAL, ["one class only, 'yes'"]),
    "empty file": (b"", USUAL, ["'data.csv' is empty"]),
    "header only": ("school,hours,score\n", USUAL, ["has column names and no rows"]),
    "wrong delimiter": ("", [*USUAL, "--delimiter", ";"], ["--delimiter ';' is not in the first line", "a comma is"]),
    "unknown delimiter": (TABLE.replace(",", ":"), USUAL, ["one column only", "--delimiter"]),
    "garbage": (bytes(range(256)), USUAL, ["holds bytes that are no text"]),
    "missing task": (
        edited(lambda rows: [*rows, ["", "1", "1", "no", ""]]),
        USUAL,
        ["the task 'school' is missing in 1 row of", "line 18", "--drop-missing"],
    ),
    "kind unknown": ("", [*USUAL, "--kind", "ranking"], ["--kind 'ranking'"]),
    "seed not a number": ("", [*USUAL, "--seed", "x"], None),
    "option unknown": ("", [*USUAL, "--colour"], None),
}


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize("case", DATA)
def test_wrong_data_are_answered_in_a_sentence(case, command, place):
    content, options, words = DATA[case]
    if content not in (None, ""):
        (place / "data.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(os.listdir(place))
    answer = run(command, "datum.csv" if content is None else "data.csv", *options)
    if words is None:  # typer's own words
        assert answer.exit_code == 2
        assert "Traceback" not in answer.output
    else:
        refused(answer, *words)
    assert sorted(os.listdir(place)) == before


CALLS = {
    "folder": (["fit", ".", *USUAL], ["'.' is a folder"]),
    "no folder for the model": (["fit", "data.csv", *USUAL, "--save", "no/m"], ["--save 'no/m'", "no folder 'no'"]),
    "model is a folder": (["fit", "data.csv", *USUAL, "--save", "."], ["--save '.' is a folder"]),
    "method unknown": (["fit", "data.csv", *USUAL, "-m", "best"], ["--method 'best': expected auto, single"]),
    "primary needed": (["fit", "data.csv", *USUAL, "-m", "focused"], ["needs --primary", "'ay', 'b'"]),
    "rbf for labels": (["fit", "data.csv", "--target", "passed", *USUAL[2:], "-m", "rbf"], ["for regression only"]),
    "methods unknown": (["compare", "data.csv", *USUAL, "-m", "best"], ["methods names 'best'", "'pooled'"]),
    "scoring unknown": (["compare", "data.csv", *USUAL, "--scoring", "r2"], ["--scoring 'r2': expected 'mae'"]),
    "too many folds": (["compare", "data.csv", *USUAL, "--folds", "99"], ["--folds 99", "the primary has 8 rows"]),
    "save without primary": (["compare", "data.csv", *USUAL, "--save", "m"], ["--save needs --primary"]),
    "no jobs": (["compare", "data.csv", *USUAL, "--jobs", "0"], ["--jobs 0"]),
    "store is the table": (
        ["compare", "data.csv", *USUAL, "--store", "data.csv"],
        ["--store 'data.csv' is the same file"],
    ),
    "quick with what is for a verdict": (
        ["compare", "data.csv", *USUAL, "-p", "b", "--quick", "--rope", "0.1", "--save", "model.borrow"],
        ["--quick gives no verdict", "leave out --save and --rope"],
    ),
    "quick without primary": (["compare", "data.csv", *USUAL, "--quick"], ["--quick needs --primary"]),
    "no such model": (["predict", "m.borrow", "data.csv"], ["there is no file 'm.borrow'"]),
    "table for a model": (["predict", "data.csv", "data.csv"], ["data.csv is not a file that borrow wrote"]),
    "no such report": (["report", "run.jsonl"], ["there is no file 'run.jsonl'"]),
    "report of a table": (["report", "data.csv"], ["data.csv is not a stored comparison"]),
    "info of nothing": (["info", "nothing"], ["there is no file 'nothing'"]),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_calls_are_answered_in_a_sentence(case, place):
    call, words = CALLS[case]
    refused(run(*call), *words)


def test_a_store_that_is_another_file_is_refused_and_kept(place):
    (place / "other.csv").write_text(TABLE)
    refused(run("compare", "data.csv", *USUAL, "--store", "other.csv"), "is not a stored comparison")
    assert (place / "other.csv").read_text() == TABLE


def test_one_task_is_nothing_to_borrow_from(place):
    (place / "data.csv").write_text(TABLE.replace("\nb,", "\nay,"))
    refused(run("compare", "data.csv", *USUAL), "one task only, 'ay'", "nothing to borrow from")


MODELS = {
    "damaged": (lambda data: data[:500] + b"x" + data[501:], ["is damaged or cut short"]),
    "cut short": (lambda data: data[:-9], ["is damaged or cut short"]),
    "empty": (lambda data: b"", ["is not a file that borrow wrote"]),
}


@pytest.mark.parametrize("command", [["predict"], ["suggest"], ["report"], ["info"]])
@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_is_not_right_is_refused(case, command, saved, place):
    change, words = MODELS[case]
    (place / "m").write_bytes(change(saved.read_bytes()))
    if case == "empty" and command[0] in ("info", "report"):
        words = ["'m' is empty"] if command[0] == "info" else ["m is not a stored comparison"]
    more = ["data.csv"] if command[0] in ("predict", "suggest") else []
    refused(run(*command, "m", *more), *words)


@pytest.mark.parametrize("command", ["predict", "suggest", "report", "info"])
def test_a_model_from_a_newer_version_is_refused(command, saved, place):
    with zipfile.ZipFile(saved) as archive:
        page = json.loads(archive.read("page.json"))
    page |= {"version": 99, "about": {"borrow": "9.0"}}
    (place / "m").write_bytes(container.pack(json.dumps(page).encode(), []))
    more = ["data.csv"] if command in ("predict", "suggest") else []
    refused(run(command, "m", *more), "version 99 (written by borrow 9.0)", "update borrow")


PREDICTIONS = {
    "input not there": ("school,hour\nay,1\n", [], ["'hours' is not a column", "did you mean 'hour'?"]),
    "text in an input": ("school,hours\nay,one\n", [], ["holds text ('one' in line 2)", "the model expects a number"]),
    "task unknown": ("school,hours\nay,1\naz,2\n", [], ["the task is 'az', which the model does not know, in line 3"]),
    "task missing": ("school,hours\nay,1\n,2\n", [], ["the task is missing, in line 3"]),
    "no task column": ("hours,x\n1,2\n", [], ["nothing says which task these rows belong to"]),
    "as unknown": ("hours,x\n1,2\n", ["--as", "c"], ["--as 'c' is not a task; tasks are 'ay', 'b'"]),
    "no rows": ("school,hours\n", [], ["no rows"]),
    "nothing to predict": ("school,hours\nay,\n", [], ["every row lacks an input"]),
    "column taken": ("school,hours,mean\nay,1,2\n", [], ["has a column 'mean' already; give --prefix"]),
    "level": ("school,hours\nay,1\n", ["--level", "90"], ["--level 90: expected a share"]),
    "no folder": ("school,hours\nay,1\n", ["--output", "no/p.csv"], ["--output 'no/p.csv': there is no folder"]),
}


@pytest.mark.parametrize("case", PREDICTIONS)
def test_rows_that_the_model_cannot_use_are_refused(case, saved, place):
    content, options, words = PREDICTIONS[case]
    (place / "new.csv").write_text(content)
    refused(run("predict", saved, "new.csv", *options), *words)


def test_a_file_that_cannot_be_written_is_refused_before_the_work(place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    refused(run("fit", "data.csv", *USUAL, "--save", "m"), "--save 'm' cannot be written; give another name")


def test_a_candidate_or_a_cost_that_is_not_right(saved, place):
    (place / "new.csv").write_text("school,hours,price\nay,1,2\nay,,x\n")
    refused(run("suggest", saved, "new.csv"), "1 of 2 candidates lack an input, the first of them in line 3")
    (place / "new.csv").write_text("school,hours,price\nay,1,2\nay,2,x\n")
    refused(run("suggest", saved, "new.csv", "-p", "ay", "--cost", "prices"), "--cost 'prices'", "mean 'price'?")
    refused(run("suggest", saved, "new.csv", "-p", "ay", "--cost", "price"), "('x' in line 3)", "a cost is a number")
    refused(run("suggest", saved, "new.csv", "-p", "ay", "--cost", "ay=-1"), "--cost 'ay=-1'")


def test_a_kernel_is_no_model(place):
    borrow.store.save(borrow.kernels.Linear(1.0), place / "k")
    refused(run("predict", "k", "data.csv"), "holds Linear, which was not fitted to data")
    assert "Linear(variance=1)" in run("info", "k").stdout


def test_what_is_not_foreseen_is_a_sentence_too_with_another_code(place, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr("borrow.cli.fit.fit_table", broken)
    answer = run("fit", "data.csv", *USUAL)
    refused(answer, "something went wrong (ZeroDivisionError: by chance); BORROW_DEBUG=1 shows where", code=1)
    debugged = run("fit", "data.csv", *USUAL, env={"BORROW_DEBUG": "1"})
    assert isinstance(debugged.exception, ZeroDivisionError)


def test_interrupting_says_so_and_leaves_with_130(place, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("borrow.cli.fit.fit_table", stop)
    refused(run("fit", "data.csv", *USUAL), "interrupted", code=130)
    monkeypatch.setattr(borrow.transfer.compare, "compare", stop)
    answer = run("compare", "data.csv", *USUAL, "--store", "run.jsonl")
    refused(answer, "interrupted; the same command goes on from 'run.jsonl'", code=130)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("primary='s9' is not a task", "--primary 's9' is not a task"),
        ("leave it out with features=", "leave it out with --features"),
        ("give kind='regression'", "give --kind 'regression'"),
        ("n_active=3 is fine", "n_active=3 is fine"),
        ("give tasks=, one of 'a', 'b'", "give --as, one of 'a', 'b'"),
    ],
)
def test_messages_speak_of_options(text, said):
    assert console.in_options(text) == said


# From outside: a process of its own, killed at any moment. -----------------------------------------------------------


def command(*arguments):
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # ignored in the background
    code = f"{heed}; from borrow.cli import main; main(prog_name='borrow')"
    return [sys.executable, "-c", code, *map(str, arguments)]


def killed_after(lines, call, store, sign):
    """Start the command, wait until it has put so many results on the disk itself, and send it a signal."""
    lines += store.read_bytes().count(b"\n") if store.exists() else 0  # those of an earlier run do not count
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 300
        while time.monotonic() < until and process.poll() is None:
            if store.exists() and store.read_bytes().count(b"\n") >= lines:
                break
            time.sleep(0.01)
        process.send_signal(sign)
        out, err = process.communicate(timeout=300)
    return process.returncode, out.decode(), err.decode()


def test_a_comparison_that_was_killed_goes_on_and_ends_with_the_same_table(place):
    """SIGKILL and then an interrupt; what was on the disk is not done again."""
    call = ["compare", "data.csv", *USUAL, "-p", "b", "-m", "pooled", "--folds", "3", "--repeats", "6", "--json"]
    whole = json.loads(run(*call).stdout)
    stored = place / "run.jsonl"
    code, out, _ = killed_after(4, command(*call, "--store", stored), stored, signal.SIGKILL)
    assert (code, out) == (-signal.SIGKILL, "")
    kept = stored.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    code, out, said = killed_after(3, command(*call, "--store", stored), stored, signal.SIGINT)
    assert (code, out) == (130, "")
    assert said == f"borrow: interrupted; the same command goes on from {str(stored)!r}\n"
    resumed = json.loads(run(*call, "--store", stored).stdout)
    assert stored.read_bytes().startswith(kept)
    fits = [line for line in stored.read_text().splitlines()[1:] if '"method"' in line]
    assert len(fits) == 4 * 18 + 3  # pooled, single and three references, of which one is not judged: no second repeat

    def plain(answer):
        for row in answer["table"]:
            row.pop("seconds")
        return {k: v for k, v in answer.items() if k != "files"}

    assert plain(resumed) == plain(whole)


def test_a_reader_that_stops_early_is_no_error_message(saved, place):
    pl.DataFrame({"school": ["ay"] * 20_000, "hours": [1.0] * 20_000}).write_csv(place / "many.csv")
    piped = subprocess.run(
        shlex.join(command("predict", saved, "many.csv")) + " | head -2",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert piped.stdout.startswith("school,hours,mean")
    assert piped.stderr == ""
