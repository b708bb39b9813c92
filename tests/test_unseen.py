"""Tasks that fit never saw: refused, or answered as one drawn from the population of those seen."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict, cross_val_score
from typer.testing import CliRunner

import borrow
from borrow.cli.app import main
from borrow.kernels import SquaredExponential
from borrow.transfer.problem import read_problem
from borrow.transfer.unseen import UnseenProblem

M, N = 6, 10
TASK = np.repeat(np.arange(M), N)
RNG = np.random.default_rng(3)
TABLE = pd.DataFrame({"x": RNG.uniform(0.0, 6.0, M * N), "site": [f"s{t}" for t in TASK]})
LEVEL = RNG.normal(0.0, 0.7, M)
Y = np.sin(TABLE["x"].to_numpy()) + LEVEL[TASK] + 0.1 * RNG.normal(size=M * N)
FIXED = {"kernel": SquaredExponential(1.0, 1.5), "optimizer": None, "noise": 0.02}
NEW = pd.DataFrame({"x": [1.0, 4.0, 2.0], "site": ["t1", "s2", "zz"]})


def models(unseen):
    return [
        borrow.MultiTaskGPRegressor("site", task_covariance="uniform", unseen=unseen, **FIXED),
        borrow.FocusedGPRegressor("site", "s0", rho=0.5, unseen=unseen, **FIXED),
        borrow.PooledGPRegressor("site", unseen=unseen, **FIXED),
        borrow.HierarchicalGPRegressor("site", unseen=unseen),
        borrow.MultiTaskRBFRegressor("site", n_basis=4, unseen=unseen),
        borrow.MultiTaskIVMRegressor("site", n_active=20, unseen=unseen, **FIXED),
    ]


@pytest.mark.parametrize("model", models("population"), ids=lambda m: type(m).__name__)
def test_a_new_task_is_one_drawn_from_those_seen(model):
    model.fit(TABLE, Y)
    with pytest.warns(UserWarning, match=r"never saw the task 't1', 'zz'; .* population of 6 tasks"):
        mean, std = model.predict(NEW, return_std=True)
    # Monte Carlo: a task drawn at random, its function drawn from its posterior.
    each = [model.predict(NEW[["x"]], tasks=f"s{t}", return_std=True) for t in range(M)]
    draws = np.concatenate([m + s * RNG.normal(size=(4000, 3)) for m, s in each])
    np.testing.assert_allclose(mean[[0, 2]], draws.mean(axis=0)[[0, 2]], atol=0.03)
    between = np.var([m for m, _ in each], axis=0, ddof=1)
    extra = between * (1.0 + 1.0 / M) - np.var([m for m, _ in each], axis=0)  # for the mean of so few being unknown
    np.testing.assert_allclose(std[[0, 2]] ** 2, (draws.var(axis=0) + extra)[[0, 2]], rtol=0.05)
    assert (mean[1], std[1]) == pytest.approx((each[2][0][1], each[2][1][1]))  # a known one beside them is as always
    with pytest.warns(UserWarning, match="never saw"):
        noisy = model.predict(NEW, return_std=True, include_noise=True)[1]
    with pytest.warns(UserWarning, match="never saw"):
        np.testing.assert_allclose(noisy**2, std**2 + model.noise_at(NEW))
    with pytest.warns(UserWarning, match="never saw"):
        np.testing.assert_array_equal(model.predict(NEW), mean)


def test_the_band_of_a_new_task_covers_it():
    """Levels of the tasks scatter by 0.7, which a band for a task seen says nothing of."""
    model = borrow.MultiTaskGPRegressor("site", unseen="population")
    inside, z = [], 1.6448536269514722
    for t in range(M):
        model.fit(TABLE[t != TASK], Y[t != TASK])
        with pytest.warns(UserWarning, match="never saw"):
            mean, std = model.predict(TABLE[t == TASK], return_std=True, include_noise=True)
        inside += [np.abs(Y[t == TASK] - mean) <= z * std]
    assert 0.75 <= np.mean(inside) <= 1.0


def test_an_unknown_task_is_an_error_by_default_that_gives_the_hint():
    model = borrow.MultiTaskGPRegressor("site", **FIXED).fit(TABLE, Y)
    for ask in (model.predict, model.noise_at):
        with pytest.raises(ValueError, match=r"unknown task 't1', 'zz'.* shuffle .*unseen='population'"):
            ask(NEW)
    with pytest.raises(ValueError, match="unseen='mean': expected 'error', or 'population'"):
        borrow.MultiTaskGPRegressor("site", unseen="mean").fit(TABLE, Y)


def test_models_that_share_nothing_cannot():
    alone = borrow.SingleTaskGPRegressor("site", unseen="population", **FIXED).fit(TABLE, Y)
    with pytest.raises(ValueError, match="SingleTaskGPRegressor learns every task by itself"):
        alone.predict(NEW)
    one = borrow.MultiTaskGPRegressor("site", unseen="population", **FIXED).fit(TABLE[:N], Y[:N])
    with pytest.raises(ValueError, match="one task is no population"):
        one.predict(NEW)
    both = borrow.MultiTaskGPRegressor("site", unseen="population", **FIXED).fit(TABLE, Y)
    with pytest.warns(UserWarning, match="never saw"), pytest.raises(ValueError, match="return_cov=True needs tasks"):
        both.predict(NEW, return_cov=True)
    with pytest.raises(ValueError, match="unknown task 't1'"):
        both.posterior_covariance(NEW)


def test_the_warning_names_the_nearest_known_label():
    model = borrow.PooledGPRegressor("site", unseen="population", **FIXED).fit(TABLE, Y)
    with pytest.warns(UserWarning, match=r"the task 'S-1' \(not 's1'\?\), 'zz'; the answer"):
        model.predict(NEW.assign(site=["S-1", "s2", "zz"]))


CLASSIFIERS = [
    borrow.MultiTaskGPClassifier("site", kernel=FIXED["kernel"], optimizer=None, unseen="population"),
    borrow.HierarchicalGPClassifier("site", unseen="population"),
]


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_probabilities_of_a_new_task_are_the_mean_over_those_seen(model):
    model.fit(TABLE, np.where(Y > 0.0, "up", "down"))
    with pytest.warns(UserWarning, match="never saw"):
        p = model.predict_proba(NEW)
    each = np.array([model.predict_proba(NEW[["x"]], tasks=f"s{t}") for t in range(M)])
    np.testing.assert_allclose(p[[0, 2]], each.mean(axis=0)[[0, 2]], atol=1e-12)
    np.testing.assert_allclose(p[1], each[2, 1], atol=1e-12)
    with pytest.warns(UserWarning, match="never saw"):
        assert model.decision_function(NEW).shape == (3,)


@pytest.mark.filterwarnings("ignore:fit never saw")
def test_leaving_groups_out_and_sorted_folds_work_in_the_tools_of_scikit_learn():
    model = borrow.MultiTaskGPRegressor("site", task_covariance="uniform", unseen="population", **FIXED)
    predicted = cross_val_predict(model, TABLE, Y, groups=TABLE["site"], cv=GroupKFold(3))
    assert np.corrcoef(predicted, np.sin(TABLE["x"]))[0, 1] > 0.9
    assert np.isfinite(cross_val_score(model, TABLE, Y, cv=3, error_score="raise")).all()
    with pytest.raises(ValueError, match="shuffle or stratify by task"):
        cross_val_predict(model.set_params(unseen="error"), TABLE, Y, cv=3)


def test_the_score_of_a_focused_model_is_of_its_primary():
    model = borrow.FocusedGPRegressor("site", "s0", rho=0.5, **FIXED).fit(TABLE, Y)
    mine = TASK == 0
    assert model.score(TABLE, Y) == model.score(TABLE[mine], Y[mine])
    shifted = np.where(mine, Y, 100.0)  # what other rows hold makes no difference
    assert model.score(TABLE, shifted) == model.score(TABLE, Y)
    weights = np.where(np.arange(M * N) % 2, 1.0, 2.0)
    assert model.score(TABLE, Y, weights) == model.score(TABLE[mine], Y[mine], weights[mine])
    with pytest.raises(ValueError, match="score of FocusedGPRegressor is that of its primary, and no row is of 's0'"):
        model.score(TABLE[~mine], Y[~mine])
    labels = np.where(Y > 0.0, 1, 0)
    classes = borrow.FocusedGPClassifier("site", "s0", kernel=FIXED["kernel"], optimizer=None).fit(TABLE, labels)
    assert classes.score(TABLE, np.where(mine, labels, 1 - labels)) == classes.score(TABLE[mine], labels[mine])
    auto = borrow.AutoRegressor("site", "s0", ["pooled"], KFold(2)).fit(TABLE, Y)
    assert auto.score(TABLE, shifted) == auto.score(TABLE, Y)


def test_a_primary_of_one_group_has_no_folds_and_the_sentence_says_what_to_do():
    table = {"x": np.linspace(0, 1, 12), "site": ["a", "b"] * 6, "y": np.linspace(0, 1, 12) ** 2}
    with pytest.raises(ValueError, match=r"all rows of 'a' are of one group.*unseen='population', without primary"):
        borrow.compare(table | {"place": table["site"]}, "y", "site", "a", features=["x"], group="place")


HOSPITALS = TABLE.assign(response=Y, ward=np.tile(["east", "west"], M * N // 2))


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    store = tmp_path_factory.mktemp("unseen") / "run.jsonl"
    own = ("line", Ridge(1e-6))
    return borrow.compare(HOSPITALS, "response", "site", methods=["ivm", own], unseen="population", store=store), store


def test_compare_holds_out_every_task_whole_and_asks_each_method_for_a_new_one(held_out):
    found, _ = held_out
    assert found.primaries == ["a new site"]
    assert found.methods == ["pooled", "mean of all rows", "ridge on all rows", "line", "ivm"]
    assert found.skipped.keys() == {"single"}
    encoded = borrow.TableEncoder("site").fit_transform(HOSPITALS[["x", "ward", "site"]])
    inputs = encoded.drop(columns="site").to_numpy(dtype=float)
    for t in range(M):
        mine, others = np.flatnonzero(t == TASK), np.flatnonzero(t != TASK)
        records = {m: found.folds("a new site", m)[t] for m in found.methods}
        assert all(r["rows"] == mine.tolist() and r["n_train"] == len(others) for r in records.values())
        assert not any(r["warnings"] for r in records.values())  # that the task was never seen is what was asked
        np.testing.assert_allclose(records["mean of all rows"]["mean"], Y[others].mean())
        line = Ridge(1e-6).fit(inputs[others], Y[others]).predict(inputs[mine])
        np.testing.assert_allclose(records["line"]["mean"], line)
    model = borrow.MultiTaskIVMRegressor(unseen="population", random_state=0)
    model.fit(inputs[TASK != 2], Y[TASK != 2], tasks=TASK[TASK != 2])
    with pytest.warns(UserWarning, match="never saw"):
        mean, std = model.predict(inputs[TASK == 2], tasks=2, return_std=True, include_noise=True)
    record = found.folds("a new site", "ivm")[2]
    np.testing.assert_allclose(record["mean"], mean, rtol=1e-6)
    np.testing.assert_allclose(record["std"], std, rtol=1e-6)


def test_each_task_counts_as_one_in_the_interval_and_the_answer_says_so(held_out):
    found, store = held_out
    by_task = [np.mean(r["losses"]) for r in found.folds("a new site", "pooled")]
    spread = np.std(by_task, ddof=1) / np.sqrt(M)
    inflation = np.sqrt(1.0 + M * N / ((M - 1) * N))  # of folds that share rows (Nadeau and Bengio)
    assert found.error("a new site", "pooled").std_error == pytest.approx(inflation * spread, rel=1e-6)
    verdict = found.verdict()
    assert verdict.best == "ivm"
    assert "against" in verdict.sentence
    assert "over 6 tasks, each held out whole" in verdict.sentence
    assert verdict.method in ("pooled", "ivm")
    assert "unseen='population')" in verdict.advice[0]
    again = borrow.Comparison.read(store)
    assert again.verdict().sentence == verdict.sentence
    assert again.table() == found.table()


def test_the_report_asks_about_a_task_never_seen(held_out, tmp_path):
    found, _ = held_out
    page = found.report(tmp_path / "page.html", HOSPITALS).read_text("utf-8")
    assert "predicted for a new site, one that was never seen?" in page
    assert "tasks held out in turn" in page
    assert "without the other data" not in page
    assert "--unseen population" in page


def test_a_report_where_nothing_tells_tasks_apart():
    found = borrow.compare(HOSPITALS, "response", "site", methods=["pooled"], unseen="population", cv=3)
    assert borrow.report.summary(found)["parts"][0]["verdict"]["method"] is None


def test_labels_of_tasks_never_seen():
    table = HOSPITALS.drop(columns="response").assign(up=np.where(Y > 0.0, "yes", "no"))
    found = borrow.compare(table, "up", "site", methods=["ivm"], unseen="population", cv=3)
    assert found.cv == {"folds": 3, "repeats": 1}
    held = [{TABLE["site"][i] for i in r["rows"]} for r in found.folds("a new site", "ivm")]
    assert sorted(t for tasks in held for t in tasks) == [f"s{t}" for t in range(M)]
    shares = found.folds("a new site", "shares of all rows")
    for r in shares:
        seen = np.delete(Y, r["rows"]) > 0.0
        np.testing.assert_allclose(np.array(r["probability"])[:, 1], seen.mean())


def test_what_cannot_be_asked_of_a_task_never_seen_is_refused():
    def ask(table=HOSPITALS, primary=None, methods=("ivm",), **more):
        return borrow.compare(table, "response", "site", primary, methods, **{"unseen": "population", **more})

    with pytest.raises(ValueError, match="every task in turn, whole; leave out primary"):
        ask(primary="s1")
    with pytest.raises(ValueError, match="leave out group"):
        ask(group="ward")
    with pytest.raises(ValueError, match="'focused' cannot answer for a task never seen"):
        ask(methods=["focused"])
    with pytest.raises(ValueError, match="needs 3 with a target at least; there are 's0', 's1'"):
        ask(HOSPITALS[: 2 * N])
    with pytest.raises(ValueError, match="unseen='mean': expected 'error', or 'population'"):
        ask(unseen="mean")
    with pytest.raises(ValueError, match="is the task column; unseen='population' holds out whole tasks"):
        ask(group="site", unseen="error")


def test_the_command_line_compares_for_a_new_task_and_saves_what_answers_for_one(tmp_path):
    data, model, new = tmp_path / "data.csv", tmp_path / "model.borrow", tmp_path / "new.csv"
    HOSPITALS.to_csv(data, index=False)
    columns = ["compare", str(data), "--target", "response", "--task", "site", "--methods", "ivm"]
    asked = [*columns, "--unseen", "population", "--cv", "2", "--save", str(model), "--json"]
    found = CliRunner().invoke(main, asked)
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert answer["primaries"] == ["a new site"]
    assert "each held out whole" in answer["verdicts"][0]["sentence"]
    HOSPITALS.head(2).assign(site="elsewhere").to_csv(new, index=False)
    predicted = CliRunner().invoke(main, ["predict", str(model), str(new), "-o", str(tmp_path / "out.csv")])
    assert predicted.exit_code == 0, predicted.output
    assert "never saw the task 'elsewhere'" in predicted.stderr
    assert (pd.read_csv(tmp_path / "out.csv")["std_measurement"] > 0.0).tolist() == [True, True]
    wrong = CliRunner().invoke(main, [*columns, "--unseen", "population", "--primary", "s1"])
    assert wrong.exit_code == 2
    assert "leave out primary" in wrong.stderr


def test_a_task_that_is_known_by_its_name_alone_is_not_what_a_model_is_fitted_to():
    y = np.where(np.array(TABLE["site"]) == "s0", np.nan, Y)
    problem = read_problem({**{c: np.array(TABLE[c]) for c in TABLE}, "y": y}, "y", "site")
    part = UnseenProblem.of(problem, None).take(np.arange(len(y)))
    assert "s0" in problem.tasks
    assert "s0" not in part.tasks
    assert len(part.tasks) == int(np.isfinite(y).sum())
