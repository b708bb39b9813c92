"""Single changes of the source that some test should notice: `make mutants`.

    python tests/mutants.py --record    which tests run which lines (out/mutants/lines.json); once, and after new tests
    python tests/mutants.py             a seeded sample of 300 mutants; goes on where it was stopped
    python tests/mutants.py --report    what was found so far; --again tries the survivors anew
                                        --save writes docs/results/mutants.json too, which the pages are made from

A mutant is one token of the folders below turned into another: an operator, a comparison, a number, a truth value,
`and` or `or`, one of a few functions. Texts, annotations and what is raised or warned are left as they are. Every
mutant is tried in a copy of the source, by the tests that run its line, quickest first, until one fails. One that
changes nothing a caller could see is named in `equivalent_mutants.json` with the reason. Which mutants are drawn
depends on the seed and on their own lines: a change elsewhere draws no others.
"""

import argparse
import ast
import difflib
import gc
import hashlib
import importlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, OUT = ROOT / "src" / "borrow", ROOT / "out" / "mutants"
SOURCE = OUT / "source"  # as it was when lines were noted
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
FOLDERS = ("covariance", "inference", "data", "transfer", "store")
#: Tests that concern these folders; each mutant is tried by those among them that run its line.
TESTS = (
    "auto", "bad_input", "by_hand_covariance", "by_hand_data", "by_hand_inference", "by_hand_store", "by_hand_transfer",
    "classifiers", "compare", "data", "device_covariances", "ep", "focused", "focused_vs_dense", "hyper_uncertainty",
    "ivm_vs_dense", "memory", "multitask", "multitask_classifier", "multitask_em", "multitask_vs_dense", "noise",
    "priors", "shards", "store", "suggest", "table", "testing", "unnoticed", "verdict", "written",
)  # fmt: skip
MOST_SECONDS = 25.0, 120.0  # of tests for one mutant, the first time and for a survivor that is tried again
NEAR = 5  # lines from one that was written since
FEW_SECONDS = 1.0  # of the quickest tests, which kill most, and whose files alone are collected at first
SEED, SAMPLE = 0, 300
#: Packages that tests need, and that no mutant changes.
LOADED = (
    "hypothesis", "joblib", "narwhals", "numpy", "pandas", "polars", "psutil", "pytest", "scipy.linalg",
    "scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats", "sklearn.gaussian_process",
    "sklearn.linear_model", "sklearn.model_selection", "sklearn.utils.estimator_checks", "threadpoolctl", "xdist",
)  # fmt: skip
OFTEN = 100  # calls of a function after which a test's further ones are not followed line by line

OPERATORS = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*", "@": "*", "<": "<=", "<=": "<", ">": ">=",
    ">=": ">", "==": "!=", "!=": "==", "&": "|", "|": "&", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "and": "or",
    "or": "and", "not": "", "in": "not in", "is": "is not", "~": "",
}  # fmt: skip
WORDS = {"mean": "sum", "sum": "mean", "min": "max", "max": "min", "any": "all", "all": "any", "maximum": "minimum",
         "minimum": "maximum", "log": "sqrt", "sqrt": "log", "argmax": "argmin", "argmin": "argmax"}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One token of a file and what it becomes."""

    file: str  # below the package
    line: int
    column: int
    old: str
    new: str
    text: str  # the line as it is

    @property
    def key(self):
        """The same as long as the line is: numbers of lines may change."""
        at = self.column - len(self.text) + len(self.text.lstrip())
        return f"{self.file}: {self.text.strip()} [{at}] {self.old} -> {self.new}"

    def apply(self, source):
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1]
        assert line[self.column :].startswith(self.old)
        lines[self.line - 1] = line[: self.column] + self.new + line[self.column + len(self.old) :]
        return "".join(lines)


def mutants_of(path):
    """All mutants of a file."""
    source = path.read_text()
    lines = source.splitlines()
    tokens = [
        t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type in (tokenize.OP, tokenize.NAME)
    ]
    starts = [t.start for t in tokens]
    found = {}

    def take(line, column, old, new):
        name = path.relative_to(PACKAGE).as_posix()
        found[line, column] = Mutant(name, line, column, old, new, lines[line - 1])

    def between(before, after):
        """The operator between two expressions: the first token there that is no bracket."""
        for start, token in zip(starts, tokens, strict=True):
            if before <= start < after and token.string not in ("(", ")", ","):
                return token
        return None

    def operator(left, right):
        token = between((left.end_lineno, left.end_col_offset), (right.lineno, right.col_offset))
        if token is None:
            return
        line, column = token.start
        two = next((w for w in ("is not", "not in") if lines[line - 1][column:].startswith(w)), "")
        if two or token.string in OPERATORS:
            take(
                line, column, two or token.string, {"is not": "is", "not in": "in"}.get(two) or OPERATORS[token.string]
            )

    def visit(node):
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr)) or _tells(node):
            return
        if isinstance(node, ast.BinOp):
            operator(node.left, node.right)
        elif isinstance(node, ast.Compare):
            for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                operator(left, right)
        elif isinstance(node, ast.BoolOp):
            operator(node.values[0], node.values[1])
        elif isinstance(node, ast.AugAssign):
            operator(node.target, node.value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
            old = {ast.Not: "not", ast.USub: "-", ast.Invert: "~"}[type(node.op)]
            take(node.lineno, node.col_offset, old, {"-": "+"}.get(old, ""))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            old = lines[node.lineno - 1][node.col_offset : node.end_col_offset]
            take(node.lineno, node.col_offset, old, _other_number(node.value))
        elif isinstance(node, (ast.Attribute, ast.Name)):
            word = node.attr if isinstance(node, ast.Attribute) else node.id
            if word in WORDS and isinstance(node.ctx, ast.Load):
                take(node.end_lineno, node.end_col_offset - len(word), word, WORDS[word])
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child)

    visit(ast.parse(source))
    return list(found.values())


def _tells(node):
    """A call that warns or logs."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    called = ast.unparse(node.value.func)
    return called == "warn" or called.startswith("log.")


