"""Inference against figures that are worked out by hand or by plain integration."""

import numpy as np
import pytest
from scipy.stats import norm

from borrow.covariance.contracts import Prediction
from borrow.data.cells import merge
from borrow.inference import em, hyper_uncertainty, priors
from borrow.inference.adf import GaussianFactors, ProbitFactors, TaskPosterior
from borrow.inference.ep import MEMORY, AndersonExtrapolation, Sites, cavity, class_bias, ep, ep_evidence
from borrow.inference.likelihoods import Gaussian, Logistic, Probit
from borrow.kernels import Constant, Linear, NeuralNetwork, SquaredExponential
from borrow.numerics.linalg import NotPositiveDefiniteError

# Likelihoods. ---------------------------------------------------------------------------------------------------------


def integrals(p, y, m, v):
    """log Z and its derivatives by m, from sums over a fine grid of f."""
    root = np.sqrt(v)
    f = m + root * np.linspace(-14.0, 14.0, 40001)
    weight = p(y * f) * norm.pdf(f, m, root) * (f[1] - f[0])
    Z = weight.sum()
    d1 = (weight * (f - m)).sum() / v / Z
    return np.log(Z), d1, (weight * ((f - m) ** 2 / v**2 - 1.0 / v)).sum() / Z - d1**2


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize(("m", "v"), [(0.3, 0.5), (-1.2, 0.9), (-1.2, 1.5), (0.4, 4.0), (-3.0, 4.0), (-7.0, 9.0)])
@pytest.mark.parametrize(
    ("likelihood", "p"),
    [(Probit(), norm.cdf), (Logistic(), lambda t: 1.0 / (1.0 + np.exp(-t)))],
    ids=["probit", "logistic"],
)
def test_moments_are_the_integrals(likelihood, p, y, m, v):
    found = likelihood.moments(np.array([y]), np.array([m]), np.array([v]))
    np.testing.assert_allclose(np.ravel(found), integrals(p, y, m, v), rtol=2e-9, atol=1e-12)


def test_narrow_and_wide_rows_together_are_each_as_alone():
    y, m, v = np.array([1.0, -1.0, 1.0]), np.array([0.2, -0.7, 1.5]), np.array([0.3, 1.0, 25.0])
    together = Logistic().moments(y, m, v)
    for i in range(3):
        alone = Logistic().moments(y[[i]], m[[i]], v[[i]])
        np.testing.assert_allclose([t[i] for t in together], np.ravel(alone), rtol=1e-12)


def test_logistic_of_a_variance_of_hundreds_just_below_zero():
    """Z of a function that may be anything: nearly Phi(m / sqrt(v + pi^2 / 3)), a half and a little less."""
    log_z, d1, _ = Logistic().moments(np.ones(1), np.array([-1.0]), np.array([900.0]))
    assert np.exp(log_z[0]) == pytest.approx(norm.cdf(-1.0 / np.sqrt(900.0 + np.pi**2 / 3.0)), rel=1e-5)
    assert d1[0] == pytest.approx(norm.pdf(0.0) / 30.0 / 0.4867, rel=1e-2)


def test_gaussian_sites_and_normaliser_are_those_of_rows_written_out():
    """Two cells of task 0, of 1 and 2 rows, and one of task 1: evidence of the rows less that of the cells' means."""
    X, y = np.array([[0.0], [1.0], [1.0], [2.0]]), np.array([0.5, 1.0, 2.0, -1.0])
    cells = merge(X, np.array([0, 0, 0, 1]), y, np.ones(4), np.ones(4), 2)
    noise = np.array([0.5, 2.0])
    sites = Gaussian(cells, noise)
    nu, tau = sites.nu, sites.tau
    np.testing.assert_allclose(tau, [2.0, 4.0, 0.5])
    np.testing.assert_allclose(nu, [1.0, 6.0, -0.5])
    f = np.array([0.1, 0.7, 0.7, -0.2])
    rows = norm.logpdf(y, f, np.sqrt([0.5, 0.5, 0.5, 2.0])).sum()
    means = norm.logpdf(np.sqrt(tau) * cells.y, np.sqrt(tau) * f[[0, 1, 3]], 1.0).sum()
    assert Gaussian(cells, noise).log_normaliser(tau) == pytest.approx(rows - means, rel=1e-12)


