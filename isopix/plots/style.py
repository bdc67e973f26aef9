"""The one look of every picture: quiet axes, lines that colour-blind readers can tell apart, paper sizes."""

import json
from collections.abc import Mapping
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

WIDTH = 7.0  # inches: a page's text width
INK = "#22252A"
QUIET = "#8A9099"  # axes, notes, controls
FAINT = "#E4E7EB"  # grid lines
PAPER = "#FFFFFF"
# Paul Tol's bright scheme, in the order in which neighbours differ most; told apart with any colour vision.
LINES = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")

# For maps: from nothing to all, with what cannot be in grey; and from -1 over 0 to 1.
SHADES = LinearSegmentedColormap.from_list("shades", [PAPER, "#9DBEDD", LINES[0], "#1D3557"]).with_extremes(
    bad=FAINT
)
APART = LinearSegmentedColormap.from_list("apart", ["#8C2D3B", LINES[1], PAPER, LINES[0], "#1D3557"])

_SETTINGS: Any = {  # matplotlib's own names
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": cycler(color=LINES),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.dpi": 150,
    "figure.facecolor": PAPER,
    "figure.figsize": (WIDTH, 0.6 * WIDTH),
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture on every machine
    "font.size": 9,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "savefig.dpi": 200,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "path",
    "svg.hashsalt": "isopix",  # equal numbers give equal files
    "text.color": INK,
    "xtick.color": QUIET,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.color": QUIET,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8,
}


def paper() -> ContextDecorator:
    """Decorates a function that draws: the style holds inside it and nowhere else."""
    return mpl.rc_context(_SETTINGS)


@paper()
def figure(height: float = 0.6 * WIDTH, width: float = WIDTH) -> Figure:
    """An empty figure of that many inches, drawn by Agg without a window or a global state."""
    drawn = Figure(figsize=(width, height))
    FigureCanvasAgg(drawn)
    return drawn


def narrow(title: str) -> str:
    """The title of a panel that is not wide: broken after each comma."""
    return title.replace(", ", ",\n")


@paper()
def save(drawn: Figure, stem: Path, numbers: Mapping[str, Any]) -> tuple[Path, Path, Path]:
    """Write `stem` + .png, .svg and, with the numbers that it shows, .json; raises ValueError on nan."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg, values = (stem.with_name(stem.name + suffix) for suffix in (".png", ".svg", ".json"))
    text = json.dumps(numbers, indent=2, allow_nan=False) + "\n"
    drawn.savefig(png, metadata={"Software": None})
    drawn.savefig(svg, metadata={"Date": None})
    values.write_text(text)
    return png, svg, values
