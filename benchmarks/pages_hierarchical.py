"""Blocks of docs/papers/hierarchical.md: see pages.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pages_parts import load, made_by, table

ORDER = (
    "multi-task GP, defaults",
    "multi-task GP, plain EM",
    "regularised multi-task",
    "ridge",
    "ridge, best in hindsight",
    "SVM",
)
MEASURES = ("AUC all", "AUC partial", "micro F all", "micro F partial", "macro F all", "macro F partial")
PRINTED = {
    "multi-task GP, plain EM": ".773 / .826",
    "regularised multi-task": ".701 / .709",
    "ridge": ".756 / .771",
    "SVM": ".697 / .716",
}


def short(pair: list[float]) -> str:
    mean, sd = pair
    return f"{mean:.3f} ± {sd:.3f}".replace("0.", ".")


def text(run: str) -> str:
    result = load("yu2005_text")
    rows = []
    for m in (m for m in ORDER if m in result[run]):
        v = result[run][m]
        cells = [short(v[f"{what} {where}"]) for where in ("all", "partial") for what in ("AUC", "micro F", "macro F")]
        rows.append([m, v["draws"], *cells, *([PRINTED.get(m, "")] if run == "as the paper" else [])])
    head = ["method", "draws", "AUC, all", "micro F", "macro F", "AUC, partially labelled", "micro F", "macro F"]
    head += ["paper's AUC"] if run == "as the paper" else []
    return table(head, rows) + made_by(result, f"seeds 0 to {result['seeds'][-1]}")


def in_words() -> str:
    """Who is ahead of whom in Table 1, both ways, and at the edge of which grid a method sits."""
    result = load("yu2005_text")
    plain, ours = "multi-task GP, plain EM", "multi-task GP, defaults"
    lines = []
    for run, what, mine in (("as the paper", "As the paper ran it", plain), ("fair", "Fairly", ours)):
        for rival in ("ridge", "regularised multi-task", "SVM", *([plain] if run == "fair" else [])):
            if rival in result[run]:
                gaps = {k: result[run][mine][k][0] - result[run][rival][k][0] for k in MEASURES}
                said = ", ".join(f"{k} {v:+.3f}" for k, v in gaps.items())
                lines.append(f"{what}, {mine} less {rival}: {said}.")
    return "\n".join(f"- {line}" for line in lines)


def chosen() -> str:
    """What the methods chose of their grids, by draw."""
    result = load("yu2005_text")
    rows = []
    for run in ("as the paper", "fair"):
        for method in ("ridge", "ridge, best in hindsight", "SVM", "regularised multi-task"):
            found = [d[run][method] for d in result["draws"] if method in d[run]]
            for k in ("lambda", "C", "mu"):
                counts = Counter(v[k] for v in found if k in v)
                if counts:
                    rows.append([run, method, k, ", ".join(f"{v:g} in {n}" for v, n in sorted(counts.items()))])
    return table(["run", "method", "parameter", "chosen in draws"], rows) + made_by(
        result, f"seeds 0 to {result['seeds'][-1]}"
    )


def noise() -> str:
    result = load("yu2005_text")
    parts = []
    for run, what in (("as the paper", "targets as they are"), ("fair", "centred targets")):
        plain = result[run].get("multi-task GP, plain EM")
        if plain:
            parts.append(f"{plain['noise'][0]:.4f} with {what} ({plain['draws']} draws)")
    rises = all(d["as the paper"]["multi-task GP, plain EM"]["objective rises"] for d in result["draws"])
    told = "rose in every iteration" if rises else "did not rise in every iteration"
    return f"Plain EM starts from a noise of 0.1 and ends, on average, at {' and '.join(parts)}. Its objective {told}."


def gaps(name: str = "yu2005_text") -> str:
    result = load(name)
    rows = []
    for name, values in result.items():
        if name.endswith("by draw") and values:
            worst = min(values)
            rows.append([name.removesuffix(", by draw"), f"{sum(values) / len(values):+.3f}", f"{worst:+.3f}"])
            rows[-1].append(f"{sum(v > 0 for v in values)} of {len(values)}")
    head = ["difference of AUC", "mean", "worst draw", "draws above 0"]
    return table(head, rows) + made_by(result, "seeds {} to {}".format(result["seeds"][0], result["seeds"][-1]))


NEW = ("learnt, ours", "learnt, paper", "ridge", "SVM")


def new_topics(run: str, metric: str = "AUC") -> str:
    """One metric on new topics, by number of examples."""
    result = load("yu2005_new_topics")
    mine = [r for r in result["table"] if (r["run"], r["metric"]) == (run, metric)]
    rows = [
        [
            r["examples"],
            *(f"{r[m]:.3f} ± {r[f'{m} sd']:.3f}" for m in NEW),
            f"{r['learnt, ours above ridge, draws']} and {r['learnt, paper above ridge, draws']} of {r['draws']}",
        ]
        for r in mine
    ]
    head = ["examples", "learnt kernel, ours", "learnt kernel, paper's", "ridge", "SVM", "learnt above ridge, draws"]
    head[0] += f" ({metric})" * (metric != "AUC")
    seeds = f"{mine[0]['draws']} draws, seeds {result['seeds']}"
    return table(head, rows) + made_by({"made by": result["made by"], **mine[0]}, seeds)


def new_topics_in_words() -> str:
    """At which sizes the learnt kernels are above ridge, by run and metric."""
    rows = load("yu2005_new_topics")["table"]
    lines = []
    for run, what in (("as the paper", "As the paper ran it"), ("fair", "Fairly")):
        for metric in dict.fromkeys(r["metric"] for r in rows):
            mine = [r for r in rows if (r["run"], r["metric"]) == (run, metric)]
            said = []
            for m, who in (("learnt, ours", "ours"), ("learnt, paper", "plain EM's")):
                above = [str(r["examples"]) for r in mine if r[m] > r["ridge"]]
                won = sum(r[f"{m} above ridge, draws"] for r in mine)
                of = sum(r["draws"] for r in mine)
                said.append(f"{who} with {', '.join(above) or 'no number of'} examples ({won} of {of} draws and sizes)")
            lines.append(f"{what}, {metric}: above ridge in the mean {'; '.join(said)}.")
    return "\n".join(f"- {line}" for line in lines)


def toy() -> str:
    result = load("yu2005_toy")
    rows = [
        [r["kernel"], r["distance"], r["angle"], r["new function of 5 rows"], r["hidden points of the 20"]]
        for r in result["table"]
    ]
    rows = [["" if isinstance(c, float) and c != c else c for c in row] for row in rows]
    head = ["kernel", "distance to the true one", "1 − cosine", "error, new function of 5 rows", "error, hidden points"]
    return table(head, rows) + made_by(result, f"seeds 0 to {result['seeds'][-1]}")


def families() -> str:
    result = load("yu2005_toy")
    methods = ("ours", "plain EM", "no transfer", "pooled", "ridge")
    rows = [
        [r["family"], r["error, no learning"], *(f"{r[m]:g} ({r[f'{m}, worst draw']:g})" for m in methods)]
        for r in result["families"]
    ]
    last = result["draws of the families"] - 1
    return table(["family", "error, no learning", *methods], rows) + made_by(
        result, f"seeds 0 to {last} of each family"
    )


def bench() -> str:
    result = load("bench_hierarchical")
    return table(["figure", "measured"], [[k, v] for k, v in result["figures"].items()]) + made_by(result, "seed 0")


def headline() -> str:
    t, b = load("yu2005_text"), load("bench_hierarchical")["figures"]
    fair, paper = t["fair"], t["as the paper"]
    new = {(r["run"], r["examples"]): r for r in load("yu2005_new_topics")["table"] if r["metric"] == "AUC"}

    def both(v):
        return f"{v['AUC all'][0]:.3f}, {v['AUC partial'][0]:.3f}"

    rows = [
        [
            "50 text topics as the paper ran it, AUC on all and on partially labelled documents: multi-task GP; ridge",
            f"{both(paper['multi-task GP, plain EM'])}; {both(paper['ridge'])}",
            "`benchmarks/studies/yu2005_text.py`",
        ],
        [
            "The same with centred targets: our defaults; ridge",
            f"{both(fair['multi-task GP, defaults'])}; {both(fair['ridge'])}",
            "`benchmarks/studies/yu2005_text.py`",
        ],
        [
            "31 new topics, 20 examples each, centred: the learnt kernel; ridge",
            f"{new['fair', 20]['learnt, ours']:.3f}; {new['fair', 20]['ridge']:.3f}",
            "`benchmarks/studies/yu2005_new_topics.py`",
        ],
        [
            "One EM iteration, n = 1,000, 50 tasks × 300: faster than as printed by; against the bare BLAS calls",
            f"{b['printed / ours (at least 6)']}; {b['ours / bare calls (at most 3)']}",
            "`benchmarks/hierarchical.py`",
        ],
    ]
    return table(["what", "figure", "command"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "hierarchical text as the paper": lambda: text("as the paper"),
    "hierarchical text fair": lambda: text("fair"),
    "hierarchical gaps": gaps,
    "hierarchical gaps fresh": lambda: gaps("yu2005_text_100"),
    "hierarchical text in words": in_words,
    "hierarchical text chosen": chosen,
    "hierarchical new topics in words": new_topics_in_words,
    "hierarchical noise": noise,
    "hierarchical new topics as the paper": lambda: new_topics("as the paper"),
    "hierarchical new topics fair": lambda: new_topics("fair"),
    **{
        f"hierarchical new topics {what} {run}": lambda run=run, what=what: new_topics(run, what)
        for what in ("micro F", "macro F")
        for run in ("as the paper", "fair")
    },
    "hierarchical toy": toy,
    "hierarchical families": families,
    "bench hierarchical": bench,
    "headline hierarchical": headline,
}
