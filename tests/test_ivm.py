"""The multi-task IVM at its public face."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import borrow
from borrow.data.labels import encode
from borrow.kernels import Constant, SquaredExponential
from borrow.models.ivm.model import Selection
from borrow.models.ivm.problems import alternate, overlap, rows_left_out
from borrow.numerics import progress
from borrow.numerics.optimise import Optimum

Regressor, Classifier = borrow.MultiTaskIVMRegressor, borrow.MultiTaskIVMClassifier


@pytest.mark.filterwarnings("ignore:the noise variance is at its floor")  # some checks have exact targets
@parametrize_with_checks(
    [Regressor(), Classifier(max_iter=30), Regressor(n_active=7), Classifier(n_active=7, max_iter=20)]
)
def test_scikit_learn_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its checks
    check(estimator)


def drawn(seed=0, n=60, M=3, noise=0.1, lengthscale=1.0):
    """Functions of one GP, a task each, as a shuffled table."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, (n * M, 1))
    task = np.repeat(np.arange(M), n)
    K = np.where(task[:, None] == task, SquaredExponential(1.0, lengthscale)(X), 0.0)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(n * M)) @ rng.normal(size=n * M)
    order = rng.permutation(n * M)
    table = pd.DataFrame({"x": X[:, 0], "who": np.array(["a", "b", "c", "d"])[task], "f": f})
    table["y"] = f + noise * rng.normal(size=n * M)
    table["label"] = np.where(f + 0.3 * rng.normal(size=n * M) > 0, "yes", "no")
    table["word"] = np.where(f > 0.5, "high", np.where(f < -0.5, "low", "mid"))
    return table.iloc[order].reset_index(drop=True)


TABLE = drawn()
INPUTS = TABLE[["x", "who"]]
FIXED = {"kernel": SquaredExponential(1.0, 1.0), "noise": 0.01, "optimizer": None, "normalize_y": False}


def test_all_rows_active_is_the_exact_gp_of_each_task():
    ivm = Regressor("who", n_active=1000, **FIXED).fit(INPUTS, TABLE["y"])
    exact = borrow.SingleTaskGPRegressor("who", **FIXED).fit(INPUTS, TABLE["y"])
    assert_allclose(ivm.log_marginal_likelihood_, exact.log_marginal_likelihood_, rtol=1e-9)
    new = pd.DataFrame({"x": np.linspace(-5, 5, 9), "who": "b"})
    for one, other in zip(ivm.predict(new, return_std=True), exact.predict(new, return_std=True), strict=True):
        assert_allclose(one, other, atol=1e-8)
    cov = ivm.predict(new, return_cov=True)[1]
    assert_allclose(np.sqrt(np.diagonal(cov)), ivm.predict(new, return_std=True)[1], atol=1e-10)


def test_replicates_merged_or_weighted_are_the_same_fit():
    X, y = np.array([[0.0], [0.0], [1.0], [2.0], [2.0], [2.0]]), np.array([0.1, 0.3, -1.0, 0.5, 0.7, 0.6])
    exact = borrow.SingleTaskGPRegressor(kernel=SquaredExponential(), noise=0.05, optimizer=None).fit(X, y)
    ivm = Regressor(kernel=SquaredExponential(), noise=0.05, optimizer=None).fit(X, y)
    assert_allclose(ivm.log_marginal_likelihood_, exact.log_marginal_likelihood_, rtol=1e-10)
    assert sorted(ivm.active_.tolist()) == [0, 2, 3]  # the first row of each cell
    weighted = Regressor(kernel=SquaredExponential(), noise=0.05, optimizer=None).fit(
        [[0.0], [1.0], [2.0]], [0.2, -1.0, 0.6], sample_weight=[2, 1, 3]
    )
    assert_allclose(weighted.active_counts_[0], 3)


def test_units_of_y_change_the_evidence_by_the_chosen_rows_only():
    fits = [Regressor("who", n_active=30).fit(INPUTS, s * TABLE["y"] + 5.0) for s in (1.0, 10.0)]
    assert_array_equal(fits[0].active_, fits[1].active_)
    gap = fits[0].log_marginal_likelihood_ - fits[1].log_marginal_likelihood_
    assert_allclose(gap, 30 * np.log(10.0), rtol=1e-3)
    assert_allclose(fits[1].noise_["a"], 100 * fits[0].noise_["a"], rtol=1e-2)


