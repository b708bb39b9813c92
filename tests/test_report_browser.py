"""The report in a real browser: headless Chromium opens it from disk, in light, dark, small and printed."""

import base64

import pytest

import report_samples as samples
from borrow import report

ALL = ["regression", "hostile", "curve", "surface", "classification", "every_task"]
PHONE = 360


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {name: report.write(folder / f"{name}.html", getattr(samples, name)()) for name in ALL}


def column(browser, table, index):
    rows = f"[...document.querySelectorAll('table.sortable')[{table}].tBodies[0].rows]"
    return browser.run(f"{rows}.map(r => r.cells[{index}].innerText.trim())")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_from_disk_without_complaint_or_request(browser, pages, name, scheme):
    browser.open(pages[name], scheme=scheme)
    assert browser.complaints() == []
    assert browser.requests() == [pages[name].resolve().as_uri()]
    assert browser.run("document.querySelector('h1').innerText").strip()
    assert browser.run("document.querySelectorAll('svg.figure').length") >= 6
    shape = "const b = s.getBoundingClientRect(); return b.width > 100 && b.height > 20"
    assert browser.run(f"[...document.querySelectorAll('svg.figure')].every(s => {{ {shape} }})")


def test_policy_would_stop_a_foreign_script(browser, pages):
    """The policy is in force: a script put into the page is refused, and so is a request."""
    browser.open(pages["regression"])
    browser.run(
        "{ const s = document.createElement('script'); s.textContent = 'window.foreign = 1'; document.body.append(s); }"
    )
    assert browser.run("window.foreign === undefined")
    assert browser.run("fetch('data:text/plain,x').then(() => 'went', () => 'refused')") == "refused"


def test_click_on_a_header_sorts_numbers_and_back(browser, pages):
    browser.open(pages["regression"])
    before = column(browser, 0, 1)
    head = "document.querySelectorAll('table.sortable')[0].tHead.rows[0].cells[1]"
    browser.run(f"{head}.querySelector('button').click()")
    up = [float(v) for v in column(browser, 0, 1)]
    assert up == sorted(up)
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    browser.run(f"{head}.querySelector('button').click()")
    down = [float(v) for v in column(browser, 0, 1)]
    assert down == sorted(down, reverse=True)
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "descending"
    assert sorted(before) == sorted(column(browser, 0, 1))
    other = "document.querySelectorAll('table.sortable')[0].tHead.rows[0].cells[2]"
    browser.run(f"{other}.querySelector('button').click()")
    assert browser.run(f"{head}.getAttribute('aria-sort')") is None


def test_missing_numbers_sort_last_both_ways(browser, pages):
    browser.open(pages["regression"])
    names = browser.run("[...document.querySelectorAll('table.sortable')[2].tHead.rows[0].cells].map(c => c.innerText)")
    at = next(i for i, name in enumerate(names) if "gain" in name)
    button = f"document.querySelectorAll('table.sortable')[2].tHead.rows[0].cells[{at}].querySelector('button')"
    for _ in range(2):
        browser.run(f"{button}.click()")
        values = column(browser, 2, at)
        assert values.count("\u2013") == 1
        assert values[-1] == "\u2013"


def test_keyboard_sorts(browser, pages):
    browser.open(pages["regression"])
    head = "document.querySelectorAll('table.sortable')[0].tHead.rows[0].cells[0]"
    browser.run(f"{head}.querySelector('button').focus()")
    browser.press("Enter", text="\r")
    names = column(browser, 0, 0)
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert names[0].startswith("focused GP")
    assert names[-1] == "symmetric multi-task GP"
    browser.press(" ", "Space", " ")
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "descending"


def test_hostile_names_run_nothing_and_show_as_text(browser, pages):
    browser.open(pages["hostile"])
    assert browser.complaints() == []  # no dialog, no policy violation, no error
    shown = browser.run("document.body.innerText")
    assert "<script>alert(1)</script>" in shown
    assert "\"quoted\" & 'so' <b>bold</b>" in shown
    assert "</script><img src=x onerror=alert(2)>" in shown
    assert "{{ 7*7 }}" in shown
    assert browser.run("document.title").startswith("<script>alert(1)</script>: helps")
    assert browser.run("document.querySelectorAll('img, b').length") == 0
    assert browser.run("document.scripts.length") == 2
    tips = browser.run("[...document.querySelectorAll('svg title')].map(t => t.textContent).join('|')")
    assert "<script>alert(1)</script>" in tips
    inside = "JSON.parse(document.getElementById('summary').textContent).data.target"
    assert browser.run(inside) == "<script>alert(1)</script>"


