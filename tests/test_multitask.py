"""The symmetric multi-task model: every form on every path against the rows written out, and what it promises."""

import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning

import borrow
import oracles_multitask as oracle
from borrow.covariance import Design
from borrow.data.cells import merge
from borrow.data.labels import places_of
from borrow.kernels import Matern, SquaredExponential
from borrow.models.multitask.model import (
    Setup,
    choose_path,
    condition,
    correlation_kernel,
    multitask_objective,
    objective_of,
)
from borrow.models.multitask.search import starts_of
from borrow.models.multitask.task_covariance import Features, FreeForm, Given, LowRank, Uniform
from borrow.numerics.optimise import pack, unpack
from borrow.tasks.placed import PlacedTasks
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


# name: (form, its parameters, K^f from them)
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
        PlacedTasks(cells),
        Design.from_cells(cells),
        KERNEL,
        FORMS[form][0],
        path,
        Z,
        intercept,
        OWN_KERNELS if own else (),
        share,
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


def units(model):
    """Centre and scale of the tasks in the order of `tasks_`; inside, tasks have an order of their own."""
    at = places_of(model.fitted_.schema.labels)
    return model.fitted_.center[at], model.fitted_.scale[at]


def in_units_of_y(model, X, task, X2, task2):
    """Prior covariance of the functions of an estimator that was fitted, from what it publishes."""
    _, scale = units(model)
    specific = list(model.specific_kernels_.values()) or None
    K = oracle.prior_covariance(
        X, task, X2, task2, model.kernel_, model.task_covariance_, model.intercept_variance_, specific
    )
    return K * np.multiply.outer(scale[task], scale[task2])


def literal_posterior(model, X, task, y, X_new, task_new, replicates=1.0):
    """Mean and covariance at new rows, and the log density of the rows."""
    noise, (center, _) = np.array(list(model.noise_.values()))[task] / replicates, units(model)
    K = in_units_of_y(model, X, task, X, task)
    cross = in_units_of_y(model, X_new, task_new, X, task)
    new = in_units_of_y(model, X_new, task_new, X_new, task_new)
    mean, cov = oracle.predict(K, cross, new, y - center[task], noise)
    density = multivariate_normal(center[task], K + np.diag(noise)).logpdf(y)
    return center[task_new] + mean, cov, density


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
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "\"loading . of task 'c'\" is not identified", ConvergenceWarning)  # one row
        model.fit(X, y, tasks=tasks)
    if not isinstance(SETTINGS[name].get("task_covariance", ""), str):
        np.testing.assert_array_equal(model.task_covariance_, B3)
    X_new, new_tasks = np.vstack([X[:4], [[0.3], [9.0]]]), np.array(["a", "c", "b", "a", "b", "c"])
    code, new_code = np.searchsorted(model.tasks_, tasks), np.searchsorted(model.tasks_, new_tasks)
    mean, cov, density = literal_posterior(model, X, code, y, X_new, new_code)
    assert model.log_marginal_likelihood_ == pytest.approx(density, abs=1e-8)
    np.testing.assert_allclose(model.posterior_covariance(X_new, new_tasks), cov, atol=1e-8)
    found, found_cov = model.predict(X_new, new_tasks, return_cov=True)
    again, std = model.predict(X_new, new_tasks, return_std=True)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(again, mean, atol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(np.diag(found_cov)), atol=1e-7)
    if SETTINGS[name].get("optimizer", "") is not None:  # learnt: what is not known of it widens the bands
        assert np.all(std > np.sqrt(np.diag(cov)) - 1e-8)
        return
    np.testing.assert_allclose(found_cov, cov, atol=1e-8)
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
    with pytest.warns(UserWarning, match="48 rows are 15 different ones and exact copies of them"):
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
            if settings.get("max_iter"):
                warnings.filterwarnings("ignore", "the optimiser stopped after", ConvergenceWarning)
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
    setup, values = model.fitted_.model.setup, model.fitted_.model.values
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
    assert choose_path(Design.from_cells(cells), FreeForm(1, None), False, (), False) == "dense"


