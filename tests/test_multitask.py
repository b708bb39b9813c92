"""The symmetric multi-task model: every form on every path against the rows written out, and what it promises."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import borrow
import oracles_multitask as oracle
from borrow.covariance import Design
from borrow.data import merge
from borrow.hyper import pack, unpack
from borrow.kernels import Matern, SquaredExponential
from borrow.models.multitask import Setup, choose_path, condition, correlation_kernel, multitask_objective
from borrow.models.task_covariance import Features, FreeForm, Given, LowRank, Uniform
from oracles import central_difference

# --- every form x every path --------------------------------------------------------------------------------------

M = 4
RNG = np.random.default_rng(5)
KERNEL = SquaredExponential(1.0, (0.9, 1.4), fixed=("variance",))
OWN_KERNELS = (SquaredExponential(0.5, 0.7), None, Matern(0.3, 1.1), None)
FEATURES = np.array([[0.0, 1.0], [0.4, -0.5], [1.5, 0.3], [-0.8, -0.2]])
TASK_KERNEL = SquaredExponential(1.3, (0.8, 1.1))
MATRIX = np.array([[1.0, 0.6, -0.3, 0.1], [0.6, 1.2, 0.2, 0.0], [-0.3, 0.2, 0.9, 0.3], [0.1, 0.0, 0.3, 0.5]])
POOL = RNG.normal(size=(6, 2))
INDUCING = RNG.normal(size=(3, 2))


def free_form(values):
    L = np.zeros((M, M))
    for i in range(M):
        for j in range(i + 1):
            L[i, j] = values["factor"][i * (i + 1) // 2 + j]
    return L @ L.T


def loadings_and_own(values):
    own = np.exp(values["own"]) * np.ones(M) if "own" in values else np.zeros(M)
    R = values.get("loadings", np.zeros((M, 1)))
    return R @ R.T + np.diag(own)


# name: (form, its parameters, K^f from them, its own variances)
FORMS = {
    "free": (FreeForm(M, None), {"factor": RNG.normal(size=10)}, free_form),
    "rank": (LowRank(M, 2, "none", None), {"loadings": RNG.normal(size=(M, 2))}, loadings_and_own),
    "rank + isotropic": (
        LowRank(M, 1, "isotropic", None),
        {"loadings": RNG.normal(size=(M, 1)), "own": np.log([0.4])},
        loadings_and_own,
    ),
    "rank + free": (
        LowRank(M, 2, "free", None),
        {"loadings": RNG.normal(size=(M, 2)), "own": np.log([0.4, 0.2, 0.7, 0.1])},
        loadings_and_own,
    ),
    "diagonal": (LowRank(M, 0, "free", None), {"own": np.log([0.4, 1.2, 0.7, 1.0])}, loadings_and_own),
    "uniform": (
        Uniform(M, None),
        {"uniform": np.log([0.7, 0.4])},
        lambda v: np.exp(v["uniform"][0]) * np.ones((M, M)) + np.exp(v["uniform"][1]) * np.eye(M),
    ),
    "features": (
        Features(FEATURES, TASK_KERNEL, np.ones(2), None),
        {"task_kernel": TASK_KERNEL.theta},
        lambda v: TASK_KERNEL.with_theta(v["task_kernel"])(FEATURES),
    ),
    "given": (Given(MATRIX), {}, lambda v: MATRIX),
}
WITH_OWN = ("rank + isotropic", "rank + free", "diagonal", "uniform")
EXTRAS = {"plain": (False, False), "intercept": (True, False), "own kernels": (False, True), "both": (True, True)}


def rows_of(design):
    """Rows with replicates: (X, task, y). One task has one input, another none; complete designs have neither."""
    rng = np.random.default_rng(11)
    if design == "complete":
        X, task = np.tile(POOL, (M, 1)), np.repeat(np.arange(M), 6)
        count = np.multiply.outer([1, 2, 1, 1], [1, 1, 3, 1, 2, 1]).ravel()
    else:
        sizes = (5, 0, 1, 6)
        X = [rng.permutation(POOL)[:n] if design == "repeated" else rng.normal(size=(n, 2)) for n in sizes]
        X, task = np.vstack(X), np.repeat(np.arange(M), sizes)
        count = rng.integers(1, 4, len(task))
    X, task = np.repeat(X, count, axis=0), np.repeat(task, count)
    return X, task, rng.normal(size=len(task))


def cases():
    """(form, path, design, extras, inducing inputs) for every legal combination."""
    for form in FORMS:
        for extra, (intercept, own) in EXTRAS.items():
            for design in ("distinct", "repeated"):
                yield form, "dense", design, extra, None
            yield form, "blocks", "repeated", extra, None
            yield form, "blocks", "distinct", extra, INDUCING
            if not intercept and not own:
                yield form, "complete", "complete", extra, None
            if form not in WITH_OWN and not own:
                yield form, "gathered", "repeated", extra, None
                yield form, "low rank", "distinct", extra, INDUCING


def name_of(case):
    return "-".join(str(part) for part in case[:4])


def literal_evidence(values, form, setup, rows):
    """log density of the rows, replicates and all, from the covariance of every pair of them."""
    X, task, y = rows
    cells = setup.cells
    kernel, B = KERNEL.with_theta(values["kernel"]), FORMS[form][2](values)
    c = np.exp(values["intercept"][0]) if setup.intercept else 0.0
    specific, at = None, 0
    if setup.specific:
        specific = []
        for k in OWN_KERNELS:
            n = 0 if k is None else k.n_theta
            specific.append(None if k is None else k.with_theta(values["specific"][at : at + n]))
            at += n
    if setup.Z is None:
        K = oracle.prior_covariance(cells.X, cells.task, cells.X, cells.task, kernel, B, c, specific)
    else:  # what is shared goes through the inducing inputs, what is a task's own does not
        own = np.diag(np.exp(values["own"]) * np.ones(M)) if "own" in values else np.zeros((M, M))
        own = np.exp(values["uniform"][1]) * np.eye(M) if "uniform" in values else own
        e, U = np.linalg.eigh(B - own)
        R = U * np.sqrt(np.maximum(e, 0.0))
        K = oracle.nystrom_covariance(cells.X, cells.task, cells.X, cells.task, kernel, setup.Z, R, same=True)
        K += oracle.prior_covariance(cells.X, cells.task, cells.X, cells.task, kernel, own, c, specific)
    cell = np.array(
        [np.flatnonzero((cells.task == t) & np.all(x == cells.X, axis=1))[0] for x, t in zip(X, task, strict=True)]
    )
    noise = np.exp(values["noise"]) * np.ones(M)
    return oracle.evidence(K[np.ix_(cell, cell)], y, noise[task])


@pytest.mark.parametrize("case", list(cases()), ids=name_of)
def test_evidence_and_gradient_are_those_of_the_rows_written_out(case):
    form, path, design, extra, Z = case
    intercept, own = EXTRAS[extra]
    rows = X, task, y = rows_of(design)
    cells = merge(X, task, y, np.ones(len(y)), np.ones(len(y)), M)
    assert len(cells.y) < len(y)
    share = extra in ("intercept", "both")
    setup = Setup(
        cells, Design.of(cells), KERNEL, FORMS[form][0], path, Z, intercept, OWN_KERNELS if own else (), share
    )
    values = {"kernel": KERNEL.theta, "noise": np.log([0.2] if share else [0.1, 0.3, 0.2, 0.4]), **FORMS[form][1]}
    if intercept:
        values["intercept"] = np.log([0.6])
    if own:
        values["specific"] = np.concatenate([k.theta for k in OWN_KERNELS if k is not None])
    found, gradient = multitask_objective(setup)(values)
    expected = literal_evidence(values, form, setup, rows)
    assert found == pytest.approx(expected, abs=1e-8)
    assert condition(values, setup).evidence == found
    assert list(gradient) == list(values)

    def literal(x):
        return literal_evidence(unpack(x, values), form, setup, rows)

    by_differences = central_difference(literal, pack(values))
    scale = max(1.0, np.abs(by_differences).max())
    np.testing.assert_allclose(pack(gradient), by_differences, rtol=0, atol=1e-6 * scale)


# --- the estimator against the rows written out ---------------------------------------------------------------------

SMOOTH = SquaredExponential(1.0, 0.8)
B3 = np.array([[1.0, 0.7, -0.4], [0.7, 1.5, 0.1], [-0.4, 0.1, 0.8]])
NOISE = {"a": 0.05, "b": 0.2, "c": 0.1}
FIXED = {"kernel": SMOOTH, "noise": NOISE, "optimizer": None}


def table(seed=0, sizes=(9, 14, 1), repeats=3):
    """Unequal tasks, one with a single row, the first rows repeated with other targets; levels far from 0 and 1."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(["a", "b", "c"], sizes)
    X = rng.uniform(-2, 2, (len(tasks), 1))
    X, tasks = np.vstack([X[:repeats], X]), np.concatenate([tasks[:repeats], tasks])
    level = np.array([5.0, -3.0, 20.0])[np.searchsorted(["a", "b", "c"], tasks)]
    y = level + 2.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=len(tasks))
    order = rng.permutation(len(tasks))
    return X[order], tasks[order], y[order]


