"""Does the verdict cry wolf, and does it see what is there? Fifty draws of each family.

    python benchmarks/studies/verdict.py [--draws 50] [--first 0] [--small]

A primary of 30 rows and two secondaries of 60, inputs uniform on a square of side 7, noise 0.1. The primary's function
is drawn from a GP of lengthscale 1, so that its own 30 rows do not pin it down. "shared": each secondary is the same
function at its own level and scale. "unrelated": each secondary is another function, of lengthscale 0.4: neither
the function nor its smoothness can be borrowed. "unrelated, as smooth": other functions of lengthscale 1; a method that
shares hyper-parameters may learn the smoothness from them. `AutoRegressor` compares no transfer, pooled, symmetric and
focused by its default folds and fits the winner; its error, and that of no transfer, is the mean absolute error against
the true function at 400 further inputs. Hierarchical GP, RBF network and IVM are left out for time; they would take
their part of the 5 % that the others share.

Draws of development were 9000 and above. Results of each draw are kept under out/, so that a run goes on where it
stopped.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import borrow
from borrow.kernels import SquaredExponential
from borrow.transfer.comparison import Comparison
from borrow.transfer.methods import build
from results import FIGURES, ROOT, provenance, write_result

FAMILIES = ("shared", "unrelated", "unrelated, as smooth")
METHODS = ["single", "pooled", "symmetric", "focused"]
PRIMARY, SECONDARY, N_SECONDARIES, SIDE, NOISE, N_TEST = 30, 60, 2, 7.0, 0.1, 400
ROUGH = 0.4
STORE = ROOT / "out" / "verdict.jsonl"


def draw(family: str, seed: int, primary: int = PRIMARY, secondary: int = SECONDARY) -> dict[str, Any]:
    """Columns of a long table, and where the primary is tested."""
    rng = np.random.default_rng([FAMILIES.index(family), seed])
    n = primary + N_SECONDARIES * secondary
    X = rng.uniform(0.0, SIDE, (n + N_TEST, 2))
    smooth = _root(SquaredExponential(), X)
    f = smooth @ rng.normal(size=len(X))
    y, who = [f[:primary]], ["primary"] * primary
    for s in range(N_SECONDARIES):
        at = slice(primary + s * secondary, primary + (s + 1) * secondary)
        own = SquaredExponential(1.0, ROUGH if family == "unrelated" else 1.0)
        g = f[at] if family == "shared" else _root(own, X[at]) @ rng.normal(size=secondary)
        y.append(rng.uniform(0.5, 2.0) * g + rng.normal())
        who += [f"secondary {s + 1}"] * secondary
    noise = NOISE * rng.normal(size=n)
    return {"X": X[:n], "who": who, "y": np.concatenate(y) + noise, "X_test": X[n:], "f_test": f[n:]}


def _root(kernel: SquaredExponential, X: Any) -> Any:
    e, U = np.linalg.eigh(kernel(X))
    return U * np.sqrt(np.maximum(e, 0.0))


def one_draw(family: str, seed: int, cv: Any = None, **sizes: int) -> dict[str, Any]:
    """What `AutoRegressor` says and does, and what each method would have done."""
    started = time.process_time()
    problem = draw(family, seed, **sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto = borrow.AutoRegressor(primary="primary", methods=METHODS[1:], cv=cv)
        auto.fit(problem["X"], problem["y"], tasks=problem["who"])
        errors = {}
        for key in METHODS:
            model = auto.model_ if key == auto.method_ else build("regression", key, None, "primary")
            if key != auto.method_:
                model.fit(problem["X"], problem["y"], tasks=problem["who"])
            predicted = model.predict(problem["X_test"], tasks=["primary"] * len(problem["f_test"]))
            errors[key] = float(np.mean(np.abs(predicted - problem["f_test"])))
    keep = ("primary", "method", "repeat", "fold", "left_out", "n_train", "n_test", "error", "log_density", "coverage")
    content = auto.comparison_.to_dict()
    content["records"] = [{k: r[k] for k in (*keep, "failure", "seconds")} for r in content["records"]]
    return {
        "family": family,
        "seed": seed,
        "errors": errors,
        "comparison": content,
        "seconds": time.process_time() - started,
    }


def summarise(draws: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of one family."""
    verdicts = [Comparison.from_dict(d["comparison"]).verdict() for d in draws]
    auto = np.array([d["errors"][v.method] for d, v in zip(draws, verdicts, strict=True)])
    errors = {m: np.array([d["errors"][m] for d in draws]) for m in METHODS}
    answers = [v.answer for v in verdicts]
    chosen = [v.method for v in verdicts]
    ratio = auto / errors["single"]
    return {
        "draws": len(draws),
        "answers": {a: answers.count(a) for a in ("helps", "cannot tell", "hurts")},
        "chosen": {m: chosen.count(m) for m in METHODS},
        "median error": {m: round(float(np.median(e)), 4) for m, e in errors.items()},
        "median error, AutoRegressor": round(float(np.median(auto)), 4),
        "AutoRegressor / no transfer, medians": round(float(np.median(auto) / np.median(errors["single"])), 3),
        "worst draw, AutoRegressor / no transfer": round(float(ratio.max()), 3),
        "focused borrowed nothing in any fold, draws": int(sum(v.low == v.high == 0 for v in verdicts)),
        "interval of the focused GP below zero, draws": _below(draws, "focused"),
        "plain t interval of the focused GP below zero, draws": _below(draws, "focused", plain=True),
    }


