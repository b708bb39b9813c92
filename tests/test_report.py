"""The report as data and as text; `test_report_browser.py` looks at it in a real browser."""

import base64
import json
import re
import shlex
import subprocess
import sys
import warnings
from contextlib import nullcontext
from html.parser import HTMLParser
from importlib import resources
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.linear_model import LinearRegression
from sklearn.metrics import brier_score_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from typer.testing import CliRunner

import borrow
import report_samples as samples
from borrow import report
from borrow.cli.app import main
from borrow.data.plain import to_json
from borrow.estimators.view import Points, Predictor, remembered
from borrow.report import calibration, content, page, svg
from borrow.report.format import aligned, number, shortened, tick_labels
from borrow.report.predictions import effects, predictions
from borrow.transfer.compare import compare
from borrow.transfer.folds import score_labels
from borrow.transfer.problem import read_problem
from borrow.transfer.references import LogisticReference, RidgeReference
from borrow.transfer.verdict import Verdict

SAMPLES = ["regression", "hostile", "curve", "surface", "classification", "every_task"]


def make_table(d=1, n=14, seed=0, kind="regression", tasks=("a", "b", "c")):
    """A dict of columns: a function shared by all tasks, noise, and the first task with a few rows."""
    rng = np.random.RandomState(seed)
    columns = {f"x{j + 1}": [] for j in range(d)} | {"task": [], "y": []}
    for i, task in enumerate(tasks):
        rows = 12 if i == 0 else n
        X = rng.uniform(-2, 2, (rows, d))
        f = np.sin(1.5 * X[:, 0]) + 0.3 * X.sum(axis=1)
        y = f + 0.1 * rng.randn(rows)
        for j in range(d):
            columns[f"x{j + 1}"] += X[:, j].tolist()
        columns["task"] += [task] * rows
        columns["y"] += (y if kind == "regression" else np.where(y > 0, "yes", "no")).tolist()
    return columns


@pytest.fixture(scope="module")
def compared():
    table = make_table()
    return table, compare(table, "y", "task", "a", ["pooled", "focused"], cv=(3, 1), leave_out=True)


@pytest.fixture(scope="module")
def summary(compared):
    table, comparison = compared
    return report.summary(comparison, table=table, command="borrow compare 'my data.csv'")


def strict(content):
    """Through JSON and back, where NaN is an error."""
    return json.loads(json.dumps(content, allow_nan=False))


def test_summary_goes_through_json_unchanged(summary):
    assert strict(summary) == summary


def test_summary_says_what_the_comparison_says(summary, compared):
    _, comparison = compared
    part, verdict = summary["parts"][0], comparison.verdict()
    assert part["verdict"]["answer"] == verdict.answer
    assert part["verdict"]["difference"] == verdict.difference
    assert part["verdict"]["advice"] == [verdict.because, *verdict.advice]
    table = comparison.table()
    assert [r["error"] for r in part["comparison"]["rows"]] == list(table["error"])
    assert [r["label"] for r in part["comparison"]["rows"]] == [
        "no transfer",
        "mean of the primary",
        "ridge on the primary",
        "ridge with a slope per task",
        "pooled",
        "focused GP",
    ]
    assert {r["task"] for r in part["secondaries"]["rows"]} == {"b", "c"}
    assert all(r["gain"] is not None for r in part["secondaries"]["rows"])
    made = summary["made"]
    assert comparison.digest in made["digest"]
    assert made["command"] == "borrow compare 'my data.csv'"
    assert made["seconds"] == pytest.approx(sum(r["seconds"] for r in comparison.records))


def test_headline_and_interval_agree_with_the_numbers(summary):
    verdict = summary["parts"][0]["verdict"]
    rows = {r["method"]: r for r in summary["parts"][0]["comparison"]["rows"]}
    assert number(rows[verdict["alone"]]["error"]) in verdict["interval"]
    assert number(rows[verdict["method"]]["error"]) in verdict["interval"]
    if verdict["answer"] == "helps":
        share = 100 * -verdict["difference"] / rows[verdict["alone"]]["error"]
        assert f"{share:.0f} % less error" in verdict["headline"]


@pytest.mark.parametrize(
    ("answer", "numbers", "headline", "interval"),
    [
        ("helps", (-0.2, -0.3, -0.1), "helps a: 25 % less error with the focused GP.", "between 0.10 and 0.30 less"),
        ("hurts", (0.4, 0.2, 0.6), "hurts a: 50 % more error with the focused GP.", "between 0.20 and 0.60 more"),
        ("helps", (-0.2, -0.5, 0.1), "helps a: 25 % less error with", "0.10 more (95 % interval over 10 folds). P("),
        ("cannot tell", (0.1, -0.1, 0.3), "Cannot tell whether", "folds), so there may be none. P("),
        ("cannot tell", (0.1, -0.1, 0.3), "Cannot tell whether", "from 0.10 less to 0.30 more"),
        ("cannot tell", (0.0, 0.0, 0.0), "Cannot tell whether", "borrowed nothing in any of 10 folds"),
        ("cannot tell", (np.nan, np.nan, np.nan), "Cannot tell whether", "The sentence itself"),
    ],
)
def test_verdict_in_plain_words(answer, numbers, headline, interval):
    names = dict(zip(("difference", "low", "high"), numbers, strict=True))
    names |= {"probability": 0.7, "rope": 0.01, "alone": "single", "weights": {}, "because": ""}
    names |= {"error": 0.6, "by_all_rows": False}
    verdict = SimpleNamespace(answer=answer, primary="a", best="focused", level=0.95, folds=10, advice=[], **names)
    verdict.sentence = "the sentence itself"
    said = content.verdict_words(verdict, 0.8, "mean absolute error")
    assert headline in said["headline"]
    assert interval in said["interval"]
    verdict.by_all_rows, verdict.error = True, 0.8 + numbers[0]
    assert content.verdict_words(verdict, 0.8, "")["headline"] == headline_at_new_rows(said["headline"])


