"""One browser for the tests of a module that open pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first one draws no window, for which the others take most of their time with a short page."""
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), "")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright; the test is skipped where either is missing.

    An open browser keeps an event loop running in this thread and a process below this one. Tests of other rooms, which
    a process may run in between, start event loops and count processes themselves.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra `dev`)")
    if not BROWSER:
        pytest.skip("there is no Chromium on the PATH (Debian: apt-get install chromium-headless-shell)")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield opened
        opened.close()
