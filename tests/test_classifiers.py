"""GP classifiers at their public face."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal
from sklearn import metrics
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

import borrow
from borrow import kernels, store
from borrow.covariance import SharedCovariance
from borrow.data.labels import encode
from borrow.estimators.classifier import ClassLink, LabelModel, LeaveOneOutAnswers, binary_data
from borrow.inference import EPInference, ExactInference, ep
from borrow.inference.likelihoods import Logistic, Probit
from borrow.inference.priors import kernel_prior
from borrow.models.focused import relations
from borrow.models.focused.scoring import FocusedAscent
from borrow.models.focused.search import with_inducing
from borrow.models.focused.settings import prepare
from borrow.numerics.optimise import Optimum
from borrow.tasks.placed import PlacedTasks, rows_as_tasks

GP_CLASSIFIERS = [
    borrow.FocusedGPClassifier(max_iter=30),
    borrow.SingleTaskGPClassifier(max_iter=30),
    borrow.PooledGPClassifier(max_iter=30),
]


@parametrize_with_checks(GP_CLASSIFIERS)
def test_scikit_learn_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its checks
    check(estimator)


def drawn(n, seed, rho=(1.0, 0.9, -0.9), sizes=(14, 60, 60)):
    """Labels from the model: a primary of few rows, one secondary that agrees, one that is its opposite."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(["p", "a", "b"], sizes)
    X = rng.uniform(-3, 3, (len(tasks) + n, 1))
    K = kernels.SquaredExponential(6.0, 1.0)(X)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(len(X))) @ rng.normal(size=len(X))
    weight = np.concatenate([np.repeat(rho, sizes), np.ones(n)])
    y = np.where(rng.normal(size=len(X)) < weight * f, "yes", "no")
    m = len(tasks)
    return X[:m], y[:m], tasks, X[m:], y[m:]


def log_loss(model, X, y, **more):
    p = model.predict_proba(X, **more)
    return -np.mean(np.log(p[np.arange(len(y)), np.searchsorted(model.classes_, y)]))


def test_secondaries_help_and_their_signs_are_found():
    gains = []
    for seed in range(5):
        X, y, tasks, X_new, y_new = drawn(400, seed)
        focused = borrow.FocusedGPClassifier(primary="p").fit(X, y, tasks=tasks)
        single = borrow.SingleTaskGPClassifier().fit(X, y, tasks=tasks)
        gains.append(log_loss(single, X_new, y_new, tasks="p") - log_loss(focused, X_new, y_new))
        if focused.rho_["a"] and focused.rho_["b"]:
            assert focused.rho_["a"] > 0 > focused.rho_["b"]
    assert np.mean(gains) > 0.05


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("which", [["a", "b"], ["a"]])
def test_flipping_all_labels_of_a_secondary_changes_nothing(which, seed):
    X, y, tasks, X_new, _ = drawn(50, seed)
    flipped = np.where(np.isin(tasks, which), np.where(y == "no", "yes", "no"), y)
    p = borrow.FocusedGPClassifier(primary="p").fit(X, y, tasks=tasks).predict_proba(X_new)
    q = borrow.FocusedGPClassifier(primary="p").fit(X, flipped, tasks=tasks).predict_proba(X_new)
    np.testing.assert_allclose(p, q, atol=1e-6)


def test_relations_are_kept_all_together_or_dropped_all_together():
    """Labels that mean nothing are not borrowed from, and the primary is then what it is without the others."""
    X, y, tasks, X_new, _ = drawn(400, 3)
    model = borrow.FocusedGPClassifier(primary="p").fit(X, y, tasks=tasks)
    assert np.all(list(model.rho_.values()))
    assert "p" in model.specific_kernels_  # its function has a part of its own
    rng = np.random.default_rng(3)
    for t in ("a", "b"):
        y[tasks == t] = rng.permutation(y[tasks == t])
    model = borrow.FocusedGPClassifier(primary="p").fit(X, y, tasks=tasks)
    assert model.rho_ == {"p": 1.0, "a": 0.0, "b": 0.0}
    single = borrow.SingleTaskGPClassifier().fit(X, y, tasks=tasks)
    np.testing.assert_allclose(model.predict_proba(X_new), single.predict_proba(X_new, tasks="p"), atol=1e-6)


