"""Measure the compiler data: instructions executed by eleven C programs under settings of thirteen gcc flags.

    python data/compiler/measure.py                  measure what is missing, then write the table of the package
    python data/compiler/measure.py --programs fir   only these programs (no table is written)
    python data/compiler/measure.py --repeat 20      build and count 20 of the cells again; are the counts the same?

Needs gcc and valgrind on x86-64, and Python's standard library. Every count is appended at once to
out/compiler/measured.csv, under a key made of source, commands and compiler, so that a second call goes on where the
first stopped. Builds with equal object code are run once. A build whose checksum is not that of -O0 is an error.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = HERE / "programs"
TABLE = ROOT / "src" / "borrow" / "datasets" / "compiler.csv.gz"
NOTES = HERE / "measured.json"
CACHE = ROOT / "out" / "compiler" / "measured.csv"

PROGRAMS = ("adpcm", "edge", "fft", "fir", "histogram", "huffman", "iir", "lpc", "lu", "matmul", "sort")
#: Given to every build. No contraction and no reassociation of floating point: all builds compute the same numbers.
#: Loops do not become calls of memset or memcpy: what is counted is code of the program, not of the C library. The
#: second pass that moves invariants is off, so that the flag of the first one (-ftree-loop-im) means something.
FIXED = (
    "-std=c11",
    "-O1",
    "-fno-pie",
    "-fno-asynchronous-unwind-tables",
    "-ffp-contract=off",
    "-fno-tree-loop-distribute-patterns",
    "-fno-move-loop-invariants",
    "-fvect-cost-model=dynamic",
)
#: 1 in the table means -f<name>, 0 means -fno-<name>; the build always says one of the two.
FLAGS = (
    "inline-functions-called-once",
    "inline-small-functions",
    "ipa-cp",
    "tree-sra",
    "gcse",
    "if-conversion",
    "tree-loop-im",
    "ivopts",
    "tree-ch",
    "unroll-loops",
    "peel-loops",
    "unswitch-loops",
    "tree-vectorize",
)
#: Eight settings for task features, named after what their passes do. They are kept out of the table's other rows.
CANONICAL = {
    "inlining": ("inline-functions-called-once", "inline-small-functions"),
    "interprocedural": ("inline-functions-called-once", "inline-small-functions", "ipa-cp", "tree-sra"),
    "scalars": ("tree-sra", "gcse", "if-conversion"),
    "invariants": ("tree-loop-im", "unswitch-loops"),
    "induction": ("tree-loop-im", "ivopts"),
    "vectors": ("ivopts", "tree-ch", "tree-vectorize"),
    "unrolling": ("tree-ch", "unroll-loops", "peel-loops"),
    "loops": FLAGS[6:],
}
VALGRIND = ("valgrind", "--tool=callgrind", "--toggle-collect=work", "--callgrind-out-file=/dev/null")
N_SETTINGS, SEED = 640, 2008

Setting = tuple[int, ...]


class Row(NamedTuple):
    """One line of the table before it is measured."""

    kind: str  # 'none', 'single', 'all', 'all but one', 'random', or 'canonical: <name>'
    setting: Setting


def settings(n: int = N_SETTINGS, seed: int = SEED) -> list[Row]:
    """No flags, each alone, all, all but one, then distinct random ones up to n; last the eight canonical ones."""
    d = len(FLAGS)
    rows = [Row("none", (0,) * d)]
    rows += [Row("single", tuple(int(i == k) for i in range(d))) for k in range(d)]
    rows += [Row("all", (1,) * d)]
    rows += [Row("all but one", tuple(int(i != k) for i in range(d))) for k in range(d)]
    canonical = [Row(f"canonical: {name}", tuple(int(f in on) for f in FLAGS)) for name, on in CANONICAL.items()]
    taken = {row.setting for row in rows + canonical}
    source = random.Random(seed)
    while len(rows) < n:
        setting = tuple(source.getrandbits(1) for _ in range(d))
        if setting not in taken:
            taken.add(setting)
            rows.append(Row("random", setting))
    return rows + canonical


def options(setting: Setting) -> list[str]:
    """All options of one build."""
    return [*FIXED, *(f"-f{name}" if on else f"-fno-{name}" for name, on in zip(FLAGS, setting, strict=True))]


def tell(command: Sequence[str | Path]) -> str:
    """Run a command; its output, or an error with what it said."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def build(program: str, arguments: Sequence[str], folder: Path) -> tuple[Path, str]:
    """Compile one program; the object file and the digest of its content."""
    target = folder / f"{program}.o"
    tell(["gcc", *arguments, "-c", SOURCES / f"{program}.c", "-o", target])
    return target, hashlib.sha1(target.read_bytes()).hexdigest()


def link(target: Path, folder: Path) -> Path:
    """Link an object with main.c, statically; it must not call any library."""
    if missing := tell(["nm", "--undefined-only", target]).strip():
        raise RuntimeError(f"{target.name} calls {missing}: the count would include code of a library")
    main, binary = folder / "main.o", folder / "program"
    if not main.exists():
        tell(["gcc", "-std=c11", "-O1", "-c", SOURCES / "main.c", "-o", main])
    tell(["gcc", "-static", target, main, "-o", binary])
    return binary


