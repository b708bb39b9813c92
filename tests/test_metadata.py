"""What a package index is told: links that lead somewhere, bounds that `make lowest` installs, one version."""

import importlib.util
import re
import tomllib

import pytest

import borrow
from lowest import constraints
from run_page import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def metadata():
    spec = importlib.util.spec_from_file_location("metadata", ROOT / "metadata.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("address", ["", "https://example.org/borrow"])
def test_readme_of_an_index_has_no_link_that_leads_nowhere(address):
    text = metadata().readme_for(address, (ROOT / "README.md").read_text())
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert all(link.startswith("https://") for link in links)
    assert bool(links) == bool(address)
    assert ("![" in text) == bool(address)
    assert 'Reading a "cannot tell"' in text  # the words of a link stay
    if address:
        assert f"({address}/raw/main/docs/figures/report.png)" in text
        assert f"({address}/blob/main/docs/install.md)" in text


def test_no_address_is_invented():
    assert metadata().urls_for(PROJECT["tool"]["borrow"]["address"]) == {}
    assert metadata().urls_for("https://example.org/b")["Issues"] == "https://example.org/b/issues"


def test_every_dependency_of_a_user_has_a_lower_bound_that_is_run():
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"]["app"],
        *project["optional-dependencies"]["plot"],
    ]
    names = {re.match(r"[\w-]+", line)[0] for line in wanted}
    assert names <= {line.split("==")[0] for line in constraints(project)}


def test_the_version_is_written_once():
    assert "version" not in PROJECT["project"]
    assert borrow.__version__ not in (ROOT / "CITATION.cff").read_text()


def test_workflow_runs_targets_of_the_makefile():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    steps = re.findall(r"^ +- run: (.*)$", workflow, re.M)
    targets = re.findall(r"^([\w/]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {"make test", "make lowest", "make door"} <= set(steps)
    assert all(step.removeprefix("make ") in targets for step in steps)
    pythons = {line for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert all(f'"{line.split(":: ")[-1]}"' in workflow for line in pythons)
