"""The GPU against bare calls, GPyTorch and the host, as ratios in one run.

    python benchmarks/gpu.py            prints, and writes docs/results/bench_gpu.json; needs one CUDA GPU
    python benchmarks/gpu.py --small    the same code in tiny sizes, on the CPU where there is no GPU; writes nothing

What is compared:
- dense evidence with gradient of the symmetric model (`DenseTasks`: ten tasks, eight inputs, all rows distinct) at
  n = 8,192, 16,384 and 24,576: against `torch.linalg.cholesky` + `torch.cholesky_inverse` of a matrix of that size,
  and against GPyTorch's Cholesky path (a MultitaskKernel in its Hadamard form, evidence and backward);
- the inverse from a factor by blocked products against `torch.cholesky_inverse`, and its error;
- the focused GP, 2,000 secondary tasks of 200 rows: evidence with gradient, against the host on one thread, which is
  how the library runs blocks that small;
- EP: the focused classifier on the same tasks, to convergence on the GPU; two sweeps and the gradient on both;
- EM: one iteration of the hierarchical model, 3,000 inputs, 1,000 tasks of 150 labels, against all cores and one;
- where the GPU begins to pay: dense evidence with gradient at small n against the host;
- whole fits by the estimators, tables in and predictions out: `MultiTaskGPRegressor` on 1,400 rows of ten tasks,
  `FocusedGPRegressor` on 20 tasks of 200 rows (where each task's own fit, which comes first, stays on the host).
Results of GPU and host are compared, and the largest difference is part of the result. Times are medians of wall-clock
time with the GPU idle before and after; the host is timed once. Each part is written when it is done. `BORROW_COMMIT`
names the commit where there is no git.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import time
import warnings
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import borrow
from borrow import kernels
from borrow.covariance import Design, choose_inducing
from borrow.data.cells import merge
from borrow.inference import EPInference
from borrow.inference.likelihoods import Probit
from borrow.models.focused import model as focused
from borrow.models.focused import search as focused_search
from borrow.models.hierarchical import basis as bases
from borrow.models.hierarchical import model as h
from borrow.models.multitask import model as multitask
from borrow.models.multitask.task_covariance import FreeForm
from borrow.numerics.device import Device, missing
from borrow.numerics.linalg import inverse_from_factor
from borrow.tasks.placed import PlacedTasks
from results import write_result

GPU = Device("cuda") if missing() is None else Device("cpu")
SIZES = {
    "dense": [8192, 16384, 24576],
    "host dense": 8192,
    "crossover": [256, 512, 1024, 2048, 4096],
    "focused": (2000, 200, 100),
    "em": (3000, 1000, 150),
    "fit": (1400, 20, 200),
    "repeats": 5,
}
SMALL = {
    "dense": [96],
    "host dense": 96,
    "crossover": [48],
    "focused": (6, 12, 9),
    "em": (40, 6, 10),
    "fit": (40, 2, 12),
    "repeats": 1,
}


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(f: Any, repeats: int) -> float:
    """Median; the first call is not counted."""
    f()
    wait()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        wait()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def once(f: Any) -> tuple[float, Any]:
    """Seconds of one call, and what it returns."""
    start = time.perf_counter()
    value = f()
    return time.perf_counter() - start, value


def peak(f: Any) -> float:
    """GiB allocated at most during one call."""
    if not torch.cuda.is_available():
        return 0.0
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    f()
    wait()
    return torch.cuda.max_memory_allocated() / 2**30


def differ(one: tuple[float, dict], other: tuple[float, dict]) -> float:
    """Largest difference of evidence and gradient, relative to the size of each part."""
    parts = [abs(one[0] - other[0]) / abs(other[0])]
    parts += [float(np.max(np.abs(one[1][n] - g)) / np.max(np.abs(g))) for n, g in other[1].items()]
    return max(parts)


# Dense ---------------------------------------------------------------------------------------------------------------


def dense_problem(n: int, device: Device | None, tasks: int = 10, d: int = 8):
    rng = np.random.default_rng(0)
    task = np.arange(n) % tasks
    X = rng.normal(size=(n, d))
    y = np.sin(X[:, 0]) * (1 + 0.1 * task) + 0.3 * rng.normal(size=n)
    cells = merge(X, task, y, np.ones(n), np.ones(n), tasks)
    kernel = kernels.SquaredExponential(1.0, (2.0,) * d, fixed=("variance",))
    form = FreeForm(tasks, None)
    setup = multitask.Setup(PlacedTasks(cells, device=device), Design.from_cells(cells, device), kernel, form, "dense")
    A = rng.normal(size=(tasks, 2 * tasks))
    values = {
        "kernel": kernel.theta,
        **form.of_matrix(A @ A.T / (2 * tasks)),
        "noise": np.full(tasks, np.log(0.1)),
    }
    return setup, values


def gpytorch_evaluation(setup: Any, values: Any):
    """Evidence and backward of the same model by GPyTorch, Cholesky at every size; None without GPyTorch."""
    try:
        import gpytorch
    except ImportError:
        return None
    cells, M = setup.cells, setup.M
    X, y, task = GPU.put(cells.X), GPU.put(cells.y), GPU.put(cells.task)

    class Hadamard(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__((X, task[:, None]), y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
            self.task_covar_module = gpytorch.kernels.IndexKernel(num_tasks=M, rank=M)

        def forward(self, x, i):
            covariance = self.covar_module(x).mul(self.task_covar_module(i))
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), covariance)

    likelihood = gpytorch.likelihoods.GaussianLikelihood()  # one noise: fewer parameters than ours
    model = Hadamard(likelihood).double().to(GPU.name)
    likelihood = likelihood.double().to(GPU.name)
    B = setup.form.parts(values).B
    index = model.task_covar_module
    with torch.no_grad():
        model.covar_module.lengthscale = 2.0
        likelihood.noise = 0.1
        index.covar_factor.copy_(GPU.put(np.linalg.cholesky(B) * (1 - 1e-9)))
        index.var = 1e-8 * torch.ones_like(index.var)
    model.train()
    likelihood.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    settings = gpytorch.settings

    def run():
        fast = settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False)
        with fast, settings.max_cholesky_size(10**9):
            model.zero_grad()
            value = mll(model(X, task[:, None]), y) * len(y)
            value.backward()
        return float(value.detach())

    return run


def dense(sizes: dict, rows: list[dict]) -> None:
    for n in sizes["dense"]:
        setup, values = dense_problem(n, GPU)
        objective = multitask.multitask_objective(setup)
        value = objective(values)[0]
        ours = seconds(lambda o=objective, v=values: o(v), sizes["repeats"])
        ours_peak = peak(lambda o=objective, v=values: o(v))
        X = GPU.put(setup.cells.X)
        A = torch.exp(-0.125 * torch.cdist(X, X) ** 2)
        A.diagonal().add_(0.1)
        factor = seconds(lambda A=A: torch.linalg.cholesky(A), sizes["repeats"])
        L = torch.linalg.cholesky(A)
        library = seconds(lambda L=L: torch.cholesky_inverse(L), sizes["repeats"])
        blocked = seconds(lambda L=L: inverse_from_factor(L), sizes["repeats"])
        P = inverse_from_factor(L)
        error = float((P - torch.cholesky_inverse(L)).abs().max() / P.abs().max())
        del A, L, P, X
        row = {
            "n": n,
            "evidence and gradient, ms": round(1e3 * ours, 1),
            "Cholesky, ms": round(1e3 * factor, 1),
            "cholesky_inverse, ms": round(1e3 * library, 1),
            "inverse by blocked products, ms": round(1e3 * blocked, 1),
            "ours / (Cholesky + cholesky_inverse) (at most 1.25)": round(ours / (factor + library), 3),
            "ours / (Cholesky + blocked inverse)": round(ours / (factor + blocked), 3),
            "blocked inverse / cholesky_inverse": round(blocked / library, 3),
            "blocked and library's inverse differ by": error,
            "peak GiB": round(ours_peak, 2),
        }
        gc.collect()
        theirs = gpytorch_evaluation(setup, values)
        if theirs is not None:
            try:
                row["GPyTorch's evidence less ours"] = theirs() - value
                spent = seconds(theirs, max(sizes["repeats"] // 2, 1))
                row["GPyTorch, ms"] = round(1e3 * spent, 1)
                row["ours / GPyTorch"] = round(ours / spent, 3)
                row["GPyTorch, peak GiB"] = round(peak(theirs), 2)
            except torch.OutOfMemoryError:
                row["GPyTorch, ms"] = "out of memory"
        del theirs, objective
        gc.collect()
        rows.append(row)
        print(row, flush=True)


def host_dense(sizes: dict) -> dict:
    """The largest size that the host is asked for, on all its cores."""
    n = sizes["host dense"]
    (here, values), (there, _) = dense_problem(n, None), dense_problem(n, GPU)
    slow, fast = multitask.multitask_objective(here), multitask.multitask_objective(there)
    host, other = once(lambda: slow(values))
    gpu = seconds(lambda: fast(values), sizes["repeats"])
    return {
        "n": n,
        "host, all cores, s": round(host, 3),
        "GPU, s": round(gpu, 4),
        "times faster": round(host / gpu, 1),
        "largest relative difference": differ(fast(values), other),
    }


def crossover(sizes: dict) -> list[dict]:
    """From which n on the GPU pays, the host on one thread as for small problems."""
    rows = []
    for n in sizes["crossover"]:
        (here, values), (there, _) = dense_problem(n, None), dense_problem(n, GPU)
        one, two = multitask.multitask_objective(here), multitask.multitask_objective(there)
        with threadpool_limits(1 if n < 1500 else None):
            host = seconds(lambda o=one, v=values: o(v), sizes["repeats"])
        gpu = seconds(lambda o=two, v=values: o(v), sizes["repeats"])
        rows.append({"n": n, "host, ms": round(1e3 * host, 2), "GPU, ms": round(1e3 * gpu, 2)})
    return rows


# Focused, EP, EM -----------------------------------------------------------------------------------------------------


def focused_setup(tasks: int, rows: int, m: int, device: Device | None):
    rng = np.random.default_rng(0)
    M = tasks + 1
    X = rng.uniform(-5, 5, (M * rows, 2))
    task = np.repeat(np.arange(M), rows)
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=len(task))
    ones = np.ones(len(y))
    cells = merge(X, task, y, ones, ones, M)
    kernel = kernels.SquaredExponential(1.0, (1.0, 1.0))
    own = kernels.SquaredExponential(0.5, (1.0, 1.0), tied=True) + kernels.Constant(0.3)
    Z = choose_inducing(kernel, cells.X[:rows], cells.X[rows : 20 * rows], m)
    setup = focused.Setup(PlacedTasks(cells, device=device), 0, kernel, [None] + [own] * tasks, Z)
    values = {
        "kernel": kernel.theta,
        "rho": rng.normal(size=tasks),
        "specific": np.tile(own.theta, tasks) + 0.1 * rng.normal(size=3 * tasks),
        "noise": np.full(M, np.log(0.01)),
    }
    return setup, values


def focused_gp(sizes: dict, host: bool) -> dict:
    tasks, rows, m = sizes["focused"]
    (here, values), (there, _) = focused_setup(tasks, rows, m, None), focused_setup(tasks, rows, m, GPU)
    slow, fast = focused.focused_objective(here), focused.focused_objective(there)
    gpu = seconds(lambda: fast(values), sizes["repeats"])
    out = {
        "tasks, rows each, inducing inputs": [tasks, rows, len(here.Z)],
        "GPU, ms": round(1e3 * gpu, 1),
        "GPU, peak GiB": round(peak(lambda: fast(values)), 2),
    }
    if host:
        with threadpool_limits(1):
            spent, other = once(lambda: slow(values))
        out |= {
            "host, one thread, s": round(spent, 2),
            "times faster": round(spent / gpu, 1),
            "largest relative difference": differ(fast(values), other),
        }
    return out


def ep_focused(sizes: dict, host: bool) -> dict:
    tasks, rows, m = sizes["focused"]

    def problem(device: Device | None):
        setup, values = focused_setup(tasks, rows, m, device)
        labels = replace(setup, tasks=PlacedTasks(replace(setup.cells, y=np.sign(setup.cells.y)), device=device))
        at = {n: v for n, v in values.items() if n != "noise"}

        def evaluate(sweeps: int):
            how = replace(labels, infer=EPInference(Probit(), max_sweeps=sweeps, tol=1e-5))
            fit = focused.condition(at, how)
            return fit, (fit.evidence, focused.evidence_gradient(fit, at, how))

        return evaluate

    there = problem(GPU)
    whole = seconds(lambda: there(100), max(sizes["repeats"] // 2, 1))
    two = seconds(lambda: there(2), max(sizes["repeats"] // 2, 1))
    sweeps = there(100)[0].n_sweeps
    out = {
        "labels": (tasks + 1) * rows,
        "GPU, evidence and gradient, s": round(whole, 3),
        "sweeps": sweeps,
        "GPU, peak GiB": round(peak(lambda: there(100)), 2),
        "GPU, two sweeps and gradient, s": round(two, 3),
    }
    if host:
        here = problem(None)
        with threadpool_limits(1):
            spent, (_, other) = once(lambda: here(2))
        out |= {
            "host, one thread, two sweeps and gradient, s": round(spent, 1),
            "times faster": round(spent / two, 1),
            "largest relative difference": differ(there(2)[1], other),
        }
    return out


def em_problem(n: int, tasks: int, labels: int, device: Device | None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    rows = [np.sort(rng.permutation(n)[: labels - int(rng.integers(0, labels // 10 + 1))]) for _ in range(tasks)]
    task = np.repeat(np.arange(tasks), [len(r) for r in rows])
    W, at = rng.normal(size=(10, tasks)), np.concatenate(rows)
    y = np.sin(np.einsum("ij,ji->i", X[at], W[:, task])) + 0.3 * rng.normal(size=len(at))
    ones = np.ones(len(at))
    cells = merge(at[:, None].astype(float), task, y, ones, ones, tasks)
    basis = bases.function_basis(kernels.Matern(1.0, 3.0, nu=1.5), X)
    return h.arrange(basis, PlacedTasks(cells, device=device))


def em(sizes: dict) -> dict:
    n, tasks, labels = sizes["em"]
    strengths = h.Strengths(1.0, 10.0)

    def step(p: h.Problem, state: h.State) -> h.State:
        h.log_hyper_prior(state, p.basis, strengths)
        return h.maximise(state, h.expect(state, p), p, strengths)

    here, there = em_problem(n, tasks, labels, None), em_problem(n, tasks, labels, GPU)
    one, two = h.start(here.basis, 0.1), h.start(there.basis, 0.1)
    gpu = seconds(lambda: step(there, two), sizes["repeats"])
    with threadpool_limits(1):
        one_thread, a = once(lambda: step(here, one))
    all_cores, a = once(lambda: step(here, a))
    b = step(there, step(there, two))
    return {
        "inputs, tasks, labels a task at most": [n, tasks, labels],
        "GPU, ms an iteration": round(1e3 * gpu, 1),
        "GPU, peak GiB": round(peak(lambda: step(there, two)), 2),
        "host, one thread, s": round(one_thread, 2),
        "host, all cores, s": round(all_cores, 2),
        "times faster than the faster of them": round(min(one_thread, all_cores) / gpu, 1),
        "largest relative difference after two steps": float(np.abs(a.K - b.K.cpu().numpy()).max() / np.abs(a.K).max()),
    }


def timed(f: Any, spent: list[float]):
    """The function, its seconds added up."""

    def run(*args, **kwargs):
        start = time.perf_counter()
        value = f(*args, **kwargs)
        spent[0] += time.perf_counter() - start
        return value

    return run


def fits(sizes: dict) -> list[dict]:
    """Wall-clock seconds of whole fits and predictions; the host with the threads that it chooses."""
    n, tasks, rows = sizes["fit"]
    setup, _ = dense_problem(n, None)
    related, _ = focused_setup(tasks, rows, 10, None)
    out = []
    for model, cells in (
        (borrow.MultiTaskGPRegressor(specific_kernel=None, max_iter=100), setup.cells),
        (borrow.FocusedGPRegressor(primary=0, n_restarts=0, max_iter=100), related.cells),
    ):
        found = {}
        alone = [0.0]
        for device in ("cuda", "cpu"):
            alone[0] = 0.0
            start = time.perf_counter()
            fitted = clone(model).set_params(device=device if GPU.name == "cuda" else "cpu")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of iterations: both sides have the same
                with mock.patch.object(focused_search, "fit_alone", timed(focused_search.fit_alone, alone)):
                    fitted.fit(cells.X, cells.y, tasks=cells.task)
            mean = fitted.predict(cells.X[:500], tasks=cells.task[:500], return_std=True)[0]
            found[device] = time.perf_counter() - start, fitted.log_marginal_likelihood_, mean, alone[0]
        (gpu, one, mean, own), (host, other, there, _) = found["cuda"], found["cpu"]
        out.append(
            {
                "fit": f"{type(model).__name__}, {len(cells.y):,} rows, {len(cells.starts) - 1} tasks",
                "GPU, s": round(gpu, 1),
                "of these, each task by itself on the host": round(own, 1),
                "host, s": round(host, 1),
                "times faster": round(host / gpu, 1),
                "log evidence, GPU less host": one - other,
                "largest difference of predictions": float(np.abs(mean - there).max()),
            }
        )
    return out


def machine() -> dict:
    card = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    return {
        "card": "none" if card is None else card.name,
        "card memory, GiB": 0 if card is None else round(card.total_memory / 2**30, 1),
        "host cores": os.cpu_count(),
        "host": platform.machine(),
        "torch": torch.__version__,
        "CUDA": torch.version.cuda,
    }


def main(arguments: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--parts", default="dense,host,crossover,focused,em,fits,ep")
    parser.add_argument("--no-host", action="store_true", help="leave out the slow comparisons with the host")
    given = parser.parse_args(arguments)
    reason = missing()
    if reason is not None and not given.small:
        sys.exit(f"no GPU, so nothing is measured: {reason}. --small runs the same code in tiny sizes on the CPU.")
    sizes, parts, host = (SMALL if given.small else SIZES), given.parts.split(","), not given.no_host
    result: dict = {"seed": 0, "machine": machine(), "dense": []}
    print(result["machine"], flush=True)
    steps: dict[str, Any] = {
        "dense": lambda: dense(sizes, result["dense"]),
        "host": lambda: result.update({"dense against the host": host_dense(sizes)}) if host else None,
        "crossover": lambda: result.update(crossover=crossover(sizes)),
        "focused": lambda: result.update(focused=focused_gp(sizes, host)),
        "em": lambda: result.update(em=em(sizes)),
        "fits": lambda: result.update(fits=fits(sizes)),
        "ep": lambda: result.update(ep=ep_focused(sizes, host)),
    }
    for name in parts:
        spent, _ = once(steps[name])
        print(f"{name}: {spent:.0f} s", {k: v for k, v in result.items() if k != "dense"}, flush=True)
        if not given.small:
            write_result("bench_gpu", result)
        gc.collect()
    return result


if __name__ == "__main__":
    main()