@pytest.mark.parametrize("selection", ["entropy", "random"])
def test_fit_does_not_depend_on_the_order_of_rows(selection):
    order = np.random.default_rng(1).permutation(len(TABLE))
    one = Regressor("who", n_active=25, selection=selection).fit(INPUTS, TABLE["y"])
    other = Regressor("who", n_active=25, selection=selection).fit(INPUTS.iloc[order], TABLE["y"].iloc[order])
    assert_array_equal(order[other.active_], one.active_)
    assert_array_equal(one.predict(INPUTS), other.predict(INPUTS))


def test_active_rows_are_numbered_as_given_also_where_rows_are_left_out():
    y = TABLE["y"].where(np.arange(len(TABLE)) % 3 > 0)  # NaN in every third row
    weight = (np.arange(len(TABLE)) % 3 < 2).astype(float)
    model = Regressor("who", n_active=20).fit(INPUTS, y, sample_weight=weight)
    assert set(model.active_ % 3) == {1}
    assert sum(model.active_counts_.values()) == 20
    chosen = TABLE["who"].iloc[model.active_].value_counts().to_dict()
    assert chosen == {k: v for k, v in model.active_counts_.items() if v}
    wide = np.column_stack([TABLE["f"], -TABLE["f"]])
    wide[::2, 0] = np.nan
    model = Regressor(n_active=9).fit(TABLE[["x"]], wide)
    assert model.active_.max() < len(TABLE)
    assert model.predict(TABLE[["x"]]).shape == (len(TABLE), 2)


def test_given_noise_is_kept_without_an_optimiser():
    y = TABLE["y"] * np.where(TABLE["who"] == "a", 10.0, 1.0)
    given = {"a": 1.0, "b": 0.02, "c": 0.03}
    kept = Regressor("who", noise=given, optimizer=None).fit(INPUTS, y)
    assert kept.noise_ == pytest.approx(given)
    assert Regressor("who", noise=0.5, optimizer=None).fit(INPUTS, y).noise_ == pytest.approx(dict.fromkeys("abc", 0.5))


def test_gains_fall_and_are_positive():
    gain = Regressor("who", n_active=60).fit(INPUTS, TABLE["y"]).entropy_gain_
    assert np.all(gain > 0)
    assert np.all(np.diff(gain) <= 1e-12)  # Gaussian: a row tells less the more is known


def test_entropy_spreads_rows_where_random_does_not():
    spread = [
        Regressor("who", n_active=30, selection=s, **FIXED).fit(INPUTS, TABLE["y"]) for s in ("entropy", "random")
    ]
    assert spread[0].entropy_gain_.sum() > 1.1 * spread[1].entropy_gain_.sum()
    again = Regressor("who", n_active=30, selection="random", random_state=1, **FIXED).fit(INPUTS, TABLE["y"])
    assert overlap(again.active_, spread[1].active_) < 0.5


def test_kernel_and_noise_come_back_from_few_rows():
    table = drawn(3, n=300, noise=0.1)
    model = Regressor("who", n_active=90, normalize_y=False).fit(table[["x", "who"]], table["y"])
    assert_allclose(model.kernel_.lengthscale, 1.0, rtol=0.25)
    assert_allclose(model.noise_["a"], 0.01, rtol=0.25)
    given = Regressor("who", n_active=90, normalize_y=False, kernel=SquaredExponential(0.5, 2.0), noise=0.5)
    assert_allclose(given.fit(table[["x", "who"]], table["y"]).noise_["b"], 0.01, rtol=0.25)
    each = Regressor("who", n_active=90, normalize_y=False, share_noise=False).fit(table[["x", "who"]], table["y"])
    assert_allclose(list(each.noise_.values()), 0.01, rtol=0.35)
    assert np.ptp(list(each.noise_.values())) > 0


def test_task_without_an_active_row_is_predicted_from_the_prior_and_says_so():
    table = pd.concat([TABLE, pd.DataFrame({"x": [0.0], "who": ["z"], "y": [0.3], "label": ["yes"]})])
    X = table[["x", "who"]]
    kernel = SquaredExponential(1.0, 1.0)
    far = Regressor("who", n_active=2, kernel=kernel, optimizer=None).fit(X, table["y"])
    assert far.active_counts_["z"] == 0
    new = pd.DataFrame({"x": [0.0, 3.0], "who": "z"})
    with pytest.warns(UserWarning, match=r"task 'z' has no active row: predicted from the prior.*raise n_active"):
        mean, std = far.predict(new, return_std=True)
    assert mean[0] == mean[1]
    assert std[0] == std[1]
    labels = Classifier("who", n_active=2, kernel=kernel, optimizer=None).fit(X, table["label"])
    with pytest.warns(UserWarning, match="task 'z' has no active row"):
        p = labels.predict_proba(new)
    assert_allclose(p[0], p[1])
    known = pd.DataFrame({"x": [0.0], "who": [next(k for k, v in far.active_counts_.items() if v)]})
    far.predict(known)  # says nothing


