"""Table 2 of Liao & Carin (2006): squared error on the school data, ten splits of 75 % and 25 %.

    python benchmarks/studies/liao2006_table2.py [--splits 10] [--fresh]

Multi-task, independent and one network, as the paper has them (raw inputs, width 20 tuned without a floor to speak of,
ridge 1e-6) with its "converged" rule (decreases under 1 % and under 0.1 %, which the paper leaves open) and with sizes
by leave-one-out; the same with a floor on widths and without tuning; and all designs with our defaults. Ridge on the 27
inputs, ridge with an intercept for each school and the mean of the school on the same splits. Split s is
RandomState(s).permutation; no setting was chosen on these splits (defaults were, on splits 100 to 102).

Results of each split are kept under out/, so that a run goes on where it stopped; --fresh forgets them.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import matplotlib
from matplotlib.figure import Figure
from school_splits import PAPER, Store, mean_squared, ridge_error, split, with_intercepts
from sklearn.exceptions import ConvergenceWarning

import borrow
from borrow import plot as figures
from borrow.data.read import read_training
from borrow.datasets.shared_data import School, load_school
from borrow.models.rbf.designs import best_path, network_of, prepare, two_levels
from results import FIGURES, settings_of, write_result

LITERAL = ("multi-task", "independent", "one")
MODES: dict[str, dict[str, Any]] = {
    "paper, converged 1 %": {**PAPER, "n_basis": "converged", "tol": 1e-2, "max_basis": 100},
    "paper, converged 0.1 %": {**PAPER, "n_basis": "converged", "tol": 1e-3, "max_basis": 100},
    "paper, leave-one-out": PAPER,
    "paper, leave-one-out, widths 5 to 80": {**PAPER, "tune_width": True},
    "paper, leave-one-out, widths not tuned": {**PAPER, "tune_width": False},
    "paper, leave-one-out, also whether to tune": {},  # the better of `EITHER`, by `tuned_or_not`
    "ours": {},
}
EITHER = ("paper, leave-one-out", "paper, leave-one-out, widths not tuned")
#: Table 2 of the paper: mean and standard deviation.
PRINTED = {"multi-task": (109.89, 1.8167), "independent": (136.41, 7.0081), "one": (149.48, 2.8093)}
NAMES = {
    "multi-task": "multi-task network",
    "independent": "independent networks",
    "one": "one network",
    "two-level": "two levels (ours)",
}
HINDSIGHT = [("paper, leave-one-out", "multi-task"), ("ours", "multi-task"), ("ours", "two-level")]


def designs(mode: str) -> tuple[str, ...]:
    return (*LITERAL, "two-level") if mode == "ours" else LITERAL


def tuned_or_not(data: School, seed: int, design: str) -> dict[str, Any]:
    """Widths tuned or not, whichever has the smaller leave-one-out error; each independent network for itself."""
    train, test = split(len(data.score), seed)
    loo, means, units, start = [], [], [], time.perf_counter()
    for mode in EITHER:
        model = borrow.MultiTaskRBFRegressor(design=design, **MODES[mode])
        model.fit(data.X[train], data.score[train], tasks=data.school[train])
        means.append(model.predict(data.X[test], tasks=data.school[test]))
        by_task = design == "independent"
        loo.append([min(model.loo_trace_[k] if by_task else model.loo_trace_) for k in model.tasks_.tolist()])
        units.append([model.n_basis_[k] if by_task else model.n_basis_ for k in model.tasks_.tolist()])
    plain = np.argmin(loo, axis=0)  # 1 where not tuning is better, by task
    mean = np.where(plain[data.school[test] - 1], means[1], means[0])
    return {
        "error": mean_squared(data.score[test], mean),
        "units": float(np.mean(np.where(plain, units[1], units[0]))),
        "not tuned": float(np.mean(plain)),
        "converged": True,
        "seconds": time.perf_counter() - start,
    }


def fit_and_test(data: School, seed: int, mode: str, design: str) -> dict[str, Any]:
    """One network on one split."""
    if "whether to tune" in mode:
        return tuned_or_not(data, seed, design)
    train, test = split(len(data.score), seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted as "converged"
        model = borrow.MultiTaskRBFRegressor(design=design, **MODES[mode])
        model.fit(data.X[train], data.score[train], tasks=data.school[train])
    seconds = time.perf_counter() - start
    mean, std = model.predict(data.X[test], tasks=data.school[test], return_std=True, include_noise=True)
    units = model.n_basis_ if design != "independent" else float(np.mean(list(model.n_basis_.values())))
    out = {
        "error": mean_squared(data.score[test], mean),
        "units": units,
        "in 90 % band": float(np.mean(np.abs(data.score[test] - mean) < 1.6449 * std)),
        "converged": bool(model.converged_),
        "seconds": seconds,
    }
    if design == "two-level":
        out |= {"shared units": len(model.shared_widths_), "ridge of intercepts": model.bias_ridge_}
    if design in ("two-level", "multi-task"):
        out["ridge"] = model.ridge_
    return out


def hindsight(data: School, seed: int, mode: str, design: str, ridge: float) -> list[float]:
    """Test error at every size of the path that the fit chose from; of the task level where there are two."""
    train, test = split(len(data.score), seed)
    settings = MODES[mode] if design == "two-level" else {**MODES[mode], "ridge": ridge}
    model = borrow.MultiTaskRBFRegressor(design=design, **settings)
    rows, schema = read_training(model, data.X[train], data.score[train], data.school[train])
    rows, code = rows.in_order(), {label: t for t, label in enumerate(schema.labels)}
    scales = model._input_scales(rows)
    problem = prepare(model, rows, scales)
    stack, X, task = problem.stack, data.X[test] / scales, np.array([code[k] for k in data.school[test].tolist()])
    search = two_levels if design == "two-level" else best_path
    sizes = search(stack, problem.candidates(), problem.settings)
    networks = [network_of(stack, sizes._replace(size=n)) for n in range(len(sizes.fits))]
    scaling = problem.scaling
    means = [n.answer(X, task)[0] * scaling.scale[task] + scaling.center[task] for n in networks]
    return [round(mean_squared(data.score[test], m), 3) for m in means]


def references(data: School, seed: int) -> dict[str, float]:
    train, test = split(len(data.score), seed)
    labels = np.unique(data.school)
    means = {k: data.score[train][data.school[train] == k].mean() for k in labels.tolist()}
    return {
        "ridge": ridge_error(data.X, data.score, train, test),
        "ridge, intercepts": ridge_error(with_intercepts(data.X, data.school, labels), data.score, train, test),
        "school mean": mean_squared(data.score[test], np.array([means[k] for k in data.school[test].tolist()])),
    }


def paired(a: list[float], b: list[float]) -> list[float]:
    """Mean of a - b and its standard error."""
    d = np.array(a) - np.array(b)
    return [round(float(d.mean()), 2), round(float(d.std(ddof=1) / np.sqrt(len(d))), 2) if len(d) > 1 else 0.0]


def study(data: School, splits: int, store: Store) -> dict[str, Any]:
    """Everything, as one dict."""
    seeds, errors, table = range(splits), {}, []
    by_seed = {s: store.get(f"references {s}", lambda s=s: references(data, s)) for s in seeds}
    for name in ("ridge", "ridge, intercepts", "school mean"):
        errors[name] = [by_seed[s][name] for s in seeds]
        table.append({"mode": "", "network": name, **summary(errors[name])})
    for mode in MODES:
        for design in designs(mode):
            fits = [
                store.get(f"{mode} / {design} / {s}", lambda s=s, m=mode, d=design: fit_and_test(data, s, m, d))
                for s in seeds
            ]
            errors[mode, design] = [f["error"] for f in fits]
            table.append(
                {
                    "mode": mode,
                    "network": design,
                    **summary(errors[mode, design]),
                    "units": round(float(np.mean([f["units"] for f in fits])), 1),
                    "in 90 % band": covered(fits),
                    "not converged": sum(not f["converged"] for f in fits),
                    "seconds": round(float(np.median([f["seconds"] for f in fits])), 2),
                }
            )
    gaps = {}
    for mode, design in HINDSIGHT:
        some = seeds[:3] if design == "two-level" else seeds  # both levels are searched anew: the dearest part
        curves = [
            store.get(
                f"hindsight {mode} / {design} / {s}",
                lambda s=s, m=mode, d=design: hindsight(data, s, m, d, store.found[f"{m} / {d} / {s}"]["ridge"]),
            )
            for s in some
        ]
        gap = [e - min(c) for e, c in zip(errors[mode, design], curves, strict=False)]
        gaps[f"{mode}, {design}, {len(some)} splits"] = [round(float(np.mean(gap)), 2), round(float(np.max(gap)), 2)]
    plain = errors["paper, leave-one-out, widths not tuned", "multi-task"]
    either = errors["paper, leave-one-out, also whether to tune", "multi-task"]
    literal, ours = errors["paper, leave-one-out", "multi-task"], errors["ours", "two-level"]
    facts = {
        "paper's mode, leave-one-out, multi-task (at most 107)": round(float(np.mean(literal)), 2),
        "it less plain ridge, standard error (at most -1)": paired(literal, errors["ridge"]),
        "it less independent networks, standard error (at most -8)": paired(
            literal, errors["paper, leave-one-out", "independent"]
        ),
        "it less one network, standard error": paired(literal, errors["paper, leave-one-out", "one"]),
        "without tuned widths: less plain ridge, standard error": paired(plain, errors["ridge"]),
        "without tuned widths: less independent networks, standard error": paired(
            plain, errors["paper, leave-one-out, widths not tuned", "independent"]
        ),
        "whether to tune by leave-one-out too: multi-task": round(float(np.mean(either)), 2),
        "it less plain ridge, standard error": paired(either, errors["ridge"]),
        "it less independent networks chosen likewise, standard error": paired(
            either, errors["paper, leave-one-out, also whether to tune", "independent"]
        ),
        "our defaults (at most 103)": round(float(np.mean(ours)), 2),
        "they less ridge with intercepts, standard error (at most 2)": paired(ours, errors["ridge, intercepts"]),
        "splits on which they are below ridge with intercepts": int(
            sum(a < b for a, b in zip(ours, errors["ridge, intercepts"], strict=True))
        ),
        "they less the paper's mode with leave-one-out, standard error": paired(ours, literal),
        "error over the best size in hindsight, mean and largest (at most 1)": gaps,
    }
    curves = {f"{m}, {d}": store.found[f"hindsight {m} / {d} / 0"] for m, d in HINDSIGHT}
    return {"seeds": list(seeds), "facts": facts, "table": table, "hindsight of split 0": curves}


def covered(fits: list[dict[str, Any]]) -> float | None:
    """Share of test scores in the 90 % band, where it was measured."""
    return round(float(np.mean([f["in 90 % band"] for f in fits])), 3) if "in 90 % band" in fits[0] else None


def summary(values: list[float]) -> dict[str, float]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"error": round(float(np.mean(values)), 2), "sd": round(spread, 2)}


def table_figure(result: dict[str, Any]) -> Figure:
    """Errors of all networks beside the paper's and ridge."""
    rows = {(r["mode"], r["network"]): r for r in result["table"]}
    groups = ["printed in the paper", *MODES]
    colours = {"multi-task": "#0072B2", "independent": "#D55E00", "one": "#9B5B88", "two-level": "#009E73"}
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.5, 5.4), layout="constrained")
        ax = figure.subplots()
        for i, group in enumerate(reversed(groups)):
            for j, (design, colour) in enumerate(colours.items()):
                cell = rows.get((group, design))
                printed = PRINTED.get(design) if group == groups[0] else None
                if cell is None and printed is None:
                    continue
                mean, sd = printed or (cell["error"], cell["sd"])
                y = i + 0.24 - 0.16 * j
                ax.plot([mean - sd, mean + sd], [y, y], color=colour, lw=2.2, alpha=0.45, solid_capstyle="round")
                ax.plot(mean, y, "o", color=colour, ms=6, mfc="white" if printed else colour)
                place = {"textcoords": "offset points", "fontsize": 7.5, "color": colour}
                ax.annotate(f"{mean:.1f}", (mean + sd, y), (5, -3), **place)
        lines = {"ridge, intercepts": "ridge with\nintercepts", "ridge": "ridge", "school mean": "mean of\nthe school"}
        for name, text in lines.items():
            x = rows["", name]["error"]
            ax.axvline(x, color=figures.COLOURS["ridge"], lw=1.0, ls=(0, (4, 2)), zorder=1)
            place = {"textcoords": "offset points", "fontsize": 7.5, "color": figures.MUTED}
            place |= {"ha": "right" if "with" in text else "left", "xytext": (8 if "with" in text else -4, 3)}
            ax.annotate(f"{text} {x:.1f}", (x, len(groups) - 0.35), **place)
        for j, (design, colour) in enumerate(colours.items()):
            place = {"xycoords": "axes fraction", "ha": "right", "fontsize": 8.5, "fontweight": "bold"}
            ax.annotate(NAMES[design], (0.73, 0.24 - 0.045 * j), color=colour, **place)
        ax.set_yticks(range(len(groups)), list(reversed(groups)))
        ax.set_ylim(-0.5, len(groups) - 0.35)
        ax.set_xlim(95, 160)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("squared error on the test quarter: mean and standard deviation over ten splits")
        ax.set_title("School data: the paper's gaps shrink when leave-one-out chooses the size", pad=30)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    store = Store("liao2006_table2", arguments.fresh)
    result = study(load_school(), arguments.splits, store)
    made_with = settings_of({**MODES, "paper, leave-one-out, also whether to tune": " or ".join(EITHER)})
    write_result("liao2006_table2", {**result, "settings": made_with}, store.records)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures.save(table_figure(result), FIGURES / "liao2006_table2")
    for name, value in result["facts"].items():
        sys.stdout.write(f"{name}: {value}\n")


if __name__ == "__main__":
    main()
