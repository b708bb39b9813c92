"""What `compare` answers on real tables, and whether that was right.

    python benchmarks/studies/answers.py [--draws 3] [--only 'jura*'] [--minutes 60] [--small]

The scenarios with one primary of `scenarios.py` (without the generated ones), each as it is and with the targets of
every secondary shuffled, so that nothing is in common. The truth is the error on the primary's rows that no method saw,
and is known no better than these rows tell. An answer is right where it has the sign of the difference there between
the method that was judged and the best without the other data. None of these tables had a part in the constants of the
answer. Draws are kept under out/, and a run goes on where it stopped.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import fnmatch
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import power
from scenarios import SCENARIOS

from borrow.transfer.decide import ANSWERS
from results import ROOT, Records, write_result

STORE = ROOT / "out" / "answers.jsonl"
#: Not generated, and about one primary.
REAL = [name for name in SCENARIOS if not name.startswith(("hijack", "landmine", "computers"))]
#: A gain or loss on the fresh rows that counts as one, as a part of the error without the other data.
ROPE = 0.02


def one_draw(name: str, seed: int, shuffled: bool, methods: Any = "auto", cv: Any = None) -> dict[str, Any]:
    """The answer, and the errors of all methods on the rows that were kept apart."""
    d = SCENARIOS[name](seed)
    d = d.shuffled(seed) if shuffled else d
    found = power.judged(d.kind, d.X, d.y, d.task, d.primary, d.X_test, d.y_test, methods, cv)
    return {"scenario": name, "shuffled": shuffled, "seed": seed, "fresh rows": len(d.X_test), **found}


def summarise(draws: list[dict[str, Any]]) -> dict[str, Any]:
    """Answers by what was true of the method judged: a gain or a loss of more than 2 %, or neither."""
    size = [d["true"] / d["errors"][d["alone"]] for d in draws]
    groups = {
        "gain": [d for d, t in zip(draws, size, strict=True) if t < -ROPE],
        "neither": [d for d, t in zip(draws, size, strict=True) if abs(t) <= ROPE],
        "loss": [d for d, t in zip(draws, size, strict=True) if t > ROPE],
    }
    found: dict[str, Any] = {
        "draws": len(draws),
        "answers": {g: {a: sum(d["answer"] == a for d in mine) for a in ANSWERS} for g, mine in groups.items()},
        "mixture / no transfer": power.geometric([d["mixture"] / d["errors"]["single"] for d in draws]),
        "judged / no transfer": power.geometric([d["errors"][d["best"]] / d["errors"]["single"] for d in draws]),
        "largest mixture / no transfer": round(max(d["mixture"] / d["errors"]["single"] for d in draws), 3),
        "interval holds the truth": power.share([power.holds(d) for d in draws]),
    }
    for answer, sign in (("helps", -1), ("probably helps", -1), ("probably hurts", 1), ("hurts", 1)):
        if mine := [d for d in draws if d["answer"] == answer]:
            found[f"right where it says {answer}"] = power.share([d["true"] * sign > 0.0 for d in mine])
    return found


def summary(draws: list[dict[str, Any]]) -> dict[str, Any]:
    """Real secondaries and shuffled ones, all together and by scenario."""
    found = {}
    for version, shuffled in (("as they are", False), ("shuffled", True)):
        mine = [d for d in draws if d["shuffled"] is shuffled]
        by_name = {n: [d for d in mine if d["scenario"] == n] for n in dict.fromkeys(d["scenario"] for d in mine)}
        if mine:
            found[version] = {"all": summarise(mine), "scenarios": {n: summarise(rows) for n, rows in by_name.items()}}
    return found


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", default="*", help="names of scenarios, with * for any letters")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no draw after so many")
    parser.add_argument("--small", action="store_true", help="one quick draw of a generated scenario, nothing written")
    given = parser.parse_args(arguments)
    if given.small:
        return summary([one_draw("hijack, mix 0.6", 0, shuffled, ["symmetric"], 2) for shuffled in (False, True)])
    kept, until = Records(STORE), time.monotonic() + 60.0 * given.minutes
    done = {(r["scenario"], r["seed"], r["shuffled"]): r for r in kept}
    wanted = [name for name in REAL if fnmatch.fnmatch(name, given.only)]
    for seed, name, shuffled in itertools.product(range(given.draws), wanted, (False, True)):
        if (name, seed, shuffled) in done or time.monotonic() > until:
            continue
        d = done[name, seed, shuffled] = kept.add(one_draw(name, seed, shuffled))
        said = f"{name}, {seed}{', shuffled' * shuffled}: {d['answer']}, {d['probability']:.2f}, true {d['true']:.3g}"
        sys.stdout.write(f"{said} of {d['errors'][d['alone']]:.3g}, {d['seconds']:.0f} s\n")
        sys.stdout.flush()
    result = summary(list(done.values()))
    write_result("answers", {"seeds": "the numbers of the draws", **result}, done.values())
    return result


if __name__ == "__main__":
    print(json.dumps(main(), indent=1))