def test_only_the_scale_of_the_kernel_is_held():
    assert correlation_kernel(SMOOTH).parameter_names() == ["lengthscale"]
    both = correlation_kernel(SMOOTH + Matern(0.5, 2.0))
    assert sorted(n.split(".")[-1] for n in both.parameter_names()) == ["lengthscale", "lengthscale", "variance"]
    product = correlation_kernel(SMOOTH * Matern(0.5, 2.0))
    assert [n.split(".")[-1] for n in product.parameter_names()] == ["lengthscale", "lengthscale"]


# --- section 2.3: transfer cancels ----------------------------------------------------------------------------------

ROUGH = Matern(1.0, 0.5, nu=0.5)
SEVEN = np.linspace(0.0, 3.0, 7)[:, None]
GRID = np.linspace(-0.5, 3.5, 11)[:, None]


def predictions_of_first_task(noise, Y):
    """Mean and standard deviation of task 0 at new inputs, at given hyper-parameters; the warning left aside."""
    model = borrow.MultiTaskGPRegressor(
        kernel=ROUGH, task_covariance=B3, noise=noise, optimizer=None, normalize_y=False
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "every input is seen in every task", UserWarning)
        model.fit(SEVEN, Y)
    assert model.jitter_ == 0.0
    return model.path_, *model.predict(GRID, np.zeros(11, dtype=int), return_std=True)


def three_tasks():
    rng = np.random.default_rng(4)
    Y = rng.normal(size=(7, 3))
    other = Y.copy()
    other[:, 1:] = rng.normal(size=(7, 2))
    return Y, other


def test_noise_free_block_design_cancels_transfer():
    Y, other = three_tasks()
    path, mean, std = predictions_of_first_task(1e-12, Y)
    assert path == "complete"
    np.testing.assert_allclose(predictions_of_first_task(1e-12, other)[1], mean, rtol=0, atol=1e-10)
    K, cross = ROUGH(SEVEN), ROUGH(GRID, SEVEN)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, Y[:, 0]), rtol=0, atol=1e-10)
    variance = B3[0, 0] * (1.0 - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1))
    np.testing.assert_allclose(std**2, variance, rtol=0, atol=1e-10)


def test_cancellation_holds_where_only_the_others_are_sparse():
    """The paper's generalisation: task 0 has every input, the others some of them."""
    Y, other = three_tasks()
    hidden = np.zeros((7, 3), dtype=bool)
    hidden[[1, 4], 1] = hidden[[0, 4, 5], 2] = True
    Y[hidden] = other[hidden] = np.nan
    path, mean, _ = predictions_of_first_task(1e-12, Y)
    assert path == "dense"
    np.testing.assert_allclose(predictions_of_first_task(1e-12, other)[1], mean, rtol=0, atol=1e-10)


@pytest.mark.parametrize("why", ["noise", "incomplete"])
def test_noise_or_an_incomplete_design_lets_transfer_through(why):
    Y, other = three_tasks()
    if why == "incomplete":
        Y[3, 0] = other[3, 0] = np.nan
    noise = 0.1 if why == "noise" else 1e-12
    change = predictions_of_first_task(noise, other)[1] - predictions_of_first_task(noise, Y)[1]
    assert np.abs(change).max() > 0.02


def wide(noise, M=3, N=15, seed=0):
    rng = np.random.default_rng(seed)
    X = np.linspace(0, 4, N)[:, None]
    return X, np.sin(1.7 * X + np.linspace(0, 1, M)) + noise * rng.normal(size=(N, M))


def test_fit_warns_where_transfer_cancels():
    with pytest.warns(UserWarning, match=r"transfer cancels.*observe tasks at different inputs") as caught:
        borrow.MultiTaskGPRegressor(kernel=SquaredExponential(1.0, 0.5)).fit(*wide(0.0))
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("noise", [0.1, 1.0])
@pytest.mark.parametrize(
    "settings",
    [{"specific_kernel": None}, {"task_covariance": "diagonal"}, {"rank": 1, "diagonal": "free"}],
    ids=str,
)
def test_noisy_or_unrelated_tasks_get_no_warning_of_cancellation(noise, settings):
    X, Y = wide(noise)
    Y[:, 2] = noise * np.random.default_rng(1).normal(size=15)  # unrelated: little crosses, and that is as it should be
    assert borrow.MultiTaskGPRegressor(**settings).fit(X, Y).path_ == "complete"


