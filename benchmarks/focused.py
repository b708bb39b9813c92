"""Speed and memory of the focused GP's evidence with gradient, as ratios in one run, on one thread.

    python benchmarks/focused.py            prints, and writes docs/results/bench_focused.json

What is compared:
- 50 -> 200 secondary tasks of 100 rows: the cost must be linear in the number of tasks;
- against a dense evaluation at 24 tasks: joint matrix, dpotrf, dpotri, elementwise products for the gradient;
- against the LAPACK and BLAS calls that the algorithm cannot avoid, on arrays of the same sizes (`bare_calls`);
- peak resident memory at 400 tasks of 100 rows, in a process of its own.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import resource
import subprocess
import sys
import time

import numpy as np
from scipy.linalg import blas, lapack

from borrow import kernels
from borrow.covariance import choose_inducing
from borrow.data.cells import merge
from borrow.models.focused.model import Setup, focused_objective
from borrow.tasks.placed import PlacedTasks
from results import write_result

ROWS = 100


def problem(n_tasks: int, seed: int = 0, most: int = 100):
    """One primary and `n_tasks` secondaries of 100 rows, two inputs, about 100 inducing inputs."""
    rng = np.random.default_rng(seed)
    M = n_tasks + 1
    X = rng.uniform(-5, 5, (M * ROWS, 2))
    task = np.repeat(np.arange(M), ROWS)
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=len(task))
    cells = merge(X, task, y, np.ones(len(y)), np.ones(len(y)), M)
    kernel, own = kernels.SquaredExponential(1.0, (1.0, 1.0)), kernels.SquaredExponential(0.5, 1.0)
    Z = choose_inducing(kernel, cells.X[:ROWS], cells.X[ROWS:], most)
    setup = Setup(PlacedTasks(cells), 0, kernel, [None] + [own] * n_tasks, Z)
    values = {
        "kernel": kernel.theta,
        "rho": rng.normal(size=n_tasks),
        "specific": np.tile(own.theta, n_tasks),
        "noise": np.full(M, np.log(0.01)),
    }
    return setup, values


def median_time(f, repeats: int) -> float:
    f()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def bare_calls(n_tasks: int, m: int):
    """The calls that the evidence and its gradient cannot avoid, on arrays of their sizes and nothing else.

    Per secondary task (n = 100 rows): dpotrf of A_t; dtrsm for W_t and for H_t; dpotri of A_t; dsyrk R_t R_t'.
    Over all N rows: dtrsm for V, R = H LB^-T, R LB^-1 and bK_xz; dsyrk W'W; dgemm V'(e V); per evaluation dpotrf and
    dpotri of B and dpotrf of K_zz. Kernels: one exp for each entry of K_xz and of every K_t.
    """
    rng = np.random.default_rng(1)
    n, N = ROWS, (n_tasks + 1) * ROWS
    A = rng.normal(size=(n, n))
    A = np.asfortranarray(A @ A.T + n * np.eye(n))
    L = np.asfortranarray(np.linalg.cholesky(A))
    Bm = rng.normal(size=(m, m))
    Bm = np.asfortranarray(Bm @ Bm.T + m * np.eye(m))
    LB = np.asfortranarray(np.linalg.cholesky(Bm))
    tall, block = rng.normal(size=(N, m)), rng.normal(size=(n, m))
    exps_xz, exps_t = -np.abs(rng.normal(size=(N, m))), -np.abs(rng.normal(size=(n, n)))

    def run():
        for _ in range(n_tasks):
            lapack.dpotrf(A, lower=1)
            blas.dtrsm(1.0, L, block.T, side=1, lower=1, trans_a=1)
            blas.dtrsm(1.0, L, block.T, side=1, lower=1)
            lapack.dpotri(L, lower=1)
            blas.dsyrk(1.0, block.T, trans=1, lower=1)
            np.exp(exps_t)
        for trans in (0, 0, 1, 1):
            blas.dtrsm(1.0, LB, tall.T, lower=1, trans_a=trans)
        blas.dsyrk(1.0, tall.T, lower=1)
        tall.T @ (tall + 0.0)
        lapack.dpotrf(Bm, lower=1)
        lapack.dpotrf(Bm, lower=1)
        lapack.dpotri(LB, lower=1)
        np.exp(exps_xz)

    return run


def dense_evaluation(setup: Setup, values):
    """Evidence and gradient from the joint matrix: what the structure saves. Same parameters, same numbers."""
    cells, Z = setup.cells, setup.Z
    task, n = cells.task, len(cells.y)
    rho = np.insert(values["rho"], setup.primary, 1.0)[task]

    def run():
        K, back = setup.kernel.evaluate(cells.X)
        Kzz, back_zz = setup.kernel.evaluate(Z)
        Kxz, back_xz = setup.kernel.evaluate(cells.X, Z)
        A = np.linalg.solve(Kzz, Kxz.T).T
        Q = A @ Kxz.T
        S = np.multiply.outer(rho, rho) * Q
        S.flat[:: n + 1] += rho**2 * (np.diagonal(K) - np.diagonal(Q)) + np.exp(values["noise"])[task]
        own = []
        for t in setup.secondaries:
            at, part = cells.of(int(t)), setup.specific_parts[t]
            Kt, back_t = setup.specific[t].with_theta(values["specific"][part]).evaluate(cells.X[at])
            S[at, at] += Kt
            own.append((at, back_t))
        L, _ = lapack.dpotrf(S.T, lower=1)
        inverse, _ = lapack.dpotri(L, lower=1)
        inverse = inverse + np.tril(inverse, -1).T
        alpha = inverse @ cells.y
        evidence = -0.5 * cells.y @ alpha - np.log(np.diagonal(L)).sum() - 0.5 * n * np.log(2 * np.pi)
        bS = 0.5 * (np.multiply.outer(alpha, alpha) - inverse)
        diagonal = np.diagonal(bS).copy()
        bQ = bS * np.multiply.outer(rho, rho)
        bQ.flat[:: n + 1] -= rho**2 * diagonal
        bA = 2.0 * bQ @ A
        theta = back_xz(bA).theta + back_zz(-A.T @ bQ @ A).theta + back(np.diag(rho**2 * diagonal)).theta
        by_row = 2.0 * ((bS * Q) @ rho + rho * diagonal * (np.diagonal(K) - np.diagonal(Q)))
        specific = [back_t(bS[at, at]).theta for at, back_t in own]
        noise = np.bincount(task, diagonal * np.exp(values["noise"])[task])
        return evidence, {
            "kernel": theta,
            "rho": np.delete(np.bincount(task, by_row), setup.primary),
            "specific": np.concatenate(specific),
            "noise": noise,
        }

    return run


def peak_memory(n_tasks: int) -> float:
    """Peak resident memory in MB of one evaluation with gradient, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory", str(n_tasks)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        setup, values = problem(int(sys.argv[2]))
        focused_objective(setup)(values)
        sys.stdout.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
        return
    ms = {}
    for n_tasks in (50, 200):
        setup, values = problem(n_tasks)
        objective = focused_objective(setup)
        ms[n_tasks] = 1e3 * median_time(lambda o=objective, v=values: o(v), 9)
        ms[f"bare {n_tasks}"] = 1e3 * median_time(bare_calls(n_tasks, len(setup.Z)), 9)
    setup, values = problem(24)
    objective = focused_objective(setup)
    dense = dense_evaluation(setup, values)
    fast_value, fast_gradient = objective(values)
    slow_value, slow_gradient = dense()
    agree = max(
        float(np.max(np.abs(fast_gradient[k] - slow_gradient[k]) / (1 + np.abs(slow_gradient[k])))) for k in values
    )
    ms[24], ms["dense"] = 1e3 * median_time(lambda: objective(values), 9), 1e3 * median_time(dense, 3)
    rows = {
        "milliseconds, 24 / 50 / 200 tasks": [round(ms[24], 2), round(ms[50], 2), round(ms[200], 2)],
        "50 -> 200 tasks, ratio (at most 4.6)": round(ms[200] / ms[50], 2),
        "dense / ours at 24 tasks (at least 20)": round(ms["dense"] / ms[24], 1),
        "dense and ours agree: evidence, gradient": [abs(fast_value - slow_value) / abs(slow_value), agree],
        "ours / bare calls at 50 tasks (at most 2.5)": round(ms[50] / ms["bare 50"], 2),
        "ours / bare calls at 200 tasks (at most 2.5)": round(ms[200] / ms["bare 200"], 2),
        "peak MB at 400 tasks (under 1000)": round(peak_memory(400), 0),
        "inducing inputs": len(setup.Z),
    }
    write_result("bench_focused", {"seed": 0, "figures": rows})
    for name, value in rows.items():
        sys.stdout.write(f"{name:48s} {value}\n")


if __name__ == "__main__":
    main()