# Assumed-density filtering. -------------------------------------------------------------------------------------------


def test_probit_factors_have_the_slopes_and_sites_of_the_integral():
    mean, variance, bias = np.array([0.4, -2.0]), np.array([0.7, 3.0]), np.array([0.3, -0.5])
    factors = ProbitFactors(np.array([1.0, -1.0]), bias)
    g, nu = factors.slopes(slice(None), mean, variance)
    tau, m = factors.sites(slice(None), mean, variance)
    for i, y in enumerate((1.0, -1.0)):
        _, d1, d2 = integrals(norm.cdf, y, mean[i] + bias[i], variance[i])
        assert (g[i], nu[i]) == (pytest.approx(d1, rel=1e-8), pytest.approx(-d2, rel=1e-8))
        # The site times the Gaussian before it has the tilted mean and variance.
        after = 1.0 / (1.0 / variance[i] + tau[i])
        assert after == pytest.approx(variance[i] + d2 * variance[i] ** 2, rel=1e-8)
        assert after * (mean[i] / variance[i] + tau[i] * m[i]) == pytest.approx(mean[i] + d1 * variance[i], rel=1e-8)
    np.testing.assert_allclose(factors.gain(slice(None), nu, variance), -0.5 * np.log(1.0 - nu * variance))


def test_gaussian_factors_by_hand():
    factors = GaussianFactors(np.array([2.0, 5.0]), np.array([0.5, 1.0]))
    g, nu = factors.slopes(np.array([0]), np.array([1.0]), np.array([1.5]))
    assert (g[0], nu[0]) == (0.5, 0.5)
    assert factors.gain(np.array([0]), nu, np.array([1.5]))[0] == pytest.approx(0.5 * np.log(4.0))
    assert factors.score(np.array([0]), nu, np.array([1.5]))[0] == 3.0
    assert [v[0] for v in factors.sites(np.array([1]), np.zeros(1), np.ones(1))] == [1.0, 5.0]


def test_rows_taken_in_one_by_one_leave_the_posterior_of_all():
    X, y, noise = np.linspace(0.0, 3.0, 12), np.sin(np.arange(12.0)), 0.3
    K = np.exp(-0.5 * (X[:, None] - X) ** 2)
    K[6] = K[:, 6] = 0.0  # a function that is known there beforehand
    posterior = TaskPosterior(lambda n: K[:, n].copy(), np.diagonal(K))
    factors, at = GaussianFactors(y, np.full(12, noise)), [3, 0, 7, 11, 5, 1, 8, 2, 10]
    for n in at:
        mean, variance = posterior.at(n)
        g, nu = factors.slopes(np.array([n]), mean, variance)
        posterior.include(n, float(g[0]), float(nu[0]))
    A = np.linalg.inv(K[np.ix_(at, at)] + noise * np.eye(len(at)))
    np.testing.assert_allclose(posterior.mean, K[:, at] @ A @ y[at], atol=1e-12)
    np.testing.assert_allclose(posterior.variance, np.diagonal(K - K[:, at] @ A @ K[at]), atol=1e-12)
    assert posterior.size == 9
    np.testing.assert_array_equal(np.ravel(posterior.at(4)), [posterior.mean[4], posterior.variance[4]])


# Expectation propagation. ---------------------------------------------------------------------------------------------


def test_cavity_takes_the_site_out_of_the_marginal():
    m, v = cavity(np.array([1.0]), np.array([0.5]), Sites(np.array([0.4]), np.array([0.8])))
    assert (v[0], m[0]) == (pytest.approx(0.5 / 0.6), pytest.approx((1.0 - 0.2) / 0.6))
    assert 1.0 / v[0] + 0.8 == pytest.approx(2.0)
    assert m[0] / v[0] + 0.4 == pytest.approx(2.0)


