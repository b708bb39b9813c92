"""Blocks of docs/report.md."""

from __future__ import annotations

from pages_parts import load, made_by, table


def demo() -> str:
    result = load("report_demo")
    rows = []
    for r in result["table"]:
        numbers = [f"{r['error']:.3f} ± {r['std_error']:.3f}"]
        alone = r["method"] == result["alone"]
        numbers += ["", ""] if alone else [f"{r['difference']:+.3f}", f"{r['low']:+.3f} to {r['high']:+.3f}"]
        rows.append([r["label"], *numbers, f"{r['log_density']:.2f}", f"{100 * r['coverage']:.0f} %"])
    head = ["method", "mean absolute error", "difference", "interval", "log density", "in 90 % band"]
    jobs = f"a machine of {result['cores']} cores with {result['load before']:.0f} other jobs waiting for them"
    spent = f"{result['processor seconds']:.0f} processor seconds, {result['seconds']:.0f} s on {jobs}"
    cost = f"\n\nThe whole of `borrow demo`: {spent}."
    return f"> {result['sentence']}\n\n" + table(head, rows) + cost + made_by(result, f"seed {result['seed']}")


BLOCKS = {"report demo": demo}
