"""Inline SVG figures for web pages, whose text inherits the fonts and colors of the page."""

import base64
import gzip
import html
import io
import math
import re
import warnings

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from isopix.plots import style
from isopix.plots.figure_data import figure_csv

MAX_NAME = 40  # characters of the name of a file
COMPRESSED_BYTES = 1_000_000  # a larger CSV file is compressed, as three of the study's would be 24 MB
SMALLEST_TEXT = 11.1  # px, on a page; a browser rounds


def svg_markup(figure: Figure, name: str, alt: str) -> Markup:
    """Return `inline_svg` as markup that a template does not escape, and links to download the figure as an
    SVG file and its numbers as a CSV file, compressed by gzip if it is large.
    """
    file = _file_name(alt)
    numbers = figure_csv(figure).encode()
    links = [_download(f"{file}.svg", "image/svg+xml", standalone_svg(figure).encode(), "SVG")]
    if len(numbers) > COMPRESSED_BYTES:
        links.append(_download(f"{file}.csv.gz", "application/gzip", gzip.compress(numbers, mtime=0), "CSV"))
    else:
        links.append(_download(f"{file}.csv", "text/csv", numbers, "CSV"))
    drawing = Markup(inline_svg(figure, name=name, alt=alt))
    return drawing + Markup('<p class="downloads">{}</p>').format(Markup(" ").join(links))


def _file_name(alt: str) -> str:
    """Return the first sentence of a description as the name of a file, cut between words."""
    words = re.sub(r"[^a-z0-9]+", "-", alt.partition(".")[0].lower()).strip("-")
    if len(words) > MAX_NAME:
        words = words[: MAX_NAME + 1].rpartition("-")[0] or words[:MAX_NAME]
    return words or "figure"


def _download(file: str, media_type: str, content: bytes, text: str) -> Markup:
    data = base64.b64encode(content).decode()
    return Markup('<a download="{}" href="data:{};base64,{}">{}</a>').format(file, media_type, data, text)


@style.figure_style()
def standalone_svg(figure: Figure) -> str:
    """Return the content of an SVG file, on white and with the fonts of the figure or similar ones."""
    return _render(figure, transparent=False)


@style.figure_style()
def inline_svg(figure: Figure, *, name: str, alt: str) -> str:
    """Return the `<svg>` element of a figure; `name` makes its ids unique on the page.

    The text, muted and grid colors become the page's variables --ink, --quiet and --rule; text in another
    color is mixed with --ink, to be read on light and dark. The drawing is never so narrow that its text is
    too small to read.
    """
    text = _render(figure, transparent=True)
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub('font-family: [^;"]*', "font-family: inherit", text)
    for color, variable in (
        (style.TEXT_COLOR, "ink"),
        (style.MUTED_COLOR, "quiet"),
        (mpl.rcParams["grid.color"], "rule"),
    ):
        text = re.sub(color, f"var(--{variable})", text, flags=re.IGNORECASE)
    text = re.sub(r"<(?:text|tspan)\b[^>]*>", _readable, text)
    head = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text)
    assert head is not None
    label, width = html.escape(alt), _least_width(text, float(head[1].split()[2]))
    return (
        f'<svg viewBox="{head[1]}" role="img" aria-label="{label}" style="min-width: {width}px">'
        f"{text[head.end() :]}"
    )


def _readable(element: re.Match[str]) -> str:
    return re.sub(r"fill: (#[0-9a-f]{6})", r"fill: color-mix(in srgb, \1 50%, var(--ink))", element[0])


def _least_width(text: str, width: float) -> int:
    """Return the width in px at which the smallest text of a drawing of this width is readable."""
    sizes = [float(size) for size in re.findall(r"<text\b[^>]*?\bfont(?:-size)?: [^;\"]*?([\d.]+)px", text)]
    return math.ceil(width * SMALLEST_TEXT / min(sizes)) if sizes else 0


def _render(figure: Figure, *, transparent: bool) -> str:
    content = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's fonts may have it
        figure.savefig(content, format="svg", transparent=transparent, metadata={"Date": None})
    return content.getvalue()
