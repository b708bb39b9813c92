"""Figure 3 of Lawrence & Platt (2004): which rows of three sine tasks are chosen.

    python benchmarks/studies/lawrence2004_sines.py [--draws 20]

Three tasks of 30 rows from sine waves; inputs from a strongly bimodal distribution (half around -2, half around +2,
standard deviation 0.3: the paper gives no figures), from a Gaussian of standard deviation 2, and uniform on [-15, 15].
A squared exponential of width 1, 15 rows to choose. In the paper's draw the third task gets 9 of them. Which rows are
chosen depends on inputs, kernel and noise only (variance 0.01 here), not on the targets.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import matplotlib
from matplotlib.figure import Figure

import borrow
from borrow import plot as figures
from borrow.kernels import SquaredExponential
from results import FIGURES, settings_of, write_result

NAMES = ("bimodal", "Gaussian", "uniform")
NOISE = 0.01


def sine_tasks(seed: int, n: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets and task names."""
    rng = np.random.default_rng(seed)
    modes = np.repeat([-2.0, 2.0], [n // 2, n - n // 2]) + 0.3 * rng.normal(size=n)
    x = np.concatenate([modes, 2.0 * rng.normal(size=n), rng.uniform(-15.0, 15.0, n)])
    y = np.sin(x) + np.sqrt(NOISE) * rng.normal(size=3 * n)
    return x[:, None], y, np.repeat(NAMES, n)


def choose(seed: int, d: int = 15) -> borrow.MultiTaskIVMRegressor:
    X, y, tasks = sine_tasks(seed)
    model = borrow.MultiTaskIVMRegressor(
        n_active=d, kernel=SquaredExponential(1.0, 1.0), noise=NOISE, optimizer=None, normalize_y=False
    )
    return model.fit(X, y, tasks=tasks)


def picture(seed: int = 0) -> Figure:
    X, y, tasks = sine_tasks(seed)
    model = choose(seed)
    grid = np.linspace(-16, 16, 400)[:, None]
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 2.9), layout="constrained")
        for ax, name in zip(figure.subplots(1, 3, sharex=True, sharey=True), NAMES, strict=True):
            mean, std = model.predict(grid, tasks=name, return_std=True)
            figures.band(ax, grid[:, 0], mean, std, "#0072B2")
            mine = tasks == name
            ax.plot(X[mine, 0], y[mine], ".", color=figures.INK, ms=4)
            chosen = model.active_[tasks[model.active_] == name]
            ax.plot(X[chosen, 0], y[chosen], "o", mfc="none", mec="#D55E00", mew=1.4, ms=9)
            ax.set_title(f"{name.capitalize()}: {model.active_counts_[name]} of 15 rows")
            ax.set(xlim=(-16, 16), ylim=(-2.6, 2.6), xlabel="x")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=20)
    draws = parser.parse_args().draws
    counts = [[choose(seed).active_counts_[n] for n in NAMES] for seed in range(draws)]
    third = [c[2] for c in counts]
    facts = {
        "third task, fewest and most of 15 rows (8 to 10; the paper 9)": [min(third), max(third)],
        "third task, mean": round(float(np.mean(third)), 2),
        "draws with 8 to 10": f"{sum(8 <= t <= 10 for t in third)} of {draws}",
        "mean of each task": np.mean(counts, axis=0).round(2).tolist(),
    }
    for name, value in facts.items():
        sys.stdout.write(f"{name:70s} {value}\n")
    content = {"seeds": [0, draws - 1], "settings": settings_of({"MT-IVM": choose(0)}), "facts": facts}
    write_result("lawrence2004_sines", {**content, "counts": counts})
    figures.save(picture(), FIGURES / "lawrence2004_sines")


if __name__ == "__main__":
    main()
