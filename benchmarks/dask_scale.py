"""Focused GP with its tasks on Dask workers: the same answer, lost workers, bytes moved, and the time that it takes.

    python benchmarks/dask_scale.py            prints, writes docs/results/bench_dask.json; about 15 CPU minutes
    python benchmarks/dask_scale.py --small    the same in seconds, writes nothing
    python benchmarks/dask_scale.py --fits     whole fits by estimators, writes docs/results/dask_fits.json, or --small;
                                               --tasks=1000 has that many tasks at most instead of 10,000

Each part is kept under out/dask_scale/ when it is done, and read from there when the command is given again.

- `one`, `two`: 2,000 secondary tasks of 100 rows, 12 iterations of L-BFGS in one process and on two workers;
  `long_one`, `long_two`: 60 tasks to convergence.
- `killed`: the same 12 iterations while workers are killed (SIGKILL), three times, at random moments.
- `bytes`: everything that client, scheduler and workers write to their sockets in one evaluation, at 50, 100 and 200
  rows a task.
- `time`: seconds an evaluation with 1, 2 and 4 workers, beside the cost model `predicted`.
- `--fits`: from the table to predictions, in one process, on two workers, and on two of which one is killed (SIGKILL)
  when half of the time is over that the fit takes without.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import json
import logging
import random
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
from distributed import Client, LocalCluster, comm

import borrow
from borrow import kernels
from borrow.data.cells import merge
from borrow.models.focused.model import Setup, objective_of
from borrow.models.gp.model import bounds_of
from borrow.numerics import optimise as hyper
from borrow.tasks.dask import DaskWorkers
from borrow.tasks.placed import PlacedTasks
from borrow.tasks.workers import InProcess
from results import ROOT, provenance, write_result

OUT = ROOT / "out" / "dask_scale"
FULL = {"tasks": 2000, "rows": 100, "iterations": 12, "converged": 60, "bytes": 200, "repeats": 3, "most": 300}
SMALL = {"tasks": 12, "rows": 8, "iterations": 4, "converged": 6, "bytes": 8, "repeats": 2, "most": 10}


def problem(n_tasks: int, rows: int, seed: int = 0, m: int = 12) -> tuple[Setup, dict[str, Any]]:
    """A primary and secondaries that carry it with random weights, beside a wave of their own.

    Weights start where a regression would find them: from far away the first line search visits lengthscales at which
    k(Z, Z) is singular to rounding, and there two orders of summation are two different searches.
    """
    rng, M = np.random.default_rng(seed), n_tasks + 1
    X, task = rng.uniform(-5, 5, (M * rows, 1)), np.repeat(np.arange(M), rows)
    rho, own = np.append(1.0, 0.8 * rng.normal(size=n_tasks)), rng.normal(size=(M, 2)) * (np.arange(M) > 0)[:, None]
    f = np.sin(1.3 * X[:, 0]) + 0.5 * np.cos(2.1 * X[:, 0])
    y = rho[task] * f + own[task, 0] * np.sin(0.7 * X[:, 0] + own[task, 1]) + 0.2 * rng.normal(size=len(task))
    cells = merge(X, task, y, np.ones(len(y)), np.ones(len(y)), M)
    kernel, k = kernels.SquaredExponential(1.0, 1.0), kernels.SquaredExponential(0.5, 2.0)
    setup = Setup(PlacedTasks(cells), 0, kernel, [None] + [k] * n_tasks, np.linspace(-5, 5, m)[:, None])
    values = {
        "kernel": kernel.theta,
        "rho": rho[1:],
        "specific": np.tile(k.theta, n_tasks),
        "noise": np.full(M, np.log(0.1)),
    }
    return setup, values


@contextmanager
def cluster(n: int):
    """Worker processes of one thread each on this machine."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),  # else a slow restart is no restart
        LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL) as local,
        Client(local) as client,
    ):
        yield client, local


def objective_with(setup: Setup, workers: Any = None) -> Any:
    return objective_of(replace(setup, tasks=PlacedTasks(setup.cells, workers)), np.array([2.9]), "auto", 1.0)


