"""The tree reads as a sentence, and the papers' files say which equation is where."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import borrow
from absent import without
from run_page import ROOT, blocks

SOURCE = Path(borrow.__file__).parent
# data -> kernel -> covariance -> inference -> model -> answer; imports only point to the left.
LAYERS = [
    {"numerics", "plot"},
    {"data"},
    {"kernels"},
    {"tasks"},
    {"covariance"},
    {"inference"},
    {"estimators"},
    {"models"},
    {"transfer"},
    {"store"},
    {"datasets"},
    {"report"},
    {"cli", "__main__"},
    {"testing"},
]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "borrow":
            parts = node.module.split(".")
            yield from ([parts[1]] if len(parts) > 1 else [a.name for a in node.names])
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("borrow."))


def layer(name):
    found = [i for i, names in enumerate(LAYERS) if name in names]
    assert found, f"{name} has no layer: add it to LAYERS"
    return found[0]


def test_imports_only_point_to_the_left():
    for path in SOURCE.rglob("*.py"):
        home = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if home == "__init__":
            continue
        for name in imports(path):
            if name in ("__version__", home):
                continue
            assert layer(name) <= layer(home), f"{path.name} imports {name}"


def test_only_linalg_names_lapack():
    for path in SOURCE.rglob("*.py"):
        if path.name != "linalg.py":
            assert "lapack" not in path.read_text().replace("LAPACK", ""), path
        if path.name not in ("linalg.py", "linalg_torch.py"):
            assert "torch.linalg" not in path.read_text(), path
        if path.name not in ("linalg_torch.py", "device.py"):
            assert "import torch" not in path.read_text(), path


@pytest.mark.parametrize("name", ["focused", "hierarchical", "ivm", "multitask", "rbf"])
def test_equation_table_and_code_agree(name):
    """Functions of the model's equation table exist and speak of their equation, which is a tag at some line, too."""
    path = SOURCE / "models" / name / "model.py"
    tree = ast.parse(path.read_text())
    table = re.findall(r"^\| ([^|]+?) +\| `(\w+)`", ast.get_docstring(tree).split("| equation |")[1], re.M)
    docs = {n.name: ast.get_docstring(n) or "" for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    assert len(table) >= 4
    for equation, function in table:
        assert function in docs, f"{function} is named beside {equation} and is not in {path.name}"
        numbers = re.findall(r"\((\d+)\)", equation) or re.findall(r"sec\. [\d.]+", equation)
        assert any(n in docs[function] for n in numbers), f"{function} does not mention {equation}"
    files = [*path.parent.glob("*.py"), *(SOURCE / "covariance").glob("*.py")]  # predictions are of a covariance
    comments = [line.partition("#")[2] for p in files for line in p.read_text().splitlines()]
    tagged = {n for text in comments if re.match(r" .*\beqs?\.", text) for n in re.findall(r"\d+", text)}
    listed = {n for equation, _ in table for n in re.findall(r"\((\d+)\)", equation)}
    assert not listed - tagged, f"no line of {name} is tagged with these equations"


def test_importing_borrow_needs_no_frame_library_and_no_plotting():
    code = without("pandas", "polars", "matplotlib", "rich", "typer", "dask", "distributed") + (
        "import borrow\n"
        "model = borrow.FocusedGPRegressor(primary=1).fit([([[0.0], [1.0]], [0.0, 1.0])] * 2)\n"
        "print(model.relatedness())"
    )
    assert "rho" in subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


MODULES = {
    "borrow." + ".".join(p.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): p
    for p in SOURCE.rglob("*.py")
}


def private(name):
    return name.startswith("_") and not name.startswith("__")


def test_no_private_name_is_used_across_modules():
    """A leading underscore means this module only: no import of such a name, no attribute of another's object."""
    found = []
    for path in MODULES.values():
        tree = ast.parse(path.read_text())
        own = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        own |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
        own |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("borrow"):
                found += [(path.name, node.lineno, a.name) for a in node.names if private(a.name)]
            elif isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own | FOREIGN:
                mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                mine |= isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
                if not mine:
                    found.append((path.name, node.lineno, node.attr))
    assert not found


#: Private names of other libraries that have no public counterpart, and what an estimator asks of a copy of itself.
FOREIGN = {"_getframe", "_get_param_names", "_replace", "_fields", "_asdict", "_exit"}
FOREIGN |= {"_unfitted", "_learn", "_published"}


def test_no_import_cycle():
    """Modules can be read one after the other; imports inside functions and for types alone do not count."""
    graph = {}
    for name, path in MODULES.items():
        graph[name] = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("borrow"):
                whole = [f"{node.module}.{a.name}" for a in node.names]
                graph[name] |= {w if w in MODULES else node.module for w in whole} - {name, "borrow"}
            elif isinstance(node, ast.Import):
                graph[name] |= {a.name for a in node.names if a.name in MODULES} - {name, "borrow"}
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for other in sorted(graph[name]):
            visit(other)
        done.add(path.pop())

    for name in graph:
        visit(name)


def test_models_are_built_on_gp_and_reference_alone():
    """A paper's folder imports its own files, those of `gp`, and formulas of the reference methods; no other paper."""
    for name, path in MODULES.items():
        parts = name.split(".")
        if parts[1:2] != ["models"] or len(parts) < 3:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("borrow.models."):
                other = node.module.split(".")[2]
                assert other in (parts[2], "gp", "reference"), f"{name} imports {node.module}"


def test_models_ask_an_inference_what_it_is_and_not_for_its_class():
    """`Inference.gaussian` tells numbers from labels, so that another inference needs no edit in a model."""
    for name, path in MODULES.items():
        if name.startswith("borrow.models."):
            assert not re.search(r"\b(ExactInference|EPInference)\b", path.read_text()), name


def uses_any(tree):
    return "Any" in {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def test_contracts_are_typed():
    """A contract says what it takes and gives; Any says nothing. Contracts are protocols, and the kernel's base."""
    trees = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
    own = [tree for name, tree in trees.items() if name.endswith(".contracts")]
    assert len(own) == 3
    classes = [(name, n) for name, tree in trees.items() for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    named = [(name, n) for name, n in classes if "Protocol" in "".join(map(ast.unparse, n.bases)) or n.name == "Kernel"]
    assert len(named) >= 15
    assert not any(map(uses_any, own))
    assert not [f"{name}.{n.name}" for name, n in named if uses_any(n)]


def code_lines(path):
    """Numbers and texts of the lines of code: no imports, docstrings, signatures, fields without a value, comments."""
    text, left_out = path.read_text(), set()
    for node in ast.walk(ast.parse(text)):
        said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        declared = isinstance(node, ast.AnnAssign) and node.value is None
        if said or declared or isinstance(node, (ast.Import, ast.ImportFrom)):
            left_out.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.FunctionDef):
            left_out.update(range(node.lineno, node.body[0].lineno))
    lines = [(i, line.strip()) for i, line in enumerate(text.splitlines(), 1) if i not in left_out]
    return [(i, line) for i, line in lines if len(line) > 3 and not line.startswith("#")]


def test_no_six_lines_stand_twice():
    """What is said in two places is said once, in a function of its own."""
    places = {}
    for name, path in MODULES.items():
        lines = code_lines(path)
        for k in range(len(lines) - 5):
            run = tuple(line for _, line in lines[k : k + 6])
            assert run not in places, f"{name}:{lines[k][0]} repeats {places[run]}"
            places[run] = f"{name}:{lines[k][0]}"


def test_examples_of_contributing_are_short():
    """A kernel, a covariance, a likelihood and a model: each takes less than sixty lines. `test_docs` runs them."""
    examples = blocks(ROOT / "CONTRIBUTING.md")
    assert len(examples) == 5  # the imports and the data that they are tried on come first
    assert all(code.count("\n") < 60 for _, code, _ in examples)


#: Names of the private vocabulary that was given up for the words that the field has.
RETIRED = {"Crew", "hired", "Here", "OnDask", "Spread", "SpreadCovariance", "Carrier", "Forgetful", "Kept", "stamp"}
RETIRED |= {"Paper", "Words", "say", "heard", "noted", "there", "add_half", "mend_signs", "against_none"}
RETIRED |= {"HEAT", "finely", "race", "once", "twinned", "with_level", "Filled", "Measured", "LeftOut"}


def test_the_private_vocabulary_stays_retired():
    """No class, function, argument, variable or attribute has such a name."""
    found = []
    for name, path in MODULES.items():
        words = {word for node in ast.walk(ast.parse(path.read_text())) for word in names_in(node)}
        found += [f"{name}: {word}" for word in words if word.lstrip("_") in RETIRED]
    assert not found


def names_in(node):
    """The names that a node of the code gives, or asks of another object."""
    match node:
        case ast.ClassDef(name=word) | ast.FunctionDef(name=word) | ast.arg(arg=word) | ast.keyword(arg=str(word)):
            return [word]
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.ExceptHandler(name=str(word)):
            return [word]
    return []


def test_an_estimator_loads_no_more_than_it_takes():
    """Whoever asks for one does not wait for the others, nor for comparisons; a name that is none loads all."""
    code = (
        "import borrow, sys\n"
        "borrow.FocusedGPRegressor\n"
        "print([m for m in ('borrow.models.hierarchical', 'borrow.transfer.compare') if m in sys.modules])\n"
        "print(borrow.AutoRegressor.__name__, hasattr(borrow, 'FocusedGP'), len(borrow.__all__))"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split("\n")
    assert told[0] == "[]"
    assert told[1] == f"AutoRegressor False {len(borrow.__all__)}"
