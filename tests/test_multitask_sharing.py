"""The symmetric model by evidence: which tasks share, and what each has of its own."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import borrow
import oracles
from borrow import kernels
from borrow.inference import EPInference, priors
from borrow.inference.ep import class_bias
from borrow.inference.likelihoods import Probit
from borrow.models.multitask import search, sharing
from borrow.models.multitask.model import condition, log_prior_of, objective_of
from borrow.models.multitask.sharing import (
    OwnFits,
    alike_setup,
    gains_of_sharing,
    no_transfer_beside,
    price_of_sharing,
    sharing_setup,
    without,
)
from borrow.models.multitask.task_covariance import SharingTasks, Uniform, penalty_of_sharing
from borrow.numerics.device import Device
from borrow.numerics.optimise import Optimum, pack, unpack
from borrow.tasks.placed import PlacedTasks

COLUMNS = 4


def drawn(seed, mix, labels=False, sizes=(25, 40, 40)):
    """A primary of columns 0 and 1; secondaries of other columns, and `mix` of the primary's function."""
    rng = np.random.default_rng([seed, 77])
    n = sum(sizes)
    X = rng.normal(size=(n + 300, COLUMNS))
    task = np.repeat(np.arange(len(sizes)), sizes)
    first = np.sin(1.5 * X[:, 0]) + np.cos(1.2 * X[:, 1])
    y = first.copy()
    for t in range(1, len(sizes)):
        at = np.flatnonzero(task == t)
        y[at] = np.sin(2.0 * X[at, 1 + t] + t) + mix * first[at]
    y = y + 0.05 * rng.normal(size=len(y))
    if labels:
        y = np.where(4.0 * y[:n] + rng.normal(size=n) > 0, "yes", "no")
    return X[:n], y[:n], task, X[n:], first[n:]


def rmse(model, X, truth):
    return float(np.sqrt(np.mean((model.predict(X, tasks=[0] * len(X)) - truth) ** 2)))


@pytest.mark.parametrize("seed", [0, 1])
def test_tasks_that_share_nothing_are_answered_as_by_single_task_models(seed):
    X, y, task, new, _ = drawn(seed, 0.0)
    y = y.copy()
    for t in (1, 2):  # nothing of the secondaries is left but their targets
        y[task == t] = np.random.default_rng([seed, t]).permutation(y[task == t])
    shared = borrow.MultiTaskGPRegressor(normalize_y=False).fit(X, y, tasks=task)
    alone = borrow.SingleTaskGPRegressor(normalize_y=False).fit(X, y, tasks=task)
    assert not np.any(shared.task_covariance_)
    assert shared.log_marginal_likelihood_ == pytest.approx(alone.log_marginal_likelihood_, abs=1e-6)
    for t in range(3):
        np.testing.assert_allclose(shared.predict(new, [t] * 300), alone.predict(new, [t] * 300), atol=1e-6)
    np.testing.assert_array_equal(shared.task_correlations_, np.eye(3))


def test_labels_that_share_nothing_are_answered_as_by_single_task_models():
    X, y, task, new, _ = drawn(3, 0.0, labels=True)
    y = np.where(task > 0, np.random.default_rng(3).permutation(y), y)
    shared = borrow.MultiTaskGPClassifier().fit(X, y, tasks=task)
    alone = borrow.SingleTaskGPClassifier().fit(X, y, tasks=task)
    assert not np.any(shared.task_covariance_)
    found, expected = (m.predict_proba(new, tasks=[0] * 300) for m in (shared, alone))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_tasks_of_other_columns_still_give_what_they_have_in_common():
    ratios = []
    for seed in range(2):
        X, y, task, new, truth = drawn(seed, 0.8)
        own = borrow.MultiTaskGPRegressor().fit(X, y, tasks=task)
        one_kernel = borrow.MultiTaskGPRegressor(specific_kernel=None).fit(X, y, tasks=task)
        alone = borrow.SingleTaskGPRegressor().fit(X, y, tasks=task)
        assert own.task_covariance_[0, 0] > 0
        assert set(own.specific_kernels_) == {0, 1, 2}
        ratios.append([rmse(own, new, truth) / rmse(m, new, truth) for m in (one_kernel, alone)])
    assert np.max(ratios) < 0.9


