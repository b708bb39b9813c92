"""Figure 1 of Yu, Tresp & Schwaighofer (2005), and families of many small tasks: does learning the kernel help?

    python benchmarks/studies/yu2005_toy.py [--draws 10]       writes docs/results/yu2005_toy.json and a figure

The toy problem: 20 functions from a GP with the arcsine (neural network) covariance, 20 noisy points each of 60 inputs
on [-1, 1]. The base kernel is a squared exponential of lengthscale 0.3, our choice: the paper shows its own only as a
picture. Distances between kernels on the 60 inputs: Frobenius norm of the difference to that of the true one, and one
minus the cosine between the two matrices, which does not see their scale. A new function of 5 rows is predicted with
the true, the base and the learnt kernel.

The families: 60 tasks of 6 rows; combinations of three functions, a common mean with small deviations, the arcsine
covariance, and functions of a squared exponential that share nothing more than it; eight draws. Mean
squared error over a grid as a ratio to no learning, that is one GP per task with a base kernel shared by all. "No
transfer" is one GP per task with a kernel of its own, for every fifth task.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import matplotlib
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import borrow
from borrow import plot as figures
from borrow.kernels import NeuralNetwork, SquaredExponential
from results import FIGURES, settings_of, write_result

GRID = np.linspace(-1.0, 1.0, 60)[:, None]
TRUE, BASE = NeuralNetwork(1.0, 10.0, 1.0), SquaredExponential(1.0, 0.3)
FAMILIES = ("three functions", "common mean", "arcsine", "nothing shared")
PAPER = {"covariance_strength": 1.0, "prior": None, "normalize_y": False}
#: The hierarchical models of the toy problem, and of the families.
MODELS: dict[str, dict] = {
    "learnt, paper": {"base_kernel": BASE, **PAPER, "optimizer": None, "noise": 0.1, "max_iter": 30},
    "learnt, ours": {"base_kernel": BASE, "optimizer": None, "normalize_y": False},
    "ours": {"normalize_y": False},
    "no learning": {"covariance_strength": np.inf, "normalize_y": False},
    "plain EM": {**PAPER, "max_iter": 50},
}


def functions(K: np.ndarray, n: int, rng) -> np.ndarray:
    e, U = np.linalg.eigh(K)
    return (U * np.sqrt(np.maximum(e, 0.0))) @ rng.normal(size=(len(K), n))


def toy(seed: int, tasks: int = 20, rows: int = 20, noise: float = 0.1):
    """Functions at the grid, and a wide y with NaN."""
    rng = np.random.default_rng(seed)
    F = functions(TRUE(GRID), tasks + 20, rng)
    Y = np.full((len(GRID), tasks), np.nan)
    for l in range(tasks):
        own = rng.permutation(len(GRID))[:rows]
        Y[own, l] = F[own, l] + noise * rng.normal(size=rows)
    return F, Y, rng


def distance(K: np.ndarray, truth: np.ndarray) -> list[float]:
    cosine = np.vdot(K, truth) / (np.linalg.norm(K) * np.linalg.norm(truth))
    return [float(np.linalg.norm(K - truth) / np.linalg.norm(truth)), float(1 - cosine)]


def one_toy(seed: int, new_rows: int = 5, noise: float = 0.1, **sizes: int) -> dict:
    F, Y, rng = toy(seed, noise=noise, **sizes)
    fits = {name: borrow.HierarchicalGPRegressor(**MODELS[name]) for name in ("learnt, paper", "learnt, ours")}
    truth = TRUE(GRID)
    kernels = {"true": TRUE, "base": BASE}
    out: dict = {"seed": seed, "matrices": {"true": truth, "base": BASE(GRID)}, "data": (F, Y)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # thirty iterations are given
        for name, model in fits.items():
            model.fit(GRID, Y)
            kernels[name] = model.learned_kernel_
            out["matrices"][name] = model.learned_kernel_.raw()(GRID)
            hidden = ~np.isfinite(Y)
            out[f"error, {name}"] = float(np.mean((model.predict(GRID) - F[:, : Y.shape[1]])[hidden] ** 2))
            out[f"iterations, {name}"] = model.n_iter_
    alone = borrow.HierarchicalGPRegressor(
        base_kernel=BASE, optimizer=None, normalize_y=False, covariance_strength=np.inf, noise=noise**2
    ).fit(GRID, Y)
    out["error, base"] = float(np.mean((alone.predict(GRID) - F[:, : Y.shape[1]])[hidden] ** 2))
    out["distance"] = {name: distance(K, truth) for name, K in out["matrices"].items()}
    errors: dict = {name: [] for name in kernels}
    for t in range(Y.shape[1], F.shape[1]):
        own = rng.permutation(len(GRID))[:new_rows]
        y = F[own, t] + noise * rng.normal(size=new_rows)
        for name, k in kernels.items():
            a = np.linalg.solve(k(GRID[own]) + noise**2 * np.eye(new_rows), y)
            errors[name].append(np.mean((k(GRID, GRID[own]) @ a - F[:, t]) ** 2))
    out["new function"] = {name: float(np.mean(v)) for name, v in errors.items()}
    return out


def family(kind: str, seed: int, tasks: int = 60, rows: int = 6):
    """Long table, grid, and the true functions there."""
    rng = np.random.default_rng([seed, FAMILIES.index(kind)])
    X = rng.uniform(-1, 1, (tasks * rows, 1))
    task = np.repeat(np.arange(tasks), rows)
    both = np.vstack([X, GRID])
    if kind == "three functions":
        x = both[:, 0]
        F = np.column_stack([np.sin(4 * x), np.sign(x - 0.2), x**2]) @ rng.normal(size=(3, tasks))
    elif kind == "common mean":
        F = 2 * np.sin(5 * both) + 0.3 * functions(SquaredExponential(1.0, 0.5)(both), tasks, rng)
    else:
        kernel = TRUE if kind == "arcsine" else SquaredExponential(1.0, 0.5)
        F = functions(kernel(both), tasks, rng)
    y = F[np.arange(len(X)), task] + 0.2 * rng.normal(size=len(X))
    return X, y, task, F[len(X) :]


def one_family(kind: str, seed: int, **sizes: int) -> dict:
    X, y, task, F = family(kind, seed, **sizes)
    labels = np.unique(task)

    def error(predict) -> float:
        return float(np.mean([(predict(t) - F[:, t]) ** 2 for t in labels]))

    def fitted(model):
        model.fit(X, y, tasks=task)
        return lambda t: model.predict(GRID, tasks=int(t))

    def ridge(t):
        line = make_pipeline(PolynomialFeatures(3), RidgeCV(np.logspace(-4, 4, 17)))
        return line.fit(X[task == t], y[task == t]).predict(GRID)

    out = {"kind": kind, "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = borrow.HierarchicalGPRegressor(**MODELS["ours"])
        out["ours"] = error(fitted(ours))
        out["tau"] = ours.covariance_strength_
        base = fitted(borrow.HierarchicalGPRegressor(**MODELS["no learning"]))
        out["no learning"] = error(base)
        out["plain EM"] = error(fitted(borrow.HierarchicalGPRegressor(**MODELS["plain EM"])))
        out["pooled"] = error(fitted(borrow.PooledGPRegressor()))
        some = labels[: max(len(labels) // 5, 1)]  # one GP per task is slow, and every fifth task tells as much
        own = {t: borrow.SingleTaskGPRegressor(normalize_y=False).fit(X[task == t], y[task == t]) for t in some}
        alone = np.mean([(own[t].predict(GRID) - F[:, t]) ** 2 for t in some])
        out["no transfer / no learning"] = float(alone / np.mean([(base(t) - F[:, t]) ** 2 for t in some]))
        out["ridge"] = error(ridge)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    draws = parser.parse_args().draws
    toys = [one_toy(s) for s in range(draws)]
    table = []
    for name in ("true", "base", "learnt, paper", "learnt, ours"):
        d = np.array([t["distance"][name] for t in toys])
        row = {"kernel": name, "distance": d[:, 0].mean(), "distance sd": d[:, 0].std(), "angle": d[:, 1].mean()}
        row["new function of 5 rows"] = np.mean([t["new function"][name] for t in toys])
        row["hidden points of the 20"] = np.mean([t[f"error, {name}"] for t in toys]) if name != "true" else np.nan
        table.append({k: v if isinstance(v, str) else round(float(v), 4) for k, v in row.items()})
        sys.stdout.write(f"{table[-1]}\n")
    nearer = {n: int(sum(t["distance"][n][1] < t["distance"]["base"][1] for t in toys)) for n in toys[0]["distance"]}
    small = [one_family(kind, s) for kind in FAMILIES for s in range(min(draws, 8))]
    families = []
    for kind in FAMILIES:
        part = [r for r in small if r["kind"] == kind]
        row = {"family": kind, "error, no learning": round(float(np.mean([r["no learning"] for r in part])), 4)}
        for m in ("ours", "plain EM", "no transfer", "pooled", "ridge"):
            ratio = [r.get(f"{m} / no learning") or r[m] / r["no learning"] for r in part]
            row[m] = round(float(np.mean(ratio)), 3)
            row[f"{m}, worst draw"] = round(float(np.max(ratio)), 3)
        row["learnt, draws"] = int(sum(np.isfinite(r["tau"]) for r in part))
        families.append(row)
        sys.stdout.write(f"{row}\n")
    write_result(
        "yu2005_toy",
        {
            "seeds": list(range(draws)),
            "settings": settings_of(MODELS),
            "table": table,
            "nearer than the base kernel by angle": nearer,
            "draws of the families": min(draws, 8),
            "families": families,
        },
    )
    figures.save(picture(toys[0]), FIGURES / "yu2005_toy")


def picture(result: dict) -> Figure:
    """Figure 1: the data, and three kernels on the grid."""
    F, Y = result["data"]
    names = {"true": "True kernel", "base": "Base kernel", "learnt, ours": "Learnt kernel (eq. 18), 20 functions"}
    with matplotlib.rc_context({**figures.STYLE, "axes.grid": False}):
        figure = Figure(figsize=(11.0, 2.9), layout="constrained")
        axes = figure.subplots(1, 4, width_ratios=[1.25, 1, 1, 1])
        colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, Y.shape[1]))
        for l, colour in enumerate(colours):
            axes[0].plot(GRID[:, 0], F[:, l], color=colour, lw=0.7, alpha=0.6)
            axes[0].plot(GRID[:, 0], Y[:, l], ".", color=colour, ms=2.5)
        axes[0].set_title(f"{Y.shape[1]} noisy functions")
        axes[0].set_xlabel("x")
        top = max(float(np.abs(result["matrices"][n]).max()) for n in names)
        for ax, (name, title) in zip(axes[1:], names.items(), strict=True):
            image = ax.imshow(
                result["matrices"][name],
                extent=(-1, 1, 1, -1),
                vmin=-top,
                vmax=top,
                cmap="RdBu_r",
                interpolation="nearest",
            )
            angle = result["distance"][name][1]
            ax.set_title(title if name == "true" else f"{title}\n1 − cosine to the true one: {angle:.3f}", fontsize=9)
            ax.set_xticks([-1, 0, 1])
            ax.set_yticks([-1, 0, 1])
        figure.colorbar(image, ax=axes[3], shrink=0.8)
    return figure


if __name__ == "__main__":
    main()
