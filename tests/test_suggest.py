"""What to measure next: the closed form against refits with the candidate added."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import multivariate_normal

import borrow
from borrow.cli.suggest import lines_of
from borrow.kernels import SquaredExponential
from borrow.transfer.suggest import discriminating, divergence

RNG = np.random.default_rng(3)
TABLE = pd.DataFrame({"x": RNG.uniform(0, 6, 18), "z": RNG.normal(size=18), "who": ["a"] * 4 + ["b"] * 8 + ["c"] * 6})
Y = np.sin(TABLE["x"].to_numpy()) + 0.1 * RNG.normal(size=18)
NEW = pd.DataFrame({"x": RNG.uniform(0, 6, 6), "z": RNG.normal(size=6), "who": ["a", "b", "c", "a", "b", "c"]})
KERNEL = SquaredExponential(1.3, (1.5, 3.0))
EVERYWHERE = np.vstack([TABLE[["x", "z"]].to_numpy(), NEW[["x", "z"]].to_numpy()])
FIXED = {"task": "who", "optimizer": None, "normalize_y": False}
NOISE = {"a": 0.05, "b": 0.2, "c": 0.1}
B = np.array([[1.0, 0.8, -0.3], [0.8, 1.5, 0.2], [-0.3, 0.2, 0.7]])

MODELS = {
    "focused": borrow.FocusedGPRegressor(
        primary="a",
        kernel=KERNEL,
        specific_kernel=SquaredExponential(0.4, (1.0, 2.0)),  # the default would move with the column scales
        rho={"b": 0.8, "c": -0.5},
        noise=NOISE,
        inducing=EVERYWHERE,
        **FIXED,
    ),
    "symmetric": borrow.MultiTaskGPRegressor(kernel=KERNEL, task_covariance=B, noise=NOISE, **FIXED),
    "single": borrow.SingleTaskGPRegressor(kernel=KERNEL, noise=NOISE, **FIXED),
    "pooled": borrow.PooledGPRegressor(kernel=KERNEL, noise=0.1, **FIXED),
    "ivm": borrow.MultiTaskIVMRegressor(n_active=100, kernel=KERNEL, noise=0.1, **FIXED),
    "hierarchical": borrow.HierarchicalGPRegressor(
        base_kernel=KERNEL, noise=0.1, covariance_strength=np.inf, mean_strength=np.inf, learn_noise=False, **FIXED
    ),
}


def average_variance(model, reference):
    return float(np.mean(model.predict(reference, tasks="a", return_std=True)[1] ** 2))


def reference_of(name):
    own = TABLE[["x", "z"]] if name in ("pooled", "hierarchical") else TABLE.loc[TABLE["who"] == "a", ["x", "z"]]
    return pd.DataFrame(np.unique(np.vstack([own, NEW[["x", "z"]]]), axis=0), columns=["x", "z"])


@pytest.mark.parametrize("name", MODELS)
def test_reduction_is_what_a_refit_finds(name):
    """Every candidate, and every step of the batch: the target that is put in does not matter."""
    reference, at = reference_of(name), (TABLE, Y)
    model = MODELS[name].fit(*at)
    before = average_variance(model, reference)
    alone = []
    for i in range(len(NEW)):
        more = pd.concat([TABLE, NEW.iloc[[i]]]), np.append(Y, 7.0)
        alone.append(before - average_variance(MODELS[name].fit(*more), reference))
    model = MODELS[name].fit(TABLE, Y)
    found = borrow.suggest(model, NEW, 6, primary="a")
    assert found["row"][0] == int(np.argmax(alone))
    assert found["task"] == NEW["who"].iloc[found["row"]].tolist()
    np.testing.assert_array_equal(found["x"], NEW["x"].iloc[found["row"]])
    assert found["reduction"][0] == pytest.approx(max(alone), rel=1e-7)
    for k in range(1, 7):
        rows = found["row"][:k]
        more = pd.concat([TABLE, NEW.iloc[rows]]), np.append(Y, np.zeros(k))
        left = average_variance(MODELS[name].fit(*more), reference)
        assert found["remaining"][k - 1] == pytest.approx(left, rel=1e-7)
    assert np.sum(found["reduction"]) == pytest.approx(before - found["remaining"][-1], rel=1e-7)


def test_each_step_of_the_batch_is_the_best_given_those_before():
    model = MODELS["focused"].fit(TABLE, Y)
    found = borrow.suggest(model, NEW, 3)
    rest = NEW.drop(index=found["row"][0])
    again = borrow.suggest(
        MODELS["focused"].fit(pd.concat([TABLE, NEW.iloc[[found["row"][0]]]]), np.append(Y, 1.0)),
        rest,
        1,
    )
    assert rest.index[again["row"][0]] == found["row"][1]
    reference = reference_of("focused")
    assert len(reference) == 10  # the same as with the candidate moved among the rows


def test_measuring_another_task_tells_where_functions_are_shared_and_nothing_where_they_are_not():
    other = NEW[NEW["who"] != "a"]
    assert min(borrow.suggest(MODELS["focused"].fit(TABLE, Y), other, 1)["reduction"]) > 1e-3
    assert borrow.suggest(MODELS["single"].fit(TABLE, Y), other, 1, primary="a")["reduction"] == [0.0]


def test_costs_by_task_by_row_and_by_column():
    model = MODELS["focused"].fit(TABLE, Y)
    free = borrow.suggest(model, NEW, 6)
    assert free["cost"] == [1.0] * 6
    by_task = borrow.suggest(model, NEW, 6, {"a": 1e6, "b": 1.0, "c": 2.0})
    assert by_task["task"][-2:] == ["a", "a"]
    prices = NEW["who"].map({"a": 1e6, "b": 1.0, "c": 2.0})
    assert borrow.suggest(model, NEW, 6, prices.to_numpy()) == by_task
    assert borrow.suggest(model, NEW.assign(price=prices), 6, "price") == by_task
    table = pl.DataFrame(NEW.assign(price=prices).to_dict("list"))
    assert borrow.suggest(model, table, 6, "price") == by_task
    for row in by_task.rows():
        assert row["reduction_per_cost"] == row["reduction"] / row["cost"]


@pytest.mark.parametrize("kind", [borrow.FocusedGPRegressor, borrow.SingleTaskGPRegressor, borrow.PooledGPRegressor])
def test_the_uncertainty_of_hyper_parameters_is_no_part_of_it(kind):
    """Learnt hyper-parameters widen the band; a row more is judged as by a model that was given them."""
    rows, y, new = TABLE[["x", "z"]], Y, NEW[["x", "z"]]
    learnt = kind().fit(rows, y)
    given = kind(kernel=learnt.kernel_, noise=next(iter(learnt.noise_.values())), optimizer=None).fit(rows, y)
    assert np.all(learnt.predict(new, return_std=True)[1] > given.predict(new, return_std=True)[1])
    before = learnt.predict(new, return_std=True)[1]
    found, expected = borrow.suggest(learnt, new, 3), borrow.suggest(given, new, 3)
    assert found["row"] == expected["row"]
    np.testing.assert_allclose(found["reduction"], expected["reduction"], rtol=1e-6)
    np.testing.assert_allclose(found["remaining"], expected["remaining"], rtol=1e-6)
    np.testing.assert_array_equal(learnt.predict(new, return_std=True)[1], before)  # the model is left alone


def test_rbf_network_goes_by_gamma_as_its_own_select():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 6, 40), "z": rng.normal(size=40), "who": ["a", "b"] * 20})
    model = borrow.MultiTaskRBFRegressor("who", n_basis=4).fit(table, np.sin(table["x"]))
    new = pd.DataFrame({"x": rng.uniform(-2, 8, 12), "z": rng.normal(size=12), "who": ["a", "b"] * 6})
    found = borrow.suggest(model, new, 5)
    assert found["row"] == model.select(new, 5).tolist()
    assert np.all(np.diff(found["reduction"]) <= 1e-12)
    assert np.isnan(found["remaining"]).all()


def test_candidates_of_a_focused_model_are_the_primarys_where_none_is_named():
    found = borrow.suggest(MODELS["focused"].fit(TABLE, Y), NEW[["x", "z"]], 2)
    assert found["task"] == ["a", "a"]


WRONG = {
    r"n=0: expected how many rows": {"n": 0},
    r"cost has no entry for the task 'c'": {"cost": {"a": 1, "b": 1}},
    r"cost has 2 entries for 6 candidates": {"cost": [1.0, 2.0]},
    r"cost of candidate 1 is -1; expected a positive": {"cost": [1, -1, 1, 1, 1, 1]},
    r"cost='prize' is not a column of the candidates.*did you mean 'price'": {
        "cost": "prize",
        "candidates": NEW.assign(price=1.0),
    },
    r"primary='q' is not a task; tasks are 'a', 'b', 'c'": {"primary": "q"},
    r"unknown task 'q'": {"candidates": NEW.assign(who="q")},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls_are_answered_in_a_sentence(message):
    model = MODELS["focused"].fit(TABLE, Y)
    with pytest.raises(ValueError, match=message):
        borrow.suggest(model, **{"candidates": NEW, "n": 1, **WRONG[message]})


def test_a_model_that_cannot_says_so():
    labels = np.where(Y > 0, "up", "down")
    model = borrow.SingleTaskGPClassifier("who", optimizer=None).fit(TABLE, labels)
    with pytest.raises(ValueError, match=r"SingleTaskGPClassifier cannot say what to measure next.*regressors"):
        borrow.suggest(model, NEW, 1)
    auto = borrow.AutoClassifier().fit(TABLE[["x", "z"]], labels)
    with pytest.raises(ValueError, match=r"SingleTaskGPClassifier cannot say what to measure next"):
        borrow.suggest(auto, NEW[["x", "z"]], 1)
    with pytest.raises(ValueError, match="3 tasks and no primary"):
        borrow.suggest(MODELS["single"].fit(TABLE, Y), NEW, 1)


@pytest.mark.parametrize(("goal", "sign"), [("minimise", 1.0), ("maximise", -1.0)])
@pytest.mark.parametrize("name", ["focused", "symmetric", "single", "ivm"])
def test_improvement_is_what_draws_of_the_posterior_gain(name, goal, sign):
    """Of 200,000 draws of the function at each candidate: by how much they beat the best mean so far, on average."""
    model, mine = MODELS[name].fit(TABLE, Y), NEW[["x", "z"]]
    found = borrow.suggest(model, mine, 1, tasks="a", primary="a", goal=goal)
    at_known = model.predict(TABLE.loc[TABLE["who"] == "a", ["x", "z"]], tasks="a")
    mean, std = model.predict(mine, tasks="a", return_std=True)
    draws = sign * (mean + std * np.random.default_rng(0).normal(size=(200_000, len(mine))))
    gains = np.maximum((sign * at_known).min() - draws, 0.0).mean(axis=0)
    assert found["improvement"][0] == pytest.approx(gains[found["row"][0]], rel=0.03)
    assert found["improvement"][0] == pytest.approx(gains.max(), rel=0.03)  # two candidates may be as good
    assert (found["mean"][0], found["std"][0]) == pytest.approx((mean[found["row"][0]], std[found["row"][0]]))


def test_maximising_is_minimising_the_negative():
    low = borrow.suggest(MODELS["symmetric"].fit(TABLE, Y), NEW[["x", "z"]], 6, tasks="a", primary="a", goal="minimise")
    turned = MODELS["symmetric"].fit(TABLE, -Y)
    high = borrow.suggest(turned, NEW[["x", "z"]], 6, tasks="a", primary="a", goal="maximise")
    assert low["row"] == high["row"]
    np.testing.assert_allclose(low["improvement"], high["improvement"], rtol=1e-9)


def test_a_batch_that_seeks_a_record_spreads_and_cost_counts():
    """Of two candidates at one place and one elsewhere that is nearly as good, the twin comes last."""
    model = borrow.SingleTaskGPRegressor(
        kernel=SquaredExponential(1.0, 1.0), noise=1e-4, optimizer=None, normalize_y=False
    )
    model.fit(np.array([[0.0], [10.0]]), np.array([0.0, 0.01]))
    new = np.array([[5.0], [5.0], [-5.0]])
    assert borrow.suggest(model, new, 3, goal="minimise")["row"][:2] in ([0, 2], [2, 0], [2, 1])
    dear = borrow.suggest(model, new, 1, [1.0, 1.0, 0.9], goal="minimise")
    assert dear["row"] == [2]
    assert dear["improvement_per_cost"][0] == dear["improvement"][0] / 0.9


def test_a_record_is_sought_among_the_primarys_candidates_only():
    model = MODELS["focused"].fit(TABLE, Y)
    with pytest.raises(ValueError, match=r"looks for the best value of 'a', and a measurement of 'b', 'c' is none"):
        borrow.suggest(model, NEW, 1, goal="minimise")
    with pytest.raises(ValueError, match=r"goal='minimize': expected one of .*did you mean 'minimise'"):
        borrow.suggest(model, NEW, 1, goal="minimize")


# ---------------------------------------------------------------------------------------- what would settle the verdict


def test_log_odds_move_as_draws_from_the_two_models_say():
    """J against draws: log odds of the right model, whichever it is, after the measurements."""
    random = np.random.default_rng(0)
    A = random.normal(size=(3, 3))
    one, other = (np.array([0.3, -0.2, 1.0]), A @ A.T + np.eye(3)), (np.zeros(3), np.diag([1.0, 2.0, 0.5]))
    at = [0, 2]
    p, q = (multivariate_normal(m[at], C[np.ix_(at, at)]) for m, C in (one, other))
    y, z = p.rvs(200_000, random_state=1), q.rvs(200_000, random_state=2)
    moved = 0.5 * np.mean(p.logpdf(y) - q.logpdf(y)) + 0.5 * np.mean(q.logpdf(z) - p.logpdf(z))
    assert divergence(one, other, at) == pytest.approx(moved, rel=0.02)
    assert divergence(one, one, at) == pytest.approx(0.0, abs=1e-12)


def test_a_batch_takes_what_adds_most_per_cost_to_what_it_has():
    random = np.random.default_rng(1)
    x = np.array([0.0, 0.05, 2.0, 4.0])
    K = np.exp(-0.5 * (x[:, None] - x) ** 2)
    views = [
        (0.6, True, np.array([1.0, 1.0, 0.4, 0.0]), 0.1 * K + 0.1 * np.eye(4)),
        (0.3, False, np.zeros(4), K + 0.1 * np.eye(4)),
    ]
    views.append((0.1, True, random.normal(size=4), K + 0.2 * np.eye(4)))
    cost = np.ones(4)
    steps = discriminating(views, cost, 3)
    pairs = [(6 / 7, views[0][2:], views[1][2:]), (1 / 7, views[2][2:], views[1][2:])]
    chosen: list[int] = []
    for c, gain, reached in steps:
        before = sum(w * divergence(a, b, chosen) for w, a, b in pairs) if chosen else 0.0
        each = {k: sum(w * divergence(a, b, [*chosen, k]) for w, a, b in pairs) for k in range(4) if k not in chosen}
        assert c == max(each, key=each.get)
        assert (gain, reached) == pytest.approx((each[c] - before, each[c]))
        chosen.append(c)
    cost[steps[0][0]] = 1e6
    assert discriminating(views, cost, 1)[0][0] != steps[0][0]


def test_decide_measures_where_borrowing_and_doing_without_disagree():
    """The primary has a gap in which the other task has rows: what settles it lies there."""
    random = np.random.default_rng(4)
    x = np.concatenate([np.linspace(0, 2, 7), np.linspace(4.5, 6.5, 7), np.linspace(0, 6.5, 30)])
    who, y = ["a"] * 14 + ["b"] * 30, np.sin(2.5 * x) + 0.25 * random.normal(size=44)
    auto = borrow.AutoRegressor(primary="a", methods=["symmetric"], cv=3).fit(x[:, None], y, tasks=who)
    assert set(auto.weights_) == {"symmetric", "single"}
    new = np.array([[1.1], [5.3], [3.1]])
    found = borrow.suggest(auto, new, 2, tasks=["a"] * 3, goal="decide")
    assert found["row"][0] == 2
    said = [auto.members_[key].predict(new[[2]], tasks="a")[0] for key in ("symmetric", "single")]
    assert [found["borrowing"][0], found["alone"][0]] == pytest.approx(said)
    assert found["log_odds"][0] > found["log_odds"][1] > 0
    _, table, (words, _) = lines_of(found, 3, False)
    assert [c.header for c in table.columns] == ["rank", "row", "task", "x0", "log odds", "borrowing", "alone"]
    assert "towards the truth" in words
    with pytest.raises(ValueError, match=r"is about 'a', and a measurement of 'b' is none of it"):
        borrow.suggest(auto, new, 1, tasks=["b"] * 3, goal="decide")
    with pytest.raises(ValueError, match=r"MultiTaskGPRegressor is one model; give a fitted AutoRegressor"):
        borrow.suggest(auto.members_["symmetric"], new, 1, tasks=["a"] * 3, goal="decide")
    auto.fitted_.attributes["weights_"].pop("single")
    auto.fitted_.attributes["members_"].pop("single")
    with pytest.raises(ValueError, match=r"has nothing to decide"):
        borrow.suggest(auto, new, 1, tasks=["a"] * 3, goal="decide")
