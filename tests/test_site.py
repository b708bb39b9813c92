"""The site: built without a warning, and read in a real browser from disk, where nothing can be fetched."""

import html
import re
import subprocess
import sys

import pytest

from borrow.cli.app import COMMANDS, load
from run_page import ROOT

for name in ("mkdocs", "latex2mathml"):
    pytest.importorskip(name, reason="the site needs borrow[docs]")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_nothing_is_fetched_from_elsewhere(site):
    for page in site.rglob("*.html"):
        found = re.findall(r"<(?:link|script|img)[^>]+(?:src|href)=[\"']?(?:https?:)?//[^>]*>", page.read_text())
        assert not found, (page.name, found)


def test_home_is_the_readme_with_links_of_the_site(site):
    home = (site / "index.html").read_text()
    assert "In ten lines" in home
    assert 'href="howto/pipeline.html"' in home
    assert 'href="contributing.html"' in home
    for page in site.rglob("*.html"):
        for link in re.findall(r'<a [^>]*href="([^"#:]+)["#]', page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_reference_describes_arguments_and_links_names(site):
    page = (site / "reference" / "FocusedGPRegressor.html").read_text()
    assert "<dt><code>rho_prior</code></dt>" in page
    there = r'href="estimators\.html#borrow\.estimators\.regressor\.GPRegressor"[^>]*><code>GPRegressor</code>'
    assert re.search(there, page)
    assert "Parameters\n-----" not in page
    assert "Examples\n-----" not in page
    assert re.search(r"max_iter.{0,80}int", page, re.S)  # types stand in the signature


def test_short_code_is_not_cut_and_blocks_keep_their_lines(site):
    assert '<code class="whole">--ignore</code>' in (site / "command_line.html").read_text()
    for page in site.rglob("*.html"):
        assert not re.search(r'(<pre>|<pre><span></span>)<code class="whole">', page.read_text()), page.name


def test_every_command_has_its_options_and_an_example_on_the_page(site):
    page = (site / "command_line.html").read_text()
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    for name in COMMANDS:
        command = load(name)
        assert f">borrow {name}</h3>" in page
        assert command.epilog.removeprefix("Example: ") in text
        for option in (o for p in command.params if p.param_type_name == "option" for o in p.opts):
            assert re.search(rf'class="whole">[^<]*{re.escape(option)}\b', page), (name, option)


def test_mathematics_is_mathml_that_a_browser_draws(site, browser):
    for page in site.rglob("*.html"):
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(), flags=re.S)
        assert "$" not in text, page.name
        assert "<merror" not in text, page.name
    browser.open(site / "papers" / "hierarchical.html")
    assert browser.run("document.querySelectorAll('math[display=block]').length") >= 3
    bar = "(f => [f.getBoundingClientRect().height, f.children[0].getBoundingClientRect().height])"
    whole, top = browser.run(f"{bar}(document.querySelector('math[display=block] mfrac'))")
    assert whole > 1.5 * top > 0  # a fraction stands on two lines


@pytest.mark.parametrize("page", ["index.html", "which_model.html", "reference/estimators.html", "papers/ivm.html"])
def test_pages_open_from_disk_without_complaint(site, browser, page):
    browser.open(site / page)
    assert browser.complaints() == []
    assert all(url.startswith(("file:", "data:")) for url in browser.requests())
    assert browser.run("[...document.images].every(i => i.naturalWidth > 0)")
    assert browser.run("document.querySelector('[aria-current=page]') !== null")


@pytest.mark.parametrize("page", ["index.html", "which_model.html", "tutorial.html", "command_line.html"])
def test_phone_has_no_sideways_scrolling(site, browser, page):
    browser.open(site / page, width=360)
    assert browser.run("document.documentElement.scrollWidth") <= 360


def test_search_finds_a_name_and_leads_there(site, browser):
    browser.open(site / "howto" / "replicates.html")
    browser.run("(input.value = 'relatedness', input.dispatchEvent(new Event('input')))")
    links = browser.run("[...document.querySelectorAll('.found a')].map(a => a.href)")
    assert any(link.endswith("FocusedGPRegressor.relatedness") for link in links)
    browser.run("(input.value = 'zzyzx', input.dispatchEvent(new Event('input')))")
    assert browser.run("document.querySelector('.found').innerText") == "Nothing found"


@pytest.mark.parametrize(
    ("word", "cure"),
    [("categorical", "howto/tables.html"), ("missing", "howto/missing_data.html"), ("seasonal", "howto/forecast.html")],
)
def test_search_finds_the_cure(site, browser, word, cure):
    browser.open(site / "index.html")
    browser.run(f"(input.value = {word!r}, input.dispatchEvent(new Event('input')))")
    links = browser.run("[...document.querySelectorAll('.found a')].map(a => a.href)")
    assert any(cure in link for link in links), links


def test_dark_differs(site, browser):
    colours = "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"
    light = browser.open(site / "index.html", scheme="light").run(colours)
    dark = browser.open(site / "index.html", scheme="dark").run(colours)
    assert light != dark