def ten_tasks(seed, share):
    """Ten tasks of 16 rows with `share` of their variance in a common function, the rest in functions of their own."""
    rng = np.random.default_rng([seed, 15])
    X = rng.normal(size=(460, COLUMNS))
    task = np.concatenate([np.repeat(np.arange(10), 16), np.zeros(300, dtype=int)])

    def smooth(at):
        lengthscales = 1.5 * np.exp(0.7 * rng.normal(size=COLUMNS))
        K = kernels.SquaredExponential(1.0, tuple(lengthscales))(X[at])
        return np.linalg.cholesky(K + 1e-8 * np.eye(len(K))) @ rng.normal(size=len(K))

    f = np.sqrt(share) * smooth(np.arange(460))
    for t in range(10):
        f[task == t] += np.sqrt(1.0 - share) * smooth(np.flatnonzero(task == t))
    y = f[:160] + 0.3 * rng.normal(size=160)
    return X[:160], y, task[:160], X[160:], f[160:]


def over_no_transfer(seed, share):
    X, y, task, new, truth = ten_tasks(seed, share)
    mine = task == 0
    alone = borrow.SingleTaskGPRegressor().fit(X[mine], y[mine], tasks=task[mine])
    return rmse(borrow.MultiTaskGPRegressor().fit(X, y, tasks=task), new, truth) / rmse(alone, new, truth)


def test_ten_small_tasks_keep_what_they_gain_where_each_has_a_little_in_common_with_the_others():
    """Draws in which sharing gains about one nat for each task, which a price of 1.3 for each would refuse."""
    ratios = [over_no_transfer(seed, 0.5) for seed in (7, 10, 11)]
    assert np.exp(np.mean(np.log(ratios))) < 0.9


def test_ten_small_tasks_without_anything_in_common_lose_nothing():
    ratios = [over_no_transfer(seed, 0.0) for seed in range(4)]
    assert np.median(ratios) < 1.05
    assert np.max(ratios) < 1.15


@pytest.mark.parametrize("labels", [False, True])
def test_many_small_tasks_of_one_kind_share_one_function_and_differ_alike(labels):
    rng = np.random.default_rng(19)
    task, X = np.repeat(np.arange(12), 9), rng.normal(size=(108, 3))
    slopes = np.array([1.5, -1.0, 0.0]) + 0.4 * rng.normal(size=(12, 3))
    y = (slopes[task] * X).sum(axis=1) + 0.5 * rng.normal(size=108)
    new, which = rng.normal(size=(1200, 3)), np.repeat(np.arange(12), 100)
    truth = (slopes[which] * new).sum(axis=1)
    if labels:
        y = (y > 0).astype(int)
    kind = "Classifier" if labels else "Regressor"
    shared, alone = (getattr(borrow, name + kind)().fit(X, y, tasks=task) for name in ("MultiTaskGP", "SingleTaskGP"))
    B = shared.task_covariance_
    B = B[np.ix_(np.diagonal(B) > 0, np.diagonal(B) > 0)]
    assert len(B) >= 10
    np.testing.assert_allclose(B, B[0, 1] + (B[0, 0] - B[0, 1]) * np.eye(len(B)), rtol=1e-12)
    if labels:
        wrong = [np.mean((m.predict(new, which) == 1) != (truth > 0)) for m in (shared, alone)]
        assert wrong[0] < 0.7 * wrong[1]
    else:
        error = [np.sqrt(np.mean((m.predict(new, which) - truth) ** 2)) for m in (shared, alone)]
        assert error[0] < 0.7 * error[1]


def slopes(seed):
    """Labels of five tasks of nine rows by straight lines, four of one kind and one that is the opposite."""
    rng = np.random.default_rng(seed)
    task, X = np.repeat(np.arange(5), 9), rng.normal(size=(45, 2))
    w = np.array([1.5, -1.0]) + 0.8 * rng.normal(size=(5, 2))
    w[-1] *= -1.0
    y = (w[task] * X).sum(axis=1) + 0.5 * rng.normal(size=45) > 0
    return X, np.where(y, "yes", "no"), task, np.repeat(rng.normal(size=(3, 2)), 5, axis=0), np.tile(np.arange(5), 3)