def headline_at_new_rows(headline):
    """A share of the error that was not seen in folds is one to be expected."""
    return re.sub(r": (\d+ % \w+ error) with", r": expect \1 at new rows with", headline)


def test_coverage_counts_the_rows_inside_the_band(compared):
    _, comparison = compared
    records = comparison.folds("a", "focused")
    found = calibration.coverage({"focused": records}, {"focused": "focused GP"}, "focused")
    inside = total = 0
    for r in records:  # row by row, as it is said
        for y, mean, std in zip(r["y"], r["mean"], r["std"], strict=True):
            inside += abs(y - mean) <= 1.6448536269514722 * std
            total += 1
    assert found["methods"][0]["share"][found["levels"].index(0.9)] == pytest.approx(inside / total)
    assert found["n"] == 12


def test_reliability_bins_hold_every_row_once():
    rng = np.random.RandomState(0)
    p = rng.uniform(size=200)
    true = rng.uniform(size=200) < p
    bins = calibration.bins_of(p, true, 1)
    assert sum(b["n"] for b in bins) == 200
    assert len(bins) == calibration.BINS
    assert all(b["low"] <= b["observed"] <= b["high"] for b in bins)
    assert np.average([b["observed"] for b in bins], weights=[b["n"] for b in bins]) == pytest.approx(true.mean())
    assert len(calibration.bins_of(p[:5], true[:5], 1)) == 1


def test_wilson_interval_against_tables():
    assert calibration.wilson(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert calibration.wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)


def test_curves_are_the_models_predictions(summary, compared):
    table, comparison = compared
    part = summary["predictions"]
    assert part["form"] == "curve"
    panel = part["panels"][0]
    assert panel["task"] == "a"
    at = [i for i, t in enumerate(table["task"]) if t == "a"]
    assert panel["points"]["x"] == [table["x1"][i] for i in at]
    problem = read_problem(table, "y", "task")
    model = problem.fit(comparison.verdict().method, "a", comparison.seed)
    grid = np.array(panel["x"])[:, None]
    mean, std = model.predict(grid, tasks=["a"] * len(grid), return_std=True)
    np.testing.assert_allclose(panel["mean"], mean)
    np.testing.assert_allclose(panel["high"], mean + 1.6448536269514722 * std)


@pytest.mark.parametrize("form", ["frame", "array", "tasks", "wide"])
def test_a_model_is_asked_the_same_however_it_was_fitted(form):
    pd = pytest.importorskip("pandas")
    table = make_table(d=2)
    X = np.column_stack([table["x1"], table["x2"]])
    y, tasks = np.array(table["y"]), table["task"]
    plain = borrow.MultiTaskGPRegressor(max_iter=100).fit(X, y, tasks=tasks)
    if form == "frame":
        frame = pd.DataFrame({"x1": X[:, 0], "task": tasks, "x2": X[:, 1]})
        model = borrow.MultiTaskGPRegressor("task", max_iter=100).fit(frame, y)
    elif form == "array":
        rows = np.column_stack([np.array(tasks, dtype=object), X.astype(object)])
        model = borrow.MultiTaskGPRegressor(0, max_iter=100).fit(rows, y)
    elif form == "wide":
        wide = np.where(np.array(tasks)[:, None] == np.array(["a", "b", "c"]), y[:, None], np.nan)
        model = borrow.MultiTaskGPRegressor(max_iter=100).fit(X, pd.DataFrame(wide, columns=["a", "b", "c"]))
    else:
        model = plain
    new = np.random.RandomState(1).randn(4, 2)
    expected = plain.predict(new, tasks=["b"] * 4, return_cov=True)
    found = Predictor.of(model).ask(new, "b", full=True)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_effect_of_a_switch_is_the_average_difference_and_its_band_is_exact():
    rng = np.random.RandomState(3)
    X = np.column_stack([rng.randint(0, 2, 30), rng.randn(30), rng.randn(30)]).astype(float)
    y = 2.0 * X[:, 0] + X[:, 1] + 0.1 * rng.randn(30)
    model = borrow.SingleTaskGPRegressor().fit(X, y)
    predictor, points = Predictor.of(model), Points(X, y, (0,) * 30)
    found = effects(predictor, points, 0, "y", None)
    (switch,) = found["switches"]
    on, off = X.copy(), X.copy()
    on[:, 0], off[:, 0] = 1.0, 0.0
    mean, covariance = model.predict(np.vstack([on, off]), return_cov=True)
    draws = np.random.RandomState(0).multivariate_normal(mean, covariance, 4000)  # functions, not formulas
    effect = draws[:, :30].mean(axis=1) - draws[:, 30:].mean(axis=1)
    assert switch["value"] == pytest.approx(mean[:30].mean() - mean[30:].mean())
    assert (switch["high"] - switch["low"]) / 2 == pytest.approx(1.645 * effect.std(), rel=0.05)
    assert [c["feature"] for c in found["curves"]] == ["input 2", "input 3"]  # largest first
    assert np.mean(found["curves"][0]["mean"]) == pytest.approx(0.0, abs=1e-9)


