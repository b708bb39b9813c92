"""What fits to all rows are worth as evidence that borrowing helps: the constants of `borrow.transfer.decide.related`.

    python benchmarks/studies/calibrate.py [--draws 20] [--first 0] [--minutes 5] [--small]

Tables of the power table's generator (`power.draw`), regression and the stress families, seeds of tuning. Every
method that relates the tasks, and no transfer, is fitted to all rows once. Of each are kept the nats by which all
rows are better explained than by a GP per task, and the primary's given the others than by themselves; the gain in
sight, the log of the ratio of the two errors that is expected if the method is right; and the truth, the log of the
ratio of the errors on 2,000 fresh rows of the primary. The log odds of a relation are those of the draw, of all its
methods together, as `decide.log_odds` has them. The constants maximise the likelihood of the truth given the rest.
Draws in which nothing is borrowed tell nothing and do not count. Beside them stands, for several probabilities, what
would come of saying "helps" from there on, which is what `decide.SURE` was chosen by. Draws are kept under out/, and a
run goes on where it stopped.
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
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import t as student

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import power

from borrow.data.labels import sort_labels
from borrow.transfer import decide
from borrow.transfer.folds import left_out, of_all_rows, score_numbers
from borrow.transfer.methods import LABELS, drops
from borrow.transfer.problem import Problem
from results import ROOT, write_result

STORE = ROOT / "out" / "calibrate.jsonl"
CELLS = [c for c in power.CELLS if c.kind == "regression"]
ALONE = ("single", "mean", "ridge")
#: Probabilities from which "helps" might be said.
LEVELS = (0.9, 0.85, 0.8, 0.75)
NAMES = ("TEMPER", "HOLDS", "STILL", "WITH", "WITHOUT", "NARROWS")
#: COST, and logarithms of the others: where the search begins, and how far it is held to that. COST is nearly fixed: by
#: likelihood alone it would be about zero, some nats better, and "helps" be said of more nulls.
START, WIDTH = np.array([1.5, -1.0, -0.3, -2.0, 0.7, 1.0, -0.4]), np.array([0.2, *[0.7] * 6])


class Fits(NamedTuple):
    """Fits that relate the tasks: arrays of equal length; `draw` numbers the tables."""

    gain: Any
    of_primary: Any
    seen: Any
    relations: Any
    draw: Any


def one_draw(cell: power.Cell, seed: int) -> list[dict[str, Any]]:
    """One dict per method that relates the tasks."""
    d = power.draw(cell, seed)
    names = tuple(f"x{j}" for j in range(d["X"].shape[1]))
    tasks = tuple(d["task"])
    problem = Problem("regression", "y", "task", names, d["X"], d["y"], tasks, sort_labels(tasks))
    error, found, relating = {}, {}, [key for key in LABELS if drops("regression", key)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key in (*ALONE, *relating):
            model = problem.fit(key, "primary", alone=False)
            scores = score_numbers(*left_out(model, problem, "primary"), "mean absolute error")
            found[key] = {"rows": problem.rows_of("primary"), **scores, **of_all_rows(model, problem, "primary")}
            error[key] = power.error(cell.kind, d["y_test"], model.predict(d["X_test"], ["primary"] * power.N_TEST))
    missed = {key: record["error"] for key, record in found.items()}
    alone = min(ALONE, key=lambda key: missed[key])
    return [
        {
            "method": key,
            "alone": alone,
            "gain": found[key]["evidence"] - found["single"]["evidence"],
            "of primary": found[key]["evidence of relations"],
            "in sight": decide.in_sight(found[key], found[alone], decide.PLAIN, 1),
            "true": float(np.log(error[key] / error[alone])),
            "borrows": abs(missed[key] - missed["single"]) > decide.TIE * missed["single"],
        }
        for key in relating
    ]


def fits_of(rows: list[dict[str, Any]]) -> Fits:
    """What the posterior is made of."""
    columns = (np.array([r[k] for r in rows]) for k in ("gain", "of primary", "in sight"))
    relations = np.array([relations_of(r["cell"]) for r in rows])
    return Fits(*columns, relations, np.unique([f"{r['cell']}, {r['seed']}" for r in rows], return_inverse=True)[1])


def laws(theta: Any, fits: Fits) -> decide.Mixture:
    """What `decide.related` makes of them, with constants to be found; the fields are arrays."""
    cost, (temper, holds, still, with_, without, narrows) = theta[0], np.exp(theta[1:])
    nats = np.minimum(fits.gain - cost * fits.relations, fits.of_primary - cost)
    odds = np.bincount(fits.draw, np.exp(temper * nats)) / np.bincount(fits.draw)
    bent = fits.seen / decide.BEND
    moved = np.tanh(bent) * (1.0 + bent) ** -narrows
    return decide.Mixture(
        expit(np.log(odds)[fits.draw]), -np.arcsinh(holds * bent), still + with_ * moved, still + without * moved
    )


def relations_of(cell: str) -> int:
    """How many secondaries a table of this cell has."""
    return 3 if cell.startswith("same smoothness") else 1


def calibrate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The constants that these draws would have, and what those in use say of them."""
    borrows = np.array([r["borrows"] for r in rows])
    real, fits = [r for r in rows if r["borrows"]], fits_of(rows)
    true = np.array([r["true"] for r in real])
    x = np.arcsinh(true / decide.BEND)

    def law_of(theta: Any, of: Fits = fits) -> decide.Mixture:
        return decide.Mixture(*(v[borrows] for v in laws(theta, of)))

    def densities(theta: Any, of: Fits) -> Any:
        p, middle, with_, without = law_of(theta, of)
        return np.log(
            p * student.pdf(x, decide.DF, middle, with_) + (1.0 - p) * student.pdf(x, decide.DF, 0.0, without)
        )

    def search(of: Fits = fits, learnt: Any = slice(None), tempered: bool = True) -> Any:
        """Constants by these of the fits; without a temper it is held at one."""
        start, width = START.copy(), WIDTH.copy()
        if not tempered:
            start[1], width[1] = 0.0, 1e-6

        def objective(theta: Any) -> float:
            return float(-densities(theta, of)[learnt].sum() + 0.5 * np.sum(((theta - start) / width) ** 2))

        return minimize(objective, start, method="L-BFGS-B").x

    def left_out(**how: Any) -> float:
        """Log density of the truth of every fifth of the seeds, with constants by the others."""
        fifth = np.unique([r["seed"] for r in real], return_inverse=True)[1] % 5
        return float(
            sum(densities(search(learnt=fifth != k, **how), how.get("of", fits))[fifth == k].sum() for k in range(5))
        )

    best, by_itself = search(), fits._replace(draw=np.arange(len(rows)))
    in_use = {name: getattr(decide, name) for name in ("COST", *NAMES)}
    now = np.array([decide.COST, *np.log([in_use[name] for name in NAMES])])
    p, middle, with_, without = law_of(now)
    this = left_out()

    def below(at: Any) -> Any:
        return p * student.cdf((at - middle) / with_, decide.DF) + (1.0 - p) * student.cdf(at / without, decide.DF)

    falls, rank = below(0.0), below(x)
    null = np.array([", 0, " in r["cell"] for r in real])
    strong = np.array([", 0.9, " in r["cell"] and ", 6 rows" not in r["cell"] for r in real]) & (true < np.log(0.95))
    found = {name: round(float(v), 3) for name, v in zip(NAMES, np.exp(best[1:]), strict=True)}
    sure, probable = falls >= decide.SURE, (falls >= decide.PROBABLE) & (falls < decide.SURE)
    return {
        "constants": in_use,
        "constants by these draws": {"COST": round(float(best[0]), 2), **found},
        "nats more with these, on the same draws": round(
            float((densities(best, fits) - densities(now, fits)).sum()), 1
        ),
        "nats less, on seeds left out": {
            "of each method by itself": round(this - left_out(of=by_itself), 1),
            "not tempered": round(this - left_out(tempered=False), 1),
            "of each method, not tempered": round(this - left_out(of=by_itself, tempered=False), 1),
        },
        "draws": len({(r["cell"], r["seed"]) for r in rows}),
        "fits that borrow": len(real),
        "helps, nulls": power.share(sure[null]),
        "helps, correlation 0.9, true gain above 5 %": power.share(sure[strong]),
        "helps or probably helps there": power.share((sure | probable)[strong]),
        "right where it says helps": power.share(true[sure] < 0.0),
        "right where it says probably helps": power.share(true[probable] < 0.0),
        "interval holds the truth": power.share((rank > 1.0 - decide.END) & (rank < decide.END)),
        "helps from": [
            {
                "level": level,
                "nulls": power.share(falls[null] >= level),
                "correlation 0.9, true gain above 5 %": power.share(falls[strong] >= level),
                "right": power.share(true[falls >= level] < 0.0),
            }
            for level in LEVELS
        ],
    }


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no draw after so many")
    parser.add_argument("--small", action="store_true", help="one draw of three cells, nothing written")
    given = parser.parse_args(arguments)
    tuning = power.SEEDS["tuning"]
    if given.small:
        few = [c for c in CELLS if c.rows == 10][:3]
        return calibrate([{"cell": c.name, "seed": tuning[0], **r} for c in few for r in one_draw(c, tuning[0])])
    STORE.parent.mkdir(exist_ok=True)
    lines = [json.loads(line) for line in STORE.read_text().splitlines()] if STORE.exists() else []
    done, until = {(r["cell"], r["seed"]) for r in lines}, time.monotonic() + 60.0 * given.minutes
    with STORE.open("a") as file:
        for seed in tuning[given.first : given.first + given.draws]:
            for cell in CELLS:
                if (cell.name, seed) in done or time.monotonic() > until:
                    continue
                rows = [{"cell": cell.name, "seed": seed, **r} for r in one_draw(cell, seed)]
                file.write("".join(json.dumps(r) + "\n" for r in rows))
                file.flush()
                lines += rows
    result = calibrate(lines)
    write_result("calibrate", {"seeds": "tuning", **result})
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return result


if __name__ == "__main__":
    main()