@pytest.mark.parametrize("correlation", [0.0, 0.02, 0.9])
def test_weak_relations_are_not_taken_for_cancellation(correlation):
    B = np.array([[1.0, correlation], [correlation, 1.0]])
    model = borrow.MultiTaskGPRegressor(kernel=ROUGH, task_covariance=B, noise=0.3, optimizer=None)
    assert model.fit(*wide(0.3, M=2)).path_ == "complete"


# --- tasks by their features ----------------------------------------------------------------------------------------


def test_task_without_rows_is_predicted_from_its_features():
    X, tasks, y = table()
    features = {"a": [0.0, 1.0], "b": [1.0, 0.5], "c": [0.3, 0.2], "new": [0.6, 0.8]}
    model = borrow.MultiTaskGPRegressor(
        kernel=SMOOTH, noise=0.1, task_features=features, task_kernel=TASK_KERNEL, optimizer=None, normalize_y=False
    ).fit(X, y, tasks=tasks)
    assert model.tasks_.tolist() == ["a", "b", "c", "new"]
    np.testing.assert_allclose(model.task_covariance_, TASK_KERNEL(np.array(list(features.values()))), atol=1e-14)
    code = np.searchsorted(model.tasks_, tasks)
    mean, cov, density = literal_posterior(model, X, code, y, GRID, np.full(11, 3))
    found, std = model.predict(GRID, "new", return_std=True)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(np.diag(cov)), atol=1e-8)
    assert model.log_marginal_likelihood_ == pytest.approx(density, abs=1e-8)


@pytest.mark.parametrize("settings", [{}, {"intercept": True}, {"inducing": SEVEN}, {"share_noise": True}], ids=list)
@pytest.mark.parametrize("normalize_y", [True, False])
def test_descriptor_that_was_never_seen_is_a_new_task(settings, normalize_y):
    rng = np.random.default_rng(2)
    descriptors = np.array([[0.0, 2.0], [0.5, -1.0], [1.0, 1.0]])
    which = np.repeat([0, 1, 2], (4, 6, 5))
    X = rng.uniform(0, 3, (15, 1))
    y = np.sin(2 * X[:, 0]) + 5 * which + 0.1 * rng.normal(size=15)
    frame = pd.DataFrame({"size": descriptors[which, 0], "x": X[:, 0], "age": descriptors[which, 1]})
    model = borrow.MultiTaskGPRegressor(
        kernel=SMOOTH,
        task_features=["size", "age"],
        task_kernel=TASK_KERNEL,
        noise={(0.0, 2.0): 0.02, (0.5, -1.0): 0.1, (1.0, 1.0): 0.4},
        optimizer=None,
        normalize_y=normalize_y,
        **settings,
    ).fit(frame, y)
    assert list(model.tasks_) == [(0.0, 2.0), (0.5, -1.0), (1.0, 1.0)]
    before = model.predict(frame)
    ask = pd.DataFrame({"size": 0.2, "x": GRID[:, 0], "age": 0.4})
    mean, std = model.predict(ask, return_std=True)
    B, Z = TASK_KERNEL(np.vstack([descriptors, [[0.2, 0.4]]])), model.inducing_

    def K(X, task, X2, task2, same=False):
        if Z is None:
            return oracle.prior_covariance(X, task, X2, task2, SMOOTH, B, model.intercept_variance_)
        return oracle.nystrom_covariance(X, task, X2, task2, SMOOTH, Z, np.linalg.cholesky(B), same=same)

    (center, scale), new = (v[which] for v in units(model)), np.full(11, 3)
    noise = np.array(list(model.noise_.values()))[which] / scale**2
    expected, cov = oracle.predict(
        K(X, which, X, which, True),
        K(GRID, new, X, which),
        K(GRID, new, GRID, new, True),
        (y - center) / scale,
        noise,
    )
    level, spread = 0.0, 1.0
    if normalize_y:  # of a task without rows: those of a typical one
        level = np.mean([y[which == t].mean() for t in range(3)])
        spread = np.exp(np.mean([np.log(y[which == t].std()) for t in range(3)]))
    np.testing.assert_allclose(mean, level + spread * expected, atol=1e-8)
    np.testing.assert_allclose(std, spread * np.sqrt(np.diag(cov)), atol=1e-8)
    np.testing.assert_array_equal(model.predict(frame), before)  # a question leaves the model as it was
    mixed = pd.concat([frame[:2], ask[:2]])
    np.testing.assert_allclose(model.predict(mixed), [*before[:2], *mean[:2]], atol=1e-10)
    array = borrow.MultiTaskGPRegressor(**{**model.get_params(), "task_features": [0, -1]}).fit(frame.to_numpy(), y)
    np.testing.assert_array_equal(array.predict(ask.to_numpy()), mean)


