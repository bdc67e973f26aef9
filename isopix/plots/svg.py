"""Figures for a web page: inline SVG whose text is text, in the letters and the ink of the page around it."""

import html
import io
import re
import warnings

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from isopix.plots import style


def markup(drawn: Figure, name: str, alt: str) -> Markup:
    """The same element as `inline` makes, for a template that escapes everything else."""
    return Markup(inline(drawn, name=name, alt=alt))


@style.paper()
def inline(drawn: Figure, *, name: str, alt: str) -> str:
    """The `<svg>` element; `name` keeps its ids apart from those of other figures on the page.

    Ink, quiet ink and grid become the page's variables --ink, --quiet and --rule: they follow its scheme.
    """
    text = _svg(drawn)
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub('font-family: [^;"]*', "font-family: inherit", text)
    for colour, variable in (
        (style.INK, "ink"),
        (style.QUIET, "quiet"),
        (mpl.rcParams["grid.color"], "rule"),
    ):
        text = re.sub(colour, f"var(--{variable})", text, flags=re.IGNORECASE)
    head = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text)
    assert head is not None
    label = html.escape(alt)
    return f'<svg viewBox="{head[1]}" role="img" aria-label="{label}">{text[head.end() :]}'


def _svg(drawn: Figure) -> str:
    content = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's machine has the letters
        drawn.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    return content.getvalue()
