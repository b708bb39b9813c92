"""The shipped batteries hold our implementations to their contracts, and find what is wrong with broken ones."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import expit, ndtr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

import borrow
import oracles
import oracles_multitask as oracle
from borrow import testing
from borrow.covariance import Basis, CompleteTasks, DenseTasks, Design, LowRankTasks, SharedCovariance
from borrow.covariance.contracts import Moments, Sites
from borrow.data.cells import merge
from borrow.inference import EPInference, Exact, ExactInference
from borrow.inference.likelihoods import Logistic, Probit
from borrow.kernels import Matern, SquaredExponential
from borrow.kernels.base import Gradient
from borrow.tasks.placed import PlacedTasks, TaskShard
from borrow.tasks.workers import open_workers

KERNEL = SquaredExponential(1.0, (0.9, 1.4), fixed=("variance",))
OWN = Matern(0.6, 1.1, nu=1.5)
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(12, 2))
TASK = np.repeat([0, 1, 2], [5, 4, 3])
NEW, NEW_TASK = RANDOM.normal(size=(4, 2)), np.array([0, 1, 2, 1])
ALL_TASK = np.append(TASK, NEW_TASK)
CELLS = merge(X, TASK, RANDOM.normal(size=12), np.ones(12), np.ones(12), 3)
B = np.array([[1.0, 0.5, -0.2], [0.5, 0.8, 0.1], [-0.2, 0.1, 0.6]])


def joint(cells=CELLS, c=0.0, specific=(None, None, None)):
    """The prior covariance of the cells and the new rows, written out."""
    rows, task = np.vstack([cells.X, NEW]), np.append(cells.task, NEW_TASK)
    return oracle.prior_covariance(rows, task, rows, task, KERNEL, B, c, specific)


def test_shared_covariance_with_inducing_inputs():
    Z = RANDOM.normal(size=(3, 2))
    rows = np.vstack([CELLS.X, NEW])
    rho, specific = [1.0, 0.7, -0.4], [None, OWN, OWN]
    prior = SharedCovariance(PlacedTasks(CELLS), [Basis(KERNEL, Z)], [0], np.array(rho)[:, None], specific)
    K = oracles.focused_prior(rows, ALL_TASK, rho, KERNEL, specific, Z)
    testing.check_covariance(prior, K, NEW, NEW_TASK)


def test_dense_tasks():
    specific = [None, OWN, None]
    prior = DenseTasks(Design.from_cells(CELLS), KERNEL, B, 0.3, specific)
    testing.check_covariance(prior, joint(c=0.3, specific=specific), NEW, NEW_TASK)


def test_complete_tasks():
    grid = np.tile(X[:4], (3, 1))
    cells = merge(grid, np.repeat([0, 1, 2], 4), np.ones(12), np.ones(12), np.ones(12), 3)
    tau = np.repeat([1.0, 3.0, 0.4], 4)
    prior = CompleteTasks(Design.from_cells(cells), KERNEL, B)
    testing.check_covariance(prior, joint(cells), NEW, NEW_TASK, tau)


def test_low_rank_tasks():
    R, Z = np.array([[1.0, 0.2], [0.5, -0.6], [-0.3, 0.4]]), RANDOM.normal(size=(4, 2))
    prior = LowRankTasks(PlacedTasks(CELLS), KERNEL, Z, R, 0.2)
    rows = np.vstack([CELLS.X, NEW])
    K = oracle.nystrom_covariance(rows, ALL_TASK, rows, ALL_TASK, KERNEL, Z, R, 0.2, same=True)
    testing.check_covariance(prior, K, NEW, NEW_TASK)


def test_a_covariance_with_wrong_variances_or_sites_is_found():
    prior = DenseTasks(Design.from_cells(CELLS), KERNEL, B)

    class Wrong:
        """A posterior whose marginal variances are a little off."""

        def __init__(self, posterior):
            self.posterior = posterior

        def __getattr__(self, name):
            return getattr(self.posterior, name)

        def marginals(self):
            mean, variance = self.posterior.marginals()
            return Moments(mean, variance * (1.0 + 1e-6))

    class Wrapped:
        def __init__(self, condition):
            self.condition = condition

    testing.check_covariance(Wrapped(prior.condition), joint(), NEW, NEW_TASK)
    with pytest.raises(AssertionError):
        testing.check_covariance(Wrapped(lambda sites: Wrong(prior.condition(sites))), joint(), NEW, NEW_TASK)
    moved = Wrapped(lambda sites: prior.condition(Sites(sites.nu, 1.01 * sites.tau)))
    with pytest.raises(AssertionError):
        testing.check_covariance(moved, joint(), NEW, NEW_TASK)


@pytest.mark.parametrize(
    ("likelihood", "density"), [(Probit(), lambda y, f: ndtr(y * f)), (Logistic(), lambda y, f: expit(y * f))]
)
def test_likelihoods(likelihood, density):
    testing.check_likelihood(likelihood, density)


LABELLED = replace(CELLS, y=np.where(CELLS.y > 0, 1.0, -1.0))


def dense(cells):
    """The prior of dense tasks on these cells, by the parameters of its kernel."""
    return lambda theta: DenseTasks(Design.from_cells(cells), KERNEL.with_theta(theta), B, 0.3)


def test_exact_inference():
    values = {"noise": np.log([0.1, 0.4, 0.2])}
    testing.check_inference(ExactInference(), dense(CELLS), KERNEL.theta, PlacedTasks(CELLS), values)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=lambda v: type(v).__name__)
def test_expectation_propagation(likelihood):
    infer = EPInference(likelihood, max_sweeps=500, tol=1e-11)
    testing.check_inference(infer, dense(LABELLED), KERNEL.theta, PlacedTasks(LABELLED), {})


def test_an_inference_that_stops_early_or_has_a_wrong_derivative_is_found():
    with pytest.raises(AssertionError):
        testing.check_inference(EPInference(Probit(), 3), dense(LABELLED), KERNEL.theta, PlacedTasks(LABELLED), {})

    @dataclass(frozen=True)
    class Twice(Exact):
        def gradient(self, inducing=False):
            adjoints, own = super().gradient(inducing)
            return adjoints, {name: 2.0 * slope for name, slope in own.items()}

    @dataclass(frozen=True)
    class Wrong(ExactInference):
        def __call__(self, prior, tasks, values, start=None):
            return Twice(**vars(super().__call__(prior, tasks, values)))

    values = {"noise": np.log([0.1, 0.4, 0.2])}
    with pytest.raises(AssertionError):
        testing.check_inference(Wrong(), dense(CELLS), KERNEL.theta, PlacedTasks(CELLS), values)


def test_a_likelihood_with_a_wrong_derivative_or_scale_is_found():
    class Steep(Probit):
        def moments(self, y, mean, variance):
            log_z, d1, d2 = super().moments(y, mean, variance)
            return log_z, d1, 1.001 * d2

    with pytest.raises(AssertionError):
        testing.check_likelihood(Steep())
    with pytest.raises(AssertionError):
        testing.check_likelihood(Probit(), lambda y, f: expit(1.7 * y * f))


@dataclass(frozen=True, repr=False)
class Broken(SquaredExponential):
    """A kernel whose derivative by the inputs is a little off."""

    def evaluate(self, X, Z=None):
        K, back = super().evaluate(X, Z)

        def pullback(bK, inputs=False):
            g = back(bK, inputs)
            return Gradient(g.theta, None if g.X is None else g.X * (1.0 + 1e-4), g.Z)

        return K, pullback


def test_a_kernel_with_a_wrong_derivative_is_found():
    testing.check_kernel(SquaredExponential(1.2, (0.9, 1.4), tied=True), X[:5], NEW)
    with pytest.raises(AssertionError):
        testing.check_kernel(Broken(1.2, 0.9), X[:5], NEW)


def test_sums_over_tasks_in_this_process_and_in_others():
    testing.check_tasks(PlacedTasks(CELLS), CELLS)
    with open_workers(2) as workers:
        testing.check_tasks(PlacedTasks(CELLS, workers), CELLS)


def test_a_sum_over_tasks_that_loses_one_or_their_order_is_found():
    class Backwards(PlacedTasks):
        def each(self, f, common, parts=None):
            return [f(TaskShard(CELLS.some([t])), common) for t in (2, 1, 0)]

    with pytest.raises(AssertionError):
        testing.check_tasks(Backwards(CELLS), CELLS)
    with pytest.raises(AssertionError):
        testing.check_tasks(PlacedTasks(CELLS.some([0, 1])), CELLS)


Y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
ESTIMATORS = [
    borrow.SingleTaskGPRegressor(optimizer=None),
    borrow.PooledGPRegressor(optimizer=None),
    borrow.FocusedGPRegressor(primary="a", optimizer=None, random_state=0),
    borrow.MultiTaskGPRegressor(optimizer=None, random_state=0),
    borrow.MultiTaskGPRegressor(rank=1, inducing=5, optimizer=None, random_state=0),
    borrow.MultiTaskGPRegressor(task_covariance="diagonal", optimizer=None, random_state=0),
    borrow.HierarchicalGPRegressor(optimizer=None, covariance_strength=1.0, random_state=0),
    borrow.MultiTaskIVMRegressor(optimizer=None, random_state=0),
    borrow.MultiTaskRBFRegressor(random_state=0),
    borrow.SingleTaskGPClassifier(optimizer=None),
    borrow.PooledGPClassifier(optimizer=None),
    borrow.FocusedGPClassifier(primary="a", optimizer=None),
    borrow.MultiTaskGPClassifier(optimizer=None, random_state=0),
    borrow.HierarchicalGPClassifier(optimizer=None, covariance_strength=1.0, random_state=0),
    borrow.MultiTaskIVMClassifier(optimizer=None, random_state=0),
    borrow.SharedStructureClassifier(random_state=0),
    borrow.DirichletProcessClassifier(random_state=0),
    borrow.RegularizedMultiTaskClassifier(random_state=0),
]
LABELS = ["a", "b", "c"]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_estimators(estimator):
    regression = isinstance(estimator, RegressorMixin)
    y = Y if regression else np.where(Y > 0, "yes", "no")
    testing.check_estimator(estimator, X, y, [LABELS[t] for t in TASK])


class Remembers(RegressorMixin, BaseEstimator):
    """The mean of y; or something that depends on the order of the rows, on the fit before, or on a refused one."""

    def __init__(self, flaw=None):
        self.flaw = flaw

    def fit(self, X, y=None, tasks=None):
        if y is None:
            y, tasks = np.concatenate([v for _, v in X.values()]), [t for t, (_, v) in X.items() for _ in v]
        right = len(y) == len(tasks)
        if right or self.flaw == "refused":
            before = getattr(self, "level_", 0.0)
            self.level_ = {"order": y[0], "state": before + np.sort(y).mean()}.get(self.flaw, np.sort(y).mean())
        if not right:
            raise ValueError("y and tasks differ in length")
        self.tasks_ = np.array(sorted(set(tasks)))
        self.noise_ = dict.fromkeys(self.tasks_.tolist(), 1.0)
        return self

    def predict(self, X, tasks=None, return_std=False, return_cov=False, include_noise=False):
        check_is_fitted(self, "level_")
        mean = np.full(len(X), self.level_)
        if return_cov:
            return mean, np.eye(len(X))
        return (mean, np.full(len(X), np.sqrt(1.0 + include_noise))) if return_std else mean


@pytest.mark.parametrize("flaw", ["order", "state", "refused"])
def test_an_estimator_that_depends_on_what_it_must_not_is_found(flaw):
    tasks = [LABELS[t] for t in TASK]
    testing.check_estimator(Remembers(), X, Y, tasks)
    with pytest.raises(AssertionError):
        testing.check_estimator(Remembers(flaw), X, Y, tasks)
