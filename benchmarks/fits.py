"""CPU seconds of whole fits, now and at an earlier commit, one thread, each fit in a process of its own.

    git worktree add --detach ../base b0d6f37
    python benchmarks/fits.py --base ../base            prints, and writes docs/results/fits.json
    python benchmarks/fits.py --only "focused, demo"    one line, without the earlier commit; writes nothing

A line is a table to learn from and the estimator at its defaults, its uncertainty included; three draws of the table,
by seeds 0, 1 and 2, or more (`MORE_DRAWS`). Seconds and ratios are medians of the draws. Beside them stand the log
evidence, of numbers, and the log density of rows that were not fitted, means of the draws: a fit that is faster because
it stopped short would show there. Lines of `SAME`, of one draw, name kernels and switch off the priors, so that both
commits maximise the same function: there the evidence can be compared. What is done is kept in out/fits.jsonl, and not
run again at the same commit; `--kept` writes the result from the last that there is of each draw, however many there
are, with the commits of each line. Other lines are added to `LINES`.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SEED, DRAWS = 0, 3
#: Lines whose primary is another one in each draw have more, and those whose log density was lower than before.
MORE_DRAWS = {
    "focused, demo with any program": 8,
    "focused, three classes, 300 rows": 10,
    "symmetric, 2,400 rows, 10 tasks": 10,
    "hierarchical, 190 tasks of 8 rows": 10,
}


def any_program(rng: np.random.Generator) -> dict[str, Any]:
    """The table of `borrow demo` with another program as the primary."""
    return demo(rng, int(rng.integers(11)))


def demo(rng: np.random.Generator, program: int = 0) -> dict[str, Any]:
    """The table of `borrow demo`: eleven programs, thirteen flags, 16 settings of the primary and 32 of each other."""
    from borrow.datasets import load_compiler

    data = load_compiler()
    X, Y = np.asarray(data.X, dtype=float), np.roll(np.asarray(data.speedup), -program, axis=1)
    orders = [rng.permutation(len(X)) for _ in range(11)]
    at = [order[: 32 if t else 16] for t, order in enumerate(orders)]
    test = orders[0][16:516]
    return {
        "X": np.vstack([X[a] for a in at]),
        "y": np.concatenate([Y[a, t] for t, a in enumerate(at)]),
        "task": np.repeat(np.arange(11), [len(a) for a in at]),
        "X_test": X[test],
        "y_test": Y[test, 0],
    }


def four_tasks(rng: np.random.Generator) -> dict[str, Any]:
    """2,000 rows of four tasks in three columns."""
    X, task = rng.uniform(-2, 2, (2500, 3)), np.append(np.repeat(np.arange(4), 500), np.zeros(500, dtype=int))
    shared, own = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2], np.cos(2 * X[:, 1]) * np.sign(X[:, 2])
    y = np.array([1.0, 0.8, -0.6, 0.3])[task] * shared + 0.3 * task * own + 0.2 * rng.normal(size=2500)
    return split(X, y, task, 2000)


def many_tasks(rng: np.random.Generator) -> dict[str, Any]:
    """504 rows of 42 tasks in six columns."""
    X, task = rng.normal(size=(704, 6)), np.append(np.repeat(np.arange(42), 12), np.zeros(200, dtype=int))
    rho = np.append(1.0, rng.normal(size=41))
    y = rho[task] * (np.sin(X[:, 0]) + 0.5 * X[:, 1]) + 0.3 * rng.normal(size=704)
    return split(X, y, task, 504)


def ten_tasks(rng: np.random.Generator) -> dict[str, Any]:
    """2,400 rows of ten tasks in eight columns, one of which matters."""
    X, task = rng.normal(size=(2900, 8)), np.append(np.arange(2400) % 10, np.zeros(500, dtype=int))
    return split(X, np.sin(X[:, 0]) * (1.0 + 0.1 * task) + 0.3 * rng.normal(size=2900), task, 2400)


def some_of_ten_tasks(n: int) -> Callable[[np.random.Generator], dict[str, Any]]:
    """The first n of these rows to learn from."""

    def some(rng: np.random.Generator) -> dict[str, Any]:
        return {name: v[:n] if name in ("X", "y", "task") else v for name, v in ten_tasks(rng).items()}

    return some


def ratings(rng: np.random.Generator) -> dict[str, Any]:
    """Eight ratings, 0 to 10, by each of 190 persons, of things with thirteen properties."""
    X, task = (rng.random((1720, 13)) < 0.5).astype(float), np.append(np.repeat(np.arange(190), 8), np.zeros(200, int))
    common, own = rng.normal(size=13), 0.6 * rng.normal(size=(190, 13))
    y = 5.0 + 0.8 * X @ common + (own[task] * X).sum(axis=1) + rng.normal(size=1720)
    return split(X, np.round(np.clip(y, 0.0, 10.0)), task, 1520)


def rare_labels(rng: np.random.Generator) -> dict[str, Any]:
    """Eighty labels in each of nineteen fields, nine columns, few of them positive."""
    X, task = rng.normal(size=(1720, 9)), np.append(np.repeat(np.arange(19), 80), np.zeros(200, int))
    common, own = rng.normal(size=9), 0.6 * rng.normal(size=(19, 9))
    y = X @ common + (own[task] * X).sum(axis=1) - 3.0 + rng.normal(size=1720)
    return split(X, (y > 0.0).astype(int), task, 1520)


def three_classes(rng: np.random.Generator) -> dict[str, Any]:
    """300 rows of three tasks in four columns, three classes."""
    X, task = rng.normal(size=(500, 4)), np.append(np.arange(300) % 3, np.zeros(200, int))
    score = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * task * X[:, 2] + 0.2 * rng.normal(size=500)
    return split(X, np.digitize(score, [-0.5, 0.5]), task, 300)


def split(X: Any, y: Any, task: Any, n: int) -> dict[str, Any]:
    """The first n rows to learn from, the others to be asked for."""
    return {"X": X[:n], "y": y[:n], "task": task[:n], "X_test": X[n:], "y_test": y[n:]}


#: By name: the estimator, what it is given, and how the table is made. Task 0 is the primary.
LINES: dict[str, tuple[str, dict[str, Any], Callable[[np.random.Generator], dict[str, Any]]]] = {
    "focused, demo": ("FocusedGPRegressor", {"primary": 0}, demo),
    "focused, demo with any program": ("FocusedGPRegressor", {"primary": 0}, any_program),
    "focused, 2,000 rows, 4 tasks": ("FocusedGPRegressor", {"primary": 0}, four_tasks),
    "focused, 504 rows, 42 tasks": ("FocusedGPRegressor", {"primary": 0}, many_tasks),
    "focused, three classes, 300 rows": ("FocusedGPClassifier", {"primary": 0}, three_classes),
    "symmetric, 2,400 rows, 10 tasks": ("MultiTaskGPRegressor", {}, ten_tasks),
    "hierarchical, 190 tasks of 8 rows": ("HierarchicalGPRegressor", {}, ratings),
    "hierarchical, 19 tasks of 80 labels": ("HierarchicalGPClassifier", {}, rare_labels),
    "pooled, 1,000 rows, 10 tasks": ("PooledGPRegressor", {}, some_of_ten_tasks(1000)),
}


def focused_likelihood(table: dict[str, Any]) -> dict[str, Any]:
    """The focused model of the paper without priors, on the primary's inputs, with kernels that are named."""
    from borrow.kernels import Constant, SquaredExponential

    own = SquaredExponential(0.5, 2.0) + Constant(0.2)
    kernel = SquaredExponential(1.0, (2.0,) * table["X"].shape[1])
    named = {"kernel": kernel, "specific_kernel": own, "inducing": "primary"}
    return {"primary": 0, "prior": None, "rho_prior": None, **named}