class OneFunction:
    """A prior N(0, K) of two rows, dense, as `ep` wants it."""

    def __init__(self, K):
        self.K = K

    def condition(self, sites):
        S = np.linalg.inv(np.linalg.inv(self.K) + np.diag(sites.tau))
        found = OneFunction(self.K)
        found.marginals = lambda: (S @ sites.nu, np.diagonal(S))
        found.log_determinant = float(np.linalg.slogdet(np.eye(2) + self.K * sites.tau)[1])
        return found


def test_ep_of_one_label_is_exact():
    """One factor: the evidence is the integral itself, and the marginals are those of the tilted distribution."""
    K = np.array([[2.0, 1.0], [1.0, 3.0]])
    y, bias = np.array([1.0, 1.0]), np.array([0.3, 40.0])  # the second label is certain, and says nothing
    found = ep(OneFunction(K), Probit(), y, bias)
    log_z, d1, d2 = integrals(norm.cdf, 1.0, 0.3, 2.0)
    assert found.evidence == pytest.approx(log_z, abs=1e-6)
    mean, variance = found.posterior.marginals()
    assert (mean[0], variance[0]) == (pytest.approx(2.0 * d1, rel=1e-5), pytest.approx(2.0 + 4.0 * d2, rel=1e-5))
    assert mean[1] == pytest.approx(1.0 * d1, rel=1e-5)
    assert found.converged
    assert found.residual < 1e-6


def test_ep_says_its_residual_in_units_of_the_marginals():
    """One sweep from no sites: what the first step would move, |tau| v and |nu| sqrt v, whichever is more."""
    K = np.diag([4.0, 0.25])
    y, bias = np.array([1.0, -1.0]), np.zeros(2)
    found = ep(OneFunction(K), Probit(), y, bias, max_sweeps=1)
    moves = []
    for v, label in ((4.0, 1.0), (0.25, -1.0)):
        _, d1, d2 = integrals(norm.cdf, label, 0.0, v)
        shrink = 1.0 + d2 * v
        moves += [abs(-d2 / shrink) * v, abs(d1 / shrink) * np.sqrt(v)]
    assert found.residual == pytest.approx(max(moves), rel=1e-8)
    assert not found.converged
    assert found.n_sweeps == 1


def test_evidence_of_given_sites_is_the_formula_written_out():
    """Sites as Gaussian factors c exp(nu f - tau f^2 / 2): the integral over both functions, by a grid."""
    K, nu, tau = np.array([[1.0, 0.4], [0.4, 2.0]]), np.array([0.5, -0.3]), np.array([0.7, 1.1])
    prior = OneFunction(K)
    posterior = prior.condition(Sites(nu, tau))
    mean, variance = posterior.marginals()
    m, v = cavity(mean, variance, Sites(nu, tau))
    log_z = np.array([-0.2, -0.9])
    f = np.linspace(-12.0, 12.0, 1201)
    inverse = np.linalg.inv(K)
    quadratic = inverse[0, 0] * f[:, None] ** 2 + 2 * inverse[0, 1] * np.outer(f, f) + inverse[1, 1] * f[None] ** 2
    both = np.exp(-0.5 * quadratic) / (2.0 * np.pi * np.sqrt(np.linalg.det(K)))
    sites = [np.exp(n * f - 0.5 * t * f**2) for n, t in zip(nu, tau, strict=True)]
    step = f[1] - f[0]
    whole = np.log(sites[0] @ both @ sites[1] * step**2)
    for i in range(2):  # each factor is as large as its tilted normaliser says
        whole += log_z[i] - np.log((sites[i] * norm.pdf(f, m[i], np.sqrt(v[i]))).sum() * step)
    assert ep_evidence(posterior, mean, m, v, Sites(nu, tau), log_z) == pytest.approx(whole, rel=1e-9)


