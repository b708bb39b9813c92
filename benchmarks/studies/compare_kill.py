"""Kill -9 a stored comparison at ten random moments, resume it each time, and compare with one that was left alone.

    python benchmarks/studies/compare_kill.py [--kills 10] [--seed 0] [--small]

Every run is a process of its own. It notes each fit that it begins in a second file, so that fits done twice can be
counted: only the fit in flight when the process was killed may be. The table of the end must be the same to the last
digit, the seconds that fits took left aside.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from borrow.transfer import compare as run
from borrow.transfer.comparison import Comparison
from results import write_result

SIZES = {"usual": ((14, 25, 25), (5, 2), ["pooled", "symmetric", "focused"]), "small": ((6, 8), (2, 1), ["pooled"])}
BEGUN = "begun"


def child(size: str, store: str, notes: str) -> None:
    """One run, which notes every fit that it begins."""
    counts, cv, methods = SIZES[size]
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, sum(counts))
    who = [f"task {t}" for t, n in enumerate(counts) for _ in range(n)]
    table = {"x": x, "who": who, "y": np.sin(x) + 0.1 * rng.normal(size=len(x))}
    plain = run.evaluate

    def noted(problem: Any, job: Any, *rest: Any) -> dict[str, Any]:
        note(json.dumps(job.key))
        return plain(problem, job, *rest)

    def note(text: str) -> None:
        with open(notes, "a") as file:
            file.write(text + "\n")

    run.evaluate = noted
    note(BEGUN)
    run.compare(table, "y", "who", "task 0", methods, cv=cv, leave_out=True, store=store)


def start(size: str, store: Path, notes: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--child", size, str(store), str(notes)])


def begins(notes: Path) -> int:
    return notes.read_text().splitlines().count(BEGUN) if notes.exists() else 0


def kill_at(process: subprocess.Popen[bytes], notes: Path, before: int, seconds: float) -> bool:
    """Wait until the run has begun, then so many seconds, then SIGKILL; False where it had ended by then."""
    while begins(notes) == before and process.poll() is None:
        time.sleep(0.05)
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return True


def without_seconds(comparison: Comparison) -> str:
    content = comparison.to_dict()
    for record in content["records"]:
        record["seconds"] = None
    return json.dumps(content, sort_keys=True)


def study(kills: int, seed: int, size: str, folder: Path) -> dict[str, Any]:
    """Figures of one series of kills."""
    alone, notes = folder / "alone.jsonl", folder / "alone.txt"
    started = time.monotonic()
    if start(size, alone, notes).wait() != 0:
        raise RuntimeError("the run that was left alone failed")
    spent = time.monotonic() - started
    whole = Comparison.read(alone)
    fits = len(whole.records)
    store, notes = folder / "killed.jsonl", folder / "killed.txt"
    rng, killed, torn = np.random.default_rng(seed), 0, 0
    while killed < kills:
        moment = float(rng.uniform(0.0, 1.5 * spent / (kills + 1)))
        if not kill_at(start(size, store, notes), notes, begins(notes), moment):
            break  # it was done before the last kills
        killed += 1
        torn += store.exists() and not store.read_bytes().endswith(b"\n") and store.stat().st_size > 0
    if start(size, store, notes).wait() != 0:
        raise RuntimeError("the resumed run failed")
    found = Comparison.read(store)
    begun = Counter(line for line in notes.read_text().splitlines() if line != BEGUN)
    lines = Counter(_keys(store))
    return {
        "kills": killed,
        "fits": fits,
        "fits begun": sum(begun.values()),
        "fits begun twice or more": sum(v - 1 for v in begun.values()),
        "fits written twice": sum(v - 1 for v in lines.values()),
        "files torn by a kill": int(torn),
        "same table to the last digit": without_seconds(found) == without_seconds(whole),
    }


def _keys(store: Path) -> list[str]:
    rows = [json.loads(line) for line in store.read_text().splitlines()[1:]]
    names = ("primary", "method", "repeat", "fold", "left_out")
    return [json.dumps([r.get(k) for k in names]) for r in rows]


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny comparison, nothing written")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        child(*given.child)
        return {}
    with tempfile.TemporaryDirectory() as folder:
        result = study(given.kills, given.seed, "small" if given.small else "usual", Path(folder))
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    if not given.small:
        write_result("compare_kill", {"seed": given.seed, **result})
    return result


if __name__ == "__main__":
    main()