def in_units_of_y(model, X, task, X2, task2):
    """Prior covariance of the functions of an estimator that was fitted, from what it publishes."""
    specific = list(model.specific_kernels_.values()) or None
    K = oracle.prior_covariance(
        X, task, X2, task2, model.kernel_, model.task_covariance_, model.intercept_variance_, specific
    )
    return K * np.multiply.outer(model._scale[task], model._scale[task2])


def literal_posterior(model, X, task, y, X_new, task_new, replicates=1.0):
    """Mean and covariance at new rows, and the log density of the rows."""
    noise = np.array(list(model.noise_.values()))[task] / replicates
    K = in_units_of_y(model, X, task, X, task)
    cross = in_units_of_y(model, X_new, task_new, X, task)
    new = in_units_of_y(model, X_new, task_new, X_new, task_new)
    mean, cov = oracle.predict(K, cross, new, y - model._center[task], noise)
    density = multivariate_normal(model._center[task], K + np.diag(noise)).logpdf(y)
    return model._center[task_new] + mean, cov, density


SETTINGS = {
    "free": {"task_covariance": B3, "optimizer": None},
    "uniform": {"task_covariance": "uniform"},
    "rank": {"rank": 2, "task_prior": None},
    "rank + diagonal": {"rank": 1, "diagonal": "free", "share_noise": True},
    "own parts": {"task_covariance": B3, "intercept": True, "specific_kernel": "auto", "optimizer": None},
    "own part of one": {"rank": 1, "specific_kernel": {"b": Matern(0.5, 0.4)}, "optimizer": None},
    "features": {"task_features": {"a": [0.0], "b": [1.0], "c": [3.0]}, "intercept": True, "max_iter": 200},
}


