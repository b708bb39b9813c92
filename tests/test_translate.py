"""scikit-learn's kernels, translated, are the same functions; those that cannot be are refused by name."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sk

from borrow.kernels import resolve

TWO_COLUMNS = {
    "rbf": sk.RBF(0.7),
    "rbf_ard": sk.RBF([0.7, 1.9]),
    "matern12": sk.Matern(0.8, nu=0.5),
    "matern32_ard": sk.Matern([0.8, 2.1], nu=1.5),
    "matern52": sk.Matern(1.3, nu=2.5),
    "matern_inf": sk.Matern([1.3, 0.6], nu=np.inf),
    "rational": sk.RationalQuadratic(0.9, 0.6),
    "constant": sk.ConstantKernel(2.3),
    "dot": sk.DotProduct(1.4),
    "dot_through_origin": sk.DotProduct(0.0, "fixed"),
    "nested": 2.0 * sk.RBF(0.7) * sk.DotProduct(1.4) + sk.Matern(0.8, nu=1.5) * (sk.RBF([1.0, 2.0]) + 0.3),
}
ONE_COLUMN = {
    "sine": sk.ExpSineSquared(0.8, 1.7),
    "sine_in_product": 1.5 * sk.ExpSineSquared(0.8, 1.7) * sk.RBF(2.0) + sk.RationalQuadratic(),
}


@pytest.mark.parametrize(
    ("theirs", "d"),
    [(k, 2) for k in TWO_COLUMNS.values()] + [(k, 1) for k in ONE_COLUMN.values()],
    ids=[*TWO_COLUMNS, *ONE_COLUMN],
)
def test_same_matrix_as_scikit_learn(theirs, d):
    random = np.random.default_rng(0)
    X, Z = random.normal(size=(7, d)), random.normal(size=(4, d))
    ours = resolve(theirs)
    assert_allclose(ours(X), theirs(X), rtol=1e-12)
    assert_allclose(ours(X, Z), theirs(X, Z), rtol=1e-12)
    assert_allclose(ours.diag(X), theirs.diag(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("theirs", "names"),
    [
        (sk.RBF(0.7), ["lengthscale"]),
        (sk.RBF(0.7, "fixed"), []),
        (sk.RBF([0.7, 1.9]), ["lengthscale[0]", "lengthscale[1]"]),
        (sk.Matern(0.7, nu=1.5), ["lengthscale"]),
        (sk.Matern(0.7, "fixed", nu=1.5), []),
        (sk.Matern(0.7, "fixed", nu=np.inf), []),
        (sk.RationalQuadratic(), ["lengthscale", "alpha"]),
        (sk.RationalQuadratic(alpha_bounds="fixed"), ["lengthscale"]),
        (sk.RationalQuadratic(length_scale_bounds="fixed"), ["alpha"]),
        (sk.ExpSineSquared(), ["lengthscale", "period"]),
        (sk.ExpSineSquared(periodicity_bounds="fixed"), ["lengthscale"]),
        (sk.ExpSineSquared(length_scale_bounds="fixed"), ["period"]),
        (sk.ConstantKernel(2.0), ["variance"]),
        (sk.ConstantKernel(2.0, "fixed"), []),
        (sk.DotProduct(), ["0.variance"]),
        (sk.DotProduct(sigma_0_bounds="fixed"), []),
        (sk.ConstantKernel(2.0, "fixed") * sk.RBF() + sk.RBF(1.0, "fixed"), ["0.1.lengthscale"]),
    ],
    ids=str,
)
def test_free_parameters_are_scikit_learns(theirs, names):
    ours = resolve(theirs)
    assert ours.parameter_names() == names
    assert len(names) == theirs.n_dims


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (
            sk.RBF() + sk.WhiteKernel(0.1),
            "WhiteKernel is observation noise; leave it out and give noise= to the",
        ),
        (
            sk.RBF() * sk.PairwiseKernel(metric="poly"),
            "PairwiseKernel cannot be translated; use a kernel of borrow",
        ),
        (
            sk.CompoundKernel([sk.RBF(), sk.RBF()]),
            "CompoundKernel cannot be translated; use a kernel of borrow",
        ),
        (sk.Matern(nu=1.7), r"Matern with nu=1\.7 has no counterpart; use nu = 0\.5, 1\.5 or 2\.5"),
        (sk.Matern(nu=3.5), r"Matern with nu=3\.5 has no counterpart; use nu = 0\.5, 1\.5 or 2\.5"),
        (sk.RBF() ** 0.5, "Exponentiation cannot be translated; use a kernel of borrow"),
    ],
    ids=str,
)
def test_untranslatable_kernel_is_refused_with_a_remedy(theirs, message):
    with pytest.raises(ValueError, match=f"scikit-learn's {message}"):
        resolve(theirs)


def test_sine_of_a_euclidean_distance_is_refused_on_two_columns():
    ours = resolve(sk.RBF() * sk.ExpSineSquared())
    with pytest.raises(ValueError, match=r"ExpSineSquared on several columns .* use borrow\.kernels\.Periodic"):
        ours(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"ExpSineSquared on several columns .* use borrow\.kernels\.Periodic"):
        ours.with_theta(ours.theta + 0.1)(np.zeros((3, 2)))


def test_scikit_learn_class_is_not_a_kernel():
    with pytest.raises(TypeError, match="is not a kernel; expected one of"):
        resolve(sk.RBF)
