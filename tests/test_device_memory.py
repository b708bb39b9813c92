"""Memory on a device: nothing waits for the garbage collector, a fit has a bounded peak, and a full device is said.

Tensors lie on the CPU. The collector is off in these tests, so that a tensor in a reference cycle stays, and is seen.
"""

import gc
import weakref

import numpy as np
import pytest
from sklearn.base import clone
from test_device import CLASSIFIERS, REGRESSORS, table, tensors  # noqa: F401

import borrow
from borrow import device as devices
from borrow import hyper, linalg_torch
from borrow.covariance import layout
from borrow.kernels import Matern, SquaredExponential

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'borrow[gpu]'")
pytestmark = [
    pytest.mark.usefixtures("tensors"),
    pytest.mark.filterwarnings("ignore:the optimiser stopped:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*without converging.*:sklearn.exceptions.ConvergenceWarning"),
]
MODELS = {f"{n}, regressor": m for n, m in REGRESSORS.items()} | {f"{n}, classifier": m for n, m in CLASSIFIERS.items()}


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def live():
    """Number of tensors that Python still refers to, those in unreachable cycles among them."""
    return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())


def fit(name, n=60, **settings):
    X, y, task = table(n=n)
    model = clone(MODELS[name]).set_params(device="cuda", **settings)
    if "max_iter" in model.get_params():
        model.set_params(max_iter=3)
    return model.fit(X, y > 0.1 if name.endswith("classifier") else y, tasks=task)


@pytest.mark.parametrize("name", MODELS)
def test_no_fit_leaves_a_tensor_behind(name, no_collector):
    before = live()
    for _ in range(2):
        fit(name)
        assert live() == before


@pytest.mark.parametrize("name", MODELS)
def test_no_evaluation_leaves_more_tensors_than_the_one_before(name, no_collector, monkeypatch):
    """After each evaluation of an optimiser's run only what the next one starts from is there."""
    minimize, runs = hyper.minimize, []

    def counting(descend, *args, **options):
        counts = []
        runs.append(counts)

        def counted(x):
            found = descend(x)
            counts.append(live())
            return found

        return minimize(counted, *args, **options)

    monkeypatch.setattr(hyper, "minimize", counting)
    fit(name)
    assert runs or name in UNLIKE
    for counts in runs:
        assert len(set(counts[1:])) <= 1, counts


#: Fits that evaluate without `hyper.maximise`: by scoring steps or by EM.
UNLIKE = ("dense, scoring, regressor", "hierarchical, weights, regressor", "hierarchical, weights, classifier")


def peak_bytes(work):
    """The most bytes that were allocated at once by PyTorch in the call, those inside its operators too."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    deltas = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    assert len(deltas) > 100
    return int(np.cumsum(deltas).max())