def _other_number(value):
    if isinstance(value, bool):
        return str(not value)
    return str(value + 1) if isinstance(value, int) else "1.0" if value == 0 else repr(2.0 * value)


def every_mutant():
    files = sorted(p for folder in FOLDERS for p in (PACKAGE / folder).glob("*.py"))
    found = [m for path in files for m in sorted(mutants_of(path), key=lambda m: (m.line, m.column))]
    return list({m.key: m for m in found}.values())


# Which tests run which lines. -----------------------------------------------------------------------------------------


class Recorder:
    """A plugin of pytest that notes the lines of the folders which each test runs, and how long it takes."""

    def __init__(self):
        self.lines, self.seconds, self.now = {}, {}, None
        self.wanted = {}

    def trace(self, frame, event, arg):
        code = frame.f_code
        name = self.wanted.get(code.co_filename)
        if name is None:
            path = Path(code.co_filename)
            inside = path.is_relative_to(PACKAGE) and path.parent.name in FOLDERS
            name = self.wanted[code.co_filename] = path.relative_to(PACKAGE).as_posix() if inside else ""
        if not name or self.now is None:
            return None
        self.calls[code] += 1
        if self.calls[code] > OFTEN:
            return None
        seen = self.now[name]
        seen.add(frame.f_lineno)

        def local(frame, event, arg):
            if event == "line":
                seen.add(frame.f_lineno)
            return local

        return local

    def pytest_runtest_protocol(self, item):
        self.now, self.start, self.failed = defaultdict(set), time.process_time(), False
        self.calls = Counter()
        sys.settrace(self.trace)

    def pytest_runtest_logreport(self, report):
        self.failed |= report.failed

    def pytest_runtest_logfinish(self, nodeid):
        sys.settrace(None)
        if self.now and not self.failed:
            self.lines[nodeid] = {name: sorted(lines) for name, lines in self.now.items()}
            self.seconds[nodeid] = time.process_time() - self.start
        self.now = None


def record(names):
    """Run tests and note their lines; those noted before stay."""
    import pytest

    place, known = OUT / "lines.json", noted()
    for path in (p for folder in FOLDERS for p in (PACKAGE / folder).glob("*.py")):
        kept = SOURCE / path.relative_to(PACKAGE)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, kept)
    for name in names:
        recorder = Recorder()
        pytest.main(
            ["-q", "-n0", "-p", "no:cacheprovider", str(ROOT / "tests" / f"test_{name}.py")], plugins=[recorder]
        )
        fresh = {n: {"seconds": recorder.seconds[n], "lines": recorder.lines[n]} for n in recorder.lines}
        known = {n: v for n, v in known.items() if not n.startswith(f"tests/test_{name}.py::")} | fresh
        OUT.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(known))


