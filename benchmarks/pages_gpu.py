"""Blocks of docs/large.md that are about the GPU: see pages.py."""

from __future__ import annotations

from collections.abc import Callable

from pages_parts import load, made_by, table


def by_whom(result: dict) -> str:
    m = result["machine"]
    card = f"one {m['card']}, {m['card memory, GiB']:.0f} GiB, host with {m['host cores']} cores"
    return made_by(result, f"seed 0; {card}; PyTorch {m['torch']}")


def dense() -> str:
    result = load("bench_gpu")
    rows = [
        [
            f"{r['n']:,}",
            r["evidence and gradient, ms"],
            f"**{r['ours / (Cholesky + cholesky_inverse) (at most 1.25)']}**",
            r["ours / (Cholesky + blocked inverse)"],
            f"**{r['ours / GPyTorch']}**",
            r["blocked inverse / cholesky_inverse"],
            r["peak GiB"],
            r["GPyTorch, peak GiB"],
        ]
        for r in result["dense"]
    ]
    head = [
        "rows",
        "ms",
        "against `cholesky` + `cholesky_inverse`",
        "against `cholesky` + our inverse",
        "against GPyTorch",
        "our inverse against `cholesky_inverse`",
        "peak GiB",
        "GPyTorch's",
    ]
    return table(head, rows) + by_whom(result)


def against_host() -> str:
    result = load("bench_gpu")
    d, f, e, m = (result[k] for k in ("dense against the host", "focused", "ep", "em"))
    tasks, each, inducing = f["tasks, rows each, inducing inputs"]
    inputs, groups, labels = m["inputs, tasks, labels a task at most"]
    rows = [
        [
            f"symmetric, dense, {d['n']:,} rows: evidence and gradient",
            f"{1e3 * d['GPU, s']:.0f} ms",
            f"{d['host, all cores, s']:.1f} s, all cores",
            d["times faster"],
            "3.5",
            f"{d['largest relative difference']:.0e}",
        ],
        [
            f"focused, {tasks:,} tasks of {each} rows, {inducing} inducing inputs: the same",
            f"{f['GPU, ms']:.0f} ms",
            f"{f['host, one thread, s']:.1f} s, one thread",
            f["times faster"],
            f["GPU, peak GiB"],
            f"{f['largest relative difference']:.0e}",
        ],
        [
            f"focused classifier, {e['labels']:,} labels: two sweeps of EP and the gradient",
            f"{1e3 * e['GPU, two sweeps and gradient, s']:.0f} ms",
            f"{e['host, one thread, two sweeps and gradient, s']:.1f} s, one thread",
            e["times faster"],
            e["GPU, peak GiB"],
            f"{e['largest relative difference']:.0e}",
        ],
        [
            f"hierarchical, {inputs:,} inputs, {groups:,} tasks of up to {labels} labels: one EM iteration",
            f"{m['GPU, ms an iteration']:.0f} ms",
            f"{m['host, all cores, s']:.1f} s, all cores",
            m["times faster than the faster of them"],
            m["GPU, peak GiB"],
            f"{m['largest relative difference after two steps']:.0e}",
        ],
    ]
    rows[0][4] = next((r["peak GiB"] for r in result["dense"] if r["n"] == d["n"]), "")
    head = ["what", "GPU", "host", "times faster", "peak GiB", "largest relative difference"]
    note = (
        f"\n\nEP to convergence: {e['sweeps']} sweeps and the gradient in {e['GPU, evidence and gradient, s']:.2f} s."
    )
    return table(head, rows) + note + by_whom(result)


def begins() -> str:
    result = load("bench_gpu")
    rows = [[f"{r['n']:,}", r["host, ms"], r["GPU, ms"]] for r in result["crossover"]]
    return table(["rows", "host, ms", "GPU, ms"], rows) + by_whom(result)


def fits() -> str:
    result = load("bench_gpu")
    rows = [
        [
            r["fit"],
            r["GPU, s"],
            r["of these, each task by itself on the host"],
            r["host, s"],
            r["times faster"],
            f"{r['log evidence, GPU less host']:.1g}",
            f"{r['largest difference of predictions']:.0e}",
        ]
        for r in result["fits"]
    ]
    head = [
        "fit and predictions",
        "GPU, s",
        "of these, each task by itself",
        "host, s",
        "times faster",
        "log evidence, difference",
        "predictions differ by",
    ]
    return table(head, rows) + by_whom(result)


def headline() -> str:
    result = load("bench_gpu")
    largest = result["dense"][-1]
    rows = [
        [
            f"On a GPU, {largest['n']:,} rows, evidence with gradient: against bare Cholesky and inverse; GPyTorch",
            f"{largest['ours / (Cholesky + cholesky_inverse) (at most 1.25)']}; {largest['ours / GPyTorch']}",
            "`benchmarks/gpu.py`",
        ],
        [
            "Focused GP, 2,000 tasks of 200 rows, the same: milliseconds on an H200; faster than one thread by",
            f"{result['focused']['GPU, ms']}; {result['focused']['times faster']}",
            "`benchmarks/gpu.py`",
        ],
    ]
    return table(["what", "figure", "command"], rows)


def whole_fits() -> str:
    result = load("gpu_fits")
    of = result["made by"]["commit"]
    rows = [
        [
            r["line"],
            f"{r['rows']:,}",
            f"{r['seconds']:.1f}",
            f"{r['peak GiB']:.1f}" if r.get("peak GiB") else "–",  # of other processes it is not known
            f"{r['log density of new rows']:.3f}" if "log density of new rows" in r else "–",
            r.get("commit", of),
        ]
        for r in result["records"]
    ]
    head = ["fit", "rows", "seconds", "peak GiB", "log density of new rows", "commit"]
    return table(head, rows) + made_by(
        result, f"seed {result['seed']}; one {result['card']}; PyTorch {result['torch']}"
    )


def on_the_curve() -> dict[tuple[str, int], dict]:
    """Records by line and rows: those of approximations.json, and BoTorch's of the same tables from gpu_fits.json."""
    peers = [r for r in load("gpu_fits")["records"] if r["line"] == "BoTorch"]
    return {(r["line"], r["rows"]): r for r in [*load("approximations")["records"], *peers]}


def approximations() -> str:
    result, found = load("approximations"), on_the_curve()
    lines, sizes = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    rows = [
        [
            line,
            *(
                f"{r['seconds']:.1f} s, {r['log density of new rows']:.3f}{_unfinished(r)}"
                if (r := found.get((line, n)))
                else "–"
                for n in sizes
            ),
        ]
        for line in lines
    ]
    return table(["seconds, log density of new rows", *(f"{n:,} rows" for n in sizes)], rows) + made_by(
        result, f"seed {result['seed']}; one {result['card']}; PyTorch {result['torch']}"
    )


def _unfinished(record: dict) -> str:
    """Of a search that its limit of time ended, the share of its steps."""
    return "" if record.get("steps") == record.get("of") else f" ({record['steps'] / record['of']:.0%} of its steps)"


BLOCKS: dict[str, Callable[[], str]] = {
    "gpu dense": dense,
    "gpu against host": against_host,
    "gpu begins": begins,
    "gpu fits": fits,
    "gpu whole fits": whole_fits,
    "gpu approximations": approximations,
    "headline gpu": headline,
}
