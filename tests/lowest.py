"""Prints the lowest version that pyproject.toml allows of each direct dependency, as constraints for pip.

python tests/lowest.py > out/lowest.txt
pip install --editable '.[app,plot]' --constraint out/lowest.txt
"""

import re
import tomllib
from pathlib import Path

#: Extras that a user installs and the core of the tests runs with; of `dev` the frames that are read.
EXTRAS, FRAMES = ("app", "plot"), ("pandas", "polars")


def constraints(project: dict) -> list[str]:
    """`name==version` of each dependency with a lower bound; two bounds of one name would not both be true."""
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    wanted += [line for line in extras["dev"] if line.startswith(FRAMES)]
    bounds = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<.*)?", line) for line in wanted]
    return sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound})


if __name__ == "__main__":
    pyproject = Path(__file__).resolve().parent.parent / "pyproject.toml"
    print("\n".join(constraints(tomllib.loads(pyproject.read_text())["project"])))