@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("name", SETTINGS)
def test_fitted_model_is_the_multivariate_normal_of_the_rows(name, normalize_y):
    X, tasks, y = table()
    model = borrow.MultiTaskGPRegressor(**{"kernel": SMOOTH, "noise": NOISE, **SETTINGS[name]}, normalize_y=normalize_y)
    model.fit(X, y, tasks=tasks)
    X_new, new_tasks = np.vstack([X[:4], [[0.3], [9.0]]]), np.array(["a", "c", "b", "a", "b", "c"])
    code, new_code = np.searchsorted(model.tasks_, tasks), np.searchsorted(model.tasks_, new_tasks)
    mean, cov, density = literal_posterior(model, X, code, y, X_new, new_code)
    assert model.log_marginal_likelihood_ == pytest.approx(density, abs=1e-8)
    found, found_cov = model.predict(X_new, new_tasks, return_cov=True)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(found_cov, cov, atol=1e-8)
    again, std = model.predict(X_new, new_tasks, return_std=True)
    np.testing.assert_allclose(again, mean, atol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(np.diag(cov)), atol=1e-7)
    noise = np.array([model.noise_[t] for t in new_tasks])
    _, noisy = model.predict(X_new, new_tasks, return_std=True, include_noise=True)
    np.testing.assert_allclose(noisy, np.sqrt(np.diag(cov) + noise), atol=1e-7)
    _, noisy_cov = model.predict(X_new, new_tasks, return_cov=True, include_noise=True)
    np.testing.assert_allclose(noisy_cov, cov + np.diag(noise), atol=1e-8)


