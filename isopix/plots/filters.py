"""Principal components of patch-embedding filters as images, and of pixel-value tables as scatter plots."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isopix.plots import style

Numbers = Mapping[str, Any]

PANELS_PER_ROW = 7
CHANNELS = ("Red", "Green", "Blue")
CHANNEL_COLORS = (style.COLORS[1], style.COLORS[2], style.COLORS[0])


def plot_embedding_pca(numbers: Numbers) -> Figure:
    """Plot the `embedding_pca` analysis, of filters or of tables."""
    return plot_filters(numbers) if numbers["weights"] == "filters" else plot_tables(numbers)


@style.figure_style()
def plot_filters(numbers: Numbers) -> Figure:
    """Plot the principal components of patch-embedding filters with the fraction of variance that each
    explains (Vision Transformer, figure 7, left).
    """
    images = np.array(numbers["components"], dtype=float)
    rows = -(-len(images) // PANELS_PER_ROW)
    figure = style.new_figure(rows * 1.14)
    panels = figure.subplots(rows, PANELS_PER_ROW, squeeze=False).ravel()
    for axes in panels:
        axes.axis("off")
    for axes, image, ratio in zip(panels, images, numbers["explained_variance_ratio"], strict=False):
        axes.imshow(image, interpolation="nearest")
        axes.text(0.5, -0.06, _percent(ratio), transform=axes.transAxes, fontsize=7.5, ha="center", va="top")
    return figure


@style.figure_style()
def plot_tables(numbers: Numbers) -> Figure:
    """Plot the projections of a palette's colors onto pairs of components, or of each channel's levels onto
    the first components; the last panel shows the cumulative explained variance.
    """
    tables = numbers["tables"]
    figure = style.new_figure(2.45)
    if "colors" in numbers:
        colors = np.array(numbers["colors"]) / 255
        projections = np.array(tables[0]["projections"], dtype=float)
        ratios = tables[0]["explained_variance_ratio"]
        pairs = min(2, projections.shape[1] // 2)  # a palette of two or three colors has no four components
        panels = figure.subplots(1, pairs + 1, width_ratios=(*[1] * pairs, 0.8))
        for axes, first in zip(panels[:pairs], (0, 2), strict=False):
            _scatter(axes, projections[:, first : first + 2], colors, ratios[first : first + 2], first)
        _explained_variance(panels[-1], [ratios], [style.MUTED_COLOR])
        return figure
    panels = figure.subplots(1, len(tables) + 1, width_ratios=(*[1.0] * len(tables), 0.9), squeeze=False)[0]
    for axes, table, name in zip(panels, tables, CHANNELS, strict=False):
        projections = np.array(table["projections"], dtype=float)[:, :3]
        _levels(axes, projections, table["explained_variance_ratio"], name)
    ratios = [table["explained_variance_ratio"] for table in tables]
    _explained_variance(panels[-1], ratios, list(CHANNEL_COLORS))
    return figure


def _scatter(axes: Axes, points: Any, colors: Any, ratios: Any, first: int) -> None:
    axes.scatter(points[:, 0], points[:, 1], c=colors, s=13, edgecolors=style.MUTED_COLOR, linewidths=0.25)
    names = [f"Component {first + i + 1} ({_percent(ratio)})" for i, ratio in enumerate(ratios)]
    axes.set(xlabel=names[0], ylabel=names[1], xticks=[], yticks=[])
    axes.spines[["top", "right"]].set_visible(True)
    axes.margins(0.06)


def _levels(axes: Axes, projections: Any, ratios: Any, name: str) -> None:
    for number, (line, ratio) in enumerate(zip(projections.T, ratios, strict=False), start=1):
        color = style.COLORS[(0, 1, 3)[number - 1]]
        axes.plot(line, color=color, linewidth=0.8, label=f"PC {number} ({_percent(ratio)})")
    axes.set_title(name)
    axes.set(xlabel="Level", xticks=[0, 128, 255], yticks=[])
    below: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.24), "ncols": 1}
    axes.legend(**below, fontsize=6.5, handlelength=0.9, handletextpad=0.4, labelspacing=0.3)


def _explained_variance(axes: Axes, ratios: list[Any], colors: list[str]) -> None:
    for each, color in zip(ratios, colors, strict=True):
        axes.plot(range(1, len(each) + 1), np.cumsum(each), "o-", color=color, linewidth=1.2, markersize=3)
    axes.set(xlabel="Components", ylabel="Explained variance", ylim=(0, 1.03))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    style.percent_ticks(axes.yaxis)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %" if fraction >= 0.1 else f"{100 * fraction:.1f} %"
