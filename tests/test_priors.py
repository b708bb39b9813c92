"""Priors on hyper-parameters: densities against literal matrices, gradients by differences."""

import numpy as np
import pytest

from borrow.inference.priors import (
    LEVEL_SD,
    RELEVANCE_SD,
    VARIANCE_SD,
    independent_priors,
    kernel_prior,
    kernel_priors,
    noise_prior,
)
from borrow.kernels import Constant, SquaredExponential
from borrow.numerics.optimise import pack, unpack

SCALES = np.array([0.5, 2.0, 1.0])
ARD = SquaredExponential(1.3, (0.4, 3.0, 1.0))
TIED = SquaredExponential(0.7, (1.0, 2.0, 3.0), tied=True)
KERNELS = [ARD, TIED + Constant(0.3), ARD.with_theta(ARD.theta - 0.4) + Constant(0.2), ARD + ARD]


def test_lengthscales_of_one_kernel_have_the_literal_covariance():
    for scales in (SCALES, SCALES[:2], np.ones(40)):
        kernel = SquaredExponential(1.0, tuple(scales))
        prior, d = kernel_prior(kernel, scales), len(scales)
        C = np.zeros((d + 1, d + 1))
        C[0, 0] = VARIANCE_SD**2
        C[1:, 1:] = LEVEL_SD**2 + RELEVANCE_SD**2 * np.eye(d)
        np.testing.assert_allclose(prior.pull(np.eye(d + 1)), np.linalg.inv(C), atol=1e-12)
    alone = kernel_prior(SquaredExponential(1.0, 2.0), np.ones(1))
    np.testing.assert_allclose(alone.pull(np.eye(2)), np.diag([VARIANCE_SD**-2, LEVEL_SD**-2]))


def test_many_columns_need_no_matrix_of_them():
    """With 100,000 columns the covariance would be 80 GB. All at z from their means: z^2 d / (a + d b) is the form."""
    d = 100_000
    prior = kernel_prior(SquaredExponential(1.0, (1.0,) * d), np.ones(d))
    value, by = prior.log_density(prior.mean + np.r_[0.0, np.full(d, 0.3)])
    assert value == pytest.approx(-0.5 * 0.09 * d / (RELEVANCE_SD**2 + d * LEVEL_SD**2), rel=1e-6)
    np.testing.assert_allclose(by[1:], -0.3 / (RELEVANCE_SD**2 + d * LEVEL_SD**2), rtol=1e-4)


def test_kernels_one_after_the_other_have_their_own_priors():
    kernels = [ARD, TIED]
    theta = np.concatenate([k.theta for k in kernels]) + 0.3
    found = kernel_priors(kernels, SCALES).log_density(theta)[0]
    apart = kernel_prior(ARD, SCALES).log_density(theta[:4])[0] + kernel_prior(TIED, SCALES).log_density(theta[4:])[0]
    assert found == pytest.approx(apart, rel=1e-12)


def test_a_prior_on_several_names_has_the_gradient_it_claims():
    log_prior = independent_priors({("kernel", "specific"): kernel_priors(KERNELS, SCALES)})
    values = {"specific": np.linspace(-1, 1, 16), "kernel": np.array([0.2, -0.3, 1.0, 0.5])}
    _, by = log_prior(values)
    for name, v in values.items():
        for i in range(v.size):
            step = 1e-6 * np.eye(v.size)[i]
            up, down = (log_prior({**values, name: v + s * step})[0] for s in (1, -1))
            assert by[name][i] == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_curvature_of_priors_is_that_of_their_gradients():
    """Exactly for Gaussians; of noises where they agree, which is where the part that is left out vanishes."""
    on_kernels = kernel_priors(KERNELS, SCALES)
    log_prior = independent_priors({("kernel", "specific"): on_kernels, "noise": noise_prior()})
    values = {"noise": np.full(3, -1.0), "specific": np.linspace(-1, 1, 16), "kernel": np.array([0.2, -0.3, 1.0, 0.5])}
    x, step = pack(values), 1e-5
    rows = [
        (pack({n: log_prior(unpack(x - e, values))[1][n] for n in values}))
        - pack({n: log_prior(unpack(x + e, values))[1][n] for n in values})
        for e in step * np.eye(len(x))
    ]
    np.testing.assert_allclose(log_prior.curvature(values), np.array(rows) / (2 * step), atol=1e-6)


def test_curvature_of_the_prior_of_noises_is_positive_where_they_differ():
    assert np.all(np.linalg.eigvalsh(noise_prior().curvature(np.array([-6.0, 0.0, 2.0, 9.0]))) > 0.0)
