"""The same lines on PyTorch tensors: evidence, adjoints, marginals and predictions of every covariance equal NumPy's.

Tensors lie on the CPU here, or where BORROW_TEST_DEVICE says; nothing in the code under test knows.
"""

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from borrow.covariance import Basis, CompleteTasks, DenseTasks, Design, LowRankTasks, SharedCovariance, Sites
from borrow.data.cells import merge
from borrow.inference import EPInference
from borrow.inference.likelihoods import Logistic, Probit
from borrow.kernels import Constant, Linear, Matern, Periodic, SquaredExponential
from borrow.numerics.device import Device
from borrow.numerics.linalg import to_host
from borrow.tasks.placed import PlacedTasks, rows_as_tasks

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'borrow[gpu]'")

TENSORS = Device(os.environ.get("BORROW_TEST_DEVICE", "cpu"))
SIZES = (7, 0, 12, 12, 1, 30, 11)


def same(one, other, tol=1e-9):
    assert_allclose(to_host(one), to_host(other), rtol=tol, atol=tol)


def table(sizes=SIZES, seed=0, d=2):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X, y = rng.normal(size=(len(task), d)), rng.normal(size=len(task))
    return merge(X, task, y, np.ones(len(y)), rng.integers(1, 4, len(y)).astype(float), len(sizes))


def specific_kernels(kind):
    own = SquaredExponential(0.5, (0.7, 0.9), tied=True) + Constant(0.3)
    kernels = [None] + [own.with_theta(own.theta + 0.1 * t) for t in range(1, len(SIZES))]
    if kind == "mixed":
        kernels[2], kernels[5] = Matern(1.0, 0.5, nu=1.5), Periodic(0.5, 1.0, 3.0) + Linear(0.2)
    if kind == "some without":
        kernels[3] = kernels[6] = None
    return kernels


def shared(cells, device, kind):
    rng = np.random.default_rng(1)
    bases = [Basis(Matern(1.2, (1.0, 2.0)), rng.normal(size=(9, 2))), Basis(SquaredExponential(), cells.X[:5])]
    weights = rng.normal(size=(len(SIZES), 3))
    tasks = rows_as_tasks(cells.X, cells.starts, device)
    return SharedCovariance(tasks, bases, [0, 1, 1], weights, specific_kernels(kind))


def layout_of(prior):
    """How the rows of the only shard lie, after a pass."""
    (shard,) = prior.tasks.place()[2]
    return shard.cache.values[prior.key]["prior"].layout


def check_adjoints(one, other):
    for a, b in zip(one, other, strict=True):
        if a is None or isinstance(a, float | tuple):
            assert a == b
            continue
        for u, v in zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]:
            assert (u is None) == (v is None)
            if u is not None:
                assert isinstance(u, np.ndarray)
                same(u, v)


@pytest.mark.parametrize("kind", ["one form", "mixed", "some without"])
def test_shared_covariance(kind):
    cells = table()
    tau = np.random.default_rng(2).uniform(0.5, 20.0, len(cells.y))
    tau[3] = 1e-13
    host = shared(cells, None, kind).condition(Sites(tau * cells.y, tau))
    there = shared(cells, TENSORS, kind).condition(Sites(tau * cells.y, tau))
    if kind == "one form":  # all but the first are small: one block, padded to 30 rows each
        assert [(len(b.tasks), b.size) for b in layout_of(there.prior).blocks] == [(5, 30), (1, None)]
    same(there.evidence, host.evidence)
    check_adjoints(there.adjoints(True), host.adjoints(True))
    for one, other in zip(there.marginals(), host.marginals(), strict=True):
        assert isinstance(one, np.ndarray)
        same(one, other)
    new, task = np.random.default_rng(3).normal(size=(20, 2)), np.arange(20) % len(SIZES)
    for full in (False, True):
        one, other = there.predict(new, task, full), host.predict(new, task, full)
        same(one.mean, other.mean)
        same(one.variance, other.variance)
        if full:
            same(one.covariance, other.covariance)
    same(there.sign_products(), host.sign_products())
    for t in range(len(SIZES)):
        same(there.evidence_given_others[t], host.evidence_given_others[t])
        same(there.evidence_given(t), host.evidence_given(t))


def test_padding_is_exact():
    """The same task alone, and padded to the size of a larger one, give the same numbers."""
    cells = table((40, 33))
    kernel = Matern(1.0, 1.0)
    tau = np.full(len(cells.y), 3.0)
    both = SharedCovariance(rows_as_tasks(cells.X, cells.starts, TENSORS), [], [], np.zeros((2, 0)), [kernel] * 2)
    post = both.condition(Sites(tau * cells.y, tau))
    assert [b.size for b in layout_of(both).blocks] == [40]
    each = [
        SharedCovariance(PlacedTasks(cells.only(t)), [], [], np.zeros((1, 0)), [kernel]).condition(
            Sites((tau * cells.y)[cells.of(t)], tau[cells.of(t)])
        )
        for t in (0, 1)
    ]
    same(post.evidence, sum(e.evidence for e in each), 1e-12)
    for t in (0, 1):
        same(post.adjoints().specific[t], each[t].adjoints().specific[0], 1e-12)


def test_pickled_posterior_lives_on_the_host_where_there_is_no_gpu():
    cells = table()
    tau = np.full(len(cells.y), 2.0)
    there = shared(cells, TENSORS, "mixed").condition(Sites(tau * cells.y, tau))
    again = pickle.loads(pickle.dumps(there))
    assert isinstance(again.shared.LB, np.ndarray)
    assert again.prior.tasks.device is None or TENSORS.name == "cuda"
    same(again.evidence, there.evidence)
    X, task = cells.X[:5], np.arange(5)
    same(again.predict(X, task).variance, there.predict(X, task).variance)


