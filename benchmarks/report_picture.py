"""The picture of the report in README: `borrow demo` run, its page opened in headless Chromium, by day and by night.

    python benchmarks/report_picture.py                       # runs the demo, about a minute
    python benchmarks/report_picture.py --page out/demo/report.html

Writes docs/figures/report.png: the first screens of the page in light, beside them the page in dark and on a phone.
Needs Chromium and, for the letters of the picture in the repository, the Inter font (Debian: fonts-inter).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from PIL import Image  # comes with matplotlib

from browser import Browser, find_chromium
from results import FIGURES

WIDTH, HEIGHT, PHONE, GAP, SCALE, EDGE = 900, 1500, 360, 36, 1.5, "#b9b9b2"


def shots(page: Path, folder: Path) -> list[Path]:
    """What a desk shows by day, and a phone by night."""
    path = find_chromium()
    if path is None:
        raise SystemExit("this needs Chromium: apt-get install chromium")
    browser = Browser(path, folder / "profile")
    try:
        out = []
        for name, width, scheme in (("desk", WIDTH, "light"), ("phone", PHONE, "dark")):
            browser.open(page, width=width, height=HEIGHT, scheme=scheme, scale=SCALE)
            out.append(folder / f"{name}.png")
            browser.picture(out[-1], whole=False)
        return out
    finally:
        browser.close()


def beside(paths: list[Path], target: Path) -> None:
    """Pictures of one height side by side, each with a thin edge, on nothing; 256 colours are enough."""
    pictures = [Image.open(p).convert("RGBA") for p in paths]
    width = sum(p.width + 2 for p in pictures) + int(GAP * SCALE) * (len(pictures) - 1)
    whole, at = Image.new("RGBA", (width, pictures[0].height + 2)), 0
    for picture in pictures:
        whole.paste(EDGE, (at, 0, at + picture.width + 2, picture.height + 2))
        whole.paste(picture, (at + 1, 1))
        at += picture.width + 2 + int(GAP * SCALE)
    whole.quantize(256, Image.Quantize.FASTOCTREE).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=Path, help="a report that is there already")
    parser.add_argument("--output", type=Path, default=FIGURES / "report.png")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        page = chosen.page
        if page is None:
            from borrow.demo_compiler import run_compiler

            page = Path(name) / "report.html"
            print(run_compiler(page)["verdict"]["sentence"])
        beside(shots(page, Path(name)), chosen.output)
    print(chosen.output)


if __name__ == "__main__":
    main()
