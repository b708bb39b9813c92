"""Blocks of docs/papers/focused_classification.md and its line of the README: see pages.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pages_parts import load, made_by, table

METRICS = ("log loss", "AUC", "error")
STUDY, CHOICE, BENCH = "leen2011_classification", "leen2011_classification_choice", "bench_classification"


def sizes(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{r['primary trials']} / {r['trials a secondary']}" for r in rows]


def of(d: dict[str, Any]) -> str:
    """A paired difference with its standard error and the number of subjects for whom it is a gain."""
    return f"{d['difference']:+.3f} ({d['standard error']:.3f}; {d['subjects better']})"


def named(method: str, rows: list[dict[str, Any]]) -> str:
    """The method, with the problems a cell where it has been run on fewer than the others."""
    n = rows[0]["problems"][method]
    return method if n == max(rows[0]["problems"].values()) else f"{method} ({n} problems a cell)"


def by_method(result: dict[str, Any]) -> str:
    """The line under a table: commits, seeds, problems, and of which commit the fits of each method are."""
    rows, made = result["table"], {}
    for m, commits in result["commits by method"].items():
        made.setdefault(", ".join(commits), []).append(m)
    most = max(rows[0]["problems"].values())
    line = made_by(result, f"seeds {result['seeds']}, {most} problems a cell of 16 subjects")
    named = "; ".join(f"{commits} ({'; '.join(methods)})" for commits, methods in made.items())
    return f"{line[:-1]} Commits by method: {named}.*"


def means(metric: str) -> str:
    result = load(STUDY)
    rows = result["table"]
    body = [[named(m, rows), *(f"{r['mean'][m][metric]:.3f}" for r in rows)] for m in rows[0]["mean"]]
    return table([metric, *sizes(rows)], body) + by_method(result)


def differences(metric: str = "log loss") -> str:
    result = load(STUDY)
    rows = result["table"]
    body = [[named(m, rows), *(of(r["against single"][m][metric]) for r in rows)] for m in rows[0]["against single"]]
    if metric == "log loss":
        body.append(["focused, less pooled", *(of(r["focused against pooled"]) for r in rows)])
        untouched = "focused against single, untouched by the choice"
        body += [[f"focused, {name} only", *(of(r[untouched][name]) for r in rows)] for name in rows[0][untouched]]
    head = f"{metric} less single-task's (standard error; subjects better)"
    return table([head, *sizes(rows)], body) + by_method(result)


def shares() -> str:
    result = load(STUDY)
    rows = result["table"]
    (name,) = [k for k in rows[0] if k.startswith("share of a secondary")]
    body = [[f"{who} question", *(f"{r[name][i]:+.3f}" for r in rows)] for i, who in enumerate(("same", "other"))]
    head = "share of a secondary's function that is the primary's, signed"
    return table([head, *sizes(rows)], body) + of_focused(result)


def of_focused(result: dict[str, Any]) -> str:
    """The line under a table that is of the focused model alone, or of it beside single-task."""
    made = {**result["made by"], "records by commit": result["commits by method"]["focused"]}
    return made_by({"made by": made}, f"seeds {result['seeds']}")


def warned() -> str:
    """Fits with a warning, over all cells, by method."""
    rows = load(STUDY)["table"]
    methods = rows[0]["fits with a warning"]
    fits = {m: [sum(r[k][m] for r in rows) for k in ("fits with a warning", "problems")] for m in methods}
    some = ", ".join(f"{m} {n} of {of}" for m, (n, of) in fits.items() if n)
    return f"Fits with a warning: {some or 'none'}{'; of the other methods none' if some else ''}."


def in_words() -> str:
    """The comparisons that the page draws, in log loss."""
    rows = load(STUDY)["table"]
    cells = sizes(rows)

    def less(m: str) -> list[float]:
        return [r["against single"][m]["log loss"]["difference"] for r in rows]

    def listed(m: str) -> str:
        better = [r["against single"][m]["log loss"]["subjects better"] for r in rows]
        return ", ".join(f"{d:+.3f} ({b})" for d, b in zip(less(m), better, strict=True))

    def ahead(one: str, other: str) -> str:
        each = [r["mean"][one]["log loss"] < r["mean"][other]["log loss"] for r in rows]
        found = ", ".join(c for c, won in zip(cells, each, strict=True) if won)
        return f"{sum(each)} of {len(rows)} cells ({found})" if found else "no cell"

    shuffled = less("focused, shuffled labels")
    rivals = [m for m in rows[0]["mean"] if m.endswith("chosen settings")]
    lines = [
        f"Focused less single-task, at {', '.join(cells)} (subjects of 16 better): {listed('focused')}.",
        f"The symmetric model less single-task: {listed('multi-task')}; it is ahead of the focused one in "
        f"{ahead('multi-task', 'focused')}.",
        f"Focused is ahead of pooling everything in {ahead('focused', 'pooled')}. An oracle that pools only the same "
        f"question is ahead of focused in {ahead('pooled, same question', 'focused')}.",
        f"With shuffled labels focused changes the log loss by {min(shuffled):+.3f} to {max(shuffled):+.3f}.",
        *(f"{m}: ahead of single-task in {ahead(m, 'single')}, of focused in {ahead(m, 'focused')}." for m in rivals),
    ]
    return "\n".join(f"- {line}" for line in lines)


def targets() -> str:
    result = load(STUDY)
    checked = result["targets"]
    kinds = dict.fromkeys(t["target"] for t in checked)
    body = []
    for kind in kinds:
        part = [t for t in checked if t["target"] == kind]
        worst = max(part, key=lambda t: t["value"])
        missed = ", ".join(f"{t['cell']} ({t['value']:+.4g})" for t in part if not t["met"])
        body.append([kind, f"{worst['limit']:+.4g}", f"{worst['value']:+.4g} at {worst['cell']}", missed or "none"])
    met = sum(t["met"] for t in checked)
    return (
        table(["figure", "at most", "largest", "missed"], body)
        + f"\n\n{met} of {len(checked)} met."
        + of_focused(result)
    )


def others() -> str:
    """The settings tried of the methods that the paper compares with, and which was chosen."""
    result = load(f"{STUDY}_others")
    body = []
    for method, found in result["others"].items():
        chosen = ", ".join(f"{k}={v:g}" for k, v in found["chosen"].items())
        for words, loss in found["mean log loss"].items():
            body.append([method, words, f"**{loss:.3f}**" if words == chosen else f"{loss:.3f}"])
    seeds = f"seeds {result['seeds']}, {len(result['subjects'])} subjects"
    return table(["method", "setting", "mean log loss, training trials"], body) + made_by(result, seeds)


def choice() -> str:
    result = load(CHOICE)
    rows = result["table"]
    cells = [k for k in rows[0] if k not in ("variant", "fits", "records by commit")]
    body = [[r["variant"], *(f"{r[c]['single']:.3f} → {r[c]['focused']:.3f}" for c in cells)] for r in rows]
    seeds = f"seeds {result['seeds']}, {len(result['subjects'])} subjects"
    return table(["log loss, single → focused", *cells], body) + made_by(result, seeds)


def bench() -> str:
    result = load(BENCH)
    rows = [[k, v if not isinstance(v, dict) else v["GPy"]] for k, v in result["figures"].items()]
    return table(["figure", "measured"], rows) + made_by(result, "seed 0")


def headline() -> str:
    study, speed = load(STUDY), {k.split(" (")[0]: v for k, v in load(BENCH)["figures"].items()}
    by_cell = dict(zip(sizes(study["table"]), study["table"], strict=True))
    gain = {c: by_cell[c]["against single"]["focused"]["log loss"] for c in ("14 / 20", "14 / all", "all / all")}
    pooled = by_cell["all / all"]["focused against pooled"]["difference"]
    rows = [
        [
            "EEG of 16 people, log loss against no transfer; trials of the one / of each of five others 14 / 20, "
            "14 / all, all / all; at all / all against pooling",
            ", ".join(f"{d['difference']:+.3f}" for d in gain.values()) + f"; {pooled:+.3f}",
            "`benchmarks/studies/leen2011_classification.py`",
        ],
        [
            "EP, 500 rows: faster than GPy's by; against one Cholesky factorisation",
            f"{speed.get(GPY_RATIO, 'not measured')}; {speed['EP / one dpotrf']}",
            "`benchmarks/classification.py`",
        ],
    ]
    return table(["what", "figure", "command"], rows)


GPY_RATIO = "GPy's EP / ours"

BLOCKS: dict[str, Callable[[], str]] = {
    "classification log loss": lambda: means("log loss"),
    "classification AUC": lambda: means("AUC"),
    "classification error": lambda: means("error"),
    "classification differences": differences,
    "classification differences of errors": lambda: differences("error"),
    "classification shares": shares,
    "classification warnings": warned,
    "classification in words": in_words,
    "classification targets": targets,
    "classification choice": choice,
    "classification others": others,
    "bench classification": bench,
    "headline classification": headline,
}
