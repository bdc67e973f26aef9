"""Headless Chromium for tests of pages; skipped without Playwright or a browser."""

import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
has_browser = bool(BROWSER and importlib.util.find_spec("playwright"))
needs_browser = pytest.mark.skipif(not has_browser, reason="needs playwright and Chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  an optional package

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()
