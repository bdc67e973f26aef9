"""Figure style: sizes, fonts, a color-blind-safe palette and marks of all figures; figures as files, and as
inline SVG, whose text inherits the fonts and colors of the page.
"""

import functools
import html
import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Figure  # noqa: PLC0414  other rooms import it from here
from matplotlib.rcsetup import cycler
from matplotlib.ticker import FuncFormatter

from isopix.storage.atomic import replace_file, write_json

P = ParamSpec("P")
PAGE_WIDTH = 7.0  # inches, of the text of a page
PRINT_SIZE = 11.2  # points, of all text of figures for print: 5 points where the page is printed 8 cm wide
DASHED, DOTTED = (0, (4, 3)), (0, (1, 2))

TEXT_COLOR, BACKGROUND, GRID_COLOR = "#22252A", "#FFFFFF", "#E4E7EB"
MUTED_COLOR = "#8A9099"  # of axes and reference lines
# Paul Tol's bright scheme, which is color-blind safe, in an order that maximizes the contrast of neighbors.
COLORS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")
TEXT_COLORS = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
_RC_PARAMS: Any = {
    # Not those of a file matplotlibrc in the working directory, which may be of a stranger, and run LaTeX.
    **{name: value for name, value in mpl.rcParamsDefault.items() if "backend" not in name},
    **dict.fromkeys(TEXT_COLORS, TEXT_COLOR),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), MUTED_COLOR),
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor"), BACKGROUND),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 8),
    **dict.fromkeys(("axes.spines.right", "axes.spines.top", "legend.frameon"), False),
    **dict.fromkeys(("axes.axisbelow", "axes.grid", "figure.constrained_layout.use"), True),
    "axes.grid.axis": "y",
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that figures are equal on all machines
    "font.size": 9,
    "grid.color": GRID_COLOR,
    "grid.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "isopix",
}
NAVY = "#1D3557"
_gradient = LinearSegmentedColormap.from_list
SEQUENTIAL = _gradient("sequential", [BACKGROUND, "#9DBEDD", COLORS[0], NAVY]).with_extremes(bad=GRID_COLOR)
DIVERGING = _gradient("diverging", ["#8C2D3B", COLORS[1], BACKGROUND, COLORS[0], NAVY])


def figure_style() -> ContextDecorator:
    """Return a decorator that applies the style inside a plotting function only."""
    return mpl.rc_context(_RC_PARAMS)