def test_labels_are_predicted_by_the_average_with_no_transfer_task_by_task(monkeypatch, tmp_path):
    X, y, task, new, of = slopes(4)
    model = borrow.MultiTaskGPClassifier().fit(X, y, tasks=task)
    monkeypatch.setattr(sharing, "no_transfer_beside", lambda *_: None)
    shared = borrow.MultiTaskGPClassifier().fit(X, y, tasks=task)
    monkeypatch.undo()
    alone = borrow.SingleTaskGPClassifier().fit(X, y, tasks=task)
    assert shared.shared_probability_ == {0: 1.0, 1: 0.0, 2: 1.0, 3: 1.0, 4: 0.0}  # two tasks left
    q = np.array([model.shared_probability_[t] for t in range(5)])
    assert set(np.flatnonzero(q)) == {0, 2, 3}
    assert np.all((q[[0, 2, 3]] > 0.7) & (q[[0, 2, 3]] < 0.95))
    np.testing.assert_array_equal(model.task_covariance_, shared.task_covariance_)
    codes = np.array([model.fitted_.schema.labels.index(t) for t in of])  # inside, tasks are ordered by content
    (m, v), (m1, v1), (m0, v0) = (f.fitted_.model[0].moments(new, codes) for f in (model, shared, alone))
    np.testing.assert_allclose(m, q[of] * m1 + (1 - q[of]) * m0, atol=1e-5)
    np.testing.assert_allclose(v + m**2, q[of] * (v1 + m1**2) + (1 - q[of]) * (v0 + m0**2), rtol=1e-5)
    p, single = (f.predict_proba(new, tasks=of) for f in (model, alone))
    np.testing.assert_allclose(p[q[of] == 0], single[q[of] == 0], atol=1e-6)
    assert np.linalg.eigvalsh(model.probability_covariance(new, tasks=of)).min() > -1e-12
    left_out = [f.fitted_.model[0].without_each().probability for f in (model, shared, alone)]
    low, high = np.minimum(*left_out[1:]), np.maximum(*left_out[1:])
    assert np.all((left_out[0] > low - 0.01) & (left_out[0] < high + 0.01))
    borrow.store.save(model, tmp_path / "model")
    again = borrow.store.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(new, tasks=of), p)
    assert again.shared_probability_ == model.shared_probability_


def test_price_of_sharing_counts_the_tasks_and_the_ways_to_choose_them():
    for m in (2, 5, 6):
        ways = sum(1 for _ in itertools.combinations(range(6), m))
        assert price_of_sharing(6, m, 0.7) == pytest.approx(0.7 * (m - 1) + np.log(ways))


def test_correlations_count_the_functions_of_the_tasks_own():
    X, y, task, *_ = drawn(0, 0.8)
    model = borrow.MultiTaskGPRegressor().fit(X, y, tasks=task)
    total = np.diagonal(model.task_covariance_) + [model.specific_kernels_[t].variance for t in range(3)]
    expected = model.task_covariance_ / np.sqrt(np.multiply.outer(total, total))
    found = model.task_correlations_
    np.testing.assert_allclose(found[np.triu_indices(3, 1)], expected[np.triu_indices(3, 1)], rtol=1e-12)
    np.testing.assert_array_equal(np.diagonal(found), 1.0)