@pytest.mark.filterwarnings("ignore:the function that tasks share is carried by")
@pytest.mark.parametrize(("columns", "covered"), [(1, True), (30, False)])
def test_inducing_inputs_of_all_tasks_where_they_can_be_covered(columns, covered, monkeypatch):
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)  # of so few rows all pairs are written out
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(150, columns)), np.repeat(["p", "a"], [15, 135])
    X[tasks == "a"] += 4.0
    y = np.where(X[:, 0] > np.median(X[:, 0]), 1, 0)
    model = borrow.FocusedGPClassifier(primary="p", optimizer=None, rho=0.5).fit(X, y, tasks=tasks)
    assert np.any(model.inducing_[:, 0] > X[tasks == "p", 0].max()) == covered
    assert (len(model.inducing_) == 15) != covered
    small = borrow.FocusedGPClassifier(primary="p", optimizer=None).fit(X[:60], y[:60], tasks=tasks[:60])
    assert (len(small.inducing_) == 60) != covered  # few rows: all of them


def test_zero_rho_is_single_task():
    X, y, tasks, X_new, _ = drawn(30, 4)
    kernel = kernels.SquaredExponential(3.0, 0.8)
    focused = borrow.FocusedGPClassifier(primary="p", rho=0.0, kernel=kernel, optimizer=None).fit(X, y, tasks=tasks)
    single = borrow.SingleTaskGPClassifier(kernel=kernel, optimizer=None).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(focused.predict_proba(X_new), single.predict_proba(X_new, tasks="p"), atol=1e-8)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()])
def test_probabilities_are_calibrated_on_data_from_the_model(likelihood):
    """Expected calibration error under 0.03 at 5,000 test points (100 functions), ten bins, hyper-parameters known."""
    rng = np.random.default_rng(0)
    kernel, Z = kernels.SquaredExponential(4.0, 0.7), np.linspace(-4.2, 4.2, 80)[:, None]
    L = np.linalg.cholesky(kernel(Z) + 1e-8 * np.eye(80))
    p, y = [], []
    for _ in range(100):
        X = rng.uniform(-4, 4, (110, 1))
        f = kernel(X, Z) @ np.linalg.solve(L.T, rng.normal(size=80))
        noise = rng.normal(size=110) if isinstance(likelihood, Probit) else rng.logistic(size=110)
        label = np.where(noise < f, 1.0, -1.0)
        prior = SharedCovariance(rows_as_tasks(X[:60], np.array([0, 60])), [], [], np.zeros((1, 0)), [kernel])
        fit = ep(prior, likelihood, label[:60], np.zeros(60))  # the data have no bias
        model = LabelModel(fit.posterior, np.zeros(1), likelihood, fit.evidence, 0, True)
        p.append(model.probability(X[60:], np.zeros(50, dtype=int)))
        y.append(label[60:] > 0)
    p, y = np.concatenate(p), np.concatenate(y)
    bins = np.minimum((p * 10).astype(int), 9)
    gaps = [abs(p[bins == b].mean() - y[bins == b].mean()) * np.mean(bins == b) for b in np.unique(bins)]
    assert sum(gaps) < 0.03


def test_one_task_is_the_same_model_with_the_same_priors_in_three_estimators():
    X, y, _, X_new, _ = drawn(30, 4)
    p = [
        model.fit(X[:14], y[:14]).predict_proba(X_new)[:, 1]
        for model in (
            borrow.SingleTaskGPClassifier(),
            borrow.PooledGPClassifier(),
            borrow.FocusedGPClassifier(inducing="primary"),
        )
    ]
    np.testing.assert_allclose(p[1], p[0], atol=1e-12)
    np.testing.assert_allclose(p[2], p[0], atol=2e-3)  # one optimiser stops a little before the other


def test_variances_are_centred_at_two_for_labels_and_at_zero_for_numbers():
    kernel, scales = kernels.SquaredExponential(1.0, 1.0) + kernels.Constant(1.0), np.ones(1)
    assert kernel_prior(kernel, scales, EPInference(Probit()).log_variance).mean.tolist() == [2.0, 0.0, 0.0]
    assert kernel_prior(kernel, scales, ExactInference().log_variance).mean.tolist() == [0.0, 0.0, 0.0]
    # The estimators ask for it: labels that say nothing leave the variance where its prior has it.
    short = kernels.SquaredExponential(1.0, 1e-3, fixed=("lengthscale",))
    table = {"X": [[0.0], [1.0]], "y": ["no", "yes"]}
    found = [
        borrow.SingleTaskGPClassifier(kernel=short).fit(**table).kernels_[0],
        borrow.PooledGPClassifier(kernel=short).fit(**table).kernel_,
        borrow.FocusedGPClassifier(kernel=short).fit(**table).kernel_,
    ]
    np.testing.assert_allclose([np.log(k.variance) for k in found], 2.0, atol=1e-2)


