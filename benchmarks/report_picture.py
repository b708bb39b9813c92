"""The demonstration, timed, and the picture of its report in README: opened in headless Chromium, by day and by night.

    python benchmarks/report_picture.py                                # runs `borrow demo` and writes its figures too
    python benchmarks/report_picture.py --page out/demo/report.html    # only the picture, of a page that is there

Writes docs/results/report_demo.json and docs/figures/report.png: the beginning of the page on a desk in light and on a
phone in dark. Needs Chromium and, for the letters of the picture that is here, the Inter font (Debian: fonts-inter).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from PIL import Image  # comes with matplotlib

from borrow.transfer.methods import label_of
from browser import Browser, find_chromium
from results import FIGURES, write_result

WIDTH, HEIGHT, PHONE, GAP, SCALE, EDGE = 900, 1210, 360, 36, 1.5, "#b9b9b2"
DEMO = "from borrow.cli.app import main; main()"


def run_demo(folder: Path) -> Path:
    """`borrow demo` as a user runs it; its figures and what it cost become a result."""
    load = os.getloadavg()[0]
    started = time.perf_counter()
    call = [sys.executable, "-c", DEMO, "demo", "--output", str(folder), "--json"]
    said = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    seconds, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    verdict = said["verdicts"][0]
    alone = verdict["alone"]
    keep = ("method", "error", "std_error", "difference", "low", "high", "log_density", "coverage")
    write_result(
        "report_demo",
        {
            "command": "borrow demo",
            "seed": 0,
            "verdict": verdict["answer"],
            "alone": alone,
            "sentence": verdict["sentence"],
            "table": [{"label": label_of(row["method"]), **{k: row[k] for k in keep}} for row in said["table"]],
            "seconds": round(seconds, 1),
            "processor seconds": round(used.ru_utime + used.ru_stime, 1),
            "cores": os.cpu_count(),
            "load before": round(load, 1),
        },
    )
    return folder / "report.html"


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
    parser.add_argument("--page", type=Path, help="a report that is there already; no result is written")
    parser.add_argument("--output", type=Path, default=FIGURES / "report.png")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        page = chosen.page or run_demo(Path(name))
        beside(shots(page, Path(name)), chosen.output)
    print(chosen.output)


if __name__ == "__main__":
    main()