def test_extrapolation_solves_a_linear_iteration_of_few_dimensions():
    """g(x) = A x + b: with more steps remembered than there are dimensions the fixed point itself is found."""
    A, b = np.array([[0.6, 0.2], [0.1, 0.5]]), np.array([1.0, 2.0])
    C, c = np.array([[0.5, 0.0], [0.2, 0.3]]), np.array([0.5, 0.7])
    sites, past, spread = Sites(np.zeros(2), np.zeros(2)), AndersonExtrapolation(), np.array([2.0, 0.5])
    assert MEMORY >= 5
    for k in range(5):
        new = Sites(A @ sites.nu + b, C @ sites.tau + c)
        after = past.next(sites, new, 0.8, spread)
        if k == 0:  # one step alone is the plain one
            np.testing.assert_allclose(after.nu, 0.8 * b)
            np.testing.assert_allclose(after.tau, 0.8 * c)
        sites = after
    np.testing.assert_allclose(sites.nu, np.linalg.solve(np.eye(2) - A, b), rtol=1e-6)
    np.testing.assert_allclose(sites.tau, np.linalg.solve(np.eye(2) - C, c), rtol=1e-6)


def test_extrapolation_weighs_rows_by_their_spread():
    """One direction for two rows that want different steps: least squares in units of the cavities, by hand."""
    past, spread = AndersonExtrapolation(), np.array([3.0, 1.0])
    first, second = Sites(np.zeros(2), np.ones(2)), Sites(np.array([1.0, 1.0]), np.ones(2))
    past.next(first, Sites(np.array([1.0, 1.0]), np.ones(2)), 1.0, spread)
    found = past.next(second, Sites(np.array([1.5, 1.2]), np.ones(2)), 1.0, spread)
    # Moves (1, 1), then (0.5, 0.2): their difference d = (-0.5, -0.8), weight w = d'Wr / d'Wd with W = spread^2.
    d, r, W = np.array([-0.5, -0.8]), np.array([0.5, 0.2]), np.array([9.0, 1.0])
    w = (d * W) @ r / ((d * W) @ d)
    np.testing.assert_allclose(found.nu, np.array([1.5, 1.2]) - w * (np.array([1.0, 1.0]) + d))
    np.testing.assert_allclose(found.tau, 1.0)


def test_bias_of_a_task_by_hand():
    X = np.arange(9.0)[:, None]
    y = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0, 1.0])
    cells = merge(X, np.array([0, 0, 0, 0, 1, 1, 1, 1, 2]), y, np.ones(9), np.ones(9), 4)
    np.testing.assert_allclose(class_bias(cells), norm.ppf([0.5, 0.25, 0.98, 0.5]), atol=1e-12)


# EM. ------------------------------------------------------------------------------------------------------------------


def run_em(value, stretch=True, max_iter=10, tol=1e-3, fails=()):
    """EM along a line: each step goes one further, and `value` is the objective."""
    asked = []

    def expect(state):
        asked.append(state)
        if state in fails:
            raise NotPositiveDefiniteError("no")
        return None, value(state)

    found = em.run(
        0.0, expect, lambda state, _: state + 1.0, max_iter, tol,
        (lambda old, new, factor: old + factor * (new - old)) if stretch else None,
    )  # fmt: skip
    return found, asked


def test_plain_em_counts_its_steps_and_ends_where_a_step_gains_nothing():
    found, asked = run_em(lambda s: [0.0, 5.0, 8.0, 9.0, 9.0][int(s)], stretch=False)
    assert (found.state, found.trace, found.steps) == (4.0, [0.0, 5.0, 8.0, 9.0, 9.0], [1.0] * 4)
    assert (found.n_evaluations, found.converged) == (5, True)
    assert asked == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert not run_em(lambda s: s, stretch=False, max_iter=2)[0].converged


