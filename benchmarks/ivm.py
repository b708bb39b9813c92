"""Cost of the multi-task IVM, as ratios in one run, on one thread.

    python benchmarks/ivm.py       prints, and writes docs/results/bench_ivm.json

What is compared:
- choosing d = 1,000 rows of 8 tasks x 2,000 rows, four inputs, against what no greedy selection can avoid: the same
  kernel columns k(X, x_n) and the same products M'a, nothing else (updates, scores and the search come on top);
- a full fit of MT-IVM against plain IVM on the pooled rows, vowels, d = 200, eleven kernels, default settings;
- a full fit from d = 400 rows against learning the same kernel and noise by exact GPs on all rows (4 tasks x 1,000
  rows), with the log density of fresh rows beside the seconds;
- 100 tasks x 10,000 rows, d = 2,000: seconds and peak memory of a whole process, data and reading included.

Times are processor time, medians of repeats in turn.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parent / "studies"))
import borrow
from borrow.data.cells import Cells
from borrow.datasets.shared_data import load_vowel
from borrow.inference.adf import GaussianFactors, ProbitFactors
from borrow.kernels import SquaredExponential
from borrow.models.ivm.model import Active, select
from borrow.models.ivm.problems import Regression
from borrow.numerics import optimise as hyper
from borrow.tasks.placed import PlacedTasks
from results import write_result

BIG = """
import os, resource, sys, time
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np
import borrow
rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (1_000_000, 3))
tasks = np.repeat(np.arange(100), 10_000)
phase = rng.uniform(0, 6, 100)[tasks]
y = np.sin(X[:, 0] + phase) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=len(X))
start = time.process_time()
model = borrow.MultiTaskIVMRegressor(n_active=2000, verbose=True).fit(X, y, tasks=tasks)
seconds = time.process_time() - start
counts = list(model.active_counts_.values())
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, min(counts), max(counts), model.noise_[0])
"""


def timed(f) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def selection_problem(seed: int = 0, M: int = 8, n: int = 2000):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (M * n, 4))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=M * n)
    return X, y, np.arange(M + 1) * n


def bare(kernel, X, starts, active) -> None:
    """The kernel columns and the products M'a of this selection, and nothing else; M keeps whatever numbers."""
    task = np.searchsorted(starts, active, side="right") - 1
    room = [np.zeros((int(np.sum(task == m)), int(starts[m + 1] - starts[m]))) for m in range(len(starts) - 1)]
    size = [0] * len(room)
    blocks = [X[starts[m] : starts[m + 1]] / kernel.lengthscale for m in range(len(room))]
    for row, m in zip(active.tolist(), task.tolist(), strict=True):
        n, i = row - int(starts[m]), size[m]
        s = np.exp(-0.5 * cdist(blocks[m], blocks[m][n : n + 1], "sqeuclidean")[:, 0])
        M = room[m]
        M[i] = s - M[:i, n] @ M[:i] if i else s
        size[m] += 1


def against_bare(repeats: int = 5) -> dict:
    X, y, starts = selection_problem()
    kernel = SquaredExponential(1.0, (1.0,) * 4)
    factors = {
        "Gaussian": GaussianFactors(y, np.full(len(y), 0.01)),
        "probit": ProbitFactors(np.sign(y), np.zeros(len(y))),
    }
    rows = {}
    for name, f in factors.items():
        active = select(kernel, X, starts, f, 1000).active
        ours, least = [], []
        for _ in range(repeats):
            ours.append(timed(lambda f=f: select(kernel, X, starts, f, 1000)))
            least.append(timed(lambda a=active: bare(kernel, X, starts, a)))
        a, b = float(np.median(ours)), float(np.median(least))
        target = " (at most 2.5)" if name == "Gaussian" else ""
        rows[f"choosing 1,000 of 8 x 2,000 rows, {name}: seconds; bare"] = [round(a, 3), round(b, 3)]
        rows[f"choosing, {name} / bare columns and products{target}"] = round(a / b, 2)
    return rows


def multi_against_pooled(repeats: int = 3) -> dict:
    data = load_vowel()
    others = data.speaker != 0
    X, y, tasks = data.X[others], data.vowel[others], data.speaker[others]
    kernel = SquaredExponential(1.0, (1.0,) * 10)

    def fit(who):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return borrow.MultiTaskIVMClassifier(n_active=200, kernel=kernel).fit(X, y, tasks=who)

    multi, pooled = [], []
    for _ in range(repeats):
        multi.append(timed(lambda: fit(tasks)))
        pooled.append(timed(lambda: fit(None)))
    a, b = float(np.median(multi)), float(np.median(pooled))
    return {
        "vowels, d = 200, eleven kernels: seconds MT-IVM; plain IVM": [round(a, 2), round(b, 2)],
        "plain IVM / MT-IVM (at least 3)": round(b / a, 2),
    }


