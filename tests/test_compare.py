"""The comparison: same folds for all, the primary's rows split and no others, a store that survives anything."""

import json
import os
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib.parallel import SequentialBackend
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import borrow
from borrow.transfer import attribute, comparison, folds, inputs, ledger, methods, problem, references
from borrow.transfer import compare as run
from borrow.transfer import problem as problem_module
from borrow.transfer.comparison import Comparison
from borrow.transfer.problem import read_problem

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, 42)
WHO = np.array(["a"] * 12 + ["b"] * 15 + ["c"] * 15)
TABLE = pd.DataFrame({"x": X, "who": WHO, "y": np.sin(X) + 0.1 * RNG.normal(size=42)})
ALWAYS = ["single", "mean", "ridge", "ridge_tasks"]  # what every comparison has
QUICK = {"target": "y", "task": "who", "primary": "a", "methods": ["pooled"], "cv": 3}


@pytest.fixture(scope="module")
def pooled():
    return borrow.compare(TABLE, **QUICK)


def without_times(comparison):
    content = comparison.to_dict()
    return {**content, "records": [{k: v for k, v in r.items() if k != "seconds"} for r in content["records"]]}


# ------------------------------------------------------------------------------------------------------------ folds


def test_every_fold_holds_out_rows_of_the_primary_alone(pooled):
    for method in ("single", "pooled"):
        mine = pooled.folds("a", method)
        assert [(r["repeat"], r["fold"]) for r in mine] == [(0, 0), (0, 1), (0, 2)]
        assert sorted(i for r in mine for i in r["rows"]) == list(range(12))
        assert {(r["n_train"], r["n_test"]) for r in mine} == {(8, 4)}
        for r in mine:
            assert r["y"] == TABLE["y"].iloc[r["rows"]].tolist()


def test_a_fold_is_what_a_fit_by_hand_finds(pooled):
    """No transfer fits the primary alone, and answers to the bit as a fit to the whole table would."""
    for key, estimator in (("pooled", borrow.PooledGPRegressor), ("single", borrow.SingleTaskGPRegressor)):
        r = pooled.folds("a", key)[1]
        train = TABLE.drop(index=r["rows"])
        model = estimator("who").fit(train[["x", "who"]], train["y"])
        mean, std = model.predict(TABLE[["x", "who"]].iloc[r["rows"]], return_std=True, include_noise=True)
        np.testing.assert_allclose(r["mean"], mean, rtol=1e-10)
        np.testing.assert_allclose(r["std"], std, rtol=1e-10)
        e = np.array(r["y"]) - mean
        assert r["error"] == pytest.approx(np.abs(e).mean())
        assert r["coverage"] == np.mean(np.abs(e) < 1.6448536 * std)
        density = -0.5 * (e / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))
        assert r["log_density"] == pytest.approx(density.mean())


def test_a_focused_model_that_borrows_nothing_is_no_transfer():
    """Unrelated secondary: where rho is dropped the difference is zero, not a trace of other priors."""
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 10, 30)
    table = {"x": x, "who": ["a"] * 10 + ["b"] * 20, "y": np.where(np.arange(30) < 10, np.sin(x), rng.normal(size=30))}
    found = borrow.compare(table, "y", "who", "a", ["focused"], cv=2)
    assert found.difference("a", "focused", from_="single")[:2] == (0.0, 0.0)
    verdict = found.verdict()
    assert verdict.answer == "no practical difference"
    assert "borrowed nothing in the fit to all rows" in verdict.sentence


def test_default_folds_suit_the_rows():
    sizes = (3, 9, 10, 50, 51, 200, 201)
    assert [folds.default_cv(n) for n in sizes] == [(3, 1), (9, 1), (5, 4), (5, 4), (5, 3), (5, 3), (5, 2)]


def test_splitters_and_repeats():
    problem = read_problem(TABLE, "y", "who")
    parts = folds.splits_of(problem, "b", (5, 2), 0)
    assert [(s.repeat, s.fold) for s in parts] == [(r, k) for r in range(2) for k in range(5)]
    assert not np.array_equal(parts[0].test, parts[5].test)
    assert all(set(s.train) | set(s.test) == set(range(12, 27)) for s in parts)
    own = folds.splits_of(problem, "b", KFold(3), 0)
    assert [s.test.tolist() for s in own] == [list(range(12 + 5 * k, 17 + 5 * k)) for k in range(3)]


def test_labels_are_stratified_where_they_can_be():
    y = np.array(["u"] * 6 + ["v"] * 24)
    table = {"x": np.arange(30.0) / 4, "who": ["a"] * 28 + ["b"] * 2, "y": y}
    parts = folds.splits_of(read_problem(table, "y", "who"), "a", (3, 1), 0)
    assert [(y[s.test] == "u").sum() for s in parts] == [2, 2, 2]
    assert len(folds.splits_of(read_problem(table, "y", "who"), "a", (10, 1), 0)) == 10  # too few: plain folds


def test_rows_of_the_primary_without_a_target_stay_for_training_and_are_not_tested():
    table = TABLE.assign(y=TABLE["y"].where(TABLE.index != 3))
    found = borrow.compare(table, **QUICK)
    assert found.rows == {"a": 11, "b": 15, "c": 15}
    assert 3 not in [i for r in found.records for i in r["rows"]]