def test_logistic_likelihood_learns_too():
    X, y, tasks, X_new, y_new = drawn(200, 1)
    for model in (
        borrow.FocusedGPClassifier(primary="p", likelihood="logistic"),
        borrow.SingleTaskGPClassifier(likelihood="logistic"),
        borrow.PooledGPClassifier(likelihood="logistic"),
    ):
        model.fit(X[tasks != "b"], y[tasks != "b"], tasks=tasks[tasks != "b"])
        assert log_loss(model, X_new, y_new, tasks="p") < 0.6


def test_primary_without_a_label_is_predicted_from_the_others():
    rng = np.random.default_rng(0)
    X, X_new, tasks = rng.uniform(-3, 3, (160, 1)), rng.uniform(-3, 3, (200, 1)), np.repeat(["p", "a", "b", "c"], 40)
    y, y_new = (np.where(np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=len(x)) > 0, "yes", "no") for x in (X, X_new))
    labels = np.where(tasks == "p", None, y.astype(object))
    with pytest.warns(UserWarning, match="'p' has no labelled row"):
        model = borrow.FocusedGPClassifier(primary="p").fit(X, labels, tasks=tasks)
    assert log_loss(model, X_new, y_new) < 0.4
    alone = borrow.SingleTaskGPClassifier().fit(X, labels, tasks=tasks)
    np.testing.assert_allclose(alone.predict_proba(X_new, tasks="p"), 0.5)


@pytest.mark.parametrize("name", ["Focused", "SingleTask", "Pooled", "MultiTask"])
def test_strange_tables_are_fitted_or_refused_in_a_sentence(name):
    settings = {"primary": "p"} if name == "Focused" else {}
    make = partial(getattr(borrow, f"{name}GPClassifier"), max_iter=30, **settings)
    X, y, tasks, _, _ = drawn(5, 9, sizes=(6, 8, 8))
    at = {"tasks": tasks[:6]}
    with pytest.warns(UserWarning, match="fitted to a single row"):
        model = make().fit(X[:1], y[:1], tasks=["p"])
    np.testing.assert_allclose(model.predict_proba(X[:1], tasks=["p"]), 1.0)
    np.testing.assert_allclose(make().fit(X, ["yes"] * 22, tasks=tasks).predict_proba(X[:6], **at), 1.0)
    same = make().fit(np.ones_like(X), y, tasks=tasks).predict_proba(np.ones((6, 1)), **at)
    np.testing.assert_allclose(same, same[:1].repeat(6, axis=0))
    large = make().fit(1e12 * X, y, tasks=tasks).predict_proba(1e12 * X[:6], **at)
    np.testing.assert_allclose(large, make().fit(X, y, tasks=tasks).predict_proba(X[:6], **at), atol=1e-4)
    with pytest.raises(ValueError, match="unknown task 'z'"):
        make().fit(X, y, tasks=tasks).predict(X[:6], tasks="z")
    with pytest.raises(ValueError, match="X holds NaN or infinity"):
        make().fit(np.where(X > 0, X, np.nan), y, tasks=tasks)
    with pytest.raises(ValueError, match="Unknown label type"):
        make().fit(X, X[:, 0], tasks=tasks)
    with pytest.raises(TypeError, match="is not a kernel"):
        make(kernel="rbf").fit(X, y, tasks=tasks)


def test_three_classes_by_one_against_the_rest():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (90, 1))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-1, 1])]
    tasks = np.where(np.arange(90) < 20, "p", "s")
    for model in (
        borrow.FocusedGPClassifier(primary="p"),
        borrow.SingleTaskGPClassifier(),
        borrow.PooledGPClassifier(),
    ):
        model.fit(X, y, tasks=tasks)
        proba = model.predict_proba(X, tasks=tasks)
        assert list(model.classes_) == ["high", "low", "middle"]
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert model.decision_function(X, tasks=tasks).shape == (90, 3)
        assert np.mean(model.predict(X, tasks=tasks) == y) > 0.9