@pytest.mark.parametrize(
    "settings",
    [{"prior": None}, {"task_prior": None}, {"rank": 2}, {"intercept": True}, {"share_noise": True}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # four iterations are enough to see it
def test_own_functions_are_for_the_free_form_under_the_priors_alone(settings):
    X, y, task, *_ = drawn(0, 0.8, sizes=(6, 8, 7))
    one, two = (
        borrow.MultiTaskGPRegressor(max_iter=4, **settings, **more).fit(X, y, tasks=task)
        for more in ({}, {"specific_kernel": None})
    )
    assert one.specific_kernels_ == {}
    assert one.log_marginal_likelihood_ == two.log_marginal_likelihood_


def test_complete_design_keeps_its_algebra_where_one_kernel_is_enough():
    rng = np.random.default_rng(5)
    X = np.linspace(0, 4, 25)[:, None]
    together = np.sin(2 * X + [0.0, 0.1, 0.2]) + 0.3 * rng.normal(size=(25, 3))
    assert borrow.MultiTaskGPRegressor().fit(X, together).path_ == "complete"
    apart = np.column_stack([np.sin(9 * X[:, 0]), X[:, 0] ** 2, rng.normal(size=25)])
    assert borrow.MultiTaskGPRegressor().fit(X, apart + 0.05 * rng.normal(size=(25, 3))).path_ == "blocks"


# --- the parts ------------------------------------------------------------------------------------------------------


def joint_model(labels=False):
    X, y, task, *_ = drawn(4, 0.5, labels, sizes=(7, 9, 8))
    cls = borrow.MultiTaskGPClassifier if labels else borrow.MultiTaskGPRegressor
    model = cls(optimizer=None).fit(X, y, tasks=task)
    fit = model.fitted_.model[0].posterior if labels else model.fitted_.model
    own = kernels.SquaredExponential(0.7, (1.0, 2.0, 1.5, 0.8))
    setup = sharing_setup(fit.setup, own, (0, 2), 0.4)
    rng = np.random.default_rng(0)
    values = {
        "kernel": fit.values["kernel"] + 0.1,
        **({} if labels else {"noise": np.log([0.1, 0.2, 0.3])}),
        **setup.form.of_matrix(np.array([[1.0, 0.2, 0.5], [0.2, 1.0, 0.3], [0.5, 0.3, 0.8]])),
        "specific": setup.specific_theta() + 0.2 * rng.normal(size=15),
    }
    return setup, values


def test_objective_of_some_sharing_tasks_has_the_right_slope():
    setup, values = joint_model()
    objective = objective_of(setup, np.ones(COLUMNS), "auto")
    x, slope = pack(values), pack(objective(values)[1])
    for i, e in enumerate(1e-6 * np.eye(len(x))):
        up, down = (objective(unpack(x + s * e, values))[0] for s in (1.0, -1.0))
        assert slope[i] == pytest.approx((up - down) / 2e-6, rel=2e-5, abs=2e-5)


def alike_model(members, labels=False):
    """Tasks that are alike, the others by themselves; values away from any optimum, and every task alone."""
    setup, values = joint_model(labels)
    own = setup.specific[0]
    alike = alike_setup(setup, own, members)
    theta = [values["specific"][p] for p in setup.specific_parts]
    left = [theta[t] for t in range(3) if t not in members]
    values = {n: v for n, v in values.items() if n in ("kernel", "noise")} | {"uniform": np.log([0.6, 0.3])}
    values |= {"specific": np.concatenate(left)} if left else {}
    noise = list(np.log([[0.4], [0.5], [0.6]]))
    return alike, values, own, OwnFits(theta, noise, np.zeros(3), np.array([-9.0, -8.0, -7.0]), 1, True)


@pytest.mark.parametrize("path", ["dense", "blocks"])
@pytest.mark.parametrize("members", [(0, 1, 2), (0, 2)])
def test_objective_of_tasks_that_are_alike_has_the_right_slope(members, path):
    setup, values, *_ = alike_model(members)
    B = setup.form.parts(values).B
    np.testing.assert_allclose(np.diagonal(B), [0.9 if t in members else 0.0 for t in range(3)])
    assert B[0, 2] == pytest.approx(0.6)
    setup = replace(setup, path=path)
    objective = objective_of(setup, np.ones(COLUMNS), "auto")
    x, slope = pack(values), pack(objective(values)[1])
    for i, e in enumerate(1e-6 * np.eye(len(x))):
        up, down = (objective(unpack(x + s * e, values))[0] for s in (1.0, -1.0))
        assert slope[i] == pytest.approx((up - down) / 2e-6, rel=2e-5, abs=2e-5)


def test_gain_of_a_task_is_what_the_objective_loses_where_it_shares_no_more():
    setup, values, own, alone = alike_model((0, 1, 2))
    scales = np.ones(COLUMNS)

    def value(model, at):
        return condition(at, model).evidence + model.form.log_prior(at)[0] + log_prior_of(model, scales)(at)[0]

    best = Optimum(values, value(setup, values), 1, 0, True, "")
    found = gains_of_sharing(setup, best, scales, own, alone)
    for t in range(3):
        fewer, moved = without(setup, values, {t}, own, alone)
        assert isinstance(fewer.form, Uniform)
        assert moved["noise"][t] == alone.noise[t][0]
        rows = setup.cells.of(t)
        K = own.with_theta(alone.theta[t])(setup.cells.X[rows]) + np.exp(alone.noise[t][0]) * np.eye(
            len(setup.cells.y[rows])
        )
        y = setup.cells.y[rows]
        by_itself = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2 * np.pi * K)[1])
        expected = best.objective - value(fewer, moved) + by_itself - alone.evidence[t]
        assert found[t] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("members", [(0, 1, 2), (0, 2)])
