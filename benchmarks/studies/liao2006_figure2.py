"""Figure 2 of Liao & Carin (2006): error on the school data against labelled rows, chosen actively or at random.

    python benchmarks/studies/liao2006_figure2.py [--seeds 5] [--fresh]

Rows are chosen by γ of Corollary 2 on units that were chosen without labels, as in the paper; the multi-task network
has these units (10 of them, which the paper leaves open), the other two learn their own from the same rows. Two ways
to test:

- "left over": the pool is all rows, and the test rows are those that were not chosen, as in the paper. Active selection
  then also chooses its test rows.
- "fixed": the pool is 75 % of the rows, and the test rows are the other 25 %, the same for all.

Ours: the two-level network with its defaults, rows chosen by its own `select`. Ridge with an intercept for each school
is trained on the rows chosen for the multi-task network. Results are kept under out/; --fresh forgets them.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import matplotlib
from matplotlib.figure import Figure
from school_splits import PAPER, Store, mean_squared, ridge_error, split, with_intercepts

import borrow
from borrow import plot as figures
from borrow.datasets.shared_data import School, load_school
from results import FIGURES, settings_of, write_result

SIZES = (1000, 2000, 3000, 4000, 5000, 7000, 9000, 11500)
#: Networks that learn their own units at every size are run at these only: they cost the most.
FEWER = (1000, 3000, 5000, 11500)
UNITS = 10
PLAIN = {**PAPER, "design": "multi-task", "basis": "unsupervised", "n_basis": UNITS, "tune_width": False}
METHODS: dict[str, dict[str, Any]] = {
    "multi-task": PLAIN,
    "multi-task, widths tuned": {**PLAIN, "tune_width": PAPER["tune_width"]},
    "multi-task, leave-one-out": {**PLAIN, "n_basis": "auto", "max_basis": UNITS},
    "independent": {**PAPER, "design": "independent"},
    "one": {**PAPER, "design": "one"},
    "ours": {},
}


class Pool:
    """Rows that may be labelled, and the rows to test on."""

    def __init__(self, data: School, rows: Any, test: Any) -> None:
        self.data, self.rows, self.test = data, rows, test

    def order(self, settings: dict[str, Any], n: int, seed: int | None) -> list[int]:
        """The first n rows by γ, or at random by a seed."""
        if seed is not None:
            return np.random.RandomState(1000 + seed).permutation(self.rows)[:n].tolist()
        model = borrow.MultiTaskRBFRegressor(**settings)
        chosen = model.select(self.data.X[self.rows], n, tasks=self.data.school[self.rows])
        return self.rows[chosen].tolist()

    def error(self, settings: dict[str, Any], labelled: Any) -> float:
        """Test error of a network that knows the targets of some rows and the inputs of all in the pool."""
        data, rows = self.data, self.rows
        test = np.setdiff1d(rows, labelled) if self.test is None else self.test
        y = np.full(len(data.score), np.nan)
        y[labelled] = data.score[labelled]
        fit = rows if settings.get("basis") == "unsupervised" else np.asarray(labelled)
        model = borrow.MultiTaskRBFRegressor(**settings).fit(data.X[fit], y[fit], tasks=data.school[fit])
        seen = np.isin(data.school[test], model.tasks_)
        guess = np.full(len(test), float(np.nanmean(y)))
        guess[seen] = model.predict(data.X[test[seen]], tasks=data.school[test[seen]])
        return mean_squared(data.score[test], guess)

    def ridge(self, labelled: Any) -> float:
        data = self.data
        test = np.setdiff1d(self.rows, labelled) if self.test is None else self.test
        X = with_intercepts(data.X, data.school, np.unique(data.school))
        return ridge_error(X, data.score, np.asarray(labelled), test)


def one_pool(
    pool: Pool, name: str, sizes: tuple[int, ...], seed: int | None, store: Store
) -> dict[str, list[float | None]]:
    """Errors of all methods at all sizes; `seed` is of random selection, None is active."""
    label = "active" if seed is None else f"random {seed}"
    out: dict[str, list[float | None]] = {m: [] for m in (*METHODS, "ridge, intercepts")}
    orders: dict[str, list[int]] = {}

    def ordered(method: str) -> list[int]:
        key = "random" if seed is not None else method if method.startswith(("ours", "multi")) else "multi-task"
        if key not in orders:
            orders[key] = pool.order(METHODS.get(key, {}), max(sizes), seed)
        return orders[key]

    for n in sizes:
        for method, settings in METHODS.items():
            if n in SIZES and n not in FEWER and settings.get("basis") != "unsupervised":
                out[method].append(None)
                continue
            at = f"{name} / {label} / {method} / {n}"
            compute = lambda m=method, s=settings, n=n: pool.error(s, ordered(m)[:n])  # noqa: E731
            out[method].append(store.get(at, compute))
        at = f"{name} / {label} / ridge / {n}"
        out["ridge, intercepts"].append(store.get(at, lambda n=n: pool.ridge(ordered("multi-task")[:n])))
    return out


def study(data: School, seeds: int, sizes: tuple[int, ...], store: Store) -> dict[str, Any]:
    """Curves of both ways to test, and what they say at 3,000 labelled rows and at the end."""
    everything = np.arange(len(data.score))
    runs: dict[str, dict[str, list[Any]]] = {"left over": {}, "fixed": {}}
    whole = Pool(data, everything, None)
    runs["left over"]["active"] = [one_pool(whole, "left over", sizes, None, store)]
    runs["left over"]["random"] = [one_pool(whole, "left over", sizes, s, store) for s in range(min(seeds, 2))]
    quarters = [split(len(data.score), s) for s in range(seeds)]
    pools = [Pool(data, np.sort(train), test) for train, test in quarters]
    for kind in ("active", "random"):
        runs["fixed"][kind] = [
            one_pool(pool, f"fixed {s}", sizes, None if kind == "active" else s, store) for s, pool in enumerate(pools)
        ]
    curves = {
        f"{test}, {kind}, {m}": [
            None if v[0] is None else round(float(np.mean(v)), 2) for v in zip(*(r[m] for r in found), strict=True)
        ]
        for test, by_kind in runs.items()
        for kind, found in by_kind.items()
        for m in found[0]
    }
    facts: dict[str, Any] = {}
    at = sizes.index(3000) if 3000 in sizes else 0
    for m in (*METHODS, "ridge, intercepts"):
        gain = [a[m][at] - r[m][at] for a, r in zip(runs["fixed"]["active"], runs["fixed"]["random"], strict=True)]
        error = float(np.std(gain, ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else 0.0
        facts[m] = [round(float(np.mean(gain)), 2), round(error, 2), [round(float(g), 1) for g in gain]]
    return {
        "seeds": list(range(seeds)),
        "sizes": list(sizes),
        f"active less random at {sizes[at]} rows, fixed quarter, standard error": facts,
        "curves": curves,
    }


def curves_figure(result: dict[str, Any]) -> Figure:
    """Both ways to test side by side; active solid, random dashed."""
    colours = {"multi-task": "#0072B2", "independent": "#D55E00", "one": "#9B5B88", "ours": "#009E73"}
    names = {"one": "one network", "ours": "two levels (ours)"}
    x, curves = result["sizes"], result["curves"]
    titles = {
        "left over": "Tested on the rows left over, as in the paper",
        "fixed": "Tested on a fixed quarter: what selection is worth",
    }
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(10.5, 4.4), layout="constrained")
        for ax, (test, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(), strict=True):
            for m, colour in {**colours, "ridge, intercepts": figures.COLOURS["ridge"]}.items():
                for kind, style in (("active", "-"), ("random", figures.DASHES)):
                    y = figures.numbers(curves[f"{test}, {kind}, {m}"])
                    run = np.isfinite(y)
                    ax.plot(
                        np.array(x)[run],
                        y[run],
                        ls=style,
                        color=colour,
                        lw=1.8 if kind == "active" else 1.2,
                        marker="o",
                        ms=2.6,
                    )
            ax.set_title(title)
            ax.set_xlabel("labelled rows")
            ax.set_ylim(95, 200)
            ax.set_xlim(500, 12000)
        figure.axes[0].set_ylabel("squared error")
        entries = {**{m: names.get(m, m) for m in colours}, "ridge, intercepts": "ridge, school intercepts"}
        for j, (m, text) in enumerate(entries.items()):
            colour = colours.get(m, figures.COLOURS["ridge"])
            figure.axes[1].annotate(
                text, (0.98, 0.95 - 0.055 * j), xycoords="axes fraction", ha="right", color=colour, fontweight="bold"
            )
        how = "solid: rows chosen by γ; dashed: at random"
        figure.axes[0].annotate(how, (0.98, 0.95), xycoords="axes fraction", ha="right", color=figures.MUTED)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    store = Store("liao2006_figure2", arguments.fresh)
    result = study(load_school(), arguments.seeds, SIZES, store)
    write_result("liao2006_figure2", {**result, "settings": settings_of(METHODS)}, store.records)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(curves_figure(result), FIGURES / "liao2006_figure2")
    sys.stdout.write(f"{[v for k, v in result.items() if k.startswith('active')]}\n")


if __name__ == "__main__":
    main()
