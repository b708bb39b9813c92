"""Tasks spread over workers give what one process gives: evidence, gradient, predictions, chosen rows."""

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import borrow
from borrow.data.read import read_training
from borrow.data.scaling import build
from borrow.estimators.classifier import LIKELIHOODS, ROUGH
from borrow.inference import EPInference
from borrow.kernels import SquaredExponential
from borrow.models.focused import model as focused
from borrow.models.focused.settings import prepare as prepare_focused
from borrow.models.ivm.model import gaussian, select, select_among
from borrow.models.multitask import model as multitask
from borrow.models.multitask.search import start_correlation
from borrow.numerics.progress import Watch
from borrow.tasks import workers as shards
from borrow.tasks.placed import PlacedTasks
from borrow.tasks.workers import InProcess, Processes, add_in_tree, bounds_of_shards

SIZES = (7, 0, 12, 5, 9, 3, 1, 8)


class Forgetful(InProcess):
    """Every pass finds its shard as it was sent: what the pass before kept is lost, as with its worker."""

    def place(self, found):
        return [pickle.dumps(s) for s in found]

    def map(self, f, placed, common, own):
        return super().map(f, [pickle.loads(s) for s in placed], common, own)


def table(seed=0, sizes=SIZES, d=2, labels=False):
    """Unequal tasks, one of them with one row without a target only."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat([f"t{i}" for i in range(len(sizes))], [max(n, 1) for n in sizes])
    X = rng.uniform(-2, 2, (len(tasks), d))
    number = np.array([int(t[1:]) for t in tasks])
    y = np.cos(number)[:] * np.sin(2 * X[:, 0]) + 0.3 * X[:, -1] + 0.1 * rng.normal(size=len(X))
    y = np.where(y > 0, 1.0, 0.0) if labels else y
    y[np.isin(number, np.flatnonzero(np.array(sizes) == 0))] = np.nan
    return X, y, tasks


def data_of(model, X, y, tasks):
    return build(read_training(model, X, y, tasks)[0], True)


def assert_same(one, other, rtol=1e-9):
    assert one[0] == pytest.approx(other[0], rel=rtol)
    for name, g in one[1].items():
        assert_allclose(g, other[1][name], rtol=rtol, atol=rtol * max(np.abs(g).max(initial=0.0), 1.0), err_msg=name)


def moved(values, seed=1):
    rng = np.random.default_rng(seed)
    return {n: v + 0.3 * rng.normal(size=v.shape) for n, v in values.items()}


@pytest.mark.parametrize("workers", [InProcess, Forgetful])
@pytest.mark.parametrize("background", [0, 2])
def test_focused_evidence_and_gradient_are_those_of_one_process(workers, background):
    model = borrow.FocusedGPRegressor()
    data = data_of(model, *table())
    setup, values = prepare_focused(data, PlacedTasks(data.cells), 3, None, {"t2": None}, None, background)
    values["noise"] = np.full(len(SIZES), np.log(0.1))
    setup = replace(setup, Z=data.cells.X[::4], background_Z=data.cells.X[::9])
    spread = PlacedTasks(data.cells, workers())
    assert len(spread.bounds) > 2
    at = moved(values)
    assert_same(
        focused.focused_objective(setup)(at),
        focused.focused_objective(replace(setup, tasks=spread))(at),
    )


@pytest.mark.parametrize("likelihood", ["probit", "logistic"])
def test_ep_on_shards_is_ep(likelihood):
    X, y, tasks = table(labels=True)
    data = data_of(borrow.FocusedGPRegressor(), X, np.where(y > 0.5, 1.0, -1.0) + 0 * y, tasks)
    data = replace(data, cells=replace(data.cells, y=np.sign(data.cells.y)))
    setup, values = prepare_focused(
        data, PlacedTasks(data.cells), 0, None, None, 0.5, infer=EPInference(LIKELIHOODS[likelihood](), tol=ROUGH)
    )
    setup = replace(setup, Z=data.cells.X[::4])
    at = moved(values)
    one = focused.focused_objective(setup)(at)
    for workers in (InProcess(), Forgetful()):
        assert_same(one, focused.focused_objective(replace(setup, tasks=PlacedTasks(data.cells, workers)))(at))


@pytest.mark.parametrize(
    "how",
    [
        {"rank": 2},
        {"rank": 2, "intercept": True},
        {"rank": 1, "diagonal": "free"},
        {"rank": 1, "specific_kernel": "auto", "intercept": True, "share_noise": True},
    ],
    ids=str,
)
def test_symmetric_evidence_and_gradient_are_those_of_one_process(how):
    X, y, tasks = table(sizes=(7, 4, 12, 5, 9, 3, 1, 8))
    model = borrow.MultiTaskGPRegressor(inducing=6, optimizer=None, **how).fit(X, y, tasks=tasks)
    setup, at = model.fitted_.model.setup, moved(model.fitted_.model.values)
    one = multitask.multitask_objective(setup)(at)
    for workers in (InProcess(), Forgetful()):
        spread = PlacedTasks(setup.cells, workers)
        assert_same(one, multitask.multitask_objective(replace(setup, tasks=spread))(at))


def test_many_tasks_start_from_fits_compared_through_the_inducing_inputs(monkeypatch):
    X, y, tasks = table(sizes=(7, 4, 12, 5))
    Z = np.unique(X, axis=0)  # all inputs: then it is no approximation
    model = borrow.MultiTaskGPRegressor(inducing=Z, rank=1, optimizer=None).fit(X, y, tasks=tasks)
    setup, noise = model.fitted_.model.setup, np.full(4, 0.25)
    exact = start_correlation(setup, setup.kernel, noise)
    monkeypatch.setattr("borrow.models.multitask.search.START_PAIRS", 1)
    found = start_correlation(replace(setup, tasks=PlacedTasks(setup.cells, InProcess())), setup.kernel, noise)
    assert_allclose(found, exact, atol=1e-6)


def answers(model, X, tasks):
    mean, std = model.predict(X, tasks=tasks, return_std=True)
    cov = model.predict(X[:6], tasks=tasks[:6], return_cov=True)[1]
    return mean, std, cov


@pytest.mark.parametrize(
    "model",
    [
        borrow.FocusedGPRegressor(primary="t3", optimizer=None, rho=0.5, noise=0.05, inducing=9),
        borrow.MultiTaskGPRegressor(rank=2, inducing=8, intercept=True, optimizer=None),
        borrow.MultiTaskGPRegressor(rank=1, diagonal="free", inducing=8, optimizer=None),
        borrow.HierarchicalGPRegressor(covariance_strength=2.0, max_iter=5, tol=0.0),
        borrow.HierarchicalGPRegressor(),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fitted_models_answer_alike_without_their_workers(model):
    X, y, tasks = table(sizes=(7, 4, 12, 5, 9, 3, 2, 8))
    X, y, tasks = np.vstack([X, X[::3]]), np.append(y, y[::3] + 0.1), np.append(tasks, tasks[::3])  # replicates
    one = clone(model).fit(X, y, tasks=tasks)
    spread = pickle.loads(pickle.dumps(clone(model).set_params(workers=1).fit(X, y, tasks=tasks)))
    assert spread.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_, rel=1e-9)
    new = X + 0.1
    for a, b in zip(answers(one, new, tasks), answers(spread, new, tasks), strict=True):
        assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    if hasattr(one, "leave_one_out"):
        for column in ("mean", "std"):
            assert_allclose(one.leave_one_out()[column], spread.leave_one_out()[column], rtol=1e-7)


def test_a_learnt_focused_model_is_the_same_with_its_standard_errors(monkeypatch):
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)  # so few rows would stay here
    X, y, tasks = table(sizes=(10, 12, 8, 11), d=1)
    model = borrow.FocusedGPRegressor(primary="t0", n_restarts=0, max_iter=200)
    one, spread = (clone(model).set_params(workers=w).fit(X, y, tasks=tasks) for w in (None, 1))
    assert spread.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_, abs=1e-3)
    for column in ("rho", "std_error", "share"):
        assert_allclose(one.relatedness()[column], spread.relatedness()[column], atol=5e-3)


def test_standard_errors_task_by_task_are_the_same(monkeypatch):
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)  # so few rows would stay here
    monkeypatch.setattr("borrow.models.focused.relatedness.WHOLE", 1)
    X, y, tasks = table(sizes=(10, 12, 8, 11), d=1)
    model = borrow.FocusedGPRegressor(primary="t0", optimizer=None, rho=0.7, noise=0.05)
    one, spread = (clone(model).set_params(workers=w).fit(X, y, tasks=tasks) for w in (None, 1))
    assert_allclose(one.relatedness()["std_error"], spread.relatedness()["std_error"], rtol=1e-4)


@pytest.mark.parametrize("kind", ["FocusedGPClassifier", "HierarchicalGPClassifier", "MultiTaskIVMClassifier"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifiers_answer_alike(kind, monkeypatch):
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)  # so few rows would stay here
    X, y, tasks = table(sizes=(9, 8, 12, 7), labels=True)
    extra = {"primary": "t0", "max_iter": 4} if kind == "FocusedGPClassifier" else {}
    extra |= {"n_active": 20, "max_iter": 10} if "IVM" in kind else {}
    model = getattr(borrow, kind)(**extra)
    one, spread = (clone(model).set_params(workers=w).fit(X, y, tasks=tasks) for w in (None, 1))
    assert_allclose(one.predict_proba(X, tasks), spread.predict_proba(X, tasks), atol=1e-6)
    pickle.dumps(spread)


def gaussian_lists(sizes, noise, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (sum(sizes), 1))
    data = data_of(borrow.SingleTaskGPRegressor(), X, rng.normal(size=len(X)), np.repeat(np.arange(len(sizes)), sizes))
    kernel, cells = SquaredExponential(1.0, 0.7), data.cells
    noise = np.asarray(noise, dtype=float)
    one = select(kernel, cells.X, cells.starts, gaussian(cells, noise), d)
    return one, select_among(PlacedTasks(cells, InProcess()), kernel, gaussian, noise, d)


@pytest.mark.parametrize(
    ("noise", "d"),
    [([0.1] * 6, 30), ([0.001, 5.0, 5.0, 5.0, 5.0, 5.0], 30), ([0.1, 0.2, 0.3, 0.1, 0.2, 0.3], 79), ([0.1] * 6, 1)],
    ids=["ties", "one shard has most", "all rows", "one row"],
)
def test_rows_chosen_on_workers_are_those_of_one_process(noise, d):
    one, spread = gaussian_lists((20, 9, 15, 5, 20, 10), noise, d)
    assert_array_equal(one.active, spread.active)
    assert_array_equal(one.gain, spread.gain)
    assert_array_equal(one.z, spread.z)


@pytest.mark.parametrize("selection", ["entropy", "random"])
def test_ivm_regressors_choose_alike(selection):
    X, y, tasks = table(sizes=(20, 9, 15, 5, 20, 10))
    model = borrow.MultiTaskIVMRegressor(n_active=25, selection=selection, max_iter=30)
    one, spread = (clone(model).set_params(workers=w).fit(X, y, tasks=tasks) for w in (None, 1))
    assert_array_equal(one.active_, spread.active_)
    assert spread.log_marginal_likelihood_ == one.log_marginal_likelihood_
    assert spread.adapt(X[:3], y[:3]).workers is None


@pytest.mark.parametrize("sizes", [[5], [0, 0, 3], [1] * 40, [50_000, 1, 1, 1], [300] * 2000, [0, 0]], ids=len)
def test_shards_cover_every_task_once(sizes):
    bounds = bounds_of_shards(sizes)
    assert [t for at in bounds for t in range(len(sizes))[at]] == list(range(len(sizes)))
    assert all(at.stop > at.start for at in bounds)
    rows = [sum(sizes[at]) for at in bounds]
    assert max(rows) <= max(2 * shards.ROWS, max(sizes) + shards.ROWS)


@pytest.mark.parametrize("n", [1, 2, 8, 9, 64, 65, 200])
def test_the_tree_keeps_the_order(n):
    total = add_in_tree([(i, [i], np.full(2, float(i))) for i in range(n)])
    assert total[0] == sum(range(n))
    assert total[1] == list(range(n))
    assert_array_equal(total[2], np.full(2, float(sum(range(n)))))


def weigh(shard, common, factor):
    return float(shard.sum()) * factor + common, os.getpid()


def die_once(shard, path):
    """Kills its own process the first time it is asked."""
    path = Path(path)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(shard.sum())


def fail(shard, common):
    raise ValueError("no such thing")


def test_processes_work_on_their_own_shards_and_outlive_a_kill(tmp_path):
    workers = Processes(2)
    try:
        parts = [np.full(3, float(i)) for i in range(5)]
        placed = workers.place(parts)
        found = workers.map(weigh, placed, 1.0, [(2.0,)] * 5)
        assert [v for v, _ in found] == [6.0 * i + 1.0 for i in range(5)]
        pids = [pid for _, pid in found]
        assert pids == [pids[0], pids[1], pids[0], pids[1], pids[0]]
        assert os.getpid() not in pids
        assert workers.map(die_once, placed, str(tmp_path / "dead"), [()] * 5) == [3.0 * i for i in range(5)]
        with pytest.raises(ValueError, match="no such thing"):
            workers.map(fail, placed, None, [()] * 5)
        X, y, tasks = table()
        data = data_of(borrow.FocusedGPRegressor(), X, y, tasks)
        setup, values = prepare_focused(data, PlacedTasks(data.cells), 3, None, None, 0.5)
        values["noise"] = np.full(len(SIZES), np.log(0.1))
        setup = replace(setup, Z=data.cells.X[::4])
        here, there = (
            focused.focused_objective(replace(setup, tasks=PlacedTasks(data.cells, w)))(values)
            for w in (InProcess(), workers)
        )
        assert_same(here, there, rtol=1e-12)
    finally:
        workers.close()
    assert not workers.folder.exists()


@pytest.mark.parametrize("workers", [0, -2, 1.5, True, "threads", [2]])
def test_what_is_no_crew_is_refused_in_a_sentence(workers):
    X, y, tasks = table()
    for model in (borrow.FocusedGPRegressor(primary="t0"), borrow.HierarchicalGPRegressor()):
        with pytest.raises(ValueError, match=r"workers=.*expected None .*number of processes"):
            model.set_params(workers=workers).fit(X, y, tasks=tasks)


def test_dense_tasks_cannot_be_spread():
    X, y, tasks = table()
    with pytest.raises(ValueError, match="give rank= and inducing="):
        borrow.MultiTaskGPRegressor(workers=1).fit(X, y, tasks=tasks)


def test_without_dask_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    X, y, tasks = table()
    with pytest.raises(ImportError, match=r"pip install 'borrow\[dask\]'"):
        borrow.FocusedGPRegressor(primary="t0", workers="dask").fit(X, y, tasks=tasks)


def test_fitting_here_imports_nothing_of_dask():
    code = (
        "import sys, borrow\n"
        "borrow.FocusedGPRegressor(primary=1).fit([([[0.0], [1.0]], [0.0, 1.0])] * 2)\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('dask', 'distributed')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_watch_says_evidence_and_pace(capsys):
    watch = Watch(shown=True, every=0.0)
    for value in (-12.5, -10.25, -11.0):
        watch(value)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "evidence -10.25 after 3 evaluations" in lines[-1]
    Watch(shown=False)(1.0)
    assert capsys.readouterr().err == ""


def test_a_fit_that_stops_early_says_so_with_workers_too():
    X, y, tasks = table(sizes=(10, 12), d=1)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        borrow.FocusedGPRegressor(primary="t0", max_iter=1, n_restarts=0, workers=1).fit(X, y, tasks=tasks)
