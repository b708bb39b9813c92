"""Every study of the papers' pages and of the defaults, two at a time, longest first: what `make studies` runs.

    python benchmarks/studies/run_all.py [--plan] [--jobs 2]

`PLAN` says how many minutes of one core each takes (from its records, or estimated); `--plan` prints them with
their sum and runs nothing. A study that has ended is named in out/studies.jsonl with its commit, and is not run again
at that commit; long ones keep every finished fit under out/ and go on from there. An interrupted run goes on when the
command is given again. Fits of earlier commits are kept, and the results say of which commits they are made; without
out/ all are made anew.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from results import ROOT, Records


@dataclass(frozen=True)
class Study:
    """A command below benchmarks/, the minutes of one core that it takes, and what must have ended before it."""

    command: str
    minutes: float
    after: str = ""


PLAN = (
    Study("studies/leen2011_classification_choice.py", 17),
    Study("studies/leen2011_classification.py", 51, "studies/leen2011_classification_choice.py"),
    Study("studies/bonilla2008_figure1.py --data polybench --jobs 1", 50),
    Study("studies/bonilla2008_school.py --jobs 1", 46),
    Study("studies/liao2006_figure2.py", 35),
    Study("studies/bonilla2008_figure1.py --data spear --jobs 1", 15),
    Study("studies/liao2006_table2.py", 13),
    Study("studies/leen2011_synthetic.py --jobs 1", 12),
    Study("studies/leen2011_synthetic.py --jobs 1 --first 20 --gaps contiguous --counts 0 16 24", 2),
    Study("studies/leen2011_synthetic.py --jobs 1 --first 100 --draws 20 --gaps contiguous --tried", 10),
    Study("studies/bands.py --draws 25", 23),
    Study("studies/ablations.py --draws 6", 8),
    Study("studies/bonilla2008_figure1.py --data compiler --jobs 1", 8),
    Study("studies/yu2005_text.py --others 10", 8),
    Study("studies/yu2005_new_topics.py", 9, "studies/yu2005_text.py --others 10"),
    Study("studies/yu2005_text.py --first 100 --draws 3 --others 0", 1),
    Study("studies/lawrence2004_vowels.py", 8),
    Study("studies/leen2011_negative_transfer.py", 6),
    Study("studies/sharing_cost.py", 6),
    Study("studies/lawrence2004_regression.py", 6),
    Study("studies/yu2005_toy.py", 4),
    Study("studies/compare_kill.py", 5),
    Study("studies/lawrence2004_sines.py", 1),
    Study("studies/leen2011_variance.py", 1),
    Study("studies/bonilla2008_jura.py", 1),
    Study("compiler_data.py", 1),
)


def run(study: Study) -> tuple[int, float]:
    """Its exit status, and the minutes that it took."""
    start = time.perf_counter()
    script, *arguments = study.command.split()
    status = subprocess.run([sys.executable, ROOT / "benchmarks" / script, *arguments], check=False).returncode
    return status, (time.perf_counter() - start) / 60.0


def rounds(plan: tuple[Study, ...]) -> list[list[Study]]:
    """Longest first; what waits for another comes in a second round."""
    first = [s for s in plan if not s.after]
    return [sorted(part, key=lambda s: -s.minutes) for part in (first, [s for s in plan if s.after])]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", action="store_true", help="what would be run, and how long it takes")
    parser.add_argument("--jobs", type=int, default=2, help="studies at a time")
    given = parser.parse_args()
    kept = Records(ROOT / "out" / "studies.jsonl")
    ended = {r["command"] for r in kept if r["commit"] == kept.commit}
    left = tuple(s for s in PLAN if s.command not in ended)
    total = sum(s.minutes for s in left)
    lines = [f"{s.minutes:5.0f}  {s.command}" for part in rounds(left) for s in part]
    lines.append(f"{total:5.0f}  minutes of one core; {total / given.jobs / 60:.1f} hours on {given.jobs}")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    failed = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for part in rounds(left) if not given.plan else ():
            started = {pool.submit(run, study): study for study in part}
            for future in as_completed(started):
                study, (status, minutes) = started[future], future.result()
                sys.stdout.write(f"{study.command}: {'ended' if status == 0 else 'FAILED'}, {minutes:.0f} minutes\n")
                sys.stdout.flush()
                if status == 0:
                    kept.add({"command": study.command, "minutes": minutes, "seed": "the study's own"})
                else:
                    failed.append(study.command)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
