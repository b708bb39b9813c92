"""What every implementation of a protocol is held to. A new one only has to be listed."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

STEP = 1e-5


def check_kernel(kernel, X, Z):
    """Kernel contract on rows X and Z of at least two points each, no row in both."""
    _check_matrix(kernel, X, Z)
    _check_theta(kernel, X, Z)
    _check_gradients(kernel, X, Z)
    for leaf in kernel.leaves():
        _check_fixed(leaf, X, Z)
        if getattr(leaf, "tied", False):
            _check_tied(leaf)


def numerical_gradient(f, x):
    """Central differences of a scalar function, entry by entry."""
    out = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        h = np.zeros(x.shape)
        h[i] = STEP
        out[i] = (f(x + h) - f(x - h)) / (2.0 * STEP)
    return out


def assert_same_gradient(computed, expected):
    """Equal to 1e-6 of each entry, or of the largest where an entry is that much smaller."""
    assert computed.shape == expected.shape
    largest = np.abs(expected).max(initial=0.0)
    assert_allclose(computed, expected, rtol=1e-6, atol=1e-6 * min(largest, 1.0) + 1e-9)


def _check_matrix(kernel, X, Z):
    K = kernel(X)
    assert K.shape == (len(X), len(X))
    assert_allclose(K, K.T, rtol=1e-13, atol=0.0)
    values = np.linalg.eigvalsh(K)
    assert values[0] > -1e-12 * values[-1]
    assert_allclose(kernel.diag(X), np.diagonal(K), rtol=1e-12)
    stacked = kernel(np.vstack([X, Z]))
    assert_allclose(kernel(X, Z), stacked[: len(X), len(X) :], rtol=1e-11)
    assert_allclose(kernel(Z, X), kernel(X, Z).T, rtol=1e-11)
    assert_allclose(kernel(X, X), K, rtol=1e-11)


def _check_theta(kernel, X, Z):
    theta = kernel.theta
    names = kernel.parameter_names()
    assert theta.ndim == 1
    assert len(names) == len(set(names)) == theta.size
    same = kernel.with_theta(theta)
    assert type(same) is type(kernel)
    assert same.parameter_names() == names
    assert_allclose(same(X, Z), kernel(X, Z), rtol=1e-12)
    other = theta + np.linspace(0.1, 0.4, theta.size)
    assert_allclose(kernel.with_theta(other).theta, other, rtol=0.0, atol=1e-14)
    assert_array_equal(kernel.theta, theta)
    _check_marks(kernel, "variance")
    _check_marks(kernel, "lengthscale")


def _check_marks(kernel, marked):
    """A step along the marks multiplies the free parameters of that name, and nothing else."""
    moved = kernel.with_theta(kernel.theta + np.log(2.0) * kernel.marks(marked))
    for leaf, other in zip(kernel.leaves(), moved.leaves(), strict=True):
        for name in leaf.learnable:
            factor = 2.0 if name == marked and name not in leaf.fixed else 1.0
            assert_allclose(getattr(other, name), np.multiply(factor, getattr(leaf, name)), rtol=1e-13)


def _check_gradients(kernel, X, Z):
    random = np.random.default_rng(5)
    bXX, bXZ, bd = (
        random.normal(size=(len(X), len(X))),
        random.normal(size=(len(X), len(Z))),
        random.normal(size=len(X)),
    )
    bXX = bXX + bXX.T
    theta = kernel.theta

    g = _pull(kernel.evaluate(X), bXX)
    assert g.Z is None
    assert_same_gradient(g.theta, numerical_gradient(lambda t: np.vdot(bXX, kernel.with_theta(t)(X)), theta))
    assert_same_gradient(g.X, numerical_gradient(lambda x: np.vdot(bXX, kernel(x)), X))

    g = _pull(kernel.evaluate(X, Z), bXZ)
    assert_same_gradient(g.theta, numerical_gradient(lambda t: np.vdot(bXZ, kernel.with_theta(t)(X, Z)), theta))
    assert_same_gradient(g.X, numerical_gradient(lambda x: np.vdot(bXZ, kernel(x, Z)), X))
    assert_same_gradient(g.Z, numerical_gradient(lambda z: np.vdot(bXZ, kernel(X, z)), Z))

    g = _pull(kernel.evaluate_diag(X), bd)
    assert g.Z is None
    assert_same_gradient(g.theta, numerical_gradient(lambda t: bd @ kernel.with_theta(t).diag(X), theta))
    assert_same_gradient(g.X, numerical_gradient(lambda x: bd @ kernel.diag(x), X))


def _pull(evaluated, b):
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


def _check_fixed(leaf, X, Z):
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
        for evaluate, b in (("evaluate", bK), ("evaluate_diag", bK[:, 0])):
            inputs = (X, Z) if evaluate == "evaluate" else (X,)
            _, pull_held = getattr(held, evaluate)(*inputs)
            _, pull_free = getattr(free, evaluate)(*inputs)
            assert_array_equal(pull_held(b).theta, pull_free(b).theta[kept])


def _check_tied(leaf):
    """Tied lengthscales are one entry of theta, their geometric mean, and keep their ratios."""
    at = leaf.parameter_names().index("lengthscale")
    assert_allclose(leaf.theta[at], np.log(leaf.lengthscale).mean(), rtol=1e-13)
    moved = leaf.with_theta(leaf.theta + 0.3)
    assert_allclose(np.divide(moved.lengthscale, leaf.lengthscale), np.exp(0.3), rtol=1e-13)
