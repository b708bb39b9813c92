"""Blocks of docs/large.md that are about workers: see pages.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

from pages_parts import load, made_by, table

MEMORY, MINUTE = 16 * 1024.0, 60.0  # MB, seconds


def carried_on(rows: list[dict[str, float]]) -> dict[str, float]:
    """Rows at which the memory, or a minute a step, is reached: a power law, at least linear, through the last two."""
    a, b = rows[-2], rows[-1]
    out = {}
    for name, most in (("MB", MEMORY), ("CPU seconds", MINUTE)):
        ratio = max(b[name], 1e-9) / max(a[name], 1e-9)
        power = max(math.log(ratio) / math.log(b["rows"] / a["rows"]), 1.0)
        power = 1.0 if name == "MB" and b[name] < 50 else power  # so little is noise
        out[name] = b["rows"] * (most / max(b[name], 1.0 if name == "MB" else 1e-9)) ** (1.0 / power)
        out[f"power, {name}"] = power
    return out


def number(value: float) -> str:
    """Three digits, with separators above a thousand."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{float(f'{value:.2g}'):,.0f}"


def models() -> str:
    result = load("how_far")
    rows = []
    for name, found in result["models"].items():
        last, on = found["sizes"][-1], carried_on(found["sizes"])
        rows.append(
            [
                f"`{name}`" if ", " not in name or "(" in name else f"`{name.split(', ')[0]}`, {name.split(', ')[1]}",
                found["step"],
                f"{last['rows']:,}",
                number(last["CPU seconds"]),
                number(last["MB"]),
                f"{on['power, CPU seconds']:.1f}, {on['power, MB']:.1f}",
                number(on["CPU seconds"]),
                number(on["MB"]),
            ]
        )
    head = [
        "model",
        "a step is",
        "rows measured",
        "CPU seconds",
        "MB",
        "powers",
        "rows in a minute a step",
        "rows in 16 GB",
    ]
    return table(head, rows) + made_by(result, "seed 0")


def same() -> str:
    result = load("bench_dask")
    size, one, two, hurt = (result[k] for k in ("size", "one process", "two workers", "workers killed"))
    end = result["converged"]["two workers"]
    kills = ", ".join(str(k["after evaluations"]) for k in hurt["kills"])
    at_start, at_end, apart = (
        "evidence at the start, relative",
        "objective at the end, relative",
        "parameters at the end, largest",
    )
    what = f"{size['tasks']:,} secondary tasks of {size['rows']} rows"
    rows = [
        [f"{what}: evidence on two workers against one process, relative", f"{two[at_start]:.1e}"],
        [f"after {one['iterations']} iterations ({one['evaluations']} evaluations): objective", f"{two[at_end]:.1e}"],
        [f"the same: largest difference of a parameter (of {4 * size['tasks'] + 3:,})", f"{two[apart]:.1e}"],
        [
            f"{len(hurt['kills'])} workers killed, after {kills} evaluations ({hurt['passes repeated']} repeated): "
            "objective, largest difference of a parameter, against two workers left alone",
            f"{hurt[at_end]:.1e}, {hurt[apart]:.1e}",
        ],
        [
            f"{size['converged']} tasks until a step gains less than 1e-4 nats ({end['iterations']} steps): objective, "
            "largest difference of a parameter",
            f"{end[at_end]:.1e}, {end[apart]:.1e}",
        ],
    ]
    return table(["what", "measured"], rows) + made_by(result, "seed 0; kills from seed 1")


def moved() -> str:
    rows = []
    for r in load("bench_dask")["bytes"]:
        each = r["an evaluation"] / 1e3
        kb = [f"{r['first'] / 1e3:,.0f}", f"{each:,.0f}", f"{each / r['shards']:.1f}"]
        rows.append([f"{r['tasks']:,}", r["rows"], r["shards"], *kb])
    head = ["tasks", "rows per task", "shards", "kB, first evaluation (shards sent)", "kB, each further one", "a shard"]
    return table(head, rows)


def times() -> str:
    t = load("bench_dask")["time"]
    rows: list[list[Any]] = [["one process, no Dask", f"{t['one process']:.2f}", "", "", ""]]
    for r in t["workers"]:
        kind = f"{r['workers']} worker{'s' * (r['workers'] > 1)}"
        rows.append([kind, f"{r['fastest']:.2f}", f"{r['predicted']:.2f}", f"{r['empty']:.3f}", r["load"]])
    pieces = (
        f"\n\nPieces: {t['CPU seconds in shards']:.2f} CPU seconds in {t['shards']} shards, "
        f"{t['CPU seconds in the client']:.3f} in the client; the machine has {t['cores']} cores, and its other "
        f"work stretched one process by {t['stretch']:.2f}."
    )
    return (
        table(["", "seconds an evaluation", "predicted", "of which Dask's own", "load of the machine"], rows) + pieces
    )


