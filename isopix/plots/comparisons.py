"""Comparisons: contrasts with their intervals as a forest plot, and accuracies as grouped bars."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from isopix.plots import style

ROW_HEIGHT = 0.26  # inches, of a contrast
PANEL_HEIGHT = 0.8  # inches, of the axis of a panel and its label
OFFSET = 0.34  # rows, between the marks of a row
LOOKS: Any = (  # of groups; no color of a block or an encoding
    {"marker": "o", "color": style.TEXT_COLOR, "markerfacecolor": style.TEXT_COLOR},
    {"marker": "D", "color": style.MUTED_COLOR, "markerfacecolor": style.MUTED_COLOR},
    {"marker": "s", "color": style.TEXT_COLOR, "markerfacecolor": style.BACKGROUND},
)
SHADE = "#EEF0F3"
BAR_WIDTH = 0.36


class Mark(NamedTuple):
    """The mean of a contrast, and its interval if there is one."""

    mean: float
    interval: tuple[float, float] | None


class ForestRow(NamedTuple):
    """A contrast: its label, its marks by group, and the effect stated for it, 0 if none is."""

    label: str
    marks: Mapping[str, Mark]
    effect: float


class Bar(NamedTuple):
    """An accuracy, a fraction of images, and that of an ensemble, if there is one."""

    name: str
    accuracy: float
    ensemble: float | None = None


@style.print_style()
def plot_forest(panels: Mapping[str, Sequence[ForestRow]]) -> Figure:
    """Plot rows of contrasts by the label of their axis, which has their unit; each panel shows zero and,
    shaded, effects smaller than the stated ones.
    """
    counts = [len(rows) for rows in panels.values()]
    figure = style.new_figure(ROW_HEIGHT * sum(counts) + PANEL_HEIGHT * len(panels) + 0.4)
    all_axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=counts)[:, 0]
    groups = list(dict.fromkeys(group for rows in panels.values() for row in rows for group in row.marks))
    for axes, (label, rows) in zip(all_axes, panels.items(), strict=True):
        _panel(axes, rows, groups)
        axes.set_xlabel(label, loc="right")
    keys = [
        Line2D([], [], markersize=5, linewidth=1.5, label=group, **look)
        for group, look in zip(groups, LOOKS, strict=False)
    ]
    shade = Patch(facecolor=SHADE, edgecolor=style.MUTED_COLOR, label="below the stated effect")
    figure.legend(handles=[*keys, shade], loc="outside lower center", ncols=len(keys) + 1)
    style.enlarge_ticks(figure)
    return figure


def _panel(axes: Axes, rows: Sequence[ForestRow], groups: Sequence[str]) -> None:
    for place, row in enumerate(rows):
        axes.fill_betweenx([place - 0.5, place + 0.5], -row.effect, row.effect, color=SHADE, linewidth=0)
        for index, (group, mark) in enumerate(row.marks.items()):
            look = LOOKS[groups.index(group)]
            y = place + OFFSET * (index - (len(row.marks) - 1) / 2)
            if mark.interval is not None:
                axes.plot(mark.interval, [y, y], color=look["color"], linewidth=1.5, solid_capstyle="butt")
            axes.plot([mark.mean], [y], markersize=4, linestyle="none", **look)
    axes.axvline(0, color=style.TEXT_COLOR, linewidth=0.9)
    axes.set_yticks(np.arange(len(rows)), [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


@style.figure_style()
def plot_accuracy_bars(groups: Mapping[str, Sequence[Bar]]) -> Figure:
    """Plot a group of bars for each key, a color for each name; ensembles are outlines (iGPT figure 4)."""
    figure = style.new_figure(3.7, 5.6)
    axes = figure.add_subplot()
    names = list(dict.fromkeys(bar.name for bars in groups.values() for bar in bars))
    for place, bars in enumerate(groups.values()):
        for bar in bars:
            index = names.index(bar.name)
            x = place + (index - (len(names) - 1) / 2) * BAR_WIDTH
            label = bar.name if place == 0 else None
            axes.bar(x, bar.accuracy, 0.9 * BAR_WIDTH, color=style.COLORS[index], label=label)
            if bar.ensemble is not None:
                axes.bar(x, bar.ensemble, 0.9 * BAR_WIDTH, fill=False, edgecolor=style.TEXT_COLOR)
            top = max(bar.accuracy, bar.ensemble or 0)
            axes.text(x, top, f"{100 * bar.accuracy:.1f} %", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(groups)), [style.wrap_title(name) for name in groups])
    axes.set_ylabel("Test accuracy")
    axes.margins(y=0.12)
    style.percent_ticks(axes.yaxis)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=len(names))
    return figure