def focused_on_some(table: dict[str, Any]) -> dict[str, Any]:
    """The same on the inputs of the primary's first forty rows: on all 500 of them the earlier commit does not end."""
    return {**focused_likelihood(table), "inducing": table["X"][table["task"] == 0][:40]}


def symmetric_likelihood(table: dict[str, Any]) -> dict[str, Any]:
    """The symmetric model of the paper without priors: a free-form K^f and one kernel."""
    from borrow.kernels import SquaredExponential

    named = {"kernel": SquaredExponential(1.0, (3.0,) * table["X"].shape[1]), "specific_kernel": None}
    return {"prior": None, "task_prior": None, **named}


def hierarchical_model(table: dict[str, Any]) -> dict[str, Any]:
    """The hierarchical model with a base kernel that is named and learnt; noise and strengths are given.

    EM has priors at either commit, and by the evidence, which is compared, it need not end at the same values.
    """
    from borrow.kernels import SquaredExponential

    given = {"mean_strength": 1.0, "covariance_strength": 10.0, "noise": 0.5, "learn_noise": False}
    return {"base_kernel": SquaredExponential(1.0, float(table["X"].shape[1]) ** 0.5), "prior": None, **given}


Made = Callable[[dict[str, Any]], dict[str, Any]]
#: The same function to maximise at both commits: settings are made from the table.
SAME: dict[str, tuple[str, Made, Callable[[np.random.Generator], dict[str, Any]]]] = {
    "likelihood of focused, demo": ("FocusedGPRegressor", focused_likelihood, demo),
    "likelihood of focused, 2,000 rows, 4 tasks": ("FocusedGPRegressor", focused_on_some, four_tasks),
    "likelihood of focused, 504 rows, 42 tasks": ("FocusedGPRegressor", focused_likelihood, many_tasks),
    "likelihood of focused, three classes, 300 rows": ("FocusedGPClassifier", focused_likelihood, three_classes),
    "likelihood of symmetric, 600 rows, 10 tasks": (  # so many that the earlier commit ends in seconds
        "MultiTaskGPRegressor",
        symmetric_likelihood,
        some_of_ten_tasks(600),
    ),
    "evidence of hierarchical, 190 tasks of 8 rows": ("HierarchicalGPRegressor", hierarchical_model, ratings),
    "evidence of hierarchical, 19 tasks of 80 labels": ("HierarchicalGPClassifier", hierarchical_model, rare_labels),
}


