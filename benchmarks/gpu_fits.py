"""Whole fits on a GPU: seconds, memory, evidence, and the log density of rows that were not fitted.

    python benchmarks/gpu_fits.py              every line, each in a process of its own; needs one CUDA GPU
    python benchmarks/gpu_fits.py --write      the same, and docs/results/gpu_fits.json
    python benchmarks/gpu_fits.py --line symmetric --rows 500 --cpu    one line, small, by the same code on the CPU
    python benchmarks/gpu_fits.py --enter FILE     puts records that were printed into docs/results/gpu_fits.json

Symmetric fits have ten tasks, eight inputs and all rows distinct; "one kernel" is `specific_kernel=None`. The focused
fit has tasks of 200 rows with three inputs; "two workers" is the same with `workers=2`, processes that share the GPU,
whose memory is not counted. The peer is BoTorch's `MultiTaskGP` with its own way to fit, where it is
installed. A small fit comes first and is not timed: it loads libraries. Memory is the most that PyTorch had allocated
at once in the fit, in GiB and in matrices of n x n doubles (at most 7 is promised), and what is still allocated when
the model is gone with the garbage collector off, which is what libraries keep where no reference cycle holds a tensor.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import torch

import borrow
from borrow.numerics import device as devices
from results import RESULTS, provenance, write_result

TASKS, COLUMNS, NEW, SEED = 10, 8, 1000, 0
#: Lines that begin with these names are run where the package is installed.
PEERS = ("botorch", "gpytorch")

Table = tuple[np.ndarray, np.ndarray, np.ndarray]
Model = Callable[[Table, np.ndarray, np.ndarray], tuple[dict, Callable[[], tuple[np.ndarray, np.ndarray]]]]


def ten_tasks(n: int) -> Table:
    """One function of one of eight inputs, larger from task to task."""
    rng = np.random.default_rng(SEED)
    task = np.arange(n) % TASKS
    X = rng.normal(size=(n, COLUMNS))
    return X, np.sin(X[:, 0]) * (1.0 + 0.1 * task) + 0.3 * rng.normal(size=n), task


def many_tasks(n: int) -> Table:
    """Tasks of 200 rows that have the primary's function, times a number, and a wave of their own."""
    rng = np.random.default_rng(SEED)
    task = np.minimum(np.arange(n) // 200, (n - NEW) // 200 - 1)
    task[n - NEW :] = 0
    X = rng.uniform(-2.0, 2.0, (n, 3))
    rho = np.append(1.0, rng.normal(size=task.max()))
    shared, own = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2], np.cos(2.0 * X[:, 1] + task)
    return X, rho[task] * shared + 0.5 * own + 0.2 * rng.normal(size=n), task


def ours(name: str, **settings: object) -> Model:
    """An estimator of this library at these settings."""

    def fit(table: Table, X: np.ndarray, task: np.ndarray) -> tuple[dict, Callable]:
        model = getattr(borrow, name)(device="cuda", **settings)
        model.fit(table[0], table[1], tasks=table[2])
        found = {"log evidence": float(model.log_marginal_likelihood_)}
        found |= {"iterations": int(model.n_iter_)} if hasattr(model, "n_iter_") else {}
        return found, lambda: model.predict(X, tasks=task, return_std=True, include_noise=True)

    return fit


def botorch(table: Table, X: np.ndarray, task: np.ndarray) -> tuple[dict, Callable]:
    """BoTorch's multi-task GP, its defaults, double precision on the same device."""
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import MultiTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    def joined(inputs: np.ndarray, tasks: np.ndarray) -> torch.Tensor:
        return torch.tensor(np.column_stack([inputs, tasks]), dtype=torch.double, device="cuda")

    y = torch.tensor(table[1][:, None], dtype=torch.double, device="cuda")
    model = MultiTaskGP(joined(table[0], table[2]), y, task_feature=-1)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))

    def predict() -> tuple[np.ndarray, np.ndarray]:
        posterior = model.posterior(joined(X, task), observation_noise=True)
        mean, variance = posterior.mean.detach(), posterior.variance.detach()
        return mean[:, 0].cpu().numpy(), variance[:, 0].sqrt().cpu().numpy()

    return {}, predict