def _below(draws: list[dict[str, Any]], method: str, plain: bool = False) -> int:
    """Draws whose interval lies below zero; `plain` pretends that folds do not overlap."""
    from borrow.transfer.decide import differences, interval

    count = 0
    for d in draws:
        c = Comparison.from_dict(d["comparison"])
        if not plain:
            found = c.difference("primary", method)
        else:
            one, other = ([r["error"] for r in c.folds("primary", m)] for m in (method, "single"))
            found = interval(differences(one, other), 0.0, 0.95)
        count += found.low < found.high < 0
    return count


def figure(draws: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """The interval of every draw, sorted, family beside family on one scale."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from borrow import plot as figures

    colours = {"helps": "#0072B2", "cannot tell": "#8A8A8A", "hurts": "#D55E00"}
    with matplotlib.rc_context(figures.STYLE):
        fig = Figure(figsize=(8.5, 3.8), layout="constrained")
        axes = np.atleast_1d(fig.subplots(1, len(draws), sharey=True))
        for ax, (family, found) in zip(axes, draws.items(), strict=True):
            verdicts = [Comparison.from_dict(d["comparison"]).verdict() for d in found]
            verdicts.sort(key=lambda v: (v.difference, v.low))
            for i, v in enumerate(verdicts):
                ax.plot([i, i], [v.low, v.high], color=colours[v.answer], lw=1.5, solid_capstyle="round")
                ax.plot(i, v.difference, "o", ms=2.8, color=colours[v.answer])
            ax.axhline(0.0, color=figures.INK, lw=0.8)
            share = sum(v.answer == "helps" for v in verdicts)
            ax.set_title(f"{family}\n“helps” in {share} of {len(verdicts)}", fontsize=9)
            ax.set_xlabel("draws, by difference")
            ax.set_xticks([])
            ax.grid(False, axis="x")
        axes[0].set_ylabel("error less that of no transfer")
        handles = [Line2D([], [], color=c, marker="o", ms=3, label=a) for a, c in colours.items()]
        axes[-1].legend(handles=handles, loc="lower right", frameon=False, fontsize=8)
        fig.savefig(path, dpi=150, metadata={"Software": "borrow"})


def load(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text().splitlines():
        try:
            d = json.loads(line)
        except ValueError:
            continue  # torn when the run was stopped
        found[d["family"], d["seed"]] = d
    return found


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="two tiny draws, nothing written")
    given = parser.parse_args(arguments)
    if given.small:
        draws = {f: [one_draw(f, 0, 2, primary=8, secondary=8)] for f in FAMILIES}
        return {f: summarise(d) for f, d in draws.items()}
    seeds = range(given.first, given.first + given.draws)
    STORE.parent.mkdir(exist_ok=True)
    done, commit = load(STORE), provenance()["commit"]  # of the code that is loaded now and fits
    with STORE.open("a") as file:
        for seed in seeds:
            for family in FAMILIES:
                if (family, seed) in done:
                    continue
                d = done[family, seed] = {**one_draw(family, seed), "commit": commit}
                file.write(json.dumps(d) + "\n")
                file.flush()
                answer = Comparison.from_dict(d["comparison"]).verdict().answer
                sys.stdout.write(f"{family} {seed}: {answer}, {d['seconds']:.0f} s\n")
                sys.stdout.flush()
    draws = {f: [done[f, s] for s in seeds] for f in FAMILIES}
    result = {
        "seeds": [seeds.start, seeds.stop - 1],
        "fitted by": sorted({d.get("commit", "not recorded") for ds in draws.values() for d in ds}),
        "families": {f: summarise(d) for f, d in draws.items()},
        "cpu seconds": round(sum(d["seconds"] for ds in draws.values() for d in ds)),
    }
    write_result("verdict", result)
    figure(draws, FIGURES / "verdict.png")
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return result


if __name__ == "__main__":
    main()