# --- forms of the data ----------------------------------------------------------------------------------------------


def test_wide_list_dict_and_long_forms_are_the_same_fit():
    X, Y = wide(0.1)
    Y[[0, 3, 4], [0, 1, 1]] = np.nan
    seen = np.isfinite(Y)
    model = borrow.MultiTaskGPRegressor(kernel=SMOOTH, noise=0.1, task_covariance=B3, optimizer=None)
    expected = model.fit(X, Y).predict(GRID)
    assert expected.shape == (11, 3)
    assert model.predict(GRID, return_std=True)[1].shape == (11, 3)
    evidence = model.log_marginal_likelihood_
    pairs = [(X[seen[:, t]], Y[seen[:, t], t]) for t in range(3)]
    long = np.vstack([x for x, _ in pairs]), np.concatenate([y for _, y in pairs]), np.repeat([0, 1, 2], seen.sum(0))
    for arguments in ((pairs,), (dict(enumerate(pairs)),), long):
        model.fit(*arguments)
        assert model.log_marginal_likelihood_ == evidence
        for t in range(3):
            np.testing.assert_allclose(model.predict(GRID, np.full(11, t)), expected[:, t], atol=1e-12)


def test_columns_of_a_wide_frame_come_back_in_its_order():
    X, Y = wide(0.1)
    frame = pd.DataFrame(Y, columns=["zinc", "lead", "iron"])
    features = {"zinc": 0.0, "gold": 5.0, "iron": 1.0, "lead": 2.0}
    for more in ({}, {"task_features": features}):
        model = borrow.MultiTaskGPRegressor(kernel=SMOOTH, noise=0.1, optimizer=None, **more).fit(X, frame)
        assert [t for t in model.tasks_ if t != "gold"] == ["iron", "lead", "zinc"]
        together = model.predict(GRID)
        for j, label in enumerate(frame.columns):
            np.testing.assert_allclose(together[:, j], model.predict(GRID, label), atol=1e-12)
            assert np.corrcoef(model.predict(X, label), frame[label])[0, 1] > 0.9


@pytest.mark.parametrize("labels", [["b", "a", "c"], [10, 2, 33], [(1, "x"), (0, "y"), (1, "a")], [1.5, "a", 0]])
def test_labels_come_back_as_given(labels):
    X, tasks, y = table()
    given = [labels["abc".index(t)] for t in tasks]
    model = borrow.MultiTaskGPRegressor(kernel=SMOOTH, optimizer=None).fit(X, y, tasks=given)
    assert set(model.noise_) == set(labels) == set(model.tasks_.tolist())
    assert {type(t) for t in model.tasks_.tolist()} == {type(t) for t in labels}
    assert set(model.leave_one_out()["task"]) == set(labels)


def test_share_noise_is_one_number_for_scaled_targets():
    X, tasks, y = table()
    plain = borrow.MultiTaskGPRegressor(share_noise=True, normalize_y=False).fit(X, y, tasks=tasks)
    assert len(set(plain.noise_.values())) == 1
    scaled = borrow.MultiTaskGPRegressor(share_noise=True).fit(X, y, tasks=tasks)
    share = np.array(list(scaled.noise_.values())) / units(scaled)[1] ** 2
    np.testing.assert_allclose(share, share[0], rtol=1e-12)
    assert len(set(borrow.MultiTaskGPRegressor(normalize_y=False).fit(X, y, tasks=tasks).noise_.values())) == 3


