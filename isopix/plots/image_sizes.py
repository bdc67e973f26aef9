"""Sizes of images: histograms of widths and heights, or a bar where all are of one size."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from isopix.plots import style

HEIGHT = 2.6  # inches
MAX_BINS = 40


@style.figure_style()
def plot_image_sizes(sizes: Mapping[tuple[int, int], int]) -> Figure:
    """Plot the numbers of images by width and by height, in pixels, from those of each (width, height)."""
    figure = style.new_figure(HEIGHT)
    names = ("Width (pixels)", "Height (pixels)")
    panels = figure.subplots(1, len(names), sharey=True)
    for place, (axes, name) in enumerate(zip(panels, names, strict=True)):
        counts: Counter[int] = Counter()
        for size, count in sizes.items():
            counts[size[place]] += count
        _histogram(axes, counts, style.COLORS[place])
        axes.set_xlabel(name)
    panels[0].set_ylabel("Images")
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    panels[0].yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


def _histogram(axes: Axes, counts: Mapping[int, int], color: str) -> None:
    """Plot bins of equal width of whole pixels; one bar where there is one value."""
    values, weights = np.array(list(counts)), np.array(list(counts.values()))
    low, high = int(values.min()), int(values.max())
    width = max(1, -(-(high - low + 1) // MAX_BINS))
    edges = np.arange(low, high + width + 1, width) - 0.5
    axes.hist(values, edges.tolist(), weights=weights, color=color, edgecolor=style.BACKGROUND, linewidth=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if low == high:
        axes.set_xlim(low - 5, high + 5)
        axes.set_xticks([low])