def test_effects_on_a_probability_have_bands_that_hold_those_of_drawn_functions():
    rng = np.random.RandomState(4)
    X = np.column_stack([rng.randint(0, 2, 40), rng.randn(40), rng.randn(40)]).astype(float)
    y = np.where(2.0 * X[:, 0] + X[:, 1] - 1.0 + 0.5 * rng.randn(40) > 0, "yes", "no")
    model = borrow.SingleTaskGPClassifier().fit(X, y)
    part = predictions(Predictor.of(model), Points(X, np.full(40, np.nan), (0,) * 40), 0, "y", None, [])
    (switch,) = part["switches"]
    on, off = X.copy(), X.copy()
    on[:, 0], off[:, 0] = 1.0, 0.0
    p = model.predict_proba(np.vstack([on, off]))[:, 1]
    latent = model.fitted_.model[0]
    f = latent.posterior.predict(np.vstack([on, off]), np.zeros(80, dtype=np.intp), True)
    draws = ndtr(rng.multivariate_normal(f.mean + latent.bias[0], f.covariance, 3000))  # functions, not formulas
    effect = draws[:, :40].mean(axis=1) - draws[:, 40:].mean(axis=1)
    assert switch["value"] == pytest.approx(p[:40].mean() - p[40:].mean())
    assert (switch["high"] - switch["low"]) / 2 == pytest.approx(1.645 * effect.std(), rel=0.15)
    assert "change of the average probability of yes" in part["switch_caption"].lower()
    assert all(c["low"] is not None for c in part["curves"])
    assert part["notes"] == []


def test_map_stands_the_right_way_up():
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 1, (40, 2))
    model = borrow.SingleTaskGPRegressor().fit(X, 5.0 * X[:, 1] + X[:, 0])  # grows up, and a little to the right
    part = predictions(Predictor.of(model), Points(X, X[:, 1], (0,) * 40), 0, "y", None, [])
    mean = np.array(part["mean"])
    assert part["form"] == "map"
    assert mean[-1].mean() > mean[0].mean() + 3
    assert mean[:, -1].mean() > mean[:, 0].mean()
    sample = samples.surface()
    sample["predictions"].update(to_json(part))
    root = ElementTree.fromstring(
        re.search(r"<svg.*?class=\"figure tall\".*?</svg></div>", page.render(sample))[0][:-6]
    )
    cells = [c for c in root.iter() if c.get("class") == "surface mean"]
    upper = [float(c.get("fill-opacity")) for c in cells if c.get("y") == "0"]
    lower = [float(c.get("fill-opacity")) for c in cells if c.get("y") == "23"]
    assert min(upper) > max(lower)


def test_correlations_of_both_models():
    table = make_table(d=1)
    X, tasks = np.array(table["x1"])[:, None], table["task"]
    symmetric = borrow.MultiTaskGPRegressor(max_iter=100).fit(X, table["y"], tasks=tasks)
    R = symmetric.task_correlations_
    found = content.correlations(Predictor.of(symmetric), "b")
    assert found["tasks"][0] == "b"
    i, j = list(symmetric.tasks_).index("b"), list(symmetric.tasks_).index(found["tasks"][1])
    assert found["values"][0][1] == pytest.approx(R[i, j], abs=1e-3)
    focused = content.shared_correlations(["p", "q", "r"], np.array([1.0, 0.5, -0.5]), "p")
    assert focused["tasks"] == ["p", "q", "r"]
    assert focused["values"] == [[1.0, 0.5, -0.5], [0.5, 1.0, -0.25], [-0.5, -0.25, 1.0]]


def test_a_model_alone_has_a_report():
    table = make_table(d=1)
    X = np.array(table["x1"])[:, None]
    model = borrow.FocusedGPRegressor(primary="a").fit(X, table["y"], tasks=table["task"])
    found = report.summary(model=model)
    assert strict(found) == found
    assert found["parts"][0]["verdict"] is None
    assert found["predictions"]["form"] == "curve"
    text = page.render(found)
    assert "Not compared" in text
    np.testing.assert_allclose(sorted(remembered(Predictor.of(model)).y), sorted(table["y"]))


