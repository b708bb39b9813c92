"""The decision table of docs/which_model.md, its figures read from the results: see pages.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pages_parts import load, made_by, table

PAGES = {
    "focused": "[focused](papers/focused.md)",
    "labels": "[focused classification](papers/focused_classification.md)",
    "multitask": "[symmetric](papers/multitask.md)",
    "hierarchical": "[hierarchical](papers/hierarchical.md)",
    "ivm": "[IVM](papers/ivm.md)",
    "rbf": "[RBF network](papers/rbf_network.md)",
    "new": "[a new task](howto/new_task.md)",
    "many": "[many tasks](howto/many_tasks.md)",
    "classes": "[classification](howto/classification.md)",
}


def pick(name: str, part: str = "table", **wanted: Any) -> dict[str, Any]:
    """The one row of a result that has these values."""
    (row,) = (r for r in load(name)[part] if all(r[k] == v for k, v in wanted.items()))
    return row


def ratio(method: str, settings: int) -> str:
    return f"{pick('bonilla2008_compiler', method=method, settings=settings)['error / no transfer']:.2f}"


def family(name: str) -> dict[str, Any]:
    return pick("leen2011_negative_transfer", family=name)


def few_rows() -> str:
    same, other = family("same")["focused / single"], family("unrelated")["focused / single"]
    return (
        f"Six rows, one secondary of forty: median squared error {same} × that of no transfer where the "
        f"secondary is the "
        f"same function, {other} × where it is unrelated ({family('same')['draws']} draws)"
    )


def few_labels() -> str:
    cells = {r["trials a secondary"]: r["mean"] for r in load("leen2011_classification")["table"][:4]}
    with_all, with_ten = cells["all"], cells[10]
    return (
        f"EEG, 14 trials: log loss {with_all['focused']['log loss']:.3f} with all trials of five others, "
        f"{with_all['single']['log loss']:.3f} alone, {with_all['pooled']['log loss']:.3f} pooled; with ten "
        f"trials of each "
        f"other {with_ten['focused']['log loss']:.3f} against {with_ten['single']['log loss']:.3f}"
    )


def all_matter() -> str:
    rows = load("bonilla2008_compiler")["table"]
    found = {r["settings"]: f"{r['error / no transfer']:.2f}" for r in rows if r["method"] == "defaults"}
    one, chosen = (" / ".join(ratio(m, n) for n in (16, 32, 64, 128)) for m in ("free form", "chosen"))
    return (
        f"Compiler data, error over that of no transfer at {' / '.join(map(str, found))} rows per task: "
        f"{' / '.join(found.values())}; with one kernel for all tasks (`specific_kernel=None`) at 16 / 32 / 64 / 128: "
        f"{one}; chosen task by task by `leave_one_out()`: {chosen}"
    )


def dear_target() -> str:
    by = {r["method"]: r["mean absolute error"] for r in load("bonilla2008_jura")["table"]}
    names = ("free form + function of its own", "focused", "no transfer", "ridge on position, nickel and zinc")
    own, focused, alone, ridge = (f"{by[n]:.3f}" for n in names)
    return (
        f"Cadmium in the Jura from nickel and zinc: mean absolute error {own} with `specific_kernel`, "
        f"{focused} focused, "
        f"{alone} alone, {ridge} by ridge on nickel and zinc"
    )


def features() -> str:
    return (
        f"Compiler data, error over that of no transfer: {ratio('parametric', 16)} at 16 rows per program, "
        f"{ratio('parametric', 32)} at 32. The only model that predicts for a task without rows"
    )


def levels() -> str:
    by = {r["method"]: f"{r['explained variance']:.1f} %" for r in load("bonilla2008_school")["table"]}
    return (
        f"139 schools, explained variance: {by['rank 1 + intercept']}; ridge with school intercepts "
        f"{by['ridge with school intercepts']}, no transfer {by['no transfer']}"
    )


def small_tasks() -> str:
    by = {r["family"]: r["ours"] for r in load("yu2005_toy")["families"]}
    return (
        f"60 tasks of six rows, squared error over the same kernel and common mean for all, nothing more learnt: "
        f"{by['three functions']} where tasks mix three functions, {by['common mean']} where they scatter around a "
        f"mean, {by['nothing shared']:g} where nothing is shared"
    )


def sparse_labels() -> str:
    fair = load("yu2005_text")["fair"]
    ours, ridge = (fair[m]["AUC all"][0] for m in ("multi-task GP, defaults", "ridge"))
    new = pick("yu2005_new_topics", run="fair", examples=20, metric="AUC")
    return (
        f"50 text topics: AUC {ours:.3f}, ridge {ridge:.3f}; 31 new topics of 20 examples on the kernel learnt "
        f"there: {new['learnt, ours']:.3f}, ridge {new['ridge']:.3f}"
    )


def new_speaker() -> str:
    rows = load("lawrence2004_vowels")["table"]
    by = {(r["mode"], r["method"], r["d"]): r["percent right"] for r in rows}
    default = "ours, kernel=None"
    mine, random, fixed = (by[default, *what] for what in (("MT-IVM", 100), ("random", 100), ("not learnt", 0)))
    return (
        f"Vowels of a new speaker, the kernel learnt from 100 rows of the others: {mine:.1f} % right; from "
        f"100 random rows "
        f"{random:.1f} %, kernel not learnt {fixed:.1f} %"
    )


def many_rows() -> str:
    f = load("bench_ivm")["figures"]
    ours, exact = f["4 x 1,000 rows: seconds from d = 400; exact learning on all rows"]
    density = f["log density of a fresh row: d = 400; 400 random rows; exact"]
    return (
        f"Four tasks of 1,000 rows: {ours} s with 400 chosen rows, {exact} s exact; log density of a fresh "
        f"row {density[0]}, "
        f"{density[1]} with random rows, {density[2]} exact. A million rows: "
        f"{f['100 x 10,000 rows, d = 2,000, a whole fit: seconds']:.0f} s"
    )


def network() -> str:
    by = {(r["mode"], r["network"]): r["error"] for r in load("liao2006_table2")["table"]}
    seconds = load("bench_rbf")["figures"]["default fit to 15362 rows, every row a candidate, seconds"]
    return (
        f"139 schools, squared error {by['ours', 'two-level']}, ridge with school intercepts "
        f"{by['', 'ridge, intercepts']}; "
        f"15,362 rows in {seconds:.0f} s"
    )


def same_thing() -> str:
    same, other = family("same")["pooled / single"], family("unrelated")["pooled / single"]
    return f"Squared error {same} × that of no transfer where it is true, {other} × where the other task is unrelated"


def enough_rows() -> str:
    worse = ratio("free form", 128)
    return f"Compiler data at 128 rows per program: one kernel for all makes the error {worse} × as large"


def which_model() -> str:
    p = PAGES
    rows = [
        ["One task matters and has few rows; others may be related", "`FocusedGPRegressor`", few_rows(), p["focused"]],
        ["The same with labels", "`FocusedGPClassifier`", few_labels(), f"{p['labels']}, {p['classes']}"],
        ["A few tasks that all matter, few rows each", "`MultiTaskGPRegressor`", all_matter(), p["multitask"]],
        [
            "One target is dear, others at the same inputs are cheap",
            "`MultiTaskGPRegressor` or `FocusedGPRegressor`",
            dear_target(),
            p["multitask"],
        ],
        [
            "Something is known of each task; a task has no rows at all",
            "`MultiTaskGPRegressor` with `task_features`",
            features(),
            p["new"],
        ],
        [
            "Targets of all tasks in the same units, levels differ",
            '`MultiTaskGPRegressor` with `rank=1`, `intercept=True`, `normalize_y="common"`',
            levels(),
            p["multitask"],
        ],
        ["Dozens of tasks or more, few rows each", "`HierarchicalGPRegressor`", small_tasks(), p["many"]],
        [
            "Many labellings of one table, sparse or not; new ones come",
            "`HierarchicalGPClassifier`",
            sparse_labels(),
            f"{p['hierarchical']}, {p['new']}",
        ],
        [
            "New tasks keep coming, one kernel fits all",
            "`MultiTaskIVMClassifier`, `MultiTaskIVMRegressor`",
            new_speaker(),
            p["new"],
        ],
        ["Thousands of rows in a task", "`MultiTaskIVMRegressor`, `MultiTaskIVMClassifier`", many_rows(), p["ivm"]],
        [
            "Many tasks and many rows; which rows to label next",
            "`MultiTaskRBFRegressor`",
            network(),
            f"{p['rbf']}, {p['many']}",
        ],
        ["Tasks known to be the same thing", "`PooledGPRegressor`, `PooledGPClassifier`", same_thing(), p["focused"]],
        ["Plenty of rows in the task that matters", "`SingleTaskGPRegressor`", enough_rows(), p["multitask"]],
    ]
    return table(["what you have", "estimator", "why: what was measured", "more"], rows)


#: What the table of ordinary data shows, by the names of the study.
SHOWN = (
    "focused",
    "symmetric",
    "Dirichlet process",
    "ridge alone",
    "ridge with interactions",
    "LightGBM",
    "random forest",
    "GPBoost",
)


def by_method(result: dict[str, Any], cells: Iterable[dict[str, Any]], methods: tuple[str, ...]) -> str:
    """The line under a table: of which commits the fits of each method are."""
    made: dict[str, list[str]] = {}
    for m in methods:
        commits = dict.fromkeys(c for r in cells if r["method"] == m for c in r["commits"])
        made.setdefault(", ".join(commits), []).append(m)
    named = "; ".join(f"{commits} ({', '.join(found)})" for commits, found in made.items() if commits)
    versions = f"numpy {result['made by']['numpy']}, scipy {result['made by']['scipy']}"
    return f"\n\n*Commits by method: {named}; seeds are the numbers of the draws; {versions}.*"


def ordinary() -> str:
    """Error over that of no transfer by scenario and method, the least of each in bold; and over all scenarios."""
    result = load("ordinary")
    part = result["as they are"]
    cells = {(r["scenario"], r["method"]): r for r in part["scenarios"] if r["version"] == "now" and "ratio" in r}
    rows = []
    for scenario in dict.fromkeys(s for s, _ in cells):
        found = {m: cells[scenario, m]["ratio"] for m in SHOWN if (scenario, m) in cells}
        least, draws = min(found.values()), cells[scenario, "no transfer"]["draws"]
        text = {m: f"**{v:.2f}**" if v == least else f"{v:.2f}" for m, v in found.items()}
        for m, n in ((m, cells[scenario, m]["draws"]) for m in found):
            text[m] += "" if n == draws else f" ({n})"
        rows.append([scenario, draws, *(text.get(m, "–") for m in SHOWN)])
    over = {r["method"]: r for r in part["overall"] if r["version"] == "now" and 2 * r["scenarios"] > len(rows)}
    rows.append(["*geometric mean*", "", *(f"*{over[m]['ratio']:.2f}*" if m in over else "–" for m in SHOWN)])
    rows.append(["*worst draw*", "", *(f"*{over[m]['worst draw'][0]:.2f}*" if m in over else "–" for m in SHOWN)])
    return table(["scenario", "draws", *SHOWN], rows) + by_method(result, cells.values(), SHOWN)


def every_method() -> str:
    """What each method comes to over all scenarios that it can take: error, worst cases, bands, density, seconds."""
    result = load("ordinary")
    cells = [r for r in result["as they are"]["scenarios"] if r["version"] == "now" and "ratio" in r]
    alone = {r["scenario"]: r for r in cells if r["method"] == "no transfer"}
    rows = []
    for r in sorted(result["as they are"]["overall"], key=lambda r: r["ratio"]):
        mine = [c for c in cells if c["method"] == r["method"]] if r["version"] == "now" else []
        if not mine:
            continue
        bands = [c for c in mine if "coverage" in c]
        gain = [c["log density"] - alone[c["scenario"]]["log density"] for c in bands]
        draws = sorted({c["draws"] for c in mine})
        rows.append(
            [
                r["method"],
                f"{len(mine)} of {len(alone)}",
                " to ".join(str(n) for n in dict.fromkeys((draws[0], draws[-1]))),
                f"{r['ratio']:.2f}",
                f"{r['worst scenario'][0]:.2f} ({r['worst scenario'][1]})",
                f"{r['worst draw'][0]:.2f}",
                f"{100 * sum(c['coverage'] for c in bands) / len(bands):.0f} %" if bands else "–",
                f"{sum(gain) / len(gain):+.2f}" if bands and r["method"] != "no transfer" else "–",
                f"{sum(c['seconds'] for c in mine) / len(mine):.2g}",
            ]
        )
    names = ["method", "scenarios", "draws each", "geometric mean", "worst scenario", "worst draw", "90 % bands hold"]
    names += ["log density less no transfer's", "seconds per fit"]
    return table(names, rows) + by_method(result, cells, tuple(r[0] for r in rows))


def shuffled() -> str:
    """The same where the targets of every secondary are shuffled: median and worst of the draws."""
    result = load("ordinary")
    cells = {(r["scenario"], r["method"]): r for r in result["shuffled"]["scenarios"] if "ratio" in r}
    methods = ("focused", "symmetric", "hierarchical", "IVM")
    rows = [
        [
            s,
            *(
                f"{r['median']:.2f} / {r['worst']:.2f} ({r['draws']})" if (r := cells.get((s, m))) else "–"
                for m in methods
            ),
        ]
        for s in dict.fromkeys(s for s, _ in cells)
    ]
    head = "shuffled secondaries, median / worst (draws)"
    return table([head, *methods], rows) + by_method(result, cells.values(), methods)


def rare_labels() -> str:
    """Mean area under the curve of nineteen mine fields, by method."""
    cells = [r for r in load("ordinary")["as they are"]["scenarios"] if r["version"] == "now" and "auc" in r]
    wanted = "landmine, 19 x 80"
    found = sorted(((r["auc"], r["method"], r["draws"]) for r in cells if r["scenario"] == wanted), reverse=True)
    return f"AUC on {wanted} (draws): " + ", ".join(f"{m} {a:.3f} ({n})" for a, m, n in found) + "."


def outside() -> str:
    """Error over that of no transfer on tables of R packages: one row per method, and then one per table."""
    result = load("outside")
    over, tables = result["overall"], result["tables"]
    heads = {
        "ratio, common draws": "geometric mean, draws in common",
        "ratio": "all draws",
        "95th percentile": "95th percentile",
        "worst": "worst",
    }
    found = [m for m in over if m != "no transfer"]
    rows = [
        [
            m,
            *(f"{over[m][k]:.2f}" for k in heads),
            over[m]["draws"],
            f"{over[m]['below no transfer']} / {over[m]['above no transfer']}",
            over[m]["best of table"],
            f"{100 * over[m]['coverage']:.0f} %" if "coverage" in over[m] else "–",
        ]
        for m in found
    ]
    names = [
        "method",
        *heads.values(),
        "draws",
        "better / worse than no transfer by 2 %",
        "best of tables",
        "90 % bands",
    ]
    each = []
    for row in tables:
        least = min(row[m] for m in found if m in row)
        shown = {m: f"{row[m]:.2f}" for m in found if m in row}
        text = {m: f"**{v}**" if row[m] == least else v for m, v in shown.items()}
        each.append([row["table"], row["rows"], *(text.get(m, "–") for m in found)])
    caption = f"{len(tables)} tables, {sum(row['draws'] for row in tables)} draws in common; seeds are their numbers"
    return table(names, rows) + "\n\n" + table(["table", "rows", *found], each) + made_by(result, caption)


def averages() -> str:
    """A classifier's average with no transfer by other weights: geometric mean and worst draw of every way."""
    result = load("averages")
    found = [r for r in result["rows"] if r["method"] != "clusters"]
    ways = list(found[0]["mean and worst"])
    rows = [
        [
            r["scenario"] + (", shuffled" if r["shuffled"] else ""),
            r["method"],
            r["draws"],
            "yes" if r["chooses"] else "no",
            *("{:.2f} / {:.2f}".format(*r["mean and worst"][w]) for w in ways),
        ]
        for r in found
    ]
    head = ["mean / worst draw", "method", "draws", "may choose", *ways]
    return table(head, rows) + made_by(result, "seeds are the numbers of the draws")


def clusters() -> str:
    """The Dirichlet process by its best start and by averages of all: AUC and log loss."""
    result = load("averages")
    found = [r for r in result["rows"] if r["method"] == "clusters"]
    ways = list(found[0]["AUC and log loss"])
    rows = [
        [
            r["scenario"],
            r["draws"],
            "yes" if r["chooses"] else "no",
            *("{:.3f}, {:.3f}".format(*r["AUC and log loss"][w]) for w in ways),
        ]
        for r in found
    ]
    return table(["AUC, log loss", "draws", "may choose", *ways], rows) + made_by(
        result, "seeds are the numbers of the draws"
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "which model": which_model,
    "ordinary": ordinary,
    "every method": every_method,
    "shuffled": shuffled,
    "rare labels": rare_labels,
    "averages": averages,
    "clusters": clusters,
    "outside": outside,
}
