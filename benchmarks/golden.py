"""Golden records: what every public estimator and command answers on small problems, kept and checked.

    python benchmarks/golden.py                  compare with benchmarks/golden.json; exit 1 where something differs
    python benchmarks/golden.py --quick          those that take no time, for use after each step
    python benchmarks/golden.py --only PATTERN   cases whose name matches, as a file name would (`Focused*`)
    python benchmarks/golden.py --record         write benchmarks/golden.json from this source
    python benchmarks/golden.py --list           names of the cases

Answers at held hyper-parameters agree to 1e-10, in standard deviations of the targets (standard errors, which come
from differences of gradients, to 1e-8). Fits agree to 1e-3 nats per row
of evidence, 1e-4 standard deviations of predictions and 1e-3 of hyper-parameters. Text agrees letter by letter.
`benchmarks/golden_changes.json` says which differences are meant: {"case", or "case: field", as a pattern: reason}.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy is imported

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from golden_cases import Case, all_cases
from results import ROOT, provenance

RECORD = ROOT / "benchmarks" / "golden.json"
CHANGES = ROOT / "benchmarks" / "golden_changes.json"

FIXED, FIT, HYPER, EVIDENCE = 1e-10, 1e-4, 1e-3, 1e-3
CURVATURE = 1e-8  # standard errors at held hyper-parameters, which divide differences of gradients by small steps
#: Units of a number by the field that it stands in: powers of the standard deviation of the targets.
IN_TARGETS = ("mean", "std", "leave_one_out", "select", "center")
SQUARED = ("cov", "noise_", "table")
#: Hyper-parameters, and scores that magnify what they are made of.
LOOSE = (
    "kernel", "specific", "rho", "relat", "background", "covariance", "intercept", "noise_", "log_density", "secondar",
    "correlation", "theta", "inducing", "entropy_gain", "share", "std_error", "decision", "bias", "low", "high",
)  # fmt: skip


def tolerance(path: tuple[str, ...], value: float, case: Case) -> float:
    """How far a number may be from the record."""
    sd, rows = case.scale["sd"], case.scale["rows"]
    names = [p for p in path if not p.isdigit()]
    top = names[0] if names else ""
    if "log_marginal_likelihood" in path[-1] or "evidence" in path[-1] or "objective" in top:
        return FIXED * max(rows, abs(value)) if case.fixed else EVIDENCE * rows
    loose = any(word in name for name in names for word in LOOSE)
    unit = max(1.0, abs(value))
    if top.startswith(IN_TARGETS):
        unit = max(sd, abs(value))
    elif top.startswith(SQUARED):
        unit = max(sd**2, abs(value))
    if case.fixed:
        return (CURVATURE if "std_error" in names else FIXED) * unit
    return (HYPER if loose else FIT) * unit


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def differences(then: Any, now: Any, case: Case, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(field, what differs) for everything under a value."""
    where = ".".join(path)
    if isinstance(then, dict) and isinstance(now, dict):
        for key in [*then, *(k for k in now if k not in then)]:
            if key not in now or key not in then:
                yield f"{where}.{key}".lstrip("."), "is gone" if key not in now else "is new"
            else:
                yield from differences(then[key], now[key], case, (*path, key))
    elif isinstance(then, list) and isinstance(now, list):
        if len(then) != len(now):
            yield where, f"has {len(now)} entries, was {len(then)}: {short(now)}, was {short(then)}"
            return
        for k, (a, b) in enumerate(zip(then, now, strict=True)):
            yield from differences(a, b, case, (*path, str(k)))
    elif is_number(then) and is_number(now) and (isinstance(then, float) or isinstance(now, float)):
        allowed = tolerance(path, float(then), case)
        if not abs(now - then) <= allowed:
            yield where, f"{now!r}, was {then!r}: {abs(now - then):.2g} apart where {allowed:.2g} is allowed"
    elif type(then) is not type(now) or then != now:
        yield where, f"{short(now)}, was {short(then)}"


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 240 else text[:237] + "..."


def run(case: Case) -> Any:
    """A case's answers as JSON gives them back; what a case that fails has to say, so that the others go on."""
    try:
        return json.loads(json.dumps(case.run()))
    except Exception as failure:  # whatever it is, it is shown, and a difference
        return {"failed": f"{type(failure).__name__}: {failure}"}