def noted():
    """The lines that each test ran, by their numbers in the present source: those that have changed since are gone."""
    place = OUT / "lines.json"
    known, now = json.loads(place.read_text()) if place.exists() else {}, {}
    for kept in SOURCE.rglob("*.py"):
        path = PACKAGE / kept.relative_to(SOURCE)
        texts = [f.read_text().splitlines() if f.exists() else [] for f in (kept, path)]
        same = difflib.SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks()
        now[path.relative_to(PACKAGE).as_posix()] = {a + i + 1: b + i + 1 for a, b, n in same for i in range(n)}
    for test in known.values():
        test["lines"] = {f: [now[f][k] for k in lines if k in now[f]] for f, lines in test["lines"].items() if f in now}
    return known


def still_there(known):
    """Tests that were noted and have not been renamed or taken out since."""
    texts = {name.partition("::")[0]: "" for name in known}
    texts = {file: (ROOT / file).read_text() if (ROOT / file).exists() else "" for file in texts}

    def there(name):
        file, _, function = name.partition("::")
        return f"def {function.partition('[')[0]}(" in texts[file]

    return {name: noted for name, noted in known.items() if there(name)}


def runs_at_import(mutant):
    """Whether the line is in no function's body."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse((PACKAGE / mutant.file).read_text()))
    return not any(isinstance(f, functions) and f.body[0].lineno <= mutant.line <= f.end_lineno for f in nodes)


def tests_for(mutant, known, most):
    """Tests that run the line, quickest first, those by hand before others.

    For a line that was written since lines were noted, those that run the nearest one; for one that runs when the file
    is imported, those that use the file.
    """
    of_file = {n: v for n, v in known.items() if mutant.file in v["lines"]}
    near = sorted(range(mutant.line - NEAR, mutant.line + NEAR + 1), key=lambda k: abs(k - mutant.line))
    found = ([n for n, v in of_file.items() if k in v["lines"][mutant.file]] for k in near)
    running = [] if runs_at_import(mutant) else next(filter(None, found), [])
    chosen, total = [], 0.0
    for name in sorted(running or of_file, key=lambda n: ("by_hand" not in n, of_file[n]["seconds"])):
        total += of_file[name]["seconds"]
        if total > most and chosen:
            break
        chosen.append(name)
    return chosen, total


# Trying them. ---------------------------------------------------------------------------------------------------------


def try_mutant(mutant, copy, known, most):
    """What came of it: killed, survived, or no test runs its line; and by which test."""
    tests, seconds = tests_for(mutant, known, most)
    if not tests:
        return "survived", "no test runs the line"
    path = copy / "src" / "borrow" / mutant.file
    whole = path.read_text()
    path.write_text(mutant.apply(whole))
    log = copy / "log"
    child = os.fork()
    if child == 0:
        try:
            in_child(tests, copy, log, int(10 + 1.5 * seconds))
        finally:
            os._exit(3)  # whatever happens, it does not go on as its parent
    _, status = os.waitpid(child, 0)
    path.write_text(whole)
    if status == 0:
        return "survived", f"{len(tests)} tests"
    failed = [line for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR"))]
    code = os.waitstatus_to_exitcode(status)
    gone = [line.rpartition("/tests/")[2] for line in failed if line.startswith("ERROR: not found")]
    if code == 4 and gone:  # noted before its parameters had other names
        left = {n: v for n, v in known.items() if n.removeprefix("tests/") not in gone}
        return try_mutant(mutant, copy, left, most) if len(left) < len(known) else ("survived", "no test is there")
    if code == 4 and any("found no collectors" in line for line in failed):
        return "killed", "the tests cannot be imported"
    if (not failed and code > 0) or code in (4, 5):  # pytest was called wrongly, or ran nothing
        raise RuntimeError(f"the tests could not be run: {log.read_text()[-2000:]}")
    return "killed", failed[0][:160] if failed else "it took too long"


def in_child(tests, copy, log, seconds):
    """Run tests on the copy of the source, and end with their exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy / "src")
    sys.path.insert(0, str(copy / "src"))
    import pytest

    early = "ignore::pytest.PytestAssertRewriteWarning"  # a plugin that is loaded already
    os._exit(int(pytest.main(["-x", "-q", "-n0", "-p", "no:cacheprovider", "--tb=no", "-W", early, *tests])))


