"""Pages show what the results say, and their code runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_pages_show_what_the_results_say():
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "pages.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def code_blocks():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for i, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)):
            yield pytest.param(code, id=f"{page.name}-{i}")


@pytest.mark.parametrize("code", list(code_blocks()))
def test_code_of_the_pages_runs(code):
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)


def test_links_of_the_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page.name}: {link}"


def test_readme_begins_with_the_two_commands():
    first = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert [line.split("#")[0].strip() for line in first.strip().splitlines()] == ["make demo", "make test"]
