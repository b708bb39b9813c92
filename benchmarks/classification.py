"""Speed of EP, as ratios in one run, on one thread.

    python benchmarks/classification.py [--gpy PYTHON]       prints, and writes docs/results/bench_classification.json

What is compared:
- one EP fit at fixed hyper-parameters, 500 rows, five inputs, probit, against GPy's EP and against one bare Cholesky
  factorisation of that size; sweeps cold, and warm after all hyper-parameters moved by 5 %;
- focused EP with gradient, 10 -> 40 secondary tasks of 60 rows, 60 inducing inputs: linear is 41 / 11 = 3.7;
- a full fit with optimisation on the EEG study, a subject (all primary trials; 20 and all trials a secondary).

Times are processor time, which other programs on the machine do not stretch.

GPy pins older versions of its dependencies, so it may live in an environment of its own: `--gpy` names that Python. It
runs in turn with ours, on the same numbers. Where GPy is not to be had the result says so.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.linalg import lapack

sys.path.insert(0, str(Path(__file__).resolve().parent / "studies"))
from borrow import kernels
from borrow.covariance import SharedCovariance, choose_inducing
from borrow.data.cells import Cells
from borrow.inference.ep import EP, EPInference, ep
from borrow.inference.likelihoods import Probit
from borrow.models.focused.estimators import FocusedGPClassifier
from borrow.models.focused.model import Setup, focused_objective
from borrow.tasks.placed import PlacedTasks, rows_as_tasks
from results import write_result

N, D = 500, 5
VARIANCE, LENGTHSCALE = 2.0, 2.0

GPY = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import GPy
from paramz import ObsAr
data = np.load(sys.argv[1])
X, Y = ObsAr(data["X"]), ObsAr((data["y"][:, None] + 1) / 2)
kernel = GPy.kern.RBF(X.shape[1], float(data["variance"]), float(data["lengthscale"]))
times = []
for _ in range(int(sys.argv[2])):
    inference = GPy.inference.latent_function_inference.EP()
    start = time.process_time()
    _, evidence, _ = inference.inference(kernel, X, GPy.likelihoods.Bernoulli(), Y)
    times.append(time.process_time() - start)
print(json.dumps({"seconds": times, "evidence": float(evidence), "GPy": GPy.__version__, "numpy": np.__version__}))
"""


def timed(f) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def binary_problem(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and labels drawn from the model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * 1.5
    K = kernels.SquaredExponential(VARIANCE, LENGTHSCALE)(X, X)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(N)) @ rng.normal(size=N)
    return X, np.where(f + rng.normal(size=N) > 0, 1.0, -1.0)


def our_ep(X: np.ndarray, y: np.ndarray, moved: float = 1.0, start=None, tol: float = 1e-6) -> EP:
    kernel = kernels.SquaredExponential(VARIANCE * moved, LENGTHSCALE * moved)
    prior = SharedCovariance(rows_as_tasks(X, np.array([0, len(y)])), [], [], np.zeros((1, 0)), [kernel])
    return ep(prior, Probit(), y, np.zeros(len(y)), start, tol=tol)