def test_a_task_with_one_class_is_legal():
    X, y, tasks, X_new, _ = drawn(20, 5)
    y[tasks == "a"] = "yes"
    for model in (borrow.FocusedGPClassifier(primary="p"), borrow.SingleTaskGPClassifier()):
        p = model.fit(X, y, tasks=tasks).predict_proba(X_new, tasks="a")[:, 1]
        assert np.all(p > 0.8)
        assert model.bias_["a"] == pytest.approx(2.0537, abs=1e-3)


def test_unlabelled_rows_and_missing_tasks():
    X, y, tasks, X_new, _ = drawn(20, 6)
    labels = y.astype(object)
    labels[:3] = None
    model = borrow.FocusedGPClassifier(primary="p", optimizer=None, rho=0.5).fit(X, labels, tasks=tasks)
    assert list(model.classes_) == ["no", "yes"]
    with pytest.raises(ValueError, match="unknown task 'z'"):
        model.predict(X_new, tasks="z")
    with pytest.raises(ValueError, match="every label in y is missing"):
        borrow.SingleTaskGPClassifier().fit(X, np.full(len(X), None), tasks=tasks)
    with pytest.raises(ValueError, match="expected 'probit' or 'logistic'"):
        borrow.SingleTaskGPClassifier(likelihood="cauchit").fit(X, y)


def test_pooled_is_sparse_above_300_rows():
    rng = np.random.default_rng(2)
    X = rng.uniform(-3, 3, (320, 1))
    y = np.sign(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=320))
    sparse, exact = borrow.PooledGPClassifier(max_iter=60), borrow.PooledGPClassifier(inducing=None, max_iter=60)
    p, q = (m.fit(X, y).predict_proba(X)[:, 1] for m in (sparse, exact))
    assert len(sparse.inducing_) <= 30
    assert exact.inducing_ is None
    assert np.mean(np.abs(p - q)) < 0.02


def test_tasks_survive_cross_validation():
    X, y, tasks, _, _ = drawn(5, 7, sizes=(40, 40, 40))
    code = np.searchsorted(["a", "b", "p"], tasks).astype(float)
    table = np.column_stack([X, code])
    guess = cross_val_predict(borrow.SingleTaskGPClassifier(task=1, max_iter=30), table, y, cv=4)
    assert np.mean(guess == y) > 0.7  # tasks p and b are opposites: without the task this is a coin


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_standard_errors_task_by_task_are_near_those_of_the_whole(monkeypatch):
    """Labels have no noise; the sites that EP made of them stand for the task's own rows."""
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)
    monkeypatch.setattr("borrow.models.focused.relatedness.MOST_WORK", 0.0)  # both by the curvature, without paths
    X, y, tasks, _, _ = drawn(5, 2)
    model = borrow.FocusedGPClassifier(primary="p", max_iter=20).fit(X, y, tasks=tasks)
    whole = model.relatedness()["std_error"]
    monkeypatch.setattr("borrow.models.focused.relatedness.WHOLE", 0)
    assert np.all(np.isfinite(whole[1:]))
    np.testing.assert_allclose(model.relatedness()["std_error"][1:], whole[1:], rtol=0.6)


def test_relatedness_has_a_row_a_task():
    X, y, tasks, _, _ = drawn(5, 8)
    table = borrow.FocusedGPClassifier(primary="p").fit(X, y, tasks=tasks).relatedness()
    assert table["task"] == ["p", "a", "b"]
    assert np.all(table["std_error"][1:] > 0)


