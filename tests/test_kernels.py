"""Every kernel against its contract and against its formula, written out for one pair of inputs."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from borrow import kernels
from borrow.kernels import (
    Constant,
    Linear,
    Matern,
    NeuralNetwork,
    Periodic,
    Product,
    RationalQuadratic,
    SmoothLinear,
    SquaredExponential,
    Sum,
)
from borrow.testing import assert_same_gradient, check_kernel, numerical_gradient

COLUMNS = (1, 2, 12)  # 12: distances by one matrix product


def ramp(d, low, high):
    """d different numbers, one for each column."""
    return tuple(np.linspace(low, high, d + 1)[1:].tolist())


STATIONARY = {
    "se": lambda d: SquaredExponential(1.3, 0.9 * d**0.5),
    "unit_se": lambda d: SquaredExponential(),
    "se_ard": lambda d: SquaredExponential(0.8, ramp(d, 0.7, 4.0)),
    "se_tied": lambda d: SquaredExponential(0.8, ramp(d, 0.7, 4.0), tied=True),
    "matern12": lambda d: Matern(1.1, ramp(d, 0.8, 5.0), nu=0.5),
    "matern32": lambda d: Matern(0.9, 1.1 * d**0.5, nu=1.5),
    "matern52": lambda d: Matern(1.2, ramp(d, 0.9, 5.0), nu=2.5, tied=True),
    "rational": lambda d: RationalQuadratic(1.1, ramp(d, 0.8, 4.0), alpha=0.7),
    "periodic": lambda d: Periodic(1.4, 0.9 * d**0.5, 3.1),
    "periodic_ard": lambda d: Periodic(0.7, ramp(d, 0.8, 5.0), ramp(d, 2.0, 6.0)),
    "periodic_tied": lambda d: Periodic(0.7, ramp(d, 0.8, 5.0), 4.2, tied=True),
    "constant": lambda d: Constant(0.6),
}
DOT = {
    "linear": lambda d: Linear(0.7),
    "linear_ard": lambda d: Linear(ramp(d, 0.3, 1.4)),
    "network": lambda d: NeuralNetwork(1.4, 0.8, 0.6),
    "smooth_linear": lambda d: SmoothLinear(0.9, 1.2 * d**0.5, 0.6, 0.3),
    "smooth_linear_ard": lambda d: SmoothLinear(1.3, ramp(d, 0.8, 4.0), 0.4, 0.7),
    "network_ard": lambda d: NeuralNetwork(0.9, ramp(d, 0.2, 1.7), 1.3),
}
COMPOSED = {
    "sum": lambda d: Linear(ramp(d, 0.3, 1.4)) + 0.5 + Matern(0.9, 1.3 * d**0.5, nu=1.5),
    "product": lambda d: 2.0 * Linear(0.6) * SquaredExponential(1.2, ramp(d, 0.8, 4.0), tied=True),
    "nested": lambda d: (
        (Linear(0.6) + Periodic(1.1, 2.0, 3.1)) * (Matern(0.7, 2.0, nu=2.5) * 1.4 + NeuralNetwork())
        + RationalQuadratic(0.3, 2.0, fixed=("alpha",))
    ),
}
LEAVES = STATIONARY | DOT


def inputs(d, n=6, m=4):
    """Rows of two sets of inputs with a few zeros and negative numbers among them."""
    random = np.random.default_rng(d)
    return np.round(random.normal(size=(n, d)) * 8) / 8, np.round(random.normal(size=(m, d)) * 8) / 8 + 1 / 16


@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("make", (LEAVES | COMPOSED).values(), ids=LEAVES | COMPOSED)
def test_kernel_contract(make, d):
    check_kernel(make(d), *inputs(d))


def formula(k, x, z):
    """k(x, z) of two inputs, as the textbooks print it."""

    def at(value, j):
        return value[j] if isinstance(value, tuple) else value

    columns = range(len(x))
    if isinstance(k, Constant):
        return k.variance
    if isinstance(k, Linear):
        return sum(at(k.variance, j) * x[j] * z[j] for j in columns)
    if isinstance(k, NeuralNetwork):

        def s(u, v):
            return k.bias_variance + sum(at(k.weight_variance, j) * u[j] * v[j] for j in columns)

        ratio = 2 * s(x, z) / math.sqrt((1 + 2 * s(x, x)) * (1 + 2 * s(z, z)))
        return k.variance * 2 / math.pi * math.asin(ratio)
    if isinstance(k, Periodic):
        waves = [math.sin(math.pi * (x[j] - z[j]) / at(k.period, j)) / at(k.lengthscale, j) for j in columns]
        return k.variance * math.exp(-2 * sum(w**2 for w in waves))
    r = math.sqrt(sum(((x[j] - z[j]) / at(k.lengthscale, j)) ** 2 for j in columns))
    if isinstance(k, SquaredExponential):
        return k.variance * math.exp(-(r**2) / 2)
    if isinstance(k, SmoothLinear):
        inner = sum(x[j] * z[j] / at(k.lengthscale, j) ** 2 for j in columns)
        return k.variance * math.exp(-(r**2) / 2) + k.linear_variance * inner + k.bias_variance
    if isinstance(k, RationalQuadratic):
        return k.variance * (1 + r**2 / (2 * k.alpha)) ** -k.alpha
    polynomial = {0.5: 1, 1.5: 1 + math.sqrt(3) * r, 2.5: 1 + math.sqrt(5) * r + 5 * r**2 / 3}[k.nu]
    return k.variance * polynomial * math.exp(-math.sqrt(2 * k.nu) * r)


@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("make", LEAVES.values(), ids=LEAVES)
def test_matrix_equals_formula(make, d):
    k, (X, Z) = make(d), inputs(d)
    assert_allclose(k(X, Z), [[formula(k, x, z) for z in Z] for x in X], rtol=1e-11)


@pytest.mark.parametrize("d", COLUMNS)
def test_sums_and_products_combine_entry_by_entry(d):
    X, Z = inputs(d)
    a, b, c = Matern(0.7, 2.0, nu=0.5), Linear(0.6), Periodic(1.1, 2.0, 3.1)
    assert_allclose((a + b * c + 2.5)(X, Z), a(X, Z) + b(X, Z) * c(X, Z) + 2.5, rtol=1e-14)
    assert_allclose(((a + b) * 2.5 * c)(X, Z), (a(X, Z) + b(X, Z)) * 2.5 * c(X, Z), rtol=1e-14)


def test_composites_are_flat_and_name_their_parts():
    k = Linear(0.6) + (SquaredExponential(1.0, (2.0, 3.0)) + Constant(2.0)) * 3.0 * Matern(fixed=("variance",)) + 0.5
    assert isinstance(k, Sum)
    assert [type(p) for p in k.parts] == [Linear, Product, Constant]
    assert [type(p) for p in k.parts[1].parts] == [Sum, Constant, Matern]
    inner = ["1.0.0.variance", "1.0.0.lengthscale[0]", "1.0.0.lengthscale[1]", "1.0.1.variance"]
    assert k.parameter_names() == ["0.variance", *inner, "1.1.variance", "1.2.lengthscale", "2.variance"]
    assert_allclose(np.exp(k.theta), [0.6, 1.0, 2.0, 3.0, 2.0, 3.0, 1.0, 0.5], rtol=1e-14)


def test_product_gradient_where_a_factor_is_zero():
    k, X = Linear(0.6) * SquaredExponential(1.2, 0.8), np.array([[0.0], [1.0], [0.0]])
    bK = np.ones((3, 3))
    expected = numerical_gradient(lambda x: k(x).sum(), X)
    assert_same_gradient(k.evaluate(X)[1](bK, inputs=True).X, expected)


@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("make", LEAVES.values(), ids=LEAVES)
def test_repeated_rows_have_equal_rows_and_exact_gradients(make, d):
    k, (X, Z) = make(d), inputs(d)
    X, Z = X[[0, 1, 1, 2, 0]], np.vstack([X[:2], Z])
    K = k(X)
    assert_array_equal(K[1], K[2])
    assert_allclose(k(X, Z)[[0, 1], [0, 1]], k.diag(X)[:2], rtol=1e-12)
    bXX, bXZ = np.random.default_rng(1).normal(size=K.shape), np.random.default_rng(2).normal(size=(5, 6))
    by_xx = numerical_gradient(lambda t: np.vdot(bXX, k.with_theta(t)(X)), k.theta)
    by_xz = numerical_gradient(lambda t: np.vdot(bXZ, k.with_theta(t)(X, Z)), k.theta)
    assert_same_gradient(k.evaluate(X)[1](bXX).theta, by_xx)
    assert_same_gradient(k.evaluate(X, Z)[1](bXZ).theta, by_xz)


@pytest.mark.parametrize("offset", [1e6, 2.0**30])
@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("make", STATIONARY.values(), ids=STATIONARY)
def test_far_offset_changes_nothing(make, d, offset):
    k, (X, Z) = make(d), inputs(d)
    bK = np.random.default_rng(3).normal(size=(len(X), len(Z)))
    near, pull_near = k.evaluate(X, Z)
    far, pull_far = k.evaluate(X + offset, Z + offset)
    assert_allclose(far, near, rtol=0.0, atol=1e-9)
    assert_allclose(k(X + offset), k(X), rtol=0.0, atol=1e-9)
    for g, h in zip(pull_far(bK, inputs=True), pull_near(bK, inputs=True), strict=True):
        assert_allclose(g, h, rtol=0.0, atol=1e-8)


def test_network_gradient_stays_finite_for_large_inputs():
    k, X = (
        NeuralNetwork(1.4, 0.8, 0.6),
        np.array([[1.7e9], [1.7e9 + 86400.0], [-1.7e9]]),
    )  # seconds since 1970
    g = k.evaluate(X)[1](np.ones((3, 3)), inputs=True)
    assert np.all(np.isfinite(g.theta))
    assert np.all(np.isfinite(g.X))
    X = np.array([[1e5]])  # 1 - q rounds here; the slope of the diagonal does not
    assert_allclose(k.evaluate(X)[1](np.ones((1, 1))).theta[2], k.evaluate_diag(X)[1](np.ones(1)).theta[2], rtol=1e-3)


@pytest.mark.parametrize("make", LEAVES.values(), ids=LEAVES)
def test_no_rows_give_empty_matrices_and_zero_gradients(make):
    k, X, none = make(2), inputs(2)[0], np.zeros((0, 2))
    for rows, columns in ((none, X), (X, none), (none, None)):
        K, pullback = k.evaluate(rows, columns)
        assert K.shape == (len(rows), len(rows if columns is None else columns))
        g = pullback(K, inputs=True)
        assert_array_equal(g.theta, np.zeros(k.theta.size))
        assert_array_equal(g.X, np.zeros(rows.shape))
    assert k.diag(none).shape == (0,)


@pytest.mark.parametrize("bad", [-1.0, 0.0, math.nan, math.inf, (), (1.0, -2.0), [[1.0]]])
@pytest.mark.parametrize("kind", [SquaredExponential, Matern, RationalQuadratic, Periodic])
def test_bad_lengthscale_is_refused(kind, bad):
    with pytest.raises(ValueError, match=f"{kind.__name__}: lengthscale must be a positive number or a seq.*got"):
        kind(1.0, bad)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, "variance") for k in (SquaredExponential, Periodic, Constant, NeuralNetwork)]
    + [(RationalQuadratic, "alpha"), (NeuralNetwork, "bias_variance")],
)
@pytest.mark.parametrize("bad", [-1.0, math.nan, (1.0, 2.0)])
def test_bad_scalar_is_refused(kind, name, bad):
    with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be a positive number, got"):
        kind(**{name: bad})


@pytest.mark.parametrize(
    ("kernel", "name"),
    [(k(1.0, (1.0, 2.0, 3.0)), "lengthscale") for k in (SquaredExponential, Matern, Periodic)]
    + [(Periodic(1.0, 1.0, (1.0, 2.0, 3.0)), "period"), (Linear((1.0, 2.0, 3.0)), "variance")]
    + [(NeuralNetwork(1.0, (1.0, 2.0, 3.0)), "weight_variance")],
)
def test_wrong_length_is_refused(kernel, name):
    with pytest.raises(ValueError, match=f"{name} has 3 entries and the inputs have 2 columns; give one number or"):
        kernel(inputs(2)[0])
    with pytest.raises(ValueError, match=f"theta has 1 entries for .*{name}"):
        (Constant() + kernel).with_theta(np.zeros(2))


def test_other_misuse_is_refused_by_name():
    with pytest.raises(ValueError, match=r"Matern: nu must be 0.5, 1.5 or 2.5, got 2"):
        Matern(1.0, 1.0, nu=2)
    with pytest.raises(ValueError, match=r"fixed=\('scale',\) names \['scale'\]; parameters are variance, lengthscale"):
        SquaredExponential(fixed="scale")
    with pytest.raises(TypeError, match="expected a kernel or a positive number, got -1"):
        SquaredExponential() * -1
    with pytest.raises(TypeError, match="own='rbf' is not a kernel; expected one of"):
        kernels.resolve("rbf", "own")


def test_printed_kernel_can_be_read_back():
    k = (Linear((0.25, 2.0)) + Matern(2.0, 0.5, nu=1.5, fixed="variance")) * Periodic(tied=True) + Constant(3.0)
    assert eval(repr(k)) == k


@pytest.mark.parametrize("fixed", [("variance",), ()])
@pytest.mark.parametrize("kind", [kernels.SquaredExponential, kernels.Matern])
def test_tangents_are_the_transpose_of_the_pullback(kind, fixed):
    rng = np.random.default_rng(5)
    X, W, u, v = rng.normal(size=(6, 2)), rng.normal(size=(6, 6)), rng.normal(size=6), rng.normal(size=6)
    kernel = kind(1.7, (0.6, 1.3), fixed=fixed)
    back = kernel.evaluate(X)[1](np.multiply.outer(u, v) * W).theta
    np.testing.assert_allclose(u @ kernel.tangents(X, W, v), back, rtol=1e-4, atol=1e-6)
