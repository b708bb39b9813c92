"""Put the figures of docs/results/*.json into the pages: what stands between <!-- begin NAME --> and <!-- end NAME -->.

python benchmarks/pages.py            rewrites README.md and the pages under docs/
python benchmarks/pages.py --check    (`make check-pages`) exits with 1 where a page does not show what the results say,
                                      or a result does not say of which commits, seeds and settings it is;
                                      with --ages also how often a model's source was changed after its records
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pages_bands
import pages_claims
import pages_classification
import pages_cli
import pages_defaults
import pages_focused
import pages_gpu
import pages_hierarchical
import pages_house
import pages_large
import pages_multitask
import pages_reliability
import pages_report
import pages_settings
import pages_transfer
import pages_which
from pages_ages import ages
from pages_focused import divided
from pages_parts import ROOT, all_commits, load, made_by, table
from pages_records import missing_commits, of_page, of_record

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def compiler_programs() -> str:
    result = load("compiler_data")
    rows = [
        [
            r["program"],
            f"{r['instructions without flags']:,}",
            f"{r['speed-up, least']:.2f} to {r['most']:.2f}",
            f"{r['all flags']:.2f}",
            f"{r['best flag alone']} ({r['its speed-up']:.2f})",
            f"{r['largest mean effect']} ({r['per cent']:+.0f} %)",
            f"{100 * r['distinct counts, share']:.0f} %",
            f"{100 * r['predicted by main effects']:.0f} %",
            f"{100 * r['with pairs']:.0f} %",
            f"{r['nearest program']} ({r['correlation']:.2f})",
        ]
        for r in result["rows"]
    ]
    head = [
        "program",
        "instructions, no flags",
        "speed-up",
        "all flags",
        "best flag alone",
        "largest mean effect",
        "distinct counts",
        "main effects",
        "and pairs",
        "nearest program",
    ]
    return table(head, rows) + made_by(result, "folds from seed 0")


def compiler_facts() -> str:
    result = load("compiler_data")
    m, again = result["measured"], result["measured"]["repeat"]
    between = result["correlation of log speed-up between programs: least, median, most"]
    shares = result["share of standardised variance in 1, 2, 3, 5 components"]
    rows = [
        ["compiler, counter", f"gcc {m['versions']['gcc']}, {m['versions']['valgrind']}, x86-64"],
        ["settings, the same for every program", f"{result['settings']} and 8 canonical; seed {m['seed']}"],
        [
            "builds counted again; object code and count the same",
            f"{again['builds counted again']}; {again['object code and count the same']}",
        ],
        [
            "distinct object code among the 648 builds of a program",
            "; ".join(f"{p} {n}" for p, n in m["distinct_builds"].items()),
        ],
        [
            "cells with more instructions than without flags",
            f"{100 * result['cells slower than without flags, share']:.1f} %",
        ],
        [
            "flags whose mean effect has both signs (beyond 1 %)",
            ", ".join(result["flags where the sign differs between programs"]),
        ],
        ["correlation of log speed-up between programs: least, median, most", ", ".join(f"{v:.2f}" for v in between)],
        [
            "variance of standardised log speed-up in 1, 2, 3, 5 principal components",
            ", ".join(f"{100 * v:.0f} %" for v in shares),
        ],
    ]
    return table(["what", "figure"], rows) + made_by(result, "no randomness")


def ivm_facts(name: str, seeds: str) -> str:
    result = load(name)
    rows = [[k, v] for k, v in result["facts"].items()]
    return table(["figure (wanted)", "measured"], rows) + made_by(result, seeds)


def ivm_regression() -> str:
    result = load("lawrence2004_regression")
    rows = [
        [
            r["method"],
            r["d"],
            r["median KL"],
            "{} to {}".format(*r["quartiles"]),
            r["median lengthscale"],
            r["median variance"],
            r["median noise"],
            r["noise collapsed"],
            r["noise warnings"],
            "" if r["last overlap"] is None else r["last overlap"],
            r["seconds"],
        ]
        for r in result["table"]
    ]
    head = ["method", "d", "median KL", "quartiles", "length-scale", "variance", "noise", "noise < 0.001", "warned"]
    return table([*head, "last overlap", "seconds"], rows) + made_by(result, "seeds 0 to 9")


def ivm_vowels() -> str:
    result = load("lawrence2004_vowels")
    rows = [
        [
            r["mode"],
            r["method"],
            r["d"] or "",
            f"{r['percent right']:.2f} ± {r['standard error']:.2f}",
            f"{r['first frame']:.2f}",
            r["seconds"] if r["d"] else "",
        ]
        for r in result["table"]
    ]
    head = ["mode", "method", "d", "percent right", "first frame only", "seconds per speaker"]
    return table(head, rows) + made_by(result, f"seeds: {result['seed']}")


def ivm_authors() -> str:
    result = load("lawrence2004_vowels")
    rows = [[r["method"], r["d"], f"{r['percent right']:.1f}", r["seconds"]] for r in result["authors"]]
    line = "means of what the authors stored, nothing is drawn"
    return table(["the authors' stored results", "d", "percent right", "seconds (2004)"], rows) + made_by(result, line)


def bench_ivm() -> str:
    result = load("bench_ivm")
    return table(["figure", "measured"], [[k, v] for k, v in result["figures"].items()]) + made_by(result, "seed 0")


def headline() -> str:
    b = load("bench_focused")["figures"]
    school = {(r["mode"], r["network"]): r["error"] for r in load("liao2006_table2")["table"]}
    families = {r["family"]: r for r in load("leen2011_negative_transfer")["table"]}
    draws = families["same"]["draws"]
    by = {k.split(" (")[0]: v for k, v in b.items()}
    ratio = "focused / single"
    rows = [
        [
            "The paper's gap, 24 secondary tasks, ten draws: error against no transfer",
            f"1/{divided()}",
            "`benchmarks/studies/leen2011_synthetic.py`",
        ],
        [
            f"Six primary rows, {draws} draws: median error to no transfer; secondary same / unrelated / noise",
            " / ".join(str(families[n][ratio]) for n in ("same", "unrelated", "noise")),
            "`benchmarks/studies/leen2011_negative_transfer.py`",
        ],
        [
            "Evidence with gradient, 200 tasks of 100 rows, one thread: milliseconds; against the bare BLAS calls",
            f"{by['milliseconds, 24 / 50 / 200 tasks'][2]}; {by['ours / bare calls at 200 tasks']}",
            "`benchmarks/focused.py`",
        ],
        [
            "The same at 24 tasks, faster than the dense joint matrix by",
            f"{by['dense / ours at 24 tasks']}",
            "`benchmarks/focused.py`",
        ],
        [
            "School data, 139 tasks, ten splits, squared error: RBF network / ridge with school intercepts / ridge",
            f"{school['ours', 'two-level']} / {school['', 'ridge, intercepts']} / {school['', 'ridge']}",
            "`benchmarks/studies/liao2006_table2.py`",
        ],
    ]
    return table(["what", "figure", "command"], rows)


def in_words() -> str:
    """The figures that people ask for first, as sentences."""
    fits = {f["program"]: f for f in load("multitask_speed")["fits"] if f["rows a task"] == 64}
    peers = {name: f.get("note") or f"{f['seconds']:.0f} s" for name, f in fits.items() if name != "borrow"}
    focused, ivm, rbf = (load(f"bench_{name}")["figures"] for name in ("focused", "ivm", "rbf"))
    gap = divided()
    million = ivm["100 x 10,000 rows, d = 2,000, a whole fit: seconds"]
    schools = rbf["default fit to 15362 rows, every row a candidate, seconds"]
    rows = [
        f"A symmetric model of 11 tasks \u00d7 64 rows \u00d7 13 inputs is fitted in {fits['borrow']['seconds']:.1f} s "
        f"of one core; {', '.join(f'{name} {words}' for name, words in peers.items())}.",
        f"One evaluation of a focused model with 200 tasks of 100 rows takes "
        f"{focused['milliseconds, 24 / 50 / 200 tasks'][2]:.0f} ms.",
        f"A million rows, 100 tasks, by informative vectors: {million:.0f} s. 139 schools, 15,362 rows, by the RBF "
        f"network: {schools:.0f} s.",
        f"In the gap of the focused model's paper, 24 related tasks divide the error by {gap:g}.",
    ]
    return "\n".join(f"- {line}" for line in rows)


def rbf_table() -> str:
    result = load("liao2006_table2")
    rows = [
        [
            r["mode"] or "reference",
            r["network"],
            f"{r['error']:.2f} ± {r['sd']:.2f}",
            r.get("units", ""),
            f"{100 * r['in 90 % band']:.0f} %" if r.get("in 90 % band") else "",
            r.get("seconds", ""),
        ]
        for r in result["table"]
    ]
    head = ["mode", "network", "squared error", "units", "scores in 90 % band", "seconds per fit"]
    return table(head, rows) + made_by(result, f"splits 0 to {result['seeds'][-1]}")


def rbf_facts() -> str:
    result = load("liao2006_table2")
    facts = {k: v for k, v in result["facts"].items() if not isinstance(v, dict)}
    nested = {f"{k}: {n}": v for k, d in result["facts"].items() if isinstance(d, dict) for n, v in d.items()}
    rows = [[k, v] for k, v in {**facts, **nested}.items()]
    return table(["figure", "measured"], rows) + made_by(result, f"splits 0 to {result['seeds'][-1]}")


def rbf_active(test: str) -> str:
    result = load("liao2006_figure2")
    curves, head = result["curves"], ["network", "rows chosen", *(f"{n:,}" for n in result["sizes"])]
    names = [k.split(", ", 2)[2] for k in curves if k.startswith(f"{test}, active")]
    rows = [
        [m, kind, *("" if v is None else v for v in curves[f"{test}, {kind}, {m}"])]
        for m in names
        for kind in ("active", "random")
    ]
    return table(head, rows) + made_by(result, f"seeds 0 to {result['seeds'][-1]}")


def rbf_gain() -> str:
    result = load("liao2006_figure2")
    ((what, gains),) = [(k, v) for k, v in result.items() if k.startswith("active less random")]
    rows = [[m, f"{mean} ± {error}", ", ".join(map(str, each))] for m, (mean, error, each) in gains.items()]
    return table(["network", what, "by split"], rows) + made_by(result, f"seeds 0 to {result['seeds'][-1]}")


def bench_rbf() -> str:
    result = load("bench_rbf")
    return table(["figure", "measured"], [[k, v] for k, v in result["figures"].items()]) + made_by(result, "seed 0")


def categories() -> str:
    result = load("categories")
    rows = [
        [
            r["table"],
            r["model"],
            f"{r['error per level']:.3g}",
            f"{r['ratio']:.3f} ± {r['ratio error']:.3f}",
            f"{r['gain']:+.3f} ± {r['gain error']:.3f}",
        ]
        for r in result["rows"]
    ]
    head = ["table", "GP", "error, one lengthscale per level", "ratio of errors, one per column", "log density, gain"]
    return table(head, rows) + made_by(result, f"draws 0 to {result['rows'][0]['draws'] - 1}")


def gaps() -> str:
    result = load("gaps")
    rows = [
        [
            r["table"],
            r["way"],
            f"{r['ratio']:.3f} ± {r['ratio error']:.3f}",
            f"{r['gain']:+.3f} ± {r['gain error']:.3f}",
            f"{r['time']:.1f} ×",
        ]
        for r in result["rows"]
    ]
    head = ["table", "gaps filled by", "ratio of errors to the median's", "log density, gain", "processor time"]
    return table(head, rows) + made_by(result, f"draws 0 to {result['rows'][0]['draws'] - 1}")


BLOCKS: dict[str, Callable[[], str]] = {
    "categories": categories,
    "gaps": gaps,
    "compiler programs": compiler_programs,
    "compiler facts": compiler_facts,
    "ivm sines": lambda: ivm_facts("lawrence2004_sines", "seeds 0 to 19"),
    "ivm regression facts": lambda: ivm_facts("lawrence2004_regression", "seeds 0 to 9"),
    "ivm regression": ivm_regression,
    "ivm vowels facts": lambda: ivm_facts("lawrence2004_vowels", "4,950 answers a figure; ± one standard error"),
    "ivm vowels": ivm_vowels,
    "ivm authors": ivm_authors,
    "bench ivm": bench_ivm,
    "headline": headline,
    "in words": in_words,
    **pages_multitask.BLOCKS,
    "rbf table": rbf_table,
    "rbf facts": rbf_facts,
    "rbf active fixed": lambda: rbf_active("fixed"),
    "rbf active left over": lambda: rbf_active("left over"),
    "rbf gain": rbf_gain,
    "bench rbf": bench_rbf,
}
BLOCKS |= pages_focused.BLOCKS | pages_hierarchical.BLOCKS | pages_which.BLOCKS
BLOCKS |= pages_transfer.BLOCKS
BLOCKS |= pages_cli.BLOCKS
BLOCKS |= pages_report.BLOCKS | pages_reliability.BLOCKS
BLOCKS |= pages_classification.BLOCKS
BLOCKS |= pages_gpu.BLOCKS | pages_bands.BLOCKS
BLOCKS |= pages_large.BLOCKS
BLOCKS |= pages_claims.BLOCKS | pages_settings.BLOCKS
BLOCKS |= pages_defaults.BLOCKS | pages_house.BLOCKS


def render(text: str) -> str:
    def fill(match: re.Match[str]) -> str:
        return f"<!-- begin {match[1]} -->\n{BLOCKS[match[1]]()}\n<!-- end {match[1]} -->"

    return re.sub(r"<!-- begin ([\w ]+) -->.*?<!-- end \1 -->", fill, text, flags=re.S)


def every_record() -> dict[str, Any]:
    return {p.stem: load(p.stem) for p in sorted((ROOT / "docs" / "results").glob("*.json"))}


def complaints() -> list[str]:
    """What is wrong with the records, and with the pages beside their blocks."""
    records = every_record()
    known = {c for r in records.values() for c in all_commits(r)}
    missing = missing_commits(known)
    wrong = [w for name, r in records.items() for w in of_record(name, r, missing)]
    return wrong + [w for p in PAGES for w in of_page(p.relative_to(ROOT).as_posix(), p.read_text(), known)]


def main() -> int:
    check = "--check" in sys.argv
    texts = {page: page.read_text() for page in PAGES}
    fresh = {page: render(text) for page, text in texts.items()}
    stale = [page for page in PAGES if fresh[page] != texts[page]]
    for page in stale if not check else ():
        page.write_text(fresh[page])
    wrong = complaints()
    names = ", ".join(page.name for page in stale) or "none"
    told = ages(every_record()) if "--ages" in sys.argv else []
    sys.stdout.write("\n".join([f"{'stale' if check else 'rewritten'}: {names}", *wrong, *told]) + "\n")
    return int(bool(wrong) or (check and bool(stale)))


if __name__ == "__main__":
    sys.exit(main())
