"""Tasks on a real Dask cluster of two processes: the same answer, also when workers are killed; rows do not travel."""

import importlib.util
import logging
import os
import random
import signal
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import borrow
from borrow.models.focused.model import focused_objective
from borrow.tasks.placed import PlacedTasks
from borrow.tasks.workers import InProcess

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'borrow[dask]'")
distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'borrow[dask]'")
from borrow.tasks.dask import DaskWorkers  # noqa: E402
from borrow.tasks.workers import LostWorkersError  # noqa: E402

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("dask_scale", BENCHMARKS / "dask_scale.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def local():
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    slow = {"distributed.deploy.lost-worker-timeout": "10 minutes"}  # a busy machine restarts a worker late
    with (
        dask.config.set(slow),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **quiet) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def client(local):
    with distributed.Client(local) as client:
        yield client


def test_evaluations_are_those_of_one_process(bench, client):
    setup, values = bench.problem(20, 6)
    here, there = (
        focused_objective(replace(setup, tasks=PlacedTasks(setup.cells, workers)))(values)
        for workers in (InProcess(), DaskWorkers(client))
    )
    alone = focused_objective(setup)(values)
    assert there[0] == pytest.approx(here[0], rel=1e-13)
    assert there[0] == pytest.approx(alone[0], rel=1e-9)
    for name, g in there[1].items():
        assert_allclose(g, here[1][name], rtol=1e-9, atol=1e-9)


def test_a_dask_frame_partitioned_by_task_is_fitted_by_its_workers(client):
    dd = pytest.importorskip("dask.dataframe")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(-2, 2, 48), "site": np.repeat(["a", "b", "c", "d"], 12)})
    frame["y"] = np.sin(2 * frame["x"]) * frame["site"].map({"a": 1.0, "b": -1.0, "c": 0.5, "d": 0.1})
    table = dd.from_pandas(frame, npartitions=4, sort=False)
    model = borrow.FocusedGPRegressor("site", "a", optimizer=None, rho=0.5, noise=0.01)
    one = clone(model).set_params(workers=1).fit(frame[["x", "site"]], frame["y"])
    many = clone(model).set_params(workers="dask").fit(table[["x", "site"]], table["y"])
    assert many.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_, rel=1e-10)
    new = pd.DataFrame({"x": [0.3, 0.4], "site": ["c", "a"]})
    assert_allclose(one.predict(new), many.predict(new), rtol=1e-9)


def some_rows(i, outside):
    """One partition, with rows of all tasks; it may not be made in the process `outside`."""
    assert os.getpid() != outside
    rng = np.random.default_rng(i)
    frame = pd.DataFrame({"x": rng.uniform(-2, 2, 16), "site": list("abcd") * 4})
    frame["y"] = np.sin(2 * frame["x"]) * frame["site"].map({"a": 1.0, "b": -1.0, "c": 0.5, "d": 0.1})
    return frame


def fit_there(model, table):
    """As docs/large.md has it."""
    with distributed.worker_client():
        return model.fit(table[["x", "site"]], table["y"])


def test_a_fit_led_by_a_worker_keeps_the_rows_of_a_dask_frame_on_the_cluster(client):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.concat([some_rows(i, None) for i in range(3)], ignore_index=True)
    table = dd.from_map(some_rows, range(3), outside=os.getpid(), meta=frame[:0])
    model = borrow.FocusedGPRegressor("site", "a", optimizer=None, rho=0.5, noise=0.01, workers=1)
    one = clone(model).fit(frame[["x", "site"]], frame["y"])
    led = client.submit(fit_there, clone(model).set_params(workers="dask"), table)
    evidence = client.submit(lambda m: m.log_marginal_likelihood_, led).result(timeout=120)
    assert evidence == pytest.approx(one.log_marginal_likelihood_, rel=1e-10)
    new = pd.DataFrame({"x": [0.3, 0.4], "site": ["c", "a"]})
    answer = client.submit(lambda m: m.predict(new), led).result(timeout=120)
    assert_allclose(answer, one.predict(new), rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        borrow.MultiTaskGPRegressor(rank=1, inducing=5, optimizer=None),
        borrow.HierarchicalGPRegressor(covariance_strength=2.0, max_iter=2, optimizer=None, tol=1e9),
        borrow.MultiTaskIVMRegressor(n_active=10, optimizer=None),
        borrow.FocusedGPClassifier(primary=0, optimizer=None, rho=0.5),
    ],
    ids=lambda m: type(m).__name__,
)
def test_every_model_is_that_of_one_process(model, client):
    rng = np.random.default_rng(1)
    X, tasks = rng.uniform(-2, 2, (40, 1)), np.repeat(np.arange(5), 8)
    y = np.sin(2 * X[:, 0]) + 0.1 * tasks
    y = y > 0 if "Classifier" in type(model).__name__ else y
    one, many = (clone(model).set_params(workers=w).fit(X, y, tasks=tasks) for w in (1, "dask"))
    assert many.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_, rel=1e-10)


def use_tensors(on):
    """In a worker: take tensors on its CPU for a GPU; returns how many arrays were made tensors so far."""
    from borrow.numerics import device

    if not hasattr(device, "made"):
        device.made, device.usual, device.plain = [], device.again, device.Device.put
        device.Device.put = lambda self, array: device.made.append(1) or device.plain(self, array)
    device.again = (lambda name: device.Device("cpu")) if on else device.usual
    return len(device.made)