def test_an_auto_estimator_brings_its_comparison():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(make_table(d=2))
    model = borrow.AutoRegressor(task="task", primary="b", methods=["pooled"], cv=(3, 1))
    model.fit(table[["x1", "x2", "task"]], table["y"])
    found = report.summary(model=model, table=table)
    assert [p["primary"] for p in found["parts"]] == ["b"]
    assert found["parts"][0]["verdict"]["answer"] == model.verdict_.answer
    assert found["predictions"]["form"] == "map"
    assert Predictor.of(model).primary == "b"


def test_a_reference_that_is_advised_is_drawn_alike_from_everywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(Verdict, "method", "ridge")
    frame = pd.DataFrame(make_table(d=1)).rename(columns={"task": "who"}).round(3)
    found = compare(frame, "y", "who", "a", ["pooled"], cv=(3, 1), store=tmp_path / "run")
    said = report.summary(found, table=frame)
    assert said["predictions"]["label"] == "ridge on the primary"
    assert said["predictions"]["panels"][0]["low"] is None  # it has no distribution of functions
    assert said["predictions"]["panels"][0]["alone"]["low"] is not None
    page.render(said)
    frame.to_csv(tmp_path / "t.csv", index=False)
    files = ["--data", f"{tmp_path}/t.csv", "--output", f"{tmp_path}/page.html"]
    told = CliRunner().invoke(main, ["report", f"{tmp_path}/run", *files, "--json"])
    assert json.loads(told.stdout)["predictions"] == said["predictions"]


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("form", ["mean", "ridge", "tasks"])
@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_references_have_no_bands(form, d, kind):
    found = read_problem(make_table(d=d, kind=kind), "y", "task")
    reference = RidgeReference if kind == "regression" else LogisticReference
    model = found.fitted(reference(form=form, only="a" if form != "tasks" else None))
    drawn = to_json(predictions(Predictor.of(model), content.points_of(found), "a", "y", None, []))
    assert strict(drawn) == drawn
    assert "Band" not in str(drawn)


