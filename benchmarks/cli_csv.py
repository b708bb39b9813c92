"""What it costs the command line to read a large CSV file of which it uses little: seconds and peak memory.

    python benchmarks/cli_csv.py            prints, and writes docs/results/cli_csv.json
    python benchmarks/cli_csv.py --small    the same on files of a few megabytes, for the tests; writes nothing

Files have 44 columns (40 numbers, a quoted text, a task, an input, a target), of which three are used, and are made
of one block of 20,000 drawn rows over and over. Every reading is a process of its own:
- "bytes": the file is only read, in blocks; the yardstick.
- "used": `borrow.cli.read` reads the three columns, and they become numbers and labels as in `borrow fit`.
- "all": polars reads all columns with their types, as a plain `polars.read_csv` does.
- "predict": the whole command `borrow predict MODEL FILE --only --output OUT`, a model of 60 rows and one input.
Seconds are of the processor, all threads together, so that a busy machine does not count; wall-clock seconds stand
beside them. Peak memory is that of the process (VmHWM) less that of one that has only imported the same modules.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import borrow
from borrow.cli.app import main as command
from borrow.cli.columns import read_table
from borrow.cli.read import BLOCK, open_source
from results import write_result

ROWS = 20_000
SIZES = (100, 300, 1000)  # megabytes
SEED = 0


def make(path: Path, megabytes: float, rows: int = ROWS) -> int:
    """A file of about that size; how many rows it has."""
    rng = np.random.default_rng(SEED)
    hours = rng.uniform(0, 10, rows)
    columns: dict[str, Any] = {
        "school": rng.choice(["St Mary", "St John", "Hill"], rows),
        "hours": hours.round(5),
        "score": (np.sin(hours) + 0.1 * rng.normal(size=rows)).round(6),
        "note": [f"row {i}, which nobody needs" for i in range(rows)],
    }
    columns |= {f"unused {j}": rng.normal(size=rows).round(6) for j in range(40)}
    head, _, body = pl.DataFrame(columns).write_csv().partition("\n")
    times = max(round(megabytes * 1e6 / len(body)), 1)
    with path.open("w") as file:
        file.write(head + "\n")
        for _ in range(times):
            file.write(body)
    return times * rows


def job(what: str, path: str) -> None:
    """In a process of its own: do it, and print seconds and peak memory."""
    start, busy = time.perf_counter(), time.process_time()
    if what == "bytes":
        with open(path, "rb") as file:
            while file.read(BLOCK):
                pass
    elif what == "used":
        read_table(open_source(path), "score", "school", ["hours"], [])
    elif what == "all":
        pl.read_csv(path)
    elif what == "predict":
        folder = Path(path).parent
        call = ["predict", str(folder / "model.borrow"), path, "--only", "--output", str(folder / "out.csv")]
        command(call, prog_name="borrow", standalone_mode=False)
    print(json.dumps({"wall": time.perf_counter() - start, "seconds": time.process_time() - busy, "peak": peak()}))


def peak() -> float:
    """Peak resident memory in megabytes. Not ru_maxrss, in which a process inherits what its parent had."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024 / 1e6


def run(what: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--job", what, str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def predict(path: Path, folder: Path) -> dict[str, float]:
    """The whole command, by the clock and by the largest child."""
    frame = pl.read_csv(path, n_rows=60).select("hours", "school", "score")
    model = borrow.SingleTaskGPRegressor("school").fit(frame.select("hours", "school"), frame["score"].to_numpy())
    borrow.store.save(model, folder / "model.borrow")
    return run("predict", path)


def measure(sizes: tuple[float, ...], rows: int) -> dict[str, Any]:
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder, path = Path(place), Path(place) / "large.csv"
        for megabytes in sizes:
            n = make(path, megabytes, rows)
            run("bytes", path)  # the file is in the system's cache for all
            alone = run("nothing", path)["peak"]
            row: dict[str, Any] = {"megabytes": path.stat().st_size / 1e6, "rows": n}
            for what in ("bytes", "used", "all"):
                if what == "all" and megabytes > 400:
                    continue  # it would take gigabytes
                answer = run(what, path)
                row[f"{what}, seconds"], row[f"{what}, wall"] = answer["seconds"], answer["wall"]
                row[f"{what}, peak megabytes"] = max(answer["peak"] - alone, 0.0)
            if megabytes == sizes[min(1, len(sizes) - 1)]:
                answer = predict(path, folder)
                row["predict, seconds"], row["predict, wall"] = answer["seconds"], answer["wall"]
                row["predict, peak megabytes"] = answer["peak"] - alone
            row["used / bytes, seconds"] = row["used, seconds"] / row["bytes, seconds"]
            row["used, megabytes a second"] = row["megabytes"] / row["used, seconds"]
            found.append({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})
            print("  ".join(f"{k}: {v:.4g}" for k, v in found[-1].items()))
    return {"columns": 44, "used columns": 3, "block, megabytes": BLOCK / 1e6, "seed": SEED, "files": found}


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="files of a few megabytes; nothing is written")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.job:
        job(*options.job)
        return {}
    result = measure((1, 2), 500) if options.small else measure(SIZES, ROWS)
    if not options.small:
        write_result("cli_csv", result)
    return result


if __name__ == "__main__":
    main()
