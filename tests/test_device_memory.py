"""Memory on a device: nothing waits for the garbage collector, a fit has a bounded peak, and a full device is said.

Tensors lie on the CPU. The collector is off in these tests, so that a tensor in a reference cycle stays, and is seen.
"""

import gc

import numpy as np
import pytest
from sklearn.base import clone

import borrow
from borrow.kernels import Linear, Matern, RationalQuadratic, SquaredExponential
from borrow.numerics import device as devices
from borrow.numerics import linalg_torch
from borrow.numerics import optimise as hyper
from test_device import CLASSIFIERS, REGRESSORS, table, tensors  # noqa: F401  # a fixture

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'borrow[gpu]'")
pytestmark = [
    pytest.mark.usefixtures("tensors"),
    pytest.mark.filterwarnings("ignore:the optimiser stopped:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*is not identified:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:EM stopped:sklearn.exceptions.ConvergenceWarning"),
]
MODELS = {f"{n}, regressor": m for n, m in REGRESSORS.items()} | {f"{n}, classifier": m for n, m in CLASSIFIERS.items()}


@pytest.fixture(autouse=True)
def no_rows_are_few(monkeypatch):
    """As with many rows: the focused model has its structured form, and hyper-parameters are taken as known.

    Of few rows it writes out all pairs, on the host, and every model explores points around its optimum.
    """
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)
    for module in ("gp", "focused"):
        monkeypatch.setattr(f"borrow.models.{module}.model.MOST_ROWS", 0)


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def tensors_alive():
    """Tensors that Python still refers to, those in unreachable cycles among them."""
    return [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]


def live():
    return len(tensors_alive())


#: Fits that evaluate without `hyper.maximise`: by scoring steps or by EM.
UNLIKE = ("dense, scoring, regressor", "hierarchical, weights, regressor", "hierarchical, weights, classifier")


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


def peak_bytes(work):
    """The most bytes that were allocated at once by PyTorch in the call, those inside its operators too."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    deltas = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    assert len(deltas) > 100
    return int(np.cumsum(deltas).max())


LENGTHS = (2.0,) * 8
PLAIN = {"prior": None, "task_prior": None, "share_noise": True}
#: Functions of three tasks' own add blocks of a third of the rows each, which some kernels hold several times.
ONE_KERNEL = {"specific_kernel": None}
IN_ONE_MATRIX = {
    "dense": borrow.MultiTaskGPRegressor(),
    "dense, own kernels": borrow.MultiTaskGPRegressor(intercept=True, specific_kernel="auto"),
    "dense, Matern": borrow.MultiTaskGPRegressor(kernel=Matern(1.0, LENGTHS), **ONE_KERNEL),
    "dense, rough": borrow.MultiTaskGPRegressor(kernel=Matern(1.0, LENGTHS, nu=0.5), **ONE_KERNEL),
    "dense, rational quadratic": borrow.MultiTaskGPRegressor(kernel=RationalQuadratic(1.0, LENGTHS), **ONE_KERNEL),
    "dense, sum": borrow.MultiTaskGPRegressor(kernel=SquaredExponential(1.0, LENGTHS) + Linear(0.5)),
    "dense, scoring": borrow.MultiTaskGPRegressor(**PLAIN),
    "dense, scoring, Matern": borrow.MultiTaskGPRegressor(kernel=Matern(1.0, LENGTHS), **PLAIN),
    "dense, EM": borrow.MultiTaskGPRegressor(solver="em"),
    "dense, classifier": borrow.MultiTaskGPClassifier(),
    "pooled": borrow.PooledGPRegressor(inducing=None),
    "pooled, Matern": borrow.PooledGPRegressor(inducing=None, kernel=Matern(1.0, LENGTHS)),
    "pooled, classifier": borrow.PooledGPClassifier(inducing=None),
}


WAYS = [*((name, "many columns") for name in IN_ONE_MATRIX), ("dense", "few columns"), ("dense", "repeated")]


@pytest.mark.parametrize(("name", "inputs"), WAYS)
def test_a_fit_has_at_most_seven_matrices_at_once(name, inputs, no_collector, monkeypatch):
    monkeypatch.setattr(linalg_torch, "BASE", 16)  # the recursions of large matrices in a small one
    monkeypatch.setattr(linalg_torch, "LEAF", 32)
    n, rng = 240, np.random.default_rng(0)
    X = rng.normal(size=(n, 2 if inputs == "few columns" else 8))
    X = np.repeat(X[::2], 2, axis=0) if inputs == "repeated" else X
    task = np.arange(n) % 3
    y = np.sin(X[:, 0]) * (1.0 + 0.1 * task) + 0.3 * rng.normal(size=n)
    model = clone(IN_ONE_MATRIX[name]).set_params(device="cuda", max_iter=3)
    peak = peak_bytes(lambda: model.fit(X, y > 0.0 if "classifier" in name else y, tasks=task))
    assert n * n < peak / 8 < devices.MATRICES * n * n + 60 * n  # and a few arrays of the size of X


def run_out(monkeypatch, at, rows):
    """The device is full at some factorisation, and then has room for a matrix of so many rows."""
    cholesky, room, calls = linalg_torch.cholesky, [1e12], []

    def full(A, overwrite=False):
        calls.append(A.shape)
        if len(calls) == at:
            room[0] = 8.0 * devices.MATRICES * rows**2 + 1.0
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 17 GiB")
        return cholesky(A, overwrite)

    monkeypatch.setattr(linalg_torch, "cholesky", full)
    monkeypatch.setattr(devices.Device, "free", lambda self: room[0])


@pytest.mark.parametrize("name", MODELS)
def test_a_full_device_is_said_and_everything_on_it_given_back(name, no_collector, monkeypatch):
    before = {id(t) for t in tensors_alive()}
    run_out(monkeypatch, at=3, rows=41)
    with pytest.raises(
        MemoryError, match=r"ran out of memory.*7 n\^2 numbers of 8 bytes.*at most about 41 rows fit"
    ) as said:
        fit(name)
    error = said.value  # kept, as a caller may keep it
    assert error.__suppress_context__  # PyTorch's own words are not printed
    left = [tuple(t.shape) for t in tensors_alive() if id(t) not in before]
    assert all(shape[-1] == 2 for shape in left), left  # inputs, in a frame of the traceback: no matrix of all pairs
    del said, error
    assert live() == len(before)


def test_a_model_whose_device_was_full_fits_the_next_time(monkeypatch):
    X, y, task = table()
    model = borrow.MultiTaskGPRegressor(device="cuda", optimizer=None, noise=0.02)
    with monkeypatch.context() as patched:
        run_out(patched, at=1, rows=41)
        with pytest.raises(
            MemoryError, match=r"here 90, a fit needs about 7 n\^2 numbers of 8 bytes, here 0.000422 GiB"
        ):
            model.fit(X, y, tasks=task)
    host = clone(model).set_params(device="cpu").fit(X, y, tasks=task)
    assert model.fit(X, y, tasks=task).log_marginal_likelihood_ == pytest.approx(host.log_marginal_likelihood_)


def test_an_error_that_is_not_of_memory_is_passed_on(monkeypatch):
    def broken(A, overwrite=False):
        raise RuntimeError("another")

    monkeypatch.setattr(linalg_torch, "cholesky", broken)
    X, y, task = table()
    with pytest.raises(RuntimeError, match="another"):
        borrow.MultiTaskGPRegressor(device="cuda").fit(X, y, tasks=task)