@pytest.mark.parametrize("given", [{"features": ["x"]}, {}])
def test_groups_of_a_wide_table_are_known_again(given):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, 24)
    table = {"x": x, "day": np.arange(24) // 3, "two": np.cos(x), "one": np.sin(3 * x)}
    found = borrow.compare(table, targets=["two", "one"], primary="one", group="day", methods=["pooled"], cv=2, **given)
    assert report.summary(found, table=table)["predictions"]["form"] == "curve"


REGRESSORS = ["SingleTaskGP", "PooledGP", "MultiTaskGP", "HierarchicalGP", "MultiTaskRBF", "MultiTaskIVM", "FocusedGP"]


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_regressor_has_a_report(name, d):
    table = make_table(d=d, n=10, tasks=(3, 1, 2))  # labels may be numbers
    X = np.column_stack([table[f"x{j + 1}"] for j in range(d)])
    settings = {"primary": 3} if name == "FocusedGP" else {}
    if name not in ("HierarchicalGP", "MultiTaskRBF", "MultiTaskIVM"):
        settings["optimizer"] = None
    model = getattr(borrow, f"{name}Regressor")(**settings).fit(X, table["y"], tasks=table["task"])
    found = report.summary(model=model, target="y")
    assert strict(found) == found
    page.render(found)
    assert found["predictions"]["form"] == {1: "curve", 2: "map", 3: "effects"}[d]


@pytest.mark.parametrize("constant", ["y", "x1"])
def test_constant_columns_are_drawn(constant):
    table = {**make_table(d=1), constant: [1.5] * 40}
    X = np.array(table["x1"])[:, None]
    warned = pytest.warns(UserWarning, match="are all equal") if constant == "y" else nullcontext()
    with warned:
        model = borrow.SingleTaskGPRegressor(optimizer=None).fit(X, table["y"], tasks=table["task"])
    text = page.render(report.summary(model=model))
    assert "What the model says" in text
    assert not re.search(r"\bnan\b", text[text.index("<main") : text.index("<script")])


def test_no_primary_is_every_task_in_turn():
    table = make_table(d=1, n=12)
    comparison = compare(table, "y", "task", None, ["pooled"], cv=(3, 1), leave_out=False)
    found = report.summary(comparison, table=table)
    assert strict(found) == found
    assert [p["primary"] for p in found["parts"]] == ["a", "b", "c"]
    assert found["predictions"] is None
    assert "Every task in turn" in page.render(found)


@pytest.mark.parametrize("there", [0, 1, 5])
def test_an_unfinished_comparison_says_so(compared, there):
    stored = compared[1].to_dict()
    comparison = type(compared[1]).from_dict({**stored, "records": stored["records"][:there], "relations": []})
    found = report.summary(comparison)
    assert strict(found) == found
    assert found["parts"][0]["comparison"]["notes"][0].startswith(f"Not finished: {there} of 18 fits")
    assert "Cannot tell whether" in page.render(found)


def test_several_classes():
    table = make_table(d=1, n=20)
    table["y"] = [["low", "middle", "high"][int(np.digitize(v, [-0.5, 0.5]))] for v in table["y"]]
    comparison = compare(table, "y", "task", "b", ["pooled"], cv=(3, 1), leave_out=False)
    found = report.summary(comparison, table=table)
    assert strict(found) == found
    assert "of the class predicted" in found["parts"][0]["calibration"]["lead"]
    panel = found["predictions"]["panels"][0]
    assert (np.array(panel["low"]) <= panel["mean"]).all()
    assert max(panel["high"]) <= 1.0
    page.render(found)


def test_rows_without_a_target_are_suggested_first(compared):
    table = {k: list(v) for k, v in compared[0].items()}
    table["y"][20] = float("nan")  # a row of task b, not measured yet
    comparison = compare(table, "y", "task", "a", ["focused"], cv=(3, 1), leave_out=False)
    model = borrow.FocusedGPRegressor(primary="a").fit(np.array(table["x1"])[:, None], table["y"], tasks=table["task"])
    found = report.summary(comparison, model, table)
    assert [row[1] for row in found["suggestions"]["rows"]] == ["b"]
    assert report.summary(comparison, model, table, suggestions=False)["suggestions"] is None


def test_every_report_chooses_what_to_measure_next_alike(tmp_path):
    """With a comparison, for a model alone, and from the command line; text stands as it was in the table."""
    random = np.random.default_rng(3)
    x, who = random.uniform(-1, 1, 30).round(3), np.repeat(["a", "b"], [10, 20])
    dose = np.where(x > 0.3, "high", "low")
    frame = pd.DataFrame(
        {"x": x, "dose": dose, "who": who, "y": (np.sin(3 * x) + 0.1 * random.normal(size=30)).round(3)}
    )
    found = compare(frame, "y", "who", "a", ["focused"], cv=(2, 1), leave_out=False)
    model = read_problem(frame, "y", "who").fit("focused", "a")
    said = report.summary(found, model, frame)["suggestions"]
    assert {row[said["columns"].index("dose")] for row in said["rows"]} <= {"high", "low"}
    assert {row[1] for row in said["rows"]} == {"a"}
    assert report.summary(model=model, table=frame, target="y")["suggestions"] == said
    frame.to_csv(tmp_path / "t.csv", index=False)
    borrow.store.save(model, tmp_path / "m", {"target": "y"})
    files = ["--data", f"{tmp_path}/t.csv", "--output", f"{tmp_path}/page.html"]
    told = CliRunner().invoke(main, ["report", f"{tmp_path}/m", *files, "--json"])
    assert json.loads(told.stdout)["suggestions"] == said


def test_classification_report():
    table = make_table(d=3, kind="classification")
    comparison = compare(table, "y", "task", "a", ["pooled"], cv=(3, 1), leave_out=False)
    found = report.summary(comparison, table=table)
    assert strict(found) == found
    assert found["parts"][0]["calibration"]["form"] == "reliability"
    assert found["predictions"]["target"] == "probability of yes"
    curve = found["predictions"]["curves"][0]
    assert all(low < mean < high for low, mean, high in zip(curve["low"], curve["mean"], curve["high"], strict=True))
    assert "Can the probabilities be trusted?" in page.render(found)


@pytest.mark.parametrize("d", [1, 2])
def test_curves_and_maps_of_a_probability_say_how_sure_they_are(d):
    table = make_table(d=d, kind="classification")
    comparison = compare(table, "y", "task", "a", ["pooled"], cv=(3, 1), leave_out=False)
    found = report.summary(comparison, table=table)["predictions"]
    if d == 1:
        low, mean, high = (np.array(found["panels"][0][name]) for name in ("low", "mean", "high"))
        assert ((low >= 0) & (low <= mean) & (mean <= high) & (high <= 1)).all()
        assert (high - low).max() > 0.3
        assert "90 % for the probability" in found["caption"]
    else:
        assert 0 < np.min(found["std"]) < np.max(found["std"]) < 0.5
        assert "half the width of a 68 % band" in found["std_heading"]


def test_suggestions_become_a_table(compared):
    _, comparison = compared
    suggestions = {"rank": [1, 2], "row": [4, 0], "task": ["a", "b"], "x0": [0.5, 1.0], "reduction": [0.2, 0.1]}
    suggestions |= {"cost": [1.0, 1.0], "reduction_per_cost": [0.2, 0.1], "remaining": [0.3, 0.2]}
    found = report.summary(comparison, suggestions=suggestions)["suggestions"]
    assert found["columns"] == ["rank", "task", "x1", "reduction", "remaining"]
    assert found["rows"][1] == [2, "b", 1.0, 0.1, 0.2]
    many = {"rank": [1], **{f"flag {j}": [j % 2] for j in range(6)}, "reduction": [0.1]}
    found = content.suggested(many, [f"flag {j}" for j in range(6)])
    assert found["rows"] == [[1, "flag 1, flag 3, flag 5", 0.1]]
    mixed = {"a": ["3.5 mg"], "b": [0.25], "c": [np.float64(1966.0)], "d": ["red"], "e": [None]}
    found = content.suggested({"rank": [1], **mixed, "reduction": [0.1]}, list(mixed))
    assert found["rows"] == [[1, "a 3.5 mg, b 0.250, c 1966, d red, e \u2013", 0.1]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "nothing to report on"),
        ({"comparison": {"records": []}}, "expected what borrow.compare returned"),
        ({"model": object()}, "expected a fitted estimator"),
        ({"model": borrow.FocusedGPRegressor()}, "not fitted"),
    ],
)
def test_wrong_calls_are_answered_in_a_sentence(arguments, words):
    with pytest.raises(ValueError, match=words):
        report.summary(**arguments)