def test_classes_are_put_together_by_what_rows_left_out_say():
    """Iris in five groups of ten rows: sharper than scaling one against the rest, by the rows that were asked for."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y, group = X[order], y[order], np.arange(150) % 5
    seen = np.arange(150) < 50
    model = borrow.SingleTaskGPClassifier().fit(X[seen], y[seen], tasks=group[seen])
    asked = X[~seen], encode(group[~seen].tolist(), model.fitted_.schema.labels)
    p = np.column_stack([m.probability(*asked) for m in model.fitted_.model])
    scaled = p / p.sum(axis=1, keepdims=True)
    found = model.predict_proba(X[~seen], tasks=group[~seen])
    assert metrics.log_loss(y[~seen], found) < 0.9 * metrics.log_loss(y[~seen], scaled)
    np.testing.assert_array_equal(found.argmax(axis=1), p.argmax(axis=1))
    np.testing.assert_allclose(np.exp(ClassLink().log_shares(p)), scaled, rtol=1e-8)
    assert all(m.left_out is None for m in model.fitted_.model)


def test_link_is_where_its_rows_are_likeliest():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], 4000)
    shares = np.exp(ClassLink(1.6, 0.3).log_shares(p))
    code = (shares.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    models = [SimpleNamespace(left_out=LeaveOneOutAnswers(p[:, k], np.where(code == k, 1.0, -1.0))) for k in range(3)]
    link = ClassLink.of(models)
    assert link.sharpness == pytest.approx(1.6, abs=0.15)
    assert link.rest == pytest.approx(0.3, abs=0.12)
    assert ClassLink.of(models[:1]) is None
    assert ClassLink.of([*models[:2], SimpleNamespace()]) is None


def test_row_left_out_is_predicted_from_the_others():
    """The cavity of EP, against a fit without the row at the same kernel."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(24, 2)), rng.integers(0, 3, 24)
    model = borrow.SingleTaskGPClassifier(kernel=kernels.SquaredExponential(2.0, 1.0), optimizer=None).fit(X, y)
    told = [m.without_each() for m in model.fitted_.model]
    order = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in model.fitted_.model[0].posterior.cells.X]
    for i in range(3):
        rest = np.arange(24) != order[i]
        again = borrow.SingleTaskGPClassifier(**model.get_params()).fit(X[rest], y[rest])
        for k in range(3):
            bias = model.bias_[k][0]  # that of all rows
            moments = again.fitted_.model[k].posterior.predict(X[[order[i]]], np.zeros(1, dtype=int))
            expected = ndtr((moments.mean + bias) / np.sqrt(1.0 + moments.variance))
            assert told[k].probability[i] == pytest.approx(expected[0], abs=0.03)