def fit(name: str, seed: int) -> dict[str, float]:
    """One line in this process."""
    import borrow

    warnings.simplefilter("ignore")
    kind, settings, table = LINES[name] if name in LINES else SAME[name]
    drawn = table(np.random.default_rng(seed))
    model = getattr(borrow, kind)(**(settings if isinstance(settings, dict) else settings(drawn)))
    before = time.process_time()
    model.fit(drawn["X"], drawn["y"], tasks=drawn["task"])
    seconds = time.process_time() - before
    new = np.zeros(len(drawn["X_test"]), dtype=int)
    found = {"seconds": seconds}
    if name in SAME:  # of several classes, one against the rest, the sum
        evidence = float(np.sum(model.log_marginal_likelihood_))
        return found | {"evidence": evidence, "rows": float(len(drawn["y"]))}
    if kind.endswith("Classifier"):
        chance = model.predict_proba(drawn["X_test"], tasks=new)
        at = np.searchsorted(model.classes_, drawn["y_test"])
        return found | {"log density": float(np.mean(np.log(chance[np.arange(len(at)), at])))}
    found |= {"evidence": float(model.log_marginal_likelihood_)}
    if kind == "PooledGPRegressor":  # whose search did not end
        found |= {"converged": float(model.converged_)}
    mean, std = model.predict(drawn["X_test"], tasks=new, return_std=True, include_noise=True)
    z = (drawn["y_test"] - mean) / std
    return found | {"log density": float(np.mean(-0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi)))}


def fit_in(tree: Path, name: str, seed: int) -> dict[str, float]:
    """One line in a fresh process, with the source of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, __file__, "--here", name, str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def summary(draws: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of several draws: medians of seconds and of their ratio, means of the rest."""
    commits = dict.fromkeys(d["commit"] for d in draws if "commit" in d)
    line: dict[str, Any] = {"name": draws[0]["name"], "draws": draws, "commit": ", ".join(commits)}
    for side in ("now", "before"):
        found = [d[side] for d in draws if side in d]
        if found:
            line[side] = {k: float(np.mean([f[k] for f in found])) for k in found[0]}
            line[side]["seconds"] = float(np.median([f["seconds"] for f in found]))
    if "before" in line:
        line["ratio"] = float(np.median([d["now"]["seconds"] / d["before"]["seconds"] for d in draws]))
    return line


def main() -> None:
    """Run the lines, print ratios first, write the result where both commits were run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, help="a worktree of the earlier commit")
    parser.add_argument("--only", help="one line, by name")
    parser.add_argument("--kept", action="store_true", help="run nothing: the last that there is of each draw")
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        sys.stdout.write(json.dumps(fit(given.here[0], int(given.here[1]))) + "\n")
        return
    from results import RESULTS, Records, write_result

    kept, lines = Records(ROOT / "out" / "fits.jsonl"), {}
    known = json.loads((RESULTS / "fits.json").read_text())["lines"].values() if given.kept else []
    last = {(d["name"], d["seed"]): d for d in [*(d for line in known for d in line["draws"]), *kept]}
    for name in [given.only] if given.only else [*LINES, *SAME]:
        draws = []
        for seed in range(SEED, SEED + (MORE_DRAWS.get(name, DRAWS) if name in LINES else 1)):
            draw = last.get((name, seed))
            if draw is None and given.kept:
                continue
            if draw is None or (not given.kept and (given.only or draw["commit"] != kept.commit)):
                draw = {"name": name, "seed": seed, "now": fit_in(ROOT, name, seed)}
                if given.base:
                    draw = kept.add(draw | {"before": fit_in(given.base, name, seed)})
            draws.append(draw)
        lines[name] = line = summary(draws)
        text = f"{line['ratio']:.2f} x  ({line['before']})  " if "ratio" in line else ""
        sys.stdout.write(f"{name}: {text}{line['now']}\n")
        sys.stdout.flush()
    if (given.base or given.kept) and not given.only:
        result = {"seed": SEED, "lines": lines}
        write_result("fits", result, [d for line in lines.values() for d in line["draws"]])


if __name__ == "__main__":
    main()
