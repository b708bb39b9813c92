"""The tree reads as a sentence, and the papers' files say which equation is where."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import borrow

SOURCE = Path(borrow.__file__).parent
# data -> kernel -> covariance -> inference -> model -> answer; imports only point to the left.
LAYERS = [
    {"numerics"},
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
    {"plot", "report"},
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
    """Every function that the model's equation table names exists in its file and carries a tag of that equation."""
    path = SOURCE / "models" / name / "model.py"
    tree = ast.parse(path.read_text())
    table = re.findall(r"^\| ([^|]+?) +\| `(\w+)`", ast.get_docstring(tree).split("| equation |")[1], re.M)
    docs = {n.name: ast.get_docstring(n) or "" for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    assert len(table) >= 4
    for equation, function in table:
        assert function in docs, f"{function} is named beside {equation} and is not in {path.name}"
        numbers = re.findall(r"\((\d+)\)", equation) or re.findall(r"sec\. [\d.]+", equation)
        assert any(n in docs[function] for n in numbers), f"{function} does not mention {equation}"


def test_importing_borrow_needs_no_frame_library_and_no_plotting():
    code = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'matplotlib', 'rich', 'typer', 'dask', 'distributed'):\n"
        "    sys.modules[name] = None\n"
        "import borrow\n"
        "model = borrow.FocusedGPRegressor(primary=1).fit([([[0.0], [1.0]], [0.0, 1.0])] * 2)\n"
        "print(model.relatedness())"
    )
    assert "rho" in subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