def test_other_data_than_those_compared_are_refused(compared):
    table, comparison = compared
    other = {**table, "y": [v + 1.0 for v in table["y"]]}
    with pytest.raises(ValueError, match="not the data that were compared"):
        report.summary(comparison, table=other)


def test_a_problem_that_was_read_already_is_the_table(compared, summary):
    table, comparison = compared
    problem = read_problem(table, "y", "task")
    found = report.summary(comparison, table=problem)
    assert {k: v for k, v in found.items() if k != "made"} == {k: v for k, v in summary.items() if k != "made"}
    with pytest.raises(ValueError, match="not the data that were compared"):
        report.summary(comparison, table=problem.take(range(1, len(problem.y))))


def test_asking_a_model_of_a_frame_is_no_warning_of_the_report():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(make_table())
    found = report.summary(compare(table, "y", "task", "a", ["pooled"], cv=(3, 1), leave_out=False), table=table)
    assert found["suggestions"]["rows"]  # asked with arrays, whose columns have no names
    assert found["made"]["warnings"] == []


def test_a_newer_summary_is_refused_with_a_sentence(tmp_path):
    newer = {**samples.regression(), "version": 2, "borrow": "9.1"}
    with pytest.raises(ValueError, match=r"made by a newer borrow \(9.1, .*update borrow"):
        report.write(tmp_path / "report.html", newer)
    assert not list(tmp_path.iterdir())
    for strange in ({}, {"format": "other"}, {"format": "borrow.report", "version": "1"}, []):
        with pytest.raises(ValueError, match="summary"):
            page.render(strange)


def test_written_pages_are_read_back(tmp_path):
    summary = samples.regression()
    path = report.write(tmp_path / "report.html", summary)
    assert report.read(path) == summary
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    newer = path.read_text().replace('"version":1', '"version":7')
    path.write_text(newer)
    with pytest.raises(ValueError, match="newer borrow"):
        report.read(path)
    path.write_text("<p>hello</p>")
    with pytest.raises(ValueError, match="no report of borrow"):
        report.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text"):
        report.read(path)
    with pytest.raises(OSError, match="cannot write the report"):
        report.write(tmp_path / "nowhere" / "report.html", summary)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        report.write(tmp_path, summary)


