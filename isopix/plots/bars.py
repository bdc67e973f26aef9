"""Accuracies as grouped bars."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from isopix.plots import style
from isopix.plots.curves import HEIGHT, WIDTH

BAR_WIDTH = 0.36


class Bar(NamedTuple):
    """An accuracy, a fraction of images, and that of an ensemble, if there is one."""

    name: str
    accuracy: float
    ensemble: float | None = None


@style.figure_style()
def plot_accuracy_bars(groups: Mapping[str, Sequence[Bar]]) -> Figure:
    """Plot a group of bars for each key, a color for each name; ensembles are outlines (iGPT figure 4)."""
    figure = style.new_figure(HEIGHT, WIDTH)
    axes = figure.add_subplot()
    names = list(dict.fromkeys(bar.name for bars in groups.values() for bar in bars))
    for place, bars in enumerate(groups.values()):
        for bar in bars:
            index = names.index(bar.name)
            x = place + (index - (len(names) - 1) / 2) * BAR_WIDTH
            label = bar.name if place == 0 else f"_{bar.name}"
            axes.bar(x, bar.accuracy, 0.9 * BAR_WIDTH, color=style.COLORS[index], label=label)
            if bar.ensemble is not None:
                look: Any = {"edgecolor": style.TEXT_COLOR, "label": f"_{bar.name}, ensemble"}
                axes.bar(x, bar.ensemble, 0.9 * BAR_WIDTH, fill=False, **look)
            top = max(bar.accuracy, bar.ensemble or 0)
            axes.text(x, top, f"{100 * bar.accuracy:.1f} %", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(groups)), [style.wrap_title(name) for name in groups])
    axes.set_ylabel("Test accuracy")
    axes.margins(y=0.12)
    style.percent_ticks(axes.yaxis)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=len(names))
    return figure
