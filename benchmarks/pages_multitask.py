"""Blocks of docs/papers/multitask.md, from docs/results/bonilla2008_*.json and multitask_speed.json."""

from __future__ import annotations

from pages_parts import all_commits, load, made_by, table

SEEDS = "seeds [replication, settings]"


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
    return table(head, rows) + line + made_by(result, SEEDS)


def losses(data: str) -> str:
    """Where sharing loses, by name."""
    result = load(f"bonilla2008_{data}")
    rows = []
    for r in result["losses"]:
        lost = r["programs where sharing loses"]
        named = ", ".join(f"{p} {v:.2f}" for p, v in sorted(lost.items(), key=lambda i: -i[1])) or "none"
        rows.append([r["settings"], r["method"], len(lost), named])
    head = ["settings", "method", "tasks that lose", "error over no transfer's"]
    return table(head, rows) + made_by({"made by": result["made by"], "losses": result["losses"]}, SEEDS)


def one_thing(data: str) -> str:
    """What each of our two changes does, what maximum likelihood does, and who is ahead of no transfer, by size."""
    result = load(f"bonilla2008_{data}")
    by = {(r["method"], r["settings"]): r["error / no transfer"] for r in result["table"]}
    sizes = sorted({r["settings"] for r in result["table"]})

    def over(one: str, other: str) -> str:
        both = [(n, by[one, n] / by[other, n]) for n in sizes if (one, n) in by and (other, n) in by]
        return ", ".join(f"{v:.2f} at {n}" for n, v in both) or "not run"

    def ahead(n: int) -> str:
        found = [m for m, k in by if k == n and by[m, n] < 1 and m != "no transfer"]
        return ", ".join(f'"{m}"' for m in found) or "nothing"

    paper, features, likelihood = "free form, paper", "parametric, paper", "no transfer, maximum likelihood"
    lines = [
        f"The prior on $K^f$: error with it over without {over('free form', 'free form, own noise, no prior on K^f')}.",
        "Noise of each task: with it over one noise for all "
        f"{over('free form', 'free form, shared noise, prior on K^f')}.",
        f"Maximum likelihood: no transfer over the same with priors {over(likelihood, 'no transfer')}; the paper's "
        f"free form over no transfer {over(paper, likelihood)}, over the parametric model {over(paper, features)}.",
        f"With our priors: free form over the parametric model {over('free form', 'parametric')}; the defaults over no "
        f"transfer {over('defaults', 'no transfer')}.",
        "Ahead of no transfer with its priors: " + "; ".join(f"at {n} {ahead(n)}" for n in sizes) + ".",
    ]
    return "\n".join(f"- {line}" for line in lines)


def school_in_words() -> str:
    """The comparisons that the page draws from Table 1."""
    result = load("bonilla2008_school")
    rows = {r["method"]: r for r in result["table"]}
    ev = {m: r["explained variance"] for m, r in rows.items()}
    raw = [f"no transfer, raw scores{w}" for w in ("", ", started at their scale")]
    ridge, level = "ridge", "ridge with school intercepts"

    def shown(names: list[str]) -> str:
        return ", ".join(f"{m.removesuffix(', as printed')} {ev[m]:.1f}" for m in names)

    always = [m for m, r in rows.items() if r["splits"] == r["splits above ridge with intercepts"]]
    between = [m for m in ev if m.startswith("parametric") and ev[ridge] < ev[m] < ev[level]]
    lines = [
        f"No transfer on raw scores by maximum likelihood: {ev[raw[0]]:.1f} % from lengthscales 1 and noise 0.01, "
        f"{ev[raw[1]]:.1f} % from the scale of the scores; the paper prints {PRINTED[raw[0]]} %.",
        f"Ranks as printed: {shown([f'rank {p}, as printed' for p in (1, 2, 3, 5)])} %; with our priors and common "
        f"units: {shown([f'rank {p}' for p in (1, 2, 3, 5)])} %.",
        f"Parametric as printed: {shown([f'parametric, {n} tasks, as printed' for n in (139, 288)])} %; with our "
        f"priors: {shown([f'parametric, {n} tasks' for n in (139, 288)])} %.",
        f"Above ridge with school intercepts ({ev[level]:.1f} %) on every split: "
        + (", ".join(f'"{m}" by {ev[m] - ev[level]:.1f}' for m in always) or "none")
        + ".",
        f"Between plain ridge ({ev[ridge]:.1f} %) and ridge with intercepts, of the models on school features: "
        + (", ".join(f'"{m}"' for m in between) or "none")
        + ".",
    ]
    return "\n".join(f"- {line}" for line in lines)


#: What the prose of the paper gives of its Table 1.
PRINTED = {"no transfer, raw scores": 21.1, "parametric, 288 tasks, as printed": 33.08}


def school() -> str:
    result = load("bonilla2008_school")
    rows = [
        [
            r["method"],
            f"{r['explained variance']:.1f}" + (f" ± {r['sd']:.1f}" if r["sd"] is not None else ""),
            f"{r['mean squared error']:.1f}",
            f"{r['splits above ridge with intercepts']} of {r['splits']}",
            PRINTED.get(r["method"], ""),
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
    "one thing compiler": lambda: one_thing("compiler"),
    "one thing spear": lambda: one_thing("spear"),
    "one thing polybench": lambda: one_thing("polybench"),
    "bonilla school": school,
    "bonilla school in words": school_in_words,
    "bonilla jura": jura,
}
