"""Inline SVG figures for web pages, whose text inherits the fonts and colors of the page."""

import html
import io
import re
import warnings

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from isopix.plots import style


def svg_markup(figure: Figure, name: str, alt: str) -> Markup:
    """Return `inline_svg` as markup that a template does not escape."""
    return Markup(inline_svg(figure, name=name, alt=alt))


@style.figure_style()
def inline_svg(figure: Figure, *, name: str, alt: str) -> str:
    """Return the `<svg>` element of a figure; `name` makes its ids unique on the page.

    The text, muted and grid colors become the page's variables --ink, --quiet and --rule.
    """
    text = _render(figure)
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub('font-family: [^;"]*', "font-family: inherit", text)
    for color, variable in (
        (style.TEXT_COLOR, "ink"),
        (style.MUTED_COLOR, "quiet"),
        (mpl.rcParams["grid.color"], "rule"),
    ):
        text = re.sub(color, f"var(--{variable})", text, flags=re.IGNORECASE)
    head = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text)
    assert head is not None
    label = html.escape(alt)
    return f'<svg viewBox="{head[1]}" role="img" aria-label="{label}">{text[head.end() :]}'


def _render(figure: Figure) -> str:
    content = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's fonts may have it
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    return content.getvalue()