def test_odds_of_no_transfer_for_a_task_are_those_of_the_evidence_with_and_without_its_part(members):
    """By literal EP on all rows: with the tasks alike, and with one of them by itself; and their priors."""
    setup, values, own, alone = alike_model(members, labels=True)
    setup = replace(setup, infer=EPInference(Probit(), tol=1e-12))
    scales, cells, kx = np.ones(COLUMNS), setup.cells, setup.kernel.with_theta(values["kernel"])
    a, b = np.exp(values["uniform"])
    bias = class_bias(cells)[cells.task]

    def objective(who):
        K = np.zeros((len(cells.y), len(cells.y)))
        for t, s in itertools.product(range(3), repeat=2):
            if t in who and s in who:
                K[cells.of(t), cells.of(s)] = (a + b * (t == s)) * kx(cells.X[cells.of(t)], cells.X[cells.of(s)])
        for t in set(range(3)) - set(who):
            K[cells.of(t), cells.of(t)] = own.with_theta(alone.theta[t])(cells.X[cells.of(t)])
        model = alike_setup(setup, own, who)
        theta = [alone.theta[t] for t in range(3) if t not in who]
        at = {**values, **({"specific": np.concatenate(theta)} if theta else {})}
        by_priors = model.form.log_prior(at)[0] + log_prior_of(model, scales)(at)[0]
        return oracles.sequential_ep(K, cells.y, bias)[0] + by_priors

    beside = no_transfer_beside(setup, Optimum(values, objective(members), 1, 0, True, ""), scales, own, alone)
    for t in range(3):
        gain = objective(members) - objective([s for s in members if s != t])
        p = 1.0 / (1.0 + np.exp(gain)) if t in members else 1.0
        assert beside.probability[t] == pytest.approx(p if p >= 0.05 else 0.0, rel=1e-6)
    assert 0.05 < beside.probability.min() < 0.95  # the odds are of interest here
    assert beside.setup.form.members == ()
    np.testing.assert_array_equal(beside.values["specific"], np.concatenate(alone.theta))


def test_task_that_leaves_is_by_itself_and_the_others_are_as_if_it_were_not_there():
    setup, values = joint_model()
    everyone = replace(setup, form=SharingTasks(3, (0, 1, 2), 1.0))
    B = np.array([[1.0, 0.4, 0.5], [0.4, 1.0, 0.3], [0.5, 0.3, 0.8]])
    values = {**values, **everyone.form.of_matrix(B)}
    theta = [values["specific"][p] for p in setup.specific_parts]
    alone = OwnFits([v - 0.3 for v in theta], list(np.log([[0.4], [0.5], [0.6]])), np.zeros(3), np.zeros(3), 1, True)
    fewer, moved = without(everyone, values, {1}, setup.specific[0], alone)
    assert fewer.form.members == (0, 2)
    np.testing.assert_allclose(fewer.form.parts(moved).B, B * np.outer([1, 0, 1], [1, 0, 1]), atol=1e-12)
    K, cells = np.zeros((24, 24)), setup.cells
    kx = setup.kernel.with_theta(values["kernel"])
    for t in range(3):
        for s in range(3):
            if 1 not in (t, s):
                K[cells.of(t), cells.of(s)] = B[t, s] * kx(cells.X[cells.of(t)], cells.X[cells.of(s)])
        own = setup.specific[t].with_theta(theta[t] - 0.3 * (t == 1))
        K[cells.of(t), cells.of(t)] += own(cells.X[cells.of(t)])
    noise = np.exp(values["noise"])
    noise[1] = 0.5
    S = K + np.diag(noise[cells.task])
    sign, log_determinant = np.linalg.slogdet(2 * np.pi * S)
    expected = -0.5 * (cells.y @ np.linalg.solve(S, cells.y) + log_determinant)
    assert sign == 1
    assert condition(moved, fewer).evidence == pytest.approx(expected, abs=1e-9)


def test_penalty_of_sharing_is_nothing_without_relations_and_lets_a_variance_vanish():
    value, slope = penalty_of_sharing(np.exp(2.0) * np.eye(3), 2.5, 2.0)
    assert value == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)
    small = penalty_of_sharing(np.diag([1.0, np.exp(-6.0)]), 1e3)[0]
    assert small == pytest.approx(-0.5 * 36.0 / priors.VARIANCE_SD**2)
    C = np.array([[1.0, 0.6], [0.6, 1.0]])
    expected = -1.5 * (np.trace(np.linalg.inv(C)) + np.linalg.slogdet(C)[1] - 2)
    assert penalty_of_sharing(C, 3.0)[0] == pytest.approx(expected)


