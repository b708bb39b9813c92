"""Speed and memory of the hierarchical GP's EM, as ratios in one run, on one thread.

    python benchmarks/hierarchical.py            prints, and writes docs/results/bench_hierarchical.json

What is compared, at n = 1,000 inputs and 50 tasks of 300 labels:
- one EM iteration, objective included, against the printed iteration (12)-(16) on alpha, with LAPACK's solver for
  symmetric positive definite systems;
- against the matrix products and factorisations that it cannot avoid, on arrays of the same sizes (`bare_calls`);
- 50 tasks of equal rows, which share their factor;
- iterations of plain and accelerated EM to the same gain per row;
- peak resident memory of a whole fit of 1,000 tasks of 50 labels on n = 2,000, in a process of its own.
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

import borrow
from borrow.data.cells import merge
from borrow.kernels import Matern
from borrow.models.hierarchical import basis as bases
from borrow.models.hierarchical import model as h
from borrow.models.hierarchical.search import fit_em
from borrow.tasks.placed import PlacedTasks
from results import write_result

N, TASKS, LABELS = 1000, 50, 300
STRENGTHS = h.Strengths(np.inf, 1.0)


def problem(n: int = N, tasks: int = TASKS, labels: int = LABELS, equal: bool = False, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    kernel = Matern(1.0, 3.0, nu=1.5)
    first = np.sort(rng.permutation(n)[:labels])
    rows = [first if equal else np.sort(rng.permutation(n)[:labels]) for _ in range(tasks)]
    W = rng.normal(size=(10, tasks))
    y = [np.sin(X[r] @ W[:, t]) + 0.3 * rng.normal(size=labels) for t, r in enumerate(rows)]
    ones = np.ones(tasks * labels)
    position, task = np.concatenate(rows)[:, None].astype(float), np.repeat(np.arange(tasks), labels)
    cells = merge(position, task, np.concatenate(y), ones, ones, tasks)
    return h.arrange(bases.function_basis(kernel, X), PlacedTasks(cells)), rows, y


def one_iteration(p: h.Problem, state: h.State):
    def run():
        h.log_hyper_prior(state, p.basis, STRENGTHS)
        return h.maximise(state, h.expect(state, p), p, STRENGTHS)

    return run


def printed_iteration(kappa: np.ndarray, rows, y, C: np.ndarray, noise: float, tau: float = 1.0):
    """(12)-(16) with mu = 0, each inverse by Cholesky."""

    def inverse(A):
        L, _ = lapack.dpotrf(A, lower=1)
        P, _ = lapack.dpotri(L, lower=1)
        P = np.tril(P)
        return P + np.tril(P, -1).T

    kappa_inverse = inverse(kappa)

    def run():
        precision = inverse(C)
        total, squares, n_rows = tau * kappa_inverse, 0.0, 0
        for r, v in zip(rows, y, strict=True):
            k = kappa[r]
            Cl = inverse(k.T @ k / noise + precision)
            a = Cl @ (k.T @ v) / noise
            total = total + Cl + np.outer(a, a)
            squares += np.sum((v - k @ a) ** 2) + np.sum((k @ Cl) * k)
            n_rows += len(r)
        return total / (tau + len(rows)), squares / n_rows

    return run


def bare_calls(n: int = N, tasks: int = TASKS, labels: int = LABELS):
    """dpotrf and dpotri a task; K B K and the outer product of the means; dpotrf and dtrsm of K for the objective."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(labels, labels))
    A = np.asfortranarray(A @ A.T + labels * np.eye(labels))
    L = np.asfortranarray(np.linalg.cholesky(A))
    D = rng.normal(size=(n, tasks))
    K = rng.normal(size=(n, n))
    K = np.asfortranarray(K @ K.T + n * np.eye(n))
    LK = np.asfortranarray(np.linalg.cholesky(K))

    def run():
        for _ in range(tasks):
            lapack.dpotrf(A, lower=1)
            lapack.dpotri(L, lower=1)
        K @ K @ K
        D @ D.T
        lapack.dpotrf(K, lower=1)
        blas.dtrsm(1.0, LK, K, lower=1)

    return run


def best_times(*functions, repeats: int) -> list[float]:
    """Least time of each, taken in turn so that a busy machine slows all of them alike."""
    times = [[] for _ in functions]
    for _ in range(repeats):
        for f, own in zip(functions, times, strict=True):
            start = time.perf_counter()
            f()
            own.append(time.perf_counter() - start)
    return [min(own) for own in times]


def peak_of_many_tasks() -> None:
    """A whole fit from a long table; prints peak memory in MB and seconds."""
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(2000, 5))
    rows = np.concatenate([rng.permutation(2000)[:50] for _ in range(1000)])
    task = np.repeat(np.arange(1000), 50)
    y = np.sin(pool[rows] @ rng.normal(size=(5, 3))) @ rng.normal(size=3) + 0.3 * rng.normal(size=len(rows))
    start = time.perf_counter()
    model = borrow.HierarchicalGPRegressor(
        base_kernel=Matern(1.0, 2.0, nu=1.5), optimizer=None, noise=0.1, covariance_strength=100.0, max_iter=2, tol=10.0
    ).fit(pool[rows], y, tasks=task)
    model.predict(pool[:100], tasks=7, return_std=True)
    seconds = time.perf_counter() - start
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds, len(model.X_))


def main() -> None:
    p, rows, y = problem()
    kappa, state = p.basis.prior, h.start(p.basis, 0.1)
    state = h.maximise(state, h.expect(state, p), p, STRENGTHS)
    C = np.linalg.solve(kappa, np.linalg.solve(kappa, state.K).T)
    shared, _, _ = problem(equal=True)
    ours, bare, equal = best_times(
        one_iteration(p, state), bare_calls(), one_iteration(shared, h.start(shared.basis, 0.1)), repeats=5
    )
    printed = printed_iteration(kappa, rows, y, np.asfortranarray(0.5 * (C + C.T)), state.noise)
    (slow,) = best_times(printed, repeats=1)
    new, (C_new, _) = one_iteration(p, state)(), printed()
    agree = float(np.abs(kappa @ C_new @ kappa - new.K).max() / np.abs(new.K).max())
    small, _, _ = problem(300, 30, 60)
    strengths = h.Strengths(1.0, 10.0)
    plain = fit_em(small, strengths, 0.5, 2000, 1e-5)
    fast = fit_em(small, strengths, 0.5, 2000, 1e-5, accelerate=True)
    many = subprocess.run(
        [sys.executable, __file__, "many"], capture_output=True, text=True, check=True, env={**os.environ}
    ).stdout.split()
    figures = {
        "seconds an iteration, ours / bare calls / printed": [round(v, 3) for v in (ours, bare, slow)],
        "printed / ours (at least 6)": round(slow / ours, 1),
        "ours / bare calls (at most 3)": round(ours / bare, 2),
        "one step of both agrees to": agree,
        "equal rows: factor shared, times faster": round(ours / equal, 1),
        "plain EM, evaluations to 1e-5 nats a row": plain.n_evaluations,
        "accelerated, evaluations": fast.n_evaluations,
        "objective, accelerated less plain": round(fast.trace[-1] - plain.trace[-1], 3),
        "peak MB, 1,000 tasks of 50 labels on n = 2,000 (under 2048)": round(float(many[0])),
        "seconds of that fit, two iterations": round(float(many[1]), 1),
    }
    for name, value in figures.items():
        print(f"{name}: {value}")
    write_result("bench_hierarchical", {"seed": 0, "figures": figures})


if __name__ == "__main__":
    peak_of_many_tasks() if "many" in sys.argv else main()