def print_style(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a plotting function as `figure_style`, with all text of one size for small prints."""
    names: Any = ("font.size", "axes.labelsize", "axes.titlesize", "legend.fontsize")

    @functools.wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> Figure:
        with mpl.rc_context({**_RC_PARAMS, **dict.fromkeys(names, PRINT_SIZE)}):
            figure = draw(*args, **options)
        for axes in figure.axes:  # also ticks that are made only when the figure is drawn
            axes.tick_params(labelsize=PRINT_SIZE)
        return figure

    return drawn


@figure_style()
def new_figure(height: float = 0.6 * PAGE_WIDTH, width: float = PAGE_WIDTH) -> Figure:
    """Return an empty figure of this size in inches, without pyplot's global state."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def wrap_title(title: str) -> str:
    """Break the title of a narrow panel after each comma."""
    return title.replace(", ", ",\n")


def add_key(figure: Figure, text: str) -> None:
    """Write what the marks of a figure mean, below its panels."""
    figure.supxlabel(text, fontsize=7.5, color=MUTED_COLOR)


def decimal(value: float, digits: int) -> str:
    """Return a number with these decimal places and a true minus sign, as `−0.25`; never `−0.00`."""
    return f"{value:z.{digits}f}".replace("-", "\N{MINUS SIGN}")


def percent_ticks(axis: Axis) -> None:
    """Format the ticks of an axis of fractions as percentages."""
    axis.set_major_formatter(FuncFormatter(lambda fraction, _: f"{100 * fraction:.0f}%"))


@figure_style()
def write_figure(figure: Figure, stem: Path, numbers: Mapping[str, Any] | None = None) -> None:
    """Write `stem` + .png and .svg, and numbers that no record has as .json. Raises ValueError for NaN."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    if numbers is not None:
        write_json(stem.with_name(f"{stem.name}.json"), numbers)
    for suffix, undated in (("png", "Software"), ("svg", "Date")):  # files of equal figures are equal
        content = io.BytesIO()
        figure.savefig(content, format=suffix, metadata={undated: None})
        replace_file(stem.with_name(f"{stem.name}.{suffix}"), content.getvalue())
        figure.set_layout_engine("none")  # the panels stay where they are


# Of studies; the size of a point and the dash of a line are the depth, and what is hollow is untrained.
BLOCK_COLORS = {
    "conv": COLORS[0],
    "mixer": COLORS[1],
    "transformer-1": COLORS[2],
    "transformer-4": COLORS[3],
    "transformer-1-nopos": COLORS[5],
}
ENCODING_COLORS = {"pix2vec": TEXT_COLOR, "fourier": "#E07B00", "continuous": "#2FA7BC"}
MARKERS = {"pix2vec": "o", "fourier": "^", "continuous": "s"}
DASHES: Mapping[int, Any] = {1: (0, (1, 1)), 3: (0, (4, 1.3)), 6: "-", 12: (0, (6, 1.2, 1, 1.2))}
DISPLAY_NAMES = {
    "conv": "convolution",
    "transformer-1": "transformer, 1 head",
    "transformer-4": "transformer, 4 heads",
    "transformer-1-nopos": "transformer, no positions",
    "fourier": "Fourier",
    "mean": "mean pool",
    "grid4": "4 × 4 pool",
    "raw pixels, PCA": "PCA",
}


def display_name(name: str) -> str:
    """Return the display name of a block, an encoding or a pool."""
    return DISPLAY_NAMES.get(name, name)


def block_color(block: str) -> str:
    """Return the color of a block, the same in all figures."""
    return BLOCK_COLORS.get(block, TEXT_COLOR)


def marker_size(depth: int) -> float:
    """Return the size of the points of a depth."""
    return 2 + 2 * depth**0.5


def marker_look(encoding: str, color: str, *, hollow: bool = False) -> dict[str, Any]:
    """Return the look of a marker of an encoding; hollow is untrained."""
    face, edge = (BACKGROUND, color) if hollow else (color, BACKGROUND)
    look = {"color": color, "markerfacecolor": face, "markeredgecolor": edge}
    return {**look, "marker": MARKERS.get(encoding, "D"), "markeredgewidth": 0.9 if hollow else 0.5}


def ordered(names: Iterable[str], order: Iterable[str]) -> list[str]:
    """Return each name once, known ones in this order."""
    known, found = list(order), dict.fromkeys(names)
    return sorted(found, key=lambda name: known.index(name) if name in known else len(known))


def block_order(blocks: Iterable[str]) -> list[str]:
    """Return each block once, in the order of all figures: convolution, mixer, transformers."""
    return ordered(blocks, BLOCK_COLORS)


SMALLEST_TEXT = 11.1  # px, on a page; a browser rounds


def inline_svg(figure: Figure, *, name: str, alt: str) -> str:
    """Return the `<svg>` element of a figure; `name` makes its ids unique on the page.

    Colors become the page's variables --ink, --quiet and --rule, to be read on light and dark.
    """
    text = render_svg(figure, transparent=True)
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub('font-family: [^;"]*', "font-family: inherit", text)
    variables = {TEXT_COLOR: "ink", MUTED_COLOR: "quiet", GRID_COLOR: "rule"}
    for color, variable in variables.items():
        text = re.sub(color, f"var(--{variable})", text, flags=re.IGNORECASE)
    readable = r"fill: color-mix(in srgb, \1 50%, var(--ink))"
    text = re.sub(
        r"<(?:text|tspan)\b[^>]*>", lambda tag: re.sub(r"fill: (#[0-9a-f]{6})", readable, tag[0]), text
    )
    head = re.search(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text)
    assert head is not None
    sizes = [float(size) for size in re.findall(r"<text\b[^>]*?\bfont(?:-size)?: [^;\"]*?([\d.]+)px", text)]
    # The width in px at which the smallest text is readable.
    width = math.ceil(float(head[1].split()[2]) * SMALLEST_TEXT / min(sizes)) if sizes else 0
    label, look = html.escape(alt), f"min-width: {width}px"
    start = f'<svg viewBox="{head[1]}" role="img" aria-label="{label}" style="{look}">'
    return start + text[head.end() :]


@figure_style()
def render_svg(figure: Figure, *, transparent: bool = False) -> str:
    """Return the content of an SVG file; its text is that of the fonts of the reader."""
    content = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's fonts may have it
        figure.savefig(content, format="svg", transparent=transparent, metadata={"Date": None})
    return content.getvalue()