def test_bands_of_tasks_that_share_nothing_are_those_of_single_task_models():
    X, y, task, new, _ = drawn(1, 0.0, sizes=(15, 20, 18))
    y = np.where(task > 0, np.random.default_rng(3).permutation(y), y)
    shared, alone = (
        m(normalize_y=False).fit(X, y, tasks=task) for m in (borrow.MultiTaskGPRegressor, borrow.SingleTaskGPRegressor)
    )
    assert not np.any(shared.task_covariance_)
    rows, of = new[:6], [0, 1, 2, 0, 1, 2]
    for more in ({"return_std": True, "include_noise": True}, {"return_cov": True}):
        found, expected = (m.predict(rows, of, **more)[1] for m in (shared, alone))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(("mix", "labels"), [(0.0, False), (0.0, True), (0.8, False)])
def test_models_by_evidence_are_saved_and_loaded(tmp_path, mix, labels):
    X, y, task, new, _ = drawn(3, mix, labels, sizes=(15, 20, 18))
    model = (borrow.MultiTaskGPClassifier if labels else borrow.MultiTaskGPRegressor)().fit(X, y, tasks=task)
    borrow.store.save(model, tmp_path / "model")
    again = borrow.store.load(tmp_path / "model")
    if labels:
        np.testing.assert_array_equal(*(m.predict_proba(new, tasks=[0] * 300) for m in (model, again)))
    else:
        np.testing.assert_array_equal(*(m.predict(new, [0] * 300, return_std=True)[1] for m in (model, again)))
    assert again.path_ == model.path_


def test_search_that_begins_on_few_rows_ends_where_one_on_all_rows_does(monkeypatch):
    X, y, task, new, _ = drawn(2, 0.8, sizes=(60, 70, 70))
    whole = borrow.MultiTaskGPRegressor().fit(X, y, tasks=task)
    monkeypatch.setattr(search, "MANY", 150)
    monkeypatch.setattr(search, "FEW", 100)
    begun = borrow.MultiTaskGPRegressor().fit(X, y, tasks=task)
    assert begun.log_marginal_likelihood_ != whole.log_marginal_likelihood_  # it did begin there
    assert begun.log_marginal_likelihood_ == pytest.approx(whole.log_marginal_likelihood_, abs=1e-3 * 200)
    found, expected = (m.predict(new, [0] * 300) for m in (begun, whole))
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.02 * np.std(expected)


@pytest.mark.parametrize("settings", [{"specific_kernel": None}, {"rank": 1, "diagonal": "free"}])
def test_other_searches_begin_on_few_rows_too_and_end_no_lower(monkeypatch, settings):
    """Lower would be short of the optimum; there may be several, and on this draw few rows lead to a better one."""
    X, y, task, _, _ = drawn(2, 0.8, sizes=(60, 70, 70))
    whole = borrow.MultiTaskGPRegressor(**settings).fit(X, y, tasks=task)
    monkeypatch.setattr(search, "MANY", 150)
    monkeypatch.setattr(search, "FEW", 100)
    begun = borrow.MultiTaskGPRegressor(**settings).fit(X, y, tasks=task)
    assert begun.log_marginal_likelihood_ > whole.log_marginal_likelihood_ - 1e-3 * 200
    settled = borrow.MultiTaskGPRegressor(**settings, kernel=begun.kernel_).fit(X, y, tasks=task)
    assert begun.log_marginal_likelihood_ > settled.log_marginal_likelihood_ - 1e-3 * 200


def test_with_a_device_tasks_are_fitted_alone_in_one_batch_that_ends_where_single_fits_do(monkeypatch):
    pytest.importorskip("torch")
    setup, values = joint_model()
    how = values, np.ones(COLUMNS), setup.specific[0], 200
    host = sharing.fit_alone(setup, *how)
    monkeypatch.setattr(sharing, "fit_single", None)  # nothing is fitted one by one
    batch = sharing.fit_alone(replace(setup, tasks=PlacedTasks(setup.cells, device=Device("cpu"))), *how)
    np.testing.assert_allclose(batch.objective, host.objective, atol=5e-3)
    np.testing.assert_allclose(batch.evidence, host.evidence, atol=0.1)
    np.testing.assert_allclose(np.stack(batch.noise), np.stack(host.noise), atol=0.1)
