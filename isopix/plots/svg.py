"""Inline SVG figures for web pages, whose text inherits the fonts and colors of the page."""

import csv
import html
import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from isopix.plots import style

SMALLEST_TEXT = 11.1  # px, on a page; a browser rounds


def numbers_csv(numbers: Any) -> str:
    """Return a record as CSV: a line for each value, after its names and indices in the record."""
    rows = list(_leaves(numbers))
    depth = max((len(path) for path, _ in rows), default=0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*["name"] * bool(depth), *["index"] * (depth - 1), "value"])
    writer.writerows([*path, *[""] * (depth - len(path)), value] for path, value in rows)
    return text.getvalue()


def _leaves(numbers: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], object]]:
    parts = dict(enumerate(numbers)) if isinstance(numbers, list | tuple) else numbers
    if not isinstance(parts, Mapping):
        yield path, numbers
        return
    for name, part in parts.items():
        yield from _leaves(part, (*path, name))


def inline_svg(figure: Figure, *, name: str, alt: str) -> str:
    """Return the `<svg>` element of a figure; `name` makes its ids unique on the page.

    Colors become the page's variables --ink, --quiet and --rule, to be read on light and dark.
    """
    text = render_svg(figure, transparent=True)
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub('font-family: [^;"]*', "font-family: inherit", text)
    variables = {style.TEXT_COLOR: "ink", style.MUTED_COLOR: "quiet", style.GRID_COLOR: "rule"}
    for color, variable in variables.items():
        text = re.sub(color, f"var(--{variable})", text, flags=re.IGNORECASE)
    readable = r"fill: color-mix(in srgb, \1 50%, var(--ink))"
    text = re.sub(
        r"<(?:text|tspan)\b[^>]*>", lambda tag: re.sub(r"fill: (#[0-9a-f]{6})", readable, tag[0]), text
    )
    head = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text)
    assert head is not None
    label, width = html.escape(alt), _least_width(text, float(head[1].split()[2]))
    start = f'<svg viewBox="{head[1]}" role="img" aria-label="{label}" style="min-width: {width}px">'
    return start + text[head.end() :]


def _least_width(text: str, width: float) -> int:
    """Return the width in px at which the smallest text of a drawing of this width is readable."""
    sizes = [float(size) for size in re.findall(r"<text\b[^>]*?\bfont(?:-size)?: [^;\"]*?([\d.]+)px", text)]
    return math.ceil(width * SMALLEST_TEXT / min(sizes)) if sizes else 0


@style.figure_style()
def render_svg(figure: Figure, *, transparent: bool = False) -> str:
    """Return the content of an SVG file; its text is that of the fonts of the reader."""
    content = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's fonts may have it
        figure.savefig(content, format="svg", transparent=transparent, metadata={"Date": None})
    return content.getvalue()
