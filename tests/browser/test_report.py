"""Reports and study pages in a real browser: readable on every screen, in light and dark, and on paper."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import pages
from tests.browser.chromium import browser, needs_browser

__all__ = ["browser"]
pytestmark = needs_browser

INSPECTION = (Path(__file__).parent / "inspection.js").read_text()
WIDTHS = (360, 414, 660, 768, 1030, 1200, 1400)
PRINTED = 688  # px, of A4 between the margins of the page
Open = Callable[[str], Any]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {name: make(tmp_path_factory.mktemp(name)) for name, make in pages.PAGES.items()}


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page, which must ask nobody for anything, and report no error."""
    problems: list[str] = []
    context = browser.new_context(accept_downloads=True)

    def note_request(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            problems.append(f"request: {request.url}")

    def open_page(text: str) -> Any:
        file = tmp_path / "page.html"
        file.write_text(text)
        page = context.new_page()
        page.problems = problems
        page.on("request", note_request)
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(file.as_uri())
        page.evaluate(INSPECTION)
        return page

    yield open_page
    context.close()


def inspect(page: Any, scheme: str, widths: tuple[int, ...] = WIDTHS) -> list[str]:
    """What is wrong with the page, at all widths."""
    page.emulate_media(color_scheme=scheme)
    found = list(page.problems)
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        found += [f"{scheme} {width}: {each}" for each in page.evaluate("inspect()")]
    return found


def fold_out(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_readable_at_every_width(
    written: dict[str, str], opened: Open, name: str, scheme: str
) -> None:
    page = opened(written[name])
    assert inspect(page, scheme) == []
    fold_out(page)
    assert inspect(page, scheme, (360, 1400)) == []


@pytest.mark.parametrize("name", pages.PAGES)
def test_all_controls_are_reached_by_keyboard(written: dict[str, str], opened: Open, name: str) -> None:
    page = opened(written[name])
    controls = page.evaluate(
        "[...document.querySelectorAll('a, summary, button, input, [tabindex]')]"
        ".filter((each) => each.checkVisibility({ contentVisibilityAuto: true }))"
        ".map((each, place) => { each.place = place; return place; })"
    )
    reached = []
    for _ in range(len(controls) + 5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.place ?? -1"))
    assert set(controls) <= set(reached)
    targets = page.evaluate("[...document.querySelectorAll('a[href^=\"#\"]')].map(each => each.hash)")
    assert all(page.locator(target).count() == 1 for target in targets)


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_printed_whole_and_on_white(written: dict[str, str], opened: Open, name: str) -> None:
    page = opened(written[name])
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": PRINTED, "height": 970})
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    shown = (
        "[...document.querySelectorAll('body *')]."
        "filter(each => each.checkVisibility() && !each.closest('.hidden')"
    )
    cut = f"each.getBoundingClientRect().right > {PRINTED + 1}"
    assert page.evaluate(f"{shown} && {cut}).map(each => each.outerHTML.slice(0, 200))") == []
    rows = "[...document.querySelectorAll('tr, .table div')].map(each => getComputedStyle(each).breakInside)"
    assert set(page.evaluate(rows)) <= {"avoid"}
    folded = "[...document.querySelectorAll('details > :not(summary)')].every(each => each.checkVisibility())"
    assert page.evaluate(folded)
    printed = page.pdf(format="A4", prefer_css_page_size=True)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= pages.MOST_SHEETS[name]