def test_groups_stay_together_and_count_as_one():
    """A splitter of scikit-learn gets them too."""
    table = TABLE.assign(batch=np.arange(42) // 3)
    problem = read_problem(table, "y", "who", group="batch")
    assert problem.features == ("x",)
    parts = folds.splits_of(problem, "b", (3, 2), 0)
    assert len(parts) == 6
    for s in parts:
        assert not set(s.train // 3) & set(s.test // 3)
    assert len(folds.splits_of(problem, "b", GroupKFold(5), 0)) == 5
    with pytest.raises(ValueError, match=r"cv=6: expected 2 to 5 folds \(the primary has 5 groups\)"):
        folds.splits_of(problem, "b", 6, 0)
    found = borrow.compare(table, "y", "who", "b", ["pooled"], cv=5, group="batch", leave_out=False)
    assert found.difference("b", "pooled").df == pytest.approx(4.0)  # five groups, not fifteen rows
    assert "batch" not in found.features


def test_the_past_predicts_the_future_and_nothing_of_it_leaks(monkeypatch):
    """Rows of other tasks from the beginning of a block on are held out as well: checked by what a fit is given."""
    table = TABLE.assign(day=np.tile(np.arange(14), 3))
    problem = read_problem(table, "y", "who", time="day")
    parts = folds.splits_of(problem, "b", 4, 0)
    days = table["day"].to_numpy()
    assert sum(len(s.test) for s in parts) >= 10
    given = []

    class Spy(borrow.PooledGPRegressor):
        def fit(self, X, y, tasks):
            given.append(len(y))
            return super().fit(X, y, tasks=tasks)

    monkeypatch.setattr(problem_module.Problem, "fit", lambda p, *rest: Spy().fit(p.X, p.y, list(p.tasks)))
    for s in parts:
        begin = days[s.test].min()
        assert days[s.train].max() < begin
        assert folds.evaluate(problem, folds.Job("b", "spy", s), "mean absolute error", 0)["failure"] is None
        assert given.pop() == (days < begin).sum()
    dates = pd.date_range("2026-01-01", periods=14).repeat(3).astype(str)
    as_text = read_problem(TABLE.assign(day=np.array(dates)), "y", "who", time="day")
    assert np.ptp(as_text.times) == pytest.approx(13.0)
    with pytest.raises(ValueError, match="holds neither numbers nor dates"):
        read_problem(TABLE.assign(day="soon"), "y", "who", time="day")
    with pytest.raises(ValueError, match="column 'day' holds neither numbers nor dates"):
        read_problem(TABLE.assign(day="1,5"), "y", "who", time="day")  # a comma is no point in times
    with pytest.raises(ValueError, match="time= makes folds of its own"):
        folds.splits_of(problem, "b", KFold(3), 0)


def test_rows_like_those_wanted_count_more_and_what_lies_outside_is_said():
    problem = read_problem(TABLE, "y", "who")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights, said = inputs.shift_weights(problem, "b", np.linspace(4, 5.5, 20)[:, None])
    w = dict(weights)
    near = [w[i] for i in range(12, 27) if 4 < X[i] < 5.5]
    far = [w[i] for i in range(12, 27) if X[i] < 2]
    assert min(near) > 2 * max(far)
    assert np.mean(list(w.values())) == pytest.approx(1.0)
    assert "as good as" in said[0]
    with pytest.warns(UserWarning, match="50 % of the rows wanted lie outside what was measured for 'a' .'x'."):
        found = borrow.compare(TABLE, **{**QUICK, "cv": 2}, wanted={"x": [3.0, 99.0]})
    assert any("outside" in line for line in found.verdict().advice)
    with pytest.raises(ValueError, match="wanted lacks the column 'x'"):
        borrow.compare(TABLE, **QUICK, wanted=pd.DataFrame({"z": [1.0]}))
    with pytest.raises(ValueError, match="expected rows of 1 input"):
        borrow.compare(TABLE, **QUICK, wanted=np.zeros((2, 3)))


def test_near_replicates_are_named():
    twice = pd.concat([TABLE, TABLE.assign(x=TABLE["x"] + 1e-6)])
    assert inputs.replicates_note(read_problem(TABLE, "y", "who"), "a") == []
    (note,) = inputs.replicates_note(read_problem(twice, "y", "who"), "a")
    assert "24 of 24 rows of 'a' have a near-replicate" in note
    assert inputs.replicates_note(read_problem(twice.assign(g=list(range(42)) * 2), "y", "who", group="g"), "a") == []


# ---------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("values", "kind", "classes"),
    [
        (["u", "v"] * 21, "classification", ("u", "v")),
        ([True, False] * 21, "classification", (False, True)),
        ([0, 1] * 21, "classification", (0, 1)),
        ([0.0, 1.0, np.nan] * 14, "classification", (0, 1)),
        ([0, 1, 2] * 14, "regression", ()),
        ([0.5, 1.5] * 21, "regression", ()),
    ],
)
@pytest.mark.filterwarnings("ignore:the target 'y' is taken for numbers")
def test_the_kind_is_seen_from_the_target(values, kind, classes):
    problem = read_problem(TABLE.assign(y=values), "y", "who")
    assert (problem.kind, problem.classes) == (kind, classes)


def test_names_are_not_classes():
    """A column that is different in every row was named by mistake; a fit of each against the rest would take ages."""
    with pytest.raises(ValueError, match="42 different values in 42 rows, too many for classes; is it the right"):
        read_problem(TABLE.assign(y=[f"name {i}" for i in range(42)]), "y", "who")
    assert len(read_problem(TABLE.assign(y=[f"name {i // 2}" for i in range(42)]), "y", "who").classes) == 21


def test_frames_and_dicts_are_one_problem():
    plain = {c: TABLE[c].tolist() for c in TABLE}
    digests = {read_problem(t, "y", "who").digest() for t in (TABLE, pl.DataFrame(plain), plain)}
    assert len(digests) == 1
    assert read_problem(TABLE.assign(y=TABLE["y"] + 1e-12), "y", "who").digest() not in digests
    assert read_problem(TABLE.assign(more=1.0), "y", "who", ["x"]).digest() in digests


def test_a_problem_fits_what_was_judged_and_knows_the_columns_of_a_frame():
    """Fitted to a frame, the model is asked by column names; to a dict of columns, by arrays: one model."""
    by_name = read_problem(TABLE, "y", "who").fit("pooled", "a")
    by_place = read_problem({c: TABLE[c].tolist() for c in TABLE}, "y", "who").fit("pooled", "a")
    assert by_name.feature_names_in_.tolist() == ["x", "who"]
    assert not hasattr(by_place, "feature_names_in_")
    expected = by_place.predict(TABLE[["x"]].to_numpy(), tasks=WHO)
    np.testing.assert_array_equal(by_name.predict(TABLE[["x", "who"]]), expected)
    alone = read_problem(TABLE, "y", "who").fit("single", "b")
    assert (alone.only, alone.tasks_.tolist()) == ("b", ["b"])


def test_a_reference_that_knows_one_row_can_be_kept(tmp_path):
    """Its spread is none, so that its log density has no bound; a comparison in time begins with few rows."""
    table = TABLE.assign(when=np.where(WHO == "a", np.arange(42) - 0.5, 1.5 + np.arange(42) % 10))
    about = {"target": "y", "task": "who", "primary": "a", "methods": ["pooled"], "time": "when", "cv": 11}
    found = borrow.compare(table, **about, store=tmp_path / "run.jsonl")
    assert found.folds("a", "mean")[0]["n_train"] == 1
    assert found.folds("a", "mean")[0]["log_density"] == folds.LEAST_LOG_DENSITY
    assert Comparison.read(tmp_path / "run.jsonl").verdict().answer == found.verdict().answer


def test_the_verdict_is_reached_once(monkeypatch, pooled):
    found, calls = Comparison.from_dict(pooled.to_dict()), []
    real = comparison.decide
    monkeypatch.setattr(comparison, "decide", lambda *given: calls.append(given) or real(*given))
    assert found.verdict() is found.verdict("a") is found.verdicts()["a"]
    assert len(calls) == 1


def test_model_and_report_take_the_fits_of_the_comparison(monkeypatch, tmp_path):
    """What was fitted to all rows is fitted once, knows the frame's columns, and is not what a fit by hand is not."""
    rows, real = [], borrow.MultiTaskGPRegressor.fit
    monkeypatch.setattr(
        borrow.MultiTaskGPRegressor, "fit", lambda m, X, *more, **k: rows.append(len(X)) or real(m, X, *more, **k)
    )
    found = borrow.compare(TABLE, **{**QUICK, "methods": ["symmetric"]}, leave_out=False)
    assert (found.verdict().method, sum(n == len(TABLE) for n in rows)) == ("symmetric", 1)
    by_hand = read_problem(TABLE, "y", "who").fit("symmetric", "a")
    rows.clear()
    found.report(tmp_path / "page.html", TABLE)
    assert rows == []
    shared = problem_module.replace(read_problem(TABLE, "y", "who"), fits=found.fits).fit("symmetric", "a")
    assert rows == []
    assert repr(shared) == repr(by_hand)
    assert shared.fitted_.attributes.keys() == by_hand.fitted_.attributes.keys()
    np.testing.assert_array_equal(shared.predict(TABLE[["x", "who"]]), by_hand.predict(TABLE[["x", "who"]]))
    assert len(pickle.loads(pickle.dumps(found)).fits) == 0 < len(found.fits)


def test_a_fit_that_is_taken_again_warns_again():
    fits, table = problem_module.Fits(), TABLE.assign(y=TABLE["y"].where(TABLE["who"] != "b", 1.0))
    for _ in range(2):
        with pytest.warns(UserWarning, match="the targets of task 'b' are all equal"):
            problem_module.replace(read_problem(table, "y", "who"), fits=fits).fit("symmetric", "a")
    assert len(fits) == 1


def test_lines_are_judged_once_until_there_are_more(monkeypatch):
    """With fits to all rows no further repeats are run, and every later look at the verdict is the first one."""
    calls, real = [], Comparison._judge
    monkeypatch.setattr(Comparison, "_judge", lambda found, p: calls.append(len(found.records)) or real(found, p))
    found = borrow.compare(TABLE, **{**QUICK, "cv": None, "methods": ["symmetric"]}, leave_out=False)
    found.verdict()
    assert calls == [len(found.records)]


WRONG = {
    r"target='Y2' is not a column; columns are 'x', 'who', 'y'": {"target": "Y2"},
    r"task='whoo' is not a column.*did you mean 'who'\?": {"task": "whoo"},
    r"features='z' is not a column": {"features": ["z"]},
    r"features names 'y', which is the target": {"features": ["x", "y"]},
    r"target and task are both 'y'": {"task": "y"},
    r"primary='aa' is not a task; tasks are 'a', 'b', 'c'; did you mean 'a'\?": {"primary": "aa"},
    r"methods names 'magic'; methods are 'single', 'mean'.* or 'auto'": {"methods": ["magic"]},
    r"cv=1: expected 2 to 12 folds \(the primary has 12 rows\)": {"cv": 1},
    r"cv='five': expected None, a number of folds": {"cv": "five"},
    r"scoring='auc': expected 'mae', 'mse', 'rmse' for regression": {"scoring": "auc"},
    r"kind='numbers': expected 'auto'": {"kind": "numbers"},
    r"leave_out='some': expected 'auto', True or False": {"leave_out": "some"},
    r"column 'who' names one task only, 'a'": {"table": TABLE[TABLE["who"] == "a"]},
    r"column 'x' holds text \('many' in row 2\) among numbers; correct it": {
        "table": TABLE.assign(x=TABLE["x"].astype(object).where(TABLE.index != 2, "many"))
    },
    r"column 'who': the task is missing \(NaN\) in row 5": {
        "table": TABLE.assign(who=TABLE["who"].where(TABLE.index != 5, None))
    },
    r"the target 'y' holds text \('n/a' in row 0\) where numbers": {
        "table": TABLE.assign(y=["n/a", *TABLE["y"].astype(str)[1:]])
    },
    r"the target 'y' is infinite in row 0": {"table": TABLE.assign(y=[np.inf, *TABLE["y"][1:]])},
    r"every value of the target 'y' is missing": {"table": TABLE.assign(y=np.nan)},
    r"the target 'y' has one class only, 'u'": {"table": TABLE.assign(y="u")},
    r"the target 'y' has 42 different values in 42 rows, too many": {"kind": "classification"},
    r"the table has no rows": {"table": TABLE.iloc[:0]},
    r"no input column beside 'y' and 'who'": {"table": TABLE[["y", "who"]]},
    r"table is ndarray; expected a data frame": {"table": TABLE.to_numpy()},
    r"the columns of the table differ in length": {"table": {"x": [1.0], "who": ["a", "b"], "y": [1.0, 2.0]}},
    r"primary='a' has 2 row\(s\) with a target; a comparison needs at least 3": {"table": TABLE.iloc[10:]},
    r"primary='a' has one class only, 'u' in all its 12 rows with a target: nothing can be judged": {
        "table": TABLE.assign(y=np.where((TABLE["who"] == "a") | (TABLE["x"] > 1), "u", "v"))
    },
    r"primary='a' has a constant target, 2.5 in all its 12 rows with a target: nothing can be judged": {
        "table": TABLE.assign(y=TABLE["y"].where(TABLE["who"] != "a", 2.5))
    },
    r"methods= is empty: there is nothing to compare no transfer with; name some, or 'auto'": {"methods": []},
    r"column 'g': the group is missing \(NaN\) in row 3": {
        "table": TABLE.assign(g=["u", "v", "w", None, *"uvwuvw" * 6, "u", "v"]),
        "group": "g",
        "features": ["x"],
    },
    r"method 'rbf' \(RBF network\) is for regression only": {"table": TABLE.assign(y=TABLE["y"] > 0), "methods": "rbf"},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls_are_answered_in_a_sentence(message):
    with pytest.raises(ValueError, match=message):
        borrow.compare(**{"table": TABLE, **QUICK, **WRONG[message]})


# ------------------------------------------------------------------------------------------------------- comparison


def test_without_a_primary_every_task_is_one_in_turn():
    few = pd.concat([TABLE, pd.DataFrame({"x": [1.0], "who": ["d"], "y": [0.0]})])
    with pytest.warns(UserWarning, match="task 'd' has fewer than 3 rows"):
        found = borrow.compare(few, "y", "who", methods=["pooled"], cv=2)
    assert found.primaries == ["a", "b", "c"]
    same = TABLE.assign(y=TABLE["y"].where(TABLE["who"] != "b", 0.0))
    with pytest.warns(UserWarning, match="task 'b' has the same target in all its rows and cannot be compared for"):
        assert borrow.compare(same, "y", "who", methods=["pooled"], cv=2).primaries == ["a", "c"]
    table = found.table()
    assert table["primary"] == [p for p in "abc" for _ in ("single", "mean", "ridge", "ridge_tasks", "pooled")]
    assert list(found.verdicts()) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="give primary=, one of 'a', 'b', 'c'"):
        found.verdict()
    with pytest.raises(ValueError, match="primary='q' was not compared"):
        found.table("q")


def test_labels_that_are_numbers_come_back_as_numbers(tmp_path):
    table = TABLE.assign(who=TABLE["who"].map({"a": 3, "b": 1, "c": 2}))
    path = tmp_path / "run.jsonl"
    found = borrow.compare(table, **{**QUICK, "primary": 3}, store=path)
    assert found.tasks == [1, 2, 3]
    assert found.rows == {1: 15, 2: 15, 3: 12}
    again = Comparison.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found == Comparison.read(path)
    assert again.verdict() == found.verdict()


def test_classification_counts_probabilities():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    y = np.where(x[:, 0] + 0.3 * rng.normal(size=40) > 0, "yes", "no")
    table = {"u": x[:, 0], "v": x[:, 1], "who": ["a", "b"] * 20, "y": y}
    found = borrow.compare(table, "y", "who", "a", ["pooled", "focused"], cv=2)
    assert (found.kind, found.classes, found.scoring) == ("classification", ["no", "yes"], "Brier score")
    for r in found.records:
        p = np.array(r["probability"])
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        truth = np.array([[v == "no", v == "yes"] for v in r["y"]], dtype=float)
        assert r["error"] == pytest.approx(((p[:, 1] - truth[:, 1]) ** 2).mean())  # as scikit-learn has it
        assert r["log_density"] == pytest.approx(np.log((p * truth).sum(axis=1)).mean())
        right = (p * truth).sum(axis=1) > 0.5
        if r["method"] != "mean":  # which may have no likeliest class
            assert r["calibration"] == pytest.approx(p.max(axis=1).mean() - right.mean())
    assert "calibration" in found.table()
    assert found.skipped == {}
    alone = read_problem(table, "y", "who").fit("single", "a")
    whole = borrow.SingleTaskGPClassifier().fit(x, y, tasks=table["who"])
    np.testing.assert_allclose(alone.predict_proba(x, tasks="a"), whole.predict_proba(x, tasks="a"), rtol=1e-9)


def test_auto_takes_what_applies_and_says_what_it_left_out():
    keys, skipped, own = methods.choose("regression", 42, "auto")
    assert keys == [m for m in methods.LABELS if m not in ("pooled", "rbf", "clusters")]
    assert set(skipped) == {"pooled", "rbf", "clusters"}
    assert own == {}
    keys, skipped, _ = methods.choose("classification", 42, "auto")
    assert skipped["rbf"] == "for regression only"
    assert "clusters" in keys
    keys, skipped, _ = methods.choose("regression", 900, "auto")
    assert "symmetric" not in keys
    assert "900 rows are many" in skipped["symmetric"]
    assert methods.choose("regression", 900, "symmetric")[0] == [*ALWAYS, "symmetric"]
    for kind in ("regression", "classification"):
        for key in methods.LABELS:
            if (kind, key) not in (("classification", "rbf"), ("regression", "clusters")):
                assert methods.build(kind, key, "who", "a", 3).get_params()["task"] == "who"


def test_estimators_of_scikit_learn_are_candidates():
    """With the task as columns, or with the primary's rows only: then it is one of those that do without the others."""
    own = [("trees", DecisionTreeRegressor(max_depth=3)), ("tree alone", DecisionTreeRegressor(max_depth=3), "primary")]
    found = borrow.compare(TABLE, **{**QUICK, "cv": 2, "methods": ["pooled", *own]}, leave_out=False)
    assert found.methods == [*ALWAYS, "pooled", "trees", "tree alone"]
    assert found.alone == ["single", "mean", "ridge", "tree alone"]
    assert found.candidates("a") == ["pooled", "trees"]
    r = found.folds("a", "tree alone")[0]
    train = TABLE[TABLE["who"] == "a"].drop(index=r["rows"])
    tree = DecisionTreeRegressor(max_depth=3, random_state=None).fit(train[["x"]].to_numpy(), train["y"])
    np.testing.assert_allclose(r["mean"], tree.predict(TABLE[["x"]].iloc[r["rows"]].to_numpy()))
    for wrong, message in (
        ([("pooled", DecisionTreeRegressor())], "names 'pooled' twice, or it is the key"),
        ([("x", DecisionTreeClassifier())], "'x' is no estimator for regression"),
        ([("x", 3)], "expected an estimator of scikit-learn"),
        ([3], "expected the key of a method, or .name, estimator."),
    ):
        with pytest.raises(ValueError, match=message):
            borrow.compare(TABLE, **{**QUICK, "methods": wrong})


def test_ridge_references_are_what_scikit_learn_finds():
    """The dual form against the primal one, and rows left out in closed form against refits."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(15, 3))
    y = Z @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=15)
    model = references.RidgeReference(form="ridge").fit(Z, y)
    best = []
    for a in references.PENALTIES:
        S = (Z - Z.mean(axis=0)) / Z.std(axis=0)
        missed = [y[i] - Ridge(a).fit(np.delete(S, i, 0), np.delete(y, i)).predict(S[[i]])[0] for i in range(15)]
        best.append((np.mean(np.square(missed)), a))
    error, a = min(best)
    expected = Ridge(a).fit(S, y)
    np.testing.assert_allclose(model.predict(Z), expected.predict(S), rtol=1e-4)
    spread = np.sum((y - y.mean()) ** 2) / 14
    assert model.predict(Z, return_std=True)[1][0] ** 2 == pytest.approx((15 * error + spread) / 16, rel=1e-4)
    mean = references.RidgeReference(form="mean").fit(Z, y, tasks=["u"] * 5 + ["v"] * 10)
    np.testing.assert_allclose(mean.predict(Z[:2], tasks="u"), y[:5].mean(), rtol=1e-6)


def test_slopes_that_tasks_share_are_borrowed():
    """Two rows of a task whose line is that of another: the shared slope is found, that of its own rows is not."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (42, 2))
    y = x @ [2.0, -1.0] + np.where(np.arange(42) < 2, 5.0, 0.0) + 0.05 * rng.normal(size=42)
    tasks = ["a"] * 2 + ["b"] * 40
    new = rng.uniform(-1, 1, (50, 2))
    truth = new @ [2.0, -1.0] + 5.0
    error = {
        form: np.abs(references.RidgeReference(form=form).fit(x, y, tasks=tasks).predict(new, tasks="a") - truth).mean()
        for form in ("mean", "ridge", "tasks")
    }
    assert error["tasks"] < 0.2 < error["ridge"]
    labels = np.where(y > np.where(np.arange(42) < 2, 5.0, 0.0), "up", "down")
    shared = references.LogisticReference(form="tasks").fit(x, labels, tasks=tasks)
    assert np.mean(shared.predict(new, tasks="a") == np.where(truth > 5, "up", "down")) > 0.9
    p = shared.predict_proba(new, tasks="b")
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(shared.decision_function(new, tasks="b"), np.log(p[:, 1] / p[:, 0]), rtol=1e-6)


def test_time_that_is_over_gives_the_best_answer_so_far():
    found = borrow.compare(TABLE, **{**QUICK, "cv": 2}, max_minutes=1e-9)
    assert found.records == []
    assert found.verdict().answer == "cannot tell"
    assert any("minutes were over" in line for line in found.verdict().advice)
    with pytest.raises(ValueError, match="max_minutes=0: expected a positive number"):
        borrow.compare(TABLE, **QUICK, max_minutes=0)


def test_what_cannot_win_leaves_the_race(fake):
    """After one round of folds what has most weight of the methods that borrow goes on, with those that do without."""
    found = borrow.compare(TABLE, **{**QUICK, "methods": ["pooled", "rbf"], "cv": (3, 3)}, leave_out=False)
    rounds = {m: len(found.folds("a", m)) for m in found.methods}
    assert rounds["single"] == 9
    weights = found.weights("a")
    for m in ("pooled", "rbf"):
        assert rounds[m] == (9 if weights[m] == max(weights["pooled"], weights["rbf"]) else 3)
    assert rounds[found.verdict().best] == 9
    table = found.table()
    alone = table["error"][table["method"].index(found.best_alone("a"))]
    np.testing.assert_allclose(np.add(alone, table["difference"]), table["error"])


def test_fits_to_all_rows_take_the_place_of_further_rounds():
    """By default one round of folds; one fit to all rows of each method that relates the tasks, or does without."""
    found = borrow.compare(TABLE, **{**QUICK, "methods": ["symmetric"], "cv": None}, leave_out=False)
    judged = found.verdict()
    assert {r["repeat"] for r in found.records} == {0}
    whole = {r["method"]: r for r in found.records if r["left_out"] == []}
    assert set(whole) == {"single", "mean", "ridge", "symmetric"}
    X, y, who = TABLE[["x", "who"]], TABLE["y"], TABLE["who"]
    apart, joint = (cls("who").fit(X, y) for cls in (borrow.SingleTaskGPRegressor, borrow.MultiTaskGPRegressor))
    gain = joint.log_marginal_likelihood_ - apart.log_marginal_likelihood_
    assert whole["symmetric"]["evidence"] - whole["single"]["evidence"] == pytest.approx(gain, rel=1e-6)
    of_primary = joint.evidence_of_relations("a")  # of two tasks, one given the other
    assert of_primary < gain
    assert judged.evidence == pytest.approx(of_primary, rel=1e-6)
    mine = y[who == "a"].to_numpy()
    others = (mine.sum() - mine) / (len(mine) - 1)
    assert whole["mean"]["losses"] == pytest.approx(np.abs(mine - others), rel=1e-2)  # its penalty is next to none
    in_folds = borrow.compare(TABLE, **{**QUICK, "methods": ["symmetric"], "cv": (2, 2)}, leave_out=False)
    assert {r["repeat"] for r in in_folds.records} == {0, 1}  # as was asked


def test_one_that_fails_is_named_and_the_others_go_on(monkeypatch):
    real = problem.build

    def build(kind, key, *rest, **more):
        if key == "ivm":
            raise RuntimeError("no luck")
        return real(kind, key, *rest, **more)

    monkeypatch.setattr(problem, "build", build)
    found = borrow.compare(TABLE, **{**QUICK, "methods": ["pooled", "ivm"]})
    assert found.candidates("a") == ["pooled"]
    assert found.failures("a") == {"ivm": "failed in 3 of 3 folds (RuntimeError: no luck)"}
    assert "The informative vectors failed in 3 of 3 folds" in str(found.verdict())
    assert np.isnan(found.table()["error"][-1])
    json.dumps(found.to_dict(), allow_nan=False)


def test_warnings_of_fits_are_kept_and_not_shown(monkeypatch):
    def fit(*given):
        warnings.warn("careful", UserWarning, stacklevel=1)
        return real(*given)

    real = problem.Problem.fit
    monkeypatch.setattr(problem.Problem, "fit", fit)
    found = borrow.compare(TABLE, **{**QUICK, "cv": 2})
    assert all(r["warnings"] == ["UserWarning: careful"] for r in found.records)


def test_warnings_of_single_fits_are_kept_too(monkeypatch):
    """Of the relations, the quick look and the report, which fit outside the folds."""
    from borrow import report

    found = borrow.compare(TABLE, **{**QUICK, "cv": 2, "leave_out": False})
    real = problem.Problem.fit

    def fit(*given):
        warnings.warn("careful", UserWarning, stacklevel=1)
        return real(*given)

    monkeypatch.setattr(problem.Problem, "fit", fit)
    assert attribute.relations_of(read_problem(TABLE, "y", "who"), "a", 0)["warnings"] == ["UserWarning: careful"]
    assert all(
        n.endswith("; UserWarning: careful") for n in borrow.quick_look(TABLE, "y", "who", "a", ["pooled"])["note"]
    )
    assert any("careful" in str(w) for w in report.summary(found, table=TABLE)["made"]["warnings"])


def test_progress_is_told_and_written(capsys):
    told = []
    borrow.compare(
        TABLE, **{**QUICK, "cv": 2, "leave_out": False}, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(i, 10) for i in range(1, 11)]
    borrow.compare(TABLE, **{**QUICK, "cv": 2, "leave_out": False}, progress=True)
    assert "borrow: fits 10 of 10" in capsys.readouterr().err
    borrow.compare(TABLE, **{**QUICK, "cv": 2, "leave_out": False})
    assert capsys.readouterr() == ("", "")


class InPortions(SequentialBackend):
    """A backend that hands results over all at once, as some clusters do."""

    supports_return_generator = False


@pytest.mark.parametrize("backend", ["loky", "threading", "portions"])
def test_backends_agree_to_the_bit(backend, pooled):
    joblib.register_parallel_backend("portions", InPortions)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert without_times(borrow.compare(TABLE, **QUICK)) == without_times(pooled)


# ------------------------------------------------------------------------------------------------------------ store


def as_json(left_out):
    return None if left_out is None else list(left_out)


@pytest.fixture
def fake(monkeypatch):
    """Fits that cost nothing, counted."""
    calls = []

    def evaluate(problem, job, scoring, seed):
        calls.append(job.key)
        value = float(np.sum(job.split.test)) / 7 + len(job.method) / 3
        record = {**dict(zip(folds.KEY, job.key, strict=True)), "left_out": as_json(job.left_out)}
        record |= {"n_train": len(job.split.train), "n_test": len(job.split.test), "rows": job.split.test.tolist()}
        each = [0.5] * len(job.split.test)
        scores = {"error": value, "log_density": -value, "coverage": 0.9, "mean": each, "std": each}
        by_row = value + np.linspace(0, 0.1, len(job.split.test))
        scores |= {"losses": by_row.tolist(), "log_densities": (-by_row).tolist()}
        return record | scores | {"y": each, "seconds": 0.5, "warnings": [], "failure": None}

    monkeypatch.setattr(run, "evaluate", evaluate)
    return calls


def test_a_run_killed_at_any_moment_goes_on_and_ends_the_same(tmp_path, fake):
    path = tmp_path / "run.jsonl"
    settings = {**QUICK, "store": path, "leave_out": True}
    whole = borrow.compare(TABLE, **settings)
    content, total = path.read_bytes(), len(fake)
    assert total == 5 * 3 + 4  # the methods, then sets of the secondaries
    assert len(content.splitlines()) == 1 + total
    ends = [i + 1 for i, b in enumerate(content) if b == 10]
    for cut in sorted({0, 1, len(content) - 1, *(e + d for e in ends for d in (-9, -1, 0, 1))} - {len(content) + 1}):
        path.write_bytes(content[:cut])
        fake.clear()
        done = max(sum(e <= cut for e in ends) - 1, 0)
        again = borrow.compare(TABLE, **settings)
        assert again == whole
        assert repr(again.table()) == repr(whole.table())
        assert len(fake) == total - done, cut
        assert path.read_bytes() == content
        assert Comparison.read(path) == whole


def test_an_unfinished_run_can_be_read(tmp_path, fake):
    path = tmp_path / "run.jsonl"
    borrow.compare(TABLE, **QUICK, store=path)
    path.write_bytes(path.read_bytes()[:-30])
    found = Comparison.read(path)
    assert len(found.records) == 14
    assert found.verdict().answer == "cannot tell"
    assert found.candidates("a") == []


REFUSED = {
    r"run.jsonl is a comparison of other data": {"table": TABLE.assign(x=TABLE["x"] + 1)},
    r"begun with other settings \('cv': \{'folds': 3, 'repeats': 1\} there": {"cv": 4},
    r"begun with other settings \('seed': 0 there, 1 now\)": {"random_state": 1},
    r"begun with other settings \('methods'": {"methods": ["ivm"]},
    r"begun with other settings \('primaries'": {"primary": "b"},
    r"begun with other settings \('scoring'": {"scoring": "mse"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_the_file_of_another_comparison_is_refused_and_left_alone(message, tmp_path, fake):
    path = tmp_path / "run.jsonl"
    borrow.compare(TABLE, **QUICK, store=path)
    content = path.read_bytes()
    with pytest.raises(ledger.LedgerError, match=message):
        borrow.compare(**{"table": TABLE, **QUICK, "store": path, **REFUSED[message]})
    assert path.read_bytes() == content


def test_foreign_and_damaged_files_are_refused_and_left_alone(tmp_path, fake, monkeypatch):
    path = tmp_path / "run.jsonl"
    borrow.compare(TABLE, **QUICK, store=path)
    first, *rest = path.read_bytes().splitlines(keepends=True)
    header = json.loads(first)

    def refuse(content, message):
        path.write_bytes(content)
        for act in (lambda: borrow.compare(TABLE, **QUICK, store=path), lambda: Comparison.read(path)):
            with pytest.raises(ledger.LedgerError, match=message):
                act()
            assert path.read_bytes() == content

    refuse(b"x,who,y\n1,a,2\n", "is not a stored comparison; give another name")
    refuse(b"half a line of something else", "is not a stored comparison")
    refuse(b"[1, 2]\n", "is not a stored comparison")
    refuse(json.dumps({**header, "version": 99}).encode() + b"\n", "later borrow .format 99.; update borrow")
    refuse(first + b"{broken}\n" + b"".join(rest), "is damaged in line 2")
    old = {k: v for k, v in header.items() if k != "sha256"} | {"version": 1}
    refuse(
        json.dumps(old).encode() + b"\n",
        "by an earlier borrow, without what this one judges by; delete it and start anew",
    )
    refuse(json.dumps({**header, "borrow": "0.0.1"}).encode() + b"\n", "is damaged in line 1")
    path.unlink()
    other = {**{k: header[k] for k in ("digest", "settings", "about")}, "borrow": "0.0.1"}
    with ledger.open_ledger(path, other):
        pass
    with pytest.raises(ledger.LedgerError, match=r"begun by borrow 0.0.1 and this is"):
        borrow.compare(TABLE, **QUICK, store=path)
    with pytest.raises(ledger.LedgerError, match=r"cannot be written: Is a directory"):
        borrow.compare(TABLE, **QUICK, store=tmp_path)
    with pytest.raises(ledger.LedgerError, match=r"cannot be read: No such file"):
        Comparison.read(tmp_path / "none.jsonl")


def test_every_line_is_checked(tmp_path, fake):
    path = tmp_path / "run.jsonl"
    borrow.compare(TABLE, **QUICK, store=path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    starts = np.cumsum([0, *map(len, lines)])

    def refused(content, line):
        path.write_bytes(content)
        for act in (lambda: Comparison.read(path), lambda: borrow.compare(TABLE, **QUICK, store=path)):
            with pytest.raises(ledger.LedgerError, match=rf"is damaged in line {line}: its checksum"):
                act()
            assert path.read_bytes() == content

    for number in (2, 4, len(lines)):
        row = lines[number - 1]
        digit = starts[number - 1] + row.index(b'"error": ') + 9 + 2
        refused(whole[:digit] + (b"8" if whole[digit : digit + 1] != b"8" else b"7") + whole[digit + 1 :], number)
        refused(b"".join([*lines[: number - 1], row.replace(b'"method"', b'"mothod"'), *lines[number:]]), number)
        refused(
            b"".join(
                [*lines[: number - 1], row[:-4] + (b'1"}\n' if row[-4:-3] == b"0" else b'0"}\n'), *lines[number:]]
            ),
            number,
        )  # the checksum itself
    refused(b"".join([*lines[:2], *lines[3:]]), 3)  # one is missing
    refused(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]), 3)  # two changed places
    refused(b"".join([*lines, lines[-1]]), len(lines) + 1)  # one stands there twice
    rng = np.random.default_rng(0)
    for _ in range(200):
        changed = bytearray(whole)
        changed[rng.integers(len(whole) - 1)] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with pytest.raises(ledger.LedgerError):
            Comparison.read(path)


def test_a_pipe_is_no_store(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ledger.LedgerError, match="is a device, a pipe or a socket"):
        borrow.compare(TABLE, **QUICK, store=tmp_path / "pipe")
    with pytest.raises(ledger.LedgerError, match="is a device, a pipe or a socket"):
        Comparison.read(tmp_path / "pipe")


def test_two_runs_do_not_write_one_file(tmp_path, fake, monkeypatch):
    monkeypatch.setattr(ledger, "PATIENCE", 0.2)
    path = tmp_path / "run.jsonl"
    borrow.compare(TABLE, **QUICK, store=path)
    header = json.loads(path.read_bytes().splitlines()[0])
    with (
        ledger.open_ledger(path, {k: header[k] for k in ("borrow", "digest", "settings", "about")}),
        pytest.raises(ledger.LedgerError, match="is being written by another run"),
    ):
        borrow.compare(TABLE, **QUICK, store=path)


# ------------------------------------------------------------------------------------------------- which secondaries


@pytest.fixture
def counted(monkeypatch):
    """Fits that cost nothing, where the pooled GP gains by 'b' alone, and says how often it was asked."""
    gains = {"b": 0.5}

    def evaluate(problem, job, scoring, seed):
        pooled, n = job.method == "pooled", len(job.split.test)
        there = {"b", "c", *(t for t in problem.labels)} - {*(job.left_out or ())} if pooled else set()
        value = 1.0 + 0.01 * job.split.repeat - sum(gains.get(t, 0.0) for t in sorted(there, key=str))
        value += job.method not in ("single", "pooled")  # the references are worse
        losses = value + 0.01 * pooled * np.sin(
            job.split.test
        )  # a difference that varies, so that there is an interval
        record = {**dict(zip(folds.KEY, job.key, strict=True)), "left_out": as_json(job.left_out)}
        record |= {"n_train": 8, "n_test": n, "error": value, "log_density": -value, "coverage": 0.9, "seconds": 0.0}
        record |= {"rows": job.split.test.tolist(), "losses": losses.tolist(), "log_densities": (-losses).tolist()}
        return record | {"failure": None, "warnings": [], "y": [], "mean": [], "std": []}

    monkeypatch.setattr(run, "evaluate", evaluate)

    def ask(others, **settings):
        table = pd.concat(
            [TABLE[TABLE["who"] != "c"]] + [TABLE[TABLE["who"] == "c"].assign(who=f"c{i}") for i in range(others - 1)]
        )
        found = borrow.compare(table, **{**QUICK, "cv": (3, 2), **settings})
        return found, sum(r["left_out"] is not None for r in found.records)

    return gains, ask


def test_sets_of_secondaries_are_fitted_where_borrowing_helps(counted):
    """One fit a set where rows are left out in closed form, as many as folds where not; not for many, nor in vain."""
    gains, ask = counted
    found, count = ask(2)
    assert count == 4
    assert found.verdict().secondaries["gain"] == pytest.approx([0.5, 0.0], abs=0.01)
    assert found.verdict().carriers == ["b"]
    assert "The gain is carried by 'b' (shares by Shapley)." in found.verdict().advice
    assert ask(1)[1] == 0  # with the only one and without it has been fitted
    assert ask(5)[1] == 2**5
    assert 0 < ask(6)[1] < 2**6
    assert ask(9)[1] == 0
    assert ask(9, leave_out=True)[1] > 0
    assert ask(2, leave_out=False)[1] == 0
    grouped = TABLE.assign(batch=np.arange(len(TABLE)) // 2)
    found = borrow.compare(grouped, **{**QUICK, "cv": (3, 2)}, group="batch")
    assert sum(r["left_out"] is not None for r in found.records) == 2 * 3  # all and none are there from the comparison
    assert found.verdict().secondaries["gain"] == pytest.approx([0.5, 0.0], abs=0.01)
    gains["b"] = 0.0
    assert ask(2)[1] == 0


def test_what_never_gains_is_not_named_and_copies_are(counted):
    gains, ask = counted
    gains |= {"c0": -0.1}
    found = ask(2)[0].verdict()
    assert found.carriers == ["b"]
    assert found.secondaries["gain"][1] == pytest.approx(-0.1, abs=0.01)
    gains |= {"c0": 0.0, "b": 0.0}
    assert borrow.transfer.verdict._carriers(ask(2, leave_out=True)[0].verdict()) == [
        "None of them by itself is seen to carry the gain."
    ]


def test_worth_of_two_secondaries_is_that_of_models_fitted_by_hand():
    """Closed-form leave-one-out of the winner fitted to each set of the secondaries, divided by hand."""
    found = borrow.compare(TABLE, **{**QUICK, "methods": ["symmetric"], "cv": 2}, leave_out=True)
    columns = list(found.features)

    def error(*tasks):
        mine = TABLE[TABLE["who"].isin(["a", *tasks])] if tasks else TABLE
        model = borrow.MultiTaskGPRegressor("who") if tasks else borrow.SingleTaskGPRegressor("who", only="a")
        loo = model.fit(mine[[*columns, "who"]], mine["y"]).leave_one_out()
        return np.mean([abs(y - m) for t, y, m in zip(loo["task"], loo["y"], loo["mean"], strict=True) if t == "a"])

    none, b, c, both = error(), error("b"), error("c"), error("b", "c")
    table = found.verdict().secondaries
    assert table["alone"] == pytest.approx([none - b, none - c], rel=1e-5)
    assert table["without"] == pytest.approx([c - both, b - both], rel=1e-5)
    assert table["gain"] == pytest.approx([(none - b + c - both) / 2, (none - c + b - both) / 2], rel=1e-5)


def test_relations_come_from_the_focused_model_on_all_rows():
    problem = read_problem(TABLE, "y", "who")
    found = attribute.relations_of(problem, "a", 0)
    table = borrow.FocusedGPRegressor("who", "a").fit(TABLE[["x", "who"]], TABLE["y"]).relatedness()
    assert found["failure"] is None
    assert [r["task"] for r in found["relations"]] == ["b", "c"]
    assert [r["correlation"] for r in found["relations"]] == pytest.approx(table["correlation"][1:].tolist(), rel=1e-6)
    assert [r["correlation_low"] for r in found["relations"]] == pytest.approx(table["low"][1:].tolist(), rel=1e-4)
    json.dumps(found, allow_nan=False)


# ------------------------------------------------------------------------------------------------------- quick look


def test_quick_look_is_the_closed_form_and_says_that_it_is_optimistic():
    found = borrow.quick_look(TABLE, "y", "who", "a", ["symmetric", "pooled", "hierarchical"])
    assert found["method"] == ["single", "pooled", "symmetric", "hierarchical"]
    loo = borrow.MultiTaskGPRegressor("who").fit(TABLE[["x", "who"]], TABLE["y"]).leave_one_out()
    mine = [abs(y - m) for t, y, m in zip(loo["task"], loo["y"], loo["mean"], strict=True) if t == "a"]
    assert found["error"][2] == pytest.approx(np.mean(mine), rel=1e-6)
    assert all(note.startswith("optimistic") for note in found["note"])


def test_quick_look_refuses_an_estimator_without_a_closed_form():
    with pytest.raises(ValueError, match="methods names 'mine', which has no closed form for a row left out"):
        borrow.quick_look(TABLE, "y", "who", "a", ["pooled", ("mine", Ridge())])


def test_a_problem_is_read_once_for_comparison_and_quick_look(monkeypatch):
    """What was read is taken as a table, whatever else is given; nothing is read a second time."""
    read = read_problem(TABLE, "y", "who")
    labels = read_problem(TABLE.assign(y=TABLE["y"] > 0), "y", "who")
    monkeypatch.setattr(problem, "to_floats", None)
    found = borrow.compare(read, **{**QUICK, "cv": 2})
    assert (found.digest, found.rows) == (read.digest(), {"a": 12, "b": 15, "c": 15})
    assert borrow.quick_look(read, "y", "who", "a", ["pooled"])["method"] == ["single", "pooled"]
    found = borrow.quick_look(labels, "y", "who", "a", ["pooled"])
    assert list(found) == ["method", "error", "log_density", "calibration", "seconds", "note"]
    whole = borrow.compare(labels, "y", "who", "a", ["pooled"], cv=(3, 1))
    assert found["error"] == whole.table()["error"]
    assert set(found["note"]) == {"coarse: three folds, dealt once"}


@pytest.mark.parametrize("method", ["symmetric", "hierarchical", "ivm"])
def test_rows_left_out_are_told_by_their_inputs(method):
    """Several columns and rows that share an input: what is said of a row is what is said of its input."""
    random = np.random.default_rng(3)
    X = random.integers(0, 4, (24, 2)).astype(float)
    table = {"u": X[:, 0], "v": X[:, 1], "who": ["a"] * 12 + ["b"] * 12, "y": X.sum(axis=1) + random.normal(size=24)}
    read = read_problem(table, "y", "who")
    model = read.fit(method, "a")
    y, mean, _ = folds.left_out(model, read, "a")
    assert y.tolist() == read.y[:12].tolist()
    found = model.leave_one_out()
    for i in range(12):
        same = np.flatnonzero((X[:12] == X[i]).all(axis=1))
        cell = np.argmin([abs(v - y[same].mean()) + (t != "a") for t, v in zip(found["task"], found["y"], strict=True)])
        assert mean[i] == found["mean"][cell]


KERNEL = borrow.kernels.SquaredExponential(1.2, 0.8)
FIXED = {"optimizer": None, "normalize_y": False, "noise": 0.04}
LEFT_OUT = {
    "pooled": borrow.PooledGPRegressor(kernel=KERNEL, **FIXED),
    "hierarchical": borrow.HierarchicalGPRegressor(
        base_kernel=KERNEL, covariance_strength=np.inf, mean_strength=np.inf, learn_noise=False, **FIXED
    ),
    "symmetric": borrow.MultiTaskGPRegressor(kernel=KERNEL, task_covariance="uniform", **FIXED),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_row_left_out_in_closed_form_is_a_refit_without_it(name):
    """Two tasks meet at one input: only the primary's own row is left out there."""
    table = TABLE.assign(x=TABLE["x"].where(TABLE.index != 20, TABLE["x"][4]))
    problem = read_problem(table, "y", "who")
    model = LEFT_OUT[name].fit(problem.X, problem.y, tasks=table["who"])
    y, mean, std = folds.left_out(model, problem, "a")
    assert len(y) == 12
    for i in (0, 4, 11):
        rest = table.drop(index=i)
        refit = LEFT_OUT[name].fit(rest[["x"]], rest["y"], tasks=rest["who"])
        expected = refit.predict(table[["x"]].iloc[[i]], tasks="a", return_std=True, include_noise=True)
        at = int(np.argmin(np.abs(y - table["y"][i])))  # cells are sorted by input
        np.testing.assert_allclose([mean[at], std[at]], np.ravel(expected), rtol=1e-7)
