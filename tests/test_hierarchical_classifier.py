"""Labels: the paper's regression on -1 and +1, sparse tables, probabilities, and the exported kernel on file."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

import borrow
from borrow.kernels import Constant, LearnedKernel, Linear, SquaredExponential
from borrow.testing import check_kernel
from oracles_hierarchical import alpha_iteration

PAPER = {
    "mean_strength": np.inf,
    "covariance_strength": 1.0,
    "noise": 0.1,
    "learn_noise": True,
    "normalize_y": False,
    "prior": None,
    "optimizer": None,
    "accelerate": False,
    "tol": 0.0,
}


def topics(seed=0, n=120, d=400, m=12, labelled=30):
    """Sparse rows of unit norm whose labels follow a few hidden directions; wide labels with NaN."""
    rng = np.random.default_rng(seed)
    themes = rng.random((4, d)) < 0.05
    which = rng.random((n, 4)) < 0.4
    rate = 0.02 + 0.35 * (which[:, :, None] * themes[None]).max(axis=1)
    X = sparse.csr_array(((rng.random((n, d)) < rate) * rng.gamma(2.0, 1.0, (n, d))).astype(float))
    X = sparse.csr_array(X.multiply(1.0 / np.sqrt(np.maximum(X.multiply(X).sum(axis=1), 1e-9))[:, None]))
    W = rng.normal(size=(4, m))
    score = which @ W + 0.3 * rng.normal(size=(n, m))
    labels = np.where(score > np.quantile(score, 0.7, axis=0), 1.0, -1.0)
    Y = np.full((n, m), np.nan)
    for j in range(m):
        own = rng.permutation(n)[:labelled]
        Y[own, j] = labels[own, j]
    return X, Y, labels


def test_as_the_paper_runs_it():
    """+-1 targets, linear kernel, no intercept, zero mean: the printed iterations on sparse rows."""
    X, Y, _ = topics()
    with pytest.warns(ConvergenceWarning, match="5 iterations"):
        model = borrow.HierarchicalGPClassifier(base_kernel=Linear(1.0), max_iter=5, **PAPER).fit(X, Y)
    dense = X.toarray()
    kappa = dense @ dense.T
    rows = [np.flatnonzero(np.isfinite(v)) for v in Y.T]
    y = [v[r] for v, r in zip(Y.T, rows, strict=True)]
    mu, C, noise = np.zeros(len(kappa)), np.linalg.inv(kappa), 0.1
    for _ in range(5):
        _, mu, C, noise = alpha_iteration(kappa, rows, y, mu * 0, C, noise, 1e12, 1.0)
    alpha, *_ = alpha_iteration(kappa, rows, y, mu * 0, C, noise, 1e12, 1.0)
    margins = model.fitted_.model[0]
    f = (model.decision_function(X) - margins.offset) / margins.slope
    assert_allclose(f, kappa @ alpha, atol=1e-7)
    assert model.noise_[0] == pytest.approx(noise)
    assert np.diff(model.objective_trace_).min() > 0


def test_sparse_and_dense_are_the_same_fit_and_nothing_is_made_dense(monkeypatch):
    X, Y, _ = topics()
    table = X.toarray()
    settings = {"base_kernel": Linear(1.0), "noise": 1.0, "covariance_strength": 12.0, "mean_strength": np.inf}
    settings |= {"tol": 0.01, "optimizer": None}
    dense = borrow.HierarchicalGPClassifier(**settings).fit(table, Y)

    def refuse(self, *args, **kwargs):
        if self.shape[1] == X.shape[1]:
            raise AssertionError("a sparse table was made dense")
        return original(self, *args, **kwargs)

    original = sparse.csr_array.toarray
    monkeypatch.setattr(sparse.csr_array, "toarray", refuse)
    borrow.HierarchicalGPClassifier(base_kernel=Linear(1.0), max_iter=2).fit(X, Y)
    model = borrow.HierarchicalGPClassifier(**settings).fit(X, Y)
    assert sparse.issparse(model.X_)
    own = np.arange(40) % 12
    assert_allclose(model.decision_function(X[:40], tasks=own), dense.decision_function(table[:40], tasks=own))
    assert model.predict(X).shape == Y.shape
    assert_array_equal(model.predict(X)[:, 3], model.predict(X, tasks=3))
    adapted = model.adapt(X[:4], [1.0, -1.0, 1.0, -1.0])
    assert np.isfinite(adapted.decision_function(X[40:50])).all()
    # the learnt kernel takes sparse rows, and dense ones of the same columns
    monkeypatch.undo()
    assert_allclose(model.learned_kernel_(X[:3]), model.learned_kernel_(table[:3]), atol=1e-12)


def test_sparse_rows_come_long_wide_and_in_pairs():
    X, Y, _ = topics(n=40, m=3, labelled=15)
    i, j = np.nonzero(np.isfinite(Y))
    settings = {"base_kernel": Linear(1.0), "noise": 1.0, "covariance_strength": 3.0, "tol": 0.05}
    bare = np.flatnonzero(~np.isfinite(Y).any(axis=1))
    wide = borrow.HierarchicalGPClassifier(**settings).fit(X, Y)
    assert wide.X_.shape[0] == 40
    assert len(bare) > 0
    long = borrow.HierarchicalGPClassifier(**settings).fit(X[i], Y[i, j], tasks=j)
    pairs = borrow.HierarchicalGPClassifier(**settings).fit([(X[i[j == t]], Y[i[j == t], t]) for t in range(3)])
    for other in (long, pairs):
        assert_allclose(other.decision_function(X, tasks=1), wide.decision_function(X)[:, 1], atol=1e-10)


def test_defaults_rank_new_rows_at_least_as_well_as_the_base_kernel():
    areas = {"auto": [], "base": []}
    for seed in range(2):
        X, Y, labels = topics(seed, n=160, m=20, labelled=40)
        for name, tau in (("auto", "auto"), ("base", np.inf)):
            model = borrow.HierarchicalGPClassifier(base_kernel=Linear(1.0), covariance_strength=tau).fit(X, Y)
            score = model.decision_function(X)
            hidden = ~np.isfinite(Y)
            areas[name].append(np.mean([roc_auc_score(labels[h, t], score[h, t]) for t, h in enumerate(hidden.T)]))
    assert np.mean(areas["auto"]) > np.mean(areas["base"])
    assert np.mean(areas["auto"]) > 0.75


def test_probabilities_are_calibrated_on_held_out_rows():
    X, Y, labels = topics(3, n=200, m=20, labelled=60)
    model = borrow.HierarchicalGPClassifier(base_kernel=Linear(1.0)).fit(X, Y)
    p = np.column_stack([model.predict_proba(X, tasks=t)[:, 1] for t in range(20)])
    hidden = ~np.isfinite(Y)
    truth = labels[hidden] > 0
    assert abs(p[hidden].mean() - truth.mean()) < 0.05
    for low, high in ((0.0, 0.2), (0.2, 0.4), (0.4, 0.7), (0.7, 1.0)):
        inside = (p[hidden] >= low) & (p[hidden] < high)
        assert abs(p[hidden][inside].mean() - truth[inside].mean()) < 0.12


@pytest.mark.parametrize("kernel", [None, Linear(1.0) + Constant(1.0)], ids=["function space", "weights"])
def test_labels_of_any_kind_and_more_than_two(kernel):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=90), "b": rng.normal(size=90), "who": ["p", "q", "r"] * 30})
    y = np.select([table["a"] > 0.5, table["b"] > 0.0], ["high", "mid"], "low")
    model = borrow.HierarchicalGPClassifier("who", base_kernel=kernel).fit(table, y)
    assert model.classes_.tolist() == ["high", "low", "mid"]
    assert np.mean(model.predict(table) == y) > 0.7
    assert_allclose(model.predict_proba(table).sum(axis=1), 1.0)
    new = model.adapt(table[["a", "b"]][:20], y[:20])
    assert np.mean(new.predict(table[["a", "b"]]) == y) > 0.6
    assert new.predict_proba(table).shape == (90, 3)  # the task column is dropped
    with pytest.raises(ValueError, match="y holds 'lo'; the classes are 'high', 'low', 'mid'"):
        model.adapt(table[:1], ["lo"])


def test_one_class_and_one_row():
    one = borrow.HierarchicalGPClassifier().fit([[0.0], [1.0]], ["a", "a"])
    assert one.predict([[3.0]]).tolist() == ["a"]
    assert_array_equal(one.predict_proba([[3.0]]), [[1.0]])
    mixed = borrow.HierarchicalGPClassifier().fit([[0.0], [1.0], [0.5]], [1, 1, 0], tasks=["x", "x", "y"])
    assert mixed.predict_proba([[0.3]], tasks="y").shape == (1, 2)
    assert mixed.adapt([[0.1]], [1]).predict_proba([[0.1]]).shape == (1, 2)


def learnt_kernel(base, Z, seed=0):
    root = np.random.default_rng(seed).normal(size=(len(Z), 3))
    return LearnedKernel(0.7, base=base, Z=Z, root=root, raw_weight=0.8, base_weight=0.2)


@pytest.mark.parametrize("base", [SquaredExponential(1.2, (0.8, 1.5)), Linear(0.5) + Constant(1.0)], ids=str)
def test_learnt_kernel_keeps_the_kernel_contract(base):
    rng = np.random.default_rng(2)
    X, Z, at = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), rng.normal(size=(6, 2))
    kernel = learnt_kernel(base, at)
    check_kernel(kernel, X, Z)
    check_kernel(kernel.raw() + Constant(0.3), X, Z)
    assert "learnt on 6 inputs" in repr(kernel)


@pytest.mark.parametrize("fields", [{"root": np.ones((2, 1))}, {"raw_weight": -1.0}, {"raw_weight": 0.0}])
def test_learnt_kernel_refuses_nonsense(fields):
    given = {"base": Linear(1.0), "Z": np.ones((3, 1)), "root": np.ones((3, 1)), **fields}
    with pytest.raises(ValueError, match=r"LearnedKernel: (root has the shape|raw_weight=)"):
        LearnedKernel(**given)


def test_a_learnt_kernel_on_sparse_inputs_is_saved_and_works_elsewhere(tmp_path):
    X, Y, labels = topics(n=60, m=6)
    model = borrow.HierarchicalGPClassifier(base_kernel=Linear(1.0), noise=1.0, covariance_strength=6.0, tol=0.05)
    model.fit(X, Y)
    kernel = borrow.store.load(borrow.store.save(model.learned_kernel_, tmp_path / "k"))
    assert_array_equal(kernel(X), model.learned_kernel_(X))
    dense = X.toarray()
    alone = borrow.SingleTaskGPClassifier(kernel=kernel, max_iter=20).fit(dense[:20], labels[:20, 0])
    assert alone.predict_proba(dense[20:]).shape == (40, 2)


SETTINGS = {
    r"mean_strength=-1: expected a number from 0 up": {"mean_strength": -1},
    r"mean_strength='inf': expected a number": {"mean_strength": "inf"},
    r"covariance_strength=0: expected 'auto' or a positive number": {"covariance_strength": 0},
    r"covariance_strength='max': expected 'auto'": {"covariance_strength": "max"},
    r"noise=-0.1: expected one positive variance for all tasks": {"noise": -0.1},
    r"noise=\{'a': 1.0\}: expected one positive": {"noise": {"a": 1.0}},
    r"prior='weak': expected 'auto'": {"prior": "weak"},
    r"optimizer='adam': expected 'lbfgs', or None": {"optimizer": "adam"},
    r"max_iter=-1: expected a whole number of at least 0": {"max_iter": -1},
    r"tol=-1: expected a number from 0 up": {"tol": -1},
}
BOTH = [borrow.HierarchicalGPRegressor, borrow.HierarchicalGPClassifier]


@pytest.mark.parametrize("message", SETTINGS)
@pytest.mark.parametrize("estimator", BOTH)
def test_settings_that_make_no_sense(estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator(**SETTINGS[message]).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("estimator", BOTH)
def test_tables_that_make_no_sense(estimator):
    X, Y, _ = topics(n=20, d=30, m=2)
    S, y = X, np.arange(20) % 2
    model = estimator(base_kernel=Linear(1.0), noise=1.0, covariance_strength=2.0, tol=0.1)
    wrong = {
        r"task=0 names a column of X and X is sparse; give tasks=": (estimator(0), (S, y)),
        r"needs dense inputs and X is sparse; give borrow.kernels.Linear": (
            estimator(base_kernel=SquaredExponential()),
            (S, y),
        ),
        r"X has 20 rows and y has 3; give one target per row": (model, (S, y[:3])),
        r"y has 2 columns, one per task, and .*tasks": (model, (S, Y, ["a"] * 20)),
        r"(every y is NaN|every row has a NaN y|every label in y is missing)": (model, (S, np.full(20, np.nan))),
        r"task 1 has 10 rows of X and 2 of y": (model, ([(S[:10], y[:10]), (S[10:], y[:2])],)),
        r"[Cc]ontains NaN|NaN or infinity": (model, (S * np.nan, y)),
        r"1 task labels for 20 rows": (model, (S, y, ["a"])),
    }
    for message, (m, arguments) in wrong.items():
        with pytest.raises(ValueError, match=message):
            m.fit(*arguments)
    model.fit(S, y, tasks=np.arange(20) % 3)
    for message, arguments in {
        r"fitted on 3 tasks, and nothing says which": {"X": S},
        r"unknown task 9.*tasks are 0, 1, 2": {"X": S, "tasks": 9},
        r"X has 29 features, but .* is expecting 30": {"X": S[:, :29], "tasks": 1},
    }.items():
        with pytest.raises(ValueError, match=message):
            model.predict(**arguments)
    with pytest.raises(ValueError, match=r"every y is NaN; a new task needs|X has 2 rows and y has"):
        model.adapt(S[:2], [np.nan, np.nan])
    with pytest.raises(ValueError, match=r"X has 2 rows and y has the shape \(1,\)"):
        model.adapt(S[:2], [1])


@pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
def test_constant_targets_equal_inputs_and_one_row(value):
    table = pd.DataFrame({"x": np.arange(9.0) % 4, "who": list("abc") * 3})
    with pytest.warns(UserWarning, match="the targets of task 'a', 'b', 'c' are all equal"):
        model = borrow.HierarchicalGPRegressor("who").fit(table, np.full(9, value))
    mean, std = model.predict(table, return_std=True)
    assert_allclose(mean, value, rtol=1e-9, atol=1e-9)
    assert np.isfinite(std).all()
    with pytest.warns(UserWarning, match="column 'x' is 1 in every row"):
        same = borrow.HierarchicalGPRegressor("who").fit(table.assign(x=1.0), np.arange(9.0))
    assert np.isfinite(same.predict(table.assign(x=1.0))).all()
    with pytest.warns(UserWarning, match="fitted to a single row"):
        alone = borrow.HierarchicalGPRegressor().fit([[1.0]], [2.0])
    mean, std = alone.predict([[1.0], [9.0]], return_std=True)
    assert_allclose(mean, 2.0)
    assert 0 < std[0] < std[1]


def test_a_task_without_a_label_has_the_prior():
    X = np.linspace(0, 1, 8)[:, None]
    Y = np.column_stack([np.sin(4 * X[:, 0]), np.sin(4 * X[:, 0]) + 0.1, np.full(8, np.nan)])
    model = borrow.HierarchicalGPRegressor(covariance_strength=1.0, max_iter=200, normalize_y=False).fit(X, Y)
    mean, cov = model.predict(X, tasks=2, return_cov=True)
    order = [int(np.flatnonzero(model.X_[:, 0] == x)[0]) for x in X[:, 0]]
    assert_allclose(mean, model.mean_[order], atol=1e-6)
    assert_allclose(cov, model.covariance_[np.ix_(order, order)], atol=1e-6)


def test_too_many_inputs_are_refused_before_memory_is_taken():
    X = np.arange(1e6)[:, None]
    with pytest.raises(MemoryError, match=r"1,000,000 distinct inputs needs about [\d.]+ TiB .*linear base kernel"):
        borrow.HierarchicalGPRegressor(optimizer=None).fit(X, np.sin(X[:, 0]))
    linear = Linear(1.0) + Constant(1.0)
    model = borrow.HierarchicalGPRegressor(base_kernel=linear, optimizer=None, noise=1.0).fit(
        X[:20000] / 1e6, X[:20000, 0]
    )
    assert_allclose(model.predict([[0.01]]), 1e4, rtol=1e-3)