# --- inducing inputs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [4, 100, SEVEN[:5].tolist()], ids=["number", "more than there are", "array"])
@pytest.mark.parametrize("optimizer", ["lbfgs", None])
def test_inducing_inputs_are_their_own_dense_approximation(given, optimizer):
    X, tasks, y = table(repeats=0)
    model = borrow.MultiTaskGPRegressor(
        kernel=ROUGH, rank=2, inducing=given, optimizer=optimizer, noise=0.1, intercept=True
    )
    model.fit(X, y, tasks=tasks)
    Z = model.inducing_
    assert model.path_ == "low rank"
    assert len(Z) == min(len(given) if isinstance(given, list) else given, len(np.unique(X)))
    if isinstance(given, list):
        np.testing.assert_array_equal(Z, SEVEN[:5])
    else:
        assert np.isin(Z, X).all()
    task = np.searchsorted(model.tasks_, tasks)
    center, scale = units(model)
    scaled = (y - center[task]) / scale[task]
    noise = np.array(list(model.noise_.values()))[task] / scale[task] ** 2
    e, U = np.linalg.eigh(model.task_covariance_)
    args = model.kernel_, Z, U * np.sqrt(np.maximum(e, 0.0)), model.intercept_variance_
    K = oracle.nystrom_covariance(X, task, X, task, *args, same=True)
    density = oracle.evidence(K, scaled, noise) - np.log(scale[task]).sum()
    assert model.log_marginal_likelihood_ == pytest.approx(density, abs=1e-8)
    at = np.array([0, 1, 2] * 4)[:11]
    cross = oracle.nystrom_covariance(GRID, at, X, task, *args)
    mean, cov = oracle.predict(K, cross, oracle.nystrom_covariance(GRID, at, GRID, at, *args, same=True), scaled, noise)
    asked = GRID, np.array(["a", "b", "c"])[at]
    found, found_cov = model.predict(*asked), model.posterior_covariance(*asked)
    np.testing.assert_allclose(found, center[at] + scale[at] * mean, atol=1e-8)
    np.testing.assert_allclose(found_cov, cov * np.multiply.outer(scale[at], scale[at]), atol=1e-8)


def test_inducing_inputs_are_spread_again_by_the_kernel_found():
    X, tasks, y = table(repeats=0)
    settings = {"kernel": SquaredExponential(1.0, 40.0), "rank": 2, "intercept": True, "inducing": 5}
    before = borrow.MultiTaskGPRegressor(**settings, optimizer=None).fit(X, y, tasks=tasks)
    after = borrow.MultiTaskGPRegressor(**settings).fit(X, y, tasks=tasks)
    gaps = [np.diff(np.sort(m.inducing_[:, 0])).min() for m in (before, after)]
    assert not np.array_equal(before.inducing_, after.inducing_)
    assert gaps[1] > 0.3  # of a range of 4, by a kernel short enough to see it


def test_all_inputs_as_inducing_inputs_lose_nothing():
    X, Y = many_tasks()
    settings = {"kernel": ROUGH, "rank": 2, "noise": 0.1}
    exact = borrow.MultiTaskGPRegressor(**settings).fit(X, Y)
    sparse = borrow.MultiTaskGPRegressor(**settings, inducing=X).fit(X, Y)
    assert sparse.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, abs=1e-6)
    np.testing.assert_allclose(sparse.predict(GRID), exact.predict(GRID), atol=1e-4)