def test_longer_steps_are_taken_where_they_gain_and_taken_back_where_they_do_not(monkeypatch):
    monkeypatch.setattr(em, "GROWTH", 1.5)
    monkeypatch.setattr(em, "LONGEST", 3.0)
    found, asked = run_em(lambda s: s, max_iter=5)
    assert asked == [0.0, 1.0, 2.5, 4.75, 7.75, 10.75]
    assert found.steps == [1.0, 1.5, 2.25, 3.0, 3.0]
    assert found.n_evaluations == 6
    # The step of 1.5 loses: one of 1 is taken, and lengths begin again.
    found, asked = run_em(lambda s: -1.0 if s == 2.5 else s, max_iter=3)
    assert asked == [0.0, 1.0, 2.5, 2.0, 3.5]
    assert found.steps == [1.0, 1.0, 1.5]
    assert found.trace == [0.0, 1.0, 2.0, 3.5]
    assert found.n_evaluations == 5
    found, asked = run_em(lambda s: s, max_iter=2, fails=(2.5,))
    assert (asked, found.steps) == ([0.0, 1.0, 2.5, 2.0], [1.0, 1.0])
    assert found.n_evaluations == 3


# Priors. --------------------------------------------------------------------------------------------------------------


def gaussian(mean, sd):
    """The mean and the matrix of independent entries, as a `GaussianPrior` holds them."""
    return np.asarray(mean, dtype=float), np.diag(1.0 / np.square(np.broadcast_to(sd, np.shape(mean))))


def matrix(prior):
    return prior.pull(np.eye(len(prior.mean)))


def test_prior_of_each_parameter_of_a_kernel_by_hand():
    scales = np.array([2.0, 0.5, 1.0])
    one = priors.kernel_prior(SquaredExponential(3.0, 1.0), scales, log_variance=0.7)
    names = [n for n, _ in SquaredExponential(3.0, 1.0).free]
    level = float(np.mean(np.log(scales)) + 0.5 * np.log(3.0))
    assert names == ["variance", "lengthscale"]
    np.testing.assert_allclose(one.mean, [0.7, level], atol=1e-15)
    np.testing.assert_allclose(matrix(one), np.diag([0.25, 1.0]))
    many = priors.kernel_prior(SquaredExponential(3.0, (1.0, 1.0, 1.0)), scales)
    np.testing.assert_allclose(many.mean, [0.0, *(np.log(scales) + 0.5 * np.log(3.0))], atol=1e-15)
    np.testing.assert_allclose(np.linalg.inv(matrix(many))[1:, 1:], 0.25 * np.eye(3) + 1.0, rtol=1e-12)
    # A linear kernel's variance is that of a slope per column scale; a constant is no function of the inputs.
    linear = priors.kernel_prior(Linear(1.0), scales, log_variance=0.7)
    slope = float(np.mean(-2.0 * np.log(scales)) - np.log(3.0) + 0.7)
    assert linear.mean[0] == pytest.approx(slope)
    network = priors.kernel_prior(NeuralNetwork(1.0, weight_variance=(1.0, 1.0, 1.0)), scales)
    np.testing.assert_allclose(network.mean[1:4], -2.0 * np.log(scales))
    tied = priors.kernel_prior(NeuralNetwork(1.0, weight_variance=1.0), scales)
    assert tied.mean[1] == pytest.approx(np.mean(-2.0 * np.log(scales)))
    constant = priors.kernel_prior(Constant(5.0), scales, log_variance=0.7)
    np.testing.assert_allclose(constant.mean, [0.0])
    np.testing.assert_allclose(matrix(constant), [[0.25]])