def test_adapted_regressor_knows_the_kernel():
    table = drawn(5, n=80, M=4)
    others, mine = table[table["who"] != "d"], table[table["who"] == "d"]
    model = Regressor("who", n_active=90).fit(others[["x", "who"]], 3.0 + 2.0 * others["y"])
    few = mine.iloc[:12]
    for X in (few[["x"]], few[["x", "who"]], few[["x"]].to_numpy()):
        child = model.adapt(X, 3.0 + 2.0 * few["y"])
        mean, std = child.predict(mine[["x"]] if hasattr(X, "columns") else mine[["x"]].to_numpy(), return_std=True)
        error = (mean - 3.0 - 2.0 * mine["f"]) / std
        assert np.mean(np.abs(error) < 2.5) > 0.9
        assert child.kernel_ == model.kernel_
        assert sorted(child.active_.tolist()) == list(range(12))
    assert np.sqrt(np.mean((mean - 3.0 - 2.0 * mine["f"]) ** 2)) < 0.8 * 2.0 * mine["f"].std()
    with pytest.raises(ValueError, match=r"X lacks 'x'; fit saw the columns 'x'"):
        model.adapt(few[["f"]], few["y"])
    with pytest.raises(ValueError, match=r"X has 12 rows and y has the shape \(11,\)"):
        model.adapt(few[["x"]], few["y"][:11])
    with pytest.warns(UserWarning, match="fitted to a single row"):
        alone = model.adapt(few[["x"]].iloc[:1], [4.0])
    assert np.isfinite(alone.predict(mine[["x"]])).all()


def test_adapted_classifier_keeps_classes_it_has_not_seen():
    model = Classifier("who", n_active=40).fit(INPUTS, TABLE["word"])
    mine = drawn(7, M=1)
    few = mine[mine["word"] != "mid"].iloc[:10]
    child = model.adapt(few[["x"]], few["word"])
    assert child.classes_.tolist() == ["high", "low", "mid"]
    p = child.predict_proba(mine[["x"]])
    assert p.shape == (60, 3)
    assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(child.predict(few[["x"]]) == few["word"]) > 0.8
    assert [repr(k) for k in child.kernel_] == [repr(k) for k in model.kernel_]
    with pytest.raises(ValueError, match=r"the label 'huge', which fit did not see; labels are 'high', 'low', 'mid'"):
        model.adapt(few[["x"]], ["huge"] * 10)
    binary = Classifier("who", n_active=40).fit(INPUTS, TABLE["label"])
    only = binary.adapt(few[["x"]].iloc[:3], ["no"] * 3)
    assert np.all(only.predict_proba(few[["x"]].iloc[:3])[:, 0] > 0.9)


def test_labels_are_predicted():
    model = Classifier("who", n_active=60).fit(INPUTS, TABLE["label"])
    assert np.mean(model.predict(INPUTS) == TABLE["label"]) > 0.85
    assert len(model.active_) == len(model.entropy_gain_) == 60
    assert sum(model.active_counts_.values()) == 60
    scores = cross_val_score(Classifier("who", n_active=60), INPUTS, TABLE["label"], cv=KFold(3))
    assert scores.min() > 0.75


def test_ep_sweeps_reach_the_fixed_point_of_ep():
    kernel = SquaredExponential(4.0, 0.8)
    exact = borrow.SingleTaskGPClassifier("who", kernel=kernel, optimizer=None).fit(INPUTS, TABLE["label"])
    settings = {"n_active": 1000, "kernel": kernel, "optimizer": None}
    adf = Classifier("who", **settings).fit(INPUTS, TABLE["label"])
    ep = Classifier("who", ep_sweeps=100, **settings).fit(INPUTS, TABLE["label"])
    target = exact.predict_proba(INPUTS)
    assert_allclose(ep.predict_proba(INPUTS), target, atol=1e-5)
    assert np.abs(adf.predict_proba(INPUTS) - target).max() > 1e-3


def test_rounds_report_their_overlap():
    model = Regressor("who", n_active=40, n_rounds=4).fit(INPUTS, TABLE["y"])
    shared = model.rounds_["overlap"]
    assert np.isnan(shared[0])
    assert all(0 < v <= 1 for v in shared[1:])
    assert len(model.rounds_["round"]) == len(shared) <= 4
    assert len(Regressor("who", n_active=40).fit(INPUTS, TABLE["y"]).rounds_["round"]) == 1


