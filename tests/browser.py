"""Chromium for the tests of pages: one for a module, and pages that complain of nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

WIDTHS = (390, 1400)
SCHEMES = ("light", "dark")
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
MISSING = "NO BROWSER: `make test-browser` installs Chromium and playwright"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
driver: Any = import_module("playwright.sync_api") if find_spec("playwright") else None


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if driver is None or CHROMIUM is None:
        pytest.skip(MISSING)
    with driver.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def new_page(browser: Any) -> Iterator[Any]:
    """A function that opens an address at a width and in a colour scheme; afterwards, no page may have complained."""
    complaints: list[str] = []
    pages: list[Any] = []

    def open_(url: str, width: int, scheme: str) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
        page.set_default_timeout(30_000)  # a busy machine is slow
        page.on("console", lambda what: complaints.append(what.text))
        page.on("pageerror", lambda what: complaints.append(str(what)))
        pages.append(page)
        page.goto(url)
        return page

    yield open_
    for page in pages:
        page.close()
    assert complaints == []
