"""Blocks of docs/papers/multitask.md, from docs/results/bonilla2008_*.json and multitask_speed.json."""

from __future__ import annotations

from pages_parts import all_commits, load, made_by, table


def figure1(data: str) -> str:
    """Error of every method at every size, and as a ratio to no transfer on the same replications."""
    result = load(f"bonilla2008_{data}")
    sizes = sorted({r["settings"] for r in result["table"]})
    methods = list(dict.fromkeys(r["method"] for r in result["table"]))
    by = {(r["method"], r["settings"]): r for r in result["table"]}

    def cell(method: str, n: int) -> str:
        r = by.get((method, n))
        if r is None:
            return "–"
        spread = "" if r["sd over replications"] is None else f" ± {r['sd over replications']:.2g}"
        fewer = f"; {r['replications']}" if r["replications"] != by["no transfer", n]["replications"] else ""
        return f"{r['error']:.4g}{spread} ({r['error / no transfer']:.2f}{fewer})"

    rows = [[m, *(cell(m, n) for n in sizes)] for m in methods]
    counts = [by["no transfer", n]["replications"] for n in sizes]
    shown = [f"{n} settings" + (f", {c} replications" if c != 10 else "") for n, c in zip(sizes, counts, strict=True)]
    head = ["mean absolute error ± sd (over no transfer's; replications where they are fewer)", *shown]
    short = [
        f"{r['method']} at {r['settings']} {r['fits that did not converge']} of {r['replications']}"
        for r in result["table"]
        if r.get("fits that did not converge")
    ]
    line = f"\n\nFits that did not converge: {', '.join(short) or 'none'}."
    made: dict[str, list[str]] = {}
    for m in methods:
        made.setdefault(", ".join(all_commits([by[k] for k in by if k[0] == m])), []).append(m)
    line += " Commits by row: " + "; ".join(f"{c} ({', '.join(m)})" for c, m in made.items()) + "."
    return table(head, rows) + line + made_by(result, "seeds [replication, settings]")


def losses(data: str) -> str:
    """Where sharing loses, by name."""
    result = load(f"bonilla2008_{data}")
    rows = []
    for r in result["losses"]:
        lost = r["programs where sharing loses"]
        named = ", ".join(f"{p} {v:.2f}" for p, v in sorted(lost.items(), key=lambda i: -i[1])) or "none"
        rows.append([r["settings"], r["method"], len(lost), named])
    return table(["settings", "method", "tasks that lose", "error over no transfer's"], rows)


def school() -> str:
    result = load("bonilla2008_school")
    rows = [
        [
            r["method"],
            f"{r['explained variance']:.1f}" + (f" ± {r['sd']:.1f}" if r["sd"] is not None else ""),
            f"{r['mean squared error']:.1f}",
            f"{r['splits above ridge with intercepts']} of {r['splits']}",
            "" if r["paper"] is None else r["paper"],
            r["path"] or "–",
            r["median seconds"],
            ", ".join(r["records by commit"]),
        ]
        for r in result["table"]
    ]
    head = [
        "method",
        "explained variance, %",
        "mean squared error",
        "above ridge with intercepts, splits",
        "paper",
        "path",
        "seconds per fit",
        "commits",
    ]
    return table(head, rows) + made_by(result, "split s draws from seed s")


def jura() -> str:
    result = load("bonilla2008_jura")
    rows = [
        [r["method"], r["mean absolute error"], r.get("covered by 90 % band", "–"), r.get("seconds", "–")]
        for r in result["table"]
    ]
    return table(["method", "mean absolute error, ppm", "truth in 90 % band", "seconds"], rows) + made_by(
        result, "nothing is random"
    )


def speed() -> str:
    """Fits beside the peers, evaluations beside bare LAPACK."""
    result = load("multitask_speed")
    fits = []
    for r in result["fits"]:
        if "seconds" not in r:
            fits.append([r["points"], r["program"], "–", "–", "–", "–", "–", r["note"]])
            continue
        ratio = r.get("times ours", r.get("times ours, at least"))
        fits.append(
            [
                r["points"],
                r["program"],
                f"{r['seconds']:.3g}" if "note" not in r else f"over {r['seconds']:.3g}",
                "" if ratio is None else f"{'over ' * ('note' in r)}{ratio} ({r['wanted']})",
                r.get("evaluations") or "–",
                f"{r['log evidence']:.2f}" if "log evidence" in r else "–",
                f"{r['below the best']:.2f}" if "log evidence" in r else "–",
                f"{r['import seconds']:.2g}" if "import seconds" in r else "–",
            ]
        )
    head = ["points", "program", "seconds", "times ours (wanted)", "evaluations", "log evidence", "below the best"]
    lines = [table([*head, "import, seconds"], fits)]
    versions = {k: v for r in result["fits"] for k, v in r.get("version", {}).items() if k != "numpy"}
    lines.append("Peers: " + (", ".join(f"{k} {v}" for k, v in versions.items()) or "none installed") + ".")
    bare = [
        [f"n = {r['n']:,}, dense", r["milliseconds"], r["dpotrf + dpotri"], r["ratio (at most 2)"]]
        for r in result["evidence"]
    ]
    c = result["complete"]
    floor = round(c["one eigh"] + c["its products"], 2)
    bare.append(
        [f"{c['inputs']:,} inputs × {c['tasks']} tasks, complete", c["milliseconds"], floor, c["ratio (under 2)"]]
    )
    lines.append(table(["evidence with gradient", "milliseconds", "bare LAPACK and BLAS", "ratio (at most 2)"], bare))
    s = result["school"]
    if "path" in s:
        lines.append(
            f'School data, rank 2, {s["rows"]:,} rows at {s["distinct inputs"]} distinct inputs, path "{s["path"]}": '
            f"{s['milliseconds an evaluation (median)']} ms per evaluation, {s['evaluations of a fit']} evaluations "
            f"and {s['seconds of a fit']} s per fit."
        )
    else:
        lines.append("School data: not measured, the files were not there.")
    return "\n\n".join(lines) + made_by(result, f"seed {result['seed']}, `python benchmarks/multitask.py`")


BLOCKS = {
    "multitask speed": speed,
    "figure1 compiler": lambda: figure1("compiler"),
    "figure1 spear": lambda: figure1("spear"),
    "figure1 polybench": lambda: figure1("polybench"),
    "losses compiler": lambda: losses("compiler"),
    "losses spear": lambda: losses("spear"),
    "losses polybench": lambda: losses("polybench"),
    "bonilla school": school,
    "bonilla jura": jura,
}
