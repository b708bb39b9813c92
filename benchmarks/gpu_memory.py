"""Memory and time of whole fits of the symmetric model on a GPU.

    python benchmarks/gpu_memory.py            6,000 and 12,000 rows, each in a process of its own; needs one CUDA GPU
    python benchmarks/gpu_memory.py --large    24,000 rows as well
    python benchmarks/gpu_memory.py --rows 500 --cpu    the same code on the CPU, where no memory is measured

For each size: seconds of `MultiTaskGPRegressor.fit` (ten tasks, eight inputs, all rows distinct, at most `--max-iter`
iterations), the most memory that PyTorch had allocated at once in it, in GiB and in matrices of n x n doubles (at most
7 is promised), the most that it had reserved, and what is still allocated when the model is gone with the garbage
collector off, which is 0 where no reference cycle holds a tensor. Prints one line of JSON for each.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
import warnings
from contextlib import ExitStack
from unittest import mock

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

import borrow
from borrow.numerics import device as devices

TASKS, COLUMNS = 10, 8


def table(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    task = np.arange(n) % TASKS
    X = rng.normal(size=(n, COLUMNS))
    return X, np.sin(X[:, 0]) * (1.0 + 0.1 * task) + 0.3 * rng.normal(size=n), task


def measure(n: int, max_iter: int, cuda: bool) -> dict:
    X, y, task = table(n)
    model = borrow.MultiTaskGPRegressor(specific_kernel=None, max_iter=max_iter, device="cuda")
    if cuda:
        torch.linalg.cholesky(torch.eye(64, dtype=torch.float64, device="cuda"))  # libraries are loaded, not timed
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the iterations that were allowed
        model.fit(X, y, tasks=task)
    if cuda:
        torch.cuda.synchronize()
    result = {"n": n, "seconds": round(time.perf_counter() - start, 2), "iterations": int(model.n_iter_)}
    result["log evidence"] = float(model.log_marginal_likelihood_)
    del model
    if cuda:
        peak = torch.cuda.max_memory_allocated()
        result |= {
            "peak GiB": round(peak / 2**30, 3),
            "peak, matrices of n x n (at most 7)": round(peak / (8.0 * n * n), 3),
            "reserved GiB": round(torch.cuda.max_memory_reserved() / 2**30, 3),
            "left when the model is gone, MiB": round(torch.cuda.memory_allocated() / 2**20, 3),
        }
    gc.enable()
    return result


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="24,000 rows as well")
    parser.add_argument("--rows", type=int, help="one size, in this process")
    parser.add_argument("--max-iter", type=int, default=20)
    parser.add_argument("--cpu", action="store_true", help="tensors on the CPU")
    given = parser.parse_args(arguments)
    if not given.cpu and (reason := devices.missing()) is not None:
        sys.exit(f"no GPU, so nothing is measured: {reason}. --cpu runs the same code on the CPU.")
    if given.rows is None:
        for n in (6_000, 12_000, *((24_000,) if given.large else ())):
            command = [sys.executable, __file__, "--rows", str(n), "--max-iter", str(given.max_iter)]
            subprocess.run(command + ["--cpu"] * given.cpu, check=True)
        return
    with ExitStack() as stack:
        if given.cpu:
            cpu = devices.Device("cpu")
            stack.enter_context(mock.patch.multiple(devices, missing=lambda: None, find_gpu=lambda: cpu))
        print(json.dumps(measure(given.rows, given.max_iter, not given.cpu)), flush=True)


if __name__ == "__main__":
    main()
