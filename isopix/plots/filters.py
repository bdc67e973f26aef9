"""What a stem embeds by, drawn: components of patch filters as pictures, those of pixel values as places."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from isopix.plots import style

Numbers = Mapping[str, Any]

ACROSS = 7  # pictures of a line
CHANNELS = ("red", "green", "blue")
COLOURS = (style.LINES[1], style.LINES[2], style.LINES[0])


@style.paper()
def pictures(numbers: Numbers) -> Figure:
    """Principal components of a patch embedding's filters, widest first (Vision Transformer, figure 7,
    left); below each the share of variance that it explains.
    """
    shown = np.array(numbers["components"], dtype=float)
    lines = -(-len(shown) // ACROSS)
    drawn = style.figure(lines * 1.14, style.WIDTH)
    table = drawn.subplots(lines, ACROSS, squeeze=False).ravel()
    for axes in table:
        axes.axis("off")
    for axes, patch, share in zip(table, shown, numbers["explained"], strict=False):
        axes.imshow(patch, interpolation="nearest")
        axes.text(0.5, -0.06, _percent(share), transform=axes.transAxes, fontsize=7.5, ha="center", va="top")
    return drawn


@style.paper()
def values(numbers: Numbers) -> Figure:
    """Of a palette: each colour where the first two components put it, and the next two; of channels: the
    place of every level along the first components. Beside them what each component explains.
    """
    tables = numbers["tables"]
    drawn = style.figure(2.45, style.WIDTH)
    if "colours" in numbers:
        colours = np.array(numbers["colours"]) / 255
        along, explained = np.array(tables[0]["along"], dtype=float), tables[0]["explained"]
        pairs = min(2, along.shape[1] // 2)  # a palette of two or three colours has no four components
        plots = drawn.subplots(1, pairs + 1, width_ratios=(*[1] * pairs, 0.8))
        for axes, first in zip(plots[:pairs], (0, 2), strict=False):
            _scatter(axes, along[:, first : first + 2], colours, explained[first : first + 2], first)
        _explained(plots[-1], [explained], [style.QUIET])
        return drawn
    plots = drawn.subplots(1, len(tables) + 1, width_ratios=(*[1.0] * len(tables), 0.9), squeeze=False)[0]
    for axes, table, name in zip(plots, tables, CHANNELS, strict=False):
        _levels(axes, np.array(table["along"], dtype=float)[:, :3], table["explained"], name)
    _explained(plots[-1], [table["explained"] for table in tables], list(COLOURS))
    return drawn


def draw(numbers: Numbers) -> Figure:
    """Whichever of the two the stem is."""
    return pictures(numbers) if numbers["of"] == "filters" else values(numbers)


def _scatter(axes: Axes, places: Any, colours: Any, explained: Any, first: int) -> None:
    axes.scatter(places[:, 0], places[:, 1], c=colours, s=13, edgecolors=style.QUIET, linewidths=0.25)
    names = [f"component {first + i + 1} ({_percent(share)})" for i, share in enumerate(explained)]
    axes.set(xlabel=names[0], ylabel=names[1], xticks=[], yticks=[])
    axes.spines[["top", "right"]].set_visible(True)
    axes.margins(0.06)


def _levels(axes: Axes, along: Any, explained: Any, name: str) -> None:
    for number, (line, share) in enumerate(zip(along.T, explained, strict=False), start=1):
        colour = style.LINES[(0, 1, 3)[number - 1]]
        axes.plot(line, color=colour, linewidth=0.8, label=_percent(share))
    axes.set_title(name)
    axes.set(xlabel="level", xticks=[0, 128, 255], yticks=[])
    below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.24), "ncols": 3}
    axes.legend(**below, fontsize=6.5, handlelength=0.9, handletextpad=0.4, columnspacing=0.8)


def _explained(axes: Axes, shares: list[Any], colours: list[str]) -> None:
    for each, colour in zip(shares, colours, strict=True):
        axes.plot(range(1, len(each) + 1), np.cumsum(each), "o-", color=colour, linewidth=1.2, markersize=3)
    axes.set(xlabel="components", ylim=(0, 1.03))
    axes.set_title("explained")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"
