"""Speed of the symmetric multi-task GP against GPy, GPflow and BoTorch and against bare LAPACK, in one run, one thread.

    python benchmarks/multitask.py [--gpy PYTHON] [--gpflow PYTHON] [--botorch PYTHON]
                                            prints, and writes docs/results/multitask_speed.json
    python benchmarks/multitask.py --small  the parts without peers, in tiny sizes; writes nothing
    python benchmarks/multitask.py --draws 10 --gpy PYTHON
                                            fits of 64 rows of other draws, ours and GPy's; goes on where it stopped,
                                            writes docs/results/multitask_draws.json

What is compared:
- a fit to the compiler data: eleven programs, 64 (then 16) settings of thirteen flags each, every program its own
  random settings; free-form K^f, shared noise, no priors, targets standardised a program. Every fit runs in a fresh
  process and is timed from `fit()` on: cold start counts, imports do not (they have a row of their own);
- log evidence of all of them by one formula, ours, at the hyper-parameters that each found, for the same targets;
- evidence with gradient against dpotrf + dpotri of the same matrix; n = 1000, 2000, 3000, ten tasks, distinct inputs;
- a complete design, 1,000 inputs x 50 tasks, against one eigendecomposition of 1,000 points and its products;
- the school data, rank 2: milliseconds an evaluation, and how many a fit takes.

GPy and GPflow fit the same model from random starts (`peers/`), BoTorch its own defaults: priors, one noise and one
mean a task. Peers may live in environments of their own, as their dependencies disagree; `pip install 'borrow[bench]'`
has them. A fit is stopped after `--limit` seconds; its ratio is then a lower bound. Times are processor time, which
other programs on the machine do not stretch; wall-clock time of the fits is in the result too.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.linalg import blas, lapack

from borrow import MultiTaskGPRegressor
from borrow.covariance import Design
from borrow.data.cells import merge
from borrow.kernels import SquaredExponential
from borrow.models.multitask import model as multitask
from borrow.models.multitask.task_covariance import FreeForm
from borrow.tasks.placed import PlacedTasks
from results import ROOT, Records, write_result

PEERS = Path(__file__).resolve().parent / "peers"
#: name -> script, how to install it, and the least ratio of its time to ours that is wanted.
PROGRAMS = {
    "GPy": ("fit_gpy.py", "pip install GPy", 8),
    "GPflow": ("fit_gpflow.py", "pip install gpflow tensorflow-cpu", 20),
    "BoTorch": ("fit_botorch.py", "pip install torch==2.13.0 botorch", 40),
}
ONE_THREAD = {
    f"{n}_NUM_THREADS": "1" for n in ("OPENBLAS", "OMP", "MKL", "NUMEXPR", "TF_NUM_INTRAOP", "TF_NUM_INTEROP")
}
FLAGS, TASKS = 13, 11
#: Seed of the first of the other draws.
FIRST_DRAW = 101


def timed(f) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def in_turn(repeats: int, *functions) -> list[float]:
    """Median seconds of each, called in turn, so that a busy moment hits all of them."""
    for f in functions:
        f()
    return np.median([[timed(f) for f in functions] for _ in range(repeats)], axis=0).tolist()


# Fits ----------------------------------------------------------------------------------------------------------------


def compiler_problem(rows: int, seed: int) -> dict[str, np.ndarray]:
    """`rows` random settings of every program, not the same ones; speed-up standardised a program."""
    from borrow.datasets import load_compiler

    table, rng = load_compiler(), np.random.default_rng([seed, rows])
    M = len(table.programs)
    chosen = [rng.choice(len(table.X), rows, replace=False) for _ in range(M)]
    Y = [table.speedup[at, t] for t, at in enumerate(chosen)]
    y = np.concatenate([(v - v.mean()) / v.std() for v in Y])
    return {"X": table.X[np.concatenate(chosen)], "y": y, "task": np.repeat(np.arange(M), rows)}


def fit_elsewhere(python: str, script: str, problem: dict, seed: int, limit: float) -> dict | str:
    """One fit in a fresh process; a sentence where it cannot be run or does not end in time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, seed=seed, **problem)
        done = subprocess.run(
            [python, str(PEERS / script), str(path)],
            capture_output=True,
            text=True,
            env={**os.environ, **ONE_THREAD},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 30, int(limit) + 40)),
        )
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if done.returncode < 0:
        return f"stopped after {limit:g} s"
    lines = done.stderr.strip().splitlines() or ["no message"]
    return f"does not run: {lines[-1]}"