@pytest.mark.parametrize("workers", ["dask", None])
def test_a_device_with_workers_is_the_device_of_each(workers, client, monkeypatch):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'borrow[gpu]'")
    from borrow.numerics import device

    rng = np.random.default_rng(1)
    X, tasks = rng.uniform(-2, 2, (60, 1)), np.repeat(np.arange(6), 10)
    y = np.sin(2 * X[:, 0]) + 0.1 * tasks
    monkeypatch.setattr("borrow.models.focused.search.EXACT_ROWS", 0)  # all pairs written out take no workers
    model = borrow.FocusedGPRegressor(primary=0, optimizer=None, rho=0.5, noise=0.1)
    one = clone(model).fit(X, y, tasks=tasks)
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "find_gpu", lambda: device.Device("cpu"))
    before = sum(client.run(use_tensors, True).values())
    try:
        many = clone(model).set_params(workers=workers, device="cuda").fit(X, y, tasks=tasks)
        made = sum(client.run(use_tensors, True).values()) - before
    finally:
        client.run(use_tensors, False)
    assert (made > 0) == (workers == "dask")
    assert many.log_marginal_likelihood_ == pytest.approx(one.log_marginal_likelihood_, rel=1e-9)


def test_bytes_moved_do_not_depend_on_the_rows_of_a_task(bench, client):
    bench.count_bytes()
    client.run(bench.count_bytes)
    found = []
    for rows in (5, 300):
        setup, values = bench.problem(12, rows)
        objective = bench.objective_with(setup, DaskWorkers(client))
        objective(values)
        count = lambda: bench.counted() + sum(client.run(bench.counted).values())  # noqa: E731
        marks = [count()]
        for _ in range(12):
            objective(values)
            marks.append(count())
        found.append(min(np.diff(marks)))  # heartbeats come and go
    rows_alone = 13 * 300 * 3 * 8  # bytes of x, y and count
    assert found[1] < found[0] + 0.4 * rows_alone


def test_a_search_ends_where_it_would_have_though_workers_are_killed(bench, local, client):
    """Three kills at random moments: between evaluations, and inside one."""
    setup, values = bench.problem(12, 8)
    generator, workers = random.Random(3), DaskWorkers(client)
    moments, submit, calls = set(generator.sample(range(10, 75), 3)), workers._submit, [0]

    def submit_and_kill(*args, **where):
        calls[0] += 1
        if calls[0] in moments:
            os.kill(bench.running(local, generator), signal.SIGKILL)  # its nanny starts another one
        return submit(*args, **where)

    workers._submit = submit_and_kill
    calm = bench.fit(setup, values, 4, InProcess())
    hurt = bench.fit(setup, values, 4, workers)
    assert calls[0] > max(moments)
    assert workers.lost > 0
    for name in ("at the start", "at the end", "x"):
        assert_allclose(hurt[name], calm[name], rtol=1e-8, atol=1e-8)


def test_a_cluster_without_workers_is_said(monkeypatch):
    monkeypatch.setattr("borrow.tasks.dask.PATIENCE", 0.2)
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with (
        distributed.LocalCluster(n_workers=0, processes=False, **quiet) as empty,
        distributed.Client(empty, set_as_default=False) as lonely,
    ):
        workers = DaskWorkers(lonely)
        with pytest.raises(LostWorkersError, match="has no worker"):
            workers.map(str, workers.place([1.0]), None, [()])


def test_workers_that_always_die_are_given_up(client, monkeypatch):
    monkeypatch.setattr("borrow.tasks.dask.TRIES", 2)
    workers = DaskWorkers(client)
    placed = workers.place([1.0, 2.0])

    def gone(shard, common):
        raise OSError("no route to host")

    with pytest.raises(LostWorkersError, match="2 passes"):
        workers.map(gone, placed, None, [(), ()])


def test_an_error_of_the_model_is_raised_as_it_is(bench, client):
    setup, values = bench.problem(3, 5)
    tasks = PlacedTasks(setup.cells, DaskWorkers(client))
    with pytest.raises(ValueError, match="NaN or infinite"):
        focused_objective(replace(setup, tasks=tasks))({**values, "kernel": np.full(2, np.nan)})


def test_folds_of_a_comparison_run_on_the_same_client(client):
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"x": rng.uniform(-2, 2, 30), "site": np.repeat(["a", "b"], 15)})
    table["y"] = np.sin(2 * table["x"]) + 0.1 * rng.normal(size=30)
    how = {"target": "y", "task": "site", "primary": "a", "methods": ["pooled"], "cv": 2, "leave_out": False}
    here = borrow.compare(table, **how)
    with joblib.parallel_config(backend="dask", n_jobs=2):
        there = borrow.compare(table, **how)
    assert here.table()["error"] == there.table()["error"]  # other columns are seconds


def test_a_client_is_no_argument(client):
    X = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match="a client cannot be copied"):
        borrow.FocusedGPRegressor(workers=client).fit(X, X[:, 0])


def test_no_client_is_said(monkeypatch):
    def none():
        raise ValueError("No global client found and no address provided")

    monkeypatch.setattr(distributed, "get_client", none)
    X = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match="there is no Dask client; make one first"):
        borrow.FocusedGPRegressor(workers="dask").fit(X, X[:, 0])