class Circular:
    """Two kernels that send each other to other rows."""

    n_rows = 10

    def select(self, values, d, order, report):
        rows = np.arange(3) if values["kernel"][0] == 0 else np.arange(5, 8)
        return Selection(rows, *(np.zeros(3),) * 5)

    def learn(self, selection, values):
        new = {"kernel": 1.0 - values["kernel"]}
        return Optimum(new, 0.0, 1, 1, True, "")


def test_two_cycles_are_noticed():
    found = alternate(Regressor(n_active=3, n_rounds=9, verbose=False), Circular(), {"kernel": np.zeros(1)})
    assert found.cycle == (1, 3)
    assert len(found.rounds["round"]) == 2
    from borrow.models.ivm.estimators import warn_cycle

    with pytest.warns(ConvergenceWarning, match="rounds 1 and 3 chose the same rows.*circle"):
        warn_cycle(found.cycle)


def test_progress_is_written_when_asked(capsys):
    Regressor("who", n_active=20, verbose=True).fit(INPUTS, TABLE["y"])
    assert "rows chosen 1 of 20" in capsys.readouterr().err
    Regressor("who", n_active=20).fit(INPUTS, TABLE["y"])
    assert capsys.readouterr().err == ""
    step = progress.Progress(3, "rows", True, every=0.0)
    for k in (1, 2, 3):
        step(k)
    lines = capsys.readouterr().err.splitlines()
    assert "to go" in lines[0]
    assert "rows 3 of 3; 0 s" in lines[2]


def test_noise_at_its_floor_is_told():
    X = np.linspace(0, 6, 60)[:, None]
    with pytest.warns(ConvergenceWarning, match=r"noise variance is at its floor of 1e-06"):
        Regressor(n_active=20, kernel=SquaredExponential(1.0, 2.0)).fit(X, np.sin(X[:, 0]))


def test_noise_that_collapsed_on_the_chosen_rows_is_told():
    table = drawn(2, n=200, lengthscale=0.5, noise=0.3)
    X, y = table[["x", "who"]], table["y"]
    given = {"n_active": 24, "noise_from": "active", "prior": None, "kernel": SquaredExponential(1.0, 0.5)}
    with pytest.warns(ConvergenceWarning, match=r"the noise has collapsed.*noise_from='rest'"):
        low = Regressor("who", noise=1e-4, **given).fit(X, y)
    high = Regressor("who", n_active=24).fit(X, y)
    assert low.noise_["a"] < 0.02 < high.noise_["a"] < 0.2


def test_rows_left_out_are_thinned():
    assert_array_equal(rows_left_out(6, np.array([1, 3])), [0, 2, 4, 5])
    assert len(rows_left_out(100_000, np.arange(10))) == 500
    assert len(rows_left_out(5, np.arange(5))) == 0


BAD = {
    r"n_active=0: expected a whole number of at least 1": {"n_active": 0},
    r"n_active='all': expected a whole number": {"n_active": "all"},
    r"n_rounds=0: expected a whole number of at least 1": {"n_rounds": 0},
    r"selection='best': expected 'entropy' or 'random'": {"selection": "best"},
    r"prior='weak': expected 'auto'": {"prior": "weak"},
    r"3 entries and the inputs have 1 columns": {"kernel": SquaredExponential(1.0, (1.0,) * 3)},
}
BAD_REGRESSION = {
    r"noise_from='all': expected 'rest' \(rows that were not chosen\) or 'active'": {"noise_from": "all"},
    r"share_noise='yes': expected True \(one noise for all tasks\) or False": {"share_noise": "yes"},
    r"noise of task 'a' is -1; expected a positive variance": {"noise": -1},
    r"noise names the task 's9'; tasks are 'a', 'b', 'c'": {"noise": {"s9": 1.0}},
}


@pytest.mark.parametrize("message", BAD)
def test_both_refuse_settings(message):
    for model, y in ((Regressor, TABLE["y"]), (Classifier, TABLE["label"])):
        with pytest.raises(ValueError, match=message):
            model("who", **BAD[message]).fit(INPUTS, y)


@pytest.mark.parametrize("message", BAD_REGRESSION)
def test_regressor_refuses_settings(message):
    with pytest.raises(ValueError, match=message):
        Regressor("who", **BAD_REGRESSION[message]).fit(INPUTS, TABLE["y"])


def test_ep_sweeps_must_be_a_number():
    with pytest.raises(ValueError, match="ep_sweeps=-1: expected a whole number of at least 0"):
        Classifier("who", ep_sweeps=-1).fit(INPUTS, TABLE["label"])