@pytest.mark.parametrize("name", ALL)
def test_phone_has_no_sideways_scrolling(browser, pages, name):
    browser.open(pages[name], width=PHONE, height=740)
    for _ in range(2):
        assert browser.run("document.documentElement.scrollWidth") <= PHONE
        wide = "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') || e.matches('.scroll'))"
        box = "const b = e.getBoundingClientRect(); return b.width > 0 && (b.right > 361 || b.left < -1)"
        beyond = f"{wide}.filter(e => {{ {box} }}).map(e => e.outerHTML.slice(0, 80))"
        assert browser.run(beyond) == []
        browser.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
    tables = "[...document.querySelectorAll('div.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert browser.run(tables) == 0  # on a phone rows become cards, so that tables do not scroll either


def test_desk_tables_stay_inside(browser, pages):
    for name in ALL:
        browser.open(pages[name], width=1000)
        assert browser.run("document.documentElement.scrollWidth") <= 1000


def test_dark_differs_and_both_can_be_read(browser, pages):
    """Contrast of text on its background by the formula of WCAG: at least 4.5 by day and by night."""
    contrast = """(() => {
      const light = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
        .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
      const back = light(getComputedStyle(document.body).backgroundColor);
      const of = (e, what) => { const a = light(getComputedStyle(e)[what]);
        return (Math.max(a, back) + 0.05) / (Math.min(a, back) + 0.05); };
      const text = ['h1', '.interval', 'figcaption', 'thead th', 'tbody td', 'nav a', 'footer p']
        .map(s => of(document.querySelector(s), 'color'));
      const drawn = ['svg text.tick', 'svg text.name', 'svg text.axis'].map(s => of(document.querySelector(s), 'fill'));
      const marks = [['svg .mark.judged .dot', 'fill'], ['svg .curve.alone', 'stroke']]
        .map(([s, what]) => of(document.querySelector(s), what));
      return [Math.min(...text, ...drawn), Math.min(...marks), getComputedStyle(document.body).backgroundColor];
    })()"""
    found = {}
    for scheme in ("light", "dark"):
        browser.open(pages["regression"], scheme=scheme)
        found[scheme] = browser.run(contrast)
        assert found[scheme][0] >= 4.5
        assert found[scheme][1] >= 3.0
    assert found["light"][2] != found["dark"][2]


def test_print_shows_everything_that_matters(browser, pages, tmp_path):
    browser.open(pages["regression"], scheme="dark", media="print")
    hidden = "[...document.querySelectorAll('main section, main table, main svg.figure, h1, .advice li, figcaption')]"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(f"{hidden}.filter(e => e.getClientRects().length === 0).length") == 0
    assert (
        browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )  # paper, even at night
    browser.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")


def test_without_javascript_the_page_is_whole(browser, pages):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages["regression"])
        assert browser.complaints() == []
        assert browser.run("document.querySelectorAll('button').length") == 0  # no control that does nothing
        assert browser.run("document.querySelector('table.sortable thead th').innerText") == "method"
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_a_curve_says_its_values_to_a_pointer_and_tables_can_be_kept(browser, pages):
    browser.open(pages["curve"])
    told = browser.run("[...document.querySelectorAll('.hover title')].map(t => t.textContent)")
    assert len(told) > 40
    assert all(": " in words and " to " in words for words in told[:10])
    files = "[...document.querySelectorAll('a[download]')].map(a => fetch === undefined ? '' : a.href)"
    first = browser.run(files)[0]
    assert first.startswith("data:text/csv;base64,")
    lines = base64.b64decode(first.split(",", 1)[1]).decode().split("\r\n")
    assert lines[0].startswith('"method","error"')
    assert lines[1].startswith('"no transfer",0.112,0.011,0.0,,,')
    assert browser.complaints() == []
