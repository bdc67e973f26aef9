"""Figure style: sizes, fonts and a color-blind-safe palette for all figures."""

import io
from collections.abc import Mapping
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Figure  # noqa: PLC0414  other rooms import it from here
from matplotlib.ticker import FuncFormatter

from isopix.storage.atomic import replace_file, write_json

PAGE_WIDTH = 7.0  # inches, of the text of a page
TEXT_COLOR = "#22252A"
MUTED_COLOR = "#8A9099"  # axes and reference lines
GRID_COLOR = "#E4E7EB"
BACKGROUND = "#FFFFFF"
# Paul Tol's bright scheme, which is color-blind safe, in an order that maximizes the contrast of neighbors.
COLORS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")

SEQUENTIAL = LinearSegmentedColormap.from_list(
    "sequential", [BACKGROUND, "#9DBEDD", COLORS[0], "#1D3557"]
).with_extremes(bad=GRID_COLOR)
DIVERGING = LinearSegmentedColormap.from_list(
    "diverging", ["#8C2D3B", COLORS[1], BACKGROUND, COLORS[0], "#1D3557"]
)
DASHED, DOTTED = (0, (4, 3)), (0, (1, 2))
PRINT_SIZE = 11.2  # points, of all text of figures for print: 5 points where the page is printed 8 cm wide

_RC_PARAMS: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED_COLOR,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": TEXT_COLOR,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": TEXT_COLOR,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.dpi": 150,
    "figure.facecolor": BACKGROUND,
    "figure.figsize": (PAGE_WIDTH, 0.6 * PAGE_WIDTH),
    "font.family": "DejaVu Sans",  # bundled with matplotlib, so that figures are identical on all machines
    "font.size": 9,
    "grid.color": GRID_COLOR,
    "grid.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "savefig.dpi": 200,
    "savefig.facecolor": BACKGROUND,
    "svg.fonttype": "path",
    "svg.hashsalt": "isopix",  # makes files reproducible
    "text.color": TEXT_COLOR,
    "xtick.color": MUTED_COLOR,
    "xtick.labelcolor": TEXT_COLOR,
    "xtick.labelsize": 8,
    "ytick.color": MUTED_COLOR,
    "ytick.labelcolor": TEXT_COLOR,
    "ytick.labelsize": 8,
}


def figure_style() -> ContextDecorator:
    """Return a decorator that applies the style inside a plotting function only."""
    return mpl.rc_context(_RC_PARAMS)


def print_style() -> ContextDecorator:
    """Return a decorator as `figure_style`, with all text of one size that small prints leave readable."""
    names: Any = ("font.size", "axes.labelsize", "axes.titlesize", "legend.fontsize", "xtick.labelsize")
    return mpl.rc_context({**_RC_PARAMS, **dict.fromkeys((*names, "ytick.labelsize"), PRINT_SIZE)})


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


def enlarge_ticks(figure: Figure) -> None:
    """Set the size of print of all ticks, also of those that are made only when the figure is drawn."""
    for axes in figure.axes:
        axes.tick_params(labelsize=PRINT_SIZE)


def decimal(value: float, digits: int) -> str:
    """Return a number with these decimal places and a true minus sign, as `−0.25`; never `−0.00`."""
    return f"{value:z.{digits}f}".replace("-", "\N{MINUS SIGN}")


def percent_ticks(axis: Axis) -> None:
    """Format the ticks of an axis of fractions as percentages."""
    axis.set_major_formatter(FuncFormatter(lambda fraction, _: f"{100 * fraction:.0f} %"))


@figure_style()
def write_figure(figure: Figure, stem: Path, numbers: Mapping[str, Any] | None = None) -> list[Path]:
    """Write `stem` + .png and .svg, and numbers that no record has as .json. Raises ValueError for NaN."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg, values = (stem.with_name(stem.name + suffix) for suffix in (".png", ".svg", ".json"))
    if numbers is not None:
        write_json(values, numbers)
    replace_file(png, _drawn(figure, "png", {"Software": None}))
    figure.set_layout_engine("none")  # the panels stay where they are
    replace_file(svg, _drawn(figure, "svg", {"Date": None}))
    return [png, svg, *([] if numbers is None else [values])]


def _drawn(figure: Figure, format: str, metadata: Mapping[str, None]) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=format, metadata=metadata)
    return content.getvalue()