# --- leave one out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"intercept": True}, "dense"),
        ({"rank": 1, "diagonal": "free", "intercept": True}, "blocks"),
        ({"rank": 1, "intercept": True}, "gathered"),
        ({}, "complete"),
    ],
    ids=str,
)
def test_leave_one_out_is_the_prediction_from_all_other_rows(settings, path):
    X, Y = many_tasks(complete=path == "complete", M=4 if path in ("dense", "complete") else 12)
    M = Y.shape[1]
    tasks, X, y = np.repeat(np.arange(M), 6), np.tile(X, (M, 1)), Y.T.ravel()
    seen = np.isfinite(y)
    tasks, X, y = tasks[seen], X[seen], y[seen]
    count = np.ones(len(y)) if path == "complete" else np.random.default_rng(0).integers(1, 4, len(y))
    model = borrow.MultiTaskGPRegressor(kernel=ROUGH, noise=0.1, **settings)
    model.fit(X, y, tasks, replicates=count)
    assert model.path_ == path
    found = model.leave_one_out()
    np.testing.assert_array_equal(found["task"], tasks)
    np.testing.assert_allclose(found["y"], y)
    np.testing.assert_array_equal(found["count"], count)
    for i in range(0, len(y), 3):
        rest = np.flatnonzero(np.arange(len(y)) != i)
        mean, cov, _ = literal_posterior(
            model, X[rest], tasks[rest], y[rest], X[i : i + 1], tasks[i : i + 1], count[rest]
        )
        assert found["mean"][i] == pytest.approx(mean[0], abs=1e-8)
        assert found["std"][i] == pytest.approx(np.sqrt(cov[0, 0] + model.noise_[tasks[i]] / count[i]), abs=1e-8)


def test_leave_one_out_is_a_refit_at_the_same_hyper_parameters():
    X, tasks, y = table(repeats=0)
    settings = {**FIXED, "task_covariance": B3, "normalize_y": False}
    found = borrow.MultiTaskGPRegressor(**settings).fit(X, y, tasks=tasks).leave_one_out()
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        if tasks[i] == "c":  # its only row: there is no task without it
            continue
        refit = borrow.MultiTaskGPRegressor(**settings).fit(X[rest], y[rest], tasks=tasks[rest])
        mean, std = refit.predict(X[i : i + 1], tasks[i : i + 1], return_std=True, include_noise=True)
        at = found["y"].index(y[i])
        assert found["mean"][at] == pytest.approx(mean[0], abs=1e-9)
        assert found["std"][at] == pytest.approx(std[0], abs=1e-9)


# --- properties -----------------------------------------------------------------------------------------------------