class Reader(HTMLParser):
    """Elements, attributes and ids of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.ids += [value for name, value in attrs if name == "id"]


@pytest.mark.parametrize("name", SAMPLES)
def test_page_holds_no_foreign_element_and_no_style_attribute(name):
    text = page.render(getattr(samples, name)())
    reader = Reader()
    reader.feed(text)
    assert not {"img", "iframe", "object", "embed", "link", "b", "form", "base"} & set(reader.tags)
    assert reader.tags.count("script") == 2  # the data and ours
    assert not [a for a in reader.attributes if a == "style" or a.startswith("on")]
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(re.fullmatch(r"[a-z]+(-\d+)?(-title|-text)?", i) for i in reader.ids)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    shown = re.sub(r"<[^>]*>", " ", text[text.index("<main") : text.index("</main>")]).lower().split()
    assert not {"nan", "none", "inf"} & set(shown)


def test_hostile_names_stay_text():
    text = page.render(samples.hostile())
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "49" not in re.search(r"<h1>.*?</h1>", text)[0]
    assert "{{ 7*7 }}" in text.replace("&#39;", "'")
    assert "\u202e" not in text  # would turn what follows it
    text.encode("utf-8")  # halves of surrogate pairs are gone


@pytest.mark.parametrize("name", SAMPLES)
def test_every_figure_has_a_text_alternative(name):
    text = page.render(getattr(samples, name)())
    drawn = re.findall(
        r'<svg xmlns="[^"]*" role="img".*?<title id="([^"]+)">([^<]+)</title><desc id="([^"]+)">([^<]+)<', text
    )
    assert len(drawn) == text.count('role="img"') >= 6
    for title_id, title, text_id, words in drawn:
        assert f'aria-labelledby="{title_id} {text_id}"' in text
        assert title.strip()
        assert len(words) > 10


def test_policy_allows_exactly_what_is_inside():
    text = page.render(samples.regression())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        assert len(inside) == 1
        assert f"{rule} '{page._hash(inside[0])}'" in policy


def test_many_tasks_are_not_all_detailed():
    summary = samples.every_task()
    summary["parts"] = [{**summary["parts"][i % 3], "primary": f"task {i}"} for i in range(30)]
    shown = page.detailed(summary["parts"])
    assert len(shown) == page.MOST_DETAILS
    assert all(p["verdict"]["answer"] != "cannot tell" for p in shown)
    text = page.render(summary)
    assert "Details follow for 8 of 30 tasks" in text


def test_template_is_package_data():
    folder = resources.files("borrow.report").joinpath("template")
    assert {"report.html.j2", "report.css", "report.js"} <= {f.name for f in folder.iterdir()}


def test_without_jinja_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from borrow import report\n"
        "try: report.render({})\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'borrow[app]'" in done.stdout


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234, "0.123"),
        (-2.5, "\u22122.50"),
        (0.0, "0"),
        (None, "\u2013"),
        (12345.6, "12,346"),
        (1.5e-7, "1.50e\u22127"),
    ],
)
def test_numbers_as_they_are_written(value, text):
    assert number(value) == text


def test_ticks_are_round_and_inside():
    rng = np.random.RandomState(0)
    for _ in range(200):
        low = rng.randn() * 10 ** rng.uniform(-3, 3)
        high = low + 10 ** rng.uniform(-3, 3)
        found = svg.ticks(low, high)
        assert 1 <= len(found) <= 6
        assert low - 1e-6 * (high - low) <= min(found)
        assert max(found) <= high + 1e-6 * (high - low)
        assert len(set(tick_labels(found))) == len(found)
    assert svg.ticks(2.0, 2.0) == [2.0]


def test_aligned_numbers_share_their_decimals():
    write = aligned([{"a": 0.116, "b": -0.057}, {"a": 0.466, "b": None}], "a", "b")
    assert [write(v) for v in (0.116, -0.057, -0.00001, None)] == ["0.116", "\u22120.057", "0.000", "\u2013"]


def test_long_and_wide_names_are_cut():
    assert shortened("abcdefgh", 20) == "abcdefgh"
    assert shortened("a" * 30, 10) == "a" * 9 + "\u2026"
    assert len(shortened("\u6f22" * 30, 10)) < 7


def test_nothing_is_said_of_relations_that_were_not_measured():
    """Without the focused model and without leaving tasks out there is nothing to say, and no table of dashes."""
    found = compare(make_table(), "y", "task", "a", ["pooled"], cv=(3, 1), leave_out=False)
    assert report.summary(found)["parts"][0]["secondaries"] is None
    assert "correlation" not in str(found.verdict())


def test_worst_rows_are_those_farthest_in_standard_deviations_and_known_by_their_inputs():
    table = make_table(n=14)
    table["y"] = list(table["y"])
    slip = 5
    table["y"][slip] += 9.0
    found = compare(table, "y", "task", table["task"][0], methods=["pooled"], cv=(3, 2), random_state=0)
    part = report.summary(found, table=table)["parts"][0]["misses"]
    assert part["worst"][0]["row"] == slip
    assert part["worst"][0]["inputs"] == f"x1 {table['x1'][slip]:.4g}"
    records = [r for r in found.folds(found.primaries[0], found.verdict().best) if slip in r["rows"]]
    means = [r["mean"][r["rows"].index(slip)] for r in records]
    assert len(means) == 2  # once in each repeat
    assert part["worst"][0]["predicted"] == pytest.approx(np.mean(means))
    away = [w["away"] for w in part["worst"]]
    assert away == sorted(away, reverse=True)


def test_a_model_alone_leads_with_leave_one_out():
    table = make_table(n=14)
    X = np.array(table["x1"], dtype=float)[:, None]
    model = borrow.FocusedGPRegressor(primary="a", n_restarts=0).fit(X, table["y"], tasks=table["task"])
    left = {k: np.array(v)[np.array(model.leave_one_out()["task"]) == "a"] for k, v in model.leave_one_out().items()}
    miss = float(np.abs(left["y"] - left["mean"]).mean())
    head = re.search("<h1>(.*)</h1>", report.render(report.summary(model=model)))[1]
    assert f"rows of a are missed by {number(miss)} on average" in head


def test_relations_are_those_of_the_model_that_is_shown():
    table = make_table(n=14)
    found = compare(table, "y", "task", "a", methods=["symmetric"], cv=(3, 1), leave_out=True, random_state=0)
    X = np.array(table["x1"], dtype=float)[:, None]
    model = borrow.MultiTaskGPRegressor(max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # five iterations
        model.fit(X, table["y"], tasks=table["task"])
    rows = report.summary(found, model, suggestions=False)["parts"][0]["secondaries"]["rows"]
    R, at = model.task_correlations_, list(model.tasks_)
    for row in rows:
        assert row["correlation"] == pytest.approx(R[at.index("a"), at.index(row["task"])])


def test_brier_score_is_that_of_scikit_learn():
    p = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    code = np.array([0, 1, 1])
    assert score_labels(code, p, "Brier score")["error"] == pytest.approx(brier_score_loss(code, p[:, 1]))
    q = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    assert score_labels(np.array([0, 1]), q, "Brier score")["error"] == pytest.approx((0.38 + 1.46) / 2)


def run_code(use):
    """What the code of a page makes, after its commands have run too; the files are in the working folder."""
    names = {}
    exec(use["python"], names)
    for line in use["shell"].replace("\\\n", " ").splitlines():
        done = CliRunner().invoke(main, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    return names


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_code_of_the_page_runs(tmp_path, monkeypatch, text):
    frame = pd.DataFrame(make_table(n=10, tasks=("a", "it's <b>")))
    if text:
        levels = ["1st", "2nd", "3rd"]
        frame["rank"] = pd.Categorical([levels[i % 3] for i in range(len(frame))], levels, ordered=True)
    found = compare(frame, "y", "task", "a", methods=["pooled"], cv=2, random_state=0)
    use = report.summary(found, table=frame, suggestions=False)["use"]
    assert ("TableEncoder('task', orders={'rank': ['1st', '2nd', '3rd']})" in use["python"]) == text
    monkeypatch.chdir(tmp_path)
    frame.to_csv("table.csv", index=False)
    frame[frame["task"] == "a"].drop(columns="y").to_csv("new.csv", index=False)
    names = run_code(use)
    assert len(names["mean"]) == len(names["std"]) == (frame["task"] == "a").sum()


def test_code_of_the_page_of_a_wide_table_runs(tmp_path, monkeypatch):
    hour = np.linspace(0.0, 6.0, 14)
    frame = pd.DataFrame({"hour": hour, "s 1": np.sin(hour), "s 2": np.sin(hour) + 0.1 * hour})
    found = compare(frame, targets=["s 1", "s 2"], primary="s 1", methods=["pooled"], cv=2, random_state=0)
    use = report.summary(found, suggestions=False)["use"]
    monkeypatch.chdir(tmp_path)
    frame.to_csv("table.csv", index=False)
    frame[["hour"]].to_csv("new.csv", index=False)
    assert np.abs(run_code(use)["mean"] - frame["s 1"]).max() < 0.3


def waves():
    """One product of two inputs in both tasks, the primary with few rows of it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"u": rng.uniform(-1, 1, 60), "v": rng.uniform(-1, 1, 60), "task": ["a"] * 10 + ["b"] * 50})
    return frame.assign(y=4 * frame["u"] ** 3 * frame["v"] - frame["v"] + 0.01 * rng.normal(size=60))