#: The model, the table, the numbers of rows that are run, and that of the fit that loads libraries.
Line = tuple[Model, Callable[[int], Table], tuple[int, ...], int]
LINES: dict[str, Line] = {
    "symmetric": (ours("MultiTaskGPRegressor"), ten_tasks, (6_000, 12_000, 24_000, 50_000), 600),
    "symmetric, one kernel": (
        ours("MultiTaskGPRegressor", specific_kernel=None),
        ten_tasks,
        (6_000, 12_000, 24_000, 50_000),
        600,
    ),
    "BoTorch": (botorch, ten_tasks, (6_000,), 600),
    "focused": (ours("FocusedGPRegressor", primary=0), many_tasks, (40_200, 400_200), 2_200),
    "focused, two workers": (ours("FocusedGPRegressor", primary=0, workers=2), many_tasks, (40_200,), 2_200),
}


def measure(of: Line, line: str, n: int, cuda: bool) -> dict:
    """One fit, timed, after a small one."""
    fit, table, _, small = of
    warnings.simplefilter("ignore")  # of small tables: the answers are compared by their densities
    if small < n:
        first = table(small + NEW)
        fit(tuple(v[:small] for v in first), first[0][small:], first[2][small:])
    X, y, task = table(n + NEW)
    gc.collect()
    gc.disable()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    found, predict = fit((X[:n], y[:n], task[:n]), X[n:], task[n:])
    if cuda:
        torch.cuda.synchronize()
    result = {"line": line, "rows": n, "seconds": round(time.perf_counter() - start, 2), **found}
    result["commit"] = provenance()["commit"]
    if cuda:
        peak = torch.cuda.max_memory_allocated()
        result |= {
            "peak GiB": round(peak / 2**30, 2),
            "peak, matrices of n x n": round(peak / (8.0 * n * n), 2),
            "reserved GiB": round(torch.cuda.max_memory_reserved() / 2**30, 2),
        }
    mean, std = predict()
    z = (y[n:] - mean) / std
    result["log density of new rows"] = float(np.mean(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)))
    del predict, found
    if cuda:
        result["left when the model is gone, MiB"] = round(torch.cuda.memory_allocated() / 2**20, 1)
    gc.enable()
    return result


def enter(lines: dict[str, Line], name: str, printed: Path) -> None:
    """Put records that were printed on the machine with the GPU into the result."""
    result = json.loads((RESULTS / f"{name}.json").read_text())
    made_by = result.pop("made by")
    known = {(r["line"], r["rows"]): {"commit": made_by["commit"], **r} for r in result["records"]}
    for record in map(json.loads, printed.read_text().splitlines()):
        known[record["line"], record["rows"]] = record
    records = [known[line, n] for line, (_, _, sizes, _) in lines.items() for n in sizes if (line, n) in known]
    write_result(name, {**result, "records": records}, records)
    written = json.loads((RESULTS / f"{name}.json").read_text())
    versions = {n: v for n, v in made_by.items() if n not in ("commit", "written at", "records by commit")}
    written["made by"] |= versions  # those of the machine with the GPU
    (RESULTS / f"{name}.json").write_text(json.dumps(written, indent=1) + "\n")


def main(
    lines: dict[str, Line] = LINES, program: str = __file__, name: str = "gpu_fits", about: str | None = __doc__
) -> None:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--line", choices=lines, help="this one alone")
    parser.add_argument("--rows", type=int, help="one size, in this process; needs --line")
    parser.add_argument("--cpu", action="store_true", help="tensors on the CPU")
    parser.add_argument("--write", action="store_true", help=f"write docs/results/{name}.json")
    parser.add_argument(
        "--enter", type=Path, help="a file of printed records that replace those of the same line and size"
    )
    given = parser.parse_args()
    if given.enter:
        return enter(lines, name, given.enter)
    if not given.cpu and (reason := devices.missing()) is not None:
        sys.exit(f"no GPU, so nothing is measured: {reason}. --cpu runs the same code on the CPU.")
    if given.rows is not None:
        with ExitStack() as stack:
            if given.cpu:
                cpu = devices.Device("cpu")
                stack.enter_context(mock.patch.multiple(devices, missing=lambda: None, find_gpu=lambda: cpu))
            print(json.dumps(measure(lines[given.line], given.line, given.rows, not given.cpu)), flush=True)
        return
    records = []
    for line, (_, _, sizes, _) in lines.items():
        peer = line.split(",")[0].lower()
        if given.line not in (None, line) or (peer in PEERS and importlib.util.find_spec(peer) is None):
            continue
        for n in sizes:
            command = [sys.executable, program, "--line", line, "--rows", str(n), *["--cpu"] * given.cpu]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            records.append(json.loads(done.stdout.splitlines()[-1]))
            print(json.dumps(records[-1]), flush=True)
    if given.write:
        card = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
        write_result(name, {"seed": SEED, "card": card, "torch": torch.__version__, "records": records})


if __name__ == "__main__":
    main()
