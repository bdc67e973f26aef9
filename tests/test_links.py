"""Links of the documentation lead to files and headings that are there, also on a code host."""

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in page.parts),  # generated
]
CODE = re.compile(r"```.*?```", re.DOTALL)
INLINE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def links(text: str) -> list[str]:
    """Return the targets of all links outside code, but those to other sites."""
    return [link for link in LINK.findall(INLINE.sub("", CODE.sub("", text))) if "://" not in link]


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that code hosts and MyST make of the headings of a page."""
    titles = HEADING.findall(CODE.sub("", page.read_text()))
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).replace("`", "") for title in titles]
    kept = (re.sub(r"[^\w\- ]", "", unicodedata.normalize("NFC", title.lower())) for title in titles)
    return {title.strip().replace(" ", "-") for title in kept}


def broken(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead nowhere."""
    found = []
    for link in links(text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


def test_broken_links_are_found() -> None:
    text = "[a](missing.md) [b](README.md#no-such-heading) [c](README.md) `[d](code.md)` [e](https://a.b/c)"
    assert broken(ROOT / "README.md", text) == ["missing.md", "README.md#no-such-heading"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    listed = set(re.findall(r"^[a-z][\w/-]+$", index, re.MULTILINE))
    docs = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]
    pages = {str(page.relative_to(ROOT / "docs")).removesuffix(".md") for page in docs}
    assert pages - {"index"} == {name for name in listed if not name.startswith("reference/")}
