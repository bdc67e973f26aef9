"""Inductive biases by layer: translation error, permutation error, receptive field; and forest plots."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from isopix.plots import style

HEIGHT = 2.5  # inches
EFFECT_COLOR = "#EEF0F3"
ROW_HEIGHT, PANEL_HEIGHT = 0.26, 0.8  # inches, of a contrast, and of the axis of a panel and its label
OFFSET = 0.34  # rows, between the marks of a row
PANELS = (  # key of a layer's record, title, axis label, name of the reference
    ("translation_error", "Translation error", "Relative error", "random pairs"),
    ("permutation_error", "Permutation error", "Relative error", "random pairs"),
    ("receptive_field_mean", "Receptive field", "Mean distance (positions)", "uniform"),
)
GROUP_LOOKS: Any = (  # no color of a block or an encoding
    {"marker": "o", "color": style.TEXT_COLOR, "markerfacecolor": style.TEXT_COLOR},
    {"marker": "D", "color": style.MUTED_COLOR, "markerfacecolor": style.MUTED_COLOR},
    {"marker": "s", "color": style.TEXT_COLOR, "markerfacecolor": style.BACKGROUND},
)


class Mark(NamedTuple):
    """The mean of a contrast, and its interval if there is one."""

    mean: float
    interval: tuple[float, float] | None


class ForestRow(NamedTuple):
    """A contrast: its label, its marks by group, and the effect stated for it, 0 if none is."""

    label: str
    marks: Mapping[str, Mark]
    effect: float


@style.figure_style()
def plot_inductive_biases(numbers: Mapping[str, Any]) -> Figure:
    """Plot the biases of one network, with references: an error of 1, and a uniform receptive field."""
    figure = style.new_figure(HEIGHT)
    for axes, panel, color in zip(figure.subplots(1, len(PANELS)), PANELS, style.COLORS, strict=False):
        layers = [(each["layer"], each[panel[0]]) for each in numbers["layers"]]
        axes.plot(*zip(*layers, strict=True), "o-", color=color, markersize=4, linewidth=1.4)
        _format(axes, panel, numbers["uniform_receptive_field_mean"])
    return figure


def _format(axes: Axes, panel: tuple[str, str, str, str], uniform: float) -> None:
    key, title, ylabel, name = panel
    reference = uniform if key == "receptive_field_mean" else 1.0
    top = max(axes.dataLim.y1, reference) or 1.0  # of a single position
    axes.axhline(reference, color=style.MUTED_COLOR, linewidth=0.9, zorder=1)
    place: Any = {"xytext": (0, 3), "textcoords": "offset points", "xycoords": axes.get_yaxis_transform()}
    axes.annotate(name, (1, reference), ha="right", color=style.TEXT_COLOR, **place)
    axes.set_title(title)
    axes.set(xlabel="Layer\n(0 = embedding)", ylabel=ylabel, ylim=(-0.03 * top, 1.16 * top))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


@style.print_style
def plot_forest(panels: Mapping[str, Sequence[ForestRow]]) -> Figure:
    """Plot contrasts by the label of their axis, zero, and, shaded, effects smaller than the stated ones."""
    counts = [len(rows) for rows in panels.values()]
    figure = style.new_figure(ROW_HEIGHT * sum(counts) + PANEL_HEIGHT * len(panels) + 0.4)
    all_axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=counts)[:, 0]
    groups = list(dict.fromkeys(group for rows in panels.values() for row in rows for group in row.marks))
    for axes, (label, rows) in zip(all_axes, panels.items(), strict=True):
        _panel(axes, rows, groups)
        axes.set_xlabel(label, loc="right")
    keys: list[Artist] = [
        Line2D([], [], markersize=5, linewidth=1.5, label=group, **look)
        for group, look in zip(groups, GROUP_LOOKS, strict=False)
    ]
    if any(row.effect for rows in panels.values() for row in rows):
        shade: Any = {"facecolor": EFFECT_COLOR, "edgecolor": style.MUTED_COLOR}
        keys.append(Patch(label="below the stated effect", **shade))
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys))
    return figure


def _panel(axes: Axes, rows: Sequence[ForestRow], groups: Sequence[str]) -> None:
    for place, row in enumerate(rows):
        height = [place - 0.5, place + 0.5]
        axes.fill_betweenx(height, -row.effect, row.effect, color=EFFECT_COLOR, linewidth=0)
        for index, (group, mark) in enumerate(row.marks.items()):
            look = GROUP_LOOKS[groups.index(group)]
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
