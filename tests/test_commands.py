"""The commands as a stranger would use them: files in, files out, the same numbers as the library."""

import importlib.util
import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import borrow
from borrow.cli import columns, compare, fit, info, predict, report, suggest
from borrow.cli.app import main
from borrow.transfer import ledger, problem

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
FIT = ["--target", "score", "--task", "school", "--primary", "St Mary", "--ignore", "note,passed"]


def run(*arguments, **more):
    return CliRunner().invoke(main, [str(a) for a in arguments], **more)


def good(*arguments, **more):
    answer = run(*arguments, **more)
    assert answer.exit_code == 0, answer.output
    return answer


def schools(n=36):
    rng = np.random.default_rng(0)
    school = np.array(["St Mary", "St John", "Hill"])[np.arange(n) % 3]
    hours = rng.uniform(0, 10, n).round(3)
    score = np.sin(hours / 2) * np.where(school == "Hill", -1, 1) + 0.1 * rng.normal(size=n)
    return pl.DataFrame(
        {
            "school": school,
            "hours": hours,
            "age": rng.integers(9, 14, n),
            "score": score.round(4),
            "passed": np.where(np.sin(hours / 2) > 0, "yes", "no"),
            "note": ['a "b", c', "", "x\ny"] * (n // 3),
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schools")
    table = schools()
    table.write_csv(folder / "scores.csv")
    table.write_csv(folder / "semicolons.csv", separator=";")
    table.write_parquet(folder / "scores.parquet")
    table.drop("score", "passed").head(9).write_csv(folder / "new.csv")
    table.select("school", "hours", "age").head(9).write_csv(folder / "candidates.csv")
    return folder


@pytest.fixture(scope="module")
def model(place):
    told = good("fit", place / "scores.csv", *FIT, "--save", place / "model.borrow")
    return place / "model.borrow", told


@pytest.fixture(scope="module")
def expected():
    table = schools()
    model = borrow.FocusedGPRegressor("school", "St Mary")
    return model.fit(table.select("hours", "age", "school"), table["score"].to_numpy())


def test_fit_says_what_it_did_and_saves_what_the_library_fits(model, expected):
    path, told = model
    assert "FocusedGPRegressor fitted to 36 rows of 3 tasks" in told.stdout
    assert re.search(r"^Hill +12 +-", told.stdout, re.M)
    assert told.stderr == ""
    loaded = borrow.store.load(path)
    X = schools().select("hours", "age", "school")
    np.testing.assert_array_equal(loaded.predict(X), expected.predict(X))


def test_predictions_are_those_of_the_library_and_other_columns_are_kept(model, expected, place, tmp_path):
    answer = good("predict", model[0], place / "new.csv")
    frame = pl.read_csv(answer.stdout.encode())
    given = pl.read_csv(place / "new.csv")
    assert frame.columns == [*given.columns, "mean", "std_function", "std_measurement", "low", "high"]
    assert frame.select(given.columns).equals(given)
    X = given.select("hours", "age", "school")
    mean, std = expected.predict(X, return_std=True, include_noise=True)
    np.testing.assert_array_equal(frame["mean"], mean)
    np.testing.assert_allclose(frame["std_measurement"], std, rtol=1e-14)
    np.testing.assert_array_equal(frame["std_function"], expected.predict(X, return_std=True)[1])
    np.testing.assert_allclose(frame["high"] - frame["low"], 2 * 1.6448536269514722 * std, rtol=1e-12)
    half = json.loads(good("predict", model[0], place / "new.csv", "--function", "--level", "0.5", "--json").stdout)
    np.testing.assert_array_equal(half["columns"]["std_function"], expected.predict(X, return_std=True)[1])
    spread = np.subtract(half["columns"]["high"], half["columns"]["mean"])
    np.testing.assert_allclose(spread, 0.6744897501960817 * np.array(half["columns"]["std_function"]), rtol=1e-12)


def test_predictions_in_portions_are_the_same(model, place, monkeypatch):
    whole = good("predict", model[0], place / "new.csv").stdout
    monkeypatch.setattr(predict, "PORTION", 4)
    parts = pl.read_csv(good("predict", model[0], place / "new.csv").stdout.encode())
    want = pl.read_csv(whole.encode())
    np.testing.assert_allclose(parts["std_measurement"], want["std_measurement"], rtol=1e-12)
    np.testing.assert_allclose(parts["std_function"], want["std_function"], rtol=1e-9)


@pytest.mark.parametrize("data", ["semicolons.csv", "scores.parquet", "-"])
def test_every_kind_of_table_gives_the_same_model(data, model, place, tmp_path):
    piped = {"input": (place / "scores.csv").read_bytes()} if data == "-" else {}
    source = data if data == "-" else place / data
    good("fit", source, *FIT, "--save", tmp_path / "m", **piped)
    X = schools().select("hours", "age", "school")
    one, other = borrow.store.load(tmp_path / "m"), borrow.store.load(model[0])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_a_comparison_with_its_model_and_report_reads_the_table_once(place, tmp_path, monkeypatch):
    read = []
    for module, name in ((columns, "read_table"), (problem, "read_target")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, real=real: read.append(real.__name__) or real(*given))
    files = ["--save", tmp_path / "m.borrow", "--report", tmp_path / "page.html"]
    good("compare", place / "scores.csv", *FIT, "--methods", "pooled", "--folds", 2, *files)
    assert read == ["read_table", "read_target"]
    assert borrow.store.load(tmp_path / "m.borrow").predict([[3.0, 11]], tasks="St Mary").shape == (1,)


@pytest.mark.parametrize("method", ["mean", "ridge", "ridge_tasks"])
def test_a_reference_predicts_and_says_nothing_of_the_function(method, place, tmp_path):
    good("fit", place / "scores.csv", *FIT, "-m", method, "--save", tmp_path / "m")
    frame = pl.read_csv(good("predict", tmp_path / "m", place / "new.csv", "--only").stdout.encode())
    X = schools().head(9).select("hours", "age", "school")
    mean, std = borrow.store.load(tmp_path / "m").predict(X, return_std=True)
    np.testing.assert_allclose(frame["mean"], mean)
    np.testing.assert_allclose(frame["std_measurement"], std)
    np.testing.assert_allclose(frame["high"] - frame["mean"], 1.6448536269514722 * std)
    assert frame["std_function"].is_null().all()
    refused = run("predict", tmp_path / "m", place / "new.csv", "--function")
    assert refused.exit_code == 2
    assert "does not tell the function from the noise" in refused.stderr


@pytest.mark.parametrize("target", ["score", "passed"])
def test_a_model_that_chose_is_shown_with_its_table(target, place, tmp_path):
    table = schools().with_columns(form=pl.Series(["a", "b", None, "c"] * 9))
    table.with_columns(pl.when(pl.col("hours") > 1).then(target)).write_csv(tmp_path / "t.csv")
    call = ["--target", target, "--task", "school", "--primary", "Hill", "-x", "hours,form", "-m", "auto"]
    good("fit", tmp_path / "t.csv", *call, "--save", tmp_path / "m")
    files = ["--data", tmp_path / "t.csv", "--output", tmp_path / "page.html"]
    found = json.loads(good("report", tmp_path / "m", *files, "--json").stdout)
    assert (found["data"]["target"], found["data"]["features"]) == (target, ["hours", "form"])
    assert found["predictions"]["form"] == "effects"
    assert found["parts"][0]["verdict"]["answer"] == borrow.store.load(tmp_path / "m").verdict_.answer
    table.with_columns(hours=pl.col("hours") + 1).write_csv(tmp_path / "t.csv")
    assert "is not the table" in run("report", tmp_path / "m", *files).stderr


@pytest.mark.parametrize("option", ["--group", "--time"])
def test_a_comparison_by_groups_or_times_is_shown_with_its_table(option, tmp_path):
    schools().with_columns(when=pl.Series(range(36)) // 4).write_csv(tmp_path / "t.csv")
    call = [*FIT, option, "when", "--methods", "pooled", "--folds", 3]
    good("compare", tmp_path / "t.csv", *call, "--store", tmp_path / "run", "--report", tmp_path / "first.html")
    good("report", tmp_path / "run", "--data", tmp_path / "t.csv", "-o", tmp_path / "second.html")
    first, second = (borrow.report.read(tmp_path / f"{name}.html") for name in ("first", "second"))
    assert first["predictions"] == second["predictions"]
    assert second["predictions"]["form"] == "map"
    found = borrow.Comparison.read(tmp_path / "run")
    assert (found.group, found.time) == (("when", None) if option == "--group" else (None, "when"))
    about, lines = ledger.read(tmp_path / "run")
    older = {name: value for name, value in about.items() if name not in ("group", "time", "targets")}
    ledger.check_about(older)
    older = borrow.Comparison.of_lines(older, lines)
    assert (older.group, older.time, older.verdict()) == (None, None, found.verdict())


def test_columns_of_targets_in_any_order_are_known_again_and_a_model_that_chose_answers_for_each(tmp_path):
    table = schools().with_columns(north=pl.col("score"), east=pl.col("score") + pl.col("age"))
    table.select("hours", "north", "east").write_csv(tmp_path / "t.csv")
    call = [tmp_path / "t.csv", "--targets", "north,east", "--primary", "north"]
    good("compare", *call, "--methods", "pooled", "--folds", 2, "--store", tmp_path / "run")
    good("report", tmp_path / "run", "--data", tmp_path / "t.csv", "-o", tmp_path / "page.html")
    assert borrow.report.read(tmp_path / "page.html")["predictions"]["form"] == "curve"
    good("fit", *call, "-m", "auto", "--save", tmp_path / "m")
    model = borrow.store.load(tmp_path / "m")
    assert len(model.members_) > 1
    frame = pl.read_csv(good("predict", tmp_path / "m", tmp_path / "t.csv", "--only").stdout.encode())
    for task in ("north", "east"):
        mean, std = model.predict(table.select("hours"), tasks=[task] * 36, return_std=True, include_noise=True)
        np.testing.assert_allclose(frame[f"{task}_mean"], mean)
        np.testing.assert_allclose(frame[f"{task}_std_measurement"], std)


def test_output_as_parquet_tabs_and_alone(model, place, tmp_path):
    for name in ("p.parquet", "p.tsv", "p.csv"):
        good("predict", model[0], place / "new.csv", "--output", tmp_path / name, "--only")
    read = [pl.read_parquet(tmp_path / "p.parquet"), pl.read_csv(tmp_path / "p.tsv", separator="\t")]
    assert read[0].columns == ["mean", "std_function", "std_measurement", "low", "high"]
    assert all(f.equals(pl.read_csv(tmp_path / "p.csv")) for f in read)
    good("predict", model[0], place / "scores.parquet", "--output", tmp_path / "q.parquet")
    kept = pl.read_parquet(tmp_path / "q.parquet")
    assert kept.select(schools().columns).equals(schools())
    assert kept.schema["age"] == pl.Int64


def test_rows_without_a_task_column_are_the_primary_and_as_names_another(model, expected, place, tmp_path):
    new = pl.read_csv(place / "new.csv")
    new.select("hours", "age").write_csv(tmp_path / "bare.csv")
    X = new.select("hours", "age")
    for options, label in (([], "St Mary"), (["--as", "Hill"], "Hill")):
        answer = json.loads(good("predict", model[0], tmp_path / "bare.csv", "--json", *options).stdout)
        np.testing.assert_array_equal(answer["columns"]["mean"], expected.predict(X, tasks=[label] * 9))
    named = new.select("hours", "age", pl.lit("Hill").alias("where"))
    named.write_csv(tmp_path / "named.csv")
    answer = json.loads(good("predict", model[0], tmp_path / "named.csv", "--task", "where", "--json").stdout)
    np.testing.assert_array_equal(answer["columns"]["mean"], expected.predict(X, tasks=["Hill"] * 9))


def test_a_row_that_lacks_an_input_gets_no_prediction(model, tmp_path):
    (tmp_path / "t.csv").write_text("school,hours,age\nHill,1,9\nHill,,9\nHill,NA,9\nHill,2,9\n")
    answer = good("predict", model[0], tmp_path / "t.csv")
    assert "2 of 4 rows lack an input" in answer.stderr
    assert pl.read_csv(answer.stdout.encode())["mean"].is_null().to_list() == [False, True, True, False]


def test_labels_give_a_class_and_probabilities(place, tmp_path):
    told = good(
        "fit", place / "scores.csv", "--target", "passed", "--task", "school", "-m", "pooled", "--ignore", "note",
        "--ignore", "score", "--save", tmp_path / "c", "--json",
    )  # fmt: skip
    about = json.loads(told.stdout)
    assert (about["kind"], about["class"]) == ("classification", "PooledGPClassifier")
    answer = good("predict", tmp_path / "c", place / "new.csv")
    frame = pl.read_csv(answer.stdout.encode())
    assert frame.columns[-3:] == ["class", "p_no", "p_yes"]
    np.testing.assert_allclose(frame["p_no"] + frame["p_yes"], 1.0)
    assert (frame["class"] == "yes").to_list() == (frame["p_yes"] > 0.5).to_list()


def test_models_fitted_in_python_to_arrays_are_served_too(place, tmp_path):
    table = schools()
    X, y = table.select("hours", "age").to_numpy(), table["score"].to_numpy()
    tasks = np.arange(len(y)) % 3
    model = borrow.SingleTaskGPRegressor(optimizer=None).fit(X, y, tasks=tasks)
    borrow.store.save(model, tmp_path / "m")
    table.select("hours", "age", pl.Series("number", tasks)).write_csv(tmp_path / "t.csv")
    answer = json.loads(good("predict", tmp_path / "m", tmp_path / "t.csv", "--task", "number", "--json").stdout)
    np.testing.assert_array_equal(answer["columns"]["mean"], model.predict(X, tasks=tasks))
    inside = borrow.SingleTaskGPRegressor(task=1, optimizer=None).fit(np.insert(X, 1, tasks, axis=1), y)
    borrow.store.save(inside, tmp_path / "m")
    answer = json.loads(good("predict", tmp_path / "m", tmp_path / "t.csv", "--task", "number", "--json").stdout)
    np.testing.assert_array_equal(answer["columns"]["mean"], inside.predict(np.insert(X, 1, tasks, axis=1)))


def test_one_task_needs_no_task_column(place, tmp_path):
    told = good("fit", place / "scores.csv", "--target", "score", "-x", "hours", "--save", tmp_path / "m")
    assert "SingleTaskGPRegressor fitted to 36 rows in" in told.stdout
    answer = good("predict", tmp_path / "m", place / "candidates.csv", "--only")
    assert answer.stdout.startswith("mean,std_function,std_measurement,low,high\n")


def test_whole_numbers_name_tasks_as_numbers(tmp_path):
    schools().with_columns(school=pl.Series([10, 2, 1] * 12)).write_csv(tmp_path / "t.csv")
    rest = ["--target", "score", "--task", "school", "-x", "hours", "--save", tmp_path / "m", "--json"]
    about = json.loads(good("fit", tmp_path / "t.csv", "--primary", "10", *rest).stdout)
    assert [t for t, _ in about["rows"]] == [1, 2, 10]
    assert about["primary"] == 10
    assert json.loads(good("info", tmp_path / "m", "--json").stdout)["tasks"] == [1, 2, 10]


def test_info_of_a_model_a_table_and_a_comparison(model, place, tmp_path):
    told = good("info", model[0]).stdout
    assert "FocusedGPRegressor, saved by borrow" in told
    assert re.search(r"^inputs +hours, age *$", told, re.M)
    about = json.loads(good("info", model[0], "--json").stdout)
    assert (about["is"], about["target"], about["features"]) == ("model", "score", ["hours", "age"])
    told = good("info", place / "scores.csv").stdout
    assert "36 rows, 6 columns" in told
    assert re.search(r"^age +numbers +0 +5 +9 to 13 *$", told, re.M)
    assert "could name the task: school" in told
    about = json.loads(good("info", place / "scores.csv", "--json").stdout)
    assert about["columns"][5] == {
        "name": "note", "kind": "text", "missing": 12, "distinct": 2, "values": ['a "b", c', "x\ny"],
        "becomes": "3 levels, one column each",
    }  # fmt: skip


QUICK = ["--target", "score", "--task", "school", "-x", "hours", "-m", "pooled", "--folds", "2"]


@pytest.fixture(scope="module")
def compared(place):
    files = ["--store", place / "run.jsonl", "--save", place / "winner.borrow"]
    return good("compare", place / "scores.csv", *QUICK, "-p", "St Mary", *files)


def test_compare_prints_the_verdict_of_the_library(compared, place):
    found = borrow.compare(
        schools(), "score", "school", "St Mary", ["pooled"], cv=(2, 1), features=["hours"], progress=False
    )
    words = " ".join(compared.stdout.split())
    assert found.verdict().sentence in words
    row = found.table().rows()[-1]
    assert re.search(rf"pooled {row['error']:.3g} ", words)
    assert f"Model: {place / 'winner.borrow'}" in compared.stdout.replace("\n", "")
    assert max(map(len, compared.stdout.split(f"Results: {place}")[0].splitlines())) <= 80
    again = good("compare", place / "scores.csv", *QUICK, "-p", "St Mary", "--json")
    answer = json.loads(again.stdout)
    assert answer["verdicts"][0]["sentence"] == found.verdict().sentence
    assert [r["method"] for r in answer["table"]] == ["single", "mean", "ridge", "ridge_tasks", "pooled"]
    assert [r["error"] for r in answer["table"]] == found.table()["error"]
    winner = borrow.store.load(place / "winner.borrow")
    assert borrow.transfer.methods.key_of(winner) == found.verdict().method


def test_a_stored_comparison_is_not_done_twice_and_is_described(compared, place, monkeypatch):
    lines = (place / "run.jsonl").read_text()
    monkeypatch.setattr("borrow.transfer.compare.evaluate", None)  # nothing is left to do
    again = good("compare", place / "scores.csv", *QUICK, "-p", "St Mary", "--store", place / "run.jsonl")
    assert again.stdout.split("Results:")[0] == compared.stdout.split("Results:")[0]
    assert (place / "run.jsonl").read_text() == lines
    assert "A comparison of 5 methods, 10 fits done" in good("info", place / "run.jsonl").stdout
    about = json.loads(good("info", place / "run.jsonl", "--json").stdout)
    assert (about["is"], about["fits"], about["seed"]) == ("comparison", 10, 0)


def test_every_task_in_turn_and_labels_and_a_quick_look(place):
    every = good("compare", place / "scores.csv", *QUICK)
    assert "Every task in turn, 3 of them" in every.stdout
    assert re.search(r"^Hill +((probably )?(helps|hurts)|cannot tell|no practical difference) ", every.stdout, re.M)
    labels = good("compare", place / "scores.csv", *QUICK, "-p", "Hill", "--target", "passed")
    assert "Brier score" in labels.stdout
    words = "the probability of the predicted class, on average, less the share that was right; above 0 is too sure."
    assert f"Calib.: {words}" in " ".join(labels.stdout.split())
    rough = good("compare", place / "scores.csv", *QUICK[:8], "-p", "Hill", "--target", "passed", "--quick")
    assert f"Calibration: {words}" in " ".join(rough.stdout.split())
    quick = good("compare", place / "scores.csv", *QUICK[:6], "-m", "focused", "-p", "Hill", "--quick")
    assert "optimistic" in quick.stdout
    assert re.search(r"^focused GP +0\.", quick.stdout, re.M)


def test_suggest_is_that_of_the_library(model, expected, place, tmp_path):
    candidates = pl.read_csv(place / "candidates.csv")
    X = candidates.select("hours", "age", "school")
    found = borrow.suggest(expected, X, 3)
    answer = json.loads(good("suggest", model[0], place / "candidates.csv", "-n", 3, "--json").stdout)
    assert [r["row"] for r in answer["rows"]] == found["row"]
    assert [r["reduction"] for r in answer["rows"]] == found["reduction"]
    told = good("suggest", model[0], place / "candidates.csv", "-n", 3, "--output", tmp_path / "s.csv").stdout
    assert "of 9 candidates" in told
    pl.DataFrame({"hours": [1966.0], "age": [12], "school": ["Hill"]}).write_csv(tmp_path / "year.csv")
    assert re.search(r"^1 +0 +Hill +1966 +12 ", good("suggest", model[0], tmp_path / "year.csv").stdout, re.M)
    assert pl.read_csv(tmp_path / "s.csv")["row"].to_list() == found["row"]
    cost = {"St Mary": 5.0, "Hill": 1.0, "St John": 1.0}
    options = [word for label, price in cost.items() for word in ("--cost", f"{label}={price}")]
    answer = json.loads(good("suggest", model[0], place / "candidates.csv", "-n", 3, "--json", *options).stdout)
    assert [r["row"] for r in answer["rows"]] == borrow.suggest(expected, X, 3, cost)["row"]
    candidates.with_columns(price=np.arange(1.0, 10.0)).write_csv(tmp_path / "c.csv")
    answer = json.loads(good("suggest", model[0], tmp_path / "c.csv", "-n", 3, "--json", "--cost", "price").stdout)
    assert [r["row"] for r in answer["rows"]] == borrow.suggest(expected, X, 3, np.arange(1.0, 10.0))["row"]
    record = "suggest", model[0], place / "candidates.csv", "-n", 2, "--as", "St Mary", "--goal", "maximise"
    found = borrow.suggest(expected, X.drop("school"), 2, tasks="St Mary", primary="St Mary", goal="maximise")
    answer = json.loads(good(*record, "--json").stdout)
    assert [r["improvement"] for r in answer["rows"]] == found["improvement"]
    assert "value is expected to gain" in good(*record).stdout


def test_the_same_seed_gives_the_same_answer(place, tmp_path):
    for name in ("a", "b"):
        good("fit", place / "scores.csv", *FIT, "--seed", 7, "--save", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_missing_rows_are_dropped_when_asked(tmp_path):
    table = schools().with_columns(hours=pl.Series([None, *schools()["hours"][1:]]))
    table.write_csv(tmp_path / "t.csv")
    told = good("fit", tmp_path / "t.csv", *FIT, "--drop-missing", "--save", tmp_path / "m").stdout
    assert "fitted to 35 rows" in told
    assert "1 row was left out: it lacks an input or a task." in " ".join(told.split())


MODULES = {"compare": compare, "fit": fit, "predict": predict, "suggest": suggest, "info": info, "report": report}


@pytest.mark.parametrize("name", MODULES)
def test_help_has_a_worked_example(name):
    told = " ".join(good(name, "--help").stdout.split())
    assert f"Example: {MODULES[name].EXAMPLE}" in told
    assert MODULES[name].EXAMPLE.startswith(f"borrow {name} ")


def test_help_says_the_exit_codes_and_how_to_complete():
    told = " ".join(good("--help").stdout.split())
    assert "0 when it worked, 2 for a wrong call or wrong data, 1 for anything else, 130" in told
    assert "--install-completion" in told
    assert all(f" {name} " in told for name in [*MODULES, "demo"])


def test_the_worked_examples_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = schools().select("school", "hours", "age", "score")
    table.write_csv("scores.csv")
    table.drop("score").head(5).write_csv("new.csv")
    table.drop("score").head(5).write_csv("candidates.csv")
    examples = [m.EXAMPLE for m in (fit, info, predict, suggest, compare, report)]
    for line in examples:
        good(*shlex.split(line)[1:])
    assert pl.read_csv("predicted.csv").height == 5
    page = (tmp_path / "report.html").read_text()
    assert "Borrowing" in page
    assert "St Mary" in page
    assert "borrow report run.jsonl --data scores.csv" in page


def test_nothing_but_text_goes_into_a_pipe(model, place):
    told = good("info", place / "scores.csv", color=True, env={"NO_COLOR": "1"}).stdout
    assert "\x1b" not in told + good("fit", place / "scores.csv", *FIT, "--save", model[0]).stdout


@pytest.mark.parametrize("width", ["80", "120"])
def test_tables_fit_the_terminal(model, place, width):
    env = {"COLUMNS": width, "FORCE_COLOR": "1", "TERM": "xterm"}
    for call in (["info", place / "scores.csv"], ["suggest", model[0], place / "candidates.csv"]):
        lines = re.sub(r"\x1b\[[0-9;]*m", "", good(*call, env=env).stdout).splitlines()
        assert max(map(len, lines)) <= max(int(width), len(str(place)) + 40)


@pytest.mark.parametrize(("width", "left"), [("80", "2 more inputs are not"), ("110", "1 more input is not")])
def test_inputs_that_have_no_room_are_left_out_and_no_number_is_cut(width, left, tmp_path):
    table = schools().select("school", "score", *(pl.col("hours").alias(f"an input, number {i}") for i in range(4)))
    table.write_csv(tmp_path / "t.csv")
    good("fit", tmp_path / "t.csv", *FIT[:6], "--save", tmp_path / "m")
    told = good("suggest", tmp_path / "m", tmp_path / "t.csv", env={"COLUMNS": width}).stdout
    assert f"{left} shown" in " ".join(told.split())
    assert all(re.search(r"\d$", line) for line in told.splitlines()[2:7])
    assert told.splitlines()[1].endswith("reduction  remaining")


def test_small_benchmark_of_reading_runs_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("cli_csv", BENCHMARKS / "cli_csv.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    monkeypatch.setattr(bench, "write_result", lambda *_: pytest.fail("--small must not write"))
    monkeypatch.setattr(bench, "run", lambda what, path: {"seconds": 1.0, "wall": 2.0, "peak": 3.0})
    result = bench.main(["--small"])
    assert [f["rows"] for f in result["files"]] == [2500, 4500]
    assert bench.make(tmp_path / "t.csv", 0.1, 200) == 200
    bench.job("used", str(tmp_path / "t.csv"))
    assert '"peak"' in capsys.readouterr().out


def test_the_page_names_every_command():
    page = (BENCHMARKS.parent / "docs" / "command_line.md").read_text()  # tests/test_docs.py runs what it shows
    assert {f"borrow {name}" for name in MODULES} < set(re.findall(r"^\| `(borrow \w+)`", page, re.M))


@pytest.mark.parametrize(("words", "offered"), [("borrow sug", "suggest"), ("borrow fit --method foc", "focused")])
def test_the_shell_completes_commands_and_methods(words, offered):
    env = {"_BORROW_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    answer = CliRunner().invoke(main, [], env=env, prog_name="borrow")
    assert answer.stdout.split() == [offered]


ODD = ["[red]x[/red]", "[/]", "<script>alert(1)</script>", "\x1b[31mESC\x07\u202e", 'a\tb, "c"']


def test_hostile_names_stay_text_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")  # no name is broken into two lines
    table = schools(30)
    odd = table.select(pl.Series('task, "t"', ODD * 6), pl.col("hours").alias("[b]in[/b]"), pl.col("score").alias("y="))
    odd.write_csv("odd.csv")
    call = ["--target", "y=", "--task", 'task, "t"', "-m", "single", "--save", "m"]
    outputs = [
        good("info", "odd.csv"),
        good("info", "odd.csv", "--json"),
        good("fit", "odd.csv", *call),
        good("fit", "odd.csv", *call[:4], "-p", "[/]", "--save", "f"),
        good("info", "m"),
        good("compare", "odd.csv", *call[:4], "-m", "pooled", "--folds", 2),
        run("predict", "m", "odd.csv", "--as", "\x1b[31m"),
    ]
    for answer in outputs:
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", answer.output)
    assert "\\x1b[31mESC\\x07\\u202e" in outputs[3].stdout
    assert "[red]x[/red]" in outputs[3].stdout
    assert json.loads(outputs[1].stdout)["columns"][0]["values"] == ODD
    assert outputs[-1].exit_code == 2
    kept = pl.read_csv(good("predict", "m", "odd.csv").stdout.encode())
    assert kept[:, 0].to_list() == ODD * 6


def test_info_goes_on_from_block_to_block(tmp_path, monkeypatch):
    text = "a,b,c\n" + "".join(f"{i},{'' if i % 2 else 'x'},{i if i < 90 else 'late'}\n" for i in range(100))
    (tmp_path / "t.csv").write_text(text)
    whole = good("info", tmp_path / "t.csv", "--json").stdout
    monkeypatch.setattr("borrow.cli.read.BLOCK", 64)
    parts = good("info", tmp_path / "t.csv", "--json").stdout
    assert json.loads(parts) == json.loads(whole)
    a, b, c = json.loads(whole)["columns"]
    assert a == {
        "name": "a",
        "missing": 0,
        "distinct": 100,
        "kind": "numbers",
        "infinite": 0,
        "least": 0.0,
        "most": 99.0,
        "becomes": "as it is",
    }
    assert b["becomes"] == "left out: it is 'x' in every row that has one"
    assert "holds text ('late' in line 92) among numbers" in c["becomes"]
    assert (b["missing"], b["values"], c["kind"], c["distinct"]) == (50, ["x"], "text", 91)
    monkeypatch.setattr(info, "COUNTED", 7)
    assert re.search(r"^a +numbers +0 +7\+ +0 to 99", good("info", tmp_path / "t.csv").stdout, re.M)


def test_many_rows_are_a_word_before_the_wait(place, tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "MANY", 10)
    call = ["fit", place / "scores.csv", *FIT[:4], "-x", "hours", "--save", tmp_path / "m"]
    assert "36 rows in all may take long" in good(*call, "-m", "symmetric").stderr
    assert "12 rows of one task may take long" in good(*call, "-m", "single").stderr
    assert good(*call, "-m", "pooled").stderr == ""


ASKED = ["--target", "score", "--task", "school", "-x", "hours"]
#: Calls whose output is an input or another output: s.csv is the table, m a model, run a stored comparison.
SAME = {
    "fit": ["fit", "s.csv", *ASKED, "--save", "s.csv"],
    "fit, hard link": ["fit", "s.csv", *ASKED, "-o", "hard"],
    "fit, symbolic link": ["fit", "soft", *ASKED, "-o", "s.csv"],
    "fit, through a folder": ["fit", "s.csv", *ASKED, "-o", "folder/../s.csv"],
    "fit, piped": ["fit", "-", *ASKED, "-o", "s.csv"],
    "compare, table saved over": ["compare", "s.csv", *ASKED, "-p", "Hill", "--save", "s.csv"],
    "compare, report over": ["compare", "s.csv", *ASKED, "--report", "hard"],
    "compare, store over": ["compare", "s.csv", *ASKED, "--store", "./s.csv"],
    "compare, two outputs": ["compare", "s.csv", *ASKED, "-p", "Hill", "--save", "new", "--report", "new"],
    "compare, two outputs by a link": ["compare", "s.csv", *ASKED, "--store", "linked/new", "--report", "folder/new"],
    "compare, dangling": ["compare", "s.csv", *ASKED, "--store", "dangling", "--report", "new"],
    "predict, data": ["predict", "m", "s.csv", "-o", "s.csv"],
    "predict, model": ["predict", "m", "s.csv", "-o", "m"],
    "report, file": ["report", "run", "-o", "run"],
    "report, data": ["report", "run", "--data", "s.csv", "-o", "hard"],
    "suggest, candidates": ["suggest", "m", "s.csv", "-o", "soft"],
    "suggest, model": ["suggest", "m", "s.csv", "-o", "m"],
}


@pytest.mark.parametrize("case", SAME)
def test_outputs_never_overwrite_inputs_or_one_another(case, place, model, compared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, kept in (("s.csv", "scores.csv"), ("m", "model.borrow"), ("run", "run.jsonl")):
        Path(name).write_bytes((place / kept).read_bytes())
    Path("hard").hardlink_to("s.csv")
    Path("soft").symlink_to("s.csv")
    Path("folder").mkdir()
    Path("linked").symlink_to("folder")
    Path("dangling").symlink_to("new")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    piped = os.stat("s.csv")
    monkeypatch.setattr("os.fstat", lambda _: piped)  # as of `borrow fit - < s.csv`
    answer = run(*SAME[case])
    assert answer.exit_code == 2
    assert re.fullmatch(
        r"borrow: -.* is the same file as .*, which it would overwrite; give another name\n", answer.stderr
    )
    assert answer.stdout == ""
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


def test_pipes_and_devices_are_not_replaced_by_a_file(place, model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    answer = run("predict", model[0], place / "new.csv", "--output", tmp_path / "pipe")
    assert answer.exit_code == 2
    assert "is a device or a pipe; give the name of a file" in answer.stderr
    assert (tmp_path / "pipe").is_fifo()
    good("predict", model[0], place / "new.csv", "--output", "-")


def test_info_takes_commas_that_may_separate_thousands_for_text(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a;b\n" + "1,000;2,000\n" * 20 + "2,500;0,5\n")
    monkeypatch.setattr("borrow.cli.read.BLOCK", 32)
    a, b = json.loads(good("info", tmp_path / "t.csv", "--json").stdout)["columns"]
    assert (a["kind"], a["values"]) == ("text", ["1,000", "2,500"])
    assert (b["kind"], b["least"], b["most"]) == ("numbers", 0.5, 2.0)


def test_info_of_infinite_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,inf\n2,-3\n")
    a, b = json.loads(good("info", tmp_path / "t.csv", "--json").stdout)["columns"]
    assert (a["infinite"], a["least"], a["most"]) == (0, 1.0, 2.0)
    assert (b["kind"], b["infinite"], b["least"], b["most"]) == ("numbers", 1, -3.0, -3.0)  # those that are finite
    assert re.search(r"^b +numbers +0 +2 +-3 to -3, 1 infinite", good("info", tmp_path / "t.csv").stdout, re.M)


def test_rows_wanted_are_encoded_as_the_table_was(tmp_path):
    """Text and units in the file of wanted rows, and a column that is not asked for; from Python too."""
    random = np.random.default_rng(0)
    columns = {"heat": [f"{v:.1f} °C" for v in random.uniform(0, 9, 40)], "dye": random.choice(["red", "blue"], 40)}
    table = {**columns, "site": ["here"] * 15 + ["there"] * 25, "level": random.normal(size=40).round(3)}
    wanted = {"dye": ["blue"], "heat": ["20 °C"], "site": ["here"]}
    pl.DataFrame(table).write_csv(tmp_path / "t.csv")
    pl.DataFrame(wanted).write_csv(tmp_path / "wanted.csv")
    how = ["--target", "level", "--task", "site", "-p", "here", "-m", "pooled", "--folds", 2, "--repeats", 1, "--json"]
    answer = json.loads(good("compare", tmp_path / "t.csv", *how, "--wanted", tmp_path / "wanted.csv").stdout)
    said = "100 % of the rows wanted lie outside what was measured for 'here' ('heat')"
    assert any(said in line for line in answer["verdicts"][0]["advice"])
    with pytest.warns(UserWarning, match="100 % of the rows wanted lie outside"):
        found = borrow.compare(table, "level", "site", "here", ["pooled"], cv=(2, 1), wanted=wanted)
    assert any(said in line for line in found.verdict().advice)
    (tmp_path / "odd.csv").write_text("dye\nblue\n")
    refused = run("compare", tmp_path / "t.csv", *how, "--wanted", tmp_path / "odd.csv")
    assert refused.exit_code == 2
    assert "--wanted 'heat' is not a column of" in refused.stderr


def test_compare_takes_groups_times_wanted_rows_and_minutes(place, tmp_path):
    table = schools().with_columns(pl.int_range(pl.len()).mod(6).alias("batch"), pl.int_range(pl.len()).alias("day"))
    table.write_csv(tmp_path / "t.csv")
    pl.DataFrame({"hours": [1.0, 99.0], "age": [10, 11]}).write_csv(tmp_path / "wanted.csv")
    more = ["--group", "batch", "--wanted", tmp_path / "wanted.csv", "--minutes", 5, "--rope", 0.1, "--json"]
    answer = json.loads(good("compare", tmp_path / "t.csv", *QUICK, "-p", "Hill", *more).stdout)
    assert answer["features"] == ["hours"]
    verdict, error = answer["verdicts"][0], {r["method"]: r["error"] for r in answer["table"]}
    assert verdict["rope"] == pytest.approx(0.1 * error[verdict["alone"]])
    assert any("lie outside what was measured for 'Hill'" in line for line in answer["verdicts"][0]["advice"])
    pl.DataFrame({"hours": [1.0, 99.0]}).write_csv(tmp_path / "one.csv")  # a file of one column, which is known
    one = ["--group", "batch", "--wanted", tmp_path / "one.csv", "--rope", 0.1, "--json"]
    again = json.loads(good("compare", tmp_path / "t.csv", *QUICK, "-p", "Hill", *one).stdout)
    assert again["verdicts"][0]["advice"] == verdict["advice"]
    found = borrow.compare(table, "score", "school", "Hill", ["pooled"], cv=(2, 1), features=["hours"], group="batch")
    assert [r["n_test"] for r in found.records][:2] == [6, 6]
    past = json.loads(good("compare", tmp_path / "t.csv", *QUICK, "-p", "Hill", "--time", "day", "--json").stdout)
    assert past["cv"] == {"folds": 2, "repeats": 1}
    assert run("compare", tmp_path / "t.csv", *QUICK, "-p", "Hill", "--group", "nobody").exit_code == 2


def test_none_is_a_word_among_words_and_a_gap_among_numbers(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    n = 60
    dose = rng.uniform(0, 3, n).round(2)
    outcome = np.array(["none", "mild", "severe"])[np.digitize(dose, [1, 2])]
    dosed = [str(d) for d in dose[:-2]] + ["none", "None"]
    day = ["none", *(f"2024-01-{1 + i % 28:02d}" for i in range(1, n))]
    region = ["EU", "none"] * (n // 2)
    pl.DataFrame({"region": region, "dose": dosed, "day": day, "before": outcome[::-1], "outcome": outcome}).write_csv(
        tmp_path / "t.csv"
    )
    call = ["--target", "outcome", "--task", "region", "-x", "dose,before", "--save", tmp_path / "m", "--json"]
    about = json.loads(good("fit", tmp_path / "t.csv", *call, "-m", "pooled").stdout)
    assert about["rows"] == [["EU", 30], ["none", 30]]
    assert about["without_target"] == 0
    assert borrow.store.load(tmp_path / "m").classes_.tolist() == ["mild", "none", "severe"]
    assert "Column 'before': ordered levels, from 0 for 'none' to 2 for 'severe'." in about["encoding"]
    pl.DataFrame({"region": ["EU"], "dose": [0.1], "before": ["none"]}).write_csv(tmp_path / "new.csv")
    answer = json.loads(good("predict", tmp_path / "m", tmp_path / "new.csv", "--json").stdout)
    assert answer["warnings"] == []
    pl.DataFrame({"region": ["EU"], "dose": [0.1], "before": [""]}).write_csv(tmp_path / "gap.csv")
    gap = json.loads(good("predict", tmp_path / "m", tmp_path / "gap.csv", "--json").stdout)
    assert gap["columns"]["p_none"] != answer["columns"]["p_none"]
    for block in (1 << 22, 64):
        monkeypatch.setattr("borrow.cli.read.BLOCK", block)
        columns = {c["name"]: c for c in json.loads(good("info", tmp_path / "t.csv", "--json").stdout)["columns"]}
        assert [columns[c]["missing"] for c in ("region", "dose", "day", "before", "outcome")] == [0, 2, 1, 0, 0]
        assert [columns[c]["distinct"] for c in ("region", "before", "outcome")] == [2, 3, 3]
        assert (columns["dose"]["kind"], columns["day"]["kind"]) == ("numbers", "dates")


def test_rows_without_a_target_are_counted(place, tmp_path):
    schools().with_columns(score=pl.Series([None, None, *schools()["score"][2:]])).write_csv(tmp_path / "t.csv")
    told = good("fit", tmp_path / "t.csv", *FIT, "--save", tmp_path / "m").stdout
    assert "fitted to 34 rows" in told
    assert "\n2 rows have no target.\n" in told
    assert "2 rows have no target.\n" in good("compare", tmp_path / "t.csv", *QUICK, "-p", "Hill").stdout
    assert "2 rows have no target.\n" in good("compare", tmp_path / "t.csv", *QUICK[:8], "-p", "Hill", "--quick").stdout
    assert "no target" not in good("fit", place / "scores.csv", *FIT, "--save", tmp_path / "m").stdout


def test_columns_of_time_and_group_are_inputs_where_they_are_named(tmp_path):
    place = pl.int_range(pl.len())
    table = schools().with_columns(place.mod(6).alias("batch"), (place + 0.5).alias("day"))
    table.write_csv(tmp_path / "t.csv")
    call = ["compare", tmp_path / "t.csv", "--target", "score", "--task", "school", "-p", "Hill", "-m", "pooled"]
    call += ["--folds", 2, "--time", "day", "--group", "batch"]
    told = good(*call, "--ignore", "note,passed").stdout
    assert "Column 'day' says the time and is no input; --features can name it as one." in told
    assert "Column 'batch' says the group and is no input; --features can name it as one." in told
    named = good(*call, "-x", "day,hours,batch", "--json").stdout
    assert json.loads(named)["features"] == ["day", "hours", "batch"]
    assert "is no input" not in good(*call, "-x", "day,hours").stdout
    more = {"cv": (2, 1), "features": ["day", "hours"], "time": "day"}
    found = borrow.compare(table, "score", "school", "Hill", ["pooled"], **more)
    same = json.loads(good(*call[:-2], "-x", "day,hours", "--json").stdout)
    assert [r["error"] for r in same["table"]] == found.table()["error"]
    refused = " ".join(run(*call, "-x", "school").stderr.split())
    assert "--features names 'school', which is the task column" in refused
    table.select("score", "school", "day").write_csv(tmp_path / "few.csv")
    nothing = " ".join(run("compare", tmp_path / "few.csv", *call[2:-2]).stderr.split())
    assert "no input column is left beside 'score', 'school', 'day'" in nothing
    assert "--features can name 'day' too" in nothing
    table.with_columns(day=pl.Series([None, *range(35)])).write_csv(tmp_path / "gap.csv")
    assert "the time 'day' is missing in 1 row of" in run("compare", tmp_path / "gap.csv", *call[2:]).stderr
    with pytest.raises(ValueError, match=r"no input column beside 'score' and 'school' and 'day'.*features= can name"):
        borrow.compare(table.select("score", "school", "day"), "score", "school", "Hill", time="day")


def test_a_wide_table_has_groups_that_are_no_inputs(tmp_path):
    rng = np.random.default_rng(0)
    wide = {"x": rng.uniform(size=24).round(3), "batch": np.arange(24) % 6}
    pl.DataFrame({**wide, "a": rng.normal(size=24), "b": rng.normal(size=24)}).write_csv(tmp_path / "w.csv")
    call = ["compare", tmp_path / "w.csv", "--targets", "a,b", "-p", "a", "-m", "pooled", "--folds", 2, "--json"]
    assert json.loads(good(*call, "--group", "batch").stdout)["features"] == ["x"]
    assert "'a', which is the target column" in run(*call, "-x", "a").stderr


def test_a_target_with_a_unit_is_read_as_numbers_as_inputs_are(tmp_path):
    table = schools()
    units = table.with_columns((pl.col("score") * 10 + 50).round(2).cast(pl.String) + " %")
    units = units.with_columns(score=pl.Series(["none", *units["score"][1:]]))
    units.write_csv(tmp_path / "t.csv")
    told = good("compare", tmp_path / "t.csv", *QUICK, "-p", "Hill")
    assert "the target 'score' is read as numbers with '%'" in " ".join(told.stderr.split())
    assert "1 row has no target." in told.stdout
    plain = (table["score"] * 10 + 50).round(2).to_list()
    found = borrow.compare(
        table.with_columns(score=pl.Series([None, *plain[1:]])), "score", "school", "Hill", ["pooled"], cv=(2, 1),
        features=["hours"],
    )  # fmt: skip
    same = json.loads(good("compare", tmp_path / "t.csv", *QUICK, "-p", "Hill", "--numbers", "--json").stdout)
    assert [r["error"] for r in same["table"]] == found.table()["error"]
    about = json.loads(good("fit", tmp_path / "t.csv", *FIT, "--save", tmp_path / "m", "--json").stdout)
    assert (about["kind"], about["without_target"]) == ("regression", 1)
    units.with_columns(score=pl.Series(["much", *units["score"][1:]])).write_csv(tmp_path / "odd.csv")
    odd = " ".join(run("compare", tmp_path / "odd.csv", *QUICK, "-p", "Hill").stderr.split())
    assert "'score' holds 'much' among numbers with '%'; correct it, or leave it empty" in odd
    few = table.with_columns(score=pl.Series(["5 mg", "10 mg", "placebo"] * 12))  # labels, by how few there are
    few.write_csv(tmp_path / "few.csv")
    about = json.loads(
        good("fit", tmp_path / "few.csv", *FIT, "-m", "pooled", "--save", tmp_path / "m", "--json").stdout
    )
    assert about["kind"] == "classification"
    assert borrow.store.load(tmp_path / "m").classes_.tolist() == ["10 mg", "5 mg", "placebo"]


def test_a_saved_model_remembers_the_primary(compared, place, tmp_path):
    saved, bare, candidates = tmp_path / "m", tmp_path / "bare.csv", place / "candidates.csv"
    assert borrow.store.describe(place / "winner.borrow")["primary"] == "St Mary"
    pl.DataFrame({"hours": [1.0, 4.0]}).write_csv(bare)
    joint = ["-x", "hours", "-m", "symmetric", "--target", "score", "--task", "school", "--save", saved]
    good("fit", place / "scores.csv", *joint)
    assert [run("predict", saved, bare).exit_code, run("suggest", saved, candidates).exit_code] == [2, 2]
    good("fit", place / "scores.csv", *joint, "-p", "Hill")
    assert re.search(r"^primary +Hill", good("info", saved).stdout, re.M)
    none, same, other = ([], ["-p", "Hill"], ["-p", "St Mary"])
    by_default, meant, others = (good("suggest", saved, candidates, *p, "--json").stdout for p in (none, same, other))
    assert by_default == meant != others
    assert good("predict", saved, bare).stdout == good("predict", saved, bare, "--as", "Hill").stdout


def test_intervals_have_two_digits_and_no_exponent_below_a_million():
    assert compare.between(-2449.7, 844.4) == "-2450 to 844"
    assert compare.between(-0.0, 2.345e6) == "0 to 2.3e+06"
    assert compare.between(float("nan"), float("nan")) == "-"


def test_info_shows_whole_numbers_in_full(tmp_path):
    (tmp_path / "t.csv").write_text("year,id,share\n2019,118234,0.12345\n2024,-999999999999999,123456.5\n")
    told = good("info", tmp_path / "t.csv").stdout
    assert "2019 to 2024" in told
    assert "-999999999999999 to 118234" in told
    assert "0.123 to 123456" in told


def test_labels_that_differ_in_case_alone_are_told(place, tmp_path):
    school = schools()["school"].to_list()
    schools().with_columns(school=pl.Series([*school[:-1], "HILL"])).write_csv(tmp_path / "t.csv")
    told = good("fit", tmp_path / "t.csv", *FIT, "-m", "pooled", "--save", tmp_path / "m").stderr
    assert (
        "labels of 'school' differ in upper and lower case alone, such as 'Hill', 'HILL', and are taken for different "
        "ones; write them alike where they are one"
    ) in " ".join(told.split())
    assert "case" not in good("fit", place / "scores.csv", *FIT, "-m", "pooled", "--save", tmp_path / "m").stderr


def test_errors_of_the_library_name_the_lines_of_a_text_file(tmp_path):
    scores = [str(v) for v in schools()["score"]]
    rows = [f"{s},{h},{y}" for s, h, y in zip(schools()["school"], schools()["hours"], scores, strict=True)]
    rows[4], rows[7] = "Hill,,0.5", "Hill,3,inf"
    (tmp_path / "t.csv").write_text("\n".join(["school,hours,score", rows[0], "", *rows[1:]]) + "\n")  # a blank line
    call = ["--target", "score", "--task", "school", "-p", "Hill"]
    for command, more in (("compare", []), ("fit", ["--save", tmp_path / "m"]), ("compare", ["--drop-missing"])):
        refused = run(command, tmp_path / "t.csv", *call, *more)
        assert refused.exit_code == 2
        assert "the target 'score' is infinite in line 10" in refused.stderr
    pl.read_csv(tmp_path / "t.csv").drop_nulls("score").write_parquet(tmp_path / "t.parquet")
    assert "the target 'score' is infinite in row 7" in run("compare", tmp_path / "t.parquet", *call).stderr


def test_only_rows_of_the_table_are_named_by_their_lines():
    """A label of the table may read like the place of a row that is not there."""
    lines = np.array([2, 3, 5])
    assert columns._name_lines("infinite in rows 0, 2", lines) == "infinite in lines 2, 5"
    assert columns._name_lines("'in row 70' is no task", lines) == "'in row 70' is no task"
