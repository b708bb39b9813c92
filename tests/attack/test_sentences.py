"""What nobody should give, from Python and from the command line: a sentence each time, and never a traceback."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import borrow
from borrow import store
from borrow.cli.app import main
from borrow.cli.output import guarded
from borrow.models.gp.model import single_lengthscales
from borrow.tasks import dask

NAMES = [n for n in borrow.__all__ if n.endswith(("Classifier", "Regressor"))]
RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 6.0, (18, 2))
Y = np.sin(X[:, 0])
TASKS = np.array(list("abc") * 6)


def make(name, **settings):
    kind = getattr(borrow, name)
    usual = {"primary": "b", "cv": 2, "methods": "pooled", "optimizer": None, **settings}
    return kind(**{k: v for k, v in usual.items() if k in kind._get_param_names()})


def targets(name):
    return np.where(Y > 0.2, "yes", "no") if name.endswith("Classifier") else Y


HUGE = "too large to be computed with.*; choose other units"
TINY = "no number larger than 1e-200, too small to be computed with; choose other units"
OF_Y = {
    "1e154": (np.r_[1e154, Y[1:]], f"y holds 1e\\+154, {HUGE}"),
    "the largest number": (np.r_[Y[1:], -1.7e308], "y holds 1.7e\\+308, too large.* in row 17; choose"),
    "a whole number of 400 digits": ([1] * 17 + [10**400], "y holds a number too large .* in row 17; choose"),
    "complex objects": (np.array([*Y[1:], 1 + 2j], object), r"y holds the complex number \(1\+2j\) in row 17"),
    "objects of complex64": (np.array([*Y[1:], np.complex64(1j)], object), "y holds the complex number 1j in row 17"),
    "complex": (Y + 0j, "y holds complex numbers"),
    "1e-200": (np.full(18, 1e-200), f"y holds {TINY}"),
}
OF_X = {
    "1e154": (np.where(X > 5.5, 1e154, X), f"column 0 of X holds 1e\\+154, {HUGE}"),
    "a whole number of 400 digits": ([[1, 10**400]] * 18, "column 1 of X holds a number too large .* in row 0"),
    "complex numbers": (X + 1j, "column 0 of X holds complex numbers"),
    "hidden entries": (np.ma.masked_array(X, X > 5.5), "X holds NaN or infinity .*; drop or fill these rows"),
    "an iterator": (iter(X), "X is .*iterator; give a table"),
    "nothing": (None, "X is NoneType; give a table"),
    "rows of two lengths": ([[1.0, 2.0], [3.0]] * 9, "the rows of X differ in their length; expected a table"),
    "complex": (X.astype(object) + 1j, r"column 0 of X holds the complex number \(.*\+1j\) in row 0"),
    "1e-200": (np.column_stack([X[:, 0], np.full(18, 1e-200)]), f"column 1 of X holds {TINY}"),
}


@pytest.mark.parametrize("what", OF_Y)
@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("Regressor")])
def test_targets_that_cannot_be_computed_with(name, what):
    y, sentence = OF_Y[what]
    with pytest.raises(ValueError, match=sentence):
        make(name).fit(X, y, tasks=TASKS)


@pytest.mark.parametrize("what", OF_X)
@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_cannot_be_computed_with(name, what):
    given, sentence = OF_X[what]
    with pytest.raises(ValueError, match=sentence):
        make(name).fit(given, targets(name), tasks=TASKS)


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("Regressor") and not n.startswith("Auto")])
@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_sizes_within_reach_are_other_units(name, size):
    X_, y = X * size, Y / size
    mean, std = make(name, optimizer="lbfgs").fit(X, Y, tasks=TASKS).predict(X, TASKS, return_std=True)
    other = make(name, optimizer="lbfgs").fit(X_, y, tasks=TASKS).predict(X_, TASKS, return_std=True)
    np.testing.assert_allclose(other[0] * size, mean, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(other[1] * size, std, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("value", [-1, 2**32, "x", 1.5])
@pytest.mark.parametrize("name", NAMES)
def test_seeds_that_are_none(name, value):
    with pytest.raises(ValueError, match=rf"random_state={value!r}: expected a whole number from 0 to 4294967295"):
        make(name, random_state=value).fit(X, targets(name), tasks=TASKS)


@pytest.mark.parametrize("value", [0, 1.5, "all", True])
def test_numbers_of_jobs_that_are_none(value):
    with pytest.raises(ValueError, match=rf"n_jobs={value!r}: expected the number of fits at once"):
        make("AutoRegressor", n_jobs=value).fit(X, Y, tasks=TASKS)


COMPARED = {
    "targets of 1e200": ({"y": 1e200 * Y}, r"the target 'y' holds .*e\+199, too large to be computed with"),
    "inputs of 1e200": ({"x": 1e200 * X[:, 0]}, r"column 'x' holds .*e\+200, too large to be computed with"),
    "targets of 1e-200": ({"y": 1e-200 * Y}, "the target 'y' holds no number larger than .*, too small"),
    "a whole number of 400 digits": ({"y": [10**400] * 18}, "the target 'y' holds a number too large"),
    "complex": ({"y": Y + 1j}, "the target 'y' holds the complex number"),
    "complex64": ({"y": list(np.complex64(1j) * Y)}, "the target 'y' holds the complex number"),
    "a name that is no text": ({("y", 1): Y}, r"the column \('y', 1\) has no text for a name"),
}


@pytest.mark.parametrize("what", COMPARED)
def test_tables_that_cannot_be_compared(what):
    """Each method would fail at every fold, and the answer would be a table of dashes."""
    given, sentence = COMPARED[what]
    table = {"x": X[:, 0], "y": Y, "who": TASKS, **given}
    target = next((name for name in given if name != "x"), "y")
    with pytest.raises(ValueError, match=sentence):
        borrow.compare(table, target, "who", "a", ["single"], cv=2, features="x")


@pytest.mark.parametrize("name", NAMES)
def test_odd_labels_of_columns_and_tasks_are_only_names(name, tmp_path):
    """Columns named by pairs, and task labels of several kinds: the answers are those of plain ones, stored as well."""
    columns = pd.MultiIndex.from_tuples([("of a", "x"), ("of a", "z")])
    odd = {"a": 1, "b": "b", "c": ("c", 2)}
    plain = make(name, task=None).fit(X, targets(name), tasks=TASKS)
    model = make(name, task=None).fit(pd.DataFrame(X, columns=columns), targets(name), tasks=[odd[t] for t in TASKS])
    assert set(model.tasks_) == set(odd.values())
    loaded = store.load(store.save(model, tmp_path / "m"))
    frame = pd.DataFrame(X[1::3], columns=columns)
    for found in (model, loaded):
        np.testing.assert_array_equal(found.predict(frame, ["b"] * 6), plain.predict(X[1::3], ["b"] * 6))


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("Regressor") and not n.startswith("Auto")])
@pytest.mark.parametrize("few", [1e-100, 1e-9, 1.0, 1e9])
def test_rows_that_count_a_thousand_million_times(name, few):
    """Beside rows that hardly count, and rows at the same place: answers are numbers, and nothing overflows."""
    repeated = np.vstack([X[:6], X[:6], X[6:12]])
    model = make(name).fit(repeated, Y, tasks=TASKS, sample_weight=np.where(np.arange(18) % 2, 1e9, few))
    std = model.predict(X, TASKS, return_std=True, include_noise=True)[1]
    assert np.isfinite(std).all()
    assert (std > 0.0).all()


def test_classes_of_several_kinds_are_refused():
    with pytest.raises(ValueError, match=r"y holds labels of several kinds \(1, 'b'\); give numbers or texts alone"):
        borrow.SingleTaskGPClassifier().fit(X, np.array([1, "b"] * 9, object))


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([("a", 1), ("b", 2)], r"y holds the label \['a', '1'\]; a class label is text, a whole number or a truth"),
        ([1, 10**400], "y holds the label 10{39}; a class label is text, a whole number"),
        ([1j, 2j], "Complex data not supported: y holds complex numbers"),
        ([True, 2], r"y holds labels of several kinds \(True, 2\)"),
        ([1, 2.0], r"y holds labels of several kinds \(1, 2.0\)"),
    ],
)
def test_labels_that_are_no_class(labels, sentence):
    y = np.full(18, None)
    y[:] = labels * 9
    with pytest.raises(ValueError, match=sentence):
        borrow.SingleTaskGPClassifier(optimizer=None).fit(X, y if 2j not in labels else y.astype(complex))


def test_what_a_mask_hides_was_not_observed():
    hidden = Y > 0.5
    for name in ("SingleTaskGPRegressor", "SingleTaskGPClassifier"):
        y = targets(name)
        masked = make(name).fit(X, np.ma.masked_array(y, hidden), tasks=TASKS)
        without = make(name).fit(X[~hidden], y[~hidden], tasks=TASKS[~hidden])
        np.testing.assert_array_equal(masked.predict(X, TASKS), without.predict(X, TASKS))
    with pytest.raises(ValueError, match="the task is missing"):
        make("SingleTaskGPRegressor").fit(X, Y, tasks=np.ma.masked_array(TASKS, hidden))
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        make("SingleTaskGPRegressor").fit(X, Y, tasks=TASKS, sample_weight=np.ma.masked_array(Y + 2.0, hidden))


def test_labels_that_differ_in_blanks_alone_are_named():
    tasks = np.where(TASKS == "c", "a ", TASKS)
    with pytest.warns(UserWarning, match=r"the tasks 'a', 'a ' differ in blanks alone and are taken for different"):
        borrow.SingleTaskGPRegressor(optimizer=None).fit(X, Y, tasks=tasks)


def test_many_alike_are_one_warning():
    """Twenty tasks whose noise runs to its floor, say, are told once, with how many there are."""
    x = np.tile(np.linspace(0.0, 3.0, 6), 20)[:, None]
    noise = r"'noise of task 0' is at its floor of 1e-06 .* \(and 19 more like this\)"
    with pytest.warns(UserWarning, match=noise) as caught:
        borrow.SingleTaskGPRegressor(prior=None).fit(x, np.sin(x[:, 0]), tasks=np.repeat(np.arange(20), 6))
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("Regressor") and not n.startswith("Auto")])
@pytest.mark.parametrize(
    "y", [np.zeros(18), np.full(18, 3.0), Y, np.round(Y)], ids=["zero", "constant", "exact", "few"]
)
@pytest.mark.filterwarnings("ignore:the targets of task 'a', 'b', 'c' are all equal")
def test_deviations_are_numbers_and_zero_nowhere_else_than_at_data_without_noise(name, y):
    twice, tasks = np.vstack([X, X]), np.r_[TASKS, TASKS]  # every row twice and exactly the same
    copies = y is Y and name != "MultiTaskRBFRegressor"  # which does not look for them
    with pytest.warns(UserWarning, match="36 rows are 18 different ones") if copies else nullcontext():
        model = make(name, optimizer="lbfgs").fit(twice, np.r_[y, y], tasks=tasks)
    away = np.vstack([X + 0.3, X + 50.0, 1e6 * X])
    for rows, noisy in ((X, True), (away, True), (away, False)):
        std = model.predict(rows, np.resize(TASKS, len(rows)), return_std=True, include_noise=noisy)[1]
        assert np.isfinite(std).all()
        assert (std > 0).all()
    assert (model.predict(X, TASKS, return_std=True)[1] >= 0).all()


def test_names_that_a_file_says_by_itself(tmp_path):
    kernel = borrow.kernels.Linear(1.0)
    for taken in ("class", "borrow", "bytes", "is"):
        with pytest.raises(ValueError, match=f"about names '{taken}', which the file says by itself"):
            store.save(kernel, tmp_path / "k", about={taken: "other"})
    for odd in (np.nan, {1, 2}, kernel):
        with pytest.raises(ValueError, match="about holds what JSON has not"):
            store.save(kernel, tmp_path / "k", about={"mine": odd})
    with pytest.raises(TypeError, match="about is list; expected a dict"):
        store.save(kernel, tmp_path / "k", about=[1])
    assert not (tmp_path / "k").exists()


def test_a_dask_client_without_workers_says_that_it_waits(caplog, monkeypatch):
    class Client:
        def nthreads(self):
            return {}

        def wait_for_workers(self, n, timeout):
            raise TimeoutError

    monkeypatch.setattr(dask, "PATIENCE", 7)
    with pytest.raises(dask.LostWorkersError, match="no worker, and none came"):
        dask.Placed(Client(), [1, 2]).put()
    assert [r.getMessage() for r in caplog.records] == [
        "the Dask client has no worker; waiting for one, 7 seconds at most"
    ]


# The command line. ----------------------------------------------------------------------------------------------------

LINES = [f"{'ab'[i % 2]},{i / 3:.3f},{np.sin(i):.4f}" for i in range(16)]
USUAL = ["--target", "score", "--task", "school", "-x", "hours", "-m", "single"]


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def table(folder, lines, header="school,hours,score"):
    (folder / "d.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder / "d.csv"


COMMANDS = {
    "a number of jobs": (LINES, ["--jobs", "0"], "--jobs 0: expected a number of fits at once"),
    "a seed": (LINES, ["--seed", "-1"], "--seed"),
    "1e160": ([f"{line}e160" for line in LINES], [], "too large to be computed with"),
    "1e400": ([f"{line}e400" for line in LINES], [], "infinite in line"),
    "nothing but a byte order mark": (None, [], "is empty; give a table"),
    "a separator at the end": ([f"{line}," for line in LINES], [], "a comma at the end of line 2 and none at the end"),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_wrong_tables_and_calls_are_sentences(what, tmp_path):
    lines, more, sentence = COMMANDS[what]
    command = ["compare", *USUAL[:-2]] if "--jobs" in more else ["fit", *USUAL, "--save", tmp_path / "m"]
    place = table(tmp_path, lines or [])
    if lines is None:
        place.write_bytes(b"\xef\xbb\xbf\n")
    answer = run(command[0], place, *command[1:], *more)
    assert answer.exit_code == 2, answer.output
    assert sentence in " ".join(answer.stderr.split())
    assert not (tmp_path / "m").exists()


def test_a_separator_at_the_end_of_every_line_is_told_and_read(tmp_path):
    plain = run("fit", table(tmp_path, LINES), *USUAL, "--save", tmp_path / "m", "--json")
    ended = table(tmp_path, [f"{line}," for line in LINES], "school,hours,score,")
    answer = run("fit", ended, *USUAL, "--save", tmp_path / "n", "--json")
    assert answer.exit_code == 0
    assert "ends with a comma: the last column has no name and is left out" in answer.stderr
    assert plain.stdout.split('"seconds"')[0] == answer.stdout.split('"seconds"')[0]


def test_labels_with_blanks_are_named_where_they_are_joined(tmp_path):
    place = table(tmp_path, [*LINES[:8], *(f'"{line[0]} "{line[1:]}' for line in LINES[8:])])
    answer = run("fit", place, *USUAL, "--save", tmp_path / "m")
    assert answer.exit_code == 0
    assert "labels of 'school' differ in blanks alone, such as 'a ', and are taken for the same" in answer.stderr
    assert "of 2 tasks" in answer.stdout


def test_infinite_numbers_in_info(tmp_path):
    place = table(tmp_path, [*LINES, "a,inf,1", "b,-inf,1", "a,1e999,1"])
    assert "0 to 5, 3 infinite" in run("info", place).stdout
    assert '"infinite": 3, "least": 0.0, "most": 5.0' in run("info", place, "--json").stdout
    assert "- to -, 1 infinite" in run("info", table(tmp_path, ["a,inf,1"])).stdout


def test_one_row_is_one_row_and_told(tmp_path):
    answer = run("fit", table(tmp_path, LINES[:1]), *USUAL, "--save", tmp_path / "m")
    assert answer.exit_code == 0
    assert "fitted to 1 row in" in answer.stdout
    assert "warning: SingleTaskGPRegressor is fitted to a single row" in answer.stderr
    shown = run("info", tmp_path / "d.csv").stdout.split()  # lines break where the path of the folder lets them
    assert "d.csv:1row,3columns" in "".join(shown)


def test_marks_that_turn_text_around_are_escaped_in_json(tmp_path):
    place = table(tmp_path, [f"{line[0]}\u202e{line[1:]}" for line in LINES])
    for command in (["fit", place, *USUAL, "--save", tmp_path / "m"], ["info", place], ["info", tmp_path / "m"]):
        answer = run(*command, "--json")
        assert answer.exit_code == 0
        assert "\u202e" not in answer.output
        assert "\\u202e" in answer.stdout


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_table_from_a_pipe_is_read_once_and_whole(tmp_path):
    """`borrow info <(zcat table.csv.gz)`, say: what was looked at is not lost, and nothing waits for another writer."""
    place, pipe = table(tmp_path, LINES), tmp_path / "pipe"
    os.mkfifo(pipe)
    for content in (place.read_bytes(), gzip.compress(place.read_bytes())):
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        command = [sys.executable, "-m", "borrow", "info", str(pipe), "--json"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=300)
        writer.join()
        assert (said.returncode, said.stderr) == (0, "")
        assert json.loads(said.stdout)["rows"] == len(LINES)


@pytest.mark.skipif(os.name != "posix", reason="descriptors of POSIX")
def test_standard_output_that_is_closed(tmp_path):
    place = table(tmp_path, LINES)
    assert run("fit", place, *USUAL, "--save", tmp_path / "m").exit_code == 0
    command = [sys.executable, "-m", "borrow", "predict", str(tmp_path / "m"), str(place)]
    said = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', *command], stderr=subprocess.PIPE, text=True)
    assert (said.returncode, said.stderr.count("standard output is closed; give --output")) == (2, 1)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupted_while_it_loads(tmp_path):
    """From when Python itself has started, at any moment: a word and no traceback."""
    command = [sys.executable, "-X", "importtime", "-m", "borrow", "info", str(table(tmp_path, LINES))]
    for seconds in (0.0, 0.1, 0.3, 0.6):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = []
        for line in process.stderr:  # Python tells what it imports; the package is the sign that it is there
            said.append(line)
            if line.rstrip().endswith("| borrow.cli"):
                break
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=300)[1].splitlines(keepends=True)
        own = [line for line in said if not line.startswith("import time:")]
        assert own in ([], ["borrow: interrupted\n"]), own
        assert process.returncode in (130, 0, -signal.SIGINT)


@pytest.mark.parametrize("name", ["SingleTaskGPRegressor", "PooledGPClassifier", "FocusedGPRegressor"])
def test_columns_far_more_than_rows_are_told(name):
    rng = np.random.default_rng(1)
    wide, y = rng.normal(size=(9, 300)), rng.normal(size=9)
    with pytest.warns(UserWarning, match="X has 300 columns and 9 rows: which columns matter can hardly be learnt"):
        make(name, optimizer="lbfgs").fit(wide, y > 0 if name.endswith("Classifier") else y, tasks=list("abc") * 3)
    make(name).fit(wide, y > 0 if name.endswith("Classifier") else y, tasks=list("abc") * 3)  # nothing is learnt


def test_columns_far_more_than_rows_are_not_explored_one_by_one():
    """Beyond a hundred lengthscales groups of them are moved: every one of them once, and two evaluations for each."""
    for columns, groups in ((1, 0), (7, 7), (100, 100), (250, 100)):
        kernel = borrow.kernels.SquaredExponential(1.0, np.ones(columns))
        moves = single_lengthscales({"kernel": kernel.theta, "noise": np.zeros(1)}, kernel)
        assert len(moves) == groups
        if moves:
            np.testing.assert_array_equal(sum(m["kernel"] for m in moves), kernel.mask_of("lengthscale"))


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("instead", [TypeError("expected a message argument"), GeneratorExit("a panic")])
def test_what_an_interrupted_import_raises_is_an_interruption(number, instead, capsys):
    """An import in C that is interrupted raises an error of its own: the user pressed Ctrl-C, and hears of that."""

    def load():
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except KeyboardInterrupt:
            raise instead from None

    found = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(typer.Exit) as left:
            guarded(load)()
        assert left.value.exit_code == 130
        assert capsys.readouterr().err == "borrow: interrupted\n"
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    finally:
        signal.signal(signal.SIGINT, found)


EXECUTED = """
import sys, typer
from borrow.cli.output import guarded
from borrow.models.gp.model import single_lengthscales

@guarded
def command():
    exec("import os, signal, time; os.kill(os.getpid(), signal.{}); time.sleep(5)")

try:
    command()
except typer.Exit as left:
    sys.exit(left.exit_code)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_text_is_executed_ends_with_the_same_code(name, tmp_path):
    """A dataclass that is imported executes text. Python remembers interrupts there and would end by SIGINT itself."""
    (tmp_path / "stopped.py").write_text("import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n")
    with (tmp_path / "stopped.py").open("a") as file:
        file.write(EXECUTED.format(name))
    said = subprocess.run([sys.executable, "-m", "stopped"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (said.returncode, said.stderr) == (130, "borrow: interrupted\n")
