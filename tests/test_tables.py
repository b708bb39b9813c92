"""Tables as people have them, through the commands: text, dates and gaps, wide ones, classes that are numbers."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import borrow
from borrow.cli import output, predict, read
from borrow.cli.app import main

N = 45


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def good(*arguments):
    answer = run(*arguments)
    assert answer.exit_code == 0, answer.output
    return answer


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    days = np.arange(np.datetime64("2021-03-01"), np.datetime64("2021-03-01") + 9 * N, 9)
    ward, age = rng.choice(["heart", "lung", "bone"], N), rng.normal(60, 9, N).round()
    table = pl.DataFrame(
        {
            "hospital": ["north", "south", "west"] * (N // 3),
            "ward": [None if i % 11 == 3 else w for i, w in enumerate(ward.tolist())],
            "age": [None if i % 8 == 5 else a for i, a in enumerate(age.tolist())],
            "admitted": [str(d) for d in days],
            "days": (4 + 2 * (ward == "bone") + age / 30 + 0.1 * rng.normal(size=N)).round(2),
            "patient": [f"P{i:03d}" for i in range(N)],
        }
    )
    table.write_csv(folder / "stays.csv")
    table.drop("days").head(6).write_csv(folder / "new.csv")
    return folder


@pytest.fixture(scope="module")
def model(place):
    told = good(
        "fit", place / "stays.csv", "--target", "days", "--task", "hospital", "-m", "pooled", "--save", place / "m"
    )
    return place / "m", told


def test_info_knows_dates_and_does_not_take_them_for_tasks(place):
    told = good("info", place / "stays.csv").stdout
    assert re.search(r"^admitted +dates +0 +45 ", told, re.M)
    assert "could name the task: hospital, ward." in told
    assert re.search(r"^ward +4 levels, one column each", told, re.M)
    assert re.search(r"^age +5 gaps have the median", told, re.M)
    assert "whole numbers can name it too" in " ".join(told.split())
    about = {c["name"]: c["becomes"] for c in json.loads(good("info", place / "stays.csv", "--json").stdout)["columns"]}
    assert about["patient"].startswith("left out: it has a different text")
    assert about["days"] == "as it is"


def test_info_says_of_a_column_what_fit_would_refuse(tmp_path):
    (tmp_path / "t.csv").write_text("site;price;y\na;65,000;1,5\nb;60,000;2,5\n")
    about = {c["name"]: c["becomes"] for c in json.loads(good("info", tmp_path / "t.csv", "--json").stdout)["columns"]}
    refused = run("fit", tmp_path / "t.csv", "-y", "y", "-t", "site", "--save", tmp_path / "m")
    assert refused.exit_code == 2
    assert "is 65000 if the comma separates thousands" in about["price"]
    assert about["price"] in refused.stderr
    assert about["y"] == "as it is"


def test_a_table_with_the_index_of_pandas_goes_through_and_an_automatic_model_is_saved(tmp_path):
    rows = [f"{i},{'ab'[i % 2]},{(i * 7) % 11},{((i * 7) % 11) ** 2 + i % 3}" for i in range(24)]
    (tmp_path / "t.csv").write_text("\n".join([",site,x,y", *rows]))
    call = ["fit", tmp_path / "t.csv", "-y", "y", "-t", "site", "-p", "a", "--save", tmp_path / "m"]
    told = good(*call, "-m", "auto")
    assert "1 input, target 'y'" in told.stdout
    assert "the first column" in told.stderr
    about = json.loads(good("info", tmp_path / "m", "--json").stdout)
    assert (about["target"], about["primary"], about["method"] in borrow.transfer.methods.LABELS) == ("y", "a", True)
    said = good("predict", tmp_path / "m", tmp_path / "t.csv", "--output", tmp_path / "p.csv")
    assert "the first column" in said.stderr
    assert pl.read_csv(tmp_path / "p.csv").columns[:3] == ["site", "x", "y"]
    new = (tmp_path / "t.csv").read_text().replace("\n5,b,2,", "\n5,b,two,")
    (tmp_path / "new.csv").write_text(new)
    assert "in line 7)" in run("predict", tmp_path / "m", tmp_path / "new.csv").stderr
    refused = run("compare", tmp_path / "t.csv", *call[2:8], "--folds", "30", "--repeats", "2").stderr
    assert "--folds 30 --repeats 2: expected 2 to 12 folds" in refused
    assert "--minutes -1" in run("compare", tmp_path / "t.csv", *call[2:8], "--minutes", "-1").stderr


def test_errors_of_the_encoder_name_lines_of_new_rows(tmp_path):
    rows = [f"{'ab'[i % 2]},{i} kg,{i % 5}.5" for i in range(12)]
    (tmp_path / "t.csv").write_text("\n".join(["site,w,y", *rows]))
    good("fit", tmp_path / "t.csv", "-y", "y", "-t", "site", "-m", "pooled", "--save", tmp_path / "m")
    (tmp_path / "new.csv").write_text("site,w\na,3 kg\n\nb,5 lb\n")
    assert (
        "holds '5 lb' in line 4 where numbers with 'kg'" in run("predict", tmp_path / "m", tmp_path / "new.csv").stderr
    )
    assert "in line 4 where" in run("suggest", tmp_path / "m", tmp_path / "new.csv", "-p", "a").stderr


def test_an_order_may_name_levels_that_are_mostly_numbers(tmp_path):
    size = ["1", "2", "3", "4 door"] * 6
    rows = [f"{'ab'[i % 2]},{s},{(i * 7) % 5}.5" for i, s in enumerate(size)]
    (tmp_path / "t.csv").write_text("\n".join(["site,size,y", *rows]))
    call = ["fit", tmp_path / "t.csv", "-y", "y", "-t", "site", "-m", "pooled", "--save", tmp_path / "m"]
    assert "holds text ('4 door' in line 5)" in run(*call).stderr
    told = good(*call, "--order", "size=1,2,3,4 door")
    assert "ordered levels, from 0 for '1' to 3 for '4 door'" in " ".join(told.stdout.split())
    good("predict", tmp_path / "m", tmp_path / "t.csv", "--output", tmp_path / "p.csv")


def test_a_report_from_a_stored_comparison_is_told_the_orders_again(tmp_path):
    size = ["1", "2", "3", "4 door"] * 6
    rows = [f"{'ab'[i % 2]},{s},{(i * 7) % 5}.5" for i, s in enumerate(size)]
    (tmp_path / "t.csv").write_text("\n".join(["site,size,y", *rows]))
    order = ["--order", "size=1,2,3,4 door"]
    few = ["-m", "pooled", "--folds", "2", "--repeats", "1", "--store", tmp_path / "r.jsonl"]
    good("compare", tmp_path / "t.csv", "-y", "y", "-t", "site", "-p", "a", *few, *order)
    call = ["report", tmp_path / "r.jsonl", "--data", tmp_path / "t.csv", "--output", tmp_path / "page.html"]
    assert "'4 door'" in run(*call).stderr
    good(*call, *order)
    assert "--order 'size=1,2,3,4 door'" in borrow.report.read(tmp_path / "page.html")["made"]["command"]


def test_text_dates_and_gaps_are_fitted_announced_and_predicted(place, model):
    path, told = model
    shown = " ".join(told.stdout.split())
    assert "Column 'ward': 4 levels, one column each." in shown
    assert "Column 'age': 5 gaps have the median" in shown
    assert "Column 'admitted': dates, as days since 2021-03-01, and where in the week." in shown
    assert "left out" not in told.stderr  # it is said once, in the lines
    assert "Column 'ward': 4 levels" in good("info", path).stdout
    answer = good("predict", path, place / "new.csv")
    found = pl.read_csv(answer.stdout.encode())
    assert found.columns[:5] == ["hospital", "ward", "age", "admitted", "patient"]
    loaded = borrow.store.load(path)
    X = pl.read_csv(place / "new.csv").drop("patient")
    np.testing.assert_allclose(found["mean"], loaded.predict(X), rtol=1e-12)
    assert found["mean"].null_count() == 0  # a gap is no reason for an empty answer
    chosen = json.loads(good("suggest", path, place / "new.csv", "-p", "north", "-n", 2, "--json").stdout)["rows"]
    assert {r["ward"] for r in chosen} <= {"heart", "lung", "bone", None}


def test_units_times_and_an_order_that_is_given(tmp_path):
    rng = np.random.default_rng(0)
    level = rng.choice(["one", "two", "three"], 30)
    place = {"one": 0, "two": 1, "three": 2}
    rows = [
        f"{'ab'[i % 2]};{v};{h:02d}:30;{s:.1f} %;{place[v] + 0.1 * e:.2f}".replace(".", ",")
        for i, (v, h, s, e) in enumerate(
            zip(level, rng.integers(6, 12, 30), rng.uniform(1, 99, 30), rng.normal(size=30), strict=True)
        )
    ]
    (tmp_path / "t.csv").write_text("\n".join(["site;step;start;share;y", *rows]) + "\n")
    asked = ["fit", tmp_path / "t.csv", "-y", "y", "-t", "site", "-m", "pooled", "--save", tmp_path / "m"]
    told = good(*asked, "--order", "step=one,two,three").stdout
    assert "Column 'step': ordered levels, from 0 for 'one' to 2 for 'three'." in told
    assert "Column 'start': times of day, as hours." in told
    assert "Column 'share': numbers with '%'." in told
    mean = pl.read_csv(good("predict", tmp_path / "m", tmp_path / "t.csv", "--only").stdout.encode())["mean"]
    assert np.abs(mean.to_numpy() - [place[v] for v in level]).max() < 0.5
    kinds = {c["name"]: c["kind"] for c in json.loads(good("info", tmp_path / "t.csv", "--json").stdout)["columns"]}
    assert kinds == {"site": "text", "step": "text", "start": "times", "share": "numbers", "y": "numbers"}
    wrong = {
        "step=one,two": "lacks 'three', which the column holds",
        "step": "expected column=least",
        "stp=one,two": "did you mean 'step'",
    }
    for order, sentence in wrong.items():
        answer = run(*asked, "--order", order)
        assert answer.exit_code == 2
        assert sentence in answer.stderr


def test_a_saved_model_takes_the_file_in_its_own_order_with_other_columns(place, model, tmp_path):
    turned = pl.read_csv(place / "new.csv").select("admitted", "patient", "age", "hospital", "ward")
    turned.with_columns(more=pl.lit("x")).write_csv(tmp_path / "t.csv")
    want = pl.read_csv(good("predict", model[0], place / "new.csv", "--only").stdout.encode())
    assert pl.read_csv(good("predict", model[0], tmp_path / "t.csv", "--only").stdout.encode()).equals(want)
    frame = pl.read_csv(place / "stays.csv").drop("days")
    borrow.store.load(model[0]).predict(frame.select(reversed(frame.columns)))


def test_what_the_model_did_not_see_is_told(place, model, tmp_path):
    pl.read_csv(place / "new.csv").with_columns(ward=pl.lit("skin")).write_csv(tmp_path / "t.csv")
    answer = good("predict", model[0], tmp_path / "t.csv")
    assert "column 'ward' has 'skin' in 6 rows, which fit did not see" in answer.stderr
    (tmp_path / "t.csv").write_text("hospital,ward,age,admitted\nnorth,bone,old,2021-04-01\n")
    answer = run("predict", model[0], tmp_path / "t.csv")
    assert answer.exit_code == 2
    assert "column 'age' of" in answer.stderr
    assert "holds text ('old' in line 2)" in answer.stderr


def test_compare_reads_the_same_table_and_its_report_too(place, tmp_path):
    call = ["compare", place / "stays.csv", "--target", "days", "--task", "hospital", "--primary", "north"]
    call += ["--methods", "pooled", "--folds", 2, "--ignore", "patient", "--store", tmp_path / "s"]
    call += ["--save", tmp_path / "m"]
    told = json.loads(good(*call, "--report", tmp_path / "r.html", "--json").stdout)
    assert told["features"] == ["ward", "age", "admitted"]
    assert told["encoding"][0] == "Column 'ward': 4 levels, one column each."
    good("report", tmp_path / "s", "--data", place / "stays.csv", "--output", tmp_path / "r2.html")
    good("report", tmp_path / "m", "--data", place / "stays.csv", "--output", tmp_path / "r3.html")
    assert pl.read_csv(good("predict", tmp_path / "m", place / "new.csv", "--as", "north").stdout.encode()).height == 6


def test_tasks_never_seen_are_refused_or_answered_for(place, model, tmp_path):
    pl.read_csv(place / "new.csv").with_columns(hospital=pl.lit("nord")).write_csv(tmp_path / "t.csv")
    assert "did you mean 'north'?" in run("predict", model[0], tmp_path / "t.csv").stderr
    answer = good("predict", model[0], tmp_path / "t.csv", "--unseen", "population")
    assert (
        "fit never saw the task 'nord' (not 'north'?); the answer is that of the population of 3 tasks" in answer.stderr
    )
    assert pl.read_csv(answer.stdout.encode())["mean"].null_count() == 0
    assert (
        "--unseen 'all': expected error or population"
        in run("predict", model[0], place / "new.csv", "--unseen", "all").stderr
    )


@pytest.fixture(scope="module")
def wide(place):
    rng, x = np.random.default_rng(1), np.linspace(0, 6, 20)
    table = pl.DataFrame({"hour": x, "s1": np.sin(x), "s2": np.sin(x) + 0.2, "s3": np.cos(x)})
    table = table.with_columns(pl.col("s1", "s2", "s3") + 0.05 * rng.normal(size=20))
    table = table.with_columns(s1=pl.when(pl.col("hour") < 3).then("s1"))
    table.write_csv(place / "wide.csv")
    return table


def test_wide_tables_are_compared_and_fitted(place, wide, tmp_path):
    call = [
        "compare",
        place / "wide.csv",
        "--targets",
        "s1,s2,s3",
        "--primary",
        "s1",
        "--methods",
        "pooled",
        "--folds",
        2,
    ]
    told = json.loads(good(*call, "--store", tmp_path / "s", "--json").stdout)
    python = borrow.compare(wide, targets=["s1", "s2", "s3"], primary="s1", methods=["pooled"], cv=2)
    assert (told["digest"], told["features"]) == (python.digest, ["hour"])
    assert told["rows"] == [["s1", 10], ["s2", 20], ["s3", 20]]
    as_dict = {name: wide[name].to_list() for name in wide.columns}
    assert (
        borrow.compare(as_dict, targets=["s1", "s2", "s3"], primary="s1", methods=["pooled"], cv=2).digest
        == python.digest
    )
    good("report", tmp_path / "s", "--data", place / "wide.csv", "--output", tmp_path / "r.html")
    assert borrow.report.summary(python, table=wide)["predictions"]["form"] == "curve"
    good("fit", place / "wide.csv", "--targets", "s1,s2,s3", "-m", "single", "--save", tmp_path / "m")
    found = pl.read_csv(good("predict", tmp_path / "m", place / "wide.csv", "--only").stdout.encode())
    assert found.columns[:6] == ["s1_mean", "s1_std_function", "s1_std_measurement", "s1_low", "s1_high", "s2_mean"]
    wide.select("hour").write_csv(tmp_path / "hours.csv")  # one column, of a name that the model knows
    assert pl.read_csv(good("predict", tmp_path / "m", tmp_path / "hours.csv", "--only").stdout.encode()).equals(found)
    one = borrow.SingleTaskGPRegressor().fit(wide.select("hour"), wide.select("s1", "s2", "s3"))
    np.testing.assert_allclose(found["s2_mean"], one.predict(wide.select("hour"))[:, 1], atol=1e-10)


def test_wrong_calls_about_targets_are_answered(place, wide):
    for words, said in (
        (["--targets", "s1", "--primary", "s1"], "--targets names 's1'; give at least two columns"),
        (["--targets", "s1,s9"], "--targets 's9' is not a column"),
        (["--targets", "s1,s2", "--target", "s3"], "leave out --target and --task"),
        (["--task", "s1"], "--target is missing"),
        (["--target", "s1"], "--task is missing"),
    ):
        answer = run("compare", place / "wide.csv", *words)
        assert answer.exit_code == 2
        assert said in " ".join(answer.stderr.split()), answer.stderr
    with pytest.raises(ValueError, match="targets has a column per task; leave out target and task"):
        borrow.compare(wide, "s1", targets=["s2", "s3"])
    with pytest.raises(ValueError, match="give target= and task=, or targets="):
        borrow.compare(wide, "s1")
    with pytest.raises(ValueError, match="expected at least two different columns"):
        borrow.compare(wide, targets=["s2", "s2"])


def test_whole_numbers_that_may_be_labels_are_asked_about(tmp_path):
    rng = np.random.default_rng(2)
    grade = rng.integers(1, 4, 60)
    table = pl.DataFrame({"x": (grade + rng.normal(size=60)).round(3), "g": ["a", "b"] * 30, "grade": grade})
    table.write_csv(tmp_path / "t.csv")
    call = [
        "fit",
        tmp_path / "t.csv",
        "--target",
        "grade",
        "--task",
        "g",
        "-m",
        "pooled",
        "--save",
        tmp_path / "m",
        "--json",
    ]
    for words in ([], ["--labels", "--numbers"]):
        answer = run(*call, *words)
        assert answer.exit_code == 2
        assert "--labels" in answer.stderr
        assert "--numbers" in answer.stderr
    assert json.loads(good(*call, "--labels").stdout)["kind"] == "classification"
    assert json.loads(good(*call, "--numbers").stdout)["kind"] == "regression"
    with pytest.warns(UserWarning, match="'grade' is taken for numbers; kind='classification' if"):
        found = borrow.compare(table, "grade", "g", "a", methods=["pooled"], cv=2)
    assert found.kind == "regression"
    borrow.compare(table, "grade", "g", "a", methods=["pooled"], cv=2, kind="regression")  # said outright: no warning


def test_portions_of_a_file_are_written_as_they_come(place, model, tmp_path, monkeypatch):
    whole = good("predict", model[0], place / "stays.csv", "--prefix", "p_").stdout
    monkeypatch.setattr(read, "BLOCK", 256)
    monkeypatch.setattr(predict, "PORTION", 3)
    for name in ("p.csv", "p.parquet"):
        good("predict", model[0], place / "stays.csv", "--prefix", "p_", "--output", tmp_path / name)
    want = pl.read_csv(whole.encode())
    found = pl.read_csv(tmp_path / "p.csv")
    assert found.columns == want.columns
    assert found["patient"].to_list() == want["patient"].to_list()
    np.testing.assert_allclose(found["p_mean"], want["p_mean"], rtol=1e-12)
    assert pl.read_parquet(tmp_path / "p.parquet").shape == want.shape
    (tmp_path / "bad.csv").write_text((place / "stays.csv").read_text() + "east,bone,60,2021-01-01,1,P999\n")
    answer = run("predict", model[0], tmp_path / "bad.csv", "--output", tmp_path / "q.csv")
    assert f"which the model does not know, in line {N + 2}" in answer.stderr
    assert not (tmp_path / "q.csv").exists()


def test_portions_without_any_whole_row_are_kept(place, tmp_path, monkeypatch):
    lines = ["x,t,y", *(f"{i / 7:.3f},{'ab'[i % 2]},{np.sin(i):.3f}" for i in range(12))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    good("fit", tmp_path / "t.csv", "--target", "y", "--task", "t", "-m", "single", "--save", tmp_path / "m")
    (tmp_path / "n.csv").write_text("x,t\n" + ",a\n" * 30 + "1,a\n" * 3 + ",b\n" * 30)
    monkeypatch.setattr(read, "BLOCK", 64)
    answer = good("predict", tmp_path / "m", tmp_path / "n.csv")
    found = pl.read_csv(answer.stdout.encode())
    assert found["mean"].is_null().to_list() == [True] * 30 + [False] * 3 + [True] * 30
    assert "60 of 63 rows lack an input" in answer.stderr


def test_progress_is_told_in_lines_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(output, "FIRST_LINE", 0.0)
    monkeypatch.setattr(output, "NEXT_LINE", 1000.0)
    with output.progress("fit") as told:
        for done in range(1, 4):
            told(done, 40)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("borrow: fit 1 of 40; 0 s, about ")


def test_a_terminated_comparison_leaves_a_store_that_the_same_call_goes_on_from(place, tmp_path):
    table = pl.read_csv(place / "stays.csv").select("hospital", "days", "age").drop_nulls()
    table.write_csv(tmp_path / "t.csv")
    code = (
        "import time; import borrow.transfer.folds as folds; from borrow.cli.app import main\n"
        "score = folds.score_numbers\n"
        "def slow(*given):\n    time.sleep(0.4); return score(*given)\n"
        "folds.score_numbers = slow; main()"
    )
    call = ["compare", "t.csv", "--target", "days", "--task", "hospital", "--primary", "north", "--methods", "pooled"]
    call += ["--folds", "4", "--json"]
    start = [sys.executable, "-c", code, *call]
    first = subprocess.Popen(start, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    left = None
    until = time.monotonic() + 300
    while time.monotonic() < until and first.poll() is None:
        left = next(iter(tmp_path.glob(".borrow-*.jsonl")), None)
        if left is not None and left.read_text().count("\n") >= 3:
            break
        time.sleep(0.1)
    first.send_signal(signal.SIGTERM)
    said = first.communicate(timeout=300)[1]
    assert first.returncode == 130
    assert "Traceback" not in said
    assert said.strip().splitlines()[-1] == f"borrow: interrupted; the same command goes on from {left.name!r}"
    done = left.read_text().count("\n") - 1
    quick = [sys.executable, "-c", "from borrow.cli.app import main; main()", *call]
    second = subprocess.run(quick, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert second.returncode == 0, second.stderr
    assert f"going on from {left.name!r}" in second.stderr
    assert done >= 2
    assert not left.exists()  # it is of no use any more