def test_noise_priors_by_hand():
    assert pytest.approx(-2.302585093) == priors.NOISE_MEAN
    usual = priors.kernel_priors([Constant(1.0), Constant(1.0)], np.ones(1))
    assert usual.log_density(np.zeros(2))[0] > usual.log_density(np.full(2, 0.5))[0]  # log variances are about zero
    assert usual.log_density(np.zeros(2))[0] > usual.log_density(np.full(2, -0.5))[0]
    alone = priors.independent_noise_prior(2)
    np.testing.assert_allclose(alone.mean, np.log(0.1))
    np.testing.assert_allclose(matrix(alone), 0.25 * np.eye(2))
    value, by = priors.noise_prior().log_density(np.log([0.1, 0.4]))
    half = np.log(2.0)  # both are this far from their mean
    room = 4.0 * 0.25 + 2.0 * half**2
    assert value == pytest.approx(-0.5 * (2.0 * half) ** 2 / 4.0 - 2.5 * np.log(room), rel=1e-12)
    np.testing.assert_allclose(by, [5.0 * half / room, -2.0 * half / 4.0 - 5.0 * half / room])
    assert priors.noise_prior().steepest(np.log([0.1, 0.4])) == pytest.approx(5.0 / room + 0.25, rel=1e-12)


# What is not known about hyper-parameters. ----------------------------------------------------------------------------


def test_curvature_of_a_parabola_is_its_matrix():
    C = np.array([[3.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.0]])
    b = np.array([0.4, -1.0, 0.2])
    found = hyper_uncertainty.curvature_of_values(lambda z: 7.0 + b @ z - 0.5 * z @ C @ z, 3)
    np.testing.assert_allclose(found, C, atol=1e-12)
    one_sided = hyper_uncertainty.curvature_of_values(lambda z: -np.inf if z[0] < 0 else -1.5 * float(z @ z), 1)
    np.testing.assert_allclose(one_sided, [[3.0]])


class Constantly:
    """A posterior with one mean and variance everywhere."""

    def __init__(self, mean, variance):
        self.mean, self.variance = mean, variance

    def predict(self, X, task, full=False):
        n = len(X)
        return Prediction(np.full(n, self.mean), np.full(n, self.variance))


def test_band_is_the_second_moment_around_the_optimum():
    """variance = v max(1, E[v_k] / v) + sum w (m_k - m)^2, and the covariance is stretched alike."""
    others = [Constantly(2.0, 3.0), Constantly(0.5, 5.0), Constantly(4.0, 100.0)]
    weights, singles = np.array([0.25, 0.75, 0.0]), np.array([0.25, 0.75, 0.1])
    found = hyper_uncertainty.HyperUncertainty(others, weights, singles, np.array([0.1]))
    X, cov = np.zeros((2, 1)), np.array([[2.0, 1.0], [1.0, 8.0]])
    wide = found.widen(Prediction(np.ones(2), np.diagonal(cov), cov), X, np.zeros(2, dtype=int))
    moved = 0.25 * 1.0 + 0.75 * 0.25 + 0.1 * 9.0
    np.testing.assert_allclose(wide.variance, [4.5 + moved, 8.0 + moved])
    np.testing.assert_allclose(wide.covariance, [[4.5 + moved, 1.5 + moved], [1.5 + moved, 8.0 + moved]])
    np.testing.assert_array_equal(wide.mean, 1.0)
    assert found.widen(Prediction(np.ones(2), np.ones(2)), X, np.zeros(2, dtype=int)).covariance is None
    # By task: the second has nothing else to say.
    both = hyper_uncertainty.UncertaintyByTask([found, None], np.array([0.05, 0.3]))
    np.testing.assert_allclose(both.noise, [0.1, 0.3])
    assert hyper_uncertainty.UncertaintyByTask([found], None).noise is None
    by_task = both.widen(Prediction(np.ones(2), np.diagonal(cov), cov), X, np.array([1, 0]))
    np.testing.assert_allclose(by_task.variance, [2.0, 8.0 + moved])
    np.testing.assert_allclose(by_task.covariance, [[2.0, 1.0], [1.0, 8.0 + moved]])