def evidence_at(problem: dict, found: dict) -> float:
    """Log evidence of the standardised targets by our formula, at hyper-parameters that any program found."""
    noise = np.broadcast_to(found["noise"], TASKS)
    model = MultiTaskGPRegressor(
        kernel=SquaredExponential(1.0, tuple(found["lengthscale"])),
        task_covariance=np.asarray(found["B"]),
        noise={t: float(v) for t, v in enumerate(noise)},
        optimizer=None,
        normalize_y=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(problem["X"], problem["y"] - np.asarray(found["mean"]), tasks=problem["task"])
    return model.log_marginal_likelihood_


def compare_fits(pythons: dict[str, str], rows: int, seed: int, limit: float, repeats: int = 5) -> list[dict]:
    """Our fit (median of several, in turn with the peers) and theirs, one row each."""
    problem = compiler_problem(rows, seed)
    ours, theirs = [], {}
    for turn in range(repeats):
        ours.append(fit_elsewhere(sys.executable, "fit_borrow.py", problem, seed, limit))
        if turn < len(PROGRAMS):
            name = list(PROGRAMS)[turn]
            theirs[name] = fit_elsewhere(pythons[name], PROGRAMS[name][0], problem, seed, limit)
    assert all(isinstance(o, dict) for o in ours), ours[0]
    mine = {**ours[0], **{k: float(np.median([o[k] for o in ours])) for k in ("seconds", "wall", "import")}}
    out = []
    for name, found in {"borrow": mine, **theirs}.items():
        row: dict = {"program": name, "rows a task": rows, "points": TASKS * rows}
        least = PROGRAMS[name][2] if name in PROGRAMS else None
        if isinstance(found, str):
            row["note"] = found if found.startswith("stopped") else f"absent; {PROGRAMS[name][1]} ({found})"
            if found.startswith("stopped"):
                row |= {"seconds": limit, "times ours, at least": round(limit / mine["seconds"], 1), "wanted": least}
        else:
            evidence = evidence_at(problem, found)
            row |= {
                "seconds": round(found["seconds"], 3),
                "wall seconds": round(found["wall"], 3),
                "import seconds": round(found["import"], 3),
                "evaluations": found["evaluations"],
                "log evidence": round(evidence, 4),
                "own figure less ours": found["log likelihood"] - evidence,
                "least noise": float(np.min(found["noise"])),
                "version": found["version"],
            }
            if least:
                row |= {"times ours": round(found["seconds"] / mine["seconds"], 1), "wanted": least}
        out.append(row)
        show(row)
    best = max(r["log evidence"] for r in out if "log evidence" in r)
    for row in out:
        if "log evidence" in row:
            row["below the best"] = round(best - row["log evidence"], 4)
    return out


def other_draws(python: str, n: int, limit: float) -> dict:
    """Our fit, before and after GPy's, on draws that the search was not tuned on; ratios of processor time.

    Then ours once more, to see how much of it goes into what is not known of the hyper-parameters, which GPy does not
    ask for.
    """
    kept, ours = Records(ROOT / "out" / "multitask_draws.jsonl"), "fit_borrow.py"
    seeds = range(FIRST_DRAW, FIRST_DRAW + n)
    for seed in seeds:
        if any(r["seed"] == seed and "ratio" in r for r in kept):
            continue
        problem = compiler_problem(64, seed)
        first, theirs, last = (
            fit_elsewhere(program, script, problem, seed, limit)
            for program, script in ((sys.executable, ours), (python, "fit_gpy.py"), (sys.executable, ours))
        )
        assert all(isinstance(found, dict) for found in (first, theirs, last)), (first, theirs, last)
        seconds = 0.5 * (first["seconds"] + last["seconds"])
        row = {"seed": seed, "seconds": seconds, "GPy's": theirs["seconds"], "ratio": seconds / theirs["seconds"]}
        row |= {"log evidence": evidence_at(problem, first), "GPy's log evidence": evidence_at(problem, theirs)}
        row |= {"evaluations": first["evaluations"], "GPy": theirs["version"]["GPy"]}
        show(kept.add(row))
    for seed in seeds:
        if not any(r["seed"] == seed and "share of the search" in r for r in kept):
            again = fit_elsewhere(sys.executable, ours, compiler_problem(64, seed), seed, limit)
            assert isinstance(again, dict), again
            share = 1.0 - again["uncertainty"] / again["seconds"]
            show(kept.add({"seed": seed, "share of the search": share}))
    rows = [r for r in kept if r["seed"] in seeds and "ratio" in r]
    share = {r["seed"]: r["share of the search"] for r in kept if "share of the search" in r}
    result: dict = {
        "seed": FIRST_DRAW,
        "rows a task": 64,
        "draws": [{**r, "share of the search": share[r["seed"]]} for r in rows],
    }
    searches = [r["ratio"] * share[r["seed"]] for r in rows]
    for name, ratios in (("", [r["ratio"] for r in rows]), (" of the search", searches)):
        result |= {f"median ratio{name}": float(np.median(ratios)), f"worst ratio{name}": max(ratios)}
    write_result("multitask_draws", result, rows)
    return result


# Against bare LAPACK -------------------------------------------------------------------------------------------------


def random_tasks(X: np.ndarray, task: np.ndarray, M: int, rng: np.random.Generator):
    """A setup of the free form on random targets, and hyper-parameters that are nothing special."""
    one = np.ones(len(task))
    cells = merge(X, task, rng.normal(size=len(task)), one, one, M)
    design, form = Design.from_cells(cells), FreeForm(M, None)
    kernel = SquaredExponential(1.0, (3.0,) * X.shape[1], fixed=("variance",))
    path = multitask.choose_path(design, form, False, (), False)
    setup = multitask.Setup(PlacedTasks(cells), design, kernel, form, path, share_noise=True)
    A = rng.normal(size=(M, M))
    B = A @ A.T / M + 0.3 * np.eye(M)
    return setup, {"kernel": kernel.theta, "noise": np.log([0.1]), **form.of_matrix(B)}


def against_cholesky(n: int, seed: int, repeats: int) -> dict:
    """Evidence with gradient of ten tasks at n distinct inputs; dpotrf and dpotri of the same matrix."""
    rng = np.random.default_rng([seed, n])
    setup, values = random_tasks(rng.normal(size=(n, FLAGS)), np.arange(n) * 10 // n, 10, rng)
    assert setup.path == "dense"
    objective = multitask.multitask_objective(setup)
    A = np.asfortranarray(10.0 * multitask.prior_of_tasks(values, setup).K)
    A.flat[:: n + 1] += 1.0

    def bare():
        L, _ = lapack.dpotrf(A, lower=1)
        lapack.dpotri(L, lower=1, overwrite_c=1)

    ours, floor = in_turn(repeats, lambda: objective(values), bare)
    return {
        "n": n,
        "milliseconds": round(1e3 * ours, 2),
        "dpotrf + dpotri": round(1e3 * floor, 2),
        "ratio (at most 2)": round(ours / floor, 2),
    }


def against_eigen(N: int, M: int, seed: int, repeats: int) -> dict:
    """Evidence with gradient of a complete design; one eigendecomposition of its N points, and its products.

    The products with N^2 entries or more: U diag U' (N^3) for the adjoint of k, and four of N^2 M: targets into
    the eigenvectors and back, alpha'B alpha, and alpha k.
    """
    rng = np.random.default_rng([seed, N, M])
    X = rng.normal(size=(N, FLAGS))
    setup, values = random_tasks(np.tile(X, (M, 1)), np.repeat(np.arange(M), N), M, rng)
    assert setup.path == "complete"
    objective = multitask.multitask_objective(setup)
    K = setup.kernel(setup.design.inputs)
    S = rng.normal(size=(M, N))

    def eigen():
        return lapack.dsyevd(K.T, lower=1)

    U = eigen()[1]

    def products():
        T = S @ U
        S2 = T @ U.T
        blas.dgemm(1.0, U, U, trans_b=1)
        S2.T @ S
        S2 @ K

    ours, one, rest = in_turn(repeats, lambda: objective(values), eigen, products)
    return {
        "inputs": N,
        "tasks": M,
        "milliseconds": round(1e3 * ours, 2),
        "one eigh": round(1e3 * one, 2),
        "its products": round(1e3 * rest, 2),
        "ratio (under 2)": round(ours / (one + rest), 2),
    }


def school_fit() -> dict:
    """Rank 2 on all 15,362 students, 19 inputs: the path taken, milliseconds an evaluation, how many a fit takes."""
    from borrow.datasets.shared_data import load_school

    data = load_school()
    spent, condition = [], multitask.condition

    def counted(*arguments):
        spent.append(time.process_time())
        return condition(*arguments)

    multitask.condition = counted
    try:
        model = MultiTaskGPRegressor(rank=2, normalize_y="common")  # as in the study
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            total = timed(lambda: model.fit(data.X[:, :19], data.score, tasks=data.school))
    finally:
        multitask.condition = condition
    return {
        "rows": len(data.score),
        "distinct inputs": len(model.fitted_.model.setup.design.inputs),
        "path": model.path_,
        "milliseconds an evaluation (median)": round(1e3 * float(np.median(np.diff(spent))), 1),
        "evaluations of a fit": len(spent),
        "seconds of a fit": round(total, 2),
    }


def bare_comparisons(seed: int, small: bool) -> dict:
    sizes = (60, 120) if small else (1000, 2000, 3000)
    repeats = 3 if small else 5
    evidence = [against_cholesky(n, seed, repeats) for n in sizes]
    complete = against_eigen(*((30, 3) if small else (1000, 50)), seed, repeats)
    for row in [*evidence, complete]:
        show(row)
    return {"evidence": evidence, "complete": complete}


def show(row: dict) -> None:
    sys.stdout.write(", ".join(f"{k} {v}" for k, v in row.items() if k != "version") + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser()
    for name in PROGRAMS:
        parser.add_argument(f"--{name.lower()}", default=sys.executable, metavar="PYTHON", help=f"a Python with {name}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=150.0, help="processor seconds for a peer's fit")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--draws", type=int, help="so many other draws against GPy, and nothing else")
    given = parser.parse_args(arguments)
    if given.draws:
        return other_draws(given.gpy, given.draws, given.limit)
    result = {"seed": given.seed, **bare_comparisons(given.seed, given.small)}
    if not given.small:
        pythons = {name: getattr(given, name.lower()) for name in PROGRAMS}
        result["fits"] = [r for rows in (64, 16) for r in compare_fits(pythons, rows, given.seed, given.limit)]
        try:
            result["school"] = school_fit()
        except FileNotFoundError as missing:
            result["school"] = {"not measured": str(missing)}
        show(result["school"])
        write_result("multitask_speed", result)
    return result


if __name__ == "__main__":
    main()