def test_a_variant_is_told_with_its_settings():
    frame = waves()
    found = compare(frame, "y", "task", "a", methods=["rank1"], cv=2, random_state=0)
    assert found.verdict().method == "rank1"
    use = report.summary(found)["use"]
    called = "borrow.MultiTaskGPRegressor(task='task', rank=1, diagonal='free', intercept=True)"
    assert called in use["python"]
    assert "--method rank1" in use["shell"]


def test_a_page_of_the_users_own_estimator_has_no_code_to_copy_and_no_model_of_ours():
    frame, own = waves(), make_pipeline(PolynomialFeatures(4), LinearRegression())
    found = compare(frame, "y", "task", "a", methods=[("cubes", own)], cv=2, random_state=0)
    assert found.verdict().method == "cubes"
    told = report.summary(found, table=frame)
    assert told["use"] is told["predictions"] is told["model"] is None
    assert "cubes" in report.render(told)
    automatic = borrow.AutoRegressor("task", "a", methods=[("cubes", own)], cv=2)
    told = report.summary(model=automatic.fit(frame[["u", "v", "task"]], frame["y"]), target="y")
    assert told["use"] is told["predictions"] is None


def test_a_table_as_csv_keeps_digits_and_no_formula():
    rows = [{"task": "=1+1", "gain": 0.123456789}, {"task": 'a "b", c', "gain": None}]
    link = page.as_csv([("task", "task", None), ("gain", "gain", number)], rows)
    text = base64.b64decode(link.split(",", 1)[1]).decode()
    assert text == '"task","gain"\r\n"\'=1+1",0.123456789\r\n"a ""b"", c",\r\n'


def test_an_interval_much_longer_than_the_others_is_cut_and_says_so():
    rows = [{"label": f"m{i}", "value": 0.0, "low": -0.1, "high": 0.1, "role": "unsure"} for i in range(5)]
    assert not svg.is_cut(rows)
    rows[2] = {**rows[2], "high": 5.0}
    assert svg.is_cut(rows)
    drawn = page.templates()[1].draw(svg.intervals(rows, "title", "axis"), "f")
    assert drawn.count("\u203a") == 1
    assert drawn.count("\u2039") == 0
    assert drawn.count('class="cap"') == 9
    assert f"m2: {number(0.0)} ({number(-0.1)} to {number(5.0)})" in drawn  # in words it is whole
    bars = [float(x) for x in re.findall(r'x2="([\d.]+)%"[^>]*class="bar"', drawn)]
    assert max(bars) <= 100.0  # nothing leaves the figure
    assert min(bars) > 35.0  # and the others are not squeezed: drawn whole they would end at 5 per cent


def test_names_of_points_do_not_stand_on_each_other():
    near = [{"row": k, "observed": 1.0 + 0.001 * k, "predicted": 1.0, "low": 0.9, "high": 1.1} for k in range(3)]
    far = {"row": 9, "observed": 2.0, "predicted": 2.0, "low": 1.9, "high": 2.1}
    drawn = svg.scatter([*near, far], [2, 0, 9], "title")
    assert sorted(span[-1] for span in drawn["spans"] if span[-1] is not None) == [2, 9]
    assert sum(span[0] == "judged" for span in drawn["spans"]) == 3