def against_exact(n: int = 1000, fresh: int = 500, M: int = 4, d: int = 400) -> dict:
    rng = np.random.default_rng(1)
    truth = SquaredExponential(1.0, (0.8, 1.2, 2.0))
    X = rng.uniform(-2, 2, (M, n + fresh, 3))
    y = np.empty((M, n + fresh))
    for m in range(M):
        K = truth(X[m])
        y[m] = np.linalg.cholesky(K + 0.04 * np.eye(n + fresh)) @ rng.normal(size=n + fresh)
    tasks = np.repeat(np.arange(M), n)
    inputs, targets = X[:, :n].reshape(-1, 3), y[:, :n].ravel()
    new, held, of_new = X[:, n:].reshape(-1, 3), y[:, n:].ravel(), np.repeat(np.arange(M), fresh)
    settings = {"n_active": d, "normalize_y": False}
    model = borrow.MultiTaskIVMRegressor(**settings)
    sparse_seconds = timed(lambda: model.fit(inputs, targets, tasks=tasks))
    zero = np.zeros(M)
    cells = Cells(inputs, targets, np.ones(M * n), np.arange(M + 1) * n, zero, zero, zero)
    scales = inputs.std(axis=0)
    kernel = SquaredExponential(1.0, tuple((scales * np.sqrt(3)).tolist()))
    problem = Regression(PlacedTasks(cells), kernel, scales, "auto", 500)
    every = Active(np.arange(M * n), problem.tasks, np.ones(M * n), targets)
    start = {"kernel": kernel.theta, "noise": np.log([0.1])}
    found: list[hyper.Optimum] = []
    bounds = hyper.bounds_around(start, {"noise": np.log(hyper.NOISE_FLOOR)})
    exact_seconds = timed(lambda: found.append(hyper.maximise(problem.penalised(every), start, bounds, 500)))
    values = found[0].values
    exact = borrow.MultiTaskIVMRegressor(
        n_active=M * n, normalize_y=False, optimizer=None,
        kernel=kernel.with_theta(values["kernel"]), noise=float(np.exp(values["noise"][0])),
    ).fit(inputs, targets, tasks=tasks)  # fmt: skip
    sampled = borrow.MultiTaskIVMRegressor(selection="random", **settings).fit(inputs, targets, tasks=tasks)

    def density(m) -> float:
        mean, std = m.predict(new, tasks=of_new, return_std=True, include_noise=True)
        return round(float(np.mean(norm.logpdf(held, mean, std))), 4)

    return {
        "4 x 1,000 rows: seconds from d = 400; exact learning on all rows": [
            round(sparse_seconds, 2),
            round(exact_seconds, 2),
        ],
        "exact / ours, seconds": round(exact_seconds / sparse_seconds, 1),
        "log density of a fresh row: d = 400; 400 random rows; exact": [
            density(model),
            density(sampled),
            density(exact),
        ],
        "length-scales (truth 0.8, 1.2, 2): d = 400": np.round(model.kernel_.lengthscale, 3).tolist(),
        "length-scales: exact": np.round(exact.kernel_.lengthscale, 3).tolist(),
        "noise (truth 0.04): d = 400; exact": [round(model.noise_[0], 4), round(exact.noise_[0], 4)],
    }


def big() -> dict:
    done = subprocess.run([sys.executable, "-c", BIG], check=True, capture_output=True, text=True)
    seconds, memory, least, most, noise = done.stdout.split()
    said = [line for line in done.stderr.splitlines() if line.startswith("borrow:")]
    return {
        "100 x 10,000 rows, d = 2,000, a whole fit: seconds": round(float(seconds), 1),
        "the same: peak memory of the process, GiB (under 2 GB)": round(float(memory), 2),
        "the same: rows a task, fewest and most; noise (truth 0.01)": [int(least), int(most), round(float(noise), 5)],
        "the same: a line of its progress": said[min(1, len(said) - 1)] if said else None,
    }


def main() -> None:
    rows = against_bare() | against_exact() | big()
    try:
        rows |= multi_against_pooled()
    except FileNotFoundError as missing:
        rows["vowels"] = f"not measured: {missing}"
    for name, value in rows.items():
        sys.stdout.write(f"{name:85s} {value}\n")
    write_result("bench_ivm", {"seed": 0, "figures": rows})


if __name__ == "__main__":
    main()