def test_strangers_tables():
    with pytest.raises(ValueError, match=r"'whose' is not a column of X.*did you mean 'who'"):
        Regressor("whose").fit(INPUTS, TABLE["y"])
    model = Regressor("who", n_active=10).fit(INPUTS, TABLE["y"])
    with pytest.raises(ValueError, match="unknown task 'q'"):
        model.predict(INPUTS.assign(who="q"))
    with pytest.raises(ValueError, match="fitted on 3 tasks, and nothing says which task"):
        model.predict(INPUTS[["x"]])
    with pytest.raises(ValueError, match=r"NaN or infinity \(inf\) in row 0"):
        Regressor("who").fit(INPUTS.assign(x=[np.nan, *TABLE["x"][1:]]), TABLE["y"])
    with pytest.warns(UserWarning, match="fitted to a single row"):
        alone = Regressor().fit([[1.0]], [2.0])
    mean, std = alone.predict([[1.0], [9.0]], return_std=True)
    assert_allclose(mean, 2.0)
    assert 0 < std[0] < std[1]
    with pytest.warns(UserWarning, match="the targets of task 'a', 'b', 'c' are all equal"):
        flat = Regressor("who", n_active=30).fit(INPUTS, np.full(len(TABLE), 3.0))
    assert_allclose(flat.predict(INPUTS), 3.0)
    same = Regressor(n_active=4).fit(np.ones((20, 2)), TABLE["y"][:20])
    assert_allclose(same.predict(np.ones((1, 2))), TABLE["y"][:20].mean(), atol=0.2)
    one = Classifier("who").fit(INPUTS, ["yes"] * len(TABLE))
    assert set(one.predict(INPUTS)) == {"yes"}
    near = Classifier(n_active=15, kernel=SquaredExponential() + Constant()).fit(np.ones((20, 1)), TABLE["label"][:20])
    assert_allclose(near.predict_proba([[1.0]])[0, 1], np.mean(TABLE["label"][:20] == "yes"), atol=0.15)


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Small", (), {"available": 1e5})())
    with pytest.raises(
        MemoryError, match=r"choosing 180 rows, where the largest task has 60, needs about .*lower n_active"
    ):
        Regressor("who").fit(INPUTS, TABLE["y"])


def test_rough_function_is_not_taken_for_a_smooth_one_and_noise():
    table = drawn(4, n=200, lengthscale=0.4, noise=0.3)
    model = Regressor("who", n_active=60).fit(table[["x", "who"]], table["y"])
    assert_allclose(model.kernel_.lengthscale, 0.4, rtol=0.3)
    assert_allclose(model.noise_["a"], 0.09, rtol=0.3)


def test_leave_one_out_of_all_rows_is_that_of_the_exact_gp():
    rng = np.random.default_rng(4)
    X, tasks = rng.uniform(0, 3, (24, 1)), np.repeat(["a", "b"], 12)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=24)
    how = {
        "kernel": borrow.kernels.SquaredExponential(1.0, 0.7),
        "noise": 0.05,
        "optimizer": None,
        "normalize_y": False,
    }
    exact = borrow.SingleTaskGPRegressor(**how).fit(X, y, tasks=tasks).leave_one_out()
    ours = borrow.MultiTaskIVMRegressor(n_active=24, **how).fit(X, y, tasks=tasks).leave_one_out()
    for label in ("a", "b"):
        for name in ("y", "mean", "std"):
            one, other = (np.sort(np.array(t[name])[np.array(t["task"]) == label]) for t in (exact, ours))
            np.testing.assert_allclose(one, other, atol=1e-9)
    few = borrow.MultiTaskIVMRegressor(n_active=7, **how).fit(X, y, tasks=tasks)
    assert sorted(few.leave_one_out()["y"]) == sorted(y[few.active_])


def test_probabilities_of_a_rare_label_are_corrected_for_the_selection():
    """Entropy prefers the rarer label; what is predicted must be as frequent as it is."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(1200, 2)), np.repeat(np.arange(6), 200)
    y = (X[:, 0] + 0.7 * rng.normal(size=1200) > 1.9).astype(int)
    model = Classifier(n_active=100).fit(X[::2], y[::2], tasks=task[::2])
    chosen = y[::2][model.active_]
    assert chosen.mean() > 2.0 * y.mean()
    p = model.predict_proba(X[1::2], tasks=task[1::2])[:, 1]
    assert p.mean() == pytest.approx(y[1::2].mean(), abs=0.015)
    found = model.fitted_.model[0]
    code = encode(task[1::2].tolist(), model.fitted_.schema.labels)
    plain = replace(found, slope=1.0, shift=0.0).probability(X[1::2], code)
    assert plain.mean() > 1.5 * y.mean()
    assert log_loss(y[1::2], p) < log_loss(y[1::2], plain)