def thousand() -> str:
    result = load("bench_dask")
    t, n_tasks = result["time"], result["size"]["tasks"]
    work, client = (t[f"CPU seconds in {where}"] / n_tasks for where in ("shards", "the client"))
    graph = min(r["empty"] for r in t["workers"]) / (2.15 * t["shards"] + 1)
    rows = []
    for workers, tasks in ((1, 10**4), (10, 10**5), (100, 10**6), (1000, 10**6), (1000, 10**7)):
        shards = min(tasks * result["size"]["rows"] // 10_000, 1000)
        parts = client * tasks, work * tasks / workers, graph * (2.15 * shards + 1)
        share = parts[1] / sum(parts)
        rows.append(
            [f"{workers:,}", f"{tasks:,}", *(number(p) for p in parts), number(sum(parts)), f"{100 * share:.0f} %"]
        )
    head = ["machines, one core each", "tasks", "client", "shards", "Dask", "seconds an evaluation", "in shards"]
    return table(head, rows)


def fits_on_workers() -> str:
    result = load("dask_fits")
    ways = "one process", "two workers", "one of two killed"
    rows = [
        [
            f"`{name}`",
            f"{found['tasks']:,}",
            f"{found['one process']['rows']:,}",
            *(f"{found[way]['seconds']:.0f}" for way in ways),
            f"{max(found[way]['evidence, relative'] for way in ways):.0e}",
            f"{max(found[way]['largest difference of a prediction'] for way in ways):.0e}",
        ]
        for name, found in result["fits"].items()
    ]
    head = [
        "whole fit",
        "tasks",
        "rows",
        *(f"{way}, s" for way in ways),
        "evidence apart, relative",
        "predictions apart",
    ]
    return table(head, rows) + made_by(result, f"seed {result['seed']}, {result['cores']} cores")


#: Whose figures stand beside ours.
GPY = "GPy's"


def more_density(draws: list[dict]) -> str:
    """How much more log density than before, with the standard error over draws, which both sides fitted."""
    more = [d["now"]["log density"] - d["before"]["log density"] for d in draws]
    return f"{mean(more):+.3f} ± {stdev(more) / len(more) ** 0.5:.3f}"


def whole_fits() -> str:
    result = load("fits")
    of = result["made by"]["commit"]
    rows = [
        [
            name,
            f"{line['ratio']:.2f}",
            f"{line['now']['seconds']:.1f}",
            f"{line['before']['seconds']:.1f}",
            f"{line['now']['log density']:.3f}",
            f"{line['before']['log density']:.3f}",
            more_density(line["draws"]),
            len(line["draws"]),
            line.get("commit", of),
        ]
        for name, line in result["lines"].items()
        if "log density" in line["now"]
    ]
    head = ["fit", "ratio", "CPU seconds", "before", "log density of new rows", "before", "more", "draws", "commit"]
    return table(head, rows) + made_by(result, f"seed {result['seed']}, against commit b0d6f37")


def same_objective() -> str:
    result = load("fits")
    rows = []
    for name, line in result["lines"].items():
        now, before = line["now"], line["before"]
        if "rows" in now:
            more = (now["evidence"] - before["evidence"]) / now["rows"]
            seconds = f"{now['seconds']:.1f}", f"{before['seconds']:.1f}"
            rows.append([name, f"{line['ratio']:.2f}", *seconds, f"{now['evidence']:.2f}", f"{before['evidence']:.2f}"])
            rows[-1].append(f"{more:+.4f}")
    head = ["what is maximised", "ratio", "CPU seconds", "before", "log evidence", "before", "nats per row"]
    return table(head, rows) + made_by(result, f"seed {result['seed']}, against commit b0d6f37")


def other_draws() -> str:
    result = load("multitask_draws")
    ours, evidence = ("seconds", GPY), ("log evidence", f"{GPY} log evidence")
    rows = [
        [r["seed"], f"{r['ratio']:.3f}", *(f"{r[k]:.1f}" for k in ours), *(f"{r[k]:.2f}" for k in evidence)]
        for r in result["draws"]
    ]
    head = ["seed", "ratio", "CPU seconds", "GPy's", "log evidence", "GPy's"]
    ratios = (f"{result[f'{which} ratio{of}']:.3f}" for of in ("", " of the search") for which in ("median", "worst"))
    said = "Median ratio {}, the worst {}; without the time for what is not known of the hyper-parameters {} and {}."
    return table(head, rows) + f"\n\n{said.format(*ratios)}" + made_by(result, f"GPy {result['draws'][0]['GPy']}")


def unchanged() -> str:
    result = load("bench_unchanged")
    rows = [
        [r["what"], r["before"], r["after"], "" if r["ratio"] is None else r["ratio"]]
        for r in result["milliseconds, CPU"]
        if r["ratio"] is not None
    ]
    return table(["milliseconds of CPU time", "before", "after", "ratio"], rows) + made_by(
        result, f"against commit {result['before'][:7]}"
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "large models": models,
    "large fits": whole_fits,
    "large likelihoods": same_objective,
    "large draws": other_draws,
    "large same": same,
    "large dask fits": fits_on_workers,
    "large bytes": moved,
    "large time": times,
    "large thousand": thousand,
    "large unchanged": unchanged,
}
