"""Processor and wall seconds of two whole comparisons, now and at an earlier commit.

    git worktree add --detach ../base b0d6f37
    python benchmarks/compare_cost.py --base ../base            prints, and writes docs/results/compare_cost.json
    python benchmarks/compare_cost.py --only demo               one table, without the earlier commit; writes nothing

The tables are those of benchmarks/fits.py: that of `borrow demo` (eleven programs, 16 settings of the primary and 32 of
each other), with the demo's five folds dealt twice, and 2,000 rows in four tasks with the folds of the default. Both
commits read the same table and choose their own methods; two fits run at once. A comparison is one process, with its
imports and its verdict; its workers' time counts. `--limit` ends one that takes longer, and the record says so. What is
done is kept in out/compare_cost.jsonl, and not run again at the same commit; each line has its own.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from fits import SEED, demo, four_tasks
from results import ROOT, write_result

STORE = ROOT / "out" / "compare_cost.jsonl"
TABLES: dict[str, Any] = {"demo": (demo, [5, 2]), "2,000 rows in four tasks": (four_tasks, None)}
CHILD = """
import json, sys, warnings
import numpy as np, pandas as pd, borrow
from joblib.externals.loky import get_reusable_executor
warnings.simplefilter("ignore")
with np.load(sys.argv[1]) as held:
    table = pd.DataFrame(held["X"], columns=[f"x{j}" for j in range(held["X"].shape[1])])
    table["task"], table["y"] = [f"task {t}" for t in held["task"]], held["y"]
cv = json.loads(sys.argv[2])
found = borrow.compare(table, "y", "task", "task 0", cv=cv and tuple(cv), n_jobs=2)
verdict = found.verdict()
get_reusable_executor().shutdown(wait=True)  # so that the time of the workers is counted
keep = {"answer": verdict.answer, "best": verdict.best, "methods": found.methods, "fits": len(found.records)}
print(json.dumps(keep))
"""


def measure(name: str, source: Path, limit: float) -> dict[str, Any]:
    """One comparison in a process of its own, of the library in a checkout."""
    make, cv = TABLES[name]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "table.npz"
        d = make(np.random.default_rng(SEED))
        np.savez(place, **{k: d[k] for k in ("X", "y", "task")})
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        call = [sys.executable, "-c", CHILD, str(place), json.dumps(cv)]
        environment = {**os.environ, "PYTHONPATH": str(source / "src")}
        try:
            ran = subprocess.run(call, check=True, capture_output=True, text=True, env=environment, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"ended": False, "seconds": limit}
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {
        "ended": True,
        "processor seconds": spent,
        "seconds": time.perf_counter() - started,
        **json.loads(ran.stdout),
    }


def commit_of(source: Path) -> str:
    """The commit of a checkout, short."""
    call = ["git", "-C", str(source), "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout.strip()


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="a checkout of the earlier commit")
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--kept", action="store_true", help="run nothing: the last that is kept of each table and side")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a comparison is ended")
    given = parser.parse_args(arguments)
    sources = [ROOT] if given.base is None else [given.base.resolve(), ROOT]
    STORE.parent.mkdir(exist_ok=True)
    records = [json.loads(line) for line in STORE.read_text().splitlines()] if STORE.exists() else []
    wanted = []
    for name in [given.only] if given.only else TABLES:
        for source in sources:
            about = {"table": name, "commit": commit_of(source)}
            if given.kept and source == ROOT:
                about = next(r for r in reversed(records) if r["table"] == name and r["commit"] != wanted[-1]["commit"])
            found = next((r for r in records if about.items() <= r.items()), None)
            if found is None:
                load = round(os.getloadavg()[0], 1)
                found = {**about, **measure(name, source, given.limit), "load before": load, "cores": os.cpu_count()}
                with STORE.open("a") as file:
                    file.write(json.dumps(found) + "\n")
            wanted.append(found)
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
    if not given.only and given.base is not None:
        write_result("compare_cost", {"seed": SEED, "comparisons": wanted}, wanted)
    return wanted


if __name__ == "__main__":
    main()