@pytest.mark.parametrize("normalize_y", [True, False])
def test_merged_replicates_weights_and_means_are_the_rows(normalize_y):
    """Rows repeated, `sample_weight=k`, and `replicates=k` for a mean of k, on a complete design with counts."""
    rng = np.random.default_rng(3)
    X, task = np.tile(np.linspace(0, 3, 5)[:, None], (3, 1)), np.repeat([0, 1, 2], 5)
    k, y = np.multiply.outer([1, 2, 3], [1, 1, 2, 1, 3]).ravel(), rng.normal(size=15) + 4.0
    model = borrow.MultiTaskGPRegressor(
        kernel=SMOOTH, noise=0.3, task_covariance=B3, optimizer=None, normalize_y=normalize_y
    )
    grid, at = np.linspace(-1, 4, 7)[:, None], np.array([0, 1, 2, 0, 1, 2, 0])
    weighted = model.fit(X, y, tasks=task, sample_weight=k)
    assert weighted.path_ == "complete"
    evidence, answers = weighted.log_marginal_likelihood_, weighted.predict(grid, at, return_std=True)
    written = model.fit(np.repeat(X, k, axis=0), np.repeat(y, k), tasks=np.repeat(task, k))
    assert evidence == pytest.approx(written.log_marginal_likelihood_, abs=1e-8)
    for one, other in zip(answers, written.predict(grid, at, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    density = literal_posterior(written, np.repeat(X, k, axis=0), np.repeat(task, k), np.repeat(y, k), grid, at)[2]
    assert evidence == pytest.approx(density, abs=1e-8)
    means = model.fit(X, y, tasks=task, replicates=k)
    mean, cov, density = literal_posterior(means, X, task, y, grid, at, k)
    assert means.log_marginal_likelihood_ == pytest.approx(density, abs=1e-8)
    np.testing.assert_allclose(means.predict(grid, at), mean, atol=1e-8)
    np.testing.assert_allclose(means.predict(grid, at, return_std=True)[1], np.sqrt(np.diag(cov)), atol=1e-8)


def test_relabelled_tasks_permute_the_covariance_and_change_no_prediction():
    X, tasks, y = table()
    names = {"a": "z", "b": "m", "c": "k"}
    order = [2, 1, 0]  # of the new labels k, m, z among the old ones
    moved = np.array([names[t] for t in tasks])
    grid, at = np.linspace(-2, 2, 9)[:, None], ["a", "b", "c"] * 3
    one = borrow.MultiTaskGPRegressor(**FIXED, task_covariance=B3).fit(X, y, tasks=tasks)
    noise = {names[t]: v for t, v in NOISE.items()}
    other = borrow.MultiTaskGPRegressor(**{**FIXED, "noise": noise}, task_covariance=B3[np.ix_(order, order)])
    other.fit(X, y, tasks=moved)
    for free in (False, True):
        if free:
            one, other = (borrow.MultiTaskGPRegressor().fit(X, y, tasks=t) for t in (tasks, moved))
        atol = 2e-3 if free else 1e-10  # the factor of K^f depends on the order, and so does the way to the optimum
        assert other.tasks_.tolist() == ["k", "m", "z"]
        assert other.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_, abs=atol)
        permuted = one.task_covariance_[np.ix_(order, order)]
        np.testing.assert_allclose(other.task_covariance_, permuted, atol=10 * atol)
        pairs = zip(
            one.predict(grid, at, return_std=True),
            other.predict(grid, [names[t] for t in at], return_std=True),
            strict=True,
        )
        for mine, its in pairs:
            np.testing.assert_allclose(its, mine, atol=10 * atol)


@pytest.mark.parametrize(
    "settings",
    [{}, {"rank": 1, "diagonal": "free"}, {"rank": 2, "inducing": 4}, {"solver": "em", "max_iter": 6}],
    ids=str,
)
def test_shuffled_rows_give_the_same_bits(settings):
    X, tasks, y = table()
    grid = np.linspace(-2, 2, 6)[:, None]
    answers = []
    for seed in (None, 1, 2):
        order = np.arange(len(y)) if seed is None else np.random.default_rng(seed).permutation(len(y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few iterations
            model = borrow.MultiTaskGPRegressor(**settings).fit(X[order], y[order], tasks=tasks[order])
        answers.append((*model.predict(grid, "b", return_std=True), model.task_covariance_))
    for other in answers[1:]:
        for one, two in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


# --- paths ----------------------------------------------------------------------------------------------------------


def many_tasks(complete=False, M=12, seed=0):
    rng = np.random.default_rng(seed)
    X = np.linspace(0, 3, 6)[:, None]
    Y = np.sin(X + rng.uniform(0, 1, M)) + 0.1 * rng.normal(size=(6, M))
    if not complete:
        Y[np.arange(M) % 6, np.arange(M)] = np.nan
    return X, Y


def scattered():
    rng = np.random.default_rng(1)
    return rng.normal(size=(15, 1)), rng.normal(size=15), np.repeat([0, 1, 2], 5)


PATHS = {
    "complete": ({}, many_tasks(True)),
    "complete, low rank": ({"rank": 2, "diagonal": "free"}, many_tasks(True)),
    "gathered": ({"rank": 1}, many_tasks()),
    "gathered, intercept": ({"rank": 1, "intercept": True}, many_tasks(True)),
    "blocks": ({"rank": 1, "diagonal": "free"}, many_tasks()),
    "blocks, uniform": ({"task_covariance": "uniform", "intercept": True}, many_tasks()),
    "blocks, nothing shared": ({"task_covariance": "diagonal"}, scattered()),
    "dense": ({}, many_tasks()),
    "dense, intercept": ({"intercept": True}, many_tasks(True)),
    "dense, own kernels": ({"specific_kernel": SMOOTH}, many_tasks(True)),
    "dense, low rank": ({"rank": 2}, scattered()),
    "low rank": ({"inducing": 3, "rank": 1, "intercept": True}, many_tasks(True)),
    "low rank, free": ({"inducing": [[0.0], [1.0]]}, scattered()),
    "blocks, inducing": ({"inducing": 3, "rank": 1, "diagonal": "isotropic"}, many_tasks(True)),
}


@pytest.mark.parametrize("name", PATHS)
def test_path_is_chosen_by_the_data_and_every_other_gives_the_same(name):
    settings, (X, y, *tasks) = PATHS[name]
    model = borrow.MultiTaskGPRegressor(kernel=Matern(1.0, 0.7), noise=0.1, optimizer=None, **settings)
    model.fit(X, y, *tasks)
    assert model.path_ == name.split(",")[0]
    setup, values = model._setup, model._values
    rng = np.random.default_rng(0)
    for n in ("factor", "loadings"):
        if n in values:
            values = {**values, n: rng.normal(size=values[n].shape)}
    value, gradient = multitask_objective(setup)(values)
    alone = not setup.specific and name.split(",")[0] in ("gathered", "low rank", "complete", "dense")
    others = {"blocks"} if setup.Z is not None else {"dense", "blocks"}
    others |= {"gathered"} if alone and "own" not in values else set()
    for path in others:
        again, by = multitask_objective(replace(setup, path=path))(values)
        assert again == pytest.approx(value, abs=1e-8)
        scale = max(1.0, np.abs(pack(gradient)).max())
        np.testing.assert_allclose(pack(by), pack(gradient), rtol=0, atol=1e-8 * scale)


def test_counts_that_are_no_product_take_the_dense_path():
    X, Y = many_tasks(True, M=2)
    tasks, X, y = np.repeat([0, 1], 6), np.tile(X, (2, 1)), Y.T.ravel()
    weight = np.ones(12)
    model = borrow.MultiTaskGPRegressor(optimizer=None)
    assert model.fit(X, y, tasks, weight).path_ == "complete"
    weight[2] = 2.0
    assert model.fit(X, y, tasks, weight).path_ == "dense"


def test_one_task_is_never_a_complete_design():
    cells = merge(np.arange(4.0)[:, None], np.zeros(4, dtype=int), np.arange(4.0), np.ones(4), np.ones(4), 1)
    assert choose_path(Design.of(cells), FreeForm(1, None), False, (), False) == "dense"


def test_only_the_scale_of_the_kernel_is_held():
    assert correlation_kernel(SMOOTH).parameter_names() == ["lengthscale"]
    both = correlation_kernel(SMOOTH + Matern(0.5, 2.0))
    assert sorted(n.split(".")[-1] for n in both.parameter_names()) == ["lengthscale", "lengthscale", "variance"]
    product = correlation_kernel(SMOOTH * Matern(0.5, 2.0))
    assert [n.split(".")[-1] for n in product.parameter_names()] == ["lengthscale", "lengthscale"]
