"""Figure 2 of Yu, Tresp & Schwaighofer (2005): the learnt kernel (eq. 19) on topics that it was not learnt from.

    python benchmarks/studies/yu2005_new_topics.py [--draws 50] [--minutes 5]

After yu2005_text.py, whose kernels it takes.

For each of the 31 topics that a draw of Table 1 left out: 10 to 500 labelled documents from outside the pool that the
kernel was learnt on (one exchanged for a positive where there is none; the smaller sets are parts of the larger ones),
all others outside the pool to rank. Kernel ridge with the linear kernel, with the kernel learnt as the paper learns it
and with ours; an SVM on the linear kernel. AUC and both F values, by the rules of yu2005_text.py, twice as there. The
paper averages 50 draws; here every topic has a training set of its own in each draw, and there are five draws for each
of ten kernels of Table 1; the SVM's C is chosen at 100 documents. What is done lies under out/ and is not done again,
unless it was done with other grids or with a kernel that has been learnt again since; the result says how many draws it
rests on, and of which kernels.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import matplotlib
from matplotlib.figure import Figure
from yu2005_text import GRIDS, Draw, F_values, Ridge, area, best_lambda, counted, is_kept, svm, svm_cost

import borrow
from borrow import plot as figures
from borrow.datasets.shared_data import Topics, load_rcv1
from results import FIGURES, ROOT, UNKNOWN, commits_of, provenance, with_earlier, write_result

SIZES = (10, 20, 50, 100, 200, 500)
METRICS = ("AUC", "micro F", "macro F")
METHODS = {"learnt, ours": "#0072B2", "learnt, paper": "#009E73", "ridge": "#D55E00", "SVM": "#999999"}
SETTINGS = {
    "learnt, ours": "kernel ridge, the kernel of HierarchicalGPClassifier's defaults with Linear(1.0)",
    "learnt, paper": "kernel ridge, the kernel of plain EM",
    "ridge": "kernel ridge, linear kernel",
    "SVM": "linear kernel, one C for all topics chosen at 100 documents",
}


class Space:
    """A kernel on all documents as features: k(x, z) = r p(x)'p(z) + b x'z."""

    def __init__(self, kernel, X) -> None:
        self.X, self.P, self.r, self.b = X, None, 0.0, 1.0
        if kernel is not None:
            self.r, self.b = kernel.raw_weight, kernel.base_weight * kernel.base.variance
            if self.r > 0:
                self.P = np.asarray(kernel.base(X, kernel.Z)) @ kernel.root

    def gram(self, rows) -> np.ndarray:
        part = self.X[rows]
        K = self.b * (part @ part.T).toarray()
        return K if self.P is None else K + self.r * self.P[rows] @ self.P[rows].T

    def scores(self, rows: list, a: list) -> np.ndarray:
        """Of all documents, in columns for several topics with rows and coefficients of their own."""
        f = self.b * (self.X @ np.column_stack([self.X[r].T @ v for r, v in zip(rows, a, strict=True)]))
        if self.P is None:
            return f
        return f + self.r * (self.P @ np.column_stack([self.P[r].T @ v for r, v in zip(rows, a, strict=True)]))


def training_rows(rng, member: np.ndarray, allowed: np.ndarray, most: int) -> np.ndarray:
    """Documents in random order, with a positive among the first ten."""
    rows = rng.permutation(allowed)[:most]
    if not member[rows[: SIZES[0]]].any():
        rest = np.setdiff1d(allowed[member[allowed]], rows)
        later = np.flatnonzero(member[rows])
        if len(later):
            rows[[0, later[0]]] = rows[[later[0], 0]]
        else:
            rows[0] = rng.permutation(rest)[0]
    return rows


def one_draw(data: Topics, source: Draw, spaces: dict[str, Space], seed: int, sizes=SIZES) -> dict:
    rng = np.random.default_rng([seed, 2005])
    outside = np.setdiff1d(np.arange(data.X.shape[0]), source.pool)
    sets = [training_rows(rng, data.member[:, t], outside, max(sizes)) for t in source.others]
    out: dict = {"seed": seed, "as the paper": {}, "fair": {}}
    largest = {name: [space.gram(s) for s in sets] for name, space in spaces.items()}
    first = [s[:100] for s in sets]
    hundred = [K[:100, :100] for K in largest["ridge"]]
    signs_100 = [np.where(data.member[r, t], 1, -1) for r, t in zip(first, source.others, strict=True)]
    costs = {fair: svm_cost(hundred, [data.X[r] for r in first], signs_100, fair) for fair in (False, True)}
    for size in sizes:
        rows = [s[:size] for s in sets]
        labels = [data.member[r, t] for r, t in zip(rows, source.others, strict=True)]
        tests = [np.setdiff1d(outside, r) for r in rows]
        grams = {name: [K[:size, :size] for K in own] for name, own in largest.items()}
        bases = {name: [Ridge(K, np.zeros(len(K))) for K in own] for name, own in grams.items()}
        Xs = [data.X[r] for r in rows]
        for run, fair in (("as the paper", False), ("fair", True)):
            ys = [np.where(v, 1.0, -1.0) - fair * (2 * v.mean() - 1) for v in labels]
            found = {}
            for name, space in spaces.items():
                fits = [f.with_targets(y) for f, y in zip(bases[name], ys, strict=True)]
                l = best_lambda(fits, labels, fair)
                F = space.scores(rows, [f.coefficients(l) for f in fits])
                answers = [F[test, j] for j, test in enumerate(tests)]
                found[name] = scored(answers, tests, labels, source.others, data, fair)
            W = [svm_weights(K, X, v, costs[fair], fair) for K, X, v in zip(grams["ridge"], Xs, labels, strict=True)]
            F = data.X @ np.column_stack([w[:-1] for w in W]) + np.array([w[-1] for w in W])
            answers = [
                None if np.isnan(w[-1]) else F[test, j] for j, (w, test) in enumerate(zip(W, tests, strict=True))
            ]
            found["SVM"] = scored(answers, tests, labels, source.others, data, fair)
            out[run][str(size)] = found
    return out


def svm_weights(K: np.ndarray, X, label: np.ndarray, C: float, fair: bool) -> np.ndarray:
    """Weights and intercept of an SVM on the linear kernel; NaN where there is one class only."""
    if len(np.unique(label)) < 2:
        return np.append(np.zeros(X.shape[1]), np.nan)
    machine = svm(K, np.where(label, 1, -1), C, fair, X)
    if not fair:
        return np.append(machine.coef_[0], 0.0)
    return np.append(X[machine.support_].T @ machine.dual_coef_[0], machine.intercept_[0])


def scored(answers: list, tests: list, labels: list, topics, data: Topics, fair: bool) -> dict[str, float]:
    """Mean AUC and both F values of the topics that have an answer; `fair` gives each its share of the labelled."""
    areas, counts = [], []
    for f, test, v, t in zip(answers, tests, labels, topics, strict=True):
        if f is not None:
            areas.append(area(f, data.member[test, t]))
            counts.append(counted(f, data.member[test, t], v.mean() if fair else None))
    return {"AUC": float(np.nanmean(areas)), **F_values(counts)}


def summary(draws: list[dict]) -> list[dict]:
    """A row for each run, number of examples and metric; means, deviations, and how often the learnt kernels win."""
    table = []
    for run in ("as the paper", "fair"):
        for size, first in draws[0][run].items():
            for what in METRICS:
                values = {m: np.array([d[run][size][m][what] for d in draws]) for m in first}
                row = {"run": run, "examples": int(size), "metric": what, "draws": len(draws)}
                for m, v in values.items():
                    row[m] = round(float(v.mean()), 4)
                    row[f"{m} sd"] = round(float(v.std(ddof=1)) if len(v) > 1 else 0.0, 4)
                for m in (m for m in values if m.startswith("learnt")):
                    row[f"{m} above ridge, draws"] = int((values[m] > values["ridge"]).sum())
                table.append({**row, "records by commit": commits_of(draws)})
    return table


def picture(table: list[dict]) -> Figure:
    """Panels of the metrics, as the paper ran it and fairly; bands of two standard errors."""
    with matplotlib.rc_context(figures.STYLE):
        shown = [what for what in METRICS if any(r["metric"] == what for r in table)]
        figure = Figure(figsize=(9.5, 3.4 * len(shown) + 0.5), layout="constrained")
        titles = {
            "as the paper": "As the paper ran it: no intercept",
            "fair": "Fairly: targets centred, or an intercept",
        }
        for what, axes in zip(shown, figure.subplots(len(shown), 2, sharey="row", squeeze=False), strict=True):
            for ax, run in zip(axes, titles, strict=True):
                rows = [r for r in table if (r["run"], r["metric"]) == (run, what)]
                x = [r["examples"] for r in rows]
                for m, colour in METHODS.items():
                    y, sd = np.array([r[m] for r in rows]), np.array([r[f"{m} sd"] for r in rows])
                    error = 2 * sd / np.sqrt(rows[0]["draws"])
                    ax.plot(x, y, marker="o", ms=3.5, lw=1.7 if "learnt" in m else 1.1, color=colour, label=m)
                    ax.fill_between(x, y - error, y + error, color=colour, alpha=0.15, lw=0)
                ax.set(xscale="log", xlabel="labelled documents of the new topic", title=titles[run])
                ax.set_xticks(x, [str(v) for v in x])
                ax.minorticks_off()
            axes[0].set_ylabel(f"{what}, 31 new topics, {rows[0]['draws']} draws")
        figure.axes[1].legend(frameon=False, loc="lower right")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no draw after so many")
    parser.add_argument("--kernels", type=int, default=10, help="of how many draws of Table 1 the kernels are taken")
    given, data, out = parser.parse_args(), load_rcv1(), ROOT / "out" / "yu2005"
    draws = given.draws
    sources = sorted(out.glob("draw*/ours.borrow"), key=lambda p: int(p.parent.name.removeprefix("draw")))
    sources = [p.parent for p in sources][: given.kernels]
    if not sources:
        sys.exit("no learnt kernel under out/yu2005: run benchmarks/studies/yu2005_text.py first")
    done, per, until = [], -(-draws // len(sources)), time.monotonic() + 60.0 * given.minutes
    for place in sources:
        spaces = source = None
        # what a record is made with: one with a kernel that was learnt again since is made again
        grids = {**GRIDS, "kernel": json.loads((place / "core.json").read_text()).get("commit", UNKNOWN)}
        for k in range(per):
            seed = 1000 * int(place.name.removeprefix("draw")) + k
            file = place / f"new_topics_{k}.json"
            if not is_kept(file, grids):
                if time.monotonic() >= until:
                    continue
                if spaces is None:
                    source = Draw(data, int(place.name.removeprefix("draw")))
                    kernels = {"learnt, ours": "ours", "learnt, paper": "paper"}
                    spaces = {n: Space(borrow.store.load(place / f"{f}.borrow"), data.X) for n, f in kernels.items()}
                    spaces["ridge"] = Space(None, data.X)
                start = time.process_time()
                found = one_draw(data, source, spaces, seed)
                stamp = {"seed": seed, "commit": provenance()["commit"], "grids": grids}
                file.write_text(json.dumps({**found, **stamp, "seconds": time.process_time() - start}))
            done.append({"commit": UNKNOWN, "seed": seed, **json.loads(file.read_text())})
            sys.stdout.write(f"{place.name} {k} {done[-1]['fair']['10']}\n")
            sys.stdout.flush()
    key = ("run", "examples", "metric")
    table = with_earlier("yu2005_new_topics", "table", summary(done), key, "draws", lambda _: 50)
    table.sort(key=lambda r: (r["run"], METRICS.index(r["metric"]), r["examples"]))
    learnt = [json.loads((out / f"draw{n}" / "core.json").read_text()) for n in {d["seed"] // 1000 for d in done}]
    content = {
        "seeds": "1000 times the number of the kernel, plus 0, 1, ...",
        "settings": SETTINGS,
        "kernels": len(learnt),
        "kernels by commit": commits_of(learnt),
    }
    write_result("yu2005_new_topics", {**content, "table": table})
    figures.save(picture(table), FIGURES / "yu2005_new_topics")


if __name__ == "__main__":
    main()
