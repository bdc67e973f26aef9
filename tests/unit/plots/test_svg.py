"""Figures of a page take its ink, and their texts are escaped."""

import re

from isopix.plots import style, svg


@style.paper()
def inline(text: str = "", name: str = "a", alt: str = "") -> str:
    drawn = style.figure()
    drawn.add_subplot().plot([1, 2], "o", label=text)
    drawn.axes[0].set_title(text, parse_math=False)
    return svg.inline(drawn, name=name, alt=alt)


def test_ink_follows_the_page() -> None:
    svg = inline("title")
    assert "var(--ink)" in svg
    assert style.INK.lower() not in svg.lower()
    assert style.QUIET.lower() not in svg.lower()


def test_texts_and_descriptions_are_escaped() -> None:
    svg = inline("<script>a & b", alt='"><script>')
    assert "<script" not in svg


def test_figures_of_a_page_share_no_id() -> None:
    one, other = (set(re.findall(r'\bid="([^"]*)"', inline(name=name))) for name in "ab")
    assert one
    assert not one & other


def test_every_reference_has_its_target() -> None:
    svg = inline()
    ids = set(re.findall(r'\bid="([^"]*)"', svg))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', svg)) <= ids


def test_letters_without_a_glyph_pass() -> None:
    assert "学" in inline("学")