def multi(kind, device):
    """A prior of each path on one table, with tasks that share inputs."""
    rng = np.random.default_rng(4)
    M, N = 4, 15
    inputs = rng.normal(size=(N, 2))
    counts = (np.outer([1, 2, 1, 3], rng.integers(1, 3, N)) * 1.0).ravel()
    task, index = np.repeat(np.arange(M), N), np.tile(np.arange(N), M)
    if kind != "complete":
        keep = rng.uniform(size=M * N) < (0.15 if kind == "distinct" else 0.7)
        task, index, counts = task[keep], index[keep], counts[keep]
    y = rng.normal(size=len(task))
    cells = merge(inputs[index], task, y, np.ones(len(y)), counts, M)
    design, kernel = Design.from_cells(cells, device), SquaredExponential(1.0, (1.0, 1.5), fixed=("variance",))
    B = np.cov(rng.normal(size=(M, 9)))
    tau = cells.count / rng.uniform(0.05, 0.2, M)[cells.task]
    if kind == "complete":
        prior = CompleteTasks(design, kernel, B)
    elif kind == "low rank":
        prior = LowRankTasks(PlacedTasks(cells, device=device), kernel, inputs[:8], rng.normal(size=(M, 2)))
    elif kind == "low rank with intercepts":
        prior = LowRankTasks(PlacedTasks(cells, device=device), kernel, inputs[:8], rng.normal(size=(M, 2)), 0.4)
    elif kind == "own parts":
        prior = DenseTasks(design, kernel, B, 0.3, [Matern(0.5, 1.0), None, Matern(1.0, 2.0), Constant(0.1)])
    elif kind == "own parts of one form":  # one batch of tasks of several sizes, beside one without a kernel
        own = [Matern(0.5, (1.0, 0.7)), None, Matern(1.0, (2.0, 1.0)), Matern(0.3, (0.4, 3.0))]
        prior = DenseTasks(design, kernel, B, 0.0, own)
    else:
        prior = DenseTasks(design, kernel, B)
    return prior.condition(Sites(tau * cells.y, tau))


KINDS = [
    "complete",
    "low rank",
    "low rank with intercepts",
    "own parts",
    "own parts of one form",
    "repeated",
    "distinct",
]


@pytest.mark.parametrize("kind", KINDS)
def test_symmetric_covariances(kind):
    host, there = multi(kind, None), multi(kind, TENSORS)
    assert torch.is_tensor(there.shared.LB if "low rank" in kind else there.alpha)
    same(there.evidence, host.evidence)
    for name, one in there.adjoints()._asdict().items():
        other = getattr(host.adjoints(), name)
        assert not torch.is_tensor(one)
        lists = ("specific", "bases", "inducing")
        for u, v in zip(one, other, strict=True) if name in lists else [(one, other)]:
            assert (u is None) == (v is None)
            if u is not None:
                same(u, v)
    for one, other in zip(there.marginals(), host.marginals(), strict=True):
        assert isinstance(one, np.ndarray)
        same(one, other)
    new, task = np.random.default_rng(5).normal(size=(9, 2)), np.arange(9) % 4
    for full in (False, True):
        one, other = there.predict(new, task, full), host.predict(new, task, full)
        for name in ("mean", "variance", "covariance"):
            if getattr(one, name) is not None:
                assert isinstance(getattr(one, name), np.ndarray)
                same(getattr(one, name), getattr(other, name))
    if hasattr(host, "by_inputs"):
        same(there.by_inputs(), host.by_inputs())
    if hasattr(host, "information"):
        D = np.random.default_rng(6).normal(size=(len(host.w), 3))
        same(there.information(TENSORS.put(D)), host.information(D))
    if kind == "complete":
        same(there.share_of_transfer(), host.share_of_transfer())
    again = pickle.loads(pickle.dumps(there))
    assert not any(torch.is_tensor(v) for v in vars(again).values())
    same(again.predict(new, task).variance, host.predict(new, task).variance)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=["probit", "logistic"])
@pytest.mark.parametrize("kind", ["shared", "dense"])
def test_expectation_propagation(kind, likelihood):
    cells = table()
    cells = replace(cells, y=np.sign(cells.y), count=np.ones(len(cells.y)))
    results = []
    for device in (None, TENSORS):
        tasks = PlacedTasks(cells, device=device)
        if kind == "shared":
            prior = shared(cells, device, "one form")
        else:
            B = np.eye(len(SIZES)) + 0.5
            prior = DenseTasks(Design.from_cells(cells, device), SquaredExponential(1.0, (1.0, 1.0)), B)
        infer = EPInference(likelihood, max_sweeps=200, tol=1e-11)
        fit = infer(prior, tasks, {})
        assert fit.converged
        results.append((fit, infer(prior, tasks, {}, fit.start)))
    (host, _), (there, warm) = results
    same(there.evidence, host.evidence)
    same(there.sites.nu, host.sites.nu, 1e-8)
    same(there.sites.tau, host.sites.tau, 1e-8)
    assert warm.n_sweeps == 1
    assert torch.is_tensor(there.sites.tau)
    check_adjoints(there.gradient()[0], host.gradient()[0])
    new, task = cells.X[:6] + 0.1, np.arange(6)
    same(there.posterior.predict(new, task).variance, host.posterior.predict(new, task).variance, 1e-8)