@pytest.mark.parametrize("probability", [0.3, np.array([0.2, 0.7, 0.0])])
def test_average_of_two_models_is_the_mixture_over_which_of_them_holds(probability):
    """One number u in [0, 1] decides: the other model holds of the tasks whose probability is above u."""
    rng = np.random.default_rng(4)
    task = np.array([0, 1, 1, 2])
    a, b = rng.normal(size=(2, 4))
    A, B = (m @ m.T for m in rng.normal(size=(2, 4, 4)))

    class Other:
        def predict(self, X, task, full=False):
            return Prediction(b, np.diagonal(B), B if full else None)

    p = np.broadcast_to(probability, 3)[task]
    cuts = np.unique([0.0, 1.0, *p])
    weights, chosen = np.diff(cuts), [p > u for u in (cuts[1:] + cuts[:-1]) / 2]
    means = np.array([np.where(z, b, a) for z in chosen])
    mean = weights @ means
    cov = sum(
        w * (np.outer(z, z) * B + np.outer(~z, ~z) * A + np.outer(m - mean, m - mean))
        for w, z, m in zip(weights, chosen, means, strict=True)
    )
    X, found = np.zeros((4, 1)), hyper_uncertainty.OtherModel(Other(), probability)
    whole = found.widen(Prediction(a, np.diagonal(A), A), X, task)
    np.testing.assert_allclose(whole.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(whole.covariance, cov, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(whole.variance, np.diagonal(cov), rtol=1e-12)
    alike = found.left_out(Prediction(a, np.diagonal(A)), lambda other: other.predict(X, task), task)
    np.testing.assert_allclose([alike.mean, alike.variance], [mean, np.diagonal(cov)], rtol=1e-12)
    assert alike.covariance is None


def test_weights_of_points_are_those_of_importance_sampling():
    """An objective that is Student's t itself, as wide as the points are: all points count the same."""
    dof, found = hyper_uncertainty.DOF, {"noise": np.array([0.2])}
    wide = hyper_uncertainty.WIDER

    def evaluate(at):
        z = (at["noise"][0] - 0.2) / wide
        return -0.5 * (dof + 1.0) * float(np.log1p(z**2 / dof)) if abs(at["noise"][0] - 0.2) > 0.3 else -0.5 * (
            at["noise"][0] - 0.2
        ) ** 2, Constantly(at["noise"][0], 1.0)

    # Near the optimum a parabola of curvature 1, so that the spread is WIDER; beyond, the density of the points.
    seen = hyper_uncertainty.hyper_uncertainty(evaluate, found, [{"noise": np.ones(1)}])
    T = hyper_uncertainty.student_points(1)[:, 0]
    assert len(T) == 2 * 2 * hyper_uncertainty.PAIRS
    far = np.abs(wide * T) > 0.3
    np.testing.assert_allclose(seen.of_variance[far], seen.of_variance[far][0], rtol=1e-9)
    np.testing.assert_allclose(seen.of_variance.sum(), 1.0)
    means = np.array([p.mean for p in seen.posteriors])
    np.testing.assert_allclose(means, 0.2 + wide * T, rtol=1e-9)
    expected = max(float(seen.of_variance @ np.exp(means)), float(np.exp(0.2)))
    np.testing.assert_allclose(seen.noise, expected)


def test_noise_is_never_expected_to_be_less_than_at_the_optimum():
    """Only smaller noise explains: its expectation would be below, and the optimum's stays."""
    found = {"noise": np.array([1.0])}

    def evaluate(at):
        gone = at["noise"][0] - 1.0
        return (-np.inf, None) if gone > 1e-9 else (-0.5 * gone**2, Constantly(0.0, 1.0))

    seen = hyper_uncertainty.hyper_uncertainty(evaluate, found, [{"noise": np.ones(1)}])
    np.testing.assert_allclose(seen.noise, np.exp(1.0))


def test_no_single_point_decides():
    """One point explains everything: it counts at most sqrt(n) times the mean weight."""
    found, T = {"noise": np.zeros(1)}, hyper_uncertainty.student_points(1)[:, 0]
    place = hyper_uncertainty.WIDER * T[2]

    def evaluate(at):
        x = at["noise"][0]
        return (4.0 if abs(x - place) < 1e-9 else -0.5 * x**2), Constantly(x, 1.0)

    seen = hyper_uncertainty.hyper_uncertainty(evaluate, found, [{"noise": np.ones(1)}])
    others = -0.5 * (hyper_uncertainty.WIDER * T) ** 2 + 3.0 * np.log1p(T**2 / 5.0)
    w = np.exp(others - (4.0 + 3.0 * np.log1p(T[2] ** 2 / 5.0)))
    w[2] = 1.0
    assert w.max() > w.mean() * np.sqrt(len(T))
    w = np.minimum(w, w.mean() * np.sqrt(len(T)))
    w = w[w > 1e-3 * w.sum()]
    np.testing.assert_allclose(seen.of_variance, w / w.sum(), rtol=1e-9)


def test_points_are_those_of_the_recurrence():
    """K = 1: fractions of the golden ratio from a half on, and their opposites."""
    from scipy.stats import t

    golden = (np.sqrt(5.0) - 1.0) / 2.0
    u = (0.5 + golden * np.arange(1, 9)) % 1.0
    expected = t.ppf(u, 5.0)
    np.testing.assert_allclose(hyper_uncertainty.student_points(1)[:, 0], [*expected, *-expected], rtol=1e-9)
    assert hyper_uncertainty.student_points(4).shape == (2 * 4 * 3, 4)


# Scales that are taken as known. --------------------------------------------------------------------------------------


def test_stretch_of_a_task_is_by_rows_predicted_without_themselves():
    """Two tasks of four and three rows, each row left out in turn; the second is as wide as it says it is."""
    rng = np.random.default_rng(3)
    X, t = rng.uniform(0.0, 4.0, (7, 1)), np.array([0, 0, 0, 0, 1, 1, 1])
    y, noise = np.r_[4.0, -3.0, 5.0, -4.0, 0.1, 0.0, -0.1], np.array([0.2, 0.5])
    cells = merge(X, t, y, np.ones(7), np.ones(7), 2)
    K = SquaredExponential(1.0, 0.8)(cells.X) * (cells.task[:, None] == cells.task)
    C = K + np.diag(noise[cells.task])
    gain = K @ np.linalg.inv(C)
    found = hyper_uncertainty.stretch_of_tasks(cells, noise, (gain @ cells.y, np.diagonal(K - gain @ K).copy()))
    squares = []
    for i in range(7):
        rest = np.arange(7) != i
        weights = np.linalg.solve(C[np.ix_(rest, rest)], K[rest, i])
        squares.append((cells.y[i] - weights @ cells.y[rest]) ** 2 / (C[i, i] - weights @ K[rest, i]))
    squares = np.array(squares)
    rows = hyper_uncertainty.SCALE_ROWS
    assert found[0] == pytest.approx((rows + squares[cells.task == 0].sum()) / (rows + 4.0), rel=1e-9)
    assert found[0] > 2.0
    assert found[1] == 1.0  # it is never narrowed


def test_what_is_left_to_move_is_counted_in_deviations_of_the_posterior():
    """One label and sites that are given: new ones match the tilted moments; moves are in units of v/(1 + tau v)."""
    m, v, start = 0.0, 2.0, Sites(np.array([0.3]), np.array([0.7]))
    prior = OneFunction(np.array([[v]]))
    found = ep(prior, Probit(), np.array([1.0]), np.zeros(1), start, max_sweeps=1)
    z = m / np.sqrt(1.0 + v)  # the cavity of a single row is the prior
    ratio = norm.pdf(z) / norm.cdf(z)
    mean = m + v * ratio / np.sqrt(1.0 + v)
    variance = v - v**2 / (1.0 + v) * ratio * (z + ratio)
    tau, nu = 1.0 / variance - 1.0 / v, mean / variance - m / v
    sd = np.sqrt(v / (1.0 + 0.7 * v))
    assert found.residual == pytest.approx(max(abs(tau - 0.7) * sd**2, abs(nu - 0.3) * sd), rel=1e-9)