def test_covariance_of_probabilities_is_that_of_the_latent_functions():
    """E[Phi(f) Phi(g)] of two normal numbers is a bivariate normal probability."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 1))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, "yes", "no")
    model = borrow.FocusedGPClassifier(primary="a").fit(X, y, tasks=["a"] * 20 + ["b"] * 10)
    new = np.array([[-0.4], [0.3], [2.5]])
    found = model.probability_covariance(new, tasks="a")
    latent = model.fitted_.model[0]
    f = latent.posterior.predict(new, np.zeros(3, dtype=np.intp), True)
    a = (f.mean + latent.bias[0]) / np.sqrt(1 + f.variance)
    p = model.predict_proba(new, tasks="a")[:, 1]
    for i, j in [(0, 0), (0, 1), (1, 2), (2, 2)]:
        r = f.covariance[i, j] / np.sqrt((1 + f.variance[i]) * (1 + f.variance[j]))
        both = multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf([a[i], a[j]])
        spread = np.sqrt(found[i, i] * found[j, j])
        assert found[i, j] == pytest.approx(both - p[i] * p[j], abs=0.12 * spread)


def test_quantiles_of_a_probability_are_those_of_the_latent_function():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 1))
    model = borrow.SingleTaskGPClassifier(optimizer=None).fit(
        X, np.where(X[:, 0] + rng.normal(size=30) > 0, "yes", "no")
    )
    new = np.array([[-0.4], [0.3], [2.5]])
    latent = model.fitted_.model[0]
    f = latent.posterior.predict(new, np.zeros(3, dtype=np.intp))
    found = model.probability_quantiles(new, [0.1, 0.5, 0.9])
    for k, z in enumerate([-1.2815516, 0.0, 1.2815516]):
        np.testing.assert_allclose(found[:, k], ndtr(f.mean + latent.bias[0] + z * np.sqrt(f.variance)), atol=2e-3)


def test_three_classes_have_a_covariance_of_probabilities_and_a_linear_reference_has_none():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(45, 2))
    y, tasks = X[:, 0].round().clip(-1, 1).astype(int), ["a", "b", "c"] * 15
    model = borrow.SingleTaskGPClassifier(optimizer=None).fit(X, y, tasks=tasks)
    C = model.probability_covariance(X[:4], tasks="a")
    assert C.shape == (4, 4)
    assert np.linalg.eigvalsh(C).min() > -1e-12
    assert np.diag(C).min() > 0
    assert np.diag(C).max() < 0.25
    line = borrow.RegularizedMultiTaskClassifier().fit(X, y, tasks=tasks)
    assert line.probability_covariance(X[:4], tasks="a") is None
    low, high = model.probability_quantiles(X[:4], (0.05, 0.95), tasks="a").T
    p = model.predict_proba(X[:4], tasks="a")[:, -1]
    assert ((low > 0) & (low < p) & (p < high) & (high < 1)).all()
    assert line.probability_quantiles(X[:4], tasks="a") is None


@pytest.fixture(scope="module")
def perhaps_related():
    """Twelve primary rows and thirty of another task: too few to be sure that they have anything in common."""
    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 4.0, (42, 1))
    f = np.sin(1.7 * X[:, 0]) + 0.5 * rng.normal(size=42)
    return X, np.where(f > 0.0, "yes", "no"), np.repeat(["p", "s"], [12, 30])


def test_predictions_are_averaged_with_no_transfer_by_the_odds(perhaps_related, monkeypatch, tmp_path):
    X, y, tasks = perhaps_related
    new = np.linspace(0.0, 4.0, 9)[:, None]
    at, found = np.zeros(9, dtype=int), {}
    for odds in (relations.LOG_ODDS, np.inf, -np.inf):
        monkeypatch.setattr(relations, "LOG_ODDS", odds)
        found[odds] = borrow.FocusedGPClassifier(primary="p").fit(X, y, tasks=tasks)
    model, related, none = found.values()
    assert (related.shared_probability_, none.shared_probability_) == (1.0, 0.0)
    p = model.shared_probability_
    assert 0.05 < p < 0.95
    assert model.rho_ == related.rho_ != none.rho_
    (m, v), (m1, v1), (m0, v0) = (f.fitted_.model[0].moments(new, at) for f in (model, related, none))
    np.testing.assert_allclose(m, p * m1 + (1 - p) * m0, rtol=1e-9)
    np.testing.assert_allclose(v + m**2, p * (v1 + m1**2) + (1 - p) * (v0 + m0**2), rtol=1e-9)
    single = borrow.SingleTaskGPClassifier().fit(X, y, tasks=tasks)
    np.testing.assert_allclose(none.predict_proba(new), single.predict_proba(new, tasks="p"), atol=1e-6)
    band = model.probability_quantiles(new)
    assert np.all(band[:, 0] < band[:, 1])
    again = store.load(store.save(model, tmp_path / "m.borrow"))
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert again.shared_probability_ == p
    # Rows left out are answered by the average, too: they put classes together.
    left_out = [f.fitted_.model[0].without_each().probability for f in (model, related, none)]
    low, high = np.minimum(*left_out[1:]), np.maximum(*left_out[1:])
    assert np.all((left_out[0] > low - 0.01) & (left_out[0] < high + 0.01))
    assert np.abs(left_out[0] - left_out[1]).max() > 0.01


def test_odds_of_relations_are_those_of_the_integral_over_the_weight(perhaps_related):
    X, y, tasks = perhaps_related
    X, signs = np.vstack([X, X + 0.01]), np.tile(np.where(y == "yes", 1.0, -1.0), 2)
    order = np.argsort(np.tile(tasks, 2), kind="stable")
    starts = np.array([0, 24, 84])
    data = binary_data(X[order], signs[order], starts, ("p", "s"), (X[:0], X[:0]), np.ones(1))
    infer = EPInference(Probit())
    setup, values = prepare(data, PlacedTasks(data.cells), 0, None, None, {"s": 0.6}, 0, infer)
    setup = with_inducing("auto", data, setup, values)
    ascent = FocusedAscent(setup, np.ones(1), None, np.e)
    search = relations.Search(ascent, {}, None, 0)
    grid = np.linspace(-3.0, 3.0, 201)
    objective = np.array([ascent.objective({**values, "rho": np.array([r])})[0] for r in grid])
    top = {**values, "rho": grid[[objective.argmax()]]}
    best = Optimum(top, objective.max(), 1, 1, True, "")
    none = ascent.objective({**values, "rho": np.zeros(1)})[0]
    v = float(setup.kernel.with_theta(values["kernel"]).diag(setup.Z).mean())
    width = np.sqrt(v) * (grid[1] - grid[0])  # of a step, in w
    exact = np.log(np.exp(objective - none).sum() * width / (np.e * np.sqrt(2 * np.pi)))
    found = relations.log_odds(search, best, none) - relations.LOG_ODDS
    assert found == pytest.approx(exact, abs=0.15)
    assert best.objective - none > exact + 0.5  # what is ruled out counts