def check(cases: list[Case], record: Mapping[str, Any], changes: Mapping[str, str]) -> tuple[int, list[str]]:
    """How many cases differ, and a line for every difference; those that are meant do not count."""
    differ, lines = 0, []
    for case in cases:
        if case.name not in record:
            found = [("", "is not in the record")]
        else:
            now = run(case)
            found = [("", f"failed: {now['failed']}")] if "failed" in now else []
            found = found or list(differences(record[case.name], now, case))
        open_ = False
        for where, what in found:
            reason = accepted(case.name, where, changes)
            open_ = open_ or reason is None
            tail = "" if reason is None else f" [accepted: {reason}]"
            lines.append(f"{case.name}: {where}{': ' if where else ''}{what}{tail}")
        differ += open_
    return differ, lines


def accepted(case: str, where: str, changes: Mapping[str, str]) -> str | None:
    """Why a difference is meant, if it is."""
    for pattern, reason in changes.items():
        if fnmatchcase(case, pattern) or fnmatchcase(f"{case}: {where}", pattern):
            return reason
    return None


def source_commit() -> str:
    """The last commit that touched the source, which must be as committed."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    if git("status", "--porcelain", "--", "src"):
        raise SystemExit("golden: src/ has changes that are not committed; a record is of a commit")
    return git("log", "-1", "--format=%h", "--", "src")


def write(path: Path, head: dict[str, Any], answers: dict[str, Any]) -> None:
    """One line per case, so that a difference of two records shows which cases it is about."""
    body = ",\n".join(f"{json.dumps(n)}:{json.dumps(v, separators=(',', ':'))}" for n, v in answers.items())
    path.write_text(f'{{"head":{json.dumps(head)},\n"cases":{{\n{body}\n}}}}\n')


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--times", action="store_true", help="seconds of every case, the longest last")
    given = parser.parse_args(argv)
    cases = [c for c in all_cases() if (c.quick or not given.quick) and fnmatchcase(c.name, given.only)]
    if given.list:
        sys.stdout.write("".join(f"{c.name}{'  (quick)' if c.quick else ''}\n" for c in cases))
        return 0
    if given.times:
        return timed(cases)
    if given.record:
        if given.quick or given.only != "*":
            parser.error("a record is of all cases: --record goes with neither --quick nor --only")
        head = {**provenance(), "commit": source_commit(), "threads": 1, "tolerances": tolerances()}
        answers = {c.name: run(c) for c in cases}
        write(RECORD, head, answers)
        failed = {n: v["failed"] for n, v in answers.items() if "failed" in v}
        for name, why in failed.items():
            sys.stdout.write(f"{name}: failed: {why}\n")
        size = RECORD.stat().st_size / 1e6
        sys.stdout.write(f"{len(cases)} cases recorded, {len(failed)} failed, {size:.2f} MB\n")
        return int(bool(failed))
    record = json.loads(RECORD.read_text())["cases"]
    changes = json.loads(CHANGES.read_text()) if CHANGES.exists() else {}
    differ, lines = check(cases, record, changes)
    if not given.quick and given.only == "*" and (gone := set(record) - {c.name for c in cases}):
        differ, lines = (
            differ + len(gone),
            [*lines, *(f"{name}: is in the record and no case" for name in sorted(gone))],
        )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.write(f"{len(cases)} cases, {differ} differ\n")
    return int(differ > 0)


def tolerances() -> dict[str, float]:
    return {"fixed": FIXED, "predictions": FIT, "hyper-parameters": HYPER, "evidence per row": EVIDENCE}


def timed(cases: list[Case]) -> int:
    found = []
    for case in cases:
        began = time.perf_counter()
        answer = run(case)
        found.append((time.perf_counter() - began, case.name, len(json.dumps(answer)), answer))
    for seconds, name, size, answer in sorted(found, key=lambda f: f[0]):
        said = answer.get("failed") or answer.get("refused") or ""
        sys.stdout.write(f"{seconds:7.2f} s {size:7d} bytes  {name}  {said}\n")
    total = math.fsum(f[0] for f in found)
    sys.stdout.write(f"{total:.1f} s, {sum(f[2] for f in found) / 1e6:.2f} MB, {len(cases)} cases\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