def run(sample, again):
    """Try the sample; what was tried on this commit before is not tried again."""
    for name in LOADED:  # once, before the processes part; what is loaded is no garbage to look through in each
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    known = still_there(noted())
    results = read_results()
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    excused = json.loads(EQUIVALENT.read_text())
    with tempfile.TemporaryDirectory() as folder, (OUT / "results.jsonl").open("a") as file:
        copy = Path(folder)
        for path in ROOT.iterdir():
            if path.name not in ("out", ".git", ".venv"):
                (shutil.copytree if path.is_dir() else shutil.copy)(path, copy / path.name)
        for mutant in sample:
            before = results.get(mutant.key)
            if mutant.key in excused or (before and not (again and before["came"] == "survived")):
                continue
            start = time.monotonic()
            came, by = try_mutant(mutant, copy, known, FEW_SECONDS)
            if came == "survived":
                came, by = try_mutant(mutant, copy, known, MOST_SECONDS[again])
            result = {"key": mutant.key, "line": mutant.line, "came": came, "by": by, "commit": commit,
                      "seconds": round(time.monotonic() - start, 1)}  # fmt: skip
            file.write(json.dumps(result) + "\n")
            file.flush()
            sys.stdout.write(f"{came}: {mutant.key} ({by})\n")
            sys.stdout.flush()


def read_results():
    place = OUT / "results.jsonl"
    lines = place.read_text().splitlines() if place.exists() else []
    return {r["key"]: r for r in map(json.loads, lines)}


def report(sample):
    """Print the survivors by line; whether enough were killed."""
    results, excused = read_results(), json.loads(EQUIVALENT.read_text())
    same = [m for m in sample if m.key in excused]
    tried = [m for m in sample if m.key in results and m.key not in excused]
    killed = [m for m in tried if results[m.key]["came"] == "killed"]
    for m in tried:
        if m not in killed:
            sys.stdout.write(f"survived: {m.file}:{m.line}:{m.column} {m.old} -> {m.new}\n    {m.text.strip()}\n")
    share, left = len(killed) / max(len(tried), 1), len(sample) - len(tried) - len(same)
    sys.stdout.write(
        f"{len(sample)} mutants: {len(killed)} of {len(tried)} killed ({100 * share:.1f} %), {len(same)} change "
        f"nothing ({100 * len(same) / len(sample):.1f} %), {left} not tried yet\n"
    )
    return share >= 0.95 and len(same) <= 0.08 * len(sample)


def save(sample, seed):
    """What was found so far as a result of the project: counts, survivors by line, and the equivalent with reasons."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from results import write_result

    results, excused = read_results(), json.loads(EQUIVALENT.read_text())
    same = [m for m in sample if m.key in excused]
    tried = [m for m in sample if m.key in results and m.key not in excused]
    lived = [m for m in tried if results[m.key]["came"] != "killed"]
    counts = {"sample": len(sample), "equivalent": len(same), "tried": len(tried), "killed": len(tried) - len(lived)}
    listed = [{"place": f"{m.file}:{m.line}", "change": f"{m.old} to {m.new}", "line": m.text.strip()} for m in lived]
    reasons = [{"place": f"{m.file}:{m.line}", "change": f"{m.old} to {m.new}", "why": excused[m.key]} for m in same]
    kept = [{"commit": results[m.key]["commit"]} for m in tried]
    write_result("mutants", {"seed": seed, **counts, "survivors": listed, "called equivalent": reasons}, kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", nargs="*", help="note which tests run which lines; of these files, or of all")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--save", action="store_true", help="write docs/results/mutants.json")
    parser.add_argument("--only", default="", help="mutants whose key holds this, sampled or not")
    parser.add_argument("--most", type=int, default=SAMPLE)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    if given.record is not None or not (OUT / "lines.json").exists():
        record(given.record or TESTS)
        if given.record is not None:
            return
    every = every_mutant()
    sample = sorted(every, key=lambda m: hashlib.sha256(f"{given.seed} {m.key}".encode()).digest())[: given.most]
    if given.only:
        sample = [m for m in every if given.only in m.key]
    if not given.report:
        run(sample, given.again)
    if given.save and not given.only:
        save(sample, given.seed)
    sys.exit(not report(sample))


if __name__ == "__main__":
    main()