def fit(setup: Setup, values: Any, iterations: int, workers: Any = None, tol: float = 1e-6) -> dict[str, Any]:
    """Evidence at the start, and where L-BFGS ends."""
    objective, began = objective_with(setup, workers), time.perf_counter()
    first = objective(values)[0]
    found = hyper.maximise(objective, values, bounds_of(values, setup.cells), iterations, tol=tol, memory=50)
    return {
        "at the start": first,
        "at the end": found.objective,
        "iterations": found.n_iter,
        "evaluations": found.n_evaluations,
        "seconds": round(time.perf_counter() - began, 1),
        "x": hyper.pack(found.values).tolist(),
    }


def running(local: Any, generator: random.Random) -> int | None:
    """A worker that the scheduler knows: one that is still starting would take its nanny with it."""
    known = set(local.scheduler.workers)
    pids = [n.process.process.pid for n in local.workers.values() if n.process and n.worker_address in known]
    pids = [pid for pid in pids if pid and psutil.pid_exists(pid)]
    return generator.choice(pids) if pids else None


class Killer(threading.Thread):
    """Kills a worker, chosen at random, so many times, at random moments of a search of so many evaluations."""

    def __init__(self, workers: DaskWorkers, local: Any, evaluations: int, times: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.workers, self.local, self.random, self.log = workers, local, random.Random(seed), []
        self.moments = sorted(self.random.uniform(0.5, 0.9 * evaluations) for _ in range(times))
        self.over = False

    def run(self) -> None:
        began = time.perf_counter()
        for moment in self.moments:
            while not self.over and self.workers.watch.done < int(moment):
                time.sleep(0.02)
            time.sleep((moment - int(moment)) * self.workers.watch.pace)
            pid = None
            while not self.over and pid is None:
                pid = running(self.local, self.random)
                time.sleep(0.02)
            if pid is None:
                return
            os.kill(pid, signal.SIGKILL)
            when = {"after evaluations": self.workers.watch.done, "second": round(time.perf_counter() - began, 1)}
            self.log.append(when)


def same(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """How far two fits are apart."""
    apart = lambda name: abs(one[name] - other[name]) / max(abs(one[name]), 1.0)  # noqa: E731
    return {
        "evidence at the start, relative": apart("at the start"),
        "objective at the end, relative": apart("at the end"),
        "parameters at the end, largest": float(np.max(np.abs(np.subtract(one["x"], other["x"])))),
    }


def kept(name: str, small: bool, make: Any) -> Any:
    """A part of the study, from where it was left."""
    path = OUT / f"{name}.json"
    if not small and path.exists():
        return json.loads(path.read_text())
    found = make()
    if isinstance(found, dict):
        found["commit"] = provenance()["commit"]
    if not small:
        OUT.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    sys.stderr.write(f"{name} done\n")
    return found


def killed(size: dict[str, int], n_workers: int = 2, times: int = 3) -> dict[str, Any]:
    with cluster(n_workers) as (client, local):
        workers = DaskWorkers(client)
        killer = Killer(workers, local, size["iterations"], times, seed=1)
        killer.start()
        found = fit(*problem(size["tasks"], size["rows"]), size["iterations"], workers)
        killer.over = True
        killer.join()
    return found | {"kills": killer.log, "passes repeated": workers.lost}


def on_workers(size: dict[str, int], which: str, n_workers: int = 2) -> dict[str, Any]:
    with cluster(n_workers) as (client, _):
        return _fit_of(size, which, DaskWorkers(client))


def _fit_of(size: dict[str, int], which: str, workers: Any = None) -> dict[str, Any]:
    iterations, tol = (size["most"], 1e-4) if which == "converged" else (size["iterations"], 1e-6)
    return fit(*problem(size[which], size["rows"]), iterations, workers, tol)


def count_bytes() -> None:
    """From here on this process counts what it writes to its sockets."""
    tcp = comm.tcp.TCP
    if not hasattr(tcp, "counted"):
        write, tcp.counted = tcp.write, 0

        async def counting(self, *args, **kwargs):
            n = await write(self, *args, **kwargs)
            tcp.counted += int(n or 0)
            return n

        tcp.write = counting


def counted() -> int:
    return int(getattr(comm.tcp.TCP, "counted", 0))


def bytes_moved(n_tasks: int, rows: int, repeats: int) -> dict[str, Any]:
    """Bytes of one evaluation with gradient: of all processes together, less what the cluster says when idle."""
    setup, values = problem(n_tasks, rows)
    with cluster(2) as (client, _):
        count_bytes()
        client.run(count_bytes)
        everything = lambda: counted() + sum(client.run(counted).values())  # noqa: E731
        objective = objective_with(setup, DaskWorkers(client))
        before = everything()
        objective(values)
        placed = everything() - before
        found = []
        for _ in range(repeats):
            before = everything()
            objective(values)
            found.append(everything() - before)
    n_shards = len(PlacedTasks(setup.cells, InProcess()).bounds)
    return {"tasks": n_tasks, "rows": rows, "shards": n_shards, "first": placed, "an evaluation": int(np.median(found))}


def per_evaluation(size: dict[str, int], workers: Any) -> list[float]:
    setup, values = problem(size["tasks"], size["rows"])
    objective = objective_with(setup, workers)
    objective(values)
    times = []
    for _ in range(size["repeats"]):
        began = time.perf_counter()
        objective(values)
        times.append(time.perf_counter() - began)
    return times


def _first(shard: Any, common: Any) -> tuple[float]:
    return (0.0,)


def _second(shard: Any, solved: Any) -> tuple[float]:
    return (0.0,)


def empty_evaluation(workers: Any, setup: Setup, repeats: int) -> float:
    """Seconds of the same two passes where there is nothing to do: what Dask takes for itself."""
    tasks = PlacedTasks(setup.cells, workers)
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        tasks.total(_second, tasks.total(_first, None))
        times.append(time.perf_counter() - began)
    return float(np.min(times[1:]))


def pieces_of(size: dict[str, int]) -> dict[str, Any]:
    """CPU seconds of an evaluation in the shards and in the client, and by how much a busy machine stretches them."""
    setup, values = problem(size["tasks"], size["rows"])
    workers = InProcess()
    tasks = PlacedTasks(setup.cells, workers)
    objective = objective_of(replace(setup, tasks=tasks), np.array([2.9]), "auto", 1.0)
    objective(values)
    inside, work = [0.0], workers.map

    def clocked(*args: Any) -> Any:
        began = time.process_time()
        out = work(*args)
        inside[0] += time.process_time() - began
        return out

    workers.map = clocked  # type: ignore[method-assign]
    shards, rest, wall = [], [], []
    for _ in range(size["repeats"]):
        inside[0], began, at = 0.0, time.process_time(), time.perf_counter()
        objective(values)
        shards.append(inside[0])
        rest.append(time.process_time() - began - inside[0])
        wall.append(time.perf_counter() - at)
    cpu = np.add(shards, rest)
    return {
        "shards": len(tasks.bounds),
        "cores": psutil.cpu_count(),
        "CPU seconds in shards": float(np.min(shards)),
        "CPU seconds in the client": float(np.min(rest)),
        "stretch": float(np.min(np.divide(wall, cpu))),
        "one process": float(np.min(wall)),
    }


def timing(size: dict[str, int]) -> dict[str, Any]:
    """The pieces of the cost model, and evaluations with 1, 2 and 4 workers beside what it says."""
    setup, _ = problem(size["tasks"], size["rows"])
    out: dict[str, Any] = pieces_of(size) | {"workers": []}
    for n in (1, 2, 4):
        with cluster(n) as (client, _):
            workers = DaskWorkers(client)
            empty = empty_evaluation(workers, setup, size["repeats"])
            times = per_evaluation(size, workers)
        row = {"workers": n, "empty": empty, "fastest": min(times), "median": float(np.median(times))}
        row["predicted"] = predicted(out, n, empty)
        out["workers"].append(row | {"load": round(os.getloadavg()[0], 1)})
    return out


def predicted(pieces: dict[str, Any], n_workers: int, empty: float) -> float:
    """Seconds an evaluation: the client's part, the shards' on as many cores as there are, and the empty graph."""
    work = pieces["CPU seconds in shards"] / min(n_workers, pieces["cores"], pieces["shards"])
    return pieces["stretch"] * (pieces["CPU seconds in the client"] + work) + empty


def study(size: dict[str, int], small: bool) -> dict[str, Any]:
    one = kept("one", small, lambda: _fit_of(size, "tasks"))
    two = kept("two", small, lambda: on_workers(size, "tasks"))
    hurt = kept("killed", small, lambda: killed(size))
    moved = kept(
        "bytes",
        small,
        lambda: [bytes_moved(size["bytes"], size["rows"] * k // 2, size["repeats"]) for k in (1, 2, 4)],
    )
    pieces = kept("time", small, lambda: timing(size))
    long_one = kept("long_one", small, lambda: _fit_of(size, "converged"))
    long_two = kept("long_two", small, lambda: on_workers(size, "converged"))
    strip = lambda found: {k: v for k, v in found.items() if k != "x"}  # noqa: E731
    return {
        "seed": 0,
        "size": size,
        "one process": strip(one),
        "two workers": strip(two) | same(one, two),
        "workers killed": strip(hurt) | same(two, hurt),
        "converged": {"one process": strip(long_one), "two workers": strip(long_two) | same(long_one, long_two)},
        "bytes": moved,
        "time": pieces,
    }


#: Estimators that are fitted whole: how many tasks, in full and small, and their settings.
FITS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "MultiTaskIVMRegressor": (10_000, 40, {"n_active": 20_000}),
    "FocusedGPRegressor": (200, 6, {"primary": 0}),
}


def whole_fit(name: str, settings: dict[str, Any], n_tasks: int, rows: int) -> dict[str, Any]:
    """One fit and the predictions of some tasks at new rows."""
    cells, new = problem(n_tasks, rows)[0].cells, np.linspace(-5, 5, 20)[:, None]
    model, began = getattr(borrow, name)(**settings), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(cells.X, cells.y, tasks=cells.task)
        seconds = time.perf_counter() - began
        mean = [model.predict(new, tasks=np.full(20, t)).tolist() for t in range(6)]
    found = {"seconds": round(seconds, 1), "rows": len(cells.y), "evidence": float(model.log_marginal_likelihood_)}
    return found | {"mean": mean}


def fit_on_two(name: str, settings: dict[str, Any], n_tasks: int, rows: int, kill_at: float | None) -> dict[str, Any]:
    """The same on two workers, one of which may be killed after some seconds."""
    with cluster(2) as (_, local):
        kills: list[float] = []

        def kill() -> None:
            pid = running(local, random.Random(0))
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                kills.append(round(float(kill_at or 0.0), 1))

        timer = threading.Timer(kill_at or 0.0, kill)
        if kill_at is not None:
            timer.start()
        found = whole_fit(name, {**settings, "workers": "dask"}, n_tasks, rows)
        timer.cancel()
    return found | {"killed at second": kills}


def fits_of(name: str, small: bool, most: int) -> dict[str, Any]:
    """The three fits of an estimator of `FITS`, and how far those on workers are from the one in this process."""
    many, few, settings = FITS[name]
    size = (few, 20) if small else (min(many, most), 100)
    if "n_active" in settings:
        settings = {**settings, "n_active": settings["n_active"] * size[0] // many}
    part = f"fit_{name}_{size[0]}"
    one = kept(f"{part}_one", small, lambda: whole_fit(name, settings, *size))
    two = kept(f"{part}_two", small, lambda: fit_on_two(name, settings, *size, None))
    hurt = kept(f"{part}_killed", small, lambda: fit_on_two(name, settings, *size, 0.5 * two["seconds"]))
    out: dict[str, Any] = {"tasks": size[0], "rows a task": size[1]}
    for how, found in (("one process", one), ("two workers", two), ("one of two killed", hurt)):
        out[how] = {k: v for k, v in found.items() if k != "mean"} | {
            "evidence, relative": abs(found["evidence"] - one["evidence"]) / abs(one["evidence"]),
            "largest difference of a prediction": float(np.max(np.abs(np.subtract(found["mean"], one["mean"])))),
        }
    return out


def main(argv: list[str] | None = None) -> dict[str, Any]:
    given = sys.argv[1:] if argv is None else argv
    small = "--small" in given
    if "--fits" in given:
        most = next((int(g.split("=")[1]) for g in given if g.startswith("--tasks=")), 10_000)
        fits = {name: fits_of(name, small, most) for name in FITS}
        sys.stdout.write(json.dumps(fits, indent=1) + "\n")
        if not small:
            records = [f for line in fits.values() for f in line.values() if isinstance(f, dict)]
            write_result("dask_fits", {"seed": 0, "cores": psutil.cpu_count(), "fits": fits}, records)
        return fits
    found = study(SMALL if small else FULL, small)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    if not small:
        write_result("bench_dask", found)
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