def gpy_ep(python: str, X: np.ndarray, y: np.ndarray, repeats: int) -> dict | None:
    """GPy's seconds and evidence; None where it cannot be run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, X=X, y=y, variance=VARIANCE, lengthscale=LENGTHSCALE)
        command = [python, "-c", GPY, str(path), str(repeats)]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        except (subprocess.CalledProcessError, OSError) as failure:
            lines = (getattr(failure, "stderr", None) or str(failure)).strip().splitlines()
            sys.stderr.write(f"GPy is absent or does not run under {python}: {lines[-1]}\n")
            return None
    return json.loads(done.stdout.splitlines()[-1])


def against_gpy_and_cholesky(python: str, repeats: int = 5) -> dict:
    X, y = binary_problem()
    K = kernels.SquaredExponential(VARIANCE, LENGTHSCALE)(X, X)
    A = np.asfortranarray(K + np.eye(N))
    our_ep(X, y), lapack.dpotrf(A, lower=1)
    ours, bare, peer = [], [], []
    theirs: dict | None = {}
    for _ in range(repeats):  # in turn, so that a busy moment hits all of them
        bare += [timed(lambda: lapack.dpotrf(A, lower=1)) for _ in range(9)]
        ours += [timed(lambda: our_ep(X, y)) for _ in range(3)]
        theirs = gpy_ep(python, X, y, 1) if theirs is not None else None
        peer += theirs["seconds"] if theirs is not None else []
    cold, fine = our_ep(X, y), our_ep(X, y, tol=1e-9)
    warm = [our_ep(X, y, moved, cold.sites).n_sweeps for moved in (1.05, 0.95)]
    mine, cholesky = float(np.median(ours)), float(np.median(bare))
    rows = {
        "EP, n = 500, milliseconds": round(1e3 * mine, 2),
        "one dpotrf, n = 500, milliseconds": round(1e3 * cholesky, 3),
        "EP / one dpotrf (at most 80)": round(mine / cholesky, 1),
        "cold sweeps (at most 15)": cold.n_sweeps,
        "warm sweeps, hyper-parameters +5 % and -5 % (at most 8)": warm,
        "EP / one dpotrf, a sweep": round(mine / cholesky / cold.n_sweeps, 2),
    }
    if theirs is None:
        return rows | {"GPy": "absent: give --gpy a Python that has it"}
    return rows | {
        "GPy": {k: theirs[k] for k in ("GPy", "numpy")},
        "GPy's EP, milliseconds": round(1e3 * float(np.median(peer)), 1),
        "GPy's EP / ours (at least 10)": round(float(np.median(peer)) / mine, 1),
        "evidence, ours less GPy's (at most 1e-3)": [round(fine.evidence, 6), fine.evidence - theirs["evidence"]],
    }


def focused_problem(n_tasks: int, rows: int = 60, seed: int = 0):
    """One primary and `n_tasks` secondaries of 60 labelled rows, two inputs, 60 inducing inputs."""
    rng = np.random.default_rng(seed)
    M = n_tasks + 1
    X = rng.uniform(-5, 5, (M * rows, 2))
    y = np.where(np.sin(X).sum(axis=1) + rng.normal(size=len(X)) > 0, 1.0, -1.0)
    zero = np.zeros(M)
    cells = Cells(X, y, np.ones(len(y)), np.arange(M + 1) * rows, zero, zero, zero)
    kernel, own = kernels.SquaredExponential(1.0, (1.0, 1.0)), kernels.SquaredExponential(0.5, 1.0)
    Z = choose_inducing(kernel, X[:rows], X[rows:], rows)
    setup = Setup(PlacedTasks(cells), 0, kernel, [None] + [own] * n_tasks, Z, infer=EPInference(Probit()))
    values = {
        "kernel": kernel.theta,
        "rho": rng.normal(size=n_tasks),
        "specific": np.tile(own.theta, n_tasks),
    }
    return setup, values


def linear_in_tasks() -> dict:
    problems = {n: focused_problem(n) for n in (10, 40)}
    times: dict[int, list[float]] = {n: [] for n in problems}
    for _ in range(9):
        for n, (setup, values) in problems.items():
            times[n].append(timed(lambda s=setup, v=values: focused_objective(s)(v)))  # cold every time
    ms = {n: 1e3 * float(np.median(t)) for n, t in times.items()}
    return {
        "focused EP with gradient, 10 and 40 tasks of 60 rows, milliseconds": [round(v, 1) for v in ms.values()],
        "10 -> 40 tasks, ratio (at most 5)": round(ms[40] / ms[10], 2),
    }


def fit_seconds() -> dict:
    """A full fit on the EEG study; every second subject is the primary."""
    from leen2011_classification import ALL, MAKE, table_of  # needs the data

    rows = {}
    for count, name in ((20, "20"), (ALL, "all")):
        for inducing in ("primary", "auto"):
            times = []
            for subject in range(0, 16, 2 if inducing == "primary" else 8):
                problem = table_of(subject, True, 0, False, count)
                model = MAKE["focused"]().set_params(inducing=inducing)
                assert isinstance(model, FocusedGPClassifier)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    times.append(timed(lambda m=model, p=problem: m.fit(p.X, p.y, tasks=p.task)))
            target = " (under 1)" if inducing == "primary" else ""
            label = f"seconds a fit, EEG, all primary and {name} secondary trials, inducing={inducing!r}{target}"
            rows[label] = round(float(np.median(times)), 2)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpy", default=sys.executable, help="a Python that has GPy")
    python = parser.parse_args().gpy
    rows = against_gpy_and_cholesky(python) | linear_in_tasks()
    try:
        rows |= fit_seconds()
    except FileNotFoundError as missing:
        rows["seconds a fit, EEG"] = f"not measured: {missing}"
    write_result("bench_classification", {"seed": 0, "figures": rows})
    for name, value in rows.items():
        sys.stdout.write(f"{name:80s} {value}\n")


if __name__ == "__main__":
    main()
