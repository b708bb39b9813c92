"""What every implementation of a contract is held to, ours and those of others.

Each function takes an implementation and something small to try it on, and raises AssertionError where a promise is
broken. A test of a new kernel is one line: `check_kernel(MyKernel(), X, Z)`.

| contract   | battery            | what it compares with                                                          |
|------------|--------------------|--------------------------------------------------------------------------------|
| kernel     | `check_kernel`     | symmetry, positivity, its diagonal, differences of values for every derivative |
| covariance | `check_covariance` | the dense formula: evidence, marginals, predictions, derivatives by the noise  |
| likelihood | `check_likelihood` | differences of log Z, and the density itself where it is given                 |
| inference  | `check_inference`  | itself from where it ended, and differences of its evidence                    |
| tasks      | `check_tasks`      | the sum written out, in the order of the tasks                                 |
| estimator  | `check_estimator`  | its own answers, where forms, orders and copies of the data must not matter    |
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal, assert_raises
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError

from borrow import store
from borrow.covariance.contracts import Covariance, Sites
from borrow.data.cells import Cells, Codes
from borrow.estimators import registry
from borrow.inference.contracts import Inference
from borrow.kernels.base import Gradient, Kernel, Leaf, Pullback
from borrow.numerics.linalg import Array
from borrow.numerics.optimise import Values
from borrow.tasks.contracts import Shard, Tasks
from borrow.tasks.placed import PlacedTasks

STEP = 1e-5


def numerical_gradient(f: Callable[[Array], Any], x: Array) -> Array:
    """Central differences of a scalar function, entry by entry."""
    out = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        h = np.zeros(x.shape)
        h[i] = STEP
        out[i] = (f(x + h) - f(x - h)) / (2.0 * STEP)
    return out


def assert_same_gradient(computed: Array | None, expected: Array) -> None:
    """Equal to 1e-6 of each entry, or of the largest where an entry is that much smaller."""
    assert computed is not None
    assert computed.shape == expected.shape
    largest = np.abs(expected).max(initial=0.0)
    assert_allclose(computed, expected, rtol=1e-6, atol=1e-6 * min(largest, 1.0) + 1e-9)


def check_kernel(kernel: Kernel, X: Array, Z: Array) -> None:
    """The contract of a kernel on rows X and Z of at least two points each, no row in both."""
    _check_matrix(kernel, X, Z)
    _check_theta(kernel, X, Z)
    _check_gradients(kernel, X, Z)
    for leaf in kernel.leaves():
        _check_fixed(leaf, X, Z)
        if getattr(leaf, "tied", False):
            _check_tied(leaf)


def _check_matrix(kernel: Kernel, X: Array, Z: Array) -> None:
    K = kernel(X)
    assert K.shape == (len(X), len(X))
    assert_allclose(K, K.T, rtol=1e-13, atol=0.0)
    values = np.linalg.eigvalsh(K)
    assert values[0] > -1e-12 * values[-1]
    assert_allclose(kernel.diag(X), np.diagonal(K), rtol=1e-12)
    assert_allclose(kernel(X, Z), kernel(np.vstack([X, Z]))[: len(X), len(X) :], rtol=1e-11)
    assert_allclose(kernel(Z, X), kernel(X, Z).T, rtol=1e-11)
    assert_allclose(kernel(X, X), K, rtol=1e-11)


def _check_theta(kernel: Kernel, X: Array, Z: Array) -> None:
    theta, names = kernel.theta, kernel.parameter_names()
    assert theta.ndim == 1
    assert len(names) == len(set(names)) == theta.size == kernel.n_theta
    same = kernel.with_theta(theta)
    assert type(same) is type(kernel)
    assert same.parameter_names() == names
    assert_allclose(same(X, Z), kernel(X, Z), rtol=1e-12)
    other = theta + np.linspace(0.1, 0.4, theta.size)
    assert_allclose(kernel.with_theta(other).theta, other, rtol=0.0, atol=1e-14)
    assert_array_equal(kernel.theta, theta)
    _check_marks(kernel, "variance")
    _check_marks(kernel, "lengthscale")


def _check_marks(kernel: Kernel, marked: str) -> None:
    """A step along the marks multiplies the free parameters of that name, and nothing else."""
    moved = kernel.with_theta(kernel.theta + np.log(2.0) * kernel.mask_of(marked))
    for leaf, other in zip(kernel.leaves(), moved.leaves(), strict=True):
        for name in leaf.learnable:
            factor = 2.0 if name == marked and name not in leaf.fixed else 1.0
            assert_allclose(getattr(other, name), np.multiply(factor, getattr(leaf, name)), rtol=1e-13)


def _check_gradients(kernel: Kernel, X: Array, Z: Array) -> None:
    random, theta = np.random.default_rng(5), kernel.theta
    bXX = random.normal(size=(len(X), len(X)))
    bXZ, bd = random.normal(size=(len(X), len(Z))), random.normal(size=len(X))
    bXX = bXX + bXX.T

    def check(evaluated: tuple[Array, Pullback], b: Array, value: Callable[[Kernel, Array, Array], Any]) -> None:
        g = _pull(evaluated, b)
        assert_same_gradient(g.theta, numerical_gradient(lambda t: value(kernel.with_theta(t), X, Z), theta))
        assert_same_gradient(g.X, numerical_gradient(lambda x: value(kernel, x, Z), X))
        assert (g.Z is not None) == (b is bXZ)
        if g.Z is not None:
            assert_same_gradient(g.Z, numerical_gradient(lambda z: value(kernel, X, z), Z))

    check(kernel.evaluate(X), bXX, lambda k, x, z: np.vdot(bXX, k(x)))
    check(kernel.evaluate(X, Z), bXZ, lambda k, x, z: np.vdot(bXZ, k(x, z)))
    check(kernel.evaluate_diag(X), bd, lambda k, x, z: bd @ k.diag(x))


def _pull(evaluated: tuple[Array, Pullback], b: Array) -> Gradient:
    """The gradient; asking for inputs or asking twice changes nothing else, and b stays as it was."""
    _, pullback = evaluated
    before = b.copy()
    plain = pullback(b)
    assert plain.X is None
    assert plain.Z is None
    full = pullback(b, inputs=True)
    assert_array_equal(full.theta, plain.theta)
    assert_array_equal(b, before)
    return full


def _check_fixed(leaf: Leaf, X: Array, Z: Array) -> None:
    """A fixed parameter is not in theta, does not move, and leaves the rest of the gradient as it was."""
    free = replace(leaf, fixed=())
    names = free.parameter_names()
    bK = np.random.default_rng(6).normal(size=(len(X), len(Z)))
    for name in leaf.learnable:
        held = replace(leaf, fixed=(name,))
        kept = [i for i, n in enumerate(names) if n.split("[")[0] != name]
        assert held.parameter_names() == [names[i] for i in kept]
        assert_array_equal(held.theta, free.theta[kept])
        assert getattr(held.with_theta(held.theta + 0.3), name) == getattr(leaf, name)
        pairs = [(k.evaluate(X, Z)[1](bK), k.evaluate_diag(X)[1](bK[:, 0])) for k in (held, free)]
        for of_held, of_free in zip(*pairs, strict=True):
            assert_array_equal(of_held.theta, of_free.theta[kept])


def _check_tied(leaf: Any) -> None:
    """Tied lengthscales are one entry of theta, their geometric mean, and keep their ratios."""
    at = leaf.parameter_names().index("lengthscale")
    assert_allclose(leaf.theta[at], np.log(leaf.lengthscale).mean(), rtol=1e-13)
    moved = leaf.with_theta(leaf.theta + 0.3)
    assert_allclose(np.divide(moved.lengthscale, leaf.lengthscale), np.exp(0.3), rtol=1e-13)


def check_covariance(
    covariance: Covariance,
    K: Array,
    X: Array,
    task: Codes,
    tau: Array | None = None,
    rtol: float = 1e-8,
) -> None:
    """The contract of a covariance over all tasks, against its matrix written out.

    Parameters
    ----------
    covariance : what is tried.
    K : the prior covariance of the functions at the rows, and at the new rows after them.
    X, task : the new rows.
    tau : precisions of the sites; random ones where a covariance takes any.
    rtol : how well the answers agree.
    """
    random, n = np.random.default_rng(3), len(K) - len(X)
    tau = np.exp(random.normal(size=n)) if tau is None else tau
    y = random.normal(size=n)
    posterior = covariance.condition(Sites(tau * y, tau))
    assert posterior.prior.jitter >= 0
    A = K[:n, :n] + np.diag(1.0 / tau)
    inverse, solved = np.linalg.inv(A), np.linalg.solve(A, y)
    log_density = -0.5 * (y @ solved + np.linalg.slogdet(A)[1] + n * np.log(2.0 * np.pi))
    mean, left = K[:, :n] @ solved, K - K[:, :n] @ inverse @ K[:n]
    close: dict[str, Any] = {"rtol": rtol, "atol": rtol * float(np.abs(K).max())}
    # As unit-noise observations: y sqrt(tau) has the density of y over the product of sqrt(tau).
    assert_allclose(posterior.evidence, log_density - 0.5 * np.log(tau).sum(), rtol=rtol, atol=rtol)
    for found, expected in zip(posterior.marginals(), (mean[:n], np.diagonal(left)[:n]), strict=True):
        assert_allclose(found, expected, **close)
    alone, joint = posterior.predict(X, task), posterior.predict(X, task, True)
    for new in (alone, joint):
        assert_allclose(new.mean, mean[n:], **close)
        assert_allclose(new.variance, np.diagonal(left)[n:], **close)
    assert alone.covariance is None
    assert joint.covariance is not None
    assert_allclose(joint.covariance, left[n:, n:], **close)
    by_noise = 0.5 * (solved**2 - np.diagonal(inverse))
    assert_allclose(posterior.adjoints().noise, by_noise, rtol=100 * rtol, atol=rtol * np.abs(by_noise).max())


def check_likelihood(likelihood: Any, density: Callable[[float, Array], Array] | None = None) -> None:
    """The contract of a likelihood of labels -1 and +1: `moments(y, mean, variance)` are log Z, d1 and d2.

    Z is the expectation of p(y | f) over N(f; mean, variance), d1 and d2 the first two derivatives of log Z by the
    mean. `density(y, f)` is p(y | f), where Z is to be compared with an integral, too.
    """
    grid = np.meshgrid([-1.0, 1.0], [-6.0, -0.7, 0.0, 0.4, 5.0], [0.05, 0.9, 1.0, 4.0, 60.0])
    y, mean, variance = (v.ravel() for v in grid)
    log_z, d1, d2 = likelihood.moments(y, mean, variance)
    up, down = (likelihood.moments(y, mean + h, variance) for h in (STEP, -STEP))
    assert_allclose(d1, (up[0] - down[0]) / (2.0 * STEP), rtol=1e-6, atol=1e-8)
    assert_allclose(d2, (up[1] - down[1]) / (2.0 * STEP), rtol=1e-6, atol=1e-8)
    assert_allclose(np.exp(log_z) + np.exp(likelihood.moments(-y, mean, variance)[0]), 1.0, rtol=1e-9)
    assert np.all(d2 <= 0.0)
    assert np.all(d2 * variance > -1.0 - 1e-9)  # so that no site has a negative precision
    if density is not None:
        f = np.linspace(-9.0, 9.0, 4001)
        weights = np.exp(-0.5 * f**2) / np.exp(-0.5 * f**2).sum()
        expected = [weights @ density(a, m + np.sqrt(v) * f) for a, m, v in zip(y, mean, variance, strict=True)]
        assert_allclose(np.exp(log_z), expected, rtol=1e-6)


def check_inference(
    infer: Inference,
    prior: Callable[[Array], Covariance],
    theta: Array,
    tasks: PlacedTasks,
    values: Values,
) -> None:
    """The contract of an inference: one answer wherever it starts, with the derivatives of its evidence.

    Parameters
    ----------
    infer : what is tried; one that goes in steps needs a tolerance of 1e-9 or so, for differences to tell anything.
    prior : the covariance at some logarithms of the parameters of its kernels.
    theta : the logarithms at which it is tried.
    tasks : the rows, with targets that the likelihood knows.
    values : the likelihood's own parameters by name; empty where it has none.
    """
    found = infer(prior(theta), tasks, values)
    again = infer(prior(theta), tasks, values, found.start)
    assert np.isfinite(infer.log_variance)
    assert_allclose(again.evidence, found.evidence, rtol=1e-8)
    for one, other in zip(again.posterior.marginals(), found.posterior.marginals(), strict=True):
        assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    adjoints, own = found.gradient()
    by_theta = numerical_gradient(lambda t: infer(prior(t), tasks, values).evidence, theta)
    assert_same_gradient(np.concatenate(adjoints.bases), by_theta)
    assert own.keys() == values.keys()
    for name, slope in own.items():
        moved = partial(lambda name, v: infer(prior(theta), tasks, {**values, name: v}).evidence, name)
        assert_same_gradient(slope, numerical_gradient(moved, values[name]))


def count_and_sum(shard: Shard, common: float) -> tuple[int, float, list[int]]:
    """What `check_tasks` asks every shard for: rows, a sum, and the rows of each task."""
    return len(shard.cells.y), common * float(shard.cells.y.sum()), np.diff(shard.cells.starts).tolist()


def check_tasks(tasks: Tasks[Shard], cells: Cells) -> None:
    """The contract of a sum over tasks, on tasks that hold these cells."""
    n, total, sizes = tasks.total(count_and_sum, 2.0)
    assert n == len(cells.y)
    assert_allclose(total, 2.0 * cells.y.sum(), rtol=1e-12, atol=1e-12)
    assert_array_equal(sizes, np.diff(cells.starts))
    parts = tasks.each(count_and_sum, 2.0)
    assert [size for _, _, own in parts for size in own] == sizes
    assert_allclose(sum(part[1] for part in parts), total, rtol=1e-12, atol=1e-12)
    assert tasks.total(count_and_sum, 2.0) == (n, total, sizes)  # to the last bit, whoever was first


def check_estimator(estimator: Any, X: Array, y: Any, tasks: Sequence[Any]) -> None:
    """The contract of an estimator with `task=None`, on a small table: `fit(X, y, tasks=tasks)` must work.

    Held to: settings survive cloning and fitting; nothing is answered before a fit; answers do not depend on the order
    of the rows, on how the tasks are given, on which rows are asked together, on the fit before, or on a copy through
    pickle or, where it is registered, a file; moments agree with each other; a fit that is refused leaves the answers
    as they were.
    """
    settings, labels = estimator.get_params(), np.asarray(tasks)
    model = clone(estimator)
    assert repr(model.get_params()) == repr(settings)
    with assert_raises(NotFittedError, msg="predict answered before fit"):
        model.predict(X, tasks=tasks)
    assert model.fit(X, y, tasks=tasks) is model
    assert repr(model.get_params()) == repr(settings)
    assert_array_equal(model.tasks_, sorted(set(labels.tolist())))
    first = _answers(model, X, tasks)
    _same_answers(first, _answers(pickle.loads(pickle.dumps(model)), X, tasks), rtol=0.0)
    _same_answers(first, _answers(model.fit(X, y, tasks=tasks), X, tasks), rtol=0.0)
    if registry.entry_of(model) is not None:
        with TemporaryDirectory() as folder:
            _same_answers(first, _answers(store.load(store.save(model, f"{folder}/model")), X, tasks), rtol=0.0)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = clone(model).fit(X[order], np.asarray(y)[order], tasks=labels[order].tolist())
    _same_answers(first, _answers(shuffled, X, tasks))
    pairs = {t: (X[labels == t], np.asarray(y)[labels == t]) for t in sorted(set(labels.tolist()))}
    _same_answers(first, _answers(clone(model).fit(pairs), X, tasks))
    few = [0, len(X) - 1]
    _same_answers({n: v[few] for n, v in first.items()}, _answers(model, X[few], labels[few].tolist()))
    with assert_raises(ValueError, msg="fit took fewer targets than rows"):
        model.fit(X, np.asarray(y)[:-1], tasks=tasks)
    _same_answers(first, _answers(model, X, tasks), rtol=0.0)


def _answers(model: Any, X: Array, tasks: Sequence[Any]) -> dict[str, Any]:
    """What a model says of these rows, one entry per row; its moments are checked against each other."""
    if not is_regressor(model):
        shares = model.predict_proba(X, tasks=tasks)
        assert np.all(shares >= 0.0)
        assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
        assert_array_equal(model.predict(X, tasks=tasks), model.classes_[shares.argmax(axis=1)])
        return {"probabilities": shares}
    mean, std = model.predict(X, tasks=tasks, return_std=True)
    assert_array_equal(model.predict(X, tasks=tasks), mean)
    assert np.all(std >= 0.0)
    again, covariance = model.predict(X, tasks=tasks, return_cov=True)
    assert_allclose(again, mean, rtol=1e-8, atol=1e-8)
    assert_allclose(np.sqrt(np.diagonal(covariance)), std, rtol=1e-5, atol=1e-6)
    noisy = model.predict(X, tasks=tasks, return_std=True, include_noise=True)[1]
    assert_allclose(noisy**2, std**2 + np.array([model.noise_[t] for t in tasks]), rtol=1e-6)
    return {"mean": mean, "std": std}


def _same_answers(one: dict[str, Any], other: dict[str, Any], rtol: float = 1e-7) -> None:
    for name, value in one.items():
        assert_allclose(other[name], value, rtol=rtol, atol=rtol * float(np.abs(value).max()), err_msg=name)