def pair(relation, seed, n=25):
    """Two tasks at inputs of their own: the same function, its negative, or another."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.uniform(0, 5, (2 * n, 1)), np.repeat(["one", "two"], n)
    f = rng.multivariate_normal(np.zeros(2 * n), SMOOTH(X) + 1e-9 * np.eye(2 * n), 2)
    second = {"repeated": f[0], "negated": -f[0], "unrelated": f[1]}[relation]
    return X, np.where(tasks == "one", f[0], second) + 0.1 * rng.normal(size=2 * n), tasks


def correlation_of(model):
    return float(model.task_correlations_[0, 1])


@pytest.mark.parametrize(("relation", "expected"), [("repeated", 1.0), ("negated", -1.0)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_correlation_of_repeated_and_negated_functions(relation, expected, seed):
    plain = borrow.MultiTaskGPRegressor(task_prior=None, normalize_y=False).fit(*pair(relation, seed))
    assert correlation_of(plain) == pytest.approx(expected, abs=0.06)
    shrunk = borrow.MultiTaskGPRegressor(specific_kernel=None).fit(*pair(relation, seed))  # towards I
    assert 0.7 < correlation_of(shrunk) * expected < 0.95


def test_correlation_of_unrelated_functions_is_near_zero_in_the_mean():
    found = [correlation_of(borrow.MultiTaskGPRegressor().fit(*pair("unrelated", s))) for s in range(8)]
    assert abs(np.mean(found)) < 0.25
    assert np.abs(found).max() < 0.9


def test_rank_one_finds_loadings_of_rank_one_data():
    rng = np.random.default_rng(8)
    loadings = np.array([2.0, -1.0, 0.5, 1.5])
    X, task = rng.uniform(0, 5, (80, 1)), np.repeat(np.arange(4), 20)
    y = loadings[task] * np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    model = borrow.MultiTaskGPRegressor(rank=1, normalize_y=False).fit(X, y, task)
    assert np.linalg.matrix_rank(model.task_covariance_) == 1
    ratio = model.task_covariance_[0] / model.task_covariance_[0, 0]
    np.testing.assert_allclose(ratio, loadings / 2.0, atol=0.05)
    apart = borrow.MultiTaskGPRegressor(task_covariance="diagonal", normalize_y=False).fit(X, y, task)
    assert model.log_marginal_likelihood_ > apart.log_marginal_likelihood_ + 20


def test_diagonal_form_is_independent_gps_with_the_same_kernel():
    X, tasks, y = table()
    model = borrow.MultiTaskGPRegressor(task_covariance="diagonal", normalize_y=False).fit(X, y, tasks=tasks)
    total = 0.0
    for t, label in enumerate("abc"):
        single = borrow.SingleTaskGPRegressor(
            kernel=replace(model.kernel_, variance=model.task_covariance_[t, t]),
            noise=model.noise_[label],
            optimizer=None,
            normalize_y=False,
        )
        with pytest.warns(UserWarning, match="fitted to a single row") if label == "c" else nullcontext():
            single.fit(X[tasks == label], y[tasks == label])
        total += single.log_marginal_likelihood_
        np.testing.assert_allclose(model.predict(GRID, label), single.predict(GRID), atol=1e-9)
        mine, its = model.posterior_covariance(GRID, np.full(len(GRID), label)), single.posterior_covariance(GRID)
        np.testing.assert_allclose(mine, its, atol=1e-9)
    assert model.log_marginal_likelihood_ == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"task_covariance": "diagonal"}], ids=str)
@pytest.mark.parametrize("normalize_y", [True, False])
def test_one_task_is_a_single_task_gp(settings, normalize_y):
    X, _, y = table()
    fixed = {"optimizer": None, "noise": 0.2, "normalize_y": normalize_y}
    model = borrow.MultiTaskGPRegressor(kernel=SMOOTH, **fixed, **settings).fit(X, y)
    np.testing.assert_array_equal(model.task_covariance_, [[1.0]])
    single = borrow.SingleTaskGPRegressor(kernel=SMOOTH, **fixed).fit(X, y)
    assert model.log_marginal_likelihood_ == pytest.approx(single.log_marginal_likelihood_, abs=1e-9)
    for one, other in zip(model.predict(GRID, return_cov=True), single.predict(GRID, return_cov=True), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_one_task_given_its_variance_is_a_single_task_gp():
    X, _, y = table()
    fixed = {"optimizer": None, "noise": 0.2}
    model = borrow.MultiTaskGPRegressor(kernel=SMOOTH, task_covariance=[[2.5]], **fixed).fit(X, y)
    single = borrow.SingleTaskGPRegressor(kernel=SquaredExponential(2.5, 0.8), **fixed).fit(X, y)
    assert model.log_marginal_likelihood_ == pytest.approx(single.log_marginal_likelihood_, abs=1e-9)
    np.testing.assert_allclose(model.predict(GRID), single.predict(GRID), atol=1e-9)


# --- where a search starts, and the priors --------------------------------------------------------------------------


def test_search_starts_at_the_matrix_given():
    X, tasks, y = table()
    model = borrow.MultiTaskGPRegressor(**{**FIXED, "task_covariance": B3}).fit(X, y, tasks=tasks)
    free = FreeForm(3, None)
    setup, values = replace(model.fitted_.model.setup, form=free), {**model.fitted_.model.values, **free.of_matrix(B3)}
    for start in starts_of(setup, values):
        np.testing.assert_allclose(free.parts(start).B, B3, atol=1e-12)
    del values["factor"]
    for start in starts_of(setup, values):
        C = free.parts(start).B
        np.testing.assert_allclose(np.diag(C), 1.0, atol=1e-12)
        assert C[0, 1] > 0.3  # the same sine in both


def test_start_gives_no_two_columns_of_a_factor_alike():
    X, Y = many_tasks()
    model = borrow.MultiTaskGPRegressor(rank=3, kernel=ROUGH, optimizer=None).fit(X, Y)
    values = {n: v for n, v in model.fitted_.model.values.items() if n != "loadings"}
    for start in starts_of(model.fitted_.model.setup, values):
        R = start["loadings"]
        assert np.all(np.abs(R.T @ R - np.diag(np.diag(R.T @ R))) < 1e-10)
        assert np.linalg.svd(R, compute_uv=False).min() > 0.05


FORMS_WITH_PRIORS = [
    FreeForm(3, 3.0),
    LowRank(3, 2, "none", 3.0),
    LowRank(3, 1, "free", 3.0),
    LowRank(3, 2, "isotropic", 2.0),
    LowRank(3, 0, "free", 3.0),
    Uniform(3, 1.0),
    Features(FEATURES[:3], TASK_KERNEL, np.ones(2), 1.0),
]


@pytest.mark.parametrize("form", FORMS_WITH_PRIORS, ids=repr)
def test_priors_of_the_forms_have_the_right_slope(form):
    rng = np.random.default_rng(0)
    values = {n: v + 0.3 * rng.normal(size=v.shape) for n, v in form.start(np.eye(3)).items()}
    value, gradient = form.log_prior(values)
    expected = central_difference(lambda x: form.log_prior(unpack(x, values))[0], pack(values))
    np.testing.assert_allclose(pack(gradient), expected, atol=1e-6)
    assert value < 0 or isinstance(form, FreeForm)
    assert replace(form, strength=None).log_prior(values)[0] == 0.0


def test_penalty_of_the_task_covariance_is_the_inverse_wishart():
    L = np.array([[1.0, 0, 0], [0.5, 2.0, 0], [0.1, 0.2, 0.7]])
    inverse = np.linalg.inv(L @ L.T)
    value, _ = FreeForm(3, 2.5).log_prior({"factor": L[np.tril_indices(3)]})
    assert value == pytest.approx(-1.25 * (np.trace(inverse) - np.linalg.slogdet(inverse)[1]))


@pytest.mark.parametrize("strength", [0.1, 1.0, 1000.0])
def test_stronger_penalty_pulls_the_task_covariance_to_the_identity(strength):
    X, y, tasks = pair("repeated", 0)
    model = borrow.MultiTaskGPRegressor(task_prior=strength, specific_kernel=None).fit(X, y, tasks)
    distance = np.abs(model.task_covariance_ - np.eye(2)).max()
    assert (distance < 0.1) == (strength == 1000.0)


@pytest.mark.parametrize("settings", [{"intercept": True, "share_noise": True}, {"specific_kernel": SMOOTH}], ids=str)
def test_whole_objective_has_the_right_slope(settings):
    X, tasks, y = table()
    model = borrow.MultiTaskGPRegressor(kernel=ROUGH, task_covariance=B3, noise=0.5, optimizer=None, **settings)
    model.fit(X, y, tasks=tasks)
    form = FreeForm(3, 3.0)
    setup, values = replace(model.fitted_.model.setup, form=form), {**model.fitted_.model.values, **form.of_matrix(B3)}
    objective = objective_of(setup, np.array([1.3]), "auto")
    expected = central_difference(lambda x: objective(unpack(x, values))[0], pack(values))
    np.testing.assert_allclose(pack(objective(values)[1]), expected, atol=1e-6 * np.abs(expected).max())
    evidence = multitask_objective(setup)(values)[0]
    plain = objective_of(replace(setup, form=FreeForm(3, None)), np.array([1.3]), None)
    assert plain(values)[0] == evidence
    # The priors that every GP estimator shares, and that of K^f, written out up to constants.
    weak = -0.5 * (np.log(0.5) - np.log(1.3)) ** 2 - 0.5 * np.sum((values["noise"] - np.log(0.1)) ** 2) / 4.0
    D = np.sum((values["noise"] - values["noise"].mean()) ** 2)
    weak += -0.5 * (4 + 3 - 1) * np.log(4 * 0.5**2 + D)  # noises of three tasks around each other
    if "specific" in values:
        weak += -1.5 * (np.log(0.8) - np.log(1.3)) ** 2  # of three tasks; their log variance is 0, the mode
    if "intercept" in values:
        weak += -0.5 * values["intercept"][0] ** 2 / 4.0
    inverse = np.linalg.inv(B3)
    weak += -1.5 * (np.trace(inverse) + np.linalg.slogdet(B3)[1])
    assert objective(values)[0] == pytest.approx(evidence + weak, abs=1e-9)