def parse(report: str) -> int:
    """Instructions that callgrind collected, from what it writes on standard error."""
    found = re.search(r"^==\d+== Collected : (\d+)\s*$", report, re.M)
    if found is None:
        raise ValueError(f"no line 'Collected : <count>' in what valgrind said: {report[-300:]!r}")
    return int(found[1])


def count(binary: Path) -> tuple[int, str]:
    """Instructions executed inside work(), and the checksum that the program prints."""
    done = subprocess.run([*VALGRIND, binary], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{binary} under valgrind ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return parse(done.stderr), done.stdout.strip()


def reference(program: str, folder: Path) -> str:
    """Checksum of the build without optimisation, run without valgrind."""
    target, _ = build(program, ["-std=c11", "-O0", "-fno-pie", "-ffp-contract=off"], folder)
    return tell([link(target, folder)]).strip()


def key(program: str) -> str:
    """Changes with the source, the commands and the compiler, and with nothing else."""
    source = (SOURCES / f"{program}.c").read_text()
    return hashlib.sha1("\0".join([source, *FIXED, *FLAGS, *VALGRIND, versions()["gcc"]]).encode()).hexdigest()[:12]


def versions() -> dict[str, str]:
    """Compiler and counter."""
    return {"gcc": tell(["gcc", "-dumpfullversion"]).strip(), "valgrind": tell(["valgrind", "--version"]).strip()}


def read_cache(program: str) -> dict[Setting, tuple[str, int, str]]:
    """What was measured before under the same key: setting → (digest of the object, count, checksum)."""
    if not CACHE.exists():
        return {}
    mine = key(program)
    with CACHE.open(newline="") as file:
        lines = [line for line in csv.reader(file) if line[:2] == [program, mine]]
    return {tuple(map(int, bits)): (digest, int(n), checksum) for _, _, bits, digest, n, checksum in lines}


def measure(program: str, rows: Sequence[Row], folder: Path) -> dict[Setting, tuple[str, int, str]]:
    """Counts of all settings of one program, old ones from the cache."""
    done = read_cache(program)
    known = {digest: (n, checksum) for digest, n, checksum in done.values()}
    expected, mine = reference(program, folder), key(program)
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with CACHE.open("a", newline="") as file:
        for i, row in enumerate(rows):
            if row.setting in done:
                continue
            target, digest = build(program, options(row.setting), folder)
            if digest not in known:
                known[digest] = count(link(target, folder))
            n, checksum = known[digest]
            if checksum != expected:
                raise RuntimeError(f"{program} {row}: checksum {checksum}, but {expected} without optimisation")
            done[row.setting] = (digest, n, checksum)
            csv.writer(file).writerow([program, mine, "".join(map(str, row.setting)), digest, n, checksum])
            file.flush()
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{program:10s} {i + 1} of {len(rows)}, {len(known)} distinct builds ")
    return done


def table_bytes(rows: Sequence[Row], counts: dict[str, dict[Setting, int]]) -> bytes:
    """The table as a gzipped CSV; equal content gives equal bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kind", *FLAGS, *PROGRAMS])
    for kind, setting in rows:
        writer.writerow([kind, *setting, *(counts[p][setting] for p in PROGRAMS)])
    return gzip.compress(text.getvalue().encode(), 9, mtime=0)


def repeat(rows: Sequence[Row], n: int, folder: Path, seed: int = SEED) -> dict[str, Any]:
    """Build and count n cells of the table again, each once more; how many came out the same to the instruction."""
    cells = [(p, row.setting) for p in PROGRAMS for row in rows]
    same, before = 0, {p: read_cache(p) for p in PROGRAMS}
    for program, setting in random.Random(seed).sample(cells, n):
        target, digest = build(program, options(setting), folder)
        again = count(link(target, folder))
        same += (digest, *again) == before[program][setting]
    return {"builds counted again": n, "object code and count the same": same}


def write_notes(**more: Any) -> None:
    """Merge what is known about the measurement into measured.json, beside this file."""
    notes = json.loads(NOTES.read_text()) if NOTES.exists() else {}
    NOTES.write_text(json.dumps({**notes, **more}, indent=1) + "\n")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--settings", type=int, default=N_SETTINGS, help="rows of the table (default %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the random settings (default %(default)s)")
    parser.add_argument("--repeat", type=int, metavar="N", help="count N cells that were measured again, and stop")
    arguments = parser.parse_args()
    rows = settings(arguments.settings, arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        if arguments.repeat:
            outcome = repeat(rows, arguments.repeat, Path(name))
            write_notes(repeat=outcome)
            sys.stdout.write(f"{outcome}\n")
            return int(outcome["object code and count the same"] != arguments.repeat)
        measured = {p: measure(p, rows, Path(name)) for p in arguments.programs}
    if set(measured) != set(PROGRAMS):
        sys.stdout.write("not all programs were asked for: no table written\n")
        return 0
    TABLE.write_bytes(table_bytes(rows, {p: {s: cell[1] for s, cell in m.items()} for p, m in measured.items()}))
    write_notes(
        versions=versions(),
        seed=arguments.seed,
        fixed=FIXED,
        checksums={p: next(iter(m.values()))[2] for p, m in measured.items()},
        distinct_builds={p: len({m[row.setting][0] for row in rows}) for p, m in measured.items()},
    )
    sys.stdout.write(f"{TABLE.relative_to(ROOT)}: {len(rows)} settings of {len(PROGRAMS)} programs\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
