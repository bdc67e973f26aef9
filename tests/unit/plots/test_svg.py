"""Inline figures use the colors of the page, and their text is escaped."""

import base64
import gzip
import re

import numpy as np

from isopix.plots import style, svg


@style.figure_style()
def inline(text: str = "", name: str = "a", alt: str = "") -> str:
    figure = style.new_figure()
    figure.add_subplot().plot([1, 2], "o", label=text)
    figure.axes[0].set_title(text, parse_math=False)
    return svg.inline_svg(figure, name=name, alt=alt)


def test_colors_are_those_of_the_page() -> None:
    svg = inline("title")
    assert "var(--ink)" in svg
    assert style.TEXT_COLOR.lower() not in svg.lower()
    assert style.MUTED_COLOR.lower() not in svg.lower()


def test_text_and_descriptions_are_escaped() -> None:
    svg = inline("<script>a & b", alt='"><script>')
    assert "<script" not in svg


def test_ids_of_figures_are_unique() -> None:
    one, other = (set(re.findall(r'\bid="([^"]*)"', inline(name=name))) for name in "ab")
    assert one
    assert not one & other


def test_every_reference_has_a_target() -> None:
    svg = inline()
    ids = set(re.findall(r'\bid="([^"]*)"', svg))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', svg)) <= ids


def test_characters_without_a_glyph_are_kept() -> None:
    assert "学" in inline("学")


def test_large_numbers_are_compressed_and_names_end_with_a_word() -> None:
    figure = style.new_figure()
    figure.add_subplot().imshow(np.random.default_rng(0).random((256, 256)))
    markup = svg.svg_markup(figure, "a", "Similarity of all of the pairs of levels of red. More text")
    found = re.search(r'download="([^"]*)\.csv\.gz" href="data:application/gzip;base64,([^"]*)"', markup)
    assert found is not None
    assert found[1] == "similarity-of-all-of-the-pairs-of-levels"
    rows = gzip.decompress(base64.b64decode(found[2])).decode().splitlines()
    assert len(rows) == 256 * 256 + 1
    assert len(found[2]) < svg.COMPRESSED_BYTES
