"""Pictures of what a visitor sees, by headless Chromium: README as the site shows it, a page of the docs, a notebook.

    python benchmarks/screens.py                                 # needs Chromium, and what `make test` installs
    python benchmarks/screens.py --report out/demo/report.html   # the report too, as benchmarks/report_picture.py does

Writes docs/figures/screen_readme.png, screen_docs.png and screen_notebook.png, and with --report also report.png. The
notebook is a page of our own around what a notebook asks the objects for: their `_repr_html_`, and figures as PNG.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from browser import Browser, find_chromium
from report_picture import SCALE, beside, shots
from results import FIGURES
from run_page import blocks

DESK, PHONE, HEIGHT = 1180, 360, 1240
STYLE = """
body { font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; margin: 24px auto; max-width: 860px; background: #fff;
  color: #222; }
pre { background: #f6f6f4; border: 1px solid #e4e4e0; padding: 8px 12px; margin: 0 0 8px; white-space: pre-wrap;
  font: 12.5px/1.5 "DejaVu Sans Mono", monospace; }
.cell { display: grid; grid-template-columns: 64px 1fr; gap: 10px; margin-bottom: 14px; }
.cell > b { color: #7a7f87; font: 12px "DejaVu Sans Mono", monospace; padding-top: 9px; text-align: right; }
table { border-collapse: collapse; font-size: 12.5px; margin: 4px 0 8px; }
td, th { padding: 3px 9px; text-align: right; border-bottom: 1px solid #eee; }
thead + tbody td { white-space: nowrap; }
img { max-width: 560px; }
"""
COMPARE = """\
found = borrow.compare(table, target="level", task="hospital", primary="here",
                       methods=["focused"], cv=(5, 2))
found"""
FIT = """\
model = borrow.FocusedGPRegressor(task="hospital", primary="here")
model.fit(table[["day", "hospital"]], table["level"])"""


def cells() -> list[tuple[str, Any]]:
    """Code of a notebook, and what its last line is."""
    names: dict[str, Any] = {}
    data = blocks(ROOT / "docs" / "first.md")[0][1].rsplit("print", 1)[0].strip()  # the table of the first steps
    out = []
    for code in (data, COMPARE, "found.plot()", FIT, "model.plot()", "model.relatedness()"):
        *first, last = code.split("\n")
        if code == data:
            exec(code, names)
            out.append((code, None))
            continue
        exec("\n".join(first), names)
        out.append((code, eval(last, names)))
    return out


def notebook() -> str:
    """The cells as a page."""
    import matplotlib

    matplotlib.use("Agg")
    shown = []
    for i, (code, value) in enumerate(cells(), 1):
        shown.append(f'<div class="cell"><b>[{i}]:</b><pre>{html.escape(code)}</pre></div>')
        if hasattr(value, "figure"):
            picture = io.BytesIO()
            value.figure.savefig(picture, dpi=110)
            said = f'<img src="data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}">'
        else:
            said = "" if value is None else value._repr_html_()
        shown.append(f'<div class="cell"><b></b><div>{said}</div></div>' if said else "")
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{"".join(shown)}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, help="a report that is there already")
    parser.add_argument("--output", type=Path, default=FIGURES)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", folder / "site"], cwd=ROOT, check=True
        )
        (folder / "notebook.html").write_text(notebook(), encoding="utf-8")
        pages = {
            "readme": folder / "site" / "index.html",
            "docs": folder / "site" / "first.html",
            "notebook": folder / "notebook.html",
        }
        if chosen.report is not None:
            beside(shots(chosen.report, folder), chosen.output / "report.png")
        browser = Browser(
            find_chromium() or sys.exit("this needs Chromium: apt-get install chromium"), folder / "profile"
        )
        try:
            for what, page in pages.items():
                taken = []
                for size, width, scheme in (("desk", DESK, "light"), ("phone", PHONE, "dark")):
                    if what == "notebook" and size == "phone":
                        continue
                    browser.open(page, width=width, height=HEIGHT, scheme=scheme, scale=SCALE)
                    taken.append(folder / f"{what}_{size}.png")
                    browser.picture(taken[-1], whole=what == "notebook")
                beside(taken, chosen.output / f"screen_{what}.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
