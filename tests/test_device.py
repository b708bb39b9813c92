"""`device=` of the estimators: the same answers on tensors as on the host, and sentences where there is no GPU.

Tensors lie on the CPU here, or where BORROW_TEST_DEVICE says: `borrow.numerics.device.find_gpu` is the one function
that says where a GPU is.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import borrow
from borrow.kernels import Linear
from borrow.numerics import device as devices

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'borrow[gpu]'")
PLACE = os.environ.get("BORROW_TEST_DEVICE", "cpu")


@pytest.fixture(autouse=True)
def no_rows_are_few(monkeypatch):
    """Of few rows the focused model writes out all pairs, on the host; here the structured form is what is tested."""
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)


@pytest.fixture
def tensors(monkeypatch):
    """A GPU that is the CPU under PyTorch, and no task too small for it; records what was put there."""
    put, seen = devices.Device.put, []
    monkeypatch.setattr(devices, "missing", lambda: None)
    monkeypatch.setattr(devices, "find_gpu", lambda: devices.Device(PLACE))
    monkeypatch.setattr(devices, "ALONE_ROWS", 1)
    monkeypatch.setattr(devices.Device, "put", lambda self, array: seen.append(1) or put(self, array))
    return seen


def table(seed=0, n=90, labels=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    task = rng.integers(0, labels, n)
    y = np.sin(2 * X[:, 0]) * (1 + 0.3 * task) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)
    return X, y, task


REGRESSORS = {
    "focused": borrow.FocusedGPRegressor(primary=0, n_restarts=0),
    "focused, background": borrow.FocusedGPRegressor(primary=0, n_restarts=0, background=1, rho_prior=None),
    "single": borrow.SingleTaskGPRegressor(),
    "pooled": borrow.PooledGPRegressor(),
    "pooled, sparse": borrow.PooledGPRegressor(inducing=5),
    "dense": borrow.MultiTaskGPRegressor(),
    "dense, scoring": borrow.MultiTaskGPRegressor(prior=None, task_prior=None, share_noise=True),
    "em": borrow.MultiTaskGPRegressor(solver="em"),
    "low rank": borrow.MultiTaskGPRegressor(rank=2, inducing=9, intercept=True),
    "blocks": borrow.MultiTaskGPRegressor(task_covariance="diagonal", specific_kernel="auto"),
    "hierarchical": borrow.HierarchicalGPRegressor(covariance_strength=2.0),
    "hierarchical, auto": borrow.HierarchicalGPRegressor(),
    "hierarchical, weights": borrow.HierarchicalGPRegressor(base_kernel=Linear() + 0.5, covariance_strength=2.0),
    "ivm": borrow.MultiTaskIVMRegressor(n_active=30),
    "ivm, random": borrow.MultiTaskIVMRegressor(n_active=30, selection="random", noise_from="active"),
}
CLASSIFIERS = {
    "focused": borrow.FocusedGPClassifier(primary=0),
    "single": borrow.SingleTaskGPClassifier(),
    "pooled": borrow.PooledGPClassifier(inducing=8),
    "logistic": borrow.PooledGPClassifier(inducing=None, likelihood="logistic"),
    "multi-task": borrow.MultiTaskGPClassifier(),
    "multi-task, rank": borrow.MultiTaskGPClassifier(rank=1, inducing=8),
    "hierarchical": borrow.HierarchicalGPClassifier(),
    "hierarchical, weights": borrow.HierarchicalGPClassifier(base_kernel=Linear() + 0.5, covariance_strength=2.0),
    "ivm": borrow.MultiTaskIVMClassifier(n_active=30),
    "ivm, EP": borrow.MultiTaskIVMClassifier(n_active=30, ep_sweeps=3),
}


def close(one, other, tol):
    assert isinstance(one, np.ndarray)
    assert_allclose(one, other, rtol=tol, atol=tol)


def compare_regressors(host, there, tol):
    new, asked = table(1, 12)[0], np.arange(12) % 3
    assert_allclose(there.log_marginal_likelihood_, host.log_marginal_likelihood_, rtol=tol)
    for options in ({"return_std": True}, {"return_cov": True}):
        for one, other in zip(
            there.predict(new, tasks=asked, **options), host.predict(new, tasks=asked, **options), strict=True
        ):
            close(one, other, tol)
    if hasattr(host, "leave_one_out"):
        close(np.array(there.leave_one_out()["mean"]), np.array(host.leave_one_out()["mean"]), tol)
    again = pickle.loads(pickle.dumps(there))
    close(again.predict(new, tasks=asked), host.predict(new, tasks=asked), tol)
    close(stored(there).predict(new, tasks=asked), host.predict(new, tasks=asked), tol)


def stored(model):
    """Saved and loaded: no tensor is left."""
    with tempfile.TemporaryDirectory() as folder:
        return borrow.store.load(borrow.store.save(model, Path(folder) / "model"))


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_give_the_same_numbers(name, tensors):
    X, y, task = table()
    model = clone(REGRESSORS[name]).set_params(optimizer=None, noise=0.02)
    if name in ("focused", "focused, background"):
        model.set_params(rho={1: 0.6, 2: -0.3})
    host = clone(model).fit(X, y, tasks=task)
    assert not tensors
    there = clone(model).set_params(device="cuda").fit(X, y, tasks=task)
    assert tensors
    compare_regressors(host, there, 1e-8)


SPREAD = ["focused", "focused, background", "low rank", "blocks", "hierarchical", "hierarchical, weights", "ivm"]


@pytest.mark.parametrize("name", SPREAD)
def test_workers_put_their_shards_on_the_device(name, tensors):
    """Several shards, each computed on tensors, and what they answer put together on the host."""
    X, y, task = table(labels=6, n=120)
    model = clone(REGRESSORS[name]).set_params(optimizer=None, noise=0.02)
    if name in ("focused", "focused, background"):
        model.set_params(rho={1: 0.6, 2: -0.3})
    if name == "blocks":
        model.set_params(inducing=9)  # otherwise it has one block per task and takes no workers
    host = clone(model).fit(X, y, tasks=task)
    there = clone(model).set_params(device="cuda", workers=1).fit(X, y, tasks=task)
    assert tensors
    compare_regressors(host, there, 1e-8)


@pytest.mark.parametrize("name", ["focused", "hierarchical", "ivm"])
def test_workers_of_a_classifier_put_their_shards_on_the_device(name, tensors):
    X, y, task = table(labels=6, n=120)
    y, new = np.where(y > 0.1, "high", "low"), table(1, 12)[0]
    model = clone(CLASSIFIERS[name]).set_params(optimizer=None)
    host = clone(model).fit(X, y, tasks=task)
    there = clone(model).set_params(device="cuda", workers=1).fit(X, y, tasks=task)
    assert tensors
    close(there.predict_proba(new, tasks=np.arange(12) % 3), host.predict_proba(new, tasks=np.arange(12) % 3), 1e-8)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_give_the_same_numbers(name, tensors):
    X, y, task = table(n=70)
    y = np.where(y > 0.1, "high", "low")
    new, asked = table(1, 12)[0], np.arange(12) % 3
    model = clone(CLASSIFIERS[name]).set_params(optimizer=None)
    host = clone(model).fit(X, y, tasks=task)
    there = clone(model).set_params(device="cuda").fit(X, y, tasks=task)
    assert tensors
    close(there.predict_proba(new, tasks=asked), host.predict_proba(new, tasks=asked), 1e-8)
    for again in (pickle.loads(pickle.dumps(there)), stored(there)):
        close(again.predict_proba(new, tasks=asked), host.predict_proba(new, tasks=asked), 1e-8)


@pytest.mark.filterwarnings("ignore:the optimiser stopped:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["focused", "dense", "dense, scoring", "em", "pooled, sparse", "hierarchical", "ivm"])
def test_fits_end_at_the_same_optimum(name, tensors, monkeypatch):
    """Optimisers stop within a tolerance, and rounding decides where: the optimum is the same to that tolerance."""
    monkeypatch.setattr("borrow.models.gp.model.CREEPING_TOL", 1e-6)  # of learnt inducing inputs: not on the way there
    monkeypatch.setattr("borrow.models.multitask.sharing.STILL", 1e-7)  # of sharing: the same
    X, y, task = table(n=60)
    model = clone(REGRESSORS[name]).set_params(**({"max_iter": 4} if name == "em" else {}))
    host = clone(model).fit(X, y, tasks=task)
    there = clone(model).set_params(device="cuda").fit(X, y, tasks=task)
    compare_regressors(host, there, 1e-3)
    if name == "focused":
        for column in ("rho", "std_error"):
            close(np.array(there.relatedness()[column]), np.array(host.relatedness()[column]), 1e-2)


def test_classifier_fits_end_at_the_same_optimum(tensors):
    X, y, task = table(n=50)
    models = [clone(CLASSIFIERS["focused"]).set_params(device=d).fit(X, y > 0.1, tasks=task) for d in ("cpu", "cuda")]
    one, other = (m.predict_proba(X, tasks=task) for m in models)
    close(one, other, 1e-3)
    close(np.array(models[1].relatedness()["rho"]), np.array(models[0].relatedness()["rho"]), 1e-2)


def test_small_tasks_stay_on_the_host(tensors, monkeypatch):
    monkeypatch.setattr(devices, "ALONE_ROWS", 1000)
    X, y, task = table()
    borrow.SingleTaskGPRegressor(optimizer=None, device="cuda").fit(X, y, tasks=task)
    assert not tensors


def test_auto_is_the_host_for_few_rows_and_the_gpu_for_many(tensors, monkeypatch):
    assert devices.resolve("auto", devices.AUTO_ROWS - 1) is None
    assert devices.resolve("auto", devices.AUTO_ROWS).name == PLACE
    monkeypatch.setattr(devices, "missing", lambda: "none there")
    assert devices.resolve("auto", 10**9) is None


def test_no_gpu_is_said_in_a_sentence():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    X, y, task = table()
    with pytest.raises(RuntimeError, match=r"device='cuda': PyTorch .* sees no CUDA GPU.*or use device='cpu'"):
        borrow.FocusedGPRegressor(primary=0, device="cuda").fit(X, y, tasks=task)
    borrow.PooledGPRegressor(device="auto", optimizer=None).fit(X, y, tasks=task)


def test_no_pytorch_is_said_with_the_remedy(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"not installed; pip install 'borrow\[gpu\]'"):
        borrow.PooledGPRegressor(device="cuda").fit(*table()[:2])


@pytest.mark.parametrize("device", ["gpu", None, 0])
def test_another_device_is_refused(device):
    X, y, task = table(n=12)
    for model in (borrow.SingleTaskGPRegressor, borrow.SingleTaskGPClassifier, borrow.HierarchicalGPRegressor):
        with pytest.raises(ValueError, match=r"device=.*expected 'cpu', 'cuda' or 'auto'"):
            model(device=device).fit(X, np.sign(y) if "Classifier" in model.__name__ else y, tasks=task)


@pytest.mark.parametrize(
    "model",
    [
        borrow.FocusedGPRegressor(primary=0),
        borrow.MultiTaskGPRegressor(),
        borrow.PooledGPRegressor(inducing=None),
        borrow.HierarchicalGPRegressor(optimizer=None),
        borrow.PooledGPClassifier(inducing=None),
        borrow.MultiTaskIVMRegressor(optimizer=None),
    ],
    ids=lambda m: type(m).__name__,
)
def test_too_little_memory_is_said_before_anything_is_allocated(model, tensors, monkeypatch):
    monkeypatch.setattr(devices.Device, "free", lambda self: 1000.0)
    monkeypatch.setattr(devices.Device, "put", lambda self, array: pytest.fail("allocated"))
    X, y, task = table()
    y = np.sign(y) if "Classifier" in type(model).__name__ else y
    with pytest.raises(MemoryError, match=r"needs about .* and 1e\+03 bytes are free on the GPU; .* device='cpu'"):
        clone(model).set_params(device="cuda").fit(X, y, tasks=task)


def test_free_memory_counts_what_pytorch_keeps_in_reserve(monkeypatch):
    gpu = devices.Device("cuda")
    cuda = SimpleNamespace(
        memory_reserved=lambda name: 300, memory_allocated=lambda name: 100, mem_get_info=lambda name: (1000, 5000)
    )
    monkeypatch.setattr(devices.Device, "torch", SimpleNamespace(cuda=cuda))
    assert gpu.free() == 1200.0


def test_nothing_of_pytorch_is_imported_on_the_host():
    code = (
        "import sys\n"
        "import numpy as np, borrow\n"
        "X = np.linspace(0, 1, 12)[:, None]\n"
        "for model in (borrow.FocusedGPRegressor(primary=0), borrow.MultiTaskGPRegressor(optimizer=None)):\n"
        "    model.fit(X, np.sin(3 * X[:, 0]), tasks=np.arange(12) % 2)\n"
        "print(sorted(m for m in ('torch', 'array_api_compat') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
