"""Fixtures that several files share."""

import pytest

from browser import Browser, find_chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = find_chromium()
    if path is None:
        pytest.skip("Chromium is not installed (apt-get install chromium, or name one in BORROW_CHROMIUM)")
    started = Browser(path, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
